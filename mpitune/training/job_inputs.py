"""From a job file to the job, its input files, and what its result depends on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mpitune.array_files.cache import fingerprint
from mpitune.config import load
from mpitune.config.effective_keys import effective_keys
from mpitune.config.spec import DataKeys, Job, column_metrics, lm_names
from mpitune.corpus.lines import check_readable
from mpitune.errors import UsageError
from mpitune.files import is_folder, read_bytes
from mpitune.grammar.cdec_ini import SPAN_LIMIT, IniFile, read_inifile
from mpitune.ownership import reads
from mpitune.run_folder.layout import RunFolder, seed_folder
from mpitune.store.inputs import StoreInputs, Texts, grammar_files
from mpitune.store.store import content_digests
from mpitune.training.bitext_jobs import with_made_inputs


def load_job(path: Path, overrides: list[str]) -> Job:
    """The job in ``path`` with ``overrides`` (``table.key=value``), completed by its cdec.ini if it names one.

    A run folder as ``learner.initial_weights`` stands for the weights that it ended with.
    """
    job = load.load(path, overrides)
    given = job.learner.initial_weights
    if given is not None and is_folder(given):
        job = replace(job, learner=replace(job.learner, initial_weights=RunFolder(given).result))
    return _with_inifile(job, job.decoder.config) if job.decoder.config is not None else job


def is_configuration(job: Job) -> bool:
    """True if the file of ``job`` is the configuration in its own run folder, as the run has written it.

    A run that replaces it takes nothing from the user but what ``--set`` changes.
    """
    config = RunFolder(job.run.dir).config
    if os.path.realpath(job.file) != os.path.realpath(config):
        return False
    return load.load(job.file).to_toml() == read_bytes(job.file, load.MAX_JOB).decode()


def _with_inifile(job: Job, file: Path) -> Job:
    """``job`` completed by the cdec.ini ``file``."""
    check_readable(file)
    ini = read_inifile(file)
    reads([*ini.grammars, *(lm for _, lm in ini.language_models)])
    external = job.decoder.backend == "cdec"
    lacking = ini.unsupported() if external else ini.unsupported_by_embedded()
    if ini.grammars and job.grammar.per_sentence and not external:
        lacking.append("a grammar beside those of the sentences (grammar.per_sentence)")
    if lacking:
        whose = "mpitune cannot tune" if external else "the embedded decoder does not have"
        raise UsageError(f"{file}: found {', '.join(lacking)}, which {whose}")
    given: dict[str, Any] = {
        "decoder.pop_limit": ini.pop_limit,
        "decoder.span_limit": ini.span_limit or SPAN_LIMIT,
        "grammar.file": str(ini.grammars[0].absolute()) if ini.grammars else None,
        "features.templates": list(ini.templates) or None,
        "lm": [{"file": str(lm.absolute()), "name": name} for name, lm in ini.language_models] or None,
    }
    return load.complete_from_cdec_ini(job, {key: value for key, value in given.items() if value is not None}, file)


def with_seed(job: Job, seed: int) -> Job:
    """``job`` as one of several runs that differ in their ``seed``: with a run folder of its own, the same store."""
    return replace(job, run=replace(job.run, seed=seed, dir=seed_folder(job.run.dir, seed)))


def sources(job: Job) -> StoreInputs:
    """The files that the job's store is made from, those in the store that stand for what the job leaves out too."""
    train = devtest = None
    if job.data is not None:
        train = _texts(job.data, {of.name: of.file for of in job.features.files})
        if job.data.devtest is not None:
            keys = job.data.devtest
            scores = {of.name: of.devtest for of in job.features.files if of.devtest is not None}
            devtest = Texts(keys.source, keys.references, lists=keys.lists, scores=scores)
    given = StoreInputs(
        train=train,
        devtest=devtest,
        grammar=job.grammar.file,
        grammar_folder=job.grammar.folder,
        table_format="cdec" if job.decoder.backend == "cdec" else job.grammar.format,
        templates=job.features.templates,
        lexicon=job.features.lexicon,
        metrics=column_metrics(job),
        lm_names=lm_names(job),
        external=job.decoder.backend == "cdec",
        further_grammars=further_grammars(job),
        leave_one_out=job.grammar.leave_one_out,
        max_translations=job.grammar.max_translations,
    )
    return with_made_inputs(job, given)


def inifile(job: Job) -> IniFile | None:
    """The job's cdec.ini, if it names one."""
    return read_inifile(job.decoder.config) if job.decoder.config is not None else None


def further_grammars(job: Job) -> tuple[Path, ...]:
    """Grammars of the cdec.ini that an external decoder uses in addition to the job's own."""
    ini = inifile(job)
    if ini is None or job.decoder.backend != "cdec":
        return ()
    grammars = tuple(file.absolute() for file in ini.grammars)
    if job.grammar.per_sentence:
        return grammars
    return grammars[1:] if grammars[:1] == (job.grammar.file,) else ()


def _texts(data: DataKeys, scores: Mapping[str, Path]) -> Texts:
    is_bitext, source = data.bitext is not None, data.bitext or data.source
    return Texts(source, data.references, bitext=is_bitext, limit=data.limit, lists=data.lists, scores=scores)


def sentence_grammars(job: Job, sources: StoreInputs) -> list[Path]:
    """Files of the sentences' grammars, by number, if an external decoder reads them; else none."""
    return grammar_files(sources) if sources.external and job.grammar.per_sentence else []


def identity(job: Job, folder: Path) -> dict[str, Any]:
    """Keys that the result depends on, by dotted name (JSON types); files are represented by digests of their content.

    ``folder``: the job's store, up to date.
    """
    given = {key: list(v) if isinstance(v, tuple) else v for key, v in effective_keys(job).items()}
    initial = job.learner.initial_weights
    given["learner.initial_weights"] = fingerprint(initial).digest if initial else ""
    ini = inifile(job)
    if ini is not None and job.decoder.backend == "cdec":
        given["decoder.config"] = ini.decoder_only_settings()
    return given | content_digests(sources(job), folder)
