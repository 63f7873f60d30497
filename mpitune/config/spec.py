"""The tables of a job file as frozen dataclasses.

They say everything about a key: its name, type, default and what it may be. `mpitune.config.load` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from mpitune.config import schema
from mpitune.config.presets import PRESETS
from mpitune.config.schema import choice, choices, internal, number
from mpitune.learner.choices import (
    PRO_CANDIDATES,
    PRO_KEPT,
    PRO_THRESHOLD,
    MiraVariant,
    OracleName,
    PairSampling,
    PredictionName,
    RateName,
    UpdateOrder,
)
from mpitune.metrics.choices import SentenceMetricName, TuningMetricName

_MANY = 1_000_000
"""The most of anything that memory is set aside for: more is a slip of the pen."""


@dataclass(frozen=True)
class RunKeys:
    """``[run]``: where the run writes; by default ``runs/<name of the job file>``, with the store inside it."""

    dir: Path
    store: Path
    seed: int = number(1, 0, 2**63 - 1)


@dataclass(frozen=True)
class DevTestKeys:
    """``[data.devtest]``: the set that the epoch is chosen on."""

    source: Path | None = None
    references: tuple[Path, ...] = ()


@dataclass(frozen=True)
class DataKeys:
    """``[data]``: what is tuned on."""

    source: Path | None = None
    bitext: Path | None = None
    references: tuple[Path, ...] = ()
    limit: int = number(0, 0)
    devtest: DevTestKeys | None = None


@dataclass(frozen=True)
class GrammarKeys:
    """``[grammar]``: one of file, per_sentence, source + target + alignment; and the format of the file or files."""

    file: Path | None = None
    per_sentence: bool = False
    format: str = choice("auto", "cdec", "joshua", "moses")
    source: Path | None = None
    target: Path | None = None
    alignment: Path | None = None
    leave_one_out: bool = False


@dataclass(frozen=True)
class LmKeys:
    """``[[lm]]``: one language model."""

    file: Path
    name: str = ""
    """The feature that holds its log probability; LanguageModel, LanguageModel_1, ... where it is empty."""


@dataclass(frozen=True)
class CdecKeys:
    """``[decoder.cdec]``: how many seconds the external decoder has before it is held for hung, and started anew."""

    start_timeout: float = number(1800.0, 0.0, above=True)
    """Until it takes its first sentence: grammar and language models are loaded then."""
    first_timeout: float = number(900.0, 0.0, above=True)
    """For the first answer after that."""
    sentence_timeout: float = number(300.0, 0.0, above=True)
    """For any other."""


@dataclass(frozen=True)
class DecoderKeys:
    """``[decoder]``: how sentences are translated."""

    backend: str = choice("embedded", "cdec")
    config: Path | None = None
    binary: str = "cdec"
    pop_limit: int = number(200, 1, _MANY)
    span_limit: int = number(15, 1, _MANY)
    kbest: int = number(100, 1, _MANY)
    unique: bool = True
    cdec: CdecKeys = CdecKeys()


@dataclass(frozen=True)
class UnlogKeys:
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
class DiscretizeKeys:
    """``[features.discretize]``: scores of the grammar that are put into bins (CDL14)."""

    features: tuple[str, ...] = ()
    bins: int = number(20, 1, 1000)
    overlap: int = number(0, 0, 1000)
    keep: bool = False
    regularizer: str = choice("none", "linear", "monotone")
    beta: float = number(0.1, 0.0)
    gamma: float = number(1.0, 0.0, above=True)


@dataclass(frozen=True)
class FeaturesKeys:
    """``[features]``: the sparse templates, and what becomes of the grammar's scores."""

    templates: tuple[str, ...] = choices(
        "id", "source-bigram", "target-bigram", "shape", "word-pair", "insertion", "target-words"
    )
    unlog: UnlogKeys = UnlogKeys()
    discretize: DiscretizeKeys = DiscretizeKeys()


@dataclass(frozen=True)
class MiraKeys:
    """``[learner.mira]``: large-margin learning (E12)."""

    oracle: OracleName = choice(*get_args(OracleName))
    prediction: PredictionName = choice(*get_args(PredictionName))
    variant: MiraVariant = choice(*get_args(MiraVariant))
    c: float = number(0.01, 0.0, above=True)
    cost_scale: float = number(0.0, 0.0)
    """What BLEU of the whole set is multiplied by where ``gold = "context"``; 0: by the number of sentences."""
    oracle_kbest: int = number(50000, 1, _MANY)
    """How many translations the oracle MB is picked from, where that is more than ``decoder.kbest``."""


@dataclass(frozen=True)
class ProKeys:
    """``[learner.pro]``: which pairs PRO learns from, and how far it goes (Hopkins & May 2011)."""

    candidates: int = number(PRO_CANDIDATES, 1, _MANY)
    threshold: float = number(PRO_THRESHOLD, 0.0)
    kept: int = number(PRO_KEPT, 1, _MANY)
    c: float = number(500.0, 0.0, above=True)
    interpolation: float = number(0.1, 0.0, 1.0, above=True)


@dataclass(frozen=True)
class MertKeys:
    """``[learner.mert]``: what MERT makes better (Och 2003), and over which translations (Kumar et al. 2009)."""

    metric: TuningMetricName = choice(*get_args(TuningMetricName))
    search: str = choice("kbest", "hypergraph")
    directions: int = number(10, 0, _MANY)
    restarts: int = number(10, 0, _MANY)


@dataclass(frozen=True)
class MinRiskKeys:
    """``[learner.minrisk]``: how much the lists count beside the size of the weights."""

    c: float = number(100.0, 0.0, above=True)


@dataclass(frozen=True)
class RampionKeys:
    """``[learner.rampion]``: the ramp loss, and how far RAMPION goes down it (Gimpel & Smith 2012)."""

    loss: int = number(3, 1, 3)
    cost_scale: float = number(10.0, 0.0)
    rounds: int = number(10, 1, _MANY)
    passes: int = number(5, 1, _MANY)
    step: float = number(0.0001, 0.0, above=True)
    c: float = number(1.0, 0.0)


@dataclass(frozen=True)
class LearnerKeys:
    """``[learner]``: the algorithm and its update (SRD12)."""

    preset: str = choice(*PRESETS)
    """Where values come from that the job does not give; the result depends on these values, not on their name."""
    algorithm: str = choice("itersel", "sgd", "mix", "itermix")
    method: str = choice("perceptron", "mira", "pro", "mert", "rampion", "minrisk")
    epochs: int = number(10, 1)
    patience: int = number(3, 0)
    """After how many epochs without a better devtest BLEU training ends, before the last epoch; 0: never."""
    learning_rate: float = number(0.1, 0.0, above=True)
    gold: SentenceMetricName = choice(*get_args(SentenceMetricName))
    pairs: PairSampling = choice(*get_args(PairSampling))
    share: float = number(0.1, 0.0, 0.5, above=True)
    extend_ties: bool = False
    order: UpdateOrder = choice(*get_args(UpdateOrder))
    margin: float = number(1.0, 0.0)
    margin_by_gold: bool = True
    rate: RateName = choice(*get_args(RateName))
    l1: float = number(0.0, 0.0)
    l2: float = number(0.0, 0.0)
    scale_by_gold: bool = False
    averaging: str = choice("sentence", "epoch")
    dense_start: int = number(200, 0, _MANY)
    """Sentences that dense weights are learned from before the first epoch, where there are no weights; 0: none."""
    initial_weights: Path | None = None
    frozen: tuple[str, ...] = ()
    mira: MiraKeys = MiraKeys()
    pro: ProKeys = ProKeys()
    mert: MertKeys = MertKeys()
    minrisk: MinRiskKeys = MinRiskKeys()
    rampion: RampionKeys = RampionKeys()


@dataclass(frozen=True)
class ParallelKeys:
    """``[parallel]``: shards, and how their weights meet.

    ``exchange``: on rank 0 (``allgather``), or a part of the features on each rank (``alltoall``); ``auto`` takes the
    first while all shards' weights are no more than a million, and fit in a quarter of each machine's memory divided by
    its ranks.
    """

    shards: int = number(8, 1, _MANY)
    reshuffle: bool = True
    mixing: str = choice("active", "uniform")
    exchange: str = choice("auto", "allgather", "alltoall")


@dataclass(frozen=True)
class SelectKeys:
    """``[select]``: which columns itersel keeps: the ``k`` largest, or (``k`` is None) those of norm >= ``lambda_``."""

    k: int | None = number(100000, 1)
    lambda_: float | None = number(None, 0.0)
    norm: str = choice("l2", "l0", "l1", "linf", "mean", "median")


@dataclass(frozen=True)
class LocalKeys:
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

    run: RunKeys
    data: DataKeys | None = None
    grammar: GrammarKeys = GrammarKeys()
    lm: tuple[LmKeys, ...] = ()
    decoder: DecoderKeys = DecoderKeys()
    features: FeaturesKeys = FeaturesKeys()
    learner: LearnerKeys = LearnerKeys()
    parallel: ParallelKeys = ParallelKeys()
    select: SelectKeys = SelectKeys()
    local: LocalKeys = LocalKeys()
    file: Path = internal(Path("job.toml"))
    explicit: frozenset[str] = internal(frozenset())
    """Dotted keys that the job or --set gives, ``decoder.kbest``; the list of LMs is one key, ``lm``.

    What follows from the preset is not among them."""

    def to_toml(self) -> str:
        """The effective configuration, every key with its value; `load` reads the same job from it."""
        return schema.to_toml(self)


BATCH = ("pro", "mert", "minrisk", "rampion")
"""Methods that learn from the lists of all sentences at once: no algorithm spreads them over shards."""


def lm_names(job: Job) -> tuple[str, ...]:
    """The feature that each language model's probability is."""
    return tuple(lm.name or (f"LanguageModel_{n}" if n else "LanguageModel") for n, lm in enumerate(job.lm))
