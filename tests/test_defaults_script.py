"""The script of `make defaults`: runs over little data, its tables, what it leaves out; nothing tuned sees the test."""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.markdown import cells
from support.scripts import scripts_in

import mpitune
from mpitune.lm.arpa import read_arpa


@pytest.fixture
def scripts() -> Iterator[Callable[[str], ModuleType]]:
    """Imports a script of jobs/defaults by its name."""
    with scripts_in("defaults") as imported:
        yield imported


@pytest.fixture
def little(scripts: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first 400 training pairs of the demo, and 60 of its other parts; 20 are held out when asked for.

    Of the sparse settings, the first two.
    """
    monkeypatch.delenv("MPITUNE_DATA", raising=False)
    builders, corpus = scripts("builders"), tmp_path / "corpus"
    corpus.mkdir()
    for path in builders.DEMO.glob("*.[jeg][anz]"):
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        some = b"".join(text.splitlines(keepends=True)[: 400 if path.suffix == ".gz" else 60])
        (corpus / path.name).write_bytes(gzip.compress(some) if path.suffix == ".gz" else some)
    monkeypatch.setattr(builders, "DEMO", corpus)
    monkeypatch.setattr(scripts("making"), "HELD_OUT", 20)
    settings = scripts("settings")
    monkeypatch.setitem(settings.PARTS, "sparse", lambda data: [settings.DEFAULTS, settings.ALL_TEMPLATES])


def written(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of a table, by its headings."""
    heading, _, *rows = cells(text)
    return [dict(zip(heading, row, strict=True)) for row in rows]


@pytest.mark.slow
def test_little_runs_fill_the_tables(
    scripts: Callable[[str], ModuleType],
    little: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    measure, runs = scripts("measure"), scripts("results")
    words = [
        "--small",
        "--sets",
        "demo:20",
        "multi30k",
        "--part",
        "seeds",
        "sparse",
        "--seeds",
        "1",
        "--work",
        str(tmp_path),
    ]
    measure.main(words)
    told = capsys.readouterr()
    assert "skipped multi30k: MPITUNE_DATA is not set" in told.err
    assert "run 1 of 1: demo:20 defaults seed 1: BLEU" in told.err and " left" in told.err
    results = written(tmp_path / "results.jsonl")
    assert {(one["set"], one["setting"], one["seed"]) for one in results} == {
        ("demo:20", setting, 1) for setting in ("defaults", "all-templates")
    }
    assert len(results) == 2 and all(one["epoch"] == 2 and one["bleu"] > 2 for one in results)
    rows = rows_of(told.out.partition("## sparse")[2])
    for row in rows:
        found = [one for one in results if one["setting"] == row["setting"]]
        bleus, hours = [one["bleu"] for one in found], sum(sum(one["core_seconds"].values()) for one in found) / 3600
        assert (row["seeds"], row["mean"]) == ("1", f"{statistics.mean(bleus):.2f}")
        assert row["sd"] == "" and row["core hours"] == f"{hours:.3f}"
    assert rows[0]["p"] == "" and 0 < float(rows[1]["p"]) <= 1
    tables = (tmp_path / "tables.md").read_text(encoding="utf-8")
    # Between them are the tables of other parts that have a setting of theirs.
    assert all(f"## {table}".rstrip() in tables for table in told.out.split("## ")[1:])

    # All is there: nothing is run again, also not what is the same by another name.
    monkeypatch.setattr(runs, "ProcessPoolExecutor", None)
    monkeypatch.setattr(runs.mpitune, "evaluate", None)
    measure.main(words)
    assert capsys.readouterr().out == told.out
    assert written(tmp_path / "results.jsonl") == results


def test_without_data_it_says_so(
    scripts: Callable[[str], ModuleType], little: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="none of the sets is available"):
        scripts("measure").main(["--sets", "nc", "europarl:300", "--work", str(tmp_path)])
    told = capsys.readouterr().err
    assert all(f"skipped {name}: MPITUNE_DATA is not set" in told for name in ("nc", "europarl:300"))


@pytest.fixture
def news(scripts: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an nc of made-up sentences."""
    folder = tmp_path / "data" / "nc"
    folder.mkdir(parents=True)
    for language in ("de", "en"):
        with gzip.open(folder / f"nc.{language}.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{language} {n}\n" for n in range(999))
    with gzip.open(folder / "grammar.gz", "wt", encoding="utf-8") as file:
        file.write("[X] ||| de ||| en ||| 0.5 2.0 ||| 0-0\n")
    monkeypatch.setenv("MPITUNE_DATA", str(tmp_path / "data"))

    def lm(text: Path, order: int, output: Path) -> Path:
        unigrams, bigrams = "-1\t<s>\t-0.5\n-1\t</s>\n-1\ten\n", "-0.25\t<s> en\n"
        counts = "ngram 1=3\nngram 2=1\n"
        arpa = f"\\data\\\n{counts}\n\\1-grams:\n{unigrams}\n\\2-grams:\n{bigrams}\n\\end\\\n"
        output.write_bytes(gzip.compress(arpa.encode()))
        return output

    monkeypatch.setattr(scripts("builders"), "estimate_lm", lm)
    return tmp_path


@pytest.mark.parametrize("devtest", [False, True])
def test_nothing_tuned_sees_the_test(scripts: Callable[[str], ModuleType], news: Path, devtest: bool) -> None:
    nc = scripts("builders").make(scripts("making").Asked(news / "work", devtest=devtest), "nc")
    job = nc.job.keys
    assert job.data is not None and job.data.source is not None
    tuned, test = (set(file.read_text(encoding="utf-8").splitlines()) for file in (job.data.source, nc.source))
    seen = set((nc.folder / "lm.text").read_text(encoding="utf-8").splitlines())
    assert test == {f"de {n}" for n in range(700, 999)} and len(tuned) == nc.size == len(seen) == 700 - 100 * devtest
    assert not tuned & test and not {line.replace("en", "de") for line in seen} & test
    assert (job.data.devtest is not None) == devtest
    if job.data.devtest is not None and job.data.devtest.source is not None:
        chosen_on = set(job.data.devtest.source.read_text(encoding="utf-8").splitlines())
        assert len(chosen_on) == 100 and not chosen_on & (tuned | test)


def test_settings_are_jobs_and_differ(scripts: Callable[[str], ModuleType], news: Path) -> None:
    """What is set is a job, and what its name says; no two points of the grid are the same."""
    settings, runs = scripts("settings"), scripts("results")
    nc = scripts("builders").make(scripts("making").Asked(news / "work"), "nc")
    for part, make in settings.PARTS.items():
        found = make(nc)
        assert len({one.name for one in found}) == len(found)
        assert {one.base for one in found} <= {one.name for one in found} | {"defaults"}
        tasks = {one.name: runs.Task(nc, one, 1) for one in found}
        jobs = {name: task.base.replace(task.given).keys for name, task in tasks.items()}
        assert all(
            job.learner.algorithm == "sgd" or task.setting.given
            for job, task in zip(jobs.values(), tasks.values(), strict=True)
        )
        if part == "grid":
            assert len({task.digest for task in tasks.values()}) == len(tasks) == 34
            assert any(task.digest == runs.Task(nc, settings.DEFAULTS, 1).digest for task in tasks.values())
        if part == "robust":
            assert tasks["k-100"].digest == tasks["dev-all"].digest == tasks["defaults"].digest
            assert len({task.digest for task in tasks.values()}) == len(tasks) - 2
            assert jobs["itersel-32"].parallel.shards == 32
        if part == "ablation":
            assert (jobs["no-margin"].learner.margin, jobs["no-gold"].learner.gold) == (0.0, "liang")
            assert len({task.digest for task in tasks.values()}) == len(tasks)


def test_scaled_models_have_scaled_scores(scripts: Callable[[str], ModuleType], news: Path) -> None:
    sets = scripts("sets")
    nc = scripts("builders").make(scripts("making").Asked(news / "work"), "nc")
    hundred, one = nc.variant("all-x100").job.keys, nc.variant("one-x1000").job.keys
    rules = [gzip.decompress(job.grammar.file.read_bytes()).decode() for job in (hundred, one) if job.grammar.file]
    assert rules[0] == "[X] ||| de ||| en ||| 50.0 200.0 ||| 0-0\n"
    assert rules[1] == "[X] ||| de ||| en ||| 500.0 2.0 ||| 0-0\n"
    assert one.lm[0].file == nc.job.keys.lm[0].file
    arpa = gzip.decompress(hundred.lm[0].file.read_bytes()).decode()
    assert "-100.0\t<s>\t-50.0\n" in arpa and "-25.0\t<s> en\n" in arpa and "ngram 1=3" in arpa
    assert read_arpa(hundred.lm[0].file) is not None
    named = list(sets.scaled_grammar(["[X] ||| a ||| b ||| Other=1 EgivenFCoherent=2"], 1000.0, True))
    assert named == ["[X] ||| a ||| b ||| Other=1 EgivenFCoherent=2000.0"]


def test_the_best_of_the_grid(
    scripts: Callable[[str], ModuleType], news: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best three by the first seed are run with all seeds; weights beyond bounds are no score."""
    measure, runs, settings = scripts("measure"), scripts("results"), scripts("settings")
    nc = scripts("builders").make(scripts("making").Asked(news / "work"), "nc")
    names = [one.name for one in settings.grid(nc)]

    def run(task: Any) -> dict[str, Any]:
        place = names.index(task.setting.name) if task.setting.name in names else 30
        bleu = None if place == 33 else 20 + place / 10 - task.seed
        return {
            "set": nc.name, "setting": task.setting.name, "seed": task.seed, "digest": task.digest, "bleu": bleu,
            "error": "" if bleu else "NaN or infinite weights", "length_ratio": bleu and 1.0, "epoch": 10,
            "core_seconds": {"train": 36.0},
        }  # fmt: skip

    monkeypatch.setattr(runs, "run", run)
    monkeypatch.setattr(runs, "ProcessPoolExecutor", lambda at_once, *given, **more: ThreadPoolExecutor(at_once))
    monkeypatch.setattr(runs.Runs, "p_value", lambda self, a, b: 0.01 * a.seed)
    study = measure.Study(runs.Runs(news / "work", 1), [nc])
    study.do("grid")
    assert [one.name for one in study.best(nc)] == names[32:29:-1]
    rows = rows_of(study.table("grid"))
    assert [row["setting"] for row in rows[:4]] == ["defaults", *names[32:29:-1]]
    assert [rows[1][key] for key in ("seeds", "mean", "sd", "p", "core hours")] == [
        "5",
        "20.20",
        "1.58",
        "0.030",
        "0.050",
    ]
    assert rows[-1]["mean"] == "no numbers" and len(rows) == 38
    # 34 points, the defaults unless they are one of these, and four more seeds of the best three.
    assert len(written(news / "work" / "results.jsonl")) == 34 + 4 + 3 * 4


def test_a_run_without_numbers_is_a_result(
    scripts: Callable[[str], ModuleType], news: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other error ends the script."""
    runs, settings = scripts("results"), scripts("settings")
    task = runs.Task(scripts("builders").make(scripts("making").Asked(news / "work"), "nc"), settings.DEFAULTS, 1)
    message = "epoch 1: found NaN or infinite weights, expected numbers"

    def train(job: mpitune.Job) -> None:
        raise mpitune.DataError(message)

    monkeypatch.setattr(runs.mpitune, "prepare", lambda job: [])
    monkeypatch.setattr(runs.mpitune, "train", train)
    result = runs.run(task)
    assert (result["error"], result["bleu"], result["epochs"]) == ("NaN or infinite weights", None, 0)
    assert list(result["core_seconds"]) == ["train"] and json.loads(json.dumps(result)) == result
    message = "corpus.de:7: found 3 fields, expected 2"
    with pytest.raises(mpitune.DataError, match=r"corpus.de:7"):
        runs.run(task)


def test_epochs_that_are_results(scripts: Callable[[str], ModuleType]) -> None:
    """Lowest and highest, in this order; a dense start that is the result has no epoch. Older results name none."""
    shown = scripts("measure").chosen_epochs
    assert shown([{"epoch": epoch} for epoch in (8, 16, 3)]) == "3-16"
    assert shown([{"epoch": 8, "dense": None}] * 2) == "8"
    dense = [{"epoch": 1, "dense": score} for score in (30.0, 31.0)]
    assert shown(dense) == "dense start (30.50)"
    assert shown([*dense, {"epoch": 2, "dense": None}]) == "dense start (30.50), 2"


def test_settings_are_compared_seed_by_seed(
    scripts: Callable[[str], ModuleType], news: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the first seed has no result."""
    measure, runs = scripts("measure"), scripts("results")
    nc = scripts("builders").make(scripts("making").Asked(news / "work"), "nc")
    study = measure.Study(runs.Runs(news / "work", 1), [nc])
    setting = next(one for one in study.settings("sparse", nc) if one != measure.DEFAULTS)
    bleu = {"defaults": {1: 10.0, 2: 20.0}, setting.name: {2: 20.5}}

    def result(task: Any) -> dict[str, Any] | None:
        found = bleu[task.setting.name].get(task.seed)
        return None if found is None else {"bleu": found}

    monkeypatch.setattr(study.runs, "result", result)
    monkeypatch.setattr(study.runs, "p_value", lambda a, b: 0.5)
    tasks = [task for task in study.tasks("sparse", nc, setting) if study.result(task)]
    assert study.compared("sparse", tasks) == ["defaults", "+0.50", "0.500"]


@pytest.mark.slow
def test_tuned_on_training_pairs_the_epoch_is_chosen_on_others(
    scripts: Callable[[str], ModuleType], little: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--training", "--small", "--sets", "demo:40", "--part", "sparse", "--seeds", "2", "--epochs", "3"]
    scripts("measure").main([*words, "--work", str(tmp_path)])
    folder = tmp_path / "demo-40-training"
    pairs = gzip.decompress((tmp_path / "corpus" / "train.ja.gz").read_bytes()).decode().splitlines()
    assert (folder / "tune.source").read_text(encoding="utf-8").splitlines() == pairs[:40]
    assert (folder / "devtest.source").read_text(encoding="utf-8").splitlines() == pairs[380:]
    assert (folder / "devtest.reference").is_file()
    results = written(tmp_path / "results.jsonl")
    (cell,) = (row["devtest by epoch"] for row in rows_of(capsys.readouterr().out) if row["setting"] == "all-templates")
    assert {one["epochs"] for one in results} == {3}, "--epochs counts, not the two of --small"
    means = [
        statistics.mean(one["devtest"][n] for one in results if one["setting"] == "all-templates") for n in range(3)
    ]
    assert [part.split(" ")[0] for part in cell.split(", ")] == [f"{mean:.2f}" for mean in means]


def test_held_out_pairs_are_not_in_the_bitext(
    scripts: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data" / "multi30k"
    data.mkdir(parents=True)
    texts = {"train.de": "d", "train.en": "e", "train.de-en.align": "0-0"}
    texts |= {
        f"{part}.{side}": part for part in ("val", "test_2016_flickr", "test_2017_flickr") for side in ("de", "en")
    }
    for name, word in texts.items():
        with gzip.open(data / f"{name}.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{word}\n" if "-" in word else f"{word} {n}\n" for n in range(1500))
    monkeypatch.setenv("MPITUNE_DATA", str(tmp_path / "data"))
    asked = scripts("making").Asked(tmp_path, training=True)
    made = scripts("builders").make(asked, "multi30k:300")
    job = made.job.keys
    assert made.name == "multi30k:300+training" and made.size == 300 and job.learner.algorithm == "itersel"
    assert job.grammar.leave_one_out and job.grammar.source is not None and job.data.devtest is not None
    with gzip.open(job.grammar.source, "rt", encoding="utf-8") as file:
        assert file.read().splitlines() == [f"d {n}" for n in range(500)]
    assert job.data.devtest.source is not None
    assert job.data.devtest.source.read_text(encoding="utf-8").splitlines() == [f"d {n}" for n in range(500, 1500)]
    assert "no folder" in scripts("builders").make(asked, "nc")
    assert scripts("builders").make(asked, "into-german") == "it is not made for --training"


def test_a_set_in_the_other_direction(
    scripts: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data" / "multi30k"
    data.mkdir(parents=True)
    for part in ("train", "val", "test_2016_flickr"):
        for side in ("de", "en"):
            with gzip.open(data / f"{part}.{side}.gz", "wt", encoding="utf-8") as file:
                file.writelines(f"{side} {part} {n}\n" for n in range(11_000 if part == "train" else 600))
    with gzip.open(data / "train.de-en.align.gz", "wt", encoding="utf-8") as file:
        file.writelines("0-0 1-2\n" for _ in range(11_000))
    monkeypatch.setenv("MPITUNE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(scripts("builders"), "estimate_lm", lambda text, order, output: output)
    made = scripts("builders").make(scripts("making").Asked(tmp_path), "into-german")
    job = made.job.keys
    assert made.size == 400 and made.source.read_text(encoding="utf-8").startswith("en test_2016_flickr 0\n")
    assert job.grammar.source is not None
    for file, first in {job.grammar.source: "en train 0", job.grammar.alignment[0]: "0-0 2-1"}.items():
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            texts = lines.read().splitlines()
        assert len(texts) == 10_000 and texts[0] == first
    # No sentence of the language model is in the bitext.
    assert (made.folder / "lm.text").read_text(encoding="utf-8").splitlines()[0] == "de train 10000"
