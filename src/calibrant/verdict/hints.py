"""Usual causes that the numbers of a verdict point to, with the fix in a line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from calibrant.messages import Advice, Note, Voice, note, plural
from calibrant.verdict.figures import amount, capitalized

if TYPE_CHECKING:
    from calibrant.verdict.verdict import Verdict

REBALANCED = 3.0
"""Mean prediction over base rate from which the hint asks about rebalanced training."""

TRAINED_ON = 1.5
"""Slope from which the hint asks whether these are training rows."""


@note("only-zero-and-one")
def only_zero_and_one(voice: Voice, equal_labels: bool) -> str:
    """Classes instead of probabilities."""
    leak = "They equal the labels: a leak? " if equal_labels else ""
    return f"all {voice.nouns.scores} are 0 or 1. {leak}{capitalized(voice.advice(Advice.PASS_PROBABILITIES))}."


@note("labels-incomplete")
def labels_incomplete(voice: Voice, events: bool, beyond_chance: bool) -> str:
    """One class only: every row is an event, or none is."""
    nouns = voice.nouns
    which, side = (f"every {nouns.row} is", "low") if events else (f"no {nouns.row} is", "high")
    article = "an" if nouns.event[0] in "aeiou" else "a"
    sure = f" If they are complete, the {nouns.scores} are too {side}: chance does not explain it."
    asked = f"{which} {article} {nouns.event}: have all labels arrived, and was a class filtered out?"
    return asked + sure * beyond_chance


@note("mean-above-base-rate")
def mean_above_base_rate(voice: Voice, ratio: float, train_rate: float | None, true_rate: float) -> str:
    """Scores far too high, as after training with more events than there are."""
    return (
        f"the mean prediction is {ratio:.1f} times the base rate. Did you rebalance the classes for training? "
        f"{_sampling(voice, train_rate, true_rate)} Or, with labels: {voice.advice(Advice.FIT_PLATT)}."
    )


@note("mean-below-base-rate")
def mean_below_base_rate(voice: Voice, ratio: float, train_rate: float | None, true_rate: float) -> str:
    """Scores far too low; ``ratio`` is base rate over mean prediction."""
    return (
        f"the base rate is {ratio:.1f} times the mean prediction: do the labels mean the same {voice.nouns.event} that "
        f"the model was trained on? Did you rebalance the classes for training? "
        f"{_sampling(voice, train_rate, true_rate)}"
    )


@note("classes-swapped")
def classes_swapped(voice: Voice, auc: float) -> str:
    """A ranking the wrong way round."""
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
        f"a slope {shown} is typical of {rows} that the model was trained on. Check it on {rows} that it has not seen."
    )


@note("impossible-scores")
def impossible_scores(voice: Voice, events_at_zero: float, others_at_one: float) -> str:
    """Scores of exactly 0 and 1 that labels contradict."""
    nouns = voice.nouns
    zero = plural(events_at_zero, nouns.event, nouns.events, shown=amount(events_at_zero))
    one = plural(others_at_one, nouns.row, nouns.rows, shown=amount(others_at_one))
    what = [f"{zero} had a {nouns.score} of exactly 0"] * bool(events_at_zero)
    what += [f"{one} with a {nouns.score} of exactly 1 had no {nouns.event}"] * bool(others_at_one)
    return (
        f"{' and '.join(what)}: impossible by the {nouns.scores}, so the log loss is infinite. Were the {nouns.scores} "
        "rounded?"
    )


def hints_of(verdict: Verdict) -> tuple[Note, ...]:
    """What the numbers of a verdict point to."""
    return (*_on_rates(verdict), *_on_slope(verdict), *_on_ends(verdict))


def _on_rates(verdict: Verdict) -> list[Note]:
    rate, mean = verdict.events / verdict.rows, verdict.predicted / verdict.rows
    if verdict.only_ends:
        return [only_zero_and_one(equal_labels=not any(verdict.at_ends))]
    if verdict.events in (0.0, verdict.rows):
        outside = not verdict.expected[0] <= verdict.events <= verdict.expected[1]
        return [labels_incomplete(events=verdict.events > 0.0, beyond_chance=outside)]
    if verdict.state not in ("miscalibrated", "off"):
        return []
    if mean > REBALANCED * rate:
        return [mean_above_base_rate(mean / rate, _train_rate(verdict, rate), rate)]
    if 0.0 < mean * REBALANCED < rate:
        return [mean_below_base_rate(rate / mean, _train_rate(verdict, rate), rate)]
    return []


def _on_slope(verdict: Verdict) -> list[Note]:
    slope = verdict.slope
    if slope is None or verdict.only_ends:
        return []
    if verdict.ranking is not None and verdict.ranking < 0.5 and slope.high < 0.0:
        return [classes_swapped(verdict.ranking)]
    if slope.value > TRAINED_ON and slope.low > 1.0 + verdict.tolerance[1]:
        return [trained_on_these_rows(None if math.isinf(slope.value) else slope.value)]
    return []


def _on_ends(verdict: Verdict) -> list[Note]:
    return [impossible_scores(*verdict.at_ends)] if any(verdict.at_ends) and not verdict.only_ends else []


def _train_rate(verdict: Verdict, rate: float) -> float | None:
    """The training rate that would explain the level, if the slope may be 1."""
    level, slope = verdict.level, verdict.slope
    if level is not None and (slope is None or abs(slope.value - 1.0) <= max(verdict.tolerance[1], 2.0 * slope.se)):
        odds = math.log(rate / (1.0 - rate)) - level.value
        return 1.0 / (1.0 + math.exp(-odds))
    return None


def _sampling(voice: Voice, train_rate: float | None, true_rate: float) -> str:
    """How to undo a changed class ratio."""
    train = "..." if train_rate is None else f"{train_rate:.2g}"
    call = f"calibrant.SamplingCorrection(train_rate={train}, true_rate={true_rate:.3g})"
    return f"{capitalized(voice.advice(Advice.CORRECT_SAMPLING))}: {call}."
