"""Configuration of one process of the service: from the environment, with secrets from files if wanted."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calibrant.arrays.columns import check_whole
from calibrant.messages import InputError
from calibrant.online.limits import yes_no

PREFIX = "CALIBRANT_"
"""Environment variables are the names of the fields in capitals after this."""

SECRETS = ("database", "receipt_keys")
"""Fields that may be read from a file: CALIBRANT_DATABASE_FILE names it."""

SHORTEST_KEY = 32
"""Bytes that a receipt key has at least."""

MIB = 1 << 20


@dataclass(frozen=True)
class Config:
    """What a process needs to know besides the database; settings of a stream are data in the database instead.

    Parameters
    ----------
    database
        Connection string of PostgreSQL.
    receipt_keys
        Secrets of at least 32 bytes that sign receipts: the first one signs, all are accepted. To rotate, put a new one
        in front, and remove the old one when its receipts have expired.
    cache
        Folder in which the versions that are served are kept, so that a process can begin while the database is away.
    host, port, workers
        Where the process listens, and how many processes do.
    connections
        Connections that may be open at once; fewer if the process may open fewer files. If another one comes,
        those that have waited longest for their client are closed.
    body_bytes, batch_rows
        Largest body of a request, and most rows in one.
    queue_rows
        Rows that may wait for a commit; further ones are refused for a moment.
    rate
        Requests per second that one token may send to one stream, with bursts of two seconds; 0 for no limit. Each
        process counts for itself.
    poll_seconds
        How often new versions, settings and streams are looked for.
    commit_seconds
        Longest time that a request waits for its commit.
    drain_seconds
        After the signal to stop, the time for which requests are still answered while ``/ready`` says no.
    tracing
        Whether requests and commits are spans of OpenTelemetry; needs the package ``opentelemetry-api``.

    Examples
    --------
    >>> Config(database="dbname=calibrant").batch_rows
    10000
    >>> Config.from_environment({"CALIBRANT_DATABASE": "dbname=calibrant", "CALIBRANT_PORT": "80"}).port
    80
    """

    database: str = field(repr=False)
    receipt_keys: tuple[bytes, ...] = field(default=(), repr=False)
    cache: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8_000
    workers: int = 1
    connections: int = 4_000
    body_bytes: int = 8 * MIB
    batch_rows: int = 10_000
    queue_rows: int = 20_000
    rate: float = 0.0
    poll_seconds: float = 0.5
    commit_seconds: float = 10.0
    drain_seconds: float = 2.0
    tracing: bool = False

    def __post_init__(self) -> None:
        if not self.database:
            raise InputError("database", "is empty", "pass a connection string of PostgreSQL")
        for key in self.receipt_keys:
            if len(key) < SHORTEST_KEY:
                raise InputError("receipt_keys", f"holds a key of {len(key)} bytes", f"use at least {SHORTEST_KEY}")
        if len(set(self.receipt_keys)) < len(self.receipt_keys):
            raise InputError("receipt_keys", "holds a key twice", "list each key once")
        check_whole("port", self.port, 0)
        for name in ("workers", "connections", "body_bytes", "batch_rows", "queue_rows"):
            check_whole(name, getattr(self, name), 1)
        for name in ("rate", "poll_seconds", "commit_seconds", "drain_seconds"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0.0:
                raise InputError(name, f"must be 0 or a positive number, got {value!r}")
        yes_no("tracing", self.tracing)
        if self.poll_seconds == 0.0 or self.commit_seconds == 0.0:
            raise InputError("poll_seconds, commit_seconds", "must be positive")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **given: Any) -> Config:
        """Read what is not given from the environment.

        Parameters
        ----------
        environment
            Variables such as ``CALIBRANT_DATABASE``; by default those of the process. ``CALIBRANT_DATABASE_FILE`` and
            ``CALIBRANT_RECEIPT_KEYS_FILE`` name files to read instead. Receipt keys are hexadecimal, separated by
            spaces, commas or new lines.
        given
            Fields that do not come from the environment, such as arguments of a command; None for those not given.

        Returns
        -------
        Config
            The configuration.

        Examples
        --------
        >>> Config.from_environment({}, database="dbname=calibrant", port=None).port
        8000
        """
        found = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        for name, read in READERS.items():
            variable = PREFIX + name.upper()
            text = _from_file(variable, found) if name in SECRETS else None
            text = found.get(variable) if text is None else text
            if text is not None and given.get(name) is None:
                values[name] = _read(variable, text, read, secret=name in SECRETS)
        values |= {name: value for name, value in given.items() if value is not None}
        if "database" not in values:
            raise InputError("database", "is not set", f"set {PREFIX}DATABASE or {PREFIX}DATABASE_FILE")
        return cls(**values)


def key_id(key: bytes) -> bytes:
    """Four bytes that name a receipt key and say nothing about it.

    Parameters
    ----------
    key
        A secret.

    Returns
    -------
    bytes
        From its BLAKE2b digest.

    Examples
    --------
    >>> len(key_id(bytes(32)))
    4
    """
    return hashlib.blake2b(key, digest_size=4, person=b"calibrant key id").digest()


def _keys(text: str) -> tuple[bytes, ...]:
    return tuple(bytes.fromhex(each) for each in text.replace(",", " ").split())


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError
    return text == "1"


def _from_file(variable: str, environment: Mapping[str, str]) -> str | None:
    path = environment.get(f"{variable}_FILE")
    if path is None:
        return None
    try:
        return Path(path).read_text().strip()
    except (OSError, ValueError):
        raise InputError(f"{variable}_FILE", "cannot be read", "name a text file that this user may read") from None


def _read(variable: str, text: str, read: Callable[[str], Any], *, secret: bool) -> Any:
    try:
        return read(text)
    except ValueError:
        shown = "" if secret else f": {text!r}"
        raise InputError(variable, f"cannot be read{shown}", "see calibrant.service.config.Config") from None


READERS: dict[str, Callable[[str], Any]] = {
    "database": str, "receipt_keys": _keys, "cache": Path, "host": str, "port": int, "workers": int,
    "connections": int, "body_bytes": int, "batch_rows": int, "queue_rows": int, "rate": float, "poll_seconds": float,
    "commit_seconds": float, "drain_seconds": float, "tracing": _switch,
}  # fmt: skip
"""How the text of each variable is read."""
