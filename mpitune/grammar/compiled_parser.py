"""Compiled parser of well-formed lines in the formats of cdec and Joshua, which reads them from blocks of bytes.

The kernel splits lines into words and looks each one up. A word that it meets for the first time in a role (side of a
rule, left-hand side, name of a score) is parsed in Python, once. A line that the kernel does not accept goes to
`LineParser`, which defines the notation and its errors.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mpitune.array_files.row_table import enlarged
from mpitune.corpus.word_table import GrowingWordTable
from mpitune.grammar.formats import LHS, CdecFormat, gap_number
from mpitune.grammar.line_kernel import (
    AS_LABEL,
    AS_LHS,
    AS_SOURCE,
    BEGIN,
    DONE,
    END,
    INVALID,
    LINES,
    MEANING,
    NEW,
    NOT_ACCEPTED,
    POSITION,
    WRONG_GAP,
    Block,
    Words,
    new_block,
    parse_lines,
)
from mpitune.grammar.line_parser import GAP_NUMBERS, SOURCE_GAP, TARGET_GAP, LineParser, ParsedLines, Vocabularies


class CompiledParser:
    """Parses blocks of lines; results and errors are those of `LineParser`."""

    def __init__(self, table_format: CdecFormat, vocabularies: Vocabularies) -> None:
        """``vocabularies``: new names are added to them."""
        self.format = table_format
        self._vocabularies = vocabularies
        self._line_parser = LineParser(table_format, vocabularies)
        self._words = GrowingWordTable()
        self._meaning = np.zeros(0, dtype=MEANING)
        self._space = new_block(0)

    def parse(self, text: bytearray) -> Iterator[ParsedLines]:
        """Parse whole lines. Raises MalformedLine, after the lines before the malformed one."""
        if len(self._space.source) < len(text):
            self._space = new_block(len(text))
        block = self._space._replace(text=np.frombuffer(text, dtype=np.uint8))
        state = block.state
        state[POSITION] = 0
        while state[POSITION] < len(text):
            state[LINES] = 0
            code = parse_lines(block, Words(self._words.table, self._meaning))
            while code not in (DONE, NOT_ACCEPTED):
                self._parse_word(code, bytes(text[state[BEGIN] : state[END]]))
                code = parse_lines(block, Words(self._words.table, self._meaning))
            yield self._parsed(block)
            if code == NOT_ACCEPTED:
                begin = int(state[POSITION])
                end = text.index(b"\n", begin) + 1
                yield from self._line_parser.parse(text[begin:end])
                state[POSITION] = end

    def _parsed(self, block: Block) -> ParsedLines:
        """Copies of the lines in ``block``; parses the scores that the kernel did not."""
        lines = int(block.state[LINES])
        scores = int(block.score_ptr[lines])
        score, label = block.score[:scores].copy(), block.label[:scores].copy()
        for n in np.flatnonzero(np.isnan(score)).tolist():
            score[n] = float(block.text[slice(*block.number[n])].tobytes())
        score[label == 0] *= self.format.unnamed_sign
        return ParsedLines(
            block.lhs[:lines].copy(),
            *_rows(block.source_ptr, block.source, lines),
            *_rows(block.target_ptr, block.target, lines),
            *_rows(block.align_ptr, block.align, lines),
            block.score_ptr[: lines + 1].copy(),
            label,
            score,
        )

    def _parse_word(self, role: int, text: bytes) -> None:
        """Enter the meaning of a word in a role."""
        number, word = self._words.add(text), text.decode()
        known = len(self._meaning)
        if number >= known:
            self._meaning = enlarged(self._meaning, number + 1)
            self._meaning[known:] = NEW
        meaning = self._meaning[number]
        words, categories, labels = self._vocabularies
        if role == AS_LHS:
            lhs = LHS.fullmatch(word)
            meaning["lhs"] = categories.add(lhs[1]) if lhs else INVALID
        elif role == AS_LABEL:
            # `LineParser` also splits scores at characters that are no blanks here.
            meaning["label"] = labels.add(word) if [word] == word.split() else INVALID
        elif role == AS_SOURCE:
            gap = SOURCE_GAP.fullmatch(word)
            if not self.format.is_source_symbol(word):
                meaning["source"], meaning["gap"] = -1, WRONG_GAP
            elif gap is None:
                meaning["source"] = words.add(word)
            else:
                meaning["source"] = -1 - categories.add(gap[1])
                meaning["gap"] = _gap_number(gap[2]) if gap[2] else 0
        else:
            gap = TARGET_GAP.fullmatch(word)
            if not self.format.is_target_symbol(word):
                meaning["target"] = -WRONG_GAP
            elif gap is None:
                meaning["target"] = words.add(word)
            else:
                meaning["target"] = -_gap_number(gap[2])
                meaning["category"] = categories.add(gap[1]) if gap[1] else -1


def _gap_number(digits: str) -> int:
    number = gap_number(digits)
    return int(number) if number in GAP_NUMBERS else WRONG_GAP


def _rows(ptr: np.ndarray, flat: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    return ptr[: rows + 1].copy(), flat[: ptr[rows]].copy()
