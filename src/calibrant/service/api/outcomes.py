"""Outcomes over HTTP: acknowledged when they are durable."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from calibrant.messages import InputError
from calibrant.service.api import bodies
from calibrant.service.api.bodies import Given, Skewed
from calibrant.service.api.errors import Refusal, responses
from calibrant.service.api.predict import STREAM, away, busy, enter
from calibrant.service.api.serving.commits import BusyError, Outcome
from calibrant.service.api.serving.links import UnavailableError
from calibrant.service.api.serving.process import Process
from calibrant.service.api.serving.versions import Served
from calibrant.service.store.log import SECOND

LISTED = bodies.listed("outcomes", bodies.OUTCOME, 10_000)
BODY: dict[str, Any] = LISTED | {
    "properties": {
        "outcomes": LISTED["properties"]["outcomes"] | {"minItems": 0},
        "complete": {
            "type": "string",
            "format": "date-time",
            "description": "All outcomes of predictions whose horizon ends by this time have been sent.",
        },
    },
    "required": [],
    "anyOf": [
        {"required": ["outcomes"], "properties": {"outcomes": {"minItems": 1}}},
        {"required": ["complete"]},
    ],
}

router = APIRouter(tags=["predictions and outcomes"])

LOOKED_UP = 500
"""Ids of a request that are looked up, to say which are unknown: more would slow the commits of large batches."""

ACCEPTED: dict[str, Any] = {
    "type": "object",
    "required": ["accepted", "unknown", "position"],
    "properties": {
        "accepted": {"type": "integer", "minimum": 0},
        "unknown": {
            "type": "integer",
            "minimum": 0,
            "description": "How many of the first 500 have an id of which no prediction is logged, so far.",
        },
        "position": {"type": "integer", "minimum": 1, "description": "Position of the last one in the log."},
    },
}


@router.post(
    "/v1/streams/{stream}/outcomes",
    summary="Send outcomes",
    response_class=Response,
    responses=bodies.answered(ACCEPTED, "They are durable.") | responses(404, 408, 413),
    openapi_extra=STREAM | bodies.described(BODY),
)
async def outcomes(request: Request) -> Response:
    """Outcomes of predictions, in the order in which they are to count. Scope: label.

    All of them are logged, or none: if one is invalid, or its receipt is forged or has expired, the request is refused.
    They can be sent again; those that were logged before change nothing. Of a stream in the mode ``returned``, each
    outcome needs its receipt. The ids of the first 500 are looked up. One of which no prediction is logged counts as
    unknown in the answer; its outcome is learned only if the prediction comes within one horizon.

    Of a stream on which silence is negative, ``complete`` says up to when all outcomes were sent; there may be none.
    """
    process, served = await enter(request, "label")
    body = await bodies.read_json(request, process.config)
    word, now = body.pop("complete", None), process.now()
    nothing = word is not None and body in ({}, {"outcomes": []})
    given = [] if nothing else bodies.rows_in(body, "outcomes", process.config.batch_rows)
    try:
        rows = await bodies.apart(
            len(given) > bodies.FEW, lambda: [_row(process, served, row, now, place) for place, row in enumerate(given)]
        )
        rows += [] if word is None else [_complete(served, word, now)]
    except Refusal as problem:
        what = "skew" if isinstance(problem, Skewed) else problem.code
        process.count("refused", served.name, what, len(given))
        raise
    try:
        recorded = await process.outcomes.commit(served.stream, rows)
    except BusyError:
        process.count("refused", served.name, "busy", len(given))
        raise busy() from None
    except UnavailableError:
        process.count("refused", served.name, "database", len(given))
        raise away() from None
    process.count("outcomes", served.name, "logged", len(given))
    unknown, looked_up = sum(each < 0 for each in recorded[:LOOKED_UP]), sum(row[-1] for row in rows[:LOOKED_UP])
    process.count("ids", served.name, "known", looked_up - unknown)
    process.count("ids", served.name, "unknown", unknown)
    answer = f'{{"accepted":{len(given)},"unknown":{unknown},"position":{abs(recorded[-1])}}}'
    return Response(answer, media_type="application/json")


def _complete(served: Served, word: Any, now: int) -> Outcome:
    """The row that says that all outcomes were sent."""
    if served.settings.silence != "negative":
        raise bodies.invalid("complete", "says nothing where silence is unknown", "leave it out")
    until = bodies.read_moment(word, "", "complete")
    if until > now + served.settings.skew * SECOND:
        raise Skewed(422, "skew", "complete", "is in the future", "send a time that has passed")
    return None, None, until, None, None, None, None, None, False


def _row(process: Process, served: Served, row: Any, now: int, place: int) -> Outcome:
    where = f"outcomes[{place}]."
    found: Given = bodies.read_outcome(row, served.settings, now, where)
    if found.receipt is None:
        if served.settings.mode == "returned":
            raise Refusal(422, "receipt-missing", f"{where}receipt", "is missing", "send it as it came")
        return found.id, found.label, found.at, None, None, None, None, None, place < LOOKED_UP
    try:
        said = process.receipts.read(served.stream, served.name, found.receipt, now)
    except InputError as problem:
        fix = None if problem.fix is None else str(problem.fix)
        raise Refusal(422, "receipt", f"{where}receipt", str(problem.problem), fix) from None
    if said.id != found.id:
        raise Refusal(422, "receipt", f"{where}receipt", "is of another id", "send the one that came with this id")
    return found.id, found.label, found.at, said.score, said.key, said.at, said.version, said.probability, False
