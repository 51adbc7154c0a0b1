"""What parameters may be, what a state may hold, and when a bound on the regret says something."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

from calibrant.arrays.columns import is_whole
from calibrant.guarantees.online_promise import IN_ORDER, OnlineCertificate, rounded_up
from calibrant.guarantees.refusal import Refusal, RefusalCode
from calibrant.messages import InputError
from calibrant.online.kernels import SEEN

MOST_ROWS = 2**53
"""Counts are exact up to here."""

SLACK = 1e-6
"""What rounding may add to a number of a state in a very long stream, as a share of it."""

SAME = 1e-12
"""By how much, as a share of itself, a setting may differ that another machine's exp and log have given."""

LEAST_CLAMP, MOST_CLAMP = 2.0**-32, 0.25
"""How near to 0 and 1 scores may be clipped: nearer, log-odds lose their digits."""


def real(name: str, value: object, low: float, high: float, why: str = "") -> float:
    """A parameter as a float from low to high, or an error that says so."""
    found: Any = value  # whole numbers of any size compare with floats, and would not all turn into one
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not low <= found <= high:
        raise InputError(name, f"must be at least {low:.4g}{why} and at most {high:.4g}, not {value!r}")
    return float(value)


def clamp_of(value: object) -> float:
    """How far from 0 and 1 scores are clipped."""
    return real("clamp", value, LEAST_CLAMP, MOST_CLAMP)


def constants_of(gamma: object, rho: object) -> tuple[float, float]:
    """The constants of online Newton steps: the curvature gamma, and the matrix rho I at the start."""
    return real("gamma", gamma, 1e-30, 1e30), real("rho", rho, 1e-9, 1e30)


def radius_of(radius: object, least: float = 1.0) -> float:
    """The radius of the ball that parameters stay in; it holds those of the original model."""
    return real("radius", radius, least, 1e9, ", which the original model needs,")


def whole_in(value: Any, low: int, high: float) -> bool:
    """Whether a parameter, of any type and size, is a whole number from low to high; True and False are not."""
    return is_whole(value) and low <= value <= high


def whole(name: str, value: Any, low: int, high: int) -> int:
    """A parameter as a whole number from low to high, or an error that says so."""
    if not whole_in(value, low, high):
        raise InputError(name, f"must be a whole number of at least {low:,} and at most {high:,}, not {value!r}")
    return int(value)


def yes_no(name: str, value: Any) -> bool:
    """A parameter that is True or False, or an error that says so."""
    if value is not True and value is not False:
        raise InputError(name, f"must be True or False, not {value!r}")
    return value


def changed(what: str) -> InputError:
    """The error for a state that no stream leads to."""
    return InputError("state", f"is not valid, since its {what} cannot come from any stream", "was it changed by hand?")


def check_steps(
    numbers: list[float], begin: list[float], pivots: Mapping[int, float], factors: Mapping[int, float], reach: float
) -> None:
    r"""Refuse numbers that no steps from ``begin`` on lead to.

    They are the count n, the parameters, the factors L and D of a matrix :math:`\rho I + \sum_t w_t x_t x_t^\top` and
    settings, in this order. Settings may come from the exp and log of another machine, which can differ in the last
    digits, so that they are compared to 1e-12; those of the state go on, and with them the steps that it began.

    Parameters
    ----------
    pivots
        The places of D, and the most that one row adds: it is at least :math:`\rho`, and at most n times that more.
    factors
        The places of L, and the most w that one row adds to the diagonal in that entry's line. That diagonal is at most
        :math:`\rho + n w`, also where old rows fade, and at least :math:`\rho + L^2 \rho`, so that
        :math:`|L| \le \sqrt{n w / \rho}`.
    reach
        The largest norm of the parameters.
    """
    n, first, last = numbers[SEEN], min(pivots), max([*pivots, *factors])
    settings = zip(numbers[last + 1 :], begin[last + 1 :], strict=True)
    if not all(math.isclose(found, given, rel_tol=SAME) for found, given in settings):
        raise changed("settings")
    if not math.hypot(*numbers[1:first]) <= reach * (1.0 + SLACK):
        raise changed("slope or level")
    start = begin[first] * (1.0 - SAME)
    right = all(start <= numbers[i] <= (start + n * most) * (1.0 + SLACK) for i, most in pivots.items())
    if not right or any(abs(numbers[i]) > math.sqrt(n * w / start) * (1.0 + SLACK) for i, w in factors.items()):
        raise changed("matrix")


def regret_certificate(
    best: str,
    bound: float,
    n_rows: int,
    assumptions: tuple[str, ...],
    theorem: str,
    rows: tuple[int, int] | None = None,
    *,
    learned: int = 0,
) -> OnlineCertificate | Refusal:
    """A bound on the log loss beyond that of the best map, or a refusal where one half on every row has as good a one.

    The loss of one half is log 2 on every row, and no map has less than 0.

    Parameters
    ----------
    rows
        The first and the last row of the period that the bound is about; by default all of them.
    learned
        Rows learned already.

    Examples
    --------
    >>> print(regret_certificate("the best map", 12.3456, 1000, (), "a theorem"))  # doctest: +ELLIPSIS
    After 1,000 rows since it was new the log loss beyond that of the best map, in sum over the rows (0.013 a row), ...
    """
    first, last = rows or (1, n_rows)
    length = last - first + 1
    if bound >= length * math.log(2.0):
        return Refusal(
            RefusalCode.VACUOUS,
            f"the regret is bounded by {bound:.4g} over {length:,} rows, and that of saying 1/2 on every row by "
            f"{length * math.log(2.0):.4g}: a bound below that needs more rows, or a smaller radius",
        )
    where = (
        f"in sum over {f'rows {first:,} to {last:,}' if rows else 'the rows'} ({rounded_up(bound / length, 2)} a row),"
    )
    quantity = f"the log loss beyond that of {best}, {where}"
    return OnlineCertificate(quantity, bound, n_rows, False, (*assumptions, IN_ORDER), theorem, learned=learned)
