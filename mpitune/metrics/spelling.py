"""Words as sequences of smaller units, such as their characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mpitune.array_files.csr import row_ends, select_rows


class Spelling:
    """The units of each word of a vocabulary, as numbers, which are found once."""

    def __init__(self, words: Sequence[str], spell: Callable[[str], Sequence[int]]) -> None:
        """``words``: the vocabulary, which may grow; ``spell``: the units of a word."""
        self._words = words
        self._spell = spell
        self._ptr = np.zeros(1, dtype=np.int64)
        self._unit = np.zeros(0, dtype=np.int32)

    def of(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The units of ``words`` (int32): int64 [words + 1], their rows (CSR), and int32."""
        if new := [self._spell(word) for word in self._words[len(self._ptr) - 1 :]]:
            self._ptr = np.append(self._ptr, self._ptr[-1] + row_ends([len(units) for units in new])[1:])
            self._unit = np.append(self._unit, np.array([unit for units in new for unit in units], dtype=np.int32))
        return select_rows(self._ptr, self._unit, words)
