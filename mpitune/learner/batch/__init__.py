"""Batch learners: update the weights once an epoch, from the accumulated lists of all sentences.

- `pro`: pairwise ranking optimisation; `minrisk`: minimum risk; both minimised by `smooth`, L-BFGS over shards.
- `mert`: minimum error rate training; `hypergraph`: MERT over forests, by the `envelope` semiring.
- `rampion`: structured ramp loss.
- `chain_penalty`: structured regularisation in an objective.
"""
