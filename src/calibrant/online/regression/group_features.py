"""Features of a row: group memberships or other numbers in [-1, 1], by name or in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.arrays.columns import read_floats
from calibrant.arrays.keys import key_text
from calibrant.arrays.multiclass.names import first_names
from calibrant.messages import InputError, Phrase
from calibrant.numerics import Floats
from calibrant.online.inputs import name_text, refuse_unpaired, shown


def feature_names(given: Any) -> tuple[str, ...]:
    """Names of features as text, in order."""
    found = given.tolist() if hasattr(given, "tolist") else given  # an array or a pandas index
    listed = isinstance(found, Sequence) and not isinstance(found, str | bytes)
    try:
        names = [key_text(name, "n_features") or "" for name in found] if listed else []
    except InputError:
        names = []
    if not names or "" in names:
        raise InputError(
            "n_features", f"must be an integer of at least 0, or a list of feature names, not {shown(given)}"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError("n_features", f"contains {twice!r} twice", "use a different name for each feature")
    return tuple(names)


def group_features(
    features: Any, n: int, d: int, names: tuple[str, ...] = (), scores: object = None
) -> list[list[float]]:
    """Rows of d features for n scores: columns of a frame or mapping by name, others in the given order.

    Examples
    --------
    >>> group_features([[1, 0], [1, 1]], 2, 2)
    [[1.0, 0.0], [1.0, 1.0]]
    >>> group_features({"mobile": [1, 1], "north": [0, 1]}, 2, 2, ("north", "mobile"))
    [[0.0, 1.0], [1.0, 1.0]]
    """
    if features is None and d == 0:
        return [[]] * n
    if features is None:
        raise InputError("features", f"must be {d} numbers for each row (n_features); none were given")
    refuse_unpaired(scores, features, "features")
    found = _named_matrix(features, names) if _has_names(features) and names else _matrix(features, d)
    if found.ndim == 2 and found.shape[1] == d and len(found) != n:
        raise InputError("features", f"has {len(found):,} rows but scores has {n:,}", "pass one row for each score")
    if found.shape != (n, d):
        raise InputError("features", f"must be {d} numbers for each row (n_features); got shape {found.shape[1:]}")
    if np.isnan(found).any():
        raise InputError("features", "has missing values", "pass 0 for a row that is not in a group")
    if not (np.abs(found) <= 1.0).all():
        raise InputError("features", "must be in [-1, 1]", "for example, 1 in a group and 0 outside")
    rows: list[list[float]] = found.tolist()
    return rows


def row_features(features: Any, d: int, names: tuple[str, ...] = ()) -> list[float]:
    """The same for one row; a mapping, a row of a pandas frame or a named tuple is read by name.

    Examples
    --------
    >>> row_features({"mobile": 1, "north": 0}, 2, ("north", "mobile"))
    [0.0, 1.0]
    """
    table: Any = None if features is None else [features]
    if names and hasattr(features, "_asdict"):  # a named tuple
        features = features._asdict()
    if isinstance(features, Mapping):
        table = {name: [value] for name, value in features.items()}
    elif names and getattr(features, "ndim", 0) == 1 and hasattr(features, "index"):  # a row of a pandas frame
        _refuse_twice([name_text(name) for name in features.index], names)
        table = {name: [value] for name, value in zip(features.index, features, strict=True)}
    return group_features(table, 1, d, names)[0]


def _has_names(features: Any) -> bool:
    if hasattr(features, "collect"):
        raise InputError("features", "is a lazy table", "collect it first")
    return isinstance(features, Mapping) or hasattr(features, "columns") or hasattr(features, "column_names")


def _named_matrix(features: Any, names: tuple[str, ...]) -> Floats:
    """The named columns, in the order of the names; other columns are ignored."""
    given = features if isinstance(features, Mapping) else getattr(features, "column_names", None) or features.columns
    found = [name_text(name) for name in given]
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError("features", f"lacks {first_names(missing)} of n_features", f"it has {first_names(found)}")
    _refuse_twice(found, names)
    as_given = dict(zip(found, given, strict=True))
    columns = [_column(features[as_given[name]], name) for name in names]
    if len({len(column) for column in columns}) > 1:
        raise InputError("features", "has columns of unequal length", "pass one number for each row in every column")
    return np.column_stack(columns)


def _column(column: Any, name: str) -> Floats:
    try:
        found: Floats = read_floats(column, "features")
    except InputError as error:
        problem = Phrase("has a column {name!r} that {problem}", name=name, problem=error.problem)
        raise InputError("features", problem, error.fix) from None
    return found


def _refuse_twice(found: list[str], names: tuple[str, ...]) -> None:
    twice = [name for name in names if found.count(name) > 1]
    if twice:
        raise InputError("features", f"has two columns {twice[0]!r}", "rename one of them")


def _matrix(features: Any, d: int) -> Floats:
    """Numbers, with missing values of any library as NaN."""
    if isinstance(features, Mapping):
        raise InputError(
            "features", "has names, but n_features is a number", "pass a list of feature names as n_features"
        )
    try:
        found = np.asarray(features)
        if found.dtype.kind not in "biuf":
            found = read_floats(found.reshape(-1), "features").reshape(found.shape)
    except InputError as error:  # text, dates and objects; the message shows one
        fix = f"pass {d} numbers for each row, for example 1 in a group and 0 outside"
        raise InputError("features", error.problem, fix) from None
    except (TypeError, ValueError, Warning):  # rows of unequal length (a warning before numpy 1.24)
        raise InputError("features", "has rows of unequal length", f"pass {d} numbers for each row") from None
    return np.asarray(found, dtype=np.float64)
