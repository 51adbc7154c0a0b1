"""Every map kind as SQL, executed in DuckDB, SQLite, PostgreSQL and Spark, against `apply`."""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contracts.test_maps import FIFTY, ODD_NAMES, SAMPLES
from tests.engine.postgres import Server

from calibrant.export.kinds import samples
from calibrant.export.kinds.samples import Rows, proof_rows, proof_scores
from calibrant.export.languages.sql.dialects import DIALECTS, EXECUTED_DIALECTS, engine_of
from calibrant.export.languages.sql.engines import Engine
from calibrant.export.languages.sql.interpreter import reader
from calibrant.export.proof import compare
from calibrant.export.sql.expressions import to_sql
from calibrant.export.sql.file import prove_sql
from calibrant.maps import (
    BetaMap,
    ByGroupMap,
    ComposeMap,
    IdentityMap,
    LogitAffineMap,
    Map,
    PiecewiseLinearMap,
    StepMap,
)
from calibrant.messages import InputError

pytestmark = pytest.mark.engine

RNG = np.random.default_rng(5)
HOSTILE = [
    "score",
    "my score",
    'a"b',
    "a'b",
    "x`; DROP TABLE rows; --",
    'x"; DROP TABLE rows; --',
    "SELECT",
    "größe µ 数 🙂",
    "a.b",
    "`tick`",
    "%s %% {x} $1 ? :name @x",
    "back\\slash",
    "new\nline",
    "/* comment",
    "-- comment",
    "[bracket]",
    "found",
    "STEP",
    "piece",
]
FEW = [
    IdentityMap(),
    StepMap([0.3, 0.6], [0.1, 0.4, 0.9]),
    PiecewiseLinearMap([0.1, 0.4, 0.9], [0.2, 0.3, 0.8]),
    LogitAffineMap(1.3, -0.4),
    LogitAffineMap(4.0, -2.0, on="score"),
    BetaMap(0.7, 1.4, 0.2),
]
LONG = StepMap(np.linspace(0.0005, 0.9995, 1_000), np.linspace(0.0, 1.0, 1_001) ** 2)
LINES = PiecewiseLinearMap(np.linspace(0.0, 1.0, 501), np.linspace(0.1, 0.9, 501) ** 2)

dialects = pytest.mark.parametrize("dialect", EXECUTED_DIALECTS)


@pytest.fixture(scope="module")
def engines(duck: Any, spark: Any, postgres: Server) -> Iterator[dict[str, Engine]]:
    with postgres.connect() as server, closing(sqlite3.connect(":memory:")) as file:
        yield {engine.dialect: engine for engine in map(engine_of, (duck, spark, server, file))}


def only_copies(map_: Map) -> bool:
    default = getattr(map_, "default", None)
    parts = (*getattr(map_, "maps", ()), *(() if default is None else (default,)))
    return all(map(only_copies, parts)) if parts else map_.exact


@dialects
def test_engines_give_what_apply_gives(
    subtests: pytest.Subtests, engines: dict[str, Engine], dialect: str, full_size: bool
) -> None:
    """On edges, beside every knot, on 10^5 random scores; NaN and NULL give NULL. Step maps to the bit.

    The first map of each kind, and all of them with `--full`. The others meet 2,000 edges; in Spark, where a query
    takes a second, only with `--full`.
    """
    engine = engines[dialect]
    for kind, maps in SAMPLES.items():
        for place, map_ in enumerate(maps):
            with subtests.test(kind=kind, place=place):
                text = to_sql(map_, "score", dialect)
                if place == 0 or full_size:
                    proof = prove_sql(map_, text, "score", engine)
                    assert proof.scores > 100_000
                    assert proof.tolerance == (0.0 if only_copies(map_) else 1e-12)
                    if map_.exact:
                        assert proof.equal == proof.scores
                elif dialect != "spark":
                    rows = proof_rows(map_).take(slice(2_000))
                    beside = {name: values.tolist() for name, values in rows.groups.items()}
                    groups = {name: values for name, values in beside.items() if name not in map_.numbers}
                    numbers = {name: values for name, values in beside.items() if name in map_.numbers}
                    (found,) = engine.select([text], {"score": rows.scores.tolist(), **numbers}, groups)
                    compare(map_, rows, np.array(found, dtype=np.float64), engine.name)


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name not in EXECUTED_DIALECTS])
def test_other_dialects_are_read_back_and_say_that_they_were_not_executed(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "RANDOM_SCORES", 10_000)
    engine = reader(dialect)
    ladder = StepMap(np.linspace(0.01, 0.99, 60), RNG.random(61))
    after = ComposeMap((BetaMap(2.0, -3.0, 4.1), StepMap([0.2, 0.4], [0.1, 0.5, 0.3])))
    by_group = ByGroupMap("my group", ("it's", "3", ""), (*FEW[2:4], after), FEW[4])
    unknown = ByGroupMap("other", ("a",), (LogitAffineMap(1.1, 0.2),), None)
    for map_ in (*FEW, ladder, after, by_group, ComposeMap((LogitAffineMap(0.9, 0.0), FIFTY, unknown))):
        text = to_sql(map_, "my score", dialect)
        assert text.startswith(f"/* generated, not executed on {dialect} */ CASE WHEN ")
        prove_sql(map_, text, "my score", engine)


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_the_reader_agrees_with_the_engine(engines: dict[str, Engine], dialect: str) -> None:
    """The stand-in for an engine that is not at hand reads long tables too."""
    odd = ByGroupMap("g", ODD_NAMES, (LogitAffineMap(1.1, 0.2),) * len(ODD_NAMES), None)
    for map_ in (*FEW, LONG, LINES, odd, ComposeMap((LINES, FIFTY))):
        rows = proof_rows(map_).take(slice(500))
        scores, groups = rows.scores.tolist(), {name: values.tolist() for name, values in rows.groups.items()}
        text = to_sql(map_, "score", dialect)
        there, here = (engine.run(text, "score", scores, groups) for engine in (engines[dialect], reader(dialect)))
        assert [value is None for value in there] == [value is None for value in here]
        given, read = (np.array([value for value in values if value is not None]) for values in (there, here))
        np.testing.assert_allclose(given, read, rtol=1e-13)


NARROWER = {
    "duckdb": ("FLOAT", "BIGINT", "TINYINT", "BOOLEAN", "DECIMAL(9, 4)"),
    "postgres": ("REAL", "BIGINT", "SMALLINT", "NUMERIC(9, 4)"),
    "spark": ("FLOAT", "BIGINT", "TINYINT", "BOOLEAN", "DECIMAL(9, 4)"),
    "sqlite": ("REAL", "INTEGER"),
}


@dialects
def test_other_types_are_cast_to_double_first(engines: dict[str, Engine], dialect: str) -> None:
    mark = DIALECTS[dialect].mark
    name = f"{mark}score{mark}"
    for type_ in NARROWER[dialect]:
        scores = RNG.random(300) if type_ in ("FLOAT", "REAL", "DECIMAL(9, 4)", "NUMERIC(9, 4)") else np.arange(300) % 2
        scores = scores.astype(np.float64)
        if type_ in ("FLOAT", "REAL") and dialect != "sqlite":
            scores = scores.astype(np.float32).astype(np.float64)
        if "(9, 4)" in type_:
            scores = scores.round(4)
        for map_ in FEW[1:4] if dialect == "spark" else FEW:
            text = to_sql(map_, "score", dialect).replace(name, f"CAST({name} AS {type_})")
            found = engines[dialect].run(text, "score", scores.tolist())
            assert all(type(value) is float for value in found)
            compare(map_, Rows(scores), np.array(found), type_)


def test_what_is_no_number_gives_null_in_sqlite(engines: dict[str, Engine]) -> None:
    texts: list[Any] = ["0.5", "abc", b"0.5", None, 0.5, 1]
    found = engines["sqlite"].run(to_sql(FEW[1], "score", "sqlite"), "score", texts)
    assert found == [None, None, None, None, 0.4, 0.9]


def test_a_misspelt_column_is_an_error_in_sqlite_and_not_a_string(engines: dict[str, Engine]) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        engines["sqlite"].run(to_sql(FEW[1], "scoer", "sqlite"), "score", [0.5])


@dialects
def test_every_double_survives_as_a_literal(engines: dict[str, Engine], dialect: str) -> None:
    bits = RNG.integers(0, 2**63, 400, dtype=np.uint64).view(np.float64)
    special = [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e300, 1e22, 1e23, 1e16, 0.1, 1.0, 0.0]
    numbers = [*special, *bits[np.isfinite(bits)].tolist(), *(-bits[np.isfinite(bits)][:20]).tolist()]
    numbers += [*RNG.random(200).tolist(), *RNG.random(2_000).round(6).tolist()]
    literals = [DIALECTS[dialect].literal(number) for number in numbers]
    array = {"duckdb": "[{}]", "postgres": "ARRAY[{}]", "spark": "array({})"}
    run = engines[dialect].run
    if dialect in array:
        ((values,),) = [run(array[dialect].format(", ".join(literals)), "s", [0.0])]
    else:
        values = [run(literal, "s", [0.0])[0] for literal in literals]
    assert all(type(value) is float for value in values)
    assert struct.pack(f"{len(numbers)}d", *values) == struct.pack(f"{len(numbers)}d", *numbers)


@dialects
def test_columns_may_be_called_anything(engines: dict[str, Engine], dialect: str) -> None:
    """The texts of long maps have names of their own, which columns may have too."""
    scores = [0.25, 0.75, None]
    for map_, names in ((StepMap([0.5], [0.1, 0.8]), HOSTILE), (LONG, HOSTILE[-3:]), (LINES, HOSTILE[-3:])):
        expected = [*map_.apply(scores[:2]).tolist(), None]
        for name in names:
            assert engines[dialect].run(to_sql(map_, name, dialect), name, scores) == expected, name


def test_no_name_can_inject(postgres: Server) -> None:
    with postgres.connect() as connection:
        connection.execute("CREATE TABLE precious AS SELECT 0.5 AS score")
        for name in ('score" FROM precious; DROP TABLE precious; --', "score'; DROP TABLE precious; --"):
            engine_of(connection).run(to_sql(FEW[1], name, "postgres"), name, [0.5])
        assert connection.execute("SELECT count(*) FROM precious").fetchone() == (1,)
        connection.execute("DROP TABLE precious")


def test_names_that_a_dialect_cannot_take_are_refused() -> None:
    with pytest.raises(InputError, match=r"Spark treats .* as a variable: rename it"):
        to_sql(IdentityMap(), "${env:HOME}", "spark")
    assert "${env:HOME}" in to_sql(IdentityMap(), "${env:HOME}", "duckdb")
    for name in ("", "a\0b", "a\ud800b", 3):
        with pytest.raises(InputError, match="must be a name without null characters"):
            to_sql(IdentityMap(), name, "postgres")  # type: ignore[arg-type]
    for name in ("a`b", 'a"b', "a\\b", "a]b"):
        with pytest.raises(InputError, match="not tested in bigquery"):
            to_sql(IdentityMap(), name, "bigquery")


def test_an_unknown_dialect_is_answered_with_the_list() -> None:
    with pytest.raises(ValueError, match=rf"{', '.join(EXECUTED_DIALECTS)} \(tested on the engine\) or .*got 'algol'"):
        to_sql(IdentityMap(), "s", "algol")


def test_the_length_of_a_composition_is_the_sum_of_its_parts() -> None:
    one, two = StepMap(np.linspace(0.01, 0.99, 300), RNG.random(301)), LogitAffineMap(1.2, 0.1)
    table = PiecewiseLinearMap(np.linspace(0.01, 0.99, 300), np.sort(RNG.random(300)))
    alone = len(to_sql(one, "s", "sqlite"))
    assert len(to_sql(ComposeMap((two, one)), "s", "sqlite")) < 1.2 * alone
    assert len(to_sql(ComposeMap((one, two)), "s", "sqlite")) < 1.2 * alone
    twice = len(to_sql(ComposeMap((table, table)), "s", "sqlite"))
    assert twice < 5 * len(to_sql(table, "s", "sqlite"))


def test_the_docs_list_every_dialect_and_whether_it_is_executed() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "guide" / "ship.md").read_text().splitlines()
    table = lines[next(place for place, line in enumerate(lines) if line.startswith("| dialect")) + 2 :]
    rows = [line.split("|")[1:3] for line in takewhile(lambda line: line.startswith("|"), table)]
    status = {name: about for names, about in rows for name in re.findall(r"`(\w+)`", names)}
    assert set(status) == set(DIALECTS)
    assert {name for name, about in status.items() if "not executed" not in about} == set(EXECUTED_DIALECTS)


@dialects
def test_the_same_map_gives_the_same_text(dialect: str) -> None:
    for map_ in (*FEW, LONG):
        assert to_sql(map_, "s", dialect) == to_sql(map_, "s", dialect)


def test_a_text_that_no_engine_would_take_is_refused() -> None:
    with pytest.raises(InputError, match="use a coarser map"):
        to_sql(StepMap(RNG.random(300_000).cumsum(), np.full(300_001, 0.5) + RNG.random(300_001) / 4), "s", "sqlite")
    with pytest.raises(InputError, match="20 curves in a row, which are nested too deeply"):
        to_sql(ComposeMap((LogitAffineMap(0.9, 0.1),) * 20), "s")
    with pytest.raises(InputError, match="3 curves in a row, which are nested too deeply"):
        to_sql(ComposeMap((LogitAffineMap(0.9, 0.1),) * 3), "s", "sqlite")


def test_a_lenient_cast_of_text_gives_null_in_spark(spark: Any) -> None:
    """Outside its strict mode, Spark casts 'abc' to NULL, which no comparison may take for a low score."""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        rows = spark.createDataFrame([("abc",), ("",), (None,), ("0.5",)], "score string")
        for map_ in FEW:
            found = [row[0] for row in rows.selectExpr(to_sql(map_, "score", "spark")).collect()]
            assert found[:3] == [None] * 3
            assert found[3] == pytest.approx(map_.apply(0.5), rel=1e-12)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


# ------------------------------------------------------------------------------------------------------------- groups

TYPES = {
    "duckdb": {"BIGINT": "7", "TINYINT": "7", "VARCHAR": "7", "BOOLEAN": "true"},
    "postgres": {"BIGINT": "7", "SMALLINT": "7", "VARCHAR(9)": "7", "TEXT": "7", "BOOLEAN": "true"},
    "spark": {"BIGINT": "7", "TINYINT": "7", "STRING": "7", "BOOLEAN": "true"},
    "sqlite": {"INTEGER": "7", "TEXT": "7"},
}


@dialects
def test_columns_of_groups_may_be_text_whole_numbers_or_booleans(engines: dict[str, Engine], dialect: str) -> None:
    map_ = ByGroupMap("g", ("7", "true", "other"), (StepMap([], [0.1]), StepMap([], [0.2]), StepMap([], [0.3])), None)
    name = f"{DIALECTS[dialect].mark}g{DIALECTS[dialect].mark}"
    for type_, value in TYPES[dialect].items():
        text = to_sql(map_, "score", dialect).replace(name, f"CAST({name} AS {type_})")
        found = engines[dialect].run(text, "score", [0.5, 0.5], {"g": [value, None]})
        assert found == [map_.apply(0.5, value).item(), None], type_
        given = {"7": 7, "true": True}[value]
        assert map_.apply(0.5, given) == map_.apply(0.5, value)


@dialects
def test_columns_of_groups_may_be_called_anything(engines: dict[str, Engine], dialect: str) -> None:
    for name in (*HOSTILE, "stage", "p"):
        group = ByGroupMap(name, ("a",), (PiecewiseLinearMap([0.0, 1.0], [0.5, 0.9]),), StepMap([], [0.3]))
        map_ = ComposeMap((LogitAffineMap(1.0, 0.0), group, group))
        found = engines[dialect].run(to_sql(map_, "s", dialect), "s", [0.25, 0.75], {name: ["a", "b"]})
        np.testing.assert_allclose(found, map_.apply([0.25, 0.75], ["a", "b"]), rtol=1e-12, err_msg=name)


@dialects
def test_columns_of_groups_are_renamed(engines: dict[str, Engine], dialect: str) -> None:
    text = to_sql(FIFTY, "score", dialect, {"region": "area code"})
    found = engines[dialect].run(text, "score", [0.25], {"area code": ["region 7"]})
    np.testing.assert_allclose(found, FIFTY.apply([0.25], ["region 7"]), rtol=1e-12)
    for by in ({"area": "region"}, {"region": "Score"}):
        with pytest.raises(InputError, match=r"which this map does not need|must differ from the score columns"):
            to_sql(FIFTY, "score", dialect, by)


def test_engines_compare_groups_sign_by_sign(engines: dict[str, Engine]) -> None:
    """Whatever the collation of the column says."""
    map_ = ByGroupMap("g", ("a",), (StepMap([], [0.1]),), StepMap([], [0.3]))
    for dialect, engine in engines.items():
        text = to_sql(map_, "score", dialect)
        assert engine.run(text, "score", [0.5, 0.5, 0.5], {"g": ["A", "a", "a "]}) == [0.3, 0.1, 0.3]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE rows (score REAL, g TEXT COLLATE NOCASE)")
        connection.execute("INSERT INTO rows VALUES (0.5, 'A'), (0.5, 'a')")
        found = connection.execute(f"SELECT {to_sql(map_, 'score', 'sqlite')} FROM rows").fetchall()
    assert found == [(0.3,), (0.1,)]


def test_lengths_of_a_map_and_of_maps_by_group_after_it_add() -> None:
    table = PiecewiseLinearMap(np.linspace(0.01, 0.99, 90), np.linspace(0.1, 0.9, 90) ** 2)
    for dialect in EXECUTED_DIALECTS:
        alone = len(to_sql(table, "s", dialect)) + len(to_sql(FIFTY, "s", dialect))
        assert len(to_sql(ComposeMap((table, FIFTY)), "s", dialect)) < 1.1 * alone
        assert len(to_sql(ComposeMap((table, FIFTY, FIFTY)), "s", dialect)) < 2.1 * alone


def test_groups_that_a_dialect_cannot_hold_are_refused() -> None:
    flags = ByGroupMap("g", (True, False), (IdentityMap(), IdentityMap()), None)
    for dialect in ("sqlite", "mysql", "tsql", "redshift"):
        with pytest.raises(InputError, match="has no text for booleans"):
            to_sql(flags, "s", dialect)
    for dialect in ("duckdb", "postgres", "spark", "bigquery"):
        assert "'false'" in to_sql(flags, "s", dialect)
    for group, dialect in (
        ("a\\b", "bigquery"),
        ("a\nb", "mysql"),
        ("ü", "tsql"),
        ("a ", "tsql"),
        ("${a}", "databricks"),
    ):
        with pytest.raises(InputError, match=f"not tested in {dialect}"):
            to_sql(ByGroupMap("g", (group,), (IdentityMap(),), None), "s", dialect)
        assert to_sql(ByGroupMap("g", (group,), (IdentityMap(),), None), "s", "duckdb")


probabilities = st.floats(0.0, 1.0)
knots = st.lists(st.floats(-1.0, 2.0), min_size=1, max_size=6, unique=True).map(sorted)
slopes = st.floats(-8.0, 8.0)
simple = st.one_of(
    st.just(IdentityMap()),
    knots.flatmap(
        lambda k: st.lists(probabilities, min_size=len(k) + 1, max_size=len(k) + 1).map(lambda v: StepMap(k, v))
    ),
    knots.flatmap(
        lambda k: st.lists(probabilities, min_size=len(k), max_size=len(k)).map(lambda v: PiecewiseLinearMap(k, v))
    ),
    st.builds(LogitAffineMap, slopes, slopes, st.sampled_from(["log-odds", "score"])),
    st.builds(BetaMap, slopes, slopes, slopes),
)
composed = st.lists(simple, min_size=1, max_size=4).map(lambda parts: ComposeMap(tuple(parts)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(map_=composed)
def test_any_composition_agrees(engines: dict[str, Engine], map_: Map) -> None:
    """In DuckDB and SQLite, and in PostgreSQL's text as it is read back."""
    rng = np.random.default_rng(0)
    scores = np.concatenate([proof_scores(map_)[:-100_000], rng.random(300), rng.normal(0.0, 3.0, 100)])
    for engine in (engines["duckdb"], engines["sqlite"], engines["postgres"], reader("postgres")):
        try:
            text = to_sql(map_, "score", engine.dialect)
        except InputError:
            assert engine.dialect == "sqlite"  # which takes two curves inside each other
            continue
        found = engine.run(text, "score", scores.tolist())
        compare(map_, Rows(scores), np.array(found, dtype=np.float64), engine.name)
