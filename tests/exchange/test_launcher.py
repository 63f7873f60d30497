"""The processes that were started together, and a launcher without an MPI library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.mpi import ROOT

from mpitune.early_signals import is_first_on_machine
from mpitune.errors import UsageError
from mpitune.exchange.launcher import is_first_process, started_tasks


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, True),
        ({"PMI_RANK": "4", "MPI_LOCALRANKID": "0"}, True),
        ({"PMI_RANK": "5", "MPI_LOCALRANKID": "1"}, False),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, False),
        # Under mpirun, the variables of SLURM are those of the launcher's own step.
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "1", "SLURM_LOCALID": "0"}, False),
        ({"SLURM_PROCID": "3", "SLURM_LOCALID": "1"}, False),
    ],
)
def test_one_process_on_each_machine_reports(environment: dict[str, str], expected: bool) -> None:
    assert is_first_on_machine(environment) == expected


def test_without_an_mpi_library_one_line_says_what_to_install(tmp_path: Path) -> None:
    package = tmp_path / "mpi4py"
    package.mkdir()
    (package / "__init__.py").write_text("class rc: pass\n")
    # As mpi4py says it, a line for each name that it has tried.
    (package / "MPI.py").write_text("raise RuntimeError('cannot load MPI library\\nlibmpi.so: cannot open')\n")
    errors = ""
    for rank in ("0", "1"):
        launcher = {"PMI_SIZE": "2", "PMI_RANK": rank, "MPI_LOCALRANKID": rank}
        done = subprocess.run(
            [sys.executable, "-m", "mpitune", "report", "nowhere"],
            env={**os.environ, **launcher, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 2
        errors += done.stderr
    assert errors == (
        "mpitune: started by an MPI launcher, but mpi4py finds no MPI library: install one (pip install 'mpitune[mpi]',"
        " or conda install mpich), or load the cluster's module (libmpi.so: cannot open)\n"
    )


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
