"""Constructs the parts of a run from a job: decoder, learner, sentence metric, initial weights."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from mpitune.config.spec import Job, lm_names, metric_weights
from mpitune.corpus.feature_table import FeatureTable
from mpitune.corpus.lines import check_readable
from mpitune.corpus.vocabulary import feature_id
from mpitune.corpus.weights import read_weights
from mpitune.decoder.base import Decoder, TranslationModel
from mpitune.decoder.cdec.decoder import CdecDecoder
from mpitune.decoder.cdec.process import Timeouts
from mpitune.decoder.embedded.decoder import EmbeddedDecoder
from mpitune.decoder.lists.decoder import ListDecoder, ListModel
from mpitune.grammar.binning import Bins
from mpitune.grammar.cdec_ini import make_inifile
from mpitune.grammar.score_transforms import Scoring
from mpitune.grammar.templates import all_names, features, pass_through
from mpitune.learner.base import BatchLearner, EvidenceLearner
from mpitune.learner.bin_chains import Smoothness
from mpitune.learner.local.ebuu import ebuu
from mpitune.learner.local.examples import Examples, Update
from mpitune.learner.local.mbuu import mbuu
from mpitune.learner.methods import LearnedFeatures, Parts
from mpitune.learner.online.after_updates import Averaging, Composed, Smoothing
from mpitune.learner.weights import Weights
from mpitune.metrics.sentence_bleu import SentenceMetric, make_sentence_metric
from mpitune.metrics.tuning_metric import Metric, MetricGold
from mpitune.store.store import Store
from mpitune.training import job_inputs


def scoring(job: Job, bins: Sequence[Bins]) -> Scoring:
    """Transforms of the rules' features; ``bins``: of the features to be discretised."""
    wanted, unlog = job.features, job.features.unlog
    transforms = {
        **dict.fromkeys(unlog.minus_log10, "10**-v"),
        **dict.fromkeys(unlog.log10_plus_1, "10**v-1"),
        **dict.fromkeys(unlog.minus_ln, "exp(-v)"),
        **dict.fromkeys(unlog.ln, "exp(v)"),
    }
    found = {of.feature for of in bins}
    pairs = tuple(pair for pair in wanted.discretize.pairs if found.issuperset(pair))
    return Scoring(transforms, tuple(bins), wanted.discretize.overlap, wanted.discretize.keep, pairs)


def decoder(job: Job, store: Store, folder: Path, kbest: int, grammars: Sequence[Path] = ()) -> Decoder:
    """The job's decoder with the models of ``store``.

    For an external decoder: ``folder`` is for its files, ``kbest`` is the longest list that will be requested, and
    ``grammars`` are the files of the sentences' grammars, by number.
    """
    wanted, model = job.decoder, store.model
    if isinstance(model, ListModel):
        return ListDecoder(model)
    if wanted.backend == "embedded":
        return _embedded(job, model)
    return CdecDecoder(
        model,
        binary=wanted.binary,
        inifile=make_inifile(
            job_inputs.inifile(job),
            grammars=[*([job.grammar.file] if job.grammar.file else []), *job_inputs.further_grammars(job)],
            language_models=list(zip(lm_names(job), job_inputs.sources(job).lms, strict=True)),
            templates=job.features.templates,
            pop_limit=wanted.pop_limit,
            span_limit=wanted.span_limit,
        ),
        grammars=grammars,
        folder=folder,
        kbest=kbest,
        unique=wanted.unique,
        timeouts=Timeouts(wanted.cdec.start_timeout, wanted.cdec.first_timeout, wanted.cdec.sentence_timeout),
        sparse=_sparse_features(store, model),
    )


def _sparse_features(store: Store, model: TranslationModel) -> Iterable[str]:
    """Names of all features that templates fire, for cdec, which breaks ties by the order in which it meets them."""
    names = dict.fromkeys(all_names(model.templates, model.grammars.types, model.categories, model.words.words))
    corpora = [corpus.source for corpus in (store.train, store.devtest) if corpus is not None]
    for word in np.unique(np.concatenate([np.zeros(0, np.int32), *corpora])).tolist():
        names |= dict.fromkeys(name for name, _ in features(model.templates, pass_through(model.words.words[word])))
    return names


def without_templates(job: Job, store: Store, decoder: Decoder) -> Decoder:
    """A decoder that fires no sparse features and has the dense ones in the same slots, if that takes no other program.

    Else ``decoder``, the job's own.
    """
    if not isinstance(store.model, TranslationModel) or not isinstance(decoder, EmbeddedDecoder):
        return decoder
    return _embedded(job, store.model._replace(templates=()))


def _embedded(job: Job, model: TranslationModel) -> EmbeddedDecoder:
    wanted = job.decoder
    return EmbeddedDecoder(
        model,
        pop_limit=wanted.pop_limit,
        rule_margin=wanted.rule_margin,
        span_limit=wanted.span_limit,
        unique=wanted.unique,
    )


def initial_weights(job: Job) -> dict[str, float]:
    """The weights in ``learner.initial_weights``, or none. Raises DataError for a bad file."""
    file = job.learner.initial_weights
    if file is None:
        return {}
    check_readable(file)
    return read_weights(file)


def first_weights(
    job: Job, given: Mapping[str, float], features: FeatureTable, model: TranslationModel | ListModel
) -> Weights:
    """The weights ``given`` and the job's frozen features by slot; unknown names are added to ``features``."""
    slots, frozen = (features.slots(list(names)) for names in (given, job.learner.frozen))
    first = Weights(features, first_sparse_slot(job, model))
    first.value[slots], first.frozen[frozen] = list(given.values()), True
    return first


def first_sparse_slot(job: Job, model: TranslationModel | ListModel) -> int:
    """The slot of the first feature that is learned as a sparse one; the dense features have those before.

    Sparse are the features that templates fire, and bins beside the scores that they correct *(ours)*, unless these are
    smoothed: that changes weights which sparse ones do not have, as theirs follow from the gradients.
    """
    dense = len(model.dense_features())
    scoring = model.scoring if isinstance(model, TranslationModel) else None
    if scoring is None or not scoring.keep or job.features.discretize.regularizer != "none":
        return dense
    return dense - len(scoring.names(()))


def learned_in_epochs(job: Job, model: TranslationModel | ListModel) -> LearnedFeatures:
    """The features that the epochs learn.

    The sparse ones, if the dense start has learned the dense ones before; those of ``learner.tune`` otherwise.
    """
    wanted = job.learner
    if wanted.tune == "dense":
        return "dense"
    has_sparse = model.has_sparse or first_sparse_slot(job, model) < len(model.dense_features())
    in_turn = wanted.dense_start > 0 and not wanted.own.is_batch and has_sparse
    return "sparse" if in_turn else "all"


def learner(job: Job, metric: Metric, scoring: Scoring | None = None) -> Composed | BatchLearner:
    """The job's learner, which optimises ``metric``.

    Bins of ``scoring`` are regularised as ``[features.discretize]`` says.
    """
    smooth, own = smoothness(job, scoring), job.learner.own
    plain = own.make(Parts(metric, job.decoder.kbest, smooth))
    if isinstance(plain, BatchLearner):
        return plain
    after = own.after_updates()
    if job.learner.averaging == "sentence":
        after.append(Averaging(changes_all=plain.changes_all, dense_only=isinstance(plain, EvidenceLearner)))
    if smooth is not None:
        after.append(Smoothing(smooth))
    return Composed(plain, after)


def smoothness(job: Job, scoring: Scoring | None) -> Smoothness | None:
    """The penalty of the bins of ``scoring`` that ``[features.discretize]`` asks for, if any."""
    wanted = job.features.discretize
    if scoring is None or not scoring.bins or wanted.regularizer == "none":
        return None
    bins = [np.array([feature_id(name) for name in of.names], dtype=np.uint64) for of in scoring.bins]
    return Smoothness(bins, wanted.regularizer, wanted.beta, wanted.gamma)


def local_update(job: Job) -> Callable[[Examples], Update]:
    """The job's update of local training."""
    wanted = job.local
    assert wanted.lambda_ is not None  # checked by config.checks
    if wanted.method == "mbuu":
        return partial(mbuu, strength=wanted.lambda_)
    return partial(ebuu, strength=wanted.lambda_, alpha=wanted.alpha)


def list_length(job: Job) -> int:
    """Length of the k-best lists that are learned from."""
    own = job.learner.own
    if job.decoder.backend == "lists" and own.is_batch:
        # Given lists do not change: there is no search to be spared, and no later epoch to find the rest.
        return sys.maxsize
    return own.list_length(job.decoder.kbest)


def gold(job: Job, metric: Metric, sentences: int) -> SentenceMetric:
    """The job's gold score for a set of so many sentences."""
    bleu = make_sentence_metric(job.learner.gold, job.learner.own.context_scale() or float(sentences))
    return bleu if metric.is_bleu else MetricGold(metric, bleu)


def metric(job: Job, words: Sequence[str]) -> Metric:
    """The metric that the job's learner optimises; ``words``: the vocabulary."""
    return Metric(metric_weights(job), words)
