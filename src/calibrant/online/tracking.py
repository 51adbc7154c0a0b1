"""Calibeating by tracking: the average outcome of the expert's bin, so far."""

from __future__ import annotations

import struct
from typing import Any, ClassVar

import numpy as np

from calibrant.arrays import InputError
from calibrant.guarantees.certificates import Refusal
from calibrant.guarantees.online_promise import OnlineCertificate
from calibrant.maps import BetaMap, IdentityMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap
from calibrant.online.base import Forecaster, KernelForecaster
from calibrant.online.game_bounds import first_of, lost_by_binning, mean_regret, promise
from calibrant.online.kernels import SEEN, Factory, Jit, Step
from calibrant.online.widths import Epsilon, bin_steps, bins_of, check_cells

BINS, FIRST = 1, 2
"""Places of the number of bins, and of the first of m counts, after which come m sums of outcomes."""


def tracking_steps(jit: Jit, expert_predict: Step, expert_learn: Step) -> tuple[Step, Step]:
    """002 eq. 6.11."""
    bin_of = bin_steps(jit)

    @jit
    def mean(s: Any, b: int) -> float:
        m = s[BINS]
        n = s[FIRST + b]
        if n > 0.0:
            return s[FIRST + int(m) + b] / n  # type: ignore[no-any-return]
        return (b + 0.5) / m  # type: ignore[no-any-return]

    @jit
    def predict(state: Any, x: float) -> float:
        s = state[0]
        return mean(s, bin_of(expert_predict(state[1], x), s[BINS]))  # type: ignore[no-any-return]

    @jit
    def learn(state: Any, x: float, y: float) -> float:
        s = state[0]
        b = bin_of(expert_learn(state[1], x, y), s[BINS])
        p: float = mean(s, b)
        s[SEEN] += 1.0
        s[FIRST + b] += 1.0
        s[FIRST + int(s[BINS]) + b] += y
        return p

    return predict, learn


def _loss(m: int, n: int) -> float:
    """What tracking may lose in sharpness: binning it again, and learning a mean in each bin."""
    return lost_by_binning(m) + mean_regret(m, n)


class Tracking(KernelForecaster):
    r"""The average outcome so far among the rows whose expert forecast fell in the same bin (TOPS, TOBS).

    .. math:: p_t = \frac{1}{N_b} \sum_{s < t:\, q_s \in B_b} y_s
              \quad\text{for}\quad q_t \in B_b = [b\epsilon, (b+1)\epsilon),

    where :math:`q_t` is the expert's forecast, :math:`N_b` counts the rows of the sum and the last bin is closed; the
    mid-point of the bin while it is empty. ``epsilon`` is the width of a bin, 1/m; ``"auto"`` takes the m that makes
    the bound on the loss of sharpness least after ``horizon`` rows, of the order of :math:`\sqrt{\log T / T}`.

    Notes
    -----
    Guarantee, on every sequence: the Brier score exceeds the refinement of the expert's bins by at most
    m (1 + log(T/m)) / T, and sharpness falls by at most epsilon/2 more than that (:meth:`certificates`). Nothing is
    promised of its calibration error: an adversary who sees a forecast can always break a deterministic one.
    Cost: two numbers for each bin; a row costs the expert's step and one division.
    Reference: 002 section 6.3.1; Foster and Hart 2023, section 4; docs/certificates/games.md.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt
    >>> tops = Tracking(OnlinePlatt(), epsilon=0.1)
    >>> tops.predict_one(0.72), tops.learn_many([0.72, 0.72, 0.72], [1, 1, 0]).predict_one(0.72)
    (0.75, 0.6666666666666666)
    """

    _factory: ClassVar[Factory] = tracking_steps

    def __init__(self, expert: Forecaster, *, epsilon: Epsilon = 0.1, horizon: int | None = None) -> None:
        self.n_bins = bins_of(epsilon, horizon, _loss)
        self.epsilon, self.horizon = epsilon, horizon
        super().__init__(expert)

    def _begin(self) -> list[float]:
        return [0.0, float(self.n_bins)] + [0.0] * (2 * self.n_bins)

    def _resume(self, numbers: list[float]) -> None:
        check_cells(numbers, self._held, FIRST, self.n_bins)
        super()._resume(numbers)

    def _parameters(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "horizon": self.horizon}

    def certificates(self, n_rows: int | None = None) -> tuple[OnlineCertificate, ...]:
        """The promises on sharpness and on the Brier score that say something after ``n_rows`` rows."""
        n, m = self._check_rows(n_rows), self.n_bins
        width = f"bins of width {1 / m:g}"
        sharp = f"the sharpness (in {width}) that is lost against the expert"
        brier = f"the Brier score, less the refinement of the expert in {width},"
        return promise(n, False, ("each outcome is learned before the next forecast",), (
            (sharp, _loss(m, n), "Gupta 2023, 6.13, with smaller constants"),
            (brier, mean_regret(m, n), "Gupta 2023, 6.24, with a smaller logarithm"),
        ))  # fmt: skip

    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | Refusal:
        """The promise on sharpness; there is none on calibration, which :class:`Hedging` has."""
        return first_of(self.certificates(n_rows))

    def freeze(self) -> Map:
        """The step map of this moment, where the expert has a map that is monotone or made of steps."""
        inner = self.expert.freeze()
        values = [self._mean(b) for b in range(self.n_bins)]
        bin_of = bin_steps(lambda function: function)
        if isinstance(inner, StepMap):
            return StepMap(inner.knots, np.array([values[bin_of(p, self.n_bins)] for p in inner.values])).merged()
        rising = _rises(inner)
        m, ask = self.n_bins, self.expert.predict_one
        edges = range(1, m) if rising else range(m - 1, 0, -1)
        cuts = np.array([_first(ask, b / m, rising) for b in edges])
        steps = np.array(values if rising else values[::-1])
        return _steps_between(cuts, steps)

    def _mean(self, b: int) -> float:
        n = self._held[FIRST + b]
        return self._held[FIRST + self.n_bins + b] / n if n else (b + 0.5) / self.n_bins


def _rises(inner: Map) -> bool:
    """Whether a map goes up with the score, or down; others are refused."""
    if isinstance(inner, IdentityMap):
        return True
    if isinstance(inner, LogitAffineMap):
        return inner.slope >= 0.0
    if isinstance(inner, BetaMap) and inner.a * inner.b >= 0.0:
        return inner.a + inner.b >= 0.0
    if isinstance(inner, PiecewiseLinearMap):
        rises = np.diff(inner.values)
        if (rises >= 0.0).all() or (rises <= 0.0).all():
            return bool((rises >= 0.0).all())
    raise InputError("freeze needs an expert whose map is monotone: otherwise its bins are no intervals of scores")


def _first(ask: Step, edge: float, rising: bool) -> float:
    """The smallest double in [0, 1] on the far side of the edge, or infinity; doubles are ordered as their bits are."""
    if (ask(1.0) >= edge) != rising:
        return np.inf
    low, high = -1, struct.unpack("<q", struct.pack("<d", 1.0))[0]
    while high - low > 1:
        middle = (low + high) // 2
        if (ask(struct.unpack("<d", struct.pack("<q", middle))[0]) >= edge) == rising:
            high = middle
        else:
            low = middle
    found: float = struct.unpack("<d", struct.pack("<q", high))[0]
    return found


def _steps_between(cuts: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> StepMap:
    """A step map without empty steps: bins that the expert never reaches have equal or infinite cuts."""
    begins = np.append(0.0, cuts)
    ends = np.append(cuts, np.inf)
    kept = (begins < ends) & np.isfinite(begins)
    return StepMap(begins[kept][1:], values[kept]).merged()
