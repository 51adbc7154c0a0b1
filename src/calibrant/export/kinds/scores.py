"""Export of each kind of map of one score: its pieces, for SQL, its ONNX nodes, and its statements, for source code.

A kind registers three functions. ``cut`` returns pieces on each of which the map is monotone and has one formula.
``nodes`` returns the value of the element's own map, if several maps of the kind share their nodes; a single map is a
family of one. ``written`` returns the statements from which Python and C are written. A map with fields ``knots``, or
``low`` and ``high``, is also verified on both sides of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.score_types import PROBABILITY_ENDS
from calibrant.export.languages.onnx_graph import ML, Family, Graph
from calibrant.export.languages.sql.dialects import DIALECTS, Dialect
from calibrant.export.languages.sql.formulas import expit, held_between, line, of_log_odds
from calibrant.export.languages.sql.pieces import NEGLIGIBLE, Formula, Leaf, Pieces, Template, chained
from calibrant.export.languages.statements import (
    Case,
    Clip,
    If,
    Missing,
    Program,
    Set,
    Statement,
    expit_of_x,
    number,
    written,
)
from calibrant.maps import (
    LARGEST,
    BetaMap,
    ByGroupMap,
    ComposeMap,
    GroupedSoftmaxMap,
    IdentityMap,
    LogitAffineMap,
    Map,
    PerClassMap,
    PiecewiseLinearMap,
    SoftmaxMap,
    StepMap,
    TreeMap,
)
from calibrant.messages import InputError
from calibrant.numerics import Floats, to_float32

STEEP = 100.0
"""Coefficients of log(1 - s) above which its rounding matters."""


@singledispatch
def cut(map_: Map, dialect: Dialect) -> Pieces:
    """The map in monotone pieces, for a score that is neither NULL nor NaN."""
    raise ValueError(f"a map of kind {map_.kind!r} has no SQL form")


@singledispatch
def nodes(map_: Map, family: Family, graph: Graph, x: str) -> str:
    """Name of the value at ``x`` of maps like this one; arbitrary where ``x`` is NaN."""
    raise ValueError(f"a map of kind {map_.kind!r} has no ONNX form")


def knots_of(map_: Map) -> Floats:
    """Scores at which the formula of the map changes.

    Examples
    --------
    >>> knots_of(ComposeMap((LogitAffineMap(-1.0, 0.0), StepMap([0.25], [0.1, 0.8])))).round(6).tolist()
    [0.75]
    """
    return cut(map_, DIALECTS["duckdb"]).merged().knots


def as_table(map_: ComposeMap) -> StepMap | None:
    """The composition as one step map of the raw score, if one of its maps is a step map; otherwise None.

    Examples
    --------
    >>> as_table(ComposeMap((LogitAffineMap(-1.0, 0.0), StepMap([0.25], [0.1, 0.8]))))
    StepMap(knots=[0.75], values=[0.8, 0.1])
    """
    if not any(isinstance(part, StepMap) for part in map_.maps):
        return None
    pieces = cut(map_, DIALECTS["duckdb"]).merged()
    return StepMap(pieces.knots, pieces.leaves)  # type: ignore[arg-type]


def nodes_of(maps: Sequence[Map], which: str, graph: Graph, x: str) -> str:
    """Apply to each element of ``x`` the map with the index in ``which``.

    Maps of one structure share their nodes; with several structures, each is evaluated for all elements.
    """
    families: dict[Any, list[int]] = {}
    for place, part in enumerate(maps):
        families.setdefault(_structure(part), []).append(place)
    out = ""
    for places in families.values():
        own = which
        if len(families) > 1:
            inside, member = np.zeros(len(maps), dtype=np.int64), np.zeros(len(maps), dtype=bool)
            inside[places], member[places] = np.arange(len(places)), True
            own = graph.add("Gather", graph.constant(inside), which)
        family = Family([maps[place] for place in places], own, graph)
        image = nodes(family.maps[0], family, graph, x)
        out = graph.add("Where", graph.add("Gather", graph.constant(member), which), image, out) if out else image
    return out


def varies_outside(map_: Map) -> bool:
    """Whether a probability that is outside [0, 1] by rounding must be clipped: its image is not that of 0 or 1."""
    if isinstance(map_, SoftmaxMap | GroupedSoftmaxMap | BetaMap) or getattr(map_, "on", "") == "log-odds":
        return False  # it clips by itself
    if isinstance(map_, ComposeMap):
        return varies_outside(map_.maps[0])
    if isinstance(map_, ByGroupMap | PerClassMap):
        return any(map(varies_outside, filter(None, {*map_.maps, getattr(map_, "default", None)})))
    if len(map_.inputs) > 1:  # compares scores with each other
        return True
    low, high = PROBABILITY_ENDS
    if isinstance(map_, TreeMap):
        cuts = map_.thresholds[map_.columns_split == 0]
        split = ((cuts >= low) & (cuts < 0.0)) | ((cuts >= 1.0) & (cuts < high))
        return bool(split.any()) or any(map(varies_outside, map_.maps))
    knots = knots_of(map_)
    marks = np.concatenate([knots, np.nextafter(knots, -np.inf), [low, 0.0, 1.0, high]])
    below, above = marks[(marks >= low) & (marks <= 0.0)], marks[(marks >= 1.0) & (marks <= high)]
    return bool((map_.apply(below) != map_.apply(0.0)).any() or (map_.apply(above) != map_.apply(1.0)).any())


def _structure(map_: Map) -> Any:
    """Key of maps that can share their nodes."""
    if isinstance(map_, ComposeMap):
        return tuple(map(_structure, map_.maps))
    return map_.kind, getattr(map_, "on", "")


def _one_piece(leaf: Leaf) -> Pieces:
    return Pieces(np.empty(0), [leaf])


def _formula(template: Template, *numbers: float) -> Formula:
    return Formula(((template, numbers),))


# ------------------------------------------------------------------------------------------------------------- identity


@cut.register
def _(map_: IdentityMap, dialect: Dialect) -> Pieces:
    return _one_piece(Formula(()))


@nodes.register
def _(map_: IdentityMap, family: Family, graph: Graph, x: str) -> str:
    return x


@written.register
def _(map_: IdentityMap, program: Program) -> list[Statement]:
    return []


# ----------------------------------------------------------------------------------------------------------------- step


@cut.register
def _(map_: StepMap, dialect: Dialect) -> Pieces:
    return Pieces(map_.knots, map_.values.tolist())


@nodes.register
def _(map_: StepMap, family: Family, graph: Graph, x: str) -> str:
    if graph.precision == np.float64:
        return family.entry(lambda part: part.values, family.locate(x), padded=True)
    place = family.locate(x, lambda part: rounded_up(part.knots))
    return family.entry(lambda part: to_float32(part.values), place, padded=True)


def rounded_up(knots: Floats) -> NDArray[np.float32]:
    """The smallest float32 at or above each knot: a float32 reaches one exactly if it reaches the other."""
    with np.errstate(over="ignore", under="ignore"):  # beyond the range is infinity, which also reaches such a knot
        near = knots.astype(np.float32)
        up = np.nextafter(near, np.float32(np.inf))
    return np.where(near < knots, up, near) + np.float32(0.0)  # no -0.0


@written.register
def _(map_: StepMap, program: Program) -> list[Statement]:
    if not len(map_.knots):
        return [Set("x", number(map_.values[0]))]
    knots, values = program.table("knots", map_.knots.tolist()), program.table("values", map_.values.tolist())
    return [Set("j", f"at_or_below({knots}, {len(map_.knots)}, x)"), Set("x", f"{values}[j]")]


# ----------------------------------------------------------------------------------------------------- piecewise linear


@cut.register
def _(map_: PiecewiseLinearMap, dialect: Dialect) -> Pieces:
    knots: list[float] = []
    leaves: list[Leaf] = [map_.values[0].item()]
    for (k0, v0), (k1, v1) in pairwise(zip(map_.knots.tolist(), map_.values.tolist(), strict=True)):
        knots.append(k0)
        if v0 == v1:
            leaves.append(v0)
            continue
        near = k0 + NEGLIGIBLE / abs(v1 - v0) * (k1 - k0)
        if dialect.raises and near > k0:  # the knot is zero or close to it, where the rise may underflow
            leaves.append(v0)
            if near >= k1:
                continue
            knots.append(near)
        leaves.append(_formula(line, k0, k1 - k0, v1 - v0, v0, min(v0, v1), max(v0, v1)))
    return Pieces(np.append(knots, map_.knots[-1]), [*leaves, map_.values[-1].item()])


@nodes.register
def _(map_: PiecewiseLinearMap, family: Family, graph: Graph, x: str) -> str:
    first, last = family.number(lambda part: float(part.knots[0])), family.number(lambda part: float(part.knots[-1]))
    x = graph.clip(graph.widened(x), first, last)
    place = family.locate(x)  # at least 1, at most all knots
    start = family.entry(lambda part: np.append(part.values[0], part.values), place)
    end = family.entry(lambda part: np.append(part.values, part.values[-1]), place)
    x = graph.add("Sub", x, family.entry(lambda part: np.append(part.knots[0], part.knots), place))
    x = graph.add("Div", x, family.entry(lambda part: np.concatenate([[1.0], np.diff(part.knots), [1.0]]), place))
    x = graph.add("Mul", x, family.entry(lambda part: np.concatenate([[0.0], np.diff(part.values), [0.0]]), place))
    x = graph.add("Max", graph.add("Add", x, start), graph.add("Min", start, end))
    return graph.add("Min", x, graph.add("Max", start, end))


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


# --------------------------------------------------------------------------------------------------------- logit-affine


@cut.register
def _(map_: LogitAffineMap, dialect: Dialect) -> Pieces:
    if map_.slope == 0.0 or (map_.on == "log-odds" and abs(map_.slope) < NEGLIGIBLE):
        return _one_piece(map_.apply(0.5).item())
    if map_.on == "log-odds":
        return _one_piece(_formula(of_log_odds, map_.low, map_.high, map_.slope, map_.intercept))
    far = min(LARGEST, 1e307 / abs(map_.slope))  # beyond it the result is at its limit
    near = min(NEGLIGIBLE / abs(map_.slope), far)
    curve = _formula(of_score, -far, far, map_.slope, map_.intercept)
    if not dialect.raises:
        return _one_piece(curve)
    return Pieces(np.array([-near, near]), [curve, map_.apply(0.0).item(), curve])


def of_score(d: Dialect, x: str, low: str, high: str, slope: str, intercept: str) -> str:
    """The affine map of the score."""
    return expit(d, f"{held_between(d, x, low, high)} * {slope} + {intercept}")


@nodes.register
def _(map_: LogitAffineMap, family: Family, graph: Graph, x: str) -> str:
    if map_.on == "score":
        x = graph.clip(graph.widened(x), -LARGEST, LARGEST)
    else:
        x = _inside(family, graph, x)
        x = graph.add("Log", graph.add("Div", x, graph.add("Sub", 1.0, x)))
    x = graph.add("Mul", x, family.number(lambda part: part.slope))
    return graph.expit(graph.add("Add", x, family.number(lambda part: part.intercept)))


def _inside(family: Family, graph: Graph, x: str) -> str:
    """The score, clipped to ``low`` and ``high``."""
    return graph.clip(graph.widened(x), family.number(lambda part: part.low), family.number(lambda part: part.high))


@written.register
def _(map_: LogitAffineMap, program: Program) -> list[Statement]:
    return _affine(map_, number(map_.slope), number(map_.intercept))


def _affine(like: LogitAffineMap, slope: str, intercept: str) -> list[Statement]:
    if like.on == "score":
        start: list[Statement] = [Clip(number(-LARGEST), number(LARGEST)), Set("x", f"x * {slope} + {intercept}")]
    else:
        odds = Set("x", f"log(x / (1.0 - x)) * {slope} + {intercept}")
        start = [Clip(number(like.low), number(like.high)), odds]
    return [*start, *expit_of_x()]


# ----------------------------------------------------------------------------------------------------------------- beta


@cut.register
def _(map_: BetaMap, dialect: Dialect) -> Pieces:
    a, b, c = (value if abs(value) > NEGLIGIBLE else 0.0 for value in (map_.a, map_.b, map_.c))
    template = of_logarithms if abs(b) <= STEEP else of_steep_logarithms
    curve = _formula(template, map_.low, map_.high, a, b, c)
    if min(a, b) < 0.0 < max(a, b):  # turning point: a / s + b / (1 - s) = 0
        return Pieces(np.array([a / (a - b)]), [curve, curve])
    return _one_piece(curve)


def of_logarithms(d: Dialect, x: str, low: str, high: str, a: str, b: str, c: str) -> str:
    """The beta map."""
    held = held_between(d, x, low, high)
    return expit(d, f"ln({held}) * {a} - ln({d.literal(1.0)} - {held}) * {b} + {c}")


def of_steep_logarithms(d: Dialect, x: str, low: str, high: str, a: str, b: str, c: str) -> str:
    """The beta map with an accurate log(1 - s): with u = 1 - s rounded, log(u) - (s - (1 - u)) / u."""
    held, one = held_between(d, x, low, high), d.literal(1.0)
    rest = f"({one} - {held})"
    return expit(d, f"ln({held}) * {a} - (ln{rest} - ({held} - ({one} - {rest})) / {rest}) * {b} + {c}")


@nodes.register
def _(map_: BetaMap, family: Family, graph: Graph, x: str) -> str:
    x = _inside(family, graph, x)
    other = graph.add("Mul", _log_of_the_rest(graph, x), family.number(lambda part: part.b))
    x = graph.add("Sub", graph.add("Mul", graph.add("Log", x), family.number(lambda part: part.a)), other)
    return graph.expit(graph.add("Add", x, family.number(lambda part: part.c)))


def _log_of_the_rest(graph: Graph, x: str) -> str:
    """Accurate log(1 - x) also for small x, where 1 - x is rounded; ONNX has no log1p.

    With u = 1 - x rounded, it is log(u) - (x - (1 - u)) / u: the error of u is exact, and its square negligible.
    """
    rest = graph.add("Sub", 1.0, x)
    off = graph.add("Sub", x, graph.add("Sub", 1.0, rest))
    return graph.add("Sub", graph.add("Log", rest), graph.add("Div", off, rest))


@written.register
def _(map_: BetaMap, program: Program) -> list[Statement]:
    a, b, c = map(number, (map_.a, map_.b, map_.c))
    curve = Set("x", f"log(x) * {a} - log1p(-x) * {b} + {c}")
    return [Clip(number(map_.low), number(map_.high)), curve, *expit_of_x()]


# -------------------------------------------------------------------------------------------------------------- compose


@cut.register
def _(map_: ComposeMap, dialect: Dialect) -> Pieces:
    done, pieces = map_.maps[0], cut(map_.maps[0], dialect)
    for part in map_.maps[1:]:  # merged only at the end: a curve must stay split at its turning point
        pieces = chained(pieces, done, cut(part, dialect), part)
        done = ComposeMap((done, part))
    return pieces


@nodes.register
def _(map_: ComposeMap, family: Family, graph: Graph, x: str) -> str:
    x = graph.widened(x)
    for stage in zip(*(part.maps for part in family.maps), strict=True):
        x = nodes_of(stage, family.which, graph, x)
    return x


@written.register
def _(map_: ComposeMap, program: Program) -> list[Statement]:
    out: list[Statement] = []
    for grouped, run in groupby(map_.maps, key=lambda part: bool(part.columns)):
        parts = tuple(run)
        table = None if grouped else as_table(ComposeMap(parts))
        for part in parts if table is None else (table,):
            out += written(part, program)
    return out


# ------------------------------------------------------------------ by group, in SQL a stage of its own (stages.py)


@nodes.register
def _(map_: ByGroupMap, family: Family, graph: Graph, x: str) -> str:
    others = len(map_.groups)
    keys: dict[str, Any] = {"keys_strings": map_.groups, "values_int64s": range(others), "default_int64": others}
    code = graph.add("LabelEncoder", map_.by, domain=ML, **keys)
    if map_.default is None:
        graph.unknown.append(graph.add("Equal", code, graph.constant(np.array(others, np.int64))))
    return nodes_of((*map_.maps, map_.default or map_.maps[-1]), code, graph, graph.widened(x))


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


# ----------------------------------------------------------------------------------------------------------------- tree


@written.register
def _(map_: TreeMap, program: Program) -> list[Statement]:
    raise InputError("map", "is a tree, which has no Python or C source", "use to_sql, to_onnx or scorer()")
