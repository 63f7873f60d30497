"""Compilation of what leaving tuned sentences out changes in a language model (`mpitune.lm.leave_one_out`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.array_files.arrays import with_prefix
from mpitune.array_files.checked import open_checked
from mpitune.corpus.vocabulary import Names, Vocabulary
from mpitune.lm.leave_one_out import NOTHING, OwnNgrams, own_ngrams
from mpitune.lm.seen_text import share_if_seen
from mpitune.store.inputs import StoreInputs
from mpitune.store.store import DATA, Corpus, lm_name, open_lm, references_in
from mpitune.store.structure import check_data


def own_ngrams_inputs(sources: StoreInputs, n: int) -> tuple[list[Path], dict[str, Any]]:
    """The input files of the `OwnNgrams` of language model ``n``, and the settings that they depend on."""
    assert sources.train is not None  # see `StoreInputs.leaves_sentences_out`
    texts = [file for of_lm in _texts(sources, n) for file in of_lm]
    texts_of = [len(of_lm) for of_lm in _texts(sources, n)]
    settings = {"train": sources.train.settings, "texts": texts_of, "certain": bool(sources.lm_texts[n])}
    lm = [sources.lms[n]]
    if n in sources.estimated:
        lm, settings["estimated"] = sources.estimated[n].inputs, sources.estimated[n].settings
    return [*lm, *sources.train.files, *texts], settings


def compile_own_ngrams(sources: StoreInputs, folder: Path, lms: Path, n: int) -> Mapping[str, np.ndarray]:
    """The arrays of `OwnNgrams` of language model ``n``; ``folder``, ``lms``: those of the data and of the models.

    The model's texts are those that the job names. Otherwise, if it seems to have seen the references, those of the
    likely texts that have its n-grams, if any have.
    """
    data = open_checked(folder / DATA, check_data)
    words, corpus = Vocabulary(Names.stored(data, "words").all()), Corpus(**with_prefix(data, "train"))
    lm, vocabulary = open_lm(sources.lms[n], lms / lm_name(n))
    references = references_in(vocabulary, corpus, words)
    limits = corpus.first_reference.tolist()
    of_sentence = [references[a:b] for a, b in zip(limits[:-1], limits[1:], strict=True)]
    certain = bool(sources.lm_texts[n])
    found = OwnNgrams(np.zeros(corpus.size + 1, np.int64), *NOTHING, np.zeros(2, np.int64), np.zeros(1))
    if certain or share_if_seen(lm, references) is not None:
        for texts in _texts(sources, n):
            found = own_ngrams(lm, vocabulary, of_sentence, texts, certain=certain)
            if len(found.node):
                break
    return found._asdict()


def _texts(sources: StoreInputs, n: int) -> Sequence[tuple[Path, ...]]:
    """The texts that language model ``n`` was estimated from, or the likely ones."""
    named = sources.lm_texts[n]
    return [named] if named else sources.likely_texts
