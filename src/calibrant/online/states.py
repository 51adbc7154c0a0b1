"""Parsing of stored forecaster states."""

from __future__ import annotations

import json
import sys
from typing import Any

from calibrant.messages import InputError

LARGEST = sys.float_info.max
"""Largest number allowed in a state."""


def parsed(state: Any) -> Any:
    """A state given as text or bytes, parsed as JSON; a dict is returned unchanged."""
    if not isinstance(state, str | bytes | bytearray | memoryview):
        return state
    try:
        return json.loads(bytes(state) if isinstance(state, memoryview) else state)
    except (ValueError, RecursionError):
        raise InputError(
            "state", "is not valid JSON", "pass the text that to_json() of a forecaster returned"
        ) from None


def finite(numbers: list[Any]) -> bool:
    """Whether all entries are finite numbers."""
    return all(type(x) in (int, float) and -LARGEST <= x <= LARGEST for x in numbers)
