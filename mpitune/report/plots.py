"""Plots in two forms, SVG for embedding in an HTML page and PNG; the only module that imports matplotlib.

In the SVG, colours are CSS variables of the page (light or dark mode), and text has the page's font. The PNG has a
white background, a title and a legend, which the page writes as text beside the SVG.
"""

# ruff: noqa: E402 (the log level must be set before matplotlib is imported)
from __future__ import annotations

import io
import logging
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

# matplotlib warns on import if it cannot write its font cache; it works without.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

COLOURS = 6
"""Number of distinct colours of series."""
LEAST_EPOCHS = 5
"""Minimum length of an axis of epochs, so that the slope between two epochs does not fill the plot."""
WIDTH, PRINT_WIDTH = 4.3, 6.4
"""Width in inches of a plot in the page, where a point becomes a pixel, and of a PNG."""


class _Palette(NamedTuple):
    muted: str
    rule: str
    card: str
    ink: str
    series: tuple[str, ...]


_PAGE = _Palette("#000001", "#000002", "#000003", "#000004", tuple(f"#00001{i}" for i in range(COLOURS)))
"""Placeholder colours of the SVG, each to be replaced by a CSS variable."""
_PRINT = _Palette(
    "#63636b", "#e2e2de", "#ffffff", "#1d1d1f", ("#2a62c4", "#c2570c", "#22794d", "#8a3fb0", "#a8861b", "#b02a55")
)
_CSS = {
    **dict(zip(_PAGE[:4], ("var(--muted)", "var(--rule)", "var(--card)", "var(--ink)"), strict=True)),
    **{colour: f"var(--series-{i})" for i, colour in enumerate(_PAGE.series)},
}

DASHES: dict[str, Any] = {"solid": "-", "dashed": (0, (5, 2.5)), "dotted": (0, (1.2, 1.8))}
"""Line styles of curves."""


class Plot(NamedTuple):
    """One plot."""

    svg: str
    png: bytes


@dataclass(frozen=True)
class Series:
    """A curve."""

    x: Sequence[float]
    y: Sequence[float]
    colour: int = 0
    """Index of its colour."""
    style: str = "solid"
    spread: Sequence[float] = ()
    """Half the height of a band around the curve, at each point; empty: no band."""

    @property
    def values(self) -> list[float]:
        """The numbers of the vertical axis that the curve and its band reach."""
        spread = self.spread or [0.0] * len(self.y)
        return [y + sign * half for y, half in zip(self.y, spread, strict=True) for sign in (-1, 1)]


class Key(NamedTuple):
    """An entry of the legend: the meaning of a colour (None: any) and a line style."""

    text: str
    colour: int | None
    style: str


@dataclass(frozen=True)
class Note:
    """A text beside a point of a plot."""

    x: float
    y: float
    text: str
    above: bool
    """False: below the point."""


@dataclass(frozen=True)
class Mark:
    """A straight reference line."""

    at: float
    colour: int | None = None
    """None: the muted colour."""
    across: bool = False
    """True: horizontal; False: vertical."""


@dataclass(frozen=True)
class Canvas:
    """Axes to draw on, with their colours."""

    axes: Axes
    palette: _Palette

    def curve(self, series: Series, **style: Any) -> None:
        """Draw a curve, with point markers if it has at most 30 points, and its band."""
        if series.spread:
            low, high = series.values[::2], series.values[1::2]
            self.axes.fill_between(series.x, low, high, color=self.colour(series.colour), alpha=0.2, lw=0, zorder=2)
        marker = "o" if len(series.x) <= 30 and "drawstyle" not in style else ""
        self.axes.plot(
            series.x,
            series.y,
            marker=marker,
            ls=DASHES[series.style],
            color=self.colour(series.colour),
            mec=self.palette.card,
            zorder=3,
            **style,
        )

    def colour(self, number: int | None) -> str:
        """A colour by its index; None: the muted one."""
        return self.palette.muted if number is None else self.palette.series[number % COLOURS]

    def mark(self, mark: Mark) -> None:
        line = self.axes.axhline if mark.across else self.axes.axvline
        line(mark.at, color=self.colour(mark.colour), lw=1, ls=(0, (2, 3)), zorder=1)

    def note(self, note: Note) -> None:
        """Write a text beside a point, aligned to stay inside the axes."""
        ring: dict[str, Any] = {"ms": 9, "mfc": self.palette.card, "mec": self.palette.series[0], "mew": 2.2}
        self.axes.plot([note.x], [note.y], "o", zorder=4, **ring)
        left, right = self.axes.get_xlim()
        across = (note.x - left) / (right - left)
        self.axes.annotate(
            note.text,
            (note.x, note.y),
            xytext=(0, 9 if note.above else -9),
            textcoords="offset points",
            ha="left" if across < 0.2 else "right" if across > 0.8 else "center",
            va="bottom" if note.above else "top",
            zorder=5,
        )


def lines(
    name: str,
    title: str,
    series: Sequence[Series],
    *,
    keys: Sequence[Key] = (),
    marks: Sequence[Mark] = (),
    notes: Sequence[Note] = (),
    least_span: float = 0.0,
    from_zero: bool = False,
    log: bool = False,
) -> Plot:
    """Curves over epochs. ``name``, unique in the page, becomes the prefix of the SVG's ids.

    ``keys``: the legend; ``least_span``: minimum range of the vertical axis, so that noise does not look like progress;
    ``from_zero``: the vertical axis begins at 0; ``log``: it is logarithmic.
    """

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes
        epochs = [x for curve in series for x in curve.x] + [mark.at for mark in marks if not mark.across]
        axes.set_xlabel("epoch", loc="right")
        axes.set_xlim(min(epochs) - 0.5, max(max(epochs), LEAST_EPOCHS) + 0.5)
        for curve in series:
            canvas.curve(curve, clip_on=False)
        for mark in marks:
            canvas.mark(mark)
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
        values = [value for curve in series for value in curve.values]
        if log:
            _log_axis(axes, values)
        else:
            _set_limits(axes, values, least_span, from_zero)
            axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
            axes.yaxis.set_major_formatter(FuncFormatter(_tick(axes)))
        for note in notes:
            canvas.note(note)

    return _render(name, title, draw, keys)


def curve(name: str, title: str, series: Series, *, x_label: str, bars: Sequence[float] = ()) -> Plot:
    """A curve over values other than epochs, with ``bars`` behind it at 1, 2, .... Other arguments as for `lines`."""

    def draw(canvas: Canvas) -> None:
        canvas.curve(series, clip_on=False)
        canvas.axes.set_xlabel(x_label, loc="right")
        canvas.mark(Mark(0.0, across=True))
        canvas.axes.xaxis.set_major_locator(MaxNLocator(5, integer=bool(bars)))
        if bars:
            behind = canvas.axes.twinx()
            behind.bar(range(1, len(bars) + 1), bars, color=canvas.palette.rule, zorder=1)
            # A third of the height, and without a scale: only relative heights matter.
            behind.set_ylim(0, 3 * max(bars))
            behind.set_yticks([])
            canvas.axes.set_zorder(behind.get_zorder() + 1)
            canvas.axes.patch.set_visible(False)

    return _render(name, title, draw)


def sorted_curves(
    name: str,
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    keys: Sequence[Key] = (),
    marks: Sequence[Mark] = (),
) -> Plot:
    """Numbers in descending order over their ranks, as steps, with logarithmic axes. Arguments as for `lines`."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes
        for curve in series:
            canvas.curve(curve, drawstyle="steps-pre")
        axes.set_xscale("log")
        axes.set_xlabel(x_label, loc="right")
        axes.set_xlim(1, 1.15 * max(x for curve in series for x in curve.x) + 1)
        _log_axis(axes, [y for curve in series for y in curve.y])
        axes.xaxis.set_major_formatter(FuncFormatter(_count))
        axes.xaxis.set_minor_locator(NullLocator())
        for mark in marks:
            canvas.mark(mark)

    return _render(name, title, draw, keys)


def bands(
    name: str, title: str, edges: Sequence[float], rows: Sequence[Sequence[float]], labels: Sequence[str]
) -> Plot:
    """One band per row over time, filled to the height of the row's values (0 to 1).

    ``edges``: boundaries of the values in seconds, one more than values.
    """

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes
        unit, size = _time_unit(edges[-1])
        times = [edge / size for edge in edges]
        for place, row in enumerate(rows):
            floor = -1.0 * place
            axes.fill_between(times, floor, floor + 0.84, color=canvas.palette.rule, lw=0, zorder=1)
            tops = [floor + 0.84 * value for value in [*row, row[-1]]]
            axes.fill_between(times, floor, tops, step="post", color=canvas.palette.series[0], lw=0, zorder=2)
        shown = range(0, len(rows), 1 + len(rows) // 12)
        axes.set_yticks([-1.0 * place + 0.42 for place in shown], [labels[place] for place in shown])
        axes.set_ylim(-1.0 * (len(rows) - 1) - 0.1, 0.94)
        axes.set_xlim(0, times[-1] or 1.0)
        axes.set_xlabel(unit, loc="right")
        axes.grid(False)

    return _render(name, title, draw, height=max(2.9, 1.1 + 0.13 * len(rows)))


def _set_limits(axes: Axes, values: Sequence[float], least_span: float, from_zero: bool) -> None:
    low, high = (0.0 if from_zero else min(values)), max(values)
    missing = max(least_span - (high - low), 0.0) / 2
    margin = 0.0 if from_zero else 0.2 * (high - low + 2 * missing)
    axes.set_ylim(low - missing - margin, high + missing + (0.08 * high if from_zero else margin) or 1.0)


def _log_axis(axes: Axes, values: Sequence[float]) -> None:
    positive = [value for value in values if value > 0] or [1.0]
    axes.set_yscale("log")
    axes.set_ylim(min(positive) / 1.6, max(positive) * 1.6)
    decades = math.log10(max(positive) / min(positive))
    # At least two tick labels, and not many.
    axes.yaxis.set_major_locator(
        LogLocator(subs=(1.0,) if decades > 2 else (1.0, 2.0, 5.0)) if decades > 0.5 else MaxNLocator(5)
    )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _count(value: float, _: int | None) -> str:
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value:,.0f}"


def _time_unit(seconds: float) -> tuple[str, float]:
    """Name and seconds of the unit for times of this size."""
    return next((unit for unit in (("hours", 3600.0), ("minutes", 60.0)) if seconds >= 2 * unit[1]), ("seconds", 1.0))


def _render(
    name: str, title: str, draw: Callable[[Canvas], None], keys: Sequence[Key] = (), height: float = 2.9
) -> Plot:
    # No metadata: it would hold the date and URLs.
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    svg, png = io.StringIO(), io.BytesIO()
    with _settings(_PAGE, name):
        figure = Figure(figsize=(WIDTH, height))
        draw(Canvas(figure.add_axes((0.71 / WIDTH, 0.56 / height, 1 - 0.9 / WIDTH, 1 - 0.62 / height)), _PAGE))
        figure.savefig(svg, format="svg", transparent=True, metadata=no_metadata)
    with _settings(_PRINT, name):
        # Inches above the axes: title and legend.
        columns = max(1, min(len(keys), 76 // (8 + max((len(key.text) for key in keys), default=0))))
        above = 0.5 + 0.2 * math.ceil(len(keys) / columns)
        figure = Figure(figsize=(PRINT_WIDTH, height + above))
        below, top = 0.56 / (height + above), above / (height + above)
        canvas = Canvas(figure.add_axes((0.125, below, 0.845, 1 - below - top)), _PRINT)
        draw(canvas)
        figure.text(0.03, 1 - 0.3 / (height + above), title, size=14, va="center")
        if keys:
            shown = [Line2D([], [], color=canvas.colour(key.colour), ls=DASHES[key.style]) for key in keys]
            place = (0.02, 1 - 0.45 / (height + above))
            texts = [key.text for key in keys]
            figure.legend(shown, texts, loc="upper left", bbox_to_anchor=place, ncols=columns, frameon=False)
        figure.savefig(png, format="png", dpi=150, facecolor=_PRINT.card, metadata={"Software": None})
    return Plot(_for_page(name, title, svg.getvalue()), png.getvalue())


@contextmanager
def _settings(palette: _Palette, name: str) -> Iterator[None]:
    """matplotlib settings, independent of the user's."""
    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.family": "DejaVu Sans",  # comes with matplotlib
        "font.size": 12,
        "text.color": palette.ink,
        "text.parse_math": False,  # names of runs and features may contain a $
        "axes.edgecolor": palette.rule,
        "axes.spines.left": False,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": palette.rule,
        "grid.linewidth": 0.7,
        "axes.labelcolor": palette.muted,
        "xtick.color": palette.rule,
        "ytick.color": palette.rule,
        "xtick.labelcolor": palette.muted,
        "ytick.labelcolor": palette.muted,
        "xtick.major.size": 3,
        "xtick.minor.size": 0,
        "ytick.major.size": 0,
        "ytick.minor.size": 0,
        "lines.linewidth": 2,
        "lines.solid_capstyle": "round",
        "lines.solid_joinstyle": "round",
        "lines.markersize": 7,
        "lines.markeredgewidth": 1.2,
        "legend.fontsize": 10,
        "legend.handlelength": 2.4,
        "legend.labelspacing": 0.2,
        "path.simplify": False,
    }
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        yield


def _tick(axes: Axes) -> Callable[[float, int | None], str]:
    """Formatter of the vertical axis: as many decimals as distinguish neighbouring ticks."""
    first, second = axes.get_yticks()[:2]
    if second - first >= 1e5:
        return lambda value, _: f"{value / 1e6:g}M" if value else "0"
    decimals = next((n for n in range(9) if math.isclose(round(second - first, n), second - first)), 9)
    return lambda value, _: f"{value:,.{decimals}f}"


def _for_page(name: str, title: str, image: str) -> str:
    """The ``svg`` element alone, a pixel for a point; its ids are prefixed by ``name``."""
    image = image[image.index("<svg") :]
    box = re.search(r'viewBox="0 0 (\S+) (\S+)"', image)
    assert box is not None
    size = f'{box[0]} width="{box[1]}" height="{box[2]}"'
    image = f'<svg role="img" aria-label="{escape(title)}" {size}>{image[image.index(">") + 1 :]}'
    image = re.sub(r'<style type="text/css">.*?</style>', "", image, flags=re.DOTALL)
    image = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}-", image)
    for drawn, meant in _CSS.items():
        image = image.replace(drawn, meant)
    return image.strip()
