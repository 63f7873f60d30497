"""Which figures a report has, and of which numbers, by the metrics of made-up runs; what is drawn is not looked at."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.run_folders import make_run

from mpitune.report import plots
from mpitune.report.charts import Family, Runs, Section, sections
from mpitune.report.plots import Plot, Series
from mpitune.run_folder.reader import Record, read_record

Drawn = dict[str, tuple[Any, ...]]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """By the name of a figure, what is drawn: curves, or the edges, rows and labels of bands."""
    found: Drawn = {}

    def draw(name: str, title: str, *given: Any, **style: Any) -> Plot:
        found[name] = given
        return Plot("", b"")

    for kind in ("lines", "bands", "sorted_curves"):
        monkeypatch.setattr(plots, kind, draw)
    return found


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
    return {section.anchor: section for section in sections(Runs(families, names, [None] * len(records)))}


def titles(section: Section) -> dict[str, str]:
    return {figure.name: figure.title for figure in section.charts}


def curves(drawn: Drawn, name: str) -> list[tuple[list[float], list[float]]]:
    series: list[Series] = drawn[name][0]
    return [(list(each.x), list(each.y)) for each in series]


def test_many_ranks_share_bands(tmp_path: Path, drawn: Drawn) -> None:
    machine = shown(record(tmp_path / "run", [ranks(30), ranks(30)]))["ranks"]
    assert "timeline" in titles(machine)
    edges, rows, labels = drawn["timeline"]
    assert labels == [f"{rank}–{rank + 1}" for rank in range(0, 30, 2)]
    assert len(edges) == 61 and edges[0] == 0.0 and edges[-1] == pytest.approx(5.0)
    # Of ranks 2 and 3, both are busy in two parts of an epoch, and one of them in a third.
    assert rows[1] == pytest.approx(2 * [1.0, 1.0, 0.5, *[0.0] * 27])
    assert len(rows) == 15 and {len(row) for row in rows} == {60}


def test_the_last_band_may_have_fewer_ranks(tmp_path: Path, drawn: Drawn) -> None:
    shown(record(tmp_path / "run", [ranks(25)]))
    _, rows, labels = drawn["timeline"]
    assert labels[11] == "22–23" and len(labels) == 13
    assert rows[-1] == pytest.approx([1.0] * 24 + [0.0] * 6)


def test_each_of_a_few_ranks_has_a_band(tmp_path: Path, drawn: Drawn) -> None:
    shown(record(tmp_path / "run", [ranks(24)]))
    assert drawn["timeline"][2] == [str(rank) for rank in range(24)]


@pytest.mark.parametrize("numbers", [(3, 2, 4), (2, 4, 3)])
def test_ranks_of_all_epochs_after_a_resume_on_another_number(
    tmp_path: Path, drawn: Drawn, numbers: Sequence[int]
) -> None:
    machine = shown(record(tmp_path / "run", [ranks(number) for number in numbers]))["ranks"]
    assert drawn["timeline"][2] == ["0", "1"]
    # Busy and peak memory are those of all ranks that took part.
    busy = sum(rank for number in numbers for rank in range(number))
    assert f"Ranks were busy for {100 * busy / (30 * sum(numbers)):.1f} % of the time" in machine.text
    assert "Peak memory of a rank: 1.3 GB." in machine.text


def test_one_rank_never_waits(tmp_path: Path, drawn: Drawn) -> None:
    machine = shown(record(tmp_path / "run", [ranks(2), ranks(1)]))["ranks"]
    assert "timeline" not in drawn and machine.text == " Peak memory of a rank: 1.1 GB."


def test_the_objective_of_a_batch_method(tmp_path: Path, drawn: Drawn) -> None:
    def of(method: str) -> Callable[[str], str]:
        return lambda config: config.replace('method = "perceptron"', f'method = "{method}"')

    objective = [{"objective": 0.5}, {"objective": 0.25}]
    pro = record(tmp_path / "pro", objective, of("pro"))
    quality = shown(pro)["curves"]
    [figure] = [figure for figure in quality.charts if figure.name == "objective"]
    assert figure.text == "of pro, over all lists accumulated so far"
    assert curves(drawn, "objective") == [([1, 2], [0.5, 0.25])]
    other = record(tmp_path / "other", [{"objective": 3.0}, {"objective": 2.0}], of("pro"))
    shown(pro, other)
    assert curves(drawn, "objective") == [([1, 2], [0.5, 0.25]), ([1, 2], [3.0, 2.0])]
    # Not comparable, and not there.
    mert = record(tmp_path / "mert", objective, of("mert"))
    assert "objective" not in titles(shown(pro, mert)["curves"])
    assert "objective" not in titles(shown(record(tmp_path / "none", [{}, {}]))["curves"])


def test_the_tuned_metric_of_devtest(tmp_path: Path, drawn: Drawn) -> None:
    def of(metric: str) -> Callable[[str], str]:
        return lambda config: config.replace('metric = "bleu"', f'metric = "{metric}"')

    scores = [{"devtest_metric": 40.0}, {"devtest_metric": 42.0}]
    chrf = record(tmp_path / "chrf", scores, of("chrf"))
    assert titles(shown(chrf)["curves"])["devtest-metric"] == f"Devtest {chrf.metric}" == "Devtest chrF"
    assert curves(drawn, "devtest-metric") == [([1, 2], [40.0, 42.0])]
    # Metrics of different names are not comparable; of BLEU there is a curve of its own.
    ter = record(tmp_path / "ter", scores, of("ter"))
    assert "devtest-metric" not in titles(shown(chrf, ter)["curves"])
    bleu = titles(shown(record(tmp_path / "bleu", [{}, {}]))["curves"])
    assert "devtest-metric" not in bleu and "bleu" in bleu
