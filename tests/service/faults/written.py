"""The log as it was written, beside what erasure and retention must have left of it."""

from __future__ import annotations

import hashlib
import json
import struct
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import psycopg
from tests.service.model.memory import Entry, erased_id

from calibrant.live import read_ids
from calibrant.service.learning.learner import promotions_of
from calibrant.service.learning.state import StreamState
from calibrant.service.settings import Settings
from calibrant.service.store.log import SECOND, Kind

DAY = 86_400 * SECOND

COPY = """
create function copy_entry() returns trigger language plpgsql security definer set search_path from current as $$
begin
    insert into written select new.*;
    return null;
end $$
"""


def keep_written(connection: psycopg.Connection) -> None:
    """From now on, copy each entry to the table ``written``, in the transaction that logs it."""
    connection.execute("create table written (like log)")
    connection.execute("insert into written select * from log")
    connection.execute(COPY)
    connection.execute("create trigger copy_entry after insert on log for each row execute function copy_entry()")


def entries_of(connection: psycopg.Connection, stream: int, table: str) -> list[Entry]:
    """The log of a stream, as it is (``log``) or as it was written (``written``)."""
    rows = connection.execute(
        "select position, time, kind, id, score, version, probability, label, document, coalesce(key_number(key), 0), "
        f"coalesce(predicted, 0) from {table} where stream = %s order by position",
        [stream],
    ).fetchall()
    return [
        Entry(
            position, time, Kind(kind), id.int if id else 0, score or 0.0, version or 0, probability or 0.0,
            -1 if label is None else label, document, key, predicted,
        )
        for position, time, kind, id, score, version, probability, label, document, key, predicted in rows
    ]  # fmt: skip


def after_erasure(written: list[Entry]) -> list[Entry]:
    """What the log must be once all erasures are learned: an id up to its erasure is another one, without a key."""
    erased: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for each in written:
        if (id := erased_id(each)) is not None:
            erased[id].append((each.position, UUID(json.loads(each.document or "")["to"]).int))
    found = []
    for each in written:
        if erased_id(each) is not None:
            found.append(replace(each, document='{"action": "erase"}'))
            continue
        instead = next((new for position, new in erased.get(each.id, ()) if position > each.position), None)
        found.append(each if instead is None else replace(each, id=instead, key=0))
    return found


def kept_from(settings: Settings, now: int) -> int:
    """The first day, in days since 1970, that must be there when a stream is learned up to a time."""
    remember = settings.horizon if settings.remember is None else settings.remember
    return int(now - SECOND * max(86_400.0 * settings.retention_days, settings.horizon + remember)) // DAY


def known_ids(entries: list[Entry], written: list[Entry]) -> set[tuple[int, int]]:
    """Ids and positions that must be known: predictions in the log whose id was not erased after them."""
    sent = {each.position: each.id for each in written}
    predictions = [each for each in entries if each.kind == Kind.PREDICTION]
    return {(each.id, each.position) for each in predictions if sent[each.position] == each.id}


def ids_in_states(connection: psycopg.Connection, stream: int, written: list[Entry]) -> list[tuple[int, int]]:
    """Positions of stored states, each with an erased id that it still has; there must be none."""
    erased = {id: each.position for each in written if (id := erased_id(each)) is not None}
    found = []
    states = connection.execute("select position, state from checkpoint where stream = %s", [stream]).fetchall()
    for place, raw in states if erased else ():
        ledger = StreamState.from_bytes(bytes(raw)).ledger
        again = {each.id for each in written if each.position > erased.get(each.id, 0) and each.position <= place}
        gone = [id for id, position in erased.items() if id not in again]
        if place < max(erased.values()):
            found.append((place, 0))
        if not gone:
            continue
        pairs = read_ids([UUID(int=id) for id in gone])
        held = {key for key, *_ in ledger._held.listed()}
        there = (ledger._table.find(pairs) >= 0) | [pair.tobytes() in held for pair in pairs]
        found += [(place, id) for id, bad in zip(gone, there.tolist(), strict=True) if bad]
    return found


@dataclass(frozen=True)
class Serving:
    """What was served from a position on: a version, and perhaps a version for a share of the ids."""

    position: int
    version: int
    canary: int | None = None
    share: float = 0.0
    salt: int = 0

    def answers(self, stream: int, id: int) -> int:
        """The version that answers an id."""
        salt = struct.pack(">qq", stream, self.salt)
        digest = hashlib.blake2b(id.to_bytes(16, "big"), digest_size=8, salt=salt).digest()
        below = self.canary is not None and int.from_bytes(digest, "big") < self.share * 2.0**64
        return self.canary if below and self.canary is not None else self.version


def served_over_time(connection: psycopg.Connection, stream: int) -> list[Serving]:
    """What was served, in order, as the learner has decided it."""
    changes: list[tuple[int, int, dict[str, Any]]] = [
        (position, place, {"version": each.version})
        for (position, place), each in promotions_of(connection, stream).items()
    ]
    rows = connection.execute("select position, version, share, salt from canary where stream = %s", [stream])
    for position, version, share, salt in rows.fetchall():
        changes.append((position, 1 << 30, {"canary": version, "share": share, "salt": salt}))
    found = [Serving(0, 0)]
    for position, _, change in sorted(changes, key=lambda each: each[:2]):
        found.append(replace(found[-1], position=position, **change))
    return found
