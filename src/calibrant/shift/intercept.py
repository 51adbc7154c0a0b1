"""Move a calibration to a base rate that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from calibrant.calibration import Calibration, as_calibration
from calibrant.maps import Map
from calibrant.numerics import Ends, expit, logit
from calibrant.shift.stages import check_rate, log_odds, rising_root, then_shift, unlabelled
from calibrant.tallies import Tally

if TYPE_CHECKING:
    from calibrant.calibrators.base import BinaryCalibrator


def shift_to(
    calibration: Calibration | Map | BinaryCalibrator,
    scores: ArrayLike | Tally,
    *,
    mean: float,
    sample_weight: ArrayLike | None = None,
) -> Calibration:
    r"""The calibration with its log-odds shifted so that the mean prediction on ``scores`` is ``mean``.

    .. math::
        p'(s) = \operatorname{expit}\bigl(\operatorname{logit} m(s) + \delta\bigr), \qquad
        \frac{\sum_i w_i\, p'(s_i)}{\sum_i w_i} = \text{mean},

    where m is the map, :math:`s_i` are scores without labels, :math:`w_i` their weights and :math:`\delta` the shift.

    Parameters
    ----------
    calibration
        A calibration, a bare map or a fitted calibrator; ``IdentityMap()`` for probabilities as they are.
    scores
        Raw scores of the rows whose base rate is known, or a tally of them, whose labels are not looked at.
    mean
        The known base rate, strictly inside (0, 1).
    sample_weight
        Weights of the scores.

    Returns
    -------
    Calibration
        The map with the shift as a stage of its own; it exports like any other. The certificate, if there was one, is
        gone: it spoke of the old map.

    Notes
    -----
    Edge rules: images of exactly 0 and 1 are read as half as far from their end as the nearest other image. One row or
    one distinct score is enough.
    Guarantee: the mean is met up to rounding. That single probabilities are right needs more: that the likelihood ratio
    of the score did not change, only the base rate; no finite-sample guarantee. Multiplying probabilities instead would
    leave [0, 1] and has no such reading (Tasche 2013).
    Cost: one sort of the scores, then about five passes over distinct scores.
    Reference: Saerens, Latinne and Decaestecker 2002, on known new priors.

    Examples
    --------
    >>> from calibrant.maps import IdentityMap
    >>> moved = shift_to(IdentityMap(), [0.02, 0.05, 0.2, 0.6], mean=0.1)
    >>> moved.transform([0.02, 0.05, 0.2, 0.6]).round(4).tolist()
    [0.0061, 0.0155, 0.0694, 0.3091]
    >>> round(float(moved.transform([0.02, 0.05, 0.2, 0.6]).mean()), 12)
    0.1
    """
    start, target = as_calibration(calibration), log_odds(check_rate("mean", mean))
    tally = unlabelled(scores, sample_weight, start.kind)
    images = start.map.apply(tally.scores)
    ends = Ends.of(images)
    z, n = logit(images, ends), tally.n / tally.total

    def off_by(shift: float) -> tuple[float, float]:
        """Log-odds of the mean beyond the target: nearly linear in the shift, so Newton needs few steps."""
        p = expit(z + shift)
        q = expit(-z - shift)
        average, rest = float((n * p).sum()), float((n * q).sum())
        return float(np.log(average / rest)) - target, float((n * p * q).sum()) / (average * rest)

    near = -off_by(0.0)[0]
    shift = rising_root(off_by, target - float(z.max()), target - float(z.min()), 1e-15, near)
    return then_shift(start, shift, f"shifted to a mean of {mean:.6g}", ends)
