"""AIOLI: online Platt scaling with a small regret bound, by improper online logistic regression."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.maps import Map
from calibrant.messages import InputError
from calibrant.online.experts.logistic_steps import D1, D2, A, B, L, held_log_odds, link
from calibrant.online.experts.newton import PlattForecaster
from calibrant.online.guards import reading
from calibrant.online.kernels import SEEN, Factory, Jit, Step
from calibrant.online.limits import check_steps, clamp_of, radius_of
from calibrant.online.stored import register

ROOT_STEPS = 50
"""Largest number of Newton steps for the log-odds of a forecast; a few are usual."""

FLATTER, AIOLI_LOW = D2 + 1, D2 + 2
"""Indices of its settings, after numbers in the order of :class:`OnlinePlatt`."""


def improper_steps(jit: Jit) -> tuple[Step, Step]:
    """Steps of AIOLI: a forecast includes the loss of both outcomes of its row; the matrix is as in OPS."""
    expit, feature = link(jit), held_log_odds(jit)

    @jit
    def both_ways(s: Any, z: float) -> float:
        """The log-odds m of the forecast, the root of m + q tanh(m / 2) = a z + b with q = x' A^-1 x.

        Newton's steps from 0 toward the root never pass it, since the left side is convex or concave there.
        """
        v = 1.0 - s[L] * z
        q = z * z / s[D1] + v * v / s[D2]
        goal = s[A] * z + s[B]
        far, m = abs(goal), 0.0
        for _ in range(ROOT_STEPS):
            p = expit(m)
            ahead = m + (far - m - q * (2.0 * p - 1.0)) / (1.0 + 2.0 * q * p * (1.0 - p))
            if not ahead > m:
                break
            m = ahead
        return m if goal >= 0.0 else -m

    @jit
    def predict(state: Any, x: float) -> float:
        s = state[0]
        p: float = expit(both_ways(s, feature(x, s[AIOLI_LOW])))
        return p

    @jit
    def learn(state: Any, x: float, y: float) -> float:
        s = state[0]
        s[SEEN] += 1.0
        z = feature(x, s[AIOLI_LOW])
        m = both_ways(s, z)
        p: float = expit(m)
        c = p * (1.0 - p) / s[FLATTER]
        before = s[D1]
        d1 = before + c * z * z
        v = 1.0 - s[L] * z
        share = v / d1
        rest = before * share
        d2 = s[D2] + c * rest * v
        low = s[L] + c * z * share
        s[D1], s[L], s[D2] = d1, low, d2
        step = y - p + c * (m - s[A] * z - s[B])
        db = rest / d2
        s[A], s[B] = s[A] + step * (z / d1 - low * db), s[B] + step * db
        return p

    return predict, learn


@register("Aioli")
class Aioli(PlattForecaster):
    r"""Online Platt scaling with a small regret bound, by improper online logistic regression (AIOLI).

    With features :math:`x = (\operatorname{logit} s, 1)`, the forecast of row t is
    :math:`p_t = \operatorname{expit}(\theta_t \cdot x_t)` at

    .. math:: \theta_t = \arg\min_\theta\; \lambda \|\theta - (1, 0)\|^2 + \sum_{r < t} \hat\ell_r(\theta)
              + \ell(\theta; x_t, 0) + \ell(\theta; x_t, 1),

    where :math:`\ell` is the log loss, both outcomes of the next row are included, and :math:`\hat\ell_r` is the
    quadratic that touches the loss of row r at :math:`\theta_r`, with curvature
    :math:`p_r (1 - p_r) / (1 + G B)` along :math:`x_r`. B is the radius, G the largest norm of x, and
    :math:`\lambda = 2 (1 + G B) / (B + 1)^2`.

    Parameters
    ----------
    radius : float
        The regret is against Platt maps with :math:`a^2 + b^2 \le B^2`.
    clamp : float
        Scores are clipped to this distance from 0 and 1; G is :math:`\sqrt{1 + \operatorname{logit}(\text{clamp})^2}`.
        The bound grows with G. With the default, scores below 1 in 100 are not distinguished; pass a smaller clamp for
        rarer events.

    Notes
    -----
    Edge cases: since :math:`\theta_t` depends on the score, the forecasts are not a Platt map of it, and
    :meth:`freeze` raises an error. Forecasts are shrunk toward 1/2 if little was learned. ``slope`` and ``intercept``
    are those before both outcomes of the next row are included.
    Guarantee: a regret bound, :meth:`certificate`, on every sequence, without the factor :math:`e^{GB}` of online
    Newton steps.
    Cost: constant memory, one logarithm and about five exponentials per row.
    Reference: Gupta (2023), Theorem 6.1, eq. 6.9; Jezequel, Gaillard and Rudi 2020; proof in
    docs/certificates/online-platt.md.

    Examples
    --------
    >>> aioli = Aioli(radius=2.0)
    >>> for label in (1, 1, 0, 1):
    ...     p = aioli.predict_one(0.6)
    ...     aioli = aioli.learn_one(0.6, label)
    >>> round(aioli.predict_one(0.6), 4)
    0.6195
    >>> print(Aioli(radius=2.0).certificate(100_000))  # doctest: +ELLIPSIS
    After its first 100,000 rows, the log loss beyond that of the best ... (0.0021 per row), is at most 201, ...
    """

    bounded_outcomes = True

    _factory: ClassVar[Factory] = improper_steps
    theorem = "improper online logistic regression, Jezequel et al. 2020, Theorem 1"

    def __init__(self, *, radius: float = 5.0, clamp: float = 0.01) -> None:
        self.radius, self.clamp = radius_of(radius), clamp_of(clamp)
        self._features = math.sqrt(1.0 + math.log((1.0 - self.clamp) / self.clamp) ** 2)
        self._flatter = 1.0 + self._features * self.radius
        self._ridge = 2.0 * self._flatter / (self.radius + 1.0) ** 2
        super().__init__()

    def _begin(self) -> list[float]:
        curvature = 2.0 * self._ridge
        return [0.0, 1.0, 0.0, curvature, 0.0, curvature, self._flatter, self.clamp]

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        start, largest = 2.0 * self._ridge, self._features**2
        c = 0.25 / self._flatter  # largest curvature of a row
        # A step is A^-1 x (y - p + c q tanh(m / 2)) with q = x' A^-1 x, and A is at least its start.
        step = math.sqrt(largest) / start * (1.0 + c * largest / start)
        pivots = {D1: c * (largest - 1.0), D2: c}
        check_steps(numbers, self._begin(), pivots, {L: c}, 1.0 + numbers[SEEN] * step)

    def _freeze(self) -> Map:
        """An error: the forecasts are not a Platt map."""
        raise InputError("Aioli", "has no fixed map, since its forecasts are not a Platt map", "use OnlinePlatt")

    @reading
    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | NoCertificate:
        r"""Bound on the regret against the best Platt map of the ball, chosen with all outcomes known.

        .. math:: R_T \le (1 + GB) \Bigl(2 + \log\frac{\det A_T}{\det A_0}\Bigr)
                  \le 2 (1 + GB) \Bigl(1 + \log\bigl(1 + \tfrac{T G^2}{16 \lambda (1 + GB)}\bigr)\Bigr),

        with A the matrix of second derivatives of the quadratics and the ridge penalty.

        Parameters
        ----------
        n_rows
            With ``n_rows``, the second bound, which holds for every sequence of this many rows; without, the first, for
            the rows learned.

        Returns
        -------
        OnlineCertificate or NoCertificate
            No certificate if the bound is at least T log 2, the bound of forecasting 1/2 on every row.
        """
        return self._regret_certificate(n_rows)

    def regret(self, n_rows: int) -> float:
        """Bound on the regret for every sequence of this many rows of a new forecaster."""
        growth = 2.0 * math.log1p(n_rows * self._features**2 / (16.0 * self._ridge * self._flatter))
        return self._regret_after(growth)

    def _regret_after(self, growth: float) -> float:
        return self._flatter * (2.0 + growth)
