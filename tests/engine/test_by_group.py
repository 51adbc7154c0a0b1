"""A map by group on frames of every engine: the same groups are met whatever holds the column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.contracts.test_maps import FIFTY

from calibrant.calibration import Calibration
from calibrant.engine import apply
from calibrant.maps import BetaMap, ByGroupMap, ComposeMap, IdentityMap, LogitAffineMap, StepMap
from calibrant.messages import InputError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.engine

ENGINES = ("pandas", "pandas arrow", "pandas nullable", "polars", "polars lazy", "pyarrow", "duckdb", "spark")


@pytest.fixture(scope="module")
def frame(duck: Any, spark: Any) -> Callable[[str, Any], Any]:
    """A table of pyarrow as a frame of any engine."""
    makers: dict[str, Callable[[Any], Any]] = {
        "pandas": lambda table: table.to_pandas(),
        "pandas arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas nullable": lambda table: table.to_pandas().convert_dtypes(),
        "polars": pl.from_arrow,
        "polars lazy": lambda table: pl.from_arrow(table).lazy(),
        "pyarrow": lambda table: table,
        "duckdb": duck.from_arrow,
        "spark": spark.createDataFrame,
    }
    return lambda engine, table: makers[engine](table)


def calibrated(out: Any) -> Any:
    """The new column as doubles, NaN where there is none."""
    if hasattr(out, "collect") and hasattr(out, "with_columns"):
        out = out.collect()
    if hasattr(out, "toPandas"):
        out = out.toPandas()
    if hasattr(out, "fetchall"):
        out = out.arrow()
        out = out.read_all() if hasattr(out, "read_all") else out
    values = out["calibrated"].to_pylist() if hasattr(out, "column_names") else out["calibrated"].to_list()
    return np.array([np.nan if value is None or value is pd.NA else value for value in values], dtype=np.float64)


SCORES = [0.1, None, 0.9, 0.4, 0.5, 0.6]
COLUMNS = {
    "text": pa.array(["north", "north", "it's", None, "", "never"]),
    "whole": pa.array([3, 12, 3, None, -7, 5], pa.int32()),
    "flag": pa.array([True, False, True, None, False, True]),
}
MAPS = {
    "text": ByGroupMap("text", ("north", "it's", ""), tuple(LogitAffineMap(1.0, j / 3) for j in range(3)), None),
    "whole": ByGroupMap(
        "whole", (3, 12, -7), (BetaMap(0.9, 1.2, 0.3), StepMap([], [0.2]), IdentityMap()), StepMap([], [0.7])
    ),
    "flag": ByGroupMap("flag", (True, False), (StepMap([0.5], [0.1, 0.8]), StepMap([], [0.3])), IdentityMap()),
}
TABLE = pa.table({"s": pa.array(SCORES, pa.float64()), **COLUMNS})


def test_groups_are_met_in_columns_of_every_type(subtests: pytest.Subtests, frame: Any) -> None:
    for engine in ENGINES:
        for kind in COLUMNS:
            with subtests.test(engine=engine, kind=kind):
                scores = np.array([np.nan if score is None else score for score in SCORES])
                expected = MAPS[kind].apply(scores, COLUMNS[kind].to_pylist())
                out = apply(Calibration(MAPS[kind]), frame(engine, TABLE), "s")
                np.testing.assert_allclose(calibrated(out), expected, rtol=1e-12)


def test_maps_of_two_columns_with_odd_names(subtests: pytest.Subtests, frame: Any) -> None:
    for engine in ENGINES:
        with subtests.test(engine=engine):
            other = ByGroupMap(
                "größe ^.*$ `x`", (3, 12), (LogitAffineMap(0.8, 0.1), LogitAffineMap(1.1, 0.0)), IdentityMap()
            )
            map_ = ComposeMap((FIFTY, other))
            rng = np.random.default_rng(1)
            regions = np.array([*FIFTY.groups, None, "never"], dtype=object)[rng.integers(0, 52, 500)]
            table = pa.table(
                {"s": rng.random(500), "a.b": pa.array(regions.tolist()), "größe ^.*$ `x`": rng.integers(2, 13, 500)}
            )
            expected = map_.apply(table["s"].to_numpy(), {"region": regions, other.by: table[other.by].to_numpy()})
            out = apply(map_, frame(engine, table), "s", by={"region": "a.b"})
            np.testing.assert_allclose(calibrated(out), expected, rtol=1e-12)


def test_categories_are_their_names(frame: Any, duck: Any) -> None:
    rows = pa.table({"s": [0.2, 0.3], "text": pa.array(["north", "never"]).dictionary_encode()})
    expected = MAPS["text"].apply([0.2, 0.3], ["north", "never"])
    for made in (rows, rows.to_pandas(), pl.from_arrow(rows), duck.from_arrow(rows)):
        np.testing.assert_allclose(calibrated(apply(MAPS["text"], made, "s")), expected, rtol=1e-12)


def test_floats_that_are_whole_numbers_pass_in_memory_and_not_where_they_have_another_text(frame: Any) -> None:
    table = pa.table({"s": [0.2, 0.3], "whole": [3.0, None]})
    expected = MAPS["whole"].apply([0.2, 0.3], [3, None])
    for engine in ("pandas", "polars", "polars lazy", "pyarrow"):
        np.testing.assert_array_equal(calibrated(apply(MAPS["whole"], frame(engine, table), "s")), expected)
    for engine in ("duckdb", "spark"):
        with pytest.raises(InputError, match="cast it to text or to integers first"):
            apply(MAPS["whole"], frame(engine, table), "s")
    with pytest.raises(InputError, match=r"the column 'whole' holds 3\.5: groups must be text, integers or booleans"):
        apply(MAPS["whole"], pd.DataFrame({"s": [0.2], "whole": [3.5]}), "s")


def test_columns_that_are_not_there_are_named(frame: Any) -> None:
    with pytest.raises(InputError, match="frame has no column 'text'"):
        apply(MAPS["text"], pd.DataFrame({"s": [0.5]}), "s")
    with pytest.raises(InputError, match="by contains 'area', which this map does not need"):
        apply(MAPS["text"], pd.DataFrame({"s": [0.5]}), "s", by={"area": "text"})
    with pytest.raises(InputError, match="must differ from the score columns"):
        apply(MAPS["text"], pd.DataFrame({"s": [0.5]}), "s", by={"text": "s"})
