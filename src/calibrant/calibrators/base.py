"""Base classes of calibrators: transform, certificate, storage and export; for one score also validation and fit.

A binary calibrator implements :meth:`BinaryCalibrator._fit_map`, from a tally to a :class:`Fit`, and states what it can
guarantee. A multiclass one implements :meth:`MulticlassCalibrator._fit_classes`, in :mod:`.multiclass.base`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Rows, ScoreType, check_rows
from calibrant.arrays.columns import check_option, is_tensor, need_names, refuse_empty, refuse_names, score_and_label
from calibrant.arrays.labels import LabelType, labels_minus_one, labels_read
from calibrant.calibration import Calibration, fitted_rows
from calibrant.fits.needs import minority_rows
from calibrant.fits.prior_correction import WeightType, class_odds, refuse_by_class, restored
from calibrant.fits.ranking import Ranking
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName
from calibrant.guarantees.no_certificate import (
    IMPOSSIBLE,
    IMPOSSIBLE_OF_CLASSES,
    NoCertificate,
    NoCertificateCode,
    gate,
)
from calibrant.guarantees.provenance import Provenance, Sampling, Status
from calibrant.maps import Map, MulticlassMap, StepMap
from calibrant.messages import PYTHON, Advice, InputError, Note, Phrase, Setting, Voice, note
from calibrant.numerics import Ends, to_float32
from calibrant.tallies import Resolution, Tally, ends_at, repeat_notes

if TYPE_CHECKING:
    import onnx

    from calibrant.export.onnx.graph import Precision
    from calibrant.export.proof import Proof
    from calibrant.export.scorer import Scorer

M = TypeVar("M", covariant=True)

DEFAULT_ALPHA = 0.1

TABLE = NoCertificate(
    NoCertificateCode.NO_THEOREM,
    Phrase("a table of rates in place of a curve has no certificate: {use}", use=Advice.USE_BINNING),
)


@dataclass(frozen=True)
class Fit(Generic[M]):
    """Result of a fit; the base class sets the attributes."""

    map: M
    notes: tuple[Note, ...] = ()
    found: Mapping[str, Any] = field(default_factory=dict)
    """Further attributes by name."""


class Calibrator(BaseEstimator):
    """Base class of all calibrators, binary and multiclass.

    Attributes
    ----------
    map_ : Map
        The fitted map: a frozen value that can be applied, printed, compared and exported.
    provenance_ : Provenance or MulticlassProvenance
        Rows, score type and fingerprint of the data behind it.
    notes_ : tuple of Note
        What was guessed, converted or decided during the fit; ``str(note)`` is a sentence.
    status_ : str
        ``"calibrated"``; after an automatic choice also ``"kept"`` or ``"uncalibrated"``.
    """

    map_: Any
    provenance_: Any
    notes_: tuple[Note, ...]

    def _set(self, fit: Fit[Map], notes: tuple[Note, ...]) -> None:
        """Store the results of a fit, after these notes."""
        self.map_, self.notes_ = fit.map, (*notes, *fit.notes)
        for name, value in fit.found.items():
            setattr(self, name, value)

    def _status(self) -> Status:
        return "calibrated"

    @property
    def _of_classes(self) -> bool:
        """Whether the fitted map is multiclass."""
        return isinstance(getattr(self, "map_", None), MulticlassMap)

    @property
    def status_(self) -> str:
        """``"calibrated"``, ``"kept"`` or ``"uncalibrated"``."""
        check_is_fitted(self, "map_")
        return str(self.provenance_.status)

    @property
    def calibration_(self) -> Calibration:
        """The frozen result: map, certificate and provenance. ``save`` writes it."""
        check_is_fitted(self, "map_")
        return Calibration(self.map_, self.provenance_, self.certificate())

    def transform(self, scores: Any, score: str | None = None, *, name: str = "calibrated") -> Any:
        """Calibrated probabilities, one per score; float32 in gives float32 out, NaN gives NaN.

        Parameters
        ----------
        scores
            Scores; for multiclass maps a matrix, or a frame with one column for each of ``map_.inputs``. With
            ``score``, a frame.
        score
            Column of the frame that contains the scores.
        name
            Name of the new column, if ``score`` is given.

        Returns
        -------
        array, Series or frame
            Probabilities; a pandas or polars Series of scores gives a Series of the same index and name. For multiclass
            maps a matrix, or a frame with one column for each of ``map_.outputs``. After :meth:`set_output`, a frame.
            With ``score``, the same kind of frame with the column ``name`` added, in double precision; see
            :func:`calibrant.engine.apply`. Lazy frames stay lazy.
        """
        p = self._applicable().transform(scores, score, name=name)
        return p if score is not None else self._contained(p, scores)

    def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self:
        """Set the type of the result of :meth:`transform`, as in scikit-learn's transformers.

        Parameters
        ----------
        transform
            ``"pandas"`` or ``"polars"`` for a frame with the columns of :meth:`get_feature_names_out`; ``"default"``
            for the type of the input; None changes nothing.

        Returns
        -------
        self
            The calibrator.

        Examples
        --------
        >>> from calibrant import PlattScaling
        >>> cal = PlattScaling().fit([0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1]).set_output(transform="pandas")
        >>> cal.transform([0.2, 0.7]).columns.tolist()
        ['calibrated']
        """
        check_option("transform", transform, ("default", "pandas", "polars", None))
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # scikit-learn's clone copies it by this name
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns of :meth:`transform` in a frame; ``input_features`` are not used."""
        check_is_fitted(self, "map_")
        return np.array(self.map_.outputs, dtype=object)

    def _contained(self, p: Any, scores: Any) -> Any:
        """Probabilities as the frame that :meth:`set_output` has set."""
        wanted = getattr(self, "_sklearn_output_config", {}).get("transform", "default")
        if wanted == "default":
            return p
        names = self.get_feature_names_out().tolist()
        matrix = np.asarray(p).reshape(-1, len(names))
        if wanted == "polars":
            import polars as pl

            return pl.DataFrame({name: matrix[:, j] for j, name in enumerate(names)})
        import pandas as pd

        index = scores.index if hasattr(scores, "iloc") else None
        return pd.DataFrame(matrix, columns=names, index=index)

    def _applicable(self) -> Calibration:
        """The calibration without its certificate, which may take a while to compute."""
        check_is_fitted(self, "map_")
        return Calibration(self.map_, self.provenance_, None)

    def scorer(self) -> Scorer:
        """The map as a plain Python function of one float; see :meth:`Calibration.scorer`."""
        return self._applicable().scorer()

    def predict_proba(self, scores: Any) -> NDArray[Any]:
        """Probabilities as an array: columns ``1 - p`` and ``p``, or one column per class."""
        p = self._applicable().transform(scores)
        if is_tensor(p):
            from calibrant.arrays.tensors import as_given, read_tensor  # here: few calls have tensors

            return cast(NDArray[Any], p if self._of_classes else as_given(p, both_classes(read_tensor(p, "scores"))))
        return np.asarray(p) if self._of_classes else both_classes(np.asarray(p))

    def fit_transform(self, scores: Any, y: ArrayLike | None = None, **fit_params: Any) -> Any:
        """Fit, then transform the same scores; to evaluate the result use :func:`calibrant.crossfit` instead."""
        fitted = cast(Any, self).fit(scores, y, **fit_params)
        return fitted.transform(scores) if self._of_classes else fitted.transform(scores, fit_params.get("score"))

    def certificate(
        self,
        alpha: float | None = None,
        *,
        interval: IntervalName = "clopper-pearson",
        coverage: Coverage = "simultaneous",
    ) -> Certificate | NoCertificate:
        """The guarantee of the fitted map, or the reason why there is none; either prints as a sentence.

        Parameters
        ----------
        alpha
            Probability with which the certificate may be false; by default that of the calibrator, if it has one,
            else 0.1.
        interval
            Confidence interval of each bin.
        coverage
            Whether the intervals of all bins hold simultaneously, or each on its own.

        Returns
        -------
        Certificate or NoCertificate
            The guarantee with its assumptions, or the reason why none is issued.
        """
        check_is_fitted(self, "map_")
        refusal = gate(self.provenance_)
        if refusal is not None:
            return refusal
        return self._certify(getattr(self, "alpha", DEFAULT_ALPHA) if alpha is None else alpha, interval, coverage)

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        if self._of_classes:
            return IMPOSSIBLE_OF_CLASSES
        return TABLE if isinstance(self.map_, StepMap) else IMPOSSIBLE

    def save(self, path: str | PathLike[str]) -> None:
        """Write the map, its certificate and its provenance as JSON; :func:`calibrant.load` reads it back."""
        self.calibration_.save(path)

    def to_sql(self, columns: Any = None, dialect: str = "duckdb", *, by: Mapping[str, str] | None = None) -> Any:
        """The map as a SQL expression over the column of scores, or over one column per class.

        See :meth:`Calibration.to_sql`.
        """
        return self.calibration_.to_sql(columns, dialect, by=by)

    def export_sql(
        self,
        path: str | PathLike[str],
        columns: Any = None,
        dialect: str = "duckdb",
        *,
        connection: Any = None,
        by: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Proof:
        """Write the SQL with its proof; see :meth:`Calibration.export_sql`."""
        return self.calibration_.export_sql(path, columns, dialect, connection=connection, by=by, **options)

    def to_python(self) -> str:
        """The map as the source of a Python function; see :meth:`Calibration.to_python`."""
        return self._applicable().to_python()

    def to_c(self) -> str:
        """The map as the source of a C function; see :meth:`Calibration.to_c`."""
        return self._applicable().to_c()

    def export_source(self, path: str | PathLike[str]) -> Proof:
        """Write the Python or C source with its proof; see :meth:`Calibration.export_source`."""
        return self._applicable().export_source(path)

    def to_onnx(self, dtype: Precision = "float32", **options: Any) -> onnx.ModelProto:
        """The map as an ONNX model with its proof; see :meth:`Calibration.to_onnx`."""
        return self.calibration_.to_onnx(dtype, **options)

    def export_onnx(self, path: str | PathLike[str], dtype: Precision = "float32", **options: Any) -> Proof:
        """Write the ONNX model with its proof; see :meth:`Calibration.export_onnx`."""
        return self.calibration_.export_onnx(path, dtype, **options)

    def to_torch(self) -> Any:
        """The map as a ``torch.nn.Module``; see :meth:`Calibration.to_torch`."""
        return self._applicable().to_torch()

    def __str__(self) -> str:
        """The fitted map, its data and its guarantee."""
        return self.say(PYTHON)

    def _repr_html_(self) -> str:
        """For notebooks: the fitted calibrator in words."""
        from calibrant.notebook import text_block  # not needed to fit and apply

        return text_block(str(self))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """For notebooks: the fitted calibrator in words; before the fit scikit-learn's diagram of its parameters."""
        if hasattr(self, "map_"):
            return {"text/plain": repr(self), "text/html": self._repr_html_()}
        diagram: dict[str, str] = super()._repr_mimebundle_(**options)
        return diagram

    def say(self, voice: Voice) -> str:
        """The same in the words of a voice."""
        if not hasattr(self, "map_"):
            return f"{self!r}, not fitted"
        weighted = self.provenance_.weight_type in ("importance", "estimated-ratio") and not self._of_classes
        lines = [
            f"{self._title()} fitted to {self._fitted_to()}",
            f"  {self._describe(voice)}",
            *([] if self._of_classes else [f"  {self.ranking_}"]),
            *(f"  {line}" for line in certificate_text(self.certificate(), voice).splitlines()),
            *([f"  note: {importance_weights().say(voice)}"] if weighted else []),
            *(f"  note: {note.say(voice)}" for note in self.notes_),
        ]
        return "\n".join(lines)

    def _title(self) -> str:
        """The calibrator with its parameters, as the beginning of what is printed."""
        return repr(self)

    def _fitted_to(self) -> str:
        return fitted_rows(self.provenance_)

    def _describe(self, voice: Voice) -> str:
        return str(self.map_.words)

    def __sklearn_tags__(self) -> Any:
        """Labels are needed; a classifier of its scores, so that scikit-learn stratifies folds and scores it as one."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags


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
        named = score_and_label(y, score, label)
        meant: Literal["importance", "frequency"] = "importance" if weight_type == "by-class" else weight_type
        if weight_type == "by-class":
            refuse_by_class(None if self._restores else type(self).__name__, in_frame=named is not None)
            if label_type == "fraction":
                raise InputError("label_type", "of fractions leaves no class to sample by", "leave weight_type out")
        in_memory = label_type == "fraction" or self._splits_rows(groups, time)
        if named is not None and not in_memory:
            counted = _tally_of_frame(scores, *named, sample_weight, meant, groups, time, positive, score_type)
            return self._fit_tally(counted, sampling, (_resolution_note(counted),))
        if named is not None:
            sides = {"sample_weight": sample_weight, "groups": groups, "time": time}
            scores, y, sample_weight, groups, time = _columns_of_frame(scores, named, sides)
            score_type = "probability" if score_type is None else score_type
        refuse_places("fit", scores, y, sample_weight)
        refuse_names("fit", y=y, sample_weight=sample_weight, groups=groups, time=time)
        if y is None:
            raise labels_missing()
        rows = check_rows(
            scores,
            y,
            sample_weight,
            weight_type=meant,
            groups=groups,
            time=time,
            positive=positive,
            score_type=score_type,
            label_type=label_type,
        )
        self._fit_score_rows(rows, sampling, by_class=weight_type == "by-class")
        self.classes_ = classes_as_written(rows, y)
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


importance_weights = note(
    "importance-weights",
    "map and losses refer to the population that the weights restore, not to the {nouns.rows} as sampled",
)
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


def labels_missing() -> InputError:
    """The error of a fit without labels."""
    return InputError("y", "is missing", "pass the labels, as in fit(scores, y) or fit(frame, score=..., label=...)")


def refuse_places(call: str, scores: Any, y: Any, following: Any) -> None:
    """Reject names of columns where arrays belong, with the call that names them."""
    if hasattr(scores, "columns") and isinstance(y, str):
        label = repr(following) if isinstance(following, str) else "..."
        raise InputError(
            Setting("y", y),
            "looks like the name of a column, which must be passed by keyword",
            f"pass {call}(frame, score={y!r}, label={label})",
        )


def certificate_text(certificate: object, voice: Voice) -> str:
    """The certificate, or the reason why there is none, in the words of a voice."""
    return certificate.say(voice) if isinstance(certificate, NoCertificate) else str(certificate)


def both_classes(p: NDArray[Any]) -> NDArray[Any]:
    """Columns ``1 - p`` and ``p``; in float32 neither is rounded to 0 or 1."""
    p = np.asarray(p)
    other = 1.0 - p.astype(np.float64)
    return np.column_stack([to_float32(other) if p.dtype == np.float32 else other, p])


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


def _tally_of_frame(
    frame: Any,
    score: str,
    label: str,
    sample_weight: Any,
    weight_type: Literal["importance", "frequency"],
    groups: Any,
    time: Any,
    positive: Any,
    score_type: ScoreType | None,
) -> Tally:
    from calibrant.engine.columns import read_frame  # here, so that arrays load no engine
    from calibrant.engine.frames import tally

    read_frame(frame, score, label, *need_names(sample_weight=sample_weight, groups=groups, time=time))
    return tally(
        frame,
        score,
        label,
        sample_weight=sample_weight,
        weight_type=weight_type,
        positive=positive,
        score_type="probability" if score_type is None else score_type,
    )


def _columns_of_frame(frame: Any, names: tuple[str, str], sides: dict[str, Any]) -> list[Any]:
    """Scores, labels, weights, groups and time of a frame, in memory."""
    from calibrant.engine.columns import columns_of  # here, so that arrays load no engine

    taken = columns_of(frame, [*names, *need_names(**sides)])
    return [None if name is None else taken[name].to_numpy() for name in (*names, *sides.values())]


def _resolution_note(tally: Tally) -> Note:
    return counted_exactly(len(tally.n)) if tally.resolution == "exact" else counted_on_grid()
