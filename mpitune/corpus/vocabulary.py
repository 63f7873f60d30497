"""Words and feature names to numbers, and back."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mpitune.errors import DataError


def feature_id(name: str) -> int:
    """The 64-bit id of a feature: the same on every rank and in every run, with no dictionary to agree on."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


class Vocabulary:
    """Words and their numbers 0, 1, 2 ... in order of first appearance; grows as words are added."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.words: list[str] = []
        self._number: dict[str, int] = {}
        for word in words:
            self.add(word)

    def __len__(self) -> int:
        return len(self.words)

    def add(self, word: str) -> int:
        """The number of ``word``, given to it now if it has none."""
        number = self._number.get(word)
        if number is None:
            number = self._number[word] = len(self.words)
            self.words.append(word)
        return number

    def encode(self, words: Sequence[str]) -> np.ndarray:
        """int32 [n]: the numbers of ``words``, new ones added."""
        return np.array([self.add(word) for word in words], dtype=np.int32)

    def decode(self, numbers: np.ndarray) -> list[str]:
        return [self.words[number] for number in numbers.tolist()]


class Names:
    """Strings laid end to end: UTF-8 bytes and where each ends; read from disk without making a list of them."""

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
        """What `as_arrays` put under ``name``."""
        return cls(arrays[f"{name}.text"], arrays[f"{name}.ptr"])

    def as_arrays(self, name: str) -> dict[str, np.ndarray]:
        """The arrays to store them as, under ``name``."""
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

    A slot is a feature's place in the weight vector of this process; slots are given in the order of the blocks that
    the table is made of, then to names in the order of their arrival. The id is what ranks and files agree on.
    """

    def __init__(self, blocks: Sequence[tuple[Names, np.ndarray]] = ()) -> None:
        """``blocks``: names with their ids (uint64 [n]), the ids computed beforehand by `feature_id`.

        Raises DataError where two different names share an id.
        """
        self._blocks = [names for names, _ in blocks]
        self._starts = np.cumsum([0] + [len(names) for names in self._blocks])
        self._ids = np.concatenate([ids for _, ids in blocks] or [np.zeros(0, dtype=np.uint64)]).astype(np.uint64)
        self.fixed = len(self._ids)
        """Slots from here on are those of features met later, in the order in which this process met them."""
        self._order = np.argsort(self._ids, kind="stable")
        self._sorted = self._ids[self._order]
        self._late_names: list[str] = []
        self._late_ids = np.empty(64, dtype=np.uint64)
        self._late: dict[int, int] = {}
        twins = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if len(twins):
            first, second = (self.name(int(self._order[twins[0] + k])) for k in (0, 1))
            raise DataError(f"features {first!r} and {second!r} have the same 64-bit id: rename one of them")

    def __len__(self) -> int:
        return self.fixed + len(self._late_names)

    def __contains__(self, name: str) -> bool:
        return bool(self.find(np.array([feature_id(name)], dtype=np.uint64))[0] >= 0)

    @property
    def ids(self) -> np.ndarray:
        """uint64 [slots]: the id of each slot."""
        if len(self._ids) < len(self):
            self._ids = np.concatenate([self._ids[: self.fixed], self.dynamic_ids])
        return self._ids

    @property
    def dynamic_ids(self) -> np.ndarray:
        """uint64: the ids of the slots from `fixed` on."""
        return self._late_ids[: len(self._late_names)]

    def name(self, slot: int) -> str:
        if slot >= self.fixed:
            return self._late_names[slot - self.fixed]
        block = int(np.searchsorted(self._starts, slot, side="right")) - 1
        return self._blocks[block][slot - int(self._starts[block])]

    def find(self, ids: np.ndarray) -> np.ndarray:
        """int64 [n]: the slots of ``ids`` (uint64 [n]), -1 where a feature is unknown."""
        if self.fixed == 0:
            slots = np.full(len(ids), -1, dtype=np.int64)
        else:
            place = np.minimum(np.searchsorted(self._sorted, ids), self.fixed - 1)
            slots = np.where(self._sorted[place] == ids, self._order[place], -1).astype(np.int64)
        if self._late:
            for i in np.flatnonzero(slots < 0):
                slots[i] = self._late.get(int(ids[i]), -1)
        return slots

    def slot(self, name: str) -> int:
        """The slot of ``name``, given to it now if it has none. Raises DataError on a collision of ids."""
        number = feature_id(name)
        slot = int(self.find(np.array([number], dtype=np.uint64))[0])
        if slot < 0:
            slot = self._late[number] = len(self)
            if slot - self.fixed == len(self._late_ids):
                self._late_ids = np.concatenate([self._late_ids, np.empty_like(self._late_ids)])
            self._late_ids[slot - self.fixed] = number
            self._late_names.append(name)
        elif self.name(slot) != name:
            raise DataError(f"features {self.name(slot)!r} and {name!r} have the same 64-bit id: rename one of them")
        return slot
