"""SQL text read back: parsed by sqlglot in its own dialect and evaluated in numpy.

For engines that are not at hand when a map is exported. It checks what the text says, by a parser that we did not
write; how a server carries it out is for :func:`calibrant.verify` to see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import InputError
from calibrant.export.dialects import NO_NAN, dialect_named
from calibrant.export.running import Engine, Values

Row = Mapping[str, NDArray[Any]]
"""Values of the names in scope, by row: of the column and of parameters."""

NULL = np.uint64(0x7FF8_0000_0000_0DB0).view(np.float64)
"""A NaN that stands for NULL; copying keeps its bits."""


def reader(dialect: str) -> Engine:
    """An engine that reads the text of a dialect.

    Examples
    --------
    >>> reader("postgres").run('CASE WHEN "p" IS NULL THEN NULL ELSE "p" * 2.0 END', "p", [0.25, None])
    [0.5, None]
    """
    sqlglot, written = _package(dialect), dialect_named(dialect)
    nan = written.unusable != NO_NAN

    def run(expression: str, column: str, scores: Values) -> Values:
        tree = sqlglot.parse_one(expression, dialect=dialect)
        given = np.array([NULL if score is None or (not nan and score != score) else score for score in scores])
        reading = _Reading(sqlglot, dialect, strict=written.raises)
        with np.errstate(all="ignore", over="raise" if written.raises else "ignore"):
            found = np.broadcast_to(reading.value(tree, {column: given}), given.shape)
        return [None if null else value for value, null in zip(found.tolist(), _is_null(found), strict=True)]

    return Engine(dialect, f"numpy (the text as sqlglot {sqlglot.__version__} reads it, not run on {dialect})", run)


class _Reading:
    """Values of the nodes of a parsed expression; whatever a map does not need is refused."""

    def __init__(self, sqlglot: Any, dialect: str, *, strict: bool) -> None:
        """``strict``: overflow and underflow are errors."""
        exp, self.strict = sqlglot.exp, strict
        double = sqlglot.transpile("CAST(1 AS DOUBLE PRECISION)", read="postgres", write=dialect)[0]
        self.double = sqlglot.parse_one(double, dialect=dialect).to
        self.array = exp.DataType(this=exp.DataType.Type.ARRAY, expressions=[self.double.copy()], nested=True)
        self.null = exp.Null
        self.kinds: dict[type, Callable[[Any, Row], Any]] = {
            exp.Case: self.case,
            exp.Paren: lambda node, row: self.value(node.this, row),
            exp.Column: lambda node, row: row[node.name],
            exp.Identifier: lambda node, row: row[node.name],
            exp.Null: lambda node, row: NULL,
            exp.Literal: self.literal,
            exp.Cast: self.cast,
            exp.TryCast: self.cast,
            exp.Array: lambda node, row: [self.value(each, row) for each in node.expressions],
            exp.RegexpSplit: lambda node, row: node.this.name.split(node.expression.name),
            exp.Bracket: self.bracket,
            exp.Reduce: self.reduce,
            exp.Transform: self.transform,
            exp.WidthBucket: self.width_bucket,
            exp.Or: lambda node, row: self.value(node.this, row) | self.value(node.expression, row),
            exp.Is: self.is_null,
            exp.IsNan: lambda node, row: np.isnan(self.value(node.this, row)),
            exp.EQ: lambda node, row: _equal(self.value(node.this, row), self.value(node.expression, row)),
            exp.GTE: lambda node, row: self.value(node.this, row) >= self.value(node.expression, row),
            exp.Neg: lambda node, row: -self.value(node.this, row),
            exp.Add: lambda node, row: self.value(node.this, row) + self.value(node.expression, row),
            exp.Sub: lambda node, row: self.value(node.this, row) - self.value(node.expression, row),
            exp.Mul: lambda node, row: self.scaled(np.multiply, node, row),
            exp.Div: lambda node, row: self.scaled(np.divide, node, row),
            exp.Ln: lambda node, row: np.log(self.value(node.this, row)),
            exp.Exp: lambda node, row: np.exp(self.value(node.this, row)),
            # NaN, as 0 * infinity gives it in a table, is the largest number to an engine.
            exp.Greatest: lambda node, row: np.maximum(*self.both(node, row)),
            exp.Least: lambda node, row: np.fmin(*self.both(node, row)),
        }

    def value(self, node: Any, row: Row) -> Any:
        if type(node) not in self.kinds:
            raise InputError(f"the text holds {type(node).__name__}, which no map needs")
        return self.kinds[type(node)](node, row)

    def both(self, node: Any, row: Row) -> tuple[Any, Any]:
        (other,) = node.expressions
        return self.value(node.this, row), self.value(other, row)

    def literal(self, node: Any, row: Row) -> Any:
        return node.name if node.is_string else np.float64(node.name)

    def is_null(self, node: Any, row: Row) -> Any:
        if type(node.expression) is not self.null:
            raise InputError("the text asks for something else than NULL with IS, which no map needs")
        return _is_null(self.value(node.this, row))

    def scaled(self, operation: Any, node: Any, row: Row) -> Any:
        left, right = self.value(node.this, row), self.value(node.expression, row)
        found = operation(left, right)
        if self.strict and np.any((found == 0.0) & (np.asarray(left) != 0.0) & np.isfinite(right) & (right != 0.0)):
            raise FloatingPointError("underflow encountered")
        return found

    def cast(self, node: Any, row: Row) -> Any:
        """To double, or to an array of doubles; there is nothing else to cast to in a map."""
        if node.to not in (self.double, self.array):
            raise InputError(f"the text casts to {node.to.sql()}, which no map needs")
        given = self.value(node.this, row)
        if isinstance(given, str):
            given = given.strip("{}[]").split(",") if "," in given or given[:1] in "{[" else np.float64(given)
        return np.array(given, dtype=np.float64) if isinstance(given, list) else given

    def case(self, node: Any, row: Row) -> Any:
        """Each branch is evaluated on its own rows alone, as engines do."""
        (branch,) = node.args["ifs"]
        condition = np.asarray(self.value(branch.this, row), dtype=bool)
        out = np.zeros(condition.shape)
        for chosen, then in ((condition, branch.args["true"]), (~condition, node.args["default"])):
            if chosen.any():
                out[chosen] = self.value(then, {name: _rows(values, chosen) for name, values in row.items()})
        return out

    def bracket(self, node: Any, row: Row) -> Any:
        """In PostgreSQL sqlglot counts from 0, having changed the text's index, and from its offset elsewhere."""
        (index,) = (np.asarray(self.value(each, row), dtype=np.int64) for each in node.expressions)
        return self.value(node.this, row)[index - (node.args.get("offset") or 0)]

    def reduce(self, node: Any, row: Row) -> Any:
        function = node.args["merge"]
        names = [each.name for each in function.expressions]
        found = np.full(len(next(iter(row.values()))), self.value(node.args["initial"], row))
        for step in self.value(node.this, row):
            steps = np.full(len(found), step)
            found = self.value(function.this, {**row, names[0]: found, names[1]: steps})
        return found

    def transform(self, node: Any, row: Row) -> Any:
        """Of an array of one element: how a result is given a name."""
        function = node.expression
        (name,) = (each.name for each in function.expressions)
        (element,) = self.value(node.this, row)
        return np.array([self.value(function.this, {**row, name: element})])

    def width_bucket(self, node: Any, row: Row) -> Any:
        return np.searchsorted(self.value(node.args["threshold"], row), self.value(node.this, row), side="right")


def _rows(values: NDArray[Any], chosen: NDArray[np.bool_]) -> NDArray[Any]:
    return values[chosen] if np.ndim(values) else values


def _is_null(values: Any) -> NDArray[np.bool_]:
    return np.asarray(np.ascontiguousarray(values).view(np.uint64) == NULL.view(np.uint64))


def _equal(left: Any, right: Any) -> Any:
    """NaN equals NaN in the dialects that compare with it."""
    return (left == right) | (np.isnan(left) & np.isnan(right))


def _package(dialect: str) -> Any:
    try:
        import sqlglot
    except ImportError:
        raise InputError(
            f"the text for {dialect} cannot be checked here: pass connection=..., or pip install 'calibrant[sql]'"
        ) from None
    return sqlglot
