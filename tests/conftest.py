"""What several tests need."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import Tiny


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and golden files beside the repository; its tests are skipped where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "golden").is_dir():
        pytest.skip(f"needs the shared data and golden files in {folder}")
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A complete task over which a run takes a second."""
    return Tiny(tmp_path_factory.mktemp("tiny"))
