"""SQL dialects: how they differ where maps need it, and how text is run on each engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import inf
from typing import Any

from calibrant.arrays.columns import meant
from calibrant.arrays.keys import plain_text
from calibrant.export.languages.sql.engines import AT_ONCE, Engine, Groups, Scores, by_item, parts
from calibrant.messages import InputError, listed

ESCAPES = set("\\\"'`[]")
"""Characters that some dialect uses to quote or escape names."""

EXACT_DIGITS = 15
"""Decimals of up to this many digits that are exact doubles are read exactly by every known parser."""


def _with_exponent(value: float) -> str:
    """The shortest decimal with an exponent, which makes it a double in dialects where 0.1 is a DECIMAL."""
    text = repr(value)
    return text if "e" in text else f"{text}e0"


def _cast(value: float) -> str:
    return f"CAST({value!r} AS DOUBLE PRECISION)"


def _ratio(value: float) -> str:
    """A quotient or product of integers, exact at every step.

    SQLite 3.40 misreads about one six-digit decimal in 3,000 in the last bit; it reads integers correctly.
    """
    short = len(Decimal(value).as_tuple().digits) <= EXACT_DIGITS and 1e-15 < abs(value) < 1e15
    if value == 0.0 or short:
        return repr(value)
    top, bottom = value.as_integer_ratio()
    shift = (top & -top).bit_length() - 1
    steps = [str(top >> shift), *(f" * {2.0**bits!r}" for bits in _shares(shift))]
    if not shift:
        steps += [f" / {2.0**bits!r}" for bits in _shares(bottom.bit_length() - 1)]
    return f"({''.join(steps)})" if len(steps) > 1 else f"{steps[0]}.0"


def _shares(bits: int, most: int = 49) -> list[int]:
    """The exponent split into parts whose powers of two are integers of at most 15 digits."""
    return [most] * (bits // most) + [bits % most] * (bits % most > 0)


@dataclass(frozen=True)
class Tables:
    """How an engine looks up a number in a long table.

    Attributes
    ----------
    numbers
        Smallest number of numbers, including knots, for which this is better than a CASE; a step has two, a line seven.
    array
        Template of an array literal, with the numbers as ``{}``.
    entry
        Template of an entry of an ``{array}``, by an ``{index}`` that starts at 1.
    search
        Function of these tables, the score, the knots and the names in use that returns the index: one more than the
        number of knots at or below the score.
    bound
        Template of ``{body}`` with the ``{value}`` of an expression as ``{name}``, if the engine can name it; else
        empty, and the expression is repeated.
    """

    numbers: int
    array: str
    entry: str
    search: Callable[[Tables, str, Sequence[float], Sequence[str]], str]
    bound: str = ""

    def write(self, numbers: Sequence[float]) -> str:
        """The numbers as a literal."""
        return self.array.format(",".join("Infinity" if number == inf else repr(number) for number in numbers))


def fresh(word: str, *taken: str) -> str:
    """A name for a parameter that differs from all columns, which it would hide."""
    while word in {name.lower() for name in taken}:
        word += "_"
    return word


def _bucket(tables: Tables, x: str, knots: Sequence[float], taken: Sequence[str]) -> str:
    return f"width_bucket({x}, {tables.write(knots)}) + 1"


def _fold(template: str) -> Callable[[Tables, str, Sequence[float], Sequence[str]], str]:
    """Branch-free bisection as a fold over powers of two, which counts the knots at or below the score."""

    def search(tables: Tables, x: str, knots: Sequence[float], taken: Sequence[str]) -> str:
        size = 1 << len(knots).bit_length()
        found, step = fresh("found", *taken), fresh("step", *taken)
        knot = tables.entry.format(
            array=tables.write([*knots, *[inf] * (size - 1 - len(knots))]), index=f"{found} + {step}"
        )
        # Infinity also reaches the padding.
        body = f"CASE WHEN {x} >= {knot} THEN least({found} + {step}, {len(knots)}) ELSE {found} END"
        steps = ", ".join(str(size >> bits) for bits in range(1, size.bit_length()))
        return template.format(steps=steps, found=found, step=step, body=body) + " + 1"

    return search


@dataclass(frozen=True)
class Stage:
    """How an engine names intermediate results, as fields of a row, so that each is written once.

    Attributes
    ----------
    item
        Template of one field, with its ``{value}`` and ``{name}``.
    bound
        Template of ``{body}`` with the row (``{value}``) as ``{name}``.
    whole
        Template of the row of its items (``{}``).
    field
        Template of a reference to the field ``{name}`` of ``{row}``.
    """

    item: str
    bound: str
    whole: str
    field: str = "{row}.{name}"

    def write(self, row: str, values: Mapping[str, str], body: str) -> str:
        """The body over a row with these values."""
        items = ", ".join(self.item.format(name=name, value=value) for name, value in values.items())
        return self.bound.format(value=self.whole.format(items), name=row, body=body)


def _doubled(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _without_backslashes(text: str) -> str:
    r"""A literal of PostgreSQL that means the same whatever ``standard_conforming_strings`` is."""
    return ("E" if "\\" in text else "") + _doubled(text.replace("\\", "\\\\"))


def _escaped(text: str) -> str:
    """A literal with characters that Spark treats as syntax escaped by their code points."""
    return "'" + "".join(f"\\u{ord(sign):04x}" if sign in "\\'\"$`;" else sign for sign in text) + "'"


def _nothing(text: str) -> bool:
    return False


def _escape_or_control(text: str) -> bool:
    """Whether a text has characters that dialects escape differently."""
    return any(sign == "\\" or sign < " " for sign in text) or "${" in text


def _beyond_plain(text: str) -> bool:
    """Whether a text has characters that need another literal type, or trailing spaces that comparisons ignore."""
    return _escape_or_control(text) or not text.isascii() or text.endswith(" ")


@dataclass(frozen=True)
class Dialect:
    """A SQL dialect.

    Attributes
    ----------
    mark
        Quote character of names, doubled inside a name.
    real
        The type of a double.
    literal
        Function from a double to text that the engine reads as the same double.
    unusable
        Condition that a score is NULL or not a number, over the name (``{name}``) and the double (``{x}``).
    largest, least
        Functions for the larger and the smaller of two numbers.
    raises
        Whether underflow or overflow of a product is an error.
    nesting
        Largest number of nested curves.
    tables
        How it looks up a number in a long table; None if nothing is faster than a balanced CASE.
    key
        Template of a column (``{}``) as text with binary comparison.
    text
        Function from text to a literal.
    quoted
        Regular expression of its literals of text.
    odd_text
        Whether a text has characters that are not tested in the dialect.
    booleans
        Whether booleans are cast to the words true and false.
    stage
        How it names intermediate results; None if no way works on every version.
    not_number
        Condition that a column (``{}``) of numbers holds something else, neither number nor NULL; empty if columns
        have one type.
    finite
        Condition that a double (``{x}``) is finite, where a comparison may be true of NaN; empty if none is.
    runner
        Function from a connection to its engine; None if the tests have no engine to run the text on.
    packages
        Packages whose connections the runner accepts.
    """

    mark: str
    real: str
    literal: Callable[[float], str]
    unusable: str
    largest: str = "greatest"
    least: str = "least"
    raises: bool = False
    nesting: int = 8
    tables: Tables | None = None
    key: str = "CAST({} AS TEXT)"
    text: Callable[[str], str] = _doubled
    quoted: str = r"'[^']*(?:''[^']*)*'"
    odd_text: Callable[[str], bool] = _nothing
    booleans: bool = True
    stage: Stage | None = None
    not_number: str = ""
    finite: str = ""
    runner: Callable[[Any], Engine] | None = None
    packages: tuple[str, ...] = ()

    @property
    def nan(self) -> str:
        """Condition that a number that is not NULL is missing, as ``unusable``; empty if there is no NaN."""
        return "" if self.unusable == NO_NAN or self.not_number else self.unusable.removeprefix(f"{NO_NAN} OR ")

    @property
    def executed(self) -> bool:
        """Whether the tests run its text on the engine."""
        return self.runner is not None


# The double is tested for NULL, not the column, since a lenient cast turns text into NULL.
ISNAN = "{x} IS NULL OR isnan({x})"
# By the statistics of Parquet files, which leave NaN out, DuckDB takes isnan as false and x <= 1 as true.
FINITE = "isfinite({x})"
NEITHER_FINITE_NOR_INFINITE = f"{{x}} IS NULL OR NOT ({FINITE} OR isinf({{x}}))"
EQUALS_NAN = "{x} IS NULL OR {x} = CAST('NaN' AS DOUBLE PRECISION)"
NO_NAN = "{x} IS NULL"


IN_A_LIST = "list_transform([{value}], lambda {name}: {body})[1]"
IN_AN_ARRAY = "element_at(transform(array({value}), {name} -> {body}), 1)"


# -------------------------------------------------------------------------------------- engines


def _on_duckdb(connection: Any) -> Engine:
    def select(items: Sequence[str], scores: Scores, groups: Groups) -> list[list[Any]]:
        columns = [f"unnest($s{place}::DOUBLE[]) AS {quote(name, 'duckdb')}" for place, name in enumerate(scores)]
        columns += [f"unnest($g{place}::VARCHAR[]) AS {quote(name, 'duckdb')}" for place, name in enumerate(groups)]
        given: dict[str, Any] = {f"s{place}": values for place, values in enumerate(scores.values())}
        given |= {f"g{place}": list(values) for place, values in enumerate(groups.values())}
        query = f"SELECT {', '.join(items)} FROM (SELECT {', '.join(columns)})"
        return by_item(connection.sql(query, params=given).fetchall(), items)

    ((version,),) = connection.sql("SELECT version()").fetchall()
    return Engine("duckdb", f"DuckDB {version}", select)


def _on_sqlite(connection: Any) -> Engine:
    def select(items: Sequence[str], scores: Scores, groups: Groups) -> list[list[Any]]:
        found: list[Any] = []
        columns = {**scores, **groups}
        names = ", ".join(quote(name, "sqlite") for name in columns)
        row = f"({', '.join('?' * len(columns))})"
        for part in parts(list(zip(*columns.values(), strict=True)), max(AT_ONCE // len(columns), 1)):
            rows = f"WITH scores({names}) AS (VALUES {', '.join([row] * len(part))})"
            values = [value for given in part for value in given]
            found += connection.execute(f"{rows} SELECT {', '.join(items)} FROM scores", values).fetchall()
        return by_item(found, items)

    ((version,),) = by_item(connection.execute("SELECT sqlite_version()").fetchall(), [""])
    return Engine("sqlite", f"SQLite {version}", select)


def _on_postgres(connection: Any) -> Engine:
    def fetch(query: str, values: tuple[Any, ...] = (), rows: bool = True) -> list[Any]:
        cursor = connection.cursor()
        try:
            cursor.execute(query, values)
            return list(cursor.fetchall()) if rows else []
        finally:
            cursor.close()

    def select(items: Sequence[str], scores: Scores, groups: Groups) -> list[list[Any]]:
        *names, place = (quote(each, "postgres") for each in (*scores, *groups, fresh("place", *scores, *groups)))
        wanted = f"SELECT {', '.join(items)} FROM"
        rows = f"WITH ORDINALITY AS rows({', '.join([*names, place])}) ORDER BY {place}"
        arrays = ", ".join([*["%s::float8[]"] * len(scores), *["%s::text[]"] * len(groups)])
        query = f"{wanted.replace('%', '%%')} unnest({arrays}) {rows.replace('%', '%%')}"
        try:  # a part of the open transaction, or one of its own, in which nothing can be written
            fetch("SAVEPOINT calibrant", rows=False)
            ends = ["ROLLBACK TO SAVEPOINT calibrant", "RELEASE SAVEPOINT calibrant"]
        except Exception:  # each driver has its own error; with autocommit, no transaction is open
            fetch("BEGIN", rows=False)
            ends = ["ROLLBACK"]
        try:
            fetch("SET TRANSACTION READ ONLY", rows=False)
            return by_item(fetch(query, (*scores.values(), *map(list, groups.values()))), items)
        finally:
            for end in ends:
                fetch(end, rows=False)

    ((version,),) = by_item(fetch("SELECT current_setting('server_version')"), [""])
    return Engine("postgres", f"PostgreSQL {version}", select)


def _on_spark(session: Any) -> Engine:
    def select(items: Sequence[str], scores: Scores, groups: Groups) -> list[list[Any]]:
        from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

        place = fresh("place", *scores, *groups)
        columns = [StructField(place, LongType()), *(StructField(name, DoubleType()) for name in scores)]
        schema = StructType([*columns, *(StructField(name, StringType()) for name in groups)])
        given = [*scores.values(), *groups.values()]
        rows = session.createDataFrame(list(zip(range(len(given[0])), *given, strict=True)), schema)
        found = rows.selectExpr(quote(place, "spark"), *items).collect()
        return by_item([tuple(each)[1:] for each in sorted(found, key=lambda each: int(each[0]))], items)

    return Engine("spark", f"Spark {session.version}", select)


# ------------------------------------------------------------------------------------ the table


def _generated(
    unusable: str,
    key: str = "CAST({} AS TEXT)",
    odd_text: Callable[[str], bool] = _escape_or_control,
    *,
    booleans: bool = True,
) -> Dialect:
    """A dialect that sqlglot translates from the PostgreSQL text."""
    return Dialect(
        '"',
        "DOUBLE PRECISION",
        _cast,
        unusable,
        raises=True,
        key=key,
        odd_text=odd_text,
        booleans=booleans,
    )


DIALECTS: dict[str, Dialect] = {
    "duckdb": Dialect(
        '"',
        "DOUBLE",
        _with_exponent,
        NEITHER_FINITE_NOR_INFINITE,
        # Three times as fast as a CASE at 1,000 steps, slower below 300 steps or 100 lines.
        tables=Tables(
            600,
            "CAST('[{}]' AS DOUBLE[])",
            "({array})[{index}]",
            _fold("list_reduce([{steps}], lambda {found}, {step}: {body}, 0)"),
            IN_A_LIST,
        ),
        key="CAST({} AS VARCHAR)",
        stage=Stage("'{name}': {value}", IN_A_LIST, "{{{}}}", "struct_extract({row}, '{name}')"),
        finite=FINITE,
        runner=_on_duckdb,
        packages=("duckdb",),
    ),
    "postgres": Dialect(
        '"',
        "DOUBLE PRECISION",
        _cast,
        EQUALS_NAN,
        raises=True,
        # A CASE of 5,000 branches takes half a minute to compile; this built-in search takes no time to plan.
        tables=Tables(64, "CAST('{{{}}}' AS DOUBLE PRECISION[])", "({array})[{index}]", _bucket),
        key='CAST({} AS TEXT) COLLATE "C"',
        text=_without_backslashes,
        quoted=r"(?<![\w&])E'[^'\\]*(?:(?:''|\\.)[^'\\]*)*'|'[^'\\]*(?:''[^'\\]*)*'",
        # OFFSET prevents the planner from inlining the value wherever its name is used.
        stage=Stage("{value} AS {name}", "(SELECT {body} FROM ({value} OFFSET 0) AS {name})", "SELECT {}"),
        runner=_on_postgres,
        packages=("psycopg", "psycopg2", "pg8000"),
    ),
    "spark": Dialect(
        "`",
        "DOUBLE",
        _with_exponent,
        ISNAN,
        # Spark does not compile a CASE of this length, and planning one of 5,000 steps takes more than a gigabyte.
        tables=Tables(
            600,
            "CAST(split('{}', ',') AS ARRAY<DOUBLE>)",
            "element_at({array}, {index})",
            _fold("aggregate(array({steps}), 0, ({found}, {step}) -> {body})"),
            IN_AN_ARRAY,
        ),
        key="CAST({} AS STRING)",
        text=_escaped,
        quoted=r"'[^'\\]*(?:\\.[^'\\]*)*'",
        stage=Stage("'{name}', {value}", IN_AN_ARRAY, "named_struct({})"),
        runner=_on_spark,
        packages=("pyspark",),
    ),
    # Backticks, because SQLite reads a double-quoted name of a missing column as a string. Its columns accept any type,
    # and a cast turns text into 0.0: values that are not numbers give NULL.
    "sqlite": Dialect(
        "`",
        "REAL",
        _ratio,
        "typeof({name}) NOT IN ('integer', 'real')",
        largest="max",
        least="min",
        nesting=2,  # the parser of version 3.40 has a stack of 100
        key="CAST({} AS TEXT) COLLATE BINARY",  # a cast keeps the collation of its column
        booleans=False,
        not_number="typeof({}) NOT IN ('integer', 'real', 'null')",
        stage=Stage("{value} AS {name}", "(SELECT {body} FROM ({value}) AS {name})", "SELECT {}"),
        runner=_on_sqlite,
        packages=("sqlite3",),
    ),
    "bigquery": _generated(ISNAN),
    "clickhouse": _generated(ISNAN),
    "databricks": _generated(ISNAN),
    "mysql": _generated(NO_NAN, "CAST({} AS TEXT) COLLATE utf8mb4_0900_bin", booleans=False),
    "redshift": _generated(EQUALS_NAN, booleans=False),
    "snowflake": _generated(EQUALS_NAN),
    "trino": _generated(ISNAN),
    "tsql": _generated(NO_NAN, "CAST({} AS TEXT) COLLATE Latin1_General_100_BIN2", _beyond_plain, booleans=False),
}

EXECUTED_DIALECTS = tuple(name for name, dialect in DIALECTS.items() if dialect.executed)
"""Dialects whose text is tested on the real engine."""


def dialect_named(name: str) -> Dialect:
    """The dialect with this name; an unknown name is an error that lists them.

    Examples
    --------
    >>> dialect_named("sqlite").literal(0.1)
    '(3602879701896397 / 562949953421312.0 / 64.0)'
    """
    if name not in DIALECTS:
        others = [each for each in DIALECTS if each not in EXECUTED_DIALECTS]
        raise InputError(
            "dialect",
            f"must be one of {', '.join(EXECUTED_DIALECTS)} (tested on the engine) or {', '.join(others)} "
            f"(generated, not executed), got {name!r}{meant(name, tuple(DIALECTS))}",
        )
    return DIALECTS[name]


def quote(name: str, dialect: str) -> str:
    """The name of a column as a quoted identifier.

    Examples
    --------
    >>> print(quote('12" pizza', "duckdb"), quote("a.b", "spark"))
    "12"" pizza" `a.b`
    """
    written = dialect_named(dialect)
    mark = written.mark
    if not isinstance(name, str) or not name or not plain_text(name):
        raise InputError("column", f"must be a name without null characters and lone surrogates, got {name!r}")
    if dialect == "spark" and "${" in name:
        raise InputError("column", f"is {name!r}, and Spark treats ${{...}} as a variable", "rename it")
    if not written.executed and set(name) & ESCAPES:
        raise InputError(
            "column", f"is {name!r}, and quotes and backslashes in names are not tested in {dialect}", "rename it"
        )
    return mark + name.replace(mark, mark * 2) + mark


BARE = re.compile(r"[\w\s().,+*/<>=|{}\[\]:\0-]*", re.ASCII)
"""What the expression of a map has outside its quotes, each of which is replaced by a null character."""
NOT_BARE = re.compile(r"--|/\*|[\w&]\0|\0\s*\0")
"""A comment, a literal with a prefix, and literals that follow each other, which engines join."""
QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]""")
"""Quoted text and names of the dialects that are not executed."""


def is_expression(text: str, dialect: str) -> bool:
    r"""Whether a text can be nothing but expressions in this dialect: no statement, comment or other kind of quote.

    Examples
    --------
    >>> is_expression("CASE WHEN \"a;b\" > 0.5 THEN 0.1 END", "postgres")
    True
    >>> is_expression("$$[$$; DROP TABLE t; SELECT $$]$$", "postgres")
    False
    """
    written = dialect_named(dialect)
    if not written.executed:
        return ";" not in QUOTED.sub("", text)
    mark = written.mark
    names = f"{mark}[^{mark}]*(?:{mark * 2}[^{mark}]*)*{mark}"
    bare = re.sub(f"{written.quoted}|{names}", "\0", text, flags=re.DOTALL)
    return "\0" not in text and BARE.fullmatch(bare) is not None and not NOT_BARE.search(bare)


def engine_of(connection: Any) -> Engine:
    """The engine of a connection of a supported package, of SQLAlchemy, or of a Spark session.

    Nothing is written: one SELECT runs over given scores.

    Examples
    --------
    >>> import sqlite3
    >>> engine = engine_of(sqlite3.connect(":memory:"))
    >>> engine.dialect, engine.run("`p` * 2", "p", [0.25, None])
    ('sqlite', [0.5, None])
    """
    if "sqlalchemy" in _families(connection) and hasattr(connection, "exec_driver_sql"):
        connection = connection.connection.dbapi_connection
    families = _families(connection)
    known = {package: each.runner for each in DIALECTS.values() for package in each.packages}
    runner = next((known[family] for family in families if family in known), None)
    if runner is None or "Async" in type(connection).__name__:
        raise InputError(
            "connection",
            f"has an unsupported type: {type(connection).__name__}",
            f"pass a connection of {listed([*known, 'sqlalchemy'], 'or')}; with SQLAlchemy, engine.connect()",
        )
    return runner(connection)


def _families(connection: Any) -> list[str]:
    """Packages of its class and base classes."""
    return [cls.__module__.partition(".")[0].lstrip("_") for cls in type(connection).__mro__]
