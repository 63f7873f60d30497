"""A slow plain twin of a whole run with the default learner: algorithm 4, sparse features on top of a dense start.

Definitions of its parts are those of `naive`; what is written here is how they are joined.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from support import naive

from mpitune.decoder.base import TranslationModel
from mpitune.learner.online.evidence import PRIOR, SPARSE_STEP
from mpitune.learner.pair_sampling import pro
from mpitune.training.dense_start import LM_WEIGHT
from mpitune.training.scheduler import draw_shards, reordered
from mpitune.training.session import TrainingRun

State = list[np.ndarray]
"""Squares, sums, sizes and lists of each feature."""


def train(run: TrainingRun) -> list[dict[str, float]]:
    """The weights by name that each epoch publishes, those that are 0 left out. The job has no devtest set."""
    size, wanted, dense = naive.give_slots(run), run.job.learner, list(range(run.first.first_sparse))
    v = dense_weights(run, size)
    state: State = [np.zeros(size) for _ in range(4)]
    best: list[list[int]] = []
    published = []
    for t in range(1, wanted.epochs + 1):
        before, best = best, [[] for _ in range(run.corpus.size)]
        rows, states = [], []
        for shard in draw_shards(run.corpus.size, run.job.parallel.shards, run.job.run.seed, t):
            w, sparse = v.copy(), _perceptron(run, size, frozen=dense)
            sparse.start_shard(w, state, passes=t - 1)
            for i, (_, row) in zip(shard, learn(run, sparse, t, shard, before, w), strict=True):
                best[i] = row
            sparse.end_shard(w)
            rows.append(w)
            states.append([sparse.squares, sparse.sums, sparse.sizes, sparse.lists])
        # The evidence of all shards, and its weights where algorithm 4 selects the column of the shards' own weights.
        state = [old + sum(kept[n] - old for kept in states) for n, old in enumerate(state)]
        together = _perceptron(run, size, frozen=dense)
        together.start_shard(np.zeros(size), state, passes=t)
        selected = naive.selected(run, rows, frozen=dense)
        v = np.array(
            [v[i] if i < run.first.first_sparse else together.supported(i) * (selected[i] != 0) for i in range(size)]
        )
        published.append({run.features.name(slot): float(v[slot]) for slot in np.flatnonzero(v).tolist()})
    return published


def dense_weights(run: TrainingRun, size: int) -> np.ndarray:
    """The mean over the passes of the dense start, the later the heavier; a pass's result is the mean over its lists.

    It begins with the language model alone, whose scores are log10 probabilities.
    """
    model, wanted, seed = run.store.model, run.job.learner, run.job.run.seed
    assert isinstance(model, TranslationModel)
    w, total, heaviness = np.zeros(size), np.zeros(size), 0
    [lm] = model.lm_names
    w[run.features.slot(lm)] = LM_WEIGHT
    first = draw_shards(run.corpus.size, 1, seed, 0)
    passes = max(1, min(10, round(wanted.dense_start / run.corpus.size)))
    perceptron = _perceptron(run, size, frozen=range(run.first.first_sparse, size))
    state: State = []
    for n in range(passes):
        [order] = reordered(first, seed, n) if n else first
        perceptron.start_shard(w, state)
        after = [weights for weights, _ in learn(run, perceptron, 0, order, [], w)]
        state = [perceptron.squares, perceptron.sums, perceptron.sizes, perceptron.lists]
        w = naive.averaged(after)
        total, heaviness = total + (n + 1) * w, heaviness + n + 1
    return total / heaviness


def learn(
    run: TrainingRun,
    perceptron: naive.Perceptron,
    epoch: int,
    sentences: np.ndarray,
    before: Sequence[Sequence[int]],
    w: np.ndarray,
) -> list[tuple[np.ndarray, list[int]]]:
    """Learn ``w`` in a pass; returns the weights after each sentence, and the statistics of its 1-best translation.

    ``before``: these statistics of each sentence of the set in the epoch before.
    """
    passed: list[tuple[np.ndarray, list[int]]] = []
    lists: list[list[list[int]]] = []
    for i in sentences.tolist():
        kbest = run.decoder.decode(run.store.tuned_sentence(i), w, run.job.decoder.kbest)
        references = [reference.tolist() for reference in run.corpus.references(i)]
        lists.append([naive.statistics(kbest.translation(j).tolist(), references) for j in range(kbest.size)])
        scores = naive.document(lists, before)[-1]
        random = np.random.default_rng([run.job.run.seed, epoch, i])
        pairs = [(a, b) for a, b in pro(np.array(scores), random, never_none=True).tolist()]
        # Sums of equal values in another order are no difference.
        perceptron.update(naive.dense(kbest, len(w)).round(12), pairs, scores, w)
        passed.append((w.copy(), lists[-1][0]))
    return passed


def _perceptron(run: TrainingRun, size: int, frozen: Sequence[int]) -> naive.Perceptron:
    wanted = run.job.learner
    return naive.Perceptron(
        size,
        learning_rate=wanted.learning_rate,
        margin=wanted.margin,
        margin_by_gold=wanted.margin_by_gold,
        order=wanted.order,
        rate=wanted.rate,
        frozen=frozen,
        first_sparse=run.first.first_sparse,
        step=SPARSE_STEP,
        prior=PRIOR,
    )
