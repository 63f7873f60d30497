"""Learners: from k-best lists and gold scores to weights.

- `base`: the interfaces `OnlineLearner` and `BatchLearner`.
- `weights`: `Weights`, the vector that knows its features; `SparseWeights`, as it is exchanged and kept in files.
- `methods`: `Method`, a method's keys and all that the program knows of it, and `METHODS`, by name.
- `pair_sampling`: the pairs of a list that are compared (`SAMPLERS`).
- `pool`, `forests`: accumulated k-best lists and an epoch's forests, the data of batch learners.
- `bin_chains`: structured regularisation of discretised features, as penalties of their weights.
- `lbfgs`: the minimiser of smooth objectives.
- `online`: perceptron and MIRA, which update the weights after each list.
- `batch`: PRO, MERT, minimum risk and RAMPION, which update the weights once an epoch.
- `local`: weights for a single sentence.

In the docstrings, *(ours)* marks a choice of this implementation: the cited source says nothing or something else.
"""
