"""A map by segment as a table of parameters and a query that joins it, executed in DuckDB, PostgreSQL and SQLite."""

from __future__ import annotations

import csv
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.postgres import Server

from calibrant import Calibration, PlattScaling, SegmentCalibrator
from calibrant.maps import ByGroupMap, ComposeMap, IdentityMap, LogitAffineMap, StepMap
from calibrant.messages import InputError
from calibrant.numerics import OUTPUT_ENDS

pytestmark = pytest.mark.engine


def lines(count: int, seed: int) -> tuple[LogitAffineMap, ...]:
    rng = np.random.default_rng(seed)
    pairs = zip(rng.uniform(0.4, 1.6, count), rng.normal(0.0, 0.6, count), strict=True)
    return tuple(LogitAffineMap(float(a), float(b), "log-odds", *OUTPUT_ENDS) for a, b in pairs)


COUNTRIES = ("de", "it's", "007", "größe", 'a,"b"', *(f"c{place}" for place in range(200)))
TWO = ComposeMap(
    (
        LogitAffineMap(0.9, 0.1),
        ByGroupMap("country", COUNTRIES, lines(len(COUNTRIES), 1), IdentityMap()),
        ByGroupMap("device", ("ios", "web"), lines(2, 2), IdentityMap()),
    )
)
ALONE = ByGroupMap("country", COUNTRIES, lines(len(COUNTRIES), 3), None)
MAPS = {"two columns": TWO, "no default": ALONE}


def table(map_: Any) -> tuple[list[tuple[Any, ...]], Any]:
    """Rows of a log, with unseen and missing segments and a missing score, and what the map gives."""
    rng = np.random.default_rng(4)
    size = 600
    scores = rng.beta(1.0, 20.0, size)
    scores[0] = np.nan
    country = rng.choice([*COUNTRIES, "DE", "never", None], size)
    device = rng.choice(["ios", "web", "tv", None], size)
    by = {name: column for name, column in {"country": country, "device": device}.items() if name in map_.columns}
    rows = [
        (place, None if score != score else score, *groups)
        for place, (score, *groups) in enumerate(zip(scores.tolist(), country.tolist(), device.tolist(), strict=True))
    ]
    return rows, map_.apply(scores, by)


def assert_equal(found: list[tuple[Any, ...]], wanted: Any) -> None:
    assert len(found) == len(wanted)
    got = np.array([row[-1] for row in sorted(found)], dtype=np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_allclose(got[~np.isnan(got)], wanted[~np.isnan(wanted)], rtol=1e-12)


DAMAGES = [
    ["INSERT INTO {table} SELECT * FROM {table}"],
    ["DELETE FROM {table} WHERE segment = 'de'"],
    ["DELETE FROM {table} WHERE segment = 'de'", "INSERT INTO {table} SELECT * FROM {table} WHERE segment = 'c7'"],
    ["UPDATE {table} SET slope = NULL WHERE segment = 'de'"],
    ["UPDATE {table} SET map_id = 'another'"],
]
"""Tables loaded twice, incomplete, as long as they should be with one segment for another, and of another map."""


def assert_no_probability(found: list[tuple[Any, ...]], wanted: Any) -> None:
    assert len(found) == len(wanted), "no row is repeated or lost"
    assert all(row[-1] is None for row in found)


@pytest.mark.parametrize("name", MAPS)
def test_duckdb_joins_the_csv(name: str, duck: Any, tmp_path: Path) -> None:
    """Segments as text, whatever the CSV reader makes of them."""
    rows, wanted = table(MAPS[name])
    Calibration(MAPS[name]).export_sql(tmp_path / "map.sql", "score", table=tmp_path / "segments.csv", rows="log")
    with duck.cursor() as connection:
        connection.execute("CREATE TEMP TABLE log(id INT, score DOUBLE, country VARCHAR, device VARCHAR)")
        connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", rows)
        read = f"read_csv('{tmp_path / 'segments.csv'}', all_varchar = true)"
        connection.execute(f"CREATE TEMP TABLE segments AS SELECT * FROM {read}")
        query = (tmp_path / "map.sql").read_text(encoding="utf-8")
        assert_equal(connection.sql(query).fetchall(), wanted)
        for damage in DAMAGES:
            connection.execute("CREATE OR REPLACE TEMP TABLE loaded AS SELECT * FROM segments")
            for statement in damage:
                connection.execute(statement.format(table="loaded"))
            assert_no_probability(connection.sql(query.replace("FROM segments", "FROM loaded")).fetchall(), wanted)


def test_duckdb_joins_the_parquet_file(duck: Any, tmp_path: Path) -> None:
    """Also of many keys: the text and its comments do not grow."""
    names = tuple(f"campaign {j}" for j in range(3_000))
    many = ByGroupMap("country", names, lines(len(names), 7), IdentityMap())
    for map_ in (TWO, many):
        rows, wanted = table(map_)
        Calibration(map_).export_sql(tmp_path / "map.sql", "score", table=tmp_path / "segments.parquet", rows="log")
        query = (tmp_path / "map.sql").read_text(encoding="utf-8")
        assert len(query) < 5_000
        with duck.cursor() as connection:
            connection.execute("CREATE TEMP TABLE log(id INT, score DOUBLE, country VARCHAR, device VARCHAR)")
            connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", rows)
            connection.execute(f"CREATE TEMP TABLE segments AS SELECT * FROM '{tmp_path / 'segments.parquet'}'")
            assert_equal(connection.sql(query).fetchall(), wanted)
            connection.execute("DROP TABLE log; DROP TABLE segments")


def test_postgres_joins_the_inserted_table(postgres: Server, tmp_path: Path) -> None:
    rows, wanted = table(TWO)
    with postgres.connect() as connection:
        Calibration(TWO).export_sql(
            tmp_path / "map.sql",
            "score",
            "postgres",
            table=tmp_path / "segments.sql",
            rows="log",
            connection=connection,
        )
        cursor = connection.cursor()
        cursor.execute("CREATE TEMP TABLE log(id INT, score FLOAT8, country TEXT, device TEXT)")
        cursor.executemany("INSERT INTO log VALUES (%s, %s, %s, %s)", rows)
        made = (tmp_path / "segments.sql").read_text(encoding="utf-8").replace("CREATE TABLE", "CREATE TEMP TABLE")
        cursor.execute(made)
        query = (tmp_path / "map.sql").read_text(encoding="utf-8")
        cursor.execute(query)
        assert_equal(cursor.fetchall(), wanted)
        for place, damage in enumerate(DAMAGES):
            loaded = f"loaded_{place}"
            cursor.execute(f"CREATE TEMP TABLE {loaded} AS SELECT * FROM segments")
            for statement in damage:
                cursor.execute(statement.format(table=loaded))
            cursor.execute(query.replace("FROM segments", f"FROM {loaded}"))
            assert_no_probability(cursor.fetchall(), wanted)


def test_sqlite_joins_the_inserted_table(tmp_path: Path) -> None:
    rows, wanted = table(TWO)
    Calibration(TWO).export_sql(tmp_path / "map.sql", "score", "sqlite", table=tmp_path / "segments.sql", rows="log")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript((tmp_path / "segments.sql").read_text(encoding="utf-8"))
        connection.execute("CREATE TABLE log(id, score, country, device)")
        connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", rows)
        query = (tmp_path / "map.sql").read_text(encoding="utf-8")
        assert_equal(connection.execute(query).fetchall(), wanted)
        for statement in DAMAGES[2]:
            connection.execute(statement.format(table="segments"))
        assert_no_probability(connection.execute(query).fetchall(), wanted)


def test_the_table_holds_the_numbers_of_the_map_and_the_text_does_not_grow(tmp_path: Path) -> None:
    proof = Calibration(TWO).export_sql(tmp_path / "map.sql", "score", table=tmp_path / "segments.csv")
    assert proof.scores > 100_000
    with (tmp_path / "segments.csv").open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    steps = [part for part in TWO.maps if isinstance(part, ByGroupMap)]
    wanted = [(part.by, group, line) for part in steps for group, line in zip(part.groups, part.maps, strict=True)]
    assert len(read) == len(wanted)
    for row, (by, group, line) in zip(read, wanted, strict=True):
        assert (row["segment_column"], row["segment"]) == (by, group)
        assert (float(row["slope"]), float(row["intercept"])) == (line.slope, line.intercept)
    assert len((tmp_path / "map.sql").read_text(encoding="utf-8")) < 5_000


@pytest.mark.parametrize("dialect", ["bigquery", "snowflake", "redshift"])
def test_other_dialects_say_that_they_were_not_executed(dialect: str, tmp_path: Path) -> None:
    Calibration(ALONE).export_sql(tmp_path / "map.sql", "score", dialect, table=tmp_path / "segments.csv")
    assert f"generated, not executed on {dialect}" in (tmp_path / "map.sql").read_text(encoding="utf-8")


def test_dbt_gets_a_model_a_seed_and_its_types(tmp_path: Path) -> None:
    seed = tmp_path / "segments.csv"
    Calibration(TWO).export_sql(tmp_path / "model.sql", "score", table=seed, rows="log", dbt=True)
    text = (tmp_path / "model.sql").read_text(encoding="utf-8")
    assert text.count("{{ ref('segments') }}") == 3
    assert text.count("{{ ref('log') }}") == 1
    assert "        segment: varchar\n" in (tmp_path / "segments.yml").read_text(encoding="utf-8")


def test_a_fit_without_differences_keeps_its_files(duck: Any, tmp_path: Path) -> None:
    """A daily job goes on: the table is empty, the query joins it, and names of columns of segments are ignored."""
    rng = np.random.default_rng(3)
    scores = rng.beta(1.0, 20.0, 4_000)
    fitted = SegmentCalibrator(PlattScaling()).fit(scores, rng.random(4_000) < scores, rng.choice(["de", "us"], 4_000))
    assert fitted.map_.columns == ()
    csv_file, query = tmp_path / "segments.csv", tmp_path / "map.sql"
    fitted.export_sql(query, "score", table=csv_file, rows="log", by={"segment": "country"})
    assert "No segment was found to differ, so the table segments has no rows" in query.read_text(encoding="utf-8")
    assert fitted.to_sql("score", by={"segment": "country"}) == fitted.to_sql("score")
    with duck.cursor() as connection:
        connection.execute(f"CREATE TEMP TABLE segments AS FROM read_csv('{csv_file}', all_varchar = true)")
        connection.execute(
            "CREATE TEMP TABLE log AS SELECT * FROM (VALUES (0.01, 'de'), (0.2, 'us')) AS t(score, country)"
        )
        found = connection.sql(query.read_text(encoding="utf-8")).fetchall()
    assert [row[-1] for row in found] == pytest.approx(fitted.transform([0.01, 0.2]), rel=1e-12)


def test_what_cannot_be_a_table_is_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    other = ByGroupMap("country", ("de",), (StepMap([], [0.2]),), None)
    empty = ByGroupMap("country", ("",), lines(1, 5), IdentityMap())
    for map_, why in ((IdentityMap(), "no segments"), (other, "other maps"), (empty, "empty text")):
        with subtests.test(why), pytest.raises(InputError, match=why):
            Calibration(map_).export_sql(tmp_path / "map.sql", "score", table=tmp_path / "segments.csv")
    cases = [
        ({"table": "segments.txt"}, "unknown type"),
        ({"table": "segments.csv", "rows": "a b"}, "plain name"),
        ({"dbt": True}, "needs a table"),
        ({"rows": "log"}, "needs a table"),
        ({"table": "segments.sql", "dbt": True}, "unknown type"),
    ]
    for given, why in cases:
        with subtests.test(str(given)), pytest.raises(InputError, match=why):
            Calibration(TWO).export_sql(tmp_path / "map.sql", "score", **given)
    assert not list(tmp_path.iterdir())
