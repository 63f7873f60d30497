"""Checks of the arrays of a store before kernels, which check no bounds, index them.

A digest tells damage; a file that somebody else has written may have a digest that matches. Pointers must ascend and
end where their rows end, and numbers must lie within the arrays that they refer to. Each check raises ValueError, or
KeyError for a missing array. It reads every array once, in pieces of bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mpitune.array_files.arrays import with_prefix
from mpitune.extraction.suffix_array import DEPTH, Bitext, from_arrays
from mpitune.grammar.rules import GOAL, MAX_GAPS, MAX_SYMBOLS, PHRASE, Rules
from mpitune.lm.ngram_table import NODE, first_slot

Arrays = Mapping[str, np.ndarray]

_PIECE = 1 << 20
"""Rows checked at a time."""
_MAX_ORDER = 1000
"""Bound on the order of a language model, which memory is proportional to."""


def check_data(arrays: Arrays) -> None:
    """Check `mpitune.store.store.DATA`: rules, words, categories, names of scores, and the corpora."""
    words, categories, scores = (_check_names(arrays, name) for name in ("words", "categories", "score_names"))
    rules = Rules(**with_prefix(arrays, "rules"))
    _check_rules(rules, words, categories)
    check_scores(arrays, "rules.", scores)
    _check_corpora(arrays, words, max(len(rules.grammar_ptr) - 1, 1))


def check_lists(arrays: Arrays) -> None:
    """Check `mpitune.store.store.DATA` of n-best lists: the lists, words, and the corpora."""
    words, features = _check_names(arrays, "words"), _check_names(arrays, "lists.names")
    lists = with_prefix(arrays, "lists")
    entries = len(lists["word_ptr"]) - 1
    _check_rows(lists["entry_ptr"], np.zeros(entries, np.uint8))
    for numbers, count in (("word", words), ("feature", features)):
        _check_rows(lists[f"{numbers}_ptr"], lists[numbers], entries)
        _check_range(lists[numbers], np.int32, 0, count)
    _check_type(lists["value"], np.float64, len(lists["feature"]))
    _check_type(lists["ids"], np.uint64, features)
    _check_type(lists["dense"], np.int64, 1)
    _check_range(lists["dense"], np.int64, 0, features + 1)
    _check_corpora(arrays, words, len(lists["entry_ptr"]) - 1)


def check_features(arrays: Arrays) -> None:
    """Check a file of sparse features."""
    names = _check_names(arrays, "names")
    _check_type(arrays["ids"], np.uint64, names)
    _check_type(arrays["value"], np.float64, len(arrays["index"]))
    _check_rows(arrays["ptr"], arrays["index"])
    _check_range(arrays["index"], np.int32, 0, names)


def check_scores(arrays: Arrays, prefix: str = "", names: int = np.iinfo(np.int32).max) -> None:
    """Check rows of scores; ``names``: the number of names of scores."""
    ptr, index, value = (arrays[f"{prefix}score_{field}"] for field in ("ptr", "index", "value"))
    _check_rows(ptr, index)
    _check_range(index, np.int32, 0, names)
    _check_type(value, np.float64, len(index))


def check_lm(arrays: Arrays) -> None:
    """Check a language model; of a KenLM binary, which is another file, a store holds only the size."""
    if not arrays:
        return  # an external decoder reads the model
    if "kenlm" in arrays:
        _check_type(arrays["kenlm"], np.int64, 1)
        return
    node, text, slot = arrays["node"], arrays["word_text"], arrays["word_slot"]
    _check_type(node, NODE, len(node))
    _check_type(text, np.uint8, len(text))
    _check_rows(arrays["word_ptr"], text)
    words = len(arrays["word_ptr"]) - 1
    # Searches end at an empty slot.
    _check_range(slot, np.int32, 0, words + 1)
    _expect(len(slot) > words and bool((slot == 0).any()), "an empty slot for words")
    _check_range(arrays["order_bos_eos"], np.int64, 0, max(words, _MAX_ORDER + 1))
    order, bos, eos = arrays["order_bos_eos"].tolist()
    _expect(1 <= order <= _MAX_ORDER and bos < words and eos < words, "an order, and words for <s> and </s>")
    ngrams = node[first_slot(words) :]
    _expect(len(ngrams) >= 4 and len(ngrams) % 4 == 0, "a table of n-grams in groups of four slots")
    _expect(bool((ngrams["key"][3::4] == 0).any()), "an empty slot for n-grams")


def check_bitext(arrays: Arrays) -> None:
    """Check a compiled bitext."""
    words = _check_names(arrays, "words")
    bitext = from_arrays(arrays)
    _check_aligned_texts(bitext, words)
    _check_suffixes(bitext, words)
    lexicon = bitext.lexicon
    _check_rows(lexicon.ptr, lexicon.word, words)
    _check_range(lexicon.word, np.int32, 0, words)
    _check_type(lexicon.times, np.int32, len(lexicon.word))
    for count, size in ((lexicon.source_count, 1), (lexicon.target_count, 1), (lexicon.source_null, 0)):
        _check_type(count, np.int64, words + size)
    _check_type(lexicon.target_null, np.int64, words)


def _check_rules(rules: Rules, words: int, categories: int) -> None:
    types = len(rules.lhs)
    _check_range(rules.lhs, np.int32, 0, categories)
    _check_range(rules.source, np.int32, -categories, words)
    _check_range(rules.target, np.int32, -MAX_GAPS, words)
    _check_range(rules.align, np.int16, 0, MAX_SYMBOLS, columns=2)
    for ptr, flat in (
        (rules.source_ptr, rules.source),
        (rules.target_ptr, rules.target),
        (rules.align_ptr, rules.align),
    ):
        _check_rows(ptr, flat, types)
    _check_range(rules.type, np.int32, 0, types)
    _check_range(rules.score_row, np.int32, 0, len(rules.score_ptr) - 1)
    _check_type(rules.score_row, np.int32, len(rules.type))
    _check_rows(rules.grammar_ptr, rules.type)
    for piece in _pieces(types):
        source_ptr, target_ptr, align_ptr = (
            ptr[piece.start : piece.stop + 1] for ptr in (rules.source_ptr, rules.target_ptr, rules.align_ptr)
        )
        sizes, target_sizes = np.diff(source_ptr), np.diff(target_ptr)
        gaps, _ = _gaps(source_ptr, rules.source)
        used, total = _gaps(target_ptr, rules.target)
        _expect(bool(((sizes > 0) & (sizes <= MAX_SYMBOLS) & (target_sizes <= MAX_SYMBOLS)).all()), "sides of rules")
        _expect(bool((gaps <= MAX_GAPS).all()), f"at most {MAX_GAPS} gaps")
        # Gaps of the target side are numbered -1, -2: their sum tells that each occurs once.
        _expect(bool(((used == gaps) & (2 * total == -gaps * (gaps + 1))).all()), "each gap once on the target side")
        link = rules.align[align_ptr[0] : align_ptr[-1]]
        ends = np.repeat(np.stack([sizes, target_sizes], axis=1), np.diff(align_ptr), axis=0)
        _expect(bool((link < ends).all()), "links between symbols of a rule")
    _check_unary(rules)


def _check_unary(rules: Rules) -> None:
    """Check that unary rules, with the glue rule from S to X, form no cycle: no order of categories would exist."""
    unary = np.flatnonzero(np.diff(rules.source_ptr) == 1)
    symbol = rules.source[rules.source_ptr[unary]]
    gaps = np.stack([rules.lhs[unary], -1 - symbol], axis=1)[symbol < 0]
    edges = {(GOAL, PHRASE), *map(tuple, np.unique(gaps, axis=0).tolist())}
    while edges:
        parents = {parent for parent, _ in edges}
        left = {(parent, child) for parent, child in edges if child in parents}
        _expect(len(left) < len(edges), "no cycle of unary rules")
        edges = left


def _gaps(ptr: np.ndarray, symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int64 [rows] each: number and sum of the negative symbols of each row."""
    part = symbols[ptr[0] : ptr[-1]]
    ends = ptr - ptr[0]
    number, total = (
        np.concatenate([np.zeros(1, np.int64), np.cumsum(column, dtype=np.int64)])
        for column in (part < 0, np.minimum(part, 0))
    )
    return np.diff(number[ends]), np.diff(total[ends])


def _check_corpora(arrays: Arrays, words: int, grammars: int) -> None:
    """Check the texts; ``grammars``: the number of grammars or lists."""
    for name in ("train", "devtest"):
        if corpus := with_prefix(arrays, name):
            _check_corpus(corpus, words, grammars)


def _check_corpus(corpus: Arrays, words: int, grammars: int) -> None:
    sentences, references = len(corpus["grammar"]), len(corpus["reference_ptr"]) - 1
    _check_range(corpus["grammar"], np.int32, 0, grammars)
    for text, rows in (("source", sentences), ("reference", references)):
        _check_rows(corpus[f"{text}_ptr"], corpus[text], rows)
        _check_range(corpus[text], np.int32, 0, words)
    _check_rows(corpus["first_reference"], np.zeros(references, np.uint8), sentences)


def _check_aligned_texts(bitext: Bitext, words: int) -> None:
    texts = bitext.texts
    pairs = len(bitext.place)
    _check_range(bitext.place, np.int32, 0, pairs)
    _check_range(texts.source["word"], np.int32, -1, words)
    _check_range(texts.target["word"], np.int32, 0, words)
    _check_range(texts.link, np.int16, 0, np.iinfo(np.int16).max, columns=2)
    for ptr, flat in ((texts.source_ptr, texts.source), (texts.target_ptr, texts.target), (texts.link_ptr, texts.link)):
        _check_rows(ptr, flat, pairs)
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


def _check_suffixes(bitext: Bitext, words: int) -> None:
    """Check that suffixes and occurrences of a word begin with it, and that suffixes are sorted."""
    word, suffixes = bitext.texts.source["word"], bitext.suffixes
    _check_rows(suffixes.word_ptr, suffixes.suffix, words)
    for places in (suffixes.suffix, suffixes.occurrence):
        _check_range(places, np.int32, 0, len(word))
        _check_type(places, np.int32, len(suffixes.suffix))
    for piece in _pieces(len(suffixes.suffix)):
        numbers = np.searchsorted(suffixes.word_ptr, np.arange(piece.start, piece.stop), side="right") - 1
        for places in (suffixes.suffix, suffixes.occurrence):
            _expect(np.array_equal(word[places[piece.start : piece.stop]], numbers), "occurrences of words")
        _check_sorted(word, suffixes.suffix[piece.start : piece.stop + 1])


def _check_sorted(word: np.ndarray, suffix: np.ndarray) -> None:
    first, second = suffix[:-1].astype(np.int64), suffix[1:].astype(np.int64)
    equal = np.ones(len(first), dtype=np.bool_)
    for depth in range(DEPTH):
        # A suffix ends at the word -1, at which the comparison of two ends too.
        a, b = (word[np.minimum(place + depth, len(word) - 1)] for place in (first, second))
        _expect(not (equal & (a > b)).any(), "sorted suffixes")
        equal &= (a == b) & (a >= 0)


def _check_names(arrays: Arrays, name: str) -> int:
    """Check `mpitune.corpus.vocabulary.Names`; returns their number."""
    text, ptr = arrays[f"{name}.text"], arrays[f"{name}.ptr"]
    _check_type(text, np.uint8, len(text))
    _check_rows(ptr, text)
    for piece in _pieces(len(ptr) - 1):
        begin, end = ptr[piece.start], ptr[piece.stop]
        text[begin:end].tobytes().decode()  # UnicodeDecodeError is a ValueError
        starts = ptr[piece.start : piece.stop]
        _expect(not (text[starts[starts < end]] & 0xC0 == 0x80).any(), "names that begin with a character")
    return len(ptr) - 1


def _check_rows(ptr: np.ndarray, flat: np.ndarray, rows: int | None = None) -> None:
    """Check that ``ptr`` divides ``flat`` into rows; ``rows``: their number, if it is known."""
    _check_type(ptr, np.int64, len(ptr) if rows is None else rows + 1)
    _expect(len(ptr) > 0 and ptr[0] == 0 and ptr[-1] == len(flat), "rows that end where the array ends")
    _expect(bool((ptr[1:] >= ptr[:-1]).all()), "rows in ascending order")


def _check_range(array: np.ndarray, dtype: Any, low: int, end: int, columns: int | None = None) -> None:
    """Check type and shape of ``array``, and that its numbers are ``low`` to ``end`` - 1."""
    _check_type(array, dtype, len(array), columns)
    _expect(array.size == 0 or bool(low <= array.min() and array.max() < end), f"numbers from {low} to {end - 1}")


def _check_type(array: np.ndarray, dtype: Any, length: int, columns: int | None = None) -> None:
    shape = (length,) if columns is None else (length, columns)
    _expect(array.dtype == dtype and array.shape == shape, f"{np.dtype(dtype)} {list(shape)}")


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"expected {what}")


def _pieces(rows: int) -> Iterator[range]:
    return (range(first, min(first + _PIECE, rows)) for first in range(0, rows, _PIECE))
