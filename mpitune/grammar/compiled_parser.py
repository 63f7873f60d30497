"""Parser of well-formed lines in the formats of cdec and Joshua: array code on what `corpus.tokens` makes of blocks.

A word is parsed once in each role (side of a rule, left-hand side, name of a score). A line that is not accepted goes
to `LineParser`, which defines the notation and its errors.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.corpus.tokens import LINKS, NEW, SCORES, WORDS, Lines, LineSplitter, row_of, runs
from mpitune.grammar.formats import LHS, CdecFormat, gap_number
from mpitune.grammar.line_parser import (
    GAP_NUMBERS,
    MAX_GAPS,
    MAX_SYMBOLS,
    SOURCE_GAP,
    TARGET_GAP,
    LineParser,
    ParsedLines,
    Vocabularies,
)

_LHS, _SOURCE, _TARGET, _SCORES, _ALIGN = range(5)
"""Fields of a line."""
_KINDS = (WORDS, WORDS, WORDS, SCORES, LINKS)

_MEANING = np.dtype([(name, "<i4") for name in ("source", "target", "lhs", "label", "gap", "category")])
"""A word in each role: symbol on the source side and on the target side, as in `Rules`; category as left-hand side and
label of a score, both -1 if it is none; number of the gap on the source side, 0 without one, and category of the gap on
the target side, -1 without one."""
_UNKNOWN = np.array((NEW, NEW, NEW, NEW, 0, -1), dtype=_MEANING)
_WRONG_GAP = MAX_GAPS + 1
"""Number of all gaps that no line may have."""


class CompiledParser:
    """Parses blocks of lines; results and errors are those of `LineParser`."""

    def __init__(self, table_format: CdecFormat, vocabularies: Vocabularies) -> None:
        """``vocabularies``: new names are added to them."""
        self.format = table_format
        self._vocabularies = vocabularies
        self._line_parser = LineParser(table_format, vocabularies)
        self._splitter = LineSplitter()
        self._meaning = np.zeros(0, dtype=_MEANING)

    def parse(self, text: bytearray) -> Iterator[ParsedLines]:
        """Parse whole lines. Raises MalformedLine, after the lines before the malformed one."""
        lines = self._splitter.split(text, _KINDS)
        self._parse_words(lines)
        accepted, parsed = self._parsed(lines)
        for first, last, are_accepted in runs(accepted):
            if are_accepted:
                yield parsed.between(first, last)
            else:
                yield from self._line_parser.parse(text[lines.start[first] : lines.start[last]])

    def _parsed(self, lines: Lines) -> tuple[np.ndarray, ParsedLines]:
        """The lines that are accepted (bool), and all lines as if they were."""
        count, meaning = len(lines.fields), self._meaning
        lhs_ptr, lhs_words = lines.row(_LHS)
        source_ptr, source_words = lines.row(_SOURCE)
        target_ptr, target_words = lines.row(_TARGET)
        score_ptr, names = lines.row(_SCORES)
        align_ptr, align = lines.row(_ALIGN)
        source, target = meaning["source"][source_words], meaning["target"][target_words]
        label = np.where(names < 0, 0, meaning["label"][names])
        score = lines.value[: len(label)].copy()
        score[label == 0] *= self.format.unnamed_sign
        sources, targets = np.diff(source_ptr), np.diff(target_ptr)
        accepted = (lines.fields >= 3) & (lines.fields <= len(_KINDS)) & (np.diff(lhs_ptr) == 1)
        accepted &= (sources > 0) & (np.maximum(sources, targets) <= MAX_SYMBOLS)
        lhs = np.full(count, -1, dtype=np.int32)
        lhs[accepted] = meaning["lhs"][lhs_words[lhs_ptr[:-1][accepted]]]
        accepted &= lhs >= 0

        gap, target_gap = np.flatnonzero(source < 0), np.flatnonzero(target < 0)
        line, target_line = row_of(source_ptr, gap), row_of(target_ptr, target_gap)
        gaps, target_gaps = np.bincount(line, minlength=count), np.bincount(target_line, minlength=count)
        first = row_ends(gaps)[:-1]
        number, order = meaning["gap"][source_words[gap]], np.arange(len(gap)) - first[line] + 1
        accepted[line[(order > MAX_GAPS) | (number != 0) & (number != order)]] = False
        # Each gap of the source side once, of its category.
        number = -target[target_gap]
        accepted &= (target_gaps == gaps) & (np.bincount(target_line, number, count) == gaps * (gaps + 1) // 2)
        category, of_source = meaning["category"][target_words[target_gap]], np.append(-1 - source[gap], -1)
        other = (category >= 0) & (category != of_source[np.minimum(first[target_line] + number - 1, len(gap))])
        accepted[target_line[other | (number > gaps[target_line])]] = False

        line, i, j = np.repeat(np.arange(count), np.diff(align_ptr)), align & 0xFFFF, align >> 16
        accepted[line[(align < 0) | (i >= sources[line]) | (j >= targets[line])]] = False
        accepted[row_of(score_ptr, np.flatnonzero((label < 0) | np.isnan(score)))] = False
        return accepted, ParsedLines(
            lhs, source_ptr, source, target_ptr, target, align_ptr, align.copy(), score_ptr, label, score
        )

    def _parse_words(self, lines: Lines) -> None:
        """Enter the meanings of the words that are new in a role."""
        meaning = self._meaning = self._splitter.with_new(self._meaning, _UNKNOWN)
        # In the order in which `LineParser` adds names.
        fields = {"source": _SOURCE, "target": _TARGET, "lhs": _LHS, "label": _SCORES}
        roles = [(*lines.row(field), meaning[role]) for role, field in fields.items()]
        for role, _, number, word in self._splitter.new_words(roles):
            self._parse_word(list(fields)[role], word, meaning[number])

    def _parse_word(self, role: str, word: str, meaning: np.ndarray) -> None:
        """Enter the ``meaning`` (_MEANING) of a word in a role."""
        words, categories, labels = self._vocabularies
        if role == "lhs":
            lhs = LHS.fullmatch(word)
            meaning["lhs"] = categories.add(lhs[1]) if lhs else -1
        elif role == "label":
            # `LineParser` also splits scores at characters that are no blanks here.
            meaning["label"] = labels.add(word) if [word] == word.split() else -1
        elif role == "source":
            gap = SOURCE_GAP.fullmatch(word)
            if not self.format.is_source_symbol(word):
                meaning["source"], meaning["gap"] = -1, _WRONG_GAP
            elif gap is None:
                meaning["source"] = words.add(word)
            else:
                meaning["source"] = -1 - categories.add(gap[1])
                meaning["gap"] = _gap_number(gap[2]) if gap[2] else 0
        else:
            gap = TARGET_GAP.fullmatch(word)
            if not self.format.is_target_symbol(word):
                meaning["target"] = -_WRONG_GAP
            elif gap is None:
                meaning["target"] = words.add(word)
            else:
                meaning["target"] = -_gap_number(gap[2])
                meaning["category"] = categories.add(gap[1]) if gap[1] else -1


def _gap_number(digits: str) -> int:
    number = gap_number(digits)
    return int(number) if number in GAP_NUMBERS else _WRONG_GAP
