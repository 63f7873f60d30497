"""Which plots a report has, and of which numbers, by the metrics of made-up runs; what is drawn is not looked at."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from support.run_folders import make_run

from mpitune.grammar.binning import Bins
from mpitune.grammar.score_transforms import Scoring
from mpitune.report.charts import Family, Runs, Section, responses, sections
from mpitune.run_folder.reader import Record, read_record


def ranks(number: int) -> dict[str, Any]:
    """Figures of so many ranks; rank r is busy for r of 30 parts of the time."""
    return {
        "busy_seconds": [float(rank) for rank in range(number)],
        "wait_seconds": [30.0 - rank for rank in range(number)],
        "timeline": ["9" * rank + "0" * (30 - rank) for rank in range(number)],
        "peak_memory_bytes": [1e9 + 1e8 * rank for rank in range(number)],
    }


def record(path: Path, epochs: Sequence[dict[str, Any]], change: Callable[[str], str] = str) -> Record:
    """A run with these figures; ``change``: of its configuration."""
    folder = make_run(path, len(epochs))
    written = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    folder.write_metrics([old | new for old, new in zip(written, epochs, strict=True)])
    folder.write_config(change(folder.config.read_text()))
    return read_record(path)


def shown(*records: Record) -> dict[str, Section]:
    """The sections on runs of different jobs, by their anchors."""
    names = [one.name for one in records]
    families = [Family(name, [one]) for name, one in zip(names, records, strict=True)]
    return {section.anchor: section for section in sections(Runs(families, names, None))}


def given(section: Section) -> dict[str, dict[str, Any]]:
    """What each plot draws, by name."""
    return {plot.name: cast("partial[None]", plot.draw).keywords for plot in section.plots}


def titles(section: Section) -> dict[str, str]:
    return {plot.name: plot.title for plot in section.plots}


def curves(section: Section, name: str) -> list[tuple[list[float], list[float]]]:
    return [(list(each.x), list(each.y)) for each in given(section)[name]["series"]]


def test_many_ranks_share_bands(tmp_path: Path) -> None:
    machine = shown(record(tmp_path / "run", [ranks(30), ranks(30)]))["ranks"]
    edges, rows, labels = given(machine)["timeline"].values()
    assert labels == [f"{rank}–{rank + 1}" for rank in range(0, 30, 2)]
    assert len(edges) == 61 and edges[0] == 0.0 and edges[-1] == pytest.approx(5.0)
    # Of ranks 2 and 3, both are busy in two parts of an epoch, and one of them in a third.
    assert rows[1] == pytest.approx(2 * [1.0, 1.0, 0.5, *[0.0] * 27])
    assert len(rows) == 15 and {len(row) for row in rows} == {60}


def test_the_last_band_may_have_fewer_ranks(tmp_path: Path) -> None:
    _, rows, labels = given(shown(record(tmp_path / "run", [ranks(25)]))["ranks"])["timeline"].values()
    assert labels[11] == "22–23" and len(labels) == 13
    assert rows[-1] == pytest.approx([1.0] * 24 + [0.0] * 6)


def test_each_of_a_few_ranks_has_a_band(tmp_path: Path) -> None:
    machine = shown(record(tmp_path / "run", [ranks(24)]))["ranks"]
    assert given(machine)["timeline"]["labels"] == [str(rank) for rank in range(24)]


@pytest.mark.parametrize("numbers", [(3, 2, 4), (2, 4, 3)])
def test_ranks_of_all_epochs_after_a_resume_on_another_number(tmp_path: Path, numbers: Sequence[int]) -> None:
    machine = shown(record(tmp_path / "run", [ranks(number) for number in numbers]))["ranks"]
    assert given(machine)["timeline"]["labels"] == ["0", "1"]
    # Busy and peak memory are those of all ranks that took part.
    busy = sum(rank for number in numbers for rank in range(number))
    assert f"Ranks were busy for {100 * busy / (30 * sum(numbers)):.1f} % of the time" in machine.text
    assert "Peak memory of a rank: 1.3 GB." in machine.text


def test_one_rank_never_waits(tmp_path: Path) -> None:
    machine = shown(record(tmp_path / "run", [ranks(2), ranks(1)]))["ranks"]
    assert "timeline" not in titles(machine) and machine.text == " Peak memory of a rank: 1.1 GB."


def changed(key: str, other: str) -> Callable[[str], str]:
    """Another value of a key in the configuration of a run."""
    return lambda config: config.replace(key, other)


def test_the_objective_of_a_batch_method(tmp_path: Path) -> None:
    objective = [{"objective": 0.5}, {"objective": 0.25}]
    pro = record(tmp_path / "pro", objective, changed('method = "perceptron"', 'method = "pro"'))
    quality = shown(pro)["curves"]
    [plot] = [plot for plot in quality.plots if plot.name == "objective"]
    assert plot.text == "of pro, over all lists accumulated so far"
    assert curves(quality, "objective") == [([1, 2], [0.5, 0.25])]
    better = [{"objective": 3.0}, {"objective": 2.0}]
    other = record(tmp_path / "other", better, changed('method = "perceptron"', 'method = "pro"'))
    assert curves(shown(pro, other)["curves"], "objective") == [([1, 2], [0.5, 0.25]), ([1, 2], [3.0, 2.0])]
    # Not comparable, and not there.
    mert = record(tmp_path / "mert", objective, changed('method = "perceptron"', 'method = "mert"'))
    assert "objective" not in titles(shown(pro, mert)["curves"])
    assert "objective" not in titles(shown(record(tmp_path / "none", [{}, {}]))["curves"])


def test_the_tuned_metric_of_devtest(tmp_path: Path) -> None:
    scores = [{"devtest_metric": 40.0}, {"devtest_metric": 42.0}]
    chrf = record(tmp_path / "chrf", scores, changed('metric = "bleu"', 'metric = "chrf"'))
    quality = shown(chrf)["curves"]
    assert titles(quality)["devtest-metric"] == f"Devtest {chrf.metric}" == "Devtest chrF"
    assert curves(quality, "devtest-metric") == [([1, 2], [40.0, 42.0])]
    # Metrics of different names are not comparable; of BLEU there is a curve of its own.
    ter = record(tmp_path / "ter", scores, changed('metric = "bleu"', 'metric = "ter"'))
    assert "devtest-metric" not in titles(shown(chrf, ter)["curves"])
    bleu = titles(shown(record(tmp_path / "bleu", [{}, {}]))["curves"])
    assert "devtest-metric" not in bleu and "bleu" in bleu


def test_the_mean_of_seeds() -> None:
    """Epochs that one run lacks are left out; the deviation is that of a sample."""

    def run(*bleus: float | None) -> Record:
        epochs = [SimpleNamespace(epoch=epoch, devtest_bleu=bleu) for epoch, bleu in enumerate(bleus, start=1)]
        return cast(Record, SimpleNamespace(epochs=epochs, result_bleu=bleus[-1]))

    family = Family("job", [run(10.0, 20.0, 30.0), run(14.0, 26.0)])
    curve = family.curve("devtest_bleu", 3, "dashed")
    assert curve is not None and (curve.x, curve.y, curve.colour, curve.style) == ([1, 2], [12.0, 23.0], 3, "dashed")
    assert curve.spread == pytest.approx([8**0.5, 18**0.5])
    spread = family.spread("result_bleu")
    assert spread == pytest.approx((28.0, 8**0.5))
    alone = Family("job", [run(10.0, None)])
    single = alone.curve("devtest_bleu", 0, "solid")
    assert single is not None and (single.x, single.y) == ([1], [10.0])
    assert not single.spread and alone.spread("result_bleu") is None
    assert Family("job", [run(None), run(1.0)]).curve("devtest_bleu", 0, "solid") is None


COUNT = Bins("Count", np.log10([1.0, 2.0, 5.0]), np.log10([1.0, 4.0, 9.0]), np.array([7, 8, 9]))
LEX = Bins("Lex", np.array([0.0, 1.0, 3.0]), np.array([0.5, 2.0, 4.0]), np.array([3, 2, 1]))
WEIGHTS = {"Count_1": -1.0, "Count_2": 0.5, "Count_3": 0.25, "Lex_1": 0.125, "Lex_3": -2.0, "Lex": -0.5}


def test_bins_as_they_are() -> None:
    count, lex = responses(Scoring(bins=(COUNT, LEX)), WEIGHTS)
    assert (count.feature, count.transform) == ("Count", None)
    assert count.contribution.tolist() == [-1, 0.5, 0.25] and count.population.tolist() == [7, 8, 9]
    # A bin without a weight contributes nothing.
    assert lex.contribution.tolist() == [0.125, 0, -2]
    assert lex.least.tolist() == [0, 1, 3] and lex.most.tolist() == [0.5, 2, 4]


def test_transforms_name_the_values() -> None:
    transforms = {"Count": "10**v-1", "Lex": "10**-v"}
    count, lex = responses(Scoring(transforms, (COUNT, LEX)), WEIGHTS)
    assert count.least == pytest.approx([0, 1, 4]) and count.most == pytest.approx([0, 3, 8])
    # Large costs are small probabilities: values ascend all the same.
    assert lex.least == pytest.approx([1e-4, 1e-2, 10**-0.5]) and lex.most == pytest.approx([1e-3, 1e-1, 1])
    assert lex.contribution.tolist() == [-2, 0, 0.125] and lex.population.tolist() == [1, 2, 3]


def test_overlapping_bins_are_worth_all_that_a_value_fires() -> None:
    [count] = responses(Scoring(bins=(COUNT,), overlap=1), WEIGHTS)
    assert count.contribution.tolist() == [-0.5, -0.25, 0.75]


def test_what_is_kept_counts_too() -> None:
    [lex] = responses(Scoring(bins=(LEX,), keep=True), WEIGHTS)
    assert lex.contribution.tolist() == [0.125 - 0.125, -0.75, -2 - 1.75]
