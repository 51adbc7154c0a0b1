"""The one-factor model of correlated defaults (Vasicek): tests of default counts in one year or in several."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.credit.counts import check_correlation, check_counts, check_events, check_pd, check_shapes
from calibrant.messages import InputError, Shown, listed
from calibrant.metrics.chance import Chance
from calibrant.metrics.estimates import plain
from calibrant.metrics.multiplicity import holm
from calibrant.numerics import Floats, Ints

Method = Literal["integration", "simulation"]

FACTOR_LIMIT = 9.0
"""The factor is integrated from -9 to 9: its probability outside is 2e-19."""

PANELS, NODES = np.linspace(-FACTOR_LIMIT, FACTOR_LIMIT, 37), 12
"""Intervals of the integral, and Gauss-Legendre nodes in each; more intervals lie where the tail rises."""

YELLOW, RED = 0.05, 0.001
"""One-sided p-values at which a light turns yellow and red: confidence 95 % and 99.9 % (OeNB and FMA 2004)."""

STEPS = (-8.0, -5.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 8.0)
"""Standard deviations of the conditional count, from the observed count, at which intervals end."""

MAX_CONVOLVED = 4096
"""Up to this many defaults the conditional distribution of a portfolio is convolved exactly."""

FAR = 12.0
"""Standard deviations of the conditional count beyond which its tail is 0 or 1."""


@dataclass(frozen=True, eq=False)
class VasicekTest(Shown):
    """The result of :func:`vasicek_test`: p-values of default counts when defaults are correlated.

    Attributes
    ----------
    names
        Names of the grades.
    n, events, expected
        Rows, defaults and expected defaults of each grade, over all years.
    p_values, holm_p
        P-value of each grade for more defaults than its PD allows, and after Holm's correction.
    limit_p
        The same for an infinitely large grade, in closed form; NaN for several years.
    portfolio_p
        P-value of all defaults together, which share the factor.
    independent_p
        P-value of all defaults together if they were independent, for comparison.
    correlation, year_correlation, years
        Asset correlation, correlation of the factor of neighboring years, number of years.
    method
        ``"integration"`` over the factor for one year, ``"simulation"`` of its path for several.
    paths
        Number of simulated paths; None with integration.
    """

    names: tuple[str, ...]
    n: Ints
    events: Ints
    expected: Floats
    p_values: Floats
    holm_p: Floats
    limit_p: Floats
    portfolio_p: float
    independent_p: float
    correlation: float
    year_correlation: float
    years: int
    method: Method
    paths: int | None = None

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Grades, or "portfolio", whose p-value is nearer to 0.05 or 0.001 than twice its simulation error."""
        if self.paths is None:
            return ()
        near = [
            name
            for name, p in zip((*self.names, "portfolio"), (*self.p_values, self.portfolio_p), strict=True)
            if any(abs(p - limit) <= 2.0 * math.sqrt(limit * (1.0 - limit) / self.paths) for limit in (YELLOW, RED))
        ]
        return tuple(near)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; numbers that are not finite are None."""
        return {key: plain(value) for key, value in vars(self).items()}

    def __str__(self) -> str:
        """A line for each grade, one for the portfolio, and the assumptions."""
        width = max(9, *(len(name) for name in self.names))
        rows = zip(self.names, self.n, self.events, self.expected, self.p_values, self.holm_p, strict=True)
        lines = [f"{'grade':<{width}}{'rows':>9}{'def.':>6}{'expected':>10}{'p':>8}{'Holm':>8}"]
        lines += [
            f"{name:<{width}}{n:>9}{k:>6}{mean:>10.2f}{_p(p):>8}{_p(adjusted):>8}"
            for name, n, k, mean, p, adjusted in rows
        ]
        whole = f"{self.n.sum():>9}{self.events.sum():>6}{self.expected.sum():>10.2f}{_p(self.portfolio_p):>8}"
        path = f"; {years_text(self.years, self.year_correlation)}" if self.years > 1 else ""
        how = self.method if self.paths is None else f"{self.method} of {self.paths:,} paths"
        error = f"Simulation error can move p-values across {YELLOW:g} or {RED:g}: {listed(self.unsettled)}."
        return "\n".join(
            [
                *lines,
                f"{'portfolio':<{width}}{whole}",
                f"One-factor model, asset correlation {self.correlation:g}{path}; by {how}.",
                *([f"{error} Pass more paths."] if self.unsettled else []),
                f"Portfolio p-value if defaults were independent: {_p(self.independent_p).strip()}.",
            ]
        )


def vasicek_test(
    n: ArrayLike,
    events: ArrayLike,
    pd: ArrayLike,
    *,
    correlation: float,
    year_correlation: float = 0.0,
    names: Any = None,
    paths: int = 20_000,
    random_state: int = 0,
) -> VasicekTest:
    r"""Test default counts against PDs when defaults share a systematic factor (Vasicek's one-factor model).

    Given the factor Z, standard normal, defaults are independent with probability

    .. math:: p(Z) = \Phi\Bigl(\frac{\Phi^{-1}(\mathrm{PD}) - \sqrt{\rho}\, Z}{\sqrt{1 - \rho}}\Bigr), \qquad
              p_{\text{value}} = E_Z\bigl[P(X \ge k \mid Z)\bigr],

    where :math:`\rho` is the asset correlation and X the number of defaults. For an infinite grade the p-value is
    :math:`\Phi\bigl((\Phi^{-1}(\mathrm{PD}) - \sqrt{1 - \rho}\, \Phi^{-1}(k / n)) / \sqrt{\rho}\bigr)`.

    Parameters
    ----------
    n, events, pd
        Rows, defaults and PD of each grade; or for several years a list of such lists, one for each year in order.
    correlation
        Asset correlation; 0 for independent defaults. It is an assumption: one year of defaults cannot estimate it.
    year_correlation
        Correlation of the factors of neighboring years; that of years s and t is its power of abs(s - t).
    names
        Names of the grades; 1, 2, ... when left out.
    paths, random_state
        For several years: number of simulated paths of the factor, and seed.

    Returns
    -------
    VasicekTest
        P-values by grade and for the portfolio; prints itself as a table.

    Notes
    -----
    Edges: a grade without rows has p-value NaN. Without defaults the p-value is 1.
    Guarantee: under the model with this correlation, the p-values are valid in finite portfolios: P(p <= a) <= a. One
    year is integrated numerically, to about 1e-9; above 4,096 defaults the conditional distribution of a portfolio may
    be a corrected normal distribution. Several years are simulated, with (1 + hits) / (1 + paths) as p-value, which is
    valid at any number of paths; where the simulation error could move it across 0.05 or 0.001, the text says so. The
    model itself, normal factor and known correlation, is not tested. Rows of one borrower in several years are linked
    by the factor alone.
    Cost: about a hundred milliseconds for one year.
    References: Vasicek (2002), The distribution of loan portfolio value; Basel Committee (2005), Studies on the
    validation of internal rating systems, working paper 14. The form for finite portfolios is derived here.

    Examples
    --------
    >>> print(vasicek_test([800, 500, 200], [2, 12, 21], [0.002, 0.01, 0.08], correlation=0.12))
    grade         rows  def.  expected       p    Holm
    1              800     2      1.60   0.334   0.549
    2              500    12      5.00   0.105   0.316
    3              200    21     16.00   0.275   0.549
    portfolio     1500    35     22.60   0.193
    One-factor model, asset correlation 0.12; by integration.
    Portfolio p-value if defaults were independent: 0.007.
    """
    rho, theta = check_correlation(correlation), check_correlation(year_correlation, "year_correlation")
    m, k = check_counts(n, "n", (1, 2)), check_counts(events, "events", (1, 2))
    check_shapes(m, events=k, pd=pd)
    p = check_pd(pd)
    check_events(m, k)
    if isinstance(paths, bool) or not isinstance(paths, int) or paths < 100:
        raise InputError("paths", f"must be an integer of at least 100, got {paths!r}")
    m, k, p = np.atleast_2d(m), np.atleast_2d(k), np.atleast_2d(p)
    labels = tuple(str(j + 1) for j in range(m.shape[1])) if names is None else tuple(str(name) for name in names)
    if len(labels) != m.shape[1]:
        raise InputError("names", f"has {len(labels)} entries for {m.shape[1]} grades", "pass one for each grade")
    rows, hits, mean = m.sum(axis=0), k.sum(axis=0), (m * p).sum(axis=0)
    limit = np.full(len(rows), np.nan)
    if len(m) == 1:
        found = np.array([tail(hits[j], rows[j : j + 1], p[0, j : j + 1], rho) for j in range(len(rows))])
        whole, limit, how = tail(int(hits.sum()), rows, p[0], rho), _limit(rows, hits, p[0], rho), "integration"
    else:
        found, whole, _ = over_years(m, k, p, rho, theta, paths, random_state)
        how = "simulation"
    found = np.where(rows > 0, found, np.nan)
    independent = Chance(p.ravel(), m.ravel().astype(np.float64)).at_least(float(hits.sum()))
    some = bool(rows.any())
    return VasicekTest(
        names=labels,
        n=rows,
        events=hits,
        expected=mean,
        p_values=found,
        holm_p=holm(found),
        limit_p=limit,
        portfolio_p=whole if some else float("nan"),
        independent_p=independent if some else float("nan"),
        correlation=rho,
        year_correlation=theta,
        years=len(m),
        method="integration" if how == "integration" else "simulation",
        paths=None if how == "integration" else paths,
    )


# ------------------------------------------------------------------------------------------------------------ the model


def conditional_pd(pd: Floats, rho: float, factor: Floats) -> Floats:
    """Probability of default for each value of the factor (rows) and each PD (columns); a low factor is a bad year."""
    with np.errstate(invalid="ignore"):
        level = (special.ndtri(pd)[None, :] - np.sqrt(rho) * factor[:, None]) / np.sqrt(1.0 - rho)
    return np.asarray(special.ndtr(level))


def tail(k: int, n: Ints, pd: Floats, rho: float) -> float:
    """P(X >= k) of the defaults of grades that share the factor; exact up to the error of the integral."""
    k, total = int(k), int(n.sum())
    if k <= 0:
        return 1.0
    if k > total:
        return 0.0
    if rho == 0.0:
        return float(_conditional(k, n, pd[None, :])[0])
    z, weights = _nodes(k, n, pd, rho)
    return float(min(1.0, (weights * _conditional(k, n, conditional_pd(pd, rho, z))).sum()))


def _nodes(k: int, n: Ints, pd: Floats, rho: float) -> tuple[Floats, Floats]:
    """Values of the factor and their weights: Gauss-Legendre on intervals that are short where the tail rises."""
    fine = np.linspace(-FACTOR_LIMIT, FACTOR_LIMIT, 4001)
    p = conditional_pd(pd, rho, fine)
    mean, sd = p @ n, np.sqrt((p * (1.0 - p)) @ n)
    score = np.maximum.accumulate((k - 0.5 - mean) / np.maximum(sd, 1e-12))
    rises = np.interp(STEPS, score, fine)
    ends = np.unique(np.concatenate([PANELS, rises]))
    x, w = _legendre()
    half, middle = np.diff(ends) / 2.0, (ends[1:] + ends[:-1]) / 2.0
    z = (middle[:, None] + half[:, None] * x).ravel()
    return z, (half[:, None] * w).ravel() * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)


@lru_cache(maxsize=1)
def _legendre() -> tuple[Floats, Floats]:
    x, w = np.polynomial.legendre.leggauss(NODES)
    return np.asarray(x), np.asarray(w)


def _conditional(k: int, n: Ints, p: Floats) -> Floats:
    """P(X >= k) for each row of ``p``, with independent defaults of ``n`` rows in each column."""
    if p.shape[1] == 1:
        return np.asarray(special.betainc(k, n[0] - k + 1.0, p[:, 0]))
    mean, sd = p @ n, np.sqrt((p * (1.0 - p)) @ n)
    found = np.where(mean >= k, 1.0, 0.0)
    near = np.flatnonzero(np.abs(k - 0.5 - mean) <= FAR * sd + 1.0)
    if k > MAX_CONVOLVED:
        found[near] = [Chance(row, n.astype(np.float64)).at_least(float(k)) for row in p[near]]
    elif len(near):
        found[near] = 1.0 - _below(k, n, p[near])
    return found


def _below(k: int, n: Ints, p: Floats) -> Floats:
    """P(X < k) by convolution of binomials, each cut at k - 1, which loses nothing."""
    size = 1 << int(2 * k - 1).bit_length()
    count, whole = np.arange(k, dtype=np.float64), np.zeros((len(p), k))
    whole[:, 0] = 1.0
    for j in np.flatnonzero(n > 0):
        choose = (
            special.gammaln(n[j] + 1.0)
            - special.gammaln(count + 1.0)
            - special.gammaln(np.maximum(n[j] - count, 0.0) + 1.0)
        )
        log_pmf = (
            choose
            + special.xlogy(count, p[:, j, None])
            + special.xlog1py(np.maximum(n[j] - count, 0.0), -p[:, j, None])
        )
        pmf = np.where(count <= n[j], np.exp(log_pmf), 0.0)
        product = np.fft.rfft(whole, size, axis=1) * np.fft.rfft(pmf, size, axis=1)
        whole = np.fft.irfft(product, size, axis=1)[:, :k]
    return np.asarray(np.clip(whole.sum(axis=1), 0.0, 1.0))


def _limit(n: Ints, events: Ints, pd: Floats, rho: float) -> Floats:
    """P-values of infinitely large grades with these default rates."""
    rate = events / np.maximum(n, 1)
    if rho == 0.0:
        return np.where(n > 0, np.where(pd >= rate, 1.0, 0.0), np.nan)
    with np.errstate(invalid="ignore"):
        level = (special.ndtri(pd) - np.sqrt(1.0 - rho) * special.ndtri(rate)) / np.sqrt(rho)
    return np.where(n > 0, np.where(events > 0, special.ndtr(level), 1.0), np.nan)


def over_years(
    n: Ints, events: Ints, pd: Floats, rho: float, theta: float, paths: int = 20_000, seed: int = 0
) -> tuple[Floats, float, float]:
    """P-values of as many defaults by grade, of as many and of as few in the portfolio; a line for each year."""
    draws, hits = _simulated(n, pd, rho, theta, paths, seed), events.sum(axis=0)
    total, seen = draws.sum(axis=1), hits.sum()
    tails = (draws >= hits).sum(axis=0), (total >= seen).sum(), (total <= seen).sum()
    grades, above, below = ((1.0 + each) / (1.0 + paths) for each in tails)
    return np.asarray(grades), float(above), float(below)


def years_text(years: int, theta: float) -> str:
    """What a test of correlated defaults assumes about several years; nothing for one.

    Examples
    --------
    >>> years_text(6, 0.0), years_text(6, 0.3)
    ('6 years with a factor each, independent', '6 years with a factor each, correlation 0.3 from year to year')
    """
    how = f"correlation {theta:g} from year to year" if theta else "independent"
    return f"{years} years with a factor each, {how}" if years > 1 else ""


def factor_paths(years: int, theta: float, normals: Floats) -> Floats:
    """Paths of the factor with correlation ``theta`` between neighboring years, from independent normal numbers."""
    path = np.array(normals, dtype=np.float64)
    for year in range(1, years):
        path[:, year] = theta * path[:, year - 1] + np.sqrt(1.0 - theta * theta) * path[:, year]
    return path


def _simulated(n: Ints, pd: Floats, rho: float, theta: float, paths: int, seed: int) -> Ints:
    """Defaults of each grade over all years, in each path."""
    rng = np.random.default_rng(seed)
    factor = factor_paths(len(n), theta, rng.standard_normal((paths, len(n))))
    total = np.zeros((paths, n.shape[1]), dtype=np.int64)
    for year in range(len(n)):
        total += rng.binomial(n[year], conditional_pd(pd[year], rho, factor[:, year]))
    return total


def _p(value: float) -> str:
    return "" if np.isnan(value) else "<.001" if value < 0.001 else f"{value:.3f}"
