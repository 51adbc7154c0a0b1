"""Methods of a calibration that export its map: SQL, Python and C source, ONNX and torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

from calibrant.guarantees.content import Content
from calibrant.guarantees.provenance import MulticlassProvenance
from calibrant.maps import Map
from calibrant.messages import InputError

if TYPE_CHECKING:
    import onnx

    from calibrant.export.languages.onnx_graph import Precision, Shape
    from calibrant.export.onnx.network import Network
    from calibrant.export.proof import Proof

ScoreColumns = Mapping[str, str] | Sequence[str] | None
"""Names of the columns of scores in a table: by input of the map, in their order, or None for the same names."""


BY_SEGMENT = (
    "SegmentCalibrator", "MulticlassSegmentCalibrator", "CalibrationTree", "ProbabilityCalibrationTree",
)  # fmt: skip
"""The methods whose maps may or may not need groups or features, depending on the fitted rows."""


class Exportable:
    """A map that can be exported; a :class:`~calibrant.Calibration` adds how it is applied and stored.

    Each method imports its part of :mod:`calibrant.export`, so that reading and applying a map loads no exports.
    """

    map: Map
    provenance: Any

    @property
    def _content(self) -> Content:
        raise NotImplementedError

    @property
    def _bounded(self) -> bool:
        return self._content.bounded

    def to_json(self) -> str:
        """The document that the exports carry."""
        raise NotImplementedError

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
            One expression, or one by output. For a map of many segments, :meth:`export_sql` with ``table`` is shorter.
            A map of top classes also returns the class of each rank, as ``"top 1 label"``. NULL or NaN in any score of
            a row gives NULL, and so does a number that is not a probability, where scores are probabilities (rounding,
            up to 1e-6, is clipped). See :func:`calibrant.export.sql.expressions.to_sql`.
        """
        from calibrant.export.sql.expressions import to_sql  # here, so that reading a document loads no dialects

        return to_sql(self.map, self._as_at_fit(columns), dialect, self._needed(by), bounded=self._bounded)

    def export_sql(
        self,
        path: str | PathLike[str],
        columns: str | ScoreColumns = None,
        dialect: str = "duckdb",
        *,
        connection: Any = None,
        by: Mapping[str, str] | None = None,
        table: str | PathLike[str] | None = None,
        rows: str | None = None,
        dbt: bool = False,
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
        table
            For a map by segment: a second file, ``.csv``, ``.parquet`` or ``.sql`` (INSERT statements), for a table
            with the slope and intercept of each segment. ``path`` then gets a SELECT that joins this table, under the
            name of the file, to the table ``rows``, and adds the column ``calibrated``. Its length does not grow with
            the segments. The proof is of the formula, on at most 100 segments of a column; :func:`calibrant.verify`
            does not read these files. If a fit by segment found no segment that differs, the table has no rows.
        rows
            With ``table``: name of the table of rows; by default ``scored``.
        dbt
            With ``table``: whether to write a model and a seed of dbt, with the types of the seed in a ``.yml`` file.

        Returns
        -------
        Proof
            What was compared, and the largest difference.
        """
        from calibrant.arrays.paths import local_path
        from calibrant.export.files import write_whole
        from calibrant.export.sql.file import SqlFile

        if table is not None:
            from calibrant.export.sql.joins import export_join

            score = columns if isinstance(columns, str) else "score"
            name = "scored" if rows is None else rows
            given = {"by": self._needed(by), "connection": connection, "dbt": dbt, "may_be_empty": ignores_groups(self)}
            given["bounded"] = self._bounded
            return export_join(self.map, self.to_json(), path, score, dialect, table, name, **given)
        if rows is not None or dbt:
            option = "dbt" if rows is None else "rows"
            raise InputError(option, "needs a table of parameters", "pass table='seeds/calibration_segments.csv'")
        target = local_path(path)
        names, groups = self._as_at_fit(columns), self._needed(by)
        file = SqlFile.proven(self.map, self.to_json(), names, dialect, groups, connection, bounded=self._bounded)
        write_whole(target, str(file))
        return file.proof

    def _needed(self, by: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """Names of the columns of groups; none if the map ignores groups."""
        return None if ignores_groups(self) else by

    def _as_at_fit(self, columns: str | ScoreColumns) -> str | ScoreColumns:
        """Columns as passed; otherwise their names in the frame of the fit."""
        if columns is None and isinstance(self.provenance, MulticlassProvenance):
            return self.provenance.columns or None
        return columns

    def to_python(self) -> str:
        """The map of one score as the source of a Python function ``calibrate``, which needs no package.

        ``calibrate(score)``, or ``calibrate(score, region)`` for a map by group, with one argument for each of
        ``map.columns``. None and NaN give NaN, and so do scores that :meth:`transform` refuses: numbers outside [0, 1]
        if scores are probabilities, and infinities.
        :meth:`export_source` writes it after a comparison with :meth:`transform`.

        Returns
        -------
        str
            A Python module.

        Examples
        --------
        >>> from calibrant import Calibration
        >>> from calibrant.maps import StepMap
        >>> print(Calibration(StepMap([0.5], [0.1, 0.8])).to_python().split("def ")[1])
        calibrate(score):
            if score is None or type(score).__name__ == "NAType" or score != score:
                return nan
            x = float(score)
            if not -1e-06 <= x <= 1.000001:
                return nan
            j = bisect_right(knots_1, x)
            x = values_1[j]
            return x
        """
        from calibrant.export.source import source_of

        return source_of(self.map, ".py", bounded=self._bounded)

    def to_c(self) -> str:
        """The map of one score as the source of a C function, ``double calibrate(double score)``.

        It is C99 and allocates nothing. Groups are UTF-8 text, ``const char *``, and NULL for a missing one.

        Returns
        -------
        str
            A C file; see :meth:`to_python` for what it does, and :meth:`export_source`.
        """
        from calibrant.export.source import source_of

        return source_of(self.map, ".c", bounded=self._bounded)

    def export_source(self, path: str | PathLike[str]) -> Proof:
        """Write :meth:`to_python` to a ``.py`` file, or :meth:`to_c` to a ``.c`` file, with a proof in a comment.

        Before it is written, the source is run by Python, or compiled by the C compiler at hand, on the scores of
        :meth:`export_sql`. If a result differs from :meth:`transform`, nothing is written
        (:class:`calibrant.ExportMismatchError`).

        Parameters
        ----------
        path
            File to write.

        Returns
        -------
        Proof
            What was compared, and the largest difference.
        """
        from calibrant.arrays.paths import local_path
        from calibrant.export.files import write_whole
        from calibrant.export.source import language_of, proven_source

        target = local_path(path)
        text, proof = proven_source(self.map, language_of(target), self._bounded)
        write_whole(target, text)
        return proof

    def to_onnx(
        self,
        dtype: Precision | None = None,
        *,
        shape: Shape | None = ("n",),
        opset: int | None = None,
        ir_version: int | None = None,
        network: Network | None = None,
        output: str | None = None,
    ) -> onnx.ModelProto:
        """The map as an ONNX model, checked in onnxruntime, with the proof in its metadata.

        The input is ``score`` and the output ``calibrated``; groups need a text input for each column and a
        LabelEncoder. A multiclass map has the input ``scores``, a matrix with one row per case; a map of top classes
        also has the output ``label``. Only core operators are used. In float32 it equals :meth:`transform` on float32.

        Parameters
        ----------
        dtype
            Precision of the model, by default ``"float32"``.
        shape
            Declared shape of inputs and outputs. ``None`` leaves it open, which onnxruntime accepts and
            ``onnx.checker`` does not.
        opset, ir_version
            Versions of the operator set and of the format, by default 17 and 8.
        network
            An ``onnx.ModelProto`` of the model that makes the scores, or the path of its file. The result is then this
            network followed by the map, with the network's own versions, precision and shape, so the arguments above
            are left out. Its outputs stay, and ``calibrated`` is added. A network of an operator set before 13 is
            converted. A map of one score reads an output of one column, or the second of two.
        output
            Name of the network's output that the map reads, if there are several: what the map was fitted to,
            probabilities or logits.

        Returns
        -------
        onnx.ModelProto
            The model; see :func:`calibrant.export.onnx.model.to_onnx`.
        """
        if network is None:
            from calibrant.export.onnx.model import proven_model

            if output is not None:
                raise InputError("output", "names an output of a network", "pass the network too, or leave it out")
            return proven_model(
                self.map, self.to_json(), dtype or "float32", shape, opset, ir_version, bounded=self._bounded
            )
        from calibrant.export.onnx.network import behind

        own = {"dtype": dtype, "shape": None if shape == ("n",) else shape, "opset": opset, "ir_version": ir_version}
        for name, value in own.items():
            if value is not None:
                raise InputError(name, "cannot be combined with a network, which has its own", "leave it out")
        return behind(self.map, self.to_json(), network, output, bounded=self._bounded)

    def export_onnx(
        self,
        path: str | PathLike[str],
        dtype: Precision | None = None,
        *,
        shape: Shape | None = ("n",),
        opset: int | None = None,
        ir_version: int | None = None,
        network: Network | None = None,
        output: str | None = None,
    ) -> Proof:
        """Write :meth:`to_onnx` to ``path``; nothing is written if a result differs from :meth:`transform`.

        Parameters
        ----------
        path
            File to write.
        dtype, shape, opset, ir_version, network, output
            As in :meth:`to_onnx`.

        Returns
        -------
        Proof
            What was compared, and the largest difference.
        """
        from calibrant.arrays.paths import local_path
        from calibrant.export.onnx.model import write_model

        target = local_path(path)
        versions: dict[str, Any] = {"opset": opset, "ir_version": ir_version}
        return write_model(self.to_onnx(dtype, shape=shape, network=network, output=output, **versions), target)

    def to_torch(self) -> Any:
        """The map as a ``torch.nn.Module`` without parameters to train, checked against :meth:`transform`.

        The input is a tensor of scores, or rows of class scores for several classes; the output has its type, and
        float32 for half precision. Gradients pass through curves, lines and softmax; those of steps are zero. Numbers
        are buffers in double precision, also after ``module.half()``; ``module.to(device)`` moves them. Maps by group,
        on a simplex and of a taxonomy are refused: export them with :meth:`to_onnx`.

        Returns
        -------
        torch.nn.Module
            A module from scores to probabilities. For a map of top classes, ``module.labels(scores)`` are the columns
            of the classes.

        Notes
        -----
        Guarantee: that of the certificate of the map, up to the rounding of probabilities to float32.
        """
        from calibrant.export.torch_modules import to_torch

        return to_torch(self.map, bounded=self._bounded)


def ignores_groups(calibration: Exportable) -> bool:
    """Whether groups may be passed without effect: no segment was found to differ, so the map needs none."""
    fitted = calibration.provenance
    return not calibration.map.columns and fitted is not None and fitted.method in BY_SEGMENT
