"""The text of a verdict, written from its numbers with the nouns of a voice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibrant.guarantees.bounds import clopper_pearson
from calibrant.messages import PYTHON, Voice, listed, plural
from calibrant.metrics.tolerance import TOLERANCE
from calibrant.verdict.decision import ALPHA_INTERCEPT, Direction
from calibrant.verdict.figures import amount, between, capitalized, digits_apart, p_text, percent, signed_percent
from calibrant.verdict.multiclass.by_class import class_lines, gain_sentence, joint_headline, judged, row_text
from calibrant.verdict.outlook import FEWEST_ROWS, round_up
from calibrant.verdict.segments import ORDERS, Segment
from calibrant.verdict.shape import Misfit, Range

if TYPE_CHECKING:
    from calibrant.verdict.gain import Gain
    from calibrant.verdict.verdict import Verdict

SHOWN_SEGMENTS = 5
"""Segments listed below the headline."""
ROUNDING_ERROR = 1e-9
"""Relative difference of predicted and observed events that is not shown."""
NEGLIGIBLE_GAIN = 0.01
"""Relative change of the loss below which a gain is called negligible, if its whole interval is below it."""

Case = Callable[[str], str]


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
        return self._direction(str)

    @property
    def headline(self) -> str:
        """The status and the direction of the deviation, in one line."""
        verdict = self.verdict
        if verdict.joint:
            return joint_headline(verdict, self.voice)
        if verdict.status == "miscalibrated":
            by = "" if verdict.only_ends else " beyond the tolerance"
            said = " and ".join(self.direction)
            return f"MISCALIBRATED{by}: the {self.voice.nouns.probabilities} are {said}."
        if verdict.status == "calibrated":
            return self._calibrated()
        if verdict.status == "off":
            return f"{self.finding} {capitalized(self._settling('beyond'))}"
        return f"CANNOT TELL YET: {self._unknown()}"

    @property
    def finding(self) -> str:
        """The headline without the number of labels that would decide."""
        status = None if self.verdict.joint else self.verdict.status
        if status == "off":
            return f"{' AND '.join(self._direction(_loud))}: chance does not explain it."
        if status == "cannot tell" and not self._no_test():
            return f"CANNOT TELL YET whether the {self.voice.nouns.probabilities} are within the tolerance."
        return self.headline

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings behind the headline, one sentence each."""
        verdict, nouns = self.verdict, self.voice.nouns
        said = [*judged(verdict, self.voice), self._counted(), *self._constant()]
        if verdict.only_ends:
            return tuple(said)
        said += [*self._intercept(), *self._slope(), *([] if verdict.joint else self._outside())]
        shape = None if verdict.joint else verdict.leading_shape
        if shape is not None:
            explains = "the tolerance explains" if verdict.status == "miscalibrated" else "chance explains"
            said.append(
                f"In the {self.range(shape.where)}, {amount(shape.predicted)} {nouns.events} were predicted and "
                f"{amount(shape.events)} observed among {amount(shape.rows)} {nouns.rows}, a larger difference than "
                f"{explains} (adjusted p {p_text(shape.p_value)})."
            )
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
        segments = _scanned("Segments", verdict.segments, SHOWN_SEGMENTS, f", {ORDERS['effect']}")
        periods = _scanned("Periods", verdict.periods, len(verdict.periods))
        region = () if verdict.region is None else (f"Region: {verdict.region}",)
        remarks = (*(f"Hint: {hint}" for hint in self.hints), *(f"Note: {note}" for note in self.notes))
        return (*self.sentences, *class_lines(verdict, self.voice), *segments, *periods, *region, *remarks)

    def __str__(self) -> str:
        """The whole verdict as text."""
        before = [self.caution] if self.caution else []
        return "\n".join([*before, self.headline, *(f"  {fact}" for fact in self.facts)])

    # ---------------------------------------------------------------------------------------------------- headline

    def _direction(self, case: Case) -> tuple[str, ...]:
        return tuple(self._off(each, case) for each in self.verdict.deviations)

    def _off(self, deviation: Direction | Misfit, case: Case) -> str:
        if isinstance(deviation, Misfit):
            side = case(f"too {'low' if deviation.too_low else 'high'} in the")
            return f"{side} {self.range(deviation.where, case)}"
        if deviation is Direction.ONLY_ENDS:
            return f"only 0 and 1: predicted classes, not {self.voice.nouns.probabilities}"
        return case(deviation.value)

    def range(self, where: Range, case: Case = str) -> str:
        """A range of the scores, as a phrase that follows "in the"."""
        nouns, share = self.voice.nouns, _share(where.share)
        rows, score, scores = case(nouns.rows), case(nouns.score), case(nouns.scores)
        if where.kind == "single":
            return f"{rows} {case('with')} {score} {_score(where.low)}"
        if where.kind == "between":
            ends = f"{_score(where.low)} {case('to')} {_score(where.high)}"
            return f"{scores} {case('from')} {ends} ({share} {case('of the')} {rows})"
        return f"{case(where.kind)} {share} {case('of the')} {scores}"

    def _calibrated(self) -> str:
        where = self._off_parts()
        if where:
            return f"CALIBRATED overall, but not {' and '.join(where)}."
        if self.direction:
            return f"CALIBRATED within the tolerance, though measurably {' and '.join(self.direction)}."
        return "CALIBRATED within the tolerance."

    def _off_parts(self) -> list[str]:
        verdict, said = self.verdict, []
        segments, periods = verdict.off_segments, verdict.off_periods
        if verdict.off_classes:
            said.append(
                f"in {len(verdict.off_classes)} of {len(verdict.classes)} classes (worst: {verdict.off_classes[0]})"
            )
        if segments:
            worst = f"{segments[0].column} = {segments[0].value}"
            said.append(f"in {len(segments)} of {len(verdict.segments)} segments (worst: {worst})")
        if periods:
            said.append(f"in {len(periods)} of {len(verdict.periods)} periods (last: {periods[-1].value})")
        return said

    def _unknown(self) -> str:
        return self._no_test() or self._settling("within")

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

    def _settling(self, side: str, what: str = "it") -> str:
        """How many labels would show on which side of the tolerance it lies, or that none may be enough."""
        verdict, nouns = self.verdict, self.voice.nouns
        if verdict.row_count < FEWEST_ROWS:
            rows = plural(verdict.row_count, nouns.row, nouns.rows)
            return f"{rows} cannot tell how many labels would show whether {what} is {side} the tolerance."
        if verdict.more_labels is None:
            return f"even many {nouns.more_labels} may not show whether {what} is {side} the tolerance."
        rate = verdict.events / verdict.row_count
        few = round_up(verdict.more_labels * min(rate, 1.0 - rate))
        name = nouns.events if rate <= 0.5 else nouns.others
        return (
            f"about {verdict.more_labels:,} {nouns.more_labels} (about {few:,} {name}) would probably show whether "
            f"{what} is {side} the tolerance."
        )

    # ------------------------------------------------------------------------------------------------------- facts

    def _counted(self) -> str:
        """Predicted and observed events, their difference and the expected range."""
        verdict, nouns, more = self.verdict, self.voice.nouns, ""
        ratio = verdict.events / verdict.predicted - 1.0 if verdict.predicted > 0.0 and verdict.events > 0.0 else 0.0
        if abs(ratio) > ROUNDING_ERROR and amount(verdict.predicted) != amount(verdict.events):
            more = f" ({percent(abs(ratio))} {'more' if ratio > 0.0 else 'fewer'})"
        span = "" if verdict.only_ends else f"; 95 % expected range {' to '.join(map(amount, verdict.expected))}"
        counted = f"Predicted {amount(verdict.predicted)} {nouns.events}, {amount(verdict.events)} observed{more}{span}"
        if verdict.counts or verdict.fractional:
            return f"{counted} ({row_text(verdict, nouns)})."
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

    def _intercept(self) -> list[str]:
        level, tau = self.verdict.intercept, self.verdict.tolerance[0]
        if level is None:
            return []
        digits = max(digits_apart(each, -tau, tau) for each in (level.value, level.low, level.high))
        default = "default " if tau == TOLERANCE[0] else ""
        return [
            f"Intercept: the odds are {_factor(level.value)} what the {self.voice.nouns.scores} say (log-odds "
            f"{level.value:+z.{digits}f}, 95 % CI {between(level.low, level.high, digits, sign=True)}; "
            f"{default}tolerance -{tau:g} to +{tau:g})."
        ]

    def _slope(self) -> list[str]:
        slope, scores = self.verdict.slope, self.voice.nouns.scores
        if slope is None:
            return []
        low, high = 1.0 - self.verdict.tolerance[1], 1.0 + self.verdict.tolerance[1]
        digits = max(digits_apart(each, low, high) for each in (slope.value, slope.low, slope.high))
        separated = f"not finite: the {scores} separate the classes"
        shown = separated if math.isinf(slope.value) else f"{slope.value:.{digits}f}"
        meaning, shown_side = "1 is ideal", self.verdict.against.slope_side
        if slope.high < 1.0 and shown_side:
            meaning = f"below 1 the {scores} are too extreme"
        elif slope.low > 1.0 and shown_side:
            meaning = f"above 1 the {scores} are not extreme enough"
        return [
            f"Slope: {shown} (95 % CI {between(slope.low, slope.high, digits)}; tolerance {low:.2f} to {high:.2f}); "
            f"{meaning}."
        ]

    def _outside(self) -> list[str]:
        """Why a 95 % interval outside the tolerance, or a count outside the expected range, does not decide yet."""
        verdict, nouns, said = self.verdict, self.voice.nouns, []
        tests = f"the verdict runs three tests: intercept, slope and ranges of the {nouns.scores}"
        if verdict.status == "off" and verdict.outside_at_95:
            which = listed(verdict.outside_at_95)
            lies = "interval of the {} lies" if len(verdict.outside_at_95) == 1 else "intervals of {} lie"
            said.append(
                f"The 95 % {lies.format(which)} outside the tolerance, but a {100 * (1 - ALPHA_INTERCEPT):g} % "
                f"interval is required, because {tests}."
            )
        expected = verdict.expected[0] <= verdict.events <= verdict.expected[1]
        if verdict.intercept is not None and not verdict.against.found and not expected:
            said.append(
                f"The observed {nouns.events} are outside the 95 % expected range, but not at the "
                f"{100 * ALPHA_INTERCEPT:g} % significance level, which applies because {tests}."
            )
        return said

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
            return (
                f"Recalibration with {gain.method} would increase the log loss by {percent(-gain.share)} ({how}). Keep "
                f"the original {self.voice.nouns.scores}."
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
    lines = [f"{name}: {found}{':' if off else '.'}", *(f"  {each}" for each in off[:most])]
    return lines + ([f"  and {len(off) - most:,} more"] if len(off) > most else [])


def _loud(word: str) -> str:
    """Upper case, except for abbreviations such as PDs."""
    return word.upper() if word.islower() else word


def _factor(log_odds: float) -> str:
    factor = math.exp(min(max(log_odds, -30.0), 30.0))
    return f"{factor:.2f} times" if 0.01 <= factor < 100.0 else f"{factor:.2g} times"


def _share(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.005 else f"{100 * share:.1g} %"


def _score(score: float) -> str:
    """A score to three digits; near 1, three digits of its distance from 1."""
    near = min(score, 1.0 - score)
    digits = 2 - math.floor(math.log10(near)) if near > 1e-12 else 2
    return f"{score:.{digits}f}".rstrip("0").rstrip(".")
