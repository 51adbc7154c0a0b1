"""Losses, AUC, sharpness and net benefit against work by hand, enumeration and scikit-learn."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from calibrant.messages import CalibrantWarning, InputError
from calibrant.metrics.binary.net_benefit import DecisionCurve, net_benefit
from calibrant.metrics.binary.scores import (
    accuracy,
    auc,
    brier,
    classification_loss,
    log_loss,
    refinement,
    rmse,
    sharpness,
)
from calibrant.metrics.estimates import Estimate, upper_point
from calibrant.numerics import Grid
from calibrant.tallies import Tally

Metric = Callable[..., Estimate]


def codes(found: Estimate) -> list[str]:
    return [note.code for note in found.notes]


MEANS: tuple[Metric, ...] = (brier, log_loss, rmse, accuracy, classification_loss)
ALL: tuple[Metric, ...] = (*MEANS, auc, sharpness, refinement)
every_metric = pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.__name__)

SCORES, LABELS = [0.2, 0.4, 0.4, 0.8, 0.9], [0, 1, 0, 1, 1]


def sample(n: int = 400, seed: int = 0, ties: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, labels and weights."""
    rng = np.random.default_rng([7, seed])
    scores = rng.random(n) if ties is None else rng.integers(1, ties, n) / ties
    return scores, (rng.random(n) < scores).astype(int), rng.gamma(1.0, size=n)


def quiet(metric: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The metric of rows of one class, without their warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return metric(*args, **options)


# ----------------------------------------------------------------------------------------------------------------------
# By hand
# ----------------------------------------------------------------------------------------------------------------------


def test_brier_and_rmse_by_hand() -> None:
    found = brier(SCORES, LABELS)
    # squares 0.04, 0.36, 0.16, 0.04, 0.01: sum 0.61
    assert found.value == pytest.approx(0.61 / 5)
    # s(1 - s): 0.16 + 0.24 + 0.24 + 0.16 + 0.09 = 0.89
    assert found.null == pytest.approx(0.89 / 5)
    # s(1 - s)(1 - 2s)^2: 0.16*0.36 + 2*0.24*0.04 + 0.16*0.36 + 0.09*0.64 = 0.192
    # the gap of losses is 1 - 2s, so the third moment has s(1 - s)(1 - 2s)^4:
    # 0.16 * 0.1296 * 2 + 0.24 * 0.0016 * 2 + 0.09 * 0.4096 = 0.079104
    point = upper_point(0.079104 / 0.192**1.5)
    assert 1.7 < point < 1.9, "skewed to the right: beyond the normal law's 1.645"
    assert found.null_high == pytest.approx(0.89 / 5 + point * math.sqrt(0.192) / 5)
    losses = np.array([0.04, 0.36, 0.16, 0.04, 0.01])
    assert found.se == pytest.approx(losses.std(ddof=1) / math.sqrt(5))
    root = rmse(SCORES, LABELS)
    assert (root.value, root.null) == pytest.approx((math.sqrt(0.122), math.sqrt(0.178)))
    assert root.se == pytest.approx(found.se / (2 * math.sqrt(0.122)))
    assert root.high == pytest.approx(math.sqrt(found.high))


def test_log_loss_by_hand() -> None:
    found = log_loss([0.5, 0.25], [1, 0])
    assert found.value == pytest.approx((math.log(2) - math.log(0.75)) / 2)
    # entropies of 1/2 and of 1/4
    assert found.null == pytest.approx((math.log(2) + 0.25 * math.log(4) - 0.75 * math.log(0.75)) / 2)
    assert found.notes == ()


def test_a_score_on_the_threshold_is_class_one() -> None:
    # scores 0.5 (event) and 0.5 (none): class 1 for both, one wrong
    assert accuracy([0.5, 0.5, 0.4], [1, 0, 0]).value == pytest.approx(2 / 3)
    assert classification_loss([0.5, 0.5, 0.4], [1, 0, 0]).value == pytest.approx(1 / 3)
    assert accuracy([0.5, 0.5, 0.4], [1, 0, 0], threshold=0.50001).value == pytest.approx(2 / 3)
    assert accuracy([0.0, 1.0], [0, 1], threshold=0.0).value == 0.5
    assert accuracy([0.3, 1.0], [0, 1], threshold=1.0).value == 1.0


def test_accuracy_of_true_probabilities_by_hand() -> None:
    # right with 0.8, 0.6, 0.6, 0.8, 0.9: 3.7 of 5; variances 0.16 + 0.24 + 0.24 + 0.16 + 0.09 = 0.89
    found = accuracy(SCORES, LABELS)
    assert (found.value, found.null) == pytest.approx((0.8, 0.74))
    assert found.null_low == pytest.approx(0.74 - 1.757 * math.sqrt(0.89) / 5, abs=1e-3)
    assert found.se == pytest.approx(math.sqrt(0.8 * 0.2 / 4))
    # Clopper and Pearson's of 3.2 of 4
    assert (found.low, found.high) == pytest.approx((0.22757, 0.99777), abs=1e-5)


def test_auc_by_hand() -> None:
    # events 0.4, 0.8, 0.9; others 0.2, 0.4: of 6 pairs 5 in order, one tied
    found = auc(SCORES, LABELS)
    assert found.value == pytest.approx(5.5 / 6)
    # placements of events 0.75, 1, 1 (variance 1/48) and of others 1, 5/6 (variance 1/72): se^2 = 1/144 + 1/144
    assert found.se == pytest.approx(math.sqrt(2) / 12)
    # log-odds log 11, half width t se / (11/12 * 1/12), with one degree of freedom for the two others
    half = 12.706204736432095 * math.sqrt(2) / 12 * 144 / 11
    ends = [1 / (1 + math.exp(-math.log(11) - side * half)) for side in (-1, 1)]
    assert (found.low, found.high) == pytest.approx(ends)


def test_sharpness_and_refinement_by_hand() -> None:
    # two bins: (0, 1, 0) with rate 1/3, (1, 1) with rate 1; sharpness (3/9 + 2)/5, refinement (3 * 2/9)/5
    assert sharpness(SCORES, LABELS, n_bins=2).value == pytest.approx(7 / 15)
    assert refinement(SCORES, LABELS, n_bins=2).value == pytest.approx(2 / 15)
    assert sharpness(SCORES, LABELS, n_bins=2).name == "sharpness, 2 bins of equal width"
    assert sharpness(SCORES, LABELS, edges=[0.5]).value == pytest.approx(7 / 15)
    assert sharpness(SCORES, LABELS, edges=[0.5]).name == "sharpness, 2 bins of given edges"
    assert refinement(SCORES, LABELS, strategy="distinct").value == pytest.approx(0.1)  # only the tie at 0.4 is unsure


def test_net_benefit_by_hand() -> None:
    curve = net_benefit(SCORES, LABELS, thresholds=[0.25, 0.4, 0.5])
    # from 0.25: 3 events, 1 other, cost 1/3; from 0.4 the same, cost 2/3; from 0.5: 2 events
    assert curve.model == pytest.approx([3 / 5 - 1 / 15, 3 / 5 - 2 / 15, 2 / 5])
    assert curve.treat_all == pytest.approx([3 / 5 - 2 / 15, 3 / 5 - 4 / 15, 1 / 5])
    assert curve.useful.tolist() == [True, True, True]
    # what each row is worth at 0.25, 0.4 and 0.5
    worth = np.array([[0, 1, -1 / 3, 1, 1], [0, 1, -2 / 3, 1, 1], [0, 0, 0, 1, 1]])
    assert curve.se == pytest.approx(worth.std(axis=1, ddof=1) / math.sqrt(5))
    assert str(curve).startswith("Net benefit: the model beats treating all and none at 3 of 3 thresholds: ")
    assert curve.to_dict()["treat_none"] == 0.0
    with pytest.raises(FrozenInstanceError):
        curve.treat_none = 1.0


def test_net_benefit_at_half_is_events_less_false_alarms() -> None:
    scores, y, weights = sample()
    chosen = scores >= 0.5
    expected = (weights * chosen * (2 * y - 1)).sum() / weights.sum()
    curve = net_benefit(scores, y, weights)
    assert len(curve.thresholds) == 99
    assert curve.model[49] == pytest.approx(expected)
    repeated = net_benefit(np.repeat(scores, 3), np.repeat(y, 3))
    assert repeated.model == pytest.approx(net_benefit(scores, y, np.full(len(y), 3)).model)


def test_a_useless_model_has_a_curve_without_use() -> None:
    curve = net_benefit([0.9, 0.9], [0, 1], thresholds=[0.5, 0.8])
    assert not curve.useful.any()
    assert "at 0 of 2 thresholds\n" in str(curve)
    one = quiet(net_benefit, [0.9], [1], thresholds=[0.5])
    assert one.model.tolist() == [1.0]
    assert one.to_dict()["se"] == [None]


# ----------------------------------------------------------------------------------------------------------------------
# Scores on 0 and 1
# ----------------------------------------------------------------------------------------------------------------------


def test_log_loss_is_infinite_and_says_why() -> None:
    found = log_loss([0.0, 0.0, 1.0, 1.0, 0.5], [1, 0, 0, 1, 1])
    assert found.value == math.inf
    assert found.se is found.low is found.high is None
    assert codes(found) == ["scores-of-0-or-1", "infinite-loss"]
    assert [str(note) for note in found.notes] == [
        "4 rows with a score of exactly 0 or 1, not clipped: no loss where the label agrees, infinite loss where it "
        "does not",
        "infinite because of 2 rows (events at score 0, or non-events at score 1); without them it is 0.2310",
    ]
    assert found.notes[1].values["without"] == pytest.approx(math.log(2) / 3)  # the other three lose 0, 0 and log 2
    assert found.null == pytest.approx(math.log(2) / 5)
    assert "value" in found.to_dict()


def test_log_loss_without_impossible_rows_is_finite_but_notes_the_ends() -> None:
    found = log_loss([0.0, 1.0, 1.0, 0.5], [0, 1, 1, 1])
    assert found.value == pytest.approx(math.log(2) / 4)
    assert codes(found) == ["scores-of-0-or-1"]
    assert found.notes[0].values == {"rows": 3, "counts": True}
    assert found.se is not None


def test_log_loss_under_importance_weights_speaks_of_weight() -> None:
    found = log_loss([0.0, 0.5, 1.0], [1, 0, 1], [0.25, 1.5, 2.5])
    assert codes(found) == ["scores-of-0-or-1", "infinite-loss"]
    ends, infinite = found.notes
    assert ends.values == {"rows": 2.75, "counts": False}
    assert "rows of weight 2.75 with a score" in str(ends)
    assert infinite.values["rows"] == 0.25
    assert infinite.values["without"] == pytest.approx(1.5 * math.log(2) / 4)


def test_log_loss_of_impossible_rows_only() -> None:
    found = quiet(log_loss, [0.0], [1])
    assert found.value == math.inf
    assert codes(found) == ["scores-of-0-or-1", "infinite-loss"]
    assert "; no other row is left" in str(found)


def test_a_tiny_score_is_not_clipped() -> None:
    assert quiet(log_loss, [1e-300], [1]).value == pytest.approx(300 * math.log(10))


# ----------------------------------------------------------------------------------------------------------------------
# Against scikit-learn, enumeration and the pairs themselves
# ----------------------------------------------------------------------------------------------------------------------


def test_values_are_scikit_learns(subtests) -> None:
    for ties in [None, 12]:
        for weighted in [False, True]:
            with subtests.test(ties=ties, weighted=weighted):
                scores, y, gamma = sample(ties=ties)
                weights = gamma if weighted else None
                assert brier(scores, y, weights).value == pytest.approx(
                    sk.brier_score_loss(y, scores, sample_weight=weights)
                )
                assert log_loss(scores, y, weights).value == pytest.approx(
                    sk.log_loss(y, scores, sample_weight=weights)
                )
                assert auc(scores, y, weights).value == pytest.approx(
                    sk.roc_auc_score(y, scores, sample_weight=weights)
                )
                expected = sk.accuracy_score(y, scores >= 0.3, sample_weight=weights)
                assert accuracy(scores, y, weights, threshold=0.3).value == pytest.approx(expected)
                assert classification_loss(scores, y, weights, threshold=0.3).value == pytest.approx(1 - expected)


def delong(scores: np.ndarray, y: np.ndarray) -> float:
    """DeLong's standard error from the matrix of all pairs."""
    events, others = scores[y == 1], scores[y == 0]
    order = (np.sign(events[:, None] - others) + 1) / 2
    by_event, by_other = order.mean(axis=1), order.mean(axis=0)
    return math.sqrt(by_event.var(ddof=1) / len(events) + by_other.var(ddof=1) / len(others))


@pytest.mark.parametrize("ties", [None, 6])
def test_the_standard_error_of_auc_is_delongs(ties: int | None) -> None:
    scores, y, _ = sample(70, ties=ties)
    assert auc(scores, y).se == pytest.approx(delong(scores, y))


def test_null_values_are_those_of_all_possible_labels(subtests) -> None:
    """Mean, spread and skewness over the 2^5 label vectors, each with the probability that the scores give it."""
    for metric in MEANS:
        with subtests.test(metric=metric.__name__):
            scores = np.array([0.1, 0.35, 0.35, 0.6, 0.95])
            labels = np.array(list(product([0, 1], repeat=5)))
            chance = np.prod(np.where(labels == 1, scores, 1 - scores), axis=1)
            square = brier if metric is rmse else metric  # for the root, the null values are the roots of the square's
            values = np.array([quiet(square, scores, row).value for row in labels])
            mean = (chance * values).sum()
            spread = math.sqrt((chance * (values - mean) ** 2).sum())
            skewness = (chance * (values - mean) ** 3).sum() / spread**3
            high = mean + upper_point(skewness) * spread
            low = max(mean - upper_point(-skewness) * spread, 0.0)
            expected = np.array([low, mean, high if square is log_loss else min(high, 1.0)])
            found = metric(scores, [0, 0, 1, 1, 1])
            drawn = np.array([found.null_low, found.null, found.null_high])
            assert (drawn**2 if metric is rmse else drawn) == pytest.approx(expected)


def test_standard_errors_under_weights_are_those_of_the_influence_of_rows(subtests) -> None:
    """The sum of squared influences, by numerical differentiation.

    Squared weights are shared over a cell or bin, so weights vary from row to row where each row has its own cell, and
    from bin to bin where rows are binned.
    """
    for metric in [brier, log_loss, accuracy, sharpness, refinement]:
        with subtests.test(metric=metric):
            scores, y, gamma = sample(60)
            weights = 0.5 + np.floor(10 * scores) if metric in (sharpness, refinement) else gamma
            steps = np.eye(60) * 1e-5
            slopes = np.array(
                [(metric(scores, y, weights + h).value - metric(scores, y, weights - h).value) / 2e-5 for h in steps]
            )
            size = weights.sum() ** 2 / (weights**2).sum()
            expected = math.sqrt(((weights * slopes) ** 2).sum() * size / (size - 1))
            assert metric(scores, y, weights).se == pytest.approx(expected, rel=1e-4)


# ----------------------------------------------------------------------------------------------------------------------
# Rules that hold for every metric
# ----------------------------------------------------------------------------------------------------------------------


@given(metric=st.sampled_from(ALL), counts=st.lists(st.integers(0, 4), min_size=12, max_size=12))
def test_whole_weights_are_repetition_and_weight_zero_is_no_row(metric: Metric, counts: list[int]) -> None:
    counts[0] = counts[6] = 1  # at least one row of each class
    scores, y = np.linspace(0.05, 0.95, 6)[np.arange(12) % 6], np.repeat([0, 1], 6)
    repeated = metric(np.repeat(scores, counts), np.repeat(y, counts))
    weighted = metric(scores, y, counts)
    counted = metric(Tally.from_arrays(scores, y, counts, weight_type="frequency"))
    assert weighted.value == pytest.approx(repeated.value, abs=1e-15)
    alike(counted, repeated)


def alike(one: Estimate, other: Estimate) -> None:
    """Equal up to the order in which rows were added up."""
    assert one.name == other.name
    assert one.notes == other.notes
    for field in ("value", "se", "low", "high", "null", "null_high"):
        mine, yours = getattr(one, field), getattr(other, field)
        assert (mine is None) == (yours is None), field
        assert mine is None or mine == pytest.approx(yours, rel=1e-12, abs=1e-15, nan_ok=True), field


def test_neither_row_order_nor_the_way_of_merging_matters(subtests) -> None:
    for metric in ALL:
        with subtests.test(metric=metric.__name__):
            scores, y, _ = sample(300, ties=20)
            order = np.random.default_rng(3).permutation(300)
            whole = metric(scores, y)
            parts = Tally.from_arrays(scores[:100], y[:100]) + Tally.from_arrays(scores[100:], y[100:])
            alike(metric(scores[order], y[order]), whole)
            alike(metric(parts), whole)


def test_a_gridded_tally_is_close(subtests) -> None:
    for metric in ALL:
        with subtests.test(metric=metric.__name__):
            scores, y, weights = sample(2_000)
            grid = Grid()
            for more in ((), (weights,)):
                exact, near = metric(scores, y, *more), metric(Tally.from_arrays(scores, y, *more, grid=grid))
                assert near.value == pytest.approx(exact.value, abs=2e-4)
                assert near.se == pytest.approx(exact.se, rel=0.05)


def test_a_heap_on_the_threshold_stays_above_it_on_a_grid(subtests) -> None:
    for threshold in [0.3, 0.7, 0.1, 0.95]:
        with subtests.test(threshold=threshold):
            scores, y = [threshold] * 6 + [0.01, 0.99], [1] * 6 + [0, 1]
            gridded = Tally.from_arrays(scores, y, grid=Grid())
            assert accuracy(gridded, threshold=threshold).value == 1.0


def test_a_table_of_bins_is_read_at_its_means(subtests) -> None:
    for metric in ALL:
        with subtests.test(metric=metric.__name__):
            table = Tally.from_table([4, 6], [1, 5], edges=[0.5], scores=[0.2, 0.7])
            rows = metric(np.repeat([0.2, 0.7], [4, 6]), [1, 0, 0, 0, 1, 1, 1, 1, 1, 0])
            assert metric(table).value == pytest.approx(rows.value)
            if metric not in (sharpness, refinement):
                assert "bin-means" in codes(metric(table))
                assert "computed as if every row had its bin's mean score" in str(metric(table))
            with pytest.raises(InputError, match="no mean scores"):
                brier(Tally.from_table([4, 6], [1, 5], edges=[0.5]))


def test_the_unit_of_weights_does_not_matter(subtests) -> None:
    for metric in ALL:
        for factor in [1e-90, 1e90]:
            with subtests.test(metric=metric.__name__, factor=factor):
                scores, y, weights = sample(50)
                plain, scaled = metric(scores, y, weights), metric(scores, y, weights * factor)
                assert (scaled.value, scaled.se) == pytest.approx((plain.value, plain.se))


def test_few_rows_of_one_class_raise_nothing(subtests) -> None:
    for metric in ALL:
        for label in [0, 1]:
            for scores in [[0.3], [0.3, 0.3], [0.0, 1.0], [0.2, 0.9]]:
                with subtests.test(metric=metric.__name__, label=label, scores=scores):
                    found = quiet(metric, scores, [label] * len(scores))
                    assert math.isnan(found.value) == (metric is auc)
                    if metric is auc:
                        assert codes(found) == ["auc-of-one-class"]
                        assert "not defined: all rows have the same class" in str(found)
                    elif len(scores) == 1:
                        assert found.se is None
                        assert found.low is None
                    str(found)
                    found.to_dict()


def test_one_class_under_weights_has_no_auc() -> None:
    assert math.isnan(quiet(auc, [0.1, 0.2, 0.2], [1, 1, 1], [0.1, 0.2, 0.3]).value)


def test_auc_with_one_event_has_no_standard_error() -> None:
    found = auc([0.1, 0.2, 0.9], [0, 0, 1])
    assert found.value == 1.0
    assert found.se is None


def test_where_all_rows_show_the_same_there_is_no_interval_and_a_note() -> None:
    right = accuracy([0.1, 0.9, 0.8], [0, 1, 1])
    assert codes(right) == ["no-spread"]
    assert "no interval: all rows show the same value, and the standard error of 0 is silent about" in str(right)
    for labels, value in (([0, 0, 1, 1], 1.0), ([1, 1, 0, 0], 0.0)):
        separated = auc([0.1, 0.2, 0.8, 0.9], labels)
        assert (separated.value, separated.se, separated.low, separated.high) == (value, 0.0, None, None)
        assert codes(separated) == ["no-spread"]
    constant = brier([0.5] * 7, [0, 1, 0, 1, 1, 1, 0])
    assert (constant.value, constant.se, constant.low, constant.high) == (0.25, 0.0, None, None)
    assert codes(constant) == ["no-spread"]
    assert codes(brier(SCORES, LABELS)) == []


def test_the_upper_point_is_that_of_the_gamma_law(subtests) -> None:
    for skewness in [-40.0, -3.0, -1.0, -0.01, 0.0, 0.01, 1.0, 3.0]:
        with subtests.test(skewness=skewness):
            assert upper_point(skewness) == pytest.approx(stats.pearson3.ppf(0.95, skewness), rel=1e-6, abs=1e-9)


def test_the_upper_point_never_lies_below_the_mean() -> None:
    assert upper_point(100.0) == upper_point(math.inf) == 0.0
    assert 0.0 <= upper_point(-math.inf) < 1e-5


def test_rare_events_exceed_the_null_mark_in_one_sample_of_twenty(subtests, full_size: bool) -> None:
    draws = 1_000 if full_size else 400
    for metric in [brier, log_loss]:
        for weighted in [False, True]:
            with subtests.test(metric=metric, weighted=weighted):
                rng = np.random.default_rng([11, weighted])
                over = 0
                for _ in range(draws):
                    scores = rng.beta(0.5, 20, 200)
                    weights = rng.lognormal(0.0, 1.0, 200) if weighted else None
                    found = quiet(metric, scores, rng.random(200) < scores, weights)
                    over += found.value > found.null_high
                assert stats.binomtest(over, draws, 0.05).pvalue > 1e-3, over


def test_perfect_scores_have_rmse_zero() -> None:
    found = quiet(rmse, [0.0, 1.0], [0, 1])
    assert found.value == 0.0
    assert found.se is None


def test_nearly_all_the_weight_on_one_row_leaves_no_standard_error() -> None:
    assert brier([0.2, 0.8], [0, 1], [1.0, 1e-12]).se is None
    assert auc([0.2, 0.8, 0.9], [0, 1, 0], [1e-9, 1.0, 1.0]).se is None


def test_logits_are_refused(subtests) -> None:
    for metric in ALL:
        with subtests.test(metric=metric.__name__), pytest.raises(InputError, match="need probabilities"):
            metric(Tally.from_arrays([-1.0, 2.0], [0, 1], score_type="logit"))


def test_a_threshold_outside_the_unit_interval_is_refused(subtests) -> None:
    for threshold in [-0.1, 1.5, math.nan]:
        with subtests.test(threshold=threshold), pytest.raises(InputError, match="threshold must lie in"):
            accuracy(SCORES, LABELS, threshold=threshold)


def test_thresholds_must_increase_inside_the_unit_interval(subtests) -> None:
    for thresholds in [[0.0, 0.5], [0.5, 1.0], [0.6, 0.5], [0.5, 0.5], [], [math.nan]]:
        with (
            subtests.test(thresholds=thresholds),
            pytest.raises(InputError, match="thresholds must be increasing probabilities inside"),
        ):
            net_benefit(SCORES, LABELS, thresholds=thresholds)


# ----------------------------------------------------------------------------------------------------------------------
# Sharpness and refinement
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", [sharpness, refinement])
def test_a_number_that_bins_bias_has_a_standard_error_and_no_interval(metric: Metric) -> None:
    found = metric(*sample()[:2])
    assert found.se is not None
    assert found.low is found.high is found.null is None


rows = st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.floats(0.1, 5.0)), min_size=1, max_size=30)


@given(rows, st.integers(1, 12), st.sampled_from(["width", "mass", "distinct", "auto"]))
def test_refinement_is_the_base_rate_less_sharpness(data: list[Any], n_bins: int, strategy: Any) -> None:
    """002 Lemma 6.1, and the bounds of section 6.3.2."""
    scores, y, weights = np.array([row[0] / 20 for row in data]), [row[1] for row in data], [row[2] for row in data]
    tally = quiet(Tally.from_arrays, scores, y, weights)
    base = tally.positives / tally.total
    sharp = sharpness(tally, n_bins=n_bins, strategy=strategy).value
    assert refinement(tally, n_bins=n_bins, strategy=strategy).value == pytest.approx(base - sharp, abs=1e-12)
    assert base**2 - 1e-12 <= sharp <= base + 1e-12


@given(rows, st.integers(1, 12))
def test_refinement_is_at_most_the_brier_score_and_what_binning_may_cost(data: list[Any], n_bins: int) -> None:
    """002 Lemma 6.2: with bins of width w, at most the Brier score + w + w^2 / 4."""
    tally = quiet(Tally.from_arrays, [row[0] / 20 for row in data], [row[1] for row in data])
    assert refinement(tally, n_bins=n_bins).value <= brier(tally).value + 1 / n_bins + 0.25 / n_bins**2 + 1e-12


def test_stretches_where_a_model_is_useful_are_named_apart() -> None:
    at, model = np.array([0.1, 0.2, 0.3, 0.4, 0.5]), np.array([0.1, 0.3, 0.3, 0.0, 0.1])
    curve = DecisionCurve(at, model, np.zeros(5), np.array([0.2, 0.2, 0.2, 0.2, 0.0]))
    assert str(curve).split("\n")[0].endswith("at 3 of 5 thresholds: 0.2 to 0.3, 0.5")
