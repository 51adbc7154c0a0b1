"""The version that each stream serves: looked up in the database, kept in memory and on the local disk."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import psycopg

from calibrant.calibration import Calibration
from calibrant.messages import InputError
from calibrant.service.settings import Settings
from calibrant.service.store.log import SECOND, key_number

LOG = logging.getLogger("calibrant.service")

FORMAT = 1
"""Of the files."""

SERVED = """
select stream.stream, stream.name, coalesce(promoted.version, 0), version.time, settings.document
from stream
left join lateral (
    select version from promotion where promotion.stream = stream.stream order by position desc, place desc limit 1
) as promoted on true
left join version on version.stream = stream.stream and version.number = promoted.version
left join lateral (
    select document from settings where settings.stream = stream.stream order by position desc limit 1
) as settings on true
order by stream.stream
"""
CLOCK = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
DOCUMENT = "select document from version where stream = %s and number = %s"


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
    score
        The map as a function of a score, and of a key if it matters. It answers single rows and batches, so that the
        same version gives the same bits in both.
    keyed
        Whether the key matters.
    """

    stream: int
    name: str
    settings: Settings
    version: int = 0
    published: int | None = None
    document: str | None = field(default=None, repr=False)
    score: Callable[..., float] = field(init=False, repr=False, compare=False)
    keyed: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        score, keyed = (_identity, False) if self.document is None else _function(self.document)
        object.__setattr__(self, "score", score)
        object.__setattr__(self, "keyed", keyed)

    def scores(self, scores: Sequence[float], keys: Sequence[str | None]) -> list[float]:
        """The probabilities of scores."""
        return list(map(self.score, scores, keys) if self.keyed else map(self.score, scores))

    def age(self, now: int) -> float | None:
        """Seconds since the version was published."""
        return None if self.published is None else max(0.0, (now - self.published) / SECOND)


def _identity(score: float) -> float:
    return score + 0.0  # no -0.0


def _function(document: str) -> tuple[Callable[..., float], bool]:
    calibration = Calibration.from_json(document)
    columns = len(calibration.map.columns)
    if columns > 1:
        raise InputError("version", "has a map by several columns", "a stream has one key")
    score = calibration.scorer()
    return (lambda s, key: score(s, group_of(key)), True) if columns else (score, False)


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
    for stream, name, version, published, settings in await (await connection.execute(SERVED)).fetchall():
        before = known.get(name)
        try:
            found[name] = await _one(connection, before, stream, name, version, published, settings)
        except (InputError, ValueError, TypeError):
            LOG.exception("version not readable", extra={"fields": {"stream": name, "version": version}})
            if before is not None and before.stream == stream:
                found[name] = before
    return found


async def _one(
    connection: psycopg.AsyncConnection, before: Served | None, stream: int, name: str, version: int,
    published: int | None, settings: str,
) -> Served:  # fmt: skip
    wanted = Settings.of(json.loads(settings))
    if before is not None and before.stream == stream and before.version == version:
        if before.settings == wanted:
            return before
        return Served(stream, name, wanted, version, before.published, before.document)
    if version == 0:
        return Served(stream, name, wanted)
    row = await (await connection.execute(DOCUMENT, [stream, version])).fetchone()
    if row is None:
        raise InputError("version", f"{version} is promoted, but is not there")
    return Served(stream, name, wanted, version, published, row[0])


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
    content = {name: getattr(served, name) for name in KEPT} | {"settings": served.settings.document()}
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


KEPT = tuple(each.name for each in fields(Served) if each.init and each.name != "settings")


def _read(content: Any, name: str) -> Served:
    if content["name"] != name:
        raise InputError("file", "is of another stream")
    settings = Settings.of(content.pop("settings"))
    return Served(settings=settings, **content)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
