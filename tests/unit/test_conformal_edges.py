"""Conformal sets at hard inputs: columns of large scale, frozen models, and settings that are refused."""

import numpy as np
import pytest
from scipy import special, stats
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from calibrant.conformal import (
    Coverage,
    CrossConformal,
    CumulativeSets,
    LeastAmbiguousSets,
    OutOfBagConformal,
    RepeatedSplitConformal,
    RidgeConformal,
    Scaled,
    SplitConformal,
    conformal_quantile,
    p_values,
    recalibrate_distributions,
    split_intervals,
)
from calibrant.conformal.nested import Band
from calibrant.messages import InputError


def rows(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] + rng.normal(size=n)


# ------------------------------------------------------------------------------------------------------- large scales


@pytest.mark.parametrize(("factor", "shift"), [(1e9, 0.0), (1e9, 1e9), (1e-9, 0.0)])
def test_ridge_sets_do_not_depend_on_the_scale_of_a_column_without_a_penalty(factor, shift):
    X, y = rows()
    scaled = X * [factor, 1.0] + [shift, 0.0]
    plain = RidgeConformal(0.0, alpha=0.2).fit(X[:-3], y[:-3])
    other = RidgeConformal(0.0, alpha=0.2).fit(scaled[:-3], y[:-3])
    np.testing.assert_allclose(other.predict_sets(scaled[-3:]).ends, plain.predict_sets(X[-3:]).ends, rtol=1e-6)
    np.testing.assert_allclose(other.predict(scaled[-3:]), plain.predict(X[-3:]), rtol=1e-6)


@pytest.mark.parametrize("factor", [1.0, 1e9])
def test_ridge_sets_are_those_of_scikit_learn_fitted_to_each_value(factor):
    X, y = rows(25)
    X = X * factor
    ends = RidgeConformal(alpha=0.2).fit(X[:-1], y[:-1]).predict_sets(X[-1:]).ends[0]
    for end, step in zip(ends, (1e-4, -1e-4), strict=True):
        for value, held in ((end + step, True), (end - step, False)):
            residuals = np.abs((tried := np.append(y[:-1], value)) - Ridge(1.0, solver="svd").fit(X, tried).predict(X))
            assert (np.mean(residuals >= residuals[-1]) > 0.2) == held


def test_ridge_sets_cover_at_every_scale():
    held = 0
    for seed in range(300):
        X, y = rows(12, seed)
        held += RidgeConformal(alpha=0.2).fit(X[:-1] * 1e9, y[:-1]).predict_sets(X[-1:] * 1e9).covers(y[-1:])[0]
    assert held >= 300 * 0.8 - 3.1 * np.sqrt(300 * 0.16)


# ------------------------------------------------------------------------------------------------------ frozen models


@pytest.mark.parametrize(
    "make",
    [
        lambda m: CrossConformal(m, folds=5),
        lambda m: CrossConformal(m, folds="leave-one-out"),
        lambda m: CrossConformal((m, m), family="cqr"),
        lambda m: CrossConformal((m, LinearRegression()), family="cqr"),
        lambda m: CrossConformal(LinearRegression(), family=Scaled(m)),
        lambda m: RepeatedSplitConformal(make_pipeline(StandardScaler(), m)),
        lambda m: OutOfBagConformal(BaggingRegressor(m)),
        lambda m: SplitConformal((m, LinearRegression()), family="cqr"),
        lambda m: SplitConformal(make_pipeline(StandardScaler(), m)),
        lambda m: SplitConformal(LinearRegression(), family=Scaled(m)),
    ],
)
def test_a_model_that_is_not_fitted_again_has_no_certificate(make):
    X, y = rows()
    with pytest.raises(InputError, match="frozen, so it is not fitted again"):
        make(FrozenEstimator(KNeighborsRegressor(1).fit(X, y))).fit(X, y)


def test_frozen_models_calibrate_with_all_rows_that_they_have_not_seen():
    X, y = rows()
    frozen = FrozenEstimator(KNeighborsRegressor(3).fit(X[:20], y[:20]))
    for model, family in ((frozen, "residual"), ((frozen, frozen), "cqr"), (frozen, Scaled(frozen))):
        found = SplitConformal(model, family=family).fit(X[20:], y[20:])
        assert found.scores_.size == 20
    pipeline = make_pipeline(StandardScaler(), KNeighborsRegressor(3)).fit(X[:20], y[:20])
    assert SplitConformal(FrozenEstimator(pipeline), prefit=True).fit(X[20:], y[20:]).scores_.size == 20


# ----------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (SplitConformal(None), "model"),
        (SplitConformal(LinearRegression), "model"),
        (CrossConformal(None), "model"),
        (SplitConformal(LinearRegression(), calibration_share="x"), "calibration_share"),
        (RepeatedSplitConformal(LinearRegression(), fit_share="x"), "fit_share"),
        (SplitConformal(LinearRegression(), random_state=-1), "random_state"),
        (CrossConformal(LinearRegression(), random_state=-1), "random_state"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(method, name):
    with pytest.raises(InputError) as caught:
        method.fit(*rows())
    assert name in str(caught.value).split()[0]


def test_a_tiny_alpha_gives_the_whole_line():
    X, y = rows()
    with pytest.warns(UserWarning, match="too few"):
        assert np.isinf(SplitConformal(LinearRegression()).fit(X, y).predict_sets(X, 1e-320).width).all()


# -------------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("level", "alpha", "shown"),
    [
        (1 - 0.1, 0.1, "90 %"),
        (1 - 0.07, 0.07, "93 %"),
        (1 - 2 * 0.07, 0.07, "86 %"),
        (0.718181818, 0.1, "71.81 %"),
        (0.999999, 0.1, "99.9999 %"),
        (1 - 1e-5, 1e-5, "99.999 %"),
        (1 - 1e-17, 1e-17, "99.999999999999999 %"),
    ],
)
def test_a_level_is_printed_rounded_down(level, alpha, shown):
    assert f"at least {shown} (" in str(Coverage(level, alpha, "a theorem"))


def test_the_ranks_of_right_counts_are_not_called_off():
    rng = np.random.default_rng(0)
    mean = rng.uniform(0.5, 2.0, 200)
    found = recalibrate_distributions(stats.poisson(mean), rng.poisson(mean))
    assert "Furthest off" not in str(found)
    assert "share of ranks up to each level" in str(found)
    wrong = str(recalibrate_distributions(stats.poisson(3 * mean), rng.poisson(mean)))
    assert "outcomes have a rank F(y) of at most" in wrong


# ------------------------------------------------------------------------------------------------- scores and weights


def test_missing_scores_have_no_p_value_and_infinite_ones_do():
    for scores, new in (([1, 2, 3], [np.nan]), ([1, np.nan], [1.0])):
        with pytest.raises(InputError):
            p_values(scores, new)
    assert p_values([1.0, np.inf], [np.inf, -np.inf]).tolist() == [2 / 3, 1.0]


def test_weights_whose_sum_overflows_are_refused():
    with pytest.raises(InputError, match="sum that is not finite"):
        conformal_quantile([1.0, 2.0, 3.0, 4.0], 0.5, [1e308] * 4)
    with pytest.raises(InputError, match="sum that is not finite"):
        conformal_quantile([1.0, 2.0, 3.0, 4.0], 0.5, [1e307] * 4, 1.7e308)


def test_weights_of_new_rows_are_named_as_passed():
    past = {"predicted": np.zeros(20), "y": np.arange(20.0), "new_predicted": [0.0], "sample_weight": np.ones(20)}
    with pytest.raises(InputError, match=r"^new_sample_weight"):
        split_intervals(**past, new_sample_weight=[-1.0])
    X, y = rows()
    fitted = SplitConformal(LinearRegression()).fit(X, y, sample_weight=np.ones(40))
    with pytest.raises(InputError, match=r"^sample_weight"):
        fitted.predict_sets(X[:1], sample_weight=[-1.0])
    with pytest.warns(UserWarning, match="1 of 2 sets hold everything"):
        found = split_intervals(**(past | {"new_predicted": [0.0, 0.0]}), new_sample_weight=[1.0, 1e6])
    assert np.isinf(found.width).tolist() == [False, True]


def test_no_new_rows_are_refused_also_with_groups():
    X, y = rows()
    with pytest.raises(InputError, match="is empty"):
        SplitConformal(LinearRegression()).fit(X, y, groups=["a"] * 40).predict_sets(X[:0], groups=[])


def test_a_band_around_a_list():
    assert Band.around([1.0, 2.0], [1.0, 2.0]).score(np.array([2.0, 4.0])).tolist() == [1.0, 1.0]


def test_the_reason_for_no_certificate_is_part_of_the_data():
    found = split_intervals(
        np.zeros(20), np.arange(20.0), [0.0], sample_weight=np.ones(20), new_sample_weight=[1.0]
    ).to_dict()
    assert found["certificate"]["code"] == "estimated-weights"


# ------------------------------------------------------------------------------------------------------------ classes


def test_one_column_of_scores_takes_names_and_logits():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=200)
    p = special.expit(logits)
    event = rng.random(200) < p
    names = np.where(event, "yes", "no")
    expected = LeastAmbiguousSets(0.2).fit(p, event.astype(int)).predict_sets(p).members
    for found in (
        LeastAmbiguousSets(0.2).fit(p, names, classes=["no", "yes"]).predict_sets(p),
        LeastAmbiguousSets(0.2).fit(logits, names, classes=["no", "yes"], score_type="logit").predict_sets(logits),
    ):
        assert found.classes == ("no", "yes")
        assert (found.members == expected).all()
    assert (LeastAmbiguousSets(0.2).fit(1 - p, names, classes=["yes", "no"]).predict_sets(1 - p).members
            == expected[:, ::-1]).all()  # fmt: skip
    with pytest.raises(InputError, match=r"pass classes=\['no', 'yes'\] or classes=\['yes', 'no'\]"):
        LeastAmbiguousSets(0.2).fit(p, names)
    with pytest.raises(InputError, match="classes"):
        LeastAmbiguousSets(0.2).fit(p, names, classes=["a", "b", "c"])
    with pytest.raises(InputError, match="scores"):
        LeastAmbiguousSets(0.2).fit(np.append(p[1:], np.nan), names, classes=["no", "yes"])


def test_options_of_class_sets():
    p = np.full((30, 2), 0.5)
    with pytest.raises(InputError, match="by_class"):
        LeastAmbiguousSets(by_class="no").fit(p, [0, 1] * 15, classes=[0, 1])
    CumulativeSets(penalty=np.float32(0.1)).fit(p, [0, 1] * 15, classes=[0, 1])
