"""A map of several classes as SQL: one expression for each column that comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calibrant.arrays import InputError
from calibrant.export.sql.classes import Text
from calibrant.export.sql.dialects import dialect_named
from calibrant.export.sql.regions import lower
from calibrant.export.sql.scores import quote, translated
from calibrant.maps import ClassMap, TopMap

MOST_CLASSES = 100
LONGEST = 1_000_000
"""Characters of all expressions together, beyond which engines plan the text for longer than a model would run."""

LABEL = "{} label"
"""What the class of a rank is called among the columns that come out."""

Columns = Mapping[str, str] | Sequence[str] | None
"""What the columns of scores are called in a table: by class, in the order of the classes, or as the classes."""


def class_sql(map_: ClassMap, columns: Columns = None, dialect: str = "duckdb") -> dict[str, str]:
    """One expression for each of ``map_.outputs``; NULL or NaN in any score of a row gives NULL.

    A map of top classes gives two for each rank: ``"top 1"`` is the probability and ``"top 1 label"`` the name of the
    class that it is about.

    Parameters
    ----------
    columns
        The columns of scores: ``{"cat": "p_cat", ...}``, a sequence in the order of the classes, or None if they are
        called as the classes.
    dialect
        As in :func:`calibrant.export.sql.scores.to_sql`.

    Notes
    -----
    Step maps of the scores themselves give the same doubles as ``apply``, all others agree to 1e-12; a step map after
    softmax may take the neighbouring step where the probability is within rounding of a knot. Whether a row sums to 1
    cannot be looked at here.

    Guarantee: that of the map itself.
    Cost: text in proportion to the classes for each expression; with K x K slopes, or normalised, in proportion to all
    numbers of the map. Engines plan such text slowly: DuckDB takes about a tenth of a second for each expression over
    20 classes, and half a second over 50. More than 100 classes, or 1 million characters, are refused: an ONNX model
    takes them. Softmax maps reach that at 45 to 65 classes, with K x K slopes at 25.

    Examples
    --------
    >>> from calibrant.maps import PerClassMap, StepMap
    >>> halves = PerClassMap(("a", "b"), (StepMap([], [0.2]), StepMap([0.5], [0.25, 0.75])), "probability", False)
    >>> print(class_sql(halves, ["p", "q"], "sqlite")["b"].partition(" ELSE ")[2])
    CASE WHEN CAST(`q` AS REAL) >= 0.5 THEN 0.75 ELSE 0.25 END END
    """
    written = dialect_named(dialect)
    names = class_columns(map_, columns)
    if len(names) > MOST_CLASSES:
        raise InputError(f"SQL is written for at most {MOST_CLASSES} classes, not {len(names):,}: use to_onnx instead")
    quoted = [quote(name, dialect) for name in names.values()]
    x = [f"CAST({name} AS {written.real})" for name in quoted]
    missing = " OR ".join(written.unusable.format(name=name, x=each) for name, each in zip(quoted, x, strict=True))
    text = Text(written, dialect, tuple(names.values()))
    found: dict[str, str] = {}
    for place, output in enumerate(sql_outputs(map_)):
        whole = f"CASE WHEN {missing} THEN NULL ELSE {lower(map_, text, x, place)} END"
        found[output] = whole if written.executed else translated(whole, dialect)
        if sum(map(len, found.values())) > LONGEST:
            raise InputError(f"the expressions would have more than {LONGEST:,} characters: use to_onnx instead")
    return found


def sql_outputs(map_: ClassMap) -> tuple[str, ...]:
    """Names of the expressions: the columns that come out, for top classes each followed by its label."""
    if isinstance(map_, TopMap):
        return tuple(name for output in map_.outputs for name in (output, LABEL.format(output)))
    return map_.outputs


def class_columns(map_: ClassMap, columns: Columns) -> dict[str, str]:
    """What the column of each class is called in a table."""
    if columns is None:
        names = dict(zip(map_.classes, map_.classes, strict=True))
    elif isinstance(columns, Mapping):
        _check_named(columns, map_.classes)
        names = {each: columns[each] for each in map_.classes}
    else:
        if isinstance(columns, str) or len(columns) != len(map_.classes):
            raise InputError(f"columns must be {len(map_.classes)} names, one for each class, got {columns!r:.80}")
        names = dict(zip(map_.classes, columns, strict=True))
    taken: dict[str, str] = {}
    for name in names.values():
        if taken.setdefault(str(name).lower(), name) != name or list(names.values()).count(name) > 1:
            raise InputError(
                f"two classes share the column {name!r} (engines do not tell capital letters apart): pass columns"
            )
    return names


def _check_named(columns: Mapping[str, str], classes: tuple[str, ...]) -> None:
    """Refuse a column of something that is no class, and a class without a column."""
    odd = next((each for each in columns if each not in classes), None)
    if odd is not None:
        shown = ", ".join(map(repr, classes[:5])) + (", ..." if len(classes) > 5 else "")
        raise InputError(f"columns names {odd!r}, which is no class of the map: the classes are {shown}")
    lacking = next((each for each in classes if each not in columns), None)
    if lacking is not None:
        raise InputError(f"columns has no column for the class {lacking!r}: name one for each class")
