"""Files that have changed, or have not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mpitune.corpus.fingerprint import fingerprint, unchanged
from mpitune.errors import DataError


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_a_file_is_unchanged_by_time_or_by_content(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "eins")
    known = fingerprint(path)
    assert known.size == 4
    assert unchanged(known, path)
    os.utime(path, ns=(1, 1))
    assert unchanged(known, path), "same content at another time"
    assert unchanged(known, write(tmp_path / "b", "eins")), "same content elsewhere"
    other = write(tmp_path / "c", "zwei")
    os.utime(other, ns=(known.mtime_ns, known.mtime_ns))
    assert not unchanged(known, other), "another file of the same size and time"
    write(path, "vier")
    os.utime(path, ns=(2, 2))
    assert not unchanged(known, path)
    assert not unchanged(known, write(path, "eins und mehr"))
    path.unlink()
    assert not unchanged(known, path)
    with pytest.raises(DataError, match="no such file"):
        fingerprint(path)
