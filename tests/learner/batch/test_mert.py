"""MERT over given lists: the line search against all others, starts and directions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batch_lists import IDS, lists_of_entries, optimise, part_of, pool, statistics_of, values
from support.learner_options import BLEU, mert_options

from mpitune.learner.base import Reply
from mpitune.learner.batch import mert
from mpitune.learner.batch.mert import Lines, Mert, envelope, search
from mpitune.learner.pool import NBestPool, scores
from mpitune.metrics import ter
from mpitune.metrics.tuning_metric import METRICS, UNIT, Metric


def score_at(pools: Sequence[NBestPool], weights: np.ndarray, metric: str = "bleu") -> float:
    """The score of the entries that are best under ``weights``; features by ascending ids."""
    rows = []
    for each in pools:
        found = scores(each, weights[np.searchsorted(np.sort(IDS), each.feature_id)])
        for a, b in zip(each.sentence_ptr[:-1], each.sentence_ptr[1:], strict=True):
            # Rounding must not choose among entries that are equal all along a line.
            rows.append(each.statistics[a + int(np.argmax(np.round(found[a:b], 9)))])
    return float(metric_of(metric).set_scores(np.sum(rows, axis=0)[None])[0])


def metric_of(name: str) -> Metric:
    weights = {"bleu": 0.25, "ter": 0.75, "comet": -0.5} if name == "sum" else {name: 1.0}
    metric = Metric(weights, ())
    if len(weights) > 1:
        metric.set_spreads(np.array([0.5, 0.25, 0.125]))
    return metric


def with_metric(row: Sequence[int], metric: str) -> list[int]:
    """Statistics of BLEU, and further ones to go with them."""
    matches, length, reference = row[:4], *row[8:10]
    if metric == "comet":
        return [*row, (matches[0] - matches[2]) * UNIT // 7, 1]
    if metric == "sum":
        return [*with_metric(row, "ter"), *with_metric(row, "comet")[-2:]]
    if metric == "ter":
        return [*row, length - matches[0] + matches[3], reference * ter.UNIT]
    if metric in ("chrf", "chrf++"):
        orders = METRICS[metric].width // 3
        totals = [4 * words - n for words in (length, reference) for n in range(orders)]
        return [*row, *totals, *[*matches, *matches][:orders]]
    return list(row) if metric == "bleu" else [*row, length - matches[0], reference]


def corners(pools: Sequence[NBestPool], w: np.ndarray, d: np.ndarray) -> list[float]:
    """All t where two entries of a sentence have equal scores."""
    found = set()
    for each in pools:
        place = np.searchsorted(np.sort(IDS), each.feature_id)
        at, slope = scores(each, w[place]), scores(each, d[place])
        for a, b in zip(each.sentence_ptr[:-1], each.sentence_ptr[1:], strict=True):
            for i in range(a, b):
                found |= {(at[i] - at[j]) / (slope[j] - slope[i]) for j in range(a, b) if slope[i] != slope[j]}
    return sorted(found)


@pytest.mark.kernel
@settings(max_examples=60, deadline=None)
@given(st.lists(lists_of_entries, min_size=1, max_size=3), values, values, st.sampled_from([*METRICS, "comet", "sum"]))
def test_the_line_search_finds_what_brute_force_finds(lists: Any, w: list[float], d: list[float], metric: str) -> None:
    pools = [pool([[(x, with_metric(row, metric)) for x, row in entries] for entries in shard]) for shard in lists]
    at, along = np.array(w), np.array(d)
    mert = Mert(mert_options(), metric_of(metric))
    t, score = search(
        [part_of(mert, shard).evaluate(np.stack([at, along])) for shard in pools], metric_of(metric).set_scores
    )
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
    tuned = optimise(Mert(mert_options(directions=5, restarts=5), BLEU), pools, [0.0, 0.0, 0.0, 0.0])
    assert tuned.objective == pytest.approx(score_at(pools, tuned.weights)) and tuned.steps > 0
    assert tuned.objective > 0.97 * score_at(pools, planted)
    assert np.abs(tuned.weights).sum() == pytest.approx(1.0)


def test_slopes_that_differ_by_rounding_are_the_same() -> None:
    """Their lines would cross at 1e15, where all other weights count nothing."""
    slopes = np.array([0.1, 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1, 0.1])
    assert slopes[1] > slopes[2]
    statistics = np.arange(4)[:, None]
    for at, corners, best in (
        ([0.0, -1.0, -0.5, -2.0], [1.0], [0, 2]),
        ([0.0, -0.5, -1.0, 0.1], [1.2], [3, 1]),
    ):
        found = envelope(Lines(np.array([0, 4]), np.array(at), slopes, statistics))
        assert found.corner == pytest.approx(corners)
        assert np.cumsum([found.first[0], *found.change[:, 0]]).tolist() == best


def test_corners_that_rounding_puts_apart_are_one() -> None:
    """With one feature, translations change where its weight changes its sign, and nowhere else."""
    random = np.random.default_rng(5)
    pools, found = [], set[float]()
    for _ in range(2):
        rows = random.normal(size=(20, 8))
        of_rows = random.integers(1, 10, (20, 8, 4))
        lists = [
            [([0, x, 0, 0], statistics_of(m)) for x, m in zip(*each, strict=True)]
            for each in zip(rows.tolist(), of_rows.tolist(), strict=True)
        ]
        pools.append(pool(lists))
    for _ in range(50):
        w = [random.uniform(-1, 1), 0.0, 0.0, 0.0]
        tuned = optimise(Mert(mert_options(directions=3, restarts=3), BLEU), pools, w)
        found.add(tuned.objective)
    assert found == {max(score_at(pools, np.array([sign, 0.0, 0.0, 0.0])) for sign in (-1.0, 1.0))}


def test_the_scale_of_a_feature_does_not_matter() -> None:
    """Not even one that puts all corners within 1e-11: intervals are narrow or wide relative to t."""
    at, along = np.array([0.0, 0.0, 0.5, 0.0]), np.array([1.0, 0.0, 0.0, 0.0])
    learner = Mert(mert_options(), BLEU)
    for seed in range(20):
        random = np.random.default_rng(seed)
        x, matches = random.normal(size=(6, 8, 2)), random.integers(1, 10, (6, 8, 4))
        found = []
        for factor in (1.0, 2.0**40):
            rows = (x * [factor, 1.0])[:, :, ::-1]
            lists = [
                [([b, a, 0.0, 0.0], statistics_of(m)) for (b, a), m in zip(*each, strict=True)]
                for each in zip(rows.tolist(), matches.tolist(), strict=True)
            ]
            _, score = search([part_of(learner, pool(lists)).evaluate(np.stack([at, along]))], BLEU.set_scores)
            found.append(score)
        assert found[0] == found[1]


def test_a_climb_never_goes_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even from a corner, where all intervals of a line may be worse: equal values make many of these."""
    found: list[float] = []

    def search_and_keep(*arguments: Any) -> tuple[float, float]:
        t, score = search(*arguments)
        found.append(score)
        return t, score

    monkeypatch.setattr(mert, "search", search_and_keep)
    for seed in range(100):
        found.clear()
        random = np.random.default_rng(seed)
        x = random.integers(-2, 3, (4, 6, 4)).tolist()
        matches = random.integers(0, 10, (4, 6, 4)).tolist()
        lists = [[(x[i][j], statistics_of(matches[i][j])) for j in range(6)] for i in range(4)]
        start = random.integers(-2, 3, 4).tolist()
        tuned = optimise(Mert(mert_options(directions=3, restarts=0), BLEU), [pool(lists)], start)
        assert tuned.objective == max(found)


def test_mert_warns_where_there_are_many_features(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = [pool([[([1.0, 2.0, 0.0, 1.0], statistics_of([5] * 4))]])]
    for most, warned in ((4, False), (3, True)):
        monkeypatch.setattr(mert, "MANY", most)
        optimise(Mert(mert_options(directions=0, restarts=0), BLEU), pools, [0.0] * 4)
        assert ("MERT searches along each of 4 features" in caplog.text) == warned


@pytest.mark.parametrize("directions", [0, 5])
def test_mert_without_a_free_feature_has_the_score_of_its_weights(directions: int) -> None:
    pools = [pool([[([1.0, 2.0], statistics_of([5] * 4)), ([2.0, 1.0], statistics_of([4] * 4))]])]
    at = [1.0, -1.0, 0.0, 0.0]
    tuned = optimise(Mert(mert_options(directions=directions), BLEU), pools, at, [False] * 4)
    assert tuned.weights.tolist() == at and tuned.steps == 0
    assert tuned.objective == pytest.approx(score_at(pools, tuned.weights))


@pytest.mark.parametrize(("options", "starts", "lines"), [((0, 0), 1, 4), ((3, 0), 1, 7), ((0, 2), 3, 4)])
def test_mert_starts_as_often_and_looks_as_far_as_asked(options: tuple[int, int], starts: int, lines: int) -> None:
    asked = []
    alike = part_of(Mert(mert_options(), BLEU), pool([[([1.0, 2.0], statistics_of([5] * 4))]]))

    def ask(question: np.ndarray) -> Iterator[Reply]:
        asked.append(question)
        return iter([alike.evaluate(question)])

    tuned = Mert(mert_options(*options), BLEU).optimise(
        np.ones(4), np.ones(4, dtype=bool), ask, np.random.default_rng(1)
    )
    # A second round sees that the first has found all that there is.
    assert len(asked) == 2 * starts * lines and tuned.steps == 0
    assert len({question[0].tobytes() for question in asked}) == starts
