"""Read grammar files into arrays of synchronous rules, their scores and alignments."""

from __future__ import annotations

import re
from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import select_rows
from mpitune.array_files.row_table import DistinctRows
from mpitune.corpus.text import lines, split_words
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.errors import DataError
from mpitune.grammar.formats import LINK, LineParser, MalformedLine, Sides, parser_for

GOAL = 0
"""Number of category S."""
PHRASE = 1
"""Number of category X, the left-hand side of pass-through rules."""
MAX_GAPS = 2
MAX_SYMBOLS = 32767
"""Largest number of symbols on a side: alignments are stored as int16."""

_SOURCE_GAP = re.compile(r"\[([^\[\],]+)(?:,([0-9]+))?\]")
_TARGET_GAP = re.compile(r"\[(?:([^\[\],]+),)?([0-9]+)\]")


class RuleTypes(NamedTuple):
    """The rule types of all grammars: each distinct (left-hand side, source side, target side, alignment) once.

    Types share sides and alignments, which are distinct as well; a side is a left-hand side with a source side.
    """

    side: np.ndarray
    """int32 [types]: the side of each type."""
    lhs: np.ndarray
    """int32 [sides]: the left-hand side, a category."""
    source_ptr: np.ndarray
    """int64 [sides + 1]: the source side of side s is ``source[source_ptr[s]:source_ptr[s + 1]]``."""
    source: np.ndarray
    """int32: a word number, or -(1 + c) for a gap of category c."""
    target_ptr: np.ndarray
    """int64 [types + 1]: the target side of type t is ``target[target_ptr[t]:target_ptr[t + 1]]``."""
    target: np.ndarray
    """int32: a word number, or -1 for the first gap of the source side, -2 for its second."""
    alignment: np.ndarray
    """int32 [types]: the alignment of each type."""
    align_ptr: np.ndarray
    """int64 [alignments + 1]: the links of alignment a are ``align[align_ptr[a]:align_ptr[a + 1]]``."""
    align: np.ndarray
    """int16 [links, 2]: source position, target position; gaps count as positions."""


class Rules(NamedTuple):
    """The rules of a grammar, or of several grammars, one grammar after the other.

    A rule is one line of a grammar. Repeated lines give separate rules, which compete in decoding. The rules of a
    grammar are sorted by source side (symbol by symbol, as numbers), then left-hand side, then line in the file.
    """

    types: RuleTypes
    """Types of these rules and of others."""
    type: np.ndarray
    """int32 [rules]: the type of each rule."""
    score_row: np.ndarray
    """int32 [rules]: the row of scores of each rule; rules may share a row."""
    score_ptr: np.ndarray
    """int64 [rows + 1]: the scores of row r are ``score_ptr[r]`` to ``score_ptr[r + 1]`` (CSR)."""
    score_index: np.ndarray
    """int32: index in the list of score names."""
    score_value: np.ndarray
    """float64: the score; zeros are left out."""


class RuleReader:
    """Reads one or more grammar files."""

    def __init__(self, vocabulary: Vocabulary, table_format: str = "auto") -> None:
        """``vocabulary``: numbers the words, and gets new ones added; ``table_format``: a value of `parser_for`.

        The first line of the first grammar decides on the format ``auto``.
        """
        self._table_format = table_format
        self._parser: LineParser | None = None
        self._categories = Vocabulary(["S", "X"])
        self._score_names = Vocabulary()
        self._vocabulary = vocabulary
        self._types: dict[str, int] = {}
        self._sources: dict[str, tuple[list[int], dict[int, str]]] = {}
        self._score_indices: dict[tuple[str, ...], list[int]] = {}
        self._unary: dict[int, tuple[int, int]] = {}
        self._derives: dict[int, set[int]] = {GOAL: {PHRASE}}
        self._lhs = array("i")
        self._source, self._source_ptr = array("i"), array("q", [0])
        self._target, self._target_ptr = array("i"), array("q", [0])
        self._align, self._align_ptr = array("h"), array("q", [0])
        self._type = array("i")
        self._score_index, self._score_value, self._score_ptr = array("i"), array("d"), array("q", [0])
        self._grammar_ptr = array("q", [0])

    @property
    def categories(self) -> list[str]:
        """Names of the categories: S, X, then others in order of first occurrence."""
        return self._categories.words

    @property
    def score_names(self) -> list[str]:
        """Names of the scores in order of first occurrence."""
        return self._score_names.words

    @property
    def grammar_ptr(self) -> np.ndarray:
        """int64 [grammars + 1]: the rules of grammar g are ``grammar_ptr[g]`` to ``grammar_ptr[g + 1]`` of `rules`."""
        return _array(self._grammar_ptr)

    def read(self, path: Path) -> None:
        """Read the next grammar.

        Raises DataError for a malformed line, and for a unary rule that closes a cycle with the unary rules of all
        grammars so far (the decoder orders the categories once for all grammars).
        """
        for number, line in lines(path):
            self._parser = self._parser or parser_for(self._table_format, line)
            try:
                rule_type = self._add_rule(self._parser, line)
                if rule_type in self._unary:
                    _add_unary(self._derives, *self._unary[rule_type], self.categories)
            except MalformedLine as error:
                raise DataError.at(path, number, found=error.found, expected=error.expected) from None
        self._grammar_ptr.append(len(self._type))

    def rules(self) -> Rules:
        """Return the rules of all grammars read so far."""
        types, rule_type = self._rule_types(), _array(self._type)
        grammar = np.repeat(np.arange(len(self._grammar_ptr) - 1), np.diff(self.grammar_ptr))
        order = np.lexsort((types.side[rule_type], grammar))
        score_ptr, score_index, score_value = self._nonzero_scores()
        return Rules(
            types=types,
            type=rule_type[order],
            score_row=order.astype(np.int32),
            score_ptr=score_ptr,
            score_index=score_index,
            score_value=score_value,
        )

    def _rule_types(self) -> RuleTypes:
        """Return all rule types, with sides numbered in the order of (source symbols, left-hand side)."""
        lhs, source_ptr, source = _array(self._lhs), _array(self._source_ptr), _array(self._source)
        side = _source_rank(lhs, source_ptr, source)
        _, some_type = np.unique(side, return_index=True)
        source_ptr, source = select_rows(source_ptr, source, some_type)
        alignments = DistinctRows()
        alignment = alignments.add(_array(self._align_ptr), _array(self._align).view(np.int32))
        return RuleTypes(
            side=side,
            lhs=lhs[some_type],
            source_ptr=source_ptr,
            source=source,
            target_ptr=_array(self._target_ptr),
            target=_array(self._target),
            alignment=alignment,
            align_ptr=alignments.ptr,
            align=alignments.flat.view(np.int16).reshape(-1, 2),
        )

    def _nonzero_scores(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the scores as CSR arrays without zeros, a row for each line."""
        value = _array(self._score_value)
        nonzero = value != 0
        nonzero_before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(nonzero)])
        return nonzero_before[_array(self._score_ptr)], _array(self._score_index)[nonzero], value[nonzero]

    def _add_rule(self, parser: LineParser, line: str) -> int:
        """Add the rule of one line; returns its rule type."""
        fields = parser.fields(line)
        # A rule type seen before costs one look-up of its raw text.
        key = parser.type_key(fields)
        rule_type = self._types.get(key)
        if rule_type is None:
            rule_type = self._add_type(parser.sides(fields))
            self._types[key] = rule_type
        labels, values = parser.scores(fields)
        indices = self._score_indices.get(labels)
        if indices is None:
            indices = self._score_indices[labels] = self._index_scores(parser.score_names(labels))
        self._score_index.extend(indices)
        self._score_value.extend(values)
        self._type.append(rule_type)
        self._score_ptr.append(len(self._score_index))
        return rule_type

    def _add_type(self, sides: Sides) -> int:
        lhs, source_text, target_text, alignment = sides
        if source_text not in self._sources:
            self._sources[source_text] = self._source_side(source_text)
        source, gaps = self._sources[source_text]
        target = self._target_side(target_text, gaps)
        if max(len(source), len(target)) > MAX_SYMBOLS:
            raise MalformedLine(f"a side of {max(len(source), len(target))} symbols", f"at most {MAX_SYMBOLS}")
        align = _alignment(alignment, len(source), len(target))
        rule_type = len(self._lhs)
        self._lhs.append(self._categories.add(lhs))
        self._source.extend(source)
        self._source_ptr.append(len(self._source))
        self._target.extend(target)
        self._target_ptr.append(len(self._target))
        self._align.extend(align)
        self._align_ptr.append(len(self._align) // 2)
        if len(source) == len(gaps) == 1:
            self._unary[rule_type] = (self._lhs[-1], -1 - source[0])
        return rule_type

    def _source_side(self, text: str) -> tuple[list[int], dict[int, str]]:
        """Parse a source side: its symbols, and number and category of each gap in the order of this side."""
        symbols: list[int] = []
        gaps: dict[int, str] = {}
        for word in split_words(text):
            gap = _SOURCE_GAP.fullmatch(word) if word[0] == "[" else None
            if gap is None:
                symbols.append(self._vocabulary.add(word))
                continue
            number = int(gap[2] or len(gaps) + 1)
            if number in gaps:
                raise MalformedLine(f"gap {number} twice on the source side", "gaps numbered 1, 2")
            gaps[number] = gap[1]
            symbols.append(-1 - self._categories.add(gap[1]))
        if not symbols:
            raise MalformedLine("an empty source side", "at least one word or gap")
        if len(gaps) > MAX_GAPS:
            raise MalformedLine(f"{len(gaps)} gaps", f"at most {MAX_GAPS}")
        if sorted(gaps) != list(range(1, len(gaps) + 1)):
            raise MalformedLine(f"source gaps numbered {_listed(gaps)}", f"gaps numbered 1 to {len(gaps)}")
        return symbols, gaps

    def _target_side(self, text: str, gaps: dict[int, str]) -> list[int]:
        symbols: list[int] = []
        used: list[int] = []
        for word in split_words(text):
            gap = _TARGET_GAP.fullmatch(word) if word[0] == "[" else None
            if gap is None:
                symbols.append(self._vocabulary.add(word))
                continue
            number = int(gap[2])
            if number not in gaps:
                raise MalformedLine(
                    f"target gap {word}", f"one of the source's gaps ({_listed(gaps) or 'it has none'})"
                )
            if gap[1] is not None and gap[1] != gaps[number]:
                raise MalformedLine(f"target gap {word}", f"[{gaps[number]},{number}] as on the source side")
            used.append(number)
            symbols.append(-1 - list(gaps).index(number))
        if len(used) != len(gaps) or set(used) != set(gaps):
            raise MalformedLine(
                f"target gaps {_listed(used) or 'none'}", f"each gap of the source ({_listed(gaps)}) once"
            )
        return symbols

    def _index_scores(self, names: list[str]) -> list[int]:
        """Return the indices of a line's score names; new names are added."""
        indices: list[int] = []
        for name in names:
            index = self._score_names.add(name)
            if index in indices:
                raise MalformedLine(f"score {name} twice", "each score once")
            indices.append(index)
        return indices


def _alignment(text: str, sources: int, targets: int) -> list[int]:
    """Parse the links; returns source position, target position of each, flattened."""
    links: list[int] = []
    for word in split_words(text):
        link = LINK.fullmatch(word)
        if link is None or int(link[1]) >= sources or int(link[2]) >= targets:
            raise MalformedLine(f"alignment {word!r}", f"i-j with i below {sources} and j below {targets}")
        links += (int(link[1]), int(link[2]))
    return links


def _add_unary(derives: dict[int, set[int]], parent: int, child: int, names: list[str]) -> None:
    """Add a unary rule to ``derives`` (parent to child categories); raises MalformedLine if that closes a cycle."""
    reached, new = {child}, {child}
    while new:
        new = {category for one in new for category in derives.get(one, ())} - reached
        reached |= new
    if parent in reached:
        found = f"a unary rule from {names[parent]} to {names[child]} that closes a cycle"
        raise MalformedLine(
            found, "no cycle of unary rules, in all grammars together (the glue rule from S to X counts)"
        )
    derives.setdefault(parent, set()).add(child)


def _source_rank(lhs: np.ndarray, source_ptr: np.ndarray, source: np.ndarray) -> np.ndarray:
    """int32 [types]: rank of each type in the order of (source symbols, left-hand side); equal pairs share a rank."""
    # Unsigned big-endian numbers sort like their bytes.
    text = (source.astype(np.int64) + 2**31).astype(">u4").tobytes()
    ends = (4 * source_ptr).tolist()
    keys = [(text[a:b], c) for a, b, c in zip(ends[:-1], ends[1:], lhs.tolist(), strict=True)]
    rank = {key: i for i, key in enumerate(sorted(set(keys)))}
    return np.array([rank[key] for key in keys], dtype=np.int32)


def _array(values: array) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(values, dtype=values.typecode)


def _listed(numbers: dict[int, str] | list[int]) -> str:
    return ", ".join(map(str, numbers))
