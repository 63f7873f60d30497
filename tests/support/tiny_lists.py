"""The tiny task's n-best lists as files of other programs, and jobs over them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from support.tiny import Tiny

from mpitune.exchange.comm import SerialComm
from mpitune.training.open_run import open_run


class Hypothesis(NamedTuple):
    text: str
    features: dict[str, float]


def _cdec(number: int, entry: Hypothesis) -> str:
    return f"{number} ||| {entry.text} ||| {' '.join(f'{n}={v!r}' for n, v in entry.features.items())} ||| 0"


def _moses(number: int, entry: Hypothesis) -> str:
    return f"{number} ||| {entry.text} ||| {' '.join(f'{n}= {v!r}' for n, v in entry.features.items())} ||| 0"


def _json(number: int, entry: Hypothesis) -> str:
    return json.dumps({"id": number, "text": entry.text, "features": entry.features})


FORMATS: dict[str, Callable[[int, Hypothesis], str]] = {"cdec": _cdec, "moses": _moses, "json": _json}


def tables_of(method: str, epochs: int = 2) -> dict[str, Any]:
    """What a job says beside its lists: few restarts, as is enough for a tiny task."""
    tables: dict[str, Any] = {"learner": {"method": method, "epochs": epochs, "patience": 0}}
    return tables | ({"learner__mert": {"restarts": 1, "directions": 2}} if method == "mert" else {})


class TinyLists:
    """Lists of the task's sentences, 30 translations each, as the embedded decoder finds them without weights."""

    def __init__(self, tiny: Tiny, folder: Path) -> None:
        self.folder = folder
        tables: dict[str, Any] = {"data__devtest": {"source": "dev.de", "references": ["dev.en"]}}
        run = open_run(tiny.job(folder / "decoded", **tables), SerialComm())
        devtest = run.store.devtest
        assert devtest is not None
        self.lists: dict[str, list[list[Hypothesis]]] = {"train": [], "dev": []}
        for name, corpus in (("train", run.corpus), ("dev", devtest)):
            for i in range(corpus.size):
                kbest = run.decoder.decode(corpus.sentence(i), run.first.value, 30)
                entries = []
                for j in range(kbest.size):
                    row = slice(*kbest.feature_ptr[j : j + 2])
                    names = map(run.features.name, kbest.feature_index[row].tolist())
                    features = dict(zip(names, kbest.feature_value[row].tolist(), strict=True))
                    entries.append(Hypothesis(" ".join(run.store.model.words.decode(kbest.translation(j))), features))
                self.lists[name].append(entries)
            for kind in FORMATS:
                self.write(f"{name}.{kind}", kind, self.lists[name])
        for name in ("train.de", "train.en", "train.en2", "dev.de", "dev.en"):
            (folder / name).write_bytes((tiny.folder / name).read_bytes())

    def write(self, name: str, kind: str, lists: Sequence[Sequence[Hypothesis]]) -> Path:
        lines = [FORMATS[kind](number, entry) for number, entries in enumerate(lists) for entry in entries]
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return self.folder / name

    def job_file(self, run: Path, kind: str = "cdec", /, **tables: Mapping[str, Any]) -> Path:
        """Write a job over the lists of a format that runs in the folder ``run``; ``__`` in a name stands for a dot."""
        given: dict[str, dict[str, Any]] = {
            "run": {"dir": str(run), "store": str(self.folder / "stores" / kind)},
            "data": {"lists": [f"train.{kind}"], "references": ["train.en", "train.en2"]},
            "data.devtest": {"lists": [f"dev.{kind}"], "references": ["dev.en"]},
            "decoder": {"backend": "lists", "kbest": 30},
            "learner": {"epochs": 2},
            "parallel": {"shards": 4},
            "select": {"k": 40},
        }
        for name, table in tables.items():
            given.setdefault(name.replace("__", "."), {}).update(table)
        (self.folder / "stores").mkdir(exist_ok=True)
        lines = []
        for name, table in given.items():
            lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
        path = self.folder / f"{run.name}-{abs(hash(run)):x}.toml"
        path.write_text("\n".join(lines))
        return path
