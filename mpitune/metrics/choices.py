"""Names that select a significance test or a tokenizer.

The module imports nothing: the command line reads it before any work starts.
"""

from __future__ import annotations

from typing import Literal

SignificanceTest = Literal["ar", "bootstrap"]
"""Approximate randomisation (Noreen 1989), paired bootstrap resampling (Koehn 2004)."""

Tokenizer = Literal["none", "13a", "zh", "ja-mecab", "flores200"]
"""``none`` for text that is tokenised already (the default), ``13a`` (mteval-v13a) for detokenised text; Chinese,
Japanese, and the parts of words of FLORES-200."""
