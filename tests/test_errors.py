"""Text of others in messages: one line, without what a terminal acts upon."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

from mpitune.errors import UNPRINTABLE, printable


def test_control_characters_are_shown_as_repr_shows_them() -> None:
    text = "\x1b]0;owned\x07 a\nb\rc\td\x00\x7f\x9b31m\u2028\u2029\u202egpj.\u2066\u200e\udce9"
    assert printable(text) == repr(text)[1:-1].encode("ascii", "backslashreplace").decode()
    assert printable(Path(os.fsdecode(b"caf\xe9\n"))) == r"caf\udce9\n"


def test_words_of_all_scripts_stay_as_they_are() -> None:
    for text in (
        "C:\\n 'das' \"haus\"",
        "naïve été",
        "日本語\u3000。",
        "می\u200cخواهم",
        "क्\u200dष",
        "\U0001f600",
        "a\u00a0b",
    ):
        assert printable(text) == text


def test_every_character_that_controls_lines_or_direction_is_meant() -> None:
    """By Unicode's own categories and names: those of the zero-width joiners, for one, belong to words."""
    controls = {code for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cs", "Zl", "Zp")}
    marks = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    directed = {code for code in range(0x110000) if unicodedata.bidirectional(chr(code)) in marks}
    names = ("LEFT-TO-RIGHT MARK", "RIGHT-TO-LEFT MARK", "ARABIC LETTER MARK")
    named = {ord(unicodedata.lookup(name)) for name in names}
    assert set(UNPRINTABLE) == controls | directed | named
