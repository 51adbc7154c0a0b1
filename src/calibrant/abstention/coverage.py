"""Risk-coverage curves: the share of wrong answers by the share of answers that are given, with a band."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.abstention.chain import (
    Ladder,
    check_levels,
    one_row_per_group,
    score_rule,
    seed_of,
    strictly_above,
)
from calibrant.arrays import ScoreType
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.messages import Drawn, InputError, Note, Shown
from calibrant.metrics.binary.bins import Scores
from calibrant.numerics import Floats, Ints
from calibrant.reading import located


@dataclass(frozen=True, eq=False)
class RiskCoverage(Drawn, Shown):
    """The result of :func:`risk_coverage`: points of the curve, each with its part of a simultaneous band.

    Attributes
    ----------
    threshold, rows, wrong
        At each point: the smallest score that is answered, rows that are answered, and wrong ones among them.
    low, high
        Band of the share of wrong answers, for all points at once at confidence level 1 - alpha.
    alpha, points
        One minus the confidence level, and the number of points that share it.
    all_rows, all_wrong
        Rows, and wrong rows, at or above every distinct score: the whole curve, without a band.
    area
        Area under the whole curve (AURC): the mean share of wrong answers, over all coverages.
    score_type, seed, notes
        What the scores are, the seed of the draw from groups if there was one, and further remarks.
    """

    threshold: Floats
    rows: Ints
    wrong: Ints
    low: Floats
    high: Floats
    alpha: float
    points: int
    all_rows: Ints
    all_wrong: Ints
    area: float
    score_type: ScoreType = "probability"
    seed: int | None = None
    notes: tuple[Note, ...] = ()

    @property
    def total(self) -> int:
        """All rows."""
        return int(self.all_rows[-1])

    @property
    def coverage(self) -> Floats:
        """Share of the rows that are answered, at each point."""
        return np.asarray(self.rows / self.total)

    @property
    def risk(self) -> Floats:
        """Share of wrong answers among those, at each point."""
        return np.asarray(self.wrong / self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        names = ("threshold", "rows", "wrong", "coverage", "risk", "low", "high")
        table = {name: np.asarray(getattr(self, name)).tolist() for name in names}
        rest = {"alpha": self.alpha, "area": self.area, "total": self.total, "seed": self.seed}
        return table | rest | {"notes": [note.as_dict() for note in self.notes]}

    def __str__(self) -> str:
        """A table of at most ten points."""
        shown = np.unique(np.linspace(0, len(self.rows) - 1, min(10, len(self.rows))).round().astype(int))
        sure = f"{100 * (1 - self.alpha):.4g} %"
        lines = [f"Area under the risk-coverage curve {self.area:.4f}, {self.total:,} rows; {sure} band for all points"]
        lines.append("  answered    wrong  band")
        for i in shown:
            share, risk = f"{100 * self.coverage[i]:8.1f} %", f"{100 * self.risk[i]:5.1f} %"
            band = f"{100 * self.low[i]:.1f} % to {100 * self.high[i]:.1f} %"
            lines.append(f"{share}  {risk}  {band}, if the score is {score_rule(float(self.threshold[i]))}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def risk_coverage(
    scores: Scores,
    correct: ArrayLike | None = None,
    *,
    alpha: float = 0.05,
    points: int = 20,
    groups: ArrayLike | str | None = None,
    score: str | None = None,
    label: str | None = None,
    random_state: int | None = None,
    score_type: ScoreType | None = None,
) -> RiskCoverage:
    r"""Compute the share of wrong answers by the share of answers given, with a band for all points at once.

    Point i of m answers every score strictly above that of the row of rank :math:`\lceil n i / m \rceil + 1` from the
    top. Its interval is the Clopper-Pearson interval of the rows above, at :math:`\alpha / m`.

    Parameters
    ----------
    scores, correct, score, label, score_type
        As in :func:`accept`.
    groups, random_state
        Group of each row. One row of each group is drawn at random, with a fresh seed by default.
    alpha
        One minus the confidence level of the band.
    points
        Number of points of the band, fixed before the rows are seen. Points that answer the same rows are merged.

    Returns
    -------
    RiskCoverage
        Prints itself as a table; has ``coverage``, ``risk``, ``low``, ``high``, ``threshold`` and ``area``.
        :class:`~calibrant.displays.RiskCoverageDisplay` draws it.

    Notes
    -----
    Edge cases: with ties, a point answers whole ties only, so that fewer points are left.
    Guarantee: finite-sample, for the population share of wrong answers at all thresholds of the band at once, if rows
    are independent draws: given the score of that rank and the number of rows above it, these are independent draws of
    the population above it, so that their number of wrong answers is binomial. A threshold that you choose from the
    table has its interval. To ask for one error, :func:`accept` is sharper. No guarantee for ``area``. Cost: one sort.
    References: El-Yaniv and Wiener (2010) for the curve; Clopper and Pearson (1934); Gupta (2023), Theorem 4.1, for
    rows above an order statistic.

    Examples
    --------
    >>> curve = risk_coverage([0.9] * 50 + [0.6] * 50, [1] * 49 + [0] + [1] * 30 + [0] * 20, points=2)
    >>> curve.coverage.tolist(), curve.risk.tolist(), curve.high.round(3).tolist()
    ([0.5, 1.0], [0.02, 0.21], [0.121, 0.316])
    """
    check_levels(0.5, alpha)
    if not (isinstance(points, int | np.integer) and points >= 1):
        raise InputError("points", f"must be an integer of at least 1, got {points!r}", "20 is a good choice")
    given = located(scores, correct, groups=groups, score=score, label=label, call="risk_coverage")
    scores = given.scores
    seed: int | None = seed_of(random_state)
    ladder = Ladder.of(scores, given.y, given.groups, score_type)
    all_rows, all_wrong, notes = ladder.rows, ladder.wrong, ladder.notes
    if ladder.groups is None or seed is None:
        seed = None
    else:
        all_rows, drawn = (each[0] for each in next(ladder.groups.draws(seed, 1)))
        all_wrong = drawn.astype(np.int64)
        notes = (*notes, one_row_per_group(seed=seed, groups=int(all_rows[-1]), rows=ladder.total))
    total = int(all_rows[-1])
    ranks = [-(-total * i // points) for i in range(1, points + 1)]
    found = {int(strictly_above(all_rows, rank)) for rank in ranks}
    places = sorted(place for place in found if place >= 0 and all_rows[place])
    rows, wrong = all_rows[places], all_wrong[places]
    low, high = clopper_pearson(wrong, rows, alpha / points)
    cuts = np.array([ladder.cut_above(place) for place in places])
    there = np.diff(all_rows, prepend=0) > 0  # a draw need not have every score
    all_rows, all_wrong = all_rows[there], all_wrong[there]
    area = float((np.diff(all_rows, prepend=0) * (all_wrong / all_rows)).sum() / total)
    return RiskCoverage(
        cuts, rows, wrong, low, high, float(alpha), int(points), all_rows, all_wrong, area, ladder.score_type, seed,
        notes,
    )  # fmt: skip
