"""Temperature scaling, of one score or of the scores of several classes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from calibrant.arrays.multiclass.rows import ClassRows, is_matrix
from calibrant.calibrators.base import BinaryCalibrator, Fit
from calibrant.calibrators.multiclass.base import ClassCalibrator
from calibrant.fits.scaling import Scaling, fit_temperature, rates_text, unlimited
from calibrant.fits.softmax import LogRows, fit_slope, zero_notes
from calibrant.maps import LogitAffineMap, Map, SoftmaxMap
from calibrant.messages import InputError, Voice
from calibrant.tallies import Tally, ends_at


@dataclass(eq=False, repr=False)
class TemperatureScaling(BinaryCalibrator, ClassCalibrator):
    r"""One slope on the log-odds, or on all logits of a row: sharper or softer, with the middle left where it is.

    .. math:: m(s) = \operatorname{expit}\bigl(a \operatorname{logit}(s)\bigr), \qquad
              m(z) = \operatorname{softmax}(a z), \qquad a = 1/T \ge 0,

    the first for one score s, the second for a matrix of K columns, with z the logarithms of its probabilities, or its
    logits. T is the temperature: above 1 it moves every probability towards 1/2 (1/K), below 1 away from it. The
    identity is :math:`T = 1`. One score of kind ``"logit"`` or ``"real"`` is divided by T as it is.

    Parameters
    ----------
    soft_targets : bool
        As in :class:`PlattScaling`; of K classes each label counts as wrong by the share 1/(n + K) for each other one.
        Also done by itself, with a note, where every label is on its side of 1/2 or has the largest score of its row,
        and the maximum likelihood runs away.
    limits : bool
        As in :class:`PlattScaling`; for one score only.
    clamp : float, optional
        As in :class:`PlattScaling`. Probabilities of a matrix are clipped from below only; by default those below
        2**-32 are read as half the smallest other one.

    Attributes
    ----------
    temperature_ : float
        T; infinite when no slope above 0 helps, and every output is 1/2. Of a matrix it is held between 0.01 and 100.
        NaN where every score is exactly 0 or 1.

    Notes
    -----
    Edges: scores that all sit at 1/2, or 1/K, are left as they are, with a note. Scores of exactly 0 and 1 as in
    :class:`PlattScaling`.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (002 Theorem 3.3).
    Cost: one pass to tally, then O(cells) per Newton step; of a matrix about three passes, block by block.
    Reference: Guo et al. (2017); 002 eq. 1.13, whose t is our a.

    Examples
    --------
    >>> cal = TemperatureScaling().fit([0.1, 0.1, 0.1, 0.9], [0, 0, 1, 1])  # three rows of four on their side of 1/2
    >>> cal.transform([0.1, 0.5, 0.9]).round(6).tolist(), round(cal.temperature_, 6)
    ([0.25, 0.5, 0.75], 2.0)
    >>> cal = TemperatureScaling().fit([[0.8, 0.1, 0.1]] * 4, [0, 0, 1, 2])  # said 0.8, right in two of four
    >>> cal.transform([[0.8, 0.1, 0.1]]).round(3).tolist(), round(cal.temperature_, 6)
    ([[0.5, 0.25, 0.25]], 3.0)
    """

    temperature_: float = field(init=False)

    _: KW_ONLY
    soft_targets: bool = False
    limits: bool = False
    clamp: float | None = None

    def fit(self, scores: Any, y: Any = None, sample_weight: Any = None, **described: Any) -> Self:
        """Fit to one score, as :meth:`BinaryCalibrator.fit`, or to a matrix, as :meth:`ClassCalibrator.fit`."""
        named = described.get("score") is not None or described.get("label") is not None
        many = is_matrix(scores) and not named
        base = ClassCalibrator if many else BinaryCalibrator
        return base.fit(self, scores, y, sample_weight, **described)

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        fitted, notes = fit_temperature(tally, Scaling(soft_targets=self.soft_targets, limits=self.limits))
        inner = unlimited(fitted)
        slope = inner.slope if isinstance(inner, LogitAffineMap) else float("nan")
        return Fit(fitted, notes, {"temperature_": float("inf") if slope == 0.0 else 1.0 / slope})

    def _fit_classes(self, rows: ClassRows) -> Fit[SoftmaxMap]:
        if self.limits:
            raise InputError("limits", "are for one score", "leave them out for a matrix of classes")
        clamp = None if self.clamp is None else ends_at(self.clamp).low
        logs = LogRows.for_slope(rows, clamp)
        slope, notes = fit_slope(logs, soft=self.soft_targets)
        fitted = logs.to_map(np.array([slope]), np.zeros(0))
        return Fit(fitted, (*zero_notes(rows, logs.clamp), *notes), {"temperature_": 1.0 / slope})

    def _describe(self, voice: Voice) -> str:
        if isinstance(self.map_, SoftmaxMap):
            return f"temperature {self.temperature_:.4g}, that is slope {self.map_.slope[0]:.4g} on the logits"
        inner = unlimited(self.map_)
        if not isinstance(inner, LogitAffineMap):
            return rates_text(inner)
        return f"temperature {self.temperature_:.4g}, that is slope {inner.slope:.4g} on the {inner.on}"

    @available_if(lambda self: self._of_classes)  # type: ignore[untyped-decorator]
    def predict(self, scores: Any) -> NDArray[Any]:
        """The class that is the most likely one after calibration; of a matrix only."""
        return ClassCalibrator.predict(self, scores)
