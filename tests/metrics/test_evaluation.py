"""Systems evaluated: counts checked, signatures shown, runs averaged, tests repeatable."""

from __future__ import annotations

import json
import math
import re
from statistics import mean, stdev
from typing import get_args

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from mpitune.errors import DataError, UsageError
from mpitune.metrics.choices import SignificanceTest, Tokenizer
from mpitune.metrics.evaluation import SystemRuns, evaluate
from mpitune.metrics.sacrebleu import corpus_bleu

REFERENCE = [f"the cat number {i} sat on the big red mat near the door ." for i in range(30)]
GOOD = [line.replace("near", "by") if i % 3 else line for i, line in enumerate(REFERENCE)]
BAD = [line.replace("sat on", "lay under").replace("red", "blue") for line in REFERENCE]


def texts(**named: list[str]) -> list[tuple[str, list[str]]]:
    return list(named.items())


def systems(**named: list[str]) -> list[SystemRuns]:
    """Systems of one run each."""
    return [SystemRuns(name, [(name, lines)]) for name, lines in named.items()]


def test_bleu_by_hand() -> None:
    """One sentence of 5 words, one wrong at the end: precisions 4/5, 3/4, 2/3, 1/2."""
    found = evaluate(texts(ref=["a b c d e"]), systems(hyp=["a b c d x"]))
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert found.scores[0].bleu == pytest.approx(expected, abs=1e-9)
    assert found.scores[0].precisions == pytest.approx([80, 75, 200 / 3, 50])
    assert (found.scores[0].brevity_penalty, found.scores[0].values["length_ratio"]) == (1.0, 1.0)
    short = evaluate(texts(ref=["a b c d e"]), systems(hyp=["a b c d"])).scores[0]
    assert short.bleu == pytest.approx(100 * math.exp(1 - 5 / 4))
    assert short.values["length_ratio"] == 0.8


def test_signature_says_what_was_done() -> None:
    tokenizers: list[Tokenizer] = ["none", "13a", "zh"]
    for tokenize in tokenizers:
        assert f"tok:{tokenize}" in evaluate(texts(r=REFERENCE), systems(h=GOOD), tokenize=tokenize).signature
    assert "case:mixed" in evaluate(texts(r=REFERENCE), systems(h=GOOD)).signature
    lowered = evaluate(texts(r=REFERENCE), systems(h=[line.upper() for line in REFERENCE]), lowercase=True)
    assert "case:lc" in lowered.signature and lowered.scores[0].bleu == pytest.approx(100)
    assert "nrefs:2" in evaluate(texts(r=REFERENCE, s=BAD), systems(h=GOOD)).signature
    assert "ar:10000|seed:12345" in evaluate(texts(r=REFERENCE), systems(g=GOOD, b=BAD), test="ar").signature
    assert "bs:1000|seed:12345" in evaluate(texts(r=REFERENCE), systems(g=GOOD, b=BAD), test="bootstrap").signature


def test_13a_tokenises_and_none_does_not() -> None:
    reference, hypothesis = ["The cat, it sat."], ["The cat , it sat ."]
    assert evaluate(texts(r=reference), systems(h=hypothesis), tokenize="13a").scores[0].bleu == pytest.approx(100)
    assert evaluate(texts(r=reference), systems(h=hypothesis), tokenize="none").scores[0].bleu < 50


def test_several_references_count_together() -> None:
    one = evaluate(texts(r=["a b c d e"]), systems(h=["a b c d x"])).scores[0].bleu
    two = evaluate(texts(r=["a b c d e"], s=["c d x y z"]), systems(h=["a b c d x"])).scores[0].bleu
    assert two > one
    assert corpus_bleu(["a b c d x"], [["a b c d e", "c d x y z"]]) == pytest.approx(two)


def test_scores_are_sacrebleus_means_over_runs() -> None:
    runs = [[line.replace("cat", "dog") if i % n else line for i, line in enumerate(GOOD)] for n in (2, 3, 5)]
    for references in ([REFERENCE], [REFERENCE, BAD]):
        named = [(f"r{i}", lines) for i, lines in enumerate(references)]
        system = SystemRuns("three", [(f"run {i}", run) for i, run in enumerate(runs)])
        found = evaluate(named, [system, SystemRuns("one", [("run", runs[0])])])
        three, one = found.scores
        assert (three.system, three.runs, one.system, one.runs) == ("three", 3, "one", 1)
        assert one.deviations is None and three.deviations is not None
        for name, metric in (("bleu", BLEU(tokenize="none", force=True)), ("ter", TER()), ("chrf", CHRF())):
            expected = [metric.corpus_score(run, references).score for run in runs]
            assert three.values[name] == pytest.approx(mean(expected))
            assert three.deviations[name] == pytest.approx(stdev(expected))
            assert one.values[name] == pytest.approx(expected[0])
        detailed = [BLEU(tokenize="none", force=True).corpus_score(run, references) for run in runs]
        precisions = zip(*(score.precisions for score in detailed), strict=True)
        assert three.precisions == pytest.approx([mean(column) for column in precisions])
        assert three.values["length_ratio"] == pytest.approx(mean(score.ratio for score in detailed))


@pytest.mark.parametrize("test", get_args(SignificanceTest))
def test_p_values_can_be_repeated_and_tell_bad_from_equal(test: SignificanceTest) -> None:
    compared = systems(first=GOOD, copy=list(GOOD), bad=BAD)
    found = evaluate(texts(r=REFERENCE), compared, test=test)
    assert found == evaluate(texts(r=REFERENCE), compared, test=test)
    first, copy, bad = found.scores
    assert first.p_values is None and first.p_value is None
    assert copy.p_values == dict.fromkeys(["bleu", "ter", "chrf", "length_ratio"], 1.0)
    assert bad.p_value is not None and bad.p_value < 0.05
    assert bad.corrected is not None and bad.corrected["bleu"] == 2 * bad.p_value
    assert all((score.intervals is None) == (test == "ar") for score in found.scores)


def test_any_metrics() -> None:
    """Those asked for, in their order, also without BLEU; tokens are for BLEU and the length alone."""
    asked = ["exact", "wer", "length_ratio"]
    found = evaluate(texts(r=["a, b", "c d"]), systems(g=["a, b", "c x"], b=["x", "y"]), metrics=asked, tokenize="13a")
    first, other = found.scores
    assert first.values == {"exact": 50.0, "wer": 25.0, "length_ratio": 1.0}
    assert other.values == {"exact": 0.0, "wer": 100.0, "length_ratio": 0.4}
    assert (first.precisions, first.brevity_penalty) == (None, None)
    assert found.as_text().splitlines()[:2] == ["nrefs:1|case:mixed|tok:13a", "system  exact match  WER     length"]
    assert list(found.as_json()["scores"][0])[:5] == ["system", "runs", *asked]
    found = evaluate(texts(r=REFERENCE), systems(g=GOOD, b=BAD), metrics=["wer", "wer", "bleu"], test="bootstrap")
    assert list(found.scores[1].p_values or {}) == ["wer", "bleu"] == list(found.scores[0].intervals or {})
    assert found.scores[1].corrected and found.scores[1].corrected["wer"] < 0.05
    with pytest.raises(UsageError, match="^--metrics: found BLEU, expected one of bleu, ter, chrf, cer, "):
        evaluate(texts(r=REFERENCE), systems(g=GOOD), metrics=["BLEU"])


def test_runs_of_a_system_count_together() -> None:
    """Two systems whose runs vary around the same mean do not differ, although single runs do."""
    worse = [line.replace("big", "large") for line in GOOD]
    even = [line if i % 2 else worse[i] for i, line in enumerate(GOOD)]
    odd = [worse[i] if i % 2 else line for i, line in enumerate(GOOD)]
    assert (single := evaluate(texts(r=REFERENCE), systems(a=GOOD, b=worse), test="ar").scores[1].p_value) is not None
    assert single < 0.001
    spread = SystemRuns("spread", [("good", GOOD), ("worse", worse)])
    steady = SystemRuns("steady", [("even", even), ("odd", odd)])
    assert evaluate(texts(r=REFERENCE), [spread, steady], test="ar").scores[1].p_value == 1.0


def test_counts_must_agree() -> None:
    with pytest.raises(DataError, match="^hyp: found 29 lines, expected 30, as in ref$"):
        evaluate(texts(ref=REFERENCE), systems(hyp=GOOD[1:]))
    with pytest.raises(DataError, match="^ref2: found 31 lines, expected 30, as in ref$"):
        evaluate(texts(ref=REFERENCE, ref2=[*BAD, "x"]), systems(hyp=GOOD))
    with pytest.raises(DataError, match="^ref: found no lines"):
        evaluate(texts(ref=[]), systems(hyp=[]))


def test_a_test_needs_two_systems() -> None:
    with pytest.raises(UsageError, match="at least two"):
        evaluate(texts(r=REFERENCE), systems(g=GOOD), test="ar")


def test_the_tables_and_json_say_the_same() -> None:
    found = evaluate(texts(r=REFERENCE), systems(good=GOOD, bad=BAD), test="bootstrap")
    lines = found.as_text().splitlines()
    assert lines[0] == found.signature
    assert re.split(r"  +", lines[1])[:5] == ["system", "BLEU", "mean +- 95 %", "p", "1/2/3/4-grams"]
    assert len(lines) == 4
    assert lines[2].startswith("good  ") and f"{found.scores[0].bleu:.2f}" in lines[2]
    assert re.match(r"bad     [\d.]+  [\d.]+ \+- [\d.]+  0\.\d{4}\*  ", lines[3])
    loaded = json.loads(json.dumps(found.as_json()))
    assert loaded["signature"] == found.signature
    assert loaded["scores"][1]["p_values"] == found.scores[1].p_values
    plain = evaluate(texts(r=REFERENCE), systems(good=GOOD)).as_text().splitlines()
    assert plain[1].split() == ["system", "BLEU", "1/2/3/4-grams", "BP", "TER", "chrF", "length"] and len(plain) == 3


def test_a_table_of_runs_in_markdown() -> None:
    compared = [SystemRuns("a", [("1", GOOD), ("2", BAD)]), *systems(b=GOOD, c=BAD)]
    found = evaluate(texts(r=REFERENCE), compared, test="ar")
    heading, line, *rows, empty, signature = found.as_markdown().splitlines()
    cells = [[cell.strip() for cell in row[1:-1].split("|")] for row in (heading, *rows)]
    assert cells[0][:6] == ["system", "runs", "BLEU", "sd", "p (Holm)", "TER"]
    assert line.count("---") == len(cells[0]) and {len(row) for row in cells} == {len(cells[0])}
    first, second, third = found.scores
    assert first.deviations and third.corrected
    assert cells[1][:5] == ["a", "2", f"{first.bleu:.2f}", f"{first.deviations['bleu']:.2f}", ""]
    assert cells[2][:4] == ["b", "1", f"{second.bleu:.2f}", ""]
    assert cells[3][4].rstrip("*") == f"{third.corrected['bleu']:.4f}"
    assert (empty, signature) == ("", f"`{found.signature}`")
    barred = evaluate(texts(r=REFERENCE), [SystemRuns("a|b", [("1", GOOD)])]).as_markdown()
    assert "| a\\|b | " in barred
