"""The weight vector of a run, with all that belongs to a weight: feature, learner's state, and whether it is frozen.

A process numbers the features in the order in which it meets them. `Weights` has arrays by these numbers, the slots:
decoders and kernels see them. Between processes and in files a feature is its 64-bit id: `SparseWeights`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from mpitune.array_files.grow import grow_to
from mpitune.corpus.feature_table import FeatureTable


class SparseWeights(NamedTuple):
    """Weights by feature id; features that are not among them have weight 0."""

    ids: np.ndarray = np.zeros(0, dtype=np.uint64)
    """uint64 [n]: feature ids, unique."""
    value: np.ndarray = np.zeros(0)
    """float64 [n]: their weights."""
    state: tuple[np.ndarray, ...] = ()
    """float64 [n] each: the learner's state of these features; none before anything was learned."""

    def at(self, ids: np.ndarray) -> SparseWeights:
        """Weights and state of the features ``ids`` (uint64, unique), 0 where they are absent."""
        if not len(self.ids):
            return SparseWeights(ids, np.zeros(len(ids)), tuple(np.zeros(len(ids)) for _ in self.state))
        order = np.argsort(self.ids)
        place = order[np.minimum(np.searchsorted(self.ids, ids, sorter=order), len(self.ids) - 1)]
        known = self.ids[place] == ids
        value, *state = (np.where(known, array[place], 0.0) for array in (self.value, *self.state))
        return SparseWeights(ids, value, tuple(state))

    def only(self, which: np.ndarray) -> SparseWeights:
        """The features that ``which`` selects (bool [n]), with their weights and state."""
        return SparseWeights(self.ids[which], self.value[which], tuple(array[which] for array in self.state))


class NamedWeights(NamedTuple):
    """The weights other than 0 that an epoch publishes, with their names."""

    ids: np.ndarray
    """uint64 [n]."""
    names: list[str]
    value: np.ndarray
    """float64 [n]."""

    @property
    def named(self) -> list[tuple[str, float]]:
        return list(zip(self.names, self.value.tolist(), strict=True))


class Weights:
    """Weights by slot of a feature table, and further arrays by slot that grow with it."""

    def __init__(self, features: FeatureTable, first_sparse: int = 0) -> None:
        """Weights of 0 for the ``features`` so far, which all processes know in the same order; none is frozen.

        ``first_sparse``: first slot of the sparse features.
        """
        self.features, self.first_sparse = features, first_sparse
        self._known = len(features)
        self.arrays: dict[str, np.ndarray] = {"value": np.zeros(self._known), "frozen": np.zeros(self._known, np.bool_)}
        """By name, [D] each: the weights, the mask of frozen features, and what a learner has asked for (`array`)."""
        self._fill: dict[str, float] = {"value": 0.0, "frozen": False}
        self._begun: dict[str, np.ndarray] = {}
        """The learner's state that the weights were loaded with."""

    @property
    def value(self) -> np.ndarray:
        """float64 [D]: the weights."""
        return self.arrays["value"]

    @property
    def frozen(self) -> np.ndarray:
        """bool [D]: features that keep their weights."""
        return self.arrays["frozen"]

    def array(self, name: str, fill: float = 0.0, dtype: type = np.float64) -> np.ndarray:
        """The array ``name`` ([D]), a new one if there is none yet; it has ``fill`` for features that are new."""
        if name not in self.arrays:
            self._fill[name] = fill
            self.arrays[name] = np.full(len(self.value), fill, dtype=dtype)
        return self.arrays[name]

    def grow(self) -> None:
        """Make room in all arrays for the features that the table has got since."""
        if len(self.features) > len(self.value):
            # Rounded up by at most an eighth, lest each sentence copies all arrays.
            step = 1 << max(len(self.features).bit_length() - 4, 8)
            self.resize(-(-len(self.features) // step) * step)

    def resize(self, size: int) -> None:
        """Make room in all arrays for so many slots, at least."""
        for name, fill in self._fill.items():
            self.arrays[name] = grow_to(self.arrays[name], size, fill)

    def copy(self) -> Weights:
        """The same, in arrays of its own, with room for all features."""
        result = copy(self)
        result._fill, result._begun = dict(self._fill), dict(self._begun)
        result.arrays = {name: array.copy() for name, array in self.arrays.items()}
        result.grow()
        return result

    def load(self, vector: SparseWeights, state: Sequence[str] = ()) -> Weights:
        """``vector`` by slot, in arrays of its own; frozen features have the weights that they have here.

        ``state``: names of the arrays that its state goes to. Raises KeyError for a feature that is not in the table.
        """
        result, slots = self.copy(), self.features.find(vector.ids)
        if (slots < 0).any():
            raise KeyError(f"{np.count_nonzero(slots < 0)} features of a vector are unknown")
        result.value[~result.frozen] = 0.0
        free = ~result.frozen[slots]
        result.value[slots[free]] = vector.value[free]
        for name, values in zip(state, vector.state, strict=False):
            result.array(name)[slots] = values
            result._begun[name] = result.arrays[name].copy()
        return result

    def sparse(self, state: Sequence[str] = (), *, changed: bool = False) -> SparseWeights:
        """The features, but for frozen ones, with a weight other than 0 or with state in the arrays ``state``.

        ``changed``: those without a weight only if their state has changed since it was loaded. The order is that of
        slots, features discovered while decoding last, by id: the same on all ranks.
        """
        learned = self.value != 0.0
        for name in state:
            before = grow_to(self._begun[name], len(learned)) if changed and name in self._begun else 0.0
            learned |= self.arrays[name] != before
        slots = self._in_order(np.flatnonzero(learned & ~self.frozen))
        return SparseWeights(
            self.features.ids[slots], self.value[slots], tuple(self.arrays[name][slots] for name in state)
        )

    def freeze_dense(self, vector: SparseWeights) -> None:
        """Freeze the dense features at their weights in ``vector``; frozen ones keep theirs."""
        self._freeze(np.arange(self.first_sparse), vector)

    def freeze_sparse(self, vector: SparseWeights) -> None:
        """The same of the sparse features, those included that are not known yet."""
        self._freeze(np.arange(self.first_sparse, len(self.value)), vector)
        self._fill["frozen"] = True

    def _freeze(self, slots: np.ndarray, vector: SparseWeights) -> None:
        free = slots[~self.frozen[slots]]
        known = free[free < len(self.features)]
        self.value[known] = vector.at(self.features.ids[known]).value
        self.frozen[free] = True

    @property
    def dense_ids(self) -> np.ndarray:
        """uint64: ids of the dense features."""
        return self.features.ids[: self.first_sparse]

    def optimised(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The features to be optimised, those of ``ids`` and those that have a weight or are frozen: uint64, ascending.

        With their weights (float64), and which of them are free (bool); features that are not in the table are.
        """
        own = np.flatnonzero(self.frozen | (self.value != 0.0))
        ids = np.unique(np.concatenate([ids, self.features.ids[own]]))
        slots = self.features.find(ids)
        known = slots >= 0
        value, free = np.zeros(len(ids)), np.ones(len(ids), dtype=np.bool_)
        value[known], free[known] = self.value[slots[known]], ~self.frozen[slots[known]]
        return ids, value, free

    def publish(self, vector: SparseWeights) -> NamedWeights:
        """The weights ``vector`` and the frozen ones, with names, in the order of `sparse`."""
        value = self.load(vector).value
        slots = self._in_order(np.flatnonzero(value))
        return NamedWeights(
            self.features.ids[slots], [self.features.name(slot) for slot in slots.tolist()], value[slots]
        )

    def discovered(self, *ids: np.ndarray) -> list[str]:
        """Names of those features of ``ids`` (uint64 each) that were discovered while decoding, sorted."""
        slots = self.features.find(np.unique(np.concatenate(ids)))
        return sorted(map(self.features.name, slots[slots >= self._known].tolist()))

    def _in_order(self, slots: np.ndarray) -> np.ndarray:
        """``slots``, ascending, discovered features sorted by id: the same order of features on all ranks."""
        known = int(np.searchsorted(slots, self._known))
        late = slots[known:]
        return np.concatenate([slots[:known], late[np.argsort(self.features.ids[late])]])
