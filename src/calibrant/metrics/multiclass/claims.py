"""Claims of rows of class scores under a notion of calibration: a class and its probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_length
from calibrant.arrays.keys import key_text, read_keys
from calibrant.arrays.labels import label_column
from calibrant.arrays.multiclass.rows import BLOCK, Matrix, MulticlassRows, check_class_rows, class_codes
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.arrays.sides import check_weights
from calibrant.maps.classes import blocks, softmax, top_labels
from calibrant.messages import InputError, Note, plural
from calibrant.notions import Canonical, Notion, as_notion
from calibrant.numerics import Floats, to_float32

AskedScoreType = MulticlassScoreType | None
"""What the scores are; None to guess."""
Classes = Sequence[Any] | None
"""Names of classes in the order of the columns; None to take them from the data."""


@dataclass(frozen=True, eq=False)
class Claims:
    """Claims of every row: for each claim of a notion, a class and its probability.

    Attributes
    ----------
    notion
        The notion of calibration.
    scores : ndarray of shape (n, C)
        The probability claimed, by row and claim.
    named : ndarray of shape (n, C), optional
        The class that it is claimed for; None where claim c is about class c in every row.
    labels, weights, classes
        Class of each row as a column, weight of each row or None, and names of the classes.
    by_label
        Whether calibration is assessed separately among the rows of each named class.
    exclusive
        Whether at most one claim of a row can come true, with the probabilities claimed.
    notes
        What was guessed.
    given, on
        The original matrix (logits as logits) and its score type.
    """

    notion: Notion
    scores: Matrix
    named: NDArray[np.intp] | None
    labels: NDArray[np.intp]
    weights: NDArray[Any] | None
    classes: tuple[str, ...]
    by_label: bool
    exclusive: bool
    notes: tuple[Note, ...]
    given: Matrix
    on: str

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def count(self) -> int:
        """Claims about each row."""
        return int(self.scores.shape[1])

    @property
    def averaged(self) -> int:
        """Number of claims over which an error is averaged: all of them; for canonical, a row counts as one."""
        return 1 if isinstance(self.notion, Canonical) else self.count

    @property
    def mass(self) -> Floats:
        """Weight of each row."""
        return np.ones(len(self)) if self.weights is None else self.weights.astype(np.float64, copy=False)

    @property
    def whole(self) -> bool:
        """Whether weights are integers, and so may mean repetition."""
        return self.weights is None or bool((self.weights == np.trunc(self.weights)).all())

    @property
    def effective_size(self) -> float:
        r"""Effective sample size, :math:`(\sum w)^2 / \sum w^2`."""
        return float(len(self)) if self.weights is None else float(self.mass.sum() ** 2 / (self.mass**2).sum())

    def true(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and indices of the claims that came true."""
        if self.named is None:
            return np.arange(len(self)), self.labels
        rows, places = np.nonzero(self.named == self.labels[:, None])
        return rows, places

    def problem(self, place: int) -> tuple[NDArray[np.intp] | None, NDArray[np.intp]]:
        """Binary problem of each row for one claim, None if all rows share one; and the class of each problem."""
        if self.by_label and self.named is not None:
            return self.named[:, place], np.arange(len(self.classes))
        return None, np.array([place if self.named is None else -1])


def read_claims(
    scores: Any,
    y: Any,
    sample_weight: object = None,
    *,
    notion: Notion | str,
    classes: Classes = None,
    score_type: AskedScoreType = None,
    named: Any = None,
) -> Claims:
    """The claims of a matrix of class scores, or of the classes ``named`` in each row with their probabilities."""
    sense = as_notion(notion)
    if y is None:
        raise InputError("y", "is missing", "pass the labels after the scores")
    if named is not None:
        return _named_claims(scores, y, sample_weight, sense, classes, named)
    rows = check_class_rows(scores, y, sample_weight, classes=classes, score_type=score_type, loose=True)
    notes = rows.kind_notes if score_type is None else ()
    if isinstance(sense, Canonical):
        ranks, by_label = 0, False
    else:
        claims = sense.supported_claims(len(rows.classes))
        ranks, by_label = max(claim.rank or 0 for claim in claims), claims[0].by_label
    at, p = _tops(rows, ranks) if ranks else (None, probabilities(rows))
    exclusive = rows.score_type != "independent" or p.shape[1] == 1
    return Claims(
        sense, p, at, rows.labels, rows.weights, rows.classes, by_label, exclusive, notes, rows.scores, rows.score_type
    )


def probabilities(rows: MulticlassRows) -> Matrix:
    """The matrix of the rows as probabilities, in its original precision."""
    if rows.score_type != "logit":
        return rows.scores
    out = np.empty_like(rows.scores)
    for part in blocks(out):
        p = softmax(rows.scores[part].astype(np.float64, copy=False))
        out[part] = to_float32(p) if out.dtype == np.float32 else p
    return out


def _tops(rows: MulticlassRows, ranks: int) -> tuple[NDArray[np.intp], Matrix]:
    """Classes of the largest scores of each row, and their probabilities."""
    at = np.empty((len(rows), ranks), dtype=np.intp)
    p = np.empty((len(rows), ranks), dtype=np.float64)
    for part in steps(rows.scores):
        s = rows.scores[part]
        at[part] = top_labels(s, ranks)
        given = softmax(s.astype(np.float64, copy=False)) if rows.score_type == "logit" else s
        p[part] = np.take_along_axis(given, at[part], axis=1)
    return at, p


def _named_claims(scores: Any, y: Any, sample_weight: object, notion: Notion, classes: Classes, named: Any) -> Claims:
    p = np.asarray(scores, dtype=np.float64)
    p = p[:, None] if p.ndim == 1 else p
    given = read_keys(named, "named")
    at = given.codes.reshape(len(given.codes), -1) if given.codes.ndim else given.codes
    if p.ndim != 2 or p.size == 0 or at.shape != p.shape:
        raise InputError(
            "scores",
            f"has shape {p.shape} and named {at.shape}",
            "with named= pass the probability of each named class for every row",
        )
    if not ((p >= 0.0) & (p <= 1.0 + 1e-6)).all():
        raise InputError("scores", "must be probabilities in [0, 1] of the named classes", "repair them")
    target = label_column(y, "y")
    check_length(target, "y", len(p))
    keys = read_keys(target, "y")
    names = tuple(sorted({*keys.names, *given.names}))
    if classes is not None:
        names = tuple(key_text(value, "classes") or "" for value in classes)
    claims = notion.supported_claims(max(len(names), 1)) if not isinstance(notion, Canonical) else ()
    if len(claims) != p.shape[1] or any(claim.rank != j + 1 for j, claim in enumerate(claims)):
        raise InputError(
            "named",
            f"has {plural(p.shape[1], 'column')}, which does not fit the notion {notion.name!r}",
            "use 'confidence' or 'top-label' for one column, TopKConfidence(k) or TopKLabel(k) for k of them",
        )
    at, labels = class_codes(given, names, "named").reshape(p.shape), class_codes(keys, names)
    weights = None if sample_weight is None else check_weights(sample_weight, "importance", len(p))[0]
    if weights is not None:
        kept = np.flatnonzero(weights != 0)
        p, at, labels, weights = p[kept], at[kept], labels[kept], weights[kept]
    p = np.minimum(p, 1.0)
    return Claims(notion, p, at, labels, weights, names, claims[0].by_label, True, (), p, "probability")


def steps(matrix: Matrix) -> list[slice]:
    """Blocks of rows that fit into the cache."""
    step = max(BLOCK // matrix.shape[1], 1)
    return [slice(start, min(start + step, len(matrix))) for start in range(0, len(matrix), step)]
