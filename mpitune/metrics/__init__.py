"""Metrics of translations.

- `bleu`, `ter`, `chrf`: additive statistics of translations against their references; scores of TER and chrF.
- `sentence_bleu`: gold scores of single translations (`SENTENCE_METRICS`), corpus BLEU of summed statistics.
- `tuning_metric`: the corpus metrics that MERT can optimise (`SCORES`, `Metric`).
- `sacrebleu`: corpus BLEU, sentence BLEU and paired tests of the sacreBLEU package.
- `significance`: tables of several systems with significance tests (`evaluate`).
- `choices`: the names that select a metric, a test or a tokenizer.
"""
