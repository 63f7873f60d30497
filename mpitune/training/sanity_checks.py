"""Checks of a model after each epoch; each problem gives a warning while there is time to stop the run.

A warning is one line: the number found, the expected range, and one remedy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mpitune.config.spec import lm_names
from mpitune.grammar.sparse import prefixes
from mpitune.learner.weights import NamedWeights
from mpitune.training.session import TrainingRun

HUGE = 1e4
"""Bound on the absolute value of a weight; weights of sound models are of the order of 1."""
LENGTH_RATIO = (0.9, 1.1)
"""Expected range of words of translations to words of references."""
FAR_LENGTH_RATIO = (0.75, 1.3)
"""Outside this range, steps that are too large are to be suspected; inside, that the texts are what differs."""
FIRST_LENGTH_RATIO = (0.5, 2.0)
"""The same for the 1-best translations of a first epoch from zero weights, whose first translations are arbitrary."""
BLEU_BELOW_BEST = 1.0
"""Tolerated loss of devtest BLEU against the best epoch so far."""
SPARSE_BELOW_DENSE = 0.3
"""Tolerated loss of devtest BLEU by sparse features. The standard deviation over seeds is 0.1 to 0.4."""
SPARSE_EPOCHS = 3
"""Epoch from which this holds; before, `BLEU_BELOW_BEST` does. After the first, sparse weights are often too large:
their gradients are from when there were none."""
TUNED_TO_DEVTEST = 2.0
"""Tolerated ratio of the BLEU of the tuned sentences while learning to devtest BLEU. A language model that has seen the
tuned references gives 4 (700 sentences of news commentary), one that has not about 1, sparse features up to 1.5."""
DEVTEST_TO_TUNED = 4.0
"""Tolerated ratio of devtest BLEU to that of the tuned sentences. References of other sentences give 5 and more."""
GOLD_FALL = 0.01
"""Tolerated loss of the mean gold score against the epoch before, and against the first. The weights change while
it is measured: in sound runs over a few hundred sentences it varies by up to 0.005."""
LISTS = 5.0
"""Least ratio of the norm of a shard's weights to the norm of the change by one list: below it, the last lists
overwrite the weights. Without a margin it is 3 to 4, else 16 and more (300 sentences of news commentary, dense)."""
LISTS_LEARNED = 100
"""Least mean number of lists in a shard for the check of `LISTS`: even uncorrelated changes then add up to 10 times
their norm."""
DOUBLINGS = 3
"""Number of consecutive epochs that double the norm of the weights before growth is reported."""


@dataclass(frozen=True)
class Course:
    """Inputs of the checks: the run up to the epoch to be checked."""

    history: Sequence[Mapping[str, Any]]
    """Metrics of the epochs so far; the last one is checked."""
    weights: Sequence[tuple[str, float]]
    """Names and weights other than 0 of that epoch."""
    templates: Sequence[str]
    """Sparse templates of the job."""
    language_models: Sequence[str]
    """Names of the language models whose weights are learned."""
    from_zero: bool
    """True if training began with zero weights."""
    shards: int
    without_pairs: bool
    """True for a method that does not learn from pairs of translations."""
    remedy: str
    """Advice against steps that are too large, an imperative."""


def warnings_of_epoch(run: TrainingRun, history: Sequence[Mapping[str, Any]], model: NamedWeights) -> list[str]:
    """Warnings about the last epoch of ``history``, whose weights are ``model``."""
    job = run.job
    course = Course(
        history=history,
        weights=model.named,
        templates=job.features.templates,
        language_models=[name for name in lm_names(job) if name not in job.learner.frozen],
        from_zero=not run.first.value.any(),
        shards=job.parallel.shards,
        without_pairs=not job.learner.own.uses_pairs,
        remedy=job.learner.own.remedy(),
    )
    return warnings(course)


def warnings(course: Course) -> list[str]:
    """Warnings about the last epoch, one line each."""
    return [line for sign in _SIGNS for line in sign(course)]


def _nothing_learned(course: Course) -> bool:
    """True if there are no weights, or if the last epoch had no pairs, but for methods without."""
    return not course.weights or (course.history[-1]["pairs"] == 0 and not course.without_pairs)


def _pairs(course: Course) -> Iterator[str]:
    metrics = course.history[-1]
    if _nothing_learned(course):
        lists = metrics["sentences"]
        if metrics["pairs"] > 0 or (course.without_pairs and metrics["list_entries"] > lists):
            remedy = f"look at references and features; {course.remedy}"
            yield f"no weight other than 0 was learned in {lists} lists, expected some: {remedy}"
        else:
            remedy = "raise decoder.kbest if lists have one entry, and look at references and features"
            yield f"0 pairs of translations to learn from in {lists} lists, expected some: {remedy}"


def _exploding(course: Course) -> Iterator[str]:
    huge = sorted((pair for pair in course.weights if abs(pair[1]) > HUGE), key=lambda pair: -abs(pair[1]))
    if huge:
        shown = ", ".join(f"{name} {value:.3g}" for name, value in huge[:5])
        remedy = f"{course.remedy}, or multiply the feature if its values are tiny"
        yield f"exploding weights: {len(huge)} above {HUGE:g} ({shown}), expected none: {remedy}"


def _empty(course: Course) -> Iterator[str]:
    metrics = course.history[-1]
    if empty := metrics["empty_outputs"]:
        sentences = metrics["sentences"]
        yield f"empty outputs: {empty} of {sentences} sentences are translated to nothing, expected 0: {course.remedy}"


def _length(course: Course) -> Iterator[str]:
    metrics = course.history[-1]
    first = len(course.history) == 1 and course.from_zero
    for what, ratio, (low, high) in (
        ("1-best", metrics["length_ratio"], FIRST_LENGTH_RATIO if first else LENGTH_RATIO),
        ("devtest", metrics.get("devtest_length_ratio"), LENGTH_RATIO),
    ):
        if ratio is not None and not low <= ratio <= high:
            expected = f"expected {low:g} to {high:g}"
            least, most = FAR_LENGTH_RATIO
            remedy = "see whether the references belong to the sentences; tune on more or on similar ones"
            remedy = remedy if least <= ratio <= most else course.remedy
            yield f"length ratio {ratio:.3f} of the {what} translations, {expected}: {remedy}"


def _bleu(course: Course) -> Iterator[str]:
    known = [(metrics["devtest_bleu"], f"epoch {metrics['epoch']}") for metrics in course.history]
    now = known[-1][0]
    if now is None or course.history[-1]["devtest_metric"] is not None:
        return  # Another metric may improve at the expense of BLEU.
    before = course.history[0].get("devtest_bleu_before")
    best, when = max([*([(before, "before training")] if before is not None else []), *known], key=lambda pair: pair[0])
    if now < best - BLEU_BELOW_BEST:
        expected = f"expected at most {BLEU_BELOW_BEST:g} below the best so far, {best:.2f} ({when})"
        gold = next((metrics["gold"] for metrics in course.history if when == f"epoch {metrics['epoch']}"), math.inf)
        # Weights that fit the tuned sentences ever better, and others worse, do not call for smaller steps.
        fits = f"the result has the weights of {when}; tune on more sentences"
        yield f"devtest BLEU {now:.2f}, {expected}: {fits if course.history[-1]['gold'] > gold else course.remedy}"


def _sparse(course: Course) -> Iterator[str]:
    now, dense = course.history[-1]["devtest_bleu"], course.history[0].get("devtest_bleu_dense")
    if now is None or dense is None or course.history[-1]["devtest_metric"] is not None:
        return
    best = max(metrics["devtest_bleu"] for metrics in course.history)
    tolerated = SPARSE_BELOW_DENSE if len(course.history) >= SPARSE_EPOCHS else BLEU_BELOW_BEST
    if best < dense - tolerated:
        expected = f"expected at most {tolerated:g} below the {dense:.2f} of the dense start"
        remedy = "the result has the weights of the dense start; tune on more sentences"
        yield f"best devtest BLEU with sparse features {best:.2f}, {expected}: {remedy}"


def _memorised(course: Course) -> Iterator[str]:
    metrics = course.history[-1]
    tuned, devtest = metrics.get("best_bleu"), metrics["devtest_bleu"]
    if tuned and devtest is not None and tuned > TUNED_TO_DEVTEST * devtest:
        expected = f"expected at most {TUNED_TO_DEVTEST:g} times devtest BLEU, {devtest:.2f}"
        remedy = "keep the references of [data] out of the language model and the grammar, or take another devtest set"
        yield f"BLEU {tuned:.2f} of the tuned sentences while learning, {expected}: {remedy}"


def _unrelated(course: Course) -> Iterator[str]:
    metrics = course.history[-1]
    tuned, devtest = metrics.get("best_bleu"), metrics["devtest_bleu"]
    # Lists of a first epoch from zero weights are arbitrary.
    first = len(course.history) == 1 and course.from_zero
    if tuned is not None and devtest is not None and devtest > DEVTEST_TO_TUNED * tuned and not first:
        expected = f"expected at least {1 / DEVTEST_TO_TUNED:g} of devtest BLEU, {devtest:.2f}"
        yield f"BLEU {tuned:.2f} of the tuned sentences, {expected}: do the references of [data] belong to them?"


def _gold(course: Course) -> Iterator[str]:
    golds = [round(metrics["gold"], 4) for metrics in course.history]
    if len(golds) > 1 and golds[-1] < golds[-2] - GOLD_FALL:
        expected = f"expected no more than {GOLD_FALL:g} below the {golds[-2]:.4f} of the epoch before"
    elif golds[-1] < golds[0] - GOLD_FALL:
        expected = f"expected no more than {GOLD_FALL:g} below the {golds[0]:.4f} of epoch 1"
    else:
        return
    yield f"mean gold score {golds[-1]:.4f}, {expected}: {course.remedy}"


def _norm(course: Course) -> Iterator[str]:
    metrics, norms = course.history[-1], [metrics.get("weight_norm") for metrics in course.history]
    change, at_end = metrics.get("list_change"), metrics.get("shard_norm")
    if change and metrics["changing_lists"] >= LISTS_LEARNED * course.shards and at_end < LISTS * change:
        expected = f"expected at least {LISTS:g} times the {change:.3g} that a list changes"
        yield f"norm of the weights {at_end:.3g} at the end of a shard, {expected}: {course.remedy}"
    latest = norms[-DOUBLINGS - 1 :]
    if len(latest) > DOUBLINGS and all(old and new >= 2 * old for old, new in pairwise(latest)):
        shown = ", ".join(f"{norm:.3g}" for norm in latest)
        expected = f"expected less than twice as much from one to the next of {DOUBLINGS}"
        yield f"norm of the weights growing, {shown} in the last epochs, {expected}: {course.remedy}"


def _templates(course: Course) -> Iterator[str]:
    names = [name for name, _ in course.weights]
    lacking = [t for t in course.templates if not any(name.startswith(prefixes()[t]) for name in names)]
    if lacking and not _nothing_learned(course):
        idle = "take out of features.templates what no rule has, or what makes no difference in any list"
        remedy = "keep more columns in [select]" if _cut(course) else idle
        yield f"no weights other than 0 of {', '.join(lacking)}, expected some of every template: {remedy}"


def _language_models(course: Course) -> Iterator[str]:
    names = {name for name, _ in course.weights}
    dropped = [name for name in course.language_models if name not in names]
    if dropped and _cut(course):
        # Columns are compared as they are: a model whose log probabilities are large needs a small weight.
        remedy = "keep more columns in [select], or divide the model's log probabilities"
        yield f"no weight other than 0 of {', '.join(dropped)}, expected one of every language model: {remedy}"


def _cut(course: Course) -> bool:
    """True if the selection left out features with weights."""
    metrics = course.history[-1]
    return metrics["lambda"] is not None and metrics["selected_features"] < metrics["active_features"]


_SIGNS: list[Callable[[Course], Iterator[str]]] = [
    _pairs,
    _exploding,
    _empty,
    _length,
    _bleu,
    _sparse,
    _memorised,
    _unrelated,
    _gold,
    _norm,
    _templates,
    _language_models,
]
