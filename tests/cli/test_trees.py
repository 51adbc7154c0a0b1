"""``apply``, ``export`` and ``verify`` of a map by the leaves of a tree: its columns are found by name in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.maps import StepMap, TreeMap

duckdb = pytest.importorskip("duckdb")

TREE = TreeMap(
    ("age", "job"), [False, True], [1, -1, 2, -1, -1], [41.5, 0, 0, 0, 0], ("", "", "student", "", ""),
    [1, -1, 3, -1, -1], [2, -1, 4, -1, -1], [True, False, False, False, False],
    tuple(StepMap([], [rate]) for rate in (0.1, 0.2, 0.3)),
)  # fmt: skip

ROWS = "(VALUES (0.2, 30.5, 'student'), (0.4, 70, 'nurse'), (0.6, NULL, NULL), (0.6, 50, 'student')) AS t(p, age, job)"


def test_a_file_gets_the_probabilities_of_its_leaves(run: Any, subtests: pytest.Subtests) -> None:
    cb.Calibration(TREE).save("map.json")
    for name in ("people.csv", "people.parquet"):
        with subtests.test(name):
            rows = duckdb.sql(f"SELECT * FROM {ROWS}")
            (rows.write_csv if name.endswith("csv") else rows.write_parquet)(name)
            done = run("apply", name, "--map", "map.json", "--score", "p", "--out", f"out-{name}")
            assert done.exit_code == 0, done.output
            found = [value for (value,) in duckdb.sql(f"SELECT calibrated FROM 'out-{name}'").fetchall()]
            assert found == [0.1, 0.3, 0.1, 0.2]


def test_a_text_in_a_column_of_numbers_is_refused(run: Any) -> None:
    cb.Calibration(TREE).save("map.json")
    duckdb.sql("SELECT 0.5 AS p, 'old' AS age, 'x' AS job").write_csv("bad.csv")
    done = run("apply", "bad.csv", "--map", "map.json", "--score", "p", "--out", "out.csv")
    assert done.exit_code == 1
    assert "needs numbers" in " ".join(done.stderr.split())


def test_the_sql_of_a_tree_is_written_and_verified(run: Any) -> None:
    cb.Calibration(TREE).save("map.json")
    done = run("export", "map.json", "--score", "p", "--by", "age=years", "--out", "map.sql")
    assert done.exit_code == 0, done.output
    assert '"years"' in Path("map.sql").read_text()
    assert run("verify", "map.sql").exit_code == 0
    assert np.isnan(TREE.apply([np.nan], {"age": [1], "job": ["x"]})[0])
