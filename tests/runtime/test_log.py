"""The log of a run, and what a bug leaves."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mpitune.errors import UsageError
from mpitune.runtime import log
from mpitune.runtime.log import logged_to, start_logging

LOG = logging.getLogger("mpitune.part")


def test_log_lines_carry_rank_and_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(rank=0, size=3)
    with logged_to(tmp_path / "log.txt", rank=0, size=3):
        LOG.info("epoch %d", 1)
    LOG.warning("after the run")
    start_logging(rank=2, size=3)
    with logged_to(tmp_path / "log.txt", rank=2, size=3):
        LOG.info("not told")
        LOG.warning("odd")
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == ["[0/3] INFO epoch 1", "[2/3] WARNING odd"]
    assert capsys.readouterr().err.splitlines()[0].endswith("[0/3] INFO epoch 1")


def test_only_rank_0_speaks_and_quietly_if_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(rank=1, size=2)
    with logged_to(tmp_path / "log.txt", rank=1, size=2):
        LOG.warning("from another rank")
    assert capsys.readouterr().err == ""
    start_logging(rank=0, size=2, quiet=True)
    with logged_to(tmp_path / "log.txt", rank=0, size=2):
        LOG.info("news")
        LOG.warning("trouble")
    assert "news" not in (error := capsys.readouterr().err) and "trouble" in error
    assert "news" in (tmp_path / "log.txt").read_text()


def test_a_log_in_an_unwritable_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent: cannot be written: No such file"), logged_to(tmp_path / "absent/log"):
        pass


def test_a_log_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "log.txt").symlink_to("precious")
    refused = pytest.raises(UsageError, match="cannot be written: Too many levels of symbolic links")
    with refused, logged_to(tmp_path / "log.txt"):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


def test_traceback_of_a_bug_is_kept(tmp_path: Path) -> None:
    try:
        [][1]
    except IndexError as error:
        path = log.write_traceback(error, tmp_path, rank=2)
        assert path == tmp_path / "traceback-2.txt"
        assert "IndexError" in path.read_text() and "test_log.py" in path.read_text()
        assert log.write_traceback(error, tmp_path / "absent") is None
