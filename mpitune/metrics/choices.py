"""Names that select a metric, a significance test or a tokenizer.

The module imports nothing: the command line and the job schema read it before any work starts.
"""

from __future__ import annotations

from typing import Literal

SentenceMetricName = Literal["document", "liang", "bleu+1", "nakov", "papineni", "sum", "chiang", "context"]
"""``learner.gold``, implemented by `mpitune.metrics.sentence_bleu.SENTENCE_METRICS`; the first is the default."""

ReferenceMetricName = Literal["bleu", "ter", "chrf"]
"""Metrics of ``learner.metric`` that need references, implemented by `mpitune.metrics.tuning_metric.SCORES`."""

METRIC_NAMES: dict[str, str] = {"bleu": "BLEU", "ter": "TER", "chrf": "chrF"}
"""`ReferenceMetricName` as they are printed."""

EvaluationMetricName = Literal["bleu", "ter", "chrf", "length_ratio"]
"""Metrics of `mpitune.metrics.evaluation`, computed by `mpitune.metrics.sentence_statistics.CORPUS_SCORES`."""
GainName = Literal["bleu", "chrf"]
"""``--mbr``: names of `mpitune.metrics.tuning_metric.SCORES`."""

SignificanceTest = Literal["ar", "bootstrap"]
"""Approximate randomisation (Noreen 1989), paired bootstrap resampling (Koehn 2004)."""

Tokenizer = Literal["none", "13a"]
"""``none`` for text that is tokenised already (the default), ``13a`` (mteval-v13a) for detokenised text."""
