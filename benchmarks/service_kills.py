"""Kills of a live service under load: is everything that was acknowledged still there, once?

    python benchmarks/service_kills.py             # 120 kills, with a full disk and a jumping clock; needs root
    python benchmarks/service_kills.py --quick     # 10 kills
    python benchmarks/service_kills.py --kills 60 --keyed      # maps by key; or --returned: receipts, nothing stored

Two serving processes (uvicorn), a learner and PostgreSQL run under a supervisor. Clients send predictions and outcomes
through proxies, and repeat what was not answered. Now and then they erase an id, begin, change or end a canary, change
settings, or let promotions go on. The learner drops days of the log: two that lie in the past, and others when the
clock jumps by a day. At random moments one of the processes is killed by SIGKILL, PostgreSQL is stopped immediately or
killed with all its processes, connections are reset, a second learner takes the stream, the clock of the database
jumps, or its disk is full. The first fault comes once a version is served. Between two faults some requests succeed,
and a newer version is waited for, so that each fault meets a service under load that learns. In the end everything is
compared: see tests/service/faults/checks.py.
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import psycopg

sys.path.append(str(Path(__file__).parents[1]))

from tests.service.faults.checks import Found, check_all
from tests.service.faults.database import Database
from tests.service.faults.load import Client, Remembered, key_of, score_of
from tests.service.faults.processes import Supervised, briefly, learn, serve
from tests.service.faults.proxy import Proxy
from tests.service.faults.written import DAY, keep_written

from calibrant.service.settings import Settings, first_entry
from calibrant.service.store.access import issue_token
from calibrant.service.store.log import append_predictions
from calibrant.service.store.migrate import connect, migrate

SETTINGS = Settings(horizon=4.0, silence="negative", publish_rows=200, publish_seconds=2.0, retention_days=1)
KEYED = replace(SETTINGS, keyed=True, publish_rows=10_000, publish_seconds=5.0, tolerance=1.0)
"""Fewer versions, so that most of them answer; alarms, after which versions come each second, are rare."""
RETURNED = replace(SETTINGS, mode="returned", silence="unknown", horizon=20.0)
"""A longer horizon, so that few receipts expire while a process is away."""

SECRETS = [bytes([k]) * 32 for k in (1, 2)]
"""Keys of receipts. Each server signs with another one and accepts both, as while keys rotate."""

FAULTS = {
    "kill a server": 30,
    "kill the learner": 20,
    "kill PostgreSQL": 7,
    "stop PostgreSQL at once": 7,
    "kill a process of PostgreSQL": 7,
    "reset connections to PostgreSQL": 9,
    "reset connections of clients": 6,
    "a second learner": 5,
    "the clock jumps": 7,
    "the disk is full": 4,
}
"""Weights of the faults."""

PROGRESS = 30
"""Acknowledged rows between two faults, at least."""

VERSION_SECONDS = 6.0
"""Longest wait for an answer by a newer version before each fault."""

DECIDES = 0.08
"""Share of the rounds of a client in which it decides something."""

PATIENCE = 600.0
DISK = 400 << 20


@dataclass
class Run:
    """What went wrong on purpose, and what was found."""

    faults: Counter[str]
    requests: Counter[str]
    found: Found
    starts: dict[str, int]
    seconds: float

    @property
    def kills(self) -> int:
        """Processes that were killed: SIGKILL, or an immediate stop of PostgreSQL."""
        return sum(n for name, n in self.faults.items() if name.startswith(("kill", "stop")))

    def __str__(self) -> str:
        """A table."""
        lines = [f"{self.kills} kills in {self.seconds:.0f} s"]
        for title, table in (
            ("faults", self.faults), ("starts of processes", self.starts), ("requests and rows", self.requests),
            ("compared", self.found.numbers),
        ):  # fmt: skip
            lines += ["", title, *(f"  {n:9,d}  {name}" for name, n in table.items())]
        return "\n".join([*lines, "", *(f"WRONG: {each}" for each in self.found.wrong or ["nothing"])])


class Bench:
    """All parts of a service on this machine; what clients are given is said in :class:`Client`."""

    def __init__(
        self, stack: ExitStack, settings: Settings = SETTINGS, *, disk: bool, clock: bool, clients: int = 3,
        pause: float = 0.02, keep: bool = True, decides: float = 0.0,
    ) -> None:  # fmt: skip
        self.database = stack.enter_context(Database(DISK if disk else None, clock))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calibrant-kills-")))
        with connect(self.database.address) as owner:
            migrate(owner)
            owner.execute("select create_stream('clicks', %s)", [first_entry(settings)])
            token = issue_token(owner, None, "kills", ("predict", "label", "read", "admin"))[1]
            self.past = (
                give_past(owner, 1, keyed=settings.keyed) if decides and settings.mode == "logged" else Remembered()
            )
            if keep:
                keep_written(owner)
        self.link = stack.enter_context(Proxy(self.database.socket))
        address = f"host=127.0.0.1 port={self.link.port} user=calibrant dbname=postgres sslmode=disable"
        self.environment = {"CALIBRANT_DATABASE": address}
        self.servers, self.doors = [], []
        for k in range(2):
            port = _free_port()
            secrets = ",".join(each.hex() for each in (SECRETS[k], SECRETS[1 - k]))
            own = {"CALIBRANT_PORT": str(port), "CALIBRANT_CACHE": str(folder / f"cache{k}")}
            own |= {"CALIBRANT_RECEIPT_KEYS": secrets}
            log = folder / f"server{k}.log"
            self.servers.append(stack.enter_context(Supervised(serve, self.environment | own, log)))
            self.doors.append(stack.enter_context(Proxy(port)))
        self.learner_log = folder / "learner.log"
        self.learner = stack.enter_context(Supervised(learn, self.environment, self.learner_log))
        ports = [each.port for each in self.doors]
        self.clients = [
            Client(k + 1, ports, token, pause, keep=keep, keyed=settings.keyed, decides=decides, settings=settings)
            for k in range(clients)
        ]
        self.folder = folder

    def progress(self) -> int:
        """Rows that were acknowledged."""
        names = ("logged", "returned", "outcomes acknowledged")
        return sum(each.known.counts[name] for each in self.clients for name in names)

    def wait_for_progress(self, rows: int) -> None:
        """Wait until some more rows are acknowledged."""
        end, goal = time.monotonic() + PATIENCE, self.progress() + rows
        while self.progress() < goal:
            if not self.database.runs:  # as a supervisor would: it stopped by itself, for lack of space
                self.database.start()
            if time.monotonic() > end or not all(each.is_alive() for each in self.clients):
                logs = "".join(path.read_text()[-3_000:] for path in sorted(self.folder.glob("*.log")))
                raise RuntimeError(f"nothing is acknowledged any more: {self.requests()}\n{logs}")
            time.sleep(0.02)

    def wait_for_version(self, seconds: float) -> None:
        """Wait until a newer version has answered, for some time at most."""
        end, goal = time.monotonic() + seconds, self.newest_answer()
        while time.monotonic() < end and self.newest_answer() <= goal:
            self.wait_for_progress(1)

    def newest_answer(self) -> int:
        """The newest version that has answered."""
        return max(each.newest for each in self.clients)

    def requests(self) -> Counter[str]:
        """What came of the requests of all clients."""
        return sum((each.known.counts for each in self.clients), Counter())

    def fault(self, name: str, rng: random.Random) -> bool:
        """Let one thing go wrong; false if it did not happen."""
        if name == "kill a server":
            return rng.choice(self.servers).kill()
        if name == "kill the learner":
            return self.learner.kill()
        if name in ("kill PostgreSQL", "stop PostgreSQL at once"):
            self.database.stop(immediate=name.startswith("stop"))
            time.sleep(rng.random())
            self.database.start()
        elif name == "kill a process of PostgreSQL":
            return self.database.kill_one()
        elif name == "reset connections to PostgreSQL":
            self.link.drop()
        elif name == "reset connections of clients":
            rng.choice(self.doors).drop()
        elif name == "a second learner":
            briefly(learn, self.environment, self.learner_log, rng.uniform(2.0, 5.0))
        elif name == "the clock jumps":
            self.database.jump(rng.choice([-2, -30, 5, 60, 3_600, 86_400, 86_400]))
        else:
            self.database.fill()
            time.sleep(rng.uniform(0.5, 2.0))
            self.database.free()
        return True


def run(
    kills: int, seed: int = 0, settings: Settings = SETTINGS, *, disk: bool = False, clock: bool = False,
    progress: int = PROGRESS, version_seconds: float = VERSION_SECONDS,
) -> Run:  # fmt: skip
    """Kill until enough was killed, then compare.

    Parameters
    ----------
    kills
        Number of kills.
    seed
        Seed of the faults.
    settings
        Settings of the stream.
    disk, clock
        Whether the disk can be full and the clock can jump.
    progress
        Rows that are acknowledged between two faults, at least.
    version_seconds
        Longest wait before each fault for an answer by a newer version.

    Returns
    -------
    Run
        What was done and what was found.
    """
    rng, begun = random.Random(seed), time.monotonic()
    left_out = {name for name, wanted in (("the disk is full", disk), ("the clock jumps", clock)) if not wanted}
    weights = {name: weight for name, weight in FAULTS.items() if name not in left_out}
    done: Counter[str] = Counter()
    with ExitStack() as stack:
        bench = Bench(stack, settings, disk=disk, clock=clock, decides=DECIDES)
        for each in bench.clients:
            each.start()
        bench.wait_for_version(10.0 * VERSION_SECONDS)
        result = Run(done, Counter(), Found(), {}, 0.0)
        while result.kills < kills:
            bench.wait_for_progress(progress)
            bench.wait_for_version(version_seconds)
            time.sleep(rng.random() * 0.3)
            name = rng.choices(list(weights), list(weights.values()))[0]
            done[name] += bench.fault(name, rng)
        bench.wait_for_progress(PROGRESS)
        for each in bench.clients:
            each.end()
        ask_again(bench, rng)
        for each in bench.clients:
            each.close()
        result.requests = bench.requests()
        result.starts = {"server 1": bench.servers[0].starts, "server 2": bench.servers[1].starts}
        result.starts["learner"] = bench.learner.starts
        if clock:
            bench.database.jump(100_000)
            time.sleep(1.5)
        else:
            time.sleep(settings.horizon + 1.0)
        bench.learner.end()
        with connect(bench.database.address) as owner:
            known = [bench.past, *(each.known for each in bench.clients)]
            result.found = check_all(owner, 1, known, settings.horizon)
    result.seconds = time.monotonic() - begun
    return result


def give_past(owner: psycopg.Connection, stream: int, *, keyed: bool) -> Remembered:
    """Let a new stream have predictions of three and of two days ago.

    Parameters
    ----------
    owner
        A connection of the owner of the schema.
    stream
        Number of the stream.
    keyed
        Whether the predictions have keys.

    Returns
    -------
    Remembered
        What a client knows that asked for them.
    """
    known = Remembered()
    for days in (1, 2):
        ids = [UUID(int=100 * days + k) for k in range(10)]
        texts = [str(id) for id in ids]
        scores = [score_of(text) for text in texts]
        keys = [key_of(text) if keyed else None for text in texts]
        append_predictions(owner, stream, ids, scores, keys, [None] * 10, [0] * 10, scores)
        known.answers |= {text: (score, 0) for text, score in zip(texts, scores, strict=True)}
        owner.execute("select make_day(day - %s) from (select distinct day from log) as present", [days])
        owner.execute(
            "update log set time = time - %(us)s, at = at - %(us)s, day = day - %(days)s",
            {"us": days * DAY, "days": days},
        )
        owner.execute("update known set day = day - %s", [days])
        owner.execute("update head set time = time - %s", [days * DAY])
    known.sent |= set(known.answers)
    return known


def ask_again(bench: Bench, rng: random.Random) -> None:
    """Every id that is kept must be answered as before."""
    for each in bench.clients:
        each.ended = threading.Event()
        ids = rng.sample(sorted(each.known.answers), min(1_000, len(each.known.answers)))
        before = each.known.counts["repeated"]
        for k in range(0, len(ids), 100):
            each.predict(ids[k : k + 100])
        each.known.counts["asked again in the end, same answer"] += each.known.counts["repeated"] - before


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10 kills, without full disk and jumping clock")
    parser.add_argument("--kills", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keyed", action="store_true", help="a stream with maps by key")
    parser.add_argument("--returned", action="store_true", help="receipts, nothing stored; no clock jumps")
    given = parser.parse_args()
    settings = RETURNED if given.returned else KEYED if given.keyed else SETTINGS
    if given.quick:
        found = run(10, given.seed, settings)
    else:
        found = run(given.kills, given.seed, settings, disk=True, clock=not given.returned)
    print(found)
    return bool(found.found.wrong)


if __name__ == "__main__":
    sys.exit(main())
