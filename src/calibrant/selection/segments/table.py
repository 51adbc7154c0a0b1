"""A table of segments: observed and predicted events, and the correction of each segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from calibrant.fits.segments.counts import SegmentCells, Stages
from calibrant.fits.segments.shrinkage import Scales
from calibrant.messages import Shown, count_text, plural
from calibrant.metrics.estimates import Estimate
from calibrant.notebook import table_block
from calibrant.numerics import Floats, expit
from calibrant.selection.comparison import decimals_of
from calibrant.tallies import Counts

MAX_SHOWN = 25
"""Number of segments that ``print`` shows."""


@dataclass(frozen=True)
class SegmentLine:
    """One segment: observed events, events predicted by each map, and the segment's own correction.

    ``predicted_before`` is the sum of the scores themselves, NaN for real scores; ``predicted_global`` is by the global
    map, NaN if there is none, and ``predicted_after`` by the whole map. ``level`` is the shift of the log-odds at the
    segment's center and ``slope`` their slope there, after the corrections of earlier columns; 0 and 1 mean no
    correction. ``sd`` is the posterior standard deviation of the shift, NaN if there is none.
    """

    column: str
    value: str
    rows: float
    events: float
    predicted_before: float
    predicted_global: float
    predicted_after: float
    level: float
    slope: float
    sd: float


@dataclass(frozen=True)
class SegmentTable(Shown):
    """Every segment of every column; prints those with the largest corrections."""

    lines: tuple[SegmentLine, ...]

    @classmethod
    def of(cls, cells: SegmentCells, x: Floats, stages: Stages, sds: dict[str, Floats] | None = None) -> SegmentTable:
        """From log-odds x of the global map, and the stages that follow it."""
        before, by_all, after = cells.probabilities(), expit(x), expit(cells.after(x, stages))
        n = cells.n.astype(np.float64)
        found = []
        for name, segments in cells.columns.items():
            sums = [_sums(cells, name, part) for part in (n, cells.events, n * before, n * by_all, n * after)]
            sd = (sds or {}).get(name, np.full(len(segments), np.nan))
            columns = zip(*(part.tolist() for part in (*sums, *_lines(cells, x, name, stages), sd)), strict=True)
            found += [SegmentLine(name, value, *numbers) for value, numbers in zip(segments, columns, strict=True)]
        return cls(tuple(found))

    def to_dict(self) -> dict[str, Any]:
        """Plain data; missing numbers are None."""
        return {
            "segments": [
                {key: None if isinstance(v, float) and np.isnan(v) else v for key, v in asdict(line).items()}
                for line in self.lines
            ]
        }

    def of_column(self, name: str) -> tuple[SegmentLine, ...]:
        """The segments of one column."""
        return tuple(line for line in self.lines if line.column == name)

    def __len__(self) -> int:
        """Number of segments."""
        return len(self.lines)

    def __str__(self) -> str:
        """A table, the segments with the largest corrections first."""
        return self.head(MAX_SHOWN)

    def _repr_html_(self) -> str:
        """For notebooks: the table, the segments with the largest corrections first."""
        shown = self._largest(MAX_SHOWN)
        rows = [(_name(line), *map(str.strip, _cells(line))) for line in shown]
        return table_block(("segment", *_HEAD), rows, notes=self._more(shown))

    def _largest(self, most: int) -> list[SegmentLine]:
        """At most this many segments, those with the largest corrections in predicted events."""
        return sorted(self.lines, key=_distance, reverse=True)[:most]

    def _more(self, shown: list[SegmentLine]) -> list[str]:
        return [f"and {len(self) - len(shown):,} more"] if len(shown) < len(self) else []

    def head(self, most: int) -> str:
        """The table of at most ``most`` segments, those with the largest corrections in predicted events."""
        shown = self._largest(most)
        width = max([7, *(len(_name(line)) for line in shown)])
        names = (f"{name:>{wide}}" for name, wide in zip(_HEAD, _WIDTHS, strict=True))
        lines = [" ".join([f"{_name(line):<{width}}", *_cells(line)]) for line in shown]
        return "\n".join([" ".join([f"{'segment':<{width}}", *names]), *lines, *self._more(shown)])


def differences(name: str, scales: Scales, lines: Sequence[SegmentLine]) -> str:
    """How much the segments of a column differ, in one sentence; ``lines`` are those of the column."""
    if not any(scales):
        rows = sorted(line.rows for line in lines)
        few, many = count_text(rows[0]), count_text(rows[-1])
        sizes = f"{few} rows" if few == many else f"{few} to {many} rows"
        return (
            f"By {name}, there is no evidence that the {plural(len(rows), 'segment')} of {sizes} differ: all use the "
            "global map."
        )
    factor = f"{np.exp(scales.level):.2f}"
    parts = [f"odds are typically {factor} or 1 / {factor} times those of the global map"]
    parts = parts if scales.level else []
    parts += [f"slopes typically differ from 1 by {scales.slope:.2f}"] if scales.slope else []
    far = [f"about {100 * scales.far:.1f} % of segments differ far more"] if scales.far else []
    return f"By {name}, segments differ: {'; '.join([*(parts or ['most of them not at all']), *far])}."


def worth(gain: Estimate) -> str:
    """Gain from segments over the global map on held-out rows, in one sentence; empty if it is not known."""
    if np.isnan(gain.value):
        return ""
    if gain.value == gain.low == gain.high == 0.0:
        return ""
    places = decimals_of(max(abs(gain.value), abs(gain.low or 0.0), abs(gain.high or 0.0)))
    numbers = f"{gain.value:+z.{places}f}, 95 % CI {gain.low:+z.{places}f} to {gain.high:+z.{places}f}"
    if gain.high is not None and gain.high < 0.0:
        return f" Contribution of segments: {numbers}."
    if gain.low is not None and gain.low > 0.0:
        return f" Segments are worse than the global map alone ({numbers})."
    return f" Segments show no significant gain over the global map ({numbers})."


def _sums(cells: SegmentCells, name: str, values: Floats | Counts) -> Floats:
    kept = np.flatnonzero(cells.codes[name] >= 0)
    return np.asarray(np.bincount(cells.codes[name][kept], values[kept], len(cells.columns[name])), dtype=np.float64)


def _lines(cells: SegmentCells, x: Floats, name: str, stages: Stages) -> tuple[Floats, Floats]:
    """Shift and slope of each segment over all stages of its column, each at the center of that stage."""
    levels, slopes = np.zeros(len(cells.columns[name])), np.ones(len(cells.columns[name]))
    for column, lines in stages:
        if column == name:
            p = expit(x)
            weight = cells.n * p * (1.0 - p)
            mass = _sums(cells, name, weight)
            center = _sums(cells, name, weight * x) / np.where(mass > 0.0, mass, 1.0)
            for code, (slope, intercept) in lines.items():
                levels[code] += intercept + (slope - 1.0) * center[code]
                slopes[code] *= slope
        x = cells.moved(x, column, lines)
    return levels, slopes


def _distance(line: SegmentLine) -> float:
    """How many events the correction of the segment moves; segments without a prediction come last."""
    without = line.predicted_before if np.isnan(line.predicted_global) else line.predicted_global
    moved = abs(line.predicted_after - without)
    return -1.0 if np.isnan(moved) else moved


def _name(line: SegmentLine) -> str:
    return f"{line.column} = {line.value}"


_HEAD = ("rows", "observed", "scores", "global map", "final", "shift", "slope")
_WIDTHS = (9, 9, 9, 11, 9, 7, 6)


def _cells(line: SegmentLine) -> list[str]:
    """Numbers of a segment as text, by the columns of the table."""
    predicted = (line.predicted_before, line.predicted_global, line.predicted_after)
    numbers, forms = (line.rows, line.events, *predicted, line.level, line.slope), (*[",.0f"] * 5, "+.2f", ".2f")
    return [_number(*entry) for entry in zip(numbers, forms, _WIDTHS, strict=True)]


def _number(value: float, form: str, width: int) -> str:
    return f"{'-' if np.isnan(value) else format(value, form):>{width}}"
