"""Presets: named sets of values for a job's keys, from a paper or its published code, each with its source.

``learner.preset`` selects one. Its values override the schema's defaults and are overridden by the job's cdec.ini, the
job file and ``--set``. A value that the source does not state, or that has another meaning here, is left at the
schema's default; the text of ``source`` lists these cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mpitune.learner.online.mira import MiraOptions

Keys = Mapping[str, Any]
"""Values by dotted key, of any table of a job."""


@dataclass(frozen=True)
class Preset:
    """A set of values and its source."""

    source: str
    """Sections of the paper or published files; values that were left out, and why."""
    keys: Keys


_MULTIPARTITE: Keys = {
    "learner.method": "perceptron",
    "learner.algorithm": "itersel",
    "learner.epochs": 10,
    "learner.patience": 0,
    "learner.metric": "bleu",
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
    "learner.lm_leave_one_out": False,
    "decoder.kbest": 100,
    "decoder.unique": True,
    "decoder.pop_limit": 200,
    "decoder.span_limit": 15,
    "parallel.reshuffle": False,
    "parallel.mixing": "uniform",
    "select.k": 100000,
    "select.norm": "l2",
}
"""Values common to Simianer et al. (2012) and dtrain, the trainer of its authors."""

PRESETS: dict[str, Preset] = {
    "default": Preset(
        source="Defaults of this version, chosen to work well on any data.",
        keys={},
    ),
    "simianer2012": Preset(
        source="Simianer, Riezler, Dyer, ACL 2012, as printed: section 4 (pair by pair, no margin), 5.1 "
        "(100-best lists, BLEU of Liang et al. 2006, HI and LOW of 10 %, footnote 5: span and pop limit), 5.2 (10 "
        "epochs, rate, zero weights, 100,000 features by l2 norms). algorithm is the paper's algorithm 4. Left out: "
        "the number of shards, which depends on the data (about 1,000 sentences per shard in the paper).",
        keys={
            **_MULTIPARTITE,
            "learner.gold": "liang",
            "learner.extend_ties": False,
            "learner.order": "sequential",
            "learner.margin": 0.0,
        },
    ),
    "dtrain": Preset(
        source="dtrain in cdec's training/dtrain, the trainer of Simianer et al. (2012): "
        "examples/parallelized/dtrain.ini, the cdec.ini in the same folder, and the defaults of parallelize.rb (10 "
        "epochs, l2 select_k 100000, no reshuffling). stupid_bleu is bleu+1; order and extend_ties follow the code, "
        "which has no option for them. Left out: the number of shards, for which parallelize.rb has no default.",
        keys={
            **_MULTIPARTITE,
            "decoder.sample": "none",
            "learner.gold": "bleu+1",
            "learner.extend_ties": True,
            "learner.order": "sentence",
            "learner.margin": 1.0,
        },
    ),
    "eidelman2012": Preset(
        source="Eidelman, WMT 2012: section 3.1 (500-best lists, 50,000 for max-BLEU, C, BLEU in the context of the "
        "previous epoch, 20 shards with parameter mixing), 3.2 (M-C with M+C); 20 epochs as in its figures. Left out: "
        "cost_scale, as the paper states no scale of that BLEU.",
        keys={
            **MiraOptions.defaults,
            "learner.method": "mira",
            "learner.patience": 0,
            "learner.lm_leave_one_out": False,
            "learner.mira.oracle": "M-C",
            "learner.mira.prediction": "M+C",
            "learner.mira.variant": "1-best",
            "learner.mira.c": 0.01,
        },
    ),
    "green2013": Preset(
        source="Green, Wang, Cer, Manning, ACL 2013, as published in stanfordnlp/phrasal: example/example.vars "
        "(8 epochs, pro-sgd, bleu-smooth, AdaGrad 0.02), scripts-private/online.vars (200-best lists; the example "
        "has 100); OnlineTuner.java (one weight vector, sentences in a new order in each epoch, the last epoch's "
        "weights), PairwiseRankingOptimizerSGD.java (one gradient for all pairs). The paper itself was not consulted. "
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
            "learner.lm_leave_one_out": False,
            "decoder.kbest": 200,
            "parallel.shards": 1,
            "parallel.reshuffle": True,
        },
    ),
    "hopkins2011": Preset(
        source="Hopkins, May, Tuning as Ranking, EMNLP 2011 (PRO): 5,000 candidates, of those that differ by 0.05 the "
        "50 with the largest difference, interpolation 0.1, BLEU+1. The paper itself was not consulted. Left out: the "
        "length of its lists, its number of epochs, and c, which is a choice of this implementation.",
        keys={
            "learner.method": "pro",
            "learner.gold": "bleu+1",
            "learner.lm_leave_one_out": False,
            "learner.pro.candidates": 5000,
            "learner.pro.threshold": 0.05,
            "learner.pro.kept": 50,
            "learner.pro.interpolation": 0.1,
        },
    ),
}
"""Presets by name; the first is the default."""
