"""Messages about the references that are tuned on: which models have seen them, and which do not know them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from mpitune.config.spec import Job
from mpitune.corpus.wording import counted
from mpitune.decoder.base import TranslationModel
from mpitune.lm.leave_one_out import COVERED
from mpitune.lm.ngram_table import UNKNOWN
from mpitune.lm.seen_text import KNOWN, share_if_seen
from mpitune.store.leave_one_out import OWN_TEXT
from mpitune.store.store import Corpus, Store, references_in

LOG = logging.getLogger(__name__)


def log_seen_references(job: Job, files: Sequence[Path], store: Store) -> None:
    """Log which language models, the compiled forms of ``files``, have seen references and leave them out.

    Warn of those that have seen the references and leave none out: every learner then trusts them more than they
    deserve on other text. External decoders load their models themselves: these are not checked.
    """
    corpus = store.train
    assert corpus is not None  # checked by config.checks.require_data
    if not isinstance(store.model, TranslationModel):
        return
    for n, (file, (lm, vocabulary)) in enumerate(zip(files, store.model.lms, strict=False)):
        references, own = references_in(vocabulary, corpus, store.model.words), store.own_ngrams[n]
        _warn_of_unknown_words(file, references)
        if own is not None:
            found, total = own.references.tolist()
            what = "each is left out of the model while it is learned from" if found else "none has to be left out"
            if total:
                LOG.info("%s: its text has %d of the %s: %s", file, found, counted(total, "reference"), what)
            else:
                # No text was read: none is named, and the model's n-grams do not tell that it has seen the references.
                LOG.info("%s: no reference is left out of it", file)
        if own is not None and len(own.node):
            if (covered := float(own.covered[0])) < COVERED:
                LOG.warning(
                    "%s: lm.%d.text has %.1f %% of its n-grams, expected %g %% or more: name all its texts, or what "
                    "others have is taken for unique",
                    file,
                    n,
                    100 * covered,
                    100 * COVERED,
                )
            continue
        share = share_if_seen(lm, references)
        if share is not None:
            LOG.warning(
                "%s: has %.1f %% of the %d-grams of the references in [data], expected less than %g %%: "
                "%s, or translations of other text will be worse",
                file,
                100 * share,
                lm.order,
                100 * KNOWN,
                _remedy(job, n),
            )


def warn_of_tuned_devtest(job: Job, store: Store) -> None:
    """Warn if half of the devtest set's sentences or more are tuned on, whatever the names of their files."""
    if job.data is None or job.data.devtest is None:
        return
    assert store.train is not None and store.devtest is not None  # as the job has them
    devtest = [*_sentences(store.devtest)]
    wanted = set(devtest) - {b""}
    tuned = {sentence for sentence in _sentences(store.train) if sentence in wanted}
    count = sum(sentence in tuned for sentence in devtest)
    if count and count >= OWN_TEXT * len(devtest):
        LOG.warning(
            "%s: %d of %s are tuned on, expected another devtest set: devtest BLEU tells nothing about other text, "
            "and selects the epoch that fits this one best",
            job.data.devtest.source or job.data.devtest.lists[0],
            count,
            counted(len(devtest), "sentence"),
        )


def _warn_of_unknown_words(file: Path, references: Sequence[np.ndarray]) -> None:
    """Warn if a model knows less than half of the words of ``references`` (int32 each, as its numbers)."""
    unknown, total = sum(int((words == UNKNOWN).sum()) for words in references), sum(map(len, references))
    if 2 * unknown > total:
        LOG.warning(
            "%s: %d of %d words of the references in [data] are unknown to it: is it a model of such text, in "
            "language, case and tokens?",
            file,
            unknown,
            total,
        )


def _sentences(corpus: Corpus) -> Iterator[bytes]:
    """The source words of each sentence, or of its first list entry."""
    for first, end in zip(corpus.source_ptr[:-1].tolist(), corpus.source_ptr[1:].tolist(), strict=True):
        yield corpus.source[first:end].tobytes()


def _remedy(job: Job, n: int) -> str:
    keys = job.lm[n]
    if not job.learner.lm_leave_one_out:
        return "set learner.lm_leave_one_out = true"
    if keys.file is not None and not keys.text:
        return f"name the texts that it was estimated from in lm.{n}.text"
    return "estimate it without them"
