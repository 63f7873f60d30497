"""Curves of families of runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from mpitune.report.charts import Family
from mpitune.run_folder.reader import Record


def test_the_mean_of_seeds() -> None:
    """Epochs that one run lacks are left out; the deviation is that of a sample."""

    def run(*bleus: float | None) -> Record:
        epochs = [SimpleNamespace(epoch=epoch, devtest_bleu=bleu) for epoch, bleu in enumerate(bleus, start=1)]
        return cast(Record, SimpleNamespace(epochs=epochs, result_bleu=bleus[-1]))

    family = Family("job", [run(10.0, 20.0, 30.0), run(14.0, 26.0)])
    curve = family.curve(lambda epoch: epoch.devtest_bleu, 3, "dashed")
    assert curve is not None and (curve.x, curve.y, curve.colour, curve.style) == ([1, 2], [12.0, 23.0], 3, "dashed")
    assert curve.spread == pytest.approx([8**0.5, 18**0.5])
    assert curve.values[:2] == pytest.approx([12 - 8**0.5, 12 + 8**0.5])
    spread = family.spread(lambda record: record.result_bleu)
    assert spread == pytest.approx((28.0, 8**0.5))
    alone = Family("job", [run(10.0, None)])
    single = alone.curve(lambda epoch: epoch.devtest_bleu, 0, "solid")
    assert single is not None and (single.y, single.values) == ([10.0], [10.0, 10.0])
    assert not single.spread and alone.spread(lambda record: record.result_bleu) is None
    assert Family("job", [run(None), run(1.0)]).curve(lambda epoch: epoch.devtest_bleu, 0, "solid") is None
