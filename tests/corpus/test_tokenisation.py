"""Does a text look tokenised?"""

from __future__ import annotations

from pathlib import Path

import pytest

from mpitune.corpus.tokenisation import Punctuation, punctuation


@pytest.mark.parametrize(
    ("text", "attached", "alone"),
    [
        ("Mr. Smith , of the U.S. , came .\nz.B. so !\n", 0, 4),
        ("Mr. Smith, of the U.S., came.\nReally?! Yes\n", 4, 0),
        ("我们去吧，好吗？\n", 1, 0),
        ("3.5 e.g. it\n\n...\n", 0, 1),
        ("no marks at all\n", 0, 0),
    ],
)
def test_punctuation_is_counted(tmp_path: Path, text: str, attached: int, alone: int) -> None:
    (tmp_path / "text").write_text(text)
    found = punctuation(tmp_path / "text")
    assert found == Punctuation(attached, alone)
    assert found.looks_untokenised == (attached > alone)


def test_the_first_lines_are_enough(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a .\n" * 1000 + "a, b, c, d.\n" * 1000)
    assert punctuation(tmp_path / "text") == (0, 1000)
