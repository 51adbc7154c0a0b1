"""Atomic writing of files, complete or unchanged, and reading of files up to a size."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from calibrant.export.errors import DocumentError


def write_whole(path: str | PathLike[str], content: str | bytes) -> None:
    """Write a file through a temporary one in the same folder, so that a full disk or a crash leaves the old file.

    Text is UTF-8, with line endings unchanged. A target that is not a regular file, such as a pipe, is written
    directly.
    """
    target = Path(os.path.realpath(path))  # keeps a symbolic link
    data = content.encode("utf-8") if isinstance(content, str) else content
    temporary = target.with_name(f".{target.name}-{secrets.token_hex(8)}.tmp")
    try:
        with nothing_written(path):
            if target.exists() and not target.is_file():
                target.write_bytes(data)
                return
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def read_bounded(path: Path, most: int) -> bytes:
    """The bytes of a file, of which there may be at most ``most``; a device that never ends is refused, too."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise DocumentError(path.name, f"has more than {most:,} bytes, and so much is not read")
    return data


@contextmanager
def nothing_written(path: str | PathLike[str]) -> Iterator[None]:
    """Make system errors name the requested file; their errno, and so their type, is unchanged."""
    try:
        yield
    except OSError as problem:
        why = f"{problem.strerror or problem}, so nothing was written"
        raise OSError(problem.errno, why, os.fspath(path)) from None
