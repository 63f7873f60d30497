"""Checks of a job that involve several of its keys; those of one key alone are in `mpitune.schema`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from mpitune.config.spec import (
    DataKeys,
    GrammarKeys,
    Job,
    column_metrics,
    lm_names,
    metric_weights,
    tunes_on_bitext,
)
from mpitune.corpus.feature_table import FEATURE_NAME, is_feature_name
from mpitune.decoder.base import built_in_features
from mpitune.errors import UsageError
from mpitune.grammar.cdec_ini import TEMPLATES as CDEC_TEMPLATES
from mpitune.grammar.sparse import prefixes, template_names, templates_with_source
from mpitune.learner.methods import METHODS
from mpitune.metrics.tuning_metric import METRICS
from mpitune.schema import literal


def check(job: Job, *, complete: bool) -> None:
    """Raise UsageError if keys do not fit together; ``complete``: grammar and language models must be given."""
    if os.path.realpath(job.run.store) == os.path.realpath(job.run.dir):
        raise UsageError(f"{job.file}: run.store: found the folder of run.dir, expected one of its own")
    if complete:
        _check_inputs(job)
        check_feature_names(job)
    if job.data is not None:
        _check_data(job, job.data)
    if {"select.k", "select.lambda"} <= job.explicit:
        raise UsageError(f"{job.file}: found both select.k and select.lambda, expected one of them")
    if job.learner.tune == "dense" and job.learner.own.is_batch:
        raise UsageError(
            f'{job.file}: learner.tune = "dense": expected learner.method to be {_methods(is_batch=False)}'
        )
    for name, weight in metric_weights(job).items():
        if weight < 0 and name in METRICS and not METRICS[name].larger_is_better:
            found, expected = f"learner.metric: found {name} = {weight}", f"more than 0: less {name} is better anyway"
            raise UsageError(f"{job.file}: {found}, expected {expected}")
    if problem := job.learner.own.problem(job):
        raise UsageError(f"{job.file}: {problem}")


def _methods(**facts: bool) -> str:
    """The methods of which these facts hold, as alternatives."""
    known = [name for name, of in METHODS.items() if all(getattr(of, fact) == held for fact, held in facts.items())]
    return " or ".join(known)


def require_data(job: Job) -> DataKeys:
    """The job's ``[data]`` table. Raises UsageError if there is none."""
    if job.data is None:
        raise UsageError(f"{job.file}: [data] is missing: expected source and references, or bitext, to tune on")
    return job.data


def check_retraining(job: Job) -> None:
    """Raise UsageError if ``local.method`` is ``retrain`` and the job lacks what that needs."""
    learner = job.learner
    if job.local.method != "retrain":
        return
    if not learner.own.is_batch or learner.own.key_of_forests():
        expected = f"learner.method to be {_methods(is_batch=True)}, on lists"
        raise UsageError(f'{job.file}: local.method = "retrain": expected {expected}')
    if learner.metric != "bleu":
        raise UsageError(f'{job.file}: local.method = "retrain": expected learner.metric to be "bleu"')
    if job.data is None or job.data.devtest is None:
        raise UsageError(f'{job.file}: local.method = "retrain": expected [data.devtest], the set to retrain on')
    if job.decoder.sample != "none":
        raise UsageError(f'{job.file}: local.method = "retrain": expected decoder.sample to be "none"')


def given_grammars(grammar: GrammarKeys) -> list[str]:
    """Keys of the kinds of grammar that are set; exactly one is allowed."""
    kinds = {"file": grammar.file, "per_sentence": grammar.per_sentence, "source": grammar.source}
    return [f"grammar.{name}" for name, value in kinds.items() if value]


def has_lm_text(job: Job) -> bool:
    """True if the job has a bitext, from whose target side a language model can be estimated."""
    return tunes_on_bitext(job) or job.grammar.target is not None


def _check_data(job: Job, data: DataKeys) -> None:
    if job.decoder.backend == "lists":
        _check_lists(job, data)
        return
    if job.features.files:
        raise UsageError(f'{job.file}: features.files: found beside another decoder than decoder.backend = "lists"')
    if data.tokenize != "none":
        found = f"data.tokenize: found {literal(data.tokenize)} beside another decoder"
        raise UsageError(f'{job.file}: {found}, whose words are those of its rules, expected decoder.backend = "lists"')
    of_lists = ("lists", "format", "nbest", "counts", "join")
    given = [f"data.{key}" for key in of_lists if getattr(data, key) != getattr(DataKeys(), key)]
    given += [f"data.devtest.{key}" for key in ("lists", "counts") if data.devtest and getattr(data.devtest, key)]
    if given:
        raise UsageError(f'{job.file}: {given[0]}: found beside another decoder, expected decoder.backend = "lists"')
    if (data.source is None) == (data.bitext is None):
        found = "neither" if data.source is None else "both"
        raise UsageError(f"{job.file}: found {found} of data.source and data.bitext, expected one of them")
    if data.source is not None and not data.references:
        raise UsageError(f"{job.file}: data.references: found none, expected one or more files beside data.source")
    if data.bitext is not None and data.references:
        raise UsageError(f"{job.file}: data.references: found beside data.bitext, which contains references itself")
    if data.devtest is not None and (data.devtest.source is None) != (not data.devtest.references):
        raise UsageError(f"{job.file}: data.devtest: expected both source and references, or neither")


def _check_lists(job: Job, data: DataKeys) -> None:
    """Check ``[data]`` of the backend "lists"."""
    if data.bitext is not None:
        raise UsageError(f"{job.file}: data.bitext: found beside data.lists, expected data.references")
    columns = column_metrics(job)
    names = [of.name for of in job.features.files]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{job.file}: features.files: found {name} twice, expected each feature once")
    if data.devtest and (lacking := [of.name for of in job.features.files if of.devtest is None]):
        raise UsageError(f"{job.file}: features.files: found no devtest for {lacking[0]}, as data.devtest needs")
    tables = {"data": data} | ({"data.devtest": data.devtest} if data.devtest else {})
    for table, keys in tables.items():
        if not keys.lists:
            found = f"{job.file}: {table}.lists: found none"
            raise UsageError(f'{found}, expected one or more files, as decoder.backend = "lists"')
        compared = [name for name in metric_weights(job) if name not in columns]
        brought = keys.source is None and data.notation.has_sentences
        if compared and not keys.references and not brought:
            found = f"{job.file}: {table}.references: found none"
            raise UsageError(f"{found}, expected one or more files, as learner.metric has {compared[0]}")


def _check_inputs(job: Job) -> None:
    """Check grammar, templates, scores, search and language models, which a cdec.ini may have completed."""
    if job.decoder.backend == "lists":
        _check_list_inputs(job)
        return
    found = given_grammars(job.grammar)
    from_data = tunes_on_bitext(job)
    if len(found) != 1 and not from_data:
        choices = "grammar.file, grammar.per_sentence = true, grammar.source (a bitext)"
        none = "no grammar" if job.data is not None else "neither [data] nor a grammar"
        raise UsageError(f"{job.file}: found {' and '.join(found) or none}, expected one of {choices}")
    grammar = job.grammar
    if grammar.source is not None and grammar.target is None:
        raise UsageError(f"{job.file}: grammar.source: expected grammar.target beside it")
    if from_data and job.data is not None and len(job.data.references) > 1:
        expected = "one file: without a grammar, source and references are the bitext that rules are extracted from"
        raise UsageError(f"{job.file}: data.references: found {len(job.data.references)} files, expected {expected}")
    if grammar.folder is not None and not grammar.per_sentence:
        raise UsageError(f"{job.file}: grammar.folder: expected grammar.per_sentence = true beside it")
    of_bitext = ("target",) if from_data else ("target", "alignment", "leave_one_out", "max_translations")
    if grammar.source is None and (given := [key for key in of_bitext if getattr(grammar, key)]):
        raise UsageError(f"{job.file}: [grammar]: found {' and '.join(given)}, expected source beside it")
    if job.decoder.backend == "cdec" and grammar.source is not None:
        raise UsageError(f"{job.file}: grammar.source: cdec needs grammar files: write them by `mpitune extract`")
    if job.decoder.backend == "cdec" and job.grammar.format not in ("auto", "cdec"):
        raise UsageError(f"{job.file}: grammar.format = {literal(job.grammar.format)}: cdec cannot read this format")
    _check_templates(job, template_names(of_lists=False))
    if job.features.lexicon is not None:
        raise UsageError(f'{job.file}: features.lexicon: found beside a decoder, expected decoder.backend = "lists"')
    unsupported = [template for template in job.features.templates if template not in CDEC_TEMPLATES.values()]
    if job.decoder.backend == "cdec" and unsupported:
        raise UsageError(f"{job.file}: features.templates: cdec does not have {', '.join(unsupported)}")
    _check_scores(job)
    if columns := column_metrics(job):
        *some, last = METRICS
        expected = f'{", ".join(some)} or {last}: only lists (decoder.backend = "lists") have columns'
        raise UsageError(f"{job.file}: learner.metric: found {literal(columns[0])}, expected {expected}")
    keys = _keys_of_forests(job)
    if job.decoder.backend == "cdec" and keys:
        raise UsageError(f"{job.file}: {keys[0]}: cdec returns no hypergraphs")
    if len(keys) > 1:
        raise UsageError(f"{job.file}: found both {' and '.join(keys)}: the search needs no sample of the forest")
    if keys and keys[0].startswith("learner") and metric_weights(job) != {"bleu": 1.0}:
        metric = f"learner.metric: found {literal(job.learner.metric)}"
        raise UsageError(f'{job.file}: {metric}, expected "bleu", as {keys[0].removeprefix("learner.")}')
    if not job.lm and job.decoder.backend == "embedded" and not has_lm_text(job):
        raise UsageError(f"{job.file}: found no language model, expected one or more [[lm]] tables")
    for n, lm in enumerate(job.lm):
        if not (lm.file or lm.text or has_lm_text(job)):
            raise UsageError(f"{job.file}: lm.{n}: found neither file nor text, expected one of them")


def _check_list_inputs(job: Job) -> None:
    """Check that the job has nothing that lists without derivations cannot have."""
    wanted = job.features
    tables = {
        "[grammar]": given_grammars(job.grammar),
        "[[lm]]": job.lm,
        "features.discretize.features": wanted.discretize.features,
        "features.unlog": wanted.unlog.features,
        "decoder.config": job.decoder.config,
    }
    for key, value in tables.items():
        if value:
            raise UsageError(f'{job.file}: {key}: found beside decoder.backend = "lists": lists have all features')
    _check_templates(job, template_names(of_lists=True))
    if ("lexicon-pair" in wanted.templates) != (wanted.lexicon is not None):
        raise UsageError(f'{job.file}: features.lexicon: expected beside the template "lexicon-pair", and only there')
    reading = templates_with_source(wanted.templates)
    data = {"data": job.data, "data.devtest": job.data.devtest if job.data else None}
    for table, keys in data.items():
        if reading and keys and keys.source is None:
            raise UsageError(f'{job.file}: {table}.source: found none, as the template "{reading[0]}" needs')
    if of_forests := _keys_of_forests(job):
        raise UsageError(f"{job.file}: {of_forests[0]}: lists have no hypergraphs")


def _check_templates(job: Job, known: Sequence[str]) -> None:
    """Check that the job's decoder has its templates; ``known``: those that it has."""
    for template in job.features.templates:
        if template not in known:
            found = f"features.templates: found {template}, which decoder.backend = {literal(job.decoder.backend)}"
            raise UsageError(f"{job.file}: {found} does not have: expected any of {', '.join(known)}")


def _check_scores(job: Job) -> None:
    """Check ``[features.discretize]`` and ``[features.unlog]``."""
    wanted = job.features.discretize
    for key, names in (("discretize.features", wanted.features), ("unlog", job.features.unlog.features)):
        if names and job.decoder.backend == "cdec":
            raise UsageError(f"{job.file}: features.{key}: cdec reads grammar files itself, with unchanged scores")
        if twice := [name for name in names if names.count(name) > 1]:
            raise UsageError(f"{job.file}: features.{key}: found {twice[0]} twice, expected each feature once")
    for text in wanted.conjunctions:
        pair = text.split()
        if len(pair) != 2 or pair[0] == pair[1] or not {*pair} <= {*wanted.features}:
            found = f"features.discretize.conjunctions: found {literal(text)}"
            raise UsageError(f"{job.file}: {found}, expected two of features.discretize.features with a blank between")
    if wanted.features and wanted.regularizer != "none" and not job.learner.own.smooths_bins:
        found = f"features.discretize.regularizer = {literal(wanted.regularizer)}"
        raise UsageError(f"{job.file}: {found}: expected learner.method to be {_methods(smooths_bins=True)}")


def _keys_of_forests(job: Job) -> list[str]:
    """The job's keys, with their values, for which the decoder must return forests."""
    sampled = 'decoder.sample = "forest"' if job.decoder.sample == "forest" else ""
    return [key for key in (job.learner.own.key_of_forests(), sampled) if key]


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
    if name.startswith(tuple(prefixes().values())):
        raise UsageError(f"{where}, expected another beginning: it is that of sparse features")
