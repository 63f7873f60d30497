"""Names that select a metric, a significance test or a tokenizer.

The module imports nothing: the command line reads it before any work starts.
"""

from __future__ import annotations

from typing import Literal

EvaluationMetricName = Literal["bleu", "ter", "chrf", "length_ratio"]
"""Metrics of `mpitune.metrics.evaluation`, computed by `mpitune.metrics.sentence_statistics.CORPUS_SCORES`."""
GainName = Literal["bleu", "chrf"]
"""``--mbr``: some of `mpitune.metrics.tuning_metric.METRICS`."""

SignificanceTest = Literal["ar", "bootstrap"]
"""Approximate randomisation (Noreen 1989), paired bootstrap resampling (Koehn 2004)."""

Tokenizer = Literal["none", "13a"]
"""``none`` for text that is tokenised already (the default), ``13a`` (mteval-v13a) for detokenised text."""
