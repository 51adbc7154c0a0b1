"""Streams whose keys have their own maps: from the log to the answer."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import psycopg
from tests.service.test_learner import START, at_second, learned, versions

from calibrant.service.api.serving.versions import Served
from calibrant.service.learning.learner import Learner
from calibrant.service.learning.publishing import ServedMap
from calibrant.service.learning.replay import replay
from calibrant.service.settings import Settings, first_entry
from calibrant.service.store.log import append_outcomes, append_predictions, key_number

KEYS = ["north", "south", None]


def test_a_key_is_answered_by_its_own_map(database: psycopg.Connection) -> None:
    settings = Settings(
        horizon=2.0, silence="negative", publish_rows=100, publish_seconds=1e6, keyed=True, max_step=5.0
    )
    row = database.execute("select create_stream('keyed', %s)", [first_entry(settings)]).fetchone()
    assert row is not None
    stream, rng = int(row[0]), np.random.default_rng(0)
    for second in range(10):
        at_second(database, stream, START + second)
        ids = [UUID(int=1 + 100 * second + k) for k in range(60)]
        keys = [KEYS[k % 3] for k in range(60)]
        rates = np.array([{"north": 0.6, "south": 0.1, None: 0.3}[key] for key in keys])
        append_predictions(database, stream, ids, [0.3] * 60, keys, [None] * 60, [0] * 60, [0.3] * 60)
        append_outcomes(database, stream, ids, (rng.random(60) < rates).astype(int).tolist(), [None] * 60)
    learner = Learner(database, stream)
    learned(learner)
    document = str(versions(database, stream)[-1][3])
    served = Served(stream, "keyed", settings, 1, 0, document)
    found, _ = served.answers([b""] * 4, [0.3] * 4, [*KEYS, "never seen"])
    numbers = np.array([key_number(key) for key in (*KEYS, "never seen")])
    np.testing.assert_allclose(found, ServedMap.read(document).apply(np.full(4, 0.3), numbers), rtol=1e-12)
    assert found[0] > 0.4
    assert found[1] < 0.25
    names = database.execute("select number, name from key_name where stream = %s", [stream]).fetchall()
    assert sorted(names) == sorted((key_number(key), key) for key in ("north", "south"))
    assert replay(database, stream, checkpoints=False).different == []
