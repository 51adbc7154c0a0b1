"""Comparison of an export with ``apply``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.export.errors import ExportMismatchError
from calibrant.export.kinds import Rows, allowed, only_copies
from calibrant.export.kinds.tolerance import TOLERANCE
from calibrant.export.languages.sql.pieces import NEGLIGIBLE
from calibrant.maps import Map, TopMap
from calibrant.messages import Shown

Unit = Literal["scores", "rows"]
"""Unit of comparison: scores, or rows of class scores."""


@dataclass(frozen=True)
class Proof(Shown):
    """Result of comparing an export with its map: engine, number of cases, and largest difference.

    Attributes
    ----------
    engine
        The engine that ran the export, with its version.
    scores
        Number of scores compared: edges, neighbors of every knot, random ones, NaN and NULL.
    equal
        Number of bit-identical results.
    worst
        Largest relative difference.
    tolerance
        Largest relative difference allowed; 0.0 requires identical doubles.
    unit
        Unit of comparison: scores, or rows of class scores.
    """

    engine: str
    scores: int
    equal: int
    worst: float
    tolerance: float
    unit: Unit = "scores"

    @classmethod
    def from_dict(cls, given: Any) -> Proof:
        """The proof from plain data, with types checked."""
        proof = cls(**given)
        whole = all(type(value) is int for value in (proof.scores, proof.equal))
        real = all(type(value) in (int, float) for value in (proof.worst, proof.tolerance))
        if type(proof.engine) is not str or proof.unit not in get_args(Unit) or not whole or not real:
            raise TypeError("a proof must have the name of an engine and four numbers")
        return proof

    def __str__(self) -> str:
        """One sentence."""
        if self.equal == self.scores:
            how = "all results are bit-identical"
        else:
            how = f"{self.equal:,} results are bit-identical, the others differ by at most {self.worst:.1e} (relative)"
        return f"Compared with the map on {self.engine}, {self.scores:,} {self.unit}: {how}."


def compare(
    map_: Map,
    given: Rows,
    found: NDArray[Any],
    engine: str,
    labels: NDArray[np.intp] | None = None,
    *,
    bounded: bool = False,
) -> Proof:
    """The proof, or an :class:`ExportMismatchError` with the first row that differs.

    If the map is ``bounded``, its scores are probabilities, and other numbers must give NaN. ``found`` are the results
    of an export, a row for each one given and a column for each output, NaN for NULL. ``labels`` are the classes it
    returned, as column indices, -1 for none: they must be those of the map. In single precision a smooth map may also
    be off by one step of a float32.
    """
    rows = given.as_read() if bounded else given
    found = found.reshape(len(found), -1)
    expected = map_.apply(rows.scores, rows.groups or None).reshape(found.shape)
    low, high = (end.reshape(found.shape) for end in allowed(map_, rows))
    exact = only_copies(map_)
    if expected.dtype == np.float32:
        slack = 0.0 if exact else np.spacing(np.abs(expected)).astype(np.float64)
        low, high = np.minimum(low, expected) - slack, np.maximum(high, expected) + slack
    missing = np.isnan(expected)
    with np.errstate(invalid="ignore"):
        good = np.where(missing, np.isnan(found), (found == expected) | ((found >= low) & (found <= high)))
    if not good.all():
        row, column = (int(each) for each in np.argwhere(~good)[0])
        off = int((~good).any(axis=1).sum())
        _refuse(map_, given, row, column, found[row, column], expected[row, column], off, engine)
    if labels is not None:
        _check_labels(map_, rows, labels, engine)
    equal = (found == expected) | missing
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.abs(found.astype(np.float64) - expected) / np.maximum(np.abs(expected), NEGLIGIBLE)
    worst = float(apart[~equal].max(initial=0.0))
    return Proof(engine, len(found), int(equal.all(axis=1).sum()), worst, 0.0 if exact else TOLERANCE, _unit(map_))


def expected_labels(map_: Map, rows: NDArray[Any]) -> NDArray[np.intp]:
    """Column indices of the classes of the results; -1 if a score is missing."""
    if not isinstance(map_, TopMap):
        return np.empty((len(rows), 0), dtype=np.intp)
    return np.where(np.isnan(rows).any(axis=1, keepdims=True), -1, map_.labels(rows))


def _check_labels(map_: Map, rows: Rows, labels: NDArray[np.intp], engine: str) -> None:
    right = expected_labels(map_, rows.scores)
    wrong = labels != right
    if wrong.any():
        row, column = (int(each) for each in np.argwhere(wrong)[0])
        off = int(wrong.any(axis=1).sum())
        _refuse(map_, rows, row, column, labels[row, column], right[row, column], off, engine, "the class of ")


def _unit(map_: Map) -> Unit:
    return "rows" if len(map_.inputs) > 1 else "scores"


def _refuse(
    map_: Map, rows: Rows, row: int, column: int, given: Any, wanted: Any, off: int, engine: str, what: str = ""
) -> NoReturn:
    scores, unit = np.atleast_1d(rows.scores[row]).tolist(), _unit(map_)
    if unit == "scores":
        place = f"the score {scores[0]!r}"
        place += "".join(f" with {name} {values[row]!r}" for name, values in rows.groups.items())
    else:
        listed = ", ".join(map(repr, scores[:10])) + (", ..." if len(scores) > 10 else "")
        place = f"{what}{map_.outputs[column]!r} of the scores {listed}"
    raise ExportMismatchError(
        f"{engine} gives {given.item()!r} for {place}, but the map gives {wanted.item()!r}; {off:,} of "
        f"{len(rows.scores):,} {unit} differ: do not use this export"
    )
