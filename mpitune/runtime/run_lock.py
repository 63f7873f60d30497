"""Lock of a run folder: one process at a time writes to it."""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import IO

from mpitune.errors import MachineError, UsageError
from mpitune.runtime.log import folder_write_error


class RunLock:
    """Exclusive lock on a run folder, held until it is released or the process ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inode: int | None = None
        """That of the file that is locked, which other ranks get from rank 0; None before and after."""
        self.fault = ""
        """On a file system without locks: a warning for the log, which is opened once the folder is locked."""
        self._file: IO[str] | None = None

    def acquire(self) -> int:
        """Create the folder if it does not exist and lock it; rank 0 calls this for all ranks. Returns `inode`.

        Raises UsageError if the folder is not writable or is locked by another process, MachineError if the disk is
        full. On a file system without locks, `fault` is set.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = open(self.folder / "lock", "a+", encoding="utf-8")  # noqa: SIM115 (closed by release)
        except OSError as error:
            raise folder_write_error(self.folder, error) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            file.close()
            raise UsageError(f"{self.folder}: the run folder is in use by {owner}") from None
        except OSError as error:
            self.fault = f"{self.folder}: no lock ({error.strerror}): make sure that no other run writes to it"
        try:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
        except OSError as error:
            with suppress(OSError):
                file.close()
            raise folder_write_error(self.folder, error) from None
        self._file, self.inode = file, os.fstat(file.fileno()).st_ino
        return self.inode

    def check(self) -> None:
        """Raise MachineError if the folder has been removed or replaced by another since it was locked."""
        if self.inode is None:
            return
        with suppress(OSError):
            # The number of a network file system may differ from node to node, that of a file on it does not.
            if os.stat(self.folder / "lock").st_ino == self.inode:
                return
        raise MachineError(f"{self.folder}: the run folder has been removed or replaced while the run was using it")

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._file is not None:
            self._file.close()
        self._file = self.inode = None
