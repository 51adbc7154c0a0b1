"""The log of a stream: entries in the order of their commits, appended under a lock and read as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from numpy.typing import NDArray

from calibrant.live.ids import Ids
from calibrant.numerics import Floats, Ints

SECOND = 1_000_000
"""Microseconds: times of the log are integers in this unit."""

FIELDS: dict[str, tuple[str, str]] = {
    "position": (">i8", "position"),
    "time": (">i8", "time"),
    "kind": (">i2", "kind"),
    "id": ("V16", "coalesce(id, '00000000-0000-0000-0000-000000000000')"),
    "score": (">f8", "coalesce(score, 0)"),
    "key": (">i8", "coalesce(key_number(key), 0)"),
    "at": (">i8", "coalesce(at, 0)"),
    "predicted": (">i8", "coalesce(predicted, 0)"),
    "version": (">i4", "coalesce(version, 0)"),
    "probability": (">f8", "coalesce(probability, 0)"),
    "label": (">i2", "coalesce(label, -1::smallint)"),
}
"""Binary form and expression of each column; none is null, so that all values of a column have one length."""

OUTCOMES = (
    "select append_outcomes(%s, %s::uuid[], %s::smallint[], %s::bigint[], %s::float8[], %s::text[], %s::bigint[], "
    "%s::integer[], %s::float8[])"
)
"""A row without an id says that all outcomes of rows due up to its time were sent."""

HEADER = 20
"""Bytes of an array of PostgreSQL before its values."""

READ = (
    f"select {', '.join(f'array_send(array_agg(found.{name}))' for name in FIELDS)} from (select "
    f"{', '.join(f'{expression} as {name}' for name, (_, expression) in FIELDS.items())} from log "
    "where stream = %s and position > %s and day >= day_of(%s) order by position limit %s) as found"
)
"""Each column as one array, so that Python does nothing for each row."""


def key_number(key: str | None) -> int:
    """A key as the number by which a learner knows it, as the function of the same name in the database.

    Parameters
    ----------
    key
        The key, or None for a row without one.

    Returns
    -------
    int
        The first 8 bytes of its SHA-256; 0 without a key.

    Examples
    --------
    >>> key_number("north"), key_number(None)
    (-2578769859280307487, 0)
    """
    return 0 if key is None else int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big", signed=True)


class Kind(IntEnum):
    """What an entry is."""

    PREDICTION = 1
    OUTCOME = 2
    OUTCOME_WITH_RECEIPT = 3
    TICK = 4
    ACTION = 5


@dataclass(frozen=True, eq=False)
class Entries:
    """Entries of a log as columns, in order.

    Attributes
    ----------
    position, time, kind
        Place in the log, stream time in microseconds, and :class:`Kind`.
    id
        Pairs of 8 bytes, as :func:`calibrant.live.read_ids` returns them.
    score, key, at, predicted, version, probability, label
        As logged; ``key`` is its :func:`key_number`, 0 without a key; ``label`` is -1 where there is none.
    documents
        The text of each action by its position.
    """

    position: Ints
    time: Ints
    kind: Ints
    id: Ids
    score: Floats
    key: Ints
    at: Ints
    predicted: Ints
    version: Ints
    probability: Floats
    label: Ints
    documents: dict[int, str]

    def __len__(self) -> int:
        return len(self.position)

    def part(self, start: int, stop: int) -> Entries:
        """Some of them."""
        columns = {name: getattr(self, name)[start:stop] for name in FIELDS}
        return Entries(**columns, documents=self.documents)


@dataclass(frozen=True)
class Answer:
    """What was logged for a prediction.

    Attributes
    ----------
    found
        0: it is new; 1: it was logged before with the same content; 2: its id is in use with another content.
    probability, version
        The answer that was logged first, and the version that gave it.
    """

    found: int
    probability: float
    version: int


def read_id(text: str) -> UUID:
    """The 16 bytes under which an id is kept.

    Parameters
    ----------
    text
        An id as clients send it.

    Returns
    -------
    UUID
        The UUID that the text shows in its form of 36 characters; of any other text the BLAKE2b digest.

    Examples
    --------
    >>> read_id("00000000-0000-0000-0000-0000000000FF").int
    255
    >>> read_id("order 17") == read_id("order 17")
    True
    """
    return UUID(bytes=id_bytes(text))


def id_bytes(text: str) -> bytes:
    """The same as 16 bytes, without an object for each."""
    if len(text) == 36 and text[8] == text[13] == text[18] == text[23] == "-":
        try:
            found = bytes.fromhex(text.replace("-", ""))
        except ValueError:
            found = b""
        if len(found) == 16:  # not so if there were spaces or further hyphens, which are skipped
            return found
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def append_predictions(
    connection: psycopg.Connection,
    stream: int,
    ids: Sequence[UUID],
    scores: Sequence[float],
    keys: Sequence[str | None],
    at: Sequence[int | None],
    versions: Sequence[int],
    probabilities: Sequence[float],
) -> list[Answer]:
    """Log predictions, and return what was logged first under each id."""
    values = [stream, list(ids), list(scores), list(keys), list(at), list(versions), list(probabilities)]
    rows = connection.execute("select * from append_predictions(%s, %s, %s, %s, %s, %s, %s)", values).fetchall()
    return [Answer(*row) for row in rows]


def append_outcomes(
    connection: psycopg.Connection, stream: int, ids: Sequence[UUID], labels: Sequence[int], at: Sequence[int | None]
) -> int:
    """Log outcomes of logged predictions, and return the position of the last."""
    n = len(ids)
    values: list[Any] = [stream, list(ids), list(labels), list(at), *([None] * n for _ in range(5))]
    return int(_one(connection, OUTCOMES, values))


def append_complete(connection: psycopg.Connection, stream: int, until: int) -> int:
    """Log that all outcomes of rows due up to a time in microseconds were sent, and return the position."""
    values: list[Any] = [stream, *([None] for _ in range(2)), [until], *([None] for _ in range(5))]
    return int(_one(connection, OUTCOMES, values))


def append_entry(connection: psycopg.Connection, stream: int, kind: Kind, document: str | None = None) -> int:
    """Log a tick or an action, and return its position."""
    return int(_one(connection, "select append_entry(%s, %s::smallint, %s)", [stream, int(kind), document]))


def read(connection: psycopg.Connection, stream: int, after: int, since: int, limit: int) -> Entries:
    """Entries after a position, at most ``limit`` of them.

    Parameters
    ----------
    connection
        A connection.
    stream
        Number of the stream.
    after
        The last position that is not wanted.
    since
        Time of the entry at that position: no later entry has an earlier time.
    limit
        Largest number of entries.

    Returns
    -------
    Entries
        Without gaps: a commit holds the lock until it is done, so positions are visible in order.
    """
    found = connection.execute(READ, [stream, after, since, limit], binary=True).fetchone()
    assert found is not None  # an aggregate has a row
    raw = {name: _values(each, FIELDS[name][0]) for name, each in zip(FIELDS, found, strict=True)}
    native: dict[str, Any] = {"i": np.int64, "f": np.float64}
    columns: dict[str, Any] = {
        name: each.astype(native[FIELDS[name][0][1]]) for name, each in raw.items() if FIELDS[name][0] != "V16"
    }
    ids = np.ascontiguousarray(raw["id"]).view(">u8").astype(np.uint64).reshape(-1, 2)
    actions = columns["position"][columns["kind"] == Kind.ACTION].tolist()
    return Entries(**columns, id=ids, documents=_documents(connection, stream, since, actions))


def _values(array: bytes | None, kind: str) -> NDArray[Any]:
    """The values of an array of PostgreSQL without nulls; each has its length before it."""
    rows = np.frombuffer((array or b"")[HEADER:], dtype=np.dtype([("length", ">i4"), ("value", kind)]))
    return np.asarray(rows["value"])


def _documents(connection: psycopg.Connection, stream: int, since: int, positions: list[int]) -> dict[int, str]:
    if not positions:
        return {}
    text = "select position, document from log where stream = %s and day >= day_of(%s) and position = any(%s)"
    return dict(connection.execute(text, [stream, since, positions]).fetchall())


def _one(connection: psycopg.Connection, call: str, values: Sequence[Any]) -> Any:
    row = connection.execute(call, values).fetchone()
    assert row is not None  # a function returns a row
    return row[0]
