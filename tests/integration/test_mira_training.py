"""Whole runs with MIRA, and with the gold score that looks at the whole set."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from support import naive
from support.mpi import mpirun
from support.runs import SENTENCES, SHARD_SIZES, TRAIN_JOBS, Decodes, damage, epoch_weights, files_of, metrics, result
from support.tiny import DEVTEST, Tiny

from mpitune.config.effective_keys import effective_keys
from mpitune.errors import StopRequested, UsageError
from mpitune.exchange.comm import SerialComm
from mpitune.learner.online.mira import ORACLES, PREDICTIONS, Mira
from mpitune.metrics.sentence_bleu import make_sentence_metric
from mpitune.training import factory
from mpitune.training.open_run import open_run

CONTEXT: dict[str, Any] = {"method": "mira", "gold": "context"}


def tables(epochs: int = 3, algorithm: str = "itermix", mira: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"learner": {**CONTEXT, "epochs": epochs, "algorithm": algorithm}, "learner__mira": mira or {}}


@pytest.mark.parametrize(
    ("learner", "mira"),
    [
        ({"method": "mira", "gold": "bleu+1"}, {}),
        ({**CONTEXT, "algorithm": "mix"}, {"c": 0.05}),
        (CONTEXT, {"oracle": "MB", "prediction": "MC", "oracle_kbest": 40}),
        (CONTEXT, {"oracle": "LU", "prediction": "MC", "cost_scale": 5.0}),
        (CONTEXT, {"oracle": "M-C", "prediction": "M+C", "oracle_kbest": 40}),
        (CONTEXT, {"oracle": "LU", "prediction": "PB", "oracle_kbest": 40}),
        (CONTEXT, {"oracle": "M-C", "prediction": "MC"}),
        ({"gold": "context", "frozen": ["LanguageModel"]}, {}),
    ],
)
def test_the_weights_are_those_of_the_pseudocode(
    tiny: Tiny, tmp_path: Path, learner: dict[str, Any], mira: dict[str, Any]
) -> None:
    learner = {"algorithm": "itermix", "epochs": 3, "initial_weights": "warm", **learner}
    job = tiny.train(tmp_path / "run", learner=learner, learner__mira=mira, decoder={"kbest": 20})
    expected = naive.train(open_run(job, SerialComm()))
    for epoch in (1, 2, 3):
        assert epoch_weights(tmp_path / "run", epoch) == pytest.approx(expected[epoch - 1], abs=1e-9, rel=0)


def test_translations_get_better(tiny: Tiny, tmp_path: Path) -> None:
    for variant in ("1-best", "k-constraint", "cutting-plane"):
        tiny.train(tmp_path / variant, **tables(4, mira={"variant": variant}))
        found = metrics(tmp_path / variant)
        assert found[-1]["gold"] > found[0]["gold"] + 0.02
        assert found[-1]["best_bleu"] > found[0]["best_bleu"]


def test_pairings_learn_different_things(tiny: Tiny, tmp_path: Path) -> None:
    learned = {}
    for oracle in ORACLES:
        for prediction in PREDICTIONS:
            run = tmp_path / f"{oracle}-{prediction}"
            tiny.train(run, **tables(2, mira={"oracle": oracle, "prediction": prediction}), decoder={"kbest": 8})
            learned[oracle, prediction] = result(run)
    assert all(learned.values()) and len(set(learned.values())) > 6
    typical = [learned[pair] for pair in (("M-C", "M+C"), ("M-C", "PB"), ("LU", "MC"), ("MB", "MC"))]
    assert len(set(typical)) == 4


@pytest.mark.parametrize("mira", [{"c": 0.5}, {"cost_scale": 3.0}, {"variant": "k-constraint"}], ids=str)
def test_every_option_makes_a_difference(tiny: Tiny, tmp_path: Path, mira: dict[str, Any]) -> None:
    tiny.train(tmp_path / "plain", **tables(2))
    tiny.train(tmp_path / "other", **tables(2, mira=mira))
    assert epoch_weights(tmp_path / "other", 2) != epoch_weights(tmp_path / "plain", 2)
    with pytest.raises(UsageError, match="the job has changed since its last checkpoint: learner.mira"):
        tiny.train(tmp_path / "plain", **tables(3, mira=mira))


def test_other_methods_do_not_depend_on_its_table(tiny: Tiny, tmp_path: Path) -> None:
    plain, other = (
        tiny.job(tmp_path / "run", learner__mira=mira) for mira in ({}, {"c": 0.5, "cost_scale": 2.0, "oracle": "MB"})
    )
    assert effective_keys(plain) == effective_keys(other)
    assert factory.list_length(other) == 30
    assert factory.gold(plain, factory.metric(plain, ()), 7).needs_previous_epoch is False


# What is told


def test_bleu_of_what_is_picked(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Corpus BLEU of 1-best translations, oracles and predictions is sacreBLEU's of the same translations."""
    texts: dict[str, list[str]] = {"best": [], "oracle": [], "prediction": []}
    references: list[list[str]] = []
    job = tiny.job(tmp_path / "run", **tables(1, mira={"oracle": "LU", "prediction": "MC"}))
    run = open_run(job, SerialComm())
    words = run.store.model.words.words
    update = Mira.update

    def noted(learner: Any, kbest: Any, *rest: Any) -> Any:
        counts = update(learner, kbest, *rest)
        for name, j in (("best", 0), ("oracle", counts.oracle), ("prediction", counts.prediction)):
            texts[name].append(" ".join(words[word] for word in kbest.translation(j)))
        return counts

    monkeypatch.setattr(Mira, "update", noted)
    score = type(run.gold).score

    def watched(gold: Any, statistics: Any, length: int, number: int = 0) -> Any:
        references.append([" ".join(words[word] for word in text) for text in run.corpus.references(number)])
        return score(gold, statistics, length, number)

    monkeypatch.setattr(type(run.gold), "score", watched)
    tiny.train(tmp_path / "run", **tables(1, mira={"oracle": "LU", "prediction": "MC"}))
    (found,) = metrics(tmp_path / "run")
    assert len(references) == SENTENCES + 1, "the first one is learned from to load the kernels"
    streams = [[text[r] if r < len(text) else None for text in references[1:]] for r in (0, 1)]
    for name, translations in texts.items():
        expected = BLEU(tokenize="none", smooth_method="none").corpus_score(translations[1:], streams).score
        assert found[f"{name}_bleu"] == pytest.approx(expected, abs=1e-9), name
    assert found["prediction_bleu"] < found["best_bleu"] < found["oracle_bleu"]
    assert 0 < found["updates"] <= found["pairs"] <= SENTENCES


def test_what_is_not_picked_is_null(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(tmp_path / "run", learner={"epochs": 1})
    (found,) = metrics(tmp_path / "run")
    assert (found["oracle_bleu"], found["prediction_bleu"]) == (None, None) and found["best_bleu"] > 0


def test_the_scale_is_the_number_of_sentences(tiny: Tiny, tmp_path: Path) -> None:
    best = np.array([[3, 2, 1, 1, 4, 3, 2, 1, 4, 5, 5], [5, 4, 3, 2, 6, 5, 4, 3, 6, 5, 7]], dtype=np.int32)
    rows = np.array([[4, 3, 2, 1, 5, 4, 3, 2, 5, 5, 7], [0, 0, 0, 0, 2, 1, 0, 0, 2, 5, 7]], dtype=np.int64)
    job = tiny.job(tmp_path / "run", **tables())
    gold = factory.gold(job, factory.metric(job, ()), 2)
    assert gold.score(rows, 4, 1).tolist() == make_sentence_metric("bleu+1").score(rows, 4).tolist()
    gold.start_epoch(best)
    expected = [2 * naive.gold("papineni", (best[0] + row).tolist()) for row in rows]
    assert gold.score(rows, 4, 1) == pytest.approx(expected, abs=1e-12)
    assert gold.score(rows, 4, 0)[0] != gold.score(rows, 4, 1)[0]
    assert gold.report(rows) == make_sentence_metric("bleu+1").score(rows, 4)[0], "metrics have a score of its own"


# No trace of interruptions, or of ranks


@pytest.mark.parametrize("algorithm", ["mix", "itersel"])
def test_more_epochs_go_on_as_if_never_finished(tiny: Tiny, tmp_path: Path, algorithm: str) -> None:
    given = {"parallel": {"reshuffle": True}, **DEVTEST}
    tiny.train(tmp_path / "unbroken", **tables(3, algorithm), **given)
    for epochs in (1, 2, 3):
        tiny.train(tmp_path / "run", **tables(epochs, algorithm), **given)
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


def test_what_an_interrupted_epoch_has_translated_is_kept(tiny: Tiny, tmp_path: Path, decodes: Decodes) -> None:
    """Stopped in epoch 2: its finished shards are not decoded again, and epoch 3 still knows their translations."""
    tiny.train(tmp_path / "unbroken", **tables())
    decodes.count = 0
    decodes.stop_at = 1 + SENTENCES + 2 * max(SHARD_SIZES) + 2, signal.SIGTERM
    with pytest.raises(StopRequested):
        tiny.train(tmp_path / "run", **tables())
    decodes.count, decodes.stop_at = 0, None
    tiny.train(tmp_path / "run", **tables())
    assert 2 * min(SHARD_SIZES) <= 1 + 2 * SENTENCES - decodes.count <= 2 * max(SHARD_SIZES)
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")
    damage(tmp_path / "run" / "checkpoints" / "epoch-0003.h5")
    tiny.train(tmp_path / "run", **tables())
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_leave_no_trace(tiny: Tiny, tmp_path: Path, ranks: int) -> None:
    jobs = []
    for algorithm in ("mix", "itersel"):
        for epochs in (1, 3):  # The second goes on.
            job = tiny.job_file(tmp_path / algorithm, **tables(epochs, algorithm), parallel={"reshuffle": True})
            jobs.append(job.rename(job.with_stem(f"{job.stem}-{epochs}")))
    done = mpirun(ranks, [TRAIN_JOBS, *jobs])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for algorithm in ("mix", "itersel"):
        tiny.train(tmp_path / "alone", resume="never", **tables(3, algorithm), parallel={"reshuffle": True})
        assert files_of(tmp_path / algorithm) == files_of(tmp_path / "alone")
