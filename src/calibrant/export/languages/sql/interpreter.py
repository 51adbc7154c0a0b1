"""Interpreter of SQL text: parsed by sqlglot in its own dialect and evaluated in numpy.

For engines that are not available when a map is exported. It checks the text with an independent parser;
:func:`calibrant.verify` checks how a server executes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.export.errors import DocumentError
from calibrant.export.languages.sql.dialects import NO_NAN, dialect_named
from calibrant.export.languages.sql.engines import Engine, Groups, Scores
from calibrant.messages import Advice, InputError, Setting

Row = Mapping[str, NDArray[Any]]
"""Values of the columns and parameters in scope, by row. Text is an object array, with None for NULL."""

BY_NUMBER = re.compile(r"\\u([0-9a-f]{4})")
"""A character by its code point, as Spark reads it and sqlglot leaves it."""

NULL = np.uint64(0x7FF8_0000_0000_0DB0).view(np.float64)
"""A NaN that represents NULL; copying keeps its bits."""


def reader(dialect: str) -> Engine:
    """An engine that interprets the text of a dialect.

    Examples
    --------
    >>> reader("postgres").run('CASE WHEN "p" IS NULL THEN NULL ELSE "p" * 2.0 END', "p", [0.25, None])
    [0.5, None]
    """
    sqlglot, written = _package(dialect), dialect_named(dialect)
    nan = written.unusable != NO_NAN

    def select(items: Sequence[str], scores: Scores, groups: Groups) -> list[list[Any]]:
        reading = _Reading(sqlglot, dialect, strict=written.raises)
        rows = {name: np.array([given(score) for score in values]) for name, values in scores.items()}
        rows |= {name: np.array(values, dtype=object) for name, values in groups.items()}
        shape = next(iter(rows.values())).shape
        out = []
        for item in items:
            tree = sqlglot.parse_one(item, dialect=dialect).unalias()
            with np.errstate(all="ignore", over="raise" if written.raises else "ignore"):
                found = np.broadcast_to(reading.value(tree, rows), shape)
            out.append([None if null else value for value, null in zip(found.tolist(), _is_null(found), strict=True)])
        return out

    def given(score: float | None) -> float:
        return NULL if score is None or (not nan and score != score) else score

    return Engine(dialect, f"numpy (text parsed by sqlglot {sqlglot.__version__}, not run on {dialect})", select)


class _Reading:
    """Evaluates the nodes of a parsed expression; nodes that no map needs are errors."""

    def __init__(self, sqlglot: Any, dialect: str, *, strict: bool) -> None:
        """``strict``: overflow and underflow are errors."""
        exp, self.strict, self.by_number = sqlglot.exp, strict, dialect == "spark"
        double = sqlglot.transpile("CAST(1 AS DOUBLE PRECISION)", read="postgres", write=dialect)[0]
        self.double = sqlglot.parse_one(double, dialect=dialect).to
        self.array = exp.DataType(this=exp.DataType.Type.ARRAY, expressions=[self.double.copy()], nested=True)
        self.null, self.column, self.text = exp.Null, exp.Column, exp.DataType.TEXT_TYPES
        self.kinds: dict[type, Callable[[Any, Row], Any]] = {
            exp.Case: self.case,
            exp.In: self.within,
            exp.Not: lambda node, row: ~self.value(node.this, row),
            exp.Collate: lambda node, row: self.value(node.this, row),
            exp.Subquery: self.stage,
            exp.Paren: lambda node, row: self.value(node.this, row),
            exp.Column: lambda node, row: row[f"{node.table}\0{node.name}" if node.table else node.name],
            exp.Dot: lambda node, row: row[f"{node.this.name}\0{node.expression.name}"],
            exp.Struct: lambda node, row: {each.name: self.value(each.expression, row) for each in node.expressions},
            exp.Identifier: lambda node, row: row[node.name],
            exp.Null: lambda node, row: NULL,
            exp.Literal: self.literal,
            exp.ByteString: lambda node, row: node.name.replace("\\\\", "\\"),  # E'...' of PostgreSQL
            exp.Cast: self.cast,
            exp.TryCast: self.cast,
            exp.Array: lambda node, row: [self.value(each, row) for each in node.expressions],
            exp.RegexpSplit: lambda node, row: node.this.name.split(node.expression.name),
            exp.Bracket: self.bracket,
            exp.Reduce: self.reduce,
            exp.Transform: self.transform,
            exp.WidthBucket: self.width_bucket,
            exp.Or: lambda node, row: self.value(node.this, row) | self.value(node.expression, row),
            exp.And: lambda node, row: self.value(node.this, row) & self.value(node.expression, row),
            exp.Is: self.is_null,
            exp.IsNan: lambda node, row: np.isnan(self.value(node.this, row)),
            exp.IsInf: lambda node, row: np.isinf(self.value(node.this, row)),
            exp.Anonymous: self.is_finite,
            exp.EQ: lambda node, row: _equal(self.value(node.this, row), self.value(node.expression, row)),
            exp.NEQ: lambda node, row: ~_equal(self.value(node.this, row), self.value(node.expression, row)),
            exp.GTE: lambda node, row: self.value(node.this, row) >= self.value(node.expression, row),
            exp.GT: lambda node, row: self.value(node.this, row) > self.value(node.expression, row),
            exp.LTE: lambda node, row: self.value(node.this, row) <= self.value(node.expression, row),
            exp.LT: lambda node, row: self.value(node.this, row) < self.value(node.expression, row),
            exp.Between: self.between,
            exp.Neg: lambda node, row: -self.value(node.this, row),
            exp.Add: lambda node, row: self.value(node.this, row) + self.value(node.expression, row),
            exp.Sub: lambda node, row: self.value(node.this, row) - self.value(node.expression, row),
            exp.Mul: lambda node, row: self.scaled(np.multiply, node, row),
            exp.Div: lambda node, row: self.scaled(np.divide, node, row),
            exp.Ln: lambda node, row: np.log(self.value(node.this, row)),
            exp.Exp: lambda node, row: np.exp(self.value(node.this, row)),
            exp.Ceil: lambda node, row: np.ceil(self.value(node.this, row)),
            # NaN, as 0 * infinity gives it in a table, is the largest number to an engine.
            exp.Greatest: lambda node, row: reduce(np.maximum, self.all(node, row)),
            exp.Least: lambda node, row: reduce(np.fmin, self.all(node, row)),
        }

    def value(self, node: Any, row: Row) -> Any:
        if type(node) not in self.kinds:
            raise DocumentError("the text", f"contains {type(node).__name__}, which no map needs")
        return self.kinds[type(node)](node, row)

    def all(self, node: Any, row: Row) -> list[Any]:
        return [self.value(each, row) for each in (node.this, *node.expressions)]

    def literal(self, node: Any, row: Row) -> Any:
        if not node.is_string:
            return np.float64(node.name)
        return BY_NUMBER.sub(lambda found: chr(int(found[1], 16)), node.name) if self.by_number else node.name

    def is_null(self, node: Any, row: Row) -> Any:
        if type(node.expression) is not self.null:
            raise DocumentError("the text", "uses IS with something other than NULL, which no map needs")
        return _is_null(self.value(node.this, row)) != bool(node.args.get("negate"))

    def is_finite(self, node: Any, row: Row) -> Any:
        if node.name.lower() != "isfinite":
            raise DocumentError("the text", f"calls {node.name}, which no map needs")
        return np.isfinite(self.value(node.expressions[0], row))

    def between(self, node: Any, row: Row) -> Any:
        given = self.value(node.this, row)
        return (given >= self.value(node.args["low"], row)) & (given <= self.value(node.args["high"], row))

    def scaled(self, operation: Any, node: Any, row: Row) -> Any:
        left, right = self.value(node.this, row), self.value(node.expression, row)
        found = operation(left, right)
        if self.strict and np.any((found == 0.0) & (np.asarray(left) != 0.0) & np.isfinite(right) & (right != 0.0)):
            raise FloatingPointError("underflow encountered")
        return found

    def cast(self, node: Any, row: Row) -> Any:
        """Cast to double, to an array of doubles, or from text to text; maps need no other casts."""
        if node.to.this in self.text and np.asarray(given := self.value(node.this, row)).dtype == object:
            return given
        if node.to not in (self.double, self.array):
            raise DocumentError("the text", f"casts to {node.to.sql()}, which no map needs")
        given = self.value(node.this, row)
        if isinstance(given, str):
            given = given.strip("{}[]").split(",") if "," in given or given[:1] in "{[" else np.float64(given)
        return np.array(given, dtype=np.float64) if isinstance(given, list) else given

    def case(self, node: Any, row: Row) -> Any:
        """Evaluate each branch only on its own rows, as engines do."""
        key = None if node.this is None else self.value(node.this, row)
        left = np.arange(len(next(iter(row.values()))))
        out: NDArray[Any] = np.full(len(left), NULL)
        for branch in node.args["ifs"]:
            inside = {name: _rows(values, left) for name, values in row.items()}
            if key is None:
                hit = np.broadcast_to(np.asarray(self.value(branch.this, inside), dtype=bool), left.shape)
            else:
                hit = key[left] == self.value(branch.this, inside)
            out = self.filled(out, left[hit], branch.args["true"], row)
            left = left[~hit]
        return self.filled(out, left, node.args.get("default"), row)

    def filled(self, out: NDArray[Any], chosen: NDArray[np.intp], then: Any, row: Row) -> NDArray[Any]:
        if not len(chosen) or then is None:
            return out
        found = self.value(then, {name: _rows(values, chosen) for name, values in row.items()})
        if np.asarray(found).dtype.kind in "OU" and out.dtype != object:
            out = np.full(len(out), None, dtype=object)  # earlier text is already filled in
        elif out.dtype == object and type(then) is self.null:
            found = None
        out[chosen] = found
        return out

    def within(self, node: Any, row: Row) -> Any:
        listed = {self.value(each, row) for each in node.expressions}
        return np.array([value in listed for value in self.value(node.this, row)], dtype=bool)

    def stage(self, node: Any, row: Row) -> Any:
        """``(SELECT body FROM (SELECT value AS name, ...) AS row)``: how results get names."""
        outer = {name.rstrip("_"): value for name, value in node.this.args.items() if value}
        source = getattr(getattr(outer.get("from"), "this", None), "this", None)
        inner = {name: value for name, value in getattr(source, "args", {}).items() if value}
        offset = inner.pop("offset", None)
        if set(outer) != {"expressions", "from"} or set(inner) != {"expressions"} or len(outer["expressions"]) != 1:
            raise DocumentError("the text", "contains a SELECT that no map needs")
        if offset is not None and offset.expression.name != "0":
            raise DocumentError("the text", "skips rows, which no map needs")
        fields = {each.alias: self.value(each.this, row) for each in inner["expressions"]}
        return self.value(outer["expressions"][0], {**row, **_fields(outer["from"].this.alias, fields)})

    def bracket(self, node: Any, row: Row) -> Any:
        """Index of an array: in PostgreSQL sqlglot changes the index to start at 0, elsewhere it uses an offset.

        It leaves an index that is a name unchanged.
        """
        (index,) = (np.asarray(self.value(each, row), dtype=np.int64) for each in node.expressions)
        named = isinstance(node.expressions[0], self.column)
        return self.value(node.this, row)[index - (node.args.get("offset") or int(named))]

    def reduce(self, node: Any, row: Row) -> Any:
        function = node.args["merge"]
        names = [each.name for each in function.expressions]
        found = np.full(len(next(iter(row.values()))), self.value(node.args["initial"], row))
        for step in self.value(node.this, row):
            steps = np.full(len(found), step)
            found = self.value(function.this, {**row, names[0]: found, names[1]: steps})
        return found

    def transform(self, node: Any, row: Row) -> Any:
        """Transform an array of one element, or of one row: how results get names."""
        function = node.expression
        (name,) = (each.name for each in function.expressions)
        (element,) = self.value(node.this, row)
        named = _fields(name, element) if isinstance(element, dict) else {name: element}
        return np.array([self.value(function.this, {**row, **named})])

    def width_bucket(self, node: Any, row: Row) -> Any:
        return np.searchsorted(self.value(node.args["threshold"], row), self.value(node.this, row), side="right")


def _fields(row: str, values: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Fields of a row, under names that no column can have."""
    return {f"{row}\0{name}": value for name, value in values.items()}


def _rows(values: NDArray[Any], chosen: NDArray[np.intp]) -> NDArray[Any]:
    return values[chosen] if np.ndim(values) else values


def _is_null(values: Any) -> NDArray[np.bool_]:
    if np.asarray(values).dtype == object:
        return np.array([value is None for value in values], dtype=bool)
    return np.asarray(np.ascontiguousarray(values).view(np.uint64) == NULL.view(np.uint64))


def _equal(left: Any, right: Any) -> Any:
    """NaN equals NaN in the dialects that compare with it."""
    return (left == right) | (np.isnan(left) & np.isnan(right))


def _package(dialect: str) -> Any:
    try:
        import sqlglot
    except ImportError:
        raise InputError(
            Setting("dialect", dialect), "cannot be checked without sqlglot", Advice.CONNECT_OR_INSTALL
        ) from None
    return sqlglot
