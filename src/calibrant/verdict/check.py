"""Is it calibrated? One of four answers, in words and counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Kind
from calibrant.messages import Note, Voice, note
from calibrant.metrics.binary.likelihood import Parameter
from calibrant.metrics.binary.scores import auc
from calibrant.metrics.chance import Units, units_of
from calibrant.tallies import Tally, end_notes, ends_at
from calibrant.verdict.decision import TOLERANCE, decide, physical_rows
from calibrant.verdict.evidence import Evidence, overlap_unknown
from calibrant.verdict.figures import amount
from calibrant.verdict.gain import crossfitted_gain
from calibrant.verdict.reading import read_evidence
from calibrant.verdict.segments import Segment, scan_segments
from calibrant.verdict.verdict import Number, Verdict

UNSEEN = 0.002
"""A relative difference between two sums of predicted events that no printed digit shows."""


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
    clamp: float | None = None,
    random_state: int = 0,
) -> Verdict:
    r"""Whether probabilities mean what they say: calibrated, miscalibrated, off, or cannot tell yet.

    Two questions are answered. *Is there evidence against calibration?* Three tests look at the level (predicted
    against observed events, at 2 %), the slope of the log-odds (at 2 %) and ranges of the scores (at 1 %). *Is the
    model within the tolerance?* Intervals of level and slope, and ranges of the scores, are compared with it.

    - *calibrated*: the 95 % intervals of level and slope lie within the tolerance;
    - *miscalibrated*: the 98 % interval of one of them lies beyond it, or events in a range of the scores are beyond
      what any tolerated model explains, at 1 %; so are scores of 0 and 1 only that labels contradict;
    - *off*: there is evidence against calibration, and neither of these is shown;
    - *cannot tell*: none of these. One class only, and fewer than ten groups of dependent rows, are always this.

    For the last two, :attr:`Verdict.more_labels` says about how many more labels would settle it in about nine of ten
    samples, if level and slope are what they seem.

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
        Group of dependent rows that each row belongs to (patient, hospital, question): each number then has the
        variance that groups give it, corrected for few of them; see :func:`calibrant.metrics.variance.spread_of`. A
        frame that is too large for memory is counted in 200 hash buckets of the groups. Groups of one row each change
        nothing.
    weights
        Importance weights enter by the sandwich variance, so that they may depend on the label, as those of a
        down-sampled log do; ``"counts"`` are repetition.
    calibration
        A fitted calibrator, a :class:`Calibration` or a map: the verdict is then about the probabilities that it makes
        of ``scores``, which are what it was fitted on. If it was fitted to the rows that are judged, the verdict says
        so first (``in_sample``). A calibrator that was fitted to all of them is cross-fitted, and the verdict is about
        that; else the grade *calibrated* is withheld.
    tolerance
        What level and slope may be off by. The default, 0.2 each, is odds within a factor of 1.22 (5 points at
        50 %, a fifth of the events when they are rare) and a slope between 0.8 and 1.2, limits that validation studies
        of clinical and credit models commonly accept; tighten it when decisions are finer. Where the log-odds of the
        scores spread by less than 1 (root mean square about their middle), the slope's tolerance is divided by that
        spread: a slope of nearly equal scores moves the typical one by no more than the level's tolerance.
    clamp
        Level and slope are of the log-odds of scores clipped to [clamp, 1 - clamp]. By default only scores of exactly 0
        and 1 are moved, to half the distance of the nearest other score, and a note counts them.

    Returns
    -------
    Verdict
        Prints itself in words; ``.state``, ``.to_dict()`` and HTML in a notebook. It has no truth value.

    Notes
    -----
    Error rates: at most 5 % of calibrated models are called off or miscalibrated (2 + 2 + 1 %), at most 5 % of
    tolerable ones miscalibrated, and at most 5 % of models beyond the tolerance calibrated. ``benchmarks/verdict.py``
    simulates each, from n = 100 on at base rates down to 0.5 % and with 10 to 200 unequal groups. Guarantee:
    finite-sample for the test of the level and of ranges on independent rows that count alike; asymptotic for intervals
    of level and slope (profile likelihood), and for all of it with weights and groups. More than 65,536 rows are
    counted on a grid of 65,536 cells, a frame of that size by the engine that holds it. Fitted rows are known again by
    a sketch of 64 of them, or by the fingerprint of all, unless scores are tied or on a grid, which is then said; a
    false alarm needs scores that are rounded, and is then rarer than one in a thousand
    (:mod:`calibrant.guarantees.overlap`, ``tests/statistical/test_overlap.py``). In a frame that is too large to bring
    into memory they are not looked for, and neither are copies of rows, which are noted otherwise
    (:mod:`calibrant.tallies.repeats`). Cost: one pass over the rows, in a large frame one for each segment column, for
    time and for groups; then O(cells).

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
    return judge(evidence if clamp is None else evidence.with_ends(ends_at(clamp)), tolerance)


def judge(evidence: Evidence, tolerance: tuple[float, float] = TOLERANCE) -> Verdict:
    """The verdict on tallies that have been taken already."""
    decision, tally, seen = decide(evidence, tolerance), evidence.tally, evidence.seen
    level, slope = decision.parameters.level, decision.parameters.slope
    notes = (*evidence.notes, *_read_notes(tally, decision.chance.mean))
    if seen.unseen is not None:
        notes += (overlap_unknown(seen.unseen),)
    in_sample = None if seen.share is None else seen.share > 0.0
    withheld = bool(in_sample) and not seen.crossfitted and decision.state != "miscalibrated"
    rows = physical_rows(tally)
    units = None if tally.counts else units_of(tally)
    shown = not decision.few_groups
    return Verdict(
        state="cannot tell" if withheld else decision.state,
        against=decision.against,
        beyond=decision.beyond,
        rows=float(tally.total),
        events=float(tally.positives),
        row_count=rows,
        counts=tally.counts,
        predicted=decision.chance.mean,
        expected=decision.chance.interval(0.95),
        level=_number(level, 0.0, decision.against.level) if shown else None,
        slope=_number(slope, 1.0, decision.against.slope) if shown else None,
        tolerance=(decision.tolerance.level, decision.tolerance.slope),
        only_ends=decision.only_ends,
        gain=None if level is None else crossfitted_gain(evidence.folds),
        forward=evidence.folds.forward,
        more_labels=None if withheld else decision.more_labels,
        segments=scan_segments(evidence.segments, evidence.parts, units) if evidence.segments else (),
        periods=_periods(evidence, units),
        groups=evidence.groups,
        few_groups=decision.few_groups,
        effective_rows=rows if level is None else float(tally.total) / level.scale,
        ranking=None if level is None else auc(tally).value,
        at_ends=decision.at_ends,
        notes=notes,
        in_sample=in_sample,
        overlap=seen.share,
        crossfitted=seen.crossfitted,
    )


@note("log-odds-predict")
def log_odds_predict(voice: Voice, events: float) -> str:
    """Log-odds of scores of exactly 0 and 1 that change the number of predicted events."""
    return f"level and slope are about these log-odds, which predict {amount(events)} {voice.nouns.events} in all"


def _read_notes(tally: Tally, predicted: float) -> tuple[Note, ...]:
    """How log-odds read scores of exactly 0 and 1, and how many events that predicts where it makes a difference."""
    notes = end_notes(tally)
    read = float((tally.n * np.clip(tally.scores, *tally.ends)).sum())
    if not notes or abs(read - predicted) <= UNSEEN * min(predicted, float(tally.total) - predicted):
        return notes
    return (*notes, log_odds_predict(read))


def _number(parameter: Parameter | None, ideal: float, p_value: float) -> Number | None:
    return None if parameter is None else Number(parameter.value, *parameter.interval(0.95), parameter.se, p_value)


def _periods(evidence: Evidence, units: Units | None) -> tuple[Segment, ...]:
    """Periods in their order, named by their first and last timestamp."""
    if evidence.periods is None:
        return ()
    scanned = scan_segments({"time": evidence.periods}, evidence.period_parts, units)
    found = sorted(scanned, key=lambda period: period.value)
    ends = evidence.period_ends
    return tuple(replace(each, value=_stretch(each.value, ends.get(each.value, each.value))) for each in found)


def _stretch(first: Any, last: Any) -> str:
    return _moment(first) if first == last else f"{_moment(first)} to {_moment(last)}"


def _moment(value: Any) -> str:
    """A moment as people write it: midnight is a day."""
    midnight = isinstance(value, datetime) and value.time() == datetime.min.time()
    return str(value.date() if midnight else value)
