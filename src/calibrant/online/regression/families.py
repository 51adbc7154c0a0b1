"""Test functions of a forecast, and fixed points of forecasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calibrant.messages import InputError

Function = Callable[[float], float]
Family = Callable[[float, int], list[float]]
"""Function of a forecast and a number of functions that returns their values; the first is the forecast itself."""

LARGEST_SIZE = 64
"""Largest number of functions of one family."""

CLOSE = 2.0**-50
"""Tolerance of the equation of a fixed point."""

NARROW = 2.0**-54
"""Length of the interval at which the search ends, after at most 108 steps."""


def polynomials(p: float, size: int) -> list[float]:
    r"""The forecast, then the Chebyshev polynomials of degree 2, 3, ... on [0, 1].

    .. math:: T_k(p) = \cos(k \arccos(2p - 1)),

    which with p and the constant span the same functions as the powers of p, and stay in [-1, 1].

    Examples
    --------
    >>> polynomials(0.25, 3)
    [0.25, -0.5, 1.0]
    """
    u = 2.0 * p - 1.0
    before, now = 1.0, u
    out = [p]
    for _ in range(size - 1):
        before, now = now, 2.0 * u * now - before
        out.append(now)
    return out


def hats(p: float, size: int) -> list[float]:
    """The forecast, then hats at 1/2, at 1/4 and 3/4, at the odd eighths, and so on.

    Each is 1 at its point, falls linearly to 0 at the neighbors of the same level, and is 0 beyond. With p and the
    constant, ``size`` of them, a power of two, span all functions that are linear between the points k / size. The
    infinite sequence is a basis of the continuous functions (Faber 1910, Schauder 1927).

    Examples
    --------
    >>> hats(0.375, 8)
    [0.375, 0.75, 0.5, 0.0, 0.0, 1.0, 0.0, 0.0]
    """
    out = [p] + [0.0] * (size - 1)
    level, place = 1, 1
    while place < size:
        at = p * level
        cell = min(int(at), level - 1)
        if place + cell < size:
            out[place + cell] = 1.0 - abs(2.0 * (at - cell) - 1.0)
        place += level
        level *= 2
    return out


FAMILIES: dict[str, Family] = {
    "features": lambda p, size: [p],
    "polynomials": polynomials,
    "hats": hats,
}
"""Families by name."""

SIZES = {"features": 1, "polynomials": 4, "hats": 16}
"""Default number of functions."""


def active_functions(n_rows: int, size: int) -> int:
    """Number of functions of a growing family in use after this many rows: the cube root of the rows, plus one.

    With k hats after T rows, the calibration error per row on functions with slope up to s is of order
    sqrt(k log T / T) + s / k. A k of the order of the cube root of T minimizes it, up to the logarithm.

    Examples
    --------
    >>> [active_functions(t, 16) for t in (0, 1, 8, 1_000, 10_000)]
    [1, 2, 3, 11, 16]
    """
    found = 1
    while found < size and found**3 <= n_rows:
        found += 1
    return found


def clip(z: float, clamp: float = 0.0) -> float:
    """The nearest probability that is at least ``clamp`` away from 0 and 1."""
    return clamp if z < clamp else 1.0 - clamp if z > 1.0 - clamp else z


def line_fixed_point(level: float, slope: float, clamp: float = 0.0) -> float:
    r"""Fixed point p = clip(level + slope p) of a line, in closed form.

    For a slope below 1 the line crosses the diagonal from above, at level / (1 - slope); if that is beyond the ends (0
    and 1 unless clamped), the nearer end is the fixed point. For a slope above 1 it crosses from below; if that is
    beyond the ends, the farther end is the fixed point, and if it is inside, both ends are fixed points too and the
    crossing is returned. For a slope of 1 the line is parallel to the diagonal: above it the upper end is the fixed
    point, below it the lower, and on it every point is, so 1/2 is returned.

    Examples
    --------
    >>> line_fixed_point(0.2, 0.5), line_fixed_point(0.2, 1.0), line_fixed_point(0.2, 2.0), line_fixed_point(-0.5, 2.0)
    (0.4, 1.0, 1.0, 0.5)
    """
    gap = 1.0 - slope
    if gap == 0.0:
        return 0.5 if level == 0.0 else clip(float(level > 0.0), clamp)
    crossing = level / gap
    if gap > 0.0:
        return clip(crossing, clamp)
    return crossing if clamp <= crossing <= 1.0 - clamp else clip(float(crossing < clamp), clamp)


def fixed_point(value: Function, clamp: float = 0.0) -> float:
    """Fixed point p = clip(value(p)) of any continuous function, by a bracketing search.

    clip(value(p)) - p is at least 0 at the lower end and at most 0 at the upper end. The search alternates bisection
    and secant steps and keeps the signs at the ends, so 108 steps suffice for any function, and a few for a smooth one.

    Examples
    --------
    >>> round(fixed_point(lambda p: 1.0 - p * p), 6)
    0.618034
    """
    low, high = clamp, 1.0 - clamp
    above, below = clip(value(low), clamp) - low, clip(value(high), clamp) - high
    chord = False
    while high - low > NARROW:
        p = 0.5 * (low + high)
        if chord and above > below:
            q = low + (high - low) * above / (above - below)
            p = q if low < q < high else p
        chord = not chord
        g = clip(value(p), clamp) - p
        if -CLOSE <= g <= CLOSE:
            return p
        if not low < p < high:
            break
        if g > 0.0:
            low, above = p, g
        else:
            high, below = p, g
    return low if above <= -below else high


def kinked_fixed_point(value: Function, pieces: int, clamp: float = 0.0) -> float:
    """Fixed point p = clip(value(p)) of a function that is linear between the points k / pieces.

    Bisection over the points finds the piece, which has a closed form.

    Examples
    --------
    >>> kinked_fixed_point(lambda p: 0.1 + abs(p - 0.5), 2)
    0.3
    """
    low, high = 0, pieces
    above, below = value(clamp) - clamp, value(1.0 - clamp) - (1.0 - clamp)
    while high - low > 1:
        middle = (low + high) // 2
        point = clip(middle / pieces, clamp)
        gap = value(point) - point
        if gap > 0.0:
            low, above = middle, gap
        else:
            high, below = middle, gap
    left, right = clip(low / pieces, clamp), clip(high / pieces, clamp)
    if above <= 0.0:  # the lower end, which clipping makes a fixed point
        return left
    if below >= 0.0:  # the upper end, or a fixed point
        return right
    return clip(left + (right - left) * above / (above - below), clamp)


def own_values(found: Sequence[float], size: int) -> list[float]:
    """Validated values of a user's test functions."""
    values = [float(v) for v in found]
    if len(values) != size or not all(-1.0 <= v <= 1.0 for v in values):
        raise InputError("test_functions", f"must return size={size} numbers in [-1, 1] for every row")
    return values
