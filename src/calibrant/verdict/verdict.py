"""The verdict as a value: three states, and the words for them."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from calibrant.verdict.gain import Gain
from calibrant.verdict.outlook import round_up
from calibrant.verdict.segments import Segment, tell_p
from calibrant.verdict.shape import Misfit

State = Literal["calibrated", "miscalibrated", "cannot tell"]

HEADLINES: dict[State, str] = {
    "calibrated": "CALIBRATED",
    "miscalibrated": "MISCALIBRATED",
    "cannot tell": "CANNOT TELL YET",
}

COLOURS: dict[State, str] = {"calibrated": "#009E73", "miscalibrated": "#D55E00", "cannot tell": "#E69F00"}

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
    off
        Whether perfect calibration is excluded at 95 %, tolerated or not.
    only_ends
        Whether every score is exactly 0 or 1: classes, not probabilities.
    gain
        Cross-fitted log loss before and after recalibration.
    more_labels
        About how many more labels would probably settle it; None when it is settled, or when no number would.
    segments, periods
        What was predicted and what happened: segments with the least explicable by chance first, stretches of time in
        their order.
    inflation, clusters, groups
        By how much weights and clusters widen the region; number of hash buckets of clusters, and of distinct groups.
    ranking
        Area under the ROC curve.
    in_sample, overlap, crossfitted
        With ``calibration=``: whether rows that the map was fitted to are among those that were judged, and about which
        share; None when that cannot be told. Whether the verdict is about cross-fitted maps instead.
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
    off: bool
    only_ends: bool
    gain: Gain | None
    forward: bool
    more_labels: int | None
    segments: tuple[Segment, ...]
    periods: tuple[Segment, ...]
    inflation: float
    clusters: int | None
    groups: int | None
    ranking: float | None
    at_ends: tuple[float, float]
    notes: tuple[str, ...]
    in_sample: bool | None = None
    overlap: float | None = None
    crossfitted: bool = False

    @property
    def caution(self) -> str:
        """What must be read before the headline: that the map has seen these rows. Else empty."""
        if not self.in_sample or self.overlap is None:
            return ""
        if self.crossfitted:
            return (
                "In-sample: these rows were used to fit the map, so each was judged by a map fitted to other parts of "
                "them (cross-fitted)."
            )
        share = f"{100 * self.overlap:.2g}" if self.overlap < 0.995 else "100"
        return f"In-sample: about {share} % of these rows were used to fit the map, so it looks better than it is."

    @property
    def direction(self) -> tuple[str, ...]:
        """How the probabilities are off, in a word or two each; empty when nothing is established."""
        if self.only_ends:
            return ("only 0 and 1, classes and not probabilities",) if self.state == "miscalibrated" else ()
        if self.state == "calibrated" or not (self.off or self.misfit is not None):
            return ()
        words = []
        if self.intercept is not None and (self.by_region or self.state == "cannot tell"):
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
        if self.only_ends:
            leak = "They equal the labels: a leak? " if not any(self.at_ends) else ""
            found.append(f"all scores are 0 or 1. {leak}Pass probabilities, such as model.predict_proba(X)[:, 1].")
        elif self.events in (0.0, self.rows):
            which, side = ("no row is", "high") if self.events == 0.0 else ("every row is", "low")
            beyond = not self.chance[0] <= self.events <= self.chance[1]
            found.append(
                f"{which} an event: have all labels arrived, and was a class filtered out?"
                + (f" If they are complete, the scores are too {side}: chance does not explain it." if beyond else "")
            )
        elif self.state == "miscalibrated" and mean > REBALANCED * rate:
            found.append(
                f"the mean prediction is {mean / rate:.1f} times the base rate. Did you rebalance the classes for "
                f"training? {self._sampling(rate)} Or, with labels: cal = calibrant.PlattScaling().fit(scores, y)."
            )
        elif self.state == "miscalibrated" and 0.0 < mean * REBALANCED < rate:
            found.append(
                f"the base rate is {rate / mean:.1f} times the mean prediction: do the labels mean the same event that "
                f"the model was trained on? Did you rebalance the classes for training? {self._sampling(rate)}"
            )
        if self.ranking is not None and self.ranking < 0.5 and self.slope is not None and self.slope.high < 0.0:
            found.append(
                f"higher scores go with fewer events (AUC {self.ranking:.2f}): are the classes swapped? Try 1 - scores."
            )
        zero, one = self.at_ends
        if (zero or one) and not self.only_ends:
            what = [f"{zero:,.0f} events had a score of exactly 0"] * bool(zero)
            what += [f"{one:,.0f} rows with a score of exactly 1 were no events"] * bool(one)
            found.append(
                f"{' and '.join(what)}: impossible by the scores, so the log loss is infinite; rows at exactly 0 and 1 "
                "weigh heavily in the slope. Were the scores rounded?"
            )
        return tuple(found)

    def _sampling(self, rate: float) -> str:
        """How to undo a changed class ratio; with the training rate that would explain the level, if the slope may."""
        level, slope, train = self.intercept, self.slope, "..."
        if level is not None and (slope is None or abs(slope.value - 1.0) <= max(self.tolerance[1], 2.0 * slope.se)):
            odds = math.log(rate / (1.0 - rate)) - level.value
            train = f"{1.0 / (1.0 + math.exp(-odds)):.2g}"
        return (
            "SamplingCorrection undoes it without labels: "
            f"calibrant.SamplingCorrection(train_rate={train}, true_rate={rate:.3g})."
        )

    # ------------------------------------------------------------------------------------------------------- words

    @property
    def headline(self) -> str:
        """The state and the direction, in one line."""
        head = HEADLINES[self.state]
        if self.state == "miscalibrated":
            return f"{head}: the probabilities are {' and '.join(self.direction)}."
        if self.state == "calibrated":
            where = self._off_parts()
            return f"{head} overall, but not {where}." if where else f"{head} within the tolerance."
        if self.events in (0.0, self.rows):
            return f"{head}: the labels hold only one class."
        if self.in_sample and not self.crossfitted:
            return f"{head}: the map has seen these rows; judge it on others."
        if self.only_ends:
            return f"{head}: the scores are only 0 and 1, and equal the labels."
        if self.more_labels is None:
            words = f" ({' and '.join(self.direction)})" if self.direction else ""
            return f"{head}: off by about as much as is tolerated{words}; more labels may not settle it."
        rate = (self.predicted / self.rows + self.events / self.rows) / 2.0
        events = round_up(self.more_labels * min(rate, 1.0 - rate))
        return (
            f"{head}: about {self.more_labels:,} more labels (about {events:,} of the rarer class) would probably "
            "settle whether it is within the tolerance."
        )

    @property
    def off_segments(self) -> tuple[Segment, ...]:
        """Segments that chance does not explain and that are off by more than the tolerance."""
        return tuple(segment for segment in self.segments if segment.beyond(self.tolerance[0]))

    @property
    def off_periods(self) -> tuple[Segment, ...]:
        """Periods that chance does not explain and that are off by more than the tolerance."""
        return tuple(period for period in self.periods if period.beyond(self.tolerance[0]))

    def _off_parts(self) -> str:
        said = []
        if self.off_segments:
            worst = self.off_segments[0]
            said.append(
                f"in {len(self.off_segments)} of {len(self.segments)} segments (worst: {worst.column} = {worst.value})"
            )
        if self.off_periods:
            said.append(
                f"in {len(self.off_periods)} of {len(self.periods)} periods (last: {self.off_periods[-1].value})"
            )
        return " and ".join(said)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The facts behind the headline, one sentence each."""
        unit = "rows" if self.counts else "effective rows"
        within = ""
        if self.state == "calibrated" and not self.chance[0] <= self.events <= self.chance[1]:
            within = " That is beyond chance, and within the tolerance."
        said = [
            f"Predicted {self.predicted:,.0f} events, {self.events:,.0f} happened; chance alone gives "
            f"{self.chance[0]:,.0f} to {self.chance[1]:,.0f} ({self.rows:,.0f} {unit}).{within}"
        ]
        if self.only_ends:
            return tuple(said)
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
                f"{m.rows:,.0f} rows: beyond what the tolerance explains (adjusted p {tell_p(m.p_value)})."
            )
        if self.gain is not None and not any(self.at_ends):
            said.append(self.gain.sentence("walking forward in time" if self.forward else "cross-fitted"))
        if self.groups is not None:
            said.append(
                f"Rows of one group are alike: intervals are as wide as with {self.rows / self.inflation:,.0f} "
                f"independent rows ({self.groups:,} groups)."
            )
        return tuple(said)

    @property
    def worst_segments(self) -> tuple[Segment, ...]:
        """Up to five segments that chance does not explain, after Holm's correction for all that were looked at."""
        return tuple(segment for segment in self.segments if segment.p_value <= 0.05)[:SHOWN_SEGMENTS]

    def __str__(self) -> str:
        """The whole verdict as text."""
        lines = [*self._before(), self.headline, *(f"  {sentence}" for sentence in self.sentences)]
        lines += [f"  {line}" for line in self._segment_lines()]
        lines += [f"  Hint: {hint}" for hint in self.hints]
        lines += [f"  Note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _before(self) -> list[str]:
        return [self.caution] if self.caution else []

    def _segment_lines(self) -> list[str]:
        off = [period for period in self.periods if period.p_value <= 0.05]
        segments = _looked_at("Segments", self.segments, "the worst", self.worst_segments)
        return [*segments, *_looked_at("Periods", self.periods, "those", off)]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; numbers that are not finite become None."""
        data = plain(asdict(self))
        return {
            "state": self.state,
            "caution": self.caution,
            "headline": self.headline,
            "direction": list(self.direction),
            "sentences": list(self.sentences),
            "hints": list(self.hints),
            **{key: value for key, value in data.items() if key != "state"},
        }

    @property
    def colour(self) -> str:
        """Colour of the state, safe for colour-blind readers; a calibrated model with parts that are off is amber."""
        return COLOURS["cannot tell" if self.state == "calibrated" and self._off_parts() else self.state]

    def __rich__(self) -> str:
        """Markup for rich's console: the headline in bold."""
        lines = str(self).replace("[", r"\[").split("\n")
        place = len(self._before())
        colour = {"#009E73": "green", "#D55E00": "red", "#E69F00": "yellow"}[self.colour]
        return "\n".join([*lines[:place], f"[bold {colour}]{lines[place]}[/]", *lines[place + 1 :]])

    def _repr_html_(self) -> str:
        """For notebooks: the headline with a bar in the colour of the state, and the sentences as a list."""
        facts = [*self.sentences, *self._segment_lines(), *(f"Hint: {hint}" for hint in self.hints)]
        facts += [f"Note: {note}" for note in self.notes]
        items = "".join(f"<li>{html.escape(fact.strip())}</li>" for fact in facts)
        return (
            f'<div style="border-left:6px solid {self.colour};padding:0.2em 0.8em">'
            + "".join(f"{html.escape(line)}<br>" for line in self._before())
            + f"<strong>{html.escape(self.headline)}</strong><ul>{items}</ul></div>"
        )


def _looked_at(name: str, every: Sequence[Segment], which: str, off: Sequence[Segment]) -> list[str]:
    """How many were looked at, and which of them are off."""
    if not every:
        return []
    found = f"{which} that are not chance:" if off else "chance explains all of them."
    return [f"{name}: {len(every)} looked at; {found}", *(f"  {each}" for each in off)]


def _span(parameter: Parameter, form: str) -> str:
    """An interval in words; an end that the data do not give is open."""
    low = "no lower end" if math.isinf(parameter.low) else format(parameter.low, form)
    high = "no upper end" if math.isinf(parameter.high) else format(parameter.high, form)
    return f"{low} to {high}"


def _factor(log_odds: float) -> str:
    factor = math.exp(min(max(log_odds, -30.0), 30.0))
    return f"{factor:.2f} times" if 0.01 <= factor < 100.0 else f"{factor:.2g} times"


def plain(value: Any) -> Any:
    """Data ready for JSON: numbers that are not finite become None."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
