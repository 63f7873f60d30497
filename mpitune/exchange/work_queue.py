"""Dynamic scheduling: free ranks get the next items of work from rank 0, which gives them out between its sentences.

A message waits until rank 0, which works itself, next looks for it. So nobody waits for an answer: the first items are
dealt without a message, and a rank asks for more while it still has as much to do as an answer may take, on a slow
network, too. Who asks gets an item; while much is left, several, so that short items need few messages.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

AHEAD = 3
"""A rank asks for more as soon as it has at most so many units of work, such as sentences, left, ..."""
ANSWERS = 2
"""... or as much as takes so many times as long as an answer did."""
SHARE = 4
"""A rank gets at most the part 1 / (SHARE * ranks) of the items that are left, and at least one item."""
REPORTED = 0.05
"""Seconds between two reports of finished work on rank 0, by whichever rank."""
PROBES = 8
"""Looks for a message: one takes a step of MPI's work, and several may be needed until a message from afar is seen."""
_REPORTS, _ASKS, _LEAVES = range(3)
_TAGS = 1000
"""Queues that follow one another have different tags."""


class QueueProgress(NamedTuple):
    """Finished work of all ranks, as far as rank 0 has heard of it; on other ranks, that of the rank itself."""

    units: int
    score: float
    """Sum of the scores."""


class WorkQueue(Protocol):
    """Numbered items of work, each given to one rank: iterate over it to get those of this rank."""

    def __iter__(self) -> Iterator[int]:
        """The items of this rank, until none are left anywhere."""
        ...

    def done(self, units: int = 1, score: float = 0.0) -> QueueProgress:
        """Report finished ``units`` of total ``score``. Call it often during long items: others wait for rank 0."""
        ...


class SerialWorkQueue:
    """The queue of a run of one process."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._items, self._done = len(sizes), QueueProgress(0, 0.0)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._items))

    def done(self, units: int = 1, score: float = 0.0) -> QueueProgress:
        self._done = QueueProgress(self._done.units + units, self._done.score + score)
        return self._done


class MessageQueue:
    """The queue of an MPI world."""

    def __init__(
        self,
        mpi: Any,
        world: Any,
        number: int,
        sizes: Sequence[int],
        until: Callable[[Callable[[], bool]], None],
        look: Callable[[], None],
        answer_seconds: float,
    ) -> None:
        """``world``: a communicator of the queues' own, of which this one is the ``number``-th; ``sizes``: the units of
        each item; ``until``: waits for a condition; ``look``: called after each sentence;
        ``answer_seconds``: how long answers took in the queue before.
        """
        self._mpi, self._world, self._tag = mpi, world, 2 * (number % _TAGS)
        self._until, self._look, self._sizes = until, look, sizes
        self._rank, self._ranks = world.Get_rank(), world.Get_size()
        dealt = max(len(sizes) // (SHARE * self._ranks), 1)
        self._mine = deque(range(self._rank, min(dealt * self._ranks, len(sizes)), self._ranks))
        self._left = sum(sizes[item] for item in self._mine)
        self._done = self._unreported = QueueProgress(0, 0.0)
        self._began = self._last_report = self._last_question = time.monotonic()
        self.answer_seconds = answer_seconds
        self._over = self._waits_for_answer = False
        self._sent: list[tuple[Any, np.ndarray]] = []
        # On rank 0:
        self._next = min(dealt * self._ranks, len(sizes))
        self._at_work = set(range(1, self._ranks))

    def __iter__(self) -> Iterator[int]:
        while True:
            if not self._mine:
                self._get_more()
            if not self._mine:
                return
            item = self._mine.popleft()
            self._ask_ahead()
            yield item

    def done(self, units: int = 1, score: float = 0.0) -> QueueProgress:
        self._left -= units
        self._done = _added(self._done, units, score)
        if self._rank == 0:
            self._serve()
        else:
            self._unreported = _added(self._unreported, units, score)
            self._ask_ahead()
            if time.monotonic() - self._last_report > REPORTED * self._ranks:
                self._report(_REPORTS)
        self._look()
        return self._done

    def leave(self) -> None:
        """End this rank's part: rank 0's, when those of all others have ended. After it, no item is given out."""
        self._over = True
        if self._rank == 0:
            self._until(self._all_have_left)
        else:
            if self._waits_for_answer:
                self._until(self._answered)
            self._report(_LEAVES)
            self._until(self._all_sent)

    def _get_more(self) -> None:
        if self._rank == 0:
            self._take_from(*self._give())
        elif not self._over:
            if not self._waits_for_answer:
                self._report(_ASKS)
            self._until(self._answered)

    def _ask_ahead(self) -> None:
        """Ask for more before the last work is done, and take what is there."""
        if self._rank != 0 and self._answered() and not self._over and self._is_near_end():
            self._report(_ASKS)

    def _is_near_end(self) -> bool:
        """True if what is left may be done before an answer is there."""
        seconds = time.monotonic() - self._began
        return self._left <= AHEAD or self._left * seconds < self._done.units * ANSWERS * self.answer_seconds

    def _report(self, what: int) -> None:
        self._send(0, self._tag, what, *self._unreported)
        self._unreported, self._last_report = QueueProgress(0, 0.0), time.monotonic()
        if what == _ASKS:
            self._waits_for_answer, self._last_question = True, self._last_report

    def _answered(self) -> bool:
        """True if nothing is to be answered; takes an answer that is there."""
        if self._waits_for_answer and self._is_there(0, self._tag + 1):
            answer = np.zeros(2)
            self._world.Recv(answer, 0, self._tag + 1)
            self._waits_for_answer = False
            seconds = time.monotonic() - self._last_question
            # It depends on what rank 0 is at: a long answer is remembered for a while.
            self.answer_seconds = max(seconds, (self.answer_seconds + seconds) / 2)
            self._take_from(*map(int, answer))
        return not self._waits_for_answer

    def _take_from(self, first: int, last: int) -> None:
        self._mine.extend(range(first, last))
        self._left += sum(self._sizes[first:last])
        self._over |= first == last

    def _serve(self) -> None:
        """Rank 0's part: take reports, and give out work."""
        status, report = self._mpi.Status(), np.zeros(3)
        while self._is_there(self._mpi.ANY_SOURCE, self._tag, status):
            sender = status.Get_source()
            self._world.Recv(report, sender, self._tag)
            self._done = _added(self._done, int(report[1]), report[2])
            if report[0] == _ASKS:
                self._send(sender, self._tag + 1, *self._give())
            elif report[0] == _LEAVES:
                self._at_work.remove(sender)

    def _give(self) -> tuple[int, int]:
        """The next items: from the first to before the last."""
        left = 0 if self._over else len(self._sizes) - self._next
        first, self._next = self._next, self._next + min(max(left // (SHARE * self._ranks), 1), left)
        return first, self._next

    def _all_have_left(self) -> bool:
        self._serve()
        return not self._at_work and self._all_sent()

    def _send(self, rank: int, tag: int, *numbers: float) -> None:
        message = np.array(numbers, dtype=np.float64)
        self._all_sent()
        self._sent.append((self._world.Isend(message, rank, tag), message))

    def _is_there(self, rank: int, tag: int, status: Any = None) -> bool:
        return any(self._world.Iprobe(rank, tag, status) for _ in range(PROBES))

    def _all_sent(self) -> bool:
        self._sent = [sent for sent in self._sent if not sent[0].Test()]
        return not self._sent


def _added(progress: QueueProgress, units: int, score: float) -> QueueProgress:
    return QueueProgress(progress.units + units, progress.score + score)
