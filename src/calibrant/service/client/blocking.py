"""The blocking client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, Never, Self, TypeVar

import httpx

from calibrant.service.client import calls
from calibrant.service.client.answers import Accepted, Id, Outcomes, Prediction, Rows
from calibrant.service.client.calls import LARGEST_BATCH, Call
from calibrant.service.client.retries import Attempts, Retries

T = TypeVar("T")


class Client:
    """A client of the live service.

    A request that got no answer, or the answer that the service is busy, is sent again with growing waits. That is
    safe: a prediction with the same id gets the answer that was logged, and a repeated outcome changes nothing. What
    would do harm twice, such as a roll-back, is sent again only if it was not sent before.

    Parameters
    ----------
    address
        Address of the service, such as ``"https://calibrant.example.org"``.
    token
        Token with the scopes that are needed: predict, label, read or admin.
    timeout
        Seconds to wait for one answer.
    retries
        When to try again; ``Retries(patience=0)`` never does.

    Examples
    --------
    >>> client = Client("http://localhost:8000", token="cal_...")
    >>> print(client.predict("clicks", id="order 17", score=0.31))  # doctest: +SKIP
    order 17: 0.2871 by version 12 (logged)
    """

    def __init__(
        self, address: str, token: str | None = None, *, timeout: float = 10.0, retries: Retries | None = None
    ) -> None:
        self.retries = retries or Retries()
        self._http = httpx.Client(**calls.settings_of_httpx(address, token, timeout))

    def predict(
        self, stream: str, *misplaced: Never, score: float | None = None, id: Id | None = None, key: str | None = None,
        at: datetime | None = None,
    ) -> Prediction:  # fmt: skip
        """Ask for one probability; score and id are given by name, so that they cannot be confused.

        Parameters
        ----------
        stream
            Name of the stream.
        score
            Score of the model.
        id
            Id under which the outcome will be sent; by default a random UUID, which the answer has.
        key
            Key, in a keyed stream.
        at
            Time of the prediction, with an offset.

        Returns
        -------
        Prediction
            Probability, version and status.
        """
        return self.send(calls.predict(stream, misplaced, score, id, key, at))

    def predict_many(self, stream: str, rows: Rows, *, batch: int = LARGEST_BATCH) -> list[Prediction]:
        """Ask for many probabilities, in batches.

        Parameters
        ----------
        stream
            Name of the stream.
        rows
            A dictionary ``{id: score}``, or :class:`Row`, or tuples of id, score and optionally key and time.
        batch
            Rows of one request, at most 10,000.

        Returns
        -------
        list of Prediction
            In the order of the rows.
        """
        return list(self.iter_predictions(stream, rows, batch=batch))

    def iter_predictions(self, stream: str, rows: Rows, *, batch: int = LARGEST_BATCH) -> Iterator[Prediction]:
        """The same as :meth:`predict_many`, one batch in memory at a time."""
        for portion in calls.portions(rows, batch):
            yield from self.send(calls.predictions(stream, portion))

    def predict_table(self, stream: str, table: Any, *, batch: int = LARGEST_BATCH) -> Any:
        """Ask for many probabilities as columns, which is the fastest way. Needs pyarrow, here and in the service.

        Parameters
        ----------
        stream
            Name of the stream.
        table
            A table of Arrow, or a frame or dictionary that pyarrow takes as one: the columns ``id`` (text) and
            ``score``, and perhaps ``key`` (text) and ``at`` (timestamps with a time zone).
        batch
            Rows of one request, at most 10,000.

        Returns
        -------
        pyarrow.Table
            In the order of the rows: ``id``, ``probability``, ``version``, ``age_seconds``, ``status``, ``receipt`` and
            ``stale``, as in :class:`Prediction`; the probability of a conflict is null.
        """
        return calls.joined([self.send(each) for each in calls.columns(stream, table, batch)])

    def send_outcomes(self, stream: str, outcomes: Outcomes, *, batch: int = LARGEST_BATCH) -> Accepted:
        """Send outcomes in batches; they are durable when this returns.

        If a batch fails, those before it are durable. All may be sent again: a repeated outcome changes nothing.

        Parameters
        ----------
        stream
            Name of the stream.
        outcomes
            A dictionary ``{id: outcome}``, or :class:`Outcome`, or tuples of id, outcome and optionally time, receipt.
        batch
            Outcomes of one request, at most 10,000.

        Returns
        -------
        Accepted
            How many, and the position of the last.
        """
        total = Accepted(0, 0)
        for portion in calls.portions(outcomes, batch):
            total = total.then(self.send(calls.outcomes(stream, portion)))
        return total

    def complete(self, stream: str, until: datetime) -> Any:
        """Say that all outcomes of rows whose horizon ends by a time with an offset were sent; there may be none.

        For streams on which silence is negative. Needs the scope label.
        """
        return self.send(calls.act(stream, "outcomes", {"complete": until.isoformat()}))

    def gap(self, stream: str, was: Literal["silent", "lost"]) -> Any:
        """Say that outcomes did not come since there were none (silent), or that they were lost.

        Needs the scope admin. The gap is from the last outcome until now; the HTTP interface also takes other times.
        """
        return self.send(calls.act(stream, "gap", {"was": was}, repeatable=False))

    def streams(self) -> Any:
        """The streams that the token may read."""
        return self.send(calls.ask("streams"))

    def stream(self, stream: str) -> Any:
        """Settings and report of a stream."""
        return self.send(calls.ask("streams", stream))

    def versions(self, stream: str) -> Any:
        """The versions of a stream."""
        return self.send(calls.ask("streams", stream, "versions"))

    def create_stream(self, name: str, settings: Mapping[str, Any]) -> Any:
        """Make a new stream; ``settings`` needs at least a horizon in seconds. Needs the scope admin."""
        return self.send(calls.create_stream(name, settings))

    def promote(self, stream: str, version: int) -> Any:
        """Serve a version from now on. Needs the scope admin."""
        return self.send(calls.act(stream, f"versions/{int(version)}/promote"))

    def pin(self, stream: str, version: int | None) -> Any:
        """Serve one version until further notice, or none in particular with None. Needs the scope admin."""
        return self.send(calls.act(stream, "pin", {"version": version}))

    def canary(self, stream: str, version: int | None, share: float = 0.0) -> Any:
        """Try a version on a share of the ids, or compare it only (0) with what is served; None ends it.

        Needs the scope admin.
        """
        return self.send(calls.act(stream, "canary", {"version": version, "share": share}))

    def roll_back(self, stream: str) -> Any:
        """Serve the version that was served before. Needs the scope admin."""
        return self.send(calls.act(stream, "roll-back", repeatable=False))

    def resume(self, stream: str) -> Any:
        """Allow automatic promotions again. Needs the scope admin."""
        return self.send(calls.act(stream, "resume"))

    def send(self, call: Call[T]) -> T:
        """Send a request of :mod:`calibrant.service.client.calls`, again if needed, and read its answer."""
        attempts = Attempts(self.retries)
        while True:
            try:
                answer = self._http.request(call.method, call.path, **call.sent)
            except httpx.TransportError as error:
                time.sleep(calls.wait_after_failure(call, attempts, error))
                continue
            seconds = calls.wait_after_answer(call, attempts, answer)
            if seconds is None:
                return calls.read(call, answer)
            time.sleep(seconds)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
