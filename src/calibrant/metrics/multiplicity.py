"""Corrections for multiple tests."""

from __future__ import annotations

import numpy as np

from calibrant.numerics import Floats


def holm(p_values: Floats) -> Floats:
    r"""Holm's step-down adjustment of p-values, which controls the family-wise error rate.

    .. math:: \tilde p_{(i)} = \max_{j \le i} \min\bigl(1, (m - j + 1)\, p_{(j)}\bigr),

    with the m p-values in ascending order. NaN stays NaN and is not counted in m.

    Notes
    -----
    Guarantee: family-wise error control in finite samples, under any dependence, if each p-value is valid.
    Cost: a sort. Reference: Holm (1979), A simple sequentially rejective multiple test procedure.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03, np.nan])).round(2).tolist()
    [0.03, 0.06, 0.06, nan]
    """
    adjusted = np.full(len(p_values), np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    stepped = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def holm_log(log_p_values: Floats) -> Floats:
    """:func:`holm` on logarithms, where p-values may be too small for a double.

    Examples
    --------
    >>> holm_log(np.array([-2000.0, -1.0, np.nan])).round(3).tolist()
    [-1999.307, -1.0, nan]
    """
    adjusted = np.full(len(log_p_values), np.nan)
    known = np.flatnonzero(~np.isnan(log_p_values))
    order = known[np.argsort(log_p_values[known], kind="stable")]
    stepped = np.maximum.accumulate(log_p_values[order] + np.log(np.arange(len(order), 0, -1)))
    adjusted[order] = np.minimum(stepped, 0.0)
    return adjusted
