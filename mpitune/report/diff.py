"""Comparison of two translations of the same sentences: selection of examples, n-grams matched in the references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from itertools import groupby
from operator import or_
from statistics import median
from typing import NamedTuple

MAX_SENTENCES = {"gains": 12, "losses": 4, "typical": 4}
"""Maximum number of selected sentences of each kind."""

ORDER = 4
"""Maximum n-gram order, as in BLEU."""


class MatchSpan(NamedTuple):
    """Consecutive words with the same longest match."""

    text: str
    match: int
    """Order of the longest n-gram that is also in a reference; 0: none."""


def select_sentences(changes: Sequence[float]) -> dict[str, list[int]]:
    """Select the sentences of largest gain, of largest loss, and, of the others, those nearest to the median change.

    ``changes``: change in score of each sentence. Sentences of a kind are in this order, ties in text order.
    """
    order = sorted(range(len(changes)), key=lambda i: (-changes[i], i))
    gains = [i for i in order if changes[i] > 0][: MAX_SENTENCES["gains"]]
    losses = [i for i in sorted(order, key=lambda i: (changes[i], i)) if changes[i] < 0][: MAX_SENTENCES["losses"]]
    middle = median(changes)
    others = sorted(set(order) - {*gains, *losses}, key=lambda i: (abs(changes[i] - middle), i))
    return {"gains": gains, "losses": losses, "typical": others[: MAX_SENTENCES["typical"]]}


def longest_matches(words: Sequence[str], references: Sequence[Sequence[str]]) -> list[int]:
    """For each word, the order (up to `ORDER`) of the longest matched n-gram that contains it; 0 if there is none.

    Matches are clipped as in BLEU (Papineni et al., ACL 2002, section 2.1) to the largest count in any reference; the
    first occurrences match.
    """
    found = [0] * len(words)
    for n in range(1, ORDER + 1):
        left = reduce(or_, [Counter(_ngrams(reference, n)) for reference in references])
        for i, ngram in enumerate(_ngrams(words, n)):
            if left[ngram] > 0:
                left[ngram] -= 1
                found[i : i + n] = [n] * n
    return found


def match_spans(words: Sequence[str], references: Sequence[Sequence[str]]) -> list[MatchSpan]:
    """``words`` split where `longest_matches` changes."""
    pairs = zip(words, longest_matches(words, references), strict=True)
    return [MatchSpan(" ".join(word for word, _ in group), n) for n, group in groupby(pairs, key=lambda pair: pair[1])]


def _ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
