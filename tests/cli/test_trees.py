"""A tree on the command line: ``fit`` with features; ``check --map``, ``apply`` and ``export`` find them by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import write

import calibrant as cb
from calibrant.maps import StepMap, TreeMap

duckdb = pytest.importorskip("duckdb")

TREE = TreeMap(
    ("age", "job"), [False, True], [1, -1, 2, -1, -1], [41.5, 0, 0, 0, 0], ("", "", "student", "", ""),
    [1, -1, 3, -1, -1], [2, -1, 4, -1, -1], [True, False, False, False, False],
    tuple(StepMap([], [rate]) for rate in (0.1, 0.2, 0.3)),
)  # fmt: skip

ROWS = "(VALUES (0.2, 30.5, 'student'), (0.4, 70, 'nurse'), (0.6, NULL, NULL), (0.6, 50, 'student')) AS t(p, age, job)"


def people(n: int, seed: int) -> dict[str, Any]:
    """Students have events less often, and people above 41 more often, than the score says."""
    rng = np.random.default_rng(seed)
    age, job, score = rng.integers(18, 80, n), rng.choice(["office", "student", "retired"], n), rng.beta(2, 6, n)
    odds = score / (1 - score) * np.where(age > 41, 3.0, 1.0) * np.where(job == "student", 0.3, 1.0)
    return {"age": age, "job": job, "score": score, "bad": (rng.random(n) < odds / (1 + odds)).astype(int)}


def fit_tree(run: Any, *more: str, method: str = "tree", out: str = "tree.json") -> Any:
    return run("fit", "old.csv", "--label", "bad", "--method", method, "--out", out, *more)


@pytest.fixture
def old(here: Path) -> dict[str, Any]:
    rows = people(2000, 1)
    write(rows, "old.csv")
    return rows


def test_fit_saves_the_tree_of_the_library(run: Any, old: dict[str, Any], subtests: pytest.Subtests) -> None:
    features = {name: old[name] for name in ("age", "job")}
    for method, calibrator in (("tree", cb.CalibrationTree()), ("tree-curves", None)):
        with subtests.test(method):
            done = fit_tree(run, "--features", "age,job", method=method, out=f"{method}.json")
            assert done.exit_code == 0, done.output
            found = cb.load(f"{method}.json").map
            assert calibrator is None or found == calibrator.fit(old["score"], old["bad"], features).map_
            assert "job = student" in " ".join(done.stdout.split())
            assert "honest=True" not in done.stdout  # an option in its place


def test_an_honest_tree_is_certified_checked_and_applied(run: Any, old: dict[str, Any]) -> None:
    done = fit_tree(run, "--features", "age", "--features", "job", "--honest")
    assert done.exit_code == 0, done.output
    tree = cb.load("tree.json")
    assert " ".join(str(tree.certificate).split()) in " ".join(done.stdout.split())
    assert tree.certificate.about.chose == tree.certificate.n == 1000
    fresh = people(5_000, 2)
    write(fresh, "fresh.csv")
    p = tree.transform(fresh["score"], {name: fresh[name] for name in tree.map.columns})
    checked = run("check", "fresh.csv", "--label", "bad", "--map", "tree.json", "--json")
    expected = cb.check(
        fresh["score"], fresh["bad"], by={name: fresh[name] for name in (*tree.map.numbers, "job")}, calibration=tree
    )
    assert json.loads(checked.stdout)["predicted"] == expected.to_dict()["predicted"] == pytest.approx(p.sum())
    applied = run("apply", "fresh.csv", "--map", "tree.json", "--out", "scored.parquet")
    assert applied.exit_code == 0, applied.output
    found = [value for (value,) in duckdb.sql("SELECT calibrated FROM 'scored.parquet'").fetchall()]
    np.testing.assert_array_equal(found, p)


def test_rows_that_the_tree_was_fitted_to_are_known_again(run: Any, old: dict[str, Any]) -> None:
    assert fit_tree(run, "--features", "age,job").exit_code == 0
    done = run("check", "old.csv", "--label", "bad", "--map", "tree.json")
    assert done.exit_code == 11
    assert done.stdout.startswith("In-sample: the map was fitted to about 100 % of these rows")


def test_a_fraction_far_down_a_column_of_whole_numbers_is_not_rounded(run: Any) -> None:
    """Types are guessed from the first 20,480 rows of a CSV."""
    cb.Calibration(TREE).save("map.json")
    lines = ["score,age,job,label"] + ["0.5,41,x,0"] * 21_000 + ["0.5,41.6,x,1"]
    Path("long.csv").write_text("\n".join(lines) + "\n")
    assert run("apply", "long.csv", "--map", "map.json", "--out", "long.parquet").exit_code == 0
    found = duckdb.sql("SELECT DISTINCT age, calibrated FROM 'long.parquet' ORDER BY 1").fetchall()
    assert found == [(41.0, 0.1), (41.6, 0.3)]
    done = run("check", "long.csv", "--map", "map.json", "--json")
    assert json.loads(done.stdout)["predicted"] == pytest.approx(0.1 * 21_000 + 0.3)


MISTAKES = {
    "no features": (("--method", "tree"), "--method tree needs features"),
    "another method": (("--method", "platt", "--features", "age"), "--features needs --method tree or tree-curves"),
    "honest alone": (("--method", "platt", "--honest"), "--honest needs --method tree or tree-curves"),
    "the label": (("--method", "tree", "--features", "age,bad"), "--features bad is also the column of --label"),
    "no such column": (("--method", "tree", "--features", "age,town"), "has no column 'town'"),
    "segments": (("--method", "tree", "--features", "age", "--by", "job"), "--by cannot be combined with"),
    "only commas": (("--method", "tree", "--features", ","), "--method tree needs features"),
}


def test_what_does_not_go_with_features_is_told(run: Any, old: dict[str, Any], subtests: pytest.Subtests) -> None:
    for name, (words, said) in MISTAKES.items():
        with subtests.test(name):
            done = run("fit", "old.csv", "--label", "bad", "--out", "tree.json", *words)
            assert done.exit_code == 1, done.output
            assert said in " ".join(done.stderr.split())
            assert not Path("tree.json").exists()


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
