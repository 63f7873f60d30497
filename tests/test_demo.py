"""The demo: its corpus is what is said of it, and a run over a part of it learns."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from support.commands import Cli
from support.mpi import ROOT

from mpitune.cli.init import TEMPLATES

DEMO = TEMPLATES / "demo"


def lines(path: Path) -> list[str]:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()


def test_no_sentence_is_in_two_parts() -> None:
    """Different sentences may have the same translation."""
    names = ("train.ja.gz", "train.en.gz", "dev.ja", "dev.en", "test.ja", "test.en")
    parts = {name: lines(DEMO / name) for name in names}
    assert [len(part) for part in parts.values()] == [10_000, 10_000, 500, 500, 500, 500]
    train, dev, test = (set(parts[name]) for name in ("train.ja.gz", "dev.ja", "test.ja"))
    assert not train & dev and not train & test and not dev & test


def test_the_alignment_fits_the_bitext() -> None:
    linked = words = 0
    for source, target, links in zip(*(lines(DEMO / f"train.{end}.gz") for end in ("ja", "en", "align")), strict=True):
        points = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert all(i < len(source.split()) and j < len(target.split()) for i, j in points)
        linked += len({j for _, j in points})
        words += len(target.split())
    assert linked / words > 0.8


def test_every_file_is_named_with_its_source() -> None:
    told = (DEMO / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:train|dev|test)[\w.]+)`", told)
    assert sorted([*named, "README.md"]) == sorted(path.name for path in DEMO.iterdir())
    assert all(name in told for name in ("small_parallel_enja", "Tanaka", "Tatoeba", "CC BY 2.0"))


@pytest.mark.slow
def test_the_tour_learns_from_a_part_of_it(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells of the notebook, on fewer sentences: weights of all templates, which translate others."""
    assert cli("init", tmp_path, "--template", "demo").code == 0
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")  # which needs no screen
    for side in ("ja", "en"):
        (tmp_path / "data" / f"dev.{side}").write_text("\n".join(lines(DEMO / f"dev.{side}")[:25]), encoding="utf-8")
    cells = json.loads((ROOT / "jobs" / "tour.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            source = "".join(cell["source"]).replace('"data.limit": 300, ', '"data.limit": 50, ')
            exec(source.replace('"learner.epochs": 3', '"learner.epochs": 1'), names)
    assert {"R", "RBS", "WP", "TB"} <= {name.partition(":")[0] for name in names["run"].weights_of(1)}
    assert names["run"].metrics[-1]["devtest_bleu"] > 2
    assert len(names["lists"]) == 25 and set(names["weights"]) == {"model", "words"}
