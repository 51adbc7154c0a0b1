"""Changed frequencies of several classes: matched, corrected for sampling, estimated without labels, and tested."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from calibrant import Calibration, InputError
from calibrant.calibrators import PlattScaling, TemperatureScaling
from calibrant.maps import GroupedSoftmaxMap, IdentityMap, PerClassMap
from calibrant.multiclass import Reduction
from calibrant.shift import SamplingCorrection, estimate_label_shift, estimate_rate, match_mean

CENTERS = np.array([[0.0, 0.0], [1.8, 0.0], [0.0, 1.8]])
OLD, NEW = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])


def world(n: int, rates: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """True probabilities under the old frequencies, and labels drawn at these rates."""
    y = rng.choice(3, n, p=rates)
    x = CENTERS[y] + rng.normal(size=(n, 2))
    odds = np.exp(-0.5 * ((x[:, None, :] - CENTERS) ** 2).sum(axis=2)) * OLD
    return odds / odds.sum(axis=1, keepdims=True), y


def test_two_columns_give_the_estimate_of_one():
    rng = np.random.default_rng(0)
    y = rng.random(3000) < 0.3
    z = np.where(y, rng.normal(1.5, 1, 3000), rng.normal(0, 1, 3000)) * 1.5 - 1.125 + np.log(3 / 7)
    p = 1 / (1 + np.exp(-z))
    new = np.concatenate([p[y][:300], p[~y][:900]])
    one = estimate_label_shift(IdentityMap(), new, p, y)
    two = estimate_label_shift(IdentityMap(), *(np.column_stack([1 - s, s]) for s in (new, p)), y.astype(int))
    assert (two.rate, two.se) == (one.rate, one.se)
    moved = two.calibration.transform(np.column_stack([1 - new, new]))[:, 1]
    np.testing.assert_allclose(moved, one.calibration.transform(new), atol=1e-6)


def test_frequencies_are_covered_and_the_assumption_is_tested(full_size):
    rng, runs = np.random.default_rng(1), 600 if full_size else 60
    inside, p_values = 0, []
    for _ in range(runs):
        old, y = world(1500, OLD, rng)
        new, _ = world(800, NEW, rng)
        found = estimate_label_shift(IdentityMap(), new, old, y)
        inside += sum(found.low[str(k)] <= NEW[k] <= found.high[str(k)] for k in range(3))
        p_values.append(found.fit.p_value)
    assert stats.binomtest(inside, 3 * runs, 0.95, alternative="less").pvalue > 1e-3
    assert stats.kstest(p_values, "uniform", alternative="greater").pvalue > 1e-3


def test_a_shift_of_the_scores_within_classes_is_found():
    rng = np.random.default_rng(2)
    old, y = world(3000, OLD, rng)
    new, _ = world(2000, NEW, rng)
    sharper = new**2 / (new**2).sum(axis=1, keepdims=True)
    found = estimate_label_shift(IdentityMap(), sharper, old, y)
    assert not found.fit.holds
    assert "contradict label shift (mixture of the old classes" in str(found)


def test_a_class_that_vanished_has_no_standard_error():
    rng = np.random.default_rng(3)
    _, y = world(2000, OLD, rng)
    p = np.eye(3)[y] * 0.97 + 0.01
    found = estimate_label_shift(IdentityMap(), p[y < 2], p, y)
    assert found.rates["2"] < 0.02
    assert sum(found.rates.values()) == pytest.approx(1.0)


def test_mean_probabilities_match_known_frequencies():
    rng = np.random.default_rng(4)
    p, y = world(500, OLD, rng)
    frame = pd.DataFrame(p, columns=["a", "b", "c"])
    cal = TemperatureScaling().fit(frame, np.array(["a", "b", "c"])[y])
    moved = match_mean(cal, frame, mean={"c": 0.6, "a": 0.1, "b": 0.3})
    np.testing.assert_allclose(moved.transform(frame).mean(), [0.1, 0.3, 0.6], atol=1e-9)
    weights = rng.random(500)
    moved = match_mean(IdentityMap(), p, mean=NEW, sample_weight=weights)
    np.testing.assert_allclose(np.average(moved.transform(p), axis=0, weights=weights), NEW, atol=1e-9)


def test_the_rate_of_each_class_is_that_of_one_against_the_rest():
    rng = np.random.default_rng(5)
    p, y = world(3000, OLD, rng)
    found = estimate_rate(p[400:], p[:400], y[:400])
    for k in range(3):
        alone = estimate_rate(p[400:, k], p[:400, k], y[:400] == k)
        assert found.rates[str(k)].rate == alone.rate
        assert found.rates[str(k)].high == alone.high
    assert str(found).startswith("0: Event rate")


def test_sampling_of_several_classes_is_undone_by_bayes_rule():
    rng = np.random.default_rng(6)
    p, _ = world(50, OLD, rng)
    weights = np.array([1.0, 4.0, 10.0])
    sampled = p * weights / (p * weights).sum(axis=1, keepdims=True)
    by_weight = SamplingCorrection(class_weight={"a": 1.0, "b": 4.0, "c": 10.0})
    np.testing.assert_allclose(by_weight.transform(sampled), p, rtol=1e-9)
    train = OLD * weights / (OLD * weights).sum()
    true = {"c": OLD[2], "a": OLD[0], "b": OLD[1]}
    by_rate = SamplingCorrection(train_rate=dict(zip("abc", train, strict=True)), true_rate=true)
    np.testing.assert_allclose(by_rate.transform(sampled), p, rtol=1e-9)
    assert "a 1, b 0.25, c 0.1" in str(by_weight)


def test_mistakes_are_named(subtests):
    rng = np.random.default_rng(7)
    p, y = world(100, OLD, rng)
    top = Reduction("class-wise", PlattScaling()).fit(p, y)
    assert isinstance(top.map_, PerClassMap)
    for call, words in [
        (lambda: match_mean(IdentityMap(), p, mean=0.3), "mean must be 3 frequencies"),
        (lambda: match_mean(IdentityMap(), p, mean=[0.5, 0.5, 0.5]), "sum to 1"),
        (lambda: match_mean(IdentityMap(), p, mean={"x": 1.0}), "a frequency for each class"),
        (lambda: match_mean(IdentityMap(), p[:, 0], mean=[0.5, 0.5]), "mean must be a rate"),
        (lambda: match_mean(top, p, mean=NEW), "must be a softmax map"),
        (lambda: estimate_label_shift(IdentityMap(), p, p), "y is missing"),
        (lambda: SamplingCorrection(class_weight={"a": 1.0, "b": 0.0}), "a number above 0"),
        (lambda: SamplingCorrection(class_weight={"a": 1.0, "b": 2.0}, kept_negatives=0.1), "must be given alone"),
        (lambda: SamplingCorrection(train_rate={"a": 0.5, "b": 0.5}, true_rate=0.1), "must be a mapping"),
        (lambda: SamplingCorrection(train_rate={"a": 0.5, "b": 0.5}, true_rate={"a": 0.5, "c": 0.5}), "the classes of"),
        (lambda: SamplingCorrection(train_rate={"a": 0.5, "b": 0.6}, true_rate={"a": 0.5, "b": 0.5}), "sum to 1"),
    ]:
        with subtests.test(words=words), pytest.raises(InputError, match=words):
            call()


def test_old_and_new_rows_go_through_the_map_of_their_segment():
    rng = np.random.default_rng(5)
    p, site = rng.dirichlet([1.0, 1.0, 1.0], 3000), rng.choice(["n", "s"], 3000)
    odds = p * np.where((site == "n")[:, None], [6.0, 1.0, 1.0], 1.0)
    y = ((odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1) > rng.random((3000, 1))).argmax(axis=1).astype(str)
    frame = pd.DataFrame(p, columns=["0", "1", "2"])
    shifts = [np.log(6.0), 0.0, 0.0, 0.0, 0.0, 0.0]
    by_site = GroupedSoftmaxMap(("0", "1", "2"), [1.0], [], "probability", 1e-9, "site", ("n", "s"), [1.0, 1.0], shifts)
    cal = Calibration(by_site)
    frame["site"] = site
    weight = (np.arange(3000) >= 10).astype(float)
    found = estimate_label_shift(cal, frame, frame, y, source_weight=weight)
    mean = np.asarray(cal.transform(frame))[10:].mean(axis=0)
    np.testing.assert_allclose(list(found.source_rates.values()), mean, atol=1e-12)
    np.testing.assert_allclose(list(found.rates.values()), mean, atol=0.002)
    assert found.fit.holds
    with pytest.raises(InputError, match=r"^source has no column 'site', which this map by segment needs"):
        estimate_label_shift(cal, frame, p, y)


def test_a_class_that_no_old_row_predicts_is_tested_with_another_bin():
    rng = np.random.default_rng(6)
    odds = np.array([0.55, 0.41, 0.04])
    y = rng.choice(3, 4000, p=odds)
    p = rng.dirichlet([6.0, 5.0, 1.0], 4000)
    old, rare = p[p.argmax(axis=1) < 2], p[p.argmax(axis=1) == 2]
    assert len(rare) > 5
    labels, half = y[: len(old)], len(old) // 2
    few = estimate_label_shift(IdentityMap(), np.vstack([old[half:], rare[:1]]), old[:half], labels[:half])
    assert few.fit is not None
    assert few.fit.holds
    many = np.vstack([old[half:], np.repeat(rare, 400 // len(rare) + 1, axis=0)])
    assert not estimate_label_shift(IdentityMap(), many, old[:half], labels[:half]).fit.holds
