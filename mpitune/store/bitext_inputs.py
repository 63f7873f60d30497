"""Input files that a job leaves out, made from its bitext: parts of it, word alignments, language models."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.array_files.arrays import open_arrays
from mpitune.array_files.atomic import open_atomic
from mpitune.array_files.cache import Recipe, cached
from mpitune.corpus.bitext import AlignedFiles, AlignedPair
from mpitune.corpus.eflomal import find_program, write_alignment
from mpitune.corpus.lines import kilobytes
from mpitune.corpus.progress import Progress
from mpitune.corpus.text import SEG_TAG
from mpitune.corpus.tokenisation import warn_of_untokenised
from mpitune.corpus.wording import counted
from mpitune.errors import DataError, MachineError, UsageError
from mpitune.files import writing
from mpitune.lm.kneser_ney import estimate, estimate_arrays
from mpitune.store.structure import check_lm

LOG = logging.getLogger(__name__)

_SEED = 1
"""Of the draw of held-out pairs. It is not the run's seed, so that runs with several seeds share a store."""
_HELD_OUT_SHARE, MOST_HELD_OUT = 20, 1000
"""One pair in so many is held out, and at most so many pairs."""
_TUNED_SHARE, MOST_TUNED = 10, 2000
"""Likewise of the pairs to tune on, where a language model is estimated from them all and the job sets no limit."""
_HELD_OUT, _TUNED, _OTHER = 0, 1, 2


class MadeInput(ABC):
    """Files that are made together: texts, and beside the first a file of arrays that holds what the log says of them.

    Its manifest tells whether they are to be made again.
    """

    @property
    @abstractmethod
    def outputs(self) -> list[Path]:
        """The files."""

    @property
    @abstractmethod
    def inputs(self) -> list[Path]:
        """The files that they are made from."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All that they depend on besides (JSON types)."""

    def check(self) -> None:  # noqa: B027 (most need nothing)
        """Raise UsageError if a program is missing that `make` needs."""

    @abstractmethod
    def make(self) -> list[str]:
        """Write the texts; returns lines for the log about them. Raises OSError if they cannot be written."""

    @property
    def recipe(self) -> Recipe:
        first = self.outputs[0]
        return Recipe(first.with_name(f"{first.name}.npz"), self.inputs, self.settings, outputs=self.outputs)

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Write the files but that of arrays; returns these."""
        with writing(self.outputs[0].parent, MachineError):
            return {"log": np.frombuffer("\n".join(self.make()).encode(), np.uint8)}

    def said(self) -> list[str]:
        """Lines for the log about the files, which are up to date."""
        return open_arrays(self.recipe.path)["log"].tobytes().decode().splitlines()


def make_inputs(wanted: Sequence[MadeInput]) -> list[str]:
    """Make the files of ``wanted`` that are missing or stale, each maybe from those before it.

    Returns the names of those that are files of the store themselves. Raises UsageError if a program is missing or the
    folder cannot be written, DataError for bad inputs, MachineError for a full disk.
    """
    stale = [made for made in wanted if made.recipe.fault()]
    for made in stale:
        made.check()
    outputs = {path for made in wanted for path in made.outputs}
    for text in dict.fromkeys(path for made in stale for path in made.inputs if path not in outputs):
        warn_of_untokenised(text)
    names = []
    for made in wanted:
        if built := cached(made.recipe, made.arrays):
            names += [] if made.recipe.outputs else built
            for line in made.said():
                LOG.info(line)
    return names


def known_decisions(wanted: Sequence[MadeInput]) -> list[str]:
    """Lines of the log about the files of ``wanted`` that are up to date."""
    return [line for made in wanted if made.recipe.fault() is None for line in made.said()]


@dataclass(frozen=True)
class BitextParts(MadeInput):
    """A bitext without the pairs that have an empty side, and its parts: pairs held out, pairs tuned on, the others."""

    source: Path
    """Source sentences, or pairs ``source ||| target`` if ``target`` is None."""
    target: Path | None
    alignments: tuple[Path, ...]
    """Links of the pairs, if the job has them."""
    folder: Path
    """The folder of the files made."""
    limit: int
    """Number of pairs to tune on; 0: all that are not held out, but only some where ``makes_lm``."""
    holds_out: bool
    makes_lm: bool
    """True if a language model is to be estimated from the target sides of ``bitext``."""

    @property
    def bitext(self) -> tuple[Path, Path]:
        """All pairs that are not held out; those that are tuned on come first."""
        return self.folder / "bitext.source", self.folder / "bitext.target"

    @property
    def links(self) -> tuple[Path, ...]:
        """The links of ``bitext`` in each alignment of the job."""
        names = ["bitext.links", *(f"bitext.links-{n}" for n in range(1, len(self.alignments)))]
        return tuple(self.folder / name for name in names[: len(self.alignments)])

    @property
    def tuned(self) -> tuple[Path, Path]:
        """The pairs that are tuned on."""
        return self.folder / "tuned.source", self.folder / "tuned.target"

    @property
    def held_out(self) -> tuple[Path, Path]:
        """The pairs that are held out."""
        return self.folder / "held-out.source", self.folder / "held-out.target"

    @property
    def outputs(self) -> list[Path]:
        return [*self.bitext, *self.tuned, *self.links, *(self.held_out if self.holds_out else ())]

    @property
    def inputs(self) -> list[Path]:
        return [path for path in (self.source, self.target, *self.alignments) if path is not None]

    @property
    def settings(self) -> dict[str, Any]:
        given: dict[str, Any] = {"target": self.target is not None, "alignment": bool(self.alignments)}
        given |= {"limit": self.limit} | ({"alignments": len(self.alignments)} if len(self.alignments) > 1 else {})
        return given | {"holds_out": self.holds_out, "makes_lm": self.makes_lm}

    def make(self) -> list[str]:
        with ExitStack() as stack:
            progress = stack.enter_context(Progress("kB of the bitext read", 2 * kilobytes(self.inputs)))
            count = left_out = 0
            for number, (source, target, _) in enumerate(self._pairs(progress), start=1):
                self._check_words(number, source)
                count += bool(source and target)
                left_out += not (source and target)
            parts = self._draw(count)
            files = {path: stack.enter_context(open_atomic(path)) for path in self.outputs}
            usable = (pair for pair in self._pairs(progress) if pair[0] and pair[1])
            for part, (source, target, links) in zip(parts.tolist(), usable, strict=True):
                for source_file, target_file in self._files_of(part):
                    files[source_file].write(f"{' '.join(source)}\n".encode())
                    files[target_file].write(f"{' '.join(target)}\n".encode())
                for links_file, of_pair in zip(self.links, links, strict=True):
                    if part != _HELD_OUT:
                        files[links_file].write(f"{' '.join(f'{i}-{j}' for i, j in of_pair)}\n".encode())
        return self._told(parts, left_out)

    def _files_of(self, part: int) -> list[tuple[Path, Path]]:
        """The files that the pairs of a part are written to, source and target."""
        return {_HELD_OUT: [self.held_out], _TUNED: [self.bitext, self.tuned], _OTHER: [self.bitext]}[part]

    def _pairs(self, progress: Progress) -> Iterator[AlignedPair]:
        return AlignedFiles(self.source, self.target, self.alignments).read(progress)

    def _check_words(self, number: int, source: Sequence[str]) -> None:
        for word in source:
            if SEG_TAG.search(word):
                expected = "words alone: rules are to be extracted from this text"
                raise DataError.at(self.source, number, found=word, expected=expected)

    def _draw(self, count: int) -> np.ndarray:
        """uint8 [count]: the part of each pair. Raises DataError if there are too few pairs."""
        parts = np.full(count, _OTHER, dtype=np.uint8)
        if self.holds_out:
            held_out = min(max(1, count // _HELD_OUT_SHARE), MOST_HELD_OUT)
            parts[np.random.default_rng(_SEED).permutation(count)[:held_out]] = _HELD_OUT
        left = np.flatnonzero(parts == _OTHER)
        share = min(max(1, len(left) // _TUNED_SHARE), MOST_TUNED) if self.makes_lm else len(left)
        parts[left[: self.limit or share]] = _TUNED
        if not (parts == _TUNED).any():
            expected = "more: some to tune on, some to hold out without [data.devtest]"
            raise DataError.at(self.source, None, found=counted(count, "sentence pair"), expected=expected)
        return parts

    def _told(self, parts: np.ndarray, left_out: int) -> list[str]:
        held_out, tuned, others = np.bincount(parts, minlength=3).tolist()
        rules = f"rules are extracted from {counted(tuned + others, 'pair')}, for a tuned sentence from all but its own"
        told = [f"{self.source}: no [grammar]: {rules}"]
        if left_out:
            told.append(f"{self.source}: {counted(left_out, 'pair')} with an empty side left out")
        if self.holds_out:
            what = f"{counted(held_out, 'pair')}, drawn at random, held out for it: neither grammar nor LM has them"
            told.append(f"{self.source}: no [data.devtest]: {what}")
        limit = f"data.limit = {self.limit}" if self.limit else "no data.limit"
        told.append(f"{self.source}: {limit}: the first {counted(tuned, 'pair')} of the others are tuned on")
        return told


@dataclass(frozen=True)
class WordAlignment(MadeInput):
    """The links of a bitext."""

    source: Path
    target: Path
    links: Path

    @property
    def outputs(self) -> list[Path]:
        return [self.links]

    @property
    def inputs(self) -> list[Path]:
        return [self.source, self.target]

    @property
    def settings(self) -> dict[str, Any]:
        return {}

    def check(self) -> None:
        if find_program() is None:
            raise UsageError(
                "eflomal is not installed, and the job has no grammar.alignment: pip install 'mpitune[align]', or name "
                "a file of links there"
            )

    def make(self) -> list[str]:
        with open_atomic(self.links) as file:
            count = write_alignment(file, self.source, self.target)
        return [f"{self.links}: no grammar.alignment: aligned by eflomal, {counted(count, 'link')}"]


@dataclass(frozen=True)
class EstimatedLm(MadeInput):
    """A language model, estimated from texts: into the store, or as text for an external decoder."""

    texts: tuple[Path, ...]
    order: int
    model: Path

    @property
    def outputs(self) -> list[Path]:
        return [self.model]

    @property
    def inputs(self) -> list[Path]:
        return list(self.texts)

    @property
    def settings(self) -> dict[str, Any]:
        return {"order": self.order, "texts": len(self.texts)}

    @property
    def recipe(self) -> Recipe:
        return Recipe(self.model, self.inputs, self.settings, check_lm) if self._compiled else super().recipe

    @property
    def _compiled(self) -> bool:
        return self.model.suffix == ".npz"

    def make(self) -> list[str]:
        first, *further = self.texts
        estimate(first, self.order, self.model, further_texts=further)
        return self.said()

    def arrays(self) -> Mapping[str, np.ndarray]:
        return estimate_arrays(self.texts, self.order, self.model.parent) if self._compiled else super().arrays()

    def said(self) -> list[str]:
        texts = ", ".join(map(str, self.texts))
        return [f"{self.model}: no file in [[lm]]: a model of order {self.order}, estimated from {texts}"]
