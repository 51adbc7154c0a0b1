"""What to do, as a value with a code and numbers: nothing, shift, refit, look at a range of scores, or wait."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.live.monitor.alarms import Alarm
from calibrant.live.monitor.evidence import Band, Evidence
from calibrant.live.monitor.run import SHARES
from calibrant.live.monitor.sets import Curve, Range, level_set, slope_set
from calibrant.messages import Note, Voice, note
from calibrant.numerics import Floats


@note("nothing-to-do")
def nothing_to_do(voice: Voice, rows: int, shift: float, slope: float) -> str:
    """Shift and slope are shown to be within the tolerance."""
    return (
        f"nothing to do: shift {shift:+.2f} and slope {slope:.2f} are within the tolerance, shown by {rows:,} "
        f"{voice.nouns.rows}"
    )


@note("level-moved")
def level_moved(voice: Voice, rows: int, shift: float, low: float, high: float, slope: float, shape: str) -> str:
    """The level is off; ``shape`` is "fine" if the slope is shown to be within the tolerance, otherwise "open"."""
    rest = "within the tolerance" if shape == "fine" else f"not settled yet (estimate {slope:.2f})"
    return f"the level moved: shift the log-odds by {shift:+.2f} ({low:+.3f} to {high:+.3f}); the slope is {rest}"


@note("refit")
def refit(voice: Voice, rows: int, slope: float, low: float, high: float, shift: float) -> str:
    """The slope is off."""
    return f"refit: the slope is off (estimate {slope:.2f}, {low:.3f} to {high:.3f}; estimated shift {shift:+.2f})"


@note("range-off")
def range_off(voice: Voice, rows: int, low: float, high: float, difference: float) -> str:
    """The level of one bin is beyond the tolerance."""
    return (
        f"refit: {voice.nouns.scores} from {low:g} to {high:g} are off by {difference:+.4f} per {voice.nouns.row}, "
        "more than the tolerance"
    )


@note("not-enough")
def not_enough(voice: Voice, rows: int) -> str:
    """Neither within nor beyond."""
    return f"not enough {voice.nouns.rows} yet ({rows:,}) to tell whether it is within the tolerance"


@note("alarm-holds")
def alarm_holds(voice: Voice, rows: int, part: str, onset: int, shift: float) -> str:
    """An alarm holds, and the rows since it began do not say yet what to do; what is said is what it found."""
    found = {"level": f"the log-odds are off by about {shift:+.2f}", "slope": "the slope is off"}
    off, nouns = found.get(part, f"a range of {voice.nouns.scores} is off"), voice.nouns.rows
    return (
        f"recalibrate with {nouns} from about number {onset:,} on: since then {off} (estimates); {rows:,} {nouns} "
        "after the alarm do not tell yet whether this is beyond the tolerance"
    )


@note("small-deviation")
def small_deviation(voice: Voice, rows: int, shift: float, slope: float) -> str:
    """An alarm holds, but shift and slope are shown to be within the tolerance."""
    return (
        f"keep it: {voice.nouns.scores} are off, but shift {shift:+.2f} and slope {slope:.2f} are within the "
        f"tolerance, shown by {rows:,} {voice.nouns.rows}"
    )


@dataclass(frozen=True)
class State:
    """Shift and slope that agree with the evidence, and the room of the tolerance."""

    shift: Range
    slope: Range
    room: tuple[float, float]
    sloped: bool
    """Whether there is a slope: nearly constant scores have none, and nothing of it to judge."""

    @classmethod
    def of(cls, evidence: Evidence, level: float, tolerance: tuple[float, float]) -> State:
        """Both sets, each with its share of the level."""
        alpha, along = level * SHARES["level"], level * SHARES["slope"]
        sloped = Curve(evidence).spread > 0.0
        return cls(level_set(evidence, alpha), slope_set(evidence, along, alpha), tolerance, sloped)

    @property
    def level_within(self) -> bool:
        """Whether the shift is shown to be within the tolerance."""
        return self.shift.inside(-self.room[0], self.room[0])

    @property
    def slope_within(self) -> bool:
        """Whether the slope is shown to be within the tolerance."""
        return not self.sloped or self.slope.inside(1.0 - self.room[1], 1.0 + self.room[1])

    @property
    def within(self) -> bool:
        """Whether both are."""
        return self.level_within and self.slope_within


def advise(
    evidence: Evidence, edges: Floats, level: float, tolerance: tuple[float, float], alarm: Alarm | None = None
) -> Note:
    """What to do, given the evidence and the alarm that holds; it never says that nothing was found beside one."""
    rows = evidence.rows
    open_ = not_enough(rows) if alarm is None else alarm_holds(rows, alarm.kind, alarm.onset_row, alarm.shift)
    if not rows:
        return open_
    state = State.of(evidence, level, tolerance)
    shift, slope = state.shift, state.slope
    if slope.excludes(1.0) and not state.slope_within:
        return refit(rows, slope.value, slope.low, slope.high, shift.value)
    if shift.excludes(0.0) and not state.level_within:
        shape = "fine" if state.slope_within else "open"
        return level_moved(rows, shift.value, shift.low, shift.high, slope.value, shape)
    worst = _worst(evidence.bins(level * SHARES["bins"]), evidence, state.room)
    if worst is not None:
        place, band = worst
        ends = [0.0, *edges.tolist(), 1.0]
        return range_off(band.rows, ends[place], ends[place + 1], band.difference)
    if state.within:
        return (nothing_to_do if alarm is None else small_deviation)(rows, shift.value, slope.value)
    return open_


def _worst(bins: list[Band], evidence: Evidence, room: tuple[float, float]) -> tuple[int, Band] | None:
    """The bin that is shown to be furthest beyond the tolerance, if any."""
    weight, product = evidence.center.tolist()
    found: tuple[float, int] | None = None
    for place, band in enumerate(bins):
        mean = band.predicted / band.rows if band.rows else 0.0
        if not 0.0 < mean < 1.0:
            continue
        away = abs(math.log(mean / (1.0 - mean)) - product / weight)
        reach = room[0] + (room[1] * away if math.isfinite(room[1]) else 0.0)
        low, high = (mean * f / (1.0 + mean * (f - 1.0)) - mean for f in (math.exp(-reach), math.exp(reach)))
        excess = max(band.low - high, low - band.high)
        if excess > 0.0 and (found is None or excess > found[0]):
            found = (excess, place)
    return None if found is None else (found[1], bins[found[1]])


def figures(state: State) -> dict[str, float | None]:
    """Shift and slope as plain numbers; None where they are not settled."""
    values = {
        f"{name}{end}": getattr(each, attribute)
        for name, each in (("shift", state.shift), ("slope", state.slope))
        for end, attribute in (("", "value"), ("_low", "low"), ("_high", "high"))
    }
    return {name: float(value) if np.isfinite(value) else None for name, value in values.items()}
