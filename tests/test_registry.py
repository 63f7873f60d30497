"""Registries: parts by name, imported at the first look, and a method of one's own, which the whole job file knows."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.mpi import ROOT

from mpitune.config.effective_keys import effective_keys, ignored_keys
from mpitune.config.explained import with_methods
from mpitune.config.load import load
from mpitune.errors import UsageError
from mpitune.learner.methods import METHODS, Method, Parts
from mpitune.registry import Registry
from mpitune.schema import number

JOB = '[data]\nsource = "a"\nreferences = ["b"]\n[grammar]\nfile = "g"\n[[lm]]\nfile = "l"\n'


def test_parts_are_imported_at_the_first_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "parts_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text(
        'from mpitune.registry import Registry\nPARTS = Registry(__name__, first=["b"])\n'
    )
    for name in "cab":
        text = f"from . import PARTS\n@PARTS.register({name!r})\ndef part():\n    return {name!r}\n"
        (package / f"file_{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import parts_of_a_test

    assert "parts_of_a_test.file_a" not in sys.modules
    assert list(parts_of_a_test.PARTS) == ["b", "a", "c"] and parts_of_a_test.PARTS["c"]() == "c"


def test_a_module_that_cannot_be_imported_is_told_at_each_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_parts").mkdir()
    (tmp_path / "broken_parts" / "__init__.py").touch()
    (tmp_path / "broken_parts" / "one.py").write_text("import no_such_module_of_a_test\n")
    monkeypatch.syspath_prepend(tmp_path)
    parts = Registry[Any]("broken_parts")
    for _ in range(2):
        with pytest.raises(ImportError, match="no_such_module_of_a_test"):
            list(parts)


def test_a_name_is_registered_once() -> None:
    parts = Registry[Any](parts={"one": 1})
    with pytest.raises(ValueError, match="one is registered twice"):
        parts.register("one")(2)


@dataclass(frozen=True)
class Mine(Method):
    about = 'For method = "mine".'
    defaults = {"learner.epochs": 7, "decoder.kbest": 9}

    strength: float = number(0.5, 0.0, 1.0, text="How strong a step is.")
    rounds: int = number(3, 1, used=lambda job: job.learner.tables["mine"].strength > 0)

    def make(self, parts: Parts) -> Any: ...

    def remedy(self) -> str:
        return "lower learner.mine.strength"


def test_a_job_knows_a_method_from_its_class_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS._parts, "mine", Mine)
    (tmp_path / "job.toml").write_text(JOB)

    def job(*settings: str) -> Any:
        return load(tmp_path / "job.toml", settings)

    plain, mine = job("learner.mine.strength=0.25"), job("learner.method=mine", "learner.l1=0.5")
    assert ignored_keys(plain) == ["learner.mine.strength"] and ignored_keys(mine) == ["learner.l1"]
    assert (mine.learner.epochs, mine.decoder.kbest, mine.learner.own) == (7, 9, Mine())
    assert "\n[learner.mine]\nstrength = 0.5\nrounds = 3\n" in mine.to_toml()
    assert {"learner.mine.strength", "learner.mine.rounds"} <= effective_keys(mine).keys()
    assert "learner.mine.rounds" not in effective_keys(job("learner.method=mine", "learner.mine.strength=0"))
    for setting, told in {
        "learner.mine.strenght=1": "unknown key; did you mean learner.mine.strength?",
        "learner.mine.strength=2": "found 2, expected a number of at least 0.0 and at most 1.0",
        "learner.method=mind": "expected one of perceptron, mira, pro, mert, minrisk, rampion, mine",
    }.items():
        with pytest.raises(UsageError) as refused:
            job(setting)
        assert told in str(refused.value)
    text = with_methods((ROOT / "jobs" / "example.toml").read_text(encoding="utf-8"))
    explained = '\n# For method = "mine".\n[learner.mine]\n# How strong a step is.\nstrength = 0.5\nrounds = 3\n'
    assert text.endswith(explained)
