"""Intervals, closed forms, plans and refusals against published numbers, R, scipy and work by hand."""

from __future__ import annotations

import csv
from itertools import pairwise, product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from scipy import special, stats

from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.calibrators.binary.isotonic import IsotonicCalibrator
from calibrant.calibrators.binary.scaling import BetaScaling, PlattScaling
from calibrant.guarantees.bounds import (
    BOUNDS,
    IntervalName,
    always_valid,
    bernstein,
    clopper_pearson,
    expected_ece_bound,
    hoeffding,
    umd_epsilon,
)
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.planning import _smallest_bin, plan, split_size
from calibrant.guarantees.weighted import WEIGHTED_BOUNDS
from calibrant.messages import InputError
from calibrant.numerics import Grid
from calibrant.tallies import Tally

ALPHAS = (0.5, 0.1, 0.01, 1e-4)


def test_the_type_lists_the_table() -> None:
    assert get_args(IntervalName) == (*BOUNDS, *WEIGHTED_BOUNDS)


def all_counts(sizes: tuple[int, ...] = (1, 2, 3, 5, 10, 37, 100, 299, 1_000)) -> tuple[np.ndarray, np.ndarray]:
    """Every k for every n in ``sizes``."""
    n = np.repeat(sizes, np.array(sizes) + 1)
    return np.concatenate([np.arange(size + 1) for size in sizes]), n


# ----------------------------------------------------------------------------------------------------------------------
# Numbers of the source (002 chapter 4), with the readings of the errata
# ----------------------------------------------------------------------------------------------------------------------


def test_eq_410_gives_0992_at_2900_rows() -> None:
    assert round(umd_epsilon(2900, 10, 0.1, original=True), 4) == 0.0992


def test_eq_411_gives_010026_at_1500_rows_and_1510_is_the_first_below_a_tenth() -> None:
    assert round(umd_epsilon(1500, 10, 0.1, coverage="marginal"), 5) == 0.10026
    below = [n for n in range(20, 2_000) if umd_epsilon(n, 10, 0.1, coverage="marginal") < 0.1]
    assert below[0] == 1510
    assert plan(n_bins=10, epsilon=0.1, coverage="marginal").n == 1510


def test_eq_48_at_the_sizes_of_figure_42(subtests: pytest.Subtests) -> None:
    for n, n_bins, epsilon, printed in [
        (1_000, 5, 0.1076, 0.12),
        (5_000, 10, 0.0729, 0.08),
        (20_000, 22, 0.0579, 0.06),
    ]:
        with subtests.test(n=n, n_bins=n_bins, epsilon=epsilon, printed=printed):
            assert round(umd_epsilon(n, n_bins, 0.1), 4) == epsilon
            assert epsilon <= printed, "the figure prints upper roundings"


def test_the_arithmetic_of_4b_for_sample_splitting() -> None:
    """The steps of 4.B to its 17,500 labels for a marginal statement; c = 100 is assumed there, 2,000 is proved."""
    n_bins, delta = 10, 0.025
    for_the_edges = 100 * n_bins * np.log(10 * n_bins / delta)
    assert for_the_edges >= 8_000
    smallest_bin = np.log(2 * n_bins / 0.05) / (2 * 0.1**2)
    assert round(smallest_bin, -1) == 300
    slope = np.sqrt(np.log(2 * n_bins / delta) / 2)
    assert slope == pytest.approx(1.8, abs=0.03)  # with log(2 B / delta) multiplied, not divided, as in the errata
    for_the_rates = next(n for n in range(1, 20_000) if n / (2 * n_bins) - slope * np.sqrt(n) >= 300)
    assert for_the_rates == pytest.approx(9_500, rel=0.02)
    assert 8_000 + 9_500 == 17_500
    assert 2_000 * n_bins * np.log(10 * n_bins / delta) == pytest.approx(165_881, abs=1)


def not_well_balanced(n: int, n_bins: int) -> float:
    """Bound on the chance that bins of equal mass from n rows are not 2-well-balanced (Definition 3.6).

    Between order statistics that are g apart the mass is Beta(g, n + 1 - g), exactly and for any continuous score.
    """
    gaps = np.diff(-(-np.arange(n_bins + 1) * (n + 1) // n_bins))
    mass = stats.beta(gaps, n + 1 - gaps)
    return float((mass.cdf(1 / (2 * n_bins)) + mass.sf(2 / n_bins)).sum())


def test_lemma_32_holds_by_exact_spacings_with_a_constant_of_5(subtests: pytest.Subtests) -> None:
    """Rows c B ln(B / alpha): the lemma states no c, section 4.B assumes 100, and 2,000 is proved."""
    for n_bins, alpha in product((2, 5, 20), (0.01, 0.1, 0.4)):
        with subtests.test(n_bins=n_bins, alpha=alpha):
            enough = int(np.ceil(5 * n_bins * np.log(n_bins / alpha)))
            assert all(not_well_balanced(n, n_bins) <= alpha for n in range(enough, 2 * enough))
            assert not_well_balanced(n_bins, n_bins) > alpha, "the check can fail"


def test_spacings_are_unbalanced_as_seldom_as_the_beta_law_says() -> None:
    n, n_bins, draws = 60, 5, 4_000
    ranked = np.sort(np.random.default_rng(32).random((draws, n)), axis=1)
    edges = ranked[:, -(-np.arange(1, n_bins) * (n + 1) // n_bins) - 1]
    mass = np.diff(np.column_stack([np.zeros(draws), edges, np.ones(draws)]), axis=1)
    failures = int(((mass < 1 / (2 * n_bins)) | (mass > 2 / n_bins)).any(axis=1).sum())
    bound = not_well_balanced(n, n_bins)  # a union bound, which is nearly exact for rare failures
    assert stats.binomtest(failures, draws, bound, alternative="greater").pvalue > 1e-3
    assert stats.binomtest(failures, draws, bound / 2, alternative="greater").pvalue < 1e-3


def test_the_bins_of_sample_splitting_have_more_rows_than_by_lemma_32() -> None:
    """4.B: with 8,294 rows for the edges every bin has mass 1 / 2B, and then 300 of 9,500 rows, at level delta."""
    n_bins, delta = 10, 0.025
    part, rest = int(np.ceil(100 * n_bins * np.log(10 * n_bins / delta))), 9_500
    printed = rest / (2 * n_bins) - np.sqrt(rest * np.log(2 * n_bins / delta) / 2)
    assert printed == pytest.approx(300, rel=0.02)
    assert _smallest_bin(rest, part, (part + 1) // n_bins, 2 * delta / n_bins) > 2 * printed


@pytest.mark.parametrize(("mode", "n"), [("marginal", 2_899), ("simultaneous", 4_977)])
def test_sample_splitting_needs_far_fewer_labels_by_the_exact_law_of_spacings(mode: Any, n: int) -> None:
    """Both statements of (0.1, 0.1)-calibration with 10 bins; 4.B states the marginal one and needs 17,500."""
    assert plan(n_bins=10, epsilon=0.1, scheme="ums", coverage=mode).n == n
    assert plan(n=n - 1, n_bins=10, scheme="ums", coverage=mode).epsilon > 0.1


def test_the_marginal_plan_of_sample_splitting_counts_the_bin_that_a_new_row_falls_in(
    subtests: pytest.Subtests,
) -> None:
    """A new row falls into a bin in proportion to its mass, which raises the number of rows in that bin.

    Between order statistics of the part that are g apart the mass is Beta(g, part + 1 - g), and Beta(g + 1, ...) given
    that the new row is there.
    """
    for n, n_bins in [(2_899, 10), (500, 3), (20_000, 40)]:
        with subtests.test(n=n, n_bins=n_bins):
            alpha, part = 0.1, split_size(n, n_bins)
            epsilon = plan(n=n, n_bins=n_bins, alpha=alpha, scheme="ums", coverage="marginal").epsilon
            gap, rest = (part + 1) // n_bins, n - part
            smallest = round(np.log(4 / alpha) / (2 * epsilon**2))
            for any_bin, met in [(gap, gap + 1), (gap + 1, gap + 2)]:
                short = stats.betabinom.cdf(smallest - 1, rest, [any_bin, met], part + 1 - any_bin)
                assert short[1] <= short[0] <= alpha / 2 + 1e-9
            assert (
                stats.betabinom.cdf(smallest, rest, gap, part + 1 - gap) > alpha / 2
            )  # one row more would be too many
            assert 2 * np.exp(-2 * smallest * epsilon**2) == pytest.approx(alpha / 2)


def test_the_worst_case_is_infinite_below_two_rows_a_bin() -> None:
    assert umd_epsilon(19, 10, 0.1) == np.inf
    assert umd_epsilon(20, 10, 0.1) == pytest.approx(np.sqrt(np.log(200) / 2))


def test_the_bound_on_the_expected_ece() -> None:
    assert expected_ece_bound(100) == 0.05
    assert expected_ece_bound(0) == 1.0


# ----------------------------------------------------------------------------------------------------------------------
# Clopper-Pearson
# ----------------------------------------------------------------------------------------------------------------------


def test_clopper_pearson_is_scipys_exact_interval(subtests: pytest.Subtests) -> None:
    for alpha in ALPHAS:
        with subtests.test(alpha=alpha):
            events, n = all_counts((1, 2, 7, 21, 60))
            lower, upper = clopper_pearson(events, n, alpha)
            for k, size, low, high in zip(events.tolist(), n.tolist(), lower, upper, strict=True):
                ci = stats.binomtest(k, size).proportion_ci(confidence_level=1 - alpha, method="exact")
                assert (low, high) == pytest.approx((ci.low, ci.high), rel=1e-9, abs=1e-12)


def test_clopper_pearson_is_rs_binom_test() -> None:
    with (Path(__file__).parent / "binom_test.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert len(table) > 200
    for row in table:
        lower, upper = clopper_pearson(int(row["events"]), int(row["n"]), float(row["alpha"]))
        assert lower == pytest.approx(float(row["lower"]), rel=1e-10, abs=1e-15)
        assert upper == pytest.approx(float(row["upper"]), rel=1e-10, abs=1e-15)


def test_clopper_pearson_is_never_wider_than_hoeffding_on_either_side(subtests: pytest.Subtests) -> None:
    for alpha in ALPHAS:
        with subtests.test(alpha=alpha):
            events, n = all_counts()
            exact, loose = clopper_pearson(events, n, alpha), hoeffding(events, n, alpha)
            assert (exact[0] >= loose[0] - 1e-12).all()
            assert (exact[1] <= loose[1] + 1e-12).all()


def test_the_tails_at_a_clopper_pearson_end_are_half_of_alpha() -> None:
    events, n = all_counts((1, 5, 100, 1_000))
    lower, upper = clopper_pearson(events, n, 0.1)
    some, fewer = events > 0, events < n
    assert stats.binom.sf(events[some] - 1, n[some], lower[some]) == pytest.approx(0.05, rel=1e-9)
    assert stats.binom.cdf(events[fewer], n[fewer], upper[fewer]) == pytest.approx(0.05, rel=1e-9)


def test_coverage_computed_exactly_is_at_least_nominal(subtests: pytest.Subtests) -> None:
    for rate in [0.003, 0.3, 0.5]:
        for bound in BOUNDS:
            with subtests.test(rate=rate, bound=bound):
                for n, alpha in product((1, 2, 10, 21, 200), (0.3, 0.1, 0.01)):
                    k = np.arange(n + 1)
                    lower, upper = BOUNDS[bound](k, np.full(n + 1, n), alpha)
                    covered = stats.binom.pmf(k, n, rate)[(lower <= rate) & (rate <= upper)].sum()
                    assert covered >= 1 - alpha - 1e-12


# ----------------------------------------------------------------------------------------------------------------------
# Bernstein, always valid, and what all bounds share
# ----------------------------------------------------------------------------------------------------------------------


def test_bernstein_by_hand() -> None:
    """ln(3 / 0.3) = 2.302585; sqrt(2 x 0.25 x 2.302585 / 100) = 0.1072983; 3 x 2.302585 / 100 = 0.0690776."""
    lower, upper = bernstein(50, 100, 0.3)
    assert (lower, upper) == pytest.approx((0.5 - 0.1763759, 0.5 + 0.1763759), abs=1e-7)
    assert bernstein(0, 100, 0.3)[1] == pytest.approx(0.0690776, abs=1e-7)
    assert (upper - lower) / 2 > (hoeffding(50, 100, 0.3)[1] - 0.5), "at the largest variance Hoeffding is shorter"


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_ends_of_the_always_valid_interval_bound_its_defining_set(alpha: float) -> None:
    events, n = all_counts()
    lower, upper = always_valid(events, n, alpha)
    threshold = np.log(alpha) + special.betaln(events + 0.5, n - events + 0.5) - special.betaln(0.5, 0.5)

    def excess(p: np.ndarray) -> np.ndarray:
        return special.xlogy(events, p) + special.xlog1py(n - events, -p) - threshold

    nearest = np.minimum(np.where(events > 0, lower, 1.0), np.where(events < n, 1 - upper, 1.0))
    slack = 1e-9 * (1 + np.abs(threshold)) + n * 1e-15 / nearest  # near 0 and 1 the last bit of p moves the likelihood
    inner, outer = events > 0, events < n
    assert (np.abs(excess(lower))[inner] <= slack[inner]).all()
    assert (np.abs(excess(upper))[outer] <= slack[outer]).all()
    assert (excess(np.where(inner, lower * (1 + 1e-6), 0.0)) >= -slack).all()
    assert (excess(lower * (1 - 1e-3))[inner] < 0).all()
    assert (excess(np.where(outer, 1 - (1 - upper) * (1 - 1e-3), 0.5))[outer] < 0).all()
    assert (lower[~inner] == 0).all()
    assert (upper[~outer] == 1).all()


def test_looking_at_all_times_costs_width(subtests: pytest.Subtests) -> None:
    for alpha in ALPHAS:
        with subtests.test(alpha=alpha):
            events, n = all_counts()
            fixed, always = clopper_pearson(events, n, alpha), always_valid(events, n, alpha)
            assert (always[0] <= fixed[0] + 1e-12).all()
            assert (always[1] >= fixed[1] - 1e-12).all()
            width = [float(np.diff(always_valid(size // 2, size, alpha))[0]) for size in (10, 100, 1_000, 10_000)]
            assert all(more > less for more, less in pairwise(width))


def test_every_interval_holds_the_mean_and_mirrors(subtests: pytest.Subtests) -> None:
    for bound in BOUNDS:
        with subtests.test(bound=bound):
            events, n = all_counts()
            lower, upper = BOUNDS[bound](events, n, 0.1)
            assert ((lower >= 0) & (lower <= events / n) & (events / n <= upper) & (upper <= 1)).all()
            mirrored = BOUNDS[bound](n - events, n, 0.1)
            assert 1 - mirrored[1] == pytest.approx(lower, abs=1e-12)
            assert 1 - mirrored[0] == pytest.approx(upper, abs=1e-12)


def test_every_interval_shrinks_with_alpha_and_an_empty_bin_promises_nothing(subtests: pytest.Subtests) -> None:
    for bound in BOUNDS:
        with subtests.test(bound=bound):
            interval = BOUNDS[bound]
            tight, wide = interval(30, 100, 0.2), interval(30, 100, 0.01)
            assert wide[0] < tight[0] < 0.3 < tight[1] < wide[1]
            assert tuple(float(end) for end in interval(0, 0, 0.1)) == (0.0, 1.0)
            with pytest.raises(ValueError, match="between 0 and n"):
                interval(3, 2, 0.1)


# ----------------------------------------------------------------------------------------------------------------------
# Plans
# ----------------------------------------------------------------------------------------------------------------------

SCHEMES = list(product(("umd", "umd-original", "ums"), ("simultaneous", "marginal")))


def test_the_planned_n_is_the_least_that_reaches(subtests: pytest.Subtests) -> None:
    for n_bins, epsilon, alpha in [(1, 0.1, 0.1), (5, 0.1, 0.1), (10, 0.05, 0.01), (22, 0.3, 0.2)]:
        for scheme, mode in SCHEMES:
            with subtests.test(n_bins=n_bins, epsilon=epsilon, alpha=alpha, scheme=scheme, mode=mode):
                found = plan(n_bins=n_bins, epsilon=epsilon, alpha=alpha, scheme=scheme, coverage=mode)
                assert found.epsilon <= epsilon
                assert (
                    found.epsilon == plan(n=found.n, n_bins=n_bins, alpha=alpha, scheme=scheme, coverage=mode).epsilon
                )
                assert plan(n=found.n - 1, n_bins=n_bins, alpha=alpha, scheme=scheme, coverage=mode).epsilon > epsilon


def test_the_planned_bins_are_the_most_that_reach(subtests: pytest.Subtests) -> None:
    for n, epsilon in [(1_000, 0.12), (5_000, 0.08), (20_000, 0.06), (100_000, 0.05)]:
        for scheme, mode in SCHEMES:
            with subtests.test(n=n, epsilon=epsilon, scheme=scheme, mode=mode):
                found = plan(n=n, epsilon=epsilon, scheme=scheme, coverage=mode)
                assert found.epsilon <= epsilon
                assert plan(n=n, n_bins=found.n_bins + 1, scheme=scheme, coverage=mode).epsilon > epsilon


@pytest.mark.parametrize("mode", ["simultaneous", "marginal"])
def test_the_original_scheme_is_eq_410(mode: Any) -> None:
    for n, n_bins, alpha in ((2_900, 10, 0.1), (1_000, 5, 0.02), (20_000, 22, 0.1)):
        found = plan(n=n, n_bins=n_bins, alpha=alpha, scheme="umd-original", coverage=mode)
        union, rows_a_bin = (n_bins if mode == "simultaneous" else 1), n // n_bins
        by_hand = np.sqrt(np.log(2 * union / alpha) / (2 * (rows_a_bin - 1))) + 1 / rows_a_bin
        assert found.epsilon == pytest.approx(by_hand, rel=1e-12)
        assert found.epsilon > plan(n=n, n_bins=n_bins, alpha=alpha, coverage=mode).epsilon
        assert "eq. 4.10" in str(found)


def test_the_smallest_bin_of_a_split_plan_follows_the_negative_hypergeometric_law() -> None:
    """scipy's law of the rows that come before the gap-th row of the part, in place of the package's tail."""
    for n, n_bins, alpha in ((1_000, 5, 0.1), (1_200, 20, 0.1), (300, 3, 0.02)):
        part = split_size(n, n_bins)
        rest, gap = n - part, (part + 1) // n_bins
        rows = stats.nhypergeom(n, rest, gap).cdf(np.arange(rest))  # rows[m - 1] = P(fewer than m)
        smallest = int((rows <= alpha / 2 / n_bins).sum())
        expected = np.sqrt(np.log(4 * n_bins / alpha) / (2 * smallest))
        assert plan(n=n, n_bins=n_bins, alpha=alpha, scheme="ums").epsilon == pytest.approx(expected, rel=1e-12)


def test_split_size_is_the_share_that_the_docstring_derives() -> None:
    assert split_size(10_000_000, 10) == 100_000
    for rows_a_bin, share in ((100, 0.22), (1_000, 0.10), (1_000_000, 0.01)):
        assert split_size(10 * rows_a_bin, 10) / (10 * rows_a_bin) == pytest.approx(share, abs=0.005)
    for n, n_bins in ((2, 1), (21, 10), (50, 50)):
        assert 1 <= split_size(n, n_bins) <= n


def test_a_plan_with_scores_expects_the_exact_width() -> None:
    found = plan(n=500, n_bins=2, scores=[0.1] * 50 + [0.9] * 50)
    rows = 249
    k = np.arange(rows + 1)
    lower, upper = clopper_pearson(k, np.full(rows + 1, rows), 0.05)
    for outlook, rate in zip(found.outlook, (0.1, 0.9), strict=True):
        assert (outlook.mean_score, outlook.rows) == (pytest.approx(rate), rows)
        assert outlook.expected_width == pytest.approx(stats.binom.pmf(k, rows, rate) @ (upper - lower), rel=1e-6)
    assert "mean score 0.9: about 249 rows" in str(found)


def test_a_plan_that_cannot_be_made_says_so(subtests: pytest.Subtests) -> None:
    for arguments in [
        {},
        {"n": 100},
        {"n": 100, "n_bins": 5, "epsilon": 0.1},
        {"n": 15, "n_bins": 10},
        {"n": 10, "epsilon": 0.01},
        {"n": 100, "epsilon": 1.5},
        {"n": 0, "n_bins": 5},
        {"n": 100, "n_bins": 5, "alpha": 0.0},
        {"n": 100, "n_bins": 5, "coverage": "average"},
        {"n": 100, "n_bins": 5, "scheme": "isotonic"},
        {"n": 100.5, "n_bins": 5},
    ]:
        with subtests.test(arguments=arguments), pytest.raises(InputError):
            plan(**arguments)


# ----------------------------------------------------------------------------------------------------------------------
# When no certificate is issued, and what one says
# ----------------------------------------------------------------------------------------------------------------------


def rows(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    scores = rng.random(n)
    return scores, (rng.random(n) < scores).astype(int)


def test_rows_that_are_not_independent_get_no_certificate(subtests: pytest.Subtests) -> None:
    for arguments, reason in [
        ({"sample_weight": np.linspace(0.5, 1.5, 400)}, "importance weights"),
        ({"groups": np.arange(400) // 4}, "rows of the same group (groups) may depend"),
        ({"time": np.arange(400)}, "rows ordered in time (time) may depend"),
    ]:
        with subtests.test(reason):
            refusal = HistogramBinning(4).fit(*rows(), **arguments).certificate()
            assert isinstance(refusal, NoCertificate)
            assert not refusal
            assert str(refusal).startswith("No certificate: ")
            assert reason in str(refusal)


@pytest.mark.parametrize(
    ("sampling", "reason"), [("out-of-fold", "out-of-fold"), ("selected", "selected among several")]
)
def test_scores_that_break_the_theorems_assumption_get_no_certificate(sampling: Any, reason: str) -> None:
    refusal = HistogramBinning(4).fit_tally(Tally.from_arrays(*rows()), sampling=sampling).certificate()
    assert isinstance(refusal, NoCertificate)
    assert reason in str(refusal)


@pytest.mark.parametrize("calibrator", [PlattScaling(), BetaScaling()], ids=lambda c: type(c).__name__)
def test_injective_maps_say_that_no_guarantee_is_possible(calibrator: Any) -> None:
    refusal = calibrator.fit(*rows()).certificate()
    assert isinstance(refusal, NoCertificate)
    assert "no distribution-free guarantee is possible" in str(refusal)
    assert "Theorem 3.3" in str(refusal)


def test_isotonic_steps_are_chosen_with_the_labels_that_fill_them() -> None:
    refusal = IsotonicCalibrator().fit(*rows()).certificate()
    assert isinstance(refusal, NoCertificate)
    assert "HistogramBinning" in str(refusal)


def test_repetition_counts_keep_the_certificate_of_the_repeated_rows() -> None:
    scores, y = rows()
    counts = np.random.default_rng(2).integers(1, 4, len(y))
    counted = HistogramBinning(4).fit(scores, y, counts, weight_type="frequency").certificate()
    repeated = HistogramBinning(4).fit(np.repeat(scores, counts), np.repeat(y, counts)).certificate()
    assert isinstance(counted, Certificate)
    assert isinstance(repeated, Certificate)
    assert (counted.epsilon, counted.n) == (repeated.epsilon, repeated.n)


def test_a_certificate_is_at_the_calibrators_own_alpha_unless_asked_otherwise() -> None:
    cal = HistogramBinning(4, alpha=0.02).fit(*rows())
    promises = [cal.certificate(), cal.certificate(0.02), cal.certificate(0.2)]
    assert all(isinstance(promise, Certificate) for promise in promises)
    assert [promise.alpha for promise in promises if isinstance(promise, Certificate)] == [0.02, 0.02, 0.2]


def test_a_certificate_that_cannot_be_asked_for(subtests: pytest.Subtests) -> None:
    for arguments in [{"alpha": 0.0}, {"alpha": 1.0}, {"interval": "wald"}, {"coverage": "average"}]:
        with subtests.test(arguments=arguments), pytest.raises(InputError):
            HistogramBinning(4).fit(*rows()).certificate(**arguments)


def test_epsilon_is_the_largest_distance_from_an_output_to_its_interval(subtests: pytest.Subtests) -> None:
    for mode in ["simultaneous", "marginal"]:
        for bound in BOUNDS:
            with subtests.test(mode=mode, bound=bound):
                calibrator = HistogramBinning(6, strategy="width" if bound == "always-valid" else "mass")
                calibrator.fit_tally(Tally.from_arrays(*rows(), grid=Grid()))
                promise = calibrator.certificate(0.2, interval=bound, coverage=mode)
                assert isinstance(promise, Certificate)
                share = 0.2 / promise.covered.sum() if mode == "simultaneous" else 0.2
                lower, upper = BOUNDS[bound](promise.events, promise.rows, share)
                assert promise.lower.tolist() == lower.tolist()
                assert promise.upper.tolist() == upper.tolist()
                widths = np.maximum(promise.outputs - lower, upper - promise.outputs)[promise.covered]
                assert promise.epsilon == widths.max()


@pytest.mark.parametrize("bins_from", ["all", "split"])
def test_an_always_valid_promise_needs_bins_that_no_row_has_chosen(bins_from: Any) -> None:
    refusal = HistogramBinning(4, bins_from=bins_from).fit(*rows()).certificate(interval="always-valid")
    assert isinstance(refusal, NoCertificate)
    assert "do not depend on the rows" in str(refusal)


@pytest.mark.parametrize("mode", ["simultaneous", "marginal"])
def test_an_always_valid_promise_pays_for_bins_that_are_still_empty(mode: Any) -> None:
    """Ten widths of which six hold rows: alpha is divided by all ten, for Clopper-Pearson by six."""
    scores, y = rows()
    cal = HistogramBinning(10, strategy="width").fit(0.6 * scores, y)
    always, once = (
        cal.certificate(0.1, interval=bound, coverage=mode) for bound in ("always-valid", "clopper-pearson")
    )
    assert isinstance(always, Certificate)
    assert isinstance(once, Certificate)
    assert always.covered.sum() == once.covered.sum() == 6
    for promise, bins in ((always, 10), (once, 6)):
        share = 0.1 / bins if mode == "simultaneous" else 0.1
        lower, upper = BOUNDS[promise.interval](promise.events, promise.rows, share)
        assert (promise.lower.tolist(), promise.upper.tolist()) == (lower.tolist(), upper.tolist())


@pytest.mark.parametrize("arguments", [{"strategy": "width"}, {"bins_from": Tally.from_arrays(*rows(50))}])
def test_an_epsilon_cannot_be_planned_for_bins_that_these_rows_do_not_choose(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="epsilon is only supported for bins that these rows define"):
        HistogramBinning(epsilon=0.2, **arguments).fit(*rows())


@pytest.mark.parametrize(("estimate", "scheme"), [("inner", "umd"), ("all", "umd-original")])
def test_the_bins_for_an_epsilon_are_those_of_the_plan(estimate: Any, scheme: Any) -> None:
    cal = HistogramBinning(epsilon=0.2, estimate=estimate).fit(*rows(1_000))
    assert (cal.bins_.n > 0).sum() == plan(n=1_000, epsilon=0.2, scheme=scheme).n_bins
    promise = cal.certificate(interval="hoeffding")
    assert isinstance(promise, Certificate)
    assert promise.epsilon <= 0.2


def test_an_untied_certificate_with_hoeffdings_bound_is_at_most_eq_48() -> None:
    for n, n_bins in ((21, 10), (1_000, 5), (5_000, 10)):
        promise = HistogramBinning(n_bins, extremes="mean").fit(*rows(n)).certificate(0.1, interval="hoeffding")
        assert isinstance(promise, Certificate)
        assert promise.epsilon <= umd_epsilon(n, n_bins, 0.1) + 1e-12


def test_a_bin_without_events_puts_out_the_rule_of_succession_also_next_to_an_empty_bin() -> None:
    """Fixed widths: rows in the first and last of three bins only, no event in the first."""
    scores, y = [0.1] * 10 + [0.9] * 4, [0] * 10 + [1, 0, 1, 0]
    bins = HistogramBinning(3, strategy="width").fit(scores, y).bins_
    assert bins.n.tolist() == [10, 0, 4]
    assert bins.outputs == pytest.approx([1 / 12, 2 / 14, 1 / 2])
