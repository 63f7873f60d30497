"""The settings that each part of the measurement runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sets import FACTORS, DataSet

from mpitune.config.presets import PRESETS

TEMPLATES = {"features.templates": ["id", "source-bigram", "shape"]}
WORDS = {"features.templates": ["word-pair", "target-words"]}
ALL_WITH_WORDS = {"features.templates": ["id", "source-bigram", "shape", "word-pair", "target-words"]}
ORDER = {"features.templates": ["shape", "reordering", "fertility"]}


@dataclass(frozen=True)
class Setting:
    """Changes to the base job of a set."""

    name: str
    given: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Values of dotted keys."""
    base: str = "defaults"
    """The setting that it is compared with."""
    variant: str = ""
    """Variant of the set, see `sets.FACTORS`; "": the set itself."""
    size: int = 0
    """Number of tuning sentences; 0: all."""


DEFAULTS = Setting("defaults")
ALL_TEMPLATES = Setting("all-templates", TEMPLATES)
MIRA_100 = Setting("mira-100", {"learner.method": "mira", "decoder.kbest": 100, "parallel.shards": 1})
"""MIRA with the perceptron's list length and one shard."""


def seeds(data: DataSet) -> list[Setting]:
    """The defaults alone."""
    return [DEFAULTS]


STEPS = {
    "normalized": ({"rate": "normalized", "order": "sentence"}, 0.1),
    "adagrad": ({"rate": "adagrad", "order": "sentence"}, 0.02),
    "sentence": ({"rate": "constant", "order": "sentence"}, 1e-5),
    "sequential": ({"rate": "constant", "order": "sequential"}, 1e-5),
}
"""Kinds of update, each with the learning rate in the middle of its four decades."""
MARGINS = {
    "by-gold": {"margin": 1.0, "margin_by_gold": True, "averaging": "sentence"},
    "plain": {"margin": 1.0, "margin_by_gold": False, "averaging": "sentence"},
    "plain-epoch": {"margin": 1.0, "margin_by_gold": False, "averaging": "epoch"},
}
"""Margins and averagings. A margin of 0 is left to the ablation, because it sets no scale."""
DECADES = (0.01, 0.1, 1, 10, 100)
HAND = {"preset": "simianer2012", "margin": 1.0, "lm_leave_one_out": True}
"""Keys that were set by hand before there were defaults that learn; language models as with the defaults."""


def grid(data: DataSet) -> list[Setting]:
    """34 points: every rate with one margin, every margin with the middle rate, and keys set by hand before.

    The latter are those of the preset of the paper with a margin and three rates, for both orders.
    """
    return [
        *(
            Setting(f"{step}-{rate:g}-{margin}", _learner(**keys, learning_rate=rate, **rest))
            for step, (keys, middle) in STEPS.items()
            for margin, rest in MARGINS.items()
            for rate in (float(f"{middle * decade:g}") for decade in (DECADES if margin == "plain-epoch" else (1,)))
        ),
        *(
            Setting(f"hand-{order}-{rate:g}", _learner(**HAND, order=order, learning_rate=rate))
            for order in ("sentence", "sequential")
            for rate in (1e-6, 1e-5, 1e-4)
        ),
    ]


def near(data: DataSet) -> list[Setting]:
    """A short grid about the defaults, for sets on which the whole one would take too long."""
    return [
        DEFAULTS,
        ALL_TEMPLATES,
        *(Setting(f"rate-{rate:g}", _learner(learning_rate=rate)) for rate in (0.03, 0.3)),
        Setting("margin-plain", _learner(margin_by_gold=False)),
        Setting("hand-sentence-1e-05", _learner(**HAND, order="sentence", learning_rate=1e-05)),
        MIRA_100,
    ]


def methods(data: DataSet) -> list[Setting]:
    """Other methods with their defaults, and MIRA with the perceptron's list length and one shard."""
    return [
        DEFAULTS,
        Setting("mira", _learner(method="mira")),
        MIRA_100,
        Setting("pro", _learner(method="pro")),
        Setting("mert", _learner(method="mert")),
    ]


def robust(data: DataSet) -> list[Setting]:
    """The defaults with other list lengths, data sizes, shards or scales of the features."""
    found = [DEFAULTS]
    found += [Setting(f"k-{k}", {"decoder.kbest": k}) for k in (20, 100, 500)]
    found += [Setting(f"dev-{size}", size=size) for size in (100, 300) if size < data.size]
    found += [Setting("dev-all")]
    found += [
        Setting(f"{algorithm}-{shards}", _learner(algorithm=algorithm) | {"parallel.shards": shards})
        for algorithm in ("mix", "itermix", "itersel")
        for shards in (1, 4, 8, 32)
    ]
    if data.scalable:
        found += [Setting(variant, variant=variant) for variant in FACTORS]
    return found


def sparse(data: DataSet) -> list[Setting]:
    """Templates of the paper, of words and of order, tuned on the same sentences as the dense features."""
    return [
        DEFAULTS,
        ALL_TEMPLATES,
        Setting("words", WORDS),
        Setting("all-with-words", ALL_WITH_WORDS),
        Setting("order", ORDER),
    ]


def search(data: DataSet) -> list[Setting]:
    """Learning with less search than translating: the test is translated with the decoder's defaults."""
    cheap = [(f"pop-{n}-margin-2", {"decoder.pop_limit": n, "decoder.rule_margin": 2.0}) for n in (100, 50)]
    dense = [DEFAULTS, *(Setting(name, keys) for name, keys in cheap)]
    words = [Setting(f"{name}-all-templates", TEMPLATES | keys, base="all-templates") for name, keys in cheap]
    return [*dense, ALL_TEMPLATES, *words]


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
"""Keys that are reset together: a learning rate belongs to its kind of update."""


def ablation(data: DataSet) -> list[Setting]:
    """The defaults with one choice at a time reset to the paper's (Simianer, Riezler and Dyer, ACL 2012).

    Mixing is tested with several shards and sparse features, which not all shards have.
    """
    found = [DEFAULTS, *(Setting(f"no-{name}", _printed(*keys)) for name, keys in ABLATED.items())]
    adagrad = PRESETS["green2013"].keys["learner.learning_rate"]
    found.append(Setting("rate=adagrad", _learner(rate="adagrad", learning_rate=adagrad)))
    shards = {**_learner(algorithm="itermix"), "parallel.shards": 8, **TEMPLATES}
    found.append(Setting("itermix-8-all-templates", shards, base="itermix-8-all-templates"))
    found.append(Setting("no-mixing", shards | _printed("parallel.mixing"), base="itermix-8-all-templates"))
    return found


PARTS: dict[str, Callable[[DataSet], list[Setting]]] = {
    "seeds": seeds,
    "grid": grid,
    "near": near,
    "methods": methods,
    "robust": robust,
    "sparse": sparse,
    "search": search,
    "ablation": ablation,
}
SEEDS = {"seeds": 5, "grid": 5, "near": 3, "methods": 5, "robust": 3, "sparse": 5, "search": 3, "ablation": 3}
"""Number of seeds for each setting; in the grid, for each of the best `BEST`."""
BEST = 3


def best(points: Sequence[tuple[Setting, float]]) -> list[Setting]:
    """The `BEST` settings with the highest scores."""
    return [setting for setting, _ in sorted(points, key=lambda point: -point[1])[:BEST]]


def _learner(**keys: Any) -> dict[str, Any]:
    return {f"learner.{key}": value for key, value in keys.items()}


def _printed(*keys: str) -> dict[str, Any]:
    """Values of the paper's preset for these keys; keys without a table are the learner's."""
    values = PRESETS["simianer2012"].keys
    return {key: values[key] for key in (k if "." in k else f"learner.{k}" for k in keys)}
