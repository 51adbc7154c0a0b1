"""Checks of parameters and stored states, and certificates of regret bounds."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

from calibrant.arrays.columns import is_whole
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.online_certificate import OnlineAssumption, OnlineCertificate, rounded_up
from calibrant.messages import InputError
from calibrant.online.kernels import SEEN

MAX_ROWS = 2**53
"""Largest number of rows; counts are exact up to here."""

ULPS, ULP = 1.0 + 2.0**-50, 2.0**-51
"""Factor and term that widen bounds, since forecasts, comparisons and both sides are rounded."""

SLACK = 1e-6
"""Relative rounding error allowed in a number of a state after a very long stream."""

SAME = 1e-12
"""Relative difference allowed between settings computed with another machine's exp and log."""

LEAST_CLAMP, MAX_CLAMP = 2.0**-32, 0.25
"""Range of the clamp: scores clipped closer to 0 and 1 would lose digits in their log-odds."""


def real(name: str, value: object, low: float, high: float, why: str = "") -> float:
    """A parameter as a float from low to high, or an error."""
    found: Any = value  # integers of any size can be compared with floats, but not all converted
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not low <= found <= high:
        raise InputError(name, f"must be at least {low:,.8g}{why} and at most {high:,.8g}, not {value!r}")
    return float(value)


def clamp_of(value: object) -> float:
    """Validated clamp: the distance from 0 and 1 to which scores are clipped."""
    return real("clamp", value, LEAST_CLAMP, MAX_CLAMP)


def constants_of(gamma: object, rho: object) -> tuple[float, float]:
    """Validated constants of online Newton steps: the curvature gamma, and rho of the initial matrix rho I."""
    return real("gamma", gamma, 1e-30, 1e30), real("rho", rho, 1e-9, 1e30)


def radius_of(radius: object, least: float = 1.0) -> float:
    """Validated radius of the ball of parameters; it must contain those of the original model."""
    return real("radius", radius, least, 1e9, ", which the original model needs,")


def whole_in(value: Any, low: int, high: float) -> bool:
    """Whether a parameter of any type is an integer from low to high; booleans are not."""
    return is_whole(value) and low <= value <= high


def whole(name: str, value: Any, low: int, high: int) -> int:
    """A parameter as an integer from low to high, or an error."""
    if not whole_in(value, low, high):
        raise InputError(name, f"must be an integer from {low:,} to {high:,}, not {value!r}")
    return int(value)


def yes_no(name: str, value: Any) -> bool:
    """A parameter that is True or False, or an error."""
    if value is not True and value is not False:
        raise InputError(name, f"must be True or False, not {value!r}")
    return value


def changed(what: str) -> InputError:
    """The error for a state that cannot result from any stream."""
    return InputError("state", f"is invalid: its {what} cannot result from any stream", "was it edited by hand?")


def check_steps(
    numbers: list[float], begin: list[float], pivots: Mapping[int, float], factors: Mapping[int, float], reach: float
) -> None:
    r"""Reject numbers that cannot result from steps that start at ``begin``.

    The numbers are the count n, the parameters, the factors L and D of a matrix
    :math:`\rho I + \sum_t w_t x_t x_t^\top` and the settings, in this order. Settings computed with another machine's
    exp and log can differ in the last digits, so they are compared to 1e-12; the state's own settings are kept.

    Parameters
    ----------
    pivots
        Indices of D, each with the most that one row adds: an entry is at least :math:`\rho` and at most n times that
        more.
    factors
        Indices of L, each with the most w that one row adds to the diagonal in the entry's row. That diagonal is at
        most :math:`\rho + n w`, also if old rows fade, and at least :math:`\rho + L^2 \rho`, so
        :math:`|L| \le \sqrt{n w / \rho}`.
    reach
        Largest norm of the parameters.
    """
    n, first, last = numbers[SEEN], min(pivots), max([*pivots, *factors])
    settings = zip(numbers[last + 1 :], begin[last + 1 :], strict=True)
    if not all(math.isclose(found, given, rel_tol=SAME) for found, given in settings):
        raise changed("settings")
    if not math.hypot(*numbers[1:first]) <= reach * (1.0 + SLACK):
        raise changed("slope or intercept")
    start = begin[first] * (1.0 - SAME)
    right = all(start <= numbers[i] <= (start + n * most) * (1.0 + SLACK) for i, most in pivots.items())
    if not right or any(abs(numbers[i]) > math.sqrt(n * w / start) * (1.0 + SLACK) for i, w in factors.items()):
        raise changed("matrix")


def regret_certificate(
    best: str,
    bound: float,
    n_rows: int,
    theorem: str,
    rows: tuple[int, int] | None = None,
    *,
    clamp: float,
    learned: int = 0,
) -> OnlineCertificate | NoCertificate:
    """Certificate of a regret bound: log loss beyond that of the best map; refused if forecasting 1/2 is as good.

    The log loss of forecasting 1/2 is log 2 on every row, and no map has a loss below 0.

    Parameters
    ----------
    rows
        First and last row of the period that the bound is for; by default all rows.
    clamp
        Distance from 0 and 1 to which forecaster and best map clip scores.
    learned
        Rows already learned.

    Examples
    --------
    >>> print(regret_certificate("the best map", 12.3456, 1000, "a theorem", clamp=0.01))  # doctest: +ELLIPSIS
    After its first 1,000 rows, the log loss beyond that of the best map, summed over the rows (0.013 per row), ...
    """
    first, last = rows or (1, n_rows)
    length = last - first + 1
    if bound >= length * math.log(2.0):
        return NoCertificate(
            NoCertificateCode.VACUOUS,
            f"the bound on the regret over {length:,} rows, {bound:.4g}, is vacuous: forecasting 1/2 on every row has "
            f"a regret of at most {length * math.log(2.0):.4g}; pass a larger n_rows or use a smaller "
            "radius, such as 1.0 or 1.5",
        )
    over = f"rows {first:,} to {last:,}" if rows else "the rows"
    where = f"summed over {over} ({rounded_up(bound / length, 2)} per row),"
    quantity = f"the log loss beyond that of {best}, {where}"
    assumed = (OnlineAssumption.CLIPPED_SCORES, OnlineAssumption.IN_ORDER)
    return OnlineCertificate(quantity, bound, n_rows, False, assumed, theorem, learned=learned, clamp=clamp)
