"""From costs to a cut: which probability to act at, and the raw score at which a map reaches it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Kind, check_scores
from calibrant.calibration import Calibration, as_calibration
from calibrant.maps import Map
from calibrant.messages import Advice, InputError
from calibrant.numerics import Floats, first_double

if TYPE_CHECKING:
    from calibrant.calibrators.base import BinaryCalibrator

ENDS: dict[Kind, tuple[float, float]] = {
    "probability": (0.0, 1.0),
    "logit": (-1e300, 1e300),
    "real": (-1e300, 1e300),
}
"""Where scores of each kind begin and end."""


@dataclass(frozen=True)
class Cut:
    """A probability to act at; ``float(cut)`` is it.

    Attributes
    ----------
    probability
        Act when the calibrated probability is at least this.
    score
        The least raw score that the map lifts to it; None if no score is, or if there is no map.
    mapped
        Whether there is a map.
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
            return f"Act from a probability of {self.probability:.6g} on."
        if self.score is None:
            return f"Act from a probability of {self.probability:.6g} on, which no score reaches."
        return f"Act from a probability of {self.probability:.6g} on, that is from a raw score of {self.score!r} on."


@dataclass(frozen=True)
class Policy:
    """The best action by probability: ``actions[k]`` between cut k - 1 and cut k, an edge belonging to the upper side.

    Examples
    --------
    >>> policy = bayes_action([[0, 20], [1, 5], [4, 0]], actions=["pass", "look", "block"])
    >>> policy.decide([0.01, 0.1, 0.9]).tolist()
    ['pass', 'look', 'block']
    """

    actions: tuple[Any, ...]
    cuts: tuple[Cut, ...]
    kind: Kind = "probability"

    def decide(self, scores: ArrayLike) -> NDArray[Any]:
        """The action for each raw score, or for each probability when there is no map."""
        given = check_scores(scores, self.kind).astype(np.float64)
        if np.isnan(given).any():
            problem = "has missing values, and there is no best action without a score"
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
        lines = [f"{self.actions[0]}: below every cut"]
        for action, cut in zip(self.actions[1:], self.cuts, strict=True):
            raw = "" if not cut.mapped else f" (raw score {'never' if cut.score is None else repr(cut.score)})"
            lines.append(f"{action}: from a probability of {cut.probability:.6g} on{raw}")
        return "\n".join(lines)


def threshold(cost_fp: float, cost_fn: float, calibration: Calibration | Map | BinaryCalibrator | None = None) -> Cut:
    r"""The probability from which on acting is cheaper than not acting.

    .. math:: t = \frac{c_{\mathrm{fp}}}{c_{\mathrm{fp}} + c_{\mathrm{fn}}},

    where :math:`c_{\mathrm{fp}}` is what acting costs when there is no event and :math:`c_{\mathrm{fn}}` what not
    acting costs when there is one, both beyond what the right decision costs.

    Parameters
    ----------
    cost_fp, cost_fn
        Costs of at least 0, not both 0. For other losses use :func:`bayes_action`.
    calibration
        With it the cut on the raw score is found too.

    Notes
    -----
    Edge rules: a cost of 0 puts the cut at 0 (always act) or 1. The raw cut is the least double whose image reaches t,
    found by bisection over doubles; None if none does. Smooth maps are monotone up to 4 units in the last place, so
    there a neighbour within as many doubles may do as well.
    Guarantee: optimal for expected cost if probabilities are calibrated; the cut stays when the model is replaced by
    another calibrated one. Cost: 64 evaluations of the map. Reference: Elkan 2001.

    Examples
    --------
    >>> from calibrant.maps import LogitAffineMap
    >>> print(threshold(1, 19))
    Act from a probability of 0.05 on.
    >>> round(threshold(1, 19, LogitAffineMap(1.0, -2.0)).score, 4)  # logit(0.05) + 2 in log-odds
    0.28
    """
    fp, fn = _cost("cost_fp", cost_fp), _cost("cost_fn", cost_fn)
    if fp == 0.0 and fn == 0.0:
        raise InputError("cost_fp", "and cost_fn are both 0, so every cut costs the same", "say what a mistake costs")
    return _cut(1.0 / (1.0 + fn / fp) if fp > 0.0 else 0.0, calibration)


def bayes_action(
    loss_matrix: ArrayLike,
    *,
    actions: Sequence[Any] | None = None,
    calibration: Calibration | Map | BinaryCalibrator | None = None,
) -> Policy:
    r"""The action of least expected loss at every probability.

    .. math:: a^*(p) = \arg\min_a\; (1 - p)\, L_{a0} + p\, L_{a1},

    where :math:`L_{a0}` and :math:`L_{a1}` are the losses of action a without and with the event. Each action's
    expected loss is a line in p, so the best ones follow each other along the lower envelope of the lines.

    Parameters
    ----------
    loss_matrix
        One row per action, two columns: loss without the event, loss with it. Gains are negative losses.
    actions
        Names; by default the numbers of the rows.
    calibration
        With it the cuts on the raw score are found too.

    Notes
    -----
    Edge rules: of equal rows the first is kept; an action that is best nowhere but at one point is left out.
    Guarantee and cost: as for :func:`threshold`, for each cut. Reference: Elkan 2001.

    Examples
    --------
    >>> print(bayes_action([[0, 20], [1, 5], [4, 0]], actions=["pass", "look", "block"]))
    pass: below every cut
    look: from a probability of 0.0625 on
    block: from a probability of 0.375 on
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
    kind: Kind = "probability" if calibration is None else as_calibration(calibration).kind
    return Policy(tuple(names[k] for k in order), cuts, kind)


def least_score(mapping: Map, probability: float, kind: Kind = "probability") -> float | None:
    """The least double whose image under an increasing map reaches ``probability``; None if none does.

    Examples
    --------
    >>> from calibrant.maps import StepMap
    >>> least_score(StepMap([0.3, 0.6], [0.1, 0.2, 0.9]), 0.15)
    0.3
    """
    if not mapping.direction.never_falls:
        raise InputError(
            "calibration",
            "has a map that falls somewhere, so no single cut on the raw score equals one on the probability",
            "leave it out, and cut the probability",
        )
    low, high = ENDS[kind]
    if not float(mapping.apply(np.array([high]))[0]) >= probability:
        return None
    ends = np.array([np.nextafter(low, -np.inf)]), np.array([high])
    return float(first_double(lambda s: np.asarray(mapping.apply(s) >= probability), *ends)[0]) + 0.0


def _cut(probability: float, calibration: Any) -> Cut:
    if calibration is None:
        return Cut(probability)
    through = as_calibration(calibration)
    return Cut(probability, least_score(through.map, probability, through.kind), True)


def _cost(name: str, value: float) -> float:
    if not (isinstance(value, int | float | np.number) and 0.0 <= value <= 1e300):
        raise InputError(name, f"must be a finite cost of at least 0, got {value!r}", "use bayes_action for gains")
    return float(value)


def _envelope(level: Floats, slope: Floats) -> tuple[list[int], list[float]]:
    """Lines that are lowest on [0, 1] from left to right, and where each takes over."""
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
