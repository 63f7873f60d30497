"""Given weights that nothing in a job fires: harmless, but often misspelt, or learned with other keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import get_args

from mpitune.config.spec import Job
from mpitune.decoder.base import TranslationModel
from mpitune.decoder.lists.model import ListModel
from mpitune.grammar.choices import PREFIXES, ListTemplateName


def unused_weights(weights: Mapping[str, float], job: Job, model: TranslationModel | ListModel) -> str:
    """Says which of ``weights``, if any, no feature of ``job`` has; empty: none.

    An external decoder may have features that only it knows: then only those of sparse templates are looked at. Lists
    may have any: of these, only features of templates for lists.
    """
    backend = job.decoder.backend
    if backend != "cdec" and weights and not model.fires_any(weights):
        return "none of its features occurs in this job"
    if backend == "lists":
        return lacking_templates(weights.keys() - model.fired(weights), len(weights), job)
    if lacking := lacking_templates(weights, len(weights), job):
        return lacking
    known, sparse = set(model.dense_features()), tuple(PREFIXES.values())
    unknown = [name for name, weight in weights.items() if weight and name not in known and not name.startswith(sparse)]
    if backend == "cdec" or not unknown:
        return ""
    return f"{len(unknown)} of {len(weights)} weights do not count: no feature is called {unknown[0]}"


def lacking_templates(names: Collection[str], weights: int, job: Job) -> str:
    """Says how many ``names``, of so many ``weights``, are those of templates that ``job`` lacks; empty: none."""
    templates = get_args(ListTemplateName) if job.decoder.backend == "lists" else PREFIXES
    absent = {template: PREFIXES[template] for template in templates if template not in job.features.templates}
    found = Counter(template for name in names for template, prefix in absent.items() if name.startswith(prefix))
    lacking = ", ".join(template for template in absent if template in found)
    return f"{found.total()} of {weights} weights do not count: features.templates lacks {lacking}" if found else ""
