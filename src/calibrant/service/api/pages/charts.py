"""Pictures of a stream as SVG text: colors come from the style sheet of the page, so that they follow its theme."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, tzinfo
from html import escape
from typing import Any

from calibrant.guarantees.bounds import clopper_pearson
from calibrant.reporting.figures import percent, share

LEVEL = 0.95
"""Coverage of the interval of each group, for one look."""

SIDE, LEFT, BOTTOM, TOP, RIGHT = 300, 66, 42, 12, 26
"""Side of the square of the reliability diagram, and margins, in units of the picture."""

WIDTH, HEIGHT = 620, 200
"""Inside of pictures over time."""

ENDS = ("low", "high")

Points = Sequence[tuple[float, float]]


def reliability(groups: Sequence[Mapping[str, Any]]) -> str:
    """Observed against predicted, by group of the served probability.

    Parameters
    ----------
    groups
        Each with ``n``, ``predicted`` and ``observed`` (means).

    Returns
    -------
    str
        An ``<svg>`` element; the diagonal is perfect calibration.

    Examples
    --------
    >>> reliability([{"n": 50, "predicted": 0.2, "observed": 0.3}]).count("<circle")
    1
    """
    groups = [each for each in groups if each["n"] > 0]
    ends = [clopper_pearson(each["observed"] * each["n"], each["n"], 1.0 - LEVEL) for each in groups]
    most: float = max([each["predicted"] for each in groups] + [each["observed"] for each in groups] + [0.001])
    step = _step(min(1.0, 1.15 * most) / 4.0)
    steps = min(math.ceil(1.15 * most / step), round(1.0 / step))
    top: float = steps * step
    largest = max([each["n"] for each in groups], default=1)

    def x(value: float) -> float:
        return LEFT + SIDE * value / top

    def y(value: float) -> float:
        return TOP + SIDE * (1.0 - min(value, top) / top)

    parts = [_frame(SIDE, SIDE)]
    for tick in [step * k for k in range(steps + 1)]:
        parts.append(_text(x(tick), TOP + SIDE + 16, share(tick), "middle"))
        parts.append(_text(LEFT - 6, y(tick) + 4, share(tick), "end"))
    parts.append(_line(x(0.0), y(0.0), x(top), y(top), "ideal"))
    for each, (low, high) in zip(groups, ends, strict=True):
        place = x(each["predicted"])
        parts.append(_line(place, y(float(low)), place, y(float(high)), "interval"))
        radius = 3.0 + 6.0 * math.sqrt(each["n"] / largest)
        said = f"predicted {percent(each['predicted'])}, observed {percent(each['observed'])}, {each['n']:,} rows"
        circle = f'<circle class="dot" cx="{place:.1f}" cy="{y(each["observed"]):.1f}" r="{radius:.1f}">'
        parts.append(f"{circle}<title>{escape(said)}</title></circle>")
    parts.append(_text(LEFT + SIDE / 2, TOP + SIDE + 34, "predicted", "middle"))
    turned = f'transform="translate(12 {TOP + SIDE / 2}) rotate(-90)"'
    parts.append(f'<text class="label" text-anchor="middle" {turned}>observed</text>')
    said = f"Reliability diagram with {len(groups)} groups"
    return _svg(LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM, said, parts)


def means(days: Sequence[tuple[date, Mapping[str, Any]]]) -> str:
    """Mean prediction and share of events by day.

    Parameters
    ----------
    days
        Each day with ``n``, ``predicted`` and ``observed``, in order.

    Returns
    -------
    str
        An ``<svg>`` element.

    Examples
    --------
    >>> means([(date(2026, 5, 1), {"n": 9, "predicted": 0.2, "observed": 0.3})]).count("<polyline")
    2
    """
    filled = [(day, each) for day, each in days if each["n"] > 0]
    values = [each[name] for _, each in filled for name in ("predicted", "observed")]
    low, high = _span(values, floor=0.0)
    parts, x, y = _over_time([day for day, _ in filled], low, high)
    for name in ("predicted", "observed"):
        points = [(x(place), y(each[name])) for place, (_, each) in enumerate(filled)]
        parts.append(_polyline(points, name))
        for (place, height), (day, each) in zip(points, filled, strict=True):
            said = f"{day}: {name} {percent(each[name])}, {each['n']:,} rows"
            parts.append(
                f'<circle class="{name}" cx="{place:.1f}" cy="{height:.1f}" r="2.5"><title>{said}</title></circle>'
            )
    return _svg(LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM, "Mean prediction and share of events by day", parts)


def band(
    days: Sequence[tuple[date, Mapping[str, Any]]], alarms: Sequence[Mapping[str, Any]] = (), zone: tzinfo = UTC
) -> str:
    """The monitor's band of observed minus predicted at the end of each day, and at each alarm just before it ends.

    Parameters
    ----------
    days
        Each day with ``monitor_low`` and ``monitor_high``, in order; days without are left out.
    alarms
        Each with the time of the prediction at which it began (``since``) and its ``band``: ``rows``, ``low`` and
        ``high``; those on other days are left out.
    zone
        Time zone of the days.

    Returns
    -------
    str
        An ``<svg>`` element; the line at zero is perfect calibration.

    Examples
    --------
    >>> band([(date(2026, 5, 1), {"monitor_low": -0.1, "monitor_high": 0.2})]).count("<polygon")
    1
    """
    kept = [
        (day, float(each["monitor_low"]), float(each["monitor_high"]))
        for day, each in days
        if each.get("monitor_low") is not None and each.get("monitor_high") is not None
    ]
    marks, places = [], {day: place for place, (day, _, _) in enumerate(kept)}
    for each in alarms:
        at = datetime.fromisoformat(each["since"]).astimezone(zone) if each.get("since") and each.get("band") else None
        if at is not None and at.date() in places:
            passed = at - datetime.combine(at.date(), time(), zone)
            marks.append((places[at.date()] + passed.total_seconds() / 86_400.0 - 0.5, at, each["band"]))
    known = [both for _, *both in kept if both[1] - both[0] < 2.0]  # without rows the band is everything
    ends = [value for both in known for value in both] + [each[name] for *_, each in marks for name in ENDS]
    low, high = _span([*ends, 0.0])
    parts, x, y = _over_time([day for day, _, _ in kept], low, high)
    kept = [(day, max(least, low), min(most, high)) for day, least, most in kept]
    if len(kept) == 1:
        corners = [(x(0) + step, y(value)) for value in kept[0][1:] for step in (-6, 6)]
        corners[2:] = corners[:1:-1]
    else:
        corners = [(x(place), y(each[1])) for place, each in enumerate(kept)]
        corners += [(x(place), y(each[2])) for place, each in reversed(list(enumerate(kept)))]
    parts.append(f'<polygon class="band" points="{_points(corners)}"/>')
    parts.append(_line(LEFT, y(0.0), LEFT + WIDTH, y(0.0), "ideal"))
    for place, at, each in marks:
        parts.append(_line(x(place), y(each["low"]), x(place), y(each["high"]), "alarm"))
        seen = " to ".join(f"{100.0 * each[name]:+.2f}" for name in ENDS)
        said = f"alarm {at:%Y-%m-%d %H:%M}: {seen} percentage points, {each['rows']:,} rows"
        parts.append(_diamond(x(place), y(0.5 * (each["low"] + each["high"])), said))
    said = f"Band of observed minus predicted by day, with {len(marks)} alarms"
    return _svg(LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM, said, parts)


# ---------------------------------------------------------------------------------------------------------------- parts


def _over_time(days: Sequence[date], low: float, high: float) -> tuple[list[str], Any, Any]:
    """The frame with its axes, and the functions from place and value to coordinates."""
    n = len(days)

    def x(place: float) -> float:
        return LEFT + WIDTH * (place + 0.5) / max(n, 1)

    def y(value: float) -> float:
        return TOP + HEIGHT * (high - value) / (high - low)

    parts = [_frame(WIDTH, HEIGHT)]
    parts += [_text(LEFT - 6, y(tick) + 4, share(tick), "end") for tick in _ticks_between(low, high)]
    step = max(1, math.ceil(n / 7))
    parts += [
        _text(x(place), TOP + HEIGHT + 16, f"{day:%b} {day.day}", "middle")
        for place, day in enumerate(days)
        if place % step == 0
    ]
    return parts, x, y


def _span(values: Sequence[float], floor: float | None = None) -> tuple[float, float]:
    """A range around values, which is never empty."""
    if not values:
        return 0.0, 1.0
    room = max(0.15 * (max(values) - min(values)), 0.1 * max(map(abs, values)), 1e-4)
    low = min(values) - room
    return low if floor is None else max(floor, low), max(values) + room


def _ticks_between(low: float, high: float) -> list[float]:
    step = _step((high - low) / 4.0)
    first = math.ceil(low / step)
    return [k * step for k in range(first, math.floor(high / step) + 1)]


def _step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, at least a number."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(each * power for each in (1.0, 2.0, 5.0, 10.0) if each * power >= rough * (1.0 - 1e-9))


def _frame(width: float, height: float) -> str:
    return f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{width}" height="{height}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="label" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _diamond(x: float, y: float, said: str) -> str:
    corners = _points([(x - 6, y), (x, y - 6), (x + 6, y), (x, y + 6)])
    return f'<polygon class="alarm" points="{corners}"><title>{escape(said)}</title></polygon>'


def _points(points: Points) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _polyline(points: Points, kind: str) -> str:
    return f'<polyline class="{kind}" points="{_points(points)}"/>'


def _svg(width: float, height: float, said: str, parts: Sequence[str]) -> str:
    return f'<svg role="img" aria-label="{escape(said)}" viewBox="0 0 {width} {height}">{"".join(parts)}</svg>'
