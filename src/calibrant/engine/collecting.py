"""Bringing an engine's answer into memory."""

from __future__ import annotations

from typing import Any

import narwhals as nw

Rows = nw.DataFrame[Any] | nw.LazyFrame[Any]
"""A frame as narwhals sees it, in memory or waiting."""


def collect_frame(rows: Rows) -> nw.DataFrame[Any]:
    """A frame in memory: Polars streams, so that memory does not grow with the rows; SQL engines answer in Arrow."""
    if isinstance(rows, nw.DataFrame):
        return rows
    return rows.collect(engine="streaming") if rows.implementation.is_polars() else rows.collect(backend="pyarrow")
