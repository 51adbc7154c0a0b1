"""All possible outcomes of the labels and their probabilities if every score is right, if they are few."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.numerics import Floats

MOST_NUMBERS = 1 << 21
"""Outcomes times scores up to which all outcomes are listed; a simulation has as many numbers in memory."""

NEGLIGIBLE = 1e-14
"""Numbers of events of one score with a probability below this are left out."""


def all_outcomes(s: Floats, n: NDArray[np.int64]) -> tuple[Floats, Floats] | None:
    r"""Numbers of events of each score, one line for each outcome, and the probability of each line.

    .. math:: P(k_1, \dots, k_K) = \prod_j \binom{n_j}{k_j} s_j^{k_j} (1 - s_j)^{n_j - k_j}

    for :math:`n_j` rows with score :math:`s_j`. None where there are too many outcomes.

    Examples
    --------
    >>> drawn, chance = all_outcomes(np.array([0.5, 0.2]), np.array([2, 1]))
    >>> drawn.astype(int).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
    >>> chance.round(3).tolist()
    [0.2, 0.05, 0.4, 0.1, 0.2, 0.05]
    """
    if len(s) > np.log2(MOST_NUMBERS) or 12.0 * np.sqrt(n * s * (1.0 - s)).max() > MOST_NUMBERS:
        return None  # before a long distribution is computed
    distributions = [_distribution(float(score), int(rows)) for score, rows in zip(s, n, strict=True)]
    if len(s) * np.prod([float(len(events)) for events, _ in distributions]) > MOST_NUMBERS:
        return None
    lines = np.meshgrid(*(events for events, _ in distributions), indexing="ij")
    chance = reduce(np.multiply.outer, [chances for _, chances in distributions])
    return np.stack([line.ravel() for line in lines], axis=1), np.asarray(chance).ravel()


def _distribution(s: float, n: int) -> tuple[Floats, Floats]:
    """Numbers of events that are not negligible, and their probabilities."""
    spread = 12.0 * np.sqrt(n * s * (1.0 - s)) + 40.0
    k = np.arange(max(np.floor(n * s - spread), 0.0), min(np.ceil(n * s + spread), n) + 1.0)
    ways = special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0)
    chance = np.exp(ways + special.xlogy(k, s) + special.xlog1py(n - k, -s))
    kept = chance > NEGLIGIBLE
    return k[kept], chance[kept]
