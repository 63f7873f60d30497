"""Sparse feature names in readable form; `mpitune.grammar.templates` makes the names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mpitune.grammar.choices import PREFIXES

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_GAP = re.compile(r"\[(.+),(\d)\]")
_TARGET_GAP = re.compile(r"N(\d)")
_BIGRAM_GAP = re.compile(r"X\d")
_SHAPE = re.compile(r"S([01]{5})_T([01]{5})")


def readable(template: str, name: str) -> str | None:
    """The feature ``name`` of ``template`` as words, gaps as X₁; None if the name is ambiguous.

    A ``_`` inside a word looks like one between words: both become blanks.
    """
    reader = _READERS.get(template)
    return reader(name.removeprefix(PREFIXES[template])) if reader else None


def rule_in_words(source: Sequence[str], target: Sequence[str]) -> str:
    """A rule in the same form; its gaps are given as ``[X,1]``."""

    def words(side: Sequence[str]) -> str:
        return " ".join(
            f"{match[1]}{match[2]}".translate(_SUBSCRIPTS) if (match := _GAP.fullmatch(word)) else word for word in side
        )

    return f"{words(source)} → {words(target)}"


def _rule(text: str) -> str | None:
    """``X:NX_eine:a_N1``: left-hand side, source side (gaps as labels), target side (gaps as numbers)."""
    lhs, _, sides = text.partition(":")
    # Words may contain colons.
    cuts = [cut for cut, character in enumerate(sides) if character == ":" and 0 < cut < len(sides) - 1]
    found = [pair for cut in cuts if (pair := _sides(lhs, sides[:cut].split("_"), sides[cut + 1 :].split("_")))]
    return found[0] if len(found) == 1 else None


def _sides(lhs: str, source: list[str], target: list[str]) -> str | None:
    """Both sides as words; None if their gaps do not match."""
    labels = {f"N{label}": label for label in ("X", "S", lhs)}
    gaps = [word for word in source if word in labels]
    numbers = [match[1] for word in target if (match := _TARGET_GAP.fullmatch(word))]
    if sorted(numbers) != [str(number) for number in range(1, len(gaps) + 1)] or not all([*source, *target]):
        return None
    bearers = [f"{labels[gap]}{number}".translate(_SUBSCRIPTS) for number, gap in enumerate(gaps, start=1)]
    following = iter(bearers)
    left = [next(following) if word in labels else word for word in source]
    right = [bearers[int(match[1]) - 1] if (match := _TARGET_GAP.fullmatch(word)) else word for word in target]
    return f"{' '.join(left)} → {' '.join(right)}"


def _bigram(text: str) -> str | None:
    words = [word.translate(_SUBSCRIPTS) if _BIGRAM_GAP.fullmatch(word) else word for word in text.split("_")]
    return " ".join(words) if all(words) else None


def _shape(text: str) -> str | None:
    match = _SHAPE.fullmatch(text)
    if match is None:
        return None
    sides = ([part for part, there in zip("wXwXw", side, strict=True) if there == "1"] for side in match.groups())
    return " → ".join(" ".join(side) for side in sides)


def _pair(text: str) -> str | None:
    """``haus_house``: a source word and a target word."""
    source, _, target = text.partition("_")
    return f"{source} → {target}" if source and target and "_" not in target else None


def _distance(text: str) -> str | None:
    """``last_-1``: a target word and the distance of its source."""
    word, _, distance = text.rpartition("_")
    return f"{word}: distance {distance}" if word else None


def _fertility(text: str) -> str | None:
    """``letzter_2``: a source word and the number of its target words."""
    word, _, number = text.rpartition("_")
    return f"{word}: {number} words" if word else None


_READERS: dict[str, Callable[[str], str | None]] = {
    "id": _rule,
    "source-bigram": _bigram,
    "target-bigram": _bigram,
    "shape": _shape,
    "word-pair": _pair,
    "word-pair-all": _pair,
    "insertion": _pair,
    "target-words": _bigram,
    "reordering": _distance,
    "fertility": _fertility,
    "lexicon-pair": _pair,
}
