"""The folder of a tally store: names of days and parts, atomic writes, one writer at a time."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any

from calibrant.export.errors import DocumentError
from calibrant.export.files import nothing_written
from calibrant.messages import InputError, Setting

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

ABOUT = "store.json"
LOCK = ".lock"
WHOLE = "tally.parquet"
PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
PART_FILE = re.compile(rf"tally-({PART.pattern})\.parquet")

Part = str | None
"""Name of a part of a day; None is the whole day."""


def check_part(part: Any) -> Part:
    """Check that the name of a part is valid on every file system; None is the whole day."""
    if part is None or (isinstance(part, str) and PART.fullmatch(part)):
        return part
    raise InputError(
        Setting("part", part),
        "is not a valid name of a file",
        "use 1 to 100 letters a-z and A-Z, digits, '_', '-' and '.'",
    )


class Folder:
    """Files and folders of a store; does not read their content."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def day(self, when: date) -> Path:
        """The folder of a day."""
        return self.path / "days" / f"day={when.isoformat()}"

    def file(self, when: date, part: Part) -> Path:
        """The file of a day, or of a part of it."""
        return self.day(when) / (WHOLE if part is None else f"tally-{part}.parquet")

    def listed(self) -> dict[date, list[Part]]:
        """Every stored day, in order, and its parts: [None] for a whole day."""
        found = {}
        for folder in sorted((self.path / "days").glob("day=*")):
            try:
                when = date.fromisoformat(folder.name[4:])
            except ValueError:
                raise DocumentError(folder, "is not the folder of a day") from None
            parts = self.parts(when)
            if parts and self.day(when) != folder:
                raise DocumentError(folder, f"is not the folder of a day: rename it to {self.day(when).name}")
            if parts:
                found[when] = parts
        return found

    def parts(self, when: date) -> list[Part]:
        """Stored parts of one day: empty, [None] for a whole day, or names."""
        folder = self.day(when)
        parts: list[Part] = []
        for name in sorted(file.name for file in folder.glob("*.parquet")):
            match = PART_FILE.fullmatch(name)
            if name != WHOLE and match is None:
                raise DocumentError(folder, f"holds {name}, which the store did not write: move it elsewhere")
            parts.append(None if match is None else match[1])
        if None in parts and len(parts) > 1:
            raise DocumentError(
                folder,
                f"holds a whole day ({WHOLE}) and also parts of it, so rows may be counted twice: find out "
                "which one is right, and move the other elsewhere",
            )
        return parts

    def publish(self, data: bytes, target: Path, *, over: bool) -> bool:
        """Write a file atomically, through a temporary one; False if another file exists and must be kept."""
        temporary = self.path / f".{target.name}-{secrets.token_hex(8)}.tmp"  # outside days: no reader sees it
        try:
            with nothing_written(target), temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if not over:
                try:
                    os.link(temporary, target)
                    return True
                except FileExistsError:
                    return False
                except OSError:  # no hard links on this file system: only the lock separates writers
                    pass
            os.replace(temporary, target)
            return True
        finally:
            temporary.unlink(missing_ok=True)

    def remove(self, when: date, part: Part) -> bool:
        """Delete a part, or all of a day at once; False if it did not exist."""
        if part is not None:
            try:
                self.file(when, part).unlink()
            except FileNotFoundError:
                return False
            return True
        if not any(self.day(when).glob("*.parquet")):
            return False
        away = self.path / f".removed-{secrets.token_hex(8)}.tmp"
        os.replace(self.day(when), away)  # at once, so that a crash does not leave half a day
        if away.is_symlink():
            away.unlink()  # what it points to is not of the store
        else:
            shutil.rmtree(away)
        return True

    @contextmanager
    def one_writer(self) -> Iterator[None]:
        """Lock out other writers of the store, threads and processes; released when a process dies."""
        with (self.path / LOCK).open("ab") as file:
            held = _lock(file.fileno())
            try:
                yield
            finally:
                if held:
                    _unlock(file.fileno())


if sys.platform == "win32":

    def _lock(file: int) -> bool:
        while True:
            with suppress(OSError):
                msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
                return True
            time.sleep(0.02)

    def _unlock(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:

    def _lock(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: hard links still separate two writers of one file
            return False
        return True

    def _unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)  # a forked child may hold a copy of the open file
