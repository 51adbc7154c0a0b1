"""Bias of calibration errors on models whose error is known: where it comes from, and that it can be removed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from calibrant.metrics import debiased_ece, ece
from calibrant.metrics.binary.bins import Bins
from calibrant.metrics.binary.resampling import Resampled

pytestmark = pytest.mark.statistical
VALUES = np.arange(1, 20) / 20
"""Scores, few enough that each bin below holds a single one: the binned error is then the error itself."""

INNER = (VALUES[1:] + VALUES[:-1]) / 2


@pytest.fixture(scope="module")
def repetitions(full_size: bool) -> int:
    return 4_000 if full_size else 250


def plug_in(sample: Resampled) -> np.ndarray:
    return np.abs(sample.events - sample.score_sum).sum(axis=-1) / sample.n.sum(axis=-1)


def calibrated(seed: int, n: int, n_bins: int, repetitions: int) -> np.ndarray:
    """Plug-in ECE of a calibrated model, whose true error is 0: the value is the bias."""
    rng = np.random.default_rng([seed, n, n_bins])
    found = np.empty(repetitions)
    for i in range(repetitions):
        scores = rng.random(n)
        bins = Bins.of(scores, rng.random(n) < scores, n_bins=n_bins)
        found[i] = plug_in(Resampled.once(bins))[0]
    return found


def clearly_above(more: np.ndarray, less: np.ndarray) -> bool:
    se = np.sqrt(more.var(ddof=1) / len(more) + less.var(ddof=1) / len(less))
    return bool(more.mean() - less.mean() > 5.0 * se)


def test_the_hand_made_plug_in_error_is_the_public_one() -> None:
    rng = np.random.default_rng(0)
    scores, y = rng.random(300), rng.integers(0, 2, 300)
    assert plug_in(Resampled.once(Bins.of(scores, y)))[0] == pytest.approx(ece(scores, y).value, rel=1e-12)


def test_the_bias_of_the_plug_in_error_grows_with_the_bins(repetitions: int) -> None:
    biases = [calibrated(1, 1_000, n_bins, repetitions) for n_bins in (5, 15, 50, 150)]
    assert clearly_above(biases[0], np.zeros(2)), "a calibrated model shows an error"
    for fewer, more in pairwise(biases):
        assert clearly_above(more, fewer)


def test_the_bias_of_the_plug_in_error_falls_as_the_root_of_the_rows(repetitions: int) -> None:
    biases = [calibrated(2, n, 15, repetitions) for n in (200, 800, 3_200)]
    for few, many in pairwise(biases):
        assert clearly_above(few, many)
        assert few.mean() / many.mean() == pytest.approx(2.0, rel=0.1)


TRUTHS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "calibrated": lambda s: s,
    "shrunk": lambda s: 0.5 + 0.7 * (s - 0.5),
    "rough": lambda s: np.clip(s + np.where(np.arange(len(s)) % 2, 0.08, -0.08), 0.0, 1.0),
}


def over_repetitions(metric: Callable[..., Any], truth: str, n: int, repetitions: int) -> np.ndarray:
    """The metric on samples of n rows; ``truth`` gives the event rate of each value."""
    rng = np.random.default_rng([3, n, *truth.encode()])
    rates, found = TRUTHS[truth](VALUES), np.empty(repetitions)
    for i in range(repetitions):
        place = np.sort(rng.permutation(np.arange(n) % len(VALUES)))  # as many rows of each value, so none is alone
        found[i] = metric(VALUES[place], rng.random(n) < rates[place], edges=INNER).value
    return found


@pytest.mark.slow
@pytest.mark.parametrize("n", [57, 380])
def test_the_debiased_square_is_unbiased_and_the_plug_in_square_is_not(
    subtests: pytest.Subtests, n: int, repetitions: int
) -> None:
    """57 rows are three of each value, where the plug-in square is far off."""
    for truth in TRUTHS:
        with subtests.test(truth=truth):
            true = float(((TRUTHS[truth](VALUES) - VALUES) ** 2).mean())
            squares = over_repetitions(partial(debiased_ece, squared=True), truth, n, repetitions // 2)
            se = squares.std(ddof=1) / np.sqrt(len(squares))
            assert abs(squares.mean() - true) < 3.0 * se
            plug_in_squares = over_repetitions(partial(ece, p=2), truth, n, repetitions // 8) ** 2
            assert clearly_above(plug_in_squares, np.full(2, true)), (
                "the test could tell an unbiased estimate from a biased one"
            )
