"""What a rank's shards have learned, on its way to the exchange."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.online_learners import perceptron_learner
from support.runs import SENTENCES, files_of
from support.tiny import Tiny

from mpitune.config.spec import LearnerKeys
from mpitune.decoder.base import KBest
from mpitune.learner.online.evidence import PRIOR, SPARSE_STEP, Evidence, all_supported
from mpitune.learner.online.perceptron import Perceptron
from mpitune.learner.weights import SparseWeights, Weights
from mpitune.run_folder.checkpoint import ShardResult, read_checkpoint
from mpitune.run_folder.layout import checkpoint_path
from mpitune.training import online_epoch
from mpitune.training.online_epoch import _merged, _stacked
from mpitune.training.state import State

DEFAULT = {"preset": "default", "learning_rate": None, "epochs": 3}
NOTHING = State(shared_weights=SparseWeights())


def evidence(state: Sequence[np.ndarray], passes: int) -> Evidence:
    return Evidence(LearnerKeys().learning_rate, 0, passes, 0.0, 0.0, *state)


def state_of(ids: list[int], value: list[float], *state: list[float]) -> State:
    weights = SparseWeights(np.array(ids, dtype=np.uint64), np.array(value), tuple(np.array(each) for each in state))
    return State(shared_weights=weights)


def test_what_an_epoch_adds_to_what_learners_keep() -> None:
    """Totals less those that the epoch began with; a feature that is new began with 0."""
    ids = np.array([4, 7, 9], dtype=np.uint64)
    result = ShardResult(1, SparseWeights(ids, np.ones(3), (np.array([2.5, 3.0, 5.0]),)), {})
    state = state_of([9, 4], [1.0, 1.0], [5.0, 2.0])
    assert [added.tolist() for added in _stacked(state, [result], 1).state] == [[0.5, 3.0, 0.0]]


def test_features_that_no_shard_has_returned_keep_their_state() -> None:
    mixed = state_of([7, 9], [0.5, -1.0], [3.0, 1.0]).shared_weights
    run: Any = SimpleNamespace(online=SimpleNamespace(learner=SimpleNamespace(state=("squares",))))
    found = _merged(run, state_of([4, 9], [0.0, 0.0], [2.0, 5.0]), mixed)
    assert (found.ids.tolist(), found.value.tolist()) == ([4, 7, 9], [0.0, 0.5, -1.0])
    assert [array.tolist() for array in found.state] == [[2.0, 3.0, 6.0]]


@pytest.mark.parametrize("algorithm", ["itermix", "itersel"])
def test_dense_weights_and_what_was_not_selected_keep_what_was_mixed(algorithm: str) -> None:
    """Feature 0 is dense; 1 has no mixed weight, and algorithm 3 selects nothing; 3 has an initial weight."""
    run: Any = SimpleNamespace(
        online=perceptron_learner(rate="normalized", order="sentence", learning_rate=0.5).learner,
        job=SimpleNamespace(learner=SimpleNamespace(algorithm=algorithm)),
        first=SimpleNamespace(dense_ids=np.array([0], dtype=np.uint64)),
    )
    state = state_of([0, 1, 2, 3], [0.0, 0.5, 0.0, 2.0], *[[0.0] * 4] * 4)
    mixed = state_of([0, 1, 2, 3], [0.3, 0.0, 0.7, 0.2], *[[9.0] * 4] * 4).shared_weights
    weight = SPARSE_STEP * 0.5 * 9 / (9 + PRIOR)
    found = _merged(run, state, mixed).value
    assert found == pytest.approx([0.3, 0.0 if algorithm == "itersel" else 0.5 + weight, weight, 2.0 + weight])


@pytest.mark.parametrize("mixing", ["active", "uniform"])
@pytest.mark.parametrize(("algorithm", "k"), [("itermix", 100000), ("itersel", 100000), ("itersel", 20)])
def test_what_shards_leave_out_changes_nothing(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mixing: str, algorithm: str, k: int
) -> None:
    """The same bits as if each returned the state of all features that any shard has seen, which is more to send."""
    sent, reduce = list[int](), online_epoch.reduce

    def spy(comm, vectors, *given, **options):  # type: ignore[no-untyped-def]
        sent.append(len(vectors.index))
        return reduce(comm, vectors, *given, **options)

    monkeypatch.setattr(online_epoch, "reduce", spy)
    tables = {"learner": {**DEFAULT, "algorithm": algorithm}, "parallel": {"shards": 4, "mixing": mixing}}
    if algorithm == "itersel":
        tables["select"] = {"k": k}
    tiny.train(tmp_path / "some", **tables)
    with monkeypatch.context() as patch:
        sparse = Weights.sparse
        patch.setattr(Weights, "sparse", lambda weights, state=(), **_: sparse(weights, state))
        tiny.train(tmp_path / "all", **tables)
    assert files_of(tmp_path / "some") == files_of(tmp_path / "all")
    (first, *some), (also, *every) = sent[:3], sent[3:]
    assert first == also and all(less < more for less, more in zip(some, every, strict=True))


@pytest.mark.parametrize("mixing", ["active", "uniform"])
@pytest.mark.parametrize(("algorithm", "k"), [("itermix", 100000), ("itersel", 100000), ("itersel", 20)])
@pytest.mark.parametrize("initial", [False, True])
def test_sparse_weights_follow_from_the_state_of_all_shards(
    tiny: Tiny, tmp_path: Path, algorithm: str, k: int, mixing: str, initial: bool
) -> None:
    """In each epoch, those that are selected, and initial weights below them as they were."""
    learner = {**DEFAULT, "algorithm": algorithm, **({"initial_weights": "warm"} if initial else {})}
    tables = {"learner": learner, "parallel": {"shards": 4, "mixing": mixing}}
    if algorithm == "itersel":
        tables["select"] = {"k": k}
    tiny.train(tmp_path / "run", **tables)
    bases = []
    for epoch in (1, 2, 3):
        checkpoint = read_checkpoint(checkpoint_path(tmp_path / "run" / "checkpoints", epoch))
        ids, value, kept = checkpoint.start
        base = value - all_supported(evidence(kept, epoch), len(ids))
        selected = value != 0.0
        assert np.count_nonzero(selected) > 10 and (
            selected.all() or algorithm == "itersel" or not base[~selected].any()
        )
        bases.append(dict(zip(ids[selected].tolist(), base[selected].tolist(), strict=True)))
    if not initial:
        assert not any(any(base.values()) for base in bases)
        return
    first, *later = bases
    assert any(abs(base) > 1e-3 for base in first.values())
    if k == 100000:
        assert all(base[each] == pytest.approx(first[each], abs=1e-12) for base in later for each in first)


@pytest.mark.parametrize("algorithm", ["sgd", "itersel"])
def test_passes_end_with_what_the_gradients_of_all_epochs_support(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    """In shards, too: the same sentences in another epoch are no further evidence, and no mean over the pass counts."""
    learn, passes = online_epoch.learn_shard, list[tuple[int, SparseWeights]]()

    def spy(run, epoch, *given):  # type: ignore[no-untyped-def]
        result = learn(run, epoch, *given)
        passes.append((epoch, result.weights.only(~np.isin(result.weights.ids, run.first.dense_ids))))
        return result

    monkeypatch.setattr(online_epoch, "learn_shard", spy)
    shards = 1 if algorithm == "sgd" else 3
    tiny.train(tmp_path / "run", learner={**DEFAULT, "algorithm": algorithm}, parallel={"shards": shards})
    assert [epoch for epoch, _ in passes] == [epoch for epoch in (1, 2, 3) for _ in range(shards)]
    for epoch, result in passes:
        follows = result.value != 0.0
        assert np.count_nonzero(follows) > 10
        assert result.value[follows] == pytest.approx(
            all_supported(evidence(result.state, epoch), len(result.value))[follows], rel=1e-12
        )


@pytest.mark.parametrize("l2", [0.0, 0.25])
def test_a_pass_ends_with_the_mean_of_the_weights_after_each_sentence(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, l2: float
) -> None:
    """With l2, each sentence changes all weights."""
    update, after = Perceptron.update, list[np.ndarray]()

    def noted(self: Perceptron, kbest: KBest, gold: np.ndarray, weights: Weights, random: Any) -> Any:
        counts = update(self, kbest, gold, weights, random)
        after.append(weights.value.copy())
        return counts

    monkeypatch.setattr(Perceptron, "update", noted)
    learner = {"algorithm": "itermix", "epochs": 1, "averaging": "sentence", "l2": l2}
    tiny.train(tmp_path / "run", learner=learner, parallel={"shards": 1}, features={"templates": []})
    mean = np.mean(after[-SENTENCES:], axis=0)
    ends = read_checkpoint(checkpoint_path(tmp_path / "run" / "checkpoints", 1)).start.value
    assert sorted(ends) == pytest.approx(sorted(mean[mean != 0.0]), rel=1e-9) and len(ends) > 3
    assert sorted(ends) != pytest.approx(sorted(after[-1][after[-1] != 0.0]), rel=1e-3)


@pytest.mark.parametrize("algorithm", ["sgd", "mix", "itermix", "itersel"])
def test_each_epoch_has_other_shards_or_another_order(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    learn, drawn = online_epoch.learn_shard, dict[tuple[int, int], list[int]]()

    def spy(run, epoch, z, shard, *given):  # type: ignore[no-untyped-def]
        drawn[epoch, z] = shard.tolist()
        return learn(run, epoch, z, shard, *given)

    monkeypatch.setattr(online_epoch, "learn_shard", spy)
    mixes, shards = algorithm.startswith("iter"), 1 if algorithm == "sgd" else 2
    for reshuffle in (True, False):
        parallel = {"shards": shards, "reshuffle": reshuffle}
        tiny.train(tmp_path / f"{reshuffle}", learner={"algorithm": algorithm, "epochs": 3}, parallel=parallel)
        for epoch in (1, 2, 3):
            assert sorted(i for z in range(shards) for i in drawn[epoch, z]) == [*range(SENTENCES)]
        first = [drawn[epoch, 0] for epoch in (1, 2, 3)]
        assert len(set(map(tuple, first))) == (3 if reshuffle else 1)
        assert len(set(map(frozenset, first))) == (3 if reshuffle and mixes and shards > 1 else 1)


def test_random_numbers_depend_on_seed_epoch_and_sentence(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update, states = Perceptron.update, list[int]()

    def noted(self: Perceptron, kbest: KBest, gold: np.ndarray, weights: Weights, random: Any) -> Any:
        states.append(random.bit_generator.state["state"]["state"])
        return update(self, kbest, gold, weights, random)

    monkeypatch.setattr(Perceptron, "update", noted)
    for seed, shards in ((1, 1), (2, 1), (1, 3)):
        tables = {"run": {"seed": seed}, "parallel": {"shards": shards, "reshuffle": False}}
        tiny.train(tmp_path / f"{seed}-{shards}", learner={"algorithm": "itermix", "epochs": 2}, **tables)
    ones, others, again = (set(states[n * len(states) // 3 :][: len(states) // 3]) for n in range(3))
    assert len(ones | others) == 2 * 2 * SENTENCES + 1, "and the list that loads the kernels"
    assert ones == again, "they do not depend on shards"


def test_vectors_are_held_once() -> None:
    tracemalloc.start()
    results = [
        ShardResult(z, SparseWeights(np.arange(z * 1000, dtype=np.uint64), np.full(z * 1000, z / 4)), {"gold": z})
        for z in (0, 3, 50, 7)
    ]
    before = tracemalloc.get_traced_memory()[0]
    stacked = _stacked(NOTHING, results, 0)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after < before + 10000 < 2 * before
    assert stacked.shard.tolist() == [0, 3, 50, 7] and stacked.ptr.tolist() == [0, 0, 3000, 53000, 60000]
    for z, row in zip((3, 50, 7), range(1, 4), strict=True):
        entries = slice(stacked.ptr[row], stacked.ptr[row + 1])
        assert np.array_equal(stacked.index[entries], np.arange(z * 1000, dtype=np.uint64))
        assert stacked.value[entries].tolist() == [z / 4] * (z * 1000)
    assert [(each.shard, each.statistics["gold"]) for each in results] == [(z, z) for z in (0, 3, 50, 7)]
    assert all(len(each.weights.ids) == len(each.weights.value) == 0 for each in results)


def test_a_rank_without_shards() -> None:
    stacked = _stacked(NOTHING, [], 2)
    assert stacked.ptr.tolist() == [0] and stacked.shard.dtype == np.int64
    assert [len(added) for added in stacked.state] == [0, 0]
    assert (len(stacked.index), stacked.index.dtype, stacked.value.dtype) == (0, np.uint64, np.float64)
