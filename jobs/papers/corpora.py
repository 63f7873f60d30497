"""The corpora of the scripts of this folder, from corpora.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Corpus:
    """A section of corpora.toml."""

    name: str
    languages: tuple[str, str]
    """Source and target, as the texts' names have them."""
    dev: str
    """The job, in jobs/, that tunes on the development set."""
    train: str
    """The job that tunes on the training set."""
    tests: tuple[str, ...]
    """Names of the texts to be translated."""
    sizes: tuple[int, ...]
    """Numbers of training sentences to be tuned on for the figure, in ascending order."""
    tabulated: tuple[int, ...]
    """Some of them, for the table: all algorithms are run on the first, algorithm 4 on the others, too."""
    other_domain: tuple[str, str] | None = None
    """Texts of another domain: one to be tuned on, and one that selects the epoch."""


@cache
def corpora() -> dict[str, Corpus]:
    """All corpora by name."""
    sections = tomllib.loads(Path(__file__).with_name("corpora.toml").read_text(encoding="utf-8"))
    return {
        name: Corpus(name, **{key: tuple(value) if isinstance(value, list) else value for key, value in keys.items()})
        for name, keys in sections.items()
    }
