"""Calibration intercept and slope, expected over observed events, and flexible calibration curves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_option, check_whole
from calibrant.messages import InputError, Note
from calibrant.metrics.binary.bins import GroupedScores, Scores, grouped_or_tally, tally_of
from calibrant.metrics.binary.curves.distances import DRAWS, smoother_intervals, spline_intervals
from calibrant.metrics.binary.curves.log_odds import LogOdds, event_ratios, fit_intercept, fit_slope
from calibrant.metrics.draws import Draws, inverted, widened
from calibrant.metrics.estimates import Estimate, Result
from calibrant.metrics.smoothers import SMOOTHERS, Method, row_quantiles
from calibrant.metrics.variance import FEWEST_CLUSTERS, few_groups, too_few_samples
from calibrant.notebook import table_block
from calibrant.numerics import Column, Floats, Grid
from calibrant.tallies import Clusters, Tally

MANY_CELLS = 1 << 16
"""With more cells than this, curves are fitted on the grid, whose cells are at most 0.1 % wide."""

Four = tuple[float, float, float, float]
"""A number for each of ICI, E50, E90 and Emax."""

PLACES = 201
"""Default number of scores at which a curve is evaluated."""


@dataclass(frozen=True)
class Recalibration(Result):
    """Calibration in the large, calibration slope and expected over observed events, with 95 % intervals.

    Attributes
    ----------
    intercept
        Intercept on the log-odds with the slope fixed at 1; 0 is ideal, and a positive one means that the scores are
        too low.
    slope, slope_intercept
        Slope on the log-odds (1 is ideal; below 1 the scores are too extreme) and the intercept estimated with it.
    covariance
        Covariances of (slope, slope_intercept), by rows.
    expected_over_observed, observed_over_expected
        Sum of scores over events, and its inverse; 1 is ideal.
    rows, expected, observed
        Number of rows (or sum of weights), sum of scores, events.
    notes
        What the reader must know, one sentence each.
    """

    intercept: Estimate
    slope: Estimate
    slope_intercept: Estimate
    covariance: tuple[tuple[float, float], tuple[float, float]]
    expected_over_observed: Estimate
    observed_over_expected: Estimate
    rows: float
    expected: float
    observed: float
    notes: tuple[Note, ...] = ()

    def _estimates(self) -> dict[str, Estimate]:
        return {key: value for key, value in vars(self).items() if isinstance(value, Estimate)}

    def __str__(self) -> str:
        lines = [f"{'':<44}{'value':>9}{'low':>9}{'high':>9}   ideal"]
        lines += [f"{name:<44}{value:>9}{low:>9}{high:>9}{ideal:>8}" for name, value, low, high, ideal in self._rows()]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """For notebooks: the table, and the notes."""
        return table_block(
            ("", "value", "low", "high", "ideal"), self._rows(), notes=[f"  {note}" for note in self.notes]
        )

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        """Name, value, ends of the interval and ideal value of each number, as text."""
        rows = []
        for estimate, ideal in zip(self._estimates().values(), (0, 1, 0, 1, 1), strict=True):
            ends = (math.nan if end is None else end for end in (estimate.value, estimate.low, estimate.high))
            value, low, high = (f"{end:.4f}" for end in ends)
            rows.append((estimate.name, value, low, high, str(ideal)))
        return rows


def recalibration(
    scores: GroupedScores, y: Column = None, sample_weight: Column = None, *, groups: Column = None
) -> Recalibration:
    r"""Calibration intercept and slope by logistic regression on the log-odds, and expected over observed events.

    .. math:: \operatorname{logit} P(Y = 1) = \alpha_0 + z, \qquad \operatorname{logit} P(Y = 1) = \alpha + \beta z,
              \qquad z = \operatorname{logit}(s), \qquad E/O = \sum_i s_i \Big/ \sum_i y_i,

    where :math:`\alpha_0` is the calibration in the large, :math:`\beta` the calibration slope with its own intercept
    :math:`\alpha`, all by maximum likelihood.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y``, ``sample_weight`` and ``groups``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    groups : array-like, optional
        Groups of dependent rows, such as patients or customers. With fewer than ten groups there are no intervals.

    Returns
    -------
    Recalibration
        Intercept, slope and ratio of expected to observed events, with intervals.

    Notes
    -----
    Edges: scores nearer than 2^-32 to 0 or 1 are clipped before log-odds are taken, and counted in a note. With one
    class, or (for the slope) separated classes or a constant score, the value is NaN with a note. Weights count as
    repetition.
    Intervals: with the variance of the observed residuals, so that they are right when the scores are wrong, and no
    narrower than for calibrated scores. For O/E and the intercept with the slope fixed at 1, Clopper and Pearson's
    interval of the event rate at the effective sample size :math:`n^* = n^2 q (1 - q) / \sum_i (y_i - m_i)^2`, where q
    is the observed rate of n rows and :math:`m_i` are the scores times O/E, or shifted. For the slope, the profile
    likelihood with the HC3 sandwich; for the intercept estimated with it, normal with the same sandwich. Intercept and
    slope are the same as in :func:`calibrant.check`. Importance weights and ``groups`` of dependent rows change
    the variance of each number (:func:`~calibrant.metrics.variance.spread_of`); with fewer than ten groups there are no
    intervals.
    Guarantee: no finite-sample guarantee. In simulations with 20 to 1,000 events, of calibrated, overconfident and
    wrongly shaped scores, the intervals covered in 93 to 98 % of samples (``benchmarks/intervals.py``).
    Cost: O(cells) for each of about ten Newton steps and ten root-finding steps.
    References: Cox (1958), Two further applications of a model for binary regression; Steyerberg (2019), Clinical
    Prediction Models; Debray et al. (2017), A guide to systematic review and meta-analysis of prediction
    model performance, for the log scale of O/E.

    Examples
    --------
    >>> from scipy.special import expit, logit
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> y = (rng.random(2000) < expit(0.7 * logit(scores) - 0.3)).astype(int)
    >>> print(recalibration(scores, y))
                                                    value      low     high   ideal
    intercept, slope fixed at 1                   -0.3422  -0.4612  -0.2233       0
    slope                                          0.7142   0.6401   0.7915       1
    intercept, slope estimated                    -0.2947  -0.3967  -0.1927       0
    expected over observed (E/O)                   1.1275   1.0800   1.1790       1
    observed over expected (O/E)                   0.8869   0.8482   0.9260       1
    """
    data = LogOdds.of(grouped_or_tally(scores, y, sample_weight, groups))
    slope, beside, covariance = fit_slope(data)
    ratio, inverse = event_ratios(data)
    return Recalibration(
        fit_intercept(data),
        slope,
        beside,
        covariance,
        ratio,
        inverse,
        data.total,
        data.expected,
        data.observed,
        data.notes(),
    )


@dataclass(frozen=True, eq=False)
class CalibrationCurve(Result):
    """Event rate as a function of the score: ``rates[i]`` at ``scores[i]``."""

    method: Method
    scores: Floats
    rates: Floats
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        lines = [f"{'score':>8}{'rate':>9}   ({self.method})"]
        lines += [f"{score:>8}{rate:>9}" for score, rate in self._rows()]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """For notebooks: some points of the curve, and the notes."""
        notes = [f"  {note}" for note in self.notes]
        return table_block(("score", "rate"), self._rows(), title=f"Calibration curve ({self.method})", notes=notes)

    def _rows(self) -> list[tuple[str, str]]:
        """Score and rate at up to eleven places, as text."""
        shown = np.unique(np.linspace(0, len(self.scores) - 1, min(11, len(self.scores))).astype(int))
        return [(f"{self.scores[i]:.4f}", f"{self.rates[i]:.4f}") for i in shown]


@dataclass(frozen=True)
class CurveErrors(Result):
    """Distances between a flexible calibration curve and the diagonal, over rows.

    Attributes
    ----------
    method
        The smoother.
    ici, e50, e90, emax
        Mean, median, 90 % quantile and largest distance.
    se
        Bootstrap standard errors of the four, in this order; None without bootstrap.
    notes
        What the reader must know, one sentence each.
    low, high
        Ends of 95 % intervals of the four, in this order; None where there are none.
    """

    method: Method
    ici: float
    e50: float
    e90: float
    emax: float
    se: Four | None = None
    notes: tuple[Note, ...] = ()
    low: Four | None = None
    high: Four | None = None

    def __str__(self) -> str:
        values = [self.ici, self.e50, self.e90, self.emax]
        errors = [""] * 4 if self.se is None else [f" (standard error {value:.4f})" for value in self.se]
        if self.low is not None and self.high is not None:
            ends = zip(self.low, self.high, strict=True)
            errors = [f" (95 % CI {low:.4f} to {high:.4f})" for low, high in ends]
        names = ("ICI", "E50", "E90", "Emax")
        shown = ", ".join(f"{name} {value:.4f}{se}" for name, value, se in zip(names, values, errors, strict=True))
        return "\n".join([f"{shown}; {self.method} curve", *(f"  {note}" for note in self.notes)])


def calibration_curve(
    scores: Scores, y: Column = None, sample_weight: Column = None, *, method: Method = "spline", at: Column = None
) -> CalibrationCurve:
    r"""Flexible calibration curve: the event rate :math:`c(s) \approx P(Y = 1 \mid s)` without bins.

    .. math:: \operatorname{logit} c(s) = \beta_0 + \beta_1 z + \sum_{j=1}^{k-2} \beta_{j+1} B_j(z), \qquad
              z = \operatorname{logit}(s),

    for the spline, where :math:`B_j` are cubic between k knots and linear beyond the outer ones.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    method
        ``"spline"``: logistic regression on a restricted cubic spline of the log-odds, with 5 knots at Harrell's
        quantiles of the scores (0.05, 0.275, 0.5, 0.725, 0.95), or 4, 3 or none if the minority class has fewer than 5
        rows per knot, quantiles coincide, or the fit does not converge. ``"loess"``: R's ``loess(y ~ s)``
        with ``surface = "direct"``, which CalibrationCurves and Austin and Steyerberg use: local quadratics with
        tricube weights on the nearest 3/4 of the rows. ``"lowess"``: R's ``lowess(s, y, iter = 0)``, which
        ``rms::val.prob`` uses: local lines on the nearest 2/3 of the rows. Both can exceed [0, 1].
        ``"isotonic"``: isotonic regression (pool adjacent violators).
    at
        Scores at which to evaluate the curve; by default 201 equally spaced scores from the lowest to the highest.

    Returns
    -------
    CalibrationCurve
        Scores and the fitted event rate at each.

    Notes
    -----
    Edges: the spline is NaN, with a note, for one class or separated classes. Integer weights count as repetition;
    other weights are rescaled to the effective sample size. Where a window of the lowess ends inside a tied score, some
    of its rows enter, at that score's rate. With more than 65,536 distinct scores the curve is fitted on a grid, and a
    loess at more than 2,000 places is interpolated between 500.
    Guarantee: no finite-sample guarantee.
    Cost: O(cells) per Newton step (spline), O(cells) for each of about 200 local lines (lowess)
    or for each place (loess), O(cells) (isotonic).
    References: Harrell (2015), Regression Modeling Strategies, section 2.4.5; Cleveland (1979), Robust
    locally weighted regression; Austin and Steyerberg (2019), The Integrated Calibration Index.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> y = (rng.random(2000) < scores**1.5).astype(int)
    >>> calibration_curve(scores, y, at=[0.25, 0.5, 0.75]).rates.round(3).tolist()
    [0.132, 0.346, 0.63]
    """
    check_option("method", method, get_args(Method))
    tally = _compact(tally_of(scores, y, sample_weight))
    curve = SMOOTHERS[method](tally.scores, tally.n, tally.events)
    if at is None:
        places = np.linspace(tally.scores[0], tally.scores[-1], PLACES)
    else:
        places = np.asarray(at, dtype=np.float64)
        if places.ndim != 1 or not ((places >= 0.0) & (places <= 1.0)).all():
            raise InputError("at", "must be a list of scores in [0, 1]", "leave it out for equal steps")
    return CalibrationCurve(method, places, curve.at(places), curve.notes)


def ici(
    scores: GroupedScores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    method: Method = "spline",
    repetitions: int = 200,
    random_state: int = 0,
    groups: Column = None,
) -> CurveErrors:
    r"""Integrated calibration index (ICI), E50, E90 and Emax: distances of a calibration curve from the diagonal.

    .. math:: \mathrm{ICI} = \frac1n \sum_i |c(s_i) - s_i|,

    where c is the curve of :func:`calibration_curve`; E50, E90 and Emax are the median, the 90 % quantile and the
    maximum of the same distances.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y``, ``sample_weight`` and ``groups``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    method
        The smoother, as in :func:`calibration_curve`.
    repetitions
        Random samples for the standard errors and intervals, for the spline at least 600; 0 omits them.
    random_state
        Seed of the bootstrap.
    groups
        Groups of dependent rows; the bootstrap then draws whole groups.

    Returns
    -------
    CurveErrors
        ICI, E50, E90 and Emax, with standard errors and 95 % intervals.

    Notes
    -----
    Edges: NaN, with a note, where the curve is not defined; such bootstrap samples are left out of the standard errors.
    Weights as in :func:`calibration_curve`; the bootstrap draws as many rows as the effective sample size.
    Guarantee: no finite-sample guarantee. All four are biased upward, since they are distances: the curve of a
    calibrated model is not exactly the diagonal either. The intervals allow for this, and begin at 0 where a calibrated
    model may show such distances. For the spline they invert a test in the coefficients of the curve, along three
    directions (``docs/certificates/curve-distances.md``); for the other smoothers they are those of
    :func:`~calibrant.metrics.interval.interval`, whose coverage was simulated in few samples.
    Cost: one fit and a sort of the cells; for the spline then about 40 times ``repetitions`` (at least 600) evaluations
    of the curve on at most 300 cells, less than a second; for the others seven times ``repetitions`` fits.
    References: Austin and Steyerberg (2019), The Integrated Calibration Index (ICI) and related metrics for quantifying
    the calibration of logistic regression models.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> y = (rng.random(2000) < scores**1.5).astype(int)
    >>> print(ici(scores, y, repetitions=0))
    ICI 0.1008, E50 0.1174, E90 0.1544, Emax 0.1557; spline curve
    """
    check_option("method", method, get_args(Method))
    check_whole("repetitions", repetitions, 0)
    check_whole("random_state", random_state, 0)
    data = grouped_or_tally(scores, y, sample_weight, groups)
    tally = _compact(data.tally if isinstance(data, Clusters) else data)
    values, notes = _distances(method, tally.scores, tally.n, tally.events)
    se = low = high = None
    if repetitions:
        drawn = data if isinstance(data, Clusters) else _compact(data, repeated=False)
        resampled = _resampled(drawn, method, repetitions, random_state)
        if resampled is None:
            notes = (*notes, few_groups(FEWEST_CLUSTERS))
        else:
            se, low, high, needed = resampled
            notes = (*notes, too_few_samples(needed)) if needed else notes
    return CurveErrors(method, *_four(values), se, notes, low, high)


def _compact(tally: Tally, repeated: bool = True) -> Tally:
    """The tally for fitting curves: weights rescaled for fits, on a grid if there are many cells.

    Without ``repeated``, integer importance weights are rescaled too: taken for repetition, errors were too small.
    """
    fitted = tally.for_fitting() if repeated or tally.counts else tally.in_effective_rows()
    return fitted.coarsen(Grid()) if fitted.resolution == "exact" and len(fitted) > MANY_CELLS else fitted


def _distances(
    method: Method, scores: Floats, n: NDArray[Any], events: NDArray[Any]
) -> tuple[Floats, tuple[Note, ...]]:
    """Mean, median, 90 % quantile and maximum of the curve's distance from the diagonal."""
    curve = SMOOTHERS[method](scores, n, events)
    gap = np.abs(curve.at(scores) - scores)
    order = np.argsort(gap, kind="stable")
    mean = float((gap * n).sum()) / float(n.sum())
    quantiles = row_quantiles(gap[order], n[order], (0.5, 0.9))
    return np.array([mean, *quantiles, gap[order[-1]]]), curve.notes


def _resampled(
    data: Tally | Clusters, method: Method, repetitions: int, random_state: int
) -> tuple[Four, Four | None, Four | None, int] | None:
    """Bootstrap standard errors and intervals of the four distances; None for fewer than ten groups.

    The last number is that of the samples an interval needs, if there were fewer.
    """
    if isinstance(data, Clusters) and data.size < FEWEST_CLUSTERS:
        return None
    if method != "isotonic":
        many = max(repetitions, DRAWS)
        if method == "spline":
            found = spline_intervals(data, many, random_state)
        else:
            found = smoother_intervals(data, method, many, random_state)
        if found is not None:
            return _four(found.se), _four(found.low), _four(found.high), 0
    draws = Draws.of(data, repetitions, random_state)

    def statistic(sample: Tally) -> Floats:
        # a wild bootstrap may leave a cell with fewer events than none or more than all, and no curve fits that
        return _distances(method, sample.scores, sample.n, np.clip(sample.events, 0.0, sample.n))[0]

    value = statistic(draws.once())
    if not (draws.units >= 2.0 and np.isfinite(value).all()):
        samples = np.array([statistic(each) for each in draws.samples()])
        return _deviations(samples), None, None, 0
    made = inverted(draws, statistic, value, widened(0.95, draws.units))
    if made is None:
        samples = np.array([statistic(each) for each in draws.samples()])
        return _deviations(samples), None, None, 0
    se, low, high = (_four([getattr(each, name) for each in made]) for name in ("se", "low", "high"))
    return (se, low, high, 0) if np.isfinite(low).all() else (se, None, None, made[0].needed)


def _deviations(samples: Floats) -> Four:
    good = samples[np.isfinite(samples[:, 0])]
    return _four(np.full(4, np.nan) if len(good) < 2 else good.std(axis=0, ddof=1))


def _four(values: Any) -> Four:
    a, b, c, d = (float(value) for value in values)
    return a, b, c, d
