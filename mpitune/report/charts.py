"""The plots of a report, by section, from the metrics of one or more runs; the report is about the first one.

To add a plot of metrics over epochs, add a row to `QUALITY`, `SELECTION` or `MACHINE`; to add a section, add it to
`sections`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from statistics import mean, stdev
from typing import NamedTuple

import numpy as np

from mpitune.grammar.score_transforms import Scoring, apply_transform
from mpitune.report import plots
from mpitune.report.plots import Key, Mark, Plot, Series
from mpitune.run_folder.model_weights import read_scoring
from mpitune.run_folder.reader import Record

MAX_PARTS = 400
"""Maximum number of time intervals in the timeline of ranks."""
MAX_BANDS = 24
"""Maximum number of bands; with more ranks, a band shows the mean of several."""


class Lines(NamedTuple):
    """A plot of metrics over epochs."""

    name: str
    title: str
    text: str
    """Like the title, with fields of the first run in braces."""
    metrics: Mapping[str, str]
    """Fields of an epoch, each with its entry in the legend."""
    scale: str = ""
    """As of `plots.lines`."""
    alone: str = ""
    """The text if the other metrics are unknown, or no others than the first."""
    same: str = ""
    """A field of runs: they are not comparable if it differs."""


_PUBLISHED = "with the weights published after each epoch"
_OF_TRAINING = "of the training set: 1-best translations"
_CHOICES = {"metric_best": "1-best", "metric_oracle": "oracle", "metric_random": "random choice"}
_BLEU = {"best_bleu": "1-best", "oracle_bleu": "oracle", "prediction_bleu": "prediction"}

QUALITY = (
    Lines("bleu", "Devtest BLEU", _PUBLISHED, {"devtest_bleu": ""}),
    Lines("devtest-metric", "Devtest {0.metric}", _PUBLISHED, {"devtest_metric": ""}, same="metric"),
    Lines(
        "gold",
        "Mean gold score",
        "of the 1-best translations of the training sentences, during training",
        {"gold": ""},
    ),
    Lines(
        "choices",
        "{0.metric} of the lists",
        "of the training set: the 1-best translations, the best entry of each list, and one drawn at random",
        _CHOICES,
        same="metric",
    ),
    Lines("picked", "BLEU while training", f"{_OF_TRAINING}, oracles and predictions", _BLEU, alone=_OF_TRAINING),
    Lines(
        "objective",
        "Objective",
        "of {0.method}, over all lists accumulated so far",
        {"objective": ""},
        same="method",
    ),
)
SELECTION = (
    Lines(
        "features",
        "Number of features",
        "active after the epoch, and selected for the published weights",
        {"active_features": "active", "selected_features": "selected"},
        "zero",
        alone="active after the epoch; all are published",
    ),
    Lines(
        "weight-norm",
        "Norm of w",
        "‖w‖ of the weights published after each epoch, without frozen ones",
        {"weight_norm": ""},
        "zero",
    ),
    Lines("lambda", "λ", "the smallest column norm of a selected feature", {"cut": ""}, "log"),
)
MACHINE = (
    Lines(
        "throughput",
        "Throughput: sentences per second",
        "training sentences per second of all ranks together; the time includes devtest and exchange",
        {"rate": ""},
        "zero",
    ),
)


class Section(NamedTuple):
    """A section of the report."""

    anchor: str
    title: str
    text: str
    plots: list[Plot]


class Family(NamedTuple):
    """The runs of one job, which differ in their seed; or a single run."""

    name: str
    records: Sequence[Record]

    @property
    def several(self) -> bool:
        return len(self.records) > 1

    def spread(self, key: str) -> tuple[float, float] | None:
        """Mean and standard deviation (with n - 1) of a field of several runs; None if one has no value."""
        values = [getattr(record, key) for record in self.records]
        return (mean(values), stdev(values)) if self.several and None not in values else None

    def curve(self, metric: str, colour: int, style: str) -> Series | None:
        """A metric over epochs; of several runs the mean with a band, over the epochs that all of them have."""
        found = [
            {epoch.epoch: y for epoch in record.epochs if (y := getattr(epoch, metric)) is not None}
            for record in self.records
        ]
        epochs = sorted(set.intersection(*map(set, found)))
        columns = [[run[epoch] for run in found] for epoch in epochs]
        band = [stdev(column) for column in columns] if self.several else ()
        return Series(epochs, [mean(column) for column in columns], colour, style, band) if epochs else None


class Runs(NamedTuple):
    """The runs of a report."""

    families: Sequence[Family]
    """One colour each."""
    names: Sequence[str]
    """One unique name per run."""
    before: float | None
    """Devtest BLEU of the first run before training; None if unknown."""

    @property
    def records(self) -> list[Record]:
        return [record for family in self.families for record in family.records]

    @property
    def several(self) -> bool:
        return len(self.records) > 1

    @property
    def any_bleu(self) -> bool:
        return any(record.has_bleu for record in self.records)

    def colour(self, family: int) -> int | None:
        """The colour of what belongs to a family; None if there is no other one."""
        return family if len(self.families) > 1 else None

    def keys(self, styles: Mapping[str, str]) -> list[Key]:
        """The legend: the colours of families, if there are several, and the ``styles`` of curves with their texts."""
        if len(self.families) == 1:
            return [Key(text, 0, style) for style, text in styles.items()]
        colours = [Key(family.name, colour, "solid") for colour, family in enumerate(self.families)]
        return colours + [Key(text, None, style) for style, text in styles.items()]


class Response(NamedTuple):
    """The response curve of a score in bins: its contribution to the model score as a function of its value.

    See Clark, Dyer and Lavie (TACL 2014) and `mpitune.grammar.binning`. Bins are in ascending order of their
    (transformed) values.
    """

    feature: str
    transform: str | None
    least: np.ndarray
    """float64 [bins]: smallest value in each bin."""
    most: np.ndarray
    """float64 [bins]: largest value in each bin."""
    contribution: np.ndarray
    """float64 [bins]: contribution to the model score: the weights of the bins that fire for a value in this bin, plus,
    if the feature itself is kept, its weight times the middle value of the bin."""
    population: np.ndarray
    """int64 [bins]: number of rules in the training grammars with a value in the bin."""


def sections(runs: Runs) -> list[Section]:
    """The sections that have plots."""
    record = runs.records[0]
    chosen = f"The dotted line marks epoch {record.chosen.epoch}, "
    chosen += "the best; the dense start is better." if record.dense_start_is_best else "whose weights are the result."
    if runs.several:
        chosen = "Dotted lines mark the best epochs, whose weights are the result if no dense start is better."
    if any(family.several for family in runs.families):
        chosen += " Curves of several seeds are means, with a band of one standard deviation on either side."
    active = "A feature is active if it has a weight after the epoch."
    if any(each.selects for each in runs.records):
        active = "A feature is active if any shard gives it a weight; the features of largest column norm are selected."
    in_bins = "Contribution of a score to the model score of a rule, by the score's value: the weights of its bins."
    found = [
        Section("curves", "Epoch by epoch", chosen, _lines(QUALITY, runs)),
        Section("selection", "Features", active, [*_lines(SELECTION, runs), *_norms(runs)]),
        Section("responses", "Features in bins", in_bins, list(_responses(record))),
        Section("ranks", "Time and ranks", _use(record), [*_lines(MACHINE, runs), *_timeline(runs)]),
    ]
    return [section for section in found if section.plots]


def responses(scoring: Scoring, weights: Mapping[str, float]) -> list[Response]:
    """The response curves of all features in bins, for these ``weights``."""
    curves = []
    for bins in scoring.bins:
        transform = scoring.transforms.get(bins.feature)
        least, most = (
            np.array([apply_transform(transform, v) for v in side.tolist()]) for side in (bins.least, bins.most)
        )
        weight = np.array([weights.get(name, 0.0) for name in bins.names])
        overlap = range(-scoring.overlap, scoring.overlap + 1)
        contribution = np.sum([np.eye(len(weight), k=k) @ weight for k in overlap], axis=0)
        if scoring.keep:
            contribution += weights.get(bins.feature, 0.0) * (least + most) / 2
        columns = [least, most, contribution, bins.population]
        if least[0] > most[-1]:
            # The transform is decreasing: reverse the bins.
            columns = [column[::-1] for column in (most, least, contribution, bins.population)]
        curves.append(Response(bins.feature, transform, *columns))
    return curves


def _lines(table: Sequence[Lines], runs: Runs) -> list[Plot]:
    """The plots of the ``table`` that all runs can be compared on and that any of them has metrics for."""
    found, first = [], runs.records[0]
    for row in table:
        series: list[Series] = []
        legend = {}
        for style, (metric, text) in zip(plots.DASHES, row.metrics.items(), strict=False):
            curves = [family.curve(metric, colour, style) for colour, family in enumerate(runs.families)]
            known = [curve for curve in curves if curve is not None]
            repeats = row.alone and [curve.y for curve in known] == [curve.y for curve in series]
            if known and not repeats:
                series += known
                legend[style] = text
        if not series or (row.same and len({getattr(record, row.same) for record in runs.records}) > 1):
            continue
        text, notes = row.alone if row.alone and len(legend) == 1 else row.text, []
        if row.name == "bleu" and not runs.several:
            best = first.chosen.devtest_bleu or 0.0
            notes = [(first.chosen.epoch, best, f"{best:.2f}")]
            if runs.before is not None:
                notes.append((0, runs.before, f"before {runs.before:.2f}"))
                series = [Series([0, *series[0].x], [runs.before, *series[0].y])]
                text += "; 0: before training"
        marks = [
            Mark(record.chosen.epoch, runs.colour(i))
            for i, family in enumerate(runs.families)
            for record in family.records
            if getattr(record.chosen, next(iter(row.metrics))) is not None
        ]
        draw = partial(plots.lines, series=series, marks=marks, notes=notes, scale=row.scale)
        keys = runs.keys(legend if len(legend) > 1 else {})
        found.append(Plot(row.name, row.title.format(first), text.format(first), draw, keys))
    return found


def _norms(runs: Runs) -> Iterable[Plot]:
    """The sorted column norms of the first run of each family."""
    series, marks = [], []
    for i, family in enumerate(runs.families):
        epoch = family.records[0].chosen
        if epoch.column_norms:
            norms, counts = zip(*reversed(epoch.column_norms), strict=True)
            series.append(Series(counts, norms, i))
            marks += [Mark(epoch.selected_features, runs.colour(i))]
            marks += [Mark(epoch.cut, runs.colour(i), across=True)] if epoch.cut else []
    if not series:
        return
    epoch = runs.records[0].chosen
    text = f"of {runs.names[0]}, " if runs.several else ""
    text += f"after epoch {epoch.epoch}; dotted: the cut, at {epoch.selected_features:,} features"
    text += f" and λ = {epoch.cut:.3g}" if epoch.cut else ""
    if len(runs.families) > 1:
        text = "after each run's chosen epoch"
    draw = partial(plots.steps, series=series, marks=marks, x_label="features")
    yield Plot("norms", "Sorted column norms", text, draw, runs.keys({}))


def _responses(record: Record) -> Iterable[Plot]:
    """Two plots of each of the grammar's scores that are in bins."""
    scoring = read_scoring(record.path)
    for number, curve in enumerate(responses(scoring, record.weights) if scoring else ()):
        # Two points per bin: at its smallest and at its largest value.
        values = np.column_stack([curve.least, curve.most]).ravel().tolist()
        by_value = Series(values, np.repeat(curve.contribution, 2).tolist())
        draw = partial(plots.response, series=by_value, x_label="value, unlogged" if curve.transform else "value")
        text = f"{len(curve.contribution)} bins, {curve.population.sum():,} rules"
        yield Plot(f"response-{number}", curve.feature, text, draw)
        rules = curve.population.tolist()
        by_bin = Series(range(1, len(rules) + 1), curve.contribution.tolist())
        draw = partial(plots.response, series=by_bin, x_label="bin, smallest values first", bars=rules)
        text = f"bars: number of rules in each bin, {min(rules):,} to {max(rules):,}"
        yield Plot(f"bins-{number}", f"{curve.feature}, by bin", text, draw)


def _ranks(record: Record) -> int:
    """Ranks that took part in all epochs: their number may change when a run is resumed."""
    return min(len(epoch.timeline) for epoch in record.epochs)


def _use(record: Record) -> str:
    """The use of time and memory by the ranks."""
    busy = sum(sum(epoch.busy_seconds) for epoch in record.epochs)
    waiting = sum(sum(epoch.wait_seconds) for epoch in record.epochs)
    text = ""
    if busy + waiting > 0 and _ranks(record) > 1:
        share = 100 * busy / (busy + waiting)
        text = f"Ranks were busy for {share:.1f} % of the time, and waited or exchanged data for the rest."
    if peak := max((memory for epoch in record.epochs for memory in epoch.peak_memory_bytes), default=0.0):
        text += f" Peak memory of a rank: {peak / 1e9:.2g} GB."
    return text


def _timeline(runs: Runs) -> Iterable[Plot]:
    """The busy time of ranks; one rank alone never waits."""
    epochs, ranks = runs.records[0].epochs, _ranks(runs.records[0])
    if ranks < 2:
        return
    edges, shares = [0.0], []
    for epoch in epochs:
        parts = min(map(len, epoch.timeline))
        wanted = max(MAX_PARTS // len(epochs), 1)
        step = next(step for step in range(1, parts + 1) if parts % step == 0 and parts // step <= wanted)
        busy = np.array([rank[:parts] for rank in epoch.timeline[:ranks]])
        shares.append(busy.reshape(ranks, -1, step).mean(axis=2))
        edges += (edges[-1] + epoch.seconds * np.arange(step, parts + 1, step) / parts).tolist()
    size = -(-ranks // MAX_BANDS)
    bands = np.split(np.hstack(shares), range(size, ranks, size))
    rows = [band.mean(axis=0).tolist() for band in bands]
    firsts = range(0, ranks, size)
    labels = [f"{i}–{i + len(band) - 1}" if len(band) > 1 else f"{i}" for i, band in zip(firsts, bands, strict=True)]
    of = f" of {runs.names[0]}" if runs.several else ""
    text = f"time that each rank{of} was busy (filled) and time it waited or exchanged data (empty), over all epochs"
    draw = partial(plots.timeline, edges=edges, rows=rows, labels=labels)
    yield Plot("timeline", "Ranks, busy and waiting", text, draw, height=max(2.9, 1.1 + 0.13 * len(rows)))
