"""Traffic of the demo: predictions over HTTP each second, and outcomes some seconds later."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from itertools import count

import numpy as np

from calibrant.service.client import Client, Outcome, Retries, Row, ServiceError
from calibrant.service.demo.past import ANSWERED
from calibrant.service.demo.worlds import HORIZON, KEYS, World

LOG = logging.getLogger("calibrant.service")

ROWS = 40
"""Predictions each second."""

BREAK_SECONDS = 60.0
"""When the world breaks."""


class Traffic:
    """Asks for predictions and sends their outcomes, until it is stopped.

    Parameters
    ----------
    address, token
        Of the service.
    world
        What happens.
    seed
        Of the random numbers.
    """

    def __init__(self, address: str, token: str, world: World, seed: int) -> None:
        self._client = Client(address, token, retries=Retries(patience=5.0))
        self._world, self._rng = world, np.random.default_rng(seed)
        self._due: list[tuple[float, int, Outcome]] = []
        self._order = count()

    def run(self, stop: threading.Event) -> None:
        """Send until the event is set."""
        start = time.monotonic()
        with self._client:
            while not stop.wait(1.0):
                try:
                    self.second(time.monotonic() - start)
                except ServiceError:
                    LOG.warning("no answer", extra={"fields": {"process": "demo", "stream": self._world.name}})

    def second(self, passed: float) -> None:
        """The predictions of one second, and the outcomes that are due.

        Parameters
        ----------
        passed
            Seconds since the beginning.
        """
        ids, scores, keys = self._world.draw(self._rng, ROWS)
        rows = [Row(id, score, KEYS[key]) for id, score, key in zip(ids, scores.tolist(), keys.tolist(), strict=True)]
        self._client.predict_many(self._world.name, rows)
        broken = passed > BREAK_SECONDS
        labels = self._world.outcomes(self._rng, scores, keys, time.time(), broken).tolist()
        for id, label in zip(ids, labels, strict=True):
            if self._rng.random() < ANSWERED:
                late = self._rng.uniform(0.1, 0.8) * HORIZON
                heapq.heappush(self._due, (passed + late, next(self._order), Outcome(id, label)))
        ready = []
        while self._due and self._due[0][0] <= passed:
            ready.append(heapq.heappop(self._due)[2])
        if ready:
            self._client.send_outcomes(self._world.name, ready)
