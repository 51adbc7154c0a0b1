"""Results of comparing candidates: a table, the rule of the choice, and nested losses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from calibrant.messages import PYTHON, Note, Shown, Voice, listed, note
from calibrant.metrics.estimates import Estimate
from calibrant.notebook import table_block
from calibrant.selection.losses import MIN_MINORITY_ROWS, NAMES, Loss, Losses
from calibrant.selection.original_model import ALPHA

CERTAINTY = 2.0
"""Standard errors that are added to a difference before it is called negligible."""

NEGLIGIBLE_SHARE = 7e-4
"""A difference of mean losses is negligible up to this share of the loss of a constant prediction, the event rate.

It is 0.0005 nats at a rate of 50 %. At low rates, odds that are off by a tenth stay below it."""

MOST_DECIMALS = 9

IDENTITY = "identity"
"""Name of the candidate that keeps the original model."""

BLENDED = "blend"
"""Name of the average of candidates."""


# ------------------------------------------------------------------------------------------- outcome of a candidate


chosen = note("chosen", "chosen")
chosen_uncompared = note("chosen-uncompared", "chosen: nothing to compare it with")
uncompared = note("uncompared", "nothing to compare")
not_significantly_different = note("not-significantly-different", "not significantly different")
worse = note("worse", "worse")
negligibly_better = note("negligibly-better", "negligibly better")
unreliably_better = note("unreliably-better", "better, but not reliably")
other_scores = note("other-scores", "not for {kind} {nouns.scores}")
needs_rows = note("needs-rows", "needs at least {needed:,.6g} {nouns.rows}")
needs_minority_rows = note("needs-minority-rows", "needs at least {needed:,.6g} minority-class {nouns.rows}")
beyond_epsilon = note("beyond-epsilon", "not within {epsilon:g}")
too_many_classes = note("too-many-classes", "for at most {most} classes")


# ------------------------------------------------------------------------------------------------- notes on estimates


loss_of_procedure = note(
    "loss-of-procedure",
    "loss of the selection procedure; the original model is kept, and its own loss is the one before",
)
too_few_for_interval = note(
    "too-few-for-interval", "no confidence interval: fewer than {needed} minority-class {nouns.rows}"
)
too_few_folds = note("too-few-folds", "too few folds to fit on some and evaluate on others")


# ------------------------------------------------------------------------------------------------------ the comparison


class ChoiceRule(StrEnum):
    """How a choice was made."""

    BLEND = "blend"
    """The blend, unless the original model or a simpler candidate is as good."""
    SIMPLEST = "simplest"
    """The simplest candidate within half a standard error of the lowest loss."""
    DEFAULT = "default"
    """A default candidate, unless another is better, or the original model or a simpler one is as good."""


@dataclass(frozen=True)
class Compared:
    """One line of a comparison: a candidate, its cross-validated mean loss, and its outcome."""

    name: str
    loss: float
    change: float
    """Its loss minus that of the reference."""
    low: float
    high: float
    """Ends of a 95 % confidence interval of the change. It is not adjusted for picking the best of several."""
    outcome: Note
    chosen: bool = False


@dataclass(frozen=True)
class Comparison(Shown):
    """Cross-validated losses of all candidates; prints as a table.

    The choice was made by these losses, so that of the chosen candidate is slightly optimistic. The nested loss in
    ``AutoCalibrator.after_`` is not.
    """

    loss: Loss
    reference: str
    lines: tuple[Compared, ...]
    negligible: float
    """Largest difference of mean losses that is negligible."""
    keeps: bool = True
    """Whether the reference may be chosen."""
    notes: tuple[Note, ...] = field(default=(), kw_only=True)
    """How scores of exactly 0 and 1 were read, where there are any."""

    @property
    def choice(self) -> str:
        """Name of the chosen candidate."""
        return next(line.name for line in self.lines if line.chosen)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; missing numbers are None."""
        lines = [
            {key: None if isinstance(value, float) and np.isnan(value) else value for key, value in vars(line).items()}
            | {"outcome": line.outcome.as_dict()}
            for line in self.lines
        ]
        notes = [note.as_dict() for note in self.notes]
        return {"loss": self.loss, "reference": self.reference, "candidates": lines, "notes": notes}

    def __str__(self) -> str:
        """A table, one line per candidate, the simplest first, and the rule."""
        return self.say(PYTHON)

    def say(self, voice: Voice) -> str:
        """The same in the words of a voice."""
        width = max(len("candidate"), *(len(line.name) for line in self.lines))
        change = f"vs. {self.reference} (95 % CI)"
        head = f"{'candidate':<{width}}  {NAMES[self.loss]:>11}  {change:<{3 * self.decimals + 18}}  vs. chosen"
        lines = [_text(line, width, self.decimals, voice) for line in self.lines]
        return "\n".join([head, *lines, self.rule_text, *(f"Note: {note.say(voice)}." for note in self.notes)])

    def _repr_html_(self) -> str:
        """For notebooks: the table, with the chosen candidate in bold, and the rule."""
        head = ["candidate", NAMES[self.loss], f"vs. {self.reference} (95 % CI)", "vs. chosen"]
        rows = [(line.name, *_entries(line, self.decimals, PYTHON)) for line in self.lines]
        notes = [self.rule_text, *(f"Note: {note}." for note in self.notes)]
        bold = [place for place, line in enumerate(self.lines) if line.chosen]
        return table_block(head, rows, notes=notes, left=(0, 2, 3), bold=bold)

    @property
    def decimals(self) -> int:
        """Decimals that make differences visible that are not negligible."""
        return decimals_of(self.negligible, 5)

    @property
    def kept(self) -> str:
        """The decision where the original model is kept."""
        gains = [-line.change for line in self.lines if line.high < 0.0]
        if gains and max(gains) <= self.negligible:
            return f"Keep the original model: the gain from the candidates is negligible ({max(gains):.2g})."
        return "Keep the original model: no candidate is reliably better."

    @property
    def rule(self) -> ChoiceRule:
        """How the choice was made."""
        blended = any(line.name == BLENDED and np.isfinite(line.loss) for line in self.lines)
        return ChoiceRule.BLEND if blended else ChoiceRule.SIMPLEST

    @property
    def rule_text(self) -> str:
        """The rule in words, one step per line."""
        return "\n".join(["Rule:", *(f"  {step}" for step in self.steps)])

    @property
    def steps(self) -> list[str]:
        """The steps of the rule, a sentence each."""
        if self.rule is not ChoiceRule.BLEND:
            return ["The simplest candidate within half a standard error of the lowest loss is chosen.", *self.gates]
        first = "The blend is chosen unless one of the following holds."
        simpler = f"A simpler candidate is chosen if its loss is {self.within}."
        return [first, simpler, *self.gates, *self._lower]

    @property
    def _lower(self) -> list[str]:
        """Why candidates with a lower loss than the blend were not chosen, as a sentence; empty without any."""
        taken = next(line for line in self.lines if line.chosen)
        lower = [line.name for line in self.lines if line.loss < taken.loss and line.name != self.reference]
        if taken.name != BLENDED or not lower:
            return []
        had = "has a lower loss, but it" if len(lower) == 1 else "have a lower loss, but each"
        return [
            f"{listed(lower)} {had} could be worse than the blend by more than {self.negligible:.2g}: the difference "
            f"is within {CERTAINTY:g} standard errors."
        ]

    @property
    def original(self) -> str:
        """The reference in a sentence."""
        return "the original model" if self.reference == IDENTITY else self.reference

    @property
    def within(self) -> str:
        """The negligible difference and how it is defined."""
        share = f"{100 * NEGLIGIBLE_SHARE:g} % of the loss of a constant prediction"
        return f"higher by at most {self.negligible:.2g} ({share}), with {CERTAINTY:g} standard errors added"

    @property
    def gates(self) -> list[str]:
        """When the reference is chosen, a sentence each; empty if it cannot be."""
        if not self.keeps:
            return []
        lower = " if its loss is the same or lower, or" if self.rule is ChoiceRule.BLEND else ""
        kept = f"{_sentence(self.original)} is kept{lower} if nested cross-validation does not lower the loss."
        if self.reference != IDENTITY:
            return [kept]
        test = f"If a test of its intercept and slope rejects it (significance level {ALPHA:g}), only nested "
        return [kept, f"{test}cross-validation can keep it."]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _text(line: Compared, width: int, decimals: int, voice: Voice) -> str:
    loss, change, outcome = _entries(line, decimals, voice)
    if np.isnan(line.loss):
        return f"{line.name:<{width}}  {loss:>11}  {outcome}"
    return f"{line.name:<{width}}  {loss:>11}  {change:<{3 * decimals + 18}}  {outcome}".rstrip()


def _entries(line: Compared, decimals: int, voice: Voice) -> tuple[str, str, str]:
    """Loss, change and outcome as text."""
    outcome = line.outcome.say(voice)
    if np.isnan(line.loss):
        return "-", "", outcome if line.chosen else f"not tried alone: {outcome}"
    ends = [f"{value:+z.{decimals}f}" for value in (line.change, line.low, line.high)]
    change = "" if np.isnan(line.change) else f"{ends[0]} ({ends[1]} to {ends[2]})"
    return f"{line.loss:.{decimals}f}", change, outcome


def decimals_of(size: float, fewest: int = 4) -> int:
    """Number of decimals that shows two digits of a number of this size.

    Examples
    --------
    >>> decimals_of(0.02), decimals_of(0.000013), decimals_of(0.0)
    (4, 6, 4)
    """
    return fewest if size <= 0.0 else min(max(fewest, 1 - int(np.floor(np.log10(size)))), MOST_DECIMALS)


def nested_sentence(
    voice: Voice,
    losses: tuple[Estimate, Estimate, Estimate],
    loss: Loss,
    kept: bool,
) -> str:
    """Losses before and after, and their change, by nested cross-validation, in one sentence.

    Where the original model is kept, the sentence says that the loss after is that of the selection procedure.
    """
    before, after, change = losses
    if np.isnan(change.value):
        return f"Nested cross-validation: {NAMES[loss]} not known ({too_few_folds().say(voice)})."
    if change.value == 0.0 and change.se == 0.0:
        return f"Nested cross-validation keeps the original model in every fold ({NAMES[loss]} {before.value:.4f})."
    places = decimals_of(max(abs(change.low or 0.0), abs(change.high or 0.0), abs(change.value)))
    numbers = [f"{each.value:.{places}f}" for each in (before, after)]
    if change.low is None or change.high is None:
        ends = too_few_for_interval(MIN_MINORITY_ROWS).say(voice)
    else:
        ends = f"95 % CI {change.low:+z.{places}f} to {change.high:+z.{places}f}"
    what = " of the selection procedure" if kept else ""
    return (
        f"Nested cross-validation{what}: {NAMES[loss]} {numbers[0]} -> {numbers[1]} "
        f"({change.value:+z.{places}f}, {ends})."
    )


def compared(
    name: str, flat: Losses | None, column: int | None, best: int, why_not: Note | None, tie: float
) -> Compared:
    """One line of a comparison; ``column`` is the candidate's place among the losses, None if it was not tried."""
    nan = float("nan")
    if column is None or flat is None:
        outcome = why_not or (chosen_uncompared() if column == best else uncompared())
        return Compared(name, nan, nan, nan, nan, outcome, column == best)
    change, spread = flat.difference(column, 0)
    ends = (change, change - flat.reach * spread, change + flat.reach * spread) if column else (nan, nan, nan)
    return Compared(name, float(flat.means[column]), *ends, _outcome(flat, column, best, tie), column == best)


def _outcome(flat: Losses, column: int, best: int, tie: float) -> Note:
    if column == best:
        return chosen()
    change, spread = flat.difference(column, best)
    if abs(change) <= CERTAINTY * spread:
        return not_significantly_different()
    if change > 0.0:
        return worse()
    return negligibly_better() if -change <= tie else unreliably_better()


def gap(flat: Losses | None, nested: Losses | None, best: int) -> float:
    """Difference between two estimates of the change in loss: cross-fitted for the final choice, and nested."""
    return 0.0 if flat is None or nested is None else flat.difference(best, 0)[0] - nested.difference(1, 0)[0]


def estimates(
    nested: Losses | None, loss: Loss, gap: float = 0.0, notes: tuple[Note, ...] = ()
) -> tuple[Estimate, Estimate, Estimate]:
    """Losses before and after, and the change, from two columns: the reference and the choice.

    Confidence intervals are those of :meth:`Losses.interval`, for the map in use on new rows. Below ten minority-class
    rows there is a note instead.
    """
    name = NAMES[loss]
    if nested is None:
        reason = too_few_folds()
        unknown = [Estimate(f"{name} {when}", float("nan"), notes=(reason,)) for when in ("before", "after", "change")]
        return unknown[0], unknown[1], unknown[2]
    made = []
    for when, weights in (("before", [1.0, 0.0]), ("after", [0.0, 1.0]), ("change", [-1.0, 1.0])):
        value, se, low, high = nested.interval(np.array(weights), loss, gap if weights[1] else 0.0)
        if nested.minority < MIN_MINORITY_ROWS:
            made.append(Estimate(f"{name}, {when}", value, se, notes=(too_few_for_interval(MIN_MINORITY_ROWS), *notes)))
        else:
            made.append(Estimate(f"{name}, {when}", value, se, low, high, notes=notes))
    return made[0], made[1], made[2]


def of_procedure(estimate: Estimate) -> Estimate:
    """The estimate with a note that the original model is kept; an unknown loss is returned unchanged."""
    if np.isnan(estimate.value):
        return estimate
    return replace(estimate, notes=(*estimate.notes, loss_of_procedure()))
