"""Plots of a monitored stream: observed minus predicted with its band at every look, and the alarms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.displays.base import Display, display_of
from calibrant.displays.drawing import style
from calibrant.live.monitor import Monitor
from calibrant.messages import InputError, plural
from calibrant.numerics import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class MonitorDisplay(Display):
    """Observed minus predicted of a stream, with its band at every look, the tolerance and the alarms.

    The line is observed minus predicted per row, since the evidence began; it breaks where the evidence begins again:
    where an alarm begins or evidence ends it, and at a restart. The band holds at all looks together. Dotted lines are
    the tolerance of the shift, for the scores since the evidence began. An alarm is shaded from its start, an upright
    line, to its end.

    Parameters
    ----------
    monitor : Monitor
        The monitor. Its figures are copied, so that later rows do not change the display.

    Notes
    -----
    Edge cases: the history has a point at every 64th row, or fewer on a long stream, and the present is one more. Only
    the latest 100 alarms are kept. With lag > 1 the band at earlier points may be a little wider than the one that was
    valid there. Guarantee: that of :class:`calibrant.live.Monitor`; each piece of the band, between two restarts of the
    evidence, holds at all looks with the probability in the caption. Cost: that of some hundred points.
    Proof: ``docs/certificates/monitor.md``.

    Attributes
    ----------
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> from calibrant.live import Monitor
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.05, 0.6, 640)
    >>> display = MonitorDisplay.from_monitor(Monitor().update(p, rng.random(640) < p))
    >>> display.data["row"][:3], display.data["alarms"]
    ([64, 128, 192], [])
    """

    size = (7.0, 4.4)

    def __init__(self, monitor: Monitor) -> None:
        if not isinstance(monitor, Monitor):
            raise InputError("monitor", f"must be a calibrant.live.Monitor, not {type(monitor).__name__}")
        if not monitor.rows:
            raise InputError("monitor", "has no rows yet", "update it with predictions and outcomes first")
        self._points = _points(monitor)
        self._marks: list[dict[str, Any]] = [
            {name: getattr(each, name) for name in ("number", "start", "kind", "onset_row", "end", "ended_by")}
            | {"at": _known(each.at)}
            for each in monitor.alarms
        ]
        self._numbers: dict[str, Any] = {
            "rows": monitor.rows,
            "alarm_count": monitor.alarm_count,
            "confidence": monitor.band.confidence,
            "tolerance": monitor.tolerance[0],
            "tolerated": None if monitor.tolerated is None else list(monitor.tolerated),
            "lag": monitor.lag,
        }

    @classmethod
    def from_monitor(cls, monitor: Monitor) -> MonitorDisplay:
        """Compute the points; draw them with :meth:`plot`.

        Parameters
        ----------
        monitor
            A monitor with rows.

        Returns
        -------
        MonitorDisplay
            The computed plot.
        """
        return cls(monitor)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists; ``began`` is the row after which the evidence of a point began.

        ``end`` of an alarm is None while it holds.
        """
        points = {name: list(values) for name, values in self._points.items()}
        return {"display": "monitor", **self._numbers, **points, "alarms": [dict(each) for each in self._marks]}

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        found = self._numbers
        holds = "".join(f" (since row {each['start']:,}, still)" for each in self._marks if each["end"] is None)
        text = (
            f"{plural(found['rows'], 'row')}, {plural(found['alarm_count'], 'alarm')}{holds}. Band: holds at all looks "
            f"together with probability {style.percent(found['confidence'])}, between restarts of the evidence."
        )
        if found["tolerated"] is not None:
            text += f" Dotted: what a shift of {found['tolerance']:g} in log-odds would be, for the latest scores."
        return text

    def _draw_on(self, ax: Axes) -> None:
        columns = ("row", "began", "difference", "low", "high")
        row, began, difference, low, high = (np.array(self._points[name], dtype=np.float64) for name in columns)
        reach = _reach(difference, low, high, self._numbers["tolerated"])
        rows = np.array([each["start"] for each in self._marks], dtype=np.float64)
        ax.axhline(0.0, **style.GUIDE_LINE, zorder=1)
        self._draw_tolerance(ax)
        drawn = [style.upright(rows, np.full(len(rows), -reach), np.full(len(rows), reach))]
        blue = style.color(ax, 0)
        for place, start in enumerate(np.unique(began)):
            own = began == start
            x, marker = row[own], "o" if own.sum() == 1 else None
            band: dict[str, Any] = {"label": "band at all looks"} if place == 0 else {}
            line: dict[str, Any] = {"label": "observed minus predicted"} if place == 0 else {}
            ax.fill_between(x, low[own], high[own], **style.shade(ax, blue), **band, zorder=2)
            if marker:  # a single point has a bar
                ax.vlines(x, low[own], high[own], **style.shade(ax, blue) | {"linewidth": 5.0}, zorder=2)
            ax.plot(x, difference[own], color=blue, linewidth=1.6, marker=marker, markersize=4, **line, zorder=4)
            drawn += [(x, difference[own]), style.upright(x, low[own], high[own])]
        if len(rows):
            ax.vlines(rows, -reach, reach, color=style.color(ax, 5), linewidth=1.4, label="alarm", zorder=3)
        for each in self._marks:
            end = self._numbers["rows"] if each["end"] is None else each["end"]
            ax.axvspan(each["start"], end, color=style.color(ax, 5), alpha=0.08, linewidth=0.0, zorder=1)
        ax.set_xlim(0.0, self._numbers["rows"] * 1.02)
        ax.set_ylim(-reach, reach)
        ax.yaxis.set_major_formatter(lambda value, _: style.percent(value, 6))
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ax.locator_params(axis="x", nbins=6, integer=True)
        ax.set_xlabel("Row")
        ax.set_ylabel("Observed minus predicted")
        self._head(ax, "Calibration over time")
        style.place_legend(ax, [(x, np.clip(y, -reach, reach)) for x, y in drawn])

    def _draw_tolerance(self, ax: Axes) -> None:
        """Two dotted lines, if there are scores that say where they are."""
        for place, value in enumerate(self._numbers["tolerated"] or ()):
            name: dict[str, Any] = {"label": "tolerance"} if place == 0 else {}
            ax.axhline(value, color=style.ink(ax), linewidth=1.2, linestyle=(0, (1, 1.2)), **name, zorder=3)


def _points(monitor: Monitor) -> dict[str, list[Any]]:
    """Points of the history, and the present if it is not one of them."""
    table, band = monitor.history, monitor.band
    found: dict[str, list[Any]] = {
        "row": table["row"],
        "at": [_known(each) for each in table["at"]],
        "began": [int(row - n) for row, n in zip(table["row"], table["n"], strict=True)],
        "difference": [total / n for total, n in zip(table["difference"], table["n"], strict=True)],
        "low": table["low"],
        "high": table["high"],
        "log_e": table["log_e"],
    }
    if band.rows and (not found["row"] or found["row"][-1] < monitor.rows):
        now = (monitor.rows, None, monitor.rows - band.rows, band.difference, band.low, band.high, monitor.log_e)
        for column, value in zip(found.values(), now, strict=True):
            column.append(value)
    return found


def _reach(difference: Floats, low: Floats, high: Floats, tolerated: list[float] | None) -> float:
    """Where the vertical axis ends: the tolerance, most differences and most of the band; the first rows say little."""
    sizes = [abs(each) for each in tolerated or ()]
    if len(difference):
        sizes += [float(np.quantile(np.abs(difference), 0.95)), float(np.abs(difference[-1]))]
        sizes.append(float(np.quantile(np.maximum(np.abs(low), np.abs(high)), 0.75)))
    return min(1.25 * max([*sizes, 1e-6]), 1.0)


def _known(time: float) -> float | None:
    return time if math.isfinite(time) else None


display_of.register(Monitor, MonitorDisplay)
