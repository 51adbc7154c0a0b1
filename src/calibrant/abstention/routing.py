"""Route between a cheap and an expensive model: keep the cheap answer where its score is high enough."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.abstention.chain import (
    at_or_above,
    check_levels,
    graded_rows,
    groups_count_once,
    mean_passes,
    p_values,
    reach,
    score_rule,
)
from calibrant.arrays import ScoreType
from calibrant.messages import InputError, Note, Shown
from calibrant.numerics import Floats
from calibrant.reading import from_columns


@dataclass(frozen=True)
class Route(Shown):
    """The result of :func:`route`: the threshold from which the cheap answer is kept.

    Attributes
    ----------
    shown
        Whether an error of at most ``error`` was shown at all; if not, not even for the expensive model alone.
    threshold
        Keep the cheap answer if its score is at least this; None if it is never kept.
    error, alpha
        With confidence 1 - alpha, the share of wrong answers overall is at most ``error``.
    wrong, total
        Wrong answers of this routing among all rows.
    kept
        Share of the rows whose cheap answer is kept.
    cost, cost_low, cost_high
        Mean cost of a row, and its interval at the same confidence level, on its own.
    wrong_cheap, wrong_expensive
        Wrong answers of each model alone.
    score_type, share, notes
        What the scores are; with groups, the share of wrong answers if each group has the same weight; further remarks.
    """

    shown: bool
    threshold: float | None
    error: float
    alpha: float
    wrong: int
    total: int
    kept: float
    cost: float
    cost_low: float
    cost_high: float
    wrong_cheap: int
    wrong_expensive: int
    score_type: ScoreType = "probability"
    share: float | None = None
    notes: tuple[Note, ...] = ()

    def decide(self, scores: ArrayLike) -> NDArray[np.bool_]:
        """Whether to keep the cheap answer, for each score; a missing score is passed on."""
        return at_or_above(scores, self.threshold, self.score_type)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self) | {"notes": [note.as_dict() for note in self.notes]}

    def __str__(self) -> str:
        """One paragraph, and notes."""
        sure, most = f"{100 * (1 - self.alpha):.4g} %", f"{100 * self.error:.4g} %"
        alone = (
            f"alone, the cheap model is wrong in {self.wrong_cheap:,} and the expensive one in {self.wrong_expensive:,}"
        )
        if not self.shown:
            text = (
                f"No routing: it is not shown with confidence {sure} that the expensive model alone is wrong in at "
                f"most {most} of the rows. Of {self.total:,} rows, {alone}. Grade more rows, or allow a larger error."
            )
            return "\n  ".join([text, *map(str, self.notes)])
        rule = (
            "Always ask the expensive model"
            if self.threshold is None
            else f"Keep the cheap answer if its score is {score_rule(self.threshold)}, else ask the expensive model"
        )
        by_group = "" if self.share is None else f" ({100 * self.share:.1f} % if each group has the same weight)"
        text = (
            f"{rule}: with confidence {sure}, at most {most} of all answers are wrong. Of {self.total:,} rows "
            f"{100 * self.kept:.1f} % stay with the cheap model and {self.wrong:,} are wrong{by_group}; {alone}. A row "
            f"costs {self.cost:.4g} ({self.cost_low:.4g} to {self.cost_high:.4g})."
        )
        return "\n  ".join([text, *map(str, self.notes)])


def route(
    scores: Any,
    cheap: ArrayLike | str,
    expensive: ArrayLike | str,
    *,
    error: float = 0.10,
    alpha: float = 0.05,
    cost_cheap: float = 1.0,
    cost_expensive: float = 10.0,
    groups: ArrayLike | str | None = None,
    score: str | None = None,
    score_type: ScoreType | None = None,
) -> Route:
    r"""Find the lowest threshold of the cheap model's score at which few answers are wrong overall.

    A row with a score of at least t keeps the cheap answer; any other row goes to the expensive model. Tests start with
    every row at the expensive model and go down through all distinct scores, until the first that fails:

    .. math:: P\bigl(\mathrm{Bin}(n, e) \le w_t\bigr) \le \alpha,

    where :math:`w_t` of all n answers are wrong at t, and e is ``error``.

    Parameters
    ----------
    scores
        Confidence of the cheap model.
    cheap, expensive
        Whether the answer of each model was right, for all rows.
    score
        Name of the column of confidences, if ``scores`` is a frame; ``cheap``, ``expensive`` and ``groups`` are then
        names too.
    error
        Largest share of wrong answers overall.
    alpha
        One minus the confidence level.
    cost_cheap, cost_expensive
        Cost of one answer. A row that goes to the expensive model costs both.
    groups
        Group of each row. Each group then counts once: the guarantee is for a random row of a random group.
    score_type
        As in :func:`accept`.

    Returns
    -------
    Route
        Prints itself as text; has ``threshold``, ``decide``, ``cost`` and ``to_dict``.

    Notes
    -----
    Edge cases: if the error of the expensive model alone is not shown to be small enough, nothing is.
    Guarantee: finite-sample, for the share of wrong answers in the population, if rows are independent draws of it;
    docs/certificates/abstention.md has the proof. The interval of the cost is finite-sample too, at every threshold at
    once (Dvoretzky, Kiefer and Wolfowitz 1956; Massart 1990), and has a confidence level of its own. With groups, the
    sum of their shares of wrong answers is tested, by a bound that holds for any numbers in [0, 1]. Cost: one sort.
    References: Chen, Zaharia and Zou (2023), FrugalGPT, for the problem; Bauer (1991) for tests in a fixed order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> score = rng.random(2000)
    >>> cheap, expensive = rng.random(2000) < 0.6 + 0.4 * score, rng.random(2000) < 0.97
    >>> found = route(score, cheap, expensive, error=0.1, cost_expensive=20)
    >>> round(found.threshold, 2), round(found.kept, 2), round(found.cost, 1)
    (0.4, 0.6, 9.0)
    """
    check_levels(error, alpha)
    for name, value in (("cost_cheap", cost_cheap), ("cost_expensive", cost_expensive)):
        if not (isinstance(value, int | float | np.number) and 0.0 <= value <= 1e300):
            raise InputError(name, f"must be a finite cost of at least 0, got {value!r}", "pass the price of an answer")
    if score is not None:
        named = {"score": score, "cheap": cheap, "expensive": expensive, "groups": groups}
        scores, cheap, expensive, groups = from_columns(scores, **named)
    rows = graded_rows(scores, cheap, "cheap", groups, score_type)
    right = graded_rows(scores, expensive, "expensive", None, score_type).labels
    wrong_cheap, wrong_expensive = (1.0 - each.astype(np.float64) for each in (rows.labels, right))
    weight, n, notes = np.ones(len(rows.scores)), len(rows.scores), rows.other_notes
    if rows.groups is not None:
        _, index, size = np.unique(rows.groups, return_inverse=True, return_counts=True)
        weight, n = 1.0 / size[index], len(size)
    at, place = np.unique(-rows.scores, return_inverse=True)

    def down(values: Floats) -> Floats:
        """Sums over the rows at or above each score, and 0 before the first."""
        return np.concatenate([[0.0], np.cumsum(np.bincount(place, values, len(at)))])

    total = float((weight * wrong_expensive).sum()) + down(weight * (wrong_cheap - wrong_expensive))
    units = np.full(len(total), n)
    by_group = n < len(rows.scores)
    if by_group:
        passed = mean_passes(total, units, error, alpha)
    else:
        passed = p_values(total.round().astype(np.int64), units, error) <= alpha
    last = reach(passed, 0)
    end = max(last, 0)
    threshold = float(-at[last - 1]) + 0.0 if last >= 1 else None
    passed_on = 1.0 - float(down(weight)[end]) / n
    wrong = int(wrong_expensive.sum() + down(wrong_cheap - wrong_expensive)[end].round())
    if by_group:
        notes = (*notes, groups_count_once(groups=n))
    radius = math.sqrt((math.log(2.0 / alpha) + by_group) / (2.0 * n))
    cost, low, high = (
        cost_cheap + cost_expensive * float(np.clip(passed_on + d, 0.0, 1.0)) for d in (0.0, -radius, radius)
    )
    sums = int(wrong_cheap.sum()), int(wrong_expensive.sum())
    return Route(
        last >= 0, threshold, float(error), float(alpha), wrong, len(rows.scores), 1.0 - passed_on, cost, low, high,
        *sums, rows.score_type, float(total[end]) / n if by_group else None, notes,
    )  # fmt: skip
