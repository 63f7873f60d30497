"""`mpitune extract`: a grammar file for each sentence, from a word-aligned bitext."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.array_files.cache import made_from
from mpitune.cli.output import open_output, print_message, raised_on_all_ranks
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.lines import lines
from mpitune.corpus.text import SEG_TAG, checked_words, split_first_field
from mpitune.corpus.vocabulary import Names
from mpitune.corpus.wording import counted
from mpitune.errors import DataError, MpituneError, UsageError
from mpitune.exchange.comm import Comm
from mpitune.extraction.rule_arrays import merged
from mpitune.extraction.rule_lines import readable_types, rule_lines
from mpitune.files import matching
from mpitune.grammar.extracted import ExtractedGrammars
from mpitune.ownership import LOCK, dissolve, locked, remove
from mpitune.runtime.log import start_logging
from mpitune.runtime.signals import StopFlag
from mpitune.store.build import build_bitext
from mpitune.store.compile_data import ExtractedParts
from mpitune.store.extract_grammars import GrammarExtractor, extract_parts, warm_up
from mpitune.store.leave_one_out import check_same_sentences
from mpitune.training.scheduler import parallel_map

_GRAMMAR = re.compile(r"grammar\.([0-9]{1,9})\.gz")
WORK = ".extraction"
"""Folder, in the output folder, of the compiled bitext and of extracted rules until all grammars are written."""


def run_extract(options: argparse.Namespace, comm: Comm) -> None:
    """Write a grammar for each sentence, from a word-aligned bitext; alone, or under mpirun or srun."""
    if (options.bitext is None) == (options.source is None) or (options.source is None) != (options.target is None):
        raise raised_on_all_ranks(UsageError("expected --source F and --target E, or --bitext FE"))
    start_logging(None, rank=comm.rank, size=comm.size)
    files = AlignedFiles(options.bitext or options.source, options.target, tuple(options.alignment))
    output = options.output
    comm.on_root(files.check)
    read = comm.on_root(_read_inputs, options.input)
    if options.leave_one_out:
        comm.on_root(check_same_sentences, files, [words for words, _ in read], options.input)
    with ExitStack() as held:
        comm.on_root(held.enter_context, locked(output, "grammars", wait=False))
        _extract(options, comm, files, read)


def _extract(
    options: argparse.Namespace, comm: Comm, files: AlignedFiles, read: Sequence[tuple[list[str], str]]
) -> None:
    """Write the grammars of the sentences ``read`` (words, and the rest of the line) to the output folder."""
    output, work = options.output, options.output / WORK
    bitext = comm.on_root(_compile_bitext, files, work)
    sentences = [(words, i if options.leave_one_out else None) for i, (words, _) in enumerate(read)]
    inputs = comm.on_root(
        made_from,
        [options.input, *files.files],
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

    def finish() -> None:
        with open_output(output / "input.sgm") as file:
            for i, (words, rest) in enumerate(read):
                source = f'<seg grammar="grammar.{i}.gz" id="{i}">{" ".join(words)}</seg>'
                file.write(f"{source} {rest}\n".encode() if rest else f"{source}\n".encode())
        # Those of an earlier extraction, for more sentences.
        numbers = [_GRAMMAR.fullmatch(path.name) for path in matching(output, "grammar.*.gz")]
        remove(output, *(match[0] for match in numbers if match and int(match[1]) >= len(read)))
        dissolve(work, "store")
        written, left_out = map(sum, zip(*counts, strict=True)) if counts else (0, 0)
        if left_out:
            print_message(
                f"warning: {counted(left_out, 'rule')} left out: words such as [1] are gaps in a grammar file"
            )
        print_message(f"{output / 'input.sgm'}: {counted(len(read), 'sentence')}, {counted(written, 'rule')}")

    comm.on_root(finish)


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
