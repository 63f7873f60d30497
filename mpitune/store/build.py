"""Makes the shard store (`mpitune.store.store`), once, so that training parses no text.

Each file remembers what it was made from; it is made anew only where that changed or the file is damaged or of an older
version.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.array_files.arrays import (
    Stored,
    add_prefix,
    open_arrays,
    read_attributes,
    with_prefix,
    write_arrays,
    write_lock,
)
from mpitune.array_files.csr import row_ends
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.text import Fingerprint, SentencePair, check_readable, fingerprint, unchanged
from mpitune.corpus.vocabulary import Names, Vocabulary
from mpitune.errors import DataError
from mpitune.extraction.extractor import FEATURES
from mpitune.extraction.rule_arrays import GrammarPart, merged
from mpitune.extraction.suffix_array import compiled_bitext
from mpitune.grammar.rules import RuleReader, Rules
from mpitune.grammar.score_transforms import Scoring, rescored
from mpitune.grammar.templates import compile_features
from mpitune.lm.arpa import read_arpa
from mpitune.lm.kenlm import is_kenlm, read_kenlm
from mpitune.store.inputs import StoreInputs, grammar_files
from mpitune.store.store import BITEXT, DATA, Corpus, content, digest, features_name, lm_name, scores_name

LOG = logging.getLogger(__name__)

Watch = Callable[[str, int], AbstractContextManager[Any]]
"""Watches work of so many items, by a name: gives what has ``advance()`` called for each item done, or ``reach()``."""


def prepare(
    sources: StoreInputs,
    folder: Path,
    tell: Callable[[str], None],
    watch: Watch,
    parts: Path | None = None,
    lms: Path | None = None,
) -> list[str]:
    """Make those parts of the store in ``folder`` that are missing, damaged or stale; returns the names of their files.

    ``tell`` is told what is made, ``watch`` how the reading of many grammars gets on; ``parts`` is the folder of
    extracted grammars, where there are any (see `wants_extraction`), ``lms`` that of the language models, where it is
    not ``folder``. Raises DataError for bad data, UsageError for an unknown template or a store that a newer version
    made.
    """
    data, rule_features = folder / DATA, folder / features_name(sources.templates)
    # To read a grammar may take minutes: a misspelt name is told before that.
    texts = [file for texts in sources.texts.values() for file in texts.files]
    for file in [*texts, *([sources.grammar] if sources.grammar else []), *sources.further_grammars, *sources.lms]:
        check_readable(file)
    grammars = grammar_files(sources)
    files, shape = _data_inputs(sources, grammars)
    made = []
    with write_lock(folder):
        if _make(data, files, shape, lambda: _compile_data(sources, grammars, parts, watch), tell):
            made.append(data.name)
        shape = {"templates": list(sources.templates), "data": content(data)}
        if _make(rule_features, [], shape, lambda: _compile_features(data, sources.templates), tell):
            made.append(rule_features.name)
    lms = lms or folder
    with write_lock(lms):
        for n, file in enumerate(sources.lms):
            name = lm_name(n, sources.external)
            if _make(lms / name, [file], {}, dict if sources.external else partial(_compile_lm, file), tell):
                made.append(name)
    return made


def _data_inputs(sources: StoreInputs, grammars: Sequence[Path]) -> tuple[list[Path], dict[str, Any]]:
    """The files that `DATA` is made from, and what else it depends on."""
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
    file, data = folder / scores_name(scoring), open_arrays(folder / DATA)
    names = Names.stored(data, "score_names").all()
    shape = {"scoring": scoring.digest, "data": content(folder / DATA)}
    with write_lock(folder):
        made = _make(file, [], shape, lambda: rescored(Rules(**with_prefix(data, "rules")), names, scoring), tell)
    return [file.name] if made else []


def wants_extraction(sources: StoreInputs, folder: Path) -> bool:
    """Whether `prepare` will ask for grammars extracted from ``sources.aligned``, as parts."""
    return sources.aligned is not None and not _is_fresh(folder / DATA, *_data_inputs(sources, []))


def made_from(sources: StoreInputs) -> dict[str, Any]:
    """What grammars are extracted from, as `kept_part` wants it beside them."""
    return _taken(*_data_inputs(sources, []))


def kept_part(file: Path, made: Mapping[str, Any]) -> range | None:
    """The sentences whose grammars wait in ``file``; None where it is damaged, or not from what is now ``made``."""
    known = read_attributes(file) or {}
    if "inputs" not in known or digest(known["inputs"]) != digest(made["inputs"]):
        return None
    return range(*known["sentences"])


def prepare_bitext(files: AlignedFiles, folder: Path, tell: Callable[[str], None]) -> Path:
    """Make the compiled bitext in ``folder`` if it is missing or stale; returns its file."""
    with write_lock(folder):
        _make(folder / BITEXT, files.files, {"files": len(files.files)}, lambda: compiled_bitext(files), tell)
    return folder / BITEXT


def part_file(folder: Path, first: int) -> Path:
    """Where extracted grammars, those of sentence ``first`` and the ones after it, wait for `prepare`."""
    return folder / f"part-{first:012d}.h5"


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


def _compile_data(
    sources: StoreInputs, grammars: Sequence[Path], parts: Path | None, watch: Watch
) -> dict[str, Stored]:
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
    arrays = add_prefix("rules", rules)
    number = {grammar: n for n, grammar in enumerate(grammars)} if sources.grammar is None else {}
    before = 0
    for name, texts in sources.texts.items():
        corpus = _corpus(texts.read(), words, number)
        if parts is not None:
            # Each sentence has the grammar of its number, counted through all texts.
            corpus = corpus._replace(grammar=np.arange(before, before + corpus.size, dtype=np.int32))
            before += corpus.size
        _warn_of_unknown_words(texts.source, corpus, known)
        arrays |= add_prefix(name, corpus._asdict())
    for name, strings in (("words", words.words), ("categories", categories), ("score_names", score_names)):
        arrays |= Names.of(strings).as_arrays(name)
    return arrays


def _extracted_rules(folder: Path) -> tuple[Vocabulary, dict[str, Stored], list[str]]:
    """The words of the bitext, the rules of the parts in ``folder``, and the names of their scores."""
    files = sorted(folder.glob("part-*.h5"))
    words = Vocabulary(Names.stored(open_arrays(files[0]), "words").all())
    # They are opened in turn, so that no more than two are mapped at a time.
    parts = (GrammarPart(**with_prefix(open_arrays(file), "rules")) for file in files)
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
    first_reference = row_ends([len(pair.references) for pair in pairs])
    return Corpus(source_ptr, source, np.array(grammar, np.int32), first_reference, reference_ptr, reference)


def _laid_end_to_end(sentences: Sequence[list[str]], words: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    ptr = row_ends([len(sentence) for sentence in sentences])
    return ptr, words.encode([word for sentence in sentences for word in sentence])


def _compile_features(data: Path, templates: Sequence[str]) -> dict[str, np.ndarray]:
    arrays = open_arrays(data)
    words = Names.stored(arrays, "words").all()
    corpora = [array for name, array in arrays.items() if name in ("train.source", "devtest.source")]
    sources = [words[word] for word in np.unique(np.concatenate([np.zeros(0, np.int32), *corpora])).tolist()]
    categories = Names.stored(arrays, "categories").all()
    fired = compile_features(templates, Rules(**with_prefix(arrays, "rules")), categories, words, sources)
    return {
        **fired.names.as_arrays("names"),
        "ids": fired.ids,
        "ptr": fired.ptr,
        "index": fired.index,
        "value": fired.value,
    }


def _compile_lm(file: Path) -> dict[str, np.ndarray]:
    return read_kenlm(file) if is_kenlm(file) else read_arpa(file)
