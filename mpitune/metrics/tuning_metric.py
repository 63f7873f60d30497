"""The metrics that a learner can optimise: of single translations, and of a set by statistics that add up.

A row of statistics starts with those of BLEU, because metrics.jsonl always reports BLEU; those of the other metrics
follow. The statistics of a column of n-best lists are its value in whole units of 1 / `UNIT`, so that sums do not
depend on their order, and 1 where there is a value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.decoder.lists.compiler import LARGEST_METRIC
from mpitune.errors import UsageError, printable
from mpitune.metrics import bleu, sentence_bleu
from mpitune.metrics.bleu import WIDTH
from mpitune.metrics.sentence_bleu import SentenceMetric
from mpitune.registry import Registry

UNIT = 1 << 30
"""Units of 1 in the statistics of columns."""
SPREAD = 0.065
"""Mean standard deviation of a metric in a list, to which metrics other than BLEU alone are scaled *(ours)*, so that
margins and thresholds fit them: between those of `bleu+1` in 100-best lists of news commentary, 0.043, and of Multi30k,
0.100."""

CHOICES = ("1-best", "oracle", "random")
"""Choices of an entry of a list: the first; that of the largest sentence score; and one drawn at random, whose expected
statistics are the means of the list."""

_Scores = Callable[[np.ndarray], np.ndarray]
"""float64 [n] from statistics, int64 [n, columns]; larger is better."""
_Function = Callable[[list[str], list[str]], Sequence[float]]
"""See `sentence_metric`."""


class Counter(ABC):
    """A metric that needs references: counts statistics of single translations, whose sums give the score of a set.

    All commands know a class that is registered in `METRICS`. It has a label, a width, `__init__`, `statistics` and
    `score`; where the defaults of the others do not fit, those too. Where a score is a mean over sentences, a function
    is enough: see `sentence_metric`.
    """

    label: ClassVar[str]
    """The metric as it is printed."""
    width: ClassVar[int]
    """Number of statistics."""
    decimals: ClassVar[int] = 2
    """Digits of the score as it is printed."""
    percent: ClassVar[bool] = True
    """Printed as 100 times the score."""
    larger_is_better: ClassVar[bool] = True
    """If false, the score is the negative of what is printed."""
    tokenized: ClassVar[bool] = False
    """True if ``evaluate --tokenize`` is meant for the metric; others take texts as they are."""

    @abstractmethod
    def __init__(self, words: Sequence[str]) -> None:
        """``words``: the vocabulary, which may grow."""

    @abstractmethod
    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [k, width]: the statistics of each translation; ``references``: int32 [words] each, at least one."""

    @staticmethod
    @abstractmethod
    def score(statistics: np.ndarray) -> np.ndarray:
        """float64 [n]: the scores of sets, of which larger ones are better, from sums of statistics, int64 [n, width].

        Of sums that are 0, any finite score.
        """

    @classmethod
    def sentence_score(cls, statistics: np.ndarray) -> np.ndarray:
        """float64 [n]: the scores of single translations, from their statistics."""
        return cls.score(statistics)

    @classmethod
    def printed(cls, statistics: np.ndarray) -> np.ndarray:
        """float64 [n]: the scores of sets, as `evaluate` prints them, from sums of statistics."""
        return (100 if cls.percent else 1) * (1 if cls.larger_is_better else -1) * cls.score(statistics)


METRICS: Registry[type[Counter]] = Registry("mpitune.metrics", first=("bleu", "ter", "chrf"))
"""All metrics that need references, by name."""


def known_metrics(names: Sequence[str], where: str) -> list[str]:
    """``names``, each once. Raises UsageError for one that is not in `METRICS`; ``where``: the option that has it."""
    for name in names:
        if name not in METRICS:
            raise UsageError(f"{where}: found {printable(name)}, expected one of {', '.join(METRICS)}")
    return list(dict.fromkeys(names))


@METRICS.register("bleu")
class _Bleu(Counter):
    label, width, tokenized = "BLEU", bleu.WIDTH, True
    score = staticmethod(sentence_bleu.papineni)
    sentence_score = staticmethod(sentence_bleu.bleu_plus_one)
    printed = staticmethod(sentence_bleu.exp_smoothed)

    def __init__(self, words: Sequence[str]) -> None:
        """The statistics do not depend on the words."""

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        return bleu.statistics(kbest, references)


class Mean(Counter):
    """A mean over translations; the statistics of one are its value in units of 1 / `UNIT`, and 1, or 0 without one."""

    width = 2

    @staticmethod
    def score(statistics: np.ndarray) -> np.ndarray:
        mean: np.ndarray = statistics[:, 0] / UNIT / np.maximum(statistics[:, 1], 1)
        return mean


def _in_units(values: np.ndarray) -> np.ndarray:
    """int64 [k, 2]: the statistics of a `Mean` of ``values`` (float64 [k]); NaN: no value."""
    counted = np.stack([np.rint(values * UNIT), np.ones_like(values)], axis=1)
    return np.where(np.isnan(values)[:, None], 0, counted).astype(np.int64)


class _Column(Mean):
    """Reads the values of column ``n`` of n-best lists."""

    percent = False

    def __init__(self, n: int) -> None:
        self._n = n

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        # An empty translation in the place of a list without entries has no value.
        return _in_units(kbest.metrics[:, self._n])


def sentence_metric(
    label: str, *, percent: bool = True, larger_is_better: bool = True
) -> Callable[[_Function], type[Counter]]:
    """A decorator that makes a metric of a function of texts, the mean of what it returns; arguments as in `Counter`.

    The function gets the translations of a sentence, and its references, and returns a number for each translation:

        @METRICS.register("first-word")
        @sentence_metric("first word")
        def first_word(translations: list[str], references: list[str]) -> list[float]:
            wanted = {reference.split(" ")[0] for reference in references}
            return [float(translation.split(" ")[0] in wanted) for translation in translations]
    """

    def make(function: _Function) -> type[Counter]:
        class OfSentences(Mean):
            def __init__(self, words: Sequence[str]) -> None:
                self._words = words

            def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
                translations = [self._text(kbest.translation(j)) for j in range(kbest.size)]
                found = np.array(function(translations, [*map(self._text, references)]), dtype=np.float64)
                if found.shape != (kbest.size,) or not (np.abs(found) <= LARGEST_METRIC).all():
                    expected = f"{kbest.size}, from -{LARGEST_METRIC} to {LARGEST_METRIC}"
                    raise UsageError(f"metric {label}: found the values {found.tolist()}, expected {expected}")
                return _in_units(found if larger_is_better else -found)

            def _text(self, words: np.ndarray) -> str:
                return " ".join([self._words[word] for word in words.tolist()])

        OfSentences.label, OfSentences.percent, OfSentences.larger_is_better = label, percent, larger_is_better
        return OfSentences

    return make


class _Part(NamedTuple):
    """One of the metrics."""

    weight: float
    columns: slice
    """Its statistics."""
    of_set: _Scores
    of_sentence: _Scores


class Metric:
    """A weighted sum of metrics.

    The score of a set with a single metric of weight w is w times the metric. Otherwise, and for all sentence scores,
    each metric is multiplied by `SPREAD` / its own spread in the lists (`set_spreads`), and by its share in the
    weights' absolute sum. BLEU alone is not scaled.
    """

    def __init__(self, weights: Mapping[str, float], words: Sequence[str]) -> None:
        """``weights``: by metric; those that need no references are columns of n-best lists, in their order.

        ``words``: the vocabulary, which may grow.
        """
        self.names = list(weights)
        self._counters: list[Counter] = []
        self._parts: list[_Part] = []
        self.width, columns = bleu.WIDTH, 0
        for name, weight in weights.items():
            if name == "bleu":
                self._parts.append(_Part(weight, slice(0, bleu.WIDTH), _Bleu.score, _Bleu.sentence_score))
                continue
            counter: Counter
            if name in METRICS:
                counter = METRICS[name](words)
            else:
                counter = _Column(columns)
                columns += 1
            self._counters.append(counter)
            place = slice(self.width, self.width + counter.width)
            self._parts.append(_Part(weight, place, counter.score, counter.sentence_score))
            self.width += counter.width
        self._needs_references = columns < len(weights)
        self._factors = np.ones(len(weights))
        # Sums and columns have no unit.
        self._percent = (
            100.0 if len(weights) == 1 and all(name in METRICS and METRICS[name].percent for name in weights) else 1.0
        )

    @property
    def is_bleu(self) -> bool:
        """True for BLEU alone."""
        return self.names == ["bleu"] and self._parts[0].weight == 1

    def set_spreads(self, spreads: np.ndarray) -> None:
        """Set the mean standard deviations of the metrics in a list (float64 [metrics], above 0)."""
        self._factors = self.factors(spreads)

    def factors(self, spreads: np.ndarray) -> np.ndarray:
        """float64 [metrics]: what scores with these ``spreads`` (float64 [metrics], above 0) are multiplied by."""
        weights = np.array([part.weight for part in self._parts])
        factors: np.ndarray = weights * SPREAD / spreads / np.abs(weights).sum()
        return factors

    def statistics(self, kbest: KBest, references: Sequence[np.ndarray]) -> np.ndarray:
        """int64 [k, width], by translation; ``references``: int32 [words] each. Without any, those of BLEU are 0.

        Raises ValueError without references if a metric needs them.
        """
        if references or self._needs_references:
            counted = bleu.statistics(kbest, references)
        else:
            counted = np.zeros((kbest.size, bleu.WIDTH), dtype=np.int64)
        return np.hstack([counted, *(each.statistics(kbest, references) for each in self._counters)])

    def single_scores(self, statistics: np.ndarray, bleu_score: _Scores | None = None) -> np.ndarray:
        """float64 [n, metrics]: each metric of single translations; ``statistics``: int64 [n, width].

        ``bleu_score``: sentence BLEU from the statistics of BLEU, by default `bleu+1`.
        """
        columns = []
        for name, part in zip(self.names, self._parts, strict=True):
            score = bleu_score if bleu_score and name == "bleu" else part.of_sentence
            columns.append(score(np.ascontiguousarray(statistics[:, part.columns])))
        return np.stack(columns, axis=1)

    def sentence_scores(self, statistics: np.ndarray) -> np.ndarray:
        """float64 [n]: scores of single translations, larger is better; ``statistics``: int64 [n, width]."""
        return _sum(self.single_scores(statistics), self._factors)

    def set_scores(self, sums: np.ndarray) -> np.ndarray:
        """float64 [n]: scores of sets from sums of statistics (int64 [n, width]), larger is better."""
        scores = [part.of_set(np.ascontiguousarray(sums[:, part.columns])) for part in self._parts]
        if len(scores) == 1:
            return self._parts[0].weight * scores[0]
        return _sum(np.stack(scores, axis=1), self._factors)

    def reported(self, sums: np.ndarray) -> list[float]:
        """`set_scores` as they are reported: in percent for a single metric that is printed so."""
        scores: list[float] = (self._percent * self.set_scores(sums)).tolist()
        return scores

    def choices(self, statistics: np.ndarray) -> np.ndarray:
        """float64 [3, width]: the statistics of `CHOICES` from those of a list, int64 [k, width]."""
        oracle = int(np.argmax(self.sentence_scores(statistics)))
        return np.stack([statistics[0], statistics[oracle], statistics.mean(axis=0)])

    def of_choices(self, sums: np.ndarray) -> list[float]:
        """`reported` of each of `CHOICES`, from sums of `choices` over lists."""
        return self.reported(np.rint(sums).astype(np.int64))


def _sum(scores: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """float64 [n]: rows of ``scores`` (float64 [n, metrics]) times ``factors`` (float64 [metrics])."""
    # Not a product of matrices: equal rows must have equal sums.
    total = np.zeros(len(scores))
    for factor, column in zip(factors.tolist(), scores.T, strict=True):
        total += factor * column
    return total


class MetricGold(SentenceMetric):
    """The sentence score of a `Metric`; its statistics are int64 [k, width]."""

    def __init__(self, metric: Metric, bleu: SentenceMetric) -> None:
        """``bleu``: the gold score that stands for BLEU in a sum."""
        super().__init__(metric.sentence_scores)
        self._metric = metric
        self._bleu = bleu
        self.set_spreads(*[np.full(len(metric.names), SPREAD)] * 2)
        self.needs_previous_epoch = "bleu" in metric.names and bleu.needs_previous_epoch
        self.is_of_list = "bleu" not in metric.names or (bleu.is_of_list and not bleu.needs_previous_epoch)

    def set_spreads(self, first: np.ndarray, later: np.ndarray) -> None:
        """Set the spreads of `single_scores` (float64 [metrics], above 0) in the first epoch, and in later ones.

        The gold score that stands for BLEU may have another unit than BLEU, and another one in the first epoch.
        """
        self._by_epoch = [self._metric.factors(spreads) for spreads in (first, later)]
        self._factors = self._by_epoch[0]

    def start_epoch(self, best: np.ndarray) -> None:
        self._bleu.start_epoch(best)
        self._factors = self._by_epoch[len(best) > 0]

    def start_shard(self) -> None:
        self._bleu.start_shard()

    def score(self, statistics: np.ndarray, source_length: int, number: int = 0) -> np.ndarray:
        return _sum(self.single_scores(statistics, source_length, number), self._factors)

    def single_scores(self, statistics: np.ndarray, source_length: int, number: int = 0) -> np.ndarray:
        """float64 [k, metrics]: the scores that `score` scales and adds."""
        return self._metric.single_scores(statistics, lambda own: self._bleu.score(own, source_length, number))

    def update_context(self, statistics: np.ndarray, source_length: int) -> None:
        self._bleu.update_context(statistics[:, :WIDTH], source_length)
