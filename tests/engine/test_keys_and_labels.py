"""Keys and labels that engines read differently, unless care is taken."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from calibrant.engine import TallyStore, tally
from calibrant.messages import CalibrantWarning, InputError
from calibrant.numerics import Grid
from calibrant.verdict import check

pytestmark = pytest.mark.engine

NAN = float("nan")
LOCAL: dict[str, Callable[[Any], Any]] = {
    "pandas": lambda table: table.to_pandas(),
    "pandas-arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "polars-lazy": lambda table: pl.from_arrow(table).lazy(),
    "pyarrow": lambda table: table,
}


Frames = dict[str, Callable[[Any], Any]]


@pytest.fixture
def frames(duck: Any) -> Frames:
    """What makes a frame of a table, by engine."""
    return LOCAL | {"duckdb": duck.from_arrow}


@pytest.fixture(params=[*LOCAL, "duckdb"])
def frame(request: pytest.FixtureRequest, frames: Frames) -> Callable[[Any], Any]:
    return frames[request.param]


def with_key(values: Any) -> Any:
    scores, labels = [0.4, 0.2, 0.4], [0, 1, 1]
    return pa.table({"s": scores[: len(values)], "y": labels[: len(values)], "k": values})


# --------------------------------------------------------------------------------------------------------------- time


def test_a_day_is_that_of_the_columns_own_clock(
    subtests: pytest.Subtests, frame: Callable[[Any], Any], duck: Any
) -> None:
    """Half past midnight on the day on which clocks in Berlin go forward, and noon of the day after."""
    for zone in ["Europe/Berlin", "Asia/Tokyo", "America/New_York"]:
        with subtests.test(zone=zone):
            moments = [dt.datetime(2026, 3, 29, 0, 30), dt.datetime(2026, 3, 30, 12)]
            stamps = pa.array(moments, pa.timestamp("us"))
            local = pa.compute.assume_timezone(stamps, zone)
            duck.sql(f"SET TimeZone = '{zone}'")
            try:
                assert list(tally(frame(with_key(local)), "s", "y", time="k")) == [moment.date() for moment in moments]
                hours = tally(frame(with_key(local)), "s", "y", time="k", every="1h")
                assert list(hours) == [dt.datetime(2026, 3, 29), moments[1]]
            finally:
                duck.sql("RESET TimeZone")


def test_spark_cuts_days_by_its_session(spark: Any) -> None:
    rows = spark.sql("SELECT 0.2D s, 1 y, TIMESTAMP '2026-03-28 23:30:00+00:00' k")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        assert list(tally(rows, "s", "y", time="k")) == [dt.date(2026, 3, 29)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_dates_without_a_type_are_dates(subtests: pytest.Subtests, frames: Frames) -> None:
    for engine, frame in frames.items():
        with subtests.test(engine):
            table = with_key(pa.array([dt.date(2026, 1, 31), dt.date(2026, 2, 1)]))
            assert list(tally(frame(table), "s", "y", time="k")) == [dt.date(2026, 1, 31), dt.date(2026, 2, 1)]
            assert list(tally(frame(table), "s", "y", time="k", every="1mo")) == [
                dt.date(2026, 1, 1),
                dt.date(2026, 2, 1),
            ]


def test_segments_by_a_column_of_dates_are_dates(subtests: pytest.Subtests, frames: Frames, tmp_path: Path) -> None:
    """In tallies, in verdicts and in a store, whatever the engine."""
    days = [dt.date(2026, 1, 31), dt.date(2026, 2, 1)]
    for engine, frame in frames.items():
        with subtests.test(engine):
            given = frame(with_key(pa.array(days)))
            assert list(tally(given, "s", "y", by="k")) == days
            if engine != "pandas":  # which reads dates as objects, and check as text
                assert {each.value for each in check(given, score="s", label="y", by="k").segments} == set(days)
            store = TallyStore(tmp_path / engine, by="k")
            store.add_frame(given, "s", "y", day="2026-03-01")
            assert list(store.window()) == days


def test_what_cannot_be_a_key_is_said(subtests: pytest.Subtests, frames: Frames) -> None:
    for engine, frame in frames.items():
        with subtests.test(engine):
            stamps = with_key(pa.array(np.array([1, 2, 3], dtype="datetime64[ns]")))
            with pytest.raises(InputError, match="by='k' holds timestamps: use time='k'"):
                tally(frame(stamps), "s", "y", by="k")
            with pytest.raises(InputError, match="time='s' is of type Float64"):
                tally(frame(stamps), "s", "y", time="s")
            with pytest.raises(InputError, match="every is '1week'"):
                tally(frame(stamps), "s", "y", time="k", every="1week")
            with pytest.raises(InputError, match="by=3 must name columns"):
                tally(frame(stamps), "s", "y", by=3)  # type: ignore[call-overload]
            with pytest.raises(InputError, match="and not numbers: pass the column of scores"):
                tally(frame(with_key(["a", "b"])), "k", "y")


def test_text_that_ends_in_nothing_stays_apart(subtests: pytest.Subtests) -> None:
    for engine in ["polars", "polars-lazy", "pyarrow"]:
        with subtests.test(engine=engine):
            rows = LOCAL[engine](with_key(["a", "a\0", "b"]))
            assert list(tally(rows, "s", "y", by="k")) == ["a", "a\0", "b"]


def test_names_of_our_own_are_free_for_users(subtests: pytest.Subtests, frame: Callable[[Any], Any]) -> None:
    for name in ["cluster bucket", "column 0", "good", "code", "key0", "upper"]:
        with subtests.test(name=name):
            table = pa.table({"s": [0.2, 0.7], "y": [0, 1], name: ["x", "z"], "id": ["p", "q"]})
            by, both = tally(frame(table), "s", "y", by=name), tally(frame(table), "s", "y", by=name, groups="id")
            assert list(by) == ["x", "z"]
            assert [key[0] for key in both] == ["x", "z"]


# ------------------------------------------------------------------------------------------------------------- labels


def test_a_label_that_is_no_number_is_missing(subtests: pytest.Subtests, frames: Frames) -> None:
    for engine, frame in frames.items():
        with subtests.test(engine):
            table = pa.table({"s": [0.1, 0.2, 0.3, 0.4], "y": pa.array([1.0, 2.0, NAN, None])})
            with pytest.raises(InputError, match="label 'y' missing in 2"):
                tally(frame(table), "s", "y", positive=2.0)


def test_three_labels_are_too_many_whatever_is_missing(subtests: pytest.Subtests, frames: Frames) -> None:
    for engine, frame in frames.items():
        with subtests.test(engine):
            table = pa.table({"s": [0.1, 0.2, 0.3, 0.4, 0.5], "y": pa.array([None, NAN, 1.0, 2.0, 3.0])})
            with pytest.raises(InputError, match="more than two distinct values"):
                tally(frame(table), "s", "y", positive=2.0, unusable="leave out")


def test_the_event_is_found_whatever_its_type(subtests: pytest.Subtests, frame: Callable[[Any], Any]) -> None:
    for labels, positive, events in [
        ([Decimal(0), Decimal(1), Decimal(1)], 1, [0, 1, 1]),
        ([True, False, True], 1, [1, 0, 1]),
        ([1, 0, 1], True, [1, 0, 1]),
        ([2, 1, 1], 2, [1, 0, 0]),
        (["1", "1", "1"], 1, [0, 0, 0]),
        ([5, 5, 5], "a", [0, 0, 0]),
        (["bad", "good", "bad"], "bad", [1, 0, 1]),
    ]:
        with subtests.test(labels=labels, positive=positive, events=events):
            rows = frame(pa.table({"s": [0.1, 0.2, 0.3], "y": labels}))
            for grid in (None, Grid()):
                assert tally(rows, "s", "y", positive=positive, grid=grid).events.tolist() == events


def test_text_labels_need_to_be_told(subtests: pytest.Subtests, frames: Frames) -> None:
    for engine, frame in frames.items():
        with subtests.test(engine), pytest.raises(InputError, match="pass positive="):
            tally(frame(pa.table({"s": [0.1, 0.2], "y": ["no", "yes"]})), "s", "y")


def test_truth_values_of_a_csv_are_labels(subtests: pytest.Subtests, duck: Any, tmp_path: Path) -> None:
    """DuckDB casts while it reads CSV, and its reader knows no number that is called yes."""
    for no, yes in [("no", "yes"), ("FALSE", "TRUE"), ("f", "t")]:
        with subtests.test(no=no, yes=yes):
            (tmp_path / "rows.csv").write_text(f"s,y,g\n0.2,{no},a\n0.2,{yes},a\n0.7,{yes},b\n", encoding="utf-8")
            rows = duck.read_csv(str(tmp_path / "rows.csv"), dtype={"y": "BOOLEAN"})
            assert tally(rows, "s", "y").events.tolist() == [1, 1]
            assert {key: part.events.tolist() for key, part in tally(rows, "s", "y", by="g").items()} == {
                "a": [1],
                "b": [1],
            }
            assert tally(rows, "s", "y", positive=False).events.tolist() == [1, 0]


# ------------------------------------------------------------------------------------------------- scores and weights


def test_a_negative_nan_is_a_missing_score(subtests: pytest.Subtests, frames: Frames) -> None:
    for engine, frame in frames.items():
        with subtests.test(engine):
            negative = np.copysign(NAN, -1.0)
            rows = frame(pa.table({"s": np.array([negative, 0.3]), "y": [0, 1], "k": ["x", "x"]}))
            with pytest.warns(CalibrantWarning, match="score 's' missing in 1"):
                found = tally(rows, "s", "y", by="k", unusable="leave out")
            assert found["x"].n.tolist() == [1]


def test_weights_that_would_overflow_are_refused(subtests: pytest.Subtests, frames: Frames) -> None:
    for engine, frame in frames.items():
        with subtests.test(engine):
            n = 2_100
            table = pa.table({"s": np.full(n, 0.5), "y": np.zeros(n, dtype=np.int64), "w": np.full(n, 2**53 - 1)})
            with pytest.raises(InputError, match="more than fits into 64 bits"):
                tally(frame(table), "s", "y", sample_weight="w", weight_type="frequency")
            above = pa.table({"s": [0.5], "y": [0], "w": [2**53]})
            with pytest.raises(InputError, match=r"not an integer below 2\*\*53 in 1"):
                tally(frame(above), "s", "y", sample_weight="w", weight_type="frequency")


def test_columns_of_two_backends() -> None:
    rows = pd.DataFrame(
        {
            "s": pd.Series([0.1, None, 0.3], dtype="float64[pyarrow]"),
            "y": pd.Series([0, 1, None], dtype="Int64"),
        }
    )
    with pytest.raises(InputError, match=r"2 of 3 rows .*score 's' missing in 1, label 'y' missing in 1"):
        tally(rows, "s", "y")


# -------------------------------------------------------------------------------------------------- store and verdict


def test_real_weights_twice_change_nothing(subtests: pytest.Subtests, frames: Frames, tmp_path: Path) -> None:
    for engine, frame in frames.items():
        with subtests.test(engine):
            rng = np.random.default_rng(0)
            n = 50_000
            table = pa.table(
                {"s": rng.random(n), "y": rng.integers(0, 2, n), "w": rng.random(n), "k": rng.integers(0, 3, n)}
            )
            store = TallyStore(tmp_path / engine, by="k")
            backwards = table.take(np.arange(n)[::-1])
            assert store.add_frame(frame(table), "s", "y", day="2026-01-01", sample_weight="w") == [dt.date(2026, 1, 1)]
            assert store.add_frame(frame(backwards), "s", "y", day="2026-01-01", sample_weight="w") == []


def test_segments_of_a_frame_are_named() -> None:
    rows = pl.DataFrame({"s": [0.2, 0.5, 0.8] * 100, "y": [0, 1] * 150, "land": ["de", "fr"] * 150})
    with pytest.raises(InputError, match="by must name columns of the frame"):
        check(rows, score="s", label="y", by={"land": np.array(["x", "z"] * 150)})


def test_periods_of_nanoseconds_read_as_days() -> None:
    rng = np.random.default_rng(1)
    scores = rng.random(400)
    days = pd.date_range("2026-01-01", periods=400, freq="6h").astype("datetime64[ns]")
    rows = pd.DataFrame({"s": scores, "y": (rng.random(400) < scores).astype(int), "t": days})
    first = check(rows, score="s", label="y", time="t").periods[0].value
    assert first.startswith("2026-01-01 to 2026-01-13")


def test_labels_of_few_bits_add_up_to_many(subtests: pytest.Subtests, frame: Callable[[Any], Any]) -> None:
    for width in ["int8", "uint8", "int16", "int32", "bool_"]:
        with subtests.test(width=width):
            n = 70_000
            rows = frame(
                pa.table({"s": np.full(n, 0.5), "y": pa.array(np.ones(n)).cast(getattr(pa, width)()), "k": ["x"] * n})
            )
            assert tally(rows, "s", "y").events.tolist() == [n]
            assert tally(rows, "s", "y", by="k")["x"].events.tolist() == [n]
            assert tally(rows, "s", "y", positive=1, grid=Grid()).events.tolist() == [n]


def test_labels_of_few_bits_with_a_mask(subtests: pytest.Subtests) -> None:
    for width in ["Int8", "boolean", "Int16"]:
        with subtests.test(width=width):
            rows = pd.DataFrame({"s": np.full(70_000, 0.5), "y": pd.Series(np.ones(70_000), dtype=width)})
            assert tally(rows, "s", "y", grid=Grid()).events.tolist() == [70_000]
