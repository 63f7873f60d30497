"""Search for the training sentences nearest to each sentence; each rank searches its part of the training data."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.corpus.progress import Progress
from mpitune.corpus.retrieval import IndexedPart, Neighbours, sentences_with
from mpitune.exchange.comm import Comm
from mpitune.training.local.learning import TrainingData

AT_ONCE = 500
"""Sentences that are searched for between two exchanges of the results."""


class Retrieval:
    """Search for the nearest training sentences; each rank searches its part of the corpus."""

    def __init__(self, comm: Comm, training: TrainingData, k: int, theta: float) -> None:
        """``k``, ``theta``: as in ``[local]``. Collective."""
        corpus = training.corpus
        cuts = [corpus.size * rank // comm.size for rank in range(comm.size + 1)]
        first, last = cuts[comm.rank : comm.rank + 2]
        ptr = corpus.source_ptr[first : last + 1]
        frequency = comm.sum(sentences_with(ptr - ptr[0], corpus.source[ptr[0] : ptr[-1]], len(training.words)))
        self._part = IndexedPart(ptr, corpus.source, first, frequency, corpus.size, theta)
        self._comm, self._words, self._k = comm, training.words, k
        self._of_rank = np.minimum(np.diff(cuts), k)
        """int64 [ranks]: number of sentences that each rank finds."""
        self.seconds = 0.0
        """Seconds that this rank has spent on search."""

    def nearest(self, sentences: Sequence[Sequence[str]]) -> list[Neighbours]:
        """The k training sentences nearest to each of ``sentences`` (words), on every rank. Collective."""
        result: list[Neighbours] = []
        with Progress("retrieve", len(sentences)) as shown:
            for first in range(0, len(sentences), AT_ONCE):
                found = []
                for words in sentences[first : first + AT_ONCE]:
                    began = time.perf_counter()
                    found.append(self._part.search(self._words.encode(words), self._k))
                    self.seconds += time.perf_counter() - began
                    shown.advance()
                result += self._merged(found)
        return result

    def _merged(self, found: Sequence[Neighbours]) -> list[Neighbours]:
        """Merge the neighbours found by all ranks; each rank merges those of some sentences, then all are exchanged."""
        comm, count = self._comm, len(found)
        found_by_all, starts = self._of_all_ranks(found), row_ends(count * self._of_rank)[:-1]
        mine = []
        for s in range(comm.rank, count, comm.size):
            parts = [np.arange(n) + start + s * n for start, n in zip(starts, self._of_rank, strict=True)]
            places = np.concatenate(parts)
            mine.append(Neighbours(found_by_all.number[places], found_by_all.distance[places]).nearest(self._k))
        merged = self._of_all_ranks(mine)
        rows = (array.reshape(count, -1) for array in merged)
        order = [s for rank in range(comm.size) for s in range(rank, count, comm.size)]
        return [row for _, row in sorted(zip(order, map(Neighbours, *rows), strict=True), key=lambda pair: pair[0])]

    def _of_all_ranks(self, found: Sequence[Neighbours]) -> Neighbours:
        """Neighbours found by all ranks, concatenated in rank order."""
        number = np.concatenate([np.zeros(0, dtype=np.int64), *(each.number for each in found)])
        distance = np.concatenate([np.zeros(0), *(each.distance for each in found)])
        number, distance = self._comm.concatenate(number.astype(np.uint64), distance)
        return Neighbours(number.astype(np.int64), distance)
