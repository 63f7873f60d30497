"""Lists evaluated: first entries, best ones and a random choice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from mpitune.errors import DataError, UsageError
from mpitune.metrics.list_evaluation import as_table, evaluate_lists

REFERENCES = ["the house is very old", "it is a small world today", "no", "nothing at all here"]
LISTS = {
    0: [("the house is old", 0.5), ("the house is very old", 0.25), ("house", 1.0)],
    1: [("it is a world", 0.75), ("it is a small world", 0.25)],
    3: [("nothing at all here", 0.0)],
}


def write(path: Path, *, metrics: bool = True) -> Path:
    entries = [
        {"id": number, "text": text, **({"metrics": {"comet": comet}} if metrics else {})}
        for number, entries in LISTS.items()
        for text, comet in entries
    ]
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return path


def test_columns_need_no_references(tmp_path: Path) -> None:
    found = evaluate_lists(write(tmp_path / "lists"), [], print)
    assert found.keys() == {"comet"}
    means = [(0.5 + 0.25 + 1.0) / 3, 0.5, 0.0]
    assert found["comet"] == pytest.approx([(0.5 + 0.75) / 3, (1.0 + 0.75) / 3, sum(means) / 3])


def test_first_and_best_entries_have_the_scores_of_sacrebleu(tmp_path: Path) -> None:
    found = evaluate_lists(write(tmp_path / "lists"), [REFERENCES], print)
    first = [LISTS[0][0][0], LISTS[1][0][0], "", LISTS[3][0][0]]
    oracle = [LISTS[0][1][0], LISTS[1][1][0], "", LISTS[3][0][0]]
    metrics = {"bleu": BLEU(tokenize="none", smooth_method="none"), "ter": TER(), "chrf": CHRF()}
    for name, metric in metrics.items():
        expected = [metric.corpus_score(texts, [REFERENCES]).score for texts in (first, oracle)]
        assert found[name][:2] == pytest.approx(expected)
    # The random choice is worse than the oracle, where less TER is better.
    assert found["bleu"][2] < found["bleu"][1] and found["ter"][2] > found["ter"][1]
    bare = evaluate_lists(write(tmp_path / "b", metrics=False), [REFERENCES], print)
    table = as_table({"a": found, "b": bare}).split("\n")
    assert table[0].split() == ["lists", "choice", "bleu", "ter", "chrf", "comet"]
    assert [len(line.split()) for line in table[1:]] == [6] * 3 + [5] * 3


def test_any_metrics_and_tokens(tmp_path: Path) -> None:
    """Tokens are for BLEU alone; WER is an error rate, less is better."""
    lines = [("The house, old.", "It is old!"), ("The house , old .", "It was old!")]
    (tmp_path / "lists").write_text("".join(f"0 ||| {text} ||| lm=1\n" for text in lines[1]))
    found = evaluate_lists(tmp_path / "lists", [[lines[0][0]]], print, ["wer", "bleu"], "13a")
    assert {*found} == {"wer", "bleu"}
    assert found["bleu"][:2] == pytest.approx([100, 100])
    # Five words for three: two substitutions and two insertions; and all three words.
    assert found["wer"][:2] == pytest.approx([400 / 3, 100])
    with pytest.raises(UsageError, match="--metrics: found woe, expected one of bleu, ter, chrf, cer"):
        evaluate_lists(tmp_path / "lists", [[lines[0][0]]], print, ["woe"])


def test_a_reference_may_be_missing(tmp_path: Path) -> None:
    """Scores are those of sacreBLEU, which is told of it by None."""
    second = [None, "it is a world", None, "nothing here"]
    first = [LISTS[0][0][0], LISTS[1][0][0], "", LISTS[3][0][0]]
    found = evaluate_lists(write(tmp_path / "lists"), [second, REFERENCES], print)
    metrics = {"bleu": BLEU(tokenize="none", smooth_method="none"), "ter": TER(), "chrf": CHRF()}
    for name, metric in metrics.items():
        assert found[name][0] == pytest.approx(metric.corpus_score(first, [second, REFERENCES]).score)


def test_words_are_split_as_by_sacrebleu(tmp_path: Path) -> None:
    text = "a\u00a0b c d e"
    (tmp_path / "lists").write_text(json.dumps({"id": 0, "text": text}) + "\n")
    found = evaluate_lists(tmp_path / "lists", [[text]], print)
    assert [found[name][0] for name in ("bleu", "ter", "chrf")] == [100, 0, 100]
    found = evaluate_lists(tmp_path / "lists", [["a b c d f"]], print)
    expected = BLEU(tokenize="none", smooth_method="none").corpus_score([text], [["a b c d f"]]).score
    assert found["bleu"][0] == pytest.approx(expected) and expected > 50


def test_sentences_without_lists_count_wherever_they_are(tmp_path: Path) -> None:
    first, last = ({"id": n, "text": REFERENCES[n]} for n in (0, 3))
    scores, warnings = [], list[str]()
    for name, entry in (("first", first), ("last", last)):
        (tmp_path / name).write_text(json.dumps(entry) + "\n")
        scores.append(evaluate_lists(tmp_path / name, [REFERENCES], warnings.append))
        texts = [REFERENCES[n] if n == entry["id"] else "" for n in range(4)]
        expected = BLEU(tokenize="none", smooth_method="none").corpus_score(texts, [REFERENCES]).score
        assert scores[-1]["bleu"][0] == pytest.approx(expected) and expected < 50
    missing = "3 of 4 sentences have no list, such as number {}: they count as translated to nothing"
    assert warnings == [f"warning: {tmp_path}/{name}: {missing.format(n)}" for name, n in (("first", 1), ("last", 0))]


def test_bad_input(tmp_path: Path) -> None:
    path = write(tmp_path / "lists")
    with pytest.raises(DataError, match="lists:6: found number 3, expected at most 2, as there are 3 sentences"):
        evaluate_lists(path, [REFERENCES[:3]], print)
    path.write_text(path.read_text() + '{"id": 3, "text": "x", "metrics": {"other": 1}}\n')
    with pytest.raises(DataError, match="lists:7: found no comet among the metrics"):
        evaluate_lists(path, [], print)
    path.write_text('{"id": 0, "text": "x", "metrics": {"comet": 1e5}}\n')
    with pytest.raises(
        DataError, match="lists:1: found value 100000.0 of comet, expected a metric from -10000 to 10000"
    ):
        evaluate_lists(path, [], print)
    with pytest.raises(UsageError, match="bare: found no metrics in the lists, and no references"):
        evaluate_lists(write(tmp_path / "bare", metrics=False), [], print)
    for name in ("bleu", "wer"):
        path.write_text(json.dumps({"id": 0, "text": "x", "metrics": {"comet": 1, name: 0.5}}) + "\n")
        for references in ([], [REFERENCES]):
            with pytest.raises(
                DataError, match=f"lists:1: found a metric called {name}, expected another name: bleu, ter"
            ):
                evaluate_lists(path, references, print)
    path.write_text("")
    with pytest.raises(DataError, match="lists: found no entries, expected n-best lists"):
        evaluate_lists(path, [REFERENCES], print)
