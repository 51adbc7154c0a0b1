"""One list of names and values, each as score column, group column and group, in every language that is exported."""

from __future__ import annotations

import builtins
import keyword
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import jinja2
import psycopg2
import pytest
from tests.engine.postgres import USER, Server
from tests.hostile import JINJA, NAMES

from calibrant import Calibration
from calibrant.export.errors import DocumentError
from calibrant.export.kinds import samples
from calibrant.export.languages.printers import arguments
from calibrant.export.languages.sql.dialects import DIALECTS, EXECUTED_DIALECTS, engine_of, is_expression
from calibrant.export.languages.sql.interpreter import reader
from calibrant.export.source import LANGUAGES, proven_source
from calibrant.export.sql.expressions import to_sql
from calibrant.export.sql.file import SqlFile
from calibrant.export.verify import verify
from calibrant.maps import ByGroupMap, IdentityMap, LogitAffineMap, PerClassMap, StepMap
from calibrant.messages import InputError

pytestmark = pytest.mark.engine


def by(column: str, *groups: str) -> ByGroupMap:
    maps = tuple(StepMap([], [(place + 1) / 100]) for place, _ in enumerate(groups))
    return ByGroupMap(column, groups, maps, StepMap([], [0.99]))


@pytest.fixture(autouse=True)
def fewer_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names do not depend on the scores: the proofs are short."""
    monkeypatch.setattr(samples, "RANDOM_SCORES", 100)


@pytest.fixture(params=EXECUTED_DIALECTS)
def engine(request: pytest.FixtureRequest, duck: Any) -> Iterator[Any]:
    """Each engine with the table `precious`, where PostgreSQL reads backslashes in plain literals."""
    if request.param == "spark":
        yield engine_of(request.getfixturevalue("spark"))
        return
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        connection = psycopg2.connect(host=str(server.folder), user=USER, dbname="postgres")
        connection.autocommit = True
        run = connection.cursor().execute
        run("SET standard_conforming_strings = off")
    else:
        connection = duck.cursor() if request.param == "duckdb" else sqlite3.connect(":memory:")
        run = connection.execute
    with closing(connection):
        run("CREATE TABLE precious AS SELECT 1 AS one")
        yield engine_of(connection)
        run("SELECT one FROM precious")
        run("DROP TABLE precious")


def test_x1_x8_no_name_or_value_becomes_code(engine: Any) -> None:
    dialect, distinct = engine.dialect, [name for name in NAMES if name.lower() != "s"]
    text = to_sql(by("g", *distinct), "s", dialect)
    assert is_expression(text, dialect)
    (found,) = engine.select([text], {"s": [0.5] * len(distinct)}, {"g": distinct})
    assert found == [(place + 1) / 100 for place, _ in enumerate(distinct)]
    if dialect == "postgres":  # which cuts names at 63 bytes
        distinct = [name for name in distinct if len(name) < 60]
    for name in distinct[:: 1 if dialect != "spark" else 12]:
        with suppress(InputError):  # Spark reads ${...} as a variable
            text = to_sql(by(name, "a"), "s", dialect)
            assert is_expression(text, dialect), name
            assert engine.run(text, "s", [0.5, 0.5], {name: ["a", "b"]}) == [0.01, 0.99], name
            assert engine.run(to_sql(IdentityMap(), name, dialect), name, [0.25]) == [0.25], name


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name not in EXECUTED_DIALECTS])
def test_x1_a_dialect_that_is_not_executed_refuses_what_it_may_misread(dialect: str) -> None:
    for name in NAMES:
        with suppress(InputError):
            map_ = by("g", name)
            assert reader(dialect).run(to_sql(map_, "s", dialect), "s", [0.5], {"g": [name]}) == [0.01], name
            assert reader(dialect).run(to_sql(IdentityMap(), name, dialect), name, [0.25]) == [0.25], name


def test_x1_dbt_runs_no_name_as_jinja(tmp_path: Path) -> None:
    ran: list[str] = []
    known = {"env_var": ran.append, "run_query": ran.append, "ref": lambda name: name}
    rendered = jinja2.Environment(extensions=["jinja2.ext.do"])
    for place, name in enumerate(NAMES):
        path, line = tmp_path / f"{place}.sql", LogitAffineMap(0.9, 0.1, "log-odds", 0.01, 0.99)
        for column, map_ in (
            ("s", ByGroupMap(name, ("a",), (line,), None)),
            (name, ByGroupMap("g", (name,), (line,), None)),
        ):
            with suppress(InputError):
                Calibration(map_).export_sql(path, column, "sqlite", table=tmp_path / "seed.csv", rows="log", dbt=True)
                assert rendered.from_string(path.read_text()).render(known).count("FROM seed WHERE") == 2
                assert name not in JINJA
    assert not ran


EVIL = (
    "$$[$$; DROP TABLE precious; SELECT $$]$$", "/* ' */ 1; DROP TABLE precious; SELECT /* ' */ 1",
    r"E'\'' ; DROP TABLE precious; SELECT ' '", "E'a'\n'\\'' ; DROP TABLE precious; SELECT ' '",
    r"'\' ; DROP TABLE precious; SELECT '\'", "`'` ; DROP TABLE precious; SELECT `'`", "1; DROP TABLE precious",
    "$a$'$a$; DROP TABLE precious; SELECT $a$'$a$", "1 -- '\n; DROP TABLE precious; SELECT ' '",
)  # fmt: skip


@pytest.mark.parametrize("text", EVIL)
def test_x2_a_file_of_two_statements_is_refused(text: str) -> None:
    file = str(
        SqlFile.proven(StepMap([], [0.5]), Calibration(StepMap([], [0.5])).to_json(), "s", "duckdb", bounded=True)
    )
    head = file.rpartition("\nCASE")[0]
    for dialect in EXECUTED_DIALECTS:
        with pytest.raises(DocumentError):
            SqlFile.parse(f"{head}\n{text}\n".replace('dialect: "duckdb"', f'dialect: "{dialect}"'))


@pytest.mark.parametrize("autocommit", [True, False])
def test_x2_verify_writes_nothing_and_leaves_the_transaction_as_it_was(
    postgres: Server, tmp_path: Path, autocommit: bool
) -> None:
    with postgres.connect() as admin:
        admin.execute("CREATE TABLE written (x float8)")
        admin.execute(
            "CREATE FUNCTION spy(x float8) RETURNS float8 LANGUAGE sql VOLATILE "
            "AS 'INSERT INTO written VALUES (x) RETURNING x'"
        )
        path = tmp_path / "map.sql"
        Calibration(IdentityMap()).export_sql(path, "s", "postgres")
        honest = path.read_text()
        with closing(psycopg2.connect(host=str(postgres.folder), user=USER, dbname="postgres")) as connection:
            connection.autocommit = autocommit
            path.write_text(honest.replace("\nCASE", "\nspy(CASE")[:-1] + ")\n")
            with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction):
                verify(path, connection)
            connection.cursor().execute("INSERT INTO written VALUES (1)")
            path.write_text(honest)
            verify(path, connection)
            connection.cursor().execute("INSERT INTO written VALUES (2)")
            if not autocommit:
                connection.commit()
        assert admin.execute("SELECT x FROM written").fetchall() == [(1.0,), (2.0,)]
        admin.execute("DROP TABLE written CASCADE")
        admin.execute("DROP FUNCTION spy")


@pytest.mark.parametrize("language", LANGUAGES)
def test_x9_sources_take_every_name_and_value(language: str) -> None:
    proven_source(by("g", *NAMES), language)
    for name in NAMES[::4]:
        proven_source(by(name, "a"), language)
    words = [*dir(builtins), *keyword.kwlist, *keyword.softkwlist]
    scope: dict[str, Any] = {}
    exec(Calibration(by("type", "a")).to_python(), scope)
    assert scope["calibrate"](0.5, "a") == 0.01
    assert not {"type", "float", "text"} & set(arguments(words))


def test_x1_onnx_models_take_every_name() -> None:
    maps = tuple(StepMap([], [(place + 1) / 100]) for place, _ in enumerate(NAMES))
    verify(Calibration(PerClassMap(NAMES, maps, "probability", False)).to_onnx())
