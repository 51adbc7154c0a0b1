"""A ledger of predictions that wait for their outcome, joined by id in any order, released in one fixed order."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_option, check_whole
from calibrant.live.delays import ARRAYS, DelayDrift, Delays, cells_of, periods_of
from calibrant.live.held import HeldOutcomes
from calibrant.live.ids import Ids, IdTable, read_ids
from calibrant.live.inputs import beside, column, duration, groups_of, rows_of, times
from calibrant.live.names import SLACK, KeyNames, coded_keys
from calibrant.live.queues import DueQueue
from calibrant.live.records import Correction, Counts, Released
from calibrant.live.snapshots import damaged, pack, unpack
from calibrant.live.states import COLUMNS, DONE, HELD, NONE, OPEN, correction, number, well_formed, whole
from calibrant.live.young import Young
from calibrant.messages import InputError
from calibrant.numerics import Floats, Ints
from calibrant.online.limits import real
from calibrant.shift.maturity import MIN_ARRIVED, MIN_DELAYS

Silence = Literal["negative", "unknown"]

KIND = "ledger"
"""Name in its states."""

LIMITS = ("max_open", "max_held", "max_remembered", "max_corrections", "max_delay_keys")


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
    key_columns
        Number of columns that the key of a prediction has. A single one holds integers or text, several hold integers.
    max_delay_keys
        Largest number of keys whose delays are counted apart, for :meth:`young`; the delays of others are pooled.

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
        key_columns: int = 1,
        max_delay_keys: int = 1_000,
    ) -> None:
        self.horizon = duration("horizon", horizon, positive=True)
        check_option("silence", silence, get_args(Silence))
        self.silence: Silence = silence
        self.remember = self.horizon if remember is None else duration("remember", remember)
        self.hold = self.horizon if hold is None else duration("hold", hold)
        limits = (max_open, max_held, max_remembered, max_corrections, max_delay_keys)
        for name, limit in zip(LIMITS, limits, strict=True):
            check_whole(name, limit, 0)
        check_whole("key_columns", key_columns, 1)
        if key_columns > 1_000:
            raise InputError("key_columns", f"must be at most 1,000, got {key_columns:,}", "join some of them")
        self.max_open, self.max_held, self.max_remembered = max_open, max_held, max_remembered
        self.max_corrections, self.max_delay_keys, self.key_columns = max_corrections, max_delay_keys, key_columns
        self.now = -math.inf
        self.counts = Counts()
        self._table = IdTable()
        self._columns = {
            name: np.zeros(self._shape(name, self._table.rows), dtype=kind) for name, kind in COLUMNS.items()
        }
        self._delays = Delays(1 if silence == "negative" else 2, max_delay_keys)
        self._releases, self._forgets, self._held = DueQueue(), DueQueue(), HeldOutcomes(max_held)
        self._corrections: list[Correction] = []
        self._names: KeyNames | None = None  # of text keys

    def __repr__(self) -> str:
        return f"Ledger(horizon={self.horizon:g}): {self.counts}"

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
        keys
            The segment of each prediction, which comes back at the release: integers or text, of one kind in all
            calls. With several ``key_columns``, one row of integers for each id. The text of a key is kept while a row
            or a delay of it is.
        versions
            Integers that come back at the release: the number of the map that answered.
        """
        pairs = read_ids(ids)
        n = len(pairs)
        score = column("scores", scores, n, np.float64)
        if not np.isfinite(score).all():
            raise InputError("scores", "must be finite")
        time = times("at", at, n, self.horizon + self.remember)
        version = column("versions", versions, n, np.int64)
        self._predict(pairs, {"score": score, "at": time, "key": self._keys(keys, n), "version": version})
        if self._names is not None and len(self._names) > 2 * (len(self._table) + len(self._delays.by_key)) + SLACK:
            self._drop_names()

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
        label = column("labels", labels, n, np.float64)
        if not np.isin(label, (0.0, 1.0)).all():
            raise InputError("labels", "must be 0 or 1", "leave out outcomes that are not known")
        if at is None and not math.isfinite(self.now):
            raise InputError("at", "is missing, and no time is known yet", "pass it, or call advance first")
        time = np.full(n, self.now) if at is None else times("at", at, n, self.hold)
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

    def advance(self, now: float, until: float = math.inf) -> Released:
        """Move time forward, and release what is due.

        Parameters
        ----------
        now
            The new time; an earlier one than before changes nothing, and is counted.
        until
            Rows that are due later than this go on to wait, and outcomes may still join them. It must not go back.

        Returns
        -------
        Released
            Rows in the order in which they are to be learned.
        """
        now = float(times("now", now, 1)[0])
        if now < self.now:
            self.counts.stale += 1
            return self._released(np.empty(0, dtype=np.int64))
        self.now = now
        released = self._release(self._in_order(self._releases.pop(min(now, until))))
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

    def waiting(self, after: float, until: float) -> Released:
        """Rows that wait and are due in (after, until], in the order of their release; a label is -1 if none came."""
        return self._released(self._in_order(self._releases.between(after, until)))

    def predicted(self, after: float, until: float) -> Floats:
        """When rows were predicted that wait and are due in (after, until], in no particular order."""
        return np.asarray(self._columns["at"][self._releases.between(after, until)])

    def drop(self, most: int | None = None, *, after: float = -math.inf, before: float = math.inf) -> None:
        """Drop and count rows that wait, with or without an outcome; they are not released.

        Parameters
        ----------
        most
            How many at most, those that are due first; by default there is no limit.
        after, before
            Of rows that are due after the one time and were predicted before the other.
        """
        rows = self._in_order(self._releases.pop(math.inf) if most is None else self._releases.pop_oldest(most))
        due, late = self._columns["due"][rows], np.arange(len(rows)) >= (len(rows) if most is None else most)
        kept = late | (due <= after) | (self._columns["at"][rows] >= before)
        self._releases.push(rows[kept], due[kept])
        self.counts.open -= int((~kept).sum())
        self.counts.dropped += int((~kept).sum())
        self._drop(rows[~kept])

    def erase(self, id: bytes) -> None:
        """Forget an id wherever the ledger holds it; a row that waits is removed, and is not released.

        To release it without its id would be wrong: its outcome could no longer be joined, and silence would make it a
        negative; and if the same prediction came again, it would be learned twice.

        Parameters
        ----------
        id
            The 16 bytes of an id, as :func:`calibrant.live.read_ids` reads them; if it is not known, nothing changes.
        """
        pair = np.frombuffer(id, dtype=">u8").astype(np.uint64)
        found = self._table.find(pair[None])
        rows = found[found >= 0]
        waiting, held = int((self._columns["state"][rows] == OPEN).sum()), len(self._held.take(pair.tobytes()))
        self.counts.open -= waiting
        self.counts.erased += waiting
        self.counts.held -= held
        self.counts.unknown += held
        self._corrections = [each for each in self._corrections if each.id != id]
        self._drop(rows)
        vars(self).update(vars(Ledger.from_bytes(self.to_bytes())))  # queues without the row

    def take_corrections(self) -> list[Correction]:
        """The corrections since the last call, in the order in which they came."""
        found, self._corrections = self._corrections, []
        return found

    def _predict(self, ids: Ids, new: dict[str, NDArray[Any]]) -> None:
        """Predictions in order: of each id the first that is not late is admitted, while there is room."""
        n, columns = len(ids), self._columns
        rows, order = self._table.find(ids), np.arange(n)
        known = rows >= 0
        late = ~known & (new["at"] + self.horizon <= self.now)
        group = groups_of(ids)
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
            name: np.where(beside(known, each), columns[name][rows], each[np.minimum(first[group], n - 1)])
            for name, each in new.items()
        }
        equal = [before[name] == each for name, each in new.items()]
        same = taken & np.all([rows_of(each).all(axis=1) for each in equal], axis=0)
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
                grown = np.zeros(self._shape(name, self._table.rows), dtype=column.dtype)
                grown[: len(column)] = column
                self._columns[name] = grown
        for column in self._columns.values():
            column[rows] = 0
        self._columns["label"][rows] = NONE
        return rows

    def _outcomes(self, rows: Ints, label: NDArray[np.int8], at: Floats) -> None:
        """Outcomes of known predictions, in order; of each row, an outcome is compared with the one before it."""
        columns = self._columns
        late = at > columns["at"][rows] + self.horizon
        self.counts.too_late += int(late.sum())
        came = np.flatnonzero(~late)
        came = came[np.argsort(rows[came], kind="stable")]
        rows, label, at = rows[came], label[came], at[came]
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
        self._keep_delays(rows[waiting & changed], at[waiting & changed])
        last = np.roll(head, -1)
        columns["label"][rows[last]] = label[last]
        columns["silent"][rows[~waiting]] = False

    def _keep_delays(self, rows: Ints, at: Floats) -> None:
        """How long it took until the label of these rows was known; of each row, which stand together, the last."""
        last = np.ones(len(rows), dtype=bool)
        last[:-1] = rows[1:] != rows[:-1]
        rows, known = rows[last], np.maximum(at[last], self.now)
        self._columns["delay"][rows] = cells_of((known - self._columns["at"][rows]) / self.horizon)

    def _correct(self, row: int, before: int, after: int) -> None:
        if len(self._corrections) >= self.max_corrections:
            self.counts.dropped_corrections += 1
            return
        pair = self._table.ids[row].astype(">u8").tobytes()
        numbers = {name: self._columns[name][row].item() for name in ("score", "at", "version")}
        key = self._named(self._columns["key"][row : row + 1]).tolist()[0]
        numbers["key"] = tuple(key) if self.key_columns > 1 else key
        self._corrections.append(Correction(pair, **numbers, before=None if before == NONE else before, after=after))

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
        self._count_delays(rows[~silent])
        told = self._released(rows if self.silence == "negative" else rows[~silent])
        due = self._columns["due"][rows] + self.remember
        self._columns["due"][rows] = due
        self._forgets.push(rows, due)
        return told

    def _count_delays(self, rows: Ints) -> None:
        """Delays of released outcomes; of events alone if silence is negative."""
        columns = self._columns
        self._delays.move(float(periods_of(np.array(self.now), self.horizon)))
        if self.silence == "negative":
            rows = rows[columns["label"][rows] == 1]
        label = np.maximum(columns["label"][rows], 0).astype(np.int64) if self.silence == "unknown" else 0
        periods = periods_of(columns["due"][rows], self.horizon)
        self._delays.count(periods, columns["key"][rows], np.broadcast_to(label, len(rows)), columns["delay"][rows])

    def young(self) -> Young:
        """The rows that wait, with the outcomes known so far, to be learned early with maturity weights.

        Nothing changes: the rows are released later as ever. So what learns them is a fit, or a copy of a forecaster,
        that is made again when more is known, never the forecaster that learns the released rows.

        Returns
        -------
        Young
            Its ``weights`` assume that delays are those of the last horizons, and independent of the score given the
            key. An outcome is known from its time on, or from when it was registered, if that is later.
        """
        columns, needed = self._columns, self._delays.outcomes()
        if needed.min() < MIN_DELAYS:
            problem = f"has released too few outcomes to estimate delays ({int(needed.min())} of {MIN_DELAYS})"
            raise InputError("ledger", problem, "wait until more are released")
        rows = self._in_order(np.flatnonzero((columns["state"] == OPEN) & (columns["at"] <= self.now)))
        cells = cells_of((self.now - columns["at"][rows]) / self.horizon)
        arrived, own = self._delays.arrived(columns["key"][rows], cells)
        old = arrived.min(axis=1) >= MIN_ARRIVED  # not by the label, which would choose rows by their outcome
        known = (columns["label"][rows] != NONE) & (columns["delay"][rows] < cells)
        keep = old & known if self.silence == "unknown" else old
        rows, known, arrived = rows[keep], known[keep], arrived[keep]
        label = np.where(known, columns["label"][rows], 0).astype(np.int8)
        share = arrived[:, 0] if self.silence == "negative" else arrived[np.arange(len(rows)), label]
        return Young(
            ids=self._table.ids[rows],
            scores=columns["score"][rows],
            labels=label,
            keys=self._named(columns["key"][rows]),
            at=columns["at"][rows],
            versions=columns["version"][rows],
            arrived=share,
            own=own[keep],
            left_out=int((~old).sum()),
            drift=self._delays.drift(),
            silent_negatives=self.silence == "negative",
        )

    def delay_quantile(self, share: float) -> float:
        """Time within which a share of the outcomes of the last horizons came, after their prediction.

        Parameters
        ----------
        share
            Such as 0.5 for the median.

        Returns
        -------
        float
            Rounded up to a cell of an eighth of its size; NaN before the first outcome is released. If silence is
            negative, of events alone.
        """
        return self.horizon * self._delays.quantile(real("share", share, 0.0, 1.0))

    @property
    def delay_drift(self) -> DelayDrift:
        """How far the delays of the latest outcomes are from those before."""
        return self._delays.drift()

    def _released(self, rows: Ints) -> Released:
        columns = {name: self._columns[name][rows] for name in ("score", "label", "key", "at", "version", "silent")}
        columns["key"] = self._named(columns["key"])
        return Released(self._table.ids[rows], *columns.values())

    def _in_order(self, rows: Ints) -> Ints:
        """Rows by the time at which they are due, ties by id."""
        ids, due = self._table.ids[rows], self._columns["due"][rows]
        return rows[np.lexsort((ids[:, 1], ids[:, 0], due))]

    def _drop(self, rows: Ints) -> None:
        self._table.remove(rows)
        self._columns["state"][rows] = 0

    def settings(self) -> dict[str, Any]:
        """The arguments of the ledger."""
        return {
            name: getattr(self, name) for name in ("horizon", "silence", "remember", "hold", "key_columns", *LIMITS)
        }

    def to_bytes(self) -> bytes:
        """Everything the ledger knows; equal ledgers give equal bytes."""
        self._drop_names()
        rows = np.flatnonzero(self._columns["state"])
        ids = self._table.ids[rows]
        order = np.lexsort((ids[:, 1], ids[:, 0]))
        head: dict[str, Any] = {
            "settings": self.settings(),
            "now": self.now if math.isfinite(self.now) else None,
            "counts": asdict(self.counts),
            "period": self._delays.period,
            "corrections": [asdict(each) | {"id": each.id.hex()} for each in self._corrections],
        }
        if self._names is not None:
            head["names"] = self._names.listed()
        kept = {"ids": ids[order]} | {name: each[rows][order] for name, each in self._columns.items()}
        held = self._held.listed()
        raw = np.frombuffer(b"".join(each[0] for each in held), dtype=np.uint64).reshape(-1, 2)
        lists = zip(*(each[1:] for each in held), strict=True) if held else ((), (), ())
        rest = dict(zip(list(HELD)[1:], lists, strict=True))
        waiting = {"held_ids": raw} | {name: np.array(each, dtype=HELD[name]) for name, each in rest.items()}
        return pack(KIND, head, kept | waiting | self._delays.arrays(self.key_columns))

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
        head, columns = unpack(state, KIND, {"ids": np.uint64} | COLUMNS | HELD | ARRAYS)
        try:
            ledger = cls(**head["settings"])
            ledger.now = -math.inf if head["now"] is None else number(head["now"])
            ledger.counts = Counts(**head["counts"])
            text, width = "names" in head, ledger.key_columns
            ledger._corrections = [correction(each, width, text) for each in head["corrections"]]
            if text:
                used = np.concatenate([columns["key"].reshape(-1), columns["delay_keys"].reshape(-1)])
                ledger._names = KeyNames.read(head["names"] if width == 1 else None, used)
            ledger._delays.fill(head["period"], {name: columns.pop(name) for name in ARRAYS}, ledger.key_columns)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, InputError):
            raise damaged() from None
        held = [columns.pop(name) for name in HELD]
        shape = ledger._shape("key", len(columns["ids"]))
        if not well_formed(columns, held, shape) or not whole(asdict(ledger.counts)):
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

    def _shape(self, name: str, rows: int) -> tuple[int, ...]:
        """The shape of a column."""
        return (rows, self.key_columns) if name == "key" and self.key_columns > 1 else (rows,)

    def _keys(self, keys: ArrayLike, n: int) -> Ints:
        """Keys of n rows, in one column or several; text as codes."""
        so_far = "text" if self._names is not None else "integers" if self.counts.predictions else None
        found, self._names = coded_keys(keys, n, self.key_columns, self._names, so_far)
        return found

    def _named(self, keys: Ints) -> NDArray[Any]:
        """Keys as they were passed."""
        return keys if self._names is None else self._names.of(keys)

    def _drop_names(self) -> None:
        """Keep the names that a row or the delays of a key use, in their order."""
        if self._names is None:
            return
        rows = np.flatnonzero(self._columns["state"])
        mine = self._columns["key"][rows]
        codes = self._names.keep(np.concatenate([mine, self._delays.keys(self.key_columns).reshape(-1)]))
        self._columns["key"][rows] = codes[mine]
        self._delays.rename(codes)

    def __len__(self) -> int:
        """Predictions and outcomes in memory: waiting predictions, waiting outcomes and released ids."""
        return len(self._table) + len(self._held)
