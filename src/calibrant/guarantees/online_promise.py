"""What a theorem promises of the forecasts of a stream: a number, and the assumptions that it stands on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from decimal import ROUND_CEILING, Context
from typing import Any

IN_ORDER = "each outcome is learned before the next forecast"
"""What makes the forecast that is judged, the one at the moment of learning, the one that was said; enough where
nothing is drawn, and rows without an outcome are then no matter."""

IN_TURN = (
    "each forecast is followed by its own outcome, learned before the next forecast is asked, since a forecast whose "
    "outcome comes late or never shows the next draw"
)
UNSEEN = (
    "no outcome depends on the draw of its own row, for which the key (random_state) must stay secret, and the state "
    "with it"
)
NOT_AGAIN = "no earlier state is gone on from, as after a crash, but by redrawn(), since its draws have been shown"
NO_CHOICE = "neither the number of rows nor such a restart depends on the draws"

DRAWN = (IN_TURN, UNSEEN, NOT_AGAIN, NO_CHOICE)
"""What a promise on average over draws rests on."""


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
        Rows that the promise speaks of: the first ones that the forecaster learned, or will have learned, since it was
        new.
    expected
        Whether the promise is on the mean over the forecaster's own randomness rather than on every sequence.
    assumptions
        What must hold, one phrase each.
    theorem
        Where it is proved.
    learned
        How many of these rows it has learned already; the promise is on their forecasts too, said or not.

    Examples
    --------
    >>> quantity = "the calibration error in bins of width 0.1"
    >>> print(OnlineCertificate(quantity, 0.01, 1000, False, (), "Gupta 2023, 8.5"))  # doctest: +ELLIPSIS
    After 1,000 rows since it was new the calibration error in bins of width 0.1 is at most 0.01, on every sequence ...
    """

    quantity: str
    bound: float
    n_rows: int
    expected: bool
    assumptions: tuple[str, ...]
    theorem: str
    learned: int = field(default=0, kw_only=True)

    @property
    def when(self) -> str:
        """After how many rows, as the beginning of a sentence."""
        part = f" ({self.learned:,} of them learned already)" if 0 < self.learned < self.n_rows else ""
        return f"After {self.n_rows:,} rows since it was new{part}"

    def __str__(self) -> str:
        drawn = "on average over its own draws, and a single run may exceed it"
        where = drawn if self.expected else "on every sequence"
        bound = rounded_up(self.bound, 4)
        told = f"{self.when} {self.quantity} is at most {bound}, {where} ({self.theorem})."
        return told + (f" It assumes that {'; that '.join(self.assumptions)}." if self.assumptions else "")

    def to_dict(self) -> dict[str, Any]:
        """The promise as plain JSON."""
        return {**asdict(self), "assumptions": list(self.assumptions)}


def rounded_up(bound: float, digits: int) -> str:
    """So many digits, and never less than the bound; only tiny ones have an exponent.

    Examples
    --------
    >>> rounded_up(705.5154, 4), rounded_up(0.0020104, 2), rounded_up(0.14, 2), rounded_up(12345.6, 4)
    ('705.6', '0.0021', '0.14', '12,350')
    """
    found = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(bound))).normalize()
    return f"{found:g}" if 0 < found < 1e-4 else f"{found:,f}"
