"""The asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, Literal, Never, Self, TypeVar

import httpx

from calibrant.service.client import calls
from calibrant.service.client.answers import Accepted, Id, Outcomes, Prediction, Rows
from calibrant.service.client.calls import LARGEST_BATCH, Call
from calibrant.service.client.retries import Attempts, Retries

T = TypeVar("T")


class AsyncClient:
    """The client of the live service for asyncio; its methods are those of :class:`Client`.

    Parameters
    ----------
    address, token, timeout, retries
        As in :class:`Client`.

    Examples
    --------
    >>> client = AsyncClient("http://localhost:8000", token="cal_...")
    >>> print(await client.predict("clicks", id="order 17", score=0.31))  # doctest: +SKIP
    order 17: 0.2871 by version 12 (logged)
    """

    def __init__(
        self, address: str, token: str | None = None, *, timeout: float = 10.0, retries: Retries | None = None
    ) -> None:
        self.retries = retries or Retries()
        self._http = httpx.AsyncClient(**calls.settings_of_httpx(address, token, timeout))

    async def predict(
        self, stream: str, *misplaced: Never, score: float | None = None, id: Id | None = None, key: str | None = None,
        at: datetime | None = None,
    ) -> Prediction:  # fmt: skip
        """Ask for one probability, as :meth:`Client.predict`."""
        return await self.send(calls.predict(stream, misplaced, score, id, key, at))

    async def predict_many(self, stream: str, rows: Rows, *, batch: int = LARGEST_BATCH) -> list[Prediction]:
        """Ask for many probabilities in batches, as :meth:`Client.predict_many`."""
        return [each async for each in self.iter_predictions(stream, rows, batch=batch)]

    async def iter_predictions(
        self, stream: str, rows: Rows, *, batch: int = LARGEST_BATCH
    ) -> AsyncIterator[Prediction]:
        """The same as :meth:`predict_many`, one batch in memory at a time."""
        for portion in calls.portions(rows, batch):
            for each in await self.send(calls.predictions(stream, portion)):
                yield each

    async def predict_table(self, stream: str, table: Any, *, batch: int = LARGEST_BATCH) -> Any:
        """Ask for many probabilities as columns, as :meth:`Client.predict_table`."""
        return calls.joined([await self.send(each) for each in calls.columns(stream, table, batch)])

    async def send_outcomes(self, stream: str, outcomes: Outcomes, *, batch: int = LARGEST_BATCH) -> Accepted:
        """Send outcomes in batches, as :meth:`Client.send_outcomes`; they are durable when this returns."""
        total = Accepted(0, 0)
        for portion in calls.portions(outcomes, batch):
            total = total.then(await self.send(calls.outcomes(stream, portion)))
        return total

    async def complete(self, stream: str, until: datetime) -> Any:
        """Say that all outcomes up to a time were sent, as :meth:`Client.complete`."""
        return await self.send(calls.act(stream, "outcomes", {"complete": until.isoformat()}))

    async def gap(self, stream: str, was: Literal["silent", "lost"]) -> Any:
        """Say what a gap of the outcomes was, as :meth:`Client.gap`."""
        return await self.send(calls.act(stream, "gap", {"was": was}, repeatable=False))

    async def streams(self) -> Any:
        """The streams that the token may read."""
        return await self.send(calls.ask("streams"))

    async def stream(self, stream: str) -> Any:
        """Settings and report of a stream."""
        return await self.send(calls.ask("streams", stream))

    async def versions(self, stream: str) -> Any:
        """The versions of a stream."""
        return await self.send(calls.ask("streams", stream, "versions"))

    async def create_stream(self, name: str, settings: Mapping[str, Any]) -> Any:
        """Make a new stream, as :meth:`Client.create_stream`."""
        return await self.send(calls.create_stream(name, settings))

    async def promote(self, stream: str, version: int) -> Any:
        """Serve a version from now on. Needs the scope admin."""
        return await self.send(calls.act(stream, f"versions/{int(version)}/promote"))

    async def pin(self, stream: str, version: int | None) -> Any:
        """Serve one version until further notice, or none in particular with None. Needs the scope admin."""
        return await self.send(calls.act(stream, "pin", {"version": version}))

    async def canary(self, stream: str, version: int | None, share: float = 0.0) -> Any:
        """Try a version on a share of the ids, or compare it only (0) with what is served; None ends it.

        Needs the scope admin.
        """
        return await self.send(calls.act(stream, "canary", {"version": version, "share": share}))

    async def roll_back(self, stream: str) -> Any:
        """Serve the version that was served before. Needs the scope admin."""
        return await self.send(calls.act(stream, "roll-back", repeatable=False))

    async def resume(self, stream: str) -> Any:
        """Allow automatic promotions again. Needs the scope admin."""
        return await self.send(calls.act(stream, "resume"))

    async def send(self, call: Call[T]) -> T:
        """Send a request of :mod:`calibrant.service.client.calls`, again if needed, and read its answer."""
        attempts = Attempts(self.retries)
        while True:
            try:
                answer = await self._http.request(call.method, call.path, **call.sent)
            except httpx.TransportError as error:
                await asyncio.sleep(calls.wait_after_failure(call, attempts, error))
                continue
            seconds = calls.wait_after_answer(call, attempts, answer)
            if seconds is None:
                return calls.read(call, answer)
            await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
