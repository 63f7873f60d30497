"""Plain twins of pairs/ and learner/: the definitions written down literally, with no regard to speed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

import numpy as np

from mpitune.decoder.base import KBest

Row = dict[int, float]


def kbest_of(texts: Sequence[Sequence[int]], rows: Sequence[Row], scores: Sequence[float] | None = None) -> KBest:
    """A k-best list from translations as word numbers and feature vectors as {slot: value}; zeros are kept."""
    return KBest(
        np.cumsum([0] + [len(text) for text in texts], dtype=np.int64),
        np.array([word for text in texts for word in text], dtype=np.int32),
        np.array(np.zeros(len(texts)) if scores is None else scores, dtype=np.float64),
        np.cumsum([0] + [len(row) for row in rows], dtype=np.int64),
        np.array([slot for row in rows for slot in sorted(row)], dtype=np.int32),
        np.array([row[slot] for row in rows for slot in sorted(row)], dtype=np.float64),
    )


def dense(kbest: KBest, size: int) -> np.ndarray:
    """float64 [k, size]: the feature vectors."""
    x = np.zeros((kbest.size, size))
    for j in range(kbest.size):
        for e in range(kbest.feature_ptr[j], kbest.feature_ptr[j + 1]):
            x[j, kbest.feature_index[e]] = kbest.feature_value[e]
    return x


def statistics(text: Sequence[int], references: Sequence[Sequence[int]]) -> list[int]:
    def ngrams(words: Sequence[int], n: int) -> Counter[tuple[int, ...]]:
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    matches, totals = [], []
    for n in range(1, 5):
        mine = ngrams(text, n)
        theirs = [ngrams(reference, n) for reference in references]
        matches.append(sum(min(count, max(other[gram] for other in theirs)) for gram, count in mine.items()))
        totals.append(sum(mine.values()))
    closest = min((abs(len(reference) - len(text)), len(reference)) for reference in references)[1]
    return [*matches, *totals, len(text), closest]


def gold(name: str, row: Sequence[float]) -> float:
    """The gold score called ``name`` of one row of statistics."""
    m, t, length, reference = row[:4], row[4:8], row[8], row[9]
    if name == "nakov":
        reference += 1
    brevity = 1.0 if length >= reference else math.exp(1 - reference / length) if length else 0.0
    p = [m[n] / t[n] if t[n] else 0.0 for n in range(4)]
    if name in ("bleu+1", "nakov"):
        p = [p[0]] + [(m[n] + 1) / (t[n] + 1) if t[n] else 0.0 for n in range(1, 4)]
    if name == "sum":
        zero = p.index(0.0) if 0.0 in p else 4
        return brevity * sum(p[n - 1] / 2 ** (4 - n + 1) for n in range(1, zero + 1))
    bleu = [brevity * math.prod(p[:n]) ** (1 / n) for n in range(1, 5)]
    return sum(bleu[n - 1] / 2 ** (4 - n + 1) for n in range(1, 5)) if name == "liang" else bleu[3]


def chiang(lists: Sequence[tuple[Sequence[Sequence[int]], int]]) -> list[list[float]]:
    """The scores of lists that come one after another: (rows of statistics, source length) each."""
    document, source = [0.0] * 10, 0.0
    scores = []
    for rows, words in lists:
        scores.append(
            [(source + words) * gold("papineni", [a + b for a, b in zip(document, row, strict=True)]) for row in rows]
        )
        document = [0.9 * (a + b) for a, b in zip(document, rows[0], strict=True)]
        source = 0.9 * (source + words)
    return scores


def multipartite(scores: Sequence[float], share: float, extend_ties: bool) -> list[tuple[int, int]]:
    k = len(scores)
    if k < 2:
        return []
    ranked = sorted(range(k), key=lambda j: -scores[j])
    size = max(1, int((Decimal(str(share)) * k).to_integral_value(ROUND_HALF_UP)))
    if k <= 3:
        size = 1
    size = min(size, k // 2)
    high, low = ranked[:size], ranked[k - size :]
    middle = ranked[size : k - size]
    if extend_ties:
        while middle and scores[middle[0]] == scores[high[-1]]:
            high.append(middle.pop(0))
        while middle and scores[middle[-1]] == scores[low[0]]:
            low.insert(0, middle.pop())
    pairs = [(a, b) for a in high for b in middle + low] + [(a, b) for a in middle for b in low]
    return [(a, b) for a, b in pairs if scores[a] != scores[b]]


def everything(scores: Sequence[float]) -> list[tuple[int, int]]:
    ranked = sorted(range(len(scores)), key=lambda j: -scores[j])
    return [(a, b) for i, a in enumerate(ranked) for b in ranked[i + 1 :] if scores[a] != scores[b]]


def hope_fear(scores: Sequence[float], model: Sequence[float]) -> list[tuple[int, int]]:
    if not len(scores):
        return []
    hope = max(range(len(scores)), key=lambda j: (model[j] - (1 - scores[j]), -j))
    fear = max(range(len(scores)), key=lambda j: (model[j] + (1 - scores[j]), -j))
    return [(hope, fear)] if scores[hope] > scores[fear] else []


class Perceptron:
    """The perceptron on dense vectors, pair by pair."""

    def __init__(
        self,
        size: int,
        *,
        learning_rate: float = 0.0001,
        margin: float = 0.0,
        order: str = "sequential",
        rate: str = "constant",
        l1: float = 0.0,
        l2: float = 0.0,
        scale_by_gold: bool = False,
        frozen: Sequence[int] = (),
    ) -> None:
        self.eta, self.margin, self.order, self.rate = learning_rate, margin, order, rate
        self.l1, self.l2, self.scale_by_gold = l1, l2, scale_by_gold
        self.free = np.array([slot not in frozen for slot in range(size)])
        self.start_shard()

    def start_shard(self) -> None:
        size = len(self.free)
        self.squares, self.mean_g, self.mean_dx = np.zeros(size), np.zeros(size), np.zeros(size)
        self.u, self.q = 0.0, np.zeros(size)

    def move(self, g: np.ndarray) -> np.ndarray:
        if self.rate == "adagrad":
            self.squares += g**2
            return self.eta * np.divide(g, np.sqrt(self.squares), out=np.zeros_like(g), where=self.squares > 0)
        if self.rate == "adadelta":
            self.mean_g = 0.95 * self.mean_g + 0.05 * g**2
            dx = np.sqrt(self.mean_dx + 1e-6) / np.sqrt(self.mean_g + 1e-6) * g
            self.mean_dx = 0.95 * self.mean_dx + 0.05 * dx**2
            return dx
        return self.eta * g

    def update(self, x: np.ndarray, pairs: Sequence[tuple[int, int]], scores: Sequence[float], w: np.ndarray) -> int:
        """Changes ``w``; returns how many pairs updated it."""
        before = w.copy()
        gradient = np.zeros_like(w)
        updates = 0
        for a, b in pairs:
            d = x[a] - x[b]
            margin = (before if self.order == "sentence" else w) @ d
            d = d * self.free
            wanted = margin < self.margin if self.margin > 0 else margin <= 0
            if not wanted or not d.any():
                continue
            updates += 1
            g = d * (scores[a] - scores[b]) if self.scale_by_gold else d
            if self.order == "sentence":
                gradient += g
            else:
                w += self.move(g)
                w -= self.free * 2 * self.l2 * self.eta * w / len(pairs)
        if self.order == "sentence" and updates:
            w += self.move(gradient) - updates * self.free * 2 * self.l2 * self.eta * before / len(pairs)
        if self.l1:
            self.u += self.eta * self.l1
            for i in np.flatnonzero((x != 0).any(axis=0) & self.free):
                self.clip(i, w)
        return updates

    def clip(self, i: int, w: np.ndarray) -> None:
        z = w[i]
        if w[i] > 0:
            w[i] = max(0, w[i] - (self.u + self.q[i]))
        elif w[i] < 0:
            w[i] = min(0, w[i] + (self.u - self.q[i]))
        self.q[i] += w[i] - z

    def end_shard(self, w: np.ndarray) -> None:
        if self.l1:
            for i in np.flatnonzero(self.free):
                self.clip(i, w)
