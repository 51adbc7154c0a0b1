"""export and verify, end to end on files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.export.sql.file import SqlFile


@pytest.fixture
def fitted(run: Any) -> cb.Calibration:
    assert run("fit", "rows.csv", "--label", "bad", "--method", "isotonic", "--out", "map.json").exit_code == 0
    return cb.load("map.json")


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark", "sqlite", "snowflake"])
def test_export_writes_what_the_library_writes(run: Any, fitted: cb.Calibration, dialect: str) -> None:
    done = run("export", "map.json", "--dialect", dialect, "--score", "p d", "--out", "map.sql")
    assert done.exit_code == 0
    assert "Wrote map.sql. Compared with the map on" in done.stdout
    assert SqlFile.parse(Path("map.sql").read_text()).text == fitted.to_sql("p d", dialect)
    again = run("verify", "map.sql")
    assert again.exit_code == 0
    assert again.stdout.startswith("Compared with the map on")


def test_export_without_a_file_prints_the_expression_alone(run: Any, fitted: cb.Calibration) -> None:
    done = run("export", "map.json")
    assert done.stdout == fitted.to_sql("score") + "\n"
    assert "Compared with the map on DuckDB" in done.stderr
    told = json.loads(run("export", "map.json", "--json").stdout)
    assert told["expression"] == fitted.to_sql("score")
    assert told["proof"]["scores"] > 100_000


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_export_writes_a_model(run: Any, fitted: cb.Calibration, dtype: str) -> None:
    import onnxruntime

    done = run("export", "map.json", "--out", "map.onnx", "--dtype", dtype)
    assert done.exit_code == 0
    assert dtype in done.stdout
    scores = np.random.default_rng(0).random(500).astype(dtype)
    session = onnxruntime.InferenceSession("map.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"score": scores})[0], fitted.transform(scores))
    assert json.loads(run("verify", "map.onnx", "--json").stdout)["scores"] > 100_000


def test_export_writes_a_model_of_chosen_versions(run: Any, fitted: cb.Calibration) -> None:
    import onnx

    assert run("export", "map.json", "--out", "map.onnx", "--opset", "20", "--ir-version", "10").exit_code == 0
    model = onnx.load("map.onnx")
    assert (model.opset_import[0].version, model.ir_version) == (20, 10)
    done = run("export", "map.json", "--out", "other.onnx", "--opset", "3")
    assert done.exit_code != 0
    assert "--opset must be the version of an operator set, got 3" in " ".join(done.stderr.split())


@pytest.mark.parametrize(("name", "language"), [("map.py", "Python"), ("map.c", "C")])
def test_export_writes_source(run: Any, fitted: cb.Calibration, name: str, language: str) -> None:
    done = run("export", "map.json", "--out", name)
    assert done.exit_code == 0
    assert f"Wrote {name}. Compared with the map on" in done.stdout
    plain = fitted.to_python() if language == "Python" else fitted.to_c()
    assert set(plain.splitlines()) < set(Path(name).read_text().splitlines())  # and the proof
    for option in (["--dialect", "sqlite"], ["--opset", "17"]):
        refused = run("export", "map.json", "--out", f"other-{name}", *option)
        assert refused.exit_code == 1
        assert f"does not apply to {language}" in refused.stderr


def test_an_edited_file_fails_the_pipeline(run: Any, fitted: cb.Calibration) -> None:
    run("export", "map.json", "--out", "map.sql")
    path = Path("map.sql")
    head, _, expression = path.read_text().rpartition("\nCASE")
    path.write_text(f"{head}\nCASE{expression.replace('least(', 'greatest(', 1)}")
    done = run("verify", "map.sql")
    assert done.exit_code == 1
    assert "do not use this export" in done.stderr


MISTAKES = {
    "no such map": ("export no.json", "the map no.json does not exist: create it with calibrant fit ... --out no.json"),
    "not a map": ("export rows.csv", "rows.csv is damaged or is not a map saved by calibrant"),
    "unknown dialect": ("export map.json --dialect algol", "dialect must be one of duckdb, "),
    "unknown form": (
        "export map.json --out map.txt",
        "has an unknown file extension: use one of .sql .onnx",
    ),
    "over the map": ("export map.json --out map.json", "one of .sql .onnx"),
    "there already": ("export map.json --out there.sql", "there.sql exists: pass --force"),
    "a type of SQL": ("export map.json --dtype float64", "--dtype does not apply to SQL: leave it out"),
    "a type of a file of SQL": ("export map.json --out m.sql --dtype float64", "--dtype does not apply to SQL"),
    "a dialect of ONNX": ("export map.json --out m.onnx --dialect duckdb", "--dialect does not apply to ONNX"),
    "a column of ONNX": ("export map.json --out m.onnx --score p", "--score does not apply to ONNX"),
    "force without a file": ("export map.json --force", "--force needs --out: pass the file to overwrite"),
    "no folder": ("export map.json --out no/map.sql", "is in the folder no, which does not exist"),
    "nothing to verify": ("verify no.sql", "no.sql does not exist: create it with calibrant export"),
    "no export": ("verify rows.csv", "the file was not written by export_sql"),
    "a table": ("verify rows.parquet", "it is not text"),
}


def test_mistakes_are_answered_in_a_sentence(subtests: pytest.Subtests, run: Any, fitted: cb.Calibration) -> None:
    for case in MISTAKES:
        with subtests.test(case=case):
            Path("there.sql").write_text("SELECT 1")
            words, told = MISTAKES[case]
            done = run(*words.split())
            assert done.exit_code == 1
            assert done.stdout == ""
            (line,) = done.stderr.splitlines()
            assert line.startswith("error: ")
            assert told in line
