"""Counts of rows by segment and time period, for a store, a table or a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from calibrant.cli.input.source import Rows
from calibrant.cli.voice import CommandLine, Mistake
from calibrant.engine import TallyStore
from calibrant.engine import tally as count
from calibrant.engine.store.conflicts import Conflict
from calibrant.engine.store.days import as_day
from calibrant.tallies import GroupedTally, Tally

Key = tuple[Any, ...]


def open_store(
    path: str, by: Sequence[str] | None, score_type: str | None, day: str | None, time: str | None, every: str | None
) -> TallyStore:
    """The store to add to, if the options give the days of the rows."""
    if day is not None and time is not None:
        raise Mistake("--day and --time", "both give the day of the rows", "pass one of them")
    if day is None and time is None:
        raise Mistake("--store", "needs the day of the rows", "pass --day 2026-03-01, or --time with a column of days")
    if every is not None:
        raise Mistake("--store", "always uses periods of one day", "leave --every out")
    if score_type not in (None, "probability"):
        raise Mistake(
            "--store", f"accepts probabilities, not {score_type} scores", "apply a map first (calibrant apply)"
        )
    return TallyStore(path, by=by or None)


@dataclass(frozen=True)
class Counted:
    """Tallies by the values of the columns ``names``, and their total."""

    names: tuple[str, ...]
    parts: Mapping[Key, Tally]
    total: Tally

    @classmethod
    def of(cls, rows: Rows, every: str, store: TallyStore | None) -> Counted:
        """Count the rows, on the grid of the store."""
        given = dict(rows.options)
        by, time = list(rows.columns.by or ()), given["time"]
        names = (*by, *([] if time is None else [time]))
        grid = rows.grid(always=bool(names)) if store is None else store.grid
        given |= {"score_type": given["score_type"] or "probability", "by": by or None, "every": every, "grid": grid}
        counted = count(rows.data, **given)
        if isinstance(counted, Tally):
            return cls((), {(): counted}, counted)
        parts = {key if len(names) > 1 else (key,): part for key, part in counted.items()}
        return cls(names, parts, counted.total())

    def add_to(
        self, store: TallyStore, day: str | None, part: str | None, replace: bool, open_days: int = 0
    ) -> dict[str, list[str]]:
        """Add each day to the store; returns days written, and days that were already there with the same counts.

        The last ``open_days`` days are replaced, as with ``replace``.
        """
        days: dict[Any, dict[Any, Tally]] = {}
        for key, each in self.parts.items():
            segment = key if day is not None else key[:-1]
            days.setdefault(day or key[-1], {})[segment[0] if len(segment) == 1 else segment] = each
        result: dict[str, list[str]] = {"written": [], "already there": []}
        last = as_day(max(days), "day") if days else date.min
        for when, segments in sorted(days.items()):
            tallies = GroupedTally(segments) if store.by else segments[()]
            try:
                still_open = (last - as_day(when, "day")).days < open_days
                written = store.add(when, tallies, part=part, replace=replace or still_open)
            except Conflict as problem:
                raise Mistake.of(problem, CommandLine()) from None
            name = when.isoformat() if isinstance(when, date) else str(when)
            result["written" if written else "already there"].append(name)
        return result

    def summary(self) -> dict[str, Any]:
        """Rows, events, mean score and cells, in total and by segment."""
        parts = [
            {"segment": dict(zip(self.names, key, strict=True)), **_numbers(part)}
            for key, part in self.parts.items()
            if self.names
        ]
        return {**_numbers(self.total), "segments": parts}

    def table(self, connection: Any) -> Any:
        """One row for each segment and cell, as a relation."""
        import pyarrow as pa

        sizes = [len(part) for part in self.parts.values()]
        keys = {
            name: np.repeat(np.array([key[place] for key in self.parts], dtype=object), sizes)
            for place, name in enumerate(self.names)
        }
        cells: dict[str, list[Any]] = {name: [] for name in ("lower_score", "upper_score", "n", "events", "mean_score")}
        for part in self.parts.values():
            for column, values in zip(cells.values(), _cells(part), strict=True):
                column.append(values)
        joined = {name: np.concatenate(values) for name, values in cells.items()}
        return connection.from_arrow(pa.table(keys | joined))


def _numbers(part: Tally) -> dict[str, Any]:
    total = float(part.total)
    mean = float((part.n * part.scores).sum() / total) if total else None
    return {"rows": part.total, "events": part.positives, "mean_score": mean, "cells": len(part)}


def _cells(part: Tally) -> tuple[Any, ...]:
    """Readable ends of each cell, rows, events and mean score; an exact score is its own cell."""
    exact = part.resolution == "exact"
    upper = part.lower_edges if exact else np.minimum(part.upper_edges, part.grid.high if part.grid else np.inf)
    return part.lower_edges, upper, part.n, part.events, part.scores
