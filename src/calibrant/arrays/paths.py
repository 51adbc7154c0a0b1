"""Paths given as arguments: local paths and ``file://`` URLs; every other URL is refused.

``Path("s3://bucket/x")`` is the local path ``s3:/bucket/x``: without this check, files would go into a folder ``s3:``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from calibrant.messages import InputError, Setting

ADDRESS = re.compile(r"\s*([a-z][a-z0-9+.-]+):[/\\]", re.IGNORECASE)
"""A scheme has two characters at least; a single letter is a drive of Windows. A Path keeps one slash of two."""


def local_path(given: str | os.PathLike[str], argument: str = "path") -> Path:
    """The local path that an argument gives; URLs other than ``file://`` are refused.

    Examples
    --------
    >>> local_path("file:///tmp/my%20map.json").as_posix()
    '/tmp/my map.json'
    >>> local_path("s3://bucket/map.json")
    Traceback (most recent call last):
    calibrant.messages.InputError: path='s3://bucket/map.json' is a URL, and only local files are supported:
    pass a local path, and copy the file with a tool for s3
    """
    text: Any = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(text, str):
        raise InputError(argument, f"is of type {type(given).__name__}", "pass text, or a pathlib.Path")
    if not text:
        raise InputError(argument, "is empty", "pass the name of a file or folder")
    return Path(local_text(text, Setting(argument, text)))


def local_text(text: str, subject: str | Setting) -> str:
    """The path unchanged, or decoded if it is a ``file://`` URL; errors are about ``subject``."""
    found = ADDRESS.match(text)
    if found is None:
        return text
    scheme = found[1].lower()
    if scheme != "file":
        raise InputError(
            subject,
            "is a URL, and only local files are supported",
            f"pass a local path, and copy the file with a tool for {scheme}",
        )
    return of_file_url(text, subject)


def of_file_url(url: str, subject: str | Setting, *, windows: bool = os.name == "nt") -> str:
    """The path in a ``file:`` URL, with its escapes decoded."""
    parts = urlsplit(url.strip().replace("\\", "/"))
    if parts.query or parts.fragment:
        raise InputError(subject, "holds a bare ? or #", "write them as %3F and %23, or pass a plain path")
    path = os.fsdecode(unquote_to_bytes(parts.path))
    host = parts.netloc if parts.netloc.lower() != "localhost" else ""
    if host and not windows:
        raise InputError(subject, f"names the machine {host!r}", "mount its files, and pass a local path")
    if not path.strip("/") or "\0" in path:
        raise InputError(subject, "does not name a file", "pass a plain path")
    if not windows:
        return path
    return f"//{host}{path}" if host else re.sub(r"^/+(?=[a-zA-Z]:)", "", path)
