"""Calibration errors."""

from __future__ import annotations

import numpy as np

from calibrant.arrays import InputError
from calibrant.tallies import Tally


def ece(tally: Tally, n_bins: int = 15) -> float:
    r"""Expected calibration error with bins of equal width, for comparison with papers.

    .. math:: \sum_{b=1}^{B} \frac{n_b}{n} \Bigl|\frac{e_b}{n_b} - \bar s_b\Bigr|

    over the bins :math:`[(b-1)/B, b/B)`, the last closed; :math:`e_b` are the events, :math:`\bar s_b` the mean score
    (002 section 1.4.1). Empty bins add nothing. It is biased upwards in small samples, and a constant score at the base
    rate has error 0. A gridded cell goes to the bin of its mean score.

    Examples
    --------
    >>> round(ece(Tally.from_arrays([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0])), 3)
    0.25
    """
    if n_bins < 1:
        raise InputError(f"n_bins must be at least 1, got {n_bins}")
    if tally.kind != "probability":
        raise InputError(f"a calibration error needs probabilities, not {tally.kind} scores")
    scores = tally.scores
    index = np.searchsorted(np.arange(1, n_bins) / n_bins, scores, side="right")
    gap = np.bincount(index, tally.events - scores * tally.n, minlength=n_bins)
    return float(np.abs(gap).sum() / tally.total)
