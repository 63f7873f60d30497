"""Text files line by line, plain or gzipped, which their content tells."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from mpitune.corpus.progress import Progress
from mpitune.errors import DataError

BYTE_ORDER_MARK = "\ufeff".encode()
"""Byte order mark, which some editors write at the beginning of UTF-8 files; not a part of the text."""
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
"""Exceptions of Python for damaged or truncated gzip data."""

_BLOCK = 1 << 20
"""Bytes of a block of `line_blocks`, at least, unless the file ends."""
_STEP = 1 << 17
"""Bytes that are read at a time; those of a step that ends in damaged gzip data are lost."""
_OTHER_PACKERS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
"""How files begin that other programs than gzip have packed."""


def lines(path: Path, progress: Progress | None = None) -> Iterator[tuple[int, str]]:
    """The lines of a file, plain or gzipped, without line ends, with their numbers from 1.

    ``progress``: that of a task whose items are the `kilobytes` of files. Raises DataError for a missing file, damaged
    gzip data, or a line that is not UTF-8 or contains a NUL character.
    """
    number = 0
    for block in line_blocks(path, progress):
        for line in block.decode().split("\n")[:-1]:
            number += 1
            yield number, line.rstrip("\r")


def read_text(path: Path) -> str:
    """The text of a file, as `lines` reads it, each line ending with "\\n". Raises as `lines` does."""
    return "".join(f"{line}\n" for _, line in lines(path))


def line_blocks(path: Path, progress: Progress | None = None) -> Iterator[bytearray]:
    """The bytes of a file, plain or gzipped, in blocks of whole lines; a last line without line end gets one.

    A byte order mark is left out. ``progress`` as for `lines`. Raises DataError as `lines` does, after the lines before
    the damaged one.
    """
    number = 1
    for block, damage in _whole_lines(path, progress or Progress()):
        if number == 1 and block.startswith(BYTE_ORDER_MARK):
            del block[: len(BYTE_ORDER_MARK)]
        try:
            block.decode()
            # A NUL ends a string in checkpoints and in cdec's records.
            bad, found, expected = block.find(b"\0"), "a NUL character", "text without any"
        except UnicodeDecodeError as error:
            bad, found, expected = error.start, f"bytes that are not UTF-8 ({error.reason})", "UTF-8"
            if number == 1 and block.startswith(tuple(_OTHER_PACKERS)):
                packer = next(name for magic, name in _OTHER_PACKERS.items() if block.startswith(magic))
                bad, found, expected = 0, f"data packed by {packer}", "a text, plain or gzipped"
        if bad >= 0:
            valid = block.rfind(b"\n", 0, bad) + 1
            yield block[:valid]
            number += block.count(b"\n", 0, valid)
            raise DataError.at(path, number, found=found, expected=expected)
        yield block
        number += block.count(b"\n")
        if damage is not None:
            found = f"damaged gzip data ({damage})"
            raise DataError.at(path, number, found=found, expected="a whole gzip file")


def kilobytes(files: Iterable[Path]) -> int:
    """The size of files as they are on disk, each rounded up; 0 for a pipe. Raises DataError for a missing file."""
    total = 0
    for path in files:
        with _open(path) as file:
            total += _kilobytes(os.fstat(file.fileno()).st_size)
    return total


def _kilobytes(size: int) -> int:
    return -(-size // 1024)


def _whole_lines(path: Path, progress: Progress) -> Iterator[tuple[bytearray, Exception | None]]:
    """Blocks of whole lines; the last one comes with the error that reading ended with, if any.

    Lines of a pipe are not kept waiting for a block to be full.
    """
    block, more, damage = bytearray(), b"\n", None
    position = 0
    with _open(path) as raw:
        file = _unpacked(raw)
        while more:
            # A long line is read in ever larger steps, because its bytes are searched again after each.
            size = 2 * len(block) + _BLOCK if raw.seekable() else len(block) + 1
            try:
                while len(block) < size and (more := file.read1(_STEP)):
                    block += more
            except GZIP_ERRORS as error:
                more, damage = b"", error
            end = block.rfind(b"\n") + 1
            if not more and damage is None and end < len(block):
                block += b"\n"
                end = len(block)
            yield block[:end], damage
            block = block[end:]
            if raw.seekable():
                before, position = position, _kilobytes(raw.tell())
                progress.advance(position - before)


@contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file, plain or gzipped, for reading its uncompressed bytes. Raises DataError if it cannot be opened.

    Reading damaged gzip data raises one of `GZIP_ERRORS`.
    """
    with _open(path) as raw:
        yield _unpacked(raw)


def _unpacked(raw: io.BufferedReader) -> io.BufferedReader:
    """``raw`` itself, or its uncompressed bytes if it is gzipped."""
    if raw.peek(2)[:2] == b"\x1f\x8b":
        return io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=raw)), 1 << 17)
    return raw


def check_readable(path: Path) -> None:
    """Raise DataError if a file cannot be opened, or is not a regular file, which alone can be read more than once."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        expected = "a regular file, as it is read more than once"
        raise DataError.at(path, None, found="a pipe or a device", expected=expected)
    with _open(path):
        pass


def _open(path: Path) -> io.BufferedReader:
    try:
        return open(path, "rb")
    except IsADirectoryError:
        raise DataError.at(path, None, found="a folder", expected="a readable file") from None
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        hint = " (an environment variable is written ${NAME})" if "$" in str(path) else ""
        raise DataError.at(path, None, found=found, expected=f"a readable file{hint}") from None
