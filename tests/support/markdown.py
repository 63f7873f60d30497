"""Tables of Markdown."""

from __future__ import annotations


def cells(text: str) -> list[list[str]]:
    """The rows of all tables in ``text``, those below headings included."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
