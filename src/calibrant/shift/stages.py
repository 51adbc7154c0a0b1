"""Shared steps of the corrections: read unlabeled scores, and append a shift of the log-odds to a map."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Rows, ScoreType
from calibrant.arrays.columns import read_floats, refuse_empty, refuse_not_finite, value_range, without_negative_zero
from calibrant.arrays.rows import event_of
from calibrant.arrays.score_types import settled
from calibrant.arrays.sides import check_weights
from calibrant.calibration import Calibration
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.maps import ComposeMap, IdentityMap, LogitAffineMap, TreeMap
from calibrant.messages import InputError
from calibrant.numerics import Ends
from calibrant.tallies import Tally

ROOT_STEPS = 200
"""Maximum number of Newton or bisection steps."""
MOVED = NoCertificate(
    NoCertificateCode.MOVED,
    "the base rate was changed after the fit, and no theorem here covers the new rows",
)


def unlabeled(
    scores: ArrayLike | Tally, sample_weight: ArrayLike | None, score_type: ScoreType, name: str = "scores"
) -> Tally:
    """Scores without labels as a tally; the labels of a given tally are ignored."""
    if isinstance(scores, Tally):
        if sample_weight is not None:
            raise InputError(name, "is a tally, which already contains weights", "pass it alone")
        if scores.score_type != score_type:
            raise InputError(name, f"must be a tally of {score_type} scores, got one of {scores.score_type} scores")
        if not scores.total > 0:
            raise InputError(name, "is an empty tally", "pass a tally with rows")
        return scores
    event = event_of(scores, score_type=score_type)
    s = read_floats(scores if event is None else event.scores, name)
    if not s.size:
        refuse_empty(name)
    low, high = value_range(s)
    if not (math.isfinite(low) and math.isfinite(high)):
        refuse_not_finite(s, name, "drop these rows or repair the score")
    s, weights = without_negative_zero(settled(s, score_type, low, high, name)[0], low), None
    if sample_weight is not None:
        weights, _ = check_weights(sample_weight, "importance", len(s))
        s, weights = s[weights > 0], weights[weights > 0]
    no_labels = np.zeros(len(s), dtype=np.uint8)
    return Tally.from_rows(Rows(s, no_labels, weights, weights is None, None, None, score_type, ()))


def then_shift(calibration: Calibration, offset: float, words: str, ends: Ends) -> Calibration:
    """The calibration followed by a stage that adds ``offset`` to the log-odds, clipped to the ``ends``."""
    if isinstance(calibration.map, TreeMap):
        raise InputError(
            "calibration", "is a tree, which cannot be followed by a shift", "fit the tree again on recent rows"
        )
    stage = LogitAffineMap(1.0, offset, "log-odds", *ends)
    mapped = stage if isinstance(calibration.map, IdentityMap) else ComposeMap((calibration.map, stage))
    origin = calibration.provenance
    return Calibration(mapped, None if origin is None else replace(origin, method=f"{origin.method}, {words}"), MOVED)


def log_odds(rate: float) -> float:
    """Log-odds of a rate inside (0, 1), without clipping."""
    return math.log(rate) - math.log1p(-rate)


def check_rate(name: str, value: object) -> float:
    """A rate strictly inside (0, 1), far enough from the ends for double precision."""
    if not isinstance(value, int | float | np.floating) or not 2.0**-50 <= value <= 1.0 - 2.0**-50:
        raise InputError(name, f"must be a rate inside (0, 1), got {value!r}", "write 3 % as 0.03")
    return float(value)


def rising_root(
    function: Callable[[float], tuple[float, float]],
    low: float,
    high: float,
    floor: float,
    start: float | None = None,
) -> float:
    """Root of an increasing function that is negative at ``low`` and positive at ``high``.

    Newton steps from (value, slope), replaced by the middle of the bracket whenever they leave it; stops when a step is
    below 1e-14 of the argument plus ``floor``.

    Examples
    --------
    >>> round(rising_root(lambda x: (x * x - 2.0, 2.0 * x), 0.0, 2.0, 1e-15), 12)
    1.414213562373
    """
    x = 0.5 * (low + high) if start is None else start
    for _ in range(ROOT_STEPS):
        value, slope = function(x)
        if value == 0.0:
            break
        low, high = (low, x) if value > 0.0 else (x, high)
        step = x - value / slope if slope > 0.0 else math.nan
        following = step if low < step < high else 0.5 * (low + high)
        moved, x = abs(following - x), following
        if moved <= 1e-14 * abs(x) + floor:
            break
    return x
