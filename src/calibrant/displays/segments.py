"""Forest plot of a verdict by segment: observed over predicted events with its interval, worst first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.displays.base import Display
from calibrant.displays.clinical.forest import ratio_axis
from calibrant.displays.drawing import style
from calibrant.messages import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant.verdict.segments import Segment

MOST_SEGMENTS = 12
"""Segments that are drawn; the others are counted."""
ROOM = 3.0
"""The axis ends at this factor beyond the ratios: a wider interval is cut there, with an arrow."""


class SegmentsDisplay(Display):
    """Observed over predicted events of each segment with its 95 % interval, on a log scale, worst first.

    A filled square is a segment that is significantly off after adjustment for their number, an empty circle one that
    is not; the word at its right says in which direction its scores are off. At most twelve segments are named.

    Parameters
    ----------
    segments
        As in :attr:`calibrant.Verdict.segments`, in the order to draw.

    Notes
    -----
    Edge cases: a segment without an observed event has an arrow to the left; one that cannot be tested is named without
    a mark. Guarantee and reference: those of :func:`calibrant.check`. Cost: that of drawing.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = tuple(segments)
        self.shown = self.segments[:MOST_SEGMENTS]
        self.size = (5.4, 1.5 + 0.32 * len(self.shown))

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        return {"display": "segments", "segments": [self._row(each) for each in self.segments]}

    def _row(self, each: Segment) -> dict[str, Any]:
        known = each.judged and each.predicted > 0.0
        names = {one.column for one in self.segments}
        return {
            "name": f"{each.value}" if len(names) == 1 else f"{each.column} = {each.value}",
            "ratio": each.events / each.predicted if known else None,
            "low": each.ratio_low if known else None,
            "high": each.ratio_high if known and math.isfinite(each.ratio_high) else None,
            "off": each.off,
            "direction": each.direction,
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        judged, off = sum(each.judged for each in self.segments), sum(each.off for each in self.segments)
        text = f"{off:,} of {plural(judged, 'segment')} significantly off after adjustment for their number."
        more = self.segments[len(self.shown) :]
        if more:
            text += f" Not shown: {len(more):,}, of which {sum(each.off for each in more):,} off."
        return f"{text} Empty circles: not significant. Lines: 95 % intervals, each for its segment alone."

    def _draw_on(self, ax: Axes) -> None:
        rows = [self._row(each) for each in self.shown]
        low, high = self._limits(rows)
        ax.set_xscale("log")
        ax.set_xlim(low, high)
        ax.axvline(1.0, **style.GUIDE_LINE, zorder=1)
        for place, row in enumerate(rows):
            self._draw_row(ax, place, row, (low, high))
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_yticks(range(len(rows)), [style.short(row["name"]) for row in rows])
        columns = {each.column for each in self.segments}
        name = columns.pop() if len(columns) == 1 else "Segment"
        ax.set_ylabel(style.some_of(style.short(str(name), 60), len(rows), len(self.segments) - len(rows)))
        ratio_axis(ax)
        ax.set_xlabel("Observed / predicted events")
        self._head(ax, "By segment")

    def _draw_row(self, ax: Axes, place: int, row: dict[str, Any], limits: tuple[float, float]) -> None:
        ratio, off = row["ratio"], row["off"]
        value = "" if ratio is None else f"{ratio:.2f} "
        said = f"{value}{row['direction']}" or "not testable"
        ax.annotate(
            said, (1.0, place), (4.0, 0.0), xycoords=("axes fraction", "data"), textcoords="offset points", va="center",
            fontsize="small", fontweight="bold" if off else "normal", annotation_clip=False,
        )  # fmt: skip
        if ratio is None:
            return
        color = style.color(ax, 5) if off else style.GUIDE
        at, low, high = np.clip([ratio, row["low"], math.inf if row["high"] is None else row["high"]], *limits)
        ax.plot([low, high], [place, place], color=color, linewidth=1.3, zorder=2)
        arrows = {"<": row["low"] < limits[0], ">": row["high"] is None or row["high"] > limits[1]}
        for end, (marker, cut) in zip((low, high), arrows.items(), strict=True):
            if cut:
                ax.plot(end, place, marker, color=color, markersize=7.0, clip_on=False, zorder=2)
        if limits[0] <= ratio <= limits[1]:
            face = color if off else "white"
            ax.plot(at, place, "s" if off else "o", color=color, markerfacecolor=face, markersize=6.0, zorder=3)

    @staticmethod
    def _limits(rows: list[dict[str, Any]]) -> tuple[float, float]:
        """Ends of the axis: around 1 and all ratios, and the intervals unless they are much wider."""
        ratios = [1.0, *(row["ratio"] for row in rows if row["ratio"])]
        lows = [row["low"] for row in rows if row["low"]]
        highs = [row["high"] for row in rows if row["high"]]
        low = max(min([*ratios, *lows]), min(ratios) / ROOM)
        high = min(max([*ratios, *highs]), max(ratios) * ROOM)
        room = max((high / low) ** 0.05, 1.05)
        return low / room, high * room
