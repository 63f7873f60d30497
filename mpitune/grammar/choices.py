"""Names that select the templates of sparse features.

The module imports nothing: the command line and the job schema read it before any work starts.
"""

from __future__ import annotations

from typing import Literal

TemplateName = Literal[
    "id", "source-bigram", "target-bigram", "shape", "word-pair", "word-pair-all", "insertion", "target-words"
]
"""``features.templates``, implemented by `mpitune.grammar.templates.TEMPLATES`."""
