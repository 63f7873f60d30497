"""Read grammar files into arrays of synchronous rules, their scores and alignments."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends, select_rows
from mpitune.array_files.row_table import DistinctRows
from mpitune.corpus.feature_table import FEATURE_NAME, is_feature_name
from mpitune.corpus.lines import line_blocks
from mpitune.corpus.progress import Progress
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.errors import DataError
from mpitune.grammar.compiled_parser import CompiledParser
from mpitune.grammar.formats import CdecFormat, MalformedLine, TableFormat, table_format
from mpitune.grammar.line_parser import UNNAMED, LineParser, ParsedLines, Vocabularies

GOAL = 0
"""Number of category S."""
PHRASE = 1
"""Number of category X, the left-hand side of pass-through rules."""


class RuleTypes(NamedTuple):
    """The rule types of all grammars: each distinct (left-hand side, source side, target side, alignment) once.

    Types share sides, target sides and alignments; a side is a left-hand side with a source side.
    """

    side: np.ndarray
    """int32 [types]: the side of each type."""
    lhs: np.ndarray
    """int32 [sides]: the left-hand side, a category."""
    source_ptr: np.ndarray
    """int64 [sides + 1]: the source side of side s is ``source[source_ptr[s]:source_ptr[s + 1]]``."""
    source: np.ndarray
    """int32: a word number, or -(1 + c) for a gap of category c."""
    target_side: np.ndarray
    """int32 [types]: the target side of each type."""
    target_ptr: np.ndarray
    """int64 [target sides + 1]: target side t is ``target[target_ptr[t]:target_ptr[t + 1]]``."""
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

    def __init__(self, vocabulary: Vocabulary, format_name: str = "auto") -> None:
        """``vocabulary``: numbers the words, and gets new ones added; ``format_name``: see `table_format`.

        The first line of the first grammar decides on the format ``auto``.
        """
        self._format_name = format_name
        self._parser: LineParser | CompiledParser | None = None
        self._vocabularies = Vocabularies(vocabulary, Vocabulary(["S", "X"]), Vocabulary([UNNAMED]))
        self._score_names = Vocabulary()
        self._unary = {(GOAL, PHRASE)}
        """Parent and child of the unary rules so far."""
        self._sources, self._targets, self._aligns = DistinctRows(), DistinctRows(), DistinctRows()
        self._types = DistinctRows()
        """Rows of left-hand side and the numbers of source side, target side and links."""
        self._label_rows = DistinctRows()
        self._score_index = array("i")
        """The indices of the score names that the labels in ``_label_rows.flat`` stand for."""
        # One array for each block of lines.
        none = np.zeros(0, dtype=np.int32)
        self._type, self._label_row, self._score = [none], [none], [np.zeros(0)]
        self._lines = 0
        self._grammar_ptr = [0]

    @property
    def categories(self) -> list[str]:
        """Names of the categories: S, X, then others in order of first occurrence."""
        return self._vocabularies.categories.words

    @property
    def score_names(self) -> list[str]:
        """Names of the scores in order of first occurrence."""
        return self._score_names.words

    @property
    def grammar_ptr(self) -> np.ndarray:
        """int64 [grammars + 1]: the rules of grammar g are ``grammar_ptr[g]`` to ``grammar_ptr[g + 1]`` of `rules`."""
        return np.array(self._grammar_ptr, dtype=np.int64)

    def read(self, path: Path, progress: Progress | None = None) -> None:
        """Read the next grammar; the items of ``progress`` are the kilobytes of files.

        Raises DataError for a malformed line, and for a unary rule that closes a cycle with the unary rules of all
        grammars so far (the decoder orders the categories once for all grammars).
        """
        try:
            # Of an empty file, the only block is empty: it does not tell the format.
            for block in filter(None, line_blocks(path, progress)):
                self._parser = self._parser or self._parser_for(block)
                for parsed in self._parser.parse(block):
                    self._add(parsed, self._parser.format)
        except MalformedLine as error:
            number = self._lines - self._grammar_ptr[-1] + 1
            raise DataError.at(path, number, found=error.found, expected=error.expected) from None
        self._grammar_ptr.append(self._lines)

    def rules(self) -> Rules:
        """Return the rules of all grammars read so far."""
        types, rule_type = self._rule_types(), np.concatenate(self._type)
        grammar = np.repeat(np.arange(len(self._grammar_ptr) - 1), np.diff(self._grammar_ptr))
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
        lhs, source, target, alignment = np.ascontiguousarray(self._types.flat.reshape(-1, 4).T)
        by_rank = np.stack([_ranks(self._sources)[source], lhs], axis=1)
        _, some_type, side = np.unique(by_rank, axis=0, return_index=True, return_inverse=True)
        source_ptr, source_symbols = select_rows(self._sources.ptr, self._sources.flat, source[some_type])
        return RuleTypes(
            side=side.ravel().astype(np.int32),
            lhs=lhs[some_type],
            source_ptr=source_ptr,
            source=source_symbols,
            target_side=target,
            target_ptr=self._targets.ptr,
            target=self._targets.flat,
            alignment=alignment,
            align_ptr=self._aligns.ptr,
            align=self._aligns.flat.view(np.int16).reshape(-1, 2),
        )

    def _nonzero_scores(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the scores as CSR arrays without zeros, a row for each line."""
        indices = np.array(self._score_index, dtype=np.int32)
        ptr, index = select_rows(self._label_rows.ptr, indices, np.concatenate(self._label_row))
        value = np.concatenate(self._score)
        nonzero = value != 0
        return row_ends(nonzero)[ptr], index[nonzero], value[nonzero]

    def _parser_for(self, block: bytearray) -> LineParser | CompiledParser:
        """The parser for tables that begin with ``block``."""
        first_line = block.split(b"\n", 1)[0].decode()
        chosen = table_format(self._format_name, first_line)
        if isinstance(chosen, CdecFormat):
            return CompiledParser(chosen, self._vocabularies)
        return LineParser(chosen, self._vocabularies)

    def _add(self, parsed: ParsedLines, of_format: TableFormat) -> None:
        """Add the rules of the next lines. Raises MalformedLine with ``_lines`` at the line."""
        known = len(self._label_rows)
        label_row = self._label_rows.add(parsed.score_ptr, parsed.label)
        row, first_line = np.unique(label_row, return_index=True)
        new_labels = set(first_line[row >= known].tolist())
        closing = self._add_unary(parsed)
        for line in sorted(new_labels | closing):
            try:
                if line in new_labels:
                    labels = parsed.label[parsed.score_ptr[line] : parsed.score_ptr[line + 1]]
                    names = of_format.score_names(tuple(self._vocabularies.labels.decode(labels)))
                    self._score_index.extend(self._index_scores(names))
                if line in closing:
                    child = -1 - int(parsed.source[parsed.source_ptr[line]])
                    parent = int(parsed.lhs[line])
                    raise MalformedLine(
                        f"a unary rule from {self.categories[parent]} to {self.categories[child]} that closes a cycle",
                        "no cycle of unary rules, in all grammars together (the glue rule from S to X counts)",
                    )
            except MalformedLine:
                self._lines += line
                raise
        sides = (
            self._sources.add(parsed.source_ptr, parsed.source),
            self._targets.add(parsed.target_ptr, parsed.target),
            self._aligns.add(parsed.align_ptr, parsed.align),
        )
        self._type.append(self._types.add_matrix(np.stack([parsed.lhs, *sides], axis=1)))
        self._label_row.append(label_row)
        self._score.append(parsed.score)
        self._lines += len(parsed.lhs)

    def _add_unary(self, parsed: ParsedLines) -> set[int]:
        """Add the unary rules of ``parsed``; the first line that closes a cycle, if one does."""
        lines = np.flatnonzero(np.diff(parsed.source_ptr) == 1)
        lines = lines[parsed.source[parsed.source_ptr[lines]] < 0]
        pairs = zip(parsed.lhs[lines].tolist(), (-1 - parsed.source[parsed.source_ptr[lines]]).tolist(), strict=True)
        new = [(line, pair) for line, pair in zip(lines.tolist(), pairs, strict=True) if pair not in self._unary]

        def is_closed_by(number: int) -> bool:
            return is_cyclic(self._unary.union(pair for _, pair in new[:number]))

        if new and is_closed_by(len(new)):
            return {new[bisect_left(range(1, len(new) + 1), True, key=is_closed_by)][0]}
        self._unary.update(pair for _, pair in new)
        return set()

    def _index_scores(self, names: list[str]) -> list[int]:
        """Return the indices of a line's score names; new names are added."""
        indices: list[int] = []
        for name in names:
            if not is_feature_name(name):
                raise MalformedLine(f"score name {name!r}", FEATURE_NAME)
            index = self._score_names.add(name)
            if index in indices:
                raise MalformedLine(f"score {name} twice", "each score once")
            indices.append(index)
        return indices


def unary_levels(rules: Iterable[tuple[int, int]]) -> Iterator[list[int]]:
    """The categories of unary ``rules`` (parent, child): those without a child, ascending, then those over them, ...

    Raises CycleError, a ValueError, if there is no such order.
    """
    sorter = TopologicalSorter[int]()
    for parent, child in rules:
        sorter.add(parent, child)
    sorter.prepare()
    while sorter.is_active():
        level = sorted(sorter.get_ready())
        sorter.done(*level)
        yield level


def is_cyclic(rules: Iterable[tuple[int, int]]) -> bool:
    """True if unary ``rules`` (parent, child) form a cycle."""
    try:
        next(unary_levels(rules), None)
    except CycleError:
        return True
    return False


def _ranks(rows: DistinctRows) -> np.ndarray:
    """int64 [rows]: the rank of each row in lexicographic order."""
    # Unsigned big-endian numbers sort like their bytes.
    text = (rows.flat.astype(np.int64) + 2**31).astype(">u4").tobytes()
    keys = [text[begin:end] for begin, end in pairwise((4 * rows.ptr).tolist())]
    rank = np.empty(len(keys), dtype=np.int64)
    rank[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return rank
