"""Roughly how many more labels would settle the question, if the estimates are right."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from calibrant.metrics.curve import CurveError

SETTLED_SHARE = 0.8
"""Share of repeated samples, at the estimated error, in which the number of labels should show that it is within."""

FEWEST_ROWS = 20
"""With fewer rows no number of labels is estimated: the error is hardly known."""

MAX_RATIO = 200.0
"""Multiple of the present number of labels above which no realistic number is said to settle the question."""


def more_labels(curve: CurveError, limit: float, rows: float) -> int | None:
    """Labels to add so that four of five samples of that size show that the curve is within the limit, if known.

    The model is taken to be calibrated or, if as many rows as that takes are there, to have the estimated error; the
    sample is cut into as many ranges as its size allows. ``rows`` is the present number of rows.
    """
    if rows < FEWEST_ROWS:
        return None
    ratios = np.geomspace(1.02, MAX_RATIO, 200)
    for error in (0.0, curve.value):
        place = bisect_left(ratios, SETTLED_SHARE, key=lambda ratio: curve.power(error, limit, float(ratio)))
        if 0 < place < len(ratios):
            return round_up((float(ratios[place]) - 1.0) * rows)
    return None


def round_up(labels: float) -> int:
    """Round up to two leading digits: more digits would suggest a precision that the estimate does not have."""
    unit = 10.0 ** max(np.floor(np.log10(max(labels, 1.0))) - 1.0, 0.0)
    return int(np.ceil(labels / unit) * unit)
