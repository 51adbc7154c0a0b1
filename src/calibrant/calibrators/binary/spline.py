"""A smooth, monotone curve of the log-odds as a calibrator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from calibrant.calibrators.base import BinaryCalibrator, Fit
from calibrant.fits.needs import CURVE_ROWS
from calibrant.fits.scaling import Scaling, rates_text
from calibrant.fits.spline import KNOTS, fit_spline
from calibrant.maps import Map, StepMap
from calibrant.messages import Voice
from calibrant.tallies import Tally


@dataclass(eq=False, repr=False)
class SplineCalibrator(BinaryCalibrator):
    r"""A smooth curve that never falls, as bent as the data ask for and Platt's line where they ask for nothing.

    .. math:: m(s) = \operatorname{expit} f(x), \qquad x = \operatorname{logit}(s), \qquad
              f'(x) = \sum_{j=1}^{K} c_j h_j(x), \quad c_j \ge 0,

    where :math:`h_j` are the hat functions of K knots, constant beyond the outer ones: the slope is piecewise linear,
    f is a quadratic spline with straight ends, and it never falls. Level and slopes minimise

    .. math:: -\sum_i \log \Pr(y_i \mid f(x_i)) + \frac{\lambda}{2} \int (f'')^2 .

    Scores of kind ``"logit"`` or ``"real"`` enter as x themselves.

    - The penalty :math:`\lambda`, a power of 4, is the one of greatest marginal likelihood (REML, by Laplace's method;
      Wood 2011) times an exponential prior of mean 1 on :math:`\lambda^{-1/2}`, which guards few rows from bends by
      chance (Simpson et al. 2017). It needs no folds, so no random numbers, and works for importance weights. In
      simulations it did about as well on new rows as AIC and as five folds, and better than both without a bend.
    - As :math:`\lambda` grows, f becomes a line: Platt's map. The identity, as a limit, would charge for a wrong level
      or slope, the two most common faults, as if they were bends. When fewer than 0.05 parameters are spent on bends,
      the result is the map of :class:`PlattScaling` itself.
    - Knots lie at quantiles, half by rows and half by the Fisher information of Platt's line, so that rare events have
      knots where they happen.

    The result is a table of some hundred straight pieces of the probability over the score, off the curve by about
    0.001 in log-odds or 0.0001 in probability at most, within the range of the scores. It reaches to log-odds of 22 or,
    where some scores are exactly 0 or 1, to what these are read as, and over real scores as far again as their range on
    either side; beyond, it is constant.

    Parameters
    ----------
    n_knots : int
        Most knots, from 2 to 100; the penalty, not this, decides how smooth the curve is.
    penalty : float, optional
        :math:`\lambda`, with x in units of its standard deviation; by default it is chosen. ``inf`` gives Platt's map.
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
    Edges: fewer than three distinct scores, or scores that differ by less than a millionth of their size, give Platt's
    map; one class, separated classes and scores of exactly 0 and 1 are treated as in :class:`PlattScaling`, with a
    note.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (002 Theorem 3.3).
    Cost: one pass to join cells into at most some hundred groups, then about 30 Newton steps on those.
    Reference: Lucena (2018), arXiv:1809.07751, for splines of the log-odds; Ramsay (1988) for monotone ones.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(20_000)
    >>> cal = SplineCalibrator().fit(scores, rng.random(20_000) < scores**3)
    >>> cal.transform([0.5, 0.8]).round(2).tolist()  # the truth is 0.125 and 0.512
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
            return f"no bend: {self.map_!r}"
        return f"{self.freedom_:.1f} effective parameters (2 would be Platt's line), penalty {self.penalty_:.3g}"
