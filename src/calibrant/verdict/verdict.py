"""The verdict as a value: four states, what they rest on, and the words for them."""

from __future__ import annotations

import html
import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from calibrant.messages import PYTHON, Note, Voice
from calibrant.verdict.decision import Against, Beyond, Direction, State
from calibrant.verdict.gain import Gain
from calibrant.verdict.hints import hints_of
from calibrant.verdict.segments import Segment
from calibrant.verdict.sentences import SHOWN_SEGMENTS, Wording
from calibrant.verdict.shape import Misfit

Size = Literal["within", "beyond", "unsettled"]

COLORS: dict[State, str] = {
    "calibrated": "#009E73",
    "miscalibrated": "#D55E00",
    "off": "#D55E00",
    "cannot tell": "#E69F00",
}


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
    notes: tuple[Note, ...]
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

    # ------------------------------------------------------------------------------------------------------- parts

    @property
    def deviations(self) -> tuple[Direction | Misfit, ...]:
        """How the probabilities are off, beyond the tolerance where that is shown: level, slope, or one range."""
        beyond = self.state == "miscalibrated"
        if self.only_ends:
            return (Direction.ONLY_ENDS,) if beyond else ()
        found: list[Direction | Misfit] = []
        if beyond and self.beyond.level and self.level is not None:
            found.append(Direction.TOO_LOW if self.level.value > 0.0 else Direction.TOO_HIGH)
        elif not beyond and self.against.by_level:
            found.append(Direction.TOO_LOW if self.events > self.predicted else Direction.TOO_HIGH)
        if self.slope is not None and (self.beyond.slope if beyond else self.against.by_slope):
            found.append(Direction.TOO_EXTREME if self.slope.value < 1.0 else Direction.NOT_EXTREME_ENOUGH)
        shape = self.leading_shape
        return (*found, *(() if shape is None else (shape,)))

    @property
    def leading_shape(self) -> Misfit | None:
        """The range of the scores that the state rests on, where it does not rest on level or slope."""
        return (self.beyond if self.state == "miscalibrated" else self.against).range_alone

    @property
    def outside_at_95(self) -> bool:
        """Whether the 95 % interval of level or slope lies outside the tolerance."""
        pairs = ((self.level, 0.0, self.tolerance[0]), (self.slope, 1.0, self.tolerance[1]))
        return any(
            each is not None and (each.low > ideal + limit or each.high < ideal - limit) for each, ideal, limit in pairs
        )

    @property
    def hints(self) -> tuple[Note, ...]:
        """Usual causes that the numbers point to, with the fix in a line."""
        return hints_of(self)

    @property
    def off_segments(self) -> tuple[Segment, ...]:
        """Segments that chance does not explain and that are off by more than the tolerance."""
        return tuple(segment for segment in self.segments if segment.beyond(self.tolerance[0]))

    @property
    def off_periods(self) -> tuple[Segment, ...]:
        """Periods that chance does not explain and that are off by more than the tolerance."""
        return tuple(period for period in self.periods if period.beyond(self.tolerance[0]))

    @property
    def worst_segments(self) -> tuple[Segment, ...]:
        """Up to five segments that chance does not explain, after Holm's correction for all that were looked at."""
        return tuple(segment for segment in self.segments if segment.off)[:SHOWN_SEGMENTS]

    # ------------------------------------------------------------------------------------------------------- words

    def in_words(self, voice: Voice = PYTHON) -> Wording:
        """Caution, headline, sentences, hints and notes in the words of a voice; ``str`` of it is the whole."""
        return Wording(self, voice)

    def say(self, voice: Voice) -> str:
        """The whole verdict in the words of a voice."""
        return str(self.in_words(voice))

    @property
    def caution(self) -> str:
        """What must be read before the headline: that the map has seen these rows. Else empty."""
        return self.in_words().caution

    @property
    def headline(self) -> str:
        """The state and the direction, in one line."""
        return self.in_words().headline

    @property
    def direction(self) -> tuple[str, ...]:
        """How the probabilities are off (beyond the tolerance, where that is shown), in a few words each."""
        return self.in_words().direction

    @property
    def sentences(self) -> tuple[str, ...]:
        """The facts behind the headline, one sentence each."""
        return self.in_words().sentences

    def __str__(self) -> str:
        """The whole verdict as text."""
        return str(self.in_words())

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; numbers that are not finite become None."""
        words, data = self.in_words(), plain(asdict(self))
        for name in ("segments", "periods"):
            for each, part in zip(data[name], getattr(self, name), strict=True):
                each |= {"off": part.off, "judged": part.judged, "beyond": part.beyond(self.tolerance[0])}
        for name, found in (("against", self.against), ("beyond", self.beyond)):
            data[name] |= {"found": found.found}
            if found.shape is not None:
                where = {"where": words.range(found.shape.where), "range": data[name]["shape"]["where"]}
                data[name]["shape"] |= where
        return {
            "state": self.state,
            "size": self.size,
            "caution": words.caution,
            "headline": words.headline,
            "direction": list(words.direction),
            "sentences": list(words.sentences),
            "hints": plain([hint.as_dict() for hint in self.hints]),
            **{key: value for key, value in data.items() if key != "state"},
            "notes": plain([note.as_dict() for note in self.notes]),
        }

    @property
    def color(self) -> str:
        """Color of the state, safe for color-blind readers; a calibrated model with parts that are off is amber."""
        partly = self.state == "calibrated" and (self.off_segments or self.off_periods)
        return COLORS["cannot tell" if partly else self.state]

    def __rich__(self) -> str:
        """Markup for rich's console: the headline in bold."""
        words, color = self.in_words(), {"#009E73": "green", "#D55E00": "red", "#E69F00": "yellow"}[self.color]
        lines = [f"[bold {color}]{_escaped(words.headline)}[/]", *(f"  {_escaped(fact)}" for fact in words.facts)]
        return "\n".join([_escaped(words.caution), *lines] if words.caution else lines)

    def _repr_html_(self) -> str:
        """For notebooks: the headline with a bar in the color of the state, and the sentences as a list."""
        words = self.in_words()
        items = "".join(f"<li>{html.escape(fact.strip())}</li>" for fact in words.facts)
        return (
            f'<div style="border-left:6px solid {self.color};padding:0.2em 0.8em">'
            + (f"{html.escape(words.caution)}<br>" if words.caution else "")
            + f"<strong>{html.escape(words.headline)}</strong><ul>{items}</ul></div>"
        )


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")


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
