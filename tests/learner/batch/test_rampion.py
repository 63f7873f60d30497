"""RAMPION over given lists, beside the same in plain numpy. Whole runs are in integration/test_tune.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batch_lists import IDS, lists_of_entries, optimise, part_of, pool, ranking, values
from support.learner_options import BLEU, rampion_options

from mpitune.learner.batch.rampion import Rampion, RampionOptions
from mpitune.learner.pool import NBestPool, empty
from mpitune.metrics.sentence_bleu import bleu_plus_one

PLANTED = np.array([1.0, -2.0, 0.5, 0.0])
FAST = rampion_options(step=0.002)

shards_of_lists = st.lists(lists_of_entries, min_size=1, max_size=3)
losses = st.sampled_from([1, 2, 3])


def naive_loss(
    lists: Sequence[Any], hopes_of: np.ndarray, weights: np.ndarray, options: RampionOptions
) -> tuple[float, np.ndarray]:
    """The sum of losses and its subgradient; features by slot, as in ``lists``."""
    loss, gradient = 0.0, np.zeros(4)
    for entries in lists:
        x = np.array([row for row, _ in entries])
        cost = options.cost_scale * (1 - bleu_plus_one(np.array([row for _, row in entries])))
        if options.loss == 1:
            towards, away = 0 * cost, cost
        elif options.loss == 2:
            towards, away = -cost, 0 * cost
        else:
            towards, away = -cost, cost
        hope, fear = np.argmax(x @ hopes_of + towards), np.argmax(x @ weights + away)
        loss += x[fear] @ weights + away[fear] - x[hope] @ weights - towards[hope]
        gradient += x[fear] - x[hope]
    return loss, gradient


def by_ids(by_slot: np.ndarray) -> np.ndarray:
    return by_slot[..., np.argsort(IDS)]


@pytest.mark.kernel
@settings(max_examples=60, deadline=None)
@given(lists_of_entries, values, values, losses)
def test_losses_and_subgradients_are_those_of_plain_numpy(lists: Any, hopes: Any, w: Any, loss: int) -> None:
    options = rampion_options(loss=loss)
    question = np.array([hopes, w])
    found, gradient = part_of(Rampion(options, BLEU), pool(lists)).evaluate(by_ids(question))
    expected, slope = naive_loss(lists, *question, options)
    assert found[0] == pytest.approx(expected)
    assert gradient.tolist() == by_ids(slope).tolist()


@settings(max_examples=60, deadline=None)
@given(lists_of_entries, values, values, values, losses)
def test_a_subgradient_is_below_the_convex_part(lists: Any, hopes: Any, w: Any, v: Any, loss: int) -> None:
    part = part_of(Rampion(rampion_options(loss=loss), BLEU), pool(lists))
    at_w, gradient = part.evaluate(np.array([hopes, w]))
    at_v, _ = part.evaluate(np.array([hopes, v]))
    own, _ = part.evaluate(np.array([v, v]))
    assert at_v[0] >= at_w[0] + gradient @ (np.array(v) - np.array(w)) - 1e-9
    assert own[0] <= at_v[0] + 1e-9, "with fixed hopes the loss is never less than with its own"
    assert own[0] >= -1e-9


@settings(max_examples=30, deadline=None)
@given(shards_of_lists, values, losses)
def test_steps_are_those_of_plain_numpy(shards: Any, w: Any, loss: int) -> None:
    options = rampion_options(loss=loss, rounds=2, passes=4, step=2.0**-6, c=0.25)
    lists = [entries for shard in shards for entries in shard]
    start, length, steps = np.array(w), 2.0**-6, 0

    def objective(at: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = naive_loss(lists, hopes_of, at, options)
        return loss + 0.125 * ((at - start) ** 2).sum(), gradient + 0.25 * (at - start)

    weights = start
    for _ in range(2):
        hopes_of = weights
        for _ in range(4):
            now, gradient = objective(weights)
            after, _ = objective(weights - length * gradient)
            if after < now - 1e-9:
                weights = weights - length * gradient
                steps += 1
            elif after > now + 1e-9 or after == now:
                length /= 2
            else:
                return  # What rounding decides is not compared.
    tuned = optimise(Rampion(options, BLEU), [pool(shard) for shard in shards], by_ids(start).tolist())
    assert tuned.steps == steps
    assert tuned.weights == pytest.approx(by_ids(weights))
    assert tuned.objective == pytest.approx(objective(weights)[0])


def loss_at(pools: Sequence[NBestPool], weights: np.ndarray, options: RampionOptions) -> float:
    asked = np.stack([weights, weights])
    return sum(float(part_of(Rampion(options, BLEU), each).evaluate(asked)[0][0]) for each in pools)


@pytest.mark.parametrize("loss", [1, 2, 3])
@pytest.mark.parametrize("step", [0.002, 0.02])
def test_the_loss_goes_down_and_planted_weights_are_found(loss: int, step: float) -> None:
    options = replace(FAST, loss=loss, passes=20, step=step, c=0.0)
    pools = [ranking(seed, PLANTED) for seed in (1, 2)]
    start = np.array([0.1, 0.1, 0.1, 0.1])
    tuned = optimise(Rampion(options, BLEU), pools, start.tolist())
    assert loss_at(pools, tuned.weights, options) <= tuned.objective < 0.8 * loss_at(pools, start, options)
    cosine = tuned.weights @ PLANTED / np.linalg.norm(tuned.weights) / np.linalg.norm(PLANTED)
    assert cosine > 0.97


@pytest.mark.parametrize(
    "options",
    [{"loss": 1}, {"loss": 2}, {"cost_scale": 1.0}, {"rounds": 1}, {"passes": 2}, {"step": 0.001}, {"c": 10.0}],
    ids=lambda options: "-".join(map(str, *options.items())),
)
def test_every_option_makes_a_difference(options: dict[str, Any]) -> None:
    lists = ranking(1, PLANTED)
    plain, other = (optimise(Rampion(each, BLEU), [lists], [0.1] * 4) for each in (FAST, replace(FAST, **options)))
    assert plain.weights.tolist() != other.weights.tolist()


def test_weights_stay_near_those_before() -> None:
    lists, start = ranking(1, PLANTED), np.array([3.0, 3.0, 3.0, 3.0])
    free, held = (optimise(Rampion(replace(FAST, c=c), BLEU), [lists], start.tolist()) for c in (0.0, 400.0))
    assert np.linalg.norm(held.weights - start) < 0.5 * np.linalg.norm(free.weights - start)


def test_lists_without_entries_have_no_say() -> None:
    nothing = optimise(Rampion(FAST, BLEU), [empty(3)], [0.5, 0.25, 0.0, 1.0])
    assert nothing.weights.tolist() == [0.5, 0.25, 0.0, 1.0] and nothing.objective == 0.0
    lists = ranking(1, PLANTED)
    gaps = lists._replace(sentence_ptr=np.concatenate([[0], np.repeat(lists.sentence_ptr[1:], 2), [600]]))
    assert gaps.sentences > lists.sentences
    found = [optimise(Rampion(FAST, BLEU), [each], [0.1] * 4).weights.tolist() for each in (lists, gaps)]
    assert found[0] == found[1]
