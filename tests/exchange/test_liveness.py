"""Pulses: who is silent, for how long somebody has listened, and how a request to stop gets around."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpitune.errors import MachineError, StopRequested
from mpitune.exchange import liveness
from mpitune.exchange.liveness import ANSWER, Liveness
from mpitune.runtime.signals import StopFlag

HOSTS = ["a", "b", "b", "c"]


class World:
    """The world of one rank: what it sends stays here, what comes in is put here."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.arrived: list[tuple[int, int]] = []
        self.sent: list[tuple[int, int]] = []
        self.taken = True

    def Get_rank(self) -> int:
        return self.rank

    def Isend(self, pulse: np.ndarray, rank: int) -> Any:
        self.sent.append((rank, int(pulse[0])))
        return SimpleNamespace(Test=lambda: self.taken)

    def Iprobe(self, status: Any) -> bool:
        sender = self.arrived[0][0] if self.arrived else None
        status.Get_source = lambda: sender
        return sender is not None

    def Recv(self, pulse: np.ndarray, rank: int) -> None:
        sender, pulse[0] = self.arrived.pop(0)
        assert sender == rank


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def timer() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(liveness, "time", clock)
    return clock


def started(rank: int) -> tuple[Liveness, World]:
    world = World(rank)
    return Liveness(SimpleNamespace(Status=SimpleNamespace), world, HOSTS), world


def look(lives: Liveness, clock: Clock, seconds: float, *, waiting: bool = True) -> None:
    """Look for pulses ten times a second."""
    for _ in range(round(10 * seconds)):
        clock.now += 0.1
        lives.look(waiting=waiting)


def test_rank_0_waits_for_all_and_the_others_for_rank_0(clock: Clock) -> None:
    for rank, sender, silent in ((0, 2, "hosts b, c"), (3, 0, "host a")):
        lives, world = started(rank)
        lives.set_timeout(20.0)
        look(lives, clock, 15)
        if rank == 0:
            world.arrived.append((sender, 0))
        with pytest.raises(MachineError, match=rf"^heard nothing from {silent} for 0:20 \(parallel\.timeout\): "):
            look(lives, clock, 6)


def test_who_lives_is_never_lost(clock: Clock) -> None:
    lives, world = started(0)
    lives.set_timeout(20.0)
    for _ in range(10):
        world.arrived += [(rank, 0) for rank in (1, 2, 3)]
        look(lives, clock, 15)


def test_a_process_that_has_not_listened_blames_nobody(clock: Clock) -> None:
    """It was suspended, or has worked."""
    lives, _ = started(3)
    lives.set_timeout(20.0)
    look(lives, clock, 10)
    clock.now += 1000.0
    look(lives, clock, 5)
    look(lives, clock, 30, waiting=False)
    with pytest.raises(MachineError):
        look(lives, clock, 1)


def test_the_timer_sends_pulses_to_who_takes_them(clock: Clock) -> None:
    lives, world = started(0)
    signal.raise_signal(signal.SIGALRM)
    assert world.sent == [(1, 0), (2, 0), (3, 0)]
    world.taken = False
    signal.raise_signal(signal.SIGALRM)
    assert len(world.sent) == 3
    lives.end()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_request_to_stop_gets_around(clock: Clock) -> None:
    lives, world = started(0)
    with StopFlag() as stop:
        world.arrived.append((2, 1))
        look(lives, clock, 0.2, waiting=False)
        assert stop and stop.signal is None
        assert world.sent == [(1, 1), (2, 1), (3, 1)]


def test_a_request_to_stop_that_is_not_answered(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpitune.runtime.signals.time", clock)
    lives, world = started(0)
    with StopFlag() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.since == clock.now
        look(lives, clock, ANSWER - 1)
        look(lives, clock, 10, waiting=False)
        world.arrived += [(1, 0), (2, 0)]
        with pytest.raises(StopRequested, match="^stopped by SIGTERM in the wait for host c; finished work") as raised:
            look(lives, clock, 1)
        assert not raised.value.on_all_ranks
