"""States as text: what a forecaster reads before it asks what the numbers mean."""

from __future__ import annotations

import json
import sys
from typing import Any

from calibrant.arrays import InputError

LARGEST = sys.float_info.max
"""The largest number that a state may hold."""


def parsed(state: Any) -> Any:
    """A state that was stored as text or bytes, as plain JSON; one that is a dict already stays as it is.

    Examples
    --------
    >>> parsed(b'{"version": 1}'), parsed({"version": 1})
    ({'version': 1}, {'version': 1})
    """
    if not isinstance(state, str | bytes | bytearray | memoryview):
        return state
    try:
        return json.loads(bytes(state) if isinstance(state, memoryview) else state)
    except (ValueError, RecursionError):
        raise InputError("state must be what to_json() of a forecaster wrote, and it is no JSON") from None


def are_numbers(found: Any, like: list[float]) -> bool:
    """Whether this is a list of as many finite numbers.

    Examples
    --------
    >>> are_numbers([1, 0.5], [0.0, 0.0]), are_numbers([1.0], [0.0, 0.0]), are_numbers([1.0, True], [0.0, 0.0])
    (True, False, False)
    """
    return (
        isinstance(found, list)
        and len(found) == len(like)
        and all(type(x) in (int, float) and -LARGEST <= x <= LARGEST for x in found)
    )
