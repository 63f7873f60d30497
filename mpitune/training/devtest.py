"""Translation and scoring of the devtest set before training, after the dense start, and after each epoch.

If the job has no devtest set, some training sentences are translated for the report; they are not scored.
"""

from __future__ import annotations

import numpy as np

from mpitune.decoder.base import check_failed
from mpitune.decoder.kbest_formats import text
from mpitune.learner.weights import SparseWeights
from mpitune.metrics.sacrebleu import bleu_and_length
from mpitune.runtime.signals import stop_flag
from mpitune.store.store import Corpus
from mpitune.training.epoch_statistics import NOT_SCORED, Scores
from mpitune.training.scheduler import check_stop, parallel_map
from mpitune.training.session import TrainingRun

WITHOUT_DEVTEST = 20
"""Number of training sentences that are translated if there is no devtest set."""


def watch_start(run: TrainingRun, weights: SparseWeights) -> Scores:
    """Write the devtest source and references to the run folder, and translate with the initial ``weights``.

    Returns the scores, as `watch_epoch`.
    """
    corpus, count = _watched(run)
    words = run.store.model.words.words

    def write() -> None:
        source = [text(corpus.sentence(i).words, words) for i in range(count)]
        run.folder.write_watched(source, _references(run, corpus, count))

    run.comm.on_root(write)
    return watch_epoch(run, 0, weights)


def watch_epoch(run: TrainingRun, epoch: int, weights: SparseWeights) -> Scores:
    """Translate the devtest set with the ``weights`` of ``epoch`` and write the translations to the run folder.

    Returns the scores, on every rank. Raises StopRequested after a signal.
    """
    return _watch(run, weights, f"after epoch {epoch}" if epoch else "before training", epoch)


def score_devtest(run: TrainingRun, weights: SparseWeights, when: str) -> Scores:
    """Scores of the devtest set translated with ``weights``, as `watch_epoch`, but without the translations.

    ``when``: the time in the run, for the message of StopRequested. Nothing is translated without a devtest set.
    """
    return NOT_SCORED if run.store.devtest is None else _watch(run, weights, when, None)


def _watch(run: TrainingRun, weights: SparseWeights, when: str, epoch: int | None) -> Scores:
    """See `watch_epoch`; the translations are not written if ``epoch`` is None."""
    corpus, count = _watched(run)
    by_slot, words, failed = run.first.load(weights).value, run.store.model.words.words, -run.decoder.failed
    tuned = None if run.store.devtest is None or run.metric.is_bleu else run.metric
    sentence = run.store.tuned_sentence if run.store.devtest is None else corpus.sentence

    def translate(i: int) -> tuple[str, np.ndarray]:
        if stop_flag():
            return "", np.zeros(0)
        kbest = run.decoder.decode(sentence(i), by_slot, 1)
        counted = tuned.statistics(kbest, corpus.references(i))[0] if tuned else np.zeros(0)
        return text(kbest.translation(0), words), counted

    done = list(parallel_map(run.comm, count, translate, "devtest"))
    check_stop(run, f"the translation {when}", bool(stop_flag()), resumable=epoch != 0)
    failures = run.comm.gather(failed + run.decoder.failed)

    def keep() -> Scores:
        if run.store.devtest is not None:
            # A few training sentences are too few to judge the decoder; training checks all of them.
            check_failed(sum(failures or []), count)
        translations = [translation for translation, _ in done]
        if epoch is not None:
            run.folder.write_translations(epoch, translations)
        if run.store.devtest is None:
            return NOT_SCORED
        metric = tuned.reported(np.sum([counted for _, counted in done], axis=0)[None])[0] if tuned else None
        references = _references(run, corpus, count)
        bleu, length_ratio = bleu_and_length(translations, references) if references[0] else (None, None)
        return Scores(bleu, length_ratio, metric)

    return run.comm.on_root(keep)


def _watched(run: TrainingRun) -> tuple[Corpus, int]:
    """The corpus to translate, and the number of its sentences to take."""
    if run.store.devtest is not None:
        return run.store.devtest, run.store.devtest.size
    return run.corpus, min(run.corpus.size, WITHOUT_DEVTEST)


def _references(run: TrainingRun, corpus: Corpus, count: int) -> list[list[str]]:
    words = run.store.model.words.words
    return [[text(reference, words) for reference in corpus.references(i)] for i in range(count)]
