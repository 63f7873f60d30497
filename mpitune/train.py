"""Training: algorithms 1 to 4 of SRD12 (SGD, MixSGD, IterMixSGD, IterSelSGD).

Every shard is learned on its own; after each epoch the shards' weights are exchanged and mixed. Which rank learned
which shard, and whether one rank or each mixes, leaves no trace: results are keyed by (epoch, shard) and reduced in
shard order.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from mpitune import config
from mpitune.corpus.symbols import feature_id
from mpitune.decoder.base import KBest
from mpitune.errors import DataError, StopRequested
from mpitune.exchange import mixing, selection
from mpitune.exchange.comm import Comm
from mpitune.exchange.reduction import Mix, reduce
from mpitune.exchange.vectors import SparseVectors, row_ends
from mpitune.pairs.bleu import LENGTH, REFERENCE, WIDTH, statistics
from mpitune.pairs.gold import papineni
from mpitune.results.checkpoint import ShardResult, Vector, checkpoint_path, digest, read_shard, write_shard
from mpitune.results.folder import RunFolder
from mpitune.run import Run, State, begin, open_run, write_epoch
from mpitune.runtime import RunLock, StopFlag, machine_memory, peak_memory, progress, start_logging
from mpitune.translate import check_failed
from mpitune.watch import watch_epoch, watch_start

LOG = logging.getLogger(__name__)

SUMS = ("sentences", "gold", "pairs", "updates", "length", "reference", "empty")
"""What is added up over the sentences of a shard; lengths are those of 1-best translations and closest references."""
PICKED = ("best", "oracle", "prediction")
"""Of which translations corpus BLEU is told: the 1-best, and those that the method picks to learn from."""


def train(job: config.Job, comm: Comm, *, resume: str = "auto", quiet: bool = False) -> None:
    """Run the job to its last epoch. ``resume``: ``auto`` (from the newest checkpoint, if any), ``never`` or ``must``.

    Raises UsageError, DataError and MachineError for what the user has to mend, StopRequested after a signal.
    """
    comm.at_root(lambda: config.require_data(job))
    folder = RunFolder(job.run.dir)
    lock = RunLock(folder.path)
    comm.at_root(lock.acquire)
    try:
        start_logging(folder.path, rank=comm.rank, size=comm.size, quiet=quiet)
        with StopFlag() as stop:
            run = open_run(job, comm, stop, quiet)
            state = begin(run, resume)
            comm.at_root(lambda: folder.write_config(job.to_toml()))
            comm.at_root(folder.make_checkpoints)
            if state.epoch == 0:
                bleu = watch_start(run, state.start)
                if bleu is not None:
                    LOG.info("before training: devtest BLEU %.2f", bleu)
            while state.epoch < job.learner.epochs:
                _learn_epoch(run, state, lock)
            LOG.info("done: %s holds the weights of epoch %d", folder.result, run.chosen_epoch(state.history))
    finally:
        lock.release()


def _learn_epoch(run: Run, state: State, lock: RunLock) -> None:
    """One pass of every shard over its sentences, the exchange, and what is written down of it."""
    epoch, began, waited = state.epoch + 1, time.monotonic(), run.comm.waited
    shards = draw_shards(run.corpus.size, run.job.parallel.shards, run.job.run.seed, _redraw(run, epoch))
    run.gold.start_epoch(state.best)
    results = _learn_shards(run, state, epoch, shards)
    kept, weights = _mix(run, state, results)
    _meet(run, results, weights)
    if run.shards_meet:
        state.start = weights
    if run.gold.looks_back:
        state.best = _best_of_all(run, shards, results)
    state.epoch = epoch
    bleu = watch_epoch(run, epoch, weights)
    parts = run.comm.gather([(result.shard, result.statistics, result.bleu) for result in results])
    seconds = time.monotonic() - began
    ranks = run.comm.gather((seconds, run.comm.waited - waited, peak_memory()))

    def write() -> dict[str, Any]:
        learned = sorted((pair for part in parts or [] for pair in part), key=itemgetter(0))
        summary = _summary(learned)
        check_failed(summary["failed_sentences"], summary["sentences"])
        metrics = {
            "epoch": epoch,
            "seconds": seconds,
            **summary,
            "devtest_bleu": bleu,
            **kept,
            "busy_seconds": [spent - wait for spent, wait, _ in ranks or []],
            "wait_seconds": [wait for _, wait, _ in ranks or []],
            "shard_seconds": [statistics["seconds"] for _, statistics, _ in learned],
            "peak_memory_bytes": [memory for _, _, memory in ranks or []],
        }
        state.history.append(metrics)
        lock.check()
        write_epoch(run, state, weights)
        return metrics

    metrics = run.comm.at_root(write)
    state.history[epoch - 1 :] = [metrics]
    _tell(metrics)


def _redraw(run: Run, epoch: int) -> int:
    return epoch if run.job.parallel.reshuffle else 0


def draw_shards(sentences: int, shards: int, seed: int, draw: int) -> list[np.ndarray]:
    """A seeded permutation of the sentences in ``shards`` parts whose sizes differ by at most 1; its order stays.

    ``draw`` tells one drawing under the same seed from the next. Returns int64 arrays of sentence numbers.
    """
    return np.array_split(np.random.default_rng([seed, draw]).permutation(sentences), shards)


def _learn_shards(run: Run, state: State, epoch: int, shards: list[np.ndarray]) -> list[ShardResult]:
    """Learn shards as long as there are any that no rank has taken, but for those that an interrupted run has kept.

    Returns those that fell to this rank, in the order of their numbers. Raises StopRequested on every rank where one
    was asked to stop before all were done.
    """
    job_digest = digest(run.identity)
    results: list[ShardResult] = []
    order = _longest_first(run, state, shards)
    what = f"epoch {epoch} of {run.job.learner.epochs}"
    with (
        progress(what, run.corpus.size, rank=run.comm.rank, quiet=run.quiet) as told,
        run.comm.turns() as turns,
    ):
        while not run.stop and (turn := turns.take()) < len(shards):
            z = order[turn]
            result = read_shard(run.folder.checkpoints, epoch, job_digest, z)
            if result is None or result.statistics["failed"]:
                weights = run.dense(_shard_start(run, state, z))
                result = _learn_shard(run, epoch, z, shards[z], weights, lambda: told.reach(turns.done()))
                if result is None:
                    break
                check_failed(sum(int(done.statistics["failed"]) for done in [*results, result]), run.corpus.size)
                write_shard(run.folder.checkpoints, epoch, job_digest, result)
            else:
                told.reach(turns.done(len(shards[z])))
            results.append(result)
    if run.comm.sum(len(results)) < len(shards):
        raise StopRequested(
            f"stopped by {run.stop.signal or 'a signal to another rank'} in epoch {epoch}; what is finished is kept: "
            "the same command goes on from there"
        )
    return sorted(results, key=lambda result: result.shard)


def _longest_first(run: Run, state: State, shards: list[np.ndarray]) -> list[int]:
    """The shards in the order in which they are handed out: what is begun last is soon done, and no rank waits long.

    By their time in the epoch before, or else by their words; which rank gets which shard changes no result.
    """
    if state.history and not run.job.parallel.reshuffle:
        length = state.history[-1]["shard_seconds"]
    else:
        words = np.diff(run.corpus.source_ptr)
        length = [int(words[shard].sum()) for shard in shards]
    return sorted(range(len(shards)), key=lambda z: -length[z])


def _shard_start(run: Run, state: State, z: int) -> Vector:
    """What shard ``z`` starts from: the common weights (algorithms 3 and 4), or those that it ended with (1 and 2)."""
    if run.shards_meet or state.epoch == 0:
        return state.start
    kept = read_shard(run.folder.checkpoints, state.epoch, digest(run.identity), z)
    if kept is None:
        found, expected = f"no sound result of shard {z} beside it", "what the shard goes on from"
        raise DataError.at(checkpoint_path(run.folder.checkpoints, state.epoch), None, found=found, expected=expected)
    return kept.index, kept.value


def _learn_shard(
    run: Run, epoch: int, z: int, shard: np.ndarray, weights: np.ndarray, advance: Callable[[], None]
) -> ShardResult | None:
    """Algorithm 1's inner loop: decode each sentence with the weights that the one before it left, and learn from it.

    ``shard``: int64, sentence numbers; ``weights``: float64 [D], to be changed. None where a stop was asked for.
    """
    began = time.monotonic()
    sums = dict.fromkeys(SUMS, 0.0)
    sums["failed"] = float(-run.decoder.failed)
    best, bleu = np.zeros((len(shard), WIDTH), dtype=np.int32), np.zeros((len(PICKED), WIDTH), dtype=np.int64)
    run.learner.start_shard(weights)
    run.gold.start_shard()
    for n, i in enumerate(shard.tolist()):
        if run.stop:
            return None
        sentence = run.corpus.sentence(i)
        kbest = run.decoder.decode(sentence, weights, run.kbest)
        weights = run.with_room(weights)
        _check_finite(run, epoch, kbest.score)
        counted = statistics(kbest, run.corpus.references(i))
        gold = run.gold.score(counted, len(sentence.words), i)
        random = np.random.default_rng([run.job.run.seed, epoch, i])
        counts = run.learner.update(kbest, gold, weights, random)
        run.gold.observe(counted, len(sentence.words))
        best[n] = counted[0]
        for sum_, entry in zip(bleu, (0, counts.oracle, counts.prediction), strict=True):
            sum_ += counted[entry] if entry >= 0 else 0
        lengths, empty = counted[0, [LENGTH, REFERENCE]].tolist(), _is_empty(sentence.words, kbest)
        for name, number in zip(SUMS, (1, run.gold.report(counted), *counts[:2], *lengths, empty), strict=True):
            sums[name] += float(number)
        advance()
    run.learner.end_shard(weights)
    _check_finite(run, epoch, weights)
    sums["failed"] += run.decoder.failed
    sums["seconds"] = time.monotonic() - began
    return ShardResult(z, *run.sparse(weights), sums, run.new_names(weights), best, bleu)


def _is_empty(source: np.ndarray, kbest: KBest) -> bool:
    return len(source) > 0 and len(kbest.translation(0)) == 0


def _check_finite(run: Run, epoch: int, numbers: np.ndarray) -> None:
    if not np.isfinite(numbers).all():
        last = checkpoint_path(run.folder.checkpoints, epoch - 1)
        raise DataError(
            f"epoch {epoch}: found NaN or infinite weights, expected numbers: lower learner.learning_rate; "
            + (f"the last sound checkpoint is {last}" if epoch > 1 else "there is no checkpoint yet")
        )


def _mix(run: Run, state: State, results: Sequence[ShardResult]) -> tuple[dict[str, Any], Vector]:
    """The epoch's weights out of all shards', and what metrics say of them.

    They are the mean over shards (algorithm 3), that of the selected columns (4), or the mean over shards and epochs
    (1 and 2), which rank 0 keeps.
    """
    job = run.job
    mix: Mix = mixing.mean
    if job.learner.algorithm == "itersel":
        mix = partial(selection.select, norm=job.select.norm, k=job.select.k, threshold=job.select.lambda_)
    mixed = reduce(run.comm, _stacked(results), mix, exchange=job.parallel.exchange, memory=machine_memory())
    weights: Vector = mixed.index, mixed.value
    if not run.shards_meet:
        if run.comm.root:
            state.mean.add(*weights)
        weights = run.comm.bcast_sparse(state.mean.index, state.mean.value)
    run.comm.at_root(lambda: _check_finite(run, state.epoch + 1, weights[1]))
    kept = {"active_features": mixed.active, "lambda": mixed.threshold, "selected_features": len(weights[0])}
    return kept, weights


def _meet(run: Run, results: Sequence[ShardResult], weights: Vector) -> None:
    """All ranks get to know the features of ``weights`` that nobody knew before; other names stay where they are."""
    names = [name for result in results for name in result.names]
    ids = np.array([feature_id(name) for name in names], dtype=np.uint64)
    # The weights ascend in their ids.
    first, end = (np.searchsorted(weights[0], ids, side=side) for side in ("left", "right"))
    named = run.comm.gather([names[i] for i in np.flatnonzero(first < end)])
    run.meet(run.comm.at_root(lambda: sorted({name for part in named or [] for name in part})))


def _best_of_all(run: Run, shards: list[np.ndarray], results: Sequence[ShardResult]) -> np.ndarray:
    """int32 [sentences, 10]: statistics of all 1-best translations of the epoch, by sentence."""
    best = np.zeros((run.corpus.size, WIDTH), dtype=np.int32)
    for result in results:
        best[shards[result.shard]] = result.best
    return run.comm.sum(best)


def _stacked(results: Sequence[ShardResult]) -> SparseVectors:
    return SparseVectors(
        np.array([result.shard for result in results], dtype=np.int64),
        row_ends(np.array([len(result.index) for result in results], dtype=np.int64)),
        np.concatenate([np.zeros(0, np.uint64)] + [result.index for result in results]),
        np.concatenate([np.zeros(0)] + [result.value for result in results]),
    )


def _summary(shards: Sequence[tuple[int, dict[str, float], np.ndarray]]) -> dict[str, Any]:
    """The metrics of an epoch's decoding from the sums of its shards, in shard order."""
    sums = {name: sum(statistics[name] for _, statistics, _ in shards) for name in (*SUMS, "failed")}
    bleu = sum((of_shard for _, _, of_shard in shards), np.zeros((len(PICKED), WIDTH), dtype=np.int64))
    return {
        "sentences": int(sums["sentences"]),
        "gold": sums["gold"] / sums["sentences"],
        **{
            f"{name}_bleu": 100 * float(score) if counts.any() else None
            for name, score, counts in zip(PICKED, papineni(bleu), bleu, strict=True)
        },
        "length_ratio": sums["length"] / sums["reference"] if sums["reference"] else 0.0,
        "pairs": int(sums["pairs"]),
        "updates": int(sums["updates"]),
        "empty_outputs": int(sums["empty"]),
        "failed_sentences": int(sums["failed"]),
    }


def _tell(metrics: dict[str, Any]) -> None:
    bleu = "" if metrics["devtest_bleu"] is None else f", devtest BLEU {metrics['devtest_bleu']:.2f}"
    LOG.info(
        "epoch %d: mean gold score %.4f%s, %d features, %d of %d pairs updated, %.1f sentences/s",
        metrics["epoch"],
        metrics["gold"],
        bleu,
        metrics["selected_features"],
        metrics["updates"],
        metrics["pairs"],
        metrics["sentences"] / metrics["seconds"],
    )
