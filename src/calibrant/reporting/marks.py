"""Words with a color for what a number means; the color adds no information."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.reporting.blocks import Mark, Tone
from calibrant.reporting.figures import UNKNOWN
from calibrant.verdict.verdict import Verdict

STATES: dict[str, Tone] = {"calibrated": "good", "miscalibrated": "bad", "off": "bad", "cannot tell": "warn"}
LIGHTS: dict[str, Tone] = {"green": "good", "yellow": "warn", "red": "bad", "none": "none"}


def against_chance(events: float, expected: Sequence[float] | None) -> Mark:
    """Whether a number of events is within, above or below the expected range."""
    if expected is None:
        return Mark("not testable", "none")
    low, high = expected
    if low <= events <= high:
        return Mark("within", "good")
    return Mark("above", "bad") if events > high else Mark("below", "warn")


def above_null(error: Mapping[str, Any]) -> Mark:
    """Whether a calibration error is above the 95 % quantile of a calibrated model."""
    value, most = error.get("value"), error.get("null_high")
    if value is None or most is None:
        return Mark(UNKNOWN, "none")
    return Mark("above expected", "bad") if value > most else Mark("within expected", "good")


def significance(part: Mapping[str, Any]) -> Mark:
    """Whether a segment is significantly off, and in which direction."""
    if not part["judged"]:
        return Mark("not testable", "none")
    if not part["off"]:
        return Mark("not significant", "good")
    return Mark(part["direction"], "warn" if part["side"] < 0 else "bad")


def class_mark(part: Verdict) -> Mark:
    """The status of a class or label; if it is off, how."""
    if part.status in ("miscalibrated", "off"):
        beyond = ", beyond the tolerance" if part.status == "miscalibrated" else ""
        return Mark(f"{' and '.join(part.direction)}{beyond}", "bad")
    return Mark("within tolerance" if part.status == "calibrated" else "cannot tell", STATES[part.status])


def evidence(value: float | None) -> Mark:
    """Whether a p-value is evidence against calibration; a large one is not evidence for it."""
    if value is None:
        return Mark(UNKNOWN, "none")
    return Mark("evidence against", "bad") if value < 0.05 else Mark("no evidence against", "good")


def best_action(model: float, everyone: float) -> str:
    """Which has the highest net benefit: using the model, acting on all, or acting on none."""
    best, name = (everyone, "act on all") if everyone > 0.0 else (0.0, "act on none")
    if abs(model - best) <= 1e-12:
        return f"tie: model, {name}"
    return "model" if model > best else name
