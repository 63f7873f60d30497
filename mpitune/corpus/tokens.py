"""Tokens of a line between blanks and tabs, and decimal numbers, in the bytes that compiled parsers read."""

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


MOST_SCALE = 12
"""Largest exponent of ten that is parsed: numbers of 18 digits are then below 1e30."""
_MOST_EXPONENT = 9999
"""A larger exponent counts as this one: it is too large, or too small, for any mantissa."""

_SHORTENED = 10**17
"""A mantissa below it has room for another digit."""
_POWERS = np.array([float(f"1e{k}") for k in range(23)])
"""The powers of ten that a float64 holds exactly."""
_SPLITTER = float(2**27 + 1)
_ERROR = 2.0**-48
"""Bound on the relative error of the correction in `_rounded`."""

_POINT, _PLUS, _MINUS, _ZERO, _BIG_E, _SMALL_E = map(ord, ".+-0Ee")


@inlined
def parse_decimal(text: np.ndarray, begin: int, end: int) -> tuple[bool, float]:
    """The number ``text[begin:end]`` (uint8), correctly rounded; NaN for one that only `float` can round.

    The first result is False if it is no decimal number, or perhaps not below 1e30.
    """
    i = begin
    negative = i < end and text[i] == _MINUS
    if i < end and (text[i] == _MINUS or text[i] == _PLUS):
        i += 1
    digits, mantissa, scale, past_point, whole = 0, 0, 0, False, True
    while i < end and (_ZERO <= text[i] < _ZERO + 10 or (text[i] == _POINT and not past_point)):
        if text[i] == _POINT:
            past_point = True
        else:
            digits += 1
            if mantissa < _SHORTENED:
                mantissa = 10 * mantissa + int(text[i]) - _ZERO
                scale -= 1 if past_point else 0
            else:
                scale += 0 if past_point else 1
                whole = whole and text[i] == _ZERO
        i += 1
    accepted = digits > 0
    if accepted and i < end and (text[i] == _SMALL_E or text[i] == _BIG_E):
        i += 1
        minus = i < end and text[i] == _MINUS
        if i < end and (text[i] == _MINUS or text[i] == _PLUS):
            i += 1
        exponent, exponent_end = whole_number(text, i, end, _MOST_EXPONENT)
        accepted = exponent_end > i
        i = exponent_end
        scale += -exponent if minus else exponent
    if not accepted or i < end or scale > MOST_SCALE:
        return False, 0.0
    value = np.nan
    if whole and -scale < len(_POWERS):
        value = _rounded(mantissa, scale)
    return True, -value if negative else value


@inlined
def whole_number(text: np.ndarray, begin: int, end: int, most: int) -> tuple[int, int]:
    """The number that the digits from ``begin`` make, at most ``most``, and their end."""
    number, k = 0, begin
    while k < end and _ZERO <= text[k] < _ZERO + 10:
        number = min(10 * number + int(text[k]) - _ZERO, most)
        k += 1
    return number, k


@inlined
def _rounded(mantissa: int, scale: int) -> float:
    """``mantissa`` (below 10^18) times 10^``scale`` (-22 to 22), correctly rounded, or NaN.

    The sum of a rounded result and a correction, which is computed from exact remainders (Dekker, *A floating-point
    technique for extending the available precision*, 1971). It is NaN if an error of the correction might change it.
    """
    high = float(mantissa)
    low = float(mantissa - int(high))
    power = _POWERS[abs(scale)]
    first = high / power if scale < 0 else high * power
    # The exact product of one factor and the power is product + rest.
    factor = first if scale < 0 else high
    product = factor * power
    a, b = _upper_half(factor), _upper_half(power)
    rest = ((a * b - product) + a * (power - b) + (factor - a) * b) + (factor - a) * (power - b)
    correction = (((high - product) - rest) + low) / power if scale < 0 else rest + low * power
    below, above = first + correction * (1.0 - _ERROR), first + correction * (1.0 + _ERROR)
    return below if below == above else np.nan


@inlined
def _upper_half(number: float) -> float:
    """The upper 26 bits of ``number``."""
    shifted = _SPLITTER * number
    return shifted - (shifted - number)
