"""Check whether predicted probabilities are calibrated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.labels import LabelType
from calibrant.arrays.rows import labels_as_fractions
from calibrant.arrays.score_types import MulticlassScoreType, ScoreType
from calibrant.maps import LogitAffineMap
from calibrant.messages import Argument, InputError, Note, Phrase, Voice, note
from calibrant.metrics.binary.curves.likelihood import Parameter
from calibrant.metrics.binary.scores import auc
from calibrant.metrics.chance import Units, units_of
from calibrant.metrics.curve import CurveError
from calibrant.metrics.tolerance import LIMIT, Limits
from calibrant.reading import read
from calibrant.tallies import GroupedTally, Tally, end_notes, ends_at
from calibrant.verdict.decision import Decision, adjusted, decide, joint_status
from calibrant.verdict.discovery import Region, find_region
from calibrant.verdict.event_names import EventName, event_names
from calibrant.verdict.figures import amount
from calibrant.verdict.gain import confidence_gains, crossfitted_gain
from calibrant.verdict.input.evidence import Evidence, as_probabilities, overlap_unknown, physical_rows
from calibrant.verdict.multiclass.classes import AskedNotion, Problems, read_problems
from calibrant.verdict.segments import Segment, scan_segments
from calibrant.verdict.verdict import Curve, Number, Verdict

NEGLIGIBLE_DIFFERENCE = 0.002
"""Relative difference of two sums of predicted events below which no note is given."""


def check(
    scores: Any,
    y: ArrayLike | None = None,
    sample_weight: Any = None,
    *,
    score: str | Sequence[str] | None = None,
    label: str | Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    notion: AskedNotion | None = None,
    by: Any = None,
    time: Any = None,
    groups: Any = None,
    weight_type: Literal["importance", "frequency"] = "importance",
    positive: Any = None,
    score_type: ScoreType | MulticlassScoreType | None = None,
    label_type: LabelType = "class",
    calibration: Any = None,
    tolerance: float | tuple[float, float] = LIMIT,
    clamp: float | None = None,
    discover: Any = None,
    event: EventName | None = None,
    random_state: int = 0,
) -> Verdict:
    r"""Check whether predicted probabilities are calibrated: yes, no, significantly off, or cannot tell yet.

    The scores are cut into 5 to 50 ranges, fixed without the labels, and one number says how far the observed rates are
    from the mean scores there: the error of the curve, a root mean square in log-odds
    (:class:`~calibrant.metrics.curve.CurveError`). It is compared with a limit, which is taken literally. The status is

    - *calibrated*: the error is shown to be within the limit (moderate calibration, at the resolution that is printed);
    - *miscalibrated*: it is shown to be beyond the limit. Scores that are only 0 and 1 and that labels contradict are
      miscalibrated too;
    - *off*: chance is excluded, by the number of events, the slope of the log-odds or a range of the scores, each at
      1 %, and whether the error is beyond the limit is not settled: recalibrate;
    - *cannot tell*: none of the above: collect labels. This is always the status with only one class, or with fewer
      than ten groups of dependent rows. :attr:`Verdict.rung` then says whether the fitted line, or the mean, is shown
      to be within the limit.

    The headline reports the worst that is shown, at most two findings (:attr:`Verdict.findings`): an average hides a
    range of scores, a segment or a region that is beyond the limit, and so "calibrated overall, but ..." is said.

    Parameters
    ----------
    scores, y, sample_weight
        Probabilities, labels and weights; or a frame, with the names of its columns in ``score``, ``label`` and, where
        they are used, ``sample_weight``, ``by``, ``time`` and ``groups``; or a :class:`Tally` alone; or a
        :class:`GroupedTally`, whose groups are the segments. Log-odds in arrays are detected; it is safer to pass
        ``score_type="logit"``. For several classes: a matrix or a frame with one column of probabilities or logits per
        class, and the class of each row. Two columns give the verdict on the second. A matrix of labels 0 and 1 is a
        multi-label target, with one column of scores per label.
    score, label
        Names of the columns of scores and labels, if ``scores`` is a frame; a list of names for several classes or
        labels.
    classes
        Several classes: the labels in the order of the columns. By default the names of the columns of a frame, also
        without a common beginning such as ``p_``, or the sorted labels of an array.
    notion
        Three classes or more: what the status is about. ``"confidence"``, the default: the probability of the predicted
        class, whichever it is, against how often that class is right; :attr:`Verdict.classes` then tells which classes
        are off. ``"class-wise"``: the probability of every class against its frequency. ``"top-label"``: the confidence
        among the rows of each predicted class. With the last two the status is that of all classes together: calibrated
        if every class is, miscalibrated or off if one is, adjusted for the number of classes.
    by
        Segments: a column, or its name in the frame; or several names, which are tested by the cells that they form,
        while :meth:`Verdict.margins` has each column alone. The columns of a mapping are each tested by itself. A
        column of more than 20 different numbers is cut into ranges of about equally many rows.
    time
        Time of each row. The verdict then lists at most eight periods of consecutive times, with about equal numbers of
        rows (pass the days as ``by`` to list every day), and the gain from recalibration is measured by walk-forward
        validation. Rows are still assumed independent given their scores.
    groups
        Group of dependent rows that each row belongs to (patient, hospital, question). Every variance is then the
        variance between groups, corrected for a small number of groups; see
        :func:`calibrant.metrics.variance.spread_of`. A frame that is too large for memory is counted in 200 hash
        buckets of the groups. Groups of one row each have no effect.
    weight_type
        ``"importance"``: weights enter through the sandwich variance, so they may depend on the label, as those of a
        down-sampled log do. ``"frequency"``: a weight is the number of repetitions of its row.
    positive
        The label that counts as the event.
    score_type
        ``"probability"`` or ``"logit"``; detected by default.
    label_type
        ``"fraction"`` if labels of one score are numbers in [0, 1], such as partial credit: a row with label q counts
        as an event of weight q and a non-event of weight 1 - q. The verdict is then about the mean label, and its
        variances are those between rows, as with ``groups``.
    calibration
        A fitted calibrator, a :class:`Calibration` or a map. The verdict is then about the calibrated probabilities of
        ``scores``, which must be of the kind that it was fitted to. If it was fitted to these same rows, the verdict
        says so first (``in_sample``). A calibrator that was fitted to all of them is cross-fitted, and the verdict is
        about the cross-fitted probabilities; otherwise the status *calibrated* is withheld.
    tolerance
        Limit of the error of the curve, in log-odds. The default, 0.2, means odds that are typically within a factor of
        1.22: 3.7 points for evenly spread scores, a fifth of the events where these are rare. Where the error is that
        large, a decision at a threshold of 20 % is taken at 17 to 23 %, and two scores may be in the wrong order if
        their log-odds differ by less than 0.4; in a few rows the error may be larger. Choose what your decisions bear
        before you see the result: a price may need 0.05. A pair limits intercept and slope as well, to ``(0.2, 0.2)``
        from 0 and 1; both are taken literally, and the limit of the curve is then 0.2.
    clamp
        Intercept and slope use the log-odds of scores clipped to [clamp, 1 - clamp]. By default only scores of exactly
        0 and 1 are moved, to half the distance of the nearest other score, and a note counts them.
    discover
        Features in which to look for the region where the model is most off: a frame or a mapping of columns, or, if
        ``scores`` is a frame, the names of its columns. :attr:`Verdict.region` then names one region, tested on the
        half of the rows that was not searched; see :func:`calibrant.verdict.discovery.discover`. For one score, and
        independent rows of equal weight.
    event
        What the event is called in the text: ``"default"``, ``"correct answer"``, or singular and plural,
        ``("child", "children")``.
    random_state
        Seed of the random folds, and of the halves of ``discover``.

    Returns
    -------
    Verdict
        Prints itself as text; has ``.status``, ``.to_dict()`` and HTML for notebooks. It cannot be used as a boolean.

    Notes
    -----
    Error rates: at most 5 % of models beyond the limit are called calibrated, and at most 5 % of models within it are
    called miscalibrated, where the error is that of the curve at the resolution that is printed. Both tests have a
    level of 4 %. ``benchmarks/verdict.py`` simulates models at the limit: shifts, slopes, waves, steps, tails, ties,
    rounded scores, fitted maps, weights and groups, from 300 to 300,000 rows, at 50 % to 0.5 % events. Waves that are
    finer than the ranges average out, and are not seen. At most 3 % of calibrated models are called off (1 + 1 + 1 %),
    and at most 5 % have any finding with ``by`` and ``discover`` together.

    Several classes are several binary problems: the confidence, tested like one score, and each class against the rest.
    P-values of classes are adjusted by Holm's method: at most 3 % of calibrated models have a class that is called off.
    The three tests of a class have one p-value, by Bonferroni's method.
    Multi-label targets are judged label by label in the same way. ``gain`` compares temperature scaling with maps of
    the confidence alone; all maps that were tried are in ``gains``.

    Guarantee: finite-sample for the tests of the intercept and of score ranges, on independent rows of equal weight;
    asymptotic for the intervals of intercept and slope, which hold for a model of any shape, and for everything with
    importance weights or groups. Tests of calibration are right for a calibrated model, whose labels may vary less than
    those of a wrong one. So a direction is named only if such an interval excludes the ideal value, and otherwise the
    model is off in a direction that is not established (``benchmarks/intervals.py``).

    More than 65,536 rows are counted on a grid of 65,536 cells; a frame of that size is counted by its own engine.
    Rows that the map was fitted to are recognized by a sketch of 64 of them, or by a fingerprint of all of them, unless
    scores are tied or on a grid; a note then says so. A false alarm requires rounded scores, and even then its
    probability is below one in a thousand (:mod:`calibrant.guarantees.overlap`, ``tests/statistical/test_overlap.py``).
    In a frame that is too large for memory, neither these rows nor repeated rows (:mod:`calibrant.tallies.repeats`) are
    looked for.

    Cost: one pass over the rows, and about 20 ms for each of several classes; in a large frame one more pass for each
    segment column, for time and for groups; then O(cells).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> p = rng.beta(2, 8, size=5000)
    >>> check(p, rng.random(5000) < p).status
    'calibrated'
    >>> check(p, rng.random(5000) < 0.6 * p).status
    'miscalibrated'
    >>> classes = rng.dirichlet([2.0, 1.0, 1.0], size=5000)
    >>> y = (rng.random((5000, 1)) > classes.cumsum(axis=1)).sum(axis=1)
    >>> verdict = check(classes, y)
    >>> verdict.notion, verdict.status, verdict.off_classes
    ('confidence', 'calibrated', ())
    """
    names = event_names(event)
    asked: dict[str, Any] = {"score": score, "label": label, "positive": positive, "classes": classes}
    asked |= {"score_type": score_type, "label_type": label_type}
    region = None
    if discover is not None:
        alone = {"sample_weight": None if isinstance(y, str) else sample_weight, "groups": groups}
        alone |= {"calibration": calibration, "label_type": None if label_type == "class" else label_type}
        limit = Limits.of(tolerance).curve
        region = _region(scores, y, sample_weight, discover, alone, random_state, limit, asked)
    problems = read_problems(
        scores, y, sample_weight, notion=notion, calibration=calibration, random_state=random_state, by=by, time=time,
        groups=groups, weight_type=weight_type, **asked,
    )  # fmt: skip
    if clamp is not None:
        problems = problems.with_ends(ends_at(clamp))
    return replace(judge_problems(problems, tolerance, random_state=random_state), region=region, event=names)


def _region(
    scores: Any, y: Any, sample_weight: Any, features: Any, alone: dict[str, Any], random_state: int, limit: float,
    asked: Any,
) -> Region:  # fmt: skip
    """The region of the features where the model is most off."""
    for name, value in alone.items():
        if value is not None:
            fix = "leave it out, and pass the probabilities of independent rows of one event"
            raise InputError(name, Phrase("cannot be used with {discover}", discover=Argument("discover")), fix)
    names = [features] if isinstance(features, str) else features
    named = isinstance(names, list | tuple) and all(isinstance(each, str) for each in names)
    if named and asked["score"] is None and not isinstance(y, str):
        fix = "pass the columns themselves, frame[[...]], or check(frame, score=..., label=..., discover=[...])"
        raise InputError("discover", "holds names of columns, which need a frame", fix)
    try:
        given = read(scores, y, sample_weight, more=names if named else (), most=None, **asked)
        if given.kind != "score":
            raise InputError("discover", "needs one score for each row", "pass the probabilities of one event")
        given = given.one_event()
        rows = as_probabilities(replace(given, sample_weight=None, groups=None, time=None).rows())
        return find_region(rows, given.more if named else features, limit, random_state)
    except InputError as error:
        unknown = error.subject == "features" or (error.subject == "frame" and named)
        raise (error.about("discover") if unknown else error) from None


def judge_problems(
    problems: Problems, tolerance: float | tuple[float, float] = LIMIT, *, random_state: int = 0
) -> Verdict:
    """The verdict on one score, or on several classes or labels."""
    verdict = judge(problems.main, tolerance)
    if problems.notion is None:
        return verdict
    names, decisions, made = [], [], []
    for name, evidence in problems.parts():
        names.append(name)
        decisions.append(decide(evidence, tolerance, among=True))
        made.append(_verdict(evidence, decisions[-1]))
    decisions = adjusted(decisions)
    parts = [_judged(each, decision) for each, decision in zip(made, decisions, strict=True)]
    never = tuple(name for name in problems.names if name not in names)
    classes = dict(zip(names, parts, strict=True))
    verdict = replace(verdict, notion=problems.notion, classes=classes, never_predicted=never)
    if problems.classes is not None and problems.rows is not None:
        gains = confidence_gains(problems.classes, problems.rows, random_state)
        verdict = replace(verdict, gain=gains[0] if gains else None, gains=gains)
    if not problems.joint:
        return verdict
    status = joint_status([part.status for part in parts])
    if verdict.in_sample and not verdict.crossfitted and status != "miscalibrated":
        status = "cannot tell"
    return replace(verdict, status=status, more_labels=None, gain=None if problems.classes is None else verdict.gain)


def judge(evidence: Evidence, tolerance: float | tuple[float, float] = LIMIT) -> Verdict:
    """The verdict on tallies that are already counted."""
    return _verdict(evidence, decide(evidence, tolerance))


def _judged(verdict: Verdict, decision: Decision) -> Verdict:
    """The verdict on a class, with the decision adjusted for the number of classes."""
    return replace(
        verdict,
        status=decision.status,
        against=decision.against,
        beyond=decision.beyond,
        p_value=decision.p_value,
    )


def _verdict(evidence: Evidence, decision: Decision) -> Verdict:
    tally, seen = evidence.tally, evidence.seen
    level, slope = decision.parameters.level, decision.parameters.slope
    notes = (*evidence.notes, *_read_notes(tally, decision.chance.mean))
    if seen.unseen is not None:
        notes += (overlap_unknown(seen.unseen),)
    in_sample = None if seen.share is None else seen.share > 0.0
    withheld = bool(in_sample) and not seen.crossfitted and decision.status != "miscalibrated"
    fractional = any(each.code == labels_as_fractions.code for each in notes)
    rows = float(tally.total) if fractional else physical_rows(tally)
    single = fractional and evidence.n_groups == round(rows)
    units = None if tally.counts else units_of(tally)
    shown = not decision.few_groups and tally.has_interior
    limit, cells = decision.limits.curve, evidence.cells
    segments = {name: each for name, each in evidence.segments.items() if cells in (None, name)}
    margins = {name: each for name, each in evidence.segments.items() if cells not in (None, name)}
    return Verdict(
        status="cannot tell" if withheld else decision.status,
        against=decision.against,
        beyond=decision.beyond,
        rows=float(tally.total),
        events=float(tally.positives),
        row_count=rows,
        counts=tally.counts,
        predicted=decision.chance.mean,
        expected=decision.chance.interval(0.95),
        intercept=_number(level, 0.0, decision.against.intercept) if shown else None,
        slope=_number(slope, 1.0, decision.against.slope) if shown else None,
        limits=decision.limits,
        curve=_curve(decision.curve),
        only_ends=decision.only_ends,
        gain=None if level is None else crossfitted_gain(evidence.folds),
        forward=evidence.folds.forward,
        more_labels=None if withheld else decision.more_labels,
        segments=scan_segments(segments, evidence.parts, units, limit) if segments else (),
        alone=scan_segments(margins, evidence.parts, units, limit) if margins else (),
        corrected=_corrected(segments, evidence, decision, units),
        periods=_periods(evidence, units, limit),
        rung=decision.rung,
        n_groups=None if single and not decision.few_groups else evidence.n_groups,
        few_groups=decision.few_groups,
        effective_rows=rows if level is None else float(tally.total) / level.scale,
        ranking=None if level is None else auc(tally).value,
        at_ends=decision.at_ends,
        notes=notes,
        in_sample=in_sample,
        overlap=seen.share,
        crossfitted=seen.crossfitted,
        tally=tally,
    )


@note("log-odds-predict")
def log_odds_predict(voice: Voice, events: float) -> str:
    """The predicted events after scores of exactly 0 and 1 were moved, where the difference matters."""
    return f"intercept and slope use these log-odds, which predict {amount(events)} {voice.nouns.events} in total"


def _read_notes(tally: Tally, predicted: float) -> tuple[Note, ...]:
    """Notes on scores of exactly 0 and 1 in log-odds, and on the events they then predict, where that matters."""
    notes = end_notes(tally)
    read = float((tally.n * np.clip(tally.scores, *tally.ends)).sum())
    if (
        not notes
        or amount(read) == amount(predicted)
        or abs(read - predicted) <= NEGLIGIBLE_DIFFERENCE * min(predicted, float(tally.total) - predicted)
    ):
        return notes
    return (*notes, log_odds_predict(read))


def _curve(found: CurveError | None) -> Curve | None:
    return None if found is None else Curve(found.value, *found.interval, found.points, len(found))


def _number(parameter: Parameter | None, ideal: float, p_value: float) -> Number | None:
    return None if parameter is None else Number(parameter.value, *parameter.interval(0.95), parameter.se, p_value)


def _corrected(
    segments: Mapping[str, GroupedTally], evidence: Evidence, decision: Decision, units: Units | None
) -> tuple[Segment, ...]:
    """The segments after one correction of intercept and slope for all rows, if the model as a whole is off."""
    slope = decision.parameters.slope
    if not segments or decision.status not in ("miscalibrated", "off") or decision.parameters.level is None:
        return ()
    from calibrant.verdict.input.through import mapped  # imported here: few verdicts need it

    likelihood = decision.parameters.likelihood
    best = likelihood.best(slope_change=None if slope is not None and 0.0 < slope.value < math.inf else 0.0)
    fitted = LogitAffineMap(1.0 + best.slope_change, best.shift - best.slope_change * likelihood.center)
    again = {name: each.each(lambda tally: mapped(tally, fitted)) for name, each in segments.items()}
    return scan_segments(again, evidence.parts, units, decision.limits.curve)


def _periods(evidence: Evidence, units: Units | None, limit: float) -> tuple[Segment, ...]:
    """Periods in their order, named by their first and last timestamp."""
    if evidence.periods is None:
        return ()
    scanned = scan_segments({"time": evidence.periods}, evidence.period_parts, units, limit)
    found = sorted(scanned, key=lambda period: period.value)
    ends = [evidence.period_ends.get(each.value, each.value) for each in found]
    days = {_timestamp(value)[4:] for value in (*(each.value for each in found), *ends)}
    yearly = len(found) > 1 and days == {"-12-31"}  # the years of a portfolio, as rating grades name them
    return tuple(
        replace(each, value=_period_name(each.value, last, 4 if yearly else None))
        for each, last in zip(found, ends, strict=True)
    )


def _period_name(first: Any, last: Any, size: int | None) -> str:
    texts = [_timestamp(value)[:size] for value in (first, last)]
    return texts[0] if first == last else " to ".join(texts)


def _timestamp(value: Any) -> str:
    """A timestamp as text; midnight is written as a date."""
    midnight = isinstance(value, datetime) and value.time() == datetime.min.time()
    return str(value.date() if midnight else value)
