"""A smooth, monotone curve of the log-odds."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from calibrant.calibrators.base import Fit
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.fits.needs import CURVE_ROWS
from calibrant.fits.scaling import Scaling, rates_text
from calibrant.fits.spline import KNOTS, fit_spline
from calibrant.maps import Map, StepMap
from calibrant.messages import Voice
from calibrant.tallies import Tally


@dataclass(eq=False, repr=False)
class SplineCalibrator(BinaryCalibrator):
    r"""Smooth non-decreasing curve of the log-odds; its smoothness is chosen by the data.

    .. math:: m(s) = \operatorname{expit} f(x), \qquad x = \operatorname{logit}(s), \qquad
              f'(x) = \sum_{j=1}^{K} c_j h_j(x), \quad c_j \ge 0,

    where :math:`h_j` are the hat functions of K knots, constant beyond the outer ones. So the slope is piecewise
    linear, and f is a quadratic spline with straight ends that never decreases. Intercept and slopes minimize

    .. math:: -\sum_i \log \Pr(y_i \mid f(x_i)) + \frac{\lambda}{2} \int (f'')^2 .

    Scores of type ``"logit"`` or ``"real"`` are used as x.

    - The penalty :math:`\lambda`, a power of 4, maximizes the marginal likelihood (REML, by Laplace's method; Wood
      2011) times an exponential prior of mean 1 on :math:`\lambda^{-1/2}`, which protects against overfitting with few
      rows (Simpson et al. 2017). It needs no folds and no random numbers, and works with importance weights. In
      simulations its loss on new rows was about that of AIC and of five-fold cross-validation, and lower than both if
      the true curve is a line.
    - As :math:`\lambda` grows, f becomes a line, which is Platt scaling. Shrinking to the identity instead would
      penalize a wrong intercept or slope, the two most common errors, like curvature. If the curve has fewer than 0.05
      effective parameters beyond a line, the result is the map of :class:`PlattScaling`.
    - Knots are at quantiles, half by rows and half by the Fisher information of the Platt fit, so that rare events have
      knots where they occur.

    The result is a piecewise linear map with some hundred pieces. Within the range of the scores it differs from the
    curve by at most about 0.001 in log-odds or 0.0001 in probability. It extends to log-odds of 22 or, if some scores
    are exactly 0 or 1, to the values that these are read as; for real scores, by their range on either side. Beyond
    that, it is constant.

    Parameters
    ----------
    n_knots : int
        Maximum number of knots, from 2 to 100; the smoothness is controlled by the penalty, not by this.
    penalty : float, optional
        :math:`\lambda`, with x in units of its standard deviation; by default it is estimated. ``inf`` gives Platt
        scaling.
    soft_targets, limits : bool
        As in :class:`PlattScaling`.
    clamp : float, optional
        As in :class:`PlattScaling`.

    Attributes
    ----------
    penalty_ : float
        The penalty used.
    freedom_ : float
        Effective number of parameters; 2 is a line.

    Notes
    -----
    Edge cases: fewer than three distinct scores, or scores that differ by less than a millionth of their size, give
    Platt scaling. One class, separated classes and scores of exactly 0 and 1 are treated as in :class:`PlattScaling`,
    with a note.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (Gupta 2023,
    Theorem 3.3).
    Cost: one pass to merge cells into at most some hundred groups, then about 30 Newton steps on those.
    Reference: Lucena (2018), arXiv:1809.07751, for splines of the log-odds; Ramsay (1988) for monotone splines.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(20_000)
    >>> cal = SplineCalibrator().fit(scores, rng.random(20_000) < scores**3)
    >>> cal.transform([0.5, 0.8]).round(2).tolist()  # the true values are 0.125 and 0.512
    [0.13, 0.52]
    """

    _needed_minority: ClassVar[int] = CURVE_ROWS
    penalty_: float = field(init=False)
    freedom_: float = field(init=False)

    n_knots: int = KNOTS
    _: KW_ONLY
    penalty: float | None = None
    soft_targets: bool = False
    limits: bool = False
    clamp: float | None = None

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        how = Scaling(soft_targets=self.soft_targets, limits=self.limits)
        fit = fit_spline(tally, how, n_knots=self.n_knots, penalty=self.penalty)
        return Fit(fit.map, fit.notes, {"penalty_": fit.penalty, "freedom_": fit.freedom})

    def _describe(self, voice: Voice) -> str:
        if isinstance(self.map_, StepMap):
            return rates_text(self.map_)
        if self.penalty_ == float("inf"):
            return f"no curvature: {self.map_.words}"
        return f"{self.freedom_:.1f} effective parameters (2 would be Platt scaling), penalty {self.penalty_:.3g}"
