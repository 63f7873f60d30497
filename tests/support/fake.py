"""The fake decoder in a folder, for tests: what it translates, how it fails, what it was sent."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.corpus.weights import read_weights, write_weights
from mpitune.decoder.base import Sentence, TranslationModel
from mpitune.decoder.cdec.decoder import CdecDecoder
from mpitune.decoder.cdec.process import Timeouts
from mpitune.grammar.grammars import ListedGrammars
from mpitune.grammar.rules import Rules, RuleTypes

Table = Mapping[str, Sequence[tuple[str, Mapping[str, float]]]]
"""Translations with their features, by source sentence."""


class Session(NamedTuple):
    """What was said to cdec and what it said, recorded."""

    weights: dict[str, float]
    """Those of its file."""
    turns: list[dict[str, Any]]
    """``sent``: the segment; ``delta``: what is in it, by name; ``received``: the lines of the answer."""
    kbest: int


def own_session() -> Session:
    """Of cdec (2016) with the grammar and language model of `tiny`, identities, and no pass-through rules."""
    folder = Path(__file__).with_name("recorded")
    return Session(read_weights(folder / "session.weights"), json.loads((folder / "session.json").read_text()), 3)


def golden_session(shared: Path) -> Session:
    folder = shared / "golden"
    return Session(read_weights(folder / "nc.weights"), json.loads((folder / "cdec-session.json").read_text()), 5)


class FakeCdec:
    """See `fake_cdec`, the program."""

    def __init__(self, folder: Path, table: Table | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.binary = folder / "cdec"
        """What to start."""
        program = Path(__file__).with_name("fake_cdec.py")
        command = shlex.join([sys.executable, "-S", "-E", str(program), str(folder)])
        self.binary.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        self.binary.chmod(0o755)
        if table is not None:
            (folder / "table.json").write_text(json.dumps(table))

    def fails(self, fault: str, **where: Any) -> None:
        """Besides all else, it fails so; ``where``: ``text``, ``segment``, ``once``."""
        path = self.folder / "faults.json"
        faults = json.loads(path.read_text()) if path.exists() else []
        path.write_text(json.dumps([*faults, {"fault": fault, **where}]))

    def replays(self, session: Session) -> None:
        """It says a recorded session once more."""
        (self.folder / "session.json").write_text(json.dumps(session.turns))
        write_weights(self.folder / "session.weights", session.weights.items())

    def keeps_turns(self) -> None:
        (self.folder / "turns").touch()

    def turns(self) -> list[tuple[str, dict[str, float]]]:
        """The segments that any of the children got, with the weights that each was decoded with; zeros left out."""
        found = []
        for line in (self.folder / "turns").read_text().splitlines():
            segment, weights = json.loads(line)
            values = {name: float.fromhex(value) for name, value in weights.items()}
            found.append((segment, {name: value for name, value in values.items() if value}))
        return found

    @property
    def children(self) -> list[int]:
        """The ids of all that have been started."""
        path = self.folder / "children"
        return [int(line) for line in path.read_text().splitlines()] if path.exists() else []

    def living(self) -> list[int]:
        """Those of `children` that have not ended."""
        return [pid for pid in self.children if is_alive(pid) and str(self.folder) in _command(pid)]

    def end(self) -> None:
        """End what a failed test has left."""
        for pid in self.living():
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and not only what is left of one until its parent looks.

    While other threads of a killed process end, it still holds its locks, although its first thread has ended.
    """
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z" or threads > 1


def _command(pid: int) -> str:
    """Numbers are used again: this tells one process from the next."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def bare_model(names: Sequence[str], lm_names: Sequence[str] = ()) -> TranslationModel:
    """A model of no rules: all that an external decoder needs is the names of the features."""
    none = np.zeros(0, dtype=np.int32)
    types = RuleTypes(*[none] * len(RuleTypes._fields))
    grammars = ListedGrammars(Rules(types, *[none] * (len(Rules._fields) - 1)), np.zeros(1, np.int64))
    return TranslationModel(Vocabulary(), [], grammars, list(names), (), (), list(lm_names))


SHORT = Timeouts(start=20.0, first=20.0, sentence=20.0)
"""Longer than any answer takes, shorter than a test may hang."""


def cdec_decoder(
    binary: Path | str,
    folder: Path,
    model: TranslationModel,
    *,
    inifile: str = "",
    grammars: Sequence[Path] = (),
    kbest: int = 4,
    unique: bool = True,
    timeouts: Timeouts = SHORT,
) -> CdecDecoder:
    return CdecDecoder(
        model,
        binary=str(binary),
        inifile=inifile,
        grammars=grammars,
        folder=folder,
        kbest=kbest,
        unique=unique,
        timeouts=timeouts,
    )


def sentence(model: TranslationModel, number: int, text: str) -> Sentence:
    return Sentence(number, model.words.encode(text.split()), 0)
