"""Batch methods: whole runs over a tiny task."""

from __future__ import annotations

import gzip
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from support.mpi import ROOT, mpirun
from support.runs import SENTENCES, SHARD_SIZES, TRAIN_JOBS, Decodes, damage, epoch_weights, files_of, metrics
from support.tiny import DEVTEST, Tiny

from mpitune.array_files import arrays
from mpitune.errors import StopRequested, UsageError
from mpitune.exchange.comm import SerialComm
from mpitune.metrics.tuning_metric import METRICS
from mpitune.training import batch_epoch, job_inputs
from mpitune.training.loop import train

METHODS = ["pro", "mert", "hypergraph", "minrisk", "rampion"]
"""Hypergraph is MERT over forests; of its metrics, those but BLEU are named as methods too, in `tables_of`."""


def tables_of(method: str, epochs: int = 2, **learner: Any) -> dict[str, Any]:
    """What a job says: few restarts, as is enough for a tiny task."""
    search = "hypergraph" if method == "hypergraph" else "kbest"
    metric = method if method in METRICS else "bleu"
    named = method if method in METHODS and method != "hypergraph" else "mert"
    return {
        "features": {"templates": ["shape"]},
        "learner": {"method": named, "initial_weights": "warm", "epochs": epochs, "metric": metric, **learner},
        "learner.mert": {"search": search, "restarts": 1, "directions": 2},
    }


@pytest.mark.parametrize("method", METHODS)
def test_translations_get_better_and_lists_longer(tiny: Tiny, tmp_path: Path, method: str) -> None:
    tiny.train(tmp_path / "run", **tables_of(method, 3, frozen=["LanguageModel"]))
    first, _, last = metrics(tmp_path / "run")
    assert last["gold"] > first["gold"] + 0.02
    assert last["list_entries"] > first["list_entries"] >= SENTENCES
    assert epoch_weights(tmp_path / "run", 3)["LanguageModel"] == 0.015625
    assert not (tmp_path / "run" / "checkpoints" / "epoch-0001.lists").exists()
    assert len(list((tmp_path / "run" / "checkpoints" / "epoch-0002.lists").iterdir())) == len(SHARD_SIZES)


def finished_shards(folder: Path) -> list[int]:
    """Which they are depends on the time that they took in the epoch before."""
    return sorted(int(path.stem.removeprefix("shard-")) for path in folder.iterdir())


@pytest.mark.parametrize("method", METHODS)
def test_a_stopped_run_goes_on_as_if_unbroken(tiny: Tiny, tmp_path: Path, decodes: Decodes, method: str) -> None:
    tables = tables_of(method, 3, algorithm="mix")
    tiny.train(tmp_path / "unbroken", **tables)
    # In epoch 2, in the third of four shards; the first decode only loads the kernels.
    decodes.count, decodes.stop_at = 0, (1 + SENTENCES + sum(SHARD_SIZES[:2]) + 3, signal.SIGTERM)
    with pytest.raises(StopRequested, match="stopped by SIGTERM in epoch 2"):
        tiny.train(tmp_path / "run", **tables)
    decodes.count, decodes.stop_at = 0, None
    finished = finished_shards(tmp_path / "run" / "checkpoints" / "epoch-0002.lists")
    tiny.train(tmp_path / "run", **tables)
    assert decodes.count == 1 + 2 * SENTENCES - sum(SHARD_SIZES[z] for z in finished) and len(finished) == 2
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


@pytest.mark.parametrize(("metric", "theirs"), [("ter", TER()), ("chrf", CHRF())])
def test_mert_makes_the_metric_better_that_it_is_given(tiny: Tiny, tmp_path: Path, metric: str, theirs: Any) -> None:
    watched = {"data__devtest": {"source": "train.de", "references": ["train.en", "train.en2"]}}
    # From no weights at all there is much to be made better.
    tables = {**tables_of(metric, 3, initial_weights=None), **watched}
    tiny.train(tmp_path / "run", **tables)

    def lines(name: str) -> list[str]:
        with gzip.open(tmp_path / "run" / "translations" / name, "rt", encoding="utf-8") as file:
            return file.read().splitlines()

    references = [lines(f"reference-{n}.txt.gz") for n in range(2)]
    before, after = (theirs.corpus_score(lines(f"epoch-000{epoch}.txt.gz"), references).score for epoch in (0, 3))
    sign = -1 if metric == "ter" else 1
    assert sign * after > sign * before + 2
    # The lists of the last epoch hold what the weights before it pick, and the line search starts there.
    last = theirs.corpus_score(lines("epoch-0002.txt.gz"), references).score
    assert 100 * metrics(tmp_path / "run")[-1]["objective"] >= sign * last - 1e-9


def test_there_are_signs_of_life(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_epoch, "INTERVAL", 0.0)
    tiny.train(tmp_path / "run", **tables_of("mert", 1))
    told = re.findall(r"epoch 1: optimising weights: (\d+) evaluations", (tmp_path / "run" / "log.txt").read_text())
    assert [int(number) for number in told] == list(range(1, len(told) + 1)) and len(told) > 10


def test_lists_that_are_lost_are_made_again(tiny: Tiny, tmp_path: Path, decodes: Decodes) -> None:
    tiny.train(tmp_path / "unbroken", **tables_of("pro", 3))
    tiny.train(tmp_path / "run", **tables_of("pro", 2))
    damage(tmp_path / "run" / "checkpoints" / "epoch-0002.lists" / "shard-0001.npz")
    for epoch in (1, 2):
        (tmp_path / "run" / "checkpoints" / f"epoch-000{epoch}.lists" / "shard-0002.npz").unlink()
    decodes.count = 0
    tiny.train(tmp_path / "run", **tables_of("pro", 3))
    assert decodes.count == 1 + SENTENCES + SHARD_SIZES[1] + 2 * SHARD_SIZES[2]
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


def test_lists_of_earlier_epochs_are_made_with_their_weights(tiny: Tiny, tmp_path: Path) -> None:
    """Those of features, too, that have no weight in later epochs and are not in a shard's own lists."""
    templates = ["id", "source-bigram", "word-pair", "target-words"]
    few: dict[str, Any] = {"features": {"templates": templates}, "parallel": {"shards": SENTENCES}}
    few["learner.pro"] = {"interpolation": 1, "candidates": 4, "kept": 2, "threshold": 0}
    tiny.train(tmp_path / "unbroken", **{**tables_of("pro", 4), **few})
    tiny.train(tmp_path / "run", **{**tables_of("pro", 3), **few})
    assert epoch_weights(tmp_path / "run", 2).keys() - epoch_weights(tmp_path / "run", 3).keys()
    kept = tmp_path / "run" / "checkpoints"
    for folder in kept.glob("*.lists"):
        shutil.rmtree(folder)
    tiny.train(tmp_path / "run", **{**tables_of("pro", 4), **few})
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")
    assert sorted(path.name for path in kept.glob("*.lists")) == ["epoch-0003.lists", "epoch-0004.lists"]


def test_lists_of_an_older_version_are_made_again_and_of_a_newer_one_refused(
    tiny: Tiny, tmp_path: Path, decodes: Decodes
) -> None:
    tiny.train(tmp_path / "unbroken", **tables_of("pro", 3))
    version = arrays.VERSION
    for other in (version - 1, version + 1):
        tiny.train(tmp_path / str(other), **tables_of("pro", 2))
        for path in (tmp_path / str(other) / "checkpoints").glob("*.lists/*.npz"):
            arrays.write_arrays(path, arrays.open_arrays(path), arrays.read_manifest(path) | {"version": other})
    decodes.count = 0
    tiny.train(tmp_path / str(version - 1), **tables_of("pro", 3))
    assert decodes.count == 1 + 3 * SENTENCES
    assert files_of(tmp_path / str(version - 1)) == files_of(tmp_path / "unbroken")
    with pytest.raises(UsageError, match=rf"shard-\d+\.npz: made by a newer mpitune \(version {version + 1}, this one"):
        tiny.train(tmp_path / str(version + 1), **tables_of("pro", 3))


def test_forests_are_those_of_one_epoch_and_made_again_where_lost(tiny: Tiny, tmp_path: Path, decodes: Decodes) -> None:
    # In epoch 2, in the third of four shards, so that the epoch begins with what is left of the first two.
    decodes.stop_at = (1 + SENTENCES + sum(SHARD_SIZES[:2]) + 3, signal.SIGTERM)
    with pytest.raises(StopRequested):
        tiny.train(tmp_path / "run", **tables_of("hypergraph", 3))
    kept = tmp_path / "run" / "checkpoints"
    assert len(list((kept / "epoch-0001.forests").iterdir())) == len(SHARD_SIZES)
    lost, whole = finished_shards(kept / "epoch-0002.forests")
    damage(kept / "epoch-0002.forests" / f"shard-{lost:04d}.npz")
    decodes.count, decodes.stop_at = 0, None
    tiny.train(tmp_path / "run", **tables_of("hypergraph", 3))
    assert decodes.count == 1 + 2 * SENTENCES - SHARD_SIZES[whole]
    tiny.train(tmp_path / "unbroken", **tables_of("hypergraph", 3))
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")
    assert [path.name for path in kept.glob("*.forests")] == ["epoch-0003.forests"]


@pytest.mark.parametrize(
    "options",
    [{"candidates": 20}, {"threshold": 0.8}, {"kept": 5}, {"c": 0.001}, {"interpolation": 0.5}],
    ids=lambda options: next(iter(options)),
)
def test_every_option_of_pro_makes_a_difference(tiny: Tiny, tmp_path: Path, options: dict[str, Any]) -> None:
    tiny.train(tmp_path / "plain", **tables_of("pro", 1))
    tiny.train(tmp_path / "other", **{**tables_of("pro", 1), "learner.pro": options})
    assert epoch_weights(tmp_path / "plain", 1) != epoch_weights(tmp_path / "other", 1)


@pytest.mark.mpi
def test_ranks_leave_no_trace(tiny: Tiny, tmp_path: Path) -> None:
    jobs, methods = [], [*METHODS, "ter", "chrf"]
    for method in methods:
        tables = {**tables_of(method), **DEVTEST}
        if method in ("ter", "chrf"):
            # Lines between shards are those of MERT: these two are about the statistics.
            tables["learner.mert"] |= {"restarts": 0, "directions": 0}
        tiny.train(tmp_path / method, **tables)
        jobs.append(tiny.job_file(tmp_path / f"{method}-3", **tables))
    done = mpirun(3, [TRAIN_JOBS, *jobs])
    assert (done.returncode, done.stdout) == (0, "")
    told = (" WARNING epoch ", "weights do not count")
    assert all(any(each in line for each in told) for line in done.stderr.splitlines()), done.stderr
    for method in methods:
        assert files_of(tmp_path / f"{method}-3") == files_of(tmp_path / method)


@pytest.fixture(scope="module")
def news(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What makes jobs/nc.toml a small job with dense features."""
    store = tmp_path_factory.mktemp("news") / "store"
    return [f"run.store={store}", "data.limit=15", "features.templates=[]", "learner.epochs=2"]


@pytest.mark.parametrize("method", METHODS)
def test_real_sentences_are_translated_better(
    shared: Path, news: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setenv("MPITUNE_DATA", str(shared / "data"))
    asked = [*news, f"run.dir={tmp_path / 'run'}", "learner.mert.restarts=0"]
    asked += (
        ["learner.method=mert", "learner.mert.search=hypergraph"]
        if method == "hypergraph"
        else [f"learner.method={method}"]
    )
    train(job_inputs.load_job(ROOT / "jobs" / "nc.toml", asked), SerialComm())
    first, second = metrics(tmp_path / "run")
    assert second["gold"] > first["gold"] + 0.05
