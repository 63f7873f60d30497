"""Communication between the processes of a run: `Comm`, serial or over MPI.

The only module that imports mpi4py, and only under an MPI launcher: a run of one process needs no MPI library.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Protocol, TypeVar

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.errors import MpituneError, UsageError, fault
from mpitune.exchange import chunked, links
from mpitune.exchange.launcher import started_tasks
from mpitune.exchange.links import Link
from mpitune.exchange.liveness import Liveness
from mpitune.exchange.sparse_rows import SparseVectors, partition_columns, sort_by_shard
from mpitune.exchange.work_queue import MessageQueue, SerialWorkQueue, WorkQueue

if TYPE_CHECKING:
    from mpi4py import MPI

P = ParamSpec("P")
T = TypeVar("T")


class Comm(Protocol):
    """The ranks of a run. Every method but `abort`, `close` and `set_timeout` is collective:
    all ranks call it, in the same order.
    """

    rank: int
    size: int
    root: bool
    """True on rank 0, which takes decisions and logs."""
    ranks_on_node: int
    """Number of ranks on this machine, this one included; they share its memory."""
    first_on_node: bool
    """True on one rank of each machine."""
    hosts: list[str]
    """The name of each rank's machine."""
    waited: float
    """Seconds that this rank has spent inside collectives, waiting for others and moving data."""
    waits: list[tuple[float, float]]
    """Begin and end of each of these waits (`time.perf_counter`), in order. The caller may clear it."""

    def set_timeout(self, seconds: float) -> None:
        """Regard ranks as lost after so many ``seconds`` of silence, instead of `liveness.TIMEOUT`. Not collective."""
        ...

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

    def work_queue(self, sizes: Sequence[int]) -> AbstractContextManager[WorkQueue]:
        """A queue of as many items of work as ``sizes``: the units of work, such as sentences, of each.

        The ``with`` block ends on rank 0 when it has ended on all others.
        """
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

    def links(self) -> dict[int, Link]:
        """Measure, on rank 0, the network to one rank of each other machine, by rank; empty on other ranks."""
        ...

    def abort(self, code: int) -> NoReturn:
        """End all ranks at once with exit code ``code``; any single rank may call it."""
        ...

    def close(self) -> None:
        """End the communication, after the last collective."""
        ...


class SerialComm:
    """A run of one process."""

    rank = 0
    size = 1
    root = True
    ranks_on_node = 1
    first_on_node = True
    waited = 0.0

    def __init__(self) -> None:
        self.waits: list[tuple[float, float]] = []
        self.hosts = [socket.gethostname()]

    def set_timeout(self, seconds: float) -> None:
        pass

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
    def work_queue(self, sizes: Sequence[int]) -> Iterator[WorkQueue]:
        yield SerialWorkQueue(sizes)

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

    def links(self) -> dict[int, Link]:
        return {}

    def abort(self, code: int) -> NoReturn:
        raise SystemExit(code)

    def close(self) -> None:
        pass


SERIAL_COMM = SerialComm()
"""The communicator of work that one process does alone."""


LOOKS = 1000
"""Looks for others that a rank takes at full load, in about a millisecond; ..."""
PAUSE = 1e-3
"""... seconds between later ones."""
ABORT = 5
"""Seconds that the launcher has to end a rank which aborts."""


class MpiComm:
    """The ranks of a communicator of mpi4py, by default all that an MPI launcher started (MPI_COMM_WORLD).

    Raises UsageError if no MPI library can be loaded. A collective raises MachineError if ranks that it waits for are
    lost, StopRequested if they do not answer after a stop was requested (`Liveness.look`).
    """

    def __init__(self, world: MPI.Intracomm | None = None) -> None:
        self._mpi = mpi = _loaded_mpi()
        self._given = mpi.COMM_WORLD if world is None else world
        # A copy: messages of a program that imports mpitune are its own.
        self._world: MPI.Intracomm = self._given.Dup()
        self.rank = self._world.Get_rank()
        self.root = self.rank == 0
        self.size = self._world.Get_size()
        node = self._world.Split_type(mpi.COMM_TYPE_SHARED)
        self.ranks_on_node = node.Get_size()
        self.first_on_node = node.Get_rank() == 0
        node.Free()
        self.waited = 0.0
        self.waits: list[tuple[float, float]] = []
        self.hosts: list[str] = self._world.allgather(socket.gethostname())
        self._liveness = Liveness(mpi, self._world.Dup(), self.hosts)
        self._of_queues, self._queues, self._answer_seconds = self._world.Dup(), 0, 0.0
        atexit.register(self.close)

    def open(self) -> None:
        """Begin the communication again after `close`."""
        self._liveness.begin()

    def set_timeout(self, seconds: float) -> None:
        self._liveness.set_timeout(seconds)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Begin a collective operation once all ranks have come to it, and count the time until its end as waiting."""
        with self._counted():
            self._wait_for(self._world.Ibarrier().Test)
            yield

    @contextmanager
    def _counted(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            end = time.perf_counter()
            self.waited += end - start
            self.waits.append((start, end))

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition`` holds, which other ranks have to bring about."""
        looks = 0
        while not condition():
            looks += 1
            # MPI itself waits at full load: a core that other work, or the rank that is waited for, may need.
            os.sched_yield()
            if looks > LOOKS:
                time.sleep(PAUSE)
                self._liveness.look(waiting=True)

    def _complete(self, request: MPI.Request) -> None:
        """Wait until ``request`` is complete, for which all ranks are there."""
        while not request.Test():
            os.sched_yield()
            self._liveness.look(waiting=True)

    def _bcast(self, obj: T) -> T:
        message = np.frombuffer(pickle.dumps(obj), dtype=np.uint8) if self.root else np.zeros(0, dtype=np.uint8)
        length = np.array([len(message)])
        self._complete(self._world.Ibcast(length))
        if not self.root:
            message = np.empty(length[0], dtype=np.uint8)
        chunked.bcast(self._world, self._complete, message)
        received: T = obj if self.root else pickle.loads(message.data)
        return received

    def _allgather(self, *numbers: int) -> list[list[int]]:
        """The ``numbers`` of each rank, as many on each."""
        mine = np.array(numbers, dtype=np.int64)
        gathered = chunked.allgather(self._world, self._complete, mine, [len(mine)] * self.size)
        return gathered.reshape(self.size, len(mine)).tolist()

    def bcast(self, obj: T) -> T:
        with self._waiting():
            return self._bcast(obj)

    def gather(self, obj: T) -> list[T] | None:
        mine = np.frombuffer(pickle.dumps(obj), dtype=np.uint8)
        with self._waiting():
            lengths = [length for [length] in self._allgather(len(mine))]
            gathered = np.empty(sum(lengths) if self.root else 0, dtype=np.uint8)
            self._complete(self._world.Igatherv(mine, (gathered, lengths) if self.root else None))
        if not self.root:
            return None
        return [pickle.loads(part.data) for part in np.split(gathered, np.cumsum(lengths)[:-1])]

    def union(self, names: Iterable[str]) -> list[str]:
        gathered = self.gather(set(names))
        return self.bcast(sorted(set().union(*gathered or [])))

    def any(self, flag: bool) -> bool:
        return self.sum(int(flag)) > 0

    def sum(self, counts: T) -> T:
        mine = np.asarray(counts)
        total = np.empty_like(mine)
        with self._waiting():
            self._complete(self._world.Iallreduce(mine, total, self._mpi.SUM))
        return total if isinstance(counts, np.ndarray) else total.item()  # type: ignore[return-value]

    def exclusive_sum(self, count: int) -> int:
        with self._waiting():
            return sum(each for [each] in self._allgather(count)[: self.rank])

    @contextmanager
    def work_queue(self, sizes: Sequence[int]) -> Iterator[WorkQueue]:
        self._queues += 1
        look, answer = self._liveness.look, self._answer_seconds
        queue = MessageQueue(self._mpi, self._of_queues, self._queues, sizes, self._until, look, answer)
        yield queue
        # Not after an exception: the other ranks may never reach this call.
        queue.leave()
        self._answer_seconds = queue.answer_seconds

    def _until(self, condition: Callable[[], bool]) -> None:
        """`_wait_for`, counted as waiting."""
        with self._counted():
            self._wait_for(condition)

    def allgather(self, vectors: SparseVectors) -> SparseVectors:
        world, complete = self._world, self._complete
        with self._waiting():
            shards, entries = map(list, zip(*self._allgather(len(vectors.shard), len(vectors.index)), strict=True))
            shard = chunked.allgather(world, complete, vectors.shard, shards)
            length = chunked.allgather(world, complete, np.diff(vectors.ptr), shards)
            index = chunked.allgather(world, complete, vectors.index, entries)
            value = chunked.allgather(world, complete, vectors.value, entries)
            state = tuple(chunked.allgather(world, complete, kept, entries) for kept in vectors.state)
        return sort_by_shard(SparseVectors(shard, row_ends(length), index, value, state))

    def alltoall(self, vectors: SparseVectors) -> SparseVectors:
        world, complete = self._world, self._complete
        order, lengths = partition_columns(vectors, self.size)
        sent = lengths.sum(axis=1).tolist()
        with self._waiting():
            shards = [count for [count] in self._allgather(len(vectors.shard))]
            shard = chunked.allgather(world, complete, vectors.shard, shards)
            length = chunked.alltoall(world, complete, lengths.ravel(), [len(vectors.shard)] * self.size, shards)
            ptr = row_ends(length)
            received = np.diff(ptr[np.cumsum([0, *shards])]).tolist()
            index = chunked.alltoall(world, complete, vectors.index[order], sent, received)
            value = chunked.alltoall(world, complete, vectors.value[order], sent, received)
            state = tuple(chunked.alltoall(world, complete, kept[order], sent, received) for kept in vectors.state)
        return sort_by_shard(SparseVectors(shard, ptr, index, value, state))

    def concatenate(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        with self._waiting():
            counts = map(list, zip(*self._allgather(*map(len, arrays)), strict=True))
            of_arrays = zip(arrays, counts, strict=True)
            return tuple(chunked.allgather(self._world, self._complete, *each) for each in of_arrays)

    def bcast_sparse(self, index: np.ndarray | None, *values: np.ndarray | None) -> tuple[np.ndarray, ...]:
        with self._waiting():
            count = self._bcast(len(index) if index is not None else 0)
            kinds = [np.uint64, *[np.float64] * len(values)]
            if self.rank == 0:
                given = zip((index, *values), kinds, strict=True)
                sent = tuple(np.ascontiguousarray(array, dtype=kind) for array, kind in given)
            else:
                sent = tuple(np.empty(count, dtype=kind) for kind in kinds)
            for array in sent:
                chunked.bcast(self._world, self._complete, array)
        return sent

    def on_root(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        raised: Exception | None = None
        message = b""
        if self.rank == 0:
            try:
                # Pickled inside the try block, so that a result that cannot be pickled is an error on every rank too.
                message = pickle.dumps((function(*args, **kwargs), None))
            except Exception as caught:
                raised = error = fault(caught) or caught
                message = pickle.dumps((None, _portable(error)))
        result, failure = pickle.loads(self.bcast(message))
        failure = raised or failure
        if isinstance(failure, MpituneError):
            failure.on_all_ranks = True
        if failure is not None:
            raise failure
        return result  # type: ignore[no-any-return]

    def links(self) -> dict[int, Link]:
        with self._waiting():
            firsts = [rank for rank, [first] in enumerate(self._allgather(int(self.first_on_node))) if first and rank]
            return links.measure(self._of_queues, self._complete, firsts)

    def abort(self, code: int) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        # MPI asks the launcher to end all ranks, which may be out of reach: then this rank ends alone.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(ABORT)
        self._given.Abort(code)
        # It may return before the launcher has acted. Finalising MPI would wait for the other ranks.
        os._exit(code)

    def close(self) -> None:
        self._liveness.end()


def _loaded_mpi() -> Any:
    """The module mpi4py.MPI. Raises UsageError if no MPI library can be loaded."""
    try:
        import mpi4py

        # Only the main thread calls MPI. Higher thread levels cost locks, and some transports refuse them.
        mpi4py.rc.thread_level = "funneled"
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        advice = "install one (pip install 'mpitune[mpi]', or conda install mpich), or load the cluster's module"
        tried = str(error).strip().splitlines()[-1]
        raise UsageError(f"started by an MPI launcher, but mpi4py finds no MPI library: {advice} ({tried})") from None
    return MPI


_keys: list[int] = []
"""The key under which a communicator keeps its `MpiComm`, once there is one."""


def on_communicator(given: MPI.Intracomm) -> MpiComm:
    """The `MpiComm` of a communicator of mpi4py, the same at each call: MPI has a few thousand communicators in all."""
    if not _keys:
        _keys.append(given.Create_keyval())
    found = given.Get_attr(_keys[0])
    if isinstance(found, MpiComm):
        found.open()
        return found
    made = MpiComm(given)
    given.Set_attr(_keys[0], made)
    return made


def of_world() -> Comm:
    """The `MpiComm` of all processes that the launcher has started. Raises UsageError as that does."""
    return on_communicator(_loaded_mpi().COMM_WORLD)


def connect(environment: Mapping[str, str] = os.environ) -> Comm:
    """`MpiComm` if ``environment`` shows an MPI launcher or a scheduler step of several tasks, else `SerialComm`.

    Raises UsageError if the processes that were started together do not form one MPI world: the launcher then belongs
    to another MPI library, and each process would do the whole work and overwrite the files of the others.
    """
    tasks = started_tasks(environment)
    if tasks is None:
        return SerialComm()
    comm = of_world()
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
