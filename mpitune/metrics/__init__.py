"""Metrics of translations.

- `bleu`, `ter`, `chrf`, `wer`: additive statistics of translations against their references; scores but BLEU's.
- `exact_match`, `length_ratio`: the same of simpler metrics.
- `spelling`: words as sequences of characters or other units.
- `sentence_bleu`: gold scores of single translations (`SENTENCE_METRICS`), corpus BLEU of summed statistics.
- `list_evaluation`: n-best lists evaluated.
- `tuning_metric`: all metrics (`METRICS`, `Counter`), what a learner optimises (`Metric`), and its gold score.
- `sacrebleu`: BLEU of texts and of sentences, and tokenizers, by the sacreBLEU package.
- `sentence_statistics`: additive statistics of texts by several metrics, and the corpus scores of their sums.
- `minimum_bayes_risk`: the entry of a list that is most similar to all others.
- `significance`: tests of the difference of two systems over several runs, Holm's correction.
- `evaluation`: scores of several systems with these tests (`evaluate`), as text, JSON and Markdown.
- `choices`: the names that select a test or a tokenizer.
"""
