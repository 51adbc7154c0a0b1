"""Numerical tools: log-odds with defined ends, the exact grid, lookup tables and fingerprints.

Needs numpy alone. Passes over rows work in chunks that fit into the cache, so that temporary arrays cost little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Column = ArrayLike | None
"""Labels, weights or groups as a function takes them, one for each row; None where there are none."""

CHUNK = 1 << 15
"""Rows per pass: 256 KiB of float64, which stays in the second-level cache."""

CLAMP = 2.0**-32
"""Default distance from 0 and 1 at which probabilities are clipped before log-odds are taken."""

LARGEST_DOUBLE = float(np.finfo(np.float64).max)

LEAST_LOW, LARGEST_HIGH = 1e-300, 1.0 - 2.0**-53
"""Smallest and largest probability with log-odds: below the first, doubles lose digits; above the second comes 1."""

LOG_ODDS_LIMIT = 36.0
"""Log-odds are clipped to this absolute value before :func:`expit`: above about 36.7 the result rounds to 1."""

FLOAT32_BELOW_ONE = np.float32(1.0 - 2.0**-24)
FLOAT32_ABOVE_ZERO = np.nextafter(np.float32(0.0), np.float32(1.0))


def chunks(length: int, size: int = CHUNK) -> Iterator[slice]:
    """Consecutive slices that cover ``range(length)``."""
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


class Ends(NamedTuple):
    r"""Where scores are clipped before log-odds are taken: a score of 0 is read as ``low``, a score of 1 as ``high``.

    :meth:`of` is the rule for a set of scores. With :math:`s_{\min}, s_{\max}` the smallest and the largest score
    strictly between 0 and 1 and :math:`c = 2^{-32}`,

    .. math::
        \text{low} = \begin{cases} s_{\min} / 2 & \text{if some score is exactly } 0 \\
                                  \min(c, s_{\min}) & \text{else,} \end{cases} \qquad
        1 - \text{high} = \begin{cases} (1 - s_{\max}) / 2 & \text{if some score is exactly } 1 \\
                                       \min(c, 1 - s_{\max}) & \text{else.} \end{cases}

    No score strictly between 0 and 1 is moved, down to 1e-300 and up to the largest double below 1. A fixed small
    distance instead would give a rounded score of 1 the leverage of log-odds of 22.

    Examples
    --------
    >>> Ends.of(np.array([0.5, 0.8, 0.95, 1.0]))
    Ends(low=2.3283064365386963e-10, high=0.975)
    >>> Ends.at(0.005)
    Ends(low=0.005, high=0.995)
    """

    low: float = CLAMP
    high: float = 1.0 - CLAMP

    @classmethod
    def of(cls, scores: NDArray[Any]) -> Self:
        """The ends for these scores; the default distances when none lies strictly between 0 and 1."""
        if not len(scores):
            return cls()
        usual = scores.min() > 0.0 and scores.max() < 1.0
        inside = scores if usual else scores[(scores > 0.0) & (scores < 1.0)]
        if not len(inside):
            return cls()
        least, most = float(inside.min()), float(inside.max())
        low = least / 2.0 if (scores == 0.0).any() else min(CLAMP, least)
        high = 1.0 - (1.0 - most) / 2.0 if (scores == 1.0).any() else max(1.0 - CLAMP, most)
        return cls(max(low, LEAST_LOW), min(high, LARGEST_HIGH))

    @classmethod
    def at(cls, clamp: float) -> Self:
        """Both ends at the same distance from 0 and 1."""
        return cls(clamp, min(1.0 - clamp, LARGEST_HIGH))


USUAL_ENDS = Ends()


def logit(p: NDArray[Any], ends: Ends = USUAL_ENDS) -> Floats:
    r"""Log-odds :math:`\log(p / (1 - p))` of probabilities clipped to ``ends``.

    Examples
    --------
    >>> logit(np.array([0.0, 0.5, 1.0])).round(4)
    array([-22.1807,   0.    ,  22.1807])
    >>> logit(np.array([0.0, 0.5, 1.0]), Ends(0.25, 0.8)).round(4)
    array([-1.0986,  0.    ,  1.3863])
    """
    inside = np.minimum(np.maximum(np.asarray(p, dtype=np.float64), ends.low), ends.high)  # faster than clip for few
    return np.asarray(np.log(inside / (1.0 - inside)))


def expit(z: NDArray[Any]) -> Floats:
    r"""Inverse log-odds :math:`1 / (1 + e^{-z})`, strictly inside (0, 1) for every finite or infinite ``z``.

    Examples
    --------
    >>> expit(np.array([-1000.0, 0.0, 1000.0])).tolist() == [expit(np.array(-36.0)), 0.5, expit(np.array(36.0))]
    True
    """
    held = np.clip(np.asarray(z, dtype=np.float64), -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
    return np.asarray(1.0 / (1.0 + np.exp(-held)))


OUTPUT_ENDS = Ends(float(expit(np.array(-LOG_ODDS_LIMIT))), float(expit(np.array(LOG_ODDS_LIMIT))))
"""The most extreme probabilities that :func:`expit` returns; losses clip outputs to them."""


def multiply_odds(p: NDArray[Any], factor: float) -> Floats:
    r"""Probabilities whose odds are ``factor`` times as large: :math:`f p / (f p + 1 - p)`; 0 and 1 stay.

    Examples
    --------
    >>> multiply_odds(np.array([0.0, 0.5, 1.0]), 0.25).tolist()
    [0.0, 0.2, 1.0]
    """
    p = np.asarray(p, dtype=np.float64)
    return p if factor == 1.0 else np.asarray(factor * p / (factor * p + (1.0 - p)))


def to_float32(p: Floats) -> NDArray[np.float32]:
    """Round probabilities to float32 without letting one inside (0, 1) become 0 or 1."""
    out = p.astype(np.float32)
    out[(out == 1.0) & (p < 1.0)] = FLOAT32_BELOW_ONE
    out[(out == 0.0) & (p > 0.0)] = FLOAT32_ABOVE_ZERO
    return out


def covariance_root(covariance: Floats) -> Floats:
    """A matrix R with R R' = the covariance; eigenvalues that rounding made negative are taken as 0.

    Examples
    --------
    >>> root = covariance_root(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> np.round(root @ root.T, 12).tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def log_loss(p: Floats, n: NDArray[Any], events: NDArray[Any]) -> float:
    r"""Total :math:`-\sum_c [e_c \log p_c + (n_c - e_c) \log(1 - p_c)]` over cells; 0 log 0 counts as 0.

    It is infinite, and not clipped, when a cell holds an event at p = 0 or a non-event at p = 1.
    """
    others = n - events
    with np.errstate(divide="ignore", invalid="ignore"):
        hit = np.where(events > 0, events * np.log(p), 0.0)
        miss = np.where(others > 0, others * np.log1p(-p), 0.0)
    return float(-(hit.sum() + miss.sum()))


def float_keys(x: Floats) -> Ints:
    """Integers in the same order as the floats (NaN excluded); -0.0 and 0.0 get the same key."""
    bits = (x + 0.0).view(np.int64)
    return np.asarray(bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF)))


def _from_keys(keys: Ints) -> Floats:
    """Inverse of :func:`float_keys`."""
    return np.asarray(keys ^ ((keys >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))).view(np.float64)


def first_double(passed: Callable[[Floats], NDArray[np.bool_]], low: Floats, high: Floats) -> Floats:
    """The smallest double above ``low``, up to ``high``, at which ``passed`` is true, for each element.

    ``passed`` takes one double for each element and must stay true once it is true; at ``high`` it is assumed to be.
    Cost: at most 64 calls.

    Examples
    --------
    >>> first_double(lambda x: x * x >= 2.0, np.array([1.0]), np.array([2.0])).tolist()
    [1.4142135623730951]
    """
    below, found = float_keys(low), float_keys(high)
    while (apart := found > below + 1).any():
        middle = (below >> 1) + (found >> 1) + (below & found & 1)
        reached = passed(_from_keys(middle))
        found, below = np.where(apart & reached, middle, found), np.where(apart & ~reached, middle, below)
    return _from_keys(found)


# ------------------------------------------------------------------------------------------------------------- The grid

OCTAVES = 31
"""Octaves (powers of two) of q = min(s, 1 - s) that are divided into cells: 2^-32 <= q < 2^-1."""

POSITION_BITS = 30
"""Bits of the position inside an octave that offsets store, on every grid."""

TINY = 2.0**-32
"""All positive q below this share one cell."""

FIRST_OCTAVE = (1023 - 32) << POSITION_BITS
"""Leading bits of the double 2^-32: where the bit patterns of the octaves begin."""


@dataclass(frozen=True)
class Grid:
    r"""A grid of score cells on [0, 1] with equal relative width near 0 and 1, exact on every engine.

    With :math:`q = s` for s < 0.5 and :math:`q = 1 - s` otherwise, octave :math:`o` holds
    :math:`2^{-o} \le q < 2^{-o+1}`, :math:`o = 2, \dots, 32`, and

    .. math:: t = \lfloor (q\,2^o - 1)\,2^{30} \rfloor

    is the position in it; a cell is the top ``bits`` bits of t. Multiplying by a power of two, subtracting 1 from
    [1, 2), taking 1 - s for s >= 0.5 and the floor are exact in double precision, so every engine finds the same cell.
    Codes are int32, increase with s and are symmetric about 0.5: ``code(1 - s) == -code(s)``. Exactly 0, (0, 2^-32),
    0.5, (1 - 2^-32, 1) and exactly 1 have separate cells. Cells below 0.5 are closed on the left, others on the right.

    Parameters
    ----------
    bits
        Cells per octave are ``2**bits``: 10 gives 63,488 cells and five special ones, 4 gives 992 and five.
    low, high
        Range of the scores; other ranges than (0, 1) are first mapped to it by ``(s - low) * (1 / (high - low))``.

    Examples
    --------
    >>> Grid().codes(np.array([0.0, 0.25, 0.5, 0.75, 1.0])).tolist()
    [-31746, -1024, 0, 1024, 31746]
    """

    bits: int = 10
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        """Refuse unsupported numbers of bits and empty or infinite ranges."""
        if not 0 <= self.bits <= 16:
            raise ValueError(f"bits must be between 0 and 16, got {self.bits}")
        if not (self.low < self.high and float(self.high) - float(self.low) < np.inf):
            raise ValueError(f"low must be below high, and both finite, got [{self.low}, {self.high}]")

    @property
    def top(self) -> int:
        """Code of the score ``high``; ``-top`` is the code of ``low``."""
        return (OCTAVES << self.bits) + 2

    @property
    def unit(self) -> bool:
        """Whether the range is [0, 1], so that scores need no rescaling."""
        return self.low == 0.0 and self.high == 1.0

    @property
    def scale(self) -> float:
        """Factor for a score's distance from ``low``; a division may be rounded differently by engines."""
        return 1.0 / (self.high - self.low)

    def to_unit(self, scores: Floats) -> Floats:
        """Scores on [0, 1]."""
        return scores if self.unit else np.where(scores >= self.high, 1.0, (scores - self.low) * self.scale)

    def codes(self, scores: Floats) -> NDArray[np.int32]:
        """Cell code of each score."""
        return self.cells(scores)[0].astype(np.int32)

    def cells(self, scores: Floats) -> tuple[Ints, Ints]:
        """Cell code and in-cell offset of each score, both int64."""
        s = self.to_unit(scores) + 0.0
        q = 1.0 - s
        np.minimum(q, s, out=q)  # s itself below 0.5, where 1 - s is larger
        offset = q.view(np.int64) >> (52 - POSITION_BITS)
        drop = POSITION_BITS - self.bits
        code = (OCTAVES << self.bits) + (FIRST_OCTAVE >> drop) - (offset >> drop)
        offset &= (1 << drop) - 1
        if len(q) and q.min() < TINY:
            small = np.flatnonzero(q < TINY)
            code[small] = np.where(q[small] > 0.0, self.top - 1, self.top)
            offset[small] = np.floor(q[small] * 2.0**62).astype(np.int64)
        sign = s.view(np.int64)  # 2 from the exponent of 0.5 on, else 0, in the two top bits after an octave's shift
        sign += 1 << 53
        sign >>= 61
        sign &= 2
        sign -= 1
        code *= sign
        return code, offset

    def lower_q(self, magnitude: Ints) -> tuple[Floats, Floats]:
        """Smallest q of the cells ``magnitude`` away from 0.5, and their width in q (0 for the cells 0.5 and 0)."""
        cell = (OCTAVES << self.bits) - magnitude
        octave = np.clip(32 - (cell >> self.bits), 1, 32)
        scale = np.ldexp(1.0, -octave)
        edge = scale * (1.0 + (cell & ((1 << self.bits) - 1)) * 2.0**-self.bits)
        width = scale * 2.0**-self.bits
        edge, width = np.where(cell < 0, 0.0, edge), np.where(cell == -1, TINY, width)
        return edge, np.where((magnitude == 0) | (cell == -2), 0.0, width)

    def scores(self, codes: NDArray[Any], mean_offset: Floats) -> Floats:
        """Mean score of each cell, given the mean of its in-cell offsets; good to 2^-30 of an octave."""
        codes = codes.astype(np.int64)
        edge, width = self.lower_q(np.abs(codes))
        tiny = np.abs(codes) == self.top - 1
        drop = np.where(tiny, POSITION_BITS, POSITION_BITS - self.bits)
        # Offsets of the cell below 2^-32 count units of 2^-62: a mean below half a unit would have no log-odds.
        q = edge + width * np.ldexp(np.where(tiny, np.maximum(mean_offset, 0.5), mean_offset), -drop)
        unit = np.where(codes < 0, q, 1.0 - q)
        scores = unit if self.unit else self.low + unit * (self.high - self.low)
        next_cell = self.lower_edges(np.minimum(codes + 1, self.top))
        highest = np.where(codes == self.top, next_cell, np.nextafter(next_cell, -np.inf))
        return np.asarray(np.clip(scores, self.lower_edges(codes), highest))  # rounding must not leave the cell

    def lower_edges(self, codes: NDArray[Any]) -> Floats:
        """Smallest double in each cell: the knot of a step map that separates this cell from the one below."""
        codes = codes.astype(np.int64)
        edge, width = self.lower_q(np.abs(codes))
        unit = np.where(codes < 0, edge, np.nextafter(1.0 - (edge + width), 1.0))
        unit = np.where(codes == -self.top + 1, np.nextafter(0.0, 1.0), unit)
        unit = np.where((codes == 0) | (codes == self.top), np.where(codes == 0, 0.5, 1.0), unit)
        return unit if self.unit else self._smallest(codes)

    def _smallest(self, codes: Ints) -> Floats:
        """Smallest score in the range whose code is at least ``codes``, by bisection on the order of doubles."""
        low, high = np.full(codes.shape, np.nextafter(self.low, -np.inf)), np.full(codes.shape, self.high)
        return first_double(lambda x: np.asarray(self.cells(x)[0] >= codes), low, high)

    def coarsen(
        self, codes: NDArray[Any], offset: NDArray[Any], n: NDArray[Any], bits: int
    ) -> tuple[Ints, NDArray[Any]]:
        """Codes and summed offsets on the grid with fewer ``bits``; exact, because cells are nested.

        Parameters
        ----------
        codes, offset, n
            Code, sum of offsets and number of rows of each cell of this grid.
        bits
            Bits of the coarser grid, at most those of this one.
        """
        drop = self.bits - bits
        codes = codes.astype(np.int64)
        magnitude = np.abs(codes)
        special = (magnitude == 0) | (magnitude >= self.top - 1)
        cell = (OCTAVES << self.bits) - magnitude
        inside = (cell & ((1 << drop) - 1)) << (POSITION_BITS - self.bits)
        coarse = np.where(special, magnitude, (OCTAVES << bits) - (cell >> drop))
        coarse = np.where(magnitude >= self.top - 1, magnitude - self.top + ((OCTAVES << bits) + 2), coarse)
        return np.sign(codes) * coarse, offset + np.where(special, 0, inside) * n


# --------------------------------------------------------------------------------------------------------- Guide tables


class Guide:
    """Exact ``np.searchsorted(knots, x, side="right")``, by a lookup table and few comparisons.

    A table indexed by the leading bits of the float (sign, exponent and some mantissa) gives the number of knots below
    that bucket. One comparison follows, or a few where knots share a bucket. The buckets are fine near 0, so scores of
    rare events are located as fast as others.
    """

    __slots__ = ("_base", "_crowd", "_first", "_knots", "_shift", "_signed")

    LIMIT, PER_KNOT = 1 << 16, 64

    def __init__(self, knots: Floats) -> None:
        keys = float_keys(knots)
        self._knots = np.append(knots, np.nan)  # no score, not even infinity, lies above the sentinel
        self._signed = bool(len(knots)) and bool(knots[0] < 0.0)
        self._shift = 0
        low, high = (int(keys[0]), int(keys[-1])) if len(knots) else (0, 0)
        limit = min(self.LIMIT, self.PER_KNOT * len(knots))  # a small table stays in the nearest cache
        while (high >> self._shift) - (low >> self._shift) > limit:
            self._shift += 1
        self._base = (low >> self._shift) - 1
        size = (high >> self._shift) - self._base + 2
        starts = (np.arange(size, dtype=np.int64) + self._base) << self._shift
        first = np.searchsorted(keys, starts, side="left")
        self._crowd = int(np.diff(first).max(initial=0))
        self._first = first.astype(np.int32)

    def locate(self, x: Floats) -> NDArray[np.int32]:
        """Number of knots at or below each ``x``; undefined for NaN, which the caller must mask."""
        bits = (x + 0.0).view(np.int64)
        if self._signed:
            bits = bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
        key = bits >> self._shift
        if self._shift < 2:  # elsewhere no difference can overflow
            np.clip(key, self._base, self._base + len(self._first) - 1, out=key)
        key -= self._base
        index = self._first.take(key, mode="clip")  # scores beyond the table have the entries at its ends
        above = x >= self._knots.take(index, mode="clip")
        index += above
        if self._crowd > 1:
            rest = np.flatnonzero(above)
            rest = rest[x[rest] >= self._knots[index[rest]]]
            index[rest] = np.searchsorted(self._knots[:-1], x[rest], side="right")
        return np.asarray(index)


# --------------------------------------------------------------------------------------------------------- Fingerprints

_EVENT_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def fingerprint(keys: Ints, n: NDArray[Any], events: NDArray[Any]) -> int:
    r"""A 64-bit hash of cells that is additive over tallies and does not depend on the order of rows.

    .. math:: F = \sum_c \operatorname{mix}(k_c)\,(n_c + \gamma\, e_c) \bmod 2^{64}

    where ``mix`` is a multiplication and a shift. It detects accidental differences; it does not protect against
    someone who wants two data sets to collide. Real-valued weights enter by their bit patterns, so it then depends on
    how weights were summed.
    """
    total = np.uint64(0)
    with np.errstate(over="ignore"):
        for part in chunks(len(keys)):
            x = (keys[part].view(np.uint64) + _EVENT_FACTOR) * _MIX
            x ^= x >> np.uint64(29)
            x *= _as_bits(n[part]) + _EVENT_FACTOR * _as_bits(events[part])
            total += x.sum(dtype=np.uint64)
    return int(total)


def row_fingerprint(matrix: NDArray[Any], labels: NDArray[Any], mass: NDArray[Any]) -> int:
    """A 64-bit hash of labeled rows of a matrix that is additive and does not depend on their order.

    Every number of a row enters by its bit pattern and its column. For its limits see :func:`fingerprint`.
    """
    with np.errstate(over="ignore"):
        return int((row_hashes(matrix, labels) * _as_bits(mass)).sum(dtype=np.uint64))


def row_hashes(matrix: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.uint64]:
    """A 64-bit hash of each labeled row; equal rows have equal hashes."""
    hashes = np.empty(len(matrix), dtype=np.uint64)
    factors = (2 * np.arange(1, matrix.shape[1] + 1).astype(np.uint64) + np.uint64(1)) * _EVENT_FACTOR
    with np.errstate(over="ignore"):
        for part in chunks(len(matrix), max(8 * CHUNK // matrix.shape[1], 1)):
            bits = np.ascontiguousarray(matrix[part])
            words = bits.view(np.uint32 if bits.dtype.itemsize == 4 else np.uint64).astype(np.uint64)
            x = np.einsum("nk,k->n", words ^ (words >> np.uint64(13)), factors)
            x = (x + labels[part].astype(np.uint64) * _MIX + _EVENT_FACTOR) * _MIX
            hashes[part] = x ^ (x >> np.uint64(29))
    return hashes


def _as_bits(count: NDArray[Any]) -> NDArray[np.uint64]:
    """Integers as they are, floats by bit pattern."""
    return np.ascontiguousarray(count.astype(np.int64) if count.dtype.kind in "iub" else count).view(np.uint64)
