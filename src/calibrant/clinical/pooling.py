"""Random-effects summary of estimates from several clusters or studies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from calibrant.arrays.columns import check_length, read_floats
from calibrant.messages import InputError, Note, note
from calibrant.metrics.estimates import TWO_SIDED, Result
from calibrant.numerics import Floats

GRID = np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 97)])
"""Where the restricted likelihood is evaluated first, in units of the median variance within clusters."""

one_cluster = note("one-cluster", "one cluster: heterogeneity cannot be estimated, and there is no prediction interval")

narrow_interval = note(
    "narrow-interval",
    "the clusters differ less than their standard errors, and the Hartung-Knapp interval is narrower than that of a "
    "common value of all clusters (fixed_low to fixed_high): report the wider one too",
)


@dataclass(frozen=True)
class RandomEffects(Result):
    """Pooled estimate, heterogeneity, and a prediction interval for a new cluster.

    Attributes
    ----------
    clusters
        Number of clusters.
    value, se, low, high
        Mean over clusters, its Hartung-Knapp standard error, and the ends of the 95 % interval.
    prediction_low, prediction_high
        Ends of the 95 % prediction interval: where the true value of a new cluster is expected.
    tau2
        Variance of the true values between clusters, by restricted maximum likelihood.
    i2
        Share of the total variance that lies between clusters, 0 to 1.
    fixed_low, fixed_high
        Ends of the 95 % interval if all clusters had the same true value, for comparison.
    q, p_value
        Cochran's Q statistic and its p-value, for the hypothesis that all clusters have the same true value.
    notes
        What the reader must know, one sentence each.
    """

    clusters: int
    value: float
    se: float
    low: float
    high: float
    prediction_low: float
    prediction_high: float
    tau2: float
    i2: float
    q: float
    p_value: float
    fixed_low: float
    fixed_high: float
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"Pooled over {self.clusters} clusters: {self.value:.4f} (95 % CI {self.low:.4f} to {self.high:.4f})",
            f"  new cluster: 95 % prediction interval {self.prediction_low:.4f} to {self.prediction_high:.4f}",
            f"  between clusters: tau^2 {self.tau2:.4g}, I^2 {100 * self.i2:.0f} %, "
            f"Q {self.q:.2f} (p {self.p_value:.3g})",
        ]
        return "\n".join([*lines, *(f"  {each}" for each in self.notes)])

    def mapped(self, back: Callable[[float], float], slope: Callable[[float], float]) -> RandomEffects:
        """The same on another scale: ``back`` is increasing and ``slope`` its derivative; tau2, Q and I2 are kept."""
        return replace(
            self,
            value=back(self.value),
            se=self.se * slope(self.value),
            low=back(self.low),
            high=back(self.high),
            prediction_low=back(self.prediction_low),
            prediction_high=back(self.prediction_high),
            fixed_low=back(self.fixed_low),
            fixed_high=back(self.fixed_high),
        )


def random_effects(values: Any, se: Any) -> RandomEffects:
    r"""Random-effects meta-analysis of estimates with known standard errors.

    .. math:: \hat\theta_j \sim N(\theta_j, v_j), \qquad \theta_j \sim N(\mu, \tau^2), \qquad
              \hat\mu = \frac{\sum_j w_j \hat\theta_j}{\sum_j w_j}, \qquad w_j = \frac{1}{v_j + \tau^2} ,

    with :math:`\tau^2` by restricted maximum likelihood (REML). The interval of :math:`\mu` is that of Hartung and
    Knapp, with Student's t distribution of k - 1 degrees of freedom and the standard error

    .. math:: s^2 = \frac{\sum_j w_j (\hat\theta_j - \hat\mu)^2}{(k - 1) \sum_j w_j} .

    The prediction interval for a new cluster is :math:`\hat\mu \pm t_{k-1} (\tau^2 + s^2)^{1/2}`.

    Parameters
    ----------
    values : array-like
        Estimate of each cluster or study, on a scale on which it is about normal.
    se : array-like
        Their standard errors, above 0.

    Returns
    -------
    RandomEffects
        Pooled estimate with confidence and prediction interval, and the heterogeneity.

    Notes
    -----
    Edges: one cluster gives its own estimate with a normal interval, no heterogeneity and a note.
    Guarantee: no finite-sample guarantee; standard errors are taken as known and estimates as normal. The numbers are
    those of ``metafor::rma(yi, sei, method = "REML", test = "knha")`` in R.
    Cost: a hundred evaluations of the likelihood.
    References: Viechtbauer (2005), Bias and efficiency of meta-analytic variance estimators in the random-effects
    model; Hartung and Knapp (2001), A refined method for the meta-analysis of controlled clinical trials; Higgins,
    Thompson and Spiegelhalter (2009), A re-evaluation of random-effects meta-analysis, for the prediction interval.

    Examples
    --------
    >>> found = random_effects([0.9, 1.1, 0.7, 1.0], [0.1, 0.1, 0.15, 0.2])
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.937, 0.668, 1.206)
    """
    estimates, errors = read_floats(values, "values"), read_floats(se, "se")
    check_length(errors, "se", len(estimates))
    if not len(estimates):
        raise InputError("values", "is empty", "pass the estimate of at least one cluster")
    if not np.isfinite(estimates).all():
        raise InputError("values", "has missing or infinite estimates", "leave these clusters out")
    if not (np.isfinite(errors).all() and (errors > 0.0).all()):
        raise InputError("se", "must be finite and above 0", "leave out clusters without a standard error")
    k, v = len(estimates), errors**2
    if k == 1:
        value, error = float(estimates[0]), float(errors[0])
        half = TWO_SIDED * error
        nan = math.nan
        low, high = value - half, value + half
        alone = (one_cluster(),)
        return RandomEffects(1, value, error, low, high, nan, nan, nan, nan, nan, nan, low, high, alone)
    tau2 = _reml(estimates, v)
    w = 1.0 / (v + tau2)
    mean = float((w * estimates).sum() / w.sum())
    error = math.sqrt(float((w * (estimates - mean) ** 2).sum()) / ((k - 1) * float(w.sum())))
    t = float(special.stdtrit(k - 1, 0.975))
    spread = t * math.sqrt(tau2 + error**2)
    fixed = 1.0 / v
    q = float((fixed * (estimates - float((fixed * estimates).sum() / fixed.sum())) ** 2).sum())
    typical = (k - 1) * float(fixed.sum()) / (float(fixed.sum()) ** 2 - float((fixed**2).sum()))
    middle, least = float((fixed * estimates).sum() / fixed.sum()), 1.0 / math.sqrt(float(fixed.sum()))
    ends = (middle - TWO_SIDED * least, middle + TWO_SIDED * least)
    notes = (narrow_interval(),) if 2.0 * t * error < ends[1] - ends[0] else ()
    return RandomEffects(
        k,
        mean,
        error,
        mean - t * error,
        mean + t * error,
        mean - spread,
        mean + spread,
        tau2,
        tau2 / (tau2 + typical),
        q,
        float(special.chdtrc(k - 1, q)),
        *ends,
        notes,
    )


def _reml(estimates: Floats, v: Floats) -> float:
    """The variance between clusters at which the restricted likelihood is highest; 0 if it falls from there."""
    from scipy.optimize import brentq  # imported here because it is slow to load

    unit = float(np.median(v))

    def score(tau2: float) -> float:
        """Twice the derivative of the restricted log-likelihood."""
        w = 1.0 / (v + tau2)
        total = float(w.sum())
        mean = float((w * estimates).sum()) / total
        return float((w**2 * (estimates - mean) ** 2).sum()) - total + float((w**2).sum()) / total

    def likelihood(tau2: float) -> float:
        w = 1.0 / (v + tau2)
        total = float(w.sum())
        mean = float((w * estimates).sum()) / total
        return 0.5 * (float(np.log(w).sum()) - math.log(total) - float((w * (estimates - mean) ** 2).sum()))

    places = unit * GRID
    best = int(np.argmax([likelihood(each) for each in places]))
    low, high = float(places[max(best - 1, 0)]), float(places[min(best + 1, len(places) - 1)])
    if best == 0 and score(0.0) <= 0.0:
        return 0.0
    if score(low) <= 0.0 or score(high) >= 0.0:  # flat to rounding
        return float(places[best])
    return float(brentq(score, low, high, xtol=1e-14 * max(high, 1e-300), rtol=1e-14))
