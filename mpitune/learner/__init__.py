"""Methods of learning weights from k-best lists, by the name that a job gives them."""

from collections.abc import Callable

from mpitune.learner.base import OnlineLearner
from mpitune.learner.mira import Mira
from mpitune.learner.perceptron import Perceptron

METHODS: dict[str, Callable[..., OnlineLearner]] = {"perceptron": Perceptron, "mira": Mira}
