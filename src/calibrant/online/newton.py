"""Platt and beta scaling that learn from each outcome, by online Newton steps."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from calibrant.arrays import InputError
from calibrant.maps import LogitAffineMap, Map
from calibrant.online.base import KernelForecaster
from calibrant.online.kernels import SEEN, Factory, Jit, Step

CLAMP = 2.0**-32
"""Scores are held this far from 0 and 1, as everywhere for log-odds."""

LARGEST = 36.0
"""Log-odds beyond this are 0 or 1 in double precision."""

HALVINGS = 100
"""Steps of the search for the multiplier of a projection; each halves the interval."""

A, B, D1, L, D2, GAMMA, RADIUS, LOW = range(1, 9)
"""Places of the numbers of :class:`OnlinePlatt` after the count; the matrix is kept as factors L D L'."""


def platt_steps(jit: Jit) -> tuple[Step, Step]:
    """002 Algorithm 6.1 in two dimensions.

    The matrix is kept as L D L', updated by rank one without subtraction: D only grows, so that the matrix stays
    positive definite however long the stream is.
    """
    log, exp, sqrt = math.log, math.exp, math.sqrt

    @jit
    def feature(x: float, low: float) -> float:
        x = min(max(x, low), 1.0 - low)
        return log(x / (1.0 - x))

    @jit
    def expit(u: float) -> float:
        u = min(max(u, -LARGEST), LARGEST)
        if u >= 0.0:
            return 1.0 / (1.0 + exp(-u))
        e = exp(u)
        return e / (1.0 + e)

    @jit
    def predict(state: Any, x: float) -> float:
        s = state[0]
        p: float = expit(s[A] * feature(x, s[LOW]) + s[B])
        return p

    @jit
    def project(s: Any, a: float, b: float) -> None:
        """The point of the ball that is nearest in the norm of the matrix: (M + k I) p = M q for the right k >= 0."""
        p, q = s[D1], s[D1] * s[L]
        r = s[D2] + q * s[L]
        v, w = p * a + q * b, q * a + r * b
        low, high = 0.0, sqrt(v * v + w * w) / s[RADIUS]
        for _ in range(HALVINGS):
            k = 0.5 * (low + high)
            det = p * s[D2] + k * (p + r) + k * k
            a, b = ((r + k) * v - q * w) / det, ((p + k) * w - q * v) / det
            if a * a + b * b > s[RADIUS] * s[RADIUS]:
                low = k
            else:
                high = k
        size = sqrt(a * a + b * b)
        shrink = s[RADIUS] / size if size > s[RADIUS] else 1.0
        s[A], s[B] = a * shrink, b * shrink

    @jit
    def learn(state: Any, x: float, y: float) -> float:
        s = state[0]
        s[SEEN] += 1.0
        z = feature(x, s[LOW])
        p: float = expit(s[A] * z + s[B])
        g = p - y
        gz = g * z
        before, low = s[D1], s[L]
        d1 = before + gz * gz
        v = g - low * gz
        share = v / d1
        d2 = s[D2] + before * share * v
        low += gz * share
        s[D1], s[L], s[D2] = d1, low, d2
        db = (g - low * gz) / (d2 * s[GAMMA])
        a, b = s[A] - gz / (d1 * s[GAMMA]) + low * db, s[B] - db
        if a * a + b * b <= s[RADIUS] * s[RADIUS]:
            s[A], s[B] = a, b
        else:
            project(s, a, b)
        return p

    return predict, learn


class OnlinePlatt(KernelForecaster):
    r"""Platt scaling whose parameters follow the outcomes, by online Newton steps (OPS).

    .. math:: p_t = \operatorname{expit}(a_t \operatorname{logit}(s_t) + b_t), \qquad
              \theta_{t+1} = \Pi_{A_t}\bigl(\theta_t - \tfrac1\gamma A_t^{-1} \nabla_t\bigr), \quad
              A_t = A_{t-1} + \nabla_t \nabla_t^\top, \; A_0 = \rho I,

    with :math:`\theta = (a, b)` starting at (1, 0), the model as it is, :math:`\nabla_t` the gradient of the log loss
    of row t, and :math:`\Pi_A` the projection on the ball of the given radius in the norm of A.

    Notes
    -----
    Guarantee: the defaults are those of 002 section 6.2.2 and carry no regret certificate.
    Cost: constant memory, one logarithm and one exponential per row.
    Reference: 002 Algorithm 6.1; Hazan 2016, Algorithm 12.

    Examples
    --------
    >>> ops = OnlinePlatt()
    >>> for label in (1, 1, 0, 1):
    ...     p = ops.predict_one(0.6)
    ...     ops = ops.learn_one(0.6, label)
    >>> round(ops.predict_one(0.6), 4)
    0.6351
    """

    _factory: ClassVar[Factory] = platt_steps

    def __init__(self, *, gamma: float = 0.1, rho: float = 100.0, radius: float = 100.0) -> None:
        if not (gamma > 0.0 and rho > 0.0 and radius >= 1.0):
            raise InputError("gamma and rho must be above 0, and radius at least 1, which the model as it is needs")
        self.gamma, self.rho, self.radius = float(gamma), float(rho), float(radius)
        super().__init__()

    def _begin(self) -> list[float]:
        return [0.0, 1.0, 0.0, self.rho, 0.0, self.rho, self.gamma, self.radius, CLAMP]

    def _parameters(self) -> dict[str, Any]:
        return {"gamma": self.gamma, "rho": self.rho, "radius": self.radius}

    def freeze(self) -> Map:
        """The Platt map of this moment."""
        return LogitAffineMap(self._held[A], self._held[B], clamp=CLAMP)
