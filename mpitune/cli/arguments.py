"""Types of arguments: paths that a command reads or writes, whole numbers, and sizes.

Every argument that names a path is of one of the types `reads`, `writes` and `writes_folder`, by which readers of the
parser tell inputs from outputs.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any


def reads(text: str) -> Path:
    """A file or folder that the command reads; ``-`` is standard input where the option says so."""
    if not text:
        raise argparse.ArgumentTypeError("found '', expected the name of a file or folder")
    return Path(text)


def writes(text: str) -> Path | None:
    """A file that the command writes; None for ``-`` and other names of standard output, which is not replaced."""
    if os.path.basename(text) in ("", ".", ".."):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected the name of a file")
    return None if text in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1") else Path(text)


def writes_folder(text: str) -> Path:
    """A folder that the command writes files to."""
    if not text:
        raise argparse.ArgumentTypeError("found '', expected the name of a folder")
    return Path(text)


def paths_of(options: argparse.Namespace, kind: Callable[[str], Path | None]) -> list[Path]:
    """The values of all arguments of the type ``kind``: `reads`, `writes` or `writes_folder`."""
    given = [getattr(options, action.dest) for action in options.parser._actions if action.type is kind]
    return [path for value in given for path in _flat(value)]


def _flat(value: Any) -> list[Path]:
    if isinstance(value, list):
        return [path for each in value for path in _flat(each)]
    return [] if value is None else [value]


class Named(argparse.Action):
    """Of an output that cannot be standard output."""

    def __call__(self, parser: argparse.ArgumentParser, parsed: Any, path: Any, option: object = None) -> None:
        if path is None:
            raise argparse.ArgumentError(self, "found standard output, expected the name of a file")
        setattr(parsed, self.dest, path)


def whole_number(least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    """The type of a whole number from ``least`` to ``most``, in the digits 0 to 9."""

    def number(text: str) -> int:
        if not re.fullmatch("[0-9]{1,19}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number from {least} to {most}")
        return int(text)

    return number


def size(text: str) -> int:
    """The type of a size: bytes, or with K, M, G or T the units of 1024 of them."""
    match = re.fullmatch("([0-9]{1,12})([KMGT]?)", text)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a size such as 500M or 2G")
    return int(match[1]) << 10 * " KMGT".index(match[2] or " ")
