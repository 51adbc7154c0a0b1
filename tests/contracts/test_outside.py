"""A score that `transform` refuses is NaN or NULL in every export, for every kind of map of probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.contracts.test_class_maps import SAMPLES as CLASS_SAMPLES
from tests.contracts.test_maps import SAMPLES, groups_of, tree_values

from calibrant.calibration import Calibration
from calibrant.engine.columns import apply
from calibrant.export.errors import ExportMismatchError
from calibrant.export.kinds.samples import Rows
from calibrant.export.languages.sql.dialects import DIALECTS, EXECUTED_DIALECTS
from calibrant.export.onnx.model import proven_model, session_of, to_onnx
from calibrant.export.proof import compare
from calibrant.export.source import LANGUAGES, source_of
from calibrant.export.sql.expressions import sql_outputs, to_sql
from calibrant.export.sql.file import engine_at_hand
from calibrant.maps import ComposeMap, IdentityMap, LogitAffineMap, Map, StepMap, TopMap
from calibrant.maps.trees import TreeNodes
from calibrant.messages import InputError
from calibrant.online import OnlinePlatt

GIVEN = (1.2, 55.0, -0.1, 1.0 + 5e-7, -5e-7, math.nan, None, math.inf, -math.inf, 0.3, 1.0 + 2e-6, -2e-6)
READ = (math.nan, math.nan, math.nan, 1.0, 0.0, math.nan, math.nan, math.nan, math.nan, 0.3, math.nan, math.nan)
FLOATS = np.array([math.nan if each is None else each for each in GIVEN])

EDGES = StepMap([-5e-7, 0.0, 1.0, 1.0 + 2.0**-52], [0.1, 0.2, 0.3, 0.4, 0.5])
"""A table with steps where only clipping finds the right one."""
MAPS = [map_ for maps in SAMPLES.values() for map_ in maps] + [EDGES, ComposeMap((EDGES, LogitAffineMap(2.0, 0.1)))]
CLASS_MAPS = [map_ for maps in CLASS_SAMPLES.values() for map_ in maps if map_.on == "probability"]


def matrix_of(map_: Any) -> tuple[list[list[float | None]], np.ndarray]:
    """Rows with each given score in each column in turn, and the same as they are read."""
    size = len(map_.classes)
    places = np.arange(len(GIVEN) * size) % size
    given = np.full((len(places), size), 0.7 / size)
    read = given.copy()
    given[np.arange(len(places)), places] = np.repeat(FLOATS, size)
    read[np.arange(len(places)), places] = np.repeat(READ, size)
    listed: list[list[float | None]] = given.tolist()
    for row in np.flatnonzero(np.repeat([each is None for each in GIVEN], size)).tolist():
        listed[row][places[row]] = None
    return listed, read


def rows_of(map_: Map) -> tuple[list[list[float | None]], np.ndarray, dict[str, np.ndarray]]:
    """The given rows, the rows as they are read, and their columns of groups."""
    if len(map_.inputs) > 1:
        given, read = matrix_of(map_)
    else:
        given, read = [[each] for each in GIVEN], np.array(READ)
    if isinstance(map_, TreeNodes):
        return given, read, {name: np.resize(tree_values(map_, name), len(given)) for name in map_.columns}
    return given, read, groups_of(map_, len(given)) or {}


def sql(dialect: str) -> Callable[[Map], np.ndarray]:
    def run(map_: Map) -> np.ndarray:
        given, _, groups = rows_of(map_)
        names = [f"s{place}" for place in range(len(map_.inputs))]
        columns = {name: [row[place] for row in given] for place, name in enumerate(names)}
        numbers = {name: values.tolist() for name, values in groups.items() if name in map_.numbers}
        texts = {name: values.tolist() for name, values in groups.items() if name not in map_.numbers}
        made = to_sql(map_, names, dialect, bounded=True)
        items = [made[name] for name in map_.outputs]  # type: ignore[index]
        found = engine_at_hand(dialect).select(items, {**columns, **numbers}, texts)
        labels = [made[name] for name in sql_outputs(map_) if name not in map_.outputs]  # type: ignore[index]
        if labels and dialect in EXECUTED_DIALECTS:
            told = engine_at_hand(dialect).select(labels, {**columns, **numbers}, texts)
            assert [[each is None for each in column] for column in told] == [
                [each is None for each in column] for column in found
            ]
        return np.array(found, dtype=np.float64).T

    return run


def source(language: str) -> Callable[[Map], np.ndarray]:
    def run(map_: Map) -> np.ndarray:
        groups = rows_of(map_)[2]
        return LANGUAGES[language].run(source_of(map_, language, bounded=True), Rows(FLOATS, groups))[0][:, None]

    return run


def scorer(map_: Map) -> np.ndarray:
    given, _, groups = rows_of(map_)
    score = Calibration(map_).scorer()
    others = [values.tolist() for values in groups.values()]
    return np.array([score(row[0], *beside) for row, *beside in zip(given, *others, strict=True)])[:, None]


def onnx(map_: Map) -> np.ndarray:
    given, _, groups = rows_of(map_)
    session = session_of(to_onnx(map_, "float64", bounded=True).SerializeToString())
    missing = "" if isinstance(map_, TreeNodes) else "never listed"
    columns = {
        name: values if name in map_.numbers else np.where(values == None, missing, values)  # noqa: E711
        for name, values in groups.items()
    }
    scores = np.array(given, dtype=np.float64)
    name = "scores" if len(map_.inputs) > 1 else "score"
    found, *labels = session.run(None, {name: scores if len(map_.inputs) > 1 else scores[:, 0], **columns})
    if labels:
        np.testing.assert_array_equal(labels[0] < 0, np.isnan(found))
    return found.reshape(len(given), -1)


def torch(map_: Map) -> np.ndarray:
    """As ``to_torch``, without its proof; run by ``tests/engine/test_torch.py``."""
    import torch as package

    from calibrant.export.torch_modules import CalibratedModule

    given = np.array(rows_of(map_)[0], dtype=np.float64)
    scores = package.from_numpy(given if len(map_.inputs) > 1 else given[:, 0])
    return CalibratedModule(map_, True)(scores).numpy().reshape(len(given), -1)


def in_polars(map_: Map) -> np.ndarray:
    """A lazy frame, whose scores cannot be refused."""
    import polars as pl

    groups = rows_of(map_)[2]
    frame = pl.DataFrame({"score": list(GIVEN), **{name: values.tolist() for name, values in groups.items()}}).lazy()
    found = apply(map_, frame, "score").collect()["calibrated"].to_list()
    return np.array(found, dtype=np.float64)[:, None]


def in_duckdb(map_: Map) -> np.ndarray:
    import duckdb
    import pyarrow as pa

    groups = rows_of(map_)[2]
    table = pa.table({"score": list(GIVEN), **{name: values.tolist() for name, values in groups.items()}})
    found = apply(map_, duckdb.from_arrow(table), "score").project("calibrated").fetchall()
    return np.array([value for (value,) in found], dtype=np.float64)[:, None]


EXPORTERS: dict[str, Callable[[Map], np.ndarray]] = {
    **{f"SQL of {dialect}": sql(dialect) for dialect in DIALECTS},
    "ONNX": onnx,
    "scorer": scorer,
    "Python": source(".py"),
    "C": source(".c"),
    "lazy polars": in_polars,
    "DuckDB": in_duckdb,
}
OF_CLASSES = [name for name in EXPORTERS if name.startswith("SQL") or name == "ONNX"]
QUICK = ("SQL of duckdb", "SQL of sqlite", "ONNX", "scorer", "lazy polars", "DuckDB")
"""Exports of which three maps of each kind are tried on every change, of others one; all with `--full`."""
HARD = ("no text for booleans", "nested too deeply", "needs more than", "not tested in", "is a tree")
"""What an export may refuse by itself."""


def assert_reads(map_: Map, export: Callable[[Map], np.ndarray]) -> None:
    """What the export gives is what the map gives where scores that are none are missing, and rounding is clipped."""
    _, read, groups = rows_of(map_)
    want = map_.apply(read, groups or None).reshape(len(read), -1)
    np.testing.assert_allclose(export(map_), want, rtol=1e-11, atol=1e-280)


@pytest.mark.parametrize("name", EXPORTERS)
def test_every_export_gives_nothing_for_a_score_that_is_no_probability(
    name: str, subtests: pytest.Subtests, full_size: bool
) -> None:
    maps = MAPS + (CLASS_MAPS if name in OF_CLASSES else [])
    by_kind: dict[str, int] = {}
    for map_ in maps:
        place = by_kind[map_.kind] = by_kind.get(map_.kind, 0) + 1
        if map_.kind == "tree" and name in ("Python", "C"):
            continue
        if not full_size and place > (3 if name in QUICK else 1) and map_ is not EDGES:
            continue
        with subtests.test(kind=map_.kind, place=place):
            try:
                assert_reads(map_, EXPORTERS[name])
            except InputError as refused:
                if not any(part in str(refused) for part in HARD):
                    raise


def test_python_refuses_the_same_scores_and_clips_rounding(subtests: pytest.Subtests) -> None:
    for map_ in [*MAPS, *CLASS_MAPS]:
        given, read, groups = rows_of(map_)
        calibration = Calibration(map_)
        for row, as_read in zip(given, read, strict=True):
            with subtests.test(map_.kind, row=row):
                scores = np.array(row, dtype=np.float64)
                one = {name: values[:1] for name, values in groups.items()}
                if np.isnan(as_read).any() and not np.isnan(scores).any():
                    with pytest.raises(InputError):
                        calibration.transform(scores[None] if len(row) > 1 else scores, one or None)
                elif len(row) == 1:
                    want = map_.apply(np.atleast_1d(as_read), one or None)
                    np.testing.assert_array_equal(calibration.transform(scores, one or None), want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_boundary_is_the_same_number_in_both_precisions(dtype: Any) -> None:
    ends = np.array([-1e-6, 1.0 + 1e-6], dtype=dtype)
    beyond = np.nextafter(ends, np.array([-1.0, 2.0], dtype=dtype))
    beyond = np.nextafter(beyond, np.array([-1.0, 2.0], dtype=dtype))
    calibration = Calibration(IdentityMap())
    inside = np.nextafter(ends, np.array([0.5, 0.5], dtype=dtype))
    assert calibration.transform(inside).tolist() == [0.0, 1.0]
    for each in beyond:
        with pytest.raises(InputError):
            calibration.transform(np.array([each], dtype=dtype))


def test_maps_of_logits_have_no_range() -> None:
    line = LogitAffineMap(0.8, -0.1, "score")
    text = to_sql(line, "s", "duckdb")
    (found,) = engine_at_hand("duckdb").select([text], {"s": [-7.0, 55.0, None]}, {})
    assert found[:2] == pytest.approx(line.apply([-7.0, 55.0]), rel=1e-12)
    assert found[2] is None


def test_a_proof_meets_scores_that_are_no_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export that clips them is not the map."""
    unbounded = to_onnx(StepMap([0.5], [0.1, 0.8]))
    monkeypatch.setattr("calibrant.export.onnx.model.to_onnx", lambda *_, **__: unbounded)
    with pytest.raises(ExportMismatchError, match="but the map gives nan"):
        proven_model(StepMap([0.5], [0.1, 0.8]), "{}", "float32", ("n",), None, None, bounded=True)
    rows = Rows(np.array([0.2, 1.2, -5e-7]))
    assert compare(StepMap([], [0.3]), rows, np.array([0.3, math.nan, 0.3]), "hand", bounded=True).equal == 3


def test_rows_of_top_classes_tie_after_clipping() -> None:
    """1 + 5e-7 is 1, so the earlier of two classes that are certain comes first."""
    top = TopMap(("a", "b"), 1, (StepMap([], [0.7]), StepMap([], [0.9])), "probability")
    made = to_sql(top, ["a", "b"], "duckdb", bounded=True)
    found = engine_at_hand("duckdb").select([*made.values()], {"a": [1.0], "b": [1.0 + 5e-7]}, {})  # type: ignore[union-attr]
    assert found == [[0.7], ["a"]]
    assert replace(top).labels([[1.0, 1.0]]).tolist() == [[0]]


def test_streams_have_the_same_boundary() -> None:
    forecaster = OnlinePlatt().learn_many([0.2, 0.7, 0.9], [0, 1, 1])
    for given, read in ((1.0 + 5e-7, 1.0), (-5e-7, 0.0)):
        assert forecaster.predict_one(given) == forecaster.predict_one(read)
        assert forecaster.predict_many([0.5, given])[1] == forecaster.predict_one(read)
    for beyond in (1.2, -2e-6):
        with pytest.raises(InputError):
            forecaster.predict_one(beyond)
        with pytest.raises(InputError):
            forecaster.predict_many([0.5, beyond])
