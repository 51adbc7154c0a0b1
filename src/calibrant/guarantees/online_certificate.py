"""Certificates of online forecasters: a bound over a stream of rows, and the assumptions it needs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from typing import Any

from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.messages import Shown


class OnlineAssumption(StrEnum):
    """Assumptions of an online certificate that cannot be checked on the rows."""

    IN_ORDER = "outcomes-in-order"
    """The certificate is about the forecast at the time its outcome is learned; this makes it the issued forecast.
    Enough for deterministic forecasters, for which rows without an outcome do not matter."""
    IN_TURN = "outcome-before-next-forecast"
    SECRET_DRAWS = "secret-draws"
    NOT_RESUMED = "not-resumed"
    FIXED_LENGTH = "fixed-length"
    CLIPPED_SCORES = "clipped-scores"
    CLIPPED_EXPERTS = "clipped-experts"
    CLIPPED_COPIES = "clipped-copies"
    FEATURES_BEFORE = "features-before-forecast"
    GROUP_FEATURES = "group-features"
    CONTINUOUS_TESTS = "continuous-test-functions"

    def words(self, clamp: float | None = None) -> str:
        """The assumption in words; ``clamp`` is the distance of clipped scores from 0 and 1.

        Examples
        --------
        >>> OnlineAssumption.CLIPPED_SCORES.words(0.01)
        'forecaster and best map see scores clipped to [0.01, 0.99]'
        """
        if clamp is None:
            return _WORDS[self]
        return _WORDS[self].format(low=all_digits(clamp), high=all_digits(1.0 - clamp))


_WORDS = {
    OnlineAssumption.IN_ORDER: "each outcome is learned before the next forecast",
    OnlineAssumption.IN_TURN: (
        "each forecast is followed by its own outcome, which is learned before the next forecast is requested, since a "
        "forecast without a timely outcome reveals the next draw"
    ),
    OnlineAssumption.SECRET_DRAWS: (
        "no outcome depends on the random draw of its own row, so the key (random_state) and the state must stay secret"
    ),
    OnlineAssumption.NOT_RESUMED: (
        "the forecaster is not resumed from an earlier state, as after a crash, except through redrawn(), since its "
        "draws have been seen"
    ),
    OnlineAssumption.FIXED_LENGTH: "neither the number of rows nor such a restart depends on the draws",
    OnlineAssumption.CLIPPED_SCORES: "forecaster and best map see scores clipped to [{low}, {high}]",
    OnlineAssumption.CLIPPED_EXPERTS: "forecasts of experts are clipped 2^-32 from 0 and 1, also in the comparison",
    OnlineAssumption.CLIPPED_COPIES: "the copies' forecasts are clipped 2^-32 from 0 and 1",
    OnlineAssumption.FEATURES_BEFORE: "features are fixed before the forecast",
    OnlineAssumption.GROUP_FEATURES: "a feature is 1 in its group and 0 outside",
    OnlineAssumption.CONTINUOUS_TESTS: "the test functions are continuous in the forecast",
}

RANDOMIZED = (
    OnlineAssumption.IN_TURN,
    OnlineAssumption.SECRET_DRAWS,
    OnlineAssumption.NOT_RESUMED,
    OnlineAssumption.FIXED_LENGTH,
)
"""Assumptions of a bound on the mean over the forecaster's draws."""


MANY = 2**40
"""Number of rows up to which rounding matters little; above it, only rounding can make a bound vacuous."""


@dataclass(frozen=True)
class OnlineCertificate(Shown):
    """A guarantee for a sequence of forecasts, whoever chooses the outcomes.

    Attributes
    ----------
    quantity
        What is bounded, as a phrase: "the calibration error in bins of width 0.1".
    bound
        Upper bound on the quantity.
    n_rows
        Number of rows that the bound is for: the first ones that the forecaster has learned, or will have learned,
        since it was created.
    expected
        Whether the bound is on the mean over the forecaster's own random draws, rather than on every sequence (or, with
        ``alpha``, on most runs).
    assumptions
        What must hold, as codes; ``words`` of each is the sentence.
    theorem
        Where it is proved.
    learned
        How many of these rows are learned already; the bound includes their forecasts, issued or not.
    clamp
        Distance of clipped scores from 0 and 1, if the assumptions state one.
    alpha
        Probability, over the forecaster's own random draws, that a run exceeds the bound; None if the bound is on the
        mean or on every sequence.

    Examples
    --------
    >>> quantity = "the calibration error in bins of width 0.1"
    >>> print(OnlineCertificate(quantity, 0.01, 1000, False, (), "Gupta 2023, 8.5"))
    After its first 1,000 rows, the calibration error in bins of width 0.1 is at most 0.01, on every sequence.
      Basis: Gupta 2023, 8.5.
    """

    quantity: str
    bound: float
    n_rows: int
    expected: bool
    assumptions: tuple[OnlineAssumption, ...]
    theorem: str
    learned: int = field(default=0, kw_only=True)
    clamp: float | None = field(default=None, kw_only=True)
    alpha: float | None = field(default=None, kw_only=True)

    @property
    def when(self) -> str:
        """After how many rows, as the beginning of a sentence."""
        part = f" ({self.learned:,} already learned)" if 0 < self.learned < self.n_rows else ""
        return f"After its first {self.n_rows:,} rows{part},"

    @property
    def assumed(self) -> list[str]:
        """The assumptions in words, as lines of a list; empty if there are none."""
        words = [each.words(self.clamp) for each in self.assumptions]
        if len(words) < 2:
            return [f"Assumes: {each}." for each in words]
        return ["Assumes:", *(f"  - {each}" for each in words)]

    def __str__(self) -> str:
        """The bound, its theorem and its assumptions, each on its own line."""
        where = "on average over its own random draws" if self.expected else "on every sequence"
        if self.alpha is not None:
            where = f"with probability at least {1.0 - self.alpha:.12g} over its own random draws"
        single = ["A single run may exceed it."] if self.expected else []
        first = f"{self.when} {self.quantity} is at most {rounded_up(self.bound, 4)}, {where}."
        return "\n  ".join([first, *single, f"Basis: {self.theorem}.", *self.assumed])

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain JSON, with assumptions as codes."""
        found = {**asdict(self), "assumptions": [each.value for each in self.assumptions]}
        return found if self.alpha is not None else {k: v for k, v in found.items() if k != "alpha"}


def all_digits(x: float) -> str:
    """All digits of a number: a ball or range that is printed larger than it is would guarantee too much."""
    return repr(float(x)).removesuffix(".0")


def rounded_up(bound: float, digits: int) -> str:
    """The bound with this many digits, rounded up; only tiny numbers have an exponent.

    Examples
    --------
    >>> rounded_up(705.5154, 4), rounded_up(0.0020104, 2), rounded_up(0.14, 2), rounded_up(12345.6, 4)
    ('705.6', '0.0021', '0.14', '12,350')
    """
    found = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(bound))).normalize()
    return f"{found:g}" if 0 < found < 1e-4 else f"{found:,f}"


def rounded_down(level: float | Decimal, digits: int = 4) -> str:
    """A guaranteed probability in percent, rounded down; near 1 it has more digits.

    Examples
    --------
    >>> rounded_down(0.71819), rounded_down(0.999999), rounded_down(without(0.07)), rounded_down(without(0.1, 2))
    ('71.81 %', '99.9999 %', '93 %', '80 %')
    """
    exact = level if isinstance(level, Decimal) else Decimal(repr(float(level)))
    nines = 2 - (100 * without(exact)).adjusted() if exact < 1 else 0
    found = Context(prec=min(max(digits, nines), 17), rounding=ROUND_FLOOR).multiply(exact, Decimal(100)).normalize()
    return f"{found:f} %"


def without(alpha: float | Decimal, times: int = 1) -> Decimal:
    """1 - alpha, or less a multiple of it, as the decimal that a user means: 0.93 for 0.07, and never 1.

    Examples
    --------
    >>> without(0.07), without(0.1, 2)
    (Decimal('0.93'), Decimal('0.8'))
    """
    exact = alpha if isinstance(alpha, Decimal) else Decimal(repr(float(alpha)))
    return Context(prec=60, rounding=ROUND_FLOOR).subtract(Decimal(1), times * exact)


def main_of(found: OnlineCertificate, empty: float = 1.0) -> OnlineCertificate | NoCertificate:
    """The main certificate, or why there is none; never one about another quantity instead."""
    if found.bound < empty:
        return found
    quantity = found.quantity.rstrip(",")
    rows = "this few rows: pass a larger n_rows"
    if found.n_rows > MANY:
        rows = "this many rows, since rounding errors add up: pass a smaller n_rows"
    return NoCertificate(NoCertificateCode.VACUOUS, f"the bound on {quantity} is vacuous for {rows}")
