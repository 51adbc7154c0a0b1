"""Check matrices of class scores: one row per case, one column per class, classes identified by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import (
    check_length,
    check_option,
    is_tensor,
    refuse_empty,
    refuse_model,
    refuse_other_order,
    width,
)
from calibrant.arrays.keys import Keys, read_keys
from calibrant.arrays.labels import label_column
from calibrant.arrays.multiclass.frames import column_name, needed_columns, rebuilt, refuse_stranger, refuse_text
from calibrant.arrays.multiclass.names import class_names, first_names
from calibrant.arrays.multiclass.spread import MASKED, Spread
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.arrays.sides import check_time, check_weights, side_column
from calibrant.arrays.tensors import read_tensor
from calibrant.messages import Advice, Argument, InputError, Note, Phrase, Setting, Text, Voice, note, warn

BLOCK = 1 << 17
"""Numbers read in one step, so that a second read finds them in the cache."""

MAX_WIDENED = 1 << 22
"""A float32 matrix of up to this many numbers is read in float64, so that it gives the answers of its values there."""

Matrix = NDArray[Any]
"""float32 or float64."""


@note("class-logits-guessed")
def class_logits_guessed(voice: Voice, low: float, high: float) -> str:
    """Class scores that were read as logits."""
    confirm = voice.setting("score_type", "logit")
    return f"scores read as logits (from {low:.6g} to {high:.6g}): pass {confirm} to confirm"


@note("independent-columns-guessed")
def independent_columns_guessed(voice: Voice, least: float, most: float) -> str:
    """Class scores in [0, 1] whose rows do not sum to 1."""
    summed = f"{voice.nouns.rows} sum to between {least:.6g} and {most:.6g}, not to 1"
    confirm = voice.setting("score_type", "independent")
    return f"{summed}: columns are treated as independent probabilities; pass {confirm} to confirm"


@note("probabilities-as-logits")
def probabilities_as_logits(voice: Voice) -> str:
    """Scores that the caller calls logits and that look like probabilities."""
    said = voice.setting("score_type", "logit")
    return f"scores look like probabilities but are read as logits because of {said}"


@note("probabilities-for-logits")
def probabilities_for_logits(voice: Voice) -> str:
    """Scores that look like probabilities, for a map that was fitted on logits."""
    return "scores look like probabilities, but the map was fitted on logits: pass logits"


@dataclass(frozen=True, eq=False)
class MulticlassRows:
    """Checked rows of class scores, as :func:`check_class_rows` returns them; rows of weight zero are dropped.

    Attributes
    ----------
    scores : ndarray of float32 or float64, shape (n, K)
        Contiguous and finite; float32 if they are many. Shares memory with the caller's array where possible.
    labels : ndarray of intp
        Column of each row's class; labels without a column, where they are allowed, have higher numbers.
    classes : tuple of str
        Names of the classes, in the order of the columns.
    values : ndarray
        The classes as the caller writes them.
    weights, counts, groups, time
        As in :class:`~calibrant.arrays.rows.Rows`.
    score_type : {"probability", "logit", "independent"}
        What the scores are.
    columns : tuple of str
        Names of the columns of a frame; empty for arrays.
    other_notes, kind_notes : tuple of Note
        What was guessed or converted; ``kind_notes`` are about the type of the scores.
    """

    scores: Matrix
    labels: NDArray[np.intp]
    classes: tuple[str, ...]
    values: NDArray[Any]
    weights: NDArray[np.int64] | NDArray[np.float64] | None
    counts: bool
    groups: NDArray[Any] | None
    time: NDArray[Any] | None
    score_type: MulticlassScoreType
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

    def take(self, rows: NDArray[Any]) -> MulticlassRows:
        """Some of the rows, by index or boolean mask."""

        def part(a: Any) -> Any:
            return None if a is None else a[rows]

        return MulticlassRows(
            self.scores[rows],
            self.labels[rows],
            self.classes,
            self.values,
            part(self.weights),
            self.counts,
            part(self.groups),
            part(self.time),
            self.score_type,
            self.columns,
            self.other_notes,
            self.kind_notes,
        )


def is_matrix(scores: Any) -> bool:
    """Whether an array, a nested list or a frame has two columns or more."""
    return width(scores) > 1


def check_class_rows(
    scores: Any,
    y: Any,
    sample_weight: object = None,
    *,
    classes: Sequence[Any] | None = None,
    weight_type: Literal["importance", "frequency"] = "importance",
    groups: object = None,
    time: object = None,
    score_type: MulticlassScoreType | None = None,
    loose: bool = False,
    others: Sequence[str] = (),
) -> MulticlassRows:
    """Check a matrix of class scores and its labels, and whatever else describes the rows.

    Parameters
    ----------
    scores : array-like or frame of shape (n, K)
        Probabilities that sum to 1 in every row, or logits. A frame names the classes by its columns. Read in float64;
        single and half precision of more than 4,194,304 numbers in float32. Nothing is ever renormalized.
    y : array-like of shape (n,)
        The class of each row, as text, integers or booleans.
    classes : sequence, optional
        The labels in the order of the columns. Without it they are the columns of a frame (also after a common
        beginning or end, such as ``p_``, if these are the labels), or the sorted values of ``y`` when there are as many
        of them as columns, with a note. Anything else is refused, since a guess could swap classes; so are the columns
        of a frame in a different order.
    score_type : {"probability", "logit", "independent"}, optional
        What the scores are: guessed from their range and their sums when not given. ``"independent"`` are numbers in
        [0, 1] whose rows need not sum to 1, as one-against-the-rest models and class-wise calibrators give them.
    loose : bool
        Whether numbers in [0, 1] whose rows do not sum to 1 are read as independent, with a note, and not refused.
    others : sequence of str, optional
        Labels that are allowed although they have no column, such as the inner nodes of a taxonomy.

    Examples
    --------
    >>> rows = check_class_rows([[0.7, 0.3], [0.4, 0.6]], ["cat", "dog"])
    >>> rows.classes, rows.labels.tolist(), rows.score_type
    (('cat', 'dog'), [0, 1], 'probability')
    """
    check_option("score_type", score_type, (*get_args(MulticlassScoreType), None))
    check_option("weight_type", weight_type, ("importance", "frequency"))
    matrix, columns = read_matrix(scores)
    matrix = matrix.astype(np.float64, copy=False) if matrix.size <= MAX_WIDENED else matrix
    n, size = matrix.shape
    if n == 0:
        refuse_empty("scores")
    if is_matrix(y):
        raise InputError(
            "y",
            "has several columns",
            "pass one label per row; for a one-hot matrix pass y.argmax(axis=1), which labels the classes by column "
            "number from 0",
        )
    target = label_column(y, "y")
    check_length(target, "y", n)
    refuse_other_order(scores, y)
    keys = read_keys(target, "y")
    names, values, name_notes = class_names(classes, columns, target, keys, size)
    fix = "add it to classes=" if classes is not None else "pass classes=, the labels in the order of the columns"
    labels = class_codes(keys, (*names, *others), fix=Phrase("{name}, or {drop}", name=fix, drop=Advice.DROP_ROWS))
    w, notes = (None, ()) if sample_weight is None else check_weights(sample_weight, weight_type, n)
    group = None if groups is None else side_column(groups, "groups", n)
    when, time_notes = (None, ()) if time is None else check_time(time, n)
    own = names if classes is None and columns else columns
    known = keys.names if score_type is None and classes is None and not others else own
    matrix, found, kind_notes = settled_classes(
        matrix, score_type, loose=loose, doubt=lambda: refuse_stranger(own, known)
    )
    rows = MulticlassRows(
        matrix, labels, names, values, w, w is None or weight_type == "frequency", group,
        when, found, () if columns == names else columns, (*name_notes, *notes, *time_notes), kind_notes,
    )  # fmt: skip
    if w is not None and np.count_nonzero(w) < n:
        rows = rows.take(np.flatnonzero(w != 0))
        if not len(rows):
            raise InputError("sample_weight", "is zero in every row", "give at least one row a weight above 0")
    return rows


def check_class_scores(
    scores: Any,
    classes: Sequence[str],
    score_type: MulticlassScoreType,
    columns: Sequence[str] = (),
    *,
    masked: Callable[[], bool] = bool,
) -> tuple[Matrix, Callable[[Matrix, Sequence[str]], Any]]:
    """Check scores that a fitted map is about to be applied to; columns of a frame are found by name.

    If ``masked()``, a logit of -inf is read as that of a class with the probability 0.

    Returns
    -------
    matrix
        In the order of ``classes``. float32 stays float32. A row with a missing score is NaN throughout.
    rebuild
        From a matrix and its column names to the type that the caller passed: an array, or the same type of frame.
    """
    matrix, found = read_matrix(needed_columns(scores, tuple(classes), tuple(columns)))
    if matrix.shape[1] != len(classes) and not found:
        raise InputError(
            "scores",
            f"has {matrix.shape[1]} columns but the map has {len(classes)} classes",
            "pass one column per class",
        )
    missing = np.isnan(np.einsum("nk->n", matrix))
    if missing.any():
        missing = np.isnan(matrix).any(axis=1)  # infinities of either sign sum to NaN too
    if missing.any():
        matrix = matrix.copy()
        matrix[missing] = np.nan
    if matrix.size and np.isinf(matrix[~missing]).any():
        matrix = _unmasked(matrix, score_type == "logit" and masked(), score_type)
    there = settled_classes(matrix[~missing] if missing.any() else matrix, score_type, fitted=True)[0]
    if not missing.any():
        matrix = there
    else:
        matrix[~missing] = there
    return np.ascontiguousarray(matrix), lambda out, names: rebuilt(scores, out, names)


def _unmasked(matrix: Matrix, masked: bool, score_type: MulticlassScoreType) -> Matrix:
    """A copy in which -inf is the lowest finite logit, whose softmax is also 0; other infinities are refused."""
    without = np.isneginf(matrix)
    if np.isposinf(matrix).any():
        raise InputError("scores", "holds infinities", "repair these rows")
    if not masked and score_type == "logit":
        raise InputError(
            "scores",
            "holds -inf, and this map may give such a class a probability above 0",
            "fit the map to softmax rows, and pass the softmax of the scores",
        )
    if not masked:
        raise InputError("scores", "holds infinities", MASKED)
    empty = without.all(axis=1)
    if empty.any():
        raise InputError(
            "scores", f"has no class left in row {int(empty.argmax())} counted from 0: all are -inf", Advice.DROP_ROWS
        )
    return np.where(without, np.finfo(matrix.dtype).min, matrix)


def check_fresh_rows(
    scores: Any, y: Any, classes: Sequence[str], score_type: MulticlassScoreType, columns: Sequence[str] = ()
) -> MulticlassRows:
    """Check fresh rows on which a certificate is tested; columns as in :func:`check_class_scores`."""
    refuse_other_order(scores, y)
    matrix, _ = check_class_scores(scores, classes, score_type, columns)
    return check_class_rows(matrix, y, classes=classes, score_type=score_type)


def read_matrix(scores: Any) -> tuple[Matrix, tuple[str, ...]]:
    """A matrix of floats and the names of its columns, none for arrays."""
    if isinstance(scores, np.ma.MaskedArray):
        raise InputError("scores", "is a masked array", "drop the masked rows and pass a plain array")
    if hasattr(scores, "collect") or hasattr(scores, "fetchall"):
        raise InputError(
            "scores",
            "is a table that is not in memory",
            "collect it first, or apply the map in the database with to_sql",
        )
    names: tuple[str, ...] = ()
    refuse_model(scores)
    raw: Any = read_tensor(scores, "scores") if is_tensor(scores) else scores
    if hasattr(scores, "column_names"):  # pyarrow
        names = tuple(scores.column_names)
        raw = (
            np.column_stack([np.asarray(column) for column in scores.columns]) if names else np.empty((len(scores), 0))
        )
    elif hasattr(scores, "columns") and hasattr(scores, "to_numpy"):
        names = tuple(column_name(column) for column in scores.columns)
        raw = scores.to_numpy()
    try:
        if hasattr(scores, "iloc") and raw.dtype.kind == "O":  # pandas, with its own missing values
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


def settled_classes(
    matrix: Matrix,
    score_type: MulticlassScoreType | None,
    *,
    loose: bool = False,
    fitted: bool = False,
    doubt: Callable[[], None] = lambda: None,
) -> tuple[Matrix, MulticlassScoreType, tuple[Note, ...]]:
    """The scores, their given type if they agree with it, or a guess from their range and sums, and what was guessed.

    Probabilities that leave [0, 1] by rounding are clipped. ``doubt`` is called, and may refuse, before anything but
    probabilities is guessed. The score type of a ``fitted`` map is fixed.
    """
    spread = Spread.of(matrix, BLOCK)
    notes: tuple[Note, ...] = ()
    if score_type is None and spread.probable:
        score_type = "probability"
    elif score_type is None:
        doubt()
        if not spread.inside:
            spread.refuse_outside(matrix)
            score_type, notes = "logit", (class_logits_guessed(spread.low, spread.high),)
        elif not loose or (spread.scaled and len(matrix) > 1):
            spread.refuse_sums()
        else:
            score_type, notes = "independent", (independent_columns_guessed(spread.least, spread.most),)
    elif score_type == "logit":
        if spread.probable and len(matrix) > 1:
            if fitted:
                warn(probabilities_for_logits())
            else:
                notes = (probabilities_as_logits(),)
    elif not spread.inside:
        spread.refuse_outside(matrix, fitted=fitted)
        fix: Text = "pass probabilities, such as the softmax of logits"
        if not fitted:
            fix = Phrase("pass {logit} if they are logits", logit=Setting("score_type", "logit"))
        of_type = "" if fitted else f" to be of type {score_type!r}"
        problem = f"must lie in [0, 1]{of_type}, but range from {spread.low:.6g} to"
        raise InputError("scores", f"{problem} {spread.high:.6g}", fix)
    elif score_type == "probability" and not spread.probable:
        spread.refuse_sums(fitted)
    if score_type != "logit" and (spread.low < 0.0 or spread.high > 1.0):
        matrix = np.clip(matrix, 0.0, 1.0)
    return matrix, score_type, notes


def class_codes(keys: Keys, names: tuple[str, ...], name: str = "y", fix: Text = Advice.DROP_ROWS) -> NDArray[np.intp]:
    """Column of each row's class; a class that is not among the names is refused, and so is a missing one."""
    unknown = sorted(set(keys.names) - set(names))
    if unknown:
        raise InputError(
            name,
            Phrase(
                "has the class {unknown!r}, which has no column in {scores} (the classes are {names})",
                unknown=unknown[0],
                scores=Argument("scores"),
                names=first_names(names),
            ),
            fix,
        )
    codes = keys.among(names)
    if (codes < 0).any():
        bad = int((codes < 0).reshape(len(codes), -1).any(axis=1).argmax())
        raise InputError(name, f"has no class in row {bad} counted from 0", "drop rows without a label")
    return codes
