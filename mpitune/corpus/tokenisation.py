"""A look at a text: is it tokenised, with punctuation marks as words of their own?"""

from __future__ import annotations

import logging
import re
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from mpitune.corpus.lines import lines
from mpitune.corpus.text import split_words

LOG = logging.getLogger(__name__)

SAMPLE = 1000
"""Number of lines looked at, from the first."""
_FEW = 5
"""Fewer punctuation marks at words may be abbreviations."""
_MARKS = ",;:!?؟،。，！？"
_ALONE = re.compile(rf"[.{_MARKS}]+")
_ATTACHED = re.compile(rf".*\w[.{_MARKS}]*[{_MARKS}]")
_FULL_STOP = re.compile(r".*\w\.")


class Punctuation(NamedTuple):
    """Numbers of punctuation marks in a text."""

    attached: int
    """At the end of a word. Full stops count at the end of a line only: others may be those of abbreviations."""
    alone: int
    """As words of their own."""

    @property
    def looks_untokenised(self) -> bool:
        return self.attached > self.alone


def punctuation(path: Path) -> Punctuation:
    """Punctuation in the first `SAMPLE` lines of a file. Raises DataError as `lines` does."""
    attached = alone = 0
    for _, line in islice(lines(path), SAMPLE):
        words = split_words(line)
        alone += sum(1 for word in words if _ALONE.fullmatch(word))
        attached += sum(1 for word in words if _ATTACHED.fullmatch(word))
        attached += bool(words and _FULL_STOP.fullmatch(words[-1]))
    return Punctuation(attached, alone)


def warn_of_untokenised(text: Path) -> None:
    """Warn of a text with punctuation marks at words: BLEU and rules are those of words."""
    found = punctuation(text)
    if found.looks_untokenised and found.attached >= _FEW:
        LOG.warning(
            "%s: %d of %d punctuation marks in the first %d lines are attached to words: is this text tokenised?",
            text,
            found.attached,
            sum(found),
            SAMPLE,
        )
