"""Calibration by regression: forecasts that are unbiased on every group and test function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.maps import Map, PiecewiseLinearMap
from calibrant.messages import InputError
from calibrant.numerics import Floats
from calibrant.online.factors import diagonal, dot
from calibrant.online.guards import reading
from calibrant.online.limits import MAX_CLAMP, real, whole, yes_no
from calibrant.online.regression.base import NO_REGRESSORS, RegressionForecaster
from calibrant.online.regression.certificate import Guaranteed
from calibrant.online.regression.families import (
    FAMILIES,
    LARGEST_SIZE,
    SIZES,
    active_functions,
    clip,
    fixed_point,
    kinked_fixed_point,
    line_fixed_point,
    own_values,
)
from calibrant.online.regression.group_features import feature_names
from calibrant.online.settings import read_only
from calibrant.online.stored import register

OwnFunctions = Callable[[float, float, Sequence[float]], Sequence[float]]
"""Function of a forecast, a score and features with values in [-1, 1], continuous in the forecast."""

MAX_REGRESSORS = 2_000
"""Largest number of regressors; with this many, a row takes about half a second."""

JUMP = 1e-6
"""Largest error of a fixed point; a larger one means that a test function is not continuous."""

OWN = "own"
"""Placeholder in states for user-defined test functions."""


@register("CalibratedRegression")
class CalibratedRegression(RegressionForecaster):
    r"""Online forecasts that are unbiased on every group, by ridge regression on its own forecasts.

    .. math:: \theta_t = \operatorname*{argmin}_\theta \sum_{\tau < t} (\theta \cdot f_\tau(p_\tau) - y_\tau)^2
              + \|\theta - \theta_0\|^2, \qquad p_t = \operatorname{clip}(\theta_t \cdot f_t(p_t)),

    where :math:`f_t(p)` contains the features of row t, the requested functions of the forecast, the constant 1, the
    score and p itself, and the forecast is the fixed point. :math:`\theta_0` selects the score, or is zero without it.
    Including p among the regressors makes the errors :math:`p_t - y_t` nearly
    orthogonal to every :math:`f_i`, which plain ridge regression does not (Foster and Kakade 2006, footnote 1). With
    ``include_score=False`` and ``constant=False`` it is their algorithm as printed.

    The guarantee for a group is on its SUM of errors: as many events as were forecast, up to the bound. It does not say
    that forecasts of 0.2 come true in two of ten rows of the group, and of 0.8 in eight: forecasts that are too high
    and too low can cancel. For that, use ``each_feature=True`` with hats or polynomials.

    Parameters
    ----------
    n_features
        Features of a row: memberships of groups, which may overlap, or other numbers in [-1, 1]. Their number or their
        names. With names, columns of a frame and entries of a mapping are found by name, in any order and among others;
        lists and arrays are in the order of the names. With a number all are read in order, also those of a frame.
    test_functions
        ``"features"``: unbiased on all rows, on each feature, and against the score and the forecast.
        ``"polynomials"``: also against polynomials of the forecast up to degree ``size``. ``"hats"``: also against hat
        functions on [0, 1], a continuous version of bins. Or a function of (forecast, score, features) that returns
        ``size`` numbers in [-1, 1] and is continuous in the forecast.
    size
        Number of functions of the family, of which the first is the forecast itself, at most 64; by default 1, 4 or 16.
    each_feature
        Whether every function of the forecast is also used on each feature: with hats or polynomials, calibrated inside
        each group at each level of the forecast. It adds ``n_features * size`` regressors.
    growing
        Whether the functions are added one by one, as many as the cube root of the rows, up to ``size``.
    include_score
        Whether the score is a regressor, at which the regression starts. Without it, the score is not used.
    constant
        Whether the constant 1 is a regressor. Without it there is no guarantee on all rows together, but those on the
        features, the score and the functions of the forecast hold.
    clamp
        Forecasts are clipped to this distance from 0 and 1, at most 0.25.

    Notes
    -----
    Features are checked on every row: ``n_features`` of them, none missing, each in [-1, 1]. Outcomes may be any number
    in [0, 1]. Equal and constant features are allowed. Forecasts are deterministic: the same rows give the same
    numbers. Forecasts of exactly 0 and 1 occur, from the second row, for which the log loss can be infinite: evaluate
    them by the Brier score, or pass ``clamp=0.001``.

    Guarantee: on every sequence, chosen by anyone who sees each forecast, after every row T and for each test function
    i, :math:`|\sum_t f_{t,i} (p_t - y_t)| \le \sqrt{\tau_i (c + n \ln(T + 1) + \kappa^2 T)}`, where
    :math:`\tau_i = 1 + \sum_t f_{t,i}^2`, n counts the regressors, :math:`\kappa` is the clamp, and c is 2 with the
    score and 1 without; for score and forecast 1 is added on the right. With the score the sum of squared errors is at
    most :math:`n \ln(T + 1) + \kappa^2 T` above that of the score. It assumes that each outcome is learned before the
    next forecast. If outcomes come late, it holds for forecasts recomputed when each outcome is learned, not for those
    that were issued. Proof: docs/certificates/regression.md.
    Cost: O(n^2) time per row and O(n^2) numbers, however long the stream: the factors L D L' of the matrix, with the
    right-hand side as the last row, are updated by rank one without subtraction in D.
    Reference: Foster and Kakade (2006), Algorithm 2, Theorem 3.3, Corollary 4.1 and sections III.C, IV.A; Gill et al.
    1974, method C1.

    Examples
    --------
    The model scores all rows 0.5, but the first group has no events and the second only events.

    >>> regression = CalibratedRegression(n_features=2)
    >>> for t in range(400):
    ...     regression = regression.learn_one(0.5, t % 2, [1 - t % 2, t % 2])
    >>> round(regression.predict_one(0.5, [1, 0]), 2), round(regression.predict_one(0.5, [0, 1]), 2)
    (0.0, 1.0)

    With names, and the guarantee for a group of 5,000 rows in a stream of 20,000:

    >>> regression = CalibratedRegression(["north", "mobile"]).learn_one(0.5, 1, {"mobile": 1, "north": 0})
    >>> found = regression.certificate(20_000, group_rows=5_000)
    >>> print(f"{found.bound:.1f} events, {found.rate:.4f} of the group")
    507.6 events, 0.1015 of the group
    """

    test_functions: str | OwnFunctions = read_only()
    size: int = read_only()
    each_feature: bool = read_only()
    growing: bool = read_only()

    def __init__(
        self,
        n_features: int | Sequence[str] = 0,
        *,
        test_functions: str | OwnFunctions = "features",
        size: int | None = None,
        each_feature: bool = False,
        growing: bool = False,
        include_score: bool = True,
        constant: bool = True,
        clamp: float = 0.0,
    ) -> None:
        #: Names of the features, if any.
        self.feature_names = () if isinstance(n_features, Number) else feature_names(n_features)
        self.n_features = len(self.feature_names) or whole("n_features", n_features, 0, MAX_REGRESSORS)
        self.test_functions, self.clamp = test_functions, real("clamp", clamp, 0.0, MAX_CLAMP)
        own = callable(test_functions)
        if test_functions == OWN:
            raise InputError(
                "state",
                "has user-defined test_functions, which a state cannot store",
                "create the forecaster with them, then call its restore(state)",
            )
        if not own and not (isinstance(test_functions, str) and test_functions in FAMILIES):
            raise InputError(
                "test_functions", f"must be one of {', '.join(FAMILIES)}, or a function, not {test_functions!r}"
            )
        if own and (size is None or each_feature or growing):
            raise InputError("size", "must be given with user-defined test_functions, without each_feature and growing")
        self.size = whole("size", SIZES[str(test_functions)] if size is None else size, 1, LARGEST_SIZE)
        if self.size > 1 and test_functions == "features":
            raise InputError("size", f"must be 1 or left out for test_functions='features', not {size!r}")
        self.each_feature, self.growing = yes_no("each_feature", each_feature), yes_no("growing", growing)
        self.include_score, self.constant = yes_no("include_score", include_score), yes_no("constant", constant)
        # Functions of the forecast, of which the first is the forecast itself.
        self._n_functions = self.size + own
        self._n = self._regressors(self._n_functions)
        if self._n == 1:  # the forecast, which would stay 0
            raise InputError("constant", NO_REGRESSORS)
        if self._n > MAX_REGRESSORS:
            raise InputError(
                "n_features",
                f"needs {self._n:,} regressors, but at most {MAX_REGRESSORS:,} are allowed",
                "use fewer features or fewer test functions",
            )
        self._clear()

    def _regressors(self, functions: int) -> int:
        products = self.n_features * functions if self.each_feature else 0
        return self.n_features + products + functions + self.constant + self.include_score

    @property
    def _sums(self) -> int:
        return self._n

    def _fitted(self, s: float, xs: list[float]) -> tuple[float, list[float]]:
        p, values = self._forecast(s, xs)
        return p, self._regress(s, xs, values)

    def _forecast(self, s: float, xs: list[float]) -> tuple[float, list[float]]:
        """The fixed point, and the values of the functions of the forecast there."""
        functions, clamp = self._functions(s, xs), self.clamp
        level, slopes = self._collapsed(s, xs)
        if self._n_functions == 1:
            p = line_fixed_point(level, slopes[0], clamp)
            return p, [p]

        def value(q: float) -> float:
            return level + dot(slopes, functions(q))

        if self.test_functions == "hats":  # k hats are linear between the points of the next power of two
            p = kinked_fixed_point(value, 1 << (self._active - 1).bit_length(), clamp)
        else:
            p = fixed_point(value, clamp)
        values = functions(p)
        if callable(self.test_functions) and abs(clip(level + dot(slopes, values), clamp) - p) > JUMP:
            raise InputError("test_functions", f"must be continuous in the forecast, but jump at {p:.6g}")
        return p, values

    def _functions(self, s: float, xs: list[float]) -> Callable[[float], list[float]]:
        if callable(self.test_functions):
            own, size = self.test_functions, self.size
            return lambda p: [p, *own_values(own(p, s, list(xs)), size)]
        family, size = FAMILIES[self.test_functions], self._active
        return lambda p: family(p, size)

    @property
    def _active(self) -> int:
        return active_functions(self._seen, self._n_functions) if self.growing else self._n_functions

    def _collapsed(self, s: float, xs: list[float]) -> tuple[float, list[float]]:
        """The regression for this row as a constant and one coefficient for each function of the forecast."""
        theta, d, k = self._theta, self.n_features, self._n_functions
        level = dot(theta, xs) + (theta[self._n - 2 - self.include_score] if self.constant else 0.0)
        if self.include_score:
            level += (1.0 + theta[-2]) * s
        own = d + (d * k if self.each_feature else 0)
        slopes = [theta[-1], *theta[own : own + k - 1]]
        if self.each_feature:
            slopes = [b + dot(theta[d + j * d : d + (j + 1) * d], xs) for j, b in enumerate(slopes)]
        return level, slopes

    def _regress(self, s: float, xs: list[float], values: list[float]) -> list[float]:
        """All regressors of a row, in storage order."""
        values = values + [0.0] * (self._n_functions - len(values))
        products = [x * v for v in values for x in xs] if self.each_feature else []
        return xs + products + values[1:] + [1.0] * self.constant + [s] * self.include_score + [values[0]]

    # ---------------------------------------------------------------------------------------------- what it guarantees

    @property
    @reading
    def errors(self) -> Floats:
        r"""Sum of errors :math:`\sum_t f_{t,i} (p_t - y_t)` of each test function so far, the features first.

        In events: 12 means that 12 more events were forecast in the group than were observed. After the features come
        products of the functions of the forecast with the features (if requested), those functions themselves, the
        constant (all rows) and the score, if included, and the forecast.

        :math:`p_t` is the forecast at the time when row t is learned. With late outcomes it is not the issued forecast,
        whose errors may be several times larger: sum those from your own record of issued forecasts.
        """
        return np.array(self._errors)

    @property
    @reading
    def bounds(self) -> Floats:
        r"""Upper bounds on the absolute :attr:`errors`, from the rows so far.

        :math:`\sqrt{\tau_i (c + v + \kappa^2 T)}` with :math:`v = \sum_t (p_t - y_t)^2 q_t / (1 + q_t)`,
        :math:`q_t = f_t \cdot A_{t-1}^{-1} f_t`, which is never above :math:`n \ln(T + 1)`; 1 more for score and
        forecast. Like the errors they are about forecasts at the time of learning, not about those issued before.
        """
        squares = diagonal(self._pivots, self._columns)
        found = np.sqrt(squares * (self._start + self._spent + self._inexact(self._seen)))
        # For score and forecast a linear term of at most 1 remains: see docs/certificates/regression.md.
        found[self._n - 1 - self.include_score :] += 1.0
        return found

    @property
    def _start(self) -> float:
        """Squared distance between the initial coefficients and those of the forecast itself."""
        return 2.0 if self.include_score else 1.0

    def _inexact(self, rows: int) -> float:
        """Most that clipping, or an error of JUMP in the fixed point, can add to squared errors."""
        return (self.clamp * self.clamp + (2.0 * JUMP if callable(self.test_functions) else 0.0)) * rows

    @reading
    def certificate(
        self, n_rows: int | None = None, group_rows: int | None = None
    ) -> OnlineCertificate | NoCertificate:
        """The guarantee after ``n_rows`` rows, for all rows or for groups of a given size.

        Parameters
        ----------
        n_rows
            Number of rows of the stream; by default the rows learned so far.
        group_rows
            Number of rows in a group that is one of the features. The bound, in events, grows as its square root. It
            holds for groups of up to this many rows, not for larger ones; for smaller groups it is a larger share.
            Without it, the guarantee is for all rows (with the constant), every feature, and every test function, of
            which the first is the forecast itself. Groups that are not features have no guarantee.

        Returns
        -------
        EventsCertificate or NoCertificate
            Prints as a sentence.

        Notes
        -----
        It is about the sum of errors of the forecasts at the time each outcome is learned. With late outcomes these are
        not the forecasts that were issued, for which there is no guarantee.
        """
        rows = self._check_rows(n_rows)
        active = active_functions(max(rows - 1, 0), self._n_functions) if self.growing else self._n_functions
        spend = self._start + self._regressors(active) * math.log1p(rows) + self._inexact(rows)
        found = Guaranteed(self, active)
        return found.everywhere(rows, spend) if group_rows is None else found.in_groups(rows, group_rows, spend)

    def _freeze(self) -> Map:
        """The current map, if the forecast is a clipped line of the score alone."""
        level, slopes = self._collapsed(0.0, [])
        if self.n_features or self._n_functions > 1 or slopes[0] >= 1.0:
            return super()._freeze()
        rise = self._collapsed(1.0, [])[0] - level
        ends = (self.clamp, 1.0 - self.clamp)
        bends = [(at * (1.0 - slopes[0]) - level) / rise for at in ends] if rise else []
        knots = sorted({0.0, 1.0, *(b for b in bends if 0.0 < b < 1.0)})
        return PiecewiseLinearMap(np.array(knots), self._predict_many(knots, None))

    # -------------------------------------------------------------------------------------------------- its state

    def _parameters(self) -> dict[str, Any]:
        functions = OWN if callable(self.test_functions) else self.test_functions
        return {**super()._parameters(), "test_functions": functions}
