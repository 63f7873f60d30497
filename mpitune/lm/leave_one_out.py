"""Leave-one-out language models: while a sentence is learned from, the n-grams that only it has are hidden.

A model that was estimated from the references that are tuned on knows each of them by heart. The best translations are
then those that the model likes best, and every learner trusts it more than it deserves on other text. So a reference is
left out of its model as its pair is left out of its grammar: n-grams that occur nowhere else in the model's text are
not found while the sentence is decoded, and words that do not are unknown to the model. All other n-grams keep their
probabilities and backoffs. Choice of this implementation *(ours)*.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.corpus.progress import Progress, StartProgress
from mpitune.corpus.text import kilobytes, lines, split_words
from mpitune.corpus.vocabulary import Vocabulary
from mpitune.jit import int64, kernel
from mpitune.lm.ngram_table import UNKNOWN, LanguageModel, LmVocabulary, child
from mpitune.lm.probing import key_place

COVERED = 0.99
"""Least share of a model's n-grams that a text must have for the model to have been estimated from it alone."""
_AT_ONCE = 10_000
"""Sentences whose n-grams are counted at a time."""
_NODES_AT_ONCE = 1 << 20
_HIDDEN = 0xFFFFFFFF
"""Both halves of a hidden n-gram's key: neither an empty slot nor the key of any n-gram."""


class OwnNgrams(NamedTuple):
    """The n-grams of a language model that only one of the sentences that are tuned on has."""

    ptr: np.ndarray
    """int64 [sentences + 1]: those of sentence i are ``node[ptr[i]:ptr[i + 1]]``."""
    node: np.ndarray
    """int32: nodes of the model; those of single words are the words' numbers."""
    references: np.ndarray
    """int64 [2]: how many references the model's text has, and how many there are."""

    def of(self, i: int) -> np.ndarray:
        """int32: the nodes of sentence ``i``."""
        return self.node[self.ptr[i] : self.ptr[i + 1]]


def own_ngrams(
    lm: LanguageModel,
    vocabulary: LmVocabulary,
    references: Sequence[Sequence[np.ndarray]],
    texts: Sequence[Path],
    start_progress: StartProgress,
    *,
    certain: bool,
) -> OwnNgrams:
    """The n-grams of ``lm`` that occur in its ``texts`` only in a sentence's own references, one copy of each.

    ``references``: those of each sentence, int [words] each, the model's numbers; those that are no line of ``texts``
    have none. If the texts are not ``certain`` to be the model's, all have none unless the texts have `COVERED` of its
    n-grams. Raises DataError for a text that cannot be read.
    """
    marked = [[np.array([lm.bos, *words, lm.eos], dtype=np.int32) for words in each] for each in references]
    wanted = {text.tobytes() for each in marked for text in each}
    with start_progress("kB of the language model's text read", kilobytes(texts)) as progress:
        ptr, text = _read(vocabulary, texts, progress)
    limits = zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)
    seen = wanted.intersection(text[a:b].tobytes() for a, b in limits)
    counts = _counts(lm, ptr, text, start_progress) if seen else np.zeros(0, dtype=np.int32)
    if seen and not certain and np.count_nonzero(counts[lm.words :]) < COVERED * _ngrams(lm):
        seen = set()
    own: list[np.ndarray] = []
    with start_progress("sentences without what others have", len(marked)) as progress:
        for each in marked:
            own.append(_own(lm, [text for text in each if text.tobytes() in seen], counts))
            progress.advance()
    found = [sum(text.tobytes() in seen for each in marked for text in each), sum(map(len, marked))]
    none = np.zeros(0, dtype=np.int32)
    return OwnNgrams(row_ends([len(nodes) for nodes in own]), np.concatenate([*own, none]), np.array(found))


@contextmanager
def hidden(lm: LanguageModel, node: np.ndarray) -> Iterator[None]:
    """Within the block, lookups do not find the n-grams ``node`` (int32, each once), but for single words.

    Whoever looks single words up has to take them for unknown ones. The model's arrays must be writable; where they are
    mapped, pages that are written to become private.
    """
    memory, places = _keys(lm, node[node >= lm.words])
    keys = memory[places]
    memory[places] = _HIDDEN
    try:
        yield
    finally:
        memory[places] = keys


def _read(vocabulary: LmVocabulary, texts: Sequence[Path], progress: Progress) -> tuple[np.ndarray, np.ndarray]:
    """Rows (int64) and words (int32, the model's numbers) of the sentences in ``texts``, with their ends."""
    words = Vocabulary(["<s>", "</s>"])
    tokens, ends = array("i"), array("q", [0])
    for text in texts:
        for _, line in lines(text, progress):
            tokens.append(0)
            tokens.extend(words.numbers(split_words(line)))
            tokens.append(1)
            ends.append(len(tokens))
    numbers = vocabulary.numbers(words.words)
    return np.frombuffer(ends, dtype=np.int64), numbers[np.frombuffer(tokens, dtype=np.intc)]


def _counts(lm: LanguageModel, ptr: np.ndarray, text: np.ndarray, start_progress: StartProgress) -> np.ndarray:
    """int32 [nodes]: the occurrences of each n-gram in the sentences ``text[ptr[s]:ptr[s + 1]]``."""
    counts = np.zeros(_end(lm), dtype=np.int32)
    with start_progress("sentences of the language model's text counted", len(ptr) - 1) as progress:
        for first in range(0, len(ptr) - 1, _AT_ONCE):
            part = ptr[first : first + _AT_ONCE + 1]
            _count(lm, part, text, counts)
            progress.advance(len(part) - 1)
    return counts


def _own(lm: LanguageModel, texts: Sequence[np.ndarray], counts: np.ndarray) -> np.ndarray:
    """int32: the distinct n-grams of ``texts`` that occur in them as often as in all text, ``counts``."""
    nodes = np.empty(sum(map(len, texts)) * lm.order, dtype=np.int32)
    used = 0
    for text in texts:
        used += _list_ngrams(lm, text, nodes[used:])
    found, times = np.unique(nodes[:used], return_counts=True)
    own: np.ndarray = found[counts[found] <= times]
    return own[~np.isin(own, (UNKNOWN, lm.bos, lm.eos))]


@kernel
def _count(lm: LanguageModel, ptr: np.ndarray, text: np.ndarray, counts: np.ndarray) -> None:
    """Add the occurrences of n-grams in the sentences ``text[ptr[s]:ptr[s + 1]]`` to ``counts``."""
    for s in range(len(ptr) - 1):
        for end in range(ptr[s] + 1, ptr[s + 1]):
            node = int64(text[end])
            counts[node] += 1
            begin = end - 1
            while begin >= ptr[s] and begin > end - lm.order:
                node = child(lm, node, int64(text[begin]))
                if node < 0:
                    break
                counts[node] += 1
                begin -= 1


@kernel
def _list_ngrams(lm: LanguageModel, text: np.ndarray, nodes: np.ndarray) -> int:
    """Write the nodes of the n-grams in the sentence ``text`` to ``nodes``; returns their number.

    ``text``: int32, with the ends of the sentence; ``nodes``: int32, with space for all.
    """
    used = 0
    for end in range(1, len(text)):
        node = int64(text[end])
        nodes[used] = node
        used += 1
        begin = end - 1
        while begin >= 0 and begin > end - lm.order:
            node = child(lm, node, int64(text[begin]))
            if node < 0:
                break
            nodes[used] = node
            used += 1
            begin -= 1
    return used


def _end(lm: LanguageModel) -> int:
    """One past the last node."""
    return len(lm.node) or int(lm.probing.layout[-1])


def _ngrams(lm: LanguageModel) -> int:
    """The number of n-grams of two words or more."""
    total = 0
    for first in range(lm.words, _end(lm), _NODES_AT_ONCE):
        memory, places = _keys(lm, np.arange(first, min(first + _NODES_AT_ONCE, _end(lm))))
        total += int(np.count_nonzero(memory[places].any(axis=1)))
    return total


def _keys(lm: LanguageModel, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The model's memory as uint32, and int64 [nodes, 2]: the places in it of the keys of ``node``."""
    of_node = node.astype(np.int64)
    memory, place = lm.node.view(np.uint32), 4 * of_node
    if len(lm.node) == 0:
        memory, place = lm.probing.data, key_place(lm.probing, lm.order, of_node)
    return memory, place[:, None] + np.arange(2)
