"""The line protocol of ``cdec --mr_mira_compat``: segments with weight deltas, k-best lists with feature vectors.

A feature vector is the base64 encoding of records: a name, a NUL byte, an 8-byte little-endian double. Features of
value 0 are absent.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from mpitune.corpus.text import split_words

_VALUE = struct.Struct("<d")
_LAST_BYTE = {0x0: 0x00, 0x3: 0x3F, 0x4: 0x40, 0x8: 0x80, 0xB: 0xBF, 0xC: 0xC0}
"""Last byte of a double given its high nibble: right for 0 and for magnitudes from 2^-15 to 2^17."""


class BadAnswer(Exception):
    """A line that is not valid in an answer."""


class Entry(NamedTuple):
    """One k-best entry."""

    words: list[str]
    features: dict[bytes, float]
    """Values by name (UTF-8), in the order of the answer."""
    score: float
    """Model score as printed, with 6 digits."""
    guessed: bytes | None
    """Name of the feature whose value arrived without its last four bits, which were guessed; see `decode`."""


def segment(number: int, words: Iterable[str], grammar: Path | None, delta: Iterable[tuple[str, float]]) -> str:
    """The request to translate ``words`` after adding ``delta`` to the decoder's weights."""
    record = encode(delta)
    attributes = f' grammar="{grammar}"' if grammar is not None else ""
    attributes += f' delta="{record}"' if record else ""
    return f'<seg id="{number}"{attributes}>{" ".join(words)}</seg>'


def entry(line: str, number: int) -> Entry:
    """The k-best entry in ``line``, for the sentence ``number``. Raises BadAnswer."""
    fields = line.split(" ||| ")
    try:
        id_, _, text, record, score = fields
        if int(id_) != number:
            raise ValueError
        features, guessed = decode(record)
        return Entry(split_words(text), features, float(score), guessed)
    except (ValueError, struct.error):
        expected = f"'{number} ||| source length ||| translation ||| base64 ||| score'"
        raise BadAnswer(f"answered {line[:80]!r}, expected {expected}") from None


def encode(features: Iterable[tuple[str, float]]) -> str:
    """The base64 encoding of names and values."""
    return base64.b64encode(b"".join(name.encode() + b"\0" + _VALUE.pack(value) for name, value in features)).decode()


def decode(record: str) -> tuple[dict[bytes, float], bytes | None]:
    """Values by name, and the name of the last one if four of its bits had to be guessed, else None.

    If the number of bytes is 2 mod 3, cdec ends its base64 with ``==`` in place of ``=``, and so loses the low nibble
    of the last byte. Raises ValueError for an invalid record.
    """
    text = record.rstrip("=")
    data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    features: dict[bytes, float] = {}
    place = 0
    while place < len(data):
        end = data.index(b"\0", place)
        name, place = data[place:end], end + 9
        if place == len(data) + 1 and record.endswith("=="):
            return features | {name: _VALUE.unpack(data[end + 1 :] + bytes([_last_byte(text)]))[0]}, name
        features[name] = _VALUE.unpack_from(data, end + 1)[0]
    return features, None


def completions(value: float) -> list[float]:
    """The 16 possible values of a double whose last four bits were lost."""
    *rest, last = _VALUE.pack(value)
    return [_VALUE.unpack(bytes([*rest, last & 0xF0 | low]))[0] for low in range(16)]


def _last_byte(text: str) -> int:
    """The last byte of the data, given base64 ``text`` whose last character has only its high nibble."""
    high = base64.b64decode(f"{text[-2:]}A=")[1] >> 4
    return _LAST_BYTE.get(high, high << 4)
