from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from support import naive

from mpitune.learner.pair_sampling import SAMPLERS, _numbered_pairs, make_sampler, pro

pytestmark = pytest.mark.kernel


def sample(name: str, gold: list[float], model: list[float] | None = None, seed: int = 0, **options: float) -> list:
    sampler = make_sampler(name, **{"share": 0.1, "extend_ties": False, **options})
    scores = np.zeros(len(gold)) if model is None else np.array(model, dtype=np.float64)
    pairs = sampler(np.array(gold, dtype=np.float64), scores, np.random.default_rng(seed))
    assert pairs.dtype == np.int32 and pairs.shape[1:] == (2,)
    return [tuple(pair) for pair in pairs.tolist()]


def test_a_hundred_distinct_scores_give_1700_pairs() -> None:
    gold = np.random.default_rng(0).permutation(100) / 100
    pairs = sample("multipartite", gold.tolist())
    assert len(pairs) == len(set(pairs)) == 10 * 80 + 10 * 10 + 80 * 10
    assert all(gold[a] > gold[b] for a, b in pairs)


def test_all_makes_4950_pairs_of_a_hundred() -> None:
    assert len(sample("all", np.random.default_rng(0).permutation(100).tolist())) == 4950


@pytest.mark.parametrize("share", [0.1, 0.15, 0.25, 0.29, 0.5])
@pytest.mark.parametrize("extend_ties", [False, True])
def test_multipartite_is_the_definition(share: float, extend_ties: bool) -> None:
    random = np.random.default_rng(1)
    for k in list(range(35)) + [50]:
        for values in (2, 5, 1000):
            gold = (random.integers(0, values, k) / values).tolist()
            expected = naive.multipartite(gold, share, extend_ties)
            assert sample("multipartite", gold, share=share, extend_ties=extend_ties) == expected


def test_half_rounds_up_in_decimals() -> None:
    # 0.29 * 50 is 14.499999999999998 in binary; 0.1 * 25 and 0.15 * 30 are halves too.
    for share, k, size in ((0.29, 50, 15), (0.1, 25, 3), (0.15, 30, 5), (0.1, 24, 2), (0.1, 14, 1)):
        pairs = sample("multipartite", list(range(k)), share=share)
        assert len(pairs) == 2 * size * (k - 2 * size) + size * size


def test_small_lists_have_few_pairs() -> None:
    assert sample("multipartite", []) == sample("multipartite", [0.5]) == []
    assert sample("multipartite", [0.1, 0.5]) == [(1, 0)]
    for share in (0.1, 0.5):
        assert sample("multipartite", [0.1, 0.5, 0.3], share=share) == [(1, 2), (1, 0), (2, 0)]


def test_order_of_pairs_and_ties_by_rank() -> None:
    # HI: 3, 0 (the tie at 0.5 goes to rank 0, not 5); LOW: 5, 1; MID: 4, 2.
    gold = [0.5, 0.1, 0.2, 0.9, 0.3, 0.2]
    assert sample("multipartite", gold, share=0.33) == [
        *[(3, 4), (3, 2), (3, 5), (3, 1)],
        *[(0, 4), (0, 2), (0, 5), (0, 1)],
        *[(4, 5), (4, 1)],
        *[(2, 1)],  # 2 and 5 tie
    ]


def test_extended_sets_do_not_split_ties() -> None:
    gold = [0.9, 0.9, 0.9, 0.5, 0.5, 0.1, 0.1]
    assert len(sample("multipartite", gold)) == 3 + 1 + 4  # HI 1, MID 5 (two tie with HI, one with LOW), LOW 1
    assert len(sample("multipartite", gold, extend_ties=True)) == 3 * 2 + 3 * 2 + 2 * 2
    # One tie reaches from HI to LOW: HI grows first, and LOW keeps its share.
    gold = [0.9] + [0.5] * 18 + [0.1]
    assert sample("multipartite", gold, extend_ties=True) == [(0, 18), *((j, 19) for j in range(18))]


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_equal_scores_and_short_lists_make_no_pairs(name: str) -> None:
    for k in (0, 1, 2, 3, 20):
        assert sample(name, [0.25] * k, list(range(k))) == []
    assert sample(name, [0.5], [1.0]) == []


def test_all_is_the_definition() -> None:
    random = np.random.default_rng(4)
    for k in range(15):
        gold = (random.integers(0, 6, k) / 6).tolist()
        assert sample("all", gold) == naive.everything(gold)


def test_pro_keeps_the_largest_differences() -> None:
    random = np.random.default_rng(6)
    gold = random.random(40)
    pairs = sample("pro", gold.tolist(), seed=3)
    assert len(pairs) == 50
    kept = [gold[a] - gold[b] for a, b in pairs]
    assert kept == sorted(kept, reverse=True) and kept[-1] >= 0.05
    # Of 780 pairs none is left out: what is kept is the very top, whatever the seed.
    differences = sorted((abs(a - b) for i, a in enumerate(gold) for b in gold[:i]), reverse=True)
    assert kept == differences[:50]
    assert pairs == sample("pro", gold.tolist(), seed=3) == sample("pro", gold.tolist(), seed=4)
    many = random.random(400).tolist()
    assert sample("pro", many, seed=3) == sample("pro", many, seed=3) != sample("pro", many, seed=4)


@pytest.mark.parametrize("k", [2, 3, 4, 10, 50, 100])
def test_pro_takes_all_pairs_where_there_are_few(k: int) -> None:
    gold = np.random.default_rng(k).integers(0, 20, k) / 20
    expected = {(a, b) for a, b in naive.everything(gold.tolist()) if gold[a] - gold[b] >= 0.05}
    for count in (k * (k - 1) // 2, 5000):
        pairs = pro(gold, np.random.default_rng(1), candidates=count, kept=5000).tolist()
        assert len(pairs) == len(expected) and {tuple(pair) for pair in pairs} == expected


def test_the_learner_gets_pairs_from_every_list_that_has_some() -> None:
    """From lists of bad translations, which differ little, it learned nothing for the rest of the training."""
    random = np.random.default_rng(3)
    for k in (2, 5, 40):
        gold = random.random(k) * 0.049
        largest = gold.max() - gold.min()
        expected = {(a, b) for a, b in naive.everything(gold.tolist()) if gold[a] - gold[b] >= largest / 2}
        assert {tuple(pair) for pair in sample("pro", gold.tolist())} <= expected
        assert len(sample("pro", gold.tolist())) == min(50, len(expected)) > 0
        assert not len(pro(gold, random)), "PRO itself drops them"
    # Where one pair differs by 0.05, those that differ less are dropped.
    assert sample("pro", [0.02, 0.04, 0.08]) == [(2, 0)]
    assert sample("pro", [0.3, 0.3]) == []


def test_pro_draws_no_pair_twice() -> None:
    gold = np.random.default_rng(5).permutation(120) / 120  # 7140 pairs
    for count in (1, 10, 5000, 7139):
        pairs = pro(gold, np.random.default_rng(count), candidates=count, threshold=0.0, kept=7140)
        assert len({frozenset(pair) for pair in pairs.tolist()}) == len(pairs) == count


def test_pro_never_pairs_what_is_equal() -> None:
    gold = np.array([0.5, 0.5, 0.7, 0.7, 0.5])
    pairs = pro(gold, np.random.default_rng(0), threshold=0.0).tolist()
    assert {tuple(pair) for pair in pairs} == {(a, b) for a in (2, 3) for b in (0, 1, 4)} and len(pairs) == 6


def test_pro_resolves_ties_at_random() -> None:
    # 25 pairs are as far apart as can be, and one is kept: each of them at times.
    gold = np.array([0.0, 1.0] * 5)
    found = {tuple(pro(gold, np.random.default_rng(seed), kept=1)[0].tolist()) for seed in range(200)}
    assert len(found) == 25


@pytest.mark.parametrize("k", [50_000, 1_000_000])
def test_pro_of_long_lists_makes_only_what_it_draws(k: int) -> None:
    gold = np.random.default_rng(0).random(k)
    tracemalloc.start()
    pairs = pro(gold, np.random.default_rng(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len({tuple(pair) for pair in pairs.tolist()}) == 50 and peak < 2e6


def test_numbers_of_pairs_are_exact() -> None:
    first, second = _numbered_pairs(np.arange(4950))
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == [(i, j) for j in range(100) for i in range(j)]
    # At both ends of the row of each j, up to those of lists of 33 million.
    j = np.unique(np.geomspace(1, 2**25 - 1, 100_000).astype(np.int64))
    for i in (0 * j, j - 1):
        first, second = _numbered_pairs(j * (j - 1) // 2 + i)
        assert (first == i).all() and (second == j).all()


def test_pro_draws_all_pairs_alike() -> None:
    # One entry of a thousand stands out: 2 pairs in a thousand have it, whichever entry it is, so 10 of 5000 draws.
    for place in (0, 500, 999):
        gold = np.eye(1000)[place].tolist()
        assert 150 < sum(len(sample("pro", gold, seed=seed)) for seed in range(20)) < 250


def test_pro_drops_small_differences() -> None:
    # Two of the three pairs are 0.04 apart: only (2, 0), 0.08 apart, can come out.
    assert sample("pro", [0.0, 0.04, 0.08]) == [(2, 0)]
    first = np.random.default_rng(0)
    make_sampler("pro", 0.1, False)(np.zeros(20), np.zeros(20), first)
    assert first.random() != np.random.default_rng(0).random()  # it draws from the generator that it is given


def test_hope_fear_is_the_definition() -> None:
    random = np.random.default_rng(7)
    found = 0
    for k in range(12):
        for _ in range(10):
            gold, model = (random.integers(0, 8, k) / 8).tolist(), (random.integers(0, 8, k) / 8).tolist()
            pairs = sample("hope-fear", gold, model)
            assert pairs == naive.hope_fear(gold, model)
            found += len(pairs)
    assert found > 50
    # hope: 1 (0.5 + 1 - 1); fear: 2 (0.75 + 1 - 0.25), before 3, which ties with it.
    assert sample("hope-fear", [0.25, 1.0, 0.25, 0.25], [0.0, 0.5, 0.75, 0.75]) == [(1, 2)]
