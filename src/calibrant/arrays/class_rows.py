"""Matrices of class scores, checked: one row per case, one column per class, classes carried by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_length, check_option, refuse_other_order
from calibrant.arrays.errors import InputError
from calibrant.arrays.keys import LONGEST_KEY, key_text, plain_text, read_keys
from calibrant.arrays.labels import label_column
from calibrant.arrays.sides import check_time, check_weights, side_column

ClassKind = Literal["probability", "logit", "independent"]
"""Rows that sum to 1; any real numbers, taken through softmax; numbers in [0, 1] that each speak for themselves."""

SUM_TOLERANCE = 2e-3
"""By how much a row of probabilities may miss 1: half precision does, up to this."""

BLOCK = 1 << 18
"""Numbers looked at in one step, so that a second look finds them in the cache."""

Matrix = NDArray[Any]
"""float32 or float64."""


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Checked rows of class scores, as :func:`check_class_rows` returns them; rows of weight zero are gone.

    Attributes
    ----------
    scores : ndarray of float32 or float64, shape (n, K)
        Contiguous and finite. Shares the caller's memory where that was clean.
    labels : ndarray of intp
        Column of each row's class.
    classes : tuple of str
        Names of the classes, in the order of the columns.
    values : ndarray
        The classes as the caller writes them.
    weights, counts, groups, time
        As in :class:`~calibrant.arrays.rows.Rows`.
    kind : {"probability", "logit", "independent"}
        What the scores are.
    columns : tuple of str
        Names of the columns of a frame; empty for arrays.
    notes : tuple of str
        What was guessed or converted, one sentence each.
    """

    scores: Matrix
    labels: NDArray[np.intp]
    classes: tuple[str, ...]
    values: NDArray[Any]
    weights: NDArray[np.int64] | NDArray[np.float64] | None
    counts: bool
    groups: NDArray[Any] | None
    time: NDArray[Any] | None
    kind: ClassKind
    columns: tuple[str, ...]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def mass(self) -> NDArray[Any]:
        """Weight of each row, 1 where none was given."""
        return np.ones(len(self), dtype=np.int64) if self.weights is None else self.weights

    @property
    def class_mass(self) -> NDArray[np.float64]:
        """Rows, or sum of weights, of each class."""
        return np.bincount(self.labels, self.weights, minlength=len(self.classes)).astype(np.float64)

    def take(self, rows: NDArray[Any]) -> ClassRows:
        """Some of the rows, by index or flag."""

        def part(a: Any) -> Any:
            return None if a is None else a[rows]

        return ClassRows(
            self.scores[rows],
            self.labels[rows],
            self.classes,
            self.values,
            part(self.weights),
            self.counts,
            part(self.groups),
            part(self.time),
            self.kind,
            self.columns,
            self.notes,
        )


def is_matrix(scores: Any) -> bool:
    """Whether something has two columns or more, whatever it is made of.

    Examples
    --------
    >>> is_matrix([[0.2, 0.8]]), is_matrix([0.2, 0.8]), is_matrix([[0.2], [0.8]])
    (True, False, False)
    """
    if hasattr(scores, "collect") or hasattr(scores, "toPandas"):
        return False
    if hasattr(scores, "column_names") and hasattr(scores, "num_columns"):
        return int(scores.num_columns) > 1
    shape = getattr(scores, "shape", None)
    if shape is None:
        first = scores[0] if isinstance(scores, list | tuple) and scores else None
        return isinstance(first, list | tuple | np.ndarray) and np.ndim(first) == 1 and len(first) > 1
    return isinstance(shape, tuple) and len(shape) == 2 and isinstance(shape[1], int) and shape[1] > 1


def check_class_rows(
    scores: Any,
    y: Any,
    sample_weight: object = None,
    *,
    classes: Sequence[Any] | None = None,
    weights: Literal["importance", "counts"] = "importance",
    groups: object = None,
    time: object = None,
    kind: ClassKind | None = None,
) -> ClassRows:
    """Check a matrix of class scores and its labels, and whatever else describes the rows.

    Parameters
    ----------
    scores : array-like or frame of shape (n, K)
        Probabilities that sum to 1 in every row, or logits. A frame names the classes by its columns. float32 stays
        float32, half precision becomes float32, anything else float64. Nothing is ever renormalised.
    y : array-like of shape (n,)
        The class of each row, as text, whole numbers or truth values.
    classes : sequence, optional
        The labels in the order of the columns. Without it they are the columns of a frame, or the sorted values of
        ``y`` when there are as many of them as columns; anything else is refused, since a guess could swap classes.
    kind : {"probability", "logit", "independent"}, optional
        What the scores are: guessed from their range and their sums when not given. ``"independent"`` are numbers in
        [0, 1] whose rows need not sum to 1, as one-against-the-rest models and class-wise calibrators give them.

    Examples
    --------
    >>> rows = check_class_rows([[0.7, 0.3], [0.4, 0.6]], ["cat", "dog"])
    >>> rows.classes, rows.labels.tolist(), rows.kind
    (('cat', 'dog'), [0, 1], 'probability')
    """
    check_option("kind", kind, (*get_args(ClassKind), None))
    check_option("weights", weights, ("importance", "counts"))
    matrix, columns = read_matrix(scores)
    n, size = matrix.shape
    if n == 0:
        raise InputError("scores is empty: pass at least one row")
    target = label_column(y, "y")
    check_length(target, "y", n)
    refuse_other_order(scores, y)
    names, values = _classes(classes, columns, target, size)
    labels = _codes(target, names)
    w, notes = (None, ()) if sample_weight is None else check_weights(sample_weight, weights, n)
    group = None if groups is None else side_column(groups, "groups", n)
    when, time_notes = (None, ()) if time is None else check_time(time, n)
    found, kind_notes = settle_class_kind(matrix, kind)
    rows = ClassRows(
        without_excess(matrix, found), labels, names, values, w, w is None or weights == "counts", group, when,
        found, () if columns == names else columns, (*kind_notes, *notes, *time_notes),
    )  # fmt: skip
    if w is not None and np.count_nonzero(w) < n:
        rows = rows.take(np.flatnonzero(w != 0))
        if not len(rows):
            raise InputError("sample_weight is zero in every row: at least one row must count")
    return rows


def check_class_scores(
    scores: Any, classes: Sequence[str], kind: ClassKind, columns: Sequence[str] = ()
) -> tuple[Matrix, Callable[[Matrix, Sequence[str]], Any]]:
    """Check scores that a fitted map is about to be applied to; columns of a frame are found by name.

    Returns
    -------
    matrix
        In the order of ``classes``. float32 stays float32. A row with a missing score is NaN throughout.
    rebuild
        From a matrix and the names of its columns to what the caller passed: an array, or the same kind of frame.
    """
    matrix, found = read_matrix(scores)
    if matrix.shape[1] != len(classes) and not found:
        raise InputError(f"scores has {matrix.shape[1]} columns but the map has {len(classes)} classes: pass one each")
    if found:
        matrix = matrix[:, _places(found, tuple(classes), tuple(columns))]
    missing = ~np.isfinite(matrix.sum(axis=1)) if matrix.size else np.zeros(len(matrix), dtype=bool)
    if missing.any():
        if np.isinf(matrix).any():
            raise InputError("scores holds infinities: repair these rows")
        matrix = matrix.copy()
        matrix[missing] = np.nan
    settle_class_kind(matrix[~missing] if missing.any() else matrix, kind)
    return without_excess(np.ascontiguousarray(matrix), kind), lambda out, names: _rebuilt(scores, out, names)


def read_matrix(scores: Any) -> tuple[Matrix, tuple[str, ...]]:
    """A matrix of floats and the names of its columns, none for arrays."""
    if isinstance(scores, np.ma.MaskedArray):
        raise InputError("scores is a masked array: drop the masked rows and pass a plain array")
    if hasattr(scores, "collect") or hasattr(scores, "fetchall"):
        raise InputError(
            "scores is a table that is not in memory: collect it, or use to_sql to apply a map where it is"
        )
    names: tuple[str, ...] = ()
    raw: Any = scores
    if hasattr(scores, "column_names"):  # pyarrow
        names = tuple(scores.column_names)
        raw = (
            np.column_stack([np.asarray(column) for column in scores.columns]) if names else np.empty((len(scores), 0))
        )
    elif hasattr(scores, "columns") and hasattr(scores, "to_numpy"):
        names = tuple(_name(column) for column in scores.columns)
        raw = scores.to_numpy()
    try:
        a = np.asarray(raw)
        if a.dtype.kind == "O":
            a = a.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"scores cannot be read as a matrix of numbers ({error}): pass one column per class") from None
    if a.ndim != 2 or a.shape[1] < 2:
        raise InputError(
            f"scores has shape {a.shape}: pass a matrix with one row per case and one column per class, two or more"
        )
    if a.dtype.kind not in "biuf":
        raise InputError(f"scores holds values of type {a.dtype}: pass numbers")
    if len(set(names)) != len(names):
        raise InputError("two columns of scores have the same name: rename one of them")
    return np.ascontiguousarray(a, dtype=np.float32 if a.dtype.char in "ef" else np.float64), names


def settle_class_kind(matrix: Matrix, kind: ClassKind | None) -> tuple[ClassKind, tuple[str, ...]]:
    """What the scores are: as was said, when they agree with it, or as their range and their sums tell."""
    low, high, least, most = _spread(matrix)
    if not (np.isfinite(low) and np.isfinite(high) and np.isfinite(least) and np.isfinite(most)):
        bad = int((~np.isfinite(matrix).all(axis=1)).argmax())
        raise InputError(f"scores holds NaN or infinities, first in row {bad}: drop these rows or repair the scores")
    inside = low >= 0.0 and high <= 1.0 + 1e-6
    sums = inside and abs(least - 1.0) <= SUM_TOLERANCE and abs(most - 1.0) <= SUM_TOLERANCE
    if kind is None:
        if sums:
            return "probability", ()
        if inside and len(matrix):
            _refuse_sums(least, most)
        told = f'scores read as logits (from {low:.6g} to {high:.6g}): pass kind="logit" to confirm'
        return "logit", (told,)
    if len(matrix) and kind != "logit" and not inside:
        raise InputError(
            f"scores must lie in [0, 1] to be of kind {kind!r}, but run from {low:.6g} to {high:.6g}: "
            'pass kind="logit" if they are logits'
        )
    if len(matrix) and kind == "probability" and not sums:
        _refuse_sums(least, most)
    return kind, ()


def without_excess(matrix: Matrix, kind: ClassKind) -> Matrix:
    """Probabilities that exceed 1 by rounding, at 1."""
    if kind == "logit" or not matrix.size or not float(np.fmax.reduce(matrix, axis=None)) > 1.0:
        return matrix
    return np.asarray(np.minimum(matrix, matrix.dtype.type(1.0)))


def _spread(matrix: Matrix) -> tuple[float, float, float, float]:
    """Smallest and largest score, smallest and largest sum of a row; NaN when any score is."""
    if not matrix.size:
        return 0.0, 0.0, 1.0, 1.0
    step = max(BLOCK // matrix.shape[1], 1)
    parts = []
    for start in range(0, len(matrix), step):
        part = matrix[start : start + step]
        sums = part.sum(axis=1)
        parts.append((part.min(), part.max(), sums.min(), sums.max()))
    low, high, least, most = (np.array(each, dtype=np.float64) for each in zip(*parts, strict=True))
    return float(low.min()), float(high.max()), float(least.min()), float(most.max())


def _refuse_sums(least: float, most: float) -> NoReturn:
    raise InputError(
        f"rows of scores sum to between {least:.6g} and {most:.6g}, not to 1, and nothing is renormalised here: pass "
        'kind="logit" if they are logits, or kind="independent" if each column speaks for itself'
    )


def _classes(
    given: Sequence[Any] | None, columns: tuple[str, ...], target: NDArray[Any], size: int
) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Names of the classes in the order of the columns, and the classes as the caller writes them."""
    keys = read_keys(target, "y")
    if given is not None:
        listed = list(given)
        if len(listed) != size:
            raise InputError(f"classes has {len(listed)} entries but scores has {size} columns: pass one per column")
    elif columns:
        listed = list(columns)
    elif len(keys.names) == size:
        distinct = {key_text(value, "y"): value for value in np.unique(target).tolist()}
        listed = list(distinct.values())
    else:
        example = f"range({size})" if target.dtype.kind in "iu" else "[...]"
        raise InputError(
            f"y has {len(keys.names)} classes but scores has {size} columns: pass classes={example}, the labels in the "
            "order of the columns"
        )
    names = tuple(key_text(value, "classes") or "" for value in listed)
    if len(set(names)) != size or not all(name and len(name) <= LONGEST_KEY and plain_text(name) for name in names):
        raise InputError("classes must be distinct and not empty: text, whole numbers or truth values")
    return names, _as_written(listed, target)


def _as_written(listed: list[Any], target: NDArray[Any]) -> NDArray[Any]:
    """The classes in the type of the labels, where that can hold them."""
    if target.dtype.kind in "iub" and all(isinstance(value, int | np.integer | np.bool_) for value in listed):
        return np.array(listed)
    if target.dtype.kind in "iu" and all(str(value).lstrip("-").isdigit() for value in listed):
        return np.array([int(value) for value in listed])
    values = np.array(listed, dtype=object)
    return values.astype(str) if all(isinstance(value, str) for value in listed) else values


def _codes(target: NDArray[Any], names: tuple[str, ...]) -> NDArray[np.intp]:
    keys = read_keys(target, "y")
    unknown = sorted(set(keys.names) - set(names))
    if unknown:
        shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
        raise InputError(f"y has the class {unknown[0]!r}, which no column of scores is for: the classes are {shown}")
    codes = keys.among(names)
    if (codes < 0).any():
        raise InputError(f"y has no class in row {int((codes < 0).argmax())}: drop rows without a label")
    return codes


def _places(found: tuple[str, ...], classes: tuple[str, ...], columns: tuple[str, ...]) -> list[int]:
    """Where each class is among the columns of a frame: by its name, or by the name that it had at fit."""
    for wanted in (classes, columns):
        if wanted and set(wanted) <= set(found):
            return [found.index(name) for name in wanted]
    missing = [name for name in (columns or classes) if name not in found]
    raise InputError(
        f"scores has no column {missing[0]!r}: its columns are {', '.join(map(repr, found[:5]))}; rename them as the "
        "classes, or pass an array in the order of the classes"
    )


def _name(column: Any) -> str:
    text = key_text(column, "columns of scores")
    if text is None:
        raise InputError("a column of scores has no name: name the columns as the classes")
    return text


def _rebuilt(like: Any, out: Matrix, names: Sequence[str]) -> Any:
    if hasattr(like, "column_names"):  # pyarrow
        return type(like).from_pydict({name: out[:, j] for j, name in enumerate(names)})
    if hasattr(like, "columns") and hasattr(like, "index"):  # pandas
        return type(like)(out, columns=list(names), index=like.index)
    if hasattr(like, "columns"):  # polars
        return type(like)({name: out[:, j] for j, name in enumerate(names)})
    return out
