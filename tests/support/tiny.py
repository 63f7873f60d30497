"""A tiny translation task, complete: its files are written out here, and a run over them takes a second.

A made-up grammar in which every word has a good translation and bad ones, and verbs come in the right order and in the
wrong one; with no weights the decoder often takes the wrong side, and a few epochs of training mend that. Scores and
learning rate are multiples of a power of 2, so that no sum of a few of them is rounded: updates at w.d = 0 are the same
in whatever order they are computed.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from support.fake import is_alive
from support.mpi import ROOT, launcher

from mpitune.config.spec import Job
from mpitune.exchange.comm import SerialComm
from mpitune.runtime.log import start_logging
from mpitune.training import job_inputs
from mpitune.training.loop import train

_WORDS: dict[str, tuple[str, ...]] = {
    "der mann": ("the man", "a gentleman", "this men"),
    "die frau": ("the woman", "a lady", "that wife"),
    "das kind": ("the child", "a kid", "the baby child"),
    "haus": ("house", "home", "the building"),
    "ball": ("ball", "dance", "bullet"),
    "buch": ("book", "tome", "the books"),
    "das": ("the", "this", "that"),
    "den": ("the", "him", "that"),
    "heute": ("today", "now", "this day"),
}
_VERBS: dict[str, tuple[str, ...]] = {
    "gesehen": ("seen", "viewed"),
    "gefunden": ("found", "detected"),
    "gekauft": ("bought", "purchased"),
}
_SUBJECTS = ("der mann", "die frau", "das kind")
_OBJECTS = ("das haus", "den ball", "das buch")


def _grammar() -> list[str]:
    """Lines of a grammar; the scores tell only roughly which translation is good."""
    lines = []
    for source, targets in _WORDS.items():
        for n, target in enumerate(targets):
            words = len(source.split())
            links = " ".join(f"{i}-{min(i, len(target.split()) - 1)}" for i in range(words))
            scores = f"Cost={1.5 - 0.5 * n + len(source) / 64} Lex={0.25 * n + 0.125} Rare={n // 2}"
            lines.append(f"[X] ||| {source} ||| {target} ||| {scores} ||| {links}")
    for source, targets in _VERBS.items():
        for n, target in enumerate(targets):
            for m, side in enumerate((f"{target} [X,1]", f"[X,1] {target}")):
                scores = f"Cost={0.75 - 0.25 * n + 0.125 * m} Lex={0.25 * n + 0.25 * m} Order={m}"
                lines.append(f"[X] ||| [X,1] {source} ||| {side} ||| {scores}")
    lines += [
        "[X] ||| [X,1] hat [X,2] ||| [1] has [2] ||| Cost=0.5",
        "[X] ||| [X,1] hat [X,2] ||| [2] has [1] ||| Cost=0.375 Order=1",
        "[X] ||| [X,1] hat [X,2] ||| [2] [1] ||| Cost=0.25 Order=1",
        "[X] ||| heute [X,1] ||| [1] today ||| Cost=0.625",
        "[X] ||| das [X,1] ||| the [1] ||| Cost=0.875",
        "[X] ||| den [X,1] ||| the [1] ||| Cost=0.875",
        "[X] ||| das haus ||| ||| Cost=0.125",
    ]
    return lines


def _sentences() -> list[tuple[str, str, str]]:
    """Source, reference, second reference."""
    pairs = []
    for n, (subject, thing, verb) in enumerate(product(_SUBJECTS, _OBJECTS, _VERBS)):
        who = _WORDS[subject][0]
        what = f"the {_WORDS[thing.split()[1]][0]}"
        done = _VERBS[verb][0]
        pairs.append((f"{subject} hat {thing} {verb}", f"{who} has {done} {what}", f"{who} had {what} {done} ."))
        if n % 4 == 0:
            pairs.append((f"heute {thing} {verb}", f"{done} {what} today", f"today {done} {what}"))
    pairs[5] = ("", "", "")
    pairs[11] = ("xyzzy hat den ball gefunden", "xyzzy has found the ball", "xyzzy found the ball")
    return pairs


OTHER_WORDS = {
    ("haus", "house"): "home",
    ("ball", "ball"): "dance",
    ("buch", "book"): "tome",
}
"""Translations that the references for training avoid and those of devtest have."""


def _in_other_words(reference: str) -> str:
    for (_, word), other in OTHER_WORDS.items():
        reference = reference.replace(f" {word}", f" {other}")
    return reference


def _arpa(sentences: Sequence[str]) -> str:
    """A trigram model of ``sentences``; n-grams seen once are left out above order 2."""
    lines = [["<s>", *sentence.split(), "</s>"] for sentence in sentences]
    counts = [Counter(tuple(w[i : i + n]) for w in lines for i in range(len(w) - n + 1)) for n in (1, 2, 3)]
    counts[2] = Counter({gram: count for gram, count in counts[2].items() if count > 1})
    orders: list[list[str]] = [["-2.5\t<unk>"], [], []]
    for n, ngrams in enumerate(counts):
        for gram, count in sorted(ngrams.items()):
            context = sum(counts[0].values()) if n == 0 else counts[n - 1][gram[:-1]]
            backoff = "" if n == 2 or gram[-1] == "</s>" else f"\t{-0.3 - 0.1 * n:.2f}"
            prob = -99.0 if gram == ("<s>",) else math.log10(0.7 * count / context)
            orders[n].append(f"{prob:.5f}\t{' '.join(gram)}{backoff}")
    text = ["\\data\\", *(f"ngram {n}={len(order)}" for n, order in enumerate(orders, 1))]
    for n, order in enumerate(orders, 1):
        text += ["", f"\\{n}-grams:", *order]
    return "\n".join([*text, "", "\\end\\", ""])


def write_data(folder: Path) -> None:
    """Write the task's files to ``folder``: 34 sentences to train on, the last 8 of them kept for devtest."""
    grammar, pairs = _grammar(), _sentences()
    parts = {
        "train": pairs[:-8],
        "dev": [(source, _in_other_words(first), second) for source, first, second in pairs[-8:]],
    }
    files = {"grammar": grammar, "lm.arpa": [_arpa([pair[1] for pair in pairs[:-8] if pair[0]])]}
    for name, part in parts.items():
        files[f"{name}.de"] = [pair[0] for pair in part]
        files[f"{name}.en"] = [pair[1] for pair in part]
        files[f"{name}.en2"] = [pair[2] for pair in part]
    files["warm"] = [f"R:X:{source}:{other} 0.25" for (source, _), other in OTHER_WORDS.items()]
    files["warm"] += ["LanguageModel 0.015625", "R:X:never:fired 0.25"]
    files["own.de"] = [f'<seg grammar="own.{n % 3}" id="{n}">{pair[0]}</seg>' for n, pair in enumerate(pairs[:6])]
    for n in range(3):
        files[f"own.{n}"] = grammar[n:]
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


JOB: dict[str, dict[str, Any]] = {
    "data": {"source": "train.de", "references": ["train.en", "train.en2"]},
    "grammar": {"file": "grammar"},
    "decoder": {"kbest": 30, "pop_limit": 30},
    "features": {"templates": ["id", "source-bigram", "shape"]},
    "learner": {"preset": "simianer2012", "epochs": 2, "learning_rate": 1 / 128},
    "parallel": {"shards": 4},
    "select": {"k": 40},
}
"""What a job over the task says, where nothing else is asked for.

The preset is for the perceptron: jobs of other methods have the defaults of these.
"""
DEVTEST: dict[str, Any] = {"data__devtest": {"source": "dev.de", "references": ["dev.en"]}}


class Tiny:
    """The task in a folder, and jobs over it that run in other folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_data(folder)

    def job_file(self, run: Path, /, **tables: Mapping[str, Any] | None) -> Path:
        """Write a job that runs in the folder ``run``, as `JOB` but for ``tables``; ``__`` in a name stands for a dot.

        A key whose value is None is left out; None for a table leaves the table out.
        """
        asked = {name.replace("__", "."): table for name, table in tables.items()}
        # A store for each choice of data, shared by all runs that make the same choice.
        data = {name: asked.get(name) for name in ("data", "data.devtest", "grammar")}
        stores = self.folder / "stores"
        stores.mkdir(exist_ok=True)
        known = sorted(stores.glob("*.json"))
        text = json.dumps(data, sort_keys=True, default=str)
        store = next((path for path in known if path.read_text() == text), stores / f"{len(known)}.json")
        store.write_text(text)
        tables_given: dict[str, Mapping[str, Any]] = {"run": {"dir": str(run), "store": str(store.with_suffix(""))}}
        for name in [*JOB, *(name for name in asked if name not in JOB)]:
            if name in asked and asked[name] is None:
                continue
            given = asked.get(name) or {}
            usual = {**JOB.get(name, {}), **tables_given.get(name, {})}
            if given.get("method", "perceptron") != "perceptron":
                usual.pop("preset", None)
            tables_given[name] = {**usual, **given}
        lines = []
        for name, table in tables_given.items():
            lines.append(f"[{name}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in table.items() if value is not None]
        lines += ["[[lm]]", 'file = "lm.arpa"', ""]
        path = self.folder / f"{run.name}-{abs(hash(run)):x}.toml"
        path.write_text("\n".join(lines))
        return path

    def job(self, run: Path, /, **tables: Mapping[str, Any] | None) -> Job:
        """The job of `job_file`, loaded."""
        return job_inputs.load_job(self.job_file(run, **tables), [])

    def train(self, run: Path, /, resume: str = "auto", **tables: Mapping[str, Any] | None) -> Job:
        """Run that job in this process."""
        job = self.job(run, **tables)
        start_logging(quiet=True)
        train(job, SerialComm(), resume=resume)
        return job


def start(n: int, args: Sequence[str | os.PathLike[str]]) -> subprocess.Popen[str]:
    """Start ``mpitune ARGS``, alone or (n > 1) as ``n`` ranks, in a process group of its own."""
    command = [sys.executable, "-m", "mpitune", *(os.fspath(arg) for arg in args)]
    if n > 1:
        command = [*launcher(), "-n", str(n), *command]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ranks_of(process: subprocess.Popen[str]) -> list[int]:
    """The ids of ``process`` and all that it started, directly or not."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [process.pid]
    for pid in found:
        found += parents.get(pid, [])
    return found


def kill_all(process: subprocess.Popen[str], seconds: float = 60.0) -> None:
    """End ``process`` and all that it started, without a warning, as a power cut would; returns when all are gone."""
    ranks = ranks_of(process)
    for pid in ranks:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate(timeout=60)
    end = time.monotonic() + seconds
    while any(map(is_alive, ranks)):
        assert time.monotonic() < end, "killed processes are still there"
        time.sleep(0.005)


def wait_for(condition: Callable[[], object], process: subprocess.Popen[str], seconds: float = 120.0) -> None:
    """Return when ``condition`` holds; an error where ``process`` ends before that."""
    end = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            raise AssertionError(f"ended with {process.returncode}: {process.communicate()[1]}")
        if time.monotonic() > end:
            kill_all(process)
            raise AssertionError(f"nothing after {seconds} seconds")
        time.sleep(0.005)
