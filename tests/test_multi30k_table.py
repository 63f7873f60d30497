"""The tables of `make multi30k` and `make methods`, from runs that are made up: epochs, times, which scores differ."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import numpy as np
import pytest
from support.markdown import cells
from support.scripts import scripts_in

import mpitune
from mpitune.corpus.weights import read_weights, write_weights
from mpitune.metrics.sentence_bleu import papineni
from mpitune.training.local.translation import SentenceTimings, summary

SENTENCES = [f"a man number {n} is walking down the long street" for n in range(30)]
TESTS = ("test_2016_flickr", "test_2017_flickr")


@pytest.fixture
def scripts() -> Iterator[Callable[[str], ModuleType]]:
    """Imports a script of jobs/papers by its name."""
    with scripts_in("papers") as imported:
        yield imported


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """References that say `SENTENCES`."""
    for text in ("val", *TESTS):
        with gzip.open(tmp_path / f"{text}.en.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in SENTENCES)
    return tmp_path


def made_up(run: Path, devtest: list[float | None], translations: list[str], **more: object) -> None:
    run.mkdir()
    epochs = [
        {
            "epoch": n,
            "devtest_bleu": bleu,
            "devtest_metric": None,
            "selected_features": 1000 * n,
            "seconds": 90.0,
            **more,
        }
        | {"peak_memory_bytes": [1_000_000_000 * n, 1]}
        for n, bleu in enumerate(devtest, start=1)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(epoch) + "\n" for epoch in epochs))
    write_weights(run / "weights.txt.gz", [("Glue", 1.0), ("WordPenalty", -1.0)])
    for text in ("val", *TESTS):
        (run / f"{text}.out").write_text("".join(f"{line}\n" for line in translations))


WORSE = [line.replace("walking", "running") for line in SENTENCES]


def test_the_table_has_scores_and_significance(scripts: Callable[[str], ModuleType], data: Path) -> None:
    table = scripts("table")
    where = table.Place(data, data)
    systems = [
        table.Row("dev", "no.toml", {}, "1 SGD", "dev", "12 dense"),
        table.Row("itersel", "no.toml", {}, "4 IterSelSGD", "train", "all"),
        table.Row("worse", "no.toml", {}, "1 SGD", "dev", "all", seeds=True),
    ]
    # One sentence differs between the first two: no significant difference.
    made_up(where.run(systems[0]).folder, [None, None], SENTENCES)
    made_up(where.run(systems[1]).folder, [30.0, 32.0, 31.0], ["a man is walking", *SENTENCES[1:]])
    made_up(where.run(systems[2]).folder, [33.0, 31.0], WORSE)
    rows = cells(table.table(systems, where))
    assert rows[2][:8] == ["a", "1 SGD", "dev", "12 dense", "1", "2", "2 of 2", ""]
    # Devtest chooses, whatever the algorithm.
    assert [row[5:8] for row in rows[3:]] == [["2", "2 of 3", "32.00"], ["2", "1 of 2", "33.00"]]
    assert [row[-2:] for row in rows[2:]] == [["3.0", "2.0"], ["4.5", "3.0"], ["3.0", "2.0"]]
    assert rows[2][8:10] == ["100.00 <sup>c</sup>"] * 2
    assert rows[3][8].endswith("<sup>c</sup>") and rows[4][8].endswith("<sup>a b</sup>")
    # A dense start that no epoch is as good as is the result.
    metrics = where.run(systems[1]).folder / "metrics.jsonl"
    first, *others = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join([json.dumps(json.loads(first) | {"devtest_bleu_dense": 40.0}) + "\n", *others]))
    assert cells(table.table(systems, where))[3][5:8] == ["2", "dense start", "40.00"]
    # The mean of two runs, of which the second is that of the first system.
    [_, again] = table.runs(systems[2], 2)
    assert again.settings == {"run.seed": 2}
    made_up(where.run(again).folder, [33.0, 31.0], SENTENCES)
    mean = (float(rows[4][8].partition(" ")[0]) + 100) / 2
    row = cells(table.table(systems, where, 2))[4]
    assert row[4] == "2" and float(row[8].partition(" ")[0]) == pytest.approx(mean, abs=0.01)


def test_a_system_starts_from_the_weights_with_its_own_seed(
    scripts: Callable[[str], ModuleType], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = scripts("table")
    monkeypatch.setenv("MPITUNE_DATA", str(data))
    where = table.Place(data, data)
    learned, refitted = (
        {row.name: row for row in table.rows_of(where.corpus)}[name] for name in ("itersel-29000", "refitted-29000")
    )
    for first, then in zip(table.runs(learned, 3), table.runs(refitted, 3), strict=True):
        assert where.job(then)["learner.initial_weights"] == where.run(first).folder


@pytest.mark.parametrize("name", ["multi30k", "europarl"])
def test_the_jobs_of_the_table_load_and_are_what_their_rows_say(
    scripts: Callable[[str], ModuleType], data: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    table = scripts("table")
    monkeypatch.setenv("MPITUNE_DATA", str(data))
    where = table.Place(data, data, corpus=scripts("corpora").corpora()[name])
    rows = list(table.rows_of(where.corpus))
    assert len({row.name for row in rows}) == len(rows) <= 26, "letters are enough"
    for row in rows:
        job = where.job(row).keys
        algorithm = {"1": "sgd", "2": "mix", "3": "itermix", "4": "itersel", "M": "itermix"}[row.algorithm[0]]
        assert (job.learner.algorithm, job.learner.method == "mira") == (algorithm, row.algorithm == "MIRA")
        assert job.learner.preset == ("simianer2012" if "printed" in row.algorithm else "default")
        every = ("id", "source-bigram", "shape")
        sets = {"dense": (), "all": every, "all, words": (*every, "word-pair", "target-words")}
        expected = sets.get(row.features, (row.features.removeprefix("+ "),))
        assert tuple(job.features.templates) == expected
        assert job.data is not None and job.data.source is not None
        tuned_on = row.tuned_on.split()[-1]
        if tuned_on == "train":
            assert row.tuned_on.split()[0] == f"{job.data.limit:,}"
        assert tuned_on in job.data.source.name or (tuned_on, job.data.source.name) == ("dev", "val.de.gz")
        # The epoch is selected on a text of the kind that is tuned on.
        chosen_on = job.data.devtest.source if job.data.devtest else None
        assert ("news" in tuned_on) == (chosen_on is not None and "news" in chosen_on.name)
        assert (job.learner.tune == "dense") == ("then" in row.tuned_on) == (job.learner.initial_weights is not None)


@pytest.mark.parametrize("name", ["multi30k", "europarl"])
def test_the_table_and_the_figure_share_runs(
    scripts: Callable[[str], ModuleType], data: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    table, scale = scripts("table"), scripts("scale")
    monkeypatch.setenv("MPITUNE_DATA", str(data))
    corpus = scripts("corpora").corpora()[name]
    where = table.Place(data, data, corpus=corpus)
    of_the_table = {row.name: row for row in table.rows_of(corpus)}
    lines = scale.by_size(corpus, None)
    of_the_figure = [*(system for line in lines.values() for system in line.values()), scale.dense(corpus)]
    of_the_figure += scale.by_selection(corpus, corpus.tabulated[0]).values()
    assert len({system.name for system in of_the_figure}) == len(of_the_figure) - 1, "the default K is in both panels"
    shared = [(of_the_table[one.name], one) for one in of_the_figure if one.name in of_the_table]
    assert len(shared) == 2 * len(corpus.tabulated) + 2
    for one, other in shared:
        assert where.job(one) == where.job(other)


def test_the_table_of_methods(scripts: Callable[[str], ModuleType], data: Path) -> None:
    methods = scripts("methods")
    where = methods.Place(data, data)
    shown = [methods.Method(name, "no.toml", {}, name.upper()) for name in ("first", "alike", "worse")]
    made_up(where.run(shown[0]).folder, [None], SENTENCES, busy_seconds=[80.0, 85.0])
    made_up(where.run(shown[1]).folder, [None] * 3, ["a man is walking", *SENTENCES[1:]], busy_seconds=[1.0])
    made_up(where.run(shown[2]).folder, [None], WORSE, busy_seconds=[1.0, 2.5])
    rows = cells(methods.table(shown, where))
    assert rows[2] == ["FIRST", "0", "1", *["100.00"] * 3, "1.000", "90.0", "165.0"]
    assert rows[3][2] == "3" and not any("*" in cell for cell in rows[3])
    # Only what differs significantly from the first has the mark.
    assert all(cell.endswith("*") for cell in rows[4][3:6]) and rows[4][-1] == "3.5"


def test_the_jobs_of_methods_load_and_are_what_their_titles_say(
    scripts: Callable[[str], ModuleType], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is set in the job is a job: each name, and each value."""
    methods = scripts("methods")
    monkeypatch.setenv("MPITUNE_DATA", str(data))
    where = methods.Place(data, data)
    jobs = {one.name: where.job(one).keys.learner for one in methods.METHODS}
    assert len(jobs) == len(methods.METHODS)
    assert (jobs["dev"].method, jobs["dev"].algorithm) == ("perceptron", "sgd")
    hope = jobs["mira-m-c-mpc"]
    assert (hope.method, hope.algorithm, hope.gold, hope.epochs) == ("mira", "itermix", "context", 20)
    for title, name, start in ((one.title, one.name, one.start) for one in methods.METHODS if "mira" in one.name):
        learner = jobs[name]
        assert f"MIRA {learner.own.oracle}/{learner.own.prediction}" == title.partition(",")[0]
        assert title.endswith(learner.own.variant) or learner.own.variant == "1-best"
        assert (learner.initial_weights is None) == (start == "0")
    for name, learner in jobs.items():
        start = learner.initial_weights
        assert start is not None or not learner.own.is_batch
        assert start is None or read_weights(start)["LanguageModel"] > 0, name


def test_curves_are_tabulated_and_drawn(scripts: Callable[[str], ModuleType], data: Path) -> None:
    curves, systems = scripts("curves"), scripts("systems")
    where = systems.Place(data, data)
    pairing, from_zero = (
        curves.Method(f"mira-{start}", "no.toml", {}, "MIRA LU/PB", start) for start in ("given", "0")
    )
    epochs = [{"best_bleu": bleu, "oracle_bleu": 60.0, "prediction_bleu": 10.0} for bleu in (30.0, 20.0, 41.0, 25.0)]
    for method in (pairing, from_zero):
        where.run(method).folder.mkdir()
        (where.run(method).folder / "metrics.jsonl").write_text("".join(json.dumps(epoch) + "\n" for epoch in epochs))
    assert cells(curves.table([pairing], where))[2] == ["MIRA LU/PB", "given", "30.00", "41.00", "25.00", "25.00"]
    curves.draw([pairing], [from_zero], where, data / "mira.svg")
    drawn = (data / "mira.svg").read_text(encoding="utf-8")
    assert "LU/PB" in drawn and all(f">{name}<" in drawn for name in (*curves.TRACKED_HYPOTHESES, "best, from 0"))


@pytest.mark.parametrize("name", ["curves", "local", "scale", "seeds", "discretised"])
def test_figures_of_a_trial_are_among_its_runs(
    scripts: Callable[[str], ModuleType], data: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """They do not replace those of real runs; a folder given with --write is made."""
    script, drawn = scripts(name), []
    monkeypatch.setenv("MPITUNE_DATA", str(data))
    monkeypatch.setattr(scripts("systems"), "JOBS", data)
    (data / "multi30k").mkdir()
    for method in ("train", "translate"):
        monkeypatch.setattr(script.Place, method, lambda *given: None)
    if name == "local":
        monkeypatch.setattr(script, "Study", MagicMock())
        monkeypatch.setattr(script, "chosen", lambda bleu: "")
    if name == "seeds":
        monkeypatch.setattr(script.Task, "bleu", lambda task: 0.0)
        monkeypatch.setattr(script, "ProcessPoolExecutor", lambda *given, **more: nullcontext(MagicMock(map=map)))
    monkeypatch.setattr(script, "table", lambda *given: "")
    monkeypatch.setattr(script, "draw", lambda *given: drawn.append(given[-1].parent))
    script.main(["--small"])
    script.main(["--small", "--write", str(data / "new" / "folder")])
    assert drawn == [data / "runs" / "small", data / "new" / "folder"]
    assert (data / "new" / "folder").is_dir()


def test_each_text_is_translated_by_all_systems_in_turn(
    scripts: Callable[[str], ModuleType], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store keeps the grammars of the text that was translated last: they are extracted once for each text."""
    table, told = scripts("table"), []
    monkeypatch.setenv("MPITUNE_DATA", str(data))
    monkeypatch.setattr(table.Place, "train", lambda where, systems: None)
    monkeypatch.setattr(table.Place, "translate", lambda where, systems, texts: told.append((len(systems), texts)))
    monkeypatch.setattr(table, "table", lambda rows, where, seeds: "")
    monkeypatch.setattr(scripts("systems"), "JOBS", data)
    (data / "runs").mkdir()
    table.main(["--only", "dev", "itersel-29000", "itersel-dense-29000", "--seeds", "2"])
    assert told == [(5, TESTS)]


def test_scale_is_tabulated_and_drawn(scripts: Callable[[str], ModuleType], data: Path) -> None:
    scale = scripts("scale")
    where = scale.Place(data, data)
    corpus = where.corpus
    lines = scale.by_size(corpus, 1000)
    assert [list(systems) for systems in lines.values()] == [[300, 1000]] * 2
    selections = scale.by_selection(corpus, 1000)
    assert selections[scale.DEFAULT] == lines[scale.LEARNED][1000], "one run is in both panels"
    systems = [*(system for line in lines.values() for system in line.values()), *selections.values()]
    for system in {system.name: system for system in [*systems, scale.dense(corpus)]}.values():
        made_up(where.run(system).folder, [None], WORSE if system.name == "itersel-words-300" else SENTENCES)
    rows = cells(scale.table(lines[scale.LEARNED], where))[2:]
    assert [row[0] for row in rows] == ["300", "1,000", "dense, dev"]
    assert rows[1][1:] == rows[2][1:] == ["100.00"] != rows[0][1:]
    scale.draw(lines, selections, where, data / "scale.svg")
    drawn = (data / "scale.svg").read_text(encoding="utf-8")
    assert all(f">{text}<" in drawn for text in (*lines, "dense, dev", f"BLEU, {TESTS[0]}"))


def test_local_training_is_tabulated_and_drawn(scripts: Callable[[str], ModuleType], data: Path) -> None:
    """The table and the figure of local training; the summaries are those that `mpitune local` gives."""
    script = scripts("local")
    study = script.Study(script.Place(data, data), script.System("mert", "no.toml"))
    study.where.run(study.system).folder.mkdir()
    best = script.BY_K["mbuu"][-1]
    assert (best.strength, best.k) == (0.018, 100) and best in script.BY_LAMBDA["mbuu"]
    for setting in script.SETTINGS:
        for text in TESTS:
            lines = WORSE if setting.k == 40 else SENTENCES
            study.output(setting, text).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            learning = 0.0 if setting == script.GLOBAL else 0.004
            told = [SentenceTimings(learning, decoding, 0.25, None) for decoding in (0.005, 0.011)]
            study._timings_file(setting, text).write_text(summary(told, 0.003) + "\n", encoding="utf-8")
    bleu = {text: study.scores(script.SETTINGS, text) for text in TESTS}
    rows = cells(script.table(study, bleu, "MERT"))
    assert rows[2] == ["MERT", "0", "", "100.00", "100.00", "0.25", "1.5", "0.0", "8.0", "1.00"]
    assert rows[3] == ["MBUU", "0.0018", "100", "100.00", "100.00", "0.25", "1.5", "4.0", "8.0", "1.50"]
    # Only what differs significantly from the first has the mark.
    assert all(("*" in cell) == (row[2] == "40") for row in rows[2:] for cell in row[3:5])
    picked = cells(script.chosen(bleu))
    assert picked[0] == ["", f"lambda chosen on {TESTS[0]}", f"BLEU on {TESTS[1]}", "global"]
    # Of equals, the smallest.
    assert picked[2:] == [["MBUU", "0.0018", "100.00", "100.00"], ["EBUU", "0.006", "100.00", "100.00"]]
    script.draw(bleu, data / "local.svg")
    drawn = (data / "local.svg").read_text(encoding="utf-8")
    assert all(f">{name}<" in drawn for name in ("MBUU", "EBUU", "global", f"BLEU, {TESTS[1]}"))


def test_the_jobs_of_local_training_load_and_have_their_settings(
    scripts: Callable[[str], ModuleType], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = scripts("local")
    monkeypatch.setenv("MPITUNE_DATA", str(data))
    study = script.Study(script.Place(data, data), script.System("mert", "no.toml"))
    for setting in script.SETTINGS:
        job = study.job(setting).keys
        assert (job.local.method, job.local.lambda_, job.local.k) == (setting.method, setting.strength, setting.k)
        assert (job.features.templates, job.grammar.leave_one_out, job.decoder.kbest) == ((), True, 100)


def test_local_training_sentence_by_sentence(
    scripts: Callable[[str], ModuleType], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, systems = scripts("sentences"), scripts("systems")
    monkeypatch.setenv("MPITUNE_DATA", str(data))
    where = systems.Place(data, data)
    for sentences in (0, 200):
        runs = script.mert_runs(sentences)
        jobs = [where.job(one).keys for one in runs]
        assert [(job.learner.method, job.run.seed, job.data.limit) for job in jobs if job.data] == [
            ("mert", seed, sentences) for seed in range(1, 6)
        ]
        assert len({job.run.dir for job in jobs}) == 5
    rows = cells(script.baseline([1.0, 2.0, 5.0, 4.0, 3.0], 2))
    assert rows[0] == ["MERT, seed", "1", "2", "3, the baseline", "4", "5", "mean", "standard deviation"]
    assert rows[2] == ["val", "1.00", "2.00", "5.00", "4.00", "3.00", "3.00", "1.58"]
    # EBUU is right in one sentence where MERT is wrong, MBUU has nothing in common with another.
    study = script.Study(where, runs[0], 2000)
    assert where.job(study.system)["data.limit"] == 2000
    study.where.run(study.system).folder.mkdir()
    lines = {
        line: [*SENTENCES[:n], other, *SENTENCES[n + 1 :]]
        for n, (line, other) in enumerate(zip(script.LINES, (WORSE[0], "nothing", WORSE[2]), strict=True))
    }
    for line, translations in lines.items():
        study.output(line, "val").write_text("".join(f"{text}\n" for text in translations), encoding="utf-8")
    found = {"val": {line: script.of_sentences(study, line, "val") for line in script.LINES}}
    assert cells(script.zeros(found))[2:] == [["MERT", "0"], ["MBUU", "1"], ["EBUU", "0"], ["of", "30"]]
    better = cells(script.better_of_two(found))
    assert better[4] == ["better of two", "100.00"] and better[2][1] == better[3][1] != "100.00"


def test_similarity_is_the_mean_cosine_with_the_whole_set(scripts: Callable[[str], ModuleType]) -> None:
    collection = [["a", "b"], ["a", "c"], ["a"]]
    # ln(4 / 4) = 0 for a, ln(4 / 2) for b and c, ln(4 / 1) for d.
    b, d = np.log(2), np.log(4)
    whole = np.array([2 * b, b, d])
    expected = [2 * b * b / (np.linalg.norm(whole) * b), (whole @ [0, b, d]) / np.linalg.norm(whole) / np.hypot(b, d)]
    found = scripts("sentences").mean_similarity(
        [["a", "b"], ["b", "c", "d"]], [["b", "a", "a"], ["d", "c"], ["a"], []], collection
    )
    assert found == pytest.approx(sum(expected) / 4)


def test_scores_of_seeds_are_summed_up_and_known_ones_not_measured_again(
    scripts: Callable[[str], ModuleType], data: Path
) -> None:
    """A run whose score is known is not done again: the jobs here would not even load."""
    seeds = scripts("seeds")
    where = seeds.Place(data, data)
    bleu = {}
    for name, scores in {"MIRA": [40.0, 42.0, 43.0, 41.0], "perceptron": [42.0] * 4}.items():
        tasks = [seeds.Task(where, seeds.System(name, "no.toml"), seed) for seed in range(1, 5)]
        for task, score in zip(tasks, scores, strict=True):
            task.score.parent.mkdir(parents=True)
            task.score.write_text(str(score), encoding="utf-8")
        bleu[name] = [task.bleu() for task in tasks]
    assert cells(seeds.table(bleu))[2:] == [
        ["MIRA", "4", "41.50", "41.50", "1.29", "40.00", "43.00", "40.00"],
        ["perceptron", "4", *["42.00"] * 2, "0.00", *["42.00"] * 3],
    ]
    seeds.draw(bleu, data / "seeds.svg")
    drawn = (data / "seeds.svg").read_text(encoding="utf-8")
    assert all(f">{name}<" in drawn for name in bleu)


def test_oracles_are_tabulated_by_length(scripts: Callable[[str], ModuleType]) -> None:
    script = scripts("oracles")
    perfect = [12, 11, 10, 9, 12, 11, 10, 9, 12, 12, 12]
    half = [6, 5, 4, 3, 12, 11, 10, 9, 12, 12, 12]
    rows = cells(script.table(np.array([half, perfect, perfect, perfect]), np.array([0.01, 0.02, 0.5, 1.0])))
    assert rows[0] == ["list", "1", "500", "50,000", "100,000"]
    assert rows[2][0] == "oracle BLEU" and 35 < float(rows[2][1]) < 50 and rows[2][2:] == ["100.00"] * 3
    assert rows[3] == ["seconds a sentence", "0.010", "0.020", "0.500", "1.000"]


def test_a_command_on_several_processes(
    scripts: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It has the job in a file, and what it tells is shown and returned; where it fails, the script ends."""
    on_ranks, program = scripts("systems").on_ranks, tmp_path / "mpirun"
    program.write_text('#!/bin/sh\necho mpirun "$@" >&2\nexit $(cat code)\n')
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    job = mpitune.Job(
        data={"source": tmp_path / "a", "references": [tmp_path / "b"]}, run={"dir": tmp_path / "runs" / "x"}
    )
    file = tmp_path / "runs" / "x.toml"
    (tmp_path / "code").write_text("0")
    assert on_ranks(3, "train", job, "--input", tmp_path) == f"mpirun -n 3 mpitune train {file} --input {tmp_path}\n"
    assert capsys.readouterr().err == f"mpirun -n 3 mpitune train {file} --input {tmp_path}\n"
    assert mpitune.Job(file).replace({"learner.epochs": 5}).to_toml() == job.replace({"learner.epochs": 5}).to_toml()
    (tmp_path / "code").write_text("75")
    with pytest.raises(SystemExit) as ended:
        on_ranks(3, "train", job)
    assert ended.value.code == 75


@pytest.mark.slow
def test_seeds_are_trained_and_oracles_of_longer_lists_are_better(
    scripts: Callable[[str], ModuleType], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a right translation of each word, and a wrong one in capitals, which the bitext has twice as often."""
    systems, seeds, oracles = scripts("systems"), scripts("seeds"), scripts("oracles")
    corpus, words = data / "multi30k", ["one", "two", "three", "four", "five"]
    right = [" ".join(words[n:] + words[:n]) for n in range(4)]
    wrong = [line.upper() for line in right]
    corpus.mkdir()
    texts = {"train.de": right * 3, "train.en": [*wrong * 2, *right], "train.de-en.align": ["0-0 1-1 2-2 3-3 4-4"] * 12}
    texts |= {f"{text}.{side}": right for text in ("val", *TESTS) for side in ("de", "en")}
    for name, lines in texts.items():
        with gzip.open(corpus / f"{name}.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    mpitune.estimate_lm(corpus / "train.en.gz", 2, corpus / "lm.4.arpa.gz")
    monkeypatch.setenv("MPITUNE_DATA", str(data))
    monkeypatch.setattr(oracles, "LENGTHS", (1, 9, 99))
    where = systems.Place(corpus, data / "runs", settings={"learner.epochs": 1})
    total, seconds = oracles.oracles(where, 3)
    bleu = papineni(total)
    assert bleu[0] < bleu[2] == 1.0 and bleu[0] <= bleu[1] and (seconds > 0).all()
    task = seeds.Task(where, seeds.SYSTEMS["perceptron"], 2)
    found = task.bleu()
    run = mpitune.Run(task.score.parent)
    assert (run.config["run.seed"], run.config["data.limit"], len(run.metrics)) == (2, seeds.SENTENCES, 1)
    translations = mpitune.Decoder(run.config, run.weights).translate(right)
    assert found == mpitune.evaluate({"": translations}, right).scores[0].bleu == json.loads(task.score.read_text())


def test_parts_of_cdec_processes_become_one_text_and_one_mean(
    scripts: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    """What cdec's processes leave becomes one text again, and one model: the mean, by the sentences of each."""
    tuners = scripts("cdec_tuners")
    assert list(tuners._interleaved([["0", "2", "4"], ["1", "3"]])) == ["0", "1", "2", "3", "4"]
    for n, (number, value) in enumerate([(17, "3"), (4, "-1")]):
        (tmp_path / f"{n}").mkdir()
        for name, line in (
            (f"weights.mira-pass00.{number}.gz", f"Glue {value}"),
            (f"weights.mira-pass00.{number}-avg.gz", "Glue 9"),
        ):
            with gzip.open(tmp_path / f"{n}" / name, "wt", encoding="utf-8") as file:
                file.write(f"# MIRA tuned weights ||| {number} ||| 1\n{line}\n")
    assert tuners._averaged([tmp_path / "0", tmp_path / "1"], [3, 1]) == {"Glue": 2.0}


def test_each_rank_of_cdec_has_its_part(scripts: Callable[[str], ModuleType], data: Path) -> None:
    """Parts of an earlier call with more ranks are gone, and part.10 comes after part.2."""
    tuners, texts = scripts("cdec_tuners"), data / "texts"
    texts.mkdir()
    for name in ("lm.klm", "part.12"):
        (texts / name).touch()
    (texts / "input.sgm").write_text("".join(f"{n}\n" for n in range(30)), encoding="utf-8")
    tuners.prepare(tuners.Place(data, data, ranks=11), texts)
    parts = tuners.Peer(data / "run", texts, 11, SENTENCES, tuners.mira, {"Glue": 0.0}).parts
    assert sorted(parts) == sorted(texts.resolve().glob("part.*"))
    lines = [part.read_text(encoding="utf-8").splitlines() for part in parts]
    assert list(tuners._interleaved(lines)) == [f"{n}" for n in range(30)]


def test_pseudo_document_of_undefined_length(scripts: Callable[[str], ModuleType], tmp_path: Path) -> None:
    tuners, said = scripts("cdec_tuners"), tmp_path / "errors"
    for length, refused in (("8.1", False), ("1.69639e+31", True), ("-3e12", True), ("nan", True)):
        said.write_text(
            f"PASS 1\nps corpus size: {length} 9\nBLEU = 33.01\nps corpus size: 15.39 9\n", encoding="utf-8"
        )
        with pytest.raises(SystemExit, match="undefined length") if refused else nullcontext():
            tuners.check_length(said)


@pytest.mark.parametrize(
    "script", ["table", "methods", "curves", "seeds", "oracles", "cdec_tuners", "local", "sentences"]
)
def test_without_data_it_says_so(
    script: str, scripts: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MPITUNE_DATA", raising=False)
    with pytest.raises(SystemExit, match="MPITUNE_DATA is not set"):
        scripts(script).main([])


def test_jobs_with_bins_load_and_are_tabulated_and_drawn(
    scripts: Callable[[str], ModuleType], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that are what their lines say; the table; the curves of runs that have bins."""
    discretised, systems = scripts("discretised"), scripts("systems")
    monkeypatch.setenv("MPITUNE_DATA", str(data))
    where = systems.Place(data, data)
    everything = (*discretised.LINEAR, *discretised.IN_BINS)
    jobs = {one.name: where.job(one).keys for one in everything}
    assert len(jobs) == len(everything)
    for one in everything:
        job = jobs[one.name]
        wanted, scores = job.features.discretize, set(job.features.unlog.features)
        assert (job.learner.method == "pro") == (one.name != "bins-online")
        assert (len(wanted.features) == 4) == one.title.startswith("bins")
        assert scores == (set() if "logarithms" in one.title and "no log" not in one.title else set(discretised.SCORES))
        assert (wanted.overlap > 0) == ("overlapping" in one.title)
        assert (
            wanted.regularizer
            == next(
                (kind for kind in ("linear neighbours", "monotone neighbours") if kind in one.title), "none"
            ).split()[0]
        )
        if one.name != "pro":
            assert job.learner.frozen == ("EgivenFCoherent",)
        if job.learner.initial_weights:
            assert ("EgivenFCoherent" in read_weights(job.learner.initial_weights)) == (one.name == "pro")
    shown = [discretised.LINEAR[0], discretised.IN_BINS[0]]
    for one in shown:
        made_up(where.run(one).folder, [None, None], SENTENCES if one is shown[0] else WORSE)
    rows = cells(discretised.table(shown, where))
    assert rows[2][1:6] == ["2000", *["100.00"] * 3, "1.000"] and rows[3][-1] == "90.0"
    assert all(cell.endswith("*") for cell in rows[3][2:5])
    bins = [
        {"feature": name, "least": [0.0, 1.0], "most": [0.5, 2.0], "population": [3, 4]} for name in discretised.SCORES
    ]
    run = where.run(shown[1]).folder
    undone = {"count": "10**v-1", "probability": "10**-v"}
    transforms = {name: undone[what] for name, what in discretised.SCORES.items()}
    scoring = {"transforms": transforms, "overlap": 0, "keep": False, "bins": bins}
    (run / "scoring.json").write_text(json.dumps(scoring))
    write_weights(run / "weights.txt.gz", [("CountEF_2", 1.5)])
    discretised.draw(shown[1:], where, data / "curves.svg")
    drawn = (data / "curves.svg").read_text()
    assert all(f"{name}, {by}" in drawn for name, by in discretised.SCORES.items()) and shown[1].title in drawn
