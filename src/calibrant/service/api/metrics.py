"""Metrics for Prometheus: requests of this process, and what the tables say about each stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any

import psycopg
from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from calibrant.service.api.access import need
from calibrant.service.api.errors import responses
from calibrant.service.store.access import Caller
from calibrant.service.store.overview import Overview, read_overviews

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper ends of the classes of latency, in seconds."""

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with a folder that several processes share: with it, each of them answers for all."""

router = APIRouter(tags=["operation"])


class Metrics:
    """What a process counts: requests by route and status with their latency, and events by stream.

    In a process that shares the folder :data:`FOLDER` with others, the numbers are those of all of them.
    """

    def __init__(self) -> None:
        self._own = CollectorRegistry()
        self._seconds = Histogram(
            "calibrant_request_seconds", "Latency of requests", ["route", "status"], buckets=BUCKETS, registry=self._own
        )
        self._events = Counter(
            "calibrant_events", "Predictions, outcomes and refused rows", ["kind", "stream", "what"], registry=self._own
        )
        self._observers: dict[tuple[str, int], Callable[[float], None]] = {}
        self._counters: dict[tuple[str, str, str], Callable[[float], None]] = {}

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Take the time of a request."""
        observe = self._observers.get((route, status))
        if observe is None:
            observe = self._seconds.labels(route, str(status)).observe
            self._observers[route, status] = observe
        observe(seconds)

    def count(self, kind: str, stream: str, what: str, n: int) -> None:
        """Count events, as :meth:`calibrant.service.api.serving.process.Process.count` has them."""
        add = self._counters.get((kind, stream, what))
        if add is None:
            add = self._events.labels(kind, stream, what).inc
            self._counters[kind, stream, what] = add
        add(n)

    def text(self, streams: frozenset[str] | None) -> str:
        """The numbers in the text format of Prometheus, of these streams or of all."""
        registry = self._own
        if os.environ.get(FOLDER):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(_Chosen(registry, streams)).decode()


class _Chosen(CollectorRegistry):
    """The metrics of a registry, without those of other streams."""

    def __init__(self, registry: CollectorRegistry, streams: frozenset[str] | None) -> None:
        super().__init__()
        self._registry, self._streams = registry, streams

    def collect(self) -> Iterator[Metric]:
        """Metrics whose label stream, if they have one, is chosen."""
        for metric in self._registry.collect():
            if self._streams is not None:
                own = self._streams
                metric.samples = [each for each in metric.samples if each.labels.get("stream") in (None, *own)]
            yield metric


class Streams(Collector):
    """What the tables say about each stream.

    Parameters
    ----------
    views
        Streams at a glance; None if the database does not answer.
    """

    def __init__(self, views: Iterable[Overview] | None) -> None:
        self._views = None if views is None else list(views)

    def collect(self) -> Iterator[Metric]:
        """Metrics by stream."""
        up = GaugeMetricFamily("calibrant_database_up", "1 if the database answers")
        up.add_metric([], float(self._views is not None))
        yield up
        for name, (text, read) in FIGURES.items():
            counts = name.endswith("_total")
            family = (CounterMetricFamily if counts else GaugeMetricFamily)(
                f"calibrant_{name.removesuffix('_total')}", text, labels=["stream", *LABELS.get(name, [])]
            )
            for view in self._views or []:
                for labels, value in read(view):
                    if value is not None:
                        family.add_metric([view.name, *labels], float(value))
            yield family


Read = Callable[[Overview], Iterable[tuple[tuple[str, ...], Any]]]


def _one(read: Callable[[Overview], Any]) -> Read:
    return lambda view: [((), read(view))]


def _of_report(*path: str) -> Read:
    """A number of the learner's document."""

    def read(view: Overview) -> list[tuple[tuple[str, ...], Any]]:
        found: Any = view.report
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return [((), found)]

    return read


def _lag(view: Overview) -> list[tuple[tuple[str, ...], Any]]:
    found = (view.report or {}).get("label_lag_seconds") or {}
    return [(("0.5",), found.get("p50")), (("0.9",), found.get("p90"))]


def _band(view: Overview) -> list[tuple[tuple[str, ...], Any]]:
    found = (view.report or {}).get("monitor") or {}
    return [(("low",), found.get("level_low")), (("high",), found.get("level_high"))]


def _last_outcome(view: Overview) -> list[tuple[tuple[str, ...], Any]]:
    found = ((view.report or {}).get("feed") or {}).get("last_outcome")
    return [((), found and datetime.fromisoformat(found).timestamp())]


def _counts(view: Overview) -> list[tuple[tuple[str, ...], Any]]:
    found = (view.report or {}).get("counts") or {}
    return [((name,), value) for name, value in sorted(found.items()) if isinstance(value, int | float)]


FIGURES: dict[str, tuple[str, Read]] = {
    "rows_learned": ("Rows that were learned", _of_report("rows_learned")),
    "open_predictions": ("Predictions that wait for their release", _of_report("open")),
    "label_lag_seconds": ("Time within which this share of the outcomes came", _lag),
    "label_coverage": ("Share of released rows with an outcome", _of_report("coverage")),
    "label_coverage_last_horizon": (
        "Share of the rows due in the last horizon with an outcome",
        _of_report("coverage_last_horizon"),
    ),
    "ledger_rows": ("Counts of the ledger", _counts),
    "learner_lag_seconds": (
        "Distance in time of the oldest entry that is not learned",
        _one(lambda view: view.behind_seconds),
    ),
    "learner_lag_entries": ("Entries that are not learned", _one(lambda view: view.behind)),
    "monitor_difference": ("Band of observed minus predicted per row", _band),
    "monitor_alarm": ("1 while an alarm of the monitor holds", _of_report("monitor", "holds")),
    "monitor_alarms_total": ("Alarms of the monitor", _of_report("monitor", "alarms")),
    "last_alarm_timestamp_seconds": (
        "Time of the last alarm",
        _one(lambda view: view.last_alarm and view.last_alarm.timestamp()),
    ),
    "served_version": ("Version that is served; 0 is the score itself", _one(lambda view: view.served)),
    "newest_version": ("Newest version", _one(lambda view: view.newest)),
    "served_version_age_seconds": (
        "Time since the version that is served was published",
        _one(lambda view: view.served_since and (view.now - view.served_since).total_seconds()),
    ),
    "feed_held": ("1 while rows wait since outcomes do not come as predicted", _of_report("feed", "held")),
    "last_outcome_timestamp_seconds": ("Time of the last entry of an outcome", _last_outcome),
    "rows_past_due": ("Rows whose horizon has passed and that are not released", _of_report("feed", "past_due")),
    "promotion_paused": ("1 if new versions wait for a person after a roll-back", _of_report("paused")),
}
"""Name -> help, and how it is read."""

LABELS = {"label_lag_seconds": ["share"], "monitor_difference": ["end"], "ledger_rows": ["count"]}


@router.get("/metrics", response_class=Response, responses=responses() | {200: {"content": {"text/plain": {}}}})
def metrics(request: Request, caller: Annotated[Caller, Depends(need("read"))]) -> Response:
    """Metrics in the text format of Prometheus: requests, and the streams that the token may read."""
    own: Metrics = request.app.state.metrics
    streams = CollectorRegistry()
    streams.register(Streams(_views(request, caller)))
    text = own.text(caller.streams) + generate_latest(streams).decode()
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _views(request: Request, caller: Caller) -> list[Overview] | None:
    names = None if caller.streams is None else sorted(caller.streams)
    try:
        with request.app.state.access.pool.connection() as connection:
            return read_overviews(connection, names)
    except psycopg.OperationalError:
        return None
