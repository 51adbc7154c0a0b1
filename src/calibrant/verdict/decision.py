"""Which of the three states, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import InputError
from calibrant.tallies import Tally
from calibrant.verdict.evidence import Evidence
from calibrant.verdict.inflation import FEWEST_CLUSTERS, cluster_inflation, weight_inflation
from calibrant.verdict.likelihood import Box, Comparison, Likelihood, compare_with_box, critical_value
from calibrant.verdict.outlook import more_labels
from calibrant.verdict.shape import Misfit, worst_misfit
from calibrant.verdict.verdict import State

TOLERANCE = (0.2, 0.2)
INSIDE = 0.95
"""Confidence of the region that must lie within the tolerance before a model is called calibrated."""

ALPHA_REGION, ALPHA_SHAPE = 0.04, 0.01
"""How the 5 % chance of calling a tolerable model miscalibrated is shared between the two ways to be so."""

MOST_CELLS = 1 << 16


@dataclass(frozen=True)
class Decision:
    """The state and what it rests on; the fields that :class:`Verdict` shares are described there."""

    state: State
    likelihood: Likelihood
    box: Box
    comparison: Comparison | None
    """None with one class only."""
    misfit: Misfit | None
    by_region: bool
    off: bool
    at_ends: tuple[float, float]
    only_ends: bool
    inflation: float
    clusters: int | None
    more_labels: int | None


def decide(evidence: Evidence, tolerance: tuple[float, float] = TOLERANCE) -> Decision:
    """Compare the likelihood region of shift and stretch with the tolerance, and tails with what it explains."""
    box_shift, box_stretch = check_tolerance(tolerance)
    tally = evidence.tally
    if len(tally) > MOST_CELLS and tally.resolution == "exact":
        tally = tally.coarsen(10)
    likelihood = Likelihood(tally)
    box = Box(box_shift, box_stretch / min(likelihood.spread, 1.0) if likelihood.spread > 0.0 else np.inf)
    clusters = None if evidence.clusters is None else _count(len(evidence.clusters))
    comparison = compare_with_box(likelihood, box) if 0 < tally.positives < tally.total else None
    inflation = weight_inflation(tally, likelihood)
    if comparison is not None and evidence.clusters is not None:
        inflation = cluster_inflation(evidence.clusters, likelihood, comparison.best)
    parameters = 1 if likelihood.spread == 0.0 else 2
    inside = critical_value(INSIDE, parameters, clusters) * inflation
    outside = critical_value(1.0 - ALPHA_REGION, parameters, clusters) * inflation
    misfit = worst_misfit(likelihood, box, evidence.clusters)
    at_ends, only_ends = _at_ends(tally), bool(np.isin(tally.scores, (0.0, 1.0)).all())
    state: State = "cannot tell"
    by_region = off = False
    if comparison is None or misfit is None or misfit.p_value > ALPHA_SHAPE:
        misfit = None
    if comparison is not None:
        by_region = comparison.to_box > outside
        off = likelihood.deviance(0.0, 0.0) - comparison.best.deviance > inside
        if by_region or misfit is not None or (only_ends and any(at_ends)):
            state = "miscalibrated"
        elif box.holds(comparison.best) and comparison.to_edge > inside:
            state = "calibrated"
    needed = None
    if state == "cannot tell" and not only_ends:
        needed = more_labels(likelihood, box, comparison, inside / inflation, outside / inflation, inflation)
    return Decision(
        state, likelihood, box, comparison, misfit, by_region, off, at_ends, only_ends, inflation, clusters, needed
    )


def check_tolerance(tolerance: tuple[float, float]) -> tuple[float, float]:
    """Two positive numbers, or one sentence."""
    pair = np.asarray(tolerance, dtype=np.float64)
    if pair.shape != (2,) or not (np.isfinite(pair).all() and (pair > 0.0).all()):
        raise InputError(f"tolerance must be two positive numbers, for intercept and slope, got {tolerance!r}")
    return float(pair[0]), float(pair[1])


def _count(clusters: int) -> int:
    if clusters < FEWEST_CLUSTERS:
        raise InputError(f"groups has {clusters} clusters: at least {FEWEST_CLUSTERS} are needed to see their spread")
    return clusters


def _at_ends(tally: Tally) -> tuple[float, float]:
    """Events at a score of exactly 0, and non-events at exactly 1."""
    scores = tally.scores
    zero, one = scores == 0.0, scores == 1.0
    return float(tally.events[zero].sum()), float((tally.n[one] - tally.events[one]).sum())
