"""The processes that were started together, as the environment variables of MPI launchers and of SLURM show them."""

from __future__ import annotations

from collections.abc import Mapping

_LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


def started_tasks(environment: Mapping[str, str]) -> int | None:
    """Number of processes that were started together: 0 if the launcher does not set it, None without a launcher."""
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        if name in environment:
            return int(environment[name])
    # The variables of MPI launchers come first: under mpirun, the Slurm step belongs to the launcher, with one task per
    # node. A batch script outside srun has SLURM_PROCID and SLURM_NTASKS too, but no step.
    step = int(environment.get("SLURM_STEP_NUM_TASKS", 1))
    if step > 1:
        return step
    return 0 if any(name in environment for name in ("PMI_RANK", "PMIX_RANK", "MPI_LOCALNRANKS")) else None


def is_first_on_machine(environment: Mapping[str, str]) -> bool:
    """True for one of the processes on each machine: it reports what they all find before MPI is ready."""
    return next((environment[name] for name in _LOCAL_RANKS if name in environment), "0") == "0"
