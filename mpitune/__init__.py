"""mpitune: large-scale discriminative training for hierarchical machine translation.

The public names are these, with jobs/api.md as their guide; `mpitune.__main__.main` is the program. Everything else may
change from version to version: ``mpitune/README.md`` maps it. Modules are loaded when a name of them is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpitune.api.decoder import Decoder, Hypothesis
    from mpitune.api.extraction import extract
    from mpitune.api.job import Job
    from mpitune.api.lists import NBest
    from mpitune.api.runs import Run, prepare, train
    from mpitune.api.tools import align, estimate_lm, evaluate
    from mpitune.api.weights import Weights
    from mpitune.errors import DataError, MachineError, MpituneError, UsageError

__version__ = "0.2.0"

_PLACES = {
    **dict.fromkeys(("Decoder", "Hypothesis"), "api.decoder"),
    "extract": "api.extraction",
    "Job": "api.job",
    "NBest": "api.lists",
    **dict.fromkeys(("Run", "prepare", "train"), "api.runs"),
    **dict.fromkeys(("align", "estimate_lm", "evaluate"), "api.tools"),
    "Weights": "api.weights",
    **dict.fromkeys(("DataError", "MachineError", "MpituneError", "UsageError"), "errors"),
}
"""By public name, the module that has it."""

__all__ = [
    "DataError",
    "Decoder",
    "Hypothesis",
    "Job",
    "MachineError",
    "MpituneError",
    "NBest",
    "Run",
    "UsageError",
    "Weights",
    "align",
    "estimate_lm",
    "evaluate",
    "extract",
    "prepare",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'mpitune' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"mpitune.{_PLACES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *_PLACES]
