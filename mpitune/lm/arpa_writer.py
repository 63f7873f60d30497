"""Writing n-gram language models in ARPA format, as lmplz (KenLM) lays them out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

_BLOCK = 1 << 16


class Level(NamedTuple):
    """The n-grams of one length, n, in the order in which they are numbered and written."""

    first: np.ndarray
    """int64 [n-grams]: their first words."""
    suffix: np.ndarray
    """int64 [n-grams]: the numbers, among the (n-1)-grams, of what follows the first word; all 0 for n = 1."""
    prob: np.ndarray
    """float32 [n-grams]: log10 probabilities, not above 0."""
    backoff: np.ndarray | None
    """float32 [n-grams]: log10 backoffs; None for the longest n-grams."""


def write_arpa(file: BinaryIO, words: Sequence[str], levels: Sequence[Level], tell: Callable[[str], None]) -> None:
    """Write a model of ``levels``, those of 1-grams, 2-grams ..., over ``words``, the text of each word.

    ``tell`` is given a line about the progress for each level.
    """
    counts = (f"ngram {n}={len(level.prob)}\n" for n, level in enumerate(levels, start=1))
    file.write(("\\data\\\n" + "".join(counts)).encode())
    for n, level in enumerate(levels, start=1):
        tell(f"writing {len(level.prob)} {n}-grams")
        file.write(f"\n\\{n}-grams:\n".encode())
        for begin in range(0, len(level.prob), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            fields = [_numbers(level.prob[block]), _texts(words, levels[:n], block)]
            if level.backoff is not None:
                fields.append(_numbers(level.backoff[block]))
            file.write("".join(f"{line}\n" for line in map("\t".join, zip(*fields, strict=True))).encode())
    file.write(b"\n\\end\\\n")


def _numbers(values: np.ndarray) -> list[str]:
    """Float32 values in the fewest digits that give them back."""
    # Adding 0 turns -0.0 into 0.0.
    return [str(value).removesuffix(".0") for value in values + np.float32(0)]


def _texts(words: Sequence[str], levels: Sequence[Level], block: slice) -> list[str]:
    """The n-grams of a block of the last level, read off word by word."""
    columns = [levels[-1].first[block]]
    number = levels[-1].suffix[block]
    for level in levels[-2::-1]:
        columns.append(level.first[number])
        number = level.suffix[number]
    return list(map(" ".join, zip(*([words[w] for w in column.tolist()] for column in columns), strict=True)))
