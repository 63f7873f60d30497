"""The command `mpitune evaluate`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from mpitune.cli.notation import given_notation
from mpitune.cli.output import print_message
from mpitune.corpus.lines import lines
from mpitune.corpus.text import joined_references
from mpitune.decoder.lists.notation import AS_FOUND
from mpitune.errors import UsageError
from mpitune.exchange.comm import Comm
from mpitune.metrics.evaluation import SystemRuns, evaluate
from mpitune.metrics.list_evaluation import as_table, evaluate_lists
from mpitune.metrics.sacrebleu import References, check_counts
from mpitune.metrics.tuning_metric import CHOICES


def run_evaluate(options: argparse.Namespace, comm: Comm) -> None:
    """Score translations by BLEU, TER, chrF and length, and test systems against the first one; or n-best lists."""

    def score() -> None:
        if options.lists:
            _evaluate_lists(options)
            return
        if given_notation(options) != AS_FOUND:
            raise UsageError("--format, --list-size, --counts and --join: found without --lists")
        if not options.refs:
            raise UsageError("--refs: found none, expected one or more files beside --hyps and --system")
        systems = _systems(options)
        result = evaluate(
            _read_references(options.refs),
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
    texts = [lines for _, lines in _read_references(options.refs)]
    notation = given_notation(options)
    scores = {str(path): evaluate_lists(path, texts, print_message, notation) for path in options.lists}
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
    given = options.system or [[path, path] for path in options.hyps]
    systems: dict[str, list[Path]] = {}
    for name, *files in given:
        if not files:
            raise UsageError(f"--system {name}: found no translations, expected a name and a file for each run")
        if str(name) in systems:
            raise UsageError(f"found two systems called {name}, expected a name for each")
        systems[str(name)] = files
    return systems


def _read_references(paths: Sequence[Path]) -> list[References]:
    """The texts of references, without those that are missing; standard error says how many are."""
    texts = [_read_text(path) for path in paths]
    if texts:
        check_counts(texts)
    sentences = zip(*(lines for _, lines in texts), strict=True)
    joined = joined_references(sentences, paths, lambda text: print_message(f"warning: {text}"))
    return list(zip(map(str, paths), zip(*joined, strict=True), strict=True))


def _read_text(path: Path) -> tuple[str, list[str]]:
    return str(path), [line for _, line in lines(path)]
