"""Text files line by line."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from mpitune.array_files.cache import fingerprint
from mpitune.corpus import lines
from mpitune.errors import DataError


def write(path: Path, content: str | bytes, *, zipped: bool = False) -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    return path


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
def test_lines_are_opened_by_content_and_not_by_name(tmp_path: Path, name: str, zipped: bool) -> None:
    path = write(tmp_path / name, "eins\r\n\nzwei\u2028\x85\u00a0drei", zipped=zipped)
    assert list(lines.lines(path)) == [(1, "eins"), (2, ""), (3, "zwei\u2028\x85\u00a0drei")]


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    assert list(lines.lines(write(tmp_path / "a", ""))) == []
    assert list(lines.lines(write(tmp_path / "b", "", zipped=True))) == []


def test_damaged_gzip_data_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"line %d\n" % i for i in range(5000)))
    corrupt = bytearray(whole)
    corrupt[len(whole) // 2] ^= 0xFF
    for raw in (whole[: len(whole) // 2], whole[:-4], whole[:5], bytes(corrupt), whole + b"tail"):
        path = write(tmp_path / "a.gz", raw)
        with pytest.raises(DataError, match=r"a\.gz:\d+: found damaged gzip data .*expected a whole gzip file"):
            list(lines.lines(path))


def test_bytes_that_are_not_utf8_are_told_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a:2: found bytes that are not UTF-8"):
        list(lines.lines(write(tmp_path / "a", b"gut\n\xff\xfe\n")))


@pytest.mark.parametrize(("pack", "name"), [(bz2.compress, "bzip2"), (lzma.compress, "xz")])
def test_other_packers_than_gzip_are_named(tmp_path: Path, pack: Callable[[bytes], bytes], name: str) -> None:
    packed = pack(b"".join(b"%d\n" % (n * n) for n in range(999)))
    with pytest.raises(DataError, match=f"a:1: found data packed by {name}, expected a text, plain or gzipped"):
        list(lines.lines(write(tmp_path / "a", packed)))
    assert list(lines.lines(write(tmp_path / "a", "BZh is a word\n"))) == [(1, "BZh is a word")]


def test_nul_characters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a:2: found a NUL character, expected text without any"):
        list(lines.lines(write(tmp_path / "a", "gut\nb\0se\n")))
    with pytest.raises(DataError, match=r"a:1: found bytes that are not UTF-8"):
        list(lines.lines(write(tmp_path / "a", "gut\n".encode("utf-16"))))


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("content", ["eins\nzw\rei\ndrei\n", "eins\r\nzwei\r\rdrei\r\n", "eins\n\rzwei", "ok\n\ra\0\n"])
def test_carriage_returns_within_a_line_are_refused(tmp_path: Path, content: str, zipped: bool) -> None:
    path, read = write(tmp_path / "a", content, zipped=zipped), []
    with pytest.raises(DataError, match=r"a:2: found a carriage return within a line, expected lines that end with LF"):
        for line in lines.lines(path):
            read.append(line)
    assert len(read) == 1
    with pytest.raises(DataError, match=r"a:1: found a carriage return"):
        list(lines.lines(write(tmp_path / "a", "von\reinem\ralten\rMac\r", zipped=zipped)))
    assert list(lines.lines(write(tmp_path / "a", "eins\r\nzwei\r", zipped=zipped))) == [(1, "eins"), (2, "zwei")]


@pytest.mark.parametrize("zipped", [False, True])
def test_long_lines_are_not_read_to_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 1000)
    monkeypatch.setattr(lines, "_BLOCK", 100)
    monkeypatch.setattr(lines, "_STEP", 100)
    good = 1000 * "x"
    assert list(lines.lines(write(tmp_path / "a", f"{good}\n{good}", zipped=zipped))) == [(1, good), (2, good)]
    for wrong in (f"ok\n{good}y\nok\n", f"ok\n{good}y", f"ok\n{1000 * good}", f"ok\n{good}y\n{1000 * good}"):
        with pytest.raises(DataError, match=r"a:2: found a line of more than \d+ MB, expected less"):
            list(lines.lines(write(tmp_path / "a", wrong, zipped=zipped)))


def test_zeros_are_told_at_once(tmp_path: Path) -> None:
    """A device without an end; a few kB that a program unpacks to a GB."""
    with pytest.raises(DataError, match=r"/dev/zero:1: found a NUL character"):
        list(lines.lines(Path("/dev/zero")))
    bomb = gzip.compress(bytes(1 << 20))
    path = write(tmp_path / "a.gz", gzip.compress(b"good\n") + 1000 * bomb)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"a.gz:2: found a NUL character"):
        list(lines.lines(path))
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_a_pipe_cannot_be_read_twice(tmp_path: Path) -> None:
    """Nobody writes to it: opening it would wait forever."""
    os.mkfifo(tmp_path / "pipe")
    for read in (lines.check_readable, fingerprint):
        with pytest.raises(DataError, match=r"pipe: found a pipe or a device, expected a regular file"):
            read(tmp_path / "pipe")


@pytest.mark.parametrize("block", [1, 7, 1000])
@pytest.mark.parametrize("zipped", [False, True])
def test_blocks_have_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool, block: int) -> None:
    monkeypatch.setattr(lines, "_BLOCK", block)
    content = "\ufeffein wort\n\nund eine lange zeile\r\n" + 50 * "x" + "\nende"
    blocks = list(lines.line_blocks(write(tmp_path / "a", content, zipped=zipped)))
    assert b"".join(blocks).decode() == content[1:].replace("\r\n", "\n") + "\n"
    assert all(not block or block.endswith(b"\n") for block in blocks)


@pytest.mark.parametrize("damage", ["cut", "latin"])
@pytest.mark.parametrize("block", [1, 1 << 20])
def test_lines_before_a_damaged_one_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, damage: str
) -> None:
    monkeypatch.setattr(lines, "_BLOCK", block)
    content = b"".join(b"line %d\n" % i for i in range(50_000))
    zipped = gzip.compress(content)
    path = write(tmp_path / "a", zipped[: len(zipped) // 2] if damage == "cut" else content + b"t\xfcr\n" + content)
    read = []
    with pytest.raises(DataError) as error:
        for line in lines.lines(path):
            read.append(line)
    assert len(read) >= 10_000
    assert read == [(i + 1, f"line {i}") for i in range(len(read))]
    assert str(error.value).startswith(f"{path}:{len(read) + 1}: found ")


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: found no such file"):
        list(lines.lines(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"found a folder, expected a readable file"):
        list(lines.lines(tmp_path))
    with pytest.raises(DataError, match=r"nowhere: found no such file"):
        lines.check_readable(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"expected a readable file \(an environment variable is written \${NAME}\)"):
        lines.check_readable(tmp_path / "$DATA" / "train.de")
    lines.check_readable(write(tmp_path / "here", ""))


@pytest.mark.parametrize("zipped", [False, True])
def test_a_byte_order_mark_is_no_text(tmp_path: Path, zipped: bool) -> None:
    path = write(tmp_path / "a", "\ufeffeins\n\ufeffzwei", zipped=zipped)
    assert list(lines.lines(path)) == [(1, "eins"), (2, "\ufeffzwei")]
