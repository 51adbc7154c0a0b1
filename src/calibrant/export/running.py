"""An expression over given scores, run on a user's own engine; nothing is written there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from calibrant.arrays import InputError
from calibrant.export.dialects import fresh
from calibrant.export.sql import quote

Values = list[float | None]
"""Doubles as an engine takes and gives them; None for NULL."""

Groups = Mapping[str, Sequence[str | None]]
"""Columns of groups by name; None for NULL."""

NO_GROUPS: Groups = {}


class Run(Protocol):
    """One SELECT of an expression."""

    def __call__(self, expression: str, column: str, scores: Values, groups: Groups = NO_GROUPS, /) -> Values:
        """From the column of scores that it reads, scores for it and columns of groups to values, in the same order."""


AT_ONCE = 10_000
"""Bound values in one statement of SQLite, which allows 32,766."""


@dataclass(frozen=True)
class Engine:
    """A place where SQL text of one dialect can be run."""

    dialect: str
    name: str
    run: Run


def engine_of(connection: Any) -> Engine:
    """The engine behind a connection of DuckDB, sqlite3, psycopg, psycopg2, pg8000 or SQLAlchemy, or a Spark session.

    Examples
    --------
    >>> import sqlite3
    >>> engine = engine_of(sqlite3.connect(":memory:"))
    >>> engine.dialect, engine.run("`p` * 2", "p", [0.25, None])
    ('sqlite', [0.5, None])
    """
    if "sqlalchemy" in _families(connection) and hasattr(connection, "exec_driver_sql"):
        connection = connection.connection.dbapi_connection
    known = [family for family in _families(connection) if family in ENGINES]
    if not known or "Async" in type(connection).__name__:
        raise InputError(
            f"{type(connection).__name__} is no connection that is known here: pass one of DuckDB, sqlite3, psycopg, "
            "psycopg2, pg8000 or SQLAlchemy (engine.connect()), or a Spark session"
        )
    return ENGINES[known[0]](connection)


def _families(connection: Any) -> list[str]:
    """Packages that its class and the bases of its class come from."""
    return [cls.__module__.partition(".")[0].lstrip("_") for cls in type(connection).__mro__]


def _duckdb(connection: Any) -> Engine:
    def run(expression: str, column: str, scores: Values, groups: Groups = NO_GROUPS) -> Values:
        columns = [f"unnest($scores::DOUBLE[]) AS {quote(column, 'duckdb')}"]
        columns += [f"unnest($g{place}::VARCHAR[]) AS {quote(name, 'duckdb')}" for place, name in enumerate(groups)]
        given = {"scores": scores} | {f"g{place}": list(values) for place, values in enumerate(groups.values())}
        query = f"SELECT {expression} FROM (SELECT {', '.join(columns)})"
        return _first(connection.sql(query, params=given).fetchall())

    ((version,),) = connection.sql("SELECT version()").fetchall()
    return Engine("duckdb", f"DuckDB {version}", run)


def _sqlite(connection: Any) -> Engine:
    def run(expression: str, column: str, scores: Values, groups: Groups = NO_GROUPS) -> Values:
        found: Values = []
        names = ", ".join(quote(name, "sqlite") for name in (column, *groups))
        row = f"({', '.join('?' * (1 + len(groups)))})"
        for part in _parts(list(zip(scores, *groups.values(), strict=True)), AT_ONCE // (1 + len(groups))):
            rows = f"WITH scores({names}) AS (VALUES {', '.join([row] * len(part))})"
            values = [value for given in part for value in given]
            found += _first(connection.execute(f"{rows} SELECT {expression} FROM scores", values).fetchall())
        return found

    (version,) = _first(connection.execute("SELECT sqlite_version()").fetchall())
    return Engine("sqlite", f"SQLite {version}", run)


def _postgres(connection: Any) -> Engine:
    def fetch(query: str, values: tuple[Any, ...]) -> list[Any]:
        cursor = connection.cursor()
        try:
            cursor.execute(query, values)
            return list(cursor.fetchall())
        finally:
            cursor.close()

    def run(expression: str, column: str, scores: Values, groups: Groups = NO_GROUPS) -> Values:
        *names, place = (quote(each, "postgres") for each in (column, *groups, fresh("place", column, *groups)))
        select = f"SELECT {expression} FROM"
        rows = f"WITH ORDINALITY AS rows({', '.join([*names, place])}) ORDER BY {place}"
        arrays = ", ".join(["%s::float8[]", *["%s::text[]"] * len(groups)])
        query = f"{select.replace('%', '%%')} unnest({arrays}) {rows.replace('%', '%%')}"
        return _first(fetch(query, (scores, *map(list, groups.values()))))

    (version,) = _first(fetch("SELECT current_setting('server_version')", ()))
    return Engine("postgres", f"PostgreSQL {version}", run)


def _spark(session: Any) -> Engine:
    def run(expression: str, column: str, scores: Values, groups: Groups = NO_GROUPS) -> Values:
        from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

        place = fresh("place", column, *groups)
        columns = [StructField(place, LongType()), StructField(column, DoubleType())]
        schema = StructType([*columns, *(StructField(name, StringType()) for name in groups)])
        rows = session.createDataFrame(list(zip(range(len(scores)), scores, *groups.values(), strict=True)), schema)
        found = rows.selectExpr(quote(place, "spark"), f"{expression} AS `value`").collect()
        return [value for _, value in sorted((each[0], each[1]) for each in found)]

    return Engine("spark", f"Spark {session.version}", run)


ENGINES: dict[str, Callable[[Any], Engine]] = {
    "duckdb": _duckdb,
    "pg8000": _postgres,
    "psycopg": _postgres,
    "psycopg2": _postgres,
    "pyspark": _spark,
    "sqlite3": _sqlite,
}


def _parts(rows: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _first(rows: Sequence[Any]) -> Values:
    """The one value of each row, whatever kind of row the user's connection makes."""
    return [_only(row) for row in rows]


def _only(row: Any) -> Any:
    if isinstance(row, Mapping):
        (value,) = row.values()
        return value
    return row if row is None or isinstance(row, str | int | float) else row[0]
