"""Likely causes suggested by the numbers of a verdict, each with a fix."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from calibrant.messages import Advice, Note, Voice, note
from calibrant.metrics.binary.significance import contradictions
from calibrant.metrics.tolerance import LIMIT
from calibrant.selection.original_model import TRAINING_SLOPE
from calibrant.verdict.figures import capitalized

if TYPE_CHECKING:
    from calibrant.verdict.verdict import Verdict

REBALANCED_RATIO = 3.0
"""Ratio of mean prediction to base rate (or its inverse) above which a hint asks about rebalanced training data.

How often hints speak where they should and where they should not is in docs/benchmarks/hints.txt.
"""

BALANCED_RATES = (0.4, 0.6)
"""Event rates in training that suggest balanced classes, if they explain the intercept."""
BALANCED_ODDS = 2.0
"""Factor of the odds from which balanced classes are suggested."""


@note("only-zero-and-one")
def only_zero_and_one(voice: Voice, equal_labels: bool) -> str:
    """Predicted classes instead of probabilities."""
    leak = "They equal the labels: is this label leakage? " if equal_labels else ""
    return f"all {voice.nouns.scores} are 0 or 1. {leak}{capitalized(voice.advice(Advice.PASS_PROBABILITIES))}."


@note("labels-incomplete")
def labels_incomplete(voice: Voice, events: bool, beyond_chance: bool) -> str:
    """One class only: every row is an event, or none is."""
    nouns = voice.nouns
    which, side = (f"every {nouns.row} is", "low") if events else (f"no {nouns.row} is", "high")
    sure = f" If the labels are complete, the {nouns.scores} are too {side}: chance does not explain it."
    asked = f"{which} {nouns.an_event()}: have all labels arrived? Was a class filtered out?"
    return asked + sure * beyond_chance


@note("no-events-bound")
def no_events_bound(voice: Voice, at_most: float) -> str:
    """No event, as is likely with low scores: what that bounds."""
    nouns = voice.nouns
    return (
        f"if the labels are complete, the {nouns.rate} is at most {100 * at_most:.2g} % (95 % confidence, independent "
        f"{nouns.rows}); calibrant.credit.pluto_tasche gives a bound for each rating grade."
    )


@note("mean-above-base-rate")
def mean_above_base_rate(voice: Voice, ratio: float, train_rate: float | None, true_rate: float) -> str:
    """Scores far too high, as after training on data with a raised event rate."""
    return (
        f"the mean prediction is {ratio:.1f} times the base rate. Did you rebalance the classes for training? "
        f"{_sampling(voice, train_rate, true_rate)} Or fit to these labels: {voice.advice(Advice.FIT_PLATT)}."
    )


@note("mean-below-base-rate")
def mean_below_base_rate(voice: Voice, ratio: float, train_rate: float | None, true_rate: float) -> str:
    """Scores far too low; ``ratio`` is base rate over mean prediction."""
    return (
        f"the base rate is {ratio:.1f} times the mean prediction. Do the labels describe the {voice.nouns.event} that "
        f"the model was trained on? Did you rebalance the classes for training? "
        f"{_sampling(voice, train_rate, true_rate)}"
    )


@note("classes-swapped")
def classes_swapped(voice: Voice, auc: float) -> str:
    """A reversed ranking."""
    nouns = voice.nouns
    return (
        f"higher {nouns.scores} go with fewer {nouns.events} (AUC {auc:.2f}): are the classes swapped? Try 1 - "
        f"{nouns.scores}."
    )


@note("trained-on-these-rows")
def trained_on_these_rows(voice: Voice, slope: float | None) -> str:
    """A steep slope; None where it is not finite."""
    shown, rows = "that is not finite" if slope is None else f"of {slope:.1f}", voice.nouns.rows
    return (
        f"a slope {shown} is typical of {rows} that the model was trained on, and of averages of models, such as "
        f"random forests, on any {rows}. If the model was trained on these, evaluate it on held-out {rows}."
    )


@note("impossible-scores")
def impossible_scores(voice: Voice, events_at_zero: float, others_at_one: float) -> str:
    """Scores of exactly 0 and 1 that the labels contradict."""
    nouns, said = voice.nouns, contradictions(voice.nouns, events_at_zero, others_at_one)
    return (
        f"{said}, which makes the log loss infinite. Were the {nouns.scores} rounded? "
        f"{capitalized(voice.advice(Advice.PASS_CLAMP))}."
    )


@note("classes-off")
def classes_off(voice: Voice, classes: int) -> str:
    """Classes whose probabilities are off, which a map of the confidence alone does not change."""
    which = "a class is off" if classes == 1 else f"{classes:,} classes are off"
    return f"{which}. To calibrate the probabilities of all classes: {voice.advice(Advice.FIT_CLASSES)}."


@note("fitted-to-these-rows")
def fitted_to_these_rows(voice: Voice) -> str:
    """A map of classes that has seen these rows."""
    return f"without held-out {voice.nouns.rows}, {voice.advice(Advice.CHECK_OUT_OF_FOLD)}."


def hints_of(verdict: Verdict) -> tuple[Note, ...]:
    """Hints for a verdict, from its numbers alone; of several classes those about the confidence."""
    if verdict.notion is not None:
        return (*_on_seen_rows(verdict), *_on_slope(verdict), *_on_ends(verdict), *_on_classes(verdict))
    reversed_ranking = _on_ranking(verdict)  # which alone can move the mean far from the base rate
    return (*(reversed_ranking or (*_on_rates(verdict), *_on_slope(verdict))), *_on_ends(verdict))


def _on_seen_rows(verdict: Verdict) -> list[Note]:
    return [fitted_to_these_rows()] if verdict.in_sample and not verdict.crossfitted else []


def _on_rates(verdict: Verdict) -> list[Note]:
    rate, mean = verdict.events / verdict.rows, verdict.predicted / verdict.rows
    if verdict.only_ends:
        return [only_zero_and_one(equal_labels=not any(verdict.at_ends))]
    if verdict.events in (0.0, verdict.rows):
        alike = math.log(max(mean if verdict.events else 1.0 - mean, 1e-300))  # as likely as for any model
        outside = not verdict.expected[0] <= verdict.events <= verdict.expected[1]
        outside &= verdict.rows * alike <= math.log(0.025)
        found = [labels_incomplete(events=verdict.events > 0.0, beyond_chance=outside)]
        simple = verdict.events == 0.0 and not outside and verdict.counts and verdict.n_groups is None
        return [*found, no_events_bound(at_most=-math.expm1(math.log(0.05) / verdict.rows))] if simple else found
    if verdict.status not in ("miscalibrated", "off"):
        return []
    if not verdict.against.intercept_side:
        return []
    train_rate = _train_rate(verdict, rate)
    balanced = _looks_balanced(verdict, train_rate)
    if mean > (1.0 if balanced else REBALANCED_RATIO) * rate:
        return [mean_above_base_rate(mean / rate, train_rate, rate)]
    if 0.0 < mean * (1.0 if balanced else REBALANCED_RATIO) < rate:
        return [mean_below_base_rate(rate / mean, train_rate, rate)]
    return []


def _on_ranking(verdict: Verdict) -> list[Note]:
    if verdict.slope is None or verdict.only_ends or verdict.ranking is None:
        return []
    return [classes_swapped(verdict.ranking)] if verdict.ranking < 0.5 and verdict.slope.high < 0.0 else []


def _on_slope(verdict: Verdict) -> list[Note]:
    slope = verdict.slope
    if slope is None or verdict.only_ends:
        return []
    if slope.value > TRAINING_SLOPE and slope.low > 1.0 + LIMIT:
        return [trained_on_these_rows(None if math.isinf(slope.value) else slope.value)]
    return []


def _on_classes(verdict: Verdict) -> list[Note]:
    off = len(verdict.off_classes)
    return [classes_off(off)] if off and verdict.notion != "multi-label" and verdict.gains else []


def _on_ends(verdict: Verdict) -> list[Note]:
    return [impossible_scores(*verdict.at_ends)] if any(verdict.at_ends) and not verdict.only_ends else []


def _train_rate(verdict: Verdict, rate: float) -> float | None:
    """The event rate in training that would explain the intercept, if the slope is compatible with 1."""
    level, slope = verdict.intercept, verdict.slope
    if level is not None and (slope is None or abs(slope.value - 1.0) <= max(LIMIT, 2.0 * slope.se)):
        odds = math.log(rate / (1.0 - rate)) - level.value
        return 1.0 / (1.0 + math.exp(-odds))
    return None


def _looks_balanced(verdict: Verdict, train_rate: float | None) -> bool:
    """Whether the intercept is what training on balanced classes would give."""
    if train_rate is None or verdict.intercept is None:
        return False
    return BALANCED_RATES[0] <= train_rate <= BALANCED_RATES[1] and abs(verdict.intercept.value) >= math.log(
        BALANCED_ODDS
    )


def _sampling(voice: Voice, train_rate: float | None, true_rate: float) -> str:
    """How to correct for a changed class ratio; a ``train_rate`` that is shown comes from the labels."""
    train = "..." if train_rate is None else f"{train_rate:.2g}"
    call = f"calibrant.SamplingCorrection(train_rate={train}, true_rate={true_rate:.3g})"
    here = "" if train_rate is None else f" ({train} fits these labels; if classes were balanced, it is 0.5)"
    return f"{capitalized(voice.advice(Advice.CORRECT_SAMPLING))}: {call}{here}."
