"""Plain ridge regression of outcomes on features and powers of the score, row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number

import numpy as np

from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.online_certificate import OnlineAssumption, OnlineCertificate, all_digits, main_of
from calibrant.maps import Map, PiecewiseLinearMap
from calibrant.messages import InputError
from calibrant.online.factors import dot
from calibrant.online.guards import reading
from calibrant.online.limits import MAX_CLAMP, ULP, ULPS, real, whole, yes_no
from calibrant.online.regression.base import NO_REGRESSORS, RegressionForecaster
from calibrant.online.regression.families import LARGEST_SIZE, clip, polynomials
from calibrant.online.regression.group_features import feature_names
from calibrant.online.settings import read_only
from calibrant.online.stored import register

MAX_FEATURES = 1_900
"""Largest number of features."""

EMPTY = 0.25
"""Brier score of forecasting 1/2 on every row: a bound of at least this is vacuous."""


@register("OnlineRidge")
class OnlineRidge(RegressionForecaster):
    r"""Online ridge regression on features and powers of the score, with forecasts clipped to [0, 1].

    .. math:: \theta_t = \operatorname*{argmin}_\theta \sum_{\tau < t} (\theta \cdot f_\tau - y_\tau)^2
              + \|\theta - \theta_0\|^2, \qquad p_t = \operatorname{clip}(\theta_t \cdot f_t),

    where :math:`f_t` contains the features of row t, the constant 1, the score s and, with ``powers`` = k, the
    Chebyshev polynomials of s up to degree k, which span its powers. :math:`\theta_0` selects the score, or is zero
    without it. Powers of the score fit a link function :math:`P(Y = 1) = h(s)`. With ``include_score=False`` and
    ``constant=False`` it is the algorithm as printed, whose regressors are the features alone.

    Parameters
    ----------
    n_features
        Features of a row, numbers in [-1, 1]: their number or their names, as in :class:`CalibratedRegression`.
    powers
        Highest power of the score, at most 64.
    include_score
        Whether the score is a regressor, at which the regression starts. Without it, the score is not used.
    constant
        Whether the constant 1 is a regressor. Without it, the forecast of a row whose regressors are all 0 is 0.
    clamp
        Forecasts are clipped to this distance from 0 and 1, at most 0.25.

    Notes
    -----
    It nearly matches the best linear function in squared error, and is not calibrated: on outcomes 0 for the first half
    of a stream and 1 for the second its forecasts are too low by a number of events that grows with the stream (Foster
    and Kakade 2006, footnote 1). :class:`CalibratedRegression` adds the forecast itself as a regressor, which repairs
    this. Outcomes may be any number in [0, 1].
    Guarantee: the bound on the squared error of :meth:`certificate`, on every sequence; none on calibration.
    Cost: O(n^2) time per row and numbers for n regressors.
    Reference: Foster and Kakade (2006), Algorithm 1, Theorem 2.1 and section V; Azoury and Warmuth 2001; proof in
    docs/certificates/regression.md.

    Examples
    --------
    The risk is the square of the score; a parabola finds it, a line cannot.

    >>> from calibrant.online import OnlineRidge
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(4000)
    >>> y = rng.random(4000) < s**2
    >>> line, parabola = (OnlineRidge(powers=k).learn_many(s, y) for k in (1, 2))
    >>> round(line.predict_one(0.1), 2), round(parabola.predict_one(0.1), 2)
    (0.0, 0.02)
    """

    powers: int = read_only()

    def __init__(
        self,
        n_features: int | Sequence[str] = 0,
        *,
        powers: int = 1,
        include_score: bool = True,
        constant: bool = True,
        clamp: float = 0.0,
    ) -> None:
        #: Names of the features, if any.
        self.feature_names = () if isinstance(n_features, Number) else feature_names(n_features)
        self.n_features = len(self.feature_names) or whole("n_features", n_features, 0, MAX_FEATURES)
        self.powers = whole("powers", powers, 1, LARGEST_SIZE)
        self.include_score, self.constant = yes_no("include_score", include_score), yes_no("constant", constant)
        if self.powers > 1 and not self.include_score:
            raise InputError("powers", "must be left out with include_score=False, which does not use the score")
        self.clamp = real("clamp", clamp, 0.0, MAX_CLAMP)
        self._n = self.n_features + self.constant + (self.powers if self.include_score else 0)
        if not self._n:
            raise InputError("constant", NO_REGRESSORS)
        self._clear()

    def _fitted(self, s: float, xs: list[float]) -> tuple[float, list[float]]:
        row = [*xs, *[1.0] * self.constant, *(polynomials(s, self.powers) if self.include_score else ())]
        return clip(dot(self._theta, row) + (s if self.include_score else 0.0), self.clamp), row

    @reading
    def certificate(self, n_rows: int | None = None, *, distance: float = 1.0) -> OnlineCertificate | NoCertificate:
        r"""Bound on the Brier score beyond that of the best linear function, chosen with all outcomes known.

        .. math:: \frac1T \sum_t (p_t - y_t)^2 \le \min_{\|\theta - \theta_0\| \le D}
                  \frac1T \sum_t (\theta \cdot f_t - y_t)^2 + \frac{D^2 + V}{T} + \kappa^2,
                  \qquad V \le n \ln(T + 1),

        for n regressors and the clamp :math:`\kappa`.

        Parameters
        ----------
        n_rows
            With ``n_rows``, the bound for every sequence of this many rows; without, for the rows learned, with V as it
            came out.
        distance
            D: the comparison is with functions whose coefficients are within this distance of the first ones (those of
            the score, or zero).

        Returns
        -------
        OnlineCertificate or NoCertificate
            No certificate if the bound is at least 1/4, the Brier score of forecasting 1/2 on every row.
        """
        n, far = self._check_rows(n_rows), real("distance", distance, 0.0, 1e9)
        spent = self._spent if n_rows is None else self._n * math.log1p(n)
        bound = ((far * far + spent) / n + self.clamp * self.clamp) * ULPS + ULP if n else math.inf
        start = "the score" if self.include_score else "zero"
        quantity = (
            f"the Brier score minus that of the best linear function of its {self._n} regressors with coefficients "
            f"within {all_digits(far)} of {start}"
        )
        features = (OnlineAssumption.FEATURES_BEFORE,) if self.n_features else ()
        assumed = (*features, OnlineAssumption.IN_ORDER)
        theorem = "Foster and Kakade 2006, Theorem 2.1, with half the logarithm"
        found = OnlineCertificate(quantity, bound, n, False, assumed, theorem, learned=self.n_rows)
        return main_of(found, EMPTY)

    def _freeze(self) -> Map:
        """The current map, if the forecast is a clipped line of the score alone."""
        if self.n_features:
            return super()._freeze()
        if self.powers > 1:
            raise InputError("OnlineRidge", "has no fixed map, since a clipped polynomial is not a map", "use powers=1")
        level, rise = self._theta[0] * self.constant, 1.0 + self._theta[-1] if self.include_score else 0.0
        bends = [(at - level) / rise for at in (self.clamp, 1.0 - self.clamp)] if rise else []
        knots = sorted({0.0, 1.0, *(b for b in bends if 0.0 < b < 1.0)})
        return PiecewiseLinearMap(np.array(knots), self._predict_many(knots, None))
