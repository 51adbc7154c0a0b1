"""The state of a stream: a function of the entries of its log, computed block by block."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibration import Calibration
from calibrant.live import LateLearner
from calibrant.live.ids import Ids
from calibrant.live.snapshots import damaged, pack, unpack
from calibrant.messages import InputError
from calibrant.service.settings import Settings
from calibrant.service.store.log import SECOND, Entries, Kind

KIND = "stream"
"""Name in its states."""

NEVER = -1
"""The time of the last version before there is one."""


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


@dataclass(frozen=True)
class Decided:
    """What a block led to."""

    versions: list[Version]
    promotions: list[Promotion]


class StreamState:
    """What is known after the entries of a log up to a position.

    The entries of one second are one block. A block moves the time to its second, so that rows which are due are
    released and learned; then come its predictions, its outcomes and its actions, each in their order; then a version
    is published if one is due. Only whole blocks are applied, so the state depends on the log alone.

    Parameters
    ----------
    settings
        Settings of the stream.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.position, self.time = 0, 0
        self.learner = LateLearner(settings.new_forecaster(), settings.ledger())
        self.version, self.published, self.rows_published = 0, NEVER, 0
        self.served = 0

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
        self.position, self.time = int(block.position[-1]), int(block.time[-1])
        self.learner.advance(float(now))
        self._predictions(block, block.kind == Kind.PREDICTION, block.at)
        self._predictions(block, block.kind == Kind.OUTCOME_WITH_RECEIPT, block.predicted)
        came = (block.kind == Kind.OUTCOME) | (block.kind == Kind.OUTCOME_WITH_RECEIPT)
        if came.any():
            self.learner.observe(_sixteen(block.id[came]), block.label[came], at=block.at[came] / SECOND)
        promotions: list[Promotion] = []
        for position in block.position[block.kind == Kind.ACTION].tolist():
            self._act(json.loads(block.documents[position]), position, promotions)
        return Decided(self._publish(promotions), promotions)

    def _predictions(self, block: Entries, chosen: NDArray[np.bool_], at: Any) -> None:
        if chosen.any():
            keys = np.column_stack([block.key[chosen], block.probability[chosen].view(np.int64)])
            self.learner.ledger.predict(
                _sixteen(block.id[chosen]), block.score[chosen], at=at[chosen] / SECOND, keys=keys,
                versions=block.version[chosen],
            )  # fmt: skip

    def _act(self, document: dict[str, Any], position: int, promotions: list[Promotion]) -> None:
        if document["action"] == "promote" and 0 <= document["version"] <= self.version:
            self._promote(position, document["version"], "person", promotions)

    def _publish(self, promotions: list[Promotion]) -> list[Version]:
        rows = self.learner.forecaster.n_rows - self.rows_published
        passed = self.published == NEVER or self.time - self.published >= self.settings.publish_seconds * SECOND
        if not rows or not (rows >= self.settings.publish_rows or passed):
            return []
        self.version += 1
        self.published, self.rows_published = self.time, self.learner.forecaster.n_rows
        frozen = self.learner.forecaster.freeze()
        document = (frozen if isinstance(frozen, Calibration) else Calibration(frozen)).to_json()
        if self.settings.promotion == "automatic":
            self._promote(self.position, self.version, "published", promotions)
        return [Version(self.version, self.position, self.time, document)]

    def _promote(self, position: int, version: int, cause: str, promotions: list[Promotion]) -> None:
        promotions.append(Promotion(position, len(promotions), version, cause))
        self.served = version

    # -------------------------------------------------------------------------------------------------------- state

    def to_bytes(self) -> bytes:
        """Everything that is known; equal states give equal bytes."""
        numbers = {name: getattr(self, name) for name in NUMBERS}
        head = {"settings": self.settings.document(), "numbers": numbers}
        return pack(KIND, head, {"learner": np.frombuffer(self.learner.to_bytes(), dtype=np.uint8)})

    @classmethod
    def from_bytes(cls, state: bytes) -> StreamState:
        """A state that goes on where another was when :meth:`to_bytes` wrote it."""
        head, arrays = unpack(state, KIND, {"learner": np.uint8})
        numbers = head.get("numbers")
        if not isinstance(numbers, dict) or set(numbers) != set(NUMBERS):
            raise damaged()
        if any(type(each) is not int or each < NEVER for each in numbers.values()):
            raise damaged()
        found = cls(Settings.of(head.get("settings")))
        for name, number in numbers.items():
            setattr(found, name, number)
        found.learner = LateLearner.from_bytes(arrays["learner"].tobytes())
        return found


NUMBERS = ("position", "time", "version", "published", "rows_published", "served")


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
