"""Sentences for which rules are extracted, and their division into items of work."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.extraction.bitext import Bitext
from mpitune.extraction.cores import count_cores

ITEMS = 64
"""Wanted number of items of work, so that all ranks have work and progress is seen."""
SMALLEST_ITEM = 1 << 13
"""Number of cores, repeated ones included, below which an item is not complete."""
LARGEST_ITEM = 1 << 20
"""Number of cores at which an item is complete: they take some 0.3 GB of memory."""


class Sentences(NamedTuple):
    """The sentences for which rules are extracted."""

    ptr: np.ndarray
    """int64 [sentences + 1]"""
    word: np.ndarray
    """int32: as the bitext numbers them; -1: not a word of the bitext."""
    own_pair: np.ndarray
    """int32 [sentences]: the pair to leave out, as a place among the pairs of the bitext; -1: none."""
    by_word: np.ndarray
    """int64: the places of known words in `word`, by word and then by place."""
    word_ptr: np.ndarray
    """int64 [words of the bitext + 1]: row pointer of `by_word`."""


def index_sentences(bitext: Bitext, sentences: list[np.ndarray], without: np.ndarray) -> Sentences:
    """``sentences`` (int32 each, -1 for a word that the bitext has not) as `Sentences`.

    ``without``: int32 [sentences], the number of the pair in the bitext's files to leave out (leave-one-out), -1: none.
    """
    word = np.concatenate([np.zeros(0, dtype=np.int32), *sentences]).astype(np.int32)
    by_word = np.argsort(word, kind="stable")
    by_word = by_word[word[by_word] >= 0]
    own_pair = np.where(without >= 0, bitext.place[without], np.int32(-1)).astype(np.int32)
    word_ptr = np.searchsorted(word[by_word], np.arange(len(bitext.word_ptr))).astype(np.int64)
    return Sentences(row_ends([len(words) for words in sentences]), word, own_pair, by_word, word_ptr)


def items_of_work(sentences: Sentences) -> list[range]:
    """Ranges of words; the cores that begin with the words of a range are extracted together."""
    ends = row_ends(cores_of(sentences))[sentences.word_ptr]
    size = min(max(ends[-1] // ITEMS, SMALLEST_ITEM), LARGEST_ITEM)
    items, first = list[range](), 0
    while first + 1 < len(ends):
        last = max(int(np.searchsorted(ends, ends[first] + size, side="right")) - 1, first + 1)
        if ends[last] > ends[first]:
            items.append(range(first, last))
        first = last
    return items


def cores_of(sentences: Sentences) -> np.ndarray:
    """int64: the number of cores that begin at each of the places ``by_word``, repeated ones included."""
    return count_cores(sentences.ptr[sentence_of(sentences, sentences.by_word) + 1] - sentences.by_word)


def sentence_of(sentences: Sentences, places: np.ndarray) -> np.ndarray:
    """int64: the sentence of each of ``places``."""
    return np.searchsorted(sentences.ptr, places, side="right") - 1
