"""Mappings between strings (words, feature names) and numbers; `mpitune.corpus.feature_table` for features in use."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping, Sequence

import numpy as np


def feature_id(name: str) -> int:
    """The 64-bit id of a feature, a hash of its name: equal on all ranks and in all runs without communication."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


class _Numbers(dict[str, int]):
    """Numbers of words; a new word gets the next one."""

    def __init__(self, words: list[str]) -> None:
        """``words``: gets the new words."""
        super().__init__()
        self._words = words

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self._words)
        self._words.append(word)
        return number


class Vocabulary:
    """Words and their numbers 0, 1, 2 ... in the order in which they are first added."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.words: list[str] = []
        self._number = _Numbers(self.words)
        for word in words:
            self.add(word)

    def __len__(self) -> int:
        return len(self.words)

    def add(self, word: str) -> int:
        """The number of ``word``, which is added if it is new."""
        return self._number[word]

    def numbers(self, words: Iterable[str]) -> list[int]:
        """The numbers of ``words``; new words are added. Three times as fast as word by word."""
        return list(map(self._number.__getitem__, words))

    def encode(self, words: Sequence[str]) -> np.ndarray:
        """int32 [n]: the numbers of ``words``; new words are added."""
        return np.array(self.numbers(words), dtype=np.int32)

    def decode(self, numbers: np.ndarray) -> list[str]:
        return [self.words[number] for number in numbers.tolist()]


class Names:
    """An array of strings in CSR layout (UTF-8 bytes), which can be memory-mapped."""

    def __init__(self, text: np.ndarray, ptr: np.ndarray) -> None:
        """``text``: uint8 [bytes]; ``ptr``: int64 [n + 1]."""
        self.text = text
        self.ptr = ptr

    @classmethod
    def of(cls, names: Iterable[str]) -> Names:
        text, ptr = bytearray(), array("q", [0])
        for name in names:
            text += name.encode()
            ptr.append(len(text))
        return cls(np.frombuffer(text, dtype=np.uint8), np.asarray(ptr))

    @classmethod
    def stored(cls, arrays: Mapping[str, np.ndarray], name: str) -> Names:
        """The strings stored by `as_arrays` under ``name``."""
        return cls(arrays[f"{name}.text"], arrays[f"{name}.ptr"])

    def as_arrays(self, name: str) -> dict[str, np.ndarray]:
        """The arrays for storage, with the prefix ``name``."""
        return {f"{name}.text": self.text, f"{name}.ptr": self.ptr}

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __getitem__(self, i: int) -> str:
        return self.text[self.ptr[i] : self.ptr[i + 1]].tobytes().decode()

    def all(self) -> list[str]:
        text = self.text.tobytes()
        return [text[a:b].decode() for a, b in zip(self.ptr[:-1].tolist(), self.ptr[1:].tolist(), strict=True)]
