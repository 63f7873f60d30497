"""Write n-gram language models in ARPA format, in the layout of lmplz (KenLM)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from mpitune.corpus.progress import Progress

_BLOCK = 1 << 16


class Level(NamedTuple):
    """The n-grams of one length, n, in the order of their numbers, in which they are written."""

    first: np.ndarray
    """int64 [n-grams]: their first words."""
    suffix: np.ndarray
    """int64 [n-grams]: the (n-1)-gram after the first word, by its number; all 0 for n = 1."""
    prob: np.ndarray
    """float32 [n-grams]: log10 probabilities, not above 0."""
    backoff: np.ndarray | None
    """float32 [n-grams]: log10 backoffs; None for the longest n-grams."""


def write_arpa(
    file: BinaryIO, words: Sequence[str], levels: Sequence[Level], log: Callable[[str], None], progress: Progress
) -> None:
    """Write a model: ``levels`` are the 1-grams, 2-grams and so on, ``words`` the text of each word.

    ``log`` receives a message for each level; the items of ``progress`` are n-grams.
    """
    counts = (f"ngram {n}={len(level.prob)}\n" for n, level in enumerate(levels, start=1))
    file.write(("\\data\\\n" + "".join(counts)).encode())
    for n, level in enumerate(levels, start=1):
        log(f"writing {len(level.prob)} {n}-grams")
        file.write(f"\n\\{n}-grams:\n".encode())
        for begin in range(0, len(level.prob), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            fields = [_format_numbers(level.prob[block]), _ngram_texts(words, levels[:n], block)]
            if level.backoff is not None:
                fields.append(_format_numbers(level.backoff[block]))
            file.write("".join(f"{line}\n" for line in map("\t".join, zip(*fields, strict=True))).encode())
            progress.advance(len(fields[0]))
    file.write(b"\n\\end\\\n")


def _format_numbers(values: np.ndarray) -> list[str]:
    """Format float32 values in the fewest digits that round-trip."""
    # Adding 0 turns -0.0 into 0.0.
    return [str(value).removesuffix(".0") for value in values + np.float32(0)]


def _ngram_texts(words: Sequence[str], levels: Sequence[Level], block: slice) -> list[str]:
    """Spell out the n-grams of a block of the last level: each level gives one column of words."""
    columns = [levels[-1].first[block]]
    number = levels[-1].suffix[block]
    for level in levels[-2::-1]:
        columns.append(level.first[number])
        number = level.suffix[number]
    return list(map(" ".join, zip(*([words[w] for w in column.tolist()] for column in columns), strict=True)))
