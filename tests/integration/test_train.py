"""Whole runs over a tiny task: what they learn, what they write, and that no interruption leaves a trace."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support import naive, naive_default
from support.mpi import launcher, mpirun
from support.runs import SENTENCES, SHARD_SIZES, TRAIN_JOBS, Decodes, damage, epoch_weights, files_of, metrics, result
from support.tiny import DEVTEST, Tiny, kill_all, start, wait_for

import mpitune.training.loop
from mpitune.array_files.atomic import write_text
from mpitune.cli.parser import main
from mpitune.config import load
from mpitune.corpus.vocabulary import feature_id
from mpitune.corpus.weights import read_weights
from mpitune.decoder.base import KBest
from mpitune.errors import DataError, MachineError, StopRequested, UsageError
from mpitune.exchange.comm import SerialComm
from mpitune.learner.base import Counts
from mpitune.learner.online.perceptron import Perceptron
from mpitune.learner.weights import Weights
from mpitune.ownership import FolderLock
from mpitune.run_folder.checkpoint import VERSION, read_checkpoint, write_checkpoint
from mpitune.run_folder.layout import RunFolder, checkpoint_path
from mpitune.training.open_run import open_run
from mpitune.training.scheduler import draw_shards, reordered

ALGORITHMS = ["sgd", "mix", "itermix", "itersel"]
DEFAULT: dict[str, Any] = {"preset": "default", "learning_rate": None}
"""What [learner] says for this version's own defaults, whose learner keeps a state; the tiny job has a paper's."""
PRESETS = pytest.mark.parametrize("preset", [{}, DEFAULT], ids=["simianer2012", "default"])
LEARNERS: dict[str, dict[str, Any]] = {
    f"{algorithm}-{name}": {"algorithm": algorithm, **preset}
    for algorithm in ALGORITHMS
    for name, preset in {"simianer2012": {}, "default": DEFAULT}.items()
} | {"itersel-together": {"algorithm": "itersel", **DEFAULT, "dense_start": 0}}
"""[learner] of each algorithm with each preset; and dense weights learned with sparse ones, not before them."""


# What is learned

NORMS = ["l0", "l1", "linf", "mean", "median"]


@pytest.mark.parametrize(
    ("algorithm", "options", "select"),
    [(algorithm, {}, {}) for algorithm in ALGORITHMS]
    + [("itersel", {}, {"norm": norm, "k": 15}) for norm in NORMS]
    + [("itersel", {}, {"k": None, "lambda": 0.03})]
    # These two remember what a shard has seen so far, and forget it after each pass.
    + [("mix", {"gold": "chiang"}, {}), ("itermix", {"l1": 1 / 64}, {})],
)
def test_the_weights_are_those_of_the_pseudocode(
    tiny: Tiny, tmp_path: Path, algorithm: str, options: dict[str, Any], select: dict[str, Any]
) -> None:
    # What is frozen is not a multiple of a power of 2: rounded sums would tip updates at w.d = 0 over.
    learner: dict[str, Any] = {
        "algorithm": algorithm,
        "epochs": 3,
        "frozen": ["LanguageModel", "WordPenalty"],
        **options,
    }
    job = tiny.train(tmp_path / "run", learner={**learner, "initial_weights": "warm"}, select=select)
    expected = naive.train(open_run(job, SerialComm()))
    for epoch in (1, 2, 3):
        weights = epoch_weights(tmp_path / "run", epoch)
        assert weights == pytest.approx(expected[epoch - 1], abs=1e-9, rel=0)
        assert weights["LanguageModel"] == 0.015625 and "WordPenalty" not in weights
        if algorithm != "itersel" and "l1" not in options:
            assert weights["R:X:never:fired"] == 0.25, "an initial weight that nothing moves"
    assert read_weights(tmp_path / "run" / "weights.txt.gz") == weights


BINS_BESIDE_SCORES = {
    "features": {"templates": []},
    "features__discretize": {"features": ["Cost", "Lex"], "keep": True},
}


@pytest.mark.parametrize(
    ("k", "features", "sparse"), [(40, {}, "R:"), (1000, {}, "R:"), (9, BINS_BESIDE_SCORES, "Lex_")]
)
def test_the_default_weights_are_those_of_the_plain_twin(
    tiny: Tiny, tmp_path: Path, k: int, features: dict[str, Any], sparse: str
) -> None:
    """Algorithm 4: the dense start's passes, the evidence of all shards, selection, other shards in each epoch."""
    # The whole forest: at the pop limit rounding would choose between derivations of equal scores.
    tables = {"decoder": {"pop_limit": 10000}, "learner": {**DEFAULT, "epochs": 3}, "select": {"k": k}, **features}
    job = tiny.train(tmp_path / "run", **tables)
    run = open_run(job, SerialComm())
    assert not any(run.features.name(slot).startswith(sparse) for slot in range(run.first.first_sparse))
    expected = naive_default.train(run)
    for epoch in (1, 2, 3):
        weights = epoch_weights(tmp_path / "run", epoch)
        assert weights == pytest.approx(expected[epoch - 1], abs=1e-9, rel=0)
        assert any(name.startswith(sparse) for name in weights) and "Cost" in weights


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_translations_get_better(tiny: Tiny, tmp_path: Path, algorithm: str) -> None:
    tiny.train(tmp_path / "run", learner={"algorithm": algorithm})
    first, last = (epoch["gold"] for epoch in metrics(tmp_path / "run"))
    assert last > first + 0.02


@PRESETS
@pytest.mark.parametrize("k", [1, 15, 1000])
def test_no_more_than_k_features_are_kept(tiny: Tiny, tmp_path: Path, k: int, preset: dict[str, Any]) -> None:
    """Besides the frozen ones: with the defaults, all dense features."""
    tiny.train(tmp_path / "run", select={"k": k}, learner={**preset, "frozen": ["Cost"]})
    for epoch in metrics(tmp_path / "run"):
        weights = epoch_weights(tmp_path / "run", epoch["epoch"])
        assert epoch["selected_features"] == min(k, epoch["active_features"])
        learned = [name for name in weights if not preset or name.startswith(("R:", "RBS:", "Shape"))]
        assert len(learned) == epoch["selected_features"] - epoch["cancelled_features"]
        assert (epoch["lambda"] is None) == (epoch["active_features"] < k)


def test_frozen_features_do_not_count(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(
        tmp_path / "run", select={"k": 5}, learner={"frozen": ["LanguageModel", "Glue"], "initial_weights": "warm"}
    )
    weights = read_weights(tmp_path / "run" / "weights.txt.gz")
    assert len(weights) == 6 and weights["LanguageModel"] == 0.015625 and "Glue" not in weights


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_devtest_chooses_the_epoch(tiny: Tiny, tmp_path: Path, algorithm: str) -> None:
    run = tmp_path / "run"
    learner: dict[str, Any] = {"algorithm": algorithm, "learning_rate": 0.004, "initial_weights": "warm", "epochs": 3}
    tiny.train(run, learner=learner, **DEVTEST)
    bleu = [epoch["devtest_bleu"] for epoch in metrics(run)]
    if algorithm != "sgd":
        assert bleu[0] > max(bleu[1:]) > 0, "the devtest set of this task prefers what the run begins with"
    chosen = 1 + bleu.index(max(bleu))
    assert result(run) == gzip.decompress((run / "weights" / f"epoch-000{chosen}.txt.gz").read_bytes())
    log = (run / "log.txt").read_text()
    before = metrics(run)[0]["devtest_bleu_before"]
    but = f" but for the initial weights (BLEU {before:.2f})" if before > max(bleu) else ""
    assert (
        f"weights.txt.gz holds the weights of epoch {chosen}, the best on devtest{but}; all 3 epochs are done\n" in log
    )
    assert "no [data.devtest]" not in log


def test_shards_are_a_seeded_permutation_in_equal_parts() -> None:
    shards = draw_shards(10, 4, 1, 0)
    assert [len(shard) for shard in shards] == [3, 3, 2, 2]
    assert sorted(np.concatenate(shards).tolist()) == list(range(10))
    drawn = {tuple(np.concatenate(draw_shards(10, 4, seed, draw)).tolist()) for seed in (1, 2) for draw in (0, 1)}
    assert len(drawn) == 4
    assert [shard.tolist() for shard in draw_shards(10, 4, 1, 0)] == [shard.tolist() for shard in shards]
    assert [len(shard) for shard in draw_shards(2, 3, 1, 0)] == [1, 1, 0]


def test_reordered_shards_keep_their_sentences() -> None:
    shards = draw_shards(40, 3, 1, 0)
    orders = {(seed, draw): reordered(shards, seed, draw) for seed in (1, 2) for draw in (1, 2)}
    for order in orders.values():
        assert [sorted(shard.tolist()) for shard in order] == [sorted(shard.tolist()) for shard in shards]
    for z in range(3):
        assert len({tuple(order[z].tolist()) for order in [shards, *orders.values()]}) == 5, "each is another one"
    # Not one permutation for all shards.
    places = [np.argsort(shards[z])[np.argsort(np.argsort(orders[1, 1][z]))].tolist() for z in (1, 2)]
    assert places[0] != places[1]
    assert [shard.tolist() for shard in reordered(shards, 1, 2)] == [shard.tolist() for shard in orders[1, 2]]
    assert [shard.tolist() for shard in reordered([np.zeros(0, np.int64)], 1, 1)] == [[]]


@pytest.mark.parametrize(
    "tables",
    [
        {"run": {"seed": 2}},
        {"data": {"limit": 20}},
        {"decoder": {"kbest": 10}},
        {"decoder": {"pop_limit": 2}},
        {"decoder": {"span_limit": 2}},
        {"features": {"templates": ["id"]}},
        {"learner": {"learning_rate": 0.01}},
        {"learner": {"gold": "bleu+1"}},
        {"learner": {"gold": "chiang"}},
        {"learner": {"pairs": "all"}},
        {"learner": {"pairs": "pro"}},
        {"learner": {"share": 0.3}},
        {"learner": {"extend_ties": True}},
        {"learner": {"order": "sentence"}},
        {"learner": {"margin": 0.1}},
        {"learner": {"rate": "adagrad"}},
        {"learner": {"l1": 0.1}},
        {"learner": {"l2": 0.1}},
        {"learner": {"scale_by_gold": True}},
        {"learner": {"averaging": "sentence"}},
        {"parallel": {"shards": 3}},
        {"parallel": {"reshuffle": True}},
        {"select": {"norm": "l1"}},
        {"learner": DEFAULT},
    ],
    ids=lambda tables: ",".join(f"{table}.{key}" for table in tables for key in tables[table]),
)
def test_every_option_makes_a_difference(tiny: Tiny, tmp_path: Path, tables: dict[str, Any]) -> None:
    tiny.train(tmp_path / "plain")
    tiny.train(tmp_path / "other", **tables)
    assert result(tmp_path / "other") != result(tmp_path / "plain")
    assert result(tmp_path / "other") != b""


@pytest.mark.parametrize(
    "tables",
    [
        {"learner": {"rate": "adagrad"}},
        {"learner": {"margin": 0.25}},
        {"learner": {"margin_by_gold": False}},
        {"learner": {"averaging": "epoch"}},
        {"parallel": {"reshuffle": False}},
        {"learner": {"algorithm": "mix"}, "parallel": {"reshuffle": False}},
    ],
    ids=lambda tables: ",".join(f"{table}.{key}" for table in tables for key in tables[table]),
)
def test_every_option_of_the_default_learner_makes_a_difference(
    tiny: Tiny, tmp_path: Path, tables: dict[str, dict[str, Any]]
) -> None:
    learner = tables.get("learner", {})
    algorithm = learner.get("algorithm")
    tiny.train(tmp_path / "plain", learner={**DEFAULT, "algorithm": algorithm})
    tiny.train(tmp_path / "other", **{**tables, "learner": {**DEFAULT, **learner}})
    assert epoch_weights(tmp_path / "other", 2) != epoch_weights(tmp_path / "plain", 2)


@pytest.mark.parametrize("templates", [[], ["id"]])
def test_mixing_makes_a_difference_to_dense_weights(tiny: Tiny, tmp_path: Path, templates: list[str]) -> None:
    """Sparse ones, which epochs learn on fixed dense ones, follow from the gradients of all shards."""
    for mixing in ("active", "uniform"):
        parallel = {"mixing": mixing}
        tiny.train(tmp_path / mixing, learner=DEFAULT, features={"templates": templates}, parallel=parallel)
    active, uniform = (epoch_weights(tmp_path / mixing, 2) for mixing in ("active", "uniform"))
    assert active and (active == uniform) == bool(templates)


@PRESETS
def test_more_shards_than_sentences(tiny: Tiny, tmp_path: Path, preset: dict[str, Any]) -> None:
    tiny.train(tmp_path / "run", learner=preset, parallel={"shards": 30})
    assert metrics(tmp_path / "run")[-1]["sentences"] == SENTENCES
    told = f"30 shards for {SENTENCES} sentences: empty shards learn nothing; lower parallel.shards\n"
    assert told in (tmp_path / "run" / "log.txt").read_text()


def test_what_a_job_names_in_vain_is_told(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "odd").write_text("Nothing 1\n")
    learner = {"frozen": ["WordPenality"], "margin": 0.5, "method": "mira", "initial_weights": str(tmp_path / "odd")}
    (tmp_path / "ini").write_text("goal=TOP\nk_best=9\nfeature_function=WordPenalty\n")
    decoder = {"config": str(tmp_path / "ini")}
    tiny.train(tmp_path / "run", learner={**learner, "learning_rate": None, "epochs": 1}, decoder=decoder)
    text = (tmp_path / "run" / "log.txt").read_text()
    assert "learner.frozen: nothing in this job fires WordPenality\n" in text
    assert re.search(r"keys ignored by this method: .*learner\.margin", text)
    assert f"{tmp_path / 'ini'}: the embedded decoder ignores goal=TOP: if one matters, set" in text
    assert f"{tmp_path / 'odd'}: none of its features occurs in this job" in text


def test_a_grammar_for_each_sentence(tiny: Tiny, tmp_path: Path) -> None:
    (tiny.folder / "own.en").write_text("".join((tiny.folder / "train.en").read_text().splitlines(True)[:6]))
    data: dict[str, Any] = {"source": "own.de", "references": ["own.en"]}
    tiny.train(tmp_path / "run", data=data, grammar={"file": None, "per_sentence": True}, learner={"algorithm": "sgd"})
    first, last = metrics(tmp_path / "run")
    assert first["sentences"] == 6 and last["gold"] > first["gold"]


# What is written


def test_metrics_have_every_key(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(tmp_path / "run", **DEVTEST)
    for number, epoch in enumerate(metrics(tmp_path / "run"), start=1):
        assert epoch["epoch"] == number
        assert epoch["sentences"] == SENTENCES
        for key in ("pairs", "updates", "active_features", "selected_features", "empty_outputs"):
            assert isinstance(epoch[key], int), key
        assert 0 < epoch["updates"] < epoch["pairs"]
        for key in ("seconds", "gold", "devtest_bleu", "length_ratio", "lambda"):
            assert isinstance(epoch[key], float) and epoch[key] > 0, key
        assert epoch["gold"] <= 1 and epoch["devtest_bleu"] <= 100.001
        assert [len(rank) for rank in epoch["timeline"]] == [40]
        assert [norm for norm, _ in epoch["column_norms"]] == sorted({norm for norm, _ in epoch["column_norms"]})
        assert epoch["column_norms"][0][1] == epoch["active_features"] and "id" in epoch["largest_norms"]
        for key in ("busy_seconds", "wait_seconds", "peak_memory_bytes"):
            assert len(epoch[key]) == 1, "one entry for each rank"
        assert len(epoch["shard_seconds"]) == 4 and min(epoch["shard_seconds"]) > 0
    tiny.train(tmp_path / "sgd", learner={"algorithm": "sgd"})
    assert [(epoch["devtest_bleu"], epoch["lambda"]) for epoch in metrics(tmp_path / "sgd")] == [(None, None)] * 2
    assert all(epoch["selected_features"] == epoch["active_features"] > 0 for epoch in metrics(tmp_path / "sgd"))


@PRESETS
def test_the_effective_configuration_is_kept(tiny: Tiny, tmp_path: Path, preset: dict[str, Any]) -> None:
    job = tiny.train(tmp_path / "run", learner={"frozen": ["Glue"], **preset}, **DEVTEST)
    assert load.load(tmp_path / "run" / "config.toml") == job


def test_checkpoints_open_with_plain_h5py(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(tmp_path / "run", run={"seed": 7}, learner={"frozen": ["LanguageModel"], "initial_weights": "warm"})
    for epoch in (1, 2):
        with h5py.File(tmp_path / "run" / "checkpoints" / f"epoch-000{epoch}.h5") as file:
            assert (file.attrs["version"], file.attrs["epoch"], file.attrs["seed"]) == (VERSION, epoch, 7)
            assert re.fullmatch("[0-9a-f]{32}", file.attrs["job_digest"])
            weights = file["weights"]
            assert (weights["index"].dtype, weights["value"].dtype) == (np.dtype("u8"), np.dtype("f8"))
            names = [name.decode() for name in weights["name"]]
            assert weights["index"][:].tolist() == [feature_id(name) for name in names]
            found = dict(zip(names, weights["value"][:].tolist(), strict=True))
        assert found == epoch_weights(tmp_path / "run", epoch) and "LanguageModel" in found


def test_a_finished_run_leaves_no_scraps(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(tmp_path / "run")
    found = {path.relative_to(tmp_path / "run").as_posix() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    epochs = {
        f"{folder}/epoch-000{n}{end}"
        for folder, end in (("checkpoints", ".h5"), ("weights", ".txt.gz"))
        for n in (1, 2)
    }
    translations = {"source", "reference-0", "reference-1", *(f"epoch-000{n}" for n in (0, 1, 2))}
    epochs |= {f"translations/{name}.txt.gz" for name in translations}
    assert found == epochs | {"config.toml", "log.txt", "metrics.jsonl", "status.json", "weights.txt.gz", "lock"}


# What goes wrong with a model


@pytest.fixture
def any_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights files may have numbers that overflow, as weights that grow do."""
    monkeypatch.setattr("mpitune.corpus.text.LARGEST_NUMBER", 1e308)


@pytest.mark.usefixtures("any_weights")
@pytest.mark.parametrize("learner", [{}, {"method": "pro", "learning_rate": None}])
def test_numbers_that_are_none_stop_the_run(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str], learner: dict[str, Any]
) -> None:
    (tiny.folder / "huge").write_text("Cost 1e308\nLex -1e308\n")
    job = tiny.job_file(tmp_path / "run", learner={"initial_weights": "huge", **learner})
    assert main(["train", str(job), "--quiet"]) == 3
    found = capsys.readouterr().err.splitlines()
    assert len(found) == 1 and "epoch 1: found NaN or infinite weights" in found[0]
    assert "there is no checkpoint yet" in found[0]
    assert not list((tmp_path / "run").glob("checkpoints/**/*.h5"))


@pytest.mark.usefixtures("any_weights")
def test_the_mean_of_shards_may_overflow(tiny: Tiny, tmp_path: Path) -> None:
    (tiny.folder / "huge").write_text("R:X:never:fired 1e308\n")
    with pytest.raises(DataError, match="epoch 1: found NaN or infinite weights"):
        tiny.train(tmp_path / "run", learner={"algorithm": "itermix", "initial_weights": "huge"})


def test_the_last_sound_checkpoint_is_named(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.train(tmp_path / "run")

    def explode(learner: Perceptron, kbest: KBest, gold: np.ndarray, weights: Weights, random: Any) -> Counts:
        weights.value[0] = np.nan
        return Counts(1, 1)

    monkeypatch.setattr(Perceptron, "update", explode)
    sound = tmp_path / "run" / "checkpoints" / "epoch-0002.h5"
    with pytest.raises(DataError, match=f"epoch 3: .*; the last sound checkpoint is {sound}$") as error:
        tiny.train(tmp_path / "run", learner={"epochs": 3})
    assert error.value.exit_code == 3
    assert len(metrics(tmp_path / "run")) == 2


def test_exploding_weights_are_told(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(tmp_path / "run", learner={"learning_rate": 1e6})
    log = (tmp_path / "run" / "log.txt").read_text()
    assert re.search(r"WARNING epoch 1: exploding weights: \d+ above 10000 \(\S+ -?\d.*\), expected none: set", log)
    tiny.train(tmp_path / "sound")
    assert "WARNING" not in (tmp_path / "sound" / "log.txt").read_text()


def test_empty_and_short_translations_are_told(tiny: Tiny, tmp_path: Path) -> None:
    (tiny.folder / "short").write_text("das haus ||| the house ||| this house\n\t||| \ndas buch ||| the book\n")
    (tiny.folder / "nothing").write_text("R:X:das_haus: 100\n")
    tiny.train(
        tmp_path / "run",
        data={"source": None, "references": [], "bitext": "short"},
        learner={"initial_weights": "nothing", "epochs": 1},
        decoder={"kbest": 1},
    )
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "WARNING epoch 1: empty outputs: 1 of 3 sentences are translated to nothing" in log
    assert metrics(tmp_path / "run")[0]["empty_outputs"] == 1
    assert "WARNING epoch 1: length ratio 0.500 of the 1-best translations, expected 0.9 to 1.1: " in log
    tiny.train(
        tmp_path / "shorter",
        data={"source": None, "references": [], "bitext": "short", "limit": 1},
        learner={"initial_weights": "nothing", "epochs": 1},
        decoder={"kbest": 1},
    )
    log = (tmp_path / "shorter" / "log.txt").read_text()
    assert "WARNING epoch 1: length ratio 0.000 of the 1-best translations, expected 0.9 to 1.1: " in log


# Going on


@PRESETS
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_more_epochs_go_on_as_if_never_finished(
    tiny: Tiny, tmp_path: Path, algorithm: str, preset: dict[str, Any]
) -> None:
    learner: dict[str, Any] = {"algorithm": algorithm, "epochs": 4, **preset}
    tables: dict[str, Any] = {"learner": learner, "parallel": {"reshuffle": True}, **DEVTEST}
    tiny.train(tmp_path / "unbroken", **tables)
    for epochs in (1, 3, 4):
        learner["epochs"] = epochs
        tiny.train(tmp_path / "run", **tables)
        assert len(metrics(tmp_path / "run")) == epochs
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


def test_a_finished_run_does_nothing_again(tiny: Tiny, tmp_path: Path, decodes: Decodes) -> None:
    tiny.train(tmp_path / "run")
    before, decodes.count = files_of(tmp_path / "run"), 0
    tiny.train(tmp_path / "run")
    assert decodes.count <= 1, "no more than is needed to load the kernels"
    assert files_of(tmp_path / "run") == before
    for name in ("weights.txt.gz", "metrics.jsonl"):
        (tmp_path / "run" / name).unlink()
    tiny.train(tmp_path / "run")
    assert files_of(tmp_path / "run") == before, "what was lost is there again"


@pytest.mark.parametrize("shortened", [False, True])
def test_a_damaged_file_of_weights_does_not_become_the_result(tiny: Tiny, tmp_path: Path, shortened: bool) -> None:
    """The checkpoint of the best epoch has them."""
    run = tmp_path / "run"
    tiny.train(run)
    before = files_of(run)
    content = (run / "weights.txt.gz").read_bytes()
    best = next(path for path in (run / "weights").iterdir() if path.read_bytes() == content)
    if shortened:
        best.write_bytes(gzip.compress(b"".join(gzip.decompress(content).splitlines(keepends=True)[:3])))
    else:
        best.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    tiny.train(run)
    assert files_of(run) == before


def test_the_result_stays_where_damaged_weights_are_in_no_checkpoint(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    tiny.train(run)
    content = (run / "weights.txt.gz").read_bytes()
    monkeypatch.setattr("mpitune.training.state.dense_start_is_best", lambda history: True)
    (run / "weights" / "dense-start.txt.gz").write_bytes(content[:-9])
    tiny.train(run)
    assert (run / "weights.txt.gz").read_bytes() == content
    assert re.search(r"dense-start\.txt\.gz:\d+: found damaged gzip .* stays as it is", (run / "log.txt").read_text())


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("how", ["lost", "changed", "unreadable"])
def test_a_run_ends_only_with_a_result_that_reads_back(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, dense: bool
) -> None:
    """The weights of the best epoch, or of the dense start; the same command ends as usual where they are written."""
    tables: dict[str, Any] = {"learner": {**DEFAULT, "epochs": 1, "dense_start": 10 if dense else 0}, **DEVTEST}
    if dense:
        monkeypatch.setattr("mpitune.training.state.dense_start_is_best", lambda history: True)
    spoilt = {"lost": "#Glue 1.0", "changed": "Glue 1.5", "unreadable": "Glue 1.0 2.0"}[how]

    def write(path: Path, weights: Sequence[tuple[str, float]]) -> None:
        assert "Glue" in dict(weights)
        lines = (spoilt if name == "Glue" else f"{name} {value!r}" for name, value in weights)
        write_text(path, "".join(f"{line}\n" for line in lines))

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("mpitune.run_folder.layout.write_weights", write)
        found = "3 fields" if how == "unreadable" else "(no weight|1.5) of 'Glue' when it was read back"
        told = rf"weights\.txt\.gz(:\d)?: found {found}, expected .*, as this run has written"
        with pytest.raises(MachineError, match=told):
            tiny.train(run, **tables)
    assert json.loads((run / "status.json").read_text())["state"] == "failed"
    tiny.train(run, resume="never", **tables)
    assert json.loads((run / "status.json").read_text())["state"] == "done"


def test_resume_never_starts_over(tiny: Tiny, tmp_path: Path, decodes: Decodes) -> None:
    tiny.train(tmp_path / "run", learner={"epochs": 3})
    tiny.train(tmp_path / "other", learner={"learning_rate": 0.5})
    decodes.count = 0
    tiny.train(tmp_path / "run", resume="never", learner={"learning_rate": 0.5})
    assert decodes.count == 1 + 2 * SENTENCES
    assert files_of(tmp_path / "run") == files_of(tmp_path / "other")


def test_starting_over_leaves_nothing_of_the_old_run(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(tmp_path / "run", **DEVTEST)
    RunFolder(tmp_path / "run").clear()
    left = {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert left == {"config.toml", "log.txt", "status.json", "lock"}


def test_resume_must_needs_a_checkpoint(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="found no checkpoint, but --resume must asks for one"):
        tiny.train(tmp_path / "run", resume="must")
    tiny.train(tmp_path / "run", learner={"epochs": 1})
    tiny.train(tmp_path / "run", resume="must")
    assert len(metrics(tmp_path / "run")) == 2


def test_a_run_that_lacks_a_key_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    """As one does that began before the key was there."""
    tiny.train(tmp_path / "run", learner={"epochs": 1})
    checkpoints = tmp_path / "run" / "checkpoints"
    checkpoint = read_checkpoint(checkpoint_path(checkpoints, 1))
    known = {key: value for key, value in checkpoint.job.items() if key != "decoder.rule_margin"}
    write_checkpoint(checkpoints, replace(checkpoint, job=known))
    with pytest.raises(UsageError) as refused:
        tiny.train(tmp_path / "run")
    told = "decoder.rule_margin (was not there, is 0.0)"
    assert f"the job has changed since its last checkpoint: {told}; set another" in str(refused.value)


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        ({"learner": {"learning_rate": 0.5}}, r"learner.learning_rate \(was 0.0078125, is 0.5\)"),
        ({"parallel": {"shards": 3}}, r"parallel.shards \(was 4, is 3\)"),
        ({"select": {"k": None, "lambda": 0.5}}, r"select.k \(was 40, is None\), select.lambda \(was None, is 0.5\)"),
        ({"learner": {"frozen": ["Glue"]}}, r"learner.frozen \(was \[\], is \['Glue'\]\)"),
        ({"learner": {"initial_weights": "warm"}}, "learner.initial_weights"),
        ({"data": {"references": ["train.en"]}}, r"files of \[data\] and \[grammar\]"),
    ],
)
def test_a_changed_job_is_refused(tiny: Tiny, tmp_path: Path, tables: dict[str, Any], named: str) -> None:
    tiny.train(tmp_path / "run")
    before = (tmp_path / "run" / "config.toml").read_text()
    with pytest.raises(UsageError, match=f"the job has changed since its last checkpoint: {named}"):
        tiny.train(tmp_path / "run", **tables)
    assert (tmp_path / "run" / "config.toml").read_text() == before
    assert len(metrics(tmp_path / "run")) == 2


def test_a_store_is_not_made_for_a_job_that_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    own = {"store": str(tmp_path / "store")}
    tiny.train(tmp_path / "run", run=own)
    before = {path: path.stat() for path in (tmp_path / "store").iterdir()}
    with pytest.raises(UsageError, match=r"the job has changed since its last checkpoint: data.limit \(was 0, is 9\);"):
        tiny.train(tmp_path / "run", run=own, data={"limit": 9})
    assert {path: path.stat() for path in (tmp_path / "store").iterdir()} == before


def test_two_runs_do_not_share_a_folder(tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = FolderLock(tmp_path / "run", "run")
    other.acquire(wait=False)
    try:
        assert main(["train", str(tiny.job_file(tmp_path / "run"))]) == 2
    finally:
        other.release()
    assert f"the run folder is in use by process {os.getpid()} on" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("algorithm", ["mix", "itersel"])
def test_a_signal_stops_the_run_and_nothing_finished_is_lost(
    tiny: Tiny, tmp_path: Path, decodes: Decodes, algorithm: str, number: signal.Signals
) -> None:
    tables: dict[str, Any] = {"learner": {"algorithm": algorithm, "epochs": 3}}
    tiny.train(tmp_path / "unbroken", **tables)
    decodes.count = 0
    # In epoch 2, in the third of four shards, whichever that is; the first decode only loads the kernels.
    decodes.stop_at = 1 + SENTENCES + 2 * max(SHARD_SIZES) + 2, number
    with pytest.raises(StopRequested, match=f"stopped by {number.name} in epoch 2") as stopped:
        tiny.train(tmp_path / "run", **tables)
    assert stopped.value.exit_code == 75
    assert decodes.count == decodes.stop_at[0]
    decodes.count, decodes.stop_at = 0, None
    tiny.train(tmp_path / "run", **tables)
    assert 1 + 2 * SENTENCES - decodes.count in {sum(two) for two in combinations(SHARD_SIZES, 2)}
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


def test_what_continues_a_run_that_started_over_is_told(tiny: Tiny, tmp_path: Path, decodes: Decodes) -> None:
    decodes.stop_at = 1 + 3, signal.SIGTERM
    with pytest.raises(StopRequested, match="run the same command again, without --resume never, to continue$"):
        tiny.train(tmp_path / "run", resume="never")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_stop_in_the_middle_of_any_epoch_leaves_no_trace_in_what_learners_keep(
    tiny: Tiny, tmp_path: Path, decodes: Decodes, algorithm: str
) -> None:
    """With the defaults, in one run after the other: in the dense start, within a shard, and after some of them."""
    learner = {**DEFAULT, "algorithm": algorithm, "epochs": 3, "dense_start": 2 * SENTENCES}
    tables: dict[str, Any] = {"learner": learner, **DEVTEST}
    tiny.train(tmp_path / "unbroken", **tables)
    for sentences in (SENTENCES // 2, SENTENCES * 3 // 2, SENTENCES * 3 // 2, SENTENCES - 3, SENTENCES):
        decodes.count, decodes.stop_at = 0, (1 + sentences, signal.SIGTERM)
        with pytest.raises(StopRequested):
            tiny.train(tmp_path / "run", **tables)
    decodes.stop_at = None
    tiny.train(tmp_path / "run", **tables)
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")
    kept = []
    for epoch in (1, 3):
        with h5py.File(tmp_path / "run" / "checkpoints" / f"epoch-000{epoch}.h5") as file:
            kept.append(file["state/start/learner"][:])
    changed = kept[0].shape != kept[1].shape or (kept[0] != kept[1]).any()
    assert kept[1].any() == changed == (algorithm in ("itermix", "itersel")), "what shards do not share stays with them"


def test_a_damaged_shard_is_learned_again(tiny: Tiny, tmp_path: Path, decodes: Decodes) -> None:
    tiny.train(tmp_path / "unbroken")
    # In the last of four shards.
    decodes.count, decodes.stop_at = 0, (1 + sum(SHARD_SIZES[:3]) + 1, signal.SIGTERM)
    with pytest.raises(StopRequested):
        tiny.train(tmp_path / "run")
    first, *others = (tmp_path / "run" / "checkpoints" / "epoch-0001.shards").iterdir()
    damage(first)
    decodes.count, decodes.stop_at = 0, None
    tiny.train(tmp_path / "run")
    assert len(others) == 2
    assert decodes.count == 1 + 2 * SENTENCES - sum(SHARD_SIZES[int(path.stem[-4:])] for path in others)
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tiny: Tiny, tmp_path: Path, decodes: Decodes) -> None:
    learner: dict[str, Any] = {"epochs": 3}
    tiny.train(tmp_path / "run", learner=learner)
    before = files_of(tmp_path / "run")
    damage(tmp_path / "run" / "checkpoints" / "epoch-0003.h5")
    decodes.count = 0
    tiny.train(tmp_path / "run", learner=learner)
    assert decodes.count == 1 + SENTENCES
    assert files_of(tmp_path / "run") == before
    assert re.search(
        r"WARNING .*epoch-0003.h5: found a damaged or cut file", (tmp_path / "run" / "log.txt").read_text()
    )
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        damage(path)
    with pytest.raises(DataError, match="found no sound checkpoint"):
        tiny.train(tmp_path / "run", learner=learner)
    tiny.train(tmp_path / "run", resume="never", learner=learner)
    assert files_of(tmp_path / "run") == before


def test_shards_that_do_not_talk_go_on_from_what_is_kept(tiny: Tiny, tmp_path: Path, decodes: Decodes) -> None:
    """Where a shard of the last epoch is damaged, from the epoch before; the shards of older ones are not kept."""
    learner: dict[str, Any] = {"algorithm": "mix", "epochs": 3}
    tiny.train(tmp_path / "run", learner=learner)
    folder = tmp_path / "run" / "checkpoints"
    kept = [len(list((folder / f"epoch-000{epoch}.shards").glob("*.h5"))) for epoch in (1, 2, 3)]
    assert kept == [0, 4, 4]
    damage(folder / "epoch-0003.shards" / "shard-0002.h5")
    learner["epochs"], decodes.count = 4, 0
    tiny.train(tmp_path / "run", learner=learner)
    assert decodes.count == 1 + SHARD_SIZES[2] + SENTENCES, "the damaged one, and an epoch"
    told = "WARNING .*epoch-0003.h5: found no sound result of shard 2 beside it, expected those of 4 shards; left out"
    assert re.search(told, (tmp_path / "run" / "log.txt").read_text())
    tiny.train(tmp_path / "unbroken", learner=learner)
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


def test_a_shard_that_vanishes_while_the_run_goes_on(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner: dict[str, Any] = {"algorithm": "mix", "epochs": 2}
    write = mpitune.training.loop.write_epoch

    def write_and_lose(*given: Any) -> None:
        write(*given)
        (tmp_path / "run" / "checkpoints" / "epoch-0001.shards" / "shard-0001.h5").unlink()

    monkeypatch.setattr(mpitune.training.loop, "write_epoch", write_and_lose)
    told = (
        "epoch-0001.h5: found no valid result of shard 1 beside it, expected the weights that the shard continues from"
    )
    with pytest.raises(DataError, match=told):
        tiny.train(tmp_path / "run", learner=learner)


# Under MPI


@pytest.fixture(scope="module")
def on_one_rank(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each algorithm with each preset, in this process."""
    folder = tmp_path_factory.mktemp("one")
    for name, learner in LEARNERS.items():
        tiny.train(folder / name, learner={**learner, "epochs": 3}, **DEVTEST)
    return {name: folder / name for name in LEARNERS}


@pytest.mark.mpi
def test_ranks_and_exchanges_leave_no_trace(tiny: Tiny, tmp_path: Path, on_one_rank: dict[str, Path]) -> None:
    exchanges = ("allgather", "alltoall")
    runs = {tmp_path / f"{name}-{exchange}": (name, exchange) for name in LEARNERS for exchange in exchanges}
    jobs = [
        tiny.job_file(run, learner={**LEARNERS[name], "epochs": 3}, parallel={"exchange": exchange}, **DEVTEST)
        for run, (name, exchange) in runs.items()
    ]
    done = mpirun(3, [TRAIN_JOBS, *jobs])
    assert (done.returncode, done.stdout) == (0, "")
    assert all(" WARNING epoch " in line for line in done.stderr.splitlines()), done.stderr
    for run, (name, _) in runs.items():
        assert files_of(run) == files_of(on_one_rank[name]), run
        assert [len(epoch["busy_seconds"]) for epoch in metrics(run)] == [3] * 3


@pytest.mark.mpi
def test_a_run_goes_on_with_the_other_exchange(tiny: Tiny, tmp_path: Path) -> None:
    learners = {name: learner for name, learner in LEARNERS.items() if learner["algorithm"] in ("mix", "itersel")}
    jobs = []
    for name, learner in learners.items():
        for epochs, exchange in ((1, "alltoall"), (2, "allgather"), (3, "auto"), (4, "alltoall")):
            parallel = {"exchange": exchange, "reshuffle": True}
            job = tiny.job_file(tmp_path / name, learner={**learner, "epochs": epochs}, parallel=parallel)
            jobs.append(job.rename(job.with_stem(f"{job.stem}-{epochs}")))
    done = mpirun(2, [TRAIN_JOBS, *jobs])
    assert (done.returncode, done.stdout) == (0, "")
    assert all(" WARNING epoch " in line for line in done.stderr.splitlines()), done.stderr
    for name, learner in learners.items():
        unbroken = tmp_path / f"{name}-unbroken"
        tiny.train(unbroken, learner={**learner, "epochs": 4}, parallel={"reshuffle": True})
        assert files_of(tmp_path / name) == files_of(unbroken), name


FAULTY = """
import sys
import mpitune.training.open_run, mpitune.training.state, mpitune.training.online_epoch
from mpitune.cli.parser import main
from mpitune.errors import DataError, MachineError
from mpitune.exchange.comm import connect

rank, where, error = connect().rank, sys.argv[1], sys.argv[2]
if rank == 1:
    def fail(*_):
        errors = {"data": DataError, "machine": MachineError, "bug": KeyError, "exit": SystemExit}
        raise errors[error]("what went wrong")
    module, name = where.split(":")
    setattr(sys.modules[module], name, fail)
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("where", "error", "code"),
    [
        ("mpitune.training.open_run:open_store", "data", 3),
        ("mpitune.training.online_epoch:write_shard", "machine", 4),
        ("mpitune.training.online_epoch:learn_shard", "bug", 1),
    ],
)
def test_what_fails_on_one_rank_ends_all(tiny: Tiny, tmp_path: Path, where: str, error: str, code: int) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY)
    job = tiny.job_file(tmp_path / "run")
    done = mpirun(2, [tmp_path / "faulty.py", where, error, "train", job, "--quiet"], timeout=60)
    assert done.returncode == code
    told = [line for line in done.stderr.splitlines() if line.startswith("mpitune:")]
    assert len(told) == 1 and "what went wrong" in told[0], done.stderr
    kept = tmp_path / "run" / "traceback-1.txt"
    log = (tmp_path / "run" / "log.txt").read_text()
    assert error == "bug" or re.search(r"\[1/2\] ERROR what went wrong", log)
    if error == "bug":
        assert "KeyError" in kept.read_text() and str(kept) in told[0]
    else:
        assert not kept.exists() and "Traceback" not in done.stderr


@pytest.mark.mpi
def test_a_rank_that_exits_leaves_nobody_waiting(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY)
    job = tiny.job_file(tmp_path / "run")
    done = mpirun(
        2,
        [tmp_path / "faulty.py", "mpitune.training.online_epoch:learn_shard", "exit", "train", job, "--quiet"],
        timeout=60,
    )
    assert done.returncode == 1


@pytest.mark.mpi
def test_what_fails_on_all_ranks_is_told_once(tiny: Tiny, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run", learner={"initial_weights": "none"})
    done = mpirun(2, ["-m", "mpitune", "train", job, "--quiet"])
    assert done.returncode == 3
    assert done.stderr.count("found no such file or directory") == 1


@pytest.mark.mpi
@pytest.mark.parametrize(("ranks", "number"), [(1, signal.SIGTERM), (2, signal.SIGUSR1), (3, signal.SIGTERM)])
def test_a_signal_to_the_launcher_stops_all_ranks(
    tiny: Tiny, tmp_path: Path, ranks: int, number: signal.Signals
) -> None:
    if number == signal.SIGTERM and "--oversubscribe" in launcher():
        pytest.skip("Open MPI's mpirun does not pass SIGTERM on: it ends the ranks itself, with exit code 1")
    learner: dict[str, Any] = {"epochs": 300}
    job = tiny.job_file(tmp_path / "run", learner=learner)
    process = start(ranks, ["train", job])
    wait_for((tmp_path / "run" / "checkpoints" / "epoch-0002.h5").exists, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75, errors
    assert [line for line in errors.splitlines() if line.startswith("mpitune: ")] == [
        line for line in errors.splitlines() if f"stopped by {number.name} in epoch" in line
    ]
    learner["epochs"] = len(metrics(tmp_path / "run")) + 1
    tiny.train(tmp_path / "run", learner=learner)
    tiny.train(tmp_path / "unbroken", learner=learner)
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


@pytest.mark.mpi
@pytest.mark.parametrize("asked", [{}, *({**DEFAULT, "algorithm": name} for name in ALGORITHMS)], ids=["", *ALGORITHMS])
def test_a_killed_run_goes_on_on_another_number_of_ranks(
    tiny: Tiny, tmp_path: Path, decodes: Decodes, asked: dict[str, Any]
) -> None:
    draw = random.Random(1)
    sizes = [SENTENCES] if asked.get("algorithm") == "sgd" else SHARD_SIZES
    learner: dict[str, Any] = {**asked, "epochs": 200}
    epoch = 0
    # At last it goes on in this process, alone.
    for ranks in (2, 3) if asked else (2, 3, 1):
        process = start(ranks, ["train", tiny.job_file(tmp_path / "run", learner=learner), "--quiet"])
        epoch += draw.randrange(1, 6)
        wait_for(lambda: len(list((tmp_path / "run" / "checkpoints").glob("*.h5"))) >= epoch, process)  # noqa: B023
        time.sleep(draw.random() / 20)
        kill_all(process)
    done = len(list((tmp_path / "run" / "checkpoints").glob("*.h5")))
    shards = list((tmp_path / "run" / "checkpoints").glob("*.shards/*.h5"))
    learner["epochs"] = done + 1
    decodes.count = 0
    tiny.train(tmp_path / "run", learner=learner)
    finished = [sizes[int(path.stem[-4:])] for path in shards if path.parent.stem == f"epoch-{done + 1:04d}"]
    assert decodes.count == 1 + SENTENCES - sum(finished), "finished shards are not learned again"
    tiny.train(tmp_path / "unbroken", learner=learner)
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")
