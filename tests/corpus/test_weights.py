"""Weights files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from mpitune.corpus.weights import export_weights, read_weights, write_weights
from mpitune.errors import DataError


def test_reads_what_cdec_writes(tmp_path: Path) -> None:
    path = tmp_path / "w"
    path.write_text("# a comment\nWordPenalty -2.844814\nGlue\t1e-3 \n\nRBS:#_a 2\n#RBS:b 3\n")
    assert read_weights(path) == {"WordPenalty": -2.844814, "Glue": 1e-3, "RBS:#_a": 2.0}


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a 1 2",
        "a b",
        "a nan",
        "a inf",
        "a -inf",
        "a 1e999",
        "a -1.1e30",
        "a 1_0",
        "a=1",
        "Glue 2",
        "Glue 1",
        "a\0b 1",
        " #x 4",
        "\t# 4",
        "a\x1b[2J 4",
    ],
)
def test_bad_lines_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "w"
    path.write_text(f"# comment\nGlue 1\n{line}\n")
    with pytest.raises(DataError, match=r"w:3: found .*, expected "):
        read_weights(path)


def test_writes_what_it_reads(tmp_path: Path) -> None:
    weights = {"R:X:a_b:c_#": 0.1 + 0.2, "Glue": -1e-300, "Wörter": 3.0}
    for name in ("w.txt", "new/w.txt.gz"):
        write_weights(tmp_path / name, weights.items())
        assert read_weights(tmp_path / name) == weights
        assert [file.name for file in (tmp_path / name).parent.iterdir() if file.is_file()] == [Path(name).name]
    written = (tmp_path / "w.txt").read_text()
    assert written == "R:X:a_b:c_# 0.30000000000000004\nGlue -1e-300\nWörter 3.0\n"
    assert gzip.decompress((tmp_path / "new" / "w.txt.gz").read_bytes()).decode() == written


def test_gzipped_bytes_depend_on_nothing_but_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_weights(tmp_path / "a.gz", [("Glue", 1.0)])
    monkeypatch.setattr("time.time", lambda: 1e9)
    write_weights(tmp_path / "b.gz", [("Glue", 1.0)])
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w"
    write_weights(path, [("Glue", 1.0)])

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_weights(path, [("Glue", 2.0)])
    assert read_weights(path) == {"Glue": 1.0}
    assert list(tmp_path.iterdir()) == [path]


def test_the_golden_weights(shared: Path) -> None:
    weights = read_weights(shared / "golden" / "nc-sparse.weights")
    assert weights["Glue"] == -0.25
    assert weights["RBS:<r>_musharrafs"] == -0.094


def test_exported_for_other_programs(tmp_path: Path) -> None:
    weights = [("LM", 0.5), ("LM_1", 2.0), ("Tür", 1.0), ("tm_1", -1.0), ("tm_3", 4.0), ("x_01", 3.0)]
    for name in ("w.json", "w.ini.gz", "w"):
        export_weights(tmp_path / name, weights)
    assert json.loads((tmp_path / "w.json").read_text()) == dict(weights)
    section = gzip.decompress((tmp_path / "w.ini.gz").read_bytes()).decode()
    assert section == "[weight]\nLM= 0.5\nLM_1= 2.0\nTür= 1.0\ntm= 0.0 -1.0 0.0 4.0\nx_01= 3.0\n"
    assert read_weights(tmp_path / "w") == dict(weights)
