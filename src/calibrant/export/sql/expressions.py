"""A map as SQL: one expression for each output column.

Columns are cast to double first, so that float32 and integers are treated as doubles. NaN is tested explicitly, since
SQL engines order it above every number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload

from calibrant.arrays.score_types import PROBABILITY_ENDS
from calibrant.export.kinds import lower, varies_outside
from calibrant.export.languages.sql.dialects import dialect_named, quote
from calibrant.export.languages.sql.formulas import held_between
from calibrant.export.languages.sql.text import Text, text_literal, translated
from calibrant.maps import ByGroupMap, ComposeMap, Map, TopMap
from calibrant.messages import InputError, Setting

MAX_CLASSES = 100
MAX_CHARACTERS = 1_000_000
"""Largest number of characters of several expressions together; beyond it, engines take too long to plan the text."""

TO_ONNX = "use to_onnx instead"

LABEL = "{} label"
"""Name of the output column with the class of a rank."""

Columns = str | Mapping[str, str] | Sequence[str] | None
"""Names of the score columns in a table: one name, by input of the map, in order, or None for the inputs' names."""


@overload
def to_sql(
    map_: Map, columns: str, dialect: str = ..., by: Mapping[str, str] | None = ..., *, bounded: bool = ...
) -> str: ...


@overload
def to_sql(
    map_: Map, columns: Columns = ..., dialect: str = ..., by: Mapping[str, str] | None = ..., *, bounded: bool = ...
) -> str | dict[str, str]: ...


def to_sql(
    map_: Map,
    columns: Columns = None,
    dialect: str = "duckdb",
    by: Mapping[str, str] | None = None,
    *,
    bounded: bool = False,
) -> str | dict[str, str]:
    """SQL expressions of a map, one for each output column; NULL or NaN in any score of a row gives NULL.

    A map of top classes gives two for each rank: ``"top 1"`` is the probability and ``"top 1 label"`` the name of its
    class.

    Parameters
    ----------
    columns
        The score column of a map of one score, which then gives a single expression; or ``{"cat": "p_cat", ...}``, a
        sequence in the order of the classes, or None if columns have the names of the map's inputs. Names are quoted.
    dialect
        A key of :data:`~calibrant.export.languages.sql.dialects.DIALECTS`; docs/guide/ship.md lists them. The text of
        a dialect that is not tested on the engine itself is translated by sqlglot (the extra ``calibrant[sql]``) and
        begins with a comment that says so.
    by
        Names of the group columns in the table, if they differ from the map: ``{"region": "area_code"}``.
    bounded
        Whether scores are probabilities: a number more than 1e-6 outside [0, 1] then gives NULL, one that is outside by
        less is clipped.

    Returns
    -------
    str or dict of str
        One expression, or expressions by output column.

    Notes
    -----
    Step maps give the same doubles as :meth:`calibrant.maps.Map.apply`, smooth maps agree to 1e-12. A step map after a
    curve is compared in the raw score, and after softmax in the probability; it may take the neighboring step if the
    curve is within rounding of a knot. SQL does not check whether a row sums to 1. SQLite stores NaN as NULL, and text
    in a score column, or in a column of numbers of a tree, gives NULL.

    A group column is cast to text: it may contain text, integers or booleans, as the map's groups do. The text of other
    types differs between engines and matches no group. For engines without booleans, a map of the groups true and false
    is an error.

    Guarantee: that of the map itself.
    Cost: the text grows with the number of knots and groups, the time per row with the logarithm of the knots and with
    the number of groups. A map before a map by group is written once; in dialects that are not tested on the engine,
    twice or more. For several classes, each expression grows with the classes; with K x K slopes, or normalized, with
    all numbers of the map. Engines plan such text slowly: DuckDB takes about a tenth of a second for each expression
    over 20 classes, and half a second over 50. More than 100 classes, or 1 million characters, are an error: use an
    ONNX model. Softmax maps reach that at 45 to 65 classes, with K x K slopes at 25.

    Examples
    --------
    >>> from calibrant.maps import IdentityMap, PerClassMap, StepMap
    >>> to_sql(IdentityMap(), "p", "spark")
    'CASE WHEN CAST(`p` AS DOUBLE) IS NULL OR isnan(CAST(`p` AS DOUBLE)) THEN NULL ELSE CAST(`p` AS DOUBLE) END'
    >>> halves = PerClassMap(("a", "b"), (StepMap([], [0.2]), StepMap([0.5], [0.25, 0.75])), "probability", False)
    >>> print(to_sql(halves, ["p", "q"], "sqlite")["b"].partition(" ELSE ")[2])
    CASE WHEN CAST(`q` AS REAL) >= 0.5 THEN 0.75 ELSE 0.25 END END
    """
    found = expressions(map_, score_columns(map_, columns), dialect, by, bounded=bounded)
    return found[map_.outputs[0]] if isinstance(columns, str) else found


def expressions(
    map_: Map, columns: Mapping[str, str], dialect: str, by: Mapping[str, str] | None = None, *, bounded: bool = False
) -> dict[str, str]:
    """The expressions by name, over columns that :func:`score_columns` checked."""
    written = dialect_named(dialect)
    several = len(columns) > 1
    if len(columns) > MAX_CLASSES:
        raise InputError(
            "columns", f"must be at most {MAX_CLASSES} for SQL, but the map has {len(columns):,} classes", TO_ONNX
        )
    groups = group_columns(map_, columns.values(), by)
    keys = {
        name: quote(column, dialect) if name in map_.numbers else written.key.format(quote(column, dialect))
        for name, column in groups.items()
    }
    others = [written.not_number.format(keys[name]) for name in map_.numbers if written.not_number]
    x, (before, after) = usable(map_, columns.values(), dialect, [*others, *_unknown(map_, keys, dialect)], bounded)
    text = Text(written, dialect, (*columns.values(), *groups.values()), keys)
    found: dict[str, str] = {}
    for place, output in enumerate(sql_outputs(map_)):
        whole = f"{before}{lower(map_, text, x, place)}{after}"
        found[output] = whole if written.executed else translated(whole, dialect)
        if several and sum(map(len, found.values())) > MAX_CHARACTERS:
            raise InputError(
                Setting("dialect", dialect), f"needs more than {MAX_CHARACTERS:,} characters for this map", TO_ONNX
            )
    return found


def usable(
    map_: Map, columns: Iterable[str], dialect: str, missing: Sequence[str], bounded: bool
) -> tuple[list[str], tuple[str, str]]:
    """The texts of the scores, and the text before and after a result, which gives NULL for scores that are not read.

    ``missing`` are further conditions under which a row has no result.
    """
    written, quoted = dialect_named(dialect), [quote(name, dialect) for name in columns]
    x = [f"CAST({name} AS {written.real})" for name in quoted]
    unusable = [written.unusable.format(name=name, x=each) for name, each in zip(quoted, x, strict=True)]
    if not bounded:
        return x, (f"CASE WHEN {' OR '.join([*unusable, *missing])} THEN NULL ELSE ", " END")
    # NULL and NaN lie between no numbers, whether an engine orders NaN first, last or not at all.
    first = [*(unusable if written.not_number else []), *missing]
    ends = " AND ".join(map(written.literal, PROBABILITY_ENDS))
    finite = f"{written.finite} AND " if written.finite else ""
    inside = " AND ".join(f"{finite.format(x=each)}{each} BETWEEN {ends}" for each in x)
    if varies_outside(map_):
        x = [held_between(written, each, written.literal(0.0), written.literal(1.0)) for each in x]
    none = f"WHEN {' OR '.join(first)} THEN NULL " if first else ""
    return x, (f"CASE {none}WHEN {inside} THEN ", " END")


def sql_outputs(map_: Map) -> tuple[str, ...]:
    """Names of the expressions: the output columns, for top classes each followed by its label."""
    if isinstance(map_, TopMap):
        return tuple(name for output in map_.outputs for name in (output, LABEL.format(output)))
    return map_.outputs


def score_columns(map_: Map, columns: Columns) -> dict[str, str]:
    """Name of the table column of each input of the map."""
    inputs = map_.inputs
    if columns is None:
        names = dict(zip(inputs, inputs, strict=True))
    elif isinstance(columns, Mapping):
        _check_named(columns, inputs)
        names = {each: columns[each] for each in inputs}
    else:
        given = list(columns) if isinstance(columns, Iterable) and not isinstance(columns, str) else [columns]
        if len(given) != len(inputs):
            raise InputError("columns", f"must be {len(inputs)} names, one for each class, got {columns!r:.80}")
        names = dict(zip(inputs, given, strict=True))
    taken: dict[str, str] = {}
    for name in names.values():
        if taken.setdefault(str(name).lower(), name) != name or list(names.values()).count(name) > 1:
            raise InputError(
                "columns",
                f"gives two classes the column {name!r} (engines ignore case)",
                "pass a different column for each class",
            )
    return names


def _check_named(columns: Mapping[str, str], inputs: tuple[str, ...]) -> None:
    """Reject a column of something that is not an input, and an input without a column."""
    odd = next((each for each in columns if each not in inputs), None)
    if odd is not None:
        shown = ", ".join(map(repr, inputs[:5])) + (", ..." if len(inputs) > 5 else "")
        raise InputError("columns", f"contains {odd!r}, which is not a class of the map", f"the classes are {shown}")
    lacking = next((each for each in inputs if each not in columns), None)
    if lacking is not None:
        raise InputError("columns", f"has no column for the class {lacking!r}", "pass one for each class")


def group_columns(map_: Map, columns: Iterable[str], by: Mapping[str, str] | None) -> dict[str, str]:
    """Names of the table columns of a map's groups, which must differ from the score columns."""
    renamed = dict(by or {})
    unknown = set(renamed) - set(map_.columns)
    if unknown:
        raise InputError(
            "by", f"contains {min(unknown)!r}, which this map does not need", f"it needs {list(map_.columns)}"
        )
    names = {name: renamed.get(name, name) for name in map_.columns}
    both = [*columns, *names.values()]
    if names and len({str(each).lower() for each in both}) < len(both):
        raise InputError("by", f"must differ from the score columns, got {both}", "rename one of them")
    return names


def _unknown(map_: Map, keys: Mapping[str, str], dialect: str) -> Iterator[str]:
    """Conditions under which a row is in no group of a map without default."""
    for part in map_.maps if isinstance(map_, ComposeMap) else (map_,):
        if isinstance(part, ByGroupMap) and part.default is None:
            key, names = keys[part.by], ", ".join(text_literal(group, dialect) for group in part.groups)
            yield f"{key} IS NULL OR {key} NOT IN ({names})"
