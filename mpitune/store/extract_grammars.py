"""Extraction of grammars from a word-aligned bitext on all ranks, after rank 0 has compiled the bitext.

Ranks write the rules of each item of work to a file (part). An interrupted extraction continues from these, on any
number of ranks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.array_files.cache import open_checked
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.progress import Progress
from mpitune.corpus.vocabulary import Names
from mpitune.exchange.comm import Comm
from mpitune.extraction.bitext import count_alignments, from_arrays
from mpitune.extraction.extractor import extract_item
from mpitune.extraction.rule_arrays import TablePart, merged, part_of
from mpitune.extraction.rule_lines import rule_lines
from mpitune.extraction.sentences import cores_of, index_sentences, items_of_work
from mpitune.files import exists, temporary_folder
from mpitune.grammar.extracted import ExtractedGrammars
from mpitune.ownership import locked
from mpitune.runtime.signals import stop_flag
from mpitune.store import build
from mpitune.store.bitext_inputs import make_inputs
from mpitune.store.compile_data import ExtractedParts
from mpitune.store.estimate import Estimate, announce, of_extraction
from mpitune.store.inputs import StoreInputs, check_files
from mpitune.store.leave_one_out import own_pairs
from mpitune.store.store import DATA
from mpitune.store.structure import check_bitext

LOG = logging.getLogger(__name__)

SentenceToCover = tuple[Sequence[str], int | None]
"""The words of a sentence, and the number of the pair of the bitext to leave out in extraction, or None."""


def extract_and_build(
    comm: Comm,
    sources: StoreInputs,
    folder: Path,
    shared: Path,
) -> list[str]:
    """Build the store on rank 0; before that, all ranks extract the grammars if the store needs them from a bitext.

    Before both, rank 0 makes the inputs that the job leaves out. ``shared``: the folder of the files that do not depend
    on the texts, language models and the compiled bitext.
    Returns the names of the files built. Raises StopRequested on every rank if rank 0, or during extraction any
    rank, was asked to stop.
    """
    comm.on_root(_explain_store, folder)
    made = comm.on_root(_make_inputs, sources) if sources.made_inputs else []
    aligned = sources.aligned

    def build_store(parts: ExtractedParts | None) -> list[str]:
        with stop_flag().interrupts("the preparation of the data"):
            return made + build.build_store(sources, folder, parts, lms=shared)

    if aligned is None:
        return comm.on_root(build_store, None)
    comm.on_root(check_files, sources)
    parts = ExtractedParts(folder / "parts")
    if comm.on_root(_is_extracted, sources, folder, parts):
        return comm.on_root(build_store, parts)
    with ExitStack() as stack:
        # Runs that share a store wait for each other here.
        comm.on_root(stack.enter_context, locked(parts.folder, "store"))
        if comm.on_root(build.needs_extraction, sources, folder):
            file, left_out = comm.on_root(_prepare_bitext, aligned, sources, shared)
            extraction = GrammarExtractor(file, comm.on_root(_sentences, sources, left_out))
            inputs = comm.on_root(build.inputs_of_grammars, sources)
            extract_parts(comm, extraction, parts, inputs)
        built = comm.on_root(build_store, parts)
        comm.on_root(parts.remove)
    return built


def _explain_store(folder: Path) -> None:
    """Say what a store is before the first one is built."""
    if not exists(folder / DATA):
        LOG.info(f"{folder}: building the store: all inputs as arrays, for this run and later ones on the same data")


def _make_inputs(sources: StoreInputs) -> list[str]:
    """Make the input files that the job leaves out, after a look at those that it gives; returns files of the store."""
    with stop_flag().interrupts("the preparation of the data"):
        check_files(sources)
        return make_inputs(sources.made_inputs)


def _prepare_bitext(
    aligned: AlignedFiles,
    sources: StoreInputs,
    shared: Path,
) -> tuple[Path, list[int | None] | None]:
    """Check the texts, compile the bitext and the kernels; returns the file of the bitext, and `own_pairs`."""
    with stop_flag().interrupts("the preparation of the bitext"):
        # Errors are reported before the long work.
        for texts in sources.texts.values():
            texts.read()
        file = build.build_bitext(aligned, shared)
        left_out = own_pairs(sources)
    # Not in the block: an interrupted compiler may fail in its own way.
    warm_up(file)
    return file, left_out


def extract_parts(
    comm: Comm,
    extraction: GrammarExtractor,
    parts: ExtractedParts,
    inputs: Mapping[str, Any],
) -> None:
    """Extract the rules that are not in ``parts`` yet, on all ranks, into a part for each item of work.

    ``inputs``: see `build.inputs_of_grammars`; parts with other ones are removed.
    Raises StopRequested on every rank if one was asked to stop, MachineError if the disk is too small.
    """
    missing = comm.on_root(parts.missing, extraction.items, inputs)
    comm.on_root(announce, parts.folder, [extraction.estimate(len(missing), comm.size)])
    words = np.array([extraction.words_of(item) for item in missing])
    with (
        Progress("source words extracted", int(words.sum())) as progress,
        comm.work_queue([1] * len(missing)) as queue,
    ):
        for n in queue:
            if stop_flag():
                break
            parts.write(missing[n], extraction.part(missing[n]), inputs)
            progress.reach(int(words[: queue.done().units].sum()))
    # A barrier too: building the store needs the files of all ranks.
    if comm.any(bool(stop_flag())):
        raise stop_flag().stop_error("the extraction of grammars")


def _is_extracted(sources: StoreInputs, folder: Path, parts: ExtractedParts) -> bool:
    """True if the store has its grammars, and no run that was killed has left parts of them."""
    return not build.needs_extraction(sources, folder) and not len(parts)


def _sentences(sources: StoreInputs, left_out: Sequence[int | None] | None) -> list[SentenceToCover]:
    """The sentences of all texts; ``left_out``: the pairs to leave out for those of ``train``."""
    return [
        (pair.source.words, left_out[i] if left_out is not None and name == "train" else None)
        for name, texts in sources.texts.items()
        for i, pair in enumerate(texts.read())
    ]


class GrammarExtractor:
    """Extracts rules from a compiled bitext for sentences given as words."""

    def __init__(self, file: Path, sentences: Sequence[SentenceToCover]) -> None:
        """``file``: a bitext compiled by `build.build_bitext`. Raises DataError if it is damaged or missing."""
        arrays = open_checked(file, check_bitext)
        self._bitext = from_arrays(arrays)
        number = {word: n for n, word in enumerate(Names.stored(arrays, "words").all())}
        words = [np.array([number.get(word, -1) for word in words], dtype=np.int32) for words, _ in sentences]
        without = np.array([-1 if pair is None else pair for _, pair in sentences], dtype=np.int32)
        self._sentences = index_sentences(self._bitext, words, without)
        self.items = items_of_work(self._sentences)
        """Ranges of words of the bitext."""

    def words_of(self, item: range) -> int:
        """The number of words of the sentences that are in ``item``."""
        ptr = self._sentences.word_ptr
        return int(ptr[item.stop] - ptr[item.start])

    def estimate(self, missing: int, ranks: int) -> Estimate:
        """Time and disk for the rules of so many ``missing`` items, which have about equal numbers of cores."""
        cores = int(cores_of(self._sentences).sum())
        words = len(self._bitext.occurrence) * count_alignments(self._bitext)
        return of_extraction(cores, words, missing / max(len(self.items), 1), ranks)

    def part(self, item: range) -> TablePart:
        """The rules whose source sides have their first words in ``item``."""
        return part_of(extract_item(self._bitext, self._sentences, item))


def warm_up(file: Path) -> None:
    """Compile all kernels of extraction into the cache on disk; ranks that start later load them from there."""
    words = Names.stored(open_arrays(file), "words")
    extraction = GrammarExtractor(file, [([words[n] for n in range(min(3, len(words)))], None)])
    parts = [extraction.part(item) for item in extraction.items]
    with temporary_folder() as folder:
        write_arrays(folder / "grammars.npz", merged(parts, 1, folder), {})
        grammars = ExtractedGrammars.stored(open_arrays(folder / "grammars.npz"), None)
        rule_lines(grammars.open(0), words)
