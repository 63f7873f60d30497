"""Compilation of the shard store (`mpitune.store.store`): texts, grammars and language models become arrays once.

A store whose files are up to date is only read: no access for writing is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.array_files.cache import Recipe, cached, made_from, open_checked
from mpitune.corpus.bitext import AlignedFiles
from mpitune.extraction.bitext import compiled_bitext
from mpitune.grammar.templates import checked
from mpitune.lm.arpa import read_arpa
from mpitune.lm.kenlm import is_kenlm, read_kenlm
from mpitune.store.compile_data import ExtractedParts, check_score_names, compile_data
from mpitune.store.compile_lists import compile_lists
from mpitune.store.estimate import Estimate, announce, of_grammars, of_lm
from mpitune.store.inputs import StoreInputs, check_files, grammar_files
from mpitune.store.leave_one_out import compile_own_ngrams, own_ngrams_inputs
from mpitune.store.store import BITEXT, DATA, lm_name, own_name
from mpitune.store.structure import check_bitext, check_data, check_lists, check_lm, check_own_ngrams


def build_store(
    sources: StoreInputs,
    folder: Path,
    parts: ExtractedParts | None = None,
    lms: Path | None = None,
) -> list[str]:
    """Build the files of the store in ``folder`` that are missing, damaged or stale; returns their names.

    ``parts`` are the extracted rules, needed if `needs_extraction`; ``lms`` is the folder of the language models, by
    default ``folder``; `make_inputs` comes before.

    Raises DataError for bad data, UsageError for an unknown template or for a store that a newer version built,
    MachineError if the disk of ``folder`` is too small.
    """
    data = folder / DATA
    check_files(sources)
    grammars = grammar_files(sources)
    files, settings = _data_inputs(sources, grammars)
    if sources.from_lists:
        return cached(Recipe(data, files, settings, check_lists), partial(compile_lists, sources, folder))
    checked(sources.templates)
    data_file = Recipe(data, files, settings, check_data)
    lm_files = [
        Recipe((lms or folder) / lm_name(n, sources.external), [file], {}, check_lm)
        for n, file in enumerate(sources.lms)
        if n not in sources.estimated
    ]
    announce(folder, _estimates(sources, grammars, data_file, lm_files))
    compile_arrays = partial(compile_data, sources, grammars, parts, lms or folder)
    built = cached(data_file, compile_arrays)
    check_score_names(open_checked(data, check_data), sources.templates, grammars)
    for lm in lm_files:
        compile_lm = dict if sources.external else partial(_compile_lm, lm.inputs[0])
        built += cached(lm, compile_lm)
    for n in filter(sources.leaves_sentences_out, range(len(sources.lms))):
        own = Recipe(folder / own_name(n), *own_ngrams_inputs(sources, n), check_own_ngrams)
        built += cached(own, partial(compile_own_ngrams, sources, folder, lms or folder, n))
    return built


def _estimates(
    sources: StoreInputs, grammars: Sequence[Path], data: Recipe, lms: Sequence[Recipe]
) -> Iterator[Estimate]:
    """The estimates for the files that are to be built from text."""
    if sources.aligned is None and data.fault() is not None:
        yield of_grammars(grammars)
    for lm in () if sources.external else lms:
        if lm.fault() is not None:
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
        if sources.tokenize != "none":
            settings["tokenize"] = sources.tokenize
        return [*files, *([sources.lexicon] if sources.lexicon else [])], settings
    if sources.aligned is not None:
        settings["extracted"] = {**sources.aligned.settings, "leave_one_out": sources.leave_one_out}
        return [*files, *sources.aligned.files], settings
    return [*files, *grammars], settings


def needs_extraction(sources: StoreInputs, folder: Path) -> bool:
    """True if `build_store` needs grammars extracted from ``sources.aligned``, as parts."""
    data = Recipe(folder / DATA, *_data_inputs(sources, []), check_data)
    return sources.aligned is not None and data.fault() is not None


def inputs_of_grammars(sources: StoreInputs) -> dict[str, Any]:
    """What extracted grammars are made from, for the manifests of `ExtractedParts`."""
    return made_from(*_data_inputs(sources, []))


def build_bitext(files: AlignedFiles, folder: Path) -> Path:
    """Compile a bitext into ``folder`` unless it is up to date; returns the compiled file."""
    cached(Recipe(folder / BITEXT, files.files, files.settings, check_bitext), partial(compiled_bitext, files))
    return folder / BITEXT


def _compile_lm(file: Path) -> dict[str, np.ndarray]:
    return read_kenlm(file) if is_kenlm(file) else read_arpa(file)
