"""Log loss, Brier score and accuracy of class probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.multiclass.rows import Matrix, MulticlassRows, check_class_rows
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.maps.classes import blocks, held, softmax, top_labels
from calibrant.messages import InputError, Note, Voice, note, plural
from calibrant.metrics.estimates import Estimate, mean_estimate, upper_point
from calibrant.metrics.multiclass.claims import AskedScoreType, Classes, read_claims
from calibrant.metrics.multiclass.covariance import MOST_CELLS
from calibrant.numerics import Column, Floats


def log_loss(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    score_type: AskedScoreType = None,
) -> Estimate:
    """Log loss of class probabilities; see :func:`~calibrant.metrics.dispatch.log_loss`.

    Examples
    --------
    >>> round(log_loss([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]], [0, 2], classes=range(3)).value, 4)
    0.602
    """
    rows = _rows(scores, y, sample_weight, classes, score_type)
    found = _mean("log loss", _gather(rows, _log_part), math.inf)
    if rows.score_type == "independent":
        found = replace(found, notes=(*found.notes, not_a_proper_score()))
    if math.isfinite(found.value):
        return found
    return _without_impossible(rows, found)


def brier(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    score_type: AskedScoreType = None,
) -> Estimate:
    """Brier score of class probabilities; see :func:`~calibrant.metrics.dispatch.brier`.

    Examples
    --------
    >>> round(brier([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]], [0, 2], classes=range(3)).value, 4)
    0.3075
    """
    rows = _rows(scores, y, sample_weight, classes, score_type)
    ceiling = math.inf if rows.score_type == "independent" else 2.0
    return _mean("Brier score summed over classes", _gather(rows, _square_part), ceiling)


def accuracy(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    score_type: AskedScoreType = None,
    named: Any = None,
) -> Estimate:
    """Accuracy of class probabilities; see :func:`~calibrant.metrics.dispatch.accuracy`.

    Examples
    --------
    >>> accuracy([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]], [0, 1], classes=range(3)).value
    0.5
    """
    claims = read_claims(
        scores, y, sample_weight, notion="confidence", classes=classes, score_type=score_type, named=named
    )
    assert claims.named is not None
    top = claims.scores[:, 0].astype(np.float64, copy=False)
    right = (claims.named[:, 0] == claims.labels).astype(np.float64)
    moments = np.stack([top, top * (1.0 - top), top * (1.0 - top) * (1.0 - 2.0 * top)])
    return _mean("accuracy", _Losses(right, claims.mass, moments, claims.notes), 1.0, "gain")


Part = Callable[[Floats, NDArray[np.intp], MulticlassScoreType, bool], tuple[Floats, Floats, Floats]]
"""From a block of rows and its labels to each row's loss, its probabilities, and where asked the loss by class."""


@dataclass(frozen=True, eq=False)
class _Losses:
    """Loss of each row, its weight, and its moments under the row's own probabilities.

    ``moments`` has mean, variance and third central moment of each row's loss; None where rows do not sum to 1.
    """

    values: Floats
    mass: Floats
    moments: Floats | None
    notes: tuple[Note, ...]


def row_losses(
    metric: str,
    scores: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    classes: Classes = None,
    score_type: AskedScoreType = None,
    named: Any = None,
) -> tuple[Floats, Floats]:
    """Loss (for accuracy: 1 if the class is right) and weight of each row with positive weight."""
    if metric == "accuracy":
        given = {"classes": classes, "score_type": score_type, "named": named}
        claims = read_claims(scores, y, sample_weight, notion="confidence", **given)
        assert claims.named is not None
        return (claims.named[:, 0] == claims.labels).astype(np.float64), claims.mass
    rows = _rows(scores, y, sample_weight, classes, score_type)
    losses = _gather(rows, _log_part if metric == "log_loss" else _square_part)
    return losses.values, losses.mass


def _rows(scores: Any, y: Any, sample_weight: object, classes: Classes, score_type: AskedScoreType) -> MulticlassRows:
    if y is None:
        raise InputError("y", "is missing", "pass the labels after the scores")
    rows = check_class_rows(scores, y, sample_weight, classes=classes, score_type=score_type, loose=True)
    return replace(rows, other_notes=(), kind_notes=rows.kind_notes if score_type is None else ())


def _gather(rows: MulticlassRows, part_of: Part) -> _Losses:
    """Losses block by block, in float64."""
    large = rows.scores.size > MOST_CELLS
    expected = not large and rows.score_type != "independent"
    values, moments = np.empty(len(rows)), np.empty((3, len(rows) if expected else 0))
    for part in blocks(rows.scores):
        s = rows.scores[part].astype(np.float64, copy=False)
        values[part], p, losses = part_of(s, rows.labels[part], rows.score_type, expected)
        if expected:
            moments[:, part] = _central(p, losses)
    mass = rows.mass.astype(np.float64, copy=False)
    return _Losses(
        values, mass, moments if expected else None, rows.notes + ((no_null_beyond_cells(MOST_CELLS),) if large else ())
    )


def _log_part(
    s: Floats, labels: NDArray[np.intp], score_type: MulticlassScoreType, expected: bool
) -> tuple[Floats, Floats, Floats]:
    at = labels[:, None]
    if score_type == "logit":
        z = held(s)
        z -= z.max(axis=1, keepdims=True)
        losses = np.log(np.exp(z).sum(axis=1, keepdims=True)) - z
        return np.take_along_axis(losses, at, axis=1)[:, 0], np.exp(-losses), losses
    with np.errstate(divide="ignore"):
        own = -np.log(np.take_along_axis(s, at, axis=1)[:, 0])
        losses = -np.log(s) if expected else s
    return own, s, np.where(s > 0.0, losses, 0.0) if expected else s


def _square_part(
    s: Floats, labels: NDArray[np.intp], score_type: MulticlassScoreType, expected: bool
) -> tuple[Floats, Floats, Floats]:
    p = softmax(s) if score_type == "logit" else s
    squares = np.einsum("nk,nk->n", p, p)
    own = 1.0 - 2.0 * np.take_along_axis(p, labels[:, None], axis=1)[:, 0] + squares
    return np.maximum(own, 0.0), p, 1.0 - 2.0 * p + squares[:, None] if expected else p


def _central(p: Matrix, losses: Floats) -> Floats:
    """Mean, variance and third central moment of each row's loss under its own probabilities."""
    mean = np.einsum("nk,nk->n", p, losses)
    away = losses - mean[:, None]
    return np.stack([mean, np.einsum("nk,nk,nk->n", p, away, away), np.einsum("nk,nk->n", p, away**3)])


def _mean(name: str, losses: _Losses, ceiling: float, kind: str = "loss") -> Estimate:
    """Weighted mean with its normal interval and null values."""
    w = losses.mass / losses.mass.sum()
    null: dict[str, Any] = {"kind": kind}
    if losses.moments is not None:
        expected, variance, third = ((w**k * each).sum() for k, each in zip((1, 2, 3), losses.moments, strict=True))
        spread = math.sqrt(max(variance, 0.0))
        null["null"] = float(expected)
        for key, sign in (("null_low", -1.0), ("null_high", 1.0)):
            beyond = expected + (sign * upper_point(sign * third / spread**3) * spread if spread > 0.0 else 0.0)
            null[key] = float(np.clip(beyond, 0.0, ceiling))
    return mean_estimate(name, losses.values, losses.mass, ceiling, null, losses.notes)


def _without_impossible(rows: MulticlassRows, found: Estimate) -> Estimate:
    own = np.take_along_axis(rows.scores, rows.labels[:, None], axis=1)[:, 0].astype(np.float64)
    bad = own == 0.0
    count = int(np.count_nonzero(bad))
    rest, mass = own[~bad], rows.mass[~bad].astype(np.float64)
    without = -float((mass * np.log(rest)).sum() / mass.sum()) if len(rest) else None
    return replace(found, notes=(*found.notes, _impossible_labels(count, without)))


def losses_of_rows(rows: MulticlassRows) -> tuple[Floats, Floats]:
    """Log loss and Brier score of each row; the first is infinite where the label has probability 0."""
    return _gather(rows, _log_part).values, _gather(rows, _square_part).values


def order_notes(rows: MulticlassRows) -> tuple[Note, ...]:
    """A note if top-1 accuracy is below that of random guessing by more than four standard errors.

    Random guessing draws each class as often as the model predicts it, so that predicting a rare class too often does
    not cause a note. If only some columns are swapped, this is rarely detected.
    """
    size = len(rows.classes)
    if rows.scores.shape[1] != size:
        return ()
    kept = rows.labels < size  # other labels, such as inner nodes of a taxonomy, have no column
    mass, labels, top = rows.mass[kept], rows.labels[kept], top_labels(rows.scores, 1)[kept, 0]
    total = float(mass.sum())
    if not total > 0.0:
        return ()
    named, true = (np.bincount(each, mass, size) / total for each in (top, labels))
    chance = float(np.einsum("k,k->", named, true))
    right = float(mass[top == labels].sum()) / total
    n = total if rows.counts else total**2 / float(np.square(mass).sum())
    return (below_chance(right, chance),) if chance - right > 4.0 * np.sqrt(chance * (1.0 - chance) / n) else ()


@note("below-chance")
def below_chance(voice: Voice, right: float, chance: float) -> str:
    """Note on columns that may be in another order than the classes."""
    return (
        f"top-1 accuracy is {100 * right:.3g} %, below the {100 * chance:.3g} % of random guessing: do the columns "
        "match `classes`?"
    )


no_null_beyond_cells = note("no-null-beyond-cells", "No null value above {most:,} {nouns.rows} times classes.")
not_a_proper_score = note(
    "not-a-proper-score",
    "{nouns.rows} do not sum to 1, so this is not a proper score: it rewards probabilities that are too large",
)


@note("impossible-labels")
def _impossible_labels(voice: Voice, rows: int, without: float | None) -> str:
    rest = "no other is left" if without is None else f"without them it is {without:.4f}"
    bad = plural(rows, voice.nouns.row, voice.nouns.rows)
    return f"infinite because of {bad} whose label has probability 0; {rest}"
