"""The state of a stream: a function of the entries of its log, computed block by block."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from calibrant.live import Bank, Ledger, Monitor
from calibrant.live.ids import Ids
from calibrant.live.records import Released
from calibrant.live.snapshots import damaged, pack, unpack
from calibrant.messages import InputError
from calibrant.online import resume
from calibrant.service.learning.canary import Tried
from calibrant.service.learning.decisions import Decisions, Promotion, Version, can_serve
from calibrant.service.learning.feed import MOST_PAST_DUE, Feed, is_time
from calibrant.service.learning.figures import ARRAYS, Coverage, Figures, Rows, days_of
from calibrant.service.learning.findings import Findings
from calibrant.service.learning.publishing import map_of, restarted
from calibrant.service.settings import Settings
from calibrant.service.store.log import SECOND, Entries, Kind

KIND = "stream"
"""Name in its states."""

NEVER = -1
"""A time that has not come."""

FASTER = 10
"""After an alarm versions are published this much sooner, for one horizon."""


@dataclass
class Decided:
    """What a block led to.

    Attributes
    ----------
    versions, promotions
        Versions that were published, and decisions about what is served.
    tried
        What is tried beside it from here on, if that changed.
    days
        Figures of days that ended, by the number of the day since 1970.
    keys
        New keys whose sums are kept: their numbers, and the position of an entry with each.
    erased
        Ids to remove from the log up to a position, and the ids in their place.
    """

    versions: list[Version] = field(default_factory=list)
    promotions: list[Promotion] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    days: dict[int, dict[str, Any]] = field(default_factory=dict)
    keys: dict[int, int] = field(default_factory=dict)
    erased: list[tuple[int, UUID, UUID]] = field(default_factory=list)


class StreamState:
    """What is known after the entries of a log up to a position.

    The entries of one second are one block. A block moves the time to its second, so that rows which are due are
    released, judged with what was served, and learned; then come its predictions, its outcomes and its actions, each in
    their order; then a version is published if one is due. Only whole blocks are applied, so the state depends on the
    log alone. Where silence is negative, rows that are due wait until the feed of outcomes has shown life.

    Parameters
    ----------
    settings
        Settings of the stream.

    Attributes
    ----------
    findings, coverage
        What alarms saw, and how many rows that were due lately had an outcome.
    alarms, alarmed, fast_until
        Alarms so far, the time of the last one, and until when versions are published sooner after it. Rows that were
        served before an alarm are released for one horizon after it: what the monitor finds in them is the same alarm.
    feed
        The feed of outcomes: where silence is negative, it says up to where rows are released.
    find
        The document of a version that was published: needed when a person promotes one that is not held here. A version
        never changes, so this does not make the state depend on anything but the log.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.position, self.time = 0, 0
        self.ledger = settings.ledger()
        self.forecaster = settings.new_forecaster()
        self.bank = settings.new_bank() if settings.keyed else None
        self.monitor = settings.new_monitor()
        self.figures, self.findings, self.coverage = Figures(), Findings(), Coverage()
        self.decisions = Decisions()
        self.feed = Feed()
        self.published, self.rows_published = NEVER, 0
        self.alarms, self.alarmed, self.fast_until = 0, NEVER, NEVER
        self.find: Callable[[int], str] = _not_found

    @property
    def version(self) -> int:
        """The newest version."""
        return self.decisions.newest

    @property
    def served(self) -> int:
        """The version that is served."""
        return self.decisions.served

    # ------------------------------------------------------------------------------------------------------- events

    def apply(self, block: Entries) -> Decided:
        """Apply one block.

        Parameters
        ----------
        block
            All entries of one second, which begin right after the last position.

        Returns
        -------
        Decided
            Versions and promotions that follow.
        """
        if not len(block) or block.position[0] != self.position + 1:
            raise InputError("block", f"does not begin at position {self.position + 1}", "read the log in order")
        now = int(block.time[0]) // SECOND
        if self.published == NEVER:  # the time until the first version counts from the first entry
            self.published = int(block.time[0])
        self.position, self.time = int(block.position[-1]), int(block.time[-1])
        decided, before = Decided(), self._tried()
        self._release(float(now), int(block.position[0]), decided)
        self.findings.follow(self.monitor, self.time)
        self.coverage.add(now, self.ledger.counts, self.settings.horizon)
        self._predictions(block, block.kind == Kind.PREDICTION, block.at, decided)
        self._predictions(block, block.kind == Kind.OUTCOME_WITH_RECEIPT, block.predicted, decided)
        came = (block.kind == Kind.OUTCOME) | (block.kind == Kind.OUTCOME_WITH_RECEIPT)
        if came.any():
            at = block.at[came] / SECOND
            self.ledger.observe(_sixteen(block.id[came]), block.label[came], at=at)
            self.feed.came(at, block.time[came] / SECOND)
            self.ledger.take_corrections()  # they are counted; nothing is learned from them
        for position in block.position[block.kind == Kind.ACTION].tolist():
            self._act(json.loads(block.documents[position]), position, decided)
        self._publish(decided)
        after = self._tried()
        if after != before:
            cause = self.decisions.canary.ended if self.decisions.canary else None
            decided.tried.append(Tried(self.position, *after, cause or "person"))
        return decided

    def _tried(self) -> tuple[int | None, float, int]:
        """Version, share and salt of the canary; no version if there is none."""
        canary = self.decisions.canary
        return (canary.version, canary.share, canary.salt) if canary and canary.is_tried else (None, 0.0, 0)

    def _predictions(self, block: Entries, chosen: NDArray[np.bool_], at: Any, decided: Decided) -> None:
        if not chosen.any():
            return
        keys = np.column_stack([block.key[chosen], block.probability[chosen].view(np.int64)])
        self.ledger.predict(
            _sixteen(block.id[chosen]), block.score[chosen], at=at[chosen] / SECOND, keys=keys,
            versions=block.version[chosen],
        )  # fmt: skip
        for number, place in self.figures.meet(keys[:, 0]):
            decided.keys[number] = int(block.position[chosen][place])

    # ----------------------------------------------------------------------------------------------------- releases

    def _release(self, now: float, first: int, decided: Decided) -> None:
        """Rows that are due are judged with what was served, counted and learned.

        A roll-back has the first position of the block, so that what a person decides in the same block comes after it.
        """
        reached = int(self.feed.until * SECOND) if self._waits_for_life else self.time
        released = self._due(now)
        if self.fast_until != NEVER and reached >= self.fast_until:
            self.fast_until = NEVER
            self.monitor.restart()  # rows from here on were served after the alarm
        if not len(released):
            return
        keys, served = released.keys[:, 0].copy(), released.keys[:, 1].copy().view(np.float64)
        rows = Rows(released.scores, keys, released.labels, served, released.at)
        rolled = self.decisions.judge(rows, self.settings, first, self.find)
        if rolled is not None:
            decided.promotions.append(rolled)
        self.decisions.judge_canary(rows, released.versions, self.settings, self.find)
        alarms = self.monitor.alarm_count
        watched = rows.part(~np.isin(released.versions, self.decisions.left_out))
        self.monitor.update(watched.served, watched.labels, at=watched.at)
        self._count(rows, decided)
        if self.bank is not None:
            self.bank.learn(rows.scores, rows.keys, rows.labels)
        self.forecaster.learn_many(rows.scores, rows.labels)
        if self.monitor.alarm_count > alarms and self.fast_until == NEVER:
            self.alarms, self.alarmed = self.alarms + 1, self.time
            if self.feed.is_held:
                return
            self.fast_until = self.time + int(self.settings.horizon * SECOND)
            self.forecaster = restarted(self.forecaster, self.settings.new_forecaster())
            self.figures.keep(self.monitor.rows - self.monitor.alarms[-1].onset_row)
            self.findings.add(self.monitor, self.figures.window, self.time, self.decisions.served)

    def _due(self, now: float) -> Released:
        """Rows that are due, and whose outcomes have arrived if there are any."""
        if not self._waits_for_life:
            return self.ledger.advance(now)
        self.feed.look(self.ledger, now, self.settings.longest_delay, self.decisions.trusted)
        released = self.ledger.advance(now, self.feed.until)
        if self.ledger.counts.open > MOST_PAST_DUE:
            self.ledger.drop(max(len(self.ledger.predicted(NEVER, now)) - MOST_PAST_DUE, 0))
        return released

    @property
    def _waits_for_life(self) -> bool:
        return self.settings.silence == "negative"

    @property
    def waits(self) -> bool:
        """Whether time alone leads to something: rows that are not due, or that can be released."""
        if not self._waits_for_life:
            return self.ledger.counts.open > 0
        reach = self.feed.reach(self.settings.longest_delay)
        return bool(len(self.ledger.predicted(self.feed.judged, np.inf)) or len(self.ledger.predicted(NEVER, reach)))

    def _count(self, rows: Rows, decided: Decided) -> None:
        """Count rows; figures of days that end are reported."""
        found = days_of(rows.at, self.settings.zone)
        days = np.maximum(np.maximum.accumulate(found), self.figures.day)
        for day in np.unique(days).tolist():
            if day != self.figures.day and self.figures.day >= 0:
                decided.days[self.figures.day] = self.today()
            self.figures.add(rows.part(days == day), day)

    def today(self) -> dict[str, Any]:
        """Figures of the day of the last released rows."""
        band = self.monitor.band
        return self.figures.of_day(band.low, band.high)

    # ------------------------------------------------------------------------------------------------------ actions

    def _act(self, document: dict[str, Any], position: int, decided: Decided) -> None:
        action = document.get("action")
        if action == "settings":
            self._change(document.get("settings"))
        elif action == "erase":
            if "id" in document:  # otherwise it is erased from the log, and this state is from before it
                self.ledger.erase(bytes.fromhex(document["id"]))
                decided.erased.append((position, UUID(document["id"]), UUID(document["to"])))
        elif action == "complete":
            if is_time(document.get("until")):
                self.feed.says(min(document["until"], self.time) / SECOND)
        elif action == "gap":
            self.feed.end(self.ledger, document, self.time / SECOND, self.settings.longest_delay)
        elif action == "epoch":
            self.decisions.begin_epoch(document["number"])
        elif action == "publish":
            text = str(document.get("document"))
            if can_serve(text, keyed=self.settings.keyed):
                decided.versions.append(self.decisions.publish(text, position, self.time))
        else:
            promotion = self.decisions.act(document, position, self.time, self.settings, self.find)
            if promotion is not None:
                decided.promotions.append(promotion)

    def _change(self, document: Any) -> None:
        """New settings hold from here on; those that cannot be taken change nothing."""
        try:
            new = Settings.of(document)
            self.settings.check_change(new)
        except (InputError, TypeError, ValueError):
            return
        watching = ("tolerance", "alarm_level")
        if any(getattr(new, name) != getattr(self.settings, name) for name in watching):
            self.monitor = new.new_monitor()
        judging = ("tolerance", "trial_level")
        if any(getattr(new, name) != getattr(self.settings, name) for name in judging):
            self.decisions.restart_watch(self.time)
        self.settings = new
        self.ledger.horizon, self.ledger.remember = new.horizon, new.horizon if new.remember is None else new.remember

    # ------------------------------------------------------------------------------------------------------ versions

    def _publish(self, decided: Decided) -> None:
        rows = self.forecaster.n_rows - self.rows_published
        fast = self.fast_until != NEVER
        sooner = FASTER if fast else 1
        passed = self.time - self.published >= self.settings.publish_seconds * SECOND / sooner
        if self.feed.is_held or not rows or not (rows >= max(1, self.settings.publish_rows // sooner) or passed):
            return
        self.published, self.rows_published = self.time, self.forecaster.n_rows
        learned = map_of(self.forecaster, self.bank, together=fast)
        version, promotion = self.decisions.learned(
            learned, self.figures.window, self.settings, self.position, self.time, self.find
        )
        decided.versions.append(version)
        if promotion is not None:
            decided.promotions.append(promotion)

    # -------------------------------------------------------------------------------------------------------- state

    def to_bytes(self) -> bytes:
        """Everything that is known; equal states give equal bytes."""
        head = {
            "settings": self.settings.document(),
            "numbers": {name: getattr(self, name) for name in NUMBERS},
            "decisions": self.decisions.stored(),
            "forecaster": self.forecaster.state,
            "monitor": self.monitor.to_json(),
            "findings": self.findings.kept,
            "coverage": self.coverage.sums,
            "feed": self.feed.stored(),
        }
        bank = b"" if self.bank is None else self.bank.to_bytes()
        raw = {"ledger": self.ledger.to_bytes(), "bank": bank}
        arrays = {name: np.frombuffer(each, dtype=np.uint8) for name, each in raw.items()}
        return pack(KIND, head, arrays | self.figures.arrays())

    @classmethod
    def from_bytes(cls, state: bytes) -> StreamState:
        """A state that goes on where another was when :meth:`to_bytes` wrote it."""
        head, arrays = unpack(state, KIND, {"ledger": np.uint8, "bank": np.uint8} | ARRAYS)
        numbers = head.get("numbers")
        if not isinstance(numbers, dict) or set(numbers) != set(NUMBERS):
            raise damaged()
        if any(type(each) is not int or each < NEVER for each in numbers.values()):
            raise damaged()
        found = cls(Settings.of(head.get("settings")))
        for name, number in numbers.items():
            setattr(found, name, number)
        found.ledger = Ledger.from_bytes(arrays["ledger"].tobytes())
        found.bank = Bank.from_bytes(arrays["bank"].tobytes()) if found.settings.keyed else None
        found.forecaster = resume(head["forecaster"])
        found.monitor = Monitor.from_json(head["monitor"])
        found.figures = Figures.of(arrays)
        found.findings, found.coverage = Findings(head.get("findings", [])), Coverage(head.get("coverage", []))
        found.decisions = Decisions.of(head["decisions"])
        found.feed = Feed.of(head.get("feed"))
        return found


NUMBERS = ("position", "time", "published", "rows_published", "alarms", "alarmed", "fast_until")


def _not_found(number: int) -> str:
    raise InputError("version", f"{number} is not known here", "set find, which reads versions")


def begin(entries: Entries) -> StreamState:
    """The state before the first entry, which says the settings."""
    if not len(entries) or entries.position[0] != 1:
        raise InputError("entries", "do not begin with the settings of a stream")
    return StreamState(Settings.of(json.loads(entries.documents[1])["settings"]))


def whole_blocks(entries: Entries, more: bool) -> Iterator[Entries]:
    """Entries of one second each, without the last second: others of it may still come.

    Parameters
    ----------
    entries
        Entries in order.
    more
        Whether the last block is whole as well.

    Returns
    -------
    iterator
        Blocks in order.
    """
    seconds = entries.time // SECOND
    starts = np.flatnonzero(np.diff(seconds, prepend=-1))
    stops = np.append(starts[1:], len(entries))
    for start, stop in list(zip(starts.tolist(), stops.tolist(), strict=True))[: None if more else -1]:
        yield entries.part(start, stop)


def _sixteen(ids: Ids) -> Any:
    """Pairs of 8 bytes as the 16 bytes that they came from."""
    return np.ascontiguousarray(ids.astype(">u8")).view("V16").reshape(-1)
