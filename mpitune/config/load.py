"""Job file: read from TOML and checked before any work starts.

An unknown key or table is an error, so a misspelt key is never ignored silently.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from mpitune.config.checks import check, given_grammars, has_lm_text
from mpitune.config.presets import PRESETS, Keys
from mpitune.config.spec import DevTestKeys, Job, LmKeys, tunes_on_bitext
from mpitune.corpus.lines import read_text
from mpitune.errors import DataError, UsageError
from mpitune.files import is_file, is_folder, read_bytes
from mpitune.learner.methods import METHODS
from mpitune.schema import read, set_key

MAX_JOB = 1 << 24
"""Maximum size of a job file in bytes."""

_LAMBDA = {"ebuu": 0.06, "mbuu": 0.018, "retrain": 0.0}
"""By method of local training: default of lambda (Liu, Cao, Watanabe, Zhao, Yu, Zhu, EMNLP 2012)."""


def load(path: Path, overrides: Sequence[str] = ()) -> Job:
    """Read the job file ``path``, with ``overrides`` of the form ``table.key=value``.

    Precedence for each key: override, job file, preset, default. The value of an override is TOML; text that is not
    TOML is taken as a string. Paths in overrides are relative to the job file too, and ``lm.0.file`` is the file of the
    first language model. If ``decoder.config`` is set, grammar and language models may come from that file:
    `complete_from_cdec_ini` then checks that they are present.

    Raises UsageError that names the file, the key, the value found and the values expected.
    """
    raw = tables_in(path)
    with _shallow(path):
        overridden = [key for text in overrides for key in _override(raw, text)]
    return checked(raw, path, overridden)


def tables_in(path: Path) -> dict[str, Any]:
    """The tables of a job file, unchecked. Raises UsageError for a file that is not TOML, or cannot be read."""
    try:
        content = read_bytes(path, MAX_JOB)
    except DataError as error:
        of_run = f"; {path / 'config.toml'} is one" if is_folder(path) and is_file(path / "config.toml") else ""
        raise UsageError(f"{error}{of_run}".replace("a readable file", "a readable job file")) from None
    try:
        # utf-8-sig: some editors write a byte order mark.
        with _shallow(path):
            return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = 1 + error.object.count(b"\n", 0, error.start)
        raise UsageError(f"{path}:{line}: found bytes that are not UTF-8 ({error.reason}), expected UTF-8") from None
    except ValueError as error:
        raise UsageError(f"{path}: not a TOML file: {error}") from None


@contextmanager
def _shallow(path: Path) -> Iterator[None]:
    """Raise UsageError for tables of ``path`` that are nested too deeply to be read."""
    try:
        yield
    except RecursionError:
        expected = "tables and keys as in jobs/example.toml"
        raise UsageError.at(path, found="hundreds of tables or lists inside each other", expected=expected) from None


def checked(raw: dict[str, Any], path: Path, overridden: Collection[str] = ()) -> Job:
    """The job of the tables ``raw``, which are changed, as if they stood in the file ``path``.

    ``overridden``: the dotted keys that ``--set`` has set. Raises UsageError as `load` does.
    """
    with _shallow(path):
        return _checked(raw, path, overridden)


def _checked(raw: dict[str, Any], path: Path, overridden: Collection[str]) -> Job:
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
    check(job, complete=job.decoder.config is None)
    return _resolve_defaults(job)


def complete_from_cdec_ini(job: Job, given: Mapping[str, Any], origin: Path) -> Job:
    """``job`` with the values ``given`` (by dotted key) of its ``decoder.config`` for keys that the job does not set.

    A job with a grammar of any kind, or with a language model, uses only its own. Paths are relative to ``origin``, the
    file of the values. Raises UsageError as `load` does. Call it even without values: it makes the checks that `load`
    skips if there is a ``decoder.config``.
    """
    raw = tomllib.loads(job.to_toml())
    for key, value in given.items():
        if not (given_grammars(job.grammar) if key.startswith("grammar.") else key in job.explicit):
            set_key(raw, key, value)
    completed = replace(read(Job, raw, origin), file=job.file, explicit=job.explicit)
    check(completed, complete=True)
    return _resolve_defaults(completed)


def read_tables(path: Path) -> dict[str, Any]:
    """The tables of a configuration that a run has written, unchecked.

    Raises DataError where the file is not TOML.
    """
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError.at(path, None, found=f"no TOML ({error})", expected="the configuration of a run") from None


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
    learner = learner.with_own(learner.own.resolved(decoder.kbest))
    if local.lambda_ is None:
        local = replace(local, lambda_=_LAMBDA[local.method])
    if learner.own.is_batch:
        learner = replace(learner, algorithm="itermix")
    if learner.algorithm == "sgd":
        parallel = replace(parallel, shards=1)
    lm = job.lm or ((LmKeys(),) if has_lm_text(job) else ())
    resolved = replace(job, data=data, grammar=grammar, lm=lm, decoder=decoder, select=select)
    return replace(resolved, local=local, learner=learner, parallel=parallel)


def _add_defaults(raw: dict[str, Any]) -> None:
    """Add the missing keys of the job's preset to ``raw``, then those of the defaults of its method.

    Errors in ``raw``, such as an unknown preset, are left for `read` to report.
    """
    preset = PRESETS.get(_name(raw, "preset", "default"))
    if preset is not None:
        _add_missing(raw, preset.keys)
    if method := METHODS.get(_name(raw, "method", "")):
        _add_missing(raw, method.defaults)


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
    except ValueError:
        # No TOML, or a number of thousands of digits.
        parsed = {}
    return set_key(raw, key, parsed["value"] if parsed.keys() == {"value"} else value.strip())


def _dotted_keys(raw: dict[str, Any], prefix: str) -> Iterator[str]:
    """Dotted names of all keys in ``raw`` whose values are not tables."""
    for key, value in raw.items():
        if isinstance(value, dict):
            yield from _dotted_keys(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
