"""Which keys of a job its result depends on, and which nothing in it looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mpitune.config.presets import PRESETS
from mpitune.config.schema import values
from mpitune.config.spec import BATCH, DiscretizeKeys, Job, LearnerKeys, SelectKeys

_NOT_RESULT = {
    "run.dir",
    "run.store",
    "learner.preset",
    "learner.epochs",
    "learner.patience",
    "parallel.exchange",
    "decoder.binary",
    "decoder.cdec.start_timeout",
    "decoder.cdec.first_timeout",
    "decoder.cdec.sentence_timeout",
}
"""Keys that the result does not depend on."""

_OF_PERCEPTRON = tuple(
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
"""Keys that other methods do not look at."""

_OF_REGULARIZERS = {
    "features.discretize.beta": ("linear", "monotone"),
    "features.discretize.gamma": ("monotone",),
}
"""Keys that other regularizers do not look at."""

_TABLES_OF_METHODS = ("mira", *BATCH)
"""The methods that have a table in [learner], of that name: other methods' results do not depend on it."""


def identity(job: Job) -> dict[str, Any]:
    """Dotted key to value of all that the result depends on, paths left out (what the files hold counts instead)."""
    return {
        key: value
        for key, kind, value in values(job)
        if kind is not Path and key not in _NOT_RESULT and not _is_ignored(job, key) and not key.startswith("local.")
    }


def without_effect(job: Job) -> list[str]:
    """Keys that the job sets to other than their defaults, and that its method or algorithm does not look at.

    The default of a key that the job's preset has is the preset's.
    """
    blank = replace(
        job, learner=LearnerKeys(), select=SelectKeys(), features=replace(job.features, discretize=DiscretizeKeys())
    )
    defaults = {key: value for key, _, value in values(blank)} | dict(PRESETS[job.learner.preset].keys)
    changed = [key for key, _, value in values(job) if key in job.explicit and value != defaults[key]]
    return [key for key in changed if _is_ignored(job, key)]


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is not the same in two identities (JSON's types), in words: a key, what it was and what it is."""

    def said(identity: Mapping[str, Any], key: str, verb: str) -> str:
        return f"{verb} {identity[key]!r}" if key in identity else f"{verb} not there"

    # One that is not there differs from one that is None, as it does for the digest that shards carry.
    keys = sorted(key for key in before.keys() | now.keys() if before.get(key, ...) != now.get(key, ...))
    return [f"{key} ({said(before, key, 'was')}, {said(now, key, 'is')})" for key in keys]


def _is_ignored(job: Job, key: str) -> bool:
    method = job.learner.method
    tables = tuple(f"learner.{other}." for other in _TABLES_OF_METHODS if other != method)
    return (
        (method != "perceptron" and key in _OF_PERCEPTRON)
        or (job.learner.algorithm != "itersel" and key.startswith("select."))
        or key.startswith(tables)
        or (not job.features.discretize.features and key.startswith("features.discretize."))
        or (not job.features.unlog.features and key.startswith("features.unlog."))
        or (key in _OF_REGULARIZERS and job.features.discretize.regularizer not in _OF_REGULARIZERS[key])
    )
