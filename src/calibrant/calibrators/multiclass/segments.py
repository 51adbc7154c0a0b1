"""A global map of several classes with corrections by segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from calibrant.arrays.columns import check_option
from calibrant.arrays.keys import Keys
from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.calibrators.base import Fit
from calibrant.calibrators.multiclass.auto import MulticlassAutoCalibrator
from calibrant.calibrators.multiclass.base import MulticlassCalibrator, absent_notes
from calibrant.fits.multiclass.segments import corrected, fit_correction
from calibrant.fits.multiclass.softmax import effective_weights, zeros_as
from calibrant.fits.segments.counts import By, segment_keys
from calibrant.guarantees.certificate import Coverage, IntervalName
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.provenance import Sampling, Status
from calibrant.maps import ClassAxis, GroupedSoftmaxMap, MulticlassMap, SoftmaxMap
from calibrant.maps.classes import softmax
from calibrant.messages import InputError, Shown, Voice, warn
from calibrant.metrics.estimates import Estimate
from calibrant.metrics.multiclass.scores import order_notes
from calibrant.numerics import Floats
from calibrant.reading import read
from calibrant.selection.comparison import decimals_of
from calibrant.selection.losses import NAMES, Losses
from calibrant.selection.multiclass.cross_validation import MIN_OUTPUT, Setting, class_losses
from calibrant.selection.multiclass.folds import MulticlassFolds
from calibrant.selection.multiclass.rule import fitted
from calibrant.selection.segments.losses import estimate
from calibrant.selection.segments.table import worth

STRENGTHS = (1000.0, 300.0, 100.0, 30.0, 10.0)
"""Penalties that are tried, in rows, the strongest (nearest to the global map) first."""

MAX_SHOWN = 5
"""Segments that are printed; ``segments_`` has all."""

UNPROVED = NoCertificate(
    NoCertificateCode.NO_THEOREM,
    "slopes and intercepts of segments were estimated from these rows, which no theorem here covers: fit "
    "TopLabelHistogramBinning to the rows of one segment to get a certificate for it",
)


@dataclass(frozen=True)
class ClassSegment(Shown):
    """One segment: its rows, top-1 accuracy, mean confidences, and its own slope and intercepts.

    The mean largest probability is ``before`` of the scores themselves, ``by_global`` by the global map, and ``after``
    by the map of the segment, as is ``accuracy``.
    """

    value: str
    rows: float
    accuracy: float
    before: float
    by_global: float
    after: float
    slope: float
    shifts: tuple[float, ...]

    def __str__(self) -> str:
        """One line."""
        return (
            f"{self.value}: {self.rows:,.6g} rows, accuracy {100 * self.accuracy:.3g} %; mean confidence of the scores "
            f"{100 * self.before:.3g} %, of the global map {100 * self.by_global:.3g} %, final {100 * self.after:.3g} %"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(eq=False, repr=False)
class MulticlassSegmentCalibrator(MulticlassCalibrator):
    r"""A global softmax map, and for each segment a slope and intercepts, shrunk toward it.

    .. math:: m(z, g) = \operatorname{softmax}\bigl((1 + s_g)\, u(z) + a_g\bigr), \qquad u = \log m_{all}(z),

    where g is the segment of the row. :math:`s_g` and :math:`a_g` are fitted with a ridge penalty of
    :math:`\lambda` rows, so that a segment of few rows nearly keeps the global map :math:`m_{all}`. The penalty is
    chosen on held-out rows, and the global map is kept for all segments if corrections do not lower the loss there by
    at least one standard error.
    A segment that was not in the fitted rows, and a missing one, get the global map.

    Parameters
    ----------
    calibrator : MulticlassAutoCalibrator, optional
        Calibrator of the global map, whose candidates are softmax maps.
    random_state : int
        Seed of the folds.

    Attributes
    ----------
    global_ : MulticlassAutoCalibrator
        The fitted global map.
    strength_ : float
        The chosen penalty in rows; infinite if segments use the global map.
    segments_ : tuple of ClassSegment
        Rows, accuracy, confidence by scores and maps, slope and intercepts of each segment.
    before_, after_, change_ : Estimate
        Mean loss of the original model, of the map with segments on held-out rows, and the difference.
    gain_ : Estimate
        Mean loss of the map with segments minus that of the global map, on the same rows.

    Notes
    -----
    Edge cases: one column of segments; rows without a segment are used for the global map only. With more than 128
    classes a segment has a slope and no intercepts.
    Held-out losses are cross-fitted with the form of the global map that was chosen on all rows, so they do not include
    the choice of that form; the penalty of each fold is chosen on the other folds.
    Guarantee: no finite-sample guarantee.
    Cost: that of the calibrator, then five fits of the chosen form, and for each fold and penalty one fit by segment.
    Reference: Efron and Morris (1973) for shrinkage; Guo et al. (2017), Kull et al. (2019) for the maps.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p, site = rng.dirichlet([1, 1, 1], 3000), rng.choice(["north", "south"], 3000)
    >>> odds = p * np.where((site == "north")[:, None], [3.0, 1.0, 1.0], 1.0)
    >>> y = [rng.choice(3, p=row / row.sum()) for row in odds]
    >>> cal = MulticlassSegmentCalibrator().fit(p, y, site)
    >>> cal.transform([[0.4, 0.3, 0.3]] * 2, by=["north", "south"]).round(1).tolist()
    [[0.7, 0.2, 0.2], [0.4, 0.3, 0.3]]
    """

    global_: MulticlassAutoCalibrator = field(init=False)

    calibrator: MulticlassAutoCalibrator | None = None
    _: KW_ONLY
    random_state: int = 0

    def fit(  # type: ignore[override]
        self,
        scores: Any,
        y: ArrayLike,
        by: By | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        classes: Sequence[Any] | None = None,
        weight_type: Literal["importance", "frequency"] = "importance",
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
        score_type: MulticlassScoreType | None = None,
        sampling: Sampling = "independent",
    ) -> Self:
        """Fit to a matrix of class scores, labels and segments.

        Parameters
        ----------
        scores, y, sample_weight, classes, weight_type, groups, time, score_type, sampling
            As in :meth:`MulticlassCalibrator.fit`.
        by
            One column of segments (text, integers or booleans), or a mapping from its name to the column. A column
            keeps its own name, if it has one; otherwise it is called ``"segment"``.

        Returns
        -------
        self
            The fitted calibrator.
        """
        check_option("sampling", sampling, get_args(Sampling))
        if sampling == "independent":
            sampling = "grouped" if groups is not None else "time-ordered" if time is not None else "independent"
        if y is None or by is None:
            missing = "y" if y is None else "by"
            raise InputError(missing, "is missing", "pass labels and segments, as in fit(scores, y, by)")
        sides: dict[str, Any] = {"groups": groups, "time": time, "by": by, "weight_type": weight_type}
        given = read(scores, y, sample_weight, call="fit", most=None, classes=classes, score_type=score_type, **sides)
        rows = self._checked_rows(given.scores, given.y, given.sample_weight, **given.described)
        if len(given.by) != 1:
            raise InputError(
                "by", f"must be one column for a matrix of classes, got {len(given.by)}", "join them into one column"
            )
        ((self._by, self._keys),) = segment_keys(given, len(rows)).items()
        try:
            self._fit_rows(rows, sampling)
        finally:
            del self._keys
        for each in order_notes(rows):
            warn(each)
        return self

    def _fit_classes(self, rows: MulticlassRows) -> Fit[MulticlassMap]:
        self.global_ = self._chosen()._fit_rows(rows)
        setting, whole = self.global_.setting_, self.global_.map_
        if setting is None or not isinstance(whole, SoftmaxMap):
            raise InputError(
                "calibrator",
                f"chose {self.global_.choice_}, and segments need a softmax map",
                "leave candidates out, or name some of 'temperature', 'vector' and 'structured'",
            )
        keys: Keys = self._keys
        parts = self._crossed(rows, keys, setting)
        best, numbers = self._judged(parts)
        weights = effective_weights(rows)
        logits = _logs(whole, rows)
        found = {"strength_": np.inf if best is None else best, **numbers}
        lines, corrections = [], []
        for code, name in enumerate(keys.names):
            own = np.flatnonzero(keys.codes == code)
            part = logits[own], rows.labels[own], weights[own]
            correction = np.zeros(logits.shape[1] + 1) if best is None else fit_correction(*part, best)
            corrections.append(correction)
            scores = softmax(rows.scores[own]) if rows.score_type == "logit" else rows.scores[own]
            lines.append(_line(name, *part, correction, rows.mass[own], scores.max(axis=1)))
        found["segments_"] = tuple(lines)
        known = (*rows.notes, *absent_notes(rows))
        notes = tuple(each for each in self.global_.notes_ if each not in known)
        if best is None or not corrections:
            return Fit(whole, notes, found)
        table = np.array(corrections)
        grouped = GroupedSoftmaxMap(
            whole.classes, whole.slope, whole.intercept, whole.on, whole.clamp, self._by, keys.names,
            1.0 + table[:, 0], table[:, 1:].reshape(-1),
        )  # fmt: skip
        return Fit(grouped, notes, found)

    def _chosen(self) -> MulticlassAutoCalibrator:
        if self.calibrator is None:
            return MulticlassAutoCalibrator(random_state=self.random_state)
        if not isinstance(self.calibrator, MulticlassAutoCalibrator):
            raise InputError(
                "calibrator",
                f"must be a MulticlassAutoCalibrator, not {self.calibrator!r}",
                "pass MulticlassAutoCalibrator([...]) with the names of its candidates",
            )
        made: MulticlassAutoCalibrator = clone(self.calibrator)
        return made

    def _crossed(self, rows: MulticlassRows, keys: Keys, setting: Setting) -> list[Losses]:
        """By fold: losses of the original model, of the global map, and of every penalty."""
        loss = self.global_.loss
        folds = MulticlassFolds.of(rows, self.global_.cv, self.random_state)
        on: ClassAxis = "logit" if rows.score_type == "logit" else "probability"
        original = SoftmaxMap(rows.classes, np.ones(1), np.zeros(0), on, zeros_as(rows))
        found = []
        for part in range(1 if folds.forward else 0, len(folds)) if len(folds) > 1 else ():
            seen, test = folds.seen(part), np.flatnonzero(folds.shares[part])
            train = np.flatnonzero(seen > 0.0)
            if not len(train):
                continue
            counted = np.rint(seen).astype(np.int64) if rows.counts else seen
            whole = fitted(setting, replace(rows, weights=counted).take(train))
            u, v = _logs(whole, rows.take(train)), _logs(whole, rows.take(test))
            outputs = [original.apply(rows.scores[test]), np.exp(v), *(np.exp(v) for _ in STRENGTHS)]
            for code in range(len(keys.names)):
                own, there = np.flatnonzero(keys.codes[train] == code), np.flatnonzero(keys.codes[test] == code)
                if not len(own) or not len(there):
                    continue
                data = u[own], rows.labels[train][own], seen[train][own]
                for place, strength in enumerate(STRENGTHS, start=2):
                    outputs[place][there] = corrected(v[there], fit_correction(*data, strength))
            lines = np.array([class_losses(np.asarray(p, dtype=np.float64), rows.labels[test], loss) for p in outputs])
            clusters = None if folds.clusters is None else folds.clusters[test]
            made = Losses.of_rows(lines, folds.shares[part][test], clusters)
            self._forward = folds.forward
            found.append(made)
        return found

    def _judged(self, parts: list[Losses]) -> tuple[float | None, dict[str, Estimate]]:
        """The penalty, None for the global map, and the losses of the procedure; the penalty of a fold is its own."""
        name, loss = NAMES[self.global_.loss], self.global_.loss
        taken = []
        for place, part in enumerate(parts):
            others = parts[:place] if self._forward else [*parts[:place], *parts[place + 1 :]]
            column = _best(others)
            taken.append(part.only([0, 1, column]))
        total = Losses.total_of(taken) if taken else None
        gain = estimate(f"{name}, change by segments", total, [0.0, -1.0, 1.0], loss)
        column = _best(parts)
        sure = not np.isnan(gain.value) and gain.value + (gain.se or 0.0) < 0.0
        best = STRENGTHS[column - 2] if column > 1 and sure else None
        last = [1.0, 0.0] if best is None else [0.0, 1.0]
        numbers = {
            "before_": estimate(f"{name}, before", total, [1.0, 0.0, 0.0], loss),
            "after_": estimate(f"{name}, after", total, [0.0, *last], loss),
            "change_": estimate(f"{name}, change", total, [-1.0, *last], loss),
            "gain_": gain,
        }
        return best, numbers

    def transform(self, scores: Any, score: Any = None, by: Any = None, *, name: str = "calibrated") -> Any:
        """Calibrated probabilities of a matrix of scores in segments ``by``.

        Parameters
        ----------
        scores
            A matrix, or a frame with one column for each of ``map_.inputs``; the frame may also have the column of
            segments.
        score
            Segments may be passed here, as second argument.
        by
            The segment of each row.
        name
            Not used for several classes.

        Returns
        -------
        array, or frame
            One column per class, in the form of the input.
        """
        return self._applicable().transform(scores, score, by, name=name)

    def predict_proba(self, scores: Any, by: Any = None) -> NDArray[Any]:
        """Probabilities as an array, one column per class."""
        return np.asarray(self.transform(scores, by))

    def predict(self, scores: Any, by: Any = None) -> NDArray[Any]:
        """The most likely class after calibration, as written in ``y``."""
        return np.asarray(self.classes_[self.predict_proba(scores, by).argmax(axis=1)])

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> NoCertificate:
        return UNPROVED

    def _status(self) -> Status:
        return "calibrated" if np.isfinite(self.strength_) else self.global_._status()

    def _describe(self, voice: Voice) -> str:
        chosen = "original model" if self.global_.choice_ == "identity" else self.global_.choice_
        lines = [f"Global map: {chosen}."]
        if np.isfinite(self.strength_):
            lines.append(f"By {self._by}: a slope and intercepts for each segment, penalty {self.strength_:g} rows.")
            far = sorted(self.segments_, key=lambda each: abs(each.after - each.by_global) * each.rows, reverse=True)
            lines += [f"{each}." for each in far[:MAX_SHOWN]]
            more = len(far) - MAX_SHOWN
            lines += [f"and {more:,} more segments."] if more > 0 else []
            lines.append("Unseen and missing segments get the global map.")
        else:
            lines.append(
                f"By {self._by}: corrections do not reliably lower the loss on held-out rows; all use the global map."
            )
        if not np.isnan(self.change_.value):
            places = decimals_of(max(abs(self.change_.low or 0.0), abs(self.change_.high or 0.0)))
            numbers = [f"{each.value:.{places}f}" for each in (self.before_, self.after_)]
            ends = [f"{value:+.{places}f}" for value in (self.change_.value, self.change_.low, self.change_.high)]
            lines.append(
                f"Cross-validation: {NAMES[self.global_.loss]} {numbers[0]} -> {numbers[1]} "
                f"({ends[0]}, 95 % CI {ends[1]} to {ends[2]}).{worth(self.gain_)}"
            )
        return "\n  ".join(lines)

    strength_: float = field(init=False)
    segments_: tuple[ClassSegment, ...] = field(init=False)
    before_: Estimate = field(init=False)
    after_: Estimate = field(init=False)
    change_: Estimate = field(init=False)
    gain_: Estimate = field(init=False)
    _forward = False


def _best(parts: list[Losses]) -> int:
    """The column of lowest loss among the global map and the penalties; the global map without losses."""
    if not parts:
        return 1
    means = Losses.total_of(parts).means
    return 1 + int(np.argmin(means[1:]))


def _logs(whole: MulticlassMap, rows: MulticlassRows) -> Floats:
    """Log-probabilities of the global map."""
    p = np.asarray(whole.apply(rows.scores), dtype=np.float64)
    return np.asarray(np.log(np.maximum(p, MIN_OUTPUT)))


def _line(
    name: str, u: Floats, labels: NDArray[np.intp], weights: Floats, correction: Floats, mass: NDArray[Any], top: Floats
) -> ClassSegment:
    after = corrected(u, correction)
    total = float(weights.sum())
    accuracy, confidence, by_all, own = (
        float((weights * each).sum()) / total
        for each in (after.argmax(axis=1) == labels, top, np.exp(u).max(axis=1), after.max(axis=1))
    )
    slope, shifts = 1.0 + float(correction[0]), tuple(correction[1:].tolist())
    return ClassSegment(name, float(mass.sum()), accuracy, confidence, by_all, own, slope, shifts)
