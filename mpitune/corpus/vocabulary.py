"""Mappings between strings (words, feature names) and numbers."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mpitune.errors import DataError


def feature_id(name: str) -> int:
    """The 64-bit id of a feature, a hash of its name: equal on all ranks and in all runs without communication."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


class Vocabulary:
    """Words and their numbers 0, 1, 2 ... in the order in which they are first added."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.words: list[str] = []
        self._number: dict[str, int] = {}
        for word in words:
            self.add(word)

    def __len__(self) -> int:
        return len(self.words)

    def add(self, word: str) -> int:
        """The number of ``word``, which is added if it is new."""
        number = self._number.get(word)
        if number is None:
            number = self._number[word] = len(self.words)
            self.words.append(word)
        return number

    def encode(self, words: Sequence[str]) -> np.ndarray:
        """int32 [n]: the numbers of ``words``; new words are added."""
        return np.array([self.add(word) for word in words], dtype=np.int32)

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


class FeatureTable:
    """Feature names, their 64-bit ids and their slots.

    A slot is a feature's index in the weight vector of this process. Slots are assigned in the order of ``blocks``,
    then to new names in the order in which they are added. Ids, unlike slots, are the same on all ranks and in files.
    """

    def __init__(self, blocks: Sequence[tuple[Names, np.ndarray]] = ()) -> None:
        """``blocks``: names with their ids (uint64 [n]), precomputed by `feature_id`.

        Raises DataError if two names have the same id.
        """
        self._blocks = [names for names, _ in blocks]
        self._starts = np.cumsum([0] + [len(names) for names in self._blocks])
        self._ids = np.concatenate([ids for _, ids in blocks] or [np.zeros(0, dtype=np.uint64)]).astype(np.uint64)
        self.first_dynamic_slot = len(self._ids)
        """First slot of features discovered while decoding; their order is specific to this process."""
        self._order = np.argsort(self._ids, kind="stable")
        self._sorted = self._ids[self._order]
        self._dynamic_names: list[str] = []
        self._dynamic_ids = np.empty(64, dtype=np.uint64)
        self._dynamic_slots: dict[int, int] = {}
        duplicates = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if len(duplicates):
            first, second = (self.name(int(self._order[duplicates[0] + k])) for k in (0, 1))
            raise DataError(f"features {first!r} and {second!r} have the same 64-bit id: rename one of them")

    def __len__(self) -> int:
        return self.first_dynamic_slot + len(self._dynamic_names)

    def __contains__(self, name: str) -> bool:
        return bool(self.find(np.array([feature_id(name)], dtype=np.uint64))[0] >= 0)

    @property
    def ids(self) -> np.ndarray:
        """uint64 [slots]: the id of each slot."""
        if len(self._ids) < len(self):
            self._ids = np.concatenate([self._ids[: self.first_dynamic_slot], self.dynamic_ids])
        return self._ids

    @property
    def dynamic_ids(self) -> np.ndarray:
        """uint64: the ids of the slots from `first_dynamic_slot` on."""
        return self._dynamic_ids[: len(self._dynamic_names)]

    def name(self, slot: int) -> str:
        if slot >= self.first_dynamic_slot:
            return self._dynamic_names[slot - self.first_dynamic_slot]
        block = int(np.searchsorted(self._starts, slot, side="right")) - 1
        return self._blocks[block][slot - int(self._starts[block])]

    def find(self, ids: np.ndarray) -> np.ndarray:
        """int64 [n]: the slots of ``ids`` (uint64 [n]), -1 where a feature is unknown."""
        if self.first_dynamic_slot == 0:
            slots = np.full(len(ids), -1, dtype=np.int64)
        else:
            place = np.minimum(np.searchsorted(self._sorted, ids), self.first_dynamic_slot - 1)
            slots = np.where(self._sorted[place] == ids, self._order[place], -1).astype(np.int64)
        if self._dynamic_slots:
            for i in np.flatnonzero(slots < 0):
                slots[i] = self._dynamic_slots.get(int(ids[i]), -1)
        return slots

    def slot(self, name: str) -> int:
        """The slot of ``name``, which is added if it is new. Raises DataError on a collision of ids."""
        number = feature_id(name)
        slot = int(self.find(np.array([number], dtype=np.uint64))[0])
        if slot < 0:
            slot = self._dynamic_slots[number] = len(self)
            if slot - self.first_dynamic_slot == len(self._dynamic_ids):
                self._dynamic_ids = np.concatenate([self._dynamic_ids, np.empty_like(self._dynamic_ids)])
            self._dynamic_ids[slot - self.first_dynamic_slot] = number
            self._dynamic_names.append(name)
        elif self.name(slot) != name:
            raise DataError(f"features {self.name(slot)!r} and {name!r} have the same 64-bit id: rename one of them")
        return slot
