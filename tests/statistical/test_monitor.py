"""The monitor raises an alarm on calibrated streams as seldom as it says, at every look; and its bands hold."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import monitor as benchmark
from scipy import stats

from calibrant.live import Monitor
from calibrant.live.monitor.boundary import epochs, mixture

pytestmark = pytest.mark.statistical


def too_many(found: int, repetitions: int, alpha: float = 0.05) -> bool:
    return bool(stats.binomtest(found, repetitions, alpha, alternative="greater").pvalue < 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", benchmark.CALIBRATED)
def test_a_calibrated_stream_seldom_ever_raises_an_alarm(name: str, full_size: bool) -> None:
    world, lag = benchmark.CALIBRATED[name]
    streams, rows = (2_000, 10_000) if full_size else (40, 1_000)
    assert not too_many(benchmark.ever_alarm(world, lag, streams, rows), streams)


@pytest.mark.slow
def test_one_change_is_one_alarm_that_ends_after_it(full_size: bool) -> None:
    streams = 200 if full_size else 8
    for change in ("shift 0.3", "shift 1.0", "slope 0.6"):
        during, whole, ends = benchmark.drift_alarms(benchmark.CHANGES[change], streams)
        assert (during == 1).mean() >= 0.9
        assert whole.max() <= 3
        assert (ends > 0.0).all()
        assert np.isfinite(ends).mean() > 0.9


@pytest.mark.slow
def test_evidence_seldom_ends_an_alarm_while_the_shift_is_beyond_the_tolerance(full_size: bool) -> None:
    streams = 500 if full_size else 12
    assert not too_many(benchmark.ends_too_early(0.21, streams), streams)


@pytest.mark.slow
def test_with_the_wrong_lag_it_raises_too_many(full_size: bool) -> None:
    """Outcomes that depend on others which were not known yet need the lag: the check notices that it is missing."""
    world, lag = benchmark.WRONG["shared draws, lag 1"]
    streams = 200 if full_size else 20
    assert too_many(benchmark.ever_alarm(world, lag, streams, 1_000), streams)


def test_both_boundaries_hold_at_every_look(full_size: bool) -> None:
    """Sums of Bernoulli errors around a mean that changes, at a level at which crossings are common enough to count."""
    streams, rows, alpha = (4_000, 5_000, 0.2) if full_size else (400, 1_000, 0.2)
    rng = np.random.default_rng(1)
    mean = np.clip(0.3 + 0.2 * np.sin(np.arange(rows) / 50.0), 0.0, 1.0)
    y = rng.random((streams, rows)) < mean
    guess = rng.uniform(0.2, 0.4, rows)  # known beforehand, and wrong
    errors, squares = np.cumsum(y - mean, axis=1), np.cumsum((y - guess) ** 2, axis=1)
    for boundary in (mixture, epochs):
        grid = np.linspace(0.0, squares.max(), 400)
        limit = np.interp(squares, grid, boundary(grid, alpha))
        assert not too_many(int((errors > limit).any(axis=1).sum()), streams, alpha)
        assert not too_many(int((-errors > limit).any(axis=1).sum()), streams, alpha)
    fixed = 1.2816 * np.sqrt(squares)  # the normal bound of one look does not survive them
    assert too_many(int((errors > fixed)[:, 20:].any(axis=1).sum()), streams, alpha)


@pytest.mark.slow
def test_the_band_of_a_moving_truth_holds_at_every_look(full_size: bool) -> None:
    """The band is about the mean difference so far, which may move; no hypothesis is needed."""
    streams, rows = (1_000, 4_000) if full_size else (40, 1_000)
    missed = 0
    for k in range(streams):
        rng = np.random.default_rng([2, k])
        p = benchmark.predictions(rng, rows)
        truth = np.clip(p + 0.15 * np.sin(np.arange(rows) / 300.0), 0.0, 1.0)
        y = rng.random(rows) < truth
        monitor, wrong = Monitor(level=0.2), False
        for start in range(0, rows, 250):
            monitor.update(p[start : start + 250], y[start : start + 250])
            band, so_far = monitor.band, slice(monitor.rows - monitor.band.rows, monitor.rows)
            gap = float((truth - p)[so_far].mean()) if band.rows else 0.0
            wrong |= not band.low <= gap <= band.high
        missed += wrong
    assert not too_many(missed, streams, 0.08)


@pytest.mark.slow
def test_few_of_the_keys_that_are_listed_are_false(full_size: bool) -> None:
    runs, keys, off = (500, 1_000, 50) if full_size else (2, 100, 20)
    false, found = benchmark.key_errors(runs, keys, off, rows=30_000)
    assert false.mean() <= 0.1
    assert found.mean() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("case", benchmark.CASES)
def test_advice_is_right_where_it_speaks(case: str, full_size: bool) -> None:
    cases = 500 if full_size else 5
    spoke, right = benchmark.advice(case, cases)
    assert spoke >= (0.8 if full_size else 0.4)
    assert right >= (0.95 if full_size else 0.75)


def test_a_repeated_test_for_one_look_fails() -> None:
    assert benchmark.repeated_test(200, 5_000) > 0.2
