"""The region where a model is most off."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

import calibrant as cb
from calibrant.verdict.discovery import Condition, NoRegion, Region, discover


def planted(n: int = 6000, shift: float = 1.5, seed: int = 0) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    features = {
        "age": rng.integers(18, 90, n).astype(float),
        "income": rng.lognormal(10, 0.5, n),
        "sex": rng.choice(["f", "m"], n),
    }
    z = rng.normal(-1.0, 1.0, n)
    region = (features["age"] > 60) & (features["sex"] == "m")
    return expit(z), (rng.random(n) < expit(z + shift * region)).astype(int), features


def test_a_region_is_named_in_words_and_its_side():
    scores, y, features = planted()
    region = discover(scores, y, features)
    assert region.off
    assert region.too_low
    assert [each.feature for each in region.conditions] == ["age", "sex"]
    assert region.conditions[1] == Condition("sex", level="m")
    assert 57.0 < region.conditions[0].above < 63.0
    assert str(region).startswith("Too low where age > ")
    assert ", elsewhere " in str(region)
    assert region.outside_events + region.events == y[np.random.default_rng(0).permutation(len(y))[len(y) // 2 :]].sum()
    high = discover(*planted(shift=-1.5))
    assert high.off
    assert not high.too_low
    assert str(high).startswith("Too high where age > ")


def test_the_test_uses_only_rows_that_were_not_searched():
    """Labels of the searched half can be changed at will: with a region of its own the p-value is of the other half."""
    scores, y, features = planted(shift=0.0)
    order = np.random.default_rng(0).permutation(len(y))
    searched, tested = order[: len(y) // 2], order[len(y) // 2 :]
    changed = y.copy()
    inside = features["age"][searched] > 70
    changed[searched[inside]] = 1
    region = discover(scores, changed, features)
    assert region.conditions[0].feature == "age"
    assert region.rows == region.contains(features)[tested].sum()
    assert region.events == y[tested][region.contains(features)[tested]].sum()
    assert not region.off


def test_contains_agrees_with_the_counts_and_takes_frames():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    scores, y, features = planted()
    region = discover(scores, y, pd.DataFrame(features))
    assert region == discover(scores, y, features) == discover(scores, y, pl.DataFrame(features))
    assert (region.contains(pd.DataFrame(features)) == region.contains(features)).all()


def test_missing_values_are_a_condition_of_their_own():
    scores, _, features = planted(shift=0.0)
    gone = np.random.default_rng(1).random(len(scores)) < 0.1
    features["income"] = np.where(gone, np.nan, features["income"])
    y = np.random.default_rng(2).random(len(scores)) < np.where(gone, 0.9, scores)
    region = discover(scores, y, features)
    assert region.conditions == (Condition("income", missing=True),)
    assert "income is missing" in str(region)
    assert (region.contains(features) == gone).all()


def test_a_missing_text_is_a_condition_too():
    pd = pytest.importorskip("pandas")
    scores, _, features = planted(shift=0.0)
    gone = np.random.default_rng(1).random(len(scores)) < 0.1
    y = np.random.default_rng(2).random(len(scores)) < np.where(gone, 0.9, scores)
    for sex in (np.where(gone, None, features["sex"]), pd.Series(features["sex"]).mask(gone)):
        region = discover(scores, y, features | {"sex": sex})
        assert region.conditions == (Condition("sex", missing=True),)
        assert (region.contains(features | {"sex": sex}) == gone).all()


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Condition("x", above=1.0), "x > 1"),
        (Condition("x", upto=2.5), "x <= 2.5"),
        (Condition("x", above=1.0, upto=123456.0), "1 < x <= 123,456"),
        (Condition("x", level="a b"), "x = a b"),
    ],
)
def test_conditions_in_words(condition, text):
    assert str(condition) == text


def test_edges():
    tiny = discover([0.2, 0.4], [0, 1], {"x": [1, 2]})
    expected = Region((), False, 0, 0, 0.0, 0.0, np.inf, 1, 0.4, 1.0, 1, 1, 0.4, 0, None, NoRegion.FEW_ROWS)
    assert tiny == expected
    for scores in (0.3, 0.5):
        constant = discover(np.full(500, scores), np.arange(500) % 10 < 3, {"x": np.ones(500)})
        assert (constant.conditions, constant.off, constant.reason) == ((), False, NoRegion.NO_FEATURE)
    ends = discover(np.repeat([0.0, 1.0], 300), np.repeat([0, 1], [301, 299]), {"x": np.arange(600.0)})
    assert (ends.off, ends.reason) == (False, NoRegion.NOTHING)
    with pytest.warns(cb.CalibrantWarning, match="only one class"):
        none = discover(np.full(500, 0.5), np.zeros(500, dtype=int), {"x": np.arange(500)})
    assert (none.off, none.reason, none.all_side) == (False, NoRegion.NOTHING, -1)
    infinite = discover(*planted(400)[:2], {"x": np.where(np.arange(400) % 2, np.inf, -np.inf)})
    assert 0.0 <= infinite.p_value <= 1.0


def off_everywhere(case: str) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """W4 of the trials, and scores of a model with balanced class weights."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    if case == "2.2 times":
        s = 0.2 + 0.1 * np.tanh(x)
        return np.clip(2.2 * s, 0, 1), rng.random(4000) < s, {"x": x, "z": rng.normal(size=4000)}
    features = {f"x{j}": rng.normal(size=4000) for j in range(9)} | {"x": x}
    z = x + 0.5 * features["x3"] - 1.5
    planted = 1.2 * (features["x1"] > 0.8) * (features["x2"] < 0) * (case == "balanced, and a region")
    return expit(1.3 * z + 1.5), rng.random(4000) < expit(z + planted), features


@pytest.mark.parametrize("case", ["2.2 times", "balanced", "balanced, and a region"])
def test_where_the_model_is_off_everywhere_the_corrected_scores_are_searched(case):
    scores, y, features = off_everywhere(case)
    region = discover(scores, y, features)
    tested = np.random.default_rng(0).permutation(len(y))[len(y) // 2 :]
    fit = minimize(lambda b: np.logaddexp(0, u := b[0] + b[1] * logit(scores[tested])).sum() - y[tested] @ u, [0, 1])
    assert region.recalibration == pytest.approx(fit.x, abs=1e-3)
    assert region.all_predicted == pytest.approx(scores[tested].sum())
    assert region.all_side == -1
    assert region.outside_events + region.events == y[tested].sum()
    assert region.outside_predicted + region.predicted == pytest.approx(y[tested].sum())
    if "region" in case:
        assert (region.off, region.too_low, {each.feature for each in region.conditions}) == (True, True, {"x1", "x2"})
    else:
        assert (region.off, region.reason) == (False, NoRegion.NOTHING)


def test_check_looks_for_a_region_on_request():
    scores, y, features = planted()
    verdict = cb.check(scores, y, discover=features)
    assert verdict.region == discover(scores, y, features)
    assert "Region: Too low where age > " in str(verdict)
    assert verdict.to_dict()["region"]["off"] is True
    assert cb.check(scores, y).region is None
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({**features, "p": scores, "y": y})
    assert cb.check(frame, score="p", label="y", discover=["age", "income", "sex"]).region == verdict.region


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": {}}, "features has no column"),
        ({"features": np.ones((600, 2))}, "features has no names of columns"),
        ({"features": {"x": np.ones(5)}}, "features has 5 rows, and scores have 600"),
        ({"features": {"x": np.ones(600), "z": np.ones(4)}}, "features has columns of 4 and 600 rows"),
    ],
)
def test_wrong_features_are_refused(arguments, message):
    with pytest.raises(cb.InputError, match=message):
        discover(*planted(600)[:2], **arguments)


def test_check_refuses_what_the_test_does_not_cover():
    scores, y, features = planted(600)
    with pytest.raises(cb.InputError, match="discover needs one score for each row"):
        cb.check(cb.Tally.from_arrays(scores, y), discover=features)
    pd = pytest.importorskip("pandas")
    with pytest.raises(cb.InputError, match="discover holds names of columns, which need a frame"):
        cb.check(np.full(20, 0.5), np.arange(20) % 2, discover=["age"])
    with pytest.raises(cb.InputError, match="discover has no names of columns"):
        cb.check(np.full(20, 0.5), np.arange(20) % 2, discover=np.zeros((20, 2)))
    with pytest.raises(cb.InputError, match="discover has no column 'agee'"):
        cb.check(pd.DataFrame({**features, "p": scores, "y": y}), score="p", label="y", discover=["agee"])
    for name in ("groups", "sample_weight"):
        with pytest.raises(cb.InputError, match=f"{name} cannot be used with discover"):
            cb.check(scores, y, discover=features, **{name: np.arange(600) + 1})
