"""A warning before training: a language model has been estimated from the references that are tuned on.

Every learner then trusts that model more than it deserves on other text: references are what it predicts best.
An unpruned model has all n-grams of its text. Of other text in the same domain it has far fewer of its highest order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from mpitune.decoder.base import TranslationModel
from mpitune.lm.ngram_table import LanguageModel, find
from mpitune.store.store import Store

LOG = logging.getLogger(__name__)

KNOWN = 0.95
"""Least share of known n-grams that is warned of. Of the tuned references, models of them have 1; others 0.50 (4-grams,
Multi30k), 0.62 (3-grams, the demo) and, of the 299 other sentences of news commentary, 0.07."""
LEAST_ORDER = 3
"""Least order of a model that is checked: most bigrams of a text are known to any large model."""
LEAST_NGRAMS = 1000
"""Least number of n-grams to judge by: a few sentences may consist of common phrases."""
SENTENCES = 1000
"""Number of references that are looked up, evenly spaced."""


def warn_of_seen_references(files: Sequence[Path], store: Store) -> None:
    """Warn of each language model, the compiled forms of ``files``, that has nearly all n-grams of the references.

    External decoders load their models themselves: these are not checked.
    """
    assert store.train is not None  # checked by config.load.require_data
    if not isinstance(store.model, TranslationModel):
        return
    ptr, words = store.train.reference_ptr, store.train.reference
    rows = np.unique(np.linspace(0, len(ptr) - 2, SENTENCES).astype(np.int64))
    for file, (lm, vocabulary) in zip(files, store.model.lms, strict=False):
        numbers = vocabulary.numbers(store.model.words.words)
        known, total = known_ngrams(lm, (numbers[words[ptr[i] : ptr[i + 1]]] for i in rows))
        if lm.order >= LEAST_ORDER and total >= LEAST_NGRAMS and known >= KNOWN * total:
            LOG.warning(
                "%s: has %.1f %% of the %d-grams of the references in [data], expected less than %g %%: "
                "estimate it without them, or translations of other text will be worse",
                file,
                100 * known / total,
                lm.order,
                100 * KNOWN,
            )


def known_ngrams(lm: LanguageModel, sentences: Iterable[np.ndarray]) -> tuple[int, int]:
    """Numbers of the n-grams of the model's order in ``sentences`` that it has, and of all.

    ``sentences``: int [words] each, the model's numbers; their ends count as words.
    """
    known = total = 0
    for sentence in sentences:
        text = np.concatenate([[lm.bos], sentence, [lm.eos]]).astype(np.int64)
        for end in range(lm.order, len(text) + 1):
            known += find(lm, text, end - lm.order, end) >= 0
            total += 1
    return known, total
