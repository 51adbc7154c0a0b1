"""Files that are there as a whole, or as they were before."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path


def write_whole(path: str | PathLike[str], content: str | bytes) -> None:
    """Write a file by way of a temporary one beside it, so that a full disk or a crash leaves what was there.

    Text is UTF-8, with its line ends as they are. What is no plain file, such as a pipe, is written as it is.
    """
    target = Path(os.path.realpath(path))  # a link stays one
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


@contextmanager
def nothing_written(path: str | PathLike[str]) -> Iterator[None]:
    """Let an error of the system name the file that was asked for; its errno, and so its type, stay."""
    try:
        yield
    except OSError as problem:
        why = f"{problem.strerror or problem}, so nothing was written"
        raise OSError(problem.errno, why, os.fspath(path)) from None
