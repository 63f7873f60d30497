"""Entry point of ``mpitune`` and of ``python -m mpitune``."""

import os
import signal
import sys

from mpitune.early_signals import end_by_signals


def main() -> int:
    """Run the command of the command line and return its exit code."""
    # Nothing has begun: signals end the process at once, Ctrl-C without the traceback of an import.
    end_by_signals()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # No result comes from these libraries: on a large machine, each rank would start as many threads as it has cores.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
    from mpitune.cli.parser import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
