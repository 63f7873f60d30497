"""The shard store: data, grammars and language models of a job as memory-mapped arrays, built by `mpitune.store.build`.

data.h5                   words, rules or n-best lists, corpora
bitext.h5                 a compiled word-aligned bitext, the input of grammar extraction
features-<templates>.h5   the sparse features that the templates fire on the rules
lm-<n>.h5                 a language model; for a KenLM binary, which is mapped in place, its size only
lm-<n>-external.h5        the fingerprint of a language model that an external decoder reads
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpitune.array_files.arrays import damaged, read_attributes, with_prefix
from mpitune.array_files.checked import open_checked
from mpitune.array_files.csr import row_ends
from mpitune.corpus.text import Fingerprint, SentencePair
from mpitune.corpus.vocabulary import Names, Vocabulary, feature_id
from mpitune.decoder.base import Sentence, TranslationModel
from mpitune.decoder.lists.model import ListModel, open_model
from mpitune.grammar.extracted import ExtractedGrammars
from mpitune.grammar.grammars import ListedGrammars
from mpitune.grammar.rules import RuleTypes
from mpitune.grammar.score_transforms import Scoring, make_plan
from mpitune.grammar.templates import Rule, RuleFeatures, as_symbols
from mpitune.lm.kenlm import open_kenlm
from mpitune.lm.ngram_table import LanguageModel, LmVocabulary, language_model
from mpitune.store.inputs import StoreInputs
from mpitune.store.structure import check_data, check_features, check_lists, check_lm

DATA = "data.h5"
BITEXT = "bitext.h5"
_PIECE = 1 << 20
"""Entries searched at a time."""


class Corpus(NamedTuple):
    """Sentences and their references as numbers of words."""

    source_ptr: np.ndarray
    """int64 [n + 1]: sentence i is ``source[source_ptr[i]:source_ptr[i + 1]]``."""
    source: np.ndarray
    """int32."""
    grammar: np.ndarray
    """int32 [n]: the number of each sentence's grammar, or of its n-best list."""
    first_reference: np.ndarray
    """int64 [n + 1]: the references of sentence i are ``first_reference[i]`` to ``first_reference[i + 1]``."""
    reference_ptr: np.ndarray
    """int64 [references + 1]."""
    reference: np.ndarray
    """int32."""

    @property
    def size(self) -> int:
        """n: the number of sentences."""
        return len(self.grammar)

    def sentence(self, i: int) -> Sentence:
        """Sentence ``i`` as the input of a decoder."""
        return Sentence(i, self.source[self.source_ptr[i] : self.source_ptr[i + 1]], int(self.grammar[i]))

    def references(self, i: int) -> list[np.ndarray]:
        """int32 each: the references of sentence ``i``."""
        ptr = self.reference_ptr[self.first_reference[i] : self.first_reference[i + 1] + 1].tolist()
        return [self.reference[a:b] for a, b in zip(ptr[:-1], ptr[1:], strict=True)]


def encoded_corpus(pairs: Sequence[SentencePair], words: Vocabulary, grammar: np.ndarray) -> Corpus:
    """The arrays of ``pairs``, whose words are added to ``words``; ``grammar``: int32 [n], their grammars or lists."""
    references = [reference for pair in pairs for reference in pair.references]
    source_ptr, source = _encoded_rows([pair.source.words for pair in pairs], words)
    reference_ptr, reference = _encoded_rows(references, words)
    first_reference = row_ends([len(pair.references) for pair in pairs])
    return Corpus(source_ptr, source, grammar, first_reference, reference_ptr, reference)


def _encoded_rows(sentences: Sequence[list[str]], words: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """``ptr`` (int64) and ``flat`` (int32) of the sentences as numbers of words."""
    ptr = row_ends([len(sentence) for sentence in sentences])
    return ptr, words.encode([word for sentence in sentences for word in sentence])


@dataclass(frozen=True)
class Store:
    """An opened store; its arrays are views of the mapped files."""

    model: TranslationModel | ListModel
    train: Corpus | None
    devtest: Corpus | None
    scoring: Scoring | None = None
    """The transformation of the grammars' scores; None: unchanged."""


def features_name(templates: Sequence[str]) -> str:
    """The name of the file of the features that ``templates`` fire."""
    return f"features-{'+'.join(templates) or 'none'}.h5"


def lm_name(n: int, external: bool = False) -> str:
    """The name of the file of language model ``n``; ``external``: an external decoder reads the model."""
    return f"lm-{n}-external.h5" if external else f"lm-{n}.h5"


def content_digests(sources: StoreInputs, folder: Path) -> dict[str, str]:
    """Digests of the contents of the files that `build_store` read, by the job's part that names them."""
    digests = {"files of [data] and [grammar]": content_digest(folder / DATA)}
    lms = {f"lm.{n}.file": folder / lm_name(n, sources.external) for n in range(len(sources.lms))}
    return digests | {name: content_digest(file) for name, file in lms.items()}


def content_digest(file: Path) -> str:
    """A digest of the contents of a store file's inputs; it does not depend on their paths and times."""
    return inputs_digest((read_attributes(file) or {})["inputs"])


def inputs_digest(inputs: Mapping[str, Any]) -> str:
    """The digest of the attribute ``inputs`` of a store file: fingerprints of ``files``, and settings (``shape``)."""
    content_digests = [Fingerprint(*old).digest for old in inputs["files"]]
    return hashlib.blake2b(json.dumps([content_digests, inputs["shape"]]).encode(), digest_size=16).hexdigest()


def open_store(sources: StoreInputs, folder: Path, scoring: Scoring | None = None, lms: Path | None = None) -> Store:
    """Open the store that `build_store` built from ``sources``; of their files, it opens KenLM binaries only.

    ``scoring``: transforms the scores of each grammar that is opened; ``lms``: the folder of the language models, by
    default ``folder``. Raises DataError for a damaged store or a missing KenLM binary, UsageError if the name of a bin
    is that of another score.
    """
    data = open_checked(folder / DATA, check_lists if sources.from_lists else check_data)
    words = Vocabulary(Names.stored(data, "words").all())
    model: TranslationModel | ListModel
    if sources.from_lists:
        model = open_model(with_prefix(data, "lists"), words)
    else:
        model = _open_model(data, words, sources, folder, scoring, lms or folder)
    return Store(
        model=model,
        train=Corpus(**with_prefix(data, "train")) if sources.train is not None else None,
        devtest=Corpus(**with_prefix(data, "devtest")) if sources.devtest is not None else None,
        scoring=scoring,
    )


def _open_model(
    data: Mapping[str, np.ndarray],
    words: Vocabulary,
    sources: StoreInputs,
    folder: Path,
    scoring: Scoring | None,
    lms: Path,
) -> TranslationModel:
    """The grammars and language models; ``data``: the arrays of `DATA`, ``words`` theirs; for the others see above."""
    fired = _open_features(folder, sources.templates, data)
    lm_files = () if sources.external else sources.lms
    score_names = Names.stored(data, "score_names").all()
    rule_features = fired["ids"], fired["ptr"], fired["index"], fired["value"]
    return TranslationModel(
        words=words,
        categories=Names.stored(data, "categories").all(),
        grammars=_grammars(data).stored(data, make_plan(scoring, score_names) if scoring else None),
        score_names=scoring.names(score_names) if scoring else score_names,
        templates=sources.templates,
        rule_features=RuleFeatures(Names.stored(fired, "names"), *rule_features),
        lms=[_open_lm(file, lms / lm_name(n)) for n, file in enumerate(lm_files)],
        lm_names=sources.lm_names[: len(sources.lms)],
    )


def _grammars(data: Mapping[str, np.ndarray]) -> type[ExtractedGrammars] | type[ListedGrammars]:
    """The class of the grammars that ``data`` holds."""
    return ExtractedGrammars if "counts.rule_count" in data else ListedGrammars


def rules_firing(folder: Path, templates: Sequence[str], names: Sequence[str], most: int) -> dict[str, list[Rule]]:
    """At most ``most`` rules of the store in ``folder`` for each of the features ``names`` that fires on any.

    Raises DataError for a missing or damaged store.
    """
    data = open_checked(folder / DATA, check_data)
    fired = _open_features(folder, templates, data)
    words, categories = Names.stored(data, "words").all(), Names.stored(data, "categories").all()
    types, by_id = RuleTypes(**with_prefix(data, "types")), {feature_id(name): name for name in names}
    ids, ptr, index = fired["ids"], fired["ptr"], fired["index"]
    places = np.flatnonzero(np.isin(ids, np.array(list(by_id), dtype=np.uint64)))
    found: dict[int, list[int]] = {place: [] for place in places.tolist()}
    # Search in pieces: frequent features are complete after a few pieces, and drop out of the search.
    for first in range(0, len(index), _PIECE):
        hits = first + np.flatnonzero(np.isin(index[first : first + _PIECE], places))
        hits = hits[np.argsort(index[hits], kind="stable")]
        for place, start, count in zip(*np.unique(index[hits], return_index=True, return_counts=True), strict=True):
            # Evenly spaced: rules are sorted by source side, so that the first ones resemble each other.
            taken = np.unique(np.linspace(start, start + count - 1, most - len(found[int(place)])).astype(np.int64))
            found[int(place)] += hits[taken].tolist()
        places = np.array([place for place in places.tolist() if len(found[place]) < most], dtype=np.int64)

    def rule(hit: int) -> Rule:
        return as_symbols(types, int(np.searchsorted(ptr, hit, side="right")) - 1, categories, words)

    return {by_id[int(ids[place])]: [rule(hit) for hit in hits] for place, hits in found.items() if hits}


def _open_features(folder: Path, templates: Sequence[str], data: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of the features that ``templates`` fire on the rules of ``data``."""
    path = folder / features_name(templates)
    fired = open_checked(path, check_features)
    if len(fired["ptr"]) != len(data["types.side"]) + 1:
        raise damaged(path, ValueError(f"its rules are not those of {DATA}"))
    return fired


def _open_lm(file: Path, stored: Path) -> tuple[LanguageModel, LmVocabulary]:
    """The language model of ``file``, which is mapped if it is a KenLM binary; else ``stored``, its compiled form."""
    arrays = open_checked(stored, check_lm)
    return open_kenlm(file, int(arrays["kenlm"][0])) if "kenlm" in arrays else language_model(arrays)
