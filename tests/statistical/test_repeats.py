"""Independent rows with ties are rarely called copies of each other."""

from __future__ import annotations

import numpy as np
from scipy import stats

from calibrant.numerics import expit
from calibrant.tallies import Tally, repeat_notes

QUICK, FULL = 1_000, 20_000


def rounded(rng, x, digits):
    p = expit(x)
    return p.round(digits), rng.random(len(x)) < p


def leaves(rng, x, count):
    """Scores of a tree: few values, each off its true rate."""
    rates = expit(rng.choice(x, count))
    leaf = rng.integers(0, count, len(x))
    return np.clip(rates + rng.normal(0.0, 0.05, count), 0.0, 1.0)[leaf], rng.random(len(x)) < rates[leaf]


def balanced(rng, x, size):
    """The same number of independent rows at every score."""
    p = np.repeat(expit(x[: len(x) // size]), size)
    return p, rng.random(len(p)) < p


WORLDS = {
    "one digit": (rounded, 1),
    "two digits": (rounded, 2),
    "three digits": (rounded, 3),
    "20 leaves": (leaves, 20),
    "200 leaves": (leaves, 200),
    "pairs": (balanced, 2),
    "fives": (balanced, 5),
}


def test_tied_rows_are_not_called_copies(subtests, full_size):
    for world in WORLDS:
        with subtests.test(world=world):
            make, size = WORLDS[world]
            rng = np.random.default_rng(len(world))
            draws = FULL if full_size else QUICK
            noted = 0
            for _ in range(draws):
                n, rate, spread = (
                    rng.choice([60, 300, 2_000]),
                    rng.choice([0.005, 0.02, 0.3, 0.5, 0.9]),
                    rng.choice([0.5, 4]),
                )
                x = rng.normal(np.log(rate / (1 - rate)), spread, n)
                scores, y = make(rng, x, size)
                noted += bool(
                    repeat_notes(Tally.from_arrays(scores, y, score_type="probability")) if y.min() < y.max() else ()
                )
            assert stats.binomtest(noted, draws, 1e-4, alternative="greater").pvalue > 1e-3
