"""Rows that cannot be counted are refused, with their number, by every engine; a late label is not a non-event."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.conftest import few

from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.engine.frames import tally
from calibrant.engine.unusable import Unusable, UnusableRows
from calibrant.messages import CalibrantWarning, InputError
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.engine

ENGINES = ("duckdb", "spark", "polars", "polars-lazy", "pandas", "pandas-arrow", "pyarrow")
NAN, INF = float("nan"), float("inf")


@pytest.fixture(scope="module")
def frame(duck: Any, spark: Any) -> Callable[[str, Any], Any]:
    """A table of pyarrow as a frame of any engine."""
    makers: dict[str, Callable[[Any], Any]] = {
        "duckdb": duck.from_arrow,
        "spark": spark.createDataFrame,
        "polars": pl.from_arrow,
        "polars-lazy": lambda table: pl.from_arrow(table).lazy(),
        "pandas": lambda table: table.to_pandas(),
        "pandas-arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
        "pyarrow": lambda table: table,
    }
    return lambda engine, table: makers[engine](table)


def rows(scores: list[float | None], labels: list[Any], label_type: Any = None) -> Any:
    label_type = pa.int64() if label_type is None else label_type
    return pa.table({"s": pa.array(scores, pa.float64()), "y": pa.array(labels, label_type)})


OUTSIDE = "outside [0, 1]"
BAD_SCORES: dict[str, tuple[list[Any], dict[str, int]]] = {
    "NULL": ([None], {"missing": 1}),
    "NaN": ([NAN], {"missing": 1}),
    "above": ([1.0 + 1.1e-6, 2.0], {OUTSIDE: 2}),
    "below": ([-1.1e-6, -0.5], {OUTSIDE: 2}),
    "infinite": ([INF, -INF], {OUTSIDE: 2}),
    "all of them": ([None, NAN, 1.5, -0.5, INF, 1e300], {"missing": 2, OUTSIDE: 4}),
}


def test_bad_scores_are_counted_and_refused(
    subtests: pytest.Subtests, frame: Callable[[str, Any], Any], full_size: bool
) -> None:
    for engine in ENGINES:
        for name in few(BAD_SCORES, engine, full_size):
            with subtests.test(engine=engine, name=name):
                bad, problems = BAD_SCORES[name]
                why = tuple(("score", "s", problem, rows) for problem, rows in problems.items())
                table = rows([0.25, *bad, 0.75, 0.0], [0, *[1] * len(bad), 1, 0])
                for grid in (Grid(), None):
                    with pytest.raises(UnusableRows) as refused:
                        tally(frame(engine, table), "s", "y", grid=grid)
                    assert refused.value.found == Unusable(len(bad), len(bad) + 3, why)
                with pytest.warns(CalibrantWarning) as caught:
                    left = tally(frame(engine, table), "s", "y", grid=Grid(), unusable="leave out")
                (note,) = [each.message.note for each in caught]
                assert (note.code, note.values["why"]) == ("rows-left-out", why)
                assert left.fingerprint == Tally.from_arrays([0.25, 0.75, 0.0], [0, 1, 0], grid=Grid()).fingerprint


def test_rounding_beyond_the_ends_is_clipped(subtests: pytest.Subtests, frame: Callable[[str, Any], Any]) -> None:
    scores, labels = [-1e-6, -1e-300, 0.5, 1.0000001, 1.0 + 1e-6], [0, 0, 1, 1, 0]
    expected = Tally.from_arrays([0.0, 0.0, 0.5, 1.0, 1.0], labels).fingerprint
    for engine in ENGINES:
        with subtests.test(engine=engine):
            assert tally(frame(engine, rows(scores, labels)), "s", "y").fingerprint == expected


def test_nan_that_statistics_of_a_file_leave_out_is_missing(tmp_path: Path) -> None:
    """DuckDB folded isnan to false, and left out "0 of 3,000 rows that cannot be counted ()"."""
    duckdb = pytest.importorskip("duckdb")
    rng = np.random.default_rng(0)
    scores, labels = rng.random(3_000), (rng.random(3_000) < 0.5).astype(float)
    scores[:5], labels[10] = np.nan, np.nan
    pl.DataFrame({"s": scores, "y": labels}).write_parquet(tmp_path / "nan.parquet")
    with pytest.raises(UnusableRows) as refused:
        tally(duckdb.read_parquet(str(tmp_path / "nan.parquet")), "s", "y")
    why = (("score", "s", "missing", 5), ("label", "y", "missing", 1))
    assert refused.value.found == Unusable(6, 3_000, why)


BAD_LABELS: dict[str, tuple[list[Any], str]] = {
    "NULL": ([None], "label 'y' missing in 1"),
    "two": ([2], "label 'y' neither 0 nor 1 in 1"),
    "negative": ([-1, -1], "label 'y' neither 0 nor 1 in 2"),
    "an id": ([2**62, 2**62, 2**62], "label 'y' neither 0 nor 1 in 3"),
    "all of them": ([None, 2, -1, None], "label 'y' missing in 2, label 'y' neither 0 nor 1 in 2"),
}


def test_bad_labels_are_counted_and_refused(
    subtests: pytest.Subtests, frame: Callable[[str, Any], Any], full_size: bool
) -> None:
    for engine in ENGINES:
        for name in few(BAD_LABELS, engine, full_size):
            with subtests.test(engine=engine, name=name):
                bad, why = BAD_LABELS[name]
                table = rows([0.25, *[0.5] * len(bad), 0.75], [0, *bad, 1])
                for grid in (None, Grid()):
                    with pytest.raises(
                        InputError, match=rf"{len(bad)} of {len(bad) + 2} rows that cannot be counted \({why}\)"
                    ):
                        tally(frame(engine, table), "s", "y", grid=grid)


def test_labels_between_0_and_1_are_refused(
    subtests: pytest.Subtests, frame: Callable[[str, Any], Any], full_size: bool
) -> None:
    for engine in ENGINES:
        for labels in few([[0.5, 1.0], [0.0, 0.9999]], engine, full_size):
            with (
                subtests.test(engine=engine, labels=labels),
                pytest.raises(InputError, match="label 'y' neither 0 nor 1 in 1"),
            ):
                tally(frame(engine, rows([0.25, 0.75], labels, pa.float64())), "s", "y")


def test_programs_read_the_numbers() -> None:
    table = rows([0.25, None, 1.5], [None, 1, 0])
    with pytest.raises(UnusableRows) as refused:
        tally(table, "s", "y")
    found = refused.value.found
    why = (("score", "s", "missing", 1), ("score", "s", "outside [0, 1]", 1), ("label", "y", "missing", 1))
    assert (found.rows, found.total, found.why, found.all_missing) == (3, 3, why, False)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    with pytest.warns(CalibrantWarning) as caught:
        tally(rows([0.25, None], [0, 1]), "s", "y", unusable="leave out")
    (message,) = [each.message for each in caught]
    assert isinstance(message, CalibrantWarning)
    assert message.note.code == "rows-left-out"
    assert message.note.values == {"rows": 1, "total": 2, "why": (("score", "s", "missing", 1),)}


def test_every_reason_is_named(subtests: pytest.Subtests, frame: Callable[[str, Any], Any]) -> None:
    for engine in ENGINES:
        with (
            subtests.test(engine=engine),
            pytest.raises(InputError, match=r"2 of 2 rows .*score 's' missing in 1, label 'y' missing in 1"),
        ):
            tally(frame(engine, rows([0.25, None], [None, 1])), "s", "y")


LABELS = {
    "booleans": ([False, True, True, False], "bool_"),
    "bytes": ([0, 1, 1, 0], "int8"),
    "floats": ([0.0, 1.0, 1.0, 0.0], "float64"),
}


def test_labels_of_any_type_are_accepted(
    subtests: pytest.Subtests, frame: Callable[[str, Any], Any], full_size: bool
) -> None:
    for engine in ENGINES:
        for name in few(LABELS, engine, full_size):
            with subtests.test(engine=engine, name=name):
                labels, arrow_type = LABELS[name]
                table = rows([0.0, 0.25, 1.0, 0.25], labels, getattr(pa, arrow_type)())
                for grid in (None, Grid()):
                    got = tally(frame(engine, table), "s", "y", grid=grid)
                    assert (
                        got.fingerprint
                        == Tally.from_arrays([0.0, 0.25, 1.0, 0.25], [0, 1, 1, 0], grid=grid).fingerprint
                    )
                assert (got.n.dtype, got.events.dtype) == (np.int64, np.int64)


def test_missing_labels_of_other_types(
    subtests: pytest.Subtests, frame: Callable[[str, Any], Any], full_size: bool
) -> None:
    for engine in ENGINES:
        for name in few(["booleans", "floats"], engine, full_size):
            with subtests.test(engine=engine, name=name):
                labels, arrow_type = LABELS[name]
                table = rows([0.0, 0.25, 1.0, 0.25, 0.5], [*labels, None], getattr(pa, arrow_type)())
                with pytest.raises(InputError, match="label 'y' missing in 1"):
                    tally(frame(engine, table), "s", "y")


def test_other_kinds_on_a_declared_range(
    subtests: pytest.Subtests, frame: Callable[[str, Any], Any], full_size: bool
) -> None:
    for engine in ENGINES:
        for kind in few(["logit", "real"], engine, full_size):
            with subtests.test(engine=engine, kind=kind):
                rng = np.random.default_rng(40)
                z = np.append(np.clip(rng.normal(size=500) * 2, -8, 8), [-8.0, 8.0, 0.0])
                y = rng.integers(0, 2, 503)
                grid = Grid(low=-8.0, high=8.0)
                got = tally(frame(engine, rows(z.tolist(), y.tolist())), "s", "y", grid=grid, score_type=kind)
                expected = Tally.from_arrays(z, y, score_type=kind, grid=grid)
                assert (got.score_type, got.grid) == (kind, grid)
                assert got.fingerprint == expected.fingerprint
                assert HistogramBinning(5).fit_tally(got).map_ == HistogramBinning(5).fit_tally(expected).map_
                for bad, count in (([8.5], 1), ([-9.0, None, NAN], 3)):
                    table = rows([*z.tolist(), *bad], [*y.tolist(), *[1] * count])
                    with pytest.raises(InputError, match=rf"{count} of {503 + count} rows"):
                        tally(frame(engine, table), "s", "y", grid=grid, score_type=kind)


def test_kind_and_grid_must_agree() -> None:
    table = rows([0.25, 0.75], [0, 1])
    for options in (
        {"score_type": "logit", "by": "y"},
        {"score_type": "real", "grid": Grid(4)},
        {"grid": Grid(low=-1.0, high=2.0)},
    ):
        with pytest.raises(InputError, match="grid"):
            tally(table, "s", "y", **options)
    assert tally(table, "s", "y", score_type="probability").total == 2


def test_the_count_is_of_all_rows(subtests: pytest.Subtests, frame: Callable[[str, Any], Any]) -> None:
    for engine in ENGINES:
        with subtests.test(engine=engine):
            scores = np.where(np.arange(30_000) % 3 == 0, NAN, 0.5).tolist()
            with pytest.raises(InputError, match=r"10,000 of 30,000 rows .*missing in 10,000"):
                tally(frame(engine, rows(scores, (np.arange(30_000) % 2).tolist())), "s", "y")
