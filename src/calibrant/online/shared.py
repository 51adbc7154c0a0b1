"""Objects that threads may share: one guard for an object and its experts, and copies with guards of their own."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from calibrant.online.guards import Guard, reading

NOT_COPIED = frozenset({"_guard"})
"""Attributes that are made again in a copy, and that a pickle does not hold."""


class Shared:
    """An object that threads may share. It has one guard with all forecasters that it stands on.

    Methods whose name begins with an underscore are for callers inside the guard.
    """

    experts: tuple[Any, ...] = ()
    _guard: Guard
    _not_copied: ClassVar[frozenset[str]] = NOT_COPIED

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """An object with a guard of its own, for copies and pickles too."""
        found = super().__new__(cls)
        found._guard = Guard()
        return found

    def _stand_on(self, experts: Iterable[Any]) -> None:
        """Take these as its experts, under its own guard; nobody else may hold them."""
        self.experts = tuple(experts)
        self._share(self._guard)

    def _share(self, guard: Guard) -> None:
        self._guard = guard
        for expert in self.experts:
            expert._share(guard)

    def __copy__(self) -> Self:
        """A copy that learns alone, as by ``copy.deepcopy``."""
        return copy.deepcopy(self)

    @reading
    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy that learns alone."""
        return self._copied(memo)

    def _copied(self, memo: dict[int, Any] | None = None) -> Self:
        memo = {} if memo is None else memo
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        found = type(self).__new__(type(self))
        memo[id(self)] = found
        kept = {name: value for name, value in self.__dict__.items() if name not in self._not_copied}
        below = kept.pop("experts", ())
        experts = tuple(expert._copied(memo) for expert in below)
        found.__setstate__(copy.deepcopy(kept, memo) | ({"experts": experts} if below else {}))
        return found

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: the attributes of a copy, since the pickle is written after this returns."""
        return {k: v for k, v in copy.deepcopy(self).__dict__.items() if k not in self._not_copied}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what a copy or a pickle holds."""
        self.__dict__.update(state)
        self._share(self._guard)
