"""Bottom-up language model scores against the plain left-to-right ones."""

from __future__ import annotations

import gzip
import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.lm_scorer import Scorer
from support.naive_lm import NaiveLm, random_arpa

from mpitune.decoder.embedded.lm_state import (
    LEFT_KEY,
    LEFT_LENGTH,
    RIGHT_LENGTH,
    copy,
)
from mpitune.lm.arpa import read_arpa
from mpitune.lm.ngram_table import language_model

pytestmark = pytest.mark.kernel

MODELS = list(enumerate(itertools.product(range(1, 7), (0.0, 0.5, 1.0))))


Model = tuple[Scorer, NaiveLm, list[str], random.Random]


@pytest.fixture(params=MODELS, ids=lambda model: f"order{model[1][0]}-pruned{model[1][1]}")
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Model:
    seed, (order, pruned) = request.param
    path = tmp_path / "lm.arpa"
    words = random_arpa(path, 100 + seed, order, pruned=pruned, unknown=seed % 2 == 0)
    return Scorer(*language_model(read_arpa(path))), NaiveLm(path), words[:4], random.Random(seed)


def phrase(words: Sequence[str], draw: random.Random, longest: int) -> list[str]:
    return [draw.choice([*words, *words, "unheard"]) for _ in range(draw.randint(0, longest))]


def test_any_bracketing_gives_the_sentence_its_probability(model: Model) -> None:
    scorer, naive, words, draw = model
    for _ in range(150):
        sentence = phrase(words, draw, 12)
        expected = naive.score(["<s>", *sentence, "</s>"], start=1)
        inner, gain = scorer.bracket(sentence, draw)
        _, outer = scorer.build([inner, "</s>"], begin=True)
        assert gain + outer == pytest.approx(expected, rel=1e-6, abs=1e-5)
        _, whole = scorer.bracket([*sentence, "</s>"], draw, begin=True)
        assert whole == pytest.approx(expected, rel=1e-6, abs=1e-5)


def test_state_does_not_depend_on_the_bracketing(model: Model) -> None:
    scorer, _, words, draw = model
    for _ in range(150):
        sentence, begin = phrase(words, draw, 7), draw.random() < 0.3
        plain, _ = scorer.build(sentence, begin)
        bracketed, _ = scorer.bracket(sentence, draw, begin)
        assert scorer.key(plain) == scorer.key(bracketed)
        assert scorer.rest(plain) == scorer.rest(bracketed)


def test_equal_keys_mean_equal_futures(model: Model) -> None:
    scorer, _, words, draw = model
    known: dict[tuple[int, int], int] = {}
    pairs = []
    for _ in range(300):
        i, _ = scorer.build(phrase(words, draw, 6))
        if scorer.key(i) in known:
            pairs.append((i, known[scorer.key(i)]))
        known.setdefault(scorer.key(i), i)
    assert pairs
    for i, j in pairs:
        assert scorer.rest(i) == scorer.rest(j)
        before, after, begin = phrase(words, draw, 4), phrase(words, draw, 4), draw.random() < 0.3
        inner, _ = scorer.build(phrase(words, draw, 3))
        one, gain = scorer.build([*before, i, inner, *after], begin)
        other, same = scorer.build([*before, j, inner, *after], begin)
        assert gain == same
        assert scorer.key(one) == scorer.key(other)


def test_states_are_minimal(model: Model) -> None:
    scorer, naive, words, draw = model
    ngrams = {ngram[a:b] for ngram in naive.ngrams for a in range(len(ngram)) for b in range(a + 1, len(ngram) + 1)}
    contexts = {ngram[:-1] for ngram in ngrams} | naive.with_backoff()
    suffixes = {ngram[1:] for ngram in ngrams}
    for _ in range(200):
        sentence, begin = phrase(words, draw, 6), draw.random() < 0.2
        i, _ = scorer.build(sentence, begin)
        known = tuple(naive.known(["<s>"] * begin + sentence))
        right = max((k for k in range(len(known) + 1) if known[len(known) - k :] in contexts), default=0)
        assert scorer.states.row[i, RIGHT_LENGTH] == right
        left = 0
        while not begin and left < len(known) and known[: left + 1] in suffixes:
            left += 1
            if known[:left] not in contexts:
                break
        full = begin or left < len(known) or left > 0 and known[:left] not in contexts
        assert scorer.states.row[i, LEFT_LENGTH] == left
        assert (scorer.states.row[i, LEFT_KEY] < 0) == full


def test_equal_states_have_equal_keys(model: Model) -> None:
    scorer, _, words, draw = model
    by_rest: dict[tuple[int, ...], set[tuple[int, int]]] = {}
    for _ in range(300):
        i, _ = scorer.build(phrase(words, draw, 6))
        says = (*scorer.rest(i), int(scorer.states.row[i, LEFT_KEY] < 0))
        by_rest.setdefault(says, set()).add(scorer.key(i))
    assert all(len(keys) == 1 for keys in by_rest.values())
    assert len(set().union(*by_rest.values())) == len(by_rest)


def test_a_copied_state_is_the_same_state(model: Model) -> None:
    scorer, _, words, draw = model
    for _ in range(50):
        i, _ = scorer.bracket(phrase(words, draw, 6), draw)
        j, _ = scorer.build(phrase(words, draw, 6))
        copy(scorer.states, j, scorer.states, i)
        assert scorer.key(j) == scorer.key(i)
        assert scorer.rest(j) == scorer.rest(i)


@pytest.mark.slow
@pytest.mark.large
@pytest.mark.parametrize(
    ("model_file", "golden"),
    [("data/nc/lm.3.arpa.gz", "golden/nc.kbest.gz"), ("data/multi30k/lm.4.arpa.gz", "golden/multi30k.kbest.gz")],
)
def test_reference_decoder_agrees(shared: Path, model_file: str, golden: str) -> None:
    scorer = Scorer(*language_model(read_arpa(shared / model_file)))
    draw = random.Random(1)
    with gzip.open(shared / golden, "rt", encoding="utf-8") as file:
        for line in itertools.islice(file, 500):
            _, translation, features, _ = line.split(" ||| ")
            values = dict(feature.split("=") for feature in features.split())
            words = translation.split()
            inner, gain = scorer.bracket(words, draw)
            _, outer = scorer.build([inner, "</s>"], begin=True)
            assert gain + outer == pytest.approx(float(values["LanguageModel"]), rel=6e-6)
            unknown = np.count_nonzero(scorer.vocabulary.numbers(words) == 0)
            assert unknown == float(values.get("LanguageModel_OOV", 0))
