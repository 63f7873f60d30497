"""Word-aligned bitexts."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpitune.corpus.bitext import AlignedFiles, read_pairs
from mpitune.corpus.text import MAX_WORDS
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


def test_an_alignment_without_links_is_refused(tmp_path: Path) -> None:
    for name, line in (("f", "a b"), ("e", "x y"), ("a", "")):
        (tmp_path / name).write_text(f"{line}\n" * 3)
    with pytest.raises(DataError, match="/a: found no links in 3 lines, expected positions of words"):
        list(AlignedFiles(tmp_path / "f", tmp_path / "e", (tmp_path / "a",)).read())


@pytest.mark.parametrize(
    ("line", "link", "swapped"),
    [("0-0 2-1", "2-1", True), ("0-2 2-0", "2-0", False), ("1-3", "1-3", False), ("2-1 x", "2-1", False)],
)
def test_swapped_sides_are_told_where_they_explain_a_line(tmp_path: Path, line: str, link: str, swapped: bool) -> None:
    """Of two and three words: the question is asked if all links fit the other way round."""
    for name, text in (("f", "a b"), ("e", "x y z"), ("a", line)):
        (tmp_path / name).write_text(f"{text}\n")
    with pytest.raises(DataError) as raised:
        list(AlignedFiles(tmp_path / "f", tmp_path / "e", (tmp_path / "a",)).read())
    expected = f"found '{link}', expected i-j with i below 2 and j below 3, the numbers of words, counted from 0"
    question = ": are source and target swapped?" if swapped else ""
    assert str(raised.value) == f"{tmp_path}/a:1: {expected}{question}"


@pytest.mark.parametrize("target", [True, False])
def test_a_text_that_names_grammars_is_no_bitext(tmp_path: Path, target: bool) -> None:
    """A job without [grammar] takes its texts for a bitext: the grammars would be left aside without a word."""
    (tmp_path / "f").write_text('a\n<seg grammar="g.0.gz" id="0"> b c </seg>\n' if target else "<seg>a</seg> ||| x\n")
    (tmp_path / "e").write_text("x\ny\n")
    with pytest.raises(DataError, match=rf"f:{1 + target}: found a <seg> tag, expected words alone \(.*per_sentence"):
        list(read_pairs(tmp_path / "f", tmp_path / "e" if target else None))


@pytest.mark.parametrize("longer", ["f", "e"])
def test_pairs_have_the_limits_of_sentences(tmp_path: Path, longer: str) -> None:
    """Positions beyond 32,767 do not fit the compiled bitext."""
    long = " ".join(["w"] * (MAX_WORDS + 1))
    for name in ("f", "e"):
        (tmp_path / name).write_text(f"w\n{long if name == longer else 'w'}\n")
    (tmp_path / "a").write_text(f"0-0\n{MAX_WORDS}-0\n" if longer == "f" else f"0-0\n0-{MAX_WORDS}\n")
    told = f"{longer}:2: found {MAX_WORDS + 1} words, expected a sentence of at most {MAX_WORDS}"
    with pytest.raises(DataError, match=told):
        list(AlignedFiles(tmp_path / "f", tmp_path / "e", (tmp_path / "a",)).read())
    (tmp_path / "fe").write_text(f"w ||| w\n{long} ||| w\n")
    with pytest.raises(DataError, match=f"fe:2: found {MAX_WORDS + 1} words"):
        list(AlignedFiles(tmp_path / "fe", None, (tmp_path / "a",)).read())
