"""The requests of the service as values: both clients send these, and read answers with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx

from calibrant.messages import InputError, MissingPackage
from calibrant.service.client.answers import Accepted, Id, Outcome, Prediction, Row, ServiceError
from calibrant.service.client.retries import BUSY, Attempts

T = TypeVar("T")
Item = TypeVar("Item")

LARGEST_BATCH = 10_000
"""Rows that the service takes in one request."""

ARROW = "application/vnd.apache.arrow.stream"
"""The content type of a batch of columns."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request.

    Attributes
    ----------
    method, path, body
        As HTTP has them; the body is JSON, or bytes of an Arrow IPC stream.
    read
        Makes the result of the JSON answer, or of the bytes if the body was bytes.
    repeatable
        Whether sending it twice has the effect of sending it once. If not, it is tried again only if it was not sent.
    """

    method: str
    path: str
    body: Any
    read: Callable[[Any], T]
    repeatable: bool = True

    @property
    def sent(self) -> dict[str, Any]:
        """The body as arguments of httpx."""
        if isinstance(self.body, bytes):
            return {"content": self.body, "headers": {"content-type": ARROW}}
        return {"json": self.body}


def _same(document: Any) -> Any:
    return document


def _rows(document: Any) -> list[Prediction]:
    return [Prediction.of(each) for each in document["rows"]]


def _table(stream: bytes) -> Any:
    return _pyarrow().ipc.open_stream(stream).read_all()


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
        import pyarrow.ipc
    except ImportError:
        raise MissingPackage("a batch of columns", "pyarrow", "pyarrow", "predict_many does without it") from None
    return pa


def _accepted(document: Any) -> Accepted:
    return Accepted(document["accepted"], document["position"], document.get("unknown", 0))


def predict(
    stream: str, misplaced: Sequence[Any], score: float | None, id: Id | None, key: str | None, at: datetime | None
) -> Call[Prediction]:
    """One prediction; without an id it gets a random one, the same in all tries."""
    if misplaced or score is None:
        raise InputError("score", "is not given by name", "call predict(stream, id=..., score=...)")
    row = Row(uuid4() if id is None else id, score, key, at)
    return Call("POST", f"{_path(stream)}/predict", row.document(), Prediction.of)


def predictions(stream: str, rows: Sequence[Row | tuple[Any, ...]]) -> Call[list[Prediction]]:
    """One batch of predictions."""
    return Call("POST", f"{_path(stream)}/predictions", {"rows": [_item(Row, each) for each in rows]}, _rows)


def columns(stream: str, table: Any, batch: int) -> Iterator[Call[Any]]:
    """Batches of predictions as Arrow IPC streams; each answer is read as a table."""
    pa = _pyarrow()
    given = pa.table(table)
    for start in starts(given.num_rows, batch):
        part = given.slice(start, batch)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part)
        yield Call("POST", f"{_path(stream)}/predictions", sink.getvalue().to_pybytes(), _table)


def joined(tables: Sequence[Any]) -> Any:
    """One table of the answers to all batches."""
    if not tables:
        raise InputError("table", "has no rows")
    return _pyarrow().concat_tables(tables)


def outcomes(stream: str, given: Sequence[Outcome | tuple[Any, ...]]) -> Call[Accepted]:
    """One batch of outcomes."""
    documents = [_item(Outcome, each) for each in given]
    return Call("POST", f"{_path(stream)}/outcomes", {"outcomes": documents}, _accepted)


def _item(kind: type[Row] | type[Outcome], given: Any) -> dict[str, Any]:
    """The JSON form of one row."""
    if isinstance(given, tuple) and 2 <= len(given) <= len(kind._fields):
        return kind(*given).document()
    what = kind._fields[1]
    problem = f"must be a dictionary {{id: {what}}}, or rows (id, {what}), got {given!r:.80}"
    raise InputError("outcomes" if kind is Outcome else "rows", problem, f"pass {kind.__name__}(id, {what})")


def ask(*places: str) -> Call[Any]:
    """Read what is at a place below ``/v1``."""
    return Call("GET", "/".join(["/v1", *(quote(each, safe="") for each in places)]), None, _same)


def create_stream(name: str, settings: Mapping[str, Any]) -> Call[Any]:
    """A new stream."""
    return Call("POST", "/v1/streams", {"name": name, "settings": dict(settings)}, _same, repeatable=False)


def act(stream: str, action: str, body: Any = None, repeatable: bool = True) -> Call[Any]:
    """What a person decides about a stream."""
    return Call("POST", f"{_path(stream)}/{action}", {} if body is None else body, _same, repeatable)


def portions(items: Iterable[Item] | Mapping[Any, Any], size: int) -> Iterator[list[Item]]:
    """Lists of at most ``size`` items; those of a dictionary are pairs.

    Examples
    --------
    >>> list(portions("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    _check_batch(size)
    left: Iterator[Any] = iter(items.items() if isinstance(items, Mapping) else items)
    while portion := list(islice(left, size)):
        yield portion


def starts(n: int, size: int) -> range:
    """Where batches of ``n`` rows begin.

    Examples
    --------
    >>> list(starts(5, 2))
    [0, 2, 4]
    """
    _check_batch(size)
    return range(0, n, size)


def _check_batch(size: int) -> None:
    if not 1 <= size <= LARGEST_BATCH:
        raise InputError("batch", f"must be between 1 and {LARGEST_BATCH:,}, got {size}")


def read(call: Call[T], answer: httpx.Response) -> T:
    """The result of an answer; an error is raised."""
    try:
        raw = isinstance(call.body, bytes) and answer.status_code < 400
        document = answer.content if raw else answer.json()
    except ValueError:
        document = None
    if answer.status_code >= 400:
        raise ServiceError.of(answer.status_code, document)
    try:
        return call.read(document)
    except (KeyError, TypeError, ValueError):
        raise ServiceError.of(answer.status_code, None) from None


def wait_after_answer(call: Call[T], attempts: Attempts, answer: httpx.Response) -> float | None:
    """Seconds to wait before the request is sent again; None if its answer is final."""
    if answer.status_code not in BUSY or not (call.repeatable or answer.status_code == 429):
        return None
    return attempts.next_wait(answer.headers.get("retry-after"))


def wait_after_failure(call: Call[T], attempts: Attempts, error: httpx.TransportError) -> float:
    """Seconds to wait before the request is sent again; raises if it is not."""
    was_not_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    seconds = attempts.next_wait() if call.repeatable or was_not_sent else None
    if seconds is None:
        problem = "no answer came" if not was_not_sent else "the service could not be reached"
        raise ServiceError(0, "unreachable", problem=f"{problem}: {type(error).__name__}") from error
    return seconds


def settings_of_httpx(address: str, token: str | None, timeout: float) -> dict[str, Any]:
    """Arguments of the client of httpx."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return {"base_url": address, "headers": headers, "timeout": timeout}


def _path(stream: str) -> str:
    return f"/v1/streams/{quote(stream, safe='')}"
