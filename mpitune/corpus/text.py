"""Text files: lines, sentences with their grammars, references; detection of changed files.

Files are plain or gzipped, detected from the content. Words are separated by blanks and tabs only: other Unicode spaces
are parts of words, as in the decoders that read the same files.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

from mpitune.corpus.progress import Progress
from mpitune.errors import DataError

_SEPARATOR = re.compile(r"\|\|\|(?<![^ \t]\|\|\|)(?![^ \t])")
_SEG = re.compile(r'<seg((?:[ \t]+[^\s<>="]+[ \t]*=[ \t]*"[^"]*")*)[ \t]*>(.*)</seg>')
_ATTRIBUTE = re.compile(r'([^\s<>="]+)[ \t]*=[ \t]*"([^"]*)"')
SEG_TAG = re.compile(r"<seg(?=[ \t>]|$)|</seg>")
"""A part of the tag around a sentence that names its grammar; such a sentence cannot contain it."""


class SourceSentence(NamedTuple):
    """One input sentence."""

    words: list[str]
    grammar: Path | None
    """The grammar file named by its ``<seg>`` tag, if any."""


class SentencePair(NamedTuple):
    """One input sentence and its reference translations."""

    source: SourceSentence
    references: list[list[str]]


class Fingerprint(NamedTuple):
    """The state of a file at the time when it was read."""

    path: str
    size: int
    mtime_ns: int
    digest: str


MAX_WORDS = 5000
"""Maximum number of words of a sentence or reference; decoding takes memory quadratic in it, 1 GB at the maximum."""

MAX_WORD_LENGTH = 10_000
"""Maximum number of characters of a word of a sentence or reference."""

BYTE_ORDER_MARK = "\ufeff".encode()
"""Byte order mark, which some editors write at the beginning of UTF-8 files; not a part of the text."""

_BLOCK = 1 << 20
"""Bytes of a block of `line_blocks`, at least, unless the file ends."""
_STEP = 1 << 17
"""Bytes that are read at a time; those of a step that ends in damaged gzip data are lost."""

_OTHER_PACKERS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
"""How files begin that other programs than gzip have packed."""

GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
"""Exceptions of Python for damaged or truncated gzip data."""


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


def split_words(text: str) -> list[str]:
    """The words of ``text``, separated by blanks and tabs."""
    return list(filter(None, text.replace("\t", " ").split(" ")))


def split_fields(line: str) -> list[str]:
    """The fields of ``line``, separated by ``|||`` between blanks, tabs or line ends."""
    return _SEPARATOR.split(line)


def clock(seconds: float) -> str:
    """Format a duration: ``minutes:seconds``, or ``hours:minutes:seconds`` from an hour on."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def counted(number: int, what: str) -> str:
    """Number and noun: ``1 field``, ``2 fields``."""
    return f"{number} {what}{'s' * (number != 1)}"


def parse_number(text: str) -> float:
    """The finite number in ``text``, in ASCII. Raises ValueError for anything else."""
    value = float(text)
    # `float` also takes _ between digits, and the digits and blanks of all scripts.
    if "_" in text or not text.isascii() or not math.isfinite(value):
        raise ValueError(text)
    return value


def resolve(name: str, beside: Path) -> Path | None:
    """The file ``name`` in the folder of the file ``beside``, else in the working folder; None if in neither."""
    return next((path for path in (beside.parent / name, Path(name)) if path.is_file()), None)


def read_sentences(path: Path) -> list[SourceSentence]:
    """The sentences of a source file. Raises DataError for a bad line."""
    return [_source(path, number, line) for number, line in lines(path)]


def read_bitext(path: Path, limit: int = 0) -> list[SentencePair]:
    """The pairs of lines ``source ||| reference [||| reference ...]``, at most ``limit`` (0: all).

    Raises DataError for a bad line.
    """
    return [_pair(path, number, line) for number, line in islice(lines(path), limit or None)]


def read_parallel(source: Path, references: Sequence[Path], limit: int = 0) -> list[SentencePair]:
    """The sentences of ``source`` with their translations from each of ``references``, line by line.

    Raises DataError for a bad line, or if a file has more or fewer lines than the source.
    """
    inputs: list[SourceSentence] = []
    count = 0
    for count, line in lines(source):
        if not limit or count <= limit:
            inputs.append(_source(source, count, line))
    translations: list[list[list[str]]] = [[] for _ in inputs]
    for path in references:
        number = 0
        for number, line in lines(path):
            if number <= len(inputs):
                translations[number - 1].append(checked_words(path, number, line))
        if number != count:
            raise DataError.at(path, None, found=counted(number, "line"), expected=f"{count}, as many as {source} has")
    return [SentencePair(*pair) for pair in zip(inputs, translations, strict=True)]


def read_references(references: Sequence[Path], limit: int = 0) -> list[SentencePair]:
    """The translations of sentences from each of ``references``, line by line; the sentences have no words.

    Raises DataError if a file has more or fewer lines than the first one.
    """
    texts = [[checked_words(path, number, line) for number, line in lines(path)] for path in references]
    for path, text in zip(references, texts, strict=True):
        if len(text) != len(texts[0]):
            expected = f"{len(texts[0])}, as many as {references[0]} has"
            raise DataError.at(path, None, found=counted(len(text), "line"), expected=expected)
    nothing = SourceSentence([], None)
    return [SentencePair(nothing, list(of_one)) for of_one in zip(*texts, strict=True)][: limit or None]


def _pair(path: Path, number: int, line: str) -> SentencePair:
    source, *references = split_fields(line)
    if not references:
        raise DataError.at(path, number, found="1 field", expected="source ||| reference [||| reference ...]")
    texts = [checked_words(path, number, reference) for reference in references]
    return SentencePair(_source(path, number, source), texts)


def _source(path: Path, number: int, text: str) -> SourceSentence:
    """A sentence, plain or inside ``<seg ...> </seg>``."""
    text = text.strip(" \t")
    if not SEG_TAG.search(text):
        return SourceSentence(checked_words(path, number, text), None)
    match = _SEG.fullmatch(text)
    attributes = _ATTRIBUTE.findall(match[1]) if match else []
    if match is None or SEG_TAG.search(match[2]) or len(dict(attributes)) < len(attributes):
        expected = '<seg grammar="FILE" id="N">sentence</seg> or plain text'
        raise DataError.at(path, number, found=f"a malformed segment {text[:60]!r}", expected=expected)
    name = dict(attributes).get("grammar")
    if name is None:
        return SourceSentence(checked_words(path, number, match[2]), None)
    grammar = resolve(name, beside=path)
    if grammar is None:
        expected = f"one in {path.parent} or in the working folder"
        raise DataError.at(path, number, found=f"no such grammar file {name!r}", expected=expected)
    return SourceSentence(checked_words(path, number, match[2]), grammar)


def checked_words(path: Path, number: int, text: str) -> list[str]:
    """The words of a sentence or reference: at most `MAX_WORDS`, of at most `MAX_WORD_LENGTH` characters each."""
    words = split_words(text)
    if "|||" in words:
        raise DataError.at(path, number, found="the separator |||", expected="a sentence alone, not a bitext")
    if len(words) > MAX_WORDS:
        expected = f"a sentence of at most {MAX_WORDS}: is a line end missing?"
        raise DataError.at(path, number, found=f"{len(words)} words", expected=expected)
    if (longest := max(map(len, words), default=0)) > MAX_WORD_LENGTH:
        expected = f"words of at most {MAX_WORD_LENGTH}: is a blank missing?"
        raise DataError.at(path, number, found=f"a word of {longest} characters", expected=expected)
    return words


def fingerprint(path: Path) -> Fingerprint:
    """The path, size, time and content digest of a file. Raises DataError as `check_readable` does."""
    check_readable(path)
    with _open(path) as file:
        status = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    return Fingerprint(os.path.abspath(path), status.st_size, status.st_mtime_ns, digest)


def all_unchanged(known: Sequence[Sequence[Any]], paths: Sequence[Path]) -> bool:
    """True if each of ``paths`` has the content of its fingerprint, a row of ``known``, as read from JSON."""
    return len(known) == len(paths) and all(
        unchanged(Fingerprint(*row), path) for row, path in zip(known, paths, strict=True)
    )


def unchanged(known: Fingerprint, path: Path) -> bool:
    """True if ``path`` has the content of fingerprint ``known``: by path, size and time, or else by the digest."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    if status.st_size != known.size:
        return False
    same_file = os.path.abspath(path) == known.path and status.st_mtime_ns == known.mtime_ns
    return same_file or fingerprint(path).digest == known.digest
