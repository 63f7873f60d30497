"""Signals that ask a process to stop while it is still loading the program.

The module imports next to nothing: whatever is loaded before its handlers are set has those of the system, which end
the process with other exit codes and without a word.
"""

import os
import signal
import time
from collections.abc import Mapping
from types import FrameType

AGAIN = "run the same command again"

_LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


def stop_signals() -> list[signal.Signals]:
    """The signals that ask to stop, besides Ctrl-C; SIGHUP, of a closed terminal, unless ignored, as under nohup."""
    hangup = [] if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, signal.SIGUSR1, *hangup]


def end_by_signals() -> None:
    """From now on, end the process at once when a signal asks it to stop, with the exit code of StopRequested."""
    for number in stop_signals():
        signal.signal(number, _end)


def is_first_on_machine(environment: Mapping[str, str]) -> bool:
    """True for one of the processes on each machine: it reports what they all find before MPI is ready."""
    return next((environment[name] for name in _LOCAL_RANKS if name in environment), "0") == "0"


def _end(number: int, _: FrameType | None) -> None:
    try:
        if is_first_on_machine(os.environ):
            # Not through a stream, in whose code the process may be.
            os.write(2, f"mpitune: stopped by {signal.Signals(number).name}: {AGAIN}\n".encode())
        else:
            # The launcher ends all processes once one has ended: the first is to tell of it before.
            time.sleep(1.0)
    finally:
        os._exit(75)
