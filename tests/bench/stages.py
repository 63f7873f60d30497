"""Where an epoch's time goes: the stages of decoding and learning, as shares of the whole, on a store given by a job.

    python tests/bench/stages.py [JOB.toml]

Without a job: jobs/nc.toml, where MPITUNE_DATA is set. Times are CPU seconds, medians over passes; kernels are compiled
before the first.
"""

from __future__ import annotations

import os
import statistics as medians
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from mpitune import assemble, prepare
from mpitune.pairs.bleu import statistics
from mpitune.pairs.gold import make_gold
from mpitune.runtime import progress

PASSES = 5
SENTENCES = 50


def main() -> None:
    if len(sys.argv) < 2 and "MPITUNE_DATA" not in os.environ:
        print("skipped: no job given and MPITUNE_DATA is not set")
        return
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "jobs" / "nc.toml"
    job = assemble.load_job(path, [])
    with tempfile.TemporaryDirectory() as folder:
        sources = assemble.sources(job)
        prepare.prepare(sources, Path(folder), print, progress)
        store = prepare.open_store(sources, Path(folder))
        corpus = store.train
        assert corpus is not None
        decoder = assemble.decoder(job, store)
        first = assemble.first_weights(job, assemble.initial_weights(job), decoder.features)
        learner, gold = assemble.learner(job, first.frozen), make_gold(job.learner.gold)
        numbers = range(min(SENTENCES, corpus.size))

        def measure(k: int, learn: bool) -> float:
            """CPU milliseconds a sentence."""
            weights = first.weights.copy()
            weights[decoder.features.slot("LanguageModel")] = 0.01
            learner.start_shard(weights)
            gold.start_shard()
            began = time.process_time()
            for i in numbers:
                kbest = decoder.decode(corpus.sentence(i), weights, k)
                if learn:
                    counted = statistics(kbest, corpus.references(i))
                    learner.update(kbest, gold.score(counted, 0), weights, np.random.default_rng(i))
            return 1000 * (time.process_time() - began) / len(numbers)

        modes = {"1-best": (1, False), "k-best": (job.decoder.kbest, False), "learning": (job.decoder.kbest, True)}
        for mode in modes.values():
            measure(*mode)
        taken: dict[str, list[float]] = {name: [] for name in modes}
        for _ in range(PASSES):
            for name, mode in modes.items():
                taken[name].append(measure(*mode))
        base = medians.median(taken["1-best"])
        for name, times in taken.items():
            median = medians.median(times)
            print(f"{name:10} {median:8.2f} ms a sentence   {median / base:5.2f} x 1-best")


if __name__ == "__main__":
    main()
