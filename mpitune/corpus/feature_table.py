"""The features in use: names, ids and slots. It grows with what learning has seen, not with what rules could fire."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from mpitune.array_files.number_table import DistinctNumbers, NumberTable
from mpitune.array_files.row_table import enlarged
from mpitune.corpus.hashing import hashed
from mpitune.corpus.vocabulary import Names, feature_id
from mpitune.errors import DataError

FEATURE_NAME = "one without blanks and control characters that does not begin with #"
"""The description of a valid name, for messages."""
_NAME = re.compile("(?!#)[^\0- \x7f\ud800-\udfff]+")


def is_feature_name(name: str) -> bool:
    """True if a weights file, with a name and a value a line and lines of comments, can hold a feature of this name.

    All readers of names ask this where a name is new to them.
    """
    if name.isprintable() and " " not in name:  # twice as fast as the expression, which takes more than these
        return name[:1] not in ("", "#")
    return _NAME.fullmatch(name) is not None


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
        self._starts = [0, *accumulate(map(len, self._blocks))]
        self._ids = DistinctNumbers()
        ids = np.concatenate([ids for _, ids in blocks] or [np.zeros(0, dtype=np.uint64)])
        slots = self._ids.add(ids)
        self.first_dynamic_slot = len(ids)
        """First slot of features discovered while decoding; their order is specific to this process."""
        self._text, self._ptr = np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
        """The names of these features, as in `Names`, with room for more."""
        self._hashes = DistinctNumbers()
        if len(again := np.flatnonzero(slots != np.arange(len(ids)))):
            self._refuse(self.name(int(np.flatnonzero(ids == ids[again[0]])[0])), self.name(int(again[0])))

    def __len__(self) -> int:
        return self.first_dynamic_slot + len(self._hashes)

    def __contains__(self, name: str) -> bool:
        return bool(self.find(np.array([feature_id(name)], dtype=np.uint64))[0] >= 0)

    @property
    def ids(self) -> np.ndarray:
        """uint64 [slots]: the id of each slot."""
        return self._ids.numbers

    @property
    def dynamic_ids(self) -> np.ndarray:
        """uint64: the ids of the slots from `first_dynamic_slot` on."""
        return self.ids[self.first_dynamic_slot :]

    @property
    def hashes(self) -> NumberTable:
        """The hashes of the names of the slots from `first_dynamic_slot` on (`mpitune.corpus.hashing`)."""
        return self._hashes.table

    def name(self, slot: int) -> str:
        if slot >= self.first_dynamic_slot:
            return Names(self._text, self._ptr)[slot - self.first_dynamic_slot]
        block = bisect_right(self._starts, slot) - 1
        return self._blocks[block][slot - self._starts[block]]

    def find(self, ids: np.ndarray) -> np.ndarray:
        """int64 [n]: the slots of ``ids`` (uint64 [n]), -1 where a feature is unknown."""
        return self._ids.find(ids)

    def slot(self, name: str) -> int:
        """The slot of ``name``, which is added if it is new. Raises DataError on a collision of ids or hashes."""
        return int(self.slots([name])[0])

    def slots(self, names: Sequence[str]) -> np.ndarray:
        """int64 [n]: the slots of ``names``; new ones are added.

        Raises DataError on a collision of ids or hashes, and for a new name that is none.
        """
        before = len(self)
        slots = self._ids.add(np.fromiter(map(feature_id, names), dtype=np.uint64, count=len(names)))
        new: dict[int, str] = {}
        for slot, name in zip(slots.tolist(), names, strict=True):
            if slot >= before and slot not in new and not is_feature_name(name):
                raise DataError(f"found feature name {name!r}, expected {FEATURE_NAME}")
            known = new.setdefault(slot, name) if slot >= before else self.name(slot)
            if known != name:
                self._refuse(known, name)
        if new:
            self._append(list(new.values()))
        return slots

    def _append(self, names: list[str]) -> None:
        """Add ``names``, which are new."""
        count, added = len(self._hashes), Names.of(names)
        places = self._hashes.add(hashed(added).hash)
        end, bytes_ = count + len(names), int(self._ptr[count])
        self._text = enlarged(self._text, bytes_ + len(added.text))
        self._ptr = enlarged(self._ptr, end + 1)
        self._text[bytes_ : bytes_ + len(added.text)] = added.text
        self._ptr[count + 1 : end + 1] = bytes_ + added.ptr[1:]
        if len(again := np.flatnonzero(places != np.arange(count, end))):
            first, place = int(places[again[0]]), count + int(again[0])
            self._refuse(*(self.name(self.first_dynamic_slot + which) for which in (first, place)))

    def _refuse(self, first: str, second: str) -> None:
        raise DataError(f"features {first!r} and {second!r} have the same 64-bit id: rename one of them")
