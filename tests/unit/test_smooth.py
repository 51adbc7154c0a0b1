"""Smooth calibration error: the definition by quadrature, relplot's numbers, the null value, edges."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import norm

from calibrant.messages import InputError
from calibrant.metrics.binary.smooth import smooth_ece
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")


def half(s: np.ndarray) -> np.ndarray:
    return 0.3 + 0.4 * s


# Name, rows, scores from a uniform number, true curve; then what relplot 1.0.3 (numpy 2.4.6) gives: smECE, and
# smECE_sigma at 0.02 and at 0.1.
WORLDS = {
    "middle": (2000, lambda u: 0.2 + 0.6 * u, lambda s: s**1.5, (0.1326055571, 0.1326146302, 0.1326123035)),
    "calibrated": (1000, lambda u: 0.3 + 0.4 * u, lambda s: s, (0.0310978492, 0.0358615392, 0.0184084024)),
    "tied": (3000, lambda u: np.round(0.15 + 0.7 * u, 1), half, (0.1014926653, 0.1081102537, 0.1017330531)),
    "whole": (2000, lambda u: u, lambda s: s**1.5, (0.1087682023, 0.1088622309, 0.1087501925)),
    "ends": (3000, lambda u: np.round(u, 1), lambda s: 0.1 + 0.8 * s, (0.0396340022, 0.0412448323, 0.0353256545)),
}


def world(name: str) -> tuple[np.ndarray, np.ndarray, tuple[float, float, float]]:
    n, to_score, curve, reference = WORLDS[name]
    rng = np.random.default_rng([23, list(WORLDS).index(name)])
    scores = to_score(rng.random(n))
    return scores, (rng.random(n) < curve(scores)).astype(int), reference


def by_quadrature(scores: np.ndarray, y: np.ndarray, sigma: float) -> float:
    """The definition, with the images of each score beyond 0 and 1 written out."""
    distinct, index = np.unique(scores, return_inverse=True)
    mass = np.bincount(index, y - scores) / len(scores)
    t = np.linspace(0, 1, 2001)
    smooth = np.zeros_like(t)
    for image in (distinct, -distinct, 2 - distinct, 2 + distinct, distinct - 2):
        for at in range(0, len(distinct), 250):
            part = slice(at, at + 250)
            smooth += (norm.pdf((t[:, None] - image[part]) / sigma) / sigma * mass[part]).sum(axis=1)
    size = np.abs(smooth)
    return float((size.sum() - (size[0] + size[-1]) / 2) * (t[1] - t[0]))


def test_it_is_the_definition(subtests):
    for name in ["calibrated", "tied", "ends"]:
        for sigma in [0.02, 0.2]:
            with subtests.test(name=name, sigma=sigma):
                scores, y, _ = world(name)
                ours = smooth_ece(scores, y, bandwidth=sigma, null=False).value
                assert ours == pytest.approx(by_quadrature(scores, y, sigma), rel=3e-5)


def test_the_value_is_the_bandwidth_at_which_it_is_taken(subtests):
    for name in WORLDS:
        with subtests.test(name=name):
            scores, y, _ = world(name)
            value = smooth_ece(scores, y, null=False).value
            assert smooth_ece(scores, y, bandwidth=value, null=False).value == pytest.approx(value, rel=1e-6)


def test_it_is_relplots_number_where_no_score_is_near_an_end(subtests):
    for name in ["middle", "calibrated", "tied"]:
        with subtests.test(name=name):
            scores, y, (free, narrow, wide) = world(name)
            assert smooth_ece(scores, y, bandwidth=0.02, null=False).value == pytest.approx(narrow, rel=1e-3)
            assert smooth_ece(scores, y, bandwidth=0.1, null=False).value == pytest.approx(wide, rel=1e-3)
            # relplot's bandwidth is a multiple of 1/1024, ours the fixed point itself.
            assert smooth_ece(scores, y, null=False).value == pytest.approx(free, rel=2e-3)


@pytest.mark.parametrize(("name", "least"), [("whole", 0.001), ("ends", 0.03)])
def test_relplot_is_lower_where_scores_reach_the_ends(name, least):
    # It mirrors the mass at 0 and at 1 once, not twice, so that half of it is lost; the definition keeps it, see above.
    scores, y, (free, narrow, wide) = world(name)
    for ours, theirs in ((0.02, narrow), (0.1, wide), (None, free)):
        ratio = smooth_ece(scores, y, bandwidth=ours, null=False).value / theirs
        assert 1 + least < ratio < 1.06


def test_one_row_by_hand():
    # One residual of 0.5 in the middle has error 0.5 at every bandwidth.
    assert smooth_ece([0.5], [1]).value == pytest.approx(0.5, abs=1e-8)
    # Two rows that cancel at one score.
    assert smooth_ece([0.5, 0.5], [0, 1]).value == 0.0
    # Residuals 1 at 0 and -1 at 1, each half of the rows, wash out as the bandwidth grows.
    assert 0.4 < smooth_ece([0.0, 1.0], [1, 0]).value < 0.6


def test_scores_that_are_right_have_no_error_and_no_noise():
    result = smooth_ece([0.0, 1.0, 1.0], [0, 1, 1])
    assert (result.value, result.null, result.null_high) == (0.0, 0.0, 0.0)


def test_tiny_errors_are_found(subtests):
    for gap in [1e-3, 1e-5, 1e-7]:
        with subtests.test(gap=gap):
            value = smooth_ece([gap, gap], [0, 0]).value
            assert value == pytest.approx(gap, rel=1e-6, abs=1e-6)


def test_a_bad_bandwidth_is_refused(subtests):
    for bandwidth in [0.0, -1.0, 1.5, float("nan"), "a"]:
        with subtests.test(bandwidth=bandwidth), pytest.raises(InputError, match="bandwidth"):
            smooth_ece([0.5], [1], bandwidth=bandwidth)


@pytest.mark.parametrize("n", [30, 2000])
def test_the_null_is_what_calibrated_samples_show(n):
    rng = np.random.default_rng([7, n])
    scores = rng.random(n) ** 2
    seen = [smooth_ece(scores, rng.random(n) < scores, null=False).value for _ in range(200)]
    result = smooth_ece(scores, rng.random(n) < scores)
    assert result.null == pytest.approx(np.mean(seen), rel=0.08)
    assert result.null_high == pytest.approx(np.quantile(seen, 0.95), rel=0.15)


def test_the_null_depends_on_the_seed_alone():
    scores, y, _ = world("calibrated")
    order = np.random.default_rng(0).permutation(len(y))
    one = smooth_ece(scores, y, random_state=5)
    assert smooth_ece(scores[order], y[order], random_state=5) == one
    assert smooth_ece(scores, y, random_state=6).null != one.null
    halves = Tally.from_arrays(scores[:300], y[:300]) + Tally.from_arrays(scores[300:], y[300:])
    assert smooth_ece(halves, random_state=5).value == pytest.approx(one.value, rel=1e-12)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=20))
def test_weights_are_repetition(rows):
    s, y, w = (np.array(column) for column in zip(*rows, strict=True))
    assume(w.any())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighted = smooth_ece(s / 8, y, w, null=False).value
        repeated = smooth_ece(np.repeat(s / 8, w), np.repeat(y, w), null=False).value
    assert weighted == pytest.approx(repeated, abs=1e-9)
    assert 0.0 <= weighted <= 1.0


def test_weights_grid_and_table():
    scores, y, _ = world("whole")
    exact = smooth_ece(scores, y).value
    w = np.random.default_rng(0).random(len(y))
    assert smooth_ece(scores, y, w * 1e9).null == pytest.approx(smooth_ece(scores, y, w).null, rel=1e-9)
    assert smooth_ece(scores, y, w).null > smooth_ece(scores, y).null, "uneven weights are worth fewer rows"
    assert smooth_ece(Tally.from_arrays(scores, y, grid=Grid())).value == pytest.approx(exact, rel=1e-4)
    assert smooth_ece(Tally.from_table([2, 0], [2, 0], edges=[0.5], scores=[0.25, 0.75])).value == pytest.approx(0.75)


def test_every_label_opposite_to_its_score():
    for n in range(1, 12):
        assert smooth_ece(np.ones(n), np.zeros(n), null=False).value == pytest.approx(1.0, abs=1e-9)
        assert smooth_ece(np.zeros(n), np.ones(n), null=False).value == pytest.approx(1.0, abs=1e-9)
