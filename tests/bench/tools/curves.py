"""Curves of the cost of a sentence over one varied size, as tables and plots."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.ticker import EngFormatter, LogLocator

from tools.measure import CpuTime, Stages

COLUMNS = 4
"""Columns of panels in a plot."""


class Work(NamedTuple):
    """Work to measure: ``do`` processes ``sentences`` sentences."""

    do: Callable[[], object]
    sentences: int = 1


class Point(NamedTuple):
    """The cost of one sentence."""

    x: float
    milliseconds: float
    stages: dict[str, float]
    """Milliseconds in each stage of decoding."""
    memory: int
    """Peak of the bytes allocated by numpy."""
    mapped: int
    """Bytes of the models, which all processes of a machine share."""


class Curve(NamedTuple):
    """Points in ascending order of x."""

    title: str
    points: list[Point]


def measured(x: float, begin: Callable[[], Work], mapped: int, passes: int) -> Point:
    """Measure the work that ``begin`` returns; the memory that ``begin`` needs is included, its time is not."""
    # Compile kernels and read files before measuring.
    work = begin()
    work.do()
    tracemalloc.start()
    begin().do()
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    taken = []
    for _ in range(passes):
        with Stages() as stages, CpuTime() as spent:
            work.do()
        taken.append((spent.seconds, stages.seconds))
    seconds, parts = sorted(taken, key=lambda one: one[0])[passes // 2]
    each = 1000 / work.sentences
    return Point(x, each * seconds, {name: each * part for name, part in parts.items()}, memory, mapped)


def table(curve: Curve) -> Iterator[str]:
    """Yield the lines of a Markdown table. ``power``: exponent of growth since the previous point (1 = linear)."""
    stages = [name for name in curve.points[0].stages if any(point.stages[name] for point in curve.points)]
    titles = [curve.title, "ms", "power", *stages, *(["rest"] if stages else []), "memory", "models"]
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---:|' * len(titles)}"
    before = None
    for point in curve.points:
        power = ""
        if before is not None:
            power = f"{math.log(point.milliseconds / before.milliseconds) / math.log(point.x / before.x):.2f}"
        parts = [point.stages[name] for name in stages]
        rest = [point.milliseconds - sum(parts)] if stages else []
        times = [f"{part:.2f}" for part in (*parts, *rest)]
        sizes = [f"{size / 1e6:.1f} MB" for size in (point.memory, point.mapped)]
        yield f"| {' | '.join([f'{point.x:,.0f}', f'{point.milliseconds:.2f}', power, *times, *sizes])} |"
        before = point


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Draw a log-log panel for each curve: time, memory (dashed), and linear growth for comparison (dotted)."""
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "growth", "font.size": 8})
    rows = -(-len(curves) // COLUMNS)
    figure, grid = pyplot.subplots(rows, COLUMNS, figsize=(3.2 * COLUMNS, 2.6 * rows), layout="constrained")
    for panel, curve in zip(grid.flat, curves, strict=False):
        x = [point.x for point in curve.points]
        time = [point.milliseconds for point in curve.points]
        sizes = [(point.memory + point.mapped) / 1e6 for point in curve.points]
        panel.plot(x, [time[0] * value / x[0] for value in x], ":", color="tab:gray", linewidth=1)
        beside = panel.twinx()
        for axes, values, style, color, what in (
            (panel, time, "o-", "tab:blue", "CPU ms"),
            (beside, sizes, "s--", "tab:orange", "memory and models, MB"),
        ):
            axes.loglog(x, values, style, color=color, markersize=3)
            axes.set_ylim(min(values) / 2, 2 * max(values))
            axes.set_ylabel(what, color=color)
            wide = max(values) > 30 * min(values)
            axes.yaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            # Minor ticks would make the SVG file large.
            axes.minorticks_off()
        panel.set_xticks(x, [EngFormatter(sep="", places=0)(value) for value in x])
        panel.set_xlabel(curve.title)
    for panel in grid.flat[len(curves) :]:
        panel.set_visible(False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
