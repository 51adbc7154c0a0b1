"""``calibrant watch``: watch a tally store day by day."""

from __future__ import annotations

import json
import math
import os
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import console, options
from calibrant.cli.exits import Exit

if TYPE_CHECKING:
    from calibrant.live import Monitor

KIND, VERSION = "watch", 1


def watch(
    store: Annotated[
        str,
        typer.Argument(callback=options.local, metavar="STORE", show_default=False, help="Folder of a tally store."),
    ],
    state: Annotated[
        str | None, options.path("--state", help_="File that keeps the monitor; the next call continues from it.")
    ] = None,
    map_: Annotated[
        str | None, options.path("--map", "-m", metavar="MAP.json", help_="Watch the scores after applying this map.")
    ] = None,
    level: Annotated[
        float, typer.Option("--level", metavar="P", help="Probability that a run without deviation ever has an alarm.")
    ] = 0.05,
    lag: Annotated[
        int,
        typer.Option("--lag", metavar="DAYS", min=1, help="At each prediction, outcomes of this age were known."),
    ] = 1,
    keys: Annotated[
        int, typer.Option("--keys", metavar="N", min=1, help="Largest number of segments of the store.")
    ] = 1000,
    tolerance: options.Tolerance = "0.2",
    as_json: options.Json = False,
) -> None:
    """Watch a tally store day by day, and raise an alarm if needed.

    However often you look, a stream without a deviation raises an alarm with probability at most --level. An alarm
    holds until the days after it are shown to be within the tolerance. With --state the monitor is kept in a file, and
    the next call continues with the new days, which must come after those watched. After a change of the model, begin
    with another file.

    Exit code: 0 no alarm, 12 an alarm holds or began on these days, 1 input error, 2 usage error.

    Example:
      calibrant watch clicks --state clicks.json
    """
    from calibrant.cli.input.files import load_map
    from calibrant.cli.voice import CommandLine, Mistake
    from calibrant.engine import TallyStore
    from calibrant.live import Monitor
    from calibrant.messages import InputError, plural
    from calibrant.verdict.input.through import Through

    kept = TallyStore(store)
    through = None if map_ is None else Through.of(load_map(map_))
    mark = None if through is None else through.calibration.fingerprint
    limits = options.tolerance_of(tolerance)
    try:
        fresh = Monitor(
            level=level,
            lag=lag,
            tolerance=(limits, limits) if isinstance(limits, float) else limits,
            n_keys=keys if kept.by else 0,
        )
        monitor, days = (fresh, []) if state is None else _read(state, fresh, mark)
        new = _new(kept.days, days)
        lines, before = [], monitor.alarm_count
        ended = {each.number for each in monitor.alarms if not each.holds}
        for day in new:
            tally = kept.window(day, day)
            mapped = tally if through is None else through.tallies(tally, 0)[0]
            monitor.update_tally(mapped, at=float(day.toordinal()))
            lines.append({"day": str(day), "rows": monitor.rows, "log_e": monitor.log_e, "run": monitor.run})
    except Mistake:
        raise
    except InputError as problem:
        raise Mistake.of(problem, CommandLine()) from None
    if state is not None:
        _write(state, monitor, [*days, *new], mark)
    alarms = [each for each in monitor.alarms if each.number not in ended]
    if as_json:
        console.show_json(_content(monitor, lines, [_alarm(each) for each in alarms]))
    else:
        watched = f"{plural(len(new), 'new day')}, {new[0]} to {new[-1]}" if new else "no new day"
        console.say(f"{store}: {watched}.")
        for each in alarms:
            until = "still" if each.holds else f"to {date.fromordinal(int(each.end_at))}"
            console.say(f"ALARM since {date.fromordinal(int(each.at))}, {until}: {each}.", "bold red")
        console.say(str(monitor))
    began = any(each.holds or each.number > before for each in alarms)
    raise typer.Exit(Exit.OFF if began else Exit.CALIBRATED)


def _new(stored: list[date], watched: list[date]) -> list[date]:
    """Days that were not watched; all of them must come after those that were."""
    from calibrant.cli.voice import Mistake

    last = max(watched, default=None)
    early = [day for day in stored if last is not None and day < last and day not in set(watched)]
    if early:
        names = ", ".join(map(str, early[:5])) + (", ..." if len(early) > 5 else "")
        raise Mistake(
            "the store",
            f"has new days before {last}, the last day that was watched: {names}",
            "pass another file with --state to start again with all days",
        )
    return [day for day in stored if last is None or day > last]


def _read(path: str, fresh: Monitor, mark: str | None) -> tuple[Monitor, list[date]]:
    """Monitor and days of a state file; without a file, a fresh monitor."""
    from calibrant.cli.voice import Mistake
    from calibrant.live import Monitor
    from calibrant.messages import InputError

    if not os.path.exists(path):
        return fresh, []
    damaged = Mistake(path, "is not a state of calibrant watch, or is damaged", "pass another file with --state")
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if set(found) != {"kind", "version", "map", "days", "monitor"} or found["kind"] != KIND:
            raise damaged
        monitor = Monitor.from_json(json.dumps(found["monitor"]))
        days = [date.fromisoformat(day) for day in found["days"]]
    except Mistake:
        raise
    except (ValueError, TypeError, OSError, InputError):
        raise damaged from None
    if found["version"] != VERSION:
        raise Mistake(path, f"has another version than {VERSION}", "update calibrant")
    if found["map"] != mark:
        raise Mistake("--map", f"is not the map with which {path} was written", "pass the same, or another --state")
    if monitor.settings() != fresh.settings():
        raise Mistake(path, "was written with other options", "pass the same options, or another --state")
    return monitor, days


def _write(path: str, monitor: Monitor, days: list[date], mark: str | None) -> None:
    """Write the state; the old file stays whole until the new one is."""
    found = {"kind": KIND, "version": VERSION, "map": mark, "days": [str(day) for day in days]}
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(found | {"monitor": json.loads(monitor.to_json())}, file)
    os.replace(f"{path}.new", path)


def _alarm(alarm: Any) -> dict[str, Any]:
    times = {"start": alarm.at, "end": alarm.end_at, "onset_estimate": alarm.onset_at}
    days = {name: None if math.isnan(at) else str(date.fromordinal(int(at))) for name, at in times.items()}
    return days | {name: getattr(alarm, name) for name in ("number", "kind", "shift")}


def _content(monitor: Monitor, days: list[dict[str, Any]], alarms: list[dict[str, Any]]) -> dict[str, Any]:
    band, advice = monitor.band, monitor.advice.as_dict()
    infinite = {name for name, value in advice.items() if isinstance(value, float) and math.isinf(value)}
    return {
        "days": days,
        "alarms": alarms,
        "advice": {name: None if name in infinite else value for name, value in advice.items()},
        "band": {name: getattr(band, name) for name in ("rows", "predicted", "observed", "difference", "low", "high")},
        "segments_off": [each.key for each in monitor.keys_off()],
    }
