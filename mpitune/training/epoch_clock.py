"""Time and memory that each rank uses in an epoch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mpitune.exchange.comm import Comm
from mpitune.runtime.memory import peak_memory

SLOTS = 40
"""Number of intervals in the timeline of an epoch."""


class RankUsage(NamedTuple):
    """Use of time and memory by one rank."""

    busy: float
    """Seconds of work."""
    waited: float
    """Seconds of waiting for other ranks."""
    timeline: str
    """Busy time by interval, see `timeline`."""
    peak_memory: int
    """Bytes, since the process began."""


class EpochClock:
    """Measures an epoch on one rank, from construction to `usage`."""

    def __init__(self, comm: Comm) -> None:
        self._comm, self._began, self._waited = comm, time.perf_counter(), comm.waited
        comm.waits.clear()

    def usage(self) -> RankUsage:
        """The time since construction and the peak memory."""
        ended, waited = time.perf_counter(), self._comm.waited - self._waited
        shown = timeline(self._began, ended, self._comm.waits)
        return RankUsage(ended - self._began - waited, waited, shown, peak_memory())


def timeline(began: float, ended: float, waits: Sequence[tuple[float, float]]) -> str:
    """Busy time of a rank from ``began`` to ``ended`` as `SLOTS` digits, one for each interval of equal length.

    ``waits``: begin and end of each wait, ascending. Digit d: busy for d/10 to (d + 1)/10 of the interval.
    """
    edges = np.linspace(began, ended, SLOTS + 1)
    lengths = np.cumsum([end - start for start, end in waits])
    # Cumulative waiting time is piecewise linear: it rises while the rank waits.
    moments = np.array([began, *(moment for wait in waits for moment in wait)])
    waited = np.interp(edges, moments, np.concatenate([[0.0, 0.0], np.repeat(lengths, 2)[:-1]]) if waits else [0.0])
    busy = 1.0 - np.diff(waited) / max((ended - began) / SLOTS, 1e-9)
    return "".join(str(digit) for digit in np.clip(10 * busy, 0, 9).astype(int).tolist())
