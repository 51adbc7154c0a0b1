"""Bodies of requests: read by hand, since a request is one row most of the time; and their form for OpenAPI."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from fastapi import Request
from starlette.types import Message

from calibrant.service.api.errors import Refusal
from calibrant.service.config import Config
from calibrant.service.settings import Settings
from calibrant.service.store.log import SECOND, id_bytes

LONGEST_TEXT = 200
"""Characters of an id or a key."""

DRAINED = 4
"""A body that is too large is read up to this many times the limit and forgotten, so that the refusal can be read."""

BODY_SECONDS = 10.0
"""Longest time for which the body of a request is waited for."""

SMALL, FEW = 32_768, 500  # bytes of a body, and rows, that are read in the event loop
VALUES = 16  # commas that a row may have, with those in its texts, in the mean of a full batch
JSON, ARROW, FORM = "application/json", "application/vnd.apache.arrow.stream", "application/x-www-form-urlencoded"
T = TypeVar("T")

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

    A client that is cut off while it sends sees a connection that was reset, and not the refusal. So a body that is too
    large is read before it is refused, up to 4 times the limit, and forgotten.

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
    size, more = 0, True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more and size <= DRAINED * largest:
                event = await request.receive()
                if event["type"] == "http.disconnect":
                    raise Refusal(400, "gone", "body", "is not complete")
                part, more = event.get("body", b""), event.get("more_body", False)
                size += len(part)
                if size <= largest:
                    parts.append(part)
    except TimeoutError:
        problem = f"did not come within {BODY_SECONDS:.0f} seconds"
        raise Refusal(408, "too-slow", "body", problem, headers={"Connection": "close"}) from None
    if size > largest:
        problem = f"has more than {largest:,} bytes"
        raise Refusal(413, "too-large", "body", problem, "send less at once", {"Connection": "close"})
    return parts[0] if len(parts) == 1 else b"".join(parts)


def media_type(request: Request, *wanted: str) -> str:
    """The media type of a body, without its parameters: one of those that the route takes, or it is refused.

    A body that is sent without a type has the first one.
    """
    given, coding = "", b"identity"
    for name, value in request.scope["headers"]:
        if name == b"content-type":
            given = value.decode("latin-1").partition(";")[0].strip().lower()
        elif name == b"content-encoding":
            coding = value.lower()
    if coding != b"identity" or (given or wanted[0]) not in wanted:
        raise Refusal(415, "wrong-type", "body", "is of another type", f"send {' or '.join(wanted)}, not compressed")
    return given or wanted[0]


async def read_json(request: Request, config: Config) -> dict[str, Any]:
    """The object that the body of a request holds."""
    media_type(request, JSON)
    body = await read_body(request, config.body_bytes)
    return await apart(len(body) > SMALL, lambda: parse(body, config.batch_rows))


async def apart(large: bool, read: Callable[[], T]) -> T:
    """Read what was sent; if it is large in another thread, so that others are answered meanwhile."""
    return await asyncio.to_thread(read) if large else read()


async def checked(request: Request, config: Config) -> Request:
    """A request for FastAPI, which reads JSON by rules of its own, when its body has passed ours."""
    event = {"type": "http.request", "body": json.dumps(await read_json(request, config)).encode()}

    async def receive() -> Message:
        return event

    return Request({**request.scope, "headers": [(b"content-type", JSON.encode()), *request.scope["headers"]]}, receive)


def parse(body: bytes, most: int) -> dict[str, Any]:
    """The object that a body holds; one with far more values than ``most`` rows can have is refused unread."""
    if body.count(b",") > VALUES * most:
        raise Refusal(413, "too-many-rows", "body", f"has more than {VALUES * most:,} commas", "send batches")
    if not body:
        raise invalid("body", "is missing", "send an object")
    try:
        found = DECODER.decode(body.removeprefix(b"\xef\xbb\xbf").decode())
    except (ValueError, RecursionError):
        raise invalid("body", "is not JSON", "send an object in UTF-8") from None
    if found.__class__ is not dict:
        raise invalid("body", "must be an object")
    assert isinstance(found, dict)  # for the types
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names differ."""
    found = dict(pairs)
    if len(found) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise invalid(_shown(name), "is there twice in one object", "send it once")
    return found


DECODER = json.JSONDecoder(object_pairs_hook=_unique)


ROWS = {
    "rows": 'such as {"rows": [{"id": "a", "score": 0.3}]}',
    "outcomes": 'such as {"outcomes": [{"id": "a", "outcome": 1}]}',
}
"""What the body of several rows looks like, by its one field."""


def rows_in(document: dict[str, Any], name: str, most: int) -> list[Any]:
    """The only field of a body: a list of 1 to ``most`` rows."""
    rows = document.get(name)
    if len(document) != 1 or rows.__class__ is not list:
        check_fields(document, (name,), (name,), "", ROWS[name])
        raise invalid(name, "must be a list", ROWS[name])
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
    if len(row) > 2 or "id" not in row or "score" not in row:
        check_fields(row, ("id", "score"), ("id", "score", "key", "at"), where)
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
    if len(row) > 2 or "id" not in row or "outcome" not in row:
        check_fields(row, ("id", "outcome"), ("id", "outcome", "at", "receipt"), where)
    label = row.get("outcome")
    if label.__class__ is not int or label not in (0, 1):
        raise invalid(f"{where}outcome", "must be 0 or 1", "leave out what is not known yet")
    id = _id(row.get("id"), where)
    at = receipt = None
    if len(row) > 2:
        at, receipt = row.get("at"), row.get("receipt")
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


def check_fields(row: dict[str, Any], needed: Sequence[str], names: Sequence[str], where: str, fix: str = "") -> None:
    """Refuse an object that lacks a field, or has one that is not known."""
    fix = fix or f"the fields are {', '.join(names)}"
    unknown = [_shown(name) for name in row if name not in names]
    for name in needed:
        if name not in row:
            raise invalid(f"{where}{name}", "is missing", f"{unknown[0]} is not known; {fix}" if unknown else fix)
    if unknown:
        raise invalid(f"{where}{unknown[0]}", "is not known", fix)


def _shown(name: str) -> str:
    """A name that a client sent, for a message: short, without control characters."""
    return name[:50] if name.isprintable() and name else repr(name[:50])


def read_moment(text: Any, where: str, name: str = "at") -> int:
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
        raise invalid(f"{where}{name}", "must be a time with an offset", "such as 2026-05-01T12:00:00Z") from None


def check_skew(at: int, now: int, settings: Settings, where: str) -> None:
    """Refuse the time of a prediction that is too far from now."""
    if abs(at - now) > settings.skew * SECOND:
        problem = f"differs by more than {settings.skew:g} seconds from the time of the database"
        raise Skewed(422, "skew", f"{where}at", problem, "leave it out, or set the clock")


def check_age(at: int, now: int, settings: Settings, where: str) -> None:
    """Refuse the time of an outcome that is in the future, or so old that no prediction waits for it.

    Where silence is negative, predictions wait for a feed that is late, as long as the log is kept.
    """
    oldest = settings.horizon + (settings.horizon if settings.remember is None else settings.remember) + settings.skew
    if settings.silence == "negative":
        oldest = max(oldest, 86_400.0 * settings.retention_days)
    if not -oldest * SECOND <= at - now <= settings.skew * SECOND:
        problem = f"is not between {oldest:g} seconds ago and {settings.skew:g} seconds from now"
        raise Skewed(422, "skew", f"{where}at", problem, "leave it out, or set the clock")


# ------------------------------------------------------------------------------------------------------------- OpenAPI

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
