"""What every calibrator of several classes shares: validation, transform, certificate, storage.

A calibrator implements :meth:`ClassCalibrator._fit_classes`, from checked rows to a :class:`Fit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays.columns import check_option
from calibrant.arrays.kinds import ClassKind
from calibrant.arrays.multiclass.names import first_names
from calibrant.arrays.multiclass.rows import ClassRows, check_class_rows
from calibrant.calibration import Calibration
from calibrant.calibrators.base import DEFAULT_ALPHA, Fit, certificate_text
from calibrant.guarantees.certificate import Bound, Certificate, Mode
from calibrant.guarantees.provenance import ClassProvenance, Sampling, State
from calibrant.guarantees.refusal import Refusal, RefusalCode, gate
from calibrant.maps import ClassMap
from calibrant.maps.classes import top_labels
from calibrant.messages import PYTHON, InputError, Note, Setting, Voice, note, warn

if TYPE_CHECKING:
    import onnx

    from calibrant.export.onnx.scores import Precision
    from calibrant.export.proof import Proof


IMPOSSIBLE_OF_CLASSES = Refusal(
    RefusalCode.INJECTIVE,
    "no distribution-free guarantee is possible for an injective map, however many rows it is fitted on "
    "(Gupta 2023, Theorem 3.3): use TopLabelHistogramBinning or ClassWiseHistogramBinning if you need a certificate",
)


class ClassCalibrator(BaseEstimator):
    """Base of calibrators of a matrix of class scores.

    Attributes
    ----------
    classes_ : ndarray
        The classes in the order of the columns, as they were written in ``y``.
    map_ : ClassMap
        The fitted map: frozen data that applies, prints, compares and exports itself.
    provenance_ : ClassProvenance
        Rows by class, score kind and fingerprint of the data behind it.
    notes_ : tuple of Note
        What was guessed, converted or decided on the way; ``str(note)`` is a sentence.
    """

    def fit(
        self,
        scores: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: Sequence[Any] | None = None,
        weights: Literal["importance", "counts"] = "importance",
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
        kind: ClassKind | None = None,
        sampling: Sampling = "independent",
    ) -> Self:
        """Fit to a matrix of class scores and its labels.

        Parameters
        ----------
        scores
            One row per case and one column per class, two or more: an array, or a pandas, polars or pyarrow frame
            whose columns name the classes. Probabilities that sum to 1, or logits.
        y
            The class of each row: text, whole numbers or truth values.
        classes
            The labels in the order of the columns; see :func:`~calibrant.arrays.multiclass.rows.check_class_rows`.
        sample_weight, weights, groups, time, sampling
            As for one score, see :meth:`BinaryCalibrator.fit`.
        kind
            ``"probability"``, ``"logit"`` or ``"independent"``; guessed when not given.
        """
        check_option("sampling", sampling, get_args(Sampling))
        if sampling == "independent":
            sampling = "grouped" if groups is not None else "time-ordered" if time is not None else "independent"
        if y is None:
            raise InputError("y", "is missing", "pass the labels, as in fit(scores, y) or calibrate(scores, y)")
        if isinstance(y, str):
            raise InputError(
                Setting("y", y),
                "looks like the name of a column",
                f"pass the columns of the classes as frame[[...]] and the labels as frame[{y!r}]",
            )
        rows = self._checked_rows(
            scores, y, sample_weight, classes=classes, weights=weights, groups=groups, time=time, kind=kind
        )
        self._fit_rows(rows, sampling)
        _warn_of_order(rows)
        return self

    def _checked_rows(self, scores: Any, y: Any, sample_weight: Any, **options: Any) -> ClassRows:
        """The rows; a calibrator says here which labels it takes beside the classes."""
        return check_class_rows(scores, y, sample_weight, **options)

    def _fit_rows(self, rows: ClassRows, sampling: Sampling = "independent") -> Self:
        fit = self._fit_classes(rows)
        self.classes_ = rows.values
        self.map_, self.notes_ = fit.map, (*rows.notes, *_absent(rows), *fit.notes)
        for name, value in fit.found.items():
            setattr(self, name, value)
        self.provenance_ = ClassProvenance.of(type(self).__name__, rows, sampling, self._state())
        self.n_features_in_ = len(rows.classes)
        return self

    def _fit_classes(self, rows: ClassRows) -> Fit[ClassMap]:
        """The fitted map, notes, and further attributes; nothing is set here."""
        raise NotImplementedError

    def _state(self) -> State:
        return "calibrated"

    @property
    def state_(self) -> str:
        """What became of the scores."""
        check_is_fitted(self, "map_")
        return self.provenance_.state

    @property
    def calibration_(self) -> Calibration:
        """The frozen result: map, certificate and provenance; what ``save`` writes."""
        check_is_fitted(self, "map_")
        return Calibration(self.map_, self.provenance_, self.certificate())

    def _applicable(self) -> Calibration:
        """What applies; without the certificate, which may take a while."""
        check_is_fitted(self, "map_")
        return Calibration(self.map_, self.provenance_, None)

    def transform(self, scores: Any) -> Any:
        """Calibrated probabilities, as an array or as the kind of frame that came; columns are ``map_.outputs``."""
        return self._applicable().transform(scores)

    def predict_proba(self, scores: Any) -> NDArray[Any]:
        """Like :meth:`transform`, always an array."""
        return np.asarray(self.transform(scores))

    def predict(self, scores: Any) -> NDArray[Any]:
        """The class that is the most likely one after calibration, as written in ``y``."""
        return np.asarray(self.classes_[self._applicable().predict_codes(scores)])

    def fit_transform(self, scores: Any, y: ArrayLike, **fit_params: Any) -> Any:
        """Fit, then map the same scores; numbers about these rows flatter the fit."""
        return self.fit(scores, y, **fit_params).transform(scores)

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
        return IMPOSSIBLE_OF_CLASSES

    def save(self, path: str | PathLike[str]) -> None:
        """Write the map, its certificate and its provenance as JSON; :func:`calibrant.load` reads it back."""
        self.calibration_.save(path)

    def to_sql(
        self, columns: Mapping[str, str] | Sequence[str] | None = None, dialect: str = "duckdb"
    ) -> dict[str, str]:
        """One SQL expression for each column that comes out; see :meth:`Calibration.to_sql`."""
        return self.calibration_.to_sql(columns, dialect)

    def export_sql(
        self,
        path: str | PathLike[str],
        columns: Mapping[str, str] | Sequence[str] | None = None,
        dialect: str = "duckdb",
        *,
        connection: Any = None,
    ) -> Proof:
        """Write the expressions with their proof; see :meth:`Calibration.export_sql`."""
        return self.calibration_.export_sql(path, columns, dialect, connection=connection)

    def to_onnx(self, dtype: Precision = "float32") -> onnx.ModelProto:
        """The map as an ONNX model with its proof; see :meth:`Calibration.to_onnx`."""
        return self.calibration_.to_onnx(dtype)

    def export_onnx(self, path: str | PathLike[str], dtype: Precision = "float32") -> Proof:
        """Write the ONNX model with its proof; see :meth:`Calibration.export_onnx`."""
        return self.calibration_.export_onnx(path, dtype)

    def __str__(self) -> str:
        """What was fitted, to what, and what is promised."""
        return self.say(PYTHON)

    def say(self, voice: Voice) -> str:
        """The same in the words of an edge."""
        if not hasattr(self, "map_"):
            return f"{self!r}, not fitted"
        data = self.provenance_
        unit = "" if data.weights == "counts" else " (sums of weights)"
        told = [
            f"{self!r} fitted to {data.n:,.12g} rows of {len(self.classes_):,} classes{unit}, {data.kind} scores",
            f"  {self._describe(voice)}",
            *(f"  {line}" for line in certificate_text(self.certificate(), voice).splitlines()),
            *(f"  note: {note.say(voice)}" for note in self.notes_),
        ]
        return "\n".join(told)

    def _describe(self, voice: Voice) -> str:
        return repr(self.map_)

    def __sklearn_tags__(self) -> Any:
        """A matrix of scores, and labels."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@note("absent-classes")
def absent_classes(voice: Voice, classes: tuple[str, ...]) -> str:
    """Of classes that no row has."""
    them = "it" if len(classes) == 1 else "them"
    return f"no {voice.nouns.row} has the class {first_names(classes)}: nothing can be learned about {them}"


@note("below-chance")
def below_chance(voice: Voice, right: float, chance: float) -> str:
    """Of columns that may be in another order than the classes."""
    return (
        f"the largest score names the right class in only {100 * right:.3g} % of the {voice.nouns.rows}, and chance in "
        f"{100 * chance:.3g} %: are the columns in the order of classes?"
    )


def _absent(rows: ClassRows) -> tuple[Note, ...]:
    names = tuple(name for name, mass in zip(rows.classes, rows.class_mass, strict=True) if not mass > 0)
    return (absent_classes(names),) if names else ()


def _warn_of_order(rows: ClassRows) -> None:
    """Warn where the largest score is right clearly less often than one that knows nothing of the row would be.

    That one draws a class by the shares in which the largest scores name them, so that a model which names a rare class
    too often is no reason to warn. Four standard errors; columns of which only some are swapped are rarely seen.
    """
    size = len(rows.classes)
    kept = rows.labels < size  # labels beside the classes, as inner nodes of a taxonomy, are no largest score
    mass, labels, top = rows.mass[kept], rows.labels[kept], top_labels(rows.scores, 1)[kept, 0]
    total = float(mass.sum())
    if not total > 0.0:
        return
    named, true = (np.bincount(each, mass, size) / total for each in (top, labels))
    chance = float(np.einsum("k,k->", named, true))
    right = float(mass[top == labels].sum()) / total
    n = total if rows.counts else total**2 / float(np.square(mass).sum())
    if chance - right > 4.0 * np.sqrt(chance * (1.0 - chance) / n):
        warn(below_chance(right, chance))
