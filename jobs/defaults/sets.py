"""The data sets on which the defaults are measured: each has a base job, a held-out test set and initial weights.

Files are written once, below the working folder; no text enters the repository.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from mpitune.array_files.atomic import atomic_replace
from mpitune.corpus.text import lines
from mpitune.demo.generate import generate

FIRST_SCORE = "EgivenFCoherent"
"""The score that variants multiply alone; in grammars without score names, the first one."""
START = {"LanguageModel": 0.4, "WordPenalty": -0.4, "Glue": -0.1, "PassThrough": -1.0}
"""Initial weights of batch methods, with `START_SCORE`: with weights of 0 the first lists contain nothing to learn
from."""
START_SCORE = -0.2
"""Initial weight of the first score."""
FACTORS = {
    "all-x0.01": (0.01, False),
    "all-x100": (100.0, False),
    "one-x1000": (1000.0, True),
}
"""Variants of a set: the factor for the scores of its grammar, and True to multiply the first score only. If all scores
are multiplied, so are the LM's log probabilities."""

HELD_OUT = 1000
"""Training pairs on which the epoch is chosen when others are tuned on."""


@dataclass(frozen=True)
class DataSet:
    """A tuning job and a test set."""

    name: str
    folder: Path
    """Folder for its files and runs."""
    job: Path
    source: Path
    """Source of the test set."""
    reference: Path
    size: int
    """Number of tuning sentences."""
    scalable: bool = False
    """True if grammar and LM are text files whose scores can be multiplied."""
    first_score: str = FIRST_SCORE
    """Feature name of the grammar's first score."""

    @property
    def start(self) -> Path:
        """File of the initial weights of batch methods."""
        return self.folder / "start.weights"

    def variant(self, name: str) -> DataSet:
        """Return the set with multiplied scores, see `FACTORS`; its files are written if missing."""
        factor, one = FACTORS[name]
        folder = self.folder / name
        grammar, lm = folder / "grammar.gz", folder / "lm.arpa.gz"
        text = self.job.read_text(encoding="utf-8")
        files = {key: Path(_value(text, key)) for key in ("grammar.file", "lm.file")}
        _once(grammar, lambda: scaled_grammar(_lines(files["grammar.file"]), factor, one))
        text = text.replace(_quoted(files["grammar.file"]), _quoted(grammar))
        if not one:
            _once(lm, lambda: scaled_arpa(_lines(files["lm.file"]), factor))
            text = text.replace(_quoted(files["lm.file"]), _quoted(lm))
        _once(folder / "job.toml", lambda: text.splitlines())
        return replace(self, job=folder / "job.toml")


@dataclass(frozen=True)
class Asked:
    """Options for making sets."""

    work: Path
    devtest: bool = False
    """True to choose the epoch on sentences that are neither tuning nor test sentences."""
    training: bool = False
    """True to tune on training pairs, each without the rules that only it has, and to choose the epoch on others."""
    tested: int = sys.maxsize
    """Largest number of test sentences."""

    @property
    def data(self) -> Path | None:
        """Folder of the sets that are not generated, from MPITUNE_DATA."""
        return Path(os.environ["MPITUNE_DATA"]) if "MPITUNE_DATA" in os.environ else None

    def make(self, name: str) -> DataSet | str:
        """Make the set ``name`` or ``name:sentences``; returns an error message if its data are missing."""
        kind, _, number = name.partition(":")
        if kind != "demo":
            if self.data is None:
                return "MPITUNE_DATA is not set: set it to the folder that contains it"
            if not (self.data / kind).is_dir():
                return f"MPITUNE_DATA: found no folder {self.data / kind}"
        if self.training and kind == "nc":
            return "it has no training pairs, only a grammar"
        suffix = "training" if self.training else "devtest" if self.devtest else ""
        folder = self.work / (name.replace(":", "-") + f"-{suffix}".rstrip("-"))
        folder.mkdir(parents=True, exist_ok=True)
        made = SETS[kind](self, folder, int(number or 0))
        start = {**START, made.first_score: START_SCORE}
        _once(made.start, lambda: [f"{feature} {weight:g}" for feature, weight in start.items()])
        return replace(made, name=name + f"+{suffix}".rstrip("+"))

    def texts(
        self, folder: Path, tuned: Sequence[Path], devtest: Sequence[Path], test: Sequence[Path], ranges: _Ranges
    ) -> DataSet:
        """Write the texts of a set, which are ranges of the given files (source, reference); its job is not written."""
        for part, files in {"tune": tuned, "devtest": devtest, "test": test}.items():
            for file, side in zip(files, ("source", "reference"), strict=True):
                first, end = getattr(ranges, part)
                if part == "test":
                    end = min(end, first + self.tested)
                _once(folder / f"{part}.{side}", lambda f=file, a=first, b=end: islice(_lines(f), a, b))
        size = sum(1 for _ in _lines(folder / "tune.source"))
        return DataSet("", folder, folder / "job.toml", folder / "test.source", folder / "test.reference", size)

    def job(self, folder: Path, grammar: dict[str, Path], lm: Path) -> None:
        """Write the base job: data, models, algorithm 1 (on training pairs: 4), otherwise the defaults."""
        text = ["[data]", f"source = {_quoted(folder / 'tune.source')}"]
        text += [f"references = [{_quoted(folder / 'tune.reference')}]"]
        if self.devtest or self.training:
            text += ["[data.devtest]", f"source = {_quoted(folder / 'devtest.source')}"]
            text += [f"references = [{_quoted(folder / 'devtest.reference')}]"]
        text += ["[grammar]", *(f"{key} = {_quoted(file)}" for key, file in grammar.items())]
        if self.training and "alignment" in grammar:
            text += ["leave_one_out = true"]
        algorithm = "itersel" if self.training else "sgd"
        text += ["[[lm]]", f"file = {_quoted(lm)}", "[learner]", f'algorithm = "{algorithm}"']
        _once(folder / "job.toml", lambda: text)


@dataclass(frozen=True)
class _Ranges:
    """First sentence and end (exclusive) of each part."""

    tune: tuple[int, int]
    devtest: tuple[int, int] = (0, sys.maxsize)
    test: tuple[int, int] = (0, sys.maxsize)


def demo(asked: Asked, folder: Path, size: int) -> DataSet:
    """The data of `make demo`: the first 1,000 sentences of its training part.

    With training: the first 2,000; the epoch is chosen on the last 1,000.
    """
    data = folder / "data"
    if not (data / "lm.arpa.gz").exists():
        generate(data)
        _lm(data / "lm.en", 3, data / "lm.arpa.gz")
    tuned, devtest, test = ([data / f"{part}.de", data / f"{part}.en"] for part in ("train", "devtest", "test"))
    ranges = _Ranges((0, size or 1000))
    if asked.training:
        first = sum(1 for _ in _lines(tuned[0])) * 2 // 3
        devtest, ranges = tuned, _Ranges((0, min(size or first, first)), (first, sys.maxsize))
    made = asked.texts(folder, tuned, devtest, test, ranges)
    asked.job(folder, {"file": data / "grammar.gz"}, data / "lm.arpa.gz")
    return replace(made, scalable=True)


def multi30k(asked: Asked, folder: Path, size: int) -> DataSet:
    """Captions: tuned on val, tested on test_2016_flickr; devtest: test_2017_flickr.

    With training: tuned on the first 4,000 training pairs.
    """
    assert asked.data is not None
    data = asked.data / "multi30k"
    tuned, devtest, test = (
        [data / f"{part}.{language}.gz" for language in ("de", "en")]
        for part in ("val", "test_2017_flickr", "test_2016_flickr")
    )
    ranges, grammar = _Ranges((0, size or sys.maxsize)), _extracted(data, "de")
    if asked.training:
        tuned, devtest, ranges, grammar = _training(folder, grammar, size or 4000)
    made = asked.texts(folder, tuned, devtest, test, ranges)
    asked.job(folder, grammar, data / "lm.4.arpa.gz")
    return made


def nc(asked: Asked, folder: Path, size: int) -> DataSet:
    """News: tuned on the first 700 of 999 pairs, tested on the last 299; the LM is estimated from the tuned references.

    With devtest: the last 100 of the 700; tuning and LM use the first 600.
    """
    assert asked.data is not None
    data, seen = asked.data / "nc", 600 if asked.devtest else 700
    files = [data / "nc.de.gz", data / "nc.en.gz"]
    ranges = _Ranges((0, min(size or seen, seen)), (600, 700), (700, 999))
    made = asked.texts(folder, files, files, files, ranges)
    _once(folder / "lm.text", lambda: islice(_lines(files[1]), seen))
    _lm(folder / "lm.text", 3, folder / "lm.arpa.gz")
    asked.job(folder, {"file": data / "grammar.gz"}, folder / "lm.arpa.gz")
    return replace(made, scalable=True, first_score="PhraseModel_0")


def europarl(asked: Asked, folder: Path, size: int) -> DataSet:
    """Parliament: the first 600 sentences each of dev, devtest and test.

    With training: tuned on the first 3,000 training pairs.
    """
    assert asked.data is not None
    data = asked.data / "europarl"
    tuned, devtest, test = (
        [data / f"{part}.{language}.gz" for language in ("fr", "en")] for part in ("dev", "devtest", "test")
    )
    ranges, grammar = _Ranges((0, size or 600), (0, 600), (0, 600)), _extracted(data, "fr")
    if asked.training:
        tuned, devtest, ranges, grammar = _training(folder, grammar, size or 3000)
        ranges = replace(ranges, test=(0, 600))
    made = asked.texts(folder, tuned, devtest, test, ranges)
    # One LM for all sizes, because estimating it takes a while.
    lm = asked.work / "europarl-lm.arpa.gz"
    _lm(data / "lm-train.en.gz", 4, lm)
    asked.job(folder, grammar, lm)
    return made


SETS: dict[str, Callable[[Asked, Path, int], DataSet]] = {
    "demo": demo,
    "multi30k": multi30k,
    "nc": nc,
    "europarl": europarl,
}


def scaled_grammar(rules: Iterable[str], factor: float, one: bool) -> Iterable[str]:
    """Multiply the scores of rules, ``name=value`` or ``value``; ``one``: only `FIRST_SCORE`."""
    for line in rules:
        fields = line.split(" ||| ")
        scores = []
        for n, score in enumerate(fields[3].split()):
            name, equals, value = score.rpartition("=")
            # Without names, the first score.
            multiplied = not one or (name == FIRST_SCORE if equals else n == 0)
            scores.append(f"{name}{equals}{float(value) * factor!r}" if multiplied else score)
        yield " ||| ".join([*fields[:3], " ".join(scores), *fields[4:]])


def scaled_arpa(text: Iterable[str], factor: float) -> Iterable[str]:
    """Multiply the log probabilities and back-off weights of an ARPA file."""
    order = 0
    for line in text:
        if line.startswith("\\"):
            order = int(line[1:].partition("-")[0]) if line.endswith("-grams:") else 0
        elif order and line.strip():
            first, *rest = line.split()
            words, backoff = rest[:order], rest[order:]
            numbers = [f"{float(number) * factor!r}" for number in (first, *backoff)]
            line = "\t".join([numbers[0], " ".join(words), *numbers[1:]])
        yield line


def _extracted(data: Path, language: str) -> dict[str, Path]:
    """Job keys of a grammar extracted from the training bitext."""
    names = {"source": language, "target": "en", "alignment": f"{language}-en.align"}
    return {key: data / f"train.{name}.gz" for key, name in names.items()}


def _training(
    folder: Path, bitext: dict[str, Path], size: int
) -> tuple[list[Path], list[Path], _Ranges, dict[str, Path]]:
    """Tuned texts, devtest texts, ranges and grammar keys to tune on the first ``size`` pairs of ``bitext``.

    Its last `HELD_OUT` pairs are the devtest set; rules are extracted from the others.
    """
    texts = [bitext["source"], bitext["target"]]
    end = sum(1 for _ in _lines(texts[0]))
    first = end - HELD_OUT
    grammar = {key: folder / f"bitext.{key}.gz" for key in bitext}
    for key, file in bitext.items():
        _once(grammar[key], lambda file=file: islice(_lines(file), first))
    return texts, texts, _Ranges((0, size), (first, end)), grammar


def _lm(text: Path, order: int, output: Path) -> None:
    if not output.exists():
        print(f"estimating {output}", file=sys.stderr, flush=True)
        words = [sys.executable, "-m", "mpitune", "lm", "--order", str(order), "--input", str(text)]
        done = subprocess.run([*words, "--output", str(output)], stdout=2, check=False)
        if done.returncode:
            sys.exit(f"{output} could not be estimated")


def _once(file: Path, text: Callable[[], Iterable[str]]) -> None:
    """Write the lines into ``file``, atomically, if it does not exist."""
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    zipped = file.suffix == ".gz"
    with atomic_replace(file) as part, gzip.open(part, "wb") if zipped else open(part, "wb") as out:
        out.writelines(f"{line}\n".encode() for line in text())


def _lines(file: Path) -> Iterable[str]:
    return (line for _, line in lines(file))


def _quoted(path: Path) -> str:
    return json.dumps(str(path), ensure_ascii=False)


def _value(job: str, key: str) -> str:
    """Read the value of ``table.key`` in a job written by `Asked.job`."""
    table, _, name = key.partition(".")
    after = job[job.index(f"[{table}]") :]
    line = next(line for line in after.splitlines() if line.startswith(f"{name} = "))
    return str(json.loads(line.partition(" = ")[2]))
