"""The dense start: what all shards begin with where there are no weights."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import Cli
from support.tiny import Tiny

from mpitune.corpus.weights import read_weights
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.exchange.comm import SerialComm
from mpitune.run_folder.checkpoint import read_checkpoint
from mpitune.training import dense_start as start
from mpitune.training import online_epoch as module
from mpitune.training.initial_size import best_factor
from mpitune.training.loop import train

DEFAULT = {"preset": "default", "learning_rate": None, "epochs": 1}


def checkpoint(tiny: Tiny, run: Path, **learner: object) -> dict[str, float]:
    """The first epoch's weights."""
    train(tiny.job(run, learner={**DEFAULT, **learner}), SerialComm(), quiet=True)
    found = read_checkpoint(run / "checkpoints/epoch-0001.h5")
    return dict(zip(found.names, found.weights[1].tolist(), strict=True))


def log(run: Path) -> str:
    return (run / "log.txt").read_text()


def test_shards_begin_with_dense_weights(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All decode with the same weights of dense features first, and their learners go on from the same state."""
    begun = []
    learn = module.learn_shard

    def spy(run, learner, epoch, z, shard, weights, kept, advance):  # type: ignore[no-untyped-def]
        begun.append((weights.copy(), [array.copy() for array in kept], len(run.store.model.dense_features())))
        return learn(run, learner, epoch, z, shard, weights, kept, advance)

    monkeypatch.setattr(module, "learn_shard", spy)
    checkpoint(tiny, tmp_path / "run")
    assert "dense start: learning first weights from 26 sentences" in log(tmp_path / "run")
    assert len(begun) == 4
    first, kept, dense = begun[0]
    assert first[:dense].any() and not first[dense:].any()
    assert len(kept) == 3 and kept[0][:dense].any() and not kept[0][dense:].any()
    for weights, arrays, _ in begun[1:]:
        assert (weights == first).all()
        assert all((ours == theirs).all() for ours, theirs in zip(arrays, kept, strict=True))


@pytest.mark.parametrize("given", [{"initial_weights": "warm"}, {"dense_start": 0}, {"method": "mira"}])
def test_there_is_none_where_weights_are_given_or_it_is_not_asked_for(
    tiny: Tiny, tmp_path: Path, given: dict[str, object]
) -> None:
    checkpoint(tiny, tmp_path / "run", **given)
    assert "dense start" not in log(tmp_path / "run")


def test_the_number_of_sentences_is_that_of_the_key(tiny: Tiny, tmp_path: Path) -> None:
    some = checkpoint(tiny, tmp_path / "some", dense_start=5)
    assert "from 5 sentences" in log(tmp_path / "some")
    assert some != checkpoint(tiny, tmp_path / "all")


@pytest.mark.parametrize(
    ("frozen", "factor", "expected"),
    [
        ([], 1, {"LanguageModel": start.LM_WEIGHT}),
        ([], 100, {"LanguageModel": start.LM_WEIGHT / 100}),
        ([], 0.01, {"LanguageModel": start.LM_WEIGHT * 100}),
        (["LanguageModel"], 1, {}),
    ],
)
def test_it_begins_with_the_language_models_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    frozen: list[str],
    factor: float,
    expected: dict[str, float],
) -> None:
    """From weights of 0, whose lists are meaningless, a pass may learn nothing; the weight fits the model's unit."""
    begun, learn = list[dict[str, float]](), start.learn_shard

    def spy(run, learner, epoch, z, shard, weights, state, advance):  # type: ignore[no-untyped-def]
        dense = run.store.model.dense_features()
        begun.append({dense[slot]: float(weights[slot]) for slot in np.flatnonzero(weights).tolist()})
        assert not state
        return learn(run, learner, epoch, z, shard, weights, state, advance)

    monkeypatch.setattr(start, "learn_shard", spy)
    (tmp_path / "tiny").mkdir()
    tiny = Tiny(tmp_path / "tiny")
    model = tiny.folder / "lm.arpa"
    model.write_text(re.sub(r"-\d+\.\d+", lambda number: f"{float(number[0]) * factor:.6g}", model.read_text()))
    weights = checkpoint(tiny, tmp_path / "run", frozen=frozen, algorithm="itermix")
    assert begun == [{name: pytest.approx(value) for name, value in expected.items()}]
    assert frozen or "LanguageModel" in weights


def test_it_decodes_as_the_job_does_but_for_templates(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, decode = list[dict[str, object]](), EmbeddedDecoder.decode

    def spy(self: EmbeddedDecoder, *given: Any) -> Any:
        limits = ("pop_limit", "rule_margin", "span_limit", "unique")
        seen.append({name: getattr(self, f"_{name}") for name in limits} | {"templates": self._model.templates})
        return decode(self, *given)

    monkeypatch.setattr(EmbeddedDecoder, "decode", spy)
    limits = {"pop_limit": 17, "rule_margin": 1.5, "span_limit": 9, "unique": False}
    train(tiny.job(tmp_path / "run", learner={**DEFAULT, "dense_start": 5}, decoder=limits), SerialComm(), quiet=True)
    # Lists of the job's own decoder are the sanity checks' and the epoch's.
    templates = ("id", "source-bigram", "shape")
    without = [one for one in seen if one["templates"] != templates]
    assert without == [limits | {"templates": ()}] * 5 and len(seen) > 5
    assert all(one == limits | {"templates": one["templates"]} for one in seen)


def test_the_factor_is_that_of_the_smallest_loss() -> None:
    random = np.random.default_rng(5)
    for n in (1, 2, 7, 40):
        for ahead in (0.3, 1.0):
            leads, required = random.normal(ahead, 1.0, n), random.random(n)
            factor = best_factor(leads, required)

            def loss(c: float, leads: np.ndarray = leads, required: np.ndarray = required) -> float:
                return float(np.maximum(0.0, required - c * leads).sum())

            tried = [loss(c) for c in [0.0, *(required / leads)[leads > 0]]]
            assert loss(factor) == pytest.approx(min(tried), abs=1e-12)


def test_no_pairs_and_pairs_in_the_wrong_order_have_no_factor() -> None:
    assert best_factor(np.zeros(0), np.zeros(0)) == 0.0
    assert best_factor(np.array([-1.0, 0.5]), np.ones(2)) == 0.0


def test_the_size_of_initial_weights_changes_no_order(tiny: Tiny, tmp_path: Path) -> None:
    """Weights that are 1,024 times as large lead to the same weights: both are brought to the size that fits."""
    found = []
    for factor in (1.0, 1024.0):
        lines = [line.rpartition(" ") for line in (tiny.folder / "warm").read_text().splitlines()]
        given = tmp_path / f"warm-{factor:g}"
        given.write_text("".join(f"{name} {float(value) * factor!r}\n" for name, _, value in lines))
        found.append(checkpoint(tiny, tmp_path / f"run-{factor:g}", initial_weights=str(given)))
        assert "initial weights multiplied by" in log(tmp_path / f"run-{factor:g}")
    assert found[0].keys() == found[1].keys()
    for name, weight in found[0].items():
        assert found[1][name] == pytest.approx(weight, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("algorithm", ["sgd", "itersel"])
@pytest.mark.parametrize("method", ["perceptron", "mira"])
def test_dense_features_alone_are_tuned(tiny: Tiny, tmp_path: Path, method: str, algorithm: str) -> None:
    """Sparse features keep the proportions of their initial weights, and none that is not among them is learned."""
    given = {name: value for name, value in read_weights(tiny.folder / "warm").items() if name.startswith("R:")}
    keys = {"initial_weights": "warm", "method": method, "algorithm": algorithm}
    every, dense = (checkpoint(tiny, tmp_path / tune, **keys, tune=tune) for tune in ("all", "dense"))
    kept = {name: value for name, value in dense.items() if name.startswith("R:")}
    assert kept.keys() == given.keys() and len(set(kept.values())) == len(set(given.values())) == 1
    assert sum(name.startswith("R:") for name in every) > len(kept)
    assert dense["LanguageModel"] != 0.015625 and dense["WordPenalty"] != 0.0


def test_batch_methods_tune_all_features(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run", learner={"method": "pro", "tune": "dense"})
    assert cli.refused(2, "train", job).endswith(
        'learner.tune = "dense": expected learner.method to be perceptron or mira'
    )
