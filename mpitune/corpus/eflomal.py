"""Word alignment of a bitext: runs the program eflomal in both directions and symmetrises the result.

eflomal (Östling and Tiedemann, "Efficient Word Alignment with Markov Chain Monte Carlo", 2016) is run as a program. Its
Python interface splits words at all Unicode spaces, so that its positions would differ from those of `split_words`, and
it leaves copies of the text behind when it is killed.
"""

from __future__ import annotations

import logging
import math
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import chain, zip_longest
from pathlib import Path
from typing import BinaryIO

from mpitune.corpus.lines import kilobytes, lines
from mpitune.corpus.progress import Progress
from mpitune.corpus.symmetrise import Link, grow_diag_final_and
from mpitune.corpus.text import split_words
from mpitune.corpus.wording import counted
from mpitune.errors import DataError, MachineError, UsageError
from mpitune.files import is_file, temporary_place, writing

LOG = logging.getLogger(__name__)

MAX_WORDS = 1023
"""Maximum number of words of a sentence in eflomal."""

_LAUNCHER = Path(__file__).parents[1] / "child_launcher.py"
_REFRESH = 1.0
"""Seconds between two displays of the progress of eflomal, which reports it only a few times."""
_MODEL = re.compile(rb"Aligning with model ([0-9])")
_NEWS = re.compile(rb"(Aligning|Created|Randomized|Done|Final|Writing|Read texts|Vocabulary sizes) ?")
_HEADER = "{:<20} {:<20}\n"


def align(source: Path, target: Path) -> Iterator[str]:
    """The alignment of each sentence pair, as ``0-0 1-2``: source and target positions from 0, in order.

    ``source`` and ``target`` are files of tokenised sentences, one per line. If a sentence of a pair has no words, or
    more than `MAX_WORDS`, the alignment is empty. eflomal has no option for its random seed: another run gives slightly
    different links.

    Raises UsageError if eflomal is not installed, DataError if a file cannot be read or the files differ in their
    numbers of lines, MachineError if eflomal fails.
    """
    program = find_program()
    if program is None:
        raise UsageError("eflomal is not installed: pip install 'mpitune[align]'")
    with _temporary_files(4) as files:
        texts, links = files[:2], files[2:]
        with Progress("kB of the bitext read", kilobytes([source, target])) as progress:
            alignable = _write_texts(source, target, texts, progress)
        if not alignable:
            raise DataError.at(source, None, found="no sentences", expected="a bitext")
        count = sum(alignable)
        LOG.info(f"{source}, {target}: eflomal aligns {count} of {counted(len(alignable), 'sentence pair')}")
        if count:
            _run(program, texts, links, count)
        directed = [_read_links(file, count) for file in links]
        with Progress("sentence pairs symmetrised", len(alignable)) as progress:
            for wanted in alignable:
                joined = grow_diag_final_and(*map(next, directed)) if wanted else []
                yield " ".join(f"{i}-{j}" for i, j in joined)
                progress.advance()


def write_alignment(file: BinaryIO, source: Path, target: Path) -> int:
    """Write what `align` gives to ``file``, a line for each pair; returns the number of links."""
    links = 0
    for line in align(source, target):
        file.write(f"{line}\n".encode())
        links += line.count("-")
    return links


def find_program() -> str | None:
    """The program eflomal: that of its Python package, else the one on the PATH; None if there is neither."""
    package = find_spec("eflomal")
    for folder in (package and package.submodule_search_locations) or ():
        program = Path(folder) / "bin" / "eflomal"
        if is_file(program):
            return str(program)
    return shutil.which("eflomal")


@contextmanager
def _temporary_files(count: int) -> Iterator[list[BinaryIO]]:
    """Files without names, which the system deletes when this process ends."""
    with writing(temporary_place(), MachineError), ExitStack() as stack:
        yield [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]


def _write_texts(source: Path, target: Path, texts: list[BinaryIO], progress: Progress) -> bytearray:
    """Write the sentence pairs that can be aligned to ``texts``; returns 1 for each such pair, 0 for the others.

    Format of eflomal: the numbers of sentences and of distinct words, then for each sentence its length and its words
    as numbers. Case is ignored, as in eflomal's own tools.
    """
    vocabularies: list[dict[str, int]] = [{}, {}]
    alignable = bytearray()
    long: list[int] = []
    for file in texts:
        # A placeholder of the same length: the numbers are not known yet.
        file.write(_HEADER.format(0, 0).encode())
    for number, sentences in enumerate(_pairs(source, target, progress), start=1):
        lengths = [len(words) for words in sentences]
        alignable.append(min(lengths) > 0 and max(lengths) <= MAX_WORDS)
        if max(lengths) > MAX_WORDS:
            long.append(number)
        if not alignable[-1]:
            continue
        for file, numbers, words in zip(texts, vocabularies, sentences, strict=True):
            coded = [numbers.setdefault(word, len(numbers)) for word in words]
            file.write(f"{len(coded)} {' '.join(map(str, coded))}\n".encode())
    for file, numbers in zip(texts, vocabularies, strict=True):
        file.seek(0)
        file.write(_HEADER.format(sum(alignable), len(numbers)).encode())
        file.flush()
    if long:
        which = f"{counted(len(long), 'sentence pair')} of more than {MAX_WORDS} words"
        LOG.warning(f"{source}:{long[0]}: {which}, which eflomal does not align: left without links")
    return alignable


def _pairs(source: Path, target: Path, progress: Progress) -> Iterator[tuple[list[str], list[str]]]:
    """The words of each sentence pair, in lower case. Raises DataError where one file has more lines than the other."""
    sources, targets = lines(source, progress), lines(target, progress)
    for number, (one, other) in enumerate(zip_longest(sources, targets), start=1):
        if one is None or other is None:
            # One of the two iterators is exhausted.
            longer = number + sum(1 for _ in chain(sources, targets))
            counts = (longer, number - 1) if other is None else (number - 1, longer)
            expected = f"{counts[0]}, as many as {source} has"
            raise DataError.at(target, None, found=counted(counts[1], "line"), expected=expected)
        yield split_words(one[1].lower()), split_words(other[1].lower())


def _run(program: str, texts: list[BinaryIO], links: list[BinaryIO], count: int) -> None:
    """Run eflomal on ``texts``, of ``count`` sentences; it writes ``links``, forward and backward.

    Models, samplers and numbers of iterations are the defaults of eflomal's own tools. Raises MachineError.
    """
    iterations = max(2, round(5000 / math.sqrt(count)))
    fewer = max(1, iterations // 4)
    of_model = [max(2, fewer), fewer, iterations]
    options = ["-m", "3", "-n", "3", "-N", "0.2"]
    for model, number in enumerate(of_model, start=1):
        options += [f"-{model}", str(number)]
    for option, file in zip(("-s", "-t", "-f", "-r"), texts + links, strict=True):
        options += [option, f"/dev/fd/{file.fileno()}"]
    with (
        Progress("eflomal's iterations, in both directions", 2 * sum(of_model)) as progress,
        subprocess.Popen(
            [sys.executable, str(_LAUNCHER), str(os.getpid()), program, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[file.fileno() for file in texts + links],
        ) as run,
    ):
        try:
            last_words = _follow(run, of_model, progress)
        except BaseException:
            run.kill()
            raise
    if run.returncode:
        code = run.returncode
        how = f"signal {-code}, {signal.strsignal(-code)}" if code < 0 else f"exit code {code}"
        raise MachineError(f"eflomal failed ({how}): {last_words or 'it said nothing'}")


def _follow(run: subprocess.Popen[bytes], iterations: Sequence[int], progress: Progress) -> str:
    """Report the progress of eflomal until it ends; returns the last line that is no news of its progress.

    In each direction, eflomal says when it starts with a model, and when it has done with the last one.
    """
    assert run.stderr is not None
    last_words, text, more = "", b"", b"\n"
    while more:
        more = b""
        while not select.select([run.stderr], [], [], _REFRESH)[0]:
            progress.advance(0)
        more = os.read(run.stderr.fileno(), 1 << 16)
        *whole, text = (text + more).split(b"\n")
        for line in whole if more else [*whole, text]:
            started = _MODEL.match(line)
            if started and int(started[1]) > 1:
                progress.advance(iterations[int(started[1]) - 2])
            elif line.startswith(b"Final argmax iteration"):
                progress.advance(iterations[-1])
            elif line.strip() and not _NEWS.match(line):
                last_words = line.decode(errors="replace").strip()
    return last_words


def _read_links(file: BinaryIO, count: int) -> Iterator[list[Link]]:
    """The links of one direction, sentence by sentence.

    Raises MachineError unless ``file`` has ``count`` lines of links: eflomal does not report a full disk.
    """
    file.seek(0)
    for number in range(1, count + 1):
        line = file.readline()
        try:
            if not line.endswith(b"\n"):
                raise ValueError
            pairs = [text.split(b"-") for text in line.split()]
            links = [(int(source), int(target)) for source, target in pairs]
        except ValueError:
            raise MachineError(
                f"eflomal failed: line {number} of its {count} is {line[:60]!r}, not links: "
                f"is the disk of {temporary_place()} full?"
            ) from None
        yield links
