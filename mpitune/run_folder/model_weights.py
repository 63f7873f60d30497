"""A look into a model: its largest weights, some of them, or what tells it from another."""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mpitune.corpus.weights import read_weights
from mpitune.errors import UsageError
from mpitune.run_folder.checkpoint import read_checkpoint
from mpitune.run_folder.layout import RunFolder

PREFIXES = {
    "id": "R:",
    "source-bigram": "RBS:",
    "target-bigram": "RBT:",
    "shape": "Shape_",
    "word-pair": "WP:",
    "insertion": "INS:",
    "target-words": "TB:",
}
"""What the names of a template's features begin with."""


def read_model(path: Path) -> dict[str, float]:
    """The weights of a run folder, a checkpoint or a weights file.

    Raises UsageError for a run folder that has no weights yet, DataError for a damaged file.
    """
    if path.is_dir():
        result = RunFolder(path).result
        if not result.exists():
            raise UsageError(f"{path}: found no {result.name}, expected a run folder with at least one epoch done")
        return read_weights(result)
    if path.suffix == ".h5":
        checkpoint = read_checkpoint(path)
        return dict(zip(checkpoint.names, checkpoint.weights[1].tolist(), strict=True))
    return read_weights(path)


def difference(weights: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """``weights`` - ``other``, where that is not 0."""
    names = weights.keys() | other.keys()
    changed = {name: weights.get(name, 0.0) - other.get(name, 0.0) for name in names}
    return {name: value for name, value in changed.items() if value != 0.0}


def template_of(name: str) -> str:
    """The template that the feature ``name`` is of; ``dense`` for what no template fires."""
    return next((template for template, prefix in PREFIXES.items() if name.startswith(prefix)), "dense")


def largest_by_template(names: Sequence[str], sizes: np.ndarray, top: int) -> dict[str, list[tuple[str, float]]]:
    """By template, the ``top`` features of largest size, largest first; those of size 0 do not count.

    ``sizes``: float64 [n], of the features ``names``.
    """
    found: dict[str, list[tuple[str, float]]] = {}
    order = np.argsort(-sizes, kind="stable")
    for place in order[: np.count_nonzero(sizes > 0)].tolist():
        of_template = found.setdefault(template_of(names[place]), [])
        if len(of_template) < top:
            of_template.append((names[place], float(sizes[place])))
    return found


def filtered(weights: Mapping[str, float], template: str | None, text: str | None) -> dict[str, float]:
    """The weights of ``template``'s features (``dense``: of no template's) whose names hold ``text``; None = all."""

    def fits(name: str) -> bool:
        return (template is None or template_of(name) == template) and (text is None or text in name)

    return {name: value for name, value in weights.items() if fits(name)}


def nearest(weights: Mapping[str, float], text: str, top: int) -> list[tuple[str, float]]:
    """The ``top`` rules nearest to ``text`` (words of either side, or a name), nearest first, with their weights.

    Nearness is Dice's coefficient of the sets of three letters in a row; of equally near ones, the larger weights come
    first. Those that share nothing with it are left out.
    """
    wanted = _letters(text)
    near = []
    for name, value in weights.items():
        if name.startswith(PREFIXES["id"]):
            letters = _letters(name)
            if shared := len(wanted & letters):
                near.append((-2 * shared / (len(wanted) + len(letters)), -abs(value), name))
    return [(name, weights[name]) for _, _, name in heapq.nsmallest(top, near)]


def _letters(text: str) -> set[str]:
    """Three letters in a row, words apart; what a rule's name begins with does not count, nor do its gaps."""
    name = re.fullmatch(r"R:[^:]+:(.*)", text)
    words = re.split(r"[\s_:]+", name[1] if name else text)
    spaced = [f" {word.lower()} " for word in words if word and not re.fullmatch(r"N[A-Z]\w*|N\d", word)]
    return {word[i : i + 3] for word in spaced for i in range(len(word) - 2)}


def largest(weights: Mapping[str, float], top: int | None) -> list[tuple[str, float]]:
    """The ``top`` weights of largest absolute value (None: all), largest first, then by name."""
    return sorted(weights.items(), key=lambda pair: (-abs(pair[1]), pair[0]))[:top]
