"""Batches as Arrow IPC streams: columns in, columns out."""

from __future__ import annotations

import struct
from typing import Any

from calibrant.service.api.bodies import LONGEST_TEXT, Row, check_key, check_skew, invalid
from calibrant.service.api.errors import Refusal
from calibrant.service.settings import Settings
from calibrant.service.store.log import id_bytes

COLUMNS = ("id", "score", "key", "at")


def read_rows(body: bytes, settings: Settings, now: int, most: int) -> list[Row]:
    """Rows from an Arrow IPC stream.

    Parameters
    ----------
    body
        A stream with the columns ``id`` (text), ``score`` (a number), and perhaps ``key`` (text) and ``at`` (a
        timestamp with a time zone). Compressed and dictionary-encoded data are refused: a small body could hold a very
        large one.
    settings
        Settings of the stream.
    now
        Time in microseconds.
    most
        Largest number of rows.

    Returns
    -------
    list
        Checked rows; what is wrong is raised as a refusal.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise Refusal(415, "no-arrow", "body", "is Arrow, which is not installed here", "send JSON") from None
    try:
        columns = _columns(_table(body, most))
    except (pa.ArrowException, OSError, ValueError, StopIteration, struct.error):
        raise invalid("body", "is not an Arrow IPC stream", "write it with pyarrow.ipc.new_stream") from None
    if not columns[0]:
        raise invalid("rows", "is empty")
    texts, scores, keys, at = columns
    try:
        fine = (
            min(scores) >= 0.0
            and max(scores) <= 1.0
            and 0 < min(map(len, texts)) <= max(map(len, texts)) <= LONGEST_TEXT
        )
        fine = fine and not any(score != score for score in scores)
    except TypeError:  # a null
        fine = False
    if not (fine and keys.count(None) == at.count(None) == len(texts)):
        for place, (text, score, key, t) in enumerate(zip(*columns, strict=True)):
            _check(text, score, key, t, settings, now, f"rows[{place}].")
    return list(map(Row._make, zip(texts, map(id_bytes, texts), scores, keys, at, strict=True)))


def write_rows(rows: list[Row], answers: list[Any], ages: dict[int, float | None], stale: bool) -> bytes:
    """The answers as an Arrow IPC stream: id, probability, version, age_seconds, status, receipt, stale.

    Parameters
    ----------
    rows, answers
        What was asked, and the answer to each.
    ages
        Ages of the versions that are served now, by their numbers.
    stale
        Whether it is older than the limit.

    Returns
    -------
    bytes
        The stream.
    """
    import pyarrow as pa

    probabilities, versions, statuses, receipts = zip(*answers, strict=True)
    columns = {
        "id": pa.array([row.text for row in rows], pa.string()),
        "probability": pa.array(
            [None if status == "conflict" else p for p, status in zip(probabilities, statuses, strict=True)],
            pa.float64(),
        ),
        "version": pa.array(versions, pa.int32()),
        "age_seconds": pa.array([ages.get(each) for each in versions], pa.float64()),
        "status": pa.array(statuses, pa.string()),
        "receipt": pa.array(receipts, pa.string()),
        "stale": pa.array([stale] * len(rows), pa.bool_()),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _table(body: bytes, most: int) -> Any:
    """All batches of a stream, whose sizes are checked before they are read."""
    import pyarrow as pa

    messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
    schema = pa.ipc.read_schema(messages.read_next_message())
    batches, n = [], 0
    for message in messages:
        if message.type != "record batch" or is_compressed(message.metadata.to_pybytes()):
            raise invalid("body", "has compressed or dictionary-encoded data", "write plain columns")
        batch = pa.ipc.read_record_batch(message, schema)
        n += batch.num_rows
        if n > most:
            raise Refusal(413, "too-many-rows", "rows", f"has more than {most:,} rows", "send batches")
        batch.validate(full=True)
        batches.append(batch)
    return pa.Table.from_batches(batches, schema)


def is_compressed(metadata: bytes) -> bool:
    """Whether the record batch that a message describes is compressed.

    The description is a FlatBuffer: a message, whose field 2 is the record batch, whose field 3 is the compression.
    """
    message = struct.unpack_from("<I", metadata, 0)[0]
    header = _field(metadata, message, 2)
    if header is None:
        raise ValueError("no header")
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return _field(metadata, batch, 3) is not None


def _field(buffer: bytes, table: int, number: int) -> int | None:
    """Where a field of a table of a FlatBuffer is; None if it is not there."""
    start = table - struct.unpack_from("<i", buffer, table)[0]
    if start < 0:
        raise ValueError("outside")
    size = struct.unpack_from("<H", buffer, start)[0]
    if 4 + 2 * number >= size:
        return None
    offset = struct.unpack_from("<H", buffer, start + 4 + 2 * number)[0]
    return table + offset if offset else None


def _columns(table: Any) -> list[list[Any]]:
    """The four columns as lists; those that are not there are None."""
    import pyarrow as pa

    names = table.column_names
    if len(set(names)) < len(names) or not {"id", "score"} <= set(names) <= set(COLUMNS):
        raise invalid("body", "must have the columns id and score", f"and no others than {', '.join(COLUMNS)}")
    n, types = table.num_rows, pa.types
    found: list[list[Any]] = []
    for name, wanted in zip(COLUMNS, (pa.string(), pa.float64(), pa.string(), pa.timestamp("us", "UTC")), strict=True):
        if name not in names:
            found.append([None] * n)
            continue
        column = table.column(name)
        given = column.type
        text = types.is_string(given) or types.is_large_string(given) or types.is_string_view(given)
        number = types.is_floating(given) or types.is_integer(given)
        timed = types.is_timestamp(given) and given.tz is not None
        if not {"id": text, "key": text or types.is_null(given), "score": number, "at": timed or types.is_null(given)}[
            name
        ]:
            raise invalid(name, f"has the type {str(given)[:50]}", f"send {wanted}")
        try:
            column = column.cast(wanted)
        except pa.ArrowException:
            raise invalid(name, f"cannot be read as {wanted}") from None
        found.append((column.cast(pa.int64()) if name == "at" else column).to_pylist())
    return found


def _check(
    text: str | None, score: float | None, key: str | None, at: int | None, settings: Settings, now: int, where: str
) -> None:
    """Refuse a row that is wrong."""
    if text is None or not 0 < len(text) <= LONGEST_TEXT:
        raise invalid(f"{where}id", f"must be text of 1 to {LONGEST_TEXT} characters")
    if score is None or not 0.0 <= score <= 1.0:
        raise invalid(f"{where}score", "must be a number from 0 to 1", "send the probability of the model")
    if key is not None:
        check_key(key, where)
    if at is not None:
        check_skew(at, now, settings, where)
