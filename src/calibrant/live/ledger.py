"""A ledger of predictions that wait for their outcome, joined by id in any order, released in one fixed order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_option, check_whole
from calibrant.live.ids import Ids, IdTable, read_ids
from calibrant.live.queues import DueQueue
from calibrant.live.records import Correction, Counts, Released
from calibrant.live.snapshots import damaged, pack, unpack
from calibrant.messages import InputError, plural
from calibrant.numerics import Floats, Ints

Silence = Literal["negative", "unknown"]

EARLY, OPEN, DONE = 1, 2, 3
"""States of an id: an outcome that waits for its prediction, a prediction that waits, a released prediction."""

KIND = "ledger"
"""Name in its states."""

NONE = -1
"""The label of a prediction without an outcome."""

COLUMNS: dict[str, Any] = {
    "state": np.int8, "label": np.int8, "silent": np.bool_, "score": np.float64, "at": np.float64, "due": np.float64,
    "key": np.int64, "version": np.int64,
}  # fmt: skip
"""What is kept of an id besides its 16 bytes: 43 bytes."""


class Ledger:
    """Predictions that wait for their outcome: registered by id, joined in any order, released at their horizon.

    A prediction made at time t is released at t + horizon, whether its outcome came early, late or not at all. Rows are
    released in the order of their release time, ties by id. So a forecaster learns positives and negatives with the
    same delay. If it learned each click at once and the rest at the horizon, it would see clicks alone at first.

    Time is whatever number the events carry, such as seconds; only :meth:`advance` moves it. The ledger has no clock,
    no thread and no file. The same events in the same order give the same rows, bit for bit, and so do the same events
    in batches.

    Parameters
    ----------
    horizon
        How long after its prediction an event counts. Learning lags by one horizon.
    silence
        What it means that no outcome came within the horizon. ``"negative"``: the event did not happen, for streams
        that report events only. ``"unknown"``: the row is left out; this assumes that outcomes are missing at random
        given the score, and needs both outcomes to be reported.
    remember
        How long an id is known after its release, so that repeated events are recognized; by default one horizon. Then
        its outcomes are unknown, and a prediction with the same id is a new one.
    hold
        How long an outcome may wait for its prediction; by default one horizon.
    max_open, max_held, max_remembered
        Largest numbers of waiting predictions, waiting outcomes and released ids. A prediction beyond ``max_open`` is
        not admitted. To drop the oldest instead would empty the ledger just before each release, and to choose by the
        outcome would bias what is learned. Beyond ``max_remembered`` the oldest are forgotten.

    Notes
    -----
    Edges: an outcome exactly at the horizon counts. An outcome without a time has that of the last ``advance``. A
    second outcome with another label replaces the first until the release; after it, the outcome is a
    :class:`Correction`. Cost: 0.2 to 2 microseconds per event in batches of thousands, and about 80 bytes per id.

    Guarantee: no statistical one. Every event is counted in exactly one field of :class:`Counts`.

    Reference: Chapelle (2014), Modeling delayed feedback in display advertising, for why early labels mislead.

    Examples
    --------
    >>> ledger = Ledger(horizon=10.0)
    >>> ledger.predict(["a", "b"], [0.2, 0.3], at=0.0)
    >>> ledger.observe(["b"], [1], at=4.0)
    >>> len(ledger.advance(9.9)), ledger.advance(10.0).labels.tolist()
    (0, [0, 1])
    >>> print(ledger.counts)
    2 predictions: 0 waiting, 2 released (1 with an outcome).
    1 outcome: 1 joined, 0 waiting for their prediction.
    """

    def __init__(
        self,
        horizon: float,
        *,
        silence: Silence = "negative",
        remember: float | None = None,
        hold: float | None = None,
        max_open: int = 10_000_000,
        max_held: int = 1_000_000,
        max_remembered: int = 10_000_000,
    ) -> None:
        self.horizon = _duration("horizon", horizon, positive=True)
        check_option("silence", silence, get_args(Silence))
        self.silence: Silence = silence
        self.remember = self.horizon if remember is None else _duration("remember", remember)
        self.hold = self.horizon if hold is None else _duration("hold", hold)
        for name, limit in (("max_open", max_open), ("max_held", max_held), ("max_remembered", max_remembered)):
            check_whole(name, limit, 0)
        self.max_open, self.max_held, self.max_remembered = max_open, max_held, max_remembered
        self.now = -math.inf
        self.counts = Counts()
        self._table = IdTable()
        self._columns = {name: np.zeros(self._table.rows, dtype=kind) for name, kind in COLUMNS.items()}
        self._releases, self._forgets, self._expiries = DueQueue(), DueQueue(), DueQueue()
        self._corrections: list[Correction] = []

    # ------------------------------------------------------------------------------------------------------- events

    def predict(
        self, ids: Any, scores: ArrayLike, *, at: ArrayLike, keys: ArrayLike = 0, versions: ArrayLike = 0
    ) -> None:
        """Register predictions, in order.

        Parameters
        ----------
        ids
            One per prediction: text, bytes, UUIDs or integers.
        scores
            What the model predicted.
        at
            When; one time, or one for each.
        keys, versions
            Integers that come back at the release: a segment, and the number of the map that answered.
        """
        pairs = read_ids(ids)
        n = len(pairs)
        score = _column("scores", scores, n, np.float64)
        if not np.isfinite(score).all():
            raise InputError("scores", "must be finite")
        time = _times("at", at, n)
        new = {"score": score, "at": time, "key": _column("keys", keys, n, np.int64)}
        new["version"] = _column("versions", versions, n, np.int64)
        for part in self._parts(n, lambda: self.max_open - self.counts.open):
            for these in _rounds(pairs[part]):
                self._predict(pairs[part][these], {name: each[part][these] for name, each in new.items()})

    def observe(self, ids: Any, labels: ArrayLike, *, at: ArrayLike | None = None) -> None:
        """Register outcomes, in order.

        Parameters
        ----------
        ids
            The ids of their predictions.
        labels
            0 or 1.
        at
            When the outcomes were observed; by default the time of the last :meth:`advance`.
        """
        pairs = read_ids(ids)
        n = len(pairs)
        label = _column("labels", labels, n, np.float64)
        if not np.isin(label, (0.0, 1.0)).all():
            raise InputError("labels", "must be 0 or 1", "leave out outcomes that are not known")
        if at is None and not math.isfinite(self.now):
            raise InputError("at", "is missing, and no time is known yet", "pass it, or call advance first")
        time = np.full(n, self.now) if at is None else _times("at", at, n)
        label, found = label.astype(np.int8), []
        for part in self._parts(n, lambda: self.max_held - self.counts.held):
            for these in _rounds(pairs[part]):
                places = np.arange(n)[part][these]
                found += self._observe(pairs[places], label[places], time[places], places)
        self._corrections += [each for _, each in sorted(found, key=lambda one: one[0])]

    def advance(self, now: float) -> Released:
        """Move time forward, and release what is due.

        Parameters
        ----------
        now
            The new time; an earlier one than before changes nothing, and is counted.

        Returns
        -------
        Released
            Rows in the order in which they are to be learned.
        """
        now = float(now)
        if not math.isfinite(now):
            raise InputError("now", f"must be a finite number, got {now!r}")
        if now < self.now:
            self.counts.stale += 1
            return self._released(np.empty(0, dtype=np.int64))
        self.now = now
        rows, _ = self._releases.pop(now)
        ids, due = self._table.ids[rows], self._columns["due"][rows]
        rows = rows[np.lexsort((ids[:, 1], ids[:, 0], due))]
        released = self._release(rows)
        self._expire(now)
        self._forget(now)
        return released

    @staticmethod
    def _parts(n: int, room: Callable[[], int]) -> Iterator[slice]:
        """Parts of a batch that are at most as long as there is room, so that a full ledger admits in order."""
        start = 0
        while start < n:
            left = room()
            end = n if left <= 0 else min(start + left, n)  # without room, no order matters
            yield slice(start, end)
            start = end

    def take_corrections(self) -> list[Correction]:
        """The corrections since the last call, in the order in which they came."""
        found, self._corrections = self._corrections, []
        return found

    # ------------------------------------------------------------------------------------------------- predictions

    def _predict(self, ids: Ids, new: dict[str, NDArray[Any]]) -> None:
        rows = self._table.find(ids)
        known = rows >= 0
        state = np.where(known, self._columns["state"][rows], 0)
        taken = state >= OPEN
        same = taken & np.all([self._columns[name][rows] == each for name, each in new.items()], axis=0)
        due = new["at"] + self.horizon
        late = ~taken & (due <= self.now)
        wanted = np.flatnonzero(~taken & ~late)
        room = max(self.max_open - self.counts.open, 0)
        admitted = np.zeros(len(ids), dtype=bool)
        admitted[wanted[:room]] = True
        self.counts.duplicate_predictions += int(same.sum())
        self.counts.conflicting_predictions += int((taken & ~same).sum())
        self.counts.late_predictions += int(late.sum())
        self.counts.overflow_predictions += len(wanted) - int(admitted.sum())
        self.counts.open += int(admitted.sum())
        fresh, waited = admitted & ~known, admitted & known
        rows[fresh] = self._add(ids[fresh], label=NONE)
        self._join_held(rows[waited], new["at"][waited])
        for name, each in new.items():
            self._columns[name][rows[admitted]] = each[admitted]
        self._columns["due"][rows[admitted]] = due[admitted]
        self._columns["state"][rows[admitted]] = OPEN
        self._releases.push(rows[admitted], due[admitted])

    def _join_held(self, rows: Ints, at: Floats) -> None:
        """Outcomes that waited for these predictions become their labels, unless they are after the horizon."""
        late = self._columns["at"][rows] > at + self.horizon
        self._columns["label"][rows[late]] = NONE
        self.counts.held -= len(rows)
        self.counts.too_late += int(late.sum())
        self.counts.joined += int((~late).sum())

    def _add(self, ids: Ids, label: Any) -> Ints:
        rows = self._table.add(ids)
        if self._table.rows > len(self._columns["state"]):
            for name, column in self._columns.items():
                grown = np.zeros(self._table.rows, dtype=column.dtype)
                grown[: len(column)] = column
                self._columns[name] = grown
        for column in self._columns.values():
            column[rows] = 0
        self._columns["label"][rows] = label
        return rows

    # ---------------------------------------------------------------------------------------------------- outcomes

    def _observe(self, ids: Ids, label: NDArray[np.int8], at: Floats, places: Ints) -> list[tuple[int, Correction]]:
        rows = self._table.find(ids)
        state = np.where(rows >= 0, self._columns["state"][rows], 0)
        before = np.where(rows >= 0, self._columns["label"][rows], NONE)
        taken = state >= OPEN
        late = taken & (at > self._columns["at"][rows] + self.horizon)
        self.counts.too_late += int(late.sum())
        self._hold(np.flatnonzero(state == 0), ids, label, at)
        first = (state == OPEN) & ~late & (before == NONE)
        self.counts.joined += int(first.sum())
        again = ((state == OPEN) & ~late & (before != NONE)) | (state == EARLY)
        other = again & (before != label)
        self.counts.replaced += int(other.sum())
        done = (state == DONE) & ~late
        silent = done & self._columns["silent"][rows]
        agreed = silent & (before == label)
        differs = done & (before != label)
        self.counts.agreed += int(agreed.sum())
        self.counts.after_release += int(differs.sum())
        self.counts.duplicate_outcomes += int((again & ~other).sum() + (done & ~silent & ~differs).sum())
        found = [
            (int(places[k]), self._correction(int(rows[k]), int(before[k]), int(label[k])))
            for k in np.flatnonzero(differs)
        ]
        change = first | other | differs
        self._columns["label"][rows[change]] = label[change]
        self._columns["silent"][rows[done & (agreed | differs)]] = False
        held = (state == EARLY) & other
        self._columns["at"][rows[held]] = at[held]
        return found

    def _hold(self, places: Ints, ids: Ids, label: NDArray[np.int8], at: Floats) -> None:
        """Outcomes without a prediction wait for it."""
        if self.hold == 0.0:
            self.counts.unknown += len(places)
            return
        held = places[: max(self.max_held - self.counts.held, 0)]
        self.counts.overflow_outcomes += len(places) - len(held)
        self.counts.held += len(held)
        rows = self._add(ids[held], label[held])
        due = np.maximum(at[held], self.now) + self.hold
        for name, value in (("state", EARLY), ("at", at[held]), ("due", due)):
            self._columns[name][rows] = value
        self._expiries.push(rows, due)

    def _correction(self, row: int, before: int, after: int) -> Correction:
        pair = self._table.ids[row].astype(">u8").tobytes()
        numbers = {name: self._columns[name][row].item() for name in ("score", "key", "at", "version")}
        return Correction(pair, **numbers, before=None if before == NONE else before, after=after)

    # ---------------------------------------------------------------------------------------------------- time goes on

    def _release(self, rows: Ints) -> Released:
        silent = self._columns["label"][rows] == NONE
        quiet = int(silent.sum())
        self.counts.open -= len(rows)
        self.counts.with_outcome += len(rows) - quiet
        if self.silence == "negative":
            self.counts.silent_negative += quiet
            self._columns["label"][rows[silent]] = 0
        else:
            self.counts.silent_unknown += quiet
        self._columns["silent"][rows] = silent
        self._columns["state"][rows] = DONE
        told = self._released(rows if self.silence == "negative" else rows[~silent])
        due = self._columns["due"][rows] + self.remember
        self._columns["due"][rows] = due
        self._forgets.push(rows, due)
        return told

    def _released(self, rows: Ints) -> Released:
        columns = {name: self._columns[name][rows] for name in ("score", "label", "key", "at", "version", "silent")}
        return Released(self._table.ids[rows], *columns.values())

    def _expire(self, now: float) -> None:
        """Outcomes that waited too long for their prediction."""
        rows, due = self._expiries.pop(now)
        rows = np.unique(rows[(self._columns["state"][rows] == EARLY) & (self._columns["due"][rows] == due)])
        self.counts.held -= len(rows)
        self.counts.unknown += len(rows)
        self._drop(rows)

    def _forget(self, now: float) -> None:
        """Released ids whose window is over, and the oldest beyond the limit."""
        rows, _ = self._forgets.pop(now)
        self._drop(rows)
        known = np.flatnonzero(self._columns["state"] == DONE) if self._remembered > self.max_remembered else None
        if known is not None:
            ids, due = self._table.ids[known], self._columns["due"][known]
            known = known[np.lexsort((ids[:, 1], ids[:, 0], due))]
            cut = len(known) - self.max_remembered
            self.counts.forgotten_early += cut
            self._drop(known[:cut])
            self._forgets = DueQueue()
            self._forgets.push(known[cut:], self._columns["due"][known[cut:]])

    @property
    def _remembered(self) -> int:
        return len(self._table) - self.counts.open - self.counts.held

    def _drop(self, rows: Ints) -> None:
        self._table.remove(rows)
        self._columns["state"][rows] = 0

    # ---------------------------------------------------------------------------------------------------------- state

    def settings(self) -> dict[str, Any]:
        """The arguments of the ledger."""
        names = ("horizon", "silence", "remember", "hold", "max_open", "max_held", "max_remembered")
        return {name: getattr(self, name) for name in names}

    def to_bytes(self) -> bytes:
        """Everything the ledger knows; equal ledgers give equal bytes."""
        rows = np.flatnonzero(self._columns["state"])
        ids = self._table.ids[rows]
        order = np.lexsort((ids[:, 1], ids[:, 0]))
        head = {
            "settings": self.settings(),
            "now": self.now if math.isfinite(self.now) else None,
            "counts": asdict(self.counts),
            "corrections": [asdict(each) | {"id": each.id.hex()} for each in self._corrections],
        }
        return pack(KIND, head, {"ids": ids[order]} | {name: each[rows][order] for name, each in self._columns.items()})

    @classmethod
    def from_bytes(cls, state: bytes) -> Ledger:
        """A ledger that goes on where another was when :meth:`to_bytes` wrote its state.

        Parameters
        ----------
        state
            What :meth:`to_bytes` returned.

        Returns
        -------
        Ledger
            It gives the same rows for the same events, bit for bit.
        """
        head, columns = unpack(state, KIND, {"ids": np.uint64} | COLUMNS)
        try:
            ledger = cls(**head["settings"])
            ledger.now = -math.inf if head["now"] is None else float(head["now"])
            ledger.counts = Counts(**head["counts"])
            ledger._corrections = [
                Correction(**(each | {"id": bytes.fromhex(each["id"])})) for each in head["corrections"]
            ]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise damaged() from None
        ledger._fill(columns)
        return ledger

    def _fill(self, columns: dict[str, NDArray[Any]]) -> None:
        """Take rows from a state, which are checked."""
        ids, state, label = columns.pop("ids"), columns["state"], columns["label"]
        counts = [int((state == each).sum()) for each in (EARLY, OPEN, DONE)]
        whole = ids.ndim == 2 and ids.shape[1] == 2 and all(each.shape == (len(ids),) for each in columns.values())
        if not whole or sum(counts) != len(ids) or not np.isin(label, (NONE, 0, 1)).all():
            raise damaged()
        distinct = len(ids) < 2 or bool((ids[1:] != ids[:-1]).any(axis=1).all())
        in_order = bool((np.lexsort((ids[:, 1], ids[:, 0])) == np.arange(len(ids))).all())
        numbers = all(np.isfinite(columns[name]).all() for name in ("score", "at", "due"))
        agree = counts[0] == self.counts.held and counts[1] == self.counts.open
        if not (distinct and in_order and numbers and agree) or min(asdict(self.counts).values()) < 0:
            raise damaged()
        rows = self._add(ids, NONE)
        for name, each in columns.items():
            self._columns[name][rows] = each
        for queue, kind in ((self._expiries, EARLY), (self._releases, OPEN), (self._forgets, DONE)):
            queue.push(rows[state == kind], columns["due"][state == kind])

    def __len__(self) -> int:
        """Ids in memory: waiting predictions, waiting outcomes and released ids."""
        return len(self._table)


# --------------------------------------------------------------------------------------------------------------- inputs


def _rounds(ids: Ids) -> list[Ints]:
    """Places of the first, second, ... occurrence of each id, so that a round has no id twice."""
    order = np.lexsort((ids[:, 1], ids[:, 0]))
    ordered = ids[order]
    starts = np.ones(len(ids), dtype=bool)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    if starts.all():
        return [np.arange(len(ids))]
    first = np.flatnonzero(starts)
    turn = np.empty(len(ids), dtype=np.int64)
    turn[order] = np.arange(len(ids)) - np.repeat(first, np.diff(np.append(first, len(ids))))
    return [np.flatnonzero(turn == k) for k in range(int(turn.max()) + 1)]


def _duration(name: str, value: Any, positive: bool = False) -> float:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0.0 or (positive and value == 0.0):
        least = "positive" if positive else "0 or more"
        fix = "silence means something only after a known time" if name == "horizon" else None
        raise InputError(name, f"must be a finite number, {least}, got {value!r}", fix)
    return float(value)


def _column(name: str, values: ArrayLike, n: int, kind: Any) -> NDArray[Any]:
    """One value for each id; a single one is repeated."""
    try:
        given = np.asarray(values)
        array = given.astype(kind, casting="same_kind") if given.size else given.astype(kind)
    except (TypeError, ValueError):
        what = "integers" if kind is np.int64 else "numbers"
        raise InputError(name, f"must hold {what}") from None
    if array.ndim > 1 or (array.ndim == 1 and len(array) != n):
        raise InputError(name, f"has shape {array.shape}, and there are {plural(n, 'id')}", "pass one per id")
    return np.broadcast_to(array, n)


def _times(name: str, values: ArrayLike, n: int) -> Floats:
    times = _column(name, values, n, np.float64)
    if not np.isfinite(times).all():
        raise InputError(name, "must hold finite numbers", "pass times as numbers, such as seconds")
    return times
