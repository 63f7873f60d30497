"""Help texts with examples and exit codes, usage errors, completion scripts.

Like `mpitune.cli.options`, the module imports nothing that does work.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from mpitune.cli.arguments import reads, writes, writes_folder
from mpitune.errors import DataError, MachineError, StopRequested, UsageError, printable

INTERRUPTED = 130
"""Exit code after Ctrl-C, that of a shell."""

_EXIT_CODES = {
    0: "done",
    UsageError.exit_code: "bad usage or configuration",
    DataError.exit_code: "bad or missing data",
    MachineError.exit_code: "the machine failed: disk full, standard output closed, not enough memory, decoder gone",
    StopRequested.exit_code: "stopped on request, finished work is kept: run the same command again",
    INTERRUPTED: "Ctrl-C, with nothing to save",
}


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults that say something, and keeps the lines of examples."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return super()._get_help_string(action) if action.default else action.help


class Parser(argparse.ArgumentParser):
    """Reports bad usage as the commands report their errors: in one line; the parsers of commands do too."""

    def error(self, message: str) -> NoReturn:
        """Print ``message``, with the command that shows the usage, and end the program."""
        self.exit(UsageError.exit_code, f"mpitune: {printable(message)}; see {self.prog} --help\n")


class PrintCompletion(argparse.Action):
    """Prints a completion script and ends the program."""

    def __call__(self, parser: argparse.ArgumentParser, _: object, shell: Any, option: object = None) -> None:
        import shtab

        for command in subparsers(parser):
            for action in command._actions:
                if action.type in (reads, writes, writes_folder):
                    action.complete = shtab.FILE  # type: ignore[attr-defined]
        print(shtab.complete(parser, shell))
        parser.exit()


def subparsers(parser: argparse.ArgumentParser) -> Sequence[argparse.ArgumentParser]:
    """The parsers of the commands."""
    [commands] = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return list(commands.choices.values())


class Commands:
    """Adds commands to the parser."""

    def __init__(self, subparsers: argparse._SubParsersAction[Parser]) -> None:
        self._subparsers = subparsers

    def add(self, name: str, run: str, text: str, example: str, *, more: str = "") -> argparse.ArgumentParser:
        """Add a command. ``more``: text after ``text``."""
        table = "\n".join(f"  {code:<4} {text}" for code, text in _EXIT_CODES.items())
        sub = self._subparsers.add_parser(
            name,
            help=text,
            description=textwrap.fill(f"{text} {more}", 79),
            epilog=f"example:\n  {example}\n\nexit codes:\n{table}",
            formatter_class=_HelpFormatter,
        )
        sub.set_defaults(run=run, parser=sub)
        return sub

    def add_of_job(self, name: str, run: str, text: str, example: str) -> argparse.ArgumentParser:
        """Add a command that reads a job file; arguments as for `add`."""
        sub = self.add(name, run, text, example)
        sub.add_argument("job", type=reads, metavar="JOB.toml", help="the job file")
        sub.add_argument(
            "--set", action="append", default=[], metavar="table.key=value", help="override a key of the job file"
        )
        return sub
