"""Density ratios, weights that are declared to be one, and certificates for a target population."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import calibrant as cb
from calibrant.export.errors import DocumentError
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.weighted import LARGEST_STAKE, LEVELS, STAKES, WEIGHTED_BOUNDS, WeightTable
from calibrant.messages import InputError
from calibrant.shift import (
    RatioWeights,
    estimate_density_ratio,
    known_weights,
    weighted_bernstein,
    weighted_epsilon,
    weighted_interval,
)
from calibrant.shift.covariate.ulsif import kernels, leave_one_out
from calibrant.tallies import Tally


def shifted(n: int = 2_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, scores and labels of a source; the target has the density 2 x1 2 x2, and the score is x1."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    return x, x[:, 0], rng.random(n) < 0.1 + 0.8 * x[:, 0] * x[:, 1]


@pytest.fixture(scope="module")
def fitted() -> cb.HistogramBinning:
    x, scores, y = shifted()
    return cb.HistogramBinning(4).fit(scores, y, known_weights(lambda f: 4 * f.prod(axis=1), x, upper=4))


# ------------------------------------------------------------------------------------------------------- density ratio


def test_the_leave_one_out_score_is_that_of_fits_without_the_pair() -> None:
    rng = np.random.default_rng(0)
    source, target = rng.random((40, 2)), rng.beta(2, 1, (30, 2))
    at_source, at_target = (kernels(rows, target[:10], 0.4) for rows in (source, target))
    values, vectors = np.linalg.eigh(at_source @ at_source.T / 40)
    ridges = (0.01, 0.3)
    found = leave_one_out(at_source, at_target, values, vectors, ridges)
    for ridge, score in zip(ridges, found, strict=True):
        left = []
        for i in range(30):
            some, others = np.delete(at_source, i, axis=1), np.delete(at_target, i, axis=1)
            alpha = np.linalg.solve(some @ some.T / 39 + ridge * np.eye(10), others.mean(axis=1)).clip(0)
            left.append((at_source[:, i] @ alpha) ** 2 / 2 - at_target[:, i] @ alpha)
        assert score == pytest.approx(np.mean(left), abs=1e-9)


def test_every_method_finds_the_ratio_and_scales_it_to_mean_one(subtests: pytest.Subtests) -> None:
    rng = np.random.default_rng(1)
    source, target = rng.normal(0, 1, (600, 2)), rng.normal([0.5, 0.0], 1, (300, 2))  # twice as many of the source
    truth = np.exp(0.5 * source[:, 0] - 0.125)
    for method in ("ulsif", "logistic", HistGradientBoostingClassifier(max_iter=20)):
        with subtests.test(method=str(method)):
            ratio = estimate_density_ratio(source, target, method=method)
            weights = ratio.weights()
            assert not weights.known
            assert weights.values.mean() == pytest.approx(1.0)
            assert ratio.effective_size == pytest.approx(weights.effective_size)
            assert ratio.largest == weights.values.max()
            assert weights.values.max() <= weights.upper
            assert np.corrcoef(weights.values, truth)[0, 1] > 0.5
            assert ratio.ratio(source[:5]).shape == (5,)
            assert json.dumps(ratio.to_dict())
            assert ratio._repr_html_()


def test_frames_are_read_by_the_names_of_their_columns() -> None:
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(2)
    source, target = rng.normal(0, 1, (80, 2)), rng.normal(0.3, 1, (80, 2))
    arrays = estimate_density_ratio(source, target, method="logistic")
    frames = estimate_density_ratio(
        pd.DataFrame(source, columns=["a", "b"]),
        pl.DataFrame({"b": target[:, 1], "a": target[:, 0]}),
        method="logistic",
    )
    assert np.array_equal(arrays.source, frames.source)
    with pytest.raises(InputError, match="has no column 'b'"):
        frames.ratio(pd.DataFrame({"a": [1.0]}))


def test_hopeless_ratios_are_refused_with_the_reason(subtests: pytest.Subtests) -> None:
    rng = np.random.default_rng(3)
    source = rng.random((300, 1))
    inside = np.concatenate([[[0.0]], rng.uniform(0.999, 1.0, (299, 1))])
    cases = {"outside-source": source + 0.5, "few-effective-rows": np.minimum(inside, source.max())}
    for code, target in cases.items():
        with subtests.test(code=code):
            ratio = estimate_density_ratio(source, target, method="logistic")
            assert ratio.problem is not None
            assert ratio.problem.code == code
            assert "Do not use" in str(ratio)
            with pytest.raises(InputError, match="collect labels"):
                ratio.weights()
    assert estimate_density_ratio(source, rng.random((300, 1))).problem is None


@pytest.mark.parametrize(
    ("source", "target", "options", "problem"),
    [
        (np.zeros((0, 2)), np.ones((30, 2)), {}, "source is empty"),
        (np.ones((30, 2)), np.ones((30, 2)), {}, "same features in every row"),
        (np.eye(30), np.eye(30)[:10], {}, "target has 10 rows"),
        (np.eye(30), np.ones((30, 3)), {}, "target has 3 features, and the source has 30"),
        (np.eye(30), np.full((30, 30), np.nan), {}, "missing value"),
        (np.eye(30), np.eye(30), {"method": "forest"}, "not an option"),
        (np.eye(30), np.eye(30), {"method": 3}, "not a classifier"),
        (np.eye(30), np.eye(30), {"method": "logistic", "ridges": [1.0]}, "only used by 'ulsif'"),
        (np.eye(30), np.eye(30), {"bandwidths": [-1.0]}, "positive numbers"),
        (np.full((30, 1), "a"), np.eye(30), {}, "holds text"),
        (np.zeros((30, 2, 2)), np.eye(30), {}, "has shape"),
    ],
)
def test_bad_features_are_refused(source: Any, target: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        estimate_density_ratio(source, target, **options)


# ------------------------------------------------------------------------------------------------------------- weights


def test_ratio_weights_behave_like_a_column() -> None:
    weights = known_weights([1.0, 2.0, 3.0], upper=3)
    assert np.array_equal(np.asarray(weights), [1.0, 2.0, 3.0])
    assert weights[[0, 2]].meaning == (3.0, True)
    assert weights.effective_size == pytest.approx(36 / 14)


@pytest.mark.parametrize(
    ("weights", "features", "upper", "problem"),
    [
        ([], None, 1, "weights is empty"),
        ([np.nan, 1.0], None, 1, "missing value"),
        ([np.inf, 1.0], None, 1, "infinity"),
        ([-1.0, 1.0], None, 1, "at least 0"),
        ([0.0, 0.0], None, 1, "above 0 in some row"),
        ([0.5, 2.0], None, 1, "a row has the weight 2"),
        ([0.5], None, np.inf, "positive number"),
        ([0.5], [1.0], 1, "only used if weights is a function"),
        (abs, None, 1, "features is missing"),
    ],
)
def test_bad_weights_are_refused(weights: Any, features: Any, upper: float, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        known_weights(weights, features, upper=upper)


def test_every_door_takes_ratio_weights_as_importance_weights(subtests: pytest.Subtests) -> None:
    x, scores, y = shifted(400)
    weights = known_weights(4 * x.prod(axis=1), upper=4)
    estimated = replace(weights, known=False)
    plain = np.asarray(weights)
    for name in ("PlattScaling", "BetaScaling", "IsotonicCalibrator", "HistogramBinning"):
        with subtests.test(name=name):
            one = getattr(cb, name)().fit(scores, y, estimated)
            assert one.map_ == getattr(cb, name)().fit(scores, y, plain).map_
            refusal = one.certificate()
            assert isinstance(refusal, NoCertificate)
            assert refusal.code == "estimated-weights"
            assert "Note: map and losses refer to the population" in str(one)
    assert float(cb.metrics.ece(scores, y, estimated)) == float(cb.metrics.ece(scores, y, plain))
    assert cb.check(scores, y, sample_weight=estimated).status == cb.check(scores, y, sample_weight=plain).status
    assert cb.calibrate(scores[:100], y[:100], sample_weight=estimated[:100]).certificate().code == "estimated-weights"


# ----------------------------------------------------------------------------------------------------------- intervals


def test_one_row_by_hand() -> None:
    """With one event of weight u the mean wealth is 1 + g u (1 - t) / t, with g the mean stake."""
    mean_stake = float(np.geomspace(0.5, LARGEST_STAKE, STAKES).mean())
    for share in (0.5, 1.0):
        low, high = weighted_interval([share], [1], upper=1.0, alpha=0.1)
        reach = mean_stake * share
        assert low == pytest.approx(reach / (20.0 - 1.0 + reach), rel=1e-9)
        assert high == 1.0
        assert weighted_interval([share], [0], upper=1.0, alpha=0.1) == pytest.approx((0.0, 1.0 - low))


def test_weights_between_levels_only_widen_the_interval() -> None:
    rng = np.random.default_rng(4)
    share, y = rng.random(300), rng.random(300) < 0.3
    stakes = np.geomspace(1 / 300, LARGEST_STAKE, STAKES)[:, None]

    def wealth(rate: float) -> float:
        logs = np.where(y, np.log1p(stakes * share * (1 - rate) / rate), np.log1p(-stakes * share)).sum(axis=1)
        return float(np.exp(logs).mean())

    low, high = weighted_interval(share, y, upper=1.0, alpha=0.1)
    assert wealth(low) >= 20.0  # the exact end lies above
    assert wealth(low + 0.02 * (high - low)) < 20.0
    assert (weighted_interval(5 * share, y, upper=5.0)) == pytest.approx((low, high), rel=1e-9)


def test_the_weighted_hoeffding_interval_is_its_formula() -> None:
    weights, y = np.array([1.0, 0.5, 0.5] * 100), np.array([1, 0, 0] * 100)
    radius = (1.0 / weights.mean()) * np.sqrt(np.log(20) / 600)
    found = weighted_interval(weights, y, upper=1.0, method="weighted-hoeffding")
    assert found == pytest.approx((0.5 - radius, 0.5 + radius))


def test_theorem_3_9_is_its_formula() -> None:
    weights, y = np.array([1.0, 2.0, 2.0, 0.5] * 500), np.array([1, 0, 1, 1] * 500)
    terms, log = 1.5 * weights * y, np.log(30)
    radius = np.sqrt(2 * terms.var() * log / 2_000) + 3 * 1.5 * 2 * log / 2_000
    found = weighted_bernstein(weights / 4, y, 1.5, upper=0.5)
    assert found == pytest.approx((terms.mean() / 4, terms.mean() / 4 - radius / 4, terms.mean() / 4 + radius / 4))


def test_epsilon_before_labels() -> None:
    assert weighted_epsilon(19, 10, 0.1, 2.0) == np.inf
    assert weighted_epsilon(1_000, 10, 0.1, 1.0) == pytest.approx(cb.guarantees.bounds.umd_epsilon(1_000, 10, 0.1))
    for bad in ({"alpha": 0.0}, {"spread": 0.5}, {"n_bins": 0}):
        with pytest.raises(InputError):
            weighted_epsilon(**({"n": 100, "n_bins": 2, "alpha": 0.1, "spread": 2.0} | bad))


def test_edges_of_intervals() -> None:
    assert weighted_interval(np.ones(5), np.zeros(5), upper=1.0)[0] == 0.0
    assert weighted_interval(np.ones(5), np.ones(5), upper=1.0)[1] == 1.0
    table = WeightTable(1.0, np.zeros((2, len(LEVELS))), np.zeros((2, len(LEVELS))))
    for bound in WEIGHTED_BOUNDS.values():
        low, high = bound(table, 0.1)
        assert (low.tolist(), high.tolist()) == ([0.0, 0.0], [1.0, 1.0])
    with pytest.raises(InputError, match="upper is missing"):
        weighted_interval([1.0], [1])
    with pytest.raises(InputError, match="one value per row"):
        weighted_interval([1.0, 1.0], [1], upper=1.0)


# -------------------------------------------------------------------------------------------------------- certificates


def test_the_certificate_is_about_the_target(fitted: cb.HistogramBinning) -> None:
    x, scores, y = shifted()
    found = fitted.certificate(alpha=0.1)
    assert isinstance(found, Certificate)
    assert (found.interval, found.n, fitted.provenance_.weight_type) == ("betting", 1_997, "known-ratio")
    assert "target population" in str(found)
    assert "not an estimate" in str(found)
    assert "(rows of the source)" in str(fitted)
    for b in np.flatnonzero(found.covered):
        at = np.searchsorted(found.about.knots, scores, side="right") == b
        weights = 4 * x.prod(axis=1)[at]
        assert found.outputs[b] == pytest.approx((weights * y[at]).sum() / weights.sum())
        alone = weighted_interval(weights, y[at], upper=4, alpha=0.1 / 4)
        assert (found.lower[b], found.upper[b]) == pytest.approx(alone)
    assert fitted.certificate(interval="hoeffding").interval == "weighted-hoeffding"
    assert fitted.certificate(interval="always-valid").code == "no-theorem"
    assert fitted.certificate(interval="betting", coverage="marginal").epsilon < found.epsilon


def test_a_stored_certificate_is_recomputed(
    fitted: cb.HistogramBinning, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    path = tmp_path / "map.json"
    fitted.save(path)
    back, content = cb.load(path), json.loads(path.read_text(encoding="utf-8"))
    assert back.certificate.epsilon == fitted.certificate().epsilon
    rng = np.random.default_rng(8)
    target = rng.beta(2, 1, (3_000, 2))
    assert back.certificate.check(target[:, 0], rng.random(3_000) < 0.1 + 0.8 * target.prod(axis=1))

    def changed(part: str, **values: Any) -> str:
        copy = json.loads(json.dumps(content))
        place = copy["certificate"]["about"] if part == "about" else copy[part]
        place.update(values)
        return json.dumps(copy)

    about = content["certificate"]["about"]
    forged = {
        "alpha": changed("certificate", alpha=0.01),
        "interval": changed("certificate", interval="weighted-hoeffding"),
        "interval of counts": changed("certificate", interval="clopper-pearson"),
        "levels": changed("about", event_levels=[2.0 * each for each in about["event_levels"]]),
        "too few levels": changed("about", other_levels=about["other_levels"][:-1]),
        "upper": changed("about", upper=-1.0),
        "weights": changed("provenance", weight_type="importance"),
        "rows": changed("provenance", n=100.0),
    }
    for name, text in forged.items():
        path.write_text(text, encoding="utf-8")
        with subtests.test(changed=name), pytest.raises(DocumentError):
            cb.load(path)


def test_ways_to_choose_bins() -> None:
    x, scores, y = shifted(600)
    weights = known_weights(4 * x.prod(axis=1), upper=4)
    other = shifted(500, seed=9)
    tally = Tally.from_arrays(other[1], other[2])
    for method in (cb.HistogramBinning(3, strategy="width"), cb.HistogramBinning(3, bins_from=tally)):
        assert isinstance(method.fit(scores, y, weights).certificate(), Certificate)
    with pytest.raises(InputError, match="is not supported for a known density ratio"):
        cb.HistogramBinning(3, bins_from="split").fit(scores, y, weights)
    with pytest.raises(InputError, match="does not count rows"):
        cb.HistogramBinning(3).fit(scores, y, weights, weight_type="frequency")
    assert cb.HistogramBinning(3).fit(scores, y, weights, groups=np.arange(600) // 2).certificate().code == "grouped"


def test_few_effective_rows_have_no_certificate() -> None:
    _, scores, y = shifted(400)
    weights = known_weights(np.where(np.arange(400) < 5, 1.0, 1e-4), upper=1)
    refusal = cb.HistogramBinning(2).fit(scores, y, weights).certificate()
    assert isinstance(refusal, NoCertificate)
    assert refusal.code == "few-effective-rows"


def test_rows_of_weight_zero_do_not_count() -> None:
    x, scores, y = shifted(300)
    values = 4 * x.prod(axis=1)
    zero = np.arange(300) % 3 == 0
    some = known_weights(np.where(zero, 0.0, values), upper=4)
    one = cb.HistogramBinning(2).fit(scores, y, some)
    other = cb.HistogramBinning(2).fit(scores[~zero], y[~zero], RatioWeights(values[~zero], 4.0, known=True))
    assert one.map_ == other.map_
    assert one.certificate().epsilon == other.certificate().epsilon


def test_an_estimated_ratio_is_not_taken_for_a_known_one() -> None:
    rng = np.random.default_rng(0)
    source, target = rng.normal(0.0, 1.0, (200, 1)), rng.normal(0.3, 1.0, (200, 1))
    ratio = estimate_density_ratio(source, target, method="logistic")
    weights, y = ratio.weights(), np.arange(200) % 2
    for given, features in ((weights, None), (ratio, None), (ratio.ratio, source), (ratio.weights, source)):
        with pytest.raises(InputError, match="estimated density ratio"):
            known_weights(given, features, upper=1e6)
    with pytest.raises(InputError, match="estimated density ratio"):
        known_weights(lambda rows: ratio.weights(rows), source, upper=1e6)
    for upper in (None, 1e6):
        with pytest.raises(InputError, match="estimated density ratio"):
            weighted_interval(weights, y, upper=upper)
    assert "known_weights" not in str(cb.HistogramBinning(2).fit(np.linspace(0, 1, 200), y, weights).certificate())


def test_a_share_of_all_rows_is_not_a_power_of_ten() -> None:
    rng = np.random.default_rng(0)
    ratio = estimate_density_ratio(rng.normal(0, 1, (50, 1)), rng.normal(50, 1, (50, 1)), method="logistic")
    assert "100 % of the target rows are outside" in str(ratio)
