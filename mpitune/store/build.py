"""Compilation of the shard store (`mpitune.store.store`): texts, grammars and language models become arrays once.

Each file stores fingerprints of its inputs. It is rebuilt only if an input changed, if the file is damaged or if an
older version wrote it. A store whose files are up to date is only read: no access for writing is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpitune.array_files.arrays import (
    Stored,
    add_prefix,
    map_arrays,
    open_arrays,
    read_attributes,
    with_prefix,
    write_arrays,
    write_lock,
)
from mpitune.array_files.checked import Check, open_checked
from mpitune.array_files.disk_array import DiskArray
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.fingerprint import all_unchanged, fingerprint
from mpitune.corpus.lines import kilobytes
from mpitune.corpus.progress import StartProgress, no_progress
from mpitune.corpus.vocabulary import Names, Vocabulary
from mpitune.errors import DataError, UsageError
from mpitune.extraction.bitext import compiled_bitext
from mpitune.extraction.rule_arrays import TablePart, merged
from mpitune.grammar.extracted import FEATURES
from mpitune.grammar.grammars import ListedGrammars
from mpitune.grammar.rules import RuleReader
from mpitune.grammar.templates import checked
from mpitune.lm.arpa import read_arpa
from mpitune.lm.kenlm import is_kenlm, read_kenlm
from mpitune.store.compile_lists import compile_lists
from mpitune.store.estimate import Estimate, announce, of_grammars, of_lm
from mpitune.store.input_checks import (
    check_categories,
    check_files,
    check_score_names,
    warn_of_built_in_names,
    warn_of_unknown_words,
)
from mpitune.store.inputs import StoreInputs, grammar_files
from mpitune.store.own_ngrams import compile_own_ngrams, own_ngrams_inputs
from mpitune.store.store import BITEXT, DATA, encoded_corpus, inputs_digest, lm_name, own_name
from mpitune.store.structure import check_bitext, check_data, check_lists, check_lm, check_own_ngrams

_MISSING = "missing"


def build_store(
    sources: StoreInputs,
    folder: Path,
    log: Callable[[str], None],
    start_progress: StartProgress,
    parts: Path | None = None,
    lms: Path | None = None,
) -> list[str]:
    """Build the files of the store in ``folder`` that are missing, damaged or stale; returns their names.

    ``log`` receives a line for each file built, ``start_progress`` displays its stages. ``parts`` is the folder of
    extracted grammars, needed if `needs_extraction`; ``lms`` is the folder of the language models, by default
    ``folder``. Raises DataError for bad data, UsageError for an unknown template or for a store that a newer version
    built, MachineError if the disk of ``folder`` is too small.
    """
    data = folder / DATA
    check_files(sources)
    grammars = grammar_files(sources)
    files, settings = _data_inputs(sources, grammars)
    if sources.from_lists:
        lists = _StoreFile(data, files, settings, check_lists)
        return _build_if_stale(lists, partial(compile_lists, sources, folder, start_progress), log)
    checked(sources.templates)
    data_file = _StoreFile(data, files, settings, check_data)
    lm_files = [
        _StoreFile((lms or folder) / lm_name(n, sources.external), [file], {}, check_lm)
        for n, file in enumerate(sources.lms)
    ]
    announce(folder, _estimates(sources, grammars, data_file, lm_files), log)
    compile_data = partial(_compile_data, sources, grammars, parts, lms or folder, start_progress)
    built = _build_if_stale(data_file, compile_data, log)
    check_score_names(open_checked(data, check_data), sources.templates, grammars)
    for lm in lm_files:
        compile_lm = dict if sources.external else partial(_compile_lm, lm.inputs[0], start_progress)
        built += _build_if_stale(lm, compile_lm, log)
    for n in filter(sources.leaves_sentences_out, range(len(lm_files))):
        own = _StoreFile(folder / own_name(n), *own_ngrams_inputs(sources, n), check_own_ngrams)
        built += _build_if_stale(
            own, partial(compile_own_ngrams, sources, folder, lms or folder, n, start_progress), log
        )
    return built


def _estimates(
    sources: StoreInputs, grammars: Sequence[Path], data: _StoreFile, lms: Sequence[_StoreFile]
) -> Iterator[Estimate]:
    """The estimates for the files that are to be built from text."""
    if sources.aligned is None and _fault(data) is not None:
        yield of_grammars(grammars)
    for lm in () if sources.external else lms:
        if _fault(lm) is not None:
            yield of_lm(lm.inputs[0])


def _data_inputs(sources: StoreInputs, grammars: Sequence[Path]) -> tuple[list[Path], dict[str, Any]]:
    """The input files of `DATA`, and the settings that it depends on."""
    settings: dict[str, Any] = {name: texts.settings for name, texts in sources.texts.items()}
    settings["per_sentence"] = sources.grammar is None
    if sources.further_grammars:
        settings["further_grammars"] = len(sources.further_grammars)
    if sources.table_format not in ("auto", "cdec"):
        settings["table_format"] = sources.table_format
    files = [file for texts in sources.texts.values() for file in texts.files]
    if sources.from_lists:
        settings |= {"metrics": list(sources.metrics), "templates": list(sources.templates)}
        return [*files, *([sources.lexicon] if sources.lexicon else [])], settings
    if sources.aligned is not None:
        settings["extracted"] = {**sources.aligned.settings, "leave_one_out": sources.leave_one_out}
        return [*files, *sources.aligned.files], settings
    return [*files, *grammars], settings


def needs_extraction(sources: StoreInputs, folder: Path) -> bool:
    """True if `build_store` needs grammars extracted from ``sources.aligned``, as parts."""
    data = _StoreFile(folder / DATA, *_data_inputs(sources, []), check_data)
    return sources.aligned is not None and _fault(data) is not None


def inputs_of_grammars(sources: StoreInputs) -> dict[str, Any]:
    """The attributes of a file of extracted grammars that identify its inputs, see `valid_part`."""
    return input_attributes(*_data_inputs(sources, []))


def valid_part(file: Path, current: Mapping[str, Any]) -> range | None:
    """The item of work whose rules ``file`` holds; None if it is damaged or its inputs are not the ``current`` ones."""
    attributes = read_attributes(file) or {}
    if "inputs" not in attributes or inputs_digest(attributes["inputs"]) != inputs_digest(current["inputs"]):
        return None
    return range(*attributes["words"])


def build_bitext(
    files: AlignedFiles, folder: Path, log: Callable[[str], None], start_progress: StartProgress = no_progress
) -> Path:
    """Compile a bitext into ``folder`` unless it is up to date; returns the compiled file."""
    file = _StoreFile(folder / BITEXT, files.files, files.settings, check_bitext)
    _build_if_stale(file, partial(compiled_bitext, files, start_progress), log)
    return file.path


def part_file(folder: Path, first: int) -> Path:
    """The file for the rules of the item of work that begins with word ``first``."""
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
        attributes = input_attributes(file.inputs, file.settings)
        write_arrays(file.path, compile_arrays(), attributes)
    # Checked once here, so that all ranks need not do it.
    open_checked(file.path, file.check)
    return [file.path.name]


def input_attributes(inputs: Sequence[Path], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a file that identify its inputs: fingerprints of files, and settings."""
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
        fresh = known["shape"] == file.settings and all_unchanged(known["files"], file.inputs)
    except (KeyError, TypeError):
        fresh = False  # attributes that mpitune does not write
    return None if fresh else "stale"


class _CompiledGrammars(NamedTuple):
    """Grammars as arrays, and the names that their numbers refer to."""

    words: Vocabulary
    arrays: Mapping[str, Stored]
    """The arrays of `ListedGrammars` or `ExtractedGrammars` for storage."""
    score_names: list[str]
    categories: list[str]


def _compile_data(
    sources: StoreInputs, grammars: Sequence[Path], parts: Path | None, shared: Path, start_progress: StartProgress
) -> dict[str, Stored]:
    """The arrays of `DATA`: rules read from ``grammars``, or from the folder ``parts``; then the texts.

    ``shared``: the folder of the compiled bitext.
    """
    if parts is not None:
        words, of_grammars, score_names, categories = _extracted_rules(sources, parts, shared / BITEXT, start_progress)
    else:
        words, of_grammars, score_names, categories = _read_grammars(grammars, sources.table_format, start_progress)
        warn_of_built_in_names(grammars, score_names, sources.lm_names)
        if not sources.external:
            sides = of_grammars["types.lhs"]
            assert isinstance(sides, np.ndarray)  # only extracted rules are on disk
            check_categories(grammars, categories, sides)
    if sources.grammar is not None and of_grammars["rules.type"].size == 0:
        raise DataError.at(sources.grammar, None, found="no rules", expected="a rule a line")
    source_sides = of_grammars["types.source"]
    source_words = source_sides.distinct() if isinstance(source_sides, DiskArray) else np.unique(source_sides)
    arrays = dict(of_grammars)
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
        warn_of_unknown_words(texts.files[0], corpus, source_words)
        arrays |= add_prefix(name, corpus._asdict())
    for name, strings in (("words", words.words), ("categories", categories), ("score_names", score_names)):
        arrays |= Names.of(strings).as_arrays(name)
    return arrays


def _read_grammars(grammars: Sequence[Path], table_format: str, start_progress: StartProgress) -> _CompiledGrammars:
    """The rules of grammar files."""
    words = Vocabulary()
    reader = RuleReader(words, table_format)
    with start_progress("kB of grammars read", kilobytes(grammars)) as progress:
        for grammar in grammars:
            reader.read(grammar, progress)
    grammars_read = ListedGrammars(reader.rules(), reader.grammar_ptr)
    return _CompiledGrammars(words, grammars_read.as_arrays(), reader.score_names, reader.categories)


def _extracted_rules(
    sources: StoreInputs, parts: Path, bitext: Path, start_progress: StartProgress
) -> _CompiledGrammars:
    """The extracted rules in the folder ``parts``; their words are those of the compiled ``bitext``."""
    words = Vocabulary(Names.stored(open_arrays(bitext), "words").all())
    sentences = sum(len(texts.read()) for texts in sources.texts.values())
    arrays = merged(PartReader(parts), sentences, parts, start_progress)
    return _CompiledGrammars(words, arrays, list(FEATURES), ["S", "X"])


class PartReader:
    """Reads the parts in a folder in the order of their words, one after the other; the first time, it checks them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_checked = False

    def __len__(self) -> int:
        return len(self._files())

    def __iter__(self) -> Iterator[TablePart]:
        for file in self._files():
            yield TablePart(**with_prefix(map_arrays(file, check_digest=not self._is_checked), "part"))
        self._is_checked = True

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("part-*.h5"))


def _compile_lm(file: Path, start_progress: StartProgress) -> dict[str, np.ndarray]:
    return read_kenlm(file) if is_kenlm(file) else read_arpa(file, start_progress)
