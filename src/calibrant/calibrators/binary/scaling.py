"""Scaling maps with one to three parameters: a level, a temperature, Platt and beta."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from calibrant.arrays import InputError
from calibrant.arrays.multiclass.rows import ClassRows, is_matrix
from calibrant.calibrators.base import BinaryCalibrator
from calibrant.calibrators.multiclass.base import ClassCalibrator
from calibrant.fits.scaling import Scaling, fit_beta, fit_level, fit_platt, fit_temperature, rates_text
from calibrant.fits.softmax import LogRows, fit_slope, zero_notes
from calibrant.guarantees.certificates import Bound, Mode
from calibrant.maps import BetaMap, ClassMap, ComposeMap, LogitAffineMap, Map, SoftmaxMap
from calibrant.tallies import Tally, ends_at


class PlattScaling(BinaryCalibrator):
    r"""Logistic regression on the log-odds of the score.

    .. math:: m(s) = \operatorname{expit}(a \operatorname{logit}(s) + b),\qquad a \ge 0,

    (002 eq. 1.7), fitted by maximum likelihood; the identity :math:`a = 1, b = 0` is in the family. Scores of kind
    ``"logit"`` or ``"real"`` enter as they are.

    Parameters
    ----------
    on : {"log-odds", "score"}
        ``"score"`` regresses on the score itself, as Platt (1999) did for margins.
    soft_targets : bool
        Replace labels by Platt's :math:`(N_+ + 1)/(N_+ + 2)` and :math:`1/(N_- + 2)`. Also done by itself, with a note,
        when the classes are separated or only one is present, where the maximum likelihood runs away.
    increasing : bool
        Keep the slope non-negative, so that a ranking is never inverted.
    limits : bool
        Hold outputs inside :math:`[1/(n + 2), 1 - 1/(n + 2)]`: n rows cannot support more extreme statements.
    clamp : float, optional
        Clip scores to [clamp, 1 - clamp] before their log-odds are taken. By default a score of exactly 0 or 1 is read
        as half as far from its end as the nearest other score, with a note, and no other score is moved.

    Notes
    -----
    Edges: where every score is exactly 0 or 1 there are no log-odds, and the map is a table of two rates, with a note.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (002 Theorem 3.3).
    Cost: one pass to tally, then O(cells) per Newton step.

    Examples
    --------
    >>> scores, y = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1, 1]
    >>> PlattScaling().fit(scores, y).transform([0.5]).round(3).tolist()
    [0.537]
    """

    _restores: ClassVar[bool] = True

    def __init__(
        self,
        on: Literal["log-odds", "score"] = "log-odds",
        *,
        soft_targets: bool = False,
        increasing: bool = True,
        limits: bool = False,
        clamp: float | None = None,
    ) -> None:
        self.on = on
        self.soft_targets = soft_targets
        self.increasing = increasing
        self.limits = limits
        self.clamp = clamp

    def _fit_map(self, tally: Tally) -> Map:
        if self.on == "score" and self.clamp is not None:
            raise InputError("clamp is about log-odds: leave it out with on='score'")
        how = Scaling(self.soft_targets, self.increasing, self.limits)
        fitted, notes = fit_platt(tally, how, self.on)
        self.notes_ = (*self.notes_, *notes)
        return fitted

    def _describe(self) -> str:
        inner = _unlimited(self.map_)
        if not isinstance(inner, LogitAffineMap):
            return rates_text(inner)
        return f"slope {inner.slope:.4g}, intercept {inner.intercept:.4g} on the {inner.on}"


class BetaScaling(BinaryCalibrator):
    r"""Three-parameter beta map.

    .. math:: m(s) = \operatorname{expit}\bigl(a \log s - b \log(1 - s) + c\bigr), \qquad a, b \ge 0,

    where :math:`s \in (0, 1)` is the score (Kull et al. 2017; 002 eq. 6.18 with our b for its -b). The identity is
    :math:`a = b = 1, c = 0`.

    Parameters
    ----------
    variant : {"abm", "am", "ab"}
        ``"abm"``: all three. ``"am"``: a = b, which is Platt scaling on the log-odds. ``"ab"``: the map passes through
        (1/2, 1/2), that is :math:`c = (a - b) \log 2`.
    soft_targets, limits : bool
        As in :class:`PlattScaling`.
    clamp : float, optional
        As in :class:`PlattScaling`.

    Notes
    -----
    Edges: as :class:`PlattScaling`.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (002 Theorem 3.3).
    Cost: one pass to tally, then O(cells) per Newton step.

    Examples
    --------
    >>> scores, y = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1, 1]
    >>> BetaScaling("ab").fit(scores, y).transform([0.5]).round(3).tolist()
    [0.5]
    """

    def __init__(
        self,
        variant: Literal["abm", "am", "ab"] = "abm",
        *,
        soft_targets: bool = False,
        limits: bool = False,
        clamp: float | None = None,
    ) -> None:
        self.variant = variant
        self.soft_targets = soft_targets
        self.limits = limits
        self.clamp = clamp

    @property
    def increasing(self) -> bool:
        """A beta map with a, b >= 0 never falls."""
        return True

    @property
    def _restores(self) -> bool:  # type: ignore[override]  # through (1/2, 1/2) there is no free intercept
        return self.variant != "ab"

    def _fit_map(self, tally: Tally) -> Map:
        how = Scaling(self.soft_targets, self.increasing, self.limits)
        fitted, notes = fit_beta(tally, how, self.variant)
        self.notes_ = (*self.notes_, *notes)
        return fitted

    def _describe(self) -> str:
        inner = _unlimited(self.map_)
        if not isinstance(inner, BetaMap):
            return rates_text(inner)
        return f"a {inner.a:.4g}, b {inner.b:.4g}, c {inner.c:.4g}"


class TemperatureScaling(BinaryCalibrator, ClassCalibrator):  # type: ignore[misc]  # one or the other, as was fitted
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

    def __init__(self, *, soft_targets: bool = False, limits: bool = False, clamp: float | None = None) -> None:
        self.soft_targets = soft_targets
        self.limits = limits
        self.clamp = clamp

    def fit(self, scores: Any, y: Any = None, sample_weight: Any = None, **described: Any) -> Self:
        """Fit to one score, as :meth:`BinaryCalibrator.fit`, or to a matrix, as :meth:`ClassCalibrator.fit`."""
        named = described.get("score") is not None or described.get("label") is not None
        many = is_matrix(scores) and not named
        base = ClassCalibrator if many else BinaryCalibrator
        return base.fit(self, scores, y, sample_weight, **described)

    def _fit_map(self, tally: Tally) -> Map:
        fitted, notes = fit_temperature(tally, Scaling(soft_targets=self.soft_targets, limits=self.limits))
        self.notes_ = (*self.notes_, *notes)
        inner = _unlimited(fitted)
        slope = inner.slope if isinstance(inner, LogitAffineMap) else float("nan")
        self.temperature_ = float("inf") if slope == 0.0 else 1.0 / slope
        return fitted

    def _fit_classes(self, rows: ClassRows) -> SoftmaxMap:
        if self.limits:
            raise InputError("limits are for one score: leave them out for a matrix of classes")
        clamp = None if self.clamp is None else ends_at(self.clamp).low
        logs = LogRows.for_slope(rows, clamp)
        self.notes_ = (*self.notes_, *zero_notes(rows, logs.clamp))
        slope, notes = fit_slope(logs, soft=self.soft_targets)
        self.notes_ = (*self.notes_, *notes)
        self.temperature_ = 1.0 / slope
        return logs.to_map(np.array([slope]), np.zeros(0))

    def _describe(self) -> str:
        if isinstance(self.map_, SoftmaxMap):
            return f"temperature {self.temperature_:.4g}, that is slope {self.map_.slope[0]:.4g} on the logits"
        inner = _unlimited(self.map_)
        if not isinstance(inner, LogitAffineMap):
            return rates_text(inner)
        return f"temperature {self.temperature_:.4g}, that is slope {inner.slope:.4g} on the {inner.on}"

    # What follows differs between one score and several classes: each is the method of the base that was fitted.

    @property
    def _way(self) -> Any:
        return ClassCalibrator if isinstance(getattr(self, "map_", None), ClassMap) else BinaryCalibrator

    @property
    def calibration_(self) -> Any:
        """The frozen result: map, certificate and provenance; what ``save`` writes."""
        return self._way.calibration_.fget(self)

    def _applicable(self) -> Any:
        return self._way._applicable(self)

    def transform(self, scores: Any, *args: Any, **options: Any) -> Any:
        """Calibrated probabilities, one per score, or a matrix of them."""
        return self._way.transform(self, scores, *args, **options)

    def predict_proba(self, scores: Any) -> NDArray[Any]:
        """Columns ``1 - p`` and ``p``, or those of the classes."""
        return cast(NDArray[Any], self._way.predict_proba(self, scores))

    @available_if(lambda self: self._way is ClassCalibrator)  # type: ignore[untyped-decorator]
    def predict(self, scores: Any) -> NDArray[Any]:
        """The class that is the most likely one after calibration; of a matrix only."""
        return ClassCalibrator.predict(self, scores)

    def to_sql(self, *args: Any, **options: Any) -> Any:
        """SQL; see :meth:`Calibration.to_sql` and :meth:`ClassCalibration.to_sql`."""
        return self.calibration_.to_sql(*args, **options)

    def export_sql(self, *args: Any, **options: Any) -> Any:
        """Write SQL with its proof; see :meth:`Calibration.export_sql` and :meth:`ClassCalibration.export_sql`."""
        return self.calibration_.export_sql(*args, **options)

    def to_onnx(self, *args: Any, **options: Any) -> Any:
        """An ONNX model with its proof; see :meth:`Calibration.to_onnx` and :meth:`ClassCalibration.to_onnx`."""
        return self.calibration_.to_onnx(*args, **options)

    def export_onnx(self, *args: Any, **options: Any) -> Any:
        """Write the ONNX model; see :meth:`Calibration.export_onnx` and :meth:`ClassCalibration.export_onnx`."""
        return self.calibration_.export_onnx(*args, **options)

    def _certify(self, alpha: float, bound: Bound, mode: Mode) -> Any:
        return self._way._certify(self, alpha, bound, mode)

    def __str__(self) -> str:
        """What was fitted, to what, and what is promised."""
        return cast(str, self._way.__str__(self))

    def __sklearn_tags__(self) -> Any:
        """One score before it is fitted."""
        return self._way.__sklearn_tags__(self)


class LogitShift(BinaryCalibrator):
    r"""One level added to the log-odds: calibration in the large, and nothing else.

    .. math:: m(s) = \operatorname{expit}\bigl(\operatorname{logit}(s) + b\bigr), \qquad
              \text{with } b \text{ such that } \sum_i m(s_i) = \sum_i y_i,

    which is the likelihood equation and has one solution: the mean of the predictions becomes the event rate. It is
    what remains to be done after the prior changed, or after one class was sampled down (Saerens et al. 2002).
    The identity is :math:`b = 0`. Scores of kind ``"logit"`` or ``"real"`` are read as log-odds.

    Parameters
    ----------
    soft_targets, limits : bool
        As in :class:`PlattScaling`. Soft targets are also used by themselves, with a note, when only one class is
        present, where b runs away.
    clamp : float, optional
        As in :class:`PlattScaling`.

    Notes
    -----
    Edges: real scores above a million in size are refused, as they are no log-odds. Scores of exactly 0 and 1 as in
    :class:`PlattScaling`.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (002 Theorem 3.3).
    Cost: one pass to tally, then O(cells) per step of a search in one dimension.
    Reference: Cox (1958), for the regression whose slope is fixed at 1 here.

    Examples
    --------
    >>> scores, y = [0.2, 0.4, 0.6, 0.8], [0, 0, 0, 1]
    >>> cal = LogitShift().fit(scores, y)
    >>> cal.transform(scores).round(3).tolist(), cal.transform(scores).mean().round(12).item()
    ([0.061, 0.148, 0.281, 0.51], 0.25)
    """

    _restores: ClassVar[bool] = True

    def __init__(self, *, soft_targets: bool = False, limits: bool = False, clamp: float | None = None) -> None:
        self.soft_targets = soft_targets
        self.limits = limits
        self.clamp = clamp

    def _fit_map(self, tally: Tally) -> Map:
        fitted, notes = fit_level(tally, Scaling(soft_targets=self.soft_targets, limits=self.limits))
        self.notes_ = (*self.notes_, *notes)
        return fitted

    def _describe(self) -> str:
        inner = _unlimited(self.map_)
        if not isinstance(inner, LogitAffineMap):
            return rates_text(inner)
        odds = float(np.exp(np.clip(inner.intercept, -700.0, 700.0)))
        return f"level {inner.intercept:+.4g} on the {inner.on}: odds times {odds:.4g}"


def _unlimited(fitted: Map) -> Map:
    return fitted.maps[0] if isinstance(fitted, ComposeMap) else fitted
