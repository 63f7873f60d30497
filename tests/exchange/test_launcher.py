"""What launchers say in the environment."""

from __future__ import annotations

import pytest

from mpitune.errors import UsageError
from mpitune.exchange.launcher import is_first_process, started_tasks


@pytest.mark.parametrize("name", ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"])
@pytest.mark.parametrize("value", ["abc", "", "-3", "1.5"])
def test_sizes_are_numbers(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"variable {name}: found '{value}', expected a number of processes"):
        started_tasks({name: value})


@pytest.mark.parametrize(
    ("environment", "first"),
    [
        ({}, True),
        ({"PMI_RANK": "0"}, True),
        ({"PMI_RANK": "2"}, False),
        ({"OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1"}, False),
        ({"PMIX_RANK": "1"}, False),
        ({"SLURM_PROCID": "3"}, False),
        # Under mpirun the step is the launcher's own, of one task a node.
        ({"OMPI_COMM_WORLD_RANK": "0", "SLURM_PROCID": "1"}, True),
        ({"PMI_RANK": "abc"}, True),
    ],
)
def test_one_process_is_the_first(environment: dict[str, str], first: bool) -> None:
    assert is_first_process(environment) == first
