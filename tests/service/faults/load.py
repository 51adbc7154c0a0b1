"""Clients that send predictions, outcomes and decisions, repeat what was not answered, and remember what was."""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from calibrant.service.settings import Settings

TIMEOUT = 15.0
STREAM = "/v1/streams/clicks"

OPERATIONS = {"erase": 5, "canary": 3, "end the canary": 1, "resume": 2, "settings": 1, "gap": 1}
"""Weights of what a person decides now and then."""


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
    earlier
        Ids with answers that they had before: of an id that was erased, or whose day was dropped.
    receipts
        Probability, version and receipt of each id that was answered by a receipt.
    outcomes_sent, outcomes_acknowledged
        How often the outcome of each id was sent, and how often that was acknowledged.
    actions
        What each decision said that was acknowledged, by its position.
    counts
        Requests by what came of them.
    """

    answers: dict[str, tuple[float, int]] = field(default_factory=dict)
    earlier: list[tuple[str, tuple[float, int]]] = field(default_factory=list)
    receipts: dict[str, tuple[float, int, str]] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    outcomes_sent: Counter[str] = field(default_factory=Counter)
    outcomes_acknowledged: Counter[str] = field(default_factory=Counter)
    actions: dict[int, dict[str, Any]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def all_answers(self) -> list[tuple[str, tuple[float, int]]]:
        """Ids with their answers, also those of before."""
        return [*self.earlier, *self.answers.items()]


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
    decides
        Share of rounds in which it decides something, as a person would: see :data:`OPERATIONS`.
    settings
        Settings of the stream; a decision about them changes the tolerance, so that the monitor and trials begin anew.
    """

    def __init__(
        self, number: int, ports: list[int], token: str, pause: float = 0.02, *, keep: bool = True, keyed: bool = False,
        decides: float = 0.0, settings: Settings | None = None,
    ) -> None:  # fmt: skip
        super().__init__(daemon=True)
        self.client, self.ports, self.token, self.pause, self.keep = number, ports, token, pause, keep
        self.keyed, self.decides, self.settings = keyed, decides, settings
        self.rng = random.Random(number)
        self.known = Remembered()
        self.ended = threading.Event()
        self.connections: dict[int, http.client.HTTPConnection] = {}
        self.made = self.newest = 0
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
            if self.decides and not self.known.actions:
                self.erase()  # one at least
            elif self.rng.random() < self.decides:
                self.decide(self.rng.choices(list(OPERATIONS), list(OPERATIONS.values()))[0])
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
            if answer["status"] in ("logged", "returned"):
                self.newest = max(self.newest, answer["version"])
            if answer["status"] == "returned":
                self.known.receipts[answer["id"]] = (answer["probability"], answer["version"], answer["receipt"])
                self.waiting.append((time.monotonic() + self.rng.random() * 3.0, answer["id"]))
            if answer["status"] not in ("logged", "repeated"):
                continue
            value = (answer["probability"], answer["version"])
            id = answer["id"]
            if self.known.answers.get(id, value) != value:
                self.known.earlier.append((id, self.known.answers[id]))
            self.known.answers[id] = value
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

    def decide(self, operation: str) -> None:
        """Decide something about the stream, until it is acknowledged or refused."""
        if operation == "erase":
            self.erase()
        elif operation == "resume":
            self.act("resume", {})
        elif operation == "settings" and self.settings is not None:
            tolerance = self.settings.tolerance * self.rng.choice([1.0, 1.25])
            self.act("settings", replace(self.settings, tolerance=tolerance).document())
        elif operation == "gap":
            self.act("gap", {"was": self.rng.choice(["silent", "lost"])})
        elif operation == "end the canary":
            self.act("canary", {"version": None})
        else:
            listed = self.ask("/versions?limit=3", None)
            newest = [each["number"] for each in listed["versions"]] if listed else []
            if newest:
                self.act("canary", {"version": self.rng.choice(newest), "share": self.rng.choice([0.0, 0.2, 0.5])})

    def erase(self) -> None:
        """Erase an id of its own; some are sent again afterwards."""
        known = list(self.known.answers or self.known.receipts)[-200:]
        if not known:
            return
        id = self.rng.choice(known)
        if id in self.known.answers:  # from now on the id may be free
            self.known.earlier.append((id, self.known.answers.pop(id)))
        self.act("erase", {"id": id})
        if self.rng.random() < 0.5 and id not in self.known.receipts:
            self.predict([id])

    def act(self, action: str, document: dict[str, Any]) -> None:
        """Send a decision, and remember what was acknowledged."""
        found = self.ask(f"/{action}", document)
        if found is not None and "position" in found:
            self.known.counts[f"{action} acknowledged"] += 1
            said = {"erase": lambda: {"id": UUID(document["id"]).hex}, "settings": lambda: {"settings": document}}
            self.known.actions[found["position"]] = {"action": action} | said.get(action, lambda: document)()

    def ask(self, path: str, document: Any, outcomes: Sequence[str] = (), tries: int = 40) -> Any:
        """Ask one server after the other until one answers; None if none does. Each try is counted.

        A document is sent as JSON. What is refused with 422 (an expired receipt, a canary that is served already) is
        an answer with the argument that is refused.
        """
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
                body = None if document is None else json.dumps(document)
                method = "GET" if body is None else "PUT" if path == "/settings" else "POST"
                connection.request(method, STREAM + path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException):
                self.known.counts["no answer"] += 1
                self.connections.pop(port).close()
                self.ended.wait(0.1)
                continue
            self.known.counts[f"status {answer.status}"] += 1
            if answer.status in (200, 202):
                return json.loads(content)
            if answer.status == 422 and (path == "/canary" or (path == "/outcomes" and self.known.receipts)):
                return {"refused": json.loads(content)["error"]["argument"]}
            if answer.status < 500 and answer.status != 429:
                raise AssertionError(f"{answer.status} for {path}: {content[:300]!r}")
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
