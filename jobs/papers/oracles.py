"""BLEU of the best translations in k-best lists of several lengths, on Multi30k's validation set.

    MPITUNE_DATA=... python jobs/papers/oracles.py [--sentences N] [--small]

The table follows table 2 of Eidelman, "Optimization Strategies for Online Large-Margin Learning in Machine Translation"
(WMT 2012). The lists are those of the weights in start.weights, of distinct translations; the oracle of a list is its
entry of largest `bleu+1`, and BLEU that of all oracles together. It works on one process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from methods import JOB
from systems import Place, System, place, read, show

import mpitune
from mpitune.api.opened import open_for
from mpitune.exchange.comm import SERIAL_COMM
from mpitune.metrics.bleu import WIDTH, statistics
from mpitune.metrics.sentence_bleu import bleu_plus_one, papineni
from mpitune.training import job_inputs

START = Path(__file__).with_name("start.weights")
LENGTHS = (1, 500, 50_000, 100_000)
"""Of the paper."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Decode the sentences and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=100, help="the first sentences of the set (default 100)")
    where, options = place(parser, arguments)
    print(table(*oracles(where, options.sentences)), end="")


def oracles(where: Place, sentences: int) -> tuple[np.ndarray, np.ndarray]:
    """Statistics (int64 [lengths, 11]) of the oracles by length, and seconds of decoding (float64 [lengths])."""
    job = where.job(System("oracles", JOB, {"data.limit": sentences}, store="multi30k-oracles")).keys
    opened = open_for(job, SERIAL_COMM, job_inputs.sources(job), job.run.store, max(LENGTHS), None)
    decoder, words = opened.decoder, opened.model.words
    references = [[words.encode(line.split())] for line in read(where.reference("val"))]
    start = mpitune.Weights.read(START)
    slots = decoder.features.slots(list(start))
    weights = np.zeros(len(decoder.features))
    weights[slots] = list(start.values())
    # Not timed: kernels are loaded, and the LM's scores of each sentence are cached for lists of all lengths alike.
    for sentence in opened.sentences:
        for length in LENGTHS[:2]:
            decoder.decode(sentence, weights, length)
    total, seconds = np.zeros((len(LENGTHS), WIDTH), dtype=np.int64), np.zeros(len(LENGTHS))
    for sentence, of_sentence in zip(opened.sentences, references, strict=False):
        for n, length in enumerate(LENGTHS):
            began = time.process_time()
            kbest = decoder.decode(sentence, weights, length)
            seconds[n] += time.process_time() - began
            counted = statistics(kbest, of_sentence)
            total[n] += counted[int(np.argmax(bleu_plus_one(counted)))]
    return total, seconds / max(len(opened.sentences), 1)


def table(total: np.ndarray, seconds: np.ndarray) -> str:
    """Tabulate BLEU of the oracles and CPU seconds of a sentence by the length of the lists."""
    bleu = [f"{100 * score:.2f}" for score in papineni(total).tolist()]
    times = [f"{each:.3f}" for each in seconds.tolist()]
    return show([["list", *(f"{k:,}" for k in LENGTHS)], ["oracle BLEU", *bleu], ["seconds a sentence", *times]])


if __name__ == "__main__":
    main()
