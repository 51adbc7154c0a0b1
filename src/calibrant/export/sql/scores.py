"""Maps of one score as text over the text of the score.

Literals are doubles, as each dialect writes them. Arguments of ln and exp are clipped first, since some engines raise
errors where numpy overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import singledispatch
from itertools import groupby, islice

import numpy as np

from calibrant.export.kinds import cut
from calibrant.export.sql.dialects import Dialect, Tables, dialect_named, fresh
from calibrant.export.sql.formulas import by_key, flat, held_between, line, of_log_odds
from calibrant.export.sql.pieces import NEGLIGIBLE, Formula, Leaf, Pieces, Template
from calibrant.export.sql.text import Text
from calibrant.maps import ByGroupMap, ComposeMap, LogitAffineMap, Map
from calibrant.messages import InputError, Setting
from calibrant.numerics import Floats

MAX_LENGTH = 1 << 25
"""Largest number of characters of a text that engines can use."""


def text_literal(text: str, dialect: str) -> str:
    r"""Text as a literal.

    Examples
    --------
    >>> print(text_literal("it's", "duckdb"), text_literal("it's", "spark"))
    'it''s' 'it\u0027s'
    """
    written = dialect_named(dialect)
    if written.odd_text(text):
        raise InputError(
            "map", f"has the group {text!r}, with characters that are not tested in {dialect}", "rename the group"
        )
    return written.text(text)


def translated(text: str, dialect: str) -> str:
    """The text in a dialect that is not tested on its engine, with a comment that says so."""
    try:
        import sqlglot
    except ImportError:
        raise InputError(
            Setting("dialect", dialect),
            "needs sqlglot, which is not installed",
            'pip install "calibrant[sql]"',
        ) from None
    (other,) = sqlglot.transpile(text, read="postgres", write=dialect)
    return f"/* generated, not executed on {dialect} */ {other}"


# ---------------------------------------------------------------------------------------------------- stages to text


@singledispatch
def lower(map_: Map, text: Text, x: list[str], place: int) -> str:
    """The output column at this index, over the texts of the scores, none of which is NULL or NaN.

    A map of one score is written stage by stage, each over a name for the result of the previous one, so that nothing
    is written twice.
    """
    found = x[place]
    for stage, part in enumerate(stages(map_)):
        row = fresh("stage", *text.taken)
        inside = replace(text, taken=(*text.taken, row))
        if isinstance(part, ByGroupMap) and stage in text.joined:
            found = _by_join(part, found, row, inside, text.joined[stage], not stage)
        elif isinstance(part, ByGroupMap):
            found = _by_group(part, found, row, inside, not stage)
        elif stage and text.dialect.stage:
            body = score_text(part, text.dialect.stage.field.format(row=row, name="x"), inside)
            found = text.dialect.stage.write(row, {"x": found}, body)
        else:
            found = score_text(part, f"({found})" if stage else found, text)
        if len(found) > MAX_LENGTH:
            raise InputError("map", f"needs {len(found):,} characters in SQL", "use a coarser map before exporting it")
    return found


def score_text(map_: Map, x: str, text: Text) -> str:
    """A map of the score alone, over the text of a number; names in use are not reused."""
    return _written(cut(map_, text.dialect).merged(), x, text)


def stages(map_: Map) -> Iterator[Map]:
    """Stages of a map: each map by group, and the maps between them as one."""
    parts = map_.maps if isinstance(map_, ComposeMap) else (map_,)
    for grouped, run in groupby(parts, key=lambda part: isinstance(part, ByGroupMap)):
        if grouped:
            yield from run
        else:
            yield ComposeMap(tuple(run))


def _by_group(part: ByGroupMap, x: str, row: str, text: Text, first: bool) -> str:
    """A map by group over the number of the group, found once: from 1, and one more than the groups for others."""
    if not text.dialect.booleans and set(part.groups) <= {"true", "false"}:
        raise InputError(
            Setting("dialect", text.name), "has no text for booleans", "fit with groups of text or integers"
        )
    key, stage = text.keys[part.by], text.dialect.stage
    names = [text_literal(group, text.name) for group in part.groups]
    if stage is None or (first and lines_of(part) is None):  # the column itself can be repeated
        return _by_name(part, x if first else f"({x})", key, names, text)
    code = by_key(key, names, [str(place) for place in range(1, len(names) + 1)], str(len(names) + 1))
    given, number = (stage.field.format(row=row, name=each) for each in ("x", "g"))
    return stage.write(row, {"x": x, "g": code}, _by_number(part, given, number, text))


def _by_join(part: ByGroupMap, x: str, row: str, text: Text, numbers: tuple[str, str], first: bool) -> str:
    """A map by group over the slope and intercept of the row's group, which are NULL for other groups."""
    dialect, shared = text.dialect, lines_of(part)
    assert shared is not None  # as joins.py checks

    def body(x: str, slope: str, intercept: str) -> str:
        default = "NULL" if part.default is None else score_text(part.default, x, text)
        ends = dialect.literal(shared[0].low), dialect.literal(shared[0].high)
        return f"CASE WHEN {slope} IS NULL THEN {default} ELSE {of_log_odds(dialect, x, *ends, slope, intercept)} END"

    if dialect.stage is None or first:
        return body(x if first else f"({x})", *numbers)
    fields = {"x": x, "slope": numbers[0], "intercept": numbers[1]}
    named = [dialect.stage.field.format(row=row, name=each) for each in fields]
    return dialect.stage.write(row, fields, body(*named))


def lines_of(part: ByGroupMap) -> tuple[LogitAffineMap, Floats, Floats] | None:
    """If all maps are lines on the log-odds: one of them, the slopes and the intercepts."""
    return part.lines if part.lines is not None and part.lines[0].on == "log-odds" else None


def _by_name(part: ByGroupMap, x: str, key: str, names: Sequence[str], text: Text) -> str:
    default = None if part.default is None else score_text(part.default, x, text)
    shared = lines_of(part)
    if shared is None:
        return by_key(key, names, [score_text(each, x, text) for each in part.maps], default)
    lines = _lines(shared, x, text.dialect, lambda numbers: by_key(key, names, list(map(text.number, numbers)), None))
    return lines if default is None else f"CASE WHEN {key} IN ({', '.join(names)}) THEN {lines} ELSE {default} END"


def _by_number(part: ByGroupMap, x: str, code: str, text: Text) -> str:
    """The map of the group with this number; for others the default, or anything if there is no default."""
    dialect = text.dialect
    known, others = np.arange(2.0, len(part.groups) + 1.0), np.array([len(part.groups) + 1.0])
    default = [] if part.default is None else [score_text(part.default, x, text)]
    shared = lines_of(part)
    if shared is None:
        leaves = [score_text(each, x, text) for each in part.maps] + default
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
    """One formula for all groups, with the slope and intercept of the row's group."""
    like, *columns = shared
    numbers = [np.where(np.abs(column) > NEGLIGIBLE, column, 0.0).tolist() for column in columns]
    chosen = [dialect.literal(each[0]) if len(set(each)) == 1 else pick(each) for each in numbers]
    return of_log_odds(dialect, x, dialect.literal(like.low), dialect.literal(like.high), *chosen)


# ---------------------------------------------------------------------------------------------------- pieces to text


def _written(pieces: Pieces, x: str, written: Text) -> str:
    dialect = written.dialect
    if dialect.tables is not None and pieces.numbers >= dialect.tables.numbers:
        text = _looked_up(pieces, x, written.taken, dialect, dialect.tables)
        if text is not None:
            return text
    return branch(x, pieces.knots, [_text(leaf, x, dialect) for leaf in pieces.leaves], dialect)


def branch(x: str, knots: Floats, leaves: list[str], dialect: Dialect) -> str:
    """A balanced CASE: leaf j if j knots are at or below ``x``; a chain would be nested too deeply for some engines."""
    if len(leaves) == 1:
        return leaves[0]
    middle = len(leaves) // 2
    above = branch(x, knots[middle:], leaves[middle:], dialect)
    below = branch(x, knots[: middle - 1], leaves[:middle], dialect)
    return f"CASE WHEN {x} >= {dialect.literal(knots[middle - 1].item())} THEN {above} ELSE {below} END"


def _looked_up(pieces: Pieces, x: str, taken: tuple[str, ...], dialect: Dialect, tables: Tables) -> str | None:
    """One formula whose numbers are table entries; None if the pieces differ in more than numbers."""
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
    ends_in_line = any(template is line for template, _ in formulas[0].shape[-1:])
    if not ends_in_line:  # a line can be flat, a curve must be clipped
        ends = [(0.0, 1.0) if isinstance(leaf, Formula) else (leaf, leaf) for leaf in pieces.leaves]
        text = held_between(dialect, text, *(pick(numbers, name) for numbers in zip(*ends, strict=True)))
    return tables.bound.format(value=index, name=name, body=text) if tables.bound else text


def _text(leaf: Leaf, x: str, dialect: Dialect) -> str:
    if isinstance(leaf, float):
        return dialect.literal(leaf)
    return _filled(leaf.shape, x, [dialect.literal(number) for number in leaf.numbers], dialect)


def _filled(shape: Sequence[tuple[Template, int]], x: str, numbers: Sequence[str], dialect: Dialect) -> str:
    if len(shape) > dialect.nesting:
        raise InputError(
            "map",
            f"has {len(shape)} curves in a row, which are nested too deeply for the parser of this dialect",
            "fit one map instead",
        )
    rest = iter(numbers)
    for place, (template, count) in enumerate(shape):
        x = template(dialect, f"({x})" if place else x, *islice(rest, count))
    return x
