"""Estimates of the time and the disk that the files of a store take, made before they are built.

They come from the sizes of the inputs and from rates measured on one core (Europarl, tests/bench/README.md).
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from mpitune.corpus.wording import clock
from mpitune.errors import MachineError
from mpitune.files import free_space, open_regular, size_of
from mpitune.lm.arpa import ngram_counts, stored_bytes
from mpitune.lm.kenlm import is_kenlm

LOG = logging.getLogger(__name__)

SHORT = 10.0
"""Seconds of work that need no announcement."""
_SECONDS_PER_RULE, _BYTES_PER_RULE = 4e-6, 150
_SECONDS_PER_NGRAM = 2e-6
_EXTRACTION_SECONDS, _EXTRACTION_BYTES = 1.2e-6, 32
_COPIES = 2
"""Of extracted rules, besides the parts: the merged arrays and the file that they are written to."""
_SAMPLE = 1 << 17
"""Bytes of the largest grammar, as they are on disk, in which rules are counted."""


class Estimate(NamedTuple):
    """Of one file of a store."""

    seconds: float
    disk: int
    """Bytes, at the moment when it takes most."""


def of_grammars(files: Sequence[Path]) -> Estimate:
    """The estimate for grammar files, as many rules to a byte as where the largest one begins."""
    sizes = {file: size_of(file) for file in files}
    if not sum(sizes.values()):
        return Estimate(0.0, 0)
    with open_regular(max(sizes, key=sizes.__getitem__)) as largest:
        sample = largest.read(_SAMPLE)
    rules = sum(sizes.values()) * _text(sample).count(b"\n") / len(sample)
    return Estimate(_SECONDS_PER_RULE * rules, int(_BYTES_PER_RULE * rules))


def of_extraction(cores: int, words: int, left: float, ranks: int) -> Estimate:
    """The estimate for rules of sentences of so many ``cores`` from a bitext of so many source ``words``,
    which count once for each alignment.

    ``left``: the share of the cores whose rules are not in parts yet, in [0, 1]. The number of distinct source sides,
    and of their rules, grows with a power of the size of the text (Heaps' law); exponents and factors are those of the
    benchmark, which they fit within 10 % for 5,000 to 29,000 sentences and 29,000 to 200,000 pairs.
    """
    seconds = _EXTRACTION_SECONDS * cores**0.45 * words**0.7
    return Estimate(left * seconds / ranks, int((left + _COPIES) * _EXTRACTION_BYTES * cores**0.5 * words**0.6))


def of_lm(file: Path) -> Estimate:
    """The estimate for a language model; a KenLM binary is mapped as it is. Raises DataError for a bad header."""
    if is_kenlm(file):
        return Estimate(0.0, 0)
    counts = ngram_counts(file)
    return Estimate(_SECONDS_PER_NGRAM * sum(counts), stored_bytes(counts))


def announce(folder: Path, estimates: Iterable[Estimate]) -> None:
    """Log how long it takes to build files in ``folder``, unless it is `SHORT`.

    Raises MachineError if its disk is too small for them.
    """
    estimates = list(estimates)
    seconds, needed = sum(each.seconds for each in estimates), sum(each.disk for each in estimates)
    free = free_space(folder)
    if needed > free:
        decimals = next(n for n in count() if _size(free, n) != _size(needed, n))
        found, expected = _size(free, decimals), _size(needed, decimals)
        raise MachineError(
            f"{folder}: found {found} of free disk, expected about {expected} for the files to be built: "
            "free some, or name another folder in run.store"
        )
    if seconds > SHORT:
        LOG.info(
            f"{folder}: building takes about {clock(seconds)} and {_size(needed)} of disk ({_size(free)} are free)"
        )


def _text(sample: bytes) -> bytes:
    """The first bytes of a file, unpacked; empty if they are damaged, which is reported when the file is read."""
    if sample[:2] != b"\x1f\x8b":
        return sample
    text = b""
    while sample:  # a file may have several members, which tools that pack in parallel write
        member = zlib.decompressobj(wbits=31)
        try:
            text += member.decompress(sample)
        except zlib.error:
            break
        sample = member.unused_data
    return text


def _size(number: int, decimals: int = 0) -> str:
    """So many bytes in words; with more ``decimals`` than sizes usually have."""
    return f"{number / 1e9:.{decimals + 1}f} GB" if number >= 1e9 else f"{number / 1e6:.{decimals}f} MB"
