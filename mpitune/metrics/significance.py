"""Scores of translations: corpus BLEU and its significance tests, from sacreBLEU (Post 2018); the one door to it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from mpitune.errors import DataError, UsageError

Text = tuple[str, Sequence[str]]
"""A text by name (its file): one line per sentence."""

TESTS = {"ar": ("ar", 10_000), "bootstrap": ("bs", 1_000)}
"""The paired significance tests by name: sacreBLEU's name of each, and how many trials or resamples. ``ar`` is
approximate randomisation (Noreen 1989), ``bootstrap`` paired bootstrap resampling (Koehn 2004)."""

TOKENIZERS = ("none", "13a")
"""``none`` for text that is tokenised already, ``13a`` (mteval-v13a) for detokenised text."""

_SEED = "12345"  # sacreBLEU's own default


@dataclass(frozen=True)
class Score:
    """How one system did."""

    system: str
    bleu: float
    """0 to 100."""
    precisions: list[float]
    """Of the n-grams of orders 1 to 4, 0 to 100."""
    brevity_penalty: float
    length_ratio: float
    """Hypothesis words to reference words."""
    p_value: float | None = None
    """Of the difference to the first system: how often chance alone gives one as large. None without a test, and for
    the first system."""
    mean: float | None = None
    """Bootstrap: the mean BLEU over the resamples."""
    interval: float | None = None
    """Bootstrap: 95 % of the resamples lie in `mean` +- `interval`."""


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found."""

    signature: str
    """sacreBLEU's: without it scores cannot be compared."""
    scores: list[Score]

    def as_json(self) -> dict[str, Any]:
        """The same in JSON's types."""
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
    test: str | None = None,
    tokenize: str = "none",
    lowercase: bool = False,
) -> Evaluation:
    """Corpus BLEU of ``systems`` against ``references``, with ``test`` (of `TESTS`) against the first system.

    The same texts give the same p-values at any time. Raises DataError where two texts differ in their number of lines
    or have none, UsageError where there is nothing to compare the first system with.
    """
    _check_counts([*references, *systems])
    if test is not None and len(systems) < 2:
        raise UsageError(f"--test {test} compares systems with the first one: name at least two")
    metric = _bleu(tokenize, lowercase)
    lines = [text for _, text in references]
    scores = []
    for name, hypotheses in systems:
        found = metric.corpus_score(hypotheses, lines)
        scores.append(Score(name, found.score, list(found.precisions), found.bp, found.ratio))
    if test is None:
        return Evaluation(str(metric.get_signature()), scores)
    return _compare(metric, lines, systems, scores, test)


def _compare(
    metric: BLEU, references: list[Sequence[str]], systems: Sequence[Text], scores: list[Score], test: str
) -> Evaluation:
    """``scores`` completed by the significance test against the first system."""
    theirs, trials = TESTS[test]
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = _SEED  # the only way to say it; read while the test is set up
    try:
        paired = PairedTest(list(systems), {"BLEU": metric}, references, test_type=theirs, n_samples=trials, n_jobs=1)
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before
    signatures, found = paired()
    results: list[Any] = found["BLEU"]
    tested = []
    for (_, hypotheses), score, result in zip(systems, scores, results, strict=True):
        p_value = _plain(result.p_value)
        if p_value is not None:
            differing = sum(a != b for a, b in zip(hypotheses, systems[0][1], strict=True))
            p_value = max(p_value, _smallest_p_value(test, differing))
        tested.append(replace(score, p_value=p_value, mean=_plain(result.mean), interval=_plain(result.ci)))
    return Evaluation(str(signatures["BLEU"]), tested)


def _smallest_p_value(test: str, differing: int) -> float:
    """The least p-value that systems whose translations of ``differing`` sentences differ can have.

    sacreBLEU counts the trials that exceed the difference found, where the tests are defined by those that reach it:
    for a system and its copy no trial exceeds 0, and p would come out smallest where it is 1. Approximate randomisation
    has 2^n ways to swap n sentences, two of which (none swapped, all swapped) reach the difference.
    """
    if differing == 0:
        return 1.0
    return 2.0 ** (1 - differing) if test == "ar" else 0.0


def _plain(number: Any) -> float | None:
    """NumPy's floats as Python's."""
    return None if number is None else float(number)


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Corpus BLEU, 0 to 100, of tokenised text; ``references[i]`` are those of sentence i, one or more.

    Raises DataError where the numbers of sentences differ or are 0.
    """
    return signed_bleu(hypotheses, references)[0]


def bleu_and_length(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, float]:
    """`corpus_bleu`, and words of the translations to words of their closest references."""
    _check_counts([("the references", references), ("the translations", hypotheses)])
    score = _bleu("none", lowercase=False).corpus_score(hypotheses, list(zip_longest(*references)))
    return float(score.score), float(score.ratio)


def signed_bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    """`corpus_bleu` and its signature."""
    _check_counts([("the references", references), ("the translations", hypotheses)])
    # sacreBLEU takes whole texts, with None where a sentence has fewer references than others.
    texts = list(zip_longest(*references))
    metric = _bleu("none", lowercase=False)
    score = float(metric.corpus_score(hypotheses, texts).score)
    return score, str(metric.get_signature())


def sentence_bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """BLEU, 0 to 100, of each sentence for itself: smoothed, and without the orders that a short one has no n-grams of.

    Arguments as for `corpus_bleu`. These scores tell sentences apart; their mean is no corpus score.
    """
    metric = BLEU(tokenize="none", effective_order=True)
    return [
        float(metric.sentence_score(hypothesis, list(texts)).score)
        for hypothesis, texts in zip(hypotheses, references, strict=True)
    ]


def _bleu(tokenize: str, lowercase: bool) -> BLEU:
    # force: no warnings that text looks tokenised; the signature says what was done.
    return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)


def _check_counts(texts: Sequence[tuple[str, Sequence[object]]]) -> None:
    first, expected = texts[0][0], len(texts[0][1])
    for name, lines in texts:
        if len(lines) == 0:
            raise DataError.at(name, None, found="no lines", expected="one translation per line")
        if len(lines) != expected:
            raise DataError.at(name, None, found=f"{len(lines)} lines", expected=f"{expected}, as in {first}")
