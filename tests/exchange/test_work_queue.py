"""The queue of an MPI world, on one rank: the others, and time, are stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpitune.exchange import work_queue
from mpitune.exchange.work_queue import MessageQueue

ASKS = 1


class Others:
    """The other ranks as one sees them: a message is there some ``seconds`` after its cause, at the third look."""

    def __init__(self, rank: int, ranks: int, seconds: float) -> None:
        self.rank, self.ranks, self.seconds = rank, ranks, seconds
        self.now = self.waited = 0.0
        self.looks = 0
        self.arriving: list[tuple[float, int, list[float]]] = []
        self.sent: list[tuple[int, list[float]]] = []
        self.given = 0

    def queue(self, sizes: list[int], answer_seconds: float = 0.0) -> MessageQueue:
        mpi: Any = SimpleNamespace(ANY_SOURCE=-2, Status=Status)
        return MessageQueue(mpi, self, 1, sizes, self.until, lambda: None, answer_seconds)

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.now += 0.001
            self.waited += 0.001

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return self.ranks

    def Isend(self, message: np.ndarray, rank: int, tag: int) -> Any:
        self.sent.append((rank, message.tolist()))
        if rank == 0 and message[0] == ASKS:
            # Items of their own: those that were dealt have lower numbers.
            self.given += 1
            answer = [self.given + 7.0, self.given + 8.0] if self.given <= 8 else [16.0, 16.0]
            self.arriving.append((self.now + self.seconds, 0, answer))
        return SimpleNamespace(Test=lambda: True)

    def Iprobe(self, source: int = -2, tag: int = 0, status: Any = None) -> bool:
        if not self.arriving or self.arriving[0][0] > self.now:
            return False
        self.looks += 1
        if status is not None:
            status.source = self.arriving[0][1]
        return self.looks % 3 == 0

    def Recv(self, message: np.ndarray, source: int, tag: int) -> None:
        _, sender, numbers = self.arriving.pop(0)
        assert sender == source
        message[:] = numbers


class Status:
    """Who sent the message that was looked for."""

    source = -1

    def Get_source(self) -> int:
        return self.source


def epoch(others: Others, queue: MessageQueue, sizes: list[int]) -> list[int]:
    """The items of a rank whose sentences take 10 ms."""
    done = []
    for item in queue:
        for _ in range(sizes[item]):
            others.now += 0.01
            queue.done()
        done.append(item)
    queue.leave()
    return done


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Others:
    """Rank 1 of 2, rank 0 answers after 90 ms."""
    others = Others(1, 2, 0.09)
    monkeypatch.setattr(work_queue, "time", SimpleNamespace(monotonic=lambda: others.now))
    return others


def test_a_rank_asks_as_early_as_answers_take_long(far: Others) -> None:
    sizes = [25] * 16
    queue = far.queue(sizes)
    assert epoch(far, queue, sizes) == [1, 3, *range(8, 16)]
    # Once: the first answer comes later than expected.
    assert 0 < far.waited < 0.09
    assert sum(message[0] == ASKS for _, message in far.sent) == 9
    assert queue.answer_seconds == pytest.approx(0.09, abs=0.015)
    # The next queue knows how long.
    far.waited, far.given = 0.0, 0
    assert epoch(far, far.queue(sizes, queue.answer_seconds), sizes) == [1, 3, *range(8, 16)]
    assert far.waited == 0


def test_a_rank_does_not_ask_earlier_than_it_must(far: Others) -> None:
    far.seconds = 0.0
    queue = far.queue([25] * 16)
    next(iter(queue))
    while queue._left > work_queue.AHEAD:
        assert ASKS not in [message[0] for _, message in far.sent]
        far.now += 0.01
        queue.done()
    assert [message[0] for _, message in far.sent].count(ASKS) == 1


def test_a_long_answer_is_forgotten(far: Others) -> None:
    sizes = [25] * 16
    queue = far.queue(sizes, answer_seconds=100.0)
    far.seconds = 0.0
    epoch(far, queue, sizes)
    assert queue.answer_seconds < 1


def test_rank_0_hears_everybody_at_once() -> None:
    others = Others(0, 4, 0.0)
    queue = others.queue([25] * 64)
    next(iter(queue))
    others.arriving = [(0.0, sender, [ASKS, 5.0, 0.5]) for sender in (1, 2, 3)]
    assert queue.done() == (16, 1.5)
    assert [rank for rank, _ in others.sent] == [1, 2, 3]


def test_few_reports_from_many_ranks(far: Others) -> None:
    far.ranks = 1000
    queue = far.queue([10**6] * 4000)
    next(iter(queue))
    for _ in range(4000):
        far.now += 0.01
        queue.done()
    assert len(far.sent) == pytest.approx(40 / (1000 * work_queue.REPORTED), abs=1)
