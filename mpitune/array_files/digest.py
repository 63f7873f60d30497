"""A digest of a whole file in its first bytes: damage is found before any other library reads the file.

An HDF5 file may begin with a user block, which h5py and h5dump skip. Here it holds one line of text with the digest of
all following bytes, the structures of HDF5 included.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

USER_BLOCK = 512
"""Size in bytes of the user block: HDF5's minimum."""
_LINE = b"mpitune: HDF5 data follow, digest "
_PIECE = 1 << 24
"""Bytes that a thread hashes at a time."""


def matches_digest(file: np.ndarray) -> bool | None:
    """True if the bytes of a ``file`` (uint8 [n]) match the digest in its user block; None if it has no digest."""
    block = file[:USER_BLOCK].tobytes()
    return block == _user_block(file[USER_BLOCK:]) if block.startswith(_LINE) else None


def write_user_block(path: Path) -> None:
    """Write the digest of the other bytes of ``path`` to its user block."""
    block = _user_block(np.memmap(path, dtype=np.uint8, mode="r", offset=USER_BLOCK))
    with open(path, "r+b") as file:
        file.write(block)


def _user_block(content: np.ndarray) -> bytes:
    return _LINE + _digest(content).encode().ljust(USER_BLOCK - len(_LINE), b"\n")


def _digest(content: np.ndarray) -> str:
    """blake2b of the digests of pieces, which threads compute in parallel (hashlib releases the lock)."""

    def piece(first: int) -> bytes:
        return hashlib.blake2b(content[first : first + _PIECE].data).digest()

    with ThreadPoolExecutor() as threads:
        pieces = threads.map(piece, range(0, len(content), _PIECE))
        return hashlib.blake2b(b"".join(pieces)).hexdigest()
