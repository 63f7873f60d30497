"""A pass over given lists, many at a time: they are not decoded, their counts are made once a run.

It has the results of a pass list by list (`mpitune.training.session.TrainingRun.lists`).
"""

from __future__ import annotations

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.decoder.base import Decoder
from mpitune.decoder.lists.decoder import ListDecoder
from mpitune.learner.base import BatchLearner, Chosen, FeatureRows, GivenLists, ListLearner
from mpitune.learner.online.after_updates import Composed
from mpitune.learner.weights import Weights
from mpitune.metrics.bleu import LENGTH, REFERENCE, WIDTH
from mpitune.metrics.sentence_bleu import SentenceMetric
from mpitune.metrics.tuning_metric import Metric
from mpitune.store.store import Corpus
from mpitune.training.epoch_statistics import SUMS, ListStatistics, norms

AT_ONCE = 512
"""Lists between two looks at the stop request."""


class ListPass:
    """The lists of a corpus with their counts and scores.

    These take 60 bytes an entry if BLEU is tuned, only of lists that this process has learned from.
    """

    def __init__(
        self, learner: ListLearner, decoder: ListDecoder, corpus: Corpus, metric: Metric, gold: SentenceMetric
    ) -> None:
        self._learner, self._decoder, self._corpus, self._metric, self._gold = learner, decoder, corpus, metric, gold
        lists = decoder.lists
        self._first = lists.entry_ptr[corpus.grammar]
        self._size = lists.entry_ptr[corpus.grammar + 1] - self._first
        ends = row_ends(np.maximum(self._size, 1))
        self._row = ends[:-1]
        self.longest = int(self._size.max(initial=0))
        """Entries of the longest list."""
        self._most_values = int(np.diff(lists.feature_ptr).max(initial=0))
        # Of lists that are not met, nothing is written: they take no memory.
        self._counted = np.zeros(corpus.size, dtype=np.bool_)
        self._counts = np.empty((metric.width, ends[-1]), dtype=np.int32 if metric.is_bleu else np.int64)
        self._mean = np.empty((corpus.size, metric.width))
        self._gold_score, self._sentence_score = np.empty((2, ends[-1]))

    def learn(self, sentences: np.ndarray, weights: Weights) -> ListStatistics:
        """Learn from the lists of ``sentences`` (int64 [n]) one after the other.

        Ends before the first list with a model score that is not finite: the result is of the lists before it.
        """
        weights.grow()
        self._count(sentences[~self._counted[sentences]])
        first, size, row = (array[sentences] for array in (self._first, self._size, self._row))
        self._gold.score_again(self._counts, row, size, sentences, self._gold_score)
        lists = self._decoder.lists
        features = FeatureRows(lists.feature_ptr, lists.feature, lists.value)
        given = GivenLists(first, size, row, features, self._gold_score, self._sentence_score, self._most_values)
        return self._statistics_of(sentences, given, self._learner.learn_lists(given, weights))

    def _count(self, sentences: np.ndarray) -> None:
        """Fill the counts and scores of the lists of ``sentences`` (int64 [n])."""
        if not len(sentences):
            return
        corpus, decoder, metric = self._corpus, self._decoder, self._metric
        lists = ((decoder.entries(corpus.sentence(i)), corpus.references(i)) for i in sentences.tolist())
        counted = [metric.statistics(kbest, references) for kbest, references in lists]
        ends, counts = row_ends([len(of_list) for of_list in counted]), np.concatenate(counted)
        rows = np.arange(ends[-1]) + np.repeat(self._row[sentences] - ends[:-1], np.diff(ends))
        self._counts[:, rows] = counts.T
        self._mean[sentences] = np.add.reduceat(counts, ends[:-1]) / np.diff(ends)[:, None]
        self._sentence_score[rows] = metric.sentence_scores(counts)
        # Scores that depend on the sentence, too, are made again.
        self._gold_score[rows] = self._gold.score(counts, 0)
        self._counted[sentences] = True

    def _statistics_of(self, sentences: np.ndarray, lists: GivenLists, chosen: Chosen) -> ListStatistics:
        done = len(chosen.best)
        sentences, row = sentences[:done], lists.row[:done]
        best, oracle, prediction, largest = (self._counts[:, row + entry].T.astype(np.int64) for entry in chosen[:4])
        ptr, change = lists.features.ptr, norms(chosen.change_ptr, chosen.change)
        has_source = np.diff(self._corpus.source_ptr)[sentences] > 0
        has_features = ptr[lists.first + lists.size] > ptr[lists.first]
        numbers = {
            "sentences": np.ones(done),
            "gold": self._gold.reported(best),
            "pairs": chosen.oracle != chosen.prediction,
            "updates": chosen.updates,
            "length": best[:, LENGTH],
            "reference": best[:, REFERENCE],
            "empty": has_source & (best[:, LENGTH] == 0) & has_features[:done],
            "change": change,
            "changing": change > 0,
        }
        return ListStatistics(
            np.stack([hypotheses[:, :WIDTH] for hypotheses in (best, oracle, prediction)], axis=1),
            np.stack([best, largest, self._mean[sentences]], axis=1),
            np.stack([numbers[name].astype(np.float64) for name in SUMS], axis=1),
        )


def list_pass(
    learner: Composed | BatchLearner, decoder: Decoder, corpus: Corpus, metric: Metric, gold: SentenceMetric
) -> ListPass | None:
    """A pass over the lists of ``corpus``, if each step of it can be done with many lists at a time; else None."""
    if (
        not isinstance(decoder, ListDecoder)
        or not isinstance(learner, Composed)
        or not isinstance(learner.learner, ListLearner)
        or learner.after
        or not gold.is_of_list
    ):
        return None
    found = ListPass(learner.learner, decoder, corpus, metric, gold)
    return found if found.longest <= learner.learner.longest else None
