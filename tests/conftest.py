"""What several tests need."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and golden files beside the repository; its tests are skipped where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "golden").is_dir():
        pytest.skip(f"needs the shared data and golden files in {folder}")
    return folder
