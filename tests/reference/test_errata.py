"""Computations behind docs/errata.md: each shows what is wrong in a source, or that what we put in its place is right.

Entries on Torabian (2023) are in test_torabian.py, numbers of Gupta (2023), chapter 4, in test_bounds.py.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats
from scipy.special import log_softmax, softmax

from calibrant.maps import SoftmaxMap
from calibrant.metrics import ece
from calibrant.online import Identity, Tracking
from calibrant.solvers import pool_adjacent

# ----------------------------------------------------------------------------------------------------------------------
# Gupta (2023), chapter 1
# ----------------------------------------------------------------------------------------------------------------------

TABLE_11 = (0.24, 0.30, 0.34, 0.29, 0.32, 0.36, 0.39, 0.53, 0.78, 0.90)
FIRST_BLOCK_OF_TABLE_12 = 0.29


def test_table_12_is_not_the_isotonic_regression_of_the_rows_of_table_11(subtests: pytest.Subtests) -> None:
    """The lowest fitted value is the least mean of any first rows, so at most the mean of the first bin."""
    for order in ["ascending", "descending", "shuffled"]:
        with subtests.test(order=order):
            rng = np.random.default_rng(0)
            labels = []
            for rate in TABLE_11:
                bin_labels = np.sort(
                    np.arange(500) < round(500 * (rate + 0.005))
                )  # the largest rate that rounds to this
                labels.append(
                    {"ascending": bin_labels, "descending": bin_labels[::-1]}.get(order, rng.permutation(bin_labels))
                )
            y = np.concatenate(labels).astype(float)
            starts = pool_adjacent(np.ones(len(y)), y)
            lowest = y[: starts[1]].mean()
            assert lowest == pytest.approx((np.cumsum(y) / np.arange(1, len(y) + 1)).min())
            assert lowest <= TABLE_11[0] + 0.005 < FIRST_BLOCK_OF_TABLE_12 - 0.005


def test_a_row_constant_is_ignored_by_the_softmax_of_an_affine_map_only_where_the_rows_of_w_have_one_sum() -> None:
    """Section 1.3.1: eq. 1.14 and 1.15 take logits z, eq. 1.16 takes log p = z - logsumexp(z)."""
    rng = np.random.default_rng(0)
    z, b = rng.normal(0, 3, (200, 3)), rng.normal(size=3)
    free = rng.normal(size=(3, 3))
    one_sum = free - free.sum(axis=1, keepdims=True) / 3 + 0.7 / 3  # W 1 = 0.7 1
    for w, equal in [(one_sum, True), (0.5 * np.eye(3), True), (free, False), (np.diag([0.5, 1.0, 1.5]), False)]:
        on_logits = softmax(z @ w.T + b, axis=1)
        on_log_p = softmax(log_softmax(z, axis=1) @ w.T + b, axis=1)
        assert np.allclose(on_logits, on_log_p, atol=1e-12) == equal
        if not equal:
            assert np.abs(on_logits - on_log_p).max() > 0.1
        ours = SoftmaxMap(("a", "b", "c"), w.ravel(), b, "logit", 1e-300)
        np.testing.assert_allclose(ours.apply(z), on_log_p, atol=1e-12)
        raw = SoftmaxMap(("a", "b", "c"), w.ravel(), b, "logit", 1e-300, raw=True)
        np.testing.assert_allclose(raw.apply(z), on_logits, atol=1e-12)


def test_vector_scaling_is_not_a_row_of_platt_maps_divided_by_their_sum() -> None:
    z = np.array([[2.0, 0.0, -1.0]])
    platt = special.expit(z)
    assert np.abs(platt / platt.sum() - softmax(z, axis=1)).max() > 0.2


def test_binning_to_mid_points_may_raise_the_calibration_error() -> None:
    """Section 1.4.1 has Jensen's inequality for mid-points; it holds for the mean scores of the bins."""
    scores, y = [0.01] * 100, [1] + [0] * 99
    assert ece(scores, y, n_bins=10).value == pytest.approx(0.0, abs=1e-15)
    assert ece(scores, y, n_bins=10, against="midpoint").value == pytest.approx(0.04)


# ----------------------------------------------------------------------------------------------------------------------
# Gupta (2023), chapter 3
# ----------------------------------------------------------------------------------------------------------------------


def test_the_converse_of_theorem_31_fails_where_mid_points_coincide() -> None:
    mass = (Fraction(9, 10), Fraction(1, 10))
    rate = (Fraction(3, 5), Fraction(1))
    low, high = Fraction(2, 5), Fraction(3, 5)  # C(z) for both values of f
    alpha = 1 - sum(p for p, r in zip(mass, rate, strict=True) if low <= r <= high)
    assert alpha == Fraction(1, 10)  # so C is a 90 % confidence interval with respect to f
    output, epsilon = (low + high) / 2, (high - low) / 2
    joint_rate = sum(p * r for p, r in zip(mass, rate, strict=True))
    assert abs(joint_rate - output) == Fraction(14, 100) > epsilon == Fraction(1, 10)  # on every row, not on a tenth


def printed_36(v: np.ndarray | float, log_term: float) -> np.ndarray:
    """The numerator of eq. 3.21, with log_term = ln(6.3 B / alpha)."""
    return 7 * np.sqrt(v * np.log1p(np.log(v))) + 5.3 * log_term


def test_the_boundary_of_3c4_gives_theorem_36_only_while_b_over_alpha_is_below_7e23() -> None:
    k1, k2 = (np.e**0.25 + np.e**-0.25) / np.sqrt(2), (np.sqrt(np.e) + 1) / np.sqrt(2)
    assert (k1 <= 1.46, k2 <= 1.88, 2 * special.zeta(1.4) <= 6.3) == (True, True, True)
    v = np.exp(np.linspace(0, 100, 100_001))
    for ratio, follows in [(1.0, True), (1e3, True), (1e6, True), (7e23, True), (1e24, False)]:
        log_term = np.log(6.3 * ratio)
        ell = 1.4 * np.log1p(np.log(v)) + log_term
        proved = 1.46 * np.sqrt(v * ell) + 2 * 1.88 * ell
        assert (printed_36(v, log_term) >= proved).all() == follows


def test_theorem_36_is_false_for_very_small_alpha() -> None:
    """One bin, a fair coin: at n = 4 million rows alone the interval fails more often than alpha."""
    n, alpha = 4_000_000, 1e-40
    most_variance = n / 4 + 1 + np.log(n)
    radius = printed_36(most_variance, np.log(6.3 / alpha))
    failure = 2 * stats.binom.sf(np.floor(n / 2 + radius), n, 0.5)
    assert failure > 1e4 * alpha


def test_the_variance_process_of_eq_320_is_at_most_that_of_the_labels_and_a_logarithm() -> None:
    rng = np.random.default_rng(0)
    for rate in (0.02, 0.5, 0.9):
        y = (rng.random(500) < rate).astype(float)
        means = np.append(0.5, np.cumsum(y)[:-1] / np.arange(1, len(y)))
        n = np.arange(1, len(y) + 1)
        k = np.cumsum(y)
        assert (np.cumsum((y - means) ** 2) <= k * (n - k) / n + 1 + np.log(n)).all()


def test_the_hoeffding_step_of_3d1_needs_the_range_of_the_weighted_labels() -> None:
    """All labels 1; in the bin w is 2 with chance 1/20, else 1/10: the terms m w reach 10.3, not U = 2."""
    n, low, high, chance, failure = 100, 0.1, 2.0, 0.05, 0.1 / 3
    m = 1 / (chance * high + (1 - chance) * low)
    k = np.arange(n + 1)
    estimate = m * (high * k + low * (n - k)) / n
    mass = stats.binom.pmf(k, n, chance)
    for spread, holds in [(high, False), (m * high, True)]:
        radius = spread * np.sqrt(np.log(2 / failure) / (2 * n))
        assert (mass[np.abs(estimate - 1) > radius].sum() <= failure) == holds
    assert m * high <= high / low <= (high / low) ** 2  # so the next line, and Theorem 3.7, stand


# ----------------------------------------------------------------------------------------------------------------------
# Gupta (2023), chapters 4 and 5
# ----------------------------------------------------------------------------------------------------------------------


def test_example_41_is_marginally_calibrated_at_01_for_alpha_of_at_least_a_tenth() -> None:
    mass, gap = np.array([0.9, 0.1]), np.array([0.1, 0.2])
    assert mass[gap > 0.15].sum() == pytest.approx(0.1)
    assert mass @ gap == pytest.approx(0.11)
    assert np.sqrt(mass @ gap**2) == pytest.approx(0.114, abs=5e-4)


def test_theorem_42_b_holds_by_the_mean_masses_of_bins_although_its_last_step_does_not() -> None:
    """Bins g rows apart have mass g / (n + 1) on average, and g - 1 rows for the rate."""
    broken = set()
    for n_bins in range(1, 30):
        for n in range(2 * n_bins, 8 * n_bins):
            gaps = np.diff(-(-np.arange(n_bins + 1) * (n + 1) // n_bins))
            assert (gaps.sum(), gaps.min() >= 2) == (n + 1, True)
            assert (gaps / (n + 1) / (4 * (gaps - 1))).sum() <= n_bins / (2 * (n + 1))
            if n // n_bins - 1 < n / (2 * n_bins):
                broken.add(n / n_bins)
    assert (min(broken) > 2, max(broken) < 3) == (True, True)


def test_the_printed_vector_scaling_is_on_ratios_to_the_last_class(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables 5.4 and 5.5, ResNet-50 on CIFAR-10: all three figures come out, and slopes on log p give another MCE."""
    pytest.importorskip("pandas")  # which the benchmark reads other data with
    monkeypatch.setattr(sys, "path", list(sys.path))  # the benchmark adds its folder
    from benchmarks.papers import ch5

    stored = np.load(data_folder / "cifar_logits" / "cifar10_resnet50_focalloss_valtest.npz")
    cal, test = stored["val_logits"].astype(float), stored["test_logits"].astype(float)
    y, truth = stored["val_labels"].astype(np.int64), stored["test_labels"].astype(np.int64)
    found = {}
    for name in ("VS", "VS, log p"):
        numbers = ch5.errors(ch5.METHODS[name](cal, y, test, 15), truth, 15, 10)
        found[name] = tuple(round(numbers[each], ch5.DIGITS[each]) for each in ("TL-ECE", "TL-MCE", "CW-ECE"))
    assert found == {"VS": (0.018, 0.368, 0.35), "VS, log p": (0.018, 0.314, 0.35)}


# ----------------------------------------------------------------------------------------------------------------------
# Gupta (2023), chapter 6
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("closed", "error"), [(True, 0.0), (False, 0.5)])
def test_tracking_is_miscalibrated_by_outcomes_below_one_half_and_not_by_outcomes_up_to_it(
    closed: bool, error: float
) -> None:
    """Section 6.3.3: 1/2 shares the bin [0.5, 0.6) of eq. 6.10 with what is just above it."""
    tops = Tracking(Identity(), epsilon=0.1, prior=0)
    forecasts, outcomes = [], []
    for _ in range(4_000):
        forecasts.append(tops.predict_one(0.5))
        outcomes.append(int(forecasts[-1] <= 0.5 if closed else forecasts[-1] < 0.5))
        tops.learn_one(0.5, outcomes[-1])
    assert ece(forecasts, outcomes, edges=np.arange(1, 10) / 10).value == pytest.approx(error, abs=5e-3)
