"""Bins in whole runs over a tiny task: the same for any number of ranks, kept with the model, used for new text."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.mpi import mpirun
from support.runs import TRAIN_JOBS, result
from support.stages import Stages
from support.tiny import DEVTEST, Tiny

from mpitune.cli.parser import main
from mpitune.config.effective_keys import effective_keys, ignored_keys
from mpitune.config.load import load
from mpitune.config.spec import Job
from mpitune.corpus.weights import read_weights
from mpitune.decoder.base import TranslationModel
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.errors import StopRequested, UsageError
from mpitune.exchange.comm import SerialComm
from mpitune.grammar.binning import make_bins
from mpitune.learner.bin_chains import linear
from mpitune.run_folder.checkpoint import read_checkpoint
from mpitune.run_folder.model_weights import read_scoring
from mpitune.runtime.signals import StopFlag
from mpitune.store import build
from mpitune.store.store import open_store
from mpitune.training import job_inputs
from mpitune.training.open_run import fit, open_fitted

BINS: dict[str, Any] = {"features": ["Cost", "Lex"], "bins": 4}
PRO: dict[str, Any] = {"method": "pro", "learning_rate": None, "pro.candidates": 200, "pro.c": 1.0}


def weights_of(run: Path) -> dict[str, float]:
    return read_weights(run / "weights.txt.gz")


def in_bins(**keys: Any) -> dict[str, Any]:
    return {"features__discretize": {**BINS, **keys}}


JOBS: dict[str, dict[str, Any]] = {
    "pro": {**in_bins(regularizer="monotone"), "learner": PRO},
    "itersel": in_bins(regularizer="linear", overlap=1, keep=True),
    "beside": {**in_bins(keep=True, conjunctions=["Cost Lex"]), "learner": {"preset": None}},
    "mira": {**in_bins(regularizer="monotone", conjunctions=["Cost Lex"]), "learner": {"method": "mira"}},
}


@pytest.mark.mpi
def test_any_number_of_ranks(tiny: Tiny, tmp_path: Path) -> None:
    done = mpirun(3, [TRAIN_JOBS, *(tiny.job_file(tmp_path / f"{name}-3", **JOBS[name]) for name in JOBS)])
    assert (done.returncode, done.stderr) == (0, "")
    for name, tables in JOBS.items():
        tiny.train(tmp_path / name, **tables)
        one, many = (tmp_path / name, tmp_path / f"{name}-3")
        assert (one / "scoring.json").read_bytes() == (many / "scoring.json").read_bytes()
        weights = result(one)
        assert weights == result(many), name
        assert b"Cost_2 " in weights and (b"Cost " in weights) == (name in ("itersel", "beside"))


def test_bins_are_those_of_the_tuning_grammars(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule of a sentence's own grammar counts, those of devtest's do not; parts may be counted by many ranks."""
    own = {"source": "own.de", "references": ["own.de"]}
    shutil.copy(tiny.folder / "grammar", tiny.folder / "another")
    devtest = tiny.folder / "other.de"
    devtest.write_text('<seg grammar="another" id="0">das haus</seg>\n')
    tables = {
        "data": own,
        "data__devtest": {"source": "other.de", "references": ["other.de"]},
        "grammar": {"file": None, "per_sentence": True},
    }
    job = tiny.job(tmp_path / "run", **tables)
    sources = job_inputs.sources(job)
    build.build_store(sources, job.run.store)
    store = open_store(sources, job.run.store)
    values = [
        float(score.partition("=")[2])
        for n in range(3)
        for line in (tiny.folder / f"own.{n}").read_text().splitlines()
        # A rule that does not name it has 0.
        for score in [next((s for s in line.split("|||")[3].split() if s.startswith("Lex=")), "Lex=0")]
    ]
    expected = make_bins("Lex", *np.unique(values, return_counts=True), 4)
    parts: dict[int, Any] = {}

    class Rank(SerialComm):
        """One of three, all of whose parts are collected first."""

        def __init__(self, rank: int) -> None:
            self.rank, self.size = rank, 3

        def gather(self, obj: Any) -> Any:
            parts[self.rank] = obj
            return [parts[rank] for rank in sorted(parts)]

    for comm, share in ((SerialComm(), 3), (Rank(0), 1), (Rank(1), 1), (Rank(2), 1)):
        stages = Stages(monkeypatch)
        [found] = fit(comm, store, ["Lex"], 4)
        assert stages.done == {"grammars counted for bins": (share, share)}
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)
    assert found.population.sum() == len(values)
    with StopFlag(), pytest.raises(StopRequested, match="stopped by SIGTERM in the making of bins"):
        signal.raise_signal(signal.SIGTERM)
        fit(SerialComm(), store, ["Lex"], 4)


@pytest.fixture
def decoded(tiny: Tiny, tmp_path: Path) -> Callable[..., list[dict[str, float]]]:
    """Features of the best translations of new text, by a model."""

    def decode(job: Path, *options: str) -> list[dict[str, float]]:
        output = tmp_path / "out"
        given = ["--input", os.fspath(tiny.folder / "dev.de"), "--output", os.fspath(output), "--format", "cdec"]
        assert main(["decode", os.fspath(job), *given, *options]) == 0
        rows = [line.split(" ||| ")[2].split() for line in output.read_text().splitlines()]
        return [{pair.partition("=")[0]: float(pair.partition("=")[2]) for pair in row} for row in rows]

    return decode


def test_new_text_is_put_into_the_bins_of_the_model(
    tiny: Tiny,
    tmp_path: Path,
    decoded: Callable[..., list[dict[str, float]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, job = tmp_path / "run", tiny.job_file(tmp_path / "run", **in_bins())
    tiny.train(run, **in_bins())
    scoring = read_scoring(run)
    assert scoring is not None and [bins.feature for bins in scoring.bins] == ["Cost", "Lex"]
    fired = decoded(job)
    # Each rule fires one bin of each feature, whatever its number of rules is.
    for row in fired:
        of = {name: sum(value for n, value in row.items() if n.startswith(f"{name}_")) for name in ("Cost", "Lex")}
        assert of["Cost"] == of["Lex"] >= 1 and not {"Cost", "Lex"} & row.keys()
    # Not fitted again: with other bins in the run's file, those are fired, be the weights named by folder or file.
    everything = json.loads((run / "scoring.json").read_text())
    for bins in everything["bins"]:
        bins |= {"least": bins["least"][:1], "most": bins["most"][-1:], "population": [46]}
    (run / "scoring.json").write_text(json.dumps(everything))
    for weights in (run, run / "weights.txt.gz", run / "weights" / "epoch-0001.txt.gz"):
        assert {name for row in decoded(job, "--weights", os.fspath(weights)) for name in row} & {
            f"{name}_{n}" for name in ("Cost", "Lex") for n in range(1, 5)
        } == {"Cost_1", "Lex_1"}
    # A checkpoint holds its own.
    checkpoint = run / "checkpoints" / "epoch-0002.h5"
    assert decoded(job, "--weights", os.fspath(checkpoint)) == fired
    assert read_checkpoint(checkpoint).scoring == scoring.as_json()
    # Weights that lie elsewhere are taken for the job's own; without any bins nothing is made up.
    apart = tmp_path / "apart.txt.gz"
    shutil.copy(run / "weights.txt.gz", apart)
    (run / "scoring.json").write_text(json.dumps(scoring.as_json()))
    assert decoded(job, "--weights", os.fspath(apart)) == fired
    (run / "scoring.json").write_text("{}")
    capsys.readouterr()
    arguments = ["decode", os.fspath(job), "--input", os.fspath(tiny.folder / "dev.de"), "--weights", os.fspath(apart)]
    assert main(arguments) == 3
    assert "scoring.json: found a damaged file, expected what a run has written there" in capsys.readouterr().err
    (run / "scoring.json").unlink()
    assert main(arguments) == 2
    assert "found no bins or transforms of scores for it, expected scoring.json" in capsys.readouterr().err


def test_initial_weights_of_features_in_bins_are_given_to_the_bins(tiny: Tiny, tmp_path: Path) -> None:
    """And so none of them is said not to count."""
    (tiny.folder / "given").write_text("Cost 0.5\nLex -0.25\n")
    tiny.train(tmp_path / "run", **in_bins(), learner={"initial_weights": "given", "epochs": 1})
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "do not count" not in log and "none of its features" not in log


@pytest.mark.parametrize("keep", [False, True])
def test_lengths_of_target_sides_and_conjunctions(tiny: Tiny, tmp_path: Path, keep: bool) -> None:
    """The features of the best translations are those of a plain sum over the rules of their derivations."""
    wanted = {"features": ["Lex", "WordPenalty"], "conjunctions": ["WordPenalty Lex"], "bins": 3, "keep": keep}
    job = tiny.job(tmp_path / "run", features__discretize=wanted)
    sources = job_inputs.sources(job)
    build.build_store(sources, job.run.store)
    store = open_fitted(SerialComm(), job, sources, job.run.store)
    assert store.scoring is not None and store.train is not None and isinstance(store.model, TranslationModel)
    bins = {of.feature: of for of in store.scoring.bins}
    decoder = EmbeddedDecoder(store.model)
    random = np.random.default_rng(1)
    weights, fired = random.normal(size=len(decoder.features)), set()

    def fires(feature: str, value: float) -> str:
        most = bins[feature].most.tolist()
        return f"{feature}_{next((n for n, largest in enumerate(most) if largest >= value), len(most) - 1) + 1}"

    for n in range(store.train.size):
        graph = decoder.forest(store.train.sentence(n), weights, 5)
        kbest = decoder.decode(store.train.sentence(n), weights, 5)
        for j, derivation in enumerate(graph.best):
            expected: Counter[str] = Counter()
            for edge in derivation.edges():
                number = int(graph.edge_rule[edge])
                here = slice(graph.feature_ptr[number], graph.feature_ptr[number + 1])
                own = {decoder.features.name(i) for i in graph.feature_index[here].tolist()}
                words = sum(isinstance(symbol, str) for symbol in graph.rules[number].target)
                length = fires("WordPenalty", -words / math.log(10))
                if graph.origin[number] == "pass-through":
                    expected[length] += 1
                elif graph.origin[number] == "grammar":
                    # Which of the rules with the same sides it was is told by its bin of Lex alone.
                    [lexical] = own & {f"Lex_{m}" for m in range(1, 4)}
                    expected.update([length, lexical, f"{length}&{lexical}"])
            row = slice(kbest.feature_ptr[j], kbest.feature_ptr[j + 1])
            values = zip(kbest.feature_index[row].tolist(), kbest.feature_value[row].tolist(), strict=True)
            found = {decoder.features.name(slot): value for slot, value in values}
            assert {name: v for name, v in found.items() if name.startswith(("Lex_", "WordPenalty_"))} == expected
            assert ("WordPenalty" in found) == (keep and len(kbest.translation(j)) > 0)
            fired |= expected.keys()
    assert len(fired) > 6, "several bins of each, and pairs"


def test_grammars_of_new_text_do_not_move_the_bins(tiny: Tiny, tmp_path: Path) -> None:
    """Its values lie beyond all that tuning has seen: all of them are in the last bin, and would not be if fitted."""
    text = (tiny.folder / "grammar").read_text()
    costs = dict.fromkeys(re.findall(r"Cost=[0-9.]+", text))
    for n, cost in enumerate(sorted(costs, key=len, reverse=True)):
        text = text.replace(cost, f"Cost=={100 + n}")
    (tiny.folder / "costly").write_text(text.replace("==", "="))
    (tiny.folder / "new.de").write_text('<seg grammar="costly" id="0">der mann hat das haus gesehen</seg>\n')
    run = tmp_path / "run"
    tables = {
        "data": {"source": "own.de", "references": ["own.de"]},
        "grammar": {"file": None, "per_sentence": True},
        "learner": {"epochs": 1},
        **in_bins(features=["Cost"]),
    }
    tiny.train(run, **tables)
    arguments = ["--input", os.fspath(tiny.folder / "new.de"), "--output", os.fspath(tmp_path / "out")]
    assert main(["decode", os.fspath(tiny.job_file(run, **tables)), *arguments, "--format", "cdec"]) == 0
    fired = re.findall(r"Cost_?\w*", (tmp_path / "out").read_text())
    assert fired == ["Cost_4"]


def test_transformed_scores_become_features(
    tiny: Tiny, tmp_path: Path, decoded: Callable[..., list[dict[str, float]]]
) -> None:
    """A job of its own; translations alone tell: values of dense features become sums of transformed ones."""
    file = tiny.job_file(tmp_path / "run", learner={"epochs": 1})
    text = '[features.unlog]\nlog10_plus_1 = ["Cost"]\nln = ["Lex"]\n'
    job = file.with_name("transformed.toml")
    job.write_text(file.read_text() + text)
    assert main(["train", os.fspath(job), "--quiet"]) == 0
    weights = tmp_path / "weights"
    weights.write_text("LanguageModel 1\nPassThrough -9\n")
    linear = decoded(file, "--set", f"run.dir={tmp_path / 'none'}", "--weights", os.fspath(weights), "--nbest", "1")
    changed = decoded(job, "--weights", os.fspath(weights))
    # With the same weights, none of them for Cost, the translations are the same.
    assert [row["LanguageModel"] for row in changed] == [row["LanguageModel"] for row in linear]
    assert all(new["Cost"] >= 10 ** (old["Cost"] / 9) - 1 for new, old in zip(changed, linear, strict=True))
    assert any(new["Cost"] > old["Cost"] for new, old in zip(changed, linear, strict=True))
    # What was 0 is 1 in each rule.
    assert all(new["Lex"] >= 1 for new in changed)


def test_smoothing_smooths(tiny: Tiny, tmp_path: Path) -> None:
    bends = {}
    for kind in ("none", "linear"):
        run = tmp_path / kind
        tiny.train(run, **in_bins(regularizer=kind, beta=3.0), learner={"algorithm": "itermix"})
        weights = weights_of(run)
        bends[kind] = sum(
            linear(np.array([weights.get(f"{name}_{n}", 0.0) for n in range(1, 5)]))[0] for name in BINS["features"]
        )
    assert bends["linear"] < 0.3 * bends["none"]


@pytest.mark.parametrize("algorithm", ["mix", "itermix", "itersel"])
def test_the_mean_of_smooth_shards_is_smooth(tiny: Tiny, tmp_path: Path, algorithm: str) -> None:
    """Nearly straight lines have nearly a straight line as their mean, though each bin differs in other shards."""
    learner = {"preset": "default", "learning_rate": None, "algorithm": algorithm}
    tables = {"learner": learner, "features": {"templates": []}, "parallel": {"shards": 4}}
    tiny.train(tmp_path / "run", **in_bins(regularizer="linear", beta=1e4, bins=8), **tables)
    weights = weights_of(tmp_path / "run")
    for name in BINS["features"]:
        chain = np.array([weights[of_bin] for n in range(1, 9) if (of_bin := f"{name}_{n}") in weights])
        assert len(chain) > 3 and linear(chain)[0] < 1e-6 * float(chain @ chain)


def test_resumed_runs_and_changed_bins(tiny: Tiny, tmp_path: Path) -> None:
    tables = {**JOBS["pro"], **DEVTEST}
    tiny.train(tmp_path / "whole", **tables)
    tiny.train(tmp_path / "parts", **{**tables, "learner": {**PRO, "epochs": 1}})
    tiny.train(tmp_path / "parts", resume="must", **tables)
    assert weights_of(tmp_path / "parts") == weights_of(tmp_path / "whole")
    with pytest.raises(UsageError, match=r"the job has changed.*features.discretize.bins \(was 4, is 3\)"):
        tiny.train(tmp_path / "parts", **{**tables, **in_bins(bins=3, regularizer="monotone")})
    # Started over without bins, nothing of them is left.
    tiny.train(tmp_path / "parts", resume="never", learner={**PRO, "epochs": 1})
    assert read_scoring(tmp_path / "parts") is None and "Cost" in weights_of(tmp_path / "parts")


def test_weights_given_for_the_linear_feature_start_the_bins(tiny: Tiny, tmp_path: Path) -> None:
    start = tmp_path / "start"
    start.write_text("Cost -1\nLanguageModel 0.5\n")
    keys = {"initial_weights": os.fspath(start), "frozen": ["Cost_1", "LanguageModel"]}
    tiny.train(tmp_path / "run", **in_bins(), learner={"epochs": 1, **keys})
    scoring, weights = read_scoring(tmp_path / "run"), weights_of(tmp_path / "run")
    assert scoring is not None
    bins = scoring.bins[0]
    assert weights["Cost_1"] == -(bins.least[0] + bins.most[0]) / 2 and "Cost" not in weights


def test_new_text_takes_the_weights_that_training_began_with_alike(
    tiny: Tiny, tmp_path: Path, decoded: Callable[..., list[dict[str, float]]]
) -> None:
    """Those of a feature that has become bins are weights of these."""
    run, start = tmp_path / "run", tmp_path / "start"
    start.write_text("Cost 1\nLanguageModel 0.5\n")
    tiny.train(run, **in_bins(), **DEVTEST, learner={"epochs": 1, "initial_weights": os.fspath(start)})
    job = tiny.job_file(run, **in_bins())
    scoring = read_scoring(run)
    assert scoring is not None
    (tmp_path / "spread").write_text(
        "".join(
            f"{name} {weight}\n" for name, weight in scoring.to_bin_weights({"Cost": 1, "LanguageModel": 0.5}).items()
        )
    )
    found = [decoded(job, "--weights", os.fspath(file)) for file in (start, tmp_path / "spread")]
    assert found[0] == found[1]
    (tmp_path / "without").write_text("LanguageModel 0.5\n")
    assert found[0] != decoded(job, "--weights", os.fspath(tmp_path / "without"))


# The job file


def refused(tiny: Tiny, tmp_path: Path, text: str, **tables: Any) -> str:
    file = tiny.job_file(tmp_path / "run", **tables)
    file.write_text(file.read_text() + text)
    with pytest.raises(UsageError) as error:
        load(file)
    return str(error.value).removeprefix(f"{file}: ")


@pytest.mark.parametrize(
    ("text", "tables", "said"),
    [
        ("", in_bins(bins=0), "features.discretize.bins: found 0, expected a whole number of at least 1"),
        ("", in_bins(features=["A", "B", "A"]), "features.discretize.features: found A twice, expected each"),
        ("", {"features__unlog": {"ln": ["Cost"], "minus_ln": ["Lex", "Cost"]}}, "features.unlog: found Cost twice"),
        ("", {**in_bins(), "decoder": {"backend": "cdec"}}, "features.discretize.features: cdec reads grammar files"),
        *(
            (
                "",
                in_bins(conjunctions=[pair]),
                f'features.discretize.conjunctions: found "{pair}", expected two of features.discretize.features',
            )
            for pair in ("Cost", "Cost Rare", "Lex Lex", "Cost Lex Cost")
        ),
        (
            "",
            {**in_bins(regularizer="linear"), "learner": {"method": "mert", "learning_rate": None}},
            'features.discretize.regularizer = "linear": expected learner.method to be perceptron or mira or pro or',
        ),
    ],
)
def test_bad_bins_are_refused(tiny: Tiny, tmp_path: Path, text: str, tables: dict[str, Any], said: str) -> None:
    assert refused(tiny, tmp_path, text, **tables).startswith(said)


def test_a_score_that_no_rule_has(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="found Coast, expected a score of the grammar: Cost, Lex, Rare, Order"):
        tiny.train(tmp_path / "run", **in_bins(features=["Coast"]))


def test_without_bins_none_of_the_keys_count(tiny: Tiny, tmp_path: Path) -> None:
    """Checkpoints made before there were any are those of the same job."""

    def job(**keys: Any) -> Job:
        return tiny.job(tmp_path / "run", features__discretize=keys)

    assert not any("discretize" in key for key in effective_keys(job(bins=7)))
    assert ignored_keys(job(bins=7)) == ["features.discretize.bins"]
    assert ignored_keys(job(**BINS, beta=2.0, gamma=2.0)) == ["features.discretize.beta", "features.discretize.gamma"]
    assert ignored_keys(job(**BINS, regularizer="linear", beta=2.0)) == []
