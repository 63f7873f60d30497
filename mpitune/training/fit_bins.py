"""Bins of the rules' features, fitted to the grammars of the tuned sentences.

All ranks count values, each in its share of the grammars. Counts are whole numbers, so their sums are exact and the
bins do not depend on the number of ranks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from mpitune.config.spec import Job
from mpitune.corpus.progress import Progress
from mpitune.decoder.base import TranslationModel
from mpitune.errors import UsageError
from mpitune.exchange.comm import Comm
from mpitune.grammar.binning import Bins, make_bins
from mpitune.grammar.rules import Rules
from mpitune.grammar.score_transforms import WORDS, count_values, merge_counts
from mpitune.runtime.signals import stop_flag
from mpitune.store.inputs import StoreInputs
from mpitune.store.store import Store, open_store
from mpitune.training import factory

LOG = logging.getLogger(__name__)


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
    comm.on_root(_check, job, store.model.score_names)
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


def _check(job: Job, names: Sequence[str]) -> None:
    wanted = job.features
    for name in (*wanted.unlog.features, *wanted.discretize.features):
        if name not in names and (name != "WordPenalty" or name in wanted.unlog.features):
            expected = f"a score of the grammar: {', '.join(names) or 'it has none'}"
            raise UsageError(f"{job.file}: [features]: found {name}, expected {expected}")
