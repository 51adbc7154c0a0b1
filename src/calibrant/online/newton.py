"""Platt and beta scaling that learn from each outcome, by online Newton steps."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from calibrant.arrays import InputError
from calibrant.guarantees.certificates import Refusal
from calibrant.guarantees.online_promise import OnlineCertificate
from calibrant.maps import BetaMap, LogitAffineMap, Map
from calibrant.online.base import KernelForecaster
from calibrant.online.kernels import SEEN, Factory, Jit, Step

CLAMP = 2.0**-32
"""Scores are held this far from 0 and 1, as everywhere for log-odds."""

CERTIFIED_CLAMP = 0.01
"""The same for certified forecasters, whose bound needs log-odds of moderate size."""

LARGEST = 36.0
"""Log-odds beyond this are 0 or 1 in double precision."""

SEARCH_STEPS = 100
"""Most steps of the search for the multiplier of a projection; a handful is usual."""

A, B, D1, L, D2, GAMMA, RADIUS, LOW = range(1, 9)
"""Places of the numbers of :class:`OnlinePlatt` after the count; the matrix is kept as factors L D L'."""


def link(jit: Jit) -> Step:
    """The inverse of the log-odds, held inside (0, 1)."""
    exp = math.exp

    @jit
    def expit(u: float) -> float:
        if u > LARGEST:
            u = LARGEST
        elif u < -LARGEST:
            u = -LARGEST
        return 1.0 / (1.0 + exp(-u))

    return expit


def platt_steps(jit: Jit) -> tuple[Step, Step]:
    """002 Algorithm 6.1 in two dimensions.

    The matrix is kept as L D L', updated by rank one without subtraction: D only grows, so that the matrix stays
    positive definite however long the stream is.
    """
    log, sqrt = math.log, math.sqrt
    expit = link(jit)

    @jit
    def feature(x: float, low: float) -> float:
        if x < low:
            x = low
        elif x > 1.0 - low:
            x = 1.0 - low
        return log(x / (1.0 - x))

    @jit
    def predict(state: Any, x: float) -> float:
        s = state[0]
        p: float = expit(s[A] * feature(x, s[LOW]) + s[B])
        return p

    @jit
    def project(s: Any, a: float, b: float) -> None:
        """The point of the ball that is nearest in the norm of the matrix: (M + k I) p = M q for the right k >= 0.

        Newton's steps on 1 / |p(k)|, which bends one way, so that k rises to the solution and never beyond.
        """
        p, q = s[D1], s[D1] * s[L]
        r = s[D2] + q * s[L]
        v, w = p * a + q * b, q * a + r * b
        k, size = 0.0, sqrt(a * a + b * b)
        for _ in range(SEARCH_STEPS):
            det = p * s[D2] + k * (p + r) + k * k
            slope = ((r + k) * a * a - 2.0 * q * a * b + (p + k) * b * b) / det
            ahead = k + size * size / slope * (size / s[RADIUS] - 1.0)
            if not ahead > k:
                break
            k = ahead
            det = p * s[D2] + k * (p + r) + k * k
            a, b = ((r + k) * v - q * w) / det, ((p + k) * w - q * v) / det
            size = sqrt(a * a + b * b)
            if size <= s[RADIUS]:
                break
        shrink = s[RADIUS] / size if size > s[RADIUS] else 1.0
        s[A], s[B] = a * shrink, b * shrink

    @jit
    def learn(state: Any, x: float, y: float) -> float:
        s = state[0]
        z = feature(x, s[LOW])
        d1, low, d2 = s[D1], s[L], s[D2]
        # The matrix before this row solves for (z, 1), with no need of the forecast, which takes its time; what the row
        # adds to the matrix then divides the step by 1 + g^2 q.
        v, u = 1.0 - low * z, z / d1
        w = v / d2
        q = z * u + v * w
        p: float = expit(s[A] * z + s[B])
        g = p - y
        square = g * g
        step = g / (s[GAMMA] * (1.0 + square * q))
        a, b = s[A] - step * (u - low * w), s[B] - step * w
        grown = d1 + square * z * z
        share = square * v / grown
        s[SEEN] += 1.0
        s[D1], s[L], s[D2] = grown, low + z * share, d2 + d1 * share * v
        if a * a + b * b <= s[RADIUS] * s[RADIUS]:
            s[A], s[B] = a, b
        else:
            project(s, a, b)
        return p

    return predict, learn


BETA_A, BETA_B, BETA_C, E1, E2, E3, L21, L31, L32, BETA_GAMMA, BETA_RADIUS = range(1, 12)
"""Places of the numbers of :class:`OnlineBeta` after the count."""


def beta_steps(jit: Jit) -> tuple[Step, Step]:
    """The same in three dimensions, on the features log s, -log(1 - s) and 1."""
    log, sqrt = math.log, math.sqrt
    expit = link(jit)

    @jit
    def inside(x: float) -> float:
        if x < CLAMP:
            return CLAMP
        return x if x <= 1.0 - CLAMP else 1.0 - CLAMP

    @jit
    def predict(state: Any, x: float) -> float:
        s = state[0]
        x = inside(x)
        p: float = expit(s[BETA_A] * log(x) - s[BETA_B] * log(1.0 - x) + s[BETA_C])
        return p

    @jit
    def project(s: Any, a: float, b: float, c: float) -> None:
        """As in two dimensions; M + k I is factored anew for each k, and its pivots are at least those of M, plus k."""
        m21, m31 = s[L21] * s[E1], s[L31] * s[E1]
        m22, m32 = s[E2] + s[L21] * m21, s[L32] * s[E2] + s[L31] * m21
        m33 = s[E3] + s[L31] * m31 + s[L32] * s[L32] * s[E2]
        u = s[E1] * a + m21 * b + m31 * c
        v = m21 * a + m22 * b + m32 * c
        w = m31 * a + m32 * b + m33 * c
        k, size = 0.0, sqrt(a * a + b * b + c * c)
        d1, d2, d3, l21, l31, l32 = s[E1], s[E2], s[E3], s[L21], s[L31], s[L32]
        for _ in range(SEARCH_STEPS):
            f2 = b - l21 * a
            f3 = c - l31 * a - l32 * f2
            slope = a * a / d1 + f2 * f2 / d2 + f3 * f3 / d3
            ahead = k + size * size / slope * (size / s[BETA_RADIUS] - 1.0)
            if not ahead > k:
                break
            k = ahead
            d1 = s[E1] + k
            l21, l31 = m21 / d1, m31 / d1
            d2 = max(m22 + k - l21 * m21, s[E2] + k)
            l32 = (m32 - l31 * m21) / d2
            d3 = max(m33 + k - l31 * m31 - l32 * l32 * d2, s[E3] + k)
            f2 = v - l21 * u
            c = (w - l31 * u - l32 * f2) / d3
            b = f2 / d2 - l32 * c
            a = u / d1 - l21 * b - l31 * c
            size = sqrt(a * a + b * b + c * c)
            if size <= s[BETA_RADIUS]:
                break
        shrink = s[BETA_RADIUS] / size if size > s[BETA_RADIUS] else 1.0
        s[BETA_A], s[BETA_B], s[BETA_C] = a * shrink, b * shrink, c * shrink

    @jit
    def learn(state: Any, x: float, y: float) -> float:
        s = state[0]
        s[SEEN] += 1.0
        x = inside(x)
        rise, fall = log(x), -log(1.0 - x)
        p: float = expit(s[BETA_A] * rise + s[BETA_B] * fall + s[BETA_C])
        g = p - y
        w1, w2, w3 = g * rise, g * fall, g
        d1 = s[E1] + w1 * w1
        share1 = w1 / d1
        left = s[E1] / d1
        w2 -= s[L21] * w1
        w3 -= s[L31] * w1
        l21, l31 = s[L21] + share1 * w2, s[L31] + share1 * w3
        d2 = s[E2] + left * w2 * w2
        share2 = left * w2 / d2
        left *= s[E2] / d2
        w3 -= s[L32] * w2
        l32 = s[L32] + share2 * w3
        d3 = s[E3] + left * w3 * w3
        s[E1], s[E2], s[E3], s[L21], s[L31], s[L32] = d1, d2, d3, l21, l31, l32
        dc = left * w3 / d3
        db = share2 - l32 * dc
        da = share1 - l21 * db - l31 * dc
        a, b, c = s[BETA_A] - da / s[BETA_GAMMA], s[BETA_B] - db / s[BETA_GAMMA], s[BETA_C] - dc / s[BETA_GAMMA]
        if a * a + b * b + c * c <= s[BETA_RADIUS] * s[BETA_RADIUS]:
            s[BETA_A], s[BETA_B], s[BETA_C] = a, b, c
        else:
            project(s, a, b, c)
        return p

    return predict, learn


class OnlinePlatt(KernelForecaster):
    r"""Platt scaling whose parameters follow the outcomes, by online Newton steps (OPS).

    .. math:: p_t = \operatorname{expit}(a_t \operatorname{logit}(s_t) + b_t), \qquad
              \theta_{t+1} = \Pi_{A_t}\bigl(\theta_t - \tfrac1\gamma A_t^{-1} \nabla_t\bigr), \quad
              A_t = A_{t-1} + \nabla_t \nabla_t^\top, \; A_0 = \rho I,

    with :math:`\theta = (a, b)` starting at (1, 0), the model as it is, :math:`\nabla_t` the gradient of the log loss
    of row t, and :math:`\Pi_A` the projection on the ball of the given radius in the norm of A.

    Parameters
    ----------
    gamma, rho : float, optional
        The constants above; by default 0.1 and 100, those of 002 section 6.2.2.
    radius : float
        Radius of the ball; 100 by default, 1.5 when certified.
    certified : bool
        Hold scores in [0.01, 0.99] and take the constants for which the regret is bounded,
        :math:`\gamma = e^{-G B}` and :math:`\rho = (\gamma (B + 1))^{-2}`, with B the radius and
        :math:`G = \sqrt{1 + \operatorname{logit}(0.99)^2} = 4.703`. They are worst-case constants: such a forecaster
        learns slowly, and a radius above 2 makes it learn next to nothing.

    Notes
    -----
    Edges: scores are held 2^-32 from 0 and 1.
    Guarantee: none with the default constants; with ``certified=True`` the regret bound of :meth:`certificate`.
    Cost: constant memory, one logarithm and one exponential per row.
    Reference: 002 Algorithm 6.1; Hazan 2016, Algorithm 12; docs/certificates/online-platt.md.

    Examples
    --------
    >>> ops = OnlinePlatt()
    >>> for label in (1, 1, 0, 1):
    ...     p = ops.predict_one(0.6)
    ...     ops = ops.learn_one(0.6, label)
    >>> round(ops.predict_one(0.6), 4)
    0.6156
    >>> print(OnlinePlatt(radius=1.0, certified=True).certificate(100_000))  # doctest: +ELLIPSIS
    After 100,000 rows the log loss beyond that of the best Platt map ... is at most 705.5, on every sequence ...
    """

    _factory: ClassVar[Factory] = platt_steps

    def __init__(
        self,
        *,
        gamma: float | None = None,
        rho: float | None = None,
        radius: float | None = None,
        certified: bool = False,
    ) -> None:
        self.certified = bool(certified)
        self.radius = float((1.5 if certified else 100.0) if radius is None else radius)
        if certified:
            self.gamma, self.rho = _certified_constants(self.radius, gamma, rho)
        else:
            self.gamma, self.rho = 0.1 if gamma is None else float(gamma), 100.0 if rho is None else float(rho)
        _check_constants(self.gamma, self.rho, self.radius, 1.0)
        super().__init__()

    def _begin(self) -> list[float]:
        low = CERTIFIED_CLAMP if self.certified else CLAMP
        return [0.0, 1.0, 0.0, self.rho, 0.0, self.rho, self.gamma, self.radius, low]

    def _parameters(self) -> dict[str, Any]:
        if self.certified:
            return {"radius": self.radius, "certified": True}
        return {"gamma": self.gamma, "rho": self.rho, "radius": self.radius}

    def freeze(self) -> Map:
        """The Platt map of this moment."""
        return LogitAffineMap(self._held[A], self._held[B], clamp=self._held[LOW])

    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | Refusal:
        r"""A bound on the regret against the best Platt map of the ball, chosen with all outcomes known.

        .. math:: R_T \le \frac{1}{2\gamma}\Bigl(\log\frac{\det A_T}{\det A_0} + 1\Bigr)
                  \le \frac{1}{2\gamma}\Bigl(2 \log\bigl(1 + \tfrac12 T G^2 \gamma^2 (B + 1)^2\bigr) + 1\Bigr).

        With ``n_rows`` the second, which no sequence of so many rows can exceed; without, the first, for the rows that
        were learned. Only for ``certified=True``.
        """
        if not self.certified:
            return Refusal(
                "the regret bound needs other constants than these, which are chosen for practice: "
                "use OnlinePlatt(radius=..., certified=True)"
            )
        n = self._check_rows(n_rows)
        growth = 2.0 * math.log1p(0.5 * n * LARGEST_FEATURES**2 / self.rho)
        if n_rows is None:
            growth = min(growth, math.log(self._held[D1] / self.rho) + math.log(self._held[D2] / self.rho))
        return OnlineCertificate(
            quantity=f"the log loss beyond that of the best Platt map with a^2 + b^2 <= {self.radius:g}^2, in sum,",
            bound=(growth + 1.0) / (2.0 * self.gamma),
            n_rows=n,
            expected=False,
            assumptions=(f"both see scores held in [{CERTIFIED_CLAMP:g}, {1.0 - CERTIFIED_CLAMP:g}]",),
            theorem="online Newton steps, Hazan 2016 section 4, with the constant e^(-GB)",
        )


LARGEST_FEATURES = math.sqrt(1.0 + math.log((1.0 - CERTIFIED_CLAMP) / CERTIFIED_CLAMP) ** 2)
"""G, the largest norm of the features (logit s, 1) of a held score, and with it of a gradient."""


def _certified_constants(radius: float, gamma: float | None, rho: float | None) -> tuple[float, float]:
    if gamma is not None or rho is not None:
        raise InputError("gamma and rho must be left out with certified=True, which fixes them by the radius")
    if not LARGEST_FEATURES * radius <= LARGEST:
        raise InputError(f"radius must be at most {LARGEST / LARGEST_FEATURES:.2f} with certified=True, not {radius:g}")
    found = math.exp(-LARGEST_FEATURES * radius)
    return found, 1.0 / (found * (radius + 1.0)) ** 2


def _check_constants(gamma: float, rho: float, radius: float, least: float) -> None:
    if not (0.0 < gamma < math.inf and 0.0 < rho < math.inf and least <= radius < math.inf):
        raise InputError(
            f"gamma and rho must be above 0, and radius at least {least:.4g}, which the model as it is needs"
        )


class OnlineBeta(KernelForecaster):
    r"""Beta scaling whose three parameters follow the outcomes, by online Newton steps (OBS).

    .. math:: p_t = \operatorname{expit}\bigl(a_t \log s_t - b_t \log(1 - s_t) + c_t\bigr),

    with :math:`\theta = (a, b, c)` starting at (1, 1, 0), the model as it is, and stepping as in
    :class:`OnlinePlatt`. The sign of b is that of :class:`~calibrant.maps.BetaMap`.

    Notes
    -----
    Edges: scores are held 2^-32 from 0 and 1. Parameters may turn negative, where the outcomes oppose the model.
    Guarantee: none; the constants (gamma 0.1, rho 25, radius 100) are those of 002 section 6.B.
    Cost: constant memory, two logarithms and one exponential per row.
    Reference: 002 sections 6.5 and 6.B; Kull, Silva Filho and Flach 2017.

    Examples
    --------
    >>> obs = OnlineBeta()
    >>> for label in (1, 1, 0, 1):
    ...     p = obs.predict_one(0.6)
    ...     obs = obs.learn_one(0.6, label)
    >>> round(obs.predict_one(0.6), 4)
    0.6757
    """

    _factory: ClassVar[Factory] = beta_steps

    def __init__(self, *, gamma: float = 0.1, rho: float = 25.0, radius: float = 100.0) -> None:
        self.gamma, self.rho, self.radius = float(gamma), float(rho), float(radius)
        _check_constants(self.gamma, self.rho, self.radius, math.sqrt(2.0))
        super().__init__()

    def _begin(self) -> list[float]:
        factors = [self.rho, self.rho, self.rho, 0.0, 0.0, 0.0]
        return [0.0, 1.0, 1.0, 0.0, *factors, self.gamma, self.radius]

    def _parameters(self) -> dict[str, Any]:
        return {"gamma": self.gamma, "rho": self.rho, "radius": self.radius}

    def freeze(self) -> Map:
        """The beta map of this moment."""
        return BetaMap(self._held[BETA_A], self._held[BETA_B], self._held[BETA_C], clamp=CLAMP)
