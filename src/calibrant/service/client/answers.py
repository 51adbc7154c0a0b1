"""What is sent and what comes back, as values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from numbers import Real
from typing import Any, Literal, NamedTuple
from uuid import UUID

from calibrant.messages import InputError, Shown

Id = str | UUID
"""Text of up to 200 characters, or a UUID."""

Status = Literal["logged", "repeated", "returned", "unlogged", "conflict"]


class Row(NamedTuple):
    """A prediction to ask for.

    Attributes
    ----------
    id
        Id of the prediction; its outcome is sent under the same one.
    score
        Score of the model.
    key
        Key of a keyed stream.
    at
        Time of the prediction, with an offset; by default the time at which it arrives.

    Examples
    --------
    >>> Row("order 17", 0.31).key is None
    True
    """

    id: Id
    score: float
    key: str | None = None
    at: datetime | None = None

    def document(self) -> dict[str, Any]:
        """The JSON form; what is not given is left out."""
        if not isinstance(self.score, Real) or isinstance(self.score, bool):
            raise InputError("score", f"must be a number, got {self.score!r:.80}", "pass Row(id, score)")
        found: dict[str, Any] = {"id": _id(self.id), "score": float(self.score)}
        if self.key is not None:
            found["key"] = self.key
        if self.at is not None:
            found["at"] = moment(self.at)
        return found


class Outcome(NamedTuple):
    """An outcome to send.

    Attributes
    ----------
    id
        Id of its prediction.
    outcome
        0 or 1.
    at
        Time of the outcome, with an offset; by default the time at which it arrives.
    receipt
        The receipt that came with the prediction, in the mode ``"returned"``.

    Examples
    --------
    >>> Outcome("order 17", 1).document()
    {'id': 'order 17', 'outcome': 1}
    """

    id: Id
    outcome: int
    at: datetime | None = None
    receipt: str | None = None

    def document(self) -> dict[str, Any]:
        """The JSON form; what is not given is left out."""
        if self.outcome not in (0, 1):
            raise InputError("outcome", f"must be 0 or 1, got {self.outcome!r:.80}", "pass Outcome(id, outcome)")
        found: dict[str, Any] = {"id": _id(self.id), "outcome": int(self.outcome)}
        if self.at is not None:
            found["at"] = moment(self.at)
        if self.receipt is not None:
            found["receipt"] = self.receipt
        return found


Rows = Mapping[Id, float] | Iterable[Row | tuple[Any, ...]]
"""Predictions to ask for: scores by id, or rows."""

Outcomes = Mapping[Id, int] | Iterable[Outcome | tuple[Any, ...]]
"""Outcomes to send: by id, or rows."""


@dataclass(frozen=True)
class Prediction(Shown):
    """The answer to one score.

    Attributes
    ----------
    id
        Id of the prediction, as it was sent.
    probability
        The calibrated probability; NaN for a conflict.
    version
        Version of the map that gave it; 0 is the score itself.
    age_seconds
        Age of that version; None for the score itself, and for a repeated answer of an earlier version.
    status
        ``"logged"``: stored before it was answered. ``"repeated"``: the id was known, and this is the first answer.
        ``"returned"``: not stored; send the receipt back with the outcome. ``"unlogged"``: the database could not be
        reached; the outcome can be learned only if there is a receipt. ``"conflict"``, in a batch alone: the id is in
        use with another score, key or time.
    receipt
        Signed receipt, to be sent back with the outcome.
    interval
        Interval around the probability, where the stream gives one.
    stale
        Whether the version is older than the settings of the stream allow.
    """

    id: str
    probability: float
    version: int
    age_seconds: float | None
    status: Status
    receipt: str | None = None
    interval: tuple[float, float] | None = None
    stale: bool = False

    def __str__(self) -> str:
        """One line."""
        return f"{self.id}: {self.probability:.6g} by version {self.version} ({self.status})"

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Prediction:
        """A prediction from its JSON form; fields that a newer service adds are left out."""
        found = {each.name: document[each.name] for each in fields(cls) if each.name in document}
        if found.get("probability") is None:
            found["probability"] = math.nan
        if found.get("interval") is not None:
            low, high = found["interval"]
            found["interval"] = (low, high)
        return cls(**found)


@dataclass(frozen=True)
class Accepted(Shown):
    """Outcomes that are durable.

    Attributes
    ----------
    accepted
        How many were accepted.
    position
        Position of the last one in the log of the stream.
    unknown
        How many of the first 500 of each batch have an id of which the service has no prediction: nothing is learned
        from these, unless the prediction comes later.
    """

    accepted: int
    position: int
    unknown: int = 0

    def then(self, later: Accepted) -> Accepted:
        """These and later ones together."""
        return Accepted(self.accepted + later.accepted, later.position, self.unknown + later.unknown)

    def __str__(self) -> str:
        """One line."""
        unknown = f", {self.unknown:,} of them with unknown ids" if self.unknown else ""
        return f"{self.accepted:,} accepted{unknown}, up to position {self.position:,}"


class ServiceError(Exception):
    """An answer that is an error, or no answer at all.

    Attributes
    ----------
    status
        Status of HTTP; 0 if no answer came.
    code
        Code of the error, such as ``"conflict"``.
    argument, problem, fix
        What was wrong, and what to do.
    request_id
        Id of the request, as the logs of the service have it.

    Examples
    --------
    >>> print(ServiceError(409, "conflict", argument="id", problem="is in use with another score"))
    id is in use with another score (409 conflict)
    """

    def __init__(
        self,
        status: int,
        code: str,
        argument: str | None = None,
        problem: str = "",
        fix: str | None = None,
        request_id: str | None = None,
    ) -> None:
        self.status, self.code = status, code
        self.argument, self.problem, self.fix, self.request_id = argument, problem, fix, request_id
        sentence = " ".join(each for each in (argument, problem) if each) or "the service answered with an error"
        super().__init__(f"{sentence}{f': {fix}' if fix else ''} ({f'{status} ' if status else ''}{code})")

    @classmethod
    def of(cls, status: int, document: Any) -> ServiceError:
        """The error of an answer; one that is not from the service has the code ``"unknown"``."""
        error = document.get("error") if isinstance(document, dict) else None
        if not isinstance(error, dict):
            return cls(status, "unknown", problem="the answer is not one of the service")
        argument, problem, fix = (error.get(name) for name in ("argument", "problem", "fix"))
        code = str(error.get("code", "unknown"))
        return cls(status, code, argument, str(problem or ""), fix, document.get("request_id"))


def _id(id: Id) -> str:
    """An id as text."""
    if not isinstance(id, str | UUID):
        raise InputError("id", f"must be text or a UUID, got {id!r:.80}", "pass str(id)")
    return str(id)


def moment(time: datetime) -> str:
    """A time as RFC 3339 has it.

    Examples
    --------
    >>> from datetime import UTC
    >>> moment(datetime(2026, 5, 1, 12, tzinfo=UTC))
    '2026-05-01T12:00:00+00:00'
    """
    if time.utcoffset() is None:
        raise InputError("at", "has no time zone", "pass a time with an offset, such as datetime.now(UTC)")
    return time.isoformat()
