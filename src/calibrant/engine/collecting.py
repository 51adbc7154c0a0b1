"""Bringing an engine's answer into memory."""

from __future__ import annotations

from typing import Any

import narwhals as nw

Rows = nw.DataFrame[Any] | nw.LazyFrame[Any]
"""A narwhals frame, in memory or lazy."""


def collect_frame(rows: Rows) -> nw.DataFrame[Any]:
    """A frame in memory: Polars streams, so that memory does not grow with the rows; SQL engines answer in Arrow."""
    if isinstance(rows, nw.DataFrame):
        return rows
    return rows.collect(engine="streaming") if rows.implementation.is_polars() else rows.collect(backend="pyarrow")
