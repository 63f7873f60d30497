"""A digest of a whole file in its first bytes: damage is found before any other library reads the file.

An HDF5 file may begin with a user block, which h5py and h5dump skip. Here it holds one line of text with the digest of
all following bytes, the structures of HDF5 included.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

USER_BLOCK = 512
"""Size in bytes of the user block: HDF5's minimum."""
_LINE = b"mpitune: HDF5 data follow, digest "
_PIECE = 1 << 24
"""Bytes that a thread hashes one after the other."""
_READ = 1 << 16
"""Bytes read at a time: mapped pages would count as memory of the process."""


def matches_digest(file: BinaryIO) -> bool | None:
    """True if the bytes of a ``file`` match the digest in its user block; None if it has no digest."""
    block = os.pread(file.fileno(), USER_BLOCK, 0)
    return block == _user_block(file) if block.startswith(_LINE) else None


def write_user_block(path: Path) -> None:
    """Write the digest of the other bytes of ``path`` to its user block."""
    with open(path, "r+b") as file:
        file.write(_user_block(file))


def _user_block(file: BinaryIO) -> bytes:
    return _LINE + _digest(file).encode().ljust(USER_BLOCK - len(_LINE), b"\n")


def _digest(file: BinaryIO) -> str:
    """blake2b of the digests of pieces, which threads compute in parallel (hashlib releases the lock)."""
    size = os.fstat(file.fileno()).st_size

    def piece(first: int) -> bytes:
        hashed = hashlib.blake2b()
        end = min(first + _PIECE, size)
        for place in range(first, end, _READ):
            hashed.update(os.pread(file.fileno(), min(_READ, end - place), place))
        return hashed.digest()

    with ThreadPoolExecutor() as threads:
        pieces = threads.map(piece, range(USER_BLOCK, size, _PIECE))
        return hashlib.blake2b(b"".join(pieces)).hexdigest()
