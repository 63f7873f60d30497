"""CPU time of the stages of decoding, and of learning, for the data of a job.

    python tests/bench/stages.py [JOB.toml]

The default job is jobs/nc.toml, which requires MPITUNE_DATA. Times are CPU milliseconds per sentence, medians over
passes; kernels are compiled before the first pass.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import numpy as np
from tools.measure import CpuTime, Stages, print_table
from tools.ours import stored, training

from mpitune.metrics.bleu import statistics
from mpitune.metrics.sentence_bleu import make_sentence_metric
from mpitune.training import factory, job_inputs

PASSES = 5
SENTENCES = 50


def main() -> None:
    if len(sys.argv) < 2 and not os.environ.get("MPITUNE_DATA"):
        print("skipped: no job given and MPITUNE_DATA is not set")
        return
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "jobs" / "nc.toml"
    print_table(("stage", "CPU", "share"), rows(path))


def rows(path: Path) -> Iterator[Sequence[str]]:
    """Yield the stages of an epoch of the job in ``path``, over its first sentences."""
    taken: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        job = job_inputs.load_job(path, [])
        store = stored(job_inputs.sources(job), Path(folder))
        corpus, decoder = training(store), factory.decoder(job, store, job.run.dir, job.decoder.kbest)
        first = factory.first_weights(job, factory.initial_weights(job), decoder.features, store.model)
        metric = factory.metric(job, store.model.words.words)
        gold = make_sentence_metric(job.learner.gold)
        numbers = range(min(SENTENCES, corpus.size))
        for _ in range(1 + PASSES):
            weights = first.copy()
            weights.value[decoder.features.slot("LanguageModel")] = 0.01
            learner = factory.learner(job, metric)
            learner.start_shard(weights)
            gold.start_shard()
            spent = dict.fromkeys(("references", "learner"), 0.0)
            with Stages() as stages, CpuTime() as whole:
                for i in numbers:
                    sentence = corpus.sentence(i)
                    kbest = decoder.decode(sentence, weights.value, job.decoder.kbest)
                    weights.grow()
                    with CpuTime() as scoring:
                        scores = gold.score(statistics(kbest, corpus.references(i)), len(sentence.words))
                    with CpuTime() as learning:
                        learner.update(kbest, scores, weights, np.random.default_rng(i))
                    spent["references"] += scoring.seconds
                    spent["learner"] += learning.seconds
            parts = {**stages.seconds, **spent}
            parts |= {"rest": whole.seconds - sum(parts.values()), "an epoch": whole.seconds}
            taken.append({name: 1000 * seconds / len(numbers) for name, seconds in parts.items()})
    times = {name: median(one[name] for one in taken[1:]) for name in taken[0]}
    for name, milliseconds in times.items():
        yield name, f"{milliseconds:.2f} ms", f"{milliseconds / times['an epoch']:.1%}"


if __name__ == "__main__":
    main()
