"""The report of a run: one HTML file that needs nothing else, written into the run folder."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from mpitune import __version__
from mpitune.corpus.files import write_text
from mpitune.corpus.text import split_words
from mpitune.results import compare, plots
from mpitune.results.evaluate import corpus_bleu, sentence_bleu, signed_bleu
from mpitune.results.inspect import PREFIXES, chosen, largest
from mpitune.results.names import readable
from mpitune.results.record import AVERAGING, Record, Watched, read_record

TOP = 15
"""How many features of each template are shown."""
LATEST = 50
"""How many warnings are shown."""

_LIBRARIES = ("numpy", "scipy", "numba", "mpi4py", "h5py", "sacrebleu", "matplotlib", "jinja2")


class Weight(NamedTuple):
    """A feature in a table."""

    name: str
    readable: str | None
    value: float
    share: float
    """Its absolute value in percent of the largest in its table."""


class FeatureTable(NamedTuple):
    """Features of one kind."""

    template: str
    total: int
    rows: list[Weight]
    decimals: int
    """How many make sense, five digits of the largest."""


class Side(NamedTuple):
    """A translation beside its reference."""

    runs: list[compare.Run]
    bleu: float


class Comparison(NamedTuple):
    """A sentence before and after."""

    number: int
    """Its line, from 1."""
    source: str
    references: list[str]
    before: Side
    after: Side


class Translations(NamedTuple):
    """The watched sentences."""

    total: int
    before: float
    """Corpus BLEU, 0 to 100."""
    after: float
    signature: str
    better: int
    """How many sentences have a higher score than before."""
    worse: int
    kinds: dict[str, list[Comparison]]


def write_report(folder: Path) -> Path:
    """Write ``report.html`` into the run folder ``folder``, from what lies there; returns its path.

    The same folder gives the same bytes. Raises UsageError where that is no run folder or no epoch has been finished,
    DataError for a damaged file, OSError where the report cannot be written.
    """
    path = folder / "report.html"
    write_text(path, _render(read_record(folder)))
    return path


def _render(record: Record) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": _duration, "number": _number}
    translations = _translations(record.watched) if isinstance(record.watched, Watched) else None
    before = translations.before if translations and record.has_devtest else None
    return environment.get_template("report.html.j2").render(
        run=record,
        before=before,
        why=_why(record),
        plots=_plots(record, before),
        translations=translations,
        tables=_tables(record.weights),
        warnings=record.warnings[-LATEST:],
        versions={"mpitune": __version__, "Python": platform.python_version()}
        | {library: version(library) for library in _LIBRARIES},
    )


def _why(record: Record) -> str:
    """Why that epoch was chosen."""
    if record.algorithm in AVERAGING:
        return f"the last: {record.algorithm} returns its average over all epochs"
    return "the best on devtest" if record.has_devtest else "the last: there is no devtest set to choose on"


def _plots(record: Record, before: float | None) -> dict[str, str]:
    epochs, best = record.epochs, record.chosen

    def series(value: Any) -> plots.Series:
        return plots.Series([epoch.epoch for epoch in epochs], [value(epoch) for epoch in epochs])

    drawn = {}
    if record.has_devtest:
        bleu = series(lambda epoch: epoch.devtest_bleu)
        after, first = best.devtest_bleu or 0.0, epochs[0].devtest_bleu or 0.0
        notes = [plots.Note(best.epoch, after, f"{after:.2f}", above=True)]
        if before is not None:
            bleu = plots.Series([0, *bleu.epochs], [before, *bleu.values])
            notes.append(plots.Note(0, before, f"before {before:.2f}", above=before > first))
        drawn["bleu"] = plots.lines("bleu", [bleu], chosen=best.epoch, notes=notes, least_span=2.0)
    gold = series(lambda epoch: epoch.gold)
    drawn["gold"] = plots.lines("gold", [gold], chosen=best.epoch, least_span=0.02)
    features = [series(lambda epoch: epoch.active_features), series(lambda epoch: epoch.selected_features)]
    shown = features if record.selects else features[:1]
    drawn["features"] = plots.lines("features", shown, chosen=best.epoch, from_zero=True)
    drawn["seconds"] = plots.bars("seconds", series(lambda epoch: epoch.seconds), chosen=best.epoch)
    return drawn


def _translations(watched: Watched) -> Translations:
    after, signature = signed_bleu(watched.after, watched.references)
    scores = [sentence_bleu(texts, watched.references) for texts in (watched.before, watched.after)]
    changes = [new - old for old, new in zip(*scores, strict=True)]

    def side(texts: Sequence[str], which: int, i: int) -> Side:
        references = [split_words(reference) for reference in watched.references[i]]
        return Side(compare.runs(split_words(texts[i]), references), scores[which][i])

    def comparison(i: int) -> Comparison:
        sides = side(watched.before, 0, i), side(watched.after, 1, i)
        return Comparison(i + 1, watched.source[i], watched.references[i], *sides)

    return Translations(
        total=len(changes),
        before=corpus_bleu(watched.before, watched.references),
        after=after,
        signature=signature,
        better=sum(change > 0 for change in changes),
        worse=sum(change < 0 for change in changes),
        kinds={kind: [comparison(i) for i in places] for kind, places in compare.choose(changes).items()},
    )


def _tables(weights: dict[str, float]) -> list[FeatureTable]:
    """The dense features in full, by name; of each template that has any, those of largest absolute weight."""
    dense = chosen(weights, "dense", None)
    tables = [_table("dense", len(dense), sorted(dense.items()))]
    for template in PREFIXES:
        found = chosen(weights, template, None)
        tables.append(_table(template, len(found), largest(found, TOP)))
    return [table for table in tables if table.rows]


def _table(template: str, total: int, rows: Sequence[tuple[str, float]]) -> FeatureTable:
    most = max((abs(value) for _, value in rows), default=0.0) or 1.0
    shown = [Weight(name, readable(template, name), value, 100 * abs(value) / most) for name, value in rows]
    return FeatureTable(template, total, shown, decimals=min(max(4 - math.floor(math.log10(most)), 0), 12))


def _number(value: float, decimals: int = 0, sign: str = "-") -> str:
    """With thousands and the minus sign of typography; ``sign`` ``+`` has it before positive numbers too."""
    # + 0.0: no minus before what is rounded to zero.
    return f"{round(value, decimals) + 0.0:{sign},.{decimals}f}".replace("-", "\u2212")


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02} h" if hours else f"{minute}:{second:02} min"
