"""Job file: read from TOML and checked before any work starts.

An unknown key or table is an error, so a misspelt key is never ignored silently.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from mpitune.config.feature_names import check_feature_names
from mpitune.config.presets import METHOD_DEFAULTS, PRESETS, Keys
from mpitune.config.schema import literal, read, set_key
from mpitune.config.spec import (
    BATCH,
    DataKeys,
    DevTestKeys,
    GrammarKeys,
    Job,
    LmKeys,
    column_metrics,
    metric_weights,
    tunes_on_bitext,
)
from mpitune.corpus.lines import lines
from mpitune.errors import DataError, UsageError
from mpitune.grammar.cdec_ini import TEMPLATES as CDEC_TEMPLATES
from mpitune.grammar.choices import ListTemplateName, TemplateName

_LAMBDA = {"ebuu": 0.06, "mbuu": 0.018, "retrain": 0.0}
"""By method of local training: default of lambda (Liu, Cao, Watanabe, Zhao, Yu, Zhu, EMNLP 2012)."""

_MAX_BLEU_LIST = 50000
"""Length of the lists that oracle MB of MIRA is chosen from by default (Eidelman, WMT 2012)."""

_REGULARIZED_METHODS = ("perceptron", "mira", "pro", "minrisk")
"""The methods with a regularizer of bins."""


def load(path: Path, overrides: Sequence[str] = ()) -> Job:
    """Read the job file ``path``, with ``overrides`` of the form ``table.key=value``.

    Precedence for each key: override, job file, preset, default. The value of an override is TOML; text that is not
    TOML is taken as a string. Paths in overrides are relative to the job file too, and ``lm.0.file`` is the file of the
    first language model. If ``decoder.config`` is set, grammar and language models may come from that file:
    `complete_from_cdec_ini` then checks that they are present.

    Raises UsageError that names the file, the key, the value found and the values expected.
    """
    try:
        return _load(path, overrides)
    except RecursionError:
        found = "hundreds of tables or lists inside each other"
        raise UsageError(f"{path}: found {found}, expected tables and keys as in jobs/example.toml") from None


def _load(path: Path, overrides: Sequence[str]) -> Job:
    try:
        # utf-8-sig: some editors write a byte order mark.
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path}: cannot read the job file: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = 1 + error.object.count(b"\n", 0, error.start)
        raise UsageError(f"{path}:{line}: found bytes that are not UTF-8 ({error.reason}), expected UTF-8") from None
    except ValueError as error:
        raise UsageError(f"{path}: not a TOML file: {error}") from None
    overridden = {key for text in overrides for key in _override(raw, text)}
    for key, rival in (("select.k", "lambda"), ("select.lambda", "k")):
        if key in overridden and f"select.{rival}" not in overridden:
            raw["select"].pop(rival, None)
    explicit = frozenset(_dotted_keys(raw, ""))
    _add_defaults(raw)
    run = raw.setdefault("run", {})
    if isinstance(run, dict):
        run["dir"] = run.get("dir") or f"runs/{path.stem}"
        run["store"] = run.get("store") or f"{run['dir']}/store"
    job = replace(read(Job, raw, path, overridden), file=path, explicit=explicit)
    return _checked(job, complete=job.decoder.config is None)


def complete_from_cdec_ini(job: Job, given: Mapping[str, Any], origin: Path) -> Job:
    """``job`` with the values ``given`` (by dotted key) of its ``decoder.config`` for keys that the job does not set.

    A job with a grammar of any kind, or with a language model, uses only its own. Paths are relative to ``origin``, the
    file of the values. Raises UsageError as `load` does. Call it even without values: it makes the checks that `load`
    skips if there is a ``decoder.config``.
    """
    raw = tomllib.loads(job.to_toml())
    for key, value in given.items():
        if not (_grammars(job.grammar) if key.startswith("grammar.") else key in job.explicit):
            set_key(raw, key, value)
    completed = replace(read(Job, raw, origin), file=job.file, explicit=job.explicit)
    return _checked(completed, complete=True)


def read_tables(path: Path) -> dict[str, Any]:
    """The tables of a configuration that a run has written, unchecked.

    Raises DataError where the file is not TOML.
    """
    try:
        return tomllib.loads("".join(f"{line}\n" for _, line in lines(path)))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError.at(path, None, found=f"no TOML ({error})", expected="the configuration of a run") from None


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
    if learner.method not in BATCH or (learner.method == "mert" and learner.mert.search == "hypergraph"):
        expected = f"learner.method to be {' or '.join(BATCH)}, on lists"
        raise UsageError(f'{job.file}: local.method = "retrain": expected {expected}')
    if learner.metric != "bleu":
        raise UsageError(f'{job.file}: local.method = "retrain": expected learner.metric to be "bleu"')
    if job.data is None or job.data.devtest is None:
        raise UsageError(f'{job.file}: local.method = "retrain": expected [data.devtest], the set to retrain on')
    if job.decoder.sample != "none":
        raise UsageError(f'{job.file}: local.method = "retrain": expected decoder.sample to be "none"')


def _checked(job: Job, *, complete: bool) -> Job:
    """``job`` after the checks that involve several keys, with dependent values filled in.

    ``complete``: grammar and language models must be given.
    """
    if complete:
        _check_inputs(job)
        check_feature_names(job)
    if job.data is not None:
        _check_data(job, job.data)
    if {"select.k", "select.lambda"} <= job.explicit:
        raise UsageError(f"{job.file}: found both select.k and select.lambda, expected one of them")
    if job.learner.tune == "dense" and job.learner.method in BATCH:
        raise UsageError(f'{job.file}: learner.tune = "dense": expected learner.method to be perceptron or mira')
    if job.learner.method == "rampion" and job.learner.rampion.loss == 2 and job.learner.initial_weights is None:
        found, why = "2 without learner.initial_weights", "from weights of 0, no step reduces this loss"
        raise UsageError(f"{job.file}: learner.rampion.loss: found {found}, expected them, or 1 or 3: {why}")
    return _resolve_defaults(job)


def _resolve_defaults(job: Job) -> Job:
    """``job`` with the values that follow from other keys."""
    data, select, local, learner, parallel = job.data, job.select, job.local, job.learner, job.parallel
    decoder, grammar = job.decoder, job.grammar
    if grammar.source is None and not tunes_on_bitext(job):
        grammar = replace(grammar, leave_one_out=False)
    if data is not None and data.devtest == DevTestKeys():
        data = replace(data, devtest=None)
    if "/" in decoder.binary:
        binary = os.path.abspath(job.file.parent / os.path.expandvars(decoder.binary))
        decoder = replace(decoder, binary=binary)
    if select.lambda_ is not None:
        select = replace(select, k=None)
    if learner.method == "mira" and learner.mira.oracle_kbest is None:
        longest = _MAX_BLEU_LIST if learner.mira.oracle == "MB" else decoder.kbest
        learner = replace(learner, mira=replace(learner.mira, oracle_kbest=longest))
    if local.lambda_ is None:
        local = replace(local, lambda_=_LAMBDA[local.method])
    if learner.method in BATCH:
        learner = replace(learner, algorithm="itermix")
    if learner.algorithm == "sgd":
        parallel = replace(parallel, shards=1)
    lm = job.lm or ((LmKeys(),) if _has_lm_text(job) else ())
    resolved = replace(job, data=data, grammar=grammar, lm=lm, decoder=decoder, select=select)
    return replace(resolved, local=local, learner=learner, parallel=parallel)


def _check_data(job: Job, data: DataKeys) -> None:
    if job.decoder.backend == "lists":
        _check_lists(job, data)
        return
    if job.features.files:
        raise UsageError(f'{job.file}: features.files: found beside another decoder than decoder.backend = "lists"')
    if data.lists or (data.devtest and data.devtest.lists):
        raise UsageError(f'{job.file}: data.lists: found beside another decoder, expected decoder.backend = "lists"')
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
        if compared and not keys.references:
            found = f"{job.file}: {table}.references: found none"
            raise UsageError(f"{found}, expected one or more files, as learner.metric has {compared[0]}")


def _grammars(grammar: GrammarKeys) -> list[str]:
    """Keys of the kinds of grammar that are set; exactly one is allowed."""
    kinds = {"file": grammar.file, "per_sentence": grammar.per_sentence, "source": grammar.source}
    return [f"grammar.{name}" for name, value in kinds.items() if value]


def _check_inputs(job: Job) -> None:
    """Check grammar, templates, scores, search and language models, which a cdec.ini may have completed."""
    if job.decoder.backend == "lists":
        _check_list_inputs(job)
        return
    found = _grammars(job.grammar)
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
    _check_templates(job, get_args(TemplateName))
    if job.features.lexicon is not None:
        raise UsageError(f'{job.file}: features.lexicon: found beside a decoder, expected decoder.backend = "lists"')
    unsupported = [template for template in job.features.templates if template not in CDEC_TEMPLATES.values()]
    if job.decoder.backend == "cdec" and unsupported:
        raise UsageError(f"{job.file}: features.templates: cdec does not have {', '.join(unsupported)}")
    _check_scores(job)
    if columns := column_metrics(job):
        expected = 'bleu, ter or chrf: only lists (decoder.backend = "lists") have columns'
        raise UsageError(f"{job.file}: learner.metric: found {literal(columns[0])}, expected {expected}")
    keys = _keys_of_forests(job)
    if job.decoder.backend == "cdec" and keys:
        raise UsageError(f"{job.file}: {keys[0]}: cdec returns no hypergraphs")
    if len(keys) > 1:
        raise UsageError(f"{job.file}: found both {' and '.join(keys)}: the search needs no sample of the forest")
    if keys and keys[0].startswith("learner") and metric_weights(job) != {"bleu": 1.0}:
        metric = f"learner.metric: found {literal(job.learner.metric)}"
        raise UsageError(f'{job.file}: {metric}, expected "bleu", as mert.search = "hypergraph"')
    if not job.lm and job.decoder.backend == "embedded" and not _has_lm_text(job):
        raise UsageError(f"{job.file}: found no language model, expected one or more [[lm]] tables")
    for n, lm in enumerate(job.lm):
        if not (lm.file or lm.text or _has_lm_text(job)):
            raise UsageError(f"{job.file}: lm.{n}: found neither file nor text, expected one of them")


def _has_lm_text(job: Job) -> bool:
    """True if the job has a bitext, from whose target side a language model can be estimated."""
    return tunes_on_bitext(job) or job.grammar.target is not None


def _check_list_inputs(job: Job) -> None:
    """Check that the job has nothing that lists without derivations cannot have."""
    wanted = job.features
    tables = {
        "[grammar]": _grammars(job.grammar),
        "[[lm]]": job.lm,
        "features.discretize.features": wanted.discretize.features,
        "features.unlog": wanted.unlog.features,
        "decoder.config": job.decoder.config,
    }
    for key, value in tables.items():
        if value:
            raise UsageError(f'{job.file}: {key}: found beside decoder.backend = "lists": lists have all features')
    _check_templates(job, get_args(ListTemplateName))
    pairs = "lexicon-pair" in wanted.templates
    if pairs != (wanted.lexicon is not None):
        raise UsageError(f'{job.file}: features.lexicon: expected beside the template "lexicon-pair", and only there')
    data = {"data": job.data, "data.devtest": job.data.devtest if job.data else None}
    for table, keys in data.items():
        if pairs and keys and keys.source is None:
            raise UsageError(f'{job.file}: {table}.source: found none, as the template "lexicon-pair" needs')
    if of_forests := _keys_of_forests(job):
        raise UsageError(f"{job.file}: {of_forests[0]}: lists have no hypergraphs")


def _keys_of_forests(job: Job) -> list[str]:
    """The job's keys, with their values, for which the decoder must return forests."""
    wanted = {
        'learner.mert.search = "hypergraph"': job.learner.method == "mert" and job.learner.mert.search == "hypergraph",
        'decoder.sample = "forest"': job.decoder.sample == "forest",
    }
    return [key for key, asked in wanted.items() if asked]


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
    if wanted.features and wanted.regularizer != "none" and job.learner.method not in _REGULARIZED_METHODS:
        found = f"features.discretize.regularizer = {literal(wanted.regularizer)}"
        raise UsageError(f"{job.file}: {found}: expected learner.method to be {' or '.join(_REGULARIZED_METHODS)}")


def _add_defaults(raw: dict[str, Any]) -> None:
    """Add the missing keys of the job's preset to ``raw``, then those of the defaults of its method.

    Errors in ``raw``, such as an unknown preset, are left for `read` to report.
    """
    preset = PRESETS.get(_name(raw, "preset", "default"))
    if preset is not None:
        _add_missing(raw, preset.keys)
    _add_missing(raw, METHOD_DEFAULTS.get(_name(raw, "method", ""), {}))


def _name(raw: dict[str, Any], key: str, otherwise: str) -> str:
    """Value of a ``key`` of ``[learner]``, ``otherwise`` if it is missing; "" if it is not a string."""
    learner = raw.get("learner", {})
    name = learner.get(key, otherwise) if isinstance(learner, dict) else ""
    return name if isinstance(name, str) else ""


def _add_missing(raw: dict[str, Any], keys: Keys) -> None:
    """Add those of ``keys`` to ``raw`` that it does not have."""
    for key, value in keys.items():
        *tables, name = key.split(".")
        parent: Any = raw
        for table in tables:
            parent = parent.setdefault(table, {}) if isinstance(parent, dict) else None
        if isinstance(parent, dict):
            parent.setdefault(name, value)


def _override(raw: dict[str, Any], text: str) -> list[str]:
    """Apply one ``table.key=value`` to ``raw``; returns the dotted names that it sets, see `set_key`."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not all(key.split(".")):
        raise UsageError(f"--set {text}: expected table.key=value")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        parsed = {}
    return set_key(raw, key, parsed["value"] if parsed.keys() == {"value"} else value.strip())


def _dotted_keys(raw: dict[str, Any], prefix: str) -> Iterator[str]:
    """Dotted names of all keys in ``raw`` whose values are not tables."""
    for key, value in raw.items():
        if isinstance(value, dict):
            yield from _dotted_keys(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
