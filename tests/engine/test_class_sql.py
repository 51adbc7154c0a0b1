"""Maps of several classes as SQL, executed in PostgreSQL and Spark, read back for other dialects, and as files."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contracts.test_class_maps import ABC, SAMPLES, steps
from tests.engine.postgres import Server

import calibrant as cb
from calibrant.calibration import Calibration
from calibrant.export.errors import DocumentError, ExportMismatchError
from calibrant.export.kinds import samples
from calibrant.export.kinds.tolerance import only_copies
from calibrant.export.languages.sql.dialects import DIALECTS, EXECUTED_DIALECTS, engine_of
from calibrant.export.languages.sql.engines import Engine
from calibrant.export.languages.sql.interpreter import reader
from calibrant.export.sql import file
from calibrant.export.sql.expressions import MAX_CHARACTERS, MAX_CLASSES, to_sql
from calibrant.export.sql.file import BETWEEN, SqlFile, prove_sql
from calibrant.export.verify import verify
from calibrant.maps import IdentityMap, LogitAffineMap, MulticlassMap, PerClassMap, SoftmaxMap, StepMap, TopMap
from calibrant.messages import InputError

duckdb = pytest.importorskip("duckdb")
pytestmark = pytest.mark.engine

KEYS = [("softmax", 2), ("top", 3), ("simplex-bins", 3), ("path", 1), ("class-tree", 0)]
SPARK = [SAMPLES[kind][place] for kind, place in KEYS]
READ = [*SPARK, *(SAMPLES[kind][place] for kind, place in [("per-class", 2), ("simplex-bins", 0), ("simplex-bins", 5)])]
HALVES = PerClassMap(ABC, (StepMap([0.5], [0.2, 0.6]), StepMap([0.5], [0.3, 0.7]), IdentityMap()), "probability", False)
COOLER = SoftmaxMap(ABC, [1.7], [], "probability", 1e-9)


def proved(map_: MulticlassMap, engine: Engine) -> cb.Proof:
    """Under names of columns that stages might want for themselves."""
    columns = [("stage", "x1", "Found", "place", "x2", "piece", "rows", "step")[j] for j in range(len(map_.classes))]
    by = {name: f"X{place}" for place, name in enumerate(map_.columns, start=3)}
    bounded = map_.on == "probability"
    text = BETWEEN.join(to_sql(map_, columns, engine.dialect, by, bounded=bounded).values())
    return prove_sql(map_, text, columns, engine, by, bounded=bounded)


def test_postgres_gives_what_apply_gives(subtests: pytest.Subtests, postgres: Server) -> None:
    with postgres.connect() as connection:
        for kind, maps in SAMPLES.items():
            for place, map_ in enumerate(maps):
                with subtests.test(kind=kind, place=place):
                    proof = proved(map_, engine_of(connection))
                    if only_copies(map_):
                        assert proof.equal == proof.scores


@pytest.mark.parametrize("map_", SPARK, ids=repr)
def test_spark_gives_what_apply_gives(spark: Any, map_: MulticlassMap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "RANDOM_ROWS", 1_000)
    proof = proved(map_, engine_of(spark))
    if only_copies(map_):
        assert proof.equal == proof.scores


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name not in EXECUTED_DIALECTS])
def test_other_dialects_are_read_back_and_say_that_they_were_not_executed(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "RANDOM_ROWS", 200)
    engine = reader(dialect)
    two = TopMap(ABC, 2, (LogitAffineMap(1.1, 0.2), steps(3)), "logit")
    shared = replace(HALVES, normalized=True)
    for map_ in (COOLER, shared, two, SAMPLES["simplex-bins"][0]):
        names = ["a b", "x1", "stage"]
        renamed = replace(map_, classes=("p", "q", "r"))
        texts = to_sql(renamed, names, dialect)
        assert all(text.startswith(f"/* generated, not executed on {dialect} */ CASE WHEN ") for text in texts.values())
        prove_sql(renamed, BETWEEN.join(texts.values()), names, engine)


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_the_reader_reads_the_text_of_engines_that_are_not_at_hand(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "RANDOM_ROWS", 500)
    for map_ in READ:
        assert "not run on" in proved(map_, reader(dialect)).engine


# ------------------------------------------------------------------------------------------------------------- by hand


def test_columns_are_found_by_class_by_order_or_by_name() -> None:
    with closing(duckdb.connect()) as connection:
        connection.execute("""CREATE TABLE t AS SELECT * FROM (VALUES (0.2, 0.7, 0.1)) AS v("p 1", "it's", "P""2")""")
        columns = {"x 3": 'P"2', "größe 数": "p 1", "it's": "it's"}
        for given in (columns, [columns[name] for name in ABC]):
            texts = Calibration(HALVES).to_sql(given)
            assert tuple(texts) == ABC
            assert connection.sql(f"SELECT {', '.join(texts.values())} FROM t").fetchall() == [(0.2, 0.7, 0.1)]
    named = Calibration(HALVES).to_sql(dialect="sqlite")
    assert "`größe 数`" in named["größe 数"]


def test_null_in_any_score_of_a_row_gives_null_in_every_column() -> None:
    for map_ in (HALVES, COOLER, SAMPLES["top"][1]):
        for dialect, engine in {
            "duckdb": engine_of(duckdb.connect()),
            "sqlite": engine_of(sqlite3.connect(":memory:")),
        }.items():
            texts = to_sql(map_, ["a", "b", "c"], dialect)
            scores = {"a": [None, 0.2, 0.2, 0.2], "b": [0.5, None, 0.5, 0.5], "c": [0.3, 0.3, float("nan"), 0.3]}
            for found in engine.select(list(texts.values()), scores, {}):
                assert found[:3] == [None] * 3
                assert found[3] is not None


def test_top_classes_are_named_and_the_earlier_of_equals_comes_first() -> None:
    map_ = TopMap(("it's", "b", "c"), 2, (IdentityMap(), IdentityMap()), "probability")
    texts = Calibration(map_).to_sql(["x", "y", "z"])
    assert list(texts) == ["top 1", "top 1 label", "top 2", "top 2 label"]
    with closing(duckdb.connect()) as connection:
        found = connection.sql(
            f"SELECT {', '.join(texts.values())} FROM (VALUES (0.4, 0.4, 0.2), (0.0, 0.5, 0.5), (0.1, 0.1, 0.8), "
            "(0.0, 0.0, 0.0)) AS t(x, y, z)"
        ).fetchall()
    assert found == [
        (0.4, "it's", 0.4, "b"),
        (0.5, "b", 0.5, "c"),
        (0.8, "c", 0.1, "it's"),
        (0.0, "it's", 0.0, "b"),
    ]


def test_columns_that_do_not_fit_are_refused(subtests: pytest.Subtests) -> None:
    for columns, sentence in [
        (["p", "q"], "3 names"),
        ("pqr", "3 names"),
        ({"it's": "p"}, "for each class"),
        (["p", "q", "p"], "two classes the column"),
        (["p", "q", "P"], "ignore case"),
        (["p", "q", ""], "must be a name"),
        (["p", "q", 3], "must be a name"),
        (["p", "q", "a\0"], "must be a name"),
    ]:
        with subtests.test(sentence), pytest.raises(InputError, match=sentence):
            Calibration(HALVES).to_sql(columns)


def test_what_is_too_long_for_an_engine_is_refused_with_a_way_out() -> None:
    many = tuple(f"c{j}" for j in range(MAX_CLASSES + 1))
    with pytest.raises(InputError, match="the map has 101 classes: use to_onnx"):
        to_sql(SoftmaxMap(many, [1.5], [], "logit", 0.1))
    few = many[:90]
    with pytest.raises(InputError, match=f"more than {MAX_CHARACTERS:,} characters for this map: use to_onnx"):
        to_sql(SoftmaxMap(few, np.ones(90 * 90) / 7, [], "logit", 0.1))
    assert len("".join(to_sql(SoftmaxMap(many[:40], [1.5], [], "logit", 0.1)).values())) < MAX_CHARACTERS
    with pytest.raises(InputError, match="dialect must be one of"):
        to_sql(COOLER, dialect="algol")


def test_many_classes_run_in_duckdb_and_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "RANDOM_ROWS", 300)
    names = tuple(f"class {j}" for j in range(20))
    for map_ in (
        SoftmaxMap(names, [1.5], np.linspace(-1, 1, 20), "logit", 0.1),
        TopMap(names, 1, (steps(9),), "logit"),
    ):
        for dialect in ("duckdb", "sqlite"):
            assert Calibration(map_).export_sql(tmp_path / "x.sql", dialect=dialect).scores > 300


# ---------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "postgres", "spark", "snowflake"])
def test_a_file_holds_the_expressions_and_their_proof(
    subtests: pytest.Subtests, tmp_path: Path, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for map_ in [HALVES, COOLER, SAMPLES["top"][1]]:
        with subtests.test(map_=map_):
            monkeypatch.setattr(samples, "RANDOM_ROWS", 1_000)
            map_ = replace(map_, classes=("a", "größe 数", "x 3"))
            path, calibration = tmp_path / "classes.sql", Calibration(map_)
            columns = ["p", "q", "r"]
            made = calibration.export_sql(path, columns, dialect)
            text = path.read_text(encoding="utf-8")
            assert str(made) in text
            assert made.unit == "rows"
            assert ("not run on" in made.engine) == (dialect not in ("duckdb", "sqlite"))
            found = SqlFile.parse(text)
            assert found.proof == made
            assert found.columns == dict(zip(map_.classes, columns, strict=True))
            texts = [item.rpartition(" AS ")[0] for item in found.text.split(BETWEEN)]
            assert texts == list(calibration.to_sql(columns, dialect).values())
            assert verify(path) == made


def test_the_text_of_a_file_is_what_a_select_takes(tmp_path: Path) -> None:
    path = tmp_path / "classes.sql"
    Calibration(HALVES).export_sql(path, ["p", "q", "r"])
    with closing(duckdb.connect()) as connection:
        found = connection.sql(f"SELECT 7 AS id,\n{path.read_text('utf-8')}FROM (SELECT 0.2 AS p, 0.7 AS q, 0.1 AS r)")
        assert found.columns == ["id", *ABC]
        assert found.fetchall() == [(7, 0.2, 0.7, 0.1)]


def test_a_file_is_verified_on_the_users_engine(tmp_path: Path, postgres: Server) -> None:
    path = tmp_path / "classes.sql"
    with postgres.connect() as connection:
        made = Calibration(COOLER).export_sql(path, ["p%", 'q"', "r"], "postgres", connection=connection)
        assert made.engine.startswith("PostgreSQL ")
        assert verify(path, connection) == made
    with (
        pytest.raises(InputError, match="must match the dialect of the text, postgres"),
        closing(sqlite3.connect(":memory:")) as other,
    ):
        verify(path, other)


def test_a_file_that_was_changed_does_not_pass(tmp_path: Path) -> None:
    path = tmp_path / "classes.sql"
    Calibration(HALVES).export_sql(path, ["p", "q", "r"], "sqlite")
    text = path.read_text(encoding="utf-8")
    literal = DIALECTS["sqlite"].literal(0.7)
    path.write_text(text.replace(literal, "0.75"), encoding="utf-8")
    with pytest.raises(ExportMismatchError, match=r"gives 0\.75 for .* but the map gives 0\.7; .* rows differ"):
        verify(path)
    lines = text.split("\n")
    for broken in (
        "\n".join(lines[:-2]),
        text + "; DROP TABLE t",
        text.replace('"columns"', '"x"').replace("columns: ", "x: "),
    ):
        path.write_text(broken, encoding="utf-8")
        with pytest.raises(DocumentError):
            verify(path)
    swapped = text.replace(json.dumps({"is": "identity"}), json.dumps({"is": "beta"}))
    path.write_text(swapped, encoding="utf-8")
    with pytest.raises(DocumentError):
        verify(path)


def test_labels_that_are_swapped_do_not_pass(tmp_path: Path) -> None:
    path = tmp_path / "classes.sql"
    Calibration(TopMap(("cat", "dog"), 1, (IdentityMap(),), "probability")).export_sql(path, ["p", "q"])
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("'cat'", "'?'").replace("'dog'", "'cat'").replace("'?'", "'dog'"), encoding="utf-8")
    with pytest.raises(ExportMismatchError, match="the class of 'top 1'"):
        verify(path)


def test_a_file_with_the_map_of_one_score_in_it_is_refused(tmp_path: Path) -> None:
    classes, score = tmp_path / "classes.sql", tmp_path / "score.sql"
    Calibration(HALVES).export_sql(classes, ["p", "q", "r"], "sqlite")
    cb.Calibration(StepMap([0.5], [0.1, 0.8])).export_sql(score, "p", "sqlite")

    def document(path: Path) -> str:
        return next(line for line in path.read_text("utf-8").split("\n") if line.startswith("-- calibrant document: "))

    for path, other in ((classes, score), (score, classes)):
        mixed = tmp_path / "mixed.sql"
        mixed.write_text(path.read_text("utf-8").replace(document(path), document(other)), encoding="utf-8")
        with pytest.raises(DocumentError, match="do not match its map"):
            verify(mixed)


def test_a_line_break_in_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without line breaks"):
        Calibration(HALVES).export_sql(tmp_path / "x.sql", ["a", "b\nc", "d"])
    assert not (tmp_path / "x.sql").exists()


def test_an_export_that_is_off_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = file.expressions

    def wrong(*given: Any, **bounded: bool) -> dict[str, str]:
        return {name: text.replace("1.7e0", "1.8e0") for name, text in right(*given, **bounded).items()}

    monkeypatch.setattr(file, "expressions", wrong)
    with pytest.raises(ExportMismatchError, match="do not use this export"):
        Calibration(COOLER).export_sql(tmp_path / "x.sql", ["a", "b", "c"])
    assert not (tmp_path / "x.sql").exists()
