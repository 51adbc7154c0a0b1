"""Words with a color for what a number means; the color never says more than the word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.reporting.blocks import Mark, Tone
from calibrant.reporting.figures import UNKNOWN

STATES: dict[str, Tone] = {"calibrated": "good", "miscalibrated": "bad", "off": "bad", "cannot tell": "warn"}
LIGHTS: dict[str, Tone] = {"green": "good", "yellow": "warn", "red": "bad", "none": "none"}


def against_chance(events: float, expected: Sequence[float] | None) -> Mark:
    """Where a number of events lies against the expected range."""
    if expected is None:
        return Mark("cannot be judged", "none")
    low, high = expected
    if low <= events <= high:
        return Mark("within", "good")
    return Mark("above", "bad") if events > high else Mark("below", "warn")


def above_null(error: Mapping[str, Any]) -> Mark:
    """Whether a calibration error is more than a perfect model shows 19 times in 20."""
    value, most = error.get("value"), error.get("null_high")
    if value is None or most is None:
        return Mark(UNKNOWN, "none")
    return Mark("more than chance", "bad") if value > most else Mark("as chance gives", "good")


def luck(part: Mapping[str, Any]) -> Mark:
    """Whether chance explains a segment, and else how its scores are off."""
    if not part["judged"]:
        return Mark("cannot be judged", "none")
    if not part["off"]:
        return Mark("could be chance", "good")
    return Mark("too low", "bad") if part["events"] > part["predicted"] else Mark("too high", "warn")


def evidence(value: float | None) -> Mark:
    """What a p-value says; a large one is only an absence."""
    if value is None:
        return Mark(UNKNOWN, "none")
    return Mark("evidence against", "bad") if value < 0.05 else Mark("no evidence against", "good")


def best_action(model: float, everyone: float) -> str:
    """Which of acting by the model, on all or on none gains most."""
    best, name = (everyone, "act on all") if everyone > 0.0 else (0.0, "act on none")
    if abs(model - best) <= 1e-12:
        return f"as good: model, {name}"
    return "model" if model > best else name
