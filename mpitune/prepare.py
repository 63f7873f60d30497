"""The shard store: a job's data, grammars and language models compiled to arrays once, so that training parses no text.

    data.h5                   words, rules, corpora
    bitext.h5                 a word-aligned bitext that grammars are extracted from
    features-<templates>.h5   what the sparse templates fire on the rules
    scores-<digest>.h5        the rules' scores as a model wants them: transformed, in bins
    lm-<n>.h5                 one language model each; of a KenLM binary, which is used where it lies, only its size
    lm-<n>-external.h5        of one that an external decoder reads, only what its content was

Each file remembers what it was made from; it is made anew only where that changed or the file is damaged or of an older
version.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpitune.corpus.aligned import AlignedFiles
from mpitune.corpus.store import Stored, open_arrays, read_attributes, write_arrays, writing_to
from mpitune.corpus.symbols import Names, Vocabulary, feature_id
from mpitune.corpus.text import (
    Fingerprint,
    SentencePair,
    check_readable,
    fingerprint,
    unchanged,
)
from mpitune.decoder.base import Sentence, TranslationModel
from mpitune.errors import DataError
from mpitune.grammar.arpa import read_arpa
from mpitune.grammar.bitext import compiled_bitext
from mpitune.grammar.collected import Part, merged
from mpitune.grammar.extract import FEATURES
from mpitune.grammar.features import Rule, RuleFeatures, as_symbols, compile_features
from mpitune.grammar.kenlm import is_kenlm, open_kenlm, read_kenlm
from mpitune.grammar.lm import LanguageModel, LmVocabulary, language_model
from mpitune.grammar.rules import RuleReader, Rules
from mpitune.grammar.scores import Scoring, rescored
from mpitune.sources import Sources, grammar_files

LOG = logging.getLogger(__name__)


class Corpus(NamedTuple):
    """Sentences and their references as numbers of words."""

    source_ptr: np.ndarray
    """int64 [n + 1]: sentence i is ``source[source_ptr[i]:source_ptr[i + 1]]``."""
    source: np.ndarray
    """int32."""
    grammar: np.ndarray
    """int32 [n]: which grammar translates it."""
    first_reference: np.ndarray
    """int64 [n + 1]: the references of sentence i are ``first_reference[i]`` to ``first_reference[i + 1]``."""
    reference_ptr: np.ndarray
    """int64 [references + 1]."""
    reference: np.ndarray
    """int32."""

    @property
    def size(self) -> int:
        """n: how many sentences there are."""
        return len(self.grammar)

    def sentence(self, i: int) -> Sentence:
        """Sentence ``i`` as a decoder takes it."""
        return Sentence(i, self.source[self.source_ptr[i] : self.source_ptr[i + 1]], int(self.grammar[i]))

    def references(self, i: int) -> list[np.ndarray]:
        """int32 each: the references of sentence ``i``."""
        ptr = self.reference_ptr[self.first_reference[i] : self.first_reference[i + 1] + 1].tolist()
        return [self.reference[a:b] for a, b in zip(ptr[:-1], ptr[1:], strict=True)]


@dataclass(frozen=True)
class Store:
    """An opened store; its arrays are views of the mapped files."""

    model: TranslationModel
    train: Corpus | None
    devtest: Corpus | None
    scoring: Scoring | None = None
    """What has become of the grammars' own scores; None: nothing."""


Watch = Callable[[str, int], AbstractContextManager[Any]]
"""Watches work of so many items, by a name: gives what has ``advance()`` called for each item done, or ``reach()``."""


def prepare(
    sources: Sources, folder: Path, tell: Callable[[str], None], watch: Watch, parts: Path | None = None
) -> list[str]:
    """Make those parts of the store in ``folder`` that are missing, damaged or stale; returns the names of their files.

    ``tell`` is told what is made, ``watch`` how the reading of many grammars gets on; ``parts`` is the folder of
    extracted grammars, where there are any (see `wants_extraction`). Raises DataError for bad data,
    UsageError for an unknown template or a store that a newer version made.
    """
    data, rule_features = folder / _DATA, folder / _features_name(sources.templates)
    # To read a grammar may take minutes: a misspelt name is told before that.
    texts = [file for texts in sources.texts.values() for file in texts.files]
    for file in [*texts, *([sources.grammar] if sources.grammar else []), *sources.further_grammars, *sources.lms]:
        check_readable(file)
    grammars = grammar_files(sources)
    files, shape = _data_inputs(sources, grammars)
    made = []
    with writing_to(folder):
        if _make(data, files, shape, lambda: _compile_data(sources, grammars, parts, watch), tell):
            made.append(data.name)
        shape = {"templates": list(sources.templates), "data": _content(data)}
        if _make(rule_features, [], shape, lambda: _compile_features(data, sources.templates), tell):
            made.append(rule_features.name)
        for n, file in enumerate(sources.lms):
            name = _lm_name(n, sources.external)
            if _make(folder / name, [file], {}, dict if sources.external else partial(_compile_lm, file), tell):
                made.append(name)
    return made


def _data_inputs(sources: Sources, grammars: Sequence[Path]) -> tuple[list[Path], dict[str, Any]]:
    """The files that `_DATA` is made from, and what else it depends on."""
    shape: dict[str, Any] = {
        name: {"references": len(texts.references), "bitext": texts.bitext, "limit": texts.limit}
        for name, texts in sources.texts.items()
    }
    shape["per_sentence"] = sources.grammar is None
    if sources.further_grammars:
        shape["further_grammars"] = len(sources.further_grammars)
    if sources.table_format not in ("auto", "cdec"):
        shape["table_format"] = sources.table_format
    files = [file for texts in sources.texts.values() for file in texts.files]
    if sources.aligned is not None:
        shape["extracted"] = {"files": len(sources.aligned.files), "leave_one_out": sources.leave_one_out}
        return [*files, *sources.aligned.files], shape
    return [*files, *grammars], shape


def prepare_scores(folder: Path, scoring: Scoring, tell: Callable[[str], None]) -> list[str]:
    """Make the scores of the store in ``folder`` as ``scoring`` has them, unless they are there; the file's name if so.

    The rest of the store must be there. Raises UsageError where bins are called like other scores.
    """
    file, data = folder / _scores_name(scoring), open_arrays(folder / _DATA)
    names = _names(data, "score_names").all()
    shape = {"scoring": scoring.digest, "data": _content(folder / _DATA)}
    with writing_to(folder):
        made = _make(file, [], shape, lambda: rescored(Rules(**_part(data, "rules")), names, scoring), tell)
    return [file.name] if made else []


def wants_extraction(sources: Sources, folder: Path) -> bool:
    """Whether `prepare` will ask for grammars extracted from ``sources.aligned``, as parts."""
    return sources.aligned is not None and not _is_fresh(folder / _DATA, *_data_inputs(sources, []))


def made_from(sources: Sources) -> dict[str, Any]:
    """What grammars are extracted from, to be written beside them (`kept_part`)."""
    return _taken(*_data_inputs(sources, []))


def kept_part(file: Path, sources: Sources) -> range | None:
    """The sentences whose grammars wait in ``file``; None where they come of something else, or it is damaged."""
    if not _is_fresh(file, *_data_inputs(sources, [])):
        return None
    return range(*(read_attributes(file) or {})["sentences"])


def prepare_bitext(files: AlignedFiles, folder: Path, tell: Callable[[str], None]) -> Path:
    """Make the compiled bitext in ``folder`` if it is missing or stale; returns its file."""
    with writing_to(folder):
        _make(folder / _BITEXT, files.files, {"files": len(files.files)}, lambda: compiled_bitext(files), tell)
    return folder / _BITEXT


def part_file(folder: Path, first: int) -> Path:
    """Where extracted grammars, those of sentence ``first`` and the ones after it, wait for `prepare`."""
    return folder / f"part-{first:012d}.h5"


def contents(sources: Sources, folder: Path) -> dict[str, str]:
    """A digest of the content of the files that `prepare` made the store from, under a name for each part."""
    digests = {"files of [data] and [grammar]": _content(folder / _DATA)}
    lms = {f"lm.{n}.file": folder / _lm_name(n, sources.external) for n in range(len(sources.lms))}
    return digests | {name: _content(file) for name, file in lms.items()}


def open_store(sources: Sources, folder: Path, scoring: Scoring | None = None) -> Store:
    """Open what `prepare` made of ``sources``, without a look at their files but for KenLM binaries.

    ``scoring``: what `prepare_scores` made of the scores. Raises DataError for a damaged store, or where a KenLM binary
    is no longer there.
    """
    data = open_arrays(folder / _DATA)
    fired = open_arrays(folder / _features_name(sources.templates))
    lms = () if sources.external else sources.lms
    rules, score_names = Rules(**_part(data, "rules")), _names(data, "score_names").all()
    if scoring is not None:
        rules = rules._replace(**open_arrays(folder / _scores_name(scoring)))
        score_names = scoring.names(score_names)
    model = TranslationModel(
        words=Vocabulary(_names(data, "words").all()),
        categories=_names(data, "categories").all(),
        rules=rules,
        score_names=score_names,
        templates=sources.templates,
        rule_features=RuleFeatures(_names(fired, "names"), fired["ids"], fired["ptr"], fired["index"], fired["value"]),
        lms=[_open_lm(file, open_arrays(folder / _lm_name(n))) for n, file in enumerate(lms)],
        lm_names=sources.lm_names[: len(sources.lms)],
    )
    return Store(
        model=model,
        train=Corpus(**_part(data, "train")) if sources.train is not None else None,
        devtest=Corpus(**_part(data, "devtest")) if sources.devtest is not None else None,
        scoring=scoring,
    )


def rules_firing(folder: Path, templates: Sequence[str], names: Sequence[str], most: int) -> dict[str, list[Rule]]:
    """Some ``most`` rules of the store in ``folder`` that fire each of the features ``names``, of those with any.

    Raises DataError where there is no such store.
    """
    data, fired = open_arrays(folder / _DATA), open_arrays(folder / _features_name(templates))
    words, categories = _names(data, "words").all(), _names(data, "categories").all()
    rules, by_id = Rules(**_part(data, "rules")), {feature_id(name): name for name in names}
    ids, ptr, index = fired["ids"], fired["ptr"], fired["index"]
    places = np.flatnonzero(np.isin(ids, np.array(list(by_id), dtype=np.uint64)))
    found: dict[int, list[int]] = {place: [] for place in places.tolist()}
    # In parts: what most rules fire is soon found, and what few fire is in few.
    for first in range(0, len(index), _AT_ONCE):
        hits = first + np.flatnonzero(np.isin(index[first : first + _AT_ONCE], places))
        hits = hits[np.argsort(index[hits], kind="stable")]
        for place, start, count in zip(*np.unique(index[hits], return_index=True, return_counts=True), strict=True):
            # Not the first ones: in the order of the sources, these are much alike.
            taken = np.unique(np.linspace(start, start + count - 1, most - len(found[int(place)])).astype(np.int64))
            found[int(place)] += hits[taken].tolist()
        places = np.array([place for place in places.tolist() if len(found[place]) < most], dtype=np.int64)

    def rule(hit: int) -> Rule:
        return as_symbols(rules, int(np.searchsorted(ptr, hit, side="right")) - 1, categories, words)

    return {by_id[int(ids[place])]: [rule(hit) for hit in hits] for place, hits in found.items() if hits}


_AT_ONCE = 1 << 20
_DATA = "data.h5"
_BITEXT = "bitext.h5"


def _features_name(templates: Sequence[str]) -> str:
    return f"features-{'+'.join(templates) or 'none'}.h5"


def _scores_name(scoring: Scoring) -> str:
    return f"scores-{scoring.digest[:16]}.h5"


def _lm_name(n: int, external: bool = False) -> str:
    return f"lm-{n}-external.h5" if external else f"lm-{n}.h5"


def _make(
    file: Path,
    inputs: Sequence[Path],
    shape: Mapping[str, Any],
    compiled: Callable[[], Mapping[str, Stored]],
    tell: Callable[[str], None],
) -> bool:
    """Make one file of the store from ``inputs``, ``shape`` being what else it depends on; False if it is fresh."""
    if _is_fresh(file, inputs, shape):
        return False
    attributes = read_attributes(file)
    before = "damaged or of an older version" if attributes is None else "stale"
    tell(f"{file}: {f'{before}: making it anew' if file.exists() else 'making it'}")
    # Taken before the files are read: what changes in between is noticed the next time.
    taken = _taken(inputs, shape)
    write_arrays(file, compiled(), taken)
    return True


def _taken(inputs: Sequence[Path], shape: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that `_is_fresh` looks at."""
    return {"inputs": {"files": [fingerprint(path) for path in inputs], "shape": shape}}


def _is_fresh(file: Path, inputs: Sequence[Path], shape: Mapping[str, Any]) -> bool:
    known = (read_attributes(file) or {}).get("inputs")
    return (
        known is not None
        and known["shape"] == shape
        and len(known["files"]) == len(inputs)
        and all(unchanged(Fingerprint(*old), path) for old, path in zip(known["files"], inputs, strict=True))
    )


def _content(file: Path) -> str:
    """A digest of what a file of the store was made from, wherever that lay and whenever it was written."""
    inputs = (read_attributes(file) or {})["inputs"]
    contents = [Fingerprint(*old).digest for old in inputs["files"]]
    return hashlib.blake2b(json.dumps([contents, inputs["shape"]]).encode(), digest_size=16).hexdigest()


def _compile_data(sources: Sources, grammars: Sequence[Path], parts: Path | None, watch: Watch) -> dict[str, Stored]:
    rules: Mapping[str, Stored]
    if parts is not None:
        words, rules, score_names = _extracted_rules(parts)
        categories = ["S", "X"]
    else:
        words = Vocabulary()
        reader = RuleReader(words, sources.table_format)
        with watch("grammars read", len(grammars)) as told:
            for grammar in grammars:
                reader.read(grammar)
                told.advance()
        rules, score_names, categories = reader.rules()._asdict(), reader.score_names, reader.categories
    if sources.grammar is not None and rules["type"].size == 0:
        raise DataError.at(sources.grammar, None, found="no rules", expected="a rule a line")
    known = rules["source"]
    assert isinstance(known, np.ndarray)  # what is distinct is in memory
    arrays = _prefixed("rules", rules)
    number = {grammar: n for n, grammar in enumerate(grammars)} if sources.grammar is None else {}
    before = 0
    for name, texts in sources.texts.items():
        corpus = _corpus(texts.read(), words, number)
        if parts is not None:
            # Each sentence has the grammar of its number, counted through all texts.
            corpus = corpus._replace(grammar=np.arange(before, before + corpus.size, dtype=np.int32))
            before += corpus.size
        _warn_of_unknown_words(texts.source, corpus, known)
        arrays |= _prefixed(name, corpus._asdict())
    for name, strings in (("words", words.words), ("categories", categories), ("score_names", score_names)):
        arrays |= _strings(name, Names.of(strings))
    return arrays


def _extracted_rules(folder: Path) -> tuple[Vocabulary, dict[str, Stored], list[str]]:
    """The words of the bitext, the rules of the parts in ``folder``, and the names of their scores."""
    files = sorted(folder.glob("part-*.h5"))
    words = Vocabulary(_names(open_arrays(files[0]), "words").all())
    # They are opened in turn, so that no more than two are mapped at a time.
    parts = (Part(**_part(open_arrays(file), "rules")) for file in files)
    return words, merged(parts, folder), list(FEATURES)


def _warn_of_unknown_words(source: Path, corpus: Corpus, known: np.ndarray) -> None:
    """Texts that were swapped, or tokenised otherwise than the grammar's, are decoded all the same: to themselves."""
    unknown, total = int((~np.isin(corpus.source, known)).sum()), len(corpus.source)
    if 2 * unknown > total:
        LOG.warning("%s: %d of %d words are in no rule's source side: is this the right text?", source, unknown, total)


def _corpus(pairs: Sequence[SentencePair], words: Vocabulary, number: Mapping[Path, int]) -> Corpus:
    """``number``: of each grammar; a sentence whose grammar is not among them gets number 0."""
    references = [reference for pair in pairs for reference in pair.references]
    source_ptr, source = _laid_end_to_end([pair.source.words for pair in pairs], words)
    reference_ptr, reference = _laid_end_to_end(references, words)
    grammar = [number.get(pair.source.grammar, 0) if pair.source.grammar else 0 for pair in pairs]
    first_reference = np.cumsum([0] + [len(pair.references) for pair in pairs], dtype=np.int64)
    return Corpus(source_ptr, source, np.array(grammar, np.int32), first_reference, reference_ptr, reference)


def _laid_end_to_end(sentences: Sequence[list[str]], words: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    ptr = np.cumsum([0] + [len(sentence) for sentence in sentences], dtype=np.int64)
    return ptr, words.encode([word for sentence in sentences for word in sentence])


def _compile_features(data: Path, templates: Sequence[str]) -> dict[str, np.ndarray]:
    arrays = open_arrays(data)
    words = _names(arrays, "words").all()
    corpora = [array for name, array in arrays.items() if name in ("train.source", "devtest.source")]
    sources = [words[word] for word in np.unique(np.concatenate([np.zeros(0, np.int32), *corpora])).tolist()]
    categories = _names(arrays, "categories").all()
    fired = compile_features(templates, Rules(**_part(arrays, "rules")), categories, words, sources)
    return {
        **_strings("names", fired.names),
        "ids": fired.ids,
        "ptr": fired.ptr,
        "index": fired.index,
        "value": fired.value,
    }


def _compile_lm(file: Path) -> dict[str, np.ndarray]:
    return read_kenlm(file) if is_kenlm(file) else read_arpa(file)


def _open_lm(file: Path, arrays: Mapping[str, np.ndarray]) -> tuple[LanguageModel, LmVocabulary]:
    return open_kenlm(file, int(arrays["kenlm"][0])) if "kenlm" in arrays else language_model(arrays)


def _prefixed(prefix: str, arrays: Mapping[str, Stored]) -> dict[str, Stored]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _part(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """What `_prefixed` put under ``prefix``."""
    return {name.removeprefix(f"{prefix}."): a for name, a in arrays.items() if name.startswith(f"{prefix}.")}


def _strings(name: str, strings: Names) -> dict[str, np.ndarray]:
    return {f"{name}.text": strings.text, f"{name}.ptr": strings.ptr}


def _names(arrays: Mapping[str, np.ndarray], name: str) -> Names:
    return Names(arrays[f"{name}.text"], arrays[f"{name}.ptr"])
