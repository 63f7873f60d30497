"""`mpitune report --watch`: what it tells of runs in every state, on a terminal and not."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import pytest
from test_report import make_run

from mpitune.cli.parser import main
from mpitune.errors import UsageError
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.reader import read_epochs
from mpitune.run_folder.status import read_status


def log(folder: RunFolder, *lines: str) -> None:
    text = "".join(f"2026-01-02 03:04:{i:02} [0/2] {line}\n" for i, line in enumerate(lines))
    (folder.path / "log.txt").write_text(text)


def test_a_finished_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    log(folder, "INFO epoch 3: fine", "WARNING odd", "INFO done: weights.txt.gz holds the weights of epoch 2")
    status = read_status(folder.path)
    assert status.state == "run: 3 of 3 epochs done, finished; warnings in its log: 1"
    assert status.ended
    bleu = [f"{epoch.devtest_bleu:.2f}" for epoch in read_epochs(folder.metrics)]
    assert [line.split() for line in status.table] == [
        ["epoch", "devtest", "BLEU", "gold", "score", "features", "sentences/s", "time"],
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
    log(folder, "INFO epoch 2: fine", "ERROR stopped by SIGTERM in epoch 3")
    status = read_status(folder.path)
    assert status.ended and status.state.endswith("2 of 9 epochs done, ended: stopped by SIGTERM in epoch 3")
    # Gone on with.
    log(folder, "INFO done: all", "INFO going on after epoch 2")
    assert not read_status(folder.path).ended


def test_a_run_that_ended_early(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", planned=9, algorithm="sgd")
    config = folder.path / "config.toml"
    config.write_text(config.read_text().replace("epochs = 9", "epochs = 9\npatience = 1"))
    log(folder, "INFO done: weights.txt.gz holds the weights of epoch 2, the best on devtest; ended after epoch 3 of 9")
    status = read_status(folder.path)
    assert status.state == "run: 3 of 9 epochs done, finished early: no better devtest BLEU in 1 epoch"
    assert status.ended and status.table[2].startswith("   *2")


def test_before_the_first_epoch(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"found no log.txt, expected the folder of a run"):
        read_status(tmp_path)
    (tmp_path / "log.txt").write_text("2026-01-02 03:04:05 [0/1] INFO store/data.h5: building it\n")
    status = read_status(tmp_path)
    assert status.page(10) == [f"{tmp_path.name}: 0 epochs done, running", "store/data.h5: building it"]


def test_followed_to_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thing is said once, and the command ends when the runs have."""
    folder = make_run(tmp_path / "run", epochs=2, planned=3)
    log(folder, "INFO epoch 3 of 3: 1/1000")
    steps = iter(
        [
            lambda: log(folder, "INFO epoch 3 of 3: 900/1000"),
            lambda: make_run(tmp_path / "other") and os.replace(tmp_path / "other/metrics.jsonl", folder.metrics),
            lambda: log(folder, "INFO done: weights.txt.gz holds the weights of epoch 2"),
        ]
    )
    monkeypatch.setattr("time.sleep", lambda seconds: next(steps)())
    assert main(["report", "--watch", str(folder.path)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in told] == ["epoch", "1", "*2", "epoch", "epoch", "3", "run:"]
    assert told[3:5] == ["epoch 3 of 3: 1/1000", "epoch 3 of 3: 900/1000"]
    assert told[-1] == "run: 3 of 3 epochs done, finished"
    assert not (folder.path / "report.html").exists()


def test_a_terminal_has_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_run(tmp_path / "run")
    log(folder, "INFO done: all")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["report", "--watch", str(folder.path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("\x1b[H\x1b[2J") and "finished" in text and "devtest BLEU" in text
