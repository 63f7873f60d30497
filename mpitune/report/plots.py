"""Plots, each drawn once, as SVG for embedding in an HTML page and as PNG; the only module that imports matplotlib.

In the SVG, colours are CSS variables of the page (light or dark mode), and text has the page's font. The PNG has a
title and a legend, which the page writes as text beside the SVG.
"""

# ruff: noqa: E402 (the log level must be set before matplotlib is imported)
from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Sequence
from html import escape
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

# matplotlib warns on import if it cannot write its font cache; it works without.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

LEAST_EPOCHS = 5
"""Minimum length of an axis of epochs, so that the slope between two epochs does not fill the plot."""
LEAST_SPAN = 0.05
"""Minimum range of a linear axis, relative to the largest value, so that noise does not look like progress."""

MUTED, RULE, CARD, INK = "#63636b", "#e2e2de", "#ffffff", "#1d1d1f"
SERIES = ("#2a62c4", "#c2570c", "#22794d", "#8a3fb0", "#a8861b", "#b02a55")
_CSS = {MUTED: "muted", RULE: "rule", CARD: "card", INK: "ink", **{c: f"series-{i}" for i, c in enumerate(SERIES)}}
"""The variables of the page that stand for these colours in the SVG."""

DASHES: dict[str, Any] = {"solid": "-", "dashed": (0, (5, 2.5)), "dotted": (0, (1.2, 1.8))}
"""Line styles of curves."""

_STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 12,
    "text.color": INK,
    "text.parse_math": False,  # names of runs and features may contain a $
    "axes.edgecolor": RULE,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "axes.labelcolor": MUTED,
    "xaxis.labellocation": "right",
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.minor.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 2,
    "lines.solid_capstyle": "round",
    "lines.solid_joinstyle": "round",
    "lines.markersize": 7,
    "lines.markeredgecolor": CARD,
    "lines.markeredgewidth": 1.2,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "legend.title_fontsize": 14,
    "path.simplify": False,
}


class Series(NamedTuple):
    """A curve."""

    x: Sequence[float]
    y: Sequence[float]
    colour: int = 0
    """Index of its colour."""
    style: str = "solid"
    spread: Sequence[float] = ()
    """Half the height of a band around the curve, at each point; empty: no band."""


class Key(NamedTuple):
    """An entry of the legend: the meaning of a colour (None: any) and a line style."""

    text: str
    colour: int | None
    style: str


class Mark(NamedTuple):
    """A straight reference line."""

    at: float
    colour: int | None = None
    """None: the muted colour."""
    across: bool = False
    """True: horizontal; False: vertical."""


class Plot(NamedTuple):
    """A plot with its caption."""

    name: str
    """Unique in the page: the prefix of the SVG's ids, the name of the PNG without suffix."""
    title: str
    text: str
    draw: Callable[[Axes], None]
    """Draws it: one of the functions below."""
    keys: Sequence[Key] = ()
    height: float = 2.9
    """In inches."""


def render(plot: Plot) -> tuple[str, bytes]:
    """Draw a plot: an ``svg`` element, where a point is a pixel, and a PNG."""
    svg, png = io.StringIO(), io.BytesIO()
    with matplotlib.rc_context():
        # Whatever the user has set.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        matplotlib.rcParams["svg.hashsalt"] = plot.name
        figure = Figure(figsize=(4.3, plot.height), layout="constrained")
        axes = figure.add_subplot()
        plot.draw(axes)
        # No metadata: it would hold the date and URLs.
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(svg, format="svg", transparent=True, metadata=no_metadata)
        figure.set_layout_engine("none")
        lines = [Line2D([], [], color=_colour(key.colour), ls=DASHES[key.style]) for key in plot.keys]
        texts = [key.text for key in plot.keys]
        columns = max(1, 60 // (8 + max(map(len, texts), default=0)))
        place: Any = {"loc": "lower left", "bbox_to_anchor": (0, 1), "alignment": "left", "ncols": columns}
        axes.legend(lines, texts, title=plot.title, **place)
        figure.savefig(png, format="png", dpi=220, bbox_inches="tight", metadata={"Software": None})
    return _for_page(plot, svg.getvalue()), png.getvalue()


def lines(
    axes: Axes,
    series: Sequence[Series],
    marks: Sequence[Mark] = (),
    notes: Sequence[tuple[float, float, str]] = (),
    scale: str = "",
) -> None:
    """Draw curves over epochs, with ``notes`` (x, y, text) at points of the first one.

    ``scale``: of the vertical axis, ``log`` or ``zero``, which begins at 0; else it has at least `LEAST_SPAN`.
    """
    epochs = [x for curve in series for x in curve.x] + [mark.at for mark in marks]
    axes.set_xlim(min(epochs) - 0.5, max(*epochs, LEAST_EPOCHS) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    _curves(axes, series, marks, "epoch", clip_on=False)
    low, high = axes.dataLim.intervaly
    if scale == "log":
        _log_axis(axes)
    elif scale == "zero":
        axes.set_ylim(0.0, 1.08 * high or 1.0)
    else:
        half = 0.7 * max(high - low, LEAST_SPAN * max(high, -low)) or 1.0
        axes.set_ylim((low + high) / 2 - half, (low + high) / 2 + half)
    left, right = axes.get_xlim()
    for x, y, text in notes:
        axes.plot([x], [y], "o", ms=9, mfc=CARD, mec=SERIES[0], mew=2.2, zorder=4)
        # On the side of the point where the curve is not, and inside the axes.
        above, across = y >= mean(series[0].y), (x - left) / (right - left)
        aligned: Any = {
            "ha": "left" if across < 0.2 else "right" if across > 0.8 else "center",
            "va": "bottom" if above else "top",
        }
        offset = (0, 9 if above else -9)
        axes.annotate(text, (x, y), xytext=offset, textcoords="offset points", zorder=5, **aligned)


def response(axes: Axes, series: Series, x_label: str, bars: Sequence[float] = ()) -> None:
    """Draw a curve over values other than epochs, with ``bars`` behind it at 1, 2, ...."""
    _curves(axes, [series], [Mark(0.0, across=True)], x_label, clip_on=False)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=bool(bars)))
    # A third of the height, and without a scale: only relative heights matter.
    heights = [bar / max(bars) / 3 for bar in bars]
    axes.bar(range(1, len(bars) + 1), heights, color=RULE, zorder=1, transform=axes.get_xaxis_transform())


def steps(axes: Axes, series: Sequence[Series], marks: Sequence[Mark], x_label: str) -> None:
    """Draw numbers in descending order over their ranks, as steps, with logarithmic axes."""
    _curves(axes, series, marks, x_label, drawstyle="steps-pre", marker="")
    axes.set_xscale("log")
    axes.set_xlim(1, 1.15 * max(x for curve in series for x in curve.x) + 1)
    axes.xaxis.set_major_formatter(_number)
    axes.xaxis.set_minor_locator(NullLocator())
    _log_axis(axes)


def timeline(axes: Axes, edges: Sequence[float], rows: Sequence[Sequence[float]], labels: Sequence[str]) -> None:
    """Draw one band per row over time, filled to the height of the row's values (0 to 1).

    ``edges``: boundaries of the values in seconds, one more than values.
    """
    units = (("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
    unit, size = next(unit for unit in units if edges[-1] >= 2 * unit[1] or unit[1] == 1.0)
    times = [edge / size for edge in edges]
    for place, row in enumerate(rows):
        axes.axhspan(-place, 0.84 - place, color=RULE, lw=0, zorder=1)
        tops = [0.84 * value - place for value in row]
        axes.stairs(tops, times, baseline=-place, fill=True, color=SERIES[0], lw=0, zorder=2)
    shown = range(0, len(rows), 1 + len(rows) // 12)
    axes.set_yticks([0.42 - place for place in shown], [labels[place] for place in shown])
    axes.set_ylim(0.9 - len(rows), 0.94)
    axes.set_xlim(0, times[-1] or 1.0)
    axes.set_xlabel(unit)
    axes.grid(False)


def _curves(axes: Axes, series: Sequence[Series], marks: Sequence[Mark], x_label: str, **style: Any) -> None:
    """Draw curves, with markers if they have at most 30 points, their bands, and reference lines."""
    axes.set_xlabel(x_label)
    axes.yaxis.set_major_formatter(_number)
    for curve in series:
        colour = _colour(curve.colour)
        if curve.spread:
            y, half = np.array(curve.y), np.array(curve.spread)
            axes.fill_between(curve.x, y - half, y + half, color=colour, alpha=0.2, lw=0, zorder=2)
        drawn = {"marker": "o" if len(curve.x) <= 30 else "", "ls": DASHES[curve.style], **style}
        axes.plot(curve.x, curve.y, color=colour, zorder=3, **drawn)
    for mark in marks:
        line = axes.axhline if mark.across else axes.axvline
        line(mark.at, color=_colour(mark.colour), lw=1, ls=(0, (2, 3)), zorder=1)


def _colour(number: int | None) -> str:
    return MUTED if number is None else SERIES[number % len(SERIES)]


def _log_axis(axes: Axes) -> None:
    low, high = (axes.dataLim.minposy, axes.dataLim.y1) if axes.dataLim.y1 > 0 else (1.0, 1.0)
    axes.set_ylim(low / 1.6, high * 1.6)
    axes.set_yscale("log")
    # At least two tick labels, and not many.
    several = LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0))
    axes.yaxis.set_major_locator(several if high > 3 * low else MaxNLocator(5))
    axes.yaxis.set_major_formatter(_number)
    axes.yaxis.set_minor_locator(NullLocator())


def _number(value: float, _: float) -> str:
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value:,.6g}"


def _for_page(plot: Plot, image: str) -> str:
    """The ``svg`` element alone, with the page's colours; its ids begin with the plot's name."""
    image = re.sub(r'<style type="text/css">.*?</style>', "", image[image.index("<svg") :], flags=re.DOTALL)
    box = re.search(r'viewBox="0 0 (\S+) (\S+)"', image)
    assert box is not None
    start = f'<svg role="img" aria-label="{escape(plot.title)}" {box[0]} width="{box[1]}" height="{box[2]}">'
    image = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{plot.name}-", start + image[image.index(">") + 1 :])
    for drawn, meant in _CSS.items():
        image = image.replace(drawn, f"var(--{meant})")
    return image.strip()
