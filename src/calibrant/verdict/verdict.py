"""The result of :func:`calibrant.check`: a status, the numbers behind it and its text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from calibrant.arrays.rows import labels_as_fractions
from calibrant.messages import PYTHON, InputError, MissingPackage, Note, Voice
from calibrant.metrics.tolerance import Limits
from calibrant.notebook import AMBER, GREEN, RED, stacked, text_block
from calibrant.tallies import Tally
from calibrant.verdict.decision import Against, Beyond, Direction, Rung, Status
from calibrant.verdict.discovery import Region
from calibrant.verdict.gain import Gain
from calibrant.verdict.hints import hints_of
from calibrant.verdict.multiclass.by_class import voice_of
from calibrant.verdict.segments import Order, Segment, sort_segments, stake
from calibrant.verdict.sentences import SHOWN_SEGMENTS, Wording
from calibrant.verdict.shape import Misfit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant.displays.reliability import CurveKind, ReliabilityDisplay

Size = Literal["within", "beyond", "unsettled"]

Finding = Literal["beyond", "range", "classes", "segments", "periods", "region", "bias", "off"]
"""What a headline reports, the worst first: the whole is beyond the limit; a range of scores, a class, a segment, a
period or a region is; the mean is significantly biased; another test rejects perfect calibration."""

NextStep = Literal["keep", "recalibrate", "collect"]
"""What to do: keep the scores, recalibrate them (all, or the part that is off), or collect labels."""

COLORS: dict[Status, str] = {
    "calibrated": GREEN,
    "miscalibrated": RED,
    "off": RED,
    "cannot tell": AMBER,
}


@dataclass(frozen=True)
class Number:
    """An estimate, its 95 % interval and standard error, also for a wrong model, and the p-value of calibration."""

    value: float
    low: float
    high: float
    se: float
    p_value: float


@dataclass(frozen=True)
class Curve:
    """The error of the calibration curve in log-odds, seen in ranges of the scores.

    Attributes
    ----------
    value, low, high
        The typical error (a root mean square), and the ends of its 90 % interval: each side misses in at most 5 % of
        samples.
    points
        An error of one in log-odds is this many points of rates (a root mean square over the rows).
    ranges
        Number of ranges: waves that are finer are not seen.
    """

    value: float
    low: float
    high: float
    points: float
    ranges: int


@dataclass(frozen=True)
class Verdict:
    """The result of :func:`calibrant.check`: print it, or read its attributes.

    Attributes
    ----------
    status
        ``"calibrated"``: the error of the curve is shown to be within the limit. ``"miscalibrated"``: it is shown to be
        beyond. ``"off"``: chance is excluded, and whether the error is beyond the limit is not settled.
        ``"cannot tell"``: chance is not excluded, and the error is not shown to be within the limit.
    against
        Tests of perfect calibration: ``.intercept`` and ``.slope`` (p-values), ``.shape`` (the score range that fits
        worst, if significant), and ``.found``, whether any of the three rejects.
    beyond
        What is shown to be beyond the limit: ``.curve``, ``.intercept`` and ``.slope`` (if they have limits of their
        own), ``.found`` (any of these), and ``.shape``, a range of scores.
    rows, events, predicted, expected
        Rows, observed events, predicted events (the sum of the scores) and the expected range: the central 95 % of the
        number of events of a calibrated model. Importance weights are scaled so that the weights of the events add up
        to the number of events.
    row_count
        Number of rows, regardless of their weights.
    counts
        Whether ``rows`` and ``events`` are counts, not sums of importance weights.
    intercept
        Calibration in the large: the shift of all log-odds that makes the predicted events equal the observed ones.
        None if the labels contain only one class.
    slope
        Slope of the log-odds; below 1 the scores are too extreme. None where the data do not define it.
    limits
        The limit of the curve and, if they were passed, those of intercept and slope; as applied.
    curve
        The error of the curve; None with one class, or too few groups.
    only_ends
        Whether scores are 0 and 1 and nothing else: classes, not probabilities.
    gain
        Log loss before and after recalibration, cross-fitted.
    forward
        Whether the gain is measured by walk-forward periods: each is predicted from earlier ones.
    more_labels
        Roughly how many more labels would show that the curve is within the limit in four of five samples of a
        calibrated model; if there are that many rows already, of a model with the estimated error. None unless the
        status is ``"cannot tell"``, and below 20 rows.
    segments, periods
        Predicted and observed events: segments that are significantly off come first, periods in order of time.
    corrected
        The same segments after one correction of intercept and slope for all of them, if the model as a whole is off.
    alone
        See :meth:`margins`.
    rung
        What is shown to be within the limit: ``"curve"``, ``"line"`` (intercept and slope), ``"mean"`` or None.
    region
        With ``discover=``: the region of the features where the model is most off, tested on rows not used to find it.
    event
        What the event is called in the text, singular and plural; None for "event".
    n_groups, few_groups, effective_rows
        Number of groups of dependent rows; whether they are too few to estimate the variance between groups; effective
        sample size for the intercept.
    ranking
        Area under the ROC curve.
    at_ends
        Events at a score of exactly 0, and non-events at a score of exactly 1.
    notes
        Further remarks.
    in_sample, overlap, crossfitted
        With ``calibration=``: whether the map was fitted to some of these rows, and to about which share of them; None
        if unknown. Whether the verdict is about cross-fitted maps instead.
    notion
        Several classes or labels: what the status is about, ``"confidence"``, ``"top-label"``, ``"class-wise"`` or
        ``"multi-label"``; None for one score. The numbers above are then about the confidence: an event is a predicted
        class that is right. For a multi-label target they are about all labels together.
    classes
        Verdict on each class or label, by name: the class against the rest or, for ``"top-label"`` and maps that give
        only the predicted class, the confidence among the rows predicted as this class. Adjusted for their number.
    never_predicted
        Classes that are not in :attr:`classes`, because no row is predicted as one of them.
    p_value
        In a verdict of :attr:`classes`: p-value of perfect calibration, adjusted by Holm's method.
    gains
        Several classes: every map that was tried, the one to use first (it is also ``gain``).
    tally
        Rows and events by score, for :meth:`plot`.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2_000)
    >>> verdict = cb.check(scores, rng.random(2_000) < scores**2)
    >>> verdict.status, verdict.findings, verdict.next_step
    ('miscalibrated', ('beyond', 'bias'), 'recalibrate')
    """

    status: Status
    against: Against
    beyond: Beyond
    rows: float
    events: float
    row_count: float
    counts: bool
    predicted: float
    expected: tuple[float, float]
    intercept: Number | None
    slope: Number | None
    limits: Limits
    curve: Curve | None
    only_ends: bool
    gain: Gain | None
    forward: bool
    more_labels: int | None
    segments: tuple[Segment, ...]
    periods: tuple[Segment, ...]
    n_groups: int | None
    few_groups: bool
    effective_rows: float
    ranking: float | None
    at_ends: tuple[float, float]
    notes: tuple[Note, ...]
    in_sample: bool | None = None
    overlap: float | None = None
    crossfitted: bool = False
    notion: str | None = None
    classes: Mapping[str, Verdict] = field(default_factory=dict)
    p_value: float | None = None
    gains: tuple[Gain, ...] = ()
    never_predicted: tuple[str, ...] = ()
    region: Region | None = None
    corrected: tuple[Segment, ...] = ()
    alone: tuple[Segment, ...] = ()
    rung: Rung | None = None
    event: tuple[str, str] | None = None
    tally: Tally | None = field(default=None, repr=False, compare=False)

    def __bool__(self) -> bool:
        """Always an error: there are four statuses."""
        raise TypeError('a verdict is not a boolean: compare its status, as in verdict.status == "calibrated"')

    @property
    def size(self) -> Size:
        """Whether the model is shown to be within the limit, or beyond it, or neither."""
        return "within" if self.status == "calibrated" else "beyond" if self.status == "miscalibrated" else "unsettled"

    # ------------------------------------------------------------------------------------------------------- parts

    @property
    def fractional(self) -> bool:
        """Whether labels are fractions, so that weights are halves of rows."""
        return any(each.code == labels_as_fractions.code for each in self.notes)

    @property
    def deviations(self) -> tuple[Direction | Misfit, ...]:
        """Significant deviations: intercept, slope or one score range.

        A direction is named if an interval that is right for a wrong model excludes the ideal value, at the same level.
        """
        if self.joint:
            return ()
        if self.only_ends:
            return (Direction.ONLY_ENDS,) if self.status == "miscalibrated" else ()
        found: list[Direction | Misfit] = []
        if self.against.by_intercept and self.against.intercept_side:
            found.append(Direction.TOO_LOW if self.events > self.predicted else Direction.TOO_HIGH)
        if self.slope is not None and self.against.by_slope and self.against.slope_side:
            found.append(Direction.TOO_EXTREME if self.slope.value < 1.0 else Direction.NOT_EXTREME_ENOUGH)
        shape = self.leading_shape
        if not found and shape is None and self.against.found:
            found.append(Direction.NOT_ESTABLISHED)
        return tuple(found) if shape is None else (shape, *found)

    @property
    def leading_shape(self) -> Misfit | None:
        """The score range to name: beyond a limit that the whole is not beyond, or if no direction is established."""
        alone = self.against.range_alone
        return self.beyond.shape if self.beyond.shape is not None and (alone or not self.beyond.found) else alone

    @property
    def hints(self) -> tuple[Note, ...]:
        """Likely causes suggested by the numbers, each with a fix."""
        return hints_of(self)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the headline says: at most two findings, the worst first.

        Of calibrated models at most 5 % have any, with ``by`` and ``discover`` together.
        """
        whole = not self.joint
        there: dict[Finding, bool] = {
            "beyond": self.status == "miscalibrated",
            "range": whole and self.beyond.shape is not None and self.leading_shape is self.beyond.shape,
            "classes": bool(self.classes_beyond),
            "segments": bool(self._named_segments),
            "periods": bool(self.off_periods),
            "region": self.region is not None and self.region.beyond,
            "bias": whole and self.against.by_intercept and self.against.intercept_side,
        }
        found = tuple(name for name, is_found in there.items() if is_found)[:2]
        return found or (("off",) if self.status == "off" or (whole and self.against.found) else ())

    @property
    def next_step(self) -> NextStep | None:
        """What to do; None where rows of this kind cannot answer, however many there are."""
        parts = {"range", "classes", "segments", "periods", "region"}
        if self.status in ("miscalibrated", "off") or parts.intersection(self.findings):
            return "recalibrate"
        if self.status == "calibrated":
            return "keep"
        return None if self.only_ends or (self.in_sample and not self.crossfitted) else "collect"

    @property
    def excess(self) -> float:
        """Observed minus predicted events."""
        return self.events - self.predicted

    @property
    def everywhere(self) -> bool:
        """Whether the model as a whole is off, and all segments are significantly off on the same side."""
        judged = [each for each in self.segments if each.judged]
        alike = all(each.off and each.predicted > 0.0 for each in judged) and len({e.excess > 0.0 for e in judged}) == 1
        return len(self.corrected) > 1 and len(judged) > 1 and alike

    @property
    def _named_segments(self) -> tuple[Segment, ...]:
        """Segments of the headline: those beyond the limit or, of a model that is off anyway, those that are off."""
        if self.everywhere:
            return self.apart
        return self.worst_segments if self.status in ("miscalibrated", "off") else self.off_segments

    @property
    def apart(self) -> tuple[Segment, ...]:
        """Where the model is off everywhere: the segments that one correction for all of them would leave off."""
        return tuple(each for each in self.corrected if each.off) if self.everywhere else ()

    @property
    def off_segments(self) -> tuple[Segment, ...]:
        """Segments that are shown to be beyond the limit."""
        return tuple(segment for segment in self.segments if segment.beyond)

    @property
    def off_periods(self) -> tuple[Segment, ...]:
        """Periods that are shown to be beyond the limit."""
        return tuple(period for period in self.periods if period.beyond)

    @property
    def classes_beyond(self) -> tuple[str, ...]:
        """Classes or labels that are shown to be beyond the limit, most significant first."""
        return tuple(name for name in self.off_classes if self.classes[name].status == "miscalibrated")

    def margins(self) -> tuple[Segment, ...]:
        """With several columns in ``by``, whose cells are the segments: the values of each column alone."""
        return self.alone

    @property
    def worst_segments(self) -> tuple[Segment, ...]:
        """Up to five segments that are significantly off, after Holm's correction for all segments."""
        return tuple(segment for segment in self.segments if segment.off)[:SHOWN_SEGMENTS]

    @property
    def joint(self) -> bool:
        """Whether the status is that of all classes or labels together."""
        return self.notion not in (None, "confidence")

    @property
    def off_classes(self) -> tuple[str, ...]:
        """Classes or labels that are miscalibrated or off after adjustment for their number, most significant first."""
        off = [name for name, each in self.classes.items() if each.status in ("miscalibrated", "off")]
        return tuple(sorted(off, key=lambda name: (self.classes[name].status == "off", self.classes[name].p_value)))

    @property
    def summary(self) -> dict[str, Any]:
        """Status, counts, intercept and slope as data for JSON."""
        names = ("status", "rows", "events", "predicted", "expected", "intercept", "slope", "p_value")
        data = plain(asdict(replace(self, classes={})))
        return {name: data[name] for name in names} | {"direction": list(self.direction)}

    # ------------------------------------------------------------------------------------------------------- words

    def in_words(self, voice: Voice = PYTHON) -> Wording:
        """Caution, headline, sentences, hints and notes with the nouns of a voice; ``str`` gives the whole text."""
        return Wording(self, voice_of(self, voice))

    def say(self, voice: Voice) -> str:
        """The whole verdict as text with the nouns of a voice."""
        return str(self.in_words(voice))

    @property
    def caution(self) -> str:
        """A warning shown above the headline when the map was fitted to these rows; otherwise empty."""
        return self.in_words().caution

    @property
    def headline(self) -> str:
        """The status and the direction of the deviation, in one line."""
        return self.in_words().headline

    @property
    def direction(self) -> tuple[str, ...]:
        """How the probabilities deviate: one short phrase per deviation."""
        return self.in_words().direction

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings behind the headline, one sentence each."""
        return self.in_words().sentences

    def __str__(self) -> str:
        """The whole verdict as text."""
        return str(self.in_words())

    def to_dict(self) -> dict[str, Any]:
        """The verdict as data for JSON; numbers that are not finite become None."""
        words, data = self.in_words(), plain(asdict(replace(self, classes={})))
        data["classes"] = {name: each.summary for name, each in self.classes.items()}
        for name in ("segments", "periods", "corrected", "alone"):
            for each, part in zip(data[name], getattr(self, name), strict=True):
                each |= {"off": part.off, "judged": part.judged, "beyond": part.beyond, "direction": part.direction}
        if self.region is not None:
            data["region"] |= {"off": self.region.off, "beyond": self.region.beyond, "name": self.region.name}
        for name, found in (("against", self.against), ("beyond", self.beyond)):
            data[name] |= {"found": found.found}
            if found.shape is not None:
                where = {"where": words.range(found.shape.where), "range": data[name]["shape"]["where"]}
                data[name]["shape"] |= where
        return {
            "status": self.status,
            "size": self.size,
            "findings": list(self.findings),
            "next_step": self.next_step,
            "caution": words.caution,
            "headline": words.headline,
            "direction": list(words.direction),
            "sentences": list(words.sentences),
            "hints": plain([hint.as_dict(words.voice) for hint in self.hints]),
            **{key: value for key, value in data.items() if key not in ("status", "tally")},
            "notes": plain([note.as_dict(words.voice) for note in self.notes]),
        }

    def plot(
        self,
        ax: Axes | None = None,
        *,
        curve: CurveKind = "isotonic",
        figsize: tuple[float, float] | None = None,
        title: str | None = None,
        caption: str | None = None,
    ) -> ReliabilityDisplay:
        """Draw the reliability diagram of the rows that were judged, below the headline, with the segments beside it.

        Parameters
        ----------
        ax, figsize, title, caption
            As in :meth:`calibrant.displays.base.Display.plot`.
        curve
            ``"isotonic"``, ``"bins"`` or ``"spline"``, as in :class:`~calibrant.displays.ReliabilityDisplay`.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn; its attributes ``ax_`` and ``figure_`` are those of matplotlib. With ``by=`` the figure
            also has observed over predicted events of each segment, those that are off first.
        """
        from calibrant.displays.drawing import panels, style
        from calibrant.displays.reliability import ReliabilityDisplay
        from calibrant.displays.segments import SegmentsDisplay

        if self.tally is None:
            raise InputError("verdict", "does not hold its rows", "plot the verdict that calibrant.check returned")
        display = ReliabilityDisplay.from_predictions(self.tally, curve=curve)
        text = f"{self.headline}\n{display.caption}" if caption is None else caption
        if not self.segments:
            return display.plot(ax, figsize=figsize, title=title, caption=text)
        if ax is not None and figsize is not None:
            raise InputError("figsize", "is the size of a new figure, but ax was passed", "pass only one of them")
        beside, (width, height) = SegmentsDisplay(self.segments), display.size
        ax = style.new_axes(ax, figsize or (width + beside.size[0], height))
        panel = panels.panel_beside(ax, 0.5, own=True)
        display.plot(ax, title=title, caption=text)
        beside.plot(panel, caption=caption)
        return display

    def segment_frame(
        self, sort: Order = "effect", *, top: int | None = None, value: Mapping[Any, float] | None = None
    ) -> Any:
        """All segments and then all periods as a pandas frame, one row each, in the order of :attr:`segments`.

        Parameters
        ----------
        sort
            Order of the segments: ``"effect"``, as in :attr:`segments`; ``"events"``; ``"rows"``; or ``"stake"``, the
            least number of events that predictions are off by, times ``value``.
        top
            Number of segments, the first in this order; by default all. Periods are then left out.
        value
            What one event is worth, by segment; 1 by default.

        Returns
        -------
        pandas.DataFrame
            The fields of :class:`~calibrant.verdict.segments.Segment`, and ``off`` (significant after adjustment),
            ``judged`` (could be tested), ``excess`` (observed minus predicted events), ``least_excess`` (its size at
            the end of the interval that is nearer to 0), ``stake`` and ``beyond`` (shown to be beyond the limit).
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingPackage("a frame of segments", "pandas", "pandas", "to_dict() does without it") from None
        found = sort_segments(self.segments, sort, value)
        every = [*found, *self.periods] if top is None else found[:top]
        names = [*(field.name for field in fields(Segment)), "off", "judged", "excess", "least_excess"]
        table = {name: [getattr(each, name) for each in every] for name in names}
        table["stake"] = [stake(each, value if place < len(found) else None) for place, each in enumerate(every)]
        return pd.DataFrame(table | {"beyond": [each.beyond for each in every]})

    @property
    def color(self) -> str:
        """Color of the status, safe for color-blind readers; amber if calibrated only overall, not in every segment."""
        partly = self.status == "calibrated" and self.next_step != "keep"
        return COLORS["cannot tell" if partly else self.status]

    def __rich__(self) -> str:
        """Markup for rich's console: the headline in bold."""
        words, color = self.in_words(), {GREEN: "green", RED: "red", AMBER: "yellow"}[self.color]
        lines = [f"[bold {color}]{_escaped(words.headline)}[/]", *(f"  {_escaped(fact)}" for fact in words.facts)]
        return "\n".join([_escaped(words.caution), *lines] if words.caution else lines)

    def _repr_html_(self) -> str:
        """For notebooks: the headline with a bar in the color of the status, and the findings as a list."""
        words = self.in_words()
        caution = [text_block(words.caution, COLORS["cannot tell"])] if words.caution else []
        facts = "\n".join([words.headline, *(f"  {fact.strip()}" for fact in words.facts)])
        return stacked(*caution, text_block(facts, self.color))


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")


def plain(value: Any) -> Any:
    """Data for JSON; numbers that are not finite become None."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
