"""Check that the hosts of a run have the same program, see the same folders and read the same files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import mpitune
from mpitune import jit
from mpitune.config.spec import Job
from mpitune.corpus.progress import Progress
from mpitune.decoder.cdec.process import resolve_program
from mpitune.errors import MpituneError, UsageError
from mpitune.exchange.comm import Comm
from mpitune.files import existing, exists, is_file, is_writable, matching, open_regular, temporary_folder
from mpitune.lm.kenlm import is_kenlm
from mpitune.run_folder.run_state import versions
from mpitune.store.inputs import StoreInputs
from mpitune.store.store import DATA
from mpitune.training.job_inputs import further_grammars, sources

K = TypeVar("K")

_MAKING = (
    "mpitune.extraction",
    *(f"mpitune.lm.{module}" for module in ("numbered_text", "ngram_runs", "interpolation", "table_writer")),
)
"""Kernels that make grammars and language models."""
_BLOCKS = 64
"""Number of places of a large file at which its content is compared."""
_BLOCK = 1 << 16
"""Bytes at each of them."""


class Seen(NamedTuple):
    """The program, the folders and the files that a host sees."""

    program: dict[str, str]
    """The versions of mpitune and the libraries, and a digest of mpitune's code."""
    folders: dict[Path, bool]
    """True for each folder in which the host sees what rank 0 has put there."""
    files: dict[Path, str]
    """A digest of each file, or what keeps it from being read."""


def check_hosts(comm: Comm, job: Job) -> None:
    """Raise UsageError on every rank unless all hosts have the program, folders and files of rank 0's host. Collective.

    Of the job's files, those that every rank reads are compared: the others may be on rank 0's host alone.
    """
    if comm.ranks_on_node == comm.size:
        return
    seen = look_around(comm, job)

    def compare() -> None:
        first, *others = seen or []
        for name, host in others:
            for difference in differences(name, host, *first):
                raise UsageError(difference)

    comm.on_root(compare)


def compile_side_by_side(comm: Comm, job: Job, sources: StoreInputs) -> None:
    """Compile the listed kernels that the job needs, on the ranks of each machine side by side. Collective.

    A process that is alone compiles each kernel when it needs it.
    """
    if comm.size == 1:
        return
    without = ["mpitune.lm.arpa_writer"]  # which mpitune lm needs
    if not sources.made_inputs:
        without += _MAKING
    if job.decoder.backend != "embedded":
        without += ["mpitune.decoder.embedded"]
    kernels = jit.listed_kernels(without)
    if not comm.any(not jit.all_compiled(kernels)):
        return
    part, parts = comm.hosts[: comm.rank].count(comm.hosts[comm.rank]), min(comm.ranks_on_node, jit.MOST_COMPILING)
    share = kernels[part::parts] if part < parts else []
    with Progress("kernels compiled by rank 0", len(share)) as reported:
        for kernel in share:
            kernel.compile()
            reported.advance()
    if not comm.any(False) and comm.first_on_node:  # all have done their part
        jit.note_compiled(kernels)


def compile_kernels(comm: Comm, work: Callable[[], object]) -> None:
    """Do ``work`` on rank 0, and on one rank of each other machine at the same time. Collective.

    It compiles the kernels, which the other ranks then load. Errors are those of rank 0; the results are discarded.
    """
    if comm.first_on_node and not comm.root:
        with suppress(Exception):
            work()
    comm.on_root(work)


def look_around(comm: Comm, job: Job) -> list[tuple[str, Seen]] | None:
    """Name of each host and what it has, that of rank 0 first; None on other ranks. Collective."""
    with ExitStack() as stack:
        marks = comm.on_root(_put_marks, [job.run.dir, job.run.store], stack)
        files = comm.on_root(read_by_all_ranks, job)
        mine = None
        if comm.first_on_node:
            folders = {folder: exists(mark) for folder, mark in marks.items()}
            mine = Seen(_program(), folders, {file: _content(file) for file in files})
        seen = comm.gather(mine)
    return None if seen is None else [(name, of) for name, of in zip(comm.hosts, seen, strict=True) if of is not None]


def read_by_all_ranks(job: Job) -> list[Path]:
    """The files that every rank reads itself, instead of the store; those that are there on rank 0's host."""
    inputs = sources(job)
    files = [job.decoder.config]
    if inputs.external:
        program = resolve_program(job.decoder.binary)
        files += [job.grammar.file, *further_grammars(job), *inputs.lms, Path(program) if program else None]
    else:
        files += [lm for lm in inputs.lms if is_file(lm) and is_kenlm(lm)]
    if not is_writable(job.run.store):
        files.append(job.run.store / DATA)
    return [file for file in files if file is not None and is_file(file)]


def differences(name: str, host: Seen, first_name: str, first: Seen) -> list[str]:
    """Differences of host ``name`` from that of rank 0: a message each, with the remedy."""
    found = [
        f"{folder}: host {name} does not see this folder of host {first_name}: "
        "run.dir and run.store must be on a file system that all hosts share"
        for folder, sees in host.folders.items()
        if not sees
    ]
    found += [
        f"host {name}: found {what} {has or 'missing'}, expected {wanted}, as on host {first_name}: "
        "install the same versions on all hosts, or one installation that all share"
        for what, has, wanted in _unequal(host.program, first.program)
    ]
    found += [
        f"{file}: host {name} found {has}, expected {wanted}, as on host {first_name}: "
        "every rank reads this file, so it must be the same on all hosts"
        for file, has, wanted in _unequal(host.files, first.files)
    ]
    return found


def _unequal(has: Mapping[K, str], wanted: Mapping[K, str]) -> list[tuple[K, str, str]]:
    return [(key, has.get(key, ""), value) for key, value in wanted.items() if has.get(key) != value]


def _put_marks(folders: Sequence[Path], stack: ExitStack) -> dict[Path, Path]:
    """A new empty folder in each of ``folders`` that can be written, or in that which it is to be made in.

    Removed when ``stack`` is closed.
    """
    writable = (folder for folder in folders if is_writable(folder))
    return {folder: stack.enter_context(temporary_folder(existing(folder), ".host-check-")) for folder in writable}


def _program() -> dict[str, str]:
    digest, package = hashlib.blake2b(digest_size=8), Path(mpitune.__file__).parent
    for source in (file for depth in range(4) for file in matching(package, "*/" * depth + "*.py")):
        with open_regular(source) as opened:
            digest.update(opened.read())
    return versions() | {"the code of mpitune, its digest": digest.hexdigest()}


def _content(file: Path) -> str:
    """Size and digest of ``file``; of a large one, at some places."""
    digest = hashlib.blake2b(digest_size=8)
    try:
        with open_regular(file) as opened:
            size = opened.seek(0, 2)
            for place in range(0, size, max(size // _BLOCKS, _BLOCK)):
                opened.seek(place)
                digest.update(opened.read(_BLOCK))
    except MpituneError:
        return "no file that it can read"
    return f"{size} bytes, digest {digest.hexdigest()}"
