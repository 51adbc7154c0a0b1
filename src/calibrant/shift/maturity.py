"""Late labels: select rows whose outcome is known at a given time, and report the bias from the others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Rows, ScoreType, check_rows
from calibrant.arrays.columns import check_length, check_option, is_missing, read_column
from calibrant.arrays.frames import read_frame
from calibrant.arrays.sides import check_weights
from calibrant.fits.isotonic import fit_curve
from calibrant.messages import InputError, Note, Setting, Shown, Voice, note, plural
from calibrant.numerics import Floats
from calibrant.reading import by_keyword, frame_of, read
from calibrant.shift.horizons import delays, lengths, timestamps
from calibrant.tallies import Tally

How = Literal["drop", "weight"]

MIN_DELAYS = 20
"""Mature events with a known delay needed to estimate weights."""

MIN_ARRIVED = 0.1
"""Young rows are dropped at ages by which a smaller share of events has arrived: weights would exceed ten."""


@dataclass(frozen=True, eq=False)
class Matured(Shown):
    """The result of :func:`select_mature`: rows with their labels as known at ``as_of``, and what was left out.

    Attributes
    ----------
    keep
        Which of the given rows are kept.
    scores, labels, sample_weight
        Columns of the kept rows, to pass to other functions; weights are None if all are 1. Of several classes, scores
        are a matrix and labels are classes; an event is then an outcome that is known, and rates are NaN.
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
    score_type
        What the scores are.
    """

    keep: NDArray[np.bool_]
    scores: Floats
    labels: NDArray[Any]
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
    score_type: ScoreType = "probability"

    def tally(self) -> Tally:
        """The kept rows as counts by score, which add up with others; weights are importance weights."""
        if self.scores.ndim > 1:
            raise InputError("scores", "are those of several classes, and a tally counts one score")
        weights = None if self.sample_weight is None else np.asarray(self.sample_weight, dtype=np.float64)
        rows = Rows(self.scores, self.labels.astype(np.uint8), weights, False, None, None, self.score_type, ())
        return Tally.from_rows(rows)

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
        if self.young and self.rows and not math.isnan(self.rate):
            lines.append(
                f"Counting young rows without an event as negatives would give an event rate of {self.naive_rate:.4f} "
                f"instead of {self.rate:.4f}{_off(self.naive_rate, self.rate)}."
            )
        return "\n  ".join([*lines, *map(str, self.notes)])


def select_mature(
    scores: Any,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    *,
    score_time: ArrayLike,
    as_of: Any,
    horizon: Any,
    label_time: ArrayLike | None = None,
    how: How = "drop",
    positive: Any = None,
    score_type: ScoreType | None = None,
    score: str | None = None,
    label: str | None = None,
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
        Scores, and labels as currently known: 1 if an event was observed. Of three or more classes: a matrix of scores,
        and the class, missing while it is not known. Or a frame of any engine, with ``score`` and ``label``.
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
        2024, and one month from 31 January ends on the last day of February. Or one of these for each row.
    label_time
        When each event was recorded; used only where y is 1, and may be missing elsewhere. Required for weighting, and
        to estimate the share of events that have arrived.
    how
        ``"drop"`` or ``"weight"``.
    positive, score_type
        The label that counts as the event, and the type of the scores, as in ``fit``.
    score, label
        Names of columns, if ``scores`` is a frame; ``score_time``, ``label_time`` and ``sample_weight`` are then names
        too, and ``horizon`` may be one. These columns are read into memory.

    Returns
    -------
    Matured
        Prints itself as text; has ``scores``, ``labels`` and ``sample_weight`` of the kept rows.

    Notes
    -----
    Edge cases: events recorded after as_of are not known yet; events recorded later than the horizon do not count as
    events; rows scored after as_of are dropped. Weighting needs 20 mature events with a delay, and drops young rows of
    an age at which less than 10 % of events have arrived. With a horizon for each row, ages and delays are compared as
    shares of it. Of several classes, a young row whose class c is known has weight 1 / F_c(a), and rows without a class
    are dropped; weighting then needs 20 mature rows with a delay of each class.
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
    scores = frame_of(scores)
    y, sample_weight, score, label = by_keyword(scores, y, sample_weight, score, label, "select_mature")
    if score is not None or label is not None:
        sides = {"score_time": score_time, "label_time": label_time, "horizon": horizon}
        there = read_frame(scores).collect_schema().names()
        names = [each for name, each in sides.items() if isinstance(each, str) and (name != "horizon" or each in there)]
        taken: dict[str, Any] = {"score": score, "label": label, "more": names, "most": None}
        found = read(scores, y, sample_weight, call="select_mature", **taken)
        sides = {
            name: found.more[each] if isinstance(each, str) and each in names else each for name, each in sides.items()
        }
        how_read: dict[str, Any] = {"how": how, "positive": positive, "score_type": score_type, "as_of": as_of}
        return select_mature(found.scores, found.y, found.sample_weight, **sides, **how_read)
    if y is None:
        raise InputError("y", "is missing", "pass the labels, or a frame with score= and label=")
    if _several(scores):
        return _select_classes(scores, y, sample_weight, score_time, as_of, horizon, label_time, how)
    rows = check_rows(scores, y, positive=positive, score_type=score_type)
    given = np.ones(len(rows.scores))
    if sample_weight is not None:
        given = check_weights(sample_weight, "importance", len(given))[0].astype(np.float64)
    window = _Window.of(rows.labels, score_time, as_of, horizon, label_time)
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
        score_type=rows.score_type,
    )


def _several(scores: Any) -> bool:
    shape = getattr(scores, "shape", None) or np.shape(scores)
    return len(shape) == 2 and shape[1] > 2


def _select_classes(
    scores: Any, y: Any, sample_weight: Any, score_time: Any, as_of: Any, horizon: Any, label_time: Any, how: How
) -> Matured:
    """The same for several classes: a row counts if its class is known."""
    matrix, classes = np.asarray(scores, dtype=np.float64), read_column(y, "y")
    check_length(classes, "y", len(matrix))
    known = np.array([not is_missing(each) for each in classes.tolist()], dtype=np.uint8)
    given = np.ones(len(matrix))
    if sample_weight is not None:
        given = check_weights(sample_weight, "importance", len(given))[0].astype(np.float64)
    window = _Window.of(known, score_time, as_of, horizon, label_time)
    due, known = window.age >= window.horizon, window.labels == 1
    mature, young = due & (given > 0.0), (window.age >= 0.0) & ~due & (given > 0.0)
    share = np.ones(len(known))
    worst, notes = np.ones(len(known)), window.notes
    for each in set(classes[known].tolist()) if how == "weight" else ():
        mine = known & (classes == each)
        arrived = _arrived(window, mature & mine, given)
        if np.isnan(arrived).all():
            raise _too_few_delays()
        share[mine], worst = arrived[mine], np.minimum(worst, arrived)
    keep = mature & known
    if how == "weight":
        keep = keep | (young & known & (worst >= MIN_ARRIVED))
        dropped = int((young & (worst < MIN_ARRIVED)).sum())
        notes = (*notes, _same_delays(), *((_young_dropped(dropped, MIN_ARRIVED),) if dropped else ()))
    weights = given / np.where(mature, 1.0, np.maximum(share, MIN_ARRIVED)) if how == "weight" else given
    seen = _arrived(window, mature & known, given)
    return Matured(
        keep=keep,
        scores=matrix[keep],
        labels=classes[keep],
        sample_weight=None if how == "drop" and sample_weight is None else weights[keep],
        rows=int(keep.sum()),
        events=int(keep.sum()),
        young=int(young.sum()),
        young_events=int((young & known).sum()),
        arrived=float(np.average(seen[young], weights=given[young])) if young.any() else math.nan,
        rate=math.nan,
        naive_rate=math.nan,
        how=how,
        notes=notes if keep.any() else (*notes, _nothing_mature()),
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
    def of(cls, labels: NDArray[np.uint8], score_time: Any, as_of: Any, horizon: Any, label_time: Any) -> _Window:
        start, dated = timestamps(score_time, "score_time", len(labels))
        now, also_dated = timestamps([as_of], "as_of", 1)
        if dated != also_dated:
            raise InputError("as_of", "and score_time must both be dates or both be numbers")
        length, latest = lengths(horizon, start, dated)
        labels = labels.copy()
        notes: list[Note] = []
        delay = np.full(len(start), np.nan)
        if label_time is not None:
            delay = delays(start, labels == 1, label_time, dated)
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
    delay = (window.delay / window.horizon)[known]
    order = np.argsort(delay, kind="stable")
    mass = np.append(0.0, np.cumsum(given[known][order]))
    before = np.searchsorted(delay[order], window.age / window.horizon, side="right")
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
        raise _too_few_delays()
    kept = young & (share >= MIN_ARRIVED)
    keep = mature | kept
    known = Rows(rows.scores[mature], window.labels[mature], given[mature], False, None, None, rows.score_type, ())
    rate, seen = fit_curve(Tally.from_rows(known).for_fitting()).apply(rows.scores[keep]), share[keep]
    weights = maturity_weights(window.labels[keep], rate, np.where(mature[keep], 1.0, seen))
    dropped = int((young & ~kept).sum())
    notes = (_same_delays(), *((_young_dropped(dropped, MIN_ARRIVED),) if dropped else ()))
    return keep, weights * given[keep], (*window.notes, *notes)


def _too_few_delays() -> InputError:
    return InputError(
        Setting("how", "weight"),
        f"needs label_time and at least {MIN_DELAYS} mature events to estimate delays",
        "use how='drop'",
    )


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
