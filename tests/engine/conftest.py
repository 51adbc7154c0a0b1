"""Engines, started once: DuckDB in memory and Spark on two local threads."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest


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
    sql = pytest.importorskip("pyspark.sql")
    scratch = tmp_path_factory.mktemp("spark")
    quiet = scratch / "log4j2.properties"
    quiet.write_text("rootLogger.level = off\n", encoding="utf-8")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    session = (
        sql.SparkSession.builder.master("local[2]")
        .appName("calibrant-tests")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={quiet.as_uri()}")
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    yield session
    session.stop()
