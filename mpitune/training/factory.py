"""Constructs the parts of a run from a job: store inputs, decoder, learner, sentence metric, initial weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.config import load
from mpitune.config.effective_keys import effective_keys
from mpitune.config.spec import DataKeys, GrammarKeys, Job, lm_names
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.text import check_readable, fingerprint
from mpitune.corpus.vocabulary import FeatureTable, feature_id
from mpitune.corpus.weights import read_weights
from mpitune.decoder.base import Decoder
from mpitune.decoder.cdec.decoder import CdecDecoder
from mpitune.decoder.cdec.process import Timeouts
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.decoder.lists.decoder import ListDecoder
from mpitune.decoder.lists.model import ListModel
from mpitune.errors import UsageError
from mpitune.grammar.binning import Bins
from mpitune.grammar.cdec_ini import SPAN_LIMIT, IniFile, make_inifile, read_inifile
from mpitune.grammar.score_transforms import Scoring
from mpitune.learner import bin_chains
from mpitune.learner.base import BatchLearner, OnlineLearner
from mpitune.learner.batch import hypergraph, mert, minrisk, pro, rampion
from mpitune.learner.local.ebuu import ebuu
from mpitune.learner.local.examples import Examples
from mpitune.learner.local.mbuu import mbuu
from mpitune.learner.local.update import Update
from mpitune.learner.online import averaging, mira, perceptron
from mpitune.learner.pair_sampling import Sampler, make_sampler
from mpitune.metrics.sentence_bleu import SentenceMetric, make_sentence_metric
from mpitune.metrics.tuning_metric import Metric
from mpitune.run_folder.seeds import seed_folder
from mpitune.store.inputs import StoreInputs, Texts, grammar_files
from mpitune.store.store import Store, content_digests


def load_job(path: Path, overrides: list[str]) -> Job:
    """The job in ``path`` with ``overrides`` (``table.key=value``), completed by its cdec.ini if it names one."""
    job = load.load(path, overrides)
    ini = job.decoder.config
    if ini is None:
        return job
    check_readable(ini)
    asked = read_inifile(ini)
    external = job.decoder.backend == "cdec"
    if lacking := asked.unsupported() if external else asked.unsupported_by_embedded():
        whose = "mpitune cannot tune" if external else "the embedded decoder does not have"
        raise UsageError(f"{ini}: found {', '.join(lacking)}, which {whose}")
    given: dict[str, Any] = {
        "decoder.pop_limit": asked.pop_limit,
        "decoder.span_limit": asked.span_limit or SPAN_LIMIT,
        "grammar.file": str(asked.grammars[0].absolute()) if asked.grammars else None,
        "features.templates": list(asked.templates) or None,
        "lm": [{"file": str(file.absolute()), "name": name} for name, file in asked.language_models] or None,
    }
    return load.complete_from_cdec_ini(job, {key: value for key, value in given.items() if value is not None}, ini)


def with_seed(job: Job, seed: int) -> Job:
    """``job`` as one of several runs that differ in their ``seed``: with a run folder of its own, the same store."""
    return replace(job, run=replace(job.run, seed=seed, dir=seed_folder(job.run.dir, seed)))


def sources(job: Job) -> StoreInputs:
    """The files that the job's store is made from."""
    train = devtest = None
    if job.data is not None:
        train = _texts(job.data, {of.name: of.file for of in job.features.files})
        if job.data.devtest is not None:
            keys = job.data.devtest
            scores = {of.name: of.devtest for of in job.features.files if of.devtest is not None}
            devtest = Texts(keys.source, keys.references, lists=keys.lists, scores=scores)
    return StoreInputs(
        train=train,
        devtest=devtest,
        grammar=job.grammar.file,
        grammar_folder=job.grammar.folder,
        table_format="cdec" if job.decoder.backend == "cdec" else job.grammar.format,
        templates=job.features.templates,
        lms=tuple(lm.file for lm in job.lm),
        lm_names=lm_names(job),
        external=job.decoder.backend == "cdec",
        further_grammars=_further_grammars(job),
        aligned=_aligned(job.grammar),
        leave_one_out=job.grammar.leave_one_out,
    )


def scoring(job: Job, bins: Sequence[Bins]) -> Scoring:
    """Transforms of the grammar's scores; ``bins``: of the features to be discretised."""
    wanted, unlog = job.features, job.features.unlog
    transforms = {
        **dict.fromkeys(unlog.minus_log10, "10**-v"),
        **dict.fromkeys(unlog.log10_plus_1, "10**v-1"),
        **dict.fromkeys(unlog.minus_ln, "exp(-v)"),
        **dict.fromkeys(unlog.ln, "exp(v)"),
    }
    return Scoring(transforms, tuple(bins), wanted.discretize.overlap, wanted.discretize.keep)


def _aligned(grammar: GrammarKeys) -> AlignedFiles | None:
    if grammar.source is None or grammar.alignment is None:
        return None
    return AlignedFiles(grammar.source, grammar.target, grammar.alignment)


def _inifile(job: Job) -> IniFile | None:
    return read_inifile(job.decoder.config) if job.decoder.config is not None else None


def _further_grammars(job: Job) -> tuple[Path, ...]:
    """Grammars of the cdec.ini that an external decoder uses in addition to the job's own."""
    asked = _inifile(job)
    if asked is None or job.decoder.backend != "cdec":
        return ()
    grammars = tuple(file.absolute() for file in asked.grammars)
    if job.grammar.per_sentence:
        return grammars
    return grammars[1:] if grammars[:1] == (job.grammar.file,) else ()


def _texts(data: DataKeys, scores: Mapping[str, Path]) -> Texts:
    is_bitext, source = data.bitext is not None, data.bitext or data.source
    return Texts(source, data.references, bitext=is_bitext, limit=data.limit, lists=data.lists, scores=scores)


def decoder(job: Job, store: Store, folder: Path, kbest: int, grammars: Sequence[Path] = ()) -> Decoder:
    """The job's decoder with the models of ``store``.

    For an external decoder: ``folder`` is for its files, ``kbest`` is the longest list that will be requested, and
    ``grammars`` are the files of the sentences' grammars, by number.
    """
    wanted, model = job.decoder, store.model
    if isinstance(model, ListModel):
        return ListDecoder(model)
    if wanted.backend == "embedded":
        return EmbeddedDecoder(model, pop_limit=wanted.pop_limit, span_limit=wanted.span_limit, unique=wanted.unique)
    return CdecDecoder(
        model,
        binary=wanted.binary,
        inifile=make_inifile(
            _inifile(job),
            grammars=[*([job.grammar.file] if job.grammar.file else []), *_further_grammars(job)],
            language_models=list(zip(lm_names(job), [lm.file for lm in job.lm], strict=True)),
            templates=job.features.templates,
            pop_limit=wanted.pop_limit,
            span_limit=wanted.span_limit,
        ),
        grammars=grammars,
        folder=folder,
        kbest=kbest,
        unique=wanted.unique,
        timeouts=Timeouts(wanted.cdec.start_timeout, wanted.cdec.first_timeout, wanted.cdec.sentence_timeout),
    )


def sentence_grammars(job: Job, sources: StoreInputs) -> list[Path]:
    """Files of the sentences' grammars, by number, if an external decoder reads them; else none."""
    return grammar_files(sources) if sources.external and job.grammar.per_sentence else []


@dataclass(frozen=True)
class FirstWeights:
    """Initial weights and frozen features."""

    weights: np.ndarray
    """float64 [D], by slot."""
    frozen: np.ndarray
    """bool [D]: features that keep their initial weight."""


def initial_weights(job: Job) -> dict[str, float]:
    """The weights in ``learner.initial_weights``, or none. Raises DataError for a bad file."""
    file = job.learner.initial_weights
    if file is None:
        return {}
    check_readable(file)
    return read_weights(file)


def first_weights(
    job: Job, given: Mapping[str, float], features: FeatureTable, scoring: Scoring | None = None
) -> FirstWeights:
    """The weights ``given`` and the job's frozen features by slot; unknown names are added to ``features``.

    The weight of a feature that ``scoring`` has replaced by bins is given to its bins, see `Scoring.to_bin_weights`.
    """
    given = scoring.to_bin_weights(given) if scoring else given
    slots = {features.slot(name): value for name, value in given.items()}
    frozen_slots = [features.slot(name) for name in job.learner.frozen]
    weights, frozen = np.zeros(len(features)), np.zeros(len(features), dtype=np.bool_)
    weights[list(slots)] = list(slots.values())
    frozen[frozen_slots] = True
    return FirstWeights(weights, frozen)


def learner(
    job: Job, frozen: np.ndarray, features: FeatureTable, first_sparse: int, scoring: Scoring | None = None
) -> OnlineLearner | BatchLearner:
    """The job's learner.

    ``frozen``: bool [D], features that keep their weights; ``first_sparse``: first slot of sparse features; bins of
    ``scoring`` are regularised as ``[features.discretize]`` says.
    """
    wanted, smooth = job.learner, job.features.discretize
    bins = (
        [np.array([feature_id(name) for name in of.names], dtype=np.uint64) for of in scoring.bins] if scoring else []
    )
    if wanted.method == "pro":
        kind = smooth.regularizer if bins else "none"
        smoothness = bin_chains.Smoothness(bins, kind, smooth.beta, smooth.gamma) if kind != "none" else None
        return pro.Pro(pro.ProOptions(**asdict(wanted.pro)), smoothness)
    learner = _plain_learner(job, frozen, first_sparse)
    if job.learner.averaging == "sentence" and not isinstance(learner, BatchLearner):
        learner = averaging.Averaging(learner, changes_all=job.learner.l2 > 0)
    if bins and smooth.regularizer == "linear":
        assert not isinstance(learner, BatchLearner)  # checked by config.load
        return bin_chains.Smoothing(learner, [features.find(ids) for ids in bins], smooth.beta, frozen)
    return learner


def _plain_learner(job: Job, frozen: np.ndarray, first_sparse: int) -> OnlineLearner | BatchLearner:
    """The job's learner without the regularisation of bins."""
    wanted = job.learner
    match wanted.method:
        case "mira":
            pick = wanted.mira
            return mira.Mira(
                mira.MiraOptions(pick.oracle, pick.prediction, pick.variant, pick.c, job.decoder.kbest), frozen
            )
        case "mert":
            line = wanted.mert
            kind = hypergraph.HypergraphMert if line.search == "hypergraph" else mert.Mert
            return kind(mert.MertOptions(line.metric, line.directions, line.restarts))
        case "minrisk":
            return minrisk.MinRisk(minrisk.MinRiskOptions(**asdict(wanted.minrisk)))
        case "rampion":
            return rampion.Rampion(rampion.RampionOptions(**asdict(wanted.rampion)))
    options = perceptron.PerceptronOptions(
        learning_rate=wanted.learning_rate,
        margin=wanted.margin,
        margin_by_gold=wanted.margin_by_gold,
        order=wanted.order,
        rate=wanted.rate,
        l1=wanted.l1,
        l2=wanted.l2,
        scale_by_gold=wanted.scale_by_gold,
    )
    return perceptron.Perceptron(sampler(job), options, frozen, first_sparse)


def sampler(job: Job) -> Sampler:
    """The sampler of the pairs that the job's perceptron compares."""
    wanted = job.learner
    return make_sampler(wanted.pairs, wanted.share, wanted.extend_ties)


def local_update(job: Job) -> Callable[[Examples], Update]:
    """The job's update of local training."""
    wanted = job.local
    assert wanted.lambda_ is not None  # checked by config.load
    if wanted.method == "mbuu":
        return partial(mbuu, strength=wanted.lambda_)
    return partial(ebuu, strength=wanted.lambda_, alpha=wanted.alpha)


def list_length(job: Job) -> int:
    """Length of the k-best lists that are learned from."""
    wanted = job.learner
    longer_lists = wanted.method == "mira" and wanted.mira.oracle == "MB"
    return max(job.decoder.kbest, wanted.mira.oracle_kbest if longer_lists else 0)


def gold(job: Job, sentences: int) -> SentenceMetric:
    """The job's gold score for a set of so many sentences."""
    scale = job.learner.mira.cost_scale if job.learner.method == "mira" else 0.0
    return make_sentence_metric(job.learner.gold, scale or float(sentences))


def metric(job: Job, words: Sequence[str]) -> Metric:
    """The metric that the job's learner optimises; ``words``: the vocabulary."""
    return Metric(job.learner.mert.metric if job.learner.method == "mert" else "bleu", words)


def identity(job: Job, folder: Path) -> dict[str, Any]:
    """Keys that the result depends on, by dotted name (JSON types); files are represented by digests of their content.

    ``folder``: the job's store, up to date.
    """
    given = {key: list(v) if isinstance(v, tuple) else v for key, v in effective_keys(job).items()}
    initial = job.learner.initial_weights
    given["learner.initial_weights"] = fingerprint(initial).digest if initial else ""
    asked = _inifile(job)
    if asked is not None and job.decoder.backend == "cdec":
        given["decoder.config"] = asked.decoder_only_settings()
    return given | content_digests(sources(job), folder)
