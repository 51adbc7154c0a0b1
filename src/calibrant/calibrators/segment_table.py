"""What became of each segment, as a table that prints itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from calibrant.calibrators.segmenting import SegmentCells, Stages
from calibrant.numerics import Floats, expit

MOST_SHOWN = 25


@dataclass(frozen=True)
class SegmentLine:
    """One segment: what was predicted by the map of all, what happened, and what it got of its own.

    ``level`` is what is added to the log-odds at the segment's centre and ``slope`` what they are stretched by there;
    0 and 1 leave it with the map of all. ``sd`` is the level's posterior standard deviation, NaN where it has none.
    """

    column: str
    value: str
    rows: float
    events: float
    predicted_before: float
    predicted_after: float
    level: float
    slope: float
    sd: float


@dataclass(frozen=True)
class SegmentTable:
    """Every segment of every column; prints those that were moved farthest."""

    lines: tuple[SegmentLine, ...]

    @classmethod
    def of(cls, cells: SegmentCells, x: Floats, stages: Stages, sds: dict[str, Floats] | None = None) -> SegmentTable:
        """From log-odds x of the map of all, and the stages that follow it."""
        before, after = expit(x), expit(cells.after(x, stages))
        n = cells.n.astype(np.float64)
        found = []
        for name, segments in cells.columns.items():
            kept = np.flatnonzero(cells.codes[name] >= 0)
            parts = (n, cells.events, n * before, n * after, n * before * (1 - before), n * before * (1 - before) * x)
            sums = [np.bincount(cells.codes[name][kept], part[kept], len(segments)) for part in parts]
            slopes, intercepts = _lines(name, len(segments), stages)
            centre = sums[5] / np.where(sums[4] > 0.0, sums[4], 1.0)
            levels = intercepts + (slopes - 1.0) * centre
            sd = (sds or {}).get(name, np.full(len(segments), np.nan))
            columns = zip(*(part.tolist() for part in (*sums[:4], levels, slopes, sd)), strict=True)
            found += [SegmentLine(name, value, *numbers) for value, numbers in zip(segments, columns, strict=True)]
        return cls(tuple(found))

    def to_dict(self) -> dict[str, Any]:
        """Plain data; numbers that do not exist are None."""
        return {
            "segments": [
                {key: None if isinstance(v, float) and np.isnan(v) else v for key, v in asdict(line).items()}
                for line in self.lines
            ]
        }

    def __len__(self) -> int:
        """Number of segments."""
        return len(self.lines)

    def __str__(self) -> str:
        """A table, the segments that were moved farthest first."""
        ordered = sorted(self.lines, key=_distance, reverse=True)
        shown = ordered[:MOST_SHOWN]
        width = max([7, *(len(_name(line)) for line in shown)])
        head = f"{'segment':<{width}} {'rows':>9} {'happened':>9} {'before':>9} {'after':>9} {'level':>7} {'slope':>6}"
        more = [f"and {len(self) - len(shown):,} more"] if len(shown) < len(self) else []
        return "\n".join([head, *(_text(line, width) for line in shown), *more])


def _lines(name: str, size: int, stages: Stages) -> tuple[Floats, Floats]:
    """Slope and intercept of each segment over all stages of its column."""
    slopes, intercepts = np.ones(size), np.zeros(size)
    for column, lines in stages:
        if column == name:
            for code, (slope, intercept) in lines.items():
                slopes[code], intercepts[code] = slope * slopes[code], slope * intercepts[code] + intercept
    return slopes, intercepts


def _distance(line: SegmentLine) -> float:
    """Events by which the prediction moved; without a prediction last."""
    moved = abs(line.predicted_after - line.predicted_before)
    return -1.0 if np.isnan(moved) else moved


def _name(line: SegmentLine) -> str:
    return f"{line.column} = {line.value}"


def _text(line: SegmentLine, width: int) -> str:
    counts = (line.rows, line.events, line.predicted_before, line.predicted_after)
    told = [
        *(_number(count, ",.0f", 9) for count in counts),
        _number(line.level, "+.2f", 7),
        _number(line.slope, ".2f", 6),
    ]
    return " ".join([f"{_name(line):<{width}}", *told])


def _number(value: float, form: str, width: int) -> str:
    return f"{'-' if np.isnan(value) else format(value, form):>{width}}"
