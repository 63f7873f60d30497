"""What hosts have in common. Hosts that differ are in tests/system/test_hosts.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tiny import Tiny

from mpitune.exchange.comm import SerialComm
from mpitune.training import job_inputs
from mpitune.training.hosts import Seen, check_hosts, differences, look_around

FIRST = Seen({"numpy": "2.4"}, {Path("/run"): True}, {Path("/lm.bin"): "7 bytes, digest 1f"})
SAME = "as on host a: "


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (FIRST, None),
        (
            FIRST._replace(program={"numpy": "2.3"}),
            f"host b: found numpy 2.3, expected 2.4, {SAME}"
            "install the same versions on all hosts, or one installation that all share",
        ),
        (
            FIRST._replace(folders={Path("/run"): False}),
            "/run: host b does not see this folder of host a: "
            "run.dir and run.store must be on a file system that all hosts share",
        ),
        (
            FIRST._replace(files={Path("/lm.bin"): "no file that it can read"}),
            f"/lm.bin: host b found no file that it can read, expected 7 bytes, digest 1f, {SAME}"
            "every rank reads this file, so it must be the same on all hosts",
        ),
    ],
)
def test_differences_are_named_with_their_remedy(other: Seen, line: str | None) -> None:
    assert differences("b", other, "a", FIRST) == ([line] if line else [])


def test_a_host_sees_its_own_folders_and_leaves_nothing_there(tiny: Tiny, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    job = job_inputs.load_job(tiny.job_file(run), [])
    seen = look_around(SerialComm(), job)
    assert seen is not None
    [(_, host)] = seen
    assert host.folders == {run: True, job.run.store: True} and host.files == {}
    assert {"mpitune", "numpy", "the code of mpitune, its digest"} <= host.program.keys()
    assert list(run.iterdir()) == []


def test_one_machine_looks_at_nothing(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpitune.training.hosts.look_around", lambda *_: pytest.fail("it has"))
    check_hosts(SerialComm(), job_inputs.load_job(tiny.job_file(tmp_path / "run"), []))
