"""From a fit to an audit: a model scored in PostgreSQL and on a Spark cluster, then judged by `calibrant check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.cli.conftest import command_line
from tests.engine.clusters import Driver
from tests.engine.postgres import Server

import calibrant as cb
from calibrant.export.sql.file import SqlFile

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def scored() -> dict[str, Any]:
    """A map fitted on one half of some rows, the other half to be scored, and the verdict in memory."""
    rng = np.random.default_rng(11)
    p = rng.beta(2, 5, 60_000)
    bad = rng.random(60_000) < p**1.6
    land = rng.choice(["de", "fr", "it"], 60_000)
    half = 30_000
    isotonic = cb.IsotonicCalibrator(step=True).fit(p[:half], bad[:half])
    assert len(isotonic.map_.knots) > 32  # a table in PostgreSQL
    after = isotonic.transform(p[half:])
    return {
        "map": isotonic.calibration_,
        "rows": pa.table({"my score": p[half:], "bad": bad[half:].astype(np.int64), "land": land[half:]}),
        "verdict": cb.check(after, bad[half:], by={"land": land[half:]}).to_dict(),
    }


def audited(path: str | Path) -> dict[str, Any]:
    """What `calibrant check` says of the calibrated column, as a process of its own."""
    done = command_line("check", path, "--score", "calibrated", "--label", "bad", "--by", "land", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_scored_in_postgres_audited_as_in_memory(scored: dict[str, Any], postgres: Server, tmp_path: Path) -> None:
    rows = scored["rows"]
    with postgres.connect() as connection, connection.cursor() as cursor:
        scored["map"].export_sql(tmp_path / "map.sql", "my score", "postgres", connection=connection)
        expression = SqlFile.parse((tmp_path / "map.sql").read_text()).text
        cursor.execute('CREATE TABLE loans ("my score" double precision, bad int, land text)')
        with cursor.copy("COPY loans FROM STDIN") as copy:
            for row in rows.to_pylist():
                copy.write_row((row["my score"], row["bad"], row["land"]))
        query = f"COPY (SELECT {expression} AS calibrated, bad, land FROM loans) TO STDOUT (FORMAT csv, HEADER)"
        with cursor.copy(query) as copy, (tmp_path / "scored.csv").open("wb") as file:
            for block in copy:
                file.write(block)
        cursor.execute("DROP TABLE loans")
    assert audited(tmp_path / "scored.csv") == scored["verdict"]


def score(read: Any, source: str, expression: str, out: str) -> None:
    """A job of the driver: score the rows and write them in parts."""
    rows = read([source]).repartition(4)
    rows.selectExpr(f"{expression} AS calibrated", "bad", "land").write.parquet(out)


def test_scored_in_spark_audited_as_in_memory(scored: dict[str, Any], standalone: Driver, tmp_path: Path) -> None:
    """On a master with two workers."""
    parquet.write_table(scored["rows"], tmp_path / "rows.parquet")
    expression = scored["map"].to_sql("my score", "spark")
    standalone.run(score, str(tmp_path / "rows.parquet"), expression, str(tmp_path / "scored"))
    assert len(list((tmp_path / "scored").glob("*.parquet"))) == 4
    assert audited(tmp_path / "scored" / "*.parquet") == scored["verdict"]
