"""A fitted map of several classes with what is known and promised about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.errors import InputError
from calibrant.arrays.multiclass.rows import ClassKind, check_class_scores
from calibrant.arrays.paths import local_path
from calibrant.export.coding import written
from calibrant.export.files import write_whole
from calibrant.guarantees.certificates import Refusal
from calibrant.guarantees.class_promise import ClassPromise
from calibrant.guarantees.provenance import UNCALIBRATED, ClassProvenance
from calibrant.maps import ClassMap, PathMap, TopMap
from calibrant.maps.classes import top_labels

if TYPE_CHECKING:
    import onnx

    from calibrant.export.onnx.scores import Precision
    from calibrant.export.proof import Proof
    from calibrant.maps.paths import PathForecast


@dataclass(frozen=True)
class ClassCalibration:
    """A map of several classes, its certificate and its provenance; what :func:`calibrant.load` returns for one.

    Examples
    --------
    >>> from calibrant.maps import SoftmaxMap
    >>> cooler = ClassCalibration(SoftmaxMap(("cat", "dog"), [2.0], [], "probability", 1e-9))
    >>> cooler.transform([[0.25, 0.75]]).round(3).tolist(), cooler.predict([[0.25, 0.75]]).tolist()
    ([[0.1, 0.9]], ['dog'])
    """

    map: ClassMap
    provenance: ClassProvenance | None = None
    certificate: ClassPromise | Refusal | None = None

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "provenance": ("class-provenance",),
        "certificate": (
            "class-certificate",
            "simplex-certificate",
            "path-certificate",
        ),
    }
    """What its document may hold beside the map."""

    def __post_init__(self) -> None:
        """A certificate speaks of one map, and provenance of its classes; refuse to carry them with another."""
        if not isinstance(self.map, ClassMap):
            fix = "forecaster.freeze()" if hasattr(self.map, "freeze") else "one of several classes of calibrant.maps"
            raise InputError(f"map must be a fixed map of several classes, not {type(self.map).__name__}: pass {fix}")
        if isinstance(self.certificate, ClassPromise) and not self.certificate.about(self.map):
            raise ValueError("the certificate is not about this map")
        if self.provenance is None:
            return
        if len(self.provenance.class_mass) != len(self.map.classes):
            raise ValueError("the provenance is of another number of classes")
        self.provenance.as_written(self.map.classes)
        if isinstance(self.certificate, ClassPromise):
            told = self.provenance  # what issuing.gate asks for, without the scipy that issuing needs
            if (told.weights, told.sampling) != ("counts", "independent") or not self.certificate.rests_on(told):
                raise ValueError("rows as the provenance tells of cannot carry this certificate")

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the columns."""
        return self.map.classes

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes in the order of the columns, as they were written in the labels of the fit."""
        return np.array(self.classes if self.provenance is None else self.provenance.as_written(self.classes))

    @property
    def kind(self) -> ClassKind:
        """What the scores are that it takes: those it was fitted on, else what the map says."""
        return self.map.on if self.provenance is None else self.provenance.kind

    def transform(self, scores: Any) -> Any:
        """Calibrated probabilities, one column for each of ``map.outputs``, as an array or the frame that came.

        Columns of a frame are found by the names of the classes. float32 in gives float32 out; a row with a missing
        score has no probabilities.
        """
        matrix, rebuild = self._checked(scores)
        return rebuild(self.map.apply(matrix), self.map.outputs)

    def predict_proba(self, scores: Any) -> NDArray[Any]:
        """Like :meth:`transform`, always an array."""
        return self.map.apply(self._checked(scores)[0])

    def predict(self, scores: Any) -> NDArray[Any]:
        """The class that is calibrated as the most likely one, as written in the labels of the fit.

        A map of top classes keeps the model's own.
        """
        return np.asarray(self.classes_[self.predict_codes(scores)])

    def predict_codes(self, scores: Any) -> NDArray[np.intp]:
        """Like :meth:`predict`, as places among ``classes``."""
        matrix, _ = self._checked(scores)
        if np.isnan(matrix[:, 0]).any():
            row = int(np.isnan(matrix[:, 0]).argmax())
            raise InputError(f"a score is missing in row {row}, which has no most likely class: drop such rows")
        if isinstance(self.map, TopMap | PathMap):
            return self.map.labels(matrix)[:, 0]
        return top_labels(self.map.apply(matrix), 1)[:, 0]

    def forecast(self, scores: Any) -> PathForecast:
        """Probabilities along the path of each row's predicted leaf, for a map of a taxonomy."""
        if not isinstance(self.map, PathMap):
            raise InputError(
                f"forecast needs a map of a taxonomy, and this is a {type(self.map).__name__}: use transform"
            )
        return self.map.forecast(self._checked(scores)[0])

    def _checked(self, scores: Any) -> Any:
        columns = () if self.provenance is None else self.provenance.columns
        return check_class_scores(scores, self.classes, self.kind, columns)

    def to_sql(
        self, columns: Mapping[str, str] | Sequence[str] | None = None, dialect: str = "duckdb"
    ) -> dict[str, str]:
        """One SQL expression for each column that comes out; NULL or NaN in any score of a row gives NULL.

        ``columns`` are the columns of scores by class, or in the order of the classes; None if they are called as the
        classes. A map of top classes also names the class of each rank, as ``"top 1 label"``. Dialects as in
        :meth:`calibrant.Calibration.to_sql`; see :func:`calibrant.export.sql.columns.class_sql`.
        """
        from calibrant.export.sql.columns import class_sql  # here, so that reading a document loads no dialects

        return class_sql(self.map, self._columns(columns), dialect)

    def export_sql(
        self,
        path: str | PathLike[str],
        columns: Mapping[str, str] | Sequence[str] | None = None,
        dialect: str = "duckdb",
        *,
        connection: Any = None,
    ) -> Proof:
        """Write the expressions, as columns for a SELECT, with the proof that they give what :meth:`transform` gives.

        The text is run on corners, ties, edge values, beside knots and on 10^4 random rows before it is written, and
        is not written if a result is off; where, is said at :meth:`calibrant.Calibration.export_sql`.
        """
        from calibrant.export.sql.class_file import write_class_sql

        return write_class_sql(self.map, self.to_json(), local_path(path), self._columns(columns), dialect, connection)

    def _columns(self, columns: Mapping[str, str] | Sequence[str] | None) -> Mapping[str, str] | Sequence[str] | None:
        """As they were said; else as they were called in the frame of the fit."""
        return columns if columns is not None or self.provenance is None else self.provenance.columns or None

    def to_onnx(self, dtype: Precision = "float32") -> onnx.ModelProto:
        """The map as an ONNX model from ``scores`` to ``calibrated``, checked in onnxruntime, with the proof inside.

        Both are matrices, one row per case. A map of top classes also gives ``label``. Core operators only. In float32
        it equals :meth:`transform` on float32. See :func:`calibrant.export.onnx.classes.class_onnx`.
        """
        from calibrant.export.sql.class_file import proven_class_model

        return proven_class_model(self.map, self.to_json(), dtype)

    def export_onnx(self, path: str | PathLike[str], dtype: Precision = "float32") -> Proof:
        """Write :meth:`to_onnx` to ``path``; it is not written if a result is off."""
        from calibrant.export.sql.file import write_model

        target = local_path(path)
        return write_model(self.to_onnx(dtype), target)

    def to_json(self) -> str:
        """The document as text; numbers survive bit for bit."""
        return written(self.map, self.certificate, self.provenance)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the document to ``path``; :func:`calibrant.load` reads it back."""
        write_whole(local_path(path), self.to_json() + "\n")

    def __str__(self) -> str:
        """Map, origin and promise."""
        told = [repr(self.map)]
        data = self.provenance
        if data is not None and data.state == "uncalibrated":
            told.insert(0, UNCALIBRATED)
        if data is not None:
            told.append(f"  {data.method} fitted to {data.n:,.12g} rows of {len(self.classes)} classes ({data.kind})")
        if self.certificate is not None:
            told.append(f"  {self.certificate}")
        return "\n".join(told)
