"""Names that select the format of translations; the module imports nothing, as the command line reads it."""

from __future__ import annotations

from typing import Literal

KbestFormat = Literal["text", "cdec", "moses", "json"]
"""``--format``, implemented by `mpitune.decoder.kbest_formats.FORMATS`; the first is the default."""
