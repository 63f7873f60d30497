"""Transform the features of an opened grammar's rules: undo logarithms, or replace them by indicators of bins.

Bins: Clark, Dyer and Lavie, "Locally Non-Linear Learning for Statistical Machine Translation via Discretization and
Structured Regularization" (TACL 2014), section 3. A score that a rule does not name is 0. Each rule fires one indicator
of a binned feature, ``<feature>_<bin>`` = 1, and those of neighbouring bins if bins overlap; indicators add up over the
rules of a derivation. A conjunction of two features fires an indicator of both bins, ``<feature>_<bin>&<other>_<bin>``
(footnote 5 of the paper).

Binned features are the grammar's scores and the word penalty, which the decoder otherwise counts itself. A pass-through
rule has one target word and fires a bin of the word penalty; it has no scores, and fires no bins of these. Glue rules
fire no bins.

Bins are computed from the values in the grammar, before any transform. A transform would change at most the order of
the bins' numbers, but its powers and exponentials could differ between machines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from mpitune.corpus.text import IN_RANGE, LARGEST_NUMBER
from mpitune.errors import UsageError
from mpitune.grammar.binning import Bins
from mpitune.grammar.rules import Rules
from mpitune.jit import int64, kernel
from mpitune.portable_math import exp, exp10

TRANSFORMS = ("10**-v", "10**v-1", "exp(-v)", "exp(v)")
"""Transforms of a score v, by their names in job files: -log10(p) to p, log10(1 + c) to c, -ln(p) to p, ln(p) to p."""
WORD_PENALTY = -1.0 / 2.302585092994046
"""Value of the feature WordPenalty for one target word."""
WORDS = -2
"""Index of the word penalty among scores: it is no score of the grammar."""
_COUNTED_AT_ONCE = 1 << 23
"""Rules after which equal values are counted, to bound memory."""


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
    conjunctions: Sequence[tuple[str, str]] = ()
    """Pairs of binned features whose bins fire together too."""

    def replaces(self, feature: str) -> bool:
        """True if ``feature`` is no more than its bins."""
        return not self.keep and any(bins.feature == feature for bins in self.bins)

    def names(self, given: Sequence[str]) -> list[str]:
        """Score names after the transform of scores named ``given``. Raises UsageError if two names are equal."""
        names = [name for name in given if not self.replaces(name)]
        of = {bins.feature: bins.names for bins in self.bins}
        pairs = [["&".join(both) for both in product(of[one], of[other])] for one, other in self.conjunctions]
        for fired in (*of.values(), *pairs):
            if clash := set(fired) & set(names):
                raise UsageError(f"features.discretize: found a score {min(clash)}, which is also the name of a bin")
            names += fired
        return names

    def of_pass_through(self) -> list[str]:
        """The indicators that a pass-through rule fires: those of the word penalty of one word."""
        for bins in self.bins:
            if bins.feature == "WordPenalty":
                place = int(bins.indices(np.array([WORD_PENALTY]))[0])
                return bins.names[max(place - self.overlap, 0) : place + self.overlap + 1]
        return []

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
        written = {"transforms": dict(self.transforms), "overlap": self.overlap, "keep": self.keep, "bins": bins}
        # Only where there are any: files of versions without conjunctions are those of the same bins.
        return written | ({"conjunctions": [list(pair) for pair in self.conjunctions]} if self.conjunctions else {})

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
        conjunctions = tuple((str(one), str(other)) for one, other in json_object.get("conjunctions", []))
        if any(name not in {of.feature for of in bins} for pair in conjunctions for name in pair):
            raise ValueError("a conjunction of features without bins")
        transforms = dict(json_object["transforms"])
        return cls(transforms, tuple(bins), int(json_object["overlap"]), bool(json_object["keep"]), conjunctions)

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
    """Count the values of ``scores`` (indices in the list of score names, or `WORDS`) in all rules of ``grammars``."""
    counts = [ValueCounts(np.zeros(0), np.zeros(0, dtype=np.int64)) for _ in scores]
    waiting, size = [list[np.ndarray]() for _ in scores], 0
    for rules in grammars:
        for score, values in zip(scores, waiting, strict=True):
            values.append(np.empty(len(rules.type)))
            _fill_values(rules, score, values[-1])
        size += len(rules.type)
        if size > _COUNTED_AT_ONCE:
            counts = [merge_counts([old, _counted(values)]) for old, values in zip(counts, waiting, strict=True)]
            waiting, size = [[] for _ in scores], 0
    return [merge_counts([old, _counted(values)]) for old, values in zip(counts, waiting, strict=True)]


def _counted(parts: Sequence[np.ndarray]) -> ValueCounts:
    """The distinct values of ``parts`` (float64), -0 being 0."""
    return ValueCounts(*np.unique(np.concatenate([np.zeros(0), *parts]) + 0.0, return_counts=True))


@kernel
def _fill_values(rules: Rules, score: int, value: np.ndarray) -> None:
    """Fill ``value`` (float64 [rules]) with the values of ``score``."""
    for rule in range(len(rules.type)):
        value[rule] = _value_of(rules, rule, score)


@kernel
def _value_of(rules: Rules, rule: int, score: int) -> float:
    """The value of ``score`` (an index in the list of score names, or `WORDS`) on ``rule``; 0 without it."""
    found = 0.0
    if score == WORDS:
        target = rules.types.target_side[rules.type[rule]]
        for k in range(rules.types.target_ptr[target], rules.types.target_ptr[target + 1]):
            if rules.types.target[k] >= 0:
                found += 1.0
        return found * WORD_PENALTY
    row = rules.score_row[rule]
    for e in range(rules.score_ptr[row], rules.score_ptr[row + 1]):
        if rules.score_index[e] == score:
            found = rules.score_value[e]
    return found


def merge_counts(parts: Sequence[ValueCounts]) -> ValueCounts:
    """Add up the frequencies of equal values. Values in ``parts`` may be unsorted and repeated."""
    value, frequency = (np.concatenate(column) for column in zip(*parts, strict=True))
    # Timsort merges sorted parts in linear time.
    order = np.argsort(value, kind="stable")
    value, frequency = value[order], frequency[order]
    first = np.flatnonzero(np.concatenate([np.ones(min(len(value), 1), dtype=np.bool_), value[1:] != value[:-1]]))
    return ValueCounts(value[first], np.add.reduceat(frequency, first) if len(first) else frequency)


def transform_scores(rules: Rules, plan: TransformPlan) -> Rules:
    """``rules`` with their scores transformed by ``plan``; each rule has a row of scores of its own.

    Raises UsageError if a transformed score is beyond `LARGEST_NUMBER`.
    """
    ptr = np.zeros(len(rules.type) + 1, dtype=np.int64)
    index, value = np.zeros(0, dtype=np.int32), np.zeros(0)
    _transform_scores(rules, plan, ptr, index, value)
    index, value = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1])
    _transform_scores(rules, plan, ptr, index, value)
    if np.abs(value).max(initial=0.0) > LARGEST_NUMBER:
        k = int(np.argmax(np.abs(value)))
        transform = TRANSFORMS[plan.transform[plan.kept == index[k]][0]]
        raise UsageError(
            f"features.unlog: found a score v of which {transform} is {value[k]:g}, expected {IN_RANGE}: "
            "is the score such a logarithm?"
        )
    rows = np.arange(len(rules.type), dtype=np.int32)
    return rules._replace(score_row=rows, score_ptr=ptr, score_index=index, score_value=value)


class TransformPlan(NamedTuple):
    """A `Scoring` as arrays for the kernel; m scores change, the others are copied."""

    copied: np.ndarray
    """int32 [old names]: new index of an unchanged score; -1 for a score that changes."""
    changed: np.ndarray
    """int32 [m]: old index of each score that changes; -1 for one that no rule names, or `WORDS`."""
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
    joined: np.ndarray
    """int32 [conjunctions, 2]: the two scores, as indices in `changed`."""
    first_joined: np.ndarray
    """int32 [conjunctions]: new index of the indicator of the first bins of both."""


def make_plan(scoring: Scoring, names: Sequence[str]) -> TransformPlan:
    """Prepare ``scoring`` for scores named ``names``; the names of the transformed ones are ``scoring.names(names)``.

    Raises UsageError as `Scoring.names` does.
    """
    old = {name: n for n, name in enumerate(names)} | {"WordPenalty": WORDS}
    new = {name: n for n, name in enumerate(scoring.names(names))}
    bins = {of.feature: of for of in scoring.bins}
    # A score that no rule names is 0: it may be binned, but is not transformed.
    changed = [name for name in dict.fromkeys([*scoring.transforms, *bins]) if name in old or name in bins]
    most = [bins[name].most if name in bins else np.zeros(0) for name in changed]
    joined = [[changed.index(name) for name in pair] for pair in scoring.conjunctions]
    first_joined = [new["&".join(bins[name].names[0] for name in pair)] for pair in scoring.conjunctions]
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
        joined=np.array(joined, dtype=np.int32).reshape(-1, 2),
        first_joined=np.array(first_joined, dtype=np.int32),
    )


@kernel
def _transform_scores(rules: Rules, plan: TransformPlan, ptr: np.ndarray, index: np.ndarray, value: np.ndarray) -> None:
    """Fill ``ptr``, and also ``index`` and ``value`` unless these are of length 0."""
    count, fill = 0, len(index) > 0
    for rule in range(len(rules.type)):
        ptr[rule] = count
        for e in range(rules.score_ptr[rules.score_row[rule]], rules.score_ptr[rules.score_row[rule] + 1]):
            new = plan.copied[rules.score_index[e]]
            if new >= 0:
                if fill:
                    index[count] = new
                    value[count] = rules.score_value[e]
                count += 1
        for m in range(len(plan.changed)):
            if plan.kept[m] >= 0:
                transformed = _apply_transform(plan.transform[m], _value_of(rules, rule, plan.changed[m]))
                if transformed != 0.0:
                    if fill:
                        index[count] = plan.kept[m]
                        value[count] = transformed
                    count += 1
            if plan.first_bin[m] >= 0:
                bin_, bins = _bin_of(rules, rule, plan, m), plan.bin_ptr[m + 1] - plan.bin_ptr[m]
                for neighbour in range(max(bin_ - plan.overlap, 0), min(bin_ + plan.overlap + 1, bins)):
                    if fill:
                        index[count] = plan.first_bin[m] + neighbour
                        value[count] = 1.0
                    count += 1
        for c in range(len(plan.joined)):
            one, other = int64(plan.joined[c, 0]), int64(plan.joined[c, 1])
            if fill:
                place = _bin_of(rules, rule, plan, one) * (plan.bin_ptr[other + 1] - plan.bin_ptr[other])
                index[count] = plan.first_joined[c] + place + _bin_of(rules, rule, plan, other)
                value[count] = 1.0
            count += 1
    ptr[len(rules.type)] = count


def apply_transform(transform: str | None, v: float) -> float:
    """Apply ``transform`` (see `TRANSFORMS`; None: no change) to ``v``."""
    return _apply_transform(TRANSFORMS.index(transform) if transform else -1, v)


@kernel
def _apply_transform(transform: int, v: float) -> float:
    if transform == 0:
        return exp10(-v)
    if transform == 1:
        return exp10(v) - 1.0
    if transform == 2:
        return exp(-v)
    if transform == 3:
        return exp(v)
    return v


@kernel
def _bin_of(rules: Rules, rule: int, plan: TransformPlan, m: int) -> int:
    """The bin, from 0, of ``rule`` for the changed score ``m``, as `Bins.indices`."""
    v = _value_of(rules, rule, plan.changed[m])
    low, high = plan.bin_ptr[m], plan.bin_ptr[m + 1] - 1
    while low < high:
        middle = (low + high) // 2
        if plan.most[middle] < v:
            low = middle + 1
        else:
            high = middle
    return int64(low - plan.bin_ptr[m])
