"""Memory of this process and of the machine."""

from __future__ import annotations

from pathlib import Path

from mpitune.runtime import memory
from mpitune.runtime.memory import machine_memory


def test_peak_memory_is_in_bytes() -> None:
    ballast = bytearray(50_000_000)
    assert 50_000_000 < memory.peak_memory() < 50_000_000_000
    assert len(ballast)


def test_a_control_group_may_allow_less_memory_than_there_is(tmp_path: Path) -> None:
    """Version 2 (no name), version 1 (memory), and a group above the process's own."""
    groups, root = tmp_path / "cgroup", tmp_path / "groups"
    whole = machine_memory(tmp_path / "absent", root)
    assert whole > 2**20
    (root / "job/step").mkdir(parents=True)
    (root / "memory/batch").mkdir(parents=True)
    groups.write_text("4:memory:/batch\n3:cpuset:/batch\n0::/job/step\n")
    (root / "job/step/memory.max").write_text("max\n")
    (root / "memory/batch/memory.limit_in_bytes").write_text(f"{2**63 - 4096}\n")
    assert machine_memory(groups, root) == whole
    (root / "job/memory.max").write_text("900000\n")
    assert machine_memory(groups, root) == 900_000
    (root / "memory/batch/memory.limit_in_bytes").write_text("700000\n")
    assert machine_memory(groups, root) == 700_000
