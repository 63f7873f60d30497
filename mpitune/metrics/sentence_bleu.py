"""Gold scores: approximations of BLEU for single translations.

All are a brevity penalty times n-gram precisions. The precision of an order without n-grams is 0, unless 1 is added to
its counts. Simianer, Riezler and Dyer (ACL 2012) list them; their sources are Liang et al. 2006, Lin & Och 2004, Nakov
et al. 2012, Papineni et al. 2002 and Chiang et al. 2008. `ContextBleu` is that of Eidelman (WMT 2012), which scores a
translation in the context of the whole set.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mpitune.jit import at, kernel
from mpitune.metrics.bleu import LENGTH, LONGEST, MATCHES, ORDER, REFERENCE, TOTALS, WIDTH
from mpitune.portable_math import exp, exps, log, logs
from mpitune.registry import Registry

CONTEXT_DECAY = 0.9
"""Decay of the pseudo-document of `ChiangBleu` per sentence."""


@kernel
def _brevity_penalty(length: float, reference: float) -> float:
    """BLEU's brevity penalty, from the lengths of translation and reference in words."""
    if length >= reference:
        return 1.0
    if length == 0:
        return 0.0
    return exp(1.0 - reference / length)


@kernel
def _bleu(
    counts: np.ndarray, first: int, document: np.ndarray, add: float, space: np.ndarray, scores: np.ndarray
) -> None:
    """Fill ``scores`` (float64 [k]): BLEU-4 of ``document`` (float64 [11]) plus each translation.

    ``counts``: whole numbers [11, n], the statistics of the translations in columns from ``first`` on. ``add`` is added
    to matches and n-grams of the orders above 1; ``space``: float64 [k], working space. Each step is a loop over
    columns of its own: so the processor does it with several translations at once.
    """
    k = len(scores)
    for j in range(k):
        scores[at(j)] = 0.0
    for n in range(ORDER):
        smooth = add if n > 0 else 0.0
        match, total = document[MATCHES + n], document[TOTALS + n]
        of_match, of_total = counts[MATCHES + n, first:], counts[TOTALS + n, first:]
        for j in range(k):
            matches = match + of_match[at(j)] + smooth
            # Without matches there may be no n-grams.
            space[at(j)] = matches / (total + of_total[at(j)] + smooth if matches > 0.0 else 1.0)
        for j in range(k):
            scores[at(j)] += log(space[at(j)])
    length, reference = document[LENGTH], document[REFERENCE]
    of_length, of_reference = counts[LENGTH, first:], counts[REFERENCE, first:]
    for j in range(k):
        words, wanted = length + of_length[at(j)], reference + of_reference[at(j)]
        # The logarithm of BLEU's brevity penalty.
        short = 1.0 - wanted / words if words > 0.0 else -math.inf
        space[at(j)] = 0.0 if words >= wanted else short
    for j in range(k):
        space[at(j)] = exp(space[at(j)])
    for j in range(k):
        scores[at(j)] = space[at(j)] * exp(scores[at(j)] / ORDER)


@kernel
def _bleu_of_lists(
    counts: np.ndarray,
    row: np.ndarray,
    size: np.ndarray,
    documents: np.ndarray,
    scale: float,
    space: np.ndarray,
    scores: np.ndarray,
) -> None:
    """``scale`` times `_bleu` of lists, n of them, each with a document of its own.

    ``row``, ``size``: int64 [n], first translation of each list in ``counts`` (whole numbers [11, rows]) and ``scores``
    (float64 [rows]), and its translations; ``documents``: float64 [n, 11]; ``space``: float64 [largest size].
    """
    for i in range(len(row)):
        of_list = scores[row[i] : row[i] + size[i]]
        _bleu(counts, row[i], documents[i], 0.0, space[: size[i]], of_list)
        for j in range(len(of_list)):
            of_list[j] *= scale


@kernel
def _plus_one(statistics: np.ndarray, add_length: float, scores: np.ndarray) -> None:
    """Fill ``scores`` (float64 [k]) with smoothed BLEU; ``add_length`` is added to the reference length.

    ``statistics``: int64 [k, 11].
    """
    for j in range(len(statistics)):
        if statistics[j, MATCHES] == 0:
            scores[j] = 0.0
            continue
        logs = log(statistics[j, MATCHES] / statistics[j, TOTALS])
        orders = min(ORDER, statistics[j, LONGEST])
        for n in range(1, orders):
            logs += log((statistics[j, MATCHES + n] + 1.0) / (statistics[j, TOTALS + n] + 1.0))
        penalty = _brevity_penalty(statistics[j, LENGTH], statistics[j, REFERENCE] + add_length)
        scores[j] = penalty * exp(logs / orders)


@kernel
def _liang(statistics: np.ndarray, scores: np.ndarray) -> None:
    """`liang`; ``statistics``: int64 [k, 11]; ``scores``: float64 [k], filled."""
    for j in range(len(statistics)):
        logs = 0.0
        means = 0.0
        for n in range(ORDER):
            match = statistics[j, MATCHES + n]
            if match == 0:
                break
            logs += log(match / statistics[j, TOTALS + n])
            means += exp(logs / (n + 1)) / (1 << ORDER - n)
        scores[j] = _brevity_penalty(statistics[j, LENGTH], statistics[j, REFERENCE]) * means


@kernel
def _sum(statistics: np.ndarray, scores: np.ndarray) -> None:
    """`sum_of_precisions`; ``statistics``: int64 [k, 11]; ``scores``: float64 [k], filled."""
    for j in range(len(statistics)):
        precisions = 0.0
        for n in range(ORDER):
            match = statistics[j, MATCHES + n]
            if match == 0:
                break
            precisions += match / statistics[j, TOTALS + n] / (1 << ORDER - n)
        scores[j] = _brevity_penalty(statistics[j, LENGTH], statistics[j, REFERENCE]) * precisions


def bleu_with(document: np.ndarray, statistics: np.ndarray, add: float = 0.0) -> np.ndarray:
    """float64 [k]: BLEU-4 of ``document`` (float64 [11]) plus each translation (``statistics``: int64 [k, 11]).

    ``add`` is added to matches and n-grams of the orders above 1.
    """
    space, scores = np.empty((2, len(statistics)))
    _bleu(np.ascontiguousarray(statistics.T), 0, document, add, space, scores)
    return scores


def liang(statistics: np.ndarray) -> np.ndarray:
    """float64 [k]: the sum over n of BLEU_n / 2^(5 - n), at most 0.9375. ``statistics``: int64 [k, 11], also below."""
    scores = np.empty(len(statistics))
    _liang(statistics, scores)
    return scores


def sum_of_precisions(statistics: np.ndarray) -> np.ndarray:
    """float64 [k]: the brevity penalty times the sum over n of p_n / 2^(5 - n), up to the first p_n = 0."""
    scores = np.empty(len(statistics))
    _sum(statistics, scores)
    return scores


def papineni(statistics: np.ndarray) -> np.ndarray:
    """float64 [k]: BLEU-4 without smoothing; corpus BLEU if given summed statistics."""
    return bleu_with(np.zeros(WIDTH), statistics)


def exp_smoothed(statistics: np.ndarray) -> np.ndarray:
    """float64 [n]: corpus BLEU, 0 to 100, of summed statistics, with sacreBLEU's default smoothing.

    The k-th order without a match counts 2^-k matches.
    """
    matches, totals = statistics[:, MATCHES : MATCHES + ORDER], statistics[:, TOTALS : TOTALS + ORDER]
    missing = matches == 0
    smoothed = np.where(missing, 1 / (1 << np.cumsum(missing, axis=1)), matches)
    precision = exps(logs(smoothed / np.maximum(totals, 1)).mean(axis=1))
    brevity = exps(np.minimum(1 - statistics[:, REFERENCE] / np.maximum(statistics[:, LENGTH], 1), 0))
    return np.where((totals > 0).all(axis=1) & ~missing.all(axis=1), 100 * brevity * precision, 0.0)


def bleu_plus_one(statistics: np.ndarray) -> np.ndarray:
    """float64 [k]: BLEU-N with 1 added to matches and totals above order 1 (Lin & Och 2004); 0 if no word matches.

    N = min(4, words of the longest reference), as in the C++ trainer of Simianer et al. 2012 *(the longest of several
    references: ours)*. The precision of an order for which the translation is too short is (0 + 1) / (0 + 1): with 0, a
    longer wrong translation of a sentence with a reference of 3 words would score above the perfect one.
    """
    return _sentence_bleu(statistics, 0.0)


def nakov(statistics: np.ndarray) -> np.ndarray:
    """float64 [k]: `bleu_plus_one` with 1 added to the reference length of the brevity penalty (Nakov et al. 2012).

    As published: with a reference of up to 3 words, a longer translation may score above the perfect one.
    """
    return _sentence_bleu(statistics, 1.0)


def _sentence_bleu(statistics: np.ndarray, add_length: float) -> np.ndarray:
    scores = np.empty(len(statistics))
    _plus_one(statistics, add_length, scores)
    return scores


class SentenceMetric:
    """A gold score of single sentences; subclasses depend on other sentences too."""

    needs_previous_epoch = False
    """True if `start_epoch` needs the 1-best translations of the epoch before."""
    is_of_list = True
    """True if scores depend on the list, and the epoch before, alone: `score_again` follows what changes."""

    def __init__(self, sentence_score: Callable[[np.ndarray], np.ndarray]) -> None:
        self._sentence_score = sentence_score

    def start_epoch(self, best: np.ndarray) -> None:
        """``best``: int32 [sentences, 11], statistics of the 1-best translations of the epoch before; or no rows."""

    def start_shard(self) -> None:
        """Reset the context at the start of a pass over a shard."""

    def score(self, statistics: np.ndarray, source_length: int, number: int = 0) -> np.ndarray:
        """float64 [k]: the gold scores of a list with ``statistics`` (int64 [k, 11]).

        ``source_length``: words of the source sentence; ``number``: its number in the set.
        """
        return self._sentence_score(statistics)

    def score_again(
        self, counts: np.ndarray, row: np.ndarray, size: np.ndarray, numbers: np.ndarray, scores: np.ndarray
    ) -> None:
        """Replace the ``scores`` of lists that were scored in another epoch, n of them, where they are different now.

        ``row``, ``size``: int64 [n], the first translation of each list in ``counts`` (whole numbers [11, rows], the
        statistics) and ``scores`` (float64 [rows]), and its translations; ``numbers``: int64 [n], of the sentences.
        """

    def update_context(self, statistics: np.ndarray, source_length: int) -> None:
        """Add the 1-best, the first row of ``statistics`` (int64 [k, 11]), to the context."""

    def report(self, statistics: np.ndarray) -> float:
        """The score of the 1-best without context, in [0, 1], for the epoch's metrics; 0 for an empty list."""
        return float(self.reported(statistics[:1])[0]) if len(statistics) else 0.0

    def reported(self, statistics: np.ndarray) -> np.ndarray:
        """float64 [n]: `report` of 1-bests (int64 [n, 11])."""
        return self._sentence_score(statistics)


class ChiangBleu(SentenceMetric):
    """BLEU in the context of a decaying pseudo-document of the shard's earlier 1-bests, in units of source words.

    With O the document's statistics and O_f its source length: B(e) = (O_f + |f|) BLEU(O + c(e)), then O and O_f become
    0.9 (O + c(1-best)) and 0.9 (O_f + |f|). Precisions are those of O + c(e), so a translation that is too short for
    4-grams may score above 0. `report` uses `bleu_plus_one`.
    """

    is_of_list = False

    def __init__(self) -> None:
        super().__init__(bleu_plus_one)
        self.start_shard()

    def start_shard(self) -> None:
        self.document = np.zeros(WIDTH)
        self.source_length = 0.0

    def score(self, statistics: np.ndarray, source_length: int, number: int = 0) -> np.ndarray:
        return bleu_with(self.document, statistics) * (self.source_length + source_length)

    def update_context(self, statistics: np.ndarray, source_length: int) -> None:
        self.document = CONTEXT_DECAY * (self.document + statistics[:1].sum(axis=0))
        self.source_length = CONTEXT_DECAY * (self.source_length + source_length)


class ContextBleu(SentenceMetric):
    """BLEU of the whole set after replacing one 1-best translation of the epoch before.

    With s_i the statistics of that 1-best of sentence i, and S their sum over the set: B_i(e) = scale BLEU(S - s_i +
    c(e)) (Eidelman 2012). In the first epoch, and for `report`: `bleu_plus_one`.
    """

    needs_previous_epoch = True

    def __init__(self, scale: float) -> None:
        """``scale``: one sentence changes BLEU by about 1 / sentences; the number of sentences makes up for this."""
        super().__init__(bleu_plus_one)
        self._scale = scale
        self.start_epoch(np.zeros((0, WIDTH), dtype=np.int32))

    def start_epoch(self, best: np.ndarray) -> None:
        self._best = best
        self._sum = best.sum(axis=0, dtype=np.int64)

    def score(self, statistics: np.ndarray, source_length: int, number: int = 0) -> np.ndarray:
        if not len(self._best):
            return super().score(statistics, source_length)
        return bleu_with((self._sum - self._best[number]).astype(np.float64), statistics) * self._scale

    def score_again(
        self, counts: np.ndarray, row: np.ndarray, size: np.ndarray, numbers: np.ndarray, scores: np.ndarray
    ) -> None:
        if len(self._best):
            documents = (self._sum - self._best[numbers]).astype(np.float64)
            _bleu_of_lists(counts, row, size, documents, self._scale, np.empty(int(size.max(initial=0))), scores)


class DocumentBleu(SentenceMetric):
    """BLEU of a pseudo-document, after `ChiangBleu`, in the units of one sentence *(ours)*.

    With O the document's statistics, R its reference length and r the sentence's (that of its 1-best): B(e) = (R + r) /
    r BLEU(O + c(e)), then O becomes d (O + c(1-best)), d = `DECAY`. 1 is added to matches and n-grams of the orders
    above 1, which matters while the document is short. A pass over a shard starts with the 1-best translations of the
    epoch before, scaled to `START` sentences. With more, translations would have to be too long in most of a small
    shard because they were too short in the epoch before, and the other way round in the next: that never settles.

    The brevity penalty is close to that of the corpus: other sentences can compensate for a short one. Penalties of
    single sentences make translations too short or, with 1 added to the reference length, too long; so does that of
    `ChiangBleu`, whose document has an effective length of ten sentences. Score differences have the size of those of
    sentence BLEU, independent of sentence length, and fit the same margins.
    """

    is_of_list = False
    needs_previous_epoch = True
    DECAY = 0.995
    START = 25

    def __init__(self) -> None:
        super().__init__(bleu_plus_one)
        self.start_epoch(np.zeros((0, WIDTH), dtype=np.int32))

    def start_epoch(self, best: np.ndarray) -> None:
        self._first = best.sum(axis=0, dtype=np.int64) * (self.START / max(len(best), 1))
        self.start_shard()

    def start_shard(self) -> None:
        self.document = self._first.copy()

    def score(self, statistics: np.ndarray, source_length: int, number: int = 0) -> np.ndarray:
        scores = bleu_with(self.document, statistics, 1.0)
        length = float(statistics[:1, REFERENCE].sum())
        scores *= (self.document[REFERENCE] + length) / max(length, 1.0)
        return scores

    def update_context(self, statistics: np.ndarray, source_length: int) -> None:
        self.document = self.DECAY * (self.document + statistics[:1].sum(axis=0))


SENTENCE_METRICS: Registry[Callable[[float], SentenceMetric]] = Registry(
    "mpitune.metrics",
    parts={
        "document": lambda scale: DocumentBleu(),
        "liang": lambda scale: SentenceMetric(liang),
        "bleu+1": lambda scale: SentenceMetric(bleu_plus_one),
        "nakov": lambda scale: SentenceMetric(nakov),
        "papineni": lambda scale: SentenceMetric(papineni),
        "sum": lambda scale: SentenceMetric(sum_of_precisions),
        "chiang": lambda scale: ChiangBleu(),
        "context": ContextBleu,
    },
)
"""By ``learner.gold``: the gold score for a scale, which only context uses."""


def make_sentence_metric(name: str, scale: float = 1.0) -> SentenceMetric:
    """The gold score called ``name``; ``scale``: see `ContextBleu`."""
    return SENTENCE_METRICS[name](scale)
