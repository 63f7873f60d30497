"""The end of an epoch: reduction of all shards' weight vectors to one, which every rank receives.

``allgather``: all ranks receive all vectors, and rank 0 mixes them. ``alltoall``: each rank holds all rows of one
partition of the columns and mixes that. Both give the same bits: each column is reduced alone, in shard order, and the
partitions ascend with the ranks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from mpitune.exchange.comm import SERIAL_COMM, Comm
from mpitune.exchange.mixing import Mixed
from mpitune.exchange.sparse_rows import SparseVectors

LOG = logging.getLogger(__name__)

Mix = Callable[[SparseVectors, Comm], Mixed]
"""The reduction itself: `mixing.mean`, or `selection.select` with its options."""

MEMORY_SHARE = 0.25
"""Maximum share of the machine's memory, divided by the ranks there, for the vectors of all shards on a rank."""

MAX_ROOT_WEIGHTS = 1_000_000
"""Maximum number of nonzero weights that rank 0 mixes alone: about 0.2 s, during which all other ranks wait."""

BYTES_PER_WEIGHT = 80
"""Bytes per nonzero weight on a rank that holds all vectors: 16 for id and value, the rest for sorting by column.

Measured with every norm: 42 to 49 if each feature is in 20 shards, 65 to 74 if each is in one shard.
"""

BYTES_PER_STATE_VALUE = 24
"""Bytes per weight and array of the learner's state on such a rank: as received, sorted by column, and mixed."""


def reduce(comm: Comm, vectors: SparseVectors, mix: Mix, *, exchange: str, memory: int) -> Mixed:
    """Return the whole mixed vector on every rank. ``vectors``: those of this rank's shards, finite values only.

    ``exchange``: a name of `EXCHANGES`, or ``auto``: ``allgather`` if all vectors have at most `MAX_ROOT_WEIGHTS`
    weights and fit into `MEMORY_SHARE` of the ``memory`` (bytes) of every rank's machine, else ``alltoall``.
    """
    if exchange == "auto":
        exchange = "allgather" if _use_allgather(comm, vectors, memory) else "alltoall"
    return EXCHANGES[exchange](comm, vectors, mix)


def _use_allgather(comm: Comm, vectors: SparseVectors, memory: int) -> bool:
    weights = comm.sum(len(vectors.index))
    available = MEMORY_SHARE * memory / comm.ranks_on_node
    needed = (BYTES_PER_WEIGHT + BYTES_PER_STATE_VALUE * len(vectors.state)) * weights
    if comm.any(needed > available):
        LOG.info("exchange by alltoall: allgather would need %.1f GB per rank", needed / 1e9)
        return False
    return comm.size == 1 or weights <= MAX_ROOT_WEIGHTS


def mix_on_root(comm: Comm, vectors: SparseVectors, mix: Mix) -> Mixed:
    """allgather: rank 0 mixes all columns and broadcasts the result."""
    gathered = comm.allgather(vectors)
    mixed = mix(gathered, SERIAL_COMM) if comm.root else None
    nothing = (None,) * (2 + len(vectors.state))
    index, value, *state = comm.bcast_sparse(*((mixed.index, mixed.value, *mixed.state) if mixed else nothing))
    active, threshold, profile = comm.bcast((mixed.active, mixed.threshold, mixed.profile) if mixed else (0, None, ()))
    return Mixed(index, value, active, threshold, mixed.norm if mixed else np.zeros(0), profile, tuple(state))


def mix_in_partitions(comm: Comm, vectors: SparseVectors, mix: Mix) -> Mixed:
    """alltoall: each rank mixes one partition of the columns; the results are concatenated on every rank."""
    part = mix(comm.alltoall(vectors), comm)
    index, value, norm, *state = comm.concatenate(part.index, part.value, part.norm, *part.state)
    return Mixed(index, value, part.active, part.threshold, norm, part.profile, tuple(state))


EXCHANGES: dict[str, Callable[[Comm, SparseVectors, Mix], Mixed]] = {
    "allgather": mix_on_root,
    "alltoall": mix_in_partitions,
}
"""The values of the key ``parallel.exchange``, except ``auto``."""
