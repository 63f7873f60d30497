"""The dense start: what all shards begin with where there are no weights."""

from __future__ import annotations

import re
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import Cli
from support.naive_lm import NaiveLm
from support.runs import SENTENCES, Decodes, damage, files_of
from support.tiny import DEVTEST, Tiny

from mpitune.corpus.feature_table import FeatureTable
from mpitune.corpus.vocabulary import Names, Vocabulary, feature_id
from mpitune.corpus.weights import read_weights
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.decoder.lists.decoder import ListModel, Lists
from mpitune.errors import StopRequested
from mpitune.exchange.comm import SerialComm
from mpitune.learner.weights import SparseWeights, Weights
from mpitune.run_folder.checkpoint import read_checkpoint
from mpitune.training import dense_start as start
from mpitune.training import online_epoch as module
from mpitune.training.dense_start import best_factor
from mpitune.training.epoch_statistics import Scores
from mpitune.training.factory import learned_in_epochs
from mpitune.training.loop import train
from mpitune.training.session import TrainingRun

SPARSE = ("R:", "RBS:", "Shape")
DEFAULT = {"preset": "default", "learning_rate": None, "epochs": 1}


def checkpoint(tiny: Tiny, run: Path, **learner: object) -> dict[str, float]:
    """The first epoch's weights."""
    train(tiny.job(run, learner={**DEFAULT, **learner}), SerialComm())
    found = read_checkpoint(run / "checkpoints/epoch-0001.h5")
    return dict(found.weights.named)


def log(run: Path) -> str:
    return (run / "log.txt").read_text()


@pytest.mark.parametrize(("templates", "visits"), [(["id"], "26 sentences in 10 passes"), ([], "26 sentences")])
def test_shards_begin_with_dense_weights(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, templates: list[str], visits: str
) -> None:
    """All decode with the same weights of dense features first; if these are learned on, from the same state."""
    begun = []
    learn = module.learn_shard

    def spy(run, epoch, z, shard, weights, advance):  # type: ignore[no-untyped-def]
        kept = [weights.arrays[name].copy() for name in run.online.state if name in weights.arrays]
        begun.append((weights.value.copy(), kept, weights.first_sparse))
        return learn(run, epoch, z, shard, weights, advance)

    monkeypatch.setattr(module, "learn_shard", spy)
    train(tiny.job(tmp_path / "run", learner=DEFAULT, features={"templates": templates}), SerialComm())
    assert f"dense start: learning the weights of dense features from {visits}\n" in log(tmp_path / "run")
    assert len(begun) == 4
    first, kept, dense = begun[0]
    assert first[:dense].any() and not first[dense:].any()
    assert len(kept) == (0 if templates else 4) and all(array[:dense].any() for array in kept)
    for weights, arrays, _ in begun[1:]:
        assert (weights == first).all()
        assert all((ours == theirs).all() for ours, theirs in zip(arrays, kept, strict=True))


@pytest.mark.parametrize("tune", ["all", "dense"])
def test_shards_begin_with_given_weights_and_known_steps(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tune: str
) -> None:
    """In units that lists have shown: those of a feature's first lists may be far too small."""
    begun = []
    learn = module.learn_shard

    def spy(run, epoch, z, shard, weights, advance):  # type: ignore[no-untyped-def]
        kept = [weights.arrays[name].copy() for name in run.online.state if name in weights.arrays]
        begun.append((weights.value.copy(), kept, run.first.value[: run.first.first_sparse]))
        return learn(run, epoch, z, shard, weights, advance)

    monkeypatch.setattr(module, "learn_shard", spy)
    templates: list[str] = ["id"] if tune == "dense" else []
    learner = {**DEFAULT, "initial_weights": "warm", "tune": tune}
    train(tiny.job(tmp_path / "run", learner=learner, features={"templates": templates}), SerialComm())
    assert "dense start: learning the steps of dense features from 26 sentences\n" in log(tmp_path / "run")
    factor = re.search(r"initial weights multiplied by (\S+),", log(tmp_path / "run"))
    assert factor is not None and len(begun) == 4
    first, kept, given = begun[0]
    dense = given != 0
    assert dense.any() and first[: len(given)][dense] == pytest.approx(float(factor[1]) * given[dense], rel=0.01)
    assert len(kept) == 4 and all(array.any() for array in kept)
    for weights, arrays, _ in begun[1:]:
        assert (weights == first).all()
        assert all((ours == theirs).all() for ours, theirs in zip(arrays, kept, strict=True))


@pytest.mark.parametrize("given", [{"dense_start": 0}, {"method": "mira"}])
def test_there_is_none_if_it_is_not_asked_for(tiny: Tiny, tmp_path: Path, given: dict[str, object]) -> None:
    checkpoint(tiny, tmp_path / "run", **given)
    assert "dense start" not in log(tmp_path / "run")


def test_there_is_none_if_all_dense_features_are_frozen(tiny: Tiny, tmp_path: Path) -> None:
    dense = ["Cost", "Glue", "LanguageModel", "LanguageModel_OOV", "Lex", "Order", "PassThrough", "Rare", "WordPenalty"]
    given = read_weights(tiny.folder / "warm")
    found = checkpoint(tiny, tmp_path / "run", initial_weights="warm", frozen=dense)
    assert "dense start" not in log(tmp_path / "run")
    assert {name: value for name, value in found.items() if not name.startswith(SPARSE)} == {
        name: value for name, value in given.items() if not name.startswith(SPARSE)
    }


@pytest.mark.parametrize(
    ("names", "dense", "keys", "expected"),
    [
        (["p", "q", "R:a"], 2, {}, "sparse"),
        (["p", "q"], 2, {}, "all"),
        (["R:a"], 0, {}, "all"),
        (["p", "R:a"], 1, {"dense_start": 0}, "all"),
        (["p", "R:a"], 1, {"method": "pro"}, "all"),
        (["p", "R:a"], 1, {"tune": "dense"}, "dense"),
    ],
)
def test_what_the_epochs_learn_from_lists(
    tiny: Tiny, tmp_path: Path, names: list[str], dense: int, keys: dict[str, object], expected: str
) -> None:
    """Lists of files: sparse features, where there are any beside dense ones."""
    ids = np.array([feature_id(name) for name in names], dtype=np.uint64)
    nothing = Lists(*[np.zeros(0)] * len(Lists._fields))
    model = ListModel(Vocabulary(), nothing, Names.of(names), ids, dense)
    given = {**DEFAULT, **keys} if keys.get("method") is None else {"preset": None, **keys}
    assert learned_in_epochs(tiny.job(tmp_path / "run", learner=given), model) == expected


@pytest.mark.parametrize(
    ("asked", "templates", "passes"),
    [
        (5, ["id"], [5]),
        (38, ["id"], [26]),
        (60, ["id"], [26, 26]),
        (1000, ["id"], [26] * 10),
        (5, [], [5]),
        (60, [], [26]),
    ],
)
def test_it_passes_over_the_sentences_several_times_before_sparse_features(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int, templates: list[str], passes: list[int]
) -> None:
    """A set of 26 sentences: ten passes at most, and one where the epochs go on learning the same features."""
    seen, learn = list[list[int]](), start.learn_shard

    def spy(run, epoch, z, shard, *others):  # type: ignore[no-untyped-def]
        seen.append(shard.tolist())
        return learn(run, epoch, z, shard, *others)

    monkeypatch.setattr(start, "learn_shard", spy)
    job = tiny.job(tmp_path / "run", learner={**DEFAULT, "dense_start": asked}, features={"templates": templates})
    train(job, SerialComm())
    assert [len(order) for order in seen] == [len(set(order)) for order in seen] == passes
    assert len(passes) < 2 or seen[0] != seen[1], "another order in each pass"


@pytest.mark.parametrize("scores", [[10.0, 30.0, 20.0], [10.0, 20.0, 30.0], [None] * 3])
def test_the_mean_that_is_best_on_devtest_is_frozen(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scores: list[float | None]
) -> None:
    """Passes continue from one another; the mean over passes, in which pass n has weight n, is scored as in epochs."""
    learn, begun, ended, scored = start.learn_shard, list[Any](), list[Any](), list[dict[str, float]]()

    def spy(run, epoch, z, shard, weights, advance):  # type: ignore[no-untyped-def]
        kept = [weights.arrays[name].sum() for name in run.online.state if name in weights.arrays]
        names = map(run.features.name, np.flatnonzero(weights.value).tolist())
        begun.append((dict(zip(names, weights.value[weights.value != 0].tolist(), strict=True)), kept))
        result = learn(run, epoch, z, shard, weights, advance)
        ids, value, state = result.weights
        named = dict(zip(map(run.features.name, run.features.find(ids)), value, strict=True))
        ended.append((named, [array.sum() for array in state]))
        return result

    def score(run: TrainingRun, weights: SparseWeights, _: str) -> Scores:
        scored.append(dict(run.first.publish(weights).named))
        return Scores(scores[len(scored) - 1], 1.0)

    monkeypatch.setattr(start, "learn_shard", spy)
    monkeypatch.setattr(start, "score_devtest", score)
    tables = {"learner": {**DEFAULT, "dense_start": 3 * 26}, **(DEVTEST if scores[0] else {})}
    train(tiny.job(tmp_path / "run", **tables), SerialComm())
    checkpointed = read_checkpoint(tmp_path / "run/checkpoints/epoch-0001.h5")
    found = dict(checkpointed.weights.named)
    dense = {name: value for name, value in found.items() if not name.startswith(SPARSE)}
    for (weights, state), (before, kept) in zip(begun[1:], ended[:-1], strict=True):
        assert weights == {name: value for name, value in before.items() if value}
        assert state == pytest.approx(kept) and all(state)
    means = [
        {
            name: pytest.approx(sum(n * ended[n - 1][0][name] for n in range(1, last + 1)) / sum(range(last + 1)))
            for name in dense
        }
        for last in (1, 2, 3)
    ]
    best = 1 if scores[1] == 30.0 else 2
    assert [{name: one[name] for name in dense} for one in scored] == means
    assert dense == means[best] and dense != means[3 - best]
    written = tmp_path / "run/weights/dense-start.txt.gz"
    assert read_weights(written) == dense if scores[0] else not written.exists()
    messages = [f"after pass {n} of 3, devtest score {score:g}" for n, score in enumerate(scores, 1) if score]
    messages += ["before sparse features are learned: devtest BLEU 30.00"] if messages else []
    assert all(message in log(tmp_path / "run") for message in messages)


@pytest.mark.parametrize("algorithm", ["sgd", "mix", "itermix", "itersel"])
def test_the_epochs_leave_dense_weights_as_it_has_learned_them(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    """To the bit, in every epoch, however few columns are selected, also after an interruption."""
    parallel = {"shards": 2}
    learned, freeze = list[dict[str, float]](), Weights.freeze_dense

    def spy(self, vector):  # type: ignore[no-untyped-def]
        freeze(self, vector)
        names = [self.features.name(slot) for slot in range(self.first_sparse)]
        learned.append(dict(zip(names, self.value[: self.first_sparse].tolist(), strict=True)))

    monkeypatch.setattr(Weights, "freeze_dense", spy)
    for epochs in (1, 3):
        learner = {**DEFAULT, "algorithm": algorithm, "epochs": epochs}
        train(tiny.job(tmp_path / "run", learner=learner, select={"k": 5}, parallel=parallel), SerialComm())
    start_weights, resumed = learned
    assert sum(value != 0 for value in start_weights.values()) > 5 and resumed == start_weights
    sparse = []
    for epoch in (1, 2, 3):
        found = read_checkpoint(tmp_path / f"run/checkpoints/epoch-{epoch:04}.h5")
        weights = dict(found.weights.named)
        dense = {name: value for name, value in weights.items() if not name.startswith(SPARSE)}
        assert dense == {name: value for name, value in start_weights.items() if value != 0}
        sparse.append({name: value for name, value in weights.items() if name.startswith(SPARSE)})
    assert sparse[0] and sparse[0] != sparse[1] != sparse[2]
    assert algorithm != "itersel" or {len(one) for one in sparse} == {5}


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize(
    ("templates", "tables", "lists", "left"),
    [
        (["id"], DEVTEST, 3 * SENTENCES + 9, 0),
        (["id"], {}, 3 * SENTENCES + 9, 0),
        (["id"], DEVTEST, 2 * SENTENCES + 9, 1),
        ([], DEVTEST, SENTENCES + 9, 0),
    ],
)
def test_finished_passes_are_not_learned_again(
    tiny: Tiny,
    tmp_path: Path,
    decodes: Decodes,
    templates: list[str],
    tables: dict[str, Any],
    lists: int,
    left: int,
    damaged: bool,
) -> None:
    """A run that was interrupted after ``lists`` lists, in the epoch or a pass, learns ``left`` passes and the epoch.

    A pass whose file is damaged is learned again; the result is the same.
    """
    tables = {**tables, "features": {"templates": templates}, "parallel": {"shards": 1}}
    tables["learner"] = {**DEFAULT, "dense_start": 3 * SENTENCES}
    tiny.train(tmp_path / "unbroken", **tables)
    decodes.count, decodes.stop_at = 0, (1 + lists, signal.SIGTERM)
    with pytest.raises(StopRequested, match="finished work is kept"):
        tiny.train(tmp_path / "run", **tables)
    if damaged:
        damage(tmp_path / "run/checkpoints/epoch-0000.shards/shard-0000.h5")
    decodes.count, decodes.stop_at = 0, None
    tiny.train(tmp_path / "run", **tables)
    assert decodes.count == 1 + (left + damaged + 1) * SENTENCES
    assert files_of(tmp_path / "run") == files_of(tmp_path / "unbroken")
    assert not list((tmp_path / "run/checkpoints").glob("*.shards"))


def test_passes_of_another_job_do_not_count(tiny: Tiny, tmp_path: Path, decodes: Decodes) -> None:
    for margin, stop in ((0.5, True), (1.0, False)):
        decodes.count, decodes.stop_at = 0, (2 + SENTENCES, signal.SIGTERM) if stop else None
        with pytest.raises(StopRequested) if stop else nullcontext():
            learner = {**DEFAULT, "dense_start": SENTENCES, "margin": margin}
            tiny.train(tmp_path / "run", learner=learner, features={"templates": ["id"]})
    assert decodes.count == 1 + 2 * SENTENCES


def test_it_begins_with_given_weights_and_keeps_sparse_ones(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, learn = [], start.learn_shard

    def spy(run, epoch, z, shard, weights, *others):  # type: ignore[no-untyped-def]
        before = weights.value.copy()
        result = learn(run, epoch, z, shard, weights, *others)
        names = [run.features.name(slot) for slot in np.flatnonzero(before).tolist()]
        after = dict(zip(names, weights.value[np.flatnonzero(before)].tolist(), strict=True))
        seen.append((dict(zip(names, before[before != 0].tolist(), strict=True)), after))
        return result

    monkeypatch.setattr(start, "learn_shard", spy)
    checkpoint(tiny, tmp_path / "run", initial_weights="warm")
    (before, after), *others = seen
    given = read_weights(tiny.folder / "warm")
    factor = before["LanguageModel"] / given["LanguageModel"]
    assert before == {name: pytest.approx(value * factor) for name, value in given.items()}
    assert f"initial weights multiplied by {factor:.3g}" in log(tmp_path / "run")
    sparse = {name: value for name, value in before.items() if name.startswith(SPARSE)}
    assert sparse and sparse == {name: value for name, value in after.items() if name.startswith(SPARSE)}
    assert after["LanguageModel"] != before["LanguageModel"]
    for later, _ in others:
        assert sparse == {name: value for name, value in later.items() if name.startswith(SPARSE)}


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

    def spy(run, epoch, z, shard, weights, advance):  # type: ignore[no-untyped-def]
        dense, value = run.store.model.dense_features(), weights.value
        begun.append({dense[slot]: float(value[slot]) for slot in np.flatnonzero(value).tolist()})
        return learn(run, epoch, z, shard, weights, advance)

    monkeypatch.setattr(start, "learn_shard", spy)
    (tmp_path / "tiny").mkdir()
    tiny = Tiny(tmp_path / "tiny")
    model = tiny.folder / "lm.arpa"
    model.write_text(re.sub(r"-\d+\.\d+", lambda number: f"{float(number[0]) * factor:.6g}", model.read_text()))
    weights = checkpoint(tiny, tmp_path / "run", frozen=frozen, algorithm="itermix")
    assert begun[0] == {name: pytest.approx(value, rel=0.25) for name, value in expected.items()}
    if factor == 1:  # log10 is the usual unit, for a model that is nearly a distribution, too
        assert begun[0] == expected
    else:  # otherwise it is the unit in which the unigrams are a distribution
        scale, naive = begun[0]["LanguageModel"] / start.LM_WEIGHT, NaiveLm(model)
        probs = [
            prob for ngram, (prob, _) in naive.ngrams.items() if len(ngram) == 1 and ngram[0] not in ("<s>", "<unk>")
        ]
        assert sum(10 ** (scale * prob) for prob in probs) == pytest.approx(1, rel=1e-3)
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
    train(tiny.job(tmp_path / "run", learner={**DEFAULT, "dense_start": 5}, decoder=limits), SerialComm())
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


@pytest.mark.parametrize("by_gold", [True, False])
def test_the_factor_is_fitted_to_the_margins_of_the_job(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_gold: bool
) -> None:
    given, found = list[np.ndarray](), list[float]()

    def spy(leads: np.ndarray, required: np.ndarray) -> float:
        given.append(required)
        found.append(best_factor(leads, required))
        return found[-1]

    monkeypatch.setattr(start, "best_factor", spy)
    for margin in (1.0, 0.5):
        keys = {"initial_weights": "warm", "margin": margin, "margin_by_gold": by_gold}
        checkpoint(tiny, tmp_path / f"{margin}", **keys)
        assert f"initial weights multiplied by {found[-1]:.3g}" in log(tmp_path / f"{margin}")
    one, half = given
    assert len(one) > 10 and half == pytest.approx(0.5 * one)
    assert (len(set(one.tolist())) > 10) if by_gold else (one == 1.0).all()
    assert found[1] == pytest.approx(0.5 * found[0])


def test_weights_that_rank_badly_or_in_part_frozen_ones_are_not_scaled(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("LanguageModel -0.5\n")
    checkpoint(tiny, tmp_path / "run", initial_weights=str(tmp_path / "bad"))
    assert "initial weights multiplied by 1," in log(tmp_path / "run")
    checkpoint(tiny, tmp_path / "frozen", initial_weights="warm", frozen=["WordPenalty"])
    assert "initial weights multiplied" not in log(tmp_path / "frozen")


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


@pytest.mark.parametrize("rate", ["normalized", "adagrad"])
def test_where_all_features_are_dense_it_does_not_matter_which_are_learned(
    tiny: Tiny, tmp_path: Path, rate: str
) -> None:
    """The epochs go on with the state of the dense start, each feature with its own."""
    found = []
    for tune in ("all", "dense"):
        learner = {**DEFAULT, "rate": rate, "tune": tune, "dense_start": 20}
        train(tiny.job(tmp_path / tune, learner=learner, features={"templates": []}), SerialComm())
        found.append(read_weights(tmp_path / tune / "weights.txt.gz"))
    assert found[0] == found[1] and any(found[0].values())


def test_selection_drops_none_of_the_sparse_weights_that_are_kept(tiny: Tiny, tmp_path: Path) -> None:
    """Few columns are selected, of the dense features alone; also after an interruption."""
    given = {name for name in read_weights(tiny.folder / "warm") if name.startswith("R:")}
    kept = []
    for epoch in (1, 2):
        learner = {**DEFAULT, "initial_weights": "warm", "tune": "dense", "algorithm": "itersel", "epochs": epoch}
        train(tiny.job(tmp_path / "run", learner=learner, select={"k": 3}), SerialComm())
        found = read_checkpoint(tmp_path / f"run/checkpoints/epoch-{epoch:04}.h5")
        weights = dict(found.weights.named)
        kept.append({name: value for name, value in weights.items() if name.startswith("R:")})
        assert len(weights) == len(given) + 3
    assert len(given) > 3 and kept[0].keys() == given and kept[0] == kept[1]


def test_a_dense_weight_that_the_pass_does_not_return_is_0() -> None:
    """Such as one that l1 has clipped; frozen ones and sparse ones stay."""
    features = FeatureTable()
    features.slots(list("abcd"))
    first = Weights(features, 3)
    first.value[1], first.frozen[1] = 2.0, True
    sparse = SparseWeights(features.ids[3:], np.array([4.0]))
    dense = SparseWeights(features.ids[2:3], np.array([9.0]), (np.array([0.5]),))
    joined = start._joined(sparse, dense)
    assert first.load(joined).value[:4].tolist() == [0.0, 2.0, 9.0, 4.0]
    assert joined.at(features.ids).state[0].tolist() == [0.0, 0.0, 0.5, 0.0]


def test_batch_methods_tune_all_features(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    job = tiny.job_file(tmp_path / "run", learner={"method": "pro", "tune": "dense"})
    assert cli.refused(2, "train", job).endswith(
        'learner.tune = "dense": expected learner.method to be perceptron or mira'
    )
