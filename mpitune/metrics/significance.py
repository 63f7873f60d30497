"""Evaluation of translations: corpus BLEU of several systems, with significance tests of their differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from mpitune.errors import UsageError
from mpitune.metrics.choices import SignificanceTest, Tokenizer
from mpitune.metrics.sacrebleu import Text, check_counts, corpus_score, paired_test


@dataclass(frozen=True)
class Score:
    """The scores of one system."""

    system: str
    bleu: float
    """0 to 100."""
    precisions: list[float]
    """Of the n-grams of orders 1 to 4, 0 to 100."""
    brevity_penalty: float
    length_ratio: float
    """Hypothesis words to reference words."""
    p_value: float | None = None
    """Probability that chance alone gives as large a difference to the first system. None without a test, and for the
    first system."""
    mean: float | None = None
    """Bootstrap: the mean BLEU over the resamples."""
    interval: float | None = None
    """Bootstrap: 95 % of the resamples lie in `mean` +- `interval`."""


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`."""

    signature: str
    """sacreBLEU's, without which scores cannot be compared."""
    scores: list[Score]

    def as_json(self) -> dict[str, Any]:
        """The evaluation in JSON's types."""
        return asdict(self)

    def as_text(self) -> str:
        """A plain table under the signature; ``*`` marks a difference to the first system with p < 0.05."""
        rows = [["system", "BLEU", "1/2/3/4-grams", "BP", "ratio", "mean +- 95 %", "p"]]
        for score in self.scores:
            precisions = "/".join(f"{precision:.1f}" for precision in score.precisions)
            row = [score.system, f"{score.bleu:.2f}", precisions]
            row += [f"{score.brevity_penalty:.3f}", f"{score.length_ratio:.3f}"]
            row.append("" if score.mean is None else f"{score.mean:.2f} +- {score.interval:.2f}")
            row.append("" if score.p_value is None else f"{score.p_value:.4f}" + "*" * (score.p_value < 0.05))
            rows.append(row)
        columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
        padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
        lines = ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]
        return "\n".join([self.signature, *lines])


def evaluate(
    references: Sequence[Text],
    systems: Sequence[Text],
    *,
    test: SignificanceTest | None = None,
    tokenize: Tokenizer = "none",
    lowercase: bool = False,
) -> Evaluation:
    """Corpus BLEU of ``systems`` against ``references``, with ``test`` against the first system.

    Equal texts always give equal p-values. Raises DataError if two texts differ in their number of lines or have none,
    UsageError if a test has fewer than two systems.
    """
    check_counts([*references, *systems])
    if test is not None and len(systems) < 2:
        raise UsageError(f"--test {test} compares systems with the first one: name at least two")
    lines = [text for _, text in references]
    found = [corpus_score(hypotheses, lines, tokenize, lowercase=lowercase) for _, hypotheses in systems]
    scores = [
        Score(name, score.bleu, score.precisions, score.brevity_penalty, score.length_ratio)
        for (name, _), score in zip(systems, found, strict=True)
    ]
    if test is None:
        return Evaluation(found[0].signature, scores)
    signature, results = paired_test(systems, lines, test, tokenize, lowercase=lowercase)
    tested = []
    for (_, hypotheses), score, result in zip(systems, scores, results, strict=True):
        p_value = result.p_value
        if p_value is not None:
            differing = sum(a != b for a, b in zip(hypotheses, systems[0][1], strict=True))
            p_value = max(p_value, _smallest_p_value(test, differing))
        tested.append(replace(score, p_value=p_value, mean=result.mean, interval=result.interval))
    return Evaluation(signature, tested)


def _smallest_p_value(test: SignificanceTest, differing: int) -> float:
    """Lower bound of the p-value of systems whose translations of ``differing`` sentences differ.

    sacreBLEU counts the trials that exceed the observed difference, while the tests are defined by the trials that
    reach it: for a system and its copy no trial exceeds 0, so that sacreBLEU's p-value is the smallest possible instead
    of 1. Approximate randomisation has 2^n ways to swap n sentences, two of which (none swapped, all swapped) reach the
    difference.
    """
    if differing == 0:
        return 1.0
    return 2.0 ** (1 - differing) if test == "ar" else 0.0
