"""Learners' options of which a test sets a few: the others are the paper's (perceptron, MIRA) or the job's defaults."""

from __future__ import annotations

from typing import Any

from mpitune.learner.batch.mert import MertOptions
from mpitune.learner.batch.minrisk import MinRiskOptions
from mpitune.learner.batch.pro import ProOptions
from mpitune.learner.batch.rampion import RampionOptions
from mpitune.learner.online.mira import MiraOptions
from mpitune.learner.online.perceptron import PerceptronOptions
from mpitune.learner.pair_sampling import Sampler, make_sampler
from mpitune.metrics.tuning_metric import Metric

BLEU = Metric({"bleu": 1.0}, ())
"""The metric of learners that count no statistics."""


def perceptron_options(**given: Any) -> PerceptronOptions:
    of_the_paper = {
        "learning_rate": 0.0001,
        "margin": 0.0,
        "margin_by_gold": False,
        "order": "sequential",
        "rate": "constant",
        "l1": 0.0,
        "l2": 0.0,
        "scale_by_gold": False,
    }
    return PerceptronOptions(**(of_the_paper | given))


def mira_options(**given: Any) -> MiraOptions:
    of_the_paper = {"oracle": "M-C", "prediction": "M+C", "variant": "1-best", "c": 0.01, "kbest": 500}
    return MiraOptions(**(of_the_paper | given))


def mert_options(directions: int = 10, restarts: int = 10) -> MertOptions:
    return MertOptions(directions=directions, restarts=restarts)


def pro_options(**given: Any) -> ProOptions:
    return ProOptions(**given)


def minrisk_options() -> MinRiskOptions:
    return MinRiskOptions()


def rampion_options(**given: Any) -> RampionOptions:
    return RampionOptions(**given)


def sampler(name: Any, share: float = 0.1, extend_ties: bool = False) -> Sampler:
    return make_sampler(name, share, extend_ties)
