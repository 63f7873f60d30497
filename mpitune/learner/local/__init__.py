"""Local training: weights for a single sentence, from the lists of similar training sentences.

- `examples`: the lists as differences from their oracles, the problem and its result.
- `mbuu`: margin based update; `ebuu`: error rate based update.
"""
