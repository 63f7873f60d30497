"""What a store is made from: texts, grammars, language models, as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.text import SentencePair, read_bitext, read_parallel
from mpitune.errors import DataError


@dataclass(frozen=True)
class Texts:
    """Sentences and their references, as files."""

    source: Path
    """Source sentences, or pairs ``source ||| reference ...`` where ``bitext`` is set."""
    references: tuple[Path, ...] = ()
    bitext: bool = False
    limit: int = 0
    """Only so many sentences from the start; 0 = all."""

    @property
    def files(self) -> list[Path]:
        return [self.source, *self.references]

    def read(self) -> list[SentencePair]:
        if self.bitext:
            return read_bitext(self.source, self.limit)
        return read_parallel(self.source, self.references, self.limit)


@dataclass(frozen=True)
class StoreInputs:
    """All files that a store is made from, and what else shapes it."""

    train: Texts | None = None
    devtest: Texts | None = None
    grammar: Path | None = None
    """One grammar for all; None where each sentence names its own."""
    templates: tuple[str, ...] = ()
    """Sparse templates, see `mpitune.grammar.templates.TEMPLATES`."""
    lms: tuple[Path, ...] = ()
    """Language models: ARPA files or KenLM binaries."""
    lm_names: tuple[str, ...] = ("LanguageModel",)
    """The features that hold their probabilities."""
    external: bool = False
    """Whether an external decoder reads grammars and language models itself: these may then be of any kind."""
    further_grammars: tuple[Path, ...] = ()
    """Grammars that an external decoder uses besides; here they only name features."""
    aligned: AlignedFiles | None = None
    """The bitext that the grammars of all sentences are extracted from."""
    leave_one_out: bool = False
    """Whether the sentences of ``train`` are those of the bitext, each to do without its own pair."""
    table_format: str = "auto"
    """The format of the grammars, see `mpitune.grammar.formats.FORMATS`; ``auto``: as a file's first line shows."""

    @property
    def texts(self) -> dict[str, Texts]:
        both = {"train": self.train, "devtest": self.devtest}
        return {name: texts for name, texts in both.items() if texts is not None}


def grammar_files(sources: StoreInputs) -> list[Path]:
    """The grammar files in the order of their numbers. Raises DataError where a sentence has none."""
    if sources.aligned is not None:
        return []
    if sources.grammar is not None:
        return [sources.grammar, *sources.further_grammars]
    named: dict[Path, None] = {}
    for texts in sources.texts.values():
        for line, pair in enumerate(texts.read(), start=1):
            if pair.source.grammar is not None:
                named[pair.source.grammar] = None
            elif pair.source.words:
                expected = "a grammar for each: this job has none for all"
                raise DataError.at(texts.source, line, found="a sentence that names no grammar", expected=expected)
    return [*named, *sources.further_grammars]
