"""Tables of a job file as frozen dataclasses.

A dataclass defines each key of its table: name, type, default and valid values. `mpitune.config.load` reads the file;
``jobs/example.toml`` explains every key to users.

Sources of the methods: Simianer, Riezler, Dyer, ACL 2012 (algorithms and update); Eidelman, WMT 2012 (MIRA); Clark,
Dyer, Lavie, TACL 2014 (discretisation); Liu, Cao, Watanabe, Zhao, Yu, Zhu, EMNLP 2012 (local training); Hopkins, May,
EMNLP 2011 (PRO); Och, ACL 2003, and Kumar et al., ACL 2009 (MERT); Gimpel, Smith, NAACL 2012 (RAMPION).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self, get_args

from mpitune import schema
from mpitune.config.presets import PRESETS
from mpitune.corpus.subwords import KINDS
from mpitune.decoder.choices import MAX_SIZE
from mpitune.decoder.lists.notation import FORMATS, Notation
from mpitune.exchange.selection import NORMS
from mpitune.grammar.sparse import TEMPLATES
from mpitune.learner.methods import METHODS, Method
from mpitune.learner.online.perceptron import PerceptronOptions
from mpitune.metrics.choices import Tokenizer
from mpitune.metrics.sentence_bleu import SENTENCE_METRICS
from mpitune.metrics.tuning_metric import METRICS
from mpitune.schema import (
    NEVER,
    choice,
    choices,
    internal,
    name_or_weights,
    noted,
    number,
    one_or_more,
    tables,
)

MAX_SEED = 2**63 - 1
"""Largest `RunKeys.seed`."""


def _online(job: Any) -> bool:
    return not job.learner.own.is_batch


def _searches(job: Any) -> bool:
    return bool(job.decoder.backend != "lists")


@dataclass(frozen=True)
class RunKeys:
    """``[run]``: run folder, by default ``runs/<name of the job file>``, store, by default inside it, and seed."""

    dir: Path
    store: Path
    seed: int = number(1, 0, MAX_SEED)


@dataclass(frozen=True)
class DevTestKeys:
    """``[data.devtest]``: the set on which the best epoch is chosen."""

    source: Path | None = None
    references: tuple[Path, ...] = ()
    lists: tuple[Path, ...] = ()
    counts: Path | None = None


@dataclass(frozen=True)
class DataKeys:
    """``[data]``: the training data."""

    source: Path | None = None
    bitext: Path | None = None
    references: tuple[Path, ...] = ()
    lists: tuple[Path, ...] = ()
    """N-best lists of the sentences for the backend "lists", which needs no source."""
    format: str = choice("auto", *FORMATS, used=NEVER)
    """Of the lists, also those of devtest, as the next two keys and ``join``; their content counts."""
    nbest: int = number(0, 0, MAX_SIZE, used=NEVER)
    """Number of lines of each list of plain text; 0: empty lines end lists."""
    counts: Path | None = None
    """The numbers of lines of the lists of plain text, a line each, instead of ``nbest``."""
    join: str = choice("none", *KINDS, used=NEVER)
    """Marks to be taken out of hypotheses."""
    tokenize: Tokenizer = choice(*get_args(Tokenizer), used=lambda job: job.data.tokenize != "none")
    """The tokeniser of sacreBLEU that makes the words of lists and references, for all metrics."""
    limit: int = number(0, 0)
    devtest: DevTestKeys | None = None

    @property
    def notation(self) -> Notation:
        """The notation of the lists: format, lines of a list, marks to be taken out."""
        return Notation(self.format, self.nbest, self.counts, self.join)


@dataclass(frozen=True)
class GrammarKeys:
    """``[grammar]``: one of file, per_sentence, or source with target; none of them: rules from the data's own pairs.

    Without an alignment, source and target are aligned."""

    file: Path | None = None
    per_sentence: bool = False
    folder: Path | None = None
    """Folder, besides that of each text, that the grammars which texts name may lie in."""
    format: str = choice("auto", "cdec", "joshua", "moses", used=_searches)
    source: Path | None = None
    target: Path | None = None
    alignment: tuple[Path, ...] = one_or_more()
    """Of several, the counts of rules are added up."""
    leave_one_out: bool | None = None
    """None: true if the data turns out to be of the bitext."""
    max_translations: int = number(0, 0, MAX_SIZE)
    """Number of rules that a source side keeps; 0: all."""


@dataclass(frozen=True)
class LmKeys:
    """``[[lm]]``: one language model: a file, or estimated from texts, by default the bitext's target side.

    ``text`` beside ``file`` names the texts that the file was estimated from.
    """

    file: Path | None = None
    name: str = ""
    """Name of the feature with the log probability; if empty, LanguageModel, LanguageModel_1, ..."""
    text: tuple[Path, ...] = ()
    order: int = number(5, 1, 10, used=NEVER)
    """Order of an estimated model, whose content counts."""


@dataclass(frozen=True)
class CdecKeys:
    """``[decoder.cdec]``: seconds without an answer after which the external decoder is killed and restarted."""

    start_timeout: float = number(1800.0, 0.0, above=True)
    """For its start, until it accepts the first sentence: it loads grammar and language models."""
    first_timeout: float = number(900.0, 0.0, above=True)
    """For the first answer."""
    sentence_timeout: float = number(300.0, 0.0, above=True)
    """For any later answer."""


@dataclass(frozen=True)
class DecoderKeys:
    """``[decoder]``: the decoder and its search limits."""

    backend: str = choice("embedded", "cdec", "lists")
    config: Path | None = None
    binary: str = noted("cdec", used=NEVER)
    pop_limit: int = number(200, 1, MAX_SIZE, used=_searches)
    rule_margin: float = number(0.0, 0.0, used=lambda job: job.decoder.backend == "embedded")
    span_limit: int = number(15, 1, MAX_SIZE, used=_searches)
    kbest: int = number(100, 1, MAX_SIZE, used=lambda job: _searches(job) or _online(job))
    unique: bool = noted(True, used=_searches)
    sample: str = choice("none", "forest")
    """Lists to learn from: the k best translations, or k derivations sampled from the forest."""
    cdec: CdecKeys = noted(CdecKeys(), used=NEVER)


@dataclass(frozen=True)
class UnlogKeys:
    """``[features.unlog]``: grammar scores v that are logarithms of x, to be replaced by x."""

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
        """All features in the table."""
        return (*self.minus_log10, *self.log10_plus_1, *self.minus_ln, *self.ln)


@dataclass(frozen=True)
class DiscretizeKeys:
    """``[features.discretize]``: features of rules to be discretised into bins (Clark et al. 2014)."""

    features: tuple[str, ...] = ()
    """Scores of the grammar, and WordPenalty."""
    conjunctions: tuple[str, ...] = ()
    """Two of `features` each, separated by a blank, whose bins fire together too."""
    bins: int = number(20, 1, 1000)
    overlap: int = number(0, 0, 1000)
    keep: bool = False
    regularizer: str = choice("none", "linear", "monotone")
    beta: float = number(0.1, 0.0, used=lambda job: job.features.discretize.regularizer != "none")
    gamma: float = number(1.0, 0.0, above=True, used=lambda job: job.features.discretize.regularizer == "monotone")

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The features of each of `conjunctions`, which are two (checked by `mpitune.config.checks`)."""
        return tuple((one, other) for one, other in map(str.split, self.conjunctions))


@dataclass(frozen=True)
class FeatureFileKeys:
    """``[[features.files]]``: a feature of the entries of ``data.lists``, and of ``data.devtest.lists``."""

    name: str
    file: Path
    devtest: Path | None = None


@dataclass(frozen=True)
class FeaturesKeys:
    """``[features]``: the sparse feature templates and the transforms of the grammar's scores."""

    templates: tuple[str, ...] = choices(TEMPLATES)
    """Names of the sparse feature templates, of rules or of lists."""
    lexicon: Path | None = None
    """Pairs of source and target words, for the template "lexicon-pair" of lists."""
    unlog: UnlogKeys = noted(UnlogKeys(), used=lambda job: bool(job.features.unlog.features))
    discretize: DiscretizeKeys = noted(DiscretizeKeys(), used=lambda job: bool(job.features.discretize.features))
    files: tuple[FeatureFileKeys, ...] = ()


@dataclass(frozen=True)
class PluginKeys:
    """``[plugins]``: Python files with features, metrics, norms and methods of one's own (`mpitune.plugins`)."""

    modules: tuple[Path, ...] = one_or_more()


@dataclass(frozen=True)
class LearnerKeys(PerceptronOptions):
    """``[learner]``: the distributed algorithm and the update (Simianer et al. 2012), the perceptron's by default.

    The keys of the perceptron stand in this table, those of other methods in tables of their names.
    """

    FIRST: ClassVar = ("preset", "algorithm", "method", "epochs", "patience", "learning_rate", "metric", "gold")

    preset: str = choice(*PRESETS, used=NEVER)
    """Source of values that the job does not set; the result depends on the values, not on the preset's name."""
    algorithm: str = choice("itersel", "sgd", "mix", "itermix")
    method: str = choices(METHODS, "perceptron")
    epochs: int = number(10, 1, used=NEVER)
    patience: int = number(3, 0, used=NEVER)
    """Epochs without an improvement of the devtest score after which training ends early; 0: never."""
    metric: str | dict[str, float] = name_or_weights("bleu")
    """One of `METRICS`, a column of n-best lists, or several with their weights."""
    gold: str = choices(SENTENCE_METRICS, "document", used=lambda job: "bleu" in metric_weights(job))
    """The sentence form of BLEU."""
    averaging: str = choice("sentence", "epoch", used=_online)
    dense_start: int = number(2000, 0, MAX_SIZE, used=_online)
    """Sentences from which dense weights are learned before the first epoch; 0: dense and sparse ones together."""
    lm_leave_one_out: bool = noted(True, used=NEVER)
    """Leave the sentence that is learned from out of language models whose texts are known.

    If false, only out of those that are estimated from the job's bitext. The content of the texts counts.
    """
    initial_weights: Path | None = None
    frozen: tuple[str, ...] = ()
    tune: str = choice("all", "dense")
    """``dense``: the sparse features keep the weights of ``initial_weights``."""
    tables: Mapping[str, Method] = tables(METHODS, used=lambda job, name: job.learner.method == name)
    """By method: ``[learner.METHOD]``."""

    @property
    def own(self) -> Method:
        """The keys of the job's method."""
        return self if isinstance(self, METHODS[self.method]) else self.tables[self.method]

    def with_own(self, own: Method) -> Self:
        """These keys, with others of the job's method."""
        return self if own is self else replace(self, tables={**self.tables, self.method: own})


@dataclass(frozen=True)
class ParallelKeys:
    """``[parallel]``: number of shards, mixing and exchange of their weights.

    ``exchange`` selects the exchange algorithm: ``allgather`` mixes all weights on rank 0, ``alltoall`` mixes a part of
    the features on each rank. ``auto`` uses ``allgather`` if the weights of all shards are at most a million in number
    and fit into a quarter of each machine's memory divided by its ranks.
    """

    shards: int = number(8, 1, MAX_SIZE)
    reshuffle: bool = noted(True, used=_online)
    mixing: str = choice("active", "uniform", used=_online)
    exchange: str = choice("auto", "allgather", "alltoall", used=NEVER)
    timeout: int = number(600, 5, MAX_SIZE, used=NEVER)
    """Seconds of silence after which a rank is taken for lost."""


@dataclass(frozen=True)
class SelectKeys:
    """``[select]``: features that itersel selects: the ``k`` largest norms, or (``k`` is None) norm >= ``lambda_``."""

    k: int | None = number(100000, 1)
    lambda_: float | None = number(None, 0.0)
    norm: str = choices(NORMS, "l2")


@dataclass(frozen=True)
class LocalKeys:
    """``[local]``: retrieval and update of `mpitune local` (Liu et al. 2012)."""

    method: str = choice("ebuu", "mbuu", "retrain")
    k: int = number(100, 1, MAX_SIZE)
    """Number of training sentences retrieved for each sentence."""
    theta: float = number(0.1, 0.0, 1.0)
    """Weight of the edit distance relative to TF-IDF."""
    oracle: str = choice("LU", "M-C")
    """The oracle of MBUU, as in ``[learner.mira]``."""
    rounds: int = number(1, 1, MAX_SIZE)
    """Number of passes over the retrieved sentences, which each decode them and learn from them."""
    lambda_: float | None = number(None, 0.0)
    """Weight of the loss relative to the distance from the global weights; None: ``_LAMBDA`` in `load`, by method."""
    alpha: float = number(1.0, 0.0, above=True)
    """Scale of the softmax of EBUU."""


@dataclass(frozen=True)
class Job:
    """A whole job file; paths are absolute."""

    run: RunKeys
    data: DataKeys | None = None
    grammar: GrammarKeys = GrammarKeys()
    lm: tuple[LmKeys, ...] = ()
    decoder: DecoderKeys = DecoderKeys()
    features: FeaturesKeys = FeaturesKeys()
    learner: LearnerKeys = field(default_factory=LearnerKeys)
    parallel: ParallelKeys = ParallelKeys()
    select: SelectKeys = noted(SelectKeys(), used=lambda job: job.learner.algorithm == "itersel")
    local: LocalKeys = noted(LocalKeys(), used=NEVER)
    plugins: PluginKeys = PluginKeys()
    file: Path = internal(Path("job.toml"))
    explicit: frozenset[str] = internal(frozenset())
    """Dotted keys set by the job file or --set, such as ``decoder.kbest``; the list of LMs is one key, ``lm``.

    Keys set by the preset are not included."""

    def to_toml(self) -> str:
        """The effective configuration, every key with its value; `load` reads an equal job from it."""
        return schema.to_toml(self)


def tunes_on_bitext(job: Job) -> bool:
    """True if the job names no grammar: the pairs of ``[data]`` are the bitext that rules are extracted from."""
    grammar, data = job.grammar, job.data
    named = grammar.file or grammar.per_sentence or grammar.source or job.decoder.config
    return not named and job.decoder.backend == "embedded" and data is not None


def metric_weights(job: Job) -> dict[str, float]:
    """The weights of the metrics in ``learner.metric``, by name."""
    metric = job.learner.metric
    return {metric: 1.0} if isinstance(metric, str) else metric


def column_metrics(job: Job) -> tuple[str, ...]:
    """The metrics in ``learner.metric`` that are columns of n-best lists."""
    return tuple(name for name in metric_weights(job) if name not in METRICS)


def lm_names(job: Job) -> tuple[str, ...]:
    """Names of the language models' features."""
    return tuple(lm.name or (f"LanguageModel_{n}" if n else "LanguageModel") for n, lm in enumerate(job.lm))
