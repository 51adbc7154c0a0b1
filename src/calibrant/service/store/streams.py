"""Streams as people see them: settings, versions, promotions and reports are read here, and decisions are logged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from psycopg.rows import class_row

from calibrant.calibration import Calibration
from calibrant.export.errors import DocumentError
from calibrant.messages import InputError
from calibrant.service.settings import Settings, first_entry
from calibrant.service.store.access import NotFoundError, refusals

NAME = r"^[a-z0-9][a-z0-9_-]{0,62}$"
NAMED = "must be 1 to 63 small letters, digits, hyphens or underscores, and begin with a letter or digit"
"""Pattern of the names of streams."""

MOST_SHARE = 0.5
"""Largest share of a canary: half of the rows at least are left to compare it with."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Stream:
    """A stream.

    Attributes
    ----------
    number, name
        Which one it is.
    position, time
        The end of its log.
    learned
        The position up to which it is learned.
    served
        Number of the version that is served; 0 is the raw score.
    """

    number: int
    name: str
    position: int
    time: datetime
    learned: int
    served: int


@dataclass(frozen=True)
class PublishedVersion:
    """A version without its document."""

    number: int
    position: int
    time: datetime


@dataclass(frozen=True)
class Decision:
    """A promotion: the version that is served from a position on, and why."""

    position: int
    version: int
    cause: str


@dataclass(frozen=True)
class Report:
    """Figures of a stream up to a position."""

    position: int
    time: datetime
    document: dict[str, Any]


def moment(microseconds: int) -> datetime:
    """A time of the log.

    Examples
    --------
    >>> moment(1_500_000).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    return EPOCH + timedelta(microseconds=microseconds)


# ------------------------------------------------------------------------------------------------------------- reading

SELECT = (
    "select stream.stream, name, head.position, head.time, learner.position, coalesce((select version from promotion "
    "where promotion.stream = stream.stream order by position desc, place desc limit 1), 0) "
    "from stream join head using (stream) join learner using (stream) "
)


def list_streams(connection: psycopg.Connection, names: Sequence[str] | None = None) -> list[Stream]:
    """Streams in the order of their names; ``names`` restricts them."""
    text = SELECT + "where %s::text[] is null or name = any(%s) order by name"
    chosen = None if names is None else list(names)
    return [_stream(row) for row in connection.execute(text, [chosen, chosen]).fetchall()]


def find_stream(connection: psycopg.Connection, name: str) -> Stream:
    """The stream with a name; :class:`NotFoundError` if there is none."""
    row = connection.execute(SELECT + "where name = %s", [name]).fetchone()
    if row is None:
        raise NotFoundError("stream", "does not exist", "create it first")
    return _stream(row)


def _stream(row: Sequence[Any]) -> Stream:
    number, name, position, time, learned, served = row
    return Stream(number, name, position, moment(time), learned, served)


def settings_of(connection: psycopg.Connection, stream: int) -> Settings:
    """The newest settings of a stream, which may not be applied yet."""
    text = "select document from settings where stream = %s order by position desc limit 1"
    row = connection.execute(text, [stream]).fetchone()
    if row is None:
        raise NotFoundError("stream", "has no settings")
    return Settings.of(json.loads(row[0]))


def report_of(connection: psycopg.Connection, stream: int) -> Report | None:
    """The newest report of a stream; None before the learner has written one."""
    text = "select position, time, document from report where stream = %s"
    row = connection.execute(text, [stream]).fetchone()
    return None if row is None else Report(row[0], moment(row[1]), json.loads(row[2]))


def days_of(connection: psycopg.Connection, stream: int, most: int = 90) -> list[tuple[date, dict[str, Any]]]:
    """Figures of the last days, the oldest first."""
    text = "select day, document from daily where stream = %s order by day desc limit %s"
    return [
        (day, json.loads(document)) for day, document in reversed(connection.execute(text, [stream, most]).fetchall())
    ]


def versions_of(
    connection: psycopg.Connection, stream: int, before: int | None = None, limit: int = 100
) -> list[PublishedVersion]:
    """Versions before a number, the newest first."""
    rows = connection.execute(
        "select number, position, time from version where stream = %s and number < coalesce(%s, number + 1) "
        "order by number desc limit %s",
        [stream, before, limit],
    ).fetchall()
    return [PublishedVersion(number, position, moment(time)) for number, position, time in rows]


def version_of(connection: psycopg.Connection, stream: int, number: int) -> tuple[PublishedVersion, str]:
    """A version and its document, a calibration as JSON."""
    text = "select number, position, time, document from version where stream = %s and number = %s"
    row = connection.execute(text, [stream, number]).fetchone()
    if row is None:
        raise NotFoundError("version", "does not exist", "see the list of versions; 0 is the raw score")
    return PublishedVersion(row[0], row[1], moment(row[2])), row[3]


def decisions_of(connection: psycopg.Connection, stream: int, limit: int = 100) -> list[Decision]:
    """Promotions, the newest first."""
    text = (
        "select position, version, cause from promotion where stream = %s order by position desc, place desc limit %s"
    )
    with connection.cursor(row_factory=class_row(Decision)) as cursor:
        return cursor.execute(text, [stream, limit]).fetchall()


# ----------------------------------------------------------------------------------------------------------- decisions


def create_stream(connection: psycopg.Connection, caller: bytes | None, name: str, settings: Settings) -> int:
    """Make a stream.

    Parameters
    ----------
    connection
        A connection in autocommit mode.
    caller
        Digest of a token with the scope admin for all streams; ``None`` for the owner of the schema.
    name
        Lower-case letters, digits, hyphens and underscores; at most 63.
    settings
        Its settings.

    Returns
    -------
    int
        Its number.
    """
    _ = settings.zone  # must be known
    with refusals("name"):
        try:
            row = connection.execute("select open_stream(%s, %s, %s)", [caller, name, first_entry(settings)]).fetchone()
        except psycopg.errors.CheckViolation:
            raise InputError("name", NAMED, "such as clicks-2") from None
    assert row is not None  # a function returns a row
    return int(row[0])


def act(connection: psycopg.Connection, caller: bytes | None, stream: str, action: str, **more: Any) -> int:
    """Log what a person decided; it takes effect when the learner has applied the entry.

    Parameters
    ----------
    connection
        A connection in autocommit mode.
    caller
        Digest of a token or of a login that allows admin for the stream; ``None`` for the owner of the schema.
    stream
        Name of the stream.
    action
        Name of the action.
    more
        What else the entry says, such as ``version=3``.

    Returns
    -------
    int
        Position of the entry.
    """
    document = json.dumps({"action": action, **more}, sort_keys=True, allow_nan=False)
    with refusals():
        row = connection.execute("select act(%s, %s, %s)", [caller, stream, document]).fetchone()
    assert row is not None  # a function returns a row
    return int(row[0])


def change_settings(connection: psycopg.Connection, caller: bytes | None, stream: str, settings: Settings) -> int:
    """Log new settings."""
    settings_of(connection, find_stream(connection, stream).number).check_change(settings)
    _ = settings.zone  # must be known
    return act(connection, caller, stream, "settings", settings=settings.document())


def publish(connection: psycopg.Connection, caller: bytes | None, stream: str, document: str) -> int:
    """Log a calibration of a person's own, which becomes the next version and waits for its promotion."""
    try:
        own = Calibration.from_json(document)
        shape = np.shape(own.transform(np.array([0.25, 0.75])))
    except (DocumentError, InputError):
        shape = ()
    if shape != (2,):
        raise InputError("document", "is not a calibration of one score", "write it with Calibration.to_json")
    return act(connection, caller, stream, "publish", document=own.to_json())


def promote(connection: psycopg.Connection, caller: bytes | None, stream: str, version: int) -> int:
    """Log that a version shall be served; 0 is the raw score."""
    _check_version(connection, stream, version)
    return act(connection, caller, stream, "promote", version=version)


def roll_back(connection: psycopg.Connection, caller: bytes | None, stream: str) -> int:
    """Log that the version before the one that is served shall be served again."""
    if not decisions_of(connection, find_stream(connection, stream).number, 1):
        raise InputError("stream", "serves the raw score, and has served nothing else", "wait for its first version")
    return act(connection, caller, stream, "roll-back")


def pin(connection: psycopg.Connection, caller: bytes | None, stream: str, version: int | None) -> int:
    """Log that a version shall be served, whatever is published; ``None`` ends it."""
    if version is not None:
        _check_version(connection, stream, version)
    return act(connection, caller, stream, "pin", version=version)


def canary(
    connection: psycopg.Connection, caller: bytes | None, stream: str, version: int | None, share: float = 0.0
) -> int:
    """Log that a version shall be tried beside the one that is served.

    Parameters
    ----------
    connection
        A connection in autocommit mode.
    caller
        As for :func:`act`.
    stream
        Name of the stream.
    version
        The version; ``None`` ends the trial.
    share
        Share of ids that it answers, at most :data:`MOST_SHARE`; 0 is a shadow, which is only compared.

    Returns
    -------
    int
        Position of the entry.
    """
    if not 0.0 <= share <= MOST_SHARE:
        raise InputError("share", f"must be from 0 to {MOST_SHARE}", "promote the version to serve it to all")
    if version is None:
        return act(connection, caller, stream, "canary", version=None)
    if version == find_stream(connection, stream).served:
        raise InputError("version", "is served already", "try another one")
    _check_version(connection, stream, version)
    return act(connection, caller, stream, "canary", version=version, share=float(share))


def resume(connection: psycopg.Connection, caller: bytes | None, stream: str) -> int:
    """Log that versions may be promoted automatically again."""
    return act(connection, caller, stream, "resume")


def gap(
    connection: psycopg.Connection, caller: bytes | None, stream: str, was: str,
    since: datetime | None = None, until: datetime | None = None,
) -> int:  # fmt: skip
    """Log what a gap of the outcomes was.

    Parameters
    ----------
    connection
        A connection in autocommit mode.
    caller
        As for :func:`act`.
    stream
        Name of the stream.
    was
        ``"silent"``: what came is all there is; ``"lost"``: outcomes were lost, and predictions of the gap are dropped.
    since, until
        The gap; by default from the last life of the feed until now.

    Returns
    -------
    int
        Position of the entry.
    """
    if was not in ("silent", "lost"):
        raise InputError("was", f"is {was!r}", "pass silent or lost")
    if since is not None and until is not None and since > until:
        raise InputError("until", "is before the begin of the gap", "send the times in their order")
    times = {"from": since, "until": until}
    sent = {name: None if at is None else (at - EPOCH) // timedelta(microseconds=1) for name, at in times.items()}
    return act(connection, caller, stream, "gap", was=was, **sent)


def erase(connection: psycopg.Connection, caller: bytes | None, stream: str, id: UUID) -> int:
    """Remove an id and its key from a stream; the position is that of the entry that says so."""
    with refusals():
        row = connection.execute("select erase_by(%s, %s, %s)", [caller, stream, id]).fetchone()
    assert row is not None  # a function returns a row
    return int(row[0])


def _check_version(connection: psycopg.Connection, stream: str, version: int) -> None:
    number = find_stream(connection, stream).number
    if version != 0:
        version_of(connection, number, version)
