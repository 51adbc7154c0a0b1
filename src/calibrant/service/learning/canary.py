"""A version that is tried beside the one that is served: a canary answers a share of the ids, a shadow none."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from calibrant.live.snapshots import damaged
from calibrant.service.learning.trial import Watch
from calibrant.service.store.streams import MOST_SHARE

NOT_ONE = -1
"""In place of the version before, in the trial of a canary."""


@dataclass(frozen=True)
class Tried:
    """What serving processes need to know about a canary from a position on; no version if there is none."""

    position: int
    version: int | None
    share: float
    salt: int
    cause: str


@dataclass
class Canary:
    """A version that is tried, or was tried last.

    Attributes
    ----------
    version, share
        The version, and the share of ids that it answers.
    salt
        Position of the action that began it: part of the hash by which ids are chosen.
    watch
        Its trial against what was served, on rows that it did not answer.
    ended
        Why it ended: ``"worse"``, ``"person"`` or ``"promoted"``; None while it is tried.
    """

    version: int
    share: float
    salt: int
    watch: Watch
    ended: str | None = None

    @property
    def is_tried(self) -> bool:
        """Whether it has not ended."""
        return self.ended is None

    def end(self, cause: str) -> None:
        """End it, if it has not ended."""
        self.ended = self.ended or cause

    def document(self) -> dict[str, Any]:
        """What is reported about it."""
        shown = {"version": self.version, "share": self.share, "ended": self.ended}
        return shown | self.watch.paired.document()

    def stored(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, stored: Any) -> Canary:
        """From :meth:`stored`."""
        found = cls(**(stored | {"watch": Watch.of(stored["watch"])}))
        whole = type(found.version) is int and type(found.salt) is int and found.version >= 0
        if not whole or not is_share(found.share) or found.ended not in (None, "worse", "person", "promoted"):
            raise damaged()
        return found


def is_share(given: Any) -> bool:
    """Whether this is a share that a canary can have.

    Examples
    --------
    >>> is_share(0.05), is_share(0), is_share(0.8), is_share("0.05")
    (True, True, False, False)
    """
    return type(given) in (int, float) and 0.0 <= given <= MOST_SHARE
