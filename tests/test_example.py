"""jobs/example.toml: it loads, has every key there is, with its default, and names every choice."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from support.mpi import ROOT

from mpitune import schema
from mpitune.config.explained import with_methods
from mpitune.config.load import load
from mpitune.config.spec import Job
from mpitune.learner.methods import METHODS
from mpitune.registry import Registry

EXAMPLE = ROOT / "jobs" / "example.toml"
TEXT = with_methods(EXAMPLE.read_text(encoding="utf-8"))
KEY = re.compile(r"^# (?=\w+ = |\[\[)", re.MULTILINE)
"""What stands before a key or a table that another one excludes."""
LEAST = '[data]\nsource = "a"\nreferences = ["b"]\n[data.devtest]\nsource = "c"\nreferences = ["d"]\n'
LEAST += '[grammar]\nfile = "g"\n[[lm]]\nfile = "l"\n'
LISTS = '[data]\nlists = ["a"]\nreferences = ["b"]\n[decoder]\nbackend = "lists"\n'
LISTS += '[[features.files]]\nname = "lm"\nfile = "c"\ndevtest = "d"\n'


def leaves(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for i, entry in enumerate(value):
                yield from leaves(entry, f"{prefix}{name}.{i}.")
        else:
            yield f"{prefix}{name}", value


def written() -> dict[str, Any]:
    """All keys of the example, those that exclude others too."""
    return dict(leaves(tomllib.loads(KEY.sub("", TEXT))))


def test_the_example_job_loads() -> None:
    job = load(EXAMPLE)
    assert job.run.dir == EXAMPLE.parent / "runs" / "example" and job.select.k == 100000


def test_it_has_every_key_with_its_default(tmp_path: Path) -> None:
    least = tmp_path / "example.toml"
    least.write_text(LEAST)
    there = written()
    kinds = {key: (kind, value) for key, kind, value in schema.values(load(least))}
    least.write_text(LISTS)
    kinds = {key: (kind, value) for key, kind, value in schema.values(load(least))} | kinds
    assert there.keys() - kinds.keys() == set(), "keys that do not exist"
    assert kinds.keys() - there.keys() == set(), "keys that are not explained in jobs/example.toml"
    for key, (kind, default) in kinds.items():
        if kind is Path:
            continue
        if default is None:
            assert f"# {key.rpartition('.')[2]} = " in TEXT, f"{key} has no default"
        else:
            expected = list(default) if isinstance(default, tuple) else default
            assert (there[key], type(there[key])) == (expected, type(expected)), key


def test_the_tables_of_methods_are_as_these_explain_them() -> None:
    for name, method in METHODS.items():
        assert not method.about or f"\n\n{schema.explain(method, f'learner.{name}', method.about)}\n" in TEXT


def choices(table: Any, prefix: str = "") -> Iterator[tuple[str, tuple[str, ...]]]:
    """Of each key that has some."""
    for key, of in schema._keys(table).items():
        if "choices" in of.spec.metadata:
            yield f"{prefix}{key}", of.spec.metadata["choices"]
        if is_dataclass(core := schema._core(of.hint)):
            yield from choices(core, f"{prefix}{key}.")


def test_it_explains_every_key_and_names_every_choice() -> None:
    """In the comment right above the key, or above the group that it stands in."""
    above: dict[str, str] = {}
    comment, table, fresh = "", "", True
    for line in TEXT.splitlines():
        if match := re.match(r"(?:# )?(\w+) = (.*)", line):
            above[f"{table}{match[1]}"] = f"{comment} {match[2]}"
            fresh = True
        elif line.startswith("#"):
            comment = line[1:] if fresh else comment + line[1:]
            fresh = False
        elif match := re.match(r"\[+([\w.]+)\]", line):
            table = f"{match[1]}."
    for key, names in choices(Job):
        # Parts that register themselves in files of their own are explained there.
        for name in names.first if isinstance(names, Registry) else names:
            assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", above[key]), f"{key}: {name}"
    assert [key for key, text in above.items() if len(text) < 20] == []
