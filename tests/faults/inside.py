"""``python inside.py train JOB.toml ...``: mpitune as it is, but it tells where it is, and fails where it is told to.

Two variables of the environment say what to do: FAULT_STEPS names the file that each process adds a line to wherever it
comes to one of `STEPS` (``rank step``); FAULT is ``rank/step/n/action``: what that rank does when it comes there for
the n-th time (see `ACTIONS`).
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

START = "process started"
STEPS = {
    "connected": "mpitune.exchange.comm:MpiComm.__init__",
    "bitext compiled": "mpitune.store.extract_grammars:_prepare_bitext",
    "grammar extracted": "mpitune.store.extract_grammars:GrammarExtractor.part",
    "data compiled": "mpitune.store.build:compile_data",
    "language model read": "mpitune.store.build:_compile_lm",
    "kernels loaded": "mpitune.training.open_run:_warm_up",
    "sentence decoded": "mpitune.decoder.embedded.decoder:EmbeddedDecoder.decode",
    "shard kept": "mpitune.training.online_epoch:write_shard",
    "exchange": "mpitune.exchange.comm:MpiComm.allgather",
    "selection": "mpitune.training.online_epoch:_mix",
    "devtest decoded": "mpitune.training.loop:watch_epoch",
    "epoch written": "mpitune.training.loop:write_epoch",
    "checkpoint written": "mpitune.training.state:write_checkpoint",
    "lock given back": "mpitune.ownership:FolderLock.release",
}
"""What a process is about to do (when connected: has done), and the function that does it."""
END = "process ends"
FAULT = "fault"


def _fail() -> None:
    raise RuntimeError("what went wrong")


def _set_clock_back() -> None:
    """By a day, again and again: no reading of this process's wall clock is later than the one before."""
    at = time.time()

    def backwards() -> float:
        nonlocal at
        at -= 86400.0
        return at

    time.time = backwards
    time.time_ns = lambda: int(backwards() * 1e9)


ACTIONS: dict[str, Callable[[], object]] = {
    "raise": _fail,
    "sys.exit(0)": lambda: sys.exit(0),
    "sys.exit(5)": lambda: sys.exit(5),
    "os._exit(0)": lambda: os._exit(0),
    "os._exit(5)": lambda: os._exit(5),
    **{name: partial(os.kill, os.getpid(), signal.Signals[name]) for name in ("SIGINT", "SIGTERM", "SIGUSR1")},
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "clock": _set_clock_back,
    "pause": partial(time.sleep, 3.0),
}

RANK = next((os.environ[name] for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK") if name in os.environ), "0")
_counts: Counter[str] = Counter()


def come_to(step: str) -> None:
    """Say so, and do what is to be done there."""
    _tell(step)
    _counts[step] += 1
    rank, where, n, action = (os.environ.get("FAULT") or "///").split("/")
    if (rank, where, n) == (RANK, step, str(_counts[step])):
        _tell(FAULT)
        ACTIONS[action]()


def _tell(step: str) -> None:
    with open(os.environ["FAULT_STEPS"], "a", encoding="utf-8") as steps:
        steps.write(f"{RANK} {step}\n")


def _watch(step: str, function: str) -> None:
    module, _, path = function.partition(":")
    *within, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for part in within:
        owner = getattr(owner, part)
    original = getattr(owner, name)

    def watched(*args: Any, **kwargs: Any) -> Any:
        if step == "connected":
            original(*args, **kwargs)
            return come_to(step)
        come_to(step)
        return original(*args, **kwargs)

    setattr(owner, name, watched)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    come_to(START)
    for step, function in STEPS.items():
        _watch(step, function)
    from mpitune.cli.parser import main
    from mpitune.extraction import sentences

    # So that there are items of work for all ranks.
    sentences.SMALLEST_ITEM = 1
    code = main()
    come_to(END)
    sys.exit(code)
