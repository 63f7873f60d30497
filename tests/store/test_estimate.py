"""Estimates of what building a store takes, against what it took, and the refusal where the disk is too small."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import NamedTuple

import pytest
from support.commands import Cli

from mpitune import files
from mpitune.errors import MachineError
from mpitune.lm.arpa import read_arpa
from mpitune.lm.kneser_ney import estimate
from mpitune.store.build import build_store
from mpitune.store.estimate import Estimate, announce, of_extraction, of_grammars, of_lm
from mpitune.store.inputs import StoreInputs, Texts


class Disk(NamedTuple):
    free: int


def rules(first: int, last: int) -> str:
    """Rules like those of an extracted grammar."""
    names = [
        "EgivenFCoherent",
        "SampleCountF",
        "CountEF",
        "MaxLexFgivenE",
        "MaxLexEgivenF",
        "IsSingletonF",
        "IsSingletonFE",
    ]
    lines = []
    for i in range(first, last):
        scores = " ".join(f"{name}={1.5 + i / 7:.11g}" for name in names)
        lines.append(f"[X] ||| [X,1] w{i % 90} v{i} ||| [X,1] u{i} t{i % 50} ||| {scores} ||| 1-1 2-2\n")
    return "".join(lines)


@pytest.mark.parametrize("members", [0, 1, 10])
def test_grammars_take_about_what_is_estimated(tmp_path: Path, members: int) -> None:
    """Plain, and gzipped in one member or several."""
    for n in range(3):
        content = rules(5000 * n, 5000 * (n + 1)).encode()
        part = -(-len(content) // max(members, 1))
        parts = [gzip.compress(content[k * part : (k + 1) * part]) for k in range(members)]
        (tmp_path / f"g{n}").write_bytes(b"".join(parts) if members else content)
    (tmp_path / "in").write_text("".join(f'<seg grammar="g{n}">w1</seg>\n' for n in range(3)))
    build_store(StoreInputs(train=Texts(tmp_path / "in")), tmp_path / "store")
    expected = of_grammars([tmp_path / f"g{n}" for n in range(3)])
    assert 0.5 < expected.disk / (tmp_path / "store" / "data.npz").stat().st_size < 2
    assert expected.seconds == pytest.approx(15_000 * 4e-6, rel=0.2)


def test_a_language_model_takes_about_what_is_estimated(tmp_path: Path) -> None:
    draw = random.Random(1)
    (tmp_path / "text").write_text(
        "".join(f"{' '.join(f'w{draw.randrange(300)}' for _ in range(9))}\n" for _ in range(900))
    )
    estimate(tmp_path / "text", 3, tmp_path / "lm")
    size = sum(array.nbytes for array in read_arpa(tmp_path / "lm").values())
    assert 0.8 < of_lm(tmp_path / "lm").disk / size < 1.25


def test_nothing_is_estimated_for_damaged_or_empty_grammars(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"\x1f\x8bno gzip data")
    (tmp_path / "empty").touch()
    assert of_grammars([tmp_path / "damaged"]) == of_grammars([tmp_path / "empty"]) == of_grammars([]) == (0, 0)


def test_long_work_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: Disk(8_000_000_000))
    announce(tmp_path, [Estimate(4, 10_000_000)])
    assert logged.messages == []
    announce(tmp_path, [Estimate(4, 10_000_000), Estimate(61, 1_500_000_000)])
    assert logged.messages == [f"{tmp_path}: building takes about 1:05 and 1.5 GB of disk (8.0 GB are free)"]


def test_a_disk_that_is_too_small_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    (tmp_path / "in").write_text('<seg grammar="g">w1</seg> ||| u1\n')
    (tmp_path / "g").write_text(rules(0, 20_000))
    (tmp_path / "lm").write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<s>\n-1\t</s>\n-1\tw\n\n\\end\\\n")
    job = tmp_path / "job.toml"
    job.write_text('[data]\nbitext = "in"\n[grammar]\nper_sentence = true\n[[lm]]\nfile = "lm"\n')
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: Disk(2_000_000))
    command = ["prepare", job, "--set", f"run.store={tmp_path / 'store'}"]
    done = cli(*command)
    assert done.code == MachineError.exit_code
    expected = "about 3 MB for the files to be built: free some, or name another folder in run.store"
    told = done.errors.splitlines()[-1]
    assert told == f"mpitune: {tmp_path / 'store'}: found 2 MB of free disk, expected {expected}"
    assert not (tmp_path / "store").exists()
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: Disk(4_000_000))
    assert cli(*command).code == 0
    # What is up to date takes nothing.
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: Disk(0))
    assert cli(*command).code == 0


@pytest.mark.parametrize(
    ("free", "needed", "told"),
    [
        (5_000_000, 5_400_000, "found 5.0 MB of free disk, expected about 5.4 MB for"),
        (1_234_000_000, 1_230_000_000, ""),
        (1_230_000_000, 1_234_000_000, "found 1.230 GB of free disk, expected about 1.234 GB for"),
        (999_999_999, 1_000_000_000, "found 1000 MB of free disk, expected about 1.0 GB for"),
        (0, 1, "found 0.000000 MB of free disk, expected about 0.000001 MB for"),
    ],
)
def test_the_sizes_that_are_told_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, needed: int, told: str
) -> None:
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: Disk(free))
    if not told:
        announce(tmp_path, [Estimate(0, needed)])
        return
    with pytest.raises(MachineError, match=told):
        announce(tmp_path, [Estimate(0, needed)])


def test_a_header_that_announces_too_much_is_the_file_s_error(tmp_path: Path, cli: Cli) -> None:
    """However small the disk is."""
    (tmp_path / "text").write_text("haus\n")
    (tmp_path / "g").write_text("[X] ||| haus ||| house ||| A=1\n")
    for announced, code in ((3, 0), (999_999_999_999_999, 3)):
        header = f"\\data\\\nngram 1={announced}\n\n"
        (tmp_path / "lm").write_text(header + "\\1-grams:\n-1\t<s>\n-1\t</s>\n-1\tw\n\n\\end\\\n")
        (tmp_path / "job.toml").write_text(
            '[data]\nsource = "text"\nreferences = ["text"]\n[grammar]\nfile = "g"\n[[lm]]\nfile = "lm"\n'
        )
        done = cli("prepare", tmp_path / "job.toml")
        assert done.code == code
    found = f"mpitune: {tmp_path}/lm:2: found 'ngram 1=999999999999999', expected no more n-grams than 1 kB of text can"
    assert done.errors.splitlines()[-1].startswith(found)


@pytest.mark.parametrize(
    ("cores", "words", "seconds", "size"),
    [
        (14_318_058, 1_362_672, 40.0, 580e6),
        (14_318_058, 2_729_467, 65.5, 895e6),
        (2_916_472, 5_456_551, 50.4, 568e6),
        (14_318_058, 5_456_551, 105.5, 1375e6),
        (56_299_413, 5_456_551, 188.0, 2640e6),
    ],
)
def test_extraction_takes_about_what_the_benchmark_says(cores: int, words: int, seconds: float, size: float) -> None:
    """Europarl, 50,000 to 200,000 pairs, 1,000 to 20,000 sentences: tests/bench/README.md, "Extraction"."""
    of_all = of_extraction(cores, words, 1, 1)
    # The parts, the arrays merged from them, and the file.
    assert of_all == pytest.approx((seconds, 3 * size), rel=0.1)
    assert of_extraction(cores, words, 0.5, 2) == pytest.approx((of_all.seconds / 4, of_all.disk * 2.5 / 3))
    assert of_extraction(0, words, 0, 1) == (0, 0)


@pytest.fixture
def bitext(tmp_path: Path) -> Path:
    """A bitext to extract from for its own sentences, and its job."""
    (tmp_path / "f").write_text("a b c d\n" * 3)
    (tmp_path / "e").write_text("x y z w\n" * 3)
    (tmp_path / "a").write_text("0-0 1-1 2-2 3-3\n" * 3)
    (tmp_path / "job.toml").write_text(
        '[data]\nsource = "f"\nreferences = ["e"]\n[grammar]\nsource = "f"\ntarget = "e"\nalignment = "a"\n'
        "[[lm]]\norder = 1\n"
    )
    return tmp_path


def test_extraction_is_announced(bitext: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    told = "takes about 0:00 and 0 MB of disk"
    assert told not in cli("prepare", bitext / "job.toml").errors
    monkeypatch.setattr("mpitune.store.estimate.SHORT", 0.0)
    done = cli("prepare", bitext / "job.toml", "--set", f"run.store={bitext / 'store'}")
    assert done.errors.count(f"{bitext / 'store' / 'parts'}: building {told}") == 1
    command = ["extract", "--source", bitext / "f", "--target", bitext / "e", "--alignment", bitext / "a"]
    done = cli(*command, "--input", bitext / "f", "--output", bitext / "out")
    assert done.code == 0 and done.errors.count(told) == 1


def test_extraction_is_refused_where_the_disk_is_too_small(
    bitext: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    disk = Disk(of_extraction(3 * 15, 12, 1, 1).disk - 1)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: disk)
    done = cli("prepare", bitext / "job.toml")
    assert done.code == MachineError.exit_code
    expected = (
        f"found {disk.free / 1e6:.6f} MB of free disk, expected about {(disk.free + 1) / 1e6:.6f} MB for the files"
    )
    assert expected in done.errors.splitlines()[-1]
    store = bitext / "runs/job/store"
    assert not list((store / "parts").glob("part-*.npz")) and not (store / "data.npz").exists()
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: Disk(disk.free + 1_000_000))
    assert cli("prepare", bitext / "job.toml").code == 0
