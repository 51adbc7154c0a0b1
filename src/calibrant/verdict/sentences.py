"""The words of a verdict: every sentence is written here, from its numbers and in the words of a voice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibrant.messages import PYTHON, Voice
from calibrant.verdict.decision import ALPHA_LEVEL, Direction
from calibrant.verdict.figures import amount, between, digits_apart, p_text, percent, signed_percent
from calibrant.verdict.outlook import round_up
from calibrant.verdict.shape import Misfit, Range

if TYPE_CHECKING:
    from calibrant.verdict.gain import Gain
    from calibrant.verdict.segments import Segment
    from calibrant.verdict.verdict import Verdict

SHOWN_SEGMENTS = 5
SMALL = 0.01
"""Share of the loss below which a gain is called small, when the interval says so."""

Case = Callable[[str], str]


@dataclass(frozen=True)
class Wording:
    """A verdict in the words of a voice; ``str`` is the whole of it."""

    verdict: Verdict
    voice: Voice = PYTHON

    @property
    def caution(self) -> str:
        """What must be read before the headline: that the map has seen these rows. Else empty."""
        verdict, rows = self.verdict, self.voice.nouns.rows
        if not verdict.in_sample or verdict.overlap is None:
            return ""
        if verdict.crossfitted:
            return (
                f"In-sample: these {rows} were used to fit the map, so each was judged by a map fitted to other folds "
                "(cross-fitted)."
            )
        share = f"{100 * verdict.overlap:.2g}" if verdict.overlap < 0.995 else "100"
        return f"In-sample: about {share} % of these {rows} were used to fit the map, so it looks better than it is."

    @property
    def direction(self) -> tuple[str, ...]:
        """How the probabilities are off, in a few words each."""
        return self._direction(str)

    @property
    def headline(self) -> str:
        """The state and the direction, in one line."""
        verdict = self.verdict
        if verdict.state == "miscalibrated":
            by = "" if verdict.only_ends else " beyond the tolerance"
            said = " and ".join(self.direction)
            return f"MISCALIBRATED{by}: the {self.voice.nouns.probabilities} are {said}."
        if verdict.state == "calibrated":
            return self._calibrated()
        if verdict.state == "off":
            words = " AND ".join(self._direction(_loud))
            return f"{words}: chance does not explain it. {self._settling('Whether by more than the tolerance')}"
        return f"CANNOT TELL YET: {self._unknown()}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """The facts behind the headline, one sentence each."""
        verdict, nouns = self.verdict, self.voice.nouns
        said = [self._counted()]
        if verdict.only_ends:
            return tuple(said)
        said += [*self._level(), *self._slope(), *self._outside()]
        shape = verdict.leading_shape
        if shape is not None:
            explains = "the tolerance explains" if verdict.state == "miscalibrated" else "chance explains"
            said.append(
                f"In the {self.range(shape.where)}, {amount(shape.predicted)} {nouns.events} were predicted and "
                f"{amount(shape.events)} observed among {amount(shape.rows)} {nouns.rows}, a larger difference than "
                f"{explains} (adjusted p {p_text(shape.p_value)})."
            )
        if verdict.gain is not None and not any(verdict.at_ends):
            said.append(self._gain(verdict.gain))
        if verdict.groups is not None and not verdict.few_groups:
            precise = f"the level is as precise as with {verdict.effective_rows:,.0f} independent {nouns.rows}"
            if verdict.effective_rows >= verdict.row_count:
                precise = f"the groups differ no more than groups of independent {nouns.rows} would"
            said.append(f"Intervals allow for {verdict.groups:,} groups of dependent {nouns.rows}: {precise}.")
        return tuple(said)

    @property
    def hints(self) -> tuple[str, ...]:
        """Usual causes that the numbers point to, with the fix in a line."""
        return tuple(hint.say(self.voice) for hint in self.verdict.hints)

    @property
    def notes(self) -> tuple[str, ...]:
        """What else is worth knowing."""
        return tuple(note.say(self.voice) for note in self.verdict.notes)

    @property
    def facts(self) -> tuple[str, ...]:
        """All that stands below the headline: sentences, segments and periods, hints and notes."""
        verdict = self.verdict
        segments = _looked_at("Segments", verdict.segments, SHOWN_SEGMENTS)
        periods = _looked_at("Periods", verdict.periods, len(verdict.periods))
        told = (*(f"Hint: {hint}" for hint in self.hints), *(f"Note: {note}" for note in self.notes))
        return (*self.sentences, *segments, *periods, *told)

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
            return f"only 0 and 1, classes and not {self.voice.nouns.probabilities}"
        return case(deviation.value)

    def range(self, where: Range, case: Case = str) -> str:
        """A range of the scores, in words that stand after "in the"."""
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
        if segments:
            worst = f"{segments[0].column} = {segments[0].value}"
            said.append(f"in {len(segments)} of {len(verdict.segments)} segments (worst: {worst})")
        if periods:
            said.append(f"in {len(periods)} of {len(verdict.periods)} periods (last: {periods[-1].value})")
        return said

    def _unknown(self) -> str:
        verdict, nouns = self.verdict, self.voice.nouns
        if verdict.events in (0.0, verdict.rows):
            return "the labels hold only one class."
        if verdict.few_groups:
            return f"{verdict.groups} groups are too few to see how groups differ; at least 10 are needed."
        if verdict.in_sample and not verdict.crossfitted:
            return f"the map has seen these {nouns.rows}; judge it on others."
        if verdict.only_ends:
            return f"the {nouns.scores} are only 0 and 1, and equal the labels."
        return self._settling("whether it is within the tolerance")

    def _settling(self, question: str) -> str:
        """How many labels answer a question, or that it is too close to the tolerance for any number."""
        verdict, nouns = self.verdict, self.voice.nouns
        if verdict.more_labels is None:
            return f"{question} is too close to call: {nouns.more_labels} may not settle it."
        rate = verdict.events / verdict.row_count
        few = round_up(verdict.more_labels * min(rate, 1.0 - rate))
        name = nouns.events if rate <= 0.5 else f"non-{nouns.events}"
        return (
            f"{question} is not settled: about {verdict.more_labels:,} {nouns.more_labels} (about {few:,} {name}) "
            "would probably settle it."
        )

    # ------------------------------------------------------------------------------------------------------- facts

    def _counted(self) -> str:
        """Predicted and observed events, their difference, and what to expect."""
        verdict, nouns, more = self.verdict, self.voice.nouns, ""
        if verdict.predicted > 0.0 and verdict.events > 0.0 and verdict.events != verdict.predicted:
            ratio = verdict.events / verdict.predicted - 1.0
            more = f" ({percent(abs(ratio))} {'more' if ratio > 0.0 else 'fewer'})"
        span = "" if verdict.only_ends else f"; expected range {' to '.join(map(amount, verdict.expected))}"
        counted = f"Predicted {amount(verdict.predicted)} {nouns.events}, {amount(verdict.events)} observed{more}{span}"
        if verdict.counts:
            return f"{counted} ({amount(verdict.row_count)} {nouns.rows})."
        return (
            f"{counted} ({amount(verdict.row_count)} {nouns.rows}, weighted). Ratios, level and slope are those of the "
            f"population that the weights restore, not of the {nouns.rows} as sampled."
        )

    def _level(self) -> list[str]:
        level, tau = self.verdict.level, self.verdict.tolerance[0]
        if level is None:
            return []
        digits = digits_apart(level.value, -tau, tau)
        return [
            f"Level: the odds are {_factor(level.value)} what the {self.voice.nouns.scores} say (log-odds "
            f"{level.value:+.{digits}f}, 95 % CI {between(level.low, level.high, digits, sign=True)}; tolerated "
            f"-{tau:g} to +{tau:g})."
        ]

    def _slope(self) -> list[str]:
        slope, scores = self.verdict.slope, self.voice.nouns.scores
        if slope is None:
            return []
        low, high = 1.0 - self.verdict.tolerance[1], 1.0 + self.verdict.tolerance[1]
        digits = digits_apart(slope.value, low, high)
        separated = f"not finite, the {scores} separate the classes"
        shown = separated if math.isinf(slope.value) else f"{slope.value:.{digits}f}"
        return [
            f"Slope: {shown} (95 % CI {between(slope.low, slope.high, digits)}; tolerated {low:.2f} to {high:.2f}); "
            f"below 1 the {scores} are too extreme."
        ]

    def _outside(self) -> list[str]:
        """Why an interval or a number that a reader would call off is no evidence yet."""
        verdict, nouns, said = self.verdict, self.voice.nouns, []
        sure, looks = f"{100 * (1 - ALPHA_LEVEL):g} %", f"it looks at level, slope and ranges of the {nouns.scores}"
        if verdict.state == "off" and verdict.outside_at_95:
            said.append(f"A 95 % interval lies outside the tolerance. The verdict asks for {sure}, because {looks}.")
        expected = verdict.expected[0] <= verdict.events <= verdict.expected[1]
        if verdict.level is not None and not verdict.against.found and not expected:
            said.append(
                f"The observed {nouns.events} are outside the expected range, in which they fall 95 % of the time. The "
                f"verdict asks for {sure} before it calls that evidence, because {looks}."
            )
        return said

    def _gain(self, gain: Gain) -> str:
        """The gain in words: clear, small, or not to be told from chance."""
        how = "walking forward in time" if self.verdict.forward else "cross-fitted"
        low, high = gain.interval
        if gain.clear:
            return (
                f"Recalibration with {gain.method} would cut the log loss by {percent(gain.share)} ({how}: "
                f"{gain.before:.4f} to {gain.after:.4f})."
            )
        if max(abs(low), abs(high)) <= SMALL:
            return f"Recalibration with {gain.method} would change the log loss by less than 1 % ({how})."
        if high < 0.0:
            return (
                f"Recalibration with {gain.method} would do harm: {signed_percent(-gain.share)} log loss when {how}. "
                f"Keep the {self.voice.nouns.scores} as they are."
            )
        return (
            f"Recalibration with {gain.method} changed the log loss by {signed_percent(-gain.share)} when {how}, which "
            f"may be chance (95 % CI {signed_percent(-high)} to {signed_percent(-low)})."
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


def _loud(word: str) -> str:
    """Upper case, but for abbreviations such as PDs."""
    return word.upper() if word.islower() else word


def _factor(log_odds: float) -> str:
    factor = math.exp(min(max(log_odds, -30.0), 30.0))
    return f"{factor:.2f} times" if 0.01 <= factor < 100.0 else f"{factor:.2g} times"


def _share(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.005 else f"{100 * share:.1g} %"


def _score(score: float) -> str:
    """A score to three digits, counted from 1 where it is near 1."""
    near = min(score, 1.0 - score)
    digits = 2 - math.floor(math.log10(near)) if near > 1e-12 else 2
    return f"{score:.{digits}f}".rstrip("0").rstrip(".")
