"""The tables of jobs/papers/mira_and_bins.py, from translations that are made up."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.markdown import cells
from support.scripts import scripts_in

from mpitune.config.load import load
from mpitune.corpus.weights import read_weights

SENTENCES = [f"the commission adopted report number {n} in plenary today" for n in range(20)]


@pytest.fixture
def script() -> Iterator[ModuleType]:
    with scripts_in("papers") as imported:
        yield imported("mira_and_bins")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for corpus, name in ("europarl", "test.fr"), ("europarl", "test.en"), ("multi30k", "test_2016_flickr.en"):
        (tmp_path / corpus).mkdir(exist_ok=True)
        with gzip.open(tmp_path / corpus / f"{name}.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in SENTENCES)
    monkeypatch.setenv("MPITUNE_DATA", str(tmp_path))
    return tmp_path


def experiment(script: ModuleType, data: Path, corpus: str) -> Any:
    return script.Experiment(script.corpora()[corpus], data / corpus, data / "runs", 7, 5)


def test_the_jobs_load_and_are_what_their_names_say(script: ModuleType, data: Path) -> None:
    work = experiment(script, data, "europarl")
    folders = set()
    for table, systems in script.TABLES.items():
        for system in systems:
            job = load(script.JOBS / "europarl-dev.toml", work.given(system))
            assert job.data is not None and (job.data.limit, job.data.devtest) == (7, None)
            assert (job.decoder.rule_margin, job.learner.epochs) == (2.0, script.EPOCHS)
            folders.add(job.run.dir)
            if system.name == "perceptron":
                assert (job.learner.method, job.learner.initial_weights) == ("perceptron", None)
                continue
            assert job.learner.initial_weights is not None and read_weights(job.learner.initial_weights)["Glue"]
            if table == "pairings":
                assert f"{job.learner.own.oracle}/{job.learner.own.prediction}" == system.name
                assert (job.learner.method, job.decoder.kbest) == ("mira", 500)
            else:
                bins = job.features.discretize
                assert (job.learner.method, job.learner.frozen) == ("pro", ("EgivenFCoherent",))
                assert len(bins.features) == (4 if "bins" in system.name else 0)
                assert (bins.regularizer == "linear") == ("neighbours" in system.name)
    assert len(folders) == sum(map(len, script.TABLES.values()))


@pytest.mark.parametrize("corpus", ["europarl", "multi30k"])
def test_a_table_compares_all_runs_of_the_systems(
    corpus: str, script: ModuleType, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Known translations are not made again: here nothing can be run but the evaluation."""
    names = ["linear", "bins"]
    work = experiment(script, data, corpus)
    systems = [system for system in script.TABLES["bins"] if system.name in names]
    for system in systems:
        for seed in script.SEEDS:
            output = work.output(system, seed)
            output.parent.mkdir(parents=True)
            wrong = "nothing" if system.name == "bins" and seed > 1 else SENTENCES[0]
            output.write_text("".join(f"{line}\n" for line in [wrong, *SENTENCES[1:5]]), encoding="utf-8")
    run, commands = script._run, list[list[str]]()

    def evaluation_only(words: list[str], environment: dict[str, str], *, output: bool = False) -> str:
        commands.append(words[1:3])
        return str(run([sys.executable, "-m", *words], environment, output=output)) if words[1] == "evaluate" else ""

    monkeypatch.setattr(script, "_run", evaluation_only)
    script.main(["--corpus", corpus, "--sentences", "7", "--test", "5", "--runs", str(data / "runs"), "--only", *names])
    training = ["train", str(script.JOBS / f"{corpus}-dev.toml")]
    assert commands == [training, training, ["evaluate", "--refs"]]
    table = (data / "runs" / "bins.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.endswith(table) and not (data / "runs" / "pairings.md").exists()
    rows = cells(table)
    assert [row[:3] for row in rows if row[0] in names][0] == ["linear", "3", "100.00"]
    assert float(next(row[2] for row in rows if row[0] == "bins")) < 100


def test_without_data_it_says_so(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPITUNE_DATA", raising=False)
    with pytest.raises(SystemExit, match="MPITUNE_DATA is not set"):
        script.main([])
