"""Texts, grammars or extracted rules to arrays: the data file of a store.

Extracted rules are in a file for each item of work until all are there, so that interrupted work continues from these.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpitune.array_files.arrays import Stored, add_prefix, open_arrays, read_manifest, with_prefix, write_arrays
from mpitune.array_files.cache import content_digest
from mpitune.array_files.disk_array import DiskArray
from mpitune.corpus.lines import kilobytes, lines
from mpitune.corpus.progress import Progress
from mpitune.corpus.text import SentencePair
from mpitune.corpus.tokenisation import warn_of_untokenised
from mpitune.corpus.vocabulary import Names, Vocabulary
from mpitune.decoder.base import built_in_features
from mpitune.errors import DataError
from mpitune.extraction.rule_arrays import TablePart, merged
from mpitune.files import matching
from mpitune.grammar.extracted import FEATURES
from mpitune.grammar.firing_rules import names_fired
from mpitune.grammar.grammars import ListedGrammars
from mpitune.grammar.rules import RuleReader, RuleTypes
from mpitune.grammar.sparse import prefixes
from mpitune.ownership import remove
from mpitune.store.inputs import StoreInputs
from mpitune.store.store import BITEXT, Corpus, encoded_corpus

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
        _warn_of_built_in_names(grammars, score_names, sources.lm_names)
        if not sources.external:
            sides = of_grammars["types.lhs"]
            assert isinstance(sides, np.ndarray)  # only extracted rules are on disk
            _check_categories(grammars, categories, sides)
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
        _warn_of_unknown_words(texts.files[0], corpus, source_words)
        _warn_of_empty_sides(texts.files[0], corpus)
        if sources.grammar is not None or parts is not None:
            _warn_of_idle_grammars(texts.files[0], pairs)
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


def _warn_of_unknown_words(source: Path, corpus: Corpus, source_sides: np.ndarray) -> None:
    """Warn if most words of a text are in no rule: the decoder would copy them without an error.

    Usual causes: source and target are swapped, or the tokenisation differs from that of the grammar.
    """
    unknown, total = int((~np.isin(corpus.source, source_sides)).sum()), len(corpus.source)
    if 2 * unknown > total:
        LOG.warning("%s: %d of %d words are in no rule's source side: is this the right text?", source, unknown, total)


def _warn_of_empty_sides(source: Path, corpus: Corpus) -> None:
    """Warn of sentences without words whose references have some, and the other way round.

    One such line may be meant; behind a missing one, all sentences have the references of others.
    """
    empty = np.diff(corpus.source_ptr) == 0
    words = np.diff(corpus.reference_ptr[corpus.first_reference])
    odd = np.flatnonzero((empty != (words == 0)) & (np.diff(corpus.first_reference) > 0))
    if len(odd):
        LOG.warning(
            "%s: %d of %d sentences are empty and their references are not, or the reverse (the first is number %d,"
            " counted from 1): do the lines belong together?",
            source,
            len(odd),
            corpus.size,
            odd[0] + 1,
        )


def _warn_of_idle_grammars(source: Path, pairs: Sequence[SentencePair]) -> None:
    """Warn of sentences that name grammars, where the job's rules are elsewhere."""
    if named := sum(pair.source.grammar is not None for pair in pairs):
        LOG.warning(
            "%s: %d of %d sentences name a grammar of their own, which is not used: the job has another, or a bitext",
            source,
            named,
            len(pairs),
        )


def _check_categories(grammars: Sequence[Path], categories: Sequence[str], sides: np.ndarray) -> None:
    """Raise DataError if the decoder can use no rule; ``sides``: int32, the left-hand sides of all types of rules."""
    found = [categories[number] for number in np.unique(sides).tolist()]
    if found and not {"S", "X"} & set(found):
        expected = "rules of [X] or [S], which a translation begins with"
        raise DataError.at(grammars[0], None, found=f"only rules of [{'], ['.join(found)}]", expected=expected)


def _warn_of_built_in_names(grammars: Sequence[Path], score_names: Sequence[str], lm_names: Sequence[str]) -> None:
    """Warn of scores with the name of a feature that the decoder computes: the feature is the sum of both."""
    for name in built_in_features(lm_names):
        if name in score_names:
            LOG.warning(
                "%s: score %s has the name of a built-in feature, and is added to it", _first_use(grammars, name), name
            )


def check_score_names(data: Mapping[str, np.ndarray], templates: Sequence[str], grammars: Sequence[Path]) -> None:
    """Raise DataError for a score with the name of a feature that a rule fires; ``data``: the arrays of `DATA`."""
    # Rules are searched only for names like those that templates make.
    alike = [name for name in Names.stored(data, "score_names").all() if name.startswith(tuple(prefixes().values()))]
    if alike:
        categories, words = (Names.stored(data, name).all() for name in ("categories", "words"))
        types = RuleTypes(**with_prefix(data, "types"))
        for name in sorted(names_fired(templates, types, categories, words, alike)):
            expected = "another name: a template of this job makes such a feature"
            raise DataError(f"{_first_use(grammars, name)}: found score {name}, expected {expected}")


def _first_use(grammars: Sequence[Path], score: str) -> str:
    """File and line of the first rule with a ``score``; the file alone if the rules do not name their scores."""
    for grammar in grammars:
        for number, line in lines(grammar):
            if any(word.startswith(f"{score}=") for word in line.split()):
                return f"{grammar}:{number}"
    return str(grammars[0])


class ExtractedParts:
    """The parts in a folder, in the order of their words; the first time that they are read, they are checked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._is_checked = False

    def __len__(self) -> int:
        return len(self.files())

    def __iter__(self) -> Iterator[TablePart]:
        for file in self.files():
            yield TablePart(**with_prefix(open_arrays(file, check_digest=not self._is_checked), "part"))
        self._is_checked = True

    def files(self) -> list[Path]:
        """The files of the parts, in the order of their words."""
        return matching(self.folder, "part-*.npz")

    def file(self, item: range) -> Path:
        """The file for the rules of ``item``, words of the bitext."""
        return self.folder / f"part-{item.start:012d}.npz"

    def write(self, item: range, part: TablePart, inputs: Mapping[str, Any]) -> None:
        """Write the rules of ``item``; ``inputs``: what they are extracted from, see `made_from`."""
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
        remove(self.folder, "part-*.npz")


def _item_of(file: Path, inputs: Mapping[str, Any]) -> range | None:
    """The item of work whose rules ``file`` holds; None if it is damaged or of other inputs."""
    manifest = read_manifest(file)
    if "inputs" not in manifest or content_digest(manifest) != content_digest(inputs):
        return None
    return range(*manifest["words"])
