"""Compilation of the shard store (`mpitune.store.store`): texts, grammars and language models become arrays once.

Each file stores fingerprints of its inputs. It is rebuilt only if an input changed, if the file is damaged or if an
older version wrote it. A store whose files are up to date is only read: no access for writing is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
from mpitune.array_files.checked import Check, open_checked
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.text import Fingerprint, fingerprint, unchanged
from mpitune.corpus.vocabulary import Names, Vocabulary
from mpitune.errors import DataError, UsageError
from mpitune.extraction.extracted import FEATURES
from mpitune.extraction.rule_arrays import GrammarPart, merged
from mpitune.extraction.suffix_array import compiled_bitext
from mpitune.grammar.rules import RuleReader, Rules
from mpitune.grammar.score_transforms import Scoring, transform_scores
from mpitune.grammar.templates import compile_features
from mpitune.lm.arpa import read_arpa
from mpitune.lm.kenlm import is_kenlm, read_kenlm
from mpitune.store.compile_lists import compile_lists
from mpitune.store.input_checks import check_files, check_score_names, warn_of_built_in_names, warn_of_unknown_words
from mpitune.store.inputs import StoreInputs, grammar_files
from mpitune.store.store import (
    BITEXT,
    DATA,
    content_digest,
    encoded_corpus,
    features_name,
    inputs_digest,
    lm_name,
    scores_name,
)
from mpitune.store.structure import check_bitext, check_data, check_features, check_lists, check_lm, check_scores

_MISSING = "missing"

StartProgress = Callable[[str, int], AbstractContextManager[Any]]
"""Starts a progress display from a label and a number of items; its context has ``advance()`` and ``reach(done)``."""


def build_store(
    sources: StoreInputs,
    folder: Path,
    log: Callable[[str], None],
    start_progress: StartProgress,
    parts: Path | None = None,
    lms: Path | None = None,
) -> list[str]:
    """Build the files of the store in ``folder`` that are missing, damaged or stale; returns their names.

    ``log`` receives a line for each file built, ``start_progress`` displays the reading of the grammars. ``parts`` is
    the folder of extracted grammars, needed if `needs_extraction`; ``lms`` is the folder of the language models, by
    default ``folder``. Raises DataError for bad data, UsageError for an unknown template or for a store that a newer
    version built.
    """
    data, rule_features = folder / DATA, folder / features_name(sources.templates)
    check_files(sources)
    grammars = grammar_files(sources)
    files, settings = _data_inputs(sources, grammars)
    if sources.from_lists:
        lists = _StoreFile(data, files, settings, check_lists)
        return _build_if_stale(lists, lambda: compile_lists(sources, folder, start_progress), log)
    built = _build_if_stale(
        _StoreFile(data, files, settings, check_data),
        lambda: _compile_data(sources, grammars, parts, start_progress),
        log,
    )
    settings = {"templates": list(sources.templates), "data": content_digest(data)}
    built += _build_if_stale(
        _StoreFile(rule_features, [], settings, check_features),
        lambda: _compile_features(data, sources.templates, grammars),
        log,
    )
    for n, file in enumerate(sources.lms):
        lm = _StoreFile((lms or folder) / lm_name(n, sources.external), [file], {}, check_lm)
        built += _build_if_stale(lm, dict if sources.external else partial(_compile_lm, file), log)
    return built


def _data_inputs(sources: StoreInputs, grammars: Sequence[Path]) -> tuple[list[Path], dict[str, Any]]:
    """The input files of `DATA`, and the settings that it depends on."""
    settings: dict[str, Any] = {name: texts.settings for name, texts in sources.texts.items()}
    settings["per_sentence"] = sources.grammar is None
    if sources.further_grammars:
        settings["further_grammars"] = len(sources.further_grammars)
    if sources.table_format not in ("auto", "cdec"):
        settings["table_format"] = sources.table_format
    files = [file for texts in sources.texts.values() for file in texts.files]
    if sources.aligned is not None:
        settings["extracted"] = {"files": len(sources.aligned.files), "leave_one_out": sources.leave_one_out}
        return [*files, *sources.aligned.files], settings
    return [*files, *grammars], settings


def build_scores(folder: Path, scoring: Scoring, log: Callable[[str], None]) -> list[str]:
    """Build the transformed scores of the store in ``folder`` unless they are up to date; returns the files built.

    The rest of the store must exist. Raises UsageError if the name of a bin is that of another score.
    """
    data = open_checked(folder / DATA, check_data)
    rules, names = Rules(**with_prefix(data, "rules")), Names.stored(data, "score_names").all()
    settings = {"scoring": scoring.digest, "data": content_digest(folder / DATA)}
    file = _StoreFile(folder / scores_name(scoring), [], settings, check_scores)
    return _build_if_stale(file, lambda: transform_scores(rules, names, scoring), log)


def needs_extraction(sources: StoreInputs, folder: Path) -> bool:
    """True if `build_store` needs grammars extracted from ``sources.aligned``, as parts."""
    data = _StoreFile(folder / DATA, *_data_inputs(sources, []), check_data)
    return sources.aligned is not None and _fault(data) is not None


def inputs_of_grammars(sources: StoreInputs) -> dict[str, Any]:
    """The attributes of a file of extracted grammars that identify its inputs, see `valid_part`."""
    return _input_attributes(*_data_inputs(sources, []))


def valid_part(file: Path, current: Mapping[str, Any]) -> range | None:
    """The sentences whose grammars ``file`` holds; None if it is damaged or its inputs are not the ``current`` ones."""
    attributes = read_attributes(file) or {}
    if "inputs" not in attributes or inputs_digest(attributes["inputs"]) != inputs_digest(current["inputs"]):
        return None
    return range(*attributes["sentences"])


def build_bitext(files: AlignedFiles, folder: Path, log: Callable[[str], None]) -> Path:
    """Compile a bitext into ``folder`` unless it is up to date; returns the compiled file."""
    file = _StoreFile(folder / BITEXT, files.files, {"files": len(files.files)}, check_bitext)
    _build_if_stale(file, lambda: compiled_bitext(files), log)
    return file.path


def part_file(folder: Path, first: int) -> Path:
    """The file for extracted grammars of consecutive sentences, beginning with sentence ``first``."""
    return folder / f"part-{first:012d}.h5"


class _StoreFile(NamedTuple):
    """A file of the store, and what it depends on."""

    path: Path
    inputs: Sequence[Path]
    """The input files."""
    settings: Mapping[str, Any]
    """The settings of the job."""
    check: Check
    """The check of its arrays, of `mpitune.store.structure`."""


def _build_if_stale(
    file: _StoreFile, compile_arrays: Callable[[], Mapping[str, Stored]], log: Callable[[str], None]
) -> list[str]:
    """Build one file of the store unless it is sound and up to date; returns its name if it was built.

    Raises UsageError if it cannot be written.
    """
    fault = _fault(file)
    if fault is None:
        return []
    with ExitStack() as stack:
        try:
            stack.enter_context(write_lock(file.path.parent))
        except UsageError as error:
            raise UsageError(f"{file.path}: {fault}, and cannot be built: {error}") from None
        # Another run may have built it in the meantime.
        fault = _fault(file)
        if fault is None:
            return []
        log(f"{file.path}: building it" if fault == _MISSING else f"{file.path}: {fault}: rebuilding it")
        # Fingerprints are taken before the files are read: the next build notices a change in between.
        attributes = _input_attributes(file.inputs, file.settings)
        write_arrays(file.path, compile_arrays(), attributes)
    # Checked once here, so that all ranks need not do it.
    open_checked(file.path, file.check)
    return [file.path.name]


def _input_attributes(inputs: Sequence[Path], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that `_fault` compares."""
    return {"inputs": {"files": [fingerprint(path) for path in inputs], "shape": settings}}


def _fault(file: _StoreFile) -> str | None:
    """The reason why a file must be built; None if it is sound and up to date."""
    if not file.path.exists():
        return _MISSING
    try:
        open_checked(file.path, file.check)
    except DataError:
        return "damaged or of an older version"
    try:
        known = (read_attributes(file.path) or {})["inputs"]
        fresh = (
            known["shape"] == file.settings
            and len(known["files"]) == len(file.inputs)
            and all(unchanged(Fingerprint(*old), path) for old, path in zip(known["files"], file.inputs, strict=True))
        )
    except (KeyError, TypeError):
        fresh = False  # attributes that mpitune does not write
    return None if fresh else "stale"


class _CompiledRules(NamedTuple):
    """Rules as arrays, and the names that their numbers refer to."""

    words: Vocabulary
    rules: Mapping[str, Stored]
    """The fields of `Rules`."""
    score_names: list[str]
    categories: list[str]


def _compile_data(
    sources: StoreInputs, grammars: Sequence[Path], parts: Path | None, start_progress: StartProgress
) -> dict[str, Stored]:
    """The arrays of `DATA`: rules read from ``grammars``, or from the folder ``parts``; then the texts."""
    if parts is not None:
        words, rules, score_names, categories = _extracted_rules(parts)
    else:
        words, rules, score_names, categories = _read_grammars(grammars, sources.table_format, start_progress)
        warn_of_built_in_names(grammars, score_names, sources.lm_names)
    if sources.grammar is not None and rules["type"].size == 0:
        raise DataError.at(sources.grammar, None, found="no rules", expected="a rule a line")
    source_sides = rules["source"]
    assert isinstance(source_sides, np.ndarray)  # a DiskArray is used only for arrays with an element per sentence rule
    arrays = add_prefix("rules", rules)
    grammar_number = {grammar: n for n, grammar in enumerate(grammars)} if sources.grammar is None else {}
    first = 0
    for name, texts in sources.texts.items():
        pairs = texts.read()
        numbers = [grammar_number.get(pair.source.grammar, 0) if pair.source.grammar else 0 for pair in pairs]
        corpus = encoded_corpus(pairs, words, np.array(numbers, np.int32))
        if parts is not None:
            # Extracted grammars are numbered like the sentences, counted over all texts.
            corpus = corpus._replace(grammar=np.arange(first, first + corpus.size, dtype=np.int32))
            first += corpus.size
        warn_of_unknown_words(texts.files[0], corpus, source_sides)
        arrays |= add_prefix(name, corpus._asdict())
    for name, strings in (("words", words.words), ("categories", categories), ("score_names", score_names)):
        arrays |= Names.of(strings).as_arrays(name)
    return arrays


def _read_grammars(grammars: Sequence[Path], table_format: str, start_progress: StartProgress) -> _CompiledRules:
    """The rules of grammar files."""
    words = Vocabulary()
    reader = RuleReader(words, table_format)
    with start_progress("grammars read", len(grammars)) as progress:
        for grammar in grammars:
            reader.read(grammar)
            progress.advance()
    return _CompiledRules(words, reader.rules()._asdict(), reader.score_names, reader.categories)


def _extracted_rules(folder: Path) -> _CompiledRules:
    """The extracted rules of the parts in ``folder``; their words are those of the bitext."""
    files = sorted(folder.glob("part-*.h5"))
    words = Vocabulary(Names.stored(open_arrays(files[0]), "words").all())
    # Parts are opened one after the other, so that at most two are mapped at a time.
    parts = (GrammarPart(**with_prefix(open_arrays(file), "rules")) for file in files)
    return _CompiledRules(words, merged(parts, folder), list(FEATURES), ["S", "X"])


def _compile_features(data: Path, templates: Sequence[str], grammars: Sequence[Path]) -> dict[str, np.ndarray]:
    arrays = open_checked(data, check_data)
    words = Names.stored(arrays, "words").all()
    corpora = [array for name, array in arrays.items() if name in ("train.source", "devtest.source")]
    sources = [words[word] for word in np.unique(np.concatenate([np.zeros(0, np.int32), *corpora])).tolist()]
    categories = Names.stored(arrays, "categories").all()
    fired = compile_features(templates, Rules(**with_prefix(arrays, "rules")), categories, words, sources)
    check_score_names(grammars, Names.stored(arrays, "score_names").all(), fired.ids)
    return {
        **fired.names.as_arrays("names"),
        "ids": fired.ids,
        "ptr": fired.ptr,
        "index": fired.index,
        "value": fired.value,
    }


def _compile_lm(file: Path) -> dict[str, np.ndarray]:
    return read_kenlm(file) if is_kenlm(file) else read_arpa(file)
