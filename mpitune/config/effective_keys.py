"""Keys of a job that its result depends on, and keys that its method or algorithm ignores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mpitune.config.presets import PRESETS
from mpitune.config.schema import values
from mpitune.config.spec import (
    BATCH,
    DecoderKeys,
    DiscretizeKeys,
    Job,
    LearnerKeys,
    ParallelKeys,
    SelectKeys,
    metric_weights,
)

_NO_INFLUENCE = {
    "run.dir",
    "run.store",
    "learner.preset",
    "learner.epochs",
    "learner.patience",
    "parallel.exchange",
    "parallel.timeout",
    "decoder.binary",
    "decoder.cdec.start_timeout",
    "decoder.cdec.first_timeout",
    "decoder.cdec.sentence_timeout",
}
"""Keys that have no influence on the result."""

_PERCEPTRON_KEYS = tuple(
    f"learner.{key}"
    for key in (
        "learning_rate",
        "pairs",
        "share",
        "extend_ties",
        "order",
        "margin",
        "margin_by_gold",
        "rate",
        "l1",
        "l2",
        "scale_by_gold",
    )
)
"""Keys that methods other than the perceptron ignore."""

_ONLINE_KEYS = ("learner.averaging", "learner.dense_start", "parallel.mixing", "parallel.reshuffle")
"""Keys that batch methods ignore."""

_DECODER_KEYS = (
    "decoder.pop_limit",
    "decoder.rule_margin",
    "decoder.span_limit",
    "decoder.unique",
    "grammar.format",
)
"""Keys that the backend "lists" ignores."""

_OF_REGULARIZERS = {
    "features.discretize.beta": ("linear", "monotone"),
    "features.discretize.gamma": ("monotone",),
}
"""By key: the regularizers that use it; the others ignore it."""

_DIGEST = re.compile(r"[0-9a-f]{32}")

_METHODS_WITH_TABLES = ("mira", *BATCH)
"""Methods with a table of their name in ``[learner]``; the other methods ignore that table."""


def effective_keys(job: Job) -> dict[str, Any]:
    """Dotted keys and values that the result depends on, except paths: the content of the files counts instead."""
    return {
        key: value
        for key, kind, value in values(job)
        if kind is not Path and key not in _NO_INFLUENCE and not _is_ignored(job, key) and not key.startswith("local.")
    }


def ignored_keys(job: Job) -> list[str]:
    """Keys that the job sets to a value other than the default and that its method or algorithm ignores.

    The value in the job's preset counts as the default of a key.
    """
    default_job = replace(
        job,
        decoder=DecoderKeys(),
        learner=LearnerKeys(),
        parallel=ParallelKeys(),
        select=SelectKeys(),
        features=replace(job.features, discretize=DiscretizeKeys()),
    )
    defaults = {key: value for key, _, value in values(default_job)} | dict(PRESETS[job.learner.preset].keys)
    changed = [key for key, _, value in values(job) if key in job.explicit and value != defaults[key]]
    return [key for key in changed if _is_ignored(job, key)]


def describe_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Differences between two results of `effective_keys` (JSON types), in words: each key with both values.

    Digests, which stand for the content of files, are not shown.
    """

    def value_of(keys: Mapping[str, Any], key: str, verb: str) -> str:
        return f"{verb} {keys[key]!r}" if key in keys else f"{verb} not there"

    def difference(key: str) -> str:
        if all(isinstance(keys.get(key), str) and _DIGEST.fullmatch(keys[key]) for keys in (before, now)):
            return f"{key} (other content)"
        return f"{key} ({value_of(before, key, 'was')}, {value_of(now, key, 'is')})"

    # A missing key differs from a key that is None, as in the digest stored with each shard.
    return [difference(key) for key in sorted(before.keys() | now.keys()) if before.get(key, ...) != now.get(key, ...)]


def _is_ignored(job: Job, key: str) -> bool:
    """True if the job's method, algorithm or discretisation does not use ``key``."""
    method = job.learner.method
    tables = tuple(f"learner.{other}." for other in _METHODS_WITH_TABLES if other != method)
    return (
        (method != "perceptron" and key in _PERCEPTRON_KEYS)
        or (method in BATCH and key in _ONLINE_KEYS)
        or (key == "learner.mira.cost_scale" and job.learner.gold != "context")
        or (key == "learner.gold" and "bleu" not in metric_weights(job))
        or (job.decoder.backend == "lists" and (key in _DECODER_KEYS or (key == "decoder.kbest" and method in BATCH)))
        # The content of the estimated model counts, and that of the texts which sentences are left out of.
        or (key.startswith("lm.") and key.endswith(".order"))
        or key == "learner.lm_leave_one_out"
        or (job.decoder.backend == "cdec" and key == "decoder.rule_margin")
        or (job.learner.algorithm != "itersel" and key.startswith("select."))
        or key.startswith(tables)
        or (not job.features.discretize.features and key.startswith("features.discretize."))
        or (not job.features.unlog.features and key.startswith("features.unlog."))
        or (key in _OF_REGULARIZERS and job.features.discretize.regularizer not in _OF_REGULARIZERS[key])
    )
