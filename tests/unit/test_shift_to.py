"""A calibration moved to a known base rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import Calibration, HistogramBinning, InputError, PlattScaling, Tally, load
from calibrant.engine import Grid
from calibrant.maps import ComposeMap, IdentityMap, LogitAffineMap, StepMap
from calibrant.shift import match_mean

RNG = np.random.default_rng(11)
SCORES = RNG.beta(1, 6, 5_000)
LABELS = (RNG.random(5_000) < SCORES**1.2).astype(int)


def offset(moved: Calibration) -> float:
    """Shift of log-odds of a map that is nothing else."""
    assert isinstance(moved.map, LogitAffineMap)
    assert moved.map.slope == 1.0
    return moved.map.intercept


def test_one_score_goes_to_the_mean_itself() -> None:
    # logit(0.2) - logit(0.5) = log(1/4).
    moved = match_mean(IdentityMap(), [0.5], mean=0.2)
    assert offset(moved) == pytest.approx(math.log(0.25), abs=1e-14)


def test_two_scores_by_hand() -> None:
    # Scores 1/3 and 2/3 have odds 1/2 and 2; times 2 they are 1 and 4, so probabilities 1/2 and 4/5: mean 0.65.
    moved = match_mean(IdentityMap(), [1 / 3, 2 / 3], mean=0.65)
    assert offset(moved) == pytest.approx(math.log(2), abs=1e-12)


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30),
    st.sampled_from([1e-9, 1e-4, 0.03, 0.5, 0.97, 1 - 1e-6]),
)
def test_the_mean_is_met_for_any_scores(scores: list[float], mean: float) -> None:
    moved = match_mean(IdentityMap(), scores, mean=mean).transform(scores)
    # where scores of exactly 0 and 1 face each other the end of double precision limits what can be met
    assert moved.mean() == pytest.approx(mean, rel=1e-6)
    assert (np.diff(moved[np.argsort(scores)]) >= -1e-15).all()


def test_the_mean_is_met_to_rounding_on_many_rows() -> None:
    for mean in (0.001, 0.031, 0.5, 0.9):
        assert match_mean(IdentityMap(), SCORES, mean=mean).transform(SCORES).mean() == pytest.approx(mean, rel=1e-12)


def test_order_and_repetition_do_not_matter_and_weight_0_is_no_row() -> None:
    plain = match_mean(IdentityMap(), SCORES, mean=0.05)
    assert match_mean(IdentityMap(), SCORES[::-1], mean=0.05) == plain
    doubled = match_mean(IdentityMap(), np.repeat(SCORES, 2), mean=0.05)
    assert offset(doubled) == pytest.approx(offset(plain), rel=1e-13)
    twice = offset(match_mean(IdentityMap(), [0.1, 0.1, 0.6], mean=0.2))
    for weights in ([2, 1, 0], [2e90, 1e90, 0], [2e-90, 1e-90, 0.0]):
        weighted = match_mean(IdentityMap(), [0.1, 0.6, 0.99], mean=0.2, sample_weight=weights)
        assert offset(weighted) == pytest.approx(twice, rel=1e-12)


def test_a_tally_serves_and_its_labels_are_not_looked_at() -> None:
    exact = Tally.from_arrays(SCORES, LABELS)
    other = Tally.from_arrays(SCORES, 1 - LABELS)
    assert match_mean(IdentityMap(), exact, mean=0.05) == match_mean(IdentityMap(), other, mean=0.05)
    gridded = match_mean(IdentityMap(), Tally.from_arrays(SCORES, LABELS, grid=Grid()), mean=0.05)
    assert gridded.transform(SCORES).mean() == pytest.approx(0.05, rel=1e-6)
    table = Tally.from_table([900, 100], [9, 20], edges=[0.5], scores=[0.1, 0.7])
    moved = match_mean(IdentityMap(), table, mean=0.03).transform([0.1, 0.7])
    assert 0.9 * moved[0] + 0.1 * moved[1] == pytest.approx(0.03, rel=1e-12)


def test_a_fitted_calibrator_keeps_its_origin_and_shows_the_stage(tmp_path) -> None:
    fitted = PlattScaling().fit(SCORES, LABELS)
    moved = match_mean(fitted, SCORES, mean=0.02)
    assert isinstance(moved.map, ComposeMap)
    assert moved.map.maps[0] == fitted.map_
    assert moved.provenance is not None
    assert moved.provenance.method == "PlattScaling, shifted to a mean of 0.02"
    moved.save(tmp_path / "moved.json")
    assert load(tmp_path / "moved.json") == moved
    assert "ln" in moved.to_sql("score").lower() or "exp" in moved.to_sql("score").lower()
    again = match_mean(moved, SCORES, mean=0.1)
    assert again.transform(SCORES).mean() == pytest.approx(0.1, rel=1e-12)


def test_the_certificate_of_the_old_map_does_not_travel() -> None:
    fitted = HistogramBinning(n_bins=5).fit(SCORES, LABELS)
    assert fitted.certificate()
    moved = match_mean(fitted, SCORES, mean=0.05)
    assert not moved.certificate
    assert "changed after the fit" in str(moved.certificate)


def test_logits_are_taken_by_a_calibration_of_logits() -> None:
    z = np.log(SCORES / (1 - SCORES))
    fitted = PlattScaling().fit(z, LABELS, score_type="logit")
    assert match_mean(fitted, z, mean=0.04).transform(z).mean() == pytest.approx(0.04, rel=1e-12)


def test_a_step_map_with_values_0_and_1_moves_too() -> None:
    moved = match_mean(StepMap([0.5], [0.0, 1.0]), [0.1, 0.9], mean=0.25).transform([0.1, 0.9])
    assert moved.mean() == pytest.approx(0.25, rel=1e-6)


def test_a_mean_that_is_no_rate_is_refused(subtests) -> None:
    for mean in [0.0, 1.0, -0.1, 3, math.nan, "3 %", None]:
        with subtests.test(mean=mean), pytest.raises(InputError, match="mean must be a rate"):
            match_mean(IdentityMap(), [0.5], mean=mean)


def test_wrong_input_is_refused_in_one_sentence() -> None:
    for scores, words in (([], "empty"), ([0.5, np.nan], "missing"), ([0.5, np.inf], "inf"), ([5.0], "probabilities")):
        with pytest.raises(InputError, match=words):
            match_mean(IdentityMap(), scores, mean=0.1)
    with pytest.raises(InputError, match="fitted calibrator"):
        match_mean("platt", [0.5], mean=0.1)
    with pytest.raises(InputError, match="already contains weights"):
        match_mean(IdentityMap(), Tally.from_arrays(SCORES, LABELS), mean=0.1, sample_weight=SCORES)
    with pytest.raises(InputError, match="logit scores"):
        match_mean(Calibration(IdentityMap()), Tally.from_arrays([-1.0, 2.0], [0, 1], score_type="logit"), mean=0.1)
