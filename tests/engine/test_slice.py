"""The thin slice: rows in numpy, DuckDB and Spark, one tally, one map, one metric, and back to DuckDB as SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant.calibrators.binary.scaling import PlattScaling
from calibrant.engine.frames import tally
from calibrant.export.sql.expressions import to_sql
from calibrant.maps import LogitAffineMap
from calibrant.metrics.binary.errors import ece
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.engine

ROWS = 200_000
HOSTILE = [
    "score",
    "my score",
    'a"b',
    '"',
    '""',
    "a'b",
    'x"; DROP TABLE rows; --',
    "SELECT",
    "order",
    "größe µ 数 🙂",
    "a.b",
    "`tick`",
    "%s {x} $1 ? :name",
    "back\\slash",
    "new\nline",
    "1 + 1",
    "/* comment",
    "code",
    "offset",
    "label",
    "n",
]


@pytest.fixture(scope="module")
def table() -> Any:
    rng = np.random.default_rng(30)
    scores = rng.beta(0.7, 1.6, ROWS)
    labels = rng.random(ROWS) < 1.0 / (1.0 + np.exp(-(0.6 * np.log(scores / (1.0 - scores)) - 0.4)))
    return pa.table({"id": np.arange(ROWS), "s": scores, "y": labels.astype(np.int64)})


@pytest.fixture(scope="module")
def tallies(table: Any, duck: Any, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tally]:
    path = tmp_path_factory.mktemp("slice") / "rows.parquet"
    pq.write_table(table, path)
    return {
        "numpy": Tally.from_arrays(table["s"].to_numpy(), table["y"].to_numpy(), grid=Grid()),
        "duckdb": tally(duck.read_parquet(str(path)), "s", "y"),
        "spark": tally(spark.read.parquet(path.as_uri()), "s", "y"),
    }


def _assert_same(a: Tally, b: Tally) -> None:
    for column in ("keys", "n", "events", "offset"):
        ours, theirs = getattr(a.cells, column), getattr(b.cells, column)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert (a.grid, a.score_type, a.resolution, a.counts) == (b.grid, b.score_type, b.resolution, b.counts)
    assert a.fingerprint == b.fingerprint


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_the_same_rows_give_the_same_tally_map_and_error(tallies: dict[str, Tally], engine: str) -> None:
    here, there = tallies["numpy"], tallies[engine]
    _assert_same(here, there)
    assert PlattScaling().fit_tally(there).map_ == PlattScaling().fit_tally(here).map_
    assert ece(there).value == ece(here).value


def test_the_grid_hardly_moves_the_answers(table: Any, tallies: dict[str, Tally]) -> None:
    exact = Tally.from_arrays(table["s"].to_numpy(), table["y"].to_numpy())
    gridded = PlattScaling().fit_tally(tallies["duckdb"]).map_
    reference = PlattScaling().fit_tally(exact).map_
    assert gridded.slope == pytest.approx(reference.slope, abs=1e-6)
    assert gridded.intercept == pytest.approx(reference.intercept, abs=1e-6)
    assert ece(tallies["duckdb"]).value == pytest.approx(ece(exact).value, abs=1e-4)


def test_parts_from_three_engines_add_up_to_the_whole(
    table: Any, tallies: dict[str, Tally], duck: Any, spark: Any
) -> None:
    first, second, third = table.slice(0, 70_001), table.slice(70_001, 50_000), table.slice(120_001)
    parts = [
        Tally.from_arrays(first["s"].to_numpy(), first["y"].to_numpy(), grid=Grid()),
        tally(duck.from_arrow(second), "s", "y", grid=Grid()),
        tally(spark.createDataFrame(third), "s", "y", grid=Grid()),
    ]
    _assert_same(parts[2] + parts[0] + parts[1], tallies["numpy"])


def _run_sql(duck: Any, map_: Any, scores: Any, column: str = "score") -> Any:
    """What DuckDB makes of the map's SQL text over a table whose one column has this name."""
    relation = duck.from_arrow(pa.table({column: pa.array(scores, pa.float64())}))
    return relation.query("rows", f"SELECT {to_sql(map_, column)} FROM rows").to_arrow_table().column(0)


def test_the_map_runs_as_sql_whatever_the_column_is_called(
    subtests: pytest.Subtests, tallies: dict[str, Tally], duck: Any
) -> None:
    for column in HOSTILE:
        with subtests.test(column=column):
            map_ = PlattScaling().fit_tally(tallies["duckdb"]).map_
            scores = np.linspace(0.0, 1.0, 101)
            got = _run_sql(duck, map_, scores, column).to_numpy()
            np.testing.assert_allclose(got, map_.apply(scores), rtol=1e-12, atol=0.0)


def test_the_tally_counts_whatever_the_columns_are_called(subtests: pytest.Subtests, duck: Any) -> None:
    for column in HOSTILE:
        with subtests.test(column=column):
            small = pa.table({column: [0.1, 0.1, 0.9], f"{column}'s label": [0, 1, 1]})
            got = tally(duck.from_arrow(small), column, f"{column}'s label")
            assert (got.n.tolist(), got.events.tolist()) == ([2, 1], [1, 1])


def test_spark_counts_whatever_the_columns_are_called(subtests: pytest.Subtests, spark: Any) -> None:
    for column in ["a.b", "`tick`", "größe µ 数", "select", "a b", "code"]:
        with subtests.test(column=column):
            small = pa.table({column: [0.1, 0.1, 0.9], f"{column} label": [0, 1, 1]})
            got = tally(spark.createDataFrame(small), column, f"{column} label")
            assert (got.n.tolist(), got.events.tolist()) == ([2, 1], [1, 1])


def test_sql_agrees_with_apply_on_every_kind_of_score(subtests: pytest.Subtests, duck: Any) -> None:
    for map_ in [
        LogitAffineMap(0.6, -0.4),
        LogitAffineMap(1.0, 0.0),
        LogitAffineMap(50.0, 3.0),
        LogitAffineMap(0.0, -2.0),
        LogitAffineMap(1.7, 0.2, on="score"),
        LogitAffineMap(-1e300, 1e300, on="score"),
    ]:
        with subtests.test(map_=map_):
            rng = np.random.default_rng(31)
            rare = np.ldexp(1.0 + rng.random(20_000), -rng.integers(1, 60, 20_000))
            special = [0.0, -0.0, 0.5, 1.0, 2.0**-32, 2.0**-33, 1.0 - 2.0**-32, 1.0 - 2.0**-53, 5e-324]
            scores = np.concatenate([rng.random(50_000), rare, 1.0 - rare, special])
            got = _run_sql(duck, map_, scores).to_numpy()
            np.testing.assert_allclose(got, map_.apply(scores), rtol=1e-12, atol=0.0)
            assert ((got > 0.0) & (got < 1.0)).all()


def test_missing_scores_give_null(tallies: dict[str, Tally], duck: Any) -> None:
    map_ = PlattScaling().fit_tally(tallies["duckdb"]).map_
    got = _run_sql(duck, map_, pa.array([0.25, None, float("nan"), 0.75])).to_pylist()
    assert got[1] is None
    assert got[2] is None
    np.testing.assert_allclose([got[0], got[3]], map_.apply([0.25, 0.75]), rtol=1e-12)


def test_float32_columns_run_as_sql(duck: Any) -> None:
    map_ = LogitAffineMap(0.6, -0.4)
    scores = np.random.default_rng(32).random(1_000, dtype=np.float32)
    relation = duck.from_arrow(pa.table({"score": scores}))
    got = relation.query("rows", f"SELECT {to_sql(map_, 'score')} FROM rows").to_arrow_table().column(0).to_numpy()
    np.testing.assert_allclose(got, map_.apply(scores.astype(np.float64)), rtol=1e-12, atol=0.0)


def test_the_slice_ends_where_it_began(table: Any, tallies: dict[str, Tally], duck: Any, tmp_path: Path) -> None:
    """Fit, store, load, calibrate in the database, and audit the calibrated column there: the error is gone."""
    from calibrant.calibration import load

    cal = PlattScaling().fit_tally(tallies["duckdb"])
    cal.save(tmp_path / "cal.json")
    text = load(tmp_path / "cal.json").to_sql("s")
    rows = duck.from_arrow(table)
    after = tally(rows.query("rows", f"SELECT {text} AS p, y FROM rows"), "p", "y")
    assert after.total == ROWS
    assert ece(after).value < 0.005 < 0.05 < ece(tallies["duckdb"]).value
