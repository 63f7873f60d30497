"""Words as bytes, with a hash table that compiled parsers look words up in without making strings of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.array_files.row_table import enlarged
from mpitune.jit import at, inlined, int64, kernel


class WordTable(NamedTuple):
    """Words as concatenated bytes, with a hash table over them."""

    text: np.ndarray
    """uint8 [bytes or more]: word w is ``text[ptr[w]:ptr[w + 1]]``."""
    ptr: np.ndarray
    """int64 [words + 1 or more]."""
    slot: np.ndarray
    """int32 [more than words]: open-addressed hash table (linear probing) of 1 + word number; 0 marks an empty slot."""


class GrowingWordTable:
    """A `WordTable` to which words are added one by one; they are numbered from 0."""

    def __init__(self) -> None:
        self._words = 0
        self.table = WordTable(np.zeros(1, dtype=np.uint8), np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int32))
        """The words so far; adding a word may replace it."""

    def __len__(self) -> int:
        return self._words

    def texts(self, numbers: np.ndarray) -> list[str]:
        """The words with these ``numbers`` (int [n])."""
        text, ptr = self.table.text.data, self.table.ptr
        ends = zip(ptr[numbers].tolist(), ptr[numbers + 1].tolist(), strict=True)
        return [str(text[begin:end], "utf-8") for begin, end in ends]

    def add(self, word: bytes) -> int:
        """The number of ``word``, which is added if it is new."""
        text = np.frombuffer(bytearray(word), dtype=np.uint8)
        number = word_or_new(self.with_room(1, len(text)), len(self), text, 0, len(text))
        self.took(max(len(self), number + 1))
        return number

    def with_room(self, words: int, size: int) -> WordTable:
        """The table, with room for as many further ``words``, of ``size`` bytes together, as `word_or_new` may add."""
        number = self._words + words
        end = int(self.table.ptr[self._words]) + size
        table = self.table._replace(text=enlarged(self.table.text, end), ptr=enlarged(self.table.ptr, number + 1))
        if 2 * number > len(table.slot):
            table = table._replace(slot=np.zeros(4 * number, dtype=np.int32))
            fill_slots(table, self._words)
        self.table = table
        return table

    def took(self, words: int) -> None:
        """`word_or_new` has made the table one of so many ``words``."""
        self._words = words


@kernel
def word_slot(table: WordTable, text: np.ndarray, begin: int, end: int) -> int:
    """Return the slot of the word ``text[begin:end]`` (uint8) in ``table``, or the empty slot for it."""
    hashed = 2166136261
    for k in range(begin, end):
        hashed = ((hashed ^ int(text[at(k)])) * 16777619) & 0xFFFFFFFF
    size = len(table.slot)
    i = hashed * size >> 32
    while table.slot[at(i)] != 0:
        word = table.slot[at(i)] - 1
        start = table.ptr[at(word)]
        if table.ptr[at(word + 1)] - start == end - begin:
            k = 0
            while k < end - begin and table.text[at(start + k)] == text[at(begin + k)]:
                k += 1
            if k == end - begin:
                break
        i += 1
        if i == size:
            i = 0
    return i


@inlined
def word_number(table: WordTable, text: np.ndarray, begin: int, end: int) -> int:
    """The number of the word ``text[begin:end]`` (uint8) in ``table``, or -1 if it is new."""
    return int64(table.slot[word_slot(table, text, begin, end)]) - 1


@inlined
def add_word(table: WordTable, word: int, slot: int, text: np.ndarray, begin: int, end: int) -> None:
    """Enter ``text[begin:end]`` (uint8), which is new, as the next ``word``, in its ``slot``; the table has room."""
    start = table.ptr[word]
    for k in range(end - begin):
        table.text[start + k] = text[begin + k]
    table.ptr[word + 1] = start + end - begin
    table.slot[slot] = word + 1


@kernel
def word_or_new(table: WordTable, words: int, text: np.ndarray, begin: int, end: int) -> int:
    """The number of the word ``text[begin:end]`` (uint8) in a table of so many ``words``; a new one is added as the
    next, for which the table has room."""
    slot = word_slot(table, text, begin, end)
    if table.slot[slot] == 0:
        add_word(table, words, slot, text, begin, end)
    return int64(table.slot[slot]) - 1


@kernel
def fill_slots(table: WordTable, words: int) -> None:
    """Enter the first ``words`` in the hash table, which is empty."""
    for word in range(words):
        table.slot[word_slot(table, table.text, table.ptr[word], table.ptr[word + 1])] = word + 1
