"""What a theorem promises of the forecasts of a stream: a number, and the assumptions that it stands on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

IN_ORDER = "each outcome is learned before the next forecast"
"""What every promise on a sequence rests on."""


@dataclass(frozen=True)
class OnlineCertificate:
    """A promise about a whole sequence of forecasts, whoever chooses the outcomes.

    Attributes
    ----------
    quantity
        What is bounded, as a phrase: "the calibration error in bins of width 0.1".
    bound
        What it cannot exceed.
    n_rows
        Rows that the promise speaks of.
    expected
        Whether the promise is on the mean over the forecaster's own randomness rather than on every sequence.
    assumptions
        What must hold, one phrase each.
    theorem
        Where it is proved.

    Examples
    --------
    >>> print(OnlineCertificate("the calibration error in bins of width 0.1", 0.01, 1000, False, (), "Gupta 2023, 8.5"))
    After 1,000 rows the calibration error in bins of width 0.1 is at most 0.01, on every sequence (Gupta 2023, 8.5).
    """

    quantity: str
    bound: float
    n_rows: int
    expected: bool
    assumptions: tuple[str, ...]
    theorem: str

    def __str__(self) -> str:
        """One sentence, and the assumptions if there are any."""
        where = "on average over its own draws" if self.expected else "on every sequence"
        bound = rounded_up(self.bound, 4)
        told = f"After {self.n_rows:,} rows {self.quantity} is at most {bound}, {where} ({self.theorem})."
        return told + (f" It assumes that {'; that '.join(self.assumptions)}." if self.assumptions else "")

    def to_dict(self) -> dict[str, Any]:
        """The promise as plain JSON."""
        return {**asdict(self), "assumptions": list(self.assumptions)}


def rounded_up(bound: float, digits: int) -> str:
    """So many digits, and never less than the bound.

    Examples
    --------
    >>> rounded_up(705.5154, 4), rounded_up(0.0020104, 2), rounded_up(0.14, 2)
    ('705.6', '0.0021', '0.14')
    """
    told = f"{bound:.{digits}g}"
    if float(told) >= bound:
        return told
    last = 10.0 ** (math.floor(math.log10(bound)) - digits + 1)
    return f"{float(told) + last:.{digits}g}"
