"""Batches as Arrow IPC streams: columns in, columns out."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.service.api.bodies import LONGEST_TEXT, Row, check_fields, check_key, check_skew, invalid
from calibrant.service.api.errors import Refusal
from calibrant.service.settings import Settings
from calibrant.service.store.log import id_bytes

COLUMNS = ("id", "score", "key", "at")

MOST_BATCHES = 1_000  # with those that are empty

HYPHENS = [8, 13, 18, 23]
"""Where the text of a UUID has them."""

OF_HEX = np.full(256, 255, dtype=np.uint8)
"""Values of hexadecimal digits; 255 for other bytes."""
OF_HEX[list(b"0123456789abcdef")] = range(16)
OF_HEX[list(b"ABCDEF")] = range(10, 16)


class Columns(NamedTuple):
    """Rows of an Arrow batch, by column, checked.

    Attributes
    ----------
    texts
        Ids, as an Arrow array of text.
    scores
        Scores.
    keys, at
        Keys, and times in microseconds; None if no row has one.
    """

    texts: Any
    scores: NDArray[np.float64]
    keys: list[str | None] | None
    at: list[int | None] | None

    def __len__(self) -> int:
        return len(self.scores)

    def ids(self) -> bytes:
        """The ids as they are kept, 16 bytes each; those of UUIDs are read all at once."""
        n, (_, offsets, data) = len(self), self.texts.buffers()
        ends = np.frombuffer(offsets, dtype=np.int32, count=n + 1, offset=4 * self.texts.offset)
        if (np.diff(ends) == 36).all():
            found = np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]].reshape(n, 36)
            digits = OF_HEX[np.delete(found, HYPHENS, axis=1)]
            if (found[:, HYPHENS] == ord("-")).all() and (digits < 16).all():
                return (digits[:, 0::2] * 16 + digits[:, 1::2]).tobytes()
        return b"".join(map(id_bytes, self.texts.to_pylist()))

    def rows(self) -> list[Row]:
        """The same as rows."""
        raw, n = self.ids(), len(self)
        ids = [raw[start : start + 16] for start in range(0, 16 * n, 16)]
        keys, at = ([None] * n if each is None else each for each in (self.keys, self.at))
        return list(map(Row._make, zip(self.texts.to_pylist(), ids, self.scores.tolist(), keys, at, strict=True)))


def read_columns(body: bytes, settings: Settings, now: int, most: int) -> Columns:
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
    Columns
        Checked rows; what is wrong is raised as a refusal.
    """
    try:
        import pyarrow as pa
        import pyarrow.compute
    except ImportError:
        raise Refusal(415, "no-arrow", "body", "is Arrow, which is not installed here", "send JSON") from None
    try:
        columns = _columns(_table(body, most))
    except (pa.ArrowException, OSError, ValueError, StopIteration, struct.error):
        raise invalid("body", "is not an Arrow IPC stream", "write it with pyarrow.ipc.new_stream") from None
    texts, scores, keys, at = columns
    if not len(texts):
        raise invalid("rows", "is empty")
    lengths = pa.compute.min_max(pa.compute.utf8_length(texts)).as_py()
    values = scores.to_numpy(zero_copy_only=False)
    fine = texts.null_count == scores.null_count == 0 and ((values >= 0.0) & (values <= 1.0)).all()
    fine = fine and 0 < lengths["min"] <= lengths["max"] <= LONGEST_TEXT
    given = [None if each is None or each.null_count == len(each) else each.to_pylist() for each in (keys, at)]
    if not fine or given != [None, None]:
        others = [[None] * len(texts) if each is None else each for each in given]
        for place, (text, score, key, t) in enumerate(zip(texts.to_pylist(), scores.to_pylist(), *others, strict=True)):
            _check(text, score, key, t, settings, now, f"rows[{place}].")
    return Columns(texts, values, *given)


def read_rows(body: bytes, settings: Settings, now: int, most: int) -> list[Row]:
    """The rows of :func:`read_columns`, one by one."""
    return read_columns(body, settings, now, most).rows()


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
    found = [None if status == "conflict" else p for p, status in zip(probabilities, statuses, strict=True)]
    texts = pa.array([row.text for row in rows], pa.string())
    said = pa.array(statuses, pa.string()), pa.array(receipts, pa.string())
    return _written(texts, found, versions, ages, *said, stale)


def write_returned(
    columns: Columns, found: list[float], versions: list[int], ages: dict[int, float | None], receipts: bytes,
    stale: bool,
) -> bytes:  # fmt: skip
    """The same for rows with receipts of one length, which are given one after the other."""
    return _written(
        columns.texts, found, versions, ages, _of_one_length(b"returned" * len(columns), len(columns)),
        _of_one_length(receipts, len(columns)), stale,
    )  # fmt: skip


def _of_one_length(joined: bytes, n: int) -> Any:
    """An array of n texts of the same length."""
    import pyarrow as pa

    ends = np.arange(n + 1, dtype=np.int32) * np.int32(len(joined) // n)
    return pa.StringArray.from_buffers(n, pa.py_buffer(ends), pa.py_buffer(joined))


def _written(
    texts: Any, probabilities: Sequence[float | None], versions: Sequence[int], ages: dict[int, float | None],
    statuses: Any, receipts: Any, stale: bool,
) -> bytes:  # fmt: skip
    import pyarrow as pa

    columns = {
        "id": texts,
        "probability": pa.array(probabilities, pa.float64()),
        "version": pa.array(versions, pa.int32()),
        "age_seconds": pa.array([ages.get(each) for each in versions], pa.float64()),
        "status": statuses,
        "receipt": receipts,
        "stale": pa.array([stale] * len(texts), pa.bool_()),
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
    check_fields(dict.fromkeys(schema.names), ("id", "score"), COLUMNS, "")
    batches, n = [], 0
    for place, message in enumerate(messages):
        if place == MOST_BATCHES:
            raise Refusal(413, "too-many-rows", "body", f"has more than {MOST_BATCHES:,} batches", "write larger ones")
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


def _columns(table: Any) -> list[Any]:
    """The four columns as arrays; those that are not there are None."""
    import pyarrow as pa

    names, types = table.column_names, pa.types
    if len(set(names)) < len(names):
        raise invalid("body", "has a column twice", "send each once")
    found: list[Any] = []
    for name, wanted in zip(COLUMNS, (pa.string(), pa.float64(), pa.string(), pa.timestamp("us", "UTC")), strict=True):
        if name not in names:
            found.append(None)
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
        column = column.cast(pa.int64()) if name == "at" else column
        found.append(pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0))
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
