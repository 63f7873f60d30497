"""The names that a job gives to features: those of language models and of scores in files."""

from __future__ import annotations

from mpitune.config.spec import Job, lm_names
from mpitune.corpus.feature_table import FEATURE_NAME, is_feature_name
from mpitune.decoder.base import built_in_features
from mpitune.errors import UsageError
from mpitune.grammar.choices import PREFIXES


def check_feature_names(job: Job) -> None:
    """Raise UsageError for a name that weights files cannot hold, or that another feature has or may have."""
    named = lm_names(job)
    if twice := [name for name in named if named.count(name) > 1]:
        raise UsageError(f"{job.file}: found two language models called {twice[0]}, expected a name for each")
    built_in = built_in_features(named)
    for n, name in enumerate(named):
        _check(job, f"lm.{n}.name", name)
        if built_in.count(name) > 1:
            raise UsageError(f"{job.file}: lm.{n}.name: found {name}, which is a feature of the decoder")
    for n, of in enumerate(job.features.files):
        _check(job, f"features.files.{n}.name", of.name)
    if wrong := [name for name in job.learner.frozen if not is_feature_name(name)]:
        raise UsageError(f"{job.file}: learner.frozen: found feature name {wrong[0]!r}, expected {FEATURE_NAME}")


def _check(job: Job, key: str, name: str) -> None:
    where = f"{job.file}: {key}: found {name!r}"
    if not is_feature_name(name) or "=" in name or "|||" in name:
        raise UsageError(f"{where}, expected a word that does not begin with # and has no = or |||")
    if name.startswith(tuple(PREFIXES.values())):
        raise UsageError(f"{where}, expected another beginning: it is that of sparse features")
