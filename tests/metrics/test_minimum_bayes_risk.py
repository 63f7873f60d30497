"""Minimum Bayes risk, compared with sums over sentence scores of sacreBLEU or the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF
from support.naive import edit_distance

from mpitune.array_files.csr import row_ends
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.base import KBest
from mpitune.errors import UsageError
from mpitune.metrics.bleu import text_statistics
from mpitune.metrics.minimum_bayes_risk import ExpectedGain
from mpitune.metrics.sentence_bleu import bleu_plus_one

TEXTS = ["the house by the lake", "the house at the lake", "a house by a lake", "der see"]
SCORES = [1.0, 1.5, -0.5, 1.6]


def kbest(words: Vocabulary, scores: list[float]) -> KBest:
    texts = [words.encode(text.split()) for text in TEXTS]
    ptr = np.zeros(len(texts) + 1, dtype=np.int64)
    slot, value = np.zeros(0, dtype=np.int32), np.zeros(0)
    return KBest(row_ends([len(text) for text in texts]), np.concatenate(texts), np.array(scores), ptr, slot, value)


def bleu(words: Vocabulary, text: str, reference: str) -> float:
    word = words.encode(text.split())
    return float(bleu_plus_one(text_statistics(np.array([0, len(word)]), word, [words.encode(reference.split())]))[0])


def wer(text: str, reference: str) -> float:
    return -edit_distance(text.split(), reference.split()) / len(reference.split())


@pytest.mark.parametrize("name", ["bleu", "chrf", "wer"])
def test_expected_gains(name: str) -> None:
    words = Vocabulary()
    found = ExpectedGain(name, words.words).of(kbest(words, SCORES))
    total = sum(map(math.exp, SCORES))
    for text, gain in zip(TEXTS, found, strict=True):
        expected = 0.0
        for score, reference in zip(SCORES, TEXTS, strict=True):
            chrf = CHRF().sentence_score(text, [reference]).score / 100
            own = {"bleu": bleu(words, text, reference), "chrf": chrf, "wer": wer(text, reference)}
            expected += math.exp(score) / total * own[name]
        assert gain == pytest.approx(expected)
    # The model's best entry, which is like no other, is not chosen, but by WER, to which short references matter more.
    assert np.argmax(found) == (3 if name == "wer" else 1)


def test_a_metric_must_be_known() -> None:
    with pytest.raises(UsageError, match="--mbr: found comet, expected one of bleu, ter, chrf, cer, "):
        ExpectedGain("comet", [])


def test_entries_without_probability_do_not_count() -> None:
    words = Vocabulary()
    assert ExpectedGain("bleu", words.words).of(kbest(words, [0.0, -1e6, -1e6, -1e6]))[0] == 1.0
