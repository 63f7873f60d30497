"""What is warned of after an epoch, and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpitune.config.spec import LearnerKeys
from mpitune.grammar.sparse import prefixes
from mpitune.training.epoch_statistics import Change, norm
from mpitune.training.sanity_checks import Course, warnings

SOUND: dict[str, Any] = {
    "sentences": 1000,
    "gold": 0.4,
    "pairs": 5000,
    "length_ratio": 1.0,
    "devtest_length_ratio": 1.0,
    "devtest_bleu": 30.0,
    "devtest_metric": None,
    "empty_outputs": 0,
    "lambda": None,
    "active_features": 5,
    "selected_features": 5,
    "changing_lists": 1000,
    "list_change": 0.01,
    "shard_norm": 0.2,
    "weight_norm": 0.1,
}
WEIGHTS = [("LanguageModel", 0.1), ("R:X:a:b", 0.02), ("RBS:a_b", 0.01)]


def course(*epochs: dict[str, Any], **other: Any) -> Course:
    """A run in which all is well but for what is given, of each epoch."""
    history = [{**SOUND, "epoch": number, **epoch} for number, epoch in enumerate(epochs, start=1)]
    known = Course(
        history,
        WEIGHTS,
        ("id", "source-bigram"),
        ("LanguageModel",),
        from_zero=True,
        shards=4,
        without_pairs=False,
        remedy="do less",
    )
    return replace(known, **other)


def each(key: str, values: Sequence[Any]) -> list[dict[str, Any]]:
    return [{key: value} for value in values]


def test_lists_without_pairs_are_warned_of() -> None:
    """A run that learns nothing, as its lists have one entry each, and so has no weights of templates."""
    nothing = {"pairs": 0}
    one_entry = {**nothing, "list_entries": 1000}
    for found in (course(nothing, weights=[("LanguageModel", 0.1)]), course(one_entry, weights=[], without_pairs=True)):
        [line] = warnings(found)
        assert line.startswith(
            "0 pairs of translations to learn from in 1000 lists, expected some: raise decoder.kbest"
        )
    assert warnings(course(nothing, without_pairs=True)) == [], "MERT has no pairs"
    [line] = warnings(course({}, weights=[]))
    assert line.startswith("no weight other than 0 was learned in 1000 lists"), "pairs that do not differ in a feature"
    assert warnings(course({**nothing, "list_entries": 9000}, weights=[], without_pairs=True)) == [
        "no weight other than 0 was learned in 1000 lists, expected some: look at references and features; do less"
    ]


def test_nothing_is_said_of_a_sound_run() -> None:
    assert warnings(course({})) == warnings(course({}, {}, {}, {})) == []


@pytest.mark.parametrize(
    ("bleus", "before", "expected"),
    [
        ([20.0, 30.0, 28.99], None, "devtest BLEU 28.99, expected at most 1 below the best so far, 30.00 (epoch 2)"),
        ([20.0, 30.0, 29.0], None, None),
        ([30.0, 20.0, 29.5], None, None),
        ([21.0], 22.5, "devtest BLEU 21.00, expected at most 1 below the best so far, 22.50 (before training)"),
        ([21.0, 30.0, 21.0], 22.5, "devtest BLEU 21.00, expected at most 1 below the best so far, 30.00 (epoch 2)"),
        ([21.6], 22.5, None),
        ([None, None], None, None),
    ],
)
def test_a_falling_devtest_score_is_warned_of(
    bleus: list[float | None], before: float | None, expected: str | None
) -> None:
    epochs = each("devtest_bleu", bleus)
    epochs[0]["devtest_bleu_before"] = before
    assert warnings(course(*epochs)) == ([f"{expected}: do less"] if expected else [])


def test_a_devtest_score_that_falls_as_the_gold_score_rises_calls_for_more_sentences() -> None:
    [told] = warnings(course({"devtest_bleu": 30.0, "gold": 0.4}, {"devtest_bleu": 28.0, "gold": 0.41}))
    assert told.endswith("(epoch 1): the result has the weights of epoch 1; tune on more sentences")
    [told] = warnings(course({"devtest_bleu": 28.0, "devtest_bleu_before": 30.0, "gold": 0.41}))
    assert told.endswith("(before training): do less")


@pytest.mark.parametrize(
    ("bleus", "dense", "other", "found"),
    [
        ([29.0], 30.01, {}, 29.0),
        ([28.0, 29.0], 30.01, {}, 29.0),
        ([28.0, 29.0, 28.5], 29.31, {}, 29.0),
        ([29.0, 28.9], 29.99, {}, None),
        ([29.0, 28.9, 28.8], 29.29, {}, None),
        ([28.5, 29.5, 28.9], 29.31, {}, None),
        ([29.0], None, {}, None),
        ([None], None, {}, None),
        ([29.0], 31.0, {"devtest_metric": 0.5}, None),
    ],
)
def test_sparse_features_that_lose_are_warned_of(
    bleus: list[float | None], dense: float | None, other: dict[str, Any], found: float | None
) -> None:
    """The best epoch counts, which is the result; a metric other than BLEU may improve at the expense of BLEU."""
    epochs = [{**epoch, **other} for epoch in each("devtest_bleu", bleus)]
    epochs[0]["devtest_bleu_dense"] = dense
    said = warnings(course(*epochs))
    if found is None:
        assert said == []
    else:
        [line] = said
        most = "0.3" if len(bleus) > 2 else "1"
        assert line.startswith(f"best devtest BLEU with sparse features {found:.2f}, expected at most {most} below the")
        assert f" {dense:.2f} of the dense start: the result has the weights of the dense start" in line


@pytest.mark.parametrize(
    ("tuned", "devtest", "fires"), [(51.3, 12.57, True), (47.5, 32.7, False), (None, 12.57, False), (51.3, None, False)]
)
def test_a_language_model_that_has_seen_the_references_is_warned_of(
    tuned: float | None, devtest: float | None, fires: bool
) -> None:
    line = "BLEU 51.30 of the tuned sentences while learning, expected at most 2 times devtest BLEU, 12.57: keep"
    found = warnings(course({"best_bleu": tuned, "devtest_bleu": devtest}))
    assert [text.startswith(line) for text in found] == [True] * fires


def test_references_of_other_sentences_are_warned_of() -> None:
    other = {"best_bleu": 4.0, "devtest_bleu": 40.8}
    line = (
        "BLEU 4.00 of the tuned sentences, expected at least 0.25 of devtest BLEU, 40.80: do the references of [data]"
    )
    assert [text.startswith(line) for text in warnings(course({}, other))] == [True]
    assert warnings(course(other)) == [], "from zero weights, the first lists are arbitrary"
    assert warnings(course(other | {"best_bleu": 11.0}, from_zero=False)) == []


TEXTS = "see whether the references belong to the sentences; tune on more or on similar ones"


@pytest.mark.parametrize(
    ("ratios", "from_zero", "expected"),
    [
        ([1.11], False, f"1.110 of the 1-best translations, expected 0.9 to 1.1: {TEXTS}"),
        ([1.0, 0.89], True, f"0.890 of the 1-best translations, expected 0.9 to 1.1: {TEXTS}"),
        ([1.0, 1.31], True, "1.310 of the 1-best translations, expected 0.9 to 1.1: do less"),
        ([1.0, 0.74], True, "0.740 of the 1-best translations, expected 0.9 to 1.1: do less"),
        ([1.0, 0.9], True, None),
        ([1.3], True, None),
        ([0.4], True, "0.400 of the 1-best translations, expected 0.5 to 2: do less"),
        ([1.5, 1.05], True, None),
    ],
)
def test_translations_too_long_or_short_are_warned_of(
    ratios: list[float], from_zero: bool, expected: str | None
) -> None:
    """While learning from nothing, the first translations may have any length."""
    found = warnings(course(*each("length_ratio", ratios), from_zero=from_zero))
    assert found == ([f"length ratio {expected}"] if expected else [])


def test_devtest_translations_too_long_are_warned_of() -> None:
    """Those count from the first epoch on: they come of what it has published."""
    assert warnings(course({"devtest_length_ratio": 1.4})) == [
        "length ratio 1.400 of the devtest translations, expected 0.9 to 1.1: do less"
    ]
    assert warnings(course({"devtest_length_ratio": None})) == []


@pytest.mark.parametrize(
    ("golds", "expected"),
    [
        ([0.40, 0.45, 0.4399], "0.4399, expected no more than 0.01 below the 0.4500 of the epoch before"),
        ([0.40, 0.45, 0.4401], None),
        ([0.40, 0.395, 0.3899], "0.3899, expected no more than 0.01 below the 0.4000 of epoch 1"),
        ([0.40, 0.401, 0.3999], None),
        ([0.40, 0.45, 0.39], "0.3900, expected no more than 0.01 below the 0.4500 of the epoch before"),
        ([0.40, 0.39, 0.41], None),
        ([0.40, 0.39999], None),
        ([0.1], None),
    ],
)
def test_falling_gold_scores_are_warned_of(golds: list[float], expected: str | None) -> None:
    assert warnings(course(*each("gold", golds))) == ([f"mean gold score {expected}: do less"] if expected else [])


def test_weights_that_one_list_rewrites() -> None:
    expected = "norm of the weights 0.049 at the end of a shard, expected at least 5 times the 0.01 that a list changes"
    small = {"shard_norm": 0.049}
    assert warnings(course(small)) == [f"{expected}: do less"]
    assert warnings(course({"shard_norm": 0.05})) == []
    assert warnings(course({**small, "changing_lists": 399})) == [], "of four shards too few to come far"
    nothing_changed = {"changing_lists": 0, "list_change": None, "shard_norm": None}
    assert warnings(course(nothing_changed)) == [], "batch methods, too"


@pytest.mark.parametrize(
    ("norms", "fires"),
    [
        ([0.1, 0.2, 0.4, 0.8], True),
        ([5.0, 0.1, 0.3, 0.9, 2.7], True),
        ([0.1, 0.2, 0.4], False),
        ([0.1, 0.2, 0.3, 0.4, 0.5], False),
        ([0.1, 0.2, 0.4, 0.79], False),
        ([0.0, 0.2, 0.4, 0.8], False),
        ([None, 0.2, 0.4, 0.8], False),
    ],
)
def test_weights_that_grow_without_bound(norms: list[float | None], fires: bool) -> None:
    found = warnings(course(*each("weight_norm", norms)))
    assert len(found) == fires
    if fires:
        assert found[0].startswith("norm of the weights growing, 0.1, ")
        assert found[0].endswith(
            " in the last epochs, expected less than twice as much from one to the next of 3: do less"
        )


def test_templates_without_weights_are_warned_of() -> None:
    dense = WEIGHTS[:1]
    told = "no weights other than 0 of id, source-bigram, expected some of every template: "
    assert warnings(course({}, weights=dense)) == [
        told + "take out of features.templates what no rule has, or what makes no difference in any list"
    ]
    cut = {"selected_features": 1, "lambda": 0.5}
    assert warnings(course(cut, weights=dense)) == [told + "keep more columns in [select]"]
    assert warnings(course({}, weights=dense, templates=())) == []
    names = [(f"{prefix}x", 1.0) for prefix in prefixes().values()]
    assert warnings(course({}, weights=names, templates=tuple(prefixes()))) == []


def test_a_language_model_that_the_selection_drops_is_warned_of() -> None:
    cut = {"selected_features": 2, "lambda": 0.005}
    (told,) = warnings(course(cut, weights=WEIGHTS[1:]))
    assert told.startswith("no weight other than 0 of LanguageModel, expected one of every language model: keep more")
    assert warnings(course(cut)) == warnings(course({}, weights=WEIGHTS[1:])) == []
    assert warnings(course(cut, weights=WEIGHTS[1:], language_models=())) == []


def test_several_things_are_told_each_in_a_line() -> None:
    epoch = {"length_ratio": 2.5, "empty_outputs": 3, "gold": 0.1}
    found = warnings(course({}, epoch, weights=[*WEIGHTS, ("Glue", -2e5)]))
    assert [text.split(" ")[0] for text in found] == ["exploding", "empty", "length", "mean"]
    assert all("\n" not in text and ", expected " in text and ": do less" in text for text in found)


def test_every_method_has_a_remedy_that_is_a_key() -> None:
    assert LearnerKeys(margin=0.0).remedy() == "set learner.margin above 0"
    assert LearnerKeys(margin=0.1).remedy() == "lower learner.learning_rate"
    assert LearnerKeys(margin=0.1, rate="adadelta").remedy() == 'set learner.rate = "normalized"'
    for method, keys in LearnerKeys().tables.items():
        told = keys.remedy()
        assert told == "raise decoder.kbest" or told.startswith(f"lower learner.{method}.") or method == "perceptron"
        assert method == "mert" or hasattr(keys, told.rpartition(".")[2])


def test_a_norm_depends_on_no_order_and_does_not_overflow() -> None:
    values = np.random.default_rng(1).normal(size=1000) ** 5
    assert norm(values) == pytest.approx(float(np.linalg.norm(values)), rel=1e-12)
    assert norm(values) == norm(values[::-1]) == norm(np.concatenate([values[500:], np.zeros(7), values[:500]]))
    assert norm(np.zeros(3)) == norm(np.zeros(0)) == 0.0
    assert norm(np.array([3e200, -4e200])) == pytest.approx(5e200)


def test_the_change_of_a_list() -> None:
    class List:
        feature_index = np.array([4, 1, 4, 2, 1], dtype=np.int32)

    weights = np.arange(6.0)
    change = Change(List(), weights)  # type: ignore[arg-type]
    weights[[1, 2]] += [3.0, -4.0]
    assert change.norm(weights) == 5.0
