"""Read-only settings of forecasters: attributes that are set once, in ``__init__``."""

from __future__ import annotations

from functools import cache
from inspect import getattr_static, signature
from typing import Any, NoReturn


class ReadOnly:
    """A read-only attribute that is set once, in the ``__dict__`` of its object.

    Without ``__get__``, reading it is as fast as any attribute.
    """

    name: str

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.__doc__ = "Read-only setting."

    def __set__(self, owner: object, value: Any) -> None:
        if self.name in owner.__dict__:
            self._refuse(owner)
        owner.__dict__[self.name] = value

    def __delete__(self, owner: object) -> None:
        self._refuse(owner)

    def _refuse(self, owner: object) -> NoReturn:
        kind = type(owner).__name__
        raise AttributeError(f"{kind}.{self.name} is read-only: create a new {kind}")


def read_only() -> Any:
    """Declare a read-only setting in a class body, as ``gamma: float = read_only()``; ``__init__`` sets it once.

    Returns
    -------
    descriptor
        Raises an AttributeError if the setting is changed later.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt
    >>> OnlinePlatt().certified = True
    Traceback (most recent call last):
        ...
    AttributeError: OnlinePlatt.certified is read-only: create a new OnlinePlatt
    """
    return ReadOnly()


@cache
def settings_of(kind: type) -> tuple[str, ...]:
    """Arguments of ``__init__`` that are declared as settings, in order.

    Examples
    --------
    >>> from calibrant.online import Tracking
    >>> settings_of(Tracking)
    ('epsilon', 'horizon', 'prior')
    """
    names = signature(kind.__init__).parameters  # type: ignore[misc]
    return tuple(name for name in names if isinstance(getattr_static(kind, name, None), ReadOnly))
