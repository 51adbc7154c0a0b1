"""A map as one SQL expression.

The column is cast to double before anything else, so that float32 and whole numbers go the way of doubles; literals are
doubles, as each dialect writes them. Arguments of ln and exp are clamped first (some engines raise where numpy
overflows), and NaN is asked for by name, since SQL engines order it above every number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from itertools import islice, pairwise

import numpy as np

from calibrant.arrays import InputError
from calibrant.export.dialects import DIALECTS, Dialect, Tables, dialect_named, fresh
from calibrant.export.pieces import Formula, Leaf, Pieces, Template, chained
from calibrant.maps import LARGEST, BetaMap, ComposeMap, IdentityMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap
from calibrant.numerics import LOG_ODDS_LIMIT, Floats

NEGLIGIBLE = 1e-290
"""Terms below this leave a probability as it is; in some engines it is an error when they underflow."""

ESCAPES = set("\\\"'`[]")
"""What some dialect takes for the end of a name, or for the way to write it inside one."""

STEEP = 100.0
"""Factors of log(1 - s) beyond which its rounding would show."""

LONGEST = 1 << 25
"""Characters beyond which a text is of no use to an engine."""


def to_sql(map_: Map, column: str, dialect: str = "duckdb") -> str:
    """The map over ``column`` as one expression; NULL and NaN give NULL.

    Parameters
    ----------
    column
        The column of scores: any name; it is quoted.
    dialect
        ``"duckdb"``, ``"postgres"``, ``"spark"`` and ``"sqlite"`` are run by our tests on the engine itself. The text
        for ``"bigquery"``, ``"clickhouse"``, ``"databricks"``, ``"mysql"``, ``"redshift"``, ``"snowflake"``,
        ``"trino"`` and ``"tsql"`` is translated by sqlglot, the extra ``calibrant[sql]``, and begins with a comment
        that says that it was not.

    Notes
    -----
    Step maps give the same doubles as :meth:`calibrant.maps.Map.apply`, smooth maps agree to 1e-12. A step map after a
    curve is compared in the raw score, and may take the neighbouring step where the curve is within rounding of a knot.
    Whether a score is a probability cannot be looked at here: a score outside [0, 1] is held at the end of the map.
    SQLite stores NaN as NULL, and text in a column of scores gives NULL.

    Cost: the text grows with the number of knots, the work of a row with its logarithm.

    Examples
    --------
    >>> from calibrant.maps import IdentityMap
    >>> to_sql(IdentityMap(), "p", "spark")
    'CASE WHEN CAST(`p` AS DOUBLE) IS NULL OR isnan(CAST(`p` AS DOUBLE)) THEN NULL ELSE CAST(`p` AS DOUBLE) END'
    """
    written = dialect_named(dialect)
    name = quote(column, dialect)
    x = f"CAST({name} AS {written.real})"
    body = _written(_cut(map_, written).merged(), x, column, written)
    if len(body) > LONGEST:
        raise InputError(f"the expression would have {len(body):,} characters: coarsen the map before you export it")
    text = f"CASE WHEN {written.unusable.format(name=name, x=x)} THEN NULL ELSE {body} END"
    return text if written.executed else _translated(text, dialect)


def quote(name: str, dialect: str) -> str:
    """The name of a column as an identifier.

    Examples
    --------
    >>> print(quote('12" pizza', "duckdb"), quote("a.b", "spark"))
    "12"" pizza" `a.b`
    """
    written = dialect_named(dialect)
    mark = written.mark
    if not isinstance(name, str) or not name or any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in name):
        raise InputError(f"the name of a column must be text without zero characters and lone surrogates, got {name!r}")
    if dialect == "spark" and "${" in name:
        raise InputError(f"Spark reads ${{...}} as a variable wherever it stands: rename the column {name!r}")
    if not written.executed and set(name) & ESCAPES:
        raise InputError(f"quotes and backslashes in a name are not tried in {dialect}: rename the column {name!r}")
    return mark + name.replace(mark, mark * 2) + mark


def knots_of(map_: Map) -> Floats:
    """Scores at which the formula of the map changes.

    Examples
    --------
    >>> knots_of(ComposeMap((LogitAffineMap(-1.0, 0.0), StepMap([0.25], [0.1, 0.8])))).round(6).tolist()
    [0.75]
    """
    return _cut(map_, DIALECTS["duckdb"]).merged().knots


def _translated(text: str, dialect: str) -> str:
    try:
        import sqlglot
    except ImportError:
        raise InputError(f'SQL for {dialect} is translated by sqlglot: pip install "calibrant[sql]"') from None
    (other,) = sqlglot.transpile(text, read="postgres", write=dialect)
    return f"/* generated, not executed on {dialect} */ {other}"


# ---------------------------------------------------------------------------------------------------- pieces to text


def _written(pieces: Pieces, x: str, column: str, dialect: Dialect) -> str:
    if dialect.tables is not None and pieces.numbers >= dialect.tables.numbers:
        text = _looked_up(pieces, x, column, dialect, dialect.tables)
        if text is not None:
            return text
    return _branch(x, pieces.knots, [_text(leaf, x, dialect) for leaf in pieces.leaves], dialect)


def _branch(x: str, knots: Floats, leaves: list[str], dialect: Dialect) -> str:
    """A balanced CASE: leaf j where j knots are at or below ``x``; a chain would nest too deep for some engines."""
    if len(leaves) == 1:
        return leaves[0]
    middle = len(leaves) // 2
    above = _branch(x, knots[middle:], leaves[middle:], dialect)
    below = _branch(x, knots[: middle - 1], leaves[:middle], dialect)
    return f"CASE WHEN {x} >= {dialect.literal(knots[middle - 1].item())} THEN {above} ELSE {below} END"


def _looked_up(pieces: Pieces, x: str, column: str, dialect: Dialect, tables: Tables) -> str | None:
    """One formula, each number of which is the entry of a table; None where the pieces differ in more than numbers."""
    index = tables.search(tables, x, pieces.knots.tolist(), column)

    def pick(numbers: Sequence[float], index: str) -> str:
        if len(set(numbers)) == 1:
            return dialect.literal(numbers[0])
        return tables.entry.format(array=tables.write(numbers), index=index)

    formulas = [leaf for leaf in pieces.leaves if isinstance(leaf, Formula)]
    if not formulas:
        return pick([leaf for leaf in pieces.leaves if isinstance(leaf, float)], index)
    if len({formula.shape for formula in formulas}) > 1:
        return None
    rows = [leaf.numbers if isinstance(leaf, Formula) else _flat(leaf, formulas[0]) for leaf in pieces.leaves]
    name = fresh("piece", column) if tables.bound else index
    text = _filled(formulas[0].shape, x, [pick(numbers, name) for numbers in zip(*rows, strict=True)], dialect)
    if formulas[0].shape[-1:] != (_line,):  # a line can be flat by itself, a curve has to be held
        ends = [(0.0, 1.0) if isinstance(leaf, Formula) else (leaf, leaf) for leaf in pieces.leaves]
        text = _held(dialect, text, *(pick(numbers, name) for numbers in zip(*ends, strict=True)))
    return tables.bound.format(value=index, name=name, body=text) if tables.bound else text


def _text(leaf: Leaf, x: str, dialect: Dialect) -> str:
    if isinstance(leaf, float):
        return dialect.literal(leaf)
    return _filled(leaf.shape, x, [dialect.literal(number) for number in leaf.numbers], dialect)


def _filled(shape: Sequence[Template], x: str, numbers: Sequence[str], dialect: Dialect) -> str:
    if len(shape) > dialect.nesting:
        raise InputError(
            f"{len(shape)} curves one after the other nest too deep for the parser of this dialect: fit one map in "
            "their place"
        )
    rest = iter(numbers)
    for place, template in enumerate(shape):
        x = template(dialect, f"({x})" if place else x, *islice(rest, NUMBERS[template]))
    return x


# ---------------------------------------------------------------------------------------------------- maps to pieces


@singledispatch
def _cut(map_: Map, dialect: Dialect) -> Pieces:
    """The map in pieces, on each of which it is monotone, of a score that is neither NULL nor NaN."""
    raise ValueError(f"a map of kind {map_.kind!r} has no SQL form")


@_cut.register
def _(map_: IdentityMap, dialect: Dialect) -> Pieces:
    return _one_piece(Formula(()))


@_cut.register
def _(map_: StepMap, dialect: Dialect) -> Pieces:
    return Pieces(map_.knots, map_.values.tolist())


@_cut.register
def _(map_: PiecewiseLinearMap, dialect: Dialect) -> Pieces:
    knots: list[float] = []
    leaves: list[Leaf] = [map_.values[0].item()]
    for (k0, v0), (k1, v1) in pairwise(zip(map_.knots.tolist(), map_.values.tolist(), strict=True)):
        knots.append(k0)
        if v0 == v1:
            leaves.append(v0)
            continue
        near = k0 + NEGLIGIBLE / abs(v1 - v0) * (k1 - k0)
        if dialect.raises and near > k0:  # the knot is zero or next to it, where the rise may underflow
            leaves.append(v0)
            if near >= k1:
                continue
            knots.append(near)
        leaves.append(_formula(_line, k0, k1 - k0, v1 - v0, v0, min(v0, v1), max(v0, v1)))
    return Pieces(np.append(knots, map_.knots[-1]), [*leaves, map_.values[-1].item()])


@_cut.register
def _(map_: LogitAffineMap, dialect: Dialect) -> Pieces:
    if map_.slope == 0.0 or (map_.on == "log-odds" and abs(map_.slope) < NEGLIGIBLE):
        return _one_piece(map_.apply(0.5).item())
    if map_.on == "log-odds":
        return _one_piece(_formula(_of_log_odds, map_.clamp, 1.0 - map_.clamp, map_.slope, map_.intercept))
    far = min(LARGEST, 1e307 / abs(map_.slope))  # beyond it the image is at its end anyway
    near = min(NEGLIGIBLE / abs(map_.slope), far)
    curve = _formula(_of_score, -far, far, map_.slope, map_.intercept)
    if not dialect.raises:
        return _one_piece(curve)
    return Pieces(np.array([-near, near]), [curve, map_.apply(0.0).item(), curve])


@_cut.register
def _(map_: BetaMap, dialect: Dialect) -> Pieces:
    a, b, c = (number if abs(number) > NEGLIGIBLE else 0.0 for number in (map_.a, map_.b, map_.c))
    template = _of_logarithms if abs(b) <= STEEP else _of_steep_logarithms
    curve = _formula(template, map_.clamp, 1.0 - map_.clamp, a, b, c)
    if min(a, b) < 0.0 < max(a, b):  # it turns where a / s + b / (1 - s) = 0
        return Pieces(np.array([a / (a - b)]), [curve, curve])
    return _one_piece(curve)


@_cut.register
def _(map_: ComposeMap, dialect: Dialect) -> Pieces:
    done, pieces = map_.maps[0], _cut(map_.maps[0], dialect)
    for part in map_.maps[1:]:  # not merged before the end: a curve must stay cut where it turns
        pieces = chained(pieces, done, _cut(part, dialect), part)
        done = ComposeMap((done, part))
    return pieces


def _one_piece(leaf: Leaf) -> Pieces:
    return Pieces(np.empty(0), [leaf])


def _formula(template: Template, *numbers: float) -> Formula:
    return Formula(((template, numbers),))


# ---------------------------------------------------------------------------------------------------------- formulas


def _line(d: Dialect, x: str, start: str, width: str, rise: str, base: str, low: str, high: str) -> str:
    """Interpolation between two knots, in the order of operations of the map, held between the end values."""
    return _held(d, f"({x} - {start}) / {width} * {rise} + {base}", low, high)


def _flat(value: float, like: Formula) -> tuple[float, ...]:
    """Numbers for a piece that is a constant: every line is level, so that nothing on the way can overflow."""
    level = (0.0, 1.0, 0.0, value, value, value)
    return tuple(number for template, given in like.steps for number in (level if template is _line else given))


def _of_log_odds(d: Dialect, x: str, low: str, high: str, slope: str, intercept: str) -> str:
    held = _held(d, x, low, high)
    return _expit(d, f"ln({held} / ({d.literal(1.0)} - {held})) * {slope} + {intercept}")


def _of_score(d: Dialect, x: str, low: str, high: str, slope: str, intercept: str) -> str:
    return _expit(d, f"{_held(d, x, low, high)} * {slope} + {intercept}")


def _of_logarithms(d: Dialect, x: str, low: str, high: str, a: str, b: str, c: str) -> str:
    held = _held(d, x, low, high)
    return _expit(d, f"ln({held}) * {a} - ln({d.literal(1.0)} - {held}) * {b} + {c}")


def _of_steep_logarithms(d: Dialect, x: str, low: str, high: str, a: str, b: str, c: str) -> str:
    """The same with log(1 - s) to the last bits: with u = 1 - s as rounded, log(u) s / (1 - u) (Goldberg 1991)."""
    held, one = _held(d, x, low, high), d.literal(1.0)
    rest = f"({one} - {held})"
    return _expit(d, f"ln({held}) * {a} - ln{rest} * ({held} / ({one} - {rest})) * {b} + {c}")


def _expit(d: Dialect, z: str) -> str:
    one = d.literal(1.0)
    return f"{one} / ({one} + exp(-{_held(d, z, d.literal(-LOG_ODDS_LIMIT), d.literal(LOG_ODDS_LIMIT))}))"


def _held(d: Dialect, x: str, low: str, high: str) -> str:
    return f"{d.largest}({d.least}({x}, {high}), {low})"


NUMBERS: dict[Template, int] = {
    _line: 6,
    _of_log_odds: 4,
    _of_score: 4,
    _of_logarithms: 5,
    _of_steep_logarithms: 5,
}
"""How many numbers each takes."""
