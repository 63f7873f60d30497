"""Communication between the processes of a run: `Comm`, serial or over MPI.

The only module that imports mpi4py, and only under an MPI launcher: a run of one process needs no MPI library.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, NoReturn, ParamSpec, Protocol, TypeVar

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.errors import MpituneError, UsageError
from mpitune.exchange import chunked
from mpitune.exchange.launcher import started_tasks
from mpitune.exchange.sparse_rows import SparseVectors, partition_columns, sort_by_shard
from mpitune.exchange.work_queue import SerialWorkQueue, SharedWorkQueue, WorkQueue

if TYPE_CHECKING:
    from mpi4py import MPI

P = ParamSpec("P")
T = TypeVar("T")


class Comm(Protocol):
    """The ranks of a run. Every method but `abort` is collective: all ranks call it, in the same order."""

    rank: int
    size: int
    root: bool
    """True on rank 0, which takes decisions and logs."""
    ranks_on_node: int
    """Number of ranks on this machine, this one included; they share its memory."""
    waited: float
    """Seconds that this rank has spent inside collectives, waiting for others and moving data."""
    waits: list[tuple[float, float]]
    """Begin and end of each of these waits (`time.perf_counter`), in order. The caller may clear it."""

    def bcast(self, obj: T) -> T:
        """Return rank 0's ``obj`` on every rank; pickled, it must have less than 2 GB."""
        ...

    def gather(self, obj: T) -> list[T] | None:
        """Return every rank's ``obj``, in rank order, on rank 0; None elsewhere. Pickled, all have less than 2 GB."""
        ...

    def union(self, names: Iterable[str]) -> list[str]:
        """Return, on every rank, the distinct ``names`` of all ranks, sorted."""
        ...

    def any(self, flag: bool) -> bool:
        """Return, on every rank, true if ``flag`` is true on any."""
        ...

    def sum(self, counts: T) -> T:
        """Return, on every rank, the sum over all ranks of ``counts``, an integer or a small array of integers."""
        ...

    def exclusive_sum(self, count: int) -> int:
        """Return the sum of ``count`` over the ranks below this one (MPI's exclusive scan)."""
        ...

    def work_queue(self) -> AbstractContextManager[WorkQueue]:
        """A new queue of work items, from item 0 on; the ``with`` block ends on all ranks together."""
        ...

    def allgather(self, vectors: SparseVectors) -> SparseVectors:
        """Return the vectors of all ranks in shard order: the same on every rank, for any assignment of shards."""
        ...

    def alltoall(self, vectors: SparseVectors) -> SparseVectors:
        """Return this rank's partition of the columns of all ranks' vectors: every shard's row, in shard order.

        Partitions are ranges of feature ids of equal width, ascending with the ranks.
        """
        ...

    def concatenate(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return, on every rank, each of ``arrays`` (1-d, uint64 or float64) concatenated over the ranks."""
        ...

    def bcast_sparse(self, index: np.ndarray | None, *values: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Return rank 0's ``index`` (uint64 [n]) and ``values`` (float64 [n] each) on every rank.

        The other ranks pass the same number of arguments, which are ignored.
        """
        ...

    def on_root(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function(*args, **kwargs)`` on rank 0 and return its result (small) on every rank.

        An exception of the call is raised on every rank. The arguments are evaluated on every rank.
        """
        ...

    def abort(self, code: int) -> NoReturn:
        """End all ranks at once with exit code ``code``; any single rank may call it."""
        ...


class SerialComm:
    """A run of one process."""

    rank = 0
    size = 1
    root = True
    ranks_on_node = 1
    waited = 0.0

    def __init__(self) -> None:
        self.waits: list[tuple[float, float]] = []

    def bcast(self, obj: T) -> T:
        return obj

    def gather(self, obj: T) -> list[T] | None:
        return [obj]

    def union(self, names: Iterable[str]) -> list[str]:
        return sorted(set(names))

    def any(self, flag: bool) -> bool:
        return flag

    def sum(self, counts: T) -> T:
        return counts

    def exclusive_sum(self, count: int) -> int:
        return 0

    @contextmanager
    def work_queue(self) -> Iterator[WorkQueue]:
        yield SerialWorkQueue()

    def allgather(self, vectors: SparseVectors) -> SparseVectors:
        return sort_by_shard(vectors)

    def alltoall(self, vectors: SparseVectors) -> SparseVectors:
        return sort_by_shard(vectors)

    def concatenate(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return arrays

    def bcast_sparse(self, index: np.ndarray | None, *values: np.ndarray | None) -> tuple[np.ndarray, ...]:
        return np.asarray(index, dtype=np.uint64), *(np.asarray(value, dtype=np.float64) for value in values)

    def on_root(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    def abort(self, code: int) -> NoReturn:
        raise SystemExit(code)


SERIAL_COMM = SerialComm()
"""The communicator of work that one process does alone."""


LOOKS = 1000
"""Looks for others that a rank takes at full load, in about a millisecond; ..."""
PAUSE = 1e-3
"""... seconds between later ones: short, as on some networks others' one-sided operations wait for these."""


class MpiComm:
    """The ranks that an MPI launcher started (MPI_COMM_WORLD).

    Raises UsageError if no MPI library can be loaded.
    """

    def __init__(self) -> None:
        try:
            import mpi4py

            # Only the main thread calls MPI. Higher thread levels cost locks, and some transports refuse them.
            mpi4py.rc.thread_level = "funneled"
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            advice = "install one (pip install 'mpitune[mpi]', or conda install mpich), or load the cluster's module"
            tried = str(error).strip().splitlines()[-1]
            raise UsageError(
                f"started by an MPI launcher, but mpi4py finds no MPI library: {advice} ({tried})"
            ) from None
        self._mpi = MPI
        self._world: MPI.Intracomm = MPI.COMM_WORLD
        self.rank = self._world.Get_rank()
        self.root = self.rank == 0
        self.size = self._world.Get_size()
        node = self._world.Split_type(MPI.COMM_TYPE_SHARED)
        self.ranks_on_node = node.Get_size()
        node.Free()
        self.waited = 0.0
        self.waits: list[tuple[float, float]] = []

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Begin a collective operation once all ranks have come to it, and count the time until its end as waiting."""
        start = time.perf_counter()
        try:
            arrived, looks = self._world.Ibarrier(), 0
            while not arrived.Test():
                looks += 1
                # MPI itself waits at full load: a core that other work, or the rank that is waited for, may need.
                if looks > LOOKS:
                    time.sleep(PAUSE)
            yield
        finally:
            end = time.perf_counter()
            self.waited += end - start
            self.waits.append((start, end))

    def bcast(self, obj: T) -> T:
        with self._waiting():
            received: T = self._world.bcast(obj)
        return received

    def gather(self, obj: T) -> list[T] | None:
        with self._waiting():
            return self._world.gather(obj)

    def union(self, names: Iterable[str]) -> list[str]:
        gathered = self.gather(set(names))
        return self.bcast(sorted(set().union(*gathered or [])))

    def any(self, flag: bool) -> bool:
        with self._waiting():
            return bool(self._world.allreduce(flag, self._mpi.LOR))

    def sum(self, counts: T) -> T:
        with self._waiting():
            total: T = self._world.allreduce(counts)
        return total

    def exclusive_sum(self, count: int) -> int:
        with self._waiting():
            # Rank 0 gets None.
            return self._world.exscan(count) or 0

    @contextmanager
    def work_queue(self) -> Iterator[WorkQueue]:
        with self._waiting():
            queue = SharedWorkQueue(self._mpi, self._world, self.root)
        yield queue
        # Not after an exception: freeing is collective, and the other ranks may never reach this call.
        with self._waiting():
            queue.free()

    def allgather(self, vectors: SparseVectors) -> SparseVectors:
        world = self._world
        with self._waiting():
            sizes = world.allgather((len(vectors.shard), len(vectors.index)))
            shards, entries = ([size[k] for size in sizes] for k in (0, 1))
            shard = chunked.allgather(world, vectors.shard, shards)
            length = chunked.allgather(world, np.diff(vectors.ptr), shards)
            index = chunked.allgather(world, vectors.index, entries)
            value = chunked.allgather(world, vectors.value, entries)
            state = tuple(chunked.allgather(world, kept, entries) for kept in vectors.state)
        return sort_by_shard(SparseVectors(shard, row_ends(length), index, value, state))

    def alltoall(self, vectors: SparseVectors) -> SparseVectors:
        world = self._world
        order, lengths = partition_columns(vectors, self.size)
        sent = lengths.sum(axis=1).tolist()
        with self._waiting():
            shards = world.allgather(len(vectors.shard))
            shard = chunked.allgather(world, vectors.shard, shards)
            length = chunked.alltoall(world, lengths.ravel(), [len(vectors.shard)] * self.size, shards)
            ptr = row_ends(length)
            received = np.diff(ptr[np.cumsum([0, *shards])]).tolist()
            index = chunked.alltoall(world, vectors.index[order], sent, received)
            value = chunked.alltoall(world, vectors.value[order], sent, received)
            state = tuple(chunked.alltoall(world, kept[order], sent, received) for kept in vectors.state)
        return sort_by_shard(SparseVectors(shard, ptr, index, value, state))

    def concatenate(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        with self._waiting():
            lengths = self._world.allgather([len(array) for array in arrays])
            counts = [list(of_array) for of_array in zip(*lengths, strict=True)]
            return tuple(chunked.allgather(self._world, *each) for each in zip(arrays, counts, strict=True))

    def bcast_sparse(self, index: np.ndarray | None, *values: np.ndarray | None) -> tuple[np.ndarray, ...]:
        with self._waiting():
            count = self._world.bcast(len(index) if index is not None else 0)
            kinds = [np.uint64, *[np.float64] * len(values)]
            if self.rank == 0:
                given = zip((index, *values), kinds, strict=True)
                sent = tuple(np.ascontiguousarray(array, dtype=kind) for array, kind in given)
            else:
                sent = tuple(np.empty(count, dtype=kind) for kind in kinds)
            for array in sent:
                chunked.bcast(self._world, array)
        return sent

    def on_root(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        raised: Exception | None = None
        message = b""
        if self.rank == 0:
            try:
                # Pickled inside the try block, so that a result that cannot be pickled is an error on every rank too.
                message = pickle.dumps((function(*args, **kwargs), None))
            except Exception as error:
                raised = error
                message = pickle.dumps((None, _portable(error)))
        result, failure = pickle.loads(self.bcast(message))
        failure = raised or failure
        if isinstance(failure, MpituneError):
            failure.on_all_ranks = True
        if failure is not None:
            raise failure
        return result  # type: ignore[no-any-return]

    def abort(self, code: int) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        self._world.Abort(code)
        raise SystemExit(code)


def connect(environment: Mapping[str, str] = os.environ) -> Comm:
    """`MpiComm` if ``environment`` shows an MPI launcher or a scheduler step of several tasks, else `SerialComm`.

    Raises UsageError if the processes that were started together do not form one MPI world: the launcher then belongs
    to another MPI library, and each process would do the whole work and overwrite the files of the others.
    """
    tasks = started_tasks(environment)
    if tasks is None:
        return SerialComm()
    comm = MpiComm()
    if tasks not in (0, comm.size):
        raise UsageError(
            f"{tasks} processes were started, but MPI sees a world of {comm.size}: use `mpirun -n {tasks} mpitune ...` "
            "with the mpirun of the MPI that mpi4py uses; under SLURM also `srun --mpi=pmi2 --wait=60 mpitune ...` "
            "(MPICH), `srun --mpi=pmix mpitune ...` (an Open MPI built for it)"
        )
    return comm


def _portable(error: Exception) -> Exception:
    """``error`` itself if it can be pickled and unpickled, else a RuntimeError with its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"on rank 0: {type(error).__name__}: {error}")
    return error
