"""Plugins that a job names: Python files, read and executed once in a process."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from mpitune.errors import DataError, MpituneError, fault
from mpitune.files import read_bytes
from mpitune.plugins import digest, plugin_text

MOST_BYTES = 1 << 24
"""Maximum size of a plugin."""

_executed: dict[Path, str] = {}
"""The texts of the plugins, by file."""


def load_plugins(files: Iterable[Path]) -> None:
    """Execute those of ``files`` that have not been, or that have changed since.

    Raises DataError for a file that cannot be read, UsageError for a fault in it.
    """
    for file in files:
        content = read_bytes(file, MOST_BYTES)
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = 1 + error.object.count(b"\n", 0, error.start)
            found = f"bytes that are not UTF-8 ({error.reason})"
            raise DataError.at(file, line, found=found, expected="UTF-8") from None
        execute([(file, text)])


def texts_of(files: Sequence[Path]) -> list[tuple[Path, str]]:
    """The plugins ``files``, which are loaded, with their texts, for `execute` on another rank."""
    return [(file, _executed[file]) for file in files]


def execute(plugins: Iterable[tuple[Path, str]]) -> None:
    """Execute plugins, as `load_plugins` does."""
    for file, text in plugins:
        if _executed.get(file) != text:
            _executed[file] = text
            try:
                with plugin_text(str(file), text):
                    _execute(file, text)
            except BaseException:
                del _executed[file]
                raise


def _execute(file: Path, text: str) -> None:
    # Its classes are found by this name where a job is sent to other ranks.
    module = ModuleType(f"mpitune_plugin_{digest(str(file))}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module
    # Faults are shown with their lines also on hosts that do not have the file.
    linecache.cache[str(file)] = len(text), None, text.splitlines(keepends=True), str(file)
    try:
        exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    except MpituneError:
        raise
    except (Exception, SystemExit) as error:
        raise fault(error) or error from None
