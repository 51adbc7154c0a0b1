"""Decision thresholds from costs, on the probability and on the raw score, and what decisions at a threshold cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import ScoreType, check_scores
from calibrant.arrays.columns import read_array
from calibrant.calibration import Calibration, as_calibration
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.maps import Map
from calibrant.messages import Advice, InputError, Shown, public_names
from calibrant.metrics.binary.bins import tally_of
from calibrant.numerics import Floats, expit, first_double
from calibrant.reading import located

if TYPE_CHECKING:
    from calibrant.calibrators.binary.base import BinaryCalibrator

__all__ = ["CostCurve", "Cut", "Policy", "choose_action", "choose_threshold", "expected_cost", "rescale_contributions"]

__dir__ = public_names(__all__)

ENDS: dict[ScoreType, tuple[float, float]] = {
    "probability": (0.0, 1.0),
    "logit": (-1e300, 1e300),
    "real": (-1e300, 1e300),
}
"""Range of the scores of each type."""


@dataclass(frozen=True)
class Cut(Shown):
    """A decision threshold on the probability; ``float(cut)`` is the probability.

    Attributes
    ----------
    probability
        Act if the calibrated probability is at least this.
    score
        The smallest raw score that the map maps to at least this probability; None without a map, or if no score does.
    mapped
        Whether there is a map.

    Examples
    --------
    >>> cut = choose_threshold(cost_fp=1, cost_fn=4)
    >>> float(cut), cut.score, cut.mapped
    (0.2, None, False)
    """

    probability: float
    score: float | None = None
    mapped: bool = False

    def __float__(self) -> float:
        """The probability."""
        return self.probability

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"probability": self.probability, "score": self.score}

    def __str__(self) -> str:
        """One sentence."""
        if not self.mapped:
            return f"Act if the probability is at least {self.probability:.6g}."
        if self.score is None:
            return f"Act if the probability is at least {self.probability:.6g}, which no score reaches."
        return f"Act if the probability is at least {self.probability:.6g} (raw score at least {self.score!r})."


@dataclass(frozen=True)
class Policy(Shown):
    """The best action for each probability: ``actions[k]`` between cuts k - 1 and k; a cut belongs to the upper action.

    Attributes
    ----------
    actions
        Names of the actions that are best for some probability, by increasing probability.
    cuts
        Thresholds between neighboring actions, one fewer than actions.
    score_type
        Type of the scores that ``decide`` takes.

    Examples
    --------
    >>> policy = choose_action([[0, 20], [1, 5], [4, 0]], actions=["pass", "look", "block"])
    >>> policy.decide([0.01, 0.1, 0.9]).tolist()
    ['pass', 'look', 'block']
    """

    actions: tuple[Any, ...]
    cuts: tuple[Cut, ...]
    score_type: ScoreType = "probability"

    def decide(self, scores: ArrayLike) -> NDArray[Any]:
        """The action for each raw score, or for each probability if there is no map."""
        given = check_scores(scores, self.score_type).astype(np.float64)
        if np.isnan(given).any():
            problem = "has missing values, for which there is no best action"
            raise InputError("scores", problem, Advice.DROP_ROWS)
        return np.asarray(self.actions)[np.searchsorted(self._edges(), given, side="right")]

    def _edges(self) -> Floats:
        places = [cut.score if cut.mapped else cut.probability for cut in self.cuts]
        return np.array([math.inf if place is None else place for place in places], dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"actions": list(self.actions), "cuts": [cut.to_dict() for cut in self.cuts]}

    def __str__(self) -> str:
        """One line per action."""
        lines = [f"{self.actions[0]}: below all thresholds"]
        for action, cut in zip(self.actions[1:], self.cuts, strict=True):
            raw = "" if cut.score is None else f" (raw score at least {cut.score!r})"
            raw = " (not reached by any raw score)" if cut.mapped and cut.score is None else raw
            lines.append(f"{action}: probability at least {cut.probability:.6g}{raw}")
        return "\n".join(lines)


def choose_threshold(
    cost_fp: float, cost_fn: float, calibration: Calibration | Map | BinaryCalibrator | None = None
) -> Cut:
    r"""Choose the probability threshold above which acting is cheaper than not acting.

    .. math:: t = \frac{c_{\mathrm{fp}}}{c_{\mathrm{fp}} + c_{\mathrm{fn}}},

    where :math:`c_{\mathrm{fp}}` is the cost of acting without an event (false positive) and :math:`c_{\mathrm{fn}}`
    the cost of not acting with an event (false negative), both in excess of the cost of the right decision.

    Parameters
    ----------
    cost_fp, cost_fn
        Costs of at least 0, not both 0. For other losses use :func:`choose_action`.
    calibration
        If given, the threshold on the raw score is computed too.

    Returns
    -------
    Cut
        The threshold; ``float`` of it is the probability.

    Notes
    -----
    Edge cases: a cost of 0 puts the threshold at 0 (always act) or 1. The raw threshold is the smallest double that the
    map maps to at least t, found by bisection over doubles; None if there is none. Smooth maps are monotone up to 4
    units in the last place, so a neighbor within 4 doubles may qualify as well.
    Guarantee: minimizes expected cost if the probabilities are calibrated; the threshold remains valid if the model is
    replaced by another calibrated one. Cost: 64 evaluations of the map. Reference: Elkan (2001).

    Examples
    --------
    >>> from calibrant.maps import LogitAffineMap
    >>> print(choose_threshold(1, 19))
    Act if the probability is at least 0.05.
    >>> round(choose_threshold(1, 19, LogitAffineMap(1.0, -2.0)).score, 4)  # logit(0.05) + 2 in log-odds
    0.28
    """
    fp, fn = _cost("cost_fp", cost_fp), _cost("cost_fn", cost_fn)
    if fp == 0.0 and fn == 0.0:
        raise InputError(
            "cost_fp",
            "and cost_fn are both 0, so every threshold costs the same",
            "pass the cost of at least one mistake",
        )
    return _cut(1.0 / (1.0 + fn / fp) if fp > 0.0 else 0.0, calibration)


def choose_action(
    loss_matrix: ArrayLike,
    *,
    actions: Sequence[Any] | None = None,
    calibration: Calibration | Map | BinaryCalibrator | None = None,
) -> Policy:
    r"""Choose the action with the smallest expected loss at every probability.

    .. math:: a^*(p) = \arg\min_a\; (1 - p)\, L_{a0} + p\, L_{a1},

    where :math:`L_{a0}` and :math:`L_{a1}` are the losses of action a without and with the event. Each action's
    expected loss is linear in p, so the best actions form the lower envelope of these lines.

    Parameters
    ----------
    loss_matrix
        One row per action, two columns: loss without the event, loss with it. Gains are negative losses.
    actions
        Names of the actions; by default their row numbers.
    calibration
        If given, the thresholds on the raw score are computed too.

    Returns
    -------
    Policy
        The actions and the thresholds between them.

    Notes
    -----
    Edge cases: of equal rows the first is kept; an action that is best only at a single point is left out.
    Guarantee: as for :func:`choose_threshold`. Cost: as for :func:`choose_threshold`, for each threshold. Reference:
    Elkan (2001).

    Examples
    --------
    >>> print(choose_action([[0, 20], [1, 5], [4, 0]], actions=["pass", "look", "block"]))
    pass: below all thresholds
    look: probability at least 0.0625
    block: probability at least 0.375
    """
    losses = np.asarray(loss_matrix, dtype=np.float64)
    if losses.ndim != 2 or losses.shape[1] != 2 or not len(losses) or not (np.abs(losses) <= 1e150).all():
        raise InputError(
            "loss_matrix", "must have one row per action and two columns of numbers, without and with the event"
        )
    names = list(range(len(losses))) if actions is None else list(actions)
    if len(names) != len(losses):
        raise InputError("actions", f"has {len(names)} names but loss_matrix has {len(losses)} rows", "name every row")
    order, places = _envelope(losses[:, 0], losses[:, 1] - losses[:, 0])
    cuts = tuple(_cut(place, calibration) for place in places)
    kind: ScoreType = "probability" if calibration is None else as_calibration(calibration).score_type
    return Policy(tuple(names[k] for k in order), cuts, kind)


@dataclass(frozen=True, eq=False)
class CostCurve(Shown):
    """The result of :func:`expected_cost`: the mean cost of a row at each threshold, with its interval.

    Attributes
    ----------
    thresholds
        Act if the probability is at least this.
    cost, low, high
        Mean cost of a row, and intervals for all thresholds at once at confidence level 1 - alpha.
    false_positives, false_negatives, rows
        Rows on which acting was wrong, on which not acting was wrong, and all rows.
    cost_fp, cost_fn, alpha
        The costs, and one minus the confidence level.

    Examples
    --------
    >>> found = expected_cost([0.1, 0.2, 0.6, 0.9], [0, 1, 0, 1], cost_fp=1, cost_fn=5, thresholds=[0.2, 0.5])
    >>> found.cost.tolist(), found.best
    ([0.25, 1.5], 0.2)
    """

    thresholds: Floats
    cost: Floats
    low: Floats
    high: Floats
    false_positives: NDArray[Any]
    false_negatives: NDArray[Any]
    rows: int
    cost_fp: float
    cost_fn: float
    alpha: float

    @property
    def best(self) -> float:
        """The threshold with the lowest observed cost; its interval is valid, though it was picked."""
        return float(self.thresholds[int(np.argmin(self.cost))])

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}

    def __str__(self) -> str:
        """One line per threshold."""
        many = " for all thresholds at once" if len(self.thresholds) > 1 else ""
        lines = [f"Mean cost of a row, {self.rows:,} rows; {100 * (1 - self.alpha):.4g} % CI{many}"]
        for t, cost, low, high in zip(self.thresholds, self.cost, self.low, self.high, strict=True):
            rule = "never act" if math.isinf(t) else f"act from {t:.6g} on"
            lines.append(f"  {rule}: {cost:.4g} ({low:.4g} to {high:.4g})")
        return "\n".join(lines)


def expected_cost(
    scores: Any,
    y: ArrayLike | None = None,
    *,
    cost_fp: float,
    cost_fn: float,
    score: str | None = None,
    label: str | None = None,
    thresholds: ArrayLike | None = None,
    alpha: float = 0.05,
) -> CostCurve:
    r"""Estimate what decisions at a threshold cost, with intervals for several thresholds at once.

    .. math:: C(t) = c_{\mathrm{fp}} P(S \ge t, Y = 0) + c_{\mathrm{fn}} P(S < t, Y = 1)

    Parameters
    ----------
    scores, y
        Probabilities and labels, or a tally. They must not be the rows on which the probabilities were fitted.
    cost_fp, cost_fn
        Cost of acting without an event and of not acting with one, both at least 0.
    score, label
        Names of the columns of scores and labels, if ``scores`` is a frame.
    thresholds
        Thresholds, chosen without these rows. By default the one that is best for calibrated probabilities,
        :func:`choose_threshold`, and those of acting always (0) and never (infinity).
    alpha
        One minus the confidence level of all intervals together.

    Returns
    -------
    CostCurve
        Prints itself as text; has ``cost``, ``low``, ``high`` and ``best``.

    Notes
    -----
    Guarantee: finite-sample, for all thresholds at once, if rows are independent draws. Both shares have
    Clopper-Pearson intervals at alpha / 2m for m thresholds, and the ends of the cost are the sums of theirs, so that
    intervals are somewhat wide. Importance weights are refused. Cost: one sort.
    References: Elkan (2001) for the cost; Clopper and Pearson (1934) for the intervals.

    Examples
    --------
    >>> p = np.repeat([0.05, 0.3, 0.8], 100)
    >>> y = np.concatenate([np.arange(100) < hits for hits in (5, 30, 80)])
    >>> print(expected_cost(p, y, cost_fp=1, cost_fn=4, thresholds=[0.2, 0.5]))
    Mean cost of a row, 300 rows; 95 % CI for all thresholds at once
      act from 0.2 on: 0.3667 (0.251 to 0.552)
      act from 0.5 on: 0.5333 (0.3349 to 0.7932)
    """
    fp, fn = _cost("cost_fp", cost_fp), _cost("cost_fn", cost_fn)
    if not 0.0 < alpha < 1.0:
        raise InputError("alpha", f"must be inside (0, 1), got {alpha!r}", "0.05 gives 95 % intervals")
    if thresholds is None:
        at = np.array([0.0, float(choose_threshold(fp, fn)), math.inf])
    else:
        fix = "pass numbers from 0 to 1; 20 % is 0.2, and math.inf is to never act"
        at = np.atleast_1d(read_array(thresholds, "thresholds", fix))
        if at.ndim != 1 or not len(at) or not (((at >= 0.0) & (at <= 1.0)) | (at == np.inf)).all():
            raise InputError("thresholds", "must be probabilities, or infinity to never act", fix)
    given = located(scores, y, score=score, label=label, call="expected_cost")
    tally = tally_of(given.scores, given.y)
    if not tally.counts:
        raise InputError("scores", "have importance weights, for which these intervals are not exact", "pass counts")
    if tally.resolution != "exact":
        raise InputError(
            "scores", "is a tally on a grid, and a threshold may fall inside a cell", "pass rows, or an exact tally"
        )
    events, others = (np.concatenate([[0], np.cumsum(each)]) for each in (tally.events, tally.n - tally.events))
    below = np.searchsorted(tally.scores, at, side="left")
    missed, wasted, n = events[below], others[-1] - others[below], tally.total
    share = alpha / (2.0 * len(at))
    (fp_low, fp_high), (fn_low, fn_high) = (clopper_pearson(count, n, share) for count in (wasted, missed))
    return CostCurve(
        at, (fp * wasted + fn * missed) / n, fp * fp_low + fn * fn_low, fp * fp_high + fn * fn_high,
        wasted, missed, int(n), fp, fn, float(alpha),
    )  # fmt: skip


def rescale_contributions(
    values: ArrayLike,
    base: float,
    calibration: Calibration | Map | BinaryCalibrator,
    *,
    output: Literal["log-odds", "probability"] = "log-odds",
) -> tuple[Floats, float]:
    r"""Rescale additive contributions, such as SHAP values, so that they add up to the calibrated output.

    With contributions :math:`\phi_j` that add up to the model's log-odds :math:`f = \phi_0 + \sum_j \phi_j`, and the
    calibrated output g(f),

    .. math:: \psi_j = \phi_j \, \frac{g(f) - g(\phi_0)}{f - \phi_0}, \qquad \psi_0 = g(\phi_0).

    Parameters
    ----------
    values
        Contributions to the log-odds of the model, one row per prediction and one column per feature.
    base
        Base value :math:`\phi_0`, also in log-odds.
    calibration
        A calibration, map or fitted calibrator of the probability or of the log-odds.
    output
        ``"log-odds"`` or ``"probability"`` of the calibrated model.

    Returns
    -------
    tuple
        Rescaled contributions, and the base value; the sum of both is the calibrated output of each row.

    Notes
    -----
    This is the path integral of g along the straight line from the base value to the prediction (Aumann-Shapley). It
    keeps the ratios of the contributions of a row; with an increasing map also their signs. These are not the SHAP
    values of the calibrated model, which would need the model and the background data again.
    Edge cases: where contributions add up to 0, the slope of g over a small step is used. Calibrated probabilities of
    0 and 1 have no finite log-odds and are refused; use ``output="probability"``.
    Guarantee: additivity, up to rounding; no statistical guarantee. Cost: the map on two numbers per row.
    References: Lundberg and Lee (2017) for SHAP values; Aumann and Shapley (1974) for the path.

    Examples
    --------
    >>> from calibrant.maps import LogitAffineMap
    >>> psi, start = rescale_contributions([[1.0, 2.0], [0.5, -1.5]], -1.0, LogitAffineMap(0.5, 0.25))
    >>> psi.round(9).tolist(), round(start, 9)
    ([[0.5, 1.0], [0.25, -0.75]], -0.25)
    """
    if output not in {"log-odds", "probability"}:
        raise InputError("output", f"must be 'log-odds' or 'probability', got {output!r}")
    phi = read_array(values, "values", "pass a matrix with one row per prediction and one column per feature")
    if phi.ndim != 2 or not np.isfinite(phi).all():
        raise InputError("values", "must be finite numbers, one row per prediction", "pass a matrix")
    if not math.isfinite(base):
        raise InputError(
            "base", f"must be a finite number of log-odds, got {base!r}", "pass the explainer's base value"
        )
    through = as_calibration(calibration)
    if through.score_type == "real":
        raise InputError(
            "calibration", "is of scores that are not log-odds or probabilities", "calibrate probabilities"
        )

    def calibrated(f: Floats) -> Floats:
        p = np.asarray(through.map.apply(f if through.score_type == "logit" else expit(f)), dtype=np.float64)
        with np.errstate(divide="ignore"):
            return p if output == "probability" else np.asarray(np.log(p) - np.log1p(-p))

    total = phi.sum(axis=1)
    small = np.abs(total) < 1e-6
    step = np.where(small, 1e-6, total)
    start, ends = float(calibrated(np.array([base]))[0]), calibrated(base + step)
    if not (math.isfinite(start) and np.isfinite(ends).all()):
        raise InputError("calibration", "has a probability of 0 or 1", "pass output='probability'")
    return phi * ((ends - start) / step)[:, None], start


def least_score(mapping: Map, probability: float, score_type: ScoreType = "probability") -> float | None:
    """The smallest double that an increasing map maps to at least ``probability``; None if there is none.

    Examples
    --------
    >>> from calibrant.maps import StepMap
    >>> least_score(StepMap([0.3, 0.6], [0.1, 0.2, 0.9]), 0.15)
    0.3
    """
    if not mapping.direction.never_falls:
        raise InputError(
            "calibration",
            "has a map that decreases somewhere, so no threshold on the raw score matches one on the probability",
            "leave it out, and apply the threshold to the probability",
        )
    low, high = ENDS[score_type]
    if not float(mapping.apply(np.array([high]))[0]) >= probability:
        return None
    ends = np.array([np.nextafter(low, -np.inf)]), np.array([high])
    return float(first_double(lambda s: np.asarray(mapping.apply(s) >= probability), *ends)[0]) + 0.0


def _cut(probability: float, calibration: Any) -> Cut:
    if calibration is None:
        return Cut(probability)
    through = as_calibration(calibration)
    return Cut(probability, least_score(through.map, probability, through.score_type), True)


def _cost(name: str, value: float) -> float:
    if not (isinstance(value, int | float | np.number) and 0.0 <= value <= 1e300):
        raise InputError(name, f"must be a finite cost of at least 0, got {value!r}", "use choose_action for gains")
    return float(value)


def _envelope(level: Floats, slope: Floats) -> tuple[list[int], list[float]]:
    """Lines of the lower envelope on [0, 1] from left to right, and where each begins."""
    here = int(np.lexsort((slope, level))[0])
    order, places = [here], list[float]()
    while True:
        steeper = np.flatnonzero(slope < slope[here])
        if not len(steeper):
            return order, places
        crossing = (level[steeper] - level[here]) / (slope[here] - slope[steeper])
        best = steeper[np.lexsort((slope[steeper], crossing))[0]]
        place = float(crossing.min())
        if not place < 1.0:
            return order, places
        here = int(best)
        order.append(here)
        places.append(place)
