"""Online learners: update the weights after each k-best list.

- `perceptron`: pairwise ranking; `mira`: large-margin learning.
- `after_updates`: l1, averaging and smooth weights of bins, whichever learner makes the updates.
- `columns`: a list's feature vectors, reduced to the values in which entries differ.
- `gram`: updates by entries of a list; `sparse_update`: updates by features, pair by pair.
- `mira_qp`: the solvers of MIRA's quadratic program; `hope_fear`: MIRA with one constraint a list.
- `rates`: learning rates and their state.
- `evidence`: the normalized rate, and weights of sparse features that follow from its state.
"""
