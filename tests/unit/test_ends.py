"""Scores of exactly 0 and 1: read from the other scores, alike in fits, folds, maps, exports and losses."""

from __future__ import annotations

import sqlite3
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.calibration import Calibration, load
from calibrant.calibrators.auto import AutoCalibrator
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.calibrators.binary.scaling import BetaScaling, LogitShift, PlattScaling
from calibrant.calibrators.binary.spline import SplineCalibrator
from calibrant.calibrators.binary.two_stage import ScalingBinning
from calibrant.calibrators.calibrate import calibrate
from calibrant.calibrators.crossfit import crossfit
from calibrant.calibrators.multiclass.auto import MulticlassAutoCalibrator
from calibrant.calibrators.multiclass.scaling import MatrixScaling, VectorScaling
from calibrant.calibrators.segments import SegmentCalibrator
from calibrant.calibrators.temperature import TemperatureScaling
from calibrant.maps import BetaMap, ComposeMap, IdentityMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap
from calibrant.messages import CalibrantWarning, InputError
from calibrant.metrics import log_loss
from calibrant.numerics import CLAMP, LARGEST_HIGH, LEAST_LOW, OUTPUT_ENDS, Ends, Grid, expit, logit
from calibrant.online import OnlineBeta, OnlinePlatt
from calibrant.selection.folds import Folds
from calibrant.shift import match_mean
from calibrant.tallies import Tally, end_notes

BELOW_ONE = 1.0 - 2.0**-53
CONFIDENCES = {
    0.5: (240, 91),
    0.6: (260, 103),
    0.7: (440, 176),
    0.8: (700, 301),
    0.9: (480, 278),
    0.95: (229, 142),
    1.0: (51, 39),
}
"""2,400 answers of a language model: how many it was this sure of, and how many of those were right."""

LOG_ODDS: list[type[BinaryCalibrator]] = [PlattScaling, BetaScaling, TemperatureScaling, LogitShift, SplineCalibrator]


def answers() -> tuple[np.ndarray, np.ndarray]:
    counts = [n for n, _ in CONFIDENCES.values()]
    right = [np.repeat([1, 0], [k, n - k]) for n, k in CONFIDENCES.values()]
    return np.repeat(list(CONFIDENCES), counts), np.concatenate(right)


def world(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities in steps of 0.05, some of them exactly 0 and 1 and neither always right."""
    rng = np.random.default_rng(seed)
    scores = np.round(20 * rng.beta(0.7, 0.7, n)) / 20
    return scores, (rng.random(n) < 0.1 + 0.7 * scores).astype(int)


def quiet(made: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return made.fit(*args, **kwargs)


def ends_of(fitted: Map) -> Ends:
    inner = fitted.maps[0] if isinstance(fitted, ComposeMap) else fitted
    if isinstance(inner, PiecewiseLinearMap):
        return Ends(float(inner.knots[0]), float(inner.knots[-1]))
    assert isinstance(inner, LogitAffineMap | BetaMap)
    return Ends(inner.low, inner.high)


# ------------------------------------------------------------------------------------------------------------- the rule


def test_the_rule_by_hand(subtests) -> None:
    for scores, low, high in [
        ([0.5, 0.8], CLAMP, 1 - CLAMP),
        ([0.5, 0.95, 1.0], CLAMP, 0.975),
        ([0.0, 0.01, 0.5], 0.005, 1 - CLAMP),
        ([0.0, 0.02, 0.9, 1.0], 0.01, 0.95),
        ([0.0, 0.3, 1.0], 0.15, 0.65),
        ([1e-20, 0.5], 1e-20, 1 - CLAMP),
        ([0.0, 1e-20, 0.5], 0.5e-20, 1 - CLAMP),
        ([0.5, BELOW_ONE], CLAMP, BELOW_ONE),
        ([0.5, BELOW_ONE, 1.0], CLAMP, BELOW_ONE),
        ([0.5, 1 - 2.0**-52, 1.0], CLAMP, BELOW_ONE),
        ([0.0, 5e-324, 0.5], LEAST_LOW, 1 - CLAMP),
        ([1e-20, 1.0], 1e-20, 0.5),
        ([0.0, 1.0], CLAMP, 1 - CLAMP),
        ([], CLAMP, 1 - CLAMP),
    ]:
        with subtests.test(scores=scores, low=low, high=high):
            assert Ends.of(np.array(scores)) == (pytest.approx(low, rel=1e-15), pytest.approx(high, abs=1e-16))


def test_single_precision_scores_next_to_one() -> None:
    """A float32 sigmoid ends at 1 - 2^-24: exact ones are read at half of that distance, as doubles."""
    scores = np.array([0.5, 1 - 2.0**-24, 1.0], dtype=np.float32)
    assert Ends.of(scores) == (CLAMP, 1 - 2.0**-25)
    fitted = quiet(PlattScaling(), scores, [0, 1, 1]).map_
    assert ends_of(fitted) == Ends.of(scores)
    assert fitted.apply(scores).dtype == np.float32


scores_with_ends = st.lists(
    st.floats(0.0, 1.0) | st.sampled_from([0.0, 1.0, 0.5, 1e-20, CLAMP, 1 - CLAMP, BELOW_ONE, 1e-300]), min_size=1
)


@given(scores_with_ends)
def test_no_score_between_the_ends_moves_and_none_overtakes_another(given_scores: list[float]) -> None:
    scores = np.unique(given_scores)
    ends = Ends.of(scores)
    assert LEAST_LOW <= ends.low <= 0.5 <= ends.high <= LARGEST_HIGH
    assert ends.low < ends.high
    read, inside = np.clip(scores, *ends), (scores >= LEAST_LOW) & (scores < 1.0)
    np.testing.assert_array_equal(read[inside], scores[inside])
    apart = (scores[:-1] >= LEAST_LOW) | (scores[:-1] == 0.0) & (scores[1:] > LEAST_LOW)
    tied = (scores[:-1] == BELOW_ONE) | ~apart
    assert (np.diff(read)[~tied] > 0.0).all()
    assert (np.diff(read) >= 0.0).all()


# -------------------------------------------------------------------------------------------------------------- tallies


@given(st.lists(st.sampled_from([0.0, 1e-20, 1e-9, 0.05, 0.5, 0.97, 1 - 1e-9, BELOW_ONE, 1.0]), min_size=1))
def test_every_tally_of_the_rows_has_their_ends(given_scores: list[float]) -> None:
    scores, y = np.array(given_scores), np.zeros(len(given_scores), dtype=int)
    ends, half = Ends.of(scores), len(scores) // 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        rows = Tally.from_arrays(scores, y)
        counted = Tally.from_arrays(scores, y, np.full(len(y), 3), weight_type="frequency")
        parts = [Tally.from_arrays(scores[part], y[part]) for part in (slice(half), slice(half, None)) if len(y[part])]
    assert rows.ends == counted.ends == ends
    assert sum(parts[1:], parts[0]).ends == ends
    assert rows.has_interior == bool(((scores > 0) & (scores < 1)).any())
    assert rows.on_ends() == ((scores == 0).sum(), (scores == 1).sum())
    assert counted.on_ends() == (3 * (scores == 0).sum(), 3 * (scores == 1).sum())


@pytest.mark.parametrize("bits", [4, 10])
def test_on_a_grid_the_outermost_cells_inside_count(bits: int) -> None:
    scores, y = np.array([0.0, 0.011, 0.5, 0.93, 1.0]), np.array([0, 1, 0, 1, 1])
    gridded = Tally.from_arrays(scores, y, grid=Grid(bits))
    assert gridded.on_ends() == (1, 1)
    assert gridded.ends == Ends.of(gridded.scores)
    np.testing.assert_allclose(gridded.ends, [0.0055, 0.965], rtol=2.0**-bits)


def test_a_grid_tells_exact_ends_from_scores_beside_them() -> None:
    tiny = Tally.from_arrays([1e-12, 0.5, BELOW_ONE], [0, 1, 1], grid=Grid())
    assert tiny.on_ends() == (0, 0)
    assert tiny.ends == (pytest.approx(1e-12, rel=1e-6), BELOW_ONE)
    ends = Tally.from_arrays([0.0, 1e-12, 0.5, 1.0], [0, 0, 1, 1], grid=Grid()).ends
    assert ends.low == pytest.approx(0.5e-12, rel=1e-6)


def test_scores_that_a_grid_cannot_tell_from_zero_have_log_odds_all_the_same() -> None:
    """The cell below 2^-32 counts in units of 2^-62: less than half of one is read as half of one."""
    low = Tally.from_arrays([1e-30, 0.5, 0.5], [0, 0, 1], grid=Grid())
    assert low.scores[0] == 2.0**-63
    assert low.ends.low == 2.0**-63


def test_ends_of_a_whole_stay_with_its_parts_when_asked_for() -> None:
    scores, y = world()
    whole = Tally.from_arrays(scores, y)
    ends = Ends(0.001, 0.999)
    fixed = whole.with_ends(ends)
    assert whole.ends == Ends.of(scores) != ends == fixed.ends
    assert fixed.fingerprint == whole.fingerprint
    assert (fixed + fixed).ends == fixed.coarsen(Grid(4)).ends == fixed.for_fitting().ends == ends
    assert (fixed + whole).ends == Ends.of(scores)
    assert all(part.ends == part.own_ends != ends for part in fixed.split(300, 0))
    folds = Folds.at_random(fixed, 5)
    assert {part.ends for part in folds.parts} == {ends}
    assert {part.ends for part in Folds.at_random(whole, 5).parts} == {Ends.of(scores)}


def test_the_sentence_counts_scores_or_weights() -> None:
    one = Tally.from_arrays([0.5, 0.95, 1.0], [0, 1, 1])
    far = "in log-odds, half as far from"
    (note,) = end_notes(one)
    assert (note.code, note.values["zeros"], note.values["ones"], note.values["high"]) == (
        "scores-at-ends",
        0,
        1,
        0.975,
    )
    assert str(note) == f"1 score of exactly 1 is read as 0.975 {far} 1 as the nearest other score"
    weighted = Tally.from_arrays([0.5, 0.95, 1.0], [0, 1, 1], [1.0, 1.0, 2.5])
    assert str(end_notes(weighted)[0]).startswith("scores of exactly 1 with total weight 2.5 are read as 0.975")
    both = Tally.from_arrays([0.0, 0.02, 0.95, 1.0, 1.0], [0, 0, 1, 0, 1])
    assert str(end_notes(both)[0]) == (
        "1 score of exactly 0 is read as 0.01 and 2 scores of exactly 1 are read as 0.975 "
        f"{far} 0 and 1 as the nearest other score"
    )
    (clipped,) = end_notes(both.with_ends(Ends.at(0.03)))
    assert clipped.values == {"moved": 4, "low": 0.03, "high": 0.97, "counts": True}
    assert (clipped.code, str(clipped)) == ("scores-clipped", "4 scores are clipped to [0.03, 0.97] in log-odds")
    assert end_notes(Tally.from_arrays([0.1, 0.9], [0, 1])) == ()
    assert end_notes(Tally.from_arrays([-1.0, 0.0, 1.0], [0, 1, 0], score_type="logit")) == ()


# ----------------------------------------------------------------------------------------------------------------- fits


def test_fifty_one_certain_answers_do_not_flatten_the_slope_of_all() -> None:
    """With 1.0 read as 1 - 2^-32 the slope was 0.10, and 0.8, 0.9 and 0.95 became 0.46, 0.48 and 0.50."""
    scores, y = answers()
    cal = PlattScaling().fit(scores, y)
    assert cal.map_.slope == pytest.approx(0.41, abs=0.01)
    assert ends_of(cal.map_) == (CLAMP, 0.975)
    told = cal.transform([0.5, 0.8, 0.9, 0.95, 1.0])
    assert (np.diff(told) > 0.0).all()
    np.testing.assert_allclose(told[1:], [0.43, 0.579, 0.62, 0.765], atol=0.08)
    sentence = "51 scores of exactly 1 are read as 0.975 in log-odds, half as far from 1 as the nearest other score"
    assert sentence in map(str, cal.notes_)
    assert f"Note: {sentence}" in str(cal)
    wrecked = PlattScaling(clamp=CLAMP).fit(scores, y)
    assert wrecked.map_.slope == pytest.approx(0.10, abs=0.01)
    np.testing.assert_allclose(wrecked.transform([0.8, 0.9, 0.95]), [0.46, 0.48, 0.5], atol=0.005)


def test_every_map_of_log_odds_has_the_ends_of_its_rows(subtests) -> None:
    for cls in [*LOG_ODDS, AutoCalibrator]:
        for grid in [None, Grid()]:
            with subtests.test(cls=cls, grid=grid):
                scores, y = world()
                tally = Tally.from_arrays(scores, y, grid=grid)
                assert (0.0 in scores, 1.0 in scores) == (True, True)
                made = cls(candidates=["platt"]) if cls is AutoCalibrator else cls()
                cal = made.fit_tally(tally)
                np.testing.assert_allclose(ends_of(cal.map_), tally.ends, rtol=1e-12)
                assert end_notes(tally)[0] in cal.notes_
                out = cal.transform([0.0, tally.ends.low / 2, 0.05, 0.95, (1 + tally.ends.high) / 2, 1.0])
                assert out[0] == out[1]
                assert out[4] == out[5]
                assert (np.diff(out)[1:4] >= 0.0).all()
                assert ((out > 0.0) & (out < 1.0)).all()


def test_one_end_alone_leaves_the_other_where_it_was(subtests) -> None:
    for cls in LOG_ODDS:
        with subtests.test(cls=cls):
            scores, y = world()
            some = scores > 0.0
            low, high = ends_of(quiet(cls(), scores[some], y[some]).map_)
            assert (low, high) == (pytest.approx(CLAMP), pytest.approx(0.975))
            some = scores < 1.0
            low, high = ends_of(quiet(cls(), scores[some], y[some]).map_)
            assert (low, high) == (pytest.approx(0.025), pytest.approx(1 - CLAMP, abs=1e-15))


def test_log_odds_far_out_are_the_scores_own(subtests) -> None:
    """Scores of 1e-20 were read as 2^-32: now they enter as they are."""
    for cls in [PlattScaling, BetaScaling, LogitShift]:
        with subtests.test(cls=cls):
            rng = np.random.default_rng(5)
            z = rng.normal(-20.0, 15.0, 2000)
            z = z[np.abs(z) < 34.0]
            z = np.append(z, -46.0)
            y = (rng.random(len(z)) < expit(0.2 * z + 3.0)).astype(int)
            of_scores = cls().fit(1.0 / (1.0 + np.exp(-z)), y)
            if cls is PlattScaling:
                of_logits = cls().fit(z, y, score_type="logit")
                assert of_scores.map_.slope == pytest.approx(of_logits.map_.slope, rel=1e-9)
            assert of_scores.map_.low == pytest.approx(np.exp(-46.0))
            assert not any(note.code == "scores-at-ends" for note in of_scores.notes_)


def test_weights_are_repetition_at_the_ends_too(subtests) -> None:
    for cls in LOG_ODDS:
        with subtests.test(cls=cls):
            scores, y = world(200)
            counts = np.random.default_rng(3).integers(0, 4, len(y))
            counts[scores == 1.0] = 0
            weighted = cls().fit(scores, y, counts, weight_type="frequency")
            assert weighted.map_ == cls().fit(np.repeat(scores, counts), np.repeat(y, counts)).map_
            assert ends_of(weighted.map_).high == pytest.approx(1 - CLAMP, abs=1e-15)


def test_many_rows_start_on_a_grid_with_the_ends_of_the_rows(subtests) -> None:
    rng = np.random.default_rng(8)
    scores = np.append(rng.random(300_000), np.repeat([0.0, 1.0], 2_000))
    y = (rng.random(len(scores)) < 0.1 + 0.8 * scores).astype(int)
    for cls in [PlattScaling, BetaScaling, LogitShift, TemperatureScaling]:
        with subtests.test(cls=cls):
            cal = cls().fit(scores, y)
            assert ends_of(cal.map_) == Ends.of(scores)
            assert not any("converge" in str(note) for note in cal.notes_)


# ---------------------------------------------------------------------------------------------------------------- clamp


def test_clamp_clips_scores_on_both_sides(subtests) -> None:
    for cls in [*LOG_ODDS, AutoCalibrator]:
        with subtests.test(cls=cls):
            scores, y = world()
            options = {"candidates": ["platt"]} if cls is AutoCalibrator else {}
            cal = cls(clamp=0.07, **options).fit(scores, y)
            np.testing.assert_allclose(ends_of(cal.map_), [0.07, 0.93], rtol=1e-12)
            clipped = cls(**options).fit(np.clip(scores, 0.07, 0.93), y)
            probes = np.linspace(0.07, 0.93, 87)
            np.testing.assert_allclose(cal.transform(probes), clipped.transform(probes), atol=1e-3)
            moved = int(((scores < 0.07) | (scores > 0.93)).sum())
            assert f"{moved} scores are clipped to [0.07, 0.93] in log-odds" in map(str, cal.notes_)
            assert str(cal.ranking_) != "Ranking unchanged."


def test_a_clamp_that_is_none_is_refused(subtests) -> None:
    for clamp in [0.0, 0.5, -0.1, 2, np.nan, "0.1", True, 1e-310]:
        for cls in [*LOG_ODDS, AutoCalibrator]:
            with (
                subtests.test(clamp=clamp, cls=cls),
                pytest.raises(InputError, match=r"clamp must be a number between 1e-300 and 0\.5, or None"),
            ):
                cls(clamp=clamp).fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])


def test_a_clamp_without_log_odds_is_refused() -> None:
    with pytest.raises(InputError, match="clamp is for probabilities, not logit scores"):
        PlattScaling(clamp=0.1).fit([-2.0, 1.0, 3.0], [0, 1, 1], score_type="logit")
    with pytest.raises(InputError, match="leave it out with on='score'"):
        PlattScaling("score", clamp=0.1).fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])


def test_calibrate_hands_the_clamp_on() -> None:
    scores, y = world()
    assert ends_of(calibrate(scores, y, clamp=0.01, candidates=["shrunken"]).map_) == Ends.at(0.01)
    by = calibrate(scores, y, clamp=0.01, candidates=["platt"], by=np.repeat(["a", "b"], 300))
    assert ends_of(by.global_.map_) == Ends.at(0.01)
    with pytest.raises(InputError, match="clamp cannot be combined with a matrix"):
        calibrate(np.column_stack([1 - scores, 0.5 * scores, 0.5 * scores]), y, clamp=0.01)


# -------------------------------------------------------------------------------------------------- no score in between


def test_without_a_score_in_between_the_map_is_a_table_of_two_rates(subtests) -> None:
    for cls in LOG_ODDS:
        with subtests.test(cls=cls):
            scores, y = np.repeat([0.0, 1.0], [8, 10]), np.array([1] * 2 + [0] * 6 + [1] * 9 + [0])
            cal = cls().fit(scores, y)
            assert cal.map_ == StepMap([0.5], [0.25, 0.9])
            assert any("the map is a table of two rates" in str(note) for note in cal.notes_)
            assert "rate 0.25 for scores below 1/2, 0.9 for others" in str(cal)
            assert "HistogramBinning" in str(cal.certificate())
            assert "injective" not in str(cal)
            assert np.isnan(getattr(cal, "temperature_", np.nan))
            gridded = cls().fit_tally(Tally.from_arrays(scores, y, grid=Grid()))
            assert gridded.map_ == cal.map_


def test_a_rate_of_none_or_all_is_smoothed_and_a_falling_table_is_pooled(subtests) -> None:
    for cls in LOG_ODDS:
        with subtests.test(cls=cls):
            never = quiet(cls(), [0.0] * 4 + [1.0] * 2, [0] * 4 + [1] * 2)
            assert never.map_ == StepMap([0.5], [1 / 6, 3 / 4])
            falling = cls().fit([0.0] * 4 + [1.0] * 4, [1, 1, 1, 0, 0, 0, 0, 1])
            assert falling.map_ == StepMap([0.5], [0.5, 0.5])
            alone = quiet(cls(), [1.0] * 4, [1, 1, 1, 0])
            assert alone.map_ == StepMap([0.5], [0.75, 0.75])


def test_a_slope_of_any_sign_may_have_a_falling_table() -> None:
    cal = PlattScaling(increasing=False).fit([0.0] * 4 + [1.0] * 4, [1, 1, 1, 0, 0, 0, 0, 1])
    assert cal.map_ == StepMap([0.5], [0.75, 0.25])


def test_calibrate_compares_a_table_where_no_score_lies_in_between(subtests) -> None:
    for candidates in [None, ["platt"], ["blend"]]:
        with subtests.test(candidates=candidates):
            rng = np.random.default_rng(2)
            scores = np.repeat([0.0, 1.0], [300, 200])
            y = (rng.random(500) < 0.2 + 0.5 * scores).astype(int)
            cal = calibrate(scores, y, candidates=candidates)
            rates = [y[scores == 0].mean(), y[scores == 1].mean()]
            np.testing.assert_allclose(cal.transform([0.0, 1.0]), rates, rtol=1e-12)
            assert any("the model's 0 and 1 count as 2.328e-10 and 1 - 2.33e-10" in str(note) for note in cal.notes_)
            assert cal.status_ == "calibrated"
            sure = quiet(AutoCalibrator(), scores, scores.astype(int))
            assert sure.choice_ == "identity"


def test_bins_after_a_table_are_its_two_rates() -> None:
    scores, y = np.repeat([0.0, 1.0], [8, 10]), np.array([1] * 2 + [0] * 6 + [1] * 9 + [0])
    cal = ScalingBinning(4).fit(scores, y)
    np.testing.assert_allclose(cal.transform([0.0, 1.0]), [0.25, 0.9])


# ------------------------------------------------------------------------------------------------ folds, losses, choice


def test_the_model_is_judged_as_all_maps_read_it() -> None:
    """In every fold exact ones are read as in all rows, also where the fold lacks the score next to 1."""
    rng = np.random.default_rng(4)
    scores = np.append(rng.uniform(0.1, 0.9, 300).round(2), [0.96, 1.0, 1.0, 1.0])
    y = np.append((rng.random(300) < scores[:300]).astype(int), [1, 1, 1, 0])
    ends = Ends(CLAMP, 0.98)
    assert Ends.of(scores) == (CLAMP, pytest.approx(0.98))
    cal = AutoCalibrator(["platt"]).fit(scores, y)
    read = np.clip(scores, *ends)
    loss = -np.where(y == 1, np.log(read), np.log1p(-read))
    assert cal.before_.value == pytest.approx(loss.mean(), rel=1e-12)
    (note,) = end_notes(Tally.from_arrays(scores, y))
    assert note.values["ones"] == 3
    assert note in cal.before_.notes
    assert note in cal.after_.notes
    assert note in cal.change_.notes
    assert f"Note: {note}." in str(cal.comparison_)
    assert note.as_dict() in cal.comparison_.to_dict()["notes"]


def test_a_kept_model_has_the_ends_it_was_judged_with() -> None:
    rng = np.random.default_rng(6)
    scores = np.round(20 * rng.beta(0.7, 0.7, 4000)) / 20
    y = (rng.random(4000) < np.clip(scores, 0.025, 0.975)).astype(int)
    cal = AutoCalibrator().fit(scores, y)
    assert cal.status_ == "kept"
    np.testing.assert_allclose(cal.transform([0.0, 0.05, 0.5, 0.95, 1.0]), [0.025, 0.05, 0.5, 0.95, 0.975], rtol=1e-12)


def test_scores_that_pass_through_do_so_but_for_certain_ones() -> None:
    cal = quiet(AutoCalibrator(), [0.2, 0.5, 0.9, 1.0], [0, 0, 1, 1])
    assert cal.status_ == "uncalibrated"
    assert "the scores are returned unchanged (except exact 0 and 1)" in str(cal)
    np.testing.assert_allclose(cal.transform([0.2, 0.9, 1.0]), [0.2, 0.9, 0.95], rtol=1e-12)


@pytest.mark.parametrize("sides", [{"groups": np.arange(600) % 60}, {"time": np.arange(600)}])
def test_folds_of_rows_have_the_ends_of_all(sides: dict[str, np.ndarray]) -> None:
    scores, y = world()
    scores[:400] = np.clip(scores[:400], 0.2, 0.8)
    cal = AutoCalibrator(["platt"]).fit(scores, y, **sides)
    assert ends_of(cal.map_) == Ends.of(scores)


def test_crossfit_reads_a_lone_certain_score_from_all_rows() -> None:
    """The fold that maps the only 1.0 has seen none: clipped at 2^-32 it would get the image of log-odds of 22."""
    scores, y = world(400)
    scores = np.append(np.clip(scores, 0.05, 0.9), 1.0)
    y = np.append(y, 1)
    for calibrator in (PlattScaling(), AutoCalibrator(["platt"])):
        lone = crossfit(calibrator, scores, y)[-1]
        near = calibrator.fit(scores, y).transform([1.0])[0]
        assert lone == pytest.approx(near, abs=0.02)


def test_log_loss_says_that_it_takes_exact_scores_at_their_word() -> None:
    found = log_loss([0.0, 1.0, 0.5], [0, 1, 1])
    (note,) = found.notes
    assert (note.code, note.values["rows"]) == ("scores-of-0-or-1", 2)


def test_segments_read_certain_scores_as_the_map_of_all_does() -> None:
    scores, y = world(4000, seed=1)
    by = np.random.default_rng(0).choice(["a", "b"], 4000)
    y = np.where(by == "b", (np.random.default_rng(1).random(4000) < 0.3 * scores).astype(int), y)
    cal = SegmentCalibrator(PlattScaling()).fit(scores, y, by)
    note = end_notes(Tally.from_arrays(scores, y))[0]
    assert note in cal.notes_
    assert note in cal.before_.notes
    first, *following = cal.map_.maps
    assert ends_of(first) == Ends.of(scores)
    assert {Ends(part.low, part.high) for each in following for part in each.maps} == {OUTPUT_ENDS}


def test_a_stage_after_certain_outputs_reads_them_once() -> None:
    """Plain means of 0 and 1 are not log-odds: a stage in between reads them, and what follows moves nothing."""
    from calibrant.calibrators.binary.isotonic import IsotonicCalibrator

    scores, y = world(2000, seed=2)
    y[scores == 0.0], y[scores == 1.0] = 0, 1
    by = np.random.default_rng(0).choice(["a", "b"], 2000)
    y = np.where((by == "b") & (scores > 0.3) & (scores < 1.0), 0, y)
    cal = SegmentCalibrator(IsotonicCalibrator(step=True, shrink_ends=False)).fit(scores, y, by)
    plain = cal.global_.transform(scores)
    assert plain.min() == 0.0
    inside = cal.map_.maps[1]
    assert (inside.slope, inside.intercept) == (1.0, 0.0)
    assert ends_of(inside) == Ends.of(plain)
    out = cal.transform(scores, by)
    assert ((out > 0.0) & (out < 1.0)).all()


# ----------------------------------------------------------------------------------------------------- maps and exports


def fitted_maps() -> dict[str, BinaryCalibrator]:
    scores, y = world()
    limited = PlattScaling(limits=True).fit(scores, y)
    return {cls.__name__: cls().fit(scores, y) for cls in LOG_ODDS} | {"limited": limited}


PROBES = np.array([0.0, 1e-300, 1e-20, 0.01, 0.024, 0.025, 0.05, 0.3, 0.95, 0.975, 0.98, 1 - 1e-9, BELOW_ONE, 1.0])


def test_ends_survive_documents_and_run_in_sql_and_onnx(tmp_path: Any, subtests) -> None:
    duckdb, onnxruntime = pytest.importorskip("duckdb"), pytest.importorskip("onnxruntime")
    for name, cal in fitted_maps().items():
        with subtests.test(name):
            cal.save(tmp_path / "map.json")
            assert load(tmp_path / "map.json").map == cal.map_
            expected = cal.transform(PROBES)
            rows = ", ".join(f"({p!r}::DOUBLE)" for p in PROBES.tolist())
            found = duckdb.sql(f"SELECT {cal.to_sql('p')} FROM (VALUES {rows}) AS t(p)").fetchnumpy()
            np.testing.assert_allclose(next(iter(found.values())), expected, rtol=1e-12)
            with sqlite3.connect(":memory:") as connection:
                connection.execute("CREATE TABLE t (p REAL)")
                connection.executemany("INSERT INTO t VALUES (?)", [(p,) for p in PROBES.tolist()])
                found_rows = connection.execute(f"SELECT {cal.to_sql('p', 'sqlite')} FROM t").fetchall()
            np.testing.assert_allclose(np.array(found_rows)[:, 0], expected, rtol=1e-12)
            for dtype in ("float64", "float32"):
                session = onnxruntime.InferenceSession(
                    cal.to_onnx(dtype).SerializeToString(), providers=["CPUExecutionProvider"]
                )
                given_scores = PROBES.astype(dtype)
                (out,) = session.run(["calibrated"], {"score": given_scores})
                np.testing.assert_allclose(out, cal.transform(given_scores), rtol=1e-12 if dtype == "float64" else 1e-6)
                assert out[0] == out[3]
                assert out[-1] == out[-4]


def test_old_documents_with_one_clamp_are_refused() -> None:
    text = Calibration(LogitAffineMap(0.8, -0.1)).to_json()
    assert '"low"' in text
    assert '"high"' in text
    old = text.replace('"low"', '"clamp"')
    with pytest.raises(ValueError, match="unknown or missing fields"):
        Calibration.from_json(old)


def test_forecasters_freeze_with_their_clamp_at_both_ends() -> None:
    for made, cls in ((OnlinePlatt(clamp=0.01), LogitAffineMap), (OnlineBeta(clamp=0.01), BetaMap)):
        frozen = made.learn_many([0.2, 0.8, 1.0], [0, 1, 1]).freeze()
        assert isinstance(frozen, cls)
        assert ends_of(frozen) == (0.01, 0.99)


def test_a_shift_reads_certain_scores_from_the_others() -> None:
    moved = match_mean(IdentityMap(), [0.0, 0.02, 0.5, 0.9, 1.0], mean=0.3)
    assert ends_of(moved.map) == Ends(0.01, 0.95)
    assert moved.transform([0.0, 0.02, 0.5, 0.9, 1.0]).mean() == pytest.approx(0.3, abs=1e-12)


def test_log_odds_of_the_ends() -> None:
    np.testing.assert_allclose(logit(np.array([0.0, 0.5, 1.0]), Ends(0.2, 0.8)), [-np.log(4), 0.0, np.log(4)])


# ------------------------------------------------------------------------------------------------------ several classes


def class_votes(n: int = 900) -> tuple[np.ndarray, np.ndarray]:
    """Shares of 20 votes for three classes, many of them exactly 0."""
    rng = np.random.default_rng(11)
    p = rng.dirichlet([0.6, 0.6, 0.6], n)
    y = np.array([rng.choice(3, p=row) for row in p])
    return np.array([rng.multinomial(20, row**1.3 / (row**1.3).sum()) for row in p]) / 20, y


def test_zeros_of_a_matrix_are_read_as_half_the_smallest_other_probability(subtests) -> None:
    """Read as 2^-32 they made a temperature of 6.1 where half of 0.05 makes it 1.3."""
    for cls in [TemperatureScaling, VectorScaling, MatrixScaling]:
        with subtests.test(cls=cls):
            p, y = class_votes()
            zeros = int((p == 0.0).sum())
            assert (zeros > 100, p[p > 0].min()) == (True, 0.05)
            cal = cls().fit(p, y)
            assert cal.map_.clamp == 0.025
            assert f"{zeros:,} probabilities below 0.025 were raised to it before the logarithm" in map(str, cal.notes_)
            assert cls(clamp=0.025).fit(p, y).map_ == cal.map_
            assert cls(clamp=CLAMP).fit(p, y).temperature_ > 4.0 * cal.temperature_
            rest = np.where(p == 0.0, 2.0**-54, p)  # as 1 - 0.1 - 0.7 - 0.2 leaves it
            assert cls().fit(rest, y).map_.clamp == 0.025
            inside = np.clip(p, 0.025, None)
            inside /= inside.sum(axis=1, keepdims=True)
            assert cls().fit(inside, y).map_.clamp == CLAMP
            hard = np.eye(3)[p.argmax(axis=1)]
            assert cls().fit(hard, y).map_.clamp == CLAMP


def test_a_kept_model_of_classes_reads_zeros_by_the_same_rule() -> None:
    rng = np.random.default_rng(12)
    p = rng.dirichlet([1.0, 1.0, 1.0], 40)
    p[0] = [0.0, 0.5, 0.5]
    y = rng.integers(0, 3, 40)
    y[0] = 0
    cal = quiet(MulticlassAutoCalibrator(), p, y)
    least = float(p[p > 0.0].min())
    assert cal.choice_ == "identity"
    assert cal.map_.clamp == least / 2
    assert any(f"0 is replaced by {least / 2:.4g}" in str(note) for note in cal.notes_)
    assert f"1 probability below {least / 2:.4g} was raised to it before the logarithm" in map(str, cal.notes_)
