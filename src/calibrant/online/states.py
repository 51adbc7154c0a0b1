"""States as text: what a forecaster reads before it asks what the numbers mean."""

from __future__ import annotations

import json
import sys
from typing import Any

from calibrant.messages import InputError

LARGEST = sys.float_info.max
"""The largest number that a state may hold."""


def parsed(state: Any) -> Any:
    """A state that was stored as text or bytes, as plain JSON; one that is a dict already stays as it is."""
    if not isinstance(state, str | bytes | bytearray | memoryview):
        return state
    try:
        return json.loads(bytes(state) if isinstance(state, memoryview) else state)
    except (ValueError, RecursionError):
        raise InputError("state", "must be what to_json() of a forecaster wrote, and it is not JSON") from None


def finite(numbers: list[Any]) -> bool:
    """Whether all of these are finite numbers."""
    return all(type(x) in (int, float) and -LARGEST <= x <= LARGEST for x in numbers)
