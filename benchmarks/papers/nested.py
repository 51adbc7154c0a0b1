"""Proposition 9.3 of Gupta 2023: every conformal prediction set is a nested one, by the construction of its proof.

    python benchmarks/papers/nested.py

A sample has rows of two numbers. A score says how strange a row is among others, whatever their order. `conformal_p` is
the p-value of full conformal prediction. `nested_p` builds the nested sets of the proof, F_t = the conformal set at
level 1 - t, finds the smallest t at which each row is in the set of the others, and takes the p-value of these numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Score = Callable[[Floats, Floats], float]
ROWS, SAMPLES = 8, 50


def _residual(others: Floats, row: Floats) -> float:
    """Of a line fitted to all rows, as in full conformal regression."""
    every = np.vstack([others, row])
    design = np.column_stack([np.ones(len(every)), every[:, 0]])
    return float(abs(row[1] - np.array([1.0, row[0]]) @ np.linalg.lstsq(design, every[:, 1], rcond=None)[0]))


SCORES: dict[str, Score] = {
    "residual": _residual,
    "distance to the mean": lambda others, row: float(abs(row[1] - others[:, 1].mean())),
    "distance to the nearest": lambda others, row: float(np.abs(others - row).sum(axis=1).min()),
    "ties": lambda others, row: float(np.round(row[1])),
}


def conformal_p(score: Score, others: Floats, row: Floats) -> float:
    """Share of the rows, the new one included, that are at least as strange as the new one."""
    every = np.vstack([others, row])
    order = np.lexsort(every.T)  # so that rounding does not depend on the order of the rows
    strange = np.empty(len(every))
    for at in range(len(every)):
        strange[at] = round(score(every[[i for i in order if i != at]], every[at]), 12)
    return int((strange >= strange[-1]).sum()) / len(every)


def smallest_t(score: Score, others: Floats, row: Floats) -> float:
    """The infimum of t with the row in F_t(others): sets change at multiples of 1 / (n + 1) only."""
    size, p = len(others) + 1, conformal_p(score, others, row)
    return next(k for k in range(size) if p > 1.0 - (k + 0.5) / size) / size


def nested_p(score: Score, others: Floats, row: Floats) -> float:
    """The same share by the numbers t, which know the score through the sets alone."""
    every = np.vstack([others, row])
    t = [smallest_t(score, np.delete(every, at, axis=0), every[at]) for at in range(len(every))]
    return sum(each >= t[-1] for each in t) / len(every)


def share_of_equal_sets(samples: int = SAMPLES) -> float:
    """Share of the samples and scores in which both p-values agree at every value: sets then agree at every level."""
    equal = []
    for seed in range(samples):
        rng = np.random.default_rng([93, seed])
        others, x = rng.normal(size=(ROWS, 2)), rng.normal()
        rows = [np.array([x, value]) for value in np.linspace(-3.0, 3.0, 13)]
        for score in SCORES.values():
            equal.append(all(conformal_p(score, others, row) == nested_p(score, others, row) for row in rows))
    return float(np.mean(equal))


if __name__ == "__main__":
    print(f"share of conformal sets that equal the nested sets of the proof: {share_of_equal_sets():.3f}")
