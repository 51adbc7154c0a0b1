"""Metrics of class probabilities: worked examples, laws that must hold, edges, and other implementations."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests import worlds

from calibrant import check, metrics, report
from calibrant.messages import InputError
from calibrant.metrics import (
    MULTICLASS_METRICS,
    accuracy,
    brier,
    debiased_ece,
    ece,
    errors_by_class,
    log_loss,
    marginal_error,
)
from calibrant.metrics.estimates import Estimate
from calibrant.metrics.multiclass.bins import MulticlassBins
from calibrant.metrics.multiclass.claims import read_claims
from calibrant.metrics.multiclass.covariance import null_draws
from calibrant.notions import TopKConfidence, TopKLabel

NOTIONS = ("confidence", "top-label", "class-wise", TopKConfidence(2), TopKLabel(2), "canonical")
DISTINCT = {"strategy": "distinct", "uncertainty": False}

# Six rows and four classes, worked by hand below.
SIX = np.array(
    [
        [0.6, 0.2, 0.1, 0.1],  # a
        [0.6, 0.1, 0.2, 0.1],  # c
        [0.2, 0.6, 0.1, 0.1],  # b
        [0.1, 0.6, 0.2, 0.1],  # b
        [0.1, 0.1, 0.8, 0.0],  # c
        [0.1, 0.1, 0.8, 0.0],  # d
    ]
)
LABELS = ["a", "c", "b", "b", "c", "d"]


def codes(found: Estimate) -> list[str]:
    return [note.code for note in found.notes]


def matrix(n: int, k: int, seed: int = 0, sharp: float = 0.5) -> worlds.Rows:
    return worlds.classes(n, k, seed, concentration=sharp)


# --- worked examples --------------------------------------------------------------------------------------------------

WORKED = {
    # 0.6 in rows 1-4, of which 3 come true: |3 - 2.4|; 0.8 in rows 5-6, of which 1 does: |1 - 1.6|.
    "confidence": ("confidence", (0.6 + 0.6) / 6),
    # a: |1 - 1.2|; b: |2 - 1.2|; c: |1 - 1.6|.
    "top-label": ("top-label", (0.2 + 0.8 + 0.6) / 6),
    # a: 0.6 |1 - 1.2|, 0.2 |0 - 0.2|, 0.1 |0 - 0.3|; b: 0.6 |2 - 1.2|, 0.2 |0 - 0.2|, 0.1 |0 - 0.3|;
    # c: 0.8 |1 - 1.6|, 0.2 |1 - 0.4|, 0.1 |0 - 0.2|; d: 0.1 |0 - 0.4|, 0 |1 - 0|; the mean over four classes.
    "class-wise": ("class-wise", (0.7 + 1.3 + 1.4 + 1.4) / 6 / 4),
    # Second ranks: b c a c with 0.2, row 2 comes true: |1 - 0.8|; a a with 0.1, before their equals: |0 - 0.2|.
    "top-2-confidence": (TopKConfidence(2), (1.2 + 0.4) / 6 / 2),
    # By class: b |0 - 0.2|, c |1 - 0.4|, a at 0.2 |0 - 0.2|, a at 0.1 |0 - 0.2|.
    "top-2-label": (TopKLabel(2), (1.6 + 1.2) / 6 / 2),
    # Rows by themselves: 0.8, 1.6, 0.8, 0.8; rows 5 and 6 together, (0, 0, 0.5, 0.5) against (0.1, 0.1, 0.8, 0): 1.0.
    "canonical": ("canonical", (0.8 + 1.6 + 0.8 + 0.8 + 2 * 1.0) / 6),
}


def test_six_rows_worked_by_hand_for_every_notion(subtests):
    for name, (notion, expected) in WORKED.items():
        with subtests.test(name):
            assert ece(SIX, LABELS, notion=notion, strategy="distinct").value == pytest.approx(expected, abs=1e-12)


def test_six_rows_worked_by_hand_for_other_orders():
    square = ece(SIX, LABELS, p=2, notion="top-label", **DISTINCT).value
    assert square == pytest.approx(np.sqrt((0.1**2 + 0.4**2 + 0.3**2) / 3))
    assert ece(SIX, LABELS, p=np.inf, notion="top-label", **DISTINCT).value == pytest.approx(0.4)
    assert ece(SIX, LABELS, p=np.inf, notion="confidence", **DISTINCT).value == pytest.approx(0.3)
    assert ece(SIX, LABELS, p=np.inf, notion="class-wise", **DISTINCT).value == pytest.approx(0.5)  # class d at 0


def test_six_rows_worked_by_hand_without_bias():
    # a: 0.1^2 - 0.25 / 1; b: 0.4^2 - 0; c: 0.3^2 - 0.25 / 1, two rows each.
    found = debiased_ece(SIX, LABELS, squared=True, **DISTINCT)
    assert found.value == pytest.approx((-0.24 + 0.16 - 0.16) / 3)
    # Bins of one row are left out. a: (2 * -0.24 + 3 * 0.01) / 5; b: (2 * 0.16 + 3 * 0.01) / 5;
    # c: (2 * -0.16 + 2 * (0.3^2 - 0.25) + 2 * 0.01) / 6; d: (4 * 0.01 + 2 * 0) / 6.
    classes = (-0.45 / 5, 0.35 / 5, -0.62 / 6, 0.04 / 6)
    found = debiased_ece(SIX, LABELS, notion="class-wise", squared=True, **DISTINCT)
    assert found.value == pytest.approx(np.mean(classes))
    assert "left out: 8.33%" in str(found)  # 2 of 24
    root = marginal_error(SIX, LABELS, strategy="distinct")
    assert root.value == 0.0
    assert "negative-square" in codes(root)


def test_six_rows_worked_by_hand_class_by_class():
    found = errors_by_class(SIX, LABELS, **DISTINCT)
    assert found.classes == ("a", "b", "c", "d")
    assert found.rows.tolist() == [2, 2, 2, 0]
    np.testing.assert_allclose(found.error, [0.1, 0.4, 0.3, np.nan])
    assert found.to_dict()["classes"][3] == {"class": "d", "rows": 0.0, "share": 0.0, "error": None}
    found = errors_by_class(SIX, LABELS, notion="class-wise", **DISTINCT)
    assert found.classes == ("b", "c", "a", "d")  # two labels each, then one each
    np.testing.assert_allclose(found.error, [1.3 / 6, 1.4 / 6, 0.7 / 6, 1.4 / 6])


def test_six_rows_scored_by_hand():
    # -log of 0.6, 0.2, 0.6, 0.6, 0.8 and 0
    found = log_loss(SIX, LABELS)
    assert found.value == np.inf
    (note,) = found.notes
    assert (note.code, note.values["rows"]) == ("impossible-labels", 1)
    assert note.values["without"] == pytest.approx(-np.log([0.6, 0.2, 0.6, 0.6, 0.8]).mean())
    assert str(note) == "infinite because of 1 row whose label has probability 0; without them it is 0.6730"
    squares = (0.16 + 0.06, 0.36 + 0.66, 0.16 + 0.06, 0.16 + 0.06, 0.04 + 0.02, 1.0 + 0.66)
    assert brier(SIX, LABELS).value == pytest.approx(np.mean(squares))
    assert accuracy(SIX, LABELS).value == pytest.approx(4 / 6)
    assert accuracy(SIX, LABELS).null == pytest.approx((4 * 0.6 + 2 * 0.8) / 6)


def test_opposite_errors_hide_from_confidence_and_not_from_top_label():
    # 002 Example 5.1: class 1 comes true in 1 of 5 rows that name it with 0.6, class 2 in all 5.
    p = np.repeat([[0.6, 0.4, 0.0], [0.0, 0.6, 0.4]], 5, axis=0)
    y = [1, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    for options in ({}, {"strategy": "distinct"}, {"strategy": "mass"}):
        assert ece(p, y, classes=(1, 2, 3), notion="confidence", **options).value == pytest.approx(0.0, abs=1e-15)
        assert ece(p, y, classes=(1, 2, 3), notion="top-label", **options).value == pytest.approx(0.4)
    top = ece(np.full(10, 0.6), y, named=np.repeat([1, 2], 5), notion="top-label")
    assert top.value == pytest.approx(0.4)


# --- laws -------------------------------------------------------------------------------------------------------------


@st.composite
def tables(draw, most=24, classes=(2, 4)):
    """Few rows of few distinct probabilities, so that ties abound; and their labels."""
    k = draw(st.integers(*classes))
    n = draw(st.integers(1, most))
    parts = draw(st.lists(st.lists(st.integers(0, 6), min_size=k, max_size=k), min_size=n, max_size=n))
    counts = np.array(parts, dtype=np.float64)
    counts[:, 0] += counts.sum(axis=1) == 0
    y = np.array(draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)))
    return counts / counts.sum(axis=1, keepdims=True), y


def value(rows, y, weight=None, **options):
    return ece(rows, y, weight, classes=range(rows.shape[1]), uncertainty=False, **options).value


@given(tables(), st.sampled_from(["width", "distinct"]))
def test_confidence_error_never_exceeds_top_label_error_on_the_same_bins(table, strategy):
    p, y = table
    for order in (1, 2, np.inf):
        weak = value(p, y, notion="confidence", strategy=strategy, p=order)
        assert weak <= value(p, y, notion="top-label", strategy=strategy, p=order) + 1e-12


@given(tables(), st.sampled_from(NOTIONS[:5]), st.sampled_from(["width", "distinct", "mass"]))
def test_errors_grow_with_the_order(table, notion, strategy):
    p, y = table
    found = [value(p, y, notion=notion, strategy=strategy, p=order) for order in (1, 2, 8, np.inf)]
    assert all(a <= b + 1e-12 for a, b in pairwise(found))


@given(tables(), st.sampled_from(NOTIONS), st.sampled_from(["width", "distinct", "mass"]))
def test_weights_mean_repetition_and_zero_means_absence(table, notion, strategy):
    p, y = table
    weight = np.arange(len(y)) % 3
    weight[0] = 2
    rows = np.repeat(np.arange(len(y)), weight)
    for order in (1, 2, np.inf):
        options = {"notion": notion, "strategy": strategy, "n_bins": 4, "p": order}
        assert value(p, y, weight, **options) == pytest.approx(value(p[rows], y[rows], **options), abs=1e-12)


@given(tables(), st.sampled_from(NOTIONS), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(table, notion, random):
    p, y = table
    order = list(range(len(y)))
    random.shuffle(order)
    assert value(p[order], y[order], notion=notion) == pytest.approx(value(p, y, notion=notion), abs=1e-12)


@given(st.integers(0, 1000), st.sampled_from(NOTIONS), st.sampled_from(["width", "distinct", "mass"]))
def test_the_order_of_classes_does_not_matter(seed, notion, strategy):
    p, y = matrix(40, 4, seed)
    order = np.random.default_rng(seed).permutation(4)
    other = ece(p[:, order], y, classes=order, notion=notion, strategy=strategy, uncertainty=False).value
    assert other == pytest.approx(value(p, y, notion=notion, strategy=strategy), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 999), st.booleans()), min_size=1, max_size=40))
def test_two_classes_class_wise_are_the_binary_error_of_one_column(rows):
    s = (np.array([k for k, _ in rows]) + 0.5) / 1000.0  # never on an edge of ten bins
    y = np.array([hit for _, hit in rows], dtype=int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for options in ({"n_bins": 10}, {"strategy": "distinct"}):
            for order in (1, 2, np.inf):
                binary = ece(s, y, p=order, **options).value
                both = np.column_stack([1.0 - s, s])
                assert value(both, y, notion="class-wise", p=order, **options) == pytest.approx(binary, abs=1e-12)


@given(st.lists(st.tuples(*[st.integers(1, 4)] * 3), min_size=1, max_size=4, unique=True))
def test_canonical_calibration_implies_class_wise_calibration(parts):
    rows, labels = [], []
    for part in parts:  # as many rows of each class as the row says
        rows += [np.array(part) / sum(part)] * sum(part)
        labels += np.repeat([0, 1, 2], part).tolist()
    p, y = np.array(rows), np.array(labels)
    assert value(p, y, notion="canonical") == pytest.approx(0.0, abs=1e-12)
    assert value(p, y, notion="class-wise", strategy="distinct") == pytest.approx(0.0, abs=1e-12)


@given(tables(most=60))
def test_one_pass_by_blocks_counts_as_claim_by_claim_does(table):
    p, y = table
    claims = read_claims(p, y, notion="class-wise", classes=range(p.shape[1]))
    slow, fast = MulticlassBins.of(claims), MulticlassBins.of(claims, keep=False)
    for name in ("n", "events", "score_sum", "column"):
        np.testing.assert_allclose(getattr(fast, name), getattr(slow, name), atol=1e-12)


def test_many_numbers_in_single_precision_stay_single_and_keep_their_bins(monkeypatch):
    monkeypatch.setattr("calibrant.arrays.multiclass.rows.MAX_WIDENED", 0)
    p = np.float32([[1 / 3, 2 / 3], [0.1, 0.9], [0.2, 0.8], [0.6, 0.4]])
    claims = read_claims(p, [0, 1, 1, 0], notion="class-wise")
    for n_bins in (2, 3, 5, 10, 15):  # an edge as a double may lie on either side of the same edge in single precision
        slow, fast = (MulticlassBins.of(claims, n_bins=n_bins, keep=keep) for keep in (True, False))
        assert slow.n.tolist() == fast.n.tolist()
    assert claims.scores.dtype == np.float32


# --- uncertainty ------------------------------------------------------------------------------------------------------


def test_uncertainty_does_not_depend_on_the_order_of_rows(subtests):
    for notion in NOTIONS:
        with subtests.test(notion=notion):
            p, y = matrix(60, 4, sharp=2.0)
            weight = np.random.default_rng(1).random(60)
            order = np.random.default_rng(2).permutation(60)
            one = ece(p, y, weight, notion=notion)
            other = ece(p[order], y[order], weight[order], notion=notion)
            assert one.se == pytest.approx(other.se)
            assert one.null == pytest.approx(other.null)
            assert one.null_high == pytest.approx(other.null_high)


def test_the_standard_error_is_that_of_a_bootstrap_of_rows(subtests, full_size):
    p, _ = matrix(400, 3, sharp=2.0)
    rng = np.random.default_rng(3)
    y = (rng.random((400, 1)) >= np.cumsum(p**3 / (p**3).sum(axis=1, keepdims=True), axis=1)).sum(axis=1)
    p = np.round(p * 2) / 2 + 1e-9  # few distinct rows, far from calibrated, so that no gap is near its kink
    p /= p.sum(axis=1, keepdims=True)
    samples = [rng.multinomial(400, np.full(400, 1 / 400)) for _ in range(200 if full_size else 80)]
    for notion in NOTIONS:
        for order in [1, 2]:
            with subtests.test(notion=notion, order=order):
                options = {"notion": notion, "strategy": "distinct", "p": order}
                drawn = [value(p, y, sample, **options) for sample in samples]
                assert ece(p, y, classes=range(3), **options).se == pytest.approx(np.std(drawn), rel=0.25)


def test_null_draws_have_the_law_of_the_rows():
    p, y = matrix(50, 20, sharp=0.3)  # 20 claims are searched, 4 are compared
    for columns in (20, 4):
        q = np.column_stack([p[:, : columns - 1], p[:, columns - 1 :].sum(axis=1)])
        claims = read_claims(q, np.minimum(y, columns - 1), notion="class-wise", classes=range(columns))
        bins = MulticlassBins.of(claims, n_bins=1)
        events = null_draws(claims, bins, lambda counts: counts)
        assert (events.sum(axis=1) == 50).all()  # one label for each row
        spread = np.sqrt((q * (1 - q)).sum(axis=0) / len(events))
        assert (np.abs(events.mean(axis=0) - q.sum(axis=0)) < 4.5 * spread + 1e-9).all()


def test_columns_that_speak_for_themselves_are_drawn_by_themselves():
    p = np.full((200, 3), 0.6)
    claims = read_claims(p, np.zeros(200, dtype=int), notion="class-wise", classes=range(3), score_type="independent")
    events = null_draws(claims, MulticlassBins.of(claims, n_bins=1), lambda counts: counts)
    assert (np.abs(events.mean(axis=0) - 120) < 3.0).all()
    assert np.abs(np.corrcoef(events.T) - np.eye(3)).max() < 0.35


def test_uncertainty_is_left_out_where_it_would_take_long_and_said_so(monkeypatch):
    for name in ("MOST_CELLS", "FEW_DRAW_CELLS"):
        monkeypatch.setattr(f"calibrant.metrics.multiclass.covariance.{name}", 100)
    p, y = matrix(60, 3)
    found = ece(p, y, notion="class-wise")
    assert (found.se, found.null) == (None, None)
    assert codes(found) == ["no-uncertainty-beyond-cells"]
    assert "No uncertainty computed above 100 rows times classes: pass uncertainty=True to compute it." in str(found)
    assert ece(p, y, notion="class-wise", uncertainty=True).null is not None
    assert marginal_error(p, y).low is None
    assert errors_by_class(p, y, notion="class-wise").null is None


def test_claims_about_the_largest_scores_always_have_a_null_value(monkeypatch):
    monkeypatch.setattr("calibrant.metrics.multiclass.covariance.MOST_CELLS", 100)
    monkeypatch.setattr("calibrant.metrics.multiclass.covariance.DRAWN_ROWS", 60)
    p, y = matrix(600, 3)
    for notion in ("confidence", "top-label", TopKLabel(2)):
        assert ece(p, y, notion=notion).null_high is not None
        assert ece(p, y, notion=notion, uncertainty=False).null is None


@pytest.mark.parametrize("notion", ["top-label", "class-wise"])
def test_few_draws_give_about_the_null_value_of_many(monkeypatch, notion):
    p, y = matrix(600, 3)
    many = ece(p, y, notion=notion)
    monkeypatch.setattr("calibrant.metrics.multiclass.covariance.MOST_CELLS", 100)
    monkeypatch.setattr("calibrant.metrics.multiclass.covariance.DRAWN_ROWS", 60)
    few = ece(p, y, notion=notion)
    # Means of 200 and of 20 draws: four standard errors of the latter, (null_high - null) / 1.645 / sqrt(20) each.
    room = 4.0 * (many.null_high - many.null) / 1.645 / 20**0.5
    assert few.null != many.null
    assert few.null == pytest.approx(many.null, abs=room)
    assert few.null_high == pytest.approx(many.null_high, abs=2.0 * room)


def test_an_accuracy_is_told_what_it_should_not_fall_below():
    # 100 rows at 0.8: mean 0.8, standard deviation 0.04; 0.8 - 1.645 x 0.04 = 0.734, a little less by the skewness.
    found = accuracy([[0.8, 0.2]] * 100, [0] * 70 + [1] * 30)
    assert found.null == pytest.approx(0.8)
    assert found.null_low == pytest.approx(stats.binom(100, 0.8).ppf(0.05) / 100, abs=0.006)


# --- edges ------------------------------------------------------------------------------------------------------------


def test_one_row_is_measured_or_said_to_be_too_little(subtests):
    for name in MULTICLASS_METRICS:
        with subtests.test(name=name):
            found = MULTICLASS_METRICS[name]([[0.2, 0.7, 0.1]], ["b"], classes=["a", "b", "c"])
            assert found.se is None
            if "debiased" in name or "marginal" in name:
                assert np.isnan(found.value)
                assert "no-two-rows" in codes(found)
            elif name in ("skce", "dirichlet_error"):
                assert np.isnan(found.value)
                assert "no-pair-of-rows" in codes(found)
            else:
                assert np.isfinite(found.value)


def test_scores_of_zero_and_one_one_class_and_ties(subtests):
    for name in MULTICLASS_METRICS:
        for dtype in [np.float32, np.float64]:
            with subtests.test(name=name, dtype=dtype):
                p = np.array([[1, 0, 0], [1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]], dtype=dtype)
                found = MULTICLASS_METRICS[name](p, [0, 0, 0, 0], classes=range(3))
                assert np.isfinite(found.value)
                assert str(found)


def test_the_earlier_of_equal_classes_is_the_top_one():
    p = [[0.4, 0.4, 0.2], [0.4, 0.4, 0.2]]
    assert accuracy(p, ["a", "a"], classes=["a", "b", "c"]).value == 1.0
    assert accuracy(p, ["a", "a"], classes=["b", "a", "c"]).value == 0.0


def test_a_class_that_no_row_has_or_names_counts_as_any_other():
    p, y = matrix(50, 3)
    wider = np.column_stack([p, np.zeros(50)])
    assert value(wider, y, notion="class-wise") == pytest.approx(value(p, y, notion="class-wise") * 3 / 4)
    assert value(wider, y) == pytest.approx(value(p, y))


def test_a_thousand_classes():
    p, y = matrix(300, 1000, sharp=0.01)
    found = ece(p, y, classes=range(1000), notion="class-wise")
    assert 0.0 < found.value < 2.0 * found.null
    assert "980 less frequent classes" in str(errors_by_class(p, y, classes=range(1000)))


def test_huge_and_tiny_weights(subtests):
    for notion in NOTIONS:
        with subtests.test(notion=notion):
            p, y = matrix(30, 3)
            weight = np.array([1e60, 1e-60, *np.ones(28)])
            found = ece(p, y, weight, notion=notion)
            alone = value(p[:1], y[:1], notion=notion)
            assert found.value == pytest.approx(alone)
            assert (
                ece(p, y, weight, notion=notion, p=np.inf).value >= value(p[1:2], y[1:2], notion=notion, p=np.inf) / 30
            )


def test_logits_go_through_softmax_and_frames_name_the_classes():
    pandas = pytest.importorskip("pandas")
    p, y = matrix(80, 3)
    z = np.log(p) + 5.0
    assert ece(z, y).value == pytest.approx(ece(p, y).value)
    assert "read as logits" in str(ece(z, y))
    assert ece(z, y, score_type="logit").notes == ()
    assert log_loss(z, y).value == pytest.approx(log_loss(p, y).value)
    assert log_loss([[1000.0, 0.0], [0.0, 1.0]], [1, 0], score_type="logit").value == pytest.approx(
        (1000 + np.log(1 + np.e)) / 2
    )
    frame = pandas.DataFrame(p[:, [2, 0, 1]], columns=["c", "a", "b"])
    named = ece(frame, np.array(["a", "b", "c"])[y], notion="class-wise")
    assert named.value == pytest.approx(ece(p, y, notion="class-wise").value)


def test_rows_that_do_not_sum_to_one_are_measured_as_they_are():
    p, y = matrix(80, 3)
    loose = np.minimum(p * 1.3, 1.0)
    found = ece(loose, y, notion="class-wise")
    assert "treated as independent probabilities" in str(found)
    assert ece(loose, y, notion="class-wise", score_type="independent").notes == ()
    improper = log_loss(loose, y, score_type="independent")
    assert "not-a-proper-score" in codes(improper)
    assert "rows do not sum to 1, so this is not a proper score: it rewards probabilities that are too large" in str(
        improper
    )
    assert brier(loose, y, score_type="independent").null is None


def test_named_classes_give_what_the_matrix_gives():
    p, y = matrix(80, 4)
    order = np.argsort(-p, axis=1, kind="stable")
    top, at = np.take_along_axis(p, order, axis=1), order
    for notion in ("confidence", "top-label"):
        assert ece(top[:, 0], y, named=at[:, 0], notion=notion).value == pytest.approx(value(p, y, notion=notion))
    found = ece(top[:, :2], y, named=at[:, :2], notion=TopKLabel(2)).value
    assert found == pytest.approx(value(p, y, notion=TopKLabel(2)))
    assert accuracy(top[:, 0], y, named=at[:, 0]).value == accuracy(p, y).value
    weight = np.arange(80) % 2
    kept = ece(top[1::2, 0], y[1::2], named=at[1::2, 0]).value
    assert ece(top[:, 0], y, weight, named=at[:, 0]).value == pytest.approx(kept)


def test_what_is_wrong_is_said_in_one_sentence(subtests):
    for options, told in [
        ({"notion": "sharp"}, "notion must be one of"),
        ({"p": 0.5}, "p must be"),
        ({"n_bins": 0}, "n_bins must be"),
        ({"strategy": "auto"}, "strategy is 'auto'"),
        ({"edges": [0.5, 0.2]}, "edges must be"),
        ({"notion": "canonical", "edges": [0.5]}, "must be a map with regions"),
        ({"named": [0] * 6}, "scores has shape"),
        ({"score_type": "logits"}, "score_type is"),
    ]:
        with subtests.test(options=options, told=told), pytest.raises(InputError, match=told):
            ece(SIX, LABELS, **options)


def test_named_classes_say_nothing_about_other_notions():
    with pytest.raises(InputError, match="does not fit the notion 'class-wise'"):
        ece([0.5, 0.5], [0, 1], named=[0, 1], notion="class-wise")
    with pytest.raises(InputError, match="does not fit the notion 'canonical'"):
        ece([0.5, 0.5], [0, 1], named=[0, 1], notion="canonical")
    with pytest.raises(InputError, match=r"in \[0, 1\]"):
        ece([0.5, 1.5], [0, 1], named=[0, 1])
    with pytest.raises(InputError, match="has no error by class: use 'top-label' or 'class-wise'"):
        errors_by_class(SIX, LABELS, notion="confidence")
    with pytest.raises(InputError, match="y is missing"):
        ece(SIX)


def test_regions_of_a_map_divide_whole_rows():
    class Halves:
        def regions(self, rows):
            return (np.asarray(rows)[:, 2] > 0.5).astype(int)

    # Rows 1-4: labels (1, 2, 1, 0) against sums (1.5, 1.5, 0.6, 0.4); rows 5-6: (0, 0, 1, 1), (0.2, 0.2, 1.6, 0).
    expected = (0.5 + 0.5 + 0.4 + 0.4 + 0.2 + 0.2 + 0.6 + 1.0) / 6
    assert ece(SIX, LABELS, notion="canonical", edges=Halves()).value == pytest.approx(expected)


def test_equal_mass_is_taken_inside_each_problem():
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4], [0.2, 0.8], [0.1, 0.9]])
    claims = read_claims(p, [0, 1, 0, 1, 1, 1], notion="top-label")
    bins = MulticlassBins.of(claims, n_bins=2, strategy="mass")
    assert bins.n.tolist() == [2, 2, 1, 1]
    assert bins.column.tolist() == [0, 0, 1, 1]
    assert bins.events.tolist() == [1, 1, 1, 1]


def test_a_table_of_classes_prints_its_null_values():
    p, y = matrix(300, 3)
    found = errors_by_class(p, y)
    assert len(str(found).splitlines()) == 5
    assert (found.null > 0).all()
    assert (found.null_high >= found.null).all()
    total = ece(p, y, notion="top-label").value
    assert (found.share * found.error).sum() == pytest.approx(total)
    wise = errors_by_class(p, y, notion="class-wise")
    assert wise.error.mean() == pytest.approx(ece(p, y, notion="class-wise").value)


def test_weights_bring_an_interval_and_no_null_value():
    p, y = matrix(200, 3)
    found = debiased_ece(p, y, np.random.default_rng(0).random(200))
    assert found.null is None
    assert found.low <= found.value <= found.high
    assert "no-null-under-weights" in codes(found)
    assert "No null value with weights, because integer weights may mean repeated rows." in str(found)


# --- other implementations --------------------------------------------------------------------------------------------


def binned(scores: np.ndarray, hit: np.ndarray, place: np.ndarray) -> float:
    """Plain ECE of scores in given bins."""
    return sum(abs(scores[place == k].mean() - hit[place == k].mean()) * (place == k).mean() for k in np.unique(place))


def test_the_ece_of_a_matrix_is_that_of_the_field(subtests):
    """Guo et al. (2017): 15 bins (a, b]; torchmetrics has [a, b) in single precision, which differs on edges only."""
    for k, digits in ((3, None), (10, None), (100, None), (4, 2), (3, 1)):
        with subtests.test(k=k, digits=digits):
            rng = np.random.default_rng(k)
            z = 3.0 * rng.normal(size=(2000, k))
            p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
            if digits is not None:
                p[:, :-1] = p[:, :-1].round(digits)
                p[:, -1] = 1.0 - p[:, :-1].sum(axis=1)
                p = p[p[:, -1] >= 0.0]
            y = rng.integers(0, k, len(p))
            top, hit, edges = p.max(axis=1), p.argmax(axis=1) == y, np.arange(1, 15) / 15
            place = np.searchsorted(edges, top, side="left")
            found = ece(p, y, classes=range(k), uncertainty=False)
            assert found.value == pytest.approx(binned(top, hit, place), abs=1e-12)
            assert found.name == "confidence ECE, 15 bins of equal width"
            if digits is None:
                single = np.searchsorted(np.linspace(0, 1, 16, dtype=np.float32), top.astype(np.float32), side="right")
                assert found.value == pytest.approx(binned(top.astype(np.float32), hit, single), abs=1e-6)
            wise = [binned(p[:, j], y == j, np.searchsorted(edges, p[:, j], side="left")) for j in range(k)]
            assert metrics.classwise_ece(p, y, classes=range(k)).value == pytest.approx(np.mean(wise), abs=1e-12)
            if digits is None:
                rank = top.argsort().argsort()
                mass = metrics.adaptive_ece(p, y, classes=range(k), n_bins=10).value
                assert mass == pytest.approx(binned(top, hit, rank * 10 // len(top)), abs=1e-12)


def test_every_door_prints_the_same_ece():
    p, y = matrix(1000, 3)
    right = (p.argmax(axis=1) == y).astype(int)
    value = ece(p, y, uncertainty=False).value
    assert metrics.ece(p.max(axis=1), right).value == pytest.approx(value, abs=1e-12)
    assert metrics.interval("ece", p, y, repetitions=20).value == pytest.approx(value, abs=1e-12)
    assert check(p, y).gains[0].ece_before == pytest.approx(value, abs=1e-12)
    assert report(p, y).numbers["errors"][0]["value"] == pytest.approx(value, abs=1e-12)


def test_log_loss_and_accuracy_are_those_of_scikit_learn():
    p, y = matrix(500, 5)
    weight = np.random.default_rng(1).random(500)
    expected = sklearn.metrics.log_loss(y, p, sample_weight=weight)
    assert log_loss(p, y, weight).value == pytest.approx(expected)
    expected = sklearn.metrics.accuracy_score(y, p.argmax(axis=1), sample_weight=weight)
    assert accuracy(p, y, weight).value == pytest.approx(expected)
    assert log_loss(p, y).null == pytest.approx(-(p * np.log(p)).sum(axis=1).mean())
    assert brier(p, y).null == pytest.approx((p * (1 - p)).sum(axis=1).mean())


def test_a_network_has_the_errors_that_the_thesis_prints(data_folder):
    with np.load(data_folder / "cifar_logits" / "cifar10_resnet50_focalloss_valtest.npz") as file:
        z, y = file["test_logits"], file["test_labels"]
    assert round(ece(z, y, score_type="logit", notion="top-label").value, 3) == 0.022
    assert round(ece(z, y, score_type="logit").value, 5) == 0.01552  # torchmetrics 1.9 and netcal 1.4: 0.0155
    assert round(ece(z, y, score_type="logit", notion="class-wise").value, 4) == 0.0042
    # Table 5.4 prints 0.298: the largest mean over classes of a bin, not the largest of all that eq. 5.17 defines.
    bins = MulticlassBins.of(read_claims(z, y, notion="top-label", score_type="logit"))
    gaps = np.abs(bins.events - bins.score_sum).reshape(10, 15).sum(axis=0)
    rows = bins.n.reshape(10, 15).sum(axis=0)
    assert round(float((gaps[rows > 0] / rows[rows > 0]).max()), 3) == 0.298
    assert round(ece(z, y, score_type="logit", p=np.inf, notion="top-label").value, 3) == 0.629


def test_huge_logits_have_a_finite_log_loss_and_null_value() -> None:
    z = [[1e308, -1e308], [-1e308, 1e308], [0.0, 0.0]]
    found = log_loss(z, [0, 1, 1], classes=[0, 1], score_type="logit")
    assert found.value == pytest.approx(np.log(2.0) / 3)
    assert found.null == pytest.approx(np.log(2.0) / 3)
    assert np.isfinite(log_loss(z, [1, 1, 1], classes=[0, 1], score_type="logit").value)


def test_the_interval_of_the_brier_score_ends_at_two() -> None:
    found = brier([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], [1, 0, 0], classes=[0, 1, 2])
    assert found.high == 2.0
