r"""Censored follow-up to a horizon: Kaplan-Meier, Aalen-Johansen, weights, pseudo-observations, influences.

A row is followed for a time and ends with the event, a competing event, or censoring. Where an event and a censoring
share a time, the event comes first, as in R. Then the weights here sum to the number of rows, and the weighted event
rate is the Aalen-Johansen estimate (Kaplan-Meier without competing events), exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_length, is_missing, read_column, read_floats, refuse_empty, refuse_not_finite
from calibrant.arrays.sides import side_column
from calibrant.messages import Argument, InputError, Phrase, Setting
from calibrant.numerics import Floats, Ints

CENSORED, EVENT, COMPETING = 0, 1, 2
"""How follow-up ends."""

KEEP_TIME = "pass the time from the start of follow-up to the event or to the last contact"


@dataclass(frozen=True, eq=False)
class FollowUp:
    """Checked follow-up of rows up to a horizon.

    Attributes
    ----------
    time
        Time under observation.
    cause
        How it ended: 0 censored, 1 the event, 2 a competing event.
    horizon
        Time by which the event is predicted.
    stratum
        Number of the stratum of each row; censoring is estimated within strata.
    strata
        Names of the strata; empty if there is one for all rows.
    """

    time: Floats
    cause: Ints
    horizon: float
    stratum: Ints
    strata: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.time)

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """Whether a row is known to be free of any event at the horizon."""
        return np.asarray((self.time > self.horizon) | ((self.time == self.horizon) & (self.cause == CENSORED)))

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Whether the outcome at the horizon is known."""
        return np.asarray(self.free | ((self.time <= self.horizon) & (self.cause != CENSORED)))

    @cached_property
    def label(self) -> Floats:
        """1 if the event is observed by the horizon, 0 if not or not known."""
        return np.asarray((self.time <= self.horizon) & (self.cause == EVENT), dtype=np.float64)

    @cached_property
    def lost(self) -> int:
        """Rows that are censored before the horizon."""
        return int((~self.known).sum())

    @cached_property
    def weight(self) -> Floats:
        """Inverse of the probability of not being censored before the outcome is known; 0 where it is not known."""
        made = np.zeros(self.rows)
        for each in self._tables:
            made[each.rows] = each.weight
        return made

    @cached_property
    def _tables(self) -> list[_Table]:
        parts = [np.flatnonzero(self.stratum == code) for code in range(int(self.stratum.max()) + 1)]
        return [_Table(self, rows) for rows in parts]

    @property
    def risk(self) -> float:
        """Observed risk: share of rows with the event by the horizon, estimated by Aalen-Johansen within strata."""
        return float((self.weight * self.label).sum()) / self.rows

    def pseudo(self) -> Floats:
        r"""Pseudo-observations :math:`n \hat F - (n - 1) \hat F_{-i}` of the risk at the horizon, in linear time."""
        made = np.zeros(self.rows)
        for each in self._tables:
            made[each.rows] = each.pseudo()
        return made

    def influence(self, gradient: Floats) -> Floats:
        r"""Infinitesimal jackknife of an estimate that is a smooth function of the weights :math:`w_i`.

        Parameters
        ----------
        gradient
            Derivative of the estimate by the weight of each row.

        Returns
        -------
        ndarray
            Derivative of the estimate by the number of times that each row is counted, with the estimated censoring
            distribution recomputed: :math:`w_i g_i + \sum_u A(u)\,dM_i(u) / (R(u) - c(u))`, where :math:`A(u)` is the
            sum of :math:`w_j g_j` over rows whose outcome is known after u, R rows are at risk of censoring, c are
            censored, and :math:`dM_i = 1\{i \text{ censored at } u\} - 1\{i \text{ at risk}\} c / R`.
        """
        made = np.zeros(self.rows)
        for each in self._tables:
            made[each.rows] = each.influence(gradient[each.rows])
        return made

    @property
    def ends_too_early(self) -> bool:
        """Whether the last row to be observed is censored before the horizon, so that the risk there is not known."""
        last = float(self.time.max())
        return last < self.horizon and bool((self.cause[self.time == last] == CENSORED).any())

    def part(self, rows: NDArray[np.intp]) -> FollowUp:
        """Some of the rows, as one stratum."""
        return FollowUp(self.time[rows], self.cause[rows], self.horizon, np.zeros(len(rows), dtype=np.int64))


class _Table:
    """Counts by distinct time of the rows of one stratum."""

    def __init__(self, data: FollowUp, rows: NDArray[np.intp]) -> None:
        self.rows, self.horizon = rows, data.horizon
        self.time, self.cause = data.time[rows], data.cause[rows]
        self.free, self.known = data.free[rows], data.known[rows]
        self.times, self.place = np.unique(self.time, return_inverse=True)
        size = len(self.times)
        self.censored, self.events, self.others = (
            np.bincount(self.place[self.cause == end], minlength=size).astype(np.float64)
            for end in (CENSORED, EVENT, COMPETING)
        )
        leaving = self.censored + self.events + self.others
        self.at_risk = len(rows) - np.cumsum(leaving) + leaving
        self.exposed = self.at_risk - self.events - self.others  # to censoring: events of the same time come first
        self.before = self.times < data.horizon
        kept = np.where(self.exposed > 0.0, 1.0 - self.censored / np.maximum(self.exposed, 1.0), 1.0)
        self.uncensored = np.append(1.0, np.cumprod(kept))  # just before each time, and after the last
        self.end = int(self.before.sum())  # place of the first time at or after the horizon

    @property
    def weight(self) -> Floats:
        place = np.where(self.free, self.end, self.place)
        return np.where(self.known, 1.0 / np.maximum(self.uncensored[place], 1e-300), 0.0)

    def influence(self, gradient: Floats) -> Floats:
        own = self.weight * gradient
        known_at = np.minimum(np.where(self.free, self.end, self.place), len(self.times))
        later = own.sum() - np.cumsum(np.bincount(known_at, own, len(self.times) + 1))[:-1]
        left = self.exposed - self.censored
        used = self.before & (self.censored > 0.0) & (left > 0.0)
        step = np.where(used, later / np.maximum(left, 1.0), 0.0)
        hazard = np.append(0.0, np.cumsum(step * self.censored / np.maximum(self.exposed, 1.0)))
        ended = self.cause == CENSORED
        return np.asarray(own + np.where(ended, step[self.place], 0.0) - hazard[self.place + ended])

    def pseudo(self) -> Floats:
        n = len(self.rows)
        within = self.times <= self.horizon
        y, one, both = self.at_risk[within], self.events[within], (self.events + self.others)[within]
        survival, risk = _aalen_johansen(y, one, both)
        if n == 1:
            return np.full(1, risk[-1])
        fewer_survival, fewer_risk = _aalen_johansen(y - 1.0, one, np.minimum(both, np.maximum(y - 1.0, 0.0)))
        tail = np.where(survival > 0.0, (risk[-1] - risk) / np.where(survival > 0.0, survival, 1.0), 0.0)
        place = np.minimum(self.place, len(y))
        inside = self.time <= self.horizon
        here = np.minimum(place, max(len(y) - 1, 0))
        if len(y):
            rest = np.maximum(y[here] - 1.0, 1.0)
            mine, any_event = (self.cause == EVENT).astype(np.float64), (self.cause != CENSORED).astype(np.float64)
            step = np.where(y[here] > 1.0, (one[here] - mine) / rest, 0.0)
            loss = np.where(y[here] > 1.0, (both[here] - any_event) / rest, 0.0)
        else:
            step = loss = np.zeros(n)
        without = fewer_risk[place] + np.where(
            inside, fewer_survival[place] * (step + (1.0 - loss) * tail[np.minimum(place + 1, len(y))]), 0.0
        )
        return np.asarray(n * risk[-1] - (n - 1) * without)


def _aalen_johansen(at_risk: Floats, events: Floats, any_event: Floats) -> tuple[Floats, Floats]:
    """Survival and risk before the first time and after each time."""
    safe = np.maximum(at_risk, 1.0)
    survival = np.append(1.0, np.cumprod(1.0 - any_event / safe))
    return survival, np.append(0.0, np.cumsum(survival[:-1] * events / safe))


# --------------------------------------------------------------------------------------------------------------- inputs


def read_follow_up(time: object, event: object, horizon: float, censoring_by: object, n: int) -> FollowUp:
    """Check follow-up times, their ends, the horizon, and the strata of censoring."""
    if isinstance(horizon, bool) or not isinstance(horizon, int | float | np.number) or not 0.0 < horizon < np.inf:
        raise InputError(
            "horizon", f"must be a time above 0, got {horizon!r}", "pass it in the unit of the follow-up times"
        )
    t = read_floats(time, "time")
    check_length(t, "time", n)
    if n == 0:
        refuse_empty("time")
    if not np.isfinite(t).all():
        refuse_not_finite(t, "time", KEEP_TIME)
    if t.min() < 0.0:
        raise InputError("time", f"is negative, first at row {int((t < 0.0).argmax())} counted from 0", KEEP_TIME)
    codes: Ints = np.zeros(n, dtype=np.int64)
    names: tuple[str, ...] = ()
    if censoring_by is not None:
        kept, places = np.unique(side_column(censoring_by, "censoring_by", n).astype(str), return_inverse=True)
        codes = places.astype(np.int64)
        names = tuple(str(name) for name in kept)
    data = FollowUp(t, _read_causes(event, n), float(horizon), codes, names)
    _check_reach(data)
    return data


def _read_causes(event: object, n: int) -> Ints:
    column = read_column(event, "event")
    check_length(column, "event", n)
    allowed = "pass 0 for censored, 1 for the event, and 2 for a competing event"
    if column.dtype.kind == "O" and any(is_missing(value) for value in column):
        raise InputError("event", "has missing values (NaN or null)", f"{allowed}; lost to follow-up is 0")
    if column.dtype.kind not in "biufO":
        text = column.dtype.kind == "U" and column.size > 0
        found = f"text such as {str(column[0])!r}" if text else f"values of type {column.dtype}"
        raise InputError("event", f"holds {found}", allowed)
    try:
        codes = column.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("event", f"holds values that are not numbers, such as {column[0]!r}", allowed) from error
    if np.isnan(codes).any():
        refuse_not_finite(codes, "event", f"{allowed}; lost to follow-up is 0")
    if not np.isin(codes, (CENSORED, EVENT, COMPETING)).all():
        strange = codes[~np.isin(codes, (CENSORED, EVENT, COMPETING))][0]
        raise InputError("event", f"holds {strange:g}", allowed)
    return codes.astype(np.int64)


def _check_reach(data: FollowUp) -> None:
    """Refuse a horizon at which nobody is under observation any more."""
    for code in range(int(data.stratum.max()) + 1):
        part = data.part(np.flatnonzero(data.stratum == code))
        if part.ends_too_early:
            last = float(part.time.max())
            among = (
                Phrase(" where {stratum}", stratum=Setting("censoring_by", data.strata[code])) if data.strata else ""
            )
            raise InputError(
                Setting("horizon", data.horizon),
                Phrase("is beyond the longest follow-up ({last:g}){among}", last=last, among=among),
                Phrase(
                    "pass a horizon of at most {last:g}, or wait; check that {time} has the same unit",
                    last=last,
                    time=Argument("time"),
                ),
            )
