"""A compiled word-aligned bitext, the input of rule extraction: texts, links, occurrences of words, lexical counts.

The pairs are shuffled with a fixed seed, so that the first occurrences of a word are a random sample of all. With
several alignments, the bitext is there once with each: the pairs with the first one, then all with the second.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from mpitune.array_files.arrays import add_prefix, with_prefix
from mpitune.array_files.csr import row_ends, select_rows
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.lines import kilobytes
from mpitune.corpus.progress import Progress
from mpitune.corpus.vocabulary import Names, Vocabulary
from mpitune.errors import DataError, UsageError
from mpitune.jit import kernel

_SEED = 1

MOST_ALIGNMENTS = 100
"""Maximum number of alignments of a bitext: counts of rules in sampled occurrences are kept as int16."""

Pair = tuple[Sequence[str], Sequence[str], Sequence[Sequence[tuple[int, int]]]]
"""Source words, target words, for each alignment the links (source position, target position)."""
_Rows = tuple[np.ndarray, np.ndarray]
"""``ptr`` and ``flat`` of `mpitune.array_files.csr`."""


SOURCE = np.dtype([("word", np.int32), ("pair", np.int32), ("low", np.int16), ("high", np.int16)])
"""A source word: its number, its pair, the first target position that it is linked to, and the last one + 1.

An unlinked word has -1 for both positions. A word -1 follows each sentence.
"""
TARGET = np.dtype([("word", np.int32), ("low", np.int16), ("high", np.int16)])
"""A target word, likewise."""


class AlignedTexts(NamedTuple):
    """The sentence pairs with their links; both languages share a vocabulary.

    Of P pairs of the bitext with several alignments, pair p with alignment a is number a * P + p here.
    """

    source: np.ndarray
    """`SOURCE` [source words + pairs]"""
    source_ptr: np.ndarray
    """int64 [pairs + 1]: the source of pair p is ``source[source_ptr[p]:source_ptr[p + 1] - 1]``."""
    target: np.ndarray
    """`TARGET` [target words]"""
    target_ptr: np.ndarray
    """int64 [pairs + 1]"""
    link_ptr: np.ndarray
    """int64 [pairs + 1]"""
    link: np.ndarray
    """int16 [links, 2]: source and target position, in the order of the file."""


class Lexicon(NamedTuple):
    """Counts of links between words; an unlinked word counts as linked to NULL."""

    ptr: np.ndarray
    """int64 [words + 1]: row pointer of ``word`` and ``times`` by source word."""
    word: np.ndarray
    """int32: the target words that each source word is linked to, ascending."""
    times: np.ndarray
    """int32: the number of links with each."""
    source_count: np.ndarray
    """int64 [words + 1]: links of each source word; last those of NULL."""
    target_count: np.ndarray
    """int64 [words + 1]: links of each target word; last those of NULL."""
    source_null: np.ndarray
    """int64 [words]: unlinked occurrences of each source word."""
    target_null: np.ndarray
    """int64 [words]: unlinked occurrences of each target word."""


class Bitext(NamedTuple):
    """A compiled bitext."""

    place: np.ndarray
    """int32 [pairs]: the place of each pair of the files among the pairs of ``texts``, with the first alignment."""
    texts: AlignedTexts
    source_words: np.ndarray
    """int32 [source words + pairs]: the words of ``texts.source`` side by side, which searches read; only once."""
    occurrence: np.ndarray
    """int32 [source words]: the places of each word in ``source_words``, sorted by word and then by place."""
    word_ptr: np.ndarray
    """int64 [words + 1]: row pointer of ``occurrence`` by word."""
    lexicon: Lexicon


@kernel
def count_alignments(bitext: Bitext) -> int:
    """The number of alignments of a bitext that has pairs."""
    return (len(bitext.texts.source_ptr) - 1) // len(bitext.place)


def compile_bitext(pairs: Iterable[Pair], words: Vocabulary) -> Bitext:
    """The arrays of ``pairs``; their words get numbers in ``words``. Links must lie within their sentences."""
    source, target, link = _read(pairs, words)
    order = np.random.default_rng(_SEED).permutation(len(source[0]) - 1)
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    alignments = (len(link[0]) - 1) // max(len(order), 1)
    of_alignments = [alignments * order + number for number in range(alignments)] or [order]
    texts = _texts(
        select_rows(*source, np.tile(order, len(of_alignments))),
        select_rows(*target, np.tile(order, len(of_alignments))),
        select_rows(*link, np.concatenate(of_alignments)),
    )
    source_words = texts.source["word"][: len(source[1]) + len(order)].copy()
    occurrence = np.argsort(source_words, kind="stable")
    occurrence = occurrence[source_words[occurrence] >= 0].astype(np.int32)
    word_ptr = np.searchsorted(source_words[occurrence], np.arange(len(words) + 1)).astype(np.int64)
    return Bitext(place, texts, source_words, occurrence, word_ptr, _lexicon(texts, len(words)))


def _read(pairs: Iterable[Pair], words: Vocabulary) -> tuple[_Rows, _Rows, _Rows]:
    """Words and links of the pairs as arrays of numbers: a large bitext as strings would fill the memory.

    A pair has a row of links for each alignment.
    """
    lengths = array("q"), array("q"), array("q")
    source, target, link = array("i"), array("i"), array("h")
    for pair in pairs:
        source.extend(map(words.add, pair[0]))
        target.extend(map(words.add, pair[1]))
        for links in pair[2]:
            link.extend(chain.from_iterable(links))
        for length, parts in zip(lengths, ([pair[0]], [pair[1]], pair[2]), strict=True):
            length.extend(map(len, parts))
    flat = (np.frombuffer(part, dtype=part.typecode) for part in (source, target, link))
    source_rows, target_rows, link_rows = ((row_ends(length), part) for length, part in zip(lengths, flat, strict=True))
    return source_rows, target_rows, (link_rows[0], link_rows[1].reshape(-1, 2))


def _texts(source_rows: _Rows, target_rows: _Rows, link_rows: _Rows) -> AlignedTexts:
    source_ptr, source_words = source_rows
    target_ptr, target_words = target_rows
    pairs = len(source_ptr) - 1
    source = np.empty(len(source_words) + pairs, dtype=SOURCE)
    source["word"] = np.insert(source_words, source_ptr[1:], -1)
    source["pair"] = np.repeat(np.arange(pairs, dtype=np.int32), np.diff(source_ptr) + 1)
    target = np.empty(len(target_words), dtype=TARGET)
    target["word"] = target_words
    texts = AlignedTexts(
        source=source,
        source_ptr=source_ptr + np.arange(pairs + 1),
        target=target,
        target_ptr=target_ptr,
        link_ptr=link_rows[0],
        link=link_rows[1],
    )
    source_at, target_at = _linked_words(texts)
    source["low"], source["high"] = _hull(source_at, texts.link[:, 1], len(source))
    target["low"], target["high"] = _hull(target_at, texts.link[:, 0], len(target))
    return texts


def _hull(at: np.ndarray, other: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """int16 [size] each: minimum and maximum + 1 of ``other`` at each place, or -1."""
    low, high = np.full(size, np.iinfo(np.int16).max, dtype=np.int16), np.full(size, -1, dtype=np.int16)
    np.minimum.at(low, at, other)
    np.maximum.at(high, at, other + np.int16(1))
    low[high < 0] = -1
    return low, high


def _linked_words(texts: AlignedTexts) -> tuple[np.ndarray, np.ndarray]:
    """int64 [links] each: the places of the source and the target word of each link."""
    pair = np.repeat(np.arange(len(texts.link_ptr) - 1), np.diff(texts.link_ptr))
    return texts.source_ptr[pair] + texts.link[:, 0], texts.target_ptr[pair] + texts.link[:, 1]


def _lexicon(texts: AlignedTexts, words: int) -> Lexicon:
    source_at, target_at = _linked_words(texts)
    source, target = texts.source["word"], texts.target["word"]
    key, count = np.unique(source[source_at] * np.int64(words) + target[target_at], return_counts=True)
    source_null = np.bincount(source[(source >= 0) & (texts.source["low"] < 0)], minlength=words)
    target_null = np.bincount(target[texts.target["low"] < 0], minlength=words)
    source_count = np.bincount(source[source_at], minlength=words) + source_null
    target_count = np.bincount(target[target_at], minlength=words) + target_null
    return Lexicon(
        ptr=np.searchsorted(key // words, np.arange(words + 1)).astype(np.int64),
        word=(key % words).astype(np.int32),
        times=count.astype(np.int32),
        source_count=np.append(source_count, target_null.sum()),
        target_count=np.append(target_count, source_null.sum()),
        source_null=source_null,
        target_null=target_null,
    )


def compiled_bitext(files: AlignedFiles) -> dict[str, np.ndarray]:
    """The arrays of a bitext and its words, for storage. Raises DataError for bad files or an empty bitext."""
    if len(files.alignments) > MOST_ALIGNMENTS:
        raise UsageError(f"found {len(files.alignments)} alignments of a bitext, expected {MOST_ALIGNMENTS} at most")
    words = Vocabulary()
    with Progress("kB of the bitext read", kilobytes(files.files)) as progress:
        pairs = files.read(progress)
        first = next(pairs, None)
        if first is None:
            raise DataError.at(files.source, None, found="no sentences", expected="a bitext")
        arrays = to_arrays(compile_bitext(chain([first], pairs), words))
    names = Names.of(words.words)
    return arrays | names.as_arrays("words")


def to_arrays(bitext: Bitext) -> dict[str, np.ndarray]:
    """``bitext`` as plain arrays by name, for storage."""
    texts = add_prefix("texts", bitext.texts._asdict())
    texts = {name: array.view(np.uint8) if array.dtype.names else array for name, array in texts.items()}
    lexicon = add_prefix("lexicon", bitext.lexicon._asdict())
    return (
        texts | lexicon | {name: getattr(bitext, name) for name in ("place", "source_words", "occurrence", "word_ptr")}
    )


def from_arrays(arrays: Mapping[str, np.ndarray]) -> Bitext:
    """The inverse of `to_arrays`."""
    texts = AlignedTexts(**with_prefix(arrays, "texts"))
    return Bitext(
        place=arrays["place"],
        texts=texts._replace(source=texts.source.view(SOURCE), target=texts.target.view(TARGET)),
        source_words=arrays["source_words"],
        occurrence=arrays["occurrence"],
        word_ptr=arrays["word_ptr"],
        lexicon=Lexicon(**with_prefix(arrays, "lexicon")),
    )
