"""Words with a color for what a number means; the color adds no information.

Green is what is shown to be within the limit, or passes a supervisor's test; red is beyond. Amber is more than chance
explains, by one test of many; what is not significant is gray, since it shows nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.notebook import AMBER, GREEN, RED
from calibrant.reporting.blocks import Mark, Tone
from calibrant.reporting.figures import UNKNOWN
from calibrant.verdict.verdict import Verdict

TONES: dict[str, Tone] = {GREEN: "good", AMBER: "warn", RED: "bad"}
LIGHTS: dict[str, Tone] = {"green": "good", "yellow": "warn", "red": "bad", "none": "none"}


def against_chance(events: float, expected: Sequence[float] | None) -> Mark:
    """Whether a number of events is within, above or below the expected range; outside is not a finding by itself."""
    if expected is None:
        return Mark("not testable", "none")
    low, high = expected
    if low <= events <= high:
        return Mark("within", "none")
    return Mark("above", "warn", "up") if events > high else Mark("below", "warn", "down")


def above_null(error: Mapping[str, Any]) -> Mark:
    """Whether a calibration error is above the 95 % quantile of a calibrated model."""
    value, most = error.get("value"), error.get("null_high")
    if value is None or most is None:
        return Mark(UNKNOWN, "none")
    return Mark("above expected", "warn", "up") if value > most else Mark("within expected", "none")


def significance(part: Mapping[str, Any]) -> Mark:
    """Whether a segment is significantly off, and in which direction; red if it is so by more than the limit."""
    if not part["judged"]:
        return Mark("not testable", "none")
    if not part["off"]:
        return Mark("not significant", "none")
    return Mark(part["direction"], "bad" if part["beyond"] else "warn")


def class_mark(part: Verdict) -> Mark:
    """The status of a class or label; if it is off, how."""
    beyond = ["beyond the limit"] * (part.status == "miscalibrated")
    if part.status in ("miscalibrated", "off"):
        return Mark(", ".join([" and ".join(part.direction) or "off", *beyond]), TONES[part.color])
    return Mark("within the limit" if part.status == "calibrated" else "cannot tell", TONES[part.color])


def evidence(value: float | None) -> Mark:
    """Whether a p-value is evidence against calibration; a large one is not evidence for it."""
    if value is None:
        return Mark(UNKNOWN, "none")
    return Mark("evidence against", "warn") if value < 0.05 else Mark("no evidence against", "none")


def best_action(model: float, everyone: float) -> str:
    """Which has the highest net benefit: using the model, acting on all, or acting on none."""
    best, name = (everyone, "act on all") if everyone > 0.0 else (0.0, "act on none")
    if abs(model - best) <= 1e-12:
        return f"tie: model, {name}"
    return "model" if model > best else name
