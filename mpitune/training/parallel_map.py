"""Parallel map over sentences by a work queue, and the formats of k-best lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import TypeVar

import numpy as np

from mpitune.corpus.feature_table import FeatureTable
from mpitune.decoder.base import KBest
from mpitune.errors import MachineError
from mpitune.exchange.comm import Comm
from mpitune.runtime.progress import progress
from mpitune.training.choices import KbestFormat

T = TypeVar("T")


def parallel_map(
    comm: Comm, count: int, work: Callable[[int], T], what: str, *, quiet: bool, at_once: int | None = None
) -> Iterator[T]:
    """Yield ``work(0)`` to ``work(count - 1)`` in order on rank 0; any free rank computes the next item.

    Other ranks yield nothing, but must exhaust the iterator. ``at_once``: approximate number of results that a rank
    collects before it sends them to rank 0 (None: all); small if results are large.
    """
    step = (at_once or count) * comm.size
    with progress(what, count, rank=comm.rank, quiet=quiet) as shown:
        for first in range(0, count, max(step, 1)):
            last = min(first + step, count)
            done = []
            with comm.work_queue() as queue:
                while (i := first + queue.next()) < last:
                    done.append((i, work(i)))
                    shown.reach(first + queue.done().items)
            parts = comm.gather(done)
            if parts is not None:
                yield from (result for _, result in sorted(chain(*parts), key=itemgetter(0)))


def check_failed(failed: int, sentences: int) -> None:
    """Raise MachineError if the decoder ``failed`` on more than 1 % of ``sentences``: then the decoder is at fault."""
    if 100 * failed > sentences:
        found = f"the decoder failed on {failed} of {sentences} sentences, more than 1 %"
        raise MachineError(f'{found}: its log tells how (jobs/migrating.md, "With cdec")')


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
