"""Modules that register a part by themselves: no table and no docstring need name them."""

from __future__ import annotations

import re
from pathlib import Path


def registers(module: Path) -> bool:
    """True for one that registers its part by a decorator."""
    return re.search(r"^@([A-Z_]+\.register|template)\(", module.read_text(encoding="utf-8"), re.MULTILINE) is not None
