"""Shared SQL formulas, as text over the text of a score and of numbers."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.export.languages.sql.dialects import Dialect
from calibrant.export.languages.sql.pieces import Formula
from calibrant.numerics import LOG_ODDS_LIMIT


def line(d: Dialect, x: str, start: str, width: str, rise: str, base: str, low: str, high: str) -> str:
    """Interpolation between two knots, in the order of operations of the map, clipped to the end values."""
    return held_between(d, f"({x} - {start}) / {width} * {rise} + {base}", low, high)


def flat(value: float, like: Formula) -> tuple[float, ...]:
    """Numbers for a constant piece: every line is flat, so that nothing can overflow."""
    level = (0.0, 1.0, 0.0, value, value, value)
    return tuple(number for template, given in like.steps for number in (level if template is line else given))


def of_log_odds(d: Dialect, x: str, low: str, high: str, slope: str, intercept: str) -> str:
    """The affine map of the log-odds."""
    held = held_between(d, x, low, high)
    return expit(d, f"ln({held} / ({d.literal(1.0)} - {held})) * {slope} + {intercept}")


def expit(d: Dialect, z: str) -> str:
    """The probability of log-odds."""
    one = d.literal(1.0)
    return f"{one} / ({one} + exp(-{held_between(d, z, d.literal(-LOG_ODDS_LIMIT), d.literal(LOG_ODDS_LIMIT))}))"


def held_between(d: Dialect, x: str, low: str, high: str) -> str:
    """The number, clipped to an interval."""
    return f"{d.largest}({d.least}({x}, {high}), {low})"


def by_key(key: str, names: Sequence[str], values: Sequence[str], default: str | None) -> str:
    """The value of the name that equals the key; the default, or else NULL, if there is none."""
    branches = " ".join(f"WHEN {name} THEN {value}" for name, value in zip(names, values, strict=True))
    return f"CASE {key} {branches}{'' if default is None else f' ELSE {default}'} END"
