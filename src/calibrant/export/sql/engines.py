"""Expressions over given scores, run on a user's own engine; nothing is written there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from calibrant.export.sql.dialects import fresh
from calibrant.export.sql.scores import quote
from calibrant.messages import InputError

Values = list[float | None]
"""Doubles as an engine takes and gives them; None for NULL."""

Groups = Mapping[str, Sequence[str | None]]
"""Columns of groups by name; None for NULL."""

NO_GROUPS: Groups = {}


Scores = Mapping[str, Values]
"""Columns of scores by name."""


class Select(Protocol):
    """One SELECT."""

    def __call__(self, items: Sequence[str], scores: Scores, groups: Groups, /) -> list[list[Any]]:
        """From expressions, columns of scores and columns of groups to the values of each expression, row by row."""


AT_ONCE = 10_000
"""Bound values in one statement of SQLite, which allows 32,766."""


@dataclass(frozen=True)
class Engine:
    """A place where SQL text of one dialect can be run."""

    dialect: str
    name: str
    select: Select

    def run(self, expression: str, column: str, scores: Values, groups: Groups = NO_GROUPS) -> Values:
        """The values of one expression over one column of scores."""
        (found,) = self.select([expression], {column: scores}, groups)
        return found


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
            "connection",
            f"is of an unsupported type: {type(connection).__name__}",
            "pass one of DuckDB, sqlite3, psycopg, psycopg2, pg8000 or SQLAlchemy (engine.connect()), or a Spark "
            "session",
        )
    return ENGINES[known[0]](connection)


def _families(connection: Any) -> list[str]:
    """Packages that its class and the bases of its class come from."""
    return [cls.__module__.partition(".")[0].lstrip("_") for cls in type(connection).__mro__]


def _duckdb(connection: Any) -> Engine:
    def select(items: Sequence[str], scores: Scores, groups: Groups) -> list[list[Any]]:
        columns = [f"unnest($s{place}::DOUBLE[]) AS {quote(name, 'duckdb')}" for place, name in enumerate(scores)]
        columns += [f"unnest($g{place}::VARCHAR[]) AS {quote(name, 'duckdb')}" for place, name in enumerate(groups)]
        given: dict[str, Any] = {f"s{place}": values for place, values in enumerate(scores.values())}
        given |= {f"g{place}": list(values) for place, values in enumerate(groups.values())}
        query = f"SELECT {', '.join(items)} FROM (SELECT {', '.join(columns)})"
        return _by_item(connection.sql(query, params=given).fetchall(), items)

    ((version,),) = connection.sql("SELECT version()").fetchall()
    return Engine("duckdb", f"DuckDB {version}", select)


def _sqlite(connection: Any) -> Engine:
    def select(items: Sequence[str], scores: Scores, groups: Groups) -> list[list[Any]]:
        found: list[Any] = []
        columns = {**scores, **groups}
        names = ", ".join(quote(name, "sqlite") for name in columns)
        row = f"({', '.join('?' * len(columns))})"
        for part in _parts(list(zip(*columns.values(), strict=True)), max(AT_ONCE // len(columns), 1)):
            rows = f"WITH scores({names}) AS (VALUES {', '.join([row] * len(part))})"
            values = [value for given in part for value in given]
            found += connection.execute(f"{rows} SELECT {', '.join(items)} FROM scores", values).fetchall()
        return _by_item(found, items)

    ((version,),) = _by_item(connection.execute("SELECT sqlite_version()").fetchall(), [""])
    return Engine("sqlite", f"SQLite {version}", select)


def _postgres(connection: Any) -> Engine:
    def fetch(query: str, values: tuple[Any, ...]) -> list[Any]:
        cursor = connection.cursor()
        try:
            cursor.execute(query, values)
            return list(cursor.fetchall())
        finally:
            cursor.close()

    def select(items: Sequence[str], scores: Scores, groups: Groups) -> list[list[Any]]:
        *names, place = (quote(each, "postgres") for each in (*scores, *groups, fresh("place", *scores, *groups)))
        wanted = f"SELECT {', '.join(items)} FROM"
        rows = f"WITH ORDINALITY AS rows({', '.join([*names, place])}) ORDER BY {place}"
        arrays = ", ".join([*["%s::float8[]"] * len(scores), *["%s::text[]"] * len(groups)])
        query = f"{wanted.replace('%', '%%')} unnest({arrays}) {rows.replace('%', '%%')}"
        return _by_item(fetch(query, (*scores.values(), *map(list, groups.values()))), items)

    ((version,),) = _by_item(fetch("SELECT current_setting('server_version')", ()), [""])
    return Engine("postgres", f"PostgreSQL {version}", select)


def _spark(session: Any) -> Engine:
    def select(items: Sequence[str], scores: Scores, groups: Groups) -> list[list[Any]]:
        from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

        place = fresh("place", *scores, *groups)
        columns = [StructField(place, LongType()), *(StructField(name, DoubleType()) for name in scores)]
        schema = StructType([*columns, *(StructField(name, StringType()) for name in groups)])
        given = [*scores.values(), *groups.values()]
        rows = session.createDataFrame(list(zip(range(len(given[0])), *given, strict=True)), schema)
        found = rows.selectExpr(quote(place, "spark"), *items).collect()
        return _by_item([tuple(each)[1:] for each in sorted(found, key=lambda each: int(each[0]))], items)

    return Engine("spark", f"Spark {session.version}", select)


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


def _by_item(rows: Sequence[Any], items: Sequence[str]) -> list[list[Any]]:
    """The values of each expression, whatever kind of row the user's connection makes."""
    plain = [_plain(row) for row in rows]
    return [[row[place] for row in plain] for place in range(len(items))]


def _plain(row: Any) -> Sequence[Any]:
    if isinstance(row, Mapping):
        return list(row.values())
    return [row] if row is None or isinstance(row, str | int | float) else row
