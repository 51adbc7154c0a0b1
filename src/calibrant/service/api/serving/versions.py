"""The version that each stream serves: looked up in the database, kept in memory and on the local disk."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from calibrant.calibration import Calibration
from calibrant.messages import InputError
from calibrant.service.settings import Settings
from calibrant.service.store.log import SECOND, key_number

LOG = logging.getLogger("calibrant.service")

FORMAT = 1
"""Of the files."""

SERVED = """
select stream.stream, stream.name, coalesce(promoted.version, 0), version.time, settings.document,
    canary.version, tried.time, canary.share, canary.salt
from stream
left join lateral (
    select version from promotion where promotion.stream = stream.stream order by position desc, place desc limit 1
) as promoted on true
left join version on version.stream = stream.stream and version.number = promoted.version
left join lateral (
    select document from settings where settings.stream = stream.stream order by position desc limit 1
) as settings on true
left join lateral (
    select version, share, salt from canary where canary.stream = stream.stream order by position desc limit 1
) as canary on canary.share > 0
left join version as tried on tried.stream = stream.stream and tried.number = canary.version
order by stream.stream
"""
CLOCK = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
DOCUMENT = "select document from version where stream = %s and number = %s"


@dataclass(frozen=True)
class CanaryMap:
    """A version that answers a share of the ids.

    Attributes
    ----------
    version, published, document
        As in :class:`Served`.
    share
        The share.
    salt
        Chooses the ids, together with the number of the stream.
    """

    version: int
    published: int | None
    document: str | None = field(repr=False)
    share: float
    salt: int

    def chooser(self, stream: int) -> Callable[[bytes], bool]:
        """A function that says whether the canary answers an id."""
        begun = hashlib.blake2b(digest_size=8, salt=struct.pack(">qq", stream, self.salt))
        below = int(self.share * 2.0**64).to_bytes(8, "big")

        def chosen(id: bytes) -> bool:
            hashed = begun.copy()
            hashed.update(id)
            return hashed.digest() < below

        return chosen


@dataclass(frozen=True)
class Served:
    """What a stream serves.

    Attributes
    ----------
    stream, name
        Number and name of the stream.
    settings
        Its settings.
    version, published
        Number of the version, and when it was published, in microseconds; 0 and None for the score itself.
    document
        Its map; None for the score itself.
    canary
        The version that answers a share of the ids instead, if there is one.
    score
        The map as a function of a score, and of a key if it matters. It answers single rows and batches, so that the
        same version gives the same bits in both.
    """

    stream: int
    name: str
    settings: Settings
    version: int = 0
    published: int | None = None
    document: str | None = field(default=None, repr=False)
    canary: CanaryMap | None = None
    score: Scorer = field(init=False, repr=False, compare=False)
    tried: Scorer = field(init=False, repr=False, compare=False)
    chosen: Callable[[bytes], bool] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        canary = self.canary
        object.__setattr__(self, "score", _scorer(self.document))
        object.__setattr__(self, "tried", self.score if canary is None else _scorer(canary.document))
        object.__setattr__(self, "chosen", None if canary is None else canary.chooser(self.stream))

    def answers(
        self, ids: Sequence[bytes], scores: Sequence[float], keys: Sequence[str | None]
    ) -> tuple[list[float], list[int]]:
        """The probabilities of scores, and the version that gave each.

        Parameters
        ----------
        ids
            Ids as they are kept.
        scores, keys
            Of each row.

        Returns
        -------
        tuple
            Probabilities and versions.
        """
        found, versions = self.score.all(scores, keys), [self.version] * len(scores)
        if self.chosen is not None and self.canary is not None:
            for place in [place for place, id in enumerate(ids) if self.chosen(id)]:
                found[place], versions[place] = self.tried.one(scores[place], keys[place]), self.canary.version
        return found, versions

    def ages(self, now: int) -> dict[int, float | None]:
        """Seconds since the versions that answer were published."""
        found = {self.version: _age(self.published, now)}
        return found if self.canary is None else found | {self.canary.version: _age(self.canary.published, now)}


def _age(published: int | None, now: int) -> float | None:
    return None if published is None else max(0.0, (now - published) / SECOND)


class Scorer(NamedTuple):
    """A map as a function of a score, and of a key if it matters."""

    function: Callable[..., float]
    keyed: bool

    def one(self, score: float, key: str | None) -> float:
        """The probability of a score."""
        return self.function(score, key) if self.keyed else self.function(score)

    def all(self, scores: Sequence[float], keys: Sequence[str | None]) -> list[float]:
        """The probabilities of scores."""
        return list(map(self.function, scores, keys) if self.keyed else map(self.function, scores))


def _scorer(document: str | None) -> Scorer:
    return Scorer(_identity, False) if document is None else _function(document)


def _identity(score: float) -> float:
    return score + 0.0  # no -0.0


def _function(document: str) -> Scorer:
    calibration = Calibration.from_json(document)
    columns = len(calibration.map.columns)
    if columns > 1:
        raise InputError("version", "has a map by several columns", "a stream has one key")
    score = calibration.scorer()
    return Scorer(lambda s, key: score(s, group_of(key)), True) if columns else Scorer(score, False)


@lru_cache(1 << 16)
def group_of(key: str | None) -> str:
    """The name of a key in the maps that a learner publishes: its number."""
    return str(key_number(key))


async def read_clock(connection: psycopg.AsyncConnection) -> int:
    """The time of the database in microseconds."""
    row = await (await connection.execute(CLOCK)).fetchone()
    assert row is not None  # one value
    return int(row[0])


async def read_served(connection: psycopg.AsyncConnection, known: dict[str, Served]) -> dict[str, Served]:
    """What all streams serve now; maps that are known are not read again.

    Parameters
    ----------
    connection
        A connection.
    known
        What was read before, by name.

    Returns
    -------
    dict
        By name. A stream whose version or settings cannot be read by this build stays as it was known.
    """
    found = {}
    for stream, name, version, published, settings, *tried in await (await connection.execute(SERVED)).fetchall():
        before = known.get(name)
        try:
            found[name] = await _one(connection, before, stream, name, version, published, settings, tried)
        except (InputError, ValueError, TypeError):
            LOG.exception("version not readable", extra={"fields": {"stream": name, "version": version}})
            if before is not None and before.stream == stream:
                found[name] = before
    return found


async def _one(
    connection: psycopg.AsyncConnection, before: Served | None, stream: int, name: str, version: int,
    published: int | None, settings: str, tried: Sequence[Any],
) -> Served:  # fmt: skip
    wanted = Settings.of(json.loads(settings))
    number, since, share, salt = tried
    known: dict[int, str | None] = {0: None}
    if before is not None and before.stream == stream:
        known[before.version] = before.document
        canary = before.canary
        now = (None, None, None) if canary is None else (canary.version, canary.share, canary.salt)
        if (before.version, before.settings, now) == (version, wanted, (number, share, salt)):
            return before
        if canary is not None:
            known[canary.version] = canary.document
    canary = None
    if number is not None:
        canary = CanaryMap(number, since, await _document(connection, stream, number, known), share, salt)
    return Served(stream, name, wanted, version, published, await _document(connection, stream, version, known), canary)


async def _document(
    connection: psycopg.AsyncConnection, stream: int, version: int, known: dict[int, str | None]
) -> str | None:
    """The map of a version, read unless it is known."""
    if version in known:
        return known[version]
    row = await (await connection.execute(DOCUMENT, [stream, version])).fetchone()
    if row is None:
        raise InputError("version", f"{version} is to be served, but is not there")
    return str(row[0])


# ----------------------------------------------------------------------------------------------------------- local disk


def keep(folder: Path, served: Served) -> None:
    """Write what a stream serves to a file, whole or not at all.

    Parameters
    ----------
    folder
        Where; several processes may share it.
    served
        What is kept.
    """
    canary = None if served.canary is None else asdict(served.canary)
    content = {name: getattr(served, name) for name in KEPT} | {"settings": served.settings.document()}
    content["canary"] = canary
    write_whole(folder / f"{served.name}.json", content)


def write_whole(path: Path, content: Any) -> None:
    """Write JSON to a file that only this user may read, whole or not at all, with a digest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, sort_keys=True)
    whole = json.dumps({"format": FORMAT, "digest": _digest(text), "content": text})
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(whole)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_whole(path: Path) -> Any:
    """What :func:`write_whole` wrote; a damaged file is a ValueError, TypeError or KeyError."""
    whole = json.loads(path.read_text())
    if whole["format"] != FORMAT or whole["digest"] != _digest(whole["content"]):
        raise InputError("file", "is damaged, or of another version")
    return json.loads(whole["content"])


def kept(folder: Path) -> dict[str, Served]:
    """What was kept in a folder; a damaged file is left out, and logged.

    Parameters
    ----------
    folder
        As for :func:`keep`.

    Returns
    -------
    dict
        By name.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.stem] = _read(read_whole(path), path.stem)
        except (OSError, ValueError, TypeError, KeyError):
            LOG.exception("kept version not readable", extra={"fields": {"stream": path.stem}})
    return found


def forget(folder: Path, name: str) -> None:
    """Remove the file of a stream that is gone."""
    (folder / f"{name}.json").unlink(missing_ok=True)


KEPT = tuple(each.name for each in fields(Served) if each.init and each.name not in ("settings", "canary"))


def _read(content: Any, name: str) -> Served:
    if content["name"] != name:
        raise InputError("file", "is of another stream")
    settings, canary = Settings.of(content.pop("settings")), content.pop("canary", None)
    return Served(settings=settings, canary=None if canary is None else CanaryMap(**canary), **content)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
