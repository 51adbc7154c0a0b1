"""Corrections of the log-odds that are shrunk toward the original model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Literal

import numpy as np

from calibrant.fits.scaling import FARTHEST_LOG_ODDS, fit_rates
from calibrant.maps import Axis, BetaMap, LogitAffineMap, Map
from calibrant.numerics import Ends, Floats, Grid, expit, logit
from calibrant.solvers import Derivatives, damped_newton, softplus
from calibrant.tallies import Tally

Terms = Literal[1, 2, 3]
"""An intercept; an intercept and a slope; an intercept, a slope and a skew."""

SCALES = (
    np.array([0.0, 0.1, 0.2, 0.4, 0.8, 1.6]),
    np.array([0.0, 0.05, 0.1, 0.2, 0.4, 0.8]),
    np.array([0.0, 0.05, 0.1, 0.2, 0.4, 0.8]),
)
"""Prior standard deviations that are averaged over, for the intercept in log-odds, the slope about 1 and the skew: from
0 to odds off by a factor of 5, and to slopes from a fifth to almost twice the right value."""

PRIOR_ZERO = 0.25
"""Prior probability that a term is zero; the positive scales share the rest."""

EXPANSION_SCALES = np.array([0.7, 0.35, 0.35])
"""Prior standard deviations of the mode at which the likelihood is expanded."""

MAX_EXACT_CELLS = 1 << 16
"""With more distinct scores than this, the grid is used."""

NEWTON_TOLERANCE = 1e-12
"""Newton's method stops at a decrease below this share of the loss."""


def fit_shrunken(tally: Tally, terms: Terms = 3) -> Map:
    r"""Beta map shrunk toward the original model, averaged over prior scales.

    .. math:: \operatorname{logit} m(s) = x + \theta_1 + \theta_2 (x - c) + \theta_3 w,

    where x is the logit of s, c the mean of x, weighted by s (1 - s), and w is :math:`\log s + \log(1 - s)` minus its
    regression on 1 and x with the same weights, so that the three terms (intercept, slope and skew) are nearly
    independent. This is a beta map, written as a correction of the original model. Each :math:`\theta_k` has a Gaussian
    prior around 0; its standard deviation :math:`\tau_k` is one of six, of which 0 has probability 1/4. The
    log-likelihood is replaced by its quadratic expansion at the posterior mode for medium :math:`\tau`, so that the
    posterior mean is a sum over all combinations of :math:`\tau`, each weighted by its evidence, in closed form. With
    few rows the original model hardly changes; with many rows the labels dominate.

    Notes
    -----
    Edge cases: scores of exactly 0 and 1 are read by :class:`~calibrant.numerics.Ends`; if all are, the result is a
    table of two rates. With one class or separated classes the priors keep the parameters finite. A map that would
    decrease is replaced by one with fewer terms, and finally by a slope of zero. Scores that are log-odds have no skew
    term. Above 65,536 distinct scores the grid is used.
    Guarantee: no finite-sample guarantee.
    Cost: one pass per Newton step, about six.
    Reference: MacKay (1992) for evidence; Kull, Silva Filho and Flach (2017) for the beta map.

    Examples
    --------
    >>> tally = Tally.from_arrays([0.5, 0.5, 0.5, 0.5], [0, 0, 0, 1])
    >>> fitted = fit_shrunken(tally, 1)  # maximum likelihood would be -1.1
    >>> round(fitted.intercept, 3), fitted.slope
    (-0.175, 1.0)
    """
    if not tally.has_interior:
        return fit_rates(tally)[0]
    if tally.score_type == "probability" and tally.resolution == "exact" and len(tally) > MAX_EXACT_CELLS:
        tally = tally.with_ends(tally.ends).coarsen(Grid())
    if tally.score_type != "probability" and terms == 3:
        terms = 2
    family = _Family.of(tally, terms)
    theta = family.posterior_mean()
    fitted = family.map(theta)
    if fitted.direction.never_falls:
        return fitted
    if terms == 3:
        return fit_shrunken(tally, 2)
    flat = replace(family, line=np.zeros(2), terms=1, extra_slope=-1.0)
    return LogitAffineMap(0.0, float(flat.posterior_mean()[0]) + family.center, family.axis, *family.ends)


@dataclass(frozen=True, eq=False)
class _Family:
    """Cells by log-odds, and the terms that may be added there."""

    x: Floats
    n: Floats
    events: Floats
    line: Floats
    """Value at c and slope of the regression that is subtracted from the raw skew."""
    terms: int
    axis: Axis
    ends: Ends
    center: float
    extra_slope: float = 0.0

    @classmethod
    def of(cls, tally: Tally, terms: Terms) -> _Family:
        axis: Axis = "log-odds" if tally.score_type == "probability" else "score"
        scores = tally.scores
        x = logit(scores, tally.ends) if axis == "log-odds" else np.clip(scores, -FARTHEST_LOG_ODDS, FARTHEST_LOG_ODDS)
        p = expit(x)
        weight = tally.n * p * (1.0 - p)
        mass = float(weight.sum())
        center = (
            float((weight * x).sum()) / mass if mass > 0.0 else 0.0
        )  # all scores are so extreme that the weights are 0
        line = np.zeros(2)
        if terms == 3 and mass > 0.0:
            raw, away = _raw_skew(x), x - center
            spread = float((weight * away**2).sum())
            line[0] = float((weight * raw).sum()) / mass
            line[1] = float((weight * away * raw).sum()) / spread if spread > 0.0 else 0.0
        n, events = tally.n.astype(np.float64), tally.events.astype(np.float64)
        return cls(x, n, events, line, terms, axis, tally.ends, center)

    def design(self) -> Floats:
        """One line per term."""
        away = self.x - self.center
        lines = [np.ones(len(self.x)), away]
        if self.terms == 3:
            lines.append(_raw_skew(self.x) - self.line[0] - self.line[1] * away)
        return np.stack(lines[: self.terms])

    def posterior_mean(self) -> Floats:
        """Posterior mean of the terms over all scales, weighted by evidence."""
        information, pull = self._quadratic()
        scales, log_priors = _combinations(self.terms)
        inner = np.eye(self.terms) + scales[:, :, None] * information * scales[:, None, :]
        means = scales * np.linalg.solve(inner, (scales * pull)[:, :, None])[:, :, 0]
        evidence = 0.5 * (means * pull).sum(axis=1) - 0.5 * np.linalg.slogdet(inner)[1] + log_priors
        share = np.exp(evidence - evidence.max())
        return np.asarray(np.einsum("c,ck->k", share / share.sum(), means))

    def _quadratic(self) -> tuple[Floats, Floats]:
        r"""The log-likelihood as :math:`b'\theta - \theta' H \theta / 2` near its mode: H and b."""
        design, prior = self.design(), np.diag(EXPANSION_SCALES[: self.terms] ** -2.0)

        def evaluate(theta: Floats) -> Derivatives:
            loss, gradient, information = self._likelihood(design, theta)
            pull = np.einsum("jk,k->j", prior, theta)
            return Derivatives(loss + 0.5 * float((theta * pull).sum()), gradient + pull, information + prior)

        def step(_: Floats, there: Derivatives) -> Floats:
            return np.asarray(-np.linalg.solve(there.curvature, there.gradient))

        found = damped_newton(evaluate, step, np.zeros(self.terms), lambda loss: NEWTON_TOLERANCE * max(loss, 1.0))
        _, gradient, information = self._likelihood(design, found.visited)
        return information, np.einsum("jk,k->j", information, found.visited) - gradient

    def _likelihood(self, design: Floats, theta: Floats) -> Derivatives:
        """Negative log-likelihood, its gradient and its Hessian."""
        z = self.x + self.extra_slope * (self.x - self.center) + np.einsum("j,jc->c", theta, design)
        value, p = softplus(z)
        loss = float((self.n * value - self.events * z).sum())
        gradient = np.einsum("jc,c->j", design, self.n * p - self.events)
        return Derivatives(loss, gradient, np.einsum("jc,kc->jk", design * (self.n * p * (1.0 - p)), design))

    def map(self, theta: Floats) -> LogitAffineMap | BetaMap:
        """The correction as a map."""
        level, stretch, skew = np.append(theta, np.zeros(3 - len(theta)))
        slope = 1.0 + stretch - skew * self.line[1]
        intercept = level - stretch * self.center - skew * (self.line[0] - self.line[1] * self.center)
        if self.terms < 3:
            return LogitAffineMap(float(slope), float(intercept), self.axis, *self.ends)
        return BetaMap(float(slope + skew), float(slope - skew), float(intercept), *self.ends)


def _raw_skew(x: Floats) -> Floats:
    """The sum of the logarithms of s and of 1 - s, from the log-odds."""
    return np.asarray(-np.abs(x) - 2.0 * np.log1p(np.exp(-np.abs(x))))


@cache
def _combinations(terms: int) -> tuple[Floats, Floats]:
    """All combinations of scales, and their log prior probabilities."""
    scales = np.array(list(product(*SCALES[:terms])))
    shares = np.where(scales == 0.0, PRIOR_ZERO, (1.0 - PRIOR_ZERO) / (len(SCALES[0]) - 1))
    return scales, np.log(shares).sum(axis=1)
