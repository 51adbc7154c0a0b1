"""Who asks: the token of a request or the cookie of a page, looked up and kept for some seconds."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import parse_qs

import psycopg
from fastapi import APIRouter, Request, Security
from fastapi.responses import RedirectResponse, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from psycopg_pool import ConnectionPool
from starlette.concurrency import run_in_threadpool

from calibrant.service.api.bodies import FORM, checked, media_type, read_body
from calibrant.service.api.errors import RETRY_SECONDS, Refusal
from calibrant.service.store.access import (
    SECRET,
    SESSION_SECONDS,
    Caller,
    NotAllowedError,
    close_session,
    digest_of,
    find_caller,
    open_session,
)

FRESH = 5.0
"""Seconds for which a token is not looked up again: a revoked one works at most this long."""

GRACE = 3_600.0
"""Seconds after its last lookup for which a token works while the database does not answer."""

MOST_KEPT = 10_000
"""Tokens that are kept in memory; as many unknown ones."""

MOST_LOOKUPS = 64
"""Lookups that may wait at once."""

COOKIE = "calibrant_session"
"""Name of the cookie of the pages."""

MOST_FORM = 4_096
"""Largest form in bytes."""

BEARER = HTTPBearer(auto_error=False, description="A token, as `calibrant token create` prints it.")


@dataclass(frozen=True)
class _Kept:
    caller: Caller | None
    at: float
    again: float
    """When to look it up again."""


class Access:
    """Finds the caller of a request.

    A token is looked up in the database by its digest, and the answer is kept for :data:`FRESH` seconds. While the
    database does not answer, a token that was found goes on to work for :data:`GRACE` seconds.

    Parameters
    ----------
    pool
        Connections for the lookups.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self.pool = pool
        self._found: dict[tuple[bytes, bool], _Kept] = {}
        self._unknown: dict[tuple[bytes, bool], _Kept] = {}
        self._pending: dict[tuple[bytes, bool], asyncio.Task[Caller | None]] = {}

    async def caller(
        self, request: Request, scope: str, stream: str | None = None, *, everywhere: bool = False
    ) -> Caller:
        """The caller by the token in the header ``Authorization``.

        Parameters
        ----------
        request
            The request.
        scope
            What the token must allow.
        stream
            For which stream.
        everywhere
            Whether it must allow it for all streams.

        Returns
        -------
        Caller
            One that may do this; otherwise a :class:`Refusal` with the status 401 or 403 is raised.
        """
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise _unauthorized("token-missing", "is missing", "send the header Authorization: Bearer cal_...")
        found = await self.find(secret.strip())
        if found is None:
            raise _unauthorized("token-unknown", "is unknown or has expired", "ask for a new one")
        return _allowed(found, scope, stream, everywhere)

    async def find(self, secret: str, *, session: bool = False) -> Caller | None:
        """The caller with a secret, or None."""
        if not session and not SECRET.fullmatch(secret):
            return None
        place = (digest_of(secret), session)
        kept = self._found.get(place) or self._unknown.get(place)
        now = time.monotonic()
        if kept is None or now > kept.again:
            try:
                found = await self._lookup(place)
            except psycopg.OperationalError:
                if kept is None or kept.caller is None or now - kept.at > GRACE:
                    raise
                found = kept.caller
                self._found[place] = replace(kept, again=time.monotonic() + FRESH)
        else:
            found = kept.caller
        if found is not None and found.expires is not None and found.expires <= datetime.now(UTC):
            return None
        return found

    async def _lookup(self, place: tuple[bytes, bool]) -> Caller | None:
        """Ask the database, once for all requests that wait for the same answer."""
        task = self._pending.get(place)
        if task is None:
            if len(self._pending) >= MOST_LOOKUPS:
                again = {"Retry-After": str(RETRY_SECONDS)}
                raise Refusal(429, "too-many-tokens", "token", "waits behind too many others", "try again", again)
            task = asyncio.create_task(run_in_threadpool(self._ask, place))
            self._pending[place] = task
            task.add_done_callback(lambda done: self._pending.pop(place, None))
        found = await asyncio.shield(task)
        self._keep(place, found)
        return found

    def _ask(self, place: tuple[bytes, bool]) -> Caller | None:
        digest, session = place
        with self.pool.connection() as connection:
            return find_caller(connection, digest, session=session)

    def _keep(self, place: tuple[bytes, bool], found: Caller | None) -> None:
        """Keep an answer; unknown tokens do not displace known ones."""
        self._found.pop(place, None)
        self._unknown.pop(place, None)
        kept = self._unknown if found is None else self._found
        while len(kept) >= MOST_KEPT:
            kept.pop(next(iter(kept)))
        now = time.monotonic()
        kept[place] = _Kept(found, now, now + FRESH)

    def known(self) -> list[dict[str, Any]]:
        """The tokens that were found, by their digests, with the time of the last lookup: for the local disk."""
        passed = time.time() - time.monotonic()
        found = [(kept.caller, kept.at) for (_, session), kept in self._found.items() if not session]
        return [
            {
                "digest": caller.digest.hex(), "number": caller.number, "name": caller.name, "at": at + passed,
                "scopes": sorted(caller.scopes), "streams": None if caller.streams is None else sorted(caller.streams),
                "expires": None if caller.expires is None else caller.expires.isoformat(),
            }
            for caller, at in found if caller is not None
        ]  # fmt: skip

    def restore(self, known: list[dict[str, Any]]) -> None:
        """Take up what :meth:`known` gave to another process; each token is looked up again when it is used next."""
        passed = time.time() - time.monotonic()
        for each in known:
            digest = bytes.fromhex(each["digest"])
            streams = None if each["streams"] is None else frozenset(each["streams"])
            expires = None if each["expires"] is None else datetime.fromisoformat(each["expires"])
            caller = Caller(digest, each["number"], each["name"], frozenset(each["scopes"]), streams, expires)
            self._found[digest, False] = _Kept(caller, min(each["at"] - passed, time.monotonic()), -math.inf)

    def forget(self, digest: bytes) -> None:
        """Look a token up again when it is used next."""
        for session in (False, True):
            self._found.pop((digest, session), None)


def need(scope: str, *, everywhere: bool = False) -> Callable[..., Awaitable[Caller]]:
    """A dependency of a route: a token that allows a scope, for the stream in the path if there is one.

    Parameters
    ----------
    scope
        One of ``predict``, ``label``, ``read``, ``admin``.
    everywhere
        Whether the token must allow it for all streams.

    Returns
    -------
    callable
        For ``Depends``; gives the :class:`Caller`.
    """

    async def caller(request: Request, _: Annotated[Any, Security(BEARER)] = None) -> Caller:
        access: Access = request.app.state.access
        return await access.caller(request, scope, request.path_params.get("stream"), everywhere=everywhere)

    caller.needed = scope  # type: ignore[attr-defined]
    return caller


class TokenFirst(APIRoute):
    """A route that checks the token, then reads the body by our rules; FastAPI by itself reads the body first."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of the route, behind its needs."""
        handle = super().get_route_handler()
        needs = [each.call for each in self.dependant.dependencies if hasattr(each.call, "needed")]

        async def guarded(request: Request) -> Response:
            for each in needs:
                await each(request)  # type: ignore[misc]
            if self.body_field is not None:
                request = await checked(request, request.app.state.service.config)
            return await handle(request)

        return guarded


# ---------------------------------------------------------------------------------------------------------------- pages


def page(scope: str = "read") -> Callable[..., Awaitable[Caller]]:
    """A dependency of a page: a login whose token allows a scope; without a login the answer leads to the form.

    A form that is sent must have the field ``csrf`` with the value of :func:`csrf_of`.
    """

    async def caller(request: Request) -> Caller:
        access: Access = request.app.state.access
        secret = request.cookies.get(COOKIE, "")
        found = await access.find(secret, session=True) if secret else None
        if found is None:
            raise Refusal(303, "login-needed", None, "a login is needed", headers={"Location": "/login"})
        if request.method not in ("GET", "HEAD"):
            given = (await form_of(request)).get("csrf", "")
            if not hmac.compare_digest(given.encode(), csrf_of(request).encode()):
                raise Refusal(403, "form-outdated", "csrf", "does not belong to this login", "load the page again")
        return _allowed(found, scope, request.path_params.get("stream"), False)

    return caller


def csrf_of(request: Request) -> str:
    """The value of the hidden field ``csrf`` of forms: known only to whoever knows the cookie."""
    secret = request.cookies.get(COOKIE, "").encode("utf-8", "surrogateescape")
    return hashlib.blake2b(b"csrf", key=hashlib.sha256(secret).digest(), digest_size=16).hexdigest()


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form; of several values the last."""
    if hasattr(request.state, "form"):
        return dict(request.state.form)
    media_type(request, FORM)
    body = await read_body(request, MOST_FORM)
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    request.state.form = {name: values[-1] for name, values in fields.items()}
    return dict(request.state.form)


router = APIRouter(include_in_schema=False)


@router.post("/login")
async def login(request: Request) -> RedirectResponse:
    """Log in with a token: the answer sets a cookie that scripts cannot read and other sites cannot send."""
    secret = (await form_of(request)).get("token", "").strip()
    access: Access = request.app.state.access

    def open_one() -> str:
        with access.pool.connection() as connection:
            return open_session(connection, secret)

    try:
        made = await run_in_threadpool(open_one) if SECRET.fullmatch(secret) else None
    except NotAllowedError:
        made = None
    if made is None:
        return RedirectResponse("/login?failed=1", 303)
    response = RedirectResponse("/", 303)
    response.set_cookie(
        COOKIE, made, max_age=int(SESSION_SECONDS), path="/", httponly=True, samesite="strict",
        secure=request.url.scheme == "https",
    )  # fmt: skip
    return response


@router.post("/logout")
async def logout(request: Request) -> RedirectResponse:
    """Log out: the login ends in the database as well."""
    access: Access = request.app.state.access
    if secret := request.cookies.get(COOKIE):

        def close_one() -> None:
            with access.pool.connection() as connection:
                close_session(connection, digest_of(secret))

        await run_in_threadpool(close_one)
        access.forget(digest_of(secret))
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE, path="/")
    return response


def _allowed(found: Caller, scope: str, stream: str | None, everywhere: bool) -> Caller:
    if not found.allows(scope, stream, everywhere=everywhere):
        which = "for all streams" if everywhere else "for this stream" if stream else ""
        raise Refusal(403, "not-allowed", "token", f"does not allow {scope} {which}".rstrip(), "ask for another one")
    return found


def _unauthorized(code: str, problem: str, fix: str) -> Refusal:
    return Refusal(401, code, "token", problem, fix, {"WWW-Authenticate": "Bearer"})
