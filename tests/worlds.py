"""Sample worlds: random rows whose truth is known, for tests that need data and not a particular distribution.

Every function returns scores and labels, and draws from ``numpy.random.default_rng(seed)`` alone. Distributions that
are integrated exactly, against which certificates are judged, are in ``benchmarks/worlds.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit, logit

Rows = tuple[np.ndarray, np.ndarray]
Seed = int | Sequence[int]


def following(
    curve: Callable[[np.ndarray], Any],
    n: int = 2000,
    seed: Seed = 0,
    *,
    shape: tuple[float, float] | None = None,
    log_odds: tuple[float, float] | None = None,
    decimals: int | None = None,
) -> Rows:
    """Labels that occur at the rate ``curve(scores)``.

    Scores are uniform, or have a beta distribution of this shape, or normal log-odds of this mean and deviation.
    """
    rng = np.random.default_rng(seed)
    if log_odds is not None:
        scores = expit(rng.normal(*log_odds, n))
    else:
        scores = rng.random(n) if shape is None else rng.beta(*shape, n)
    if decimals is not None:
        scores = scores.round(decimals)
    return scores, (rng.random(n) < curve(scores)).astype(int)


def calibrated(n: int = 2000, seed: Seed = 0, **scores: Any) -> Rows:
    return following(lambda s: s, n, seed, **scores)


def inflated(n: int = 2000, seed: Seed = 0, *, power: float = 2.0, **scores: Any) -> Rows:
    """Scores that are too high: their rate is a power of them."""
    return following(lambda s: s**power, n, seed, **scores)


def proportional(n: int = 2000, seed: Seed = 0, *, factor: float = 0.8, **scores: Any) -> Rows:
    """Scores whose rate is this part of them."""
    return following(lambda s: factor * s, n, seed, **scores)


def shifted(n: int = 2000, seed: Seed = 0, *, level: float = 0.0, slope: float = 1.0, **scores: Any) -> Rows:
    """Scores whose true log-odds are ``level + slope * logit(score)``; exact 0 and 1 are always right."""

    return following(lambda s: expit(level + slope * logit(s)), n, seed, **scores)


def segments(
    levels: Mapping[str, float], n: int = 4000, seed: Seed = 0, *, log_odds: tuple[float, float] = (-1.0, 1.3)
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, labels and the segment of each row, whose true log-odds are higher by its level."""
    rng = np.random.default_rng(seed)
    place, x = rng.integers(0, len(levels), n), rng.normal(*log_odds, n)
    return expit(x), rng.random(n) < expit(x + np.array([*levels.values()])[place]), np.array([*levels])[place]


def tied(values: Sequence[float], n: int = 2000, seed: Seed = 0, *, offset: float = 0.0) -> Rows:
    """Scores of a few values; their rates are off by ``offset``."""
    rng = np.random.default_rng(seed)
    scores = rng.choice(values, n)
    return scores, (rng.random(n) < scores + offset).astype(int)


def mostly_tied(n: int = 1000, seed: Seed = 1) -> Rows:
    """Calibrated, with four fifths of the rows on three values."""
    rng = np.random.default_rng(seed)
    scores = np.where(rng.random(n) < 0.8, rng.choice([0.8, 0.9, 0.95], n), rng.random(n))
    return scores, (rng.random(n) < scores).astype(int)


def classes(n: int, size: int = 3, seed: Seed = 0, *, concentration: float = 1.0, tilt: float = 0.0) -> Rows:
    """Rows of class probabilities and labels 0, 1, ...: calibrated, or with a tilt above 0 overconfident."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(size, concentration), n)
    truth = (1.0 - tilt) * p + tilt / size if tilt else p
    return p, (rng.random((n, 1)) > truth.cumsum(axis=1)[:, :-1]).sum(axis=1)


def overconfident_classes(n: int = 600, size: int = 3, seed: Seed = 0, *, power: float = 1.0) -> Rows:
    """Class probabilities that are the true ones to a power above 1, and labels."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(size), n)
    y = (np.log(truth) + rng.gumbel(size=truth.shape)).argmax(axis=1)
    stated = truth**power
    return stated / stated.sum(axis=1, keepdims=True), y


def overconfident_logits(n: int = 400, size: int = 4, seed: Seed = 0, *, slope: float = 0.5) -> Rows:
    """Logits that are too large by 1 / slope, with later classes more frequent than they say."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, size)) * 3
    truth = slope * z + np.linspace(0, 1, size)
    return z, (truth + rng.gumbel(size=z.shape)).argmax(axis=1)


def features(n: int = 400, seed: Seed = 0, *, weights: tuple[float, float, float] = (1.0, 0.5, 0.0)) -> Rows:
    """Three features and a label for models: a logistic regression is right."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, (x @ np.array(weights) + rng.logistic(size=n) > 0.3).astype(int)
