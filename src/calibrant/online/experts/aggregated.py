"""The aggregating algorithm on a grid of Platt maps."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.maps import Map
from calibrant.messages import InputError
from calibrant.numerics import Floats
from calibrant.online.compiled import KernelForecaster
from calibrant.online.experts.logistic_steps import held_log_odds, link
from calibrant.online.experts.newton import best_platt
from calibrant.online.guards import reading
from calibrant.online.kernels import SEEN, Factory, Jit, Step
from calibrant.online.limits import SAME, SLACK, changed, clamp_of, radius_of, real, regret_certificate
from calibrant.online.settings import read_only
from calibrant.online.stored import register

STEPS, SPACING, LOW, FIRST = 1, 2, 3, 4
"""Indices of the grid steps on either side of 0, their length, the clamp, and the first weight."""

MAX_MAPS = 10_201
"""Largest number of maps: 101 slopes and as many intercepts."""

LEAST_WEIGHT = 1e-280
"""Weights fall no lower, so that their products with a probability stay normal numbers."""

MAX_MARGIN = 20.0
"""Largest log-odds of a map, so that probabilities stay 2^-29 away from 0 and 1."""

LOST_A_ROW = 2.0**-23
"""Largest loss per row from rounding: 1 - p of a map and of the mean are each off by at most 2^-25 of themselves."""


def aggregating_steps(jit: Jit) -> tuple[Step, Step]:
    """Steps of Vovk (1990) for the log loss: the weighted mean, then weights times the probability of the outcome."""
    expit, feature = link(jit), held_log_odds(jit)

    @jit
    def predict(state: Any, x: float) -> float:
        s = state[0]
        k, h = int(s[STEPS]), s[SPACING]
        z = feature(x, s[LOW])
        event, none, at = 0.0, 0.0, FIRST
        for i in range(-k, k + 1):
            for j in range(-k, k + 1):
                p = expit(i * h * z + j * h)
                event += s[at] * p
                none += s[at] * (1.0 - p)
                at += 1
        return event / (event + none)

    @jit
    def learn(state: Any, x: float, y: float) -> float:
        s = state[0]
        k, h = int(s[STEPS]), s[SPACING]
        told: float = predict(state, x)
        z = feature(x, s[LOW])
        total, at = 0.0, FIRST
        for i in range(-k, k + 1):
            for j in range(-k, k + 1):
                p = expit(i * h * z + j * h)
                if y == 1.0:
                    w = s[at] * p
                elif y == 0.0:
                    w = s[at] * (1.0 - p)
                else:
                    w = s[at] * p**y * (1.0 - p) ** (1.0 - y)
                s[at] = w if w > LEAST_WEIGHT else LEAST_WEIGHT
                total += s[at]
                at += 1
        for at in range(FIRST, len(s)):
            s[at] /= total
        s[SEEN] += 1.0
        return told

    return predict, learn


@register("Aggregated")
class Aggregated(KernelForecaster):
    r"""The aggregating algorithm on a grid of Platt maps: a weighted mean of their forecasts (AA).

    .. math:: p_t = \sum_k w_{t,k}\, p_{t,k}, \qquad
              w_{t,k} \propto \prod_{r < t} p_{r,k}^{y_r} (1 - p_{r,k})^{1 - y_r}, \qquad
              p_{t,k} = \operatorname{expit}(a_k \operatorname{logit}(s_t) + b_k),

    where :math:`(a_k, b_k)` are the K points of a square grid on :math:`[-B, B]^2`. In terms of Bayes, it is the
    predictive probability under a uniform prior on the grid.

    Parameters
    ----------
    radius : float
        Half the side B of the square.
    spacing : float
        Largest distance h of neighboring points; it is reduced so that B is a multiple of it. K is
        :math:`(2B/h + 1)^2`, at most 10,201.
    clamp : float
        Scores are clipped to this distance from 0 and 1; G is :math:`\sqrt{1 + \operatorname{logit}(\text{clamp})^2}`.

    Notes
    -----
    Gupta (2023), Table 6.1, lists the method on all points of the ball, whose integrals take :math:`B^{18} T^{24}`
    steps. On a grid it takes K steps per row, and the bound has a term for the distance to the grid.
    Edge cases: a mean of Platt maps is not a Platt map, so :meth:`freeze` raises an error. The first forecasts are near
    1/2, since the prior contains slopes of both signs.
    Guarantee: the regret bound of :meth:`certificate`, on every sequence.
    Cost: K numbers and 2 K exponentials per row, about 0.4 milliseconds for 441 maps in plain Python.
    Reference: Gupta (2023), Table 6.1; Vovk 1990; Foster, Kale, Luo, Mohri and Sridharan 2018; proof in
    docs/certificates/online-platt.md.

    Examples
    --------
    >>> aa = Aggregated(radius=2.0, spacing=0.5)
    >>> aa = aa.learn_many([0.2, 0.8] * 50, [0, 1] * 50)
    >>> round(aa.predict_one(0.8), 3), len(aa.weights)
    (0.937, 81)
    >>> print(Aggregated(radius=1.0, spacing=0.1).certificate(1_000))  # doctest: +ELLIPSIS
    After its first 1,000 rows, the log loss beyond that of the best ... (0.014 per row), is at most 13.01, ...
    """

    radius: float = read_only()
    spacing: float = read_only()
    clamp: float = read_only()

    bounded_outcomes = True

    _factory: ClassVar[Factory] = aggregating_steps
    theorem = "the aggregating algorithm, Vovk 1990, on a grid"

    def __init__(self, *, radius: float = 2.0, spacing: float = 0.2, clamp: float = 0.01) -> None:
        self.radius, self.clamp = radius_of(radius), clamp_of(clamp)
        self.spacing = real("spacing", spacing, 1e-6, self.radius)
        self._steps = math.ceil(self.radius / self.spacing * (1.0 - SAME))
        self._maps = (2 * self._steps + 1) ** 2
        if self._maps > MAX_MAPS:
            fix = f"pass at least {self.radius / ((math.isqrt(MAX_MAPS) - 1) // 2):.4g}"
            raise InputError("spacing", f"gives {self._maps:,} maps, but at most {MAX_MAPS:,} are allowed", fix)
        self._features = math.sqrt(1.0 + math.log((1.0 - self.clamp) / self.clamp) ** 2)
        if self.radius * (math.log((1.0 - self.clamp) / self.clamp) + 1.0) > MAX_MARGIN:
            most = MAX_MARGIN / (math.log((1.0 - self.clamp) / self.clamp) + 1.0)
            raise InputError(
                "radius", f"must be at most {math.floor(1e3 * most) / 1e3:g} with this clamp, not {radius!r}"
            )
        super().__init__()

    def _begin(self) -> list[float]:
        settings = [float(self._steps), self.radius / self._steps, self.clamp]
        return [0.0, *settings, *[1.0 / self._maps] * self._maps]

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        settings = zip(numbers[STEPS:FIRST], self._begin()[STEPS:FIRST], strict=True)
        if not all(math.isclose(x, y, rel_tol=SAME) for x, y in settings):
            raise changed("settings")
        weights = numbers[FIRST:]
        if not min(weights) > 0.0 or abs(math.fsum(weights) - 1.0) > SLACK:
            raise changed("weights")

    def _freeze(self) -> Map:
        """An error: a mean of Platt maps is not a Platt map."""
        raise InputError("Aggregated", "has no fixed map, since a mean of Platt maps is not one", "use OnlinePlatt")

    @property
    @reading
    def weights(self) -> Floats:
        """The current weights of the maps; they sum to 1. The intercept runs fastest, both from -B to B."""
        return np.array(self._held[FIRST:], dtype=np.float64)

    @reading
    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | NoCertificate:
        r"""Bound on the regret against the best Platt map of the ball, chosen with all outcomes known.

        .. math:: R_T \le \ln K + \frac{T h^2 G^2}{32},

        where the second term is for maps between the points of the grid. Against the maps of the grid it is
        :math:`\ln K` alone.

        Parameters
        ----------
        n_rows
            Number of rows since it was created; by default the rows learned so far.

        Returns
        -------
        OnlineCertificate or NoCertificate
            No certificate if the bound is at least T log 2, the bound of forecasting 1/2 on every row.
        """
        n = self._check_rows(n_rows)
        best = best_platt(self.radius)
        return regret_certificate(best, self.regret(n), n, self.theorem, clamp=self.clamp, learned=self.n_rows)

    def regret(self, n_rows: int) -> float:
        """Bound on the regret on this many rows of a new forecaster."""
        between = (self.radius / self._steps * self._features) ** 2 / 32.0
        return math.log(self._maps) + n_rows * (between + LOST_A_ROW)
