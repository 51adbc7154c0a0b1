"""Shift a calibration to a known base rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import width
from calibrant.calibration import Calibration, as_calibration
from calibrant.maps import Map
from calibrant.maps.base import unwrapped
from calibrant.numerics import Ends, expit, logit
from calibrant.shift.classes import match_frequencies
from calibrant.shift.stages import check_rate, log_odds, rising_root, then_shift, unlabeled
from calibrant.tallies import Tally

if TYPE_CHECKING:
    from calibrant.calibrators.binary.base import BinaryCalibrator


def match_mean(
    calibration: Calibration | Map | BinaryCalibrator,
    scores: ArrayLike | Tally,
    *,
    mean: float | Sequence[float] | Mapping[Any, float],
    sample_weight: ArrayLike | None = None,
) -> Calibration:
    r"""Shift the log-odds of a calibration so that its mean prediction on ``scores`` equals ``mean``.

    .. math::
        p'(s) = \operatorname{expit}\bigl(\operatorname{logit} m(s) + \delta\bigr), \qquad
        \frac{\sum_i w_i\, p'(s_i)}{\sum_i w_i} = \text{mean},

    where m is the map, :math:`s_i` are scores without labels, :math:`w_i` their weights and :math:`\delta` the shift.

    Parameters
    ----------
    calibration
        A calibration, a map or a fitted calibrator; ``IdentityMap()`` for uncalibrated probabilities.
    scores
        Raw scores of the rows whose base rate is known, or a tally of them, whose labels are ignored.
    mean
        The known base rate, strictly inside (0, 1). For a matrix of class scores, the known frequency of each class, by
        class or in the order of the columns; the calibration must then be a softmax map.
    sample_weight
        Weights of the scores.

    Returns
    -------
    Calibration
        The map followed by the shift; it exports like any other. It has no certificate: a certificate of the old map
        does not apply to it.

    Notes
    -----
    Edge cases: probabilities of exactly 0 and 1 are moved to half the distance of the nearest other probability. One
    row or one distinct score is enough.
    Guarantee: the mean equals the target up to rounding. The single probabilities are correct only if the base rate
    changed and the likelihood ratio of the score did not; no finite-sample guarantee. Scaling the probabilities instead
    could exceed 1 and has no such interpretation (Tasche 2013).
    Cost: one sort of the scores, then about five passes over distinct scores.
    Reference: Saerens, Latinne and Decaestecker (2002), on known new priors.

    Examples
    --------
    >>> from calibrant.maps import IdentityMap
    >>> moved = match_mean(IdentityMap(), [0.02, 0.05, 0.2, 0.6], mean=0.1)
    >>> moved.transform([0.02, 0.05, 0.2, 0.6]).round(4).tolist()
    [0.0061, 0.0155, 0.0694, 0.3091]
    >>> round(float(moved.transform([0.02, 0.05, 0.2, 0.6]).mean()), 12)
    0.1
    """
    if width(scores) > 2 or getattr(unwrapped(calibration), "classes", None):
        return match_frequencies(calibration, scores, mean, sample_weight)
    start, target = as_calibration(calibration), log_odds(check_rate("mean", mean))
    event = start.event(scores)
    scores = scores if event is None else event.scores
    tally = unlabeled(scores, sample_weight, start.score_type)
    images = start.map.apply(tally.scores)
    ends = Ends.of(images)
    z, n = logit(images, ends), tally.n / tally.total

    def off_by(shift: float) -> tuple[float, float]:
        """Log-odds of the mean minus the target: nearly linear in the shift, so Newton needs few steps."""
        p = expit(z + shift)
        q = expit(-z - shift)
        average, rest = float((n * p).sum()), float((n * q).sum())
        return float(np.log(average / rest)) - target, float((n * p * q).sum()) / (average * rest)

    near = -off_by(0.0)[0]
    shift = rising_root(off_by, target - float(z.max()), target - float(z.min()), 1e-15, near)
    return then_shift(start, shift, f"shifted to a mean of {mean:.6g}", ends)
