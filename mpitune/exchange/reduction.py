"""What ends an epoch: the shards' vectors, wherever they were learned, to one vector that every rank has.

Either rank 0 sees them all, or each rank sees all rows of a part of the columns, and none sees everything. Both give
the same bits: a column is reduced alone, in shard order, and the parts ascend with the ranks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from mpitune.exchange.comm import ALONE, Comm
from mpitune.exchange.mixing import Mixed
from mpitune.exchange.sparse_rows import SparseVectors

LOG = logging.getLogger(__name__)

Mix = Callable[[SparseVectors, Comm], Mixed]
"""How vectors become one: `mixing.mean`, or `selection.select` with what it is to keep."""

SHARE = 0.25
"""How much of its machine's memory, divided by the ranks there, a rank may take for the vectors of all shards."""

QUICK = 1_000_000
"""How many weights other than 0 rank 0 may have to mix: what takes it a fifth of a second, while all others wait."""

BYTES = 80
"""What a weight other than 0 takes on a rank that holds all: 16 as such, the rest while they are sorted by column.

Measured, with every norm: 42 to 49 where each feature is in 20 shards, 65 to 74 where each is in one.
"""

KEPT_BYTES = 24
"""What each number that the learner keeps beside a weight takes there: as such, sorted by column, and mixed."""


def reduce(comm: Comm, vectors: SparseVectors, mix: Mix, *, exchange: str, memory: int) -> Mixed:
    """The whole of the mixed vector, on every rank. ``vectors``: those of this rank's shards, finite values only.

    ``exchange``: a name of `EXCHANGES`, or ``auto``: ``allgather`` where rank 0 is quick with all vectors, by `QUICK`,
    and they fit on every rank, by `SHARE` of the ``memory`` (bytes) of its machine.
    """
    if exchange == "auto":
        exchange = "allgather" if _central(comm, vectors, memory) else "alltoall"
    return EXCHANGES[exchange](comm, vectors, mix)


def _central(comm: Comm, vectors: SparseVectors, memory: int) -> bool:
    weights = comm.sum(len(vectors.index))
    room = SHARE * memory / comm.ranks_on_node
    needed = (BYTES + KEPT_BYTES * len(vectors.state)) * weights
    if comm.any(needed > room):
        LOG.info("exchange without a centre: all weights would take %.1f GB on a rank", needed / 1e9)
        return False
    return comm.size == 1 or weights <= QUICK


def at_centre(comm: Comm, vectors: SparseVectors, mix: Mix) -> Mixed:
    """Rank 0 mixes."""
    everything = comm.allgather(vectors)
    mixed = mix(everything, ALONE) if comm.root else None
    nothing = (None,) * (2 + len(vectors.state))
    index, value, *state = comm.bcast_sparse(*((mixed.index, mixed.value, *mixed.state) if mixed else nothing))
    active, threshold, profile = comm.bcast((mixed.active, mixed.threshold, mixed.profile) if mixed else (0, None, ()))
    return Mixed(index, value, active, threshold, mixed.norm if mixed else np.zeros(0), profile, tuple(state))


def in_parts(comm: Comm, vectors: SparseVectors, mix: Mix) -> Mixed:
    """Each rank mixes a part of the columns."""
    part = mix(comm.alltoall(vectors), comm)
    index, value, norm, *state = comm.concatenate(part.index, part.value, part.norm, *part.state)
    return Mixed(index, value, part.active, part.threshold, norm, part.profile, tuple(state))


EXCHANGES: dict[str, Callable[[Comm, SparseVectors, Mix], Mixed]] = {"allgather": at_centre, "alltoall": in_parts}
"""The values of the key ``parallel.exchange``, but for ``auto``."""
