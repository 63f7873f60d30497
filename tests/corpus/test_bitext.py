"""Word-aligned bitexts."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpitune.corpus.bitext import AlignedFiles
from mpitune.errors import DataError


def test_a_repeated_link_counts_once(tmp_path: Path) -> None:
    for name, line in (("f", "a b"), ("e", "x y"), ("a", "1-1 0-0 1-1 1-1 0-0")):
        (tmp_path / name).write_text(f"{line}\n")
    pairs = AlignedFiles(tmp_path / "f", tmp_path / "e", (tmp_path / "a",)).read()
    assert list(pairs) == [(["a", "b"], ["x", "y"], [[(1, 1), (0, 0)]])]


def test_several_alignments_are_read_side_by_side(tmp_path: Path) -> None:
    texts = {"f": ["a b", "c"], "e": ["x y", "z"], "a": ["0-0", "0-0"], "b": ["0-1 1-0", ""]}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = AlignedFiles(tmp_path / "f", tmp_path / "e", (tmp_path / "a", tmp_path / "b"))
    first, second = files.read()
    assert [first[2], second[2]] == [[[(0, 0)], [(0, 1), (1, 0)]], [[(0, 0)], []]]
    for text, told in (("0-0\n", "b: found 1 line, expected as many as"), ("\n\n\n", "b:3: found a line more")):
        (tmp_path / "b").write_text(text)
        with pytest.raises(DataError, match=told):
            list(files.read())
