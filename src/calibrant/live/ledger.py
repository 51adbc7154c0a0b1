"""A ledger of predictions that wait for their outcome, joined by id in any order, released in one fixed order."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_option, check_whole
from calibrant.live.held import HeldOutcomes
from calibrant.live.ids import WIDTH, Ids, IdTable, read_ids
from calibrant.live.queues import DueQueue
from calibrant.live.records import Correction, Counts, Released
from calibrant.live.snapshots import damaged, pack, unpack
from calibrant.messages import InputError, plural
from calibrant.numerics import Floats, Ints

Silence = Literal["negative", "unknown"]

OPEN, DONE = 1, 2
"""States of a prediction: it waits, or it is released and its id is remembered."""

KIND = "ledger"
"""Name in its states."""

NONE = -1
"""The label of a prediction without an outcome."""

COLUMNS: dict[str, Any] = {
    "state": np.int8, "label": np.int8, "silent": np.bool_, "corrected": np.bool_, "score": np.float64,
    "at": np.float64, "due": np.float64, "key": np.int64, "version": np.int64,
}  # fmt: skip
"""What is kept of a prediction besides the 16 bytes of its id: 44 bytes."""

HELD: dict[str, Any] = {"held_ids": np.uint64, "held_label": np.int8, "held_at": np.float64, "held_due": np.float64}
"""The same of an outcome without a prediction, in states."""

LIMITS = ("max_open", "max_held", "max_remembered", "max_corrections")


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
    max_open, max_held, max_remembered, max_corrections
        Largest numbers of waiting predictions, waiting outcomes, released ids, and corrections that were not taken. A
        prediction beyond ``max_open`` is not admitted. To drop the oldest instead would empty the ledger just before
        each release, and to choose by the outcome would bias what is learned. Beyond ``max_remembered`` the oldest are
        forgotten.

    Notes
    -----
    Edges: an outcome exactly at the horizon counts. An outcome without a time has that of the last ``advance``. A
    second outcome with another label replaces the first until the release; after it, the outcome is a
    :class:`Correction`. Outcomes that come before their prediction are taken in their order once it comes, so that the
    place of a prediction among its outcomes does not matter. Use a lock around a ledger that threads share.

    Cost: see ``benchmarks/ledger.py`` for time and memory.

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
        max_corrections: int = 1_000_000,
    ) -> None:
        self.horizon = _duration("horizon", horizon, positive=True)
        check_option("silence", silence, get_args(Silence))
        self.silence: Silence = silence
        self.remember = self.horizon if remember is None else _duration("remember", remember)
        self.hold = self.horizon if hold is None else _duration("hold", hold)
        for name, limit in zip(LIMITS, (max_open, max_held, max_remembered, max_corrections), strict=True):
            check_whole(name, limit, 0)
        self.max_open, self.max_held, self.max_remembered = max_open, max_held, max_remembered
        self.max_corrections = max_corrections
        self.now = -math.inf
        self.counts = Counts()
        self._table = IdTable()
        self._columns = {name: np.zeros(self._table.rows, dtype=kind) for name, kind in COLUMNS.items()}
        self._releases, self._forgets, self._held = DueQueue(), DueQueue(), HeldOutcomes(max_held)
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
        time = _times("at", at, n, self.horizon + self.remember)
        new = {"score": score, "at": time, "key": _column("keys", keys, n, np.int64)}
        new["version"] = _column("versions", versions, n, np.int64)
        self._predict(pairs, new)

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
        time = np.full(n, self.now) if at is None else _times("at", at, n, self.hold)
        rows = self._table.find(pairs)
        known = rows >= 0
        self._outcomes(rows[known], label[known].astype(np.int8), time[known])
        for place in np.flatnonzero(~known).tolist():
            if self.hold == 0.0:
                self.counts.unknown += 1
                continue
            due = max(time[place].item(), self.now) + self.hold
            kept = self._held.put(pairs[place].tobytes(), int(label[place]), time[place].item(), due)
            self.counts.held += kept
            self.counts.overflow_outcomes += not kept

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
        now = float(_times("now", now, 1)[0])
        if now < self.now:
            self.counts.stale += 1
            return self._released(np.empty(0, dtype=np.int64))
        self.now = now
        released = self._release(self._in_order(self._releases.pop(now)))
        expired = self._held.expire(now)
        self.counts.held -= expired
        self.counts.unknown += expired
        self._drop(self._forgets.pop(now))
        beyond = len(self._table) - self.counts.open - self.max_remembered
        if beyond > 0:
            oldest = self._in_order(self._forgets.pop_oldest(beyond))
            self._forgets.push(oldest[beyond:], self._columns["due"][oldest[beyond:]])
            self._drop(oldest[:beyond])
            self.counts.forgotten_early += beyond
        return released

    def take_corrections(self) -> list[Correction]:
        """The corrections since the last call, in the order in which they came."""
        found, self._corrections = self._corrections, []
        return found

    # ------------------------------------------------------------------------------------------------- predictions

    def _predict(self, ids: Ids, new: dict[str, NDArray[Any]]) -> None:
        """Predictions in order: of each id the first that is not late is admitted, while there is room."""
        n, columns = len(ids), self._columns
        rows, order = self._table.find(ids), np.arange(n)
        known = rows >= 0
        late = ~known & (new["at"] + self.horizon <= self.now)
        group = _groups(ids)
        first = np.full(int(group.max(initial=-1)) + 1, n)
        wanted = order[~known & ~late]
        np.minimum.at(first, group[wanted], wanted)
        admitted = np.sort(first[first < n])[: max(self.max_open - self.counts.open, 0)]
        chosen = np.zeros(n + 1, dtype=bool)
        chosen[admitted] = True
        after = ~known & chosen[first[group]] & (order > first[group])  # later ones with the id of an admitted one
        overflow = ~known & ~late & ~chosen[first[group]]
        taken = known | after
        before = {
            name: np.where(known, columns[name][rows], each[np.minimum(first[group], n - 1)])
            for name, each in new.items()
        }
        same = taken & np.all([before[name] == each for name, each in new.items()], axis=0)
        self.counts.duplicate_predictions += int(same.sum())
        self.counts.conflicting_predictions += int((taken & ~same).sum())
        self.counts.late_predictions += int((late & ~after).sum())
        self.counts.overflow_predictions += int(overflow.sum())
        self.counts.open += len(admitted)
        fresh = self._add(ids[admitted])
        for name, each in new.items():
            columns[name][fresh] = each[admitted]
        columns["due"][fresh] = due = new["at"][admitted] + self.horizon
        columns["state"][fresh] = OPEN
        self._releases.push(fresh, due)
        self._join_held(fresh)

    def _join_held(self, rows: Ints) -> None:
        """Outcomes that waited for these predictions are taken in the order in which they came."""
        if not len(self._held):
            return
        found = [(row, *event) for row in rows.tolist() for event in self._held.take(self._table.ids[row].tobytes())]
        self.counts.held -= len(found)
        places, labels, at = zip(*found, strict=True) if found else ((), (), ())
        self._outcomes(
            np.array(places, dtype=np.int64), np.array(labels, dtype=np.int8), np.array(at, dtype=np.float64)
        )

    def _add(self, ids: Ids) -> Ints:
        rows = self._table.add(ids)
        if self._table.rows > len(self._columns["state"]):
            for name, column in self._columns.items():
                grown = np.zeros(self._table.rows, dtype=column.dtype)
                grown[: len(column)] = column
                self._columns[name] = grown
        for column in self._columns.values():
            column[rows] = 0
        self._columns["label"][rows] = NONE
        return rows

    # ---------------------------------------------------------------------------------------------------- outcomes

    def _outcomes(self, rows: Ints, label: NDArray[np.int8], at: Floats) -> None:
        """Outcomes of known predictions, in order; of each row, an outcome is compared with the one before it."""
        columns = self._columns
        late = at > columns["at"][rows] + self.horizon
        self.counts.too_late += int(late.sum())
        came = np.flatnonzero(~late)
        came = came[np.argsort(rows[came], kind="stable")]
        rows, label = rows[came], label[came]
        head = np.ones(len(rows), dtype=bool)
        head[1:] = rows[1:] != rows[:-1]
        before = np.where(head, columns["label"][rows], np.roll(label, 1))
        waiting, changed = columns["state"][rows] == OPEN, before != label
        agreed = head & ~waiting & ~changed & columns["silent"][rows]
        self.counts.joined += int((waiting & (before == NONE)).sum())
        self.counts.replaced += int((waiting & changed & (before != NONE)).sum())
        self.counts.agreed += int(agreed.sum())
        self.counts.duplicate_outcomes += int((~changed & ~agreed).sum())
        self.counts.after_release += int((~waiting & changed).sum())
        wrong = np.unique(rows[~waiting & changed & (before != NONE)])
        self.counts.corrected += int((~columns["corrected"][wrong]).sum())
        columns["corrected"][wrong] = True
        found = np.flatnonzero(~waiting & changed)
        for k in found[np.argsort(came[found])].tolist():
            self._correct(int(rows[k]), int(before[k]), int(label[k]))
        last = np.roll(head, -1)
        columns["label"][rows[last]] = label[last]
        columns["silent"][rows[~waiting]] = False

    def _correct(self, row: int, before: int, after: int) -> None:
        if len(self._corrections) >= self.max_corrections:
            self.counts.dropped_corrections += 1
            return
        pair = self._table.ids[row].astype(">u8").tobytes()
        numbers = {name: self._columns[name][row].item() for name in ("score", "key", "at", "version")}
        self._corrections.append(Correction(pair, **numbers, before=None if before == NONE else before, after=after))

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

    def _in_order(self, rows: Ints) -> Ints:
        """Rows by the time at which they are due, ties by id."""
        ids, due = self._table.ids[rows], self._columns["due"][rows]
        return rows[np.lexsort((ids[:, 1], ids[:, 0], due))]

    def _drop(self, rows: Ints) -> None:
        self._table.remove(rows)
        self._columns["state"][rows] = 0

    # ---------------------------------------------------------------------------------------------------------- state

    def settings(self) -> dict[str, Any]:
        """The arguments of the ledger."""
        return {name: getattr(self, name) for name in ("horizon", "silence", "remember", "hold", *LIMITS)}

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
        kept = {"ids": ids[order]} | {name: each[rows][order] for name, each in self._columns.items()}
        held = self._held.listed()
        raw = np.frombuffer(b"".join(each[0] for each in held), dtype=np.uint64).reshape(-1, 2)
        lists = zip(*(each[1:] for each in held), strict=True) if held else ((), (), ())
        rest = dict(zip(list(HELD)[1:], lists, strict=True))
        waiting = {"held_ids": raw} | {name: np.array(each, dtype=HELD[name]) for name, each in rest.items()}
        return pack(KIND, head, kept | waiting)

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
        head, columns = unpack(state, KIND, {"ids": np.uint64} | COLUMNS | HELD)
        try:
            ledger = cls(**head["settings"])
            ledger.now = -math.inf if head["now"] is None else _number(head["now"])
            ledger.counts = Counts(**head["counts"])
            ledger._corrections = [_correction(each) for each in head["corrections"]]
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, InputError):
            raise damaged() from None
        held = [columns.pop(name) for name in HELD]
        if not _well_formed(columns, held) or not _whole(asdict(ledger.counts)):
            raise damaged()
        ledger._fill(columns, held)
        return ledger

    def _fill(self, columns: dict[str, NDArray[Any]], held: list[NDArray[Any]]) -> None:
        """Take rows from a state, whose form is checked."""
        ids, state = columns.pop("ids"), columns["state"]
        rows = self._add(ids)
        for name, each in columns.items():
            self._columns[name][rows] = each
        for queue, kind in ((self._releases, OPEN), (self._forgets, DONE)):
            queue.push(rows[state == kind], columns["due"][state == kind])
        raw, *rest = held
        for pair, *event in zip(raw, *(each.tolist() for each in rest), strict=True):
            self._held.put(pair.tobytes(), *event)
        agree = int((state == OPEN).sum()) == self.counts.open and len(self._held) == self.counts.held == len(raw)
        if not agree or len(self._corrections) > self.max_corrections:
            raise damaged()

    def __len__(self) -> int:
        """Predictions and outcomes in memory: waiting predictions, waiting outcomes and released ids."""
        return len(self._table) + len(self._held)


# --------------------------------------------------------------------------------------------------------------- inputs


def _groups(ids: Ids) -> Ints:
    """A number for each id, the same for equal ids."""
    order = np.lexsort((ids[:, 1], ids[:, 0]))
    ordered = ids[order]
    starts = np.zeros(len(ids), dtype=np.int64)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    found = np.empty(len(ids), dtype=np.int64)
    found[order] = np.cumsum(starts)
    return found


def _duration(name: str, value: Any, positive: bool = False) -> float:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0.0 or (positive and value == 0.0):
        least = "positive" if positive else "0 or more"
        fix = "silence means something only after a known time" if name == "horizon" else None
        raise InputError(name, f"must be a finite number, {least}, got {value!r}", fix)
    return float(value)


def _column(name: str, values: ArrayLike, n: int, kind: Any) -> NDArray[Any]:
    """One value for each id; a single one is repeated."""
    what = "integers" if kind is np.int64 else "numbers"
    try:
        given = np.asarray(values)
        array = given.astype(kind, casting="same_kind") if given.size else given.astype(kind)
    except (TypeError, ValueError):
        raise InputError(name, f"must hold {what}") from None
    if given.dtype.kind == "u" and given.size and given.max() > np.iinfo(np.int64).max:
        raise InputError(name, f"holds {given.max()}", "pass integers below 2**63")
    if array.ndim > 1 or (array.ndim == 1 and len(array) != n):
        raise InputError(name, f"has shape {array.shape}, and there are {plural(n, 'id')}", "pass one per id")
    return np.broadcast_to(array, n)


def _times(name: str, values: ArrayLike, n: int, later: float = 0.0) -> Floats:
    """Times as numbers, to which ``later`` can be added."""
    times = _column(name, values, n, np.float64)
    if not (np.abs(times) <= np.finfo(np.float64).max - later).all():
        raise InputError(name, "must hold finite numbers", "pass times as numbers, such as seconds")
    return times


# --------------------------------------------------------------------------------------------------------------- states


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _whole(counts: dict[str, Any]) -> bool:
    return all(type(each) is int and each >= 0 for each in counts.values())


def _correction(stored: Any) -> Correction:
    """A correction of a state."""
    found = Correction(**(stored | {"id": bytes.fromhex(stored["id"])}))
    labels = found.before in (None, 0, 1) and found.after in (0, 1)
    if not labels or len(found.id) != WIDTH or type(found.key) is not int or type(found.version) is not int:
        raise ValueError
    return replace(found, score=_number(found.score), at=_number(found.at))


def _well_formed(columns: dict[str, NDArray[Any]], held: list[NDArray[Any]]) -> bool:
    """Whether the arrays of a state fit each other."""
    for ids, *rest in ([columns["ids"], *(columns[name] for name in COLUMNS)], held):
        if ids.ndim != 2 or ids.shape[1] != 2 or any(each.shape != (len(ids),) for each in rest):
            return False
    ids, labels = columns["ids"], (NONE, 0, 1)
    distinct = len(ids) < 2 or bool((ids[1:] != ids[:-1]).any(axis=1).all())
    in_order = bool((np.lexsort((ids[:, 1], ids[:, 0])) == np.arange(len(ids))).all())
    numbers = [columns[name] for name in ("score", "at", "due")] + held[2:]
    return (
        distinct
        and in_order
        and all(np.isfinite(each).all() for each in numbers)
        and bool(np.isin(columns["state"], (OPEN, DONE)).all() and np.isin(columns["label"], labels).all())
        and bool(np.isin(held[1], (0, 1)).all())
    )
