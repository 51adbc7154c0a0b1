"""The numbers behind each picture, and what is drawn of them, on cases worked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from tests import worlds

from calibrant import CalibrantWarning, HistogramBinning, InputError, IsotonicCalibrator, PlattScaling, Tally
from calibrant.displays import (
    DecisionCurveDisplay,
    MapDisplay,
    PlanDisplay,
    ReliabilityDisplay,
    ValidityDisplay,
    plan,
    rates,
)
from calibrant.displays.drawing import style
from calibrant.displays.rates import binned_points, few_cells, few_distinct, informative_range, isotonic_points
from calibrant.displays.validity import certified_steps
from calibrant.engine import Grid
from calibrant.guarantees.bounds import umd_epsilon
from calibrant.maps import LogitAffineMap, StepMap
from calibrant.metrics import calibration_curve, net_benefit
from calibrant.metrics.binary.bins import Bins
from calibrant.metrics.binary.validity import validity_curve

of = ReliabilityDisplay.from_predictions


@pytest.fixture(name="plt")
def _pyplot():
    pytest.importorskip("matplotlib").use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    yield plt
    plt.close("all")


@pytest.fixture(scope="module", autouse=True)
def _few_draws():
    """Fewer simulated data sets behind the gray than in a picture, which no test here can tell from it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rates, "DRAWS", 100)
        yield


def rare(n: int = 10_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    scores = 1 / (1 + np.exp(-rng.normal(-7.0, 1.6, n)))
    return scores, (rng.random(n) < scores).astype(int)


# ------------------------------------------------------------------------------------------------------- reliability


def test_the_curve_is_the_isotonic_regression():
    # Rates 1, 0, 1 by score: the first two violate the order and are pooled to 1/2.
    points = of([0.2, 0.4, 0.6], [1, 0, 1]).series[0].cells
    assert points.rate.tolist() == [0.5, 0.5, 1.0]


def test_bins_show_their_rate_at_their_mean_score():
    # Bin [0, 1/2): scores 0.1, 0.3, one event of two. Bin [1/2, 1]: 0.8, 0.9, both events.
    bins = of([0.1, 0.3, 0.8, 0.9], [0, 1, 1, 1], curve="bins", n_bins=2, strategy="width").series[0].bins
    assert bins is not None
    np.testing.assert_allclose(bins.score, [0.2, 0.85])
    assert bins.rate.tolist() == [0.5, 1.0]


def test_an_acceptance_interval_is_the_middle_of_a_binomial():
    # Binomial(10, 0.5): P(X <= 1) = 0.0107 < 0.05 <= P(X <= 2) = 0.0547, and likewise above.
    points = binned_points(Bins.of([0.5] * 10, [0, 1] * 5, n_bins=1), 0.9)
    assert (points.low.item(), points.high.item()) == (0.2, 0.8)


def test_empty_bins_are_left_out():
    bins = of([0.1, 0.9], [0, 1], curve="bins", n_bins=10, strategy="width").series[0].bins
    assert bins is not None
    assert bins.n.tolist() == [1.0, 1.0]


def test_one_score_has_the_binomial_band():
    # Without neighbors to pool with the regression is the rate itself: 3 and 7 of 10 are the 5 % and 95 % points +- 1.
    points = isotonic_points(Tally.from_arrays([0.5] * 10, [0, 1] * 5), 0.9)
    assert points.low.item() in (0.2, 0.3)
    assert points.high.item() in (0.7, 0.8)


def test_certain_scores_have_no_band():
    points = isotonic_points(Tally.from_arrays([0.0, 0.0, 1.0, 1.0], [0, 0, 1, 0]), 0.9)
    assert points.low.tolist() == points.high.tolist() == [0.0, 1.0]
    assert points.outside == 0.5  # the rows at 1, not all of which are events


def test_outside_is_the_share_of_rows_beyond_the_grey():
    # Of scores 0 and 1 every event at 0 is impossible: 3 of 5 rows.
    points = isotonic_points(Tally.from_arrays([0.0, 0.0, 0.0, 1.0, 1.0], [0, 0, 1, 1, 1]), 0.9)
    assert points.outside == 0.6


@pytest.mark.statistical
def test_a_perfect_model_has_at_most_a_tenth_of_its_rows_outside():
    rng = np.random.default_rng(5)
    shares = []
    for _ in range(25):
        scores = rng.random(300)
        tally = Tally.from_arrays(scores, rng.random(300) < scores)
        points = isotonic_points(tally, 0.9), binned_points(Bins.of(tally, strategy="mass"), 0.9)
        shares.append([each.outside for each in points])
    # Shares of one data set depend on each other; their mean over 25 has a standard error below 0.025.
    assert (np.mean(shares, axis=0) < 0.10 + 0.06).all()


def test_a_wrong_model_leaves_the_grey():
    rng = np.random.default_rng(6)
    scores = rng.random(2_000)
    assert of(scores, rng.random(2_000) < scores**2).data["series"][0]["outside"] > 0.6


def test_weights_widen_the_grey_by_their_effective_size():
    scores, y = [0.5] * 40, [0, 1] * 20
    even = isotonic_points(Tally.from_arrays(scores, y, np.ones(40)), 0.9)
    # One row in ten has nearly all of the weight: the effective size is about 4 rows, not 40.
    uneven = isotonic_points(Tally.from_arrays(scores, y, np.tile([1000.0] + [1e-3] * 9, 4)), 0.9)
    assert uneven.high.item() - uneven.low.item() > 2 * (even.high.item() - even.low.item())


def test_the_seed_decides_the_grey():
    scores, y = np.random.default_rng(0).random((2, 200))
    one, same, other = (of(scores, y < scores, random_state=seed).data for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_many_scores_are_put_on_a_grid_of_about_a_thousand_cells():
    scores = np.random.default_rng(0).random(30_000)
    tally = Tally.from_arrays(scores, scores > 0.5)
    assert 300 < len(few_cells(tally)) <= 1_000
    assert few_cells(tally).total == 30_000
    gridded = tally.coarsen(Grid(9))
    assert 300 < len(few_cells(gridded)) <= 1_000


def test_a_grid_shows_nearly_what_exact_scores_show():
    rng = np.random.default_rng(0)
    scores = rng.random(3_000)
    y = rng.random(3_000) < scores
    exact, gridded = of(scores, y), of(Tally.from_arrays(scores, y, grid=Grid()))
    places = np.linspace(0.05, 0.95, 50)
    curves = [np.interp(places, one.series[0].cells.score, one.series[0].cells.rate) for one in (exact, gridded)]
    assert np.abs(curves[0] - curves[1]).mean() < 0.01


def test_few_scores_with_many_rows_are_heaped():
    for scores, expected in (
        ([0.1, 0.2] * 5, True),
        ([0.1, 0.2] * 4, False),
        (np.linspace(0.1, 0.9, 10), False),
        (np.linspace(0, 1, 2_000), False),
    ):
        assert few_distinct(Tally.from_arrays(scores, np.arange(len(scores)) % 2)) is expected
    with pytest.warns():
        assert few_distinct(Tally.from_arrays([0.3], [1]))


def test_heaped_scores_are_points_without_a_line(plt):
    display = of(np.tile([0.2, 0.4, 0.6, 0.8], 20), [0, 0, 1, 1] * 20).plot()
    assert len(display.ax_.get_lines()) == 1  # the diagonal
    (points,) = [c for c in display.ax_.collections if len(c.get_offsets()) == 4]
    np.testing.assert_allclose(points.get_offsets()[:, 0], [0.2, 0.4, 0.6, 0.8])


def test_heaped_scores_show_the_rate_at_each_score_and_its_acceptance_interval():
    # 4 of 10 at 0.5 and 2 of 10 at 0.6 are not pooled to 0.3 each; Bin(10, 0.5) stays in 2 to 8 with 90 %.
    cells = of([0.5] * 10 + [0.6] * 10, [1] * 4 + [0] * 6 + [1] * 2 + [0] * 8).series[0].cells
    assert cells.rate.tolist() == [0.4, 0.2]
    assert (cells.low[0], cells.high[0]) == (0.2, 0.8)
    assert cells.outside == 0.5  # P(Bin(10, 0.6) <= 2) = 0.012


@pytest.mark.statistical
def test_heaped_scores_of_a_perfect_model_have_a_tenth_outside_or_fewer():
    rng = np.random.default_rng(8)
    shares = []
    for _ in range(200):
        scores = rng.choice([0.5, 0.7, 0.8, 0.9, 0.95], 80)
        shares.append(of(scores, rng.random(80) < scores).data["series"][0]["outside"])
    assert np.mean(shares) < 0.10 + 3 * 0.13 / np.sqrt(200)  # one share has a standard deviation of about 0.13


def test_the_unit_of_importance_weights_decides_nothing():
    rng = np.random.default_rng(9)
    for scores, rate in ((np.tile([0.2, 0.5, 0.8], 20), 0.5), (rng.beta(1, 60, size=500), None)):
        y = rng.random(len(scores)) < (scores if rate is None else rate)
        weights = rng.exponential(size=len(scores))
        one, *others = (of(scores, y, weights * unit) for unit in (1.0, 1e-6, 1e6))
        assert one.axes == ("log-odds" if rate is None else "linear")
        assert one.series[0].few_distinct is (rate is not None)
        for other in others:
            assert other.axes == one.axes
            assert other.series[0].few_distinct is one.series[0].few_distinct
            assert informative_range(one.series[0].cells) == pytest.approx(informative_range(other.series[0].cells))


def test_under_weights_the_caption_promises_less():
    scores, y = np.linspace(0.1, 0.9, 40), np.arange(40) % 2
    assert of(scores, y).caption.endswith("about 10 %, or fewer.")
    weighted = of(scores, y, np.linspace(0.5, 2.0, 40))
    assert weighted.caption.endswith("about 10 % (approximate under weights).")
    assert of(scores, y).overlay(weighted).caption.endswith("about 10 % (approximate under weights).")


def test_points_grow_with_their_rows(plt):
    display = of([0.2] * 10 + [0.8] * 90, [0] * 9 + [1] + [1] * 80 + [0] * 10).plot()
    (points,) = [c for c in display.ax_.collections if len(c.get_offsets()) == 2]
    assert points.get_sizes()[1] > 2 * points.get_sizes()[0]


def test_rare_and_common_events_take_log_odds_axes():
    for events, expected in ((4, "log-odds"), (5, "linear"), (50, "linear"), (95, "linear"), (96, "log-odds")):
        y = np.arange(100) < events
        assert of(np.linspace(0.01, 0.99, 100), y).axes == expected
        assert of(np.linspace(0.01, 0.99, 100), y, axes="linear").axes == "linear"


def test_too_few_rows_to_see_a_rare_event_stay_linear():
    with pytest.warns():
        assert of([0.1] * 19, [0] * 19).axes == "linear"
    with pytest.warns():
        assert of([0.1] * 20, [0] * 20).axes == "log-odds"


def test_rare_events_get_bins_even_in_log_odds():
    bins = of(*rare(), curve="bins").series[0].bins
    assert bins is not None
    steps = np.diff(np.log(bins.score / (1 - bins.score)))
    assert steps.max() < 2.5 * np.median(steps)
    by_mass = of(*rare(), curve="bins", strategy="mass").series[0].bins
    assert by_mass is not None
    assert bins.score[-1] > 5 * by_mass.score[-1]


def test_the_telling_range_begins_where_an_event_is_due():
    # Ten scores of 1e-4 in 100 rows each: 0.01 events due by score; at 0.02, 2 events are.
    scores = np.concatenate([np.repeat(np.arange(1, 11) * 1e-5, 100), np.repeat(0.02, 100)])
    cells = isotonic_points(Tally.from_arrays(scores, np.arange(1_100) == 1_099), 0.9)
    assert informative_range(cells)[0] == 0.02


def test_after_is_drawn_over_before_and_named(plt):
    rng = np.random.default_rng(0)
    scores = rng.random(500)
    y = rng.random(500) < scores**2
    fitted = IsotonicCalibrator().fit(scores, y)
    display = of(scores, y, after=fitted.transform(scores)).plot()
    for same in (fitted, pd.Series(fitted.transform(scores))):
        assert of(scores, y, after=same).data == display.data
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels[:2] == ["before", "after"]
    assert "before" in display.caption


def test_overlay_takes_the_names_given():
    one, two = of([0.2, 0.7], [0, 1]), of([0.3, 0.6], [0, 1])
    assert [series.label for series in one.overlay(two, ["model A", "model B"]).series] == ["model A", "model B"]
    with pytest.raises(InputError, match="one name for each"):
        one.overlay(two, ["only one"])
    with pytest.raises(InputError, match="same curve and confidence"):
        one.overlay(of([0.3, 0.6], [0, 1], confidence=0.5))


def test_the_legend_says_the_level(plt):
    display = of(np.linspace(0.1, 0.9, 30), np.arange(30) % 2, confidence=0.8).plot()
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert any(label == "expected if calibrated\n(80 %, pointwise)" for label in labels)


def test_counts_by_outcome_stand_below(plt):
    display = of([0.2] * 8 + [0.8] * 4, [0] * 6 + [1] * 2 + [1] * 4).plot()
    events, others = (np.asarray(patch.get_data().values) for patch in display.counts_ax_.patches)
    assert (events.sum(), others.sum()) == (6, -6)
    assert [text.get_text() for text in display.counts_ax_.texts] == ["events", "no events"]
    assert display.counts_ax_.get_yscale() == "linear"


def test_a_bin_of_one_row_is_visible_beside_one_of_thousands_and_ticks_are_many(plt):
    scores = np.concatenate([np.repeat([0.2, 0.8], [6_000, 10]), np.linspace(0.3, 0.7, 60)])
    panel = of(scores, np.arange(6_070) % 2).plot().counts_ax_
    place = panel.transData.transform
    whole = panel.bbox.height / 2.0
    assert (place((0.5, 1.0)) - place((0.5, 0.0)))[1] > 0.05 * whole
    assert len(panel.get_yticks()) >= 5
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["1,000", "10", "0", "10", "1,000"]


def test_a_curve_does_not_end_in_a_step_of_a_few_rows():
    rng = np.random.default_rng(5)
    scores = np.sort(rng.random(1_000))
    y = (rng.random(1_000) < 0.5 * scores).astype(int)
    y[-3:] = 1
    assert pytest.approx(y[-10:].mean(), abs=0.35) == of(scores, y).series[0].cells.rate[-1]
    assert of(scores, y).series[0].cells.rate[-1] < 0.9
    for n in (2, 3, 9, 50):  # with fewer than ten rows nothing is pooled but what must be
        rates_ = isotonic_points(Tally.from_arrays(np.arange(1, n + 1) / (n + 1), np.arange(n) == n - 1), 0.9).rate
        assert rates_[-1] == pytest.approx(1.0 if n < 20 else 1.0 / 5.0)
        assert (np.diff(rates_) >= 0).all()


def test_linear_axes_follow_the_data_when_all_scores_are_small(plt):
    rng = np.random.default_rng(0)
    scores = rng.beta(8, 60, 3_000)
    display = of(scores, rng.random(3_000) < scores, axes="linear")
    low, high = display.layout.limits
    assert low == 0.0
    assert scores.max() < high < 0.5
    assert of(1 - scores, rng.random(3_000) < 1 - scores, axes="linear").layout.limits[1] == 1.0
    assert of(rng.random(500), rng.random(500) < 0.5).layout.limits == (0.0, 1.0)


def test_grades_without_events_fill_the_picture(plt):
    scores = np.repeat([0.0001, 0.0003, 0.0008, 0.002], [237, 322, 172, 69])
    with pytest.warns(CalibrantWarning):
        display = of(scores, np.zeros(800, int)).plot()
    places = display.ax_.transData.transform(np.column_stack([scores, scores]))[:, 0]
    assert np.ptp(places) > 0.5 * display.ax_.bbox.width


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_two_pictures_side_by_side_have_their_own_titles_and_nothing_touches(plt, layout):
    rng = np.random.default_rng(0)
    scores = rng.random(500)
    figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout=layout)
    for ax, name in zip(axes, ("old", "new"), strict=True):
        of(scores, rng.random(500) < scores, label=name).plot(ax)
    figure.canvas.draw()
    assert [ax.get_title(loc="left") for ax in axes] == ["Reliability: old", "Reliability: new"]
    boxes = [ax.get_tightbbox() for ax in axes]
    assert all(box.y1 <= figure.bbox.y1 - 2 for box in boxes)
    assert boxes[0].x1 < boxes[1].x0


@pytest.mark.parametrize("way", ["figsize", "ax", "later"])
def test_a_column_of_a_journal_is_wide_enough(plt, way):
    rng = np.random.default_rng(0)
    scores = rng.random(500)
    display = of(scores, rng.random(500) < scores)
    if way == "ax":
        display.plot(plt.subplots(figsize=(3.5, 4))[1])
    else:
        display.plot(figsize=(3.5, 4) if way == "figsize" else None)
    figure = display.figure_
    figure.set_size_inches(3.5, 4)
    figure.canvas.draw()
    width, height = display.ax_.bbox.width / figure.bbox.width, display.ax_.bbox.height / figure.bbox.height
    assert width > 0.6
    assert height > 0.35
    box = display.ax_.get_tightbbox()
    assert box.x0 >= 0.0
    assert box.y1 <= figure.bbox.y1 + 1
    caption = display.ax_.texts[0].get_window_extent()
    assert caption.x1 <= figure.bbox.x1


def test_title_and_caption_can_be_given_and_left_out(plt):
    display = of([0.2, 0.7] * 20, [0, 1] * 20)
    assert display.plot(title="Site A", caption="See text.").ax_.get_title(loc="left") == "Site A"
    assert display.ax_.texts[0].get_text() == "See text."
    bare = display.plot(title="", caption="").ax_
    assert (bare.get_title(loc="left"), bare.texts[0].get_text()) == ("", "")
    with pytest.raises(InputError, match="figsize"):
        display.plot(bare, figsize=(3, 3))


def test_the_smooth_curve_is_that_of_the_metric_and_its_band_is_worked_by_hand():
    rng = np.random.default_rng(2)
    scores = rng.random(2_000)
    y = (rng.random(2_000) < scores**2).astype(int)
    smooth = of(scores, y, curve="spline").series[0].smooth
    curve = calibration_curve(scores, y, at=smooth.score)
    np.testing.assert_allclose(smooth.rate, curve.rates, rtol=1e-9)
    # With two events of four rows at one score: log-odds 0 with standard error 1 / sqrt(4 * 0.25) = 1.
    one = of([0.5] * 4, [0, 1, 0, 1], curve="spline").series[0].smooth
    np.testing.assert_allclose(one.high, 1 / (1 + np.exp(-1.959964)), rtol=1e-6)
    np.testing.assert_allclose(one.low, 1 / (1 + np.exp(1.959964)), rtol=1e-6)


def test_a_smooth_curve_that_is_not_defined_is_left_out_and_the_caption_says_so(plt):
    display = of([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], curve="spline").plot()
    assert display.series[0].smooth is None
    assert "No smooth curve" in display.caption


def test_the_caption_counts_rows_and_events():
    assert of([0.2, 0.4, 0.6], [0, 0, 1]).caption.startswith("3 rows, 1 event (33.3 %).")
    weighted = of([0.2, 0.4, 0.6], [0, 0, 1], [0.5, 1.0, 1.5])
    assert weighted.caption.startswith("Total weight 3, of events 1.5 (50 %).")


def test_wrong_options_are_named(subtests):
    for name, value in (("curve", "lowess"), ("axes", "log"), ("confidence", 1.0), ("n_bins", 0)):
        with subtests.test(name), pytest.raises(InputError, match=name):
            of([0.2, 0.7], [0, 1], **{"acceptance": True, name: value})


def test_a_table_without_mean_scores_is_refused():
    with pytest.raises(InputError, match="mean scores"):
        of(Tally.from_table([5, 5], [1, 4], edges=[0.5]))


# ----------------------------------------------------------------------------------------------------------- validity


def test_the_certified_curve_adds_up_bins_by_their_own_epsilon():
    cal = HistogramBinning(n_bins=2, strategy="width").fit([0.2] * 100 + [0.8] * 300, ([0, 1] * 200))
    promise = cal.certificate(0.1)
    epsilon, share = certified_steps(promise)
    # The bin with 300 rows has the narrower interval and comes first.
    assert epsilon.tolist() == sorted(promise.half_widths)
    assert share.tolist() == [0.75, 1.0]


def test_no_share_of_rows_is_called_guaranteed(plt):
    # Nothing bounds the share of new rows in a bin: 100 and 300 calibration rows may come from bins of equal mass.
    cal = HistogramBinning(n_bins=2, strategy="width").fit([0.2] * 100 + [0.8] * 300, ([0, 1] * 200))
    for mode in ("simultaneous", "marginal"):
        shown = ValidityDisplay.from_predictions([0.2, 0.8], [0, 1], certificate=cal.certificate(coverage=mode)).plot()
        assert "guaranteed" not in shown.data
        assert not any("guaranteed" in text.get_text() for text in shown.ax_.get_legend().get_texts())
        assert "calibration rows" in shown.caption
        assert "estimate" in shown.caption


def test_rows_on_uncovered_edges_are_in_no_certified_share():
    rng = np.random.default_rng(0)
    scores = rng.random(200).round(1)
    cal = HistogramBinning(n_bins=4).fit(scores, rng.random(200) < scores)
    promise = cal.certificate(0.2, coverage="marginal")
    covered = promise.n / (promise.n + promise.uncovered_rows)
    assert covered < 1.0
    assert certified_steps(promise)[1].tolist() == [0.8 * covered]
    assert certified_steps(cal.certificate(0.2))[1][-1] == covered


def test_a_marginal_certificate_covers_one_minus_alpha():
    cal = HistogramBinning(n_bins=2, strategy="width").fit([0.2] * 100 + [0.8] * 300, ([0, 1] * 200))
    promise = cal.certificate(0.2, coverage="marginal")
    epsilon, share = certified_steps(promise)
    assert (epsilon.tolist(), share.tolist()) == ([promise.epsilon], [0.8])


def test_repetitions_are_shown_by_mean_and_standard_deviation():
    # |0.2 - 0.5| = 0.3 in one repetition, |0.2 - 0| = 0.2 in the other.
    one, two = validity_curve([0.2, 0.2], [0, 1]), validity_curve([0.2, 0.2, 0.9], [0, 0, 1])
    (curve,) = ValidityDisplay.from_curves([one, two]).data["curves"]
    assert curve["repetitions"] == 2
    # Errors of `two`: 0.1 for one row, 0.2 for two rows; of `one`: 0.3 for both.
    np.testing.assert_allclose(curve["epsilon"], [0.1, 0.2, 0.3])
    np.testing.assert_allclose(curve["share"], [1 / 6, 1 / 2, 1])
    np.testing.assert_allclose(curve["sd"], [np.sqrt(1 / 18), np.sqrt(1 / 2), 0])
    assert curve["auc"] == pytest.approx((one.auc + two.auc) / 2)


def test_no_curve_is_refused():
    with pytest.raises(InputError, match="at least one curve"):
        ValidityDisplay.from_curves({"empty": []})


# --------------------------------------------------------------------------------------------------------------- plan


def test_the_curves_are_those_of_the_bound():
    (curve,) = PlanDisplay.from_sizes([1_000], max_bins=20).data["curves"]
    assert curve["epsilon"] == [umd_epsilon(1_000, bins, 0.1) for bins in curve["n_bins"]]
    assert curve["n_bins"] == list(range(1, 21))


def test_figure_4_2_of_the_thesis():
    curves = {curve["n"]: curve for curve in PlanDisplay.from_sizes([1_000, 5_000, 20_000]).data["curves"]}
    for n, bins, epsilon in ((1_000, 5, 0.1076), (5_000, 10, 0.0729), (20_000, 22, 0.0579)):
        at = curves[n]["n_bins"].index(bins)
        assert curves[n]["epsilon"][at] == pytest.approx(epsilon, abs=5e-5)


def test_a_target_that_is_out_of_reach_is_not_marked():
    display = PlanDisplay.from_sizes([100, 100_000], epsilon=0.05)
    assert [best["n"] for best in display.data["chosen"]] == [100_000]


def test_bounds_that_promise_nothing_are_not_drawn():
    (curve,) = PlanDisplay.from_sizes([60], max_bins=30).data["curves"]
    assert max(curve["epsilon"]) < 1.0
    with pytest.raises(InputError, match="the bound is vacuous"):
        PlanDisplay.from_sizes([2])


def test_wrong_questions_are_named(subtests):
    for options, words in (
        ({"alpha": 2.0}, "alpha"),
        ({"coverage": "both"}, "coverage"),
        ({"scheme": "umx"}, "scheme"),
        ({"max_bins": 1}, "max_bins"),
        ({"epsilon": 2.0}, "epsilon"),
        ({"n": []}, "sizes"),
        ({"n": [1.5]}, "integers"),
    ):
        with subtests.test(words), pytest.raises(InputError, match=words):
            PlanDisplay.from_sizes(**{"n": [1_000], **options})


def test_labels_at_curve_ends_are_kept_apart():
    spread = plan._spread(np.array([0.98, 0.97, 0.2]), 0.1)
    assert np.diff(np.sort(spread)).min() >= 0.1 - 1e-12
    assert spread.max() <= 1.0
    assert (np.argsort(spread) == [2, 1, 0]).all()


# ---------------------------------------------------------------------------------------------------------------- map


def test_steps_stand_upright():
    display = MapDisplay.from_map(StepMap([0.5], [0.1, 0.8]))
    jump = np.flatnonzero(np.diff(display.output))
    assert len(jump) == 1
    assert np.diff(display.score)[jump[0]] < 1e-15


def test_intervals_are_the_certificate_s():
    scores = np.repeat([0.2, 0.8], 200)
    cal = HistogramBinning(n_bins=2, strategy="width").fit(scores, np.arange(400) % 4 == 0)
    promise = cal.certificate()
    shown = MapDisplay.from_map(cal).data["intervals"]
    assert (shown["left"], shown["right"]) == ([0.0, 0.5], [0.5, 1.0])
    assert shown["low"] == promise.lower.tolist()
    assert shown["high"] == promise.upper.tolist()


def test_a_map_a_calibration_and_a_calibrator_give_one_curve():
    cal = PlattScaling().fit(np.linspace(0.1, 0.9, 60), np.arange(60) % 3 == 0)
    outputs = [MapDisplay.from_map(fitted).output for fitted in (cal, cal.calibration_, cal.map_)]
    assert (outputs[0] == outputs[1]).all()
    assert (outputs[0] == outputs[2]).all()


def test_a_refusal_is_told_in_the_caption():
    cal = PlattScaling().fit(np.linspace(0.1, 0.9, 60), np.arange(60) % 3 == 0)
    assert MapDisplay.from_map(cal).caption.startswith("No certificate")


def test_maps_of_other_scores_are_shown_where_they_move():
    display = MapDisplay.from_map(LogitAffineMap(0.02, -3.0, on="score"))
    assert display.score_type == "real"
    # 0.02 s - 3 = -6 and 6.
    np.testing.assert_allclose(display.score[[0, -1]], [-150.0, 450.0])


def test_rare_events_give_maps_log_odds_axes():
    assert MapDisplay.from_map(HistogramBinning().fit(*rare())).axes == "log-odds"
    assert MapDisplay.from_map(HistogramBinning().fit(*rare()), axes="linear").axes == "linear"


def test_a_range_of_scores_can_be_asked_for():
    display = MapDisplay.from_map(LogitAffineMap(1.0, 0.0), score_range=(0.2, 0.4))
    assert display.score[[0, -1]].tolist() == [0.2, 0.4]
    with pytest.raises(InputError, match="score_range"):
        MapDisplay.from_map(LogitAffineMap(1.0, 0.0), score_range=(0.4, 0.2))


def test_what_is_not_a_fitted_map_is_refused(subtests):
    for thing in (3, "map", PlattScaling()):
        with subtests.test(str(thing)), pytest.raises((InputError, ValueError)):
            MapDisplay.from_map(thing)


# -------------------------------------------------------------------------------------------------------------- style


def test_layouts_rise_and_can_be_turned_back():
    p = np.array([0.0, 1e-6, 1e-5, 1e-4, 1e-3, 0.1, 0.3, 0.5, 0.99, 1.0])
    for layout in (style.Linear(), style.LogOdds.over(1e-4, 0.3, zero=True, one=True)):
        assert (np.diff(layout.forward(p)) > 0).all()
        np.testing.assert_allclose(layout.inverse(layout.forward(p)), p, rtol=1e-9, atol=1e-15)


def test_percentages_have_no_exponent():
    said = {0.0: "0 %", 1.0: "100 %", 0.1: "10 %", 1e-7: "0.00001 %", 0.999: "99.9 %"}
    assert {p: style.percent(p) for p in said} == said


def test_axes_in_log_odds_keep_a_place_for_zero(plt):
    display = of(*rare()).plot()
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels[0] == "0 %"
    assert "1 %" in labels


# --- from an estimator ------------------------------------------------------------------------------------------------


def test_an_estimator_is_drawn_as_its_predictions_are() -> None:
    X, y = worlds.features(600)
    words = np.where(y == 1, "yes", "no")
    model = LogisticRegression().fit(X[:200], words[:200])
    p, rest = model.predict_proba(X[200:])[:, 1], y[200:]
    by_hand = ReliabilityDisplay.from_predictions(p, rest, curve="bins")
    assert ReliabilityDisplay.from_estimator(model, X[200:], words[200:], curve="bins").data == by_hand.data
    other = ReliabilityDisplay.from_estimator(model, X[200:], words[200:], positive="no", curve="bins")
    assert other.data == ReliabilityDisplay.from_predictions(1.0 - p, 1 - rest, curve="bins").data
    with pytest.raises(InputError, match="positive='maybe' is not a class of the estimator"):
        ReliabilityDisplay.from_estimator(model, X, words, positive="maybe")
    with pytest.raises(InputError, match="estimator must be a fitted classifier with predict_proba, not RidgeClassi"):
        ReliabilityDisplay.from_estimator(RidgeClassifier().fit(X, y), X, y)
    three = y + (X[:, 2] > 0)
    many = LogisticRegression().fit(X, three)
    with pytest.raises(InputError, match="estimator has 3 classes: pass positive=, the class to draw against the rest"):
        ReliabilityDisplay.from_estimator(many, X, three)
    assert ReliabilityDisplay.from_estimator(many, X, three, positive=2).series[0].events == (three == 2).sum()


# ----------------------------------------------------------------------------------------------------- decision curves


def test_a_decision_curve_is_the_net_benefit_with_its_interval(plt):
    scores, y = np.array([0.1, 0.3, 0.6, 0.8] * 25), np.array([0, 0, 1, 1] * 25)
    display = DecisionCurveDisplay.from_predictions(scores, y, thresholds=[0.2, 0.5, 0.7])
    curve = net_benefit(scores, y, thresholds=[0.2, 0.5, 0.7])
    model = display.data["models"][0]
    assert model["net_benefit"] == curve.model.tolist() == [0.4375, 0.5, 0.25]
    np.testing.assert_allclose(np.subtract(model["high"], model["low"]), 2 * 1.959964 * curve.se, rtol=1e-6)
    labels = [text.get_text() for text in display.plot().ax_.get_legend().get_texts()]
    assert sorted(labels) == ["model", "treat all", "treat none"]


def test_several_models_and_before_and_after_share_a_decision_curve():
    scores, y = np.linspace(0.05, 0.95, 40), np.arange(40) % 3 == 0
    several = DecisionCurveDisplay.from_predictions({"old": scores, "new": scores**2}, y)
    pair = DecisionCurveDisplay.from_predictions(scores, y, after=scores**2)
    assert [model["label"] for model in several.data["models"]] == ["old", "new"]
    assert [model["label"] for model in pair.data["models"]] == ["before", "after"]
    assert several.data["models"][1]["net_benefit"] == pair.data["models"][1]["net_benefit"]
    with pytest.raises(InputError, match="after was passed with several models"):
        DecisionCurveDisplay.from_predictions({"old": scores, "new": scores}, y, after=scores)
    with pytest.raises(InputError, match="different thresholds"):
        DecisionCurveDisplay({"a": net_benefit(scores, y), "b": net_benefit(scores, y, thresholds=[0.5])})


def test_integer_importance_weights_do_not_narrow_the_band_and_frequencies_do():
    rng = np.random.default_rng(0)
    scores = rng.random(300)
    y, weight = rng.random(300) < scores, np.full(300, 100)
    one, many, repeated = (
        rates.smooth_curve(tally, 0.95)
        for tally in (
            Tally.from_arrays(scores, y),
            Tally.from_arrays(scores, y, weight),
            Tally.from_arrays(scores, y, weight, weight_type="frequency"),
        )
    )
    width, wide, narrow = (float((each.high - each.low).mean()) for each in (one, many, repeated))
    assert wide == pytest.approx(width, rel=0.05)
    assert narrow < 0.2 * width


def test_a_caption_says_when_there_are_few_events():
    scores = np.linspace(0.001, 0.01, 300)
    little = "Fewer than 10 events: only a large miscalibration would show."
    assert little in of(scores, np.arange(300) < 9).caption
    assert "Fewer than 10 rows without an event" in of(1.0 - scores, np.arange(300) >= 9).caption
    assert "Fewer than 10" not in of(scores, np.arange(300) < 10).caption


# --------------------------------------------------------------------------------------------------- not to be misread


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """Contrast of two colors as the web guidelines (WCAG 2.1) define it."""
    light = []
    for color in (one, other):
        part = np.asarray(color, dtype=float)
        light.append(
            np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
        )
    return (max(light) + 0.05) / (min(light) + 0.05)


def test_bands_and_curves_stand_out_on_a_dark_background(plt):
    from matplotlib.colors import to_rgb

    rng = np.random.default_rng(0)
    scores = rng.random(300)
    y = rng.random(300) < scores
    with plt.style.context("dark_background"):
        for curve in ("isotonic", "spline"):
            ax = of(scores, y, curve=curve).plot().ax_
            band = ax.collections[0]
            seen = band.get_alpha() * np.array(band.get_facecolor()[0][:3])  # on black
            line = next(each for each in ax.lines if each.get_label() not in ("perfect calibration",))
            assert contrast(seen, np.zeros(3)) > 2.0
            assert contrast(to_rgb(line.get_color()), seen) > 1.8


def test_an_axis_of_counts_says_that_it_is_logarithmic(plt):
    rng = np.random.default_rng(0)
    wide, even = rng.beta(1, 20, 3000), np.linspace(0.01, 0.99, 300)
    labels = [of(s, rng.random(len(s)) < s).plot().counts_ax_.get_ylabel() for s in (wide, even)]
    assert labels == ["Rows\n(log scale)", "Rows"]


@pytest.mark.filterwarnings("ignore:y has only one class")
def test_no_events_are_no_clean_bill():
    display = of([0.002] * 300, [0] * 300)
    assert display.data["series"][0]["rate_bound"] == pytest.approx(1 - 0.05 ** (1 / 300))
    assert "No event was seen." in display.caption
    assert "any event rate up to 0.99 % (95 % confidence)" in display.caption
    assert "0 % of the rows are outside" not in display.caption
    assert "100 % of the rows are outside" in of([0.5] * 300, [0] * 300).caption


def test_a_matrix_is_sent_to_the_display_of_several_classes() -> None:
    with pytest.raises(InputError, match=r"several classes use .*displays\.TopLabelDisplay"):
        ReliabilityDisplay.from_predictions(np.full((4, 3), 1 / 3), [0, 1, 2, 0])


def test_the_caption_of_a_smooth_curve_says_what_its_band_is_about() -> None:
    scores = np.linspace(0.1, 0.9, 200)
    caption = ReliabilityDisplay.from_predictions(scores, np.arange(200) % 3 == 0, curve="spline").caption
    assert caption.endswith(" of the rows. The band is about the curve, not about what a calibrated model would show.")


def test_a_legend_names_bars_and_error_bars_too(plt):
    """They are containers, and what lies on top is named first."""
    ax, x, y = plt.figure().subplots(), np.array([0.2, 0.6]), np.array([3.0, 1.0])
    ax.bar(x, y, width=0.1, label="rows", zorder=1)
    ax.errorbar(x, y, 0.5, fmt="none", label="interval", zorder=3)
    ax.plot(x, y, label="line", zorder=2)
    style.place_legend(ax, [(x, y)])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["interval", "line", "rows"]
