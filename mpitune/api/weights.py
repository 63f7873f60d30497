"""The public weights of a model, by the names of its features."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from math import fsum
from pathlib import Path
from typing import Any, Self

import numpy as np

from mpitune.api.call import alone
from mpitune.corpus.weights import export_weights
from mpitune.files import writing
from mpitune.ownership import replaces
from mpitune.run_folder import model_weights


class Weights(Mapping[str, float]):
    """A weight for each feature; a feature that is not there has the weight 0 in all arithmetic.

    >>> weights = Weights({"Glue": 2.0, "WordPenalty": -1.0, "R:X:das:the": 0.5})
    >>> weights["Glue"], weights.sparse.top(1), (weights - weights.dense).top(5)
    (2.0, [('R:X:das:the', 0.5)], [('R:X:das:the', 0.5)])
    >>> (0.5 * (weights + {"Glue": 1.0}))["Glue"], weights.score({"Glue": 3.0, "WordPenalty": 4.0})
    (1.5, 2.0)
    """

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self._by_name = {} if weights is None else {str(name): float(value) for name, value in weights.items()}

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """The weights of a run folder, a checkpoint, or a file of ``name value`` lines.

        Raises DataError for missing or damaged weights, UsageError for a folder with runs of several seeds.
        """
        return cls(model_weights.read_model(Path(path)))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a line ``name value`` for each feature (.json: an object; .ini: for a moses.ini; .gz: gzipped).

        Raises UsageError if the file cannot be written, or belongs to a run.
        """
        path = Path(path)
        with alone(), writing(path):
            replaces(path)
            export_weights(path, sorted(self.items()))

    def __getitem__(self, name: str) -> float:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def dense(self) -> Self:
        """The weights of features of no template."""
        return self.of_template("dense")

    @property
    def sparse(self) -> Self:
        """The weights of features that templates name."""
        dense = self.dense
        return type(self)({name: value for name, value in self.items() if name not in dense})

    def of_template(self, template: str) -> Self:
        """The weights of the features of one template, or of ``dense`` ones. Raises KeyError for an unknown name."""
        return type(self)(model_weights.by_template(self)[template])

    def top(self, n: int | None = None, *, template: str | None = None) -> list[tuple[str, float]]:
        """The ``n`` weights of largest absolute value (None: all), largest first; those of a ``template`` alone."""
        return model_weights.largest(self if template is None else self.of_template(template), n)

    def near(self, text: str, n: int = 10) -> list[tuple[str, float]]:
        """The ``n`` rules most similar to ``text`` by common sequences of three letters, with their weights."""
        return model_weights.nearest(self, text, n)

    def arrays(self) -> tuple[list[str], np.ndarray]:
        """The names, and their weights as float64 [n]."""
        return list(self), np.array(list(self.values()), dtype=np.float64)

    def score(self, features: Mapping[str, float]) -> float:
        """The product with a vector of features, rounded once."""
        return fsum([value * self._by_name[name] for name, value in features.items() if name in self._by_name])

    def __add__(self, other: Mapping[str, float]) -> Self:
        return self._combined(other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Self:
        # `sum` begins with 0.
        return type(self)(self) if other == 0 else self + other

    def __sub__(self, other: Mapping[str, float]) -> Self:
        return self._combined(other, lambda a, b: a - b)

    def __mul__(self, factor: float) -> Self:
        return type(self)({name: factor * value for name, value in self.items()})

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Self:
        return type(self)({name: value / divisor for name, value in self.items()})

    def __neg__(self) -> Self:
        return -1.0 * self

    def _combined(self, other: Mapping[str, float], combine: Callable[[float, float], float]) -> Self:
        """By feature of either, the values combined; those that are 0 are left out."""
        names = dict.fromkeys((*self, *other))
        values = {name: combine(self.get(name, 0.0), other.get(name, 0.0)) for name in names}
        return type(self)({name: value for name, value in values.items() if value != 0.0})

    def __repr__(self) -> str:
        largest = ", ".join(f"{name}: {value:.4g}" for name, value in self.top(3))
        return f"<mpitune.Weights of {len(self)} features; {largest}{', ...' if len(self) > 3 else ''}>"
