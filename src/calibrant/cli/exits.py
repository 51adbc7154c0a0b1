"""Exit codes of the commands."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes; usage errors exit with 2, set by typer."""

    CALIBRATED = 0
    MISTAKE = 1
    MISCALIBRATED = 10
    CANNOT_TELL = 11
    OFF = 12
    PART_OFF = 13
    INTERRUPTED = 130
