"""How many rows of the minority class a fit needs before it is tried without being asked for."""

from __future__ import annotations

from calibrant.tallies import Tally

BLEND_ROWS = 3
"""A blend of all maps."""

SHRUNKEN_ROWS = 10
"""A line that is shrunk toward the original model."""

LINE_ROWS = 50
"""A free slope and intercept."""

CURVE_ROWS = 100
"""A free smooth curve."""

STEP_ROWS = 1_000
"""Free steps: isotonic regression, Venn-Abers, bins."""


def minority_rows(tally: Tally) -> float:
    """Rows of the minority class, or what importance weights are worth."""
    events = float(tally.positives)
    return min(events, float(tally.total) - events)
