"""A writer of KenLM's probing binaries, from the description of the format (version 5), in plain Python."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from support.naive_lm import NaiveLm

MAGIC = b"mmap lm http://kheafield.com/code format version 5\n"
BITS = 2**64


def write_kenlm(arpa: Path, path: Path, *, room: float = 1.5, with_words: bool = True) -> None:
    """Write the model in the file ``arpa`` to ``path`` as ``build_binary -p ROOM`` does (``-v`` without words).

    Where n-grams that others need are missing, KenLM may find no place for those that it adds, or refuse the model.
    Here they get the room that they need.
    """
    lm = NaiveLm(arpa)
    # A missing <unk> is what NaiveLm adds last.
    unknown = [*lm.ngrams][-1] != ("<unk>",)
    unigrams = [ngram for ngram in lm.ngrams if len(ngram) == 1]
    words = ["<unk>", *(word for (word,) in unigrams if word != "<unk>")]
    number = {word: n for n, word in enumerate(words)}
    entries = with_flags(with_blanks(lm))
    if not unknown:
        entries["<unk>",] = (-100.0, 0.0)
    counts = [sum(len(ngram) == n for ngram in lm.ngrams) for n in range(1, lm.order + 1)]
    counts[0] -= not unknown
    needed = [sum(len(ngram) == n for ngram in entries) for n in range(1, lm.order + 1)]
    while any(n >= buckets(count, room) for n, count in zip(needed[1:], counts[1:], strict=True)):
        room *= 2

    header = struct.pack("<56s3f3IQ", MAGIC, 0.0, 1.0, -0.5, 1, 2**32 - 1, 0, 1)
    header += struct.pack("<B3xfI?3xI", lm.order, room, 0, with_words, 0)
    header += struct.pack(f"<{lm.order}Q", *counts)
    out = header + bytes(-len(header) % 8) + struct.pack("<II", 0, len(words))
    word_hashes = [(murmur(word.encode()), struct.pack("<I", number[word])) for word in words[1:]]
    out += table(word_hashes, buckets(counts[0], room), 4)
    out += b"".join(struct.pack("<ff", *entries[word,]) for word in words) + bytes(8 * (counts[0] + 1 - len(words)))
    for n in range(2, lm.order + 1):
        level = [(key([number[word] for word in ngram]), entry) for ngram, entry in entries.items() if len(ngram) == n]
        form = "<ff" if n < lm.order else "<f"
        packed = [(hashed, struct.pack(form, *entry[: len(form) - 1])) for hashed, entry in level]
        out += table(packed, buckets(counts[n - 1], room), struct.calcsize(form))
    if with_words:
        out += b"".join(word.encode() + b"\0" for word in words)
    path.write_bytes(out)


def with_blanks(lm: NaiveLm) -> dict[tuple[str, ...], tuple[float, float]]:
    """All n-grams, and those that longer ones contain, worth what backing off gives (added up in float32).

    Each length is in KenLM's order: the file's n-grams, then the others as longer ones of the file ask for them.
    """
    inside = [g[a:b] for g in lm.ngrams for a in range(len(g)) for b in range(a + 1, len(g) + 1)]
    entries = {ngram: (np.float32(prob), np.float32(backoff)) for ngram, (prob, backoff) in lm.ngrams.items()}
    for ngram in sorted((ngram for ngram in dict.fromkeys(inside) if ngram not in entries), key=len):
        entries[ngram] = (entries[ngram[1:]][0] + entries[ngram[:-1]][1], np.float32(0.0))
    return {ngram: (float(prob), float(backoff)) for ngram, (prob, backoff) in entries.items()}


def with_flags(entries: dict[tuple[str, ...], tuple[float, float]]) -> dict[tuple[str, ...], tuple[float, float]]:
    """The signs: plus for the probability of what some n-gram ends with, -0.0 for what none starts with."""
    suffixes, contexts = {ngram[1:] for ngram in entries}, {ngram[:-1] for ngram in entries}
    return {
        ngram: (abs(prob) if ngram in suffixes else -abs(prob), backoff or (0.0 if ngram in contexts else -0.0))
        for ngram, (prob, backoff) in entries.items()
    }


def buckets(entries: int, room: float) -> int:
    return max(entries + 1, math.floor(np.float32(room) * np.float32(entries)))


def table(entries: Sequence[tuple[int, bytes]], size: int, width: int) -> bytes:
    """A hash table with linear probing: a slot is a key of 8 bytes and a value."""
    slots: list[bytes | None] = [None] * size
    for hashed, value in entries:
        i = hashed % size
        while slots[i] is not None:
            i = (i + 1) % size
        slots[i] = struct.pack("<Q", hashed) + value
    return b"".join(slot or bytes(8 + width) for slot in slots)


def key(numbers: Sequence[int]) -> int:
    """The key of an n-gram, oldest word first."""
    *older, hashed = numbers
    for word in reversed(older):
        hashed = (hashed * 8978948897894561157 % BITS) ^ ((word + 1) * 17894857484156487943 % BITS)
    return hashed


def murmur(data: bytes) -> int:
    """MurmurHash64A with seed 0."""
    m = 0xC6A4A7935BD1E995
    hashed = len(data) * m % BITS
    for i in range(0, len(data), 8):
        block = data[i : i + 8]
        mixed = int.from_bytes(block, "little")
        if len(block) == 8:
            mixed = mixed * m % BITS
            mixed = (mixed ^ mixed >> 47) * m % BITS
        hashed = (hashed ^ mixed) * m % BITS
    hashed = (hashed ^ hashed >> 47) * m % BITS
    return hashed ^ hashed >> 47
