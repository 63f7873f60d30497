"""Readers of a model and its bins; queries: largest weights, weights by template or name, differences to another."""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mpitune.corpus.lines import read_text
from mpitune.corpus.weights import read_weights
from mpitune.errors import DataError, UsageError
from mpitune.files import exists, is_file, is_folder
from mpitune.grammar.score_transforms import Scoring
from mpitune.grammar.sparse import prefixes
from mpitune.run_folder.checkpoint import read_checkpoint
from mpitune.run_folder.layout import RunFolder, run_folders


def read_model(path: Path) -> dict[str, float]:
    """The weights of a run folder, a checkpoint or a weights file.

    Raises DataError for missing weights and for a damaged file, UsageError for a folder with runs of several seeds.
    """
    if not exists(path):
        raise DataError(f"{path}: found no such file or folder, expected a weights file, or a run with an epoch done")
    if is_folder(path):
        result = RunFolder(path).result
        if not exists(result):
            if (runs := run_folders(path)) != [path]:
                raise UsageError(f"{path}: found runs with several seeds, expected one of them, such as {runs[0]}")
            raise DataError(f"{path}: found no {result.name}, expected a run folder with at least one epoch done")
        return read_weights(result)
    if path.suffix == ".h5":
        return dict(read_checkpoint(path).weights.named)
    return read_weights(path)


def read_scoring(path: Path) -> Scoring | None:
    """Bins and transforms that belong to the weights at ``path``; None if there are none or they are unknown.

    ``path``: a run folder, a weights file in one, or a checkpoint anywhere; they are unknown for other weights files.
    Raises DataError for a damaged or unreadable file.
    """
    if path.suffix == ".h5" and is_file(path):
        kept = read_checkpoint(path).scoring
        return Scoring.from_json(kept) if kept else None
    folder = (path if is_folder(path) else path.parent).absolute()
    file = RunFolder(folder).scoring
    if folder.name == RunFolder(folder).weights.name and not (is_file(file) or is_file(RunFolder(folder).config)):
        file = RunFolder(folder.parent).scoring
    if not is_file(file):
        return None
    try:
        return Scoring.from_json(json.loads(read_text(file)))
    except (ValueError, KeyError, TypeError):
        raise DataError.at(file, None, found="a damaged file", expected="what a run has written there") from None


def difference(weights: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """The nonzero entries of ``weights`` - ``other``."""
    names = weights.keys() | other.keys()
    changed = {name: weights.get(name, 0.0) - other.get(name, 0.0) for name in names}
    return {name: value for name, value in changed.items() if value != 0.0}


def template_of(name: str) -> str:
    """The template of the feature ``name``; ``dense`` for features of no template."""
    return next((template for template, prefix in prefixes().items() if name.startswith(prefix)), "dense")


def largest_by_template(names: Sequence[str], sizes: np.ndarray, top: int) -> dict[str, list[tuple[str, float]]]:
    """By template, the ``top`` features of largest size, largest first; features of size 0 are left out.

    ``sizes``: float64 [n], the sizes of the features ``names``.
    """
    found: dict[str, list[tuple[str, float]]] = {}
    order = np.argsort(-sizes, kind="stable")
    for place in order[: np.count_nonzero(sizes > 0)].tolist():
        of_template = found.setdefault(template_of(names[place]), [])
        if len(of_template) < top:
            of_template.append((names[place], float(sizes[place])))
    return found


def by_template(weights: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """The weights of each template, empty where it has none; first the ``dense`` ones, of no template."""
    parts: dict[str, dict[str, float]] = {template: {} for template in ("dense", *prefixes())}
    for name, value in weights.items():
        parts[template_of(name)][name] = value
    return parts


def nearest(weights: Mapping[str, float], text: str, top: int) -> list[tuple[str, float]]:
    """The ``top`` rules most similar to ``text`` (words of either side, or a name), most similar first, with weights.

    Similarity is the Dice coefficient of the sets of character trigrams; ties go to the larger absolute weight. Rules
    without a common trigram are left out.
    """
    wanted = _trigrams(text)
    near = []
    for name, value in weights.items():
        if name.startswith(prefixes()["id"]):
            trigrams = _trigrams(name)
            if shared := len(wanted & trigrams):
                near.append((-2 * shared / (len(wanted) + len(trigrams)), -abs(value), name))
    return [(name, weights[name]) for _, _, name in heapq.nsmallest(top, near)]


def _trigrams(text: str) -> set[str]:
    """The character trigrams of each word; the prefix of a rule's name and its usual gaps are ignored."""
    name = re.fullmatch(r"R:[^:]+:(.*)", text)
    words = [word for word in re.split(r"[\s_:]+", name[1] if name else text) if word]
    spaced = [f" {word.lower()} " for word in words if not (name and re.fullmatch(r"N[XS12]", word))]
    return {word[i : i + 3] for word in spaced for i in range(len(word) - 2)}


def largest(weights: Mapping[str, float], top: int | None) -> list[tuple[str, float]]:
    """The ``top`` weights of largest absolute value (None: all), largest first, ties by name."""
    return sorted(weights.items(), key=lambda pair: (-abs(pair[1]), pair[0]))[:top]
