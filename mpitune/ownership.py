"""Protection of the user's files: none that a command reads is replaced, and in a folder only the program's own are.

`reads` notes the inputs of a command by inode, so that no other name or link of a file hides it; `check_replaceable` is
asked before any file is replaced or removed. A folder that many files are written to (a run, a store, grammars) is
taken by `FolderLock`: the file ``lock`` in it is the mark that it is this program's. In a folder without the mark, a
file with one of the names in `OWN` belongs to somebody else, and the folder is refused.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mpitune.errors import MachineError, MpituneError, UsageError
from mpitune.files import make_folder, matching, open_regular, writing

LOCK = "lock"
PART = ".mpitune-part"
"""The end of the name of a file that is being written, which a killed process may leave behind."""
OWN = {
    "run": (
        *("config.toml", "log.txt", "status.json", "metrics.jsonl", "scoring.json", "weights.txt.gz"),
        *("weights/epoch-*.txt.gz", "weights/dense-start.txt.gz", "checkpoints/epoch-*.h5"),
        *("checkpoints/epoch-*.shards/shard-*.h5", "checkpoints/epoch-*.lists/shard-*.npz"),
        *("checkpoints/epoch-*.forests/shard-*.npz", "cdec/*/cdec.ini", "cdec/*/weights", "cdec/*/stderr*.log"),
        "traceback-*.txt",
        *("translations/source.txt.gz", "translations/reference-*.txt.gz", "translations/epoch-*.txt.gz"),
        # Of earlier versions.
        *("checkpoints/epoch-*.lists/shard-*.h5", "checkpoints/epoch-*.forests/shard-*.h5"),
    ),
    "store": (
        *("data.npz", "bitext.npz", "lm-*.npz", "part-*.npz", "grammars.npz", "input"),
        *("epoch-*.lists/shard-*.npz", "bitext.source", "bitext.source.npz", "bitext.target", "bitext.links*"),
        *("tuned.source", "tuned.target", "held-out.source", "held-out.target", "links.gz", "links.gz.npz"),
        "lm-*.arpa.gz",
        # Of earlier versions.
        *("data.h5", "bitext.h5", "lm-*.h5", "part-*.h5", "grammars.h5", "epoch-*.lists/shard-*.h5", "made-from.json"),
        *("bitext.source.json", "links.gz.json", "lm-*.arpa.gz.json"),
    ),
    "grammars": ("input.sgm", "grammar.[0-9]*.gz"),
}
"""By kind of folder: the names of the files that this program writes there."""
_MARK = re.compile(rb"process \d+ on ")
"""The beginning of `LOCK`, which names the process that wrote there last."""
_OWN_DATA = re.compile(rb"mpitune: |PK.{28}mpitune\.json", re.DOTALL)
"""The first bytes of checkpoints, and of array files: an archive whose first file is a manifest."""

_inputs: set[tuple[int, int]] = set()
"""Device and inode of the files that the command reads."""
_outputs: dict[tuple[int, int], Path] = {}
"""By device and inode: the files that the command is to replace, as the user has said."""


@contextmanager
def of_command() -> Iterator[None]:
    """Forget, at the end of the block, what the command in it reads and replaces."""
    try:
        yield
    finally:
        _inputs.clear()
        _outputs.clear()


def reads(paths: Iterable[Path | None]) -> None:
    """Note files that the command reads; what is no file (yet) is passed over: who opens it reports it.

    Raises UsageError for one that the command is to replace.
    """
    for path in paths:
        if path is not None and (found := _identity(path)):
            _inputs.add(found)
            if found in _outputs:
                check_replaceable(_outputs[found])


def is_input(path: Path) -> bool:
    """True if ``path`` is one of the files that the command reads, under whatever name."""
    return _identity(path) in _inputs


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError, ValueError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


def check_replaceable(path: Path) -> None:
    """Raise UsageError if ``path`` is one of the files that the command reads."""
    if is_input(path):
        raise UsageError(f"{path}: found as input and as output, expected two files")


def replaces(path: Path) -> None:
    """Note the file ``path``, which the user has named as output.

    Raises UsageError if the command reads it, or if it has the name of a file of a run, a store or grammars.
    """
    check_replaceable(path)
    for target in (path.absolute(), Path(os.path.realpath(path))):
        for depth, folder in enumerate(target.parents[:3], start=1):
            name = target.relative_to(folder)
            for kind, patterns in OWN.items():
                alike = [each for each in (LOCK, *patterns) if len(Path(each).parts) == depth and name.match(each)]
                if alike and (_is_marked(folder) or _begins_as_own(target)):
                    raise UsageError(f"{path}: found the name of a file of the {kind} there, expected another name")
    if found := _identity(path):
        _outputs[found] = path


class FolderLock:
    """A folder that this process alone writes to, until the lock is released or the process ends."""

    def __init__(self, folder: Path, kind: str) -> None:
        """``kind``: a key of `OWN`."""
        self.folder, self.kind = folder, kind
        self.fault = ""
        """On a file system without locks: a warning."""
        self.inode: int | None = None
        """That of the file `LOCK`; None before and after."""
        self._descriptor = -1

    def acquire(self, *, wait: bool) -> int:
        """Make the folder if it does not exist, mark and lock it; returns `inode`.

        Raises UsageError if it cannot be written, if another process has locked it (unless ``wait``), if an input of
        the command would be replaced, or if it has files of this program's names that this program has not written.
        """
        make_folder(self.folder)
        path = self.folder / LOCK
        # A link could lead to a file of somebody else.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        existed = os.path.lexists(path)
        with writing(self.folder):
            self._descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
        try:
            self._lock(wait)
            with writing(self.folder):
                try:
                    self._check_contents()
                except UsageError:
                    if not existed:
                        path.unlink()
                    raise
                text = f"process {os.getpid()} on {socket.gethostname()}\n".encode()
                os.pwrite(self._descriptor, text, 0)
                os.ftruncate(self._descriptor, len(text))
        except BaseException:
            self.release()
            raise
        self.inode = os.fstat(self._descriptor).st_ino
        return self.inode

    def check(self) -> None:
        """Raise MachineError if the folder has been removed or replaced by another since it was locked."""
        if self.inode is None:
            return
        with suppress(OSError):
            # The number of a network file system may differ from node to node, that of a file on it does not.
            if os.stat(self.folder / LOCK).st_ino == self.inode:
                return
        found = f"the {self.kind} folder has been removed or replaced"
        raise MachineError(f"{self.folder}: {found} while the {self.kind} was using it")

    def _lock(self, wait: bool) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            owner = os.pread(self._descriptor, 1000, 0).decode(errors="replace").strip() or "another process"
            raise UsageError(f"{self.folder}: the {self.kind} folder is in use by {owner}") from None
        except OSError as error:
            self.fault = f"{self.folder}: no lock ({error.strerror}): make sure that no other run writes to it"

    def _check_contents(self) -> None:
        own = [path for name in OWN[self.kind] for path in matching(self.folder, name)]
        # Of a store, the inputs that it makes may be given to a job as well, which then makes others.
        if self.kind != "store" and (given := next((path for path in own if is_input(path)), None)):
            expected = f"one outside of the {self.kind} folder that the command writes to"
            raise UsageError(f"{given}: found as input and as output, expected {expected}")
        # This program makes no links, and no pipes.
        foreign = [path for path in own if not stat.S_ISREG(os.lstat(path).st_mode)]
        mark = os.pread(self._descriptor, 100, 0)
        if not _MARK.match(mark):
            # Locks of stores of earlier versions are empty; so is a new one.
            foreign += [self.folder / LOCK] if mark else [] if any(map(_begins_as_own, own)) else own
        if foreign:
            expected = f"a new folder or that of a {self.kind}: name another one, or move this file"
            raise UsageError(f"{foreign[0]}: found a file that no {self.kind} has written, expected {expected}")

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self.inode = -1, None


@contextmanager
def locked(folder: Path, kind: str, *, wait: bool = True) -> Iterator[None]:
    """Lock ``folder`` in the block; arguments and errors as in `FolderLock.acquire`."""
    lock = FolderLock(folder, kind)
    lock.acquire(wait=wait)
    try:
        yield
    finally:
        lock.release()


def _is_marked(folder: Path) -> bool:
    return _MARK.match(_beginning(folder / LOCK)) is not None


def _begins_as_own(path: Path) -> bool:
    return _OWN_DATA.match(_beginning(path)) is not None


def _beginning(path: Path) -> bytes:
    """The first bytes of a regular file; none of any other."""
    with suppress(MpituneError), open_regular(path) as file:
        return file.read(100)
    return b""


def dissolve(folder: Path, kind: str) -> None:
    """Remove a folder of `OWN`, but nothing in it that this program has not written. What cannot be removed stays."""
    with suppress(MpituneError, OSError):
        if _is_marked(folder):
            remove(folder, *OWN[kind], ".*.h5.checked", ".*.npz.checked", LOCK)
        folder.rmdir()  # refused where there is something else


def remove(folder: Path, *patterns: str) -> None:
    """Remove the files in ``folder`` that match ``patterns``, and sub-folders that are empty then; never an input.

    Raises UsageError or MachineError for one that cannot be removed.
    """
    for pattern in patterns:
        inside, _, name = pattern.rpartition("/")
        # A killed process may have left the file that it was writing.
        for each in (name, f".{name}{PART}", f".{name}.*{PART}"):
            for path in matching(folder, f"{inside}/{each}" if inside else each):
                check_replaceable(path)
                with writing(path):
                    path.unlink(missing_ok=True)
        for path in matching(folder, inside) if inside else ():
            with suppress(OSError):
                path.rmdir()  # refused where there is something else
