"""Features of a translation's text, for n-best lists: words copied from the source, repeated ones, letters.

[plugins]
modules = ["plugins/quality_words.py"]
[features]
templates = ["quality-words"]
[decoder]
backend = "lists"
"""

from collections.abc import Iterator
from itertools import pairwise

from mpitune.plugins import Hypothesis, text_template


@text_template("quality-words", "QW:", needs_source=True)
def quality_words(of: Hypothesis) -> Iterator[tuple[str, float]]:
    """Two counts, and the mean length of a word."""
    source = {word for word in of.source if word.isalpha()}
    yield "QW:copied", sum(word in source for word in of.words)
    yield "QW:repeated", sum(one == other for one, other in pairwise(of.words))
    yield "QW:letters", sum(map(len, of.words)) / (len(of.words) or 1)
