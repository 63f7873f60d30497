"""Methods of learning, ``learner.method``: each is a table of keys that makes a learner, in the learner's file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

from mpitune.learner.base import BatchLearner, OnlineLearner
from mpitune.learner.bin_chains import Smoothness
from mpitune.learner.online.after_updates import AfterUpdates
from mpitune.metrics.tuning_metric import Metric
from mpitune.registry import Registry

LearnedFeatures = Literal["all", "dense", "sparse"]
"""The features that a learner changes."""


class Parts(NamedTuple):
    """The parts of a learner, besides the keys of its method."""

    metric: Metric
    """To be optimised; an online learner gets its scores with each list."""
    kbest: int
    """``decoder.kbest``"""
    smoothness: Smoothness | None
    """The penalty on the weights of bins, for a batch learner that `smooths_bins`."""


@dataclass(frozen=True)
class Method:
    """The keys of a method, in the table ``[learner.NAME]``, its defaults and properties."""

    about: ClassVar[str] = ""
    """The table's explanation in a job file; empty: the keys stand in ``[learner]``."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """By dotted key: defaults of a job that come from the method's paper. The preset and the job override them."""
    is_batch: ClassVar[bool] = False
    """True for a method that learns once per epoch, from the lists of all sentences, and takes no algorithm."""
    uses_pairs: ClassVar[bool] = True
    """True for a method that learns nothing from a list whose translations are all equally good."""
    smooths_bins: ClassVar[bool] = True
    """True if the method can regularise bins; every online method can."""

    @abstractmethod
    def make(self, parts: Parts) -> OnlineLearner | BatchLearner:
        """The learner with these keys."""

    @abstractmethod
    def remedy(self) -> str:
        """Advice for weights that move too far in a step, an imperative."""

    def resolved(self, kbest: int) -> Self:
        """The keys with the values that follow from others, and from ``decoder.kbest``."""
        return self

    def list_length(self, kbest: int) -> int:
        """Length of the k-best lists to learn from, for a ``decoder.kbest``."""
        return kbest

    def problem(self, job: Any) -> str:
        """Says which keys of ``job`` do not fit the method; empty: none."""
        return ""

    def key_of_forests(self) -> str:
        """The key, with its value, for which the decoder must return forests; empty: none."""
        return ""

    def context_scale(self) -> float:
        """Factor of the BLEU of the whole set for ``learner.gold = "context"``; 0: the number of sentences."""
        return 0.0

    def after_updates(self) -> list[AfterUpdates]:
        """The steps that follow the updates of an online learner, besides those that a job asks for with any method."""
        return []


METHODS: Registry[type[Method]] = Registry(
    "mpitune.learner.online",
    "mpitune.learner.batch",
    first=("perceptron", "mira", "pro", "mert", "minrisk", "rampion"),
)
"""By ``learner.method``."""
