"""The queries that the benchmark of engines is held against count and calibrate as the library does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import by_hand

from calibrant.maps import LogitAffineMap, StepMap
from calibrant.numerics import Grid
from calibrant.tallies import SEGMENT_GRID, Tally

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.engine

ROWS = 100_000
MAPS = [LogitAffineMap(0.7, -0.2), StepMap(np.linspace(0.01, 0.99, 99), np.linspace(0.1, 0.9, 100))]


@pytest.fixture(scope="module")
def rows() -> Mapping[str, Any]:
    """Ordinary scores, scores of every octave on both sides, and those with cells of their own."""
    rng = np.random.default_rng(60)
    rare = np.ldexp(1.0 + rng.random(20_000), -rng.integers(1, 60, 20_000))
    special = [0.0, 0.5, 1.0, 2.0**-32, np.nextafter(2.0**-32, 0.0), 1.0 - 2.0**-32, 1.0 - 2.0**-53, 5e-324]
    scores = np.concatenate([special, rare, 1.0 - rare, rng.beta(1.2, 4.0, ROWS - 2 * len(rare) - len(special))])
    segment = rng.integers(0, 7, ROWS).astype(np.int32)
    return {"score": scores, "label": rng.binomial(1, scores).astype(np.int8), "segment": segment}


@pytest.fixture(scope="module")
def folder(rows: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    table = pa.table(dict(rows))
    pq.write_table(table.slice(0, 60_000), folder / "a.parquet")
    pq.write_table(table.slice(60_000), folder / "b.parquet")
    return folder


@pytest.fixture(params=["duckdb", "polars", "spark"])
def engine(request: pytest.FixtureRequest) -> by_hand.Engine:
    if request.param == "spark":
        request.getfixturevalue("spark")  # the session of the other tests, which this one then shares
    return by_hand.ENGINES[request.param]()


def _same(a: Tally, b: Tally) -> bool:
    return a.fingerprint == b.fingerprint and np.array_equal(a.cells.offset, b.cells.offset)


def test_the_queries_count_as_the_library_does(engine: by_hand.Engine, folder: Path, rows: Mapping[str, Any]) -> None:
    there = by_hand.tally(engine.counts(folder, Grid()), Grid())
    assert _same(there, Tally.from_arrays(rows["score"], rows["label"], grid=Grid()))


def test_the_queries_count_segments_as_the_library_does(
    engine: by_hand.Engine, folder: Path, rows: Mapping[str, Any]
) -> None:
    there = by_hand.grouped(engine.counts(folder, SEGMENT_GRID, "segment"), SEGMENT_GRID, "segment")
    assert sorted(there) == list(range(7))
    for key, tally in there.items():
        part = rows["segment"] == key
        assert _same(tally, Tally.from_arrays(rows["score"][part], rows["label"][part], grid=SEGMENT_GRID))


def test_cells_of_equal_width_hold_every_row(engine: by_hand.Engine, folder: Path, rows: Mapping[str, Any]) -> None:
    there = by_hand.uniform_tally(engine.uniform(folder, 256), 256)
    cell = np.floor(rows["score"] * 256).astype(int)
    np.testing.assert_array_equal(there.scores, np.append((np.arange(256) + 0.5) / 256, 1.0))
    np.testing.assert_array_equal(there.n, np.bincount(cell))  # none is empty
    np.testing.assert_array_equal(there.events, np.bincount(cell, weights=rows["label"]))


def test_the_written_column_is_the_map(
    subtests: pytest.Subtests, engine: by_hand.Engine, folder: Path, tmp_path: Path
) -> None:
    for number, map_ in enumerate(MAPS):
        with subtests.test(map_=map_):
            engine.apply(folder, map_, tmp_path / f"{number}.parquet")
            written = pq.read_table(tmp_path / f"{number}.parquet")
            assert written.num_rows == ROWS
            np.testing.assert_allclose(
                written["calibrated"].to_numpy(), map_.apply(written["score"].to_numpy()), rtol=1e-12
            )
