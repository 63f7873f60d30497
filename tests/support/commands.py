"""Commands of mpitune run in this process."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from mpitune.cli.parser import main

Arguments = list[str | Path]


class Done(NamedTuple):
    code: int
    output: str
    errors: str


class Cli:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Done:
        self._capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Done(code, *self._capsys.readouterr())

    def refused(self, code: int, *arguments: str | Path) -> str:
        """The one line that a command says when it ends with ``code``."""
        done = self(*arguments)
        assert (done.code, done.output) == (code, ""), done
        [line] = done.errors.splitlines()
        assert line.startswith("mpitune: ")
        return line.removeprefix("mpitune: ")


class Trained(NamedTuple):
    job: Path
    run: Path
    source: Path
    """Sentences to translate: known ones, an empty one, one of unknown words."""
