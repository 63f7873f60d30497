"""The command `mpitune weights`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from mpitune.api.job import load_plugins_of
from mpitune.cli.options import EACH_TEMPLATE
from mpitune.cli.output import print_message, print_warning
from mpitune.corpus.weights import export_weights, is_moses
from mpitune.corpus.wording import counted
from mpitune.decoder.base import built_in_features
from mpitune.errors import UsageError, printable
from mpitune.exchange.comm import Comm
from mpitune.files import writing
from mpitune.grammar.sparse import TEMPLATES
from mpitune.run_folder import model_weights

NEAREST_RULES = 10
"""Number of rules that --near shows without --top."""

WeightGroup = tuple[str, list[tuple[str, float]]]
"""A heading, which may be empty, and pairs of feature name and weight."""


def run_weights(options: argparse.Namespace, comm: Comm) -> None:
    """Show the weights of a model: the largest, those of a template, some by name, or differences to another model."""

    def show() -> None:
        for path in filter(None, (options.model, options.diff)):
            load_plugins_of(path, print_warning)
        if options.template not in (None, *(known := ["dense", *TEMPLATES, EACH_TEMPLATE])):
            raise UsageError(f"--template: found {options.template}, expected one of {', '.join(known)}")
        model = model_weights.read_model(options.model)
        if options.export and is_moses(options.export):
            _check_moses(options, model)
        other = model_weights.read_model(options.diff) if options.diff else None
        weights = model if other is None else model_weights.difference(model, other)
        groups = _select_weights(options, weights)
        if options.export:
            with writing(options.export):
                options.export.parent.stat()  # a misspelt name: not created
                export_weights(options.export, sorted(pair for _, pairs in groups for pair in pairs))
        else:
            _print_weights(groups, model, other)
        if weights and not any(pairs for _, pairs in groups):
            print_message(f"{options.model}: none of {counted(len(weights), 'weight')} matches")

    comm.on_root(show)


def _check_moses(options: argparse.Namespace, model: Mapping[str, float]) -> None:
    """Raise UsageError for weights that a moses.ini cannot hold: some alone, or those of mpitune's own decoder."""
    if options.top or options.find or options.near or options.diff:
        expected = "all weights of a template, or all: 0 would stand for the others"
        raise UsageError(f"--export {options.export}: found --top, --find, --near or --diff, expected {expected}")
    if own := [name for name in built_in_features(()) if name in model]:
        expected = "weights learned from Moses' n-best lists: those of a hierarchical job have other names and units"
        raise UsageError(f"--export {options.export}: found a weight of {own[0]}, expected {expected}")


def _select_weights(options: argparse.Namespace, weights: Mapping[str, float]) -> list[WeightGroup]:
    """The weights that the ``options`` select: one group, or one for each template."""
    selected = {name: value for name, value in weights.items() if options.find is None or options.find in name}
    if options.template == EACH_TEMPLATE and not options.near:
        return [
            (f"# {template}: {counted(len(part), 'feature')}", model_weights.largest(part, options.top))
            for template, part in model_weights.by_template(selected).items()
            if part
        ]
    if options.template not in (None, EACH_TEMPLATE):
        selected = model_weights.by_template(selected)[options.template]
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
            print(f"{printable(name)} {value!r}{both}")
