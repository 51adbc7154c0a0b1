"""Online temperature and vector scaling of several classes, by online Newton steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.maps.classes import SoftmaxMap
from calibrant.messages import InputError
from calibrant.numerics import Floats
from calibrant.online.classes.base import MulticlassForecaster
from calibrant.online.factors import absorb, solve
from calibrant.online.limits import LEAST_CLAMP, SLACK, changed, check_steps, constants_of, radius_of
from calibrant.online.settings import read_only
from calibrant.online.stored import register

MAX_CLASSES = 100
"""Largest number of classes of vector scaling, whose state grows with the square."""


class SoftmaxForecaster(MulticlassForecaster):
    """Base class of forecasters that change the logits of a row, the logarithms of its probabilities."""

    gamma: float = read_only()
    rho: float = read_only()
    radius: float = read_only()

    def _logs(self, row: list[float], features: Any) -> list[float]:
        if features is not None:
            raise InputError("features", "must be left out", f"{type(self).__name__} uses only the scores")
        return [math.log(min(max(x, LEAST_CLAMP), 1.0)) for x in row]


def _softmax(logits: list[float]) -> list[float]:
    top = max(logits)
    e = [math.exp(x - top) for x in logits]
    total = math.fsum(e)
    return [x / total for x in e]


@register("OnlineTemperature")
class OnlineTemperature(SoftmaxForecaster):
    r"""Online temperature scaling: one slope on the logits, updated by online Newton steps.

    .. math:: p_t = \operatorname{softmax}(a_t z_t), \qquad
              a_{t+1} = \Bigl[a_t - \frac{g_t}{\gamma A_t}\Bigr]_{1/R}^{R}, \quad
              A_t = A_{t-1} + g_t^2, \; A_0 = \rho,

    with :math:`z_t` the logarithms of the probabilities of row t, clipped to at least log 2**-32,
    :math:`g_t = \sum_k p_{t,k} z_{t,k} - z_{t,y_t}` the derivative of the log loss of row t, and
    :math:`a_1 = 1`, the original model. The temperature is 1 / a.

    Parameters
    ----------
    classes
        Class names in the order of the columns, or the number of classes, for 0, 1, ...
    gamma, rho
        Constants of the steps, as in :class:`OnlinePlatt`.
    radius
        The slope is clipped to [1/R, R].

    Notes
    -----
    Guarantee: no finite-sample guarantee and no regret certificate. The constants are those of Gupta (2023), section
    6.2.2, and take ten times the step of Newton's method, to follow drift. After many i.i.d. rows the slope varies
    about 2.3 times as much as a fit to all rows.
    Memory: three numbers. Cost: K logarithms and exponentials per row.
    Reference: Gupta (2023), eq. 1.13 and section 6.6; Hazan 2016, Algorithm 12, in one dimension, where the projection
    is a cut.

    Examples
    --------
    >>> from calibrant.online import OnlineTemperature
    >>> model = OnlineTemperature(3)
    >>> for label in (0, 1, 0, 2) * 50:  # forecast 0.8, right in two of four
    ...     model = model.learn_one([0.8, 0.1, 0.1], label)
    >>> model.predict_one([0.8, 0.1, 0.1]).round(2).tolist(), round(1 / model.slope, 1)
    ([0.49, 0.25, 0.25], 3.2)
    """

    def __init__(
        self, classes: Sequence[Any] | int, *, gamma: float = 0.1, rho: float = 100.0, radius: float = 100.0
    ) -> None:
        super().__init__(classes)
        self.gamma, self.rho = constants_of(gamma, rho)
        self.radius = radius_of(radius)
        self._slope, self._matrix = 1.0, self.rho

    @property
    def slope(self) -> float:
        """The current slope a; the temperature is its inverse."""
        return self._slope

    def _predict_row(self, row: list[float], features: Any) -> Floats:
        return np.array(self._told(self._logs(row, features)))

    def _told(self, z: list[float]) -> list[float]:
        top = max(z)
        return _softmax([self._slope * (x - top) for x in z])

    def _learn_row(self, row: list[float], place: int, features: Any) -> None:
        z = self._logs(row, features)
        g = math.fsum(p * x for p, x in zip(self._told(z), z, strict=True)) - z[place]
        self._matrix += g * g
        self._slope = min(max(self._slope - g / (self.gamma * self._matrix), 1.0 / self.radius), self.radius)

    def _freeze(self) -> SoftmaxMap:
        """The current temperature map."""
        return SoftmaxMap(self.classes, np.array([self.slope]), np.zeros(0), "probability", LEAST_CLAMP)

    def _numbers(self) -> list[float]:
        return [float(self._seen), self.slope, self._matrix]

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        seen, slope, matrix = numbers
        # A gradient is the difference of a logarithm and a mean of logarithms, each at least that of the clamp.
        most = (self.rho + seen * math.log(LEAST_CLAMP) ** 2) * (1.0 + SLACK)
        if not (1.0 / self.radius <= slope <= self.radius and self.rho <= matrix <= most) or (
            not seen and slope != 1.0
        ):
            raise changed("slope")

    def _resume(self, numbers: list[float]) -> None:
        super()._resume(numbers)
        self._slope, self._matrix = float(numbers[1]), float(numbers[2])


@register("OnlineVector")
class OnlineVector(SoftmaxForecaster):
    r"""Online vector scaling: a slope and an intercept for the logit of each class, by online Newton steps.

    .. math:: p_t = \operatorname{softmax}(a_t \odot z_t + b_t), \qquad
              \theta_{t+1} = \Bigl[\theta_t - \tfrac1\gamma A_t^{-1} \nabla_t\Bigr]_{-R}^{R}, \quad
              A_t = A_{t-1} + \nabla_t \nabla_t^\top, \; A_0 = \rho I,

    with :math:`\theta = (a, b)`, 2K numbers that start at a = 1 and b = 0, the original model, :math:`z_t` the
    logarithms of the K probabilities of row t, clipped to at least log 2**-32, and :math:`\nabla_t` the gradient of the
    log loss of row t: :math:`(p_t - e_{y_t}) \odot z_t` for a and :math:`p_t - e_{y_t}` for b.

    Parameters
    ----------
    classes
        Class names in the order of the columns, or the number of classes, for 0, 1, ...; at most 100.
    gamma, rho
        Constants of the steps, as in :class:`OnlinePlatt`.
    radius
        Slopes and intercepts are clipped to [-R, R].

    Notes
    -----
    With two classes its maps are those of beta scaling. It corrects each class, which one temperature
    cannot, and needs more rows: some hundred of each class.
    Guarantee: no finite-sample guarantee and no regret certificate; the constants are those of Gupta (2023), section
    6.2.2, for Platt scaling.
    Memory: K (2K + 3) + 1 numbers. Cost: K logarithms and exponentials and about 6 K^2 products per row: 0.1
    milliseconds for 10 classes.
    Reference: Gupta (2023), sections 1.4.2 and 6.6; Guo, Pleiss, Sun and Weinberger 2017; Hazan 2016, Algorithm 12.

    Examples
    --------
    The model never forecasts the last class above 0.1, and it occurs in a quarter of the rows.

    >>> from calibrant.online import OnlineVector
    >>> model = OnlineVector(3)
    >>> for label in (0, 0, 1, 2) * 100:
    ...     model = model.learn_one([0.7, 0.2, 0.1], label)
    >>> model.predict_one([0.7, 0.2, 0.1]).round(2).tolist()
    [0.49, 0.25, 0.26]
    """

    def __init__(
        self, classes: Sequence[Any] | int, *, gamma: float = 0.1, rho: float = 100.0, radius: float = 100.0
    ) -> None:
        super().__init__(classes)
        k = len(self.classes)
        if k > MAX_CLASSES:
            fix = "use OnlineTemperature, or OnlineMulticlass"
            raise InputError("classes", f"has {k:,} names, but at most {MAX_CLASSES} are allowed", fix)
        self.gamma, self.rho = constants_of(gamma, rho)
        self.radius = radius_of(radius)
        self._theta = [1.0] * k + [0.0] * k
        # Factors L D L' of A; the last entry of a column is the right-hand side of one step.
        self._pivots, self._columns = [self.rho] * (2 * k), [[0.0] * (2 * k - j) for j in range(2 * k)]

    @property
    def slopes(self) -> tuple[float, ...]:
        """The current slopes a, one for each class."""
        return tuple(self._theta[: len(self.classes)])

    @property
    def intercepts(self) -> tuple[float, ...]:
        """The current intercepts b, one for each class; only their differences matter."""
        return tuple(self._theta[len(self.classes) :])

    def _told(self, z: list[float]) -> list[float]:
        k = len(z)
        return _softmax([a * x + b for a, b, x in zip(self._theta[:k], self._theta[k:], z, strict=True)])

    def _predict_row(self, row: list[float], features: Any) -> Floats:
        return np.array(self._told(self._logs(row, features)))

    def _learn_row(self, row: list[float], place: int, features: Any) -> None:
        z = self._logs(row, features)
        off = self._told(z)
        off[place] -= 1.0
        gradient = [*(g * x for g, x in zip(off, z, strict=True)), *off]
        for column in self._columns:
            column[-1] = 0.0
        absorb(self._pivots, self._columns, [*gradient, 1.0])
        far = self.radius
        moves = zip(self._theta, solve(self._columns), strict=True)
        self._theta = [min(max(t - m / self.gamma, -far), far) for t, m in moves]

    def _freeze(self) -> SoftmaxMap:
        """The current vector scaling map."""
        return SoftmaxMap(self.classes, np.array(self.slopes), np.array(self.intercepts), "probability", LEAST_CLAMP)

    def _numbers(self) -> list[float]:
        factors = [x for column in self._columns for x in column[:-1]]
        return [float(self._seen), *self._theta, *self._pivots, *factors]

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        k = len(self.classes)
        d, most = 2 * k, math.log(LEAST_CLAMP) ** 2
        adds = [most] * k + [1.0] * k  # most that a row adds to the diagonal of A
        pivots = {1 + d + i: adds[i] for i in range(d)}
        below = [adds[i] for j in range(d) for i in range(j + 1, d)]
        factors = {1 + 2 * d + i: add for i, add in enumerate(below)}
        begin = [0.0] * (1 + d) + [self.rho] * d + [0.0] * len(below)
        check_steps(numbers, begin, pivots, factors, self.radius * math.sqrt(d))

    def _resume(self, numbers: list[float]) -> None:
        super()._resume(numbers)
        d = 2 * len(self.classes)
        self._theta, self._pivots = numbers[1 : 1 + d], numbers[1 + d : 1 + 2 * d]
        at = 1 + 2 * d
        for j in range(d):
            self._columns[j] = [*numbers[at : at + d - 1 - j], 0.0]
            at += d - 1 - j
