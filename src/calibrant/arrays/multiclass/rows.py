"""Matrices of class scores, checked: one row per case, one column per class, classes carried by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_length, check_option, refuse_empty, refuse_other_order
from calibrant.arrays.keys import Keys, read_keys
from calibrant.arrays.kinds import ClassKind
from calibrant.arrays.labels import label_column
from calibrant.arrays.multiclass.frames import column_name, needed_columns, rebuilt, refuse_stranger, refuse_text
from calibrant.arrays.multiclass.names import class_names, first_names
from calibrant.arrays.multiclass.spread import Spread
from calibrant.arrays.sides import check_time, check_weights, side_column
from calibrant.messages import Advice, Argument, InputError, Note, Phrase, Setting, Text, Voice, note, warn

"""Rows that sum to 1; any real numbers, taken through softmax; numbers in [0, 1] that each speak for themselves."""

BLOCK = 1 << 17
"""Numbers looked at in one step, so that a second look finds them in the cache."""

Matrix = NDArray[Any]
"""float32 or float64."""


@note("class-logits-guessed")
def class_logits_guessed(voice: Voice, low: float, high: float) -> str:
    """Class scores that were read as logits."""
    confirm = voice.setting("kind", "logit")
    return f"{voice.nouns.scores} read as logits (from {low:.6g} to {high:.6g}): pass {confirm} to confirm"


@note("independent-columns-guessed")
def independent_columns_guessed(voice: Voice, least: float, most: float) -> str:
    """Class scores in [0, 1] whose rows do not sum to 1."""
    summed = f"{voice.nouns.rows} sum to between {least:.6g} and {most:.6g}: each column is taken to speak for itself"
    return f"{summed}; pass {voice.setting('kind', 'independent')} to confirm"


@note("probabilities-as-logits")
def probabilities_as_logits(voice: Voice) -> str:
    """Logits, as the caller says, that look like probabilities."""
    said = voice.setting("kind", "logit")
    return f"{voice.nouns.scores} look like {voice.nouns.probabilities}, and are taken as logits, as {said} says"


@note("probabilities-for-logits")
def probabilities_for_logits(voice: Voice) -> str:
    """Probabilities, it seems, for a map of logits."""
    look = f"{voice.nouns.scores} look like {voice.nouns.probabilities}"
    return f"{look}, but the map was fitted on logits: pass logits"


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Checked rows of class scores, as :func:`check_class_rows` returns them; rows of weight zero are gone.

    Attributes
    ----------
    scores : ndarray of float32 or float64, shape (n, K)
        Contiguous and finite. Shares the caller's memory where that was clean.
    labels : ndarray of intp
        Column of each row's class; a label that has none, where such are allowed, comes behind the columns.
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
    other_notes, kind_notes : tuple of Note
        What was guessed or converted; ``kind_notes`` are about the kind of the scores.
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
    other_notes: tuple[Note, ...]
    kind_notes: tuple[Note, ...] = ()

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def notes(self) -> tuple[Note, ...]:
        """All that was guessed or converted."""
        return (*self.kind_notes, *self.other_notes)

    @property
    def mass(self) -> NDArray[Any]:
        """Weight of each row, 1 where none was given."""
        return np.ones(len(self), dtype=np.int64) if self.weights is None else self.weights

    @property
    def class_mass(self) -> NDArray[np.float64]:
        """Rows, or sum of weights, of each class."""
        return np.bincount(self.labels, self.weights, minlength=len(self.classes))[: len(self.classes)].astype(
            np.float64
        )

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
            self.other_notes,
            self.kind_notes,
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
    loose: bool = False,
    others: Sequence[str] = (),
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
        ``y`` when there are as many of them as columns; anything else is refused, since a guess could swap classes: so
        are the columns of a frame in another order. A note reports sorted labels.
    kind : {"probability", "logit", "independent"}, optional
        What the scores are: guessed from their range and their sums when not given. ``"independent"`` are numbers in
        [0, 1] whose rows need not sum to 1, as one-against-the-rest models and class-wise calibrators give them.
    loose : bool
        Whether numbers in [0, 1] whose rows do not sum to 1 are taken for independent ones, with a note, not refused.
    others : sequence of str, optional
        Labels that are allowed though no column is for them, such as the inner nodes of a taxonomy.

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
        refuse_empty("scores")
    if is_matrix(y):
        raise InputError(
            "y",
            "has several columns",
            "pass one label per row; of a one-hot matrix pass y.argmax(axis=1), which calls the classes by the "
            "numbers of their columns, from 0",
        )
    target = label_column(y, "y")
    check_length(target, "y", n)
    refuse_other_order(scores, y)
    keys = read_keys(target, "y")
    names, values, name_notes = class_names(classes, columns, target, keys, size)
    fix = "write them as classes= does" if classes is not None else "pass classes=, the labels in the order of columns"
    labels = class_codes(keys, (*names, *others), fix=Phrase("{name}, or {drop}", name=fix, drop=Advice.DROP_ROWS))
    w, notes = (None, ()) if sample_weight is None else check_weights(sample_weight, weights, n)
    group = None if groups is None else side_column(groups, "groups", n)
    when, time_notes = (None, ()) if time is None else check_time(time, n)
    known = keys.names if kind is None and classes is None and not others else columns
    found, kind_notes, high = settle_class_kind(matrix, kind, loose, lambda: refuse_stranger(columns, known))
    rows = ClassRows(
        without_excess(matrix, found, high), labels, names, values, w, w is None or weights == "counts", group, when,
        found, () if columns == names else columns, (*name_notes, *notes, *time_notes), kind_notes,
    )  # fmt: skip
    if w is not None and np.count_nonzero(w) < n:
        rows = rows.take(np.flatnonzero(w != 0))
        if not len(rows):
            raise InputError("sample_weight", "is zero in every row", "at least one row must count")
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
    matrix, found = read_matrix(needed_columns(scores, tuple(classes), tuple(columns)))
    if matrix.shape[1] != len(classes) and not found:
        raise InputError(
            "scores", f"has {matrix.shape[1]} columns but the map has {len(classes)} classes", "pass one each"
        )
    missing = np.isnan(np.einsum("nk->n", matrix))
    if missing.any():
        missing = np.isnan(matrix).any(axis=1)  # infinities of either sign sum to NaN too
    if missing.any():
        matrix = matrix.copy()
        matrix[missing] = np.nan
    if matrix.size and np.isinf(matrix[~missing]).any():
        raise InputError("scores", "holds infinities", "repair these rows")
    high = _settle_fitted(matrix[~missing] if missing.any() else matrix, kind)
    return without_excess(np.ascontiguousarray(matrix), kind, high), lambda out, names: rebuilt(scores, out, names)


def check_fresh_rows(
    scores: Any, y: Any, classes: Sequence[str], kind: ClassKind, columns: Sequence[str] = ()
) -> ClassRows:
    """Check rows that a promise about a fitted map is held against; columns as in :func:`check_class_scores`."""
    refuse_other_order(scores, y)
    matrix, _ = check_class_scores(scores, classes, kind, columns)
    return check_class_rows(matrix, y, classes=classes, kind=kind)


def read_matrix(scores: Any) -> tuple[Matrix, tuple[str, ...]]:
    """A matrix of floats and the names of its columns, none for arrays."""
    if isinstance(scores, np.ma.MaskedArray):
        raise InputError("scores", "is a masked array", "drop the masked rows and pass a plain array")
    if hasattr(scores, "collect") or hasattr(scores, "fetchall"):
        raise InputError(
            "scores", "is a table that is not in memory", "collect it, or use to_sql to apply a map where it is"
        )
    names: tuple[str, ...] = ()
    raw: Any = scores
    if hasattr(scores, "column_names"):  # pyarrow
        names = tuple(scores.column_names)
        raw = (
            np.column_stack([np.asarray(column) for column in scores.columns]) if names else np.empty((len(scores), 0))
        )
    elif hasattr(scores, "columns") and hasattr(scores, "to_numpy"):
        names = tuple(column_name(column) for column in scores.columns)
        raw = scores.to_numpy()
    try:
        if hasattr(scores, "iloc") and raw.dtype.kind == "O":  # pandas, with missing values of its own
            raw = scores.to_numpy(dtype=np.float64, na_value=np.nan)
        a = np.asarray(raw)
        if a.dtype.kind == "O":
            a = a.astype(np.float64)
    except (TypeError, ValueError) as error:
        refuse_text(scores, names)
        raise InputError(
            "scores", f"cannot be read as a matrix of numbers ({error})", "pass one column per class"
        ) from None
    if a.ndim != 2 or a.shape[1] < 2:
        raise InputError(
            "scores",
            f"has shape {a.shape}",
            "pass a matrix with one row per case and one column per class, two or more",
        )
    if a.dtype.kind not in "biuf":
        refuse_text(scores, names)
        raise InputError("scores", f"holds values of type {a.dtype}", "pass numbers")
    if len(set(names)) != len(names):
        raise InputError("scores", "has two columns of the same name", "rename one of them")
    return np.ascontiguousarray(a, dtype=np.float32 if a.dtype.char in "ef" else np.float64), names


def settle_class_kind(
    matrix: Matrix, kind: ClassKind | None, loose: bool = False, doubt: Callable[[], None] = lambda: None
) -> tuple[ClassKind, tuple[Note, ...], float]:
    """What the scores are: as was said, when they agree with it, or as their range and sums tell; and the largest.

    ``doubt`` is asked to refuse before anything but probabilities is guessed.
    """
    spread = Spread.of(matrix, BLOCK)
    if kind is None:
        if spread.probable:
            return "probability", (), spread.high
        doubt()
        return *_guessed(spread, loose), spread.high
    if kind == "logit":
        return kind, (probabilities_as_logits(),) if spread.probable and len(matrix) > 1 else (), spread.high
    if not spread.inside:
        spread.refuse_percent()
        raise InputError(
            "scores",
            f"must lie in [0, 1] to be of kind {kind!r}, but run from {spread.low:.6g} to {spread.high:.6g}",
            Phrase("pass {logit} if they are logits", logit=Setting("kind", "logit")),
        )
    if kind == "probability" and not spread.probable:
        spread.refuse_sums()
    return kind, (), spread.high


def _settle_fitted(matrix: Matrix, kind: ClassKind) -> float:
    """The largest of the scores that a map of this kind is applied to; they must be of that kind."""
    spread = Spread.of(matrix, BLOCK)
    if kind == "logit":
        if spread.probable and len(matrix) > 1:
            warn(probabilities_for_logits())
    elif not spread.inside:
        spread.refuse_percent()
        raise InputError(
            "scores",
            f"must lie in [0, 1], but run from {spread.low:.6g} to {spread.high:.6g}",
            "pass probabilities, such as the softmax of logits",
        )
    elif kind == "probability" and not spread.probable:
        spread.refuse_sums(fitted=True)
    return spread.high


def _guessed(spread: Spread, loose: bool) -> tuple[ClassKind, tuple[Note, ...]]:
    """The kind of scores that are no probabilities."""
    if not spread.inside:
        spread.refuse_percent()
        return "logit", (class_logits_guessed(spread.low, spread.high),)
    if not loose:
        spread.refuse_sums()
    return "independent", (independent_columns_guessed(spread.least, spread.most),)


def without_excess(matrix: Matrix, kind: ClassKind, high: float) -> Matrix:
    """Probabilities of which the largest, ``high``, exceeds 1 by rounding, at 1; NaN stays."""
    if kind == "logit" or not high > 1.0:
        return matrix
    return np.asarray(np.minimum(matrix, matrix.dtype.type(1.0)))


def class_codes(keys: Keys, names: tuple[str, ...], name: str = "y", fix: Text = Advice.DROP_ROWS) -> NDArray[np.intp]:
    """Column of each row's class; a class that is not among the names is refused, and so is none."""
    unknown = sorted(set(keys.names) - set(names))
    if unknown:
        raise InputError(
            name,
            Phrase(
                "has the class {unknown!r}, which no column of {scores} is for (classes are {names})",
                unknown=unknown[0],
                scores=Argument("scores"),
                names=first_names(names),
            ),
            fix,
        )
    codes = keys.among(names)
    if (codes < 0).any():
        bad = int((codes < 0).reshape(len(codes), -1).any(axis=1).argmax())
        raise InputError(name, f"has no class in row {bad}", "drop rows without a label")
    return codes
