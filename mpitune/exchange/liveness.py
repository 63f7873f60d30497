"""Signs of life of the other ranks, and requests to stop that reach one of them.

A host that is lost says nothing: its connections stay open, and MPI waits for ever. So every few seconds each rank
sends rank 0, and rank 0 each other rank, a pulse: from a timer, whatever it computes meanwhile. A rank that waits for
others looks for their pulses. A pulse tells, too, whether its sender was asked to stop: a signal may reach one rank
only.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

import numpy as np

from mpitune.corpus.wording import clock
from mpitune.errors import MachineError
from mpitune.runtime.signals import stop_flag

TIMEOUT = 600.0
"""Seconds of silence after which a rank is lost, unless a job says otherwise."""
PULSE = 5.0
"""Seconds between two pulses, or a fifth of that time if it is shorter."""
ANSWER = 20.0
"""Seconds that a rank which was asked to stop waits for the others."""
LOOK = 0.05
"""Seconds between two looks for pulses."""


class Liveness:
    """The pulses of this rank and those that it receives.

    Uses the timer and the signal ITIMER_REAL. Python runs the handler of a signal between two of its own instructions,
    so never within a call of MPI, and in the main thread, which alone may call MPI.
    """

    def __init__(self, mpi: Any, world: Any, hosts: Sequence[str]) -> None:
        """``mpi``: the module mpi4py.MPI; ``world``: a communicator of its own; ``hosts``: the name of each rank's."""
        self._mpi, self._world, self._hosts = mpi, world, hosts
        self._rank = world.Get_rank()
        self._peers = [] if len(hosts) == 1 else range(1, len(hosts)) if self._rank == 0 else [0]
        self._silence: dict[int, float] = {}
        """Seconds that this rank has looked for pulses of each peer since the last one."""
        self._sent: dict[int, tuple[Any, np.ndarray]] = {}
        self._told_to_stop = False
        self._last_look = 0.0
        self._beats = False
        """True while pulses are sent."""
        self._previous: Any = None
        """The handler of SIGALRM before this one."""
        self.begin()

    def begin(self) -> None:
        """Send pulses, and wait for those of others, from now on."""
        self._silence = dict.fromkeys(self._peers, 0.0)
        self._last_look = time.monotonic()
        self.set_timeout(TIMEOUT)

    def set_timeout(self, seconds: float) -> None:
        """Regard ranks as lost after so many ``seconds`` of silence."""
        self._timeout = seconds
        if self._peers:
            before = signal.signal(signal.SIGALRM, self._on_timer)
            if not self._beats:
                self._beats, self._previous = True, before
            signal.siginterrupt(signal.SIGALRM, False)  # system calls go on
            between = min(PULSE, seconds / 5)
            signal.setitimer(signal.ITIMER_REAL, between, between)

    def end(self) -> None:
        """Send no more pulses, and leave the timer to who had it before."""
        if self._beats:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._receive()
            signal.signal(signal.SIGALRM, signal.SIG_DFL if self._previous is None else self._previous)
            self._beats = False

    def look(self, *, waiting: bool = False) -> None:
        """Look for pulses, and pass on a request to stop. Call it between sentences, or all the time while waiting.

        Raises, if ``waiting``: MachineError when a rank has been silent too long, StopRequested when a stop was
        requested, by a signal to this rank or another, and the others do not answer.
        """
        now = time.monotonic()
        if now - self._last_look < LOOK or not self._peers:
            return
        # A process that was suspended, or busy, has not listened meanwhile.
        for peer in self._silence:
            self._silence[peer] += min(now - self._last_look, 2 * LOOK)
        self._last_look = now
        self._receive()
        stop = stop_flag()
        if stop and not self._told_to_stop:
            self._told_to_stop = True
            self._send()
        if not waiting:
            return
        silent = [peer for peer, seconds in self._silence.items() if seconds > self._timeout]
        if silent:
            raise MachineError(
                f"heard nothing from {self._names(silent)} for {clock(self._timeout)} (parallel.timeout): "
                "what is finished is kept; start the command again, on hosts that can be reached"
            )
        if stop and now - stop.since > ANSWER:
            late = [peer for peer, seconds in self._silence.items() if seconds > ANSWER / 2] or self._peers
            error = stop.stop_error(f"the wait for {self._names(late)}")
            error.on_all_ranks = False
            raise error

    def _names(self, ranks: Sequence[int]) -> str:
        hosts = sorted({self._hosts[rank] for rank in ranks})
        return f"{'host' if len(hosts) == 1 else 'hosts'} {', '.join(hosts)}"

    def _on_timer(self, _: int, __: FrameType | None) -> None:
        self._receive()
        self._send()

    def _send(self) -> None:
        """Send a pulse to each peer that has taken the one before."""
        for peer in self._peers:
            if peer in self._sent and not self._sent[peer][0].Test():
                continue
            pulse = np.array([bool(stop_flag())], dtype=np.int64)
            self._sent[peer] = self._world.Isend(pulse, peer), pulse

    def _receive(self) -> None:
        status, pulse = self._mpi.Status(), np.zeros(1, dtype=np.int64)
        while self._world.Iprobe(status=status):
            self._world.Recv(pulse, status.Get_source())
            self._silence[status.Get_source()] = 0.0
            if pulse[0]:
                stop_flag().asked_elsewhere()
