"""Word-aligned bitexts."""

from __future__ import annotations

from pathlib import Path

from mpitune.corpus.bitext import AlignedFiles


def test_a_repeated_link_counts_once(tmp_path: Path) -> None:
    for name, line in (("f", "a b"), ("e", "x y"), ("a", "1-1 0-0 1-1 1-1 0-0")):
        (tmp_path / name).write_text(f"{line}\n")
    pairs = AlignedFiles(tmp_path / "f", tmp_path / "e", tmp_path / "a").read()
    assert list(pairs) == [(["a", "b"], ["x", "y"], [(1, 1), (0, 0)])]
