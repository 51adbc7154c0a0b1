"""Platt and beta scaling that learn from each outcome, by online Newton steps."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from calibrant.guarantees.online_promise import OnlineCertificate
from calibrant.guarantees.refusal import Refusal, RefusalCode
from calibrant.maps import BetaMap, LogitAffineMap, Map
from calibrant.messages import InputError
from calibrant.online.base import register
from calibrant.online.compiled import KernelForecaster
from calibrant.online.experts.logistic_steps import (
    BETA_A,
    BETA_B,
    BETA_C,
    D1,
    D2,
    E1,
    E2,
    E3,
    L21,
    L31,
    L32,
    LARGEST,
    A,
    B,
    L,
    beta_steps,
    platt_steps,
)
from calibrant.online.guards import reading
from calibrant.online.kernels import Factory
from calibrant.online.limits import check_steps, clamp_of, constants_of, radius_of, real, regret_certificate, yes_no
from calibrant.online.settings import read_only

USUAL_CLAMP = 1e-5
"""How near to 0 and 1 scores are clipped by default: learned row by row, the zeros of a forest would rule the slope."""

CERTIFIED_CLAMP = 0.01
"""The same for certified forecasters, whose bound needs log-odds of moderate size."""


class PlattForecaster(KernelForecaster):
    """Slope and intercept on the log-odds of a clipped score, with a matrix whose growth bounds the regret."""

    radius: float = read_only()
    clamp: float = read_only()

    theorem: ClassVar[str]

    @property
    def slope(self) -> float:
        """The slope a at this time."""
        return float(self._held[A])

    @property
    def intercept(self) -> float:
        """The intercept b at this time."""
        return float(self._held[B])

    def _regret_certificate(self, n_rows: int | None) -> OnlineCertificate | Refusal:
        """By the number of rows, or by the growth of the matrix on the rows learned, where that is less."""
        n = self._check_rows(n_rows)
        bound = self.regret(n)
        if n_rows is None:
            start = self._begin()[D1]
            growth = math.log(self._held[D1] / start) + math.log(self._held[D2] / start)
            bound = min(bound, self._regret_after(growth))
        held = (both_held(self.clamp),)
        return regret_certificate(best_platt(self.radius), bound, n, held, self.theorem, learned=self.n_rows)

    def regret(self, n_rows: int) -> float:
        """The bound on the regret on this many rows after a fresh start; infinite where there is none."""
        raise NotImplementedError

    def _regret_after(self, growth: float) -> float:
        """The bound on the regret where the log-determinant of the matrix has grown by this much."""
        raise NotImplementedError


@register("OnlinePlatt")
class OnlinePlatt(PlattForecaster):
    r"""Platt scaling whose parameters follow the outcomes, by online Newton steps (OPS).

    .. math:: p_t = \operatorname{expit}(a_t \operatorname{logit}(s_t) + b_t), \qquad
              \theta_{t+1} = \Pi_{A_t}\bigl(\theta_t - \tfrac1\gamma A_t^{-1} \nabla_t\bigr), \quad
              A_t = A_{t-1} + \nabla_t \nabla_t^\top, \; A_0 = \rho I,

    with :math:`\theta = (a, b)` starting at (1, 0), the original model, :math:`\nabla_t` the gradient of the log loss
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
    clamp : float, optional
        Scores are clipped this far from 0 and 1; by default 1e-5, and always 0.01 when certified. Forests say exactly 0
        and 1: at 2^-32 such rows would have log-odds of 22 and rule the slope for all others. For a forest of k trees
        ``1 / (2 * k)`` is better still; for events rarer than 1 in 10,000 take a smaller one.
    half_life : float, optional
        Rows after which a row counts half in A, whose factors fade no lower than ``rho``. Without it the steps shrink
        as rows add up, so that after 300,000 rows 20,000 more do not undo a break. A half-life should hold
        some hundred events: shorter ones make the map restless.

    Notes
    -----
    Edges: the first events of a stream of rare ones move the map far (a click at score 0.01 makes the next forecast
    0.06). For many small streams take a larger ``rho``, such as 1,000.
    Guarantee: none with the default constants; with ``certified=True`` the regret bound of :meth:`certificate`.
    Cost: constant memory, one logarithm and one exponential per row.
    Reference: 002 Algorithm 6.1; Hazan 2016, Algorithm 12; docs/certificates/online-platt.md.

    Examples
    --------
    >>> ops = OnlinePlatt()
    >>> for label in (1, 1, 0, 1):
    ...     p = ops.predict_one(0.6)
    ...     ops = ops.learn_one(0.6, label)
    >>> round(ops.predict_one(0.6), 4), round(ops.slope, 3), round(ops.intercept, 3)
    (0.6156, 1.023, 0.056)
    >>> print(OnlinePlatt(radius=1.0, certified=True).certificate(100_000))  # doctest: +ELLIPSIS
    After 100,000 rows since it was new the log loss beyond that of the best ... (0.0071 a row), is at most 705.6, ...
    """

    gamma: float = read_only()
    rho: float = read_only()
    certified: bool = read_only()
    half_life: float | None = read_only()

    _factory: ClassVar[Factory] = platt_steps
    theorem = "online Newton steps, Hazan 2016 section 4, with the constant e^(-GB)"

    def __init__(
        self,
        *,
        gamma: float | None = None,
        rho: float | None = None,
        radius: float | None = None,
        certified: bool = False,
        clamp: float | None = None,
        half_life: float | None = None,
    ) -> None:
        self.certified = yes_no("certified", certified)
        self.radius = radius_of((1.5 if certified else 100.0) if radius is None else radius)
        if certified:
            self.gamma, self.rho, self.clamp = _certified_constants(self.radius, gamma, rho, clamp)
            if half_life is not None:
                raise InputError(
                    "half_life", "must be left out with certified=True, whose bound is for steps that shrink"
                )
        else:
            self.gamma, self.rho = constants_of(0.1 if gamma is None else gamma, 100.0 if rho is None else rho)
            self.clamp = clamp_of(USUAL_CLAMP if clamp is None else clamp)
        self.half_life = _half_life(half_life)
        super().__init__()

    def _begin(self) -> list[float]:
        settings = [self.gamma, self.radius, self.clamp, _kept(self.half_life), self.rho]
        return [0.0, 1.0, 0.0, self.rho, 0.0, self.rho, *settings]

    def _parameters(self) -> dict[str, Any]:
        found = super()._parameters()
        kept = ("radius", "certified") if self.certified else found.keys() - {"certified"}
        return {name: value for name, value in found.items() if name in kept}

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        most = math.log((1.0 - self.clamp) / self.clamp) ** 2
        check_steps(numbers, self._begin(), {D1: most, D2: 1.0}, {L: 1.0}, self.radius)

    def _freeze(self) -> Map:
        """The Platt map at this time, which clips scores as the forecaster does."""
        return LogitAffineMap(self.slope, self.intercept, low=self.clamp, high=1.0 - self.clamp)

    @reading
    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | Refusal:
        r"""A bound on the regret against the best Platt map of the ball, chosen with all outcomes known.

        .. math:: R_T \le \frac{1}{2\gamma}\Bigl(\log\frac{\det A_T}{\det A_0} + 1\Bigr)
                  \le \frac{1}{2\gamma}\Bigl(2 \log\bigl(1 + \tfrac12 T G^2 \gamma^2 (B + 1)^2\bigr) + 1\Bigr).

        With ``n_rows`` the second, which no sequence of this many rows can exceed; without, the first, for the rows
        learned. Only for ``certified=True``, and refused where it is at least T log 2, the bound of forecasting 1/2 on
        every row.
        """
        if not self.certified:
            return Refusal(
                RefusalCode.NO_THEOREM,
                "the regret bound needs other constants than these, which are chosen for practice: "
                "use OnlinePlatt(radius=..., certified=True)",
            )
        return self._regret_certificate(n_rows)

    def regret(self, n_rows: int) -> float:
        """The bound on the regret on this many rows after a fresh start; infinite where it is not certified."""
        growth = 2.0 * math.log1p(0.5 * n_rows * LARGEST_FEATURES**2 / self.rho)
        return self._regret_after(growth) if self.certified else math.inf

    def _regret_after(self, growth: float) -> float:
        return (growth + 1.0) / (2.0 * self.gamma)


LARGEST_FEATURES = math.sqrt(1.0 + math.log((1.0 - CERTIFIED_CLAMP) / CERTIFIED_CLAMP) ** 2)
"""G, the largest norm of the features (logit s, 1) of a clipped score, and with it of a gradient."""


def best_platt(radius: float) -> str:
    """Whom the regret is against, in words."""
    return f"the best Platt map with a^2 + b^2 <= {_exactly(radius)}^2"


def both_held(clamp: float) -> str:
    """That both sides see the same scores, in words."""
    return f"both see scores clipped to [{_exactly(clamp)}, {_exactly(1.0 - clamp)}]"


def _exactly(x: float) -> str:
    """All digits: a ball that is printed larger than it is would guarantee too much."""
    return repr(float(x)).removesuffix(".0")


def _certified_constants(radius: float, gamma: Any, rho: Any, clamp: Any) -> tuple[float, float, float]:
    if gamma is not None or rho is not None:
        given = "rho" if gamma is None else "gamma"
        raise InputError(given, "must be left out with certified=True, which fixes it by the radius")
    if clamp is not None and clamp != CERTIFIED_CLAMP:
        raise InputError("clamp", f"must be left out with certified=True, whose bound is for {CERTIFIED_CLAMP:g}")
    if not LARGEST_FEATURES * radius <= LARGEST:
        raise InputError(
            "radius", f"must be at most {LARGEST / LARGEST_FEATURES:.2f} with certified=True, not {radius:g}"
        )
    found = math.exp(-LARGEST_FEATURES * radius)
    return found, 1.0 / (found * (radius + 1.0)) ** 2, CERTIFIED_CLAMP


def _half_life(half_life: object) -> float | None:
    return None if half_life is None else real("half_life", half_life, 1.0, 1e15)


def _kept(half_life: float | None) -> float:
    """What is left of a row one row later."""
    return 1.0 if half_life is None else math.exp2(-1.0 / half_life)


@register("OnlineBeta")
class OnlineBeta(KernelForecaster):
    r"""Beta scaling whose three parameters follow the outcomes, by online Newton steps (OBS).

    .. math:: p_t = \operatorname{expit}\bigl(a_t \log s_t - b_t \log(1 - s_t) + c_t\bigr),

    with :math:`\theta = (a, b, c)` starting at (1, 1, 0), the original model, and stepping as in
    :class:`OnlinePlatt`. The sign of b is that of :class:`~calibrant.maps.BetaMap`.

    Parameters
    ----------
    gamma, rho, radius : float
        As in :class:`OnlinePlatt`; the defaults are those of 002 section 6.B.
    clamp : float
        Scores are clipped this far from 0 and 1, for the reason given there.
    half_life : float, optional
        Rows after which a row counts half, as there.

    Notes
    -----
    Edges: parameters may turn negative, where the outcomes oppose the model. The first events of a stream of rare ones
    move the map further than there, since ``rho`` is smaller: one at score 0.01 makes the next forecast 0.53.
    Guarantee: none.
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

    gamma: float = read_only()
    rho: float = read_only()
    radius: float = read_only()
    clamp: float = read_only()
    half_life: float | None = read_only()

    _factory: ClassVar[Factory] = beta_steps

    def __init__(
        self,
        *,
        gamma: float = 0.1,
        rho: float = 25.0,
        radius: float = 100.0,
        clamp: float = USUAL_CLAMP,
        half_life: float | None = None,
    ) -> None:
        self.gamma, self.rho = constants_of(gamma, rho)
        self.radius, self.clamp = radius_of(radius, math.sqrt(2.0)), clamp_of(clamp)
        self.half_life = _half_life(half_life)
        super().__init__()

    def _begin(self) -> list[float]:
        factors = [self.rho, self.rho, self.rho, 0.0, 0.0, 0.0]
        return [0.0, 1.0, 1.0, 0.0, *factors, self.gamma, self.radius, self.clamp, _kept(self.half_life), self.rho]

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        most = math.log(self.clamp) ** 2
        pivots, factors = {E1: most, E2: most, E3: 1.0}, {L21: most, L31: 1.0, L32: 1.0}
        check_steps(numbers, self._begin(), pivots, factors, self.radius)

    @property
    def a(self) -> float:
        """The weight of log s at this time."""
        return float(self._held[BETA_A])

    @property
    def b(self) -> float:
        """The weight of -log(1 - s) at this time."""
        return float(self._held[BETA_B])

    @property
    def c(self) -> float:
        """The intercept at this time."""
        return float(self._held[BETA_C])

    def _freeze(self) -> Map:
        """The beta map at this time, which clips scores as the forecaster does."""
        return BetaMap(self.a, self.b, self.c, low=self.clamp, high=1.0 - self.clamp)
