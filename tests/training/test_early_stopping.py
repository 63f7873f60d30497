"""Whole runs: when they end, with which epoch's weights, and that no interruption changes that."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from support.mpi import mpirun
from support.runs import TRAIN_JOBS, Decodes, epoch_weights, files_of, metrics
from support.tiny import DEVTEST, Tiny

from mpitune.corpus.weights import read_weights
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.errors import StopRequested
from mpitune.report.html import write_report
from mpitune.run_folder.run_state import chosen_epoch
from mpitune.run_folder.watch import read_status
from mpitune.training.early_stopping import early_end_reason, ending, epochs_since_best, out_of_patience

SENTENCES = 26


def falling(algorithm: str, **learner: Any) -> dict[str, Any]:
    """A job whose devtest set prefers what training begins with: epoch 1 is the best."""
    asked = {"algorithm": algorithm, "learning_rate": 0.004, "initial_weights": "warm", "epochs": 9, **learner}
    return {"learner": asked, **DEVTEST}


def last_words(run: Path) -> str:
    """The last line of the log that says how the run ended; lines on what to do next follow it."""
    lines = [line.partition(" INFO ")[2] for line in (run / "log.txt").read_text().splitlines()]
    return [line for line in lines if line.startswith("done: ")][-1]


def bleus(run: Path) -> list[float]:
    return [epoch["devtest_bleu"] for epoch in metrics(run)]


@pytest.mark.parametrize("algorithm", ["sgd", "mix", "itermix", "itersel"])
def test_the_best_epoch_is_the_result_and_what_is_in_vain_ends_the_run(
    tiny: Tiny, tmp_path: Path, algorithm: str
) -> None:
    run = tmp_path / "run"
    tiny.train(run, **falling(algorithm, patience=2))
    best = 1 + bleus(run).index(max(bleus(run)))
    assert len(bleus(run)) == best + 2 < 9
    assert read_weights(run / "weights.txt.gz") == epoch_weights(run, best) != epoch_weights(run, best + 2)
    why = f"ended after epoch {best + 2} of 9: no better devtest score in 2 epochs (raise learner.patience to go on)"
    before = metrics(run)[0]["devtest_bleu_before"]
    but = f" but for the initial weights (BLEU {before:.2f})" if before > max(bleus(run)) else ""
    result = f"done: {run}/weights.txt.gz holds the weights of epoch {best}"
    assert last_words(run) == f"{result}, the best on devtest{but}; {why}"
    status = read_status(run)
    assert status.ended and "finished early: no better devtest score in 2 epochs" in status.state
    assert [line.split()[0] for line in status.table if "*" in line] == [f"*{best}"]


def test_the_default_is_three_epochs(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(tmp_path / "run", **falling("itermix", preset="default", learning_rate=None, epochs=20))
    found = bleus(tmp_path / "run")
    assert len(found) == 1 + found.index(max(found)) + 3 < 20


def test_without_patience_all_epochs_are_done(tiny: Tiny, tmp_path: Path) -> None:
    run = tmp_path / "run"
    tiny.train(run, **falling("itermix", patience=0, epochs=6))
    assert len(bleus(run)) == 6
    assert last_words(run).endswith("the weights of epoch 1, the best on devtest; all 6 epochs are done")


def test_without_devtest_the_last_epoch_is_the_result(tiny: Tiny, tmp_path: Path) -> None:
    run = tmp_path / "run"
    tiny.train(run, learner={"algorithm": "mix", "epochs": 5, "patience": 1})
    assert len(metrics(run)) == 5 and read_weights(run / "weights.txt.gz") == epoch_weights(run, 5)
    log = (run / "log.txt").read_text()
    assert (
        log.count("INFO no [data.devtest]: the result will be the weights of the last epoch, not of the best one") == 1
    )
    assert last_words(run).endswith("holds the weights of epoch 5; all 5 epochs are done")


@pytest.mark.parametrize("algorithm", ["mix", "itersel"])
def test_what_ended_stays_so_until_patience_is_raised(tiny: Tiny, tmp_path: Path, algorithm: str) -> None:
    run = tmp_path / "run"
    tiny.train(run, **falling(algorithm, patience=2))
    before = files_of(run)
    tiny.train(run, **falling(algorithm, patience=2, epochs=20))
    assert files_of(run) == before
    assert "of 20: no better devtest score in 2 epochs (raise learner.patience to go on)" in last_words(run)
    tiny.train(run, **falling(algorithm, patience=0, epochs=6))
    tiny.train(tmp_path / "unbroken", **falling(algorithm, patience=0, epochs=6))
    assert len(bleus(run)) == 6 and files_of(run) == files_of(tmp_path / "unbroken")


def test_a_finished_run_given_more_epochs_goes_on_as_far_as_patience(tiny: Tiny, tmp_path: Path) -> None:
    run = tmp_path / "run"
    tiny.train(run, **falling("itermix", patience=3, epochs=2))
    assert last_words(run).endswith("all 2 epochs are done")
    tiny.train(run, **falling("itermix", patience=3, epochs=1))
    assert last_words(run).endswith("2 epochs were done before, more than learner.epochs = 1")
    assert ": 2 of 2 epochs done, finished" in read_status(run).state
    tiny.train(run, **falling("itermix", patience=3))
    assert len(bleus(run)) == 4
    tiny.train(tmp_path / "unbroken", **falling("itermix", patience=3))
    assert files_of(run) == files_of(tmp_path / "unbroken")


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_stop_in_between_changes_nothing(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int
) -> None:
    """What the BLEU before training was, too."""
    tables = falling("mix", patience=3)
    tiny.train(tmp_path / "unbroken", **tables)
    decodes = Decodes(monkeypatch)
    decodes.stop_at = 1 + SENTENCES * (epoch - 1) + 9, signal.SIGTERM
    with pytest.raises(StopRequested):
        tiny.train(tmp_path / "run", **tables)
    assert len(list((tmp_path / "run" / "checkpoints").glob("*.h5"))) == epoch - 1
    decodes.stop_at = None
    tiny.train(tmp_path / "run", **tables)
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")
    assert metrics(tmp_path / "run")[0]["devtest_bleu_before"] > 50
    assert "devtest_bleu_before" not in metrics(tmp_path / "run")[1]


@pytest.mark.parametrize(("epoch", "named"), [(0, "before training"), (2, "after epoch 2")])
def test_a_stop_does_not_wait_for_the_devtest_set(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int, named: str
) -> None:
    tables = falling("itermix", patience=3)
    tiny.train(tmp_path / "unbroken", **tables)
    watched, decode = list[int](), EmbeddedDecoder.decode
    stop_at = epoch * len((tiny.folder / "dev.de").read_text().splitlines()) + 3

    def stopped(decoder: EmbeddedDecoder, sentence: Any, weights: Any, k: int) -> Any:
        watched.extend([k] * (k == 1))
        if len(watched) == stop_at and k == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return decode(decoder, sentence, weights, k)

    monkeypatch.setattr(EmbeddedDecoder, "decode", stopped)
    what = "finished work is kept" if epoch else "nothing of it is written"
    with pytest.raises(StopRequested, match=f"stopped by SIGTERM in the translation {named}; {what}"):
        tiny.train(tmp_path / "run", **tables)
    assert len(watched) == stop_at
    monkeypatch.undo()
    tiny.train(tmp_path / "run", **tables)
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


@pytest.mark.mpi
def test_all_ranks_end_together(tiny: Tiny, tmp_path: Path) -> None:
    jobs = []
    for algorithm in ("sgd", "mix", "itersel"):
        tiny.train(tmp_path / algorithm, **falling(algorithm, patience=1))
        jobs.append(tiny.job_file(tmp_path / f"{algorithm}-2", **falling(algorithm, patience=1)))
    done = mpirun(2, [TRAIN_JOBS, *jobs])
    assert done.returncode == 0 and done.stdout == "", done.stderr
    for algorithm in ("sgd", "mix", "itersel"):
        assert files_of(tmp_path / f"{algorithm}-2") == files_of(tmp_path / algorithm)
        assert (
            last_words(tmp_path / f"{algorithm}-2").partition("; ")[2]
            == last_words(tmp_path / algorithm).partition("; ")[2]
        )


def test_a_result_of_an_earlier_version_is_chosen_anew(tiny: Tiny, tmp_path: Path) -> None:
    """They took the last epoch of averages."""
    run = tmp_path / "run"
    tiny.train(run, **falling("mix", epochs=3))
    best, other = run / "weights" / "epoch-0001.txt.gz", run / "weights" / "epoch-0003.txt.gz"
    assert (run / "weights.txt.gz").read_bytes() == best.read_bytes() != other.read_bytes()
    (run / "weights.txt.gz").write_bytes(other.read_bytes())
    tiny.train(run, **falling("mix", epochs=3))
    assert (run / "weights.txt.gz").read_bytes() == best.read_bytes()


def test_warnings_are_in_log_metrics_and_report(tiny: Tiny, tmp_path: Path) -> None:
    run = tmp_path / "run"
    tiny.train(run, **falling("itersel", patience=1))
    log = (run / "log.txt").read_text()
    expected = r"devtest BLEU \d+\.\d\d, expected at most 1 below the best so far, 100\.00 \(before training\): "
    [first, second] = [epoch["warnings"] for epoch in metrics(run)]
    assert first == [] and len(second) == 1 and re.match(expected, second[0])
    assert f"WARNING epoch 2: {second[0]}\n" in log and log.count("WARNING") == 1
    html = write_report([run]).read_text()
    assert "finished early, after epoch 2 of 9: no better devtest score in 1 epoch" in html
    assert html.count(second[0]) == 1, "once, not from the log again"


@pytest.mark.parametrize("algorithm", ["sgd", "mix", "itersel"])
def test_norms_are_in_the_metrics(tiny: Tiny, tmp_path: Path, algorithm: str) -> None:
    run = tmp_path / "run"
    frozen = ["LanguageModel"]
    tiny.train(run, learner={"algorithm": algorithm, "initial_weights": "warm", "frozen": frozen})
    for epoch in metrics(run):
        learned = {name: w for name, w in epoch_weights(run, epoch["epoch"]).items() if name not in frozen}
        assert epoch["weight_norm"] == pytest.approx(sum(w * w for w in learned.values()) ** 0.5, rel=1e-9)
        assert 0 < epoch["changing_lists"] <= SENTENCES and 0 < epoch["list_change"] < epoch["shard_norm"] < 10
    tiny.train(tmp_path / "pro", learner={"method": "pro", "epochs": 1})
    [epoch] = metrics(tmp_path / "pro")
    assert (epoch["changing_lists"], epoch["list_change"], epoch["shard_norm"]) == (0, None, None)
    assert epoch["weight_norm"] > 0 and json.dumps(epoch["warnings"]) == "[]"


def test_the_change_by_a_list_does_not_depend_on_the_features_that_a_rank_has_met(tiny: Tiny, tmp_path: Path) -> None:
    """l2 changes the weights of all features, also of those that are in no translation of the list."""
    warm, more = (tiny.folder / "warm").read_text(), "".join(f"R:{n} 0\n" for n in range(1000))
    changes = []
    for name, text in (("few", warm), ("many", warm + more)):
        (tmp_path / f"{name}.weights").write_text(text)
        learner = {"l2": 0.1, "epochs": 1, "initial_weights": f"{tmp_path}/{name}.weights"}
        tiny.train(tmp_path / name, learner=learner)
        changes.append(metrics(tmp_path / name)[0]["list_change"])
    assert changes[0] == changes[1]


def test_initial_weights_that_no_epoch_is_better_than_are_told(tiny: Tiny) -> None:
    job = tiny.job(tiny.folder / "run", learner={"epochs": 2})
    history = [{"devtest_bleu": bleu, "devtest_metric": None} for bleu in (30.0, 30.5)]
    assert ending(job, history) == "epoch 2, the best on devtest; all 2 epochs are done"
    history[0]["devtest_bleu_before"] = 30.5
    assert ending(job, history) == "epoch 2, the best on devtest; all 2 epochs are done"
    history[0]["devtest_bleu_before"] = 31.25
    told = "the best on devtest but for the initial weights (BLEU 31.25)"
    assert ending(job, history) == f"epoch 2, {told}; all 2 epochs are done"


@pytest.mark.parametrize(
    ("bleus", "expected"),
    [([1.0, 3.0, 3.0, 2.0], 2), ([1.0, 0.5], 1), ([3.0, 3.0], 1), ([None, None], 2), ([], 0)],
)
def test_the_best_epoch_on_devtest_is_chosen(bleus: list[float | None], expected: int) -> None:
    assert chosen_epoch(bleus) == expected


@pytest.mark.parametrize(
    ("bleus", "patience", "expected"),
    [
        ([], 1, False),
        ([1.0], 1, False),
        ([1.0, 1.0], 1, True),
        ([1.0, 2.0, 1.0, 1.5], 3, False),
        ([1.0, 2.0, 1.0, 1.5, 2.0], 3, True),
        ([3.0, 2.0, 1.0, 0.5, 4.0], 5, False),
        ([3.0, 2.0, 1.0, 0.5, 0.0], 0, False),
        ([None] * 9, 1, False),
    ],
)
def test_patience_runs_out_after_epochs_in_vain(bleus: list[float | None], patience: int, expected: bool) -> None:
    assert out_of_patience(bleus, patience) == expected
    reason = early_end_reason(bleus, len(bleus) + 1, patience)
    assert reason.startswith(f"no better devtest score in {epochs_since_best(bleus)} epoch" if expected else "")
    assert bool(reason) == expected
    assert early_end_reason(bleus, len(bleus), patience) == "", "all epochs are done"
