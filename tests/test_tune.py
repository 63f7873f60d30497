"""Batch methods: what they find over given lists, and whole runs over a tiny task."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learner_options import mert_options, minrisk_options, pro_options, rampion_options
from mpi import ROOT, mpirun
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from test_train import DRIVER, SENTENCES, SHARD_SIZES, Decodes, damage, decodes, epoch_weights, files_of, metrics
from tiny import DEVTEST, Tiny

from mpitune.errors import StopRequested, UsageError
from mpitune.exchange.comm import SerialComm
from mpitune.learner.base import BatchLearner, OptimizerResult, Reply, ShardObjective
from mpitune.learner.batch import mert
from mpitune.learner.batch.mert import Mert, search
from mpitune.learner.batch.minrisk import MinRisk
from mpitune.learner.batch.pro import Pro
from mpitune.learner.batch.rampion import Rampion
from mpitune.learner.pool import NBestPool, empty, merged, pool_of, scores
from mpitune.metrics import ter
from mpitune.metrics.sentence_bleu import bleu_plus_one
from mpitune.metrics.tuning_metric import SCORES
from mpitune.run_folder import nbest_store as lists_module
from mpitune.training import batch_epoch, factory
from mpitune.training.loop import train

assert decodes  # A fixture.

METHODS = ["pro", "mert", "hypergraph", "minrisk", "rampion"]
"""Hypergraph is MERT over forests; of its metrics, those but BLEU are named as methods too, in `tables_of`."""
IDS = np.array([30, 10, 20, 40], dtype=np.uint64)
"""Feature ids by slot; a pool has them in ascending order."""


def statistics_of(matches: Sequence[int], length: int = 12, reference: int = 12) -> list[int]:
    """Those of a translation with so many matches of each order."""
    return [*matches, *(length - n for n in range(4)), length, reference, reference]


def pool(lists: Sequence[Sequence[tuple[Sequence[float], Sequence[int]]]]) -> NBestPool:
    """Lists of entries as feature values, one a slot, and statistics."""
    made, width = [], max(len(row) for entries in lists for _, row in entries)
    for entries in lists:
        rows = [{slot: float(value) for slot, value in enumerate(values)} for values, _ in entries]
        kbest = naive.kbest_of([[1]] * len(entries), rows)
        made.append((kbest, np.array([row for _, row in entries], dtype=np.int64).reshape(-1, width)))
    return merged(empty(len(lists), width), pool_of(made, IDS))


def part_of(learner: BatchLearner, pool: NBestPool, free: Sequence[bool] = (True,) * 4) -> ShardObjective:
    place = np.searchsorted(np.sort(IDS), pool.feature_id)
    return learner.shard_objective(pool, place, np.array(free), lambda s: np.random.default_rng(s))


def optimise(
    learner: BatchLearner, pools: Sequence[NBestPool], weights: Sequence[float], free: Sequence[bool] = (True,) * 4
) -> OptimizerResult:
    parts = [part_of(learner, pool, free) for pool in pools]

    def ask(question: np.ndarray) -> Iterator[Reply]:
        return (part.evaluate(question) for part in parts)

    return learner.optimise(np.array(weights), np.array(free), ask, np.random.default_rng(1))


# Accumulated lists


def contents(pool: NBestPool) -> list[list[tuple[dict[int, float], list[int]]]]:
    entries = []
    for j in range(len(pool.fingerprint)):
        row = slice(pool.feature_ptr[j], pool.feature_ptr[j + 1])
        ids = pool.feature_id[pool.feature[row]].tolist()
        entries.append((dict(zip(ids, pool.value[row].tolist(), strict=True)), pool.statistics[j].tolist()))
    return [entries[a:b] for a, b in zip(pool.sentence_ptr[:-1], pool.sentence_ptr[1:], strict=True)]


def test_a_pool_has_each_entry_once_and_the_first_first() -> None:
    a, b, c = (
        ([1.0, 2.0], statistics_of([1] * 4)),
        ([1.0, 2.0], statistics_of([2] * 4)),
        ([3.0], statistics_of([1] * 4)),
    )
    old, new = pool([[a, b, a], [c]]), pool([[c, b], [c, b]])
    named = {"a": ({30: 1.0, 10: 2.0}, a[1]), "b": ({30: 1.0, 10: 2.0}, b[1]), "c": ({30: 3.0}, c[1])}
    assert contents(old) == [[named["a"], named["b"]], [named["c"]]]
    assert contents(merged(old, new)) == [[named["a"], named["b"], named["c"]], [named["c"], named["b"]]]
    assert contents(merged(empty(2), old)) == contents(old)
    assert contents(merged(empty(0), pool_of([], IDS))) == []


# MERT


def score_at(pools: Sequence[NBestPool], weights: np.ndarray, metric: str = "bleu") -> float:
    """The score of the entries that are best under ``weights``; features by ascending ids."""
    rows = []
    for pool in pools:
        found = scores(pool, weights[np.searchsorted(np.sort(IDS), pool.feature_id)])
        for a, b in zip(pool.sentence_ptr[:-1], pool.sentence_ptr[1:], strict=True):
            rows.append(pool.statistics[a + int(np.argmax(found[a:b]))])
    return float(SCORES[metric](np.sum(rows, axis=0)[None])[0])


def with_metric(row: Sequence[int], metric: str) -> list[int]:
    """Statistics of BLEU, and further ones to go with them."""
    matches, length, reference = row[:4], *row[8:10]
    if metric == "ter":
        return [*row, length - matches[0] + matches[3], reference * ter.UNIT]
    if metric == "chrf":
        return [
            *row,
            *(4 * length - n for n in range(6)),
            *(4 * reference - n for n in range(6)),
            *matches,
            *matches[:2],
        ]
    return list(row)


def corners(pools: Sequence[NBestPool], w: np.ndarray, d: np.ndarray) -> list[float]:
    """All t where two entries of a sentence have equal scores."""
    found = set()
    for pool in pools:
        place = np.searchsorted(np.sort(IDS), pool.feature_id)
        at, slope = scores(pool, w[place]), scores(pool, d[place])
        for a, b in zip(pool.sentence_ptr[:-1], pool.sentence_ptr[1:], strict=True):
            for i in range(a, b):
                found |= {(at[i] - at[j]) / (slope[j] - slope[i]) for j in range(a, b) if slope[i] != slope[j]}
    return sorted(found)


values = st.lists(st.integers(-8, 8).map(float), min_size=4, max_size=4)
entry = st.tuples(values, st.lists(st.integers(0, 9), min_size=4, max_size=4).map(statistics_of))
lists_of_entries = st.lists(st.lists(entry, min_size=1, max_size=6), min_size=1, max_size=3)


@pytest.mark.kernel
@settings(max_examples=60, deadline=None)
@given(st.lists(lists_of_entries, min_size=1, max_size=3), values, values, st.sampled_from(sorted(SCORES)))
def test_the_line_search_finds_what_brute_force_finds(lists: Any, w: list[float], d: list[float], metric: str) -> None:
    pools = [pool([[(x, with_metric(row, metric)) for x, row in entries] for entries in shard]) for shard in lists]
    at, along = np.array(w), np.array(d)
    mert = Mert(mert_options(metric=metric))
    t, score = search([part_of(mert, shard).evaluate(np.stack([at, along])) for shard in pools], SCORES[metric])
    found = corners(pools, at, along)
    between = [(a + b) / 2 for a, b in zip(found, found[1:], strict=False)]
    tried = [found[0] - 1, *between, found[-1] + 1] if found else [0.0]
    assert score == max(score_at(pools, at + s * along, metric) for s in tried)
    if min((abs(t - corner) for corner in found), default=1.0) > 1e-6:
        assert score_at(pools, at + t * along, metric) == score
    if 0.0 not in found and score_at(pools, at, metric) == score:
        assert t == 0.0, "what is best already stays"


def test_mert_finds_the_weights_that_pick_the_best_of_every_list() -> None:
    random = np.random.default_rng(3)
    planted = np.array([1.0, -2.0, 0.5, 1.5])
    pools = []
    for _ in range(2):
        lists = []
        for _ in range(8):
            x = random.integers(-8, 8, (10, 4))
            # Slots 1, 2, 0, 3 are in the order of their ids.
            order = np.argsort(np.argsort(x[:, [1, 2, 0, 3]] @ planted))
            lists.append([(x[j].tolist(), statistics_of([3 + int(order[j]) - n for n in range(4)])) for j in range(10)])
        pools.append(pool(lists))
    tuned = optimise(Mert(mert_options(directions=5, restarts=5)), pools, [0.0, 0.0, 0.0, 0.0])
    assert tuned.objective == pytest.approx(score_at(pools, tuned.weights)) and tuned.steps > 0
    assert tuned.objective > 0.97 * score_at(pools, planted)
    assert np.abs(tuned.weights).sum() == pytest.approx(1.0)


def test_mert_warns_where_there_are_many_features(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = [pool([[([1.0, 2.0, 0.0, 1.0], statistics_of([5] * 4))]])]
    for most, warned in ((4, False), (3, True)):
        monkeypatch.setattr(mert, "MANY", most)
        optimise(Mert(mert_options(directions=0, restarts=0)), pools, [0.0] * 4)
        assert ("MERT searches along each of 4 features" in caplog.text) == warned


@pytest.mark.parametrize(("options", "starts", "lines"), [((0, 0), 1, 4), ((3, 0), 1, 7), ((0, 2), 3, 4)])
def test_mert_starts_as_often_and_looks_as_far_as_asked(options: tuple[int, int], starts: int, lines: int) -> None:
    asked = []
    alike = part_of(Mert(mert_options()), pool([[([1.0, 2.0], statistics_of([5] * 4))]]))

    def ask(question: np.ndarray) -> Iterator[Reply]:
        asked.append(question)
        return iter([alike.evaluate(question)])

    tuned = Mert(mert_options("bleu", *options)).optimise(
        np.ones(4), np.ones(4, dtype=bool), ask, np.random.default_rng(1)
    )
    # A second round sees that the first has found all that there is.
    assert len(asked) == 2 * starts * lines and tuned.steps == 0
    assert len({question[0].tobytes() for question in asked}) == starts


@pytest.mark.parametrize(
    "learner", [Mert(mert_options()), Pro(pro_options()), MinRisk(minrisk_options()), Rampion(rampion_options())]
)
def test_what_is_frozen_stays(learner: BatchLearner) -> None:
    random = np.random.default_rng(0)
    entries = [(random.integers(-8, 8, 4).tolist(), statistics_of([j, j, j, j])) for j in range(9)]
    tuned = optimise(learner, [pool([entries])], [0.3, 0.1, 0.1, 0.7], [False, True, True, False])
    assert tuned.weights[[0, 3]].tolist() == [0.3, 0.7]
    assert (tuned.weights[[1, 2]] != 0.1).any()


# PRO


def ranking(seed: int, planted: np.ndarray) -> NBestPool:
    """Lists whose gold scores are in the order of x . ``planted`` (features by ascending ids)."""
    random = np.random.default_rng(seed)
    lists = []
    for _ in range(20):
        x = random.normal(size=(30, 4))
        order = np.argsort(np.argsort(x[:, [1, 2, 0, 3]] @ planted)).tolist()
        matches = [[4 + order[j] - n for n in range(4)] for j in range(30)]
        lists.append([(x[j].tolist(), statistics_of(matches[j], 34, 34)) for j in range(30)])
    return pool(lists)


def test_pro_recovers_planted_weights() -> None:
    planted = np.array([1.0, -2.0, 0.5, 0.0])
    pools = [ranking(seed, planted) for seed in (1, 2)]
    tuned = optimise(Pro(pro_options(interpolation=1.0, c=0.01)), pools, [0.0] * 4)
    cosine = tuned.weights @ planted / np.linalg.norm(tuned.weights) / np.linalg.norm(planted)
    assert cosine > 0.99
    assert sum(part_of(Pro(pro_options()), each).pairs for each in pools) == 2 * 20 * 50
    old = np.array([1.0, 1.0, 1.0, 1.0])
    third = optimise(Pro(pro_options(interpolation=0.25, c=0.01)), pools, old.tolist())
    assert third.weights == pytest.approx(0.25 * tuned.weights + 0.75 * old)


@pytest.mark.parametrize("learner", [Pro(pro_options()), MinRisk(minrisk_options())])
def test_gradients_are_those_of_the_losses(learner: BatchLearner) -> None:
    part = part_of(learner, ranking(5, np.array([1.0, 1.0, -1.0, 1.0])))
    at = np.array([0.2, -0.1, 0.3, 0.05])
    _, gradient = part.evaluate(at)
    for d in range(4):
        step = 1e-6 * np.eye(4)[d]
        slope = (part.evaluate(at + step)[0][0] - part.evaluate(at - step)[0][0]) / 2e-6
        assert gradient[d] == pytest.approx(slope, rel=1e-6)


def test_losses_of_equal_scores() -> None:
    lists = ranking(5, np.ones(4))
    part, risk = part_of(Pro(pro_options()), lists), part_of(MinRisk(minrisk_options()), lists)
    assert part.evaluate(np.zeros(4))[0][0] == pytest.approx(part.pairs * np.log(2))
    means = bleu_plus_one(lists.statistics).reshape(20, 30).mean(axis=1)
    assert risk.evaluate(np.zeros(4))[0][0] == pytest.approx((1 - means).sum())


def test_sums_do_not_depend_on_the_cores() -> None:
    program = "import mpitune, numpy; x = numpy.sqrt(numpy.arange(2e5)); print(float(x @ x).hex())"
    found = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    ]
    assert found[0] == found[1] != ""


def test_pro_without_pairs_keeps_the_weights() -> None:
    alike = pool([[([1.0, 2.0], statistics_of([3] * 4)), ([2.0, 1.0], statistics_of([3] * 4))]])
    tuned = optimise(Pro(pro_options()), [alike], [0.5, 0.25, 0.0, 1.0])
    assert tuned.weights.tolist() == [0.5, 0.25, 0.0, 1.0] and tuned.steps == 0


# Whole runs


def tables_of(method: str, epochs: int = 2, **learner: Any) -> dict[str, Any]:
    """What a job says: few restarts, as is enough for a tiny task."""
    search = "hypergraph" if method == "hypergraph" else "kbest"
    metric = method if method in SCORES else "bleu"
    named = method if method in METHODS and method != "hypergraph" else "mert"
    return {
        "features": {"templates": ["shape"]},
        "learner": {"method": named, "initial_weights": "warm", "epochs": epochs, **learner},
        "learner.mert": {"search": search, "metric": metric, "restarts": 1, "directions": 2},
    }


@pytest.mark.parametrize("method", METHODS)
def test_translations_get_better_and_lists_longer(tiny: Tiny, tmp_path: Path, method: str) -> None:
    tiny.train(tmp_path / "run", **tables_of(method, 3, frozen=["LanguageModel"]))
    first, _, last = metrics(tmp_path / "run")
    assert last["gold"] > first["gold"] + 0.02
    assert last["list_entries"] > first["list_entries"] >= SENTENCES
    assert epoch_weights(tmp_path / "run", 3)["LanguageModel"] == 0.015625
    assert not (tmp_path / "run" / "checkpoints" / "epoch-0001.lists").exists()
    assert len(list((tmp_path / "run" / "checkpoints" / "epoch-0002.lists").iterdir())) == len(SHARD_SIZES)


def finished_shards(folder: Path) -> list[int]:
    """Which they are depends on the time that they took in the epoch before."""
    return sorted(int(path.stem.removeprefix("shard-")) for path in folder.iterdir())


@pytest.mark.parametrize("method", METHODS)
def test_a_stopped_run_goes_on_as_if_unbroken(tiny: Tiny, tmp_path: Path, decodes: Decodes, method: str) -> None:
    tables = tables_of(method, 3, algorithm="mix")
    tiny.train(tmp_path / "unbroken", **tables)
    # In epoch 2, in the third of four shards; the first decode only loads the kernels.
    decodes.count, decodes.stop_at = 0, (1 + SENTENCES + sum(SHARD_SIZES[:2]) + 3, signal.SIGTERM)
    with pytest.raises(StopRequested, match="stopped by SIGTERM in epoch 2"):
        tiny.train(tmp_path / "run", **tables)
    decodes.count, decodes.stop_at = 0, None
    finished = finished_shards(tmp_path / "run" / "checkpoints" / "epoch-0002.lists")
    tiny.train(tmp_path / "run", **tables)
    assert decodes.count == 1 + 2 * SENTENCES - sum(SHARD_SIZES[z] for z in finished) and len(finished) == 2
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


@pytest.mark.parametrize(("metric", "theirs"), [("ter", TER()), ("chrf", CHRF())])
def test_mert_makes_the_metric_better_that_it_is_given(tiny: Tiny, tmp_path: Path, metric: str, theirs: Any) -> None:
    watched = {"data__devtest": {"source": "train.de", "references": ["train.en", "train.en2"]}}
    # From no weights at all there is much to be made better.
    tables = {**tables_of(metric, 3, initial_weights=None), **watched}
    tiny.train(tmp_path / "run", **tables)

    def lines(name: str) -> list[str]:
        with gzip.open(tmp_path / "run" / "translations" / name, "rt", encoding="utf-8") as file:
            return file.read().splitlines()

    references = [lines(f"reference-{n}.txt.gz") for n in range(2)]
    before, after = (theirs.corpus_score(lines(f"epoch-000{epoch}.txt.gz"), references).score for epoch in (0, 3))
    sign = -1 if metric == "ter" else 1
    assert sign * after > sign * before + 2
    # The lists of the last epoch hold what the weights before it pick, and the line search starts there.
    last = theirs.corpus_score(lines("epoch-0002.txt.gz"), references).score
    assert 100 * metrics(tmp_path / "run")[-1]["objective"] >= sign * last - 1e-9


def test_there_are_signs_of_life(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_epoch, "INTERVAL", 0.0)
    tiny.train(tmp_path / "run", **tables_of("mert", 1))
    told = re.findall(r"epoch 1: looking for better weights: (\d+) tried", (tmp_path / "run" / "log.txt").read_text())
    assert [int(number) for number in told] == list(range(1, len(told) + 1)) and len(told) > 10


def test_lists_that_are_lost_are_made_again(tiny: Tiny, tmp_path: Path, decodes: Decodes) -> None:
    tiny.train(tmp_path / "unbroken", **tables_of("pro", 3))
    tiny.train(tmp_path / "run", **tables_of("pro", 2))
    damage(tmp_path / "run" / "checkpoints" / "epoch-0002.lists" / "shard-0001.h5")
    for epoch in (1, 2):
        (tmp_path / "run" / "checkpoints" / f"epoch-000{epoch}.lists" / "shard-0002.h5").unlink()
    decodes.count = 0
    tiny.train(tmp_path / "run", **tables_of("pro", 3))
    assert decodes.count == 1 + SENTENCES + SHARD_SIZES[1] + 2 * SHARD_SIZES[2]
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


def test_lists_of_an_older_version_are_made_again_and_of_a_newer_one_refused(
    tiny: Tiny, tmp_path: Path, decodes: Decodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.train(tmp_path / "unbroken", **tables_of("pro", 3))
    version = lists_module.VERSION
    for other in (version - 1, version + 1):
        monkeypatch.setattr(lists_module, "VERSION", other)
        tiny.train(tmp_path / str(other), **tables_of("pro", 2))
    monkeypatch.setattr(lists_module, "VERSION", version)
    decodes.count = 0
    tiny.train(tmp_path / str(version - 1), **tables_of("pro", 3))
    assert decodes.count == 1 + 3 * SENTENCES
    assert files_of(tmp_path / str(version - 1)) == files_of(tmp_path / "unbroken")
    with pytest.raises(UsageError, match=rf"shard-\d+\.h5: made by a newer mpitune \(version {version + 1}, this one"):
        tiny.train(tmp_path / str(version + 1), **tables_of("pro", 3))


def test_forests_are_those_of_one_epoch_and_made_again_where_lost(tiny: Tiny, tmp_path: Path, decodes: Decodes) -> None:
    # In epoch 2, in the third of four shards, so that the epoch begins with what is left of the first two.
    decodes.stop_at = (1 + SENTENCES + sum(SHARD_SIZES[:2]) + 3, signal.SIGTERM)
    with pytest.raises(StopRequested):
        tiny.train(tmp_path / "run", **tables_of("hypergraph", 3))
    kept = tmp_path / "run" / "checkpoints"
    assert len(list((kept / "epoch-0001.forests").iterdir())) == len(SHARD_SIZES)
    lost, whole = finished_shards(kept / "epoch-0002.forests")
    damage(kept / "epoch-0002.forests" / f"shard-{lost:04d}.h5")
    decodes.count, decodes.stop_at = 0, None
    tiny.train(tmp_path / "run", **tables_of("hypergraph", 3))
    assert decodes.count == 1 + 2 * SENTENCES - SHARD_SIZES[whole]
    tiny.train(tmp_path / "unbroken", **tables_of("hypergraph", 3))
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")
    assert [path.name for path in kept.glob("*.forests")] == ["epoch-0003.forests"]


@pytest.mark.parametrize(
    "options",
    [{"candidates": 20}, {"threshold": 0.8}, {"kept": 5}, {"c": 0.001}, {"interpolation": 0.5}],
    ids=lambda options: next(iter(options)),
)
def test_every_option_of_pro_makes_a_difference(tiny: Tiny, tmp_path: Path, options: dict[str, Any]) -> None:
    tiny.train(tmp_path / "plain", **tables_of("pro", 1))
    tiny.train(tmp_path / "other", **{**tables_of("pro", 1), "learner.pro": options})
    assert epoch_weights(tmp_path / "plain", 1) != epoch_weights(tmp_path / "other", 1)


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_leave_no_trace(tiny: Tiny, tmp_path: Path, ranks: int) -> None:
    (tmp_path / "driver.py").write_text(DRIVER)
    jobs, methods = [], [*METHODS, "ter", "chrf"]
    for method in methods:
        tables = {**tables_of(method), **DEVTEST}
        tiny.train(tmp_path / method, **tables)
        jobs.append(tiny.job_file(tmp_path / f"{method}-{ranks}", **tables))
    done = mpirun(ranks, [tmp_path / "driver.py", *jobs])
    assert (done.returncode, done.stdout) == (0, "")
    assert all(" WARNING epoch " in line for line in done.stderr.splitlines()), done.stderr
    for method in methods:
        assert files_of(tmp_path / f"{method}-{ranks}") == files_of(tmp_path / method)


@pytest.fixture(scope="module")
def news(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What makes jobs/nc.toml a small job with dense features."""
    store = tmp_path_factory.mktemp("news") / "store"
    return [f"run.store={store}", "data.limit=15", "features.templates=[]", "learner.epochs=2"]


@pytest.mark.parametrize("method", METHODS)
def test_real_sentences_are_translated_better(
    shared: Path, news: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setenv("MPITUNE_DATA", str(shared / "data"))
    asked = [*news, f"run.dir={tmp_path / 'run'}", "learner.mert.restarts=0"]
    asked += (
        ["learner.method=mert", "learner.mert.search=hypergraph"]
        if method == "hypergraph"
        else [f"learner.method={method}"]
    )
    train(factory.load_job(ROOT / "jobs" / "nc.toml", asked), SerialComm(), quiet=True)
    first, second = metrics(tmp_path / "run")
    assert second["gold"] > first["gold"] + 0.05
