"""Tests of calibration accuse a calibrated model as seldom as they say, and catch one that is not."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import significance as benchmark
from scipy import stats

from calibrant.credit import grade_table, pluto_tasche
from calibrant.metrics.binary import significance

pytestmark = pytest.mark.statistical


def too_many(rejected: int, repetitions: int, alpha: float = benchmark.ALPHA) -> bool:
    return bool(stats.binomtest(rejected, repetitions, alpha, alternative="greater").pvalue < benchmark.LEVEL)


@pytest.mark.slow
@pytest.mark.parametrize("world", benchmark.WORLDS)
def test_no_test_accuses_calibrated_models_beyond_what_its_docstring_says(world: str, full_size: bool) -> None:
    sizes = {100: 2_000, 1_000: 1_000} if full_size else {100: 100, 1_000: 40}
    for n, repetitions in sizes.items():
        for cell in benchmark.rejections((world, n, "calibrated", repetitions), seed=1):
            assert not cell.too_often or cell.known, cell


def test_the_check_has_teeth() -> None:
    """Hosmer and Lemeshow's law fails on rare events, as the docstring says, and the check notices."""
    rejected = sum(
        significance.hosmer_lemeshow(benchmark.draw("rare", "calibrated", 1_000, np.random.default_rng([2, i]))).p_value
        <= benchmark.ALPHA
        for i in range(300)
    )
    assert too_many(rejected, 300)


@pytest.mark.slow
def test_joined_cells_keep_the_size(monkeypatch: pytest.MonkeyPatch, full_size: bool) -> None:
    """3,000 distinct scores simulated as 256 cells, as more than 20,000 are as 2,048."""
    monkeypatch.setattr(significance, "EXACT_CELLS", 100)
    monkeypatch.setattr(significance, "COARSE_CELLS", 256)
    monkeypatch.setattr(significance, "BINS_LIMIT", 128)
    repetitions = 2_000 if full_size else 100
    for world in ("uniform", "rare"):
        tallies = [
            benchmark.draw(world, "calibrated", 3_000, np.random.default_rng([3, i])) for i in range(repetitions)
        ]
        for name in ("T-Cal", "range"):
            rejected = sum(benchmark.TESTS[name](tally).p_value <= benchmark.ALPHA for tally in tallies)
            assert not too_many(rejected, repetitions)
            assert stats.binomtest(rejected, repetitions, 0.02, alternative="less").pvalue > 1e-3, "nor is it blunt"


@pytest.mark.slow
def test_fifty_looks_at_a_growing_stream_do_no_harm(full_size: bool) -> None:
    streams = 1_000 if full_size else 25
    always = benchmark.ever_rejected(significance.always_valid_test, "calibrated", streams, seed=4)
    assert not too_many(always, streams)
    peeking = benchmark.ever_rejected(significance.spiegelhalter, "calibrated", streams, seed=4)
    assert too_many(peeking, streams), "a test for one look does not survive fifty"
    caught = benchmark.ever_rejected(significance.always_valid_test, "shift", 20, seed=4)
    assert caught >= 18


@pytest.mark.parametrize(
    ("truth", "tests"), [("shift", ("T-Cal", "range", "max", "always")), ("slope", ("z", "T-Cal"))]
)
def test_a_bad_model_is_caught_at_2000_rows(truth: str, tests: tuple[str, ...]) -> None:
    tallies = [benchmark.draw("uniform", truth, 2_000, np.random.default_rng([5, i])) for i in range(20)]
    for name in tests:
        assert sum(benchmark.TESTS[name](tally).p_value <= benchmark.ALPHA for tally in tallies) >= 18, name


def test_grades_are_accused_and_bounded_as_seldom_as_they_say(full_size: bool) -> None:
    repetitions = 5_000 if full_size else 400
    n, pd = np.array([400, 300, 100]), np.array([0.002, 0.01, 0.05])
    defaults = np.random.default_rng(6).binomial(n, pd, size=(repetitions, 3))
    tables = [grade_table(n, events, pd) for events in defaults]
    lights = np.array([table.lights for table in tables])
    for grade in range(3):
        assert not too_many(int((lights[:, grade] != "green").sum()), repetitions)
    assert not too_many(sum(bool((table.holm_p <= 0.05).any()) for table in tables), repetitions)
    assert not too_many(sum(table.portfolio_p <= 0.05 for table in tables), repetitions)
    broken = np.mean([pluto_tasche(n, events, confidence=0.9) < pd for events in defaults], axis=0)
    for share in broken:
        assert not too_many(round(share * repetitions), repetitions, 0.1)
