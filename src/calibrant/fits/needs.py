"""Minority-class rows that each kind of fit needs to be tried by an automatic choice."""

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
    """Minority-class rows; with importance weights, their effective sample size."""
    events = float(tally.positives)
    return min(events, float(tally.total) - events)
