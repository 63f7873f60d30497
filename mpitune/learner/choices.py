"""Names that select a learner's parts, and the constants of PRO that two learners share.

The module imports nothing: the job schema reads it before any work starts. The first name of each is the default.
"""

from __future__ import annotations

from typing import Literal

PairSampling = Literal["pro", "multipartite", "all", "hope-fear"]
"""``learner.pairs``, implemented by `mpitune.learner.pair_sampling.SAMPLERS`."""

UpdateOrder = Literal["sentence", "sequential"]
"""``learner.order``, implemented by `mpitune.learner.online.perceptron.Perceptron`."""

RateName = Literal["normalized", "constant", "adagrad", "adadelta"]
"""``learner.rate``, implemented by `mpitune.learner.online.rates`."""

LearnedFeatures = Literal["all", "dense", "sparse"]
"""The features that a learner changes."""

OracleName = Literal["M-C", "MB", "LU"]
"""``learner.mira.oracle``, implemented by `mpitune.learner.online.mira.ORACLES`."""

PredictionName = Literal["M+C", "MC", "PB"]
"""``learner.mira.prediction``, implemented by `mpitune.learner.online.mira.PREDICTIONS`."""

MiraVariant = Literal["1-best", "k-constraint", "cutting-plane"]
"""``learner.mira.variant``, implemented by `mpitune.learner.online.mira_qp.SOLVERS`."""

PRO_CANDIDATES = 5000
"""Pairs that PRO draws from each list (Gamma; Hopkins & May 2011)."""
PRO_THRESHOLD = 0.05
"""Smallest difference of gold scores that PRO keeps."""
PRO_KEPT = 50
"""Pairs of each list that PRO learns from (Xi): those of the largest differences."""
