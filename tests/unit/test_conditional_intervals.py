"""Intervals of numbers by group and under a known shift: through the thresholds that sets of classes have."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression

from calibrant import InputError
from calibrant.conformal import SplitConformal, conformal_quantile, split_intervals
from calibrant.guarantees.no_certificate import NoCertificateCode
from calibrant.shift import known_weights

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2))
GROUP = np.array(["calm", "wild"])[(X[:, 1] > 1).astype(int)]
Y = X[:, 0] + RNG.normal(size=400) * np.where(GROUP == "wild", 5.0, 1.0)
MODEL = LinearRegression().fit(X[:100], Y[:100])
OLD, NEW = slice(100, 300), slice(300, 400)


def test_each_group_has_its_radius_and_forecasts_alone_give_the_same() -> None:
    method = SplitConformal(MODEL, prefit=True).fit(X[OLD], Y[OLD], groups=GROUP[OLD])
    sets = method.predict_sets(X[NEW], groups=GROUP[NEW])
    residuals = np.abs(Y[OLD] - MODEL.predict(X[OLD]))
    for name in ("calm", "wild"):
        radius = conformal_quantile(residuals[GROUP[OLD] == name], 0.1)
        assert np.allclose(sets.width[GROUP[NEW] == name], 2 * radius)
    assert "for the rows of each group" in str(sets.certificate)
    alone = split_intervals(
        MODEL.predict(X[OLD]), Y[OLD], MODEL.predict(X[NEW]), groups=GROUP[OLD], new_groups=GROUP[NEW]
    )
    assert np.array_equal(alone.to_array(), sets.to_array())
    assert alone.certificate == sets.certificate


def test_unseen_groups_and_missing_ones_are_refused_with_a_way_out() -> None:
    method = SplitConformal(MODEL, prefit=True).fit(X[OLD], Y[OLD], groups=GROUP[OLD])
    with pytest.raises(InputError, match=r"groups has 'new', which fit did not see"):
        method.predict_sets(X[:1], groups=["new"])
    assert np.isinf(method.predict_sets(X[:1], groups=["new"], unseen="everything").width).all()
    with pytest.raises(InputError, match="groups is missing"):
        method.predict_sets(X[:1])
    with pytest.raises(InputError, match="groups was not passed to fit"):
        SplitConformal(MODEL, prefit=True).fit(X[OLD], Y[OLD]).predict_sets(X[:1], groups=["calm"])


def test_groups_follow_the_rows_that_are_held_out() -> None:
    method = SplitConformal(LinearRegression()).fit(X, Y, groups=GROUP)
    held = method.calibration_rows_
    scores = np.abs(Y[held] - method.predict(X[held]))
    wild = conformal_quantile(scores[GROUP[held] == "wild"], 0.1)
    assert method.predict_sets(X[:1], groups=["wild"]).width[0] == pytest.approx(2 * wild)


def test_weights_equal_in_all_rows_change_nothing_and_only_known_ones_are_certified() -> None:
    plain = SplitConformal(MODEL, prefit=True).fit(X[OLD], Y[OLD])
    known = SplitConformal(MODEL, prefit=True).fit(X[OLD], Y[OLD], sample_weight=known_weights(np.ones(200), upper=1))
    same = known.predict_sets(X[NEW], sample_weight=np.ones(100))
    assert np.array_equal(same.to_array(), plain.predict_sets(X[NEW]).to_array())
    assert same.certificate.assumption == "known-ratio"
    guessed = SplitConformal(MODEL, prefit=True).fit(X[OLD], Y[OLD], sample_weight=np.ones(200))
    assert guessed.certificate().code == NoCertificateCode.ESTIMATED_WEIGHTS
    with pytest.warns(UserWarning, match="1 of 2 sets hold everything"):
        alone = split_intervals(
            MODEL.predict(X[OLD]), Y[OLD], [0.0, 1.0], sample_weight=np.ones(200), new_sample_weight=[1.0, 1e9]
        )
    assert np.isinf(alone.width).tolist() == [False, True]


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.statistical
def test_numbers_are_covered_in_a_rare_group_and_under_a_known_shift(full_size: bool) -> None:
    rng, runs, n = np.random.default_rng(5), 10_000 if full_size else 400, 60
    ratio = np.array([0.25, 4.0])
    hits = {"group": 0, "shift": 0, "plain": 0}
    for _ in range(runs):
        kind = (rng.random(n + 1) < 0.2).astype(int)
        kind[-1] = rng.random() < 0.8  # the share of wild rows is 0.2 in the past and 0.8 now
        y = np.round(rng.normal(size=n + 1) * np.where(kind == 1, 4, 1))  # with ties
        zero, past = np.zeros(n), known_weights(ratio[kind[:-1]], upper=4.0)
        now = split_intervals(zero, y[:-1], [0.0], sample_weight=past, new_sample_weight=ratio[kind[-1:]])
        hits["shift"] += now.covers(y[-1:])[0]
        hits["plain"] += split_intervals(zero, y[:-1], [0.0]).covers(y[-1:])[0]
        wild = np.round(rng.normal() * 4)
        own = split_intervals(zero, y[:-1], [0.0], groups=kind[:-1], new_groups=[1], unseen="everything")
        hits["group"] += own.covers([wild])[0]
    for name in ("group", "shift"):
        assert stats.binomtest(hits[name], runs, 0.9, alternative="less").pvalue > 1e-3, name
    assert stats.binomtest(hits["plain"], runs, 0.9, alternative="less").pvalue < 1e-3
