"""Fixtures of the runs with a fake cdec."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fake import FakeCdec, Table
from support.tiny import JOB, Tiny

from mpitune.decoder.base import Sentence
from mpitune.exchange.comm import SerialComm
from mpitune.training.open_run import open_run


@pytest.fixture(scope="module")
def table(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """What our own decoder makes of the task's sentences with no weights, and features that only the fake knows."""
    run = open_run(tiny.job(tmp_path_factory.mktemp("table")), SerialComm())
    decoder, words = run.decoder, run.store.model.words
    texts = [line for name in ("train.de", "dev.de") for line in (tiny.folder / name).read_text().splitlines()]
    found: dict[str, list[tuple[str, dict[str, float]]]] = {}
    for text in sorted(set(texts) - {""}):
        kbest = decoder.decode(Sentence(0, words.encode(text.split()), 0), run.first.value, JOB["decoder"]["kbest"])
        rows = found[text] = []
        for j in range(kbest.size):
            row = slice(*kbest.feature_ptr[j : j + 2])
            names = map(decoder.features.name, kbest.feature_index[row].tolist())
            features = dict(zip(names, kbest.feature_value[row].tolist(), strict=True))
            target = words.decode(kbest.translation(j))
            pairs = zip([text.split()[0], *target], target, strict=False)
            rows.append((" ".join(target), features | {f"Only:{a}_{b}": 1.0 for a, b in pairs}))
    return found


@pytest.fixture
def fake(table: Table, tmp_path: Path) -> Iterator[FakeCdec]:
    found = FakeCdec(tmp_path / "fake", table)
    yield found
    found.end()
