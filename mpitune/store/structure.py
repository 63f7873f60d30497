"""Checks of the arrays of a store before kernels, which check no bounds, index them.

A digest tells damage; a file that somebody else has written may have a digest that matches. Pointers must ascend and
end where their rows end, and numbers must lie within the arrays that they refer to. Each check raises ValueError, or
KeyError for a missing array. Arrays are read in pieces and their pages released, so that a check takes a few bytes for
each source side and target side, whatever the size of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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


def check_data(arrays: Arrays) -> None:
    """Check `mpitune.store.store.DATA`: grammars, words, categories, names of scores, and the corpora."""
    words, categories, scores = (_check_names(arrays, name) for name in ("words", "categories", "score_names"))
    types = RuleTypes(**with_prefix(arrays, "types"))
    _check_types(types, words, categories)
    if counts := with_prefix(arrays, "counts"):
        grammars = _check_counts(types, RuleCountTable(**counts), scores)
    else:
        grammars = _check_listed(types, arrays, scores)
    _check_corpora(arrays, words, grammars)


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
    _check_type(lists["metric"], np.float64, entries, lists["metric"].shape[-1])
    _expect(bool(np.isfinite(lists["metric"]).all()), "finite metrics")
    _check_type(lists["ids"], np.uint64, features)
    _check_type(lists["dense"], np.int64, 1)
    _check_range(lists["dense"], np.int64, 0, features + 1)
    _check_corpora(arrays, words, len(lists["entry_ptr"]) - 1)


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


def check_own_ngrams(arrays: Arrays) -> None:
    """Check `mpitune.lm.leave_one_out.OwnNgrams`."""
    _check_rows(arrays["ptr"], arrays["node"])
    _check_range(arrays["node"], np.int32, 0, MAX_NODES)
    _check_type(arrays["prob"], np.float32, len(arrays["node"]))
    _expect(not np.isnan(arrays["prob"]).any() and bool((arrays["prob"] <= 0).all()), "log10 probabilities")
    _check_type(arrays["references"], np.int64, 2)
    _check_type(arrays["covered"], np.float64, 1)


def check_bitext(arrays: Arrays) -> None:
    """Check a compiled bitext."""
    words = _check_names(arrays, "words")
    bitext = from_arrays(arrays)
    _check_aligned_texts(bitext, words)
    _check_occurrences(bitext, words)
    lexicon = bitext.lexicon
    _check_rows(lexicon.ptr, lexicon.word, words)
    _check_range(lexicon.word, np.int32, 0, words)
    _check_type(lexicon.times, np.int32, len(lexicon.word))
    for count, size in ((lexicon.source_count, 1), (lexicon.target_count, 1), (lexicon.source_null, 0)):
        _check_type(count, np.int64, words + size)
    _check_type(lexicon.target_null, np.int64, words)


def _check_types(types: RuleTypes, words: int, categories: int) -> None:
    sides, target_sides, alignments = len(types.lhs), len(types.target_ptr) - 1, len(types.align_ptr) - 1
    _check_range(types.lhs, np.int32, 0, categories)
    _check_range(types.source, np.int32, -categories, words)
    _check_range(types.target, np.int32, -MAX_GAPS, words)
    _check_range(types.align, np.int16, 0, MAX_SYMBOLS, columns=2)
    _check_rows(types.source_ptr, types.source, sides)
    _check_rows(types.target_ptr, types.target)
    _check_rows(types.align_ptr, types.align)
    for of_type, end in ((types.side, sides), (types.target_side, target_sides), (types.alignment, alignments)):
        _check_range(of_type, np.int32, 0, end)
        _check_type(of_type, np.int32, len(types.side))
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
        _release(side, target, alignment)
    _check_unary(types, np.flatnonzero(sizes == 1))


def _longest_links(types: RuleTypes) -> np.ndarray:
    """int16 [alignments, 2]: the last source and target position that each alignment links; -1 if it is empty."""
    longest = np.full((len(types.align_ptr) - 1, 2), -1, dtype=np.int16)
    linked = np.flatnonzero(np.diff(types.align_ptr))
    if len(linked):
        longest[linked] = np.maximum.reduceat(types.align, types.align_ptr[linked], axis=0)
    return longest


def _check_listed(types: RuleTypes, arrays: Arrays, scores: int) -> int:
    """Check `ListedGrammars`; returns their number. ``scores``: the number of names of scores."""
    rules = Rules(types, **with_prefix(arrays, "rules"))
    _check_rows(rules.score_ptr, rules.score_index)
    _check_range(rules.score_index, np.int32, 0, scores)
    _check_type(rules.score_value, np.float64, len(rules.score_index))
    _check_range(rules.type, np.int32, 0, len(types.side))
    _check_range(rules.score_row, np.int32, 0, len(rules.score_ptr) - 1)
    _check_type(rules.score_row, np.int32, len(rules.type))
    _check_rows(arrays["grammar_ptr"], rules.type)
    return max(len(arrays["grammar_ptr"]) - 1, 1)


def _check_counts(types: RuleTypes, table: RuleCountTable, scores: int) -> int:
    """Check `ExtractedGrammars`; returns their number. ``scores``: the number of names of scores."""
    _expect(scores == len(FEATURES), "a name for each feature of an extracted rule")
    rules, sides, entries = len(types.side), len(types.lhs), len(table.entry_side)
    _check_rows(table.rule_ptr, types.side, sides)
    for piece in _pieces(sides):
        rules_of_side = np.diff(table.rule_ptr[piece.start : piece.stop + 1])
        _expect(bool((rules_of_side <= np.iinfo(np.int16).max).all()), "few rules of a source side")
    _check_type(table.rule_count, np.int16, rules)
    _check_range(table.lexical, np.int32, 0, len(table.lexical_value))
    _check_type(table.lexical, np.int32, rules)
    _check_type(table.lexical_value, np.float64, len(table.lexical_value), columns=2)
    _check_rows(table.grammar_ptr, table.entry_side)
    _check_range(table.entry_side, np.int32, 0, sides)
    _check_type(table.entry_sample, np.int16, entries)
    _check_type(table.entry_single, np.bool_, entries)
    _check_range(table.entry_changes, np.int16, 0, np.iinfo(np.int16).max)
    _check_type(table.entry_changes, np.int16, entries)
    sentences = len(table.grammar_ptr) - 1
    _check_rows(table.change_ptr, table.change_rule, sentences)
    for piece in _pieces(sentences, _SENTENCES):
        ptr, changes = (end[piece.start : piece.stop + 1] for end in (table.grammar_ptr, table.change_ptr))
        of_sentence = _sums(ptr, table.entry_changes[ptr[0] : ptr[-1]])
        _expect(np.array_equal(of_sentence, np.diff(changes)), "the changes of each sentence")
    _check_type(table.change_rule, np.int16, len(table.change_rule))
    _check_type(table.change_count, np.int16, len(table.change_rule))
    return max(sentences, 1)


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
    _release(ptr, symbols)
    return sizes, gaps


def _sums(ptr: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """int64 [rows]: the sum of the ``numbers`` of each row; ``ptr`` counts from any first number."""
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers, dtype=np.int64)])
    return np.diff(sums[ptr - ptr[0]])


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
    pairs = len(texts.source_ptr) - 1
    _expect(len(bitext.place) > 0 and pairs > 0 and pairs % len(bitext.place) == 0, "pairs with each alignment")
    _check_range(bitext.place, np.int32, 0, len(bitext.place))
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


def _check_occurrences(bitext: Bitext, words: int) -> None:
    """Check that the occurrences of each word are its places, in ascending order."""
    word = bitext.source_words
    _expect(word.dtype == np.int32, "the source words")
    for again in np.split(bitext.texts.source["word"], count_alignments(bitext)):
        _expect(np.array_equal(again, word), "the source words")
    _check_rows(bitext.word_ptr, bitext.occurrence, words)
    _check_range(bitext.occurrence, np.int32, 0, len(word))
    for piece in _pieces(len(bitext.occurrence)):
        numbers = np.searchsorted(bitext.word_ptr, np.arange(piece.start, piece.stop), side="right") - 1
        place = bitext.occurrence[piece.start : piece.stop]
        _expect(np.array_equal(word[place], numbers), "occurrences of words")
        _expect(bool(((np.diff(place) > 0) | (np.diff(numbers) > 0)).all()), "occurrences in ascending order")


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
    _release(ptr)


def _check_range(array: np.ndarray, dtype: Any, low: int, end: int, columns: int | None = None) -> None:
    """Check type and shape of ``array``, and that its numbers are ``low`` to ``end`` - 1."""
    _check_type(array, dtype, len(array), columns)
    _expect(array.size == 0 or bool(low <= array.min() and array.max() < end), f"numbers from {low} to {end - 1}")
    _release(array)


def _check_type(array: np.ndarray, dtype: Any, length: int, columns: int | None = None) -> None:
    shape = (length,) if columns is None else (length, columns)
    _expect(array.dtype == dtype and array.shape == shape, f"{np.dtype(dtype)} {list(shape)}")


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"expected {what}")


def _pieces(rows: int, size: int | None = None) -> Iterator[range]:
    size = size or _PIECE
    return (range(first, min(first + size, rows)) for first in range(0, rows, size))


def _release(*arrays: np.ndarray) -> None:
    for array in arrays:
        release_pages(array)
