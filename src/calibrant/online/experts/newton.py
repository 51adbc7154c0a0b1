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
from calibrant.online.limits import check_steps, clamp_of, real, regret_promise, yes_no
from calibrant.online.settings import read_only

USUAL_CLAMP = 1e-5
"""How near to 0 and 1 scores are held by default: learned row by row, the zeros of a forest would rule the slope."""

SETTINGS = ("gamma", "rho", "radius", "clamp", "half_life")
"""Of both forecasters."""

CERTIFIED_CLAMP = 0.01
"""The same for certified forecasters, whose bound needs log-odds of moderate size."""


@register("OnlinePlatt")
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
    clamp : float, optional
        Scores are held this far from 0 and 1; by default 1e-5, and always 0.01 when certified. Forests say exactly 0
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
    radius: float = read_only()
    certified: bool = read_only()
    clamp: float = read_only()
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
        self.radius = _radius((1.5 if certified else 100.0) if radius is None else radius, 1.0)
        if certified:
            self.gamma, self.rho, self.clamp = _certified_constants(self.radius, gamma, rho, clamp)
            if half_life is not None:
                raise InputError(
                    "half_life", "must be left out with certified=True, whose bound is for steps that shrink"
                )
        else:
            self.gamma, self.rho = _constants(0.1 if gamma is None else gamma, 100.0 if rho is None else rho)
            self.clamp = clamp_of(USUAL_CLAMP if clamp is None else clamp)
        self.half_life = _half_life(half_life)
        super().__init__()

    def _begin(self) -> list[float]:
        settings = [self.gamma, self.radius, self.clamp, _kept(self.half_life), self.rho]
        return [0.0, 1.0, 0.0, self.rho, 0.0, self.rho, *settings]

    def _parameters(self) -> dict[str, Any]:
        if self.certified:
            return {"radius": self.radius, "certified": True}
        return {name: getattr(self, name) for name in SETTINGS}

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        most = math.log((1.0 - self.clamp) / self.clamp) ** 2
        check_steps(numbers, self._begin(), {D1: most, D2: 1.0}, {L: 1.0}, self.radius)

    @property
    def slope(self) -> float:
        """The slope a of this moment."""
        return float(self._held[A])

    @property
    def intercept(self) -> float:
        """The level b of this moment."""
        return float(self._held[B])

    def _freeze(self) -> Map:
        """The Platt map of this moment, which holds scores as the forecaster does."""
        return LogitAffineMap(self.slope, self.intercept, low=self.clamp, high=1.0 - self.clamp)

    @reading
    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | Refusal:
        r"""A bound on the regret against the best Platt map of the ball, chosen with all outcomes known.

        .. math:: R_T \le \frac{1}{2\gamma}\Bigl(\log\frac{\det A_T}{\det A_0} + 1\Bigr)
                  \le \frac{1}{2\gamma}\Bigl(2 \log\bigl(1 + \tfrac12 T G^2 \gamma^2 (B + 1)^2\bigr) + 1\Bigr).

        With ``n_rows`` the second, which no sequence of so many rows can exceed; without, the first, for the rows that
        were learned. Only for ``certified=True``, and refused where it is no less than T log 2, which saying 1/2 on
        every row has as well.
        """
        if not self.certified:
            return Refusal(
                RefusalCode.NO_THEOREM,
                "the regret bound needs other constants than these, which are chosen for practice: "
                "use OnlinePlatt(radius=..., certified=True)",
            )
        n = self._check_rows(n_rows)
        bound = self.regret(n)
        if n_rows is None:
            growth = math.log(self._held[D1] / self.rho) + math.log(self._held[D2] / self.rho)
            bound = min(bound, (growth + 1.0) / (2.0 * self.gamma))
        held = (both_held(self.clamp),)
        return regret_promise(best_platt(self.radius), bound, n, held, self.theorem, learned=self.n_rows)

    def regret(self, n_rows: int) -> float:
        """What the regret cannot exceed on so many rows after a fresh start; infinite where it is not certified."""
        if not self.certified:
            return math.inf
        growth = 2.0 * math.log1p(0.5 * n_rows * LARGEST_FEATURES**2 / self.rho)
        return (growth + 1.0) / (2.0 * self.gamma)


LARGEST_FEATURES = math.sqrt(1.0 + math.log((1.0 - CERTIFIED_CLAMP) / CERTIFIED_CLAMP) ** 2)
"""G, the largest norm of the features (logit s, 1) of a held score, and with it of a gradient."""


def best_platt(radius: float) -> str:
    """Whom the regret is against, in words."""
    return f"the best Platt map with a^2 + b^2 <= {_exactly(radius)}^2"


def both_held(clamp: float) -> str:
    """That both sides see the same scores, in words."""
    return f"both see scores held in [{_exactly(clamp)}, {_exactly(1.0 - clamp)}]"


def _exactly(x: float) -> str:
    """All digits: a ball that is printed larger than it is would be promised too much."""
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


def _constants(gamma: object, rho: object) -> tuple[float, float]:
    return real("gamma", gamma, 1e-30, 1e30), real("rho", rho, 1e-9, 1e30)


def _half_life(half_life: object) -> float | None:
    return None if half_life is None else real("half_life", half_life, 1.0, 1e15)


def _kept(half_life: float | None) -> float:
    """What is left of a row one row later."""
    return 1.0 if half_life is None else math.exp2(-1.0 / half_life)


def _radius(radius: object, least: float) -> float:
    return real("radius", radius, least, 1e9, ", which the model as it is needs,")


@register("OnlineBeta")
class OnlineBeta(KernelForecaster):
    r"""Beta scaling whose three parameters follow the outcomes, by online Newton steps (OBS).

    .. math:: p_t = \operatorname{expit}\bigl(a_t \log s_t - b_t \log(1 - s_t) + c_t\bigr),

    with :math:`\theta = (a, b, c)` starting at (1, 1, 0), the model as it is, and stepping as in
    :class:`OnlinePlatt`. The sign of b is that of :class:`~calibrant.maps.BetaMap`.

    Parameters
    ----------
    gamma, rho, radius : float
        As in :class:`OnlinePlatt`; the defaults are those of 002 section 6.B.
    clamp : float
        Scores are held this far from 0 and 1, for the reason given there.
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
        self.gamma, self.rho = _constants(gamma, rho)
        self.radius, self.clamp = _radius(radius, math.sqrt(2.0)), clamp_of(clamp)
        self.half_life = _half_life(half_life)
        super().__init__()

    def _begin(self) -> list[float]:
        factors = [self.rho, self.rho, self.rho, 0.0, 0.0, 0.0]
        return [0.0, 1.0, 1.0, 0.0, *factors, self.gamma, self.radius, self.clamp, _kept(self.half_life), self.rho]

    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SETTINGS}

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        most = math.log(self.clamp) ** 2
        pivots, factors = {E1: most, E2: most, E3: 1.0}, {L21: most, L31: 1.0, L32: 1.0}
        check_steps(numbers, self._begin(), pivots, factors, self.radius)

    @property
    def a(self) -> float:
        """The weight of log s of this moment."""
        return float(self._held[BETA_A])

    @property
    def b(self) -> float:
        """The weight of -log(1 - s) of this moment."""
        return float(self._held[BETA_B])

    @property
    def c(self) -> float:
        """The level of this moment."""
        return float(self._held[BETA_C])

    def _freeze(self) -> Map:
        """The beta map of this moment, which holds scores as the forecaster does."""
        return BetaMap(self.a, self.b, self.c, low=self.clamp, high=1.0 - self.clamp)
