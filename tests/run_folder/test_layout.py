"""Folders of runs that differ in their seed."""

from __future__ import annotations

from pathlib import Path

from mpitune.run_folder.layout import run_folders, seed_folder


def test_runs_are_in_the_order_of_their_seeds(tmp_path: Path) -> None:
    for seed in (10, 9, 1):
        seed_folder(tmp_path, seed).mkdir()
    for other in ("store", "seed-", "seed-2.old", "my-seed-3"):
        (tmp_path / other).mkdir()
    assert run_folders(tmp_path) == [tmp_path / "seed-1", tmp_path / "seed-9", tmp_path / "seed-10"]


def test_other_folders_stand_for_themselves(tmp_path: Path) -> None:
    """Errors about them are those of a run folder."""
    assert run_folders(tmp_path) == [tmp_path]
    assert run_folders(tmp_path / "no") == [tmp_path / "no"]
    seed_folder(tmp_path, 1).mkdir()
    (tmp_path / "config.toml").write_text("")
    assert run_folders(tmp_path) == [tmp_path], "a run folder itself"
