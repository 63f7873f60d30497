"""N-best lists with metrics of their own, and features of their texts: whole runs over the lists of a tiny task."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from support.commands import Cli
from support.mpi import mpirun
from support.runs import SENTENCES, TRAIN_JOBS, Decodes, epoch_weights, files_of, kept, metrics
from support.tiny import Tiny
from support.tiny_lists import Hypothesis, TinyLists, tables_of

from mpitune.errors import DataError, StopRequested
from mpitune.exchange.comm import SerialComm
from mpitune.metrics.tuning_metric import Metric
from mpitune.training import job_inputs
from mpitune.training.loop import train

METHODS = ["perceptron", "mira", "pro", "mert", "minrisk", "rampion"]
NO_REFERENCES: dict[str, Any] = {"data": {"references": []}, "data__devtest": {"references": []}}


@pytest.fixture(scope="module")
def lists(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> TinyLists:
    """The lists also as ``.metrics``, where "comet" is the share of the longest word, and "words" the length."""
    lists = TinyLists(tiny, tmp_path_factory.mktemp("metrics"))
    for name, part in lists.lists.items():
        entries = [(number, entry) for number, entries in enumerate(part) for entry in entries]
        write(lists.folder / f"{name}.metrics", entries)
        (lists.folder / f"{name}.comet").write_text("".join(f"{comet(entry)!r}\n" for _, entry in entries))
    return lists


def write(path: Path, entries: Sequence[tuple[int, Hypothesis]], percent: float = 1.0) -> None:
    path.write_text(
        "".join(
            json.dumps(
                {
                    "id": number,
                    "text": entry.text,
                    "features": entry.features,
                    "metrics": {"comet": percent * comet(entry), "words": len(entry.text.split())},
                }
            )
            + "\n"
            for number, entry in entries
        )
    )


def comet(entry: Hypothesis) -> float:
    words = entry.text.split()
    return max(map(len, words), default=0) / max(len(entry.text), 1)


def run_job(lists: TinyLists, run: Path, metric: Any, kind: str = "metrics", /, **tables: Any) -> None:
    train(job_inputs.load_job(job_of(lists, run, metric, kind, **tables), []), SerialComm())


def job_of(lists: TinyLists, run: Path, metric: Any, kind: str = "metrics", /, **tables: Any) -> Path:
    # A store of its own: it depends on the metric.
    tables = {"run": {"store": str(run / "store")}, **tables}
    if isinstance(metric, dict):
        return lists.job_file(run, kind, **tables, learner__metric=metric)
    tables["learner"] = {**tables.get("learner", {}), "metric": metric}
    return lists.job_file(run, kind, **tables)


@pytest.mark.parametrize("method", METHODS)
def test_a_column_is_learned_without_references(lists: TinyLists, tmp_path: Path, method: str) -> None:
    run_job(lists, tmp_path / "run", "comet", **tables_of(method, 3), **NO_REFERENCES)
    epochs = metrics(tmp_path / "run")
    for epoch in epochs:
        assert epoch["metric_random"] < epoch["metric_oracle"] and epoch["metric_best"] <= epoch["metric_oracle"]
        assert epoch["devtest_bleu"] is epoch["best_bleu"] is epoch["length_ratio"] is None
    # Unlike the first ones, the last lists are sorted by weights that know the metric.
    assert epochs[-1]["metric_best"] > epochs[-1]["metric_random"]
    found = [epoch["devtest_metric"] for epoch in epochs]
    assert found == pytest.approx([sum(chosen(tmp_path / "run", n)) / len(lists.lists["dev"]) for n in (1, 2, 3)])
    best = 1 + found.index(max(found))
    log = (tmp_path / "run" / "log.txt").read_text()
    assert f"holds the weights of epoch {best}, the best on devtest" in log


def chosen(run: Path, epoch: int) -> list[float]:
    """The metric "comet" of each translation of the devtest set."""
    return [comet(Hypothesis(text, {})) for text in kept(run, f"epoch-{epoch:04d}")]


def test_the_choices_of_an_epoch_are_those_of_the_lists(lists: TinyLists, tmp_path: Path) -> None:
    run_job(lists, tmp_path / "run", "comet", **tables_of("pro", 1), **NO_REFERENCES)
    [epoch] = metrics(tmp_path / "run")
    values = [[comet(entry) for entry in unique(entries)] for entries in lists.lists["train"] if entries]
    assert epoch["metric_oracle"] == pytest.approx(sum(map(max, values)) / len(values))
    assert epoch["metric_random"] == pytest.approx(sum(sum(of) / len(of) for of in values) / len(values))
    # Without weights, the first entry of a list is its best.
    assert epoch["metric_best"] == pytest.approx(sum(of[0] for of in values) / len(values))


def unique(entries: Sequence[Hypothesis]) -> list[Hypothesis]:
    return list({entry.text: entry for entry in reversed(entries)}.values())[::-1]


@pytest.mark.parametrize("metric", ["ter", "chrf", {"bleu": 0.5, "comet": 0.5}, {"comet": 1.0, "words": -0.25}])
@pytest.mark.parametrize("method", ["perceptron", "pro", "mira"])
def test_every_metric_gets_better(lists: TinyLists, tmp_path: Path, metric: Any, method: str) -> None:
    run_job(lists, tmp_path / "run", metric, **tables_of(method, 3))
    last = metrics(tmp_path / "run")[-1]
    assert last["metric_random"] < last["metric_best"] <= last["metric_oracle"]
    translations, references = kept(tmp_path / "run", "epoch-0003"), (lists.folder / "dev.en").read_text().splitlines()
    assert last["devtest_bleu"] == pytest.approx(
        sacrebleu.corpus_bleu(translations, [references], tokenize="none").score
    )
    if metric == "ter":
        assert last["devtest_metric"] == pytest.approx(-sacrebleu.corpus_ter(translations, [references]).score)
    elif metric == "chrf":
        assert last["devtest_metric"] == pytest.approx(sacrebleu.corpus_chrf(translations, [references]).score)
    else:
        assert last["devtest_metric"] is not None


def test_spreads_are_means_over_lists(lists: TinyLists, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, set_spreads = list[np.ndarray](), Metric.set_spreads

    def spy(metric: Metric, spreads: np.ndarray) -> None:
        found.append(spreads)
        set_spreads(metric, spreads)

    monkeypatch.setattr(Metric, "set_spreads", spy)
    run_job(lists, tmp_path / "run", {"comet": 1.0, "words": -0.25}, **tables_of("perceptron", 1))
    values = [[(comet(entry), len(entry.text.split())) for entry in unique(part)] for part in lists.lists["train"]]
    spreads = [np.std(of_list, axis=0) for of_list in values]
    assert found[0] == pytest.approx(np.mean(spreads, axis=0), rel=1e-5)


def test_the_unit_of_a_column_does_not_matter(lists: TinyLists, tmp_path: Path) -> None:
    for name in ("train", "dev"):
        entries = [(number, entry) for number, part in enumerate(lists.lists[name]) for entry in part]
        write(lists.folder / f"{name}.percent", entries, percent=64.0)
    for kind in ("metrics", "percent"):
        run_job(lists, tmp_path / kind, "comet", kind, **tables_of("perceptron", 1))
    first, second = (epoch_weights(tmp_path / kind, 1) for kind in ("metrics", "percent"))
    assert second == pytest.approx(first, rel=1e-5, abs=1e-7)


def test_a_column_may_be_a_feature_or_a_file(lists: TinyLists, tmp_path: Path) -> None:
    """Of lists in other formats: what the metric names is then no feature."""
    run_job(lists, tmp_path / "json", "comet")
    for name in ("train", "dev"):
        with_feature = [
            [entry._replace(features={**entry.features, "comet": comet(entry)}) for entry in entries]
            for entries in lists.lists[name]
        ]
        lists.write(f"{name}.moses-comet", "moses", with_feature)
    (lists.folder / "train.moses-comet").rename(lists.folder / "train.feature")
    (lists.folder / "dev.moses-comet").rename(lists.folder / "dev.feature")
    run_job(lists, tmp_path / "feature", "comet", "feature")
    job = job_of(lists, tmp_path / "file", "comet", "moses")
    job.write_text(
        f'{job.read_text()}\n[[features.files]]\nname = "comet"\nfile = "train.comet"\ndevtest = "dev.comet"\n'
    )
    train(job_inputs.load_job(job, []), SerialComm())
    for other in ("feature", "file"):
        assert files_of(tmp_path / other) == files_of(tmp_path / "json")


@pytest.mark.mpi
def test_ranks_leave_no_trace(lists: TinyLists, tmp_path: Path) -> None:
    metric = {"chrf": 0.5, "comet": 0.5}
    for method in ("perceptron", "mert"):
        run_job(lists, tmp_path / method, metric, **tables_of(method))
        job = job_of(lists, tmp_path / f"{method}-2", metric, **tables_of(method))
        assert mpirun(2, [TRAIN_JOBS, job]).returncode == 0
        assert files_of(tmp_path / method) == files_of(tmp_path / f"{method}-2")


@pytest.mark.parametrize("method", ["perceptron", "pro"])
def test_a_stopped_run_goes_on_as_if_unbroken(lists: TinyLists, tmp_path: Path, decodes: Decodes, method: str) -> None:
    metric = {"ter": 0.5, "comet": 0.5}
    run_job(lists, tmp_path / "unbroken", metric, **tables_of(method))
    # The spreads of the metrics are measured first.
    decodes.count, decodes.stop_at = 0, (3, signal.SIGTERM)
    with pytest.raises(StopRequested, match="the comparison of the metrics; nothing of it is written"):
        run_job(lists, tmp_path / "run", metric, **tables_of(method))
    assert decodes.count <= 4
    decodes.count, decodes.stop_at = 0, (2 * SENTENCES + 10, signal.SIGTERM)
    with pytest.raises(StopRequested):
        run_job(lists, tmp_path / "run", metric, **tables_of(method))
    decodes.count, decodes.stop_at = 0, None
    run_job(lists, tmp_path / "run", metric, **tables_of(method))
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


def test_the_report_shows_the_metric(lists: TinyLists, tmp_path: Path, cli: Cli) -> None:
    run_job(lists, tmp_path / "run", "comet", **NO_REFERENCES)
    assert cli("report", tmp_path / "run").code == 0
    html = (tmp_path / "run" / "report.html").read_text()
    assert "the best on devtest by comet" in html and "comet of the lists" in html and "Devtest comet is" in html
    assert (tmp_path / "run" / "plots" / "choices.png").is_file()
    run_job(lists, tmp_path / "bleu", "bleu")
    assert cli("report", tmp_path / "bleu").code == 0
    assert "BLEU of the lists" in (tmp_path / "bleu" / "report.html").read_text()
    assert cli("report", tmp_path / "bleu", tmp_path / "run").code == 0
    shown = cli("evaluate", "--lists", lists.folder / "dev.metrics", "--refs", lists.folder / "dev.en")
    assert shown.output.splitlines()[0].split() == ["lists", "choice", "bleu", "ter", "chrf", "comet", "words"]
    found = json.loads(cli("evaluate", "--lists", lists.folder / "dev.metrics", "--json").output)
    values = [[comet(entry) for entry in unique(entries)] for entries in lists.lists["dev"] if entries]
    [of_file] = found.values()
    assert of_file["comet"]["oracle"] == pytest.approx(sum(map(max, values)) / len(values))
    said = cli.refused(2, "evaluate", "--lists", lists.folder / "dev.metrics", "--markdown")
    assert said == "--markdown: found beside --lists, expected --json at most"
    assert cli.refused(2, "evaluate", "--hyps", lists.folder / "dev.de").startswith("--refs: found none")


def test_bad_metrics(lists: TinyLists, tmp_path: Path) -> None:
    def refused(lines: str) -> str:
        (lists.folder / "train.bad").write_text(lines)
        (lists.folder / "dev.bad").write_text('{"id": 0, "text": "a", "metrics": {"comet": 1}}\n')
        with pytest.raises(DataError) as error:
            run_job(lists, tmp_path / "run", "comet", "bad", **NO_REFERENCES)
        return str(error.value).removeprefix(f"{lists.folder}/")

    good = '{"id": 0, "text": "a", "metrics": {"comet": 1}}\n'
    expected = "a value among its metrics or features, as learner.metric asks for"
    assert refused(f'{good}{{"id": 0, "text": "b"}}\n') == f"train.bad:2: found no comet, expected {expected}"
    for other in ("COMET", "cOmEt"):
        assert refused(good.replace("comet", other)).endswith(f"{expected}; did you mean {other}?")
    with pytest.raises(DataError) as error:
        run_job(lists, tmp_path / "run", "TER", "bad")
    assert str(error.value).endswith(f"train.bad:1: found no TER, expected {expected}; did you mean ter?")
    assert refused(good.replace("1}", "1e9}")).endswith("of comet, expected a metric from -10000 to 10000")
    assert (
        refused(good.replace("1}", '"x"}'))
        == 'train.bad:1: found value "x" of comet, expected a number from -1e30 to 1e30'
    )
    assert refused(f"{good}{good.replace('0', '10000000')}") == (
        "train.bad:2: found number 10000000, expected at most 9999999"
    )
    told = "learner.metric: found the same comet in all entries of each list, expected different values"
    assert refused(good + good.replace('"a"', '"b"')).endswith(told)


def test_a_metric_that_only_rounding_tells_apart_is_refused(tmp_path: Path) -> None:
    """Ten entries with one of seven words wrong each: all have the same TER, whose deviation is not quite 0."""
    right = ["a", "b", "c", "d", "e", "f", "g"]
    wrong = [[*right[: n % 7], f"x{n}", *right[n % 7 + 1 :]] for n in range(10)]
    entries = [
        {"id": i, "text": " ".join(text), "features": {"f": n % 7}} for i in range(3) for n, text in enumerate(wrong)
    ]
    (tmp_path / "lists").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    (tmp_path / "references").write_text("a b c d e f g\n" * 3)
    (tmp_path / "job.toml").write_text(
        '[data]\nlists = ["lists"]\nreferences = ["references"]\n[decoder]\nbackend = "lists"\n'
        "[learner]\nmetric = { bleu = 0.5, ter = 0.5 }\n"
    )
    with pytest.raises(DataError, match="found the same ter in all entries of each list"):
        train(job_inputs.load_job(tmp_path / "job.toml", []), SerialComm())


def test_features_of_the_text(lists: TinyLists, tmp_path: Path, cli: Cli) -> None:
    (lists.folder / "lexicon").write_text("der the 0.5\nmann man 1\nhaus house\n")
    tables: dict[str, Any] = {
        "features": {"templates": ["text-length", "target-ngrams", "lexicon-pair"], "lexicon": "lexicon"},
        "data": {"source": "train.de"},
        "data__devtest": {"source": "dev.de"},
        "select": {"k": 2000},
    }
    run_job(lists, tmp_path / "run", "bleu", "cdec", **tables)
    weights = epoch_weights(tmp_path / "run", 2)
    assert weights["TextLength"] != 0 and any(weights.get(f"LP:{pair}") for pair in ("der_the", "mann_man"))
    assert len([name for name in weights if name.startswith("TN:")]) > 10
    job = job_of(lists, tmp_path / "run", "bleu", "cdec", **tables)
    command = ["rerank", job, "--input", lists.folder / "dev.cdec", "--weights"]
    command += [tmp_path / "run" / "weights" / "epoch-0002.txt.gz"]
    done = cli(*command, "--source", lists.folder / "dev.de")
    assert done.output.splitlines() == kept(tmp_path / "run", "epoch-0002")
    assert cli.refused(2, *command).startswith("--source: found none, expected the source sentences")
    (tmp_path / "short").write_text("der mann\n")
    assert "expected at most 0, as" in cli.refused(3, *command, "--source", tmp_path / "short")
