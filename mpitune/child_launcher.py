"""Becomes another program that does not outlive its parent: ``python child_launcher.py PARENT PROGRAM ARGUMENT ...``.

Started by file name, so that it loads nothing of mpitune. Signals that ask a run to stop may reach all processes of a
job: the program is to go on with its work, until its parent has finished and closes its input or ends it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # prctl(2)

if __name__ == "__main__":
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        # Linux alone has this; elsewhere the program ends when it finds its input closed.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("its parent is gone")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.execvp(program[0], program)
