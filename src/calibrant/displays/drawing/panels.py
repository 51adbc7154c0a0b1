"""Additional axes next to, below or in place of given axes: for counts, segments and small multiples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from calibrant.displays.drawing.style import figure_of
from calibrant.numerics import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE_RANGE = 30.0
"""Ratio of the largest to the smallest count above which an axis of counts is about logarithmic."""


BELOW = 0.23
"""Share of the height for counts below a panel."""


def panel_below(ax: Axes) -> Axes:
    """Axes for counts below ``ax``, in part of its space and with the same horizontal axis."""
    return panels_below(ax, BELOW)[0]


def panels_below(ax: Axes, *shares: float) -> list[Axes]:
    """Axes one below the other under ``ax``, each in a share of its height and with the same horizontal axis."""
    figure, place = figure_of(ax), ax.get_subplotspec()
    if place is not None:
        # Without a layout engine, leave room for tick labels.
        apart = 0.12 if figure.canvas.figure.get_layout_engine() is None else 0.0
        parts = place.subgridspec(1 + len(shares), 1, height_ratios=(1.0 - sum(shares), *shares), hspace=apart)
        ax.set_subplotspec(parts[0])
        return [figure.add_subplot(parts[j], sharex=ax) for j in range(1, 1 + len(shares))]
    box = ax.get_position(original=True)
    top, panels = box.y0 + sum(share + 0.06 for share in shares) * box.height, []
    ax.set_position((box.x0, top, box.width, box.y1 - top))
    for share in shares:
        top -= (share + 0.06) * box.height
        panels.append(figure.add_axes((box.x0, top, box.width, share * box.height), sharex=ax))
    return panels


def panel_beside(ax: Axes, share: float = 0.25, *, own: bool = False) -> Axes:
    """Axes to the right of ``ax``, in a share of its space, with the same vertical axis unless it is ``own``."""
    figure, place, shared = figure_of(ax), ax.get_subplotspec(), None if own else ax
    if place is not None:
        # Without a layout engine, leave room for tick labels.
        apart = (0.5 if own else 0.12) if figure.canvas.figure.get_layout_engine() is None else 0.0
        parts = place.subgridspec(1, 2, width_ratios=(1.0 - share, share), wspace=apart)
        ax.set_subplotspec(parts[0])
        return figure.add_subplot(parts[1], sharey=shared)
    box, apart = ax.get_position(original=True), 0.22 if own else 0.02
    ax.set_position((box.x0, box.y0, (1.0 - share - apart / 2.0) * box.width, box.height))
    left = box.x0 + (1.0 - share + apart / 2.0) * box.width
    return figure.add_axes((left, box.y0, (share - apart / 2.0) * box.width, box.height), sharey=shared)


def panels_under(ax: Axes, count: int, across: int) -> tuple[list[Axes], list[Axes]]:
    """``count`` axes, ``across`` in a row, in the space of ``ax``, which keeps a strip at the top for text.

    The second list has axes for counts below each of them.
    """
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
        if not loose:  # one grid: the layout engine then gives the same size to all panels of a row or a column
            ratios = (1.0 - BELOW, BELOW) * down
            grid = parts[1].subgridspec(2 * down, across, height_ratios=ratios, hspace=apart, wspace=0.06)
            tops = [figure.add_subplot(grid[2 * (j // across), j % across]) for j in range(count)]
            below = [grid[2 * (j // across) + 1, j % across] for j in range(count)]
            return tops, [figure.add_subplot(part, sharex=top) for top, part in zip(tops, below, strict=True)]
        grid = parts[1].subgridspec(down, across, hspace=apart, wspace=0.25)
        tops = [figure.add_subplot(grid[j // across, j % across]) for j in range(count)]
        return tops, [panel_below(top) for top in tops]
    box = ax.get_position(original=True)
    height, width = 0.86 * box.height / down, box.width / across
    ax.set_position((box.x0, box.y0 + 0.92 * box.height, box.width, 0.08 * box.height))
    corners = [(box.x0 + width * (j % across), box.y0 + height * (down - 1 - j // across)) for j in range(count)]
    tops = [figure.add_axes((x, y, 0.9 * width, 0.72 * height)) for x, y in corners]
    return tops, [panel_below(top) for top in tops]


def axis_of_counts(
    panel: Axes,
    counts: Floats,
    which: Literal["x", "y"],
    counted: bool,
    *,
    mirrored: bool = False,
    low: bool = False,
) -> None:
    r"""Set limits, ticks and label of an axis of counts.

    With a wide range of counts the scale is :math:`\log(1 + n / n_0)`, where :math:`n_0` is the smallest count, so that
    a bar of one row is visible beside one of a million, and the label of the axis says so. With ``mirrored`` the axis
    has the same counts to both sides. A ``low`` panel has room for few ticks.
    """
    most, least = float(counts.max()), 1.0 if counted else float(counts.min())
    wide = most > WIDE_RANGE * float(counts.min())
    if wide:

        def forward(n: Floats) -> Floats:
            return np.asarray(np.sign(n) * np.log10(1.0 + np.abs(n) / least))

        def inverse(z: Floats) -> Floats:
            return np.asarray(np.sign(z) * least * (10.0 ** np.minimum(np.abs(z), 300.0) - 1.0))

        getattr(panel, f"set_{which}scale")("function", functions=(forward, inverse))
        powers = 10.0 ** np.arange(np.ceil(np.log10(least)), np.floor(np.log10(most)) + 1.0)
        kept: list[float] = []
        room = 0.4 if low else 0.29 if mirrored else 0.22  # least distance of two ticks, as a share of the highest bar
        for tick in powers[::-1].tolist():
            places = forward(np.array([tick, *kept[-1:]])) / forward(np.array(most))
            if places[0] >= room and (len(places) == 1 or places[1] - places[0] >= room):
                kept.append(tick)
        ticks = np.array(kept[::-1])
        top = float(inverse(1.12 * forward(np.array(most))))
    else:
        from matplotlib.ticker import MaxNLocator

        ticks = np.asarray(MaxNLocator(nbins=2 if mirrored else 4, integer=counted).tick_values(0.0, most))
        ticks = ticks[(ticks > 0.0) & (ticks <= 1.02 * most)]
        top = 1.15 * most
    ticks = np.concatenate([-ticks[::-1], [0.0], ticks] if mirrored else [[0.0], ticks])
    getattr(panel, f"set_{which}ticks")(ticks, [f"{abs(tick):,.6g}" for tick in ticks], fontsize="small")
    getattr(panel, f"set_{which}ticks")([], minor=True)
    getattr(panel, f"set_{which}lim")(-top if mirrored else 0.0, top)
    name = "Rows" if counted else "Weight"
    apart = " " if which == "x" else "\n"
    getattr(panel, f"set_{which}label")(f"{name}{apart}(log scale)" if wide else name)


def name_halves(panel: Axes, above: tuple[str, Floats], below: tuple[str, Floats]) -> None:
    """Name the two halves of a mirrored histogram, each at the end where its bars are lower."""
    for (name, heights), bottom in ((above, False), (below, True)):
        part = max(len(heights) // 3, 1)
        right = float(heights[-part:].max()) < float(heights[:part].max())
        panel.annotate(
            name, (1.0 if right else 0.0, 0.0 if bottom else 1.0), (-4.0 if right else 4.0, 3.0 if bottom else -3.0),
            xycoords="axes fraction", textcoords="offset points", ha="right" if right else "left",
            va="bottom" if bottom else "top", fontsize="small",
        )  # fmt: skip
