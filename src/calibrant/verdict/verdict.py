"""The verdict as a value: three states, and the words for them."""

from __future__ import annotations

import html
import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from calibrant.verdict.gain import Gain
from calibrant.verdict.segments import Segment, tell_p
from calibrant.verdict.shape import Misfit

State = Literal["calibrated", "miscalibrated", "cannot tell"]

HEADLINES: dict[State, str] = {
    "calibrated": "CALIBRATED",
    "miscalibrated": "MISCALIBRATED",
    "cannot tell": "CANNOT TELL YET",
}

SHOWN_SEGMENTS = 5
REBALANCED = 3.0
"""Mean prediction over base rate from which on the hint asks about rebalanced training."""


@dataclass(frozen=True)
class Parameter:
    """An estimate with its 95 % profile-likelihood interval and standard error."""

    value: float
    low: float
    high: float
    se: float


@dataclass(frozen=True)
class Verdict:
    """What :func:`calibrant.check` found; ``print`` it, or read its fields.

    Attributes
    ----------
    state
        ``"calibrated"``, ``"miscalibrated"`` or ``"cannot tell"``.
    rows, events, predicted, chance
        Rows, events that happened, events predicted (the sum of the scores), and the central 95 % of what chance gives
        when every score is right.
    intercept, slope
        Of the log-odds; the intercept at ``center``, the middle of the scores. None where the data do not define them.
    tolerance
        What intercept and slope may be off by, as it was applied.
    misfit
        The tail or stretch that no tolerated model explains, when there is one.
    by_region
        Whether the joint region of intercept and slope lies outside the tolerance.
    gain
        Cross-fitted log loss before and after recalibration.
    more_labels
        About how many more labels would settle it; None when it is settled, or when no number would.
    segments, periods
        What was predicted and what happened by segment and by stretch of time, the least explicable by chance first.
    inflation, clusters
        By how much weights and clusters widen the region; number of cluster buckets.
    ranking
        Area under the ROC curve.
    """

    state: State
    rows: float
    events: float
    counts: bool
    predicted: float
    chance: tuple[float, float]
    intercept: Parameter | None
    slope: Parameter | None
    center: float
    tolerance: tuple[float, float]
    misfit: Misfit | None
    by_region: bool
    gain: Gain | None
    forward: bool
    more_labels: int | None
    segments: tuple[Segment, ...]
    periods: tuple[Segment, ...]
    inflation: float
    clusters: int | None
    ranking: float | None
    at_ends: tuple[float, float]
    notes: tuple[str, ...]

    @property
    def direction(self) -> tuple[str, ...]:
        """How the probabilities are off, in a word or two each; empty when nothing is established."""
        if self.state != "miscalibrated":
            return ()
        words = []
        if self.by_region and self.intercept is not None:
            shift_excess = (abs(self.intercept.value) - self.tolerance[0]) / max(self.intercept.se, 1e-12)
            slope_excess = -math.inf
            if self.slope is not None:
                slope_excess = (abs(self.slope.value - 1.0) - self.tolerance[1]) / max(self.slope.se, 1e-12)
            if shift_excess > 1.0 or shift_excess >= slope_excess:
                words.append("too low" if self.intercept.value > 0.0 else "too high")
            if self.slope is not None and (slope_excess > 1.0 or slope_excess > shift_excess):
                words.append("too extreme" if self.slope.value < 1.0 else "not extreme enough")
        if self.misfit is not None and not self.by_region:
            side = "too low" if self.misfit.too_low else "too high"
            words.append(f"{side} in the {self.misfit.where}")
        return tuple(words)

    @property
    def hints(self) -> tuple[str, ...]:
        """Usual causes that the numbers point to, with the fix in a line."""
        found = []
        rate, mean = self.events / self.rows, self.predicted / self.rows
        if 0.0 < self.events == self.rows or self.events == 0.0:
            which = "no row is an event" if self.events == 0.0 else "every row is an event"
            found.append(
                f"{which}: have all labels arrived, and was a class filtered out? From one class nothing can be said "
                "about calibration."
            )
        elif self.state == "miscalibrated" and mean > REBALANCED * rate:
            found.append(
                f"the mean prediction is {mean / rate:.1f} times the base rate: was the model trained on rebalanced or "
                "down-sampled rows? Mend it with cal = calibrant.PlattScaling().fit(scores, y)."
            )
        elif self.state == "miscalibrated" and 0.0 < mean * REBALANCED < rate:
            found.append(
                f"the base rate is {rate / mean:.1f} times the mean prediction: do the labels mean the same event that "
                "the model was trained on?"
            )
        if self.ranking is not None and self.ranking < 0.5 and self.slope is not None and self.slope.high < 0.0:
            found.append(
                f"higher scores go with fewer events (AUC {self.ranking:.2f}): are the classes swapped? Try 1 - scores."
            )
        zero, one = self.at_ends
        if zero or one:
            what = [f"{zero:,.0f} events had a score of exactly 0"] * bool(zero)
            what += [f"{one:,.0f} rows with a score of exactly 1 were no events"] * bool(one)
            found.append(f"{' and '.join(what)}: impossible by the scores, so the log loss is infinite.")
        return tuple(found)

    # ------------------------------------------------------------------------------------------------------- words

    @property
    def headline(self) -> str:
        """The state and the direction, in one line."""
        head = HEADLINES[self.state]
        if self.state == "miscalibrated":
            return f"{head}: the probabilities are {' and '.join(self.direction)}."
        if self.state == "calibrated":
            return f"{head} within the tolerance."
        if self.events in (0.0, self.rows):
            return f"{head}: the labels hold only one class."
        if self.more_labels is None:
            return (
                f"{head}: the model is off by about as much as the tolerance allows, and more labels may not settle it."
            )
        rate = (self.predicted / self.rows + self.events / self.rows) / 2.0
        events = self.more_labels * min(rate, 1.0 - rate)
        return (
            f"{head}: about {self.more_labels:,} more labels (about {events:,.0f} of the rarer class) would settle it."
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """The facts behind the headline, one sentence each."""
        unit = "rows" if self.counts else "of weight"
        said = [
            f"Predicted {self.predicted:,.0f} events, {self.events:,.0f} happened; chance alone gives "
            f"{self.chance[0]:,.0f} to {self.chance[1]:,.0f} ({self.rows:,.0f} {unit})."
        ]
        if self.intercept is not None:
            a = self.intercept
            said.append(
                f"Level: the odds are {_factor(a.value)} what the scores say (log-odds {a.value:+.2f}, 95 % interval "
                f"{_span(a, '+.2f')}; tolerated: -{self.tolerance[0]:g} to +{self.tolerance[0]:g})."
            )
        if self.slope is not None:
            b = self.slope
            said.append(
                f"Spread: slope {b.value:.2f} (95 % interval {_span(b, '.2f')}; tolerated: "
                f"{1.0 - self.tolerance[1]:.2f} to {1.0 + self.tolerance[1]:.2f}); below 1 the scores are too extreme."
            )
        if self.misfit is not None and not self.by_region:
            m = self.misfit
            said.append(
                f"In the {m.where}, {m.predicted:,.0f} events were predicted and {m.events:,.0f} happened among "
                f"{m.rows:,.0f} rows: more than the tolerance explains (adjusted p {tell_p(m.p_value)})."
            )
        if self.gain is not None:
            said.append(self._gain_sentence(self.gain))
        if self.clusters is not None:
            said.append(
                f"Rows of a group are alike: regions are widened as if there were "
                f"{self.rows / self.inflation:,.0f} rows ({self.clusters} cluster buckets)."
            )
        return tuple(said)

    def _gain_sentence(self, gain: Gain) -> str:
        how = "walking forward in time" if self.forward else "cross-fitted"
        if gain.clear:
            return (
                f"Recalibration with {gain.method} would cut the log loss by {100 * gain.share:.1f} % ({how}: "
                f"{gain.before:.4f} to {gain.after:.4f})."
            )
        return f"Recalibration would gain nothing that can be seen: {100 * gain.share:+.2f} % of the log loss ({how})."

    @property
    def worst_segments(self) -> tuple[Segment, ...]:
        """Up to five segments that chance does not explain, after Holm's correction for all that were looked at."""
        return tuple(segment for segment in self.segments if segment.p_value <= 0.05)[:SHOWN_SEGMENTS]

    def __str__(self) -> str:
        """The whole verdict as text."""
        lines = [self.headline, *(f"  {sentence}" for sentence in self.sentences)]
        lines += [f"  {line}" for line in self._segment_lines()]
        lines += [f"  Hint: {hint}" for hint in self.hints]
        lines += [f"  Note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _segment_lines(self) -> list[str]:
        lines = []
        if self.segments:
            worst = self.worst_segments
            lines.append(
                f"Segments: {len(self.segments)} looked at; "
                + (f"{len(worst)} worst that are not chance:" if worst else "chance explains all of them.")
            )
            lines += [f"  {segment}" for segment in worst]
        off = [period for period in self.periods if period.p_value <= 0.05]
        if self.periods:
            lines.append(
                f"Periods: {len(self.periods)} looked at; "
                + ("those that are not chance:" if off else "chance explains all of them.")
            )
            lines += [f"  {period}" for period in sorted(off, key=lambda period: period.value)]
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; numbers that are not finite become None."""
        plain = _plain(asdict(self))
        return {
            "state": self.state,
            "headline": self.headline,
            "direction": list(self.direction),
            "sentences": list(self.sentences),
            "hints": list(self.hints),
            **{key: value for key, value in plain.items() if key != "state"},
        }

    def __rich__(self) -> str:
        """Markup for rich's console: the headline in bold."""
        head, *rest = str(self).replace("[", r"\[").split("\n")
        colour = {"calibrated": "green", "miscalibrated": "red", "cannot tell": "yellow"}[self.state]
        return "\n".join([f"[bold {colour}]{head}[/]", *rest])

    def _repr_html_(self) -> str:
        """For notebooks: the headline with a bar in the colour of the state, and the sentences as a list."""
        colour = {"calibrated": "#009E73", "miscalibrated": "#D55E00", "cannot tell": "#E69F00"}[self.state]
        facts = [*self.sentences, *self._segment_lines(), *(f"Hint: {hint}" for hint in self.hints)]
        facts += [f"Note: {note}" for note in self.notes]
        items = "".join(f"<li>{html.escape(fact.strip())}</li>" for fact in facts)
        return (
            f'<div style="border-left:6px solid {colour};padding:0.2em 0.8em">'
            f"<strong>{html.escape(self.headline)}</strong><ul>{items}</ul></div>"
        )


def _span(parameter: Parameter, form: str) -> str:
    """An interval in words; an end that the data do not give is open."""
    low = "no lower end" if math.isinf(parameter.low) else format(parameter.low, form)
    high = "no upper end" if math.isinf(parameter.high) else format(parameter.high, form)
    return f"{low} to {high}"


def _factor(log_odds: float) -> str:
    factor = math.exp(min(max(log_odds, -30.0), 30.0))
    return f"{factor:.2f} times" if 0.01 <= factor < 100.0 else f"{factor:.2g} times"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
