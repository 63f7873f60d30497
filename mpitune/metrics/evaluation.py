"""Evaluation of systems that have one or more runs each: BLEU, TER, chrF and length, with significance tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from mpitune.errors import UsageError, printable
from mpitune.metrics import significance
from mpitune.metrics.choices import EvaluationMetricName, SignificanceTest, Tokenizer
from mpitune.metrics.sacrebleu import CorpusScore, References, Text, check_counts, corpus_score
from mpitune.metrics.sentence_statistics import CORPUS_SCORES, sentence_statistics

LEVEL = 0.05
"""Differences with a smaller p-value are marked."""

_COLUMNS: dict[EvaluationMetricName, tuple[str, int]] = {
    "bleu": ("BLEU", 2),
    "ter": ("TER", 2),
    "chrf": ("chrF", 2),
    "length_ratio": ("length", 3),
}
"""By metric: the heading of its column, and the number of decimals."""

Row = list[str]


class SystemRuns(NamedTuple):
    """A system and its translations."""

    name: str
    runs: Sequence[Text]
    """One text for each run of the optimizer, at least one."""


@dataclass(frozen=True)
class Score:
    """The scores of one system: means over its runs."""

    system: str
    runs: int
    bleu: float
    """0 to 100."""
    precisions: list[float]
    """Of the n-grams of orders 1 to 4, 0 to 100."""
    brevity_penalty: float
    ter: float
    """Edits per 100 words of the references."""
    chrf: float
    """chrF2, 0 to 100."""
    length_ratio: float
    """Words of the translations / words of the closest references."""
    deviations: dict[EvaluationMetricName, float] | None
    """By metric: the standard deviation over runs (with n - 1); None for one run."""
    p_values: dict[EvaluationMetricName, float] | None = None
    """By metric: probability that chance alone gives as large a difference to the first system. None without a test,
    and for the first system."""
    corrected: dict[EvaluationMetricName, float] | None = None
    """`p_values` after Holm's correction for the number of systems."""
    intervals: dict[EvaluationMetricName, significance.Interval] | None = None
    """Bootstrap only: 95 % of the resamples."""

    @property
    def p_value(self) -> float | None:
        """The p-value of BLEU, not corrected."""
        return self.p_values["bleu"] if self.p_values else None


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`."""

    signature: str
    """sacreBLEU's signature of BLEU and of the test, without which scores cannot be compared."""
    scores: list[Score]

    def as_json(self) -> dict[str, Any]:
        """The evaluation in JSON's types."""
        return asdict(self)

    def as_text(self) -> str:
        """A plain table under the signature; ``*`` marks a significant difference to the first system."""
        columns = zip(*self._rows(), strict=True)
        padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
        return "\n".join([self.signature, *("  ".join(cells).rstrip() for cells in zip(*padded, strict=True))])

    def as_markdown(self) -> str:
        """The same table in Markdown, the signature below it."""
        heading, *rows = self._rows()
        lines = [heading, ["---"] * len(heading), *rows]
        escaped = ([cell.replace("|", "\\|") for cell in cells] for cells in lines)
        return "\n".join([*(f"| {' | '.join(cells)} |" for cells in escaped), "", f"`{self.signature}`"])

    def _rows(self) -> list[Row]:
        """The heading and a row for each system, without columns that are empty in all rows."""
        p_value = "p (Holm)" if len(self.scores) > 2 else "p"
        heading = ["system", "runs"]
        for name, (title, _) in _COLUMNS.items():
            heading += [title, "sd", "mean +- 95 %", p_value]
            heading += ["1/2/3/4-grams", "BP"] if name == "bleu" else []
        detailed = all(score.runs == 1 for score in self.scores)
        rows = [heading, *(_row(score, detailed) for score in self.scores)]
        filled = [column for column in zip(*rows, strict=True) if any(column[1:])]
        return [list(row) for row in zip(*filled, strict=True)]


def _row(score: Score, detailed: bool) -> Row:
    """The cells of a system; ``detailed``: with the parts of BLEU instead of the number of runs."""
    cells = [printable(score.system), "" if detailed else str(score.runs)]
    for name, (_, decimals) in _COLUMNS.items():
        cells.append(f"{getattr(score, name):.{decimals}f}")
        cells.append(f"{score.deviations[name]:.{decimals}f}" if score.deviations else "")
        cells.append("{:.{d}f} +- {:.{d}f}".format(*score.intervals[name], d=decimals) if score.intervals else "")
        p_value = score.corrected[name] if score.corrected else None
        cells.append("" if p_value is None else f"{p_value:.4f}" + "*" * (p_value < LEVEL))
        if name == "bleu":
            precisions = "/".join(f"{precision:.1f}" for precision in score.precisions)
            cells += [precisions, f"{score.brevity_penalty:.3f}"] if detailed else ["", ""]
    return cells


def evaluate(
    references: Sequence[References],
    systems: Sequence[SystemRuns],
    *,
    test: SignificanceTest | None = None,
    tokenize: Tokenizer = "none",
    lowercase: bool = False,
) -> Evaluation:
    """Scores of ``systems`` against ``references``, with ``test`` of each system against the first one.

    Equal texts always give equal p-values. Raises DataError if two texts differ in their number of lines or have none,
    UsageError if a test has fewer than two systems.
    """
    texts = [run for system in systems for run in system.runs]
    check_counts([*references, *texts])
    if test is not None and len(systems) < 2:
        raise UsageError(f"--test {test} compares systems with the first one: name at least two")
    lines = [text for _, text in references]
    statistics = sentence_statistics([text for _, text in texts], lines, tokenize, lowercase=lowercase)
    bleu = [corpus_score(text, lines, tokenize, lowercase=lowercase) for _, text in texts]
    bounds = pairwise(accumulate((len(system.runs) for system in systems), initial=0))
    own = [slice(*pair) for pair in bounds]
    by_system = [statistics[:, runs] for runs in own]
    scores = [
        _score(system.name, counts, bleu[runs]) for system, counts, runs in zip(systems, by_system, own, strict=True)
    ]
    signature = bleu[0].signature
    if test is None:
        return Evaluation(signature, scores)
    short = {"ar": "ar", "bootstrap": "bs"}[test]
    signature = f"{signature}|{short}:{significance.TRIALS[test]}|seed:{significance.SEED}"
    return Evaluation(signature, _tested(scores, by_system, test))


def _score(name: str, statistics: np.ndarray, bleu: Sequence[CorpusScore]) -> Score:
    """Means over runs; ``statistics``: int64 [sentences, runs, columns]; ``bleu``: sacreBLEU's scores of the runs."""
    by_run = {metric: significance.corpus_scores(metric, statistics.sum(axis=0)) for metric in CORPUS_SCORES}
    several = len(bleu) > 1
    means: dict[str, Any] = {metric: float(values.mean()) for metric, values in by_run.items()}
    return Score(
        system=name,
        runs=len(bleu),
        precisions=np.mean([run.precisions for run in bleu], axis=0).tolist(),
        brevity_penalty=float(np.mean([run.brevity_penalty for run in bleu])),
        deviations={metric: float(values.std(ddof=1)) for metric, values in by_run.items()} if several else None,
        **means,
    )


def _tested(scores: Sequence[Score], statistics: Sequence[np.ndarray], test: SignificanceTest) -> list[Score]:
    """The ``scores`` with the results of ``test``; ``statistics``: of each system, int64 [sentences, runs, columns]."""
    run_test = {"ar": significance.approximate_randomization, "bootstrap": significance.bootstrap}[test]
    p_values = [run_test(statistics[0], other) for other in statistics[1:]]
    corrected = {name: significance.holm([each[name] for each in p_values]) for name in CORPUS_SCORES}
    result = [scores[0]]
    for place, (score, values) in enumerate(zip(scores[1:], p_values, strict=True)):
        own = {name: column[place] for name, column in corrected.items()}
        result.append(replace(score, p_values=dict(values), corrected=own))
    if test == "ar":
        return result
    return [replace(score, intervals=_intervals(own)) for score, own in zip(result, statistics, strict=True)]


def _intervals(statistics: np.ndarray) -> dict[EvaluationMetricName, significance.Interval]:
    sums = significance.resampled_sums(statistics)
    return {name: significance.interval(significance.corpus_scores(name, sums)) for name in CORPUS_SCORES}
