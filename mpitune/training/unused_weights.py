"""Given weights that nothing in a job fires: harmless, but often misspelt, or learned with other keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from mpitune.config.spec import Job
from mpitune.decoder.base import TranslationModel
from mpitune.decoder.lists.model import ListModel
from mpitune.grammar.choices import PREFIXES


def unused_weights(weights: Mapping[str, float], job: Job, model: TranslationModel | ListModel) -> str:
    """Says which of ``weights``, if any, no feature of ``job`` has; empty: none.

    An external decoder may have features that only it knows: then only those of sparse templates are looked at.
    """
    backend = job.decoder.backend
    if backend != "cdec" and weights and not model.fires_any(weights):
        return "none of its features occurs in this job"
    if backend == "lists":
        return ""
    absent = {template: prefix for template, prefix in PREFIXES.items() if template not in job.features.templates}
    found = Counter(template for name in weights for template, prefix in absent.items() if name.startswith(prefix))
    if found:
        lacking = ", ".join(template for template in absent if template in found)
        return f"{found.total()} of {len(weights)} weights do not count: features.templates lacks {lacking}"
    known, sparse = set(model.dense_features()), tuple(PREFIXES.values())
    unknown = [name for name, weight in weights.items() if weight and name not in known and not name.startswith(sparse)]
    if backend == "cdec" or not unknown:
        return ""
    return f"{len(unknown)} of {len(weights)} weights do not count: no feature is called {unknown[0]}"
