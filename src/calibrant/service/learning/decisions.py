"""Decisions about versions: what is published, promoted, pinned and rolled back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.live.snapshots import damaged
from calibrant.maps import Map
from calibrant.messages import InputError
from calibrant.numerics import Floats, Ints
from calibrant.service.learning.canary import NOT_ONE, Canary, is_share
from calibrant.service.learning.figures import Rows
from calibrant.service.learning.publishing import ServedMap, candidate
from calibrant.service.learning.trial import Paired, Watch
from calibrant.service.settings import Settings
from calibrant.service.store.log import SECOND

Find = Callable[[int], str]

NONE = -1
"""No version, or no time."""

OF_EPOCH = 100_000
"""Numbers of versions for each epoch."""

MOST_TRUSTED = 1_000
"""Trusted versions that are remembered."""

TRUSTED_ROWS, TRUSTED_EVENTS, TRUSTED_RATIO = 1_000, 10, 1.5
"""A version is trusted if the last released rows are this many, with this many events, and it predicts at most this
much more: one that is moved a part of the way from a score that is far too high is not."""

MOST_BAD = 10
"""Versions that were taken back whose rows raise no alarm."""

ALWAYS = -1e300
"""A time before all others."""


@dataclass(frozen=True)
class Version:
    """A map that was published: never changed."""

    number: int
    position: int
    time: int
    document: str


@dataclass(frozen=True)
class Promotion:
    """A decision about what is served from a position on; the last one counts."""

    position: int
    place: int
    version: int
    cause: str


@dataclass
class Decisions:
    """What is served and why, as a function of the log.

    Attributes
    ----------
    newest, served, before
        Numbers of versions: the newest, the one that is served, and the one before it (-1 if there was none).
    pinned
        Whether a person has pinned what is served: no automatic promotion and no roll-back.
    paused
        Whether automatic promotion is stopped until a person resumes it, after a roll-back.
    wait_until
        Time in microseconds before which no version is promoted automatically, after a person's promotion.
    trials, trials_of_people
        Trials of versions that were promoted automatically, and trials that people began, by a promotion or by other
        settings; half of the level is spent over each.
    watch
        The trial of the version that is served.
    canary
        The version that is tried beside the one that is served, or was tried last.
    bad
        Versions that were rolled back or tried last and not promoted: rows that they served raise no further alarm.
    trusted
        Versions that predicted about as many events as there were when they were published: the feed is judged by them.
    held
        Why the newest version is not served: ``"step"``, ``"worse"``, ``"manual"``, ``"pinned"``, ``"paused"`` or
        ``"waiting"``; None if it is.
    documents
        Documents of the newest version, the one that is served and the one before it.
    """

    newest: int = 0
    served: int = 0
    before: int = NONE
    pinned: bool = False
    paused: bool = False
    wait_until: int = NONE
    trials: int = 0
    trials_of_people: int = 0
    watch: Watch | None = None
    canary: Canary | None = None
    bad: list[int] = field(default_factory=list)
    trusted: list[int] = field(default_factory=list)
    held: str | None = None
    documents: dict[int, str] = field(default_factory=dict)
    _maps: dict[int, ServedMap] = field(default_factory=dict, repr=False, compare=False)
    _last: tuple[int, int] = (0, 0)
    """Position and place of the last promotion."""

    # ------------------------------------------------------------------------------------------------------- versions

    def publish(self, document: str, position: int, time: int) -> Version:
        """A new version, which is not served yet."""
        self.newest += 1
        self.documents[self.newest] = document
        self.held = "manual"
        self._forget()
        return Version(self.newest, position, time, document)

    def begin_epoch(self, number: int) -> None:
        """After a restore, versions have numbers that were not used before it."""
        self.newest = max(self.newest, number * OF_EPOCH)

    def learned(
        self, learned: Map, window: Rows, settings: Settings, position: int, time: int, find: Find
    ) -> tuple[Version, Promotion | None]:
        """Publish what was learned, and promote it if nothing speaks against it.

        Parameters
        ----------
        learned
            The map that is learned now.
        window
            The last released rows.
        settings
            Settings of the stream.
        position, time
            Place in the log.
        find
            Documents of versions.

        Returns
        -------
        tuple
            The version, and its promotion or None.
        """
        served = self._map(self.served, find)
        new = candidate(learned, served.map, window.scores, settings.max_step)
        version = self.publish(new.document, position, time)
        events = int((window.labels == 1).sum())
        if len(window) >= TRUSTED_ROWS and events >= TRUSTED_EVENTS:
            predicted = self._map(version.number, find).apply(window.scores, window.keys).sum()
            self.trusted = [*self.trusted, *[version.number] * bool(predicted <= TRUSTED_RATIO * events)][
                -MOST_TRUSTED:
            ]
        self.held = self._reason(new.may_serve, window, settings, time, find)
        if self.held is not None:
            return version, None
        promotion = self._promote(version.number, "published", position)
        self.trials += 1
        self._begin_watch(self.trials, ALWAYS)
        return version, promotion

    def _reason(self, may_serve: bool, window: Rows, settings: Settings, time: int, find: Find) -> str | None:
        """Why the newest version is not promoted; None if it is."""
        if settings.promotion == "manual":
            return "manual"
        if self.pinned or self.paused:
            return "pinned" if self.pinned else "paused"
        if time < self.wait_until:
            return "waiting"
        if not may_serve:
            return "step"
        paired = Paired()
        self._compare(paired, self.newest, self.served, window, settings, find)
        return "worse" if paired.worse(settings.trial_level) else None

    # ---------------------------------------------------------------------------------------------------------- rows

    def judge(self, rows: Rows, settings: Settings, position: int, find: Find) -> Promotion | None:
        """Take released rows into the trial of the version that is served; the roll-back, if there is one."""
        watch = self.watch
        if watch is None or self.pinned:
            return None
        own = rows.part(rows.at >= watch.since)
        self._compare(watch.paired, watch.version, watch.before, own, settings, find)
        if not len(own) or not watch.verdict(settings.trial_level):
            return None
        return self._roll_back("rolled back", position)

    def judge_canary(self, rows: Rows, versions: Ints, settings: Settings, find: Find) -> None:
        """Take released rows into the trial of the canary, which ends if it is worse than what was served.

        Parameters
        ----------
        rows, versions
            Released rows, and the version that answered each.
        settings
            Settings of the stream.
        find
            Documents of versions.
        """
        canary = self.canary
        if canary is None or not canary.is_tried:
            return
        own = rows.part((rows.at >= canary.watch.since) & (versions != canary.version))
        tried = self._map(canary.version, find).apply(own.scores, own.keys)
        canary.watch.paired.add(tried, own.served, own.labels.astype(np.float64), settings.tolerance)
        if len(own) and canary.watch.verdict(settings.trial_level):
            self._end_canary("worse")

    @property
    def left_out(self) -> list[int]:
        """Versions whose rows are not watched by the monitor: a canary has its own trial."""
        return self.bad + ([self.canary.version] if self.canary and self.canary.is_tried else [])

    def _compare(self, paired: Paired, new: int, old: int, rows: Rows, settings: Settings, find: Find) -> None:
        y: Floats = rows.labels.astype(np.float64)
        newer, older = (self._map(number, find).apply(rows.scores, rows.keys) for number in (new, old))
        paired.add(newer, older, y, settings.tolerance)

    def restart_watch(self, time: int) -> None:
        """A person changed what trials rest on, and may know outcomes: they begin anew with rows from here on."""
        if self.watch is not None:
            self.trials_of_people += 1
            self._begin_watch(self.trials_of_people, time / SECOND)
        if self.canary is not None and self.canary.is_tried:
            self.trials_of_people += 1
            self.canary.watch = Watch(self.canary.version, NOT_ONE, self.trials_of_people, time / SECOND, Paired())

    # ------------------------------------------------------------------------------------------------------- people

    def act(
        self, document: dict[str, Any], position: int, time: int, settings: Settings, find: Find
    ) -> Promotion | None:
        """What a person decided; an action that makes no sense changes nothing.

        Parameters
        ----------
        document
            The action: ``promote`` or ``pin`` with a version, ``canary`` with a version and a share, ``roll-back`` or
            ``resume``.
        position, time
            Place in the log.
        settings
            Settings of the stream.
        find
            Documents of versions.

        Returns
        -------
        Promotion or None
            What is served from here on, if it changes.
        """
        action, given = document.get("action"), document.get("version")
        version = given if type(given) is int and self._exists(given, find) else NONE
        if action == "resume":
            self.paused, self.wait_until = False, NONE
        elif action == "roll-back" and self.before != NONE:
            return self._roll_back("person rolled back", position)
        elif action == "canary" and given is None:
            self._end_canary("person")
        elif action == "canary" and version not in (NONE, self.served) and is_share(document.get("share")):
            self._try(version, float(document["share"]), position, time)
        elif action == "pin" and given is None:
            self.pinned = False
        elif action == "pin" and version != NONE:
            self.pinned, self.watch = True, None
            return self._promote(version, "pinned", position)
        elif action == "promote" and version != NONE:
            promotion = self._promote(version, "person", position)
            self.wait_until = time + int((settings.horizon + settings.cool_down) * SECOND)
            if not self.pinned and self.before != NONE:
                self.trials_of_people += 1
                self._begin_watch(self.trials_of_people, time / SECOND)
            return promotion
        return None

    def _exists(self, version: int, find: Find) -> bool:
        """Whether there is such a version; its document is then held here."""
        if not 0 <= version <= self.newest:
            return False
        try:
            if version:
                self.documents.setdefault(version, self._document(version, find))
        except (InputError, LookupError):
            return False
        return True

    # ------------------------------------------------------------------------------------------------------- helpers

    def _promote(self, version: int, cause: str, position: int) -> Promotion:
        place = self._last[1] + 1 if self._last[0] == position else 0
        self._last = (position, place)
        if version != self.served:
            self.before, self.served = self.served, version
        if version == self.newest:
            self.held = None
        if self.canary is not None and version == self.canary.version:
            self._end_canary("promoted")
        elif cause in OF_PEOPLE:
            self._end_canary("person")
        self.bad = [each for each in self.bad if each != version]
        self.watch = None
        self._forget()
        return Promotion(position, place, version, cause)

    def _roll_back(self, cause: str, position: int) -> Promotion:
        """Serve the version before, and promote no other one until a person resumes."""
        promotion = self._promote(self.before, cause, position)
        self._leave_out(self.before)
        self.paused, self.before = True, NONE
        self._forget()
        return promotion

    def _try(self, version: int, share: float, position: int, time: int) -> None:
        """Try a version beside the one that is served; one that is tried already gets another share."""
        canary = self.canary
        if canary is not None and canary.is_tried and canary.version == version:
            canary.share = share
            return
        self._end_canary("person")
        self.trials_of_people += 1
        watch = Watch(version, NOT_ONE, self.trials_of_people, time / SECOND, Paired())
        self.canary = Canary(version, share, position, watch)
        self._forget()

    def _end_canary(self, cause: str) -> None:
        if self.canary is not None and self.canary.is_tried:
            self.canary.end(cause)
            if cause != "promoted":
                self._leave_out(self.canary.version)

    def _leave_out(self, version: int) -> None:
        self.bad = [*(each for each in self.bad if each != version), version][-MOST_BAD:]

    def _begin_watch(self, number: int, since: float) -> None:
        self.watch = Watch(self.served, self.before, number, since, Paired())

    def _document(self, number: int, find: Find) -> str:
        return self.documents[number] if number in self.documents else find(number)

    def _map(self, number: int, find: Find) -> ServedMap:
        if number not in self._maps:
            self._maps[number] = ServedMap.read(self._document(number, find) if number else None)
        return self._maps[number]

    def _forget(self) -> None:
        """Keep the documents and maps that are needed."""
        keep = {self.newest, self.served, self.before}
        if self.canary is not None and self.canary.is_tried:
            keep.add(self.canary.version)
        self.documents = {number: self.documents[number] for number in sorted(keep & set(self.documents))}
        self._maps = {number: each for number, each in self._maps.items() if number in keep}

    # -------------------------------------------------------------------------------------------------------- state

    def stored(self) -> dict[str, Any]:
        """As JSON values."""
        found = {name: getattr(self, name) for name in (*WHOLE, *FLAGS, "held", "bad", "trusted")}
        documents = {str(number): text for number, text in self.documents.items()}
        watch = None if self.watch is None else self.watch.stored()
        canary = None if self.canary is None else self.canary.stored()
        return found | {"documents": documents, "watch": watch, "canary": canary, "last": list(self._last)}

    @classmethod
    def of(cls, stored: Any) -> Decisions:
        """From :meth:`stored`."""
        try:
            found = cls(**{name: stored[name] for name in (*WHOLE, *FLAGS, "held")})
            found.documents = {int(number): text for number, text in stored["documents"].items()}
            found.watch = None if stored["watch"] is None else Watch.of(stored["watch"])
            found.canary = None if stored["canary"] is None else Canary.of(stored["canary"])
            found.bad, found.trusted = list(stored["bad"]), list(stored.get("trusted", []))
            found._last = (stored["last"][0], stored["last"][1])
            whole = [getattr(found, name) for name in WHOLE] + [*found._last, *found.bad, *found.trusted]
            if any(type(each) is not int or each < NONE for each in whole):
                raise ValueError
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            raise damaged() from None
        return found


WHOLE = ("newest", "served", "before", "wait_until", "trials", "trials_of_people")
FLAGS = ("pinned", "paused")
OF_PEOPLE = ("person", "pinned", "person rolled back")
"""Causes of promotions that people decided."""


def can_serve(document: Any, *, keyed: bool) -> bool:
    """Whether a stream can serve this map; a log may hold anything, and must not stop its learner."""
    try:
        check_document(document, keyed=keyed)
    except (TypeError, ValueError, LookupError, AttributeError):
        return False
    return True


def check_document(document: str, *, keyed: bool) -> None:
    """Refuse a map that a person wants to publish and that the stream cannot serve.

    Parameters
    ----------
    document
        A calibration, as its ``to_json`` writes it.
    keyed
        Whether keys of the stream have their own maps.
    """
    served = ServedMap.read(document)
    if served.map.columns and not keyed:
        raise InputError("document", "has maps by group, and the stream has none by key", "pass one map of the score")
    scores = np.linspace(0.0, 1.0, 101)
    p = served.apply(scores, np.zeros(101, dtype=np.int64))
    if not (np.isfinite(p).all() and p.min() >= 0.0 and p.max() <= 1.0):
        raise InputError("document", "does not give a probability for each score", "give other groups a default map")
