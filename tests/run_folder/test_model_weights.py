"""Models of runs: where their bins are found; the nearest rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpitune.grammar.score_transforms import Scoring
from mpitune.run_folder.model_weights import by_template, difference, nearest, read_scoring


def test_gaps_are_no_words_but_words_like_them_are() -> None:
    weights = {"R:X:die_NATO:NATO": 1.0, "R:X:NX_tritt:N1_joins": 0.5}
    assert nearest(weights, "NATO", 5) == [("R:X:die_NATO:NATO", 1.0)]
    assert nearest(weights, "R:X:NX_tritt:N1_joins", 5) == [("R:X:NX_tritt:N1_joins", 0.5)]
    assert nearest(weights, "R:X:NX_geht:N1_goes", 5) == []


@pytest.mark.parametrize("name", ["run", "weights"])
def test_bins_are_found_beside_all_weights_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whatever its folder is called: that of a job weights.toml is runs/weights."""
    run = tmp_path / name
    (run / "weights").mkdir(parents=True)
    (run / "config.toml").touch()
    scoring = Scoring({"Cost": "exp(-v)"})
    (run / "scoring.json").write_text(json.dumps(scoring.as_json()))
    monkeypatch.chdir(run / "weights")
    for path in (Path("epoch-0001.txt.gz"), run, run / "weights.txt.gz", run / "weights" / "epoch-0001.txt.gz"):
        found = read_scoring(path)
        assert found is not None and found.digest == scoring.digest


def test_differences_are_of_all_names_but_equal_weights() -> None:
    assert difference({"a": 1.0, "b": 2.0, "c": 0.5}, {"a": 1.0, "c": 0.25, "d": 4.0}) == {
        "b": 2.0,
        "c": 0.25,
        "d": -4.0,
    }


def test_weights_by_template() -> None:
    parts = by_template({"R:X:a:b": 1.0, "WordPenalty": 2.0, "WP:a:b": 3.0, "RBS:a:b": 4.0, "Glue": 5.0})
    assert next(iter(parts)) == "dense"
    assert {template: part for template, part in parts.items() if part} == {
        "dense": {"WordPenalty": 2.0, "Glue": 5.0},
        "id": {"R:X:a:b": 1.0},
        "source-bigram": {"RBS:a:b": 4.0},
        "word-pair": {"WP:a:b": 3.0},
    }
