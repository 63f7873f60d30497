"""The data sets by name, and how each is made from its corpus."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from files import estimate_lm, read_lines, write_once
from making import Asked, Ranges, training_split
from sets import DataSet

from mpitune.cli.init import TEMPLATES

DEMO = TEMPLATES / "demo"
"""The corpus of the demo."""


def demo(asked: Asked, folder: Path, size: int) -> DataSet:
    """The corpus of `make demo`: tuned on its first 1,000 training pairs, tested on test; devtest: dev."""
    tuned = [DEMO / "train.ja.gz", DEMO / "train.en.gz"]
    devtest, test = ([DEMO / f"{part}.ja", DEMO / f"{part}.en"] for part in ("dev", "test"))
    parts, ranges = {"tune": tuned, "devtest": devtest}, Ranges((0, size or 1000))
    grammar = {"source": tuned[0], "target": tuned[1], "alignment": DEMO / "train.align.gz"}
    if asked.training:
        parts, ranges, grammar = training_split(folder, grammar, size or 1000)
    lm = estimate_lm(grammar["target"], 3, folder / "lm.arpa.gz")
    return asked.data_set(folder, {**parts, "test": test}, ranges, grammar, lm)


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
    parts, ranges, grammar = (
        {"tune": tuned, "devtest": devtest},
        Ranges((0, size or sys.maxsize)),
        extracted(data, "de"),
    )
    if asked.training:
        parts, ranges, grammar = training_split(folder, grammar, size or 4000)
    return asked.data_set(folder, {**parts, "test": test}, ranges, grammar, data / "lm.4.arpa.gz")


def nc(asked: Asked, folder: Path, size: int) -> DataSet:
    """News: tuned on the first 700 of 999 pairs, tested on the last 299; the LM is estimated from the tuned references.

    With devtest: the last 100 of the 700; tuning and LM use the first 600.
    """
    assert asked.data is not None
    data, seen = asked.data / "nc", 600 if asked.devtest else 700
    files = [data / "nc.de.gz", data / "nc.en.gz"]
    ranges = Ranges((0, min(size or seen, seen)), (600, 700), (700, 999))
    write_once(folder / "lm.text", lambda: islice(read_lines(files[1]), seen))
    lm = estimate_lm(folder / "lm.text", 3, folder / "lm.arpa.gz")
    parts = dict.fromkeys(("tune", "devtest", "test"), files)
    return replace(asked.data_set(folder, parts, ranges, {"file": data / "grammar.gz"}, lm), scalable=True)


def europarl(asked: Asked, folder: Path, size: int) -> DataSet:
    """Parliament: the first 600 sentences each of dev, devtest and test.

    With training: tuned on the first 3,000 training pairs.
    """
    assert asked.data is not None
    data = asked.data / "europarl"
    tuned, devtest, test = (
        [data / f"{part}.{language}.gz" for language in ("fr", "en")] for part in ("dev", "devtest", "test")
    )
    parts, ranges, grammar = (
        {"tune": tuned, "devtest": devtest},
        Ranges((0, size or 600), (0, 600)),
        extracted(data, "fr"),
    )
    if asked.training:
        parts, ranges, grammar = training_split(folder, grammar, size or 3000)
    # One LM for all sizes, because estimating it takes a while.
    lm = estimate_lm(data / "lm-train.en.gz", 4, asked.work / "europarl-lm.arpa.gz")
    return asked.data_set(folder, {**parts, "test": test}, replace(ranges, test=(0, 600)), grammar, lm)


def extracted(data: Path, language: str) -> dict[str, Path]:
    """Job keys of a grammar extracted from the training bitext."""
    names = {"source": language, "target": "en", "alignment": f"{language}-en.align"}
    return {key: data / f"train.{name}.gz" for key, name in names.items()}


@dataclass(frozen=True)
class Further:
    """A set on which nothing was chosen: another direction, domain or size of the corpora above."""

    corpus: str
    languages: tuple[str, str]
    """Source and target."""
    pairs: int
    """Rules are extracted from the first pairs of the bitext."""
    lm: tuple[str, int, int]
    """Text of the language model: a file of the corpus, first line and end (exclusive)."""
    order: int
    tuned: tuple[str, int]
    """A text of the corpus, and the number of its first sentences that are tuned on unless the name says otherwise."""
    test: tuple[str, int]
    fast: bool = False
    """`Asked.data_set`."""

    def __call__(self, asked: Asked, folder: Path, size: int) -> DataSet:
        """Make the set."""
        assert asked.data is not None
        data = asked.data / self.corpus
        tuned, test = (
            [data / f"{part}.{language}.gz" for language in self.languages] for part, _ in (self.tuned, self.test)
        )
        (links,) = data.glob("train.*.align.gz")
        bitext = dict(zip(("source", "target"), (data / f"train.{one}.gz" for one in self.languages), strict=True))
        grammar = {key: folder / f"bitext.{key}.gz" for key in (*bitext, "alignment")}
        for key, file in bitext.items():
            write_once(grammar[key], lambda file=file: islice(read_lines(file), self.pairs))
        # The alignment's name has its source language first.
        turned = not links.name.startswith(f"train.{self.languages[0]}-")
        write_once(
            grammar["alignment"],
            lambda: (turned_links(line) if turned else line for line in islice(read_lines(links), self.pairs)),
        )
        text, first, end = self.lm
        write_once(folder / "lm.text", lambda: islice(read_lines(data / f"{text}.gz"), first, end))
        lm = estimate_lm(folder / "lm.text", self.order, folder / "lm.arpa.gz")
        ranges = Ranges((0, size or self.tuned[1]), test=(0, self.test[1]))
        return asked.data_set(folder, {"tune": tuned, "test": test}, ranges, grammar, lm, fast=self.fast)


def turned_links(line: str) -> str:
    """Exchange source and target in a line of word alignment."""
    return " ".join("-".join(reversed(link.split("-"))) for link in line.split())


SETS: dict[str, Callable[[Asked, Path, int], DataSet]] = {
    "demo": demo,
    "multi30k": multi30k,
    "nc": nc,
    "europarl": europarl,
}
"""The sets that are measured by default; each lies in the folder of its name below MPITUNE_DATA, except the demo."""
FURTHER = {
    "small-bitext": Further(
        "multi30k", ("de", "en"), 3_000, ("train.en", 0, 3_000), 3, ("val", 300), ("test_2017_flickr", 1_000)
    ),
    "into-german": Further(
        "multi30k", ("en", "de"), 10_000, ("train.de", 10_000, 29_000), 3, ("val", 400), ("test_2016_flickr", 1_000)
    ),
    "into-french": Further(
        "europarl", ("en", "fr"), 30_000, ("train.fr", 30_000, 200_000), 4, ("dev", 250), ("devtest", 500), fast=True
    ),
    "other-domain": Further(
        "europarl",
        ("fr", "en"),
        30_000,
        ("lm-train.en", 0, 150_000),
        4,
        ("news2009", 250),
        ("news2010", 500),
        fast=True,
    ),
}
"""The others, which --sets names."""


def make(asked: Asked, name: str) -> DataSet | str:
    """Make the set ``name`` or ``name:sentences``; returns an error message if it cannot be made."""
    kind, _, number = name.partition(":")
    corpus = FURTHER[kind].corpus if kind in FURTHER else kind
    if kind != "demo":
        if asked.data is None:
            return "MPITUNE_DATA is not set: set it to the folder that contains it"
        if not (asked.data / corpus).is_dir():
            return f"MPITUNE_DATA: found no folder {asked.data / corpus}"
    if asked.training and (kind == "nc" or kind in FURTHER):
        return "it is not made for --training"
    if asked.devtest and kind in FURTHER:
        return "it is not made for --devtest"
    suffix = "training" if asked.training else "devtest" if asked.devtest else ""
    folder = asked.work / (name.replace(":", "-") + f"-{suffix}".rstrip("-"))
    folder.mkdir(parents=True, exist_ok=True)
    made = (SETS | FURTHER)[kind](asked, folder, int(number or 0))
    return replace(made, name=name + f"+{suffix}".rstrip("+"))
