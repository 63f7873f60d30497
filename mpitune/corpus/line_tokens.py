"""Tokens of a line between blanks and tabs, in the bytes that compiled parsers read."""

from __future__ import annotations

import numpy as np

from mpitune.jit import at, inlined

_BLANK, _TAB, _BAR = map(ord, " \t|")


@inlined
def next_token(text: np.ndarray, begin: int, stop: int) -> tuple[int, int]:
    """Begin and end of the first token of ``text[begin:stop]`` (uint8); both are ``stop`` if there is none."""
    while begin < stop and (text[at(begin)] == _BLANK or text[at(begin)] == _TAB):
        begin += 1
    end = begin
    while end < stop and text[at(end)] != _BLANK and text[at(end)] != _TAB:
        end += 1
    return begin, end


@inlined
def is_separator(text: np.ndarray, begin: int, end: int) -> bool:
    """Test if the token ``text[begin:end]`` is ``|||``, which separates fields."""
    three = end - begin == 3
    return bool(three and text[begin] == _BAR and text[begin + 1] == _BAR and text[begin + 2] == _BAR)
