"""A grammar file for each sentence, from a word-aligned bitext."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mpitune.api.call import collective
from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.array_files.atomic import open_output
from mpitune.array_files.cache import made_from
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.lines import lines
from mpitune.corpus.text import SEG_TAG, checked_words, split_first_field
from mpitune.corpus.vocabulary import Names
from mpitune.errors import DataError, MpituneError
from mpitune.exchange.comm import Comm
from mpitune.extraction.rule_arrays import merged
from mpitune.extraction.rule_lines import readable_types, rule_lines
from mpitune.files import matching
from mpitune.grammar.extracted import ExtractedGrammars
from mpitune.ownership import LOCK, dissolve, locked, reads, remove
from mpitune.runtime.signals import StopFlag
from mpitune.store.build import build_bitext
from mpitune.store.compile_data import ExtractedParts
from mpitune.store.extract_grammars import GrammarExtractor, extract_parts, warm_up
from mpitune.store.leave_one_out import check_same_sentences
from mpitune.training.scheduler import parallel_map

if TYPE_CHECKING:
    from mpi4py import MPI

_GRAMMAR = re.compile(r"grammar\.([0-9]{1,9})\.gz")
WORK = ".extraction"
"""Folder, in the output folder, of the compiled bitext and of extracted rules until all grammars are written."""


class Extracted(NamedTuple):
    """The file and the numbers of grammars that `extract` has written."""

    input: Path
    """The sentences, each with a tag that names its grammar."""
    sentences: int
    rules: int
    left_out: int
    """Rules with words such as [1], which are gaps in a grammar file."""


def extract(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None,
    alignment: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    sentences: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    leave_one_out: bool = False,
    max_translations: int = 0,
    comm: MPI.Intracomm | None = None,
) -> Extracted:
    """Write a grammar for each of the ``sentences`` (a file) to the folder ``output``, from a word-aligned bitext.

    ``source``, ``target``: its sides, a tokenised sentence a line; without ``target``, lines ``source ||| target``.
    ``alignment``: lines of links ``0-0 1-2``; of several files, counts of rules are added up. ``leave_one_out``: the
    sentences are the bitext's source, and each one's own pair is left out. ``max_translations``: how many rules of each
    source side are kept, the most frequent ones; 0: all. Collective over ``comm``, as `train` is.

    Raises DataError for a malformed line, UsageError for a folder with files of others.
    """
    links = [alignment] if isinstance(alignment, str | os.PathLike) else alignment
    files = AlignedFiles(Path(source), None if target is None else Path(target), tuple(map(Path, links)))
    options = Options(files, Path(sentences), Path(output), leave_one_out, max_translations)
    with collective(comm) as processes:
        processes.on_root(reads, [*files.files, options.sentences])
        return write_grammars(options, processes)


class Options(NamedTuple):
    """From what grammars are extracted, and where to: see `extract`."""

    files: AlignedFiles
    sentences: Path
    output: Path
    leave_one_out: bool
    max_translations: int


def write_grammars(options: Options, comm: Comm) -> Extracted:
    """`extract` on the processes ``comm``."""
    comm.on_root(options.files.check)
    read = comm.on_root(_read_inputs, options.sentences)
    if options.leave_one_out:
        comm.on_root(check_same_sentences, options.files, [words for words, _ in read], options.sentences)
    with ExitStack() as held:
        comm.on_root(held.enter_context, locked(options.output, "grammars", wait=False))
        return _extract(options, comm, read)


def _extract(options: Options, comm: Comm, read: Sequence[tuple[list[str], str]]) -> Extracted:
    """Write the grammars of the sentences ``read`` (words, and the rest of the line) to the output folder."""
    files, output, work = options.files, options.output, options.output / WORK
    bitext = comm.on_root(_compile_bitext, files, work)
    sentences = [(words, i if options.leave_one_out else None) for i, (words, _) in enumerate(read)]
    inputs = comm.on_root(
        made_from,
        [options.sentences, *files.files],
        {**files.settings, "leave_one_out": options.leave_one_out},
    )
    parts = ExtractedParts(work)
    with StopFlag():
        extraction = GrammarExtractor(bitext, sentences)
        extract_parts(comm, extraction, parts, inputs)
    merged_file = comm.on_root(_merge, parts, len(read))
    grammars = ExtractedGrammars.stored(open_arrays(merged_file), max_translations=options.max_translations)
    words = Names.stored(open_arrays(bitext), "words")
    readable = readable_types(grammars.types, words)

    def write(i: int) -> tuple[int, int]:
        """The numbers of rules that are written and left out."""
        rules = grammars.open(i)
        kept = readable[rules.type]
        written = rules._replace(type=rules.type[kept], score_row=rules.score_row[kept])
        with open_output(output / f"grammar.{i}.gz") as file:
            file.write(rule_lines(written, words))
        return len(written.type), len(rules.type) - len(written.type)

    counts = list(parallel_map(comm, len(read), write, "extract"))

    def finish() -> Extracted:
        with open_output(output / "input.sgm") as file:
            for i, (words, rest) in enumerate(read):
                source = f'<seg grammar="grammar.{i}.gz" id="{i}">{" ".join(words)}</seg>'
                file.write(f"{source} {rest}\n".encode() if rest else f"{source}\n".encode())
        # Those of an earlier extraction, for more sentences.
        numbers = [_GRAMMAR.fullmatch(path.name) for path in matching(output, "grammar.*.gz")]
        remove(output, *(match[0] for match in numbers if match and int(match[1]) >= len(read)))
        dissolve(work, "store")
        written, left_out = map(sum, zip(*counts, strict=True)) if counts else (0, 0)
        return Extracted(output / "input.sgm", len(read), written, left_out)

    return comm.on_root(finish)


def _read_inputs(file: Path) -> list[tuple[list[str], str]]:
    """The words of each line, and its other fields (references), from ``|||`` on.

    Raises DataError for a bad line, or for a sentence that names a grammar.
    """
    found = []
    for number, line in lines(file):
        source, rest = split_first_field(line)
        if SEG_TAG.search(source):
            raise DataError.at(
                file, number, found="a <seg> tag", expected="words alone: the grammar is to be extracted"
            )
        found.append((checked_words(file, number, source), rest))
    return found


def _compile_bitext(files: AlignedFiles, work: Path) -> Path:
    """Compile the bitext into the folder ``work``, which is deleted if that fails, as is the output folder if nothing
    else is in it; compile the kernels too.
    """
    try:
        compiled = build_bitext(files, work)
    except MpituneError:
        dissolve(work, "store")
        if matching(work.parent, "*") == [work.parent / LOCK]:
            dissolve(work.parent, "grammars")
        raise
    warm_up(compiled)
    return compiled


def _merge(parts: ExtractedParts, sentences: int) -> Path:
    """Merge the extracted rules; returns the file."""
    file = parts.folder / "grammars.npz"
    write_arrays(file, merged(parts, sentences, parts.folder), {})
    return file
