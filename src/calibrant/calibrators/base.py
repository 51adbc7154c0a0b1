"""What calibrators share: transform, certificate, storage, export; and of one score: validation and fit.

A calibrator of one score implements :meth:`BinaryCalibrator._fit_map`, from a tally to a :class:`Fit`, and says what it
can promise; one of several classes implements :meth:`ClassCalibrator._fit_classes`, in :mod:`.multiclass.base`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Kind, Rows, check_rows
from calibrant.arrays.columns import check_option, need_names, refuse_empty, refuse_names, score_and_label
from calibrant.calibration import Calibration
from calibrant.fits.needs import minority_rows
from calibrant.fits.prior_correction import Weights, class_odds, refuse_by_class, restored
from calibrant.fits.ranking import Ranking
from calibrant.guarantees.certificate import Bound, Certificate, Mode
from calibrant.guarantees.provenance import Provenance, Sampling, State, Weighting
from calibrant.guarantees.refusal import IMPOSSIBLE, IMPOSSIBLE_OF_CLASSES, Refusal, RefusalCode, gate
from calibrant.maps import ClassMap, Map, StepMap
from calibrant.messages import PYTHON, Advice, InputError, Note, Phrase, Setting, Voice, note
from calibrant.numerics import Ends, to_float32
from calibrant.tallies import Resolution, Tally, ends_at, repeat_notes

if TYPE_CHECKING:
    import onnx

    from calibrant.export.onnx.graph import Precision, Shape
    from calibrant.export.proof import Proof

M = TypeVar("M", covariant=True)

DEFAULT_ALPHA = 0.1

TABLE = Refusal(
    RefusalCode.NO_THEOREM,
    Phrase("a table of rates that stands in for a curve is not certified: {use}", use=Advice.USE_BINNING),
)


@dataclass(frozen=True)
class Fit(Generic[M]):
    """What a fit found; the base of the calibrators sets the attributes."""

    map: M
    notes: tuple[Note, ...] = ()
    found: Mapping[str, Any] = field(default_factory=dict)
    """Further attributes by name."""


class Calibrator(BaseEstimator):
    """Base of all calibrators: what a fitted map of one score or of several classes can do.

    Attributes
    ----------
    map_ : Map
        The fitted map: frozen data that applies, prints, compares and exports itself.
    provenance_ : Provenance or ClassProvenance
        Rows, score kind and fingerprint of the data behind it.
    notes_ : tuple of Note
        What was guessed, converted or decided on the way; ``str(note)`` is a sentence.
    state_ : str
        ``"calibrated"``; after an automatic choice also ``"kept"`` or ``"uncalibrated"``.
    """

    map_: Any
    provenance_: Any
    notes_: tuple[Note, ...]

    def _set(self, fit: Fit[Map], notes: tuple[Note, ...]) -> None:
        """Keep what a fit found, after these notes."""
        self.map_, self.notes_ = fit.map, (*notes, *fit.notes)
        for name, value in fit.found.items():
            setattr(self, name, value)

    def _state(self) -> State:
        return "calibrated"

    @property
    def _of_classes(self) -> bool:
        """Whether the fitted map is one of several classes."""
        return isinstance(getattr(self, "map_", None), ClassMap)

    @property
    def state_(self) -> str:
        """What became of the scores."""
        check_is_fitted(self, "map_")
        return str(self.provenance_.state)

    @property
    def calibration_(self) -> Calibration:
        """The frozen result: map, certificate and provenance; what ``save`` writes."""
        check_is_fitted(self, "map_")
        return Calibration(self.map_, self.provenance_, self.certificate())

    def transform(self, scores: Any, score: str | None = None, *, name: str = "calibrated") -> Any:
        """Calibrated probabilities, one per score; float32 in gives float32 out, NaN gives NaN.

        With the name of a column, ``scores`` is a frame, and what comes back is the same kind of frame with the column
        ``name`` in addition, in double precision; see :func:`calibrant.engine.apply`. Lazy frames stay lazy.

        Of several classes, a matrix or a frame with one column for each of ``map_.outputs``.
        """
        return self._applicable().transform(scores, score, name=name)

    def _applicable(self) -> Calibration:
        """What applies; without the certificate, which may take a while."""
        check_is_fitted(self, "map_")
        return Calibration(self.map_, self.provenance_, None)

    def predict_proba(self, scores: Any) -> NDArray[Any]:
        """Columns ``1 - p`` and ``p``, or those of the classes; always an array."""
        p = self.transform(scores)
        return np.asarray(p) if self._of_classes else both_classes(p)

    def fit_transform(self, scores: Any, y: ArrayLike | None = None, **fit_params: Any) -> Any:
        """Fit, then map the same scores; to judge the result use :func:`calibrant.crossfit` instead."""
        fitted = cast(Any, self).fit(scores, y, **fit_params)
        return fitted.transform(scores) if self._of_classes else fitted.transform(scores, fit_params.get("score"))

    def certificate(
        self, alpha: float | None = None, *, bound: Bound = "clopper-pearson", mode: Mode = "simultaneous"
    ) -> Certificate | Refusal:
        """What is promised about the fitted map, as a value that prints one sentence; or why nothing is.

        ``alpha`` is by default the calibrator's own, where it has one, else 0.1.
        """
        check_is_fitted(self, "map_")
        refusal = gate(self.provenance_)
        if refusal is not None:
            return refusal
        return self._certify(getattr(self, "alpha", DEFAULT_ALPHA) if alpha is None else alpha, bound, mode)

    def _certify(self, alpha: float, bound: Bound, mode: Mode) -> Certificate | Refusal:
        if self._of_classes:
            return IMPOSSIBLE_OF_CLASSES
        return TABLE if isinstance(self.map_, StepMap) else IMPOSSIBLE

    def save(self, path: str | PathLike[str]) -> None:
        """Write the map, its certificate and its provenance as JSON; :func:`calibrant.load` reads it back."""
        self.calibration_.save(path)

    def to_sql(self, columns: Any = None, dialect: str = "duckdb", *, by: Mapping[str, str] | None = None) -> Any:
        """The map as SQL over the column of scores, or those of the classes; see :meth:`Calibration.to_sql`."""
        return self.calibration_.to_sql(columns, dialect, by=by)

    def export_sql(
        self,
        path: str | PathLike[str],
        columns: Any = None,
        dialect: str = "duckdb",
        *,
        connection: Any = None,
        by: Mapping[str, str] | None = None,
    ) -> Proof:
        """Write the SQL with its proof; see :meth:`Calibration.export_sql`."""
        return self.calibration_.export_sql(path, columns, dialect, connection=connection, by=by)

    def to_onnx(self, dtype: Precision = "float32", *, shape: Shape | None = ("n",)) -> onnx.ModelProto:
        """The map as an ONNX model with its proof; see :meth:`Calibration.to_onnx`."""
        return self.calibration_.to_onnx(dtype, shape=shape)

    def export_onnx(
        self, path: str | PathLike[str], dtype: Precision = "float32", *, shape: Shape | None = ("n",)
    ) -> Proof:
        """Write the ONNX model with its proof; see :meth:`Calibration.export_onnx`."""
        return self.calibration_.export_onnx(path, dtype, shape=shape)

    def __str__(self) -> str:
        """What was fitted, to what, and what is promised."""
        return self.say(PYTHON)

    def say(self, voice: Voice) -> str:
        """The same in the words of an edge."""
        if not hasattr(self, "map_"):
            return f"{self!r}, not fitted"
        weighted = self.provenance_.weights == "importance" and not self._of_classes
        lines = [
            f"{self!r} fitted to {self._fitted_to()}",
            f"  {self._describe(voice)}",
            *([] if self._of_classes else [f"  {self.ranking_}"]),
            *(f"  {line}" for line in certificate_text(self.certificate(), voice).splitlines()),
            *([f"  note: {importance_weights().say(voice)}"] if weighted else []),
            *(f"  note: {note.say(voice)}" for note in self.notes_),
        ]
        return "\n".join(lines)

    def _fitted_to(self) -> str:
        data = self.provenance_
        if self._of_classes:
            return f"{data.n:,.12g} rows of {len(data.class_mass):,} classes{_UNITS[data.weights]}, {data.kind} scores"
        return f"{data.n:,.12g} {data.kind} scores with {data.events:,.12g} events{_UNITS[data.weights]}"

    def _describe(self, voice: Voice) -> str:
        return repr(self.map_)

    def __sklearn_tags__(self) -> Any:
        """Labels are needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class BinaryCalibrator(Calibrator):
    """Base of calibrators of one score and two classes.

    Attributes
    ----------
    map_ : Map
        The fitted map: frozen data that applies, prints, compares and exports itself.
    provenance_ : Provenance
        Rows, events, score kind and fingerprint of the data behind it.
    notes_ : tuple of Note
        What was guessed, converted or decided on the way; ``str(note)`` is a sentence.
    ranking_ : Ranking
        What the map does to the order of the fitted scores.
    state_ : str
        ``"calibrated"``; after an automatic choice also ``"kept"`` or ``"uncalibrated"``.
    """

    map_: Map

    #: Resolutions of a tally that the method can work with.
    _accepts: ClassVar[tuple[Resolution, ...]] = ("exact", "grid", "bins")
    #: Whether the method promises never to invert the ranking of two scores.
    _monotone: ClassVar[bool] = True
    #: How scores of exactly 0 and 1 are read in all rows, when the rows of a fit are a fold of them.
    _whole_ends: Ends | None = None
    #: Rows of the minority class that an automatic choice would ask for before it tried this method.
    _needed_minority: ClassVar[int] = 0
    #: Whether a map of rows sampled by class becomes the map of all rows when its odds are multiplied.
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
        weights: Weights = "importance",
        groups: ArrayLike | str | None = None,
        time: ArrayLike | str | None = None,
        positive: Any = None,
        kind: Kind | None = None,
        sampling: Sampling = "independent",
    ) -> Self:
        """Fit to one score column and its labels.

        Parameters
        ----------
        scores
            Probabilities, log-odds or any real score: a list, an array, or a pandas, polars or pyarrow column. Or a
            frame, when ``score=`` and ``label=`` name its columns: pandas, polars (eager or lazy), pyarrow, a DuckDB
            relation, a Spark DataFrame. Its rows are counted where they are, in one pass, and stay there.
        y
            Labels: 0/1, booleans, -1/1, or two other values with ``positive=``.
        score, label
            Columns of the frame; ``sample_weight``, ``groups`` and ``time`` are then names of columns too.
        sample_weight
            Weight of each row. They are importance weights unless ``weights="counts"`` declares them as repetition,
            which keeps every guarantee. ``weights="by-class"`` declares that rows were sampled by class alone: one
            weight per class, which is verified. The fit is to the rows as sampled and its odds are then multiplied by
            the ratio of the weights, so that map and certificate are of the population that the weights restore.
        groups, time
            Say that rows depend on each other; no certificate is then issued.
        sampling
            What else is known about the rows: ``"out-of-fold"`` for scores of cross-validation, ``"selected"`` when
            the method was chosen on these rows; no certificate is then issued.
        positive
            The label that counts as an event, when labels are not 0/1.
        kind
            ``"probability"``, ``"logit"`` or ``"real"``; guessed, and reported in ``notes_``, when not given. The
            scores of a frame are probabilities unless it is given.

        Notes
        -----
        A frame gives the tally of :func:`calibrant.engine.tally`, and the fit is that of :meth:`fit_tally`: exact up
        to 65,536 distinct scores, beyond that on a grid of 65,536 cells, as ``notes_`` says.

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
        meant: Literal["importance", "counts"] = "importance" if weights == "by-class" else weights
        if weights == "by-class":
            refuse_by_class(None if self._restores else type(self).__name__, in_frame=named is not None)
        in_memory = self._splits_rows(groups, time)
        if named is not None and not in_memory:
            counted = _tally_of_frame(scores, *named, sample_weight, meant, groups, time, positive, kind)
            return self._fit_tally(counted, sampling, (_resolution_note(counted),))
        if named is not None:
            sides = {"sample_weight": sample_weight, "groups": groups, "time": time}
            scores, y, sample_weight, groups, time = _columns_of_frame(scores, named, sides)
            kind = "probability" if kind is None else kind
        refuse_places("fit", scores, y, sample_weight)
        refuse_names("fit", y=y, sample_weight=sample_weight, groups=groups, time=time)
        if y is None:
            raise labels_missing()
        rows = check_rows(
            scores, y, sample_weight, weights=meant, groups=groups, time=time, positive=positive, kind=kind
        )
        return self._fit_score_rows(rows, sampling, by_class=weights == "by-class")

    def _splits_rows(self, groups: object, time: object) -> bool:
        """Whether the method splits rows by these groups or times, so that a frame is read into memory."""
        return False

    def _fit_score_rows(self, rows: Rows, sampling: Sampling, *, by_class: bool) -> Self:
        """Fit to checked rows, or to rows sampled by class, whose weights are then those of the classes."""
        if not by_class:
            return self._fit_tally(Tally.from_rows(rows), sampling, rows.notes)
        sampled, notes = replace(rows, weights=None, counts=True), (*rows.kind_notes, sampled_by_class())
        return self._fit_tally(Tally.from_rows(sampled), sampling, notes, class_odds(rows))

    def fit_tally(self, tally: Tally, *, sampling: Sampling = "independent") -> Self:
        """Fit to a tally, from whatever engine it came; ``sampling`` says what is known about its rows."""
        return self._fit_tally(tally, sampling, ())

    def _fit_tally(self, tally: Tally, sampling: Sampling, notes: tuple[Note, ...], odds: float | None = None) -> Self:
        """Fit to a tally; with ``odds``, that of rows sampled by class, as :func:`class_odds` gives them."""
        check_option("sampling", sampling, get_args(Sampling))
        self._odds = 1.0 if odds is None else odds
        self._fit_part(tally, notes if sampling == "grouped" else (*notes, *repeat_notes(tally)))
        if odds is not None:
            self.map_ = self._restored()
        self.ranking_ = Ranking.of(self.map_, tally)
        self.provenance_ = Provenance.of(type(self).__name__, tally, sampling, self._state())
        if odds is not None:
            self.provenance_ = replace(self.provenance_, weights="by-class")
        self.n_features_in_ = 1
        return self

    def _fit_part(self, tally: Tally, notes: tuple[Note, ...] = ()) -> Self:
        """The map and its notes alone: what a calibrator of many binary problems needs of each."""
        self._check()
        if tally.resolution not in self._accepts:
            raise InputError(
                "tally",
                f"has resolution {tally.resolution!r}, which {type(self).__name__} cannot work from",
                f"it needs {' or '.join(map(repr, self._accepts))}",
            )
        if not tally.total > 0:
            refuse_empty("tally")
        seen = self._seen(tally)
        self._set(self._fit_map(seen), (*notes, *_too_few(self._needed_minority, seen)))
        return self

    def _check(self) -> None:
        """Refuse settings that are wrong whatever the rows, such as a wrong calibrator inside this one."""

    def _restored(self) -> Map:
        """The map of rows sampled by class, in the population that the class weights restore."""
        return restored(self.map_, self._odds)

    def _seen(self, tally: Tally) -> Tally:
        """What the fit sees of a tally."""
        return self._clipped(tally.for_fitting())

    def _clipped(self, tally: Tally) -> Tally:
        """The tally with the ends of ``clamp``, where there is one, or of all rows, where these are a fold of them."""
        clamp = getattr(self, "clamp", None)
        ends = self._whole_ends if clamp is None else ends_at(clamp, tally.kind)
        return tally if ends is None else tally.with_ends(ends)

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        """The fitted map, notes, and further attributes; nothing is set here."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        """One-dimensional input, no matrix of features."""
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
"""What to pass for the names that scikit-learn and others use."""


def check_calibrator(given: Any, name: str = "calibrator") -> BinaryCalibrator:
    """The calibrator, if it needs one column of scores and no more; asked before anything is trained.

    Examples
    --------
    >>> check_calibrator("isotonic")
    Traceback (most recent call last):
        ...
    calibrant.messages.InputError: calibrator must be a calibrator of one score, not 'isotonic': pass
    IsotonicCalibrator()
    """
    if isinstance(given, type) and issubclass(given, BinaryCalibrator):
        raise InputError(name, f"must be an instance, and {given.__name__} is a class", f"pass {given.__name__}()")
    wrong = f"must be a calibrator of one score, not {given!r}"
    if isinstance(given, Calibration):
        raise InputError(name, f"{wrong}, which has no fit", "pass the model's scores to its transform instead")
    if not isinstance(given, BinaryCalibrator):
        known = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
        raise InputError(name, wrong, f"pass {INSTEAD.get(known, 'one such as PlattScaling() or AutoCalibrator()')}")
    if type(given)._fit_map is BinaryCalibrator._fit_map:
        raise InputError(name, f"{wrong}, which needs segments as well", "pass PlattScaling() or AutoCalibrator()")
    given._check()
    return given


_UNITS: dict[Weighting, str] = {
    "counts": "",
    "importance": " (sums of weights)",
    "by-class": " (rows as sampled)",
}


importance_weights = note(
    "importance-weights",
    "map and losses are of the population that the weights restore, not of the {nouns.rows} as sampled",
)
sampled_by_class = note(
    "sampled-by-class",
    "the map and its certificate are of the population that the class weights restore; counts and losses are of "
    "the {nouns.rows} as sampled",
)
few_for_rich_map = note(
    "few-for-rich-map",
    "only {minority:,.6g} {nouns.rows} of the minority class: this method is likely to overfit; "
    "calibrate() tries it with at least {needed:,.6g}",
)
counted_exactly = note("counted-exactly", "counted in the frame: exact, {scores:,} distinct {nouns.scores}")
counted_on_grid = note("counted-on-grid", "counted in the frame: on a grid of 65,536 cells")


def labels_missing() -> InputError:
    """The error of a fit without labels."""
    return InputError("y", "is missing", "pass the labels, as in fit(scores, y) or fit(frame, score=..., label=...)")


def refuse_places(call: str, scores: Any, y: Any, following: Any) -> None:
    """Columns of a frame named where arrays belong: say how they are named."""
    if hasattr(scores, "columns") and isinstance(y, str):
        label = repr(following) if isinstance(following, str) else "..."
        raise InputError(
            Setting("y", y),
            "looks like the name of a column, and columns of a frame are named",
            f"pass {call}(frame, score={y!r}, label={label})",
        )


def certificate_text(certificate: object, voice: Voice) -> str:
    """What is promised, or why nothing is, in the words of an edge."""
    return certificate.say(voice) if isinstance(certificate, Refusal) else str(certificate)


def both_classes(p: NDArray[Any]) -> NDArray[Any]:
    """Columns ``1 - p`` and ``p``; in float32 neither is rounded to 0 or 1."""
    other = 1.0 - p.astype(np.float64)
    return np.column_stack([to_float32(other) if p.dtype == np.float32 else other, p])


def _too_few(needed: int, tally: Tally) -> tuple[Note, ...]:
    """What to say about a method fitted to fewer rows than an automatic choice would fit it to."""
    minority = minority_rows(tally)
    return (few_for_rich_map(minority, float(needed)),) if minority < needed else ()


def _tally_of_frame(
    frame: Any,
    score: str,
    label: str,
    sample_weight: Any,
    weights: Literal["importance", "counts"],
    groups: Any,
    time: Any,
    positive: Any,
    kind: Kind | None,
) -> Tally:
    from calibrant.engine.columns import read_frame  # here, so that arrays load no engine
    from calibrant.engine.frames import tally

    read_frame(frame, score, label, *need_names(sample_weight=sample_weight, groups=groups, time=time))
    return tally(
        frame,
        score,
        label,
        sample_weight=sample_weight,
        weights=weights,
        positive=positive,
        kind="probability" if kind is None else kind,
    )


def _columns_of_frame(frame: Any, names: tuple[str, str], sides: dict[str, Any]) -> list[Any]:
    """Scores, labels, weights, groups and time of a frame, in memory."""
    from calibrant.engine.columns import columns_of  # here, so that arrays load no engine

    taken = columns_of(frame, [*names, *need_names(**sides)])
    return [None if name is None else taken[name].to_numpy() for name in (*names, *sides.values())]


def _resolution_note(tally: Tally) -> Note:
    return counted_exactly(len(tally.n)) if tally.resolution == "exact" else counted_on_grid()
