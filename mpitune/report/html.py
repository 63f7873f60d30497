"""The report of a run: one self-contained HTML file in the run folder, with its plots as PNG beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import jinja2

from mpitune.array_files.atomic import open_atomic, write_text
from mpitune.corpus.text import split_words
from mpitune.corpus.wording import clock
from mpitune.errors import UsageError, printable
from mpitune.files import exists, is_file, make_folder, matching, open_regular, writing
from mpitune.grammar.choices import PREFIXES
from mpitune.metrics.sacrebleu import corpus_bleu, sentence_bleu, signed_bleu
from mpitune.ownership import remove
from mpitune.report import diff
from mpitune.report.charts import Family, Runs, sections
from mpitune.report.rule_names import readable
from mpitune.run_folder.best_epoch import AVERAGING
from mpitune.run_folder.layout import RunFolder
from mpitune.run_folder.model_weights import filtered, largest
from mpitune.run_folder.reader import LogLine, Record, Watched, read_record
from mpitune.run_folder.seeds import run_folders
from mpitune.run_folder.versions import versions

TOP = 15
"""Number of features shown per template."""
DENSE = 40
"""Maximum number of dense features shown; if there are more, the largest are shown."""
LATEST = 50
"""Maximum number of warnings shown from the log, besides those of the epochs."""

_MADE_BY = "mpitune report</title>"
"""What the page of every report has."""

Examples = Callable[[Path, Sequence[str]], Mapping[str, Sequence[str]]]
"""Maps a run folder and feature names to rules (as text) that fire them, as far as these are known."""


class Weight(NamedTuple):
    """A row of a table of features."""

    name: str
    readable: str | None
    value: float
    share: float
    """Absolute value in percent of the largest in the table."""
    examples: Sequence[str]


class WeightTable(NamedTuple):
    """A table of the features of one template."""

    template: str
    total: int
    rows: list[Weight]
    decimals: int
    """Number of decimals: five significant digits of the largest value."""
    by_norm: list[Weight]
    """The features of largest column norm, with selection; their values are the norms."""
    norm_decimals: int


class Side(NamedTuple):
    """A translation and its matches with the references."""

    spans: list[diff.MatchSpan]
    bleu: float


class Comparison(NamedTuple):
    """A sentence translated before and after training."""

    number: int
    """Line number, from 1."""
    source: str
    references: list[str]
    before: Side
    after: Side


class Translations(NamedTuple):
    """Scores and examples of the watched sentences."""

    total: int
    before: float
    """Corpus BLEU, 0 to 100."""
    after: float
    signature: str
    better: int
    """Number of sentences with a higher score than before."""
    worse: int
    kinds: dict[str, list[Comparison]]


def write_report(
    folders: Sequence[Path],
    examples: Examples = lambda run, names: {},
    output: Path | None = None,
    warn: Callable[[str], None] = lambda text: None,
) -> Path:
    """Write ``report.html`` and its pictures ``plots/*.png`` into ``output``; returns the path of the page.

    ``output`` is created; its default is the first folder. A folder is a run folder, or holds the runs of one job with
    several seeds. The report describes the first run, from the files in its folder; its plots show the curves of all
    runs, of several seeds the mean with a band. The same folders give the same bytes. ``examples`` are shown beside
    features that are not rules themselves. Raises UsageError if a folder is no run folder or has no finished epoch, or
    if the report would replace a file that no report has written, DataError for a damaged file, UsageError or
    MachineError if the report cannot be written.
    """
    groups = [[read_record(run) for run in _reported_runs(folder)] for folder in folders]
    for record in chain(*groups):
        if record.state.state == "unknown":
            warn(f"warning: {record.state.reason}")
    folder = output or folders[0]
    make_folder(folder)
    earlier = _earlier_pictures(folder)
    names = _distinct_names(folders)
    page, pictures = _render([Family(name, group) for name, group in zip(names, groups, strict=True)], examples)
    for name in pictures:
        if name not in earlier and exists(picture := folder / "plots" / f"{name}.png"):
            raise _foreign(picture)
    make_folder(folder / "plots")
    with writing(folder):
        # First, as it is what tells that the pictures are those of a report.
        write_text(folder / "report.html", page)
        for name, content in pictures.items():
            with open_atomic(folder / "plots" / f"{name}.png") as written:
                written.write(content)
    # The new report may not have all pictures of the earlier one.
    remove(folder, *(f"plots/{name}.png" for name in earlier if name not in pictures))
    return folder / "report.html"


def _earlier_pictures(folder: Path) -> list[str]:
    """The names of the pictures of the report that is in ``folder``; none if there is no report.

    Raises UsageError for a page that no report has written.
    """
    page = folder / "report.html"
    if not exists(page):
        return []
    with open_regular(page) as file:
        earlier = file.read().decode(errors="replace")
    if _MADE_BY not in earlier:
        raise _foreign(page)
    names = [path.stem for path in matching(folder / "plots", "*.png")]
    return [name for name in names if f'id="{name}-figure_1"' in earlier]


def _foreign(path: Path) -> UsageError:
    expected = "a new folder or that of a report: name another one by --output"
    return UsageError(f"{path}: found a file that no report has written, expected {expected}")


def _reported_runs(folder: Path) -> list[Path]:
    """The runs in ``folder`` that have finished an epoch; all runs if none has, so that the error names one."""
    runs = run_folders(folder)
    return [run for run in runs if is_file(RunFolder(run).metrics)] or runs


def _render(families: Sequence[Family], examples: Examples) -> tuple[str, dict[str, bytes]]:
    """Render the page, and the plots as PNG by name."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": _duration, "number": _number}
    records = [record for family in families for record in family.records]
    record = records[0]
    translations = _translations(record.watched) if isinstance(record.watched, Watched) else None
    names = _distinct_names([each.path for each in records])
    runs = Runs(families, names, [_bleu_before(each) for each in records])
    shown, logged = sections(runs), _log_warnings(record)
    page = environment.get_template("report.html.j2").render(
        run=record,
        runs=runs,
        means=[
            {
                "name": family.name,
                "bleu": family.spread(lambda record: record.result_bleu),
                "gold": family.spread(lambda record: record.result_gold),
            }
            for family in families
            if family.several
        ],
        before=runs.before[0],
        why=_selection_reason(record),
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


def _distinct_names(folders: Sequence[Path]) -> list[str]:
    """The names of the ``folders``, or their paths if names are not unique."""
    names = [printable(folder.resolve().name) for folder in folders]
    return names if len(set(names)) == len(names) else [printable(folder) for folder in folders]


def _bleu_before(record: Record) -> float | None:
    """Devtest BLEU before training; None if unknown."""
    if not record.has_bleu or not isinstance(record.watched, Watched):
        return None
    return corpus_bleu(record.watched.before, record.watched.references)


def _selection_reason(record: Record) -> str:
    """Reason for the choice of the epoch."""
    by = "" if record.chosen.devtest_metric is None else f" by {record.metric}"
    reason = f"the best on devtest{by}" if record.has_devtest else "the last: there is no devtest set to choose on"
    before, best = _bleu_before(record), record.chosen.devtest_bleu
    if before is not None and best is not None and not by and best < before:
        reason = "the best on devtest but for the initial weights"
    return (
        f"{reason} ({record.algorithm}: each epoch's are the average so far)"
        if record.algorithm in AVERAGING
        else reason
    )


def _log_warnings(record: Record) -> list[LogLine]:
    """The warnings in the log that are not among those of the epochs."""
    kept = {f"epoch {epoch.epoch}: {text}" for epoch in record.epochs for text in epoch.warnings}
    return [line for line in record.warnings if line.text not in kept]


def _translations(watched: Watched) -> Translations:
    after, signature = signed_bleu(watched.after, watched.references)
    scores = [sentence_bleu(texts, watched.references) for texts in (watched.before, watched.after)]
    changes = [new - old for old, new in zip(*scores, strict=True)]

    def side(texts: Sequence[str], which: int, i: int) -> Side:
        references = [split_words(reference) for reference in watched.references[i]]
        return Side(diff.match_spans(split_words(texts[i]), references), scores[which][i])

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
        kinds={kind: [comparison(i) for i in places] for kind, places in diff.select_sentences(changes).items()},
    )


def _tables(record: Record, examples: Examples) -> list[WeightTable]:
    """A table of the dense features by name, and one per template by absolute weight and by column norm."""
    dense, norms = filtered(record.weights, "dense", None), record.chosen.largest_norms
    rows = {"dense": sorted(dense.items() if len(dense) <= DENSE else largest(dense, DENSE))}
    totals = {"dense": len(dense)}
    for template in PREFIXES:
        found = filtered(record.weights, template, None)
        rows[template], totals[template] = largest(found, TOP), len(found)
    # The feature of a rule (template id) shows the rule itself.
    asked = [name for kind in (rows, norms) for template in kind if template != "id" for name, _ in kind[template]]
    rules = examples(record.path, sorted({name for name in asked if name not in dense}))
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
    """The rows of a table, and their number of decimals."""
    most = max((abs(value) for _, value in shown), default=0.0) or 1.0
    rows = [
        Weight(name, readable(template, name), value, 100 * abs(value) / most, rules.get(name, ()))
        for name, value in shown
    ]
    return rows, min(max(4 - math.floor(math.log10(most)), 0), 12)


def _number(value: float, decimals: int = 0, sign: str = "-") -> str:
    """Format with thousands separators and a typographic minus; ``sign`` ``+``: positive numbers get a plus."""
    # + 0.0: no minus sign for numbers rounded to zero.
    return f"{round(value, decimals) + 0.0:{sign},.{decimals}f}".replace("-", "\u2212")


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    return f"{clock(seconds)} {'h' if round(seconds) >= 3600 else 'min'}"
