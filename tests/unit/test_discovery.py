"""The region where a model is most off."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import calibrant as cb
from calibrant.verdict.discovery import Condition, Region, discover


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
    assert tiny == Region((), False, 0, 0, 0.0, 0.0, np.inf, 1, 0.4, 1.0, 1, 1)
    assert str(tiny) == "No region: too few rows, or no feature that varies (searched 1 row, tested on another 1)."
    constant = discover(np.full(500, 0.3), np.arange(500) % 10 < 3, {"x": np.ones(500)})
    assert constant.conditions == ()
    assert not constant.off
    ends = discover(np.repeat([0.0, 1.0], 300), np.repeat([0, 1], [301, 299]), {"x": np.arange(600.0)})
    assert not ends.off
    infinite = discover(*planted(400)[:2], {"x": np.where(np.arange(400) % 2, np.inf, -np.inf)})
    assert 0.0 <= infinite.p_value <= 1.0


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
    with pytest.raises(cb.InputError, match="discover names 'agee', which is not a column"):
        cb.check(pd.DataFrame({**features, "p": scores, "y": y}), score="p", label="y", discover=["agee"])
    for name in ("groups", "sample_weight"):
        with pytest.raises(cb.InputError, match=f"{name} cannot be used with discover"):
            cb.check(scores, y, discover=features, **{name: np.arange(600) + 1})
