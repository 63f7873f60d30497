"""Formats of k-best lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mpitune.corpus.feature_table import FeatureTable
from mpitune.decoder.base import KBest
from mpitune.decoder.choices import KbestFormat


def text(numbers: np.ndarray, words: Sequence[str]) -> str:
    """The sentence whose words have the ``numbers`` (int32)."""
    return " ".join([words[word] for word in numbers.tolist()])


def plain_lines(number: int, kbest: KBest, words: Sequence[str], features: FeatureTable) -> list[str]:
    """The best translation on one line."""
    return [text(kbest.translation(0), words)]


def cdec_lines(number: int, kbest: KBest, words: Sequence[str], features: FeatureTable) -> list[str]:
    """A k-best list as cdec writes it: ``0 ||| translation ||| name=value ... ||| score``."""
    return _kbest_lines(number, kbest, words, features, "=")


def moses_lines(number: int, kbest: KBest, words: Sequence[str], features: FeatureTable) -> list[str]:
    """A k-best list as Moses writes it: ``0 ||| translation ||| name= value ... ||| score``."""
    return _kbest_lines(number, kbest, words, features, "= ")


def json_lines(number: int, kbest: KBest, words: Sequence[str], features: FeatureTable) -> list[str]:
    """A k-best list as objects: ``{"id": 0, "text": "translation", "features": {"name": value}, "score": score}``."""
    lines = []
    for j in range(kbest.size):
        values = {name: float(_number(value)) for name, value in _features(kbest, j, features)}
        score = float(_number(kbest.score[j]))
        entry = {"id": number, "text": text(kbest.translation(j), words), "features": values, "score": score}
        lines.append(json.dumps(entry, ensure_ascii=False))
    return lines


FORMATS: dict[KbestFormat, Callable[[int, KBest, Sequence[str], FeatureTable], list[str]]] = {
    "text": plain_lines,
    "cdec": cdec_lines,
    "moses": moses_lines,
    "json": json_lines,
}
"""Formats of k-best lists by the name on the command line."""


def _kbest_lines(number: int, kbest: KBest, words: Sequence[str], features: FeatureTable, equals: str) -> list[str]:
    lines = []
    for j in range(kbest.size):
        values = " ".join([f"{name}{equals}{_number(value)}" for name, value in _features(kbest, j, features)])
        lines.append(f"{number} ||| {text(kbest.translation(j), words)} ||| {values} ||| {_number(kbest.score[j])}")
    return lines


def _features(kbest: KBest, j: int, features: FeatureTable) -> Iterator[tuple[str, float]]:
    """Names and values other than 0 of the features of entry ``j``."""
    row = slice(kbest.feature_ptr[j], kbest.feature_ptr[j + 1])
    pairs = zip(kbest.feature_index[row].tolist(), kbest.feature_value[row].tolist(), strict=True)
    return ((features.name(slot), value) for slot, value in pairs if value != 0.0)


def _number(value: float) -> str:
    return np.format_float_positional(value, precision=9, trim="-", fractional=False)
