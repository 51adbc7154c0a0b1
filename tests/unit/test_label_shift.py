"""A base rate that moved, from scores without labels."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pytest

from calibrant import CalibrantWarning, InputError, PlattScaling, Tally, load
from calibrant.engine import Grid
from calibrant.maps import ComposeMap, IdentityMap, LogitAffineMap
from calibrant.shift import LabelShift, estimate_label_shift
from calibrant.shift.mixture import fit_mixture

KEEP = IdentityMap()


def codes(found: LabelShift) -> list[str]:
    return [note.code for note in found.notes]


def world(rng: np.random.Generator, n: int, rate: float, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Scores that are calibrated at a rate of 0.3, and labels at ``rate``; ``shift`` moves everybody."""
    y = rng.random(n) < rate
    x = rng.normal(1.5 * y, 1.0) + shift
    return 1.0 / (1.0 + np.exp(-(1.5 * x - 1.125 + math.log(3 / 7)))), y


def test_two_scores_by_hand() -> None:
    # Old rows: 10 at 0.2 and 10 at 0.8, so the old rate is 0.5. New rows: 3 at 0.2 and 1 at 0.8.
    # Densities relative to the old ones: at 0.8 0.4 + 1.2 r, at 0.2 1.6 - 1.2 r; the likelihood is highest where
    # 1.2 / (0.4 + 1.2 r) = 3 * 1.2 / (1.6 - 1.2 r): 1.6 - 1.2 r = 1.2 + 3.6 r, so r = 1/12.
    source = Tally.from_arrays([0.2] * 10 + [0.8] * 10, [1] * 2 + [0] * 16 + [1] * 2)
    found = estimate_label_shift(KEEP, [0.2, 0.2, 0.2, 0.8], source)
    assert found.source_rate == pytest.approx(0.5)
    assert found.rate == pytest.approx(1 / 12, abs=1e-12)
    # Curvature, mean over rows: at r = 1/12 densities are 0.5 and 1.5: 1.44 * (0.25 / 0.25 + 0.75 / 2.25) = 1.92.
    # Derivative of the score in the old rate: event 3.2 or 0.8, other 0.8 or 3.2; change (11/12) other - event/12:
    # 0.8: 0.7333 - 0.2667 = 0.4667, -(4 / 0.5) - 1.2 * 0.4667 / 0.25 = -10.24; 0.2: 2.9333 - 0.0667 = 2.8667,
    # -(4 / 1.5) + 1.2 * 2.8667 / 2.25 = -1.1378; mean 0.25 * -10.24 + 0.75 * -1.1378 = -3.41333.
    # Var of the old mean: 0.09 / 20. se^2 = 1 / (4 * 1.92) + (3.41333 / 1.92)^2 * 0.0045 = 0.130208 + 0.014222.
    assert found.se == pytest.approx(math.sqrt(0.130208333 + 0.014222222), rel=1e-6)


def test_the_rate_is_the_fixed_point_of_saerens_em() -> None:
    rng = np.random.default_rng(1)
    old, y = world(rng, 3_000, 0.3)
    new, _ = world(rng, 1_000, 0.1)
    found = estimate_label_shift(KEEP, new, old, y)
    rate, before = 0.5, old.mean()
    for _ in range(2_000):  # Saerens et al. 2002
        event, other = new * rate / before, (1.0 - new) * (1.0 - rate) / (1.0 - before)
        rate = float((event / (event + other)).mean())
    assert found.rate == pytest.approx(rate, abs=1e-10)
    # and the corrected map is the E-step at the fixed point, so its mean on the new rows is the rate
    assert found.calibration.transform(new).mean() == pytest.approx(rate, abs=1e-10)


def test_a_perfect_score_counts_events() -> None:
    y = np.arange(100) < 20
    scores = y.astype(float)
    with pytest.warns(CalibrantWarning, match="leak"):
        source = Tally.from_arrays(scores, y)
    found = estimate_label_shift(KEEP, [1.0] * 3 + [0.0] * 7, source)
    assert found.rate == pytest.approx(0.3, abs=1e-12)


def test_no_shift_leaves_the_map_nearly_alone() -> None:
    old, y = world(np.random.default_rng(2), 5_000, 0.3)
    found = estimate_label_shift(KEEP, old, old, y)
    assert found.rate == pytest.approx(old.mean(), abs=1e-12)
    assert isinstance(found.calibration.map, LogitAffineMap)
    assert found.calibration.map.intercept == pytest.approx(0.0, abs=1e-9)


def test_order_merging_weights_and_grids() -> None:
    rng = np.random.default_rng(3)
    old, y = world(rng, 2_000, 0.3)
    new, _ = world(rng, 1_000, 0.1)
    plain = estimate_label_shift(KEEP, new, old, y)
    assert estimate_label_shift(KEEP, new[::-1], old[::-1], y[::-1]).to_dict() == plain.to_dict()
    halves = Tally.from_arrays(old[:700], y[:700]) + Tally.from_arrays(old[700:], y[700:])
    assert estimate_label_shift(KEEP, new, halves).to_dict() == plain.to_dict()
    weighted = estimate_label_shift(
        KEEP, np.append(new, 0.9), old, y, sample_weight=np.append(np.full(1_000, 2.0), 0.0)
    )
    assert weighted.rate == pytest.approx(plain.rate, rel=1e-12)
    assert weighted.se == pytest.approx(plain.se, rel=1e-9), "equal weights are no more rows"
    huge = estimate_label_shift(
        KEEP, new, old, y, sample_weight=np.full(1_000, 1e90), source_weight=np.full(2_000, 1e-90)
    )
    assert huge.rate == pytest.approx(plain.rate, rel=1e-12)
    assert huge.fit is not None
    assert plain.fit is not None
    assert huge.fit.p_value == pytest.approx(plain.fit.p_value, rel=1e-6)
    nobody = np.zeros(1_000, dtype=int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        gridded = estimate_label_shift(
            KEEP, Tally.from_arrays(new, nobody, grid=Grid()), Tally.from_arrays(old, y, grid=Grid())
        )
    assert gridded.rate == pytest.approx(plain.rate, rel=1e-5)
    assert gridded.fit is not None
    assert gridded.fit.p_value == pytest.approx(plain.fit.p_value, abs=0.1)


def test_a_table_of_bins_serves_as_source() -> None:
    source = Tally.from_table([500, 300, 200], [25, 90, 140], edges=[0.15, 0.5], scores=[0.05, 0.3, 0.7])
    # others 64 / 28 / 8 percent, events 10 / 35 / 55 percent; 15 percent of events mix to 56 / 29 / 15
    new = np.repeat([0.05, 0.3, 0.7], [560, 290, 150])
    found = estimate_label_shift(KEEP, new, source)
    assert found.rate == pytest.approx(0.15, abs=0.01)
    assert found.fit is not None
    assert found.fit.df == 1


def test_a_fitted_calibrator_is_moved_and_saved(tmp_path) -> None:
    rng = np.random.default_rng(4)
    old, y = world(rng, 4_000, 0.3)
    new, _ = world(rng, 2_000, 0.1)
    fitted = PlattScaling().fit(old**2, y)
    found = estimate_label_shift(fitted, new**2, old**2, y)
    assert abs(found.rate - 0.1) < 4 * found.se
    assert isinstance(found.calibration.map, ComposeMap)
    assert found.calibration.provenance is not None
    assert "moved by label shift" in found.calibration.provenance.method
    assert not found.calibration.certificate
    found.calibration.save(tmp_path / "moved.json")
    assert load(tmp_path / "moved.json") == found.calibration


def test_what_the_scores_do_not_tell_is_not_made_up() -> None:
    source = Tally.from_arrays([0.5] * 10, [0, 1] * 5)
    found = estimate_label_shift(KEEP, [0.5, 0.5], source)
    assert math.isnan(found.rate)
    assert math.isnan(found.se)
    assert found.calibration.map == KEEP
    assert codes(found) == ["no-discrimination", "assumption-not-tested"]
    assert "The probabilities do not discriminate between rows: the new rate cannot be estimated." in str(found)
    assert found.to_dict()["rate"] is None
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize(("score", "end"), [(0.01, 0.0), (0.99, 1.0)])
def test_one_row_goes_to_an_end_and_the_map_stays_finite(score: float, end: float) -> None:
    old, y = world(np.random.default_rng(5), 500, 0.3)
    found = estimate_label_shift(KEEP, [score], old, y)
    assert found.rate == end
    assert math.isnan(found.se)
    p = found.calibration.transform([0.0, 0.5, 1.0])
    assert ((p > 0.0) & (p < 1.0)).all()
    assert "rate-at-end" in codes(found)
    assert f"The likelihood is highest at a rate of exactly {end:.0f}, where" in str(found)


def test_old_rows_of_one_class_leave_the_assumption_untested() -> None:
    with pytest.warns(CalibrantWarning, match="one class"):
        found = estimate_label_shift(KEEP, [0.1, 0.5, 0.9], [0.1, 0.4, 0.6], [0, 0, 0])
    assert found.fit is None
    assert "assumption-not-tested" in codes(found)
    assert "The assumption is not tested: too few old rows of one class." in str(found)


def test_covariate_shift_is_found_and_said() -> None:
    rng = np.random.default_rng(6)
    old, y = world(rng, 5_000, 0.3)
    new = world(rng, 3_000, 0.3, shift=1.5)[0] ** 0.3
    found = estimate_label_shift(KEEP, new, old, y)
    assert found.fit is not None
    assert not found.fit.holds
    assert "do not use this correction" in str(found)
    good = estimate_label_shift(KEEP, world(rng, 3_000, 0.1)[0], old, y)
    assert good.fit is not None
    assert good.fit.holds
    for text in (str(found), str(good)):
        assert "Not valid under covariate shift" in text


def test_a_map_that_is_off_on_the_old_rows_is_found_by_bins() -> None:
    rng = np.random.default_rng(7)
    old, y = world(rng, 5_000, 0.3)
    new, _ = world(rng, 5_000, 0.1)
    off = estimate_label_shift(KEEP, new**3, old**3, y)
    assert codes(off) == ["bins-differ"]
    assert f"An estimate from bins, without the map, is {off.notes[0].values['rate']:.4f}" in str(off)
    assert codes(estimate_label_shift(KEEP, new, old, y)) == []


def test_the_mix_is_found_by_bins_alone() -> None:
    # Old events all high, old others all low, in three bins: 40 / 40 / 20 and 20 / 40 / 40 percent by class.
    source = Tally.from_table([60, 80, 60], [20, 40, 40], edges=[0.3, 0.6], scores=[0.2, 0.5, 0.8])
    new = Tally.from_table([350, 400, 250], [0, 0, 0], edges=[0.3, 0.6], scores=[0.2, 0.5, 0.8])
    fit = fit_mixture(source, new, 0.5)
    assert fit is not None
    # shares 0.35, 0.4, 0.25 = r (0.2, 0.4, 0.4) + (1 - r) (0.4, 0.4, 0.2): r = 1/4 exactly, so nothing is left over
    assert fit.rate == pytest.approx(0.25, abs=1e-9)
    assert fit.statistic == pytest.approx(0.0, abs=1e-9)
    assert fit.p_value == pytest.approx(1.0)
    assert fit.df == 1


def test_wrong_input_is_refused() -> None:
    source = Tally.from_arrays([0.2, 0.8], [0, 1])
    with pytest.raises(InputError, match="y is missing"):
        estimate_label_shift(KEEP, [0.5], [0.2, 0.8])
    with pytest.raises(InputError, match="without y"):
        estimate_label_shift(KEEP, [0.5], source, [0, 1])
    with pytest.raises(InputError, match="empty"):
        estimate_label_shift(KEEP, [], source)
    with pytest.raises(InputError, match="probabilities"):
        estimate_label_shift(KEEP, [0.5], [2.0, 3.0], [0, 1])
