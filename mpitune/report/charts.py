"""The plots of a report, by section, from the metrics of one or more runs; the report is about the first one.

To add a section, add a function to `SECTIONS` that maps the runs to a `Section`, or to None if it has no plots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, stdev
from typing import NamedTuple

from mpitune.report import plots
from mpitune.report.plots import Key, Mark, Note, Plot, Series
from mpitune.report.response_curves import responses
from mpitune.run_folder.reader import Epoch, Record
from mpitune.run_folder.scoring import read_scoring


class Figure(NamedTuple):
    """A plot with its caption."""

    name: str
    """File name of the PNG, without suffix."""
    title: str
    text: str
    plot: Plot
    keys: Sequence[Key] = ()


class Section(NamedTuple):
    """A section of the report."""

    anchor: str
    title: str
    text: str
    charts: list[Figure]


class Spread(NamedTuple):
    """A mean over runs, with the standard deviation (with n - 1)."""

    mean: float
    deviation: float


class Family(NamedTuple):
    """The runs of one job, which differ in their seed; or a single run."""

    name: str
    records: Sequence[Record]

    @property
    def several(self) -> bool:
        return len(self.records) > 1

    def spread(self, value: Callable[[Record], float | None]) -> Spread | None:
        """Of the ``value`` of the results; None for a single run, and if a run has no value."""
        values = [found for record in self.records if (found := value(record)) is not None]
        return Spread(mean(values), stdev(values)) if self.several and len(values) == len(self.records) else None

    def curve(self, value: Callable[[Epoch], float | None], colour: int, style: str) -> Series | None:
        """The ``value`` over epochs; of several runs the mean with a band, over the epochs that all of them have."""
        found = [
            {epoch.epoch: y for epoch in record.epochs if (y := value(epoch)) is not None} for record in self.records
        ]
        epochs = sorted(set.intersection(*map(set, found)))
        if not epochs:
            return None
        columns = [[run[epoch] for run in found] for epoch in epochs]
        band = [stdev(column) for column in columns] if self.several else []
        return Series(epochs, [mean(column) for column in columns], colour, style, band)


class Runs(NamedTuple):
    """The runs of a report."""

    families: Sequence[Family]
    """One colour each."""
    names: Sequence[str]
    """One unique name per run."""
    before: Sequence[float | None]
    """Devtest BLEU before training of each run; None if unknown."""

    @property
    def records(self) -> list[Record]:
        return [record for family in self.families for record in family.records]

    @property
    def several(self) -> bool:
        return len(self.records) > 1

    @property
    def coloured(self) -> bool:
        """True if colours tell families apart."""
        return len(self.families) > 1

    @property
    def any_bleu(self) -> bool:
        return any(record.has_bleu for record in self.records)


def sections(runs: Runs) -> list[Section]:
    """The sections that have plots."""
    return [section for make in SECTIONS if (section := make(runs)) is not None]


def _quality(runs: Runs) -> Section:
    charts = [
        chart
        for make in (_bleu, _devtest_metric, _gold, _choices, _training_bleu, _objective)
        if (chart := make(runs)) is not None
    ]
    record = runs.records[0]
    if runs.several:
        text = "Dotted lines mark the best epochs, whose weights are the result if no dense start is better."
    elif record.dense_start_is_best:
        text = f"The dotted line marks epoch {record.chosen.epoch}, the best; the dense start is better."
    else:
        text = f"The dotted line marks epoch {record.chosen.epoch}, whose weights are the result."
    if any(family.several for family in runs.families):
        text += " Curves of several seeds are means, with a band of one standard deviation on either side."
    return Section("curves", "Epoch by epoch", text, charts)


def _selection(runs: Runs) -> Section | None:
    charts = [chart for make in (_features, _weights, _lambda, _norms) if (chart := make(runs)) is not None]
    text = "A feature is active if any shard gives it a weight; the features of largest column norm are selected."
    if not any(record.selects for record in runs.records):
        text = "A feature is active if it has a weight after the epoch."
    return Section("selection", "Features", text, charts)


def _machine(runs: Runs) -> Section:
    epochs, text = runs.records[0].epochs, ""
    busy, waiting = (sum(sum(getattr(epoch, f"{kind}_seconds")) for epoch in epochs) for kind in ("busy", "wait"))
    if busy + waiting > 0 and _ranks(runs) > 1:
        text = f"Ranks were busy for {100 * busy / (busy + waiting):.1f} % of the time"
        text += ", and waited or exchanged data for the rest."
    if peak := max((memory for epoch in epochs for memory in epoch.peak_memory_bytes), default=0.0):
        text += f" Peak memory of a rank: {peak / 1e9:.2g} GB."
    charts = [_throughput(runs)]
    if (timeline := _timeline(runs)) is not None:
        charts.append(timeline)
    return Section("ranks", "Time and ranks", text, charts)


def _responses(runs: Runs) -> Section | None:
    """Response curves of the grammar's scores that are in bins."""
    record = runs.records[0]
    scoring = read_scoring(record.path)
    charts = []
    for number, curve in enumerate(responses(scoring, record.weights) if scoring else ()):
        # Two points per bin: at its smallest and at its largest value.
        values = [value for bounds in zip(curve.least.tolist(), curve.most.tolist(), strict=True) for value in bounds]
        contributions = [value for value in curve.contribution.tolist() for _ in range(2)]
        name, label = f"response-{number}", "value, unlogged" if curve.transform else "value"
        plot = plots.curve(name, curve.feature, Series(values, contributions), x_label=label)
        text = f"{len(curve.contribution)} bins, {int(curve.population.sum()):,} rules"
        charts.append(Figure(name, curve.feature, text, plot))
        name, title = f"bins-{number}", f"{curve.feature}, by bin"
        by_bin = Series(list(range(1, len(curve.contribution) + 1)), curve.contribution.tolist())
        population = curve.population.tolist()
        plot = plots.curve(name, title, by_bin, x_label="bin, smallest values first", bars=population)
        text = f"bars: number of rules in each bin, {min(population):,} to {max(population):,}"
        charts.append(Figure(name, title, text, plot))
    text = "Contribution of a score to the model score of a rule, by the score's value: the weights of its bins."
    return Section("responses", "Features in bins", text, charts) if charts else None


SECTIONS: list[Callable[[Runs], Section | None]] = [_quality, _selection, _responses, _machine]
"""The sections in the order of the report."""


def _curves(runs: Runs, value: Callable[[Epoch], float | None], style: str = "solid") -> list[Series]:
    """A curve over epochs for each family that has the ``value``; one colour per family."""
    series = [family.curve(value, colour, style) for colour, family in enumerate(runs.families)]
    return [each for each in series if each is not None]


def _keys(runs: Runs, **styles: str) -> list[Key]:
    """The legend: the colours of families, if there are several, and the ``styles`` of curves."""
    colours = [Key(family.name, i, "solid") for i, family in enumerate(runs.families)] if runs.coloured else []
    return colours + [Key(text, None if runs.coloured else 0, style) for style, text in styles.items()]


def _chosen(runs: Runs) -> list[Mark]:
    """A mark for each run."""
    return [
        Mark(record.chosen.epoch, i if runs.coloured else None)
        for i, family in enumerate(runs.families)
        for record in family.records
    ]


def _bleu(runs: Runs) -> Figure | None:
    series, keys = _curves(runs, lambda epoch: epoch.devtest_bleu), _keys(runs)
    if not series:
        return None
    best, before, notes = runs.records[0].chosen, runs.before[0], []
    text = "with the weights published after each epoch"
    if not runs.several:
        notes.append(Note(best.epoch, best.devtest_bleu or 0.0, f"{best.devtest_bleu:.2f}", above=True))
        if before is not None:
            notes.append(Note(0, before, f"before {before:.2f}", above=before > series[0].y[0]))
            series, text = [Series([0, *series[0].x], [before, *series[0].y])], f"{text}; 0: before training"
    marks = [mark for mark, record in zip(_chosen(runs), runs.records, strict=True) if record.has_bleu]
    plot = plots.lines("bleu", "Devtest BLEU", series, keys=keys, marks=marks, notes=notes, least_span=2.0)
    return Figure("bleu", "Devtest BLEU", text, plot, keys)


def _devtest_metric(runs: Runs) -> Figure | None:
    series, keys = _curves(runs, lambda epoch: epoch.devtest_metric), _keys(runs)
    if not series or len({record.metric for record in runs.records}) > 1:
        return None
    title = f"Devtest {runs.records[0].metric}"
    plot = plots.lines("devtest-metric", title, series, keys=keys, marks=_chosen(runs), least_span=_span(series))
    return Figure("devtest-metric", title, "with the weights published after each epoch", plot, keys)


def _choices(runs: Runs) -> Figure | None:
    """The metric of three choices from the lists; metrics of different names are not comparable."""
    values: dict[str, Callable[[Epoch], float]] = {
        "solid": lambda epoch: epoch.metric_best,
        "dashed": lambda epoch: epoch.metric_oracle,
        "dotted": lambda epoch: epoch.metric_random,
    }
    series = [curve for style, value in values.items() for curve in _curves(runs, value, style)]
    if len({record.metric for record in runs.records}) > 1:
        return None
    keys = _keys(runs, solid="1-best", dashed="oracle", dotted="random choice")
    title = f"{runs.records[0].metric} of the lists"
    plot = plots.lines("choices", title, series, keys=keys, marks=_chosen(runs), least_span=_span(series))
    text = "of the training set: the 1-best translations, the best entry of each list, and one drawn at random"
    return Figure("choices", title, text, plot, keys)


def _span(series: Sequence[Series]) -> float:
    """The least range of the axis of a quantity of unknown size."""
    return max(abs(y) for curve in series for y in curve.y) / 10


def _gold(runs: Runs) -> Figure:
    series, keys = _curves(runs, lambda epoch: epoch.gold), _keys(runs)
    plot = plots.lines("gold", "Mean gold score", series, keys=keys, marks=_chosen(runs), least_span=0.02)
    text = "of the 1-best translations of the training sentences, during training"
    return Figure("gold", "Mean gold score", text, plot, keys)


def _training_bleu(runs: Runs) -> Figure | None:
    best = _curves(runs, lambda epoch: epoch.best_bleu)
    oracle = _curves(runs, lambda epoch: epoch.oracle_bleu, "dashed")
    prediction = _curves(runs, lambda epoch: epoch.prediction_bleu, "dotted")
    if not best:
        return None
    styles = {"solid": "1-best", "dashed": "oracle", "dotted": "prediction"} if oracle else {}
    keys, series = _keys(runs, **styles), [*best, *oracle, *prediction]
    plot = plots.lines("picked", "BLEU while training", series, keys=keys, marks=_chosen(runs), least_span=2.0)
    text = "of the training set: 1-best translations" + (", oracles and predictions" if oracle else "")
    return Figure("picked", "BLEU while training", text, plot, keys)


def _objective(runs: Runs) -> Figure | None:
    series, keys = _curves(runs, lambda epoch: epoch.objective), _keys(runs)
    # Objectives of different methods are not comparable.
    if not series or len({record.method for record in runs.records}) > 1:
        return None
    plot = plots.lines("objective", "Objective", series, keys=keys, marks=_chosen(runs), least_span=_span(series))
    return Figure(
        "objective", "Objective", f"of {runs.records[0].method}, over all lists accumulated so far", plot, keys
    )


def _features(runs: Runs) -> Figure:
    series, keys = _curves(runs, lambda epoch: epoch.active_features), _keys(runs)
    text = "active after the epoch; all are published"
    if any(record.selects for record in runs.records):
        series += _curves(runs, lambda epoch: epoch.selected_features, "dashed")
        keys = _keys(runs, solid="active", dashed="selected")
        text = "active after the epoch, and selected for the published weights"
    plot = plots.lines("features", "Number of features", series, keys=keys, marks=_chosen(runs), from_zero=True)
    return Figure("features", "Number of features", text, plot, keys)


def _weights(runs: Runs) -> Figure:
    series, keys = _curves(runs, lambda epoch: epoch.weight_norm), _keys(runs)
    plot = plots.lines("weight-norm", "Norm of w", series, keys=keys, marks=_chosen(runs), from_zero=True)
    text = "‖w‖ of the weights published after each epoch, without frozen ones"
    return Figure("weight-norm", "Norm of w", text, plot, keys)


def _lambda(runs: Runs) -> Figure | None:
    series, keys = _curves(runs, lambda epoch: epoch.lambda_ or None), _keys(runs)
    if not series:
        return None
    plot = plots.lines("lambda", "Lambda", series, keys=keys, marks=_chosen(runs), log=True)
    return Figure("lambda", "λ", "the smallest column norm of a selected feature", plot, keys)


def _norms(runs: Runs) -> Figure | None:
    """Of the first run of each family."""
    series, marks, keys = [], [], _keys(runs)
    for colour, family in enumerate(runs.families):
        epoch = family.records[0].chosen
        if epoch.column_norms:
            ranks, norms = zip(*((count, norm) for norm, count in reversed(epoch.column_norms)), strict=True)
            series.append(Series(ranks, norms, colour))
            of = colour if runs.coloured else None
            marks += [
                Mark(epoch.selected_features, of),
                *([Mark(epoch.lambda_, of, across=True)] if epoch.lambda_ else []),
            ]
    if not series:
        return None
    plot = plots.sorted_curves("norms", "Sorted column norms", series, keys=keys, x_label="features", marks=marks)
    epoch = runs.records[0].chosen
    of_run = f"of {runs.names[0]}, " if runs.several else ""
    cut = f"{epoch.selected_features:,} features" + (f" and λ = {epoch.lambda_:.3g}" if epoch.lambda_ else "")
    text = f"{of_run}after epoch {epoch.epoch}; dotted: the cut, at {cut}"
    return Figure(
        "norms", "Sorted column norms", "after each run's chosen epoch" if runs.coloured else text, plot, keys
    )


def _throughput(runs: Runs) -> Figure:
    series, keys = _curves(runs, lambda epoch: epoch.rate), _keys(runs)
    plot = plots.lines("throughput", "Sentences per second", series, keys=keys, marks=_chosen(runs), from_zero=True)
    text = "training sentences per second of all ranks together; the time includes devtest and exchange"
    return Figure("throughput", "Throughput", text, plot, keys)


MAX_PARTS = 400
"""Maximum number of time intervals in the timeline of ranks."""
MAX_BANDS = 24
"""Maximum number of bands; with more ranks, a band shows the mean of several."""


def _ranks(runs: Runs) -> int:
    """Ranks that took part in all epochs of the first run: their number may change when a run is resumed."""
    return min(len(epoch.timeline) for epoch in runs.records[0].epochs)


def _timeline(runs: Runs) -> Figure | None:
    epochs, ranks = runs.records[0].epochs, _ranks(runs)
    # One rank alone never waits.
    if ranks < 2:
        return None
    edges, shares = [0.0], []
    for epoch in epochs:
        parts = min((len(rank) for rank in epoch.timeline), default=1) or 1
        wanted = max(MAX_PARTS // len(epochs), 1)
        step = next(step for step in range(1, parts + 1) if parts % step == 0 and parts // step <= wanted)
        shares.append([[_mean(rank[i : i + step]) for i in range(0, parts, step)] for rank in epoch.timeline])
        start = edges[-1]
        edges += [start + epoch.seconds * (i + step) / parts for i in range(0, parts, step)]
    size = -(-ranks // MAX_BANDS)
    groups = [range(first, min(first + size, ranks)) for first in range(0, ranks, size)]
    rows = [
        [_mean([epoch[rank][i] for rank in group]) for epoch in shares for i in range(len(epoch[0]))]
        for group in groups
    ]
    labels = [str(group[0]) if len(group) == 1 else f"{group[0]}–{group[-1]}" for group in groups]
    of = f" of {runs.names[0]}" if runs.several else ""
    text = f"time that each rank{of} was busy (filled) and time it waited or exchanged data (empty), over all epochs"
    plot = plots.bands("timeline", "Ranks: busy and waiting", edges, rows, labels)
    return Figure("timeline", "Ranks, busy and waiting", text, plot)


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)
