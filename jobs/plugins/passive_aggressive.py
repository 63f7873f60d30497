"""An online method: one passive-aggressive step (PA-I) from the best entry of a list against the model's.

Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, "Online Passive-Aggressive Algorithms" (JMLR 7, 2006).

    [plugins]
    modules = ["plugins/passive_aggressive.py"]
    [learner]
    method = "passive-aggressive"
    [learner.passive-aggressive]
    aggressiveness = 0.02
"""

import math
from dataclasses import dataclass

import numpy as np

from mpitune.plugins import Counts, KBest, Method, OnlineLearner, Parts, Weights, method, number


@method("passive-aggressive")
@dataclass(frozen=True)
class PassiveAggressiveKeys(Method):
    """``[learner.passive-aggressive]``"""

    about = 'For method = "passive-aggressive" (Crammer et al. 2006).'
    defaults = {"learner.algorithm": "itermix", "learner.epochs": 4, "learner.dense_start": 0}

    aggressiveness: float = number(0.01, 0.0, above=True, text="Largest step size.")

    def make(self, parts: Parts) -> OnlineLearner:
        return PassiveAggressive(self.aggressiveness)

    def remedy(self) -> str:
        return "lower learner.passive-aggressive.aggressiveness"


class PassiveAggressive(OnlineLearner):
    """Without state."""

    def __init__(self, aggressiveness: float) -> None:
        self.aggressiveness = aggressiveness

    def update(self, kbest: KBest, gold: np.ndarray, weights: Weights, random: np.random.Generator) -> Counts:
        oracle, prediction = int(np.argmax(gold)), int(np.argmax(kbest.score))
        difference: dict[int, float] = {}
        for entry, sign in ((oracle, 1.0), (prediction, -1.0)):
            row = slice(*kbest.feature_ptr[entry : entry + 2])
            for slot, value in zip(kbest.feature_index[row].tolist(), kbest.feature_value[row].tolist(), strict=True):
                if not weights.frozen[slot]:
                    difference[slot] = difference.get(slot, 0.0) + sign * value
        # Exact, for slots, and so the order of the features, differ from rank to rank.
        squared = math.fsum(value * value for value in difference.values())
        loss = float(gold[oracle] - gold[prediction] - (kbest.score[oracle] - kbest.score[prediction]))
        if squared == 0.0 or loss <= 0.0:
            return Counts(1, 0, oracle, prediction)
        for slot, value in difference.items():
            weights.value[slot] += min(self.aggressiveness, loss / squared) * value
        return Counts(1, 1, oracle, prediction)
