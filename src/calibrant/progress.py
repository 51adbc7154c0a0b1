"""Progress of work that takes more than two seconds: a bar on a terminal or in a notebook, and lines of the logger."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

LOG = logging.getLogger("calibrant")
"""Logger of slow work, at the level INFO: ``logging.basicConfig(level=logging.INFO)`` shows it."""

PATIENCE = 2.0
"""Seconds before a bar appears."""

_bars: list[Any] = []  # the bar that is shown: work inside other work has none of its own


def progress(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """The items, one after the other; if this takes more than two seconds, a bar on stderr shows how many are done.

    The bar is that of tqdm, or of rich where tqdm is not installed. There is none if stderr is neither a terminal nor a
    notebook, nor if the environment variable ``CALIBRANT_PROGRESS`` is 0.

    Examples
    --------
    >>> list(progress([1, 2, 3], "calibrate: folds"))
    [1, 2, 3]
    """
    if total is None and isinstance(items, Sequence):
        total = len(items)
    begun, bar = time.monotonic(), None
    try:
        for done, item in enumerate(items):
            if bar is None and not _bars and time.monotonic() - begun > PATIENCE and _seen():
                bar = _bar(what, total, done)
            yield item
            if total is not None and (done + 1) % max(total // 10, 1) == 0:
                LOG.info("%s: %d of %d", what, done + 1, total)
            if bar is not None:
                bar.update(1)
    finally:
        if bar is not None:
            bar.close()
            _bars.remove(bar)


def _seen() -> bool:
    """Whether somebody looks at stderr."""
    if os.environ.get("CALIBRANT_PROGRESS") == "0":
        return False
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _bar(what: str, total: int | None, done: int) -> Any:
    with suppress(ImportError):
        from tqdm.auto import tqdm

        _bars.append(tqdm(desc=what, total=total, initial=done, leave=False, file=sys.stderr))
        return _bars[-1]
    with suppress(ImportError):
        _bars.append(_RichBar(what, total, done))
        return _bars[-1]
    return None


class _RichBar:
    """A bar of rich with the two methods of tqdm that are used here."""

    def __init__(self, what: str, total: int | None, done: int) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self.shown = Progress(console=Console(stderr=True), transient=True)
        self.task = self.shown.add_task(what, total=total, completed=done)
        self.shown.start()

    def update(self, more: int) -> None:
        """Add finished items."""
        self.shown.advance(self.task, more)

    def close(self) -> None:
        """Remove the bar."""
        self.shown.stop()
