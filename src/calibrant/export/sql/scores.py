"""A map as one SQL expression.

The column is cast to double before anything else, so that float32 and whole numbers go the way of doubles; literals are
doubles, as each dialect writes them. Arguments of ln and exp are clamped first (some engines raise where numpy
overflows), and NaN is asked for by name, since SQL engines order it above every number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, islice

import numpy as np

from calibrant.arrays import InputError
from calibrant.arrays.keys import plain_text
from calibrant.export.sql.cuts import NEGLIGIBLE, cut
from calibrant.export.sql.dialects import Dialect, Tables, dialect_named, fresh
from calibrant.export.sql.formulas import NUMBERS, by_key, flat, held_between, line, of_log_odds
from calibrant.export.sql.pieces import Formula, Leaf, Pieces, Template
from calibrant.maps import ByGroupMap, ComposeMap, LogitAffineMap, Map
from calibrant.numerics import Floats

ESCAPES = set("\\\"'`[]")
"""What some dialect takes for the end of a name, or for the way to write it inside one."""

LONGEST = 1 << 25
"""Characters beyond which a text is of no use to an engine."""


def to_sql(map_: Map, column: str, dialect: str = "duckdb", by: Mapping[str, str] | None = None) -> str:
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
    by
        What the columns of groups are called there, where not as in the map: ``{"region": "area_code"}``.

    Notes
    -----
    Step maps give the same doubles as :meth:`calibrant.maps.Map.apply`, smooth maps agree to 1e-12. A step map after a
    curve is compared in the raw score, and may take the neighbouring step where the curve is within rounding of a knot.
    Whether a score is a probability cannot be looked at here: a score outside [0, 1] is held at the end of the map.
    SQLite stores NaN as NULL, and text in a column of scores gives NULL.

    A column of groups is cast to text: it may hold text, whole numbers or booleans, as the map's groups name them. The
    text of other types differs from engine to engine and meets no group. Engines without booleans refuse a map of the
    groups true and false.

    Cost: the text grows with the number of knots and groups, the work of a row with the logarithm of the knots and
    with the number of groups. A map before a map by group is written once; in dialects that we do not execute, twice
    or more.

    Examples
    --------
    >>> from calibrant.maps import IdentityMap
    >>> to_sql(IdentityMap(), "p", "spark")
    'CASE WHEN CAST(`p` AS DOUBLE) IS NULL OR isnan(CAST(`p` AS DOUBLE)) THEN NULL ELSE CAST(`p` AS DOUBLE) END'
    """
    written = dialect_named(dialect)
    names = group_columns(map_, column, by)
    keys = {each: written.key.format(quote(name, dialect)) for each, name in names.items()}
    name = quote(column, dialect)
    x = f"CAST({name} AS {written.real})"
    body = _staged(map_, x, keys, (column, *names.values()), written, dialect)
    unusable = [written.unusable.format(name=name, x=x), *_unknown(map_, keys, dialect)]
    text = f"CASE WHEN {' OR '.join(unusable)} THEN NULL ELSE {body} END"
    return text if written.executed else translated(text, dialect)


def group_columns(map_: Map, column: str, by: Mapping[str, str] | None) -> dict[str, str]:
    """What the columns of groups of a map are called in a table, beside the column of scores."""
    renamed = dict(by or {})
    unknown = set(renamed) - set(map_.columns)
    if unknown:
        raise InputError(f"by names {min(unknown)!r}, which this map does not need: it needs {list(map_.columns)}")
    names = {name: renamed.get(name, name) for name in map_.columns}
    taken = [str(each).lower() for each in (column, *names.values())]
    if len(set(taken)) < len(taken):
        raise InputError(
            f"scores and groups must be different columns, got {[column, *names.values()]}: rename with by"
        )
    return names


def quote(name: str, dialect: str) -> str:
    """The name of a column as an identifier.

    Examples
    --------
    >>> print(quote('12" pizza', "duckdb"), quote("a.b", "spark"))
    "12"" pizza" `a.b`
    """
    written = dialect_named(dialect)
    mark = written.mark
    if not isinstance(name, str) or not name or not plain_text(name):
        raise InputError(f"the name of a column must be text without zero characters and lone surrogates, got {name!r}")
    if dialect == "spark" and "${" in name:
        raise InputError(f"Spark reads ${{...}} as a variable wherever it stands: rename the column {name!r}")
    if not written.executed and set(name) & ESCAPES:
        raise InputError(f"quotes and backslashes in a name are not tried in {dialect}: rename the column {name!r}")
    return mark + name.replace(mark, mark * 2) + mark


def text_literal(text: str, dialect: str) -> str:
    r"""Text as a literal.

    Examples
    --------
    >>> print(text_literal("it's", "duckdb"), text_literal("it's", "spark"))
    'it''s' 'it\u0027s'
    """
    written = dialect_named(dialect)
    if written.odd_text(text):
        raise InputError(f"the group {text!r} holds a sign that is not tried in {dialect}: rename the group")
    return written.text(text)


def translated(text: str, dialect: str) -> str:
    """The text in a dialect that is not executed, with a comment that says so."""
    try:
        import sqlglot
    except ImportError:
        raise InputError(f'SQL for {dialect} is translated by sqlglot: pip install "calibrant[sql]"') from None
    (other,) = sqlglot.transpile(text, read="postgres", write=dialect)
    return f"/* generated, not executed on {dialect} */ {other}"


# ---------------------------------------------------------------------------------------------------- stages to text


def _staged(map_: Map, x: str, keys: Mapping[str, str], taken: tuple[str, ...], dialect: Dialect, name: str) -> str:
    """Stage after stage, each over a name for the result of the one before, so that nothing is written twice."""
    text = x
    for place, part in enumerate(_stages(map_)):
        row = fresh("stage", *taken)
        if isinstance(part, ByGroupMap):
            text = _by_group(part, text, row, keys[part.by], (*taken, row), dialect, name, not place)
        elif place and dialect.stage:
            body = score_text(part, dialect.stage.field.format(row=row, name="x"), (*taken, row), dialect)
            text = dialect.stage.write(row, {"x": text}, body)
        else:
            text = score_text(part, f"({text})" if place else text, taken, dialect)
        if len(text) > LONGEST:
            raise InputError(
                f"the expression would have {len(text):,} characters: coarsen the map before you export it"
            )
    return text


def score_text(map_: Map, x: str, taken: tuple[str, ...], dialect: Dialect) -> str:
    """A map of the score alone, over the text of a number; names that are taken are not given to anything else."""
    return _written(cut(map_, dialect).merged(), x, taken, dialect)


def _stages(map_: Map) -> Iterator[Map]:
    """Maps by group one by one, and what stands between them as one."""
    parts = map_.maps if isinstance(map_, ComposeMap) else (map_,)
    for grouped, run in groupby(parts, key=lambda part: isinstance(part, ByGroupMap)):
        if grouped:
            yield from run
        else:
            yield ComposeMap(tuple(run))


def _by_group(
    part: ByGroupMap, x: str, row: str, key: str, taken: tuple[str, ...], dialect: Dialect, name: str, first: bool
) -> str:
    """The number of the group is found once, from 1 on, and one more than there are groups where it is none of them."""
    if not dialect.booleans and set(part.groups) <= {"true", "false"}:
        raise InputError(f"true and false have no text in {name}: fit with groups of text or of whole numbers")
    names = [text_literal(group, name) for group in part.groups]
    if dialect.stage is None or (first and _lines_of(part) is None):  # the column itself may stand anywhere
        return _by_name(part, x if first else f"({x})", key, names, taken, dialect)
    code = by_key(key, names, [str(place) for place in range(1, len(names) + 1)], str(len(names) + 1))
    given, number = (dialect.stage.field.format(row=row, name=each) for each in ("x", "g"))
    return dialect.stage.write(row, {"x": x, "g": code}, _by_number(part, given, number, taken, dialect))


def _lines_of(part: ByGroupMap) -> tuple[LogitAffineMap, Floats, Floats] | None:
    return part.lines if part.lines is not None and part.lines[0].on == "log-odds" else None


def _by_name(part: ByGroupMap, x: str, key: str, names: Sequence[str], taken: tuple[str, ...], dialect: Dialect) -> str:
    default = None if part.default is None else score_text(part.default, x, taken, dialect)
    shared = _lines_of(part)
    if shared is None:
        return by_key(key, names, [score_text(each, x, taken, dialect) for each in part.maps], default)
    lines = _lines(shared, x, dialect, lambda numbers: by_key(key, names, list(map(dialect.literal, numbers)), None))
    return lines if default is None else f"CASE WHEN {key} IN ({', '.join(names)}) THEN {lines} ELSE {default} END"


def _by_number(part: ByGroupMap, x: str, code: str, taken: tuple[str, ...], dialect: Dialect) -> str:
    """The map of the group of this number; where none is, the default, or anything at all if there is no default."""
    known, others = np.arange(2.0, len(part.groups) + 1.0), np.array([len(part.groups) + 1.0])
    default = [] if part.default is None else [score_text(part.default, x, taken, dialect)]
    shared = _lines_of(part)
    if shared is None:
        leaves = [score_text(each, x, taken, dialect) for each in part.maps] + default
        return branch(code, np.append(known, others) if default else known, leaves, dialect)

    def pick(numbers: list[float]) -> str:
        if dialect.tables is None:
            return branch(code, known, [dialect.literal(number) for number in numbers], dialect)
        return dialect.tables.entry.format(array=dialect.tables.write([*numbers, 0.0]), index=code)

    lines = _lines(shared, x, dialect, pick)
    return branch(code, others, [lines, *default], dialect) if default else lines


def _lines(
    shared: tuple[LogitAffineMap, Floats, Floats], x: str, dialect: Dialect, pick: Callable[[list[float]], str]
) -> str:
    """One formula for all groups, with the slope and the intercept of the row's own."""
    like, *columns = shared
    numbers = [np.where(np.abs(column) > NEGLIGIBLE, column, 0.0).tolist() for column in columns]
    chosen = [dialect.literal(each[0]) if len(set(each)) == 1 else pick(each) for each in numbers]
    return of_log_odds(dialect, x, dialect.literal(like.low), dialect.literal(like.high), *chosen)


def _unknown(map_: Map, keys: Mapping[str, str], dialect: str) -> Iterator[str]:
    """Conditions under which a row is in no group of a map that has no default."""
    for part in _stages(map_):
        if isinstance(part, ByGroupMap) and part.default is None:
            key, names = keys[part.by], ", ".join(text_literal(group, dialect) for group in part.groups)
            yield f"{key} IS NULL OR {key} NOT IN ({names})"


# ---------------------------------------------------------------------------------------------------- pieces to text


def _written(pieces: Pieces, x: str, taken: tuple[str, ...], dialect: Dialect) -> str:
    if dialect.tables is not None and pieces.numbers >= dialect.tables.numbers:
        text = _looked_up(pieces, x, taken, dialect, dialect.tables)
        if text is not None:
            return text
    return branch(x, pieces.knots, [_text(leaf, x, dialect) for leaf in pieces.leaves], dialect)


def branch(x: str, knots: Floats, leaves: list[str], dialect: Dialect) -> str:
    """A balanced CASE: leaf j where j knots are at or below ``x``; a chain would nest too deep for some engines."""
    if len(leaves) == 1:
        return leaves[0]
    middle = len(leaves) // 2
    above = branch(x, knots[middle:], leaves[middle:], dialect)
    below = branch(x, knots[: middle - 1], leaves[:middle], dialect)
    return f"CASE WHEN {x} >= {dialect.literal(knots[middle - 1].item())} THEN {above} ELSE {below} END"


def _looked_up(pieces: Pieces, x: str, taken: tuple[str, ...], dialect: Dialect, tables: Tables) -> str | None:
    """One formula, each number of which is the entry of a table; None where the pieces differ in more than numbers."""
    index = tables.search(tables, x, pieces.knots.tolist(), taken)

    def pick(numbers: Sequence[float], index: str) -> str:
        if len(set(numbers)) == 1:
            return dialect.literal(numbers[0])
        return tables.entry.format(array=tables.write(numbers), index=index)

    formulas = [leaf for leaf in pieces.leaves if isinstance(leaf, Formula)]
    if not formulas:
        return pick([leaf for leaf in pieces.leaves if isinstance(leaf, float)], index)
    if len({formula.shape for formula in formulas}) > 1:
        return None
    rows = [leaf.numbers if isinstance(leaf, Formula) else flat(leaf, formulas[0]) for leaf in pieces.leaves]
    name = fresh("piece", *taken) if tables.bound else index
    text = _filled(formulas[0].shape, x, [pick(numbers, name) for numbers in zip(*rows, strict=True)], dialect)
    if formulas[0].shape[-1:] != (line,):  # a line can be flat by itself, a curve has to be held
        ends = [(0.0, 1.0) if isinstance(leaf, Formula) else (leaf, leaf) for leaf in pieces.leaves]
        text = held_between(dialect, text, *(pick(numbers, name) for numbers in zip(*ends, strict=True)))
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
