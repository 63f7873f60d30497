"""The tables of jobs/papers/mira_and_bins.py, from translations that are made up."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.markdown import cells
from support.scripts import scripts_in

from mpitune.corpus.weights import read_weights

SENTENCES = [f"the commission adopted report number {n} in plenary today" for n in range(20)]


@pytest.fixture
def script() -> Iterator[ModuleType]:
    with scripts_in("papers") as imported:
        yield imported("mira_and_bins")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "europarl/test.fr",
        "europarl/test.en",
        "multi30k/test_2016_flickr.de",
        "multi30k/test_2016_flickr.en",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with gzip.open(tmp_path / f"{name}.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in SENTENCES)
    monkeypatch.setenv("MPITUNE_DATA", str(tmp_path))
    return tmp_path


def test_the_jobs_load_and_are_what_their_names_say(script: ModuleType, data: Path) -> None:
    corpus = script.corpora()["europarl"]
    where, folders = script.Place(data / "europarl", data / "runs", corpus=corpus), set()
    for table, systems in script.TABLES.items():
        for name, settings in systems.items():
            runs = script.runs(corpus, name, settings, 7)
            assert [where.job(run)["run.seed"] for run in runs] == [1, 2, 3]
            job = where.job(runs[0]).keys
            assert job.data is not None and (job.data.limit, job.data.devtest) == (7, None)
            assert (job.decoder.rule_margin, job.learner.epochs) == (2.0, 3)
            folders |= {where.job(run)["run.dir"] for run in runs}
            if name == "perceptron":
                assert (job.learner.method, job.learner.initial_weights) == ("perceptron", None)
                continue
            assert job.learner.initial_weights is not None and read_weights(job.learner.initial_weights)["Glue"]
            if table == "pairings":
                assert f"{job.learner.own.oracle}/{job.learner.own.prediction}" == name
                assert (job.learner.method, job.decoder.kbest) == ("mira", 500)
            else:
                bins = job.features.discretize
                assert (job.learner.method, job.learner.frozen) == ("pro", ("EgivenFCoherent",))
                assert len(bins.features) == (4 if "bins" in name else 0)
                assert (bins.regularizer == "linear") == ("neighbours" in name)
    assert len(folders) == 3 * sum(map(len, script.TABLES.values()))


@pytest.mark.parametrize(("corpus", "test"), [("europarl", "test"), ("multi30k", "test_2016_flickr")])
def test_a_table_compares_all_runs_of_the_systems(
    corpus: str,
    test: str,
    script: ModuleType,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Here no run is made: only the evaluation. The other tables have no systems."""
    done: list[tuple[str, int]] = []
    monkeypatch.setattr(script.Place, "train", lambda where, systems: done.append(("train", len(systems))))
    monkeypatch.setattr(script.Place, "translate", lambda where, systems, texts: done.append((*texts, len(systems))))
    for name in ("linear", "bins"):
        for seed in (1, 2, 3):
            run = data / "runs" / f"{corpus}-{name}" / f"seed-{seed}"
            run.mkdir(parents=True)
            wrong = "nothing" if name == "bins" and seed > 1 else SENTENCES[0]
            (run / f"{test}-5.out").write_text("".join(f"{line}\n" for line in [wrong, *SENTENCES[1:5]]))
    given = ["--corpus", corpus, "--sentences", "7", "--test", "5", "--runs", str(data / "runs")]
    script.main([*given, "--only", "bins", "linear"])
    assert done == [("train", 6), (f"{test}-5", 6)]
    table = (data / "runs" / "bins.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.endswith(table) and not (data / "runs" / "pairings.md").exists()
    rows = cells(table)
    assert [row[:3] for row in rows if row[0] in ("linear", "bins")][0] == ["linear", "3", "100.00"]
    assert float(next(row[2] for row in rows if row[0] == "bins")) < 100


def test_without_data_it_says_so(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPITUNE_DATA", raising=False)
    with pytest.raises(SystemExit, match="MPITUNE_DATA is not set"):
        script.main([])
