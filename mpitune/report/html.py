"""The report of a run: one self-contained HTML file in the run folder, with its plots as PNG beside it."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from importlib.metadata import version
from itertools import groupby
from operator import or_
from pathlib import Path
from statistics import median
from typing import NamedTuple

import jinja2

from mpitune.array_files.atomic import open_atomic, write_text
from mpitune.corpus.text import split_words
from mpitune.corpus.wording import clock
from mpitune.errors import UsageError, printable
from mpitune.files import exists, is_file, make_folder, matching, open_regular, writing
from mpitune.grammar.sparse import prefixes
from mpitune.metrics.sacrebleu import corpus_bleu, sentence_bleu, signed_bleu
from mpitune.ownership import remove
from mpitune.report.charts import Family, Runs, sections
from mpitune.report.plots import render
from mpitune.report.readable import feature_in_words
from mpitune.run_folder.layout import RunFolder, run_folders
from mpitune.run_folder.model_weights import by_template, largest
from mpitune.run_folder.reader import Record, Watched, read_record
from mpitune.run_folder.run_state import AVERAGING, versions

TOP = 15
"""Number of features shown per template."""
DENSE = 40
"""Maximum number of dense features shown; if there are more, the largest are shown."""
LATEST = 50
"""Maximum number of warnings shown from the log, besides those of the epochs."""
MAX_SENTENCES = {"gains": 12, "losses": 4, "typical": 4}
"""Maximum number of sentences shown of each kind."""
ORDER = 4
"""Maximum n-gram order that is marked, as in BLEU."""

_MADE_BY = "mpitune report</title>"
"""Text by which the page of a report is known."""

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


class Weights(NamedTuple):
    """Features of one template."""

    rows: list[Weight]
    decimals: int
    """Number of decimals: five significant digits of the largest value."""


class WeightTable(NamedTuple):
    """A table of the features of one template."""

    template: str
    total: int
    by_weight: Weights
    by_norm: Weights
    """The features of largest column norm, with selection; their values are the norms."""


class MatchSpan(NamedTuple):
    """Consecutive words with the same longest match."""

    text: str
    match: int
    """Order of the longest n-gram that is also in a reference; 0: none."""


class Side(NamedTuple):
    """A translation and its matches with the references."""

    spans: list[MatchSpan]
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

    before: float
    """Corpus BLEU, 0 to 100."""
    after: float
    signature: str
    total: int
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
    names = _distinct_names(folders)
    families = [
        Family(name, [read_record(run) for run in _reported_runs(folder)])
        for name, folder in zip(names, folders, strict=True)
    ]
    for record in (record for family in families for record in family.records):
        if record.state.state == "unknown":
            warn(record.state.reason)
    folder = output or folders[0]
    make_folder(folder)
    earlier = _earlier_pictures(folder)
    page, pictures = _render(families, examples)
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
    before = translations.before if translations and record.has_bleu else None
    runs = Runs(families, _distinct_names([each.path for each in records]), before)
    shown = sections(runs)
    drawn = {plot.name: render(plot) for section in shown for plot in section.plots}
    # Warnings of epochs are in the log, too.
    told = {f"epoch {epoch.epoch}: {text}" for epoch in record.epochs for text in epoch.warnings}
    logged = [line for line in record.warnings if line.text not in told]
    page = environment.get_template("report.html.j2").render(
        run=record,
        runs=runs,
        before=before,
        why=_selection_reason(record, before),
        sections=shown,
        images={name: svg for name, (svg, _) in drawn.items()},
        translations=translations,
        tables=_tables(record, examples),
        warned=[epoch for epoch in record.epochs if epoch.warnings],
        logged=len(logged),
        warnings=logged[-LATEST:],
        count=sum(len(epoch.warnings) for epoch in record.epochs) + len(logged),
        versions=versions() | {library: version(library) for library in ("matplotlib", "jinja2")},
    )
    return page, {name: png for name, (_, png) in drawn.items()}


def _distinct_names(folders: Sequence[Path]) -> list[str]:
    """The names of the ``folders``, or their paths if names are not unique."""
    names = [printable(os.path.basename(os.path.realpath(folder))) for folder in folders]
    return names if len(set(names)) == len(names) else [printable(folder) for folder in folders]


def _selection_reason(record: Record, before: float | None) -> str:
    """Reason for the choice of the epoch; ``before``: devtest BLEU before training."""
    best, tuned = record.chosen.devtest_bleu, record.chosen.devtest_metric
    reason = "the last: there is no devtest set to choose on"
    if record.has_devtest:
        reason = "the best on devtest" if tuned is None else f"the best on devtest by {record.metric}"
    if before is not None and best is not None and tuned is None and best < before:
        reason = "the best on devtest but for the initial weights"
    averaging = f" ({record.algorithm}: each epoch's are the average so far)"
    return reason + (averaging if record.algorithm in AVERAGING else "")


def _translations(watched: Watched) -> Translations:
    after, signature = signed_bleu(watched.after, watched.references)
    old, new = (sentence_bleu(texts, watched.references) for texts in (watched.before, watched.after))
    changes = [score - earlier for earlier, score in zip(old, new, strict=True)]

    def comparison(i: int) -> Comparison:
        references = [split_words(reference) for reference in watched.references[i]]
        before, after = (
            Side(match_spans(split_words(texts[i]), references), scores[i])
            for texts, scores in ((watched.before, old), (watched.after, new))
        )
        return Comparison(i + 1, watched.source[i], watched.references[i], before, after)

    return Translations(
        before=corpus_bleu(watched.before, watched.references),
        after=after,
        signature=signature,
        total=len(changes),
        better=sum(change > 0 for change in changes),
        worse=sum(change < 0 for change in changes),
        kinds={kind: [comparison(i) for i in places] for kind, places in select_sentences(changes).items()},
    )


def select_sentences(changes: Sequence[float]) -> dict[str, list[int]]:
    """Select the sentences of largest gain, of largest loss, and, of the others, those nearest to the median change.

    ``changes``: change in score of each sentence. Sentences of a kind are in this order, ties in text order.
    """

    def ranked(places: Sequence[int], size: Callable[[float], float], kind: str) -> list[int]:
        return sorted(places, key=lambda i: size(changes[i]))[: MAX_SENTENCES[kind]]

    middle, places = median(changes), range(len(changes))
    gains = ranked([i for i in places if changes[i] > 0], lambda change: -change, "gains")
    losses = ranked([i for i in places if changes[i] < 0], lambda change: change, "losses")
    others = [i for i in places if i not in (*gains, *losses)]
    return {"gains": gains, "losses": losses, "typical": ranked(others, lambda change: abs(change - middle), "typical")}


def longest_matches(words: Sequence[str], references: Sequence[Sequence[str]]) -> list[int]:
    """For each word, the order (up to `ORDER`) of the longest matched n-gram that contains it; 0 if there is none.

    Matches are clipped as in BLEU (Papineni et al., ACL 2002, section 2.1) to the largest count in any reference; the
    first occurrences match.
    """
    found = [0] * len(words)
    for n in range(1, ORDER + 1):
        left = reduce(or_, [Counter(_ngrams(reference, n)) for reference in references])
        for i, ngram in enumerate(_ngrams(words, n)):
            if left[ngram] > 0:
                left[ngram] -= 1
                found[i : i + n] = [n] * n
    return found


def match_spans(words: Sequence[str], references: Sequence[Sequence[str]]) -> list[MatchSpan]:
    """``words`` split where `longest_matches` changes."""
    pairs = zip(words, longest_matches(words, references), strict=True)
    return [MatchSpan(" ".join(word for word, _ in group), n) for n, group in groupby(pairs, key=lambda pair: pair[1])]


def _ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def _tables(record: Record, examples: Examples) -> list[WeightTable]:
    """A table of the dense features by name, and one per template by absolute weight and by column norm."""
    kept = by_template(record.weights)
    by_weight = {template: largest(found, TOP) for template, found in kept.items()}
    by_weight["dense"] = sorted(largest(kept["dense"], DENSE))
    by_norm = record.chosen.largest_norms
    # The feature of a rule (template id) shows the rule itself.
    sparse = [template for template in prefixes() if template != "id"]
    asked = {name for kind in (by_weight, by_norm) for template in sparse for name, _ in kind.get(template, ())}
    rules = examples(record.path, sorted(asked))
    tables = []
    for template, shown in by_weight.items():
        if shown:
            kinds = [_rows(template, rows, rules) for rows in (shown, by_norm.get(template, []))]
            tables.append(WeightTable(template, len(kept[template]), *kinds))
    return tables


def _rows(template: str, shown: Sequence[tuple[str, float]], rules: Mapping[str, Sequence[str]]) -> Weights:
    most = max((abs(value) for _, value in shown), default=0.0) or 1.0
    rows = [
        Weight(name, feature_in_words(template, name), value, 100 * abs(value) / most, rules.get(name, ()))
        for name, value in shown
    ]
    return Weights(rows, min(max(4 - math.floor(math.log10(most)), 0), 12))


def _number(value: float, decimals: int = 0, sign: str = "-") -> str:
    """Format with thousands separators and a typographic minus; ``sign`` ``+``: positive numbers get a plus."""
    # + 0.0: no minus sign for numbers rounded to zero.
    return f"{round(value, decimals) + 0.0:{sign},.{decimals}f}".replace("-", "\u2212")


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    return f"{clock(seconds)} {'h' if round(seconds) >= 3600 else 'min'}"
