"""MERT on hypergraphs (Kumar, Macherey, Dyer & Och, ACL 2009): line search over all derivations of the epoch's forests.

The forests were pruned under the epoch's weights and represent distant weights poorly. The line search therefore
includes the entries of all lists so far. Forests of earlier epochs are deleted.
"""

from __future__ import annotations

import numpy as np

from mpitune.learner.base import Reply, ShardObjective
from mpitune.learner.batch.envelope import goal_lines
from mpitune.learner.batch.mert import Lines, Mert, MertObjective, envelope
from mpitune.learner.forests import Forests
from mpitune.learner.pool import NBestPool
from mpitune.metrics.bleu import WIDTH, text_statistics


class HypergraphObjective:
    """The lists and the forests of one shard."""

    pairs = 0

    def __init__(self, lists: MertObjective, forests: Forests, place: np.ndarray) -> None:
        self._lists = lists
        self._forests = forests
        self._place = place
        self._references = [forests.references(s) for s in range(forests.sentences)]

    def evaluate(self, point: np.ndarray) -> Reply:
        """The `mpitune.learner.batch.mert.Envelope` along w + t d; ``point``: float64 [2, features], w and d."""
        return envelope(_joined(self._lists.lines(point), self._goal_lines(point)))

    def _goal_lines(self, point: np.ndarray) -> Lines:
        w, d = (vector[self._place] for vector in point)
        found = goal_lines(self._forests, w, d)
        ptr = found.sentence_ptr.tolist()
        statistics = [
            text_statistics(found.word_ptr[a : b + 1], found.word, references)
            for a, b, references in zip(ptr[:-1], ptr[1:], self._references, strict=True)
        ]
        none = np.zeros((0, WIDTH), dtype=np.int64)
        return Lines(found.sentence_ptr, found.at, found.slope, np.concatenate([none, *statistics]))


class HypergraphMert(Mert):
    """An `mpitune.learner.base.ForestLearner`."""

    def forest_objective(
        self, pool: NBestPool, place: np.ndarray, forests: Forests, forest_place: np.ndarray
    ) -> ShardObjective:
        return HypergraphObjective(MertObjective(pool, place), forests, forest_place)


def _joined(first: Lines, second: Lines) -> Lines:
    """The lines of both, sentence by sentence, those of ``first`` first."""
    counts = [np.diff(lines.sentence_ptr) for lines in (first, second)]
    sentence = np.concatenate([np.repeat(np.arange(len(count)), count) for count in counts])
    order = np.argsort(sentence, kind="stable")
    at, slope, statistics = (np.concatenate(pair)[order] for pair in zip(first[1:], second[1:], strict=True))
    return Lines(first.sentence_ptr + second.sentence_ptr, at, slope, statistics)
