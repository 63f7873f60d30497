"""Help, version and completion: quick, because they import nothing that does work; and true."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.mpi import ROOT

from mpitune import errors
from mpitune.cli import help, options
from mpitune.cli.parser import _load, main

PARSERS = {parser.prog.split()[1]: parser for parser in help.subparsers(options.make_parser())}
every_command = pytest.mark.parametrize("command", PARSERS)

IMPORTED = """
import sys
before = set(sys.modules)
from mpitune.cli.parser import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    assert not ended.code
print(*(set(sys.modules) - before), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["train", "--help"], ["--print-completion", "zsh"]])
def test_what_does_no_work_imports_nothing_that_does(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    names = {name.partition(".")[0] for name in done.stderr.split()}
    assert names - set(sys.stdlib_module_names) - {"_distutils_hack"} <= {"mpitune", "shtab"}
    own = {name.split(".")[1] for name in done.stderr.split() if name.startswith("mpitune.")}
    choices, log, launcher = {"decoder", "grammar", "metrics"}, {"corpus", "files", "runtime"}, {"exchange"}
    assert own == {"cli", "early_signals", "errors", "registry"} | choices | log | launcher


@every_command
def test_help_ends_with_an_example_and_the_exit_codes(command: str) -> None:
    text = PARSERS[command].format_help()
    [example] = re.findall(r"^example:\n  (?:mpirun -n 4 )?mpitune (.*)$", text, re.MULTILINE)
    assert shlex.split(example)[0] == command
    options.make_parser().parse_args(shlex.split(example))
    codes = {int(code) for code in re.findall(r"^  (\d+) ", text.partition("exit codes:")[2], re.MULTILINE)}
    kinds = {kind.exit_code for kind in errors.MpituneError.__subclasses__()}
    assert codes == {0, 130, *kinds}


@every_command
def test_the_function_of_every_command_is_there(command: str) -> None:
    assert callable(_load(PARSERS[command].get_default("run")))


def completed(script: Path, words: list[str], folder: Path) -> list[str]:
    """The words that bash offers for the last of ``words``."""
    program = f'source "{script}"; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}'
    program += '; _shtab_mpitune; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", program], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_completion_knows_commands_options_choices_and_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", "bash"])
    assert ended.value.code == 0
    script, folder = tmp_path / "script", tmp_path / "folder"
    script.write_text(capsys.readouterr().out)
    folder.mkdir()
    (folder / "my.toml").write_text("")
    assert completed(script, ["mpitune", "tr"], folder) == ["train"]
    assert completed(script, ["mpitune", "train", "--re"], folder) == ["--resume"]
    assert completed(script, ["mpitune", "train", "--resume", "n"], folder) == ["never"]
    assert completed(script, ["mpitune", "train", "m"], folder) == ["my.toml"]
    assert completed(script, ["mpitune", "decode", "my.toml", "--input", "m"], folder) == ["my.toml"]


def test_defaults_are_shown_where_there_are_some() -> None:
    helps = [parser.format_help() for parser in PARSERS.values()]
    assert any(re.search(r"\(default:\s+auto\)", text) for text in helps)
    assert not any(re.search(r"default:\s+(None|False|\[\])", text) for text in helps)
