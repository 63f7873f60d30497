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
from mpitune.files import open_regular, open_to_read

BYTE_ORDER_MARK = "\ufeff".encode()
"""Byte order mark, which some editors write at the beginning of UTF-8 files; not a part of the text."""
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
"""Exceptions of Python for damaged or truncated gzip data."""

MAX_LINE = 1 << 26
"""Maximum number of bytes of a line, without which a small file of zeros that is packed would fill the memory."""

_BLOCK = 1 << 20
"""Bytes of a block of `line_blocks`, at least, unless the file ends."""
_STEP = 1 << 17
"""Bytes that are read at a time; those of a step that ends in damaged gzip data are lost."""
_OTHER_PACKERS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
"""From the first bytes of files that other programs than gzip have packed to the name of the program."""


def lines(path: Path, progress: Progress | None = None) -> Iterator[tuple[int, str]]:
    """The lines of a file, plain or gzipped, without line ends, with their numbers from 1.

    A line ends with LF or CR LF. ``progress``: that of a task whose items are the `kilobytes` of files. Raises
    DataError for a missing file, damaged gzip data, or a line that is not UTF-8, has more than `MAX_LINE` bytes, or
    contains a NUL character or another CR.
    """
    number = 0
    for block in line_blocks(path, progress):
        for line in block.decode().split("\n")[:-1]:
            number += 1
            yield number, line


def read_text(path: Path) -> str:
    """The text of a file, as `lines` reads it, each line ending with "\\n". Raises as `lines` does."""
    return "".join(f"{line}\n" for _, line in lines(path))


def line_blocks(path: Path, progress: Progress | None = None) -> Iterator[bytearray]:
    """The bytes of a file, plain or gzipped, in blocks of whole lines, each ending with LF.

    A byte order mark is left out. ``progress`` as for `lines`. Raises DataError as `lines` does, after the lines before
    the damaged one.
    """
    number = 1
    for block, damage in _whole_lines(path, progress):
        if number == 1 and block.startswith(BYTE_ORDER_MARK):
            del block[: len(BYTE_ORDER_MARK)]
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        bad, found, expected = _fault(block, first=number == 1)
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


def _fault(block: bytearray, *, first: bool) -> tuple[int, str, str]:
    """The place of the first byte of a ``block`` that no line may have, or -1; what is found there, and expected.

    ``first``: it is the first block of its file.
    """
    try:
        block.decode()
        end, fault = len(block), (-1, "", "")
    except UnicodeDecodeError as error:
        if first and block.startswith(tuple(_OTHER_PACKERS)):
            packer = next(name for magic, name in _OTHER_PACKERS.items() if block.startswith(magic))
            return 0, f"data packed by {packer}", "a text, plain or gzipped"
        end, fault = error.start, (error.start, f"bytes that are not UTF-8 ({error.reason})", "UTF-8")
    # A NUL ends a string in checkpoints and in cdec's records.
    if (nul := block.find(b"\0", 0, end)) >= 0:
        end, fault = nul, (nul, "a NUL character", "text without any")
    if (cr := block.find(b"\r", 0, end)) >= 0:
        return cr, "a carriage return within a line", "lines that end with LF or CR LF"
    if len(block) > MAX_LINE and (start := _long_line(block, end)) >= 0:
        return start, f"a line of more than {MAX_LINE >> 20} MB", "less: are line ends missing?"
    return fault


def _long_line(block: bytearray, end: int) -> int:
    """The place of the first line of more than `MAX_LINE` bytes in ``block[:end]``, or -1."""
    start = 0
    while end - start > MAX_LINE:
        if (last := block.rfind(b"\n", start, start + MAX_LINE + 1)) < 0:
            return start
        start = last + 1
    return -1


def kilobytes(files: Iterable[Path]) -> int:
    """The size of files as they are on disk, each rounded up; 0 for a pipe. Raises DataError for a missing file."""
    total = 0
    for path in files:
        with open_to_read(path) as file:
            total += _kilobytes(os.fstat(file.fileno()).st_size)
    return total


def _kilobytes(size: int) -> int:
    return -(-size // 1024)


def _whole_lines(path: Path, progress: Progress | None) -> Iterator[tuple[bytearray, Exception | None]]:
    """Blocks of whole lines; the last one comes with the error that reading ended with, if any.

    Lines of a pipe are not kept waiting for a block to be full.
    """
    block, more, damage = bytearray(), b"\n", None
    position = 0
    with open_to_read(path) as raw:
        file = _unpacked(raw)
        while more:
            # A long line is read in ever larger steps, because its bytes are searched again after each.
            size = 2 * len(block) + _BLOCK if raw.seekable() else len(block) + 1
            try:
                while len(block) < size and (more := file.read1(_STEP)):
                    block += more
                    # A line that is wrong anyhow is not read to its end: a device may have none.
                    if b"\0" in more or (len(block) > MAX_LINE and block.rfind(b"\n") < 0):
                        more = b""
                        break
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
                if progress is not None:
                    progress.advance(position - before)


@contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file, plain or gzipped, for reading its uncompressed bytes. Raises DataError if it cannot be opened.

    Reading damaged gzip data raises one of `GZIP_ERRORS`.
    """
    with open_to_read(path) as raw:
        yield _unpacked(raw)


def _unpacked(raw: io.BufferedReader) -> io.BufferedReader:
    """``raw`` itself, or its uncompressed bytes if it is gzipped."""
    if raw.peek(2)[:2] == b"\x1f\x8b":
        return io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=raw)), 1 << 17)
    return raw


def check_readable(path: Path) -> None:
    """Raise DataError if a file cannot be opened, or is not a regular file, which alone can be read more than once."""
    open_regular(path).close()
