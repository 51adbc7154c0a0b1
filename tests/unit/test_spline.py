"""The monotone spline: its basis, the bounded fit, the choice of the penalty, the table, and edges."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests import worlds

from calibrant.calibrators.binary.scaling import PlattScaling
from calibrant.calibrators.binary.spline import SplineCalibrator
from calibrant.fits import curves as tables
from calibrant.fits import spline as splines
from calibrant.fits.spline import fit_spline
from calibrant.maps import ComposeMap, LogitAffineMap, PiecewiseLinearMap
from calibrant.messages import InputError
from calibrant.numerics import OUTPUT_ENDS, Ends, Grid, expit, log_loss, logit
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")

TRUTHS = {
    "straight": lambda s: expit(0.6 * logit(s) - 0.5),
    "cube": lambda s: s**3,
    "bump": lambda s: expit(logit(s) + 1.2 * np.exp(-0.5 * ((logit(s) + 0.5) / 0.6) ** 2)),
    "step": lambda s: 0.05 + 0.9 * (s > 0.5),
    "steep": lambda s: expit(8 * logit(s)),
    "flat": lambda s: np.full(len(s), 0.3),
    "falling": lambda s: 1 - s,
}


def world(truth: str = "bump", n: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores with normal log-odds and labels that follow one of the truths."""
    return worlds.following(TRUTHS[truth], n, seed, log_odds=(-0.3, 1.6))


# ---------------------------------------------------------------------------------------------------------------------
# By hand
# ---------------------------------------------------------------------------------------------------------------------


def test_the_basis_integrates_the_slope():
    """Slopes 1 at knot 0 and 3 at knot 1: f' = 1 + 2x between, so f = x + x^2 there, x below, 2 + 3 (x - 1) above."""
    basis = splines._basis(np.array([-1.0, 0.0, 0.5, 1.0, 2.0]), np.array([0.0, 1.0]))
    np.testing.assert_allclose(np.array([10.0, 1.0, 3.0]) @ basis, [9.0, 10.0, 10.75, 12.0, 15.0], rtol=1e-15)


def test_the_roughness_is_the_squared_second_derivative():
    """Slopes 1, 3, 2 at knots 0, 1, 3: f'' is 2 over a width of 1 and -1/2 over a width of 2, in all 4 + 1/2."""
    beta = np.array([7.0, 1.0, 3.0, 2.0])
    assert beta @ splines._roughness(np.array([0.0, 1.0, 3.0])) @ beta == pytest.approx(4.5, rel=1e-14)


def test_two_scores_are_fitted_exactly_by_a_line():
    """1 event in 4 at 0.2 and 3 in 4 at 0.6: two parameters, two rates."""
    tally = Tally.from_table([4, 4], [1, 3], edges=[0.5], scores=[0.2, 0.6])
    fit = fit_spline(tally)
    np.testing.assert_allclose(fit.map.apply(np.array([0.2, 0.6])), [0.25, 0.75], rtol=1e-9)
    assert (fit.penalty, fit.freedom) == (np.inf, 2.0)


def test_without_a_penalty_to_speak_of_rising_rates_are_reproduced():
    """Three rising rates and knots between them: the curve can pass through all three."""
    tally = Tally.from_table([1000] * 3, [100, 120, 700], edges=[0.35, 0.65], scores=[0.2, 0.5, 0.8])
    fitted = fit_spline(tally, penalty=1e-6).map
    np.testing.assert_allclose(fitted.apply(np.array([0.2, 0.5, 0.8])), [0.1, 0.12, 0.7], atol=2e-4)


# ---------------------------------------------------------------------------------------------------------------------
# The fit
# ---------------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(2, 9))
def test_the_bounded_minimum_is_the_minimum(seed, size):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size + 3, size))
    matrix, gradient = root.T @ root + 0.1 * np.eye(size), rng.normal(size=size) * 5
    start = np.append(rng.normal(), np.maximum(rng.normal(size=size - 1), 0.0))
    found = splines._bounded_minimum(matrix, gradient, start)
    slope = gradient + matrix @ (found - start)
    assert (found[1:] >= 0.0).all()
    assert abs(slope[0]) < 1e-6
    assert (slope[1:] > -1e-6).all()
    assert np.abs(slope[1:] * found[1:]).max() < 1e-6


@pytest.mark.parametrize("truth", ["cube", "bump", "step", "falling"])
def test_the_fit_is_the_penalized_maximum_likelihood(truth):
    """Against a general optimizer under bounds, on the same cells and knots."""
    scores, y = world(truth, 400)
    cells = splines._Cells(np.sort(logit(scores)) / 6, np.ones(400), y[np.argsort(scores)].astype(float))
    knots = np.quantile(cells.x, np.linspace(0.05, 0.95, 7))
    basis, roughness = splines._basis(cells.x, knots), 0.02 * splines._roughness(knots)

    def objective(beta: np.ndarray) -> tuple[float, np.ndarray]:
        state = splines._state(basis, cells, roughness, beta)
        p = expit(beta @ basis)
        plain = log_loss(p, cells.n, cells.events) + beta @ roughness @ beta / 2
        assert state.loss == pytest.approx(plain, rel=1e-9)
        return state.loss, state.gradient

    ours, beta = splines._minimize(basis, cells, roughness, np.zeros(8))
    theirs = minimize(objective, np.zeros(8), jac=True, bounds=[(None, None)] + [(0, None)] * 7, tol=1e-13)
    assert ours.loss <= theirs.fun + 1e-7
    np.testing.assert_allclose(beta @ basis, theirs.x @ basis, atol=5e-3)


def test_the_mean_prediction_is_the_event_rate(subtests):
    """Neither the level nor a common slope is penalized."""
    for truth in TRUTHS:
        for n in [300, 5000]:
            with subtests.test(truth=truth, n=n):
                scores, y = world(truth, n)
                p = fit_spline(Tally.from_arrays(scores, y), penalty=2.0).map.apply(scores)
                assert p.mean() == pytest.approx(y.mean(), abs=2e-4)
                if truth in ("cube", "bump"):
                    assert np.mean(logit(scores) * (p - y)) == pytest.approx(0.0, abs=1e-3)


def test_an_infinite_penalty_is_platt():
    scores, y = world()
    assert SplineCalibrator(penalty=np.inf).fit(scores, y).map_ == PlattScaling().fit(scores, y).map_
    near = SplineCalibrator(penalty=1e9).fit(scores, y)
    np.testing.assert_allclose(near.transform(scores), PlattScaling().fit(scores, y).transform(scores), atol=2e-3)
    assert near.freedom_ == pytest.approx(2.0, abs=1e-3)


def test_more_penalty_is_less_freedom():
    tally = Tally.from_arrays(*world())
    freedoms = [fit_spline(tally, penalty=penalty).freedom for penalty in (1e-2, 1.0, 1e2, 1e4)]
    assert freedoms == sorted(freedoms, reverse=True)
    assert 2.0 < freedoms[-1] < freedoms[0] < 25


def test_a_straight_truth_gives_platt_and_a_bend_a_curve():
    lines = [SplineCalibrator().fit(*world("straight", 2000, seed)) for seed in range(20)]
    assert sum(isinstance(cal.map_, LogitAffineMap) for cal in lines) >= 8
    assert np.mean([cal.freedom_ for cal in lines]) < 3
    curves = [SplineCalibrator().fit(*world("bump", 2000, seed)) for seed in range(5)]
    assert all(isinstance(cal.map_, PiecewiseLinearMap) and cal.freedom_ > 4 for cal in curves)


def test_the_curve_comes_near_the_truth(subtests):
    for truth in ["cube", "bump", "step"]:
        with subtests.test(truth=truth):
            scores, y = world(truth, 50_000)
            probes = np.quantile(scores, np.linspace(0.02, 0.98, 49))
            probes = probes[np.abs(probes - 0.5) > 0.1] if truth == "step" else probes  # a jump is not smooth
            off = SplineCalibrator().fit(scores, y).transform(probes) - TRUTHS[truth](probes)
            assert np.abs(off).max() < 0.05
            assert np.abs(off).mean() < 0.012


def test_rare_events_have_knots_where_they_happen():
    rng = np.random.default_rng(3)
    x = rng.normal(-7, 2, 200_000)
    n = np.ones(len(x))
    cells = splines._Cells(np.sort(x), n, expit(np.sort(x)))
    line = splines._line(cells)
    assert line == pytest.approx([0.0, 1.0], abs=0.01)
    knots, _ = splines._knots(cells, line, 24)
    assert np.mean(knots > -4) > 0.25  # 7 % of the rows and most of the events
    assert np.mean(knots < -7) > 0.2


# ---------------------------------------------------------------------------------------------------------------------
# Properties
# ---------------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.integers(1, 50)), min_size=1, max_size=25))
def test_it_never_falls_and_stays_inside_whatever_the_table(rows):
    scores, y, n = (np.array(column) for column in zip(*rows, strict=True))
    tally = Tally.from_arrays(scores / 20, y.astype(int), n, weight_type="frequency")
    fitted = fit_spline(tally).map
    out = fitted.apply(np.concatenate([np.linspace(0, 1, 2001), [1e-12, 1e-6, 1 - 1e-6]]))
    assert ((out > 0) & (out < 1)).all()
    assert (np.diff(out[:2001]) >= 0).all() or isinstance(fitted, LogitAffineMap)


@pytest.mark.parametrize("n", [2000, 80_000])
def test_merging_and_repetition_give_the_same_bits_above_every_size(n):
    scores, y = world("bump", n)
    half = n // 2
    whole = fit_spline(Tally.from_arrays(scores, y))
    parts = Tally.from_arrays(scores[half:], y[half:]) + Tally.from_arrays(scores[:half], y[:half])
    assert fit_spline(parts).map == whole.map
    counts = np.random.default_rng(1).integers(0, 3, n)
    weighted = Tally.from_arrays(scores, y, counts, weight_type="frequency")
    repeated = Tally.from_arrays(np.repeat(scores, counts), np.repeat(y, counts))
    assert fit_spline(weighted).map == fit_spline(repeated).map


@pytest.mark.parametrize("kind", ["logit", "real"])
def test_log_odds_as_scores_give_the_same_curve(kind):
    scores, y = world()
    inside = expit(np.linspace(-4, 4, 200))
    on_p = SplineCalibrator().fit(scores, y).transform(inside)
    on_x = SplineCalibrator().fit(logit(scores), y, score_type=kind).transform(logit(inside))
    np.testing.assert_allclose(on_p, on_x, atol=5e-4)


def test_the_unit_of_a_real_score_does_not_matter(subtests):
    for scale, shift in [(1e-200, 0.0), (1e-3, 5.0), (1e5, -1e6), (1e200, 0.0)]:
        with subtests.test(scale=scale, shift=shift):
            scores, y = world()
            z = logit(scores)
            plain = SplineCalibrator().fit(z, y, score_type="real").transform(z)
            moved = SplineCalibrator().fit(z * scale + shift, y, score_type="real").transform(z * scale + shift)
            np.testing.assert_allclose(moved, plain, atol=2e-4)


@pytest.mark.parametrize("bits", [10, 6])
def test_a_grid_is_nearly_exact(bits):
    scores, y = world("bump", 5000)
    exact, gridded = (fit_spline(Tally.from_arrays(scores, y, grid=grid)).map for grid in (None, Grid(bits)))
    assert np.abs(exact.apply(scores) - gridded.apply(scores)).max() < 2e-3


def test_groups_stand_for_their_cells(monkeypatch):
    scores, y = world("bump", 5000)
    tally = Tally.from_arrays(scores, y)
    grouped = fit_spline(tally, penalty=1.0).map
    assert len(splines._cells(tally, splines.Targets.of(splines.Support.of(tally), splines.DEFAULT)).x) <= 400
    monkeypatch.setattr(splines, "MAX_CELLS", 10**6)
    assert np.abs(fit_spline(tally, penalty=1.0).map.apply(scores) - grouped.apply(scores)).max() < 1e-3


def test_the_table_is_the_curve(subtests, full_size):
    """Off by less than 0.001 in log-odds or 0.0001 in probability, in the range of the data."""
    every = list(product(TRUTHS, [300, 5000], ["probability", "logit", "real"]))
    quick = [(truth, n, kind) for truth, n, kind in every if kind == "probability" or truth == "bump"]
    for truth, n, kind in every if full_size else quick:
        with subtests.test(truth=truth, n=n, kind=kind):
            scores, y = world(truth, n)
            given = scores if kind == "probability" else logit(scores)
            tally = Tally.from_arrays(given, y, score_type=kind)
            table = fit_spline(tally, penalty=4.0).map
            with pytest.MonkeyPatch.context() as patch:
                for name, value in {"TABLE_ERROR": 1e-6, "OUTER_ERROR": 1e-6, "MOST_NODES": 10**6}.items():
                    patch.setattr(tables, name, value)
                finer = fit_spline(tally, penalty=4.0).map
            assert len(finer.knots) > len(table.knots) or truth == "falling", "a constant has nothing to refine"
            x = np.random.default_rng(0).uniform(logit(scores).min(), logit(scores).max(), 20_000)
            a, b = (fitted.apply(expit(x) if kind == "probability" else x) for fitted in (table, finer))
            assert len(table.knots) <= 1000
            off = np.abs(a - b) / 1e-4, np.abs(logit(a, OUTPUT_ENDS) - logit(b, OUTPUT_ENDS)) / 1e-3
            assert np.minimum(*off).max() < 1.2


# ---------------------------------------------------------------------------------------------------------------------
# Edges
# ---------------------------------------------------------------------------------------------------------------------


def test_two_rows_are_platts(subtests):
    for y in [[0, 1], [1, 0], [0, 0], [1, 1]]:
        with subtests.test(y=y):
            cal, platt = SplineCalibrator().fit([0.3, 0.6], y), PlattScaling().fit([0.3, 0.6], y)
            assert cal.map_ == platt.map_
            assert tuple(note for note in cal.notes_ if note.code != "few-for-rich-map") == platt.notes_


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_uses_soft_targets(label):
    cal = SplineCalibrator().fit(np.linspace(0.1, 0.9, 60), np.full(60, label))
    assert cal.notes_[-1].code == "soft-targets-for-one-class"
    out = cal.transform([0.0, 0.5, 1.0])
    assert ((out > 0) & (out < 1)).all()
    np.testing.assert_allclose(out, 61 / 62 if label else 1 / 62, atol=1e-3)


def test_separated_classes_use_soft_targets():
    scores = np.linspace(0.01, 0.99, 200)
    cal = SplineCalibrator().fit(scores, scores > 0.5)
    assert cal.notes_[-1].code == "soft-targets-for-separated-classes"
    out = cal.transform(scores)
    assert out[0] < 0.05
    assert out[-1] > 0.95


def test_a_falling_truth_gives_a_flat_map():
    scores, y = world("falling")
    out = SplineCalibrator().fit(scores, y).transform(scores)
    assert np.ptp(out) < 0.03
    assert out.mean() == pytest.approx(y.mean(), abs=1e-3)


def test_scores_of_zero_and_one_and_beyond_the_data():
    scores, y = world("cube", 5000)
    cal = SplineCalibrator().fit(np.concatenate([scores, np.zeros(40), np.ones(40)]), np.append(y, [0] * 40 + [1] * 40))
    ends = Ends.of(np.append(scores, [0.0, 1.0]))
    assert (cal.map_.knots[0], cal.map_.knots[-1]) == (pytest.approx(ends.low), pytest.approx(ends.high))
    out = cal.transform([0.0, 1e-300, 1e-12, ends.low, 2 * ends.low, 0.5, 1 - 2 * (1 - ends.high), ends.high, 1.0])
    assert ((out > 0) & (out < 1)).all()
    assert (np.diff(out) >= 0).all()
    assert (np.diff(out)[3:7] > 0).all()


def test_the_ends_are_straight_lines_of_the_log_odds():
    scores, y = world("bump")
    cal = SplineCalibrator().fit(scores, y)
    x = np.array([9.0, 10.0, 11.0, 12.0])
    for side in (x, -x):
        steps = np.diff(logit(cal.transform(expit(side)), OUTPUT_ENDS))
        np.testing.assert_allclose(steps, steps[0], rtol=0.02)


def test_limits_hold_the_output():
    scores, y = world("cube", 500)
    cal = SplineCalibrator(limits=True).fit(scores, y)
    assert isinstance(cal.map_, ComposeMap)
    assert cal.transform([0.0])[0] == pytest.approx(1 / 502)


def test_a_wrong_number_of_knots_is_refused(subtests):
    for n_knots in [1, 101, 2.5, None, "many"]:
        with (
            subtests.test(n_knots=n_knots),
            pytest.raises(InputError, match="n_knots must be an integer from 2 to 100"),
        ):
            SplineCalibrator(n_knots).fit(*world())


def test_a_wrong_penalty_is_refused(subtests):
    for penalty in [0.0, -1.0, np.nan]:
        with subtests.test(penalty=penalty), pytest.raises(InputError, match="penalty must be positive"):
            SplineCalibrator(penalty=penalty).fit(*world())


def test_it_says_how_bent_it_is():
    assert "effective parameters (2 would be Platt scaling)" in str(SplineCalibrator().fit(*world()))
    assert "no curvature: slope " in str(SplineCalibrator(penalty=np.inf).fit(*world()))


def test_heaps_of_scores_near_zero_and_one_are_no_trouble(subtests):
    """As naive Bayes makes them; with these seeds slopes between the heaps have no say, and a matrix no inverse."""
    for seed in [6, 92, 95, 108, 114, 118]:
        with subtests.test(seed=seed):
            rng = np.random.default_rng(seed)
            x = rng.normal(0.0, 300.0, 100)
            cal = SplineCalibrator().fit(
                expit(x), rng.random(100) < np.where(x > 0, 0.5, 0.0), score_type="probability"
            )
            assert 0.0 < cal.freedom_ < 30.0
            assert np.all(np.diff(cal.transform(np.linspace(0.0, 1.0, 101))) >= 0.0)
