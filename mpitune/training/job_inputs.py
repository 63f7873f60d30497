"""From a job file to the job, its input files, and what its result depends on.

What a job with a bitext leaves out is made from it: links, language models, grammar and devtest set. Without
``[grammar]``, the pairs of ``[data]`` are the bitext, and its sentences are tuned on, each with rules extracted from
all pairs but its own. Without ``[data.devtest]`` too, some pairs are held out for it and used for nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mpitune.array_files.cache import fingerprint
from mpitune.config import load
from mpitune.config.effective_keys import effective_keys
from mpitune.config.spec import DataKeys, Job, column_metrics, lm_names, tunes_on_bitext
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.lines import check_readable
from mpitune.errors import UsageError
from mpitune.files import is_folder, read_bytes
from mpitune.grammar.cdec_ini import SPAN_LIMIT, IniFile, read_inifile
from mpitune.ownership import reads
from mpitune.run_folder.layout import RunFolder, seed_folder
from mpitune.store.bitext_inputs import BitextParts, EstimatedLm, MadeInput, WordAlignment
from mpitune.store.inputs import StoreInputs, Texts, grammar_files
from mpitune.store.store import content_digests, lm_name

FOLDER = "inputs"
"""Folder of the files made, in the store."""


def load_job(path: Path, overrides: Sequence[str] = ()) -> Job:
    """The `completed` job in ``path`` with ``overrides`` (``table.key=value``)."""
    return completed(load.load(path, overrides))


def completed(job: Job) -> Job:
    """``job`` completed by its cdec.ini if it names one.

    A run folder as ``learner.initial_weights`` stands for the weights that it ended with.
    """
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
            notation = job.data.notation._replace(counts=keys.counts)
            devtest = Texts(keys.source, keys.references, lists=keys.lists, scores=scores, notation=notation)
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
    return _with_made_inputs(job, given)


def _with_made_inputs(job: Job, given: StoreInputs) -> StoreInputs:
    """``given`` with the job's bitext and language models; the files that it leaves out are made in its store."""
    folder = job.run.store / FOLDER
    made: list[MadeInput] = []
    source, target, links = job.grammar.source, job.grammar.target, job.grammar.alignment
    own, lm_text = None, target
    if job.data is not None and tunes_on_bitext(job):
        own = _target(job.data)
        parts = _parts(job, job.data, folder)
        made.append(parts)
        (source, target), links, lm_text = parts.bitext, parts.links, parts.bitext[1]
        given = replace(given, train=_of_pair(parts.tuned), leave_one_out=True)
        if parts.holds_out:
            given = replace(given, devtest=_of_pair(parts.held_out))
    aligned = None
    if source is not None and target is not None:
        if not links:
            links = (folder / "links.gz",)
            made.append(WordAlignment(source, target, links[0]))
        aligned = AlignedFiles(source, target, links)
    lms, lm_texts = list[Path](), list[tuple[Path, ...] | None]()
    estimated: dict[int, EstimatedLm] = {}
    for n, lm in enumerate(job.lm):
        model, texts = lm.file, lm.text
        if model is None:
            named = [lm_text if text == own else text for text in lm.text or (lm_text,)]
            texts = tuple(text for text in named if text)
            if given.external:
                model = folder / f"lm-{n}.arpa.gz"
                made.append(EstimatedLm(texts, lm.order, model))
            else:
                model = job.run.store / lm_name(n)
                estimated[n] = EstimatedLm(texts, lm.order, model)
        lms.append(model)
        # A model that the job estimates from its bitext would have seen what is tuned on.
        of_bitext = lm.file is None and lm_text in texts
        lm_texts.append(texts if job.learner.lm_leave_one_out or of_bitext else None)
    references, of_grammar = (
        job.data.references if job.data else (),
        (job.grammar.target,) if job.grammar.target else (),
    )
    likely = dict.fromkeys([references, of_grammar, (*references, *of_grammar)])
    return replace(
        given,
        aligned=aligned,
        lms=tuple(lms),
        estimated=estimated,
        lm_texts=tuple(lm_texts),
        likely_texts=tuple(texts for texts in likely if texts),
        made=tuple(made),
    )


def _parts(job: Job, data: DataKeys, folder: Path) -> BitextParts:
    source = data.bitext or data.source
    assert source is not None  # checked by config.checks
    own = _target(data)
    return BitextParts(
        source=source,
        target=own,
        alignments=job.grammar.alignment,
        folder=folder,
        limit=data.limit,
        holds_out=data.devtest is None,
        makes_lm=any(lm.file is None and (not lm.text or own in lm.text) for lm in job.lm),
    )


def _target(data: DataKeys) -> Path | None:
    """The file of the target side; None if the bitext is one file."""
    return data.references[0] if data.references else None


def _of_pair(pair: tuple[Path, Path]) -> Texts:
    source, target = pair
    return Texts(source, (target,))


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
    return Texts(
        source,
        data.references,
        bitext=is_bitext,
        limit=data.limit,
        lists=data.lists,
        scores=scores,
        notation=data.notation,
    )


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
