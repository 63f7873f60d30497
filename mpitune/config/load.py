"""The job file: read from TOML, and checked, before any work starts.

A key or table that is not there is an error, so a misspelt one is never silently ignored.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mpitune.config.presets import DEFAULTS_OF, PRESETS, Keys
from mpitune.config.schema import literal, put, read
from mpitune.config.spec import BATCH, DataKeys, DevTestKeys, GrammarKeys, Job, lm_names
from mpitune.corpus.text import lines
from mpitune.errors import DataError, UsageError

_NOT_OF_CDEC = ("word-pair", "insertion", "target-words")
"""Templates that an external decoder does not have."""

_LAMBDA = {"ebuu": 0.06, "mbuu": 0.018}
"""By method of local training: L12's lambda."""

_REGULARIZED = {"linear": ("pro", "perceptron", "mira"), "monotone": ("pro",)}
"""By regularizer: the methods that have it."""


def load(path: Path, overrides: Sequence[str] = ()) -> Job:
    """Read the job file ``path``, with ``overrides`` of the form ``table.key=value``.

    Of the same key the override counts before the file, this before the preset, and the preset before the default.
    An override's value is TOML, or else taken as a string; its paths are relative to the job file as well, and
    ``lm.0.file`` is the first language model's file. Where ``decoder.config`` is given, grammar and language model may
    come from there: `completed` checks that they are there.

    Raises UsageError naming the file, the key, what was found and what was expected.
    """
    try:
        # Some editors put a byte order mark first.
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
    explicit = frozenset(_leaves(raw, ""))
    _fill_in(raw)
    run = raw.setdefault("run", {})
    if isinstance(run, dict):
        run["dir"] = run.get("dir") or f"runs/{path.stem}"
        run["store"] = run.get("store") or f"{run['dir']}/store"
    job = replace(read(Job, raw, path, overridden), file=path, explicit=explicit)
    return _resolve_defaults(job, complete=job.decoder.config is None)


def completed(job: Job, given: Mapping[str, Any], origin: Path) -> Job:
    """``job`` with ``given`` (dotted key to value) of its ``decoder.config`` where it says nothing itself.

    A job that names a grammar of any kind, or an LM, keeps those alone. Paths are relative to ``origin``, the file
    that they come from. Raises UsageError as `load` does; call it even with no values, as it makes up for
    the checks that `load` leaves out where there is a ``decoder.config``.
    """
    raw = tomllib.loads(job.to_toml())
    for key, value in given.items():
        if not (_grammars(job.grammar) if key.startswith("grammar.") else key in job.explicit):
            put(raw, key, value)
    whole = replace(read(Job, raw, origin), file=job.file, explicit=job.explicit)
    return _resolve_defaults(whole, complete=True)


def read_tables(path: Path) -> dict[str, Any]:
    """The tables of a configuration that a run has written, unchecked: an earlier version may have written it.

    Raises DataError where the file is not TOML.
    """
    try:
        return tomllib.loads("".join(f"{line}\n" for _, line in lines(path)))
    except tomllib.TOMLDecodeError as error:
        raise DataError.at(path, None, found=f"no TOML ({error})", expected="the configuration of a run") from None


def require_data(job: Job) -> DataKeys:
    """The job's ``[data]``. Raises UsageError where it has none."""
    if job.data is None:
        raise UsageError(f"{job.file}: [data] is missing: expected source and references, or bitext, to tune on")
    return job.data


def _resolve_defaults(job: Job, *, complete: bool) -> Job:
    """The job after the checks that look at several keys, with the values that follow from others.

    ``complete``: grammar and language model must be there.
    """
    if complete:
        _check_inputs(job)
    if job.data is not None:
        job = replace(job, data=_checked_data(job, job.data))
    if "/" in job.decoder.binary:
        binary = os.path.abspath(job.file.parent / os.path.expandvars(job.decoder.binary))
        job = replace(job, decoder=replace(job.decoder, binary=binary))
    if {"select.k", "select.lambda"} <= job.explicit:
        raise UsageError(f"{job.file}: found both select.k and select.lambda, expected one of them")
    if job.select.lambda_ is not None:
        job = replace(job, select=replace(job.select, k=None))
    if job.local.lambda_ is None:
        job = replace(job, local=replace(job.local, lambda_=_LAMBDA[job.local.method]))
    if job.learner.method in BATCH:
        job = replace(job, learner=replace(job.learner, algorithm="itermix"))
    if job.learner.algorithm == "sgd":
        job = replace(job, parallel=replace(job.parallel, shards=1))
    return job


def _checked_data(job: Job, data: DataKeys) -> DataKeys:
    """``data``, its devtest None where it names no files."""
    if (data.source is None) == (data.bitext is None):
        found = "neither" if data.source is None else "both"
        raise UsageError(f"{job.file}: found {found} of data.source and data.bitext, expected one of them")
    if data.source is not None and not data.references:
        raise UsageError(f"{job.file}: data.references: found none, expected one or more files beside data.source")
    if data.bitext is not None and data.references:
        raise UsageError(f"{job.file}: data.references: found beside data.bitext, which holds references itself")
    if data.devtest is not None and (data.devtest.source is None) != (not data.devtest.references):
        raise UsageError(f"{job.file}: data.devtest: expected both source and references, or neither")
    return replace(data, devtest=None) if data.devtest == DevTestKeys() else data


def _grammars(grammar: GrammarKeys) -> list[str]:
    """The kinds of grammar that are asked for."""
    kinds = {"file": grammar.file, "per_sentence": grammar.per_sentence, "source": grammar.source}
    return [f"grammar.{name}" for name, value in kinds.items() if value]


def _check_inputs(job: Job) -> None:
    found = _grammars(job.grammar)
    if len(found) != 1:
        choices = "grammar.file, grammar.per_sentence = true, grammar.source (a bitext)"
        raise UsageError(f"{job.file}: found {' and '.join(found) or 'no grammar'}, expected one of {choices}")
    grammar = job.grammar
    if grammar.source is not None and None in (grammar.target, grammar.alignment):
        raise UsageError(f"{job.file}: grammar.source: expected grammar.target and grammar.alignment beside it")
    if grammar.source is None and (grammar.target or grammar.alignment or grammar.leave_one_out):
        raise UsageError(
            f"{job.file}: [grammar]: found target, alignment or leave_one_out, expected source beside them"
        )
    if job.decoder.backend == "cdec" and grammar.source is not None:
        raise UsageError(f"{job.file}: grammar.source: cdec needs grammars as files: `mpitune extract` writes them")
    if job.decoder.backend == "cdec" and job.grammar.format not in ("auto", "cdec"):
        raise UsageError(f"{job.file}: grammar.format = {literal(job.grammar.format)}: cdec reads no such tables")
    ours = [template for template in job.features.templates if template in _NOT_OF_CDEC]
    if job.decoder.backend == "cdec" and ours:
        raise UsageError(f"{job.file}: features.templates: cdec does not have {', '.join(ours)}")
    _check_scores(job)
    searches_forests = job.learner.method == "mert" and job.learner.mert.search == "hypergraph"
    if job.decoder.backend == "cdec" and searches_forests:
        raise UsageError(f'{job.file}: learner.mert.search = "hypergraph": cdec gives lists only, no hypergraphs')
    if searches_forests and job.learner.mert.metric != "bleu":
        metric = literal(job.learner.mert.metric)
        raise UsageError(f'{job.file}: learner.mert.metric = {metric}: expected "bleu", as search = "hypergraph"')
    if not job.lm and job.decoder.backend == "embedded":
        raise UsageError(f"{job.file}: found no language model, expected one or more [[lm]] tables")
    names = lm_names(job)
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"{job.file}: found two language models called {twice[0]}, expected a name for each")


def _check_scores(job: Job) -> None:
    """What becomes of the grammar's scores."""
    wanted = job.features.discretize
    for key, names in (("discretize.features", wanted.features), ("unlog", job.features.unlog.features)):
        if names and job.decoder.backend == "cdec":
            raise UsageError(f"{job.file}: features.{key}: cdec reads grammars itself, with the scores that they have")
        if twice := [name for name in names if names.count(name) > 1]:
            raise UsageError(f"{job.file}: features.{key}: found {twice[0]} twice, expected each feature once")
    methods = _REGULARIZED.get(wanted.regularizer, (job.learner.method,))
    if wanted.features and job.learner.method not in methods:
        found = f"features.discretize.regularizer = {literal(wanted.regularizer)}"
        raise UsageError(f"{job.file}: {found}: expected learner.method to be {' or '.join(methods)}")


def _fill_in(raw: dict[str, Any]) -> None:
    """Give ``raw`` the keys of its preset that it lacks, then those that its method has defaults of its own for.

    What is wrong with ``raw``, such as a preset that there is none of, is left for `read` to find.
    """
    preset = PRESETS.get(_name(raw, "preset", "default"))
    if preset is not None:
        _add(raw, preset.keys)
    _add(raw, DEFAULTS_OF.get(_name(raw, "method", ""), {}))


def _name(raw: dict[str, Any], key: str, otherwise: str) -> str:
    """The string that ``key`` of the learner is; "" for anything else."""
    learner = raw.get("learner", {})
    name = learner.get(key, otherwise) if isinstance(learner, dict) else ""
    return name if isinstance(name, str) else ""


def _add(raw: dict[str, Any], keys: Keys) -> None:
    for key, value in keys.items():
        *tables, name = key.split(".")
        place: Any = raw
        for table in tables:
            place = place.setdefault(table, {}) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.setdefault(name, value)


def _override(raw: dict[str, Any], text: str) -> list[str]:
    """Apply one ``table.key=value`` to ``raw``; returns the dotted names of what it gives, see `put`."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not all(key.split(".")):
        raise UsageError(f"--set {text}: expected table.key=value")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        parsed = {}
    return put(raw, key, parsed["value"] if parsed.keys() == {"value"} else value.strip())


def _leaves(raw: dict[str, Any], prefix: str) -> Iterator[str]:
    for key, value in raw.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
