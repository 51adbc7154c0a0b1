"""Functions of a forecast on which calibration is asked for, and the forecasts that solve an equation in themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calibrant.messages import InputError

Function = Callable[[float], float]
Family = Callable[[float, int], list[float]]
"""From a forecast and a number of functions to their values; the first is the forecast itself."""

LARGEST_SIZE = 64
"""Functions of one family: the dimension may grow with the rows, but not beyond this."""

CLOSE = 2.0**-50
"""A fixed point is found when the equation holds up to this."""

NARROW = 2.0**-54
"""The search ends when its interval is as short as this, which it is after at most 108 steps."""


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

    Each is 1 at its point, falls linearly to 0 at the neighbours of the same level, and is 0 beyond. With p and the
    constant, ``size`` of them, a power of two, span all functions that are linear between the points k / size; without
    end they are a basis of the continuous functions (Faber 1910, Schauder 1927).

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
"""Families by the name that users and states give."""

SIZES = {"features": 1, "polynomials": 4, "hats": 16}
"""How many functions are taken by default."""


def active_functions(n_rows: int, size: int) -> int:
    """How many functions of a growing family are in use after this many rows: the cube root of these, and one.

    The calibration error per row on functions with slope up to s is of order sqrt(k log T / T) + s / k with k hats
    after T rows, which a k of the order of the cube root of T makes least, up to the logarithm.

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
    """The nearest probability that is this far from 0 and 1."""
    return clamp if z < clamp else 1.0 - clamp if z > 1.0 - clamp else z


def line_fixed_point(level: float, slope: float, clamp: float = 0.0) -> float:
    r"""A forecast p with p = clip(level + slope p), in closed form.

    Below a slope of 1 the line crosses the diagonal from above, at level / (1 - slope): a crossing beyond the ends, 0
    and 1 unless clamped, leaves the nearer end as fixed point. Above 1 it crosses from below, and a crossing beyond
    leaves the farther end; with a crossing inside both ends are fixed points as well, and the crossing is taken. At 1
    the line runs along the diagonal: above it the upper end is the fixed point, below it the lower, and on it every
    point is, so that one half is taken.

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
    """A forecast p with p = clip(value(p)), for any continuous function, by a search that cannot leave the ends.

    clip(value(p)) - p is at least 0 at the lower end and at most 0 at the upper. Steps halve the interval and follow
    the chord in turns, always keeping the two signs, so that 108 steps suffice whatever the function is, and a few
    where it is smooth.

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
    """A forecast p with p = clip(value(p)), for a function that is linear between the points k / pieces.

    Points are halved like the interval of :func:`fixed_point`, and the piece that is left has a closed form.

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
    if above <= 0.0:  # at the lower end alone, which the cut makes a fixed point
        return left
    if below >= 0.0:  # at the upper end, or a point that is fixed
        return right
    return clip(left + (right - left) * above / (above - below), clamp)


def own_values(found: Sequence[float], size: int) -> list[float]:
    """What functions of the user gave, checked."""
    values = [float(v) for v in found]
    if len(values) != size or not all(-1.0 <= v <= 1.0 for v in values):
        raise InputError("test_functions", f"must return {size} numbers in [-1, 1] for every row, as size says")
    return values
