"""A fitted map of one score with what is known and promised about it, and how documents of either sort are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, overload

from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import InputError, Kind, check_scores
from calibrant.arrays.columns import refuse_names
from calibrant.arrays.paths import local_path
from calibrant.export.class_document import ClassCalibration
from calibrant.export.coding import OTHERS, decode, parse, written
from calibrant.export.errors import DocumentError
from calibrant.export.files import write_whole
from calibrant.export.sql.scores import to_sql
from calibrant.guarantees.auditing import follows
from calibrant.guarantees.certificates import Certificate, Refusal
from calibrant.guarantees.class_promise import ClassPromise
from calibrant.guarantees.provenance import UNCALIBRATED, Provenance
from calibrant.maps import CLASS_KINDS, KINDS, ClassMap, Columns, Map, StepMap
from calibrant.maps.base import by_name, needed_columns

if TYPE_CHECKING:
    import onnx

    from calibrant.export.onnx.scores import Precision, Shape
    from calibrant.export.proof import Proof

BY_SEGMENT = "SegmentCalibrator"
"""The method whose maps may or may not need groups, as its rows had it."""


@dataclass(frozen=True)
class Calibration:
    """A fitted map with what is known and promised about it; what :func:`load` returns. Needs numpy alone.

    Examples
    --------
    >>> from calibrant.maps import LogitAffineMap
    >>> text = Calibration(LogitAffineMap(0.8, -0.1)).to_json()
    >>> Calibration.from_json(text).transform([0.5]).round(3).tolist()
    [0.475]
    """

    map: Map
    provenance: Provenance | None = None
    certificate: Certificate | Refusal | None = None

    parts: ClassVar[dict[str, tuple[str, ...]]] = {"provenance": ("provenance",), "certificate": ("certificate",)}
    """What its document may hold beside the map."""

    def __post_init__(self) -> None:
        """Refuse what is no map; and a certificate, which speaks of one step map, with another."""
        if not isinstance(self.map, Map):
            fix = "forecaster.freeze()" if hasattr(self.map, "freeze") else "one of calibrant.maps, or calibrator.map_"
            raise InputError(f"map must be a fixed map, not {type(self.map).__name__}: pass {fix}")
        if isinstance(self.map, ClassMap):
            raise InputError("map must be of one score, and this one is of several classes: use ClassCalibration(map)")
        promise = self.certificate
        if isinstance(promise, Certificate) and (
            StepMap(promise.knots, promise.outputs).merged() != self.map or promise.kind != self.kind
        ):
            raise ValueError("the certificate is not about this map")
        if isinstance(promise, Certificate) and self.provenance is not None and not promise.rests_on(self.provenance):
            raise ValueError("rows as the provenance describes them cannot carry this certificate")

    @property
    def kind(self) -> Kind:
        """What the scores are that it takes: those it was fitted on, else probabilities."""
        return "probability" if self.provenance is None else self.provenance.kind

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
        """
        column, groups = _score_and_groups(score, by, source)
        if column is not None:
            from calibrant.engine.columns import apply  # the one step up: a stored map must do what a calibrator does

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
        raise InputError("a frame has its groups in it: leave by out, or pass {'name in the map': 'name in the frame'}")

    def to_sql(self, column: str, dialect: str = "duckdb", *, by: Mapping[str, str] | None = None) -> str:
        """The map as one SQL expression over ``column``; NULL and NaN give NULL.

        Dialects tested on the engine itself: ``"duckdb"``, ``"postgres"``, ``"spark"``, ``"sqlite"``. Generated, not
        executed: ``"bigquery"``, ``"clickhouse"``, ``"databricks"``, ``"mysql"``, ``"redshift"``, ``"snowflake"``,
        ``"trino"``, ``"tsql"``. Columns of groups are called as in the map; ``by={"region": "area_code"}`` renames. See
        :func:`calibrant.export.sql.scores.to_sql`.
        """
        return to_sql(self.map, column, dialect, by)

    def export_sql(
        self,
        path: str | PathLike[str],
        column: str,
        dialect: str = "duckdb",
        *,
        connection: Any = None,
        by: Mapping[str, str] | None = None,
    ) -> Proof:
        """Write the expression to ``path`` with the proof that it gives what :meth:`transform` gives.

        The text is run on edge values, beside every knot and on 10^5 random scores before it is written, and is not
        written if a result is off (:class:`calibrant.ParityError`). It runs on ``connection`` (DuckDB, sqlite3,
        PostgreSQL, Spark), else on the engine at hand: DuckDB and SQLite in memory, and for other dialects numpy, with
        the text as sqlglot reads it. :func:`calibrant.verify` repeats the proof on any engine.
        """
        from calibrant.export.sql.file import write_sql  # here, so that reading a document loads no engine

        return write_sql(self.map, self.to_json(), local_path(path), column, dialect, connection, by)

    def to_onnx(self, dtype: Precision = "float32", *, shape: Shape | None = ("n",)) -> onnx.ModelProto:
        """The map as an ONNX model from ``score`` to ``calibrated``, checked in onnxruntime, with the proof inside.

        Core operators only; for groups, an input of text for each column and a LabelEncoder. In float32 it equals
        :meth:`transform` on float32. ``shape`` declares the sizes of all; ``None`` leaves them open, which onnxruntime
        takes and ``onnx.checker`` does not. See
        :func:`calibrant.export.onnx.scores.to_onnx`.
        """
        from calibrant.export.sql.file import proven_model

        return proven_model(self.map, self.to_json(), dtype, shape)

    def export_onnx(
        self, path: str | PathLike[str], dtype: Precision = "float32", *, shape: Shape | None = ("n",)
    ) -> Proof:
        """Write :meth:`to_onnx` to ``path``; it is not written if a result is off."""
        from calibrant.export.sql.file import write_model

        target = local_path(path)
        return write_model(self.to_onnx(dtype, shape=shape), target)

    def to_json(self) -> str:
        """The document as text; numbers survive bit for bit."""
        return written(self.map, self.certificate, self.provenance)

    @classmethod
    def from_json(cls, text: str | bytes) -> Calibration:
        """Read a document; anything unexpected raises :class:`DocumentError`."""
        found = read(text)
        if not isinstance(found, cls):
            raise DocumentError("the document holds a map of several classes: read it with calibrant.load")
        return found

    def save(self, path: str | PathLike[str]) -> None:
        """Write the document to ``path``, as a whole or not at all."""
        write_whole(local_path(path), self.to_json() + "\n")

    def __str__(self) -> str:
        """Map, origin and promise."""
        lines = [repr(self.map)]
        if self.provenance is not None and self.provenance.state == "uncalibrated":
            lines.insert(0, UNCALIBRATED)
        if self.provenance is not None:
            data = self.provenance
            lines.append(f"  {data.method} fitted to {data.n:,.12g} {data.kind} scores with {data.events:,.12g} events")
        if self.certificate is not None:
            lines.append(f"  {self.certificate}")
        return "\n".join(lines)


def _score_and_groups(score: Any, by: Any, source: Any) -> tuple[str | None, Any]:
    """The column of scores in a frame, None for arrays; and the groups, in whichever place they were given."""
    column = score if isinstance(score, str) else None
    given = [each for each in (None if column is not None else score, by, source) if each is not None]
    if len(given) > 1:
        raise InputError("the groups of the rows were given twice: pass them once, as by")
    return column, by_name(given[0]) if given else None


def as_calibration(given: Any) -> Calibration:
    """A calibration, a bare map, a fitted calibrator or a classifier that holds one, as a calibration."""
    if isinstance(given, Map):
        return Calibration(given)
    found = getattr(getattr(given, "calibrator_", given), "calibration_", given)
    if isinstance(found, Calibration):
        return found
    raise InputError(
        f"a Calibration, a map or a fitted calibrator is needed, got {type(given).__name__}: pass one of them, or "
        "IdentityMap() for probabilities as they are"
    )


def load(path: str | PathLike[str]) -> Any:
    """Read what ``save`` wrote: a :class:`Calibration`, or a :class:`ClassCalibration` of several classes."""
    return read(local_path(path).read_bytes())


def read(text: str | bytes) -> Calibration | ClassCalibration:
    """Read a document of either sort; anything unexpected raises :class:`DocumentError`."""
    body = parse(text)
    version = body.pop("format", None)
    if type(version) is not int or version not in _READERS:
        raise DocumentError(f"format {version!r} is not known to this version, which reads {sorted(_READERS)}")
    try:
        return _READERS[version](body)
    except DocumentError:
        raise
    except (ValueError, TypeError, OverflowError, KeyError, RecursionError) as problem:
        raise DocumentError(f"the document does not describe a calibration: {problem}") from None


def _read_1(body: dict[str, Any]) -> Calibration | ClassCalibration:
    if set(body) != {"map", "certificate", "provenance"}:
        raise DocumentError("a document holds exactly format, map, certificate and provenance")
    map_ = decode(body["map"], KINDS | CLASS_KINDS)
    sort: Any = ClassCalibration if isinstance(map_, ClassMap) else Calibration
    found: list[Any] = []
    for part in ("provenance", "certificate"):
        names = (*sort.parts[part], "refusal") if part == "certificate" else sort.parts[part]
        allowed = {name: OTHERS[name] for name in names}
        found.append(None if body[part] is None else decode(body[part], allowed))
    calibration: Calibration | ClassCalibration = sort(map_, *found)
    if isinstance(calibration.certificate, Certificate | ClassPromise) and not follows(calibration.certificate):
        raise DocumentError("the intervals of the certificate do not follow from its counts at its alpha")
    return calibration


_READERS = {1: _read_1}
