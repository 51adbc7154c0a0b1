"""SQL files and ONNX models that carry their proof: written only if they are right, verified wherever they run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.postgres import USER, Server

import calibrant as cb
from calibrant.export import proof
from calibrant.export.errors import DocumentError
from calibrant.export.kinds import samples, tolerance
from calibrant.export.languages.sql import interpreter
from calibrant.export.sql import file as proven
from calibrant.export.sql.expressions import to_sql
from calibrant.export.sql.file import SqlFile
from calibrant.export.verify import verify
from calibrant.maps import (
    BetaMap,
    ByGroupMap,
    ComposeMap,
    IdentityMap,
    LogitAffineMap,
    PiecewiseLinearMap,
    StepMap,
)
from calibrant.messages import InputError

duckdb = pytest.importorskip("duckdb")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.engine

STEPS = StepMap([0.3, 0.6], [0.1, 0.4, 0.9])
CURVE = LogitAffineMap(1.3, -0.4)


@pytest.fixture
def binning() -> cb.HistogramBinning:
    rng = np.random.default_rng(3)
    scores = rng.random(2_000)
    return cb.HistogramBinning(n_bins=8).fit(scores, rng.random(2_000) < scores**2)


# ---------------------------------------------------------------------------------------------------------- SQL files


@pytest.fixture(autouse=True)
def fewer_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proofs of a tenth of the size: what they find is tested at full size in `test_sql.py` and `test_onnx.py`."""
    monkeypatch.setattr(samples, "RANDOM_SCORES", 10_000)


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "postgres", "spark", "snowflake"])
def test_a_file_holds_the_expression_and_its_proof(subtests: pytest.Subtests, tmp_path: Path, dialect: str) -> None:
    for map_ in [STEPS, CURVE]:
        with subtests.test(map_=map_):
            path = tmp_path / "risk.sql"
            calibration = cb.Calibration(map_)
            made = calibration.export_sql(path, "score", dialect)
            text = path.read_text()
            assert text.splitlines()[-1] == calibration.to_sql("score", dialect)
            assert str(made) in text
            assert ("not run on" in made.engine) == (dialect not in ("duckdb", "sqlite"))
            file = SqlFile.parse(text)
            assert (file.columns, file.dialect, file.proof) == ({"score": "score"}, dialect, made)
            assert file.text == calibration.to_sql("score", dialect)
            assert cb.Calibration.from_json(file.document) == calibration
            assert verify(path) == made


def test_the_certificate_travels_with_the_file(tmp_path: Path, binning: cb.HistogramBinning) -> None:
    binning.calibration_.export_sql(tmp_path / "risk.sql", "score")
    found = cb.Calibration.from_json(SqlFile.parse((tmp_path / "risk.sql").read_text()).document)
    assert found.to_json() == binning.calibration_.to_json()
    assert isinstance(found.certificate, cb.Certificate)


def test_no_column_name_breaks_out_of_the_comments(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for name in ["a\nb", "a\n-- calibrant dialect: 3", "-- x", "*/", "a\r\nb", "größe 🙂"]:
        with subtests.test(name=name):
            path = tmp_path / "risk.sql"
            cb.Calibration(STEPS).export_sql(path, name, "sqlite")
            head = [line for line in path.read_text().split("\n") if line.startswith("-- ")][:6]
            assert [line.split()[2] for line in head[2:]] == ["proof:", "columns:", "dialect:", "document:"]
            with closing(sqlite3.connect(":memory:")) as connection:
                verify(path, connection)


@contextmanager
def connections(server: Server) -> Iterator[dict[str, Any]]:
    """One of every driver of PostgreSQL that is named in the documentation."""
    psycopg2, pg8000, sqlalchemy = (pytest.importorskip(name) for name in ("psycopg2", "pg8000.dbapi", "sqlalchemy"))
    socket = str(server.folder)
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://{USER}@/postgres?host={socket}")
    made = {
        "psycopg": server.connect(),
        "psycopg2": psycopg2.connect(host=socket, user=USER, dbname="postgres"),
        "pg8000": pg8000.connect(user=USER, unix_sock=f"{socket}/.s.PGSQL.5432", database="postgres"),
        "sqlalchemy": engine.connect(),
    }
    try:
        yield made
    finally:
        for connection in made.values():
            connection.close()
        engine.dispose()


def test_every_driver_of_postgres(postgres: Server, tmp_path: Path) -> None:
    path = tmp_path / "risk.sql"
    cb.Calibration(CURVE).export_sql(path, 'sc%o"re', "postgres")
    with connections(postgres) as made:
        for connection in made.values():
            assert verify(path, connection).engine.startswith("PostgreSQL ")


def test_an_export_can_be_proved_on_the_users_engine_at_once(postgres: Server, tmp_path: Path) -> None:
    path = tmp_path / "risk.sql"
    with postgres.connect() as connection:
        made = cb.Calibration(CURVE).export_sql(path, "score", "postgres", connection=connection)
    assert made.engine.startswith("PostgreSQL ")
    assert json.dumps(made.engine) in path.read_text()


def test_spark_connect_verifies_too(connect: Any, tmp_path: Path) -> None:
    path = tmp_path / "risk.sql"
    cb.Calibration(STEPS).export_sql(path, "score", "spark")
    assert verify(path, connect).engine.startswith("Spark 4")


def test_a_connection_of_another_engine_is_refused(tmp_path: Path, duck: Any) -> None:
    path = tmp_path / "risk.sql"
    with closing(sqlite3.connect(":memory:")) as connection:
        with pytest.raises(InputError, match="dialect of the text, duckdb, but is a connection of sqlite"):
            cb.Calibration(STEPS).export_sql(path, "score", "duckdb", connection=connection)
        cb.Calibration(STEPS).export_sql(path, "score", "duckdb")
        with pytest.raises(InputError, match="dialect of the text, duckdb, but is a connection of sqlite"):
            verify(path, connection)
    with pytest.raises(
        InputError, match="connection has an unsupported type: object: pass a connection of duckdb, psycopg"
    ):
        verify(path, object())


def test_an_edited_expression_is_caught(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for old, new in [("0.4e0", "0.4000000000000001e0"), (">= 0.3e0", "> 0.3e0"), ("1.000001e0", "1.1e0")]:
        with subtests.test(old=old, new=new):
            path = tmp_path / "risk.sql"
            cb.Calibration(STEPS).export_sql(path, "score", "duckdb")
            head, _, body = path.read_text().rpartition("\nCASE")
            assert old in body
            path.write_text(f"{head}\nCASE{body.replace(old, new, 1)}")
            with pytest.raises(cb.ExportMismatchError, match="DuckDB"):
                verify(path)


def test_what_is_off_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = proven.expressions

    def wrong(*arguments: Any, **bounded: bool) -> dict[str, str]:
        return {name: text.replace("0.4e0", "0.5e0") for name, text in right(*arguments, **bounded).items()}

    monkeypatch.setattr(proven, "expressions", wrong)
    path = tmp_path / "risk.sql"
    with pytest.raises(
        cb.ExportMismatchError, match=r"DuckDB v\S+ gives 0.5 for the score 0.\d+, but the map gives 0.4"
    ):
        cb.Calibration(STEPS).export_sql(path, "score", "duckdb")
    assert not path.exists()


def test_results_must_be_doubles_and_as_many_as_scores(subtests: pytest.Subtests) -> None:
    for expression, told in [
        ("CAST(({}) AS VARCHAR)", "of type str, expected a double"),
        ("CAST(({}) AS DECIMAL(9, 4))", "of type Decimal, expected a double"),
        ("CAST(({}) AS FLOAT)", "but the map gives"),
        ("avg({})", "gives 1 results for 10,"),
    ]:
        with subtests.test(expression=expression, told=told):
            text = expression.format(cb.Calibration(STEPS).to_sql("score"))
            with pytest.raises(cb.ExportMismatchError, match=told):
                proven.prove_sql(STEPS, text, "score", proven.engine_at_hand("duckdb"))


READ = [
    ("CAST(0.4 AS DOUBLE PRECISION)", "CAST(0.4 AS REAL)"),
    ("CAST(0.4 AS DOUBLE PRECISION)", "CAST(0.4 AS NUMERIC(3, 2))"),
    ("BETWEEN", "NOT BETWEEN"),
    ("1.000001", "1.1"),
    (">=", ">"),
    ("END", "END + (SELECT 1)"),
    ("END", ""),
    ("CASE", "x CASE"),
]


def test_an_edit_is_caught_when_the_text_is_only_read(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for old, new in READ:
        with subtests.test(old=old, new=new):
            path = tmp_path / "risk.sql"
            cb.Calibration(STEPS).export_sql(path, "score", "postgres")
            head, _, body = path.read_text().rpartition("\nCASE")
            path.write_text(f"{head}\n{('CASE' + body).replace(old, new, 1)}")
            with pytest.raises((cb.ExportMismatchError, InputError, DocumentError)):
                verify(path)


def test_overflow_and_underflow_are_found_when_the_text_is_only_read() -> None:
    scores: list[float | None] = [1e300, 0.5]
    for text in ("CASE WHEN s IS NULL THEN NULL ELSE s * {} END", "CASE WHEN s IS NULL THEN NULL ELSE s / {} END"):
        for number in ("1e300", "1e-300"):
            engine = interpreter.reader("postgres")
            if ("*" in text) == (number == "1e300"):
                with pytest.raises(FloatingPointError):
                    engine.run(text.format(number), "s", scores)
            else:
                assert None not in engine.run(text.format(number), "s", scores)
    with pytest.raises(FloatingPointError):
        interpreter.reader("postgres").run("CASE WHEN s IS NULL THEN NULL ELSE s * 1e-300 END", "s", [1e-300])


def test_a_file_cannot_reach_outside_when_it_is_verified_here(tmp_path: Path) -> None:
    path, target = tmp_path / "risk.sql", tmp_path / "written.csv"
    cb.Calibration(STEPS).export_sql(path, "score", "duckdb")
    head, _, body = path.read_text().rpartition("\nCASE")
    for evil in (f"1; COPY (SELECT 1) TO '{target}'; SELECT CASE{body}", f"(SELECT content FROM read_text('{path}'))"):
        path.write_text(f"{head}\n{evil}")
        with pytest.raises(DocumentError, match=r"cannot be run|more than its expressions"):
            verify(path)
    assert not target.exists()


def test_a_second_statement_is_refused_on_the_users_connection_too(postgres: Server, tmp_path: Path) -> None:
    psycopg2 = pytest.importorskip("psycopg2")
    path = tmp_path / "risk.sql"
    cb.Calibration(STEPS).export_sql(path, 'a;"b', "postgres")
    head, _, body = path.read_text().rpartition("\nCASE")
    with closing(psycopg2.connect(host=str(postgres.folder), user=USER, dbname="postgres")) as connection:
        verify(path, connection)
        path.write_text(f"{head}\n1; CREATE TABLE evil (a int); COMMIT; SELECT CASE{body}")
        with pytest.raises(DocumentError, match="more than its expressions"):
            verify(path, connection)


def test_an_expression_that_the_engine_at_hand_cannot_parse_is_refused(tmp_path: Path) -> None:
    steep = PiecewiseLinearMap(np.linspace(0.01, 0.99, 1_500), np.linspace(0.1, 0.9, 1_500))
    with pytest.raises(InputError, match="dialect='sqlite' cannot be run"):
        cb.Calibration(ComposeMap((CURVE, steep))).export_sql(tmp_path / "risk.sql", "s", "sqlite")
    assert not (tmp_path / "risk.sql").exists()


def test_rows_of_any_kind_are_read(postgres: Server, tmp_path: Path) -> None:
    from psycopg.rows import dict_row, namedtuple_row, scalar_row

    path = tmp_path / "risk.sql"
    cb.Calibration(STEPS).export_sql(path, "score", "postgres")
    with postgres.connect() as connection:
        for factory in (dict_row, namedtuple_row, scalar_row):
            connection.row_factory = factory
            assert verify(path, connection).engine.startswith("PostgreSQL 1")
            assert "." in verify(path, connection).engine
    cb.Calibration(STEPS).export_sql(path, "score", "sqlite")

    class Mine(sqlite3.Connection):
        pass

    with closing(sqlite3.connect(":memory:", factory=Mine)) as connection:
        connection.row_factory = sqlite3.Row
        verify(path, connection)


def test_a_knot_that_is_off_by_a_little_is_caught(subtests: pytest.Subtests) -> None:
    for change in [1 + 1e-10, 1 - 1e-6, 1.0001]:
        with subtests.test(change=change):
            knots, values = np.linspace(0.05, 0.95, 30), np.linspace(0.1, 0.9, 30) ** 2
            moved = knots.copy()
            moved[7] *= change
            for kind, heights in ((StepMap, np.append(values, 0.95)), (PiecewiseLinearMap, values)):
                text = to_sql(kind(moved, heights), "s", "duckdb")
                with pytest.raises(cb.ExportMismatchError):
                    proven.prove_sql(kind(knots, heights), text, "s", proven.engine_at_hand("duckdb"))


def test_a_small_document_cannot_ask_for_endless_work() -> None:
    zigzag = PiecewiseLinearMap(np.linspace(0.0, 1.0, 201), np.arange(201) % 2)
    for map_ in (ComposeMap((zigzag,) * 3), ComposeMap((CURVE,) * 30)):
        with pytest.raises(InputError, match=r"use coarser parts|nested too deeply"):
            cb.Calibration(map_).to_sql("s")
    with pytest.raises(InputError, match="use coarser parts"):
        cb.Calibration(ComposeMap((zigzag,) * 3)).to_onnx()


def test_nan_in_place_of_null_is_caught() -> None:
    engine = proven.engine_at_hand("duckdb")
    with pytest.raises(cb.ExportMismatchError, match="NaN, expected NULL"):
        proven.prove_sql(STEPS, "CASE WHEN isnan(score) THEN 'NaN'::DOUBLE ELSE 0.1::DOUBLE END", "score", engine)
    text = to_sql(STEPS, "score", "duckdb").replace("THEN NULL ELSE", "THEN 0.1 ELSE", 1)
    with pytest.raises(cb.ExportMismatchError, match="for the score nan, but the map gives nan"):
        proven.prove_sql(STEPS, text, "score", engine)


def test_a_step_after_a_curve_may_take_either_side_of_a_knot_and_no_other() -> None:
    map_ = ComposeMap((CURVE, StepMap([0.25, 0.5], [0.1, 0.4, 0.9])))
    scores = np.array([0.5, 0.6])
    at = CURVE.apply(scores)
    near = ComposeMap((CURVE, StepMap([at[0] * (1 + 1e-14)], [0.1, 0.9])))
    for found in (0.1, 0.9):
        proof.compare(near, samples.Rows(scores), np.array([found, 0.9]), "here")
    with pytest.raises(cb.ExportMismatchError):
        proof.compare(map_, samples.Rows(scores), np.array([0.1, 0.9]), "here")


def test_the_peak_of_a_table_within_rounding_of_a_curve_is_allowed() -> None:
    """Neither end of what the curve may give shows the peak between them."""
    scores = np.array([0.5, 0.6])
    at = float(CURVE.apply(scores)[0])
    knots = at * (1 + np.array([-5e-12, 2e-13, 5e-12]))
    low, high = tolerance.allowed(ComposeMap((CURVE, PiecewiseLinearMap(knots, [0.1, 0.9, 0.1]))), samples.Rows(scores))
    assert low[0] < 0.73
    assert high[0] > 0.899
    assert high[1] < 0.101


def _file() -> str:
    engine = proven.engine_at_hand("sqlite")
    calibration = cb.Calibration(STEPS)
    text = calibration.to_sql("score", "sqlite")
    made = proven.prove_sql(STEPS, text, "score", engine, bounded=True)
    return str(SqlFile(calibration.to_json(), {"score": "score"}, "sqlite", text, made))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(data: st.DataObject) -> None:
    text = FILE
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 40))
        text = text[:place] + data.draw(st.text(max_size=5)) + text[place + cut :]
    with suppress(DocumentError):
        assert isinstance(SqlFile.parse(text), SqlFile)


FILE = _file()


def test_files_of_others_are_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for content in [b"", b"SELECT 1", b"\xff\xfe\x00", b"-- calibrant proof: {}\nSELECT 1"]:
        with subtests.test(content=content):
            path = tmp_path / "other.sql"
            path.write_bytes(content)
            with pytest.raises(DocumentError, match="was not written by export_sql"):
                verify(path)


# ------------------------------------------------------------------------------------------------------------- groups

LINES = ByGroupMap(
    "region", ("n", "it's", "7"), tuple(LogitAffineMap(1.0 + j / 4, j / 3) for j in (1, 2, 3)), IdentityMap()
)
BY_TWO = ComposeMap(
    (PiecewiseLinearMap([0.1, 0.5, 0.9], [0.2, 0.3, 0.8]), LINES, ByGroupMap("b", ("x",), (STEPS,), None))
)


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "postgres", "spark", "snowflake"])
def test_a_file_of_a_map_by_group_holds_the_names_of_its_columns(tmp_path: Path, dialect: str) -> None:
    path = tmp_path / "risk.sql"
    for map_, by in ((LINES, {"region": "area code"}), (BY_TWO, {})):
        made = cb.Calibration(map_).export_sql(path, "score", dialect, by=by)
        file = SqlFile.parse(path.read_text())
        assert file.by == {name: by.get(name, name) for name in map_.columns}
        assert verify(path) == made
        assert file.text == cb.Calibration(map_).to_sql("score", dialect, by=by)


EDITS = [
    ("WHEN 'n'", "WHEN 'N'"),  # a listed group that is not met
    ("WHEN '7' THEN 3", "WHEN '7' THEN 3 WHEN 'true' THEN 3"),  # one that is not listed and is met
    ("NOT IN ('x')", "IN ('x')"),
    ('IS NULL OR CAST("b"', 'IS NOT NULL OR CAST("b"'),
    ("[1.25,", "[1.35,"),
]


def test_an_edited_group_is_caught(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for old, new in EDITS:
        with subtests.test(old=old, new=new):
            path = tmp_path / "risk.sql"
            cb.Calibration(BY_TWO).export_sql(path, "score", "duckdb")
            head, _, body = path.read_text().rpartition("\nCASE")
            assert old in body
            path.write_text(f"{head}\nCASE{body.replace(old, new, 1)}")
            with pytest.raises(cb.ExportMismatchError, match="DuckDB"):
                verify(path)


def test_an_edited_group_is_caught_when_the_text_is_only_read(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for old, new in [
        ("OFFSET 0", "OFFSET 1"),
        ("OFFSET 0", "WHERE FALSE OFFSET 0"),
        ("WHEN 'n'", "WHEN 'N'"),
        ("AS stage", "AS stage WHERE FALSE"),
        ("AS stage", "AS stage, other"),
    ]:
        with subtests.test(old=old, new=new):
            path = tmp_path / "risk.sql"
            cb.Calibration(BY_TWO).export_sql(path, "score", "postgres")
            head, _, body = path.read_text().rpartition("\nCASE")
            assert old in body
            path.write_text(f"{head}\nCASE{body.replace(old, new, 1)}")
            with pytest.raises((cb.ExportMismatchError, InputError, DocumentError)):
                verify(path)


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "postgres"])
def test_a_long_document_stands_behind_the_expression(tmp_path: Path, dialect: str) -> None:
    """In a comment that no name of a segment ends; above 100 segments the first line names the table of parameters."""
    path = tmp_path / "risk.sql"
    names = ("*/ 1; --", "/* x", "*/*", *(f"s{j}" for j in range(150)))
    map_ = ByGroupMap("region", names, tuple(LogitAffineMap(1.0, j / 99) for j in range(len(names))), IdentityMap())
    made = cb.Calibration(map_).export_sql(path, "score", dialect)
    text = path.read_text()
    first, *_, last = text.splitlines()
    assert "table=" in first
    assert last.startswith("/* calibrant document: ")
    assert (last.count("/*"), last.count("*/")) == (1, 1)
    assert max(map(len, text.splitlines()[:4])) < 600
    assert verify(path) == made
    assert cb.Calibration.from_json(SqlFile.parse(text).document) == cb.Calibration(map_)
    path.write_text(text.replace(last, ""))
    with pytest.raises(DocumentError):
        verify(path)


def test_what_is_off_is_told_with_its_group() -> None:
    other = ByGroupMap("region", LINES.groups, (*LINES.maps[:2], STEPS), IdentityMap())
    with pytest.raises(cb.ExportMismatchError, match=r"for the score .* with region '7', but the map gives"):
        proven.prove_sql(LINES, to_sql(other, "s", "duckdb"), "s", proven.engine_at_hand("duckdb"))


def test_a_model_of_a_map_by_group_holds_its_proof(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for shape in [("n",), ("n", 1), (1000,), None]:
        with subtests.test(shape=shape):
            path = tmp_path / "risk.onnx"
            for dtype in ("float32", "float64"):
                made = cb.Calibration(BY_TWO).export_onnx(path, dtype, shape=shape)
                assert verify(path) == made
                assert verify(path, onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])) == made
            model = cb.Calibration(BY_TWO).to_onnx()
            encoder = next(node for node in model.graph.node if node.op_type == "LabelEncoder")
            keys = next(each for each in encoder.attribute if each.name == "keys_strings")
            keys.strings[0] = b"N"
            with pytest.raises(cb.ExportMismatchError, match="with region"):
                verify(model)


# --------------------------------------------------------------------------------------------------------------- ONNX


def test_a_model_holds_its_proof(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for dtype in ["float32", "float64"]:
        for shape in [("n",), ("n", 1), ("n", 3), (7, "n"), (1000,), (1,), None]:
            with subtests.test(dtype=dtype, shape=shape):
                path = tmp_path / "risk.onnx"
                for map_ in (STEPS, CURVE, BetaMap(0.7, 1.4, 0.2)) if shape == ("n",) else (CURVE,):
                    made = cb.Calibration(map_).export_onnx(path, dtype, shape=shape)
                    assert dtype in made.engine
                    assert verify(path) == made
                    assert verify(cb.Calibration(map_).to_onnx(dtype, shape=shape)) == made
                    assert verify(path, onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])) == made


def test_an_estimator_exports_as_its_calibration_does(binning: cb.HistogramBinning, tmp_path: Path) -> None:
    assert binning.export_sql(tmp_path / "a.sql", "s") == binning.calibration_.export_sql(tmp_path / "b.sql", "s")
    assert (tmp_path / "a.sql").read_text() == (tmp_path / "b.sql").read_text()
    binning.export_onnx(tmp_path / "a.onnx")
    model = binning.to_onnx()
    assert (tmp_path / "a.onnx").read_bytes() == model.SerializeToString(deterministic=True)
    assert model == binning.calibration_.to_onnx()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    scores = np.random.default_rng(0).random(1_000, dtype=np.float32)
    np.testing.assert_array_equal(session.run(None, {"score": scores})[0], binning.transform(scores))


def test_another_model_is_not_taken_for_it(tmp_path: Path) -> None:
    path = tmp_path / "risk.onnx"
    cb.Calibration(STEPS).export_onnx(path)
    other = cb.Calibration(CURVE).to_onnx().SerializeToString()
    with pytest.raises(InputError, match="another model"):
        verify(path, onnxruntime.InferenceSession(other, providers=["CPUExecutionProvider"]))
    with pytest.raises(InputError, match=r"connection must be an onnxruntime\.InferenceSession"):
        verify(path, duckdb)


def test_an_edited_model_is_caught() -> None:
    model = cb.Calibration(STEPS).to_onnx()
    table = next(each for each in model.graph.initializer if np.float32(0.4).tobytes() in each.raw_data)
    table.raw_data = table.raw_data.replace(np.float32(0.4).tobytes(), np.float32(0.5).tobytes())
    with pytest.raises(cb.ExportMismatchError, match="onnxruntime"):
        verify(model)


def test_models_of_others_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    for content in (b"", b"abc" * 50):
        path.write_bytes(content)
        with pytest.raises(DocumentError, match="the model cannot be run"):
            verify(path)
    renamed = cb.Calibration(STEPS).to_onnx()
    renamed.graph.input[0].name = renamed.graph.node[0].input[0] = "other"
    with pytest.raises(DocumentError, match="the model cannot be run"):
        verify(renamed)
    bare = cb.Calibration(STEPS).to_onnx()
    del bare.metadata_props[:]
    with pytest.raises(DocumentError, match="contains no calibration"):
        verify(bare)
