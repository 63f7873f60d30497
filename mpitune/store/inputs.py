"""The input files of a store: texts, grammars, language models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.lines import check_readable
from mpitune.corpus.text import SentencePair, Warn, read_bitext, read_parallel, read_references
from mpitune.decoder.lists.formats import read_sentences
from mpitune.decoder.lists.notation import AS_FOUND, Notation
from mpitune.errors import DataError
from mpitune.metrics.choices import Tokenizer
from mpitune.ownership import reads
from mpitune.store.bitext_inputs import EstimatedLm, MadeInput


@dataclass(frozen=True)
class Texts:
    """Sentences and their references, as files."""

    source: Path | None
    """Source sentences, or pairs ``source ||| reference ...`` where ``bitext`` is set; lists need none."""
    references: tuple[Path, ...] = ()
    bitext: bool = False
    limit: int = 0
    """Number of sentences used, from the start of the files; 0 = all."""
    lists: tuple[Path, ...] = ()
    """N-best lists of the sentences, instead of a grammar."""
    scores: Mapping[str, Path] = field(default_factory=dict)
    """Files of further features of the lists' entries, by the name of the feature."""
    notation: Notation = AS_FOUND
    """The notation of the lists."""

    @property
    def counted(self) -> bool:
        """True if a file tells the number of sentences; else lists alone do."""
        return self.source is not None or bool(self.references) or self.notation.has_sentences

    @property
    def files(self) -> list[Path]:
        files = [self.source, *self.references, *self.lists, *self.scores.values(), self.notation.counts]
        return [file for file in files if file is not None]

    @property
    def settings(self) -> dict[str, Any]:
        """All that the compiled text depends on, besides the contents of the files."""
        settings: dict[str, Any] = {"references": len(self.references), "bitext": self.bitext, "limit": self.limit}
        if len(self.references) > 1 or self.bitext:
            # Stores that were built before count empty lines as references.
            settings["empty_references"] = "missing"
        if self.lists:
            settings |= {"source": self.source is not None, "lists": len(self.lists), "scores": list(self.scores)}
        if self.notation != AS_FOUND:
            settings["notation"] = [*self.notation[:2], self.notation.counts is not None, self.notation.join]
        return settings

    def read(self, warn: Warn = lambda text: None) -> list[SentencePair]:
        """The sentences; ``warn`` is told of missing references."""
        if self.source is None and not self.references and self.notation.has_sentences:
            return read_sentences(self.lists[0], self.notation)[: self.limit or None]
        if self.source is None:
            return read_references(self.references, self.limit, warn)
        if self.bitext:
            return read_bitext(self.source, self.limit, warn)
        return read_parallel(self.source, self.references, self.limit, warn)


@dataclass(frozen=True)
class StoreInputs:
    """The input files of a store, and the settings that it depends on."""

    train: Texts | None = None
    devtest: Texts | None = None
    grammar: Path | None = None
    """One grammar for all sentences; None if each sentence names its grammar."""
    templates: tuple[str, ...] = ()
    """Sparse feature templates, see `mpitune.grammar.templates.TEMPLATES`; of lists, see `TextFeatures`."""
    lexicon: Path | None = None
    """Pairs of words for the templates of lists."""
    metrics: tuple[str, ...] = ()
    """Metrics that come with lists."""
    tokenize: Tokenizer = "none"
    """The tokeniser of lists and of their references."""
    lms: tuple[Path, ...] = ()
    """Language models: ARPA files or KenLM binaries; of those in ``estimated``, the files in the store."""
    estimated: Mapping[int, EstimatedLm] = field(default_factory=dict)
    """By their numbers, the language models that are estimated into the store."""
    lm_texts: tuple[tuple[Path, ...] | None, ...] = ()
    """The texts that each language model was estimated from, () if they are not known. None: none is left out of it."""
    likely_texts: tuple[tuple[Path, ...], ...] = ()
    """Texts that a language model whose texts are not known may have been estimated from."""
    lm_names: tuple[str, ...] = ("LanguageModel",)
    """The dense features of the language models' log probabilities."""
    external: bool = False
    """True if an external decoder reads grammars and language models: these may then be of any format."""
    grammar_folder: Path | None = None
    """Folder, besides that of each text, that the grammars which its sentences name may lie in."""
    further_grammars: tuple[Path, ...] = ()
    """Further grammars of an external decoder; the store takes only the feature names from them."""
    aligned: AlignedFiles | None = None
    """Bitext from which a grammar is extracted for each sentence."""
    leave_one_out: bool | None = False
    """True if the sentences of ``train`` are the first ones of the bitext; extraction for one leaves out its own pair.
    None: those that are pairs of the bitext are searched for, see `mpitune.store.leave_one_out`."""
    max_translations: int = 0
    """Number of rules that a source side of an extracted grammar keeps when it is opened; 0: all."""
    table_format: str = "auto"
    """The format of the grammars, see `mpitune.grammar.formats.FORMATS`; ``auto``: detected from the first line."""
    made: tuple[MadeInput, ...] = ()
    """The files that are made from others, in this order."""

    @property
    def from_lists(self) -> bool:
        """True if the store holds n-best lists instead of grammars."""
        return any(texts.lists for texts in self.texts.values())

    @property
    def texts(self) -> dict[str, Texts]:
        both = {"train": self.train, "devtest": self.devtest}
        return {name: texts for name, texts in both.items() if texts is not None}

    @property
    def made_inputs(self) -> list[MadeInput]:
        """All that is made from other files, in this order."""
        return [*self.made, *self.estimated.values()]

    @property
    def files(self) -> list[Path]:
        """The files that are given, without the grammars that sentences name."""
        texts = [file for texts in self.texts.values() for file in texts.files]
        grammars = [*([self.grammar] if self.grammar else []), *self.further_grammars]
        files = [*texts, *grammars, *self.lms, *(self.aligned.files if self.aligned else [])]
        files += [file for of_lm in self.lm_texts if of_lm for file in of_lm]
        files += [self.lexicon] if self.lexicon else []
        files += [file for each in self.made_inputs for file in each.inputs]
        outputs = {file for each in self.made_inputs for file in each.outputs}
        return [file for file in files if file not in outputs]

    def leaves_sentences_out(self, n: int) -> bool:
        """True if sentences of ``train`` may be left out of language model ``n`` (`lm.leave_one_out`)."""
        known = n < len(self.lm_texts) and self.lm_texts[n] is not None
        return known and self.train is not None and not self.external


def check_files(sources: StoreInputs) -> None:
    """Raise DataError for a file that cannot be read: before the minutes that the reading of others may take."""
    for file in sources.files:
        check_readable(file)


def grammar_files(sources: StoreInputs) -> list[Path]:
    """The grammar files in the order of their numbers.

    Raises DataError for a sentence without a grammar, or with one outside the folders for grammars.
    """
    if sources.aligned is not None or sources.from_lists:
        return []
    if sources.grammar is not None:
        return [sources.grammar, *sources.further_grammars]
    named: dict[Path, None] = {}
    for texts in sources.texts.values():
        for line, pair in enumerate(texts.read(), start=1):
            if pair.source.grammar is not None:
                _check_place(texts.files[0], line, pair.source.grammar, sources.grammar_folder)
                named[pair.source.grammar] = None
            elif pair.source.words:
                expected = "a grammar for each sentence, as the job has none for all"
                raise DataError.at(texts.files[0], line, found="a sentence that names no grammar", expected=expected)
    reads(named)
    return [*named, *sources.further_grammars]


def _check_place(source: Path, line: int, grammar: Path, folder: Path | None) -> None:
    """Raise DataError unless ``grammar`` lies below the folder of ``source``, the text that names it, or ``folder``."""
    places = [source.parent, *([folder] if folder is not None else [])]
    if not any(Path(os.path.abspath(grammar)).is_relative_to(os.path.abspath(place)) for place in places):
        expected = f"one below {' or '.join(map(str, places))}, or a wider grammar.folder"
        raise DataError.at(source, line, found=f"the grammar {grammar}", expected=expected)
