"""Base class of calibrators of one score: validation, counts and the fit.

A calibrator implements :meth:`BinaryCalibrator._fit_map`, from a tally to a ``Fit``, and states what it can
guarantee.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Rows, ScoreType
from calibrant.arrays.columns import check_option, refuse_empty, refuse_store
from calibrant.arrays.labels import LabelType, labels_minus_one, labels_read
from calibrant.calibration import Calibration
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.fits.needs import minority_rows
from calibrant.fits.ranking import Ranking
from calibrant.guarantees.provenance import Provenance, Sampling
from calibrant.maps import Map
from calibrant.messages import Advice, InputError, Note, note
from calibrant.numerics import Ends
from calibrant.reading import Given, read
from calibrant.tallies import Resolution, Tally, ends_at, repeat_notes

if TYPE_CHECKING:
    from calibrant.fits.prior_correction import WeightType


class BinaryCalibrator(Calibrator):
    """Base class of calibrators of one score and two classes.

    Attributes
    ----------
    map_ : Map
        The fitted map: a frozen value that can be applied, printed, compared and exported.
    provenance_ : Provenance
        Rows, events, score type and fingerprint of the data behind it.
    notes_ : tuple of Note
        What was guessed, converted or decided during the fit; ``str(note)`` is a sentence.
    ranking_ : Ranking
        Effect of the map on the order of the fitted scores.
    classes_ : ndarray
        The two classes as they were written in ``y``, the event last; 0 and 1 for frames and tallies.
    status_ : str
        ``"calibrated"``; after an automatic choice also ``"kept"`` or ``"uncalibrated"``.
    """

    map_: Map
    classes_: NDArray[Any]

    #: Resolutions of a tally that the method can work with.
    _accepts: ClassVar[tuple[Resolution, ...]] = ("exact", "grid", "bins")
    #: Whether the method guarantees never to invert the order of two scores.
    _monotone: ClassVar[bool] = True
    #: How scores of exactly 0 and 1 are read in all rows, when the rows of a fit are a fold of them.
    _whole_ends: Ends | None = None
    #: Minority-class rows that an automatic choice needs to try this method.
    _needed_minority: ClassVar[int] = 0
    #: What it is fitted to besides scores and labels, if anything.
    _beside: ClassVar[str] = "segments"
    #: Whether multiplying the odds of the map corrects for sampling by class.
    _restores: ClassVar[bool] = False
    _odds: float = 1.0

    def fit(
        self,
        scores: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | str | None = None,
        *,
        score: str | None = None,
        label: str | None = None,
        weight_type: WeightType = "importance",
        groups: ArrayLike | str | None = None,
        time: ArrayLike | str | None = None,
        positive: Any = None,
        score_type: ScoreType | None = None,
        sampling: Sampling = "independent",
        label_type: LabelType = "class",
    ) -> Self:
        """Fit to one score column and its labels.

        Parameters
        ----------
        scores
            Probabilities, log-odds or any real score: a list, an array, or a pandas, polars or pyarrow column. Or a
            frame, if ``score=`` and ``label=`` name its columns: pandas, polars (eager or lazy), pyarrow, a DuckDB
            relation, a Spark DataFrame. Its rows are counted in place, in one pass.
        y
            Labels: 0/1, booleans, -1/1, or two other values with ``positive=``.
        score, label
            Columns of the frame; ``sample_weight``, ``groups`` and ``time`` are then also names of columns.
        sample_weight
            Weight of each row; importance weights unless ``weight_type`` says otherwise.
        weight_type
            ``"frequency"`` declares that weights are repetitions, which keeps every guarantee. ``"by-class"`` declares
            that rows were sampled by class alone: one weight per class, which is verified. The fit is then to the rows
            as sampled, and its odds are multiplied by the ratio of the weights, so that map and certificate refer to
            the population that the weights restore.
        groups, time
            Group or timestamp of each row, for dependent rows; no certificate is then issued.
        sampling
            How the rows were obtained: ``"out-of-fold"`` for scores of cross-validation, ``"selected"`` if the method
            was chosen on these rows; no certificate is then issued.
        positive
            The label of an event, if labels are not 0/1.
        score_type
            ``"probability"``, ``"logit"`` or ``"real"``. By default it is guessed, and the guess is reported in
            ``notes_``; the scores of a frame are probabilities by default.
        label_type
            ``"fraction"`` if labels are numbers in [0, 1], such as the share of annotators who saw the event. A row
            with label q counts as an event of weight q and a non-event of weight 1 - q, which stay together in folds.
            No certificate is then issued.

        Returns
        -------
        self
            The fitted calibrator.

        Notes
        -----
        A frame is counted by :func:`calibrant.engine.tally` and fitted by :meth:`fit_tally`: exactly up to 65,536
        distinct scores, beyond that on a grid of 65,536 cells. ``notes_`` reports which.

        Examples
        --------
        >>> import duckdb
        >>> from calibrant import PlattScaling
        >>> rows = duckdb.sql("SELECT * FROM (VALUES (0.1, 0), (0.3, 1), (0.6, 0), (0.8, 1)) AS t(s, y)")
        >>> cal = PlattScaling().fit(rows, score="s", label="y")
        >>> print(*cal.notes_)
        counted in the frame: exact, 4 distinct scores
        >>> cal.transform(rows, "s").columns
        ['s', 'y', 'calibrated']
        """
        if sampling == "independent":
            sampling = "grouped" if groups is not None else "time-ordered" if time is not None else "independent"
        sides: dict[str, Any] = {"groups": groups, "time": time}
        settings = {"positive": positive, "score_type": score_type, "label_type": label_type}
        in_memory = label_type == "fraction" or self._splits_rows(groups, time)
        meant: Literal["importance", "frequency"] = "importance" if weight_type == "by-class" else weight_type
        given = read(
            scores, y, sample_weight, call="fit", score=score, label=label, **sides, **settings, weight_type=meant,
            most=None if in_memory else 0,
        )  # fmt: skip
        if given.kind == "tally":
            raise InputError("scores", "is a tally, which already contains the labels", "pass it to fit_tally")
        if weight_type == "by-class":
            from calibrant.fits.prior_correction import refuse_by_class  # here: few fits are to such rows

            refuse_by_class(None if self._restores else type(self).__name__, in_frame=bool(given.names))
            if label_type == "fraction":
                raise InputError("label_type", "of fractions leaves no class to sample by", "leave weight_type out")
        if given.kind == "frame":
            counted = _tally_of_frame(given)
            return self._fit_tally(counted, sampling, (_resolution_note(counted),))
        if given.names and score_type is None:
            given = replace(given, score_type="probability")
        rows = given.rows()
        self._fit_score_rows(rows, sampling, by_class=weight_type == "by-class")
        return self._as_written(rows, given.y)

    def _as_written(self, rows: Rows, y: Any) -> Self:
        """Keep how classes are written, and which of two columns of scores is that of the event."""
        self.classes_ = classes_as_written(rows, y)
        self.provenance_ = replace(self.provenance_, column=rows.column, columns=rows.columns)
        return self

    def _splits_rows(self, groups: object, time: object) -> bool:
        """Whether the method splits rows by these groups or times, so that a frame is read into memory."""
        return False

    def _fit_score_rows(self, rows: Rows, sampling: Sampling, *, by_class: bool) -> Self:
        """Fit to checked rows, or to rows sampled by class with one weight per class."""
        if not by_class:
            self._fit_tally(Tally.from_rows(rows), sampling, rows.notes)
            if rows.ratio is not None and not rows.ratio.known:
                self.provenance_ = replace(self.provenance_, weight_type="estimated-ratio")
            if rows.fractional:
                self.provenance_ = replace(self.provenance_, weight_type="fractional-labels")
            return self
        from calibrant.fits.prior_correction import class_odds  # here: few fits are to such rows

        sampled, notes = replace(rows, weights=None, counts=True), (*rows.kind_notes, sampled_by_class())
        return self._fit_tally(Tally.from_rows(sampled), sampling, notes, class_odds(rows))

    def fit_tally(self, tally: Tally, *, sampling: Sampling = "independent") -> Self:
        """Fit to a tally from any engine.

        Parameters
        ----------
        tally
            Counts of rows and events by score.
        sampling
            How the rows were obtained, as in :meth:`fit`.

        Returns
        -------
        self
            The fitted calibrator.
        """
        if not isinstance(tally, Tally):
            refuse_store("tally", tally)
            if hasattr(tally, "total"):
                problem = "has a tally for each segment, and this method fits one map to all rows"
                raise InputError("tally", problem, "pass tally.total(), or use SegmentCalibrator")
            raise InputError(
                "tally", f"is of type {type(tally).__name__}", "pass a Tally, such as calibrant.tally makes"
            )
        return self._fit_tally(tally, sampling, ())

    def _fit_tally(self, tally: Tally, sampling: Sampling, notes: tuple[Note, ...], odds: float | None = None) -> Self:
        """Fit to a tally; ``odds`` from :func:`class_odds` if rows were sampled by class."""
        check_option("sampling", sampling, get_args(Sampling))
        self._odds = 1.0 if odds is None else odds
        self._fit_part(tally, notes if sampling == "grouped" else (*notes, *repeat_notes(tally)))
        if odds is not None:
            self.map_ = self._restored()
        self.ranking_ = Ranking.of(self.map_, tally)
        self.provenance_ = Provenance.of(type(self).__name__, tally, sampling, self._status())
        if odds is not None:
            self.provenance_ = replace(self.provenance_, weight_type="by-class")
        self.n_features_in_, self.classes_ = 1, np.array([0, 1])
        return self

    def _fit_part(self, tally: Tally, notes: tuple[Note, ...] = ()) -> Self:
        """Fit only the map and its notes, for calibrators made of many binary problems."""
        self._check()
        if tally.resolution not in self._accepts:
            raise InputError(
                "tally",
                f"has resolution {tally.resolution!r}, which {type(self).__name__} does not support",
                f"pass a tally with resolution {' or '.join(map(repr, self._accepts))}",
            )
        if not tally.total > 0:
            refuse_empty("tally")
        seen = self._seen(tally)
        self._set(self._fit_map(seen), (*notes, *_too_few(self._needed_minority, seen)))
        return self

    def _check(self) -> None:
        """Reject invalid settings before any row is read, such as a wrong nested calibrator."""

    def _restored(self) -> Map:
        """The map of rows sampled by class, moved to the population that the class weights restore."""
        from calibrant.fits.prior_correction import restored  # here: few fits are to such rows

        return restored(self.map_, self._odds)

    def _seen(self, tally: Tally) -> Tally:
        """The tally that is passed to the fit."""
        return self._clipped(tally.for_fitting())

    def _clipped(self, tally: Tally) -> Tally:
        """The tally with the ends of ``clamp``, if there is one, or of all rows, if these are a fold of them."""
        clamp = getattr(self, "clamp", None)
        ends = self._whole_ends if clamp is None else ends_at(clamp, tally.score_type)
        return tally if ends is None else tally.with_ends(ends)

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        """The fitted map, notes, and further attributes; nothing is set here."""
        raise NotImplementedError

    def predict(self, scores: Any, **by: Any) -> NDArray[Any]:
        """The more likely class after calibration, as written in ``y``; the first of ``classes_`` at exactly 1/2.

        Parameters
        ----------
        scores
            Scores, as in :meth:`transform`.
        **by
            Segments, for calibrators by segment.

        Returns
        -------
        ndarray
            One of ``classes_`` for each score.
        """
        p = self.predict_proba(scores, **by)[:, 1]
        if np.isnan(p).any():
            row = int(np.isnan(p).argmax())
            raise InputError(
                "scores",
                f"has no probability at row {row} counted from 0, so there is no more likely class",
                Advice.DROP_ROWS,
            )
        classes = getattr(self, "classes_", np.array([0, 1]))  # calibrators by segment have none
        return np.asarray(classes[(p > 0.5).astype(np.intp)])

    def __sklearn_tags__(self) -> Any:
        """One-dimensional input for one score; a matrix for several classes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = not self._of_classes
        tags.input_tags.two_d_array = self._of_classes
        return tags


INSTEAD = {
    "isotonic": "IsotonicCalibrator()",
    "IsotonicRegression": "IsotonicCalibrator()",
    "sigmoid": "PlattScaling()",
    "platt": "PlattScaling()",
    "temperature": "TemperatureScaling()",
}
"""Calibrators for the names used by scikit-learn and others."""


def check_calibrator(given: Any, name: str = "calibrator") -> BinaryCalibrator:
    """The calibrator, if it is binary and needs scores only; checked before anything is trained.

    Examples
    --------
    >>> check_calibrator("isotonic")
    Traceback (most recent call last):
        ...
    calibrant.messages.InputError: calibrator must be a calibrator of one score, not 'isotonic': pass
    IsotonicCalibrator()
    """
    if isinstance(given, type) and issubclass(given, Calibrator):
        raise InputError(name, f"must be an instance, and {given.__name__} is a class", f"pass {given.__name__}()")
    wrong = f"must be a calibrator of one score, not {given!r}"
    if isinstance(given, Calibration):
        raise InputError(name, f"{wrong}, which has no fit", "pass the model's scores to its transform instead")
    if not isinstance(given, BinaryCalibrator):
        known = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
        raise InputError(name, wrong, f"pass {INSTEAD.get(known, 'one such as PlattScaling() or AutoCalibrator()')}")
    if type(given)._fit_map is BinaryCalibrator._fit_map:
        raise InputError(
            name, f"{wrong}, which needs {given._beside} as well", "pass PlattScaling() or AutoCalibrator()"
        )
    given._check()
    return given


sampled_by_class = note(
    "sampled-by-class",
    "the map and its certificate refer to the population that the class weights restore; counts and losses refer to "
    "the {nouns.rows} as sampled",
)
few_for_rich_map = note(
    "few-for-rich-map",
    "only {minority:,.6g} minority-class {nouns.rows}: this method is likely to overfit; "
    "calibrate() tries it with at least {needed:,.6g}",
)
counted_exactly = note("counted-exactly", "counted in the frame: exact, {scores:,} distinct {nouns.scores}")
counted_on_grid = note("counted-on-grid", "counted in the frame: on a grid of 65,536 cells")


def classes_as_written(rows: Rows, y: Any) -> NDArray[Any]:
    """The negative class and the event as they were written in the labels."""
    for each in rows.other_notes:
        if each.code == labels_minus_one.code:
            return np.array([-1, 1])
        if each.code == labels_read.code and each.values["negative"] is not None:
            return np.array([each.values["negative"], each.values["positive"]])
    return np.array([False, True]) if getattr(getattr(y, "dtype", None), "kind", "") == "b" else np.array([0, 1])


def _too_few(needed: int, tally: Tally) -> tuple[Note, ...]:
    """A note if the rows are fewer than an automatic choice needs for this method."""
    minority = minority_rows(tally)
    return (few_for_rich_map(minority, float(needed)),) if minority < needed else ()


def _tally_of_frame(given: Given) -> Tally:
    from calibrant.engine.frames import tally  # here, so that arrays load no engine

    return tally(
        given.scores,
        given.names["score"],
        given.names["label"],
        sample_weight=given.sample_weight,
        weight_type=given.weight_type,
        positive=given.positive,
        score_type="probability" if given.score_type is None else given.score_type,
    )


def _resolution_note(tally: Tally) -> Note:
    return counted_exactly(len(tally.n)) if tally.resolution == "exact" else counted_on_grid()
