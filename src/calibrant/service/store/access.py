"""Tokens, logins and the audit: who may do what, and who did it."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import dict_row

from calibrant.messages import InputError

SCOPES = ("predict", "label", "read", "admin")
"""What a token may allow; none includes another."""

PREFIX = "cal_"
"""Beginning of every token, so that one that leaked can be found by search."""

SECRET = re.compile(r"cal_[A-Za-z0-9_-]{43}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}")
NAMED = "must be 1 to 63 letters, digits, spaces, dots, hyphens or underscores, and begin with a letter or digit"

SESSION_SECONDS = 12 * 3_600.0
"""How long a login to the pages lasts."""

LONGEST_OVERLAP = 7 * 86_400.0
"""Most seconds for which a rotated token goes on to work."""


class NotAllowedError(InputError):
    """The database refused: the caller's token does not allow this, or has ended."""


class NotFoundError(InputError):
    """What was named does not exist."""


class ExistsError(InputError):
    """The name is taken."""


@dataclass(frozen=True)
class Caller:
    """A token that was found, or a login by it.

    Attributes
    ----------
    digest
        SHA-256 of the secret: functions of the database that change something take it as the proof of who asks.
    number, name
        Which token it is.
    scopes, streams
        What it allows, for which streams; ``None`` stands for all streams, also later ones.
    expires
        When it ends, if ever.
    """

    digest: bytes = field(repr=False)
    number: int
    name: str
    scopes: frozenset[str]
    streams: frozenset[str] | None
    expires: datetime | None

    def allows(self, scope: str, stream: str | None = None, *, everywhere: bool = False) -> bool:
        """Whether the scope is there, for this stream or for all streams.

        Examples
        --------
        >>> caller = Caller(b"", 1, "clicks", frozenset({"predict"}), frozenset({"clicks"}), None)
        >>> caller.allows("predict", "clicks"), caller.allows("predict", "sales"), caller.allows("label", "clicks")
        (True, False, False)
        """
        if scope not in self.scopes:
            return False
        return self.streams is None or (not everywhere and (stream is None or stream in self.streams))


def new_secret() -> str:
    """A token of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(secret: str) -> bytes:
    """What is stored of a token.

    Examples
    --------
    >>> len(digest_of(new_secret()))
    32
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def find_caller(connection: psycopg.Connection, digest: bytes, *, session: bool = False) -> Caller | None:
    """The token with a digest, or the token of a login, unless it has ended.

    A lookup by digest takes no longer for a secret that is nearly right: nothing can be learned from its time.
    """
    row = connection.execute("select * from find_token(%s, %s)", [digest, session]).fetchone()
    if row is None:
        return None
    number, name, scopes, streams, expires = row
    return Caller(digest, number, name, frozenset(scopes), None if streams is None else frozenset(streams), expires)


def issue_token(
    connection: psycopg.Connection,
    caller: bytes | None,
    name: str,
    scopes: Sequence[str],
    streams: Sequence[str] | None = None,
    expires: datetime | None = None,
) -> tuple[int, str]:
    """Make a token.

    Parameters
    ----------
    connection
        A connection in autocommit mode.
    caller
        Digest of a token with the scope admin for all streams; ``None`` for the owner of the schema.
    name
        Who will have it: letters, digits, spaces, dots, hyphens; at most 63.
    scopes
        Some of :data:`SCOPES`.
    streams
        Names of streams; ``None`` for all of them, also later ones.
    expires
        When it ends; ``None`` for never.

    Returns
    -------
    tuple
        Its number, and its secret, which is not stored.
    """
    check_name(name)
    if unknown := [each for each in scopes if each not in SCOPES]:
        raise InputError("scopes", f"has {unknown[0]!r}", f"the scopes are {', '.join(SCOPES)}")
    if not scopes:
        raise InputError("scopes", "is empty", f"the scopes are {', '.join(SCOPES)}")
    if streams is not None:
        rows = connection.execute("select name from stream where name = any(%s)", [list(streams)]).fetchall()
        if not streams or (missing := sorted(set(streams) - {known for (known,) in rows})):
            raise InputError(
                "streams", f"has no stream {missing[0]!r}" if streams else "is empty", "name streams that exist"
            )
    if expires is not None and expires.tzinfo is None:
        raise InputError("expires", "has no offset", "such as 2027-01-31T00:00:00Z")
    secret = new_secret()
    values = [caller, name, digest_of(secret), sorted(set(scopes)), None if streams is None else sorted(set(streams))]
    with refusals():
        row = connection.execute("select issue_token(%s, %s, %s, %s, %s, %s)", [*values, expires]).fetchone()
    assert row is not None  # a function returns a row
    return int(row[0]), secret


def rotate_token(
    connection: psycopg.Connection, caller: bytes | None, number: int, overlap: float = 3_600.0
) -> tuple[int, str]:
    """A new token with the rights of another, which ends after ``overlap`` seconds."""
    if not 0.0 <= overlap <= LONGEST_OVERLAP:
        raise InputError("overlap", f"must be a number of seconds from 0 to {LONGEST_OVERLAP:,.0f}")
    secret = new_secret()
    with refusals("number"):
        row = connection.execute(
            "select rotate_token(%s, %s, %s, %s)", [caller, number, digest_of(secret), float(overlap)]
        ).fetchone()
    assert row is not None  # a function returns a row
    return int(row[0]), secret


def revoke_token(connection: psycopg.Connection, caller: bytes | None, number: int) -> None:
    """End a token and its logins."""
    with refusals("number"):
        connection.execute("select revoke_token(%s, %s)", [caller, number])


def list_tokens(connection: psycopg.Connection, caller: bytes | None) -> list[dict[str, Any]]:
    """All tokens, without their digests: number, name, scopes, streams, made, expires, revoked."""
    with refusals(), connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("select * from list_tokens(%s)", [caller]).fetchall()


def list_audit(
    connection: psycopg.Connection, caller: bytes | None, before: int | None = None, limit: int = 100
) -> list[dict[str, Any]]:
    """The newest entries of the audit before a number: number, at, who, action, stream, detail."""
    with refusals(), connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("select * from list_audit(%s, %s, %s)", [caller, before, limit]).fetchall()


def open_session(connection: psycopg.Connection, token: str) -> str:
    """Log in with a token, and return the secret of the cookie."""
    secret = secrets.token_urlsafe(32)
    with refusals("token"):
        connection.execute("select open_session(%s, %s, %s)", [digest_of(token), digest_of(secret), SESSION_SECONDS])
    return secret


def close_session(connection: psycopg.Connection, digest: bytes) -> None:
    """Log out."""
    connection.execute("select close_session(%s)", [digest])


def check_name(name: str) -> None:
    """Refuse a name that a token cannot have."""
    if not NAME.fullmatch(name):
        raise InputError("name", NAMED)


@contextmanager
def refusals(argument: str = "stream") -> Iterator[None]:
    """What the functions of the database refuse, as errors of the package."""
    try:
        yield
    except psycopg.errors.NoDataFound:
        raise NotFoundError(argument, "does not exist") from None
    except psycopg.errors.UniqueViolation:
        raise ExistsError(argument, "exists already", "choose another name") from None
    except psycopg.Error as problem:
        if problem.sqlstate == "CB403":
            raise NotAllowedError("token", "does not allow this", "ask for one with the scope admin") from None
        raise
