"""Methods of learning weights from k-best lists, by the name that a job gives them."""

from mpitune.learner.perceptron import Perceptron

METHODS = {"perceptron": Perceptron}
"""Those that learn from one list after another."""
