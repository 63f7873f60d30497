"""Numbers and durations in messages."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """Number and noun: ``1 field``, ``2 fields``."""
    return f"{number} {what}{'s' * (number != 1)}"


def clock(seconds: float) -> str:
    """Format a duration: ``minutes:seconds``, or ``hours:minutes:seconds`` from an hour on."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
