"""Online Platt and beta scaling, by online Newton steps."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.online_certificate import OnlineCertificate, all_digits
from calibrant.maps import BetaMap, LogitAffineMap, Map
from calibrant.messages import InputError
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
from calibrant.online.stored import register

USUAL_CLAMP = 1e-5
"""Default distance from 0 and 1 to which scores are clipped: exact zeros of a forest would dominate the slope."""

CERTIFIED_CLAMP = 0.01
"""The same for certified forecasters, whose bound needs moderate log-odds."""


class PlattForecaster(KernelForecaster):
    """Base class: slope and intercept on the log-odds of a clipped score, with a matrix whose growth bounds regret."""

    radius: float = read_only()
    clamp: float = read_only()

    theorem: ClassVar[str]

    @property
    def slope(self) -> float:
        """The current slope a."""
        return float(self._held[A])

    @property
    def intercept(self) -> float:
        """The current intercept b."""
        return float(self._held[B])

    def _freeze(self) -> Map:
        """The current Platt map, which clips scores as the forecaster does."""
        return LogitAffineMap(self.slope, self.intercept, low=self.clamp, high=1.0 - self.clamp)

    def _regret_certificate(self, n_rows: int | None) -> OnlineCertificate | NoCertificate:
        """By the number of rows, or by the growth of the matrix on the rows learned if that is smaller."""
        n = self._check_rows(n_rows)
        bound = self.regret(n)
        if n_rows is None:
            start = self._begin()[D1]
            growth = math.log(self._held[D1] / start) + math.log(self._held[D2] / start)
            bound = min(bound, self._regret_after(growth))
        return regret_certificate(
            best_platt(self.radius), bound, n, self.theorem, clamp=self.clamp, learned=self.n_rows
        )

    def regret(self, n_rows: int) -> float:
        """Bound on the regret on this many rows of a new forecaster; infinite if there is none."""
        raise NotImplementedError

    def _regret_after(self, growth: float) -> float:
        """Bound on the regret if the log-determinant of the matrix has grown by this much."""
        raise NotImplementedError


@register("OnlinePlatt")
class OnlinePlatt(PlattForecaster):
    r"""Online Platt scaling, by online Newton steps (OPS).

    .. math:: p_t = \operatorname{expit}(a_t \operatorname{logit}(s_t) + b_t), \qquad
              \theta_{t+1} = \Pi_{A_t}\bigl(\theta_t - \tfrac1\gamma A_t^{-1} \nabla_t\bigr), \quad
              A_t = A_{t-1} + \nabla_t \nabla_t^\top, \; A_0 = \rho I,

    with :math:`\theta = (a, b)` starting at (1, 0), the original model, :math:`\nabla_t` the gradient of the log loss
    of row t, and :math:`\Pi_A` the projection onto the ball of the given radius in the norm of A.

    Parameters
    ----------
    gamma, rho : float, optional
        The constants above; by default 0.1 and 100, as in Gupta (2023), section 6.2.2.
    radius : float
        Radius of the ball; 100 by default, 1.5 if certified.
    certified : bool
        Clip scores to [0.01, 0.99] and use the constants for which the regret is bounded,
        :math:`\gamma = e^{-G B}` and :math:`\rho = (\gamma (B + 1))^{-2}`, with B the radius and
        :math:`G = \sqrt{1 + \operatorname{logit}(0.99)^2} = 4.703`. These are worst-case constants: such a forecaster
        learns slowly, and hardly at all with a radius above 2.
    clamp : float, optional
        Scores are clipped to this distance from 0 and 1; by default 1e-5, and always 0.01 if certified. Random forests
        return exactly 0 and 1: at 2^-32 such rows would have log-odds of 22 and dominate the slope. For a forest of k
        trees ``1 / (2 * k)`` is better still; for events rarer than 1 in 10,000 use a smaller value.
    half_life : float, optional
        Number of rows after which a row counts half in A, whose factors fade no lower than ``rho``. Without it the
        steps shrink as rows accumulate: after 300,000 rows, 20,000 more do not correct for a break. Choose a half-life
        with some hundred events; a shorter one makes the map unstable.

    Notes
    -----
    Edge cases: with rare events, the first ones change the map a lot (a click at score 0.01 makes the next forecast
    0.06). For many small streams use a larger ``rho``, such as 1,000.
    Guarantee: no finite-sample guarantee with the default constants; with ``certified=True`` the regret bound of
    :meth:`certificate`.
    Cost: constant memory, one logarithm and one exponential per row.
    Reference: Gupta (2023), Algorithm 6.1; Hazan 2016, Algorithm 12; docs/certificates/online-platt.md.

    Examples
    --------
    >>> ops = OnlinePlatt()
    >>> for label in (1, 1, 0, 1):
    ...     p = ops.predict_one(0.6)
    ...     ops = ops.learn_one(0.6, label)
    >>> round(ops.predict_one(0.6), 4), round(ops.slope, 3), round(ops.intercept, 3)
    (0.6156, 1.023, 0.056)
    >>> print(OnlinePlatt(radius=1.0, certified=True).certificate(100_000))  # doctest: +ELLIPSIS
    After its first 100,000 rows, the log loss beyond that of the best ... (0.0071 per row), is at most 705.6, ...
    """

    gamma: float = read_only()
    rho: float = read_only()
    certified: bool = read_only()
    half_life: float | None = read_only()

    bounded_outcomes = True

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
            constants = _certified_constants(self.radius, LARGEST_FEATURES, 1.0, gamma, rho, clamp, half_life)
            self.gamma, self.rho, self.clamp = constants
        else:
            self.gamma, self.rho = constants_of(0.1 if gamma is None else gamma, 100.0 if rho is None else rho)
            self.clamp = clamp_of(USUAL_CLAMP if clamp is None else clamp)
        self.half_life = _half_life(half_life)
        super().__init__()

    def _begin(self) -> list[float]:
        settings = [self.gamma, self.radius, self.clamp, _kept(self.half_life), self.rho]
        return [0.0, 1.0, 0.0, self.rho, 0.0, self.rho, *settings]

    def _parameters(self) -> dict[str, Any]:
        return _stored(super()._parameters(), self.certified)

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        most = math.log((1.0 - self.clamp) / self.clamp) ** 2
        check_steps(numbers, self._begin(), {D1: most, D2: 1.0}, {L: 1.0}, self.radius)

    @reading
    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | NoCertificate:
        r"""Bound on the regret against the best Platt map of the ball, chosen with all outcomes known.

        .. math:: R_T \le \frac{1}{2\gamma}\Bigl(\log\frac{\det A_T}{\det A_0} + 1\Bigr)
                  \le \frac{1}{2\gamma}\Bigl(2 \log\bigl(1 + \tfrac12 T G^2 \gamma^2 (B + 1)^2\bigr) + 1\Bigr).

        Parameters
        ----------
        n_rows
            With ``n_rows``, the second bound, which holds for every sequence of this many rows; without, the first, for
            the rows learned.

        Returns
        -------
        OnlineCertificate or NoCertificate
            A certificate only for ``certified=True``, and only if the bound is below T log 2, the bound of forecasting
            1/2 on every row.
        """
        if not self.certified:
            return NoCertificate(
                NoCertificateCode.NO_THEOREM,
                "the regret bound is not proven for these constants, which are chosen for practice: "
                "use OnlinePlatt(radius=1.5, certified=True)",
            )
        return self._regret_certificate(n_rows)

    def regret(self, n_rows: int) -> float:
        """Bound on the regret on this many rows of a new forecaster; infinite if it is not certified."""
        growth = 2.0 * math.log1p(0.5 * n_rows * LARGEST_FEATURES**2 / self.rho)
        return self._regret_after(growth) if self.certified else math.inf

    def _regret_after(self, growth: float) -> float:
        return (growth + 1.0) / (2.0 * self.gamma)


LARGEST_FEATURES = math.sqrt(1.0 + math.log((1.0 - CERTIFIED_CLAMP) / CERTIFIED_CLAMP) ** 2)
"""G, the largest norm of the features (logit s, 1) of a clipped score, and thus of a gradient."""


LARGEST_BETA_FEATURES = math.sqrt(math.log(CERTIFIED_CLAMP) ** 2 + math.log(1.0 - CERTIFIED_CLAMP) ** 2 + 1.0)
"""The same for the features (log s, -log(1 - s), 1)."""


def best_platt(radius: float) -> str:
    """The comparison class of the regret, in words."""
    return f"the best Platt map with a^2 + b^2 <= {all_digits(radius)}^2"


def _certified_constants(
    radius: float, features: float, start: float, gamma: Any, rho: Any, clamp: Any, half_life: Any
) -> tuple[float, float, float]:
    """Constants of a regret bound, from the largest norm of features and the norm of the first parameters."""
    if gamma is not None or rho is not None:
        given = "rho" if gamma is None else "gamma"
        raise InputError(given, "must be left out with certified=True, which sets it from the radius")
    if clamp is not None and clamp != CERTIFIED_CLAMP:
        raise InputError("clamp", f"must be left out with certified=True, whose bound is for {CERTIFIED_CLAMP:g}")
    if half_life is not None:
        raise InputError("half_life", "must be left out with certified=True: the bound needs steps that shrink")
    if not features * radius <= LARGEST:
        raise InputError(
            "radius",
            f"must be at most {LARGEST / features:.2f} with certified=True, not {radius:g}",
            f"pass {math.ceil(10 * start) / 10:g} to 2: with a larger radius it hardly learns",
        )
    found = math.exp(-features * radius)
    return found, 1.0 / (found * (radius + start)) ** 2, CERTIFIED_CLAMP


def _stored(parameters: dict[str, Any], certified: bool) -> dict[str, Any]:
    """The parameters that a state holds: a certified forecaster sets the others itself."""
    kept = ("radius", "certified") if certified else parameters.keys() - {"certified"}
    return {name: value for name, value in parameters.items() if name in kept}


def _half_life(half_life: object) -> float | None:
    return None if half_life is None else real("half_life", half_life, 1.0, 1e15)


def _kept(half_life: float | None) -> float:
    """Weight of a row one row later."""
    return 1.0 if half_life is None else math.exp2(-1.0 / half_life)


@register("OnlineBeta")
class OnlineBeta(KernelForecaster):
    r"""Online beta scaling, by online Newton steps (OBS).

    .. math:: p_t = \operatorname{expit}\bigl(a_t \log s_t - b_t \log(1 - s_t) + c_t\bigr),

    with :math:`\theta = (a, b, c)` starting at (1, 1, 0), the original model, and updated as in :class:`OnlinePlatt`.
    The sign of b is that of :class:`~calibrant.maps.BetaMap`.

    Parameters
    ----------
    gamma, rho, radius : float, optional
        As in :class:`OnlinePlatt`; the defaults, 0.1, 25 and 100, are those of Gupta (2023), section 6.B. The radius is
        1.5 if certified.
    clamp : float, optional
        Scores are clipped to this distance from 0 and 1, as in :class:`OnlinePlatt`.
    half_life : float, optional
        Number of rows after which a row counts half, as in :class:`OnlinePlatt`.
    certified : bool
        Clip scores to [0.01, 0.99] and use the constants for which the regret is bounded,
        :math:`\gamma = e^{-G B}` and :math:`\rho = (\gamma (B + \sqrt2))^{-2}`, with B the radius and
        :math:`G = 4.713` the largest norm of :math:`(\log s, -\log(1 - s), 1)`. Such a forecaster learns slowly.

    Notes
    -----
    Edge cases: parameters may become negative if the outcomes contradict the model. With rare events, the first ones
    change the map more than in :class:`OnlinePlatt`, since ``rho`` is smaller: one at score 0.01 makes the next
    forecast 0.53.
    Guarantee: no finite-sample guarantee with the default constants; with ``certified=True`` the regret bound of
    :meth:`certificate`.
    Cost: constant memory, two logarithms and one exponential per row.
    Reference: Gupta (2023), sections 6.5 and 6.B; Kull, Silva Filho and Flach 2017; docs/certificates/online-platt.md.

    Examples
    --------
    >>> obs = OnlineBeta()
    >>> for label in (1, 1, 0, 1):
    ...     p = obs.predict_one(0.6)
    ...     obs = obs.learn_one(0.6, label)
    >>> round(obs.predict_one(0.6), 4)
    0.6757
    >>> print(OnlineBeta(certified=True).certificate(1_000_000))  # doctest: +ELLIPSIS
    After its first 1,000,000 rows, the log loss beyond that of the best beta map ... is at most 7,355, ...
    """

    gamma: float = read_only()
    rho: float = read_only()
    radius: float = read_only()
    clamp: float = read_only()
    half_life: float | None = read_only()
    certified: bool = read_only()

    bounded_outcomes = True

    _factory: ClassVar[Factory] = beta_steps
    theorem = "online Newton steps with three parameters, Hazan 2016 section 4, with the constant e^(-GB)"

    def __init__(
        self,
        *,
        gamma: float | None = None,
        rho: float | None = None,
        radius: float | None = None,
        clamp: float | None = None,
        half_life: float | None = None,
        certified: bool = False,
    ) -> None:
        self.certified = yes_no("certified", certified)
        least = math.sqrt(2.0)
        self.radius = radius_of((1.5 if certified else 100.0) if radius is None else radius, least)
        if certified:
            constants = _certified_constants(self.radius, LARGEST_BETA_FEATURES, least, gamma, rho, clamp, half_life)
            self.gamma, self.rho, self.clamp = constants
        else:
            self.gamma, self.rho = constants_of(0.1 if gamma is None else gamma, 25.0 if rho is None else rho)
            self.clamp = clamp_of(USUAL_CLAMP if clamp is None else clamp)
        self.half_life = _half_life(half_life)
        super().__init__()

    def _parameters(self) -> dict[str, Any]:
        return _stored(super()._parameters(), self.certified)

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
        """The current weight of log s."""
        return float(self._held[BETA_A])

    @property
    def b(self) -> float:
        """The current weight of -log(1 - s)."""
        return float(self._held[BETA_B])

    @property
    def c(self) -> float:
        """The current intercept."""
        return float(self._held[BETA_C])

    def _freeze(self) -> Map:
        """The current beta map, which clips scores as the forecaster does."""
        return BetaMap(self.a, self.b, self.c, low=self.clamp, high=1.0 - self.clamp)

    @reading
    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | NoCertificate:
        r"""Bound on the regret against the best beta map of the ball, chosen with all outcomes known.

        .. math:: R_T \le \frac{1}{2\gamma}\Bigl(\log\frac{\det A_T}{\det A_0} + 1\Bigr)
                  \le \frac{1}{2\gamma}\Bigl(3 \log\bigl(1 + \tfrac13 T G^2 / \rho\bigr) + 1\Bigr).

        Parameters
        ----------
        n_rows
            With ``n_rows``, the second bound, which holds for every sequence of this many rows; without, the first, for
            the rows learned.

        Returns
        -------
        OnlineCertificate or NoCertificate
            A certificate only for ``certified=True``, and only if the bound is below T log 2, the bound of forecasting
            1/2 on every row.
        """
        if not self.certified:
            return NoCertificate(
                NoCertificateCode.NO_THEOREM,
                "the regret bound is not proven for these constants, which are chosen for practice: "
                "use OnlineBeta(certified=True)",
            )
        n = self._check_rows(n_rows)
        growth = 3.0 * math.log1p(n * LARGEST_BETA_FEATURES**2 / (3.0 * self.rho))
        if n_rows is None:
            growth = min(growth, math.fsum(math.log(self._held[i] / self.rho) for i in (E1, E2, E3)))
        best = f"the best beta map with a^2 + b^2 + c^2 <= {all_digits(self.radius)}^2"
        bound = (growth + 1.0) / (2.0 * self.gamma)
        return regret_certificate(best, bound, n, self.theorem, clamp=self.clamp, learned=self.n_rows)
