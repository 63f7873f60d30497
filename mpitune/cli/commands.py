"""Commands of the command line, except decode and local; their docstrings are the help texts."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from mpitune.cli.output import (
    load_job,
    open_output,
    print_message,
    raised_on_all_ranks,
    report_write_errors,
    write_output,
)
from mpitune.config.dtrain import import_job
from mpitune.config.load import load
from mpitune.config.spec import Job
from mpitune.corpus.bitext import AlignedFiles
from mpitune.corpus.eflomal import align
from mpitune.corpus.text import counted, lines
from mpitune.corpus.weights import export_weights
from mpitune.decoder.cdec.process import resolve_program
from mpitune.errors import MpituneError, UsageError
from mpitune.exchange.comm import Comm
from mpitune.lm.kneser_ney import estimate
from mpitune.metrics import significance
from mpitune.report.rule_names import rule_in_words
from mpitune.run_folder import model_weights
from mpitune.run_folder.status import follow
from mpitune.runtime.log import start_logging
from mpitune.runtime.progress import progress
from mpitune.store import build
from mpitune.store.extract_grammars import (
    GrammarExtractor,
    check_same_sentences,
    extract_and_build,
    read_inputs,
    warm_up,
)
from mpitune.store.store import rules_firing
from mpitune.training import factory, parallel_map
from mpitune.training.fit_bins import open_fitted
from mpitune.training.loop import train

STORED_BITEXT = ".bitext"
"""Folder, in the output folder, of the compiled bitext while `mpitune extract` runs."""
EXAMPLES = 3
"""Maximum number of rules that a report shows as examples of a feature."""
EACH_TEMPLATE = "each"
"""Value of --template that shows all templates, one after the other."""
NEAREST_RULES = 10
"""Number of rules that --near shows without --top."""

WeightGroup = tuple[str, list[tuple[str, float]]]
"""A heading, which may be empty, and pairs of feature name and weight."""


def run_train(options: argparse.Namespace, comm: Comm) -> None:
    """Learn the weights, continuing from checkpoints; alone, or under mpirun or srun."""
    job = load_job(options, comm)
    if options.dry_run:
        comm.on_root(print, job.to_toml() + _program_note(job), end="", flush=True)
    else:
        train(job, comm, resume=options.resume, quiet=options.quiet)


def _program_note(job: Job) -> str:
    """A comment on the program that the job runs; empty if it runs none."""
    if job.decoder.backend == "embedded":
        return ""
    return f"# This job runs {resolve_program(job.decoder.binary) or f'{job.decoder.binary}, which is not there'}\n"


def run_prepare(options: argparse.Namespace, comm: Comm) -> None:
    """Build the job's store, which train would otherwise build."""
    job = load_job(options, comm)
    start_logging(None, rank=comm.rank, size=comm.size)
    store, sources = job.run.store, factory.sources(job)
    made = extract_and_build(comm, sources, store, store, print_message, partial(progress, rank=comm.rank))
    if sources.train is not None:
        open_fitted(comm, job, sources, store, print_message)
    comm.on_root(print, f"{store}: {', '.join(made)} made" if made else f"{store}: up to date", flush=True)


def run_evaluate(options: argparse.Namespace, comm: Comm) -> None:
    """Score translations with sacreBLEU and test the systems against the first one."""

    def score() -> None:
        texts = {path: [line for _, line in lines(path)] for path in {*options.refs, *options.hyps}}
        result = significance.evaluate(
            [(str(path), texts[path]) for path in options.refs],
            [(str(path), texts[path]) for path in options.hyps],
            test=options.test,
            tokenize=options.tokenize,
            lowercase=options.lowercase,
        )
        print(json.dumps(result.as_json(), indent=1) if options.json else result.as_text(), flush=True)

    comm.on_root(score)


def run_extract(options: argparse.Namespace, comm: Comm) -> None:
    """Write a grammar for each sentence, from a word-aligned bitext; alone, or under mpirun or srun."""
    if (options.bitext is None) == (options.source is None) or (options.source is None) != (options.target is None):
        raise raised_on_all_ranks(UsageError("expected --source F and --target E, or --bitext FE"))
    files = AlignedFiles(options.bitext or options.source, options.target, options.alignment)
    output = options.output
    comm.on_root(files.check)
    read = comm.on_root(read_inputs, options.input)
    if options.leave_one_out:
        comm.on_root(check_same_sentences, files, [words for words, _ in read], options.input)

    def compile_bitext() -> Path:
        with report_write_errors(output):
            output.mkdir(parents=True, exist_ok=True)
        try:
            stored = build.build_bitext(files, output / STORED_BITEXT, print_message)
        except MpituneError:
            shutil.rmtree(output / STORED_BITEXT)
            raise
        warm_up(stored, print_message)
        return stored

    extraction = GrammarExtractor(comm.on_root(compile_bitext))

    def extract(i: int) -> int:
        rules = extraction.rules(read[i][0], i if options.leave_one_out else None)
        with open_output(output / f"grammar.{i}.gz") as file:
            file.write(extraction.lines(rules))
        return int(rules.size[0])

    counts = list(parallel_map.parallel_map(comm, len(read), extract, "extract", quiet=False))

    def finish() -> None:
        with open_output(output / "input.sgm") as file:
            for i, (words, rest) in enumerate(read):
                file.write(f'<seg grammar="grammar.{i}.gz" id="{i}">{" ".join(words)}</seg>{rest}\n'.encode())
        shutil.rmtree(output / STORED_BITEXT)
        print_message(f"{output / 'input.sgm'}: {counted(len(read), 'sentence')}, {counted(sum(counts), 'rule')}")

    comm.on_root(finish)


def run_align(options: argparse.Namespace, comm: Comm) -> None:
    """Align the words of a bitext by eflomal in both directions, symmetrised by grow-diag-final-and.

    eflomal is a random sampler without a seed option: links differ slightly between runs.
    """

    def make() -> None:
        links = 0
        with open_output(options.output) as file:
            for line in align(options.source, options.target, print_message):
                file.write(f"{line}\n".encode())
                links += line.count("-")
        print_message(f"{options.output}: {counted(links, 'link')}")

    comm.on_root(make)


def run_lm(options: argparse.Namespace, comm: Comm) -> None:
    """Estimate a language model: modified Kneser-Ney, written as ARPA."""

    def make() -> None:
        with report_write_errors(options.output):
            estimate(options.input, options.order, options.output, print_message)

    comm.on_root(make)


def run_import_dtrain(options: argparse.Namespace, comm: Comm) -> None:
    """Convert a configuration of dtrain to a job file, with a comment on each option."""

    def make() -> None:
        write_output(options.output, import_job(options.configuration, Path.cwd()))

    comm.on_root(make)


def run_report(options: argparse.Namespace, comm: Comm) -> None:
    """Report on a run, or compare runs: one self-contained HTML file, and plots."""
    # Imported here because its libraries take longer to load than all others together.
    from mpitune.report.html import write_report

    folders: list[Path] = options.run_folders
    if options.watch:
        comm.on_root(follow, folders)
        return

    def make() -> None:
        output = options.output or folders[0]
        with report_write_errors(output):
            path = write_report(folders, lambda names: _examples(folders[0], names), output)
        print(f"the report: {path}", flush=True)

    comm.on_root(make)


def _examples(run: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Rules that fire the features ``names``, as text; empty if the run's store no longer exists."""
    try:
        job = load(run / "config.toml")
        found = rules_firing(job.run.store, job.features.templates, names, EXAMPLES)
    except MpituneError:
        return {}
    return {
        name: [rule_in_words([*map(str, rule.source)], [*map(str, rule.target)]) for rule in rules]
        for name, rules in found.items()
    }


def run_weights(options: argparse.Namespace, comm: Comm) -> None:
    """Show the weights of a model: the largest, those of a template, some by name, or differences to another model."""

    def show() -> None:
        model = model_weights.read_model(options.model)
        other = model_weights.read_model(options.diff) if options.diff else None
        weights = model if other is None else model_weights.difference(model, other)
        groups = _select_weights(options, weights)
        if options.export:
            with report_write_errors(options.export):
                export_weights(options.export, sorted(pair for _, pairs in groups for pair in pairs))
        else:
            _print_weights(groups, model, other)

    comm.on_root(show)


def _select_weights(options: argparse.Namespace, weights: Mapping[str, float]) -> list[WeightGroup]:
    """The weights that the ``options`` select: one group, or one for each template."""
    if options.template == EACH_TEMPLATE and not options.near:
        groups = []
        for name in ("dense", *model_weights.PREFIXES):
            if selected := model_weights.filtered(weights, name, options.find):
                heading = f"# {name}: {counted(len(selected), 'feature')}"
                groups.append((heading, model_weights.largest(selected, options.top)))
        return groups
    template = None if options.template == EACH_TEMPLATE else options.template
    selected = model_weights.filtered(weights, template, options.find)
    if options.near:
        return [("", model_weights.nearest(selected, options.near, options.top or NEAREST_RULES))]
    return [("", model_weights.largest(selected, options.top))]


def _print_weights(
    groups: Sequence[WeightGroup], model: Mapping[str, float], other: Mapping[str, float] | None
) -> None:
    """Print the ``groups``; with an ``other`` model, each difference is followed by the weights of both models."""
    for heading, pairs in groups:
        if heading:
            print(heading)
        for name, value in pairs:
            both = "" if other is None else f" {model.get(name, 0.0)!r} {other.get(name, 0.0)!r}"
            print(f"{name} {value!r}{both}")
