"""Rating grades: tests of defaults against the probability of default (PD), with traffic lights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays.columns import check_option
from calibrant.credit.counts import (
    by_grade,
    check_correlation,
    check_counts,
    check_events,
    check_names,
    check_pd,
    check_shapes,
    check_share,
    of_borrowers,
)
from calibrant.credit.factor import RED, YELLOW, over_years, tail, years_text
from calibrant.credit.records import Record, Recorded
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.messages import InputError, Shown
from calibrant.metrics.binary.bins import Bins, Scores, Strategy
from calibrant.metrics.chance import Chance
from calibrant.metrics.estimates import plain
from calibrant.metrics.multiplicity import holm
from calibrant.notebook import GRAY, SHAPES, TRAFFIC_LIGHTS, Cell, Dot, table_block
from calibrant.numerics import Column, Floats, Ints

Sides = Literal["one", "two"]
Light = Literal["green", "yellow", "red", "none"]


@dataclass(frozen=True, eq=False)
class GradeTable(Recorded, Shown):
    """Default rates of rating grades compared with their PDs; from :func:`grade_table` or :meth:`from_scores`.

    Attributes
    ----------
    names, n, events, pd
        Grade, rows, defaults and probability of default.
    rate
        Observed default rate; NaN in an empty grade.
    binomial_p, jeffreys_p, holm_p
        Exact binomial p-value, Jeffreys p-value, and the binomial ones after Holm's correction for many grades.
    low, high, jeffreys_low, jeffreys_high
        Clopper-Pearson and Jeffreys intervals of confidence 1 - alpha for the default rate; Jeffreys' reaches 0 without
        defaults and 1 with defaults only.
    lights
        ``"green"``, ``"yellow"`` or ``"red"``; ``"none"`` in an empty grade.
    portfolio_p, portfolio_jeffreys_p, portfolio_light
        The same for all grades together, each with its own PD; Jeffreys' at the mean PD.
    alpha, sides, correlation
        Settings of the table.
    correlated_p, correlated_lights, portfolio_correlated_p, portfolio_correlated_light
        One-sided p-values and lights when defaults share a factor with this correlation; None without it.
    years, year_correlation
        Number of years that the rows are from, and the correlation of the factors of neighboring years.
    few_p
        With several years and a correlation: probability of as few defaults in the portfolio.
    """

    names: tuple[str, ...]
    n: Ints
    events: Ints
    pd: Floats
    rate: Floats
    binomial_p: Floats
    jeffreys_p: Floats
    holm_p: Floats
    low: Floats
    high: Floats
    jeffreys_low: Floats
    jeffreys_high: Floats
    lights: tuple[Light, ...]
    portfolio_p: float
    portfolio_jeffreys_p: float
    portfolio_light: Light
    alpha: float
    sides: Sides
    correlation: float | None = None
    correlated_p: Floats | None = None
    correlated_lights: tuple[Light, ...] | None = None
    portfolio_correlated_p: float | None = None
    portfolio_correlated_light: Light | None = None
    years: int = 1
    year_correlation: float = 0.0
    few_p: float | None = None

    def over_years(self, n: Ints, events: Ints, pd: Floats, year_correlation: float) -> GradeTable:
        """The same table with tests for correlated defaults of several years, each of which has its own factor.

        Parameters
        ----------
        n, events, pd
            Rows, defaults and PDs by year (rows of the matrix) and grade.
        year_correlation
            Correlation of the factor from one year to the next.
        """
        rho = self.correlation or 0.0
        found, whole, few = over_years(n, events, pd, rho, year_correlation)
        filled = self.n > 0
        found = np.where(filled, found, np.nan)
        return replace(
            self,
            correlated_p=found,
            correlated_lights=tuple(map(_light, found, filled)),
            portfolio_correlated_p=whole,
            portfolio_correlated_light=_light(whole, bool(filled.any())),
            years=len(n),
            year_correlation=year_correlation,
            few_p=few,
        )

    @property
    def at_most_p(self) -> float:
        """Probability of as few defaults if the PDs are right; for correlated defaults if these were asked for."""
        hits = int(self.events.sum())
        if self.few_p is not None:
            return self.few_p
        if not self.correlation:
            return float(Chance(self.pd, self.n.astype(np.float64)).cdf(float(hits)))
        return max(1.0 - tail(hits + 1, self.n, self.pd, self.correlation), 0.0)

    @classmethod
    def from_scores(
        cls,
        scores: Scores | Bins,
        y: Column = None,
        sample_weight: Column = None,
        *,
        n_bins: int = 10,
        strategy: Strategy = "auto",
        edges: Column = None,
        alpha: float = 0.05,
        sides: Sides = "one",
    ) -> GradeTable:
        """Table of grades that are bins of the score, with the mean score as PD.

        Where scores differ within a grade, its defaults vary less than a binomial count, so that the test is
        conservative.

        Parameters
        ----------
        scores
            Probability of default of each row; or a tally, or bins.
        y
            1 for a default, 0 otherwise.
        sample_weight
            Importance weights are refused.
        n_bins, strategy, edges
            Bins as in :meth:`Bins.of`. By default each distinct score is a grade if all have 50 rows, else ten bins of
            equal mass.
        alpha, sides
            As in :func:`grade_table`.

        Examples
        --------
        >>> table = GradeTable.from_scores([0.1] * 60 + [0.4] * 60, [0] * 54 + [1] * 6 + [0] * 30 + [1] * 30)
        >>> table.pd.round(3).tolist(), table.events.tolist(), table.lights
        ([0.1, 0.4], [6, 30], ('green', 'green'))
        """
        bins = scores
        if not isinstance(bins, Bins):
            bins = Bins.of(bins, y, sample_weight, n_bins=n_bins, strategy=strategy, edges=edges)
        if bins.w2 is not None:
            raise InputError("sample_weight", "holds importance weights, and grades need counts", "leave it out")
        kept = np.flatnonzero(bins.n > 0)
        names = [f"<{bins.edges[k]:.3g}" if k < len(bins.edges) else "the rest" for k in kept]
        pd = np.clip(bins.mean_score[kept], 0.0, 1.0)
        return grade_table(bins.n[kept], bins.events[kept], pd, alpha=alpha, names=names, sides=sides)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: a record for each grade, and one for the portfolio."""
        columns: dict[str, Any] = {"name": self.names, "light": self.lights}
        columns |= {key: getattr(self, key) for key in ("n", "events", "pd", *_FIGURES)}
        whole = {
            "n": int(self.n.sum()),
            "events": int(self.events.sum()),
            "pd": plain(self.mean_pd),
            "binomial_p": plain(self.portfolio_p),
            "jeffreys_p": plain(self.portfolio_jeffreys_p),
            "light": self.portfolio_light,
        }
        found: dict[str, Any] = {"alpha": self.alpha, "sides": self.sides}
        if self.correlation is not None:
            columns |= {"correlated_p": self.correlated_p, "correlated_light": self.correlated_lights}
            whole |= {
                "correlated_p": plain(self.portfolio_correlated_p),
                "correlated_light": self.portfolio_correlated_light,
            }
            found |= {"correlation": self.correlation, "years": self.years, "year_correlation": self.year_correlation}
        grades = [dict(zip(columns, row, strict=True)) for row in zip(*map(plain, columns.values()), strict=True)]
        return found | {"grades": grades, "portfolio": whole}

    def records(self) -> list[dict[str, Any]]:
        """A record for each grade, then one for the portfolio, as shown in the table; unknown numbers are NaN."""
        total, hits = int(self.n.sum()), int(self.events.sum())
        low, high = (float(end) for end in clopper_pearson(hits, total, self.alpha))
        columns = {
            "grade": [*self.names, "portfolio"],
            "n": [*self.n.tolist(), total],
            "defaults": [*self.events.tolist(), hits],
            "pd": [*self.pd.tolist(), self.mean_pd],
            "rate": [*self.rate.tolist(), hits / total if total else math.nan],
            "low": [*self.low.tolist(), low],
            "high": [*self.high.tolist(), high],
            "binomial_p": [*self.binomial_p.tolist(), self.portfolio_p],
            "jeffreys_p": [*self.jeffreys_p.tolist(), self.portfolio_jeffreys_p],
            "holm_p": [*self.holm_p.tolist(), math.nan],
            "light": [*self.lights, self.portfolio_light],
        }
        if self.correlated_p is not None and self.correlated_lights is not None:
            columns["correlated_p"] = [*self.correlated_p.tolist(), self.portfolio_correlated_p]
            columns["correlated_light"] = [*self.correlated_lights, self.portfolio_correlated_light]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    @property
    def mean_pd(self) -> float:
        """Mean PD of the rows; NaN without rows."""
        total = int(self.n.sum())
        return float((self.n * self.pd).sum() / total) if total else math.nan

    @property
    def light(self) -> Light:
        """Light of the portfolio: for correlated defaults if a correlation was given, otherwise for independent."""
        return self.portfolio_light if self.portfolio_correlated_light is None else self.portfolio_correlated_light

    @property
    def sentence(self) -> str:
        """The result of the portfolio test, and what it assumes."""
        n, hits, expected = int(self.n.sum()), int(self.events.sum()), float((self.n * self.pd).sum())
        if self.light == "none":
            return "NO LIGHT: there are no borrowers."
        p, how = self.portfolio_p, "independent defaults"
        if self.portfolio_correlated_p is not None:
            over = years_text(self.years, self.year_correlation)
            p, how = self.portfolio_correlated_p, f"asset correlation {self.correlation:g}{over and f', {over}'}"
            if self.portfolio_light != self.light:
                how += f"; with independent defaults {self.portfolio_light.upper()}, {_is(self.portfolio_p)}"
        return (
            f"{self.light.upper()}: {_MEANING[self.light]}. {hits:,} defaults, "
            f"{expected:,.{2 if expected < 10 else 1}f} predicted, {n:,} borrowers ({_is(p)}, {how})."
            f"{_too_high(self.at_most_p, hits, expected)}"
        )

    def __str__(self) -> str:
        """The table, 80 characters wide unless names are long, and a legend."""
        width = max(9, *(len(name) for name in self.names))
        head = f"{'grade':<{width}}{'rows':>9}{'def.':>6}{'PD %':>7}{'rate %':>7}{'low %':>7}{'high %':>7}"
        more = "" if self.correlation is None else f" {'corr.':>6} light"
        lines = [f"{head}{'binom.':>7}{'Jeffr.':>7}{'Holm':>6} light{' ' if more else ''}{more}"]
        lines += [_line(width, record) for record in self.records()]
        return "\n".join([*lines, *self.footnotes()])

    def _repr_html_(self) -> str:
        """For notebooks: the table with colored lights, and its legend."""
        return self.block()

    def block(self, title: str = "", legend: bool = True) -> str:
        """The table with colored lights as HTML, with a line above it.

        Parameters
        ----------
        title
            The line; none if empty.
        legend
            Whether the legend is below it.
        """
        head = ["grade", "rows", "defaults", "PD %", "rate %", "low %", "high %", "binom.", "Jeffr.", "Holm"]
        head += ["light"] if self.correlation is None else ["independent", "corr.", "correlated"]
        rows = [_cells(record) for record in self.records()]
        bar = TRAFFIC_LIGHTS.get(self.light, GRAY)
        notes = [" ".join(self.footnotes())] if legend else []
        return table_block(
            head, rows, title=title, notes=notes, left=(0, 10, 12), bold=[len(rows) - 1], color=bar, hint=legend
        )

    def footnotes(self) -> list[str]:
        """What the columns mean, and what the tests assume, in lines of at most 80 characters."""
        tail = "more defaults than the PD allows" if self.sides == "one" else "a rate other than the PD (two-sided)"
        level = f"{100 * (1 - self.alpha):g} %"
        lines = [text.format(level=level, tail=tail) for text in _FOOTNOTES]
        if self.correlation is None:
            return [*lines, "are assumed to be independent; correlated defaults cause more red lights."]
        over = years_text(self.years, self.year_correlation)
        return [
            *lines,
            "are assumed to be independent there. corr.: the same test if defaults share a",
            f"factor with asset correlation {self.correlation:g} (Vasicek 2002), with its light.",
            *([f"{over}."] if over else []),
        ]


_FIGURES = (
    "rate",
    "binomial_p",
    "jeffreys_p",
    "holm_p",
    "low",
    "high",
    "jeffreys_low",
    "jeffreys_high",
)
_FOOTNOTES = (
    "low, high: Clopper-Pearson interval, confidence {level}. binom.: exact binomial",
    "p-value for {tail}; portfolio: the sum of the",
    "grades' binomials. Jeffr.: Beta(defaults + 1/2, others + 1/2) below the PD (ECB",
    "2019). Holm: binom. corrected for the number of grades. Lights: one-sided,",
    "yellow at 95 %, red at 99.9 % confidence (OeNB and FMA 2004). Defaults",
)


def grade_table(
    n: Any,
    events: Any = None,
    pd: Any = None,
    *,
    grade: str | None = None,
    score: str | None = None,
    label: str | None = None,
    alpha: float = 0.05,
    names: Sequence[str] | None = None,
    sides: Sides = "one",
    correlation: float | None = None,
) -> GradeTable:
    r"""Compare the defaults of rating grades with their probabilities of default (PD).

    .. math:: p_{\text{binomial}} = P(X \ge k), \quad X \sim \operatorname{Bin}(n, \mathrm{PD}), \qquad
              p_{\text{Jeffreys}} = I_{\mathrm{PD}}\bigl(k + \tfrac12,\, n - k + \tfrac12\bigr),

    where a grade has n rows, k defaults and a given PD, and I is the distribution function of the beta distribution.
    For the portfolio, X is the sum of the grades' binomials, which is Poisson-binomial.

    Parameters
    ----------
    n, events, pd
        Rows, defaults and PD of each grade. Or ``n`` is a frame with a line for each borrower.
    grade, score, label
        Names of the columns of grades, PDs and defaults, if ``n`` is a frame. Grades are then in the order of their
        mean PD, which is what is tested.
    alpha
        One minus the confidence of the intervals.
    names
        Names of the grades; 1, 2, ... when left out.
    sides
        ``"one"``: too many defaults, as required by supervisors. ``"two"``: either side, twice the smaller tail, at
        most 1; the Jeffreys p-value and the lights stay one-sided.
    correlation
        Asset correlation of Vasicek's one-factor model. If given, the table also has p-values and lights for defaults
        that are correlated, as in :func:`vasicek_test`.

    Returns
    -------
    GradeTable
        Rates, p-values, intervals and traffic lights by grade and for the portfolio.

    Notes
    -----
    Edges: an empty grade has rate and p-values NaN and no light. A default where PD is 0 has p = 0,
    and a PD of 0 without defaults has p = 1.
    Guarantee: binomial and portfolio p-values are exact for independent defaults (the portfolio's by convolution up to
    a standard deviation of 500 defaults, then normal with continuity correction), Holm's hold for all grades at once.
    The Jeffreys p-value is a posterior probability: no finite-sample guarantee.
    Cost: O(grades), and a convolution about 30 standard deviations wide.
    References: ECB (2019), Instructions for reporting the validation results of internal models, section 2.5 (Jeffreys
    test); OeNB and FMA (2004), Guidelines on credit risk management: rating models and validation, section 6.2 (traffic
    lights); Holm (1979), A simple sequentially rejective multiple test procedure.

    Examples
    --------
    >>> table = grade_table([800, 500, 200], [2, 12, 21], [0.002, 0.01, 0.08], names=["A", "B", "C"])
    >>> print(table)
    grade         rows  def.   PD % rate %  low % high % binom. Jeffr.  Holm light
    A              800     2   0.20   0.25 0.0303   0.90  0.475  0.331 0.475 green
    B              500    12   1.00   2.40   1.25   4.15  0.005  0.003 0.016 yellow
    C              200    21   8.00  10.50   6.62  15.60  0.122  0.100 0.245 green
    portfolio     1500    35   1.51   2.33   1.63   3.23  0.007  0.007       yellow
    low, high: Clopper-Pearson interval, confidence 95 %. ...
    """
    check_option("sides", sides, get_args(Sides))
    counted = of_borrowers(n, events, pd, score, label, grade=grade)
    if counted is not None:
        (n, events, pd), keys = counted
        order, n, events, pd = by_grade(keys["grade"], n, events, pd)
        names = order if names is None else names
    m, k = check_counts(n, "n"), check_counts(events, "events")
    check_shapes(m, events=k, pd=pd)
    p, labels, alpha = check_pd(pd), check_names(names, m), check_share(alpha, "alpha")
    check_events(m, k)
    rho = None if correlation is None else check_correlation(correlation)
    upper, lower = _tails(k, m, p)
    filled = m > 0
    binomial = np.where(filled, upper if sides == "one" else np.minimum(1.0, 2.0 * np.minimum(upper, lower)), np.nan)
    portfolio = Chance(p, m.astype(np.float64))
    all_upper, all_lower = portfolio.at_least(float(k.sum())), portfolio.cdf(float(k.sum()))
    some, total, hits = bool(filled.any()), int(m.sum()), int(k.sum())
    both = all_upper if sides == "one" else min(1.0, 2.0 * min(all_upper, all_lower))
    mean_pd = float((m * p).sum()) / max(total, 1)
    low, high = clopper_pearson(k, m, alpha)
    correlated, portfolio_correlated = None, None
    if rho is not None:
        correlated = np.array([tail(k[j], m[j : j + 1], p[j : j + 1], rho) for j in range(len(m))])
        correlated = np.where(filled, correlated, np.nan)
        portfolio_correlated = tail(hits, m, p, rho) if some else float("nan")
    return GradeTable(
        names=labels,
        n=m,
        events=k,
        pd=p,
        rate=np.where(filled, k / np.maximum(m, 1), np.nan),
        binomial_p=binomial,
        jeffreys_p=np.where(filled, _jeffreys(k, m, p), np.nan),
        holm_p=holm(binomial),
        low=low,
        high=high,
        jeffreys_low=np.where(k > 0, special.betaincinv(k + 0.5, m - k + 0.5, alpha / 2), 0.0),
        jeffreys_high=np.where(k < m, special.betainccinv(k + 0.5, m - k + 0.5, alpha / 2), 1.0),
        lights=tuple(_light(float(tail), bool(here)) for tail, here in zip(upper, filled, strict=True)),
        portfolio_p=both if some else float("nan"),
        portfolio_jeffreys_p=float(_jeffreys(hits, total, mean_pd)) if some else float("nan"),
        portfolio_light=_light(all_upper, some),
        alpha=alpha,
        sides=sides,
        correlation=rho,
        correlated_p=correlated,
        correlated_lights=None if correlated is None else tuple(map(_light, correlated, filled)),
        portfolio_correlated_p=portfolio_correlated,
        portfolio_correlated_light=None if portfolio_correlated is None else _light(portfolio_correlated, some),
    )


# -------------------------------------------------------------------------------------------- Tails, corrections, lines


def _tails(k: Ints, n: Ints, p: Floats) -> tuple[Floats, Floats]:
    """P(X >= k) and P(X <= k) for binomial counts."""
    upper = np.where(k > 0, special.betainc(np.maximum(k, 1), n - np.maximum(k, 1) + 1.0, p), 1.0)
    lower = np.where(k < n, special.betaincc(k + 1.0, np.maximum(n - k, 1), p), 1.0)
    return upper, lower


def _jeffreys(events: ArrayLike, n: ArrayLike, pd: ArrayLike) -> Floats:
    """Probability below the PD under Jeffreys' posterior; 1 for a PD of 0 without defaults, which agree."""
    k, m, p = (np.asarray(each, dtype=np.float64) for each in (events, n, pd))
    return np.where((k == 0.0) & (p == 0.0), 1.0, special.betainc(k + 0.5, m - k + 0.5, p))


def _light(tail: float, filled: bool) -> Light:
    if not filled:
        return "none"
    return "red" if tail <= RED else "yellow" if tail <= YELLOW else "green"


def _line(width: int, record: Record) -> str:
    shares = "".join(f"{_percent(record[key]):>7}" for key in ("pd", "rate", "low", "high"))
    tests = f"{_p(record['binomial_p']):>7}{_p(record['jeffreys_p']):>7}{_p(record['holm_p']):>6}"
    line = f"{record['grade']:<{width}} {record['n']:>8} {record['defaults']:>5}{shares}{tests} {record['light']}"
    more = f"{_p(record['correlated_p']):>6} {record['correlated_light']}" if "correlated_p" in record else ""
    return f"{line}{' ' * (8 - len(record['light']))}{more}" if more else line


def _cells(record: Record) -> list[Cell]:
    cells: list[Cell] = [record["grade"], f"{record['n']:,}", f"{record['defaults']:,}"]
    cells += [_percent(record[key]) for key in ("pd", "rate", "low", "high")]
    cells += [_p(record[key]) for key in ("binomial_p", "jeffreys_p", "holm_p")]
    cells.append(light_dot(record["light"]))
    return (
        [*cells, _p(record["correlated_p"]), light_dot(record["correlated_light"])]
        if "correlated_p" in record
        else cells
    )


def light_dot(light: Light) -> Cell:
    """A light with its color and shape; plain text without a light."""
    return Dot(light, TRAFFIC_LIGHTS[light], SHAPES[light]) if light in TRAFFIC_LIGHTS else light


_MEANING = {
    "green": "no evidence that the PDs are too low",
    "yellow": "the PDs look too low (95 % confidence)",
    "red": "the PDs are too low (99.9 % confidence)",
}


def _is(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _too_high(p: float, hits: int, expected: float) -> str:
    """What a green light does not say: that there are too few defaults."""
    if p >= 0.001:
        return ""
    percentages = " If they are percentages, divide them by 100." if expected > 10.0 * hits else ""
    return f" The PDs are too high (99.9 % confidence); the lights only show PDs that are too low.{percentages}"


def _percent(x: float) -> str:
    """Two digits after the point, four where two would hide a PD at the floor."""
    return "" if np.isnan(x) else f"{100 * x:.2f}" if x >= 0.001 or x == 0.0 else f"{100 * x:.4f}"


def _p(x: float) -> str:
    return "" if np.isnan(x) else "<.001" if x < 0.001 else f"{x:.3f}"
