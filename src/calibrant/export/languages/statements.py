"""A map of one score as a few statements about the number x, which every language can write.

The arithmetic is that of :mod:`calibrant.maps` in the same order, so tables give the same doubles, and curves those of
the logarithm and exponential of the language. The statements of each kind are in :mod:`calibrant.export.kinds.scores`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import singledispatch

from calibrant.maps import Map
from calibrant.messages import InputError
from calibrant.numerics import LOG_ODDS_LIMIT


@dataclass(frozen=True)
class Set:
    """Give a variable the value of an expression."""

    name: str
    value: str


@dataclass(frozen=True)
class Clip:
    """Move x into an interval; the ends are expressions."""

    low: str
    high: str


@dataclass(frozen=True)
class If:
    """One of two lists of statements."""

    condition: str
    then: Sequence[Statement]
    other: Sequence[Statement]


@dataclass(frozen=True)
class Case:
    """One list of statements for each number of a group from 0, and one for all others."""

    group: str
    cases: Sequence[Sequence[Statement]]
    other: Sequence[Statement]


@dataclass(frozen=True)
class Missing:
    """Return NaN: there is no probability."""


Statement = Set | Clip | If | Case | Missing


@dataclass
class Program:
    """Tables, and the statements that use them, from the score x to the probability x."""

    columns: tuple[str, ...]
    tables: dict[str, tuple[float, ...]] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of groups, sorted by their bytes, by the name of the variable that is the number of a group."""
    places: dict[str, int] = field(default_factory=dict)
    """Column of each of these variables."""
    body: list[Statement] = field(default_factory=list)

    def table(self, what: str, values: Sequence[float]) -> str:
        """Name of a table; the same numbers are stored once."""
        numbers = tuple(values)
        for name, stored in self.tables.items():
            if stored == numbers:
                return name
        name = f"{what}_{1 + sum(each.startswith(what) for each in self.tables)}"
        self.tables[name] = numbers
        return name

    @classmethod
    def of(cls, map_: Map, clipped: bool = False) -> Program:
        """The program of a map of one score, which may be clipped to [0, 1] first."""
        program = cls(map_.columns)
        program.body = [*([Clip("0.0", "1.0")] if clipped else []), *written(map_, program)]
        return program


def number(value: float) -> str:
    """A double as every language reads it, to the last bit."""
    return repr(float(value))


@singledispatch
def written(map_: Map, program: Program) -> list[Statement]:
    """The statements of a map."""
    raise InputError("map", f"of kind {map_.kind!r} has no source", "use to_onnx, or to_sql up to 100 classes")


def expit_of_x() -> list[Statement]:
    """The last statements of a function of the log-odds."""
    return [Clip(number(-LOG_ODDS_LIMIT), number(LOG_ODDS_LIMIT)), Set("x", "1.0 / (1.0 + exp(-x))")]
