"""The notation of lists, as a job or a command tells it.

The module imports nothing that takes time: the command line reads the names of formats before any work starts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mpitune.corpus.subwords import joined
from mpitune.registry import Registry

if TYPE_CHECKING:
    from mpitune.decoder.lists.formats import Format

FORMATS: Registry[type[Format]] = Registry(
    "mpitune.decoder.lists.formats", first=("fairseq", "json-lists", "json", "table", "fields", "kaldi", "plain")
)
"""The formats by their names in ``data.format``, in the order in which a file is held against them."""


class Notation(NamedTuple):
    """The format of lists, and how their lines are to be taken."""

    format: str = "auto"
    """A name in `FORMATS`; ``auto``: the file's first lines tell."""
    nbest: int = 0
    """Number of lines of a list of `plain` text; 0: a list ends with an empty line."""
    counts: Path | None = None
    """A file with the number of lines of each list of `plain` text, instead of ``nbest``."""
    join: str = "none"
    """Of `corpus.subwords.KINDS`: marks that are taken out of hypotheses; ``none``: they stay."""
    sentences: int | None = None
    """Number of sentences, if it is known: where lists have no numbers, a file must have a list for each."""

    @property
    def has_sentences(self) -> bool:
        """True if the lists are known to bring sources and references along."""
        return self.format != "auto" and FORMATS[self.format].has_sentences

    def joined(self, text: str) -> str:
        """``text`` with the words that count."""
        return text if self.join == "none" else joined(text, self.join)


AS_FOUND = Notation()
"""Of the format that the first lines tell, every word as it stands."""
