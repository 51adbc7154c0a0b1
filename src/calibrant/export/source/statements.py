"""A map of one score as a few statements about the number x, which every language can write.

The arithmetic is that of :mod:`calibrant.maps` in the same order, so tables give the same doubles, and curves those of
the logarithm and exponential of the language.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from itertools import groupby

from calibrant.export.scorer import as_table
from calibrant.maps import (
    LARGEST,
    BetaMap,
    ByGroupMap,
    ComposeMap,
    IdentityMap,
    LogitAffineMap,
    Map,
    PiecewiseLinearMap,
    StepMap,
    TreeMap,
)
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
    def of(cls, map_: Map) -> Program:
        """The program of a map of one score."""
        program = cls(map_.columns)
        program.body = written(map_, program)
        return program


def number(value: float) -> str:
    """A double as every language reads it, to the last bit."""
    return repr(float(value))


@singledispatch
def written(map_: Map, program: Program) -> list[Statement]:
    """The statements of a map."""
    raise InputError("map", f"of kind {map_.kind!r} has no source", "use to_onnx, or to_sql up to 100 classes")


@written.register
def _(map_: IdentityMap, program: Program) -> list[Statement]:
    return []


@written.register
def _(map_: StepMap, program: Program) -> list[Statement]:
    if not len(map_.knots):
        return [Set("x", number(map_.values[0]))]
    knots, values = program.table("knots", map_.knots.tolist()), program.table("values", map_.values.tolist())
    return [Set("j", f"at_or_below({knots}, {len(map_.knots)}, x)"), Set("x", f"{values}[j]")]


@written.register
def _(map_: PiecewiseLinearMap, program: Program) -> list[Statement]:
    if len(map_.knots) == 1:
        return [Set("x", number(map_.values[0]))]
    k, v = program.table("knots", map_.knots.tolist()), program.table("values", map_.values.tolist())
    last = len(map_.knots) - 1
    line = f"(x - {k}[j - 1]) / ({k}[j] - {k}[j - 1]) * ({v}[j] - {v}[j - 1]) + {v}[j - 1]"
    rising, falling = Clip(f"{v}[j - 1]", f"{v}[j]"), Clip(f"{v}[j]", f"{v}[j - 1]")
    inside: list[Statement] = [Set("j", f"at_or_below({k}, {last + 1}, x)"), Set("x", line)]
    if map_.direction.never_falls:
        inside.append(rising)
    else:
        inside.append(If(f"{v}[j - 1] <= {v}[j]", [rising], [falling]))
    ends = If(f"x >= {k}[{last}]", [Set("x", f"{v}[{last}]")], inside)
    return [If(f"x <= {k}[0]", [Set("x", f"{v}[0]")], [ends])]


@written.register
def _(map_: LogitAffineMap, program: Program) -> list[Statement]:
    return _affine(map_, number(map_.slope), number(map_.intercept))


def _affine(like: LogitAffineMap, slope: str, intercept: str) -> list[Statement]:
    if like.on == "score":
        start: list[Statement] = [Clip(number(-LARGEST), number(LARGEST)), Set("x", f"x * {slope} + {intercept}")]
    else:
        odds = Set("x", f"log(x / (1.0 - x)) * {slope} + {intercept}")
        start = [Clip(number(like.low), number(like.high)), odds]
    return [*start, *_expit()]


def _expit() -> list[Statement]:
    return [Clip(number(-LOG_ODDS_LIMIT), number(LOG_ODDS_LIMIT)), Set("x", "1.0 / (1.0 + exp(-x))")]


@written.register
def _(map_: BetaMap, program: Program) -> list[Statement]:
    a, b, c = map(number, (map_.a, map_.b, map_.c))
    curve = Set("x", f"log(x) * {a} - log1p(-x) * {b} + {c}")
    return [Clip(number(map_.low), number(map_.high)), curve, *_expit()]


@written.register
def _(map_: ComposeMap, program: Program) -> list[Statement]:
    out: list[Statement] = []
    for grouped, run in groupby(map_.maps, key=lambda part: bool(part.columns)):
        parts = tuple(run)
        table = None if grouped else as_table(ComposeMap(parts))
        for part in parts if table is None else (table,):
            out += written(part, program)
    return out


@written.register
def _(map_: ByGroupMap, program: Program) -> list[Statement]:
    order = sorted(range(len(map_.groups)), key=lambda j: map_.groups[j].encode())
    names = tuple(map_.groups[j] for j in order)
    group = f"group_{len(program.groups) + 1}"
    program.groups[group] = names
    program.places[group] = program.columns.index(map_.by)
    other: list[Statement] = [Missing()] if map_.default is None else written(map_.default, program)
    if map_.lines is None:
        return [Case(group, [written(map_.maps[j], program) for j in order], other)]
    like, *columns = map_.lines
    slope, intercept = (
        f"{program.table(what, [column[j].item() for j in order])}[{group}]"
        for what, column in zip(("slopes", "intercepts"), columns, strict=True)
    )
    return [If(f"{group} >= 0", _affine(like, slope, intercept), other)]


@written.register
def _(map_: TreeMap, program: Program) -> list[Statement]:
    raise InputError("map", "is a tree, which has no Python or C source", "use to_sql, to_onnx or scorer()")
