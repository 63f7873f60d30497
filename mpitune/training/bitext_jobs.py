"""Fill in what a job with a bitext leaves out: links, language models, grammar and devtest set are made from it.

Without ``[grammar]``, the pairs of ``[data]`` are the bitext, and its sentences are tuned on, each with rules extracted
from all pairs but its own. Without ``[data.devtest]`` too, some pairs are held out for it and used for nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mpitune.config.spec import DataKeys, Job, tunes_on_bitext
from mpitune.corpus.bitext import AlignedFiles
from mpitune.store.bitext_inputs import BitextParts, EstimatedLm, MadeInput, WordAlignment
from mpitune.store.inputs import StoreInputs, Texts
from mpitune.store.store import lm_name

FOLDER = "inputs"
"""Folder of the files made, in the store."""


def with_made_inputs(job: Job, given: StoreInputs) -> StoreInputs:
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
        given = replace(given, train=_texts(parts.tuned), leave_one_out=True)
        if parts.holds_out:
            given = replace(given, devtest=_texts(parts.held_out))
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


def _texts(pair: tuple[Path, Path]) -> Texts:
    source, target = pair
    return Texts(source, (target,))
