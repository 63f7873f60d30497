"""Additive statistics of single translations by several metrics, side by side, and the corpus scores of their sums."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from mpitune.corpus.vocabulary import Vocabulary
from mpitune.decoder.base import as_kbest
from mpitune.metrics.choices import Tokenizer
from mpitune.metrics.sacrebleu import tokenizer
from mpitune.metrics.tuning_metric import METRICS


class SentenceStatistics:
    """Counts rows of statistics, and computes scores from sums of rows."""

    def __init__(self, names: Sequence[str]) -> None:
        """``names``: some of `METRICS`."""
        self._metrics = [METRICS[name] for name in names]
        bounds = pairwise(accumulate((metric.width for metric in self._metrics), initial=0))
        self._columns = {name: slice(*pair) for name, pair in zip(names, bounds, strict=True)}

    def count(
        self,
        texts: Sequence[Sequence[str]],
        references: Sequence[Sequence[str | None]],
        tokenize: Tokenizer = "none",
        *,
        lowercase: bool = False,
    ) -> np.ndarray:
        """int64 [sentences, texts, columns]: statistics of each line of each of the ``texts`` against ``references``.

        All texts have the same number of lines; one of ``references`` is None where it is missing. ``tokenize`` is for
        metrics that are `tokenized` only: others take the text as it is.
        """
        width = sum(metric.width for metric in self._metrics)
        result = np.empty((len(references[0]), len(texts), width), dtype=np.int64)
        vocabulary, with_tokens = Vocabulary(), tokenizer(tokenize)

        def encode(line: str, tokenized: bool) -> np.ndarray:
            # The order of sacreBLEU's steps.
            line = (line.lower() if lowercase else line).rstrip()
            return vocabulary.encode((with_tokens(line) if tokenized else line).split())

        counters = [metric(vocabulary.words) for metric in self._metrics]
        kinds = [metric.tokenized and tokenize != "none" for metric in self._metrics]
        for i, row in enumerate(result):
            for tokenized in {*kinds}:
                kbest = as_kbest([encode(text[i], tokenized) for text in texts])
                encoded = [encode(line, tokenized) for reference in references if (line := reference[i]) is not None]
                for counter, kind, columns in zip(counters, kinds, self._columns.values(), strict=True):
                    if kind == tokenized:
                        row[:, columns] = counter.statistics(kbest, encoded)
        return result

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """By metric: float64 [n], scores as they are printed, from sums of statistics, whole numbers [n, columns]."""
        whole = np.rint(sums).astype(np.int64)
        return {
            name: metric.printed(np.ascontiguousarray(whole[:, columns]))
            for metric, (name, columns) in zip(self._metrics, self._columns.items(), strict=True)
        }
