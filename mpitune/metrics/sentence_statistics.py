"""Additive statistics of single translations, and the corpus scores of their sums: BLEU, TER, chrF, length.

BLEU's counts are sacreBLEU's. TER and chrF are computed as sacreBLEU computes them by default (`mpitune.metrics.ter`,
`mpitune.metrics.chrf`), in a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.base import as_kbest
from mpitune.metrics import chrf, ter
from mpitune.metrics.choices import EvaluationMetricName, Tokenizer
from mpitune.metrics.sacrebleu import bleu_statistics
from mpitune.portable_math import exps, logs

_ORDER = 4
_LENGTH, _REFERENCE, _MATCHES, _TOTALS = 0, 1, 2, 2 + _ORDER
"""Columns of `bleu_statistics`: words, words of the closest reference, first match, first n-gram count."""
_TER = 2 + 2 * _ORDER
_CHRF = _TER + ter.WIDTH
WIDTH = _CHRF + chrf.WIDTH
"""Columns of a row of statistics: those of BLEU, of TER, of chrF."""


def sentence_statistics(
    texts: Sequence[Sequence[str]],
    references: Sequence[Sequence[str | None]],
    tokenize: Tokenizer = "none",
    *,
    lowercase: bool = False,
) -> np.ndarray:
    """int64 [sentences, texts, `WIDTH`]: statistics of each line of each of the ``texts`` against ``references``.

    All texts have the same number of lines; one of ``references`` is None where it is missing. ``tokenize`` is for
    BLEU only: TER and chrF take the text as it is, and TER always ignores case.
    """
    result = np.empty((len(references[0]), len(texts), WIDTH), dtype=np.int64)
    for j, text in enumerate(texts):
        result[:, j, :_TER] = bleu_statistics(text, references, tokenize, lowercase=lowercase)
    vocabulary = Vocabulary()
    edits, characters = ter.Ter(vocabulary.words), chrf.Chrf(vocabulary.words)

    def encode(line: str) -> np.ndarray:
        return vocabulary.encode((line.lower() if lowercase else line).split())

    for i, row in enumerate(result):
        kbest = as_kbest([encode(text[i]) for text in texts])
        encoded = [encode(line) for reference in references if (line := reference[i]) is not None]
        row[:, _TER:_CHRF] = edits.statistics(kbest, encoded)
        row[:, _CHRF:] = characters.statistics(kbest, encoded)
    return result


def _bleu(sums: np.ndarray) -> np.ndarray:
    """BLEU, 0 to 100, with sacreBLEU's default smoothing: the k-th order without a match counts 2^-k matches."""
    matches, totals = sums[:, _MATCHES:_TOTALS], sums[:, _TOTALS:_TER]
    missing = matches == 0
    smoothed = np.where(missing, 1 / (1 << np.cumsum(missing, axis=1)), matches)
    precision = exps(logs(smoothed / np.maximum(totals, 1)).mean(axis=1))
    brevity = exps(np.minimum(1 - sums[:, _REFERENCE] / np.maximum(sums[:, _LENGTH], 1), 0))
    return np.where((totals > 0).all(axis=1) & ~missing.all(axis=1), 100 * brevity * precision, 0.0)


def _length_ratio(sums: np.ndarray) -> np.ndarray:
    ratio: np.ndarray = sums[:, _LENGTH] / np.maximum(sums[:, _REFERENCE], 1)
    return ratio


CORPUS_SCORES: dict[EvaluationMetricName, Callable[[np.ndarray], np.ndarray]] = {
    "bleu": _bleu,
    "ter": lambda sums: -100 * ter.Ter.score(sums[:, _TER:_CHRF]),
    "chrf": lambda sums: 100 * chrf.Chrf.score(sums[:, _CHRF:]),
    "length_ratio": _length_ratio,
}
"""By metric: float64 [n] from sums of statistics, [n, `WIDTH`].

BLEU and chrF2 are 0 to 100; TER is edits per 100 words of the references, where less is better; the length ratio is
words of the translations / words of the closest references.
"""
