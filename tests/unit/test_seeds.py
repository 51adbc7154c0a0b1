"""Which tallies a fixed seed may carry a certificate for."""

from __future__ import annotations

import warnings
from itertools import product
from math import factorial

import numpy as np
import pytest

from calibrant.guarantees.seeds import IMPROBABLE, largest_probability, seed_refusal
from calibrant.messages import CalibrantWarning
from calibrant.numerics import Grid
from calibrant.tallies import Tally


def pairs(*counts: tuple[int, int]) -> Tally:
    """A tally of (events, other rows) by score."""
    scores = np.repeat(np.arange(1, len(counts) + 1) / 20, [sum(each) for each in counts])
    labels = np.concatenate([[1] * hits + [0] * misses for hits, misses in counts])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # labels of one class
        return Tally.from_arrays(scores, labels)


def multinomial(counts: tuple[int, ...], shares: np.ndarray) -> float:
    ways = factorial(sum(counts)) / np.prod([float(factorial(k)) for k in counts])
    return float(ways * np.prod(shares ** np.array(counts)))


def test_no_distribution_makes_a_tally_more_probable() -> None:
    """The shares of the tally itself do best, among all that a net of distributions has to offer."""
    made, counts = pairs((2, 1), (1, 3)), (2, 1, 1, 3)
    net = [np.array(each) / 14 for each in product(range(15), repeat=4) if sum(each) == 14]
    best = max(multinomial(counts, shares) for shares in net)
    assert largest_probability(made) == pytest.approx(multinomial(counts, np.array(counts) / 7), rel=1e-12)
    assert best == pytest.approx(largest_probability(made), rel=1e-12)


def test_one_possible_tally_is_certain() -> None:
    assert largest_probability(pairs((50, 0))) == 1.0


def test_seeds_are_refused_where_few_tallies_are_possible(subtests) -> None:
    for name, (made, issued) in {
        "one score": (pairs((200, 200)), False),
        "three scores": (pairs((67, 67), (67, 67), (66, 66)), False),
        "30 distinct": (Tally.from_arrays(np.arange(30) / 29, np.arange(30) % 2), False),
        "31 distinct": (Tally.from_arrays(np.arange(31) / 30, np.arange(31) % 2), True),
        "twelve scores": (pairs(*[(16, 16)] * 12), True),
        "31 in one cell": (Tally.from_arrays(0.4 + np.arange(31) / 1e6, np.arange(31) % 2, grid=Grid(bits=2)), False),
    }.items():
        with subtests.test(name):
            assert (largest_probability(made) <= IMPROBABLE) == issued
            assert (seed_refusal(made, 0) is None) == issued
            assert seed_refusal(made, None) is None


def test_a_billion_rows_do_not_overflow() -> None:
    made = Tally.from_table([10**9, 10**9], [5 * 10**8, 1], edges=[0.5])
    assert 0.0 < largest_probability(made) < 1e-4
