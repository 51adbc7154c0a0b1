"""Number formats of a report."""

from __future__ import annotations

import math

UNKNOWN = "not defined"
ROUNDING_ERROR = 1e-15
"""Values below this are rounding errors of zero."""

SMALLEST_SHARE = 1e-6
"""Shares below this are written as "< 0.0001 %"."""


def count(value: float | None) -> str:
    """Rows or events: integers without decimals, sums of weights with one decimal.

    Examples
    --------
    >>> count(12345.0), count(0.25), count(None)
    ('12,345', '0.2', 'not defined')
    """
    if value is None:
        return UNKNOWN
    return f"{value + 0.0:,.0f}" if value == round(value) else f"{value:,.1f}"  # + 0.0 makes -0 a 0


def amount(value: float | None) -> str:
    """A number of events that need not be an integer: three significant digits, no decimals from 100 up.

    Examples
    --------
    >>> amount(1620.3), amount(14.71), amount(0.0749), amount(-2.5)
    ('1,620', '14.7', '0.07', '-2.50')
    """
    if value is None:
        return UNKNOWN
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{decimals}f}"


def percent(value: float | None, digits: int = 3, unit: str = " %") -> str:
    """A share in percent, with three significant digits down to 0.0001 %.

    Examples
    --------
    >>> percent(0.12345), percent(0.12), percent(0.0000123), percent(1.0), percent(1e-9)
    ('12.3 %', '12.0 %', '0.00123 %', '100 %', '< 0.0001 %')
    """
    if value is None:
        return UNKNOWN
    if abs(value) < ROUNDING_ERROR:
        return f"0{unit}"
    if 0.0 < value < SMALLEST_SHARE:
        return f"< 0.0001{unit}"
    decimals = min(max(digits - 1 - math.floor(math.log10(100.0 * abs(value))), 0), 6)
    return f"{100.0 * value:,.{decimals}f}{unit}"


def share(value: float, digits: int = 3) -> str:
    """A share in percent for sentences and names, without trailing zeros.

    Examples
    --------
    >>> share(0.12), share(0.9), share(0.001234)
    ('12 %', '90 %', '0.123 %')
    """
    text = percent(value, digits, unit="")
    return f"{text.rstrip('0').rstrip('.') if '.' in text and '<' not in text else text} %"


def number(value: float | None, digits: int = 3, sign: bool = False) -> str:
    """A number: at least two decimals, and three significant digits below 0.1.

    Examples
    --------
    >>> number(0.12345), number(0.000123456), number(12.3456), number(-0.2, sign=True)
    ('0.123', '0.000123', '12.35', '-0.200')
    """
    if value is None:
        return UNKNOWN
    if abs(value) < ROUNDING_ERROR:
        return "0"
    size = math.floor(math.log10(abs(value)))
    decimals = min(max(2, digits - 1 - size), 12)
    return f"{value:{'+' if sign else ''},.{decimals}f}"


def p_value(value: float | None) -> str:
    """A p-value as text.

    Examples
    --------
    >>> p_value(0.05031), p_value(0.4321), p_value(1e-9), p_value(1.0)
    ('0.0503', '0.4321', '< 0.0001', '1.0000')
    """
    if value is None:
        return UNKNOWN
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def span(low: float | None, high: float | None, style: str = "number") -> str:
    """An interval as text.

    Examples
    --------
    >>> span(0.1, 0.25), span(0.1, 0.25, "percent"), span(3.0, 9.0, "count"), span(None, 1.0)
    ('0.100 to 0.250', '10.0 to 25.0 %', '3 to 9', 'not defined')
    """
    if low is None or high is None:
        return UNKNOWN
    if style == "percent":
        return f"{percent(low, unit='')} to {percent(high)}"
    form = count if style == "count" else number
    return f"{form(low)} to {form(high)}"
