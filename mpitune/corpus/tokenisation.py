"""A look at texts: are punctuation marks words of their own, and are the words of two texts of the same kind?"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

from mpitune.corpus.lines import lines
from mpitune.corpus.subwords import mark_in
from mpitune.corpus.text import split_words

LOG = logging.getLogger(__name__)

SAMPLE = 1000
"""Number of lines, or of sentences, looked at, from the first."""
_FEW = 5
"""Fewer punctuation marks at words may be abbreviations."""
_MARKS = ",;:!?؟،。，！？"
_ALONE = re.compile(rf"[.{_MARKS}]+")
_ATTACHED = re.compile(rf".*\w[.{_MARKS}]*[{_MARKS}]")
_MANY = 30
"""Fewer bigrams may have none in common by chance."""
_COMMON = 0.02
"""Share of the bigrams of translations that a reference has, at least."""
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


def warn_of_segmentation(path: Path, line: str) -> None:
    """Warn of Moses' marks of phrases in a ``line``, ``|0-1|``: they would count as words."""
    if mark := mark_in(line, "moses"):
        told = 'set data.join = "moses" (--join moses), or call Moses without -report-segmentation'
        LOG.warning("%s: hypotheses have marks of phrases, such as %s, which count as words: %s", path, mark, told)


def warn_of_other_words(
    files: Iterable[Path], translations: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> None:
    """Warn if ``translations``, read from ``files``, have marks that no reference has, or next to none of its bigrams.

    Those of the first `SAMPLE` sentences suffice.
    """
    names = ", ".join(map(str, files))
    for kind in ("bpe", "spm"):
        marks = (mark for words in translations if (mark := mark_in(" ".join(words), kind)))
        mark = next(marks, "")
        if mark and references and not any(mark_in(" ".join(words), kind) for words in references):
            told = f'set data.join = "{kind}" (--join {kind})'
            LOG.warning(
                "%s: hypotheses have marks of parts of words, %s, and references have none: %s", names, mark, told
            )
            return
    given, written = ([pair for words in texts for pair in pairwise(words)] for texts in (references, translations))
    known = set(given)
    found = sum(pair in known for pair in written)
    if min(len(given), len(written)) >= _MANY and found < _COMMON * len(written):
        LOG.warning(
            "%s: %d of %d pairs of adjacent words in first hypotheses are in the references, expected many: are words"
            " split, marked and written alike in both?",
            names,
            found,
            len(written),
        )
