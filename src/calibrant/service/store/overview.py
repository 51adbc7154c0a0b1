"""All that pages and metrics show of a stream, read from reports, versions and promotions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import psycopg

from calibrant.service.store.log import SECOND
from calibrant.service.store.streams import (
    Decision,
    PublishedVersion,
    days_of,
    decisions_of,
    moment,
    settings_of,
    versions_of,
)

DAYS, VERSIONS = 60, 20
"""How many days, versions and promotions are read."""


@dataclass(frozen=True)
class Overview:
    """A stream at a glance.

    Attributes
    ----------
    number, name
        Which stream it is.
    now
        The time of the database.
    served, served_since
        Version that is served, and when it was published; 0 is the score itself.
    newest
        Newest version.
    position, learned
        Last position of the log, and the last one that is learned.
    behind_seconds
        Seconds for which the oldest entry waits that is not learned; if the clock of the database went back, seconds
        until it is where it was, since nothing is learned before.
    report
        Document of the learner, or None before there is one.
    """

    number: int
    name: str
    now: datetime
    served: int = 0
    served_since: datetime | None = None
    newest: int = 0
    position: int = 0
    learned: int = 0
    behind_seconds: float = 0.0
    report: Mapping[str, Any] | None = None

    @property
    def behind(self) -> int:
        """Entries that are not learned."""
        return self.position - self.learned

    @property
    def groups(self) -> Sequence[Mapping[str, Any]]:
        """Predicted and observed by group of the probability."""
        return list((self.report or {}).get("reliability") or [])

    @property
    def means(self) -> tuple[float, float, int]:
        """Mean prediction, share of events and rows of these groups."""
        rows = sum(each["n"] for each in self.groups)
        if not rows:
            return 0.0, 0.0, 0
        predicted, observed = (
            sum(each["n"] * each[name] for each in self.groups) / rows for name in ("predicted", "observed")
        )
        return predicted, observed, rows

    @property
    def alarms(self) -> Sequence[Mapping[str, Any]]:
        """The latest alarms with what they saw, the newest first."""
        return list(self.report["monitor"].get("latest") or []) if self.report else []

    @property
    def last_alarm(self) -> datetime | None:
        """When the monitor raised its last alarm."""
        text = self.report["monitor"].get("last_alarm") if self.report else None
        return datetime.fromisoformat(text) if text else None


@dataclass(frozen=True)
class History:
    """How a stream came to be what it is: days in order, versions and promotions newest first.

    ``older`` is the last of these versions if there are others before it, or None.
    """

    settings: Mapping[str, Any]
    days: Sequence[tuple[date, Mapping[str, Any]]]
    versions: Sequence[PublishedVersion]
    promotions: Sequence[Decision]
    older: int | None


LISTED = """
select stream.stream, stream.name, extract(epoch from clock_timestamp())::float8, coalesce(served.version, 0),
    version.time, coalesce((select max(number) from version where version.stream = stream.stream), 0),
    head.position, learner.position, oldest_unlearned(stream.stream), report.document
from stream join head using (stream) join learner using (stream) left join report using (stream)
left join lateral (
    select promotion.version from promotion where promotion.stream = stream.stream
    order by promotion.position desc, promotion.place desc limit 1
) as served on true
left join version on version.stream = stream.stream and version.number = served.version
where %(names)s::text[] is null or stream.name = any (%(names)s)
order by stream.name
"""


def read_overviews(connection: psycopg.Connection, names: Sequence[str] | None = None) -> list[Overview]:
    """Streams at a glance, by name.

    Parameters
    ----------
    connection
        A connection.
    names
        Names of streams; by default all. Those that do not exist are left out.

    Returns
    -------
    list of Overview
        One for each.
    """
    rows = connection.execute(LISTED, {"names": None if names is None else list(names)}).fetchall()
    return [_overview(*row) for row in rows]


def read_history(connection: psycopg.Connection, stream: int, before: int | None = None) -> History:
    """Days, versions, promotions and settings of one stream.

    Parameters
    ----------
    connection
        A connection.
    stream
        Number of the stream.
    before
        Versions before this number.

    Returns
    -------
    History
        The last 60 days, and the newest 20 of the others.
    """
    versions = versions_of(connection, stream, before, VERSIONS + 1)
    return History(
        settings_of(connection, stream).document(),
        days_of(connection, stream, DAYS),
        versions[:VERSIONS],
        decisions_of(connection, stream, VERSIONS),
        versions[VERSIONS - 1].number if len(versions) > VERSIONS else None,
    )


def _overview(
    number: int, name: str, now: float, served: int, since: int | None, newest: int, position: int, learned: int,
    waiting: int | None, document: str | None,
) -> Overview:  # fmt: skip
    behind = 0.0 if waiting is None else abs(now - waiting / SECOND)
    return Overview(
        number, name, datetime.fromtimestamp(now, UTC), served, None if since is None else moment(since), newest,
        position, learned, behind, None if document is None else json.loads(document),
    )  # fmt: skip
