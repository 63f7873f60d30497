"""Search for the tuned sentences among the pairs of the bitext, to leave each out in the extraction of its own grammar.

With its own pair, a sentence's grammar has rules for whole parts of its reference, found once; weights that trust such
rules are bad for other text.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from mpitune.corpus.bitext import AlignedFiles, read_pairs
from mpitune.corpus.lines import kilobytes
from mpitune.corpus.progress import Progress
from mpitune.corpus.text import SentencePair
from mpitune.corpus.wording import counted
from mpitune.errors import DataError
from mpitune.store.inputs import StoreInputs, Texts

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
