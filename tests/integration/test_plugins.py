"""The plugins of `jobs/plugins`: learned with on any number of ranks, gone on with, shown, exported."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import Cli
from support.mpi import ROOT
from support.runs import epoch_weights, metrics
from support.tiny import DEVTEST, Tiny, start
from support.tiny_lists import TinyLists, tables_of

from mpitune.config import plugin_files
from mpitune.exchange.mixing import WeightColumns
from mpitune.exchange.selection import NORMS

pytestmark = pytest.mark.usefixtures("own_parts")

LENGTHS = re.compile(r"Len:(\d+)_(\d+)$")
EXAMPLES = sorted((ROOT / "jobs" / "plugins").glob("*.py"))
TABLES: dict[str, Any] = {
    **DEVTEST,
    "features": {"templates": ["rule-lengths", "id", "shape"]},
    "learner": {"method": "passive-aggressive", "algorithm": "itersel", "epochs": 2},
    "learner__metric": {"bleu": 0.5, "word-f1": 0.5},
    "learner__passive-aggressive": {"aggressiveness": 0.0625},
    "select": {"k": 20, "norm": "sign-agreement"},
    "plugins": {"modules": [str(path) for path in EXAMPLES]},
}


def once(tables: dict[str, Any]) -> dict[str, Any]:
    return {**tables, "learner": {**tables["learner"], "epochs": 1}}


def test_an_example_has_less_than_60_lines_and_tells_how_to_use_it() -> None:
    for path in EXAMPLES:
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") < 60 and f'modules = ["plugins/{path.name}"]\n' in text


@pytest.mark.mpi
def test_ranks_and_interruptions_change_no_bit(tiny: Tiny, tmp_path: Path, cli: Cli) -> None:
    tiny.train(tmp_path / "alone", **TABLES)
    process = start(2, ["train", tiny.job_file(tmp_path / "ranks", **once(TABLES)), "--quiet"])
    said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    tiny.train(tmp_path / "ranks", **TABLES)
    alone, ranks = (epoch_weights(tmp_path / name, 2) for name in ("alone", "ranks"))
    assert alone == ranks and {"Len:", "R:X:"} <= {name[:4] for name in alone}
    found = metrics(tmp_path / "alone")
    assert found[0]["metric_best"] < found[1]["metric_best"] < 1
    assert found[1]["selected_features"] > 0
    shown = cli("weights", tmp_path / "alone", "--template", "rule-lengths").output.splitlines()
    assert shown and all(line.startswith("Len:") for line in shown)
    told = cli.refused(2, "weights", tmp_path / "alone", "--template", "lengths")
    assert told.startswith("--template: found lengths, expected one of dense, id, ") and "rule-lengths" in told
    lists = ["--input", tiny.folder / "dev.de", "--nbest", "3", "--format", "json"]
    entries = cli("decode", tmp_path / "alone" / "config.toml", *lists).output.splitlines()
    assert len(entries) >= 8
    for entry in entries:
        check_features(json.loads(entry)["features"])


def check_features(features: dict[str, float]) -> None:
    """Each rule of a derivation has a feature of each template, with the name and the value that belong together."""
    rules, shapes = (sum(features[name] for name in features if name.startswith(prefix)) for prefix in ("R:", "Shape"))
    lengths = {(int(match[1]), int(match[2])): features[match[0]] for match in map(LENGTHS.match, features) if match}
    assert rules == shapes == sum(lengths.values()) > 0
    difference = sum(count * (target - source) for (source, target), count in lengths.items())
    assert features.get("Len:difference", 0.0) == difference


def test_a_changed_plugin_is_refused_by_name(tiny: Tiny, tmp_path: Path, cli: Cli) -> None:
    """And one that a run no longer has is told of where the run is read."""
    for path in EXAMPLES:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    tables = {**TABLES, "plugins": {"modules": [str(tmp_path / path.name) for path in EXAMPLES]}}
    tiny.train(tmp_path / "run", **once(tables))
    with (tmp_path / "rule_lengths.py").open("a") as file:
        file.write("# Nothing new.\n")
    told = cli.refused(2, "train", tiny.job_file(tmp_path / "run", **tables), "--quiet")
    assert "the job has changed since its last checkpoint: plugins.modules: the template rule-lengths (other" in told
    done = cli("report", tmp_path / "run", "--output", tmp_path / "report")
    report = next((tmp_path / "report").glob("*.html")).read_text()
    assert done.code == 0 and " to 2 words" in report
    (tmp_path / "rule_lengths.py").unlink()
    plugin_files._executed.clear()
    done = cli("weights", tmp_path / "run", "--top", "1")
    assert done.code == 0 and f"warning: {tmp_path}/rule_lengths.py: found no such file" in done.errors
    text = (tmp_path / "word_overlap.py").read_text().replace("common, len(hypothesis), length", "1 / 0")
    (tmp_path / "word_overlap.py").write_text(text)
    (tmp_path / "rule_lengths.py").write_bytes(EXAMPLES[-3].read_bytes())
    told = cli.refused(2, "train", tiny.job_file(tmp_path / "other", **tables), "--quiet")
    assert told.startswith(f"{tmp_path}/word_overlap.py:38: found ZeroDivisionError (division by zero), expected none")


def test_text_features_and_metrics_tune_lists(tiny: Tiny, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "lists").mkdir()
    lists = TinyLists(tiny, tmp_path / "lists")
    for method, metric in (("mert", "word-f1"), ("passive-aggressive", "word-overlap")):
        tables = tables_of(method, 1) | {
            "learner__metric": {"bleu": 0.5, metric: 0.5},
            "data": {"source": "train.de"},
            "data__devtest": {"source": "dev.de"},
            "features": {"templates": ["quality-words"]},
            "plugins": {"modules": [str(path) for path in EXAMPLES]},
        }
        job = lists.job_file(tmp_path / method, **tables)
        assert cli("train", job, "--quiet").code == 0
        [found] = metrics(tmp_path / method)
        assert 0 < found["metric_best"] <= found["metric_oracle"] < 1
    assert "QW:letters " in cli("weights", tmp_path / method, "--template", "quality-words").output
    rerank = ["rerank", job, "--input", tmp_path / "lists" / "dev.cdec"]
    assert cli(*rerank, "--source", tmp_path / "lists" / "dev.de").output.count("\n") == 8
    assert "quality-words" in cli.refused(2, *rerank)


def test_the_norm_of_the_example_is_that_of_its_columns(tmp_path: Path) -> None:
    plugin_files.load_plugins(EXAMPLES)
    columns = WeightColumns(np.arange(3, dtype=np.uint64), np.array([0, 2, 3, 6]), np.array([1.0, 1, -4, 1, -1, 2]))
    assert NORMS["sign-agreement"](columns, 4).tolist() == [0.5 * 0.5, 0.25 * 1.0, 0.25 * 0.5]
