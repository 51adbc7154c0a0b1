"""Online Platt scaling by gradient descent, the simplest method with a regret bound."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.online.experts.logistic_steps import A, B, held_log_odds, link, platt_forecast
from calibrant.online.experts.newton import PlattForecaster, best_platt
from calibrant.online.guards import reading
from calibrant.online.kernels import SEEN, Factory, Jit, Step
from calibrant.online.limits import SAME, SLACK, changed, clamp_of, radius_of, regret_certificate
from calibrant.online.stored import register

SPENT, STEP, BALL, LOW = range(B + 1, B + 5)
"""Indices of the sum of half the step times the squared gradient, the first step, the radius and the clamp."""


def gradient_steps(jit: Jit) -> tuple[Step, Step]:
    """Steps of Zinkevich (2003): against the gradient, shorter by the root of the rows, back to the ball."""
    sqrt = math.sqrt
    expit, feature = link(jit), held_log_odds(jit)
    predict = platt_forecast(jit, expit, feature, LOW)

    @jit
    def learn(state: Any, x: float, y: float) -> float:
        s = state[0]
        z = feature(x, s[LOW])
        p: float = expit(s[A] * z + s[B])
        s[SEEN] += 1.0
        g = p - y
        step = s[STEP] / sqrt(s[SEEN])
        s[SPENT] += 0.5 * step * g * g * (z * z + 1.0)
        a, b = s[A] - step * g * z, s[B] - step * g
        size = sqrt(a * a + b * b)
        shrink = s[BALL] / size if size > s[BALL] else 1.0
        s[A], s[B] = a * shrink, b * shrink
        return p

    return predict, learn


@register("OnlineGradient")
class OnlineGradient(PlattForecaster):
    r"""Online Platt scaling by gradient descent (OGD), the simplest method with a regret bound.

    .. math:: p_t = \operatorname{expit}(a_t \operatorname{logit}(s_t) + b_t), \qquad
              \theta_{t+1} = \Pi\Bigl(\theta_t - \frac{2 B}{G \sqrt{2 t}} \nabla_t\Bigr),

    with :math:`\theta = (a, b)` starting at (1, 0), the original model, :math:`\nabla_t` the gradient of the log loss
    of row t, :math:`\Pi` the nearest point of the ball of radius B, and G the largest norm of a gradient.

    Parameters
    ----------
    radius : float
        Radius B of the ball; the regret is against its Platt maps.
    clamp : float
        Scores are clipped to this distance from 0 and 1; G is :math:`\sqrt{1 + \operatorname{logit}(\text{clamp})^2}`.

    Notes
    -----
    For comparison: where nothing changes it does as well as :class:`OnlinePlatt`, and it follows drift less well, since
    its steps shrink with every row (``python benchmarks/streams.py --section 6``). The bound of :class:`Aioli` grows as
    log T, this one as the root of T.
    Guarantee: the regret bound of :meth:`certificate`, on every sequence.
    Cost: constant memory, one logarithm and one exponential per row.
    Reference: Gupta (2023), Table 6.1; Zinkevich 2003; proof in docs/certificates/online-platt.md.

    Examples
    --------
    >>> ogd = OnlineGradient(radius=2.0)
    >>> for label in (1, 1, 0, 1):
    ...     ogd = ogd.learn_one(0.6, label)
    >>> round(ogd.predict_one(0.6), 4), round(ogd.slope, 3)
    (0.667, 1.101)
    >>> print(OnlineGradient(radius=2.0).certificate(100_000))  # doctest: +ELLIPSIS
    After its first 100,000 rows, the log loss beyond that of the best ... (0.085 per row), is at most 8,413, ...
    """

    bounded_outcomes = True

    _factory: ClassVar[Factory] = gradient_steps
    theorem = "online gradient descent, Zinkevich 2003"

    def __init__(self, *, radius: float = 2.0, clamp: float = 0.01) -> None:
        self.radius, self.clamp = radius_of(radius), clamp_of(clamp)
        self._features = math.sqrt(1.0 + math.log((1.0 - self.clamp) / self.clamp) ** 2)
        self._first = 2.0 * self.radius / (math.sqrt(2.0) * self._features)
        super().__init__()

    def _begin(self) -> list[float]:
        return [0.0, 1.0, 0.0, 0.0, self._first, self.radius, self.clamp]

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        n = numbers[SEEN]
        if not all(math.isclose(x, y, rel_tol=SAME) for x, y in zip(numbers[STEP:], self._begin()[STEP:], strict=True)):
            raise changed("settings")
        if not math.hypot(numbers[A], numbers[B]) <= self.radius * (1.0 + SLACK):
            raise changed("slope or intercept")
        if not 0.0 <= numbers[SPENT] <= 0.5 * self.regret(int(n)) * (1.0 + SLACK):
            raise changed("sum of steps")

    @reading
    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | NoCertificate:
        r"""Bound on the regret against the best Platt map of the ball, chosen with all outcomes known.

        .. math:: R_T \le B G \sqrt{2 T} + \tfrac12 \sum_t \eta_t \|\nabla_t\|^2 \le 2 B G \sqrt{2 T},

        with :math:`\eta_t` the length of step t.

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
        n = self._check_rows(n_rows)
        bound = self.regret(n)
        if n_rows is None:
            bound = min(bound, 0.5 * bound + float(self._held[SPENT]))
        best = best_platt(self.radius)
        return regret_certificate(best, bound, n, self.theorem, clamp=self.clamp, learned=self.n_rows)

    def regret(self, n_rows: int) -> float:
        """Bound on the regret on this many rows of a new forecaster."""
        return 2.0 * self.radius * self._features * math.sqrt(2.0 * n_rows)
