"""Printed numbers that follow from a formula: worked out here, by functions of the package where it has them."""

from __future__ import annotations

import math
import sys
import warnings
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from outputs import Value, Values
from scipy import stats
from scipy.optimize import brentq
from scipy.special import beta

sys.path.insert(0, str(Path(__file__).parents[1]))

from nested import share_of_equal_sets

from calibrant import CalibrantWarning
from calibrant.guarantees.bounds import hoeffding, umd_epsilon
from calibrant.metrics import brier, ece, kendall_tau, log_loss, pde, probabilistic_count
from calibrant.online import CalibratedRegression, OnlineRidge


def values() -> Values:
    """By key; nothing here is random."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # examples of one or a few rows
        found = _binning() | _unequal_bins() | _online() | _scores() | _cells() | _regressions()
        found |= {"proposition 9.3": share_of_equal_sets(), "lemma 3.2": constant_of_lemma_32()}
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


def well_balanced_failure(n: Any, bins: int) -> Any:
    """Bound on the chance that bins of equal mass from n rows are not 2-well-balanced: exact spacings, all bins."""
    gaps = np.diff(-(-np.arange(bins + 1)[:, None] * (np.atleast_1d(n) + 1) // bins), axis=0)
    mass = stats.beta(gaps, np.atleast_1d(n) + 1 - gaps)
    return (mass.cdf(1 / (2 * bins)) + mass.sf(2 / bins)).sum(axis=0)


def constant_of_lemma_32() -> float:
    """The least c with which n >= c B ln(B / alpha) rows are enough, at its largest over B and alpha."""
    found = []
    for bins, alpha in product((2, 3, 5, 10, 20, 50, 100), (0.01, 0.05, 0.1, 0.2, 0.5)):
        unit = bins * math.log(bins / alpha)
        sizes = np.arange(2 * bins, math.ceil(10 * unit))
        too_few = sizes[well_balanced_failure(sizes, bins) > alpha]
        found.append((too_few.max(initial=2 * bins) + 1) / unit)
    return max(found)


def _regressions() -> dict[str, float]:
    """Foster and Kakade (2006): how far the two algorithms are from ridge regression solved afresh for each row."""
    rng = np.random.default_rng(1)
    x, y, score = rng.random((200, 3)), (rng.random(200) < 0.4).astype(float), np.full(200, 0.5)
    printed: dict[str, Any] = {"include_score": False, "constant": False}
    told = {
        "algorithm 1": OnlineRidge(3, **printed).forecast_many(score, y, x),
        "algorithm 2": CalibratedRegression(3, **printed).forecast_many(score, y, x),
    }
    off = {}
    for name, p in told.items():
        f = x if name == "algorithm 1" else np.column_stack([p, x])
        theta = [np.linalg.solve(np.eye(f.shape[1]) + f[:t].T @ f[:t], f[:t].T @ y[:t]) for t in range(200)]
        off[name] = float(np.abs(p - np.clip(np.einsum("ij,ij->i", theta, f), 0.0, 1.0)).max())
    return off


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
