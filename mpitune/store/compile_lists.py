"""Compilation of n-best lists: the arrays of a store without grammars and language models."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from mpitune.array_files.arrays import Stored, add_prefix
from mpitune.corpus.progress import Progress
from mpitune.corpus.text import SentencePair, SourceSentence
from mpitune.corpus.tokenisation import SAMPLE, warn_of_other_words
from mpitune.corpus.vocabulary import Names, Vocabulary
from mpitune.decoder.lists.compiler import ListCompiler
from mpitune.decoder.lists.features import ScoreFiles, TextFeatures
from mpitune.decoder.lists.formats import Entry
from mpitune.decoder.lists.stream import log_equal
from mpitune.errors import DataError
from mpitune.metrics.sacrebleu import word_tokenizer
from mpitune.metrics.tuning_metric import METRICS
from mpitune.store.inputs import StoreInputs, Texts
from mpitune.store.store import encoded_corpus

LOG = logging.getLogger(__name__)

LARGE = 1000
"""A dense feature is named in a warning if its values are so many times as large as the median of the others."""


def compile_lists(sources: StoreInputs, folder: Path) -> dict[str, Stored]:
    """The arrays of the store: texts, lists and the words of both. Lists are numbered like the sentences of all texts.

    Templates fire on the words of the files; ``sources.tokenize`` makes other words of them, and of references.
    A text without source sentences gets the first entries of its lists as such: reports show them, and their lengths
    balance the load of ranks. A text that is not `counted` ends with the last list of its files. ``folder`` is for
    temporary files.
    """
    words, arrays, first = Vocabulary(), dict[str, Stored](), 0
    compiler = ListCompiler(words, folder, sources.metrics, METRICS)
    text_features = TextFeatures(sources.templates, sources.lexicon)
    tokenize = word_tokenizer(sources.tokenize)
    corpora = {
        name: [
            pair._replace(references=[*map(tokenize, pair.references)])
            for pair in (texts.read(LOG.warning) if texts.counted else [])
        ]
        for name, texts in sources.texts.items()
    }
    total = sum(len(pairs) * len(sources.texts[name].lists) for name, pairs in corpora.items())
    starts = {}
    with Progress("lists read", total) as progress:
        for name, pairs in corpora.items():
            texts, starts[name] = sources.texts[name], first
            scores, limited = ScoreFiles(texts.scores), texts.limit > 0
            sentences = len(pairs) if texts.counted else texts.limit or None
            extra = texts.scores or sources.templates or sources.tokenize != "none"
            add_features = partial(_complete, scores, text_features, tokenize, pairs) if extra else None
            notation = texts.notation._replace(sentences=None if limited else sentences)
            for path in texts.lists:
                lists = compiler.read(
                    path,
                    first,
                    sentences,
                    add_features=add_features,
                    limited=limited,
                    advance=progress.advance,
                    notation=notation,
                )
                if not texts.counted:
                    pairs += [SentencePair(SourceSentence([], None), [])] * (lists - len(pairs))
            scores.check_ends()
            first += len(pairs)
    merged = compiler.merged(first)
    files = [path for texts in sources.texts.values() for path in texts.lists]
    log_equal(files, merged.equal, "the first counts")
    text_ptr, text = compiler.first_texts(merged)
    for name, pairs in corpora.items():
        numbers = np.arange(starts[name], starts[name] + len(pairs), dtype=np.int32)
        entries = np.diff(merged.entry_ptr)[numbers]
        _check_entries(sources.texts[name], entries)
        corpus = encoded_corpus(pairs, words, numbers)
        if not any(pair.source.words for pair in pairs):
            ptr = text_ptr[starts[name] : starts[name] + len(pairs) + 1]
            corpus = corpus._replace(source_ptr=ptr - ptr[0], source=text[ptr[0] : ptr[-1]])
        ptr = text_ptr[starts[name] :][: min(len(pairs), SAMPLE) + 1]
        first_entries = [words.decode(text[a:b]) for a, b in pairwise(ptr.tolist())]
        references = [reference for pair in pairs[:SAMPLE] for reference in pair.references]
        warn_of_other_words(sources.texts[name].lists, first_entries, references)
        arrays |= add_prefix(name, corpus._asdict())
    _check_scales(files, compiler.scales())
    return arrays | add_prefix("lists", compiler.compile(merged)) | Names.of(words.words).as_arrays("words")


def _complete(
    scores: ScoreFiles,
    text_features: TextFeatures,
    tokenize: Callable[[list[str]], list[str]],
    pairs: Sequence[SentencePair],
    entry: Entry,
    path: Path,
) -> None:
    """Add the features of ``entry``, then tokenise its words."""
    scores.add_to(entry, path)
    text_features.add_to(entry, path, pairs[entry.sentence].source.words if entry.sentence < len(pairs) else ())
    entry.words[:] = tokenize(entry.words)


def _check_scales(files: Sequence[Path], scales: Mapping[str, float]) -> None:
    """Warn of features that are much larger than the others; ``scales``: the root mean square of each."""
    sizes = list(scales.values())
    # For a large one, the median of the others is that of all but the largest.
    others = float(np.median(sorted(sizes)[:-1])) if len(sizes) > 1 else 0.0
    for name, size in scales.items():
        if size > LARGE * others > 0:
            LOG.warning(
                "%s: values of %s are %.0f times as large as those of other features (%.3g and %.3g): divide them",
                ", ".join(map(str, files)),
                name,
                size / others,
                size,
                others,
            )


def _check_entries(texts: Texts, entries: np.ndarray) -> None:
    """Raise DataError if no sentence has an entry, warn if some have none; ``entries``: int64 [sentences]."""
    files, empty = ", ".join(map(str, texts.lists)), int((entries == 0).sum())
    if empty == len(entries):
        raise DataError(f"{files}: found no entries, expected a list for each sentence")
    if empty:
        LOG.warning(
            "%s: %d of %d sentences have no list, such as number %d: they count as translated to nothing",
            files,
            empty,
            len(entries),
            int(np.argmin(entries)),
        )
