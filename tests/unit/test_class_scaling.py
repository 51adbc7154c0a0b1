"""Softmax maps of class scores: against other minimizers, on edges, with weights, and shift by a constant."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from tests import worlds

from calibrant import InputError, NoCertificate, PlattScaling, TemperatureScaling, load
from calibrant.arrays.multiclass.rows import check_class_rows
from calibrant.fits.multiclass import ridge as softmax_ridge
from calibrant.fits.multiclass.penalty import Ridge
from calibrant.fits.multiclass.ridge import fit_affine
from calibrant.fits.multiclass.softmax import LogRows, fit_slope
from calibrant.maps import SoftmaxMap
from calibrant.multiclass import DirichletScaling, MatrixScaling, StructuredScaling, VectorScaling
from calibrant.selection.multiclass.cross_validation import Setting, Trials, View, safest
from calibrant.selection.multiclass.folds import MulticlassFolds, some_rows

SCALINGS = (TemperatureScaling, VectorScaling, MatrixScaling, DirichletScaling, StructuredScaling)


def sample(n: int = 400, classes: int = 4, seed: int = 0, slope: float = 0.5) -> worlds.Rows:
    return worlds.overconfident_logits(n, classes, seed, slope=slope)


def log_loss(p: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(p[np.arange(len(y)), y]).mean())


def log_rows(z: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> LogRows:
    rows = check_class_rows(z, y, classes=range(z.shape[1]), score_type="logit")
    logs = LogRows.of(rows)
    return logs if weights is None else logs.weighing(weights)


# ---------------------------------------------------------------------------------------------------------------------
# Against other minimizers
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_temperature_is_that_of_a_search_in_one_dimension(seed):
    z, y = sample(seed=seed)

    def loss(slope: float) -> float:
        return -log_softmax(slope * z, axis=1)[np.arange(len(y)), y].sum()

    best = minimize_scalar(loss, bounds=(0.01, 100), method="bounded", options={"xatol": 1e-10}).x
    assert TemperatureScaling().fit(z, y).temperature_ == pytest.approx(1 / best, rel=1e-6)


def penalized(z, y, ridge: Ridge, slope: float, flat: np.ndarray) -> float:
    """The objective as the formula says it, class by class."""
    size = z.shape[1]
    numbers = flat.reshape(size, -1)
    v = np.diag(numbers[:, 0]) if ridge.others is None else numbers[:, :-1]
    fit = -log_softmax(slope * z @ v.T + numbers[:, -1], axis=1)[np.arange(len(y)), y].sum()
    own = np.diag(v)
    others = 0.0 if ridge.others is None else ridge.others * ((v - np.diag(own)) ** 2).sum()
    drawn = ridge.slopes * ((own - own.mean()) ** 2).sum() + ridge.level * (own.mean() - 1) ** 2
    return fit + 0.5 * (drawn + others + ridge.intercepts * (numbers[:, -1] ** 2).sum())


@pytest.mark.parametrize("ridge", [Ridge(2.0, None, 0.5), Ridge(2.0, 5.0, 0.5)], ids=["vector", "matrix"])
@pytest.mark.parametrize("dense", [True, False])
def test_a_ridge_fit_is_that_of_a_general_minimizer(ridge, dense, monkeypatch):
    monkeypatch.setattr(softmax_ridge, "MAX_DENSE_CLASSES", 16 if dense else 0)
    monkeypatch.setattr(softmax_ridge, "LBFGS_TOLERANCE", 1e-12)
    monkeypatch.setattr(softmax_ridge, "LBFGS_DECREMENT", 0.0)
    z, y = sample(150, 3)
    rows = log_rows(z, y)
    slope = fit_slope(rows).slope
    found = fit_affine(rows, ridge, slope)
    start = softmax_ridge._Regression(rows, ridge, slope).identity().ravel()
    other = minimize(
        lambda flat: penalized(rows.at(slice(None)), y, ridge, slope, flat),
        start,
        method="BFGS",
        options={"gtol": 1e-6},
    )
    np.testing.assert_allclose(found.numbers.ravel(), other.x, atol=2e-5)


@pytest.mark.parametrize("others", [None, 3.0])
def test_gradient_and_curvature_are_those_of_differences(others):
    z, y = sample(60, 4)
    problem = softmax_ridge._Regression(log_rows(z, y), Ridge(1.0, others, 0.7), 0.6)
    rng = np.random.default_rng(1)
    at = problem.identity() + 0.1 * rng.normal(size=problem.identity().shape)
    direction = rng.normal(size=at.shape)
    step = 1e-5
    (up, above, _), (down, below, _) = problem.evaluate(at + step * direction), problem.evaluate(at - step * direction)
    gradient = problem.evaluate(at)[1]
    assert (gradient * direction).sum() == pytest.approx((up - down) / (2 * step), rel=1e-6)
    bent = (problem.curvature() @ direction.ravel()).reshape(at.shape)
    np.testing.assert_allclose(bent, (above - below) / (2 * step), rtol=1e-5, atol=1e-6)


def test_a_free_matrix_is_multinomial_logistic_regression_on_the_log_probabilities():
    z, y = sample(600, 3)
    logs = log_softmax(z, axis=1)
    regression = LogisticRegression(C=1e6, max_iter=5000, tol=1e-8).fit(logs, y)
    ours = MatrixScaling(1e-6, 1e-6).fit(z, y, score_type="logit").transform(z)
    np.testing.assert_allclose(ours, regression.predict_proba(logs), atol=2e-3)


def test_a_free_matrix_on_raw_logits_is_multinomial_logistic_regression_on_them():
    z, y = sample(600, 3)
    z = z + np.random.default_rng(4).normal(size=(600, 1))  # logits of a network do not sum to a constant
    regression = LogisticRegression(C=1e6, max_iter=5000, tol=1e-8).fit(z, y)
    ours = MatrixScaling(1e-6, 1e-6, on="logit").fit(z, y, score_type="logit").transform(z)
    np.testing.assert_allclose(ours, regression.predict_proba(z), atol=2e-3)


@pytest.mark.parametrize("dense", [True, False])
def test_vector_scaling_of_raw_logits_is_that_of_a_general_minimizer(dense, monkeypatch):
    monkeypatch.setattr(softmax_ridge, "MAX_DENSE_CLASSES", 16 if dense else 0)
    monkeypatch.setattr(softmax_ridge, "LBFGS_TOLERANCE", 1e-12)
    monkeypatch.setattr(softmax_ridge, "LBFGS_DECREMENT", 0.0)
    z, y = sample(150, 3)
    z = z + 3.0 * np.random.default_rng(4).normal(size=(150, 1))
    cal = VectorScaling(2.0, on="logit").fit(z, y, score_type="logit")
    slope = 1.0 / cal.temperature_
    other = minimize(
        lambda flat: penalized(z, y, Ridge(2.0, None, 2.0), slope, flat),
        np.column_stack([np.ones(3), np.zeros(3)]).ravel(),
        method="BFGS",
        options={"gtol": 1e-6},
    )
    best = other.x.reshape(3, 2)
    np.testing.assert_allclose(cal.map_.slope, slope * best[:, 0], atol=5e-5)
    np.testing.assert_allclose(cal.map_.intercept, best[:, 1], atol=5e-5)


def test_two_classes_as_a_matrix_are_the_binary_temperature():
    z, y = sample(500, 2)
    margin = z[:, 1] - z[:, 0]
    binary = TemperatureScaling().fit(margin, y, score_type="logit")
    for how in ({}, {"classes": [0, 1]}):
        assert TemperatureScaling().fit(z, y, score_type="logit", **how).temperature_ == pytest.approx(
            binary.temperature_, rel=1e-6
        )


def test_the_temperature_of_the_thesis(data_folder):
    """Validation logits of a ResNet-50 trained with the focal loss: on the grid of 002 Table 5.4 it is 1.1."""
    stored = np.load(data_folder / "cifar_logits" / "cifar10_resnet50_focalloss_valtest.npz")
    cal = TemperatureScaling().fit(stored["val_logits"], stored["val_labels"])
    assert round(cal.temperature_, 1) == 1.1


# ---------------------------------------------------------------------------------------------------------------------
# Weights, order, precision, shift
# ---------------------------------------------------------------------------------------------------------------------


def test_counts_are_repetition_and_order_does_not_matter(subtests):
    for calibrator in SCALINGS:
        with subtests.test(calibrator=calibrator):
            z, y = sample(120, 3)
            counts = np.random.default_rng(2).integers(0, 4, len(y))
            once = calibrator().fit(z, y, counts, weight_type="frequency", score_type="logit", classes=range(3))
            rows = np.random.default_rng(3).permutation(np.repeat(np.arange(len(y)), counts))
            often = calibrator().fit(z[rows], y[rows], score_type="logit", classes=range(3))
            np.testing.assert_allclose(once.transform(z), often.transform(z), atol=1e-6)


def test_equal_importance_weights_change_nothing(subtests):
    for calibrator in SCALINGS:
        with subtests.test(calibrator=calibrator):
            z, y = sample(90, 3)
            plain, weighted = calibrator().fit(z, y), calibrator().fit(z, y, np.full(len(y), 0.25))
            np.testing.assert_allclose(plain.transform(z), weighted.transform(z), atol=1e-6)


def test_logits_their_softmax_and_shifted_logits_give_the_same_map(subtests):
    for calibrator in SCALINGS:
        with subtests.test(calibrator=calibrator):
            z, y = sample(300, 3)
            p = np.exp(log_softmax(z, axis=1))
            shifted = z + np.linspace(-50, 50, len(z))[:, None]
            options = {} if calibrator is TemperatureScaling else {"clamp": 1e-30}
            if issubclass(calibrator, StructuredScaling):  # what is chosen depends on how the rows fall into parts
                options |= {"strength": 10.0, **({"intercept": 1.0} if calibrator is DirichletScaling else {})}
            expected = calibrator(**options).fit(z, y, score_type="logit").transform(z)
            np.testing.assert_allclose(
                calibrator(**options).fit(shifted, y, score_type="logit").transform(shifted), expected, atol=1e-5
            )
            np.testing.assert_allclose(calibrator(**options).fit(p, y).transform(p), expected, atol=1e-5)


def test_slopes_of_raw_logits_act_on_logits_as_given(tmp_path):
    """By hand: logits (2, 0, -1), slopes (1, 2, 3), no intercepts: softmax of (2, 0, -3), and of shifted logits not."""
    raw = SoftmaxMap(("a", "b", "c"), [1.0, 2.0, 3.0], [], "logit", 1e-300, raw=True)
    expected = np.exp([2.0, 0.0, -3.0]) / np.exp([2.0, 0.0, -3.0]).sum()
    np.testing.assert_allclose(raw.apply([[2.0, 0.0, -1.0]])[0], expected, rtol=1e-14)
    np.testing.assert_allclose(raw.apply([[3.0, 1.0, 0.0]])[0], np.exp([3.0, 2.0, 0.0]) / np.exp([3, 2, 0.0]).sum())
    assert "raw logits" in raw.words
    assert not raw.keeps_zeros
    z, y = sample(300, 3)
    z = z + np.random.default_rng(4).normal(size=(300, 1))
    for cal in (VectorScaling(on="logit"), MatrixScaling(on="logit")):
        cal.fit(z, y, score_type="logit")
        assert cal.map_.raw
        assert "of raw logits" in str(cal)
        cal.calibration_.save(tmp_path / "map.json")
        assert load(tmp_path / "map.json").map == cal.map_
        plain = type(cal)().fit(z, y, score_type="logit")
        assert np.abs(plain.transform(z) - cal.transform(z)).max() > 1e-3
        once = type(cal)(on="logit").fit(z[:40], y[:40], np.full(40, 2), weight_type="frequency", score_type="logit")
        twice = type(cal)(on="logit").fit(np.repeat(z[:40], 2, axis=0), np.repeat(y[:40], 2), score_type="logit")
        np.testing.assert_allclose(once.map_.slope, twice.map_.slope, atol=1e-6)


def test_raw_logits_need_logits():
    z, y = sample(60, 3)
    p = np.exp(log_softmax(z, axis=1))
    for calibrator in (VectorScaling, MatrixScaling):
        with pytest.raises(InputError, match="needs logits, and the scores are probabilities") as refused:
            calibrator(on="logit").fit(p, y)
        assert "constant of each row" in str(refused.value)
        with pytest.raises(InputError, match="clamp applies to log probabilities only"):
            calibrator(on="logit", clamp=1e-3).fit(z, y)
        with pytest.raises(InputError, match="on is 'score'"):
            calibrator(on="score").fit(z, y)
        with pytest.raises(InputError, match="has a logit of size"):
            calibrator(on="logit").fit(1e8 * z, y)
        for few in (1, 2):
            out = calibrator(on="logit").fit(z[:few], y[:few], classes=range(3), score_type="logit").transform(z)
            np.testing.assert_allclose(out.sum(axis=1), 1.0)


def test_single_precision_gives_nearly_the_same_map(subtests):
    for calibrator in [TemperatureScaling, VectorScaling, MatrixScaling]:
        with subtests.test(calibrator=calibrator):
            z, y = sample(300, 3)
            double, single = calibrator().fit(z, y), calibrator().fit(z.astype(np.float32), y)
            assert single.transform(z.astype(np.float32)).dtype == np.float32
            np.testing.assert_allclose(double.transform(z), single.transform(z), atol=2e-5)


# ---------------------------------------------------------------------------------------------------------------------
# Edges
# ---------------------------------------------------------------------------------------------------------------------


def test_edges_give_probabilities(subtests):
    for calibrator in SCALINGS:
        for scores, y in [
            ([[0.2, 0.8]], [1]),
            ([[1.0, 0.0, 0.0]] * 3 + [[0.0, 1.0, 0.0]] * 3, [0, 0, 0, 1, 1, 1]),
            ([[1.0, 0.0, 0.0]] * 3 + [[0.0, 1.0, 0.0]] * 3, [1, 1, 1, 0, 0, 2]),
            ([[1 / 3, 1 / 3, 1 / 3]] * 5, [0, 1, 2, 2, 2]),
            ([[0.5, 0.25, 0.25]] * 5, [0, 0, 0, 0, 0]),
        ]:
            with subtests.test(calibrator=calibrator, scores=scores, y=y):
                cal = calibrator().fit(scores, y, classes=range(len(scores[0])))
                p = cal.transform(scores)
                assert np.isfinite(p).all()
                np.testing.assert_allclose(p.sum(axis=1), 1.0)
                assert np.abs(cal.map_.slope).max() <= 1e3


def test_a_class_without_rows_keeps_the_common_slope(subtests):
    for calibrator in SCALINGS:
        with subtests.test(calibrator=calibrator):
            z, y = sample(200, 4)
            kept = y < 3
            cal = calibrator().fit(z[kept], y[kept], classes=range(4), score_type="logit")
            p = cal.transform(z)
            assert (p[:, 3] > 0).all()
            absent = [note for note in cal.notes_ if note.code == "absent-classes"]
            assert [note.values["classes"] for note in absent] == [("3",)]
            if calibrator is VectorScaling:
                assert cal.map_.slope[3] == pytest.approx(1 / cal.temperature_)
                assert -30 < cal.map_.intercept[3] < 0


def test_a_thousand_classes_with_few_rows_are_fitted():
    z, y = sample(60, 1000)
    for cal in (TemperatureScaling(), VectorScaling(), StructuredScaling(30.0, clamp=1e-9)):
        p = cal.fit(z.astype(np.float32), y, classes=range(1000)).transform(z.astype(np.float32))
        assert np.isfinite(p).all()


def test_separable_rows_say_that_labels_were_softened():
    cal = TemperatureScaling().fit([[0.9, 0.1], [0.2, 0.8]], [0, 1], classes=[0, 1])
    told = {note.code: str(note) for note in cal.notes_}
    assert "temperature is 0" in told["labels-at-largest-scores"]
    assert 0.01 < cal.temperature_ < 10
    assert cal.fit([[0.5, 0.5]] * 3, [0, 1, 1], classes=[0, 1]).temperature_ == 1.0
    told = {note.code: str(note) for note in cal.notes_}
    assert "a temperature has no effect" in told["equal-scores-in-rows"]
    assert cal.fit([[0.1, 0.9], [0.8, 0.2]], [0, 1], classes=[0, 1]).temperature_ == pytest.approx(100, rel=1e-3)


def test_soft_targets_by_hand():
    """Four rows of (0.8, 0.2), all of the first class: 5/6 of a row is the first, 1/6 the second; odds 5 = 4^t."""
    cal = TemperatureScaling(soft_targets=True).fit([[0.8, 0.2]] * 4, [0] * 4, classes=[0, 1])
    assert 1 / cal.temperature_ == pytest.approx(np.log(5) / np.log(4), rel=1e-6)


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.integers(0, 1)), min_size=1, max_size=12))
def test_any_logits_give_finite_probabilities(rows):
    z, y = np.array([row[:2] for row in rows]), [row[2] for row in rows]
    for cal in (TemperatureScaling(), VectorScaling(), MatrixScaling()):
        assert np.isfinite(cal.fit(z, y, classes=[0, 1], score_type="logit").transform(z)).all()


def test_wrong_options_are_refused():
    z, y = sample(30, 3)
    for wrong in (VectorScaling(0.0), MatrixScaling(-1.0), MatrixScaling(intercept=0.0), StructuredScaling(np.inf)):
        with pytest.raises(InputError, match="must be a number of rows above 0"):
            wrong.fit(z, y)
    for wrong in (VectorScaling(clamp=2.0), StructuredScaling(clamp=0.0), DirichletScaling(clamp=-1.0)):
        with pytest.raises(InputError, match="clamp must lie between 0 and 1"):
            wrong.fit(z, y)
    with pytest.raises(InputError, match="cv must be an integer"):
        StructuredScaling(cv=1).fit(z, y)
    with pytest.raises(InputError, match="limits is for one score only"):
        TemperatureScaling(limits=True).fit(z, y)


# ---------------------------------------------------------------------------------------------------------------------
# The calibrators
# ---------------------------------------------------------------------------------------------------------------------


def test_the_temperature_takes_one_score_or_a_matrix_and_prints_either(tmp_path):
    z, y = sample(200, 3)
    cal = TemperatureScaling().fit([0.1, 0.1, 0.1, 0.9], [0, 0, 1, 1])
    assert "slope 0.5 on the log-odds" in str(cal)
    assert cal.predict([0.1, 0.9]).tolist() == [0, 1]
    assert cal.predict_proba([0.1]).shape == (1, 2)
    cal.fit(z, y)
    assert "200 rows of 3 classes" in str(cal)
    assert "on the logits" in str(cal)
    assert cal.predict(z).shape == (200,)
    assert cal.predict_proba(z).shape == (200, 3)
    assert isinstance(cal.certificate(), NoCertificate)
    cal.save(tmp_path / "t.json")
    np.testing.assert_array_equal(load(tmp_path / "t.json").transform(z), cal.transform(z))
    cal.fit([0.1, 0.1, 0.1, 0.9], [0, 0, 1, 1])
    assert cal.transform([0.5]).tolist() == [0.5]


def test_other_calibrators_of_one_score_say_where_a_matrix_belongs():
    with pytest.raises(InputError, match=r"use calibrate\(scores, y\), .* or calibrant\.multiclass"):
        PlattScaling().fit(np.full((4, 3), 1 / 3), [0, 1, 0, 1])


def test_it_is_stored_and_read_again(tmp_path, subtests):
    for calibrator in SCALINGS:
        with subtests.test(calibrator=calibrator):
            z, y = sample(100, 3)
            cal = calibrator().fit(z, y)
            cal.save(tmp_path / "map.json")
            np.testing.assert_array_equal(load(tmp_path / "map.json").transform(z), cal.transform(z))
            assert isinstance(cal.map_, SoftmaxMap)
            assert str(cal).startswith(calibrator.__name__)


def test_the_structured_map_lies_between_a_temperature_and_a_matrix():
    z, y = sample(3000, 3)
    new, labels = sample(3000, 3, seed=1)
    losses = {type(cal).__name__: log_loss(cal.fit(z, y).transform(new), labels) for cal in [c() for c in SCALINGS]}
    assert losses["StructuredScaling"] < losses["TemperatureScaling"] - 0.01
    assert losses["StructuredScaling"] <= losses["MatrixScaling"] + 0.003
    strong = StructuredScaling(1e7, clamp=1e-9).fit(z, y).map_
    off = strong.slope.reshape(3, 3) - np.diag(strong.slope.reshape(3, 3).diagonal())
    assert np.abs(off).max() < 1e-3


def test_zeros_of_a_forest_are_held_where_unseen_rows_want_them():
    """A model of ten votes: 0 means below one tenth, not never."""
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.ones(4), 1500)
    votes = np.array([rng.multinomial(10, row) for row in p]) / 10
    y = np.array([rng.choice(4, p=row) for row in p])
    cal = StructuredScaling().fit(votes, y)
    assert cal.clamp_ >= 1e-3
    assert log_loss(cal.transform(votes), y) < log_loss(
        StructuredScaling(clamp=1e-12).fit(votes, y).transform(votes), y
    )


def test_what_is_compared_never_depends_on_the_labels_it_is_judged_by():
    """Other labels in one part leave the map that judges it as it was."""
    z, y = sample(200, 3)
    rows = check_class_rows(z, y, score_type="logit")
    folds = MulticlassFolds.of(rows)
    setting = Setting("matrix", 1e-9)
    part = np.flatnonzero(folds.shares[0])
    other = y.copy()
    other[part] = (y[part] + 1) % 3
    maps = []
    for labels in (y, other):
        trials = Trials(check_class_rows(z, labels, score_type="logit"), folds, "log")
        for place in (1, 2, 0):
            trials.losses(setting, place)
        maps.append(trials._fits[frozenset({0})][setting])
    np.testing.assert_array_equal(maps[0].numbers, maps[1].numbers)


def test_parts_hold_whole_groups_or_equally_many_rows():
    z, y = sample(203, 3)
    rows = check_class_rows(z, y, score_type="logit")
    folds = MulticlassFolds.of(rows)
    np.testing.assert_array_equal(folds.shares.sum(axis=0), 1.0)
    assert np.ptp(folds.shares.sum(axis=1)) <= 1
    grouped = MulticlassFolds.of(check_class_rows(z, y, score_type="logit", groups=np.arange(203) // 10))
    for group in range(21):
        assert np.count_nonzero(grouped.shares[:, np.arange(203) // 10 == group].sum(axis=1)) == 1
    assert len(some_rows(rows, 300)) in range(60, 140)
    assert some_rows(rows, 10**6) is rows


def test_the_highest_clamp_that_is_hardly_worse_is_taken():
    z, y = sample(400, 3)
    rows = check_class_rows(z / 100, y, score_type="logit")  # no score is near any clamp
    trials = Trials(rows, MulticlassFolds.of(rows), "log")
    settings = [Setting("temperature", clamp) for clamp in (1e-300, 1e-9, 1e-3)]
    assert safest(View(trials, trials.parts), settings) == settings[-1]


@pytest.mark.slow
def test_a_hundred_thousand_rows_take_a_moment():
    z, y = sample(100_000, 10)
    start = time.process_time()
    TemperatureScaling().fit(z, y)
    VectorScaling().fit(z, y)
    assert time.process_time() - start < 30
