"""What `calibrant.engine` does, written by hand in each engine's own words: the yardstick of benchmarks/engine.py.

Each engine opens a folder of Parquet files with the columns ``score`` (double), ``label`` (0 or 1) and ``segment``,
counts the cells of a :class:`Grid`, counts cells of equal width, and writes the rows with one calibrated column more.
The forms are the fastest of those tried: bits of the double in DuckDB and Polars, a balanced CASE in Spark, which
cannot see them. They take the columns as clean: nothing is checked or refused, as the library must.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.maps import LogitAffineMap, StepMap
from calibrant.numerics import CLAMP, OCTAVES, POSITION_BITS, Grid
from calibrant.tallies import Cells, GroupedTally, Tally

THREADS = 2
SPARK_MEMORY = "4g"
SMALLEST = (1023 - 32) << 52
"""Bits of 2^-32, below which a score has no octave of its own."""

Counts = Mapping[str, NDArray[Any]]
ApplicableMap = LogitAffineMap | StepMap


class Engine(Protocol):
    """A session of one engine, and the three jobs in its own words."""

    name: ClassVar[str]

    def frame(self, folder: Path) -> Any:
        """The rows as the engine's own frame, for the library."""

    def counts(self, folder: Path, grid: Grid, by: str | None = None) -> Counts:
        """Columns code, n, events and offset, and the key where one is given, in any order."""

    def uniform(self, folder: Path, cells: int, by: str | None = None) -> Counts:
        """Columns cell, n and events of cells of equal width, and the key where one is given, in any order."""

    def apply(self, folder: Path, map_: ApplicableMap, path: Path) -> None:
        """The rows with the column ``calibrated``, written to Parquet."""

    def other_process(self) -> int | None:
        """Id of the process that works for this one, if there is one."""


# --- counts into tallies ----------------------------------------------------------------------------------------------


def tally(counts: Counts, grid: Grid) -> Tally:
    """The counts of a query as a Tally."""
    return _tally(_ordered(counts, "code"), grid)


def grouped(counts: Counts, grid: Grid, by: str) -> GroupedTally:
    """The counts of a query with a key as a GroupedTally."""
    columns = _ordered(counts, "code", by)
    return GroupedTally({key: _tally(part, grid) for key, part in _parts(columns, by)})


def uniform_tally(counts: Counts, cells: int) -> Tally:
    """Counts of cells of equal width as a tally whose scores are their middles; 1 has a cell of its own."""
    columns = _ordered(counts, "cell")
    scores = np.minimum((columns["cell"] + 0.5) / cells, 1.0)
    n, events = (columns[name].astype(np.int64, copy=False) for name in ("n", "events"))
    return Tally(Cells(scores, n, events))


def uniform_grouped(counts: Counts, cells: int, by: str) -> GroupedTally:
    """Counts of cells of equal width by a key."""
    return GroupedTally({key: uniform_tally(part, cells) for key, part in _parts(_ordered(counts, by), by)})


def _tally(columns: Counts, grid: Grid) -> Tally:
    n, events, offset = (columns[name].astype(np.int64, copy=False) for name in ("n", "events", "offset"))
    return Tally(Cells(columns["code"].astype(np.int32), n, events, offset=offset), grid=grid, resolution="grid")


def _ordered(counts: Counts, *keys: str) -> Counts:
    order = np.lexsort([counts[key] for key in keys])
    return {name: np.asarray(column)[order] for name, column in counts.items()}


def _parts(columns: Counts, by: str) -> Iterator[tuple[Any, Counts]]:
    keys, starts = np.unique(columns[by], return_index=True)
    ends = np.append(starts[1:], len(columns[by]))
    for key, start, end in zip(keys.tolist(), starts.tolist(), ends.tolist(), strict=True):
        yield key, {name: column[start:end] for name, column in columns.items()}


def _magic(grid: Grid) -> tuple[int, int, int]:
    """Code of 2^-32 from its bits, bits below a cell in the double, and bits below a cell in a position."""
    below = 52 - grid.bits
    return (OCTAVES << grid.bits) + (SMALLEST >> below), below, POSITION_BITS - grid.bits


# --- SQL ------------------------------------------------------------------------------------------------------------


def steps(map_: StepMap, low: int, high: int, literal: str) -> str:
    """A balanced CASE over the steps ``low`` to ``high``; ``literal`` formats a double."""
    if low == high:
        return literal.format(float(map_.values[low]))
    middle = (low + high) // 2
    below, above = steps(map_, low, middle, literal), steps(map_, middle + 1, high, literal)
    return f"CASE WHEN score < {literal.format(float(map_.knots[middle]))} THEN {below} ELSE {above} END"


def applied(map_: ApplicableMap, source: str, literal: str) -> str:
    """The rows of ``source`` with the column ``calibrated``, as a query."""
    if isinstance(map_, StepMap):
        return f"SELECT *, {steps(map_, 0, len(map_.knots), literal)} AS calibrated FROM {source}"
    low, high, one = (literal.format(x) for x in (CLAMP, 1.0 - CLAMP, 1.0))
    held = f"greatest(least(score, {high}), {low})"
    slope, intercept = literal.format(map_.slope), literal.format(map_.intercept)
    exponent = f"{slope} * ln({held} / ({one} - {held})) + {intercept}"
    return f"SELECT *, {one} / ({one} + exp(-({exponent}))) AS calibrated FROM {source}"


class DuckDB:
    """An in-memory connection on two threads that keeps no file contents, so that memory is the query's alone."""

    name: ClassVar[str] = "duckdb"

    def __init__(self) -> None:
        import duckdb

        self.connection = duckdb.connect()
        self.connection.execute(f"SET threads = {THREADS}; SET enable_external_file_cache = false")

    def frame(self, folder: Path) -> Any:
        return self.connection.read_parquet(_files(folder))

    def counts(self, folder: Path, grid: Grid, by: str | None = None) -> Counts:
        first, below, drop = _magic(grid)
        key = "" if by is None else f"{by}, "
        return self._fetch(f"""
            SELECT {key}CASE WHEN upper THEN distance ELSE -distance END AS code, count(*) AS n,
                   sum(label)::BIGINT AS events, sum(position)::BIGINT AS "offset"
            FROM (SELECT {key}label, upper,
                         CASE WHEN bits >= {SMALLEST} THEN {first} - (bits >> {below})::INT
                              WHEN bits > 0 THEN {grid.top - 1} ELSE {grid.top} END AS distance,
                         CASE WHEN bits >= {SMALLEST} THEN (bits >> {below - drop}) & {(1 << drop) - 1}
                              ELSE floor(q * {2.0**62!r}::DOUBLE)::BIGINT END AS position
                  FROM (SELECT {key}label, upper, q, (q::BIT)::BIGINT AS bits
                        FROM (SELECT {key}label, score >= 0.5::DOUBLE AS upper,
                                     CASE WHEN score >= 0.5::DOUBLE THEN 1.0::DOUBLE - score ELSE score END AS q
                              FROM '{_files(folder)}')))
            GROUP BY ALL""")

    def uniform(self, folder: Path, cells: int, by: str | None = None) -> Counts:
        key = "" if by is None else f"{by}, "
        return self._fetch(f"""
            SELECT {key}floor(score * {cells}::DOUBLE)::INT AS cell, count(*) AS n, sum(label)::BIGINT AS events
            FROM '{_files(folder)}' GROUP BY ALL""")

    def apply(self, folder: Path, map_: ApplicableMap, path: Path) -> None:
        query = applied(map_, f"'{_files(folder)}'", "{!r}::DOUBLE")
        self.connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")

    def other_process(self) -> int | None:
        return None

    def _fetch(self, query: str) -> Counts:
        return dict(self.connection.execute(query).fetchnumpy())


class Spark:
    """A local session on two threads with a fixed heap, without web interface and logs."""

    name: ClassVar[str] = "spark"

    def __init__(self) -> None:
        from pyspark.sql import SparkSession

        scratch = Path(tempfile.mkdtemp(prefix="calibrant-spark-"))
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)  # the session may outlive this object
        quiet = scratch / "log4j2.properties"
        quiet.write_text("rootLogger.level = off\n", encoding="utf-8")
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        logging.getLogger("py4j").setLevel(logging.ERROR)
        settings = {
            "spark.driver.memory": SPARK_MEMORY,
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet.as_uri()}",
            "spark.local.dir": str(scratch),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": str(THREADS),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        self.session = SparkSession.builder.master(f"local[{THREADS}]").config(map=settings).getOrCreate()

    def frame(self, folder: Path) -> Any:
        return self.session.read.parquet(str(folder))

    def counts(self, folder: Path, grid: Grid, by: str | None = None) -> Counts:
        key, drop = "" if by is None else f"{by}, ", POSITION_BITS - grid.bits
        cells = OCTAVES << grid.bits
        return self._fetch(f"""
            SELECT {key}CASE WHEN upper THEN distance ELSE -distance END AS code, count(*) AS n,
                   sum(label) AS events, sum(position) AS offset
            FROM (SELECT {key}label, upper,
                         CASE WHEN place >= 0 THEN {cells} - CAST(place >> {drop} AS INT)
                              WHEN q > 0 THEN {grid.top - 1} ELSE {grid.top} END AS distance,
                         CASE WHEN place >= 0 THEN place & {(1 << drop) - 1}L
                              ELSE place + {1 << POSITION_BITS}L END AS position
                  FROM (SELECT {key}label, upper, q, {_place(1, 32)} AS place
                        FROM (SELECT {key}label, score >= 0.5D AS upper,
                                     CASE WHEN score >= 0.5D THEN 1D - score ELSE score END AS q
                              FROM parquet.`{folder}`)))
            GROUP BY ALL""")

    def uniform(self, folder: Path, cells: int, by: str | None = None) -> Counts:
        key = "" if by is None else f"{by}, "
        return self._fetch(f"""
            SELECT {key}CAST(score * {cells}D AS INT) AS cell, count(*) AS n, sum(label) AS events
            FROM parquet.`{folder}` GROUP BY ALL""")

    def apply(self, folder: Path, map_: ApplicableMap, path: Path) -> None:
        query = applied(map_, f"parquet.`{folder}`", "{!r}D")
        self.session.sql(query).write.mode("overwrite").parquet(str(path))

    def other_process(self) -> int | None:
        return int(self._java.lang.ProcessHandle.current().pid())

    def heap(self) -> int:
        """Bytes that live objects take in the JVM's heap."""
        runtime = self._java.lang.Runtime.getRuntime()
        for _ in range(3):  # cleaners of broadcasts and shuffles run after a collection, and free more for the next
            runtime.gc()
            time.sleep(0.2)
        return int(runtime.totalMemory() - runtime.freeMemory())

    @property
    def _java(self) -> Any:
        return self.session.sparkContext._jvm.java

    def _fetch(self, query: str) -> Counts:
        table = self.session.sql(query).toArrow()
        return {name: table[name].to_numpy() for name in table.column_names}


@cache
def _place(low: int, high: int) -> str:
    """Octave and position in it as one integer, by halving the octaves; negative below 2^-32."""
    if low == high:
        return f"floor(q * {2.0 ** (low + POSITION_BITS)!r}D) + {(31 - low) << POSITION_BITS}L"
    middle = (low + high) // 2
    return f"CASE WHEN q >= {2.0**-middle!r}D THEN {_place(low, middle)} ELSE {_place(middle + 1, high)} END"


def _files(folder: Path) -> str:
    return str(folder / "*.parquet")


# --- expressions ------------------------------------------------------------------------------------------------------


class Polars:
    """Lazy scans on two threads, run by the streaming engine."""

    name: ClassVar[str] = "polars"

    def __init__(self) -> None:
        os.environ.setdefault("POLARS_MAX_THREADS", str(THREADS))  # read once, when polars is imported

    def frame(self, folder: Path) -> Any:
        import polars as pl

        return pl.scan_parquet(_files(folder))

    def counts(self, folder: Path, grid: Grid, by: str | None = None) -> Counts:
        import polars as pl

        first, below, drop = _magic(grid)
        keys = [] if by is None else [by]
        score, q, bits, distance = (pl.col(name) for name in ("score", "q", "bits", "distance"))
        upper = score >= 0.5
        inside = (bits // (1 << (below - drop))) & ((1 << drop) - 1)
        tiny = pl.when(bits > 0).then(grid.top - 1).otherwise(grid.top)
        return self._collect(
            self.frame(folder)
            .select(*keys, "label", upper=upper, q=pl.when(upper).then(1.0 - score).otherwise(score))
            .with_columns(bits=q.reinterpret(dtype=pl.UInt64))
            .select(
                *keys,
                "label",
                "upper",
                distance=pl.when(bits >= SMALLEST).then(first - (bits // (1 << below)).cast(pl.Int32)).otherwise(tiny),
                offset=pl.when(bits >= SMALLEST).then(inside).otherwise((q * 2.0**62).cast(pl.UInt64)),
            )
            .select(*keys, "label", "offset", code=pl.when("upper").then(distance).otherwise(-distance))
            .group_by(*keys, "code")
            .agg(pl.len().alias("n"), pl.col("label").cast(pl.Int64).sum().alias("events"), pl.col("offset").sum())
        )

    def uniform(self, folder: Path, cells: int, by: str | None = None) -> Counts:
        import polars as pl

        keys = [] if by is None else [by]
        cell = (pl.col("score") * float(cells)).cast(pl.Int32).alias("cell")
        events = pl.col("label").cast(pl.Int64).sum().alias("events")
        return self._collect(self.frame(folder).group_by(*keys, cell).agg(pl.len().alias("n"), events))

    def apply(self, folder: Path, map_: ApplicableMap, path: Path) -> None:
        import polars as pl

        score = pl.col("score")
        if isinstance(map_, StepMap):
            knots, values = map_.knots, map_.values
            calibrated = score.map_batches(
                lambda s: pl.Series(values[np.searchsorted(knots, s.to_numpy(), side="right")]),
                return_dtype=pl.Float64,
                is_elementwise=True,
            )
        else:
            held = score.clip(CLAMP, 1.0 - CLAMP)
            calibrated = 1.0 / (1.0 + (-(map_.slope * (held / (1.0 - held)).log() + map_.intercept)).exp())
        self.frame(folder).with_columns(calibrated=calibrated).sink_parquet(path)

    def other_process(self) -> int | None:
        return None

    def _collect(self, query: Any) -> Counts:
        frame = query.collect(engine="streaming")
        return {name: frame[name].to_numpy() for name in frame.columns}


ENGINES: Mapping[str, type[Engine]] = {"duckdb": DuckDB, "polars": Polars, "spark": Spark}
