"""The learner of the live service beside a bare COPY plus UPDATE of the same rows in the same database.

    python benchmarks/service_learner.py                  # 100,000 rows, 5 rounds
    python benchmarks/service_learner.py --quick          # 5,000 rows, one round
    python benchmarks/service_learner.py --together 20    # catching up: one process, two, two of which one is killed

The log of a stream has 500 predictions and 500 outcomes in each second. What is timed is the learner, from reading the
log to the commit of what follows: rows are joined, released, judged and learned, and versions are published. The bare
work is what a table without any learning costs: COPY the predictions (id, score, probability) into a table with a
primary key, COPY the outcomes into a temporary table, and UPDATE the labels by a join. Rounds are interleaved: each has
an unkeyed stream, a keyed one with 1,000 keys, and the bare work, one after the other, on new tables.

With ``--together N`` the log of a keyed stream is learned, its stored states are removed, and processes of the learner
begin at its start, N times in turn: one; two at once; two at once, of which one, chosen at random, is killed by SIGKILL
at a random moment and started again. What is timed is the way to the position that had been committed. The log has as
many entries as ``--rows``, read in ten parts, as one of 500,000 entries is.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import psycopg

sys.path.append(str(Path(__file__).parents[1]))

from tests.engine.postgres import USER, Server

from calibrant.service.learning import learner
from calibrant.service.learning.learner import Learner
from calibrant.service.learning.loop import LearnerLoop
from calibrant.service.settings import Settings, first_entry
from calibrant.service.store.log import SECOND, append_outcomes, append_predictions
from calibrant.service.store.migrate import connect, migrate

START = 2_000_000_000
PER_SECOND = 500
KEYS = 1_000
PATIENCE = 1_800.0
HORIZON = 20.0

Rows = list[tuple[UUID, float, int]]


def made(rows: int, seed: int) -> Rows:
    """Ids, scores and outcomes."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(1.0, 4.0, rows)
    labels = (rng.random(rows) < scores**1.2).astype(int)
    ids = [UUID(bytes=rng.bytes(16)) for _ in range(rows)]
    return list(zip(ids, scores.tolist(), labels.tolist(), strict=True))


def fill(connection: psycopg.Connection, name: str, rows: Rows, *, keyed: bool) -> int:
    """A stream whose log has these rows; each outcome comes one second after its prediction."""
    text = first_entry(Settings(horizon=HORIZON, silence="negative", keyed=keyed))
    found = connection.execute("select create_stream(%s, %s)", [name, text]).fetchone()
    assert found is not None  # a function returns a row
    stream, last = int(found[0]), Rows()
    parts = [rows[k : k + PER_SECOND] for k in range(0, len(rows), PER_SECOND)]
    for second, part in enumerate([*parts, []]):
        moment = (START + second) * SECOND
        connection.execute("update head set time = %s where stream = %s", [moment, stream])
        n, scores = len(part), [score for _, score, _ in part]
        keys = [f"key {id.int % KEYS}" if keyed else None for id, _, _ in part]
        if part:
            append_predictions(connection, stream, [id for id, _, _ in part], scores, keys, [None] * n, [0] * n, scores)
        if last:
            append_outcomes(connection, stream, [row[0] for row in last], [row[2] for row in last], [None] * len(last))
        last = part
    for second in (HORIZON + 1, HORIZON + 2):
        moment = int((START + len(parts) + second) * SECOND)
        connection.execute("update head set time = %s where stream = %s", [moment, stream])
        connection.execute("select append_entry(%s, 4::smallint, null)", [stream])
    return stream


def learn(connection: psycopg.Connection, stream: int, rows: int) -> float:
    """Seconds to learn a stream."""
    begun = time.perf_counter()
    own = Learner(connection, stream)
    while own.step():
        pass
    seconds = time.perf_counter() - begun
    assert own.state is not None  # there are entries
    assert own.state.forecaster.n_rows == rows
    return seconds


def bare(connection: psycopg.Connection, rows: Rows) -> float:
    """Seconds for the same rows without learning."""
    connection.execute("drop table if exists bare, labels")
    connection.execute(
        "create table bare (id uuid primary key, score double precision, probability double precision, label smallint)"
    )
    begun = time.perf_counter()
    with connection.cursor() as cursor, cursor.copy("copy bare (id, score, probability) from stdin") as copy:
        for id, score, _ in rows:
            copy.write_row((id, score, score))
    with connection.transaction():
        connection.execute("create temporary table labels (id uuid, label smallint)")
        with connection.cursor() as cursor, cursor.copy("copy labels from stdin") as copy:
            for id, _, label in rows:
                copy.write_row((id, label))
        connection.execute("update bare set label = labels.label from labels where labels.id = bare.id")
    return time.perf_counter() - begun


def measure(rows: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each case by round."""
    found: dict[str, list[float]] = {"bare COPY and UPDATE": [], "learner, unkeyed": [], "learner, keyed": []}
    with Server("-c", "fsync=on") as server, connect(f"host={server.folder} user={USER} dbname=postgres") as connection:
        migrate(connection)
        for k in range(rounds):
            data = made(rows, k)
            streams = [fill(connection, f"{name}-{k}", data, keyed=name == "keyed") for name in ("unkeyed", "keyed")]
            connection.execute("vacuum analyze")
            connection.execute("checkpoint")
            found["bare COPY and UPDATE"].append(bare(connection, data))
            found["learner, unkeyed"].append(learn(connection, streams[0], rows))
            found["learner, keyed"].append(learn(connection, streams[1], rows))
    return found


class Together:
    """A learned stream without stored states, and processes that begin to learn it."""

    def __init__(self, address: str, connection: psycopg.Connection, rows: int) -> None:
        self.address, self.connection, self.limit = address, connection, rows // 5
        self.stream = fill(connection, "together", made(rows, 0), keyed=True)
        learn(connection, self.stream, rows)
        self.versions = self._of("select md5(string_agg(document, '' order by number)) from version")
        self.end = self._of("select position from learner")

    def _of(self, text: str) -> Any:
        row = self.connection.execute(text).fetchone()
        assert row is not None  # each of them has one
        return row[0]

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, __file__, "--learn", self.address, "--limit", str(self.limit)]
        return subprocess.Popen(command)

    def seconds(self, processes: int, kill_after: float | None = None) -> float:
        """Seconds until the stream is caught up, from the start of the processes."""
        self.connection.execute("delete from checkpoint")
        fence = self._of("select fence from learner")
        begun = time.perf_counter()
        running = [self._start() for _ in range(processes)]
        try:
            while self._of("select coalesce(max(position), 0) from checkpoint") < self.end:
                passed = time.perf_counter() - begun
                if kill_after is not None and passed > kill_after:
                    victim = random.randrange(processes)
                    running[victim].kill()
                    running[victim].wait()
                    running[victim], kill_after = self._start(), None
                assert passed < PATIENCE, "not caught up"
                time.sleep(0.05)
            seconds = time.perf_counter() - begun
            self.fences = self._of("select fence from learner") - fence
        finally:
            for each in running:
                each.kill()
                each.wait()
        assert self.versions == self._of("select md5(string_agg(document, '' order by number)) from version")
        return seconds


def together(rows: int, starts: int) -> None:
    """Measure the ways to catch up, in turn, and print them."""
    found: dict[str, list[float]] = {"one": [], "two together": [], "two, one killed": []}
    fences: dict[str, list[int]] = {name: [] for name in found}
    address = "host={} user={} dbname=postgres"
    with Server("-c", "fsync=on") as server, connect(address.format(server.folder, USER)) as connection:
        migrate(connection)
        world = Together(address.format(server.folder, USER), connection, rows)
        for _ in range(starts):
            for name, seconds in found.items():
                killed = random.uniform(0.0, found["one"][-1]) if name == "two, one killed" else None
                seconds.append(world.seconds(1 if name == "one" else 2, killed))
                fences[name].append(world.fences)
                print(f"{name}: {seconds[-1]:.1f} s, {world.fences} fences", file=sys.stderr, flush=True)
    one = statistics.median(found["one"])
    print(f"{world.end:,} entries in parts of {world.limit:,}, {starts} starts of each, load {os.getloadavg()[0]:.0f}")
    print(f"{'':16} {'median s':>9} {'ratio':>6} {'highest':>8} {'fences at most':>15}")
    for name, seconds in found.items():
        shown = f"{statistics.median(seconds):9.1f} {statistics.median(seconds) / one:6.2f} {max(seconds) / one:8.2f}"
        print(f"{name:16} {shown} {max(fences[name]):15}")


def learn_until_stopped(address: str, limit: int) -> None:
    """A process of the learner, with parts of the log of another size."""
    learner.LIMIT, stop = limit, threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    LearnerLoop(address).run(stop)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="5,000 rows, one round")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--together", type=int, metavar="N", help="start processes together N times")
    parser.add_argument("--learn", metavar="ADDRESS", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.learn:
        learn_until_stopped(given.learn, given.limit)
        return
    if given.together:
        together(2_500 if given.quick else given.rows // 2, given.together)
        return
    rows, rounds = (5_000, 1) if given.quick else (given.rows, given.rounds)
    found = measure(rows, rounds)
    load = os.getloadavg()[0]
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.0f} at the end (other jobs included)"
    )
    print(
        f"{rows:,} rows, {PER_SECOND} a second of stream time; medians over rounds ({rounds}), ratios of the same round"
    )
    print()
    print(f"{'':24} {'seconds':>8} {'rows/s':>10} {'ratio':>7} {'lowest':>7} {'highest':>7}")
    for name, seconds in found.items():
        ratios = [a / b for a, b in zip(seconds, found["bare COPY and UPDATE"], strict=True)]
        middle = statistics.median(seconds)
        shown = f"{middle:8.2f} {rows / middle:10,.0f} {statistics.median(ratios):7.2f}"
        print(f"{name:24} {shown} {min(ratios):7.2f} {max(ratios):7.2f}")


if __name__ == "__main__":
    main()
