"""The job file: TOML to frozen dataclasses, one per table, checked before any work starts.

The dataclasses say everything about a key: its name, type, default and what it may be. A key or table that is not there
is an error, so a misspelt one is never silently ignored.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mpitune import schema
from mpitune.errors import UsageError
from mpitune.schema import choice, choices, internal, literal, number, put, read, values

_MANY = 1_000_000
"""The most of anything that memory is set aside for: more is a slip of the pen."""


@dataclass(frozen=True)
class Run:
    """``[run]``: where the run writes; by default ``runs/<name of the job file>``, with the store inside it."""

    dir: Path
    store: Path
    seed: int = number(1, 0, 2**63 - 1)


@dataclass(frozen=True)
class DevTest:
    """``[data.devtest]``: the set that the epoch is chosen on."""

    source: Path | None = None
    references: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Data:
    """``[data]``: what is tuned on."""

    source: Path | None = None
    bitext: Path | None = None
    references: tuple[Path, ...] = ()
    limit: int = number(0, 0)
    devtest: DevTest | None = None


@dataclass(frozen=True)
class Grammar:
    """``[grammar]``: one of file, per_sentence, source + target + alignment; and the format of the file or files."""

    file: Path | None = None
    per_sentence: bool = False
    format: str = choice("auto", "cdec", "joshua", "moses")
    source: Path | None = None
    target: Path | None = None
    alignment: Path | None = None
    leave_one_out: bool = False


@dataclass(frozen=True)
class Lm:
    """``[[lm]]``: one language model."""

    file: Path
    name: str = ""
    """The feature that holds its log probability; LanguageModel, LanguageModel_1, ... where it is empty."""


@dataclass(frozen=True)
class Cdec:
    """``[decoder.cdec]``: how many seconds the external decoder has before it is held for hung, and started anew."""

    start_timeout: float = number(1800.0, 0.0, above=True)
    """Until it takes its first sentence: grammar and language models are loaded then."""
    first_timeout: float = number(900.0, 0.0, above=True)
    """For the first answer after that."""
    sentence_timeout: float = number(300.0, 0.0, above=True)
    """For any other."""


@dataclass(frozen=True)
class Decoder:
    """``[decoder]``: how sentences are translated."""

    backend: str = choice("embedded", "cdec")
    config: Path | None = None
    binary: str = "cdec"
    pop_limit: int = number(200, 1, _MANY)
    span_limit: int = number(15, 1, _MANY)
    kbest: int = number(100, 1, _MANY)
    unique: bool = True
    cdec: Cdec = Cdec()


@dataclass(frozen=True)
class Unlog:
    """``[features.unlog]``: scores of the grammar that are logarithms of some x, and are to become x."""

    minus_log10: tuple[str, ...] = ()
    """v = -log10 x"""
    log10_plus_1: tuple[str, ...] = ()
    """v = log10 (1 + x)"""
    minus_ln: tuple[str, ...] = ()
    """v = -ln x"""
    ln: tuple[str, ...] = ()
    """v = ln x"""

    @property
    def features(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.minus_log10, *self.log10_plus_1, *self.minus_ln, *self.ln)


@dataclass(frozen=True)
class Discretize:
    """``[features.discretize]``: scores of the grammar that are put into bins (CDL14)."""

    features: tuple[str, ...] = ()
    bins: int = number(20, 1, 1000)
    overlap: int = number(0, 0, 1000)
    keep: bool = False
    regularizer: str = choice("none", "linear", "monotone")
    beta: float = number(0.1, 0.0)
    gamma: float = number(1.0, 0.0, above=True)


@dataclass(frozen=True)
class Features:
    """``[features]``: the sparse templates, and what becomes of the grammar's scores."""

    templates: tuple[str, ...] = choices(
        "id", "source-bigram", "target-bigram", "shape", "word-pair", "insertion", "target-words"
    )
    unlog: Unlog = Unlog()
    discretize: Discretize = Discretize()


@dataclass(frozen=True)
class Mira:
    """``[learner.mira]``: large-margin learning (E12)."""

    oracle: str = choice("M-C", "MB", "LU")
    prediction: str = choice("M+C", "MC", "PB")
    variant: str = choice("1-best", "k-constraint", "cutting-plane")
    c: float = number(0.01, 0.0, above=True)
    cost_scale: float = number(0.0, 0.0)
    """What BLEU of the whole set is multiplied by where ``gold = "context"``; 0: by the number of sentences."""
    oracle_kbest: int = number(50000, 1, _MANY)
    """How many translations the oracle MB is picked from, where that is more than ``decoder.kbest``."""


@dataclass(frozen=True)
class Pro:
    """``[learner.pro]``: which pairs PRO learns from, and how far it goes (Hopkins & May 2011)."""

    candidates: int = number(5000, 1, _MANY)
    threshold: float = number(0.05, 0.0)
    kept: int = number(50, 1, _MANY)
    c: float = number(500.0, 0.0, above=True)
    interpolation: float = number(0.1, 0.0, 1.0, above=True)


@dataclass(frozen=True)
class Mert:
    """``[learner.mert]``: what MERT makes better (Och 2003), and over which translations (Kumar et al. 2009)."""

    metric: str = choice("bleu", "ter", "chrf")
    search: str = choice("kbest", "hypergraph")
    directions: int = number(10, 0, _MANY)
    restarts: int = number(10, 0, _MANY)


@dataclass(frozen=True)
class MinRisk:
    """``[learner.minrisk]``: how much the lists count beside the size of the weights."""

    c: float = number(100.0, 0.0, above=True)


@dataclass(frozen=True)
class Rampion:
    """``[learner.rampion]``: the ramp loss, and how far RAMPION goes down it (Gimpel & Smith 2012)."""

    loss: int = number(3, 1, 3)
    cost_scale: float = number(10.0, 0.0)
    rounds: int = number(10, 1, _MANY)
    passes: int = number(5, 1, _MANY)
    step: float = number(0.0001, 0.0, above=True)
    c: float = number(1.0, 0.0)


@dataclass(frozen=True)
class Learner:
    """``[learner]``: the algorithm and its update (SRD12)."""

    algorithm: str = choice("itersel", "sgd", "mix", "itermix")
    method: str = choice("perceptron", "mira", "pro", "mert", "rampion", "minrisk")
    epochs: int = number(10, 1)
    learning_rate: float = number(0.0001, 0.0, above=True)
    gold: str = choice("liang", "bleu+1", "nakov", "papineni", "sum", "chiang", "context")
    pairs: str = choice("multipartite", "all", "pro", "hope-fear")
    share: float = number(0.1, 0.0, 0.5, above=True)
    extend_ties: bool = False
    order: str = choice("sequential", "sentence")
    margin: float = number(0.0, 0.0)
    rate: str = choice("constant", "adagrad", "adadelta")
    l1: float = number(0.0, 0.0)
    l2: float = number(0.0, 0.0)
    scale_by_gold: bool = False
    initial_weights: Path | None = None
    frozen: tuple[str, ...] = ()
    mira: Mira = Mira()
    pro: Pro = Pro()
    mert: Mert = Mert()
    minrisk: MinRisk = MinRisk()
    rampion: Rampion = Rampion()


@dataclass(frozen=True)
class Parallel:
    """``[parallel]``: shards, and how their weights meet.

    ``exchange``: on rank 0 (``allgather``), or a part of the features on each rank (``alltoall``); ``auto`` takes the
    first while all shards' weights are no more than a million, and fit in a quarter of each machine's memory divided by
    its ranks.
    """

    shards: int = number(8, 1, _MANY)
    reshuffle: bool = False
    exchange: str = choice("auto", "allgather", "alltoall")


@dataclass(frozen=True)
class Select:
    """``[select]``: which columns itersel keeps: the ``k`` largest, or (``k`` is None) those of norm >= ``lambda_``."""

    k: int | None = number(100000, 1)
    lambda_: float | None = number(None, 0.0)
    norm: str = choice("l2", "l0", "l1", "linf", "mean", "median")


@dataclass(frozen=True)
class Local:
    """``[local]``: what `mpitune local` learns of each sentence's neighbours, and how far it goes (L12)."""

    method: str = choice("ebuu", "mbuu")
    k: int = number(100, 1, _MANY)
    """How many training sentences are retrieved."""
    theta: float = number(0.1, 0.0, 1.0)
    """What the edit distance counts beside TF-IDF."""
    lambda_: float | None = number(None, 0.0)
    """What their loss counts beside the distance from the global weights; None: `_LAMBDA` of the method."""
    alpha: float = number(1.0, 0.0, above=True)
    """How steep the softmax of EBUU is."""


@dataclass(frozen=True)
class Job:
    """A whole job file; paths are absolute."""

    run: Run
    data: Data | None = None
    grammar: Grammar = Grammar()
    lm: tuple[Lm, ...] = ()
    decoder: Decoder = Decoder()
    features: Features = Features()
    learner: Learner = Learner()
    parallel: Parallel = Parallel()
    select: Select = Select()
    local: Local = Local()
    file: Path = internal(Path("job.toml"))
    explicit: frozenset[str] = internal(frozenset())
    """Dotted keys that the job or --set gives, ``decoder.kbest``; the list of LMs is one key, ``lm``."""

    def completed(self, given: Mapping[str, Any], origin: Path) -> Job:
        """The job with ``given`` (dotted key to value) of its ``decoder.config`` where it says nothing itself.

        A job that names a grammar of any kind, or an LM, keeps those alone. Paths are relative to ``origin``, the file
        that they come from. Raises UsageError as `load` does; call it even with no values, as it makes up for
        the checks that `load` leaves out where there is a ``decoder.config``.
        """
        raw = tomllib.loads(self.to_toml())
        for key, value in given.items():
            if not (_grammars(self.grammar) if key.startswith("grammar.") else key in self.explicit):
                put(raw, key, value)
        job = read(Job, raw, origin)
        return _settled(replace(job, file=self.file, explicit=self.explicit), complete=True)

    def to_toml(self) -> str:
        """The effective configuration, every key with its value; `load` reads the same job from it."""
        return schema.to_toml(self)


BATCH = ("pro", "mert", "minrisk", "rampion")
"""Methods that learn from the lists of all sentences at once: no algorithm spreads them over shards."""

_NOT_OF_CDEC = ("word-pair", "insertion", "target-words")
"""Templates that an external decoder does not have."""

_DEFAULTS_OF: dict[str, dict[str, Any]] = {
    "mira": {
        "learner.algorithm": "itermix",
        "learner.epochs": 20,
        "learner.gold": "context",
        "decoder.kbest": 500,
        "parallel.shards": 20,
    },
    "rampion": {"learner.epochs": 20, "decoder.kbest": 500},
}
"""By method: keys whose default is that of the method's own paper (E12; Gimpel & Smith 2012), and not SRD12's."""

_LAMBDA = {"ebuu": 0.06, "mbuu": 0.018}
"""By method of local training: L12's lambda."""

_NOT_RESULT = {
    "run.dir",
    "run.store",
    "learner.epochs",
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

_REGULARIZED = {"linear": ("pro", "perceptron", "mira"), "monotone": ("pro",)}
"""By regularizer: the methods that have it."""

_TABLES_OF_METHODS = ("mira", *BATCH)
"""The methods that have a table in [learner], of that name: other methods' results do not depend on it."""


def load(path: Path, overrides: Sequence[str] = ()) -> Job:
    """Read the job file ``path``, with ``overrides`` of the form ``table.key=value``.

    An override's value is TOML, or else taken as a string; its paths are relative to the job file as well, and
    ``lm.0.file`` is the first language model's file. Where ``decoder.config`` is given, grammar and language model may
    come from there: `Job.completed` checks that they are there.

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
    run = raw.setdefault("run", {})
    if isinstance(run, dict):
        run["dir"] = run.get("dir") or f"runs/{path.stem}"
        run["store"] = run.get("store") or f"{run['dir']}/store"
    job = replace(read(Job, raw, path, overridden), file=path, explicit=explicit)
    return _settled(job, complete=job.decoder.config is None)


def require_data(job: Job) -> Data:
    """The job's ``[data]``. Raises UsageError where it has none."""
    if job.data is None:
        raise UsageError(f"{job.file}: [data] is missing: expected source and references, or bitext, to tune on")
    return job.data


def lm_names(job: Job) -> tuple[str, ...]:
    """The feature that each language model's probability is."""
    return tuple(lm.name or (f"LanguageModel_{n}" if n else "LanguageModel") for n, lm in enumerate(job.lm))


def identity(job: Job) -> dict[str, Any]:
    """Dotted key to value of all that the result depends on, paths left out (what the files hold counts instead)."""
    return {
        key: value
        for key, kind, value in values(job)
        if kind is not Path and key not in _NOT_RESULT and not _is_idle(job, key) and not key.startswith("local.")
    }


def without_effect(job: Job) -> list[str]:
    """Keys that the job sets to other than their defaults, and that its method or algorithm does not look at."""
    blank = replace(job, learner=Learner(), select=Select(), features=replace(job.features, discretize=Discretize()))
    defaults = {key: value for key, _, value in values(blank)}
    changed = [key for key, _, value in values(job) if key in job.explicit and value != defaults[key]]
    return [key for key in changed if _is_idle(job, key)]


def _is_idle(job: Job, key: str) -> bool:
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


def _settled(job: Job, *, complete: bool) -> Job:
    """The job after the checks that look at several keys, with the values that follow from others.

    ``complete``: grammar and language model must be there.
    """
    for key, value in _DEFAULTS_OF.get(job.learner.method, {}).items():
        if key not in job.explicit:
            table, name = key.split(".")
            tables: dict[str, Any] = {table: replace(getattr(job, table), **{name: value})}
            job = replace(job, **tables)
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


def _checked_data(job: Job, data: Data) -> Data:
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
    return replace(data, devtest=None) if data.devtest == DevTest() else data


def _grammars(grammar: Grammar) -> list[str]:
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
