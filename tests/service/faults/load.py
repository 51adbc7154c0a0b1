"""Clients that send predictions and outcomes, repeat what was not answered, and remember what was."""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

TIMEOUT = 15.0
STREAM = "/v1/streams/clicks"


def score_of(id: str) -> float:
    """The score of an id: the same whenever it is sent."""
    return (hashlib.blake2b(id.encode(), digest_size=4).digest()[0] + 0.5) / 256


def key_of(id: str) -> str:
    """The key of an id: the same whenever it is sent."""
    return f"key {hashlib.blake2b(id.encode(), digest_size=4).digest()[2] % 5}"


def label_of(id: str) -> int:
    """The outcome of an id: the same whenever it is sent."""
    return int(hashlib.blake2b(id.encode(), digest_size=4).digest()[1] < 40 + 150 * score_of(id))


@dataclass
class Remembered:
    """What clients know.

    Attributes
    ----------
    answers
        Probability and version of each id that was answered as logged.
    receipts
        Probability, version and receipt of each id that was answered by a receipt.
    outcomes_sent, outcomes_acknowledged
        How often the outcome of each id was sent, and how often that was acknowledged.
    counts
        Requests by what came of them.
    different
        Ids that were answered in two ways.
    """

    answers: dict[str, tuple[float, int]] = field(default_factory=dict)
    receipts: dict[str, tuple[float, int, str]] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    outcomes_sent: Counter[str] = field(default_factory=Counter)
    outcomes_acknowledged: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)


class Client(threading.Thread):
    """One client; its ids begin with its number.

    Parameters
    ----------
    number
        Which client it is.
    ports
        Where servers listen.
    token
        Sent with each request.
    pause
        Seconds between two rounds.
    keep
        Whether to remember each id; without it, memory does not grow.
    keyed
        Whether to send keys.
    """

    def __init__(
        self, number: int, ports: list[int], token: str, pause: float = 0.02, *, keep: bool = True, keyed: bool = False
    ) -> None:
        super().__init__(daemon=True)
        self.client, self.ports, self.token, self.pause, self.keep = number, ports, token, pause, keep
        self.keyed = keyed
        self.rng = random.Random(number)
        self.known = Remembered()
        self.ended = threading.Event()
        self.connections: dict[int, http.client.HTTPConnection] = {}
        self.made = 0
        self.waiting: deque[tuple[float, str]] = deque()

    def run(self) -> None:
        """Predict, send outcomes of before, ask again for some."""
        while not self.ended.is_set():
            fresh = [self._new_id() for _ in range(self.rng.choice([1, 1, 5, 20]))]
            self.predict(fresh)
            now = time.monotonic()
            due = []
            while self.waiting and self.waiting[0][0] <= now and len(due) < 100:
                due.append(self.waiting.popleft()[1])
            if due:
                self.tell(due)
            if self.known.answers and self.rng.random() < 0.2:
                self.predict(self.rng.sample(list(self.known.answers)[-200:], k=min(3, len(self.known.answers))))
            time.sleep(self.pause)

    def _new_id(self) -> str:
        self.made += 1
        return str(UUID(int=(self.client << 64) + self.made))

    def predict(self, ids: list[str]) -> None:
        """Ask until the answer is there, and remember it."""
        if self.keep:
            self.known.sent |= set(ids)
        keys = [{"key": key_of(id)} if self.keyed else {} for id in ids]
        rows = [{"id": id, "score": score_of(id)} | key for id, key in zip(ids, keys, strict=True)]
        single = len(rows) == 1
        found = self.ask("/predict" if single else "/predictions", rows[0] if single else {"rows": rows})
        if found is None:
            return
        for answer in [found] if single else found["rows"]:
            self.known.counts[answer["status"]] += 1
            if answer["status"] == "returned":
                self.known.receipts[answer["id"]] = (answer["probability"], answer["version"], answer["receipt"])
                self.waiting.append((time.monotonic() + self.rng.random() * 3.0, answer["id"]))
            if answer["status"] not in ("logged", "repeated"):
                continue
            value = (answer["probability"], answer["version"])
            id = answer["id"]
            if self.known.answers.setdefault(id, value) != value:
                self.known.different.append(id)
            if answer["status"] == "logged" and self.rng.random() < 0.7:
                self.waiting.append((time.monotonic() + self.rng.random() * 3.0, id))
        if not self.keep and len(self.known.answers) > 1_000:
            self.known.answers.clear()

    def tell(self, ids: list[str]) -> None:
        """Send outcomes until they are acknowledged."""
        given = [{"receipt": self.known.receipts[id][2]} if id in self.known.receipts else {} for id in ids]
        rows = [{"id": id, "outcome": label_of(id)} | receipt for id, receipt in zip(ids, given, strict=True)]
        found = self.ask("/outcomes", {"outcomes": rows}, ids if self.keep else [])
        if found is not None and "refused" in found:  # the whole request: send it without the one that has expired
            self.known.counts["receipts refused"] += 1
            rest = [id for k, id in enumerate(ids) if found["refused"] != f"outcomes[{k}].receipt"]
            self.waiting.extend((time.monotonic(), id) for id in rest)
        elif found is not None:
            self.known.counts["outcomes acknowledged"] += len(ids)
            if self.keep:
                self.known.outcomes_acknowledged.update(ids)
            if self.rng.random() < 0.1:  # an answer that the client forgot
                self.waiting.extend((time.monotonic(), id) for id in ids)
        else:
            self.waiting.extend((time.monotonic(), id) for id in ids)

    def ask(self, path: str, document: Any, outcomes: Sequence[str] = (), tries: int = 40) -> Any:
        """Post JSON to one server after the other until one answers; None if none does. Each try is counted."""
        for k in range(tries):
            if self.ended.is_set() and k > 3:
                return None
            port = self.rng.choice(self.ports)
            self.known.outcomes_sent.update(outcomes)
            try:
                connection = self.connections.get(port)
                if connection is None:
                    connection = self.connections[port] = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
                headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
                connection.request("POST", STREAM + path, json.dumps(document), headers)
                answer = connection.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException):
                self.known.counts["no answer"] += 1
                self.connections.pop(port).close()
                self.ended.wait(0.1)
                continue
            self.known.counts[f"status {answer.status}"] += 1
            if answer.status == 200:
                return json.loads(body)
            if answer.status == 422 and path == "/outcomes" and self.known.receipts:
                return {"refused": json.loads(body)["error"]["argument"]}
            if answer.status < 500 and answer.status != 429:
                raise AssertionError(f"{answer.status} for {path}: {body[:300]!r}")
            self.ended.wait(0.2)
        return None

    def end(self) -> None:
        """Finish the request, and stop."""
        self.ended.set()
        self.join(2 * TIMEOUT)

    def close(self) -> None:
        """End its connections."""
        for each in self.connections.values():
            each.close()
