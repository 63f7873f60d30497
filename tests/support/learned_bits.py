"""Prints digests of what each learner makes of random lists, and of what functions make of random numbers."""

from __future__ import annotations

import hashlib

import numpy as np
from support.batch_lists import optimise, pool, statistics_of
from support.learner_options import BLEU, mert_options, minrisk_options, pro_options, rampion_options
from support.online_learners import SIZE, mira_learner, perceptron_learner, random_list

from mpitune import portable_math
from mpitune.learner.batch.mert import Mert
from mpitune.learner.batch.minrisk import MinRisk
from mpitune.learner.batch.pro import Pro
from mpitune.learner.batch.rampion import Rampion
from mpitune.learner.bin_chains import Smoothness
from mpitune.metrics.sentence_bleu import bleu_plus_one

BATCH = {
    "mert": Mert(mert_options(), BLEU),
    "pro": Pro(pro_options(c=1.0), BLEU),
    "minimum risk": MinRisk(minrisk_options(), BLEU),
    "rampion": Rampion(rampion_options(), BLEU),
}
ONLINE = {
    **{f"mira {name}": mira_learner(variant=name, c=0.5) for name in ("1-best", "k-constraint", "cutting-plane")},
    **{f"perceptron {rate}": perceptron_learner(rate=rate) for rate in ("constant", "adagrad", "adadelta")},
}


def statistics(random: np.random.Generator) -> list[int]:
    """Those of a translation of some length."""
    length, reference = random.integers(40, 400, 2).tolist()
    return statistics_of(np.sort(random.integers(1, length - 3, 4))[::-1].tolist(), length, reference)


def entry(random: np.random.Generator) -> tuple[list[float], list[int]]:
    return random.uniform(-1, 1, 4).tolist(), statistics(random)


def show(name: str, found: np.ndarray) -> None:
    print(name, hashlib.blake2b(found.tobytes(), digest_size=8).hexdigest())


if __name__ == "__main__":
    random = np.random.default_rng(1)
    # Without powers and normal deviates: NumPy's are those of libm.
    numbers = np.ldexp(random.uniform(-1, 1, 10_000), random.integers(-30, 10, 10_000))
    for function in (portable_math.exps, portable_math.exp10s, portable_math.tanhs):
        show(function.__name__, function(numbers))
    for function in (portable_math.logs, portable_math.log10s):
        show(function.__name__, function(np.abs(numbers)))
    show("dot", np.array(portable_math.dot(numbers, np.sqrt(np.abs(numbers)))))
    pools = [pool([[entry(random) for _ in range(30)] for _ in range(20)]) for _ in range(2)]
    for name, batch in BATCH.items():
        show(name, optimise(batch, pools, [0.5, 0.25, 0.0, 1.0]).weights)
    lists = [random_list(random, 20, whole=True)[0] for _ in range(30)]
    lists = [kbest._replace(feature_value=0.3 * kbest.feature_value) for kbest in lists]
    # So many, because libm's functions differ once in some thousand numbers.
    golds = bleu_plus_one(np.array([statistics(random) for _ in range(40_000)])).reshape(-1, 20)
    show("gold scores", golds)
    for name, online in ONLINE.items():
        weights = np.zeros(SIZE)
        online.start_shard(weights)
        for n, gold in enumerate(golds):
            online.update(lists[n % len(lists)], gold, weights, random)
        online.end_shard(weights)
        show(name, weights)
    chain, free = numbers[:9] / np.abs(numbers[:9]).max(), np.arange(9) != 4
    for regularizer in ("linear", "monotone"):
        show(regularizer, Smoothness([], regularizer, 0.5, 0.7).proximal(chain, free))
