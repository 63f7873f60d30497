"""The report of a run: one HTML file that needs nothing else, written into the run folder, its plots beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import jinja2

from mpitune.array_files.atomic import open_atomic, write_text
from mpitune.corpus.text import clock, split_words
from mpitune.metrics.significance import corpus_bleu, sentence_bleu, signed_bleu
from mpitune.report import diff
from mpitune.report.charts import Runs, sections
from mpitune.report.rule_names import readable
from mpitune.run_folder.best_epoch import AVERAGING
from mpitune.run_folder.model_weights import PREFIXES, chosen, largest
from mpitune.run_folder.reader import LogLine, Record, Watched, read_record
from mpitune.run_folder.versions import versions

TOP = 15
"""How many features of each template are shown."""
DENSE = 40
"""How many dense features are shown by name; where there are more, the largest."""
LATEST = 50
"""How many warnings of the log are shown, besides those of the epochs."""

Examples = Callable[[Sequence[str]], Mapping[str, Sequence[str]]]
"""For names of features, rules that fire them, as text; of some, where they are known."""


class Weight(NamedTuple):
    """A feature in a table."""

    name: str
    readable: str | None
    value: float
    share: float
    """Its absolute value in percent of the largest in its table."""
    examples: Sequence[str]


class WeightTable(NamedTuple):
    """Features of one kind."""

    template: str
    total: int
    rows: list[Weight]
    decimals: int
    """How many make sense, five digits of the largest."""
    by_norm: list[Weight]
    """Those of the largest column norms, where columns were selected; their values are the norms."""
    norm_decimals: int


class Side(NamedTuple):
    """A translation beside its reference."""

    runs: list[diff.ComparedRun]
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


def write_report(folders: Sequence[Path], examples: Examples = lambda names: {}) -> Path:
    """Write ``report.html`` and the pictures in ``plots`` into the first of the run folders; returns the page's path.

    It tells of that run, from what lies in its folder, and has the curves of the others beside its own. The same
    folders give the same bytes. ``examples`` are shown beside features that are no rules themselves. Raises UsageError
    where a folder is no run folder or no epoch has been finished, DataError for a damaged file, OSError where the
    report cannot be written.
    """
    records = [read_record(folder) for folder in folders]
    path = folders[0] / "report.html"
    page, pictures = _render(records, examples)
    for name, picture in pictures.items():
        file = folders[0] / "plots" / f"{name}.png"
        file.parent.mkdir(exist_ok=True)
        with open_atomic(file) as written:
            written.write(picture)
    write_text(path, page)
    return path


def _render(records: Sequence[Record], examples: Examples) -> tuple[str, dict[str, bytes]]:
    """The page, and the plots as PNG by name."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": _duration, "number": _number}
    record = records[0]
    translations = _translations(record.watched) if isinstance(record.watched, Watched) else None
    names = _told_apart(records)
    runs = Runs(records, names, [_before(each) for each in records])
    shown, logged = sections(runs), _logged(record)
    page = environment.get_template("report.html.j2").render(
        run=record,
        runs=runs,
        before=runs.before[0],
        why=_why(record),
        sections=shown,
        translations=translations,
        tables=_tables(record, examples),
        warned=[epoch for epoch in record.epochs if epoch.warnings],
        logged=len(logged),
        warnings=logged[-LATEST:],
        count=sum(len(epoch.warnings) for epoch in record.epochs) + len(logged),
        versions=versions() | {library: version(library) for library in ("matplotlib", "jinja2")},
    )
    return page, {chart.name: chart.plot.png for section in shown for chart in section.charts}


def _told_apart(records: Sequence[Record]) -> list[str]:
    """Names of runs: those of their folders, or paths where these are the same."""
    names = [record.name for record in records]
    return names if len(set(names)) == len(names) else [str(record.path) for record in records]


def _before(record: Record) -> float | None:
    """Devtest BLEU before training."""
    if not record.has_devtest or not isinstance(record.watched, Watched):
        return None
    return corpus_bleu(record.watched.before, record.watched.references)


def _why(record: Record) -> str:
    """Why that epoch was chosen."""
    why = "the best on devtest" if record.has_devtest else "the last: there is no devtest set to choose on"
    return f"{why} ({record.algorithm}: each epoch's are the average so far)" if record.algorithm in AVERAGING else why


def _logged(record: Record) -> list[LogLine]:
    """The warnings of the log, without those that epochs have kept."""
    kept = {f"epoch {epoch.epoch}: {text}" for epoch in record.epochs for text in epoch.warnings}
    return [line for line in record.warnings if line.text not in kept]


def _translations(watched: Watched) -> Translations:
    after, signature = signed_bleu(watched.after, watched.references)
    scores = [sentence_bleu(texts, watched.references) for texts in (watched.before, watched.after)]
    changes = [new - old for old, new in zip(*scores, strict=True)]

    def side(texts: Sequence[str], which: int, i: int) -> Side:
        references = [split_words(reference) for reference in watched.references[i]]
        return Side(diff.runs(split_words(texts[i]), references), scores[which][i])

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
        kinds={kind: [comparison(i) for i in places] for kind, places in diff.choose(changes).items()},
    )


def _tables(record: Record, examples: Examples) -> list[WeightTable]:
    """The dense features by name; of each template that has any, those of largest absolute weight and column norm."""
    dense, norms = chosen(record.weights, "dense", None), record.chosen.largest_norms
    rows = {"dense": sorted(dense.items() if len(dense) <= DENSE else largest(dense, DENSE))}
    totals = {"dense": len(dense)}
    for template in PREFIXES:
        found = chosen(record.weights, template, None)
        rows[template], totals[template] = largest(found, TOP), len(found)
    # A rule's own feature needs no example.
    asked = [name for kind in (rows, norms) for template in kind if template != "id" for name, _ in kind[template]]
    rules = examples(sorted({name for name in asked if name not in dense}))
    tables = []
    for template, shown in rows.items():
        by_weight, decimals = _rows(template, shown, rules)
        by_norm, norm_decimals = _rows(template, norms.get(template, []), rules)
        if by_weight:
            tables.append(WeightTable(template, totals[template], by_weight, decimals, by_norm, norm_decimals))
    return tables


def _rows(
    template: str, shown: Sequence[tuple[str, float]], rules: Mapping[str, Sequence[str]]
) -> tuple[list[Weight], int]:
    """The rows of a table, and how many decimals they have."""
    most = max((abs(value) for _, value in shown), default=0.0) or 1.0
    rows = [
        Weight(name, readable(template, name), value, 100 * abs(value) / most, rules.get(name, ()))
        for name, value in shown
    ]
    return rows, min(max(4 - math.floor(math.log10(most)), 0), 12)


def _number(value: float, decimals: int = 0, sign: str = "-") -> str:
    """With thousands and the minus sign of typography; ``sign`` ``+`` has it before positive numbers too."""
    # + 0.0: no minus before what is rounded to zero.
    return f"{round(value, decimals) + 0.0:{sign},.{decimals}f}".replace("-", "\u2212")


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    return f"{clock(seconds)} {'h' if round(seconds) >= 3600 else 'min'}"
