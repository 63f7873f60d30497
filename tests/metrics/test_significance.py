"""The sacreBLEU door: counts checked, signatures shown, tests repeatable."""

from __future__ import annotations

import gzip
import json
import math
import os
from pathlib import Path
from typing import Any, get_args

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from mpitune.errors import DataError, UsageError
from mpitune.metrics.choices import SignificanceTest, Tokenizer
from mpitune.metrics.sacrebleu import corpus_bleu
from mpitune.metrics.significance import evaluate

REFERENCE = [f"the cat number {i} sat on the big red mat near the door ." for i in range(30)]
GOOD = [line.replace("near", "by") if i % 3 else line for i, line in enumerate(REFERENCE)]
BAD = [line.replace("sat on", "lay under").replace("red", "blue") for line in REFERENCE]


def texts(**named: list[str]) -> list[tuple[str, list[str]]]:
    return list(named.items())


def test_bleu_by_hand() -> None:
    """One sentence of 5 words, one wrong at the end: precisions 4/5, 3/4, 2/3, 1/2."""
    found = evaluate(texts(ref=["a b c d e"]), texts(hyp=["a b c d x"]))
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert found.scores[0].bleu == pytest.approx(expected, abs=1e-9)
    assert found.scores[0].precisions == pytest.approx([80, 75, 200 / 3, 50])
    assert (found.scores[0].brevity_penalty, found.scores[0].length_ratio) == (1.0, 1.0)
    short = evaluate(texts(ref=["a b c d e"]), texts(hyp=["a b c d"])).scores[0]
    assert short.bleu == pytest.approx(100 * math.exp(1 - 5 / 4))
    assert short.length_ratio == 0.8


def test_signature_says_what_was_done() -> None:
    for tokenize in get_args(Tokenizer):
        assert f"tok:{tokenize}" in evaluate(texts(r=REFERENCE), texts(h=GOOD), tokenize=tokenize).signature
    assert "case:mixed" in evaluate(texts(r=REFERENCE), texts(h=GOOD)).signature
    lowered = evaluate(texts(r=REFERENCE), texts(h=[line.upper() for line in REFERENCE]), lowercase=True)
    assert "case:lc" in lowered.signature and lowered.scores[0].bleu == pytest.approx(100)
    assert "nrefs:2" in evaluate(texts(r=REFERENCE, s=BAD), texts(h=GOOD)).signature
    assert "ar:10000|seed:12345" in evaluate(texts(r=REFERENCE), texts(g=GOOD, b=BAD), test="ar").signature
    assert "bs:1000|seed:12345" in evaluate(texts(r=REFERENCE), texts(g=GOOD, b=BAD), test="bootstrap").signature


def test_13a_tokenises_and_none_does_not() -> None:
    reference, hypothesis = ["The cat, it sat."], ["The cat , it sat ."]
    assert evaluate(texts(r=reference), texts(h=hypothesis), tokenize="13a").scores[0].bleu == pytest.approx(100)
    assert evaluate(texts(r=reference), texts(h=hypothesis), tokenize="none").scores[0].bleu < 50


def test_several_references_count_together() -> None:
    one = evaluate(texts(r=["a b c d e"]), texts(h=["a b c d x"])).scores[0].bleu
    two = evaluate(texts(r=["a b c d e"], s=["c d x y z"]), texts(h=["a b c d x"])).scores[0].bleu
    assert two > one
    assert corpus_bleu(["a b c d x"], [["a b c d e", "c d x y z"]]) == two


@pytest.mark.parametrize("test", get_args(SignificanceTest))
def test_p_values_can_be_repeated_and_tell_bad_from_equal(test: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "none")
    systems = texts(first=GOOD, copy=list(GOOD), bad=BAD)
    found = evaluate(texts(r=REFERENCE), systems, test=test)
    assert found == evaluate(texts(r=REFERENCE), systems, test=test)
    first, copy, bad = found.scores
    assert first.p_value is None
    assert copy.p_value == 1.0
    assert bad.p_value is not None and bad.p_value < 0.05
    assert [score.bleu for score in found.scores] == [
        evaluate(texts(r=REFERENCE), [system]).scores[0].bleu for system in systems
    ]
    assert (bad.mean is None) == (bad.interval is None) == (test == "ar")


@pytest.mark.parametrize(("differing", "exact"), [(1, 1.0), (3, 0.25), (4, 0.125)])
def test_few_sentences_cannot_be_significant(differing: int, exact: float) -> None:
    """n sentences, all for the worse: of the 2^n ways to swap them, 2 give as large a difference."""
    other = [line.replace("big", "huge") if i < differing else line for i, line in enumerate(GOOD)]
    assert evaluate(texts(r=REFERENCE), texts(g=GOOD, o=other), test="ar").scores[1].p_value == exact


def test_p_values_are_sacrebleus_where_enough_sentences_differ() -> None:
    for test, theirs in (("ar", "ar"), ("bootstrap", "bs")):
        worse = [line.replace("big", "large") if i % 2 else line for i, line in enumerate(REFERENCE)]
        systems = texts(good=GOOD, worse=worse)
        _, found = PairedTest(list[Any](systems), {"BLEU": BLEU(tokenize="none")}, [REFERENCE], test_type=theirs)()
        result: Any = found["BLEU"][1]
        assert evaluate(texts(r=REFERENCE), systems, test=test).scores[1].p_value == result.p_value
        assert 0.001 < result.p_value < 1


def test_the_seed_of_the_environment_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "77")
    evaluate(texts(r=REFERENCE), texts(g=GOOD, b=BAD), test="bootstrap")
    assert os.environ["SACREBLEU_SEED"] == "77"
    monkeypatch.delenv("SACREBLEU_SEED")
    evaluate(texts(r=REFERENCE), texts(g=GOOD, b=BAD), test="bootstrap")
    assert "SACREBLEU_SEED" not in os.environ


def test_counts_must_agree() -> None:
    with pytest.raises(DataError, match="^hyp: found 29 lines, expected 30, as in ref$"):
        evaluate(texts(ref=REFERENCE), texts(hyp=GOOD[1:]))
    with pytest.raises(DataError, match="^ref2: found 31 lines, expected 30, as in ref$"):
        evaluate(texts(ref=REFERENCE, ref2=[*BAD, "x"]), texts(hyp=GOOD))
    with pytest.raises(DataError, match="^ref: found no lines"):
        evaluate(texts(ref=[]), texts(hyp=[]))
    with pytest.raises(DataError, match="the translations: found 2 lines, expected 1, as in the references"):
        corpus_bleu(["a", "b"], [["a"]])


def test_a_test_needs_two_systems() -> None:
    with pytest.raises(UsageError, match="at least two"):
        evaluate(texts(r=REFERENCE), texts(g=GOOD), test="ar")


def test_the_table_and_json_say_the_same() -> None:
    found = evaluate(texts(r=REFERENCE), texts(good=GOOD, bad=BAD), test="bootstrap")
    lines = found.as_text().splitlines()
    assert lines[0] == found.signature
    assert lines[1].split("  ")[0] == "system" and len(lines) == 4
    assert lines[2].startswith("good  ") and f"{found.scores[0].bleu:.2f}" in lines[2]
    assert lines[3].startswith("bad   ") and lines[3].endswith("*")
    loaded = json.loads(json.dumps(found.as_json()))
    assert loaded["signature"] == found.signature
    assert loaded["scores"][1]["p_value"] == found.scores[1].p_value
    plain = evaluate(texts(r=REFERENCE), texts(good=GOOD)).as_text()
    assert "p" not in plain.splitlines()[1].split() and plain.count("\n") == 2


def test_corpus_bleu_is_silent_on_tokenised_text_and_takes_uneven_references(caplog: pytest.LogCaptureFixture) -> None:
    hypotheses = ["a b c d ."] * 150
    references = [["a b c d .", "x y z"] if i % 2 else ["a b c d ."] for i in range(150)]
    assert corpus_bleu(hypotheses, references) == pytest.approx(100)
    assert caplog.text == ""


def test_nothing_translated_scores_0() -> None:
    assert corpus_bleu(["", ""], [["a b"], ["c"]]) == 0.0


def test_golden_kbest_scores_as_sacrebleu_says(shared: Path) -> None:
    """The reference decoder's 1-best of real sentences against their references."""
    with gzip.open(shared / "golden" / "nc.kbest.gz", "rt", encoding="utf-8") as file:
        best: dict[int, str] = {}
        for line in file:
            fields = line.rstrip("\n").split(" ||| ")
            best.setdefault(int(fields[0]), fields[1])
    with gzip.open(shared / "data" / "nc" / "nc.en.gz", "rt", encoding="utf-8") as file:
        references = [line.rstrip("\n") for line, _ in zip(file, best, strict=False)]
    hypotheses = [best[i] for i in range(len(best))]
    value = corpus_bleu(hypotheses, [[line] for line in references])
    assert value == evaluate(texts(r=references), texts(h=hypotheses)).scores[0].bleu
    assert 5 < value < 60
