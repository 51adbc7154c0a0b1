"""Rating grades: tests of defaults against the probability of default (PD), and upper bounds for the PD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays.columns import check_option
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.messages import InputError, Shown
from calibrant.metrics.binary.bins import Bins, Scores, Strategy
from calibrant.metrics.chance import Chance
from calibrant.metrics.estimates import plain
from calibrant.metrics.multiplicity import holm
from calibrant.notebook import GRAY, TRAFFIC_LIGHTS, Cell, Dot, table_block
from calibrant.numerics import Column, Floats, Ints

Sides = Literal["one", "two"]
Light = Literal["green", "yellow", "red", "none"]
Method = Literal["most prudent", "scaled"]

YELLOW, RED = 0.05, 0.001
"""One-sided p-values at which a light turns yellow and red: confidence 95 % and 99.9 % (OeNB and FMA 2004)."""


@dataclass(frozen=True, eq=False)
class GradeTable(Shown):
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
    alpha, sides
        Settings of the table.
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
        columns = {"name": self.names, "light": self.lights}
        columns |= {key: getattr(self, key) for key in ("n", "events", "pd", *_FIGURES)}
        grades = [dict(zip(columns, row, strict=True)) for row in zip(*map(plain, columns.values()), strict=True)]
        whole = {
            "n": int(self.n.sum()),
            "events": int(self.events.sum()),
            "pd": plain(self._mean_pd),
            "binomial_p": plain(self.portfolio_p),
            "jeffreys_p": plain(self.portfolio_jeffreys_p),
            "light": self.portfolio_light,
        }
        return {"alpha": self.alpha, "sides": self.sides, "grades": grades, "portfolio": whole}

    @property
    def _mean_pd(self) -> float:
        total = int(self.n.sum())
        return float((self.n * self.pd).sum() / total) if total else float("nan")

    def __str__(self) -> str:
        """The table, 80 characters wide unless names are long, and a legend."""
        width = max(9, *(len(name) for name in self.names))
        head = f"{'grade':<{width}}{'rows':>9}{'def.':>6}{'PD %':>7}{'rate %':>7}{'low %':>7}{'high %':>7}"
        lines = [f"{head}{'binom.':>7}{'Jeffr.':>7}{'Holm':>6} light"]
        lines += [_line(width, *row) for row in self._rows()]
        return "\n".join([*lines, *self._footnotes()])

    def _repr_html_(self) -> str:
        """For notebooks: the table with colored lights, and its legend."""
        head = ("grade", "rows", "defaults", "PD %", "rate %", "low %", "high %", "binom.", "Jeffr.", "Holm", "light")
        rows = [_cells(*row) for row in self._rows()]
        bar = TRAFFIC_LIGHTS.get(self.portfolio_light, GRAY)
        notes = [" ".join(self._footnotes())]
        return table_block(head, rows, notes=notes, left=(0, 10), bold=[len(rows) - 1], color=bar)

    def _rows(self) -> list[tuple[Any, ...]]:
        """Entries of each grade, and of the portfolio."""
        rows = zip(
            self.names, self.n, self.events, self.pd, self.rate, self.low, self.high,
            self.binomial_p, self.jeffreys_p, self.holm_p, self.lights, strict=True,
        )  # fmt: skip
        total, hits = int(self.n.sum()), int(self.events.sum())
        rate = hits / total if total else float("nan")
        low, high = (float(end) for end in clopper_pearson(hits, total, self.alpha))
        shares, p_values = (self._mean_pd, rate, low, high), (self.portfolio_p, self.portfolio_jeffreys_p, np.nan)
        return [*rows, ("portfolio", total, hits, *shares, *p_values, self.portfolio_light)]

    def _footnotes(self) -> list[str]:
        tail = "more defaults than the PD allows" if self.sides == "one" else "a rate other than the PD (two-sided)"
        level = f"{100 * (1 - self.alpha):g} %"
        return [text.format(level=level, tail=tail) for text in _FOOTNOTES]


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
    "2019). Holm: binom. corrected for the number of grades. light: binom. one-sided,",
    "yellow at 95 %, red at 99.9 % confidence (OeNB and FMA 2004). Defaults",
    "are assumed to be independent; correlated defaults cause more red lights.",
)


def grade_table(
    n: ArrayLike,
    events: ArrayLike,
    pd: ArrayLike,
    *,
    alpha: float = 0.05,
    names: Sequence[str] | None = None,
    sides: Sides = "one",
) -> GradeTable:
    r"""Compare the defaults of rating grades with their probabilities of default (PD).

    .. math:: p_{\text{binomial}} = P(X \ge k), \quad X \sim \operatorname{Bin}(n, \mathrm{PD}), \qquad
              p_{\text{Jeffreys}} = I_{\mathrm{PD}}\bigl(k + \tfrac12,\, n - k + \tfrac12\bigr),

    where a grade has n rows, k defaults and a given PD, and I is the distribution function of the beta distribution.
    For the portfolio, X is the sum of the grades' binomials, which is Poisson-binomial.

    Parameters
    ----------
    n, events, pd
        Rows, defaults and PD of each grade.
    alpha
        One minus the confidence of the intervals.
    names
        Names of the grades; 1, 2, ... when left out.
    sides
        ``"one"``: too many defaults, as required by supervisors. ``"two"``: either side, twice the smaller tail, at
        most 1; the Jeffreys p-value and the lights stay one-sided.

    Returns
    -------
    GradeTable
        Rates, p-values, intervals and traffic lights by grade and for the portfolio.

    Notes
    -----
    Edges: an empty grade has rate and p-values NaN and no light. A default where PD is 0 has p = 0.
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
    m, k = _counts(n, "n"), _counts(events, "events")
    p = np.asarray(pd, dtype=np.float64)
    _check(m, k, p, alpha, names)
    upper, lower = _tails(k, m, p)
    filled = m > 0
    binomial = np.where(filled, upper if sides == "one" else np.minimum(1.0, 2.0 * np.minimum(upper, lower)), np.nan)
    portfolio = Chance(p, m.astype(np.float64))
    all_upper, all_lower = portfolio.at_least(float(k.sum())), portfolio.cdf(float(k.sum()))
    some, total, hits = bool(filled.any()), int(m.sum()), int(k.sum())
    both = all_upper if sides == "one" else min(1.0, 2.0 * min(all_upper, all_lower))
    mean_pd = float((m * p).sum()) / max(total, 1)
    low, high = clopper_pearson(k, m, alpha)
    return GradeTable(
        names=tuple(str(j + 1) for j in range(len(m))) if names is None else tuple(str(name) for name in names),
        n=m,
        events=k,
        pd=p,
        rate=np.where(filled, k / np.maximum(m, 1), np.nan),
        binomial_p=binomial,
        jeffreys_p=np.where(filled, special.betainc(k + 0.5, m - k + 0.5, p), np.nan),
        holm_p=holm(binomial),
        low=low,
        high=high,
        jeffreys_low=np.where(k > 0, special.betaincinv(k + 0.5, m - k + 0.5, alpha / 2), 0.0),
        jeffreys_high=np.where(k < m, special.betainccinv(k + 0.5, m - k + 0.5, alpha / 2), 1.0),
        lights=tuple(_light(float(tail), bool(here)) for tail, here in zip(upper, filled, strict=True)),
        portfolio_p=both if some else float("nan"),
        portfolio_jeffreys_p=float(special.betainc(hits + 0.5, total - hits + 0.5, mean_pd)) if some else float("nan"),
        portfolio_light=_light(all_upper, some),
        alpha=float(alpha),
        sides=sides,
    )


def pluto_tasche(
    n: ArrayLike, events: ArrayLike, *, confidence: float = 0.75, method: Method = "most prudent"
) -> Floats:
    r"""Upper bounds for the PDs of grades with few or no defaults, by most prudent estimation.

    .. math:: \hat p_i = \max_{j \le i} \sup\Bigl\{p : P\bigl(X \le K_j\bigr) \ge 1 - \gamma,\
              X \sim \operatorname{Bin}(N_j, p)\Bigr\}, \qquad N_j = \sum_{l \ge j} n_l, \quad K_j = \sum_{l \ge j} k_l,

    where grade l, from best to worst, has :math:`n_l` rows and :math:`k_l` defaults and :math:`\gamma` is the
    confidence. Grades are ordered from best to worst, so the PD of grade i is at most that of i and all worse grades
    pooled.

    Parameters
    ----------
    n, events
        Rows and defaults, best grade first.
    confidence
        :math:`\gamma`; it holds for each grade separately.
    method
        ``"most prudent"``, or ``"scaled"``: the same bounds times one factor, so that their mean over the rows is the
        upper bound of the whole portfolio. The scaled values are not bounds for single grades.

    Returns
    -------
    ndarray
        Upper bound of the PD of each grade.

    Notes
    -----
    Edges: if the worst grades have no rows, their bound is 1. The maximum matters only where better grades defaulted
    more often; it keeps the bounds in order.
    Guarantee: each bound is at least the grade's PD with probability gamma, for one year of independent defaults with
    PDs in the order of the grades. Correlation between defaults is ignored; it would raise the bounds.
    Cost: O(grades).
    References: Pluto and Tasche (2005), Estimating probabilities of default for low default portfolios, sections 2
    to 4.

    Examples
    --------
    >>> (100 * pluto_tasche([100, 400, 300], [0, 0, 0], confidence=0.75)).round(2).tolist()
    [0.17, 0.2, 0.46]
    """
    check_option("method", method, get_args(Method))
    m, k = _counts(n, "n"), _counts(events, "events")
    _check(m, k, np.zeros(len(m)), confidence, None, "confidence")
    rows, hits = np.cumsum(m[::-1])[::-1], np.cumsum(k[::-1])[::-1]
    bound = np.where(hits < rows, special.betaincinv(hits + 1.0, np.maximum(rows - hits, 1), confidence), 1.0)
    prudent = np.maximum.accumulate(bound)
    if method == "most prudent" or not rows[0]:
        return np.asarray(prudent)
    return np.asarray(prudent * (bound[0] * rows[0] / (m * prudent).sum()))


# -------------------------------------------------------------------------------------------- Tails, corrections, lines


def _counts(values: ArrayLike, name: str) -> Ints:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not ((array >= 0) & (array < 2.0**53) & (array == np.floor(array))).all():
        raise InputError(name, "must be a list of non-negative integers, one for each grade")
    return array.astype(np.int64)


def _check(
    n: Ints, events: Ints, pd: Floats, share: float, names: Sequence[str] | None, share_name: str = "alpha"
) -> None:
    for name, shape in (
        ("events", events.shape),
        ("pd", pd.shape),
        ("names", n.shape if names is None else (len(names),)),
    ):
        if shape != n.shape:
            raise InputError(name, f"has shape {shape} and n {n.shape}", "pass one value for each grade")
    if (events > n).any():
        wrong = int(np.argmax(events > n)) + 1
        raise InputError("events", f"exceed n in grade {wrong}", "check whether the two columns are swapped")
    if not ((pd >= 0.0) & (pd <= 1.0)).all():
        raise InputError("pd", "must hold probabilities between 0 and 1", "divide percentages by 100")
    if not 0.0 < share < 1.0:
        raise InputError(share_name, f"must lie between 0 and 1, got {share!r}")


def _tails(k: Ints, n: Ints, p: Floats) -> tuple[Floats, Floats]:
    """P(X >= k) and P(X <= k) for binomial counts."""
    upper = np.where(k > 0, special.betainc(np.maximum(k, 1), n - np.maximum(k, 1) + 1.0, p), 1.0)
    lower = np.where(k < n, special.betaincc(k + 1.0, np.maximum(n - k, 1), p), 1.0)
    return upper, lower


def _light(tail: float, filled: bool) -> Light:
    if not filled:
        return "none"
    return "red" if tail <= RED else "yellow" if tail <= YELLOW else "green"


def _line(
    width: int, name: str, n: int, events: int, pd: float, rate: float, low: float, high: float,
    binomial: float, jeffreys: float, holm: float, light: str
) -> str:  # fmt: skip
    shares = f"{_percent(pd):>7}{_percent(rate):>7}{_percent(low):>7}{_percent(high):>7}"
    return f"{name:<{width}} {n:>8} {events:>5}{shares}{_p(binomial):>7}{_p(jeffreys):>7}{_p(holm):>6} {light}"


def _cells(
    name: str, n: int, events: int, pd: float, rate: float, low: float, high: float,
    binomial: float, jeffreys: float, holm: float, light: str
) -> list[Cell]:  # fmt: skip
    numbers = [f"{n:,}", f"{events:,}", *map(_percent, (pd, rate, low, high)), *map(_p, (binomial, jeffreys, holm))]
    return [name, *numbers, Dot(light, TRAFFIC_LIGHTS[light]) if light in TRAFFIC_LIGHTS else light]


def _percent(x: float) -> str:
    """Two digits after the point, four where two would hide a PD at the floor."""
    return "" if np.isnan(x) else f"{100 * x:.2f}" if x >= 0.001 or x == 0.0 else f"{100 * x:.4f}"


def _p(x: float) -> str:
    return "" if np.isnan(x) else "<.001" if x < 0.001 else f"{x:.3f}"
