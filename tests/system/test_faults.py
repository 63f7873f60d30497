"""A few of the faults that ``make test-faults`` does: nobody hangs, nothing is lost, and the bits are the same.

Elsewhere: a full disk and a lock that is held, in one process (`test_bad_input`); a failing rank's words and exit code,
signals to the launcher, and runs that are killed as a whole (`test_train`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faults import inside, kills, others, stores
from faults.task import RANKS, Outcome, Task
from faults.world import World
from support.messages import MESSAGES, REMOVED, check_told
from support.mpi import launcher

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return Task(tmp_path_factory.mktemp("faults"))


def check(outcomes: Iterator[Outcome], count: int) -> None:
    found = list(outcomes)
    assert len(found) == count and all(outcome.well for outcome in found), found


def test_ranks_that_are_killed(task: Task) -> None:
    check(kills.kills(task, kills.draw(5, seed=1), [launcher()]), 5)


def test_every_victim_and_every_step_has_its_share() -> None:
    drawn = [kill for run in kills.draw(50, seed=1) for kill in run]
    steps = [*kills.FIRST, *kills.EACH_START, *kills.EACH_EPOCH, *kills.LAST]
    assert {kill.step for kill in drawn} == set(steps) == {inside.START, *inside.STEPS, inside.END}
    victims = [kill.victim for kill in drawn]
    assert all(victims.count(victim) >= 12 for victim in kills.VICTIMS)
    assert {kill.signal for kill in drawn} == set(kills.SIGNALS)
    assert kills.draw(50, seed=1) == kills.draw(50, seed=1) != kills.draw(50, seed=2)


def test_ranks_that_end_without_a_word(task: Task) -> None:
    check(others.rank_fails("a rank calls os._exit", task, launcher(), others.PLACES[1:3]), 2)


def test_a_rank_that_is_interrupted_at_its_start(task: Task) -> None:
    with World(RANKS, task.train(task.new()), task.folder, fault="1/connected/1/SIGINT") as world:
        assert world.end()[0] == 0 and world.code


def test_a_rank_that_alone_is_asked_to_stop(task: Task) -> None:
    check(others.one_rank_asked(task, launcher(), others.STOPS[:1]), 1)


def test_bits_that_flip_in_a_store(task: Task) -> None:
    check(stores.flipped_bits(task, launcher(), count=8, whole=1), 9)


def test_a_run_in_a_read_only_folder(task: Task) -> None:
    check(others.read_only_run(task, launcher()), 1)


def test_a_run_folder_that_is_removed(task: Task) -> None:
    folder = task.new()
    run = folder / "runs" / "job"
    with World(RANKS, task.train(run), task.folder, fault="0/devtest decoded/2/stop") as world:
        with world.at_rest():
            run.rename(task.new() / "away")
        assert world.end()[0] == 0
    assert not run.exists(), "nothing of it comes back"
    check_told(MESSAGES[REMOVED], world.code, "\n".join(others.told(world.said)), folder)


def test_a_second_run_in_the_folder_of_the_first(task: Task) -> None:
    check(others.two_runs(task, launcher(), [False]), 1)
