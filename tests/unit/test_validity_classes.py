"""Validity of several classes, conditional validity, and the curve that a plan guarantees."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.displays import ValidityDisplay
from calibrant.guarantees.bounds import expected_ece_bound
from calibrant.guarantees.planning import TooFewLabels
from calibrant.messages import InputError
from calibrant.metrics import ece, validity_curve

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")

# Gupta (2023), Example 5.1: confidence is right on average, and wrong by 0.4 for each predicted class.
OPPOSITE = np.repeat([[0.6, 0.4], [0.4, 0.6]], 5, axis=0), [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]


def test_top_label_validity_is_by_predicted_class() -> None:
    curve = validity_curve(*OPPOSITE)
    assert curve.epsilon == pytest.approx([0.4])
    assert curve.at([0.39, 0.4]).tolist() == [0.0, 1.0]
    assert validity_curve(*OPPOSITE, notion="confidence").at(0.0) == 1.0


def test_the_area_is_one_minus_the_top_label_error() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1, 1, 2], 400)
    y = rng.integers(0, 3, 400)
    for notion in ("top-label", "class-wise", "confidence"):
        assert 1.0 - validity_curve(p, y, notion=notion).auc == pytest.approx(ece(p, y, notion=notion).value, abs=1e-12)


def test_canonical_validity_has_its_own_picture() -> None:
    with pytest.raises(InputError, match="CanonicalValidityDisplay"):
        validity_curve(*OPPOSITE, notion="canonical")


def test_the_guaranteed_curve_inverts_the_plan(subtests) -> None:
    for scheme in ("umd", "umd-original"):
        for coverage in ("marginal", "simultaneous"):
            with subtests.test(scheme=scheme, coverage=coverage):
                made = cb.plan(n=3000, n_bins=10, alpha=0.07, scheme=scheme, coverage=coverage)
                assert float(made.validity(made.epsilon)) == pytest.approx(0.93)
                assert made.validity([0.0, 1.0]).tolist() == [0.0, pytest.approx(1.0)]
    for notion in ("class-wise", "top-label"):
        made = cb.plan(n=3000, n_bins=10, n_classes=4, notion=notion)
        assert float(made.validity(made.epsilon)) == pytest.approx(0.9)


def test_a_plan_by_points_per_bin_is_that_of_the_theorems() -> None:
    """Eq. 5.10 and 5.15 with n = 10,000, k = 100, L = 10, alpha = 0.1, without delta."""
    given = {"n": 10_000, "n_classes": 10, "points_per_bin": 100}
    top = cb.plan(notion="top-label", **given)
    assert top.epsilon == pytest.approx(np.sqrt(np.log(2 * 10_000 / (100 * 0.1)) / (2 * 99)))
    assert cb.plan(notion="top-label", coverage="marginal", **given).epsilon == pytest.approx(
        np.sqrt(np.log(2 / 0.1) / (2 * 99))
    )
    wise = cb.plan(notion="class-wise", **given)
    assert wise.epsilon == pytest.approx(np.sqrt(np.log(2 * 10_000 / (100 * 0.01)) / (2 * 99)))
    assert top.expected_error == pytest.approx(0.5 / np.sqrt(99))
    assert top.expected_error <= np.sqrt(1 / 200)
    assert "at least 100 in each bin of each of 10 predicted classes" in str(top)
    fewest = cb.plan(n=10_000, epsilon=top.epsilon, n_classes=10, notion="top-label", points_per_bin="fewest")
    assert fewest.points_per_bin == 100


def test_every_predicted_class_has_the_labels_of_a_bin() -> None:
    """With L classes of k labels each, n is at least L k; at n = L k the bins are the classes."""
    top: dict = {"n_classes": 5, "notion": "top-label"}
    least = cb.plan(n=1_000, points_per_bin=200, **top)
    assert (least.n_bins, least.epsilon) == (5, pytest.approx(np.sqrt(np.log(2 * 5 / 0.1) / (2 * 199))))
    with pytest.raises(TooFewLabels, match=r"^n=999 is too few for 200 labels in each of 5 predicted classes.*1,000"):
        cb.plan(n=999, points_per_bin=200, **top)
    assert cb.plan(n=1_000, epsilon=least.epsilon, points_per_bin="fewest", **top).points_per_bin == 200
    with pytest.raises(TooFewLabels, match=r"^n=1000 is too few labels for epsilon=0.1"):  # it needs 221 in each class
        cb.plan(n=1_000, epsilon=0.1, points_per_bin="fewest", **top)
    assert cb.plan(n=1_000, points_per_bin=1_000, n_classes=5, notion="class-wise").n_bins == 1


def test_a_bound_of_one_is_no_guarantee(subtests) -> None:
    """ln(2 B / alpha) / (2 m) with m labels in a bin: at least 1 exactly if m is at most half of the logarithm."""
    for given in (
        {"n": 20, "n_bins": 10},
        {"n": 20, "n_bins": 10, "scheme": "umd-original"},
        {"n": 30, "n_bins": 5, "scheme": "ums"},
        {"n": 20, "points_per_bin": 2},
        {"n": 20, "n_bins": 5, "n_classes": 5, "notion": "class-wise"},
    ):
        with subtests.test(given=given), pytest.raises(TooFewLabels, match="is too few labels for a guarantee"):
            cb.plan(**given)
    assert cb.plan(n=3, n_bins=1).epsilon == pytest.approx(np.sqrt(np.log(2 / 0.1) / 4))


def test_a_notion_needs_the_number_of_classes() -> None:
    for notion in ("class-wise", "top-label"):
        for given in ({"n_bins": 10, "epsilon": 0.1}, {"n": 100, "points_per_bin": 50}):
            with pytest.raises(InputError, match=rf"^n_classes is missing, which notion='{notion}' needs"):
                cb.plan(notion=notion, **given)
    p = np.full((4, 3), 1 / 3)
    with pytest.raises(InputError, match=r"^n_classes=4 differs from the 3 columns of scores"):
        cb.plan(n=2_000, n_bins=3, scores=p, n_classes=4)
    assert cb.plan(n=2_000, n_bins=3, scores=p, n_classes=3, notion="class-wise").classes == 3


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"n": 100, "points_per_bin": 1}, "points_per_bin"),
        ({"n": 100, "points_per_bin": 101}, "n"),
        ({"points_per_bin": 10}, "n"),
        ({"n": 100, "n_bins": 3, "points_per_bin": 10}, "n_bins"),
        ({"n": 100, "epsilon": 0.1, "points_per_bin": 10}, "epsilon"),
        ({"n": 100, "points_per_bin": "fewest"}, "epsilon"),
        ({"n": 3, "epsilon": 0.1, "points_per_bin": "fewest"}, "n"),
        ({"n": 100, "points_per_bin": 10, "scheme": "ums"}, "scheme"),
    ],
)
def test_impossible_plans_are_refused(given: dict, argument: str) -> None:
    with pytest.raises(InputError, match=rf"^{argument}\b"):
        cb.plan(**given)


def test_the_expected_error_of_binning_is_below_its_bound() -> None:
    """Exactly, over all counts: outputs k/m, and (k + 1)/(m + 2) at 0 and m, for every rate."""
    from scipy import stats

    rates = np.linspace(0.0, 1.0, 401)
    for m in (1, 2, 3, 10):
        k = np.arange(m + 1)
        for outputs in (k / m, np.where((k == 0) | (k == m), (k + 1) / (m + 2), k / m)):
            squares = [(stats.binom.pmf(k, m, rate) * (outputs - rate) ** 2).sum() for rate in rates]
            assert np.sqrt(max(squares)) <= expected_ece_bound(m) + 1e-12


def test_conditional_validity_counts_repetitions() -> None:
    pytest.importorskip("matplotlib")
    one = validity_curve([0.2] * 10 + [0.8] * 10, [1] * 3 + [0] * 7 + [1] * 8 + [0] * 2, n_bins=2)
    two = validity_curve([0.2] * 10 + [0.8] * 10, [1] * 2 + [0] * 8 + [1] * 6 + [0] * 4, n_bins=2)
    plan = cb.plan(n=200, n_bins=2)
    display = ValidityDisplay.from_curves([one, two], coverage="simultaneous", band="mean", plan=plan)
    (curve,) = display.data["curves"]
    assert curve["epsilon"] == pytest.approx([0.1, 0.2])
    assert curve["share"] == pytest.approx([0.5, 1.0])
    shown = display.data["planned"]
    assert shown["share"] == pytest.approx(plan.validity(shown["epsilon"]).tolist())
    assert "of the mean" in display.caption
    display.plot()
    with pytest.raises(InputError, match="coverage"):
        ValidityDisplay.from_curves([one], plan=plan)
    with pytest.raises(InputError, match="scheme"):
        ValidityDisplay.from_curves([one], plan=cb.plan(n=200, n_bins=2, scheme="ums", coverage="marginal"))


def test_the_picture_of_top_label_validity() -> None:
    pytest.importorskip("matplotlib")
    display = ValidityDisplay.from_predictions(*OPPOSITE)
    assert display.data["curves"][0]["epsilon"] == pytest.approx([0.4])
    display.plot()
