"""Checks of what credit functions take: counts, probabilities of default, confidence levels, correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_length, is_missing, read_column
from calibrant.messages import InputError, plural
from calibrant.numerics import Floats, Ints
from calibrant.reading import by_keyword, frame_of, read

Unit = Literal["grade", "year", "line"]
"""What each number of a list is about."""


def check_counts(values: ArrayLike, name: str, dims: tuple[int, ...] = (1,), unit: Unit = "grade") -> Ints:
    """Non-negative integers; one for each grade or year, or a table of them."""
    array = check_numbers(values, name, "must hold non-negative integers")
    whole = (array >= 0) & (array < 2.0**53) & (array == np.floor(array))
    if array.ndim not in dims or not array.size or not whole.all():
        each = f"one for each {unit}" if dims == (1,) else "one for each grade, or a row of them for each year"
        raise InputError(
            name, f"must be a list of non-negative integers, {each}", f"count the rows of each {unit} first"
        )
    return array.astype(np.int64)


def check_shapes(n: Ints, first: str = "n", unit: Unit = "grade", **others: Any) -> None:
    """Raise an error unless all have the shape of ``n``, the argument named ``first``."""
    for name, values in others.items():
        shape = np.shape(values)
        if shape != n.shape:
            problem = f"has shape {shape} and {first} {n.shape}"
            if len(shape) == n.ndim == 1:
                problem = f"has {plural(shape[0], 'value')} but {first} has {len(n):,}"
            raise InputError(name, problem, f"pass one value for each {unit}")


def check_events(n: Ints, events: Ints, unit: Unit = "grade") -> None:
    """Raise an error if a grade has more defaults than rows."""
    if (events > n).any():
        *year, place = (int(each) + 1 for each in np.argwhere(events > n)[0])
        where = f"{unit} {place}" + (f" of year {year[0]}" if year else "")
        raise InputError("events", f"exceed n in {where}", "check whether the two columns are swapped")


def check_pd(pd: ArrayLike, name: str = "pd") -> Floats:
    """Probabilities between 0 and 1."""
    array = check_numbers(pd, name, "must hold probabilities between 0 and 1")
    if not ((array >= 0.0) & (array <= 1.0)).all():
        raise InputError(name, "must hold probabilities between 0 and 1", "divide percentages by 100")
    return array


def check_share(share: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0.0 < float(share) < 1.0:
        raise InputError(name, f"must lie between 0 and 1, got {share!r}")
    return float(share)


def check_correlation(correlation: Any, name: str = "correlation") -> float:
    """A number from 0 up to, but not including, 1."""
    number = isinstance(correlation, int | float | np.number) and not isinstance(correlation, bool)
    if not number or not 0.0 <= float(correlation) < 1.0:
        raise InputError(name, f"must be at least 0 and less than 1, got {correlation!r}", "12 % is 0.12")
    return float(correlation)


def check_names(names: Sequence[Any] | None, n: Ints, first: str = "n") -> tuple[str, ...]:
    """Names of grades; 1, 2, ... if none are given."""
    if names is None:
        return tuple(str(place + 1) for place in range(len(n)))
    check_shapes(n, first, names=np.empty(len(names)))
    return tuple(str(name) for name in names)


def read_names(values: Any, name: str, n: int | None = None, first: str = "n") -> NDArray[Any]:
    """A column of names as text, 2024 for 2024.0; missing ones and other lengths than that of ``first`` are refused."""
    column = read_column(values, name)
    if n is not None:
        check_length(column, name, n, first)
    texts = [_text(each) for each in column.tolist()]
    if any(text == "" for text in texts):
        raise InputError(name, f"is missing in line {texts.index('') + 1}", "fill it in, or leave these lines out")
    return np.array(texts, dtype=object)


def name_key(name: str) -> tuple[bool, float, str]:
    """The place of a name in order: numbers by their value, before texts."""
    try:
        value = float(name)
    except ValueError:
        value = math.nan
    return (False, value, name) if math.isfinite(value) else (True, 0.0, name)


def _text(value: Any) -> str:
    """A name as text, and nothing for a missing value."""
    if is_missing(value):
        return ""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value).strip()


def check_numbers(values: ArrayLike, name: str, problem: str) -> Floats:
    """Floats, or an error with this problem."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(name, problem, "pass numbers") from None


def of_borrowers(
    frame: Any, events: Any, pd: Any, score: Any, label: Any, **keys: Any
) -> tuple[tuple[Ints, Ints, Floats], dict[str, Any]] | None:
    """Rows, defaults, PDs and keys of the lines of a frame, one for each borrower; None if counts were passed."""
    frame = frame_of(frame)
    events, pd, score, label = by_keyword(frame, events, pd, score, label, "grade_table")
    if score is None and label is None:
        return None
    named = {name: value for name, value in keys.items() if isinstance(value, str)}
    if "grade" not in named:
        raise InputError("grade", "is missing", "pass the name of the column of grades")
    given = read(frame, score=score, label=label, more=list(named.values()), most=None, score_type="probability")
    rows = given.rows()
    found = {name: given.more[value] if name in named else value for name, value in keys.items()}
    return (np.ones(len(rows.scores), dtype=np.int64), rows.labels.astype(np.int64), rows.scores), found


def by_grade(grade: Any, n: Ints, events: Ints, pd: Floats) -> tuple[list[str], Ints, Ints, Floats]:
    """Names of the grades in the order of their mean PD, with their rows, defaults and mean PDs.

    Examples
    --------
    >>> by_grade(np.array(["B", "A", "B"]), np.ones(3, int), np.array([1, 0, 0]), np.array([0.2, 0.01, 0.4]))[0]
    ['A', 'B']
    """
    names, code = np.unique(read_names(grade, "grade", len(n)).astype(str), return_inverse=True)
    rows, hits = (np.bincount(code, each, len(names)).astype(np.int64) for each in (n, events))
    mean = np.bincount(code, n * pd, len(names)) / rows
    order = np.argsort(mean, kind="stable")
    return names[order].tolist(), rows[order], hits[order], mean[order]
