"""A sign that a language model was estimated from a text: it has nearly all n-grams of the text.

An unpruned model has all n-grams of what it was estimated from. Of other text in the same domain it has far fewer of
its highest order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mpitune.lm.ngram_table import LanguageModel, find

KNOWN = 0.95
"""Least share of known n-grams that tells a text of the model. Models have all of their own references; of others they
have 0.50 (4-grams, Multi30k), 0.62 (3-grams, generated ones) and, of 299 other sentences of news commentary, 0.07."""
LEAST_ORDER = 3
"""Least order of a model that is judged: most bigrams of a text are known to any large model."""
LEAST_NGRAMS = 1000
"""Least number of n-grams to judge by: a few sentences may consist of common phrases."""
SENTENCES = 1000
"""Number of sentences that are looked up, evenly spaced."""


def share_if_seen(lm: LanguageModel, sentences: Sequence[np.ndarray]) -> float | None:
    """The share of the n-grams in ``sentences`` that the model has, if it tells that it has seen them; else None.

    ``sentences``: int [words] each, the model's numbers. n-grams of the model's order are looked up.
    """
    rows = np.unique(np.linspace(0, max(len(sentences) - 1, 0), SENTENCES).astype(np.int64))[: len(sentences)]
    known, total = known_ngrams(lm, (sentences[i] for i in rows.tolist()))
    seen = lm.order >= LEAST_ORDER and total >= LEAST_NGRAMS and known >= KNOWN * total
    return known / total if seen else None


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
