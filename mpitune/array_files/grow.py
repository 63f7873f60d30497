"""Arrays that grow with the number of features."""

from __future__ import annotations

import numpy as np


def grow_to(array: np.ndarray, size: int, value: float = 0.0) -> np.ndarray:
    """``array`` extended to ``size`` elements with ``value``; itself if it is no shorter."""
    if len(array) >= size:
        return array
    return np.concatenate([array, np.full(size - len(array), value, dtype=array.dtype)])
