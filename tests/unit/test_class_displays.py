"""The numbers behind each picture of several classes, and what is drawn of them, on cases worked by hand."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from calibrant import HistogramBinning, InputError, TemperatureScaling
from calibrant.displays import (
    CanonicalValidityDisplay,
    ClasswiseDisplay,
    MulticlassErrorDisplay,
    ReliabilityDisplay,
    SimplexDisplay,
    TopLabelDisplay,
)
from calibrant.displays.multiclass.rates import MulticlassCells
from calibrant.displays.multiclass.simplex import on_triangle
from calibrant.metrics.multiclass.claims import read_claims
from calibrant.metrics.multiclass.errors import ece, errors_by_class
from calibrant.multiclass import SimplexBinning

EDGES = np.arange(1, 10) / 10
top_label = partial(TopLabelDisplay.from_predictions, edges=EDGES)  # bins [a, b), by the thesis


@pytest.fixture(name="plt")
def _pyplot():
    pytest.importorskip("matplotlib").use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    yield plt
    plt.close("all")


def draw(n: int = 600, classes: int = 3, seed: int = 0, power: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of class probabilities, right where ``power`` is 1."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), n)
    truth = p**power
    cuts = (truth / truth.sum(axis=1, keepdims=True)).cumsum(axis=1)[:, :-1]
    return p, (rng.random((n, 1)) > cuts).sum(axis=1)


# ---------------------------------------------------------------------------------------------------------- top-label

# Bin [0.5, 0.6): class a named in 4 rows at 0.5, 3 of them right; class b named in 6 rows at 0.55, 1 of them right.
#   conf = (4 x 0.5 + 6 x 0.55) / 10 = 0.53, acc = 4/10 = 0.4
#   Delta = 4/10 |3/4 - 0.5| + 6/10 |1/6 - 0.55| = 0.1 + 0.23 = 0.33; the star is below: the plus at 0.53 - 0.33 = 0.2
# Bin [0.9, 1]: class c named in 10 rows at 0.9, all right: conf 0.9, acc 1, Delta 0.1, plus at 1.
A, B, C = [0.5, 0.3, 0.2], [0.05, 0.55, 0.4], [0.05, 0.05, 0.9]
SCORES = [A] * 4 + [B] * 6 + [C] * 10
LABELS = list("aaab") + list("bccccc") + ["c"] * 10


def test_stars_are_the_classes_together_and_plusses_apart():
    bins = top_label(SCORES, LABELS).data["bins"]
    np.testing.assert_allclose(bins["mean_confidence"], [0.53, 0.9])
    np.testing.assert_allclose(bins["accuracy"], [0.4, 1.0])
    np.testing.assert_allclose(bins["delta"], [0.33, 0.1])
    np.testing.assert_allclose(bins["top_label"], [0.2, 1.0])
    assert (bins["left"], bins["right"], bins["n"]) == ([0.5, 0.9], [0.6, 1.0], [10.0, 10.0])


def test_the_errors_are_those_of_the_metrics():
    data = top_label(SCORES, LABELS).data
    # Together (10 x 0.13 + 10 x 0.1) / 20, apart (10 x 0.33 + 10 x 0.1) / 20.
    assert data["confidence_error"] == pytest.approx(0.115)
    assert data["top_label_error"] == pytest.approx(0.215)
    for notion, key in (("confidence", "confidence_error"), ("top-label", "top_label_error")):
        assert float(ece(SCORES, LABELS, notion=notion, edges=EDGES)) == pytest.approx(data[key])


def test_classes_that_err_against_each_other_cancel_in_the_star_alone():
    # Gupta's Example 5.1: half of the rows name a class that is always right, half one that never is.
    bins = top_label([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]] * 10, ["a", "c"] * 10, classes="abc").bins
    assert bins.accuracy.tolist() == bins.mean_confidence.tolist() == [0.5]
    assert bins.delta.tolist() == [0.5]
    assert bins.top_label.tolist() == [0.0]  # below, where the star is not above


def test_a_star_on_the_grey_and_a_plus_on_the_bar_are_what_chance_does():
    p, y = draw(4_000)
    bins = top_label(p, y).bins
    inside = (bins.low - 1e-9 <= bins.accuracy) & (bins.accuracy <= bins.high + 1e-9)
    assert inside.mean() >= 0.5
    assert (bins.delta <= bins.delta_chance).mean() >= 0.5
    wrong = top_label(*draw(4_000, power=4.0)).bins
    assert (wrong.delta > wrong.delta_chance).mean() > 0.5


@pytest.mark.statistical
def test_nine_in_ten_plusses_of_calibrated_models_stay_on_their_bar_or_more():
    kept = []
    for seed in range(40):
        bins = top_label(*draw(500, 4, seed=seed)).bins
        kept += (bins.delta <= bins.delta_chance + 1e-12).tolist()
    # The binomial law at the mean confidence is a little wide where confidences differ in a bin: 90 %, or more.
    assert stats.binomtest(sum(kept), len(kept), 0.9, alternative="less").pvalue > 1e-3
    assert np.mean(kept) < 0.97


def test_few_rows_of_many_classes_have_plusses_far_out_by_chance():
    rng = np.random.default_rng(0)
    named = rng.integers(0, 100, 300)
    hits = rng.random(300) < 0.55
    y = np.where(hits, named, (named + 1) % 100)
    data = top_label(np.full(300, 0.55), y, named=named).data
    assert data["top_label_error"] > 0.2
    assert data["top_label_error_by_chance"] == pytest.approx(data["top_label_error"], abs=0.05)


def test_named_classes_with_their_probability_give_the_same_picture():
    p, y = draw(200)
    whole, alone = top_label(p, y).data, top_label(p.max(axis=1), y, named=p.argmax(axis=1)).data
    assert whole["bins"] == alone["bins"]


def test_the_error_by_class_has_an_axis_of_its_own(plt):
    # Six rows of a never right, four of b always: at 0.4, Delta = 0.6 x 0.4 + 0.4 x 0.6 = 0.48.
    p = [[0.4, 0.3, 0.3]] * 6 + [[0.3, 0.4, 0.3]] * 4
    display = top_label(p, ["c"] * 6 + ["b"] * 4, classes="abc").plot()
    heights = [points.get_offsets()[:, 1].tolist() for points in display.error_ax_.collections]
    assert pytest.approx([0.48]) in heights
    assert display.error_ax_.get_ylabel() == "Mean error\nby class"
    display.figure_.draw_without_rendering()
    ends = [(round(ax.bbox.x0, 3), round(ax.bbox.x1, 3)) for ax in display.figure_.axes]
    assert len(ends) == 3
    assert len(set(ends)) == 1
    shown = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert sorted(shown) == ["accuracy", "expected if calibrated (90 %)", "perfect calibration"]


def test_importance_weights_move_stars_and_widen_the_grey():
    weights = np.where(np.arange(40) % 10 == 0, 1000.0, 1e-3)
    p, y = [[0.5, 0.3, 0.2]] * 40, ["a", "b"] * 20
    even, uneven = top_label(p, y, classes="abc").bins, top_label(p, y, weights, classes="abc").bins
    assert uneven.high.item() - uneven.low.item() > 2 * (even.high.item() - even.low.item())
    assert uneven.accuracy.item() > 0.99


def test_wrong_options_of_the_top_label_picture_are_named(subtests):
    for name, value in (("confidence", 1.0), ("n_bins", 0), ("edges", [0.5, 0.5]), ("classes", "ab")):
        with subtests.test(name), pytest.raises(InputError, match=name):
            top_label(SCORES, LABELS, **{name: value})


# --------------------------------------------------------------------------------------------------------------- zoom


def test_a_bin_shows_each_class_with_its_exact_interval():
    data = top_label(SCORES, LABELS).zoom(0.55).data
    assert (data["bin"], data["rows"]) == ([0.5, 0.6], 10.0)
    assert (data["classes"], data["n"]) == (["b", "a"], [6.0, 4.0])
    np.testing.assert_allclose(data["mean_confidence"], [0.55, 0.5])
    np.testing.assert_allclose(data["accuracy"], [1 / 6, 3 / 4])
    # Clopper-Pearson at 90 %, 3 of 4: P(X >= 3 | low) = 0.05 at 0.2486, P(X <= 3 | high) = 1 - high^4 = 0.05 at 0.9873.
    assert data["low"][1] == pytest.approx(0.2486, abs=1e-4)
    assert data["high"][1] == pytest.approx(0.95**0.25)
    assert data["overall"] == {"confidence": pytest.approx(0.53), "accuracy": pytest.approx(0.4)}


def test_a_bin_without_rows_and_a_confidence_that_is_none_are_refused():
    with pytest.raises(InputError, match="70 % to 80 %"):
        top_label(SCORES, LABELS).zoom(0.75)
    with pytest.raises(InputError, match="confidence must be in"):
        top_label(SCORES, LABELS).zoom(6)


def test_the_last_bin_holds_certainty():
    assert top_label(SCORES, LABELS).zoom(1.0).data["bin"] == [0.9, 1.0]


def test_bins_of_equal_width_are_closed_above():
    display = TopLabelDisplay.from_predictions(SCORES, LABELS)
    assert display.zoom(0.5).data["bin"] == [0.4, 0.5]
    assert display.zoom(0.9).data["bin"] == [0.8, 0.9]
    assert display.data["bins"]["n"] == [4.0, 6.0, 10.0]
    assert float(ece(SCORES, LABELS, n_bins=10)) == pytest.approx(display.data["confidence_error"])


def test_of_many_classes_the_farthest_from_their_confidence_are_shown(plt):
    # Thirty classes at confidence 0.5 with 20 rows each, 10 right; the last five have none right.
    named = np.repeat(np.arange(30), 20)
    right = (np.arange(600) % 2 == 0) & (named < 25)
    y = np.where(right, named, (named + 1) % 30)
    display = top_label(np.full(600, 0.5), y, named=named).zoom(0.5)
    assert {"25", "26", "27", "28", "29"} < set(display.classes)
    assert (len(display.classes), display.unseen) == (20, 10)
    assert "30 classes predicted; the 20 farthest" in display.caption
    labels = [text.get_text() for text in display.plot().ax_.get_yticklabels()]
    assert labels == ["all", *display.classes]


def test_rows_and_counts_stand_beside_each_other(plt):
    display = top_label(SCORES, LABELS).zoom(0.55).plot()
    assert [bar.get_width() for bar in display.counts_ax_.patches] == [6.0, 4.0]
    assert display.counts_ax_.get_ylim() == display.ax_.get_ylim()


# --------------------------------------------------------------------------------------------------------- class-wise


def test_each_panel_is_the_diagram_of_its_class_against_the_rest():
    p, y = draw(500)
    for panel in ClasswiseDisplay.from_predictions(p, y).data["panels"]:
        column = int(panel["class"])
        alone = ReliabilityDisplay.from_predictions(p[:, column], y == column, strategy="width").data["series"][0]
        assert panel["cells"] == alone["cells"]
        assert (panel["rows"], panel["events"]) == (500.0, float((y == column).sum()))


def test_the_error_of_a_panel_is_the_class_wise_one():
    p, y = draw(500)
    errors = errors_by_class(p, y, notion="class-wise", n_bins=10)
    found = {panel["class"]: panel for panel in ClasswiseDisplay.from_predictions(p, y).data["panels"]}
    for name, error, null in zip(errors.classes, errors.error, errors.null, strict=True):
        assert found[name]["error"] == pytest.approx(error)
        # Binomial at the mean of each bin against draws by row: close, a little above.
        assert found[name]["error_by_chance"] == pytest.approx(null, rel=0.15)


def test_the_classes_worst_beyond_chance_are_shown_and_the_others_counted():
    p, y = draw(4_000, 12, seed=1)
    p[:, [4, 9]] = p[:, [9, 4]]
    display = ClasswiseDisplay.from_predictions(p, y, max_classes=2)
    assert {panel.name for panel in display.panels} == {"4", "9"}
    assert display.unseen == 10
    assert "2 of 12 classes" in display.caption
    assert "10 are not." in display.caption


def test_panels_of_the_classes_have_the_same_size(plt, subtests) -> None:
    p, y = draw(400, classes=5)
    for name, given in (("one curve", {}), ("before and after", {"after": TemperatureScaling().fit(p, y)})):
        with subtests.test(name):
            drawn = ClasswiseDisplay.from_predictions(p, y, **given).plot()
            drawn.figure_.draw_without_rendering()
            sizes = np.array([panel.get_position().size for panel in drawn.panels_[:5]])
            assert sizes == pytest.approx(np.tile(sizes[0], (5, 1)), abs=1e-6)
            right = max(note.get_window_extent().x1 for panel in drawn.panels_[:5] for note in panel.texts)
            assert right <= drawn.figure_.bbox.x1


def test_a_class_without_rows_is_shown_without_a_warning(plt):
    display = ClasswiseDisplay.from_predictions([[0.6, 0.3, 0.1]] * 30, ["a", "b"] * 15, classes="abc").plot()
    assert {panel["class"]: panel["events"] for panel in display.data["panels"]} == {"a": 15.0, "b": 15.0, "c": 0.0}
    assert len(display.panels_) == 6


def test_rows_need_not_sum_to_one_for_class_wise_pictures():
    p, y = draw(200)
    assert ClasswiseDisplay.from_predictions(p**2, y, score_type="independent").unseen == 0


def test_wrong_options_of_class_wise_pictures_are_named(subtests):
    for name, value in (("max_classes", 0), ("axes", "log"), ("curve", "x")):
        with subtests.test(name), pytest.raises(InputError, match=name):
            ClasswiseDisplay.from_predictions(*draw(50), **{name: value})


# ------------------------------------------------------------------------------------------------------- class errors


def test_errors_by_class_before_and_after():
    # Class c at 0.9, always right: 0.1. Class b: |1/6 - 0.55| = 0.3833. Class a: |3/4 - 0.5| = 0.25.
    after = [0.75] * 4 + [0.2] * 6 + [1.0] * 10
    data = MulticlassErrorDisplay.from_predictions(SCORES, LABELS, after=after).data
    before, changed = ({one["class"]: one for one in model["classes"]} for model in data["models"])
    assert list(before) == list(changed) == ["c", "b", "a"]  # by frequency: 10, 6 and 4 rows name them
    np.testing.assert_allclose([before[name]["error"] for name in "cba"], [0.1, 0.55 - 1 / 6, 0.25])
    np.testing.assert_allclose([changed[name]["error"] for name in "cba"], [0.0, 0.2 - 1 / 6, 0.0], atol=1e-12)
    assert [before[name]["rows"] for name in "cba"] == [10.0, 6.0, 4.0]
    # E|Bin(10, 0.9)/10 - 0.9| is twice the part above: 2 P(X = 10) (1 - 0.9) = 0.2 x 0.9^10.
    assert before["c"]["null"] == pytest.approx(0.2 * 0.9**10, rel=0.2)


def test_a_matrix_after_calibration_names_its_own_classes():
    p, y = draw(300)
    data = MulticlassErrorDisplay.from_predictions(
        p, y, after=p**2 / (p**2).sum(axis=1, keepdims=True), notion="class-wise"
    ).data
    direct = errors_by_class(p**2 / (p**2).sum(axis=1, keepdims=True), y, notion="class-wise").to_dict()["classes"]
    assert sorted(data["models"][1]["classes"], key=str) == sorted(direct, key=str)


def test_rows_of_weight_zero_are_no_rows_after_calibration_either():
    weights = [1.0] * 10 + [0.0] * 5 + [1.0] * 5
    after = np.linspace(0.1, 0.9, 20)
    some = [*range(10), *range(15, 20)]
    one = MulticlassErrorDisplay.from_predictions(SCORES, LABELS, weights, after=after, classes="abc").data
    other = MulticlassErrorDisplay.from_predictions(
        [SCORES[i] for i in some], [LABELS[i] for i in some], after=after[some], classes="abc"
    ).data
    for a, b in zip(one["models"], other["models"], strict=True):
        assert [row["error"] for row in a["classes"]] == pytest.approx([row["error"] for row in b["classes"]])


def test_a_class_that_is_never_named_has_no_dot(plt):
    display = MulticlassErrorDisplay.from_predictions(
        [A] * 10 + [C] * 10, list("aaaaabbbbb") + ["c"] * 10, classes="abc"
    ).plot()
    (silent,) = [row for row in display.data["models"][0]["classes"] if row["class"] == "b"]
    assert silent["error"] is None
    assert "1 class without a dot: predicted for no row." in display.caption
    assert display.ax_.get_ylabel() == "Class named"


def test_of_many_classes_the_worst_beyond_chance_are_shown_by_frequency():
    named = np.repeat(np.arange(40), np.arange(40) + 21)
    right = (np.arange(len(named)) % 2 == 0) & (named < 35)
    y = np.where(right, named, (named + 1) % 40)
    errors = errors_by_class(np.full(len(named), 0.5), y, named=named)
    display = MulticlassErrorDisplay({"": errors}, max_classes=10)
    assert {"35", "36", "37", "38", "39"} < set(display.classes)
    assert [int(name) for name in display.classes] == sorted(map(int, display.classes), reverse=True)
    assert display.unseen == 30
    assert "30 are not." in display.caption


def test_without_a_null_value_there_are_no_ticks_and_the_caption_says_so(plt):
    display = MulticlassErrorDisplay({"": errors_by_class(*draw(100), uncertainty=False)}).plot()
    assert "not computed for this many rows" in display.caption
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["error"]


def test_wrong_notions_and_models_of_other_classes_are_refused():
    one, other = errors_by_class(*draw(50, 3)), errors_by_class(*draw(50, 4))
    with pytest.raises(InputError, match="notion"):
        MulticlassErrorDisplay({"": one}, notion="confidence")
    with pytest.raises(InputError, match="same classes"):
        MulticlassErrorDisplay({"one": one, "other": other})
    with pytest.raises(InputError, match="max_classes"):
        MulticlassErrorDisplay({"": one}, max_classes=0)


# ------------------------------------------------------------------------------------------------------------ simplex

HALVES = SimpleNamespace(regions=lambda p: (p[:, 0] < 0.5).astype(int))


def test_regions_hold_mean_prediction_calibrated_prediction_and_shares():
    # Region 0: rows (0.8, 0.1, 0.1) and (0.6, 0.4, 0), of classes a and b. Region 1: (0.2, 0.2, 0.6), of class c.
    scores = [[0.8, 0.1, 0.1], [0.6, 0.4, 0.0], [0.2, 0.2, 0.6]]
    after = [[0.5, 0.4, 0.1]] * 2 + [[0.0, 0.0, 1.0]]
    display = SimplexDisplay.from_predictions(scores, list("abc"), binning=HALVES, after=after, min_rows=2)
    regions = display.data["regions"]
    np.testing.assert_allclose(regions["before"], [[0.7, 0.25, 0.05], [0.2, 0.2, 0.6]])
    np.testing.assert_allclose(regions["after"], [[0.5, 0.4, 0.1], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(regions["seen"], [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    assert (regions["n"], regions["shown"]) == ([2.0, 1.0], [True, False])
    # Before: |0.7 - 0.5| + |0.25 - 0.5| + 0.05 = 0.5 for two rows and 0.2 + 0.2 + 0.4 = 0.8 for one; after 0.2 and 0.
    assert display.data["error_before"] == pytest.approx((2 * 0.5 + 0.8) / 3)
    assert display.data["error_after"] == pytest.approx(2 * 0.2 / 3)


def test_the_validity_curve_adds_up_regions_by_their_distance():
    scores = [[0.8, 0.1, 0.1], [0.6, 0.4, 0.0], [0.2, 0.2, 0.6]]
    display = CanonicalValidityDisplay.from_predictions(scores, list("abc"), binning=HALVES, after=scores)
    for curve in display.data["curves"]:
        np.testing.assert_allclose(curve["epsilon"], [0.5, 0.8])
        np.testing.assert_allclose(curve["share"], [2 / 3, 1.0])
        assert curve["error"] == pytest.approx(0.6)


def test_the_grey_of_a_validity_curve_is_what_right_predictions_give():
    p, y = draw(3_000)
    fitted = SimplexBinning("grid", cells=3).fit(p, y)
    new, labels = draw(3_000, seed=1)
    right = CanonicalValidityDisplay.from_predictions(new, labels, binning=fitted, after=new).data
    gray, curve = right["gray"], right["curves"][1]
    share = np.append(0.0, curve["share"])[np.searchsorted(curve["epsilon"], gray["epsilon"], side="right")]
    assert np.mean((share >= np.array(gray["low"]) - 1e-9) & (share <= np.array(gray["high"]) + 1e-9)) > 0.7
    wrong = CanonicalValidityDisplay.from_predictions(new, labels, binning=fitted, after=np.roll(new, 1, axis=1)).data
    assert wrong["curves"][1]["share"][0] < 0.5
    assert wrong["curves"][1]["error"] > 3 * right["curves"][1]["error"]


def test_a_fitted_binning_its_map_and_logits_give_one_picture():
    p, y = draw(900)
    fitted = SimplexBinning("sierpinski", depth=2).fit(p, y)
    by_logits = SimplexBinning("sierpinski", depth=2).fit(np.log(p), y, score_type="logit")
    pictures = [
        SimplexDisplay.from_predictions(scores, y, binning=binning, score_type=kind).data["regions"]
        for scores, binning, kind in (
            (p, fitted, None),
            (p, fitted.map_, None),
            (np.log(p), fitted, "logit"),
            (np.log(p), by_logits, "logit"),
            (p, by_logits, "probability"),
        )
    ]
    for other in pictures[1:]:
        assert other["codes"] == pictures[0]["codes"]
        np.testing.assert_allclose(other["before"], pictures[0]["before"])
        np.testing.assert_allclose(other["after"], pictures[0]["after"])


def test_few_rows_of_a_region_have_no_arrow(plt):
    scores = [[0.8, 0.1, 0.1]] * 300 + [[0.2, 0.2, 0.6]] * 12
    display = SimplexDisplay.from_predictions(
        scores, ["a"] * 200 + ["b"] * 112, binning=HALVES, after=scores, classes="abc"
    )
    assert display.min_rows == 16.0  # a tenth of the mean, 312 / 2 / 10
    assert display.data["regions"]["shown"] == [True, False]
    arrows = [text for text in display.plot().ax_.texts if getattr(text, "arrow_patch", None) is not None]
    assert len(arrows) == 1
    assert "1 with fewer than 16 rows have no arrow" in display.caption


def test_of_many_rows_some_are_drawn_and_all_counted():
    p, y = draw(9_000)
    display = SimplexDisplay.from_predictions(p, y, binning=HALVES, after=p)
    assert len(display.data["points"]) == 4_000
    assert sum(display.data["regions"]["n"]) == 9_000
    assert "9,000 rows (4,000 drawn)" in display.caption


def test_corners_are_the_classes(plt):
    np.testing.assert_allclose(on_triangle(np.eye(3)), [[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
    display = SimplexDisplay.from_predictions(*draw(60), binning=HALVES, after=np.full((60, 3), 1 / 3)).plot()
    labels = {text.get_text(): tuple(text.xy) for text in display.ax_.texts if text.get_text() in ("0", "1", "2")}
    assert labels["1"] == pytest.approx((1.0, 0.0))
    assert labels["2"] == pytest.approx((0.5, np.sqrt(0.75)))


def test_what_cannot_be_drawn_on_a_triangle_is_refused():
    p, y = draw(50, 4)
    with pytest.raises(InputError, match="three classes to be drawn on a triangle, got 4"):
        SimplexDisplay.from_predictions(p, y, binning=HALVES, after=p)
    p, y = draw(50)
    with pytest.raises(InputError, match="after is missing"):
        SimplexDisplay.from_predictions(p, y, binning=HALVES)
    with pytest.raises(InputError, match="no method `regions`"):
        SimplexDisplay.from_predictions(p, y, binning=HistogramBinning())
    with pytest.raises(InputError, match="same rows and classes"):
        SimplexDisplay.from_predictions(p, y, binning=HALVES, after=p[:10])
    with pytest.raises(InputError, match="after must contain probabilities"):
        SimplexDisplay.from_predictions(p, y, binning=HALVES, after=2 * p)
    with pytest.raises(InputError, match="sum to 1"):
        SimplexDisplay.from_predictions(p / 2, y, binning=HALVES, after=p, score_type="independent")
    with pytest.raises(InputError, match="confidence"):
        CanonicalValidityDisplay.from_predictions(p, y, binning=HALVES, after=p, confidence=0.0)


def test_rows_of_weight_zero_are_dropped_from_what_calibration_gave():
    p, y = draw(40)
    weights = (np.arange(40) % 4 > 0).astype(float)
    one = SimplexDisplay.from_predictions(p, y, weights, binning=HALVES, after=p[::-1]).data
    kept = weights > 0
    other = SimplexDisplay.from_predictions(p[kept], y[kept], binning=HALVES, after=p[::-1][kept]).data
    np.testing.assert_allclose(one["regions"]["after"], other["regions"]["after"])


# -------------------------------------------------------------------------------------------------------------- cells


def test_cells_are_counted_by_class_and_bin():
    cells = MulticlassCells.of(read_claims(SCORES, LABELS, notion="top-label"), edges=[0.52, 0.8])
    assert cells.n.tolist() == [[4, 0, 0], [0, 6, 0], [0, 0, 10]]
    assert cells.events.tolist() == [[3, 0, 0], [0, 1, 0], [0, 0, 10]]
    error, chance = cells.errors(0)
    np.testing.assert_allclose(error, [0.25, 0.55 - 1 / 6, 0.1])
    # E|Bin(4, 1/2)/4 - 1/2| = (2 x 1/16 x 1/2) + (2 x 4/16 x 1/4) = 3/16.
    assert chance[0] == pytest.approx(3 / 16, abs=0.02)


# ------------------------------------------------------------------------------------------------------ words and room


def test_three_classes_share_a_row_and_its_axes_and_numbers_are_called_classes(plt):
    display = ClasswiseDisplay.from_predictions(*draw(300)).plot()
    display.figure_.draw_without_rendering()
    panels, counts = display.panels_[:3], display.panels_[3:]
    assert len({round(panel.get_position().y0, 6) for panel in panels}) == 1
    assert len({(panel.get_xlim(), panel.get_ylim()) for panel in panels}) == 1
    assert {panel.get_title(loc="left") for panel in panels} == {"class 0", "class 1", "class 2"}
    assert all(panel.get_xlabel() for panel in counts)
    for panel, one in zip(panels, display.panels, strict=True):
        assert (
            panel.texts[0]
            .get_text()
            .replace("\n", "; ", 1)
            .startswith(f"{one.series.events:,.0f} rows of the class; error")
        )


def test_the_axis_says_how_many_classes_are_shown(plt):
    display = MulticlassErrorDisplay.from_predictions(*draw(400, 6), max_classes=4).plot()
    assert display.ax_.get_ylabel() == "Class named (4 of 6 shown)"


def test_the_legend_covers_no_bar_of_the_top_label_picture(plt):
    for seed in range(2):
        display = TopLabelDisplay.from_predictions(*draw(60, seed=seed)).plot()
        display.figure_.draw_without_rendering()
        box = display.ax_.get_legend().get_window_extent()
        bins = display.bins
        for ends in ((bins.low, bins.high), (bins.accuracy, bins.accuracy)):
            for x, low, high in zip(bins.mean_confidence, *ends, strict=True):
                at = display.ax_.transData.transform(np.column_stack([np.full(30, x), np.linspace(low, high, 30)]))
                inside = (at >= [box.x0, box.y0]) & (at <= [box.x1, box.y1])
                assert not inside.all(axis=1).any()


def test_the_triangle_says_what_its_dotted_lines_are_and_that_colors_repeat(plt):
    p, y = draw(400)
    ten = SimpleNamespace(regions=lambda p: np.minimum((10 * p[:, 0]).astype(int), 9))
    display = SimplexDisplay.from_predictions(p, y, binning=ten, after=p).plot()
    assert "from calibrated to observed" in [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert "colors repeat" in display.caption
    assert "colors repeat" not in SimplexDisplay.from_predictions(p, y, binning=HALVES, after=p).caption


def test_a_missing_binning_is_one_sentence():
    for display in (SimplexDisplay, CanonicalValidityDisplay):
        with pytest.raises(InputError, match="binning is missing: pass a fitted SimplexBinning"):
            display.from_predictions(*draw(50))


# ---------------------------------------------------------------------------------------------------- before and after


def shifted(n: int = 900) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class probabilities that are too extreme, labels, and the right probabilities."""
    rng = np.random.default_rng(7)
    z = rng.normal(0.0, 1.2, (n, 3))
    right, extreme = (np.exp(k * z) / np.exp(k * z).sum(axis=1, keepdims=True) for k in (1.0, 2.5))
    return extreme, np.array(list("abc"))[(rng.random((n, 1)) > right.cumsum(axis=1)[:, :-1]).sum(axis=1)], right


@pytest.mark.parametrize("display", [TopLabelDisplay, ClasswiseDisplay, MulticlassErrorDisplay])
def test_a_calibrator_and_the_probabilities_it_gives_show_the_same_before_and_after(display, plt):
    extreme, y, _ = shifted()
    fitted = TemperatureScaling().fit(extreme, y)
    by_calibrator = display.from_predictions(extreme, y, after=fitted)
    assert by_calibrator.data == display.from_predictions(extreme, y, after=fitted.transform(extreme)).data
    by_calibrator.plot()
    legends = [ax.get_legend() for ax in by_calibrator.figure_.axes if ax.get_legend() is not None]
    words = " ".join(text.get_text() for legend in legends for text in legend.get_texts())
    assert "before" in words
    assert "after" in words


def test_the_picture_after_calibration_is_that_of_the_calibrated_probabilities():
    extreme, y, right = shifted()
    both, alone = (TopLabelDisplay.from_predictions(*args) for args in ((right, y), (extreme, y)))
    shown = TopLabelDisplay.from_predictions(extreme, y, after=right)
    assert shown.data["bins"] == both.data["bins"]
    assert shown.data["before"] == alone.data["bins"]
    panels = ClasswiseDisplay.from_predictions(extreme, y, after=right).data["panels"]
    before = {one["class"]: one for one in ClasswiseDisplay.from_predictions(extreme, y).data["panels"]}
    after = {one["class"]: one for one in ClasswiseDisplay.from_predictions(right, y).data["panels"]}
    for one in panels:
        assert one["error"] == after[one["class"]]["error"]
        assert one["before"]["error"] == before[one["class"]]["error"]
        assert one["before"]["cells"]["rate"] == before[one["class"]]["cells"]["rate"]


def test_what_cannot_be_after_is_refused():
    extreme, y, right = shifted(60)
    with pytest.raises(InputError, match="after is one column"):
        ClasswiseDisplay.from_predictions(extreme, y, after=right[:, 0])
    with pytest.raises(InputError, match="after needs a matrix"):
        TopLabelDisplay.from_predictions(right.max(axis=1), y, named=y, after=right)


def test_each_class_has_its_counts(plt):
    extreme, y, _ = shifted()
    display = ClasswiseDisplay.from_predictions(extreme, y).plot()
    counts = display.panels_[len(display.panels) :]
    for panel, one in zip(counts, display.panels, strict=True):
        events, others = (np.asarray(patch.get_data().values) for patch in panel.patches)
        assert (events.sum(), -others.sum()) == (one.series.events, one.series.rows - one.series.events)
