"""N-best lists from Python: tuned as the command tunes them, with features and metrics of one's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from support.commands import Cli

import mpitune
from mpitune import Hypothesis, NBest

REFERENCES = ["the house is big", "a small book", "the ball"]


@pytest.fixture
def lists() -> NBest:
    texts = [
        ["the house is large", "the house is big", "house big"],
        ["a small book", "one little book", "a book small"],
        ["the ball", "ball the the"],
    ]
    return NBest(
        (number, [Hypothesis(text, -0.25 * n, {"lm": -0.5 * n, "rank": float(n)}) for n, text in enumerate(of_list)])
        for number, of_list in enumerate(texts)
    )


def test_columns(lists: NBest) -> None:
    lists.add_feature("words", lambda number, hypothesis: len(hypothesis.text.split()))
    lists.add_feature("place", range(8))
    lists.add_metric("quality", [0.5] * 8)
    assert [(each.features["words"], each.features["place"]) for each in lists[2]] == [(2.0, 6.0), (3.0, 7.0)]
    assert lists[0][0].metrics == {"quality": 0.5}
    with pytest.raises(mpitune.UsageError, match="words: found 1 values, expected 8, one for each hypothesis"):
        lists.add_feature("words", [1.0])


def test_files(lists: NBest, tmp_path: Path) -> None:
    lists.add_metric("quality", range(8))
    for name in ("lists.gz", "lists.jsonl"):
        lists.write(tmp_path / name)
        read = NBest.read(tmp_path / name)
        assert [(n, [(each.text, each.score, each.features) for each in of_list]) for n, of_list in read] == [
            (n, [(each.text, each.score, each.features) for each in of_list]) for n, of_list in lists
        ]
    assert [each.metrics for each in read.hypotheses] == [{"quality": float(n)} for n in range(8)]
    assert len(read) == 3 and "3 lists, 8 hypotheses" in repr(read)
    (tmp_path / "plain").write_text("the hou@@ se\na house\n\nanother\n")
    plain = NBest.read(tmp_path / "plain", format="plain", join="bpe")
    assert [[each.text for each in of_list] for _, of_list in plain] == [["the house", "a house"], ["another"]]
    with pytest.raises(mpitune.UsageError, match="format: found 'x', expected one of auto, fairseq"):
        NBest.read(tmp_path / "plain", format="x")
    with pytest.raises(mpitune.UsageError, match="list 3: found 'a', expected objects of mpitune.Hypothesis"):
        NBest([(3, ["a"])])  # type: ignore[list-item]
    with pytest.raises(mpitune.UsageError, match="list 0: found a line end or"):
        NBest([(0, [Hypothesis("a ||| b")])]).write(tmp_path / "x")


def test_weights_are_those_of_the_command(lists: NBest, cli: Cli, tmp_path: Path) -> None:
    lists.add_metric("unused", [9.0] * 8)
    weights = lists.tune(REFERENCES, method="mira", learner={"epochs": 3}, folder=tmp_path / "run")
    assert "unused" not in weights and mpitune.Run(tmp_path / "run").weights == weights
    lists.write(tmp_path / "lists")
    (tmp_path / "refs").write_text("".join(f"{line}\n" for line in REFERENCES))
    (tmp_path / "job.toml").write_text(
        '[data]\nlists = ["lists"]\nreferences = ["refs"]\n[decoder]\nbackend = "lists"\n'
        '[learner]\nmethod = "mira"\nepochs = 3\n'
    )
    assert cli("train", tmp_path / "job.toml", "--quiet").code == 0
    assert mpitune.Weights.read(tmp_path / "runs" / "job") == weights
    done = cli("rerank", tmp_path / "job.toml", "--input", tmp_path / "lists")
    assert done.output.splitlines() == lists.rerank(weights)


def test_tuned_in_one_process(lists: NBest) -> None:
    """Other ranks of a script need not call it."""
    with patch("mpitune.api.call.connect", side_effect=AssertionError):
        assert lists.tune(REFERENCES)


def test_batch_methods_have_one_epoch(lists: NBest, tmp_path: Path) -> None:
    """More would search the same lists again."""
    for method, given, epochs in (("minrisk", {}, 1), ("minrisk", {"learner": {"epochs": 2}}, 2), ("mira", {}, 20)):
        folder = tmp_path / f"{method}{epochs}"
        lists.tune(REFERENCES, method=method, folder=folder, **given)
        assert len(mpitune.Run(folder).metrics) == epochs


def test_a_metric_of_ones_own(lists: NBest) -> None:
    """No references: the metric comes with the hypotheses, or from a function."""
    lists.add_metric("short", lambda number, hypothesis: -len(hypothesis.text.split()))
    lists.add_feature("words", lambda number, hypothesis: len(hypothesis.text.split()))
    weights = lists.tune(metric="short", devtest=(lists, ()))
    assert weights["words"] < 0 and lists.rerank(weights)[0] == "house big"


def test_the_best_by_risk_and_by_references(lists: NBest) -> None:
    assert lists.oracle(REFERENCES) == REFERENCES
    assert lists.oracle([REFERENCES, ["house big", "one little book", "x"]])[1:] == REFERENCES[1:]
    same = NBest([(1, [Hypothesis("a b c d", 0.0), Hypothesis("x", 0.1), Hypothesis("a b c e", 0.0)])])
    assert same.mbr() == ["", "a b c d"]
    assert same.mbr(weights={}) == ["", "a b c d"]


def test_lists_of_other_types_of_numbers(tmp_path: Path) -> None:
    import numpy as np

    lists = NBest([(np.int64(0), [Hypothesis("a", features={"x": np.float32(0.5)})])])
    lists.add_feature("y", np.array([0.25], dtype=np.float32))
    lists.write(tmp_path / "l.jsonl")
    assert json.loads((tmp_path / "l.jsonl").read_text())["features"] == {"x": 0.5, "y": 0.25}


@pytest.mark.parametrize(
    ("line", "score"),
    [
        ("0 ||| a ||| x= 1 ||| -1.5", -1.5),
        ("0 ||| a ||| x= 1 ||| -1.5 ||| 0-0", -1.5),
        ("0 ||| a ||| x=1 ||| 2e1\r", 20.0),
        ("0 ||| a ||| x=1 ||| 0-0", 0.0),
        ("0 ||| a ||| x=1", 0.0),
        ('{"id": 0, "text": "a", "features": {"x": 1}, "score": -2}', -2.0),
        ('{"id": 0, "text": "a", "features": {"x": 1}, "score": null}', 0.0),
        ('{"id": 0, "text": "a", "features": {"score": 1}}', 1.0),
    ],
)
def test_scores_of_lists(tmp_path: Path, line: str, score: float) -> None:
    (tmp_path / "lists").write_text(f"{line}\n")
    assert NBest.read(tmp_path / "lists")[0][0].score == score


def test_an_empty_list_has_no_oracle() -> None:
    """The lists after it keep their references."""
    lists = NBest([(0, []), (1, [Hypothesis("a b"), Hypothesis("c d")]), (2, [Hypothesis("a b"), Hypothesis("c d")])])
    assert lists.oracle(["x", "c d", "a b"]) == ["", "c d", "a b"]


def test_the_oracle_by_a_metric_of_ones_own(lists: NBest) -> None:
    lists.add_metric("quality", range(8))
    assert lists.oracle(metric="quality") == ["house big", "a book small", "ball the the"]


def test_sentences_with_their_line_ends(lists: NBest) -> None:
    """As ``list(open(...))`` has them; they are not two lines each."""
    lines = [f"{line}\n" for line in REFERENCES]
    assert lists.tune(lines) == lists.tune(REFERENCES)
    assert lists.oracle(lines) == REFERENCES


NAN = float("nan")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda lists: lists.tune(REFERENCES[:2]), "references 1: found 2 sentences, expected 3 or more"),
        (lambda lists: lists.oracle([REFERENCES, ["a"]]), "references 2: found 1 sentences, expected 3 or more"),
        (lambda lists: lists.tune(["a", "b\nc", "d"]), "references 1:2: found a line end in it, expected one sentence"),
        (lambda lists: lists.tune(["a", "b\rc", "d"]), "references 1:2: found a carriage return"),
        (lambda lists: lists.oracle(), "found no references"),
        (
            lambda lists: lists.oracle(REFERENCES, "blue"),
            "list 0: found metric 'blue', expected one of bleu, ter, chrf",
        ),
        (lambda lists: lists.mbr("blue"), "metric: found blue, expected one of bleu, ter, chrf"),
        (
            lambda lists: (lists.add_feature("x", [0] * 4 + [NAN] * 4), lists.tune(REFERENCES)),
            "list 1, hypothesis 1: f",
        ),
        (
            lambda lists: lists.tune(REFERENCES, devtest=(NBest([(0, [Hypothesis("a", features={"x": NAN})])]), ["a"])),
            "devtest, list 0, hypothesis 0: found value nan of x",
        ),
        (lambda lists: NBest([(0, []), (0, [])]), "found a second list 0, expected numbers from 0, each once"),
        (lambda lists: NBest([(-1, [])]), "found list -1, expected numbers from 0, each once"),
    ],
)
def test_what_does_not_fit(lists: NBest, wrong: Callable[[NBest], object], message: str) -> None:
    """The place is that of the lists and references: files of the call are gone when its error is read."""
    with pytest.raises(mpitune.MpituneError, match=f"^{message}"):
        wrong(lists)
