"""Runs a program that ends with its parent process: ``python child_launcher.py PARENT PROGRAM ARGUMENT ...``.

This file is started by its name, so that no other module of mpitune is loaded. ``PARENT`` is the process id of the
parent. Batch systems send the signals that stop a run to all processes of a job: the program ignores them and works on
until its parent closes its input or ends it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # prctl(2)

if __name__ == "__main__":
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        # Only Linux has this call; on other systems the program ends when its input is closed.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("child_launcher: the parent process has ended")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.execvp(program[0], program)
