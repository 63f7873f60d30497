"""Grammars from a word-aligned bitext: the bitext compiled once, then extraction spread over the ranks.

bitext.h5   texts, links, suffix array and lexical counts, memory-mapped: the ranks of a machine share one copy
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mpitune.corpus.aligned import AlignedFiles
from mpitune.corpus.store import open_arrays, write_arrays
from mpitune.corpus.symbols import Names, Vocabulary
from mpitune.corpus.text import lines, split_words
from mpitune.errors import DataError
from mpitune.grammar.bitext import compile_bitext, from_arrays, to_arrays
from mpitune.grammar.extract import Extracted, Extractor
from mpitune.grammar.rule_lines import rule_lines


def store_bitext(files: AlignedFiles, file: Path) -> int:
    """Compile a bitext into ``file``; returns how many pairs it has.

    Raises DataError for bad files, and where there are no pairs at all.
    """
    words = Vocabulary()
    pairs = list(files.read())
    if not pairs:
        raise DataError.at(files.source, None, found="no sentences", expected="a bitext")
    arrays = to_arrays(compile_bitext(pairs, words))
    names = Names.of(words.words)
    write_arrays(file, {**arrays, "words.text": names.text, "words.ptr": names.ptr}, {})
    return len(pairs)


class Extraction:
    """Extracts from a stored bitext, by words."""

    def __init__(self, file: Path) -> None:
        """``file``: what `store_bitext` wrote. Raises DataError where it is damaged or missing."""
        arrays = open_arrays(file)
        self._names = Names(arrays.pop("words.text"), arrays.pop("words.ptr"))
        self._number = {word: number for number, word in enumerate(self._names.all())}
        self._extractor = Extractor(from_arrays(arrays))

    def rules(self, words: Sequence[str], without: int | None = None) -> Extracted:
        """The rules for ``words``; pair ``without`` of the bitext left out (leave-one-out)."""
        known = np.array([self._number.get(word, -1) for word in words], dtype=np.int32)
        return self._extractor.grammar(known, -1 if without is None else without)

    def lines(self, extracted: Extracted) -> bytes:
        """The lines of a grammar file."""
        return rule_lines(extracted, self._names)


def read_inputs(file: Path) -> list[tuple[list[str], str]]:
    """The words of each line, and what stands after them from ``|||`` on (references).

    Raises DataError for a bad line, and where a sentence has a grammar already.
    """
    found = []
    for number, line in lines(file):
        source, separator, rest = line.partition(" |||")
        if "<seg" in source:
            raise DataError.at(
                file, number, found="a <seg> tag", expected="words alone: the grammar is to be extracted"
            )
        found.append((split_words(source), f"{separator}{rest}"))
    return found


def check_same(files: AlignedFiles, sentences: Sequence[Sequence[str]], file: Path) -> None:
    """Raise DataError unless the ``sentences`` of ``file`` are the first ones of the bitext."""
    pairs = files.read()
    for number, words in enumerate(sentences, start=1):
        pair = next(pairs, None)
        if pair is None or pair[0] != list(words):
            found = "another sentence" if pair else "more sentences"
            expected = (
                f"that of {files.source}:{number}: leaving one out needs the bitext's own sentences, from the first"
            )
            raise DataError.at(file, number, found=found, expected=expected)
