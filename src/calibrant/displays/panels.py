"""Additional axes next to, below or in place of given axes: for counts and small multiples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from calibrant.displays.style import figure_of
from calibrant.numerics import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE_RANGE = 100.0
"""Ratio of the largest to the smallest count above which an axis of counts is logarithmic."""


def panel_below(ax: Axes) -> Axes:
    """Axes for counts below ``ax``, in part of its space and with the same horizontal axis."""
    figure, place = figure_of(ax), ax.get_subplotspec()
    if place is not None:
        parts = place.subgridspec(2, 1, height_ratios=(4.2, 1.0), hspace=0.0)
        ax.set_subplotspec(parts[0])
        return figure.add_subplot(parts[1], sharex=ax)
    box = ax.get_position(original=True)
    ax.set_position((box.x0, box.y0 + 0.24 * box.height, box.width, 0.76 * box.height))
    return figure.add_axes((box.x0, box.y0, box.width, 0.17 * box.height), sharex=ax)


def panel_beside(ax: Axes) -> Axes:
    """Axes for counts to the right of ``ax``, in part of its space and with the same vertical axis."""
    figure, place = figure_of(ax), ax.get_subplotspec()
    if place is not None:
        # Without a layout engine, leave room for tick labels.
        apart = 0.12 if figure.canvas.figure.get_layout_engine() is None else 0.0
        parts = place.subgridspec(1, 2, width_ratios=(3.0, 1.0), wspace=apart)
        ax.set_subplotspec(parts[0])
        return figure.add_subplot(parts[1], sharey=ax)
    box = ax.get_position(original=True)
    ax.set_position((box.x0, box.y0, 0.73 * box.width, box.height))
    return figure.add_axes((box.x0 + 0.76 * box.width, box.y0, 0.24 * box.width, box.height), sharey=ax)


def panels_under(ax: Axes, count: int, across: int) -> list[Axes]:
    """``count`` axes, ``across`` in a row, in the space of ``ax``, which keeps a strip at the top for text."""
    figure, place = figure_of(ax), ax.get_subplotspec()
    down = -(-count // across)
    ax.set_axis_off()
    ax.set_xticks([])
    ax.set_yticks([])
    if place is not None:
        # Without a layout engine, leave room for text.
        loose = figure.canvas.figure.get_layout_engine() is None
        strip, apart = (max(0.28 * down, 0.5), 0.45) if loose else (0.16, 0.08)
        parts = place.subgridspec(2, 1, height_ratios=(strip, float(down)), hspace=0.0)
        ax.set_subplotspec(parts[0])
        grid = parts[1].subgridspec(down, across, hspace=apart, wspace=0.25 if loose else 0.06)
        return [figure.add_subplot(grid[j // across, j % across]) for j in range(count)]
    box = ax.get_position(original=True)
    height, width = 0.86 * box.height / down, box.width / across
    ax.set_position((box.x0, box.y0 + 0.92 * box.height, box.width, 0.08 * box.height))
    corners = [(box.x0 + width * (j % across), box.y0 + height * (down - 1 - j // across)) for j in range(count)]
    return [figure.add_axes((x, y, 0.9 * width, 0.72 * height)) for x, y in corners]


def axis_of_counts(panel: Axes, counts: Floats, which: Literal["x", "y"], counted: bool) -> None:
    """Set limits and label of an axis of counts; logarithmic if the counts have a wide range."""
    if counts.max() > WIDE_RANGE * counts.min():
        getattr(panel, f"set_{which}scale")("log")
        getattr(panel, f"set_{which}lim")(0.6 * float(counts.min()), 1.8 * float(counts.max()))
    else:
        getattr(panel, f"set_{which}lim")(0.0, 1.12 * float(counts.max()))
        panel.locator_params(axis=which, nbins=3, integer=counted)
    getattr(panel, f"set_{which}label")("Rows" if counted else "Weight")
