"""Maps of one score as SQL, stage by stage: each map by group, and the maps between them as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import singledispatch
from itertools import groupby

import numpy as np

from calibrant.export.kinds.scores import cut
from calibrant.export.languages.sql.cases import branch, pieces_text
from calibrant.export.languages.sql.dialects import Dialect, fresh
from calibrant.export.languages.sql.formulas import by_key, of_log_odds
from calibrant.export.languages.sql.pieces import NEGLIGIBLE
from calibrant.export.languages.sql.text import Text, text_literal
from calibrant.maps import ByGroupMap, ComposeMap, LogitAffineMap, Map
from calibrant.messages import InputError, Setting
from calibrant.numerics import Floats

MAX_LENGTH = 1 << 25
"""Largest number of characters of a text that engines can use."""


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
    return pieces_text(cut(map_, text.dialect).merged(), x, text)


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
