"""What becomes of the grammars' own scores before a decoder sees them: transformed, or put into bins.

Bins are those of CDL14, section 3. A score that a rule does not name is 0, and is treated like any other 0. Of a
feature that is put into bins each rule has one indicator, ``<feature>_<bin>`` = 1, and its neighbours' where bins
overlap; indicators add up over the rules of a derivation. Glue and pass-through rules have no scores, so no bins.

Bins are those of the values as they stand in the grammar, transform or not: none of the transforms would change them,
but for the order of their numbers, and bounds that are powers could come out otherwise on another machine.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mpitune.errors import UsageError
from mpitune.grammar.binning import Bins
from mpitune.grammar.rules import Rules
from mpitune.jit import kernel

TRANSFORMS = ("10**-v", "10**v-1", "exp(-v)", "exp(v)")
"""What a score v may become, by the name that a job gives it: a probability of its negative decadic logarithm, a count
of log10(1 + count), and so on."""
_CHUNK = 1 << 22
"""How many rules are counted at a time: numpy turns their int32 into int64."""


class Scoring(NamedTuple):
    """What becomes of the scores; nothing of those that are not named here."""

    transforms: Mapping[str, str] = {}
    """By feature, see `TRANSFORMS`."""
    bins: Sequence[Bins] = ()
    """Of the features that are put into bins."""
    overlap: int = 0
    """On how many neighbours on either side a bin is fired as well; those that are not there are left out."""
    keep: bool = False
    """Whether these features remain beside their bins."""

    def names(self, given: Sequence[str]) -> list[str]:
        """The scores' names afterwards, ``given`` being those before. Raises UsageError where two are the same."""
        gone = set() if self.keep else {bins.feature for bins in self.bins}
        names = [name for name in given if name not in gone]
        for bins in self.bins:
            if clash := set(bins.names) & set(names):
                raise UsageError(f"features.discretize: found a score {min(clash)}, which is what a bin is called")
            names += bins.names
        return names

    def to_bin_weights(self, weights: Mapping[str, float]) -> dict[str, float]:
        """``weights`` by name, where that of a feature that is replaced by bins has become weights of these.

        Each bin gets the weight times the middle of its values *(ours)*, divided by the number of bins that a value
        fires: about what rules had before.
        """
        found = dict(weights)
        for bins in () if self.keep else self.bins:
            weight = found.pop(bins.feature, 0.0)
            if weight:
                middle = (bins.least + bins.most) / 2
                each = weight * middle / min(2 * self.overlap + 1, len(middle))
                found = dict(zip(bins.names, each.tolist(), strict=True)) | found
        return found

    def as_json(self) -> dict[str, Any]:
        """In JSON's types, floats to the last bit."""
        bins = [
            {
                "feature": of.feature,
                "least": of.least.tolist(),
                "most": of.most.tolist(),
                "population": of.population.tolist(),
            }
            for of in self.bins
        ]
        return {"transforms": dict(self.transforms), "overlap": self.overlap, "keep": self.keep, "bins": bins}

    @classmethod
    def from_json(cls, json_object: Mapping[str, Any]) -> Scoring:
        """Build a scoring from `as_json`'s output. Raises KeyError, TypeError or ValueError for anything else."""
        bins = [
            Bins(
                str(of["feature"]),
                np.array(of["least"], dtype=np.float64),
                np.array(of["most"], dtype=np.float64),
                np.array(of["population"], dtype=np.int64),
            )
            for of in json_object["bins"]
        ]
        if any(not (0 < len(of.most) == len(of.least) == len(of.population)) for of in bins):
            raise ValueError("bins of different number")
        transforms = dict(json_object["transforms"])
        return cls(transforms, tuple(bins), int(json_object["overlap"]), bool(json_object["keep"]))

    @property
    def digest(self) -> str:
        """Equal for equal ones."""
        text = json.dumps(self.as_json(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class ValueCounts(NamedTuple):
    """The distinct values of a score."""

    value: np.ndarray
    """float64 [n], ascending."""
    frequency: np.ndarray
    """int64 [n]: how often each occurs."""


def count_values(rules: Rules, first: int, last: int, scores: Sequence[int]) -> list[ValueCounts]:
    """The values of some ``scores`` (places in the list of names) in the rules from ``first`` to ``last``, excluded."""
    of_row = np.zeros(len(rules.score_ptr) - 1, dtype=np.int64)
    for begin in range(first, last, _CHUNK):
        of_row += np.bincount(rules.score_row[begin : min(begin + _CHUNK, last)], minlength=len(of_row))
    found = []
    for score in scores:
        value, named = np.zeros(len(of_row)), np.flatnonzero(rules.score_index == score)
        value[np.searchsorted(rules.score_ptr, named, side="right") - 1] = rules.score_value[named]
        found.append(merge_counts([ValueCounts(value[of_row > 0], of_row[of_row > 0])]))
    return found


def merge_counts(parts: Sequence[ValueCounts]) -> ValueCounts:
    """Each value once, with the sum of its frequencies. In ``parts`` they may stand in any order, more than once."""
    value, frequency = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(value, kind="stable")
    value, frequency = value[order], frequency[order]
    first = np.flatnonzero(np.concatenate([np.ones(min(len(value), 1), dtype=np.bool_), value[1:] != value[:-1]]))
    return ValueCounts(value[first], np.add.reduceat(frequency, first) if len(first) else frequency)


def transform_scores(rules: Rules, names: Sequence[str], scoring: Scoring) -> dict[str, np.ndarray]:
    """``score_ptr``, ``score_index`` and ``score_value`` of ``rules`` afterwards; see `Rules`.

    ``names``: of the scores before; afterwards they are ``scoring.names(names)``.
    """
    plan = _plan(names, scoring)
    ptr = np.zeros(len(rules.score_ptr), dtype=np.int64)
    index, value = np.zeros(0, dtype=np.int32), np.zeros(0)
    _transform_scores(rules.score_ptr, rules.score_index, rules.score_value, plan, ptr, index, value)
    index, value = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1])
    _transform_scores(rules.score_ptr, rules.score_index, rules.score_value, plan, ptr, index, value)
    return {"score_ptr": ptr, "score_index": index, "score_value": value}


class _Plan(NamedTuple):
    """What becomes of each score."""

    copied: np.ndarray
    """int32 [names]: where a score goes as it is; -1: something else becomes of it."""
    special: np.ndarray
    """int32 [m]: those scores of which something else becomes; -1: one that no rule names."""
    transform: np.ndarray
    """int32 [m]: a place in `TRANSFORMS`, or -1."""
    kept: np.ndarray
    """int32 [m]: where it goes, transformed, or -1."""
    first_bin: np.ndarray
    """int32 [m]: where its first bin goes, or -1."""
    bin_ptr: np.ndarray
    """int64 [m + 1]"""
    most: np.ndarray
    """float64: the largest values in its bins."""
    overlap: int


def _plan(names: Sequence[str], scoring: Scoring) -> _Plan:
    number = {name: n for n, name in enumerate(names)}
    place = {name: n for n, name in enumerate(scoring.names(names))}
    bins = {of.feature: of for of in scoring.bins}
    # A score that no rule names is 0: it may have a bin, but no transform is called for.
    special = [name for name in dict.fromkeys([*scoring.transforms, *bins]) if name in number or name in bins]
    most = [bins[name].most if name in bins else np.zeros(0) for name in special]
    return _Plan(
        copied=np.array([-1 if name in special else place[name] for name in names], dtype=np.int32),
        special=np.array([number.get(name, -1) for name in special], dtype=np.int32),
        transform=np.array(
            [TRANSFORMS.index(scoring.transforms[name]) if name in scoring.transforms else -1 for name in special],
            dtype=np.int32,
        ),
        kept=np.array([place.get(name, -1) for name in special], dtype=np.int32),
        first_bin=np.array([place[bins[name].names[0]] if name in bins else -1 for name in special], dtype=np.int32),
        bin_ptr=np.cumsum([0, *map(len, most)], dtype=np.int64),
        most=np.concatenate([np.zeros(0), *most]),
        overlap=scoring.overlap,
    )


@kernel
def _transform_scores(
    old_ptr: np.ndarray,
    old_index: np.ndarray,
    old_value: np.ndarray,
    plan: _Plan,
    ptr: np.ndarray,
    index: np.ndarray,
    value: np.ndarray,
) -> None:
    """Fill ``ptr``, and the rest where it is not of length 0."""
    count, fill = 0, len(index) > 0
    for row in range(len(old_ptr) - 1):
        ptr[row] = count
        for e in range(old_ptr[row], old_ptr[row + 1]):
            place = plan.copied[old_index[e]]
            if place >= 0:
                if fill:
                    index[count] = place
                    value[count] = old_value[e]
                count += 1
        for m in range(len(plan.special)):
            v = 0.0
            for e in range(old_ptr[row], old_ptr[row + 1]):
                if old_index[e] == plan.special[m]:
                    v = old_value[e]
            if plan.kept[m] >= 0:
                transformed = _apply_transform(plan.transform[m], v)
                if transformed != 0.0:
                    if fill:
                        index[count] = plan.kept[m]
                        value[count] = transformed
                    count += 1
            if plan.first_bin[m] >= 0:
                first, end = plan.bin_ptr[m], plan.bin_ptr[m + 1]
                bin_ = _bin_of(v, plan.most, first, end)
                for neighbour in range(max(bin_ - plan.overlap, first), min(bin_ + plan.overlap + 1, end)):
                    if fill:
                        index[count] = plan.first_bin[m] + neighbour - first
                        value[count] = 1.0
                    count += 1
    ptr[len(old_ptr) - 1] = count


def apply_transform(transform: str | None, v: float) -> float:
    """What ``transform`` (see `TRANSFORMS`; None: none) makes of ``v``."""
    return _apply_transform(TRANSFORMS.index(transform) if transform else -1, v)


@kernel
def _apply_transform(transform: int, v: float) -> float:
    if transform == 0:
        return float(10.0**-v)
    if transform == 1:
        return float(10.0**v - 1.0)
    if transform == 2:
        return math.exp(-v)
    if transform == 3:
        return math.exp(v)
    return v


@kernel
def _bin_of(v: float, most: np.ndarray, first: int, end: int) -> int:
    """As `Bins.of`: a place in ``most``."""
    low, high = first, end - 1
    while low < high:
        middle = (low + high) // 2
        if most[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low
