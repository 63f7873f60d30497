"""Transform the scores of an opened grammar: undo logarithms, or replace scores by indicator features of bins.

Bins: Clark, Dyer and Lavie, "Locally Non-Linear Learning for Statistical Machine Translation via Discretization and
Structured Regularization" (TACL 2014), section 3. A score that a rule does not name is 0. Each rule fires one indicator
of a binned feature, ``<feature>_<bin>`` = 1, and those of neighbouring bins if bins overlap; indicators add up over the
rules of a derivation. Glue and pass-through rules have no scores and fire no bins.

Bins are computed from the values in the grammar, before any transform. A transform would change at most the order of
the bins' numbers, but its powers and exponentials could differ between machines.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mpitune.errors import UsageError
from mpitune.grammar.binning import Bins
from mpitune.grammar.rules import Rules
from mpitune.jit import kernel

TRANSFORMS = ("10**-v", "10**v-1", "exp(-v)", "exp(v)")
"""Transforms of a score v, by their names in job files: -log10(p) to p, log10(1 + c) to c, -ln(p) to p, ln(p) to p."""
_COUNTED_AT_ONCE = 1 << 22
"""Rules after which equal values are merged, to bound memory."""


class Scoring(NamedTuple):
    """Transforms and bins of a grammar's scores; scores not named here stay unchanged."""

    transforms: Mapping[str, str] = {}
    """Feature to transform, see `TRANSFORMS`."""
    bins: Sequence[Bins] = ()
    """The bins of each binned feature."""
    overlap: int = 0
    """Number of neighbouring bins on either side that a value fires too; missing neighbours are left out."""
    keep: bool = False
    """True if binned features remain beside their bins."""

    def names(self, given: Sequence[str]) -> list[str]:
        """Score names after the transform of scores named ``given``. Raises UsageError if two names are equal."""
        replaced = set() if self.keep else {bins.feature for bins in self.bins}
        names = [name for name in given if name not in replaced]
        for bins in self.bins:
            if clash := set(bins.names) & set(names):
                raise UsageError(f"features.discretize: found a score {min(clash)}, which is also the name of a bin")
            names += bins.names
        return names

    def to_bin_weights(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Replace the weight of each binned feature in ``weights`` by weights of its bins; other weights stay.

        A bin gets the weight times the middle of its values, divided by the number of bins that a value fires, so that
        the score of a rule stays about the same (a choice of this implementation).
        """
        replaced = dict(weights)
        for bins in () if self.keep else self.bins:
            weight = replaced.pop(bins.feature, 0.0)
            if weight:
                middle = (bins.least + bins.most) / 2
                bin_weights = weight * middle / min(2 * self.overlap + 1, len(middle))
                replaced = dict(zip(bins.names, bin_weights.tolist(), strict=True)) | replaced
        return replaced

    def as_json(self) -> dict[str, Any]:
        """Convert to JSON types; floats round-trip exactly."""
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
        """Read the output of `as_json`. Raises KeyError, TypeError or ValueError for anything else."""
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
        """Hash of all fields."""
        text = json.dumps(self.as_json(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class ValueCounts(NamedTuple):
    """The distinct values of a score."""

    value: np.ndarray
    """float64 [n], ascending."""
    frequency: np.ndarray
    """int64 [n]: number of occurrences of each."""


def count_values(grammars: Iterable[Rules], scores: Sequence[int]) -> list[ValueCounts]:
    """Count the values of ``scores`` (indices in the list of score names) in the rules of all ``grammars``."""
    counts = [[ValueCounts(np.zeros(0), np.zeros(0, dtype=np.int64))] for _ in scores]
    waiting = 0
    for rules in grammars:
        for score, parts in zip(scores, counts, strict=True):
            value = np.zeros(len(rules.type))
            _fill_values(rules, score, value)
            parts.append(ValueCounts(value, np.ones(len(value), dtype=np.int64)))
        waiting += len(rules.type)
        if waiting > _COUNTED_AT_ONCE:
            counts = [[merge_counts(parts)] for parts in counts]
            waiting = 0
    return [merge_counts(parts) for parts in counts]


@kernel
def _fill_values(rules: Rules, score: int, value: np.ndarray) -> None:
    """Fill ``value`` (float64 [rules], zeros) with the values of ``score``."""
    for rule in range(len(rules.type)):
        row = rules.score_row[rule]
        for e in range(rules.score_ptr[row], rules.score_ptr[row + 1]):
            if rules.score_index[e] == score:
                value[rule] = rules.score_value[e]


def merge_counts(parts: Sequence[ValueCounts]) -> ValueCounts:
    """Add up the frequencies of equal values. Values in ``parts`` may be unsorted and repeated."""
    value, frequency = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(value, kind="stable")
    value, frequency = value[order], frequency[order]
    first = np.flatnonzero(np.concatenate([np.ones(min(len(value), 1), dtype=np.bool_), value[1:] != value[:-1]]))
    return ValueCounts(value[first], np.add.reduceat(frequency, first) if len(first) else frequency)


def transform_scores(rules: Rules, plan: TransformPlan) -> Rules:
    """``rules`` with their scores transformed by ``plan``; each rule has a row of scores of its own."""
    ptr = np.zeros(len(rules.type) + 1, dtype=np.int64)
    index, value = np.zeros(0, dtype=np.int32), np.zeros(0)
    _transform_scores(rules, plan, ptr, index, value)
    index, value = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1])
    _transform_scores(rules, plan, ptr, index, value)
    rows = np.arange(len(rules.type), dtype=np.int32)
    return rules._replace(score_row=rows, score_ptr=ptr, score_index=index, score_value=value)


class TransformPlan(NamedTuple):
    """A `Scoring` as arrays for the kernel; m scores change, the others are copied."""

    copied: np.ndarray
    """int32 [old names]: new index of an unchanged score; -1 for a score that changes."""
    changed: np.ndarray
    """int32 [m]: old index of each score that changes; -1 for one that no rule names."""
    transform: np.ndarray
    """int32 [m]: its index in `TRANSFORMS`, or -1."""
    kept: np.ndarray
    """int32 [m]: new index of the transformed score, or -1 if bins replace it."""
    first_bin: np.ndarray
    """int32 [m]: new index of its first bin, or -1 if it is not binned."""
    bin_ptr: np.ndarray
    """int64 [m + 1]: its bins are ``most[bin_ptr[m]:bin_ptr[m + 1]]``."""
    most: np.ndarray
    """float64: the largest value in each bin."""
    overlap: int


def make_plan(scoring: Scoring, names: Sequence[str]) -> TransformPlan:
    """Prepare ``scoring`` for scores named ``names``; the names of the transformed ones are ``scoring.names(names)``.

    Raises UsageError as `Scoring.names` does.
    """
    old = {name: n for n, name in enumerate(names)}
    new = {name: n for n, name in enumerate(scoring.names(names))}
    bins = {of.feature: of for of in scoring.bins}
    # A score that no rule names is 0: it may be binned, but is not transformed.
    changed = [name for name in dict.fromkeys([*scoring.transforms, *bins]) if name in old or name in bins]
    most = [bins[name].most if name in bins else np.zeros(0) for name in changed]
    return TransformPlan(
        copied=np.array([-1 if name in changed else new[name] for name in names], dtype=np.int32),
        changed=np.array([old.get(name, -1) for name in changed], dtype=np.int32),
        transform=np.array(
            [TRANSFORMS.index(scoring.transforms[name]) if name in scoring.transforms else -1 for name in changed],
            dtype=np.int32,
        ),
        kept=np.array([new.get(name, -1) for name in changed], dtype=np.int32),
        first_bin=np.array([new[bins[name].names[0]] if name in bins else -1 for name in changed], dtype=np.int32),
        bin_ptr=np.cumsum([0, *map(len, most)], dtype=np.int64),
        most=np.concatenate([np.zeros(0), *most]),
        overlap=scoring.overlap,
    )


@kernel
def _transform_scores(rules: Rules, plan: TransformPlan, ptr: np.ndarray, index: np.ndarray, value: np.ndarray) -> None:
    """Fill ``ptr``, and also ``index`` and ``value`` unless these are of length 0."""
    count, fill = 0, len(index) > 0
    for rule in range(len(rules.type)):
        ptr[rule] = count
        first_entry, last_entry = rules.score_ptr[rules.score_row[rule]], rules.score_ptr[rules.score_row[rule] + 1]
        for e in range(first_entry, last_entry):
            new = plan.copied[rules.score_index[e]]
            if new >= 0:
                if fill:
                    index[count] = new
                    value[count] = rules.score_value[e]
                count += 1
        for m in range(len(plan.changed)):
            v = 0.0
            for e in range(first_entry, last_entry):
                if rules.score_index[e] == plan.changed[m]:
                    v = rules.score_value[e]
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
    ptr[len(rules.type)] = count


def apply_transform(transform: str | None, v: float) -> float:
    """Apply ``transform`` (see `TRANSFORMS`; None: no change) to ``v``."""
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
    """Index in ``most`` of the bin of ``v``, as `Bins.indices`, among the bins ``first`` to ``end`` - 1."""
    low, high = first, end - 1
    while low < high:
        middle = (low + high) // 2
        if most[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low
