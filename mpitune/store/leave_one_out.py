"""Tuned sentences, left out of the models that are made from a text with them: grammars and language models.

With its own pair, a sentence's grammar has rules for whole parts of its reference, found once; weights that trust such
rules are bad for other text. So the pairs are searched for in the bitext, to leave each out in the extraction of its
own grammar. For language models, the changes without each sentence are compiled (`mpitune.lm.leave_one_out`).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.array_files.arrays import with_prefix
from mpitune.array_files.cache import open_checked
from mpitune.corpus.bitext import AlignedFiles, read_pairs
from mpitune.corpus.lines import kilobytes
from mpitune.corpus.progress import Progress
from mpitune.corpus.text import SentencePair
from mpitune.corpus.vocabulary import Names, Vocabulary
from mpitune.corpus.wording import counted
from mpitune.errors import DataError
from mpitune.lm.leave_one_out import NOTHING, OwnNgrams, own_ngrams
from mpitune.lm.seen_text import share_if_seen
from mpitune.store.inputs import StoreInputs, Texts
from mpitune.store.store import DATA, Corpus, lm_name, open_lm, references_in
from mpitune.store.structure import check_data

LOG = logging.getLogger(__name__)
OWN_TEXT = 0.5
"""Smallest share of a text's sentences that are pairs of the bitext if the text is taken from it. Others have some of
its pairs by chance, as the texts to be translated have: these stay in."""


def own_pairs(sources: StoreInputs) -> list[int | None] | None:
    """The pair of ``sources.aligned`` to leave out for each sentence of ``sources.train``; None: none for any.

    If ``sources.leave_one_out`` is None, the text is searched for in the bitext.
    Warns of a devtest set that is taken from the bitext. Raises DataError if ``leave_one_out`` is true and the
    sentences are not the bitext's first ones.
    """
    aligned, train = sources.aligned, sources.train
    assert aligned is not None
    found = None
    if train is not None and sources.leave_one_out:
        sentences = [pair.source.words for pair in train.read()]
        check_same_sentences(aligned, sentences, train.files[0])
        found = list[int | None](range(len(sentences)))
    searched = [train] if train is not None and sources.leave_one_out is None else []
    searched += [sources.devtest] if sources.devtest is not None else []
    for texts, pairs in zip(searched, _search(aligned, searched), strict=True):
        count = len(pairs) - pairs.count(None)
        if not count or count < OWN_TEXT * len(pairs):
            continue
        in_bitext = f"{texts.files[0]}: {count} of {counted(len(pairs), 'sentence')} are pairs of {aligned.source}"
        if texts is train:
            LOG.info(f"{in_bitext}: grammars of these are extracted without their own pairs")
            found = pairs
        else:
            LOG.warning(
                "%s, expected none: devtest BLEU will be too high, and favours epochs that trust known sentences",
                in_bitext,
            )
    return found


def _search(aligned: AlignedFiles, searched: Sequence[Texts]) -> list[list[int | None]]:
    """For each text the numbers of its sentences' pairs, see `found_pairs`."""
    if not searched:
        return []
    texts = [texts.read() for texts in searched]
    files = [aligned.source, *([aligned.target] if aligned.target else [])]
    with Progress("kB searched for the texts of the job", kilobytes(files)) as progress:
        return found_pairs(read_pairs(aligned.source, aligned.target, progress), texts)


def found_pairs(
    bitext: Iterable[tuple[list[str], list[str]]], texts: Sequence[Sequence[SentencePair]]
) -> list[list[int | None]]:
    """For each text, the number of the pair with the words of each sentence and of a reference of it, or None.

    Of several such pairs the one with the sentence's own number is taken, otherwise the first.
    """
    wanted = defaultdict[str, list[tuple[int, int]]](list)
    for n, sentences in enumerate(texts):
        for i, pair in enumerate(sentences):
            for key in {_key(pair.source.words, reference) for reference in pair.references}:
                wanted[key].append((n, i))
    found: list[list[int | None]] = [[None] * len(sentences) for sentences in texts]
    for number, (source, target) in enumerate(bitext):
        for n, i in wanted.get(_key(source, target), ()):
            if found[n][i] is None or number == i:
                found[n][i] = number
    return found


def _key(source: Sequence[str], target: Sequence[str]) -> str:
    return f"{' '.join(source)}\n{' '.join(target)}"


def check_same_sentences(files: AlignedFiles, sentences: Sequence[Sequence[str]], file: Path) -> None:
    """Raise DataError unless the ``sentences`` of ``file`` are the first ones of the bitext."""
    pairs = read_pairs(files.source, files.target)
    for number, words in enumerate(sentences, start=1):
        pair = next(pairs, None)
        if pair is None or pair[0] != list(words):
            found = "another sentence" if pair else "more sentences"
            expected = (
                f"that of {files.source}:{number}: leaving one out needs the bitext's own sentences, from the first"
            )
            raise DataError.at(file, number, found=found, expected=expected)


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
