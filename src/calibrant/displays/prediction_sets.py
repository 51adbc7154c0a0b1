"""Prediction sets of numbers: intervals over a column or in order, with the outcomes that they hold or miss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_length, read_floats, refuse_not_finite
from calibrant.conformal.coverage import Coverage
from calibrant.conformal.sets import PredictionSets
from calibrant.displays.base import Display, display_of
from calibrant.displays.drawing import style
from calibrant.messages import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_ROWS = 200
"""Rows that a plot can show; of more rows, as many are drawn in even steps."""


class PredictionSetsDisplay(Display):
    """Prediction sets as vertical lines, over a column or from narrow to wide, with the outcomes.

    Parameters
    ----------
    sets
        Prediction sets of a conformal method.
    y
        Outcomes of the same rows, if known: those that their set misses are drawn as diamonds.
    x
        A column to draw the sets over; by default rows are in order of their width.
    name
        Name of that column.

    Attributes
    ----------
    sets, y, x, name
        As passed.
    ax_, figure_
        Set by :meth:`plot`.

    Notes
    -----
    Edge cases: at most 200 rows are drawn, in even steps; the caption is about all of them. A set without an end goes
    to the edge of the plot; an empty set has no line.
    Guarantee: that of the sets, if they have a certificate; the coverage of these rows is a count of one sample.
    Reference: Gupta (2023), Figure 9.4.

    Examples
    --------
    >>> from calibrant.conformal import split_intervals
    >>> sets = split_intervals([1.0, 2.0, 3.0], [1.5, 2.0, 2.0], [4.0, 5.0], alpha=0.4)
    >>> PredictionSetsDisplay(sets, [4.5, 9.0]).data["covered"]
    [True, False]
    """

    size = (6.4, 4.4)

    def __init__(
        self, sets: PredictionSets, y: ArrayLike | None = None, *, x: ArrayLike | None = None, name: str = ""
    ) -> None:
        if not len(sets):
            raise InputError("sets", "is empty", "pass the sets of at least one row")
        self.sets, self.name = sets, name
        self.y, self.x = (self._column(each, label) for each, label in ((y, "y"), (x, "x")))

    def _column(self, values: ArrayLike | None, label: str) -> NDArray[np.float64] | None:
        if values is None:
            return None
        found: NDArray[np.float64] = read_floats(values, label)
        check_length(found, label, len(self.sets))
        if not np.isfinite(found).all():
            refuse_not_finite(found, label, "drop these rows, and their sets with sets[rows]")
        return found

    @property
    def _drawn(self) -> NDArray[np.int64]:
        """Rows that are drawn, from left to right."""
        order = np.argsort(self.sets.width if self.x is None else self.x, kind="stable")
        if order.size > MOST_ROWS:
            order = order[np.linspace(0, order.size - 1, MOST_ROWS).round().astype(np.int64)]
        return order.astype(np.int64)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists; rows from left to right, an infinite end is None."""
        rows = self._drawn
        taken = self.sets[rows]
        return {
            "display": "prediction sets",
            "row": rows.tolist(),
            "x": None if self.x is None else self.x[rows].tolist(),
            "sets": taken.to_dict()["sets"],
            "y": None if self.y is None else self.y[rows].tolist(),
            "covered": None if self.y is None else taken.covers(self.y[rows]).tolist(),
            "summary": None if self.y is None else self.sets.summary(self.y).to_dict(),
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        if self.y is None:
            text = f"{len(self.sets):,} prediction sets, mean width {np.mean(self.sets.width):.4g}."
        else:
            text = str(self.sets.summary(self.y))
        if isinstance(self.sets.certificate, Coverage):
            text += f" Guaranteed on average: {self.sets.certificate.percent}."
        if len(self.sets) > MOST_ROWS:
            text += f" {MOST_ROWS} rows are drawn."
        return text

    def _draw_on(self, ax: Axes) -> None:
        rows = self._drawn
        taken = self.sets[rows]
        places = np.arange(rows.size, dtype=np.float64) if self.x is None else self.x[rows]
        y = None if self.y is None else self.y[rows]
        ends = np.concatenate([taken.lower, taken.upper, [] if y is None else y])
        ends = ends[np.isfinite(ends)]
        low, high = (float(ends.min()), float(ends.max())) if ends.size else (0.0, 1.0)
        room = 0.04 * (high - low or 1.0)
        at = np.repeat(places, taken.pieces)
        bottom, top = np.maximum(taken.lower, low - room), np.minimum(taken.upper, high + room)
        ax.vlines(at, bottom, top, color=style.COLORS[0], alpha=0.45, linewidth=1.4, zorder=2, label="prediction set")
        if y is not None:
            held = taken.covers(y)
            ax.plot(places[held], y[held], "o", color=style.GUIDE, markersize=3, zorder=3, label="outcome in its set")
            if not held.all():
                missed: dict[str, Any] = {
                    "color": style.COLORS[5],
                    "markersize": 5,
                    "zorder": 4,
                    "label": "outcome outside",
                }
                ax.plot(places[~held], y[~held], "D", **missed)
        ax.set_ylim(low - room, high + room)
        ax.set_xlabel(self.name or ("Rows, narrow sets first" if self.x is None else "x"))
        ax.set_ylabel("Outcome")
        self._head(ax, "Prediction sets")
        style.place_legend(ax, [(at, bottom), (at, top), *([] if y is None else [(places, y)])])


display_of.register(PredictionSets, PredictionSetsDisplay)
