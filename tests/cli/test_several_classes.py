"""Several classes on the command line: fit, apply, export and verify with one column per class; stores by segment."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import calibrant as cb

NAMES = ("cat", "dog", "fox")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Rows whose first class is more frequent in the north."""
    rng = np.random.default_rng(0)
    p, site = rng.dirichlet([1, 1, 1], 1200), rng.choice(["north", "south"], 1200)
    z = np.log(p) + np.where((site == "north")[:, None], [1.5, 0.0, 0.0], 0.0)
    y = np.array(NAMES)[(z + rng.gumbel(size=z.shape)).argmax(axis=1)]
    columns = {f"p_{name}": p[:, k] for k, name in enumerate(NAMES)}
    made = tmp_path_factory.mktemp("classes")
    csv.write_csv(
        pa.table(columns | {"species": y, "site": site, "id": [f"{i:05d}" for i in range(1200)]}), made / "rows.csv"
    )
    return made


def read(path: Path) -> dict[str, np.ndarray]:
    return duckdb.sql(f"SELECT * FROM read_csv('{path}', types={{'id': 'VARCHAR'}})").fetchnumpy()


def test_fit_apply_export_and_verify(run, folder):
    rows, map_ = folder / "rows.csv", folder / "map.json"
    fitted = run("fit", rows, "--score", "p_*", "--label", "species", "--method", "temperature", "--out", map_)
    assert fitted.exit_code == 0, fitted.output
    assert "3 classes" in fitted.output
    applied = run("apply", rows, "--map", map_, "--out", folder / "out.csv")
    assert applied.exit_code == 0, applied.output
    assert "with the columns 'calibrated_" in " ".join(applied.output.split())
    found = read(folder / "out.csv")
    matrix = np.column_stack([found[f"p_{name}"] for name in NAMES])
    expected = cb.load(map_).predict_proba(matrix)
    np.testing.assert_allclose(np.column_stack([found[f"calibrated_{name}"] for name in NAMES]), expected, rtol=1e-9)
    assert found["id"][7] == "00007"
    exported = run("export", map_, "--out", folder / "map.sql", "--dialect", "sqlite")
    assert exported.exit_code == 0, exported.output
    assert run("verify", folder / "map.sql").exit_code == 0
    printed = run("export", map_, "--score", "a", "--score", "b", "--score", "c")
    assert printed.exit_code == 0, printed.output
    assert run("export", map_, "--out", folder / "map.onnx").exit_code == 0


def test_a_map_of_classes_by_segment(run, folder):
    rows, map_ = folder / "rows.csv", folder / "by.json"
    asked = (
        "--score",
        "p_cat",
        "--score",
        "p_dog",
        "--score",
        "p_fox",
        "--label",
        "species",
        "--method",
        "temperature",
    )
    fitted = run("fit", rows, *asked, "--by", "site", "--out", map_)
    assert fitted.exit_code == 0, fitted.output
    assert "By site" in fitted.output
    applied = run("apply", rows, "--map", map_, "--name", "q", "--out", folder / "by.parquet")
    assert applied.exit_code == 0, applied.output
    found = duckdb.sql(f"SELECT * FROM '{folder / 'by.parquet'}'").fetchnumpy()
    north = found["site"] == "north"
    assert (found["q_cat"] - found["p_cat"])[north].mean() > 0.1
    assert (found["q_cat"] - found["p_cat"])[~north].mean() < 0.05


def test_the_automatic_choice_as_json(run, folder):
    done = run(
        "fit", folder / "rows.csv", "--score", "p_*", "--label", "species", "--out", folder / "auto.json", "--json"
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["comparison"]["choice"] in ("identity", "temperature", "vector", "structured")


def test_mistakes_say_what_to_do(run, folder, subtests):
    rows, map_ = folder / "rows.csv", folder / "mistake.json"
    run("fit", rows, "--score", "p_*", "--label", "species", "--method", "temperature", "--out", map_)
    fit = ("fit", rows, "--label", "species", "--out", folder / "no.json")
    for command, words in [
        ((*fit, "--score", "p_*", "--method", "platt"), "use one of auto, temperature, vector, structured"),
        ((*fit, "--score", "p_cat", "--method", "vector"), "--method vector needs several classes"),
        ((*fit, "--score", "p_*", "--guarantee", "0.1"), "TopLabelHistogramBinning"),
        ((*fit, "--score", "p_*", "--source", "site"), "--source is for one score"),
        ((*fit, "--score", "p_*", "--positive", "cat"), "--positive is for one score"),
        ((*fit, "--score", "p_cat", "--class", "cat"), "--class needs several classes"),
        (("apply", rows, "--map", map_, "--score", "p_cat", "--out", folder / "no.csv"), "the map has 3 classes"),
        (
            ("apply", rows, "--map", map_, "--out", folder / "no.csv", *("--score", "p_cat") * 3),
            "do not sum to 1",
        ),
    ]:
        with subtests.test(words=words):
            done = run(*command)
            assert done.exit_code == 1, done.output
            assert words in " ".join(done.output.split())


def test_a_store_is_fitted_by_its_segments(run, tmp_path):
    rng = np.random.default_rng(1)
    land, s = rng.choice(["de", "fr"], 4000), rng.beta(2, 5, 4000)
    odds = s / (1 - s) * np.where(land == "fr", 2.5, 1.0)
    y = (rng.random(4000) < odds / (1 + odds)).astype(int)
    csv.write_csv(pa.table({"score": s, "label": y, "land": land}), tmp_path / "rows.csv")
    store = tmp_path / "tallies"
    made = run("tally", tmp_path / "rows.csv", "--store", store, "--day", "2026-01-01", "--by", "land")
    assert made.exit_code == 0, made.output
    done = run("fit", store, "--by", "land", "--method", "platt", "--out", tmp_path / "map.json")
    assert done.exit_code == 0, done.output
    found = cb.load(tmp_path / "map.json").transform([0.3, 0.3], ["de", "fr"])
    np.testing.assert_allclose(found, [0.3, 0.52], atol=0.05)
    wrong = run("fit", store, "--by", "city", "--out", tmp_path / "no.json")
    assert "--by city is not a segment of the tally store: it has land" in " ".join(wrong.output.split())
