"""Threads and forks: a forecaster is seen before or after a step, never in the middle of one.

A lock of :mod:`threading` in a ``with`` statement takes half as long as a forecast. A guard takes a tenth. It has an
attribute, ``free``, which is there while nobody is inside.

Whoever learns deletes it, which succeeds for one thread and fails for all others, and sets it to a new object at the
end::

    guard = self._guard
    try:
        del guard.free
    except AttributeError:
        guard.wait()
    try:
        ...
    finally:
        guard.free = []

No signal is handled between the first ``try`` and the second, so that Ctrl-C leaves no guard behind that is not free.

A forecast of one row does not wait: it reads ``free`` before and after, and if the object is the same, nobody has
learned in between. Otherwise, and where numbers that are being changed raise an error, it is made again inside.

All this rests on the global interpreter lock. In free-threaded builds of Python callers need a lock of their own.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import wraps
from threading import Lock
from types import FrameType
from typing import Concatenate, ParamSpec, Protocol, Self, TypeVar
from weakref import ref

P = ParamSpec("P")
R = TypeVar("R")

TURNS, SHORTEST_PAUSE, LONGEST_PAUSE = 3, 2e-5, 1e-3
"""A thread that waits lets others run this many times, and then sleeps for so many seconds, each time twice as long."""

LONGEST_WAIT = 1.0
"""Seconds for which a fork waits for steps of other threads."""

RACES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What numbers that are being changed may raise where they are read. Signal handlers raise others, as TimeoutError."""

FORKED = (
    "this forecaster was forked, and the parent process would not see what it learns here: to continue on its own from "
    "here, use calibrant.online.resume(forecaster.to_json()) or copy.deepcopy(forecaster)"
)

TORN = (
    "this forecaster was forked in the middle of a step of another thread, and its numbers cannot be used here: use "
    "calibrant.online.resume(state) with a saved state, or fork while no other thread learns a long stream"
)

NESTED = (
    "this thread is inside a step of this forecaster already, interrupted by a signal handler or by a function that it "
    "calls: let the handler set a flag, and use the forecaster after the step"
)


class Guard:
    """What one thread at a time is inside of; a copy of it is another one, which is free.

    Attributes
    ----------
    free
        Deleted by the one who enters; set to a new object by the one who leaves.
    forked
        Whether it came to this process by a fork, so that its owner learns in the parent process.
    torn
        Whether another thread, which is not in this process, was inside at the fork.

    Examples
    --------
    >>> guard = Guard()
    >>> with guard:
    ...     hasattr(guard, "free")
    False
    >>> hasattr(guard, "free")
    True
    """

    __slots__ = ("__weakref__", "forked", "free", "torn")

    def __init__(self) -> None:
        self.free: object = []
        self.forked = self.torn = False
        ALIVE.add(ref(self, ALIVE.discard))

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        """A new one, for copies and pickles."""
        return type(self), ()

    def __enter__(self) -> Self:
        """Wait until nobody is inside, and enter."""
        try:
            del self.free
        except AttributeError:
            self.wait()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave."""
        self.free = []

    def wait(self) -> None:
        """Wait until the one who is inside leaves, and enter; refuse where that is the caller, or nobody here."""
        _refuse_nested(self, sys._getframe(1).f_back)
        pause, turns = 0.0, 0
        while True:
            if self.torn:
                raise RuntimeError(TORN)
            time.sleep(pause)
            turns += 1
            if turns > TURNS:
                pause = min(max(2.0 * pause, SHORTEST_PAUSE), LONGEST_PAUSE)
            try:
                del self.free
                return
            except AttributeError:
                continue

    def enter_by(self, deadline: float) -> bool:
        """Enter as soon as nobody is inside; False where that is too late."""
        while True:
            try:
                del self.free
                return True
            except AttributeError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(SHORTEST_PAUSE)

    def refuse_forked(self) -> None:
        """Refuse to learn what the parent process would not see."""
        if self.forked:
            raise RuntimeError(FORKED)


ALIVE: set[ref[Guard]] = set()
"""All guards of this process."""


def _refuse_nested(guard: Guard, frame: FrameType | None) -> None:
    """Refuse where a caller is inside: in this package those that are inside call it ``guard``."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("calibrant.online.") and frame.f_locals.get("guard") is guard:
            raise RuntimeError(NESTED)
        frame = frame.f_back


# ------------------------------------------------------------------------------------------------------------- methods


class Guarded(Protocol):
    """What has a guard."""

    @property
    def _guard(self) -> Guard: ...


G = TypeVar("G", bound=Guarded)


def reading(method: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
    """The method, inside the guard."""

    @wraps(method)
    def alone(self: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._guard as guard:  # noqa: F841 - see _refuse_nested
            return method(self, *args, **kwargs)

    return alone


def watching(method: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
    """The method, which changes nothing, without waiting; again inside the guard if anybody was inside meanwhile."""

    @wraps(method)
    def alone(self: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        watched = self._guard
        try:
            before = watched.free
            found = method(self, *args, **kwargs)
            if watched.free is before:
                return found
        except RACES:  # if nobody was learning, it is raised again below
            pass
        with self._guard as guard:  # noqa: F841 - see _refuse_nested
            return method(self, *args, **kwargs)

    return alone


def learning(method: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
    """The method, inside the guard, and refused in a forked process."""

    @wraps(method)
    def alone(self: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._guard as guard:
            guard.refuse_forked()
            return method(self, *args, **kwargs)

    return alone


# --------------------------------------------------------------------------------------------------------------- forks


class _Fork:
    """Enter all guards before a fork, so that nothing is copied in the middle of a step, and leave them on both sides.

    The child gets all of them marked as forked, and those that were not left in time as torn.
    """

    def __init__(self) -> None:
        self.turn = Lock()
        """Of threads that fork at the same time."""
        self.entered: list[Guard] = []

    def before(self) -> None:
        self.turn.acquire()
        deadline = time.monotonic() + LONGEST_WAIT
        self.entered = [guard for guard in _alive() if guard.enter_by(deadline)]

    def after(self) -> None:
        for guard in self.entered:
            guard.free = []
        self.entered = []
        self.turn.release()

    def after_in_child(self) -> None:
        self.after()
        for guard in _alive():
            guard.forked, guard.torn = True, not hasattr(guard, "free")


def _alive() -> list[Guard]:
    """All guards; the references are listed in one instruction, whatever other threads add meanwhile."""
    return [guard for reference in list(ALIVE) if (guard := reference()) is not None]


if hasattr(os, "register_at_fork"):  # Windows has no forks
    _fork = _Fork()
    os.register_at_fork(before=_fork.before, after_in_parent=_fork.after, after_in_child=_fork.after_in_child)
