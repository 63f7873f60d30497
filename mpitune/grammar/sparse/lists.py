"""Sparse features of the text of an entry of a list; an n-gram, or a pair, counts as often as it occurs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from mpitune.grammar.sparse import template
from mpitune.grammar.sparse.rules import in_pair

ORDER = 3
"""Largest order of the n-grams."""

_Lexicon = Mapping[str, Collection[str]]


@template("text-length", "TextLength", of_lists=True)
def _length(source: Sequence[str], target: Sequence[str], lexicon: _Lexicon) -> Iterable[str]:
    return ("TextLength" for _ in target)


@template("target-ngrams", "TN:", of_lists=True)
def _ngrams(source: Sequence[str], target: Sequence[str], lexicon: _Lexicon) -> Iterable[str]:
    for n in range(1, ORDER + 1):
        yield from (f"TN:{'_'.join(target[i : i + n])}" for i in range(len(target) - n + 1))


@template("lexicon-pair", "LP:", in_pair, of_lists=True)
def _lexicon_pairs(source: Sequence[str], target: Sequence[str], lexicon: _Lexicon) -> Iterable[str]:
    known = [(word, lexicon[word]) for word in dict.fromkeys(source) if word in lexicon]
    return (f"LP:{f}_{e}" for f, translations in known for e in target if e in translations)
