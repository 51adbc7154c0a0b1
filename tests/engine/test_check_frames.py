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

from calibrant.arrays import InputError
from calibrant.verdict import check

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


@pytest.mark.parametrize("engine", FRAMES)
def test_a_column_that_is_not_there_is_named_with_those_that_are(engine: str, data: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"no column 'good': it has 'p', 'bad'"):
        check(FRAMES[engine](data), score="p", label="good")
    with pytest.raises(InputError, match="both score= and label="):
        check(FRAMES[engine](data), score="p")
