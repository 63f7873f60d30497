"""Texts of others on a terminal: no message or table has their control characters or line ends raw."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path

import pytest
from support.commands import Cli, Trained
from support.run_folders import make_run
from support.tiny import Tiny

from mpitune.config.load import read_tables
from mpitune.corpus.progress import CLEAR_LINE, Progress, draw_on
from mpitune.errors import UNPRINTABLE
from mpitune.run_folder.reader import read_log
from mpitune.runtime.log import LOG, logged_to, start_logging
from mpitune.schema import literal

CHARACTERS = "\x1b]0;owned\x07\r\x9b31m\u202egpj.\u2028"
NAME = f"a\n{CHARACTERS}"
SHOWN = r"\x1b]0;owned\x07\r\x9b31m\u202egpj.\u2028"


def clean(text: str) -> str:
    """``text`` itself, which has no characters to be escaped but line ends."""
    assert not set(map(ord, text)) & set(UNPRINTABLE) - {ord("\n")}, repr(text)
    return text


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A text with such a name."""
    (tmp_path / NAME).write_text("ein haus\n")
    return tmp_path / NAME


def test_paths_in_errors(cli: Cli, odd: Path, trained: Trained) -> None:
    absent = odd.with_name(f"{NAME}-2")
    for arguments in (
        ("weights", absent),
        ("train", absent),
        ("report", absent),
        ("evaluate", "--refs", odd, "--hyps", absent),
        ("import-dtrain", absent),
    ):
        done = cli(*arguments)
        assert done.code in (2, 3) and clean(done.errors).count("\n") == 1 and rf"a\n{SHOWN}-2" in done.errors
    line = cli.refused(2, "train", trained.job, "--set", f"{CHARACTERS}=1")
    assert SHOWN in clean(line)


@pytest.mark.parametrize("arguments", [("lm", "--order", NAME), ("weights", "x", f"--{NAME}"), (NAME,)])
def test_arguments_in_errors_of_usage(arguments: tuple[str, ...], cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli(*arguments)
    errors = clean(capsys.readouterr().err)
    assert errors.count("\n") == 1 and SHOWN.replace("\\", "") in errors.replace("\\", "")


def test_what_to_do_next(cli: Cli, tmp_path: Path) -> None:
    done = cli("init", tmp_path / NAME, "--template", "bitext")
    assert done.code == 0 and rf"a\n{SHOWN}/job.toml: every key is explained in it" in clean(done.output)


def test_names_of_features(cli: Cli, tmp_path: Path) -> None:
    name = "R:X:\x9b31m\u202egpj."  # control characters of ASCII are in no name
    (tmp_path / "weights").write_text(f"{name} 1.5\nb 1\n")
    told = cli("weights", tmp_path / "weights").output
    assert clean(told).splitlines() == [r"R:X:\x9b31m\u202egpj. 1.5", "b 1.0"]
    cli("weights", tmp_path / "weights", "--export", tmp_path / "exported")
    assert name in (tmp_path / "exported").read_text(), "files have the name itself"


def test_names_of_systems_and_of_metrics(cli: Cli, odd: Path, tmp_path: Path) -> None:
    shown = rf"a\n{SHOWN}"
    for arguments in (("--hyps", odd), ("--system", NAME, odd)):
        for more, lines in (((), 3), (("--markdown",), 5)):
            told = clean(cli("evaluate", "--refs", odd, *arguments, *more).output)
            assert shown in told and told.count("\n") == lines
        told = clean(cli("evaluate", "--refs", odd, *arguments, "--json").output)
        assert json.loads(told)["scores"][0]["system"].endswith(NAME)


def test_the_configuration_is_shown_as_toml(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run", decoder={"backend": "cdec", "binary": NAME})
    told = clean(cli("train", job, "--dry-run").output)
    assert rf"runs a\n{SHOWN}, which is not there" in told
    (tmp_path / "shown.toml").write_text(told)
    assert read_tables(tmp_path / "shown.toml")["decoder"]["binary"] == NAME
    assert literal("\x7f\x85é日") == r'"\u007f\u0085é日"'


def test_what_lists_hold(cli: Cli, tmp_path: Path) -> None:
    """Nor in the log of a run, which others may look at."""
    name = "\x1b]0;owned\x07x"
    (tmp_path / "lists").write_text(f"0 ||| a ||| {name}= 1\n0 ||| a ||| {name}= 1 2\n")
    done = cli("evaluate", "--lists", tmp_path / "lists")
    assert done.code == 3 and clean(done.errors).count("\n") == 1 and r"\x1b]0;owned\x07x" in done.errors


def test_a_run_that_is_watched(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run(tmp_path / NAME)
    folder.log.write_text(f"2026-01-02 03:04:05 [0/1] INFO {CHARACTERS.replace(chr(13), '')}done\n more\n")
    told = cli("report", "--watch", folder.path, folder.path)
    assert told.code == 0 and rf"a\n{SHOWN}" in clean(told.output) and r"\x1b]0;owned\x07" in told.output
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    page = cli("report", "--watch", folder.path).output
    assert clean(page.removeprefix("\x1b[H\x1b[2J")) != page
    report = cli("report", folder.path)
    assert report.code == 0 and clean(report.output).count("\n") == 1


def test_a_bug(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError(NAME)

    monkeypatch.setattr("mpitune.cli.evaluate._systems", fail)
    done = cli("evaluate", "--refs", "a", "--hyps", "b")
    *traceback, last = clean(done.errors).splitlines()
    assert last == rf"mpitune: a bug: AssertionError: a\n{SHOWN}; its traceback is printed above"
    assert traceback[0].startswith("Traceback") and len(traceback) > 3


def test_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    start_logging()
    with logged_to(tmp_path / "log.txt"):
        LOG.warning("%s: odd", NAME)
    [line] = (tmp_path / "log.txt").read_text().split("\n")[:-1]
    assert clean(line).endswith(rf"[0/1] WARNING a\n{SHOWN}: odd")
    screen = capsys.readouterr().err
    assert screen.startswith(CLEAR_LINE) and clean(screen.removeprefix(CLEAR_LINE)).count("\n") == 1
    assert [each.text for each in read_log(tmp_path / "log.txt")] == [rf"a\n{SHOWN}: odd"]


def test_messages_of_several_lines_in_logs_of_earlier_versions(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("2026-01-02 03:04:05 [0/1] INFO one\nmore\n2026-01-02 03:04:06 [0/1] INFO two\n")
    assert [each.text for each in read_log(tmp_path / "log.txt")] == ["one\nmore", "two"]


def test_progress() -> None:
    terminal = StringIO()
    draw_on(terminal)
    with Progress(NAME, 3) as progress:
        progress.advance()
    assert clean(terminal.getvalue().replace(CLEAR_LINE, "")).startswith(rf"a\n{SHOWN}: 1/3")
