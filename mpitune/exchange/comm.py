"""The processes of a run and what they say to each other: `Comm`, alone or over MPI.

The one door to mpi4py, which is imported only where a launcher started us: alone, nothing needs an MPI.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol, TypeVar

import numpy as np

from mpitune.errors import MpituneError, UsageError

if TYPE_CHECKING:
    from mpi4py import MPI

T = TypeVar("T")

MAX_ELEMENTS = 2**31 - 1
"""How many elements one collective may carry: MPI counts and displacements are C ints."""


class SparseVectors(NamedTuple):
    """The weight vectors of some shards as sparse rows, ascending in their shard numbers."""

    shard: np.ndarray
    """int64 [n]: whose vector each row is."""
    ptr: np.ndarray
    """int64 [n + 1]: row i is ``ptr[i]:ptr[i + 1]`` of the next two."""
    index: np.ndarray  # type: ignore[assignment]  # hides tuple.index, which nobody asks of these
    """uint64: feature ids, none twice in a row."""
    value: np.ndarray
    """float64: their weights; features that are not named have weight 0."""


class Comm(Protocol):
    """The processes of a run; every method but `abort` is collective: all ranks call it, in the same order."""

    rank: int
    size: int
    root: bool
    """Whether this is the rank that decides and speaks: rank 0."""
    waited: float
    """Seconds that this rank has spent inside collectives: waiting for the others and moving data."""

    def barrier(self) -> None:
        """Return when all ranks have come here."""
        ...

    def bcast(self, obj: T) -> T:
        """Rank 0's ``obj`` (small) on every rank."""
        ...

    def gather(self, obj: T) -> list[T] | None:
        """Every rank's ``obj`` (small) in rank order, on rank 0; None elsewhere."""
        ...

    def any(self, flag: bool) -> bool:
        """On every rank: whether ``flag`` is true on any."""
        ...

    def allgather(self, vectors: SparseVectors) -> SparseVectors:
        """The vectors of all ranks in shard order: the same on every rank, however the shards lie on the ranks.

        Raises UsageError on every rank where they are more than one collective carries.
        """
        ...

    def bcast_sparse(self, index: np.ndarray | None, value: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Rank 0's ``index`` (uint64 [n]) and ``value`` (float64 [n]) on every rank; what others pass is ignored.

        Raises UsageError on every rank where they are more than one collective carries.
        """
        ...

    def at_root(self, function: Callable[[], T]) -> T:
        """What ``function`` returns on rank 0 (small), on every rank; what it raises there, every rank raises."""
        ...

    def abort(self, code: int) -> NoReturn:
        """End all ranks now with exit code ``code``; any one rank may call it."""
        ...


class SerialComm:
    """A run of one process."""

    rank = 0
    size = 1
    root = True
    waited = 0.0

    def barrier(self) -> None:
        return

    def bcast(self, obj: T) -> T:
        return obj

    def gather(self, obj: T) -> list[T] | None:
        return [obj]

    def any(self, flag: bool) -> bool:
        return flag

    def allgather(self, vectors: SparseVectors) -> SparseVectors:
        return _in_shard_order(vectors)

    def bcast_sparse(self, index: np.ndarray | None, value: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(index, dtype=np.uint64), np.asarray(value, dtype=np.float64)

    def at_root(self, function: Callable[[], T]) -> T:
        return function()

    def abort(self, code: int) -> NoReturn:
        raise SystemExit(code)


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
        self.waited = 0.0

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.waited += time.perf_counter() - start

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

    def any(self, flag: bool) -> bool:
        with self._waiting():
            return bool(self._world.allreduce(flag, self._mpi.LOR))

    def allgather(self, vectors: SparseVectors) -> SparseVectors:
        with self._waiting():
            sizes = self._world.allgather((len(vectors.shard), len(vectors.index)))
            shards, entries = ([size[k] for size in sizes] for k in (0, 1))
            _check_elements(sum(entries))
            shard = self._concatenate(vectors.shard, np.int64, shards)
            length = self._concatenate(np.diff(vectors.ptr), np.int64, shards)
            index = self._concatenate(vectors.index, np.uint64, entries)
            value = self._concatenate(vectors.value, np.float64, entries)
        return _in_shard_order(SparseVectors(shard, _ends(length), index, value))

    def _concatenate(self, mine: np.ndarray, dtype: type, counts: list[int]) -> np.ndarray:
        """The arrays of all ranks, of ``counts`` elements each, one after the other."""
        everything: np.ndarray = np.empty(sum(counts), dtype=dtype)
        self._world.Allgatherv(np.ascontiguousarray(mine, dtype=dtype), (everything, counts))
        return everything

    def bcast_sparse(self, index: np.ndarray | None, value: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        with self._waiting():
            count = self._world.bcast(len(index) if index is not None else 0)
            _check_elements(count)
            if self.rank == 0:
                sent = np.ascontiguousarray(index, dtype=np.uint64), np.ascontiguousarray(value, dtype=np.float64)
            else:
                sent = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.float64)
            for array in sent:
                self._world.Bcast(array)
        return sent

    def at_root(self, function: Callable[[], T]) -> T:
        raised: Exception | None = None
        message = b""
        if self.rank == 0:
            try:
                # Pickled here, so that a result that cannot travel is an error on every rank as well.
                message = pickle.dumps((function(), None))
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


def _in_shard_order(vectors: SparseVectors) -> SparseVectors:
    order = np.argsort(vectors.shard, kind="stable")
    if np.array_equal(order, np.arange(len(order))):
        return vectors
    rows = [slice(vectors.ptr[i], vectors.ptr[i + 1]) for i in order]
    return SparseVectors(
        vectors.shard[order],
        _ends(np.diff(vectors.ptr)[order]),
        np.concatenate([vectors.index[row] for row in rows]),
        np.concatenate([vectors.value[row] for row in rows]),
    )


def _ends(lengths: np.ndarray) -> np.ndarray:
    """int64 [n + 1]: the row pointer of rows of these lengths."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def _check_elements(count: int) -> None:
    if count > MAX_ELEMENTS:
        raise UsageError(
            f"the weight vectors of an exchange hold {count} values, one collective carries {MAX_ELEMENTS}: "
            "use fewer shards or fewer features"
        )


def _portable(error: Exception) -> Exception:
    """``error`` itself where it survives the way to another process, else its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"on rank 0: {type(error).__name__}: {error}")
    return error
