"""Two weeks before the demo begins: written to the log as if they had been served, and learned day by day."""

from __future__ import annotations

from typing import Any

import numpy as np
import psycopg

from calibrant.numerics import Ints
from calibrant.service.demo.worlds import HORIZON, KEYS, World
from calibrant.service.learning.learner import Learner
from calibrant.service.learning.publishing import ServedMap
from calibrant.service.store.log import SECOND, Kind
from calibrant.service.store.streams import create_stream, list_streams, version_of

DAYS = 14
BLOCKS, ROWS = 8, 120
"""Blocks of a day, and rows of a block."""

DAY = 86_400
ANSWERED = 0.9
"""Share of rows with an outcome."""

INSERT = """
insert into log (stream, position, day, time, kind, id, score, key, at, version, probability, label)
select %s, given.position, day_of(given.time), given.time, given.kind, given.id, given.score, given.key, given.time,
    given.version, given.probability, given.label
from unnest(%s::bigint[], %s::bigint[], %s::smallint[], %s::uuid[], %s::float8[], %s::text[], %s::integer[],
    %s::float8[], %s::smallint[])
    as given (position, time, kind, id, score, key, version, probability, label)
"""


def write_past(connection: psycopg.Connection, world: World, now: int, rng: np.random.Generator) -> None:
    """Make a stream with a past.

    Parameters
    ----------
    connection
        A connection of the owner, in autocommit mode.
    world
        What happens.
    now
        Time in microseconds.
    rng
        Source of randomness.
    """
    stream = create_stream(connection, None, world.name, world.settings)
    first = (now // SECOND // DAY - DAYS) * DAY
    with connection.transaction():
        for day in range(DAYS + 1):
            connection.execute("select make_day(day_of(%s))", [(first + day * DAY) * SECOND])
        moved = [first * SECOND, first * SECOND, stream]
        connection.execute("update log set time = %s, day = day_of(%s) where stream = %s", moved)
        connection.execute("update head set time = %s where stream = %s", moved[1:])
    learner = Learner(connection, stream)
    for day in range(DAYS):
        _write_day(connection, world, stream, first + day * DAY, rng)
        while learner.step():
            pass
    learner.tick()  # the last second of the past has ended
    learner.step()
    learner.checkpoint()


def _write_day(connection: psycopg.Connection, world: World, stream: int, start: int, rng: np.random.Generator) -> None:
    """The entries of one day, answered by the version that is served when it begins."""
    served = next(each for each in list_streams(connection) if each.number == stream)
    document = version_of(connection, stream, served.served)[1] if served.served else None
    columns: dict[str, list[Any]] = {
        name: [] for name in ("time", "kind", "id", "score", "key", "version", "probability", "label")
    }
    for block in range(BLOCKS):
        time = start + 60 + block * (DAY // BLOCKS)
        ids, scores, keys = world.draw(rng, ROWS)
        probabilities = ServedMap.read(document).apply(scores, np.zeros(ROWS, dtype=np.int64))
        _add(
            columns, time, Kind.PREDICTION, ids, scores.tolist(), _names(keys), [served.served] * ROWS,
            probabilities.tolist(), [None] * ROWS,
        )  # fmt: skip
        labels = world.outcomes(rng, scores, keys, float(time), broken=False).tolist()
        answered = np.flatnonzero(rng.random(ROWS) < ANSWERED).tolist()
        for late, part in ((0.3, answered[::2]), (0.8, answered[1::2])):
            blank: list[Any] = [None] * len(part)
            _add(
                columns, time + int(late * HORIZON), Kind.OUTCOME, [ids[n] for n in part], blank, blank, blank, blank,
                [labels[n] for n in part],
            )  # fmt: skip
    n = len(columns["time"])
    with connection.transaction():
        positions = list(range(served.position + 1, served.position + 1 + n))
        connection.execute(INSERT, [stream, positions, *columns.values()])
        connection.execute(
            "update head set position = %s, time = %s where stream = %s",
            [served.position + n, columns["time"][-1], stream],
        )


def _add(columns: dict[str, list[Any]], time: int, kind: Kind, ids: list[Any], *others: list[Any]) -> None:
    n = len(ids)
    for name, values in zip(columns, ([time * SECOND] * n, [int(kind)] * n, ids, *others), strict=True):
        columns[name] += values


def _names(keys: Ints) -> list[str]:
    return [KEYS[key] for key in keys.tolist()]
