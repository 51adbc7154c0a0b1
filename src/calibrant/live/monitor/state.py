"""The state of a monitor as JSON, read strictly: every number must be there, finite and in its place."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from calibrant.live.monitor.alarms import Alarm, EndedBy, Part
from calibrant.live.monitor.early import DELAY_CELLS, Drift, Early
from calibrant.live.monitor.evidence import CELLS, Band, Evidence
from calibrant.live.monitor.history import FIRST_STRIDE, MOST, History, Point
from calibrant.live.monitor.keys import KeyState, KeyWatch
from calibrant.live.monitor.run import SHIFTS, SLOPES, Run
from calibrant.live.monitor.wealth import Wealth
from calibrant.messages import InputError
from calibrant.numerics import Floats, Ints

if TYPE_CHECKING:
    from calibrant.live.monitor.monitor import Monitor

KIND, VERSION = "monitor", 1


def damaged() -> InputError:
    """The error that a state is not whole."""
    return InputError("state", "is damaged or does not belong here", "pass the text that to_json() returned")


# -------------------------------------------------------------------------------------------------------------- writing


def written(monitor: Monitor) -> str:
    """The state as JSON; equal monitors give equal text."""
    found = {
        "kind": KIND,
        "version": VERSION,
        "settings": monitor.settings(),
        "rows": monitor.rows,
        "run": monitor.run,
        "looks": monitor.looks,
        "start": list(monitor._start),
        "alarms": [_without_nan(asdict(each)) for each in monitor.alarms],
        "runs": [_of_run(each) for each in monitor._runs],
        "evidence": _of_evidence(monitor._evidence),
        "mark": None if monitor._mark is None else _of_evidence(monitor._mark),
        "history": {
            "stride": monitor._history.stride,
            "sums": monitor._history.sums.tolist(),
            "points": [list(_without_nan(asdict(each)).values()) for each in monitor._history.points],
        },
        "keys": {
            "beyond": monitor._keys.beyond,
            "found": [[name, _of_key(each)] for name, each in monitor._keys.found.items()],
        },
        "early": {
            name: {part: counts.tolist() for part, counts in vars(drift).items()}
            for name, drift in vars(monitor._early).items()
        },
    }
    return json.dumps(found, allow_nan=False, separators=(",", ":"))


def _without_nan(values: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in values.items()}


def _of_evidence(evidence: Evidence) -> dict[str, Any]:
    return {each.name: getattr(evidence, each.name).tolist() for each in fields(Evidence)}


def _of_wealth(wealth: Wealth) -> list[Any]:
    return [wealth.rows, wealth.totals.tolist(), wealth.opened.tolist()]


def _of_run(run: Run) -> dict[str, Any]:
    return {
        "center": run.center.tolist(),
        "highest": run.highest,
        "level": _of_wealth(run.level),
        "slope": _of_wealth(run.slope),
        "bins": [_of_wealth(each) for each in run.bins],
    }


def _of_key(state: KeyState) -> dict[str, Any]:
    return {
        "streams": [_of_wealth(each) for each in state.streams],
        "highest": state.highest.tolist(),
        "sums": state.sums.tolist(),
    }


# -------------------------------------------------------------------------------------------------------------- reading


def read(text: str, kind: type[Monitor]) -> Monitor:
    """The monitor of a state."""
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (TypeError, ValueError, RecursionError):
        raise damaged() from None
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise damaged()
    if type(found.get("version")) is not int:
        raise damaged()
    if found["version"] != VERSION:
        raise InputError("state", f"has another version than {VERSION}", "update calibrant")
    try:
        return _filled(found, kind)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError):  # InputError is a ValueError
        raise damaged() from None


def _refuse(_: str) -> Any:
    raise ValueError


def _filled(found: dict[str, Any], kind: type[Monitor]) -> Monitor:
    settings = found["settings"]
    if not isinstance(settings, dict):
        raise TypeError
    monitor = kind(**(settings | {"tolerance": tuple(settings["tolerance"])}))
    if monitor.settings() != settings or set(found) != set(json.loads(written(monitor))):
        raise ValueError
    lag, bins = monitor.lag, len(monitor.edges) + 1
    monitor.rows, monitor.run, monitor.looks = (_count(found[name]) for name in ("rows", "run", "looks"))
    row, errors, information = found["start"]
    monitor._start = (_count(row), _number(errors), _number(information))
    monitor._alarms = [_alarm(each) for each in _list(found["alarms"])]
    monitor._runs = [_run(each, bins) for each in _list(found["runs"], lag)]
    monitor._evidence = _evidence(found["evidence"], lag, bins)
    monitor._mark = None if found["mark"] is None else _evidence(found["mark"], lag, bins)
    monitor._history = _history(found["history"])
    monitor._keys = _keys(found["keys"], monitor.n_keys, lag)
    monitor._early = _early(found["early"])
    if len(monitor._alarms) > 100 or monitor._evidence.rows > monitor.rows or monitor.looks > monitor.rows:
        raise ValueError
    confirmed = monitor.alarm is not None and monitor.alarm.confirmed > 0
    if any(each.holds for each in monitor._alarms[:-1]) or (monitor._mark is not None) != confirmed:
        raise ValueError
    return monitor


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _or_nan(value: Any) -> float:
    return math.nan if value is None else _number(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**62:
        raise ValueError
    return value


def _list(value: Any, length: int | None = None) -> list[Any]:
    if type(value) is not list or (length is not None and len(value) != length):
        raise ValueError
    return value


def _numbers(value: Any, *shape: int, least: float = -math.inf) -> Floats:
    """An array of finite numbers of this shape, written as nested lists."""
    if not shape:
        return np.array(_number(value))
    found = np.array([_numbers(each, *shape[1:], least=least) for each in _list(value, shape[0])], dtype=np.float64)
    if (found < least).any():
        raise ValueError
    return found.reshape(shape)


def _counts(value: Any, length: int) -> Ints:
    return np.array([_count(each) for each in _list(value, length)], dtype=np.int64)


def _wealth(value: Any, alternatives: int) -> Wealth:
    rows, totals, opened = _list(value, 3)
    return Wealth(_numbers(totals, alternatives), _numbers(opened, alternatives), _count(rows))


def _run(value: Any, bins: int) -> Run:
    return Run(
        _numbers(value["center"], 2),
        _wealth(value["level"], len(SHIFTS)),
        _wealth(value["slope"], len(SLOPES)),
        [_wealth(each, len(SHIFTS)) for each in _list(value["bins"], bins)],
        _number(value["highest"]),
    )


def _evidence(value: Any, lag: int, bins: int) -> Evidence:
    sums, by_bin = _numbers(value["sums"], lag, 5), _numbers(value["by_bin"], lag, bins, 4)
    cells, center = _numbers(value["cells"], CELLS, 3), _numbers(value["center"], 2)
    if min(sums[:, [0, 2, 4]].min(), by_bin[:, :, [0, 2, 3]].min(), cells[:, :2].min(), center[0]) < 0.0:
        raise ValueError
    return Evidence(sums, by_bin, cells, center)


def _history(value: Any) -> History:
    stride = _count(value["stride"])
    if stride < FIRST_STRIDE or stride & (stride - 1):
        raise ValueError
    points = []
    for each in _list(value["points"]):
        row, at, run, *rest = _list(each, len(fields(Point)))
        points.append(Point(_count(row), _or_nan(at), _count(run), *map(_number, rest)))
    if len(points) > MOST:
        raise ValueError
    return History(stride, points, _numbers(value["sums"], 5))


def _alarm(value: Any) -> Alarm:
    if not isinstance(value, dict) or {"band", *value} != {each.name for each in fields(Alarm)}:
        raise ValueError
    end, by = value["end"], value["ended_by"]
    if value["kind"] not in get_args(Part) or by not in (get_args(EndedBy) if end is not None else (None,)):
        raise ValueError
    return Alarm(
        _count(value["number"]),
        _count(value["start"]),
        _or_nan(value["at"]),
        value["kind"],
        _number(value["log_e"]),
        _count(value["onset_row"]),
        _or_nan(value["onset_at"]),
        _number(value["shift"]),
        _count(value["confirmed"]),
        None if end is None else _count(end),
        _or_nan(value["end_at"]),
        by,
        None if value.get("band") is None else _band(value["band"]),
    )


def _band(value: Any) -> Band:
    if set(value) != {each.name for each in fields(Band)}:
        raise ValueError
    return Band(_count(value["rows"]), **{name: _number(each) for name, each in value.items() if name != "rows"})


def _keys(value: Any, most: int, lag: int) -> KeyWatch:
    found: dict[str, KeyState] = {}
    for each in _list(value["found"]):
        name, state = _list(each, 2)
        if not isinstance(name, str) or name in found:
            raise ValueError
        streams = [_wealth(one, len(SHIFTS)) for one in _list(state["streams"], lag)]
        found[name] = KeyState(streams, _numbers(state["highest"], lag, least=0.0), _numbers(state["sums"], lag, 4))
    if len(found) > most:
        raise ValueError
    return KeyWatch(most, lag, found, _count(value["beyond"]))


def _early(value: Any) -> Early:
    sizes = {"scores": CELLS, "delays": DELAY_CELLS, "covered": 2}
    if set(value) != set(sizes):
        raise ValueError
    parts = ("first", "last", "current")
    return Early(**{name: Drift(*(_counts(value[name][part], size) for part in parts)) for name, size in sizes.items()})
