"""Is it calibrated? One of three answers, in words and counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Kind
from calibrant.metrics.chance import Chance
from calibrant.metrics.scores import auc
from calibrant.verdict.decision import TOLERANCE, Decision, decide
from calibrant.verdict.evidence import Evidence
from calibrant.verdict.gain import crossfitted_gain
from calibrant.verdict.likelihood import Likelihood, critical_value
from calibrant.verdict.reading import read_evidence
from calibrant.verdict.segments import Segment, scan_segments
from calibrant.verdict.verdict import Parameter, Verdict

SEPARATED = "the scores separate the classes: no finite level and slope are most likely"
UNKNOWN = 30.0
"""A standard error beyond this means that the likelihood has no peak."""

FARTHEST = 100.0
"""An interval that reaches beyond this is open."""


def check(
    scores: Any,
    y: ArrayLike | None = None,
    sample_weight: Any = None,
    *,
    score: str | None = None,
    label: str | None = None,
    by: Any = None,
    time: Any = None,
    groups: Any = None,
    weights: Literal["importance", "counts"] = "importance",
    positive: Any = None,
    kind: Kind | None = None,
    calibration: Any = None,
    tolerance: tuple[float, float] = TOLERANCE,
    random_state: int = 0,
) -> Verdict:
    r"""Whether probabilities mean what they say: calibrated, miscalibrated, or cannot tell yet.

    The log-odds of the event are modelled as :math:`x + a + (b - 1)(x - c)`, where :math:`x` are the scores' log-odds
    and :math:`c` their middle: intercept :math:`a = 0` and slope :math:`b = 1` for a calibrated model.

    - *calibrated*: the joint 95 % likelihood region of intercept and slope lies inside the tolerance;
    - *miscalibrated*: the 96 % region lies wholly outside it, or events in a tail or a stretch of the scores are beyond
      what any tolerated model explains, at 1 %; so are scores of 0 and 1 only that labels contradict;
    - *cannot tell*: neither; then about how many more labels would probably settle it, if the model is calibrated or
      off by twice the tolerance (near the tolerance it takes more, and no number may do). One class only is always
      this.

    Parameters
    ----------
    scores, y, sample_weight
        Probabilities, labels and weights; or a frame, with the names of its columns in ``score``, ``label`` and, where
        they are used, ``sample_weight``, ``by``, ``time`` and ``groups``; or a :class:`Tally` alone; or a
        :class:`GroupedTally`, whose groups are the segments. Log-odds are recognised in arrays; say ``kind="logit"``.
    by
        Segments to look at one by one: a column, or a mapping of names to columns.
    time
        When each row was: the table then goes by period, and the gain from recalibration is measured walking forward.
        Rows are still taken as independent given their scores.
    groups
        Cluster of each row (patient, customer): regions are widened by the sandwich variance over 200 hash buckets.
    weights
        Importance weights count by their effective size; ``"counts"`` are repetition.
    calibration
        A fitted calibrator, a :class:`Calibration` or a map: the verdict is then about the probabilities that it makes
        of ``scores``, which are what it was fitted on. If it was fitted to the rows that are judged, the verdict says
        so first (``in_sample``). A calibrator that was fitted to all of them is cross-fitted, and the verdict is about
        that; else the grade *calibrated* is withheld.
    tolerance
        What intercept and slope may be off by. The default, 0.2 each, is odds within a factor of 1.22 (5 points at
        50 %, a fifth of the events when they are rare) and a slope between 0.8 and 1.2, limits that validation studies
        of clinical and credit models commonly accept; tighten it when decisions are finer. Where the log-odds of the
        scores spread by less than 1 (root mean square about their middle), the slope's tolerance is divided by that
        spread: a stretch of nearly equal scores moves the typical one by no more than the intercept's tolerance.

    Returns
    -------
    Verdict
        Prints itself in words; ``.state``, ``.to_dict()`` and HTML in a notebook.

    Notes
    -----
    Guarantee: asymptotic for the region (likelihood ratio, checked by simulation from n = 100 on at base rates down to
    0.5 %), finite-sample for the tail test on independent rows that count alike, approximate with weights and groups.
    More than 131,072 rows are counted on a grid of 65,536 cells, a frame of that size by the engine that holds it.
    Fitted rows are known again by a sketch of 64 of them, or by the fingerprint of all, unless scores are heaped or on
    a grid, which is then told; a false alarm needs scores that are rounded, and is then rarer than one in a thousand
    (:mod:`calibrant.guarantees.overlap`, ``tests/statistical/test_overlap.py``). In a frame that is too large to bring
    into memory they are not looked for.
    Cost: one pass over the rows, in a large frame one for each segment column, for time and for groups; then O(cells).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> p = rng.beta(2, 8, size=5000)
    >>> check(p, rng.random(5000) < p).state
    'calibrated'
    >>> check(p, rng.random(5000) < 0.6 * p).state
    'miscalibrated'
    """
    evidence = read_evidence(
        scores,
        y,
        sample_weight,
        score=score,
        label=label,
        by=by,
        time=time,
        groups=groups,
        weights=weights,
        positive=positive,
        kind=kind,
        random_state=random_state,
        calibration=calibration,
    )
    return judge(evidence, tolerance)


def judge(evidence: Evidence, tolerance: tuple[float, float] = TOLERANCE) -> Verdict:
    """The verdict on tallies that have been taken already."""
    decision, tally = decide(evidence, tolerance), evidence.tally
    inflation, clusters, both = decision.inflation, decision.clusters, decision.comparison is not None
    chance = Chance.of(tally, inflation if clusters else 1.0)
    level, slope = _parameter(decision, 0), _parameter(decision, 1) if decision.likelihood.spread > 0.0 else None
    notes = evidence.notes
    if any(each is not None and each.se > UNKNOWN for each in (level, slope)):
        notes, level, slope = (*notes, SEPARATED), None, None
    seen = evidence.seen
    notes = (*notes, seen.unseen) if seen.unseen else notes
    in_sample = None if seen.share is None else seen.share > 0.0
    withheld = bool(in_sample) and not seen.crossfitted and decision.state != "miscalibrated"
    return Verdict(
        state="cannot tell" if withheld else decision.state,
        rows=float(tally.total),
        events=float(tally.positives),
        counts=tally.counts,
        predicted=chance.mean,
        chance=chance.interval(0.95),
        intercept=level,
        slope=slope,
        center=decision.likelihood.center,
        tolerance=(decision.box.shift, decision.box.stretch),
        misfit=decision.misfit,
        by_region=decision.by_region,
        off=decision.off,
        only_ends=decision.only_ends,
        gain=crossfitted_gain(evidence.folds, forward=evidence.forward, inflation=inflation) if both else None,
        forward=evidence.forward,
        more_labels=None if withheld else decision.more_labels,
        segments=scan_segments(evidence.segments, evidence.spreads) if evidence.segments else (),
        periods=_periods(evidence),
        inflation=inflation,
        clusters=clusters,
        groups=evidence.groups,
        ranking=auc(tally).value if both else None,
        at_ends=decision.at_ends,
        notes=notes,
        in_sample=in_sample,
        overlap=seen.share,
        crossfitted=seen.crossfitted,
    )


def _parameter(decision: Decision, which: int) -> Parameter | None:
    """Estimate of intercept (0) or slope (1) and the ends of its own 95 % profile-likelihood interval."""
    if decision.comparison is None:
        return None
    likelihood, best, inflation = decision.likelihood, decision.comparison.best, decision.inflation
    value = best.shift if which == 0 else best.stretch
    limit = float(np.sqrt(critical_value(0.95, 1, decision.clusters) * inflation))
    covariance = np.linalg.pinv(likelihood.information(best.shift, best.stretch)) * inflation
    se = float(np.sqrt(max(covariance[which, which], 0.0)))
    ends = [_profile_end(likelihood, which, value, sign * max(se, 1e-3), best.deviance, limit) for sign in (-1.0, 1.0)]
    offset = float(which)  # the slope is one more than the stretch
    return Parameter(value + offset, ends[0] + offset, ends[1] + offset, se)


def _profile_end(likelihood: Likelihood, which: int, value: float, step: float, best: float, limit: float) -> float:
    """Where the root of the profile deviance passes ``limit``, walking from the estimate by standard errors."""

    def profile(at: float) -> float:
        if likelihood.spread == 0.0:
            return likelihood.deviance(at, 0.0)
        return (likelihood.best(shift=at) if which == 0 else likelihood.best(stretch=at)).deviance

    near, far = value, value + 2.0 * step
    while (above := np.sqrt(max(profile(far) - best, 0.0)) - limit) < 0.0:
        near, far, step = far, far + 2.0 * step, 2.0 * step
        if abs(near) > FARTHEST:
            return float(np.copysign(np.inf, step))
    below = -limit if near == value else np.sqrt(max(profile(near) - best, 0.0)) - limit
    for _ in range(4):  # the root of a profile deviance is nearly straight, so the secant lands at once
        middle = near + (far - near) * below / (below - above)
        there = np.sqrt(max(profile(middle) - best, 0.0)) - limit
        near, below, far, above = (near, below, middle, there) if there >= 0.0 else (middle, there, far, above)
    end = float(near + (far - near) * below / (below - above))
    return end if abs(end) <= FARTHEST else float(np.copysign(np.inf, step))


def _periods(evidence: Evidence) -> tuple[Segment, ...]:
    """Stretches of time in their order, named by their first and last moment."""
    if evidence.periods is None:
        return ()
    found = sorted(scan_segments({"time": evidence.periods}, evidence.period_spreads), key=lambda period: period.value)
    ends = evidence.period_ends
    return tuple(replace(each, value=_stretch(each.value, ends.get(each.value, each.value))) for each in found)


def _stretch(first: Any, last: Any) -> str:
    return _moment(first) if first == last else f"{_moment(first)} to {_moment(last)}"


def _moment(value: Any) -> str:
    """A moment as people write it: midnight is a day."""
    midnight = isinstance(value, datetime) and value.time() == datetime.min.time()
    return str(value.date() if midnight else value)
