"""A worker and its executor are killed in the middle of a tally: the tally is the same, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.clusters import Cluster, Driver, Read, wait_until

from calibrant.engine import tally
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ROWS, PARTS, COPIES = 200_000, 64, 80


def tally_of_many(read: Read, path: str, copies: int) -> Tally:
    """A tally of every row so many times over, in parts that are shuffled to both workers first."""
    from pyspark.sql import functions as f

    rows = read([path]).repartition(PARTS)
    return tally(rows.select("s", "y", f.explode(f.sequence(f.lit(1), f.lit(copies)))), "s", "y", grid=Grid())


def in_its_middle(driver: Driver, first: int) -> bool:
    """Whether a stage of all parts, no older than ``first``, is partly done, with a task under way in each executor."""
    stages = [stage for stage in driver.ask("stages?status=active") if stage["stageId"] >= first]
    some = any(stage["numTasks"] == PARTS and 4 <= stage["numCompleteTasks"] < PARTS - 8 for stage in stages)
    return some and all(executor["activeTasks"] for executor in executors(driver).values())


def executors(driver: Driver) -> dict[str, Any]:
    """Executors by their name, the dead included."""
    return {each["id"]: each for each in driver.ask("allexecutors") if each["id"] != "driver"}


def active(driver: Driver) -> set[str]:
    return {name for name, executor in executors(driver).items() if executor["isActive"]}


def test_a_tally_survives_the_death_of_a_worker(cluster: Cluster, standalone: Driver, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(80)
    scores = rng.beta(0.7, 1.6, ROWS)
    labels = (rng.random(ROWS) < scores).astype(np.int64)
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"s": scores, "y": labels}), path)
    wait_until(lambda: len(active(standalone)) == 2, "there are not two executors")
    first = 1 + max((stage["stageId"] for stage in standalone.ask("stages")), default=-1)

    standalone.submit(tally_of_many, path, COPIES)
    wait_until(lambda: in_its_middle(standalone, first), "the job was never in its middle")
    before = executors(standalone)
    cluster.workers[0].kill()
    there = standalone.result()

    here = Tally.from_arrays(scores, labels, np.full(ROWS, COPIES), weight_type="frequency", grid=Grid())
    assert there.total == ROWS * COPIES
    for column in ("keys", "n", "events", "offset"):
        np.testing.assert_array_equal(getattr(there.cells, column), getattr(here.cells, column))
    assert there.fingerprint == here.fingerprint

    after, (alive,) = executors(standalone), active(standalone)
    lost = [stage for stage in standalone.ask("stages") if stage["stageId"] >= first]
    assert cluster.alive_workers() == 1
    assert set(before) == set(after), "another executor came"
    assert sum(stage["numFailedTasks"] + stage["numKilledTasks"] for stage in lost) > 0, "no task was lost"
    carried = after[alive]["completedTasks"] - before[alive]["completedTasks"]
    assert carried >= 8, "the worker that was left did not carry the rest"

    cluster.start_worker(0)
    wait_until(lambda: len(active(standalone)) == 2, "the worker did not come back", cluster.workers[0].text)
    assert standalone.run(tally_of_many, path, 1).total == ROWS
