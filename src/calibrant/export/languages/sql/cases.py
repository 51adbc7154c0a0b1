"""Pieces as SQL text: a balanced CASE, or one formula whose numbers are looked up in tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from calibrant.export.languages.sql.dialects import Dialect, Tables, fresh
from calibrant.export.languages.sql.formulas import flat, held_between, line
from calibrant.export.languages.sql.pieces import Formula, Leaf, Pieces, Template
from calibrant.export.languages.sql.text import Text
from calibrant.messages import InputError
from calibrant.numerics import Floats


def pieces_text(pieces: Pieces, x: str, written: Text) -> str:
    """The pieces over the text of the score; as one formula, if they are many and the dialect has tables."""
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
