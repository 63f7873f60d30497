"""Extraction of grammars from a word-aligned bitext on all ranks, after rank 0 has compiled the bitext.

Ranks write the extracted grammars to files (parts). An interrupted extraction continues from these, on any number of
ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.array_files.arrays import add_prefix, write_arrays, write_lock
from mpitune.array_files.checked import open_checked
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.text import lines, split_words
from mpitune.corpus.vocabulary import Names
from mpitune.errors import DataError
from mpitune.exchange.comm import Comm
from mpitune.extraction.extracted import Extracted
from mpitune.extraction.extractor import Extractor
from mpitune.extraction.rule_arrays import Collector
from mpitune.extraction.rule_lines import rule_lines
from mpitune.extraction.suffix_array import from_arrays
from mpitune.runtime.signals import StopFlag
from mpitune.store import build
from mpitune.store.input_checks import check_files
from mpitune.store.inputs import StoreInputs
from mpitune.store.structure import check_bitext

PART = 1 << 22
"""Number of collected rules at which a rank writes a part: 0.2 GB of memory."""
BLOCK = 8
"""Minimum number of sentences of a block; the last block of a run of sentences may be smaller."""


def extract_and_build(
    comm: Comm,
    sources: StoreInputs,
    folder: Path,
    shared: Path,
    log: Callable[[str], None],
    start_progress: build.StartProgress,
    stop: StopFlag | None = None,
) -> list[str]:
    """Build the store on rank 0; before that, all ranks extract the grammars if the store needs them from a bitext.

    ``shared``: the folder of the files that do not depend on the texts, language models and the compiled bitext.
    ``log`` and ``start_progress`` are called on rank 0, ``start_progress`` on the other ranks too during extraction.
    Returns the names of the files built. Raises StopRequested on every rank if ``stop`` is set on any rank during
    extraction.
    """
    aligned = sources.aligned
    if aligned is None:
        return comm.on_root(build.build_store, sources, folder, log, start_progress, lms=shared)
    comm.on_root(check_files, sources)
    parts = folder / "parts"
    if not comm.on_root(build.needs_extraction, sources, folder):
        return comm.on_root(build.build_store, sources, folder, log, start_progress, parts, lms=shared)
    with ExitStack() as stack:
        # Runs that share a store wait for each other here.
        comm.on_root(stack.enter_context, write_lock(parts))
        if comm.on_root(build.needs_extraction, sources, folder):
            file = comm.on_root(_prepare_bitext, aligned, sources, shared, log)
            _extract(comm, file, sources, parts, start_progress, stop)
        built = comm.on_root(build.build_store, sources, folder, log, start_progress, parts, lms=shared)
        comm.on_root(_remove, parts)
    return built


def _prepare_bitext(aligned: AlignedFiles, sources: StoreInputs, shared: Path, log: Callable[[str], None]) -> Path:
    """Check the texts, compile the bitext and the kernels; returns the file of the compiled bitext."""
    # All ranks read the texts later. Reading them here first reports errors once, and before the long work.
    for texts in sources.texts.values():
        texts.read()
    file = build.build_bitext(aligned, shared, log)
    if sources.leave_one_out and sources.train is not None and sources.train.source is not None:
        check_same_sentences(aligned, [pair.source.words for pair in sources.train.read()], sources.train.source)
    warm_up(file, log)
    return file


def _extract(
    comm: Comm,
    file: Path,
    sources: StoreInputs,
    parts: Path,
    start_progress: build.StartProgress,
    stop: StopFlag | None,
) -> None:
    """Extract the grammars that are not in ``parts`` yet, on all ranks, into files in ``parts``."""
    extractor, sentences = GrammarExtractor(file), _sentences(sources)
    inputs = comm.on_root(build.inputs_of_grammars, sources)
    blocks = balanced_blocks(comm.on_root(_missing, inputs, parts, len(sentences)), comm.size)
    with start_progress("grammars extracted", sum(map(len, blocks))) as progress, comm.work_queue() as queue:
        while not stop and (n := queue.next()) < len(blocks):
            first, collector = blocks[n].start, Collector()
            for number in blocks[n]:
                collector.add(extractor.rules(*sentences[number]))
                progress.reach(queue.done().items)
                stopped = bool(stop)
                if collector.rules >= PART or number + 1 == blocks[n].stop or stopped:
                    part = add_prefix("rules", collector.part()._asdict())
                    # The part of the first sentence holds the words of the bitext.
                    words = extractor.word_arrays if first == 0 else {}
                    attributes = inputs | {"sentences": [first, number + 1]}
                    write_arrays(build.part_file(parts, first), part | words, attributes)
                    first, collector = number + 1, Collector()
                if stopped:
                    break
    # A barrier too: building the store needs the files of all ranks.
    if comm.any(bool(stop)):
        assert stop is not None
        raise stop.stop_error("the extraction of grammars")


def _missing(inputs: Mapping[str, Any], parts: Path, sentences: int) -> list[range]:
    """Runs of sentences whose grammars are not in ``parts`` yet; removes parts extracted from other ``inputs``."""
    missing, first = list[range](), 0
    for part in sorted(parts.glob("part-*.h5")):
        extracted = build.valid_part(part, inputs)
        if extracted is None:
            part.unlink()
        else:
            missing.append(range(first, extracted.start))
            first = extracted.stop
    return [run for run in (*missing, range(first, sentences)) if run]


def balanced_blocks(runs: Sequence[range], ranks: int) -> list[range]:
    """Blocks of consecutive sentences for the work queue, which cover ``runs``.

    Blocks become smaller towards the end, so that all ranks finish at about the same time. A rank merges the grammars
    of a block in memory.
    """
    blocks, sentences = list[range](), sum(map(len, runs))
    for run in runs:
        while run:
            size = max(sentences // (4 * ranks), BLOCK)
            blocks.append(run[:size])
            run = run[size:]
            sentences -= len(blocks[-1])
    return blocks


def _remove(parts: Path) -> None:
    for part in parts.glob("part-*.h5"):
        part.unlink()


def _sentences(sources: StoreInputs) -> list[tuple[list[str], int | None]]:
    """The words of each sentence of all texts, and the pair of the bitext to leave out in extraction, or None."""
    return [
        (pair.source.words, i if sources.leave_one_out and name == "train" else None)
        for name, texts in sources.texts.items()
        for i, pair in enumerate(texts.read())
    ]


class GrammarExtractor:
    """Extracts rules from a compiled bitext for sentences given as words."""

    def __init__(self, file: Path) -> None:
        """``file``: a bitext compiled by `build.build_bitext`. Raises DataError if it is damaged or missing."""
        arrays = open_checked(file, check_bitext)
        self._names = Names.stored(arrays, "words")
        self.word_arrays = self._names.as_arrays("words")
        """The words of the bitext in the form in which they are stored."""
        self._number = {word: number for number, word in enumerate(self._names.all())}
        self._extractor = Extractor(from_arrays(arrays))

    def rules(self, words: Sequence[str], without: int | None = None) -> Extracted:
        """The rules for a sentence; ``without``: a pair of the bitext to leave out (leave-one-out)."""
        numbers = np.array([self._number.get(word, -1) for word in words], dtype=np.int32)
        return self._extractor.grammar(numbers, -1 if without is None else without)

    def some_words(self) -> list[str]:
        """A few words of the bitext."""
        return [self._names[number] for number in range(min(3, len(self._names)))]

    def lines(self, extracted: Extracted) -> bytes:
        """The lines of a grammar file."""
        return rule_lines(extracted, self._names)


def warm_up(file: Path, log: Callable[[str], None]) -> None:
    """Compile all kernels of extraction into the cache on disk; ranks that start later load them from there."""
    log("loading the extractor's kernels (compiled once, which takes half a minute)")
    extractor = GrammarExtractor(file)
    rules = extractor.rules(extractor.some_words())
    extractor.lines(rules)
    Collector().add(rules)


def read_inputs(file: Path) -> list[tuple[list[str], str]]:
    """The words of each line, and the rest of the line from ``|||`` on (references).

    Raises DataError for a bad line, or for a sentence that names a grammar.
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


def check_same_sentences(files: AlignedFiles, sentences: Sequence[Sequence[str]], file: Path) -> None:
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
