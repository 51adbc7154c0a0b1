"""Thread and fork safety: a forecaster is seen before or after a step, never in the middle of one.

In Python 3.11 a :mod:`threading` lock in a ``with`` statement takes 40 % of the time of a forecast, a guard 4 %. A
guard has an attribute ``free`` that exists while no thread is inside.

A thread that learns deletes ``free``, which succeeds in one thread and fails in all others, and sets it to a new object
at the end: see :func:`reading`. ``learn_one`` repeats these lines, since a call would cost as much as the guard. No
signal is handled between the first ``try`` and the second, so Ctrl-C does not leave a guard that is never free. A
context manager written in Python cannot guarantee that: the interpreter checks for signals where ``__exit__`` begins.

A thread that learns row after row is almost always inside, so a waiting thread would rarely find the guard free. A
waiting thread therefore sets ``wanted``, and a thread that is about to enter then pauses.

A forecast of one row does not wait: it reads ``free`` before and after. If both are the same object, no thread learned
in between. Otherwise, or if numbers that are being changed raise an error, the forecast is repeated inside the guard.

This needs the global interpreter lock. In free-threaded builds of Python, callers must use their own lock.
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

SHORTEST_PAUSE, LONGEST_PAUSE = 2e-5, 5e-4
"""Seconds between checks of a guard that is not free; increasing."""

LONGEST_WAIT, ROUNDS = 1.0, 20
"""Seconds a fork waits for steps of other threads, and number of checks before it releases all guards."""

LAST_WAIT = 0.5
"""Further seconds in which a fork keeps the guards it has, so that one long step does not affect other forecasters."""

RACES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Errors that reading numbers during a change may raise. Signal handlers raise others, such as TimeoutError."""

FORKED = (
    "this forecaster was created before a fork, and the parent process would not see what it learns here: to learn in "
    "this process, use calibrant.online.resume(forecaster.to_json()) or copy.deepcopy(forecaster)"
)

TORN = (
    "the process was forked while another thread was updating this forecaster, so its numbers are not usable here: use "
    "calibrant.online.resume(state) with a saved state, or fork while no other thread learns a long stream"
)

NESTED = (
    "this thread is already inside a step of this forecaster, interrupted by a signal handler or by a function that "
    "it calls: let the handler set a flag, and use the forecaster after the step"
)


class Guard:
    """Allows one thread at a time inside; a copy or an unpickled guard is a new guard.

    Attributes
    ----------
    free
        Deleted by the thread that enters; set to a new object by the thread that leaves.
    forked
        Whether this process is a fork, so that the owner of the guard learns in the parent process.
    torn
        Whether another thread was inside at the fork; that thread does not exist in this process.
    wanted
        Seconds until a waiting thread checks again; 0 if no thread waits.

    Examples
    --------
    >>> guard = Guard()
    >>> guard.enter(), guard.enter()
    (True, False)
    """

    __slots__ = ("__weakref__", "forked", "free", "torn", "wanted")

    def __init__(self) -> None:
        self.free: object = []
        self.forked = self.torn = False
        self.wanted = 0.0
        ALIVE.add(ref(self, ALIVE.discard))

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        """A new guard, for copies and pickles."""
        return type(self), ()

    def wait(self) -> None:
        """Wait until no thread is inside, and enter; raise an error if that would never happen."""
        _refuse_nested(self, sys._getframe(1).f_back)
        pause = SHORTEST_PAUSE
        while True:
            if self.torn:
                raise RuntimeError(TORN)
            self.wanted = pause
            time.sleep(pause)
            pause = min(1.5 * pause, LONGEST_PAUSE)
            try:
                del self.free
                return
            except AttributeError:
                continue

    def give_way(self) -> None:
        """Let a waiting thread check once before the caller enters."""
        pause, self.wanted = self.wanted, 0.0
        time.sleep(2.0 * pause)

    def enter(self) -> bool:
        """Enter if no thread is inside; returns whether it did."""
        try:
            del self.free
        except AttributeError:
            return False
        return True

    def refuse_forked(self) -> None:
        """Raise an error in a forked process, where the parent would not see what is learned."""
        if self.forked:
            raise RuntimeError(FORKED)


ALIVE: set[ref[Guard]] = set()
"""All guards of this process."""


def _refuse_nested(guard: Guard, frame: FrameType | None) -> None:
    """Raise an error if a caller is inside: frames inside have the guard as a local variable ``guard``."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("calibrant.online.") and frame.f_locals.get("guard") is guard:
            raise RuntimeError(NESTED)
        frame = frame.f_back


# ------------------------------------------------------------------------------------------------------------- methods


class Guarded(Protocol):
    """An object with a guard."""

    @property
    def _guard(self) -> Guard: ...


G = TypeVar("G", bound=Guarded)


def reading(method: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
    """Decorator: run the method inside the guard."""

    @wraps(method)
    def inside(self: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        guard = self._guard
        if guard.wanted:
            guard.give_way()
        try:
            del guard.free
        except AttributeError:
            guard.wait()
        try:
            return method(self, *args, **kwargs)
        finally:
            guard.free = []

    return inside


def learning(method: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
    """Decorator: run the method inside the guard; an error in a forked process."""

    @reading
    @wraps(method)
    def inside(self: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self._guard.refuse_forked()
        return method(self, *args, **kwargs)

    return inside


def watching(method: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
    """Decorator for read-only methods: run without waiting, and repeat inside the guard if a thread was inside."""
    inside = reading(method)

    @wraps(method)
    def outside(self: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        watched = self._guard
        try:
            before = watched.free
            found = method(self, *args, **kwargs)
            if watched.free is before:
                return found
        except RACES:  # if nobody was learning, it is raised again below
            pass
        return inside(self, *args, **kwargs)

    return outside


# --------------------------------------------------------------------------------------------------------------- forks


class _Fork:
    """Enter all guards before a fork, so that no step is copied half done, and leave them afterwards.

    In the child process all guards are marked as forked; those that were not free in time are marked as torn.
    """

    def __init__(self) -> None:
        self.turn = Lock()
        """Lock for threads that fork at the same time."""
        self.entered: list[Guard] = []

    def before(self) -> None:
        self.turn.acquire()
        guards, start, rounds = _alive(), time.monotonic(), 0
        while not self._enter(guards) and (waited := time.monotonic() - start) < LONGEST_WAIT + LAST_WAIT:
            rounds += 1
            time.sleep(SHORTEST_PAUSE)
            if rounds % ROUNDS == 0 and waited < LONGEST_WAIT:
                self._leave()  # a step of one forecaster may call another whose guard is held here
                time.sleep(2.0 * LONGEST_PAUSE)

    def after(self) -> None:
        self._leave()
        self.turn.release()

    def _enter(self, guards: list[Guard]) -> bool:
        """Enter all guards; returns whether that succeeded."""
        for guard in set(guards).difference(self.entered):
            if guard.enter():
                self.entered.append(guard)
            else:
                guard.wanted = LONGEST_PAUSE
        return len(self.entered) == len(guards)

    def _leave(self) -> None:
        for guard in self.entered:
            guard.free = []
        self.entered = []

    def after_in_child(self) -> None:
        self.after()
        for guard in _alive():
            guard.forked, guard.torn = True, not hasattr(guard, "free")


def _alive() -> list[Guard]:
    """All guards; the references are listed in one instruction, so other threads cannot interfere."""
    return [guard for reference in list(ALIVE) if (guard := reference()) is not None]


if hasattr(os, "register_at_fork"):  # Windows has no forks
    _fork = _Fork()
    os.register_at_fork(before=_fork.before, after_in_parent=_fork.after, after_in_child=_fork.after_in_child)
