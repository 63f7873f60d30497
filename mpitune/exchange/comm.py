"""The processes of a run and what they say to each other: `Comm`, alone or over MPI.

The one door to mpi4py, which is imported only where a launcher started us: alone, nothing needs an MPI.
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
from mpitune.exchange.sparse_rows import SparseVectors, by_part, in_shard_order
from mpitune.exchange.work_queue import OwnTurns, SharedTurns, WorkQueue

if TYPE_CHECKING:
    from mpi4py import MPI

P = ParamSpec("P")
T = TypeVar("T")


class Comm(Protocol):
    """The processes of a run; every method but `abort` is collective: all ranks call it, in the same order."""

    rank: int
    size: int
    root: bool
    """Whether this is the rank that decides and speaks: rank 0."""
    ranks_on_node: int
    """How many of the ranks share this one's machine and its memory, itself among them."""
    waited: float
    """Seconds that this rank has spent inside collectives: waiting for the others and moving data."""
    waits: list[tuple[float, float]]
    """When that was: begin and end (`time.perf_counter`), in turn. Whoever asks may empty it."""

    def barrier(self) -> None:
        """Return when all ranks have come here."""
        ...

    def bcast(self, obj: T) -> T:
        """Rank 0's ``obj`` (small) on every rank."""
        ...

    def gather(self, obj: T) -> list[T] | None:
        """Every rank's ``obj`` (small) in rank order, on rank 0; None elsewhere."""
        ...

    def union(self, names: Iterable[str]) -> list[str]:
        """On every rank: the distinct ``names`` of all ranks, sorted."""
        ...

    def any(self, flag: bool) -> bool:
        """On every rank: whether ``flag`` is true on any."""
        ...

    def sum(self, counts: T) -> T:
        """On every rank: the sum over all ranks of ``counts``, a whole number or an array of them (small)."""
        ...

    def before(self, count: int) -> int:
        """The sum of ``count`` over the ranks below this one."""
        ...

    def turns(self) -> AbstractContextManager[WorkQueue]:
        """Work to be handed out to whichever rank is free, from turn 0; the ``with`` ends when all ranks end theirs."""
        ...

    def allgather(self, vectors: SparseVectors) -> SparseVectors:
        """The vectors of all ranks in shard order: the same on every rank, however the shards lie on the ranks."""
        ...

    def alltoall(self, vectors: SparseVectors) -> SparseVectors:
        """This rank's part of the columns of all ranks' vectors: every shard's row, in shard order.

        Parts are ranges of feature ids of equal width, ascending with the ranks.
        """
        ...

    def concatenate(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """On every rank: each of ``arrays`` (one axis, uint64 or float64), every rank's part of it in rank order."""
        ...

    def bcast_sparse(self, index: np.ndarray | None, *values: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Rank 0's ``index`` (uint64 [n]) and ``values`` (float64 [n] each) on every rank.

        The other ranks pass as many arguments, which are ignored.
        """
        ...

    def on_root(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Rank 0's result (small) of ``function(*args, **kwargs)``, on every rank.

        What the call raises on rank 0, every rank raises. The arguments are evaluated on every rank.
        """
        ...

    def abort(self, code: int) -> NoReturn:
        """End all ranks now with exit code ``code``; any one rank may call it."""
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

    def barrier(self) -> None:
        return

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

    def before(self, count: int) -> int:
        return 0

    @contextmanager
    def turns(self) -> Iterator[WorkQueue]:
        yield OwnTurns()

    def allgather(self, vectors: SparseVectors) -> SparseVectors:
        return in_shard_order(vectors)

    def alltoall(self, vectors: SparseVectors) -> SparseVectors:
        return in_shard_order(vectors)

    def concatenate(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return arrays

    def bcast_sparse(self, index: np.ndarray | None, *values: np.ndarray | None) -> tuple[np.ndarray, ...]:
        return np.asarray(index, dtype=np.uint64), *(np.asarray(value, dtype=np.float64) for value in values)

    def on_root(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    def abort(self, code: int) -> NoReturn:
        raise SystemExit(code)


ALONE = SerialComm()
"""For what one process does by itself."""


class MpiComm:
    """The world of an MPI launcher.

    Raises UsageError where no MPI library can be loaded.
    """

    def __init__(self) -> None:
        try:
            import mpi4py

            # Only the main thread talks to MPI; asking for more costs locks, and some transports refuse it.
            mpi4py.rc.thread_level = "funneled"
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise UsageError(f"started by an MPI launcher, but mpi4py finds no MPI library: {error}") from None
        self._mpi = MPI
        self._world: MPI.Intracomm = MPI.COMM_WORLD
        self.rank = self._world.Get_rank()
        self.root = self.rank == 0
        self.size = self._world.Get_size()
        machine = self._world.Split_type(MPI.COMM_TYPE_SHARED)
        self.ranks_on_node = machine.Get_size()
        machine.Free()
        self.waited = 0.0
        self.waits: list[tuple[float, float]] = []

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            end = time.perf_counter()
            self.waited += end - start
            self.waits.append((start, end))

    def barrier(self) -> None:
        with self._waiting():
            self._world.Barrier()

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

    def before(self, count: int) -> int:
        with self._waiting():
            # The lowest rank gets None.
            return self._world.exscan(count) or 0

    @contextmanager
    def turns(self) -> Iterator[WorkQueue]:
        with self._waiting():
            turns = SharedTurns(self._mpi, self._world, self.root)
        yield turns
        # Not after an exception: to free them is collective, and the others may never come.
        with self._waiting():
            turns.free()

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
        return in_shard_order(SparseVectors(shard, row_ends(length), index, value, state))

    def alltoall(self, vectors: SparseVectors) -> SparseVectors:
        world = self._world
        order, lengths = by_part(vectors, self.size)
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
        return in_shard_order(SparseVectors(shard, ptr, index, value, state))

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
                # Pickled here, so that a result that cannot travel is an error on every rank as well.
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
    """MPI where ``environment`` shows an MPI launcher or a scheduler step of several tasks, else a run of one process.

    Raises UsageError where the processes that were started together do not form one world: the launcher then belongs
    to another MPI, and each process would do, and overwrite, the whole work.
    """
    tasks = _tasks(environment)
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


def _tasks(environment: Mapping[str, str]) -> int | None:
    """How many processes were started together: 0 where the launcher does not say, None where there is no launcher."""
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        if name in environment:
            return int(environment[name])
    # After the variables of the launchers: under mpirun the step is the launcher's own, of one task a node. A batch
    # script outside of srun has SLURM_PROCID and SLURM_NTASKS too, but is no step.
    step = int(environment.get("SLURM_STEP_NUM_TASKS", 1))
    if step > 1:
        return step
    return 0 if any(name in environment for name in ("PMI_RANK", "PMIX_RANK", "MPI_LOCALNRANKS")) else None


def _portable(error: Exception) -> Exception:
    """``error`` itself where it survives the way to another process, else its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"on rank 0: {type(error).__name__}: {error}")
    return error
