"""Keys of a job that its result depends on, and keys that its method or algorithm ignores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from mpitune.config.presets import PRESETS
from mpitune.config.spec import Job, metric_weights
from mpitune.exchange.selection import NORMS
from mpitune.grammar.sparse import TEMPLATES
from mpitune.learner.methods import METHODS
from mpitune.learner.online.perceptron import PerceptronOptions
from mpitune.metrics.tuning_metric import METRICS
from mpitune.registry import Registry
from mpitune.schema import NEVER, Entry, entries

_OF_PERCEPTRON = {f"learner.{key.name}" for key in fields(PerceptronOptions)}

_DIGEST = re.compile(r"[0-9a-f]{32}")


def effective_keys(job: Job) -> dict[str, Any]:
    """Dotted keys and values that the result depends on, except paths: the content of the files counts instead.

    Of each part that a plugin has registered, there is a digest of the plugin's text.
    """
    keys = {entry.key: entry.value for entry in entries(job) if entry.kind is not Path and _is_used(job, entry)}
    used: list[tuple[str, Registry[Any], Iterable[str]]] = [
        ("template", TEMPLATES, job.features.templates),
        ("metric", METRICS, metric_weights(job)),
        ("norm", NORMS, [job.select.norm] if "select.norm" in keys else []),
        ("method", METHODS, [job.learner.method]),
    ]
    for kind, registry, names in used:
        own = {name: registry.origins[name].digest for name in names if name in registry.origins}
        keys |= {f"plugins.modules: the {kind} {name}": digest for name, digest in own.items()}
    return keys


def ignored_keys(job: Job) -> list[str]:
    """Keys that the job sets to a value other than the default and that its method or algorithm ignores.

    The value in the job's preset counts as the default of a key.
    """
    preset = PRESETS[job.learner.preset].keys
    changed = [each for each in entries(job) if each.value != preset.get(each.key, each.default)]
    idle = [each.key for each in changed if each.used is not NEVER and not _is_used(job, each)]
    return [key for key in idle if key in job.explicit]


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


def _is_used(job: Job, entry: Entry) -> bool:
    """True if the result depends on the key: the method, the algorithm and the other keys use it."""
    return entry.used(job) and (job.learner.own is job.learner or entry.key not in _OF_PERCEPTRON)
