"""Exports of trees: SQL on engines, ONNX, one row at a time, and the command line."""

from __future__ import annotations

import datetime as dt
import math
import sqlite3
from contextlib import closing
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.contracts.test_maps import SAMPLES, groups_of

import calibrant as cb
from calibrant.calibration import Calibration
from calibrant.export.kinds import trees
from calibrant.export.onnx.model import prove_model, session_of, to_onnx
from calibrant.maps import StepMap, TreeMap
from calibrant.messages import InputError

pytestmark = pytest.mark.engine

TREES = SAMPLES["tree"]


BY_AGE = TreeMap(
    ("age", "job"), [False, True], [1, -1, 2, -1, -1], [41.0, 0, 0, 0, 0], ("", "", "student", "", ""),
    [1, -1, 3, -1, -1], [2, -1, 4, -1, -1], [False] * 5, tuple(StepMap([], [rate]) for rate in (0.1, 0.2, 0.3)),
)  # fmt: skip


def test_the_rules_are_readable_sql() -> None:
    """One line for each rule, on the columns by their names."""
    text = Calibration(BY_AGE).to_sql("p")
    assert text.splitlines()[1:] == [
        """  WHEN "age" <= 41.0e0 THEN 0.1e0""",
        """  WHEN ("age" > 41.0e0 OR "age" IS NULL OR """
        """NOT (isfinite(CAST("age" AS DOUBLE)) OR isinf(CAST("age" AS DOUBLE)))) """
        """AND CAST("job" AS VARCHAR) IN ('student') THEN 0.2e0""",
        "  ELSE 0.3e0",
        "END END",
    ]


def test_every_tree_is_proven_as_a_model(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    monkeypatch.setattr(trees, "RANDOM_ROWS", 5_000)
    for place, map_ in enumerate(TREES):
        for dtype in ("float32", "float64"):
            with subtests.test(place=place, dtype=dtype):
                prove_model(map_, session_of(to_onnx(map_, dtype).SerializeToString()))


def test_one_row_at_a_time_gives_what_apply_gives() -> None:
    for map_ in TREES:
        scores = np.random.default_rng(0).random(200)
        groups = groups_of(map_, 200) or {}
        score = Calibration(map_).scorer()
        found = [score(s, *(groups[name][j] for name in map_.columns)) for j, s in enumerate(scores.tolist())]
        np.testing.assert_allclose(found, map_.apply(scores, groups or None), rtol=1e-12)
        assert np.isnan(score(None, *(groups[name][0] for name in map_.columns)))
        if map_.columns:
            with pytest.raises(InputError, match="needs 2"):
                score(0.5)


def test_a_tree_without_a_source_says_what_to_use() -> None:
    for call in (Calibration(TREES[0]).to_python, Calibration(TREES[0]).to_c):
        with pytest.raises(InputError, match="to_sql"):
            call()
    with pytest.raises(ValueError, match="composition"):
        cb.maps.ComposeMap((TREES[0], cb.maps.IdentityMap()))


def test_frames_of_every_engine_get_the_same_column() -> None:
    scores = np.random.default_rng(0).random(60)
    frame = pd.DataFrame({"s": scores, **(groups_of(TREES[0], 60) or {})})
    here = cb.engine.apply(TREES[0], frame, "s")["calibrated"].to_numpy()
    there = cb.engine.apply(TREES[0], duckdb.from_df(frame), "s").df()["calibrated"].to_numpy()
    np.testing.assert_array_equal(here, there)
    with pytest.raises(InputError, match="needs numbers"):
        cb.engine.apply(TREES[0], duckdb.sql("SELECT 0.5 AS s, 'x' AS age, 'y' AS job"), "s")


def test_booleans_are_read_in_every_spelling() -> None:
    """A database may hold a column of booleans as integers, as numbers or as words."""
    leaves = StepMap([], [0.1]), StepMap([], [0.4])
    by_flag = TreeMap(("flag",), [True], [1, -1, -1], [0.0] * 3, ("false", "", ""), [1, -1, -1], [2, -1, -1],
                      [False] * 3, leaves)  # fmt: skip
    sql = Calibration(by_flag).to_sql("s")
    for kind in ("BOOLEAN", "INTEGER", "DOUBLE"):
        values = f"(VALUES (0.5, CAST(0 AS {kind})), (0.5, CAST(1 AS {kind})), (0.5, NULL)) AS t(s, flag)"
        assert duckdb.sql(f"SELECT {sql} FROM {values}").fetchall() == [(0.1,), (0.4,), (0.4,)]
    for false, true in (("false", "true"), ("False", "True"), ("FALSE", "TRUE"), ("0", "1")):
        values = f"(VALUES (0.5, '{false}'), (0.5, '{true}')) AS t(s, flag)"
        assert duckdb.sql(f"SELECT {sql} FROM {values}").fetchall() == [(0.1,), (0.4,)]
        session = session_of(to_onnx(by_flag, "float64").SerializeToString())
        names = [each.name for each in session.get_inputs()]
        given = {"flag": np.array([false, true], dtype=object), "score": np.array([0.5, 0.5])}
        found = session.run(None, {name: given[name].reshape([-1, *([1] * (len(each.shape) - 1))])
                                   for name, each in zip(names, session.get_inputs(), strict=True)})[0]  # fmt: skip
        np.testing.assert_allclose(np.ravel(found), [0.1, 0.4])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "RANDOM_ROWS", 2_000)
        prove_model(by_flag, session_of(to_onnx(by_flag, "float32").SerializeToString()))


def by_one(name: str, text: bool, cut: float, level: str, missing_left: bool) -> TreeMap:
    """A split of one column: 0.1 on the left, 0.2 on the right."""
    return TreeMap(
        (name,), [text], [1, -1, -1], [cut, 0, 0], (level, "", ""), [1, -1, -1], [2, -1, -1],
        [missing_left, False, False], (StepMap([], [0.1]), StepMap([], [0.2])),
    )  # fmt: skip


NUMBERS = [
    0.1, 0.5, 0, 1, True, np.float32(0.1), np.float16(0.1), np.float64(0.1), np.longdouble("0.1"), np.int8(0),
    np.uint64(1), np.bool_(False), Decimal("0.1"), Fraction(1, 10), 2**70, math.inf, -math.inf, math.nan, None, pd.NA,
    pd.NaT, np.float32("nan"),
]  # fmt: skip
NOT_NUMBERS = ["0.1", "", b"0.1", 1j, dt.date(2020, 1, 1), np.datetime64("2020-01-01"), 10**400, 2**60, [0.1, 0.2], {}]


@pytest.mark.parametrize("missing_left", [False, True])
def test_one_value_is_read_as_apply_reads_a_column(missing_left: bool, subtests: pytest.Subtests) -> None:
    map_ = by_one("age", False, 0.1, "", missing_left)
    score = Calibration(map_).scorer()
    for value in NUMBERS:
        with subtests.test(repr(value)):
            assert score(0.5, value) == map_.apply([0.5], {"age": [value]})[0]
    for value in NOT_NUMBERS:
        with subtests.test(repr(value)):
            for call in (lambda v: map_.apply([0.5], {"age": [v]}), lambda v: score(0.5, v)):
                with pytest.raises(InputError, match="the column 'age'"):
                    call(value)


def test_a_tree_of_the_score_alone_has_a_scorer() -> None:
    leaves = (StepMap([], [0.1]), StepMap([], [0.2]))
    map_ = TreeMap((), [], [0, -1, -1], [0.1, 0, 0], ("",) * 3, [1, -1, -1], [2, -1, -1], [False] * 3, leaves)
    score = Calibration(map_).scorer()
    assert [score(s) for s in (0.1, np.float32(0.1), 0, 1)] == [0.1, 0.2, 0.1, 0.2]


def test_the_empty_text_in_a_model() -> None:
    """It stands for a missing value there, which the proof says; a tree that splits on it has no model."""
    map_ = by_one("job", True, 0.0, "student", True)
    assert map_.apply([0.5] * 2, {"job": ["", None]}).tolist() == [0.2, 0.1]
    assert [Calibration(map_).scorer()(0.5, job) for job in ("", None)] == [0.2, 0.1]
    text = Calibration(map_).to_sql("p")
    rows = duckdb.sql("SELECT * FROM (VALUES (0.5, ''), (0.5, NULL)) AS t(p, job)")
    assert rows.project(text).fetchall() == [(0.2,), (0.1,)]
    session = session_of(to_onnx(map_, "float64").SerializeToString())
    (found,) = session.run(None, {"score": np.array([0.5]), "job": np.array([""], dtype=object)})
    assert found.tolist() == [0.1]
    assert "empty text for missing text" in prove_model(map_, session).engine
    for missing_left in (False, True):
        with pytest.raises(InputError, match="empty text as a level of 'job'"):
            to_onnx(by_one("job", True, 0.0, "", missing_left))


@pytest.mark.parametrize("missing_left", [False, True])
def test_numbers_stored_as_text_give_null_on_sqlite(missing_left: bool) -> None:
    map_ = by_one("age", False, 0.1, "", missing_left)
    text = Calibration(map_).to_sql("p", "sqlite")
    values = ["0.5", "0.05", "x", b"0.5", 0.05, 0.5, 0, 1, None]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (p REAL, age)")
        connection.executemany("INSERT INTO t VALUES (0.5, ?)", [(value,) for value in values])
        found = [each for (each,) in connection.execute(f"SELECT {text} FROM t ORDER BY rowid")]
    assert found == [None] * 4 + map_.apply([0.5] * 5, {"age": values[4:]}).tolist()
