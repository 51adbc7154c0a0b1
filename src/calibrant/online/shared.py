"""Thread-safe objects: one guard for an object and its experts; copies have separate guards."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from calibrant.online.guards import Guard, reading

NOT_COPIED = frozenset({"_guard"})
"""Attributes that are created anew in a copy and are not pickled."""


class Shared:
    """A thread-safe object. It shares one guard with all of its experts.

    Methods whose names begin with an underscore are for callers inside the guard.
    """

    experts: tuple[Any, ...] = ()
    _guard: Guard
    _not_copied: ClassVar[frozenset[str]] = NOT_COPIED

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Create the object with its own guard, also for copies and pickles."""
        found = super().__new__(cls)
        found._guard = Guard()
        return found

    def _stand_on(self, experts: Iterable[Any]) -> None:
        """Use these as its experts, under its own guard; nothing else may reference them."""
        self.experts = tuple(experts)
        self._share(self._guard)

    def _share(self, guard: Guard) -> None:
        self._guard = guard
        for expert in self.experts:
            expert._share(guard)

    def __copy__(self) -> Self:
        """An independent copy, as by ``copy.deepcopy``."""
        return copy.deepcopy(self)

    @reading
    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """An independent copy."""
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
        """State for pickling: the attributes of a copy, since the pickle is written after this returns."""
        return {k: v for k, v in copy.deepcopy(self).__dict__.items() if k not in self._not_copied}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from the state of a copy or a pickle."""
        self.__dict__.update(state)
        self._share(self._guard)
