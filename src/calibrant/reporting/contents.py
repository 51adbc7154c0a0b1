"""All numbers of a report, computed once from the tallies; styles differ only in order and wording."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.credit.grades import GradeTable, grade_table
from calibrant.credit.low_default import pluto_tasche
from calibrant.credit.panel import LEVELS
from calibrant.credit.ranking import accuracy_ratio
from calibrant.credit.stability import concentration
from calibrant.displays import ReliabilityDisplay
from calibrant.displays.base import Display
from calibrant.guarantees.provenance import library_version
from calibrant.messages import Note
from calibrant.metrics.binary.bins import Bins
from calibrant.metrics.binary.cumulative import ecce
from calibrant.metrics.binary.curves.recalibration import CurveErrors, ici, recalibration
from calibrant.metrics.binary.decompositions import Decomposition, decompose
from calibrant.metrics.binary.errors import debiased_ece, ece, pde
from calibrant.metrics.binary.net_benefit import net_benefit
from calibrant.metrics.binary.scores import auc, brier, log_loss
from calibrant.metrics.binary.significance import Finding, debiased_l2_test, ecce_test, hosmer_lemeshow, spiegelhalter
from calibrant.metrics.binary.smooth import smooth_ece
from calibrant.metrics.chance import Chance, Units, units_of
from calibrant.metrics.estimates import Estimate
from calibrant.metrics.multiclass import scores as class_scores
from calibrant.metrics.variance import rate_interval
from calibrant.reporting.earlier import compare_with
from calibrant.reporting.figures import SMALLEST_SHARE, percent, share, span
from calibrant.tallies import Clusters, Tally
from calibrant.verdict.verdict import Verdict

MAX_BINS = 10
MIN_ROWS_PER_BIN = 20
"""Fewer than ten bins are made if ten would have fewer rows each than this."""

MAX_GRADES, MIN_ROWS_PER_GRADE = 20, 2
"""Up to this many distinct scores, with at least this many rows each on average, form one group each."""

LOSS_PARTS = ("miscalibration", "discrimination", "uncertainty", "loss")

BOOTSTRAP_SAMPLES, BOOTSTRAP_SAMPLES_LARGE, LARGE_SAMPLE = 200, 60, 100_000
"""Bootstrap samples of the curve, fewer for large samples, and the number of rows from which a sample is large."""

ODDS_MULTIPLES = 2.0 ** np.arange(-3, 4)
"""Thresholds of the decision curve, as multiples of the odds of the event."""


class GroupedBy(StrEnum):
    """How scores are grouped."""

    DISTINCT_SCORES = "distinct scores"
    EQUAL_MASS = "bins of equal mass"


@dataclass(frozen=True)
class Contents:
    """The contents of a report.

    Attributes
    ----------
    numbers
        All numbers as data for JSON; numbers that are not finite are None.
    verdict
        The verdict.
    notes_of
        Notes on each entry, by key of ``numbers`` and in the same order.
    """

    numbers: dict[str, Any]
    verdict: Verdict
    notes_of: Mapping[str, Sequence[tuple[Note, ...]]]


def gather(
    data: Tally | Clusters,
    verdict: Verdict,
    display: ReliabilityDisplay,
    random_state: int = 0,
    rows: MulticlassRows | None = None,
    class_display: Display | None = None,
    *,
    grade: str | None = None,
    meta: Mapping[str, str] | None = None,
    before: Mapping[str, float] | None = None,
    reference: tuple[Tally, dict[str, int]] | None = None,
) -> Contents:
    """Compute all numbers, the verdict and the notes; of several classes also from their ``rows``.

    ``grade`` is the column of segments that holds the grades, ``meta`` what the author states, ``before`` the rows and
    the predicted events before a map, ``reference`` an earlier sample and its rows by grade.

    Cost: O(cells) for most; simulations on at most 20,000 cells for the tests, on 1,000 for the bootstrap.

    Examples
    --------
    >>> from calibrant.verdict import check
    >>> tally = Tally.from_arrays([0.2] * 50 + [0.7] * 50, [0] * 40 + [1] * 45 + [0] * 15)
    >>> numbers = gather(tally, check(tally), ReliabilityDisplay.from_predictions(tally)).numbers
    >>> [group["label"] for group in numbers["groups"]], numbers["events"]
    (['20 %', '70 %'], 45.0)
    """
    tally = data.tally if isinstance(data, Clusters) else data
    bins, by_score = _bins(tally)
    groups = _groups(data, bins, by_score)
    scores = [metric(data) for metric in (brier, log_loss, auc)]
    decompositions = [decompose(tally, loss="brier"), decompose(tally, loss="log")]
    errors = _errors(tally, random_state, independent=tally is data)
    level = recalibration(data)
    curve, samples = _curve(data, random_state)
    tests = _tests(tally, random_state) if tally is data else []
    by_grade = None
    if tally.counts:
        by_grade = _grades(groups) if grade is None else _named_grades(verdict, grade)
    numbers = {
        "software": {"name": "Calibrant", "version": library_version()},
        "rows": float(tally.total),
        "events": float(tally.positives),
        "effective_rows": float(tally.effective_size),
        "counts": tally.counts,
        "cells": len(tally),
        "resolution": tally.resolution,
        "verdict": verdict.to_dict() | {"off_parts": _off_parts(verdict)},
        "groups_are": GroupedBy.DISTINCT_SCORES if by_score else GroupedBy.EQUAL_MASS,
        "groups": groups,
        "grade_column": grade,
        "grades": None if by_grade is None else by_grade.to_dict(),
        "upper_bounds": _upper_bounds(by_grade) if float(tally.positives) == 0.0 else None,
        "context": None if by_grade is None or verdict.notion is not None else _context(tally, by_grade),
        "reference": None if reference is None else compare_with(tally, by_grade, groups, *reference),
        "meta": {str(key): str(value) for key, value in (meta or {}).items()},
        "before": None if before is None else dict(before),
        "rows_in_group": _median_rows(data) if isinstance(data, Clusters) else None,
        "scores": [_score(estimate) for estimate in scores],
        "decompositions": [_parts(parts) for parts in decompositions],
        "errors": [estimate.to_dict() for estimate in errors],
        "recalibration": level.to_dict(),
        "curve": curve.to_dict() | {"bootstrap_samples": samples},
        "tests": [finding.to_dict() for finding in tests],
        "decisions": net_benefit(data, thresholds=_thresholds(tally)).to_dict(),
        "reliability": display.data,
        "class_losses": [] if rows is None else [_score(estimate) for estimate in _class_losses(rows)],
        "class_errors": None if class_display is None else class_display.data,
    }
    notes = {
        "scores": [estimate.notes for estimate in scores],
        "decompositions": [parts.notes for parts in decompositions],
        "errors": [estimate.notes for estimate in errors],
        "recalibration": [level.notes, curve.notes],
        "tests": [finding.notes for finding in tests],
    }
    return Contents(json.loads(json.dumps(numbers, allow_nan=False)), verdict, _each_once(verdict, notes))


def _each_once(verdict: Verdict, notes: dict[str, list[tuple[Note, ...]]]) -> dict[str, list[tuple[Note, ...]]]:
    """The notes without those that the verdict, or an earlier entry, has."""
    seen = [*verdict.hints, *verdict.notes]
    for entries in notes.values():
        for place, found in enumerate(entries):
            entries[place] = tuple(note for note in dict.fromkeys(found) if note not in seen)
            seen += entries[place]
    return notes


def _off_parts(verdict: Verdict) -> dict[str, list[int]]:
    """Positions of the segments and periods that are shown to be beyond the limit."""
    return {
        name: [place for place, each in enumerate(parts) if each.beyond]
        for name, parts in (("segments", verdict.segments), ("periods", verdict.periods))
    }


def _class_losses(rows: MulticlassRows) -> list[Estimate]:
    """Log loss, Brier score and accuracy of all classes."""
    labels = np.array(rows.classes, dtype=object)[rows.labels]
    given: dict[str, Any] = {"classes": rows.classes, "score_type": rows.score_type}
    return [
        metric(rows.scores, labels, rows.weights, **given)
        for metric in (class_scores.log_loss, class_scores.brier, class_scores.accuracy)
    ]


def _bins(tally: Tally) -> tuple[Bins, bool]:
    """Bins and whether they are distinct scores: one bin per score if these are few, otherwise bins of equal mass."""
    filled = int((tally.n > 0).sum())
    if filled <= MAX_GRADES and tally.effective_size >= MIN_ROWS_PER_GRADE * filled:
        return Bins.of(tally, strategy="distinct"), True
    size = min(max(int(tally.effective_size) // MIN_ROWS_PER_BIN, 2), MAX_BINS)
    return Bins.of(tally, strategy="mass", n_bins=size), False


def _groups(data: Tally | Clusters, bins: Bins, by_score: bool) -> list[dict[str, Any]]:
    """Predicted and observed events in each bin, the interval of the rate and the expected range.

    The interval is exact for independent rows of equal weight; otherwise it uses the effective sample size.
    """
    tally = data.tally if isinstance(data, Clusters) else data
    units = None if tally.counts else units_of(tally)
    found = []
    for cells in _cells_by_bin(tally, bins):
        scores, n = tally.scores[cells], np.asarray(tally.n[cells], dtype=np.float64)
        rows, events = float(n.sum()), float(tally.events[cells].sum())
        chance, (low, high) = _chance(data, cells, units), rate_interval(data, cells)
        ends = (float(scores[0]), float(scores[-1]))
        found.append(
            {
                "label": share(ends[0]) if by_score else _range(*ends),
                "from": ends[0],
                "to": ends[1],
                "rows": rows,
                "events": events,
                "predicted": chance.mean,
                "mean_score": chance.mean / rows,
                "rate": events / rows,
                "ratio": events / chance.mean if chance.mean > 0.0 else None,
                "low": low,
                "high": high,
                "chance": None if low is None else [end + 0.0 for end in chance.interval(0.95)],  # -0 becomes 0
            }
        )
    return found


def _chance(data: Tally | Clusters, cells: NDArray[np.bool_], units: Units | None) -> Chance:
    if isinstance(data, Clusters):
        return Chance.of(data.within(cells))
    return Chance(data.scores[cells], np.asarray(data.n[cells], dtype=np.float64), units=units)


def _median_rows(data: Clusters) -> float:
    return float(np.median(np.bincount(data.cluster, minlength=data.size)))


def _range(low: float, high: float) -> str:
    if low == high:
        return share(low)
    return f"up to {percent(high)}" if low < SMALLEST_SHARE else span(low, high, "percent")


def _cells_by_bin(tally: Tally, bins: Bins) -> list[NDArray[np.bool_]]:
    """Cells of the tally in each bin that has rows; the cells of a bin are adjacent."""
    n = np.asarray(tally.n, dtype=np.float64)
    place = np.searchsorted(np.cumsum(bins.n[bins.n > 0]), np.cumsum(n) - n / 2.0)
    return [(place == one) & (n > 0.0) for one in np.unique(place[n > 0.0])]


def _grades(groups: list[dict[str, Any]]) -> GradeTable:
    rows, events, score = ([group[key] for group in groups] for key in ("rows", "events", "mean_score"))
    return grade_table(rows, events, np.clip(score, 0.0, 1.0), names=[group["label"] for group in groups])


def _named_grades(verdict: Verdict, column: str) -> GradeTable:
    """The table of the grades in a column of segments, in the order of their mean score."""
    found = [part for part in verdict.segments if part.column == column]
    found.sort(key=lambda part: part.predicted / part.rows)
    pd = np.clip([part.predicted / part.rows for part in found], 0.0, 1.0)
    names = [str(part.value) for part in found]
    return grade_table([part.rows for part in found], [part.events for part in found], pd, names=names)


def _upper_bounds(table: GradeTable | None) -> dict[str, Any] | None:
    """Upper bounds of the rates of grades without any event, in the order of their mean score."""
    if table is None or not table.n.any():
        return None
    found = pluto_tasche(table.n, table.events, confidence=LEVELS)
    columns = {"names": list(table.names), "n": table.n.tolist(), "pd": table.pd.tolist()}
    return columns | {"levels": list(LEVELS), "bounds": found.tolist(), "no_event_p": table.at_most_p}


def _context(tally: Tally, table: GradeTable) -> dict[str, Any]:
    """Accuracy ratio, and concentration over the grades."""
    spread = concentration(table.n, names=table.names).to_dict() if table.n.any() else None
    return {"accuracy_ratio": accuracy_ratio(tally).to_dict(), "concentration": spread}


def _score(estimate: Estimate) -> dict[str, Any]:
    """A loss without what a calibrated model would show: that depends on the scores, so it is not a target."""
    shown = {key: value for key, value in estimate.to_dict().items() if not key.startswith("null")}
    return shown | {"infinite": math.isinf(estimate.value)}


def _parts(parts: Decomposition) -> dict[str, Any]:
    return parts.to_dict() | {"infinite": [key for key in LOSS_PARTS if math.isinf(getattr(parts, key))]}


def _errors(tally: Tally, random_state: int, *, independent: bool) -> list[Estimate]:
    """Calibration errors; their expected values under calibration are known only for independent rows."""
    found = [
        ece(tally, random_state=random_state),
        ece(tally, strategy="mass", random_state=random_state),
        debiased_ece(tally, random_state=random_state),
        pde(tally, random_state=random_state),
        smooth_ece(tally, random_state=random_state),
        ecce(tally),
    ]
    return found if independent else [Estimate(each.name, each.value, notes=each.notes) for each in found]


def _curve(data: Tally | Clusters, random_state: int) -> tuple[CurveErrors, int]:
    """Distances of the calibration curve, and the number of bootstrap samples for their standard errors."""
    rows = (data.tally if isinstance(data, Clusters) else data).effective_size
    samples = BOOTSTRAP_SAMPLES if rows < LARGE_SAMPLE else BOOTSTRAP_SAMPLES_LARGE
    return ici(data, repetitions=samples, random_state=random_state), samples


def _tests(tally: Tally, random_state: int) -> list[Finding]:
    found = [spiegelhalter(tally), ecce_test(tally, statistic="range", random_state=random_state)]
    if tally.counts:  # its null distribution does not cover importance weights
        found.append(debiased_l2_test(tally, random_state=random_state))
    return [*found, hosmer_lemeshow(tally)]


def _thresholds(tally: Tally) -> list[float]:
    """A few round thresholds around the base rate; half a row is added to each class to keep the rate inside (0, 1)."""
    odds = (float(tally.positives) + 0.5) / (float(tally.total - tally.positives) + 0.5) * ODDS_MULTIPLES
    return sorted(
        {_round(value) for value in np.clip(odds / (1.0 + odds), SMALLEST_SHARE, 1.0 - SMALLEST_SHARE).tolist()}
    )


def _round(value: float) -> float:
    """Round to one digit within 0.1 of 0 and 1, never onto them; otherwise to a multiple of 0.05."""
    nearest = min(value, 1.0 - value)
    return round(value, -math.floor(math.log10(nearest))) if nearest < 0.1 else round(20.0 * value) / 20.0
