"""Named sets of values for a job's keys: what a paper printed or its code shipped, each with its source.

``learner.preset`` names one. Its values come after the schema's defaults and before the keys of the job, those of its
cdec.ini and ``--set``. A value that the source does not tell, or that is not what the key means here, is left to the
schema's default, and the source text says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Keys = Mapping[str, Any]
"""Dotted keys of a job, of any table, and their values."""

METHOD_DEFAULTS: dict[str, Keys] = {
    "mira": {
        "learner.algorithm": "itermix",
        "learner.epochs": 20,
        "learner.gold": "context",
        "learner.averaging": "epoch",
        "learner.dense_start": 0,
        "decoder.kbest": 500,
        "parallel.shards": 20,
        "parallel.reshuffle": False,
        "parallel.mixing": "uniform",
    },
    "rampion": {"learner.epochs": 20, "decoder.kbest": 500},
}
"""By method: keys whose default is that of the method's own paper (E12; Gimpel & Smith 2012), and not the schema's.

They stand where neither the preset nor the job says otherwise.
"""


@dataclass(frozen=True)
class Preset:
    """Values and their source."""

    source: str
    """The paper's sections, or the shipped files; what was left out, and why."""
    keys: Keys


_MULTIPARTITE: Keys = {
    "learner.method": "perceptron",
    "learner.algorithm": "itersel",
    "learner.epochs": 10,
    "learner.patience": 0,
    "learner.learning_rate": 0.0001,
    "learner.pairs": "multipartite",
    "learner.share": 0.1,
    "learner.rate": "constant",
    "learner.l1": 0.0,
    "learner.l2": 0.0,
    "learner.scale_by_gold": False,
    "learner.margin_by_gold": False,
    "learner.averaging": "epoch",
    "learner.dense_start": 0,
    "decoder.kbest": 100,
    "decoder.unique": True,
    "decoder.pop_limit": 200,
    "decoder.span_limit": 15,
    "parallel.reshuffle": False,
    "parallel.mixing": "uniform",
    "select.k": 100000,
    "select.norm": "l2",
}
"""What the paper of 2012 and the trainer of its authors have in common."""

PRESETS: dict[str, Preset] = {
    "default": Preset(
        source="The defaults of this version: values that learn well on any data.",
        keys={},
    ),
    "simianer2012": Preset(
        source="SRD12, Simianer, Riezler & Dyer, ACL 2012, as printed: section 4 (pair by pair, no margin), 5.1 "
        "(100-best lists, BLEU of Liang et al. 2006, HI and LOW of 10 %, footnote 5: span and pop limit), 5.2 (10 "
        "epochs, rate, zero weights, 100,000 features by l2 norms). algorithm is the paper's 4; shards, about 1,000 "
        "sentences each in the paper, depend on the data and are left out.",
        keys={
            **_MULTIPARTITE,
            "learner.gold": "liang",
            "learner.extend_ties": False,
            "learner.order": "sequential",
            "learner.margin": 0.0,
        },
    ),
    "dtrain": Preset(
        source="cdec's training/dtrain, the trainer of SRD12's authors: examples/parallelized/dtrain.ini with the "
        "cdec.ini beside it, and the defaults of parallelize.rb (10 epochs, l2 select_k 100000, no reshuffling). "
        "stupid_bleu is bleu+1; order and extend_ties are what its code always does. parallelize.rb has no default "
        "for shards.",
        keys={
            **_MULTIPARTITE,
            "learner.gold": "bleu+1",
            "learner.extend_ties": True,
            "learner.order": "sentence",
            "learner.margin": 1.0,
        },
    ),
    "eidelman2012": Preset(
        source="E12, Eidelman, WMT 2012: section 3.1 (500-best lists, 50,000 for max-BLEU, C, BLEU in the context of "
        "the epoch before, 20 shards with parameter mixing), 3.2 (M-C with M+C); 20 epochs as in its "
        "figures. It gives no scale of that BLEU: cost_scale is left out.",
        keys={
            **METHOD_DEFAULTS["mira"],
            "learner.method": "mira",
            "learner.patience": 0,
            "learner.mira.oracle": "M-C",
            "learner.mira.prediction": "M+C",
            "learner.mira.variant": "1-best",
            "learner.mira.c": 0.01,
            "learner.mira.oracle_kbest": 50000,
        },
    ),
    "green2013": Preset(
        source="Green, Wang, Cer & Manning, ACL 2013, as their tuner ships (stanfordnlp/phrasal): example/example.vars "
        "(8 epochs, pro-sgd, bleu-smooth, AdaGrad 0.02), scripts-private/online.vars (200-best lists; the example "
        "has 100); OnlineTuner.java (one weight vector, sentences in another order in each epoch, the last epoch's "
        "weights), PairwiseRankingOptimizerSGD.java (one gradient for all pairs). The paper itself was not at hand. "
        "Left out: its l1 of 0.1 (AdaGradFastFOBOSUpdater.java divides it by the root of the squared gradients, l1 "
        "here is not divided); batches of 20 sentences; its threshold of 0.5 for pairs, which is 0.05 here; margin, "
        "as its loss is logistic.",
        keys={
            "learner.method": "perceptron",
            "learner.algorithm": "itermix",
            "learner.epochs": 8,
            "learner.patience": 0,
            "learner.learning_rate": 0.02,
            "learner.gold": "bleu+1",
            "learner.pairs": "pro",
            "learner.order": "sentence",
            "learner.rate": "adagrad",
            "learner.l2": 0.0,
            "learner.scale_by_gold": False,
            "learner.margin_by_gold": False,
            "learner.averaging": "epoch",
            "learner.dense_start": 0,
            "decoder.kbest": 200,
            "parallel.shards": 1,
            "parallel.reshuffle": True,
        },
    ),
    "hopkins2011": Preset(
        source="PRO, Hopkins & May, Tuning as Ranking, EMNLP 2011: 5,000 candidates, the 50 farthest apart of those "
        "that differ by 0.05, interpolation 0.1, BLEU+1. The paper itself was not at hand: the length of its lists "
        "and its number of epochs are left out, and so is c, which is ours.",
        keys={
            "learner.method": "pro",
            "learner.gold": "bleu+1",
            "learner.pro.candidates": 5000,
            "learner.pro.threshold": 0.05,
            "learner.pro.kept": 50,
            "learner.pro.interpolation": 0.1,
        },
    ),
}
"""By name; the first is the one of a job that names none."""
