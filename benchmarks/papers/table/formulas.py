"""Printed numbers that follow from a formula: worked out here, by functions of the package where it has them."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
from outputs import Value, Values
from scipy.optimize import brentq
from scipy.special import beta

from calibrant import CalibrantWarning
from calibrant.guarantees.bounds import hoeffding, umd_epsilon
from calibrant.metrics import brier, ece, kendall_tau, log_loss, pde, probabilistic_count


def values() -> Values:
    """By key; nothing here is random."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # examples of one or a few rows
        found = _binning() | _unequal_bins() | _online() | _scores() | _cells()
    return {name: Value(float(value)) for name, value in found.items()}


def _binning() -> dict[str, float]:
    """Gupta (2023), chapters 3, 4, 5 and 9."""
    low, high = (float(end) for end in hoeffding(75, 150, 0.1))
    out = {
        "density ratio": (beta(1, 1) / beta(2, 1)) ** 3,
        "hoeffding 150": (high - low) / 2,
        "eq 4.10": umd_epsilon(2_900, 10, 0.1, original=True),
        "eq 4.11": umd_epsilon(1_500, 10, 0.1, coverage="marginal"),
        "top-label 50": math.sqrt(1 / (2 * 50)),
        "bootstrap share": 1 - math.exp(-1),
    }
    for n, bins in ((1_000, 5), (5_000, 10), (20_000, 22)):
        out[f"eq 4.8/{n}/{bins}"] = umd_epsilon(n, bins, 0.1)
    least = next(n for n in range(10, 10_000) if umd_epsilon(n, 5, 0.5) <= 0.1)
    return out | {"least rows per bin": least / 5, "further term": 1 / (least // 5)}


def _unequal_bins() -> dict[str, float]:
    """Section 4.B: what the bound for binning with a split sample asks for, with the constant c = 100 assumed there."""
    bins, epsilon, alpha, constant = 10, 0.1, 0.1, 100
    in_a_bin = math.log(2 * bins / (alpha / 2)) / (2 * epsilon**2)
    first = constant * bins * math.log(10 * bins / (alpha / 4))
    factor = math.sqrt(math.log(2 * bins / (alpha / 4)) / 2)
    second = brentq(lambda n: n / (2 * bins) - factor * math.sqrt(n) - in_a_bin, 4_000, 40_000)
    return {
        "UMS rows in a bin": in_a_bin,
        "UMS first split": first,
        "UMS factor": factor,
        "UMS second split": second,
        "UMS rows": first + second,
    }


def _online() -> dict[str, float]:
    """Bounds of chapter 6, and of Foster and Kakade (2006), whose footnote has the running mean."""
    epsilon, rows = 0.1, 2_000
    out = {
        "eq 6.17": epsilon / 2 + 2 * math.sqrt(1 / (epsilon**2 * rows)),
        "eq 6.27": epsilon / 2 + 2 / math.sqrt(epsilon * rows),
        "corollary 4.1": 2 * math.sqrt((60_070 + 1) * 23 * math.log(100_000 + 1)),
    }
    for rows in (1_000, 100_000):
        y = np.repeat([0.0, 1.0], rows // 2)
        forecast = np.concatenate([[0.5], np.cumsum(y)[:-1] / np.arange(1, rows)])
        out[f"running mean/{rows}"] = abs((forecast - y).sum()) / rows
    return out


def _scores() -> dict[str, float]:
    """Rosenberg (2021): losses of one row."""
    out = {f"square loss {p}": brier([p], [1]).value for p in (0.01, 0.001, 0.7)}
    small, smaller = (log_loss([p], [1]).value for p in (0.01, 0.001))
    return out | {"log loss": smaller - small - math.log(10)}


def _cells() -> dict[str, float]:
    """Torabian (2023), chapters 2 and 3."""
    cells = {
        "count 2.2": [Fraction(1, 7)] * 7,
        "count 2.3": [Fraction(1, 4)] * 3 + [Fraction(19, 80)] + [Fraction(1, 400)] * 5,
        "count 2.4": [Fraction(1, 4)] * 2 + [Fraction(1, 2)],
        "count 2.5": [Fraction(1, 3)] * 2 + [Fraction(1, 30)] * 10,
    }
    out = {name: probabilistic_count(range(len(each)), [float(w) for w in each]).value for name, each in cells.items()}
    for at, first in ((1, (0.1, 0.1, 0.1, 1.0)), (2, (0.1, 0.3, 0.3, 1.0))):
        truth = np.array([*first, 0.2, 0.2, 0.2, 0.2])
        means = np.repeat([truth[:4].mean(), truth[4:].mean()], 4)
        out[f"tau {at} before"] = kendall_tau(np.repeat([0.3, 0.7], 4), truth).value
        out[f"tau {at} after"] = kendall_tau(means, truth).value
    score, event, one_bin = [0.35, 0.35, 0.65, 0.65], [0, 1, 0, 1], [0, 0, 0, 0]
    out["example 1 ECE"] = ece(score, event, regions=one_bin).value
    out["example 1 PDE"] = pde(score, event, regions=one_bin).value
    return out
