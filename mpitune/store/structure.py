"""Checks of the arrays of a store before kernels, which check no bounds, index them.

A digest tells damage; a file that somebody else has written may have a digest that matches. Pointers must ascend and
end where their rows end, and numbers must lie within the arrays that they refer to: that is in tables. Further checks
are of what several arrays have in common. Each check raises ValueError, or KeyError for a missing array. Arrays are
read in pieces and their pages released, so that a check takes a few bytes for each source side and target side,
whatever the size of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from mpitune.array_files.arrays import release_pages, with_prefix
from mpitune.extraction.bitext import Bitext, count_alignments, from_arrays
from mpitune.grammar.extracted import FEATURES, RuleCountTable
from mpitune.grammar.line_parser import MAX_GAPS, MAX_SYMBOLS
from mpitune.grammar.rules import GOAL, PHRASE, Rules, RuleTypes, is_cyclic
from mpitune.lm.ngram_table import MAX_NODES, NODE, first_slot

Arrays = Mapping[str, np.ndarray]

_PIECE = 1 << 20
"""Rows checked at a time."""
_SENTENCES = 1 << 10
"""Sentences whose entries are checked at a time."""
_MAX_ORDER = 1000
"""Bound on the order of a language model, which memory is proportional to."""

# A line of a table is one of
#     ARRAY  TYPE  LENGTH  [LOW END]     numbers from LOW to END - 1
#     ARRAY  rows  LENGTH  OF            pointers (int64) that divide OF into so many rows
# where a size is a number, or the name of an array: its length, or the rows of pointers; * is any length.
_NAMES = """
{0}.text               u1    *
{0}.ptr                rows  *                    {0}.text
"""
_TYPES = f"""
types.lhs              i4    *                    0 categories.ptr
types.source           i4    *                    -categories.ptr words.ptr
types.target           i4    *                    -{MAX_GAPS} words.ptr
types.align            i2x2  *                    0 {MAX_SYMBOLS}
types.source_ptr       rows  types.lhs            types.source
types.target_ptr       rows  *                    types.target
types.align_ptr        rows  *                    types.align
types.side             i4    types.side           0 types.lhs
types.target_side      i4    types.side           0 types.target_ptr
types.alignment        i4    types.side           0 types.align_ptr
"""
_LISTED = """
rules.score_ptr        rows  *                    rules.score_index
rules.score_index      i4    *                    0 score_names.ptr
rules.score_value      f8    rules.score_index
rules.type             i4    *                    0 types.side
rules.score_row        i4    rules.type           0 rules.score_ptr
grammar_ptr            rows  *                    rules.type
"""
_COUNTS = """
counts.rule_ptr        rows  types.lhs            types.side
counts.rule_count      i2    types.side
counts.lexical         i4    types.side           0 counts.lexical_value
counts.lexical_value   f8x2  *
counts.grammar_ptr     rows  *                    counts.entry_side
counts.entry_side      i4    *                    0 types.lhs
counts.entry_sample    i2    counts.entry_side
counts.entry_single    ?     counts.entry_side
counts.entry_changes   i2    counts.entry_side    0 32767
counts.change_ptr      rows  counts.grammar_ptr   counts.change_rule
counts.change_rule     i2    *
counts.change_count    i2    counts.change_rule
"""
_LISTS = """
lists.entry_ptr        rows  *                    lists.word_ptr
lists.word_ptr         rows  *                    lists.word
lists.word             i4    *                    0 words.ptr
lists.feature_ptr      rows  lists.word_ptr       lists.feature
lists.feature          i4    *                    0 lists.names.ptr
lists.value            f8    lists.feature
lists.ids              u8    lists.names.ptr
lists.dense            i8    1                    0 lists.names.ptr+1
"""
_CORPUS = """
{0}.grammar            i4    *                    0 {1}
{0}.source_ptr         rows  {0}.grammar          {0}.source
{0}.source             i4    *                    0 words.ptr
{0}.first_reference    rows  {0}.grammar          {0}.reference_ptr
{0}.reference_ptr      rows  *                    {0}.reference
{0}.reference          i4    *                    0 words.ptr
"""
_LM = f"""
word_text              u1    *
word_ptr               rows  *                    word_text
word_slot              i4    *                    0 word_ptr+1
order_bos_eos          i8    3                    0 word_ptr+{_MAX_ORDER}
"""
_OWN_NGRAMS = f"""
ptr                    rows  *                    node
node                   i4    *                    0 {MAX_NODES}
prob                   f4    node
references             i8    2
covered                f8    1
"""
_BITEXT = """
place                  i4    *                    0 place
texts.source_ptr       rows  *                    texts.source
texts.source.word      i4    *                    -1 words.ptr
texts.target_ptr       rows  texts.source_ptr     texts.target
texts.target.word      i4    *                    0 words.ptr
texts.link_ptr         rows  texts.source_ptr     texts.link
texts.link             i2x2  *                    0 32767
source_words           i4    *
word_ptr               rows  words.ptr            occurrence
occurrence             i4    *                    0 source_words
lexicon.ptr            rows  words.ptr            lexicon.word
lexicon.word           i4    *                    0 words.ptr
lexicon.times          i4    lexicon.word
lexicon.source_count   i8    words.ptr+1
lexicon.target_count   i8    words.ptr+1
lexicon.source_null    i8    words.ptr
lexicon.target_null    i8    words.ptr
"""


def check_data(arrays: Arrays) -> None:
    """Check `mpitune.store.store.DATA`: grammars, words, categories, names of scores, and the corpora."""
    _check_names(arrays, "words", "categories", "score_names")
    _check_table(arrays, _TYPES)
    types = RuleTypes(**with_prefix(arrays, "types"))
    _check_types(types)
    if counts := with_prefix(arrays, "counts"):
        _check_table(arrays, _COUNTS)
        _expect(_size(arrays, "score_names.ptr") == len(FEATURES), "a name for each feature of an extracted rule")
        _check_counts(RuleCountTable(**counts))
        grammars = "counts.grammar_ptr"
    else:
        _check_table(arrays, _LISTED)
        Rules(types, **with_prefix(arrays, "rules"))  # TypeError for other arrays
        grammars = "grammar_ptr"
    # Sentences without words need no grammar.
    _check_corpora(arrays, max(_size(arrays, grammars), 1))


def check_lists(arrays: Arrays) -> None:
    """Check `mpitune.store.store.DATA` of n-best lists: the lists, words, and the corpora."""
    _check_names(arrays, "words", "lists.names")
    _check_table(arrays, _LISTS)
    metric = arrays["lists.metric"]
    _check_type(arrays, "lists.metric", "f8", _size(arrays, "lists.word_ptr"), metric.shape[1:])
    _expect(metric.ndim == 2 and bool(np.isfinite(metric).all()), "finite metrics")
    _check_corpora(arrays, _size(arrays, "lists.entry_ptr"))


def check_lm(arrays: Arrays) -> None:
    """Check a language model; of a KenLM binary, which is another file, a store holds only the size."""
    if not arrays:
        return  # an external decoder reads the model
    if "kenlm" in arrays:
        _check_type(arrays, "kenlm", "i8", 1)
        return
    _check_table(arrays, _LM)
    node, slot, words = arrays["node"], arrays["word_slot"], _size(arrays, "word_ptr")
    _expect(node.dtype == NODE and node.ndim == 1, "nodes")
    # Searches end at an empty slot.
    _expect(len(slot) > words and bool((slot == 0).any()), "an empty slot for words")
    order, bos, eos = arrays["order_bos_eos"].tolist()
    _expect(1 <= order <= _MAX_ORDER and bos < words and eos < words, "an order, and words for <s> and </s>")
    ngrams = node[first_slot(words) :]
    _expect(len(ngrams) >= 4 and len(ngrams) % 4 == 0, "a table of n-grams in groups of four slots")
    _expect(bool((ngrams["key"][3::4] == 0).any()), "an empty slot for n-grams")


def check_own_ngrams(arrays: Arrays) -> None:
    """Check `mpitune.lm.leave_one_out.OwnNgrams`."""
    _check_table(arrays, _OWN_NGRAMS)
    _expect(not np.isnan(arrays["prob"]).any() and bool((arrays["prob"] <= 0).all()), "log10 probabilities")


def check_bitext(arrays: Arrays) -> None:
    """Check a compiled bitext."""
    _check_names(arrays, "words")
    bitext = from_arrays(arrays)
    sides = {"texts.source": bitext.texts.source, "texts.target": bitext.texts.target}
    _check_table({**arrays, **sides, **{f"{name}.word": side["word"] for name, side in sides.items()}}, _BITEXT)
    _check_aligned_texts(bitext)
    _check_occurrences(bitext)


def _check_table(arrays: Arrays, table: str) -> None:
    """Check each array of a ``table``, see there."""
    for name, kind, length, *limits in map(str.split, table.strip().splitlines()):
        array, size = arrays[name], None if length == "*" else _size(arrays, length)
        if kind == "rows":
            _check_type(arrays, name, "i8", None if size is None else size + 1)
            end = _size(arrays, limits[0])
            _expect(len(array) > 0 and array[0] == 0 and array[-1] == end, f"rows that end where {limits[0]} ends")
            _expect(bool((array[1:] >= array[:-1]).all()), f"{name} in ascending order")
        else:
            kind, _, columns = kind.partition("x")
            _check_type(arrays, name, kind, size, (int(columns),) if columns else ())
            if limits and array.size:
                low, end = (_size(arrays, limit) for limit in limits)
                _expect(bool(low <= array.min() and array.max() < end), f"numbers from {low} to {end - 1} in {name}")
        release_pages(array)


def _size(arrays: Arrays, text: str) -> int:
    """The size that a table gives as ``text``."""
    if text.startswith("-"):
        return -_size(arrays, text[1:])
    name, _, more = text.partition("+")
    number = int(name) if name.isdigit() else len(arrays[name]) - name.endswith("ptr")
    return number + int(more or 0)


def _check_type(arrays: Arrays, name: str, kind: str, length: int | None, others: tuple[int, ...] = ()) -> None:
    """Check the type of an array, and its shape: its ``length``, unless that is None, and the ``others``."""
    array = arrays[name]
    shape = (len(array) if length is None else length, *others)
    _expect(array.dtype == kind and array.shape == shape, f"{np.dtype(kind)} {list(shape)} in {name}")


def _check_names(arrays: Arrays, *names: str) -> None:
    """Check `mpitune.corpus.vocabulary.Names`."""
    for name in names:
        _check_table(arrays, _NAMES.format(name))
        text, ptr = arrays[f"{name}.text"], arrays[f"{name}.ptr"]
        for piece in _pieces(len(ptr) - 1):
            begin, end = ptr[piece.start], ptr[piece.stop]
            text[begin:end].tobytes().decode()  # UnicodeDecodeError is a ValueError
            starts = ptr[piece.start : piece.stop]
            _expect(not (text[starts[starts < end]] & 0xC0 == 0x80).any(), "names that begin with a character")


def _check_corpora(arrays: Arrays, grammars: int) -> None:
    """Check the texts; ``grammars``: the number of grammars or lists."""
    for name in ("train", "devtest"):
        if with_prefix(arrays, name):
            _check_table(arrays, _CORPUS.format(name, grammars))


def _check_types(types: RuleTypes) -> None:
    sizes, gaps = _sides(types.source_ptr, types.source, 1)
    target_sizes, used = _sides(types.target_ptr, types.target, 0)
    longest = _longest_links(types)
    for piece in _pieces(len(types.target_ptr) - 1):
        ptr = types.target_ptr[piece.start : piece.stop + 1]
        symbols = types.target[ptr[0] : ptr[-1]]
        # Gaps of the target side are numbered -1, -2: their sum tells that each occurs once.
        total, number = _sums(ptr, np.minimum(symbols, 0)), used[piece.start : piece.stop].astype(np.int64)
        _expect(bool((2 * total == -number * (number + 1)).all()), "each gap once on the target side")
    for piece in _pieces(len(types.side)):
        side, target, alignment = (
            of_type[piece.start : piece.stop] for of_type in (types.side, types.target_side, types.alignment)
        )
        _expect(np.array_equal(gaps[side], used[target]), "the same gaps on both sides")
        ends = np.stack([sizes[side], target_sizes[target]], axis=1)
        _expect(bool((longest[alignment] < ends).all()), "links between symbols of a rule")
        for array in (side, target, alignment):
            release_pages(array)
    _check_unary(types, np.flatnonzero(sizes == 1))


def _longest_links(types: RuleTypes) -> np.ndarray:
    """int16 [alignments, 2]: the last source and target position that each alignment links; -1 if it is empty."""
    longest = np.full((len(types.align_ptr) - 1, 2), -1, dtype=np.int16)
    linked = np.flatnonzero(np.diff(types.align_ptr))
    if len(linked):
        longest[linked] = np.maximum.reduceat(types.align, types.align_ptr[linked], axis=0)
    return longest


def _check_counts(table: RuleCountTable) -> None:
    for piece in _pieces(len(table.rule_ptr) - 1):
        rules_of_side = np.diff(table.rule_ptr[piece.start : piece.stop + 1])
        _expect(bool((rules_of_side <= np.iinfo(np.int16).max).all()), "few rules of a source side")
    for piece in _pieces(len(table.grammar_ptr) - 1, _SENTENCES):
        ptr, changes = (end[piece.start : piece.stop + 1] for end in (table.grammar_ptr, table.change_ptr))
        of_sentence = _sums(ptr, table.entry_changes[ptr[0] : ptr[-1]])
        _expect(np.array_equal(of_sentence, np.diff(changes)), "the changes of each sentence")


def _check_unary(types: RuleTypes, unary: np.ndarray) -> None:
    """Check that unary rules, with the glue rule from S to X, form no cycle: no order of categories would exist.

    ``unary``: int64, the source sides of one symbol.
    """
    symbol = types.source[types.source_ptr[unary]]
    gaps = np.stack([types.lhs[unary], -1 - symbol], axis=1)[symbol < 0]
    cyclic = is_cyclic([(GOAL, PHRASE), *map(tuple, np.unique(gaps, axis=0).tolist())])
    _expect(not cyclic, "no cycle of unary rules")


def _sides(ptr: np.ndarray, symbols: np.ndarray, least: int) -> tuple[np.ndarray, np.ndarray]:
    """int16 [rows] each: numbers of symbols, ``least`` to `MAX_SYMBOLS`, and of gaps, of sides of rules."""
    sizes, gaps = np.empty(len(ptr) - 1, np.int16), np.empty(len(ptr) - 1, np.int16)
    for piece in _pieces(len(sizes)):
        ends = ptr[piece.start : piece.stop + 1]
        size, number = np.diff(ends), _sums(ends, symbols[ends[0] : ends[-1]] < 0)
        _expect(bool(((size >= least) & (size <= MAX_SYMBOLS)).all()), "sides of rules")
        _expect(bool((number <= MAX_GAPS).all()), f"at most {MAX_GAPS} gaps")
        sizes[piece.start : piece.stop], gaps[piece.start : piece.stop] = size, number
    for array in (ptr, symbols):
        release_pages(array)
    return sizes, gaps


def _sums(ptr: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """int64 [rows]: the sum of the ``numbers`` of each row; ``ptr`` counts from any first number."""
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers, dtype=np.int64)])
    return np.diff(sums[ptr - ptr[0]])


def _check_aligned_texts(bitext: Bitext) -> None:
    texts = bitext.texts
    pairs = len(texts.source_ptr) - 1
    _expect(len(bitext.place) > 0 and pairs > 0 and pairs % len(bitext.place) == 0, "pairs with each alignment")
    for piece in _pieces(pairs):
        source_ptr, target_ptr, link_ptr = (
            ptr[piece.start : piece.stop + 1] for ptr in (texts.source_ptr, texts.target_ptr, texts.link_ptr)
        )
        source, target = texts.source[source_ptr[0] : source_ptr[-1]], texts.target[target_ptr[0] : target_ptr[-1]]
        sizes, target_sizes = np.diff(source_ptr) - 1, np.diff(target_ptr)
        ends = source_ptr[1:] - 1 - source_ptr[0]
        _expect(bool((sizes >= 0).all() and np.array_equal(np.flatnonzero(source["word"] < 0), ends)), "ends of pairs")
        numbers = np.repeat(np.arange(piece.start, piece.stop), sizes + 1)
        _expect(np.array_equal(source["pair"], numbers), "the pairs of words")
        _check_hulls(source, np.repeat(target_sizes, sizes + 1))
        _check_hulls(target, np.repeat(sizes, target_sizes))
        link = texts.link[link_ptr[0] : link_ptr[-1]]
        limits = np.repeat(np.stack([sizes, target_sizes], axis=1), np.diff(link_ptr), axis=0)
        _expect(bool((link < limits).all()), "links between words of a pair")


def _check_hulls(words: np.ndarray, sizes: np.ndarray) -> None:
    """Check the spans that ``words`` are linked to; ``sizes``: lengths of the other side."""
    low, high = words["low"], words["high"]
    linked = (low >= 0) & (low < high) & (high <= sizes)
    _expect(bool((linked | ((low == -1) & (high == -1))).all()), "spans of links")


def _check_occurrences(bitext: Bitext) -> None:
    """Check that the occurrences of each word are its places, in ascending order."""
    word = bitext.source_words
    for again in np.split(bitext.texts.source["word"], count_alignments(bitext)):
        _expect(np.array_equal(again, word), "the source words")
    for piece in _pieces(len(bitext.occurrence)):
        numbers = np.searchsorted(bitext.word_ptr, np.arange(piece.start, piece.stop), side="right") - 1
        place = bitext.occurrence[piece.start : piece.stop]
        _expect(np.array_equal(word[place], numbers), "occurrences of words")
        _expect(bool(((np.diff(place) > 0) | (np.diff(numbers) > 0)).all()), "occurrences in ascending order")


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"expected {what}")


def _pieces(rows: int, size: int | None = None) -> Iterator[range]:
    size = size or _PIECE
    return (range(first, min(first + size, rows)) for first in range(0, rows, size))
