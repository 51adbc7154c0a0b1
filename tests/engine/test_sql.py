"""Every map kind as SQL, executed in DuckDB and Spark, against `apply`."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calibrant.export import sql
from calibrant.export.sql import EXECUTED_DIALECTS, to_sql
from calibrant.maps import KINDS, BetaMap, ComposeMap, IdentityMap, LogitAffineMap, PiecewiseLinearMap, StepMap

pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.engine

RNG = np.random.default_rng(5)
KNOTS = np.unique(RNG.random(100) ** 3)
SAMPLES = [
    IdentityMap(),
    StepMap(KNOTS, RNG.random(len(KNOTS) + 1)),
    StepMap([], [0.3]),
    PiecewiseLinearMap(KNOTS[::5], np.sort(RNG.random(len(KNOTS[::5])))),
    PiecewiseLinearMap([0.5], [0.3]),
    LogitAffineMap(1.3, -0.4),
    LogitAffineMap(4.0, -2.0, on="score"),
    LogitAffineMap(-1e300, 1e300, on="score"),
    LogitAffineMap(-900.0, 1e6),
    BetaMap(0.7, 1.4, 0.2),
    ComposeMap((LogitAffineMap(1.3, -0.4), PiecewiseLinearMap([0.01, 0.99], [0.01, 0.99]))),
]
EXACT = (IdentityMap, StepMap)
BESIDE = np.concatenate([KNOTS, np.nextafter(KNOTS, 0), np.nextafter(KNOTS, 1)])
SCORES = np.concatenate([[0.0, 1.0, 0.5, 5e-324, 2**-32, 1 - 2**-53], BESIDE, RNG.random(5_000)])
HOSTILE = [
    "score",
    "my score",
    'a"b',
    "a'b",
    "x`; DROP TABLE rows; --",
    "SELECT",
    "größe µ 数 🙂",
    "a.b",
    "`tick`",
    "%s {x} $1 ? :name",
    "back\\slash",
    "new\nline",
    "/* comment",
]

Run = Callable[[Any, list[str]], Any]


@pytest.fixture(scope="module")
def run(duck: Any, spark: Any) -> dict[str, Run]:
    """By dialect: a table and expressions over it to a table of their values, in the order of the rows."""

    def on_duckdb(table: Any, texts: list[str]) -> Any:
        columns = ", ".join(f"{text} AS c{place}" for place, text in enumerate(texts))
        return duck.from_arrow(table).query("rows", f"SELECT {columns} FROM rows").to_arrow_table()

    def on_spark(table: Any, texts: list[str]) -> Any:
        rows = spark.createDataFrame(table).coalesce(1)
        return rows.selectExpr(*(f"{text} AS c{place}" for place, text in enumerate(texts))).toArrow()

    return {"duckdb": on_duckdb, "spark": on_spark}


def test_every_kind_has_a_sample() -> None:
    assert {type(sample) for sample in SAMPLES} == set(KINDS.values())


@pytest.mark.parametrize("dialect", EXECUTED_DIALECTS)
def test_engines_give_what_apply_gives(run: dict[str, Run], dialect: str) -> None:
    found = run[dialect](pa.table({"score": SCORES}), [to_sql(sample, "score", dialect) for sample in SAMPLES])
    for place, sample in enumerate(SAMPLES):
        values, expected = found.column(place).to_numpy(), sample.apply(SCORES)
        assert values.dtype == np.float64
        if isinstance(sample, EXACT):
            assert np.array_equal(values, expected), sample
        else:
            np.testing.assert_allclose(values, expected, rtol=1e-12, atol=0, err_msg=repr(sample))


@pytest.mark.parametrize("dialect", EXECUTED_DIALECTS)
def test_null_and_nan_give_null(run: dict[str, Run], dialect: str) -> None:
    rows = pa.table({"score": pa.array([None, float("nan")], pa.float64())})
    found = run[dialect](rows, [to_sql(sample, "score", dialect) for sample in SAMPLES])
    assert all(column.null_count == 2 for column in found.columns)


@pytest.mark.parametrize("dialect", EXECUTED_DIALECTS)
def test_other_types_are_cast_to_double_first(run: dict[str, Run], dialect: str) -> None:
    single = RNG.random(500, dtype=np.float32)
    whole = np.arange(500) % 2
    rows = pa.table({"single": single, "whole": whole, "tiny": whole.astype(np.int8), "flag": whole == 1})
    texts = [to_sql(sample, name, dialect) for name in rows.column_names for sample in SAMPLES]
    found = iter(run[dialect](rows, texts).columns)
    for name in rows.column_names:
        scores = rows[name].to_numpy().astype(np.float64)
        for sample in SAMPLES:
            values = next(found).to_numpy()
            assert values.dtype == np.float64
            np.testing.assert_allclose(values, sample.apply(scores), rtol=1e-12, atol=0)


@pytest.mark.parametrize("dialect", EXECUTED_DIALECTS)
def test_every_double_survives_as_a_literal(run: dict[str, Run], dialect: str) -> None:
    bits = RNG.integers(0, 2**63, 400, dtype=np.uint64).view(np.float64)
    special = [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e300, 1e22, 1e23, 1e16, 0.1, 1.0, 0.0, -0.0]
    numbers = [*special, *bits[np.isfinite(bits)].tolist(), *(-bits[np.isfinite(bits)][:20]).tolist()]
    numbers += RNG.random(200).tolist()
    found = run[dialect](pa.table({"one": [1]}), [sql._literal(number) for number in numbers])
    values = [column[0].as_py() for column in found.columns]
    assert all(type(value) is float for value in values)
    assert struct.pack(f"{len(numbers)}d", *values) == struct.pack(f"{len(numbers)}d", *numbers)


@pytest.mark.parametrize("dialect", EXECUTED_DIALECTS)
def test_a_thousand_steps_run(run: dict[str, Run], dialect: str) -> None:
    knots = np.linspace(0.0005, 0.9995, 1_000)
    map_ = StepMap(knots, np.linspace(0.0, 1.0, 1_001) ** 2)
    scores = np.concatenate([knots, np.nextafter(knots, 0), RNG.random(5_000)])
    found = run[dialect](pa.table({"score": scores}), [to_sql(map_, "score", dialect)])
    assert np.array_equal(found.column(0).to_numpy(), map_.apply(scores))


@pytest.mark.parametrize("dialect", EXECUTED_DIALECTS)
def test_columns_may_be_called_anything(run: dict[str, Run], dialect: str) -> None:
    rows = pa.table({name: [place / 20] for place, name in enumerate(HOSTILE)})
    found = run[dialect](rows, [to_sql(IdentityMap(), name, dialect) for name in HOSTILE])
    assert [column[0].as_py() for column in found.columns] == [place / 20 for place in range(len(HOSTILE))]


def test_spark_must_not_read_a_name_as_a_variable() -> None:
    with pytest.raises(ValueError, match="rename the column"):
        to_sql(IdentityMap(), "${env:HOME}", "spark")
    assert "${env:HOME}" in to_sql(IdentityMap(), "${env:HOME}", "duckdb")


def test_dialects_that_were_not_run_are_not_written() -> None:
    with pytest.raises(ValueError, match="one of duckdb, spark, got 'oracle'"):
        to_sql(IdentityMap(), "s", "oracle")
