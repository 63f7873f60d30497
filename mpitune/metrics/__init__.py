"""Metrics of translations.

- `bleu`, `ter`, `chrf`: additive statistics of translations against their references; scores of TER and chrF.
- `sentence_bleu`: gold scores of single translations (`SENTENCE_METRICS`), corpus BLEU of summed statistics.
- `list_evaluation`: n-best lists evaluated.
- `tuning_metric`: the metrics that a learner can optimise (`METRICS`, `Metric`), and their gold scores.
- `sacrebleu`: BLEU of texts and of sentences, by the sacreBLEU package.
- `sentence_statistics`: additive statistics of texts, sentence by sentence, and corpus scores (`CORPUS_SCORES`).
- `minimum_bayes_risk`: the entry of a list that is most similar to all others.
- `significance`: tests of the difference of two systems over several runs, Holm's correction.
- `evaluation`: scores of several systems with these tests (`evaluate`), as text, JSON and Markdown.
- `choices`: the names that select a metric, a test or a tokenizer.
"""
