"""Venn-Abers: the fast fit against refits by hand and by brute force."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression
from sklearn.exceptions import NotFittedError

from calibrant import InputError, NoCertificate, VennAbers
from calibrant.fits.venn_abers import fit_venn, with_one_event
from calibrant.messages import CalibrantWarning
from calibrant.numerics import Grid
from calibrant.tallies import Tally


def refitted(scores, y, s, label, weights=None):
    """The value at s of the isotonic regression of all rows and one more, (s, label)."""
    w = np.ones(len(y)) if weights is None else weights
    scores, y, w = np.append(scores, s), np.append(y, label), np.append(w, 1.0)
    keys, where = np.unique(scores, return_inverse=True)
    n = np.bincount(where, w)
    rates = np.bincount(where, w * y) / n
    return isotonic_regression(rates, weights=n).x[np.searchsorted(keys, s)]


def probes_of(scores):
    """Every score, the floats beside it, the middles between them, and both ends."""
    keys = np.unique(scores)
    near = [np.nextafter(keys, 2.0), np.nextafter(keys, -1.0), (keys[1:] + keys[:-1]) / 2]
    return np.clip(np.concatenate([keys, *near, [0.0, 1.0]]), 0.0, 1.0)


def quietly(scores, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return VennAbers().fit(scores, y, score_type="probability", **options)


def test_four_rows_by_hand():
    # Rows 0, 1, 0, 1 at 0.1 to 0.4. (0.25, 0): blocks 0 | 1 0 0 | 1, so p0 = 1/3; (0.25, 1): 0 | 1 1 0 | 1, p1 = 2/3.
    # (0.4, 0): 0 | 1 0 | {1, 0}, the last cell has rate 1/2 and joins 1 0: 2/4. (0.4, 1): the cell has rate 1.
    # (0.1, 0): the first cell stays at 0. (0.1, 1): {0, 1} | 1 0 | 1: 1/2 and 1/2, one block of 2/4.
    # (0.0, 1): before everything: {1} {0} {1} {0} {1} pools to 1 0 | 1 0 | 1: 1/2. (0.5, 0): 0 | 1 0 | 1 0: 2/4.
    cal = VennAbers().fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    p0, p1 = cal.interval([0.25, 0.4, 0.1, 0.0, 0.5])
    np.testing.assert_allclose(p0, [1 / 3, 1 / 2, 0.0, 0.0, 1 / 2], rtol=0, atol=1e-15)
    np.testing.assert_allclose(p1, [2 / 3, 1.0, 1 / 2, 1 / 2, 1.0], rtol=0, atol=1e-15)
    # p1 / (1 - p0 + p1): (2/3) / (4/3), 1 / (3/2), (1/2) / (3/2), the same, 1 / (3/2)
    expected = [1 / 2, 2 / 3, 1 / 3, 1 / 3, 2 / 3]
    np.testing.assert_allclose(cal.transform([0.25, 0.4, 0.1, 0.0, 0.5]), expected, rtol=0, atol=1e-15)


def test_one_score_gives_the_rule_of_succession():
    # k events in n rows: p0 = k/(n+1), p1 = (k+1)/(n+1), so the point is (k+1)/(n+2).
    cal = VennAbers().fit(np.full(10, 0.3), [1] * 3 + [0] * 7)
    p0, p1 = cal.interval([0.3])
    assert (p0[0], p1[0]) == (3 / 11, 4 / 11)
    assert cal.transform([0.3])[0] == pytest.approx(4 / 12, abs=1e-15)


def test_it_is_the_refit_for_every_score(subtests):
    for decimals in [1, 2, None]:
        for n in [1, 2, 3, 7, 40, 120]:
            with subtests.test(decimals=decimals, n=n):
                rng = np.random.default_rng([n, 0 if decimals is None else decimals])
                for _ in range(3):
                    scores = rng.random(n) if decimals is None else rng.random(n).round(decimals)
                    y = (rng.random(n) < scores).astype(int)
                    probes = probes_of(scores)
                    p0, p1 = quietly(scores, y).interval(probes)
                    for label, found in ((0, p0), (1, p1)):
                        expected = [refitted(scores, y, s, label) for s in probes]
                        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=12),
)
@settings(max_examples=100, deadline=None)
def test_one_more_event_in_each_cell_is_the_refit(cells):
    n = np.array([rows for rows, _ in cells])
    events = np.minimum([hits for _, hits in cells], n)
    rise, run = with_one_event(n, events)
    for k in range(len(n)):
        more_n, more = n + (np.arange(len(n)) == k), events + (np.arange(len(n)) == k)
        expected = isotonic_regression(more / more_n, weights=more_n.astype(float)).x[k]
        assert rise[k] / run[k] == pytest.approx(expected, abs=1e-12)


def test_real_weights_are_those_of_a_weighted_refit():
    rng = np.random.default_rng(3)
    scores, y, w = rng.random(60).round(2), rng.random(60) < 0.4, rng.random(60) + 0.1
    w *= Tally.from_arrays(scores, y, w).effective_size / w.sum()  # in effective rows, of which the new row is one
    p0, p1 = VennAbers().fit(scores, y, w).interval(scores)
    np.testing.assert_allclose(p0, [refitted(scores, y, s, 0, w) for s in scores], rtol=0, atol=1e-12)
    np.testing.assert_allclose(p1, [refitted(scores, y, s, 1, w) for s in scores], rtol=0, atol=1e-12)


def test_the_point_forecast_keeps_off_zero_and_one(subtests):
    for name, (scores, y) in {
        "0 and 1": ([0.0, 1.0], [0, 1]),
        "one row": ([0.0], [1]),
        "separated": (np.linspace(0, 1, 50), np.linspace(0, 1, 50) > 0.5),
        "no event": (np.linspace(0, 1, 50), np.zeros(50, dtype=int)),
        "only events": (np.linspace(0, 1, 50), np.ones(50, dtype=int)),
    }.items():
        with subtests.test(name):
            cal = quietly(scores, y)
            out, (p0, p1) = cal.transform(np.linspace(0, 1, 301)), cal.interval(np.linspace(0, 1, 301))
            n = len(scores)
            assert out.min() >= 1 / (n + 2) - 1e-15
            assert out.max() <= (n + 1) / (n + 2) + 1e-15
            assert (p0 <= p1).all()
            assert (p0 < 1).all()
            assert (p1 > 0).all()


def test_all_three_never_fall_and_the_point_lies_between():
    rng = np.random.default_rng(4)
    scores = rng.random(2000)
    cal = VennAbers().fit(scores, rng.random(2000) < scores)
    probes = np.sort(np.concatenate([rng.random(2000), scores]))
    p0, p1 = cal.interval(probes)
    point = cal.transform(probes)
    for found in (p0, p1, point):
        assert (np.diff(found) >= 0).all()
    assert ((p0 <= point) & (point <= p1)).all()


def test_a_grid_comes_close_and_ties_whole_cells():
    rng = np.random.default_rng(5)
    scores = rng.random(3000)
    y = rng.random(3000) < scores
    exact, grid = fit_venn(Tally.from_arrays(scores, y)), fit_venn(Tally.from_arrays(scores, y, grid=Grid()))
    probes = np.linspace(0, 1, 500)
    assert np.abs(exact.point.apply(probes) - grid.point.apply(probes)).mean() < 0.005
    table = Tally.from_table([10, 10], [2, 7], edges=[0.5])
    # One bin each side: (2 + 0)/11, (2 + 1)/11 below; 7/11, 8/11 above; point 3/12 and 8/12.
    np.testing.assert_allclose(fit_venn(table).point.values, [3 / 12, 8 / 12], rtol=0, atol=1e-15)


def test_calibration_in_the_large_holds_exactly_for_a_row_left_out():
    """Leave each row out, forecast it: by exchangeability the probability of its own label has the labels' mean."""
    rng = np.random.default_rng(6)
    scores = rng.random(40).round(1)
    y = (rng.random(40) < scores).astype(int)
    own = []
    for i in range(40):
        rest = np.arange(40) != i
        own.append(quietly(scores[rest], y[rest]).interval(scores[i : i + 1])[y[i]][0])
    assert np.mean(own) == pytest.approx(y.mean(), abs=1e-12)


def test_the_pair_takes_what_transform_takes():
    cal = VennAbers().fit([0.2, 0.6, 0.7], [0, 1, 0])
    p0, p1 = cal.interval(np.array([0.3, np.nan], dtype=np.float32))
    assert p0.dtype == p1.dtype == np.float32
    assert np.isnan(p0).tolist() == np.isnan(p1).tolist() == [False, True]
    with pytest.raises(InputError):
        cal.interval([1.5])
    with pytest.raises(NotFittedError):
        VennAbers().interval([0.5])


def test_no_certificate_and_the_reason():
    answer = VennAbers().fit([0.2, 0.6, 0.7], [0, 1, 0]).certificate()
    assert isinstance(answer, NoCertificate)
    assert "which one depends on the unknown label" in str(answer)
