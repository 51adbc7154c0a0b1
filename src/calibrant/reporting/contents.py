"""Every number of a report, computed once from the tallies; a style only orders and names them."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.displays import ReliabilityDisplay
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.guarantees.provenance import library_version
from calibrant.metrics.bins import Bins
from calibrant.metrics.chance import Chance
from calibrant.metrics.cumulative import ecce
from calibrant.metrics.decompositions import Decomposition, decompose
from calibrant.metrics.errors import debiased_ece, ece, pde
from calibrant.metrics.estimates import Estimate
from calibrant.metrics.grades import grade_table
from calibrant.metrics.recalibration import ici, recalibration
from calibrant.metrics.scores import auc, brier, log_loss, net_benefit
from calibrant.metrics.significance import debiased_l2_test, ecce_test, hosmer_lemeshow, spiegelhalter
from calibrant.metrics.smooth import smooth_ece
from calibrant.numerics import Floats
from calibrant.reporting.figures import LEAST, percent, share, span
from calibrant.tallies import Tally
from calibrant.verdict.verdict import Verdict

BINS = 10
ROWS_PER_BIN = 20
"""Fewer bins are made where ten would hold fewer rows than this."""

MOST_GRADES, ROWS_PER_GRADE = 20, 2
"""Up to this many distinct scores, with this many rows each on average, every score is a group of its own."""

LOSS_PARTS = ("miscalibration", "discrimination", "uncertainty", "loss")

SAMPLES, SAMPLES_OF_MANY, MANY = 200, 60, 100_000
"""Bootstrap samples of the curve, and fewer from this many rows on: its standard error is then small in any case."""

ODDS = 2.0 ** np.arange(-3, 4)
"""Thresholds of the decision curve, as multiples of the odds of the event."""


def gather(tally: Tally, verdict: Verdict, display: ReliabilityDisplay, random_state: int = 0) -> dict[str, Any]:
    """All numbers as plain data, ready for JSON; what is not finite is None.

    Cost: O(cells) for most; simulations on at most 20,000 cells for the tests, on 1,000 for the bootstrap.

    Examples
    --------
    >>> from calibrant.verdict import check
    >>> tally = Tally.from_arrays([0.2] * 50 + [0.7] * 50, [0] * 40 + [1] * 45 + [0] * 15)
    >>> numbers = gather(tally, check(tally), ReliabilityDisplay.from_predictions(tally))
    >>> [group["label"] for group in numbers["groups"]], numbers["events"]
    (['20 %', '70 %'], 45.0)
    """
    bins, by_score = _bins(tally)
    groups = _groups(tally, bins, by_score, verdict.inflation if verdict.clusters else 1.0)
    numbers = {
        "software": {"name": "Calibrant", "version": library_version()},
        "rows": float(tally.total),
        "events": float(tally.positives),
        "effective_rows": float(tally.effective_size),
        "counts": tally.counts,
        "cells": len(tally),
        "resolution": tally.resolution,
        "verdict": verdict.to_dict() | {"off_parts": _off_parts(verdict)},
        "groups_are": "distinct scores" if by_score else "bins of equal mass",
        "groups": groups,
        "grades": _grades(groups) if tally.counts else None,
        "scores": [_score(metric(tally)) for metric in (brier, log_loss, auc)],
        "decompositions": [_parts(decompose(tally, loss=loss)) for loss in ("brier", "log")],
        "errors": _errors(tally, random_state),
        "recalibration": recalibration(tally).to_dict(),
        "curve": _curve(tally, random_state),
        "tests": _tests(tally, random_state),
        "decisions": net_benefit(tally, thresholds=_thresholds(tally)).to_dict(),
        "reliability": display.data,
    }
    plain: dict[str, Any] = json.loads(json.dumps(numbers, allow_nan=False))
    return plain


def _off_parts(verdict: Verdict) -> dict[str, list[int]]:
    """Places, in the lists of segments and periods, of those that are off by more than chance and tolerance."""
    return {
        "segments": [place for place, each in enumerate(verdict.segments) if each in verdict.off_segments],
        "periods": [place for place, each in enumerate(verdict.periods) if each in verdict.off_periods],
    }


def _bins(tally: Tally) -> tuple[Bins, bool]:
    """Each distinct score, where these are few, else bins of equal mass; and which of both."""
    filled = int((tally.n > 0).sum())
    if filled <= MOST_GRADES and tally.effective_size >= ROWS_PER_GRADE * filled:
        return Bins.of(tally, strategy="distinct"), True
    size = min(max(int(tally.effective_size) // ROWS_PER_BIN, 2), BINS)
    return Bins.of(tally, strategy="mass", n_bins=size), False


def _groups(tally: Tally, bins: Bins, by_score: bool, inflation: float) -> list[dict[str, Any]]:
    """Predicted and happened in each bin, the interval of the rate and what chance gives.

    The interval is exact for rows that count alike and are independent, and else that of the effective counts.
    """
    kept = bins.n > 0
    size = np.minimum(bins.effective_n[kept], bins.n[kept] / inflation)
    rate = np.clip(bins.rate[kept], 0.0, 1.0)
    low, high = clopper_pearson(rate * size, size, 0.05)
    low, high = np.minimum(low, rate), np.maximum(high, rate)  # of less than one event its ends may not hold the rate
    found = []
    for place, (scores, n, w2) in enumerate(_cells_by_bin(tally, bins)):
        rows, events = float(bins.n[kept][place]), float(bins.events[kept][place])
        chance = Chance(scores, n, inflation, None if tally.counts else w2)
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
                "low": float(low[place]),
                "high": float(high[place]),
                "chance": [end + 0.0 for end in chance.interval(0.95)],  # -0 becomes 0
            }
        )
    return found


def _range(low: float, high: float) -> str:
    if low == high:
        return share(low)
    return f"up to {percent(high)}" if low < LEAST else span(low, high, "percent")


def _cells_by_bin(tally: Tally, bins: Bins) -> list[tuple[Floats, Floats, Floats]]:
    """Scores, rows and squared weights of the cells of each bin that has rows; cells of a bin are neighbours."""
    some = tally.n > 0
    scores, n = tally.scores[some], np.asarray(tally.n[some], dtype=np.float64)
    w2 = n if tally.cells.w2 is None else tally.cells.w2[some]
    place = np.searchsorted(np.cumsum(bins.n[bins.n > 0]), np.cumsum(n) - n / 2.0)
    cuts: NDArray[np.intp] = np.flatnonzero(np.diff(place)) + 1
    return list(zip(np.split(scores, cuts), np.split(n, cuts), np.split(w2, cuts), strict=True))


def _grades(groups: list[dict[str, Any]]) -> dict[str, Any]:
    rows, events, score = ([group[key] for group in groups] for key in ("rows", "events", "mean_score"))
    return grade_table(rows, events, np.clip(score, 0.0, 1.0), names=[group["label"] for group in groups]).to_dict()


def _score(estimate: Estimate) -> dict[str, Any]:
    return estimate.to_dict() | {"infinite": math.isinf(estimate.value)}


def _parts(parts: Decomposition) -> dict[str, Any]:
    return parts.to_dict() | {"infinite": [key for key in LOSS_PARTS if math.isinf(getattr(parts, key))]}


def _errors(tally: Tally, random_state: int) -> list[dict[str, Any]]:
    found = (
        ece(tally, random_state=random_state),
        ece(tally, strategy="mass", random_state=random_state),
        debiased_ece(tally, random_state=random_state),
        pde(tally, random_state=random_state),
        smooth_ece(tally, random_state=random_state),
        ecce(tally),
    )
    return [estimate.to_dict() for estimate in found]


def _curve(tally: Tally, random_state: int) -> dict[str, Any]:
    samples = SAMPLES if tally.effective_size < MANY else SAMPLES_OF_MANY
    return ici(tally, repetitions=samples, random_state=random_state).to_dict() | {"bootstrap_samples": samples}


def _tests(tally: Tally, random_state: int) -> list[dict[str, Any]]:
    found = [spiegelhalter(tally), ecce_test(tally, kind="range", random_state=random_state)]
    if tally.counts:  # its null says nothing of importance weights
        found.append(debiased_l2_test(tally, random_state=random_state))
    return [finding.to_dict() for finding in (*found, hosmer_lemeshow(tally))]


def _thresholds(tally: Tally) -> list[float]:
    """A few round thresholds about the base rate, where decisions are: half a row on either side keeps it inside."""
    odds = (float(tally.positives) + 0.5) / (float(tally.total - tally.positives) + 0.5) * ODDS
    return sorted({_round(value) for value in np.clip(odds / (1.0 + odds), LEAST, 1.0 - LEAST).tolist()})


def _round(value: float) -> float:
    """To one digit within 0.1 of 0 and 1, so never onto them, and else to a multiple of 0.05."""
    nearest = min(value, 1.0 - value)
    return round(value, -math.floor(math.log10(nearest))) if nearest < 0.1 else round(20.0 * value) / 20.0
