"""Simulated cases of `quality.py` in which the truth is known: rare events, calibrated models, and segments.

Log-odds of the scores are normal with standard deviation 1.2, centered so that the true event rate is the one in the
name of the world. The losses are expectations under the truth, on 2,000 quantiles of the scores: without test rows, so
without their noise. A line is one draw.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.special import expit, xlogy

from calibrant import AutoCalibrator, SegmentCalibrator

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Method = Callable[[Floats, Labels, Floats], Floats]
Truth = Callable[[Floats], Floats]
"""From the distance of the score's log-odds from their mean to the true log-odds, less that mean."""

Line = tuple[str, str, int, int, str, float, float]
"""Set, case, calibration rows, draw, method, log loss, Brier score."""

SPREAD, QUANTILES, HELD = 1.2, 2_000, 1e-7

RATES = {"events 0.1 %": 0.001, "events 0.5 %": 0.005, "events 2 %": 0.02}
COMMON = {"events 30 %": 0.3}
"""With calibrated models only: the real data cover the rest."""

SIZES, COMMON_SIZES = (3_000, 20_000, 100_000), (100, 300, 1_000)

CALIBRATED = "calibrated"
DISTORTIONS: Mapping[str, Truth] = {
    CALIBRATED: lambda d: d,
    "level +0.3": lambda d: d + 0.3,
    "level -0.5": lambda d: d - 0.5,
    "slope 0.7": lambda d: 0.7 * d,
    "slope 1.4": lambda d: 1.4 * d,
    "level +0.5, slope 0.7": lambda d: 0.5 + 0.7 * d,
    "too extreme at the top": lambda d: d - 0.5 * np.maximum(d, 0.0),
    "odds never below 0.3 of the center's": lambda d: np.log(np.exp(d) + 0.3),
}

DRAWS, MORE_DRAWS, QUICK_DRAWS = 3, 12, 1
"""Of each case; of calibrated models, of whose smallest samples there are five times as many; of a quick run."""

SEGMENT_DRAWS = 2

SEGMENT_SETS = {"segments 0.5 %": 0.005, "segments 2 %": 0.02}
SEGMENT_ROWS, SEGMENTS, SEGMENT_SPREAD = 20_000, 20, 0.5
SEGMENT_CASES: Mapping[str, tuple[float, float]] = {
    CALIBRATED: (0.0, 0.0),
    "all +0.5": (0.5, 0.0),
    "segments differ": (0.0, SEGMENT_SPREAD),
    "all +0.5, segments differ": (0.5, SEGMENT_SPREAD),
}
"""Level of all rows, and the standard deviation of levels between segments."""

BY_SEGMENT = "calibrate(by=)"
SEGMENT_METHODS = ("keep the model", "calibrate", BY_SEGMENT)


def entropy(rate: float) -> float:
    """Log loss of always predicting the event rate."""
    return float(-xlogy(rate, rate) - xlogy(1.0 - rate, 1.0 - rate))


def rate_of(name: str) -> float:
    """True event rate of a set of worlds."""
    return {**RATES, **COMMON, **SEGMENT_SETS}[name]


def _center(rate: float, truth: Truth) -> float:
    """Mean log-odds of scores whose events have this rate."""
    d = _quantiles()
    return float(optimize.brentq(lambda c: expit(c + truth(d)).mean() - rate, -20.0, 20.0))


def _quantiles() -> Floats:
    return np.asarray(stats.norm.ppf((np.arange(QUANTILES) + 0.5) / QUANTILES, 0.0, SPREAD))


def expected(p: Floats, rate: Floats) -> tuple[float, float]:
    """Mean log loss and Brier score, labels averaged over."""
    held = np.clip(p, HELD, 1.0 - HELD)
    log_loss = -(rate * np.log(held) + (1.0 - rate) * np.log1p(-held))
    return float(log_loss.mean()), float(((p - rate) ** 2 + rate * (1.0 - rate)).mean())


def world_lines(name: str, case: str, size: int, draws: Sequence[int], methods: Mapping[str, Method]) -> Iterator[Line]:
    """Losses of all methods on some draws of one case; a draw of one class is left out."""
    truth = DISTORTIONS[case]
    center, d = _center(rate_of(name), truth), _quantiles()
    for draw in draws:
        rng = np.random.default_rng([size, draw, list(DISTORTIONS).index(case), round(1e4 * rate_of(name))])
        distance = rng.normal(0.0, SPREAD, size)
        y = (rng.random(size) < expit(center + truth(distance))).astype(np.int64)
        if not 0 < y.sum() < size:
            continue
        for method, run in methods.items():
            p = run(expit(center + distance), y, expit(center + d))
            yield name, case, size, draw, method, *expected(p, expit(center + truth(d)))


def segment_lines(name: str, case: str, draws: Sequence[int], methods: Sequence[str]) -> Iterator[Line]:
    """Losses of the model, of one map and of maps by segment; segments have from a few to thousands of rows."""
    level, spread = SEGMENT_CASES[case]
    center = _center(rate_of(name), lambda d: d + level)
    shares = np.geomspace(1.0, 300.0, SEGMENTS)
    shares /= shares.sum()
    d = _quantiles()
    for draw in draws:
        rng = np.random.default_rng([SEGMENT_ROWS, draw, list(SEGMENT_CASES).index(case), round(1e4 * rate_of(name))])
        levels = level + rng.normal(0.0, spread, SEGMENTS)
        segment = rng.choice(SEGMENTS, SEGMENT_ROWS, p=shares)
        x = center + rng.normal(0.0, SPREAD, SEGMENT_ROWS)
        y = (rng.random(SEGMENT_ROWS) < expit(x + levels[segment])).astype(np.int64)
        for method in methods:
            p = _by_segment(method, expit(x), y, segment, expit(center + d))
            found = [expected(p[place], expit(center + d + levels[place])) for place in range(SEGMENTS)]
            log_loss, brier = shares @ np.array(found)
            yield name, case, SEGMENT_ROWS, draw, method, float(log_loss), float(brier)


def _by_segment(method: str, scores: Floats, y: Labels, segment: Labels, new: Floats) -> Floats:
    """Probabilities at new scores, one line by segment."""
    if method == "keep the model":
        return np.tile(new, (SEGMENTS, 1))
    if method == "calibrate":
        return np.tile(AutoCalibrator().fit(scores, y, score_type="probability").transform(new), (SEGMENTS, 1))
    names = np.array([f"s{place:02}" for place in range(SEGMENTS)])
    cal = SegmentCalibrator().fit(scores, y, names[segment], score_type="probability")
    return np.array([cal.transform(new, np.full(len(new), each)) for each in names])


def every_world(methods: Mapping[str, Method], quick: bool) -> Iterator[Line]:
    """All simulated cases; a quick run takes one draw of the smallest size and no segments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = {name: run for name, run in methods.items() if name in SEGMENT_METHODS}
        draws, more = (QUICK_DRAWS, QUICK_DRAWS) if quick else (DRAWS, MORE_DRAWS)
        for name in RATES:
            for size in SIZES[:1] if quick else SIZES:
                for case in DISTORTIONS:
                    yield from world_lines(name, case, size, range(draws), methods)
                last = 5 * more if size == SIZES[0] else more  # of few events a draw says little
                yield from world_lines(name, CALIBRATED, size, range(draws, last), few)
        for name in COMMON:
            for size in COMMON_SIZES:
                yield from world_lines(name, CALIBRATED, size, range(5 * more), few)
        for name in () if quick else SEGMENT_SETS:
            for case in SEGMENT_CASES:
                yield from segment_lines(name, case, range(SEGMENT_DRAWS), SEGMENT_METHODS if few else ())
