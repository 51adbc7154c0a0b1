"""What a ledger tells: where every event went, rows that are released, and corrections that came later."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.live.ids import Ids
from calibrant.messages import Shown, plural
from calibrant.numerics import Floats, Ints


@dataclass
class Counts(Shown):
    """Where every event went. Each prediction and each outcome is in exactly one of these.

    Attributes
    ----------
    open
        Predictions that wait for their release.
    with_outcome, silent_negative, silent_unknown
        Released predictions: with an outcome; without one, counted as negative; without one, left out.
    duplicate_predictions, conflicting_predictions
        Predictions whose id is known with the same or with another content; the first stays.
    late_predictions
        Predictions whose release time had passed when they came.
    overflow_predictions
        Predictions that came while ``max_open`` others waited.
    erased
        Predictions that were erased while they waited.
    dropped
        Predictions that were dropped while they waited, since their outcomes are not known.
    held
        Outcomes that wait for their prediction.
    joined
        Outcomes that are the label of a prediction.
    replaced
        Outcomes that a later outcome with another label replaced before the release.
    duplicate_outcomes
        Outcomes that repeat the known label.
    too_late
        Outcomes of events after the horizon.
    after_release, agreed
        Outcomes that came after the release: with another label than was assumed (a correction), or with the same.
    unknown
        Outcomes without a prediction: the id never came, or is forgotten.
    overflow_outcomes
        Outcomes without a prediction that came while ``max_held`` others waited.
    stale
        Calls of ``advance`` with an earlier time, which change nothing.
    forgotten_early
        Released ids that were forgotten before the end of their window because ``max_remembered`` was reached.
    corrected
        Released rows whose label an outcome contradicted later, each counted once.
    dropped_corrections
        Corrections that were not kept because ``max_corrections`` others were not taken.
    """

    open: int = 0
    with_outcome: int = 0
    silent_negative: int = 0
    silent_unknown: int = 0
    duplicate_predictions: int = 0
    conflicting_predictions: int = 0
    late_predictions: int = 0
    overflow_predictions: int = 0
    held: int = 0
    joined: int = 0
    replaced: int = 0
    duplicate_outcomes: int = 0
    too_late: int = 0
    after_release: int = 0
    agreed: int = 0
    unknown: int = 0
    overflow_outcomes: int = 0
    stale: int = 0
    forgotten_early: int = 0
    corrected: int = 0
    dropped_corrections: int = 0
    erased: int = 0
    dropped: int = 0

    @property
    def predictions(self) -> int:
        """All predictions that came."""
        released = self.with_outcome + self.silent_negative + self.silent_unknown
        refused = self.duplicate_predictions + self.conflicting_predictions
        gone = self.late_predictions + self.overflow_predictions + self.erased + self.dropped
        return self.open + released + refused + gone

    @property
    def outcomes(self) -> int:
        """All outcomes that came."""
        in_time = self.held + self.joined + self.replaced + self.duplicate_outcomes
        return in_time + self.too_late + self.after_release + self.agreed + self.unknown + self.overflow_outcomes

    @property
    def correction_rate(self) -> float:
        """Share of the released labels that an outcome contradicted later; NaN before the first release."""
        released = self.with_outcome + self.silent_negative
        return self.corrected / released if released else math.nan

    def __str__(self) -> str:
        """Two lines, and what deserves attention."""
        released = self.with_outcome + self.silent_negative + self.silent_unknown
        lines = [
            f"{plural(self.predictions, 'prediction')}: {self.open:,} waiting, {released:,} released "
            f"({self.with_outcome:,} with an outcome).",
            f"{plural(self.outcomes, 'outcome')}: {self.joined:,} joined, {self.held:,} waiting for their prediction.",
        ]
        odd = {
            "duplicate predictions": self.duplicate_predictions, "predictions with an id in use":
            self.conflicting_predictions, "predictions after their release time": self.late_predictions,
            "predictions beyond max_open": self.overflow_predictions, "predictions erased while they waited":
            self.erased, "predictions dropped while they waited": self.dropped,
            "outcomes replaced before the release": self.replaced,
            "duplicate outcomes": self.duplicate_outcomes, "outcomes after the horizon": self.too_late,
            "outcomes that contradict a released label": self.after_release,
            "outcomes that confirm one": self.agreed, "outcomes with an unknown id": self.unknown,
            "outcomes beyond max_held": self.overflow_outcomes, "calls with an earlier time": self.stale,
            "ids forgotten early": self.forgotten_early,
        }  # fmt: skip
        found = [f"{name} {count:,}" for name, count in odd.items() if count]
        return "\n".join([*lines, f"Also: {', '.join(found)}."] if found else lines)


@dataclass(frozen=True, eq=False)
class Released(Shown):
    """Predictions that :meth:`Ledger.advance` released, in the order in which they are to be learned.

    Attributes
    ----------
    ids
        Pairs of 8 bytes, as :func:`calibrant.live.read_ids` returns them.
    scores, labels, keys, at, versions
        One of each per row; of keys in several columns, one row. Text keys are an array of objects.
    silent
        Whether there was no outcome, so that the label is the negative that silence means.
    """

    ids: Ids
    scores: Floats
    labels: NDArray[np.int8]
    keys: NDArray[Any]
    at: Floats
    versions: Ints
    silent: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.scores)

    def __str__(self) -> str:
        """The counts."""
        events = plural(int((self.labels == 1).sum()), "event")
        return f"{plural(len(self), 'row')} released with {events}, {int(self.silent.sum()):,} by silence"


@dataclass(frozen=True)
class Correction:
    """An outcome that contradicts a released label: it belongs into tallies and later fits, not into what was learned.

    Attributes
    ----------
    id
        The 16 bytes of the id.
    score, key, at, version
        As they were registered.
    before, after
        The label that was released, None if the row was left out for lack of an outcome; and the label of the outcome.
    """

    id: bytes
    score: float
    key: int | str | tuple[int, ...]
    at: float
    version: int
    before: int | None
    after: int
