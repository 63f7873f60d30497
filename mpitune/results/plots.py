"""Plots as SVG to stand inside an HTML page; the one door to matplotlib.

Colours are CSS variables of the page, so that it may be light or dark, and text has the page's font.
"""

# ruff: noqa: E402 (what matplotlib has to say of its fonts it says when it is imported)
from __future__ import annotations

import io
import logging
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# Where it can keep no list of fonts, matplotlib warns of it, and does without.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

COLOURS = {"#000001": "var(--muted)", "#000002": "var(--rule)", "#000003": "var(--card)", "#000004": "var(--ink)"}
"""What matplotlib draws in, and what the page makes of it."""
_MUTED, _RULE, _CARD, _INK = COLOURS
SERIES = {f"#00001{i}": f"var(--series-{i})" for i in range(2)}
"""The colours of what is plotted, in turn."""
_FIRST = next(iter(SERIES))

_SETTINGS: Any = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 12,
    "text.color": _INK,
    "axes.edgecolor": _RULE,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _RULE,
    "grid.linewidth": 0.7,
    "axes.labelcolor": _MUTED,
    "xtick.color": _RULE,
    "ytick.color": _RULE,
    "xtick.labelcolor": _MUTED,
    "ytick.labelcolor": _MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "lines.linewidth": 2,
    "lines.solid_capstyle": "round",
    "lines.solid_joinstyle": "round",
    "lines.markersize": 7,
    "lines.markeredgewidth": 1.2,
    "path.simplify": False,
}


@dataclass(frozen=True)
class Series:
    """Numbers by epoch."""

    epochs: Sequence[int]
    values: Sequence[float]


@dataclass(frozen=True)
class Note:
    """A text at a point of a plot."""

    epoch: int
    value: float
    text: str
    above: bool
    """Or below."""


def lines(
    name: str,
    series: Sequence[Series],
    *,
    chosen: int,
    notes: Sequence[Note] = (),
    least_span: float = 0.0,
    from_zero: bool = False,
) -> str:
    """Curves over epochs. ``name``, one in the page, tells its ids from those of other plots.

    A vertical line marks the ``chosen`` epoch. ``least_span``: what the vertical axis spans at least, so that noise
    does not look like progress; ``from_zero``: it begins at 0.
    """

    def draw(axes: Axes) -> None:
        for colour, curve in zip(SERIES, series, strict=False):
            style = "o-" if len(curve.epochs) <= 30 else "-"
            axes.plot(curve.epochs, curve.values, style, color=colour, mec=_CARD, zorder=3, clip_on=False)
        for note in notes:
            axes.plot([note.epoch], [note.value], "o", ms=9, mfc=_CARD, mec=_FIRST, mew=2.2, zorder=4)
        _set_limits(axes, [value for curve in series for value in curve.values], least_span, from_zero)
        for note in notes:
            _annotate(axes, note)

    return _svg(name, [epoch for curve in series for epoch in curve.epochs], chosen, draw)


def bars(name: str, series: Series, *, chosen: int) -> str:
    """Bars over epochs, from 0; the rest as for `lines`."""

    def draw(axes: Axes) -> None:
        left, right = axes.get_xlim()
        axes.bar(series.epochs, series.values, min(0.6, 0.07 * (right - left)), color=_FIRST, zorder=3)
        _set_limits(axes, series.values, 0.0, from_zero=True)

    return _svg(name, series.epochs, chosen, draw)


def _set_limits(axes: Axes, values: Sequence[float], least_span: float, from_zero: bool) -> None:
    low, high = (0.0 if from_zero else min(values)), max(values)
    missing = max(least_span - (high - low), 0.0) / 2
    margin = 0.0 if from_zero else 0.2 * (high - low + 2 * missing)
    axes.set_ylim(low - missing - margin, high + missing + (0.08 * high if from_zero else margin) or 1.0)


def _annotate(axes: Axes, note: Note) -> None:
    """Write beside a point; never over the edge."""
    left, right = axes.get_xlim()
    across = (note.epoch - left) / (right - left)
    axes.annotate(
        note.text,
        (note.epoch, note.value),
        xytext=(0, 9 if note.above else -9),
        textcoords="offset points",
        ha="left" if across < 0.2 else "right" if across > 0.8 else "center",
        va="bottom" if note.above else "top",
        zorder=5,
    )


def _svg(name: str, epochs: Sequence[int], chosen: int, draw: Callable[[Axes], None]) -> str:
    with _settings(name):
        figure = Figure(figsize=(5.8, 3.1))
        axes = figure.add_axes((0.125, 0.18, 0.855, 0.8))
        axes.set_xlabel("epoch", loc="right")
        axes.set_xlim(min(epochs) - 0.5, max(epochs) + 0.5)
        axes.axvline(chosen, color=_MUTED, lw=1, ls=(0, (2, 3)), zorder=1)
        draw(axes)
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(_tick(axes)))
        image = io.StringIO()
        # What matplotlib would say of the image differs from day to day, and names other sites.
        unsaid = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(image, format="svg", transparent=True, metadata=unsaid)
    return _for_page(name, image.getvalue())


@contextmanager
def _settings(name: str) -> Iterator[None]:
    """The same whatever the user has set for plots."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS | {"svg.hashsalt": name})
        yield


def _tick(axes: Axes) -> Callable[[float, int | None], str]:
    """How a place on the vertical axis is written: as exactly as it takes to tell it from the next."""
    first, second = axes.get_yticks()[:2]
    if second - first >= 1e5:
        return lambda value, _: f"{value / 1e6:g}M" if value else "0"
    decimals = next((n for n in range(9) if math.isclose(round(second - first, n), second - first)), 9)
    return lambda value, _: f"{value:,.{decimals}f}"


def _for_page(name: str, image: str) -> str:
    """The ``svg`` element alone, as wide as there is room, its ids made different from those of other plots."""
    image = image[image.index("<svg") :]
    box = re.search(r'viewBox="[^"]*"', image)
    assert box is not None
    image = f"<svg {box[0]}>{image[image.index('>') + 1 :]}"
    image = re.sub(r'<style type="text/css">.*?</style>', "", image, flags=re.DOTALL)
    image = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}-", image)
    for drawn, meant in (COLOURS | SERIES).items():
        image = image.replace(drawn, meant)
    return image.strip()
