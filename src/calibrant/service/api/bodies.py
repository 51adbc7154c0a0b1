"""Bodies of requests: read by hand, since a request is one row most of the time; and their form for OpenAPI."""

from __future__ import annotations

import asyncio
import json
import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from fastapi import Request

from calibrant.service.api.errors import Refusal
from calibrant.service.settings import Settings
from calibrant.service.store.log import SECOND, id_bytes

LONGEST_TEXT = 200
"""Characters of an id or a key."""

BODY_SECONDS = 10.0
"""Longest time for which the body of a request is waited for."""

MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
"""A time as RFC 3339 has it, with an offset."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Row(NamedTuple):
    """A prediction that is asked for: its id as text and as it is kept, score, key, and time in microseconds."""

    text: str
    id: bytes
    score: float
    key: str | None
    at: int | None


class Given(NamedTuple):
    """An outcome that was sent: its id as it is kept, label, time in microseconds, receipt."""

    id: bytes
    label: int
    at: int | None
    receipt: str | None


class Skewed(Refusal):
    """A time that differs too much from that of the database."""


async def read_body(request: Request, largest: int) -> bytes:
    """The body of a request; one that is too large or too slow is refused.

    Parameters
    ----------
    request
        The request.
    largest
        Bytes that it may have.

    Returns
    -------
    bytes
        All of it.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                event = await request.receive()
                if event["type"] == "http.disconnect":
                    raise Refusal(400, "gone", "body", "is not complete")
                part = event.get("body", b"")
                size += len(part)
                if size > largest:
                    problem = f"has more than {largest:,} bytes"
                    raise Refusal(413, "too-large", "body", problem, "send less at once", {"Connection": "close"})
                if not event.get("more_body", False):
                    return part if not parts else b"".join([*parts, part])
                parts.append(part)
    except TimeoutError:
        problem = f"did not come within {BODY_SECONDS:.0f} seconds"
        raise Refusal(408, "too-slow", "body", problem, headers={"Connection": "close"}) from None


def parse(body: bytes) -> dict[str, Any]:
    """The object that a body holds."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise invalid("body", "is not JSON", "send an object in UTF-8") from None
    if found.__class__ is not dict:
        raise invalid("body", "must be an object")
    assert isinstance(found, dict)  # for the types
    return found


ROWS = {
    "rows": 'such as {"rows": [{"id": "a", "score": 0.3}]}',
    "outcomes": 'such as {"outcomes": [{"id": "a", "outcome": 1}]}',
}
"""What the body of several rows looks like, by its one field."""


def rows_in(document: dict[str, Any], name: str, most: int) -> list[Any]:
    """The only field of a body: a list of 1 to ``most`` rows."""
    rows = document.get(name)
    if len(document) != 1 or rows.__class__ is not list:
        raise invalid("body", f"must have the one field {name}, a list", ROWS[name])
    assert isinstance(rows, list)  # for the types
    if not rows:
        raise invalid(name, "is empty")
    if len(rows) > most:
        raise Refusal(413, "too-many-rows", name, f"has {len(rows):,} rows, and {most:,} are the most", "send batches")
    return rows


def read_row(row: Any, settings: Settings, now: int, where: str = "") -> Row:
    """A prediction that is asked for.

    Parameters
    ----------
    row
        What JSON gave.
    settings
        Settings of the stream.
    now
        Time in microseconds.
    where
        Place in a batch, for messages.

    Returns
    -------
    Row
        Checked; what is wrong is raised as a :class:`Refusal`.
    """
    if row.__class__ is not dict:
        raise invalid(where.rstrip(".") or "body", "must be an object")
    score = row.get("score")
    if score.__class__ is not float:
        score = _number(score, where)
    if not 0.0 <= score <= 1.0:
        raise invalid(f"{where}score", "must be a number from 0 to 1", "send the probability of the model")
    text: Any = row.get("id")
    id = _id(text, where)
    key = at = None
    if len(row) > 2:
        key, at = row.get("key"), row.get("at")
        _known(row, ("id", "score", "key", "at"), where)
        if key is not None:
            check_key(key, where)
        if at is not None:
            at = read_moment(at, where)
            check_skew(at, now, settings, where)
    return Row(text, id, score, key, at)


def read_outcome(row: Any, settings: Settings, now: int, where: str) -> Given:
    """An outcome that was sent; parameters and result as for :func:`read_row`."""
    if row.__class__ is not dict:
        raise invalid(where.rstrip("."), "must be an object")
    label = row.get("outcome")
    if label.__class__ is not int or label not in (0, 1):
        raise invalid(f"{where}outcome", "must be 0 or 1", "leave out what is not known yet")
    id = _id(row.get("id"), where)
    at = receipt = None
    if len(row) > 2:
        at, receipt = row.get("at"), row.get("receipt")
        _known(row, ("id", "outcome", "at", "receipt"), where)
        if at is not None:
            at = read_moment(at, where)
            check_age(at, now, settings, where)
        if receipt is not None and receipt.__class__ is not str:
            raise invalid(f"{where}receipt", "must be text")
    return Given(id, label, at, receipt)


def invalid(argument: str, problem: str, fix: str | None = None) -> Refusal:
    """A body that is wrong."""
    return Refusal(422, "invalid", argument, problem, fix)


def _number(score: Any, where: str) -> float:
    """A score that is written without a point."""
    if score.__class__ is not int:
        raise invalid(f"{where}score", "must be a number from 0 to 1", "send the probability of the model")
    return float(score) if 0 <= score <= 1 else math.nan


def _id(text: Any, where: str) -> bytes:
    if text.__class__ is not str or not 0 < len(text) <= LONGEST_TEXT:
        raise invalid(f"{where}id", f"must be text of 1 to {LONGEST_TEXT} characters")
    return id_bytes(text)


def check_key(key: Any, where: str) -> None:
    """Refuse a key that cannot be stored."""
    problem = f"must be text of 1 to {LONGEST_TEXT} characters"
    if key.__class__ is not str or not 0 < len(key) <= LONGEST_TEXT:
        raise invalid(f"{where}key", problem)
    try:
        key.encode()
    except UnicodeEncodeError:
        raise invalid(f"{where}key", "holds half of a character", "send UTF-8") from None
    if "\0" in key:
        raise invalid(f"{where}key", "holds the character 0", "leave it out")


def _known(row: dict[str, Any], names: tuple[str, ...], where: str) -> None:
    for name in row:
        if name not in names:
            raise invalid(where.rstrip(".") or "body", "has a field that is not known", f"send {', '.join(names)}")


def read_moment(text: Any, where: str) -> int:
    """A time in RFC 3339 with an offset, in microseconds.

    Examples
    --------
    >>> read_moment("1970-01-01T01:00:01+01:00", "")
    1000000
    """
    try:
        if text.__class__ is not str or not MOMENT.fullmatch(text):
            raise ValueError
        return (datetime.fromisoformat(text.upper()) - EPOCH) // MICROSECOND
    except (ValueError, OverflowError):
        raise invalid(f"{where}at", "must be a time with an offset", "such as 2026-05-01T12:00:00Z") from None


def check_skew(at: int, now: int, settings: Settings, where: str) -> None:
    """Refuse the time of a prediction that is too far from now."""
    if abs(at - now) > settings.skew * SECOND:
        problem = f"differs by more than {settings.skew:g} seconds from the time of the database"
        raise Skewed(422, "skew", f"{where}at", problem, "leave it out, or set the clock")


def check_age(at: int, now: int, settings: Settings, where: str) -> None:
    """Refuse the time of an outcome that is in the future, or so old that no prediction waits for it."""
    oldest = settings.horizon + (settings.horizon if settings.remember is None else settings.remember) + settings.skew
    if not -oldest * SECOND <= at - now <= settings.skew * SECOND:
        problem = f"is not between {oldest:g} seconds ago and {settings.skew:g} seconds from now"
        raise Skewed(422, "skew", f"{where}at", problem, "leave it out, or set the clock")


# ------------------------------------------------------------------------------------------------------------- OpenAPI

ARROW = "application/vnd.apache.arrow.stream"
"""Media type of Arrow IPC streams."""

TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}
TIME: dict[str, Any] = {"type": ["string", "null"], "format": "date-time"}
ROW: dict[str, Any] = {
    "type": "object",
    "required": ["id", "score"],
    "additionalProperties": False,
    "properties": {
        "id": TEXT | {"description": "Id of the prediction; its outcome is sent under the same one."},
        "score": {"type": "number", "minimum": 0, "maximum": 1, "description": "Probability of the model."},
        "key": {"type": ["string", "null"], "minLength": 1, "maxLength": LONGEST_TEXT},
        "at": TIME | {"description": "Time of the prediction, within the skew of the stream; by default now."},
    },
}
ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["id", "probability", "version", "age_seconds", "status"],
    "properties": {
        "id": {"type": "string"},
        "probability": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "version": {"type": "integer", "minimum": 0, "description": "0 is the score itself."},
        "age_seconds": {"type": ["number", "null"], "description": "Age of the version, if it is served now."},
        "status": {"enum": ["logged", "repeated", "returned", "unlogged", "conflict"]},
        "receipt": {"type": "string", "description": "To be sent back with the outcome."},
        "stale": {"type": "boolean", "description": "There, and true, if the version is older than the limit."},
    },
}
OUTCOME: dict[str, Any] = {
    "type": "object",
    "required": ["id", "outcome"],
    "additionalProperties": False,
    "properties": {
        "id": TEXT | {"description": "Id of the prediction."},
        "outcome": {"type": "integer", "enum": [0, 1]},
        "at": TIME | {"description": "When it was observed; by default now."},
        "receipt": {"type": ["string", "null"], "description": "As it came with the prediction."},
    },
}


def listed(name: str, row: dict[str, Any], most: int) -> dict[str, Any]:
    """An object with one field, a list of rows."""
    field = {"type": "array", "minItems": 1, "maxItems": most, "items": row}
    return {"type": "object", "required": [name], "additionalProperties": False, "properties": {name: field}}


def described(schema: dict[str, Any], *others: str) -> dict[str, Any]:
    """The body of a request, for ``openapi_extra``: JSON of a schema, or bytes of other media types."""
    content = {"application/json": {"schema": schema}} | {other: {"schema": BYTES} for other in others}
    return {"requestBody": {"required": True, "content": content}}


def answered(schema: dict[str, Any], text: str, *others: str) -> dict[int | str, dict[str, Any]]:
    """The answer of a route, for ``responses``."""
    content = {"application/json": {"schema": schema}} | {other: {"schema": BYTES} for other in others}
    return {200: {"description": text, "content": content}}


BYTES: dict[str, Any] = {"type": "string", "format": "binary"}
