"""Opening of a run: makes what its store lacks, opens all parts, and tells what is odd about the job.

Bins of the rules' features are fitted to the grammars of the tuned sentences: all ranks count values, each in its share
of the grammars. Counts are whole numbers, so their sums are exact and the bins do not depend on the number of ranks.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpitune.config.effective_keys import ignored_keys
from mpitune.config.spec import Job
from mpitune.corpus.progress import Progress
from mpitune.decoder.base import TranslationModel
from mpitune.decoder.cdec.process import resolve_program
from mpitune.decoder.lists.decoder import ListModel
from mpitune.errors import DataError, UsageError
from mpitune.exchange.comm import Comm
from mpitune.grammar.binning import Bins, make_bins
from mpitune.grammar.rules import Rules
from mpitune.grammar.score_transforms import WORDS, Scoring, count_values, merge_counts
from mpitune.grammar.sparse import prefixes, template_names
from mpitune.learner.base import BatchLearner
from mpitune.run_folder.layout import RunFolder
from mpitune.runtime.signals import stop_flag
from mpitune.store.bitext_inputs import known_decisions
from mpitune.store.extract_grammars import extract_and_build
from mpitune.store.inputs import StoreInputs
from mpitune.store.store import Store, open_store
from mpitune.training import factory, job_inputs
from mpitune.training.hosts import compile_kernels, compile_side_by_side
from mpitune.training.seen_references import log_seen_references, warn_of_tuned_devtest
from mpitune.training.session import TrainingRun

LOG = logging.getLogger(__name__)


class InitialModel(NamedTuple):
    """A trained model to begin with."""

    weights: Mapping[str, float]
    scoring: Scoring | None
    """Transforms and bins of the grammar's scores."""


def open_run(job: Job, comm: Comm, given: InitialModel | None = None) -> TrainingRun:
    """Make the store where it is missing and open all parts of a run.

    ``given`` replaces the job's initial weights and score transforms.
    """
    folder, sources = job.run.store, job_inputs.sources(job)
    for plugin in job.plugins.modules:
        LOG.info("plugin %s", plugin)
    for decision in comm.on_root(known_decisions, sources.made_inputs):
        LOG.info("%s", decision)
    compile_side_by_side(comm, job, sources)
    extract_and_build(comm, sources, folder, folder)
    store = open_fitted(comm, job, sources, folder) if given is None else open_store(sources, folder, given.scoring)
    comm.on_root(_check_store, job, store)
    assert store.train is not None  # checked by config.checks.require_data
    grammars = comm.on_root(job_inputs.sentence_grammars, job, sources)
    own = RunFolder(job.run.dir).decoder_folder(f"rank-{comm.rank}")
    decoder = factory.decoder(job, store, own, factory.list_length(job), grammars)
    weights = comm.on_root(factory.initial_weights, job) if given is None else given.weights
    if store.scoring is not None:
        weights = store.scoring.to_bin_weights(weights)
    comm.on_root(_warn_of_unknown, job, weights, store.model)
    comm.on_root(log_seen_references, job, sources.lms, store)
    comm.on_root(warn_of_tuned_devtest, job, store)
    if idle := ignored_keys(job):
        LOG.info("keys ignored by this method: %s", ", ".join(idle))
    first = factory.first_weights(job, weights, decoder.features, store.model)
    metric = factory.metric(job, store.model.words.words)
    run = TrainingRun(
        job=job,
        comm=comm,
        folder=RunFolder(job.run.dir),
        store=store,
        corpus=store.train,
        decoder=decoder,
        first=first,
        learns=factory.learned_in_epochs(job, store.model),
        learner=factory.learner(job, metric, store.scoring),
        gold=factory.gold(job, metric, store.train.size),
        metric=metric,
        identity=comm.on_root(job_inputs.identity, job, folder) | _identity_of_scores(store, first.first_sparse),
    )
    _warm_up(run)
    return run


def _identity_of_scores(store: Store, first_sparse: int) -> dict[str, str]:
    """The digest of the bins, and how they are learned: both depend on the version of mpitune too."""
    if store.scoring is None:
        return {}
    sparse = first_sparse < len(store.model.dense_features())
    learned = {"bins beside their scores": "learned as sparse features"} if sparse else {}
    return {"bins of features.discretize": store.scoring.digest} | learned


def _check_store(job: Job, store: Store) -> None:
    for table, corpus in {"data": store.train, "data.devtest": store.devtest}.items():
        if corpus is not None and len(corpus.source) == 0:
            found = "empty lines alone" if corpus.size else "no sentences"
            raise DataError(f"{job.file}: found {found} in [{table}], expected at least one sentence")
        if corpus is not None and len(corpus.reference) == 0 and len(corpus.reference_ptr) > 1:
            raise DataError(f"{job.file}: found only empty references in [{table}], expected translations")


def _warn_of_unknown(job: Job, given: Mapping[str, float], model: TranslationModel | ListModel) -> None:
    """Warn of keys of a cdec.ini, and of features, that nothing in the job uses: they may be misspelt."""
    ini = job_inputs.inifile(job)
    if ini is not None and job.decoder.backend == "embedded" and (ignored := ini.ignored_by_embedded()):
        LOG.warning(
            '%s: the embedded decoder ignores %s: if one matters, set decoder.backend = "cdec"',
            job.decoder.config,
            ", ".join(ignored),
        )
    known = model.fired(job.learner.frozen)
    unknown = [name for name in job.learner.frozen if name not in known]
    if unknown and job.decoder.backend != "cdec":  # which may have features that only it knows
        LOG.warning("learner.frozen: nothing in this job fires %s", ", ".join(unknown))
    where = job.learner.initial_weights or "the given weights"
    if job.learner.initial_weights and not given:
        LOG.warning("%s: found no weights: all are 0; is it the file of a run that has learned?", where)
    elif told := unused_weights(given, job, model):
        LOG.warning("%s: %s", where, told)


def _warm_up(run: TrainingRun) -> None:
    """Start the external decoder on all ranks in parallel, and load the kernels on each machine.

    Kernels are compiled unless an earlier run has cached them: to get them all, the shortest sentence is decoded and
    learned from; the result is discarded.
    """
    LOG.info("%d sentences, %d dense features", run.corpus.size, run.first.first_sparse)
    if (shards := run.job.parallel.shards) > run.corpus.size and run.comm.root:
        LOG.warning(
            "%d shards for %d sentences: empty shards learn nothing; lower parallel.shards",
            shards,
            run.corpus.size,
        )
    lengths = np.diff(run.corpus.source_ptr)
    i = int(np.argmin(np.where(lengths > 0, lengths, lengths.max() + 1)))
    sentence, weights = run.corpus.sentence(i), run.first.copy()

    def learn() -> None:
        kbest = run.decode(i, weights, 0)
        counted = run.metric.statistics(kbest, run.corpus.references(i))
        if isinstance(run.learner, BatchLearner):
            return
        run.learner.start_shard(weights)
        if (given := replace(run).list_pass) is not None:
            given.learn(np.array([i]), weights)
            return
        run.learner.update(kbest, run.gold.score(counted, len(sentence.words)), weights, np.random.default_rng(0))

    if run.job.decoder.backend == "cdec":
        LOG.info("starting %s on all ranks", resolve_program(run.job.decoder.binary))
        run.decoder.decode(sentence, weights.value, 1)
    compile_kernels(run.comm, learn)


def open_fitted(
    comm: Comm,
    job: Job,
    sources: StoreInputs,
    folder: Path,
) -> Store:
    """Open the store in ``folder`` with the job's score transforms and bins fitted to the grammars of ``[data]``.

    All ranks call this. Raises UsageError if the job names scores
    that no rule has, StopRequested on every rank if one was asked to stop.
    """
    store, wanted = open_store(sources, folder), job.features
    if not (wanted.unlog.features or wanted.discretize.features):
        return store
    assert isinstance(store.model, TranslationModel)  # checked by config.checks
    comm.on_root(_check_scores, job, store.model.score_names)
    binned = wanted.discretize
    bins = fit(comm, store, binned.features, binned.bins) if binned.features else ()
    lines = [
        f"{of.feature}: {len(of.most)} bins of {of.population.min()} to {of.population.max()} rules" for of in bins
    ]
    comm.on_root(list, map(LOG.info, lines))
    scoring = factory.scoring(job, bins)
    comm.on_root(scoring.names, store.model.score_names)  # names of bins that clash are reported once
    return open_store(sources, folder, scoring)


def fit(comm: Comm, store: Store, features: Sequence[str], most: int) -> tuple[Bins, ...]:
    """At most ``most`` bins for each of ``features``, from their values in all rules of the grammars of ``[data]``.

    ``features``: scores of the grammars, or WordPenalty.

    A rule counts once for each grammar that has it. All ranks call this and get the bins; it raises StopRequested on
    all of them if one was asked to stop.
    """
    model = store.model
    assert isinstance(model, TranslationModel)
    assert store.train is not None  # jobs without training data have no bins to fit
    places = {name: n for n, name in enumerate(model.score_names)} | {"WordPenalty": WORDS}
    # Grammars are numbered in the order in which sentences name them, and those of [data] come first.
    total = int(store.train.grammar.max(initial=-1)) + 1
    share = range(total * comm.rank // comm.size, total * (comm.rank + 1) // comm.size)

    def opened() -> Iterator[Rules]:
        with Progress("grammars counted for bins", len(share)) as shown:
            for grammar in share:
                if stop_flag():
                    return
                yield model.grammars.open(grammar)
                shown.advance()

    counts = count_values(opened(), [places[feature] for feature in features])
    if comm.any(bool(stop_flag())):
        raise stop_flag().stop_error("the making of bins", resumable=False)
    parts = comm.gather(counts)

    def fitted() -> tuple[Bins, ...]:
        counted = [merge_counts(of_feature) for of_feature in zip(*(parts or []), strict=True)]
        return tuple(
            make_bins(feature, *values, most)
            for feature, values in zip(features, counted, strict=True)
            if len(values[0])
        )

    return comm.on_root(fitted)


def _check_scores(job: Job, names: Sequence[str]) -> None:
    wanted = job.features
    for name in (*wanted.unlog.features, *wanted.discretize.features):
        if name not in names and (name != "WordPenalty" or name in wanted.unlog.features):
            expected = f"a score of the grammar: {', '.join(names) or 'it has none'}"
            raise UsageError(f"{job.file}: [features]: found {name}, expected {expected}")


def unused_weights(weights: Mapping[str, float], job: Job, model: TranslationModel | ListModel) -> str:
    """Says which of ``weights``, if any, no feature of ``job`` has; empty: none.

    An external decoder may have features that only it knows: then only those of sparse templates are looked at. Lists
    may have any: of these, only features of templates for lists.
    """
    backend = job.decoder.backend
    if backend != "cdec" and weights and not model.fires_any(weights):
        return "none of its features occurs in this job"
    if backend == "lists":
        return lacking_templates(weights.keys() - model.fired(weights), len(weights), job)
    if lacking := lacking_templates(weights, len(weights), job):
        return lacking
    known, sparse = set(model.dense_features()), tuple(prefixes().values())
    unknown = [name for name, weight in weights.items() if weight and name not in known and not name.startswith(sparse)]
    if backend == "cdec" or not unknown:
        return ""
    what = f"{len(unknown)} of {len(weights)} weights do not count"
    return f"{what}: no feature is called {unknown[0]}: are they those of another program, or of another model's name?"


def lacking_templates(names: Collection[str], weights: int, job: Job) -> str:
    """Says how many ``names``, of so many ``weights``, are those of templates that ``job`` lacks; empty: none."""
    templates = template_names(of_lists=True) if job.decoder.backend == "lists" else prefixes()
    absent = {template: prefixes()[template] for template in templates if template not in job.features.templates}
    found = Counter(template for name in names for template, prefix in absent.items() if name.startswith(prefix))
    lacking = ", ".join(template for template in absent if template in found)
    if not found:
        return ""
    what = f"{found.total()} of {weights} weights do not count"
    return f"{what}: features.templates lacks {lacking}: add them to translate as the run does that learned them"
