"""Temperature scaling, for one score or for several classes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import width
from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.calibrators.base import Fit
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.calibrators.multiclass.base import MulticlassCalibrator
from calibrant.fits.multiclass.softmax import LogRows, fit_slope, zero_notes
from calibrant.fits.scaling import Scaling, fit_temperature, rates_text, unlimited
from calibrant.maps import LogitAffineMap, Map, SoftmaxMap
from calibrant.messages import InputError, Voice
from calibrant.tallies import Tally, ends_at


@dataclass(eq=False, repr=False)
class TemperatureScaling(BinaryCalibrator, MulticlassCalibrator):
    r"""Temperature scaling: one slope on the log-odds, or on all logits of a row.

    .. math:: m(s) = \operatorname{expit}\bigl(a \operatorname{logit}(s)\bigr), \qquad
              m(z) = \operatorname{softmax}(a z), \qquad a = 1/T \ge 0,

    the first for one score s, the second for a matrix of K columns, with z the logarithms of its probabilities, or its
    logits. T is the temperature: above 1 it moves every probability toward 1/2 (1/K), below 1 away from it. The
    identity is :math:`T = 1`. A single score of type ``"logit"`` or ``"real"`` is divided by T directly.

    Parameters
    ----------
    soft_targets : bool
        As in :class:`PlattScaling`; with K classes each label has a share of 1/(n + K) for each other class. This is
        also done automatically, with a note, if every label is on the right side of 1/2 or has the largest score of its
        row, where the likelihood has no maximum.
    limits : bool
        As in :class:`PlattScaling`; for one score only.
    clamp : float, optional
        As in :class:`PlattScaling`. Probabilities of a matrix are clipped from below only; by default those below
        2**-32 are replaced by half the smallest other one.

    Attributes
    ----------
    temperature_ : float
        T; infinite if the slope is 0, where every output is 1/2. For a matrix it is constrained to [0.01, 100]. NaN if
        every score is exactly 0 or 1.

    Notes
    -----
    Edge cases: if all scores are 1/2, or 1/K, they are not changed, with a note. Scores of exactly 0 and 1 are treated
    as in :class:`PlattScaling`.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (Gupta 2023,
    Theorem 3.3).
    Cost: one pass to tally, then O(cells) per Newton step; for a matrix about three passes, block by block.
    Reference: Guo et al. (2017); Gupta (2023), eq. 1.13, whose t is a here.

    Examples
    --------
    >>> cal = TemperatureScaling().fit([0.1, 0.1, 0.1, 0.9], [0, 0, 1, 1])  # three of four are on the right side
    >>> cal.transform([0.1, 0.5, 0.9]).round(6).tolist(), round(cal.temperature_, 6)
    ([0.25, 0.5, 0.75], 2.0)
    >>> cal = TemperatureScaling().fit([[0.8, 0.1, 0.1]] * 4, [0, 0, 1, 2])  # predicts 0.8, right in two of four
    >>> cal.transform([[0.8, 0.1, 0.1]]).round(3).tolist(), round(cal.temperature_, 6)
    ([[0.5, 0.25, 0.25]], 3.0)
    """

    temperature_: float = field(init=False)

    _: KW_ONLY
    soft_targets: bool = False
    limits: bool = False
    clamp: float | None = None

    def fit(self, scores: Any, y: Any = None, sample_weight: Any = None, **described: Any) -> Self:
        """Fit to one score, as :meth:`BinaryCalibrator.fit`, or to a matrix, as :meth:`MulticlassCalibrator.fit`.

        Parameters
        ----------
        scores, y, sample_weight, **described
            As in the method for one score or for several classes.

        Returns
        -------
        self
            The fitted calibrator.
        """
        names = described.get("score", y if isinstance(sample_weight, str) else None)  # of the columns of a frame
        columns = len(names) if isinstance(names, list | tuple) else 1 if isinstance(names, str) else width(scores)
        many = columns > 2 or described.get("classes") is not None
        base = MulticlassCalibrator if many else BinaryCalibrator
        return base.fit(self, scores, y, sample_weight, **described)

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        fitted, notes = fit_temperature(tally, Scaling(soft_targets=self.soft_targets, limits=self.limits))
        inner = unlimited(fitted)
        slope = inner.slope if isinstance(inner, LogitAffineMap) else float("nan")
        return Fit(fitted, notes, {"temperature_": float("inf") if slope == 0.0 else 1.0 / slope})

    def _fit_classes(self, rows: MulticlassRows) -> Fit[SoftmaxMap]:
        if self.limits:
            raise InputError("limits", "is for one score only", "leave it out for a matrix of classes")
        clamp = None if self.clamp is None else ends_at(self.clamp).low
        logs = LogRows.for_slope(rows, clamp)
        slope, notes = fit_slope(logs, soft=self.soft_targets)
        fitted = logs.to_map(np.array([slope]), np.zeros(0))
        return Fit(fitted, (*zero_notes(rows, logs.clamp), *notes), {"temperature_": 1.0 / slope})

    def _describe(self, voice: Voice) -> str:
        if isinstance(self.map_, SoftmaxMap):
            return f"temperature {self.temperature_:.4g} (slope {self.map_.slope[0]:.4g} on the logits)"
        inner = unlimited(self.map_)
        if not isinstance(inner, LogitAffineMap):
            return rates_text(inner)
        return f"temperature {self.temperature_:.4g} (slope {inner.slope:.4g} on the {inner.on})"

    def predict(self, scores: Any, **by: Any) -> NDArray[Any]:
        """The most likely class after calibration, as written in ``y``."""
        return MulticlassCalibrator.predict(self, scores) if self._of_classes else super().predict(scores, **by)
