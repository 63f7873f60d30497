"""The processes that were started together, as the environment variables of MPI launchers and of SLURM show them."""

from __future__ import annotations

from collections.abc import Mapping

from mpitune.errors import UsageError

_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


def started_tasks(environment: Mapping[str, str]) -> int | None:
    """Number of processes that were started together: 0 if the launcher does not set it, None without a launcher.

    Raises UsageError if a variable is not a number.
    """
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        if name in environment:
            return _number(environment, name)
    # The variables of MPI launchers come first: under mpirun, the Slurm step belongs to the launcher, with one task per
    # node. A batch script outside srun has SLURM_PROCID and SLURM_NTASKS too, but no step.
    if "SLURM_STEP_NUM_TASKS" in environment and (step := _number(environment, "SLURM_STEP_NUM_TASKS")) > 1:
        return step
    return 0 if any(name in environment for name in ("PMI_RANK", "PMIX_RANK", "MPI_LOCALNRANKS")) else None


def is_first_process(environment: Mapping[str, str]) -> bool:
    """True for one of the processes: it prints what they would all print."""
    rank = next((environment[name] for name in _RANKS if name in environment), "0")
    return not rank.isdecimal() or int(rank) == 0


def _number(environment: Mapping[str, str], name: str) -> int:
    if not environment[name].isdecimal():
        raise UsageError(
            f"the environment variable {name}: found {environment[name]!r}, expected a number of processes"
        )
    return int(environment[name])
