"""Calibration: a fitted map with its provenance and certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import ScoreType, check_scores
from calibrant.arrays.columns import refuse_names
from calibrant.arrays.paths import local_path
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.content import Content
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.provenance import UNCALIBRATED, MulticlassProvenance, Provenance
from calibrant.maps import Columns, Map, MulticlassMap, PathMap, TopMap
from calibrant.maps.base import by_name, needed_columns, unwrapped
from calibrant.maps.classes import top_labels
from calibrant.messages import Advice, InputError

if TYPE_CHECKING:
    import onnx

    from calibrant.export.onnx.graph import Precision, Shape
    from calibrant.export.proof import Proof
    from calibrant.maps.paths import PathForecast

BY_SEGMENT = "SegmentCalibrator"
"""The method whose maps may or may not need groups, depending on the fitted rows."""

ScoreColumns = Mapping[str, str] | Sequence[str] | None
"""Names of the columns of scores in a table: by input of the map, in their order, or None for the same names."""


@dataclass(frozen=True)
class Calibration:
    """A fitted map with its provenance and its certificate. :func:`load` returns it; it needs only numpy.

    Parameters
    ----------
    map : Map
        A map of one score, or a multiclass map.
    provenance : Provenance or MulticlassProvenance, optional
        Method and data of the fit.
    certificate : Certificate or NoCertificate, optional
        The guarantee of the map, or the reason why there is none.

    Notes
    -----
    Guarantee: that of ``certificate``, if there is one; a bare map has no finite-sample guarantee.

    Examples
    --------
    >>> from calibrant.maps import LogitAffineMap, SoftmaxMap
    >>> text = Calibration(LogitAffineMap(0.8, -0.1)).to_json()
    >>> Calibration.from_json(text).transform([0.5]).round(3).tolist()
    [0.475]
    >>> cooler = Calibration(SoftmaxMap(("cat", "dog"), [2.0], [], "probability", 1e-9))
    >>> cooler.transform([[0.25, 0.75]]).round(3).tolist(), cooler.predict([[0.25, 0.75]]).tolist()
    ([[0.1, 0.9]], ['dog'])
    """

    map: Map
    provenance: Any = None
    """A :class:`Provenance`; for several classes a :class:`MulticlassProvenance`."""
    certificate: Certificate | NoCertificate | None = None

    def __post_init__(self) -> None:
        """Check that this is a map, and that certificate and provenance belong to it."""
        if not isinstance(self.map, Map):
            fix = "forecaster.freeze()" if hasattr(self.map, "freeze") else "one of calibrant.maps, or calibrator.map_"
            raise InputError("map", f"must be a Map, not {type(self.map).__name__}", f"pass {fix}")
        self._content.check()

    @property
    def _content(self) -> Content:
        return Content(self.map, self.provenance, self.certificate)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the columns; none for a map of one score."""
        return self.map.classes if isinstance(self.map, MulticlassMap) else ()

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes in the order of the columns, as written in the labels of the fit."""
        written = bool(self.classes) and self.provenance is not None
        return np.array(self.provenance.as_written(self.classes) if written else self.classes)

    @property
    def score_type(self) -> Any:
        """Type of the input scores: that of the fitted scores, else that of the map, else probabilities."""
        kind: ScoreType | MulticlassScoreType = "probability"
        if self.provenance is not None:
            kind = self.provenance.score_type
        elif isinstance(self.map, MulticlassMap):
            kind = self.map.on
        return kind

    # ------------------------------------------------------------------------------------------------------- applying

    @overload
    def transform(self, scores: Any, score: str, by: Any = None, *, source: Any = None, name: str = ...) -> Any: ...

    @overload
    def transform(
        self, scores: ArrayLike, score: Columns | None = None, by: Columns | None = None, *, source: Any = None
    ) -> NDArray[Any]: ...

    @overload
    def transform(
        self, scores: Any, score: Any = None, by: Any = None, *, source: Any = None, name: str = ...
    ) -> Any: ...

    def transform(
        self, scores: Any, score: Any = None, by: Any = None, *, source: Any = None, name: str = "calibrated"
    ) -> Any:
        """Calibrated probabilities, equal to those of the calibrator; float32 in gives float32 out, NaN gives NaN.

        Parameters
        ----------
        scores
            Scores of one column; a frame, if ``score`` names its column; or, for a multiclass map, a matrix or a frame
            with one column for each class, found by name.
        score
            Column of scores, if ``scores`` is a frame; otherwise segments may be passed here, as second argument.
        by, source
            Segments, for a map by group: one column, or columns by name; ``source`` is an alias of ``by``. In a frame,
            ``by={"region": "area_code"}`` gives the names of the columns there.
        name
            Name of the new column of a frame.

        Returns
        -------
        array, or frame
            Probabilities. For a frame with ``score``, the same kind of frame with the column ``name`` added; see
            :func:`calibrant.engine.apply`. For a multiclass map, one column for each of ``map.outputs``, in the form of
            the input; a row with a missing score has no probabilities.
        """
        column, groups = _score_and_groups(score, by, source)
        if self.classes:
            if column is not None or groups is not None:
                raise InputError("scores", "have one column per class and need no other column", "pass them alone")
            matrix, rebuild = self._checked_rows(scores)
            return rebuild(self.map.apply(matrix), self.map.outputs)
        if column is not None:
            from calibrant.engine.columns import apply  # here, so that arrays load no engine

            return apply(self, scores, column, name=name, by=self._renamed(groups))
        refuse_names("transform", by=groups)
        if groups is not None and self._may_need_none:
            groups = None
        return self.map.apply(check_scores(scores, self.score_type), needed_columns(self.map, groups, "by"))

    @property
    def _may_need_none(self) -> bool:
        """Whether groups are ignored: if no segment was found to differ, the map needs the score alone."""
        return not self.map.columns and self.provenance is not None and self.provenance.method == BY_SEGMENT

    def _renamed(self, by: Any) -> dict[str, str]:
        """Names of the columns of groups in a frame, where they differ from those in the map."""
        needed = self.map.columns
        if by is None or self._may_need_none:
            return {}
        if isinstance(by, Mapping) and all(isinstance(name, str) for name in by.values()):
            return dict(by)
        names = [by] if isinstance(by, str) else list(by) if isinstance(by, list | tuple) else []
        if len(names) == len(needed) == 1:
            return {needed[0]: names[0]}
        if names and set(needed) <= set(names):
            return {}
        raise InputError(
            "by", "does not name columns of the frame", "leave it out, or pass {'name in the map': 'name in the frame'}"
        )

    def _checked_rows(self, scores: Any) -> Any:
        """A checked matrix of class scores, and a function that returns results in the form of the input."""
        from calibrant.arrays.multiclass.rows import check_class_scores  # here: maps of one score do without

        columns = self.provenance.columns if isinstance(self.provenance, MulticlassProvenance) else ()
        return check_class_scores(scores, self._class_map.classes, self.score_type, columns)

    @property
    def _class_map(self) -> MulticlassMap:
        if not isinstance(self.map, MulticlassMap):
            raise InputError("map", "is a map of one score, but a multiclass map is needed", "use transform")
        return self.map

    def predict_proba(self, scores: Any) -> NDArray[Any]:
        """Probabilities of several classes as in :meth:`transform`, always as an array."""
        return self.map.apply(self._checked_rows(scores)[0])

    def predict(self, scores: Any) -> NDArray[Any]:
        """The most likely class after calibration, as written in the labels of the fit.

        A map of top classes keeps the class predicted by the model.
        """
        return np.asarray(self.classes_[self.predict_codes(scores)])

    def predict_codes(self, scores: Any) -> NDArray[np.intp]:
        """Like :meth:`predict`, as indices into ``classes``."""
        matrix, _ = self._checked_rows(scores)
        if np.isnan(matrix[:, 0]).any():
            row = int(np.isnan(matrix[:, 0]).argmax())
            raise InputError(
                "scores", f"has a missing value in row {row}, so there is no most likely class", Advice.DROP_ROWS
            )
        if isinstance(self.map, TopMap | PathMap):
            return self.map.labels(matrix)[:, 0]
        return top_labels(self.map.apply(matrix), 1)[:, 0]

    def forecast(self, scores: Any) -> PathForecast:
        """Probabilities along the path of the predicted leaf, for each row; needs a map of a taxonomy."""
        if not isinstance(self.map, PathMap):
            raise InputError(
                "forecast", f"needs a map of a taxonomy, but this is a {type(self.map).__name__}", "use transform"
            )
        return self.map.forecast(self._checked_rows(scores)[0])

    # ------------------------------------------------------------------------------------------------------ exporting

    @overload
    def to_sql(  # type: ignore[overload-overlap]  # a str is a sequence of str
        self, columns: str, dialect: str = ..., *, by: Mapping[str, str] | None = None
    ) -> str: ...

    @overload
    def to_sql(
        self, columns: ScoreColumns = None, dialect: str = ..., *, by: Mapping[str, str] | None = None
    ) -> dict[str, str]: ...

    def to_sql(
        self, columns: str | ScoreColumns = None, dialect: str = "duckdb", *, by: Mapping[str, str] | None = None
    ) -> str | dict[str, str]:
        """The map as SQL: an expression over the column of scores, or one for each of ``map.outputs``, by name.

        Parameters
        ----------
        columns
            The column of scores, or those of several classes, by class or in the order of the classes; None if they
            have the names of the classes.
        dialect
            SQL dialect; docs/guide/ship.md lists them.
        by
            Names of the columns of groups, if they differ from those in the map, such as ``{"region": "area_code"}``.

        Returns
        -------
        str, or dict of str
            One expression, or one by output. A map of top classes also returns the class of each rank, as
            ``"top 1 label"``. NULL or NaN in any score of a row gives NULL. See
            :func:`calibrant.export.sql.expressions.to_sql`.
        """
        from calibrant.export.sql.expressions import to_sql  # here, so that reading a document loads no dialects

        return to_sql(self.map, self._as_at_fit(columns), dialect, by)

    def export_sql(
        self,
        path: str | PathLike[str],
        columns: str | ScoreColumns = None,
        dialect: str = "duckdb",
        *,
        connection: Any = None,
        by: Mapping[str, str] | None = None,
    ) -> Proof:
        """Write the SQL of :meth:`to_sql` with a proof that it agrees with :meth:`transform`.

        Several expressions are written as columns for a SELECT. Before it is written, the SQL is run on edge values, on
        both sides of every knot and on 10^5 random scores (for several classes on 10^4 random rows, corners and ties).
        If a result differs, nothing is written (:class:`calibrant.ExportMismatchError`). It runs on ``connection``
        (DuckDB, sqlite3, PostgreSQL, Spark); otherwise on an available engine: DuckDB and SQLite in memory, and for
        other dialects numpy, with the text as parsed by sqlglot. :func:`calibrant.verify` repeats the proof on any
        engine.

        Parameters
        ----------
        path
            File to write.
        columns, dialect, by
            As in :meth:`to_sql`.
        connection
            Connection on which the SQL is checked.

        Returns
        -------
        Proof
            What was compared, and the largest difference.
        """
        from calibrant.export.files import write_whole
        from calibrant.export.sql.file import SqlFile

        target = local_path(path)
        file = SqlFile.proven(self.map, self.to_json(), self._as_at_fit(columns), dialect, by, connection)
        write_whole(target, str(file))
        return file.proof

    def _as_at_fit(self, columns: str | ScoreColumns) -> str | ScoreColumns:
        """Columns as passed; otherwise their names in the frame of the fit."""
        if columns is None and isinstance(self.provenance, MulticlassProvenance):
            return self.provenance.columns or None
        return columns

    def to_onnx(self, dtype: Precision = "float32", *, shape: Shape | None = ("n",)) -> onnx.ModelProto:
        """The map as an ONNX model, checked in onnxruntime, with the proof in its metadata.

        The input is ``score`` and the output ``calibrated``; groups need a text input for each column and a
        LabelEncoder. A multiclass map has the input ``scores``, a matrix with one row per case; a map of top classes
        also has the output ``label``. Only core operators are used. In float32 it equals :meth:`transform` on float32.

        Parameters
        ----------
        dtype
            Precision of the model.
        shape
            Declared shape of inputs and outputs. ``None`` leaves it open, which onnxruntime accepts and
            ``onnx.checker`` does not.

        Returns
        -------
        onnx.ModelProto
            The model; see :func:`calibrant.export.onnx.model.to_onnx`.
        """
        from calibrant.export.onnx.model import proven_model

        return proven_model(self.map, self.to_json(), dtype, shape)

    def export_onnx(
        self, path: str | PathLike[str], dtype: Precision = "float32", *, shape: Shape | None = ("n",)
    ) -> Proof:
        """Write :meth:`to_onnx` to ``path``; nothing is written if a result differs from :meth:`transform`.

        Parameters
        ----------
        path
            File to write.
        dtype, shape
            As in :meth:`to_onnx`.

        Returns
        -------
        Proof
            What was compared, and the largest difference.
        """
        from calibrant.export.onnx.model import write_model

        target = local_path(path)
        return write_model(self.to_onnx(dtype, shape=shape), target)

    # -------------------------------------------------------------------------------------------------------- storing

    def to_json(self) -> str:
        """The document as JSON text; numbers are preserved bit for bit."""
        from calibrant.export.documents import written

        return written(self._content)

    @classmethod
    def from_json(cls, text: str | bytes) -> Calibration:
        """Read a document; anything unexpected raises :class:`DocumentError`."""
        from calibrant.export.documents import read

        return cls(*read(text))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the document to ``path``, completely or not at all; :func:`calibrant.load` reads it."""
        from calibrant.export.files import write_whole

        write_whole(local_path(path), self.to_json() + "\n")

    def __str__(self) -> str:
        """Map, provenance and certificate."""
        lines, data = [repr(self.map)], self.provenance
        if data is not None:
            if data.status == "uncalibrated":
                lines.insert(0, UNCALIBRATED)
            of = data.score_type
            rows = f"rows of {len(self.classes)} classes ({of})" if self.classes else f"{of} scores"
            events = f" with {data.events:,.12g} events" if isinstance(data, Provenance) else ""
            lines.append(f"  {data.method} fitted to {data.n:,.12g} {rows}{events}")
        if self.certificate is not None:
            lines.append(f"  {self.certificate}")
        return "\n".join(lines)


def _score_and_groups(score: Any, by: Any, source: Any) -> tuple[str | None, Any]:
    """The column of scores in a frame, None for arrays; and the groups, from whichever argument they were passed as."""
    column = score if isinstance(score, str) else None
    given = [each for each in (None if column is not None else score, by, source) if each is not None]
    if len(given) > 1:
        raise InputError("by", "was passed twice", "pass the groups of the rows once")
    return column, by_name(given[0]) if given else None


def as_calibration(given: Any) -> Calibration:
    """A Calibration of one score, from itself, a map, a fitted calibrator or a calibrated classifier."""
    found = Calibration(given) if isinstance(given, Map) else unwrapped(given)
    if not isinstance(found, Calibration):
        raise InputError(
            "calibration",
            f"must be a Calibration, a map or a fitted calibrator, got {type(given).__name__}",
            "pass one of them, or IdentityMap() for the original probabilities",
        )
    if found.classes:
        raise InputError("calibration", f"must be for one score, but this one has {len(found.classes)} classes")
    return found


def load(path: str | PathLike[str]) -> Calibration:
    """Read a calibration that ``save`` wrote.

    Parameters
    ----------
    path : str or path
        A JSON document, written by ``save`` of a calibration or of a fitted calibrator, or by ``calibrant fit``.

    Returns
    -------
    Calibration
        The map with its provenance and its certificate, for one score or for several classes. Its probabilities equal
        those of the saved one bit for bit. Needs only numpy.

    Raises
    ------
    DocumentError
        If the file is not such a document, or its parts contradict each other. Reading runs no code from the file.

    Notes
    -----
    Guarantee: that of the stored certificate, if there is one.

    Examples
    --------
    >>> import tempfile
    >>> from calibrant.maps import LogitAffineMap
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Calibration(LogitAffineMap(0.8, -0.1)).save(f"{folder}/map.json")
    ...     loaded = load(f"{folder}/map.json")
    >>> loaded.transform([0.5]).round(3).tolist()
    [0.475]
    """
    return Calibration.from_json(local_path(path).read_bytes())
