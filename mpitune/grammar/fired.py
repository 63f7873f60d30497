"""The features that rules fire, as hashes of their names: nothing is spelled out, so that decoding can afford them.

`mpitune.grammar.sparse` defines the names; the kernels here join the hashes of the words, categories and signs that
a name is made of, in the order of the name. Names of few features are needed, those that a k-best list fires.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mpitune.array_files.number_table import place_of
from mpitune.corpus.hashing import HashedNames, hashed, joined
from mpitune.grammar.listed import Listed, ListedFeatures
from mpitune.grammar.rules import RuleTypes
from mpitune.grammar.sparse.rules import FARTHEST, MOST_LINKED, shape_name
from mpitune.grammar.templates import checked, without_separators
from mpitune.jit import inlined, int64, kernel, uint64

(
    _ID,
    _SOURCE_BIGRAM,
    _TARGET_BIGRAM,
    _SHAPE,
    _WORD_PAIR,
    _WORD_PAIR_ALL,
    _INSERTION,
    _TARGET_WORDS,
    _REORDERING,
    _FERTILITY,
    _LISTED,
) = range(11)
_KERNELS = (
    *("id", "source-bigram", "target-bigram", "shape", "word-pair", "word-pair-all", "insertion", "target-words"),
    *("reordering", "fertility"),
)
"""The templates with a kernel here, by number. What the others fire is `_LISTED`."""
_PARTS = ("_", ":", "R:", "RBS:<r>_", "RBS:", "RBT:<r>_", "RBT:", "</r>", "WP:", "WPA:", "INS:", "TB:", "RO:", "FERT:")
_UNDERSCORE, _COLON, _R, _RBS_FIRST, _RBS, _RBT_FIRST, _RBT, _LAST, _WP, _WPA, _INS, _TB, _RO, _FERT = range(
    len(_PARTS)
)
_SIGNS = (*_PARTS, "N1", "N2", *(str(number) for number in range(-FARTHEST, max(FARTHEST, MOST_LINKED) + 1)))
_N1, _ZERO = len(_PARTS), len(_PARTS) + 2 + FARTHEST
_OF_CATEGORY = 4
"""Strings of a category: its label; with N before it; with 1 or 2 after it."""
_SHAPES = 32
"""Number of shapes of a side."""


class Spelling(NamedTuple):
    """The templates of a job, and hashes of the strings that their names are made of."""

    template: np.ndarray
    """int8 [templates]: numbers of the templates, in the job's order; those without a kernel are the last, as one."""
    string: HashedNames
    """`_SIGNS`, the strings of each category, the words."""
    first_word: int
    """Place in ``string`` of word 0."""
    shape: np.ndarray
    """uint64 [32, 32]: hashes of the names of shapes, by the flags of the source side and of the target side."""
    listed: Listed
    """Features of templates without a kernel, of the rule types that have been met."""


class Workspace(NamedTuple):
    """The features that a rule fires, and what its source side contributes to those of the next rules."""

    hash: np.ndarray
    """uint64 [most]: hashes of the names, in the order of firing."""
    value: np.ndarray
    """float64 [most]: number of times that each fires, or the value that its template gives it."""
    side_hash: np.ndarray
    """uint64 [most]: as ``hash``: source bigrams of the latest source side."""
    side_value: np.ndarray
    """float64 [most]"""
    side_name: np.ndarray
    """uint64 [1]: hash of the name of a rule with this source side, up to the target side."""
    side: np.ndarray
    """int64 [5]: the latest source side or -1, number of its bigrams, its shape, categories of its gaps."""


def in_order(templates: Sequence[str]) -> list[str]:
    """``templates`` in the order in which they `fire`: those without a kernel are the last."""
    return sorted(templates, key=lambda template: template not in _KERNELS)


class Speller:
    """Makes the `Spelling` of rules of given types."""

    def __init__(
        self, templates: Sequence[str], types: RuleTypes, categories: Sequence[str], words: Sequence[str]
    ) -> None:
        """``categories`` and ``words`` name the symbols of ``types``. Raises UsageError for an unknown template."""
        others = [template for template in checked(templates) if template not in _KERNELS]
        self._listed = ListedFeatures(others, types, categories, words)
        self._spelling = _spelling(templates, categories, words, self._listed.of(np.zeros(0, dtype=np.int32)))

    def of(self, types: np.ndarray) -> Spelling:
        """The spelling for rules of ``types`` (int32 [n]), and of all those of earlier calls.

        Each of ``types`` that is new takes 10 us, or what its function takes, for each template without a kernel.
        """
        return self._spelling._replace(listed=self._listed.of(types))


def _spelling(templates: Sequence[str], categories: Sequence[str], words: Sequence[str], listed: Listed) -> Spelling:
    numbers = [_KERNELS.index(template) for template in templates if template in _KERNELS]
    labels = [text for label in categories for text in (label, f"N{label}", f"{label}1", f"{label}2")]
    signs, symbols = hashed(_SIGNS), hashed(map(without_separators, (*labels, *words)))
    shapes = [shape_name(source, target) for source in range(_SHAPES) for target in range(_SHAPES)]
    return Spelling(
        np.array(numbers + [_LISTED] * (len(numbers) < len(templates)), dtype=np.int8),
        HashedNames(*map(np.concatenate, zip(signs, symbols, strict=True))),
        len(_SIGNS) + len(labels),
        hashed(shapes).hash.reshape(_SHAPES, _SHAPES),
        listed,
    )


def new_workspace(most: int) -> Workspace:
    """Space for ``most`` features, see `most_fired`."""
    return Workspace(
        np.empty(most, dtype=np.uint64),
        np.empty(most),
        np.empty(most, dtype=np.uint64),
        np.empty(most),
        np.empty(1, dtype=np.uint64),
        np.full(5, -1, dtype=np.int64),
    )


@inlined
def most_fired(spelling: Spelling, types: RuleTypes, type_: int) -> int:
    """An upper bound on the number of features that rule type ``type_`` fires."""
    side, target_side, alignment = types.side[type_], types.target_side[type_], types.alignment[type_]
    source = types.source_ptr[side + 1] - types.source_ptr[side]
    target = types.target_ptr[target_side + 1] - types.target_ptr[target_side]
    most = 0
    for k in range(len(spelling.template)):
        template = spelling.template[k]
        if template == _SOURCE_BIGRAM:
            most += source + 1
        elif template in (_TARGET_BIGRAM, _TARGET_WORDS, _REORDERING):
            most += target + 1
        elif template == _FERTILITY:
            most += source
        elif template == _WORD_PAIR:
            most += types.align_ptr[alignment + 1] - types.align_ptr[alignment]
        elif template in (_WORD_PAIR_ALL, _INSERTION):
            most += source * target
        elif template == _LISTED:
            place = place_of(spelling.listed.types, uint64(type_))
            most += spelling.listed.ptr[place + 1] - spelling.listed.ptr[place]
        else:
            most += 1
    return most


@kernel
def fire(spelling: Spelling, types: RuleTypes, type_: int, space: Workspace) -> int:
    """Write the features of rule type ``type_`` to ``space``; returns their number."""
    if space.side[0] != types.side[type_]:
        _read_side(spelling, types, types.side[type_], space)
    end = 0
    for k in range(len(spelling.template)):
        template = spelling.template[k]
        if template == _ID:
            end = _put(space, end, end, _identity(spelling, types, type_, space))
        elif template == _SOURCE_BIGRAM:
            for i in range(space.side[1]):
                space.hash[end + i] = space.side_hash[i]
                space.value[end + i] = space.side_value[i]
            end += space.side[1]
        elif template == _TARGET_BIGRAM:
            end = _target_bigrams(spelling, types, type_, space, end)
        elif template == _SHAPE:
            target_side = types.target_side[type_]
            shape = _side_shape(types.target, types.target_ptr[target_side], types.target_ptr[target_side + 1])
            end = _put(space, end, end, spelling.shape[space.side[2], shape])
        elif template == _WORD_PAIR:
            end = _word_pairs(spelling, types, type_, space, end)
        elif template == _WORD_PAIR_ALL:
            end = _all_word_pairs(spelling, types, type_, space, end)
        elif template == _INSERTION:
            end = _insertions(spelling, types, type_, space, end)
        elif template == _TARGET_WORDS:
            end = _target_words(spelling, types, type_, space, end)
        elif template == _REORDERING:
            end = _reordering(spelling, types, type_, space, end)
        elif template == _FERTILITY:
            end = _fertility(spelling, types, type_, space, end)
        else:
            place = place_of(spelling.listed.types, uint64(type_))
            for i in range(spelling.listed.ptr[place], spelling.listed.ptr[place + 1]):
                space.hash[end] = spelling.listed.hash[i]
                space.value[end] = spelling.listed.value[i]
                end += 1
    return end


@inlined
def _put(space: Workspace, begin: int, end: int, hash_: int) -> int:
    """Count a feature among those from ``begin`` to ``end``, or append it; returns the new end."""
    for k in range(begin, end):
        if space.hash[k] == hash_:
            space.value[k] += 1.0
            return end
    space.hash[end] = hash_
    space.value[end] = 1.0
    return end + 1


@inlined
def _word(spelling: Spelling, symbol: int) -> int:
    """Place of the string of a word."""
    return spelling.first_word + symbol


@inlined
def _of_category(category: int, form: int) -> int:
    """Place of a string of ``category``; ``form``: as in `_OF_CATEGORY`."""
    return len(_SIGNS) + _OF_CATEGORY * category + form


@inlined
def _pair(spelling: Spelling, sign: int, first: int, second: int) -> int:
    """Hash of the name of a pair of strings."""
    string = spelling.string
    return joined(joined(joined(string.hash[sign], string, first), string, _UNDERSCORE), string, second)


@kernel
def _read_side(spelling: Spelling, types: RuleTypes, side: int, space: Workspace) -> None:
    """Write to ``space`` what all rules with this source side have in common."""
    string, first, last = spelling.string, types.source_ptr[side], types.source_ptr[side + 1]
    name = joined(joined(string.hash[_R], string, _of_category(types.lhs[side], 0)), string, _COLON)
    gaps = 0
    for k in range(first, last):
        symbol = types.source[k]
        if k > first:
            name = joined(name, string, _UNDERSCORE)
        if symbol < 0:
            space.side[3 + gaps] = -1 - symbol
            gaps += 1
        name = joined(name, string, _word(spelling, symbol) if symbol >= 0 else _of_category(-1 - symbol, 1))
    space.side_name[0] = joined(name, string, _COLON)
    space.side[2] = _side_shape(types.source, first, last)
    space.side[0], space.side[1] = side, 0
    for k in range(len(spelling.template)):
        if spelling.template[k] == _SOURCE_BIGRAM:
            _source_bigrams(spelling, types, side, space)


@kernel
def _source_bigrams(spelling: Spelling, types: RuleTypes, side: int, space: Workspace) -> None:
    string, end, before = spelling.string, 0, -1
    for k in range(types.source_ptr[side], types.source_ptr[side + 1] + 1):
        symbol = types.source[k] if k < types.source_ptr[side + 1] else 0
        next_ = _word(spelling, symbol) if symbol >= 0 else _of_category(-1 - symbol, 0)
        if k == types.source_ptr[side + 1]:
            next_ = _LAST
        is_first = before < 0
        hash_ = joined(string.hash[_RBS_FIRST], string, next_) if is_first else _pair(spelling, _RBS, before, next_)
        end = _put(space, 0, end, hash_)
        before = next_
    for i in range(end):
        space.side_hash[i] = space.hash[i]
        space.side_value[i] = space.value[i]
    space.side[1] = end


@kernel
def _side_shape(symbols: np.ndarray, first: int, last: int) -> int:
    """The shape of a side: a bit for each of the flags of `mpitune.grammar.templates.side_shape`, the first highest."""
    shape, bit = 0, 16
    for k in range(first, last):
        if symbols[k] < 0:
            shape |= bit >> 1
            bit >>= 2
        else:
            shape |= bit
    return shape


@kernel
def _identity(spelling: Spelling, types: RuleTypes, type_: int, space: Workspace) -> int:
    """Hash of the name of a rule; its source side has been read."""
    string, target_side = spelling.string, types.target_side[type_]
    name = uint64(space.side_name[0])
    first = types.target_ptr[target_side]
    for k in range(first, types.target_ptr[target_side + 1]):
        if k > first:
            name = joined(name, string, _UNDERSCORE)
        symbol = types.target[k]
        name = joined(name, string, _word(spelling, symbol) if symbol >= 0 else _N1 - 1 - symbol)
    return name


@kernel
def _target_bigrams(spelling: Spelling, types: RuleTypes, type_: int, space: Workspace, end: int) -> int:
    string, begin, before, target_side = spelling.string, end, -1, types.target_side[type_]
    last = types.target_ptr[target_side + 1]
    for k in range(types.target_ptr[target_side], last + 1):
        next_ = _LAST
        if k < last:
            symbol = types.target[k]
            # Gap -1 has the form 2: its label with 1 after it.
            next_ = _word(spelling, symbol) if symbol >= 0 else _of_category(space.side[2 - symbol], 1 - symbol)
        is_first = before < 0
        hash_ = joined(string.hash[_RBT_FIRST], string, next_) if is_first else _pair(spelling, _RBT, before, next_)
        end = _put(space, begin, end, hash_)
        before = next_
    return end


@kernel
def _word_pairs(spelling: Spelling, types: RuleTypes, type_: int, space: Workspace, end: int) -> int:
    begin, alignment = end, types.alignment[type_]
    source, target = types.source_ptr[types.side[type_]], types.target_ptr[types.target_side[type_]]
    for link in range(types.align_ptr[alignment], types.align_ptr[alignment + 1]):
        f, e = types.source[source + types.align[link, 0]], types.target[target + types.align[link, 1]]
        if f >= 0 and e >= 0:
            end = _put(space, begin, end, _pair(spelling, _WP, _word(spelling, f), _word(spelling, e)))
    return end


@kernel
def _all_word_pairs(spelling: Spelling, types: RuleTypes, type_: int, space: Workspace, end: int) -> int:
    begin, side, target_side = end, types.side[type_], types.target_side[type_]
    for i in range(types.source_ptr[side], types.source_ptr[side + 1]):
        for j in range(types.target_ptr[target_side], types.target_ptr[target_side + 1]):
            f, e = types.source[i], types.target[j]
            if f >= 0 and e >= 0:
                end = _put(space, begin, end, _pair(spelling, _WPA, _word(spelling, f), _word(spelling, e)))
    return end


@kernel
def _insertions(spelling: Spelling, types: RuleTypes, type_: int, space: Workspace, end: int) -> int:
    begin, side, target_side, alignment = end, types.side[type_], types.target_side[type_], types.alignment[type_]
    first_link, last_link = types.align_ptr[alignment], types.align_ptr[alignment + 1]
    if first_link == last_link:
        return end
    for j in range(types.target_ptr[target_side], types.target_ptr[target_side + 1]):
        e, is_linked = types.target[j], False
        for link in range(first_link, last_link):
            is_linked = is_linked or types.align[link, 1] == j - types.target_ptr[target_side]
        if e < 0 or is_linked:
            continue
        for i in range(types.source_ptr[side], types.source_ptr[side + 1]):
            f = types.source[i]
            if f >= 0:
                end = _put(space, begin, end, _pair(spelling, _INS, _word(spelling, f), _word(spelling, e)))
    return end


@kernel
def _target_words(spelling: Spelling, types: RuleTypes, type_: int, space: Workspace, end: int) -> int:
    begin, target_side = end, types.target_side[type_]
    for j in range(types.target_ptr[target_side], types.target_ptr[target_side + 1] - 1):
        a, b = types.target[j], types.target[j + 1]
        if a >= 0 and b >= 0:
            end = _put(space, begin, end, _pair(spelling, _TB, _word(spelling, a), _word(spelling, b)))
    return end


@kernel
def _reordering(spelling: Spelling, types: RuleTypes, type_: int, space: Workspace, end: int) -> int:
    begin, side, target_side, alignment = end, types.side[type_], types.target_side[type_], types.alignment[type_]
    source, target = types.source_ptr[side], types.target_ptr[target_side]
    size, before = types.source_ptr[side + 1] - source, -1
    for j in range(types.target_ptr[target_side + 1] - target):
        symbol, gap = types.target[target + j], -1
        first, last = size, -1  # of the source symbols that it comes from
        if symbol >= 0:
            for link in range(types.align_ptr[alignment], types.align_ptr[alignment + 1]):
                if types.align[link, 1] == j:
                    first, last = min(first, int64(types.align[link, 0])), max(last, int64(types.align[link, 0]))
        else:
            for i in range(size):
                if types.source[source + i] < 0:
                    if gap == symbol:
                        first, last = i, i
                    gap -= 1
        if last >= 0:
            name = _word(spelling, symbol) if symbol >= 0 else _of_category(space.side[2 - symbol], 0)
            end = _put(space, begin, end, _distance(spelling, name, first - before))
            before = last
    return _put(space, begin, end, _distance(spelling, _LAST, size - before))


@inlined
def _distance(spelling: Spelling, symbol: int, distance: int) -> int:
    """Hash of the name of a string's distance."""
    return _pair(spelling, _RO, symbol, _ZERO + max(-FARTHEST, min(distance, FARTHEST)))


@kernel
def _fertility(spelling: Spelling, types: RuleTypes, type_: int, space: Workspace, end: int) -> int:
    begin, alignment = end, types.alignment[type_]
    first_link, last_link = types.align_ptr[alignment], types.align_ptr[alignment + 1]
    if first_link == last_link:
        return end
    source, target = types.source_ptr[types.side[type_]], types.target_ptr[types.target_side[type_]]
    for i in range(types.source_ptr[types.side[type_] + 1] - source):
        f, linked = types.source[source + i], 0
        if f < 0:
            continue
        for link in range(first_link, last_link):
            if types.align[link, 0] == i and types.target[target + types.align[link, 1]] >= 0:
                linked += 1
        end = _put(space, begin, end, _pair(spelling, _FERT, _word(spelling, f), _ZERO + min(linked, MOST_LINKED)))
    return end
