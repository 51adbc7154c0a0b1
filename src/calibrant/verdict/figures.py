"""Number formats of a verdict."""

from __future__ import annotations

import math

ROUNDING = 1e-9
"""Numbers up to this are 0 but for rounding."""


def amount(value: float) -> str:
    """A number of events: no decimals from 10 up, two digits below 10, so that 0.4 is not shown as 0.

    Examples
    --------
    >>> amount(1234.5), amount(0.4), amount(7.0)
    ('1,234', '0.4', '7')
    """
    if value >= 10.0 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.2g}"


def capitalized(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def p_text(p_value: float, equals: str = "= ") -> str:
    """A p-value as text; ``equals`` is put before the number, and is empty in a table.

    Examples
    --------
    >>> p_text(0.0321), p_text(1e-9), p_text(0.0321, "")
    ('= 0.032', '< 0.0001', '0.032')
    """
    return "< 0.0001" if p_value < 1e-4 else f"{equals}{p_value:.2g}"


def percent(share: float) -> str:
    """A share in percent with two significant digits, never in scientific notation.

    Examples
    --------
    >>> percent(0.0123), percent(2.6), percent(0.00004)
    ('1.2 %', '260 %', '0.004 %')
    """
    value = 100.0 * share
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g} %"
    digits = max(1 - math.floor(math.log10(abs(value))), 0)
    return f"{round(value, digits):,.{digits}f}".rstrip("0").rstrip(".") + " %" if digits else f"{value:,.0f} %"


def signed_percent(share: float) -> str:
    """A signed share in percent.

    Examples
    --------
    >>> signed_percent(2.6), signed_percent(-0.012), signed_percent(0.0)
    ('+260 %', '-1.2 %', '0 %')
    """
    return f"{'+' if share > 0.0 else '-' if share < 0.0 else ''}{percent(abs(share))}"


def signed(value: float, digits: int) -> str:
    """A number with its sign, which stays if the number rounds to 0, so that an interval shows whether it contains 0.

    Examples
    --------
    >>> signed(-0.0037, 2), signed(0.2, 2), signed(-1e-15, 2)
    ('-0.00', '+0.20', '+0.00')
    """
    return format(value, f"+{'z' if abs(value) < ROUNDING else ''}.{digits}f")


def between(low: float, high: float, digits: int, *, sign: bool = False) -> str:
    """An interval as text; infinite limits are written in words.

    Examples
    --------
    >>> between(-0.5, math.inf, 2, sign=True)
    '-0.50 to no upper limit'
    """

    def end(value: float) -> str:
        return signed(value, digits) if sign else format(value, f"z.{digits}f")

    ends = (
        "no lower limit" if math.isinf(low) else end(low),
        "no upper limit" if math.isinf(high) else end(high),
    )
    return " to ".join(ends)


def digits_apart(value: float, *limits: float, least: int = 2, most: int = 5) -> int:
    """Decimals needed so that a number does not look equal to a limit that it differs from.

    Examples
    --------
    >>> digits_apart(0.7966, 0.8), digits_apart(0.79, 0.8)
    (3, 2)
    """
    for digits in range(least, most):
        if all(value == limit or round(value, digits) != round(limit, digits) for limit in limits):
            return digits
    return most
