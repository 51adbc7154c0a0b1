"""The state of a forecaster: written as plain JSON, admitted only by an equal forecaster, found again by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from calibrant.arrays.columns import is_whole
from calibrant.messages import InputError
from calibrant.online.guards import reading
from calibrant.online.kernels import SEEN
from calibrant.online.limits import MAX_ROWS, changed
from calibrant.online.settings import settings_of
from calibrant.online.shared import Shared
from calibrant.online.states import finite, parsed

KINDS: dict[str, type[Stored]] = {}
"""Forecaster classes by the name stored in their states; see :func:`register`."""

S = TypeVar("S", bound="Stored")

VERSION = 1
"""Version of the state format."""

NOT_A_STATE = "does not belong to a forecaster of calibrant.online"


class Stored(Shared):
    """A forecaster as far as its state goes: what it writes, and which states it continues from.

    A subclass defines ``_numbers`` and ``_resume``, and may extend ``_check``, ``_check_experts`` and ``_parameters``.
    """

    experts: tuple[Stored, ...] = ()

    _seen = 0

    @property
    def n_rows(self) -> int:
        """Rows learned so far."""
        return self._seen

    @property
    @reading
    def state(self) -> dict[str, Any]:
        """Settings and everything learned, as plain JSON; numbers are preserved bit for bit."""
        return self._written()

    def _written(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "forecaster": _name_of(type(self)),
            "parameters": self._parameters(),
            "numbers": self._numbers(),
            "experts": [expert._written() for expert in self.experts],
        }

    def restore(self, state: dict[str, Any] | str | bytes | bytearray | memoryview) -> Self:
        """Continue from the state of an equal forecaster; an invalid state changes nothing.

        In a forked process it can learn from then on.

        Parameters
        ----------
        state
            What ``state`` or ``to_json()`` of a forecaster with the same settings returned.

        Returns
        -------
        Forecaster
            The forecaster itself.
        """
        return self._go_on(parsed(state), "use calibrant.online.resume(state)")

    def _go_on(self, state: Any, fix: str) -> Self:
        self._admit(state, fix)
        self._take_inside(state)
        return self

    @reading
    def _take_inside(self, state: dict[str, Any]) -> None:
        self._take(state)
        self._guard.forked = False

    def _admit(self, state: Any, fix: str) -> float:
        """The number of rows of a state; an error if the state cannot belong to this forecaster or its experts."""
        if not isinstance(state, dict) or not isinstance(state.get("experts"), list):
            raise InputError("state", NOT_A_STATE, "was it truncated?")
        if state.get("version") != VERSION:
            raise InputError(
                "state",
                f"has version {state.get('version')!r}, but this version of calibrant reads {VERSION}",
                "update calibrant",
            )
        self._admit_kind(state.get("forecaster"), state.get("parameters"), fix)
        numbers, below = self._unpacked(state.get("numbers")), state["experts"]
        as_many = len(below) == len(self.experts) and numbers is not None and len(numbers) == len(self._numbers())
        if numbers is None or not as_many or not finite(numbers):
            raise InputError("state", "does not have the numbers that this forecaster needs", "was it truncated?")
        self._check(numbers)
        self._check_experts(
            numbers[SEEN], [expert._admit(its, fix) for expert, its in zip(self.experts, below, strict=True)]
        )
        return numbers[SEEN]

    def _admit_kind(self, kind: Any, parameters: Any, fix: str) -> None:
        """Reject the state of another class, or with other settings, naming the first difference."""
        mine, own = _name_of(type(self)), self._parameters()
        if kind != mine or not isinstance(parameters, dict):
            raise InputError("state", f"belongs to another forecaster, {kind}, not {mine}", fix)
        if parameters.keys() < own.keys():  # written before later settings existed, which then had their defaults
            parameters = _built(type(self), self.experts, parameters)._parameters()
        for name in [*own, *parameters]:
            if name not in own or name not in parameters or own[name] != parameters[name]:
                theirs = f"{name}={parameters[name]!r}" if name in parameters else f"{name} absent"
                here = repr(own[name]) if name in own else "absent"
                raise InputError("state", f"belongs to another {mine}, with {theirs}, not {here}", fix)

    def _take(self, state: dict[str, Any]) -> None:
        for expert, its in zip(self.experts, state["experts"], strict=True):
            expert._take(its)
        self._resume([float(x) for x in self._unpacked(state["numbers"]) or ()])

    def to_json(self) -> str:
        """The state as text, for :func:`calibrant.online.resume`."""
        return json.dumps(self.state, allow_nan=False)

    # ---------------------------------------------------------------------------------------------- for subclasses

    def _parameters(self) -> dict[str, Any]:
        """Its keyword arguments as plain JSON; by default those declared as settings."""
        kind: type = type(self)
        return {name: getattr(self, name) for name in settings_of(kind)}

    def _numbers(self) -> list[float]:
        """What it learned, as a flat list of numbers of fixed length."""
        raise NotImplementedError

    def _unpacked(self, numbers: Any) -> list[float] | None:
        """The flat list, from another stored form; None if it is invalid."""
        return numbers if isinstance(numbers, list) else None

    def _check(self, numbers: list[float]) -> None:
        """Reject numbers that cannot result from any stream."""
        if not (is_whole(numbers[SEEN]) and 0 <= numbers[SEEN] <= MAX_ROWS):
            raise changed("number of rows")

    def _check_experts(self, seen: float, below: list[float]) -> None:
        """Reject fewer rows of an expert than its own: experts learn every row, and may have learned before."""
        if below and min(below) < seen:
            raise changed("number of rows")

    def _resume(self, numbers: list[float]) -> None:
        """Set what was learned from these numbers."""
        raise NotImplementedError

    @classmethod
    def _build(cls, experts: Sequence[Any], parameters: dict[str, Any]) -> Stored:
        return cls(*experts, **parameters)


def register(name: str) -> Callable[[type[S]], type[S]]:
    """Class decorator: register a forecaster under the name stored in its states, so that :func:`resume` finds it.

    Without it a forecaster can learn and write its state, but only :meth:`Forecaster.restore` can read that state.

    Parameters
    ----------
    name
        Name stored in the states; it must not be in use.

    Returns
    -------
    decorator
        Registers the class and returns it.

    Examples
    --------
    >>> from calibrant.online import Identity, RowByRow, register, resume
    >>> @register("Halved")
    ... class Halved(RowByRow, Identity):
    ...     def _predict_one(self, score, features=None):
    ...         return 0.5 * super()._predict_one(score)
    >>> resume(Halved().to_json()).predict_one(0.5)
    0.25
    """

    def enter(kind: type[S]) -> type[S]:
        known = KINDS.get(name)
        if known is not None and known.__module__ != kind.__module__:
            raise InputError("name", f"is already in use: {known.__module__} has a forecaster named {name}")
        KINDS[name] = kind
        return kind

    return enter


def _name_of(kind: type[Stored]) -> str:
    """The name stored in its states: as registered, or that of the class."""
    return next((name for name, known in KINDS.items() if known is kind), kind.__name__)


def from_parameters(state: Any) -> Stored:
    """A new forecaster of the class and settings of a state, which has learned nothing yet."""
    try:
        name, parameters, below = state["forecaster"], state["parameters"], state["experts"]
        kind, experts = KINDS.get(name), [from_parameters(its) for its in below]
    except (KeyError, TypeError, RecursionError):
        raise InputError("state", NOT_A_STATE) from None
    if kind is None:
        raise InputError(
            "state",
            f"belongs to the unknown forecaster {name!r}",
            "if it is your own class, decorate it with register(name)",
        )
    return _built(kind, experts, parameters)


def _built(kind: type[Stored], experts: Sequence[Stored], parameters: Any) -> Stored:
    try:
        return kind._build(experts, parameters)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, OverflowError, RecursionError, AttributeError):
        raise InputError("state", NOT_A_STATE) from None
