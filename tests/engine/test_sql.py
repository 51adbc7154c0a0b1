"""Every map kind as SQL, executed in DuckDB, against `apply`."""

import numpy as np
import pytest

from calibrant.export.sql import to_sql
from calibrant.maps import KINDS, BetaMap, ComposeMap, IdentityMap, LogitAffineMap, PiecewiseLinearMap, StepMap

pytestmark = pytest.mark.engine

RNG = np.random.default_rng(5)
KNOTS = np.unique(RNG.random(400) ** 3)
SAMPLES = [
    IdentityMap(),
    StepMap(KNOTS, RNG.random(len(KNOTS) + 1)),
    StepMap([], [0.3]),
    PiecewiseLinearMap(KNOTS, np.sort(RNG.random(len(KNOTS)))),
    PiecewiseLinearMap([0.5], [0.3]),
    LogitAffineMap(1.3, -0.4),
    LogitAffineMap(4.0, -2.0, on="score"),
    LogitAffineMap(-900.0, 1e6),
    BetaMap(0.7, 1.4, 0.2),
    ComposeMap((LogitAffineMap(1.3, -0.4), PiecewiseLinearMap([0.01, 0.99], [0.01, 0.99]))),
]
EXACT = (IdentityMap, StepMap)


def test_every_kind_has_a_sample():
    assert {type(sample) for sample in SAMPLES} == set(KINDS.values())


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_duckdb_gives_what_apply_gives(sample):
    duckdb = pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    beside = np.concatenate([KNOTS, np.nextafter(KNOTS, 0), np.nextafter(KNOTS, 1)])
    scores = np.concatenate([[0.0, 1.0, 0.5, 5e-324, 2**-32, 1 - 2**-53], beside, RNG.random(100_000)])
    table = pa.table({"id": np.arange(len(scores)), "score": scores})
    with duckdb.connect() as connection:
        rows = connection.from_arrow(table)
        found = rows.project(f"id, {to_sql(sample, 'score')} AS p").order("id").fetchnumpy()["p"]
    expected = sample.apply(scores)
    if isinstance(sample, EXACT):
        assert np.array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_null_and_nan_give_null(sample):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        rows = connection.sql("SELECT * FROM (VALUES (NULL::DOUBLE), ('nan'::DOUBLE)) AS t(score)")
        assert rows.project(f"{to_sql(sample, 'score')} IS NULL").fetchall() == [(True,), (True,)]
