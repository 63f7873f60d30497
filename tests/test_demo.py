"""The demo: its corpus is what is said of it, and a run over a part of it learns."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from support.commands import Cli

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
def test_a_run_over_it_learns(cli: Cli, tmp_path: Path) -> None:
    """From few sentences: weights of all templates, which translate others."""
    assert cli("init", tmp_path, "--template", "demo").code == 0
    assert cli("train", tmp_path / "job.toml", "--quiet", "--set", "data.limit=100").code == 0
    learned = {line.partition(":")[0] for line in lines(tmp_path / "runs" / "job" / "weights.txt.gz")}
    assert {"R", "RBS", "WP", "TB"} <= learned
    for side in ("ja", "en"):
        (tmp_path / side).write_text("\n".join(lines(DEMO / f"dev.{side}")[:50]), encoding="utf-8")
    assert cli("decode", tmp_path / "job.toml", "--input", tmp_path / "ja", "--output", tmp_path / "out").code == 0
    done = cli("evaluate", "--refs", tmp_path / "en", "--hyps", tmp_path / "out", "--json")
    assert json.loads(done.output)["scores"][0]["bleu"] > 5
