"""Local training: weights for a single sentence, from the lists of similar training sentences.

- `update`: the problem and its result; `examples`: the lists as differences from their oracles.
- `mbuu`: margin based update; `ebuu`: error rate based update.
"""
