"""Laws that the guarantees rest on, by simulation: optional stopping, random parts, rows in a planned bin."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy import stats

from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.guarantees.bounds import always_valid, clopper_pearson
from calibrant.guarantees.planning import plan
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pytestmark = pytest.mark.statistical
LEVEL = 1e-3
ALPHA = 0.1

Interval = Callable[[np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]]


def ever_excluded(interval: Interval, successes: np.ndarray, times: np.ndarray, rate: float) -> np.ndarray:
    """For each stream (row), whether the interval misses ``rate`` at one of the times."""
    code = successes.astype(np.int64) * (times[-1] + 1) + times
    pairs, index = np.unique(code, return_inverse=True)
    lower, upper = interval(pairs // (times[-1] + 1), pairs % (times[-1] + 1), ALPHA)
    return ((rate < lower) | (rate > upper))[index].reshape(code.shape).any(axis=1)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.5])
def test_an_always_valid_interval_is_seldom_wrong_at_any_time(rate: float, full_size: bool) -> None:
    """Streams of 2,000 rows, looked at after each of the first 100 and then at steps of 2 %."""
    streams = 5_000 if full_size else 1_000
    times = np.unique(np.concatenate([np.arange(1, 101), np.geomspace(100, 2_000, 150).astype(int)]))
    rng = np.random.default_rng([10, int(100 * rate)])
    successes = np.cumsum(rng.random((streams, 2_000)) < rate, axis=1)[:, times - 1]
    wrong = int(ever_excluded(always_valid, successes, times, rate).sum())
    assert stats.binomtest(wrong, streams, ALPHA, alternative="greater").pvalue > LEVEL
    peeking = int(ever_excluded(clopper_pearson, successes, times, rate).sum())
    assert peeking > 1.5 * ALPHA * streams, "an interval for one look does not survive many: the test has power"


# ----------------------------------------------------------------------------------------------------------------------
# Tally.split
# ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["exact", "grid"])
def tally(request: pytest.FixtureRequest) -> Tally:
    values, n, events = np.array([0.1, 0.2, 0.7, 0.95]), [40, 7, 25, 1], [4, 3, 20, 1]
    scores = np.repeat(values, n)
    labels = np.concatenate([np.arange(size) < hits for size, hits in zip(n, events, strict=True)]).astype(int)
    return Tally.from_arrays(scores, labels, grid=Grid() if request.param == "grid" else None)


def drawn(tally: Tally, size: int, seeds: int) -> np.ndarray:
    """Events and other rows of each cell in the part, by seed."""
    keys = tally.cells.keys
    out = np.zeros((seeds, 2 * len(keys)), dtype=int)
    for seed in range(seeds):
        part, rest = tally.split(size, seed)
        assert part.total == size
        whole = part + rest
        assert whole.n.tolist() == tally.n.tolist()
        assert whole.events.tolist() == tally.events.tolist()
        place = np.searchsorted(keys, part.cells.keys)
        out[seed, place] = part.events
        out[seed, place + len(keys)] = part.n - part.events
    return out


def test_a_random_part_is_hypergeometric(tally: Tally) -> None:
    size, seeds = 30, 3_000
    colors = np.concatenate([tally.events, tally.n - tally.events])
    law = stats.multivariate_hypergeom(colors, size)
    got = drawn(tally, size, seeds)
    spread = np.sqrt(np.diag(law.cov()))
    some = spread > 0
    z = (got.mean(axis=0) - law.mean())[some] / (spread[some] / np.sqrt(seeds))
    assert np.abs(z).max() < 4.5
    assert np.cov(got.T) == pytest.approx(law.cov(), abs=0.35)
    for color in np.flatnonzero(colors >= 3):
        k = np.arange(colors[color] + 1)
        expected = seeds * stats.hypergeom.pmf(k, colors.sum(), colors[color], size)
        seen = np.bincount(got[:, color], minlength=len(k))
        common = expected >= 5
        seen = np.append(seen[common], seen[~common].sum())
        expected = np.append(expected[common], expected[~common].sum())
        kept = expected > 1e-9
        assert stats.chisquare(seen[kept], expected[kept] * seen[kept].sum() / expected[kept].sum()).pvalue > 1e-5


def test_a_part_repeats_with_its_seed_and_differs_with_another(tally: Tally) -> None:
    first, again, other = (tally.split(30, seed)[0] for seed in (5, 5, 6))
    assert first.fingerprint == again.fingerprint
    assert len({tally.split(30, seed)[0].fingerprint for seed in range(20)}) > 10
    assert other.total == 30
    assert len({tally.split(30)[0].fingerprint for _ in range(20)}) > 10, "without a seed every draw is fresh"


def test_a_part_does_not_depend_on_the_order_of_rows_or_shards() -> None:
    rng = np.random.default_rng(11)
    scores, y = rng.integers(0, 20, 500) / 20, rng.integers(0, 2, 500)
    order = rng.permutation(500)
    whole = Tally.from_arrays(scores, y)
    shuffled = Tally.from_arrays(scores[order], y[order])
    shards = Tally.from_arrays(scores[:100], y[:100]) + Tally.from_arrays(scores[100:], y[100:])
    assert len({tally.split(60, 3)[0].fingerprint for tally in (whole, shuffled, shards)}) == 1


# ----------------------------------------------------------------------------------------------------------------------
# Plans
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "n_bins"), list(product((300, 1_000), (3, 5))))
def test_the_smallest_bin_of_a_split_fit_holds_the_planned_rows(n: int, n_bins: int) -> None:
    """The plan spends alpha / 2 on a bin with fewer rows than planned; its epsilon tells how many it planned."""
    planned = round(np.log(4 * n_bins / ALPHA) / (2 * plan(n=n, n_bins=n_bins, scheme="ums").epsilon ** 2))
    repetitions, fewer, y = 400, 0, np.arange(n) % 2
    for repetition in range(repetitions):
        scores = np.random.default_rng([12, n, n_bins, repetition]).random(n)
        smallest = HistogramBinning(n_bins, bins_from="split", random_state=repetition).fit(scores, y).bins_.n.min()
        fewer += int(smallest < planned)
    assert stats.binomtest(fewer, repetitions, ALPHA / 2, alternative="greater").pvalue > LEVEL
