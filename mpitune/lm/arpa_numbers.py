"""The numbers of an ARPA file, in the text that its compiled parser reads."""

from __future__ import annotations

import numpy as np

from mpitune.jit import at, int64, kernel, uint64

_POWERS = np.array([float(f"1e{k}") for k in range(23)])
"""The powers of ten that a float64 holds exactly."""
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_PLUS, _MINUS, _POINT, _ZERO, _BIG_E, _SMALL_E = map(ord, "+-.0Ee")


@kernel
def parse_number(text: np.ndarray, begin: int, end: int) -> float:
    """Parse ``text[begin:end]`` as a decimal number; nan if it is not one or too large for a float32."""
    i = begin
    negative = text[i] == _MINUS
    if text[i] == _MINUS or text[i] == _PLUS:
        i += 1
    digits, mantissa, dropped, point = 0, 0, 0, -1
    while i < end:
        # Of what is less than 0, unsigned numbers make large ones.
        digit = uint64(text[at(i)]) - uint64(_ZERO)
        if digit <= 9:
            digits += 1
            # 18 digits fit an int64; further ones do not change a float32.
            if mantissa < 10**17:
                mantissa = mantissa * 10 + int64(digit)
            else:
                dropped += 1
        elif text[at(i)] == _POINT and point < 0:
            point = digits
        else:
            break
        i += 1
    if digits == 0:
        return np.nan
    scale = dropped - (digits - point if point >= 0 else 0)
    if i < end and (text[i] == _SMALL_E or text[i] == _BIG_E):
        i += 1
        negative_exponent = i < end and text[i] == _MINUS
        if i < end and (text[i] == _MINUS or text[i] == _PLUS):
            i += 1
        if i == end:
            return np.nan
        exponent = 0
        while i < end and 0 <= int(text[i]) - _ZERO <= 9:
            exponent = min(exponent * 10 + int(text[i]) - _ZERO, 9999)
            i += 1
        scale += -exponent if negative_exponent else exponent
    if i < end:
        return np.nan
    # A single step, the usual case, rounds once.
    value = float(mantissa)
    while scale < 0 and value > 0.0:
        step = min(-scale, len(_POWERS) - 1)
        value /= _POWERS[at(step)]
        scale += step
    while scale > 0 and 0.0 < value <= _FLOAT32_MAX:
        step = min(scale, len(_POWERS) - 1)
        value *= _POWERS[at(step)]
        scale -= step
    if value > _FLOAT32_MAX:
        return np.nan
    return -value if negative else value
