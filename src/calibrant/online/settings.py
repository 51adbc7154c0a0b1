"""Settings of forecasters: attributes that are set once, when the forecaster is made."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, NoReturn

DERIVED = {"epsilon": "n_bins", "n_features": "feature_names"}
"""What an argument comes to, under a name of its own."""


class Setting:
    """An attribute that is set once; it stands in the ``__dict__`` of its object.

    There is no ``__get__``, so that reading it costs what any attribute costs.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt
    >>> OnlinePlatt().certified = True
    Traceback (most recent call last):
        ...
    AttributeError: certified is set when OnlinePlatt is made, and stays: make another OnlinePlatt
    """

    def __init__(self, name: str) -> None:
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


def settle(kind: type) -> None:
    """Make settings of the arguments of ``__init__``, unless the class says itself what it means by a name."""
    for name in _settings(kind):
        if not hasattr(kind, name):
            setattr(kind, name, Setting(name))


def _settings(kind: Any) -> Iterator[str]:
    """Names of arguments, and of what they come to; forecasters are no settings, since they are copied."""
    _, *given = inspect.signature(kind.__init__).parameters.values()
    for argument in given:
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD) or "Forecaster" in str(argument.annotation):
            continue
        yield argument.name
        if argument.name in DERIVED:
            yield DERIVED[argument.name]
