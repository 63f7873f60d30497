"""Marks that systems leave in their translations, of parts of words and of phrases, and their removal.

bpe    ``hou@@ ses``: all parts of a word but the last end with ``@@`` (subword-nmt, fastBPE)
spm    ``▁hou ses``: the first part of a word begins with ``▁`` (SentencePiece)
moses  ``the house |0-1| is |2-2|``: the source words of the phrase before it (Moses' ``-report-segmentation``)
"""

from __future__ import annotations

import re

_MARKS = {
    "bpe": re.compile(r"@@(?: |$)"),
    "spm": re.compile(r"(?<![^ ])▁"),
    "moses": re.compile(r"(?<![^ \t])\|[0-9]+-[0-9]+(?:,[^|]*)?\|(?![^ \t])"),
}

KINDS = tuple(_MARKS)


def joined(text: str, kind: str) -> str:
    """``text`` without the marks of a ``kind``, parts of words put together."""
    return text.replace(" ", "").replace("▁", " ") if kind == "spm" else _MARKS[kind].sub("", text)


def mark_in(text: str, kind: str) -> str:
    """The first mark of a ``kind`` in ``text``; empty without any."""
    found = _MARKS[kind].search(text)
    return found[0].rstrip() if found else ""
