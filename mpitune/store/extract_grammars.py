"""Grammars from a word-aligned bitext: the bitext compiled once, then extraction spread over the ranks.

What an interrupted extraction has written down is kept, and gone on from by any number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.array_files.arrays import add_prefix, open_arrays, write_arrays, write_lock
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.text import lines, split_words
from mpitune.corpus.vocabulary import Names
from mpitune.errors import DataError
from mpitune.exchange.comm import Comm
from mpitune.extraction.extractor import Extracted, Extractor
from mpitune.extraction.rule_arrays import Collector
from mpitune.extraction.rule_lines import rule_lines
from mpitune.extraction.suffix_array import from_arrays
from mpitune.runtime.signals import StopFlag
from mpitune.store import build
from mpitune.store.inputs import StoreInputs

PART = 1 << 22
"""A rank writes down what it has collected once that is so many rules: 0.2 GB in its memory."""
BLOCK = 8
"""The fewest sentences that are handed out at a time, but for the last ones."""


def make_store(
    comm: Comm,
    sources: StoreInputs,
    folder: Path,
    shared: Path,
    tell: Callable[[str], None],
    watch: build.Watch,
    stop: StopFlag | None = None,
) -> list[str]:
    """`prepare.prepare` on rank 0, before which all ranks extract grammars where they are wanted from a bitext.

    ``shared``: where what does not depend on the texts is kept, language models and the compiled bitext. ``tell`` and
    ``watch`` are those of rank 0. Raises StopRequested on every rank where ``stop`` of one was asked for while grammars
    were extracted.
    """
    aligned = sources.aligned
    if aligned is None:
        return comm.on_root(build.prepare, sources, folder, tell, watch, lms=shared)
    parts = folder / "parts"
    with ExitStack() as stack:
        # Runs may share a store: one after the other.
        comm.on_root(stack.enter_context, write_lock(parts))
        if comm.on_root(build.wants_extraction, sources, folder):
            file = comm.on_root(_begin, aligned, sources, shared, tell)
            _extract(comm, file, sources, parts, watch, stop)
        made = comm.on_root(build.prepare, sources, folder, tell, watch, parts, lms=shared)
        comm.on_root(_remove, parts)
    return made


def _begin(aligned: AlignedFiles, sources: StoreInputs, shared: Path, tell: Callable[[str], None]) -> Path:
    """Compile the bitext, and check that leaving one out will leave out the right ones."""
    # All ranks read the texts later: what is wrong with them is told here, once, and before anything takes long.
    for texts in sources.texts.values():
        texts.read()
    file = build.prepare_bitext(aligned, shared, tell)
    if sources.leave_one_out and sources.train is not None:
        check_same(aligned, [pair.source.words for pair in sources.train.read()], sources.train.source)
    warm_up(file, tell)
    return file


def _extract(
    comm: Comm, file: Path, sources: StoreInputs, parts: Path, watch: build.Watch, stop: StopFlag | None
) -> None:
    """Extract the grammars that are wanted and not there yet, over the ranks, into files in ``parts``."""
    extraction, wanted = Extraction(file), _wanted(sources)
    made = comm.on_root(build.made_from, sources)
    left = comm.on_root(_left, made, parts, len(wanted))
    blocks = handed_out(left, comm.size)
    with watch("grammars extracted", sum(map(len, blocks))) as told, comm.turns() as turns:
        while not stop and (turn := turns.take()) < len(blocks):
            first, collector = blocks[turn].start, Collector()
            for number in blocks[turn]:
                collector.add(extraction.rules(*wanted[number]))
                told.reach(turns.done().items)
                stopped = bool(stop)
                if collector.rules >= PART or number + 1 == blocks[turn].stop or stopped:
                    part = add_prefix("rules", collector.part()._asdict())
                    # The first part of all tells what the numbers of words mean.
                    words = extraction.word_arrays if first == 0 else {}
                    about = made | {"sentences": [first, number + 1]}
                    write_arrays(build.part_file(parts, first), part | words, about)
                    first, collector = number + 1, Collector()
                if stopped:
                    break
    # All ranks meet here: what follows needs the files of all.
    if comm.any(bool(stop)):
        assert stop is not None
        raise stop.stop_error("the extraction of grammars")


def _left(made: Mapping[str, Any], parts: Path, sentences: int) -> list[range]:
    """Runs of sentences whose grammars are not in ``parts`` yet; parts from anything else than ``made`` are removed."""
    left, first = list[range](), 0
    for part in sorted(parts.glob("part-*.h5")):
        kept = build.kept_part(part, made)
        if kept is None:
            part.unlink()
        else:
            left.append(range(first, kept.start))
            first = kept.stop
    return [run for run in (*left, range(first, sentences)) if run]


def handed_out(left: Sequence[range], ranks: int) -> list[range]:
    """The sentences that are handed out at a time: neighbours, whose grammars are merged at once, and fewer and fewer.

    So no rank waits long for the last ones of another. ``left``: runs of sentences.
    """
    blocks, sentences = list[range](), sum(map(len, left))
    for run in left:
        while run:
            size = max(sentences // (4 * ranks), BLOCK)
            blocks.append(run[:size])
            run = run[size:]
            sentences -= len(blocks[-1])
    return blocks


def _remove(parts: Path) -> None:
    for part in parts.glob("part-*.h5"):
        part.unlink()


def _wanted(sources: StoreInputs) -> list[tuple[list[str], int | None]]:
    """The sentences that want a grammar, and the pair of the bitext that it is to do without."""
    return [
        (pair.source.words, i if sources.leave_one_out and name == "train" else None)
        for name, texts in sources.texts.items()
        for i, pair in enumerate(texts.read())
    ]


class Extraction:
    """Extracts from a stored bitext, by words."""

    def __init__(self, file: Path) -> None:
        """``file``: what `prepare.prepare_bitext` made. Raises DataError where it is damaged or missing."""
        arrays = open_arrays(file)
        self._names = Names.stored(arrays, "words")
        self.word_arrays = self._names.as_arrays("words")
        """The words, as they are stored."""
        self._number = {word: number for number, word in enumerate(self._names.all())}
        self._extractor = Extractor(from_arrays(arrays))

    def rules(self, words: Sequence[str], without: int | None = None) -> Extracted:
        """The rules for ``words``; pair ``without`` of the bitext left out (leave-one-out)."""
        known = np.array([self._number.get(word, -1) for word in words], dtype=np.int32)
        return self._extractor.grammar(known, -1 if without is None else without)

    def some_words(self) -> list[str]:
        """A few words of the bitext."""
        return [self._names[number] for number in range(min(3, len(self._names)))]

    def lines(self, extracted: Extracted) -> bytes:
        """The lines of a grammar file."""
        return rule_lines(extracted, self._names)


def warm_up(file: Path, tell: Callable[[str], None]) -> None:
    """Have all kernels compiled, on one rank: the others load them then."""
    tell("loading the extractor's kernels (compiled once, which takes half a minute)")
    extraction = Extraction(file)
    rules = extraction.rules(extraction.some_words())
    extraction.lines(rules)
    Collector().add(rules)


def read_inputs(file: Path) -> list[tuple[list[str], str]]:
    """The words of each line, and what stands after them from ``|||`` on (references).

    Raises DataError for a bad line, and where a sentence has a grammar already.
    """
    found = []
    for number, line in lines(file):
        source, separator, rest = line.partition(" |||")
        if "<seg" in source:
            raise DataError.at(
                file, number, found="a <seg> tag", expected="words alone: the grammar is to be extracted"
            )
        found.append((split_words(source), f"{separator}{rest}"))
    return found


def check_same(files: AlignedFiles, sentences: Sequence[Sequence[str]], file: Path) -> None:
    """Raise DataError unless the ``sentences`` of ``file`` are the first ones of the bitext."""
    pairs = files.read()
    for number, words in enumerate(sentences, start=1):
        pair = next(pairs, None)
        if pair is None or pair[0] != list(words):
            found = "another sentence" if pair else "more sentences"
            expected = (
                f"that of {files.source}:{number}: leaving one out needs the bitext's own sentences, from the first"
            )
            raise DataError.at(file, number, found=found, expected=expected)
