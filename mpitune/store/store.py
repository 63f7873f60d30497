"""The shard store: data, grammars and language models of a job as memory-mapped arrays, built by `mpitune.store.build`.

data.npz                   words, rules or n-best lists, corpora
bitext.npz                 a compiled word-aligned bitext, the input of grammar extraction
lm-<n>.npz                 a language model; for a KenLM binary, which is mapped in place, its size only
lm-<n>-own.npz             what leaving each of the tuned sentences out changes in a language model
lm-<n>-external.npz        the fingerprint of a language model that an external decoder reads
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpitune.array_files.arrays import damaged, read_manifest, with_prefix
from mpitune.array_files.cache import content_digest, open_checked
from mpitune.array_files.csr import row_ends
from mpitune.corpus.text import SentencePair
from mpitune.corpus.vocabulary import Names, Vocabulary
from mpitune.decoder.base import Sentence, TranslationModel
from mpitune.decoder.lists.decoder import ListModel, open_model
from mpitune.grammar.extracted import ExtractedGrammars
from mpitune.grammar.firing_rules import rules_that_fire
from mpitune.grammar.grammars import Grammars, ListedGrammars
from mpitune.grammar.rules import RuleTypes
from mpitune.grammar.score_transforms import Scoring, TransformPlan, make_plan
from mpitune.grammar.sparse import Rule
from mpitune.grammar.templates import as_symbols
from mpitune.lm.kenlm import open_kenlm
from mpitune.lm.leave_one_out import NOTHING, OwnNgrams
from mpitune.lm.ngram_table import LanguageModel, LmVocabulary, end_of_nodes, language_model
from mpitune.store.inputs import StoreInputs
from mpitune.store.structure import check_data, check_lists, check_lm, check_own_ngrams

DATA = "data.npz"
BITEXT = "bitext.npz"


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
    own_ngrams: Sequence[OwnNgrams | None] = ()
    """For each language model, what leaving out sentences of `train` changes; None: nothing is left out."""

    def tuned_sentence(self, i: int) -> Sentence:
        """Sentence ``i`` of `train` as it is decoded to be learned from: left out of the language models."""
        assert self.train is not None  # checked by config.checks.require_data
        left_out = [NOTHING if own is None else own.of(i) for own in self.own_ngrams]
        return self.train.sentence(i)._replace(left_out=left_out if any(len(left.node) for left in left_out) else ())


def lm_name(n: int, external: bool = False) -> str:
    """The name of the file of language model ``n``; ``external``: an external decoder reads the model."""
    return f"lm-{n}-external.npz" if external else f"lm-{n}.npz"


def own_name(n: int) -> str:
    """The name of the file of `OwnNgrams` of language model ``n``."""
    return f"lm-{n}-own.npz"


def references_in(vocabulary: LmVocabulary, corpus: Corpus, words: Vocabulary) -> list[np.ndarray]:
    """int32 each: all references of ``corpus``, whose words are ``words``, as numbers of a language model."""
    numbers = vocabulary.numbers(words.words)
    rows = zip(corpus.reference_ptr[:-1].tolist(), corpus.reference_ptr[1:].tolist(), strict=True)
    return [numbers[corpus.reference[a:b]] for a, b in rows]


def content_digests(sources: StoreInputs, folder: Path) -> dict[str, str]:
    """Digests of the contents of the files that `build_store` read, by the job's part that names them."""
    files = {"files of [data] and [grammar]": folder / DATA}
    files |= {f"lm.{n}.file": folder / lm_name(n, sources.external) for n in range(len(sources.lms))}
    for n in filter(sources.leaves_sentences_out, range(len(sources.lms))):
        # Where nothing is left out, the texts have no influence.
        if len(open_checked(folder / own_name(n), check_own_ngrams)["node"]):
            files[f"lm.{n}.text"] = folder / own_name(n)
    return {name: content_digest(read_manifest(file)) for name, file in files.items()}


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
        model = _open_model(data, words, sources, scoring, lms or folder)
    train = Corpus(**with_prefix(data, "train")) if sources.train is not None else None
    return Store(
        model=model,
        train=train,
        devtest=Corpus(**with_prefix(data, "devtest")) if sources.devtest is not None else None,
        scoring=scoring,
        own_ngrams=[
            _own_ngrams(folder / own_name(n), model.lms[n][0], train)
            if train is not None and isinstance(model, TranslationModel) and sources.leaves_sentences_out(n)
            else None
            for n in range(len(sources.lms))
        ],
    )


def _open_model(
    data: Mapping[str, np.ndarray],
    words: Vocabulary,
    sources: StoreInputs,
    scoring: Scoring | None,
    lms: Path,
) -> TranslationModel:
    """The grammars and language models; ``data``: the arrays of `DATA`, ``words`` theirs; for the others see above."""
    lm_files = () if sources.external else sources.lms
    score_names = Names.stored(data, "score_names").all()
    return TranslationModel(
        words=words,
        categories=Names.stored(data, "categories").all(),
        grammars=_grammars(data, make_plan(scoring, score_names) if scoring else None, sources.max_translations),
        score_names=scoring.names(score_names) if scoring else score_names,
        templates=sources.templates,
        lms=[open_lm(file, lms / lm_name(n)) for n, file in enumerate(lm_files)],
        lm_names=sources.lm_names[: len(sources.lms)],
        scoring=scoring,
    )


def _grammars(data: Mapping[str, np.ndarray], plan: TransformPlan | None, max_translations: int) -> Grammars:
    """The grammars that ``data`` holds."""
    if "counts.rule_count" in data:
        return ExtractedGrammars.stored(data, plan, max_translations)
    return ListedGrammars.stored(data, plan)


def rules_firing(folder: Path, templates: Sequence[str], names: Sequence[str], most: int) -> dict[str, list[Rule]]:
    """At most ``most`` rules of the store in ``folder`` for each of the features ``names`` that fires on any.

    Raises DataError for a missing or damaged store.
    """
    data = open_checked(folder / DATA, check_data)
    words, categories = Names.stored(data, "words").all(), Names.stored(data, "categories").all()
    types, names = RuleTypes(**with_prefix(data, "types")), list(dict.fromkeys(names))
    found: list[list[int]] = [[] for _ in names]
    for rules, hits in rules_that_fire(templates, types, categories, words, names):
        order = np.argsort(hits, kind="stable")
        for place, start, count in zip(*np.unique(hits[order], return_index=True, return_counts=True), strict=True):
            # Evenly spaced: rules are sorted by source side, so that the first ones resemble each other.
            taken = np.unique(np.linspace(start, start + count - 1, most - len(found[place])).astype(np.int64))
            found[place] += rules[order[taken]].tolist()
    return {
        name: [as_symbols(types, rule, categories, words) for rule in rules]
        for name, rules in zip(names, found, strict=True)
        if rules
    }


def open_lm(file: Path, stored: Path) -> tuple[LanguageModel, LmVocabulary]:
    """The language model of ``file``, which is mapped if it is a KenLM binary; else ``stored``, its compiled form."""
    arrays = open_checked(stored, check_lm)
    return open_kenlm(file, int(arrays["kenlm"][0])) if "kenlm" in arrays else language_model(arrays)


def _own_ngrams(file: Path, lm: LanguageModel, train: Corpus) -> OwnNgrams:
    """Changes of ``lm`` without each sentence of ``train``; raises DataError if it is of another model or text."""
    own = OwnNgrams(**open_checked(file, check_own_ngrams))
    if len(own.ptr) != train.size + 1:
        raise damaged(file, ValueError(f"expected rows of {train.size} sentences"))
    if own.node.max(initial=0) >= end_of_nodes(lm):
        raise damaged(file, ValueError("expected n-grams of the language model"))
    return own
