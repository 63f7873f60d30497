"""How k-best lists are written."""

from __future__ import annotations

import numpy as np
import pytest

from mpitune import translate
from mpitune.corpus.symbols import FeatureTable, Names, feature_id
from mpitune.decoder.base import KBest


@pytest.mark.parametrize("met", [["late", "other", "A"], ["A", "other", "late"]])
def test_features_stand_in_an_order_that_all_ranks_share(met: list[str]) -> None:
    known = ["Glue", "Cost"]
    features = FeatureTable([(Names.of(known), np.array([feature_id(name) for name in known], dtype=np.uint64))])
    for name in met:
        features.slot(name)
    values = {"Glue": 1.0, "Cost": 2.5, "late": 3.0, "A": 4.0}
    slots = sorted(features.slot(name) for name in values)
    kbest = KBest(
        word_ptr=np.array([0, 1]),
        word=np.array([0], dtype=np.int32),
        score=np.array([-1.5]),
        feature_ptr=np.array([0, len(slots)]),
        feature_index=np.array(slots, dtype=np.int32),
        feature_value=np.array([values[features.name(slot)] for slot in slots]),
    )
    lines = translate.cdec_lines(7, kbest, ["house"], features)
    assert lines == ["7 ||| house ||| Glue=1 Cost=2.5 A=4 late=3 ||| -1.5"]
