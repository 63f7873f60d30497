"""Sparse features of the text of an entry of a list; an n-gram, or a pair, counts as often as it occurs."""

from __future__ import annotations

from collections.abc import Iterable

from mpitune.grammar.sparse import Hypothesis, template
from mpitune.grammar.sparse.rules import in_pair

ORDER = 3
"""Largest order of the n-grams."""


@template("text-length", "TextLength", of_lists=True)
def _length(of: Hypothesis) -> Iterable[str]:
    return ("TextLength" for _ in of.words)


@template("target-ngrams", "TN:", of_lists=True)
def _ngrams(of: Hypothesis) -> Iterable[str]:
    for n in range(1, ORDER + 1):
        yield from (f"TN:{'_'.join(of.words[i : i + n])}" for i in range(len(of.words) - n + 1))


@template("lexicon-pair", "LP:", in_pair, of_lists=True, needs_source=True)
def _lexicon_pairs(of: Hypothesis) -> Iterable[str]:
    known = [(word, of.lexicon[word]) for word in dict.fromkeys(of.source) if word in of.lexicon]
    return (f"LP:{f}_{e}" for f, translations in known for e in of.words if e in translations)
