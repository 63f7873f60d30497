"""An external decoder as a child process: lines to it, lines from it, in time. The one door to `subprocess` here.

The child ends with this process, however this one ends: `mpitune.child_launcher` asks the kernel for that.
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
"""Bytes of the child's standard error that are kept, and as many of what came before them."""
_LAUNCHER = Path(__file__).parents[2] / "child_launcher.py"
_POLL_SECONDS = 0.05
"""Seconds between looks at whether a starting child has taken its input."""


class Timeouts(NamedTuple):
    """Seconds until a child counts as hung."""

    start: float = 1800.0
    """Until it takes its first line: it loads its models before."""
    first: float = 900.0
    """From there to its first answer."""
    sentence: float = 300.0
    """For any other answer."""


class ChildError(Exception):
    """The child has ended, hangs, or answers what is no answer; it is to be closed."""


class NotStarted(ChildError):
    """The child has ended, or was out of time, before it took its first line."""


class Child:
    """One running decoder."""

    def __init__(self, command: Sequence[str], log: Path, timeouts: Timeouts) -> None:
        """Start ``command``, its standard error appended to the file ``log``. Raises NotStarted where that fails."""
        self._log = log
        self._timeouts = timeouts
        self._first_line_read = self._answered = False
        self._lines: deque[bytes] = deque()
        self._partial_line = b""
        program = shutil.which(command[0])
        if program is None:
            raise NotStarted("is no program on the PATH, and no file that may be run")
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-ISE", str(_LAUNCHER), str(os.getpid()), program, *command[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                # Ctrl-C goes to all of a terminal's processes: the run is to finish its sentence first.
                start_new_session=True,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        self.close = weakref.finalize(self, _end, self._process)
        """Ends the child, at once; happens by itself when nobody holds this object any more, and at exit."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, line: str) -> str:
        """Send ``line``, and wait for the first line of the answer, without its end.

        Raises ChildError where the child ends or time is up; NotStarted where it had never taken a line.
        """
        self._truncate_log()
        if self._lines or self._partial_line or (_is_ready(self._output, select.POLLIN) and os.read(self._output, 1)):
            raise ChildError("said more than it was asked for")
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
        """The next line of the answer, without its end. Raises ChildError as `ask`, and for what is not UTF-8."""
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
        """Send the first line, and wait until it is taken."""
        try:
            self._send(text, time.monotonic() + self._timeouts.start)
            end = time.monotonic() + self._timeouts.start
            while _has_unread_bytes(self._input):
                if self._process.poll() is not None:
                    raise ChildError(self._exit_reason())
                if time.monotonic() > end:
                    raise ChildError(f"did not take its first sentence within {self._timeouts.start:g} seconds")
                time.sleep(_POLL_SECONDS)
        except NotStarted:
            raise
        except ChildError as error:
            raise NotStarted(str(error)) from None

    def _send(self, text: bytes, end: float) -> None:
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
        """Return when ``file`` is ready. Raises ChildError at time ``end``."""
        if not _is_ready(file, event, max(end - time.monotonic(), 0.0)):
            raise ChildError("no answer in time: it hangs, or decoder.cdec's time-outs are too short for this sentence")

    def _exit_reason(self) -> str:
        """What has become of a child that closed its output or input."""
        try:
            code = self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            return f"closed its output{self._last_error_line()}"
        how = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return how + self._last_error_line()

    def _last_error_line(self) -> str:
        with suppress(OSError), open(self._log, "rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - 4096, 0))
            words = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
            if spoken := [line for line in words if line]:
                return f"; its last words: {spoken[-1][:200]!r}"
        return ""

    def _truncate_log(self) -> None:
        """A decoder says some kB a sentence on its standard error: what is older than `LOG_LIMIT` is dropped."""
        with suppress(OSError):
            if self._log.stat().st_size > LOG_LIMIT:
                shutil.copyfile(self._log, self._log.with_suffix(".old.log"))
                # The child appends, so it goes on at the new end.
                os.truncate(self._log, 0)


def _is_ready(file: int, event: int, seconds: float = 0.0) -> bool:
    """Whether ``file`` is ready within ``seconds``."""
    poll = select.poll()
    poll.register(file, event)
    return bool(poll.poll(seconds * 1000.0))


def _has_unread_bytes(pipe: int) -> bool:
    """Whether the reader of ``pipe`` has left something in it."""
    count = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return bool(struct.unpack("i", count)[0])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for file in (process.stdin, process.stdout):
        assert file is not None
        file.close()
    process.wait()
