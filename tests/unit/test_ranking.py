"""What maps do to the order of the scores, and what a calibrator says about few rows."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from tests import worlds

import calibrant
from calibrant.fits.ranking import Ranking
from calibrant.maps import BetaMap, ComposeMap, LogitAffineMap, PiecewiseLinearMap, StepMap
from calibrant.metrics import auc
from calibrant.numerics import Grid
from calibrant.selection.candidates import CANDIDATES
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")


def world(n: int = 3000, seed: int = 0) -> worlds.Rows:
    return worlds.calibrated(n, seed, shape=(2, 5))


def test_a_map_says_what_it_does_to_four_rows(subtests):
    for fitted, said in [
        (LogitAffineMap(0.5, 1.0), "Ranking unchanged."),
        (BetaMap(0.5, 2.0, 1.0), "Ranking unchanged."),
        (PiecewiseLinearMap([0.0, 0.5, 1.0], [0.1, 0.2, 0.9]), "Ranking unchanged."),
        # pairs of an event and another row: (0.2, 0.1), (0.2, 0.3), (0.4, 0.1), (0.4, 0.3); three of four in order
        (StepMap([0.25], [0.1, 0.6]), "Ties lower the AUC by 0.2500 (0.7500 -> 0.5000)."),
        (
            StepMap([0.15, 0.35], [0.1, 0.4, 0.8]),
            "Ties raise the AUC on the fitted rows by 0.1250 (0.7500 -> 0.8750); expect no gain on other rows.",
        ),
        (StepMap([0.35], [0.1, 0.6]), "Ties do not change the AUC (0.7500 -> 0.7500)."),
        (
            LogitAffineMap(-1.0, 0.0),
            "Ranking reversed: higher scores get lower probabilities (AUC 0.7500 -> 0.2500).",
        ),
        (
            StepMap([0.25], [0.6, 0.1]),
            "Ranking reversed: higher scores get lower probabilities (AUC 0.7500 -> 0.5000).",
        ),
        # 0.1 -> 0.1, 0.2 -> 0.6, 0.3 and 0.4 -> 0.3: 0.2 wins two pairs, 0.4 one and a half
        (
            StepMap([0.15, 0.25], [0.1, 0.6, 0.3]),
            "Ranking changed: some higher scores get lower probabilities (AUC 0.7500 -> 0.8750 on the fitted rows).",
        ),
        (LogitAffineMap(0.0, 1.0), "Ranking lost: all scores get the same probability (AUC 0.7500 -> 0.5000)."),
        (PiecewiseLinearMap([0.2, 1.0], [0.2, 0.9]), "Ties lower the AUC by 0.1250 (0.7500 -> 0.6250)."),
    ]:
        with subtests.test(fitted=fitted, said=said):
            assert str(Ranking.of(fitted, Tally.from_arrays([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1]))) == said


def test_areas_are_those_of_the_metric(subtests):
    for grid in [None, Grid()]:
        for weighted in [False, True]:
            with subtests.test(grid=grid, weighted=weighted):
                scores, y = world(50_000)
                scores = scores.round(4)
                weights = np.random.default_rng(1).random(len(y)) if weighted else None
                tally = Tally.from_arrays(scores, y, weights, grid=grid)
                fitted = calibrant.HistogramBinning(7).fit_tally(tally).map_
                found = Ranking.of(fitted, tally)
                assert found.before == pytest.approx(auc(tally).value, rel=1e-12)
                assert found.after == pytest.approx(
                    auc(fitted.apply(scores), y, weights).value, rel=1e-3 if grid else 1e-12
                )


def test_the_same_function_written_otherwise_gives_the_same_ranking():
    """Steps are looked up by their knots, and a composition cell by cell."""
    tally = Tally.from_arrays(*world(100_000))
    steps = StepMap([0.1, 0.2, 0.4], [0.1, 0.3, 0.2, 0.7])
    composed = ComposeMap((steps, PiecewiseLinearMap([0.0, 1.0], [0.0, 1.0])))
    one, other = Ranking.of(steps, tally), Ranking.of(composed, tally)
    assert one.order == other.order == "mixed"
    assert (one.before, one.after) == pytest.approx((other.before, other.after), rel=1e-12)


def test_one_class_has_no_area():
    found = Ranking.of(StepMap([0.5], [0.1, 0.2]), Tally.from_arrays([0.1, 0.2, 0.8], [0, 0, 0]))
    assert str(found) == "Some different scores get the same probability (one class, so no AUC)."
    assert json.loads(json.dumps(found.to_dict())) == {"order": "ties", "before": None, "after": None}
    assert math.isnan(found.after)


def test_bins_without_mean_scores_are_ranked_by_where_they_begin():
    tally = Tally.from_table([10, 20, 30], [1, 5, 20], edges=[0.2, 0.6])
    cal = calibrant.HistogramBinning().fit_tally(tally)
    assert str(cal.ranking_) == "Ranking unchanged."


def test_every_calibrator_prints_its_ranking():
    scores, y = world()
    for name in ("PlattScaling", "IsotonicCalibrator", "HistogramBinning", "SplineCalibrator", "AutoCalibrator"):
        cal = getattr(calibrant.calibrators, name)().fit(scores, y)
        assert f"\n  {cal.ranking_}\n" in str(cal)
    assert calibrant.IsotonicCalibrator().fit(scores, y).ranking_.order == "unchanged"
    falling = calibrant.PlattScaling(increasing=False).fit(1 - scores, y)
    assert falling.ranking_.order == "reversed"


# --------------------------------------------------------------------------------------------------------- few rows


def test_a_rich_map_on_few_rows_says_so(subtests):
    for name, rung in [
        ("IsotonicCalibrator", "isotonic"),
        ("SplineCalibrator", "spline"),
        ("BayesianBinning", "binning"),
        ("VennAbers", "isotonic"),
    ]:
        with subtests.test(name=name, rung=rung):
            least = CANDIDATES[rung].least
            few, y = world(int(least))  # about 29 % events
            cal = getattr(calibrant.calibrators, name)().fit(few, y)
            said = [str(note) for note in cal.notes_ if note.code == "few-for-rich-map"]
            assert len(said) == 1
            assert said[0].startswith(f"only {y.sum():,} minority-class rows: this method is likely to overfit")
            assert said[0].endswith(f"with at least {least:,.6g}")
            assert f"Note: {said[0]}" in str(cal)
            many = getattr(calibrant.calibrators, name)().fit(*world(int(5 * least)))
            assert "few-for-rich-map" not in {note.code for note in many.notes_}


def test_simple_maps_are_for_few_rows():
    cal = calibrant.PlattScaling().fit(*world(40))
    assert "few-for-rich-map" not in {note.code for note in cal.notes_}


# ------------------------------------------------------------------------------------------------------------ states


def test_a_choice_knows_its_state():
    scores, y = world(1500, 3)
    tenths = np.repeat(np.arange(1, 10) / 10, 400)
    as_it_should = np.tile(np.arange(400), 9) < np.rint(400 * tenths)  # of 400 rows at s exactly 400 s are events
    kept = calibrant.calibrate(tenths, as_it_should)
    assert kept.status_ == kept.calibration_.provenance.status == "kept"
    off = calibrant.calibrate(scores, np.random.default_rng(5).random(1500) < scores / (scores + 3 * (1 - scores)))
    assert off.status_ == "calibrated"
    few = calibrant.calibrate(scores[:6], [0, 1, 0, 0, 1, 0])
    assert few.status_ == "uncalibrated"
    assert str(few).startswith(
        "Uncalibrated: 6 rows with 2 of the minority class are too few to compare candidates, so the scores are "
        "returned unchanged.\n"
    )
    assert "Nested cross-validation" not in str(few)
    assert few.transform(scores) == pytest.approx(scores, rel=1e-12)
    assert calibrant.PlattScaling().fit(scores, y).status_ == "calibrated"


def test_what_was_not_tried_is_told_with_the_rows_it_takes():
    rich = "binning, scaling-binning (needs at least 1,000 minority-class rows).\n"
    kept = calibrant.calibrate(*world(400))
    assert kept.choice_ == "identity"
    assert f"\n  Not tried: isotonic, venn-abers, {rich}" in str(kept)
    few = str(calibrant.calibrate(*world(60), random_state=3))
    waiting = "temperature, platt, beta (needs at least 50), "
    assert f"Not tried: {waiting}" in few
    assert few.count(rich) == 1
    assert "Not tried" not in str(calibrant.calibrate(*world(400), candidates=["platt"]))


def test_a_guarantee_is_a_choice():
    scores, y = world(6_000)
    assert calibrant.calibrate(scores, y, guarantee=(0.1, 0.1)).status_ == "calibrated"


def test_rebalanced_training_gets_the_recipe_that_would_explain_it():
    """True rates of 0.29 on average; scores as a model would give them that was trained with odds times 50."""
    scores, y = world(4000)
    (hint,) = calibrant.check(scores / (scores + 0.02 * (1 - scores)), y).hints
    assert hint.code == "mean-above-base-rate"
    rate = y.mean()
    train = 50 * rate / (50 * rate + 1 - rate)  # odds of 50 times the true ones: 0.95
    assert hint.values["true_rate"] == pytest.approx(rate)
    assert hint.values["train_rate"] == pytest.approx(train, abs=0.01)


def test_a_slope_that_no_recipe_explains_leaves_the_training_rate_open():
    scores, _ = world(4000)
    y = np.random.default_rng(2).random(4000) < 0.2 * scores
    hint = calibrant.check(scores, y).hints[0]
    assert (hint.code, hint.values["train_rate"]) == ("mean-above-base-rate", None)
    low = calibrant.check(scores**4, np.random.default_rng(2).random(4000) < scores).hints[0]
    assert low.code == "mean-below-base-rate"
