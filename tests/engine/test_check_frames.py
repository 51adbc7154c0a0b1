"""`check` on frames gives what it gives on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from calibrant.engine.unusable import UnusableRows
from calibrant.messages import InputError
from calibrant.verdict import Verdict, check
from calibrant.verdict.input.evidence import MAX_EXACT_ROWS

pytestmark = pytest.mark.engine

FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars lazy": lambda data: pl.DataFrame(data).lazy(),
    "pyarrow": pa.table,
    "duckdb": lambda data: duckdb.from_arrow(pa.table(data)),
}


@pytest.fixture
def data() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    scores = rng.beta(2, 5, 600)
    return {
        "p": scores,
        "bad": (rng.random(600) < scores).astype(int),
        "country": rng.choice(["de", "fr"], 600).tolist(),
        "month": np.arange(600) // 60,
        "patient": np.arange(600) // 3,
        "weight": rng.random(600),
    }


@pytest.mark.parametrize("engine", FRAMES)
def test_a_frame_gives_what_arrays_give(engine: str, data: dict[str, Any]) -> None:
    frame = FRAMES[engine](data)
    there = check(frame, score="p", label="bad", by=["country"], time="month")
    assert there == check(data["p"], data["bad"], by={"country": data["country"]}, time=data["month"])
    there = check(frame, score="p", label="bad", sample_weight="weight", groups="patient")
    assert there == check(data["p"], data["bad"], data["weight"], groups=data["patient"])


def test_a_column_that_is_not_there_is_named_with_those_that_are(
    subtests: pytest.Subtests, data: dict[str, Any]
) -> None:
    for engine in FRAMES:
        with subtests.test(engine=engine):
            with pytest.raises(InputError, match=r"no column 'good': it has 'p', 'bad'"):
                check(FRAMES[engine](data), score="p", label="good")
            with pytest.raises(InputError, match="label is missing: pass the name of its column too"):
                check(FRAMES[engine](data), score="p")


# ------------------------------------------------------------------------------- more rows than are brought into memory


@pytest.fixture(scope="module")
def many() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    n = MAX_EXACT_ROWS + 20_000
    scores, patient = rng.beta(1.2, 4, n), rng.integers(0, 20_000, n)
    return {
        "p": scores,
        "z": np.log(scores / (1.0 - scores)),
        "bad": (rng.random(n) < scores**1.1).astype(np.int8),
        "country": rng.choice(["de", "fr", "it"], n),
        "day": np.datetime64("2026-01-01") + rng.integers(0, 90, n),
        "moment": np.datetime64("2026-01-01T00:00:00", "us") + rng.integers(0, 20 * 86_400, n) * 1_000_000,
        "patient": patient,
        "weight": rng.random(n),
        "id": np.arange(n),
    }


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_close(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_close, a, b))
    return a == b or (isinstance(a, float) and a == pytest.approx(b, rel=1e-9, abs=1e-9))


@pytest.mark.parametrize("engine", FRAMES)
def test_a_large_frame_gives_what_arrays_give(engine: str, many: dict[str, Any]) -> None:
    frame = FRAMES[engine](many)
    columns = {"by": "country", "time": "day", "groups": "patient"}
    for roles in ([], ["by"], ["time"], ["groups"], ["by", "time", "groups"]):
        arrays: dict[str, Any] = {role: many[columns[role]] for role in roles}
        if "by" in arrays:
            arrays["by"] = {"country": many["country"]}
        there = check(frame, score="p", label="bad", **{role: columns[role] for role in roles})
        here = check(many["p"], many["bad"], **arrays)
        if "groups" in roles:  # a large frame is counted in 200 buckets of the groups, arrays group by group
            assert there.status == here.status
            assert (there.rows, there.events, there.n_groups) == (here.rows, here.events, here.n_groups)
            for one, other in ((there.intercept, here.intercept), (there.slope, here.slope)):
                assert one.value == pytest.approx(other.value, abs=1e-9)
                assert one.se == pytest.approx(other.se, rel=0.15)  # 200 buckets give it to 5 %
            for one, other in zip(*(sorted(v.segments, key=lambda s: s.value) for v in (there, here)), strict=True):
                assert (one.value, one.rows, one.events) == (other.value, other.rows, other.events)
        else:
            assert there == here


@pytest.mark.parametrize("engine", FRAMES)
def test_weights_in_a_large_frame_give_what_arrays_give_but_the_gain(engine: str, many: dict[str, Any]) -> None:
    there = check(FRAMES[engine](many), score="p", label="bad", by="country", sample_weight="weight")
    here = check(many["p"], many["bad"], many["weight"], by={"country": many["country"]})
    assert there.gain is None
    assert here.gain is not None
    assert "gain-not-measured" in [note.code for note in there.notes]
    without = [
        {k: v for k, v in one.to_dict().items() if k not in ("gain", "notes", "sentences")} for one in (there, here)
    ]
    assert _close(*without)


@pytest.mark.parametrize("engine", FRAMES)
def test_log_odds_in_a_large_frame(engine: str, many: dict[str, Any]) -> None:
    def numbers(verdict: Verdict) -> tuple[Any, ...]:
        return verdict.status, verdict.rows, verdict.events

    there = check(FRAMES[engine](many), score="z", label="bad", score_type="logit")
    here = check(many["z"], many["bad"], score_type="logit")
    assert numbers(there) == numbers(here)
    assert there.predicted == pytest.approx(here.predicted, rel=1e-6)


def test_timestamps_of_a_large_frame_go_by_day(subtests: pytest.Subtests, many: dict[str, Any]) -> None:
    for engine in FRAMES:
        with subtests.test(engine=engine):
            verdict = check(FRAMES[engine](many), score="p", label="bad", time="moment")
            assert len(verdict.periods) == 8
            assert sum(period.rows for period in verdict.periods) == len(many["p"])
            assert verdict.periods[0].value == "2026-01-01 to 2026-01-03"


def test_what_a_large_frame_cannot_do_is_said(subtests: pytest.Subtests, many: dict[str, Any]) -> None:
    for engine in ["duckdb", "polars lazy", "pandas"]:
        with subtests.test(engine=engine):
            frame = FRAMES[engine](many)
            with pytest.raises(InputError, match="more than 10,000 distinct values: truncate it to days or months"):
                check(frame, score="p", label="bad", time="id")
            with pytest.raises(InputError) as refused:
                check(frame, score="p", label="bad", groups=many["patient"])
            assert refused.value.argument == "groups"
            with pytest.raises(InputError, match="fit a calibrator first"):
                check(frame, score="z", label="bad", score_type="real")
            with pytest.raises(UnusableRows) as outside:
                check(frame, score="z", label="bad")
            assert [why[:3] for why in outside.value.found.why] == [("score", "z", "outside [0, 1]")]


@pytest.mark.parametrize("arrow", [False, True])
def test_moments_of_a_time_zone_in_a_large_pandas_frame(many: dict[str, Any], arrow: bool) -> None:
    table = pa.table({name: many[name] for name in ("p", "bad", "moment")})
    zoned = pa.compute.assume_timezone(table["moment"], "America/New_York")
    options = {"types_mapper": pd.ArrowDtype} if arrow else {}
    frame = table.set_column(2, "moment", zoned).to_pandas(**options)
    assert check(frame, score="p", label="bad", time="moment").periods[0].value == "2026-01-01 to 2026-01-03"
