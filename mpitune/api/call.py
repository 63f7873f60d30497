"""A call of a public function: as a guest in the program that has imported mpitune, or within mpitune's own program."""

from __future__ import annotations

import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mpitune import jit
from mpitune.errors import MpituneError, as_told, printable
from mpitune.exchange.comm import SERIAL_COMM, Comm, connect, on_communicator
from mpitune.ownership import of_command
from mpitune.runtime.log import LOG, logged_to_host
from mpitune.runtime.signals import StopFlag

if TYPE_CHECKING:
    from mpi4py import MPI

_is_within = False
"""True in mpitune's own program, and within another call: whoever has begun looks after what follows."""


@contextmanager
def within() -> Iterator[None]:
    """The block is mpitune's own program, or a call: calls in it do only what they are for."""
    global _is_within
    before, _is_within = _is_within, True
    try:
        yield
    finally:
        _is_within = before


@contextmanager
def collective(given: MPI.Intracomm | None, *, verbose: bool = False) -> Iterator[Comm]:
    """The processes of a call that all of them make.

    ``given``: a communicator of mpi4py; None: all processes that an MPI launcher has started, or this one alone.
    ``verbose``: the log and the progress go to standard error. An error that not all ranks meet ends all of them, since
    the others would wait for ever.
    """
    comm = connect() if given is None else on_communicator(given)
    try:
        with _guest(comm, verbose):
            yield comm
    except BaseException as error:
        if comm.size > 1 and not getattr(error, "on_all_ranks", False):
            is_told = isinstance(error, MpituneError)
            print(f"mpitune: {error}" if is_told else traceback.format_exc(), file=sys.stderr, flush=True)
            comm.abort(error.exit_code if isinstance(error, MpituneError) else 1)
        raise
    finally:
        comm.close()


@contextmanager
def alone(*, verbose: bool = False) -> Iterator[Comm]:
    """A call that this process makes alone, whatever other ranks do. ``verbose``: as for `collective`."""
    if _is_within:
        yield SERIAL_COMM
        return
    with _guest(SERIAL_COMM, verbose):
        yield SERIAL_COMM


@contextmanager
def _guest(comm: Comm, verbose: bool) -> Iterator[None]:
    """Leave signals to the program (but for a timer, while several ranks work together), the log to its handlers, and
    forget what was noted of files at the end.
    """
    catches, StopFlag.catches = StopFlag.catches, False
    message = f"compiling kernels, once on {printable(socket.gethostname())}: half a minute"
    logged = logged_to_host(rank=comm.rank, size=comm.size, verbose=verbose)
    try:
        with within(), logged, of_command(), jit.compilation_reported(LOG.info, message):
            yield
    except Exception as error:
        told = as_told(error)
        if told is error:
            raise
        raise told from error
    finally:
        StopFlag.catches = catches
