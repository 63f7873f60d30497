"""Format and number of translations; the module imports nothing, as the command line reads it."""

from __future__ import annotations

from typing import Literal

KbestFormat = Literal["text", "cdec", "moses", "json"]
"""``--format``, implemented by `mpitune.decoder.kbest_formats.FORMATS`; the first is the default."""

MAX_SIZE = 1_000_000
"""Upper limit of keys and options that determine the size of arrays: a larger value is a typing error."""
