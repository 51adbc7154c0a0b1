"""The text of a verdict, written from its numbers with the nouns of a voice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibrant.guarantees.bounds import clopper_pearson
from calibrant.messages import PYTHON, Voice, listed, plural
from calibrant.verdict.decision import Direction
from calibrant.verdict.figures import amount, between, digits_apart, p_text, percent, signed_percent
from calibrant.verdict.multiclass.by_class import class_lines, gain_sentence, joint_headline, judged, row_text
from calibrant.verdict.outlook import FEWEST_ROWS, round_up
from calibrant.verdict.segments import ORDERS, Segment
from calibrant.verdict.shape import Misfit, Range
from calibrant.visible import visible

if TYPE_CHECKING:
    from calibrant.verdict.gain import Gain
    from calibrant.verdict.verdict import Verdict

SHOWN_SEGMENTS = 5
"""Segments listed below the headline."""
MANY_EVENTS = 0.75
"""Event rate above which differences are given in non-events, which are then the rare ones."""
SMALL_ERROR = 0.5
"""Up to here a distance in log-odds, times p (1 - p), is about the distance of the rates."""
ROUNDING_ERROR = 1e-9
"""Relative difference of predicted and observed events that is not shown."""
NEGLIGIBLE_GAIN = 0.01
"""Relative change of the loss below which a gain is called negligible, if its whole interval is below it."""


@dataclass(frozen=True)
class Wording:
    """The text of a verdict with the nouns of a voice; ``str`` gives all of it."""

    verdict: Verdict
    voice: Voice = PYTHON

    @property
    def caution(self) -> str:
        """A warning shown above the headline when the map was fitted to these rows; otherwise empty."""
        verdict, rows = self.verdict, self.voice.nouns.rows
        if not verdict.in_sample or verdict.overlap is None:
            return ""
        if verdict.crossfitted:
            return (
                f"In-sample: the map was fitted to these {rows}, so each was evaluated with a map fitted to the other "
                "folds (cross-validation)."
            )
        share = f"{100 * verdict.overlap:.2g}" if verdict.overlap < 0.995 else "100"
        return f"In-sample: the map was fitted to about {share} % of these {rows}, so it looks better than it is."

    @property
    def direction(self) -> tuple[str, ...]:
        """How the probabilities deviate: one short phrase per deviation."""
        return tuple(self._off(each) for each in self.verdict.deviations)

    @property
    def headline(self) -> str:
        """The status and the direction of the deviation, in one line."""
        verdict = self.verdict
        if verdict.joint:
            return joint_headline(verdict, self.voice)
        if verdict.only_ends and verdict.status == "miscalibrated":
            return f"MISCALIBRATED: the {self.voice.nouns.probabilities} are {' and '.join(self.direction)}."
        if verdict.status == "calibrated":
            return self._calibrated()
        if verdict.status == "cannot tell":
            parts = "" if self._no_test() else self._beyond_parts()
            return f"CANNOT TELL YET overall, but {parts}" if parts else f"CANNOT TELL YET: {self._unknown()}"
        worst = self._worst()
        size = "" if verdict.curve is None else f"odds typically off by a factor of {odds(verdict.curve.value)}"
        if verdict.status == "miscalibrated":
            beyond, limit = verdict.beyond, f"limit of {odds(verdict.limits.curve)}"
            if not beyond.curve and (beyond.intercept or beyond.slope):
                limit = f"limit of the {'slope' if beyond.slope else 'intercept'}"
            said = [*([size] if size and beyond.curve else []), *self._directions(), *worst]
            said = said or [self.difference(verdict.rows, verdict.events, verdict.predicted)]
            return f"MISCALIBRATED beyond the {limit}: {', '.join(said)}. Recalibrate."
        return f"OFF, more than chance explains: {', '.join([*(self._directions() or [size]), *worst])}. Recalibrate."

    @property
    def finding(self) -> str:
        """The headline without the number of labels that would decide."""
        status = None if self.verdict.joint else self.verdict.status
        if status == "cannot tell" and not self._no_test():
            return f"CANNOT TELL YET whether the {self.voice.nouns.probabilities} are within the limit."
        return self.headline

    def difference(self, rows: float, events: float, predicted: float) -> str:
        """By how much the events differ from those predicted, in percent; the rarer ones of events and non-events."""
        nouns = self.voice.nouns
        many = events > MANY_EVENTS * rows
        name, seen, due = (nouns.others, rows - events, rows - predicted) if many else (nouns.events, events, predicted)
        if seen >= 2.0 * due > 0.0:
            times = f"{seen / due:,.0f}" if seen >= 10.0 * due else f"{seen / due:.2g}"
            return f"{times} times as many {name} as predicted"
        by = f"{percent(abs(seen / due - 1.0))} " if due > 0.0 else ""
        return f"{by}{'more' if seen > due else 'fewer'} {name} than predicted"

    def _directions(self) -> list[str]:
        """How the whole is off: too high or too low in percent, a slope, or a range."""
        verdict, said = self.verdict, []
        for deviation in verdict.deviations:
            text, of = self._off(deviation), deviation if isinstance(deviation, Misfit) else verdict
            apart = self.difference(of.rows, of.events, of.predicted)
            if isinstance(deviation, Misfit):
                text = f"{text}, {apart}"
            elif deviation in (Direction.TOO_HIGH, Direction.TOO_LOW):
                text = f"{text} ({apart})"
            said.append(text)
        return [listed(said)] if said else []

    def _worst(self) -> list[str]:
        """Where a model that is off as a whole is worst: a segment, a period or a region beyond the limit."""
        verdict = self.verdict
        judged = sum(each.judged for each in verdict.segments)
        if verdict.everywhere:
            worse = [each.name for each in verdict.apart if each.excess * verdict.excess > 0.0]
            found = [each for each in verdict.segments if each.name in worse[:1]]
            return [f"most in {self._part(found[0])}" if found else f"in all {judged:,} segments"]
        said = {
            "classes": [f"worst in class {name}" for name in verdict.classes_beyond[:1]],
            "segments": [f"worst in {self._part(each)}" for each in verdict.worst_segments[:1]],
            "periods": [f"worst in {self._part(each)}" for each in verdict.off_periods[:1]],
            "region": [f"worst where {verdict.region.name}"] if verdict.region is not None else [],
        }
        return [text for name in verdict.findings for text in said.get(name, [])]

    def _part(self, part: Segment, before: str = " (", after: str = ")") -> str:
        return f"{part.name}{before}{self.difference(part.rows, part.events, part.predicted)}{after}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings behind the headline, one sentence each."""
        verdict, nouns = self.verdict, self.voice.nouns
        said = [*judged(verdict, self.voice), self._counted(), *self._constant()]
        if verdict.only_ends:
            return tuple(said)
        said += [*self._curve(), *self._intercept(), *self._slope()]
        shape = None if verdict.joint else verdict.leading_shape
        if shape is not None:
            explains = "the limit allows" if verdict.beyond.shape is not None else "chance explains"
            said.append(
                f"In the {self.range(shape.where)}, {amount(shape.predicted)} {nouns.events} were predicted and "
                f"{amount(shape.events)} observed among {amount(shape.rows)} {nouns.rows}, a larger difference than "
                f"{explains} (adjusted p {p_text(shape.p_value)})."
            )
        said += self._everywhere()
        how = "walk-forward" if verdict.forward else "cross-validation"
        if verdict.gains:
            said.append(gain_sentence(verdict.gains, how))
        elif verdict.gain is not None and not any(verdict.at_ends):
            said.append(self._gain(verdict.gain, how))
        if verdict.n_groups is not None and not verdict.few_groups:
            precise = f"the effective sample size for the intercept is {verdict.effective_rows:,.0f} {nouns.rows}"
            if verdict.effective_rows >= verdict.row_count:
                precise = f"groups vary no more than groups of independent {nouns.rows} would"
            said.append(f"Intervals account for {verdict.n_groups:,} groups of dependent {nouns.rows}: {precise}.")
        return tuple(said)

    @property
    def hints(self) -> tuple[str, ...]:
        """Likely causes suggested by the numbers, each with a fix."""
        return tuple(hint.say(self.voice) for hint in self.verdict.hints)

    @property
    def notes(self) -> tuple[str, ...]:
        """Further remarks on the data and the computation."""
        return tuple(note.say(self.voice) for note in self.verdict.notes)

    @property
    def facts(self) -> tuple[str, ...]:
        """Everything below the headline: sentences, classes, segments, periods, region, hints and notes."""
        verdict = self.verdict
        every = () if verdict.everywhere else verdict.segments
        segments = _scanned("Segments", every, SHOWN_SEGMENTS, f", {ORDERS['effect']}")
        periods = _scanned("Periods", verdict.periods, len(verdict.periods))
        region = () if verdict.region is None else (f"Region: {verdict.region}",)
        remarks = (*(f"Hint: {hint}" for hint in self.hints), *(f"Note: {note}" for note in self.notes))
        return (*self.sentences, *class_lines(verdict, self.voice), *segments, *periods, *region, *remarks)

    def __str__(self) -> str:
        """The whole verdict as text."""
        before = [self.caution] if self.caution else []
        lines = [*before, self.headline, *(f"  {fact}" for fact in self.facts)]
        return "\n".join(visible(line, None) for line in lines)

    # ---------------------------------------------------------------------------------------------------- headline

    def _off(self, deviation: Direction | Misfit) -> str:
        if isinstance(deviation, Misfit):
            return f"too {'low' if deviation.too_low else 'high'} in the {self.range(deviation.where)}"
        if deviation is Direction.ONLY_ENDS:
            return f"only 0 and 1: predicted classes, not {self.voice.nouns.probabilities}"
        return str(deviation.value)

    def range(self, where: Range) -> str:
        """A range of the scores, as a phrase that follows "in the"."""
        nouns, share = self.voice.nouns, _share(where.share)
        if where.kind == "single":
            return f"{nouns.rows} with {nouns.score} {_score(where.low)}"
        if where.kind == "between":
            return f"{nouns.scores} from {_score(where.low)} to {_score(where.high)} ({share} of the {nouns.rows})"
        return f"{where.kind} {share} of the {nouns.scores}"

    def _calibrated(self) -> str:
        verdict, parts = self.verdict, self._beyond_parts()
        curve, limit = verdict.curve, odds(verdict.limits.curve)
        if parts:
            return f"CALIBRATED overall within the limit of {limit}, but {parts}"
        most = "" if curve is None else f": odds typically off by a factor of at most {odds(curve.high)}"
        said = listed(self._directions())
        return f"CALIBRATED within the limit of {limit}{most}{f', though {said}' if said else ''}."

    def _beyond_parts(self) -> str:
        """The worst parts beyond the limit, with what to do, where the whole is not; empty if there are none."""
        verdict, said, fix = self.verdict, [], "Recalibrate"
        parts = (
            ("segments", verdict.off_segments, verdict.segments),
            ("periods", verdict.off_periods, verdict.periods),
        )
        for name, off, every in parts:
            if name in verdict.findings:
                verb = "is" if len(off) == 1 else "are"
                said.append(
                    f"{len(off):,} of {len(every):,} {name} {verb} beyond it (worst: {self._part(off[0], ', ', '')})"
                )
                fix = "Recalibrate by segment" if name == "segments" else fix
        if "range" in verdict.findings and verdict.beyond.shape is not None:
            shape = verdict.beyond.shape
            apart, side = self.difference(shape.rows, shape.events, shape.predicted), "low" if shape.too_low else "high"
            said.insert(0, f"beyond it in the {self.range(shape.where)}: too {side} ({apart})")
        if "classes" in verdict.findings:
            names = verdict.classes_beyond
            verb = "is" if len(names) == 1 else "are"
            said.append(f"{len(names):,} of {len(verdict.classes):,} classes {verb} beyond it (worst: {names[0]})")
        if "region" in verdict.findings and verdict.region is not None:
            side = ("off", "too low", "too high")[verdict.region.side]
            said.append(f"beyond it where {verdict.region.name}: {side}")
        if said and "bias" in verdict.findings:
            side = "low" if verdict.excess > 0.0 else "high"
            said.append(f"too {side} overall ({self.difference(verdict.rows, verdict.events, verdict.predicted)})")
        return f"{listed(said)}. {fix}." if said else ""

    def _unknown(self) -> str:
        return self._no_test() or self._settling()

    def _no_test(self) -> str:
        """Why these rows cannot be judged, however many there are; empty if they can."""
        verdict, nouns = self.verdict, self.voice.nouns
        if verdict.events in (0.0, verdict.rows):
            if verdict.notion == "confidence":
                return f"{'every' if verdict.events else 'no'} predicted class is right."
            return "the labels contain only one class."
        if verdict.few_groups:
            return f"{verdict.n_groups} groups are too few to estimate their variance; at least 10 are needed."
        if verdict.in_sample and not verdict.crossfitted:
            return f"the map was fitted to these {nouns.rows}; evaluate it on held-out {nouns.rows}."
        if verdict.only_ends:
            return f"the {nouns.scores} are only 0 and 1, and equal the labels."
        return ""

    def _settling(self) -> str:
        """How many labels would show that the error is within the limit, or that none may be enough."""
        verdict, nouns = self.verdict, self.voice.nouns
        if verdict.row_count < FEWEST_ROWS:
            rows = plural(verdict.row_count, nouns.row, nouns.rows)
            return f"{rows} cannot tell how many labels would show whether the error is within the limit."
        shown = {"line": "the fitted line", "mean": "the mean"}.get(verdict.rung or "")
        before = f"{shown} is within the limit; " if shown else ""
        if verdict.more_labels is None and verdict.n_groups is not None:
            return f"{before}these groups are too few, or too unequal, to see the curve."
        if verdict.more_labels is None:
            return f"{before}even many {nouns.more_labels} may not show whether the error is within the limit."
        rate = verdict.events / verdict.row_count
        few = round_up(verdict.more_labels * min(rate, 1.0 - rate))
        name = nouns.events if rate <= 0.5 else nouns.others
        labels = f"about {verdict.more_labels:,} {nouns.more_labels} (about {few:,} {name})"
        if before:
            return f"{before}{labels} would probably show the same of the curve, if its error is small."
        return f"{labels} would probably show that the error is within the limit, if it is small."

    # ------------------------------------------------------------------------------------------------------- facts

    def _counted(self) -> str:
        """Predicted and observed events, their difference and the expected range."""
        verdict, nouns, more = self.verdict, self.voice.nouns, ""
        ratio = verdict.events / verdict.predicted - 1.0 if verdict.predicted > 0.0 and verdict.events > 0.0 else 0.0
        if abs(ratio) > ROUNDING_ERROR and amount(verdict.predicted) != amount(verdict.events):
            more = f" ({percent(abs(ratio))} {'more' if ratio > 0.0 else 'fewer'})"
        span = "" if verdict.only_ends else f"; 95 % expected range {' to '.join(map(amount, verdict.expected))}"
        counted = f"Predicted {amount(verdict.predicted)} {nouns.events}, {amount(verdict.events)} observed{more}{span}"
        outside = not verdict.expected[0] <= verdict.events <= verdict.expected[1]
        if outside and verdict.intercept is not None and not verdict.against.found and not verdict.joint:
            more = " They are outside the range, which chance alone brings about in 5 % of samples; the test is at 1 %."
        else:
            more = ""
        if verdict.counts or verdict.fractional:
            return f"{counted} ({row_text(verdict, nouns)}).{more}"
        return (
            f"{counted} ({row_text(verdict, nouns)}, weighted). Ratios, intercept and slope describe the "
            f"population that the weights restore, not the {nouns.rows} as sampled."
        )

    def _constant(self) -> list[str]:
        """The observed rate and its exact interval, if all rows have one score."""
        verdict, nouns, tally = self.verdict, self.voice.nouns, self.verdict.tally
        constant = tally is not None and tally.resolution == "exact" and len(tally.n) == 1
        if not constant or verdict.joint or not verdict.counts or verdict.n_groups is not None:
            return []
        low, high = clopper_pearson(verdict.events, verdict.rows, 0.05)
        rate, ends = verdict.events / verdict.rows, f"{100 * float(low):.1f} to {100 * float(high):.1f} %"
        return [f"All {nouns.rows} have one {nouns.score}. Observed: {100 * rate:.1f} % (95 % CI {ends})."]

    def _curve(self) -> list[str]:
        curve, limit = self.verdict.curve, self.verdict.limits.curve
        if curve is None or self.verdict.joint:
            return []
        ends = [f"{odds(error)}{self._points(error)}" for error in (curve.value, curve.high, limit)]
        lowest = odds(curve.low)
        name, seen = (
            "Typical error of the curve",
            f"Seen at the resolution of {curve.ranges:,} ranges of {self.voice.nouns.scores}.",
        )
        if curve.ranges == 1:
            name, seen = (
                "Error of the mean",
                f"The {self.voice.nouns.rows} are too few, or too much alike, to see the curve.",
            )
        return [
            f"{name}: odds off by a factor of {ends[0]}; at most {ends[1]} and at least {lowest}, each with 95 % "
            f"confidence; limit {ends[2]}. {seen}"
        ]

    def _points(self, error: float) -> str:
        """A small error in points of rates."""
        if self.verdict.curve is None or error > SMALL_ERROR:
            return ""
        return f" ({100.0 * error * self.verdict.curve.points:.2g} points)"

    def _everywhere(self) -> list[str]:
        """Segments that are all off on one side: how far, and what one correction for all of them would leave."""
        verdict = self.verdict
        if not verdict.everywhere:
            return []
        ratios = [each.events / each.predicted for each in verdict.segments if each.judged and each.predicted > 0.0]
        off = [each for each in verdict.corrected if each.off]
        left = "none of them is significantly off"
        if off:
            names = listed([self._part(each) for each in off[:SHOWN_SEGMENTS]])
            left = f"{len(off):,} of them {'is' if len(off) == 1 else 'are'} significantly off: {names}"
        return [
            f"Off everywhere: observed / predicted {min(ratios):.2f} to {max(ratios):.2f} in all {len(ratios):,} "
            f"segments; after a common correction of intercept and slope {left}."
        ]

    def _intercept(self) -> list[str]:
        level, tau = self.verdict.intercept, self.verdict.limits.intercept
        if level is None:
            return []
        ends = () if tau is None else (-tau, tau)
        digits = max(digits_apart(each, *ends) if ends else 2 for each in (level.value, level.low, level.high))
        limit = "" if tau is None else f"; limit -{tau:g} to +{tau:g}"
        return [
            f"Intercept: the odds are {_factor(level.value)} what the {self.voice.nouns.scores} say (log-odds "
            f"{level.value:+z.{digits}f}, 95 % CI {between(level.low, level.high, digits, sign=True)}{limit})."
        ]

    def _slope(self) -> list[str]:
        slope, scores = self.verdict.slope, self.voice.nouns.scores
        if slope is None:
            return []
        tau = self.verdict.limits.slope
        ends = () if tau is None else (1.0 - tau, 1.0 + tau)
        digits = max(digits_apart(each, *ends) if ends else 2 for each in (slope.value, slope.low, slope.high))
        limit = f"; limit {ends[0]:.2f} to {ends[1]:.2f}" if ends else ""
        separated = f"not finite: the {scores} separate the classes"
        shown = separated if math.isinf(slope.value) else f"{slope.value:.{digits}f}"
        meaning, shown_side = "1 is ideal", self.verdict.against.slope_side
        if slope.high < 1.0 and shown_side:
            meaning = f"below 1 the {scores} are too extreme"
        elif slope.low > 1.0 and shown_side:
            meaning = f"above 1 the {scores} are not extreme enough"
        return [f"Slope: {shown} (95 % CI {between(slope.low, slope.high, digits)}{limit}); {meaning}."]

    def _gain(self, gain: Gain, how: str) -> str:
        """The gain from recalibration: significant, negligible, harmful or not significant."""
        low, high = gain.interval
        if gain.clear:
            return (
                f"Recalibration with {gain.method} would cut the log loss by {percent(gain.share)} ({how}: "
                f"{gain.before:.4f} to {gain.after:.4f})."
            )
        if max(abs(low), abs(high)) <= NEGLIGIBLE_GAIN:
            return f"Recalibration with {gain.method} would change the log loss by less than 1 % ({how})."
        if high < 0.0:
            few = "" if self.verdict.next_step == "keep" else f": these {self.voice.nouns.rows} are too few to fit it"
            return (
                f"Recalibration with {gain.method} would increase the log loss by {percent(-gain.share)} ({how}){few}."
            )
        return (
            f"Recalibration with {gain.method} changes the log loss by {signed_percent(-gain.share)} ({how}; 95 % CI "
            f"{signed_percent(-high)} to {signed_percent(-low)}), which is not significant."
        )


def _scanned(name: str, every: Sequence[Segment], most: int, order: str = "") -> list[str]:
    """How many were tested, how many are off or cannot be judged, and the first of those that are off.

    ``order`` says how they are sorted, if there is more than one.
    """
    if not every:
        return []
    off = [each for each in every if each.off]
    unknown = sum(not each.judged for each in every)
    if unknown == len(every):
        return [f"{name}: none of {unknown:,} testable (too few groups)."]
    found = f"{f'{len(off):,}' if off else 'none'} of {len(every) - unknown:,} significantly off"
    if unknown:
        found += f"; {unknown:,} not testable (too few groups)"
    found += order if len(off) > 1 else ""
    if not off:
        least = next(each for each in every if each.judged)
        return [f"{name}: {found} (most conspicuous: {least.name}, adjusted p {p_text(least.p_value)})."]
    lines = [f"{name}: {found}:", *(f"  {each}" for each in off[:most])]
    return lines + ([f"  and {len(off) - most:,} more"] if len(off) > most else [])


def odds(error: float) -> str:
    """An error in log-odds as a factor of the odds."""
    return f"{math.exp(min(error, 30.0)):{'.2f' if error < 2.3 else ',.0f'}}"


def _factor(log_odds: float) -> str:
    factor = math.exp(min(max(log_odds, -30.0), 30.0))
    return f"{factor:.2f} times" if 0.01 <= factor < 100.0 else f"{factor:{',.0f' if factor > 1.0 else '.2g'}} times"


def _share(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.005 else f"{100 * share:.1g} %"


def _score(score: float) -> str:
    """A score to three digits; near 1, three digits of its distance from 1."""
    near = min(score, 1.0 - score)
    digits = 2 - math.floor(math.log10(near)) if near > 1e-12 else 2
    return f"{score:.{digits}f}".rstrip("0").rstrip(".")
