"""Boundaries of sums of bounded errors that hold at every look, and the e-value of a running maximum."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from calibrant.numerics import Floats

RATES = 0.9 / 1.6 ** np.arange(20)
"""Rates of the mixture, from 0.9 down to about 0.0001: the range in which sums of up to a billion rows are bounded."""

COSTS = -np.log1p(-RATES) - RATES
"""What each rate pays for a unit of variance."""

_SHARES = 1.0 / np.arange(1.0, 21.0)
LOG_SHARES = np.log(_SHARES / _SHARES.sum())
"""Logarithms of the weights of the rates in the mixture; large rates, for few rows, have the larger ones."""

ZETA = 3.1055472779775806
"""Riemann's zeta function at 1.4, for which the boundary by epochs is stated."""

ROOT = (math.exp(0.25) + math.exp(-0.25)) / math.sqrt(2.0)
STEPS = 60
"""Newton steps of the search for the boundary; it stops earlier when nothing changes."""


def mixture(variance: ArrayLike, alpha: float) -> Floats:
    r"""Upper boundary of a sum of errors at every look, by a mixture over rates.

    With :math:`S_t = \sum_i (y_i - \mu_i)` and :math:`V_t = \sum_i (y_i - \hat y_i)^2`, where :math:`\hat y_i` in
    [0, 1] is known before the outcome, :math:`S_t < u(V_t)` at all t with probability at least 1 - alpha.
    Proof: ``docs/certificates/monitor.md``.

    Parameters
    ----------
    variance
        The sum of squares, one or several.
    alpha
        The probability that the boundary is ever reached.

    Returns
    -------
    array
        The smallest sum at which the mixture of :math:`\exp(\lambda S - \psi(\lambda) V)` reaches 1 / alpha.

    Examples
    --------
    >>> mixture([0.0, 25.0, 2_500.0], 0.025).round(1).tolist()
    [5.4, 20.5, 182.9]
    """
    v = np.asarray(variance, dtype=np.float64)[..., None]
    target = -math.log(alpha)
    x = ((target - LOG_SHARES + COSTS * v) / RATES).min(axis=-1, keepdims=True)  # one rate alone reaches it here
    for _ in range(STEPS):
        terms = LOG_SHARES + RATES * x - COSTS * v
        top = terms.max(axis=-1, keepdims=True)
        shares = np.exp(terms - top)
        total = shares.sum(axis=-1, keepdims=True)
        step = (top + np.log(total) - target) * total / (shares * RATES).sum(axis=-1, keepdims=True)
        x, before = x - np.maximum(step, 0.0), x  # convex and increasing: Newton's steps come from above
        if (before - x <= 1e-12 * before).all():
            break
    found: Floats = x[..., 0] * (1.0 + 1e-9)
    return found


def epochs(variance: ArrayLike, alpha: float) -> Floats:
    r"""The boundary in closed form, by epochs of the variance: :math:`k \sqrt{v\,\ell} + \ell`.

    :math:`\ell = 1.4 \ln(1 + \ln v) + \ln(\zeta(1.4) / \alpha)` with v at least 1, and k = 1.459. It is that of 3.C.4
    in Gupta (2023) with a smaller second term; :func:`mixture` is narrower for every variance that occurs.

    Parameters
    ----------
    variance, alpha
        As in :func:`mixture`.

    Returns
    -------
    array
        The boundary.

    Examples
    --------
    >>> epochs([0.0, 25.0, 2_500.0], 0.025).round(1).tolist()
    [8.0, 25.9, 212.5]
    """
    v = np.maximum(np.asarray(variance, dtype=np.float64), 1.0)
    length = 1.4 * np.log1p(np.log(v)) + math.log(ZETA / alpha)
    return np.asarray(ROOT * np.sqrt(v * length) + length)


def of_maximum(log_e: ArrayLike) -> Floats:
    r"""Logarithm of an e-value from the running maximum m of an e-process, for combining streams.

    .. math:: A(m) = \int_0^1 \kappa\, m^{1 - \kappa}\, d\kappa = \frac{m - 1 - \ln m}{(\ln m)^2}

    Its mean is at most 1 whatever the other streams do, since m exceeds x with probability at most 1 / x.

    Parameters
    ----------
    log_e
        Logarithm of the maximum, at least 0.

    Returns
    -------
    array
        The logarithm of A(m).

    Examples
    --------
    >>> np.exp(of_maximum([0.0, math.log(100.0)])).round(3).tolist()
    [0.5, 4.451]
    """
    m = np.maximum(np.asarray(log_e, dtype=np.float64), 0.0)
    near = m < 1e-3
    safe = np.where(near, 1.0, m)
    far = safe + np.log1p(-(1.0 + safe) * np.exp(-safe)) - 2.0 * np.log(safe)
    return np.where(near, math.log(0.5) + m / 3.0, far)
