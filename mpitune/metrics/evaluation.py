"""Evaluation of systems that have one or more runs each by any metrics, with significance tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from mpitune.errors import UsageError, printable
from mpitune.metrics import significance
from mpitune.metrics.choices import SignificanceTest, Tokenizer
from mpitune.metrics.sacrebleu import CorpusScore, References, Text, check_counts, corpus_score
from mpitune.metrics.sentence_statistics import SentenceStatistics
from mpitune.metrics.tuning_metric import METRICS, known_metrics

LEVEL = 0.05
"""Differences with a smaller p-value are marked."""

DEFAULT = ("bleu", "ter", "chrf", "length_ratio")
"""Metrics that texts are scored by if none are named."""

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
    values: dict[str, float]
    """By metric, as they are printed: BLEU 0 to 100, TER in edits per 100 words of the references."""
    precisions: list[float] | None
    """BLEU's, of the n-grams of orders 1 to 4, 0 to 100; None without BLEU."""
    brevity_penalty: float | None
    """BLEU's; None without BLEU."""
    deviations: dict[str, float] | None
    """By metric: the standard deviation over runs (with n - 1); None for one run."""
    p_values: dict[str, float] | None = None
    """By metric: probability that chance alone gives as large a difference to the first system. None without a test,
    and for the first system."""
    corrected: dict[str, float] | None = None
    """`p_values` after Holm's correction for the number of systems."""
    intervals: dict[str, significance.Interval] | None = None
    """Bootstrap only: 95 % of the resamples."""

    @property
    def bleu(self) -> float:
        """BLEU, 0 to 100."""
        return self.values["bleu"]

    @property
    def p_value(self) -> float | None:
        """The p-value of BLEU, not corrected."""
        return self.p_values["bleu"] if self.p_values else None


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`."""

    signature: str
    """sacreBLEU's signature of BLEU and of the test, without which scores cannot be compared; without BLEU a part."""
    scores: list[Score]

    def as_json(self) -> dict[str, Any]:
        """The evaluation in JSON's types."""
        scores = [asdict(score) for score in self.scores]
        flat = [{key: score[key] for key in ("system", "runs")} | score.pop("values") | score for score in scores]
        return {"signature": self.signature, "scores": flat}

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
        for name in self.scores[0].values:
            heading += [METRICS[name].label, "sd", "mean +- 95 %", p_value]
            heading += ["1/2/3/4-grams", "BP"] if name == "bleu" else []
        detailed = all(score.runs == 1 for score in self.scores)
        rows = [heading, *(_row(score, detailed) for score in self.scores)]
        filled = [column for column in zip(*rows, strict=True) if any(column[1:])]
        return [list(row) for row in zip(*filled, strict=True)]


def _row(score: Score, detailed: bool) -> Row:
    """The cells of a system; ``detailed``: with the parts of BLEU instead of the number of runs."""
    cells = [printable(score.system), "" if detailed else str(score.runs)]
    for name, value in score.values.items():
        decimals = METRICS[name].decimals
        cells.append(f"{value:.{decimals}f}")
        cells.append(f"{score.deviations[name]:.{decimals}f}" if score.deviations else "")
        cells.append("{:.{d}f} +- {:.{d}f}".format(*score.intervals[name], d=decimals) if score.intervals else "")
        p_value = score.corrected[name] if score.corrected else None
        cells.append("" if p_value is None else f"{p_value:.4f}" + "*" * (p_value < LEVEL))
        if name == "bleu":
            precisions = "/".join(f"{precision:.1f}" for precision in score.precisions or [])
            cells += [precisions, f"{score.brevity_penalty:.3f}"] if detailed else ["", ""]
    return cells


def evaluate(
    references: Sequence[References],
    systems: Sequence[SystemRuns],
    *,
    metrics: Sequence[str] = DEFAULT,
    test: SignificanceTest | None = None,
    tokenize: Tokenizer = "none",
    lowercase: bool = False,
) -> Evaluation:
    """Scores of ``systems`` against ``references``, with ``test`` of each system against the first one.

    ``metrics``: some of `METRICS`; ``tokenize``: for those that are `tokenized`, BLEU and the length. Equal texts
    always give equal p-values. Raises DataError if two texts differ in their number of lines or have none, UsageError
    for an unknown metric, or if a test has fewer than two systems.
    """
    counter = SentenceStatistics(known_metrics(metrics, "--metrics"))
    texts = [run for system in systems for run in system.runs]
    check_counts([*references, *texts])
    if test is not None and len(systems) < 2:
        raise UsageError(f"--test {test} compares systems with the first one: name at least two")
    lines = [text for _, text in references]
    statistics = counter.count([text for _, text in texts], lines, tokenize, lowercase=lowercase)
    bleu = [corpus_score(text, lines, tokenize, lowercase=lowercase) for _, text in texts] if "bleu" in metrics else []
    bounds = pairwise(accumulate((len(system.runs) for system in systems), initial=0))
    own = [slice(*pair) for pair in bounds]
    by_system = [statistics[:, runs] for runs in own]
    scores = [
        _score(system.name, counter.scores(counts.sum(axis=0)), bleu[runs])
        for system, counts, runs in zip(systems, by_system, own, strict=True)
    ]
    signature = f"nrefs:{len(lines)}|case:{'lc' if lowercase else 'mixed'}|tok:{tokenize}"
    if bleu:
        signature = bleu[0].signature
    if test is None:
        return Evaluation(signature, scores)
    short = {"ar": "ar", "bootstrap": "bs"}[test]
    signature = f"{signature}|{short}:{significance.TRIALS[test]}|seed:{significance.SEED}"
    return Evaluation(signature, _tested(scores, by_system, test, counter.scores))


def _score(name: str, by_run: Mapping[str, np.ndarray], bleu: Sequence[CorpusScore]) -> Score:
    """Means over runs; ``by_run``: by metric, float64 [runs]; ``bleu``: sacreBLEU's scores of the runs, if any."""
    runs = len(next(iter(by_run.values())))
    return Score(
        system=name,
        runs=runs,
        values={metric: float(values.mean()) for metric, values in by_run.items()},
        precisions=np.mean([run.precisions for run in bleu], axis=0).tolist() if bleu else None,
        brevity_penalty=float(np.mean([run.brevity_penalty for run in bleu])) if bleu else None,
        deviations={metric: float(values.std(ddof=1)) for metric, values in by_run.items()} if runs > 1 else None,
    )


def _tested(
    scores: Sequence[Score],
    statistics: Sequence[np.ndarray],
    test: SignificanceTest,
    corpus_scores: significance.Scores,
) -> list[Score]:
    """The ``scores`` with the results of ``test``; ``statistics``: of each system, int64 [sentences, runs, columns]."""
    run_test = {"ar": significance.approximate_randomization, "bootstrap": significance.bootstrap}[test]
    p_values = [run_test(statistics[0], other, corpus_scores) for other in statistics[1:]]
    corrected = {name: significance.holm([each[name] for each in p_values]) for name in scores[0].values}
    result = [scores[0]]
    for place, (score, values) in enumerate(zip(scores[1:], p_values, strict=True)):
        own = {name: column[place] for name, column in corrected.items()}
        result.append(replace(score, p_values=dict(values), corrected=own))
    if test == "ar":
        return result
    resampled = [corpus_scores(significance.resampled_sums(own)) for own in statistics]
    intervals = [{name: significance.interval(values) for name, values in own.items()} for own in resampled]
    return [replace(score, intervals=own) for score, own in zip(result, intervals, strict=True)]
