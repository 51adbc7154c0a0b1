"""What an exported map costs where it runs: DuckDB, SQLite, PostgreSQL, Spark and onnxruntime.

    python benchmarks/export.py --rows 1e6 --rounds 3

Every engine sums the map over the same rows, which it holds already. The time next to it is that of summing the raw
score there, in the same interleaved run. ``case`` is the same map as a balanced CASE, where the export looks it up in a
table instead.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from measure import Job, run

sys.path.append(str(Path(__file__).parents[1]))
from tests.engine.postgres import Server

from calibrant import Calibration
from calibrant.export.languages.sql.dialects import DIALECTS
from calibrant.export.sql.expressions import to_sql
from calibrant.maps import BetaMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap

RNG = np.random.default_rng(0)
MOST_CASE = 1_000
"""Longer than this, a CASE is not tried: PostgreSQL compiles it for half a minute, Spark runs out of memory."""


def steps(pieces: int) -> StepMap:
    knots = np.unique(RNG.random(pieces) ** 3)
    return StepMap(knots, RNG.random(len(knots) + 1))


def curve(pieces: int) -> PiecewiseLinearMap:
    knots = np.unique(RNG.random(pieces) ** 3)
    return PiecewiseLinearMap(knots, np.sort(RNG.random(len(knots))))


MAPS: dict[str, Map] = {
    "Platt": LogitAffineMap(1.2, -0.3),
    "beta": BetaMap(0.8, 1.3, 0.2),
    **{f"{pieces:,} steps": steps(pieces) for pieces in (10, 100, 1_000, 5_000)},
    **{f"{pieces:,} lines": curve(pieces) for pieces in (100, 5_000)},
}


@dataclass(frozen=True)
class Place:
    """Where rows are: from an expression over ``score`` to its sum over them."""

    dialect: str
    total: Callable[[str], Any]


@contextmanager
def places(scores: np.ndarray, names: list[str]) -> Iterator[list[Place]]:
    with ExitStack() as stack:
        makers = {"duckdb": _duckdb, "sqlite": _sqlite, "postgres": _postgres, "spark": _spark}
        yield [Place(name, makers[name](scores, stack)) for name in names if name in makers]


def _duckdb(scores: np.ndarray, stack: ExitStack) -> Callable[[str], Any]:
    import duckdb
    import pyarrow as pa

    connection = stack.enter_context(duckdb.connect())
    connection.from_arrow(pa.table({"score": scores})).create("rows")
    return lambda text: connection.sql(f"SELECT sum({text}) FROM rows").fetchall()


def _sqlite(scores: np.ndarray, stack: ExitStack) -> Callable[[str], Any]:
    connection = stack.enter_context(sqlite3.connect(":memory:"))
    connection.execute("CREATE TABLE rows (score REAL)")
    connection.executemany("INSERT INTO rows VALUES (?)", ((score,) for score in scores.tolist()))
    return lambda text: connection.execute(f"SELECT sum({text}) FROM rows").fetchall()


def _postgres(scores: np.ndarray, stack: ExitStack) -> Callable[[str], Any]:
    connection = stack.enter_context(stack.enter_context(Server()).connect())
    connection.execute("CREATE TABLE rows (score double precision)")
    with connection.cursor() as cursor, cursor.copy("COPY rows FROM STDIN") as copy:
        copy.write("\n".join(map(repr, scores.tolist())) + "\n")
    connection.execute("ANALYZE rows")
    return lambda text: connection.execute(f"SELECT sum({text}) FROM rows").fetchall()


def _spark(scores: np.ndarray, stack: ExitStack) -> Callable[[str], Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

    folder = stack.enter_context(tempfile.TemporaryDirectory())
    for part, piece in enumerate(np.array_split(scores, 4)):
        pq.write_table(pa.table({"score": piece}), f"{folder}/{part}.parquet")
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    stack.callback(session.stop)
    rows = session.read.parquet(folder).cache()
    return lambda text: rows.selectExpr(f"sum({text})").collect()


def sql_jobs(place: Place) -> Iterator[tuple[Job, int]]:
    base = f"{place.dialect}, sum of the score"
    yield Job(base, lambda: place.total("score")), 0
    for name, map_ in MAPS.items():
        text = to_sql(map_, "score", place.dialect)
        yield Job(f"{place.dialect}, {name}", lambda text=text: place.total(text), base), len(text)
        plain = replace(DIALECTS[place.dialect], tables=None)
        with patch.dict(DIALECTS, {place.dialect: plain}):
            case = to_sql(map_, "score", place.dialect)
        if case != text and len(getattr(map_, "knots", ())) <= MOST_CASE:
            yield Job(f"{place.dialect}, {name}, case", lambda text=case: place.total(text), base), len(case)


def onnx_jobs(scores: np.ndarray) -> Iterator[tuple[Job, int]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    for dtype in ("float32", "float64"):
        given = {"score": scores.astype(dtype)}
        base = f"numpy, {dtype}, Platt"
        yield Job(base, lambda given=given: MAPS["Platt"].apply(given["score"])), 0
        for name, map_ in MAPS.items():
            model = Calibration(map_).to_onnx(dtype).SerializeToString()
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            job = Job(f"onnx, {dtype}, {name}", lambda session=session, given=given: session.run(None, given), base)
            yield job, len(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", default="duckdb,sqlite,postgres,spark,onnx")
    arguments = parser.parse_args()
    scores, names = RNG.random(int(arguments.rows)), arguments.engines.split(",")
    print(f"{len(scores):,} rows, median of {arguments.rounds} rounds, seconds on the wall")
    print(f"{'':34}{'seconds':>9}{'ns a row':>10}{'/ base':>8}{'bytes':>12}")
    with places(scores, names) as there:
        every = [list(sql_jobs(place)) for place in there]
        if "onnx" in names:
            every.append(list(onnx_jobs(scores)))
        for jobs in every:
            run([job for job, _ in jobs], arguments.rounds)
            report(jobs, len(scores))


def report(jobs: list[tuple[Job, int]], rows: int) -> None:
    seconds = {job.name: statistics.median(job.wall) for job, _ in jobs}
    for job, size in jobs:
        ratio = f"{seconds[job.name] / seconds[job.against]:8.1f}" if job.against else " " * 8
        print(f"{job.name:34}{seconds[job.name]:9.3f}{1e9 * seconds[job.name] / rows:10.0f}{ratio}{size or '':>12}")


if __name__ == "__main__":
    main()
