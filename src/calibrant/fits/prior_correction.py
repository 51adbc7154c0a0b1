"""Correction for sampling by class: check the class weights, and move a map to the population.

If a row is kept with a probability that depends on its class alone, the odds of every set of scores are multiplied by
one known number. So a fit to the rows as sampled can be moved back exactly, with its intervals: see
``docs/certificates/by-class.md``.
"""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Literal

import numpy as np

from calibrant.arrays import Rows
from calibrant.maps import BetaMap, ComposeMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap
from calibrant.messages import Argument, InputError, Phrase, Setting
from calibrant.numerics import Floats, multiply_odds

WeightType = Literal["importance", "frequency", "by-class"]
"""Meaning of sample_weight in calibrators."""

WEIGHT_TOLERANCE = 1e-9
"""Weights of one class are equal if they differ by no more than this share."""

EVENTS, NEGATIVES = "events", "negatives"

BY_CLASS, IMPORTANCE = Setting("weight_type", "by-class"), Setting("weight_type", "importance")


def class_odds(rows: Rows) -> float:
    """Weight of an event relative to a negative row; an error unless each class has one weight.

    Examples
    --------
    >>> from calibrant.arrays import check_rows
    >>> class_odds(check_rows([0.1, 0.2, 0.7], [0, 0, 1], [20.0, 20.0, 1.0]))
    0.05
    """
    if rows.weights is None:
        raise InputError(
            BY_CLASS,
            Phrase("needs {weight}", weight=Argument("sample_weight")),
            "pass the weight of each row's class",
        )
    events, negatives = (
        _one_weight(np.asarray(rows.weights[rows.labels == label], dtype=np.float64), name)
        for label, name in ((1, EVENTS), (0, NEGATIVES))
    )
    return events / negatives


def _one_weight(weights: Floats, name: str) -> float:
    if not len(weights):
        raise InputError(BY_CLASS, f"needs rows of both classes, but there are no {name}", "add some")
    low, high = float(weights.min()), float(weights.max())
    if high - low > WEIGHT_TOLERANCE * high:
        raise InputError(
            "sample_weight",
            Phrase(
                f"varies among the {name} (from {low:.6g} to {high:.6g}), but {{by_class}} needs one value per class",
                by_class=BY_CLASS,
            ),
            Phrase(
                "sampling that depends on the score, or on anything else within a class, cannot be corrected by class "
                "weights; pass {importance}",
                importance=IMPORTANCE,
            ),
        )
    return high


def refuse_by_class(method: str | None, *, in_frame: bool) -> None:
    """Reject class weights in a frame, and for a ``method`` whose map has no free intercept."""
    if in_frame:
        raise InputError(
            BY_CLASS,
            "needs arrays",
            Phrase(
                "pass the frame's columns as {scores}, {y} and {weight}",
                scores=Argument("scores"),
                y=Argument("y"),
                weight=Argument("sample_weight"),
            ),
        )
    if method is not None:
        raise InputError(
            BY_CLASS,
            f"moves the map to the population that class weights restore, which {method} does not support",
            Phrase(
                "use HistogramBinning, PlattScaling, BetaScaling, LogitShift, IsotonicCalibrator or calibrate(), or "
                "pass {importance}",
                importance=IMPORTANCE,
            ),
        )


def restored(fitted: Map, odds: float) -> Map:
    """A map fitted to rows as sampled, moved to the population in which the odds are ``odds`` times as large.

    Piecewise linear maps stay piecewise linear: the values at the knots are moved.

    Examples
    --------
    >>> restored(LogitAffineMap(1.0, 0.0), 0.05).apply([0.5]).round(4).tolist()
    [0.0476]
    """
    shift = log(odds)
    if isinstance(fitted, LogitAffineMap):
        return replace(fitted, intercept=fitted.intercept + shift)
    if isinstance(fitted, BetaMap):
        return replace(fitted, c=fitted.c + shift)
    if isinstance(fitted, StepMap | PiecewiseLinearMap):
        return replace(fitted, values=multiply_odds(fitted.values, odds))
    return ComposeMap((fitted, LogitAffineMap(1.0, shift)))
