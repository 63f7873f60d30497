"""Batch learners: update the weights once an epoch, from the accumulated lists of all sentences.

- `pro`: pairwise ranking optimisation; `minrisk`: minimum risk; both minimised by `smooth`, L-BFGS over
  shards, where discretised features may be regularised too.
- `mert`: minimum error rate training; `hypergraph`: MERT over forests, by the `envelope` semiring.
- `rampion`: structured ramp loss.
"""
