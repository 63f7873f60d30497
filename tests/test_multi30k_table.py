"""The table of `make multi30k`, from runs that are made up: which epoch, what is counted, which scores differ."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from mpi import ROOT

SENTENCES = [f"a man number {n} is walking down the long street" for n in range(30)]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "jobs" / "multi30k"))
    import table

    monkeypatch.delitem(sys.modules, "table")
    monkeypatch.setattr(table, "RUNS", tmp_path)
    return table


def made_up(run: Path, devtest: list[float | None], translations: list[str]) -> None:
    run.mkdir()
    epochs = [
        {"epoch": n, "devtest_bleu": bleu, "selected_features": 1000 * n, "seconds": 90.0}
        for n, bleu in enumerate(devtest, start=1)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(epoch) + "\n" for epoch in epochs))
    for test in ("test_2016_flickr", "test_2017_flickr"):
        (run / f"{test}.out").write_text("".join(f"{line}\n" for line in translations))


def test_the_table(table: ModuleType, tmp_path: Path) -> None:
    for test in table.TESTS:
        with gzip.open(tmp_path / f"{test}.en.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in SENTENCES)
    systems = [
        table.System("dev", "1 SGD", "dev", "12 dense", "no.toml"),
        table.System("itersel", "4 IterSelSGD", "train", "all", "no.toml"),
        table.System("worse", "1 SGD", "dev", "all", "no.toml"),
    ]
    # One sentence differs between the first two: no significant difference.
    made_up(systems[0].run, [None, None], SENTENCES)
    made_up(systems[1].run, [30.0, 32.0, 31.0], ["a man is walking", *SENTENCES[1:]])
    made_up(systems[2].run, [33.0, 31.0], [line.replace("walking", "running") for line in SENTENCES])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.table(systems, tmp_path).splitlines()]
    assert rows[2][:6] == ["a", "1 SGD", "dev", "12 dense", "2,000", "2 of 2"]
    # Algorithms 3 and 4 choose their epoch, and 1 and 2 do not, devtest or none.
    assert [row[4:6] for row in rows[3:]] == [["2,000", "2 of 3"], ["2,000", "2 of 2"]]
    assert [row[-1] for row in rows[2:]] == ["3.0", "4.5", "3.0"]
    assert rows[2][6:8] == ["100.00 <sup>c</sup>"] * 2
    assert rows[3][6].endswith("<sup>c</sup>") and rows[4][6].endswith("<sup>a b</sup>")


def test_without_data_it_says_so(table: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPITUNE_DATA", raising=False)
    with pytest.raises(SystemExit, match="MPITUNE_DATA is not set"):
        table.main([])
