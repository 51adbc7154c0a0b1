"""Predictions over HTTP: one row, or a batch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from calibrant.service.api import arrow, bodies
from calibrant.service.api.access import BEARER, Access
from calibrant.service.api.bodies import FEW, Row, Skewed, apart
from calibrant.service.api.errors import RETRY_SECONDS, Refusal, responses
from calibrant.service.api.serving.commits import Answered, BusyError
from calibrant.service.api.serving.links import UnavailableError
from calibrant.service.api.serving.process import Process
from calibrant.service.api.serving.receipts import named
from calibrant.service.api.serving.versions import Served
from calibrant.service.settings import Settings
from calibrant.service.store.log import SECOND

router = APIRouter(tags=["predictions and outcomes"])

FOUND = ("logged", "repeated", "conflict")
"""Status by what the log found."""

RETRY = {"Retry-After": str(RETRY_SECONDS)}

STALE = ',"stale":true'

text_of = json.encoder.encode_basestring_ascii
"""Text as JSON, the way ``json.dumps`` writes it."""


class Answer(NamedTuple):
    """The answer to a row."""

    probability: float
    version: int
    status: str
    receipt: str | None


class Asked(NamedTuple):
    """What a request for predictions needs: process, what the stream serves, time, and the ages of its versions."""

    process: Process
    served: Served
    now: int
    ages: dict[int, float | None]
    stale: bool


async def enter(request: Request, scope: str) -> tuple[Process, Served]:
    """The process and the stream of a request whose token allows a scope; limits are checked on the way."""
    process: Process = request.app.state.service
    access: Access = request.app.state.access
    name = request.path_params["stream"]
    caller = await access.caller(request, scope, name)
    if process.config.rate and (wait := process.rates.wait(caller.number, name)):
        again = {"Retry-After": str(math.ceil(wait))}
        raise Refusal(429, "rate", "token", f"sends more than {process.config.rate:g} requests a second", None, again)
    served = process.streams.get(name)
    if served is None:
        try:
            served = await process.find(name)
        except UnavailableError:
            raise away() from None
        if served is None:
            raise Refusal(404, "not-found", "stream", "does not exist", "create it, or correct the name")
    return process, served


async def ask(request: Request) -> Asked:
    """What a request for predictions needs; a version that is too old is refused if the settings say so."""
    process, served = await enter(request, "predict")
    now = process.now()
    ages = served.ages(now)
    age = ages[served.version]
    settings = served.settings
    stale = settings.stale_seconds is not None and (age is None or age > settings.stale_seconds)
    if stale and settings.stale == "refuse":
        process.count("refused", served.name, "stale")
        raise Refusal(503, "stale", "version", f"is older than {settings.stale_seconds:g} seconds", None, RETRY)
    if settings.mode == "returned" and not process.receipts.can_sign:
        raise Refusal(503, "no-receipt-keys", None, "this process cannot sign receipts", "set CALIBRANT_RECEIPT_KEYS")
    return Asked(process, served, now, ages, stale)


def away() -> Refusal:
    """The database is away, and the request needs it."""
    return Refusal(503, "database", None, "the database does not answer", "try again later", RETRY)


def busy() -> Refusal:
    """Too many rows wait for their commit."""
    return Refusal(503, "busy", None, "too many rows wait for their commit", "try again later", {"Retry-After": "1"})


async def predicted(asked: Asked, rows: Sequence[Row]) -> list[Answer]:
    """Answers to rows, in their order, when they are durable if the stream is logged."""
    process, served = asked.process, asked.served
    _, ids, scores, keys, at = zip(*rows, strict=True)
    found, versions = served.answers(ids, scores, keys)
    if served.settings.mode == "returned":
        process.count("predictions", served.name, "returned", len(rows))
        return await apart(len(rows) > FEW, lambda: _signed(asked, rows, found, versions, "returned"))
    logged = list(zip(ids, scores, keys, at, versions, found, strict=True))
    try:
        answers: Sequence[Answered] = await process.predictions.commit(served.stream, logged)
    except BusyError:
        process.count("refused", served.name, "busy")
        raise busy() from None
    except UnavailableError:
        if served.settings.outage == "closed":
            process.count("refused", served.name, "database")
            raise away() from None
        process.count("predictions", served.name, "unlogged", len(rows))
        if served.settings.silence == "unknown" and process.receipts.can_sign:
            return _signed(asked, rows, found, versions, "unlogged")
        return [Answer(*each, "unlogged", None) for each in zip(found, versions, strict=True)]
    result = [Answer(probability, by, FOUND[what], None) for what, probability, by in answers]
    for status in {each.status for each in result}:
        process.count("predictions", served.name, status, sum(each.status == status for each in result))
    return result


def _signed(
    asked: Asked, rows: Sequence[Row], found: Sequence[float], versions: Sequence[int], status: str
) -> list[Answer]:
    """Answers with receipts."""
    served, sign = asked.served, asked.process.receipts.signed
    stream, name = served.stream, named(served.name)
    kept = round(served.settings.horizon * SECOND)
    _, ids, scores, keys, given = zip(*rows, strict=True)
    at = [asked.now if each is None else each for each in given]
    if len(rows) > 1 and all(key is None for key in keys):
        receipts = asked.process.receipts.signed_many(stream, name, ids, scores, at, versions, found, kept)
    else:
        receipts = [
            sign(stream, name, id, score, key, t, version, p, t + kept)
            for id, score, key, t, version, p in zip(ids, scores, keys, at, versions, found, strict=True)
        ]
    n = len(rows)
    return list(map(Answer._make, zip(found, versions, repeat(status, n), receipts, strict=True)))


def _returned(asked: Asked, columns: arrow.Columns) -> bytes:
    """The answer to a batch without keys whose rows are not stored: the same as row by row, and made faster."""
    served, raw, n = asked.served, columns.ids(), len(columns)
    ids = [raw[start : start + 16] for start in range(0, 16 * n, 16)] if served.canary else ()
    found, versions = served.answers(ids, columns.scores.tolist(), [None] * n)
    at = asked.now if columns.at is None else [asked.now if each is None else each for each in columns.at]
    receipts = asked.process.receipts.signed_text(
        served.stream, named(served.name), raw, columns.scores, at, versions, found,
        round(served.settings.horizon * SECOND),
    )  # fmt: skip
    return arrow.write_returned(columns, found, versions, asked.ages, receipts, asked.stale)


def written(asked: Asked, text: str, answer: Answer) -> str:
    """The JSON of an answer."""
    probability, version, status, receipt = answer
    known = asked.ages.get(version)
    age = "null" if known is None else f"{known:.3f}"
    shown = "null" if status == "conflict" else repr(probability)
    ends = (f',"receipt":"{receipt}"' if receipt else "") + (STALE if asked.stale else "")
    head = f'{{"id":{text_of(text)},"probability":{shown},"version":{version},"age_seconds":{age}'
    return f'{head},"status":"{status}"{ends}}}'


STREAM: dict[str, Any] = {
    "parameters": [
        {"name": "stream", "in": "path", "required": True, "schema": {"type": "string"}, "description": "Its name."}
    ],
    "security": [{BEARER.scheme_name: []}],
}
"""What OpenAPI says of every route of a stream."""


@router.post(
    "/v1/streams/{stream}/predict",
    summary="Predict one row",
    response_class=Response,
    responses=bodies.answered(bodies.ANSWER, "The answer; of a logged stream when it is durable.")
    | responses(404, 408, 409, 413),
    openapi_extra=STREAM | bodies.described(bodies.ROW),
)
async def predict(request: Request) -> Response:
    """The probability of one score. Scope: predict.

    The same id with the same content gives the answer that was logged first; with another content it is a conflict.
    """
    asked = await ask(request)
    body = await bodies.read_json(request, asked.process.config)
    with _counted(asked):
        row = bodies.read_row(body, asked.served.settings, asked.now)
    (answer,) = await predicted(asked, (row,))
    if answer.status == "conflict":
        raise Refusal(409, "conflict", "id", "is in use with another content", "use a new id, or send the same content")
    return Response(written(asked, row.text, answer), media_type="application/json")


@router.post(
    "/v1/streams/{stream}/predictions",
    summary="Predict a batch",
    response_class=Response,
    responses=bodies.answered(bodies.listed("rows", bodies.ANSWER, 10_000), "An answer to each row.", bodies.ARROW)
    | responses(404, 408, 413),
    openapi_extra=STREAM | bodies.described(bodies.listed("rows", bodies.ROW, 10_000), bodies.ARROW),
)
async def predictions(request: Request) -> Response:
    """The probabilities of many scores, as JSON or as an Arrow IPC stream. Scope: predict.

    If a row is invalid, nothing is predicted or logged. A row whose id is in use with another content has the status
    ``conflict`` and no probability; the others are answered. An Arrow stream has the columns ``id``, ``score``, and
    perhaps ``key`` and ``at``; it is answered by an Arrow stream.
    """
    asked = await ask(request)
    most = asked.process.config.batch_rows
    settings, now = asked.served.settings, asked.now
    kind = bodies.media_type(request, bodies.JSON, bodies.ARROW)
    body = await bodies.read_body(request, asked.process.config.body_bytes)
    large = len(body) > bodies.SMALL
    if kind == bodies.ARROW:
        with _counted(asked):
            columns = await apart(large, lambda: arrow.read_columns(body, settings, now, most))
        if settings.mode == "returned" and columns.keys is None:
            asked.process.count("predictions", asked.served.name, "returned", len(columns))
            return Response(await apart(large, lambda: _returned(asked, columns)), media_type=bodies.ARROW)
        rows = await apart(large, columns.rows)
        answers = await predicted(asked, rows)
        written_ = await apart(large, lambda: arrow.write_rows(rows, answers, asked.ages, asked.stale))
        return Response(written_, media_type=bodies.ARROW)
    with _counted(asked):
        rows = await apart(large, lambda: _rows(bodies.parse(body, most), settings, now, most))
    answers = await predicted(asked, rows)
    pairs = zip(rows, answers, strict=True)
    shown = await apart(large, lambda: ",".join([written(asked, row.text, answer) for row, answer in pairs]))
    return Response(f'{{"rows":[{shown}]}}', media_type="application/json")


def _rows(document: dict[str, Any], settings: Settings, now: int, most: int) -> list[Row]:
    given = bodies.rows_in(document, "rows", most)
    try:
        return [bodies.read_row(row, settings, now) for row in given]
    except Refusal:  # again, to say where
        return [bodies.read_row(row, settings, now, f"rows[{place}].") for place, row in enumerate(given)]


@contextmanager
def _counted(asked: Asked) -> Iterator[None]:
    """Times that are refused are counted."""
    try:
        yield
    except Skewed:
        asked.process.count("refused", asked.served.name, "skew")
        raise
