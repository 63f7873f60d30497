"""Comm: the same checks alone and, this file run as a program, on every rank under mpirun."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.mpi import ROOT, mpirun

from mpitune.array_files.csr import row_ends
from mpitune.errors import DataError, UsageError
from mpitune.exchange import chunked
from mpitune.exchange import comm as comm_module
from mpitune.exchange.comm import Comm, SerialComm, connect
from mpitune.exchange.sparse_rows import SparseVectors, partition_columns

SHARDS = 7


def row(shard: int) -> tuple[np.ndarray, np.ndarray]:
    """What shard number ``shard`` has learned; shard 2 nothing, ids up to the last bit."""
    n = 0 if shard == 2 else 3 + shard
    generator = np.random.default_rng(shard)
    return generator.integers(0, 2**64, n, dtype=np.uint64), generator.normal(size=n)


def stacked(shards: list[int]) -> SparseVectors:
    rows = [row(shard) for shard in shards]
    return SparseVectors(
        np.array(shards, dtype=np.int64),
        np.cumsum([0] + [len(index) for index, _ in rows], dtype=np.int64),
        np.concatenate([np.zeros(0, dtype=np.uint64)] + [index for index, _ in rows]),
        np.concatenate([np.zeros(0)] + [value for _, value in rows]),
        tuple(np.concatenate([np.zeros(0)] + [n / value for _, value in rows]) for n in (1, 2)),
    )


def check_equal(got: SparseVectors, expected: SparseVectors) -> None:
    """In all bits, the states too."""
    assert len(got.state) == len(expected.state) == 2
    for name, array in zip(["shard", "ptr", "index", "value"], expected[:4], strict=True):
        assert getattr(got, name).dtype == array.dtype
        assert getattr(got, name).tobytes() == array.tobytes(), name
    for mine, array in zip(got.state, expected.state, strict=True):
        assert (mine.dtype, mine.tobytes()) == (array.dtype, array.tobytes()), "state"


class Unportable(Exception):
    """Pickles, but cannot be built again from what was pickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def check_small_messages(comm: Comm) -> None:
    assert comm.bcast({"from": comm.rank}) == {"from": 0}
    everyone = comm.gather(comm.rank * 10)
    assert everyone == ([rank * 10 for rank in range(comm.size)] if comm.rank == 0 else None)
    assert comm.any(comm.rank == comm.size - 1)
    assert not comm.any(False)


def check_work_queue(comm: Comm) -> None:
    for items in (0, 1, 40):
        mine, done, score = [], 0, 0.0
        with comm.work_queue([2] * items) as queue:
            for turn in queue:
                mine.append(turn)
                # However long one rank holds on to an item, the others get theirs.
                time.sleep(0.2 if turn == comm.size - 1 else 0.001)
                done, score = queue.done(2, turn / 3)
        parts = comm.gather(mine)
        if parts is not None:
            assert sorted(turn for part in parts for turn in part) == list(range(items))
            assert len(parts) == 1 or items < 40 or all(part for part in parts)
            # What others finished last, rank 0 hears when it leaves the queue.
            assert len(parts) > 1 or (done, score) == (2 * items, pytest.approx(sum(range(items)) / 3))


def check_broken_off(comm: Comm) -> None:
    """A rank that is to stop leaves its items undone; when rank 0 stops, nothing more is given out."""
    for stopping in (0, comm.size - 1):
        mine = []
        with comm.work_queue([1] * 40) as queue:
            for turn in queue:
                if comm.rank == stopping and mine:
                    break
                mine.append(turn)
                time.sleep(0.001)
                queue.done()
        parts = comm.gather(mine)
        if parts is not None:
            finished = [turn for part in parts for turn in part]
            assert len(finished) == len(set(finished)) < 40
            assert len(parts[stopping]) == 1


def dealings(comm: Comm) -> list[list[int]]:
    """Which shards this rank has: dealt out, the other way round, all on the last rank."""
    dealt = [shard for shard in range(SHARDS) if shard % comm.size == comm.rank]
    return [dealt, dealt[::-1], list(range(SHARDS)) if comm.rank == comm.size - 1 else []]


def check_allgather(comm: Comm) -> None:
    """However the shards lie on the ranks, every rank holds the same, in shard order."""
    expected = stacked(list(range(SHARDS)))
    for mine in dealings(comm):
        check_equal(comm.allgather(stacked(mine)), expected)


def part_of(vectors: SparseVectors, part: int, parts: int) -> SparseVectors:
    """The columns of one of ``parts`` ranges of ids, picked one by one."""
    rows = [range(begin, end) for begin, end in zip(vectors.ptr[:-1], vectors.ptr[1:], strict=True)]
    kept = [[i for i in row if (int(vectors.index[i]) >> 32) * parts >> 32 == part] for row in rows]
    picked = np.array([i for row in kept for i in row], dtype=np.int64)
    ptr = row_ends([len(row) for row in kept])
    state = tuple(kept[picked] for kept in vectors.state)
    return SparseVectors(vectors.shard, ptr, vectors.index[picked], vectors.value[picked], state)


def check_alltoall(comm: Comm) -> None:
    """However the shards lie on the ranks, each rank holds all shards' rows of its range of ids."""
    expected = part_of(stacked(list(range(SHARDS))), comm.rank, comm.size)
    for mine in dealings(comm):
        check_equal(comm.alltoall(stacked(mine)), expected)


def check_concatenate(comm: Comm) -> None:
    index, value = comm.concatenate(*row(comm.rank + 1))
    assert len(comm.hosts) == comm.size
    assert index.tobytes() == b"".join(row(rank + 1)[0].tobytes() for rank in range(comm.size))
    assert value.tobytes() == b"".join(row(rank + 1)[1].tobytes() for rank in range(comm.size))
    assert (index.dtype, value.dtype) == (np.uint64, np.float64)


def check_counts(comm: Comm) -> None:
    assert comm.sum(comm.rank + 2**40) == sum(rank + 2**40 for rank in range(comm.size))
    assert comm.sum(np.array([1, comm.rank])).tolist() == [comm.size, sum(range(comm.size))]
    assert comm.exclusive_sum(comm.rank + 1) == sum(rank + 1 for rank in range(comm.rank))
    assert comm.ranks_on_node == comm.size


def check_chunks(comm: Comm) -> None:
    """Arrays of more elements than one call may move travel in pieces, and come out the same."""
    for chunk in (1, 4, 17):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chunked, "CHUNK", chunk)
            for check in (check_allgather, check_alltoall, check_concatenate, check_bcast_sparse):
                check(comm)


def check_bcast_sparse(comm: Comm) -> None:
    for shard in (2, 5):
        index, value = comm.bcast_sparse(*row(shard)) if comm.rank == 0 else comm.bcast_sparse(None, None)
        assert index.tobytes() == row(shard)[0].tobytes() and index.dtype == np.uint64
        assert value.tobytes() == row(shard)[1].tobytes() and value.dtype == np.float64


def check_at_root(comm: Comm) -> None:
    called = []
    assert comm.on_root(lambda: called.append(comm.rank) or "result") == "result"  # type: ignore[func-returns-value]
    assert called == ([0] if comm.rank == 0 else [])

    def fail() -> None:
        raise DataError.at("g.gz", 7, found="x", expected="y")

    with pytest.raises(DataError, match="^g.gz:7: found x, expected y$"):
        comm.on_root(fail)

    def fail_unportably() -> None:
        raise Unportable("one", "two")

    with pytest.raises((Unportable, RuntimeError), match="onetwo"):
        comm.on_root(fail_unportably)
    assert not comm.any(False), "the ranks are still in step"


class Clock:
    """A clock that moves when told to, and by ``tick`` whenever it is read."""

    def __init__(self, tick: float) -> None:
        self.now, self.tick = 0.0, tick

    def perf_counter(self) -> float:
        self.now += self.tick
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def sleep(self, seconds: float) -> None:
        """Waiting for other ranks, whose time is not this one's."""


def check_waited(comm: Comm) -> None:
    """Every collective counts; what rank 0 does for all is work for it, and not waiting."""
    collectives: list[Callable[[], object]] = [
        lambda: comm.bcast(1),
        lambda: comm.gather(1),
        lambda: comm.any(True),
        lambda: comm.allgather(stacked([comm.rank])),
        lambda: comm.alltoall(stacked([comm.rank])),
        lambda: comm.concatenate(*row(3)),
        lambda: comm.sum(1),
        lambda: comm.exclusive_sum(1),
        lambda: comm.bcast_sparse(*row(3)),
        lambda: comm.on_root(lambda: 1),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comm_module, "time", Clock(tick=1.0))
        for collective in collectives:
            before = comm.waited
            collective()
            assert comm.waited - before == (0.0 if isinstance(comm, SerialComm) else 1.0)
        clock, before = Clock(tick=0.0), comm.waited
        patch.setattr(comm_module, "time", clock)
        comm.on_root(lambda: clock.advance(100.0))
        assert comm.waited == before


CHECKS = [
    check_small_messages,
    check_counts,
    check_work_queue,
    check_broken_off,
    check_allgather,
    check_alltoall,
    check_concatenate,
    check_bcast_sparse,
    check_chunks,
    check_at_root,
    check_waited,
]


@pytest.mark.parametrize("check", CHECKS)
def test_checks_pass_on_the_serial_twin(check: Callable[[Comm], None]) -> None:
    check(SerialComm())


class CountingWorld:
    """An MPI world of one that keeps how many elements each call moves."""

    def __init__(self) -> None:
        self.moved: list[int] = []

    def Get_size(self) -> int:
        return 1

    def Ibcast(self, array: np.ndarray) -> None:
        self.moved.append(len(array))

    def Iallgatherv(self, sent: np.ndarray, received: tuple[np.ndarray, list[int]]) -> None:
        self.moved.append(len(sent))
        received[0][:] = sent


def test_no_call_moves_more_than_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "CHUNK", 4)
    world, array = CountingWorld(), np.arange(10.0)
    completed: list[None] = []
    chunked.bcast(world, completed.append, array)
    assert chunked.allgather(world, completed.append, array, [10]).tolist() == array.tolist()
    assert world.moved == [4, 4, 2] * 2
    assert len(completed) == 6


@pytest.mark.parametrize("parts", [1, 2, 3, 256, 300])
def test_parts_are_ranges_of_ids_of_equal_width(parts: int) -> None:
    vectors = stacked(list(range(SHARDS)))
    ends = np.array([0, 2**64 - 1, 2**63 - 1, 2**63], dtype=np.uint64)
    vectors = vectors._replace(index=np.concatenate([ends, vectors.index[4:]]))
    order, lengths = partition_columns(vectors, parts)
    assert lengths.shape == (parts, SHARDS) and lengths.dtype == np.int64
    begin = 0
    for part in range(parts):
        expected = part_of(vectors, part, parts)
        end = begin + len(expected.index)
        assert lengths[part].tolist() == np.diff(expected.ptr).tolist()
        assert vectors.index[order[begin:end]].tolist() == expected.index.tolist()
        assert vectors.value[order[begin:end]].tolist() == expected.value.tolist()
        begin = end


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [1, 3])
def test_checks_pass_under_mpirun(ranks: int) -> None:
    done = mpirun(ranks, ["-m", "mpi4py", __file__, "checks"])
    assert done.returncode == 0, done.stderr
    # Ranks may get in between each other's text and its end of line.
    assert sorted(re.findall(r"passed-\d/\d", done.stdout)) == [f"passed-{rank}/{ranks}" for rank in range(ranks)]


@pytest.mark.mpi
def test_abort_ends_all_ranks_with_the_code() -> None:
    done = mpirun(3, [__file__, "abort"], timeout=60)
    assert done.returncode == 75, done.stderr
    assert "said before the end" in done.stdout
    assert "survived" not in done.stdout


@pytest.mark.mpi
def test_mpirun_kills_what_hangs(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    with pytest.raises(subprocess.TimeoutExpired):
        mpirun(2, [__file__, "hang", str(alive)], timeout=3)
    for _ in range(40):
        alive.unlink(missing_ok=True)
        time.sleep(0.5)
        if not alive.exists():
            return
    pytest.fail("its ranks still touch the file")


def test_serial_abort_exits_with_the_code() -> None:
    with pytest.raises(SystemExit) as ended:
        SerialComm().abort(4)
    assert ended.value.code == 4


@pytest.mark.parametrize(
    "environment",
    [
        {},
        # A batch script outside of srun.
        {"SLURM_JOB_ID": "3", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"},
        # srun -n 1, no MPI asked for.
        {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
    ],
)
def test_alone_there_is_no_mpi(environment: dict[str, str]) -> None:
    assert isinstance(connect(environment), SerialComm)


def test_alone_mpi4py_is_not_even_imported() -> None:
    program = "import sys; from mpitune.exchange.comm import connect; connect({}); print('mpi4py' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {"PMI_SIZE": "3", "PMI_RANK": "0"},
        # Under mpirun the step is the launcher's own, of one task a node.
        {"OMPI_COMM_WORLD_SIZE": "3", "PMIX_RANK": "1", "SLURM_STEP_NUM_TASKS": "1"},
        {"PMI_SIZE": "3", "SLURM_STEP_NUM_TASKS": "2"},
        {"SLURM_STEP_NUM_TASKS": "3", "PMIX_RANK": "1"},
        {"SLURM_STEP_NUM_TASKS": "3"},
        # A launcher that does not say how many.
        {"PMIX_RANK": "0"},
        {"PMI_RANK": "0"},
        {"MPI_LOCALNRANKS": "2"},
    ],
)
def test_a_launcher_means_mpi(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    class World(SerialComm):
        size = 3

    monkeypatch.setattr(comm_module, "of_world", World)
    assert isinstance(connect(environment), World)


@pytest.mark.parametrize("name", ["SLURM_STEP_NUM_TASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"])
def test_worlds_of_one_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comm_module, "of_world", SerialComm)
    told = "4 processes were started, but MPI sees a world of 1.*mpirun -n 4.*srun --mpi=pmi2 .*MPICH.*srun --mpi=pmix "
    with pytest.raises(UsageError, match=told):
        connect({name: "4"})


REOPENED = """
from mpi4py import MPI
from mpitune.exchange.comm import connect, on_communicator
half = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank)
for _ in range(1000):
    for comm, size in ((connect(), 2), (on_communicator(half), 1)):
        assert comm.sum(1) == size
        comm.close()
"""


@pytest.mark.mpi
def test_a_communicator_may_be_used_any_number_of_times() -> None:
    """MPI has a few thousand of them, and each of ours takes three."""
    done = mpirun(2, ["-c", REOPENED])
    assert done.returncode == 0, done.stderr


def _run(what: str) -> None:
    """One rank's part of the tests above."""
    comm = connect()
    assert type(comm).__name__ == "MpiComm"
    if what == "checks":
        for check in CHECKS:
            check(comm)
        print(f"passed-{comm.rank}/{comm.size}", flush=True)
    elif what == "abort":
        comm.any(False)
        if comm.rank == 1:
            sys.stdout.write("said before the end\n")
            comm.abort(75)
        comm.any(False)
        print("survived", flush=True)
    elif what == "hang":
        while True:
            Path(sys.argv[2]).touch()
            time.sleep(0.1)


if __name__ == "__main__":
    _run(sys.argv[1])
