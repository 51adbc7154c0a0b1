"""Late labels: select rows whose outcome is known at a given time, and report the bias from the others."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Rows, ScoreType, check_rows
from calibrant.arrays.columns import check_length, check_option, read_column, refuse_not_finite
from calibrant.arrays.sides import check_time, check_weights
from calibrant.fits.isotonic import fit_curve
from calibrant.messages import InputError, Note, Setting, Shown, Voice, note, plural
from calibrant.numerics import Floats
from calibrant.tallies import Tally

How = Literal["drop", "weight"]

MIN_DELAYS = 20
"""Mature events with a known delay needed to estimate weights."""

MIN_ARRIVED = 0.1
"""Young rows are dropped at ages by which a smaller share of events has arrived: weights would exceed ten."""

_DAY = 86_400_000_000  # microseconds


@dataclass(frozen=True, eq=False)
class Matured(Shown):
    """The result of :func:`select_mature`: rows with their labels as known at ``as_of``, and what was left out.

    Attributes
    ----------
    keep
        Which of the given rows are kept.
    scores, labels, sample_weight
        Columns of the kept rows, to pass to other functions; weights are None if all are 1.
    rows, events
        Kept rows and events among them, unweighted.
    young, young_events
        Rows younger than the horizon at ``as_of``, and events observed among them so far.
    arrived
        Estimated share of the events of young rows that have arrived by ``as_of``; NaN without delays of mature events.
    rate, naive_rate
        Event rate of the kept rows, and the rate if every young row without an event were counted as a negative.
    how
        ``"drop"``: young rows are left out. ``"weight"``: they are weighted for events still to come.
    notes
        Further remarks.
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
        """The numbers; those that are not finite are None."""
        names = ("rows", "events", "young", "young_events", "arrived", "rate", "naive_rate")
        numbers = {name: getattr(self, name) for name in names}
        finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        return finite | {"how": self.how, "notes": [note.as_dict() for note in self.notes]}

    def __str__(self) -> str:
        """Number of rows and events, and the bias of the naive event rate."""
        arrived = "" if math.isnan(self.arrived) else f", about {100 * self.arrived:.0f} % of all their events"
        done = "dropped" if self.how == "drop" else "weighted for events still to come"
        text = (
            f"Kept {plural(self.rows, 'row')} with {plural(self.events, 'event')}; {plural(self.young, 'row')} younger "
            f"than the horizon {done} ({plural(self.young_events, 'event')} so far{arrived})."
        )
        lines = [text]
        if self.young and self.rows:
            lines.append(
                f"Counting young rows without an event as negatives would give an event rate of {self.naive_rate:.4f} "
                f"instead of {self.rate:.4f}{_off(self.naive_rate, self.rate)}."
            )
        return "\n  ".join([*lines, *map(str, self.notes)])


def select_mature(
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
    score_type: ScoreType | None = None,
) -> Matured:
    r"""Select rows whose outcome is known at ``as_of``, when events can take up to ``horizon`` to be recorded.

    The age a of a row is as_of minus its score time; it is mature if :math:`a \ge h`, the horizon, and young otherwise.
    Dropping keeps only mature rows. Weighting keeps young rows too, with weight

    .. math::
        w = \frac{1}{F(a)} \text{ if its event was observed}, \qquad
        w = \frac{1 - r(s)}{1 - r(s)\,F(a)} \text{ otherwise},

    where F(a) is the share of events within the horizon that arrive by age a, and r(s) the event rate at score s, both
    estimated from mature rows. In expectation, the weighted share of events at each score is then r.

    Parameters
    ----------
    scores, y
        Scores, and labels as currently known: 1 if an event was observed.
    sample_weight
        Weights of the rows, multiplied with those computed here; rows of weight 0 are ignored.
    score_time
        When each row was scored: numbers, dates or ISO 8601 text.
    as_of
        The time of the evaluation. Later events are treated as unknown, so past evaluations can be reproduced.
    horizon
        Maximum delay of an event: a number if times are numbers; for dates a ``timedelta``, a number of days, or
        calendar months such as ``"12 months"`` or ``"12mo"``. A window of months ends on the same day of the month, or
        on its last day if the month is shorter, and that day is included: one from 31 December 2023 ends on 31 December
        2024, and one month from 31 January ends on the last day of February.
    label_time
        When each event was recorded; used only where y is 1, and may be missing elsewhere. Required for weighting, and
        to estimate the share of events that have arrived.
    how
        ``"drop"`` or ``"weight"``.
    positive, score_type
        The label that counts as the event, and the type of the scores, as in ``fit``.

    Returns
    -------
    Matured
        Prints itself as text; has ``scores``, ``labels`` and ``sample_weight`` of the kept rows.

    Notes
    -----
    Edge cases: events recorded after as_of are not known yet; events recorded later than the horizon do not count as
    events; rows scored after as_of are dropped. Weighting needs 20 mature events with a delay, and drops young rows of
    an age at which less than 10 % of events have arrived.
    Guarantee: no finite-sample guarantee. Dropping is unbiased for mature rows, which are older than the rest.
    Weighting is consistent if delays do not depend on the score or on calendar time and the rate increases with the
    score; both are assumed, not tested. Weights are importance weights, so there are no certificates. Cost: a few
    passes; with weighting, a sort and an isotonic fit.
    References: Chapelle (2014) on delayed feedback; Ktena et al. (2019) for the weight of negatives that may change.

    Examples
    --------
    >>> rows = select_mature(
    ...     [0.2, 0.7, 0.4, 0.8], [0, 1, 0, 1], score_time=["2026-01-01", "2026-01-05", "2026-01-28", "2026-01-30"],
    ...     as_of="2026-01-31", horizon=14,
    ... )
    >>> print(rows)
    Kept 2 rows with 1 event; 2 rows younger than the horizon dropped (1 event so far).
      Counting young rows without an event as negatives would give an event rate of 0.5000 instead of 0.5000.
    >>> rows.scores.tolist(), rows.labels.tolist()
    ([0.2, 0.7], [0, 1])
    """
    check_option("how", how, get_args(How))
    rows = check_rows(scores, y, positive=positive, score_type=score_type)
    given = np.ones(len(rows.scores))
    if sample_weight is not None:
        given = check_weights(sample_weight, "importance", len(given))[0].astype(np.float64)
    window = _Window.of(rows, score_time, as_of, horizon, label_time)
    mature = (window.age >= window.horizon) & (given > 0.0)
    young = (window.age >= 0.0) & (window.age < window.horizon) & (given > 0.0)
    share = _arrived(window, mature & (window.labels == 1), given)
    keep, weights, notes = mature, None if sample_weight is None else given[mature], window.notes
    if how == "weight":
        keep, weights, notes = _weighted(rows, window, mature, young, share, given)
    labels, counted = window.labels[keep], mature | young
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
    """Age of each row, delay of its event (NaN if unknown) and labels, all as known at ``as_of``."""

    age: Floats
    delay: Floats
    labels: NDArray[np.uint8]
    horizon: Floats
    notes: tuple[Note, ...]

    @classmethod
    def of(cls, rows: Rows, score_time: Any, as_of: Any, horizon: Any, label_time: Any) -> _Window:
        start, dated = _timestamps(score_time, "score_time", len(rows.scores))
        now, also_dated = _timestamps([as_of], "as_of", 1)
        if dated != also_dated:
            raise InputError("as_of", "and score_time must both be dates or both be numbers")
        length, latest = _lengths(horizon, start, dated)
        labels = rows.labels.copy()
        notes: list[Note] = []
        delay = np.full(len(start), np.nan)
        if label_time is not None:
            delay = _delays(start, labels == 1, label_time, dated)
            unheard, late = start + delay > now[0], delay > latest
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
    """Share of mature events that had arrived by the age of each row; NaN if there are too few."""
    known = event & ~np.isnan(window.delay)
    if np.count_nonzero(known) < MIN_DELAYS:
        return np.full(len(known), np.nan)
    order = np.argsort(window.delay[known], kind="stable")
    mass = np.append(0.0, np.cumsum(given[known][order]))
    before = np.searchsorted(window.delay[known][order], window.age, side="right")
    return np.asarray(mass[before] / mass[-1])


def _weighted(
    rows: Rows,
    window: _Window,
    mature: NDArray[np.bool_],
    young: NDArray[np.bool_],
    share: Floats,
    given: Floats,
) -> tuple[NDArray[np.bool_], Floats, tuple[Note, ...]]:
    """Rows to keep, their weights and notes."""
    if np.isnan(share).all():
        raise InputError(
            Setting("how", "weight"),
            f"needs label_time and at least {MIN_DELAYS} mature events to estimate delays",
            "use how='drop'",
        )
    kept = young & (share >= MIN_ARRIVED)
    keep = mature | kept
    known = Rows(rows.scores[mature], window.labels[mature], given[mature], False, None, None, rows.score_type, ())
    rate, seen = fit_curve(Tally.from_rows(known).for_fitting()).apply(rows.scores[keep]), share[keep]
    weights = maturity_weights(window.labels[keep], rate, np.where(mature[keep], 1.0, seen))
    dropped = int((young & ~kept).sum())
    notes = (_same_delays(), *((_young_dropped(dropped, MIN_ARRIVED),) if dropped else ()))
    return keep, weights * given[keep], (*window.notes, *notes)


def maturity_weights(labels: NDArray[Any], rates: Floats, arrived: Floats) -> Floats:
    """Weights of young rows, given their event rates and the share of events that arrive by their age.

    Examples
    --------
    >>> maturity_weights(np.array([1, 0, 0]), np.array([0.5, 0.5, 0.5]), np.array([0.5, 0.5, 1.0])).round(4).tolist()
    [2.0, 0.6667, 1.0]
    """
    with np.errstate(invalid="ignore"):
        others = np.where(arrived == 1.0, 1.0, (1.0 - rates) / (1.0 - rates * arrived))
    return np.where(labels == 1, 1.0 / arrived, others)


def _timestamps(values: Any, name: str, n: int) -> tuple[Floats, bool]:
    """Numbers unchanged, dates as microseconds, and whether they are dates."""
    try:
        column, _ = check_time(values, n)
    except InputError as error:  # it refers to the column as "time"
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
        raise InputError(name, f"has values of type {column.dtype}", "pass numbers, dates or ISO 8601 text") from None
    return column.astype("datetime64[us]").astype(np.int64).astype(np.float64), True


def _naive(value: Any) -> Any:
    """A timestamp with a time zone, converted to naive UTC: numpy has no time zones."""
    aware = isinstance(value, dt.datetime) and value.tzinfo is not None
    return value.astimezone(dt.UTC).replace(tzinfo=None) if aware else value


def _delays(start: Floats, event: NDArray[np.bool_], label_time: Any, dated: bool) -> Floats:
    """Delay from score to event; NaN without an event."""
    column = read_column(label_time, "label_time")
    check_length(column, "label_time", len(start))
    delay = np.full(len(start), np.nan)
    if not event.any():
        return delay
    seen, also_dated = _timestamps(column[event], "label_time", int(event.sum()))
    if dated != also_dated:
        raise InputError("label_time", "and score_time must both be dates or both be numbers")
    delay[event] = seen - start[event]
    if np.nanmin(delay) < 0.0:
        row = int(np.nanargmin(delay))
        raise InputError(
            "label_time", f"is before score_time, first at row {row} (counted from 0)", "are they swapped?"
        )
    return delay


def months_of(horizon: Any) -> int | None:
    """Calendar months in a text such as "12 months", "12mo" or "1 year"; None for anything else.

    Examples
    --------
    >>> months_of("12 months"), months_of("6mo"), months_of("1 year"), months_of(365)
    (12, 6, 12, None)
    """
    if not isinstance(horizon, str):
        return None
    found = re.fullmatch(r"\s*(\d{1,4})\s*(mo|months?|y|years?)\s*", horizon.lower())
    if found is None or int(found[1]) == 0:
        raise InputError(
            "horizon", f"is {horizon!r}, which is not a number of months", "pass '12 months', a timedelta or days"
        )
    return int(found[1]) * (12 if found[2].startswith("y") else 1)


def add_months(days: NDArray[np.datetime64], months: int) -> NDArray[np.datetime64]:
    """Days some calendar months later: the same day of the month, or its last day if it is shorter.

    Examples
    --------
    >>> add_months(np.array(["2024-01-31", "2023-12-31", "2024-02-29"], "datetime64[D]"), 1).astype(str).tolist()
    ['2024-02-29', '2024-01-31', '2024-03-29']
    """
    day = days.astype("datetime64[D]")
    month = day.astype("datetime64[M]")
    target = month + months
    first, next_first = target.astype("datetime64[D]"), (target + 1).astype("datetime64[D]")
    last = (next_first - first).astype(np.int64) - 1
    into = np.minimum((day - month.astype("datetime64[D]")).astype(np.int64), last)
    return np.asarray(first + into.astype("timedelta64[D]"))


def _lengths(horizon: Any, start: Floats, dated: bool) -> tuple[Floats, Floats]:
    """Age at which each row is mature, and the longest delay of an event that counts."""
    months = months_of(horizon)
    if months is None:
        length = np.full(len(start), _length(horizon, dated))
        return length, length
    if not dated:
        raise InputError("horizon", "is in calendar months but score_time contains numbers", "pass dates, or a number")
    days = start.astype(np.int64).view("datetime64[us]").astype("datetime64[D]")
    end = add_months(days, months).astype("datetime64[us]").astype(np.int64).astype(np.float64)
    return end - start, end + (_DAY - 1) - start


def _length(horizon: Any, dated: bool) -> float:
    if isinstance(horizon, np.timedelta64):
        horizon = horizon.astype("timedelta64[us]").item()
    if isinstance(horizon, dt.timedelta):
        if not dated:
            raise InputError(
                "horizon", "is a timedelta but score_time contains numbers", "pass a number in the same unit"
            )
        length = horizon / dt.timedelta(microseconds=1)
    elif isinstance(horizon, int | float | np.number) and not isinstance(horizon, bool):
        length = float(horizon) * (_DAY if dated else 1)
    else:
        fix = "pass a number, a timedelta or '12 months'"
        raise InputError("horizon", f"is of type {type(horizon).__name__}", fix)
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
    """Relative bias of the naive rate, as text."""
    gap = 0.0 if not rate > 0.0 else round(100 * (naive / rate - 1.0))
    return "" if gap == 0 else f", {abs(gap):.0f} % too {'low' if gap < 0 else 'high'}"


@note("events-after-as-of")
def _events_after(voice: Voice, events: int) -> str:
    return f"{plural(events, voice.nouns.event, voice.nouns.events)} recorded after as_of: treated as unknown."


@note("events-after-horizon")
def _late_events(voice: Voice, events: int) -> str:
    words = voice.nouns
    return (
        f"{plural(events, words.event, words.events)} recorded later than the horizon: not counted as {words.events}."
    )


@note("rows-after-as-of")
def _rows_after(voice: Voice, rows: int) -> str:
    return f"{plural(rows, voice.nouns.row, voice.nouns.rows)} scored after as_of: left out."


@note("same-delays")
def _same_delays(voice: Voice) -> str:
    rows, events, score = voice.nouns.rows, voice.nouns.events, voice.nouns.score
    return f"Weights assume that {events} of young and of mature {rows} have the same delays, at every {score}."


@note("young-rows-dropped")
def _young_dropped(voice: Voice, rows: int, least: float) -> str:
    young = plural(rows, f"young {voice.nouns.row}", f"young {voice.nouns.rows}")
    return f"{young} dropped: less than {100 * least:g} % of {voice.nouns.events} arrive by their age."


_nothing_mature = note("nothing-mature", "No {nouns.row} is mature at as_of: nothing can be counted yet.")
