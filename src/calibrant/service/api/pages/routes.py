"""Routes of the pages; forms go through the same log as the requests of programs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from calibrant.service.api.access import csrf_of, form_of, page
from calibrant.service.api.errors import Refusal
from calibrant.service.api.pages.rendering import STYLE, docs_page, login_page, stream_page, streams_page
from calibrant.service.store.access import Caller
from calibrant.service.store.overview import History, Overview, read_history, read_overviews
from calibrant.service.store.streams import gap, pin, promote, resume, roll_back

router = APIRouter(include_in_schema=False)

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""No scripts, no frames, nothing from elsewhere, and no copy in a shared cache."""

Refresh = Annotated[int, Query(ge=0, le=3_600)]
Before = Annotated[int | None, Query(ge=1, le=2**31 - 1)]
Reader = Annotated[Caller, Depends(page("read"))]
Admin = Annotated[Caller, Depends(page("admin"))]


@router.get("/")
def show_streams(request: Request, caller: Reader, refresh: Refresh = 0) -> HTMLResponse:
    """All streams that the token may read."""
    names = None if caller.streams is None else sorted(caller.streams)
    with request.app.state.access.pool.connection() as connection:
        views = read_overviews(connection, names)
    return _html(streams_page(views, **_common(request, caller, refresh, views)))


@router.get("/streams/{stream}")
def show_stream(
    request: Request, stream: str, caller: Reader, refresh: Refresh = 0, before: Before = None
) -> HTMLResponse:
    """One stream, with the newest versions or with those before a number."""
    view, history = _read(request, stream, before)
    common = _common(request, caller, refresh, [view]) | {"before": before}
    return _html(stream_page(view, history, caller.allows("admin", stream), **common))


@router.post("/streams/{stream}/{action}")
async def decide(request: Request, stream: str, action: str, caller: Admin) -> RedirectResponse:
    """Roll back, promote, pin, resume or say what a gap was: an action of the caller. A pin without a version ends."""
    form = await form_of(request)
    number = form.get("version", "")
    if action not in ("promote", "pin", "roll-back", "resume", "gap"):
        raise Refusal(404, "not-found", "action", "does not exist")
    ends_pin = action == "pin" and not number
    is_number = number.isascii() and number.isdecimal() and len(number) < 10
    if action in ("promote", "pin") and not (ends_pin or is_number):
        raise Refusal(422, "wrong-value", "version", "must be a number")
    times = [_time(form, name) for name in ("from", "until")] if action == "gap" else []

    def write() -> None:
        with request.app.state.access.pool.connection() as connection:
            if action == "promote":
                promote(connection, caller.digest, stream, int(number))
            elif action == "pin":
                pin(connection, caller.digest, stream, None if ends_pin else int(number))
            elif action == "gap":
                gap(connection, caller.digest, stream, form.get("was", ""), *times)
            else:
                {"roll-back": roll_back, "resume": resume}[action](connection, caller.digest, stream)

    await run_in_threadpool(write)
    return RedirectResponse(f"/streams/{stream}?refresh=2#versions", 303)


def _time(form: Mapping[str, str], name: str) -> datetime | None:
    """A time of a form in UTC, as browsers send it; None if it is left out."""
    text = form.get(name, "")
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None
    except ValueError:
        raise Refusal(422, "wrong-value", name, "must be a time", "such as 2026-05-01T12:00") from None


@router.get("/login")
def show_login(failed: int = 0) -> HTMLResponse:
    """The form for a token."""
    return _html(login_page(bool(failed)))


@router.get("/docs")
def show_docs(request: Request) -> HTMLResponse:
    """The HTTP interface; no token is needed, since it is that of every installation."""
    return _html(docs_page(request.app.openapi()))


@router.get("/style.css")
def show_style() -> Response:
    """The style sheet of all pages."""
    return Response(STYLE, media_type="text/css", headers={"Cache-Control": "max-age=3600"})


def _read(request: Request, stream: str, before: int | None) -> tuple[Overview, History]:
    with request.app.state.access.pool.connection() as connection:
        views = read_overviews(connection, [stream])
        if not views:
            raise Refusal(404, "not-found", "stream", "does not exist")
        return views[0], read_history(connection, views[0].number, before)


def _common(request: Request, caller: Caller, refresh: int, views: list[Overview]) -> dict[str, Any]:
    now = views[0].now if views else datetime.now(UTC)
    return {"csrf": csrf_of(request), "caller": caller.name, "refresh": refresh, "now": now}


def _html(text: str) -> HTMLResponse:
    return HTMLResponse(text, headers=HEADERS)
