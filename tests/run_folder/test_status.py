"""`mpitune report --watch`: what it tells of runs in every state, on a terminal and not."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.commands import Cli
from support.mpi import ROOT
from support.run_folders import make_run
from support.runs import SENTENCES, Decodes
from support.sharing import read_only
from support.tiny import DEVTEST, Tiny, kill_all, start, wait_for

from mpitune.cli.parser import main
from mpitune.errors import DataError, MachineError, StopRequested
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.reader import read_epochs
from mpitune.run_folder.run_state import is_at_work, read_state, write_state
from mpitune.run_folder.watch import read_status


def log(folder: RunFolder, *lines: str) -> None:
    text = "".join(f"2026-01-02 03:04:{i:02} [0/2] {line}\n" for i, line in enumerate(lines))
    (folder.path / "log.txt").write_text(text)


def recorded(run: Path) -> tuple[str, int, int, str]:
    """What status.json says; the time, which is recent, left out."""
    found = read_state(RunFolder(run))
    assert found is not None
    assert abs(datetime.now(UTC) - datetime.fromisoformat(found.when)) < timedelta(minutes=10)
    return found.state, found.epoch, found.epochs, found.reason


def test_a_finished_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    log(folder, "INFO epoch 3: fine", "WARNING odd", "INFO done: weights.txt.gz holds the weights of epoch 2")
    status = read_status(folder.path)
    assert status.state == "run: 3 of 3 epochs done, finished; warnings in its log: 1"
    assert status.ended
    bleu = [f"{epoch.devtest_bleu:.2f}" for epoch in read_epochs(folder.metrics)]
    assert [line.split() for line in status.table] == [
        ["epoch", "devtest", "score", "gold", "score", "features", "sentences/s", "time"],
        ["1", bleu[0], "0.3100", "2,000", "400", "0:02"],
        ["*2", bleu[1], "0.3200", "2,000", "400", "0:02"],
        ["3", bleu[2], "0.3300", "2,000", "400", "0:02"],
    ]


def test_a_running_a_silent_and_a_failed_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", epochs=2, planned=9)
    log(folder, "INFO epoch 3 of 9: 12/1000, 5/s, 3:18 left, mean gold score 0.3310")
    status = read_status(folder.path)
    assert status.state == "run: 2 of 9 epochs done, running" and not status.ended
    assert status.page(20)[-1] == "epoch 3 of 9: 12/1000, 5/s, 3:18 left, mean gold score 0.3310"
    assert len(status.page(4)) == 4 and status.page(4)[2] == status.table[-1], "the latest epochs are shown"
    hour_ago = time.time() - 3600
    os.utime(folder.path / "log.txt", (hour_ago, hour_ago))
    assert re.search("silent for 1:00:0.: is it still running[?]$", read_status(folder.path).state)
    write_state(folder, "stopped", 9, 2, "stopped by SIGTERM in epoch 3")
    status = read_status(folder.path)
    assert status.ended and status.state.endswith("2 of 9 epochs done, ended: stopped by SIGTERM in epoch 3")
    # Resumed.
    log(folder, "INFO done: all", "INFO going on after epoch 2")
    write_state(folder, "running", 9)
    assert not read_status(folder.path).ended and recorded(folder.path) == ("running", 2, 9, "")


def test_a_run_that_ended_early(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", planned=9, algorithm="sgd")
    write_state(folder, "done", 9, 3, "no better devtest score in 1 epoch")
    log(folder, "INFO done: weights.txt.gz holds the weights of epoch 2, the best on devtest; ended after epoch 3 of 9")
    status = read_status(folder.path)
    assert status.state == "run: 3 of 9 epochs done, finished early: no better devtest score in 1 epoch"
    assert status.ended and status.table[2].startswith("   *2")


def test_before_the_first_epoch(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found no log.txt, expected the folder of a run"):
        read_status(tmp_path)
    (tmp_path / "log.txt").write_text("2026-01-02 03:04:05 [0/1] INFO store/data.npz: building it\n")
    status = read_status(tmp_path)
    assert status.page(10) == [f"{tmp_path.name}: 0 epochs done, running", "store/data.npz: building it"]


def test_followed_to_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thing is said once, and the command ends when the runs have."""
    folder = make_run(tmp_path / "run", epochs=2, planned=4)
    log(folder, "INFO epoch 3 of 4: 1/1000")
    write_state(folder, "running", 4, 2)
    first, second = (json.loads(line) for line in folder.metrics.read_text().splitlines())
    # The third widens columns, the fourth is the best.
    third = second | {"epoch": 3, "seconds": 5000.0, "selected_features": 2_000_000}
    fourth = second | {"epoch": 4, "devtest_bleu": 99.0}
    steps = iter(
        [
            lambda: log(folder, "INFO epoch 3 of 4: 900/1000"),
            lambda: folder.write_metrics([first, second, third]),
            lambda: folder.write_metrics([first, second, third, fourth]),
            lambda: write_state(folder, "done", 4, 4),
        ]
    )
    monkeypatch.setattr("time.sleep", lambda seconds: next(steps)())
    # The libraries of the other reports take longer to load than all others together.
    monkeypatch.setitem(sys.modules, "mpitune.report.html", None)
    assert main(["report", "--watch", str(folder.path)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in told] == ["epoch", "1", "*2", "epoch", "epoch", "3", "*4", "run:"]
    assert told[3:5] == ["epoch 3 of 4: 1/1000", "epoch 3 of 4: 900/1000"]
    assert told[-1] == "run: 4 of 4 epochs done, finished"
    assert not (folder.path / "report.html").exists()


def test_all_seeds_of_a_folder_are_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (2, 10):
        log(make_run(tmp_path / "runs" / f"seed-{seed}"), "INFO done: all")
    assert main(["report", "--watch", str(tmp_path / "runs")]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if "finished" in line] == [f"seed-{n}: 3 of 3 epochs done, finished" for n in (2, 10)]


def test_a_terminal_has_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_run(tmp_path / "run")
    log(folder, "INFO done: all")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["report", "--watch", str(folder.path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("\x1b[H\x1b[2J") and "finished" in text and "devtest score" in text


# status.json


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """All states that runs record, in order."""
    found: list[tuple[str, int, int]] = []
    write = RunFolder.write_status

    def written(folder: RunFolder, text: str) -> None:
        record = json.loads(text)
        found.append((record["state"], record["epoch"], record["epochs"]))
        write(folder, text)

    monkeypatch.setattr(RunFolder, "write_status", written)
    return found


def test_a_run_records_each_epoch_and_its_end(tiny: Tiny, tmp_path: Path, states: list[tuple[str, int, int]]) -> None:
    run = tmp_path / "run"
    tiny.train(run)
    assert states == [("running", n, 2) for n in (0, 0, 1, 2)] + [("done", 2, 2)]
    assert recorded(run) == ("done", 2, 2, "")
    assert json.loads((run / "status.json").read_text())["version"] == 1
    assert read_status(run).state.endswith("run: 2 of 2 epochs done, finished")
    # Given more epochs, it starts from where it was.
    states.clear()
    tiny.train(run, learner={"epochs": 3})
    assert states == [("running", n, 3) for n in (2, 2, 3)] + [("done", 3, 3)]


def test_an_early_end_is_recorded_with_its_reason(tiny: Tiny, tmp_path: Path) -> None:
    run = tmp_path / "run"
    learner = {"learning_rate": 0.004, "initial_weights": "warm", "epochs": 9, "patience": 2}
    tiny.train(run, learner=learner, **DEVTEST)
    done = len(read_epochs(RunFolder(run).metrics))
    assert done < 9 and recorded(run) == ("done", done, 9, "no better devtest score in 2 epochs")
    assert f"{done} of 9 epochs done, finished early: no better devtest score in 2 epochs" in read_status(run).state


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_stop_by_a_signal_is_recorded_and_resuming_replaces_it(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    run, decodes = tmp_path / "run", Decodes(monkeypatch)
    decodes.stop_at = 1 + SENTENCES + 9, number
    with pytest.raises(StopRequested) as stopped:
        tiny.train(run)
    assert recorded(run) == ("stopped", 1, 2, str(stopped.value))
    status = read_status(run)
    assert status.ended and f"1 of 2 epochs done, ended: stopped by {number.name} in epoch 2" in status.state
    decodes.stop_at = None
    tiny.train(run)
    assert recorded(run) == ("done", 2, 2, "")


def test_a_killed_run_is_still_running_in_its_record_and_not_in_its_lock(tiny: Tiny, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(1, ["train", tiny.job_file(run, learner={"epochs": 300})])
    wait_for((run / "checkpoints" / "epoch-0002.h5").exists, process)
    assert is_at_work(RunFolder(run))
    kill_all(process)
    assert not is_at_work(RunFolder(run))
    state, epoch, epochs, reason = recorded(run)
    assert (state, epochs, reason) == ("running", 300, "") and epoch >= 1
    status = read_status(run)
    assert not status.ended and status.state.endswith("of 300 epochs done, running")
    hour_ago = time.time() - 3600
    os.utime(run / "log.txt", (hour_ago, hour_ago))
    status = read_status(run)
    assert status.ended and status.state.endswith("killed: no process works on it; the same command continues it")


def test_an_error_is_recorded(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"

    def fail(*given: Any) -> None:
        raise MachineError("it is broken")

    with monkeypatch.context() as patch:
        patch.setattr("mpitune.training.loop.write_epoch", fail)
        with pytest.raises(MachineError):
            tiny.train(run)
    assert recorded(run) == ("failed", 0, 2, "it is broken")
    assert read_status(run).state.endswith("0 of 2 epochs done, ended: it is broken")


def test_a_removed_run_folder_does_not_come_back(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    monkeypatch.setattr("mpitune.training.loop.write_epoch", lambda *given: shutil.rmtree(run))
    with pytest.raises(MachineError, match="status.json: cannot be written"):
        tiny.train(run)
    assert not run.exists()


@pytest.mark.parametrize("name", ["log.txt", "status.json"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    folder = make_run(tmp_path / "run")
    log(folder, "INFO one")
    write_state(folder, "running", 3)
    with read_only(folder.path) as rights:
        (folder.path / name).chmod(0)
        done = subprocess.run(
            [*rights, sys.executable, "-m", "mpitune", "report", "--watch", folder.path],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
        )
    said = f"{folder.path / name}: found permission denied, expected a readable file"
    assert (done.returncode, done.stderr) == (3, f"mpitune: {said}\n")


WHOLE = '{"version": 1, "state": "done", "epoch": 3, "epochs": 3, "reason": "", "when": ""}'
DAMAGED = {
    "empty": "",
    "cut": WHOLE[:40],
    "a list": "[]",
    "no keys": "{}",
    "keys lack": '{"version": 1}',
    "another key": WHOLE.replace("when", "stage"),
    "another state": WHOLE.replace("done", "idle"),
    "a state that no run records": WHOLE.replace("done", "unknown"),
    "a number as state": WHOLE.replace('"done"', "7"),
    "a list as state": WHOLE.replace('"done"', "[]"),
    "a text as number": WHOLE.replace('"epoch": 3', '"epoch": "3"'),
    "a fraction": WHOLE.replace('"epochs": 3', '"epochs": 3.5'),
    "not a number": WHOLE.replace('"epochs": 3', '"epochs": NaN'),
    "a large number": WHOLE.replace('"epochs": 3', f'"epochs": {"9" * 30}'),
    "more digits than Python reads": WHOLE.replace('"epochs": 3', f'"epochs": {"9" * 5000}'),
    "deeper than Python reads": "[" * 100_000,
    "a NUL": WHOLE.replace("done", "\0"),
}
"""What a status.json may hold that no run has written."""


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_record_tells_nothing_and_is_replaced(tmp_path: Path, text: str) -> None:
    folder = make_run(tmp_path / "run")
    log(folder, "INFO one")
    folder.status.write_text(text)
    why = f"{folder.status}: found a damaged file, expected the status of a run"
    status = read_status(folder.path)
    assert (status.state, status.ended) == (f"run: 3 epochs done, its state is unknown: {why}", False)
    write_state(folder, "running", 3)
    assert recorded(folder.path) == ("running", 0, 3, "")


def test_a_record_of_another_version_tells_nothing(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    folder.status.write_text('{"version": 2, "state": 3}')
    state = read_state(folder)
    assert state is not None and state.state == "unknown"
    assert state.reason == f"{folder.status}: found version 2, expected version 1"


def test_a_finished_run_is_reported_whatever_its_record_says(tmp_path: Path, cli: Cli) -> None:
    folder = make_run(tmp_path / "run")
    folder.status.write_text(DAMAGED["cut"])
    why = f"{folder.status}: found a damaged file, expected the status of a run"
    told = cli("report", folder.path)
    assert told == (0, f"the report: {folder.path}/report.html\n", f"warning: {why}\n")
    page = (folder.path / "report.html").read_text()
    assert f"3 epochs done; whether it has ended is unknown: {why}" in page
