"""The automatic choice: by hand, on edges, by groups and time, with weights, with a guarantee; and named splits."""

from __future__ import annotations

import warnings
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtri
from tests import worlds

from calibrant import (
    AutoCalibrator,
    CalibrantWarning,
    Certificate,
    HistogramBinning,
    InputError,
    NoCertificate,
    PlattScaling,
    Tally,
    calibrate,
    check,
    load,
    split_rows,
    walk_forward,
)
from calibrant.arrays import check_rows
from calibrant.calibration import Calibration
from calibrant.calibrators.auto import COMPARISON_GRID
from calibrant.engine import Grid
from calibrant.fits.curves import averaged
from calibrant.fits.penalized import SCALES, fit_shrunken
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.guarantees.origins import Assumption
from calibrant.guarantees.planning import TooFewLabels
from calibrant.maps import BetaMap, LogitAffineMap, PiecewiseLinearMap, StepMap
from calibrant.messages import PYTHON
from calibrant.numerics import expit, logit
from calibrant.selection import blend as blending
from calibrant.selection import comparison as comparison_module
from calibrant.selection.blend import Judged, blend_weights
from calibrant.selection.candidates import BLEND, CANDIDATES, fit_bins, fit_scaled_bins
from calibrant.selection.comparison import ChoiceRule, Compared, Comparison, estimates, gap, nested_sentence
from calibrant.selection.folds import Folds, deal, random_folds
from calibrant.selection.guarantee import BIN_COUNTS, Guarantee, look_share
from calibrant.selection.losses import Losses
from calibrant.selection.original_model import OriginalTest
from calibrant.selection.rule import Blend, Candidate, Facts, choose, negligible, select
from calibrant.tallies import Clusters


def sample(n: int = 1200, seed: int = 0, level: float = 1.0) -> worlds.Rows:
    """Scores whose odds are too low by a factor of exp(level)."""
    return worlds.shifted(n, seed, level=level, shape=(2, 4), decimals=3)


def quiet(scores, y, *args, **options) -> AutoCalibrator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return calibrate(scores, y, *args, **options)


@cache
def plain() -> AutoCalibrator:
    """The choice among all candidates, for tests of what is printed and kept."""
    return calibrate(*sample())


def constant(p: float) -> Candidate:
    return Candidate(f"always {p:g}", lambda tally: StepMap([], [p]))


# ---------------------------------------------------------------------------------------------------------------------
# By hand
# ---------------------------------------------------------------------------------------------------------------------


def test_losses_and_their_standard_error_by_hand():
    """One event and three non-events. Brier: always 0.5 costs 1/4 each; always 0 costs 1 and three times 0.

    The differences are -3/4 once and 1/4 three times: mean 0, mean square (9/16 + 3/16) / 4 = 3/16.
    """
    tally = Tally.from_arrays([0.1, 0.2, 0.3, 0.9], [0, 0, 0, 1])
    losses = Losses.of(tally, (), np.array([[0.5] * 4, [0.0] * 4]), "brier")
    np.testing.assert_allclose(losses.means, [0.25, 0.25])
    change, se = losses.difference(0, 1)
    assert change == 0.0
    assert se == pytest.approx(np.sqrt(3 / 16 / 4))


def test_a_certain_mistake_counts_as_log_odds_of_36():
    losses = Losses.of(Tally.from_table([1], [1], edges=[], scores=[0.0]), (), np.zeros((1, 1)), "log")
    assert losses.means[0] == pytest.approx(36.0)


def test_the_standard_error_by_clusters_is_that_of_their_sums_by_hand():
    """Two clusters of two rows each; the differences add up to -1/2 and 1/2: se = sqrt(2 / 1 * 1/2) / 4 = 1/4."""
    parts = Tally.from_arrays([0.1, 0.9], [0, 1]), quiet_tally([0.2, 0.3], [0, 0])
    losses = Losses.of(parts[0] + parts[1], parts, np.array([[0.5] * 4, [0.0] * 4]), "brier")
    np.testing.assert_allclose(losses.clusters, [[2, 0.5, 1.0], [2, 0.5, 0.0]])
    assert losses.difference(0, 1)[1] == pytest.approx(0.25)


def paired(*sums: float, rows: float = 1e6, square: float = 0.5) -> Losses:
    """Losses whose paired differences have a mean square of 2 ``square``."""
    return Losses(rows, rows, np.array(sums), np.eye(len(sums)) * rows * square, np.zeros((0, len(sums) + 1)))


def test_without_a_blend_the_first_within_half_a_standard_error_is_chosen():
    """Differences from 100 rows with a mean square of 1: the standard error is 0.1, and half of it 5 in the sums."""
    assert paired(4.0, 2.0, 0.0, rows=100.0).difference(0, 2)[1] == pytest.approx(0.1, rel=1e-2)
    assert choose(paired(4.0, 2.0, 0.0, rows=100.0), [0, 1, 2], 5e-4) == 0
    assert choose(paired(6.0, 4.0, 0.0, rows=100.0), [0, 1, 2], 5e-4) == 1
    assert choose(paired(8.0, 6.0, 0.0, rows=100.0), [0, 1, 2], 5e-4) == 2


def test_a_blend_is_left_for_what_is_surely_as_good_and_for_a_model_that_does_better():
    """Differences from 10^6 rows with a mean square of 0.01 have a standard error of 0.0001: 2 of them and a difference
    of 0.0003 are 0.0005, which is negligible here; 0.00031 and they are more."""
    assert choose(paired(900.0, 295.0, 0.0, square=0.005), [0, 1, 2], 5e-4, 2) == 1
    assert choose(paired(900.0, 305.0, 0.0, square=0.005), [0, 1, 2], 5e-4, 2) == 2
    assert choose(paired(900.0, 295.0, 0.0, square=0.005), [0, 1, 2], 1e-4, 2) == 2, "less is negligible"
    assert choose(paired(-1.0, -9.0, 0.0, rows=100.0), [0, 1, 2], 5e-4, 2) == 0, "the model does better by luck or not"
    assert choose(paired(1.0, -9.0, 0.0, rows=100.0), [0, 1, 2], 5e-4, 2) == 2, "but others must be sure"


def test_the_better_constant_is_chosen_and_nested_numbers_are_its_own():
    """40 events of 200: always 0.2 costs 0.16 on average, always 0.5 costs 0.25, whatever the folds."""
    tally = Tally.from_arrays(np.linspace(0.01, 0.99, 200), np.arange(200) % 5 == 0)
    found = select(Folds.at_random(tally), [constant(0.5), constant(0.2)], tally, "brier")
    assert found.chosen.name == found.comparison.choice == "always 0.2"
    assert found.before.value == pytest.approx(0.25)
    assert found.after.value == pytest.approx(0.16)
    assert found.change.value == pytest.approx(-0.09)
    # Differences are 0.04 - 0.25 = -0.21 for 160 rows and 0.64 - 0.25 = 0.39 for 40: variance 0.2 * 0.8 * 0.6^2.
    assert found.change.se == pytest.approx(np.sqrt(0.2 * 0.8 * 0.36 / 200))
    # Student's quantile for 40 events, and the quadratic term: 0.16, the Brier score and so p (1 - p), by row.
    t = 2.02269
    assert found.change.high == pytest.approx(-0.09 + t * found.change.se, rel=1e-4)
    assert found.change.low == pytest.approx(-0.09 - t * found.change.se - 0.16 * t**2 / 200, rel=1e-4)


def test_choices_that_differ_between_parts_widen_the_interval():
    """Of 100 rows the map in use changes the loss by -0.3 each; what was chosen without each part, by nothing."""
    flat = Losses(100.0, 100.0, np.array([50.0, 20.0]), np.zeros((2, 2)), np.zeros((0, 3)))
    nested = Losses(100.0, 100.0, np.array([50.0, 50.0]), np.full((2, 2), 25.0), np.zeros((0, 3)))
    assert gap(flat, nested, 1) == pytest.approx(-0.3)
    assert gap(flat, nested, 0) == 0.0
    change = estimates(nested, "log", -0.3)[2]
    assert (change.value, change.se) == (0.0, pytest.approx(0.3))
    assert change.low == pytest.approx(-1.96 * 0.3 - 1.96**2 / 200, rel=1e-4)
    same = estimates(nested, "log", 0.0)[2]
    assert (same.low, same.high) == (0.0, 0.0), "the model is kept each time, and in the end"


def test_what_is_only_kept_for_comparison_cannot_be_chosen():
    tally = Tally.from_arrays(np.linspace(0.01, 0.99, 200), np.arange(200) % 5 == 0)
    found = select(Folds.at_random(tally), [constant(0.5), constant(0.6)], tally, "brier", keep=constant(0.2))
    assert found.chosen.name == "always 0.5"
    assert found.before.value == pytest.approx(0.16)


def test_walking_forward_the_second_stretch_is_kept_and_later_ones_choose_from_their_past():
    """Rates by stretch 0.5, 0.5, 0.2, 0.2. Nothing is judged before the second, so there the first candidate is kept;
    the third chooses by the second alone (0.5 wins), the fourth by the second and third (0.25 + 0.25 against 0.34 +
    0.16: a tie, so the first). Nested loss: 0.25 on 0.5-rate rows and 0.25 on the others.
    """
    rates = (0.5, 0.5, 0.2, 0.2)
    parts = tuple(Tally.from_arrays(np.linspace(0, 1, 100), np.arange(100) < 100 * r) for r in rates)
    whole = parts[0] + parts[1] + parts[2] + parts[3]
    found = select(Folds(parts, forward=True), [constant(0.5), constant(0.2)], whole, "brier")
    assert found.before.value == found.after.value == pytest.approx(0.25)
    assert found.comparison.lines[1].loss == pytest.approx((0.34 + 0.16 + 0.16) / 3)


def test_a_shrunken_level_is_a_mean_over_scales_by_hand():
    """One row in four at 1/2 is an event: the quadratic at the most probable level, then six priors, one by one."""
    a = fit_shrunken(Tally.from_arrays([0.5] * 4, [0, 0, 0, 1]), 1).intercept
    mode = brentq(lambda v: 4 * expit(np.array(v)) - 1 + v / 0.49, -3, 0)
    p = float(expit(np.array(mode)))
    information, pull = 4 * p * (1 - p), 4 * p * (1 - p) * mode - (4 * p - 1)
    posterior = information + SCALES[0][1:] ** -2.0
    evidence = 0.75 / 5 * np.exp(pull**2 / posterior / 2) / np.sqrt(posterior) / SCALES[0][1:]
    assert a == pytest.approx((evidence * pull / posterior).sum() / (0.25 + evidence.sum()), rel=1e-6)


def test_the_terms_of_a_shrunken_map_are_what_its_formula_says():
    """The map is the model's log-odds, a level, a slope about the center and the skew, wherever it is asked."""
    scores, y = sample(500, 3)
    fitted = fit_shrunken(Tally.from_arrays(scores, y**2))
    s = np.array([0.1, 0.3, 0.8])
    assert isinstance(fitted, BetaMap)
    expected = fitted.a * np.log(s) - fitted.b * np.log1p(-s) + fitted.c
    np.testing.assert_allclose(logit(fitted.apply(s)), expected, rtol=1e-9)


def test_shrunken_values_lie_between_keeping_and_platts_and_meet_it_with_many_rows():
    for n, far in ((60, 0.0), (200_000, 0.99)):
        scores, y = sample(n, 3)
        tilted = expit(logit(np.clip(scores, 0.01, 0.99)) / 0.6)
        fitted, platt = fit_shrunken(Tally.from_arrays(tilted, y), 2), PlattScaling().fit(tilted, y).map_
        assert far < (1.0 - fitted.slope) / (1.0 - platt.slope) < 1.001


def test_shrunken_fits_of_one_class_stay_finite(subtests):
    for terms in [1, 2, 3]:
        for label in [0, 1]:
            with subtests.test(terms=terms, label=label):
                fitted = fit_shrunken(quiet_tally([0.2, 0.4, 0.9], [label] * 3), terms)
                out = fitted.apply(np.array([0.0, 0.2, 0.9, 1.0]))
                assert ((out > 0) & (out < 1)).all()
                assert (out[1] > 0.2) == (label == 1)


@pytest.mark.parametrize("terms", [2, 3])
def test_a_shrunken_map_never_falls(terms):
    scores = np.linspace(0.01, 0.99, 4000)
    fitted = fit_shrunken(Tally.from_arrays(scores, scores < 0.5), terms)
    assert (np.diff(fitted.apply(scores)) >= 0).all()
    assert fitted.apply(np.array([0.5]))[0] == pytest.approx(0.5, abs=0.02)


# ---------------------------------------------------------------------------------------------------------------------
# Blends
# ---------------------------------------------------------------------------------------------------------------------


def test_two_constants_are_weighed_as_the_equation_says():
    """30 events of 100; always 0.2 and always 0.6 weigh w and 1 - w: the rate 0.3 asks for w = 3/4, and a row that
    likes both alike pulls a little towards 1/2: d/dw of the loss at p = 0.6 - 0.4 w is 0.5/w - 0.5/(1 - w).
    """
    judged = Judged(np.array([[0.2], [0.6]]), np.array([30.0]), np.array([70.0]))
    w = blend_weights(judged, "log")[0]
    p = 0.6 - 0.4 * w
    assert -0.4 * (70 / (1 - p) - 30 / p) == pytest.approx(0.5 / w - 0.5 / (1 - w), abs=1e-2)
    assert 0.7 < w < 0.75


@pytest.mark.parametrize("loss", ["log", "brier"])
@given(seed=st.integers(0, 10**6))
def test_weights_are_where_no_neighbor_is_better(seed, loss):
    rng = np.random.default_rng(seed)
    truth = rng.random(30)
    outputs = np.clip(truth + rng.normal(0, 0.2, (4, 30)), 2.0**-32, 1.0 - 2.0**-32)
    n = rng.integers(1, 50, 30).astype(float)
    events = rng.binomial(n.astype(int), truth).astype(float)
    judged = Judged(outputs, events, n - events)
    w = blend_weights(judged, loss)
    assert (w > 0).all()
    assert w.sum() == pytest.approx(1.0)
    at = blending._objective(judged, loss, w)[0]
    for _ in range(20):
        step = rng.normal(0, 0.01, 4)
        near = np.abs(w + step - step.mean())
        assert blending._objective(judged, loss, near / near.sum())[0] >= at - 1e-4


def test_an_average_of_maps_is_their_average():
    tally = Tally.from_arrays(*sample(500))
    maps = [LogitAffineMap(1.0, 0.0), BetaMap(0.8, 1.3, 0.4), PiecewiseLinearMap([0.1, 0.5], [0.2, 0.9])]
    weights = np.array([0.5, 0.3, 0.2])
    made = averaged(maps, weights, tally)
    s = np.linspace(0, 1, 1001)
    expected = sum(w * m.apply(s) for w, m in zip(weights, maps, strict=True))
    np.testing.assert_allclose(logit(made.apply(s)), logit(expected), atol=3e-3)
    assert len(made.knots) < 100
    assert (np.diff(made.apply(s)) > 0).all(), "one part rises everywhere, so the average does"


def test_a_blend_is_chosen_when_it_is_best_and_told_part_by_part(subtests):
    """A curve with a kink, which neither a spline nor a beta map follows."""
    for kind in ["probability", "real"]:
        with subtests.test(kind=kind):
            rng = np.random.default_rng(2)
            scores = rng.random(1500)
            y = (rng.random(1500) < np.where(scores < 0.55, 0.25 * scores, 0.3 + 0.6 * scores)).astype(int)
            given_scores = scores if kind == "probability" else logit(scores)
            cal = calibrate(given_scores, y, candidates=["blend"], score_type=kind)
            assert cal.choice_ == "blend"
            assert sum(cal.weights_.values()) == pytest.approx(1.0)
            assert all(f"{100 * w:.0f} % {name}" in str(cal) for name, w in cal.weights_.items())
            assert cal.after_.value < cal.before_.value
            out = cal.transform(np.sort(given_scores))
            assert (np.diff(out) >= 0).all()


def test_the_weights_of_a_part_come_from_other_parts():
    """A part of the blend that remembers its rows gets no weight for what it remembers."""

    def memory(tally: Tally) -> PiecewiseLinearMap:
        return PiecewiseLinearMap(tally.scores, tally.events / tally.n)

    tally = Tally.from_arrays(np.random.default_rng(0).permutation(60) / 60, np.arange(60) % 2)
    half = Candidate("half", lambda tally: PiecewiseLinearMap([0.0, 1.0], [0.5, 0.5]))
    blend = Blend((half, Candidate("memory", memory)))
    found = select(Folds.at_random(tally), [half], tally, "brier", blend=blend)
    line = found.comparison.lines[-1]
    assert line.name == "blend"
    assert line.loss > 0.2
    assert found.after.value > 0.2


def quiet_tally(*args, **options) -> Tally:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return Tally.from_arrays(*args, **options)


def test_bins_are_those_of_histogram_binning_with_other_rows_edges():
    scores, y = sample(4000, 5)
    tally = Tally.from_arrays(scores, y)
    fitted = fit_bins(tally, 8)
    n, events = tally.partition(fitted.knots)
    np.testing.assert_allclose(fitted.values, events / n)
    assert len(fit_bins(tally).values) == int(np.sqrt(4000) / 6.3)
    assert (np.diff(fit_scaled_bins(tally).values) > 0).all()


# ---------------------------------------------------------------------------------------------------------------------
# Rare events, and what a test of the original model decides
# ---------------------------------------------------------------------------------------------------------------------


def test_what_is_negligible_scales_with_the_loss_of_a_constant():
    """Half of the rows events: 0.07 % of log 2, or of 1/4. One in a hundred: of its entropy."""
    even, rare = (Tally.from_arrays(np.arange(n) / n, np.arange(n) < 1) for n in (2, 100))
    assert negligible(even, "log") == pytest.approx(7e-4 * np.log(2))
    assert negligible(even, "brier") == pytest.approx(7e-4 / 4)
    assert negligible(rare, "log") == pytest.approx(7e-4 * (-0.01 * np.log(0.01) - 0.99 * np.log(0.99)))
    assert negligible(rare, "brier") == pytest.approx(7e-4 * 0.0099)


def rare(rows: int, center: float, level: float, slope: float = 1.0, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Scores with normal log-odds on 1,000 quantiles, labels and how often each pair occurs."""
    x = center + ndtri((np.arange(1000) + 0.5) / 1000)
    n = rows // 1000
    events = np.random.default_rng(seed).binomial(n, expit(center + level + slope * (x - center)))
    return np.tile(expit(x), 2), np.repeat([0, 1], 1000), np.r_[n - events, events]


def test_rare_events_are_recalibrated(subtests, full_size):
    """A million rows of which 0.1 to 0.6 % are events; the first case predicts 4,500 events and 6,000 are observed."""
    cases = [(-5.9, 0.3, 1.0), (-7.5, 0.5, 1.0), (-5.9, -0.4, 1.0), (-6.0, 0.0, 0.7)]
    quick = [("brier", *cases[0]), ("log", *cases[3])]
    for loss, center, level, slope in (
        [(loss, *case) for loss in ("log", "brier") for case in cases] if full_size else quick
    ):
        with subtests.test(loss=loss, center=center, level=level, slope=slope):
            scores, y, counts = rare(1_000_000, center, level, slope)
            cal = calibrate(scores, y, counts, weight_type="frequency", loss=loss, score_type="probability")
            assert cal.choice_ != "identity"
            assert cal.change_.value < 0.0
            found = cal.transform(scores[:1000])
            x = logit(scores[:1000])
            assert abs(logit(found)[200:800] - (center + level + slope * (x - center))[200:800]).max() < 0.15
            assert (found * counts.reshape(2, -1).sum(axis=0)).sum() == pytest.approx(counts[1000:].sum(), rel=0.02)


def test_a_log_with_fewer_non_events_is_recalibrated_by_its_weights():
    """All events and 5 % of the others, each with weight 20, of 500,000 rows with odds too low by a factor of 1.35."""
    rng = np.random.default_rng(1)
    x = rng.normal(-6.0, 1.0, 500_000)
    y = rng.random(len(x)) < expit(x + 0.3)
    taken = y | (rng.random(len(x)) < 0.05)
    cal = calibrate(expit(x[taken]), y[taken], np.where(y[taken], 1.0, 20.0), score_type="probability")
    assert cal.choice_ != "identity"
    assert np.sum(cal.transform(expit(x))) == pytest.approx(y.sum(), rel=0.05)


def test_a_portfolio_whose_sum_is_excluded_is_recalibrated():
    """Seven grades: 350 defaults predicted, 406 observed, as in a validation that excludes chance (p = 0.002)."""
    pd = np.array([0.0005, 0.001, 0.003, 0.008, 0.02, 0.05, 0.12])
    n = np.array([2000, 5000, 8000, 6000, 3500, 1800, 930])
    events = np.round(pd * n * 406 / (pd * n).sum()).astype(int)
    cal = calibrate(np.tile(pd, 2), np.repeat([0, 1], 7), np.r_[n - events, events], weight_type="frequency")
    assert OriginalTest.of(cal_tally(pd, n, events)).rejects
    assert cal.choice_ != "identity"
    assert (cal.transform(pd) * n).sum() == pytest.approx(406, rel=0.04)


def cal_tally(scores: np.ndarray, n: np.ndarray, events: np.ndarray) -> Tally:
    columns = np.tile(scores, 2), np.repeat([0, 1], len(n)), np.r_[n - events, events]
    return Tally.from_arrays(*columns, weight_type="frequency")


def test_segments_that_were_not_there_get_a_global_map_that_is_calibrated():
    scores, y, counts = rare(1_000_000, -5.9, 0.3)
    by = np.array(["a", "b", "c", "d"])[np.arange(2000) % 4]
    options = {"weight_type": "frequency", "score_type": "probability", "candidates": ["shift", "platt"]}
    cal = calibrate(scores, y, sample_weight=counts, by=by, **options)
    assert cal.global_.choice_ != "identity"
    assert "Global map: original model" not in str(cal)
    new = cal.transform([float(expit(np.array(-5.9)))], ["e"])
    assert logit(new)[0] == pytest.approx(-5.6, abs=0.1)


def test_a_rejected_model_that_nothing_improves_is_kept_with_both_facts():
    """Sixty rows: 8 events predicted, 16 observed; within the folds the correction goes too far now and then."""
    rng = np.random.default_rng(48)
    scores = rng.choice([0.05, 0.1, 0.2], 60)
    y = rng.random(60) < 1.6 * scores
    cal = quiet(scores, y)
    test = OriginalTest.of(quiet_tally(scores, y))
    assert test.rejects
    assert cal.choice_ == "identity"
    assert cal.change_.value >= 0.0
    words = "Keep the original model. A test rejects it, because the probabilities are too low (p = 0.00"
    assert words in str(cal)
    assert "but no candidate is reliably better on held-out rows." in str(cal)
    assert "Nested cross-validation of the selection procedure: log loss" in str(cal)


def tied(seed: int) -> worlds.Rows:
    """A calibrated model of 200 rows and three scores."""
    return worlds.tied([0.6, 0.8, 0.95], 200, seed)


def test_a_model_is_changed_only_where_the_nested_loss_falls():
    """Of 40 draws the cross-fitted loss alone would change these nine, and the nested loss falls in few of them."""
    found = [quiet(*tied(seed)) for seed in (0, 1, 7, 12, 27, 29, 32, 33, 37)]
    changed = [cal for cal in found if cal.choice_ != "identity"]
    assert all(cal.change_.value < 0.0 for cal in changed)
    assert len(changed) <= 3


OUTCOMES = {"chosen", "negligibly-better", "not-significantly-different", "unreliably-better", "worse"}
"""What may become of a candidate that is compared."""


def test_sentence_and_table_never_disagree(full_size):
    """Whatever is kept, no candidate is called better; whatever is chosen, the nested loss is lower."""
    for seed in range(4 if full_size else 2):
        for level in (0.0, 0.4):
            data = sample(120, seed, level)
            cal = quiet(*data)
            outcomes = {line.outcome.code for line in cal.comparison_.lines}
            assert outcomes <= {*OUTCOMES, "needs-minority-rows"}
            if cal.choice_ == "identity":
                assert "Keep the original model" in str(cal)
                assert cal.after_.notes, "it is the loss of the procedure, not of the model that is kept"
                assert cal.change_.value >= 0.0 or not OriginalTest.of(Tally.from_arrays(*data)).rejects
            else:
                assert cal.change_.value < 0.0
                assert not cal.after_.notes


def test_a_difference_that_is_negligible_is_called_so():
    """One candidate is surely better, by less than 0.07 % of the loss of a constant."""
    scores = np.tile([0.3, 0.7], 2)
    counts = np.array([699_000, 299_000, 301_000, 701_000])
    moved = Candidate("moved", lambda tally: StepMap([0.5], [0.3009, 0.7009]))
    tally = Tally.from_arrays(scores, np.repeat([0, 1], 2), counts, weight_type="frequency")
    found = select(Folds.at_random(tally), [CANDIDATES["identity"], moved], tally, "log", blend=Blend((moved,)))
    lines = {line.name: line.outcome.code for line in found.comparison.lines}
    assert OriginalTest.of(tally).rejects or lines["identity"] == "chosen"
    assert set(lines.values()) <= OUTCOMES - {"unreliably-better"}


def test_the_rule_is_printed_with_its_numbers():
    comparison = plain().comparison_
    within = f"higher by at most {comparison.negligible:.2g} (0.07 % of the loss"
    assert within in str(comparison)
    assert comparison.rule is ChoiceRule.BLEND
    rule = str(comparison).partition("\nRule:\n")[2].splitlines()
    assert rule[0] == "  The blend is chosen unless one of the following holds."
    assert rule[1].startswith("  A simpler candidate is chosen if its loss is higher by at most ")
    assert rule[3].startswith(
        "  If a test of its intercept and slope rejects it (significance level 0.01), only nested"
    )


def test_the_rule_says_why_lower_losses_were_not_chosen():
    lines = (
        Compared("identity", 0.70, np.nan, np.nan, np.nan, comparison_module.worse()),
        Compared("platt", 0.650, -0.05, -0.06, -0.04, comparison_module.not_significantly_different()),
        Compared("beta", 0.649, -0.051, -0.06, -0.04, comparison_module.not_significantly_different()),
        Compared("blend", 0.652, -0.048, -0.06, -0.04, comparison_module.chosen(), chosen=True),
    )
    why = str(Comparison("log", "identity", lines, 0.00048)).splitlines()[-1]
    assert why == (
        "  platt and beta have a lower loss, but each could be worse than the blend by more than 0.00048: the "
        "difference is within 2 standard errors."
    )
    assert "lower loss, but" not in str(Comparison("log", "identity", (lines[0], lines[3]), 0.00048))


def test_the_test_of_the_original_model_is_that_of_check():
    """The same p-values for rows, importance weights and groups."""
    scores, y = sample(900, 3, level=0.2)
    rng = np.random.default_rng(0)
    weights, groups = rng.uniform(0.5, 3.0, 900), rng.integers(0, 60, 900)
    for options in ({}, {"sample_weight": weights}, {"groups": groups}, {"sample_weight": weights, "groups": groups}):
        rows = check_rows(scores, y, **options)
        folds = Folds.of_rows(rows)
        found = OriginalTest.of(Tally.from_rows(rows) if folds.rows is None else folds.rows)
        verdict = check(scores, y, **options)
        assert found.slope == pytest.approx(verdict.slope.p_value, rel=1e-6)
        if options:
            assert found.level == pytest.approx(verdict.intercept.p_value, rel=1e-6)


def test_rows_that_repeat_each_other_reject_nothing():
    """Twenty groups of 50 equal rows are twenty rows, for which 12 events of 8 predicted are chance."""
    scores, y = np.repeat(np.linspace(0.3, 0.5, 20), 50), np.repeat(np.arange(20) % 5 < 3, 50)
    rows = check_rows(scores, y, groups=np.repeat(np.arange(20), 50))
    assert OriginalTest.of(Tally.from_rows(rows)).rejects
    assert not OriginalTest.of(Folds.of_rows(rows).rows).rejects
    few = check_rows(scores, y, groups=np.repeat(np.arange(5), 200))
    assert not OriginalTest.of(Folds.of_rows(few).rows).rejects, "fewer than ten groups say nothing"


def test_log_odds_are_tested_as_probabilities():
    scores, y = sample(2000, 1)
    kept = np.clip(scores, 0.001, 0.999)
    for groups in (None, np.arange(2000) // 20):
        tests = []
        for given_scores, kind in ((kept, "probability"), (logit(kept), "logit")):
            rows = check_rows(given_scores, y, score_type=kind, groups=groups)
            tests.append(OriginalTest.of(Tally.from_rows(rows) if groups is None else Clusters.of_rows(rows)))
        assert tests[0].level == pytest.approx(tests[1].level, rel=1e-6)
        assert tests[0].slope == pytest.approx(tests[1].slope, rel=1e-6)
    assert not OriginalTest.of(Tally.from_arrays(scores, y, score_type="real")).rejects
    assert not OriginalTest.of(Tally.from_arrays([0.0, 0.0, 1.0, 1.0] * 50, [0, 1, 0, 1] * 50)).rejects


def test_a_rejection_is_told_with_its_direction(subtests):
    """Events as expected on 20 scores of 10,000 rows each, symmetric about one half."""
    for level, slope, words in [
        (0.5, 1.0, "the probabilities are too low (p < 0.0001)"),
        (-0.5, 1.0, "the probabilities are too high (p < 0.0001)"),
        (0.0, 0.5, "the scores are too extreme (slope 0.5, p < 0.0001)"),
        (0.0, 1.5, "the scores are not extreme enough (slope 1.5, p < 0.0001)"),
    ]:
        with subtests.test(level=level, slope=slope, words=words):
            x = np.linspace(-2.0, 2.0, 20)
            events = np.round(10_000 * expit(level + slope * x)).astype(int)
            assert words in str(OriginalTest.of(cal_tally(expit(x), np.full(20, 10_000), events)))


# ---------------------------------------------------------------------------------------------------------------------
# What is chosen and what is said
# ---------------------------------------------------------------------------------------------------------------------


def test_a_calibrated_model_is_kept_and_told_so():
    scores, y = sample(4000, 1, level=0.0)
    cal = calibrate(scores, y)
    assert cal.choice_ == "identity"
    assert "Keep the original model: no candidate is reliably better." in str(cal)
    np.testing.assert_allclose(cal.transform(scores), scores, rtol=1e-12)
    assert abs(cal.change_.value) < 0.001


def test_a_moved_level_is_moved_back():
    """With many rows the shift alone is surely as good as an average of curves."""
    cal = calibrate(*sample(40_000))
    assert cal.choice_ == "shift"
    assert cal.map_.intercept == pytest.approx(1.0, abs=0.05)
    assert cal.change_.high < 0.0
    assert cal.before_.value + cal.change_.value == pytest.approx(cal.after_.value)
    assert "Chosen: shift" in str(cal)
    assert f"{cal.before_.value:.4f} -> {cal.after_.value:.4f}" in str(cal)


def test_the_chosen_map_is_fitted_to_all_rows():
    scores, y = sample(3000, 4)
    cal = calibrate(scores, y, candidates=[PlattScaling(), HistogramBinning(n_bins=3)])
    assert cal.choice_ == "PlattScaling()"
    assert cal.map_ == PlattScaling().fit(scores, y).map_


def test_the_ladder_goes_by_the_rarer_class(subtests):
    """Few events and few non-events in turn."""
    for flip, (events, names) in enumerate(
        [
            (2, {"identity", "shift"}),
            (3, {"identity", "shift", "blend"}),
            (10, {"identity", "shift", "shrunken", "blend"}),
            (50, {"identity", "shift", "shrunken", "temperature", "platt", "beta", "blend"}),
            (100, {"identity", "shift", "shrunken", "temperature", "platt", "beta", "spline", "blend"}),
            (1000, {*CANDIDATES, "blend"}),
        ]
    ):
        with subtests.test(events=events):
            y = (np.arange(3000) < events).astype(int)
            scores = np.random.default_rng(0).beta(2, 4, 3000).round(2)
            cal = calibrate(1 - scores if flip % 2 else scores, 1 - y if flip % 2 else y, cv=3)
            assert {line.name for line in cal.comparison_.lines if np.isfinite(line.loss)} == names


def test_the_comparison_prints_as_a_table_and_as_data():
    cal = calibrate(*sample(300))
    lines = str(cal.comparison_).splitlines()
    lines = lines[: lines.index("Rule:") + 1]
    assert " ".join(lines[0].split()) == "candidate log loss vs. identity (95 % CI) vs. chosen"
    assert [line.split("  ")[0].strip() for line in lines[1:-1]] == [*CANDIDATES, BLEND.name]
    assert sum("chosen" in line for line in lines[1:-1]) == 1
    assert "not tried alone: needs at least 1,000 minority-class rows" in lines[-3]
    data = cal.comparison_.to_dict()
    assert data["candidates"][-2]["loss"] is None
    assert data["candidates"][-2]["outcome"]["code"] == "needs-minority-rows"
    assert data["candidates"][-2]["outcome"]["needed"] == 1000
    assert [each["name"] for each in data["candidates"] if each["chosen"]] == [cal.choice_]


def test_names_given_by_the_user_are_tried_at_any_number_of_rows():
    cal = calibrate(*sample(40), candidates=["isotonic", "beta"])
    assert [line.name for line in cal.comparison_.lines] == ["identity", "isotonic", "beta"]
    assert all(np.isfinite(line.loss) for line in cal.comparison_.lines)


def test_what_cannot_be_meant_is_refused(subtests):
    for options, words in [
        ({"candidates": ["plat"]}, "candidates"),
        ({"candidates": [3]}, "candidates"),
        ({"loss": "ece"}, "loss"),
        ({"cv": 1}, "cv"),
        ({"cv": 2.5}, "cv"),
        ({"guarantee": (0.1,)}, "guarantee"),
        ({"guarantee": (0.1, 1.0)}, "guarantee"),
        ({"guarantee": (0.1, 0.1), "candidates": ["platt"]}, "candidates"),
        ({"groups": np.arange(1200) % 9, "time": np.arange(1200)}, "groups leave no earlier row"),
        ({"groups": "patient"}, "groups"),
        ({"score": "s", "groups": "g"}, "label"),
    ]:
        with subtests.test(options=options, words=words):
            scores, y = sample()
            with pytest.raises(InputError, match=words):
                calibrate(scores, None if "score" in options else y, **options)


def test_brier_and_log_loss_are_what_they_are_called():
    scores, y = sample(800, 2)
    assert calibrate(scores, y, loss="brier", candidates=["platt"]).before_.value == pytest.approx(
        np.mean((scores - y) ** 2)
    )
    held = np.clip(scores, 2.0**-32, 1 - 2.0**-32)
    expected = -np.mean(y * np.log(held) + (1 - y) * np.log1p(-held))
    assert calibrate(scores, y, candidates=["platt"]).before_.value == pytest.approx(expected)


# ---------------------------------------------------------------------------------------------------------------------
# Honesty: nothing is judged by what it was chosen on or fitted to
# ---------------------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6))
def test_numbers_after_never_use_the_labels_they_are_about(seed):
    """A candidate that remembers the rows it is fitted to would show a loss of zero if it ever met them again."""

    def memory(tally: Tally) -> StepMap:
        keys, rates = tally.scores, tally.events / tally.n
        return StepMap(keys[1:], rates)

    rng = np.random.default_rng(seed)
    tally = Tally.from_arrays(rng.permutation(40) / 40, np.arange(40) % 2)
    found = select(Folds.at_random(tally), [constant(0.5), Candidate("memory", memory)], tally, "brier")
    assert found.comparison.lines[1].loss > 0.05
    assert found.after.value > 0.05


@pytest.mark.parametrize("forward", [False, True])
def test_each_part_is_judged_without_it(forward):
    """What is fitted to lacks one part, or two, or whatever is not past."""
    seen: list[float] = []

    def watch(tally: Tally) -> StepMap:
        seen.append(float(tally.total))
        return StepMap([], [0.5])

    parts = tuple(quiet_tally([0.2, 0.5, 0.7], [i & 1, 1, i >> 1]) for i in range(4))
    whole = parts[0] + parts[1] + parts[2] + parts[3]
    select(Folds(parts, forward=forward), [Candidate("watch", watch)], whole, "log")
    assert sorted(seen) == ([3.0, 6.0, 9.0] if forward else [6.0] * 6 + [9.0] * 4)


# ---------------------------------------------------------------------------------------------------------------------
# Order, merging, weights, groups, time, kinds
# ---------------------------------------------------------------------------------------------------------------------


TWO = ["platt", "isotonic"]
"""Candidates for tests of how rows are cut, which the others would make slower and no stricter."""


def numbers(cal: AutoCalibrator) -> tuple:
    return cal.choice_, cal.before_.value, cal.after_.value, cal.change_.se, str(cal.comparison_)


def test_order_and_merging_change_no_number():
    scores, y = sample(450, 6)
    order = np.random.default_rng(1).permutation(450)
    cal = calibrate(scores, y)
    assert numbers(calibrate(scores[order], y[order])) == numbers(cal)
    parts = Tally.from_arrays(scores[:150], y[:150]) + Tally.from_arrays(scores[150:], y[150:])
    assert numbers(calibrate(parts)) == numbers(cal)


def test_order_changes_no_number_by_groups_and_by_time():
    scores, y = sample(450, 6)
    order = np.random.default_rng(1).permutation(450)
    for name, column in (("groups", np.arange(450) % 60), ("time", np.arange(450) // 7)):
        cal = calibrate(scores, y, **{name: column}, candidates=TWO)
        other = calibrate(scores[order], y[order], **{name: column[order]}, candidates=TWO)
        assert numbers(other) == numbers(cal)


def test_weights_that_count_are_repetition(subtests):
    scores, y = sample(450, 7)
    w = np.random.default_rng(2).integers(0, 4, 450)
    for way, options in [
        ({}, {}),
        ({"groups": np.arange(450) % 60}, {"candidates": TWO}),
        ({"time": np.arange(450) // 7}, {"candidates": TWO}),
    ]:
        with subtests.test(*way):
            long = {name: np.repeat(column, w) for name, column in way.items()}
            once = calibrate(scores, y, w, weight_type="frequency", **way, **options)
            assert numbers(once) == numbers(calibrate(np.repeat(scores, w), np.repeat(y, w), **long, **options))


def test_equal_weights_are_no_weights_and_their_unit_is_nothing(subtests):
    scores, y = sample(450, 8)
    for way, units, options in [
        ({}, (0.3,), {}),
        ({}, (0.3, 1e-7), {"candidates": TWO}),
        ({"groups": np.arange(450) % 60}, (0.3, 1e-7), {"candidates": TWO}),
        ({"time": np.arange(450) // 7}, (0.3, 1e-7), {"candidates": TWO}),
    ]:
        plain = calibrate(scores, y, **way, **options)
        for unit in units:
            with subtests.test(*way, unit=unit, **options):
                cal = calibrate(scores, y, np.full(450, unit), **way, **options)
                assert cal.choice_ == plain.choice_
                assert cal.after_.value == pytest.approx(plain.after_.value, abs=1e-9)
                assert cal.change_.se == pytest.approx(plain.change_.se, rel=1e-6)


def test_a_row_that_outweighs_its_cell_falls_into_one_part():
    """Nine light rows and one heavy one on one score: worth about one row, which only one part can hold."""
    w = np.append(np.full(9, 0.01), 5.3)
    tally = Tally.from_arrays(np.full(10, 0.4), np.append(np.zeros(9), 1), w).for_fitting()
    folds = Folds.at_random(tally)
    assert sum(part.positives > 0 for part in folds.parts) == 1
    assert sum(part.total for part in folds.parts) == pytest.approx(tally.total)


def test_weighted_parts_add_up_to_the_whole_on_a_grid_too():
    scores, y = sample(500, 9)
    w = np.random.default_rng(3).random(500) + 0.1
    for grid in (None, Grid(4)):
        tally = Tally.from_arrays(scores, y, w, grid=grid).for_fitting()
        parts = Folds.at_random(tally).parts
        added = parts[0] + parts[1] + parts[2] + parts[3] + parts[4]
        np.testing.assert_allclose(added.n, tally.n)
        np.testing.assert_allclose(added.events, tally.events, atol=1e-9)
        np.testing.assert_allclose(added.cells.w2, tally.cells.w2)
        np.testing.assert_allclose(added.scores, tally.scores, rtol=1e-9)


def test_groups_stay_together_and_widen_the_interval():
    """Rows that are copies of each other: as rows the interval is too short, as groups it is that of the originals."""
    scores, y = sample(300, 10, level=0.5)
    many, labels, groups = np.repeat(scores, 9), np.repeat(y, 9), np.repeat(np.arange(300), 9)
    alone, copies = calibrate(scores, y, candidates=["shift"]), calibrate(many, labels, candidates=["shift"])
    grouped = calibrate(many, labels, groups=groups, candidates=["shift"])
    assert copies.before_.se == pytest.approx(alone.before_.se / 3, rel=0.1)
    assert grouped.before_.se == pytest.approx(alone.before_.se, rel=0.2)


def test_groups_are_dealt_whole():
    scores, y = sample(600, 11)
    rows_of = np.arange(600) % 40
    from calibrant.arrays import check_rows

    folds = Folds.of_rows(check_rows(scores, y, groups=rows_of))
    assert sum(len(buckets) for buckets in folds.clusters) <= 40
    for part, buckets in zip(folds.parts, folds.clusters, strict=True):
        assert part.total == sum(bucket.total for bucket in buckets)
        assert all(bucket.total % 15 == 0 for bucket in buckets)  # 15 rows in each group


def test_a_level_that_moves_is_followed_only_by_what_comes_later():
    """The odds double in the last third: walking forward no gain is seen before it happened."""
    rng = np.random.default_rng(12)
    scores, when = rng.beta(2, 4, 3000), np.arange(3000)
    y = rng.random(3000) < expit(logit(scores) + np.where(when >= 2000, 1.5, 0.0))
    shuffled, walked = (calibrate(scores, y, **way, candidates=TWO) for way in ({}, {"time": when}))
    assert walked.change_.value > shuffled.change_.value
    assert isinstance(walked.certificate(), NoCertificate)


def test_frames_and_their_columns_are_the_arrays():
    pl = pytest.importorskip("polars")
    scores, y = sample(700, 13)
    frame = pl.DataFrame({"s": scores, "y": y, "g": np.arange(700) % 50, "t": np.arange(700) // 10, "w": y + 1.5})
    assert numbers(calibrate(frame, score="s", label="y", candidates=["platt"])) == numbers(
        calibrate(scores, y, candidates=["platt"])
    )
    for name, column in (("groups", "g"), ("time", "t")):
        cal = calibrate(frame.lazy(), score="s", label="y", sample_weight="w", **{name: column}, candidates=["platt"])
        like = calibrate(scores, y, y + 1.5, **{name: frame[column].to_numpy()}, candidates=["platt"])
        assert numbers(cal) == numbers(like)
    with pytest.raises(InputError, match="name a column"):
        calibrate(frame, score="s", label="y", time=np.arange(700))
    with pytest.raises(InputError, match="both name the labels"):
        calibrate(frame, y, score="s", label="y", time="t")


def test_a_tally_comes_alone():
    tally = Tally.from_arrays(*sample(200))
    assert calibrate(tally, sampling="selected", candidates=["platt"]).provenance_.sampling == "selected"
    with pytest.raises(InputError, match="groups cannot be combined with a tally"):
        calibrate(tally, groups=[1, 2])


def test_a_grid_and_a_table_of_bins_give_nearly_the_same():
    scores, y = sample(3000, 14)
    cal = calibrate(scores, y)
    gridded = calibrate(Tally.from_arrays(scores, y, grid=Grid()))
    assert gridded.choice_ == cal.choice_
    assert gridded.after_.value == pytest.approx(cal.after_.value, abs=2e-3)
    edges = np.arange(1, 20) / 20
    place = np.searchsorted(edges, scores, side="right")
    n = np.bincount(place, minlength=20)
    means = np.bincount(place, scores, minlength=20) / np.maximum(n, 1)
    table = Tally.from_table(n, np.bincount(place, y, minlength=20), edges=edges, scores=means)
    assert calibrate(table, candidates=["platt"]).change_.high < 0.0
    with pytest.raises(InputError, match="mean scores"):
        calibrate(Tally.from_table([5, 5], [1, 4], edges=[0.5]))


def test_many_scores_are_compared_on_a_grid_and_fitted_exactly():
    rng = np.random.default_rng(15)
    scores = rng.random(140_000)
    y = rng.random(140_000) < expit(logit(scores) + 1)
    cal = calibrate(scores, y, candidates=["platt"])
    assert cal.map_ == PlattScaling().fit(scores, y).map_
    assert numbers(cal) == numbers(calibrate(Tally.from_arrays(scores, y, grid=COMPARISON_GRID), candidates=["platt"]))
    by_time = calibrate(scores, y, time=np.arange(140_000) // 1000, candidates=["platt"])
    assert by_time.map_ == cal.map_


def test_log_odds_are_kept_and_real_scores_have_platts_map_at_least():
    scores, y = sample(2000, 16, level=0.0)
    kept = calibrate(logit(np.clip(scores, 0.01, 0.99)), y, score_type="logit")
    assert kept.choice_ == "identity"
    assert kept.map_ == LogitAffineMap(1.0, 0.0, on="score")
    real = calibrate(100 * scores, y, score_type="real")
    assert real.comparison_.reference == "platt"
    assert "identity" not in [line.name for line in real.comparison_.lines]
    assert calibrate(100 * scores[:20], y[:20], score_type="real").choice_ == "platt"
    assert calibrate(100 * scores, y, score_type="real", candidates=["isotonic"]).comparison_.lines[0].name == "platt"


# ---------------------------------------------------------------------------------------------------------------------
# Edges
# ---------------------------------------------------------------------------------------------------------------------


def test_hardly_any_rows_keep_the_model(subtests):
    for scores, y in [([0.3], [1]), ([0.0], [1]), ([0.3, 0.6], [0, 1]), ([0.5, 0.5], [1, 1])]:
        with subtests.test(scores=scores, y=y):
            for way in ({}, {"time": np.arange(len(y))}, {"groups": np.arange(len(y))}):
                cal = quiet(scores, y, **way)
                assert cal.choice_ == "identity"
                assert np.isnan(cal.after_.value) or len(y) == 2
                assert cal.status_ == cal.calibration_.provenance.status == "uncalibrated"
                assert str(cal).startswith("Uncalibrated: ")
                assert "Keep the original model" not in str(cal)


def test_one_row_says_why_nothing_is_known():
    cal = quiet([0.3], [1])
    assert str(cal).startswith("Uncalibrated: the labels have only one class, so the scores are returned unchanged.\n")
    assert [note.code for note in cal.after_.notes] == ["too-few-folds"]
    assert "not known (too few folds to fit on some and evaluate on others)." in nested_sentence(
        PYTHON, (cal.before_, cal.after_, cal.change_), "log", kept=True
    )
    assert "chosen: nothing to compare it with" in str(cal.comparison_)
    assert cal.after_.to_dict()["value"] is None


def test_a_constant_score_is_moved_to_the_rate():
    cal = calibrate(np.full(2000, 0.5), np.arange(2000) % 5 == 0)
    assert cal.transform([0.5])[0] == pytest.approx(0.2, abs=2e-3)


def test_scores_of_0_and_1_that_are_wrong_now_and_then_are_tamed():
    """A fifth of the zeros and ones are wrong: kept, they would cost 22 nats each."""
    scores = np.repeat([0.0, 1.0], 500)
    y = np.where(np.arange(1000) % 5 == 0, 1 - scores, scores)
    cal = calibrate(scores, y)
    assert cal.before_.value == pytest.approx(0.2 * 32 * np.log(2), rel=1e-6)
    np.testing.assert_allclose(cal.transform([0.0, 1.0]), [0.2, 0.8], atol=0.02)


def test_one_group_or_one_moment_leaves_nothing_to_compare():
    scores, y = sample(100)
    for way in ({"groups": np.zeros(100, dtype=int)}, {"time": np.zeros(100)}):
        cal = calibrate(scores, y, **way)
        assert cal.choice_ == "identity"
        assert np.isnan(cal.change_.value)


# ---------------------------------------------------------------------------------------------------------------------
# Certificates
# ---------------------------------------------------------------------------------------------------------------------


def test_no_certificate_after_a_choice_on_the_same_rows():
    answer = calibrate(*sample(), candidates=[HistogramBinning(n_bins=3)]).certificate()
    assert isinstance(answer, NoCertificate)
    assert "guarantee=(epsilon, alpha)" in str(answer)


def test_a_guarantee_is_made_of_all_rows_at_its_share_of_alpha():
    scores, y = sample(6000, 17)
    cal = calibrate(scores, y, guarantee=(0.08, 0.1))
    answer = cal.certificate()
    assert isinstance(answer, Certificate)
    assert answer.epsilon <= 0.08
    assert answer.alpha == 0.1
    assert answer.n + answer.uncovered_rows == 6000
    # The first look has 80 % of alpha, and B bins a share of it that is proportional to 1 / B.
    count = int(answer.covered.sum())
    assert answer.about.share == pytest.approx(0.8 / count / sum(1 / each for each in BIN_COUNTS))
    low, high = clopper_pearson(answer.events, answer.rows, 0.1 * answer.about.share / int(answer.covered.sum()))
    np.testing.assert_allclose(answer.lower[answer.covered], low[answer.covered])
    np.testing.assert_allclose(answer.upper[answer.covered], high[answer.covered])
    assert Assumption.FIRST_LOOK in answer.assumptions


def test_the_shares_of_alpha_add_up_to_one():
    for n in (10, 100, 1_000, 100_000):
        assert sum(Guarantee(0.05, 0.1).shares(n).values()) == pytest.approx(0.8)
        assert Guarantee(0.05, 0.1).shares(n) == Guarantee(0.3, 0.01).shares(n), "so epsilon may be chosen on the rows"
    assert sum(look_share(look) for look in range(1, 60)) == pytest.approx(1.0)


def test_a_guarantee_survives_a_document():
    cal = calibrate(*sample(6000, 17), guarantee=(0.08, 0.1), look=2)
    again = Calibration.from_json(cal.calibration_.to_json())
    assert again.certificate.about.share == cal.certificate().about.share
    assert again.certificate.about.look == 2


def test_a_guarantee_of_another_alpha_is_the_default_of_its_certificate():
    cal = calibrate(*sample(3000, 18), guarantee=(0.15, 0.05))
    assert cal.certificate().alpha == 0.05


def test_more_is_asked_for_and_fewer_bins_are_made():
    scores, y = sample(6000, 17)
    tight, loose = (calibrate(scores, y, guarantee=(epsilon, 0.1)).bins_ for epsilon in (0.04, 0.15))
    assert len(tight.n) < len(loose.n)


def test_a_guarantee_that_cannot_be_kept_says_when_to_ask_again(subtests):
    for n in [1, 2, 40, 500]:
        with subtests.test(n=n):
            scores, y = sample(n, 19)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrantWarning)
                with pytest.raises(TooFewLabels) as error:
                    calibrate(scores, y, guarantee=(0.01, 0.1))
                assert error.value.argument == "guarantee"
                assert error.value.labels == n * 2 ** (error.value.look - 1)
                assert (error.value.wider is None) == (n < 4), "two bins need two rows each"


def test_asking_again_is_advised_for_a_power_of_two_times_the_labels_that_suffices_for_two_bins():
    """Rate 1/2, epsilon 0.02: (z / 2 / 0.02)^2 rows in each of two bins, z at 0.1 times the share of look 7, halved."""
    y = np.arange(500) % 2
    with pytest.raises(TooFewLabels) as error:
        calibrate(np.linspace(0.3, 0.7, 500), y, guarantee=(0.02, 0.1))
    share = 0.2 / 2**6 / 2 / sum(1 / each for each in BIN_COUNTS)
    z = ndtri(1 - 0.1 * share / 2 / 2)
    assert 16_000 < 2 * (z / 2 / 0.02) ** 2 < 32_000
    assert (error.value.labels, error.value.look) == (32_000, 7)


HARD = {
    "continuous": lambda rng, n: rng.beta(2, 5, n),
    "rare events": lambda rng, n: rng.beta(1, 80, n),
    "float32": lambda rng, n: rng.random(n).astype(np.float32),
    "rounded": lambda rng, n: rng.random(n).round(1),
    "constant": lambda rng, n: np.full(n, 0.3),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize(
    "n", [400, pytest.param(60, marks=pytest.mark.full), pytest.param(3000, marks=pytest.mark.full)]
)
@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
def test_what_a_refusal_names_is_met(name, n):
    """The epsilon on the same rows, exactly; and the labels, which include these rows."""
    rng = np.random.default_rng(24)
    scores = HARD[name](rng, 40 * n)
    y, epsilon = rng.random(40 * n) < scores, 0.02 if n < 3000 else 0.005
    with pytest.raises(TooFewLabels) as error:
        calibrate(scores[:n], y[:n], guarantee=epsilon, score_type="probability")
    wider = error.value.wider.value
    answer = calibrate(scores[:n], y[:n], guarantee=wider, score_type="probability").certificate()
    assert 0.99 * wider < answer.epsilon <= wider
    with pytest.raises(TooFewLabels):
        calibrate(scores[:n], y[:n], guarantee=0.99 * wider, score_type="probability")
    rows, look = error.value.labels, error.value.look
    while rows > len(scores):
        more = HARD[name](rng, len(scores))
        scores, y = np.append(scores, more), np.append(y, rng.random(len(more)) < more)
    answer = calibrate(scores[:rows], y[:rows], guarantee=epsilon, look=look, score_type="probability").certificate()
    assert answer.epsilon <= epsilon


def test_the_guaranteed_map_is_the_one_that_is_saved_and_exported(tmp_path):
    scores, y = sample(6000, 17)
    cal = calibrate(scores, y, guarantee=0.08)
    cal.save(tmp_path / "map.json")
    loaded, fresh = load(tmp_path / "map.json"), np.random.default_rng(0).random(999)
    fresh = np.r_[fresh, 0.0, 1.0, cal.bins_.knots, fresh.astype(np.float32)]
    expected = cal.transform(fresh)
    assert loaded.certificate.describes(cal.map_)
    assert (loaded.certificate.epsilon, loaded.certificate.alpha) == (cal.certificate().epsilon, 0.05)
    assert str(loaded.certificate) in str(cal).replace("\n  ", "\n")
    for again in (loaded, Calibration.from_json(cal.to_json())):
        assert again.transform(fresh).tobytes() == expected.tobytes()
    rows = duckdb.from_arrow(pa.table({"s": fresh, "place": np.arange(len(fresh))}))
    found = rows.project(f"place, {cal.to_sql('s')} AS p").order("place").fetchnumpy()["p"]
    assert np.asarray(found, dtype=np.float64).tobytes() == expected.tobytes()
    assert check(scores, y, calibration=cal).in_sample


def test_a_guarantee_that_only_a_constant_meets_is_an_error():
    """One bin would be within 0.02, and would be useless."""
    rng = np.random.default_rng(3)
    scores = rng.random(3000)
    with pytest.raises(InputError, match="even two bins are not within"):
        calibrate(scores, rng.random(3000) < scores, guarantee=(0.02, 0.1))


def test_a_look_is_a_positive_integer(subtests):
    for look in [0, -1, 1.5, True, "2"]:
        with subtests.test(look=look), pytest.raises(InputError, match="look must be an integer"):
            calibrate(*sample(), guarantee=(0.2, 0.1), look=look)


def test_a_look_needs_a_guarantee():
    with pytest.raises(InputError, match="pass guarantee too"):
        calibrate(*sample(), look=2)


def test_a_guarantee_is_a_pair_of_numbers(subtests):
    assert plain().bins_ is None, "none is asked for"
    scores, y = sample()
    assert calibrate(scores, y, guarantee=0.2).map_ == calibrate(scores, y, guarantee=(0.2, 0.05)).map_
    for guarantee in ["0.05", (0.05,), (0.05, "a"), 5, 0, np.nan, True, (0.05, 0.1, 0.1)]:
        with subtests.test(guarantee=guarantee), pytest.raises(InputError) as error:
            calibrate(scores, y, guarantee=guarantee)
        assert error.value.argument == "guarantee"


def test_parts_of_the_blend_are_not_said_to_be_untried():
    cal = calibrate(scores := np.linspace(0.01, 0.99, 400), np.arange(400) % 7 < 6 * (scores > 0.5))
    assert cal.choice_ == "blend"
    not_tried = next(line for line in str(cal).splitlines() if "Not tried" in line)
    assert not any(name in not_tried for name in cal.weights_)


def test_rare_events_need_fewer_labels_than_the_worst_case():
    rng = np.random.default_rng(20)
    scores = rng.beta(1, 60, 3000)
    cal = calibrate(scores, rng.random(3000) < scores, guarantee=(0.03, 0.1))
    assert cal.certificate().epsilon <= 0.03  # 0.5 / 0.03 would need 1 / (2 * 0.03^2) * log(20) = 1,664 rows a bin


# ---------------------------------------------------------------------------------------------------------------------
# Folds and splits
# ---------------------------------------------------------------------------------------------------------------------


@given(n=st.integers(1, 60), count=st.integers(2, 10))
def test_random_parts_are_all_of_the_rows_and_nearly_equal(n, count):
    tally = quiet_tally(np.linspace(0, 1, n), np.arange(n) % 2)
    parts = random_folds(tally, 0, count)
    assert sum(part.total for part in parts) == n
    assert max(part.total for part in parts) - min(part.total for part in parts) <= 1


def test_dealing_goes_round():
    tallies = [Tally.from_table([i + 1], [0], edges=[]) for i in range(7)]
    assert [[t.total for t in part] for part in deal(tallies, 3)] == [[1, 4, 7], [2, 5], [3, 6]]


def test_the_rarer_class_is_counted():
    assert Facts.of(quiet_tally([0.1] * 5, [1, 1, 1, 0, 1])) == ("probability", 5.0, 1.0)


@given(n=st.integers(12, 200), seed=st.integers(0, 5))
def test_a_split_holds_every_row_once(n, seed):
    parts = split_rows(n, random_state=seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    assert abs(len(parts.train) - 0.6 * n) <= 1
    assert all((np.diff(part) > 0).all() for part in parts)


def test_a_split_by_groups_cuts_none_and_by_time_goes_forward():
    groups = np.repeat(np.arange(30), 7)
    found = [set(groups[part]) for part in split_rows(210, groups=groups)]
    assert sum(len(part) for part in found) == 30
    time = np.random.default_rng(0).integers(0, 40, 300)
    train, calibrate_, test = (time[part] for part in split_rows(300, (2, 1, 1), time=time))
    assert train.max() < calibrate_.min()
    assert calibrate_.max() < test.min()


def test_walking_forward_never_looks_ahead():
    time = np.random.default_rng(1).permutation(100)
    steps = list(walk_forward(time, 4))
    assert len(steps) == 4
    for parts in steps:
        assert time[parts.train].max() < time[parts.calibrate].min()
        assert time[parts.calibrate].max() < time[parts.test].min()


def test_a_split_that_cannot_be_is_refused(subtests):
    for ask in [
        lambda: split_rows(2),
        lambda: split_rows(2.5),
        lambda: split_rows(10, (1, 1)),
        lambda: split_rows(10, (1, 0, 1)),
        lambda: split_rows(10, groups=[1] * 10),
        lambda: split_rows(10, groups=[1] * 10, time=range(10)),
        lambda: list(walk_forward([1, 2, 3], 2)),
        lambda: list(walk_forward([1, 2, 3], 0)),
    ]:
        with subtests.test(ask=ask), pytest.raises(InputError):
            ask()


# ---------------------------------------------------------------------------------------------------------------------
# Weights, few parts and promises: what must not pass unseen
# ---------------------------------------------------------------------------------------------------------------------


def test_whole_importance_weights_are_not_repetition():
    """Each row of weight 20 is one row: its part is judged by maps that have not seen it."""
    rng = np.random.default_rng(0)
    scores = rng.beta(2, 5, 3000)
    y = rng.random(3000) < scores
    cal = calibrate(scores, y, np.full(3000, 20.0))
    assert cal.choice_ == "identity"
    assert cal.change_.value > -5e-4
    tally = calibrate(Tally.from_arrays(scores, y, np.full(3000, 20.0)), candidates=["platt"])
    assert tally.choice_ == "identity"
    near = calibrate(scores, y, np.full(3000, 20.5), candidates=["platt"])
    np.testing.assert_allclose(near.before_.se, cal.before_.se, rtol=1e-9)


def test_a_row_falls_into_one_part_whatever_its_weight():
    scores, y = np.full(1001, 0.5), np.append(1, np.zeros(1000, dtype=int))
    rows = check_rows(scores, y, np.append(20.5, np.ones(1000)))
    events = [float(part.positives) for part in Folds.of_rows(rows).parts]
    assert sum(each > 0 for each in events) == 1


def test_with_two_parts_there_are_no_nested_numbers(subtests):
    """What is chosen without one of two parts would have been chosen by the part itself."""
    for name, how in {
        "two parts": {"cv": 2},
        "two groups": {"groups": np.arange(1200) % 2},
        "two moments": {"time": np.arange(1200) % 2},
    }.items():
        with subtests.test(name):
            cal = calibrate(*sample(), **how)
            assert cal.choice_ != "identity"
            assert np.isnan(cal.change_.value)
            assert "not known (too few folds" in str(cal)


def test_walking_forward_leaves_out_the_part_that_had_nothing_to_choose_by():
    scores, y = sample(6000)
    cal = calibrate(scores, y, time=np.arange(6000))
    line = next(line for line in cal.comparison_.lines if line.chosen)
    assert cal.change_.value == pytest.approx(line.change, abs=0.01)


def test_a_guarantee_without_a_certificate_is_an_error(subtests):
    scores, y = sample()
    weights = np.random.default_rng(3).random(1200) + 0.1
    for how in [
        {"sampling": "selected"},
        {"sampling": "out-of-fold"},
        {"groups": np.arange(1200) % 60},
        {"time": np.arange(1200)},
        {"sample_weight": weights},
    ]:
        for wish in (0.2, 0.001):  # never too few labels: no number of them would do
            for fit in (calibrate, AutoCalibrator(guarantee=wish).fit):
                named = {"guarantee": wish} if fit is calibrate else {}
                with subtests.test(how=how, wish=wish), pytest.raises(InputError) as error:
                    fit(scores, y, **named, **how)
                assert error.value.argument == "guarantee"
                assert not isinstance(error.value, TooFewLabels)


def test_few_groups_widen_the_interval():
    """Three clusters have a t quantile of 4.3 on two degrees of freedom."""
    cal = calibrate(*sample(), groups=np.arange(1200) % 3, candidates=["platt"])
    assert (cal.before_.high - cal.before_.value) / cal.before_.se == pytest.approx(4.303, abs=0.01)


def test_one_class_is_uncalibrated_and_says_so():
    cal = quiet(np.linspace(0.1, 0.9, 300), np.zeros(300, dtype=int))
    assert cal.status_ == "uncalibrated"
    assert str(cal).startswith("Uncalibrated: the labels have only one class")


def test_one_group_is_not_called_too_few_rows():
    cal = calibrate(*sample(), groups=np.zeros(1200, dtype=int))
    assert str(cal).startswith("Uncalibrated: there was only one candidate or one fold")


def test_a_moment_that_holds_nearly_all_rows_cannot_be_walked_through():
    with pytest.raises(InputError, match="one timestamp has too many of the rows"):
        list(walk_forward(np.concatenate([np.zeros(1000), np.arange(1, 7)]), 5))
