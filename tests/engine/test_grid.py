"""The grid puts every score in the same cell, at the same offset, in every engine: zero differences."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant.arrays.frames import collect_frame
from calibrant.engine.engines import with_cells
from calibrant.engine.frames import tally
from calibrant.numerics import Grid
from calibrant.tallies import Tally

nw = pytest.importorskip("narwhals")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.engine

ROWS = 600_000
ENGINES = ("duckdb", "spark", "polars", "polars-lazy", "pandas", "pyarrow")
GRIDS = {
    "unit": Grid(),
    "segments": Grid(bits=4),
    "coarsest": Grid(bits=0),
    "finest": Grid(bits=16),
    "logits": Grid(low=-8.0, high=8.0),
    "ragged range": Grid(bits=7, low=-2.7, high=10.1),
}
CASES = [
    (engine, name) for name in GRIDS for engine in ENGINES if engine != "spark" or name not in ("coarsest", "finest")
]


def _neighbors(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.nextafter(x, 0.0), np.nextafter(x, 1.0)])


def _edges(bits: int) -> np.ndarray:
    """Every q at which a cell of the grid begins, from the definition and not from the package."""
    inside = 1.0 + np.arange(1 << bits) / (1 << bits)
    return np.concatenate([np.ldexp(inside, -o) for o in range(2, 33)])


def _unit_scores() -> np.ndarray:
    """Edges and their neighbors, special values, coarse decimals, float32 values and plain randomness."""
    rng = np.random.default_rng(20)
    q = _edges(10)
    tiny = np.finfo(np.float64).tiny
    special = np.array(
        [0.0, -0.0, 0.5, 1.0, 2.0**-32, 1.0 - 2.0**-32, 2.0**-33, 1.0 - 2.0**-33, tiny, tiny / 2, 5e-324]
    )
    parts = [
        _neighbors(q),
        _neighbors(1.0 - q),
        _neighbors(special[special > 0.0]),
        special,
        np.arange(10_001) / 10_000,
        np.arange(1, 64) * 5e-324,
        1.0 - np.arange(1, 2_049) * 2.0**-53,
        rng.random(100_000, dtype=np.float32).astype(np.float64),
        np.ldexp(1.0 + rng.random(150_000), -rng.integers(1, 70, 150_000)),
        1.0 - np.ldexp(rng.random(100_000), -rng.integers(1, 54, 100_000)),
    ]
    known = np.clip(np.concatenate(parts), 0.0, 1.0)
    return np.concatenate([known, rng.random(ROWS - len(known))])


def _range_scores(grid: Grid) -> np.ndarray:
    """Scores of a declared range: the images of cell edges, their neighbors, the ends and randomness."""
    rng = np.random.default_rng(21)
    unit = np.concatenate([_edges(grid.bits), 1.0 - _edges(grid.bits), [0.0, 0.5, 1.0]])
    images = grid.low + unit * (grid.high - grid.low)
    around = np.concatenate([images, np.nextafter(images, grid.low), np.nextafter(images, grid.high), [0.0, -0.0]])
    inside = around[(around >= grid.low) & (around <= grid.high)]
    return np.concatenate([inside, rng.uniform(grid.low, grid.high, ROWS // 5)])


@pytest.fixture(scope="module")
def unit_scores() -> np.ndarray:
    scores = _unit_scores()
    assert len(scores) == ROWS
    return scores


@pytest.fixture(scope="module")
def frames(
    unit_scores: np.ndarray, duck: Any, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], Any]:
    """The same rows (id, s, y) as a frame of any engine, by the name of the grid that they are made for."""
    folder = tmp_path_factory.mktemp("grid")
    made: dict[str, tuple[Any, Path]] = {}

    def frame(engine: str, grid: str) -> Any:
        if grid not in made:
            scores = unit_scores if GRIDS[grid].unit else _range_scores(GRIDS[grid])
            labels = np.random.default_rng(22).integers(0, 2, len(scores))
            table = pa.table({"id": np.arange(len(scores)), "s": scores, "y": labels})
            path = folder / f"{len(made)}.parquet"
            pq.write_table(table, path)
            made[grid] = table, path
        table, path = made[grid]
        readers: dict[str, Callable[[], Any]] = {
            "duckdb": lambda: duck.read_parquet(str(path)),
            "spark": lambda: spark.read.parquet(path.as_uri()),
            "polars": lambda: pl.from_arrow(table),
            "polars-lazy": lambda: pl.scan_parquet(path),
            "pandas": table.to_pandas,
            "pyarrow": lambda: table,
        }
        return readers[engine]()

    return frame


def _cells(frame: Any, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Cell and offset of each row, computed by the engine, in the order of ``id``."""
    rows = collect_frame(with_cells(nw.from_native(frame).select("id", "s", g=nw.col("id") >= 0), "s", "g", grid)).sort(
        "id"
    )
    return rows["code"].to_numpy(), rows["offset"].to_numpy()


def test_a_score_that_is_none_is_in_no_cell(subtests: pytest.Subtests, duck: Any, spark: Any) -> None:
    for engine in ENGINES:
        with subtests.test(engine=engine):
            scores = [
                0.25,
                None,
                1.0,
                float("nan"),
                -5e-324,
                -0.5,
                float(np.nextafter(1.0, 2.0)),
                1e300,
                float("inf"),
                -float("inf"),
            ]
            table = pa.table({"id": range(len(scores)), "s": pa.array(scores, pa.float64())})
            makers = {
                "duckdb": duck.from_arrow,
                "spark": spark.createDataFrame,
                "polars": pl.from_arrow,
                "polars-lazy": lambda rows: pl.from_arrow(rows).lazy(),
                "pandas": lambda rows: rows.to_pandas(),
                "pyarrow": lambda rows: rows,
            }
            for grid in (Grid(), Grid(16), Grid(0)):
                codes, _ = _cells(makers[engine](table), grid)
                inside = np.abs(codes) <= grid.top  # NaN, for no code, is not
                assert inside.tolist() == [True, False, True] + [False] * 7
                assert codes[inside].tolist() == grid.codes(np.array([0.25, 1.0])).tolist()


def test_every_score_has_the_same_cell_and_offset(subtests: pytest.Subtests, frames: Callable[[str, str], Any]) -> None:
    for engine, name in CASES:
        with subtests.test(engine=engine, name=name):
            grid = GRIDS[name]
            codes, offsets = grid.cells(frames("pyarrow", name)["s"].to_numpy())
            engine_codes, engine_offsets = _cells(frames(engine, name), grid)
            assert engine_codes.dtype == np.int32
            assert np.count_nonzero(engine_codes != codes) == 0
            assert np.count_nonzero(engine_offsets != offsets) == 0


def test_the_tally_is_bit_equal(subtests: pytest.Subtests, frames: Callable[[str, str], Any]) -> None:
    for engine in ENGINES:
        for name in ["unit", "segments"]:
            with subtests.test(engine=engine, name=name):
                table = frames("pyarrow", name)
                expected = Tally.from_arrays(table["s"].to_numpy(), table["y"].to_numpy(), grid=GRIDS[name])
                got = tally(frames(engine, name), "s", "y", grid=GRIDS[name])
                for column in ("keys", "n", "events", "offset"):
                    ours, theirs = getattr(expected.cells, column), getattr(got.cells, column)
                    assert ours.dtype == theirs.dtype
                    np.testing.assert_array_equal(ours, theirs)
                assert got.fingerprint == expected.fingerprint


def _by_definition(score: float, grid: Grid) -> tuple[int, int]:
    """Cell and offset in rational arithmetic, from the definition in the design alone."""
    s = Fraction(score)
    upper = s >= Fraction(1, 2)
    q = 1 - s if upper else s
    outermost = (31 << grid.bits) + 2
    if q == Fraction(1, 2):
        return 0, 0
    if q == 0:
        distance, offset = outermost, 0
    elif q < Fraction(1, 2**32):
        distance, offset = outermost - 1, int(q * 2**62)
    else:
        octave = next(o for o in range(2, 33) if q >= Fraction(1, 2**o))
        position = int((q * 2**octave - 1) * 2**30)
        cell, offset = divmod(position, 1 << (30 - grid.bits))
        distance = ((octave - 1) << grid.bits) - cell
    return (distance if upper else -distance), offset


def test_numpy_follows_the_definition(subtests: pytest.Subtests, unit_scores: np.ndarray) -> None:
    for bits in [0, 4, 10, 16]:
        with subtests.test(bits=bits):
            grid = Grid(bits=bits)
            sample = np.random.default_rng(23).choice(len(unit_scores), 4_000, replace=False)
            special = np.array([0.0, -0.0, 0.5, 1.0, 2.0**-32, np.nextafter(2.0**-32, 0), 1.0 - 2.0**-32, 5e-324])
            scores = np.concatenate([unit_scores[sample], special, np.nextafter(special, 0.5)])
            codes, offsets = grid.cells(scores)
            assert list(zip(codes.tolist(), offsets.tolist(), strict=True)) == [
                _by_definition(s, grid) for s in scores.tolist()
            ]


def test_codes_ascend_and_mirror(unit_scores: np.ndarray) -> None:
    ordered = np.sort(unit_scores)
    codes = Grid().codes(ordered)
    assert (np.diff(codes) >= 0).all()
    assert len(np.unique(codes)) == 2 * Grid().top + 1  # every cell is hit
    exact = ordered[1.0 - (1.0 - ordered) == ordered]
    np.testing.assert_array_equal(Grid().codes(1.0 - exact), -Grid().codes(exact))


def test_float32_columns_are_cast_first(duck: Any, spark: Any, tmp_path: Path) -> None:
    scores = np.random.default_rng(24).random(20_000, dtype=np.float32)
    table = pa.table({"s": scores, "y": np.arange(20_000) % 2})
    pq.write_table(table, tmp_path / "float32.parquet")
    expected = Tally.from_arrays(scores, table["y"].to_numpy(), grid=Grid())
    for frame in (table, duck.from_arrow(table), spark.read.parquet((tmp_path / "float32.parquet").as_uri())):
        got = tally(frame, "s", "y", grid=Grid())
        np.testing.assert_array_equal(got.cells.keys, expected.cells.keys)
        np.testing.assert_array_equal(got.cells.offset, expected.cells.offset)


def test_polars_that_cannot_read_bits_gives_the_same_cells(
    frames: Callable[[str, str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes, offsets = _cells(frames("polars-lazy", "unit"), Grid())
    monkeypatch.setattr("calibrant.engine.engines.inspect.signature", lambda method: inspect.Signature())
    old_codes, old_offsets = _cells(frames("polars-lazy", "unit"), Grid())
    np.testing.assert_array_equal(old_codes, codes)
    np.testing.assert_array_equal(old_offsets, offsets)
    missing = pl.LazyFrame({"id": [0, 1], "s": [None, 0.25]})
    assert (np.abs(_cells(missing, Grid())[0]) <= Grid().top).tolist() == [False, True]
