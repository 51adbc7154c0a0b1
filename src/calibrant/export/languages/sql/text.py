"""Building blocks of SQL expressions: literals, names for intermediate results, exponentials that cannot overflow.

Literals are doubles, as each dialect writes them. Arguments of ln and exp are clipped first, since some engines raise
errors where numpy overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from calibrant.export.languages.sql.dialects import Dialect, dialect_named, fresh
from calibrant.export.languages.sql.formulas import held_between
from calibrant.maps.classes import LARGEST_LOGIT
from calibrant.messages import InputError, Setting

LARGEST_EXPONENT = 700.0
"""Largest exponent: its exponential is 1e304, whose inverse is negligible, and some engines raise errors beyond."""

SMALL = 1e-140
"""Logits and slopes below this are set to 0: their product does not change a probability, and may underflow."""


@dataclass(frozen=True)
class Text:
    """Context of an expression: the dialect, the names in use, and group columns as text.

    ``joined`` are the columns of slopes and intercepts by stage of the map, where a table of parameters is joined.
    """

    dialect: Dialect
    name: str
    taken: tuple[str, ...]
    keys: Mapping[str, str] = field(default_factory=dict)
    joined: Mapping[int, tuple[str, str]] = field(default_factory=dict)

    def number(self, value: float) -> str:
        """A literal."""
        return self.dialect.literal(float(value))

    def named(self, values: Sequence[str], body: Callable[[Text, list[str]], str]) -> str:
        """The body over names for the values, or over the values themselves if the dialect cannot name them."""
        stage = self.dialect.stage
        if stage is None:
            return body(self, [f"({value})" for value in values])
        row = fresh("stage", *self.taken)
        letter = _free_letter(self.taken)
        fields = {f"{letter}{place}": value for place, value in enumerate(values, start=1)}
        inside = replace(self, taken=(*self.taken, row))
        return stage.write(row, fields, body(inside, [stage.field.format(row=row, name=each) for each in fields]))

    def largest(self, x: Sequence[str]) -> str:
        """The largest of two numbers or more."""
        return f"{self.dialect.largest}({', '.join(x)})"

    def exp(self, z: str, other: str) -> str:
        """The exponential of the difference of two logits."""
        least, most = self.number(-LARGEST_EXPONENT), self.number(LARGEST_EXPONENT)
        if self.dialect.raises:
            return f"exp({held_between(self.dialect, f'{z} - {other}', least, most)})"
        return f"exp({self.dialect.least}({z} - {other}, {most}))"

    def share(self, z: Sequence[str], own: str) -> str:
        """The softmax probability of a class with the logit ``own`` among all logits."""
        return f"{self.number(1.0)} / ({' + '.join(self.exp(each, own) for each in z)})"

    def held(self, x: str) -> str:
        """A logit, clipped to the range of :data:`~calibrant.maps.classes.LARGEST_LOGIT`."""
        inside = held_between(self.dialect, x, self.number(-LARGEST_LOGIT), self.number(LARGEST_LOGIT))
        if not self.dialect.raises:
            return inside
        small, zero = self.number(SMALL), self.number(0.0)
        return f"CASE WHEN {x} >= {small} OR {x} < -{small} THEN {inside} ELSE {zero} END"


def _free_letter(taken: Sequence[str]) -> str:
    """A beginning of names that no column in use has, since a name inside a stage hides that of a column."""
    numbered = {name.rstrip("0123456789").lower() for name in taken if name[-1:].isdigit()}
    return fresh("x", *numbered)


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
