"""Bayesian binning into quantiles: evidence and averages worked by hand."""

from __future__ import annotations

import warnings
from math import exp, lgamma

import numpy as np
import pytest
from tests import worlds

from calibrant import InputError, NoCertificate
from calibrant.calibrators import BayesianBinning
from calibrant.fits.bayesian_binning import fit_averaged
from calibrant.messages import CalibrantWarning
from calibrant.numerics import Grid
from calibrant.tallies import Tally


def beta(a, b):
    return exp(lgamma(a) + lgamma(b) - lgamma(a + b))


def test_two_binnings_by_hand():
    # Scores 0.2 and 0.8 with 1 and 3 events in 4 rows. Eight rows: sizes 1 to 20, of which the two cells allow two.
    # One bin: middle 1/2, prior Beta(1, 1), evidence B(5, 5) = 4! 4! / 9! = 1/630, output (4 + 1)/(8 + 2) = 1/2.
    # Two bins, cut at 0.8: middles 0.4 and 0.9, one prior row each: Beta(0.4, 0.6) and Beta(0.9, 0.1);
    # evidence B(1.4, 3.6)/B(0.4, 0.6) * B(3.9, 1.1)/B(0.9, 0.1), outputs 1.4/5 and 3.9/5.
    fitted = fit_averaged(Tally.from_arrays([0.2] * 4 + [0.8] * 4, [1, 0, 0, 0, 1, 1, 1, 0]))
    one = 1 / 630
    two = beta(1.4, 3.6) / beta(0.4, 0.6) * beta(3.9, 1.1) / beta(0.9, 0.1)
    assert fitted.counts.tolist() == [1, 2]
    np.testing.assert_allclose(fitted.weights, np.array([one, two]) / (one + two), rtol=1e-12)
    low, high = ((one * 0.5 + two * output) / (one + two) for output in (1.4 / 5, 3.9 / 5))
    np.testing.assert_allclose(fitted.map.apply([0.0, 0.2, 0.79, 0.8, 1.0]), [low, low, low, high, high], rtol=1e-12)
    assert one == pytest.approx(beta(5, 5), rel=1e-12)


def test_the_prior_counts_for_as_many_rows_as_asked():
    # One cell, 3 events in 4 rows, middle 1/2: (3 + N'/2) / (4 + N').
    tally = Tally.from_arrays([0.7] * 4, [1, 1, 1, 0])
    for rows in (1.0, 2.0, 50.0):
        out = fit_averaged(tally, prior_rows=rows).map.apply([0.3])[0]
        assert out == pytest.approx((3 + rows / 2) / (4 + rows), rel=1e-12)


def test_it_is_the_average_of_all_binnings_by_brute_force():
    scores, y = worlds.inflated(200, seed=3, decimals=2)
    fitted = fit_averaged(Tally.from_arrays(scores, y), spread=3.0)
    order = np.argsort(scores, kind="stable")
    scores, y = scores[order], y[order]
    keys = np.unique(scores)
    seen, evidence, outputs = set(), [], []
    for size in range(1, 19):  # 200^(1/3) = 5.85: from 5.85/3, rounded down, to 17.5, rounded up
        ends = {scores[int(np.ceil(200 * k / size - 1e-9)) - 1] for k in range(1, size)} - {keys[-1]}
        edges = np.array(sorted(keys[np.searchsorted(keys, end) + 1] for end in ends))
        if edges.tobytes() in seen:
            continue
        seen.add(edges.tobytes())
        index = np.searchsorted(edges, scores, side="right")
        n, hits = np.bincount(index), np.bincount(index, y)
        all_edges = np.concatenate([[0.0], edges, [1.0]])
        middle, rows = (all_edges[1:] + all_edges[:-1]) / 2, 2.0 / len(n)
        a, b = rows * middle, rows * (1 - middle)
        log_beta = np.vectorize(lambda p, q: lgamma(p) + lgamma(q) - lgamma(p + q))
        evidence.append((log_beta(hits + a, n - hits + b) - log_beta(a, b)).sum())
        outputs.append(((hits + a) / (n + rows))[index])
    weights = np.exp(np.array(evidence) - max(evidence))
    expected = np.average(outputs, axis=0, weights=weights)
    np.testing.assert_allclose(fitted.map.apply(scores), expected, rtol=0, atol=2e-6)


def test_few_bins_for_a_flat_truth_and_more_for_a_wild_one():
    rng = np.random.default_rng(4)
    scores = rng.random(20_000)
    flat = BayesianBinning().fit(scores, rng.random(20_000) < 0.3)
    wild = BayesianBinning().fit(scores, rng.random(20_000) < 0.5 + 0.4 * np.sin(40 * scores))
    assert flat.n_bins_[np.argmax(flat.weights_)] <= 3
    assert wild.n_bins_[np.argmax(wild.weights_)] >= 20
    assert "most probable" in str(wild)


def test_a_million_rows_need_991_sizes():
    tally = Tally.from_arrays(*worlds.inflated(10**6), grid=Grid())
    fitted = fit_averaged(tally)
    assert (fitted.counts.min(), fitted.counts.max(), len(fitted.counts)) == (10, 1000, 991)
    probes = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(fitted.map.apply(probes), probes**2, rtol=0, atol=0.03)


def test_weights_are_repetition_and_merging_changes_nothing():
    scores, y = worlds.inflated(300, decimals=2)
    w = np.random.default_rng(1).integers(0, 4, 300)
    repeated = BayesianBinning().fit(np.repeat(scores, w), np.repeat(y, w))
    assert BayesianBinning().fit(scores, y, w, weight_type="frequency").map_ == repeated.map_
    halves = Tally.from_arrays(scores[:90], y[:90]) + Tally.from_arrays(scores[90:], y[90:])
    assert BayesianBinning().fit_tally(halves).map_ == BayesianBinning().fit(scores, y).map_


def test_few_rows_one_class_and_constant_scores(subtests):
    for name, (scores, y) in {
        "one row": ([0.0], [0]),
        "one event": ([1.0], [1]),
        "tied": ([0.2, 0.2], [0, 1]),
        "0 and 1": ([0.0, 1.0], [0, 1]),
        "one class": (np.full(500, 0.4), np.ones(500)),
    }.items():
        with subtests.test(name):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrantWarning)
                cal = BayesianBinning().fit(scores, np.asarray(y, dtype=int), score_type="probability")
            out = cal.transform(np.linspace(0, 1, 11))
            assert ((out > 0) & (out < 1)).all()


def test_a_users_own_bins_are_cells():
    cal = BayesianBinning().fit_tally(Tally.from_table([100, 100, 100], [5, 40, 95], edges=[0.3, 0.7]))
    np.testing.assert_allclose(cal.transform([0.1, 0.5, 0.9]), [0.05, 0.4, 0.95], rtol=0, atol=0.01)


def test_what_has_no_meaning_is_refused():
    scores, y = worlds.inflated(50)
    for options in ({"spread": 0.5}, {"spread": "10"}, {"spread": np.nan}, {"prior_rows": 0}, {"prior_rows": True}):
        with pytest.raises(InputError, match=next(iter(options))):
            BayesianBinning(**options).fit(scores, y)
    with pytest.raises(InputError, match="probabilities"):
        BayesianBinning().fit(scores * 9 - 4, y, score_type="logit")
    assert isinstance(BayesianBinning().fit(scores, y).certificate(), NoCertificate)
