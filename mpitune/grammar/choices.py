"""Names that select the templates of sparse features.

The module imports nothing: the command line and the job schema read it before any work starts.
"""

from __future__ import annotations

from typing import Literal

TemplateName = Literal[
    "id",
    "source-bigram",
    "target-bigram",
    "shape",
    "word-pair",
    "word-pair-all",
    "insertion",
    "target-words",
    "reordering",
    "fertility",
]
"""``features.templates``, implemented by `mpitune.grammar.templates.TEMPLATES`."""
PREFIXES: dict[str, str] = {
    "id": "R:",
    "source-bigram": "RBS:",
    "target-bigram": "RBT:",
    "shape": "Shape_",
    "word-pair": "WP:",
    "word-pair-all": "WPA:",
    "insertion": "INS:",
    "target-words": "TB:",
    "reordering": "RO:",
    "fertility": "FERT:",
    "text-length": "TextLength",
    "target-ngrams": "TN:",
    "lexicon-pair": "LP:",
}
"""Prefix of the feature names of each template."""
ListTemplateName = Literal["text-length", "target-ngrams", "lexicon-pair"]
"""``features.templates`` of n-best lists, implemented by `mpitune.decoder.lists.features.TextFeatures`."""
