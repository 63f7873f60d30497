"""What a run keeps of the sentences that it watches."""

from __future__ import annotations

import gzip
import signal
from pathlib import Path

import pytest
import sacrebleu
from support.runs import SENTENCES, Decodes, files_of, kept, metrics
from support.tiny import DEVTEST, Tiny

from mpitune.cli.parser import main
from mpitune.corpus.weights import read_weights
from mpitune.errors import StopRequested
from mpitune.learner.weights import SparseWeights
from mpitune.metrics.sacrebleu import corpus_bleu
from mpitune.run_folder import run_state
from mpitune.run_folder.watch import read_status
from mpitune.training import dense_start
from mpitune.training.devtest import WITHOUT_DEVTEST
from mpitune.training.epoch_statistics import Scores
from mpitune.training.session import TrainingRun


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_the_devtest_set_is_kept_with_its_translations(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(run := tmp_path / "run", **DEVTEST)
    assert kept(run, "source") == lines(tiny.folder / "dev.de")
    assert kept(run, "reference-0") == lines(tiny.folder / "dev.en")
    references = [[line] for line in kept(run, "reference-0")]
    for epoch in metrics(run):
        translations = kept(run, f"epoch-{epoch['epoch']:04d}")
        assert corpus_bleu(translations, references) == epoch["devtest_bleu"]
    assert kept(run, "epoch-0000") != translations, "training changes something"


def test_all_references_of_the_devtest_set_count(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(run := tmp_path / "run", data__devtest={"source": "dev.de", "references": ["dev.en", "dev.en2"]})
    ours = list(zip(*(lines(tiny.folder / name) for name in ("dev.en", "dev.en2")), strict=True))
    for epoch in metrics(run):
        translations = kept(run, f"epoch-{epoch['epoch']:04d}")
        score = sacrebleu.corpus_bleu(translations, list(zip(*ours, strict=True)), tokenize="none")
        assert epoch["devtest_bleu"] == pytest.approx(score.score)
        assert epoch["devtest_length_ratio"] == pytest.approx(score.sys_len / score.ref_len)
        assert corpus_bleu(translations, [[first] for first, _ in ours]) != pytest.approx(score.score)


@pytest.mark.parametrize("epoch", [0, 2])
def test_the_weights_are_those_of_the_epoch(tiny: Tiny, tmp_path: Path, epoch: int) -> None:
    tables = {"learner": {"initial_weights": "warm", "algorithm": "itermix"}, **DEVTEST}
    tiny.train(run := tmp_path / "run", **tables)
    weights = run / "weights" / "epoch-0002.txt.gz" if epoch else tiny.folder / "warm"
    job = tiny.job_file(run, **tables)
    call = ["decode", job, "--weights", weights, "--input", tiny.folder / "dev.de", "--output", tmp_path / "out"]
    assert main([str(word) for word in call]) == 0
    assert kept(run, f"epoch-{epoch:04d}") == lines(tmp_path / "out")


@pytest.mark.parametrize("templates", [["id"], []])
def test_the_dense_weights_are_scored_before_sparse_features_are_learned(
    tiny: Tiny, tmp_path: Path, templates: list[str]
) -> None:
    """The score is that of the dense weights among the result's; translations before training remain those."""
    learner = {"preset": "default", "learning_rate": None, "epochs": 2}
    tables = {"learner": learner, "features": {"templates": templates}, **DEVTEST}
    tiny.train(run := tmp_path / "run", **tables)
    first, second = metrics(run)
    assert "devtest_bleu_dense" not in second
    assert corpus_bleu(kept(run, "epoch-0000"), [[line] for line in kept(run, "reference-0")]) == pytest.approx(
        first["devtest_bleu_before"]
    )
    if not templates:
        assert first["devtest_bleu_dense"] is None
        return
    weights = gzip.decompress((run / "weights" / "epoch-0002.txt.gz").read_bytes()).decode().splitlines()
    dense = [line for line in weights if not line.startswith("R:")]
    assert 0 < len(dense) < len(weights)
    (tmp_path / "dense").write_text("\n".join(dense) + "\n", encoding="utf-8")
    call = ["decode", tiny.job_file(run, **tables), "--weights", tmp_path / "dense"]
    call += ["--input", tiny.folder / "dev.de", "--output", tmp_path / "out"]
    assert main([str(word) for word in call]) == 0
    score = corpus_bleu(lines(tmp_path / "out"), [[line] for line in lines(tiny.folder / "dev.en")])
    assert first["devtest_bleu_dense"] == score != first["devtest_bleu_before"]
    assert f"before sparse features are learned: devtest BLEU {score:.2f}" in (run / "log.txt").read_text()


@pytest.mark.parametrize(
    ("metric", "scores", "shown"), [("bleu", Scores(100.5, 1.0), "100.50"), ("ter", Scores(0.0, 1.0, 0.5), "0.5")]
)
def test_the_dense_start_is_the_result_while_no_epoch_is_as_good(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: str, scores: Scores, shown: str
) -> None:
    """The same after a resume with more epochs."""

    def weights(file: str) -> list[str]:
        return gzip.decompress((tmp_path / "run" / file).read_bytes()).decode().splitlines()

    def log() -> str:
        return (tmp_path / "run" / "log.txt").read_text()

    tables = {"learner": {"preset": "default", "learning_rate": None, "epochs": 1, "metric": metric}, **DEVTEST}
    with monkeypatch.context() as patch:
        patch.setattr(dense_start, "score_devtest", lambda *_: scores)
        tiny.train(tmp_path / "run", **tables)
    dense = [line for line in weights("weights/epoch-0001.txt.gz") if not line.startswith(("R:", "RBS:", "Shape_"))]
    assert weights("weights.txt.gz") == dense != weights("weights/epoch-0001.txt.gz")
    assert "holds the weights of the dense start, better on devtest than all epochs" in log()
    assert main(["report", str(tmp_path / "run")]) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "they are the result" in page and f"<b>{shown}" in page
    assert "The dotted line marks epoch 1, the best; the dense start is better" in page
    table = [line.split() for line in read_status(tmp_path / "run").table]
    assert table[1] == ["*dense", shown] and table[2][0] == "1", "no epoch is the result"
    tables["learner"]["epochs"] = 2
    (tmp_path / "run" / "weights.txt.gz").unlink()
    tiny.train(tmp_path / "run", **tables)
    assert weights("weights.txt.gz") == dense
    assert scores.text in log()
    key = "devtest_bleu_dense" if metric == "bleu" else "devtest_metric_dense"
    for score, better in ((scores.tuned, True), (-100.0, False), (None, False)):
        epochs = metrics(tmp_path / "run")
        epochs[0][key] = score
        assert run_state.dense_start_is_best(epochs) == better


def test_a_dense_start_from_sparse_weights_is_the_model_that_was_scored(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Initial weights are scaled, also those of sparse features, which the dense start leaves as they are."""
    scored = list[dict[str, float]]()

    def score(run: TrainingRun, weights: SparseWeights, _: str) -> Scores:
        scored.append(dict(run.first.publish(weights).named))
        return Scores(102.0 - len(scored), 1.0)  # better than any epoch

    monkeypatch.setattr(dense_start, "score_devtest", score)
    learner = {"preset": "default", "learning_rate": None, "epochs": 1, "initial_weights": "warm"}
    tiny.train(tmp_path / "run", learner=learner, **DEVTEST)
    expected = scored[0]
    given = read_weights(tiny.folder / "warm")
    sparse = {name: weight for name, weight in expected.items() if name.startswith("R:")}
    assert sparse and all(weight != given[name] for name, weight in sparse.items())
    assert read_weights(tmp_path / "run" / "weights.txt.gz") == expected


LISTS_BEFORE = 1 + 10 * SENTENCES
"""Lists that are decoded until the dense start ends: one to load the kernels, then ten passes."""


@pytest.mark.parametrize(
    ("lists", "during"),
    [
        (LISTS_BEFORE, "the translation after the dense start; finished work is kept"),
        (LISTS_BEFORE + 9, "epoch 1"),
        (LISTS_BEFORE + SENTENCES + 9, "epoch 2"),
    ],
)
def test_a_stop_does_not_change_the_score_of_the_dense_weights(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lists: int, during: str
) -> None:
    tables = {"learner": {"preset": "default", "learning_rate": None, "epochs": 2}, **DEVTEST}
    tiny.train(tmp_path / "unbroken", **tables)
    decodes = Decodes(monkeypatch)
    decodes.stop_at = lists, signal.SIGTERM
    with pytest.raises(StopRequested, match=during):
        tiny.train(tmp_path / "run", **tables)
    decodes.stop_at = None
    tiny.train(tmp_path / "run", **tables)
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")
    assert metrics(tmp_path / "run")[0]["devtest_bleu_dense"] > 0


def test_without_a_devtest_set_some_training_sentences_are_watched(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(run := tmp_path / "run")
    assert kept(run, "source") == lines(tiny.folder / "train.de")[:WITHOUT_DEVTEST]
    assert kept(run, "reference-1") == lines(tiny.folder / "train.en2")[:WITHOUT_DEVTEST]
    assert [len(kept(run, f"epoch-000{n}")) for n in range(3)] == [WITHOUT_DEVTEST] * 3


def test_references_of_a_job_before_it_are_removed(tiny: Tiny, tmp_path: Path) -> None:
    """A run that was killed before its first checkpoint leaves them; this job has one reference."""
    left = tmp_path / "run" / "translations"
    left.mkdir(parents=True)
    (tmp_path / "run" / "lock").write_text("process 1 on here\n")
    (left / "reference-1.txt.gz").write_bytes(gzip.compress(b"one\n"))
    tiny.train(tmp_path / "run", **DEVTEST, learner={"epochs": 1})
    assert not (left / "reference-1.txt.gz").exists() and (left / "reference-0.txt.gz").exists()


def test_starting_over_watches_anew(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(run := tmp_path / "run", learner={"epochs": 2})
    tiny.train(run, learner={"epochs": 1}, resume="never")
    names = sorted(path.name for path in (run / "translations").iterdir())
    assert names == [f"{name}.txt.gz" for name in ("epoch-0000", "epoch-0001", "reference-0", "reference-1", "source")]
