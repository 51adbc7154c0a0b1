"""A monitor of calibration on a stream, whose alarm keeps its level however often it is looked at."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import read_floats
from calibrant.arrays.keys import key_text, read_keys
from calibrant.live.monitor.advice import State, advise
from calibrant.live.monitor.alarms import FIRST_CHECK, Alarm, EndedBy, Part, rows_to_check
from calibrant.live.monitor.boundary import of_maximum
from calibrant.live.monitor.early import Early
from calibrant.live.monitor.evidence import Band, Evidence
from calibrant.live.monitor.history import History
from calibrant.live.monitor.keys import KeyFinding, KeyWatch
from calibrant.live.monitor.rows import EDGES, Labeled
from calibrant.live.monitor.run import LOG_SHARES, SHARES, Run
from calibrant.live.monitor.sets import Range, changes_by, level_set, slope_set
from calibrant.live.monitor.state import read, written
from calibrant.live.monitor.text import prometheus, summary
from calibrant.live.monitor.wealth import log_sum
from calibrant.messages import Drawn, InputError, Note, Setting, Shown, plural
from calibrant.metrics.tolerance import TOLERANCE, check_tolerance
from calibrant.numerics import Column, Floats, Ints
from calibrant.online.inputs import many_labels, many_scores
from calibrant.tallies import GroupedTally, Tally

Against = Literal["calibration", "tolerance"]

FIRST_CHUNK, CHUNK = 512, 4096
"""Rows that are taken at once: few at first and after an alarm, since those after an alarm are taken again."""

MOST_LAG, MOST_KEYS = 1_000, 100_000
"""Largest lag and number of keys."""

NO_TIME = np.array([math.nan])

KEPT = 100
"""Alarms that are kept; all are counted."""


class Monitor(Drawn, Shown):
    """Watches observed minus predicted on a stream, with bands and an alarm that hold at every look.

    Parameters
    ----------
    level
        Probability that a run without deviation ever raises an alarm, however long it lasts.
    tolerance
        Tolerated deviation of shift and slope in log-odds. It is a pair, and not the limit of the curve of
        :func:`calibrant.check`: an alarm at every look needs a limit for each row, known before its outcome, and the
        error of a curve is one number for all rows.
    against
        What an alarm is evidence against. ``"calibration"``: that every prediction is right. ``"tolerance"``: that the
        log-odds of every row are right up to the tolerance of the shift plus that of the slope times the distance from
        the center.
    lag
        1 if outcomes are independent of each other given what was known at their predictions; rows may then come in
        any order of release. Otherwise the number of rows, or of days for tallies, after which an outcome was known
        when a prediction was made; see the notes.
    edges
        Inner edges of the bins, fixed before the first row.
    n_keys
        Largest number of keys; it must be fixed before the first row. 0 for none.
    false_share
        Largest mean share of false ones among the keys that are listed as off.

    Notes
    -----
    Guarantee: if each outcome in [0, 1] has its prediction as its mean, given what was known when the prediction was
    made, then a run ever raises an alarm with probability at most ``level``. After an alarm a new run begins with the
    same level. A calibrated stream has at most level / (1 - level) alarms on average, over all time. The bands of
    level, slope and bins hold at all looks with probability 1 - level together; they need no hypothesis. With ``lag``
    above 1 this is proved up to the first alarm only. Proof: ``docs/certificates/monitor.md``.

    An alarm is a state. It holds, and later runs that reach the level confirm it, until :meth:`restart` ends it, or
    evidence: shift and slope of the rows since it was last confirmed are shown to be within the tolerance, no bin is
    shown to be beyond it, and these rows are at least twice as many as the alarm took from its estimated onset.
    Evidence ends an alarm although the mean shift or slope of these rows is beyond the tolerance with probability at
    most ``level``, at all looks together. A deviation within the tolerance may end, and be found again.

    Assumption: with ``lag=1`` the rows must be released in an order that does not depend on the outcomes, and outcomes
    must be independent given what was known at their predictions. With ``lag=L`` row i may depend on rows i - 1 to
    i - L + 1 in any way: rows are dealt into L streams, and an e-value is made of the largest evidence of each.

    Keys: :meth:`keys_off` lists keys whose level is off, by e-BH. ``n_keys`` is fixed beforehand, since a key that
    comes later would bring fresh evidence.

    Edges: without rows the e-value is 1 and bands are everything. Use a lock around a monitor that threads share.
    Cost: about 5 microseconds a row in batches of 10,000 rows or more, 7 in batches of 1,000 and 0.2 milliseconds for a
    single row. State: some hundred numbers for each unit of lag.

    References: Ville (1939); Howard, Ramdas, McAuliffe and Sekhon (2021), Time-uniform confidence sequences; Shafer,
    Shen, Vereshchagin and Vovk (2011), Test martingales, Bayes factors and p-values.

    Attributes
    ----------
    rows
        Rows so far.
    run
        Number of the run, from 1.
    alarms, alarm
        The alarms so far, the latest 100 of them; and the one that holds now, or None.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.05, 0.6, 4_000)
    >>> monitor = Monitor().update(p, rng.random(4_000) < p)
    >>> monitor.alarms
    ()
    >>> alarm = monitor.update(p, rng.random(4_000) < 0.8 * p).alarm
    >>> alarm.kind, alarm.end is None, len(monitor.alarms)
    ('level', True, 1)
    """

    def __init__(
        self,
        *,
        level: float = 0.05,
        tolerance: tuple[float, float] = TOLERANCE,
        against: Against = "calibration",
        lag: int = 1,
        edges: Column = None,
        n_keys: int = 0,
        false_share: float = 0.1,
    ) -> None:
        if not isinstance(level, int | float | np.floating) or not 0.0 < level < 1.0:
            raise InputError("level", f"must be a number between 0 and 1, got {level!r}", "pass 0.05")
        if against not in get_args(Against):
            raise InputError(Setting("against", against), "is unknown", "pass 'calibration' or 'tolerance'")
        if not isinstance(lag, int | np.integer) or isinstance(lag, bool) or not 1 <= lag <= MOST_LAG:
            raise InputError("lag", f"must be an integer from 1 to {MOST_LAG:,}, got {lag!r}")
        if not isinstance(n_keys, int | np.integer) or isinstance(n_keys, bool) or not 0 <= n_keys <= MOST_KEYS:
            raise InputError("n_keys", f"must be an integer from 0 to {MOST_KEYS:,}, got {n_keys!r}")
        if not isinstance(false_share, int | float | np.floating) or not 0.0 < false_share < 1.0:
            raise InputError("false_share", f"must be a number between 0 and 1, got {false_share!r}", "pass 0.1")
        self.n_keys, self.false_share = int(n_keys), float(false_share)
        self.level, self.tolerance, self.against = float(level), check_tolerance(tolerance), against
        self.lag, self.edges = int(lag), _edges(edges)
        self.rows, self.run, self.looks = 0, 1, 0
        self._alarms: list[Alarm] = []
        self._runs = self._fresh()
        self._evidence = self._no_evidence()
        self._history = History()
        self._start = (0, 0.0, 0.0)
        self._mark: Evidence | None = None
        self._keys = KeyWatch(self.n_keys, self.lag)
        self._early = Early()

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The alarms so far."""
        return tuple(self._alarms)

    @property
    def alarm(self) -> Alarm | None:
        """The alarm that holds now, or None."""
        return self._alarms[-1] if self._alarms and self._alarms[-1].holds else None

    # -------------------------------------------------------------------------------------------------------- rows

    def update(
        self, probabilities: ArrayLike, outcomes: ArrayLike, keys: Any = None, *, at: ArrayLike | None = None
    ) -> Monitor:
        """Take rows in the order of their release; the alarm is looked at after each of them.

        Parameters
        ----------
        probabilities
            The predictions, made before the outcomes.
        outcomes
            0 or 1, or numbers between them.
        keys
            The key of each row, text or integers, if ``n_keys`` is set; None for a row without one.
        at
            Times of the rows, for the onset of a change; optional.

        Returns
        -------
        Monitor
            Itself.
        """
        p = many_scores(probabilities)
        y = many_labels(outcomes, probabilities, bounded=True)
        times = _times(at, len(p))
        rows = Labeled.of(p, y, self.edges, times, self._coded(keys, len(p)))
        size = FIRST_CHUNK
        while len(rows):
            before = self.run
            taken = self._take(rows if len(rows) <= size else rows.part(slice(0, size)))
            if taken == len(rows):
                break
            rows = rows.part(slice(taken, None))
            size = FIRST_CHUNK if self.run > before else min(2 * size, CHUNK)
        return self

    def _coded(self, keys: Any, n: int) -> Ints | None:
        """Places of the keys."""
        if keys is None or not self.n_keys:
            if keys is not None:
                raise InputError("keys", "are given, and n_keys is 0", "pass n_keys=, the largest number of keys")
            return None
        found = read_keys(keys, "keys")
        if found.codes.shape != (n,):
            raise InputError("keys", f"has shape {found.codes.shape}, and there are {plural(n, 'row')}")
        return self._keys.code(found.names, found.codes.astype(np.int64))

    def update_tally(self, tally: Tally | GroupedTally, *, at: float = math.nan) -> Monitor:
        """Take the rows of a tally, such as those of a day, and look once.

        Parameters
        ----------
        tally
            Counts by predicted probability; by key if ``n_keys`` is set.
        at
            Time of the tally; optional.

        Returns
        -------
        Monitor
            Itself.

        Notes
        -----
        The rows of a tally have no order. Their outcomes must be independent given what was known at their predictions;
        with ``lag=L``, those of L tallies in a row may depend on each other's.
        """
        total = tally.total() if isinstance(tally, GroupedTally) else tally
        _check_tally(total)
        rows = _cells(total, self.edges, at)
        if not len(rows):
            return self
        stream = self.looks % self.lag
        self._runs[stream].day(rows, self._reach)
        log_e = self.log_e
        self._add(rows, np.full(len(rows), stream, dtype=np.int64), np.array([log_e]))
        if isinstance(tally, GroupedTally) and self.n_keys:
            self._add_keys(tally, stream)
        if log_e >= -math.log(self.level):
            self._reached(at)
        elif self.alarm is not None and self.rows - self._start[0] >= FIRST_CHECK:
            self._end_by_evidence(at)
        return self

    def _add_keys(self, tallies: GroupedTally, stream: int) -> None:
        for key, tally in sorted(tallies.items(), key=lambda each: str(each[0])):
            name = ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)
            rows = _cells(tally, self.edges, math.nan)
            place = int(self._keys.code((name,), np.zeros(1, dtype=np.int64))[0])
            if place >= 0 and len(rows):
                self._keys.found[name].add(rows, stream, self._reach)

    def _take(self, rows: Labeled) -> int:
        """Take rows up to the first at which a run reaches its level or an alarm may end; how many were taken."""
        due = None if self.alarm is None else rows_to_check(self.rows - self._start[0])
        rows = rows if due is None or due >= len(rows) else rows.part(slice(0, due))
        tried = self._runs if len(rows) == 1 else [each.copy() for each in self._runs]  # one row is taken in any case
        streams = np.zeros(len(rows), dtype=np.int64)
        if self.lag > 1:
            streams = np.arange(self.looks, self.looks + len(rows)) % self.lag
        log_e = self._advance(tried, rows, streams)
        over = (log_e >= -math.log(self.level)).nonzero()[0]
        taken = int(over[0]) + 1 if len(over) else len(rows)
        if taken < len(rows):
            rows, streams = rows.part(slice(0, taken)), streams[:taken]
        if len(over) and tried is not self._runs:
            self._advance(self._runs, rows, streams)
        else:
            self._runs = tried
        self._add(rows, streams, log_e[:taken])
        if len(over):
            self._reached(float(rows.at[-1]))
        elif taken == due:
            self._end_by_evidence(float(rows.at[-1]))
        return taken

    def _advance(self, runs: list[Run], rows: Labeled, streams: Ints) -> Floats:
        """Log e-values after each row."""
        if self.lag == 1:
            return runs[0].advance(rows, self._reach)[:, -1]
        table = np.empty((len(rows), self.lag))
        for stream, run in enumerate(runs):
            own, before = np.flatnonzero(streams == stream), run.highest
            best = np.array([before])
            if len(own):
                found = run.advance(rows.part(own), self._reach)[:, -1]
                best = np.append(before, np.maximum(np.maximum.accumulate(found), before))
            table[:, stream] = best[np.searchsorted(own, np.arange(len(rows)), side="right")]
        return np.asarray(log_sum(of_maximum(table)) - math.log(self.lag))

    def _add(self, rows: Labeled, streams: Ints, log_e: Floats) -> None:
        self._evidence.add(rows, streams)
        self._history.add(rows, self.rows, self.run, log_e)
        if rows.n is None and self.n_keys:
            self._keys.add(rows, streams, self._reach)
        self.rows += len(rows) if rows.n is None else int(rows.n.sum())
        self.looks += len(log_e)

    @property
    def _reach(self) -> tuple[float, float] | None:
        return self.tolerance if self.against == "tolerance" else None

    # ------------------------------------------------------------------------------------------------------ restarts

    def _reached(self, at: float) -> None:
        """A run reached its level: an alarm begins, and the evidence again, or the one that holds is confirmed."""
        if self.alarm is None:
            found = self._history.onset(self.run, self._start)
            number = self.alarm_count + 1
            self._alarms.append(Alarm(number, self.rows, at, self.part, self.log_e, *found, band=self.band))
            del self._alarms[:-KEPT]
            self._forget()
        else:
            self._alarms[-1] = replace(self._alarms[-1], confirmed=self._alarms[-1].confirmed + 1)
            self._mark = copy.deepcopy(self._evidence)
        self._begin()

    def _end_by_evidence(self, at: float) -> None:
        """End the alarm if the rows since it was last confirmed are shown to be within the tolerance.

        The level is spent over these pieces of the stream, since each of them could be wrong. The run goes on.
        """
        alarm, rows = self._alarms[-1], self.rows - self._start[0]
        if rows < 2 * (alarm.start - alarm.onset_row + 1):
            return
        recent = self._evidence if self._mark is None else self._evidence.since(self._mark)
        share = self.level / ((alarm.confirmed + 1) * (alarm.confirmed + 2))
        if not State.of(recent, share, self.tolerance).within:
            return
        if advise(recent, self.edges, self.level, self.tolerance).code == "nothing-to-do":
            self._end("within", at)
            self._evidence, self._mark = recent, None
            self._history.forget_evidence(recent)

    def _end(self, by: EndedBy, at: float = math.nan) -> None:
        self._alarms[-1] = replace(self._alarms[-1], end=self.rows, end_at=at, ended_by=by)

    def restart(self) -> Monitor:
        """Begin a new run, after the model or its map was changed; an alarm ends, and the evidence is forgotten.

        Returns
        -------
        Monitor
            Itself. The new run has the full level, and keys begin again.
        """
        if self.alarm is not None:
            self._end("restart")
        self._forget()
        self._keys = KeyWatch(self.n_keys, self.lag)
        self._begin()
        return self

    def _forget(self) -> None:
        self._evidence, self._mark = self._no_evidence(), None
        self._history.forget_evidence(self._evidence)

    def _begin(self) -> None:
        self._runs, self.run = self._fresh(), self.run + 1
        self._start = (self.rows, float(self._history.sums[0]), float(self._history.sums[1]))

    def _fresh(self) -> list[Run]:
        return [Run.new(len(self.edges) + 1) for _ in range(self.lag)]

    def _no_evidence(self) -> Evidence:
        return Evidence.new(self.lag, len(self.edges) + 1)

    # ------------------------------------------------------------------------------------------------------ findings

    @property
    def log_e(self) -> float:
        """Logarithm of the e-value of this run; an alarm comes when it reaches log(1 / level)."""
        if self.lag == 1:
            return float(self._runs[0].log_e[-1])
        highest = np.array([each.highest for each in self._runs])
        return float(log_sum(of_maximum(highest)) - math.log(self.lag))

    @property
    def part(self) -> Part:
        """The part with the largest share of the evidence of this run."""
        parts = log_sum(np.array([each.log_e[:-1] + LOG_SHARES for each in self._runs]).T)
        names: tuple[Part, ...] = ("level", "slope", "bins")
        return names[int(np.argmax(parts))]

    @property
    def band(self) -> Band:
        """Observed minus predicted since the last restart of the evidence."""
        return self._evidence.band(self.level * SHARES["level"])

    @property
    def bins(self) -> list[Band]:
        """Observed minus predicted by bin; their intervals hold together."""
        return self._evidence.bins(self.level * SHARES["bins"])

    @property
    def alarm_count(self) -> int:
        """Alarms so far, also those that are no longer kept."""
        return self._alarms[-1].number if self._alarms else 0

    @property
    def advice(self) -> Note:
        """What to do, as a value: ``code`` and ``values`` for programs, and text when printed.

        The codes: ``"nothing-to-do"`` (shift and slope are shown to be within the tolerance), ``"level-moved"``,
        ``"refit"``, ``"range-off"`` (the scores of one bin) and ``"not-enough"``. While an alarm holds, the first and
        the last are replaced by ``"small-deviation"`` and ``"alarm-holds"``.
        """
        return advise(self._evidence, self.edges, self.level, self.tolerance, self.alarm)

    @property
    def shift(self) -> Range:
        """The shift in log-odds that the rows ask for, with the values that agree with them at every look."""
        return level_set(self._evidence, self.level * SHARES["level"])

    @property
    def slope(self) -> Range:
        """The slope on the log-odds, with the values that agree with the rows at every look; 1 is ideal."""
        return slope_set(self._evidence, self.level * SHARES["slope"], self.level * SHARES["level"])

    @property
    def history(self) -> dict[str, list[float]]:
        """Up to 128 points of the stream, as columns: row, time, run, sums, evidence, and the ends of the band.

        ``low`` and ``high`` are those of :attr:`band` at that row; with ``lag`` above 1 they may be a little wider.
        """
        return self._history.table(self.level * SHARES["level"], self.lag)

    @property
    def tolerated(self) -> tuple[float, float] | None:
        """Observed minus predicted per row if the shift were at either end of the tolerance; None without rows."""
        return changes_by(self._evidence, self.tolerance[0])

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys so far, in the order of their first rows."""
        return tuple(self._keys.found)

    @property
    def rows_beyond(self) -> int:
        """Rows, or tallies, of keys that came when ``n_keys`` others were known; they are not judged."""
        return self._keys.beyond

    def keys_off(self) -> list[KeyFinding]:
        """Keys that are off: on average at most ``false_share`` of them are not, also if a look decides when to stop.

        Returns
        -------
        list of KeyFinding
            The key with the most evidence first.
        """
        return self._keys.off(self.false_share, self.level)

    def key_band(self, key: Any) -> Band:
        """Observed minus predicted of one key since its first row; the interval holds at all looks for this key alone.

        Parameters
        ----------
        key
            The key.
        """
        name = key_text(key, "key")
        if name is None or name not in self._keys.found:
            raise InputError("key", f"{key!r} has no rows yet", "see keys")
        return self._keys.found[name].band(self.level)

    # ------------------------------------------------------------------------------------------------ before outcomes

    def expect(
        self, probabilities: ArrayLike = (), *, delays: ArrayLike = (), labeled: ArrayLike = ()
    ) -> tuple[Note, ...]:
        """Take what is known before or without outcomes, for early warnings; no alarm comes from it.

        Parameters
        ----------
        probabilities
            Predictions as they are made.
        delays
            How long outcomes took, in any unit of time.
        labeled
            Whether rows had an outcome when it was due.

        Returns
        -------
        tuple of Note
            The warnings that hold now, as in :attr:`warnings`.
        """
        p, waits, had = many_scores(probabilities), read_floats(delays, "delays"), read_floats(labeled, "labeled")
        if waits.size and not (waits >= 0.0).all():
            raise InputError("delays", "must be numbers of at least 0")
        if not np.isin(had, (0.0, 1.0)).all():
            raise InputError("labeled", "must be true or false in every row")
        self._early.add_scores(p)
        self._early.add_delays(waits)
        self._early.add_covered(had.astype(np.int64))
        return self.warnings

    @property
    def warnings(self) -> tuple[Note, ...]:
        """Early warnings, with the codes ``"scores-drift"``, ``"delays-drift"`` and ``"coverage-drift"``.

        Each compares the latest 1,000 to 2,000 values with the first 5,000. Without drift a warning comes with
        probability at most 0.001 at one look; it is not an alarm.
        """
        return self._early.notes()

    # ------------------------------------------------------------------------------------------------------------ text

    def settings(self) -> dict[str, Any]:
        """The arguments of the monitor."""
        names = ("level", "against", "lag", "n_keys", "false_share")
        return {name: getattr(self, name) for name in names} | {
            "tolerance": list(self.tolerance),
            "edges": self.edges.tolist(),
        }

    def to_json(self) -> str:
        """Everything the monitor knows; equal monitors give equal text."""
        return written(self)

    @classmethod
    def from_json(cls, state: str) -> Monitor:
        """Go on where another was when :meth:`to_json` wrote its state.

        Parameters
        ----------
        state
            What :meth:`to_json` returned.

        Returns
        -------
        Monitor
            It gives the same numbers for the same rows, bit for bit.
        """
        return read(state, cls)

    def prometheus(self, labels: Mapping[str, str] | None = None, *, prefix: str = "calibrant") -> str:
        """The figures in the text format of Prometheus.

        Parameters
        ----------
        labels
            Labels of every metric, such as ``{"model": "churn"}``.
        prefix
            Beginning of the names.

        Returns
        -------
        str
            Lines that a server can return as they are.
        """
        return prometheus(self, labels or {}, prefix)

    def __str__(self) -> str:
        """Some lines: band, evidence, advice, alarms, and how the level is spent."""
        return summary(self)


def _times(at: ArrayLike | None, n: int) -> Floats:
    """Times of rows, NaN for none."""
    if at is None:
        return NO_TIME if n == 1 else np.full(n, math.nan)
    found = read_floats(np.atleast_1d(np.asarray(at)), "at")
    if len(found) not in (1, n):
        raise InputError("at", f"has {plural(len(found), 'time')}, and there are {plural(n, 'row')}")
    return np.broadcast_to(found, n)


def _check_tally(tally: Tally) -> None:
    if not tally.counts:
        raise InputError("tally", "holds importance weights, and a monitor needs counts")
    if tally.score_type != "probability":
        raise InputError("tally", "does not hold probabilities", "apply a map first")


def _cells(tally: Tally, edges: Floats, at: float) -> Labeled:
    """The cells of a tally as rows that stand for several."""
    kept = tally.n > 0
    p, n, events = (np.asarray(each[kept], dtype=np.float64) for each in (tally.scores, tally.n, tally.events))
    return Labeled.of(p, events, edges, np.full(len(p), at), n=n)


def _edges(given: Column) -> Floats:
    """Inner edges, increasing and strictly between 0 and 1."""
    if given is None:
        return np.array(EDGES)
    found = np.asarray(read_floats(given, "edges"), dtype=np.float64)
    inside = (found > 0.0) & (found < 1.0)
    if not inside.all() or (np.diff(found) <= 0.0).any() or len(found) > 200:
        raise InputError("edges", "must increase strictly between 0 and 1", "pass at most 200, such as [0.1, 0.5]")
    return found
