"""A fitted map with what is known and promised about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Kind, check_scores
from calibrant.arrays.columns import refuse_names
from calibrant.arrays.kinds import ClassKind
from calibrant.arrays.paths import local_path
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.content import Content
from calibrant.guarantees.provenance import UNCALIBRATED, ClassProvenance, Provenance
from calibrant.guarantees.refusal import Refusal
from calibrant.maps import ClassMap, Columns, Map, PathMap, TopMap
from calibrant.maps.base import by_name, needed_columns, unwrapped
from calibrant.maps.classes import top_labels
from calibrant.messages import Advice, InputError

if TYPE_CHECKING:
    import onnx

    from calibrant.export.onnx.graph import Precision, Shape
    from calibrant.export.proof import Proof
    from calibrant.maps.paths import PathForecast

BY_SEGMENT = "SegmentCalibrator"
"""The method whose maps may or may not need groups, as its rows had it."""

ScoreColumns = Mapping[str, str] | Sequence[str] | None
"""What the columns of scores are called in a table: by input of the map, in their order, or None for the same names."""


@dataclass(frozen=True)
class Calibration:
    """A fitted map with what is known and promised about it; what :func:`load` returns. Needs numpy alone.

    The map is one of a score, or one of a row of class scores.

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
    """A :class:`Provenance`, of several classes a :class:`ClassProvenance`."""
    certificate: Certificate | Refusal | None = None

    def __post_init__(self) -> None:
        """Check that this is a map, and that certificate and provenance belong to it."""
        if not isinstance(self.map, Map):
            fix = "forecaster.freeze()" if hasattr(self.map, "freeze") else "one of calibrant.maps, or calibrator.map_"
            raise InputError("map", f"must be a fixed map, not {type(self.map).__name__}", f"pass {fix}")
        self._content.check()

    @property
    def _content(self) -> Content:
        return Content(self.map, self.provenance, self.certificate)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the columns; none for a map of one score."""
        return self.map.classes if isinstance(self.map, ClassMap) else ()

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes in the order of the columns, as they were written in the labels of the fit."""
        written = bool(self.classes) and self.provenance is not None
        return np.array(self.provenance.as_written(self.classes) if written else self.classes)

    @property
    def kind(self) -> Any:
        """What the scores are that it takes: those it was fitted on, else what the map says, else probabilities."""
        kind: Kind | ClassKind = "probability"
        if self.provenance is not None:
            kind = self.provenance.kind
        elif isinstance(self.map, ClassMap):
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
        """Calibrated probabilities, as the calibrator gave them; float32 in gives float32 out, NaN gives NaN.

        A map by group needs the groups of the rows, ``by``: the one column, or columns by name; they may also stand in
        second place, and ``source`` is another word for them. With the name of a column, ``scores`` is a frame that has
        its groups in it, and what comes back is the same kind of frame with the column ``name`` in addition; see
        :func:`calibrant.engine.apply`. ``by={"region": "area_code"}`` then says what columns are called there.

        A map of several classes takes a matrix or a frame with a column for each class, found by name, and gives one
        column for each of ``map.outputs``, in the form that came; a row with a missing score has no probabilities.
        """
        column, groups = _score_and_groups(score, by, source)
        if self.classes:
            if column is not None or groups is not None:
                raise InputError("scores", "are rows of several classes, which need no other column", "pass them alone")
            matrix, rebuild = self._checked_rows(scores)
            return rebuild(self.map.apply(matrix), self.map.outputs)
        if column is not None:
            from calibrant.engine.columns import apply  # here, so that arrays load no engine

            return apply(self, scores, column, name=name, by=self._renamed(groups))
        refuse_names("transform", by=groups)
        if groups is not None and self._may_need_none:
            groups = None
        return self.map.apply(check_scores(scores, self.kind), needed_columns(self.map, groups, "by"))

    @property
    def _may_need_none(self) -> bool:
        """Whether groups are left alone: segments that were not found to differ leave a map of the score."""
        return not self.map.columns and self.provenance is not None and self.provenance.method == BY_SEGMENT

    def _renamed(self, by: Any) -> dict[str, str]:
        """What the columns of groups are called in a frame, where not as in the map."""
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
        """A checked matrix of class scores, and how to give results the form that came."""
        from calibrant.arrays.multiclass.rows import check_class_scores  # here: maps of one score do without

        columns = self.provenance.columns if isinstance(self.provenance, ClassProvenance) else ()
        return check_class_scores(scores, self._class_map.classes, self.kind, columns)

    @property
    def _class_map(self) -> ClassMap:
        if not isinstance(self.map, ClassMap):
            raise InputError("map", "is of one score, and this needs one of several classes", "use transform")
        return self.map

    def predict_proba(self, scores: Any) -> NDArray[Any]:
        """Probabilities of several classes as :meth:`transform` gives them, always as an array."""
        return self.map.apply(self._checked_rows(scores)[0])

    def predict(self, scores: Any) -> NDArray[Any]:
        """The class that is calibrated as the most likely one, as written in the labels of the fit.

        A map of top classes keeps the model's own.
        """
        return np.asarray(self.classes_[self.predict_codes(scores)])

    def predict_codes(self, scores: Any) -> NDArray[np.intp]:
        """Like :meth:`predict`, as places among ``classes``."""
        matrix, _ = self._checked_rows(scores)
        if np.isnan(matrix[:, 0]).any():
            row = int(np.isnan(matrix[:, 0]).argmax())
            raise InputError("scores", f"lack one in row {row}, which has no most likely class", Advice.DROP_ROWS)
        if isinstance(self.map, TopMap | PathMap):
            return self.map.labels(matrix)[:, 0]
        return top_labels(self.map.apply(matrix), 1)[:, 0]

    def forecast(self, scores: Any) -> PathForecast:
        """Probabilities along the path of each row's predicted leaf, for a map of a taxonomy."""
        if not isinstance(self.map, PathMap):
            raise InputError(
                "forecast", f"needs a map of a taxonomy, and this is a {type(self.map).__name__}", "use transform"
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

        ``columns`` is the column of scores, or those of several classes, by class or in the order of the classes; None
        if they are called as the classes. A map of top classes also names the class of each rank, as ``"top 1 label"``.
        NULL or NaN in any score of a row gives NULL. Columns of groups are called as in the map;
        ``by={"region": "area_code"}`` renames.

        docs/ship.md lists the dialects. See :func:`calibrant.export.sql.expressions.to_sql`.
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
        """Write what :meth:`to_sql` gives with the proof that it gives what :meth:`transform` gives.

        Several expressions are written as columns for a SELECT. The text is run on edge values, beside every knot and
        on 10^5 random scores (10^4 random rows, corners and ties of several classes) before it is written, and is not
        written if a result is off (:class:`calibrant.ParityError`). It runs on ``connection`` (DuckDB, sqlite3,
        PostgreSQL, Spark), else on the engine at hand: DuckDB and SQLite in memory, and for other dialects numpy, with
        the text as sqlglot reads it. :func:`calibrant.verify` repeats the proof on any engine.
        """
        from calibrant.export.files import write_whole
        from calibrant.export.sql.file import SqlFile

        target = local_path(path)
        file = SqlFile.proven(self.map, self.to_json(), self._as_at_fit(columns), dialect, by, connection)
        write_whole(target, str(file))
        return file.proof

    def _as_at_fit(self, columns: str | ScoreColumns) -> str | ScoreColumns:
        """Columns as they were given; else as they were called in the frame of the fit."""
        if columns is None and isinstance(self.provenance, ClassProvenance):
            return self.provenance.columns or None
        return columns

    def to_onnx(self, dtype: Precision = "float32", *, shape: Shape | None = ("n",)) -> onnx.ModelProto:
        """The map as an ONNX model, checked in onnxruntime, with the proof inside.

        It goes from ``score`` to ``calibrated``; for groups it has an input of text for each column and a LabelEncoder.
        ``shape`` declares the sizes of all; ``None`` leaves them open, which onnxruntime takes and ``onnx.checker``
        does not. A map of several classes goes from ``scores`` to ``calibrated``, matrices with one row per case, and
        one of top classes also gives ``label``. Core operators only. In float32 it equals :meth:`transform` on float32.
        See :func:`calibrant.export.onnx.model.to_onnx`.
        """
        from calibrant.export.onnx.model import proven_model

        return proven_model(self.map, self.to_json(), dtype, shape)

    def export_onnx(
        self, path: str | PathLike[str], dtype: Precision = "float32", *, shape: Shape | None = ("n",)
    ) -> Proof:
        """Write :meth:`to_onnx` to ``path``; it is not written if a result is off."""
        from calibrant.export.onnx.model import write_model

        target = local_path(path)
        return write_model(self.to_onnx(dtype, shape=shape), target)

    # -------------------------------------------------------------------------------------------------------- storing

    def to_json(self) -> str:
        """The document as text; numbers survive bit for bit."""
        from calibrant.export.documents import written

        return written(self._content)

    @classmethod
    def from_json(cls, text: str | bytes) -> Calibration:
        """Read a document; anything unexpected raises :class:`DocumentError`."""
        from calibrant.export.documents import read

        return cls(*read(text))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the document to ``path``, as a whole or not at all; :func:`calibrant.load` reads it back."""
        from calibrant.export.files import write_whole

        write_whole(local_path(path), self.to_json() + "\n")

    def __str__(self) -> str:
        """Map, origin and promise."""
        lines, data = [repr(self.map)], self.provenance
        if data is not None:
            if data.state == "uncalibrated":
                lines.insert(0, UNCALIBRATED)
            rows = f"rows of {len(self.classes)} classes ({data.kind})" if self.classes else f"{data.kind} scores"
            events = f" with {data.events:,.12g} events" if isinstance(data, Provenance) else ""
            lines.append(f"  {data.method} fitted to {data.n:,.12g} {rows}{events}")
        if self.certificate is not None:
            lines.append(f"  {self.certificate}")
        return "\n".join(lines)


def _score_and_groups(score: Any, by: Any, source: Any) -> tuple[str | None, Any]:
    """The column of scores in a frame, None for arrays; and the groups, in whichever place they were given."""
    column = score if isinstance(score, str) else None
    given = [each for each in (None if column is not None else score, by, source) if each is not None]
    if len(given) > 1:
        raise InputError("by", "was given twice", "pass the groups of the rows once")
    return column, by_name(given[0]) if given else None


def as_calibration(given: Any) -> Calibration:
    """A calibration of one score, a bare map, a fitted calibrator or a classifier that holds one, as a calibration."""
    found = Calibration(given) if isinstance(given, Map) else unwrapped(given)
    if not isinstance(found, Calibration):
        raise InputError(
            "calibration",
            f"must be a Calibration, a map or a fitted calibrator, got {type(given).__name__}",
            "pass one of them, or IdentityMap() for probabilities as they are",
        )
    if found.classes:
        raise InputError("calibration", f"must be of one score, and this one is of {len(found.classes)} classes")
    return found


def load(path: str | PathLike[str]) -> Calibration:
    """Read what ``save`` wrote."""
    return Calibration.from_json(local_path(path).read_bytes())
