"""An external decoder as a child process: lines to it and from it, with time-outs.

Only this module of the package uses `subprocess`. The child ends with this process, even if this one is killed:
`mpitune.child_launcher` asks the operating system for that.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

LOG_LIMIT = 1 << 22
"""Size in bytes at which the log of the child's standard error is renamed to ``.old.log`` and begun anew."""
_LAUNCHER = Path(__file__).parents[2] / "child_launcher.py"
_POLL_SECONDS = 0.05
"""Seconds between checks whether a starting child has read its input."""


class Timeouts(NamedTuple):
    """Time limits in seconds after which a child counts as hung."""

    start: float = 1800.0
    """Until it reads its first line, after loading its models."""
    first: float = 900.0
    """From then to its first answer."""
    sentence: float = 300.0
    """For any other answer."""


class ChildError(Exception):
    """The child ended, hangs, or gave an invalid answer; the caller has to close it."""


class NotStarted(ChildError):
    """The child ended or timed out before it read its first line."""


def resolve_program(name: str) -> str | None:
    """The file that is run for the program ``name``; None if there is none."""
    program = shutil.which(name)
    return os.path.abspath(program) if program is not None else None


class Child:
    """One running decoder process."""

    def __init__(self, command: Sequence[str], log: Path, timeouts: Timeouts) -> None:
        """Start ``command``, with standard error appended to the file ``log``. Raises NotStarted if that fails."""
        self._log = log
        self._timeouts = timeouts
        self._first_line_read = self._answered = False
        self._lines: deque[bytes] = deque()
        self._partial_line = b""
        program = resolve_program(command[0])
        if program is None:
            raise NotStarted("is neither a program on the PATH nor an executable file")
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-ISE", str(_LAUNCHER), str(os.getpid()), program, *command[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                # Keeps Ctrl-C in the terminal away from the child: the run finishes its sentence first.
                start_new_session=True,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        self.close = weakref.finalize(self, _end, self._process)
        """Kills the child. Called automatically when this object is garbage-collected, and at exit."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, line: str) -> str:
        """Send ``line``; returns the first line of the answer, without the line end.

        Raises ChildError if the child ends or times out; NotStarted if it has never read a line.
        """
        self._truncate_log()
        if self._lines or self._partial_line or (_is_ready(self._output, select.POLLIN) and os.read(self._output, 1)):
            raise ChildError("wrote output that was not requested")
        text = f"{line}\n".encode()
        if not self._first_line_read:
            self._send_first(text)
            self._first_line_read = True
        else:
            self._send(text, time.monotonic() + self._timeouts.sentence)
        self._deadline = time.monotonic() + (self._timeouts.sentence if self._answered else self._timeouts.first)
        answer = self.line()
        self._answered = True
        return answer

    def line(self) -> str:
        """The next line of the answer, without the line end. Raises ChildError as `ask`, and for invalid UTF-8."""
        while not self._lines:
            self._wait(self._output, select.POLLIN, self._deadline)
            part = os.read(self._output, 1 << 20)
            if not part:
                raise ChildError(self._exit_reason())
            *whole, self._partial_line = (self._partial_line + part).split(b"\n")
            self._lines.extend(whole)
        line = self._lines.popleft()
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise ChildError(f"answered {line[:60]!r}, which is not UTF-8 ({error.reason})") from None

    def _send_first(self, text: bytes) -> None:
        """Send the first line, and wait until it is read. Raises NotStarted."""
        try:
            self._send(text, time.monotonic() + self._timeouts.start)
            end = time.monotonic() + self._timeouts.start
            while _has_unread_bytes(self._input):
                if self._process.poll() is not None:
                    raise ChildError(self._exit_reason())
                if time.monotonic() > end:
                    raise ChildError(f"did not read its first sentence within {self._timeouts.start:g} seconds")
                time.sleep(_POLL_SECONDS)
        except NotStarted:
            raise
        except ChildError as error:
            raise NotStarted(str(error)) from None

    def _send(self, text: bytes, end: float) -> None:
        """Write ``text`` to the child. Raises ChildError if it ends, or at time ``end`` (of `time.monotonic`)."""
        rest = memoryview(text)
        while rest:
            self._wait(self._input, select.POLLOUT, end)
            try:
                rest = rest[os.write(self._input, rest) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise ChildError(self._exit_reason()) from None

    def _wait(self, file: int, event: int, end: float) -> None:
        """Wait until ``file`` is ready. Raises ChildError at time ``end``."""
        if not _is_ready(file, event, max(end - time.monotonic(), 0.0)):
            raise ChildError("no answer in time: it hangs, or decoder.cdec's time-outs are too short for this sentence")

    def _exit_reason(self) -> str:
        """Exit code or signal of a child that closed its output or input, and the last line of its standard error."""
        try:
            code = self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            return f"closed its output{self._last_error_line()}"
        how = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return how + self._last_error_line()

    def _last_error_line(self) -> str:
        """The last line of the log as part of a message; empty if there is none."""
        with suppress(OSError), open(self._log, "rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - 4096, 0))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
            if written := [line for line in lines if line]:
                return f"; last line of its standard error: {written[-1][:200]!r}"
        return ""

    def _truncate_log(self) -> None:
        """Limit the size of the log to `LOG_LIMIT`: a decoder writes some kB a sentence to its standard error."""
        with suppress(OSError):
            if self._log.stat().st_size > LOG_LIMIT:
                shutil.copyfile(self._log, self._log.with_suffix(".old.log"))
                # The child opened it for appending, so it continues at the new end.
                os.truncate(self._log, 0)


def _is_ready(file: int, event: int, seconds: float = 0.0) -> bool:
    """True if ``file`` is ready within ``seconds``."""
    poll = select.poll()
    poll.register(file, event)
    return bool(poll.poll(seconds * 1000.0))


def _has_unread_bytes(pipe: int) -> bool:
    """True if ``pipe`` contains bytes that its reader has not read yet."""
    count = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return bool(struct.unpack("i", count)[0])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for file in (process.stdin, process.stdout):
        assert file is not None
        file.close()
    process.wait()
