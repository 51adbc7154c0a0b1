"""Settings of forecasters: attributes that are set once, when the forecaster is made."""

from __future__ import annotations

from functools import cache
from inspect import getattr_static, signature
from typing import Any, NoReturn


class ReadOnly:
    """An attribute that is set once; it stands in the ``__dict__`` of its object.

    There is no ``__get__``, so that reading it costs what any attribute costs.
    """

    name: str

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.__doc__ = "Set when it is made, and stays."

    def __set__(self, owner: object, value: Any) -> None:
        if self.name in owner.__dict__:
            self._refuse(owner)
        owner.__dict__[self.name] = value

    def __delete__(self, owner: object) -> None:
        self._refuse(owner)

    def _refuse(self, owner: object) -> NoReturn:
        kind = type(owner).__name__
        raise AttributeError(f"{self.name} is set when {kind} is made, and stays: make another {kind}")


def read_only() -> Any:
    """Declare a setting in the body of a class, as ``gamma: float = read_only()``; ``__init__`` sets it once.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt
    >>> OnlinePlatt().certified = True
    Traceback (most recent call last):
        ...
    AttributeError: certified is set when OnlinePlatt is made, and stays: make another OnlinePlatt
    """
    return ReadOnly()


@cache
def settings_of(kind: type) -> tuple[str, ...]:
    """The arguments of ``__init__`` that are declared as settings, in their order.

    Examples
    --------
    >>> from calibrant.online import Tracking
    >>> settings_of(Tracking)
    ('epsilon', 'horizon', 'prior')
    """
    names = signature(kind.__init__).parameters  # type: ignore[misc]
    return tuple(name for name in names if isinstance(getattr_static(kind, name, None), ReadOnly))
