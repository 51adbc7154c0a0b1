"""Errors of the HTTP interface: one shape for all of them, without internals."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from calibrant.messages import PYTHON, InputError
from calibrant.service.settings import SUCH
from calibrant.service.store import access, streams
from calibrant.service.store.access import ExistsError, NotAllowedError, NotFoundError
from calibrant.service.store.migrate import AWAY

RETRY_SECONDS = 5
"""When to try again after an outage of the database."""

NEEDED = {"settings": f"send settings with a horizon in seconds and what silence means, {SUCH}"}
"""What to send for a field that is missing."""

WORDS = {streams.NAME: streams.NAMED, f"^{access.NAME.pattern}$": access.NAMED, "extra_forbidden": "is not known"}
CODES = {404: "not-found", 405: "method-not-allowed", 415: "wrong-type"}


class Refusal(Exception):
    """A request that is not served.

    Parameters
    ----------
    status
        Status of HTTP.
    code
        For programs: a short name that does not change.
    argument, problem, fix
        As those of :class:`calibrant.messages.InputError`.
    headers
        Further headers, such as ``Retry-After``.

    Examples
    --------
    >>> str(Refusal(409, "conflict", "id", "is in use with another content"))
    'id is in use with another content'
    """

    def __init__(
        self,
        status: int,
        code: str,
        argument: str | None,
        problem: str,
        fix: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{argument} {problem}" if argument else problem)
        self.status, self.code, self.argument, self.problem, self.fix = status, code, argument, problem, fix
        self.headers = dict(headers or {})


class Problem(BaseModel):
    """What is wrong with a request."""

    code: str = Field(description="For programs: a short name that does not change.")
    argument: str | None = Field(description="What it is about, such as a field of the body.")
    problem: str = Field(description="What is wrong with it.")
    fix: str | None = Field(description="What to do about it.")


class ErrorBody(BaseModel):
    """The body of every answer with a status from 400."""

    error: Problem
    request_id: str = Field(description="As in the logs of the service.")


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for OpenAPI: those of every route with a token, and further ones."""
    return {status: {"model": ErrorBody} for status in (400, 401, 403, 408, 413, 415, 422, 429, 503, *statuses)}


def request_id(request: Request) -> str:
    """The id of a request, made when it is first asked for."""
    if not hasattr(request.state, "request_id"):
        request.state.request_id = uuid.uuid4().hex
    return str(request.state.request_id)


def answer(request: Request, refusal: Refusal) -> JSONResponse:
    """The response to a request that is not served."""
    names = ("code", "argument", "problem", "fix")
    said = {name: _sendable(getattr(refusal, name)) for name in names}
    body = {"error": said, "request_id": request_id(request)}
    return JSONResponse(body, refusal.status, refusal.headers)


def _sendable(text: str | None) -> str | None:
    """Text that may repeat what a client sent: a half of a surrogate pair cannot be written in UTF-8."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def refusal_of(problem: Exception) -> Refusal:
    """The refusal for an exception; what is not known is an internal error and says nothing."""
    match problem:
        case Refusal():
            return problem
        case NotAllowedError():
            return _refusal(403, "not-allowed", problem)
        case NotFoundError():
            return _refusal(404, "not-found", problem)
        case ExistsError():
            return _refusal(409, "exists", problem)
        case InputError():
            return _refusal(422, "invalid", problem)
        case RequestValidationError():
            return _of_fields(problem)
        case HTTPException(status_code=404, detail="Not Found"):  # of no route
            fix = "requests are sent to /v1/streams; probes to /health, /ready and /metrics"
            return Refusal(404, "not-found", "path", "does not exist", fix)
        case HTTPException():
            code = CODES.get(problem.status_code, "refused")
            return Refusal(problem.status_code, code, None, str(problem.detail), headers=problem.headers)
        case psycopg.OperationalError() | psycopg.errors.ReadOnlySqlTransaction():
            again = {"Retry-After": str(RETRY_SECONDS)}
            return Refusal(503, "database", None, "the database does not answer", "try again later", again)
    return Refusal(500, "internal", None, "something went wrong here", "report the request id")


def _of_fields(problem: RequestValidationError) -> Refusal:
    """Of the fields that are wrong, one that is missing comes first; one that is not known is named with it."""
    names = {each["type"]: ".".join(map(str, each["loc"][1:])) or "body" for each in reversed(problem.errors())}
    unknown = names.get("extra_forbidden")
    if missing := names.get("missing"):
        fix = f"{unknown} is not known" if unknown else NEEDED.get(missing)
        return Refusal(422, "invalid", missing, "is missing", fix)
    first = problem.errors()[0]
    said = WORDS.get(first.get("ctx", {}).get("pattern", first["type"]), str(first["msg"]))
    return Refusal(422, "invalid", names[first["type"]], said)


def _refusal(status: int, code: str, problem: InputError) -> Refusal:
    fix = None if problem.fix is None else str(PYTHON.say(problem.fix))
    return Refusal(status, code, problem.argument, str(PYTHON.say(problem.problem)), fix)


def install(app: FastAPI) -> None:
    """Answer every error of an application in this shape."""

    async def handle(request: Request, problem: Exception) -> JSONResponse:
        return answer(request, refusal_of(problem))

    for kind in (Refusal, InputError, RequestValidationError, HTTPException, *AWAY, Exception):
        app.add_exception_handler(kind, handle)
