"""Base class of all calibrators: transform, certificate, storage and export.

A calibrator of one score implements :meth:`BinaryCalibrator._fit_map`, in :mod:`.binary.base`; one of several classes
:meth:`MulticlassCalibrator._fit_classes`, in :mod:`.multiclass.base`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays.columns import check_option, is_tensor
from calibrant.calibration import Calibration, both_classes, fitted_rows
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName
from calibrant.guarantees.no_certificate import (
    IMPOSSIBLE,
    IMPOSSIBLE_OF_CLASSES,
    NoCertificate,
    NoCertificateCode,
    gate,
)
from calibrant.guarantees.provenance import Status
from calibrant.maps import Map, MulticlassMap, StepMap
from calibrant.messages import PYTHON, Advice, Note, Phrase, Voice, note

if TYPE_CHECKING:
    import onnx

    from calibrant.export.languages.onnx_graph import Precision
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
        event = self._applicable().event(scores)
        p = self._applicable().transform(scores if event is None else event.scores)
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

    def to_json(self) -> str:
        """What :meth:`save` writes, as text; see :meth:`Calibration.to_json`."""
        return self.calibration_.to_json()

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the fitted map. See :meth:`Calibration.plot`."""
        return self.calibration_.plot(ax, **options)

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

    def to_onnx(self, dtype: Precision | None = None, **options: Any) -> onnx.ModelProto:
        """The map as an ONNX model with its proof; see :meth:`Calibration.to_onnx`."""
        return self.calibration_.to_onnx(dtype, **options)

    def export_onnx(self, path: str | PathLike[str], dtype: Precision | None = None, **options: Any) -> Proof:
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
            *([f"  Note: {importance_weights().say(voice)}"] if weighted else []),
            *(f"  Note: {note.say(voice)}" for note in self.notes_),
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


importance_weights = note(
    "importance-weights",
    "map and losses refer to the population that the weights restore, not to the {nouns.rows} as sampled",
)


def certificate_text(certificate: object, voice: Voice) -> str:
    """The certificate, or the reason why there is none, in the words of a voice."""
    return certificate.say(voice) if isinstance(certificate, NoCertificate) else str(certificate)
