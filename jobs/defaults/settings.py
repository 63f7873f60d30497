"""What is varied: for each part of the measurement, the settings that it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sets import FACTORS, DataSet

from mpitune.config.presets import PRESETS

TEMPLATES = 'features.templates=["id", "source-bigram", "shape"]'


@dataclass(frozen=True)
class Setting:
    """What is set beside the base job of a set."""

    name: str
    given: tuple[str, ...] = ()
    """``table.key=value``."""
    base: str = "defaults"
    """The setting that it is compared with."""
    variant: str = ""
    """Of the set, see `sets.FACTORS`; the set itself where it is empty."""
    size: int = 0
    """Only so many sentences are tuned on."""

    @property
    def templates(self) -> str:
        """What sets its sparse templates, or ""."""
        return next((one for one in self.given if one.startswith("features.templates=")), "")


DEFAULTS = Setting("defaults")


def seeds(data: DataSet) -> list[Setting]:
    """The defaults alone."""
    return [DEFAULTS]


STEPS = {
    "normalized": (("rate=normalized", "order=sentence"), 0.1),
    "adagrad": (("rate=adagrad", "order=sentence"), 0.02),
    "sentence": (("rate=constant", "order=sentence"), 1e-5),
    "sequential": (("rate=constant", "order=sequential"), 1e-5),
}
"""Kinds of step, and for each the learning rate in the middle of its four decades."""
MARGINS = {
    "by-gold": ("margin=1.0", "margin_by_gold=true", "averaging=sentence"),
    "plain": ("margin=1.0", "margin_by_gold=false", "averaging=sentence"),
    "plain-epoch": ("margin=1.0", "margin_by_gold=false", "averaging=epoch"),
}
"""Margins and averages. A margin of 0 is not among them: it sets no scale (the ablation has it)."""
DECADES = (0.01, 0.1, 1, 10, 100)


def grid(data: DataSet) -> list[Setting]:
    """60 points; all that they vary is said in each."""
    return [
        Setting(f"{step}-{middle * decade:g}-{margin}", _learner(*keys, f"learning_rate={middle * decade:g}", *margins))
        for step, (keys, middle) in STEPS.items()
        for margin, margins in MARGINS.items()
        for decade in DECADES
    ]


def methods(data: DataSet) -> list[Setting]:
    """Other methods with their own defaults, and MIRA with as long lists as here, in one piece."""
    start = f"initial_weights={data.start}"
    return [
        DEFAULTS,
        Setting("mira", _learner("method=mira")),
        Setting("mira-100", (*_learner("method=mira"), "decoder.kbest=100", "parallel.shards=1")),
        Setting("pro", _learner("method=pro", start)),
        Setting("mert", _learner("method=mert", start)),
    ]


def robust(data: DataSet) -> list[Setting]:
    """The defaults, where lists, data, shards or the scale of the features are others."""
    found = [DEFAULTS]
    found += [Setting(f"k-{k}", (f"decoder.kbest={k}",)) for k in (20, 100, 500)]
    found += [Setting(f"dev-{size}", size=size) for size in (100, 300) if size < data.size]
    found += [Setting("dev-all")]
    found += [
        Setting(f"{algorithm}-{shards}", (*_learner(f"algorithm={algorithm}"), f"parallel.shards={shards}"))
        for algorithm in ("mix", "itermix", "itersel")
        for shards in (1, 4, 8, 32)
    ]
    if data.scalable:
        found += [Setting(variant, variant=variant) for variant in FACTORS]
    return found


def sparse(data: DataSet) -> list[Setting]:
    """All templates of the paper, tuned on what the dense features are."""
    return [DEFAULTS, Setting("all-templates", (TEMPLATES,))]


ABLATED = {
    "margin": ("margin",),
    "margin_by_gold": ("margin_by_gold",),
    "order+rate": ("order", "rate", "learning_rate"),
    "averaging": ("averaging",),
    "reshuffle": ("parallel.reshuffle",),
    "pairs": ("pairs", "share"),
    "gold": ("gold",),
    "dense_start": ("dense_start",),
}
"""Keys that are set back together: a learning rate is one of its kind of step."""


def ablation(data: DataSet) -> list[Setting]:
    """The defaults with one thing at a time as the paper has it.

    How shards are mixed is seen only where there are several, and features that not all of them have.
    """
    found = [DEFAULTS, *(Setting(f"no-{name}", _printed(*keys)) for name, keys in ABLATED.items())]
    adagrad = PRESETS["green2013"].keys["learner.learning_rate"]
    found.append(Setting("rate=adagrad", _learner("rate=adagrad", f"learning_rate={adagrad}")))
    shards = (*_learner("algorithm=itermix"), "parallel.shards=8", TEMPLATES)
    found.append(Setting("itermix-8-all-templates", shards, base="itermix-8-all-templates"))
    mixing = (*shards, *_printed("parallel.mixing"))
    found.append(Setting("no-mixing", mixing, base="itermix-8-all-templates"))
    return found


PARTS: dict[str, Callable[[DataSet], list[Setting]]] = {
    "seeds": seeds,
    "grid": grid,
    "methods": methods,
    "robust": robust,
    "sparse": sparse,
    "ablation": ablation,
}
SEEDS = {"seeds": 5, "grid": 5, "methods": 5, "robust": 3, "sparse": 5, "ablation": 3}
"""How many each setting is run with; in the grid, each of the best `BEST`."""
BEST = 3


def best(points: Sequence[tuple[Setting, float]]) -> list[Setting]:
    """The `BEST` settings by their score."""
    return [setting for setting, _ in sorted(points, key=lambda point: -point[1])[:BEST]]


def _learner(*keys: str) -> tuple[str, ...]:
    return tuple(f"learner.{key}" for key in keys)


def _printed(*keys: str) -> tuple[str, ...]:
    """What the preset of the paper has for these keys, those without a table being the learner's."""
    values = PRESETS["simianer2012"].keys
    return tuple(f"{key}={_toml(values[key])}" for key in (k if "." in k else f"learner.{k}" for k in keys))


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
