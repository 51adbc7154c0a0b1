"""Stored form of a bank: keys in their order, their records as plain arrays, and checks of what is read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.live.bank.keys import KeyKind, KeyTable, KeyValues
from calibrant.live.bank.steps import CHANGED, EVENTS, JAA, JAB, JBB, ROWS, WIDTH
from calibrant.live.snapshots import damaged
from calibrant.numerics import Floats, Ints
from calibrant.online.limits import MAX_ROWS, SLACK

ARRAYS: dict[str, Any] = {"records": np.float64, "integers": np.int64, "lengths": np.int32, "text": np.uint8}
"""Arrays of a state: 7 numbers for each key; integer keys; lengths and bytes of keys that are text."""

KINDS: tuple[KeyKind, ...] = ("integers", "text")


def written(
    tables: tuple[KeyTable, ...], places: list[Ints], records: Floats, since: int | None
) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
    """What a head holds about the keys, and the arrays; only keys that changed after version ``since``, if given."""
    heads: list[dict[str, Any]] = []
    rows, integers, lengths, text = [np.zeros((0, CHANGED))], [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [b""]
    for table, its in zip(tables, places, strict=True):
        codes = table.in_order()
        if since is not None:
            codes = codes[records.reshape(-1, WIDTH)[its[codes], CHANGED] > since]
        rows.append(records.reshape(-1, WIDTH)[its[codes], :CHANGED])
        heads.append({"keys": len(codes), "kinds": [part.kind or "integers" for part in table.parts]})
        for part, of_keys in zip(table.parts, table.part_codes(), strict=True):
            values = part.values
            if isinstance(values, list):
                encoded = [values[code].encode() for code in of_keys[codes].tolist()]
                lengths.append(np.array([len(each) for each in encoded], dtype=np.int32))
                text.extend(encoded)
            else:
                integers.append(values[of_keys[codes]])
    return heads, {
        "records": np.concatenate(rows),
        "integers": np.concatenate(integers),
        "lengths": np.concatenate(lengths),
        "text": np.frombuffer(b"".join(text), dtype=np.uint8),
    }


def read(heads: Any, depths: list[int], arrays: dict[str, NDArray[Any]]) -> list[tuple[list[KeyValues], Floats]]:
    """For each crossing, the columns of its keys and their records; an error unless all of it fits."""
    if not isinstance(heads, list) or len(heads) != len(depths):
        raise damaged()
    records, integers, lengths = arrays["records"], arrays["integers"], arrays["lengths"]
    sizes = [_size(head, depth) for head, depth in zip(heads, depths, strict=True)]
    plain = sum(size * head["kinds"].count("integers") for size, head in zip(sizes, heads, strict=True))
    words = sum(size * head["kinds"].count("text") for size, head in zip(sizes, heads, strict=True))
    fits = records.shape == (sum(sizes), CHANGED) and integers.shape == (plain,) and lengths.shape == (words,)
    if not fits or arrays["text"].ndim != 1 or not _lengths_fit(lengths, len(arrays["text"])):
        raise damaged()
    names, found = _names(lengths, arrays["text"].tobytes()), []
    done = taken = spoken = 0
    for size, head in zip(sizes, heads, strict=True):
        columns: list[KeyValues] = []
        for kind in head["kinds"]:
            if kind == "text":
                columns.append(names[spoken : spoken + size])
                spoken += size
            else:
                columns.append(integers[taken : taken + size])
                taken += size
        found.append((columns, records[done : done + size]))
        done += size
    return found


def _size(head: Any, depth: int) -> int:
    """The number of keys of a crossing."""
    if not isinstance(head, dict) or head.keys() != {"keys", "kinds"}:
        raise damaged()
    size, kinds = head["keys"], head["kinds"]
    if type(size) is not int or not 0 <= size < 2**31 or not isinstance(kinds, list) or len(kinds) != depth:
        raise damaged()
    if any(kind not in KINDS for kind in kinds):
        raise damaged()
    return size


def _lengths_fit(lengths: NDArray[Any], size: int) -> bool:
    return bool((lengths >= 0).all()) and int(lengths.sum(dtype=np.int64)) == size


def _names(lengths: NDArray[Any], text: bytes) -> list[str]:
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    try:
        return [text[start:end].decode() for start, end in zip([0, *ends[:-1]], ends, strict=False)]
    except UnicodeDecodeError:
        raise damaged() from None


def check_records(records: Floats, clamp: float) -> None:
    """Raise an error for numbers that no rows can lead to."""
    rows, jaa, jab, jbb = records[:, ROWS], records[:, JAA], records[:, JAB], records[:, JBB]
    most = math.log((1.0 - clamp) / clamp) ** 2 * (1.0 + SLACK)
    right = (
        np.isfinite(records).all()
        and (rows >= 1.0).all()
        and (rows <= MAX_ROWS).all()
        and (rows == np.floor(rows)).all()
        and (records[:, EVENTS] >= 0.0).all()
        and (jbb >= 0.0).all()
        and (jaa >= 0.0).all()
        and (jaa <= jbb * most).all()
        and (np.abs(jab) <= np.sqrt(jaa) * np.sqrt(jbb) * (1.0 + SLACK)).all()
    )
    if not right:
        raise damaged()
