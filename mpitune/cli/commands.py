"""Commands of the command line without a module of their own; `mpitune.cli.options` has their help texts."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from mpitune.cli.options import EACH_TEMPLATE
from mpitune.cli.output import (
    check_apart,
    load_job,
    open_output,
    print_message,
    raised_on_all_ranks,
    report_write_errors,
    write_output,
)
from mpitune.config.dtrain import import_job
from mpitune.config.load import load
from mpitune.config.spec import MAX_SEED, Job
from mpitune.corpus.eflomal import write_alignment
from mpitune.corpus.text import counted, lines
from mpitune.corpus.weights import export_weights
from mpitune.decoder.cdec.process import resolve_program
from mpitune.errors import DataError, MpituneError, UsageError
from mpitune.exchange.comm import Comm
from mpitune.grammar.choices import PREFIXES
from mpitune.lm.kneser_ney import estimate
from mpitune.metrics.evaluation import SystemRuns, evaluate
from mpitune.metrics.list_evaluation import as_table, evaluate_lists
from mpitune.metrics.sacrebleu import check_counts
from mpitune.metrics.tuning_metric import CHOICES
from mpitune.report.rule_names import rule_in_words
from mpitune.run_folder import model_weights
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.seeds import run_folders
from mpitune.run_folder.watch import follow
from mpitune.runtime.log import start_logging
from mpitune.runtime.progress import progress
from mpitune.runtime.signals import StopFlag
from mpitune.store.extract_grammars import extract_and_build
from mpitune.store.input_checks import check_files
from mpitune.store.store import rules_firing
from mpitune.training import job_inputs
from mpitune.training.fit_bins import open_fitted
from mpitune.training.loop import train

EXAMPLES = 3
"""Maximum number of rules that a report shows as examples of a feature."""
NEAREST_RULES = 10
"""Number of rules that --near shows without --top."""

WeightGroup = tuple[str, list[tuple[str, float]]]
"""A heading, which may be empty, and pairs of feature name and weight."""


def run_train(options: argparse.Namespace, comm: Comm) -> None:
    """Learn the weights, continuing from checkpoints; alone, or under mpirun or srun."""
    seeds = None if options.seeds is None else _parse_seeds(options.seeds)
    job = load_job(options, comm)
    if options.dry_run:
        comm.on_root(_show, job)
        return
    comm.on_root(_refuse_other_kind, job.run.dir, seeds is not None)
    for each in [job] if seeds is None else (job_inputs.with_seed(job, seed) for seed in seeds):
        options.folder = each.run.dir
        train(each, comm, resume=options.resume, quiet=options.quiet)


def _refuse_other_kind(folder: Path, of_seeds: bool) -> None:
    """Raise UsageError for a single run in a ``folder`` of runs with several seeds, which it would hide from reports.

    The same if ``of_seeds`` runs are to go to the folder of a single run.
    """
    if of_seeds and RunFolder(folder).config.is_file():
        raise UsageError(f"{folder}: found a single run, expected no --seeds or another run.dir")
    if not of_seeds and run_folders(folder) != [folder]:
        raise UsageError(f"{folder}: found runs with several seeds, expected --seeds or another run.dir")


def _show(job: Job) -> None:
    """Print all keys; warn of the first file that cannot be read, as it may be still to be made."""
    print(job.to_toml() + _program_note(job), end="", flush=True)
    try:
        check_files(job_inputs.sources(job))
    except DataError as error:
        print_message(f"warning: {error}")


def _parse_seeds(text: str) -> range:
    """The seeds of ``--seeds A..B``, both included. Raises UsageError on all ranks."""
    match = re.fullmatch(r"([0-9]{1,19})\.\.([0-9]{1,19})", text)
    first, last = (int(number) for number in match.groups()) if match else (1, 0)
    if first > last or last > MAX_SEED:
        raise raised_on_all_ranks(UsageError(f"--seeds {text}: expected A..B, whole numbers with A no larger than B"))
    return range(first, last + 1)


def _program_note(job: Job) -> str:
    """A comment on the program that the job runs; empty if it runs none."""
    if job.decoder.backend != "cdec":
        return ""
    return f"# This job runs {resolve_program(job.decoder.binary) or f'{job.decoder.binary}, which is not there'}\n"


def run_prepare(options: argparse.Namespace, comm: Comm) -> None:
    """Build the job's store, which train would otherwise build."""
    job = load_job(options, comm)
    start_logging(None, rank=comm.rank, size=comm.size)
    store, sources = job.run.store, job_inputs.sources(job)
    with StopFlag() as stop:
        made = extract_and_build(comm, sources, store, store, print_message, partial(progress, rank=comm.rank), stop)
        if sources.train is not None:
            open_fitted(comm, job, sources, store, print_message, stop)
    comm.on_root(print, f"{store}: {', '.join(made)} made" if made else f"{store}: up to date", flush=True)


def run_evaluate(options: argparse.Namespace, comm: Comm) -> None:
    """Score translations by BLEU, TER, chrF and length, and test systems against the first one; or n-best lists."""

    def score() -> None:
        if options.lists:
            _evaluate_lists(options)
            return
        if not options.refs:
            raise UsageError("--refs: found none, expected one or more files beside --hyps and --system")
        systems = _systems(options)
        result = evaluate(
            [_read_text(path) for path in options.refs],
            [SystemRuns(name, [_read_text(file) for file in files]) for name, files in systems.items()],
            test=options.test,
            tokenize=options.tokenize,
            lowercase=options.lowercase,
        )
        if options.json:
            print(json.dumps(result.as_json(), indent=1), flush=True)
        else:
            print(result.as_markdown() if options.markdown else result.as_text(), flush=True)

    comm.on_root(score)


def _evaluate_lists(options: argparse.Namespace) -> None:
    """Print the metrics of the first entries of lists, of their best ones, and of a random choice."""
    for option in ("test", "tokenize", "lowercase", "markdown"):
        if getattr(options, option) not in (None, False, "none"):
            raise UsageError(f"--{option}: found beside --lists, expected --json at most")
    references = [_read_text(path) for path in options.refs]
    if references:
        check_counts(references)
    texts = [lines for _, lines in references]
    scores = {str(path): evaluate_lists(path, texts, print_message) for path in options.lists}
    if options.json:
        by_choice = {
            file: {name: dict(zip(CHOICES, of_choice, strict=True)) for name, of_choice in of_file.items()}
            for file, of_file in scores.items()
        }
        print(json.dumps(by_choice, indent=1), flush=True)
    else:
        print(as_table(scores), flush=True)


def _systems(options: argparse.Namespace) -> dict[str, list[Path]]:
    """By name of a system, the files of its runs."""
    given = options.system or [[str(path), path] for path in options.hyps]
    systems: dict[str, list[Path]] = {}
    for name, *files in given:
        if not files:
            raise UsageError(f"--system {name}: found no translations, expected a name and a file for each run")
        if name in systems:
            raise UsageError(f"found two systems called {name}, expected a name for each")
        systems[name] = [Path(file) for file in files]
    return systems


def _read_text(path: Path) -> tuple[str, list[str]]:
    return str(path), [line for _, line in lines(path)]


def run_align(options: argparse.Namespace, comm: Comm) -> None:
    """Align the words of a bitext by eflomal in both directions, symmetrised by grow-diag-final-and.

    eflomal is a random sampler without a seed option: links differ slightly between runs.
    """

    start_logging(None, rank=comm.rank, size=comm.size)

    def make() -> None:
        check_apart(options.output, [options.source, options.target])
        with stop.interrupts("the word alignment", resumable=False), open_output(options.output) as file:
            links = write_alignment(file, options.source, options.target, print_message, progress)
        print_message(f"{options.output}: {counted(links, 'link')}")

    with StopFlag() as stop:
        comm.on_root(make)


def run_lm(options: argparse.Namespace, comm: Comm) -> None:
    """Estimate a language model: modified Kneser-Ney, written as ARPA."""

    start_logging(None, rank=comm.rank, size=comm.size)

    def make() -> None:
        check_apart(options.output, [options.input, options.vocabulary])
        with stop.interrupts("the language model", resumable=False), report_write_errors(options.output):
            estimate(
                options.input, options.order, options.output, print_message, progress, vocabulary=options.vocabulary
            )

    with StopFlag() as stop:
        comm.on_root(make)


def run_import_dtrain(options: argparse.Namespace, comm: Comm) -> None:
    """Convert a configuration of dtrain to a job file, with a comment on each option."""

    def make() -> None:
        check_apart(options.output, [options.configuration])
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
            path = write_report(folders, _examples, output)
        print(f"the report: {path}", flush=True)

    comm.on_root(make)


def _examples(run: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Rules that fire the features ``names``, as text; empty for lists, or if the store no longer exists."""
    try:
        job = load(RunFolder(run).config)
        if job.decoder.backend == "lists":
            return {}
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
        check_apart(options.export, model_weights.files_of_models([options.model, options.diff]))
        model = model_weights.read_model(options.model)
        other = model_weights.read_model(options.diff) if options.diff else None
        weights = model if other is None else model_weights.difference(model, other)
        groups = _select_weights(options, weights)
        if options.export:
            with report_write_errors(options.export):
                options.export.parent.stat()  # a misspelt name: not created
                export_weights(options.export, sorted(pair for _, pairs in groups for pair in pairs))
        else:
            _print_weights(groups, model, other)
        if weights and not any(pairs for _, pairs in groups):
            print_message(f"{options.model}: none of {counted(len(weights), 'weight')} matches")

    comm.on_root(show)


def _select_weights(options: argparse.Namespace, weights: Mapping[str, float]) -> list[WeightGroup]:
    """The weights that the ``options`` select: one group, or one for each template."""
    if options.template == EACH_TEMPLATE and not options.near:
        groups = []
        for name in ("dense", *PREFIXES):
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
