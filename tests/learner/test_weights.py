"""One vector by slot and by id: what grows, what is frozen, what goes to files and comes back."""

from __future__ import annotations

import numpy as np
import pytest

from mpitune.corpus.feature_table import FeatureTable
from mpitune.learner.weights import SparseWeights, Weights


def weights_of(names: str, first_sparse: int = 2) -> Weights:
    features = FeatureTable()
    features.slots(list(names))
    return Weights(features, first_sparse)


def vector(weights: Weights, values: dict[str, float], *state: dict[str, float]) -> SparseWeights:
    slots = weights.features.slots(list(values))
    ids = weights.features.ids[slots]
    return SparseWeights(ids, np.array(list(values.values())), tuple(np.array(list(kept.values())) for kept in state))


def named(weights: Weights, found: SparseWeights) -> dict[str, float]:
    names = map(weights.features.name, weights.features.find(found.ids).tolist())
    return dict(zip(names, found.value.tolist(), strict=True))


@pytest.mark.parametrize("entries", [0, 1, 30])
def test_values_of_ids_are_found_and_others_are_0(entries: int) -> None:
    generator = np.random.default_rng(entries)
    ends = np.array([2**64 - 1, 0], dtype=np.uint64)
    ids = np.concatenate([ends, generator.integers(0, 2**64, 30, dtype=np.uint64)])[:entries]
    sparse = SparseWeights(ids, generator.normal(size=entries), (generator.normal(size=entries),))
    others = generator.integers(0, 2**64, 10, dtype=np.uint64)
    wanted = generator.permutation(np.concatenate([ids[::2], others, ends, ids[:3]]))
    found = sparse.at(wanted)
    assert found.ids is wanted
    for before, after in zip((sparse.value, *sparse.state), (found.value, *found.state), strict=True):
        there = dict(zip(ids.tolist(), before.tolist(), strict=True))
        assert after.dtype == np.float64 and after.tolist() == [there.get(id_, 0.0) for id_ in wanted.tolist()]
    assert len(sparse.at(wanted[:0]).value) == 0


def test_all_arrays_grow_with_the_features_each_with_its_own_value() -> None:
    weights = weights_of("abc")
    place, paid = weights.array("place", -1, np.int32), weights.array("paid")
    assert place.tolist() == [-1] * 3 and weights.array("paid") is paid
    weights.value[:], weights.frozen[0], paid[:] = 1.0, True, 2.0
    weights.grow()
    assert len(weights.value) == 3, "there is room"
    weights.features.slots([f"f{n}" for n in range(1000)])
    weights.grow()
    size = len(weights.value)
    assert 1003 <= size <= 1003 * 9 // 8
    expected = {"value": (1.0, 0.0), "frozen": (False, False), "place": (-1, -1), "paid": (2.0, 0.0)}
    for name, (known, new) in expected.items():
        array = weights.arrays[name]
        assert len(array) == size and array[1] == array[2] == known and (array[3:] == new).all()
    assert weights.frozen[0] and weights.arrays["place"].dtype == np.int32


def test_what_is_loaded_comes_back_without_what_is_frozen() -> None:
    weights = weights_of("abcd")
    weights.value[1], weights.frozen[1] = 5.0, True
    given = vector(weights, {"d": 4.0, "b": 9.0, "late": -1.0, "c": 0.0}, {"d": 0.0, "b": 7.0, "late": 2.0, "c": 3.0})
    loaded = weights.load(given, ("squares",))
    assert loaded.value[:5].tolist() == [0.0, 5.0, 0.0, 4.0, -1.0] and not weights.value[2:].any()
    found = loaded.sparse(("squares",))
    assert named(weights, found) == {"c": 0.0, "d": 4.0, "late": -1.0}, "those with state, too"
    assert found.state[0].tolist() == [3.0, 0.0, 2.0]
    assert named(weights, loaded.sparse()) == {"d": 4.0, "late": -1.0}
    assert named(weights, loaded.sparse(("squares",), changed=True)) == {"d": 4.0, "late": -1.0}
    loaded.array("squares")[2] += 1.0
    assert named(weights, loaded.sparse(("squares",), changed=True)) == {"c": 0.0, "d": 4.0, "late": -1.0}
    with pytest.raises(KeyError, match="1 features"):
        weights.load(SparseWeights(np.array([1], dtype=np.uint64), np.ones(1)))


def test_features_discovered_late_come_last_in_the_order_of_their_ids() -> None:
    found = []
    for late in ("pqrst", "tsrqp"):
        weights = weights_of("ba")
        weights.features.slots(list(late))
        loaded = weights.load(vector(weights, dict.fromkeys("abpqrst", 1.0)))
        published = weights.publish(loaded.sparse())
        found.append(published.names)
        assert published.ids.tolist() == loaded.sparse().ids.tolist()
        assert published.named == [(name, 1.0) for name in published.names]
        assert weights.discovered(loaded.sparse().ids[:3], loaded.sparse().ids[2:4]) == sorted(published.names[2:4])
    assert found[0] == found[1] and found[0][:2] == ["b", "a"] and sorted(found[0][2:]) == list("pqrst")


def test_frozen_features_keep_their_weights() -> None:
    weights = weights_of("abcd")
    weights.value[0], weights.frozen[0] = 5.0, True
    weights.freeze_dense(vector(weights, {"a": 1.0, "b": 2.0, "c": 3.0}))
    assert weights.value.tolist() == [5.0, 2.0, 0.0, 0.0] and weights.frozen.tolist() == [True, True, False, False]
    weights.freeze_sparse(vector(weights, {"b": 9.0, "d": 4.0}))
    assert weights.value.tolist() == [5.0, 2.0, 0.0, 4.0] and weights.frozen.all()
    weights.features.slots(["late"])
    assert weights.copy().frozen.all(), "a sparse feature that was not known then"
    assert named(weights, weights.sparse()) == {} and weights.publish(SparseWeights()).names == ["a", "b", "d"]


def test_features_to_be_optimised_are_those_of_lists_and_those_with_a_weight() -> None:
    weights = weights_of("abcd")
    weights.value[[0, 2]], weights.frozen[1] = (1.0, 3.0), True
    unknown = np.array([7], dtype=np.uint64)
    ids, value, free = weights.optimised(np.concatenate([unknown, weights.features.ids[3:], unknown]))
    assert ids.tolist() == sorted([7, *weights.features.ids.tolist()])
    assert dict(zip(ids.tolist(), value.tolist(), strict=True)) == dict(
        zip([7, *weights.features.ids.tolist()], [0.0, 1.0, 0.0, 3.0, 0.0], strict=True)
    )
    assert ids[~free].tolist() == [weights.features.ids[1]]
