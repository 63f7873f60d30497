"""Two translations of the same sentences: which of them to look at, and what each has of its reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from itertools import groupby
from operator import or_
from statistics import median
from typing import NamedTuple

MAX_SENTENCES = {"gains": 12, "losses": 4, "typical": 4}
"""How many sentences of each kind are chosen, at most."""

ORDER = 4
"""The longest n-grams, as in BLEU."""


class MatchSpan(NamedTuple):
    """Words in a row that are matched alike."""

    text: str
    match: int
    """The n of the longest n-gram that a reference has too; 0: none."""


def select_sentences(changes: Sequence[float]) -> dict[str, list[int]]:
    """The sentences that tell most: the largest gains, the largest losses, and of the others those nearest the median.

    ``changes``: how much each sentence's score has changed. Each kind's come in the order in which it names them, equal
    ones in that of the text.
    """
    order = sorted(range(len(changes)), key=lambda i: (-changes[i], i))
    gains = [i for i in order if changes[i] > 0][: MAX_SENTENCES["gains"]]
    losses = [i for i in sorted(order, key=lambda i: (changes[i], i)) if changes[i] < 0][: MAX_SENTENCES["losses"]]
    middle = median(changes)
    others = sorted(set(order) - {*gains, *losses}, key=lambda i: (abs(changes[i] - middle), i))
    return {"gains": gains, "losses": losses, "typical": others[: MAX_SENTENCES["typical"]]}


def longest_matches(words: Sequence[str], references: Sequence[Sequence[str]]) -> list[int]:
    """For each word the n, up to `ORDER`, of the longest matched n-gram that it is part of; 0 where it is of none.

    An n-gram is matched as BLEU counts it (Papineni et al. 2002, section 2.1): as often as the reference with most of
    it has it, the first ones before the later.
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
    """``words`` cut where `longest_matches` changes."""
    pairs = zip(words, longest_matches(words, references), strict=True)
    return [MatchSpan(" ".join(word for word, _ in group), n) for n, group in groupby(pairs, key=lambda pair: pair[1])]


def _ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
