"""The line search over forests: against a listing of all derivations, on random hypergraphs and by the decoder."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import naive
from support.decoder_case import EVERYTHING, Case, by_slot
from support.learner_options import BLEU, mert_options
from support.uncompiled import seeds

from mpitune.array_files.csr import row_ends
from mpitune.decoder.base import PackedForest
from mpitune.learner.batch import envelope as semiring
from mpitune.learner.batch.envelope import goal_lines
from mpitune.learner.batch.hypergraph import HypergraphMert, HypergraphObjective
from mpitune.learner.batch.mert import Envelope, MertObjective
from mpitune.learner.forests import Forests, forests_of
from mpitune.learner.pool import NBestPool, empty, pool_of
from mpitune.metrics.bleu import statistics

pytestmark = pytest.mark.kernel

FEATURES = 4
"""Those of random hypergraphs; the last is a language model."""
IDS = np.arange(10, 10 + FEATURES, dtype=np.uint64)
REFERENCES = [np.array([1, 2, 3, 1, 2], dtype=np.int32), np.array([3, 2, 1], dtype=np.int32)]


class Edge(NamedTuple):
    tails: list[int]
    target: list[int]
    features: list[float]
    """The LM's last."""


Graph = list[list[Edge]]
"""The edges of each node, the goal last."""


@st.composite
def edges(draw: Any, node: int, numbers: Any) -> Edge:
    tails = draw(st.lists(st.integers(0, node - 1), max_size=2)) if node else []
    words = draw(st.lists(st.integers(1, 4), max_size=2))
    target = draw(st.permutations([*words, *(-1 - gap for gap in range(len(tails)))]))
    return Edge(tails, list(target), draw(st.lists(numbers, min_size=FEATURES, max_size=FEATURES)))


def graphs(numbers: Any) -> Any:
    """Hypergraphs of at most some hundred derivations."""
    nodes = [st.lists(edges(node, numbers), min_size=1, max_size=3) for node in range(4)]
    return st.one_of([st.tuples(*nodes[:n]).map(list) for n in (1, 2, 3, 4)]).filter(lambda graph: count(graph) < 400)


def count(graph: Graph) -> int:
    """How many derivations the goal has."""
    counts: list[int] = []
    for node in graph:
        counts.append(sum(int(np.prod([counts[tail] for tail in edge.tails])) for edge in node))
    return counts[-1]


Derivation = tuple[list[float], list[int]]
"""Features and words."""


def derivations(graph: Graph) -> list[Derivation]:
    """All derivations of the goal."""
    found: list[list[Derivation]] = []
    for node in graph:
        mine = []
        for edge in node:
            for parts in product(*(found[tail] for tail in edge.tails)):
                features = np.sum([edge.features, *(part[0] for part in parts)], axis=0).tolist()
                words = [w for s in edge.target for w in (parts[-1 - s][1] if s < 0 else [s])]
                mine.append((features, words))
        found.append(mine)
    return found[-1]


def packed(graph: Graph) -> PackedForest:
    every = [edge for node in graph for edge in node]
    return PackedForest(
        edge_ptr=row_ends([len(node) for node in graph]),
        edge_tail=np.array([(edge.tails + [-1, -1])[:2] for edge in every], dtype=np.int32),
        edge_rule=np.arange(len(every), dtype=np.int32),
        edge_lm=np.array([edge.features[-1:] for edge in every], dtype=np.float32),
        lm_slot=np.array([FEATURES - 1], dtype=np.int32),
        target_ptr=row_ends([len(edge.target) for edge in every]),
        target=np.array([symbol for edge in every for symbol in edge.target], dtype=np.int32),
        feature_ptr=row_ends([FEATURES - 1] * len(every)),
        feature_index=np.tile(np.arange(FEATURES - 1, dtype=np.int32), len(every)),
        feature_value=np.array([value for edge in every for value in edge.features[:-1]]),
    )


def forests(all_of: Sequence[Graph]) -> Forests:
    return forests_of([packed(graph) for graph in all_of], [REFERENCES] * len(all_of), IDS)


def pool(lists: Sequence[Sequence[Derivation]]) -> NBestPool:
    made = []
    for entries in lists:
        kbest = naive.kbest_of([words for _, words in entries], [dict(enumerate(x)) for x, _ in entries])
        made.append((kbest, statistics(kbest, REFERENCES)))
    return pool_of(made, IDS)


def hull(lines: set[tuple[float, float]]) -> list[tuple[float, float]]:
    """The lines (slope, at) that are alone on top for some t, by the definition: ints, so nothing is rounded."""
    kept = []
    for slope, at in sorted(lines):
        # Above all others between where it rises above flatter lines and where steeper ones rise above it.
        low = max(((a - at) / (slope - s) for s, a in lines if s < slope), default=-np.inf)
        high = min(((at - a) / (s - slope) for s, a in lines if s > slope), default=np.inf)
        if low < high and not any(s == slope and a > at for s, a in lines):
            kept.append((slope, at))
    return kept


small = st.integers(-4, 4).map(float)
vectors = st.lists(small, min_size=FEATURES, max_size=FEATURES).map(np.array)


@settings(max_examples=150, deadline=None)
@given(st.lists(graphs(small), max_size=3), vectors, vectors)
def test_the_envelope_is_that_of_all_derivations(all_of: list[Graph], w: np.ndarray, d: np.ndarray) -> None:
    found = goal_lines(forests(all_of), w, d) if all_of else goal_lines(forests([]), w[:0], d[:0])
    assert len(found.sentence_ptr) == len(all_of) + 1
    for s, graph in enumerate(all_of):
        listed = {(float(d @ x), float(w @ x), tuple(words)) for x, words in derivations(graph)}
        mine = range(found.sentence_ptr[s], found.sentence_ptr[s + 1])
        lines = [(float(found.slope[j]), float(found.at[j])) for j in mine]
        assert lines == hull({line[:2] for line in listed})
        words = [tuple(found.word[found.word_ptr[j] : found.word_ptr[j + 1]].tolist()) for j in mine]
        assert {(*line, text) for line, text in zip(lines, words, strict=True)} <= listed


def check_same(found: Envelope, expected: Envelope) -> None:
    """The same statistics everywhere, but within rounding of a corner."""
    corners = np.sort(np.concatenate([found.corner, expected.corner]))
    cells = [-1e9, *corners.tolist(), 1e9]
    for low, high in zip(cells, cells[1:], strict=False):
        if high - low > 1e-6 * max(1.0, min(abs(low), abs(high))):
            t = low / 2 + high / 2
            totals = [each.first + each.change[each.corner < t].sum(axis=0) for each in (found, expected)]
            assert totals[0].tolist() == totals[1].tolist()


@settings(max_examples=100, deadline=None)
@given(st.lists(graphs(small), min_size=1, max_size=3), st.integers(0, 2**32))
def test_lists_and_forests_are_searched_as_one(all_of: list[Graph], seed: int) -> None:
    random = np.random.default_rng(seed)
    # Numbers drawn from a continuum: derivations tie nowhere but where they are of the same edges.
    all_of = [
        [
            [edge._replace(features=random.normal(size=FEATURES).astype(np.float32).tolist()) for edge in e]
            for e in graph
        ]
        for graph in all_of
    ]
    lists = [[(random.normal(size=FEATURES).tolist(), [1, 2, 3]) for _ in range(3)] for _ in all_of]
    w, d = random.normal(size=(2, FEATURES))
    place = np.arange(FEATURES)
    part = HypergraphMert(mert_options(), BLEU).forest_objective(pool(lists), place, forests(all_of), place)
    everything = pool([[*entries, *derivations(graph)] for entries, graph in zip(lists, all_of, strict=True)])
    check_same(
        Envelope(*part.evaluate(np.stack([w, d]))),
        Envelope(*MertObjective(everything, place).evaluate(np.stack([w, d]))),
    )


def test_space_runs_out_and_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    numbers = random.normal(size=(40, FEATURES)).tolist()
    leaves = [Edge([], [1, 2, 3], x) for x in numbers[:20]]
    graph = [leaves, [Edge([0, 0], [-1, 4, -2], x) for x in numbers[20:]]]
    w, d = random.normal(size=(2, FEATURES))
    roomy = goal_lines(forests([graph, graph]), w, d)
    monkeypatch.setattr(semiring, "_SPACE", 2)
    assert [a.tobytes() for a in goal_lines(forests([graph, graph]), w, d)] == [a.tobytes() for a in roomy]
    assert len(roomy.at) > 6


# The decoder's forests


@pytest.mark.parametrize("seed", seeds(12))
def test_the_forest_is_searched_as_the_list_of_all_its_derivations(tmp_path: Path, seed: int) -> None:
    case = Case(tmp_path, 300 + seed, orders=[1 + seed % 3], templates=["id"])
    texts = [case.some_words(30, 300) for _ in range(2)]
    decoder = case.decoder([10, EVERYTHING][seed % 2], unique=False)
    named = [case.weights(decoder, words) for words in texts]
    weights = by_slot(decoder, {**named[0], **named[1]})
    references = [[case.vocabulary.encode(["a", "b", "a", "c"]), case.vocabulary.encode(["d", "c"])]] * 2
    lists, graphs_ = [], []
    for words, texts_ in zip(texts, references, strict=True):
        sentence = case.sentence(words)
        kbest, graph = decoder.decode_all(sentence, weights, EVERYTHING)
        assert kbest.size < EVERYTHING, "all derivations are listed"
        same = decoder.decode(sentence, weights, EVERYTHING)
        assert [a.tobytes() for a in kbest] == [a.tobytes() for a in same]
        lists.append((kbest, statistics(kbest, texts_)))
        graphs_.append(graph)
    ids = decoder.features.ids
    listed, found = pool_of(lists, ids), forests_of(graphs_, references, ids)
    assert set(listed.feature_id.tolist()) == set(found.feature_id.tolist())
    random = np.random.default_rng(seed)
    place = np.arange(len(found.feature_id))
    none = HypergraphObjective(MertObjective(empty(2), place[:0]), found, place)
    every = MertObjective(listed, place)
    for _ in range(10):
        question = random.normal(size=(2, len(place)))
        check_same(Envelope(*none.evaluate(question)), Envelope(*every.evaluate(question)))


def test_a_sentence_of_no_words_has_one_derivation(tmp_path: Path) -> None:
    case = Case(tmp_path, 1)
    decoder = case.decoder()
    kbest, graph = decoder.decode_all(case.sentence([]), np.zeros(0), 5)
    assert kbest.size == 1 and len(kbest.word) == 0
    found = goal_lines(forests_of([graph], [[REFERENCES[0]]], decoder.features.ids), np.ones(1), np.ones(1))
    assert (found.at.tolist(), found.slope.tolist(), found.word_ptr.tolist()) == ([0.0], [0.0], [0, 0])
