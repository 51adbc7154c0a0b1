"""Sampling recipes undone in closed form."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import InputError, SamplingCorrection, load
from calibrant.engine import apply
from calibrant.maps import LogitAffineMap


def test_half_the_odds_when_half_of_the_negatives_were_kept() -> None:
    # 0.5 has odds 1; odds 1 * 0.5 = 1/2, probability (1/2) / (3/2) = 1/3.
    correction = SamplingCorrection(kept_negatives=0.5)
    assert correction.map == LogitAffineMap(1.0, math.log(0.5))
    assert correction.transform([0.5])[0] == pytest.approx(1 / 3, abs=1e-15)


def test_a_world_counted_by_hand() -> None:
    # 100 rows at one score: 10 events, 90 others. Keeping a tenth of the others leaves 10 and 9: the model says 10/19.
    assert SamplingCorrection(kept_negatives=0.1).transform([10 / 19])[0] == pytest.approx(0.1, abs=1e-14)
    # Weighing each event nine times makes it 90 to 90: the model says one half.
    assert SamplingCorrection(class_weight=9).transform([0.5])[0] == pytest.approx(0.1, abs=1e-14)
    # A training set of 10/19 events, in truth 0.1: the model's mean goes where it belongs.
    assert SamplingCorrection(train_rate=10 / 19, true_rate=0.1).transform([10 / 19])[0] == pytest.approx(0.1)


def test_dropping_and_weighing_negatives_alike_cancel() -> None:
    # A tenth of the negatives, each weighing ten: positives weigh 0.1 of a negative.
    assert SamplingCorrection(kept_negatives=0.1, class_weight=0.1).offset == pytest.approx(0.0, abs=1e-15)


def test_nothing_done_is_the_identity() -> None:
    scores = np.array([1e-9, 0.25, 0.5, 1 - 1e-9])
    assert SamplingCorrection(kept_negatives=1.0).transform(scores) == pytest.approx(scores, rel=1e-6)


@given(st.floats(1e-4, 1.0), st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_recipe_and_rates_agree_and_the_ranking_stays(kept: float, true: float, score: float) -> None:
    train = true / (true + kept * (1.0 - true))
    by_rates = SamplingCorrection(train_rate=train, true_rate=true)
    assert by_rates.offset == pytest.approx(math.log(kept), abs=1e-9)
    low, high = SamplingCorrection(kept_negatives=kept).transform([score, min(score * 1.01, 1.0)])
    assert 0.0 < low <= score + 1e-12
    assert low < high


def test_scores_of_0_and_1_stay_near_the_ends() -> None:
    low, high = SamplingCorrection(kept_negatives=0.01).transform([0.0, 1.0])
    assert 0.0 < low < 1e-10
    assert 1.0 - 1e-7 < high < 1.0
    assert np.isnan(SamplingCorrection(kept_negatives=0.01).transform([np.nan])).all()


def test_made_up_rows_are_refused_with_a_reason_and_a_way_out(subtests) -> None:
    for method in ["smote", "SMOTE", "ADASYN", "borderline_smote", "synthetic"]:
        with subtests.test(method=method), pytest.raises(InputError, match=r"generates synthetic rows.*PlattScaling"):
            SamplingCorrection(kept_negatives=0.1, method=method)


def test_honest_ways_to_rebalance_are_taken() -> None:
    for method in ("undersampling", "oversampling", "weights"):
        assert SamplingCorrection(class_weight=3, method=method).offset == -math.log(3)


def test_what_cannot_be_meant_is_refused_in_one_sentence(subtests) -> None:
    for recipe, words in [
        ({}, "exactly one is needed.*together with true_rate"),
        ({"train_rate": 0.5}, "exactly one is needed.*together with true_rate"),
        (
            {"kept_negatives": 0.1, "train_rate": 0.5, "true_rate": 0.1},
            "exactly one is needed.*together with true_rate",
        ),
        ({"kept_negatives": 0.0}, "kept_negatives"),
        ({"kept_negatives": 10}, "write 10 % as 0.1"),
        ({"kept_negatives": math.nan}, "kept_negatives"),
        ({"class_weight": 0.0}, "class_weight"),
        ({"class_weight": -2.0}, "class_weight"),
        ({"class_weight": math.inf}, "class_weight"),
        ({"train_rate": 0.5, "true_rate": 0.0}, "true_rate"),
        ({"train_rate": 1.0, "true_rate": 0.1}, "train_rate"),
        ({"class_weight": 2.0, "method": "magic"}, "not a known method"),
    ]:
        with subtests.test(recipe=recipe, words=words):
            with pytest.raises(InputError, match=words) as caught:
                SamplingCorrection(**recipe)
            assert "\n" not in str(caught.value)


def test_it_is_a_calibration_that_saves_exports_and_joins_a_frame(tmp_path) -> None:
    correction = SamplingCorrection(class_weight=40)
    correction.save(tmp_path / "undo.json")
    back = load(tmp_path / "undo.json")
    assert back.map == correction.map
    assert "was not fitted to rows" in str(back.certificate)
    assert not back.certificate
    assert "score" in correction.to_sql("score")
    polars = pytest.importorskip("polars")
    frame = apply(correction, polars.DataFrame({"s": [0.5]}), "s")
    assert frame["calibrated"][0] == pytest.approx(1 / 41)


def test_it_is_a_value() -> None:
    correction = SamplingCorrection(kept_negatives=0.1)
    assert correction == SamplingCorrection(kept_negatives=0.1) == copy.deepcopy(correction)
    assert correction != SamplingCorrection(kept_negatives=0.2)
    assert repr(correction) == "SamplingCorrection(kept_negatives=0.1)"
    with pytest.raises(AttributeError):
        correction.kept_negatives = 0.2


def test_it_prints_one_sentence() -> None:
    text = str(SamplingCorrection(train_rate=0.5, true_rate=0.02))
    assert text == (
        "The event rate was 50 % in training and is 2 % in the population: odds are multiplied by 0.02041, "
        "so a score of 0.5 becomes 0.02."
    )
    both = str(SamplingCorrection(kept_negatives=0.1, class_weight=2))
    assert both.startswith("10 % of the negatives were kept in training and positives had 2 times the weight")
