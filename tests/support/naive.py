"""Slow plain twins of what mpitune computes, with no regard to speed: the definitions written down literally.

Sections, in the order of the data's way: pairs/ and learner/, exchange/, training.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from statistics import median

import numpy as np

from mpitune.decoder.base import KBest, TranslationModel
from mpitune.grammar.templates import all_names, features, pass_through
from mpitune.training.scheduler import draw_shards
from mpitune.training.session import TrainingRun

# pairs/ and learner/

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
    return [*matches, *totals, len(text), closest, max(len(reference) for reference in references)]


def edit_distance(text: Sequence[object], other: Sequence[object]) -> int:
    """The least number of insertions, deletions and substitutions from ``text`` to ``other``."""
    row = list(range(len(other) + 1))
    for i, mine in enumerate(text, start=1):
        above, row = row, [i]
        for j, theirs in enumerate(other):
            row.append(min(above[j] + (mine != theirs), above[j + 1] + 1, row[j] + 1))
    return row[-1]


def gold(name: str, row: Sequence[float]) -> float:
    """The gold score called ``name`` of one row of statistics."""
    m, t, length, reference, longest = row[:4], row[4:8], row[8], row[9], row[10]
    if name == "nakov":
        reference += 1
    brevity = 1.0 if length >= reference else math.exp(1 - reference / length) if length else 0.0
    p = [m[n] / t[n] if t[n] else 0.0 for n in range(4)]
    if name in ("bleu+1", "nakov"):
        if m[0] == 0:
            return 0.0
        p = [p[0]] + [(m[n] + 1) / (t[n] + 1) for n in range(1, min(4, int(longest)))]
        return brevity * math.prod(p) ** (1 / len(p))
    if name == "sum":
        zero = p.index(0.0) if 0.0 in p else 4
        return brevity * sum(p[n - 1] / 2 ** (4 - n + 1) for n in range(1, zero + 1))
    bleu = [brevity * math.prod(p[:n]) ** (1 / n) for n in range(1, 5)]
    return sum(bleu[n - 1] / 2 ** (4 - n + 1) for n in range(1, 5)) if name == "liang" else bleu[3]


def chiang(lists: Sequence[tuple[Sequence[Sequence[int]], int]]) -> list[list[float]]:
    """The scores of lists that come one after another: (rows of statistics, source length) each."""
    document, source = [0.0] * 11, 0.0
    scores = []
    for rows, words in lists:
        scores.append(
            [(source + words) * gold("papineni", [a + b for a, b in zip(document, row, strict=True)]) for row in rows]
        )
        document = [0.9 * (a + b) for a, b in zip(document, rows[0], strict=True)]
        source = 0.9 * (source + words)
    return scores


def document(lists: Sequence[Sequence[Sequence[int]]], before: Sequence[Sequence[int]]) -> list[list[float]]:
    """The scores of lists (rows of statistics) that come one after another.

    ``before``: the statistics of each 1-best translation of the epoch before, if there was one; they count as 25
    sentences.
    """
    total = [25 / len(before) * sum(row[n] for row in before) if before else 0.0 for n in range(11)]
    scores = []
    for rows in lists:
        length = rows[0][9]
        scores.append([])
        for row in rows:
            m, t, words, reference = (
                [a + b for a, b in zip(total[at : at + 4], row[at : at + 4], strict=True)]
                if at < 8
                else total[at] + row[at]
                for at in (0, 4, 8, 9)
            )
            p = [m[n] / t[n] if n == 0 and t[n] else (m[n] + 1) / (t[n] + 1) if n else 0.0 for n in range(4)]
            brevity = 1.0 if words >= reference else math.exp(1 - reference / words) if words else 0.0
            scores[-1].append((total[9] + length) / max(length, 1) * brevity * math.prod(p) ** 0.25)
        total = [0.995 * (a + b) for a, b in zip(total, rows[0], strict=True)]
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
        margin_by_gold: bool = False,
        order: str = "sequential",
        rate: str = "constant",
        l1: float = 0.0,
        l2: float = 0.0,
        scale_by_gold: bool = False,
        frozen: Sequence[int] = (),
        first_sparse: int = 0,
        step: float = 1.0,
        prior: float = 1.0,
    ) -> None:
        """``step``: of a sparse feature on which all agree, in learning rates; ``prior``: in lists."""
        self.step, self.prior = step, prior
        self.eta, self.margin, self.order, self.rate = learning_rate, margin, order, rate
        self.l1, self.l2, self.scale_by_gold = l1, l2, scale_by_gold
        self.margin_by_gold, self.first_sparse = margin_by_gold, first_sparse
        self.free = np.array([slot not in frozen for slot in range(size)])
        self.stepping = self.free & ((rate != "normalized") | (np.arange(size) < first_sparse))
        self.start_shard(np.zeros(size))

    def start_shard(self, w: np.ndarray, state: Sequence[np.ndarray] = (), passes: int = 0) -> None:
        """``state``: squares, sums, sizes and lists, of the normalized rate, to go on from after ``passes``."""
        self.passes = passes
        size, self.first = len(self.free), w.copy()
        self.squares, self.mean_g, self.mean_dx = np.zeros(size), np.zeros(size), np.zeros(size)
        self.u, self.q = 0.0, np.zeros(size)
        self.sums, self.sizes, self.lists = np.zeros(size), np.zeros(size), np.zeros(size)
        if state:
            self.squares, self.sums, self.sizes, self.lists = (array.copy() for array in state)
        for i in range(self.first_sparse if self.rate == "normalized" else size, size):
            self.first[i] = w[i] - self.supported(i) if w[i] else 0.0

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

    def measure(self, x: np.ndarray, pairs: Sequence[tuple[int, int]], w: np.ndarray) -> None:
        """A feature's unit is the root of the mean, over lists, of the mean d^2 over the pairs that differ in it.

        What ``w`` has changed since the start of the shard is expressed in the new unit if that is larger.
        """
        for i in np.flatnonzero(self.free):
            differences = [x[a, i] - x[b, i] for a, b in pairs if x[a, i] != x[b, i]]
            if differences:
                before = self.unit(i) if self.lists[i] else 0.0
                self.sizes[i] += sum(d * d for d in differences) / len(differences)
                self.lists[i] += 1
                if 0 < before < self.unit(i) and i < self.first_sparse:
                    w[i] = self.first[i] + (w[i] - self.first[i]) * before / self.unit(i)

    def unit(self, i: int) -> float:
        return math.sqrt(self.sizes[i] / self.lists[i])

    def normalized_move(self, x: np.ndarray, pairs: Sequence[tuple[int, int]], sizes: Sequence[float]) -> np.ndarray:
        """The step along the mean of the ``pairs``' d, each times its size."""
        step = np.zeros(len(self.free))
        for i in np.flatnonzero(self.free):
            # Without rounding, as a sum of 0 is to move nothing.
            total = sum(
                Fraction(size) * (Fraction(x[a, i]) - Fraction(x[b, i]))
                for (a, b), size in zip(pairs, sizes, strict=True)
            )
            if total == 0:
                continue
            unit = self.unit(i)
            g = float(total / len(pairs)) / unit
            self.squares[i] += g * g
            self.sums[i] += g
            if i < self.first_sparse:
                step[i] = self.eta * g / math.sqrt(self.squares[i]) / unit
        return step

    def supported(self, i: int) -> float:
        """The weight that follows from all gradients of a sparse feature.

        In the feature's unit it maximises the mean of g w - l1 |w| - l2 w^2 - (root of the mean g^2) w^2 / 2c over the
        lists, and is then shrunk.
        """
        n, passes = self.lists[i], max(self.passes, 1)
        if not self.squares[i]:
            return 0.0
        unit, mean, rms = self.unit(i), self.sums[i] / n, math.sqrt(self.squares[i] / n)
        slope = abs(mean) - self.l1 / unit
        if slope <= 0:
            return 0.0
        weight = slope / (rms / (self.step * self.eta) + 2 * self.l2 / unit**2)
        return float(np.sign(mean) * weight * n / (n + passes * self.prior) / unit)

    def update(self, x: np.ndarray, pairs: Sequence[tuple[int, int]], scores: Sequence[float], w: np.ndarray) -> int:
        """Changes ``w``; returns how many pairs updated it."""
        before = w.copy()
        gradient = np.zeros_like(w)
        updates = 0
        updating: list[tuple[int, int]] = []
        for a, b in pairs:
            d = x[a] - x[b]
            margin = (before if self.order == "sentence" else w) @ d
            d = d * self.free
            required = self.margin * (scores[a] - scores[b]) if self.margin_by_gold else self.margin
            wanted = margin < required if required > 0 else margin <= 0
            if not wanted or not d.any():
                continue
            updates += 1
            updating.append((a, b))
            g = d * (scores[a] - scores[b]) if self.scale_by_gold else d
            if self.order == "sentence":
                gradient += g
            else:
                w += self.move(g)
                w -= self.free * 2 * self.l2 * self.eta * w / len(pairs)
        if self.rate == "normalized":
            self.measure(x, pairs, w)
        if self.order == "sentence" and updates:
            if self.rate == "normalized":
                sizes = [scores[a] - scores[b] if self.scale_by_gold else 1.0 for a, b in updating]
                step = self.normalized_move(x, updating, sizes)
            else:
                step = self.move(gradient)
            w += step - updates * self.stepping * 2 * self.l2 * self.eta * w / len(pairs)
        if self.l1:
            self.u += self.eta * self.l1
            for i in np.flatnonzero((x != 0).any(axis=0) & self.stepping):
                self.clip(i, w)
        if self.rate == "normalized" and pairs:
            for i in np.flatnonzero((x != x[0]).any(axis=0) & self.free & ~self.stepping):
                w[i] = self.first[i] + self.supported(i)
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
            for i in np.flatnonzero(self.stepping):
                self.clip(i, w)
        self.passes += 1
        for i in np.flatnonzero(self.free & ~self.stepping):
            if w[i]:
                w[i] = self.first[i] + self.supported(i)


def averaged(weights: Sequence[np.ndarray]) -> np.ndarray:
    """The mean of the weights after each list; those that come late are 0 before."""
    size = max(len(w) for w in weights)
    return np.array([math.fsum(w[i] for w in weights if i < len(w)) / len(weights) for i in range(size)])


def pick(name: str, scores: Sequence[float], model: Sequence[float]) -> int:
    """The oracle or prediction of E12 called ``name``: gamma w.f +- beta cost at its largest, the first of equals."""
    gamma, beta = {"MB": (0, -1), "LU": (0, -1), "M-C": (1, -1), "MC": (0, 1), "PB": (1, 0), "M+C": (1, 1)}[name]
    return max(range(len(scores)), key=lambda j: (gamma * model[j] + beta * (1 - scores[j]), -j))


def mira(
    x: np.ndarray, scores: Sequence[float], oracle: int, prediction: int, c: float, free: np.ndarray, w: np.ndarray
) -> bool:
    """Algorithm 1 of E12, from line 6 on: changes ``w``; returns whether it did."""
    margin = w @ x[prediction] - w @ x[oracle]
    loss = margin + scores[oracle] - scores[prediction]
    d = (x[oracle] - x[prediction]) * free
    if loss <= 0 or not d.any():
        return False
    w += min(c, loss / (d @ d)) * d
    return True


# exchange/: mixing and selection on a dense matrix of Z rows, one per shard


def mean(matrix: Sequence[Sequence[float]]) -> list[float]:
    """The mean of each column, the rows added up in order."""
    out = []
    for column in zip(*matrix, strict=True):
        total = 0.0
        for value in column:
            total = total + value
        out.append(total / len(matrix))
    return out


def active_mean(
    matrix: Sequence[Sequence[float]],
    states: Sequence[Sequence[Sequence[float]]],
    named: Sequence[Sequence[bool]],
    evenly: Sequence[int] = (),
) -> tuple[list[float], list[list[float]]]:
    """The mean of each column, a row weighted by its part of the column's squared gradients, and what states become.

    ``states``: matrices, squared gradients first; ``named``: which row has which column at all; ``evenly``: the columns
    that have the plain mean. Rows are added up in order; what is equal in all keeps its bits.
    """
    means: list[float] = []
    mixed: list[list[float]] = [[] for _ in states]
    for d in range(len(matrix[0])):
        rows = [z for z in range(len(matrix)) if named[z][d]]
        squares = [states[0][z][d] for z in rows]
        total = _sum(squares)
        parts = [square / total for square in squares] if total else []
        mean = _sum([part * square for part, square in zip(parts, squares, strict=False)])
        mixed[0].append(mean)
        column = [matrix[z][d] for z in rows]
        if len(rows) == len(matrix) and len(set(column)) == 1:
            means.append(column[0])
        elif parts and d not in evenly:
            means.append(_sum([part * value for part, value in zip(parts, column, strict=True)]))
        else:
            means.append(_sum(column) / len(matrix))
        for out, state in zip(mixed[1:], states[1:], strict=True):
            out.append(_sum([state[z][d] for z in rows]))
    return means, mixed


def _l2(column: Sequence[float]) -> float:
    total = 0.0
    for value in column:
        total = total + value * value
    return float(np.sqrt(total))


def _sum(column: Sequence[float]) -> float:
    total = 0.0
    for value in column:
        total = total + value
    return total


NORMS: dict[str, Callable[[Sequence[float]], float]] = {
    "l0": lambda column: float(len([value for value in column if value != 0])),
    "l1": lambda column: _sum([abs(value) for value in column]),
    "l2": _l2,
    "linf": lambda column: max(abs(value) for value in column),
    "mean": lambda column: abs(_sum(column) / len(column)),
    "median": lambda column: abs(median(column)),
    "lplp-l0": lambda column: float(0 not in column),
    "lplp-median": lambda column: max(0.0, sorted(column)[len(column) // 2]),
}


def select(
    matrix: Sequence[Sequence[float]],
    ids: Sequence[int],
    norm: str,
    k: int | None,
    threshold: float | None,
    means: Sequence[float] | None = None,
) -> tuple[list[int], list[float], int, float | None]:
    """Ids ascending, means, number of columns with a weight other than 0, lambda: by sorting all columns.

    ``means``: of all columns; without, those of `mean`.
    """
    norms = [NORMS[norm](column) for column in zip(*matrix, strict=True)]
    means = mean(matrix) if means is None else means
    ranked = sorted((-norms[d], ids[d], means[d]) for d in range(len(ids)) if norms[d] > 0)
    if threshold is not None:
        kept = [column for column in ranked if -column[0] >= threshold]
    else:
        assert k is not None
        kept = ranked[:k]
        threshold = -kept[-1][0] if len(ranked) >= k else None
    chosen = sorted((id_, value) for _, id_, value in kept)
    active = sum(any(value != 0 for value in column) for column in zip(*matrix, strict=True))
    return [id_ for id_, _ in chosen], [value for _, value in chosen], active, threshold


# Training: algorithms 1 to 4 of SRD12 as their pseudocode has them, over the same decoder as the run itself


def train(run: TrainingRun) -> list[dict[str, float]]:
    """The weights by name that each epoch publishes, those that are 0 left out."""
    size = give_slots(run)
    initial = np.concatenate([run.first.value, np.zeros(size - len(run.first.value))])
    frozen = np.flatnonzero(run.first.frozen).tolist()
    shards = draw_shards(run.corpus.size, run.job.parallel.shards, run.job.run.seed, 0)
    talking = run.job.learner.algorithm in ("itermix", "itersel")
    v = initial.copy()
    own = [initial.copy() for _ in shards]
    total = np.zeros(size)
    published = []
    best: list[list[int]] = []
    for t in range(1, run.job.learner.epochs + 1):
        before, best = best, [[0] * 11 for _ in range(run.corpus.size)]
        for z, shard in enumerate(shards):
            w = v.copy() if talking else own[z]
            options = run.job.learner
            perceptron = Perceptron(size, learning_rate=options.learning_rate, l1=options.l1, frozen=frozen)
            lists: list[tuple[list[list[int]], int]] = []
            for i in shard.tolist():
                learn(run, perceptron, i, lists, w, before)
                best[i] = lists[-1][0][0]
            perceptron.end_shard(w)
            own[z] = w
        mixed = np.array(mean([w.tolist() for w in own]))
        if run.job.learner.algorithm == "itermix":
            v = mixed
        elif run.job.learner.algorithm == "itersel":
            v = selected(run, own, frozen)
        else:
            total += mixed
        publish = v if talking else total / t
        published.append({run.features.name(slot): float(publish[slot]) for slot in np.flatnonzero(publish).tolist()})
    return published


def give_slots(run: TrainingRun) -> int:
    """Give every feature that could fire a slot, so that all vectors have one length, which is returned."""
    model = run.store.model
    assert isinstance(model, TranslationModel)
    rules = all_names(model.templates, model.grammars.types, model.categories, model.words.words)
    copies = [name for word in model.words.words for name, _ in features(model.templates, pass_through(word))]
    run.features.slots([*rules, *copies])
    return len(run.features)


def learn(
    run: TrainingRun,
    perceptron: Perceptron,
    i: int,
    lists: list[tuple[list[list[int]], int]],
    w: np.ndarray,
    before: list[list[int]],
) -> None:
    """``lists``: statistics and source lengths of the shard's sentences so far; added to.

    ``before``: the statistics of each sentence's 1-best translation in the epoch before.
    """
    sentence = run.corpus.sentence(i)
    wanted = run.job.learner.tables["mira"]
    k = run.job.decoder.kbest
    kbest = run.decoder.decode(sentence, w, max(k, wanted.oracle_kbest or 0))
    references = [reference.tolist() for reference in run.corpus.references(i)]
    rows = [statistics(kbest.translation(j).tolist(), references) for j in range(kbest.size)]
    lists.append((rows, len(sentence.words)))
    kind = run.job.learner.gold
    if kind == "chiang":
        scores = chiang(lists)[-1]
    elif kind == "context" and before:
        others = [sum(row[n] for j, row in enumerate(before) if j != i) for n in range(11)]
        together = [[a + b for a, b in zip(others, row, strict=True)] for row in rows]
        scores = [(wanted.cost_scale or len(before)) * gold("papineni", row) for row in together]
    else:
        scores = [gold("bleu+1" if kind == "context" else kind, row) for row in rows]
    if run.job.learner.method == "mira":
        model = kbest.score.tolist()
        oracle = pick(wanted.oracle, scores, model)
        prediction = pick(wanted.prediction, scores[:k], model[:k])
        mira(dense(kbest, len(w)), scores, oracle, prediction, wanted.c, perceptron.free, w)
        return
    pairs = multipartite(scores, run.job.learner.share, False)
    perceptron.update(dense(kbest, len(w)), pairs, scores, w)


def selected(run: TrainingRun, rows: list[np.ndarray], frozen: list[int]) -> np.ndarray:
    free = [slot for slot in range(len(run.features)) if slot not in frozen]
    ids = [int(run.features.ids[slot]) for slot in free]
    matrix = [[float(w[slot]) for slot in free] for w in rows]
    wanted = run.job.select
    kept, means, _, _ = select(matrix, ids, wanted.norm, wanted.k, wanted.lambda_)
    v = np.zeros(len(run.features))
    v[frozen] = run.first.value[frozen]
    for id_, value in zip(kept, means, strict=True):
        v[free[ids.index(id_)]] = value
    return v
