"""The public methods of forecasters: they enter the guard, and call a method that the forecaster defines."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from calibrant.maps import Map
from calibrant.numerics import Floats
from calibrant.online.guards import RACES, Guard, learning, reading

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

    # ------------------------------------------------------------------------------------------------------- rows

    def predict_one(self, score: float, features: Any = None) -> float:
        """The probability of an event, from what was learned so far; asking changes nothing."""
        watched = self._guard
        try:
            before = watched.free
            p = self._predict_one(score, features)
            if watched.free is before:
                return p
        except RACES:  # if nobody was learning, it is raised again below
            pass
        return self._predict_alone(score, features)

    @reading
    def _predict_alone(self, score: Any, features: Any) -> float:
        """The same, inside the guard."""
        return self._predict_one(score, features)

    def learn_one(self, score: float, label: float, features: Any = None) -> Self:
        """Learn one outcome."""
        guard = self._guard
        if guard.wanted:
            guard.give_way()
        try:
            del guard.free
        except AttributeError:
            guard.wait()
        try:
            if guard.forked:
                guard.refuse_forked()
            self._learn_one(score, label, features)
        finally:
            guard.free = []
        return self

    def _predict_one(self, score: float, features: Any = None) -> float:
        """The forecast of one row, not checked yet.

        This method alone may run while another thread learns; its result, or its error, is then discarded.
        """
        raise NotImplementedError

    def _learn_one(self, score: float, label: float, features: Any = None) -> None:
        """Learn one outcome, not checked yet."""
        raise NotImplementedError

    @reading
    def predict_many(self, scores: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """Probabilities of many rows, all from what was learned so far."""
        return self._predict_many(scores, features)

    @learning
    def learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Self:
        """Learn outcomes in their order; other threads wait until all are learned."""
        self._learn_many(scores, labels, features)
        return self

    @learning
    def forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """Forecast each row from the outcomes before it, then learn its own: what a live run would have said."""
        return self._forecast_many(scores, labels, features)

    def _predict_many(self, scores: ArrayLike, features: ArrayLike | None) -> Floats:
        raise NotImplementedError

    def _learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> None:
        raise NotImplementedError

    def _forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> Floats:
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------- what it holds

    @property
    @reading
    def state(self) -> dict[str, Any]:
        """All that was asked for and learned, as plain JSON; its numbers survive bit for bit."""
        return self._written()

    @reading
    def freeze(self) -> Map:
        """The map that it applies now, where there is one; ``calibrant.Calibration(map)`` saves and exports it."""
        return self._freeze()

    def _written(self) -> dict[str, Any]:
        raise NotImplementedError

    def _freeze(self) -> Map:
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------------ copies

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
