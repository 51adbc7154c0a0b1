"""Prometheus with the rules that are shipped scrapes the real service: each trouble fires its alert, and no other.

Durations in the rules are cut to seconds; thresholds and labels stay as they are.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx
import psycopg
import pytest
import yaml
from tests.service.live_service import Running, config, wait_for
from tests.service.test_commands import free_port
from tests.service.test_deploy import PROMETHEUS

from calibrant.service.learning.loop import LearnerLoop
from calibrant.service.settings import Settings
from calibrant.service.store.streams import create_stream

NUMBERS = count()
WINDOW = "5s"
QUEUE_ROWS = 100


def predict(service: Running, stream: str, n: int = 20, score: float = 0.3) -> list[str]:
    """Log predictions, and return their ids."""
    ids = [f"{stream} {next(NUMBERS)}" for _ in range(n)]
    rows = [{"id": id, "score": score} for id in ids]
    service.client.post(f"/v1/streams/{stream}/predictions", json={"rows": rows})
    return ids


def answer(service: Running, stream: str, ids: list[str], outcome: int) -> None:
    outcomes = [{"id": id, "outcome": outcome} for id in ids]
    service.client.post(f"/v1/streams/{stream}/outcomes", json={"outcomes": outcomes}).raise_for_status()


def quiet(service: Running, database: psycopg.Connection) -> None:
    ids = predict(service, "quiet", 20, score=0.25)
    answer(service, "quiet", ids[:5], 1)
    answer(service, "quiet", ids[5:], 0)


def moved(database: psycopg.Connection, stream: str, seconds: int) -> None:
    """Move the entries of a stream in time, unless they were moved."""
    now = "extract(epoch from clock_timestamp()) * 1000000"
    database.execute(
        f"update log set time = time + %s where abs(time - {now}) < 300000000 "
        "and stream = (select stream from stream where name = %s)",
        [seconds * 1_000_000, stream],
    )


def behind(service: Running, database: psycopg.Connection) -> None:
    """Entries that nobody learned for ten minutes."""
    predict(service, "behind")
    moved(database, "behind", -600)


def ahead(service: Running, database: psycopg.Connection) -> None:
    """The clock of the database went back by ten minutes, so that nothing is learned."""
    predict(service, "ahead")
    moved(database, "ahead", 600)


def misspelled(service: Running, database: psycopg.Connection) -> None:
    answer(service, "misspelled", [f"order-{id}" for id in predict(service, "misspelled")], 1)


def changed(service: Running, database: psycopg.Connection) -> None:
    """Events come where few were predicted."""
    answer(service, "changed", predict(service, "changed", 40), 1)


def overloaded(service: Running, database: psycopg.Connection) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: predict(service, "overloaded", QUEUE_ROWS), range(8)))


def dead(service: Running, database: psycopg.Connection) -> None:
    """Outcomes come until versions follow them, and then no more."""
    ids = predict(service, "dead", QUEUE_ROWS, score=0.3)
    if not database.execute("select 1 from version join stream using (stream) where name = 'dead'").fetchone():
        answer(service, "dead", ids[: QUEUE_ROWS * 3 // 10], 1)


TROUBLES: list[tuple[Callable[[Running, psycopg.Connection], None], str | None]] = [
    (quiet, None),
    (behind, "CalibrantLearnerBehind"),
    (ahead, "CalibrantLearnerBehind"),
    (misspelled, "CalibrantUnknownOutcomes"),
    (changed, "CalibrantMonitorAlarm"),
    (overloaded, "CalibrantOverload"),
    (dead, "CalibrantNoOutcomes"),
]
"""What happens again and again to the stream with the name of the function, and the alert that it fires."""


@contextmanager
def prometheus(service: Running, folder: Path) -> Iterator[httpx.Client]:
    """A running Prometheus with the rules of the deployment, whose durations are cut."""
    rules = (PROMETHEUS / "alerts.yml").read_text()
    rules = re.sub(r"for: \w+", "for: 0s", re.sub(r"\[\d+[smhd]\]", f"[{WINDOW}]", rules))
    (folder / "alerts.yml").write_text(rules)
    (folder / "token").write_text(service.token)
    wanted = yaml.safe_load((PROMETHEUS / "scrape.yml").read_text())
    job = wanted["scrape_configs"][0]
    job |= {"scrape_interval": "500ms", "authorization": {"credentials_file": str(folder / "token")}}
    job["static_configs"] = [{"targets": [f"127.0.0.1:{service.port}"]}]
    wanted["global"] = {"scrape_timeout": "500ms", "evaluation_interval": "500ms"}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(wanted))
    address = f"127.0.0.1:{free_port()}"
    options = ["--config.file", "prometheus.yml", "--storage.tsdb.path", "data", "--web.listen-address", address]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["prometheus", *options], cwd=folder, stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://{address}", trust_env=False) as client:
            wait_for(lambda: is_ready(client))
            yield client
    finally:
        process.terminate()
        process.wait()


def is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def firing(client: httpx.Client) -> set[tuple[str, str]]:
    """Name and stream of the alerts that fire."""
    alerts = client.get("/api/v1/alerts").json()["data"]["alerts"]
    names = [each["labels"] for each in alerts if each["state"] == "firing"]
    return {(each["stream"], each["alertname"]) for each in names if "stream" in each}


@pytest.mark.slow
def test_each_trouble_fires_its_alert_and_no_other(
    address: str, database: psycopg.Connection, token: str, tmp_path: Path
) -> None:
    create_stream(database, None, "dead", Settings(horizon=1.0, silence="negative", publish_rows=1_000))
    for trouble, _ in TROUBLES[:-1]:
        create_stream(database, None, trouble.__name__, Settings(horizon=1.0, silence="unknown", publish_rows=10_000))
    learner, stop = LearnerLoop(address, ["quiet", "changed", "misspelled", "dead"], seconds=0.2), threading.Event()
    thread = threading.Thread(target=learner.run, args=[stop])
    wanted = {(trouble.__name__, alert) for trouble, alert in TROUBLES if alert}
    seen: set[tuple[str, str]] = set()
    with Running(config(address, queue_rows=QUEUE_ROWS), token) as service, prometheus(service, tmp_path) as client:
        thread.start()
        try:
            end = time.monotonic() + 120.0
            while not seen >= wanted:
                assert time.monotonic() < end, (seen ^ wanted, (tmp_path / "log").read_text())
                for trouble, _ in TROUBLES:
                    trouble(service, database)
                time.sleep(0.2)
                seen |= firing(client)
        finally:
            stop.set()
            thread.join()
    assert seen == wanted
