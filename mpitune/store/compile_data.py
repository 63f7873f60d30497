"""Texts, grammars or extracted rules to arrays: the data file of a store.

Extracted rules are in a file for each item of work until all are there, so that interrupted work continues from these.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpitune.array_files.arrays import (
    Stored,
    add_prefix,
    map_arrays,
    open_arrays,
    read_attributes,
    with_prefix,
    write_arrays,
)
from mpitune.array_files.disk_array import DiskArray
from mpitune.corpus.lines import kilobytes
from mpitune.corpus.progress import Progress
from mpitune.corpus.tokenisation import warn_of_untokenised
from mpitune.corpus.vocabulary import Names, Vocabulary
from mpitune.errors import DataError
from mpitune.extraction.rule_arrays import TablePart, merged
from mpitune.files import matching
from mpitune.grammar.extracted import FEATURES
from mpitune.grammar.grammars import ListedGrammars
from mpitune.grammar.rules import RuleReader
from mpitune.ownership import remove
from mpitune.store.input_checks import (
    check_categories,
    warn_of_built_in_names,
    warn_of_empty_sides,
    warn_of_idle_grammars,
    warn_of_unknown_words,
)
from mpitune.store.inputs import StoreInputs
from mpitune.store.store import BITEXT, encoded_corpus, inputs_digest

LOG = logging.getLogger(__name__)


class _CompiledGrammars(NamedTuple):
    """Grammars as arrays, and the names that their numbers refer to."""

    words: Vocabulary
    arrays: Mapping[str, Stored]
    """The arrays of `ListedGrammars` or `ExtractedGrammars` for storage."""
    score_names: list[str]
    categories: list[str]


def compile_data(
    sources: StoreInputs,
    grammars: Sequence[Path],
    parts: ExtractedParts | None,
    shared: Path,
) -> dict[str, Stored]:
    """The arrays of `DATA`: rules read from ``grammars``, or those of ``parts``; then the texts.

    ``shared``: the folder of the compiled bitext.
    """
    if parts is not None:
        words, of_grammars, score_names, categories = _extracted_rules(sources, parts, shared / BITEXT)
    else:
        words, of_grammars, score_names, categories = _read_grammars(grammars, sources.table_format)
        warn_of_built_in_names(grammars, score_names, sources.lm_names)
        if not sources.external:
            sides = of_grammars["types.lhs"]
            assert isinstance(sides, np.ndarray)  # only extracted rules are on disk
            check_categories(grammars, categories, sides)
    if sources.grammar is not None and of_grammars["rules.type"].size == 0:
        raise DataError.at(sources.grammar, None, found="no rules", expected="a rule a line")
    source_sides = of_grammars["types.source"]
    source_words = source_sides.distinct() if isinstance(source_sides, DiskArray) else np.unique(source_sides)
    arrays = dict(of_grammars)
    grammar_number = {grammar: n for n, grammar in enumerate(grammars)} if sources.grammar is None else {}
    made = {path for each in sources.made for path in each.outputs}
    first = 0
    for name, texts in sources.texts.items():
        pairs = texts.read(LOG.warning)
        numbers = [grammar_number.get(pair.source.grammar, 0) if pair.source.grammar else 0 for pair in pairs]
        corpus = encoded_corpus(pairs, words, np.array(numbers, np.int32))
        if parts is not None:
            # Extracted grammars are numbered like the sentences, counted over all texts.
            corpus = corpus._replace(grammar=np.arange(first, first + corpus.size, dtype=np.int32))
            first += corpus.size
        warn_of_unknown_words(texts.files[0], corpus, source_words)
        warn_of_empty_sides(texts.files[0], corpus)
        if sources.grammar is not None or parts is not None:
            warn_of_idle_grammars(texts.files[0], pairs)
        for file in texts.files:
            # What they are made from was looked at when they were made.
            if file not in made:
                warn_of_untokenised(file)
        arrays |= add_prefix(name, corpus._asdict())
    for name, strings in (("words", words.words), ("categories", categories), ("score_names", score_names)):
        arrays |= Names.of(strings).as_arrays(name)
    return arrays


def _read_grammars(grammars: Sequence[Path], table_format: str) -> _CompiledGrammars:
    """The rules of grammar files."""
    words = Vocabulary()
    reader = RuleReader(words, table_format)
    with Progress("kB of grammars read", kilobytes(grammars)) as progress:
        for grammar in grammars:
            reader.read(grammar, progress)
    grammars_read = ListedGrammars(reader.rules(), reader.grammar_ptr)
    return _CompiledGrammars(words, grammars_read.as_arrays(), reader.score_names, reader.categories)


def _extracted_rules(sources: StoreInputs, parts: ExtractedParts, bitext: Path) -> _CompiledGrammars:
    """The extracted rules of ``parts``; their words are those of the compiled ``bitext``."""
    words = Vocabulary(Names.stored(open_arrays(bitext), "words").all())
    sentences = sum(len(texts.read()) for texts in sources.texts.values())
    arrays = merged(parts, sentences, parts.folder)
    return _CompiledGrammars(words, arrays, list(FEATURES), ["S", "X"])


class ExtractedParts:
    """The parts in a folder, in the order of their words; the first time that they are read, they are checked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._is_checked = False

    def __len__(self) -> int:
        return len(self.files())

    def __iter__(self) -> Iterator[TablePart]:
        for file in self.files():
            yield TablePart(**with_prefix(map_arrays(file, check_digest=not self._is_checked), "part"))
        self._is_checked = True

    def files(self) -> list[Path]:
        """The files of the parts, in the order of their words."""
        return matching(self.folder, "part-*.h5")

    def file(self, item: range) -> Path:
        """The file for the rules of ``item``, words of the bitext."""
        return self.folder / f"part-{item.start:012d}.h5"

    def write(self, item: range, part: TablePart, inputs: Mapping[str, Any]) -> None:
        """Write the rules of ``item``; ``inputs``: attributes that identify what they are extracted from."""
        arrays = add_prefix("part", part._asdict())
        write_arrays(self.file(item), arrays, {**inputs, "words": [item.start, item.stop]})

    def missing(self, items: Sequence[range], inputs: Mapping[str, Any]) -> list[range]:
        """The ``items`` that have no part yet; removes parts of other items, damaged ones and those of other inputs."""
        missing = list(items)
        for file in self.files():
            item = _item_of(file, inputs)
            if item in missing:
                missing.remove(item)
            else:
                remove(self.folder, file.name)
        return missing

    def remove(self) -> None:
        """Remove all parts."""
        remove(self.folder, "part-*.h5")


def _item_of(file: Path, inputs: Mapping[str, Any]) -> range | None:
    """The item of work whose rules ``file`` holds; None if it is damaged or of other inputs."""
    attributes = read_attributes(file) or {}
    if "inputs" not in attributes or inputs_digest(attributes["inputs"]) != inputs_digest(inputs["inputs"]):
        return None
    return range(*attributes["words"])
