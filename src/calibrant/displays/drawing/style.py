"""Shared style of the plots: colors, axes in percent or log-odds, captions and legends that do not cover the data.

Properties are set on single artists; the user's matplotlib settings are read and never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.messages import MissingPackage, plural
from calibrant.numerics import Floats, expit, logit
from calibrant.visible import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Place = Literal["upper left", "lower right", "upper right", "lower left", "center right", "center left", "upper center"]
AxesKind = Literal["auto", "linear", "log-odds"]
"""Scale of probabilities; ``"auto"`` depends on the data."""

COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
"""Colors of Okabe and Ito, which color-blind readers can distinguish; neighbors differ in lightness."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (7, 2, 1, 2)), (0, (1, 1.2)), (0, (3, 1, 1, 1, 1, 1)), (0, (9, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P")
PLACES: tuple[Place, ...] = (
    "upper left",
    "lower right",
    "upper right",
    "lower left",
    "center right",
    "center left",
    "upper center",
)
"""Positions of a legend, best first."""
LIGHTER = 0.3
"""Share of white that is mixed into a color on a dark background."""
GUIDE = "0.45"
GUIDE_LINE: dict[str, Any] = {"color": GUIDE, "linewidth": 1.0, "linestyle": (0, (2, 2))}
"""A thin dashed line to compare with: the diagonal, a target."""

RARE_RATE = 0.05
"""Base rate below which, or above one minus which, ``axes="auto"`` chooses log-odds."""
MIN_ROWS_LOG_ODDS = 20
"""With fewer rows a base rate below 5 % cannot be estimated, so ``"auto"`` stays linear."""

NARROW_WIDTH = 250.0
"""Width in points below which text is smaller."""

ZOOM_RANGE = 0.5
"""Range of scores and rates below which linear axes show only that range."""

_GAP = 0.09
"""Share of a log-odds axis between an end of its scale and the exact 0 or 1 outside it."""
_DECADES = 10.0 ** -np.arange(1, 10)
_TICKS = np.concatenate(
    [
        [0.0, 1.0],
        _DECADES,
        1.0 - _DECADES,
        [0.5],
        2.0 * _DECADES,
        1.0 - 2.0 * _DECADES,
        5.0 * _DECADES,
        1.0 - 5.0 * _DECADES,
    ]
)
"""Ticks of a log-odds axis, most important first."""


def no_matplotlib() -> MissingPackage:
    """The error that matplotlib is not installed."""
    return MissingPackage("drawing", "matplotlib", "calibrant[plot]")


def new_axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise no_matplotlib() from None
    return plt.subplots(figsize=size, layout="constrained")[1]


def figure_of(ax: Axes) -> Figure | SubFigure:
    """The figure of the axes."""
    figure = ax.figure
    assert figure is not None
    return figure


def is_dark(ax: Axes) -> bool:
    """Whether the picture has a dark background; one that is transparent is judged by the color of its text."""
    from matplotlib.colors import to_rgba

    def light(color: Any) -> float:
        red, green, blue, _ = to_rgba(color)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for face in (ax.get_facecolor(), figure_of(ax).canvas.figure.get_facecolor()):
        if to_rgba(face)[3] >= 0.5:
            return light(face) < 0.4
    return light(ax.xaxis.label.get_color()) > 0.5


def palette(ax: Axes) -> tuple[str, ...]:
    """The colors of ``COLORS``, lighter on a dark background."""
    from matplotlib.colors import to_hex, to_rgb

    if not is_dark(ax):
        return COLORS
    paler = ([part + LIGHTER * (1.0 - part) for part in to_rgb(one)] for one in COLORS)
    return tuple(to_hex((red, green, blue)) for red, green, blue in paler)


def color(ax: Axes, place: int) -> str:
    """One color of the palette."""
    return palette(ax)[place]


def ink(ax: Axes) -> str:
    """Color of points and summaries that stand out: nearly black, and nearly white on a dark background."""
    return "0.85" if is_dark(ax) else "0.2"


def band(ax: Axes) -> dict[str, Any]:
    """Color of a gray band: light on a light background, and a middle gray on a dark one."""
    return {"color": "0.78" if is_dark(ax) else "0.6", "alpha": 0.5}


def shade(ax: Axes, of: str) -> dict[str, Any]:
    """Color of the band around a curve of color ``of``."""
    return {"color": of, "alpha": 0.5 if is_dark(ax) else 0.28, "linewidth": 0.0}


def axes_kind(axes: AxesKind, rows: float, events: float) -> AxesKind:
    """``axes``, with ``"auto"`` resolved by the base rate."""
    if axes != "auto":
        return axes
    rare = min(events, rows - events) < RARE_RATE * rows
    return "log-odds" if rare and rows >= MIN_ROWS_LOG_ODDS else "linear"


class Layout(Protocol):
    """The scale of an axis of probabilities."""

    @property
    def limits(self) -> tuple[float, float]:
        """Limits of the axis."""

    def forward(self, p: NDArray[Any]) -> Floats:
        """Place of each probability."""

    def inverse(self, z: NDArray[Any]) -> Floats:
        """Probability at each place."""

    def set(self, ax: Axes, which: Literal["x", "y"]) -> None:
        """Lay out one axis of ``ax``, with percentages at its ticks."""


@dataclass(frozen=True)
class Linear:
    """A linear scale, by default from 0 to 1."""

    limits: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def over(cls, low: float, high: float) -> Linear:
        """A scale from 0 to 1, or over a part of it if all values are within half of it."""
        if high - low >= ZOOM_RANGE:
            return cls()
        room = max(0.06 * (high - low), 1e-6)
        low, high = max(low - room, 0.0), min(high + room, 1.0)
        if low < 0.35 * high:  # near 0, so that 0 belongs to the picture
            low = 0.0
        if 1.0 - high < 0.35 * (1.0 - low):
            high = 1.0
        return cls((low, high))

    def forward(self, p: NDArray[Any]) -> Floats:
        """Place of each probability."""
        return np.asarray(p, dtype=np.float64)

    def inverse(self, z: NDArray[Any]) -> Floats:
        """Probability at each place."""
        return np.asarray(z, dtype=np.float64)

    def set(self, ax: Axes, which: Literal["x", "y"]) -> None:
        """Lay out one axis of ``ax``, with percentages at its ticks."""
        if self.limits != (0.0, 1.0):
            percent_axis(ax, which, *self.limits, room=0.02)
            return
        for step in (0.2, 0.25, 0.5):
            ticks = np.arange(0.0, 1.0 + step / 2.0, step)
            if _fit(ax, which, ticks, ticks / 1.04):
                break
        _set_ticks(ax, which, ticks)
        # Room for markers and bars at 0 and 1.
        getattr(ax, f"set_{which}lim")(-0.02, 1.02)


@dataclass(frozen=True)
class LogOdds:
    r"""A log-odds scale from ``low`` to ``high``, extended linearly to 0 and 1 if these are within the limits.

    .. math:: z(p) = \operatorname{logit}(p) \text{ on } [l, h],\qquad
              z(l) - g\,(1 - p/l) \text{ below},\qquad z(h) + g\,(p - h)/(1 - h) \text{ above},

    where g is a fixed share of :math:`z(h) - z(l)`. The axis thus has a place for exact zeros and ones, which are
    common among observed rates.
    """

    low: float
    high: float
    limits: tuple[float, float]

    @classmethod
    def over(cls, low: float, high: float, *, zero: bool, one: bool) -> LogOdds:
        """A scale over about [low, high]; ``zero`` and ``one`` tell whether there are values beyond its ends."""
        ends = logit(np.array([low, high]))
        low, high = expit(ends + np.array([-0.35, 0.35])).tolist()
        return cls(low, high, (0.0 if zero else low, 1.0 if one else high))

    @property
    def _ends(self) -> tuple[float, float, float]:
        bottom, top = logit(np.array([self.low, self.high])).tolist()
        return bottom, top, _GAP * (top - bottom)

    def forward(self, p: NDArray[Any]) -> Floats:
        """Place of each probability."""
        p = np.asarray(p, dtype=np.float64)
        gap = self._ends[2]
        below = np.minimum(p, self.low) / self.low - 1.0
        above = (np.maximum(p, self.high) - self.high) / (1.0 - self.high)
        return np.asarray(logit(np.clip(p, self.low, self.high)) + gap * (below + above))

    def inverse(self, z: NDArray[Any]) -> Floats:
        """Probability at each place."""
        z = np.asarray(z, dtype=np.float64)
        bottom, top, gap = self._ends
        below = self.low * np.minimum(z - bottom, 0.0) / gap
        above = (1.0 - self.high) * np.maximum(z - top, 0.0) / gap
        return np.asarray(expit(np.clip(z, bottom, top)) + below + above)

    def set(self, ax: Axes, which: Literal["x", "y"]) -> None:
        """Lay out one axis of ``ax``, with percentages at its ticks."""
        getattr(ax, f"set_{which}scale")("function", functions=(self.forward, self.inverse))
        ends = self.forward(np.array(self.limits))
        room = 0.02 * np.ptp(ends)
        wanted = np.unique(_TICKS, return_index=True)[1]
        kept: list[float] = []
        for tick in _TICKS[np.sort(wanted)]:
            ticks = np.sort([*kept, tick])
            if self.limits[0] <= tick <= self.limits[1] and _fit(ax, which, ticks, self.forward(ticks) / np.ptp(ends)):
                kept.append(float(tick))
        _set_ticks(ax, which, np.sort(kept))
        getattr(ax, f"set_{which}lim")(*self.inverse(ends + np.array([-room, room])))


def _fit(ax: Axes, which: Literal["x", "y"], ticks: Floats, places: Floats) -> bool:
    """Whether tick labels at ``places``, as shares of the axis, do not overlap."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    points = FontProperties(
        size=rcParams["xtick.labelsize" if which == "x" else "ytick.labelsize"]
    ).get_size_in_points()
    length = (ax.bbox.width if which == "x" else ax.bbox.height) / figure_of(ax).dpi * 72.0
    room = np.array([_width(percent(tick)) + 1.0 for tick in ticks]) if which == "x" else np.full(len(ticks), 2.0)
    return bool((np.diff(places) * length >= points * (room[1:] + room[:-1]) / 2.0).all())


def _width(text: str) -> float:
    """Approximate width of a percentage in ems."""
    digits = sum(letter.isdigit() for letter in text)
    return 0.64 * digits + 0.32 * (len(text) - digits - 1) + 0.95


def _set_ticks(ax: Axes, which: Literal["x", "y"], ticks: Floats) -> None:
    getattr(ax, f"set_{which}ticks")(ticks, [percent(tick) for tick in ticks])
    getattr(ax, f"set_{which}ticks")([], minor=True)


def percent(p: float, digits: int = 12) -> str:
    """A probability in percent, without trailing zeros or an exponent."""
    return f"{np.format_float_positional(float(f'{100 * p:.{digits}g}'), trim='-')} %"


def small_points() -> float:
    """Size of small text in points, by the user's settings."""
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size="small").get_size_in_points())


def width_in_points(ax: Axes) -> float:
    """Width of the axes in points, before any layout."""
    return float(ax.bbox.width / figure_of(ax).dpi * 72.0)


def settle(ax: Axes) -> None:
    """Run the layout engine of the figure, if it has one, so that the axes have their final size."""
    figure = figure_of(ax).canvas.figure
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)


def caption(ax: Axes, title: str, text: str, others: Sequence[Axes] = ()) -> None:
    """Title and a smaller caption above the axes, left-aligned, with the caption wrapped to their width.

    On a figure without a layout engine, the axes and ``others`` are moved down to make room.
    """
    from calibrant.displays.drawing.captions import Caption

    settle(ax)
    Caption(ax, title, text, NARROW_WIDTH)
    _keep_inside((ax, *others))


EDGE = 4.0
"""Pixels between text and the edge of a figure without a layout engine."""


def _keep_inside(axes: Sequence[Axes]) -> None:
    """Shrink axes until their text is on the canvas, if no layout engine does so."""
    figure = figure_of(axes[0])
    if figure.canvas.figure.get_layout_engine() is not None:
        return
    extents = [one.get_tightbbox() for one in axes]
    shown = [extent for extent in extents if extent is not None]
    boxes = [one.get_position(original=True) for one in axes]
    width, height = figure.bbox.width, figure.bbox.height
    left, bottom = min(box.x0 for box in boxes), min(box.y0 for box in boxes)
    right, top = max(box.x1 for box in boxes), max(box.y1 for box in boxes)
    over = (
        max(figure.bbox.x0 + EDGE - min(extent.x0 for extent in shown), 0.0) / width,
        max(figure.bbox.y0 + EDGE - min(extent.y0 for extent in shown), 0.0) / height,
        max(max(extent.y1 for extent in shown) + EDGE - figure.bbox.y1, 0.0) / height,
    )
    across = max(1.0 - over[0] / (right - left), 0.3)
    upward = max(1.0 - (over[1] + over[2]) / (top - bottom), 0.3)
    if across == upward == 1.0:
        return
    low = bottom + over[1]
    for one, box in zip(axes, boxes, strict=True):
        place = (right - across * (right - box.x0), low + upward * (box.y0 - bottom))
        one.set_position((*place, across * box.width, upward * box.height))
        one.set_in_layout(True)  # so that a later layout includes it


def legend_under(ax: Axes, rows: int) -> None:
    """Legend in two columns below ``rows`` rows at 0, 1, ... from the top; the rows move up to make room."""
    settle(ax)
    ax.set_ylim(rows - 0.4, -0.6)
    for columns, size in ((2, "small"), (2, "x-small"), (1, "x-small")):
        legend = ax.legend(
            *_in_order(ax), loc="lower left", ncols=columns, fontsize=size, frameon=False, borderaxespad=0.2
        )
        legend.set_in_layout(False)
        if legend.get_window_extent().width <= ax.bbox.width:
            break
    share = min((legend.get_window_extent().height + 6.0) / ax.bbox.height, 0.6)
    ax.set_ylim(-0.6 + rows / (1.0 - share) + 0.2, -0.6)


def percent_axis(
    ax: Axes, which: Literal["x", "y"], low: float, high: float, *, extend: float = 1.0, room: float = 0.04
) -> None:
    """Part of a linear axis of probabilities, with as many round percentages from low to high as fit.

    The axis is extended to ``extend`` times its length, with a margin ``room`` on both sides, as a share of it.
    """
    from matplotlib.ticker import MaxNLocator

    end = low + extend * (high - low)
    spare = room * (end - low)
    for count in (5, 4, 3, 2, 1):
        ticks = np.asarray(MaxNLocator(nbins=count, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
        ticks = ticks[(ticks >= low - spare) & (ticks <= high + spare)]
        if _fit(ax, which, ticks, ticks / (end - low + 2.0 * spare)):
            break
    _set_ticks(ax, which, ticks)
    getattr(ax, f"set_{which}lim")(low - spare, end + spare)


def share_axis(ax: Axes) -> None:
    """The vertical axis of a validity curve."""
    ax.set_ylim(-0.02, 1.02)
    _set_ticks(ax, "y", np.linspace(0.0, 1.0, 6))
    ax.set_ylabel("Share of rows within epsilon")


def place_legend(ax: Axes, drawn: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> None:
    """Legend where it covers none of the points in ``drawn``; everything else must be drawn already.

    If every position covers some points, the vertical axis is extended upward and the legend goes on top.
    """
    settle(ax)
    size = "small" if width_in_points(ax) >= NARROW_WIDTH else "x-small"
    legend = _legend(ax, size)
    x, y = (np.concatenate([np.asarray(part[axis], dtype=np.float64) for part in drawn]) for axis in (0, 1))
    points = ax.transData.transform(np.column_stack([x, y]))
    points = points[np.isfinite(points).all(axis=1)]
    covered: list[tuple[int, int]] = []
    for turn, place in enumerate(PLACES):
        legend.set_loc(place)
        box = legend.get_window_extent().padded(3.0)
        inside = (points >= [box.x0, box.y0]) & (points <= [box.x1, box.y1])
        covered.append((int(inside.all(axis=1).sum()), turn))
    legend.set_loc(PLACES[min(covered)[1]])
    if min(covered)[0]:
        legend = _legend(ax, size, columns=2)
        if legend.get_window_extent().width > ax.bbox.width - 12.0:
            legend = _legend(ax, size)
        share = min((legend.get_window_extent().height + 12.0) / ax.bbox.height, 0.6)
        scale = ax.yaxis.get_transform()
        low, high = scale.transform(np.array(ax.get_ylim()))
        ends = scale.inverted().transform(np.array([low, low + (high - low) / (1.0 - share)]))
        ax.set_ylim(*ends)


def _legend(ax: Axes, size: str, columns: int = 1) -> Any:
    legend = ax.legend(
        *_in_order(ax), loc="upper left", fontsize=size, framealpha=0.9, borderaxespad=0.6, handlelength=2.4,
        ncols=columns,
    )  # fmt: skip
    legend.set_in_layout(False)
    return legend


def _in_order(ax: Axes) -> tuple[list[Any], list[str]]:
    """Handles and labels of a legend, topmost artist first."""
    handles, labels = ax.get_legend_handles_labels()
    order = sorted(range(len(handles)), key=lambda place: (-_zorder(handles[place]), place))
    return [handles[place] for place in order], [labels[place] for place in order]


def _zorder(handle: Any) -> float:
    """Order of drawing; bars and error bars are containers, which have that of their parts."""
    return float((handle if hasattr(handle, "get_zorder") else handle.get_children()[0]).get_zorder())


def upright(x: Floats, low: Floats, high: Floats, per_bar: int = 12) -> tuple[Floats, Floats]:
    """Points along bars from ``low`` to ``high`` at each x, which a legend must not cover."""
    share = np.linspace(0.0, 1.0, per_bar)
    return np.repeat(x, per_bar), (low[:, None] + (high - low)[:, None] * share).reshape(-1)


def along(layout: Layout, x: Floats, y: Floats, per_piece: int = 12) -> tuple[Floats, Floats]:
    """Points along a line through (x, y), evenly in the layout, which a legend must not cover."""
    if len(x) < 2:
        return x, y
    u, v = layout.forward(x), layout.forward(y)
    at = np.linspace(0, len(u) - 1, per_piece * min(len(u), 200))
    steps = np.arange(len(u))
    return layout.inverse(np.interp(at, steps, u)), layout.inverse(np.interp(at, steps, v))


def steps(epsilon: Floats, share: Floats, start: float, end: float) -> tuple[Floats, Floats]:
    """Corners of the steps of a validity curve from ``start`` to ``end``."""
    x = np.concatenate([[start], np.repeat(np.clip(epsilon, start, end), 2), [end]])
    return x, np.concatenate([[0.0, 0.0], np.repeat(share, 2)])


def some_of(noun: str, shown: int, unseen: int) -> str:
    """A label, with the number shown if some are not shown."""
    return f"{noun} ({shown:,} of {shown + unseen:,} shown)" if unseen else noun


def amount(n: float, counted: bool) -> str:
    """Number of rows, or total weight."""
    return plural(round(n), "row") if counted else f"Total weight {n:,.6g}"


def short(name: str, most: int = 24) -> str:
    """A name shortened to fit next to an axis."""
    plain = visible(name)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
