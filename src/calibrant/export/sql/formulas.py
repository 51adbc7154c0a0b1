"""What a map computes, as text over the text of its score and of its numbers; and how a number is chosen by group."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.export.sql.dialects import Dialect
from calibrant.export.sql.pieces import Formula, Template
from calibrant.numerics import LOG_ODDS_LIMIT


def line(d: Dialect, x: str, start: str, width: str, rise: str, base: str, low: str, high: str) -> str:
    """Interpolation between two knots, in the order of operations of the map, held between the end values."""
    return held_between(d, f"({x} - {start}) / {width} * {rise} + {base}", low, high)


def flat(value: float, like: Formula) -> tuple[float, ...]:
    """Numbers for a piece that is a constant: every line is level, so that nothing on the way can overflow."""
    level = (0.0, 1.0, 0.0, value, value, value)
    return tuple(number for template, given in like.steps for number in (level if template is line else given))


def of_log_odds(d: Dialect, x: str, low: str, high: str, slope: str, intercept: str) -> str:
    """The affine map of the log-odds."""
    held = held_between(d, x, low, high)
    return expit(d, f"ln({held} / ({d.literal(1.0)} - {held})) * {slope} + {intercept}")


def of_score(d: Dialect, x: str, low: str, high: str, slope: str, intercept: str) -> str:
    """The affine map of the score."""
    return expit(d, f"{held_between(d, x, low, high)} * {slope} + {intercept}")


def of_logarithms(d: Dialect, x: str, low: str, high: str, a: str, b: str, c: str) -> str:
    """The beta map."""
    held = held_between(d, x, low, high)
    return expit(d, f"ln({held}) * {a} - ln({d.literal(1.0)} - {held}) * {b} + {c}")


def of_steep_logarithms(d: Dialect, x: str, low: str, high: str, a: str, b: str, c: str) -> str:
    """The same with log(1 - s) to the last bits: with u = 1 - s as rounded, log(u) - (s - (1 - u)) / u."""
    held, one = held_between(d, x, low, high), d.literal(1.0)
    rest = f"({one} - {held})"
    return expit(d, f"ln({held}) * {a} - (ln{rest} - ({held} - ({one} - {rest})) / {rest}) * {b} + {c}")


def expit(d: Dialect, z: str) -> str:
    """The probability of log-odds."""
    one = d.literal(1.0)
    return f"{one} / ({one} + exp(-{held_between(d, z, d.literal(-LOG_ODDS_LIMIT), d.literal(LOG_ODDS_LIMIT))}))"


def held_between(d: Dialect, x: str, low: str, high: str) -> str:
    """The number, moved inside two ends."""
    return f"{d.largest}({d.least}({x}, {high}), {low})"


NUMBERS: dict[Template, int] = {
    line: 6,
    of_log_odds: 4,
    of_score: 4,
    of_logarithms: 5,
    of_steep_logarithms: 5,
}
"""How many numbers each takes."""


def by_key(key: str, names: Sequence[str], values: Sequence[str], default: str | None) -> str:
    """The value of the name that the key equals; the default, or else NULL, where there is none."""
    branches = " ".join(f"WHEN {name} THEN {value}" for name, value in zip(names, values, strict=True))
    return f"CASE {key} {branches}{'' if default is None else f' ELSE {default}'} END"
