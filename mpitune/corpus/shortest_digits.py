"""The shortest decimal numbers that are read as the same float32, written by kernels as NumPy writes them.

Adams, "Ryu: Fast Float-to-String Conversion" (PLDI 2018): the interval of the numbers that round to a float32 is scaled
by a power of ten, in whole numbers; digits are removed from its ends while they differ. Of the shortest numbers inside,
the closest is taken.
"""

from __future__ import annotations

import numpy as np

from mpitune.jit import at, inlined, int64, kernel, uint64

MOST_DIGITS = 20
"""More bytes than a number takes."""

_MANTISSA_BITS, _BIAS = 23, 127
_INVERSE_BITS, _POWER_BITS = 59, 61
_INVERSES = np.array([(1 << ((5**q).bit_length() - 1 + _INVERSE_BITS)) // 5**q + 1 for q in range(32)], dtype=np.uint64)
"""2^k / 5^q, rounded up, in `_INVERSE_BITS` bits and one more."""
_POWERS = np.array(
    [5**i >> shift if (shift := (5**i).bit_length() - _POWER_BITS) > 0 else 5**i << -shift for i in range(48)],
    dtype=np.uint64,
)
"""5^i, its upper `_POWER_BITS` bits."""
_TENS = np.array([10**k for k in range(1, 10)], dtype=np.uint64)
_MINUS, _POINT, _ZERO, _SMALL_E, _PLUS = map(ord, "-.0e+")


@inlined
def _bits_of_power(q: int) -> int:
    """The number of bits of 5^q."""
    return ((q * 1217359) >> 19) + 1


@inlined
def _scaled(m: int, factor: int, shift: int) -> int:
    """uint64: ``m`` (32 bits) times ``factor`` (uint64) over 2^``shift``, rounded down."""
    low, high = uint64(m) * (factor & uint64(0xFFFFFFFF)), uint64(m) * (factor >> uint64(32))
    return (high + (low >> uint64(32))) >> uint64(shift - 32)


@inlined
def _is_multiple(number: int, of: int, power: int) -> bool:
    """True if ``number`` is a multiple of ``of`` to the ``power``."""
    while power > 0 and number % of == 0:
        number //= of
        power -= 1
    return power == 0


@kernel
def _shortest(bits: int) -> tuple[int, int]:
    """The digits of a finite float32 above 0, by its bits, as one whole number, and the power of ten that it has."""
    mantissa, exponent = bits & ((1 << _MANTISSA_BITS) - 1), bits >> _MANTISSA_BITS
    # Whether the interval to the number below is half as long: only at powers of 2.
    same_below = int(mantissa != 0 or exponent <= 1)
    if exponent > 0:
        mantissa |= 1 << _MANTISSA_BITS
    e2 = max(exponent, 1) - _BIAS - _MANTISSA_BITS - 2
    even = mantissa & 1 == 0
    # In quarters of the last place: the number, and the ends of its interval, which belong to it if it is even.
    middle, top, bottom = 4 * mantissa, 4 * mantissa + 2, 4 * mantissa - 1 - same_below
    ten, removed = uint64(10), uint64(0)
    middle_exact, bottom_exact = False, False
    if e2 >= 0:
        q = e2 * 78913 >> 18
        e10 = q
        shift = q - e2 + _INVERSE_BITS + _bits_of_power(q) - 1
        factor = _INVERSES[at(q)]
        digits, high, low = _scaled(middle, factor, shift), _scaled(top, factor, shift), _scaled(bottom, factor, shift)
        if q != 0 and (high - uint64(1)) // ten <= low // ten:
            shift = q - 1 - e2 + _INVERSE_BITS + _bits_of_power(q - 1) - 1
            removed = _scaled(middle, _INVERSES[at(q - 1)], shift) % ten
        if q <= 9:
            if middle % 5 == 0:
                middle_exact = _is_multiple(middle, 5, q)
            elif even:
                bottom_exact = _is_multiple(bottom, 5, q)
            else:
                high -= uint64(_is_multiple(top, 5, q))
    else:
        q = -e2 * 732923 >> 20
        e10 = q + e2
        i = -e2 - q
        shift = q - _bits_of_power(i) + _POWER_BITS
        factor = _POWERS[at(i)]
        digits, high, low = _scaled(middle, factor, shift), _scaled(top, factor, shift), _scaled(bottom, factor, shift)
        if q != 0 and (high - uint64(1)) // ten <= low // ten:
            shift = q - 1 - _bits_of_power(i + 1) + _POWER_BITS
            removed = _scaled(middle, _POWERS[at(i + 1)], shift) % ten
        if q <= 1:
            middle_exact = True
            if even:
                bottom_exact = same_below == 1
            else:
                high -= uint64(1)
        elif q < 31:
            middle_exact = middle & ((1 << (q - 1)) - 1) == 0
    while high // ten > low // ten or (bottom_exact and low % ten == 0 and low > 0):
        bottom_exact = bottom_exact and low % ten == 0
        middle_exact = middle_exact and removed == 0
        removed = digits % ten
        digits, high, low = digits // ten, high // ten, low // ten
        e10 += 1
    half_to_even = middle_exact and removed == 5 and digits % uint64(2) == 0
    up = (digits == low and not bottom_exact) or (removed >= 5 and not half_to_even)
    return digits + uint64(up), e10


@kernel
def write_float32(value: np.float32, text: np.ndarray, begin: int) -> int:
    """Write a finite ``value`` to ``text`` (uint8) from ``begin`` on, without a fraction of 0; returns its end.

    It takes `MOST_DIGITS` bytes at most. Both zeros are written as 0.
    """
    bits = int64(np.float32(value).view(np.uint32))
    if bits & 0x7FFFFFFF == 0:
        text[at(begin)] = _ZERO
        return begin + 1
    if bits >> 31:
        text[at(begin)] = _MINUS
        begin += 1
    digits, e10 = _shortest(bits & 0x7FFFFFFF)
    length = 1
    for power in _TENS:
        length += int(digits >= power)
    if 1e-4 <= abs(float(value)) < 1e6:
        return _write_digits(text, begin, digits, length, length + e10)
    end = _write_digits(text, begin, digits, length, 1)
    exponent = length + e10 - 1
    text[at(end)] = _SMALL_E
    text[at(end + 1)] = _MINUS if exponent < 0 else _PLUS
    # Two digits, as they are from -45 to 38.
    text[at(end + 2)] = _ZERO + abs(exponent) // 10
    text[at(end + 3)] = _ZERO + abs(exponent) % 10
    return end + 4


@inlined
def _write_digits(text: np.ndarray, begin: int, digits: int, length: int, point: int) -> int:
    """Write the ``length`` digits of a number, with a point after the first ``point``; returns the end.

    Noughts fill what is missing on either side.
    """
    fraction = max(0, length - point)
    end = begin + max(1, point) + (fraction + 1 if fraction > 0 else 0)
    k = end - 1
    for _ in range(fraction):
        digits, k = _write_last(text, k, digits)
    if fraction > 0:
        text[at(k)] = _POINT
        k -= 1
    for _ in range(point - length):
        text[at(k)] = _ZERO
        k -= 1
    for _ in range(max(1, min(length, point))):
        digits, k = _write_last(text, k, digits)
    return end


@inlined
def _write_last(text: np.ndarray, k: int, digits: int) -> tuple[int, int]:
    """Write the last digit at ``k``, and return the others, and the place before."""
    rest = digits // uint64(10)
    text[at(k)] = uint64(_ZERO) + digits - uint64(10) * rest
    return rest, k - 1
