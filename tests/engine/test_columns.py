"""A computed column is the same on every engine, and lazy frames stay lazy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.engine.conftest import few

from calibrant.calibration import Calibration
from calibrant.engine.columns import apply, with_cluster_bucket, with_column
from calibrant.engine.engines import dialect_of
from calibrant.guarantees.provenance import Provenance
from calibrant.maps import BetaMap, ComposeMap, IdentityMap, LogitAffineMap, PiecewiseLinearMap, StepMap
from calibrant.messages import InputError
from calibrant.tallies import Tally, cluster_buckets

nw = pytest.importorskip("narwhals")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.engine

NAN, INF = float("nan"), float("inf")
STEPS = StepMap([0.2, 0.5], [0.1, 0.4, 0.9])
LOCAL = ("pandas", "pandas arrow", "pandas nullable", "polars", "polars lazy", "pyarrow")
EAGER = tuple(engine for engine in LOCAL if engine != "polars lazy")
ENGINES = (*LOCAL, "duckdb", "spark")
HAS_NULLS = tuple(engine for engine in ENGINES if engine != "pandas")
HOSTILE = [
    "a.b",
    "`tick`",
    'a"b',
    "${env:HOME}",
    "größe µ 数 🙂",
    "SELECT",
    "new\nline",
    "^s.*$",
    "*",
    "source",
    "x' --",
]


@pytest.fixture(scope="module")
def frame(duck: Any, spark: Any) -> Callable[[str, Any], Any]:
    """A table of pyarrow as a frame of any engine."""
    makers: dict[str, Callable[[Any], Any]] = {
        "pandas": lambda table: table.to_pandas(),
        "pandas arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas nullable": lambda table: table.to_pandas().convert_dtypes(convert_integer=False),
        "polars": pl.from_arrow,
        "polars lazy": lambda table: pl.from_arrow(table).lazy(),
        "pyarrow": lambda table: table,
        "duckdb": duck.from_arrow,
        "spark": spark.createDataFrame,
    }
    return lambda engine, table: makers[engine](table)


def column(native: Any, name: str) -> list[Any]:
    """Values of a column, None for NULL; floats with NaN where the engine keeps it."""
    rows = nw.from_native(native)
    if isinstance(rows, nw.LazyFrame):
        rows = rows.collect("pyarrow") if not isinstance(native, pl.LazyFrame) else rows.collect()
    values = rows.to_native()[name]
    if isinstance(values, pd.Series):
        return [None if value is pd.NA else value for value in values.tolist()]
    return values.to_list() if isinstance(values, pl.Series) else values.to_pylist()


def table(scores: list[Any], kind: Any = None) -> Any:
    return pa.table({"id": np.arange(len(scores)), "s": pa.array(scores, kind or pa.float64())})


def test_a_map_runs_on_every_frame(subtests: pytest.Subtests, frame: Callable[[str, Any], Any]) -> None:
    for engine in ENGINES:
        with subtests.test(engine=engine):
            rows = frame(engine, table([0.1, None, 0.2, 0.7, 0.0, 1.0]))
            out = apply(STEPS, rows, "s")
            assert type(out) is type(rows)
            assert nw.from_native(out).collect_schema()["calibrated"] == nw.Float64
            assert list(nw.from_native(out).collect_schema().names()) == ["id", "s", "calibrated"]
            missing = NAN if engine == "pandas" else None
            np.testing.assert_equal(column(out, "calibrated"), [0.1, missing, 0.4, 0.9, 0.1, 0.9])


def test_nan_gives_null(subtests: pytest.Subtests, frame: Callable[[str, Any], Any]) -> None:
    for engine in HAS_NULLS:
        with subtests.test(engine=engine):
            out = apply(LogitAffineMap(1.0, 0.0), frame(engine, table([0.5, NAN, None])), "s")
            assert column(out, "calibrated") == [0.5, None, None]


def test_scores_of_any_numeric_type_are_doubles_first(
    subtests: pytest.Subtests, frame: Callable[[str, Any], Any], full_size: bool
) -> None:
    for engine in ENGINES:
        for kind in few(["float32", "int8", "int64", "bool_"], engine, full_size):
            with subtests.test(engine=engine, kind=kind):
                scores = np.array([0.0, 0.1, 0.7, 1.0], np.float32) if kind == "float32" else np.array([0, 1, 1, 0])
                scores = scores.astype(bool) if kind == "bool_" else scores
                map_ = LogitAffineMap(0.6, -0.4)
                out = apply(map_, frame(engine, table(scores.tolist(), getattr(pa, kind)())), "s", name="p")
                np.testing.assert_allclose(column(out, "p"), map_.apply(scores.astype(np.float64)), rtol=1e-12, atol=0)


MAPS = [
    IdentityMap(),
    StepMap(np.linspace(0.001, 0.999, 500), np.linspace(0.0, 1.0, 501)),
    PiecewiseLinearMap([0.1, 0.2, 0.9], [0.05, 0.3, 0.8]),
    LogitAffineMap(0.6, -0.4),
    LogitAffineMap(0.6, -0.4, on="score"),
    BetaMap(0.7, 1.4, 0.2),
    ComposeMap((BetaMap(0.7, 1.4, 0.2), StepMap([0.5], [0.1, 0.9]))),
]


def test_every_kind_of_map_gives_what_arrays_give(subtests: pytest.Subtests, frame: Callable[[str, Any], Any]) -> None:
    for engine in [engine for engine in ENGINES if engine != "spark"]:
        for map_ in MAPS:
            with subtests.test(engine=engine, map_=map_):
                scores = np.append(np.random.default_rng(1).random(5_000), [0.0, 1.0, 0.5])
                out = column(apply(map_, frame(engine, table(scores.tolist())), "s"), "calibrated")
                np.testing.assert_allclose(out, map_.apply(scores), rtol=1e-12, atol=0)


def test_frames_in_memory_refuse_what_arrays_refuse(
    subtests: pytest.Subtests, frame: Callable[[str, Any], Any]
) -> None:
    for engine in EAGER:
        for bad in [1.5, -0.1, INF]:
            with subtests.test(engine=engine, bad=bad):
                rows = frame(engine, table([0.1, bad, None]))
                with pytest.raises(InputError, match=r"the column 's' (must lie in \[0, 1\]|has 1 infinity)"):
                    apply(STEPS, rows, "s")
                if bad != INF:
                    assert column(apply(STEPS, rows, "s", score_type="real"), "calibrated")[0] == 0.1


def test_lazy_frames_hold_a_real_score_at_the_end_of_the_map(
    subtests: pytest.Subtests, frame: Callable[[str, Any], Any]
) -> None:
    for map_ in MAPS[1:]:
        with subtests.test(map_=map_):
            outside = table([-INF, -1e308, -0.5, 1.5, 1e308, INF])
            there, here = (
                column(apply(map_, frame(engine, outside), "s", score_type="real"), "calibrated")
                for engine in ("duckdb", "polars lazy")
            )
            np.testing.assert_allclose(there, here, rtol=1e-12, atol=0)


def test_a_calibration_brings_its_kind() -> None:
    logits = Tally.from_arrays([-2.0, 3.0], [0, 1], score_type="logit")
    cal = Calibration(LogitAffineMap(1.0, 0.0, on="score"), Provenance.of("test", logits, "independent"))
    rows = pd.DataFrame({"s": [-2.0, 3.0]})
    assert apply(cal, rows, "s")["calibrated"].tolist() == cal.transform([-2.0, 3.0]).tolist()
    with pytest.raises(InputError, match=r"must lie in \[0, 1\]"):
        apply(cal.map, rows, "s")


def test_columns_may_be_called_anything(subtests: pytest.Subtests, frame: Callable[[str, Any], Any]) -> None:
    for engine in ENGINES:
        with subtests.test(engine=engine):
            rows = frame(engine, pa.table({name: [place / 20, None] for place, name in enumerate(HOSTILE)}))
            for name in HOSTILE:
                rows = apply(IdentityMap(), rows, name, name=f"{name} calibrated")
            wide = nw.from_native(rows)
            wide = wide.collect() if isinstance(wide, nw.LazyFrame) else wide
            assert wide.columns == [*HOSTILE, *(f"{name} calibrated" for name in HOSTILE)]
            first = [wide[f"{name} calibrated"][0] for name in HOSTILE]
            assert [float(getattr(value, "as_py", lambda value=value: value)()) for value in first] == [
                place / 20 for place in range(len(HOSTILE))
            ]


def test_what_cannot_be_done_is_said_in_one_sentence(
    subtests: pytest.Subtests, frame: Callable[[str, Any], Any]
) -> None:
    for engine in ENGINES:
        with subtests.test(engine=engine):
            rows = frame(engine, pa.table({"s": [0.5], "land": ["de"], "calibrated": [0.5]}))
            with pytest.raises(InputError, match="no column 'score': it has 's', 'land', 'calibrated'"):
                apply(STEPS, rows, "score")
            with pytest.raises(
                InputError, match="is 'calibrated', and the frame already has this column: pass another name"
            ):
                apply(STEPS, rows, "s")
            with pytest.raises(InputError, match="score='land' holds String and not numbers"):
                apply(STEPS, rows, "land", name="p")


def test_what_is_no_frame_is_refused() -> None:
    for other in ([0.1, 0.2], np.array([0.1]), pd.Series([0.1]), None):
        with pytest.raises(InputError, match=r"frame is of type .*: pass a pandas"):
            apply(STEPS, other, "s")


def test_sql_engines_do_not_tell_names_apart_by_case(duck: Any) -> None:
    rows = duck.from_arrow(table([0.5]))
    with pytest.raises(InputError, match="already"):
        apply(STEPS, rows, "s", name="S")
    assert apply(STEPS, pd.DataFrame({"s": [0.5]}), "s", name="S")["S"].tolist() == [0.9]


def test_pandas_keeps_its_index_and_the_caller_his_frame() -> None:
    rows = pd.DataFrame({"s": [0.1, 0.7, 0.3]}, index=[5, 3, 9])
    out = apply(STEPS, rows.loc[[9, 5]], "s")
    assert out.index.tolist() == [9, 5]
    assert out["calibrated"].tolist() == [0.4, 0.1]
    assert rows.columns.tolist() == ["s"]


def test_a_polars_frame_stays_lazy() -> None:
    def burn(batch: Any) -> Any:
        raise RuntimeError("the source was read")

    rows = pl.LazyFrame({"s": [0.1, 0.7]}).map_batches(burn, schema={"s": pl.Float64})
    out = with_cluster_bucket(
        apply(STEPS, rows, "s").with_columns(pl.col("calibrated").cast(pl.String).alias("id")), "id", "b"
    )
    assert out.collect_schema() == {"s": pl.Float64, "calibrated": pl.Float64, "id": pl.String, "b": pl.Int64}
    with pytest.raises(RuntimeError, match="the source was read"):
        out.collect()


def test_a_duckdb_relation_stays_lazy(duck: Any) -> None:
    duck.sql("CREATE TABLE gone AS SELECT 0.5 AS s, 7 AS id")
    out = with_cluster_bucket(apply(STEPS, duck.table("gone"), "s"), "id", "b")
    assert out.columns == ["s", "id", "calibrated", "b"]
    duck.sql("UPDATE gone SET s = 0.1")
    assert out.project("calibrated").fetchall() == [(0.1,)]
    duck.sql("DROP TABLE gone")
    with pytest.raises(Exception, match="gone"):
        out.fetchall()


def test_the_dialect_is_that_of_the_engine(duck: Any, spark: Any) -> None:
    assert dialect_of(duck.sql("SELECT 1 AS a")) == "duckdb"
    assert dialect_of(spark.range(1)) == "spark"
    assert dialect_of(pl.LazyFrame({"a": [1]})) is None


def test_any_function_can_make_the_column(duck: Any) -> None:
    rules = {
        "sql": lambda column, dialect: f'"{column}" + 1',
        "function": lambda values: values + 1,
        "dtype": nw.Int64,
    }
    assert with_column(duck.sql("SELECT 1 AS a"), "b", "a", **rules).fetchall() == [(1, 2)]
    assert with_column(pa.table({"a": [1, None]}), "b", "a", **rules)["b"].to_pylist() == [2, None]


TEXTS = ["", "patient-1", "größe µ 数 🙂", " ", "007", "7", "a\nb", "x" * 1_000, "'", '"']
WHOLE = [0, -1, 7, -(2**63), 2**63 - 1, 200]


def test_clusters_have_the_same_bucket_everywhere(subtests: pytest.Subtests, frame: Callable[[str, Any], Any]) -> None:
    for engine in ENGINES:
        for ids in [TEXTS, WHOLE]:
            with subtests.test(engine=engine, ids=ids):
                out = with_cluster_bucket(frame(engine, pa.table({"id": ids})), "id", "bucket")
                assert nw.from_native(out).collect_schema()["bucket"] == nw.Int64
                assert column(out, "bucket") == cluster_buckets(np.array(ids, dtype=object)).tolist()


def test_a_missing_id_has_a_missing_bucket(subtests: pytest.Subtests, frame: Callable[[str, Any], Any]) -> None:
    for engine in ENGINES:
        with subtests.test(engine=engine):
            out = with_cluster_bucket(frame(engine, pa.table({"id": ["patient-1", None, ""]})), "id", "bucket")
            expected = cluster_buckets(["patient-1", ""]).tolist()
            np.testing.assert_equal(
                column(out, "bucket"), [expected[0], NAN if engine == "pandas" else None, expected[1]]
            )


def test_ids_without_one_text_are_refused(
    subtests: pytest.Subtests, frame: Callable[[str, Any], Any], full_size: bool
) -> None:
    for engine in ENGINES:
        for ids in few([[1.0, 2.5], [True, False]], engine, full_size):
            with (
                subtests.test(engine=engine, ids=ids),
                pytest.raises(
                    InputError, match=r"groups='.*' must hold integers or strings, got .*: convert it to text"
                ),
            ):
                with_cluster_bucket(frame(engine, pa.table({"id": ids})), "id", "bucket")
