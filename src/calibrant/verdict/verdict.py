"""The verdict as a value: four states, what they rest on, and the words for them."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from calibrant.verdict.decision import ALPHA_LEVEL, Against, Beyond, State
from calibrant.verdict.figures import amount, between, digits_apart, p_text, percent
from calibrant.verdict.gain import Gain
from calibrant.verdict.outlook import round_up
from calibrant.verdict.segments import Segment
from calibrant.verdict.shape import Misfit

Size = Literal["within", "beyond", "unsettled"]

COLORS: dict[State, str] = {
    "calibrated": "#009E73",
    "miscalibrated": "#D55E00",
    "off": "#D55E00",
    "cannot tell": "#E69F00",
}

SHOWN_SEGMENTS = 5
REBALANCED = 3.0
"""Mean prediction over base rate from which the hint asks about rebalanced training."""

TRAINED_ON = 1.5
"""Slope from which the hint asks whether these are training rows."""


@dataclass(frozen=True)
class Number:
    """An estimate with its 95 % profile-likelihood interval, standard error and p-value of perfect calibration."""

    value: float
    low: float
    high: float
    se: float
    p_value: float


@dataclass(frozen=True)
class Verdict:
    """What :func:`calibrant.check` found; ``print`` it, or read its fields.

    Attributes
    ----------
    state
        ``"calibrated"``: shown to be within the tolerance. ``"miscalibrated"``: shown to be beyond it. ``"off"``:
        chance does not explain the difference, and whether it is beyond the tolerance is not settled. ``"cannot
        tell"``: neither evidence against calibration nor enough for it.
    against
        Tests of perfect calibration: ``.level``, ``.slope`` (p-values), ``.shape`` (the most misfitting range of
        scores, if any), and ``.found``, whether any of them rejects.
    beyond
        What is shown to be beyond the tolerance: ``.level``, ``.slope``, ``.shape``, ``.found``.
    rows, events, predicted, expected
        Rows, observed events and the sum of the scores, and the central 95 % of the events of a calibrated model.
        Importance weights are in the unit in which events add up to the rows that they are.
    row_count
        Rows, whatever they weigh.
    level
        Log-odds by which all scores would have to be shifted for the predicted events to equal the observed ones
        (calibration in the large). None with one class.
    slope
        Of the log-odds; below 1 the scores are too extreme. None where the data do not define it.
    tolerance
        What level and slope may be off by, as it was applied.
    only_ends
        Whether every score is exactly 0 or 1: classes, not probabilities.
    gain
        Cross-fitted log loss before and after recalibration.
    more_labels
        About how many more labels would settle it in about nine of ten samples, if level and slope are what they seem;
        None when it is settled, or when no realistic number would.
    segments, periods
        Predicted and observed: segments that chance does not explain first, periods in their order.
    groups, few_groups, effective_rows
        Number of groups of dependent rows; whether they are too few to see how groups differ; independent rows that
        would show the level as precisely.
    ranking
        Area under the ROC curve.
    in_sample, overlap, crossfitted
        With ``calibration=``: whether rows that the map was fitted to are among those that were judged, and about which
        share; None when that cannot be told. Whether the verdict is about cross-fitted maps instead.
    """

    state: State
    against: Against
    beyond: Beyond
    rows: float
    events: float
    row_count: float
    counts: bool
    predicted: float
    expected: tuple[float, float]
    level: Number | None
    slope: Number | None
    tolerance: tuple[float, float]
    only_ends: bool
    gain: Gain | None
    forward: bool
    more_labels: int | None
    segments: tuple[Segment, ...]
    periods: tuple[Segment, ...]
    groups: int | None
    few_groups: bool
    effective_rows: float
    ranking: float | None
    at_ends: tuple[float, float]
    notes: tuple[str, ...]
    in_sample: bool | None = None
    overlap: float | None = None
    crossfitted: bool = False

    def __bool__(self) -> bool:
        """Refused: there are four answers."""
        raise TypeError('a verdict is neither true nor false: compare its state, as in verdict.state == "calibrated"')

    @property
    def size(self) -> Size:
        """Whether the model is shown to be within the tolerance, or beyond it, or neither."""
        return "within" if self.state == "calibrated" else "beyond" if self.state == "miscalibrated" else "unsettled"

    @property
    def caution(self) -> str:
        """What must be read before the headline: that the map has seen these rows. Else empty."""
        if not self.in_sample or self.overlap is None:
            return ""
        if self.crossfitted:
            return (
                "In-sample: these rows were used to fit the map, so each was judged by a map fitted to other folds "
                "(cross-fitted)."
            )
        share = f"{100 * self.overlap:.2g}" if self.overlap < 0.995 else "100"
        return f"In-sample: about {share} % of these rows were used to fit the map, so it looks better than it is."

    @property
    def direction(self) -> tuple[str, ...]:
        """How the probabilities are off (beyond the tolerance, where that is shown), in a few words each."""
        if self.only_ends:
            return ("only 0 and 1, classes and not probabilities",) if self.state == "miscalibrated" else ()
        words = []
        beyond = self.state == "miscalibrated"
        if beyond and self.beyond.level and self.level is not None:
            words.append("too low" if self.level.value > 0.0 else "too high")
        elif not beyond and self.against.by_level:
            words.append("too low" if self.events > self.predicted else "too high")
        if self.slope is not None and (self.beyond.slope if beyond else self.against.by_slope):
            words.append("too extreme" if self.slope.value < 1.0 else "not extreme enough")
        shape = self._leading_shape
        if shape is not None:
            words.append(f"too {'low' if shape.too_low else 'high'} in the {shape.where}")
        return tuple(words)

    @property
    def _leading_shape(self) -> Misfit | None:
        """The range of the scores that the state rests on, where it does not rest on level or slope."""
        return (self.beyond if self.state == "miscalibrated" else self.against).range_alone

    # ------------------------------------------------------------------------------------------------------- hints

    @property
    def hints(self) -> tuple[str, ...]:
        """Usual causes that the numbers point to, with the fix in a line."""
        return tuple(hint for hint in (*self._hints_on_rates(), *self._hints_on_slope(), self._hint_on_ends()) if hint)

    def _hints_on_rates(self) -> list[str]:
        rate, mean = self.events / self.rows, self.predicted / self.rows
        if self.only_ends:
            leak = "They equal the labels: a leak? " if not any(self.at_ends) else ""
            return [f"all scores are 0 or 1. {leak}Pass probabilities, such as model.predict_proba(X)[:, 1]."]
        if self.events in (0.0, self.rows):
            which, side = ("no row is", "high") if self.events == 0.0 else ("every row is", "low")
            outside = not self.expected[0] <= self.events <= self.expected[1]
            sure = f" If they are complete, the scores are too {side}: chance does not explain it." if outside else ""
            return [f"{which} an event: have all labels arrived, and was a class filtered out?{sure}"]
        if self.state not in ("miscalibrated", "off"):
            return []
        if mean > REBALANCED * rate:
            return [
                f"the mean prediction is {mean / rate:.1f} times the base rate. Did you rebalance the classes for "
                f"training? {self._sampling(rate)} Or, with labels: cal = calibrant.PlattScaling().fit(scores, y)."
            ]
        if 0.0 < mean * REBALANCED < rate:
            return [
                f"the base rate is {rate / mean:.1f} times the mean prediction: do the labels mean the same event that "
                f"the model was trained on? Did you rebalance the classes for training? {self._sampling(rate)}"
            ]
        return []

    def _hints_on_slope(self) -> list[str]:
        slope = self.slope
        if slope is None or self.only_ends:
            return []
        if self.ranking is not None and self.ranking < 0.5 and slope.high < 0.0:
            return [
                f"higher scores go with fewer events (AUC {self.ranking:.2f}): are the classes swapped? Try 1 - scores."
            ]
        if slope.value > TRAINED_ON and slope.low > 1.0 + self.tolerance[1]:
            shown = "that is not finite" if math.isinf(slope.value) else f"of {slope.value:.1f}"
            return [
                f"a slope {shown} is typical of rows that the model was trained on. Check it on rows that it has "
                "not seen."
            ]
        return []

    def _hint_on_ends(self) -> str:
        zero, one = self.at_ends
        if not (zero or one) or self.only_ends:
            return ""
        what = [f"{_many(zero, 'event')} had a score of exactly 0"] * bool(zero)
        what += [f"{_many(one, 'row')} with a score of exactly 1 had no event"] * bool(one)
        return f"{' and '.join(what)}: impossible by the scores, so the log loss is infinite. Were the scores rounded?"

    def _sampling(self, rate: float) -> str:
        """How to undo a changed class ratio; with the training rate that would explain the level, if the slope may."""
        level, slope, train = self.level, self.slope, "..."
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
        if self.state == "miscalibrated":
            by = "" if self.only_ends else " beyond the tolerance"
            return f"MISCALIBRATED{by}: the probabilities are {' and '.join(self.direction)}."
        if self.state == "calibrated":
            return self._calibrated()
        if self.state == "off":
            words = " and ".join(self.direction).upper()
            return f"{words}: chance does not explain it. {self._settling('Whether by more than the tolerance')}"
        return f"CANNOT TELL YET: {self._unknown()}"

    def _calibrated(self) -> str:
        where = self._off_parts()
        if where:
            return f"CALIBRATED overall, but not {where}."
        if self.direction:
            return f"CALIBRATED within the tolerance, though measurably {' and '.join(self.direction)}."
        return "CALIBRATED within the tolerance."

    def _unknown(self) -> str:
        if self.events in (0.0, self.rows):
            return "the labels hold only one class."
        if self.few_groups:
            return f"{self.groups} groups are too few to see how groups differ; at least 10 are needed."
        if self.in_sample and not self.crossfitted:
            return "the map has seen these rows; judge it on others."
        if self.only_ends:
            return "the scores are only 0 and 1, and equal the labels."
        return self._settling("whether it is within the tolerance")

    def _settling(self, question: str) -> str:
        """How many labels answer a question, or that it is too close to the tolerance for any number."""
        if self.more_labels is None:
            return f"{question} is too close to call: more labels may not settle it."
        rate = self.events / self.row_count
        few = round_up(self.more_labels * min(rate, 1.0 - rate))
        name = "events" if rate <= 0.5 else "non-events"
        return (
            f"{question} is not settled: about {self.more_labels:,} more labels (about {few:,} {name}) would probably "
            "settle it."
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
        said = [self._counted()]
        if self.only_ends:
            return tuple(said)
        said += self._parameters()
        shape = self._leading_shape
        if shape is not None:
            explains = "the tolerance explains" if self.state == "miscalibrated" else "chance explains"
            said.append(
                f"In the {shape.where}, {amount(shape.predicted)} events were predicted and {amount(shape.events)} "
                f"observed among {amount(shape.rows)} rows, a larger difference than {explains} (adjusted p "
                f"{p_text(shape.p_value)})."
            )
        if self.gain is not None and not any(self.at_ends):
            said.append(self.gain.sentence("walking forward in time" if self.forward else "cross-fitted"))
        if self.groups is not None and not self.few_groups:
            precise = f"the level is as precise as with {self.effective_rows:,.0f} independent rows"
            if self.effective_rows >= self.row_count:
                precise = "the groups differ no more than groups of independent rows would"
            said.append(f"Intervals allow for {self.groups:,} groups of dependent rows: {precise}.")
        return tuple(said)

    def _counted(self) -> str:
        """Predicted and observed events, their difference, and what to expect."""
        more = ""
        if self.predicted > 0.0 and self.events > 0.0 and self.events != self.predicted:
            ratio = self.events / self.predicted - 1.0
            more = f" ({percent(abs(ratio))} {'more' if ratio > 0.0 else 'fewer'})"
        span = "" if self.only_ends else f"; expected range {' to '.join(map(amount, self.expected))}"
        counted = f"Predicted {amount(self.predicted)} events, {amount(self.events)} observed{more}{span}"
        if self.counts:
            return f"{counted} ({amount(self.row_count)} rows)."
        return (
            f"{counted} ({amount(self.row_count)} rows, weighted). Ratios, level and slope are those of the population "
            "that the weights restore, not of the rows as sampled."
        )

    def _parameters(self) -> list[str]:
        """Level and slope beside what is tolerated."""
        said, (tau, delta) = [], self.tolerance
        level, slope = self.level, self.slope
        if level is not None:
            digits = digits_apart(level.value, -tau, tau)
            said.append(
                f"Level: the odds are {_factor(level.value)} what the scores say (log-odds {level.value:+.{digits}f}, "
                f"95 % CI {between(level.low, level.high, digits, sign=True)}; tolerated -{tau:g} to +{tau:g})."
            )
        if slope is not None:
            low, high = 1.0 - delta, 1.0 + delta
            digits = digits_apart(slope.value, low, high)
            shown = (
                "not finite, the scores separate the classes"
                if math.isinf(slope.value)
                else f"{slope.value:.{digits}f}"
            )
            said.append(
                f"Slope: {shown} (95 % CI {between(slope.low, slope.high, digits)}; tolerated {low:.2f} to "
                f"{high:.2f}); below 1 the scores are too extreme."
            )
        if self.state == "off" and self._outside_at_95():
            said.append(
                f"A 95 % interval lies outside the tolerance. The verdict asks for {100 * (1 - ALPHA_LEVEL):g} %, "
                "because it looks at level, slope and ranges of the scores."
            )
        if level is not None and not self.against.found and not self.expected[0] <= self.events <= self.expected[1]:
            said.append(
                "The observed events are outside the expected range, in which they fall 95 % of the time. The verdict "
                f"asks for {100 * (1 - ALPHA_LEVEL):g} % before it calls that evidence, because it looks at level, "
                "slope and ranges of the scores."
            )
        return said

    def _outside_at_95(self) -> bool:
        pairs = ((self.level, 0.0, self.tolerance[0]), (self.slope, 1.0, self.tolerance[1]))
        return any(
            each is not None and (each.low > ideal + limit or each.high < ideal - limit) for each, ideal, limit in pairs
        )

    @property
    def worst_segments(self) -> tuple[Segment, ...]:
        """Up to five segments that chance does not explain, after Holm's correction for all that were looked at."""
        return tuple(segment for segment in self.segments if segment.off)[:SHOWN_SEGMENTS]

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
        segments = _looked_at("Segments", self.segments, SHOWN_SEGMENTS)
        return [*segments, *_looked_at("Periods", self.periods, len(self.periods))]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; numbers that are not finite become None."""
        data = plain(asdict(self))
        for name in ("segments", "periods"):
            for each, part in zip(data[name], getattr(self, name), strict=True):
                each |= {"off": part.off, "judged": part.judged, "beyond": part.beyond(self.tolerance[0])}
        data["against"] |= {"found": self.against.found}
        data["beyond"] |= {"found": self.beyond.found}
        return {
            "state": self.state,
            "size": self.size,
            "caution": self.caution,
            "headline": self.headline,
            "direction": list(self.direction),
            "sentences": list(self.sentences),
            "hints": list(self.hints),
            **{key: value for key, value in data.items() if key != "state"},
        }

    @property
    def color(self) -> str:
        """Color of the state, safe for color-blind readers; a calibrated model with parts that are off is amber."""
        return COLORS["cannot tell" if self.state == "calibrated" and self._off_parts() else self.state]

    def __rich__(self) -> str:
        """Markup for rich's console: the headline in bold."""
        lines = str(self).replace("[", r"\[").split("\n")
        place = len(self._before())
        color = {"#009E73": "green", "#D55E00": "red", "#E69F00": "yellow"}[self.color]
        return "\n".join([*lines[:place], f"[bold {color}]{lines[place]}[/]", *lines[place + 1 :]])

    def _repr_html_(self) -> str:
        """For notebooks: the headline with a bar in the color of the state, and the sentences as a list."""
        facts = [*self.sentences, *self._segment_lines(), *(f"Hint: {hint}" for hint in self.hints)]
        facts += [f"Note: {note}" for note in self.notes]
        items = "".join(f"<li>{html.escape(fact.strip())}</li>" for fact in facts)
        return (
            f'<div style="border-left:6px solid {self.color};padding:0.2em 0.8em">'
            + "".join(f"{html.escape(line)}<br>" for line in self._before())
            + f"<strong>{html.escape(self.headline)}</strong><ul>{items}</ul></div>"
        )


def _looked_at(name: str, every: Sequence[Segment], most: int) -> list[str]:
    """How many were looked at, how many of them are off and cannot be judged, and the first of those that are off."""
    if not every:
        return []
    off = [each for each in every if each.off]
    unknown = sum(not each.judged for each in every)
    found = f"chance does not explain {len(off):,} of them" if off else "chance explains all of them"
    if unknown:
        found = f"{found if off else 'no difference is shown'}; {unknown:,} cannot be judged, with fewer than 10 groups"
    lines = [f"{name}: {len(every):,} looked at; {found}{':' if off else '.'}", *(f"  {each}" for each in off[:most])]
    return lines + ([f"  and {len(off) - most:,} more that chance does not explain"] if len(off) > most else [])


def _many(number: float, noun: str) -> str:
    return f"{amount(number)} {noun}{'' if number == 1.0 else 's'}"


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
