"""Checks of the inputs of a store that need several of its files: are they readable, and do they belong together?"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mpitune.array_files.arrays import with_prefix
from mpitune.corpus.feature_table import FEATURE_NAME, is_feature_name
from mpitune.corpus.lines import check_readable, lines
from mpitune.corpus.text import SentencePair
from mpitune.corpus.vocabulary import Names
from mpitune.decoder.base import built_in_features
from mpitune.errors import DataError
from mpitune.grammar.firing_rules import names_fired
from mpitune.grammar.rules import RuleTypes
from mpitune.grammar.sparse import prefixes
from mpitune.store.inputs import StoreInputs
from mpitune.store.store import Corpus

LOG = logging.getLogger(__name__)


def check_files(sources: StoreInputs) -> None:
    """Raise DataError for a file that cannot be read: before the minutes that the reading of others may take."""
    for file in sources.files:
        check_readable(file)


def warn_of_unknown_words(source: Path, corpus: Corpus, source_sides: np.ndarray) -> None:
    """Warn if most words of a text are in no rule: the decoder would copy them without an error.

    Usual causes: source and target are swapped, or the tokenisation differs from that of the grammar.
    """
    unknown, total = int((~np.isin(corpus.source, source_sides)).sum()), len(corpus.source)
    if 2 * unknown > total:
        LOG.warning("%s: %d of %d words are in no rule's source side: is this the right text?", source, unknown, total)


def warn_of_empty_sides(source: Path, corpus: Corpus) -> None:
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


def warn_of_idle_grammars(source: Path, pairs: Sequence[SentencePair]) -> None:
    """Warn of sentences that name grammars, where the job's rules are elsewhere."""
    if named := sum(pair.source.grammar is not None for pair in pairs):
        LOG.warning(
            "%s: %d of %d sentences name a grammar of their own, which is not used: the job has another, or a bitext",
            source,
            named,
            len(pairs),
        )


def check_categories(grammars: Sequence[Path], categories: Sequence[str], sides: np.ndarray) -> None:
    """Raise DataError if the decoder can use no rule; ``sides``: int32, the left-hand sides of all types of rules."""
    found = [categories[number] for number in np.unique(sides).tolist()]
    if found and not {"S", "X"} & set(found):
        expected = "rules of [X] or [S], which a translation begins with"
        raise DataError.at(grammars[0], None, found=f"only rules of [{'], ['.join(found)}]", expected=expected)


def warn_of_built_in_names(grammars: Sequence[Path], score_names: Sequence[str], lm_names: Sequence[str]) -> None:
    """Warn of scores with the name of a feature that the decoder computes: the feature is the sum of both."""
    for name in built_in_features(lm_names):
        if name in score_names:
            LOG.warning(
                "%s: score %s has the name of a built-in feature, and is added to it", _first_use(grammars, name), name
            )


def check_score_names(data: Mapping[str, np.ndarray], templates: Sequence[str], grammars: Sequence[Path]) -> None:
    """Raise DataError for a score with the name of a feature that a rule fires, or with a name that is none.

    ``data``: the arrays of `DATA`, maybe of a store that was built when such names were still read.
    """
    names = Names.stored(data, "score_names").all()
    if wrong := [name for name in names if not is_feature_name(name)]:
        place = _first_use(grammars, wrong[0])
        raise DataError(f"{place}: found score name {wrong[0]!r}, expected {FEATURE_NAME}")
    # Rules are searched only for names like those that templates make.
    alike = [name for name in names if name.startswith(tuple(prefixes().values()))]
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
