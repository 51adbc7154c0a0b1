"""Policies that learn row by row, each label when it becomes known."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np

from calibrant.live.bank.bank import Bank
from calibrant.live.replay.history import History
from calibrant.live.replay.policies import FEWEST, Policy, Served, largest_step
from calibrant.messages import InputError
from calibrant.numerics import Ints
from calibrant.online import Forecaster, OnlinePlatt, Tracking
from calibrant.online.base import one_score_forecaster, replayed


@dataclass(frozen=True)
class Online(Policy):
    """A forecaster of :mod:`calibrant.online` that predicts each row, and learns its label when it becomes known.

    Parameters
    ----------
    forecaster
        A forecaster for one score; each back-test works on a copy of it.
    label
        Name in tables; by default that of the class.

    Notes
    -----
    Labels are learned in the order in which they become known, ties in the order of the predictions. Rows that are
    predicted at the same time do not learn from each other.
    Guarantee: that of the forecaster, if labels come without delay; with a delay none. Edges: until the first label is
    known, forecasts are those of a new forecaster. Cost: about 6 microseconds per row, and less with numba from about
    500,000 rows on. Reference: Gupta (2023), chapter 6; Joulani, Gyorgy and Szepesvari (2013), Online learning under
    delayed feedback.

    Examples
    --------
    >>> from calibrant import live, online
    >>> live.Online(online.OnlinePlatt(half_life=3_000), "Platt, 3,000 rows").name
    'Platt, 3,000 rows'
    """

    forecaster: Forecaster
    label: str | None = None

    needs_rows = True

    def __post_init__(self) -> None:
        """Refuse a forecaster that needs more than a score."""
        one_score_forecaster(self.forecaster)

    @property
    def name(self) -> str:
        """Name in tables."""
        return type(self.forecaster).__name__ if self.label is None else self.label

    def serve(self, history: History) -> Served:
        """A forecast of each row from the labels known before."""
        turns, n, asked = Turns.of(history), len(history.scores), history.score_quantiles
        learned = turns.order[: turns.usable[-1]]
        turn = np.repeat(np.arange(len(turns.starts)), np.diff(np.append(turns.starts, n)))
        day = history.day[turns.starts]
        shown = np.flatnonzero(np.append(True, np.diff(day) > 0) & (day >= first_day_with(history, FEWEST)))
        # in each turn labels are learned, then on a new day forecasts at the quantiles are noted, then rows are served
        before = np.searchsorted(turns.usable, np.arange(len(learned)), side="right")
        order = np.argsort(
            np.concatenate([3 * before, np.repeat(3 * shown + 1, len(asked)), 3 * turn + 2]), kind="stable"
        )
        scores = np.concatenate([history.scores[learned], np.tile(asked, len(shown)), history.scores])
        labels = np.full(len(scores), np.nan)
        labels[: len(learned)] = history.events[learned]
        found = np.empty(len(scores))
        found[order] = replayed(self.forecaster, scores[order], labels[order])
        at_quantiles = found[len(learned) : len(found) - n].reshape(len(shown), len(asked))
        return Served(found[len(found) - n :], None, largest_step=largest_step(list(at_quantiles)))


@dataclass(frozen=True)
class ByKey(Policy):
    """A :class:`Bank` of forecasters by key, which learns at the start of each day the labels that became known.

    Parameters
    ----------
    bank
        A bank for one column of keys, of which each back-test uses a copy; by default ``Bank()``.
    label
        Name in tables.

    Notes
    -----
    The largest step is that from one day to the next, at the scores and keys of the rows that are predicted.
    Guarantee: no finite-sample guarantee. Edges: a new key gets the map of the prior. Cost: that of the bank, and one
    call a day. Reference: that of :class:`Bank`.

    Examples
    --------
    >>> from calibrant import live
    >>> live.ByKey().name
    'bank by key'
    """

    bank: Bank | None = None
    label: str = "bank by key"

    needs_rows = True
    learns_each = "day"

    def __post_init__(self) -> None:
        """Refuse anything but a bank."""
        if self.bank is not None and not isinstance(self.bank, Bank):
            raise InputError("bank", "must be a Bank", "pass Bank()")

    @property
    def name(self) -> str:
        """Name in tables."""
        return self.label

    def serve(self, history: History) -> Served:
        """The forecasts of each day from the labels known at its start."""
        lines = history.rows()
        keys = lines.keys
        if keys is None:
            raise InputError("keys", "is missing, and the policy 'bank by key' needs it", "pass the key of each row")
        bank = Bank() if self.bank is None else copy.deepcopy(self.bank)
        order, starts = history.by_known
        bounds = np.searchsorted(history.day, np.arange(history.days + 1))
        out, enough, steps = np.empty(len(history.scores)), first_day_with(history, FEWEST), [math.nan]
        for day in range(history.days):
            due, today = order[starts[day] : starts[day + 1]], slice(bounds[day], bounds[day + 1])
            asked = (history.scores[today], keys[today])
            before = bank.predict(*asked)
            if len(due):
                bank.learn(history.scores[due], keys[due], history.events[due].astype(np.float64))
            out[today] = bank.predict(*asked)
            if day > enough and len(before):
                steps.append(largest_step([before, out[today]]))
        return Served(out, None, largest_step=float(np.nanmax(steps)) if len(steps) > 1 else math.nan)


@dataclass(frozen=True, eq=False)
class Turns:
    """In which order rows are predicted and labels are learned.

    Attributes
    ----------
    order
        Rows in the order in which their labels are learned.
    starts, usable
        Where each group of rows that are predicted together begins, and how many labels are learned before it.
    """

    order: Ints
    starts: Ints
    usable: Ints

    @classmethod
    def of(cls, history: History) -> Turns:
        """The order of a history; a group is the rows of a time, or of several on a day without a new label between."""
        lines = history.rows()
        order = np.lexsort((lines.at, lines.known_at))
        order = order[np.isfinite(lines.known_at[order])]
        new = np.append(True, lines.at[1:] != lines.at[:-1])
        starts = np.flatnonzero(new)
        at_once = (lines.known_at <= lines.at).astype(np.int64)  # known at their own time: usable at a later one
        not_yet = np.add.reduceat(at_once, starts)
        usable = np.searchsorted(lines.known_at[order], lines.at[starts], side="right") - not_yet
        kept = np.append(True, (np.diff(usable) > 0) | (np.diff(history.day[starts]) > 0))
        return cls(order, starts[kept], usable[kept])


def first_day_with(history: History, fewest: int) -> int:
    """First day at whose start this many labels of each class are known; the number of days if there is none."""
    events, others, day = 0, 0, history.days
    for each, cells in sorted(history.released.items()):
        events += int(cells.events.sum())
        others += int((cells.n - cells.events).sum())
        if min(events, others) >= fewest:
            day = each
            break
    return day


def online_platt() -> Online:
    """Online Platt scaling with its defaults."""
    return Online(OnlinePlatt(), "online Platt")


def tracking() -> Online:
    """Calibeating around online Platt scaling with its defaults."""
    return Online(Tracking(OnlinePlatt()), "tracking")
