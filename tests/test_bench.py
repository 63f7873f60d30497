"""The scripts of tests/bench run, on tiny input: what they print has its form, whatever the figures."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.markdown import cells
from support.mpi import launcher
from support.tiny import Tiny, write_data

pytestmark = pytest.mark.slow

BENCH = Path(__file__).parent / "bench"


def run(script: str, *arguments: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """What the script prints."""
    done = subprocess.run(
        [sys.executable, BENCH / script, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(printed: str) -> dict[str, list[str]]:
    """The rows of all Markdown tables by their first cell."""
    return {row[0]: row[1:] for row in cells(printed)}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny task in the place of news commentary, with lists of cdec for its first sentences."""
    tiny = tmp_path_factory.mktemp("bench")
    folder, golden = tiny / "data" / "nc", tiny / "golden"
    folder.mkdir(parents=True)
    golden.mkdir()
    write_data(tiny)
    for name, file in (("nc.de", "train.de"), ("nc.en", "train.en"), ("grammar", "grammar"), ("lm.3.arpa", "lm.arpa")):
        with gzip.open(folder / f"{name}.gz", "wt", encoding="utf-8") as packed:
            text = (tiny / file).read_text(encoding="utf-8")
            # Sentences from 51 on are wanted, too, and none without words.
            packed.write(3 * text.replace("\n\n", "\n") if name in ("nc.de", "nc.en") else text)
    (golden / "nc.weights").write_text("LanguageModel 1\nLanguageModel_OOV -1\nWordPenalty -0.5\nPassThrough -3\n")
    with gzip.open(golden / "nc.kbest.gz", "wt", encoding="utf-8") as packed:
        packed.writelines(f"{i} ||| the man ||| Glue=1 ||| {score}\n" for i in range(3) for score in (-99, -100.5))
    return folder.parent


PEER = """#!{python}
import sys
asked = dict(zip(sys.argv[1::2], sys.argv[2::2]))
config = open(asked["-c"]).read()
if "iterations=1" in config:
    sys.stderr.write("  avg # updates: 7.00\\n  avg list sz: 100.00\\n")
else:
    for number, line in enumerate(open(asked["-i"])):
        if "incremental_search" in config:
            print("the house ||| -12.5")
        elif "-k" in asked:
            print(f"{{number}} ||| the house ||| Glue=1 ||| -50")
        else:
            print("the house")
"""
"""A program that prints as cdec and dtrain do, and has no idea of translating."""


def beside(data: Path, peers: Path) -> str:
    """What peers.py prints where nothing is on the PATH but ``peers``."""
    return run("peers.py", "--small", "--passes", "1", environment={"MPITUNE_DATA": str(data), "PATH": str(peers)})


def test_ours_beside_peers(data: Path, tmp_path: Path) -> None:
    for name in ("cdec", "dtrain"):
        (tmp_path / name).write_text(PEER.format(python=sys.executable), encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    printed = beside(data, tmp_path)
    table = rows(printed)
    for name in ("nc, dense: 1-best", "nc, id, source-bigram, shape: an epoch"):
        reference, ours, ratio, wanted = table[name]
        assert reference.endswith(" ms") and float(ours.removesuffix(" ms")) > 0
        assert ratio.startswith("1/") and wanted.startswith("1/")
    assert "dtrain: 7 updates a sentence, from lists of 100" in printed
    # The LM gives the peer's translation of each sentence the same ends.
    assert any(name.startswith("nc, dense: 1-best, incremental search (-") for name in table)
    sentences, ours, reference, better, equal, worse, ranks = table["nc, dense"]
    assert (sentences, reference, better, equal, worse, ranks) == ("3", "-99.000", "3", "0", "0", "100.00 %")
    assert float(ours) > -99
    assert table["nc, sentences 51 to 53, 5-gram LM"][2] == "-50.000"
    assert "Multi30k: skipped: there is no" in printed


def test_ours_alone(data: Path, tmp_path: Path) -> None:
    printed = beside(data, tmp_path)
    assert "skipped: no cdec on the PATH" in printed and "skipped: no dtrain on the PATH" in printed
    assert rows(printed)["nc, dense: 1-best"][0] == ""


def test_growth(tmp_path: Path) -> None:
    printed = run("growth.py", "--small", "--passes", "1", "--write", tmp_path)
    assert len(rows(printed)["words"]) == 10 and printed.count("| power |") == 10
    written = (tmp_path / "growth.md").read_text(encoding="utf-8")
    assert printed.strip() in written and "![growth](growth.svg)" in written
    assert (tmp_path / "growth.svg").read_text(encoding="utf-8").count("CPU ms") == 10


@pytest.mark.mpi
def test_start() -> None:
    table = rows(run("start.py", "--small", environment={"MPITUNE_DATA": ""}))
    assert table["all kernels loaded"][2] == "0"
    assert float(table["a tiny job, decode, 1 rank"][0].removesuffix(" s")) > 0


def test_reports() -> None:
    epochs, ranks = rows(run("reports.py", "--small"))["3"], "2"
    assert epochs[:2] == [ranks, "60"] and float(epochs[-1].removesuffix(" MB")) > 0.05


@pytest.mark.mpi
def test_sharing() -> None:
    launcher()
    printed = run("sharing.py", "--small")
    assert [line.split("|")[1:3] for line in printed.splitlines()[2:-1]] == [
        [" 1 ", " 0 "],
        [" 2 ", " 0 "],
        [" 2 ", " 1 "],
    ]


@pytest.mark.mpi
def test_lists() -> None:
    launcher()
    found = [row[:2] for row in cells(run("lists.py", "--small"))[2:]]
    methods = [f"an epoch: {name}" for name in ("perceptron, itersel", "MIRA", "PRO")]
    assert found == [["prepare", "1"], *([method, ranks] for method in methods for ranks in "12")]


def test_lists_of_another_number_are_not_used_again(tmp_path: Path) -> None:
    (tmp_path / "job.toml").touch()
    (tmp_path / "references").write_text("w1\n" * 7, encoding="utf-8")
    command = [sys.executable, BENCH / "lists.py", "--lists", "8", "--folder", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and f"found 7 lists in {tmp_path}, expected 8" in done.stderr


@pytest.mark.mpi
def test_exchange() -> None:
    launcher()
    printed = run("exchange.py", "--scale", "0.0002", "--case", "select", "mix", "--ranks", "2", "--memory", "0.5")
    found = cells(printed)[2:]
    assert [row[:3] for row in found] == [
        [f"{case}, 141 of 141 shards", "2", exchange]
        for case in ("select", "mix")
        for exchange in ("allgather", "alltoall")
    ]
    assert all(float(row[4]) > 0 for row in found)
    assert "The results of a case are the same to the bit." in printed


@pytest.mark.mpi
def test_scaling(data: Path) -> None:
    launcher()
    printed = run("scaling.py", "--small", environment={"MPITUNE_DATA": str(data)})
    assert "skipped: multi30k: no data" in printed
    found = cells(printed)
    assert [row[1] for row in found if row[0] == "nc"] == ["1", "1 and 1, side by side", "2"]
    assert all(float(row[2]) > 0 for row in found if row[0] == "nc")
    # The dynamic schedule leaves ranks idle for less time than the static one.
    idle = [[float(cell.removesuffix(" %")) for cell in row[2:]] for row in found if "skewed" in row[0]]
    assert len(idle) == 9 and all(dynamic < static for dynamic, static in idle)
    assert len([row for row in found if row[0].startswith("Europarl")]) == 4


@pytest.mark.mpi
def test_hosts(data: Path) -> None:
    launcher()
    printed = run("hosts.py", "--small", "--ranks", "4", environment={"MPITUNE_DATA": str(data)})
    if "skipped: needs" in printed or "skipped: hosts" in printed:
        pytest.skip(printed.rsplit("skipped: ", 1)[-1])
    found = cells(printed)[2:]
    wanted = [["nc, allgather", "2"], ["nc, alltoall", "2"], ["sentences that sleep", "4"]]
    assert [row[:3] for row in found] == [[*epoch, "2 ms"] for epoch in wanted]
    assert all(float(row[3]) > 0 and row[5].endswith(" %)") for row in found)


def test_extraction(shared: Path) -> None:
    table = rows(run("extraction.py", "--small", environment={"MPITUNE_DATA": str(shared / "data")}))
    assert all(float(table[name][0]) > 0 for name in ("into the store", "as gzipped text"))
    assert float(table["Europarl, 200 pairs, 20 sentences"][1]) > 0
    assert float(table["synthetic, 1,000 pairs"][0].removesuffix(" s")) > 0


@pytest.mark.mpi
def test_data_without_the_corpora_of_a_script(tmp_path: Path) -> None:
    launcher()
    environment = {"MPITUNE_DATA": str(tmp_path)}
    printed = run("extraction.py", "--small", environment=environment)
    assert "has no multi30k" in printed and "has no europarl" in printed
    printed = run("scaling.py", "--small", environment=environment)
    assert all(f"skipped: {what}: " in printed for what in ("nc", "multi30k", "the model of a cluster"))


def test_grammars(tiny: Tiny) -> None:
    read = rows(run("grammars.py", tiny.folder / "grammar", tiny.folder / "own.0"))
    assert float(read["2"][1]) > 0


def test_stages(tiny: Tiny, tmp_path: Path) -> None:
    table = rows(run("stages.py", tiny.job_file(tmp_path / "run")))
    assert {"parse", "match", "cube", "learner", "an epoch"} <= set(table)


@pytest.mark.parametrize("script", ["stages.py", "peers.py", "grammars.py"])
def test_without_data(script: str) -> None:
    assert run(script, environment={"MPITUNE_DATA": ""}).startswith("skipped: ")
