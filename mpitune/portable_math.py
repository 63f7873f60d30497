"""Functions whose results have the same bits on all processors: exp, log and their like, inner products.

Those of libm differ between its versions and between processors with and without fused multiplication and addition;
those of NumPy also with the width of its vectors, inner products of BLAS with its kernels. Here everything is made of
+, -, * and /, which IEEE 754 rounds in one way, in a fixed order; Numba neither fuses nor reorders them. So everything
that results depend on is computed with these functions (`tests/test_architecture.py`).

Errors are those of `tests/test_portable_math.py`: below 1 unit in the last place, if nothing else is said. Methods: the
reduction of the argument and the polynomials of the logarithm are those of FreeBSD's msun; the exponential is summed
as its Taylor series, for a reduced argument with its rounding error.
"""

from __future__ import annotations

import math

import numpy as np

from mpitune.jit import at, inlined, int64, kernel

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2; the first part times a whole number below 2^11 is exact."""
_LG2_HIGH, _LG2_LOW = 3.01029995663611771306e-01, 3.69423907715893078616e-13
"""log10 2, likewise."""
_LN10, _LN10_HIGH, _LN10_LOW = 2.302585092994046, 2.3025850653648376, 2.7629208037533617e-08
"""ln 10, and in two parts, of which the first has 26 bits."""
_LG_E_HIGH, _LG_E_LOW = 4.34294481878168880939e-01, 2.50829467116452752298e-11
"""log10 e; the first part has 32 bits."""
_WHOLE = 1.5 * 2.0**52
"""A number that is added to round to a whole one, which is then in the last bits."""
_WHOLE_BITS = 0x4338000000000000
_ONE_BITS = 0x3FF0000000000000
_ROOT_BITS = 0x3FE6A09E667F3BCD
"""The bits of the square root of 1/2."""
_MANTISSA = 52


@inlined
def _bits(x: float) -> int:
    return int(np.float64(x).view(np.int64))


@inlined
def _number(bits: int) -> float:
    return float(np.int64(bits).view(np.float64))


@inlined
def _exp_minus_1(r: float, low: float) -> float:
    """e^(r + low) - 1 for r of at most 0.35 and a much smaller ``low``."""
    r2 = r * r
    r4 = r2 * r2
    a = (1 / 2 + r * (1 / 6)) + r2 * (1 / 24 + r * (1 / 120))
    b = (1 / 720 + r * (1 / 5040)) + r2 * (1 / 40320 + r * (1 / 362880))
    c = (1 / 3628800 + r * (1 / 39916800)) + r2 * (1 / 479001600 + r * (1 / 6227020800))
    return r + (low + r2 * (a + r4 * (b + r4 * c)))


@inlined
def _scaled(mantissa: float, exponent: int) -> float:
    """``mantissa`` times 2^``exponent``, in two steps: neither factor is too large or too small."""
    half = exponent >> 1
    return mantissa * _number((half << _MANTISSA) + _ONE_BITS) * _number((exponent - half << _MANTISSA) + _ONE_BITS)


@inlined
def exp(x: float) -> float:
    """e^x; results below 2^-1022 are off by 1 unit of 2^-1074 at most."""
    if x != x:
        return x
    # Beyond these, results are 0 and infinite.
    x = 710.0 if x > 710.0 else -746.0 if x < -746.0 else x
    shifted = x * (1 / 0.6931471805599453) + _WHOLE
    n = shifted - _WHOLE
    high, low = x - n * _LN2_HIGH, n * _LN2_LOW
    r = high - low
    return _scaled(1.0 + _exp_minus_1(r, high - r - low), _bits(shifted) - _WHOLE_BITS)


@inlined
def exp10(x: float) -> float:
    """10^x; exact where that is a number, such as 10^0 to 10^22."""
    if x != x:
        return x
    x = 309.0 if x > 309.0 else -324.0 if x < -324.0 else x
    shifted = x * (1 / 0.3010299956639812) + _WHOLE
    n = shifted - _WHOLE
    high, low = x - n * _LG2_HIGH, n * _LG2_LOW
    d = high - low
    error = high - d - low
    # d ln 10 with its rounding error: products of halves are exact.
    d_high = _number(_bits(d) & ~0x7FFFFFF)
    d_low = d - d_high
    r = d * _LN10
    below = (d_high * _LN10_HIGH - r + (d_high * _LN10_LOW + d_low * _LN10_HIGH)) + d_low * _LN10_LOW
    return _scaled(1.0 + _exp_minus_1(r, below + error * _LN10), _bits(shifted) - _WHOLE_BITS)


@inlined
def _log_parts(x: float) -> tuple[float, float, float, float]:
    """k, f, f^2 / 2 and the rest of log(1 + f) - f + f^2 / 2, for x = 2^k (1 + f), f from sqrt(1/2) - 1 to sqrt(2) - 1.

    x: finite and above 0.
    """
    exponent = 0
    if x < 2.0**-1022:
        x *= 2.0**54
        exponent = -54
    bits = _bits(x)
    k = bits - _ROOT_BITS >> _MANTISSA
    f = _number(bits - (k << _MANTISSA)) - 1.0
    half = 0.5 * f * f
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    odd = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    even = w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860510659e-01))
    return float(exponent + k), f, half, s * (half + (odd + z * (6.666666666666735130e-01 + even)))


@inlined
def log(x: float) -> float:
    """The natural logarithm: -inf of 0, NaN of less."""
    if not 0.0 < x < math.inf:
        return _log_of_no_positive(x)
    k, f, half, rest = _log_parts(x)
    return rest + k * _LN2_LOW - half + f + k * _LN2_HIGH


@inlined
def log1p(x: float) -> float:
    """log(1 + x)"""
    if not -1.0 < x < math.inf:
        return _log_of_no_positive(1.0 + x)
    u = 1.0 + x
    # What was lost in the sum; where 1 was, x itself was rounded.
    lost = (x - (u - 1.0) if x < 1.0 else 1.0 - (u - x)) / u
    k, f, half, rest = _log_parts(u)
    return rest + (k * _LN2_LOW + lost) - half + f + k * _LN2_HIGH


@inlined
def log10(x: float) -> float:
    """The logarithm to the base of 10, exact of 10^0 to 10^22; -inf of 0, NaN of less."""
    if not 0.0 < x < math.inf:
        return _log_of_no_positive(x)
    k, f, half, rest = _log_parts(x)
    high = _number(_bits(f - half) & ~0xFFFFFFFF)
    low = f - high - half + rest
    head, tail = high * _LG_E_HIGH, k * _LG2_LOW + (low + high) * _LG_E_LOW + low * _LG_E_HIGH
    total = k * _LG2_HIGH + head
    return tail + (k * _LG2_HIGH - total + head) + total


@inlined
def _log_of_no_positive(x: float) -> float:
    return -math.inf if x == 0.0 else x if x > 0.0 else math.nan


@inlined
def tanh(x: float) -> float:
    """The hyperbolic tangent, with an error below 3 units in the last place."""
    size = abs(x)
    minus = _exp_minus_1(-2.0 * size, 0.0) if size < 0.17 else exp(-2.0 * size) - 1.0
    found = (0.0 - minus) / (2.0 + minus)
    return -found if x < 0.0 else found


@inlined
def whole_power(base: float, n: int) -> float:
    """``base`` to the power of ``n``, at least 0, by squaring: n of 0 and 1 are exact, each bit of n adds an error."""
    result = 1.0
    while n > 0:
        if n & 1:
            result *= base
        base *= base
        n >>= 1
    return result


def exps(x: np.ndarray) -> np.ndarray:
    """`exp` of each number of ``x`` (float64)."""
    return _of_all(0, x)


def exp10s(x: np.ndarray) -> np.ndarray:
    """`exp10` of each number of ``x`` (float64)."""
    return _of_all(1, x)


def logs(x: np.ndarray) -> np.ndarray:
    """`log` of each number of ``x`` (float64)."""
    return _of_all(2, x)


def log10s(x: np.ndarray) -> np.ndarray:
    """`log10` of each number of ``x`` (float64)."""
    return _of_all(3, x)


def tanhs(x: np.ndarray) -> np.ndarray:
    """`tanh` of each number of ``x`` (float64)."""
    return _of_all(4, x)


def _of_all(function: int, x: np.ndarray) -> np.ndarray:
    result = np.array(x, dtype=np.float64)
    _replace(function, result.reshape(-1))
    return result


@kernel
def _replace(function: int, numbers: np.ndarray) -> None:
    """Replace ``numbers`` (float64 [n]) by their values under a function, by its number above."""
    for i in range(len(numbers)):
        x = numbers[i]
        if function == 0:
            numbers[i] = exp(x)
        elif function == 1:
            numbers[i] = exp10(x)
        elif function == 2:
            numbers[i] = log(x)
        elif function == 3:
            numbers[i] = log10(x)
        else:
            numbers[i] = tanh(x)


@kernel
def dot(a: np.ndarray, b: np.ndarray) -> float:
    """The inner product of two vectors (float64 [n]): four sums, of every fourth product each, added up in pairs."""
    n = int64(len(a))
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for i in range(0, n - 3, 4):
        s0 += a[at(i)] * b[at(i)]
        s1 += a[at(i + 1)] * b[at(i + 1)]
        s2 += a[at(i + 2)] * b[at(i + 2)]
        s3 += a[at(i + 3)] * b[at(i + 3)]
    for i in range(n - n % 4, n):
        s0 += a[at(i)] * b[at(i)]
    return (s0 + s1) + (s2 + s3)
