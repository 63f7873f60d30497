"""KenLM's binary language models of the default kind (``build_binary``, probing), mapped into memory unchanged.

A binary gives the same scores as the ARPA file it was built from, with one exception. KenLM marks an n-gram as a
context (`ngram_table.EXTENDS_RIGHT`) if it has a backoff or some n-gram starts with it; `ngram_table` also marks the
suffixes of such n-grams. The two differ only if an n-gram has a backoff, no n-gram starts with it, and its suffix has
no backoff, as in models pruned and filtered by hand. Partial translations then get the scores that KenLM gives.

File layout: a header; a hash table from word hashes to word numbers; the unigrams; a hash table for each longer n-gram
length (see `probing`); the text of the words, which is optional and not needed here. All sizes follow from the header.
Supported: format version 5, probing models without rest costs. Others are refused with their name.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from mpitune.corpus.vocabulary import Names
from mpitune.corpus.wording import counted
from mpitune.errors import DataError
from mpitune.files import open_regular, size_of
from mpitune.jit import int64, kernel, uint64
from mpitune.lm.ngram_table import MAX_NODES, NODE, UNKNOWN, LanguageModel
from mpitune.lm.probing import LONGEST, MIDDLE, UNIGRAM, Probing, layout

MAGIC = b"mmap lm http://kheafield.com/code"
"""First bytes of every KenLM binary."""

WORD = np.dtype([("hash", "<u8"), ("number", "<u4")])
"""A slot of the word table; hash 0 marks an empty slot."""

_VERSION = b" format version 5\n\0"
_HEADER = struct.Struct("<56s3f3IQ B3xfI?3xI")
"""Magic and version; test numbers; order, multiplier of the table sizes, kind, flag for the text of the words, version
of the kind. The number of n-grams of each length follows (uint64 each)."""
_TEST_NUMBERS = (0.0, 1.0, -0.5, 1, 2**32 - 1, 0, 1)
_KINDS = ("probing", "probing with rest costs", "trie", "quantised trie", "array trie", "quantised array trie")
_ARPA = "the ARPA file"
_PROBING = "a probing one (build_binary's default)"
_FIRST_WORD = b"<unk>\0"
_MAX_MULTIPLIER = 1e9
_CHUNK = 1 << 20

_MURMUR = uint64(0xC6A4A7935BD1E995)
_47 = uint64(47)


class _File(NamedTuple):
    """The parts of a file; the arrays are views of it."""

    counts: list[int]
    """Number of n-grams of each length in the ARPA file."""
    word: np.ndarray
    """WORD: the word table, with linear probing."""
    tables: list[np.ndarray]
    """UNIGRAM [words], MIDDLE ..., LONGEST: the n-grams by length."""
    text: np.ndarray
    """uint8: the words, each followed by a 0; empty if the file has no text."""
    probing: Probing


def is_kenlm(path: Path) -> bool:
    """Test if a file is a KenLM binary of any kind. Raises DataError if it cannot be read."""
    with open_regular(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def refuse_other_kinds(path: Path, header: bytes) -> None:
    """Raise DataError if ``header``, the first bytes of the KenLM binary ``path``, is of an unsupported kind."""
    if not header.startswith(MAGIC + _VERSION):
        text = header[len(MAGIC) : 56].partition(b"\n")[0].decode(errors="replace").strip()
        raise DataError.at(path, None, found=f"a KenLM binary ({text})", expected=f"format version 5, or {_ARPA}")
    if len(header) < _HEADER.size:
        raise DataError.at(path, None, found=f"a KenLM binary of {len(header)} bytes", expected="more: was it cut?")
    _, *numbers, order, multiplier, kind, _, version = _HEADER.unpack_from(header)
    if 0 < kind < len(_KINDS):
        raise DataError.at(path, None, found=f"a KenLM binary ({_KINDS[kind]})", expected=f"{_PROBING}, or {_ARPA}")
    if tuple(numbers) != _TEST_NUMBERS:
        found, expected = "a KenLM binary of another kind of machine", "one of a 64-bit little-endian machine"
        raise DataError.at(path, None, found=found, expected=f"{expected}, or {_ARPA}")
    if kind != 0 or version != 0 or order < 2 or not 1.0 <= multiplier <= _MAX_MULTIPLIER:
        found = f"a KenLM binary of kind {kind}, version {version}, order {order}, multiplier {multiplier:g}"
        expected = f"kind 0, version 0, an order from 2 on, a multiplier from 1 to {_MAX_MULTIPLIER:g}"
        raise DataError.at(path, None, found=found, expected=f"{expected}, or {_ARPA}")


def read_kenlm(path: Path) -> dict[str, np.ndarray]:
    """Check a whole KenLM binary, so that `open_kenlm` need not.

    Returns ``kenlm`` (int64 [1]): its size in bytes, an argument of `open_kenlm`. Raises DataError for a file that is
    damaged, truncated or of an unsupported kind.
    """
    file = _open(path)
    words = len(file.tables[0])

    def refuse(found: str, expected: str) -> NoReturn:
        raise DataError.at(path, None, found=found, expected=f"{expected}: is the file damaged?")

    used, last = int(np.count_nonzero(file.word["hash"])), int(file.word["number"].max())
    if used >= len(file.word) or (used, last) != (words - 1, words - 1):
        refuse(f"{used} words up to number {last} in a table of {len(file.word)}", f"{words - 1}")
    for n, (table, count) in enumerate(zip(file.tables, file.counts, strict=True), start=1):
        used = 0
        for slots in (table[k : k + _CHUNK] for k in range(0, len(table), _CHUNK)):
            if not all(np.isfinite(slots[name]).all() for name in slots.dtype.names or () if name != "key"):
                refuse(f"a {n}-gram whose probability or backoff is not finite", "numbers")
            used += int(np.count_nonzero(slots["key"])) if n > 1 else 0
        if n > 1 and not count <= used < len(table):
            refuse(f"{used} {n}-grams in a table of {len(table)}", f"{count} or more, but not all")
    ends = np.flatnonzero(file.text == 0)
    if len(file.text) and not (len(ends) == words and bytes(file.text[:6]) == _FIRST_WORD and file.text[-1] == 0):
        refuse(f"{counted(len(ends), 'word')} written out", f"{words}, the first <unk>")
    _boundaries(path, file)
    return {"kenlm": np.array([size_of(path)], dtype=np.int64)}


def open_kenlm(path: Path, size: int) -> tuple[LanguageModel, KenlmWords]:
    """Map the KenLM binary that `read_kenlm` has checked into memory; reads little more than its header.

    Raises DataError if the file is missing or its size is not ``size`` bytes.
    """
    if (found := size_of(path)) != size:
        expected = f"the KenLM binary of {size} bytes that was there when the store was made"
        raise DataError.at(path, None, found=f"{found} bytes", expected=expected)
    file = _open(path)
    unigrams = file.tables[0]
    if len(unigrams) > file.counts[0]:
        # The ARPA file had no <unk>: KenLM added it and marked it as a context. Remove that mark; the write goes to a
        # private copy of the page.
        unigrams["backoff"][UNKNOWN] = -0.0
    bos, eos = _boundaries(path, file)
    lm = LanguageModel(np.zeros(0, NODE), len(file.counts), len(unigrams), bos, eos, file.probing)
    return lm, KenlmWords(file.word, lm.words)


def _boundaries(path: Path, file: _File) -> tuple[int, int]:
    """Return the numbers of ``<s>`` and ``</s>``; raises DataError if the model lacks one of them."""
    bos, eos = KenlmWords(file.word, len(file.tables[0])).numbers(["<s>", "</s>"]).tolist()
    for word, number in (("<s>", bos), ("</s>", eos)):
        if number == UNKNOWN:
            expected = "a model of sentences between <s> and </s>"
            raise DataError.at(path, None, found=f"no {word} among the 1-grams", expected=expected)
    return bos, eos


def _open(path: Path) -> _File:
    with open_regular(path) as raw:
        data: np.ndarray = np.asarray(np.memmap(raw, dtype=np.uint8, mode="c")).view(np.ndarray)
    header = data[: _HEADER.size].tobytes()
    refuse_other_kinds(path, header)
    *_, order, multiplier, _, has_text, _ = _HEADER.unpack(header)
    begin = _HEADER.size + 8 * order
    if begin > len(data):
        raise DataError.at(path, None, found=f"{len(data)} bytes", expected=f"{begin} or more: was the file cut?")
    counts = data[_HEADER.size : begin].view("<u8").tolist()
    # The product is taken in float32, as in KenLM.
    sizes = [max(count + 1, int(np.float32(multiplier) * np.float32(count))) for count in counts]
    dtypes = [np.dtype("<u8"), WORD, UNIGRAM, *[MIDDLE] * (order - 2), LONGEST]
    parts = [1, sizes[0], counts[0] + 1, *sizes[1:]]
    ends = accumulate((n * dtype.itemsize for n, dtype in zip(parts, dtypes, strict=True)), initial=-(-begin // 8) * 8)
    ranges = list(pairwise(ends))
    end = ranges[-1][1]
    if has_text != (end < len(data)) or end > len(data):
        expected = f"{end + 1} or more" if has_text else f"{end}"
        raise DataError.at(path, None, found=f"{len(data)} bytes", expected=f"{expected}: is the file damaged or cut?")
    bound, word, unigrams, *tables = (data[a:b].view(dtype) for (a, b), dtype in zip(ranges, dtypes, strict=True))
    version, words = bound.view("<u4").tolist()
    if version != 0 or not 1 <= words <= counts[0] + 1:
        found = f"a table of {words} words, version {version}"
        raise DataError.at(path, None, found=found, expected=f"at most {counts[0] + 1}, version 0")
    nodes = layout(ranges[2][0] // 4, words, [len(unigrams), *sizes[1:]])
    if nodes[-1] > MAX_NODES:
        raise DataError.at(path, None, found=f"{nodes[-1]} slots for n-grams", expected=f"at most {MAX_NODES}")
    probing = Probing(data[:end].view(np.uint32), nodes)
    return _File(counts, word, [unigrams[:words], *tables], data[end:], probing)


class KenlmWords:
    """`LmVocabulary` of a KenLM binary, which stores hashes of the words."""

    def __init__(self, slot: np.ndarray, count: int) -> None:
        """``slot``: WORD, the word table; ``count``: the number of words."""
        self._slot = slot
        self._count = count

    def __len__(self) -> int:
        return self._count

    def numbers(self, words: Sequence[str]) -> np.ndarray:
        """See `LmVocabulary`."""
        names = Names.of(words)
        out = np.empty(len(words), dtype=np.int32)
        _find_words(self._slot, names.text, names.ptr, out)
        return out


@kernel
def _find_words(slot: np.ndarray, text: np.ndarray, ptr: np.ndarray, out: np.ndarray) -> None:
    for w in range(len(out)):
        key = _murmur(text, int64(ptr[w]), int64(ptr[w + 1]))
        i = int64(key % uint64(len(slot)))
        while slot[i]["hash"] != key and slot[i]["hash"] != uint64(0):
            i += 1
            if i == len(slot):
                i = 0
        out[w] = slot[i]["number"] if slot[i]["hash"] == key else UNKNOWN


@kernel
def _murmur(text: np.ndarray, begin: int, end: int) -> int:
    """MurmurHash64A (Austin Appleby) of ``text[begin:end]`` (uint8), with seed 0."""
    hashed = uint64(end - begin) * _MURMUR
    while begin + 8 <= end:
        block = _little_endian(text, begin, begin + 8) * _MURMUR
        hashed = (hashed ^ (block ^ block >> _47) * _MURMUR) * _MURMUR
        begin += 8
    if begin < end:
        hashed = (hashed ^ _little_endian(text, begin, end)) * _MURMUR
    hashed = (hashed ^ hashed >> _47) * _MURMUR
    return hashed ^ hashed >> _47


@kernel
def _little_endian(text: np.ndarray, begin: int, end: int) -> int:
    number = uint64(0)
    for k in range(begin, end):
        number |= uint64(text[k]) << uint64(8 * (k - begin))
    return number
