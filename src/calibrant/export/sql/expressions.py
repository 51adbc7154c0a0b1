"""A map as SQL: one expression for each column that comes out.

The columns are cast to double before anything else, so that float32 and integers go the way of doubles; NaN is asked
for by name, since SQL engines order it above every number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload

from calibrant.export.regions import lower
from calibrant.export.sql.dialects import dialect_named, quote
from calibrant.export.sql.scores import stages, text_literal, translated
from calibrant.export.sql.text import Text
from calibrant.maps import ByGroupMap, Map, TopMap
from calibrant.messages import InputError, Setting

MOST_CLASSES = 100
LONGEST = 1_000_000
"""Characters of several expressions together, beyond which engines plan the text for longer than a model would run."""

TO_ONNX = "use to_onnx instead"

LABEL = "{} label"
"""What the class of a rank is called among the columns that come out."""

Columns = str | Mapping[str, str] | Sequence[str] | None
"""What the columns of scores are called in a table: the one, by input of the map, in their order, or as the inputs."""


@overload
def to_sql(map_: Map, columns: str, dialect: str = ..., by: Mapping[str, str] | None = ...) -> str: ...


@overload
def to_sql(
    map_: Map, columns: Columns = ..., dialect: str = ..., by: Mapping[str, str] | None = ...
) -> str | dict[str, str]: ...


def to_sql(
    map_: Map, columns: Columns = None, dialect: str = "duckdb", by: Mapping[str, str] | None = None
) -> str | dict[str, str]:
    """One expression for each column that comes out, by its name; NULL or NaN in any score of a row gives NULL.

    A map of top classes gives two for each rank: ``"top 1"`` is the probability and ``"top 1 label"`` the name of the
    class that it is about.

    Parameters
    ----------
    columns
        The column of scores of a map of one score, which then gives a single expression; or ``{"cat": "p_cat", ...}``,
        a sequence in the order of the classes, or None if columns are called as the inputs of the map. Any names; they
        are quoted.
    dialect
        A key of :data:`~calibrant.export.sql.dialects.DIALECTS`, which docs/ship.md lists. The text of a dialect that
        the tests do not run on the engine itself is translated by sqlglot, the extra ``calibrant[sql]``, and begins
        with a comment that says so.
    by
        What the columns of groups are called there, where not as in the map: ``{"region": "area_code"}``.

    Notes
    -----
    Step maps give the same doubles as :meth:`calibrant.maps.Map.apply`, smooth maps agree to 1e-12. A step map after a
    curve is compared in the raw score, and after softmax in the probability; it may take the neighbouring step where
    the curve is within rounding of a knot. Whether a score is a probability, or a row sums to 1, cannot be looked at
    here: a score outside [0, 1] is held at the end of the map. SQLite stores NaN as NULL, and text in a column of
    scores gives NULL.

    A column of groups is cast to text: it may hold text, integers or booleans, as the map's groups name them. The
    text of other types differs from engine to engine and meets no group. Engines without booleans refuse a map of the
    groups true and false.

    Guarantee: that of the map itself.
    Cost: the text grows with the number of knots and groups, the work of a row with the logarithm of the knots and
    with the number of groups. A map before a map by group is written once; in dialects that we do not execute, twice
    or more. Of several classes, each expression grows with the classes; with K x K slopes, or normalised, with all
    numbers of the map. Engines plan such text slowly: DuckDB takes about a tenth of a second for each expression over
    20 classes, and half a second over 50. More than 100 classes, or 1 million characters, are refused: an ONNX model
    takes them. Softmax maps reach that at 45 to 65 classes, with K x K slopes at 25.

    Examples
    --------
    >>> from calibrant.maps import IdentityMap, PerClassMap, StepMap
    >>> to_sql(IdentityMap(), "p", "spark")
    'CASE WHEN CAST(`p` AS DOUBLE) IS NULL OR isnan(CAST(`p` AS DOUBLE)) THEN NULL ELSE CAST(`p` AS DOUBLE) END'
    >>> halves = PerClassMap(("a", "b"), (StepMap([], [0.2]), StepMap([0.5], [0.25, 0.75])), "probability", False)
    >>> print(to_sql(halves, ["p", "q"], "sqlite")["b"].partition(" ELSE ")[2])
    CASE WHEN CAST(`q` AS REAL) >= 0.5 THEN 0.75 ELSE 0.25 END END
    """
    found = expressions(map_, score_columns(map_, columns), dialect, by)
    return found[map_.outputs[0]] if isinstance(columns, str) else found


def expressions(
    map_: Map, columns: Mapping[str, str], dialect: str, by: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The expressions by name, over columns that :func:`score_columns` checked."""
    written = dialect_named(dialect)
    several = len(columns) > 1
    if len(columns) > MOST_CLASSES:
        raise InputError(
            "columns", f"must be at most {MOST_CLASSES} for SQL, and the map has {len(columns):,} classes", TO_ONNX
        )
    groups = group_columns(map_, columns.values(), by)
    keys = {name: written.key.format(quote(column, dialect)) for name, column in groups.items()}
    quoted = [quote(name, dialect) for name in columns.values()]
    x = [f"CAST({name} AS {written.real})" for name in quoted]
    unusable = [written.unusable.format(name=name, x=each) for name, each in zip(quoted, x, strict=True)]
    missing = " OR ".join([*unusable, *_unknown(map_, keys, dialect)])
    text = Text(written, dialect, (*columns.values(), *groups.values()), keys)
    found: dict[str, str] = {}
    for place, output in enumerate(sql_outputs(map_)):
        whole = f"CASE WHEN {missing} THEN NULL ELSE {lower(map_, text, x, place)} END"
        found[output] = whole if written.executed else translated(whole, dialect)
        if several and sum(map(len, found.values())) > LONGEST:
            raise InputError(Setting("dialect", dialect), f"takes over {LONGEST:,} characters for this map", TO_ONNX)
    return found


def sql_outputs(map_: Map) -> tuple[str, ...]:
    """Names of the expressions: the columns that come out, for top classes each followed by its label."""
    if isinstance(map_, TopMap):
        return tuple(name for output in map_.outputs for name in (output, LABEL.format(output)))
    return map_.outputs


def score_columns(map_: Map, columns: Columns) -> dict[str, str]:
    """What the column of each input of the map is called in a table."""
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
                f"give two classes the column {name!r} (engines do not tell capital letters apart)",
                "pass one for each class",
            )
    return names


def _check_named(columns: Mapping[str, str], inputs: tuple[str, ...]) -> None:
    """Refuse a column of something that is no input, and an input without a column."""
    odd = next((each for each in columns if each not in inputs), None)
    if odd is not None:
        shown = ", ".join(map(repr, inputs[:5])) + (", ..." if len(inputs) > 5 else "")
        raise InputError("columns", f"names {odd!r}, which is not a class of the map", f"the classes are {shown}")
    lacking = next((each for each in inputs if each not in columns), None)
    if lacking is not None:
        raise InputError("columns", f"has no column for the class {lacking!r}", "name one for each class")


def group_columns(map_: Map, columns: Iterable[str], by: Mapping[str, str] | None) -> dict[str, str]:
    """What the columns of groups of a map are called in a table, beside the columns of scores."""
    renamed = dict(by or {})
    unknown = set(renamed) - set(map_.columns)
    if unknown:
        raise InputError(
            "by", f"names {min(unknown)!r}, which this map does not need", f"it needs {list(map_.columns)}"
        )
    names = {name: renamed.get(name, name) for name in map_.columns}
    both = [*columns, *names.values()]
    if names and len({str(each).lower() for each in both}) < len(both):
        raise InputError("by", f"must name other columns than those of scores, got {both}", "rename one of them")
    return names


def _unknown(map_: Map, keys: Mapping[str, str], dialect: str) -> Iterator[str]:
    """Conditions under which a row is in no group of a map that has no default."""
    for part in stages(map_) if keys else ():
        if isinstance(part, ByGroupMap) and part.default is None:
            key, names = keys[part.by], ", ".join(text_literal(group, dialect) for group in part.groups)
            yield f"{key} IS NULL OR {key} NOT IN ({names})"
