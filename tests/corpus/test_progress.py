"""Progress, in the log and on a terminal."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path

import pytest

from mpitune.corpus import progress as shown
from mpitune.corpus.progress import Progress, draw_on
from mpitune.runtime import log
from mpitune.runtime.log import logged_to, start_logging


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_progress_logs_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    log.LOG.propagate = True
    clock = Clock()
    with (
        caplog.at_level(logging.INFO, "mpitune"),
        Progress("epoch 1", 200, clock) as progress,
    ):
        for _ in range(50):
            clock.now += 2
            progress.advance()
        progress.advance(50)
    assert caplog.messages[0] == "epoch 1: 15/200, 0.5/s, 6:10 left"
    assert len(caplog.messages) == 3
    assert progress.done == 100


def test_progress_keeps_one_line_of_a_terminal() -> None:
    clock, terminal = Clock(), io.StringIO()
    draw_on(terminal)
    with Progress("decode", 3, clock) as progress:
        for _ in range(3):
            clock.now += 1
            progress.advance()
            progress.advance(0)
    drawn = terminal.getvalue().split("\r\x1b[K")
    assert drawn[1:] == [
        "decode: 1/3, 1/s, 0:02 left",
        "decode: 2/3, 1/s, 0:01 left",
        "decode: 3/3, 1/s, 0:00 left",
        "",
    ]


def test_progress_in_hours_and_before_the_first_item() -> None:
    clock = Clock()
    progress = Progress("x", 100, clock)
    assert progress.line(clock.now + 9) == "x: 0/100"
    progress.advance(1)
    assert progress.line(clock.now + 60.0) == "x: 1/100, 0.0167/s, 1:39:00 left"


@pytest.mark.parametrize(
    ("settings", "drawn", "in_log"),
    [
        ({}, True, True),
        # So that `mpitune report --watch` can follow a quiet run, too.
        ({"quiet": True}, False, True),
        ({"rank": 1, "size": 2}, False, False),
    ],
)
def test_where_progress_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, int], drawn: bool, in_log: bool
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(shown, "LOG_INTERVAL", 0.0)
    start_logging(**settings)
    ranks = {name: number for name, number in settings.items() if name != "quiet"}
    with logged_to(tmp_path / "log.txt", **ranks), Progress("x", 2) as progress:
        progress.advance()
    assert ("x: 1/2" in terminal.getvalue()) == drawn
    assert ("INFO x: 1/2" in (tmp_path / "log.txt").read_text()) == in_log


def test_a_program_that_asks_for_no_log_hears_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress("x", 2) as progress:
        progress.advance()
        progress.reach(2, 1.0)
    assert capfd.readouterr() == ("", "")


def test_progress_tells_the_mean_score() -> None:
    clock = Clock()
    progress = Progress("epoch 1 of 3", 10, clock)
    clock.now += 2
    progress.reach(4, 1.5)
    assert progress.line(clock.now) == "epoch 1 of 3: 4/10, 2/s, 0:03 left, mean gold score 0.3750"
