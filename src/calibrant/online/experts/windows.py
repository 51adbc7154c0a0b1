"""Forecasters that refit a map at intervals: to all rows, to a moving window, or with a half-life."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np

from calibrant.fits.scaling import Scaling, Support, Targets, fit_beta, fit_platt
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.maps import BetaMap, IdentityMap, LogitAffineMap, Map, StepMap
from calibrant.messages import InputError
from calibrant.numerics import Floats
from calibrant.online.base import Forecaster
from calibrant.online.experts.logistic_steps import link
from calibrant.online.experts.newton import USUAL_CLAMP
from calibrant.online.experts.pools import Gridded, Latest
from calibrant.online.kernels import plain
from calibrant.online.limits import LEAST_CLAMP, MAX_ROWS, changed, clamp_of, real, whole, whole_in
from calibrant.online.settings import read_only
from calibrant.online.states import finite
from calibrant.online.stored import register
from calibrant.solvers import fit_logistic
from calibrant.tallies import Tally

Method = Literal["platt", "beta", "bins"]

SMALLEST_WINDOW, LARGEST_WINDOW = 10, 2**24
"""Smallest and largest window, in rows: fewer are too few to fit, more need too much memory."""

SHORTEST_HALF_LIFE, LARGEST_PARAMETER = 1e-3, 1e300
"""Smallest half-life in rows, and largest parameter of a fitted map."""

ALWAYS = 3
"""Number of header numbers of a state: the rows seen, when the next fit is due, and the size of the map."""

UNCONSTRAINED = Scaling(increasing=False)
"""Scaling that allows negative slopes, since outcomes may contradict the model, as in the online forecasters."""

expit = link(plain)


class Platt:
    """Platt scaling of a tally, and its map."""

    size = 2

    def __init__(self, clamp: float) -> None:
        self.clamp = clamp

    def fit(self, tally: Tally) -> list[float]:
        """Slope and intercept."""
        fitted = cast(LogitAffineMap, fit_platt(tally, UNCONSTRAINED)[0])
        return [float(fitted.slope), float(fitted.intercept)]

    def held(self, x: float) -> float:
        """The clipped score that the map is fitted and applied to."""
        return min(max(x, self.clamp), 1.0 - self.clamp)

    def apply(self, numbers: list[float], x: float) -> float:
        """Apply the map to one score, without arrays."""
        x = self.held(x)
        return float(expit(numbers[0] * math.log(x / (1.0 - x)) + numbers[1]))

    def check(self, numbers: list[float]) -> None:
        """Reject parameters whose forecasts would not be finite."""
        if len(numbers) != self.size or not all(abs(x) <= LARGEST_PARAMETER for x in numbers):
            raise changed("fitted parameters")

    def map(self, numbers: list[float]) -> Map:
        """The map of these numbers."""
        return LogitAffineMap(numbers[0], numbers[1], low=self.clamp, high=1.0 - self.clamp)


class Beta(Platt):
    """Beta scaling of a tally, with parameters of any sign, and its map."""

    size = 3

    def fit(self, tally: Tally) -> list[float]:
        """The three parameters.

        With any sign allowed, separated classes are hard to detect, so Platt's soft targets are always used: then the
        likelihood has a maximum.
        """
        support = Support.of(tally)
        if support.lowest == support.highest:
            level = cast(BetaMap, fit_beta(tally)[0])
            return [float(level.a), float(level.b), float(level.c)]
        pieces = Targets.of(support, Scaling(soft_targets=True)).pieces(tally, _beta_features)
        return [float(x) for x in fit_logistic(pieces, 3).coefficients]

    def apply(self, numbers: list[float], x: float) -> float:
        """Apply the map to one score, without arrays."""
        x = self.held(x)
        return float(expit(numbers[0] * math.log(x) - numbers[1] * math.log(1.0 - x) + numbers[2]))

    def map(self, numbers: list[float]) -> Map:
        """The map of these numbers."""
        return BetaMap(numbers[0], numbers[1], numbers[2], low=self.clamp, high=1.0 - self.clamp)


def _beta_features(scores: Floats) -> Floats:
    s = np.clip(scores, LEAST_CLAMP, 1.0 - LEAST_CLAMP)  # a state may contain rows that were not clipped
    return np.stack([np.log(s), -np.log1p(-s), np.ones(len(s))])


class Steps:
    """Event rates in bins of about equal mass, and their map.

    Its numbers are the number of bins, the upper ends of all but the last, and their rates.
    """

    def __init__(self, n_bins: int) -> None:
        self.n_bins = n_bins

    def fit(self, tally: Tally) -> list[float]:
        """Bins and rates."""
        from calibrant.fits.bins import equal_masses, rates  # here: loads scipy, which scaling does without

        starts = equal_masses(np.cumsum(tally.n), self.n_bins)
        values = rates(np.add.reduceat(tally.n, starts), np.add.reduceat(tally.events, starts))
        return [float(len(starts)), *tally.lower_edges[starts[1:]].tolist(), *values.tolist()]

    def held(self, x: float) -> float:
        """The score unchanged: bins need no log-odds."""
        return x

    def check(self, numbers: list[float]) -> None:
        """Reject bins that are not increasing, and invalid rates."""
        n = int(numbers[0])
        edges, values = numbers[1:n], numbers[n:]
        right = 1 <= n <= self.n_bins and n == numbers[0] and len(numbers) == 2 * n
        if not right or not all(a < b for a, b in pairwise(edges)) or not all(0.0 <= v <= 1.0 for v in edges + values):
            raise changed("bins")

    def apply(self, numbers: list[float], x: float) -> float:
        """Apply the map to one score, without arrays."""
        n = int(numbers[0])
        return numbers[n - 1 + bisect_right(numbers, x, 1, n)]

    def map(self, numbers: list[float]) -> Map:
        """The map of these numbers."""
        n = int(numbers[0])
        return StepMap(np.array(numbers[1:n]), np.array(numbers[n:]))


METHODS: dict[str, Callable[[float, int], Platt | Steps]] = {
    "platt": lambda clamp, n_bins: Platt(clamp),
    "beta": lambda clamp, n_bins: Beta(clamp),
    "bins": lambda clamp, n_bins: Steps(n_bins),
}


@register("Refitted")
class Refitted(Forecaster):
    r"""A calibration map that is refitted at regular intervals.

    .. math:: p_t = m_{k(t)}(s_t), \qquad m_k \text{ fitted to the rows up to } t_k, \quad
              t_k = \text{first} + k \cdot \text{every},

    with k(t) the last fit before row t; before the first fit the forecast is the score itself.

    ===============================================  ==================================================
    ``Refitted("platt", first=1000, every=None)``    fitted once, to the first rows (FPS)
    ``Refitted("platt", first=1000, every=500)``     again every 500 rows, to all rows so far (WPS)
    ``Refitted("platt", every=100, window=1000)``    to the last 1,000 rows (moving window)
    ``Refitted("platt", every=100, half_life=500)``  to all rows, with half the weight every 500 rows
    ===============================================  ==================================================

    Parameters
    ----------
    method : {"platt", "beta", "bins"}
        Platt scaling, beta scaling, or event rates in bins of about equal mass (FBS, WBS; FHB, WHB).
    every : int or None
        Number of rows between fits; None fits once.
    first : int, optional
        Number of rows before the first fit; by default ``every``, or 1,000.
    window : int, optional
        Number of most recent rows to fit, at least 10.
    half_life : float, optional
        Number of rows after which a row counts half.
    n_bins : int
        Number of bins, if ``method`` is ``"bins"``.
    clamp : float
        Scores are clipped to this distance from 0 and 1, in fits and in forecasts after the first fit, unless
        ``method`` is ``"bins"``: at 2^-32 the exact zeros of a forest would have log-odds of 22 and dominate the slope.
        For a forest of k trees ``1 / (2 * k)`` is better still. Before the first fit the forecast is the score.

    Notes
    -----
    Edge cases: parameters may have any sign, as in :class:`~calibrant.online.OnlinePlatt`. If the classes are
    separated, and always for beta scaling, Platt's soft targets are used. A bin of n rows with no events, or only
    events, outputs (k + 1) / (n + 2).
    Guarantee: no finite-sample guarantee; against an adversary such forecasts can be wrong on every row.
    Cost: constant memory. Rows of a window, and those of a single fit, are stored; without a window rows are counted on
    a grid of 3,973 cells. A fit takes about a millisecond.
    Reference: Gupta (2023), section 6.2.3, Collection 1, sections 6.A.3 and 6.B.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2_000)
    >>> labels = (rng.random(2_000) < scores**2).astype(int)
    >>> wps = Refitted("platt", every=500).learn_many(scores, labels)
    >>> round(wps.predict_one(0.5), 2)
    0.23
    """

    method: Method = read_only()
    every: int | None = read_only()
    first: int = read_only()
    window: int | None = read_only()
    half_life: float | None = read_only()
    n_bins: int = read_only()
    clamp: float = read_only()

    def __init__(
        self,
        method: Method = "platt",
        *,
        every: int | None = 500,
        first: int | None = None,
        window: int | None = None,
        half_life: float | None = None,
        n_bins: int = 10,
        clamp: float = USUAL_CLAMP,
    ) -> None:
        if not isinstance(method, str) or method not in METHODS:
            raise InputError("method", f"must be 'platt', 'beta' or 'bins', not {method!r}")
        if window is not None and half_life is not None:
            raise InputError(
                "half_life", "must be left out if window is given", "pass one of them, since both forget old rows"
            )
        self.method, self.n_bins, self.clamp = method, whole("n_bins", n_bins, 1, LARGEST_WINDOW), clamp_of(clamp)
        self.half_life = None if half_life is None else real("half_life", half_life, SHORTEST_HALF_LIFE, 1e15)
        self.every = None if every is None else whole("every", every, 1, LARGEST_WINDOW)
        self.window = None if window is None else whole("window", window, SMALLEST_WINDOW, LARGEST_WINDOW)
        self.first = (self.every or 1_000) if first is None else whole("first", first, 1, LARGEST_WINDOW)
        self._family = METHODS[method](self.clamp, self.n_bins)
        self._pool = self._new_pool()
        self._seen, self._due = 0, self.first
        self._fitted: list[float] = []  # empty before the first fit

    def _new_pool(self) -> Latest | Gridded:
        if self.window is not None:
            return Latest(self.window)
        if self.every is None and self.half_life is None:
            return Latest(self.first)
        return Gridded(max(self.first, self.every or 0), self.half_life)

    def _predict_one(self, score: float, features: Any = None) -> float:
        x = self._one(score, features)
        return self._family.apply(self._fitted, x) if self._fitted else x

    def _learn_one(self, score: float, label: float, features: Any = None) -> None:
        x, y = self._one(score, features), self._label(label)
        if self._seen + 1 == self._due:
            self._fit(self._pool.with_row(self._family.held(x), y))
        elif self._due:
            self._pool.add(self._family.held(x), y)
        self._seen += 1

    def _fit(self, pool: Latest | Gridded) -> None:
        """Fit before anything changes: if a fit fails or is interrupted, its row is not learned and can be repeated."""
        with np.errstate(under="ignore"):  # old rows fade to nothing
            fitted = self._family.fit(pool.tally())
        due = 0 if self.every is None else self._due + self.every
        self._fitted, self._pool, self._due = fitted, pool, due
        if not self._due:
            self._pool.clear()

    def _one(self, score: float, features: Any) -> float:
        if features is not None:
            raise InputError("features", "must be left out", "Refitted uses only the score")
        return self._score(score)

    def _freeze(self) -> Map:
        """The current map."""
        return self._family.map(self._fitted) if self._fitted else IdentityMap()

    def certificate(self, n_rows: int | None = None) -> NoCertificate:
        """No certificate: a map fitted to past rows guarantees nothing about later rows that may differ."""
        return NoCertificate(
            NoCertificateCode.NO_THEOREM,
            "a map fitted to past rows has no guarantee for later rows, which may differ: use it as expert of Hedging",
        )

    # ---------------------------------------------------------------------------------------------------- its state

    def _numbers(self) -> list[float]:
        return [float(self._seen), float(self._due), float(len(self._fitted))]

    def _written(self) -> dict[str, Any]:
        """The state; the numbers of the map and its rows follow the others."""
        found = super()._written()
        return {**found, "numbers": [*found["numbers"], *self._fitted, *self._pool.numbers()]}

    def _unpacked(self, numbers: Any) -> list[float] | None:
        """The header numbers."""
        return numbers[:ALWAYS] if isinstance(numbers, list) else None

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        last, due = self._fits(int(numbers[0]))
        if numbers[1] != due or not whole_in(numbers[2], 0, MAX_ROWS) or (numbers[2] > 0) != (last > 0):
            raise changed("time of the next fit")

    def _fits(self, seen: int) -> tuple[int, int]:
        """Rows before the last fit and before the next one, after this many rows; 0 if there is none."""
        if seen < self.first:
            return 0, self.first
        if self.every is None:
            return self.first, 0
        last = seen - (seen - self.first) % self.every
        return last, last + self.every

    def _admit(self, state: Any, fix: str) -> float:
        seen = super()._admit(state, fix)
        fitted, pool = self._parts(state["numbers"])
        if not finite(fitted) or not pool:
            raise changed("map")
        last, due = self._fits(int(seen))
        if last:
            self._family.check(fitted)
        self._pool.check(pool, *((int(seen), last) if due else (0, 0)))
        return seen

    def _take(self, state: dict[str, Any]) -> None:
        super()._take(state)
        self._fitted, pool = self._parts([float(x) for x in state["numbers"]])
        self._pool.resume(pool)

    def _parts(self, numbers: list[float]) -> tuple[list[float], list[float]]:
        """The numbers of the map, and those of its rows."""
        split = ALWAYS + int(numbers[2])
        return numbers[ALWAYS:split], numbers[split:]

    def _resume(self, numbers: list[float]) -> None:
        self._seen, self._due = int(numbers[0]), int(numbers[1])
