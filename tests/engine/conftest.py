"""Engines, started once: frames in memory, DuckDB, and Spark on local threads, on two workers and over Connect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.engine.clusters import QUICK, Cluster, ConnectServer, Driver, Read, classic_session, connect_session, reads
from tests.engine.postgres import Server


@pytest.fixture(scope="session")
def duck() -> Iterator[Any]:
    """A DuckDB connection of its own."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session without web interface, logs or large shuffles."""
    pytest.importorskip("pyspark")
    session = classic_session("local[2]", tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server of its own."""
    pytest.importorskip("psycopg")
    with Server() as server:
        yield server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone master with two workers."""
    pytest.importorskip("pyspark")
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="session")
def standalone(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver of the two workers, in a process of its own."""
    conf = {"spark.driver.memory": "768m", "spark.executor.memory": "600m", "spark.executor.extraJavaOptions": QUICK}
    with Driver(cluster.url, tmp_path_factory.mktemp("driver"), conf) as driver:
        yield driver


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark Connect session."""
    pytest.importorskip("pyspark")
    with ConnectServer(tmp_path_factory.mktemp("connect")) as server:
        session = connect_session(server.url)
        yield session
        session.stop()


def few(cases: Iterable[Any], engine: str, full_size: bool) -> list[Any]:
    """All cases; in Spark, where a query takes a second, the last alone unless `--full`."""
    every = list(cases)
    return every[-1:] if engine == "spark" and not full_size else every


@dataclass(frozen=True)
class Engine:
    """A name, and the way to run ``job(read, ...)`` there, where ``read`` makes a frame of Parquet files."""

    name: str
    run: Callable[..., Any]


def _pandas(arrow: bool) -> Read:
    pd, pads = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.dataset")
    # Without Arrow, pandas has no type for dates: they are timestamps at midnight.
    options = {"types_mapper": pd.ArrowDtype} if arrow else {"date_as_object": False}
    return lambda paths: pads.dataset(list(paths)).to_table().to_pandas(**options)


def _polars(lazy: bool) -> Read:
    pl = pytest.importorskip("polars")
    read = pl.scan_parquet if lazy else pl.read_parquet
    return lambda paths: read(list(paths))


def _pyarrow() -> Read:
    pads = pytest.importorskip("pyarrow.dataset")
    return lambda paths: pads.dataset(list(paths)).to_table()


def _duckdb(threads: int) -> Read:
    connection = pytest.importorskip("duckdb").connect(config={"threads": threads})
    return lambda paths: connection.read_parquet(list(paths))


IN_MEMORY: dict[str, Callable[[], Read]] = {
    "pandas": lambda: _pandas(arrow=False),
    "pandas-arrow": lambda: _pandas(arrow=True),
    "polars": lambda: _polars(lazy=False),
    "polars-lazy": lambda: _polars(lazy=True),
    "pyarrow": _pyarrow,
    "duckdb-1-thread": lambda: _duckdb(1),
    "duckdb-2-threads": lambda: _duckdb(2),
}
ON_SPARK = {"spark-local": "spark", "spark-standalone": "standalone", "spark-connect": "connect"}
ABILITIES = {
    "pandas": ("pandas", False, None, False),
    "polars": ("polars", False, None, False),
    "polars-lazy": ("polars", True, None, False),
    "pyarrow": ("pyarrow", False, None, False),
    "duckdb": ("duckdb", True, "duckdb", False),
    "spark": ("pyspark", True, "spark", True),
    "spark-connect": ("pyspark[connect]", True, "spark", True),
}
"""By name, or the first word of it: engine, lazy, dialect, distributed."""

QUICK_ENGINES = {"pandas", "polars-lazy", "pyarrow", "duckdb-2-threads", "spark-standalone"}
"""One of each kind; the others run with `--full`."""


@pytest.fixture(
    scope="session",
    params=[
        name if name in QUICK_ENGINES else pytest.param(name, marks=pytest.mark.full)
        for name in (*IN_MEMORY, *ON_SPARK)
    ],
)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Every engine in turn."""
    name = request.param
    if name == "spark-standalone":
        return Engine(name, request.getfixturevalue("standalone").run)
    read = IN_MEMORY[name]() if name in IN_MEMORY else reads(request.getfixturevalue(ON_SPARK[name]))
    return Engine(name, lambda job, *arguments, **options: job(read, *arguments, **options))
