"""Calibeating by tracking: the average outcome so far in the bin of the expert's forecast."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.maps import Direction, Map, StepMap
from calibrant.messages import InputError
from calibrant.numerics import Floats, first_double
from calibrant.online.base import Forecaster
from calibrant.online.games.binned import BinnedForecaster
from calibrant.online.games.bounds import SUMS, certificates_of, lost_by_binning, prior_regret
from calibrant.online.games.widths import Epsilon, bin_steps, bins_of, check_cells, check_settings, rows_of
from calibrant.online.kernels import SEEN, Factory, Jit, Step, plain
from calibrant.online.settings import read_only
from calibrant.online.stored import register

BINS, PRIOR, FIRST = 1, 2, 3
"""Indices of the number of bins, of the prior, and of the first of m counts, followed by m sums of outcomes."""


def mean_steps(jit: Jit) -> Step:
    """``mean(numbers, b)``: the mean outcome of bin b, with the prior at its midpoint."""

    @jit
    def mean(s: Any, b: int) -> float:
        m = s[BINS]
        n = s[FIRST + b] + s[PRIOR]
        if n > 0.0:
            return (s[FIRST + int(m) + b] + s[PRIOR] * ((b + 0.5) / m)) / n  # type: ignore[no-any-return]
        return (b + 0.5) / m  # type: ignore[no-any-return]

    return mean


def tracking_steps(jit: Jit, expert_predict: Step, expert_learn: Step) -> tuple[Step, Step]:
    """Gupta (2023), eq. 6.11, with a prior."""
    bin_of, mean = bin_steps(jit), mean_steps(jit)

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


_mean, _bin_of = mean_steps(plain), bin_steps(plain)


@register("Tracking")
class Tracking(BinnedForecaster):
    r"""Calibeating by tracking: the average outcome of past rows in the same bin of the expert's forecast (TOPS, TOBS).

    .. math:: p_t = \frac{w M_b + \sum_{s < t:\, q_s \in B_b} y_s}{w + N_b}
              \quad\text{for}\quad q_t \in B_b = [b\epsilon, (b+1)\epsilon),

    where :math:`q_t` is the expert's forecast, :math:`N_b` the number of rows in the sum, :math:`M_b` the midpoint of
    the bin and w the ``prior``; the last bin is closed. With w = 0 an empty bin gives :math:`M_b`.

    Parameters
    ----------
    expert
        Any forecaster of one score; it is copied.
    epsilon
        Width of a bin, 1/m with m at most 2,000, in units of probability: all scores whose expert forecast lies in one
        bin get one number. For events rarer than a few percent use the expert alone, which is better than a finer
        epsilon. ``"auto"`` is the m with the smallest bound on the loss of sharpness after ``horizon`` rows, of the
        order of :math:`\sqrt{\log T / T}`; ``n_bins`` stores it.
    horizon
        Number of future rows, for ``epsilon="auto"`` only.
    prior
        Number of prior rows at the midpoint of each bin, so that no forecast is 0 or 1 and the log loss stays finite.
        0 is Gupta (2023), eq. 6.11, which says exactly 0 or 1 after the first row of a bin.

    Notes
    -----
    Outcomes are 0 or 1, or any number in [0, 1] if the expert accepts them.
    Whole streams (``learn_many``, ``forecast_many``) warn if nearly all rows lie in one bin; single rows do not.
    Guarantee: on every sequence, the Brier score exceeds the refinement of the expert's bins by at most
    m (1 + log(T/m)) / T for prior 0, less for prior 1, and sharpness falls by at most epsilon/2 more than that
    (:meth:`certificates`). There is no guarantee on its calibration error: an adversary who sees a deterministic
    forecast can always make it miscalibrated.
    Cost: two numbers for each bin; a row costs the expert's step and one division.
    Reference: Gupta (2023), section 6.3.1; Foster and Hart 2023, section 4; docs/certificates/games.md.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt
    >>> tops = Tracking(OnlinePlatt(), epsilon=0.1)
    >>> tops.predict_one(0.72), tops.learn_many([0.72, 0.72, 0.72], [1, 1, 0]).predict_one(0.72)
    (0.75, 0.6875)
    """

    prior: float = read_only()

    _factory: ClassVar[Factory] = tracking_steps

    def __init__(
        self, expert: Forecaster, *, epsilon: Epsilon = 0.1, horizon: int | None = None, prior: float = 1.0
    ) -> None:
        self.horizon, self.prior = rows_of(horizon), _prior_of(prior)
        self.epsilon, self.n_bins = bins_of(epsilon, self.horizon, self._loss)
        super().__init__(expert)

    @property
    def bounded_outcomes(self) -> bool:  # type: ignore[override]
        """Whether outcomes may be any number in [0, 1]: if its experts accept them."""
        return all(expert.bounded_outcomes for expert in self.experts)

    def _loss(self, m: int, n: int) -> float:
        """Bound on the loss of sharpness: from binning again, and from learning a mean in each bin."""
        return lost_by_binning(m) + prior_regret(m, n, self.prior)

    def _begin(self) -> list[float]:
        return [0.0, float(self.n_bins), self.prior] + [0.0] * (2 * self.n_bins)

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        check_settings(numbers[BINS:FIRST], [self.n_bins, self.prior])
        check_cells(numbers, FIRST, self.n_bins, whole=not self.bounded_outcomes)

    def _crowds(self) -> list[float]:
        return list(self._held[FIRST : FIRST + self.n_bins])

    def _certificates(self, n: int, alpha: float | None = None) -> tuple[OnlineCertificate, ...]:
        m = self.n_bins
        width = f"bins of width {1 / m:g}"
        sharp = f"the loss of sharpness (in {width}) relative to the expert"
        brier = f"the Brier score minus the refinement of the expert in {width}"
        lost = 2.0 * SUMS * n if self.bounded_outcomes else 0.0
        return certificates_of(self.n_rows, n, False, (
            (sharp, self._loss(m, n) + lost, "after Gupta 2023, 6.13, with smaller constants"),
            (brier, prior_regret(m, n, self.prior) + lost, "after Gupta 2023, 6.24, with a smaller logarithm"),
        ))  # fmt: skip

    def _freeze(self) -> Map:
        """The current step map, if the expert has a map that is monotone or a step function."""
        inner = self.expert._freeze()
        values = [_mean(self._held, b) for b in range(self.n_bins)]
        if isinstance(inner, StepMap):
            return StepMap(inner.knots, np.array([values[_bin_of(p, self.n_bins)] for p in inner.values])).merged()
        if inner.direction is Direction.MIXED:
            raise InputError(
                "expert",
                "must have a monotone map for freeze(): otherwise bins are not score intervals",
                "ship the frozen map of the expert, or the state",
            )
        rising = inner.direction.never_falls
        edges = np.arange(1, self.n_bins) / self.n_bins
        edges, values = (edges, values) if rising else (edges[::-1], values[::-1])

        def beyond(scores: Floats) -> NDArray[np.bool_]:
            return np.asarray((self.expert._predict_many(np.maximum(scores, 0.0), None) >= edges) == rising)

        below, ends = np.full(len(edges), -5e-324), np.ones(len(edges))
        cuts = np.where(beyond(ends), first_double(beyond, below, ends) + 0.0, np.inf)
        return _steps_between(cuts, np.array(values))


def _prior_of(prior: Any) -> float:
    right = isinstance(prior, (int, float, np.integer, np.floating)) and not isinstance(prior, bool)
    if not right or not (prior == 0 or 1e-6 <= prior <= 1e6):
        raise InputError("prior", f"must be a number of rows, 0 or from 1e-6 to 1e6, not {prior!r}")
    return float(prior)


def _steps_between(cuts: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> StepMap:
    """A step map without empty steps: bins that the expert never reaches have equal or infinite cut points."""
    begins = np.append(0.0, cuts)
    ends = np.append(cuts, np.inf)
    kept = (begins < ends) & np.isfinite(begins)
    return StepMap(begins[kept][1:], values[kept]).merged()
