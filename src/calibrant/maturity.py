"""Late labels: which rows may be counted at a moment, and what counting the others would do."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Kind, Rows, check_rows
from calibrant.arrays.columns import check_length, check_option, read_column, refuse_not_finite
from calibrant.arrays.sides import check_time, check_weights
from calibrant.fits.isotonic import fit_curve
from calibrant.messages import InputError, Note, Setting, Voice, note, plural
from calibrant.numerics import Floats
from calibrant.tallies import Tally

How = Literal["drop", "weight"]

FEWEST_DELAYS = 20
"""Mature events with a known delay that are needed before delays are used to weigh."""

LEAST_ARRIVED = 0.1
"""Young rows of an age at which fewer events have arrived are dropped: one seen event would stand for ten or more."""

_DAY = 86_400_000_000  # microseconds


@dataclass(frozen=True, eq=False)
class Matured:
    """Rows that may be counted, with their labels as known at the moment, and what was left out.

    Attributes
    ----------
    keep
        Which of the given rows are kept.
    scores, labels, sample_weight
        Columns of the kept rows, as every function here takes them; weights are None when all are 1.
    rows, events
        Kept rows and events among them, unweighted.
    young, young_events
        Rows whose window is not complete at the moment, and events seen among them so far.
    arrived
        Share of the young rows' events that should have arrived by now; NaN without delays of mature events.
    rate, naive_rate
        Event rate of the kept rows, and what counting every young row without an event as a negative would give.
    notes
        What else must be known, one sentence each.
    """

    keep: NDArray[np.bool_]
    scores: Floats
    labels: NDArray[np.uint8]
    sample_weight: Floats | None
    rows: int
    events: int
    young: int
    young_events: int
    arrived: float
    rate: float
    naive_rate: float
    how: How
    notes: tuple[Note, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The numbers; what is not finite is None."""
        names = ("rows", "events", "young", "young_events", "arrived", "rate", "naive_rate")
        numbers = {name: getattr(self, name) for name in names}
        finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        return finite | {"how": self.how, "notes": [note.as_dict() for note in self.notes]}

    def __str__(self) -> str:
        """How many rows and events, and what the naive reading would be off by."""
        arrived = "" if math.isnan(self.arrived) else f"; about {100 * self.arrived:.0f} % of theirs have arrived"
        done = "dropped" if self.how == "drop" else "weighted by what is still to come"
        text = (
            f"{plural(self.rows, 'row')} with {plural(self.events, 'event')} are counted; {plural(self.young, 'row')} "
            f"are too young and were {done} ({plural(self.young_events, 'event')} so far{arrived})."
        )
        lines = [text]
        if self.young and self.rows:
            lines.append(
                f"Counting young rows without an event as negatives would give an event rate of {self.naive_rate:.4f} "
                f"instead of {self.rate:.4f}{_off(self.naive_rate, self.rate)}."
            )
        return "\n  ".join([*lines, *map(str, self.notes)])


def mature(
    scores: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    score_time: ArrayLike,
    as_of: Any,
    horizon: Any,
    label_time: ArrayLike | None = None,
    how: How = "drop",
    positive: Any = None,
    kind: Kind | None = None,
) -> Matured:
    r"""Rows that may be counted at ``as_of`` when an event has ``horizon`` to happen and be heard of.

    A row's age a is as_of less its score time; it is mature when :math:`a \ge h`, the horizon. Dropping keeps mature
    rows alone. Weighting keeps young rows too:

    .. math::
        w = \frac{1}{F(a)} \text{ if its event was seen}, \qquad
        w = \frac{1 - r(s)}{1 - r(s)\,F(a)} \text{ otherwise},

    where F(a) is the share of events within the horizon that arrive by age a, and r(s) the event rate at score s, both
    from mature rows. At each score the weighted events are then r and the weighted others 1 - r, in expectation.

    Parameters
    ----------
    scores, y
        Scores, and labels as they are known: 1 where an event was seen.
    sample_weight
        Weights of the rows, which multiply those found here; a row of weight 0 is no row.
    score_time
        When each row was scored: numbers, dates or ISO 8601 text.
    as_of
        The moment of counting. What happened later is treated as unknown, so the past can be replayed.
    horizon
        How long an event may take: a number if times are numbers; for dates a ``timedelta`` or a number of days.
    label_time
        When each event was seen; looked at where y is 1, and may be missing elsewhere. Needed to weigh, and to tell how
        much is still to come.
    how
        ``"drop"`` or ``"weight"``.
    positive, kind
        The label that counts as the event, and what scores are, as in ``fit``.

    Notes
    -----
    Edge rules: events seen after as_of are not known yet, and events seen later than the horizon are no events; rows
    scored after as_of are dropped. Weighting needs 20 mature events with a delay, and drops young rows of an age at
    which less than 10 % of events have arrived.
    Guarantee: none in finite samples. Dropping is unbiased for mature rows, which are older than the rest. Weighting is
    consistent if delays do not depend on the score or on calendar time and the rate rises with the score; both are
    assumed, not tested. Weights are importance weights, so certificates are refused. Cost: a few passes; to weigh, a
    sort and an isotonic fit.
    References: Chapelle 2014 on delayed feedback; Ktena et al. 2019 for the weight of negatives that may not stay so.

    Examples
    --------
    >>> rows = mature(
    ...     [0.2, 0.7, 0.4, 0.8], [0, 1, 0, 1], score_time=["2026-01-01", "2026-01-05", "2026-01-28", "2026-01-30"],
    ...     as_of="2026-01-31", horizon=14,
    ... )
    >>> print(rows)
    2 rows with 1 event are counted; 2 rows are too young and were dropped (1 event so far).
      Counting young rows without an event as negatives would give an event rate of 0.5000 instead of 0.5000.
    >>> rows.scores.tolist(), rows.labels.tolist()
    ([0.2, 0.7], [0, 1])
    """
    check_option("how", how, get_args(How))
    rows = check_rows(scores, y, positive=positive, kind=kind)
    given = np.ones(len(rows.scores))
    if sample_weight is not None:
        given = check_weights(sample_weight, "importance", len(given))[0].astype(np.float64)
    window = _Window.of(rows, score_time, as_of, horizon, label_time)
    ripe = (window.age >= window.horizon) & (given > 0.0)
    young = (window.age >= 0.0) & (window.age < window.horizon) & (given > 0.0)
    share = _arrived(window, ripe & (window.labels == 1), given)
    keep, weights, notes = ripe, None if sample_weight is None else given[ripe], window.notes
    if how == "weight":
        keep, weights, notes = _weighted(rows, window, ripe, young, share, given)
    labels, counted = window.labels[keep], ripe | young
    if not keep.any():
        notes = (*notes, _nothing_mature())
    return Matured(
        keep=keep,
        scores=rows.scores[keep],
        labels=labels,
        sample_weight=weights,
        rows=len(labels),
        events=int(labels.sum()),
        young=int(young.sum()),
        young_events=int(window.labels[young].sum()),
        arrived=float(np.average(share[young], weights=given[young])) if young.any() else math.nan,
        rate=_rate(labels, weights),
        naive_rate=_rate(window.labels[counted], given[counted]),
        how=how,
        notes=notes,
    )


@dataclass(frozen=True, eq=False)
class _Window:
    """Age of each row, delay of its event (NaN where none is known) and labels as known, all at the moment."""

    age: Floats
    delay: Floats
    labels: NDArray[np.uint8]
    horizon: float
    notes: tuple[Note, ...]

    @classmethod
    def of(cls, rows: Rows, score_time: Any, as_of: Any, horizon: Any, label_time: Any) -> _Window:
        start, dated = _moments(score_time, "score_time", len(rows.scores))
        now, also_dated = _moments([as_of], "as_of", 1)
        if dated != also_dated:
            raise InputError("as_of", "and score_time must both be dates or both be numbers")
        length, labels = _length(horizon, dated), rows.labels.copy()
        notes: list[Note] = []
        delay = np.full(len(start), np.nan)
        if label_time is not None:
            delay = _delays(start, labels == 1, label_time, dated)
            unheard, late = start + delay > now[0], delay > length
            labels[unheard | late] = 0
            if (unheard & ~late).any():
                notes.append(_events_after(int((unheard & ~late).sum())))
            if late.any():
                notes.append(_late_events(int(late.sum())))
        after = int((start > now[0]).sum())
        if after:
            notes.append(_rows_after(after))
        return cls(now[0] - start, delay, labels, length, tuple(notes))


def _arrived(window: _Window, event: NDArray[np.bool_], given: Floats) -> Floats:
    """Share of mature events that had arrived by the age of each row; NaN when they are too few to say."""
    known = event & ~np.isnan(window.delay)
    if np.count_nonzero(known) < FEWEST_DELAYS:
        return np.full(len(known), np.nan)
    order = np.argsort(window.delay[known], kind="stable")
    mass = np.append(0.0, np.cumsum(given[known][order]))
    before = np.searchsorted(window.delay[known][order], window.age, side="right")
    return np.asarray(mass[before] / mass[-1])


def _weighted(
    rows: Rows,
    window: _Window,
    ripe: NDArray[np.bool_],
    young: NDArray[np.bool_],
    share: Floats,
    given: Floats,
) -> tuple[NDArray[np.bool_], Floats, tuple[Note, ...]]:
    """Rows to keep, their weights, and what they rest on."""
    if np.isnan(share).all():
        raise InputError(
            Setting("how", "weight"),
            f"needs label_time and at least {FEWEST_DELAYS} mature events to learn the delays from",
            "use how='drop'",
        )
    kept = young & (share >= LEAST_ARRIVED)
    keep = ripe | kept
    known = Rows(rows.scores[ripe], window.labels[ripe], given[ripe], False, None, None, rows.kind, ())
    rate, seen = fit_curve(Tally.from_rows(known).for_fitting()).apply(rows.scores[keep]), share[keep]
    weights = np.where(window.labels[keep] == 1, 1.0 / seen, (1.0 - rate) / (1.0 - rate * seen))
    weights[ripe[keep]] = 1.0
    dropped = int((young & ~kept).sum())
    notes = (_same_delays(), *((_young_dropped(dropped, LEAST_ARRIVED),) if dropped else ()))
    return keep, weights * given[keep], (*window.notes, *notes)


def _moments(values: Any, name: str, n: int) -> tuple[Floats, bool]:
    """Numbers as they are, dates as microseconds, and whether they are dates."""
    try:
        column, _ = check_time(values, n)
    except InputError as error:  # which knows the column as "time"
        raise error.about(name) from None
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float64)
        if not np.isfinite(numbers).all():
            refuse_not_finite(numbers, name, "drop these rows or repair the time")
        return numbers, False
    try:
        if column.dtype.kind == "O":
            column = np.array([_naive(value) for value in column.tolist()], dtype="datetime64[us]")
        if column.dtype.kind != "M":
            raise ValueError
    except (ValueError, TypeError):
        raise InputError(name, f"holds values of type {column.dtype}", "pass numbers, dates or ISO 8601 text") from None
    return column.astype("datetime64[us]").astype(np.int64).astype(np.float64), True


def _naive(value: Any) -> Any:
    """A moment with a time zone in UTC, without it; numpy knows none."""
    aware = isinstance(value, dt.datetime) and value.tzinfo is not None
    return value.astimezone(dt.UTC).replace(tzinfo=None) if aware else value


def _delays(start: Floats, event: NDArray[np.bool_], label_time: Any, dated: bool) -> Floats:
    """From score to event, NaN where there is none."""
    column = read_column(label_time, "label_time")
    check_length(column, "label_time", len(start))
    delay = np.full(len(start), np.nan)
    if not event.any():
        return delay
    seen, also_dated = _moments(column[event], "label_time", int(event.sum()))
    if dated != also_dated:
        raise InputError("label_time", "and score_time must both be dates or both be numbers")
    delay[event] = seen - start[event]
    if np.nanmin(delay) < 0.0:
        row = int(np.nanargmin(delay))
        raise InputError(
            "label_time", f"lies before score_time, first at row {row} counted from 0", "are they swapped?"
        )
    return delay


def _length(horizon: Any, dated: bool) -> float:
    if isinstance(horizon, np.timedelta64):
        horizon = horizon.astype("timedelta64[us]").item()
    if isinstance(horizon, dt.timedelta):
        if not dated:
            raise InputError("horizon", "is a time span but score_time holds numbers", "pass a number in the same unit")
        length = horizon / dt.timedelta(microseconds=1)
    elif isinstance(horizon, int | float | np.number) and not isinstance(horizon, bool):
        length = float(horizon) * (_DAY if dated else 1)
    else:
        raise InputError("horizon", f"is of type {type(horizon).__name__}", "pass a number or a timedelta")
    if not 0.0 < length < math.inf:
        raise InputError("horizon", f"must be above 0 and finite, got {horizon!r}")
    return length


def _rate(labels: NDArray[np.uint8], weights: Floats | None) -> float:
    if not len(labels):
        return math.nan
    if weights is None:
        return float(labels.mean())
    return float((weights * labels).sum() / weights.sum())


def _off(naive: float, rate: float) -> str:
    """How far the naive rate is off, in words."""
    gap = 0.0 if not rate > 0.0 else round(100 * (naive / rate - 1.0))
    return "" if gap == 0 else f", {abs(gap):.0f} % too {'low' if gap < 0 else 'high'}"


@note("events-after-as-of")
def _events_after(voice: Voice, events: int) -> str:
    return f"{plural(events, voice.nouns.event, voice.nouns.events)} after as_of: not known at the moment."


@note("events-after-horizon")
def _late_events(voice: Voice, events: int) -> str:
    words = voice.nouns
    return f"{plural(events, words.event, words.events)} later than the horizon: not counted as {words.events}."


@note("rows-after-as-of")
def _rows_after(voice: Voice, rows: int) -> str:
    return f"{plural(rows, voice.nouns.row, voice.nouns.rows)} scored after as_of: left out."


@note("same-delays")
def _same_delays(voice: Voice) -> str:
    rows, events, score = voice.nouns.rows, voice.nouns.events, voice.nouns.score
    return f"Weights take it that {events} of young {rows} arrive as late as those of mature {rows}, at every {score}."


@note("young-rows-dropped")
def _young_dropped(voice: Voice, rows: int, least: float) -> str:
    young = plural(rows, f"young {voice.nouns.row}", f"young {voice.nouns.rows}")
    return f"{young} dropped: fewer than {least:.0%} of {voice.nouns.events} arrive by their age."


_nothing_mature = note("nothing-mature", "No {nouns.row} is mature at this moment: nothing can be counted yet.")
